"""Sums that a minimiser needs, over rows that are capped at r_m and weighted by ω = min(1, R_z/‖z‖).

With z' = z·min(1, r_m/‖z‖) the loss of a row is W_i·ω·φ(⟨z', w⟩; y): its gradient has norm at most W·L·R_z and its Hessian at
most W·sup φ''·R_z·r_m. R_z = r_m = R is the plain, unweighted loss of rows inside the declared bound. Everything is computed in
double precision, whatever the rows are stored in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dperm.privacy import kappa
from dperm.problem import Loss
from dperm.problem.arrays import Matrix, Vector, is_sparse
from dperm.rows.base import Block
from dperm.terms import device
from dperm.terms.affine import Features, settled
from dperm.terms.gridded import Grid, Pulled, scaled
from dperm.terms.moments import row_weights


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Which loss, on which rows: the public part of an objective. `max_weight` clips sample weights into [0, W].

    >>> from dperm.problem import LogisticLoss
    >>> WeightedRows(LogisticLoss(), Features(1.0), row_radius=2.0, row_cap=3.0, slope=1.0, curvature=0.25).gradient_bound
    2.0
    """

    loss: Loss
    features: Features
    row_radius: float
    row_cap: float
    slope: float
    curvature: float
    max_weight: float = 1.0

    @property
    def gradient_bound(self) -> float:
        """W·L·R_z."""
        return self.max_weight * self.slope * self.row_radius

    @property
    def hessian_bound(self) -> float:
        """W·sup φ''·R_z·r_m."""
        return self.max_weight * self.curvature * self.row_radius * self.row_cap

    def shaped(self, w: Vector) -> Vector:
        """Weights in the shape that `Features` takes."""
        return w if self.loss.margins == 1 else w.reshape(self.loss.margins, -1)

    def factors(self, norms: Vector) -> tuple[Vector, Vector]:
        """(cap factor, ω) of rows with these norms."""
        sizes = np.maximum(norms, 1e-200)
        cap = np.minimum(1.0, self.row_cap / sizes)
        return cap, np.minimum(1.0, self.row_radius / (sizes * cap))

    def weighed(self, omega: Vector, block: Block) -> Vector:
        """ω·W_i of every row."""
        return omega * row_weights(block, self.max_weight)

    def capped(self, block: Block, w: Vector) -> tuple[Matrix, Vector, Vector, Vector]:
        """(rows in double precision, cap factor, weight, margins of the capped rows); factors are kept with the block."""
        X: Matrix = block.X.astype(np.float64, copy=False)  # a float32 product would need a far larger public tolerance
        kept = (self.features.key, "cap", self.row_radius, self.row_cap)
        cap, omega = block.remember(kept, lambda: self.factors(np.sqrt(self.features.squared_norms(X))))
        return X, cap, self.weighed(omega, block), scaled(self.features.margins(X, self.shaped(w)), cap)


@dataclass(frozen=True, eq=False)
class MinimiserTerm:
    """Σ ω∇φ, followed by the flattened Hessian Σ ω∇²φ when asked for: one pass for both.

    **Sensitivity** κ·W·L·R_z of the gradient part: each row's gradient has norm at most W·L·R_z.
    """

    rows: WeightedRows
    w: Vector
    hessian: bool

    def __call__(self, block: Block) -> Vector:
        rows = self.rows
        X, cap, weight, margins = rows.capped(block, self.w)
        slopes = scaled(np.asarray(rows.loss.slope(margins, block.y), dtype=np.float64), weight * cap)
        gradient = rows.features.pull(X, slopes).reshape(-1)
        if not self.hessian:
            return gradient
        curvatures = np.asarray(rows.loss.curvature(margins, block.y), dtype=np.float64)
        return np.concatenate([gradient, second_moments(rows.features, X, curvatures, weight * cap * cap).reshape(-1)])

    def sensitivity(self, relation: str) -> float:
        return kappa(relation) * self.rows.gradient_bound

    @property
    def row_bound(self) -> float:
        return max(self.rows.gradient_bound, self.rows.hessian_bound if self.hessian else 0.0)

    device_pairs = device.minimiser


@dataclass(frozen=True, eq=False)
class CappedGradientTerm(Pulled):
    """Σ ω∇φ for a noisy sum: the gradient of `MinimiserTerm` on public grids.

    **Sensitivity** κ·W·L·R_z: each row's gradient is clipped there, which changes it by rounding at most.
    """

    rows: WeightedRows
    w: Vector

    hessian: ClassVar[bool] = False

    @property
    def features(self) -> Features:  # type: ignore[override]
        return self.rows.features

    @property
    def outputs(self) -> int:
        return self.rows.loss.margins

    @property
    def longest(self) -> float:
        return self.rows.gradient_bound

    def slopes(self, block: Block, grid: Grid) -> Vector:
        cap, omega = self.rows.factors(grid.norms)
        margins = scaled(grid.margins(self.rows.shaped(self.w)), cap)
        return scaled(np.asarray(self.rows.loss.slope(margins, block.y), dtype=np.float64), self.rows.weighed(omega, block) * cap)

    device_pairs = device.minimiser


@dataclass(frozen=True, eq=False)
class HessianProductTerm:
    """Σ ω∇²φ·v without forming a matrix."""

    rows: WeightedRows
    w: Vector
    direction: Vector

    def __call__(self, block: Block) -> Vector:
        rows = self.rows
        X, cap, weight, margins = rows.capped(block, self.w)
        moved = scaled(rows.features.margins(X, rows.shaped(self.direction)), cap)
        curvatures = np.asarray(rows.loss.curvature(margins, block.y), dtype=np.float64)
        slopes = curvatures * moved if moved.ndim == 1 else np.einsum("ikl,il->ik", curvatures, moved)
        return rows.features.pull(X, scaled(slopes, weight * cap)).reshape(-1)

    def sensitivity(self, relation: str) -> float:
        return kappa(relation) * self.row_bound

    @property
    def row_bound(self) -> float:
        return self.rows.hessian_bound * float(np.linalg.norm(self.direction))

    device_pairs = device.hessian_product


def second_moments(features: Features, X: Matrix, curvatures: Vector, weight: Vector) -> Vector:
    """Σ_i weight_i·curvature_i ⊗ z_i z_iᵀ: p × p, or (K·p) × (K·p) for K margins."""
    if curvatures.ndim == 1:
        return second_moment(features, X, curvatures * weight)
    K = curvatures.shape[1]
    width = features.width(X.shape[1])
    whole = np.zeros((K, width, K, width))
    for k in range(K):
        for other in range(k, K):
            part = second_moment(features, X, curvatures[:, k, other] * weight)
            whole[k, :, other, :] = part
            whole[other, :, k, :] = part
    return whole.reshape(K * width, K * width)


def second_moment(features: Features, X: Matrix, h: Vector) -> Vector:
    """Σ h_i z_i z_iᵀ from the stored rows: (X − shift)ᵀ diag(h) (X − shift) is expanded, so that zeros stay unstored."""
    h = settled(h)
    inner = (X.T @ X.multiply(h[:, None])).toarray() if is_sparse(X) else X.T @ (X * h[:, None])
    first, total = np.asarray(X.T @ h), float(h.sum())
    if features.shift is not None:
        cross = np.multiply.outer(features.shift, first)
        inner = inner - cross - cross.T + total * np.multiply.outer(features.shift, features.shift)
        first = first - total * features.shift
    if features.scale is not None:
        inner = inner * np.multiply.outer(features.scale, features.scale)
        first = first * features.scale
    if not features.intercept:
        return np.asarray(inner)
    c = features.intercept
    return np.block([[inner, c * first[:, None]], [c * first[None, :], np.array([[c * c * total]])]])
