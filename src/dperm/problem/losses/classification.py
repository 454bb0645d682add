"""Losses of the margin y·z with labels y in {-1, +1}."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dperm.problem.arrays import (
    Array,
    Namespace,
    between,
    bounded_exp,
    clip,
    scalar_sigmoid,
    scalar_softplus,
    sigmoid,
    sigmoid_derivative,
    softplus,
)
from dperm.problem.intervals import Interval, LossBounds
from dperm.problem.losses.base import ElementwiseLoss, KinkedLoss, checked_margin


@dataclass(frozen=True)
class LogisticLoss(ElementwiseLoss):
    """φ(z; y) = log(1 + e^{-yz}); φ' = -yσ(-yz); φ'' = σ(yz)σ(-yz).

    **Bounds** on |z| <= m: range log(1 + e^m), slope σ(m) <= 1, curvature 1/4 (at z = 0).
    With s = |φ'| the curvature is exactly s(1 - s): self-bounding with constant 1.

    >>> LogisticLoss().bounds(math.inf, Interval(-1, 1))
    LossBounds(range=inf, slope=1.0, curvature=0.25)
    """

    name: ClassVar[str] = "logistic"
    classification: ClassVar[bool] = True
    self_bounding: ClassVar[float | None] = 1.0  # φ'' = s(1 - s) with s = |φ'|

    def value_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """log(1 + e^{-yz})."""
        return softplus(xp, -y * z)

    def slope_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """-yσ(-yz), as y/(-1 - e^{yz}): five operations, since every step takes it of every row."""
        return y / (-1 - bounded_exp(xp, y * z))

    def curvature_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """y²σ(yz)σ(-yz)."""
        return y * y * sigmoid_derivative(xp, y * z)

    def bounds(self, z_max: float, y: Interval) -> LossBounds:
        """Attained at yz = -z_max (range, slope) and z = 0 (curvature)."""
        z_max = checked_margin(z_max)
        return LossBounds(scalar_softplus(z_max), scalar_sigmoid(z_max), 0.25)


@dataclass(frozen=True)
class HingeLoss(KinkedLoss):
    """φ(z; y) = max(0, 1 - yz); φ' = -y where yz < 1, else 0 (0 is a subgradient at the kink).

    **Bounds** on |z| <= m: range 1 + m, slope 1; the slope jumps, so the curvature bound is infinite.

    >>> HingeLoss().bounds(2.0, Interval(-1, 1))
    LossBounds(range=3.0, slope=1.0, curvature=inf)
    """

    name: ClassVar[str] = "hinge"
    classification: ClassVar[bool] = True

    def value_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """max(0, 1 - yz)."""
        return clip(xp, 1 - y * z, 0.0, math.inf)

    def slope_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """-y where yz < 1, else 0."""
        margin = y * z
        return -y * xp.astype(margin < 1, margin.dtype)

    def bounds(self, z_max: float, y: Interval) -> LossBounds:
        """Attained at yz = -z_max."""
        return LossBounds(1.0 + checked_margin(z_max), 1.0, math.inf)


@dataclass(frozen=True)
class SoftplusHingeLoss(ElementwiseLoss):
    """φ(z; y) = h·log(1 + e^{(1 - yz)/h}), the hinge smoothed over a width h.

    φ' = -y·s with s = σ((1 - yz)/h); φ'' = s(1 - s)/h: self-bounding with constant 1/h. φ -> hinge as h -> 0.

    **Bounds** on |z| <= m: range h·log(1 + e^{(1+m)/h}), slope σ((1 + m)/h) <= 1, curvature 1/(4h) once m >=
    1 (at yz = 1), and its value at yz = m before.

    >>> SoftplusHingeLoss(width=0.5).bounds(math.inf, Interval(-1, 1))
    LossBounds(range=inf, slope=1.0, curvature=0.5)
    """

    width: float = 0.5
    name: ClassVar[str] = "softplus-hinge"
    classification: ClassVar[bool] = True

    @property
    def self_bounding(self) -> float | None:
        """1/h: φ'' = s(1 - s)/h with s = |φ'|."""
        return 1.0 / self.width

    def value_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """h·log(1 + e^{(1 - yz)/h})."""
        return self.width * softplus(xp, (1 - y * z) / self.width)

    def slope_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """-yσ((1 - yz)/h)."""
        return -y * sigmoid(xp, (1 - y * z) / self.width)

    def curvature_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """y²σ(u)σ(-u)/h with u = (1 - yz)/h."""
        return y * y * sigmoid_derivative(xp, (1 - y * z) / self.width) / self.width

    def bounds(self, z_max: float, y: Interval) -> LossBounds:
        """Attained at yz = -z_max (range, slope) and yz = min(1, z_max) (curvature)."""
        z_max = checked_margin(z_max)
        far, near = (1.0 + z_max) / self.width, max(1.0 - z_max, 0.0) / self.width
        curvature = scalar_sigmoid(near) * scalar_sigmoid(-near) / self.width
        return LossBounds(self.width * scalar_softplus(far), scalar_sigmoid(far), curvature)


@dataclass(frozen=True)
class HuberizedHingeLoss(ElementwiseLoss):
    """φ = 0 for yz > 1 + h, (1 + h - yz)²/(4h) for |1 - yz| <= h, 1 - yz for yz < 1 - h.

    With u = 1 + h - yz and c = clip(u, 0, 2h):  φ = c²/(4h) + max(u - 2h, 0),  φ' = -yc/(2h),
    φ'' = 1/(2h) where 0 <= u <= 2h.

    **Bounds** on |z| <= m: φ and |φ'| at yz = -m; curvature 1/(2h). The curvature bound does not drop to
    zero when m keeps to the straight part: a rounding error at the joint would break it.

    >>> HuberizedHingeLoss(width=0.5).bounds(3.0, Interval(-1, 1))
    LossBounds(range=4.0, slope=1.0, curvature=1.0)
    """

    width: float = 0.5
    name: ClassVar[str] = "huberized-hinge"
    classification: ClassVar[bool] = True

    def value_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """c²/(4h) + max(u - 2h, 0)."""
        u = 1 + self.width - y * z
        c = clip(xp, u, 0.0, 2 * self.width)
        return c * c / (4 * self.width) + clip(xp, u - 2 * self.width, 0.0, math.inf)

    def slope_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """-yc/(2h)."""
        return -y * clip(xp, 1 + self.width - y * z, 0.0, 2 * self.width) / (2 * self.width)

    def curvature_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """y²/(2h) on the parabola, 0 elsewhere."""
        return y * y * between(xp, 1 + self.width - y * z, 0.0, 2 * self.width) / (2 * self.width)

    def bounds(self, z_max: float, y: Interval) -> LossBounds:
        """Range and slope attained at yz = -z_max."""
        far = 1.0 + self.width + checked_margin(z_max)
        joint = 2 * self.width
        c = min(far, joint)
        return LossBounds(c * c / (2 * joint) + max(far - joint, 0.0), c / joint, 1.0 / joint)


@dataclass(frozen=True)
class ZeroOneLoss(KinkedLoss):
    """φ(z; y) = 1 if yz <= 0, else 0: the share of errors; sign(0) counts as an error.

    **Bounds**: range 1 for every z. It jumps, so slope and curvature are infinite, and it is not convex: only
    mechanisms that need nothing but a bounded range (the exponential mechanism) accept it.

    >>> ZeroOneLoss().bounds(math.inf, Interval(-1, 1))
    LossBounds(range=1.0, slope=inf, curvature=inf)
    """

    name: ClassVar[str] = "zero-one"
    convex: ClassVar[bool] = False
    classification: ClassVar[bool] = True

    def value_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """1 where yz <= 0."""
        # Signs are compared, not multiplied: 1e-200 · 1e-200 would underflow to an error that is none.
        right = ((z > 0) & (y > 0 * z)) | ((z < 0) & (y < 0 * z))
        return 1 - xp.astype(right, z.dtype)

    def slope_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """0 almost everywhere."""
        return xp.zeros_like(y * z)

    def bounds(self, z_max: float, y: Interval) -> LossBounds:
        """Attained at z = 0."""
        checked_margin(z_max)
        return LossBounds(1.0, math.inf, math.inf)
