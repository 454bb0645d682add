"""Terms of `scaled-inference` for several classes: what `terms/inference.py` is for one margin.

Coefficients of K classes are told apart only up to a common vector, so θ holds K - 1 combinations of them: the rows of Cᵀ, an
orthonormal basis of the vectors that add up to 0. With p the K probabilities of a row, s = Cᵀ(p - e_y) and
M = Cᵀ(diag(p) - ppᵀ)C its score is s ⊗ u and its curvature M ⊗ uuᵀ, on a row u = r·z with the weight ω = min(1, (R/‖u‖)²).

| term             | one row adds      | bound                                        | null one row | replace one row |
|------------------|-------------------|----------------------------------------------|--------------|-----------------|
| SoftmaxSum       | ω·s ⊗ u           | ‖s‖·min(‖u‖, R²/‖u‖) ≤ √2·R                  | √2·R         | 2√2·R           |
| SoftmaxCurvature | ω·M ⊗ uuᵀ         | ‖·‖_F = ‖M‖_F·min(‖u‖², R²) ≤ R²/2           | R²/2         | R²/√2           |
| SoftmaxScores    | ω²·ssᵀ ⊗ uuᵀ      | ‖·‖_F = ‖s‖²·min(‖u‖, R²/‖u‖)² ≤ 2R²         | 2R²          | 2√2·R²          |
| SoftmaxNumbers   | ω‖s‖²/2, ω·tr(M)  | both in [0, 1]                               | √2           | √2              |

‖s‖ = ‖p - e_y‖ because p - e_y adds up to 0, and ‖p - e_y‖² = (1 - p_y)² + Σ_{k≠y} p_k² ≤ 2(1 - p_y)² ≤ 2.
‖M‖_F = ‖diag(p) - ppᵀ‖_F, and with t = Σp_k² its square is t - 2Σp_k³ + t² ≤ t - t² ≤ 1/4, because t² ≤ Σp_k·Σp_k³ = Σp_k³.
tr M = 1 - t ≤ 1. Matrices of rows are positive semidefinite, which the √2 of a replaced row rests on (`terms/inference.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.problem.arrays import Vector
from dperm.rows.base import Block
from dperm.rows.exact import MOST_PRODUCT, Counted, Pair, whole
from dperm.terms.affine import Features, settled
from dperm.terms.gridded import gridded, scaled
from dperm.terms.inference import Bounded, ScoreMatrix, ScoreSum, crossed, weight_of
from dperm.terms.moments import MOST, Moments, in_ball, moments_of, row_weights
from dperm.terms.statistics import Histogram, present

NUMBERS_AT_ONCE = 2**21  # of a block's factors that are in memory together
SHORTER = 1.0 - 2.0**-12  # a row of the largest curvature is shortened by this, which is more than rounding can add


def class_basis(classes: int) -> Vector:
    """C: K - 1 orthonormal columns that add up to 0 (Helmert's).

    >>> class_basis(2).round(4).tolist()
    [[0.7071], [-0.7071]]
    """
    basis = np.zeros((classes, classes - 1))
    for k in range(1, classes):
        basis[:k, k - 1], basis[k, k - 1] = 1.0, -float(k)
        basis[:, k - 1] /= math.sqrt(k * (k + 1))
    return basis


def _combined(values: Vector, matrix: Vector) -> Vector:
    """values @ matrix, column after column: a function of each row alone."""
    columns = [sum(values[:, k] * weight for k, weight in enumerate(column)) for column in matrix.T]
    return np.column_stack(columns)


@dataclass(frozen=True, eq=False)
class SoftmaxScore(Bounded):
    """Probabilities, s and M of every row at θ, flattened by combination; `heaviest` is the largest sample or class weight.

    A weighted row counts as a = weight/heaviest in [0, 1]: u = √a·z and s' = √a·s, which keeps every bound (`WeightedScore`).
    """

    features: Features
    theta: Vector
    classes: int
    heaviest: float | None = None
    slope_bound: ClassVar[float] = math.sqrt(2.0)
    curvature_bound: ClassVar[float] = 0.5

    @property
    def outputs(self) -> int:
        return self.classes - 1

    @cached_property
    def basis(self) -> Vector:
        return class_basis(self.classes)

    def probabilities(self, block: Block) -> Vector:
        """(rows, K); the weights of all classes go onto their grid, so that margins are exact sums."""
        weights = self.basis @ self.theta.reshape(self.outputs, -1)
        margins = gridded(block, self.features).margins(weights)
        parts = np.exp(margins - margins.max(axis=1, keepdims=True))
        return np.asarray(parts / parts.sum(axis=1, keepdims=True))

    def importance(self, block: Block) -> Vector:
        if self.heaviest is None:
            return np.ones(len(block.y))
        return row_weights(block, self.heaviest) / self.heaviest

    def scores(self, block: Block) -> Vector:
        """√a·s of every row."""
        p = self.probabilities(block)
        wrong = p - (np.asarray(block.y)[:, None] == np.arange(self.classes))
        return scaled(_combined(wrong, self.basis), np.sqrt(self.importance(block)))

    def roots(self, block: Block) -> list[Vector]:
        """√p_k·Cᵀ(e_k - p) for every class k: the sum of their squares is M."""
        p = self.probabilities(block)
        return [scaled(_combined((np.arange(self.classes) == k) - p, self.basis), np.sqrt(p[:, k])) for k in range(self.classes)]

    def weights(self, block: Block, radius: float) -> tuple[Vector, Vector]:
        """(√a, ω) of every row; ω is 0 for a null row."""
        root = np.sqrt(self.importance(block))
        return root, weight_of(self, radius, block, root)

    def slopes(self, block: Block, radius: float) -> Vector:
        """ω·√a·s of every row."""
        root, weight = self.weights(block, radius)
        slopes = scaled(self.scores(block), weight * root)
        return slopes if self.outputs > 1 else slopes[:, 0]


class SoftmaxSum(ScoreSum):
    """Σ ω·s ⊗ u. **Sensitivity** κ·√2·R."""


class SoftmaxScores(ScoreMatrix):
    """svec(Σ ω²·ssᵀ ⊗ uuᵀ). **Sensitivity** 2R², √2 times that for a replaced row."""


@dataclass(frozen=True, eq=False)
class SoftmaxCurvature(Moments):
    """svec(Σ ω·M ⊗ uuᵀ). **Sensitivity** R²/2, √2 times that for a replaced row.

    What a row adds is Σ_k c_k c_kᵀ with K vectors of whole numbers of R·2⁻²⁰, so it is positive semidefinite. Its Frobenius norm
    is that of the K × K products ⟨c_k, c_l⟩, and its entries are at most Σ_k ‖c_k‖². Both are compared with their bounds, 2³⁹ and
    2⁴⁰ steps: a row that rounding made longer is shortened, and one that still is adds nothing.
    """

    score: SoftmaxScore
    radius: float

    def factors(self, block: Block) -> list[Pair]:
        """The block's exact sum: each row has K factors, and not all of them are in memory at once."""
        root, weight = self.score.weights(block, self.radius)
        rows = scaled(self.score.features.dense(block.X), settled(np.sqrt(weight) * root))
        roots, size = self.score.roots(block), self.score.outputs * rows.shape[1]
        total, count = np.zeros((size, size)), max(1, NUMBERS_AT_ONCE // (self.score.classes * size))
        for first in range(0, len(rows), count):
            part = slice(first, first + count)
            for c in self._whole([crossed(settled(one[part]), rows[part]) for one in roots]):
                total += c.T @ c
        return [Pair(total.reshape(1, -1))]

    def _whole(self, factors: list[Vector]) -> list[Vector]:
        """The factors as whole numbers, no row beyond its bounds."""
        counts = [in_ball(one, self.radius) for one in factors]
        size = _longest(counts, self.score.curvature_bound)
        if (size > 1.0).any():
            shorter = np.where(size > 1.0, SHORTER / np.sqrt(np.maximum(size, 1.0)), 1.0)
            counts = [np.trunc(scaled(one, shorter)) for one in counts]
            kept = (_longest(counts, self.score.curvature_bound) <= 1.0).astype(np.float64)
            counts = [scaled(one, kept) for one in counts]
        return counts

    def units(self, total: NDArray[np.longdouble]) -> Vector:
        return moments_of(total, self.radius**2)

    @property
    def row_bound(self) -> float:
        return self.score.curvature_bound * self.radius**2


def _longest(counts: list[Vector], bound: float) -> Vector:
    """The larger of Frobenius norm and trace of Σ_k c_k c_kᵀ, each over its bound (`bound` and 1, in steps)."""
    squares, trace = np.zeros(len(counts[0])), np.zeros(len(counts[0]))
    for k, one in enumerate(counts):
        own = np.vecdot(one, one)
        trace += own
        squares += own * own
        for other in counts[:k]:
            squares += 2.0 * np.vecdot(one, other) ** 2
    # Roots and sums of squares round by less than 2⁻⁴⁰ of themselves.
    return np.asarray(np.maximum(np.sqrt(squares) * ((1.0 + 2.0**-40) / (bound * MOST**2)), trace / MOST_PRODUCT))


@dataclass(frozen=True, eq=False)
class SoftmaxNumbers(Counted):
    """(Σ ω‖s‖²/2, Σ ω·tr M), each times the row's importance. **Sensitivity** √2 under every relation: one row's pair moves
    inside the unit square."""

    score: SoftmaxScore
    radius: float

    def tally(self, block: Block) -> Vector:
        _, weight = self.score.weights(block, self.radius)
        p, importance = self.score.probabilities(block), self.score.importance(block)
        wrong = np.sum((p - (np.asarray(block.y)[:, None] == np.arange(self.score.classes))) ** 2, axis=1)
        shares = (importance * wrong / 2.0, 1.0 - np.sum(p * p, axis=1))
        return np.array([np.sum(whole(np.clip(weight * importance * share, 0.0, 1.0), 1.0)) for share in shares])

    @property
    def unit(self) -> float:
        """By which the ratio of the two is that of squared scores to traces of curvatures."""
        return self.score.slope_bound**2

    def sensitivity(self, relation: str) -> float:
        return math.sqrt(2.0)


@dataclass(frozen=True, eq=False)
class ClassCounts(Histogram):
    """Number of rows of each class. **Sensitivity** 1, √2 for a replaced row, which leaves one class and enters another."""

    classes: int

    def tally(self, block: Block) -> Vector:
        labels = np.nan_to_num(np.asarray(block.y, dtype=np.float64), nan=-1.0)  # no class of these
        known = present(block) * ((labels >= 0) & (labels < self.classes))
        place = np.clip(labels, 0, self.classes - 1).astype(np.int64)
        return np.asarray(np.bincount(place, weights=whole(known, 1.0), minlength=self.classes), dtype=np.float64)
