"""Second moments of rows in isometric coordinates of the symmetric matrices.

    svec(S) = (S_jj for all j, √2·S_ij for i < j),   ‖svec(S)‖₂ = ‖S‖_F

Equal Gaussian noise in these coordinates is the symmetric noise that belongs to the Frobenius norm: standard deviation s on the
diagonal, s/√2 off it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.privacy import kappa
from dperm.problem import Loss, Problem
from dperm.problem.arrays import Vector, dense
from dperm.rows.base import Block
from dperm.rows.exact import MOST_PRODUCT, Pair, Paired
from dperm.terms.affine import Features, settled
from dperm.terms.ball import in_ball
from dperm.terms.gridded import Grid, Pulled, gridded, scaled


def svec(matrix: Vector) -> Vector:
    """Isometric coordinates of a symmetric matrix: the diagonal, then √2 times the upper triangle by rows.

    >>> svec(np.array([[1.0, 2.0], [2.0, 3.0]])).round(4).tolist()
    [1.0, 3.0, 2.8284]
    """
    upper = np.triu_indices(len(matrix), 1)
    return np.concatenate([np.diag(matrix), math.sqrt(2.0) * matrix[upper]])


def smat(coordinates: Vector, p: int) -> Vector:
    """The symmetric matrix with these coordinates.

    >>> smat(svec(np.array([[1.0, 2.0], [2.0, 3.0]])), 2).round(9).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    coordinates = np.asarray(coordinates, dtype=np.float64)
    if coordinates.shape != (p * (p + 1) // 2,):
        raise ValueError(f"Expected {p * (p + 1) // 2} coordinates for {p} columns, found {coordinates.shape}.")
    matrix = np.zeros((p, p))
    matrix[np.triu_indices(p, 1)] = coordinates[p:] / math.sqrt(2.0)
    matrix += matrix.T
    matrix[np.diag_indices(p)] = coordinates[:p]
    return matrix


class Moments(Paired):
    """svec(Σ c cᵀ) with ‖c‖² ≤ `row_bound`, which a subclass says: the diagonal, then √2 times what is above it.

    **Sensitivity** ‖c cᵀ‖_F = ‖c‖² for one row nulled, added or removed; √2 times that for one replaced, because c cᵀ and c'c'ᵀ
    are positive semidefinite, so that their inner product is not negative.
    """

    @property
    def row_bound(self) -> float:
        raise NotImplementedError

    def vectors(self, block: Block) -> Vector:
        """The c of every row; one that is longer is cut."""
        raise NotImplementedError

    def factors(self, block: Block) -> list[Pair]:
        c = in_ball(self.vectors(block), math.sqrt(self.row_bound))
        return [Pair(c, c)]

    def units(self, total: NDArray[np.longdouble]) -> Vector:
        return moments_of(total, self.row_bound)

    def sensitivity(self, relation: str) -> float:
        return math.sqrt(kappa(relation)) * self.row_bound


@dataclass(frozen=True, eq=False)
class GramTerm(Moments):
    """svec(Σ weight·a aᵀ) with a = (z, target_scale·y), or a = z when target_scale is 0; ‖a‖ ≤ norm, weights in [0, W].

    **Sensitivity** W·norm² for one row nulled, added or removed: ‖aaᵀ‖_F = ‖a‖². √2·W·norm² for one replaced:
    ‖v·aaᵀ - w·bbᵀ‖_F² = v²‖a‖⁴ + w²‖b‖⁴ - 2vw⟨a, b⟩² ≤ 2·W²·norm⁴, with equality for orthogonal rows of full norm.
    """

    features: Features
    norm: float
    target_scale: float = 0.0
    max_weight: float = 1.0

    def vectors(self, block: Block) -> Vector:
        z = design(block, self.features)
        if self.target_scale:
            z = np.column_stack([z, self.target_scale * np.asarray(block.y, dtype=np.float64)])
        return scaled(z, np.sqrt(row_weights(block, self.max_weight)))

    def sensitivity(self, relation: str) -> float:
        return (math.sqrt(2.0) if kappa(relation) == 2 else 1.0) * self.norm**2 * self.max_weight

    @property
    def row_bound(self) -> float:
        return self.norm**2 * self.max_weight


@dataclass(frozen=True, eq=False)
class CentredMoments(Moments):
    """svec(Σ x'x'ᵀ) with x' = (x - m)·min(1, r/‖x - m‖), m the features' shift; its first d coordinates are the sums of squares.

    **Sensitivity** r² for one row nulled, ‖x'x'ᵀ‖_F = ‖x'‖²; √2·r² for one replaced: X, Y ≽ 0 have tr(XY) ≥ 0. The squares alone
    have the same: all other products come for nothing.
    """

    features: Features
    radius: float

    def factors(self, block: Block) -> list[Pair]:
        rows = np.asarray(dense(block.X), dtype=np.float64)
        if self.features.shift is not None:
            rows = rows - self.features.shift
        c = in_ball(scaled(rows, np.asarray(row_weights(block) > 0, dtype=np.float64)), self.radius)
        return [Pair(c, c)]

    @property
    def row_bound(self) -> float:
        return self.radius**2


@dataclass(frozen=True, eq=False)
class InformationTerm(Moments):
    """svec(Σ weight·φ''(⟨z, w⟩, y)·zzᵀ), φ'' ≤ `curvature`, ‖z‖ ≤ norm, weights in [0, 1].

    **Sensitivity** curvature·norm² for a row nulled, added or removed, √2 times that for one replaced: the Frobenius norm of
    aaᵀ - bbᵀ with ‖a‖², ‖b‖² ≤ curvature·norm² (as for a Gram matrix).
    """

    loss: Loss
    w: Vector
    features: Features
    norm: float
    curvature: float

    def vectors(self, block: Block) -> Vector:
        margins = gridded(block, self.features).margins(self.w)
        bent = np.minimum(np.asarray(self.loss.curvature(margins, block.y), dtype=np.float64), self.curvature)
        weight = row_weights(block) * np.maximum(settled(bent), 0.0)
        return scaled(design(block, self.features), np.sqrt(weight))

    @property
    def row_bound(self) -> float:
        return self.curvature * self.norm**2


def information_term(problem: Problem, w: Vector) -> InformationTerm:
    """The term for one problem at released coefficients w."""
    bound = problem.loss.bounds(math.inf, problem.data.y).curvature
    return InformationTerm(problem.loss, w, Features(problem.data.intercept), problem.row_norm, bound)


@dataclass(frozen=True, eq=False)
class CrossTerm(Pulled):
    """Σ weight·y·z with ‖z‖ ≤ norm, |y| ≤ label, weights in [0, W]. **Sensitivity** κ·W·norm·label."""

    features: Features
    norm: float
    label: float
    max_weight: float = 1.0

    @property
    def longest(self) -> float:
        return self.norm * self.label * self.max_weight

    def slopes(self, block: Block, grid: Grid) -> Vector:
        return row_weights(block, self.max_weight) * np.asarray(block.y, dtype=np.float64)


def moments_of(total: np.ndarray, bound: float) -> Vector:
    """svec of the exact total of c cᵀ, where ‖c‖² ≤ 2⁴⁰ steps stand for `bound`."""
    p = math.isqrt(len(total))
    return np.asarray(svec((total * (bound / MOST_PRODUCT)).reshape(p, p)), dtype=np.float64)


def row_weights(block: Block, largest: float = 1.0) -> Vector:
    """Weights kept in [0, largest], so that a row never counts for more than was declared."""
    return np.ones(len(block.y)) if block.weight is None else np.clip(block.weight, 0.0, largest)


def design(block: Block, features: Features) -> Vector:
    """The rows z of a block as a dense float64 array, intercept column included."""
    X = dense(block.X)
    z = np.asarray(X, dtype=np.float64)
    return np.column_stack([z, np.full(len(z), features.intercept)]) if features.intercept else z
