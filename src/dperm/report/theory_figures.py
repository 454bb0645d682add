"""Figures of the theory alone: curves of `dperm.theory`, no draws."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import numpy as np

from dperm import theory
from dperm.report.style import COLOURS, Panel, figure, folded
from dperm.theory import simulate

EPSILON, DELTA = 1.0, 1e-6
RISK_WORDS = "Excess empirical risk (mean scale, bound)"


def _mechanisms(n: float, d: float, epsilon: float) -> dict[str, float]:
    """Every mechanism's bound at L = 1 and a ball of radius ½ (diameter 1); not a number where it does not speak."""

    pure, gauss = {"epsilon": epsilon, "diameter": 1.0}, {"epsilon": epsilon, "delta": DELTA, "radius": 0.5}
    bounds: dict[str, tuple[Callable[..., float], dict[str, float]]] = {
        "Exponential mechanism, convex (pure)": (theory.exponential_erm_risk, {**pure, "convex": True}),
        "Exponential mechanism, Lipschitz (pure)": (theory.exponential_erm_risk, pure),
        "Output perturbation, best ridge": (theory.output_perturbation_risk, gauss),
        "Objective perturbation, logistic, best ridge": (theory.objective_perturbation_risk, {**gauss, "self_bounding": 1.0}),
        "Noisy gradient descent": (theory.gradient_descent_risk, gauss),
    }
    found = dict.fromkeys(bounds, float("nan"))
    for name, (bound, numbers) in bounds.items():
        with contextlib.suppress(theory.ConditionError):
            found[name] = bound(n, d, 1.0, **numbers)
    return found


def _risk_curves(panel: Panel, xs: Sequence[float], vary: str, words: str, title: str) -> None:
    rows = [_mechanisms(**{"n": 10**4, "d": 50, "epsilon": EPSILON, vary: x}) for x in xs]
    for name in rows[0]:
        panel.line(xs, [row[name] for row in rows], name)
    panel.reference(xs, [0.5] * len(xs), "Answering without data (LR)", dash="-")
    panel.words(title, words, RISK_WORDS)
    panel.axes.set_ylim(1e-5 if vary == "n" else 3e-4, 5)
    panel.key_below()


@figure(height=5.2)
def risk_against_n(panel: Panel) -> None:
    """Predicted excess risk of every mechanism against the number of records (d = 50, ε = 1, δ = 10⁻⁶, replace-one).

    Objective perturbation at its best ridge and noisy gradient descent have the same worst-case bound, κLB√d/(nμ).
    """
    _risk_curves(panel, np.geomspace(100, 10**7, 41).round().tolist(), "n", "Number of records n", "Risk falls with records")


@figure(height=5.2)
def risk_against_epsilon(panel: Panel) -> None:
    """Predicted excess risk of every mechanism against the privacy budget (n = 10,000, d = 50, δ = 10⁻⁶)."""
    _risk_curves(panel, np.geomspace(0.05, 10, 41).tolist(), "epsilon", "Privacy budget ε", "Risk falls with the budget")


@figure(height=5.2)
def risk_against_dimension(panel: Panel) -> None:
    """Predicted excess risk of every mechanism against the dimension (n = 10,000, ε = 1, δ = 10⁻⁶)."""
    dimensions = sorted({round(x) for x in np.geomspace(1, 1000, 41)})
    _risk_curves(panel, dimensions, "d", "Number of weights d", "Risk grows with dimension")


@figure()
def composition(panel: Panel) -> None:
    """Four ways to add up the privacy of the same Gaussian releases: basic, advanced as the lecture prints it, zCDP, exact."""
    counts = sorted({round(x) for x in np.geomspace(1, 10_000, 33)})
    names = {"basic": "Basic: ε's add up", "advanced": "Advanced, as printed", "zcdp": "zCDP", "exact": "Exact (Gaussian)"}
    for rule, name in names.items():
        panel.line(counts, [theory.composition_epsilon(1e-3, k, 1e-5, rule) for k in counts], name)
    panel.words("The same noise, four bills", "Number of releases k (noise variance Δ²/0.001 each)", "ε at δ = 10⁻⁵")
    panel.axes.legend()


@figure(2)
def accountants(left: Panel, right: Panel) -> None:
    """What the lectures' noise rules for noisy gradient descent really give, and how much noise each sound rule needs."""
    claims = np.geomspace(0.1, 8, 25)
    for rule, steps, name in (
        ("lecture-002", 100, "Lecture 002, any number of steps"),
        ("lecture-004", 1, "Lecture 004, 1 step"),
        ("lecture-004", 100, "Lecture 004, 100 steps"),
        ("zcdp", 100, "zCDP closed form"),
    ):
        true = [theory.noise_epsilon(1, 1, theory.gradient_noise(1, 1, c, 1e-5, steps, rule=rule), 1e-5, steps) for c in claims]
        left.line(claims, true / claims, name)
    left.reference(claims, np.ones_like(claims), "Claim kept", dash="-")
    left.words("Printed noise rules", "Claimed ε (δ = 10⁻⁵, replace-one)", "True ε / claimed ε", y_scale="linear")
    left.axes.legend(loc="upper left")
    left.axes.set_ylim(0.5, 3.4)
    steps_axis = sorted({round(x) for x in np.geomspace(1, 10_000, 25)})
    for rule, name in (("basic", "Basic"), ("advanced", "Advanced"), ("zcdp", "zCDP"), ("exact", "Exact")):
        noise = [theory.composition_rho(1.0, k, 1e-5, rule) ** -0.5 for k in steps_axis]
        right.line(steps_axis, noise, name)
    right.words("Noise for ε = 1, δ = 10⁻⁵", "Number of steps", "Noise standard deviation / sensitivity")
    right.axes.legend(loc="upper left")


@figure()
def sample_sizes(panel: Panel) -> None:
    """Records needed to learn over 1000 hypotheses: below ε = α privacy decides, above it privacy is free."""
    epsilons = np.geomspace(1e-4, 10, 41)
    for alpha in (0.01, 0.03, 0.1):
        sizes = [theory.pac_sample_size(1000, alpha, 0.05, float(e)) for e in epsilons]
        panel.line(epsilons, sizes, f"Excess error α = {alpha:g}")
        cross = theory.privacy_is_free_above(alpha)
        panel.star(cross, theory.pac_sample_size(1000, alpha, 0.05, cross), 15, markeredgewidth=0.7, zorder=5)
        panel.reference(epsilons, [theory.pac_sample_size(1000, alpha, 0.05)] * len(epsilons), "_", dash=(0, (1, 2)))
    panel.star([], [], 12, "white", label="ε = α")
    panel.axes.plot([], [], color="#666666", linestyle=(0, (1, 2)), label="Without privacy")
    panel.words("Privacy is free above ε = α", "Privacy budget ε (1000 hypotheses, failure β = 0.05)", "Records needed m")
    panel.axes.legend()


def _printed_ratio(bound: Callable[..., float], numbers: dict[str, float]) -> float:
    return bound(**numbers, as_printed=True) / bound(**numbers)


@figure(height=4.2)
def printed_and_corrected(panel: Panel) -> None:
    """The lectures' numbers beside the corrected ones: above 1 the print was too pessimistic, below 1 it promised too much."""
    erm = {"n": 10**4, "d": 10, "lipschitz": 1.0, "radius": 1.0, "epsilon": 1.0, "beta": 0.05}
    ranks = {"n": 1000, "rank": 20, "lipschitz": 1.0, "seminorm": 1.0, "epsilon": 1.0, "delta": 1e-5}
    learn = {"hypotheses": 1000, "alpha": 0.1, "beta": 0.05, "epsilon": 1.0}
    exact, printed = theory.composition_epsilon(1e-3, 100, 1e-5), theory.composition_epsilon(1e-3, 100, 1e-5, "advanced")
    rows = [
        ("Records of the private PAC learner (E34, E35)", _printed_ratio(theory.pac_sample_size, learn)),
        ("Projected gradient bound (E15)", _printed_ratio(theory.projected_gradient_risk, {"steps": 100, "diameter": 1.0})),
        ("Advanced composition, k = 100, ρ = 0.001 (E28)", printed / exact),
        ("Rank theorem, n = 1000, rank 20 (E25)", _printed_ratio(theory.rank_risk, ranks)),
        ("Exponential mechanism risk, d = 10 (E20)", _printed_ratio(theory.exponential_erm_risk, erm)),
        ("Privacy that its printed form keeps (E20)", 1 / theory.exponential_privacy_loss(1000, 1.0, as_printed=True)),
    ]
    for height, (_, ratio) in enumerate(reversed(rows)):
        good = ratio >= 1
        panel.axes.plot([1, ratio], [height, height], color=COLOURS[0 if good else 1], linewidth=3)
        panel.axes.plot(ratio, height, marker="o" if good else "X", markersize=9, color=COLOURS[0 if good else 1])
        panel.axes.annotate(
            f"{ratio:.2f}", (ratio, height), xytext=(8 if good else -8, 0), textcoords="offset points",
            ha="left" if good else "right", va="center", fontsize=9,
        )  # fmt: skip
    panel.axes.axvline(1.0, color="black", linewidth=1)
    panel.words("As printed / corrected", "Ratio (1 = the lecture's constant is right)", "", y_scale="linear")
    panel.axes.set_yticks(range(len(rows)), [folded(name) for name, _ in reversed(rows)])
    panel.axes.set_xticks([0.5, 1, 2, 5, 10], ["0.5", "1", "2", "5", "10"])
    panel.axes.set_xlim(0.25, 30)
    panel.axes.minorticks_off()


@figure()
def steps_against_risk(panel: Panel) -> None:
    """The bound of noisy gradient descent against the number of steps: it falls to a floor that only n, ε and d can lower."""
    steps = sorted({round(x) for x in np.geomspace(1, 10**8, 41)})
    for n in (1000, 10_000, 100_000):
        numbers = {"n": n, "d": 50, "lipschitz": 1.0, "diameter": 1.0, "epsilon": EPSILON, "delta": DELTA}
        panel.line(steps, [theory.gradient_descent_risk(**numbers, steps=t) for t in steps], f"n = {n:,}")  # type: ignore[arg-type]
        plan = theory.gradient_descent_plan(**numbers)  # type: ignore[arg-type]
        if plan.steps <= steps[-1]:
            panel.star(plan.steps, plan.risk, 14)
    panel.star([], [], 12, "white", label="Within 5 % of the floor")
    panel.words("More steps, then the floor", "Number of steps T (d = 50, ε = 1, δ = 10⁻⁶)", RISK_WORDS)
    panel.axes.legend()


@figure(2, height=4.8)
def lower_bounds(*panels: Panel) -> None:
    """What no private method can beat, as slopes without constants, beside what is achievable.

    Coloured lines are bounds, dots are measured: cones and quadratics (pure), hard absolute losses (gradient descent).
    """
    ns, large, small = np.geomspace(100, 10**6, 21).round(), (1000, 10**4, 10**5), (200, 800)
    cones = [simulate.exponential_cone(np.random.default_rng(n), n=n, d=50, radius=0.5, repeats=500) for n in large]
    # steps enough for the bound's limit: T > (nμ)²/(κ²d)
    runs = zip(small, (500, 4000))
    hard = [simulate.rank_hard(np.random.default_rng(n), n=n, d=50, rank=50, steps=steps) for n, steps in runs]
    # the experiment runs on the unit ball, where L = 2; on the ball of diameter 1 every risk is a quarter
    quadratics = [simulate.output_perturbation(np.random.default_rng(n), n=n, d=50, repeats=500) for n in large]
    for panel, kind, title in zip(panels, ("convex", "strongly-convex"), ("Convex losses", "Strongly convex losses")):
        if kind == "convex":
            pure = [theory.exponential_erm_risk(n, 50, 1.0, diameter=1.0, epsilon=EPSILON, convex=True) for n in ns]
            gauss = [theory.gradient_descent_risk(n, 50, 1.0, 1.0, epsilon=EPSILON, delta=DELTA) for n in ns]
        else:
            pure = [theory.output_perturbation_risk(n, 50, 1.0, 1.0, epsilon=EPSILON, smoothness=1.0) for n in ns]
            gauss = [theory.gradient_descent_risk(n, 50, 1.0, strong_convexity=1.0, epsilon=EPSILON, delta=DELTA) for n in ns]
        name = "Exponential mechanism" if kind == "convex" else "Output perturbation, smooth"
        panel.line(ns, pure, f"{name} (pure): bound", marks=0)
        panel.line(ns, gauss, "Noisy gradient descent (δ = 10⁻⁶): bound", marks=0)
        if kind == "convex":
            panel.dots(large, [e.mean for e in cones], [0.0] * 3, "Measured, cones", like=0)
            panel.dots(small, [e.mean for e in hard], [0.0] * 2, "Measured, hard data", like=1)
        else:
            panel.dots(large, [e.mean / 4 for e in quadratics], [0.0] * 3, "Measured, quadratics", like=0)
        panel.reference(ns, [theory.lower_bound(kind, n, 50, EPSILON) for n in ns], "Pure lower bound (slope only)", dash="-")
        panel.reference(ns, [theory.lower_bound(kind, n, 50, EPSILON, DELTA) for n in ns], "(ε, δ) lower bound (slope only)")
        panel.words(title, "Number of records n (d = 50, ε = 1)", "Excess empirical risk (L = diameter = 1)")
        panel.axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.45, -0.17))


@figure()
def logistic_sensitivity(panel: Panel) -> None:
    """How far one record moves the logistic gradient when the weights stay in a ball: less than the usual 2R and R."""
    reaches = np.geomspace(0.05, 100, 41)
    panel.line(reaches, [theory.gradient_sensitivity(parameter_radius=b) for b in reaches], "Replace-one, exact")
    panel.line(
        reaches, [theory.gradient_sensitivity(parameter_radius=b, relation="zero-out") for b in reaches], "Zero-out, exact"
    )
    panel.reference(reaches, [2.0] * len(reaches), "Replace-one, usual bound 2R", dash="-")
    panel.reference(reaches, [1.0] * len(reaches), "Zero-out, usual bound R")
    panel.words(
        "Sensitivity of the logistic gradient", "Largest margin: radius of the weights × row norm", "Sensitivity / row norm R",
        y_scale="linear",
    )  # fmt: skip
    panel.axes.set_ylim(0.4, 2.15)
    panel.axes.legend(loc="upper left", bbox_to_anchor=(0.0, 0.9))
