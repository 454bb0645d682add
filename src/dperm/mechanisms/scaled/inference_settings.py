"""The rule of `scaled-inference`: from public numbers to budget shares, and from released numbers to every setting and error.

Radius and clip follow from `room`, the noise that is accepted relative to the sampling error, so that weights and clips fade out
as n grows and the target becomes the ordinary one. Everything here is pure; `verify` replays it on the released values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dperm.mechanisms.conditions import BOUNDED_ROWS, GAUSSIAN, unmet
from dperm.mechanisms.scaled import inference_quantile as quantile_rule
from dperm.mechanisms.scaled import poisson_settings as poisson_rule
from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled import whitening
from dperm.mechanisms.scaled.one_step import OneStep, Released, one_step
from dperm.mechanisms.scaled.poisson_counts import tail_cap
from dperm.mechanisms.scaled.several_classes import CLASS_COUNTS, CLASS_SHARE, by_combination, free_parameters, several, terms_of
from dperm.privacy import gaussian_mu, kappa
from dperm.problem import Problem
from dperm.release.noise import gaussian_scale
from dperm.release.plan import Settings, Shape, Target, Vector
from dperm.terms.affine import Features
from dperm.terms.inference import CountScore, LogisticScore, QuantileScore, ResidualScore, Score, WeightedScore
from dperm.terms.moments import smat
from dperm.terms.softmax import SoftmaxScore

# Which family a loss belongs to; the smoothed pinball loss and the clipped residuals are the ones that have a curvature.
FAMILIES = {
    "logistic": "logistic",
    "multinomial": "softmax",
    "squared": "linear",
    "huber": "linear",
    "poisson": "counts",
    "quantile": "quantile",
}
SCORES_SHARE, NUMBERS_SHARE = 0.05, 0.01
LEAST_CURVATURE_SHARE, MOST_CURVATURE_SHARE = 0.10, 0.20
EARLY_SHARE = 0.15  # of the descent's μ², for the first third of the steps; the window has the rest
# `accepted` is the noise relative to the sampling error of a well-conditioned column; `spread` the deviation of a score in its
# own units; `steep` the largest curvature over the usual one.
ACCEPTED = {"logistic": 0.5, "softmax": 0.5, "quantile": 0.5, "linear": 0.7, "counts": 0.7}
SPREAD = {"quantile": 0.5, "linear": 0.71, "counts": 0.71}
STEEP = {"logistic": 1.7, "quantile": 1.3, "linear": 1.3, "counts": 1.3}
RESOLVED = 0.5  # the matrix' noise edge over the usual curvature that the radius leaves
# While weights still move the target of a table with long rows, 2.4 times as much noise is accepted.
GENEROUS, WIDE_ENOUGH = 2.4, 1.75
SMALLEST_CLIP = {"linear": 1.5, "counts": 2.0}
LARGEST_CLIP, LARGEST_RADIUS = 6.0, 4.0
NOISE_OF_TAILS = 4.0  # how much dearer noise is than in the sum that balances a total
SMOOTHING = 0.7  # of the residuals' scale, for a quantile whose score is smoothed
HORIZONS = {"logistic": 2.0, "softmax": 2.0, "quantile": 1.0, "linear": 3.0, "counts": 2.0}
# Longest flow time of counts whose rows are whitened: the curvature is about 1 in every direction that can be told, so 20 is long
# enough, and a path that noise moves further is bent by the exponential of long rows.
LONGEST = {"counts": 20.0}
SHORT_HORIZON = 1.0  # of log-odds in fits of version 0.2.0, which stopped steep ones short
MOST_COLUMNS = 500  # the record holds both matrices


class Limits(NamedTuple):
    """R, the clip of residuals (for a quantile the width h; unused for log-odds), the residual scale behind it, and whether the
    score of a quantile is its own and not a smoothed one."""

    radius: float
    clip: float
    scale: float
    sharp: bool = False


def family(problem: Problem) -> str:
    return FAMILIES[problem.loss.name]


def curvature_share(problem: Problem, shape: Shape, target: Target) -> float:
    """(√2·κ_m·p^1.5/(0.3·μn))² in 10 … 20 %: what keeps the matrix' noise edge at 0.3 of a unit curvature."""
    p, mu = free_parameters(problem, shape), gaussian_mu(target.epsilon, target.delta)
    unit = math.sqrt(2.0 * kappa(target.relation)) * target.rows_per_person
    wanted: float = (unit * p**1.5 / (0.3 * mu * shape.n)) ** 2
    return min(max(wanted, LEAST_CURVATURE_SHARE), MOST_CURVATURE_SHARE)


def shares(
    problem: Problem, shape: Shape, target: Target, kinds: Sequence[str], *, weighted: bool = False, gaps: Sequence[int] = (),
    sharp: bool = True,
) -> dict[str, float]:
    """Stage name → μ of its event; the squares add up to μ(ε, δ)², and the descent has what the others leave. `weighted`: rows
    have weights, which are exposures for counts."""
    names = rule.statistics(problem, kinds, positives=True, gaps=gaps)
    table: dict[str, float] = {}
    if family(problem) == "counts":
        names = [name for name in names if name != "label mean"]
        names += ["count scale", "count sum", *(["exposure sum"] if weighted else [])]
        table = {name: poisson_rule.SHARES[name] for name in names if name in poisson_rule.SHARES}
        table["count sum"] = max(table["count sum"], rule.label_share(shape, target))
    if several(problem):
        names, table = [*names, CLASS_COUNTS], {CLASS_COUNTS: CLASS_SHARE}
    regression = not problem.loss.classification
    names += ["residuals", "descent", "residuals again"] if regression else ["descent"]
    if sharp and family(problem) == "quantile":
        names.append("residuals near")
    measured = regression or weighted  # without weights the scores of log-odds have the variance that their curvature says
    names += ["curvature", "scores", *(["scale numbers"] if measured else [])]
    parts = {**table, **rule.parts_of(names, shape, target), "curvature": curvature_share(problem, shape, target)}
    if "residuals near" in names:
        parts["residuals near"] = quantile_rule.HISTOGRAM_SHARE
    parts |= {"scores": SCORES_SHARE, **({"scale numbers": NUMBERS_SHARE} if measured else {})}
    return rule.budget(names, parts, target)


def highest_curvature(rate: float | None) -> float:
    """min(1/4, 6π(1 - π)): where positives are rare no row's p(1 - p) needs more."""
    return 0.25 if rate is None else min(0.25, 6.0 * rate * (1.0 - rate))


def room(public: rule.Public, size: float, rate: float | None) -> float:
    """a·b·μ_descent·√n/(κS): bound of a row's score, in units of S times the residual scale, whose noise is accepted.

    `rate` is the share of positives; of several classes the mean curvature of a combination (`unevenness`).
    """
    problem, named, mu = public.problem, family(public.problem), rule.effective_mu(public.budget["descent"], public.target)
    if named == "softmax":  # the variance of a combination's score, over the square of its bound √2
        spread = math.sqrt(0.36 * (1.0 / problem.loss.margins if rate is None else rate))
    else:
        half = 0.25 if rate is None else rate * (1.0 - rate)
        spread = math.sqrt(0.72 * half) if named == "logistic" else SPREAD[named]
    return ACCEPTED[named] * spread * mu * math.sqrt(public.shape.n) / size


def resolving(public: rule.Public, size: float, rate: float | None, near: float | None = None) -> float:
    """Largest R/S that keeps the curvature matrix above its noise; `near` is the share of rows that tell it for a quantile."""
    problem, shape, target = public.problem, public.shape, public.target
    if several(problem):  # 1.7 for two classes, and as much less curved as there are more
        steep = 0.85 * problem.loss.margins
        steep = steep if rate is None else max(steep, 0.5 / (0.72 * rate))
    else:
        steep = STEEP[family(problem)] if near is None else 1.0 / near
        if rate is not None:
            steep = max(steep, highest_curvature(rate) / (0.72 * rate * (1.0 - rate)))
    unit = math.sqrt(kappa(target.relation)) * target.rows_per_person * steep * math.sqrt(2.0 * free_parameters(problem, shape))
    return math.sqrt(RESOLVED * public.budget["curvature"] * shape.n / unit) / size


def limits(
    public: rule.Public, size: float, rate: float | None, scale: float, clip_factor: float | None, near: float | None = None
) -> Limits:
    """Radius and clip. A Huber regression keeps the caller's threshold; `clip_factor` fixes the clip in residual scales; `near`
    is the width for a quantile whose score is not smoothed."""
    problem, named = public.problem, family(public.problem)
    share = None if near is None else quantile_rule.near_share(problem.loss.level)  # type: ignore[attr-defined]
    free, most = room(public, size, rate), resolving(public, size, rate, share)

    def radius(wanted: float) -> float:
        return min(max(min(wanted, most), 1.0), LARGEST_RADIUS) * size

    if named in ("logistic", "softmax", "quantile"):
        reach = radius(max(free, min(GENEROUS * free, WIDE_ENOUGH)))
        return Limits(reach, SMOOTHING * scale if near is None else near, scale, near is not None)
    if problem.loss.name == "huber" or clip_factor is not None:
        clip = math.inf if clip_factor is None else clip_factor * scale
        if problem.loss.name == "huber":
            clip = min(clip, float(problem.loss.threshold))  # type: ignore[attr-defined]
        return Limits(radius(free * scale / clip), clip, scale)
    reach = radius(math.sqrt(free / 2.0))
    return Limits(reach, min(max(free * size / reach, SMALLEST_CLIP[named]), LARGEST_CLIP) * scale, scale)


def tailed(public: rule.Public, released: Mapping[str, Any], name: str, bound: Limits, mean_rate: float) -> Limits:
    """The clip of counts, wider where their residuals have a tail that it would cut off.

    What it cuts off is missing in the level alone, and the noise is in every coefficient: noise of k·R counts four times what
    `tail_cap` counts it in a sum.
    """
    n, window = public.shape.n, public.budget["descent"] * math.sqrt(1.0 - EARLY_SHARE)
    cost = NOISE_OF_TAILS * bound.radius / (rule.effective_mu(window, public.target) * n)
    counts = np.asarray(released[name], dtype=np.float64)
    cap = poisson_rule.residual_top(public.problem, mean_rate, 1.0) * tail_cap(counts, public.count_noise(name), n, cost)
    return bound._replace(clip=max(cap, bound.clip))


def descent_settings(public: rule.Public, scaled: Settings, bound: Limits) -> Settings:
    """Flow time, steps and step size, by the same rule as `scaled-gradient`: noise in a flat direction reaches `horizon`."""
    problem, shape, mu = public.problem, public.shape, public.budget["descent"]
    named, size = family(problem), scaled["size"]
    if named == "logistic":
        strength, curvature = bound.radius / size, 0.25
    elif named == "softmax":  # √K in the noise ratio is taken back: a combination has the noise of log-odds
        strength, curvature = 2.0 * bound.radius / (size * math.sqrt(problem.loss.margins)), 0.5
    elif named == "quantile":
        level = problem.loss.level  # type: ignore[attr-defined]
        strength, curvature = max(level, 1.0 - level) * bound.radius / size, 0.5 / SMOOTHING
    else:
        strength, curvature = bound.clip * bound.radius / (bound.scale * size), 1.0
    nu = rule.noise_ratio(public, mu, size)
    reach = HORIZONS[named] if "turn" in scaled or named != "logistic" else SHORT_HORIZON
    if named in ("linear", "counts"):
        reach = min(reach, 2.0 * rule.NOISE_LIMIT / (strength * nu * max(shape.d / size**2, 1.0)))
    tau = min(reach / (strength * nu), LONGEST.get(named, 1000.0) if "turn" in scaled else 1000.0)
    least, most, before = 120, 500, 3
    if bound.sharp:  # far from a quantile its score is flat: the way there is longer, and must be over when the window begins
        tau, least, most, before = min(tau, quantile_rule.LONGEST), quantile_rule.LEAST_STEPS, quantile_rule.MOST_STEPS, 2
    stiffness = curvature * size**2
    stiffness += problem.regularizer.smoothness * whitening.map_norm(scaled, problem.data.intercept) ** 2 / shape.n
    longest = poisson_rule.STEP / size**2 if named == "counts" else 0.855 * 2 * (1 + rule.MOMENTUM) / stiffness
    steps, step_size = rule.paced(tau, longest, least, most)
    first = steps // before
    return {
        "noise_ratio": nu,
        "flow_time": tau,
        "steps": steps,
        "step_size": step_size,
        "window_from": first,
        "early_mu": mu * math.sqrt(EARLY_SHARE / first),
        "window_mu": mu * math.sqrt((1.0 - EARLY_SHARE) / (steps - first)),
    }


def residual_scale(public: rule.Public, released: Mapping[str, Any], name: str, rate: float | None) -> float:
    """Private 75 % quantile of the residuals; Pearson residuals, in units of the mean rate, for counts."""
    if family(public.problem) != "counts":
        return rule.residual_scale(public, released, name)
    top = poisson_rule.residual_top(public.problem, rate or 1.0, 1.0)
    return poisson_rule.residual_scale(public, released, name, top, rare=poisson_rule.rare(public.shape, released))


def penalty(problem: Problem, scaled: Settings, shape: Shape) -> Vector | None:
    """Curvature of the ridge in the coordinates of θ, divided by n."""
    if problem.regularizer.name == "none":
        return None
    intercept, p = problem.data.intercept, shape.parameters(problem) // problem.loss.margins
    columns = whitening.coefficients(np.eye(p), scaled, intercept)
    slopes = np.array([problem.regularizer.gradient(column) for column in columns])
    return by_combination(problem, np.asarray(whitening.pulled_back(slopes, scaled, intercept)) / shape.n)


def dispersion(public: rule.Public, score: Score | SoftmaxScore, numbers: ArrayLike) -> float:
    """φ̂ = t²/v_max·(Σ ωψ²/t²)/(Σ ωv/v_max), neither number below its own noise."""
    term, target = terms_of(score, 1.0).numbers, public.target
    noise = gaussian_scale(term.sensitivity(target.relation) * target.rows_per_person, public.budget["scale numbers"])
    squares, curved = (max(float(number), noise) for number in np.ravel(np.asarray(numbers)))
    return term.unit * squares / curved


def inference(
    public: rule.Public, scaled: Settings, score: Score | SoftmaxScore, radius: float, released: Mapping[str, ArrayLike],
    flat: Vector, summed: bool,
) -> OneStep:  # fmt: skip
    """The one-step estimate and its covariance, in the coordinates of θ, from what was released.

    A person with m ≤ k rows has the score Σs_i, and (Σs_i)(Σs_i)ᵀ ≼ m·Σs_i s_iᵀ ≼ k·Σs_i s_iᵀ (convexity): k times the matrix of
    the rows' scores is an upper bound of the persons', whatever their rows have in common. Where persons' scores were `summed`
    before they were squared, their matrix is released itself, and φ is that of independent rows or, where that is more, its mean.
    """
    problem, shape, budget, made = public.problem, public.shape, public.budget, terms_of(score, radius)
    p, n, persons = free_parameters(problem, shape), shape.n, public.target.rows_per_person
    of_matrix = made.curvature.sensitivity(public.target.relation) * persons
    of_gradient = made.gradient.sensitivity(public.target.relation) * persons
    window = budget["descent"] * math.sqrt(1.0 - EARLY_SHARE)
    phi = dispersion(public, score, released["scale numbers"]) if "scale numbers" in released else 1.0
    alike = 1 if summed else persons
    return one_step(
        Released(
            np.asarray(released["window mean"], dtype=np.float64),
            np.asarray(released["window gradient"], dtype=np.float64),
            smat(np.asarray(released["curvature"], dtype=np.float64), p) / n,
            alike * smat(np.asarray(released["scores"], dtype=np.float64), p) / n,
            gaussian_scale(of_matrix, budget["curvature"]) / (n * math.sqrt(2.0)),
            gaussian_scale(of_gradient, window) / n,
            alike * phi,
            n,
            penalty(problem, scaled, shape),
            flat,
            summed,
        )
    )


def score_of(
    problem: Problem, features: Features, theta: Vector, bound: Limits, rate: float | None, counts: Settings,
    heaviest: float | None,
) -> Score | SoftmaxScore:  # fmt: skip
    """The model's score at θ. `rate` is the released share of positives, `counts` the range and mean of a count regression;
    `heaviest` the largest weight, which is an exposure for counts, or one times a sample weight."""
    named = family(problem)
    if named == "softmax":
        return SoftmaxScore(features, theta, problem.loss.margins, heaviest)
    if named == "counts":
        return count_score(features, theta, bound.clip, counts, heaviest)
    if named == "logistic":
        # Weights move the fitted probabilities away from the rate, and may need all of the curvature.
        plain: Score = LogisticScore(features, theta, highest_curvature(rate if heaviest is None else None))
    elif named == "quantile":
        plain = QuantileScore(features, theta, float(problem.loss.level), bound.clip, bound.sharp)  # type: ignore[attr-defined]
    else:
        plain = ResidualScore(features, theta, bound.clip)
    return plain if heaviest is None else WeightedScore(plain, heaviest)


def count_score(features: Features, theta: Vector, clip: float, counts: Settings, heaviest: float | None) -> CountScore:
    """The score of a count regression; `weight_unit` is there where rows have sample weights."""
    most, unit = 1.0 if heaviest is None else heaviest, counts.get("weight_unit")
    parts = (counts["mean_rate"], counts["lowest"], counts["highest"], most)
    return CountScore(features, theta, clip, *parts, 1.0 if unit is None else unit, unit is not None)


RIDGED = ("squared", "huber", "logistic", "multinomial")


def needs_of(problem: Problem, target: Target, *, weighted: bool, importance: bool, summed: bool) -> list[str]:
    """What is missing; nothing where errors are derived."""
    loss, data = problem.loss.name, problem.data
    if loss not in FAMILIES:
        known = "logistic, softmax, squared, Huber, quantile or Poisson loss"
        return [f"{known}, found {loss!r}, whose error has no derivation here"]
    counts = loss == "poisson"
    return unmet({
        GAUSSIAN: target.delta == 0,
        "rows without a feature map (it scales the declared columns itself)": problem.feature_map is not None,
        BOUNDED_ROWS: not math.isfinite(data.x_norm),
        "finite bounds on the target (y_bounds=)": not problem.loss.classification and not math.isfinite(data.y.radius),
        "persons with several rows for summed=True (max_rows_per_person= above 1)": summed and target.rows_per_person == 1,
        "counts with weights (max_weight=) for importance=True, which is about theirs alone":
            importance and not (counts and weighted),
        "counts from 0 on, and an intercept (it carries the mean rate)": counts and not (data.y.low == 0 and data.intercept),
        "no regularizer, or a ridge for a squared, Huber or logistic loss":
            problem.regularizer.name != "none" and (problem.regularizer.name != "ridge" or loss not in RIDGED),
        "coefficients without a bound (leave radius= out): an estimate at the edge has no normal law":
            problem.domain.name != "whole-space",
    })
