"""Figures with dots: the experiments of `dperm.theory.simulate`, run with fixed seeds, beside their bounds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from dperm import theory
from dperm.report.style import COLOURS, figure, folded, save, styled
from dperm.theory import simulate

EPSILON, DELTA = 1.0, 1e-6


def _seed(number: int) -> np.random.Generator:
    return np.random.default_rng(number)


@styled
def measured_against_n(path: Path) -> None:
    """Measured excess risk (dots, 99.9 % intervals) under its bound (lines) while the number of records grows."""
    drawing, (panel,) = figure(height=5.6)
    ns = [100, 200, 400, 800, 1600]
    runs: list[tuple[str, Callable[[int], simulate.Experiment]]] = [
        ("Exponential mechanism, convex", lambda n: simulate.exponential_cone(_seed(n), n=n)),
        ("Output perturbation, smooth", lambda n: simulate.output_perturbation(_seed(n), n=n)),
        ("Objective perturbation, logistic", lambda n: simulate.objective_perturbation(_seed(n), n=n, strong_convexity=0.05)),
        ("Noisy gradient descent, logistic", lambda n: simulate.gradient_descent(_seed(n), n=n, steps=2 * n, repeats=60)),
    ]
    for name, run in runs:
        found = [run(n) for n in ns]
        panel.line(ns, [e.bound for e in found], f"{name}: bound", marks=0)
        panel.dots(ns, [e.mean for e in found], [3.29 * e.error() for e in found], f"{name}: measured", like=panel.used - 1)
    panel.words("Measured under the bound", "Number of records n (ε = 1)", "Excess empirical risk (mean scale)")
    panel.ticks("x", ns)
    drawing.legend(*panel.axes.get_legend_handles_labels(), loc="outside lower center")
    save(drawing, path)


@styled
def measured_ratio(path: Path) -> None:
    """Every experiment at once: measured / bound with a 99.9 % upper limit. Tight theorems sit at 1.

    An arrow means that no failure was seen.
    """
    drawing, (panel,) = figure(height=6.4)
    names = {
        "exponential-tail": "Exponential mechanism tail (failures)",
        "exponential-erm": "Exponential mechanism, convex",
        "output-perturbation": "Output perturbation, smooth",
        "objective-perturbation": "Objective perturbation, logistic",
        "projected-gradient": "Projected gradient, no noise",
        "gradient-descent": "Noisy gradient descent, logistic",
        "rank": "Rank theorem, logistic, d = 10,000",
        "rank-hard": "Rank theorem, hard data, d = 10,000",
        "composition": "Exact composition",
        "phased-sgd": "Phased SGD, mean estimation",
        "phased-sgd-hard": "Phased SGD, hard data",
        "generalisation-gap": "Generalisation gap, linear",
        "uniform-convergence": "Uniform convergence (failures)",
        "pac": "Private PAC learner (failures)",
    }
    found = [(name, simulate.EXPERIMENTS[key](_seed(7))) for key, name in names.items()]
    found.sort(key=lambda pair: pair[1].ratio)
    for height, (_, experiment) in enumerate(found):
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
    panel.axes.set_yticks(range(len(found)), [folded(name) for name, _ in found])
    panel.axes.set_xlim(8e-4, 2)
    save(drawing, path)


@styled
def rank_against_dimension(path: Path) -> None:
    """At rank 20 the excess ignores the dimension; with L and ‖θ*‖ fixed, hard data follow √rank and easy data stay below.

    Above: logistic rows of rank 20. Below: the hard data (absolute loss) have constant slope towards θ*; isotropic logistic rows
    have curvature 1/rank per direction, which cancels the rank-fold noise, so their excess per unit of ‖θ*‖ does not grow.
    """
    drawing, (left, right) = figure(2)
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
    save(drawing, path)


@styled
def separator(path: Path) -> None:
    """Linear separators in the plane: realisable data with a margin, agnostic data, and what a private learner picks."""
    drawing, panels = figure(2, height=4.9)
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
    drawing.legend(*panels[0].axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    save(drawing, path)
