"""The rule of Poisson regression: from public numbers to budget shares, and from released counts to every setting.

Counts are declared in [0, y_max] and stored in units of y_max, so that labels lie in [0, 1]. The descent works in units of a
private mean, so that a problem with a thousand rentals an hour and one with three visits a year look alike. What is said here of
rates (`CountResiduals`, `CountSum`, `mean_rate`, `rare`) is the rule of `labels="rates"`, where

    E[rate] = exp(⟨x, w⟩) ≤ 1,   rate = count/exposure, of weight `exposure` (1 without exposures);

`poisson_counts` has its counterparts for `labels="counts"`. Everything here is pure; `verify` replays it on the released values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dperm.mechanisms.scaled import gaps as gaps_rule
from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled.centre import centring
from dperm.problem import Problem
from dperm.release.asks import Asking, Sum
from dperm.release.plan import Settings, Shape, Target, Vector
from dperm.rows.base import Block, Term
from dperm.rows.exact import Amounts
from dperm.terms.affine import Features
from dperm.terms.gridded import Grid, Pulled, gridded
from dperm.terms.moments import row_weights
from dperm.terms.statistics import LogHistogram, upper_quantile

SHARES = {
    "present": gaps_rule.PRESENT_SHARE,
    "rough radius": 0.02,
    "radius": 0.02,
    "squares": 0.10,
    "count scale": 0.01,
    "count sum": 0.02,
    "exposure sum": 0.02,
    "residuals": 0.03,
    "residuals again": 0.03,
    "signed residuals": 0.02,
}
BLIND = 8.0  # counts are cut at an eighth of the declared bound where noise hides their histogram
LOWEST = -6.0  # a rate e^6 times below the mean is as good as none
STEP = 1.65  # times 1/S²: half of what the squared loss takes, because e^η curves more where it is large
MOST_STEPS = 800
HORIZON = 2.0


def shares(
    problem: Problem, shape: Shape, target: Target, *, exposed: bool, balanced: bool, gaps: Sequence[int], edition: int
) -> dict[str, float]:
    """Stage name → μ of its event; the squares add up to μ(ε, δ)²."""
    names = centring(problem, gaps, edition)
    names += ["count scale", "count sum", *(["exposure sum"] if exposed else []), "residuals", "descent", "residuals again"]
    names += ["signed residuals"] if balanced else []
    parts = rule.parts_of(names, shape, target, SHARES)
    parts["count sum"] = max(parts["count sum"], rule.label_share(shape, target))
    return rule.budget(names, parts, target)


def count_releases(
    public: rule.Public, summed: Callable[[float], Term], heaviest: float, released: dict[str, Any]
) -> Asking[float]:
    """Release the size of the counts, their sum, each cut at the limit that follows and is returned, and that of exposures."""
    released["count scale"] = yield Sum("count scale", LogHistogram(labels, public.problem.data.y.high))
    limit = count_limit(public, released)
    released["count sum"] = yield Sum("count sum", summed(limit))
    if "exposure sum" in public.budget:
        released["exposure sum"] = yield Sum("exposure sum", ExposureSum(heaviest))
    return limit


def count_limit(public: rule.Public, released: Mapping[str, object]) -> float:
    """Counts are cut here before they are summed: a private 90 % quantile, never above what is declared.

    Only bins that noise cannot explain (three deviations) count, and never the last one, which holds the zeros: where nine rows
    in ten are zero the answer is the size of the other rows' counts. Without any such bin it is a fixed part of the bound.
    """
    top, counts = public.problem.data.y.high, np.asarray(released["count scale"], dtype=np.float64)
    held = np.flatnonzero(counts[:-1] > 3.0 * public.count_noise("count scale"))
    if len(held) == 0:
        return top / BLIND
    above = np.cumsum(counts)[held]
    passed = held[above > 0.1 * public.shape.n]
    return float(top * 2.0 ** (-(passed[0] if len(passed) else held[-1]) / 2))


def rare(shape: Shape, released: Mapping[str, ArrayLike]) -> bool:
    """Whether more than nine rows in ten are zero, which the last bin of the histogram holds."""
    return float(np.asarray(released["count scale"])[-1]) > 0.9 * shape.n


def residual_scale(public: rule.Public, released: Mapping[str, Any], name: str, top: float, *, rare: bool) -> float:
    """Private 75 % quantile of |e^η - y/ȳ|, or 1, the mean rate, where noise hides it or where it is a zero's residual anyway."""
    n = public.shape.n
    if rare or 2 * math.sqrt(12.0) * public.count_noise(name) > 0.25 * n:
        return min(1.0, top)
    return upper_quantile(np.asarray(released[name]), top, n, 0.75)


def mean_rate(public: rule.Public, released: Mapping[str, ArrayLike], heaviest: float) -> float:
    """ȳ = (Σ weight·min(y, y₀) + noise)/(n or Σ weight + noise), kept above its own noise and at most the declared bound."""
    limit = count_limit(public, released)
    noise = public.target.rows_per_person * limit * heaviest / public.budget["count sum"]
    total = max(float(np.ravel(released["count sum"])[0]), noise, limit * 1e-3)
    weight = total_weight(public, released, heaviest) if "exposure sum" in released else float(public.shape.n)
    return min(total / weight, public.problem.data.y.high)


def total_weight(public: rule.Public, released: Mapping[str, ArrayLike], heaviest: float) -> float:
    """Σ weight + noise, kept above its own noise."""
    unsure = public.target.rows_per_person * heaviest / public.budget["exposure sum"]
    return max(float(np.ravel(released["exposure sum"])[0]), unsure, heaviest * 1e-3)


def settings(
    public: rule.Public, scaled: Settings, rate: float, smallest_clip: float, *, clip_factor: float | None, horizon: float | None
) -> Settings:
    """Clip, flow time, steps and step size, as in the squared loss but with a shorter step; the mean rate that η is relative to,
    and where η is cut.

    `smallest_clip` is the residual of a typical count above zero where such counts are rare: a smaller clip would cut each of
    them and no zero, and the fitted rates would be too low throughout.
    """
    size, shape, mu = scaled["size"], public.shape, public.budget["descent"]
    nu = size * size / (rule.effective_mu(mu, public.target) * shape.n)
    clip = max(min(max(math.sqrt(0.05 / nu), 0.4), 5.0), smallest_clip) if clip_factor is None else clip_factor
    columns = max(shape.d / size**2, 1.0)
    reach = min(HORIZON, 2.0 * rule.NOISE_LIMIT / (clip * nu * columns)) if horizon is None else horizon
    tau = min(reach / (clip * nu), 1000.0)
    steps, step_size = rule.paced(tau, STEP / size**2, 100, MOST_STEPS)
    return {
        "noise_ratio": nu,
        "mean_rate": rate,
        "lowest": LOWEST,
        "highest": math.log(public.problem.data.y.high / rate),
        "clip_factor": clip,
        "flow_time": tau,
        "steps": steps,
        "step_size": step_size,
        "step_mu": mu / math.sqrt(steps),
        "second_clip_at": steps // 3,
    }


def residual_top(problem: Problem, rate: float, heaviest: float) -> float:
    """No residual is larger: weight·|e^η - y/ȳ| with both terms in [0, y_max/ȳ]."""
    return heaviest * problem.data.y.high / rate


@dataclass(frozen=True, eq=False)
class Slopes:
    """Slopes of the Poisson loss, one per row, and the features that they multiply; as the measure of a histogram, |residual|."""

    features: Features
    theta: Vector

    def slopes(self, block: Block) -> Vector:
        raise NotImplementedError

    def __call__(self, block: Block) -> Vector:
        return np.abs(self.slopes(block))


@dataclass(frozen=True, eq=False)
class CountResiduals(Slopes):
    """weight·(e^η - y/ȳ), the slope of the Poisson loss in units of the mean rate; 0 for a null row.

    The block's weight is the exposure (times the sample weight), cut into [0, heaviest]; without weights every row has weight 1.
    """

    rate: float
    lowest: float
    highest: float
    heaviest: float = 1.0

    def slopes(self, block: Block) -> Vector:
        margins = gridded(block, self.features).margins(self.theta)
        slopes = np.exp(np.clip(margins, self.lowest, self.highest)) - np.asarray(block.y, dtype=np.float64) / self.rate
        return slopes * row_weights(block, self.heaviest)


@dataclass(frozen=True, eq=False)
class CountGradient(Pulled):
    """Σ clip_C(residual · z).

    **Sensitivity** κC: the clip acts on the whole product, exposure included, so one row has norm ≤ C whatever its count, its
    exposure or its features.
    """

    residuals: Slopes
    clip: float

    @property
    def features(self) -> Features:  # type: ignore[override]
        return self.residuals.features

    def slopes(self, block: Block, grid: Grid) -> Vector:
        return self.residuals.slopes(block)


@dataclass(frozen=True, eq=False)
class CountSum(Amounts):
    """Σ weight·min(y, limit) for y ≥ 0.

    **Sensitivity** heaviest·limit under every relation: one row's part moves within [0, heaviest·limit].
    """

    limit: float
    heaviest: float

    def amounts(self, block: Block) -> Vector:
        return row_weights(block, self.heaviest) * np.clip(np.asarray(block.y, dtype=np.float64), 0.0, self.limit)

    @property
    def row_bound(self) -> float:
        return self.heaviest * self.limit


@dataclass(frozen=True, eq=False)
class ExposureSum(Amounts):
    """Σ weight, each cut into [0, heaviest].

    **Sensitivity** `heaviest` under every relation: one row's exposure moves within [0, heaviest].
    """

    heaviest: float

    def amounts(self, block: Block) -> Vector:
        return row_weights(block, self.heaviest)

    @property
    def row_bound(self) -> float:
        return self.heaviest


def labels(block: Block) -> Vector:
    """The measure of a histogram of the labels themselves."""
    return np.asarray(block.y, dtype=np.float64)
