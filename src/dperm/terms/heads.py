"""What one embedding adds to the sums that train a last layer: its second moments, its size and gradient after whitening.

Every row x is brought to length 1 first, by a rule that looks at that row alone: x goes on its grid (whole numbers b, 20 bits
under its largest entry), whose norm is exact, and z = b/‖b‖. An entry that is no finite number counts as 0, and a row of zeros
stays one.

Rows are wide (thousands of columns), so a block is never widened to float64 as a whole: runs of rows are, one after the other.
All sums are of whole numbers below 2⁵³, which are exact in any order, so the runs change no bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.blas import dsyrk

from dperm.privacy import kappa
from dperm.problem.arrays import Matrix, Vector, dense
from dperm.rows import int8
from dperm.rows.base import Block, Rows
from dperm.rows.embeddings import EmbeddingTensors
from dperm.rows.exact import MOST_PRODUCT, Amounts, Pair, Tallied
from dperm.rows.recoded import RecodedRows
from dperm.terms.affine import Features
from dperm.terms.gridded import DenseGrid, gridded, on_grid, scaled
from dperm.terms.heads_device import TensorDirections, WhiteTensors, unit_moments
from dperm.terms.mixing import Mixing
from dperm.terms.moments import in_ball, smat
from dperm.terms.statistics import present

if TYPE_CHECKING:
    from torch import Tensor

FEWEST, IN_CACHE = 64, 1 << 18  # rows of a run at least, and numbers of one whose float64 copy stays in a second-level cache
LONG_RUN = 512  # rows of a product with d columns, where the copy does not matter
LARGEST = 1e150  # larger entries count as this one
DIRECTION_STEPS = 2.0**26  # of a direction of length 1: 2²⁰·√8192·2²⁶ is below 2⁵³


def runs(count: int, length: int) -> Iterator[slice]:
    """Runs of rows: two to three times as fast as a whole block of wide rows."""
    return (slice(start, min(start + length, count)) for start in range(0, count, length))


def raw_rows(X: Matrix) -> Vector:
    """Some rows of whatever numbers they are stored in, as a float64 copy without anything infinite, or nearly so."""
    rows = np.array(dense(X), dtype=np.float64)
    known = np.isfinite(rows)
    if not known.all():
        rows[~known] = 0.0
    return np.clip(rows, -LARGEST, LARGEST, out=rows)


def whole_rows(X: Matrix) -> tuple[Vector, Vector]:
    """Whole numbers b of every row, and ‖b‖ (that of a row of zeros counts as one of length 1)."""
    grid = DenseGrid.of_rows(raw_rows(X))
    return grid.rows.astype(np.float64), np.where(grid.norm > 0, grid.norm, 1.0) * 2.0**grid.bits


def unit_rows(X: Matrix) -> DenseGrid:
    """Rows of length 1 on their grid, whose margins are exact: what a released model is asked about. A row of zeros stays one.

    >>> unit_rows(np.array([[3e200, 4e200], [0.0, 0.0]])).margins(np.array([[1.0, 0.0]])).round(5).tolist()
    [[0.70711], [0.0]]
    """
    rows = raw_rows(X)
    rows /= np.maximum(np.abs(rows).max(axis=1, initial=0.0), 1e-300)[:, None]  # squares of any size are finite now
    size = np.sqrt(np.vecdot(rows, rows))
    return DenseGrid.of_rows(scaled(rows, 1.0 / np.where(size > 0, size, 1.0)))


@dataclass(frozen=True, eq=False)
class UnitMoments(Tallied):
    """svec(Σ z zᵀ) of rows of length 1: the diagonal, then √2 times what is above it, so that ℓ2 and Frobenius norms agree.

    **Sensitivity** 1 for one row nulled, added or removed: ‖zzᵀ‖_F = ‖z‖² ≤ 1. √2 for one replaced:
    ‖zzᵀ - vvᵀ‖_F² = ‖z‖⁴ + ‖v‖⁴ - 2⟨z, v⟩² ≤ 2, because both are positive semidefinite; equality for orthogonal rows.
    """

    d: int
    row_bound: ClassVar[float] = math.sqrt(2.0)

    def tally(self, block: Block) -> Vector:
        """Upper triangle of Σ c cᵀ, diagonal first, where c = z in whole numbers of 2⁻²⁰."""
        taking_part = present(block)
        total = np.zeros((self.d, self.d), order="F")
        for run in runs(len(block.y), LONG_RUN):
            b, length = whole_rows(block.X[run])
            c = in_ball(scaled(b, taking_part[run] / length), 1.0)
            total = dsyrk(1.0, c.T, beta=1.0, c=total, overwrite_c=1)
        return np.concatenate([np.diag(total), *(total[j, j + 1 :] for j in range(self.d - 1))])

    def units(self, total: NDArray[np.longdouble]) -> Vector:
        """Of pairs c cᵀ, whose step is 2⁻⁴⁰."""
        found = np.asarray(total / MOST_PRODUCT, dtype=np.float64)
        found[self.d :] *= math.sqrt(2.0)
        return found

    def tensor_sum(self, rows: EmbeddingTensors) -> Tensor:
        return unit_moments(rows)

    def sensitivity(self, relation: str) -> float:
        return math.sqrt(2.0) if kappa(relation) == 2 else 1.0


class WideGrid(DenseGrid):
    """Rows on their grid, multiplied run by run."""

    @property
    def run(self) -> int:
        return max(FEWEST, IN_CACHE // max(int(self.rows.shape[1]), 1))

    def margins(self, weights: Vector) -> Vector:
        room = 2.0**52 / (2.0**self.bits * math.sqrt(max(self.rows.shape[1], 1)))
        steps, step = on_grid(weights, room)
        found = np.empty((len(self.rows), len(weights)))
        for run in runs(len(self.rows), self.run):
            np.matmul(self.rows[run].astype(np.float64), steps.T, out=found[run])
        return scaled(found, self.size * (step * 2.0**-self.bits))

    def pairs(self, left: Vector) -> list[Pair]:
        """The product itself, beside a column of ones: partial sums are whole numbers of at most 2⁵³, so they add exactly."""
        total = np.zeros((left.shape[1], self.rows.shape[1]))
        for run in runs(len(self.rows), self.run):
            total += left[run].T @ self.rows[run].astype(np.float64)
        return [Pair(total.reshape(1, -1)), Pair(np.zeros(1))]


@dataclass(frozen=True, eq=False)
class WhiteRows:
    """The rows of a block after whitening, on their grid and nowhere else: at most one copy is held."""

    grid: WideGrid

    @property
    def shape(self) -> tuple[int, int]:
        return self.grid.rows.shape[0], self.grid.rows.shape[1]

    def gridded(self, features: Features) -> WideGrid:
        return self.grid


@dataclass(frozen=True, eq=False)
class Directions:
    """z ↦ diag(scale)·Vᵀz: V in whole numbers of 2⁻²⁶, so that Vᵀb is exact for a row on its grid, wherever the row stands."""

    steps: Vector  # d × d, one direction a column
    scale: Vector

    @staticmethod
    def of(moments: Vector, floor: float) -> Directions:
        """V: eigenvectors of the noisy moments; scale √(f/max(λ, f)) ≤ 1, so that no row becomes longer."""
        values, vectors = eigh(moments, overwrite_a=True, check_finite=False, driver="evd")
        # Which of ±v a library gives is its own affair: the largest entry is made positive, so that seeded fits agree.
        largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None, :], axis=0)
        vectors *= np.where(largest < 0, -DIRECTION_STEPS, DIRECTION_STEPS)
        return Directions(np.rint(vectors, out=vectors), np.sqrt(floor / np.maximum(values, floor)))

    def zeros(self, classes: int) -> Vector:
        """Where a descent starts."""
        return np.zeros((classes, len(self.scale)))

    def back(self, theta: Vector) -> Vector:
        """Coefficients of z from those of diag(scale)·Vᵀz."""
        return np.asarray((theta * (self.scale / DIRECTION_STEPS)) @ self.steps.T)

    def block(self, block: Block) -> Block:
        return block.remember((self, "whitened"), lambda: self._whitened(block))

    def _whitened(self, block: Block) -> Block:
        count = len(block.y)
        rows, (size, norm, limit) = np.empty((count, len(self.scale)), dtype=np.float32), np.empty((3, count))
        for run in runs(max(count, 1), LONG_RUN):  # into their place: a second copy of the block would be held for a moment
            part = self._grid(block.X[run])
            rows[run], size[run], norm[run], limit[run] = part.rows, part.size, part.norm, part.limit
        grid = WideGrid(rows, part.bits, size=size, norm=norm, limit=limit)
        return Block(WhiteRows(grid), block.y, block.weight, block.start)

    def _grid(self, X: Matrix) -> DenseGrid:
        b, length = whole_rows(X)
        rows = b @ self.steps
        rows *= self.scale / DIRECTION_STEPS
        return DenseGrid.of_rows(scaled(rows, 1.0 / length))


@dataclass(frozen=True, eq=False)
class Whitening:
    """See rows through the directions of a noisy second-moment matrix. Everything in it follows from what was released."""

    moments: Vector  # svec, with noise
    d: int
    floor: float
    classes: int

    def of(self, rows: Rows) -> tuple[Rows, Directions | TensorDirections]:
        if isinstance(rows, EmbeddingTensors):
            on_device = TensorDirections.of(self.moments, self.d, self.floor, DIRECTION_STEPS)
            return WhiteTensors(rows, on_device, int8.limbs_for(self.classes)), on_device
        directions = Directions.of(smat(self.moments, self.d), self.floor)
        return RecodedRows(rows, directions), directions

    def unseen(self) -> Directions:
        """A replay has no moments: coefficients that follow from them are NaN."""
        return Directions(np.broadcast_to(np.nan, (self.d, self.d)), np.full(self.d, np.nan))


@dataclass(frozen=True, eq=False)
class Turning:
    """See the rows of a table as T·(scale∘(x - m)), T = V diag(√(f/max(λ, f))) Vᵀ of the noisy moments: what `Whitening` does to
    embeddings, in the coordinates that the rows had. Everything in it follows from what was released."""

    moments: Vector  # svec, of the rows r·scale∘(x - m) in the ball of radius r, with noise
    shift: Vector
    scale: Vector
    radius: float
    floor: float

    def of(self, rows: Rows) -> tuple[Rows, Vector]:
        values, vectors = eigh(smat(self.moments / self.radius**2, len(self.shift)), overwrite_a=True, check_finite=False)
        turn = (vectors * np.sqrt(self.floor / np.maximum(values, self.floor))) @ vectors.T
        turn = (turn + turn.T) / 2.0
        return Mixing(self.shift, self.scale, turn).of(rows)[0], turn

    def unseen(self) -> Vector:
        """A replay has no moments."""
        return np.full((len(self.shift), len(self.shift)), np.nan)


class MeanSquare(Amounts):
    """Σ min(‖z‖², 1) of the rows as they are seen. **Sensitivity** 1 under every relation: each row adds a number in [0, 1]."""

    row_bound: ClassVar[float] = 1.0

    def amounts(self, block: Block) -> Vector:
        size = np.minimum(gridded(block, Features()).norms, 1.0)
        return size * size * present(block)

    def tensor_sum(self, rows: WhiteTensors) -> Vector:
        return rows.mean_square()
