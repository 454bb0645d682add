"""Measured risks of a fitted problem: what the bounds bound. These numbers look at the data and are not
private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, betaincinv, ndtri

from dperm.problem import Problem
from dperm.theory.checks import fraction, positive


def _losses(problem: Problem, w: ArrayLike, X: Any, y: ArrayLike) -> NDArray[np.float64]:
    rows = X if hasattr(X, "shape") else np.asarray(X, dtype=float)
    weights = np.asarray(w, dtype=float)
    if problem.feature_map is not None:
        rows = problem.feature_map.function(rows)
    margins = int(problem.loss.margins)
    weights = weights if margins == 1 else weights.reshape(margins, -1)
    missing = weights.shape[-1] - rows.shape[1]
    if missing not in (0, 1) or len(np.asarray(y)) != rows.shape[0] or rows.shape[0] == 0:
        raise ValueError(
            f"Expected X with {weights.shape[-1]} columns (or one fewer, for the intercept) and a label per row, "
            f"found X {rows.shape} and {len(np.asarray(y))} labels. Pass the matrix of the fit."
        )
    slopes = weights[..., : rows.shape[1]]
    z = np.asarray(rows @ slopes.T, dtype=float)
    if missing:
        z = z + problem.data.intercept * weights[..., -1]
    return np.asarray(problem.loss.value(z, np.asarray(y)), dtype=float)


def empirical_risk(problem: Problem, w: ArrayLike, X: ArrayLike, y: ArrayLike, *, regularized: bool = False) -> float:
    """(1/n)Σ φ(⟨xᵢ,w⟩; yᵢ), plus r(w)/n when `regularized` (strengths are on the sum scale).

    >>> from dperm.problem import DataBounds, Interval, Problem, SquaredLoss
    >>> problem = Problem(SquaredLoss(), data=DataBounds(x_norm=1, y=Interval(-1, 1)))
    >>> empirical_risk(problem, [0.5], [[1.0], [0.0]], [1.0, 0.0])
    0.0625
    """
    values = _losses(problem, w, X, y)
    extra = float(problem.regularizer.value(np.asarray(w, dtype=float))) / len(values) if regularized else 0.0
    return float(values.mean()) + extra


def excess_risk(
    problem: Problem, w: ArrayLike, X: ArrayLike, y: ArrayLike, *, reference: ArrayLike, regularized: bool = False
) -> float:
    """F̄(w) - F̄(w*), w* = `reference`, the minimiser from a non-private solve. Lecture 003 item 2.

    >>> from dperm.problem import DataBounds, Interval, Problem, SquaredLoss
    >>> problem = Problem(SquaredLoss(), data=DataBounds(x_norm=1, y=Interval(-1, 1)))
    >>> excess_risk(problem, [0.5], [[1.0]], [1.0], reference=[1.0])
    0.125
    """
    best = empirical_risk(problem, reference, X, y, regularized=regularized)
    return empirical_risk(problem, w, X, y, regularized=regularized) - best


@dataclass(frozen=True)
class Summary:
    """Repeated excess risks: their mean, an upper limit of the true mean, and of the true (1-β)-quantile."""

    mean: float
    mean_upper: float
    quantile: float
    quantile_upper: float
    beta: float
    repeats: int


def excess_risk_summary(excesses: ArrayLike, beta: float = 0.05, confidence: float = 0.999) -> Summary:
    """Mean and (1-β)-quantile over repeated releases: excess risk in expectation and with probability 1-β.

    `mean_upper` = mean + z·s/√N at one-sided `confidence` (central limit). `quantile_upper` is the order
    statistic that lies above the true quantile with at least this confidence, free of assumptions (inf when
    N is too small for it).

    >>> s = excess_risk_summary([float(i) for i in range(1000)], beta=0.1)
    >>> s.mean, s.quantile, s.quantile_upper
    (499.5, 899.0, 928.0)
    """
    values = np.sort(np.asarray(excesses, dtype=float).ravel())
    if values.size < 2 or not np.all(np.isfinite(values)):
        raise ValueError(f"Expected at least 2 finite excess risks, found {values.size}. Repeat the release.")
    tail, level = fraction("beta", beta), fraction("confidence", confidence)
    size = int(values.size)
    spread = float(ndtri(level)) * float(values.std(ddof=1)) / math.sqrt(size)
    quantile = float(values[min(size - 1, math.ceil((1 - tail) * size) - 1)])
    # the k-th smallest lies above the quantile iff fewer than k values are below it: P(Bin(N, 1-β) <= k-1)
    above = range(math.ceil((1 - tail) * size), size + 1)
    upper = next((float(values[k - 1]) for k in above if bdtr(k - 1, size, 1 - tail) >= level), math.inf)
    mean = float(values.mean())
    return Summary(mean, mean + spread, quantile, upper, tail, size)


@dataclass(frozen=True)
class Estimate:
    """A population risk from held-out records with a two-sided interval."""

    value: float
    low: float
    high: float
    confidence: float
    method: str


def population_risk(
    problem: Problem,
    w: ArrayLike,
    X: ArrayLike,
    y: ArrayLike,
    *,
    confidence: float = 0.95,
    loss_range: float | None = None,
) -> Estimate:
    """mean over held-out records ± c√(ln(2/(1-confidence))/(2m)); exact binomial limits for a 0/1 loss.

    X, y must be records that the fit has not seen. `loss_range` c: the losses lie in an interval of that
    length (Hoeffding, valid for every m). Without it the interval is the normal one, and says so in
    `method`. Lecture 000 items 2, 3, lecture 003 item 3.

    >>> from dperm.problem import DataBounds, Interval, Problem, ZeroOneLoss
    >>> problem = Problem(ZeroOneLoss(), data=DataBounds(x_norm=1, y=Interval(-1, 1)))
    >>> estimate = population_risk(problem, [1.0], [[1.0]] * 90 + [[-1.0]] * 10, [1.0] * 100)
    >>> estimate.value, round(estimate.low, 3), round(estimate.high, 3), estimate.method
    (0.1, 0.049, 0.176, 'binomial')
    """
    values = _losses(problem, w, X, y)
    size, mean, level = len(values), float(values.mean()), fraction("confidence", confidence)
    half = (1 - level) / 2
    if loss_range is not None:
        reach = positive("loss_range", loss_range) * math.sqrt(math.log(1 / half) / (2 * size))
        return Estimate(mean, mean - reach, mean + reach, level, "hoeffding")
    if problem.loss.name == "zero-one":
        hits = round(mean * size)
        low = 0.0 if hits == 0 else float(betaincinv(hits, size - hits + 1, half))
        high = 1.0 if hits == size else float(betaincinv(hits + 1, size - hits, 1 - half))
        return Estimate(mean, low, high, level, "binomial")
    if size < 2:
        raise ValueError(f"Expected at least 2 held-out records, found {size}. Pass more, or loss_range=.")
    reach = float(ndtri(1 - half)) * float(values.std(ddof=1)) / math.sqrt(size)
    return Estimate(mean, mean - reach, mean + reach, level, "normal")
