"""Softmax cross-entropy over K classes: the margins are vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dperm.problem.arrays import Array, Namespace, device, prepare, row_largest, row_total
from dperm.problem.intervals import Interval, LossBounds
from dperm.problem.losses.base import Loss, checked_margin
from dperm.problem.specs import count


@dataclass(frozen=True)
class MultinomialLoss(Loss):
    """φ(z; y) = log Σ_k e^{z_k} - z_y for z in R^K and y in {0, ..., K-1}; with p = softmax(z):

    slope p - e_y in R^K;  curvature diag(p) - ppᵀ, of rank K - 1 (constant vectors are in its kernel).
    z has shape (n, K): value (n,), slope (n, K), curvature (n, K, K).

    **Bounds** on ||z||₂ <= m:
    slope      ||p - e_y||² = (1 - p_y)² + Σ_{k≠y} p_k² <= 2(1 - p_y)² <= 2, so √2, approached as p -> e_k
               with k ≠ y, that is for large m;
    curvature  vᵀ(diag(p) - ppᵀ)v is the variance of v_k under p, at most (max v - min v)²/4 <= ||v||²/2,
               so 1/2, approached as p -> (½, ½, 0, ...) and attained for K = 2;
    range      z_k - z_y <= √2·m gives log(1 + (K-1)e^{√2 m}): exact for K = 2, at most log(K - 1) too large
               beyond.

    >>> MultinomialLoss(classes=3).bounds(math.inf, Interval(0, 2)).curvature
    0.5
    """

    classes: int
    name: ClassVar[str] = "multinomial"
    classification: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", count(self.classes, "classes", 2))

    @property
    def margins(self) -> int:
        """K."""
        return self.classes

    @property
    def hessian_rank(self) -> int:
        """K - 1: (diag(p) - ppᵀ) ⊗ xxᵀ has the kernel 1 ⊗ x."""
        return self.classes - 1

    def _prepare(self, z: Array, y: Array) -> tuple[Namespace, Array, Array]:
        """(namespace, z, one-hot labels); a label outside 0..K-1 is the all-zero row."""
        xp, z, y = prepare(z, y)
        if z.ndim != 2 or z.shape[1] != self.classes:
            raise ValueError(f"Expected margins of shape (n, {self.classes}), found {tuple(z.shape)}. Pass one column per class.")
        y = xp.reshape(xp.asarray(y, dtype=z.dtype, device=device(z)), (-1, 1))
        columns = xp.arange(self.classes, dtype=z.dtype, device=device(z))
        return xp, z, xp.astype(xp.broadcast_to(y, (z.shape[0], 1)) == columns[None, :], z.dtype)

    def _probabilities(self, xp: Namespace, z: Array) -> Array:
        shifted = xp.exp(z - row_largest(xp, z))
        return shifted / row_total(xp, shifted)

    def value(self, z: Array, y: Array) -> Array:
        """log Σ e^{z_k} - z_y, with the largest margin taken out first."""
        xp, z, chosen = self._prepare(z, y)
        shifted = z - row_largest(xp, z)
        return xp.log(xp.sum(xp.exp(shifted), axis=1)) - xp.sum(shifted * chosen, axis=1)

    def slope(self, z: Array, y: Array) -> Array:
        """p - e_y."""
        xp, z, chosen = self._prepare(z, y)
        return self._probabilities(xp, z) - chosen

    def curvature(self, z: Array, y: Array) -> Array:
        """diag(p) - ppᵀ."""
        xp, z, _ = self._prepare(z, y)
        p = self._probabilities(xp, z)
        identity = xp.eye(self.classes, dtype=z.dtype, device=device(z))
        return p[:, :, None] * (identity[None, :, :] - p[:, None, :])

    def bounds(self, z_max: float, y: Interval) -> LossBounds:
        """Over ||z||₂ <= z_max and all classes; the interval is not used."""
        gap = math.sqrt(2.0) * checked_margin(z_max)
        # log(1 + (K-1)e^gap) with the exponential kept in range.
        spread = gap + math.log(math.exp(-gap) + self.classes - 1)
        return LossBounds(spread, math.sqrt(2.0), 0.5)
