"""Negative log-likelihoods: generalised linear models from a cumulant function, and dispersion."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from dperm.problem.arrays import Array, Namespace, between, clip
from dperm.problem.intervals import Interval, LossBounds
from dperm.problem.losses.base import ElementwiseLoss, Loss, checked_margin
from dperm.problem.losses.classification import LogisticLoss
from dperm.problem.losses.cumulants import CUMULANTS, Cumulant
from dperm.problem.losses.multinomial import MultinomialLoss
from dperm.problem.losses.regression import AbsoluteLoss, QuantileLoss, SquaredLoss
from dperm.problem.specs import number, positive, product


class _ExtendedCumulant(ElementwiseLoss):
    """φ(z; y) = Φ̄(z) - yz with Φ̄ = Φ on [low, high] and its tangents outside.

    Φ̄(z) = Φ(c) + Φ'(c)(z - c), c = clip(z, low, high). Φ̄' = Φ'(c) is continuous and non-decreasing, so Φ̄
    is convex and once continuously differentiable. Clipping *inside* the loss, Φ(c) - yc,
    would make it flat beyond the range: not convex, and without a slope to come back by.
    """

    low: float
    high: float

    @property
    @abstractmethod
    def _cumulant(self) -> Cumulant:
        """Φ."""

    def _check_range(self) -> None:
        family = self._cumulant
        object.__setattr__(self, "low", number(self.low, "low"))
        object.__setattr__(self, "high", number(self.high, "high"))
        if not self.low <= self.high:
            raise ValueError(f"Expected low <= high, found [{self.low:g}, {self.high:g}]. Swap the two ends.")
        inside = (self.low > family.lowest or family.lowest == -math.inf) and (
            self.high < family.highest or family.highest == math.inf
        )
        if not inside or self.low == math.inf or self.high == -math.inf:
            raise ValueError(
                f"Expected a range inside ({family.lowest:g}, {family.highest:g}), where the {family.name} cumulant is finite, "
                f"found [{self.low:g}, {self.high:g}]. Declare low and high strictly inside."
            )
        if any(math.isfinite(end) and not math.isfinite(family.at(2, end)) for end in (self.low, self.high)):
            raise ValueError(
                f"Expected a range on which the {family.name} cumulant fits a float, found "
                f"[{self.low:g}, {self.high:g}]. Declare a smaller range of the linear predictor."
            )

    def value_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """Φ(c) + Φ'(c)(z - c) - yz."""
        c = clip(xp, z, self.low, self.high)
        return self._cumulant.value(xp, c) + self._cumulant.first(xp, c) * (z - c) - y * z

    def slope_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """Φ'(c) - y."""
        return self._cumulant.first(xp, clip(xp, z, self.low, self.high)) - y

    def curvature_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """Φ''(z) on [low, high], 0 outside."""
        inside = between(xp, z, self.low, self.high)
        return inside * self._cumulant.second(xp, clip(xp, z, self.low, self.high)) + 0 * y

    def _clip(self, z: float) -> float:
        return min(max(z, self.low), self.high)

    def _value_at(self, z: float, y: float) -> float:
        c = self._clip(z)
        straight = product(self._cumulant.at(1, c), z - c)
        return self._cumulant.at(0, c) + straight - product(y, z)

    def _smallest_at(self, z_max: float, y: float) -> float:
        """min over |z| <= z_max of a convex function: at the ends, or where Φ'(z) = y (found by
        bisection)."""
        low, high = max(self.low, -z_max), min(self.high, z_max)
        points = [-z_max, z_max]
        if low < high:
            for _ in range(100):
                middle = 0.5 * (low + high)
                low, high = (middle, high) if self._cumulant.at(1, middle) < y else (low, middle)
            points += [low, high]
        return min(self._value_at(point, y) for point in points)

    def bounds(self, z_max: float, y: Interval) -> LossBounds:
        """φ' runs over [Φ̄'(-m) - y.high, Φ̄'(m) - y.low] as Φ̄' is non-decreasing; Φ'' is largest nearest
        to its peak; φ is convex in z and linear in y, so its maximum is at a corner and its minimum on the
        edges y = low, high."""
        z_max = checked_margin(z_max)
        first, second = self._cumulant.at(1, self._clip(-z_max)), self._cumulant.at(1, self._clip(z_max))
        slope = max(abs(first - y.high), abs(second - y.low))
        near = min(max(self._cumulant.peak, self._clip(-z_max)), self._clip(z_max))
        curvature = self._cumulant.at(2, near)
        if math.isinf(z_max) or math.isinf(y.radius) or math.isinf(slope):
            return LossBounds(math.inf, slope, curvature)
        ends = (y.low, y.high)
        top = max(self._value_at(z, end) for z in (-z_max, z_max) for end in ends)
        bottom = min(self._smallest_at(z_max, end) for end in ends)
        return LossBounds(max(top, 0.0) - min(bottom, 0.0), slope, curvature)


@dataclass(frozen=True)
class CumulantLoss(_ExtendedCumulant):
    """φ(z; y) = Φ(z) - yz, the negative log-likelihood of a generalised linear model with canonical link.

    Φ is a cumulant function named in ``CUMULANTS``; beyond the declared range [low, high] of the linear
    predictor it goes on along its tangent, which keeps φ convex with finite slope and curvature.

    **Bounds** on |z| <= m, y in [a, b]: slope max(|Φ̄'(-m) - b|, |Φ̄'(m) - a|), curvature Φ'' at the point of
    [low, high] ∩ [-m, m] nearest to its peak, range from the corners.

    >>> CumulantLoss("bernoulli").bounds(math.inf, Interval(0, 1))
    LossBounds(range=inf, slope=1.0, curvature=0.25)
    """

    cumulant: str
    low: float = -math.inf
    high: float = math.inf
    name: ClassVar[str] = "glm"

    def __post_init__(self) -> None:
        if self.cumulant not in CUMULANTS:
            raise ValueError(f"Expected a cumulant among {sorted(CUMULANTS)}, found {self.cumulant!r}. Choose one of them.")
        self._check_range()

    @property
    def _cumulant(self) -> Cumulant:
        return CUMULANTS[self.cumulant]


@dataclass(frozen=True)
class PoissonLoss(_ExtendedCumulant):
    """φ(z; y) = e^z - yz on the declared range low <= z <= high, its tangents beyond: Poisson counts, log
    link.

    **Bounds** on |z| <= m, y in [a, b], with c = clip(m, low, high): slope max(|e^{clip(-m)} - b|, |e^c -
    a|), curvature e^c.

    >>> PoissonLoss(low=-1.0, high=0.0).bounds(math.inf, Interval(0, 5)).curvature
    1.0
    """

    low: float
    high: float
    name: ClassVar[str] = "poisson"

    def __post_init__(self) -> None:
        self._check_range()
        if math.isinf(self.low) or math.isinf(self.high):
            raise ValueError(
                f"Expected a finite range of the linear predictor, found [{self.low:g}, {self.high:g}]. "
                "Declare low and high, e.g. low=-3, high=3 for rates between 0.05 and 20."
            )

    @property
    def _cumulant(self) -> Cumulant:
        return CUMULANTS["poisson"]


@dataclass(frozen=True)
class ScaledLoss(Loss):
    """factor·φ(z; y): a loss on another scale, e.g. a likelihood with dispersion 1/factor.

    **Bounds** are those of φ times the factor. φ'' <= C·s(1 - s) with s = |φ'| gives
    fφ'' <= C·fs(1 - fs) for f <= 1, so the self-bounding constant stays for factors up to 1 and is lost
    beyond.

    >>> ScaledLoss(SquaredLoss(), 0.5).bounds(2.0, Interval(-1, 1))
    LossBounds(range=2.25, slope=1.5, curvature=0.5)
    """

    base: Loss
    factor: float
    name: ClassVar[str] = "scaled"

    def __post_init__(self) -> None:
        super().__post_init__()
        # The flags belong to the base; a class attribute cannot know them.
        for flag in ("convex", "smooth", "classification"):
            object.__setattr__(self, flag, getattr(self.base, flag))

    @property
    def margins(self) -> int:
        """Those of the base."""
        return self.base.margins

    @property
    def hessian_rank(self) -> int:
        """That of the base."""
        return self.base.hessian_rank

    @property
    def self_bounding(self) -> float | None:
        """That of the base for factor <= 1, else None."""
        return self.base.self_bounding if self.factor <= 1 else None

    def value(self, z: Array, y: Array) -> Array:
        """factor·φ."""
        return self.factor * self.base.value(z, y)

    def slope(self, z: Array, y: Array) -> Array:
        """factor·φ'."""
        return self.factor * self.base.slope(z, y)

    def curvature(self, z: Array, y: Array) -> Array:
        """factor·φ''."""
        return self.factor * self.base.curvature(z, y)

    def bounds(self, z_max: float, y: Interval) -> LossBounds:
        """factor times the bounds of φ."""
        b = self.base.bounds(z_max, y)
        return LossBounds(self.factor * b.range, self.factor * b.slope, self.factor * b.curvature)


def likelihood_loss(family: str, dispersion: float = 1.0, **parameters: float) -> Loss:
    """-log density of y given the linear predictor z, up to terms free of z: maximum likelihood as a loss.

    gaussian             ½(z - y)²/σ²            dispersion σ² = variance; minimiser over a constant: the mean
    laplace              |z - y|/b               dispersion b = scale; minimiser: the median
    asymmetric-laplace   pinball(level)/b        dispersion b; minimiser: the quantile at ``level=``
    bernoulli            log(1 + e^{-yz})        y in {-1, +1}
    categorical          log Σe^{z_k} - z_y      ``classes=``
    poisson              e^z - yz                ``low=, high=`` of the linear predictor
    exponential, gamma,  (Φ(z) - yz)/dispersion  canonical link, ``low=, high=`` of the linear predictor,
    inverse-gaussian                             both below 0

    The dispersion divides the loss and every bound, so it must be public, like any other declared number.

    >>> likelihood_loss("gaussian"), likelihood_loss("laplace", dispersion=2.0)
    (SquaredLoss(), ScaledLoss(base=AbsoluteLoss(), factor=0.5))
    """
    builders: dict[str, Callable[..., Loss]] = {
        "gaussian": SquaredLoss,
        "laplace": AbsoluteLoss,
        "asymmetric-laplace": QuantileLoss,
        "bernoulli": LogisticLoss,
        "categorical": MultinomialLoss,
        "poisson": PoissonLoss,
        **{
            family: lambda family=family, **ends: CumulantLoss(family, **ends)
            for family in ("exponential", "gamma", "inverse-gaussian")
        },
    }
    if family not in builders:
        raise ValueError(f"Expected a family among {sorted(builders)}, found {family!r}. Choose one of them.")
    try:
        loss = builders[family](**parameters)
    except TypeError as error:
        raise ValueError(
            f"Expected the parameters of the {family} likelihood, found {sorted(parameters)} ({error}). "
            "See the table in likelihood_loss."
        ) from None
    dispersion = positive(dispersion, "dispersion")
    return loss if dispersion == 1 else ScaledLoss(loss, 1.0 / dispersion)
