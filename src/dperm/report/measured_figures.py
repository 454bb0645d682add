"""Figures with dots: the experiments of `dperm.theory.simulate`, run with fixed seeds, beside their bounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dperm import theory
from dperm.report.style import COLOURS, Panel, figure, folded
from dperm.theory import simulate

EPSILON, DELTA = 1.0, 1e-6


def _seed(number: int) -> np.random.Generator:
    return np.random.default_rng(number)


@figure(height=5.6)
def measured_against_n(panel: Panel) -> None:
    """Measured excess risk (dots, 99.9 % intervals) under its bound (lines) while the number of records grows."""
    ns = [100, 200, 400, 800, 1600]
    runs: tuple[Callable[[int], simulate.Experiment], ...] = (
        lambda n: simulate.exponential_cone(_seed(n), n=n),
        lambda n: simulate.output_perturbation(_seed(n), n=n),
        lambda n: simulate.objective_perturbation(_seed(n), n=n, strong_convexity=0.05),
        lambda n: simulate.gradient_descent(_seed(n), n=n, steps=2 * n, repeats=60),
    )
    for found in ([run(n) for n in ns] for run in runs):
        name, errors = found[0].name, [3.29 * e.error() for e in found]
        panel.line(ns, [e.bound for e in found], f"{name}: bound", marks=0)
        panel.dots(ns, [e.mean for e in found], errors, f"{name}: measured", like=panel.used - 1)
    panel.words("Measured under the bound", "Number of records n (ε = 1)", "Excess empirical risk (mean scale)")
    panel.ticks("x", ns)
    panel.key_below()


@figure(height=6.4)
def measured_ratio(panel: Panel) -> None:
    """Every experiment at once: measured / bound with a 99.9 % upper limit. Tight theorems sit at 1.

    An arrow means that no failure was seen.
    """
    found = sorted((run(_seed(7)) for run in simulate.EXPERIMENTS.values()), key=lambda experiment: experiment.ratio)
    for height, experiment in enumerate(found):
        low, high = experiment.mean / experiment.bound, experiment.upper(0.999) / experiment.bound
        panel.axes.plot([max(low, 1e-3), high], [height, height], color=COLOURS[0], linewidth=2)
        panel.axes.plot(high, height, marker="|", color=COLOURS[0], markersize=9, markeredgewidth=2)
        if low > 1e-3:
            panel.axes.plot(low, height, marker="o", color=COLOURS[0], markersize=7, zorder=3)
        else:
            panel.axes.plot(1e-3, height, marker="<", color=COLOURS[0], markersize=7)
    panel.axes.axvline(1.0, color=COLOURS[1], linewidth=1.6)
    panel.axes.annotate(
        "tight", (1.0, 0.4), xytext=(-4, 0), textcoords="offset points", ha="right", va="center", fontsize=9, color=COLOURS[1]
    )
    panel.words("How close each theorem is", "Measured / bound (bar: 99.9 % limit)", "", y_scale="linear")
    panel.axes.set_yticks(range(len(found)), [folded(experiment.name) for experiment in found])
    panel.axes.set_xlim(8e-4, 2)


@figure(2)
def rank_against_dimension(left: Panel, right: Panel) -> None:
    """At rank 20 the excess ignores the dimension; with L and ‖θ*‖ fixed, hard data follow √rank and easy data stay below.

    Above: logistic rows of rank 20. Below: the hard data (absolute loss) have constant slope towards θ*; isotropic logistic rows
    have curvature 1/rank per direction, which cancels the rank-fold noise, so their excess per unit of ‖θ*‖ does not grow.
    """
    dimensions = [20, 100, 500, 2000, 10_000]
    runs = [simulate.rank(_seed(3), d=d, rank=20, repeats=20) for d in dimensions]
    size = runs[0].bound / theory.rank_risk(400, 20, 1.0, 1.0, EPSILON, DELTA, steps=100)
    by_d = [theory.gradient_descent_risk(400, d, 1.0, size, epsilon=EPSILON, delta=DELTA, steps=100) for d in dimensions]
    left.line(dimensions, by_d, "Bound by dimension", marks=9)
    left.line(dimensions, [e.bound for e in runs], "Bound by rank", marks=9)
    left.dots(dimensions, [e.mean for e in runs], [3.29 * e.error() for e in runs], "Measured")
    left.words("Rank 20, dimension grows", "Number of weights d", "Excess empirical risk")
    left.axes.legend()
    ranks = [2, 5, 10, 20, 40, 80]
    unit = [theory.rank_risk(400, r, 1.0, 1.0, EPSILON, DELTA, steps=400) for r in ranks]
    hard = [simulate.rank_hard(_seed(3), d=10_000, rank=r, repeats=8) for r in ranks]
    easy = [simulate.rank(_seed(3), d=2_000, rank=r, steps=400, repeats=20) for r in ranks]
    # every rank has its own logistic data with its own ‖θ*‖, which grows; the bound is proportional to it, so it is divided out
    sizes = [e.bound / u for e, u in zip(easy, unit)]
    right.used = 1
    right.line(ranks, unit, "Bound by rank", marks=9)
    right.used = 3
    right.dots(ranks, [e.mean for e in hard], [3.29 * e.error() for e in hard], "Measured, hard data (d = 10,000)")
    right.used = 2
    right.dots(
        ranks, [e.mean / s for e, s in zip(easy, sizes)], [3.29 * e.error() / s for e, s in zip(easy, sizes)],
        "Measured, isotropic logistic (d = 2,000)",
    )  # fmt: skip
    right.words("Rank grows", "Rank of the data", "Excess risk / norm of the minimiser")
    right.ticks("x", ranks)
    right.axes.set_ylim(0.005, 0.6)
    right.axes.legend(loc="upper left")


@figure(2, height=4.9)
def separator(*panels: Panel) -> None:
    """Linear separators in the plane: realisable data with a margin, agnostic data, and what a private learner picks."""
    source = _seed(5)
    samples = (theory.make_separable(source, 150, 2, margin=0.06), theory.make_agnostic(source, 150, 2, flip=0.12))
    for panel, sample, title in zip(panels, samples, ("Realisable, margin 0.06", "Agnostic, 12 % of labels flipped")):
        rules = theory.make_separators(source, 400, 2)
        correct = np.sum(sample.y[:, None] * (sample.augmented @ rules.T) > 0, axis=0).astype(float)
        law = theory.exponential_probabilities(correct, 1.0, 1.0)
        # one draw by inversion of the mechanism's law at ε = 1
        chosen = int(np.searchsorted(np.cumsum(law), source.random()))
        for label, marker, colour in ((1.0, "o", COLOURS[0]), (-1.0, "s", COLOURS[1])):
            points = sample.X[sample.y == label]
            panel.axes.plot(
                points[:, 0], points[:, 1], marker, markersize=4.5, color=colour, markeredgecolor="white",
                markeredgewidth=0.4, linestyle="none", label=f"Label {label:+.0f}",
            )  # fmt: skip
        for rule, name, dash, colour in (
            (sample.weights, "True separator", "-", "black"),
            (rules[chosen], "Private choice, ε = 1", (0, (5, 2)), COLOURS[2]),
        ):
            # the boundary ⟨w,x⟩ + b = 0 passes through the centre along the direction orthogonal to w
            along = np.array([-rule[1], rule[0]])
            ends = np.array([0.5, 0.5]) + np.array([[-1.0], [1.0]]) * along
            panel.axes.plot(ends[:, 0], ends[:, 1], color=colour, linestyle=dash, linewidth=2, label=name)
        wrong = len(sample.y) - correct[chosen]
        panel.words(
            f"{title}\nprivate rule errs on {wrong:.0f} of {len(sample.y)}",
            "First feature",
            "Second feature",
            x_scale="linear",
            y_scale="linear",
        )
        panel.axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        panel.axes.grid(False)
    panels[0].key_below(columns=2)
