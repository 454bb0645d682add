"""How wide the intervals of `scaled-inference` will be, from public numbers alone, in widths of the non-private interval.

The formula of the fit is applied to an ordinary case: uncorrelated columns, ‖z‖²/S² gamma distributed, normal errors, as many
positives as negatives, the eigenvalues of the noisy matrix at the quantiles of their semicircle. Correlated columns are worse:
there it speaks of the combinations of columns that the data show best.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betaincinv, gammainc, ndtr, ndtri

from dperm.mechanisms.scaled import inference_settings as rule
from dperm.mechanisms.scaled.inference_quantile import near_share
from dperm.mechanisms.scaled.one_step import pastur_shift
from dperm.mechanisms.scaled.settings import Public
from dperm.mechanisms.scaled.several_classes import free_parameters
from dperm.mechanisms.statistics import LARGEST, Statistics
from dperm.privacy import kappa
from dperm.problem import Problem, SquaredLoss
from dperm.release.noise import gaussian_scale
from dperm.release.plan import Shape, Target, Vector

# Gamma shape of ‖z‖²/S²: tables with skewed columns have long rows; e^η stretches those of a count regression further.
TAILS = {"logistic": 1.5, "softmax": 1.5, "linear": 1.5, "quantile": 1.5, "counts": 0.75}
# Part of a column's variance that the other columns do not explain, and what fits the widths measured of quantiles.
ALONE, OF_QUANTILES = 0.6, 0.8
SCALE = 1.37  # the private 75 % quantile of |N(0, 1)| (1.15), rounded up to a half octave
ROBUST = 2.0  # clip of a Huber regression without a threshold, in residual scales
USEFUL = 2.0  # a width that most people would accept
STEP = 1.05  # of the grid on which ε and n are searched
LARGEST_EPSILON, LARGEST_N = 100.0, 10**9
EVEN = math.sqrt(1 / 12)  # deviation of a column that is spread evenly over its declared range, in parts of it
GRID = ndtri((np.arange(2000) + 0.5) / 2000)  # quantiles of normal errors
NARROWER = 0.95  # of the width, from which on another method is mentioned


@dataclass(frozen=True)
class Ordinary:
    """Moments of an ordinary case: t, v_max, E[ψ²], E[v], and n times the non-private variance of a unit column."""

    slope: float
    steepest: float
    squares: float
    curved: float
    variance: float


def predicted_width(problem: Problem, shape: Shape, target: Target) -> float:
    """Length of an interval over that of the non-private one, about.

    >>> from dperm.problem import DataBounds, Interval, LogisticLoss
    >>> problem = Problem(LogisticLoss(), data=DataBounds(1.0, Interval(-1, 1), 1.0))
    >>> 1.2 < predicted_width(problem, Shape(50_000, 20), Target(1.0, 1e-6, "zero-out")) < 1.5
    True
    """
    clip_factor = None
    if problem.loss.name == "huber":
        problem, clip_factor = replace(problem, loss=SquaredLoss(), regularizer=problem.regularizer), ROBUST
    named, p, n = rule.family(problem), free_parameters(problem, shape), shape.n
    kinds = ("numeric",) * shape.d
    budget = rule.shares(problem, shape, target, kinds)
    size = math.sqrt(shape.d + (1.0 if problem.data.intercept else 0.0))
    rate = 0.5 if named == "logistic" else None
    near = _near(float(problem.loss.level)) if named == "quantile" else None  # type: ignore[attr-defined]
    bound = rule.limits(Public(problem, shape, target, kinds, budget), size, rate, SCALE, clip_factor, near)
    case = _ordinary(named, problem, bound.clip)
    alone = OF_QUANTILES if named == "quantile" else ALONE
    h = alone * case.curved * _kept(TAILS[named], (bound.radius / size) ** 2)
    persons = target.rows_per_person
    of_matrix = math.sqrt(kappa(target.relation)) * persons * case.steepest * bound.radius**2
    sigma = gaussian_scale(of_matrix, budget["curvature"]) / (n * math.sqrt(2.0))
    window = budget["descent"] * math.sqrt(1.0 - rule.EARLY_SHARE)
    noise = gaussian_scale(kappa(target.relation) * persons * case.slope * bound.radius, window) / n
    spectrum = h + 2.0 * sigma * math.sqrt(p) * _semicircle(p)
    lowered = np.maximum(spectrum + pastur_shift(spectrum, sigma) - sigma / math.sqrt(2.0), sigma / math.sqrt(2.0))
    sampling = persons * case.squares / case.curved * float(np.mean(1.0 / lowered)) / n
    step = float(np.sum((noise / lowered) ** 2))
    privacy = (noise**2 + sigma**2 * step) * float(np.mean(1.0 / lowered**2))
    return math.sqrt((sampling + privacy) * n * alone / case.variance)


def _ordinary(named: str, problem: Problem, clip: float) -> Ordinary:
    if named == "logistic":
        return Ordinary(1.0, 0.25, 0.18, 0.18, 1.0 / 0.18)
    if named == "softmax":
        usual = 0.72 / problem.loss.margins
        return Ordinary(math.sqrt(2.0), 0.5, usual, usual, 1.0 / usual)
    if named != "quantile":
        squares = float(np.mean(np.minimum(GRID**2, clip**2)))
        return Ordinary(clip, 1.0, squares, float(np.mean(np.abs(GRID) <= clip)), 1.0)
    level = float(problem.loss.level)  # type: ignore[attr-defined]
    density = math.exp(-(float(ndtri(level)) ** 2) / 2.0) / math.sqrt(2.0 * math.pi)
    variance = level * (1.0 - level) / density**2
    curved = float(ndtr(ndtri(level) + clip) - ndtr(ndtri(level) - clip)) / (2.0 * clip)
    return Ordinary(max(level, 1.0 - level), 0.5 / clip, level * (1.0 - level), curved, variance)


def _near(level: float) -> float:
    """The width around a quantile of normal errors that holds the share of rows which tell its curvature."""
    return float(np.quantile(np.abs(float(ndtri(level)) - GRID), near_share(level)))


def _kept(tail: float, limit: float) -> float:
    """E min(g, limit) for a gamma variable g of mean 1: what the weights leave of the second moment."""
    return float(gammainc(tail + 1.0, tail * limit) + limit * (1.0 - gammainc(tail, tail * limit)))


def _semicircle(p: int) -> Vector:
    """p quantiles of the semicircle law on [-1, 1], which is that of 2B - 1 for B beta distributed with (3/2, 3/2)."""
    return np.asarray(2.0 * betaincinv(1.5, 1.5, (np.arange(p) + 0.5) / p) - 1.0)


def epsilon_for(problem: Problem, shape: Shape, target: Target, width: float) -> float | None:
    """The smallest ε on a grid of 5 % steps that reaches the width at this n; None where none below 100 does."""
    return _first(lambda value: predicted_width(problem, shape, replace(target, epsilon=value)) <= width, 0.01, LARGEST_EPSILON)


def n_for(problem: Problem, shape: Shape, target: Target, width: float) -> int | None:
    """The smallest n on a grid of 5 % steps that reaches the width at this ε and δ; None where none below 10⁹ does."""
    found = _first(lambda value: predicted_width(problem, Shape(round(value), shape.d), target) <= width, 50.0, LARGEST_N)
    return None if found is None else round(float(f"{found:.3g}"))


def _first(reached: Callable[[float], bool], low: float, high: float) -> float | None:
    """First value of the grid from which on the width is reached, by bisection; the width falls but for small wiggles."""
    left, right = 0, math.ceil(math.log(high / low) / math.log(STEP))
    if not reached(low * STEP**right):
        return None
    while left < right:
        middle = (left + right) // 2
        left, right = (left, middle) if reached(low * STEP**middle) else (middle + 1, right)
    return low * STEP**right


def sentence(problem: Problem, shape: Shape, target: Target, width: float = USEFUL) -> str:
    """The prediction, with what would make the intervals `width` times as wide as without privacy where they are wider."""
    now = predicted_width(problem, shape, target)
    wider = " or counts have a long tail" if rule.family(problem) == "counts" else ""
    text = f"intervals about {now:.2g} × as wide as without privacy (wider where columns are strongly correlated{wider})"
    if now <= width:
        return text
    epsilon, n = epsilon_for(problem, shape, target, width), n_for(problem, shape, target, width)
    ways = [f"epsilon ≥ {epsilon:.2g}"] if epsilon is not None else []
    ways += [f"n ≥ {n:,}"] if n is not None else []
    return f"{text}: {' or '.join(ways)} would make it {width:g} ×" if ways else text


def statistics_width(problem: Problem, shape: Shape, target: Target, spread: float = EVEN) -> float | None:
    """The width that `method="statistics"` would have for columns of this deviation, in parts of their declared range; None where
    it does not cover the problem.

    Its moments have noise s in every direction, n·v of signal in one of variance v, and 1/τ² of noise for the labels:
    1 + s²(‖w‖² + 1/τ²)/(2n·v·σ²) of the non-private variance, for uncorrelated columns that explain as much of the labels as is
    left, with errors of deviation σ = 1/16 of the labels' range.
    """
    rival = Statistics()
    if rival.missing(problem, target) or shape.parameters(problem) > LARGEST:
        return None
    settings = rival.plan(problem, shape, target).stage("moments").settings
    noise, tau, sigma = float(settings["scale"]), float(settings["target_scale"]), problem.data.y.width / 16
    v = spread**2
    return math.sqrt(1.0 + noise**2 * (sigma**2 / v + tau**-2) / (2.0 * shape.n * v * sigma**2))


def rival_note(problem: Problem, shape: Shape, target: Target) -> tuple[str, ...]:
    """What the other route to intervals of a linear regression would give, where public numbers say that it may be narrower.

    How wide it is depends on how well columns fill their declared bounds, which no public number tells. It is chosen by name.
    """
    if problem.loss.name != "squared" or problem.regularizer.name != "none":
        return ()
    even, tenth = (statistics_width(problem, shape, target, spread) for spread in (EVEN, 0.1))
    now = predicted_width(problem, shape, target)
    if even is None or tenth is None or even > NARROWER * now:
        return ()
    return (
        f"method='statistics' would give intervals about {even:.2g} × as wide where every column is spread evenly over its "
        f"declared range, and about {tenth:.2g} × where its deviation is a tenth of it; 'auto' stays with "
        f"{now:.2g} ×, which does not depend on the bounds",
    )


def widths(problem: Problem, shape: Shape, target: Target, width: float | None) -> dict[str, float | int | str | None]:
    """The prediction as numbers: the width now and, where one is wanted, the ε at this n and the n at this ε that reach it."""
    wanted = USEFUL if width is None else width
    if not (isinstance(wanted, int | float) and 0 < wanted < math.inf):
        raise ValueError(f"Expected a target width > 0, in widths of the non-private interval, found {wanted}. Pass e.g. 2.")
    found: dict[str, float | int | str | None] = {"width": predicted_width(problem, shape, target)}
    if width is not None:
        found |= {"target_width": width, "epsilon_needed": epsilon_for(problem, shape, target, width)}
        found["rows_needed"] = n_for(problem, shape, target, width)
    return found | {"sentence": sentence(problem, shape, target, wanted)}
