"""Losses of the residual z - y."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dperm.problem.arrays import Array, Namespace, between, clip
from dperm.problem.intervals import Interval, LossBounds
from dperm.problem.losses.base import ElementwiseLoss, KinkedLoss, checked_margin
from dperm.problem.specs import number


def _largest_residual(z_max: float, y: Interval) -> float:
    """sup |z - y| = z_max + max(|low|, |high|): take z at the end opposite to the larger label."""
    return checked_margin(z_max) + y.radius


@dataclass(frozen=True)
class SquaredLoss(ElementwiseLoss):
    """φ(z; y) = ½(z - y)²; φ' = z - y; φ'' = 1. Its minimiser over a constant is the mean.

    **Bounds** on |z| <= m, |y| <= B: range ½(m + B)², slope m + B (infinite unless both are bounded),
    curvature 1.

    >>> SquaredLoss().bounds(2.0, Interval(-1, 1))
    LossBounds(range=4.5, slope=3.0, curvature=1.0)
    """

    name: ClassVar[str] = "squared"

    def value_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """½(z - y)²."""
        return 0.5 * (z - y) ** 2

    def slope_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """z - y."""
        return z - y

    def curvature_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """1."""
        return xp.ones_like(z - y)

    def bounds(self, z_max: float, y: Interval) -> LossBounds:
        """Attained at |z - y| = z_max + y.radius."""
        residual = _largest_residual(z_max, y)
        return LossBounds(0.5 * residual * residual, residual, 1.0)


@dataclass(frozen=True)
class AbsoluteLoss(KinkedLoss):
    """φ(z; y) = |z - y|; φ' = sign(z - y), 0 at the kink. Its minimiser over a constant is the median.

    **Bounds** on |z| <= m, |y| <= B: range m + B, slope 1; the slope jumps, so the curvature bound is
    infinite.

    >>> AbsoluteLoss().bounds(2.0, Interval(-1, 1))
    LossBounds(range=3.0, slope=1.0, curvature=inf)
    """

    name: ClassVar[str] = "absolute"

    def value_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """|z - y|."""
        return xp.abs(z - y)

    def slope_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """sign(z - y)."""
        return xp.sign(z - y)

    def bounds(self, z_max: float, y: Interval) -> LossBounds:
        """Attained at |z - y| = z_max + y.radius."""
        return LossBounds(_largest_residual(z_max, y), 1.0, math.inf)


@dataclass(frozen=True)
class QuantileLoss(KinkedLoss):
    """φ(z; y) = q·max(y - z, 0) + (1 - q)·max(z - y, 0), the pinball loss of level q in (0, 1).

    φ' = -q below the label, 1 - q above, 0 at the kink. Its minimiser over a constant is the q-quantile.

    **Bounds** on |z| <= m, y in [a, b]: range max(q(b + m), (1 - q)(m - a)), slope max(q, 1 - q); not smooth.

    >>> QuantileLoss(level=0.9).bounds(1.0, Interval(-1, 1)).slope
    0.9
    """

    level: float = 0.5
    name: ClassVar[str] = "quantile"

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", number(self.level, "level"))
        if not 0 < self.level < 1:
            raise ValueError(f"Expected 0 < level < 1, found {self.level:g}. Pass a quantile, e.g. level=0.5.")

    def value_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """q·(y - z)₊ + (1 - q)·(z - y)₊."""
        above = clip(xp, z - y, 0.0, math.inf)
        below = clip(xp, y - z, 0.0, math.inf)
        return self.level * below + (1 - self.level) * above

    def slope_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """-q, 0 or 1 - q."""
        residual = z - y
        above, below = xp.astype(residual > 0, z.dtype), xp.astype(residual < 0, z.dtype)
        return (1 - self.level) * above - self.level * below

    def bounds(self, z_max: float, y: Interval) -> LossBounds:
        """Range attained at (z, y) = (-z_max, high) or (z_max, low)."""
        z_max = checked_margin(z_max)
        below, above = max(y.high + z_max, 0.0), max(z_max - y.low, 0.0)
        largest = max(self.level * below, (1 - self.level) * above)
        return LossBounds(largest, max(self.level, 1 - self.level), math.inf)


@dataclass(frozen=True)
class HuberLoss(ElementwiseLoss):
    """φ = r²/2 for |r| <= τ, τ|r| - τ²/2 beyond, with r = z - y: the squared loss with its slope clipped at
    τ.

    With c = min(|r|, τ): φ = c(|r| - c/2), φ' = clip(r, -τ, τ), φ'' = 1 where |r| <= τ.

    **Bounds** with ρ = sup |r|: φ at ρ, slope min(τ, ρ), curvature 1.

    >>> HuberLoss(threshold=1.0).bounds(2.0, Interval(-1, 1))
    LossBounds(range=2.5, slope=1.0, curvature=1.0)
    """

    threshold: float = 1.0
    name: ClassVar[str] = "huber"

    def value_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """c(|r| - c/2)."""
        size = xp.abs(z - y)
        c = clip(xp, size, 0.0, self.threshold)
        return c * (size - 0.5 * c)

    def slope_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """clip(r, -τ, τ)."""
        return clip(xp, z - y, -self.threshold, self.threshold)

    def curvature_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """1 where |r| <= τ, else 0."""
        return between(xp, z - y, -self.threshold, self.threshold)

    def bounds(self, z_max: float, y: Interval) -> LossBounds:
        """Range and slope attained at the largest residual."""
        residual = _largest_residual(z_max, y)
        c = min(residual, self.threshold)
        return LossBounds(c * (residual - 0.5 * c), c, 1.0)


@dataclass(frozen=True)
class LogCoshLoss(ElementwiseLoss):
    """φ = τ² log cosh(r/τ), r = z - y; φ' = τ tanh(r/τ); φ'' = 1 - (φ'/τ)² = sech²(r/τ).

    **Bounds** with ρ = sup |r| and g = inf |r|: φ at ρ, slope τ tanh(ρ/τ) <= τ, curvature sech²(g/τ), which
    is 1 as soon as the margins can reach the labels.

    >>> LogCoshLoss(scale=2.0).bounds(math.inf, Interval(-1, 1))
    LossBounds(range=inf, slope=2.0, curvature=1.0)
    """

    scale: float = 1.0
    name: ClassVar[str] = "log-cosh"

    def value_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """τ² log cosh(r/τ)."""
        a = xp.abs(z - y) / self.scale
        # Near zero a + log1p(e^{-2a}) - log 2 cancels, and τ² would magnify what is left of it.
        near = 0.5 * xp.log1p(xp.sinh(clip(xp, a, 0.0, 1.0)) ** 2)
        far = a + xp.log1p(xp.exp(-2 * a)) - math.log(2.0)
        return self.scale**2 * xp.where(a < 1, near, far)

    def slope_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """τ tanh(r/τ)."""
        return self.scale * xp.tanh((z - y) / self.scale)

    def curvature_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """sech²(r/τ) = 4e^{-2a}/(1 + e^{-2a})²."""
        small = xp.exp(-2 * xp.abs(z - y) / self.scale)
        return 4 * small / (1 + small) ** 2

    def bounds(self, z_max: float, y: Interval) -> LossBounds:
        """Range and slope at the largest residual, curvature at the smallest."""
        residual = _largest_residual(z_max, y)
        far = residual / self.scale
        small = math.exp(-2 * max(0.0, y.low - z_max, -z_max - y.high) / self.scale)
        value = far + math.log1p(math.exp(-2 * far)) - math.log(2.0)
        if far < 1:
            value = 0.5 * math.log1p(math.sinh(far) ** 2)
        return LossBounds(self.scale**2 * value, self.scale * math.tanh(far), 4 * small / (1 + small) ** 2)
