"""Terms for additive models: histograms of columns, rows seen as cells, features of cells by table look-up, recalibration.

A numeric column is cut into 256 cells of equal width inside its bounds, and one more for missing cells. What a column adds to a
prediction is a number per cell, so a row is p cell numbers beside its linear columns: no wide matrix of features is formed.

| term          | one row adds                                       | null one row | replace one row |
|---------------|----------------------------------------------------|--------------|-----------------|
| Marginals     | one count per column, p columns                    | √p           | √(2p)           |
| Recalibration | (u, uh, h, h²) with u, h in [-1, 1]                | 2            | 2√2             |
| Level         | u in [-1, 1]                                       | 1            | 2               |

Gradients of an additive model are `GradientTerm`s with `CurveFeatures`: a slope times a vector whose norm is known, clipped to C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dperm.privacy import kappa
from dperm.problem.arrays import Matrix, Vector, is_sparse
from dperm.rows.base import Block, Rows
from dperm.rows.exact import Counted, Pair, whole
from dperm.rows.recoded import Filling, RecodedRows, RowView
from dperm.tables.gaps import is_gap
from dperm.terms.affine import Features, settled
from dperm.terms.gridded import DenseGrid, Grid, SparseGrid, gridded, scaled
from dperm.terms.sparse_rows import narrowest
from dperm.terms.statistics import ColumnHistogram, SignedAmounts, present

Cells = NDArray[np.int32]
CELLS = 256
PLACES = CELLS + 1  # the last one is for missing cells
KEPT = "cells"  # where a block keeps the cell numbers of its rows


def dense_columns(X: Matrix, columns: tuple[int, ...]) -> np.ndarray:
    """Some columns of encoded rows as a dense array; a missing cell keeps its mark, which adding zeros would lose."""
    if not is_sparse(X):
        return np.asarray(X)[:, list(columns)]
    place = np.full(X.shape[1], -1)
    place[list(columns)] = np.arange(len(columns))
    found, row = place[X.indices], np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    dense = np.zeros((X.shape[0], len(columns)), dtype=X.dtype)
    dense[row[found >= 0], found[found >= 0]] = X.data[found >= 0]
    return dense


def cell_numbers(X: Matrix, columns: tuple[int, ...], gaps: tuple[int, ...]) -> Cells:
    """Cell of every row in every column: 0 … 255 over [-1/2, 1/2], values outside in the end cells; 256 for a missing cell of a
    column in `gaps`.

    >>> cell_numbers(np.array([[-0.5], [0.0], [-0.0], [7.0]]), (0,), (0,)).ravel().tolist()
    [0, 128, 256, 255]
    """
    values = dense_columns(X, columns)
    with np.errstate(invalid="ignore"):
        cells = np.clip(np.floor((values.astype(np.float64) + 0.5) * CELLS), 0, CELLS - 1)
    cells = np.where(np.isfinite(cells), cells, 0).astype(np.int32)
    counted = np.array([j in gaps for j in columns], dtype=bool)
    return np.where(is_gap(values) & counted, np.int32(CELLS), cells)


@dataclass(frozen=True, eq=False)
class Marginals(ColumnHistogram):
    """How many rows lie in each cell of each column, flattened.

    **Sensitivity** √p: a row adds one count per column; √(2p) when it is replaced, because it may leave a cell and enter another
    in every column.
    """

    gaps: tuple[int, ...] = ()

    def tally(self, block: Block) -> Vector:
        cells, here = cell_numbers(block.X, self.columns, self.gaps), whole(present(block), 1.0)
        counts = [np.bincount(column, weights=here, minlength=PLACES) for column in cells.T]
        return np.asarray(np.concatenate(counts), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class CellFilling(Filling):
    """Missing cells take their column's centre, as in `Filling`; the block keeps beside it in which cells its rows were.

    A map that looks at each row alone, so a term that bounds what it is shown keeps its sensitivity.
    """

    columns: tuple[int, ...] = ()
    gaps: tuple[int, ...] = ()

    def block(self, block: Block) -> Block:
        def celled() -> Block:
            filled = super(CellFilling, self).block(block)
            cells = cell_numbers(block.X, self.columns, self.gaps)
            return Block(filled.X, block.y, block.weight, block.start, {KEPT: cells})

        return block.remember((self, KEPT), celled)

    def of(self, rows: Rows) -> tuple[Rows, None]:
        return RecodedRows(rows, self), None


@dataclass(frozen=True, eq=False)
class Curved:
    """Rows as an additive model sees them: linear columns, and an n × 257p matrix with a one for each cell of a row."""

    X: Matrix
    cells: csr_array

    @property
    def shape(self) -> tuple[int, int]:
        return (self.X.shape[0], self.X.shape[1])

    def gridded(self, features: CurveFeatures) -> CurvedGrid:
        return CurvedGrid.of(self, features)


class Curving(RowView):
    """Rows that hold their cells (`CellFilling`) as `Curved` rows; row by row."""

    def seen(self, block: Block) -> Block:
        return Block(Curved(block.X, ones_of(block.memory[KEPT])), block.y, block.weight, block.start)


def ones_of(cells: Cells) -> csr_array:
    """Cell numbers of n rows and p columns as a sparse n × 257p matrix of ones."""
    n, p = cells.shape
    places = (cells + PLACES * np.arange(p, dtype=np.int32)).ravel()
    return csr_array((shared_ones(n * p, "float64"), places, np.arange(0, n * p + 1, p, dtype=np.int32)), shape=(n, PLACES * p))


@lru_cache(maxsize=8)
def shared_ones(count: int, dtype: str) -> np.ndarray:
    """Ones that all blocks of a size share and nobody writes to: they stay in the cache, where a pass reads cell numbers only."""
    ones = np.ones(count, dtype=dtype)
    ones.flags.writeable = False
    return ones


@dataclass(frozen=True, eq=False)
class CurveFeatures(Features):
    """(z, φ_1(cell_1), …, φ_p(cell_p)) with z the affine map of the linear columns and φ_j a table of 257 × m numbers.

    Weights hold those of z first, its intercept included, then m of each column; one row of them per margin.
    """

    tables: Vector = field(default_factory=lambda: np.zeros((0, PLACES, 0)))

    def width(self, d: int) -> int:
        return int(super().width(d) + self.tables.shape[0] * self.tables.shape[2])

    @cached_property
    def line(self) -> Features:
        """The affine part: one object, by which blocks find what others have computed."""
        return Features(self.intercept, self.shift, self.scale)

    def values(self, weights: Vector) -> Vector:
        """What every cell of every column adds to a prediction, (places,) for weights of one margin, (K, places) for K."""
        return _values(self, np.ascontiguousarray(weights, dtype=np.float64).tobytes(), weights.shape)

    @property
    def places(self) -> int:
        return int(self.tables.shape[0] * PLACES)

    def looked_up(self, totals: np.ndarray) -> np.ndarray:
        """In the precision of the totals, (K, places): what the products round off must stay small beside one row of many."""
        curves = np.vecdot(totals.reshape(len(totals), -1, 1, PLACES), self._precise.astype(totals.dtype, copy=False))
        return np.asarray(curves.reshape(len(totals), -1))

    @cached_property
    def _precise(self) -> NDArray[np.longdouble]:
        """The tables as totals are, the 257 numbers of a feature one after the other; every sum asks for them."""
        return np.ascontiguousarray(self.tables.swapaxes(1, 2), dtype=np.longdouble)

    @cached_property
    def key(self) -> tuple[object, ...]:
        return (*super().key, self.tables.tobytes())

    @cached_property
    def squares(self) -> Vector:
        """‖φ_j(cell)‖² of every cell of every column, flattened; 1e-12 is far above what m squares in float64 round off."""
        return np.asarray(np.sum(self.tables**2, axis=2).reshape(-1) * (1 + 1e-12))


@lru_cache(maxsize=4)
def _values(features: CurveFeatures, numbers: bytes, shape: tuple[int, ...]) -> Vector:
    """Every block of a sum asks for the same ones, so they are kept."""
    p, _, m = features.tables.shape
    weights = np.frombuffer(numbers).reshape(*shape[:-1], p, m, 1)
    return np.asarray((features.tables @ weights).reshape(*shape[:-1], -1))


@dataclass(frozen=True, eq=False)
class CurvedGrid(Grid):
    """Rows (z, φ(cells)) on their grid: (z, 1) = 2^e·(b, t), and a t in every cell of the row.

    The sums are of a·b and of a·t for every cell. Both are whole numbers; the tables are linear in the totals of the cells and
    are applied to them once. `line` holds b; a is clipped against the norm of the whole row, √(‖b‖² + t²·Σ_j‖φ_j‖²): what a row
    adds is a·(b, t·φ), no longer than C.
    """

    line: DenseGrid | SparseGrid
    scale: Vector  # t of every row
    cells: csr_array  # ones in int64
    ones: csr_array  # the same in float64
    features: CurveFeatures

    @staticmethod
    def of(rows: Curved, features: CurveFeatures) -> CurvedGrid:
        X, sparse = rows.X, is_sparse(rows.X)
        line = SparseGrid.of(X, features.line, least=1.0) if is_sparse(X) else DenseGrid.of(X, features.line, least=1.0)
        bits = line.bits
        t = np.where(line.size > 1.0, np.rint(2.0**bits / line.size), 0.0)  # a row with 2^e ≤ 1 is one that counts as zeros
        norm = np.sqrt(line.norm**2 + (t * 2.0**-bits) ** 2 * (rows.cells @ features.squares))
        floor = narrowest(features.line) if sparse else 0.5
        limit = line.most / np.maximum(norm, floor)
        whole = shared_ones(rows.cells.nnz, "int64")
        cells = csr_array((whole, rows.cells.indices, rows.cells.indptr), shape=rows.cells.shape)
        return CurvedGrid(line, t, cells, rows.cells, features, size=line.size, norm=norm, limit=limit)

    @property
    def most(self) -> float:
        return self.line.most

    def margins(self, weights: Vector) -> Vector:
        """Each row adds the numbers of its cells one after the other: a function of the row alone."""
        features = self.features
        linear = weights.shape[-1] - features.tables.shape[0] * features.tables.shape[2]
        return np.asarray(self.line.margins(weights[..., :linear]) + self.ones @ features.values(weights[..., linear:]).T)

    def pairs(self, left: Vector) -> list[Pair]:
        """a·t is a whole number below 2⁵³, as every product of factors is: taken once per row, and not in each of its cells."""
        rows, waits = self.line.pairs(left)
        return [rows, Pair(scaled(left, self.scale), self.cells), waits]


@dataclass(frozen=True, eq=False)
class Recalibration(Counted):
    """Σ (u, uh, h, h²) with u = clip((y - f)/B, ±1) and h = clip((f - f₀)/s, ±1): the normal equations of r ≈ a + b·h.

    **Sensitivity** 2 for a row that is nulled: ‖v‖² = (1 + h²)(u² + h²) ≤ 4. For a row that is replaced, v and v' have
    ⟨v, v'⟩ = (1 + t)(uu' + t) ≥ t² - 1 with t = hh', so ‖v - v'‖² ≤ (1 + h²)² + (1 + h'²)² + 2 - 2t²
    = 4 + 2(h² + h'²) + (h² - h'²)², convex in (h², h'²) and largest at h² = h'² = 1: 2√2.
    """

    features: Features
    w: Vector
    centre: float
    spread: float
    bound: float

    def tally(self, block: Block) -> Vector:
        f = gridded(block, self.features).margins(self.w)
        u = np.clip(settled((block.y - f) / self.bound), -1.0, 1.0) * present(block)
        h = np.clip(settled((f - self.centre) / self.spread), -1.0, 1.0) * present(block)
        return np.array([np.sum(whole(part, 1.0)) for part in (u, u * h, h, h * h)])

    def sensitivity(self, relation: str) -> float:
        return 2.0 * math.sqrt(kappa(relation))


@dataclass(frozen=True, eq=False)
class Level(SignedAmounts):
    """Σ u with u = clip((y - f)/B, ±1): the first sum of `Recalibration`, where the level alone is corrected.

    **Sensitivity** 1 for a row that is nulled, 2 for one that is replaced: u lies in [-1, 1].
    """

    features: Features
    w: Vector
    bound: float
    row_bound: ClassVar[float] = 1.0

    def amounts(self, block: Block) -> Vector:
        f = gridded(block, self.features).margins(self.w)
        return np.clip(settled((block.y - f) / self.bound), -1.0, 1.0) * present(block)
