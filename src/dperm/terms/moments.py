"""Second moments of rows in isometric coordinates of the symmetric matrices.

    svec(S) = (S_jj for all j, √2·S_ij for i < j),   ‖svec(S)‖₂ = ‖S‖_F

Equal Gaussian noise in these coordinates is the symmetric noise that belongs to the Frobenius norm: standard deviation s on the
diagonal, s/√2 off it.

Rows are cut to a ball of known radius first, on one grid for all of them:

    c = round(x·2²⁰/r),   ‖c‖ ≤ 2²⁰,   Σ c_i c_iᵀ and Σ c_i∘c_i in whole numbers of (r·2⁻²⁰)²

Both factors are the same c, so that what one row adds is c cᵀ, which is positive semidefinite: the √2 of a replaced row rests
on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dperm.privacy import kappa
from dperm.problem import Loss, Problem
from dperm.problem.arrays import Vector, dense
from dperm.rows.base import Block
from dperm.rows.exact import MOST_PRODUCT, Pair, Paired
from dperm.terms.affine import Features, settled
from dperm.terms.gridded import Grid, Pulled, gridded, scaled
from dperm.terms.sparse_rows import canonical, centred_fourths, centred_norms, stretched

MOST = 2.0**20
# Sparse rows are not centred before they are summed, so their entries may be longer than the ball: int64 has room for 2²⁴ steps.
MOST_SPARSE = 2.0**24
CENTRE_STEPS = 2.0**60


def in_ball(rows: Vector, radius: float) -> Vector:
    """Rows as whole numbers of radius·2⁻²⁰, none longer than the radius: ‖c‖² ≤ 2⁴⁰ is a comparison of whole numbers.

    A longer row is scaled down and rounded towards 0. A row with an entry that is no finite number is a row of zeros.
    """
    largest = np.maximum(rows.max(axis=1, initial=0.0), -rows.min(axis=1, initial=0.0))
    bad = ~np.isfinite(largest)
    if bad.any():
        rows = np.where(bad[:, None], 0.0, rows)
    # Entries beyond 2²⁰ radii have no whole number whose square is exact: such a row is brought near first, by its largest entry.
    near = np.maximum(np.where(bad, 0.0, largest) / radius, 1.0)
    counts = np.rint(scaled(rows, MOST / radius / near))
    sizes = np.vecdot(counts, counts)
    longer = (sizes > MOST**2) | (near > 1.0)
    if longer.any():
        shorter = np.minimum(1.0, MOST / np.sqrt(np.maximum(sizes, 1.0)))
        counts = np.where(longer[:, None], np.trunc(scaled(counts, shorter)), counts)
    return np.asarray(counts)


def reach(shift: Vector | None, radius: float) -> float:
    """How long a row inside the ball around the shift can be."""
    return radius + (0.0 if shift is None else float(np.linalg.norm(shift)))


def square_norms(squares: Vector) -> Vector:
    """Upper bounds on ‖s‖₂ of rows of squares s = c∘c of `in_ball`, the same for a row wherever it stands.

    u = ⌈s·2⁻¹⁴⌉ are whole numbers with ‖u‖ ≤ 2²⁶ + √d, so that ‖u‖² is exact in any order; the bound is larger than ‖s‖ by √d·2¹⁴
    at most, where `in_ball` cuts at 2⁴⁰.
    """
    coarse = np.ceil(squares * 2.0**-14)
    return np.asarray(np.sqrt(np.vecdot(coarse, coarse)) * 2.0**14)


def sparse_squares(
    X: csr_array, weight: Vector, features: Features, radius: float, most_squares: float | None = None
) -> list[Pair]:
    """Σ f²x², Σ f²x and Σ f² of rows scaled by f = min(1, r'/‖x - m‖), of which Σ (f(x - m))² is made afterwards. Rows x and
    centre m are those that the features' scale makes of the stored ones.

    c = round(f·x·2²⁴/reach) and q = round(f·2²⁴) are whole numbers; a row adds (c·reach - m·q)²·2⁻⁴⁸, entry by entry. Rounding
    moves that row by at most (√d·reach + ‖m‖)·2⁻²⁵ in ℓ2, and r' is smaller than r by as much. The squares have the norm
    ‖f(x - m)‖₄², which `most_squares` bounds in the same way: ℓ4 is below ℓ2.
    """
    X, shift = stretched(canonical(X), features)
    data, most = X.data, reach(shift, radius)
    spare = (math.sqrt(X.shape[1]) + 1) * most / MOST_SPARSE
    sizes = centred_norms(X, data, np.ones(X.shape[0]), Features(shift=shift))
    bad = ~np.isfinite(sizes)
    share = max(radius - spare, 0.0) / np.maximum(sizes, 1e-200)
    if most_squares is not None:
        fourths = centred_fourths(X, data, shift, radius)
        share = np.minimum(share, max(math.sqrt(most_squares) - spare, 0.0) / np.maximum(fourths, 1e-200))
    f = np.where(bad, 0.0, weight * np.minimum(1.0, share))
    rows = np.repeat(f, np.diff(X.indptr))
    c = np.rint(np.where(rows > 0, data, 0.0) * rows * (MOST_SPARSE / most)).astype(np.int64)
    q = np.rint(f * MOST_SPARSE).astype(np.int64)
    entries, squares = (csr_array((part, X.indices, X.indptr), shape=X.shape) for part in (c, c * c))
    return [Pair(np.ones_like(q), squares), Pair(q, entries), Pair(q * q), Pair(np.ones(1))]


def centred_squares(total: NDArray[np.object_], shift: Vector | None, radius: float) -> Vector:
    """Σ (f(x - m))² for every column, from the exact totals of `sparse_squares`.

    A column far from its centre leaves little of three large totals, so they are subtracted as whole numbers, with m in steps of
    reach·2⁻⁶⁰, which moves a row by √d·2⁻⁶¹ of the reach: far less than `sparse_squares` leaves free.
    """
    d = (len(total) - 2) // 2
    most = reach(shift, radius)
    centre = [0] * d if shift is None else [int(step) for step in np.rint(shift * (CENTRE_STEPS / most))]
    steps = int(CENTRE_STEPS)
    squares = [(own * steps - 2 * m * cross) * steps + m * m * total[2 * d] for own, cross, m in zip(total, total[d:], centre)]
    return np.maximum(np.array(squares, dtype=np.float64) * (most / (CENTRE_STEPS * MOST_SPARSE)) ** 2, 0.0)


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
        z = self.features.dense(block.X)
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
    """svec(Σ x'x'ᵀ) with x' = z·min(1, r/‖z‖), z = scale∘(x - m) of the features' scale and shift m; its first d coordinates are
    the sums of squares.

    **Sensitivity** r² for one row nulled, ‖x'x'ᵀ‖_F = ‖x'‖²; √2·r² for one replaced: X, Y ≽ 0 have tr(XY) ≥ 0. The squares alone
    have the same: all other products come for nothing.
    """

    features: Features
    radius: float

    def factors(self, block: Block) -> list[Pair]:
        rows = np.asarray(dense(block.X), dtype=np.float64)
        if self.features.shift is not None:
            rows = rows - self.features.shift
        if self.features.scale is not None:
            rows = rows * self.features.scale
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
        return scaled(self.features.dense(block.X), np.sqrt(weight))

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
    """Weights kept in [0, largest], so that a row never counts for more than was declared; one without a weight has 1."""
    return np.full(len(block.y), min(1.0, largest)) if block.weight is None else np.clip(block.weight, 0.0, largest)
