"""Counts with exposures, and the balance of their total: the terms and the rule that `ScaledPoisson(labels="counts")` adds.

A row holds a count t in [0, y_max] (times its sample weight) and an exposure u in [0, W] (likewise). With m̄ the mean count and
ū the mean exposure, both released, the descent works on

    residual = min((u/ū)·e^η, y_max/m̄) - t/m̄

so that a mean row has residual 1 whatever the unit of counts or exposures, and it is the count that is bounded, not t/u.

Clipped gradients predict too few: a large count pulls the level up and is clipped, a zero pulls it down and is not. So the last
two releases are a histogram of the signed residuals and, clipped where it says that little lies beyond, their sum

    r = Σ clip(t/m̄ - prediction, -B₁, B₂),   P = Σ min(prediction, M),

from which the intercept moves by log(1 + trust·r/P). Everything but the terms is pure; `verify` replays it on released values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dperm.mechanisms.scaled import poisson_settings as poisson_rule
from dperm.mechanisms.scaled import settings as rule
from dperm.privacy import kappa
from dperm.release.plan import Released, Settings, Shape, StageSettings, Target, Vector
from dperm.rows.base import Block
from dperm.rows.exact import Amounts, Tallied, whole
from dperm.terms.affine import settled
from dperm.terms.gridded import gridded
from dperm.terms.moments import row_weights
from dperm.terms.statistics import BINS, Histogram, present

WANTED = 0.004  # relative standard deviation of the predicted total
MOST = 0.2  # share of the descent's μ² that the balance may take from slopes that are not noisy
LEAST = 0.02
NOISY = 0.01  # ν above which the slopes need what the balance would take
WIDE = 150.0  # width² a column, above which the total is the harder of the two to learn and may take more
USUAL = 3.0  # a usual count above zero, in mean counts; where it is larger, counts are rare and the clip must let them pass
PRIOR = 0.15  # what the level of clipped gradients is off by, before the balance is seen
AVERSION = 2.0  # a part that is cut off is missing in every fit, where noise averages out
STANDS_OUT = 4.0  # deviations of the noise, for a count among two dozen
LARGEST_PREDICTION = 8.0  # in mean counts: beyond it predictions are cut in P, which needs to be known to a few per cent only


@dataclass(frozen=True, eq=False)
class ExposedResiduals(poisson_rule.Slopes):
    """min((u/ū)·e^η, 1/m̄) - t/m̄; 0 for a null row. `largest` is 1/m̄, the bound on counts in mean counts."""

    mean_count: float
    mean_exposure: float
    lowest: float
    highest: float
    heaviest: float = 1.0
    largest: float = 1.0

    def predictions(self, block: Block) -> Vector:
        """Expected counts in mean counts, in [0, largest]; 0 for a null row."""
        margins = gridded(block, self.features).margins(self.theta)
        weight = row_weights(block, self.heaviest)
        return np.minimum(weight / self.mean_exposure * np.exp(np.clip(margins, self.lowest, self.highest)), self.largest)

    def slopes(self, block: Block) -> Vector:
        counts = present(block) * np.asarray(block.y, dtype=np.float64) / self.mean_count
        return np.asarray(self.predictions(block) - counts)


@dataclass(frozen=True, eq=False)
class BoundedCounts(Amounts):
    """Σ min(t, limit) over rows that take part.

    **Sensitivity** `limit` under every relation: one row's part moves within [0, limit].
    """

    limit: float

    def amounts(self, block: Block) -> Vector:
        return present(block) * np.clip(np.asarray(block.y, dtype=np.float64), 0.0, self.limit)

    @property
    def row_bound(self) -> float:
        return self.limit


@dataclass(frozen=True, eq=False)
class SignedHistogram(Histogram):
    """Counts of residuals in 24 bins of half an octave below `top` for predictions too high, and as many for those too low.

    **Sensitivity** 1 (a row is in one bin), √2 when a row is replaced (it leaves one bin and enters another).
    """

    residuals: ExposedResiduals
    top: float

    def tally(self, block: Block) -> Vector:
        values = settled(self.residuals.slopes(block))
        sizes = np.maximum(np.abs(values), self.top * 1e-30)
        place = np.clip(np.floor(2.0 * np.log2(self.top / sizes)), 0, BINS - 1).astype(np.int64) + BINS * (values < 0)
        return np.asarray(np.bincount(place, weights=whole(present(block), 1.0), minlength=2 * BINS), dtype=np.float64)


@dataclass(frozen=True)
class Caps:
    """Residuals of predictions too high are cut at `high`, of those too low at `low`, in mean counts."""

    high: float
    low: float

    @property
    def weight(self) -> float:
        """Of P beside r: it spans a quarter of r's width, because it is needed to a few per cent only."""
        return (self.high + self.low) / (4.0 * LARGEST_PREDICTION)

    def sensitivity(self, relation: str) -> float:
        width = self.high + self.low if kappa(relation) == 2 else max(self.high, self.low)
        return math.hypot(width, self.weight * LARGEST_PREDICTION)


@dataclass(frozen=True, eq=False)
class Balance(Tallied):
    """( Σ clip(t/m̄ - prediction, -high, low), weight·Σ min(prediction, M) ).

    **Sensitivity**: one row's pair lies in the box [-high, low] × [0, weight·M], and a null row's is (0, 0). Replacing a row
    moves it by at most the diagonal, √((high + low)² + (weight·M)²); nulling one by √(max(high, low)² + (weight·M)²).
    """

    residuals: ExposedResiduals
    caps: Caps

    def tally(self, block: Block) -> Vector:
        short = np.clip(-self.residuals.slopes(block), -self.caps.high, self.caps.low)
        predicted = np.minimum(self.residuals.predictions(block), LARGEST_PREDICTION)
        return np.asarray(whole(np.column_stack([short, self.caps.weight * predicted]), self.row_bound).sum(axis=0))

    def sensitivity(self, relation: str) -> float:
        return self.caps.sensitivity(relation)

    @property
    def row_bound(self) -> float:
        return self.caps.sensitivity("zero-out")


def tail_cap(counts: Vector, noise: float, n: int, cost: float) -> float:
    """Where to cut magnitudes before they are summed, as a part of the histogram's top.

    Let A(x) be how many magnitudes exceed x, and x₀ the last edge where A stands out of the noise. What a cap b ≥ x₀ cuts off,
    ∫ A above b, is x₀A(x₀)·(b/x₀)^(1-α)/(α-1) if A goes on as a power law and sA(x₀)·exp(-(b - x₀)/s) if it goes on as an
    exponential. The decline is that of the octave below x₀, or of the one above if it is steeper, where A may be as large as two
    deviations of the noise (small counts leave octaves empty). Counts lie between both laws, so the geometric mean is taken, and
    b minimises (2·loss)² plus the square of the noise, cost·b. Without an x₀ the cap is an eighth of the top: wide, so noisy, so
    little believed.
    """
    above = np.cumsum(counts)
    held = np.flatnonzero(above > STANDS_OUT * noise * np.sqrt(np.arange(1, BINS + 1)))
    if len(held) == 0:
        return 1.0 / 8.0
    first = int(held[0])
    start, caps = float(2.0 ** (-(first + 1) / 2)), 2.0 ** (-np.arange(first + 2)[::-1] / 2)
    here, beyond = float(above[first]), float(above[first - 2]) if first > 1 else 0.0
    ratio = max(float(above[min(first + 2, BINS - 1)]) / here, here / max(beyond, 2.0 * noise * math.sqrt(first + 1)))
    power, scale = max(math.log2(ratio), 1.25), start / (2.0 * math.log(ratio))
    slow = start / (power - 1.0) * (caps / start) ** (1.0 - power)
    fast = scale * np.exp(-(caps - start) / scale)
    lost = here / n * np.sqrt(slow * fast)
    return float(caps[int(np.argmin((AVERSION * lost) ** 2 + (cost * caps) ** 2))])


def caps(public: rule.Public, settings: Settings, released: Released) -> Caps:
    """Where each side of the residuals is cut before the balance is taken."""
    n, noise = public.shape.n, public.count_noise("signed residuals")
    cost = public.target.rows_per_person / (settings["balance_mu"] * n)
    counts = np.asarray(released["signed residuals"], dtype=np.float64)
    high, low = (settings["largest"] * tail_cap(side, noise, n, cost) for side in (counts[:BINS], counts[BINS:]))
    return Caps(high, low)


@dataclass(frozen=True, eq=False)
class CountMeans(StageSettings):
    """m̄ and ū, and what residuals and η are bounded by."""

    mean_count: float
    mean_exposure: float
    mean_rate: float
    heaviest: float
    largest: float
    highest: float


def means(public: rule.Public, released: Mapping[str, ArrayLike], heaviest: float) -> CountMeans:
    """m̄ and ū, each kept above its own noise, and what follows from them for the residuals."""
    n, most, limit = public.shape.n, public.problem.data.y.high, poisson_rule.count_limit(public, released)
    noise = public.target.rows_per_person * limit / public.budget["count sum"]
    count = min(max(float(np.ravel(released["count sum"])[0]), noise, limit * 1e-3) / n, most)
    exposure = poisson_rule.total_weight(public, released, heaviest) / n if "exposure sum" in released else 1.0
    largest = most / count
    # With exposures a rate may pass y_max where few are exposed: the prediction itself is bounded, not the rate.
    highest = math.log(largest) + (-poisson_rule.LOWEST if "exposure sum" in released else 0.0)
    return CountMeans(count, exposure, count / exposure, heaviest, largest, highest)


def parted(
    public: rule.Public, released: Mapping[str, ArrayLike], known: CountMeans, size: float, most: float
) -> tuple[float, float]:
    """(μ of the balance, μ of all gradients together): both are paid from the budget of the descent.

    Before the descent the width of residuals is unknown; the counts' own tail stands for it.
    """
    shape, target, mu = public.shape, public.target, public.budget["descent"]
    counts = np.asarray(released["count scale"], dtype=np.float64)
    cost = target.rows_per_person / (mu * math.sqrt(MOST) * shape.n)
    cap = tail_cap(counts, public.count_noise("count scale"), shape.n, cost)
    width = known.largest * cap * math.sqrt(kappa(target.relation))
    share = balance_share(shape, target, mu, width, size**2 / (rule.effective_mu(mu, target) * shape.n), most)
    return mu * math.sqrt(share) * (1 - 1e-12), mu * math.sqrt(1.0 - share) * (1 - 1e-12)


def balance_share(shape: Shape, target: Target, mu: float, width: float, nu: float, most: float) -> float:
    """Share of the descent's μ² for the balance, where one row moves the sum by about `width` mean counts.

    `needed` makes the total known to `WANTED`. It takes the less, the noisier the slopes are and the farther even four times the
    budget would be from `WANTED`. What noise costs is about d/(1 - share) in the slopes and width²/share in the total, so where
    the width is large beside d the balance may take more than `MOST`, up to `most`.
    """
    needed = (target.rows_per_person * width / (WANTED * shape.n * mu)) ** 2
    spared = min(1.0, NOISY / nu) * min(most, MOST * max(1.0, width**2 / (WIDE * max(shape.d, 1))))
    return max(min(needed, spared / math.sqrt(max(needed / 4.0, 1.0))), LEAST)


def log_balance(public: rule.Public, mu: float, cut: Caps, released: ArrayLike) -> float:
    """log(1 + trust·r/P), trust = v/(v + noise²) with v the prior variance of the level: little is believed of a noisy sum."""
    short, predicted = (float(value) for value in np.ravel(released))
    noise = cut.sensitivity(public.target.relation) * public.target.rows_per_person / mu
    total = max(predicted / cut.weight, noise / cut.weight, 0.1 * public.shape.n)
    trust = PRIOR**2 / (PRIOR**2 + (noise / total) ** 2)
    return math.log(min(max(1.0 + trust * short / total, 0.1), 10.0))


def units(settings: Settings) -> dict[str, float]:
    """The arguments of `ExposedResiduals` that the rule decides."""
    names = ("mean_count", "mean_exposure", "lowest", "highest", "heaviest", "largest")
    return {name: settings[name] for name in names}
