"""Terms for private preprocessing: sums of rows, squares, labels, and histograms of magnitudes.

Each term clips what one row adds, so that its sensitivity is a fact about the code and not about the data. A row of weight 0
(a null row: a label outside the classes, a row beyond a person's limit) adds nothing to any of them.

| term           | one row adds                   | null one row | replace one row |
|----------------|--------------------------------|--------------|-----------------|
| RowSum         | x clipped to norm r            | r            | 2r              |
| PresentCount   | 1 per present cell, p columns  | √p           | √p              |
| SquareSum      | z∘z, norm ≤ q ≤ r²             | q            | √2·q            |
| LogHistogram   | one count of one bin           | 1            | √2              |
| RowCount       | 1                              | 1            | 1               |
| PositiveCount  | 1 or 0                         | 1            | 1               |
| LabelSum       | y in [low, high]               | max|y|       | high - low      |
| ColumnHistogram| one count per column, p columns| √p           | √(2p)           |
| GradientTerm   | clipped gradient × weight ≤ W  | W·C          | 2W·C            |

√2 and not 2 for squares: both vectors are non-negative, so ‖a - b‖² = ‖a‖² + ‖b‖² - 2⟨a, b⟩ ≤ 2q².
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.privacy import kappa
from dperm.problem import Loss
from dperm.problem.arrays import Array, Matrix, Vector, is_sparse
from dperm.rows.base import Block
from dperm.rows.exact import MOST_PRODUCT, Amounts, Counted, Pair, Paired, whole
from dperm.tables.gaps import is_gap
from dperm.terms import device
from dperm.terms.affine import Features, settled
from dperm.terms.gradient import GradientTerm
from dperm.terms.gridded import Grid, Pulled, gridded, scaled, shortened
from dperm.terms.moments import centred_squares, in_ball, row_weights, sparse_squares, square_norms
from dperm.terms.sparse_rows import canonical, centred_fourths, centred_norms, stretched

if TYPE_CHECKING:
    from dperm.rows.device import DeviceRows

BINS = 24


def present(block: Block) -> Vector:
    """1 for a row that takes part, 0 for a null row."""
    if block.weight is None:
        return np.ones(len(block.y))
    return np.asarray(block.weight > 0, dtype=np.float64)


PLAIN = Features()


@dataclass(frozen=True, eq=False)
class RowSum(Pulled):
    """Σ x_i·min(1, r/‖x_i‖), of rows seen through `features` where they are given (x - m for a shift m).

    **Sensitivity** κr: each clipped row has norm ≤ r.
    """

    radius: float
    features: Features = PLAIN

    @property
    def longest(self) -> float:
        return self.radius

    def slopes(self, block: Block, grid: Grid) -> Vector:
        return present(block)


@dataclass(frozen=True, eq=False)
class PresentCount(Counted):
    """Number of rows whose cell is present, for every one of p columns.

    **Sensitivity** √p under every relation. One row adds a vector a in {0, 1}^p, of norm ≤ √p; nulled, added or removed it moves
    the sum by a. Replaced by a row that adds b it moves the sum by a - b, whose entries lie in {-1, 0, 1}: √p again, and not
    √(2p) as for a histogram, where leaving one bin means entering another.
    """

    columns: tuple[int, ...]

    def tally(self, block: Block) -> Vector:
        here, X = whole(present(block), 1.0), block.X
        if not is_sparse(X):
            return np.asarray(here @ ~is_gap(X[:, list(self.columns)]))
        gap = is_gap(X.data)
        weights = np.repeat(here, np.diff(X.indptr))[gap]
        absent = np.bincount(X.indices[gap], weights=weights, minlength=X.shape[1])
        return np.asarray(here.sum() - absent[list(self.columns)])

    def sensitivity(self, relation: str) -> float:
        return math.sqrt(len(self.columns))


@dataclass(frozen=True, eq=False)
class SquareSum(Paired):
    """Σ s_i with s_i = z'_i∘z'_i, z'_i = z_i·min(1, r/‖z_i‖), z = scale∘(x - m); where `most` is given, s_i·min(1, most/‖s_i‖).

    **Sensitivity** q = min(r², most): ‖s‖₂ = ‖z'‖₄² ≤ ‖z'‖₂² ≤ r². Between two such vectors √2·q: they are non-negative.
    """

    features: Features
    radius: float
    most: float | None = None
    precision: ClassVar[type] = object

    def factors(self, block: Block) -> list[Pair]:
        """The squares of the whole numbers of every row, or, of a sparse one, what they are made of: see `sparse_squares`."""
        if is_sparse(block.X):
            return sparse_squares(block.X, present(block), self.features, self.radius, self.most)
        squares = squares_in_ball(block, self.features, self.radius)
        if self.most is not None:
            limit = self.row_bound * (MOST_PRODUCT / self.radius**2)
            norms = square_norms(squares)
            shorter = np.trunc(scaled(squares, limit / np.maximum(norms, limit)))
            squares = np.where((norms > limit)[:, None], shorter, squares)
        return [Pair(squares), Pair(np.zeros(1))]

    def units(self, total: NDArray[np.object_]) -> Vector:
        if not total[-1]:
            return np.asarray(total[:-1].astype(np.longdouble) * (self.radius**2 / MOST_PRODUCT), dtype=np.float64)
        shift, scale = self.features.shift, self.features.scale
        return centred_squares(total, shift if shift is None or scale is None else shift * scale, self.radius)

    def sensitivity(self, relation: str) -> float:
        return math.sqrt(kappa(relation)) * self.row_bound

    @property
    def row_bound(self) -> float:
        return self.radius**2 if self.most is None else min(self.most, self.radius**2)


def squares_in_ball(block: Block, features: Features, radius: float) -> Vector:
    """z'∘z' of dense rows as whole numbers of (radius·2⁻²⁰)²."""
    rows = np.array(block.X, dtype=np.float64) if features.shift is None else block.X - features.shift
    rows = rows if features.scale is None else rows * features.scale
    inside = in_ball(scaled(rows, present(block)), radius)
    return inside * inside


class Histogram(Counted):
    """Counts of rows in the cells of one column, or of several.

    **Sensitivity** √p, where a row is in one cell of each of p columns; √(2p) when it is replaced: in each it may leave one cell
    and enter another.
    """

    @property
    def width(self) -> int:
        """p: how many columns are counted."""
        return 1

    def sensitivity(self, relation: str) -> float:
        return math.sqrt(kappa(relation) * self.width)


@dataclass(frozen=True, eq=False)
class ColumnHistogram(Histogram):
    """Counts of cells of each of some columns."""

    columns: tuple[int, ...]

    @property
    def width(self) -> int:
        return len(self.columns)


@dataclass(frozen=True, eq=False)
class LogHistogram(Histogram):
    """Counts of magnitudes v ≥ 0 in 24 bins with edges top·2^(-k/2): bin k holds (top·2^(-(k+1)/2), top·2^(-k/2)].

    Larger values fall in the first bin, tiny ones in the last. `measure` gives one magnitude per row.

    **Sensitivity** 1 (a row is in one bin), √2 when a row is replaced (it leaves one bin and enters another).
    """

    measure: Callable[[Block], Vector]
    top: float

    def tally(self, block: Block) -> Vector:
        values = np.maximum(settled(np.asarray(self.measure(block), dtype=np.float64)), self.top * 1e-30)
        place = np.clip(np.floor(2.0 * np.log2(self.top / values)), 0, BINS - 1).astype(np.int64)
        return np.asarray(np.bincount(place, weights=whole(present(block), 1.0), minlength=BINS), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class RowNorms:
    """‖z_i‖ under an affine map, as the measure of a histogram."""

    features: Features

    def __call__(self, block: Block) -> Vector:
        return gridded(block, self.features).norms


@dataclass(frozen=True, eq=False)
class SquareNorms:
    """‖z'_i∘z'_i‖₂ of centred and scaled rows cut to a radius, at most its square, as the measure of a histogram."""

    features: Features
    radius: float

    def __call__(self, block: Block) -> Vector:
        if not is_sparse(block.X):
            return square_norms(squares_in_ball(block, self.features, self.radius)) * (self.radius**2 / MOST_PRODUCT)
        X, shift = stretched(canonical(block.X), self.features)
        lengths = centred_norms(X, X.data, np.ones(X.shape[0]), Features(shift=shift))
        inside = np.minimum(1.0, self.radius / np.maximum(lengths, 1e-200))
        return (centred_fourths(X, X.data, shift, self.radius) * inside) ** 2


@dataclass(frozen=True, eq=False)
class Residuals:
    """|⟨z_i, w⟩ - y_i|, as the measure of a histogram."""

    features: Features
    w: Vector

    def __call__(self, block: Block) -> Vector:
        return np.asarray(np.abs(gridded(block, self.features).margins(self.w) - block.y))


def upper_quantile(counts: Vector, top: float, n: float, level: float) -> float:
    """Upper edge of the first bin, from the top, where the noisy count of larger values passes (1 - level)·n.

    >>> counts = np.zeros(24)
    >>> counts[4] = 100.0
    >>> upper_quantile(counts, 8.0, 100, 0.75)
    2.0
    """
    above = np.cumsum(np.asarray(counts, dtype=np.float64))
    place = 0
    while place + 1 < len(above) and above[place] <= (1.0 - level) * n:
        place += 1
    return float(top * 2.0 ** (-place / 2))


class SignedAmounts(Amounts):
    """Σ of one number per row in [-row_bound, row_bound]. **Sensitivity** κ·row_bound."""

    lowest: ClassVar[float] = -np.inf

    def sensitivity(self, relation: str) -> float:
        return kappa(relation) * self.row_bound


class RowCount(Amounts):
    """Number of rows that take part. **Sensitivity** 1 under every relation: one row's indicator is 0 or 1."""

    row_bound: ClassVar[float] = 1.0

    def amounts(self, block: Block) -> Vector:
        return present(block)


class PositiveCount(RowCount):
    """Number of rows with label +1, each counted as by `RowCount`."""

    def amounts(self, block: Block) -> Vector:
        return present(block) * (np.asarray(block.y) > 0)


@dataclass(frozen=True, eq=False)
class LabelSum(Amounts):
    """Σ y_i for labels in [low, high]. **Sensitivity** max(|low|, |high|); high - low when a row is replaced."""

    low: float
    high: float
    lowest: ClassVar[float] = -np.inf

    def amounts(self, block: Block) -> Vector:
        return present(block) * np.clip(np.asarray(block.y, dtype=np.float64), self.low, self.high)

    def sensitivity(self, relation: str) -> float:
        # A null row adds 0, which may lie outside [low, high]: the difference is then one label's size.
        return max(self.high - self.low, self.row_bound) if kappa(relation) == 2 else self.row_bound

    @property
    def row_bound(self) -> float:
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True, eq=False)
class WeightedGradientTerm(GradientTerm):
    """weight · clip_C(slope · z) with weights in [0, W].

    The clip acts before the weight: a row that counts double pulls twice as hard even where its gradient is clipped.

    **Sensitivity** κ·W·C.
    """

    max_weight: float = 1.0

    @property
    def longest(self) -> float:
        return self.clip * self.max_weight

    def slopes(self, block: Block, grid: Grid) -> Vector:
        slopes = shortened(settled(self.plain_slopes(block, grid)), self.clip / np.maximum(grid.norms, 1e-200))
        return scaled(slopes, row_weights(block, self.max_weight))

    device_pairs = device.weighted

    def device_sum(self, rows: DeviceRows, weight: Array | None) -> Vector | None:
        return device.fused_sum(rows, self, weight, self.max_weight)


@dataclass(frozen=True, eq=False)
class SmoothGradientTerm:
    """Σ weight·clip_C(slope·z) in float64, for sums inside a solve: a slope on a grid is a step function, and a step of descent
    that is made of it does not contract.

    **Sensitivity** κ·W·C, up to the rounding of float64.
    """

    loss: Loss
    w: Vector
    clip: float
    features: Features
    max_weight: float

    def __call__(self, block: Block) -> Vector:
        X: Matrix = block.X.astype(np.float64, copy=False)
        norms = block.remember((self.features.key, "norms"), lambda: np.sqrt(self.features.squared_norms(X)))
        slopes = settled(np.asarray(self.loss.slope(self.features.margins(X, self.w), block.y), dtype=np.float64))
        slopes = shortened(slopes, self.clip / np.maximum(norms, 1e-200))
        return self.features.pull(X, slopes * row_weights(block, self.max_weight))

    def sensitivity(self, relation: str) -> float:
        return kappa(relation) * self.row_bound

    @property
    def row_bound(self) -> float:
        return self.clip * self.max_weight

    device_pairs = device.weighted


def gradient_term(loss: Loss, w: Vector, clip: float, features: Features, max_weight: float | None) -> GradientTerm:
    """The plain term where no weights were declared (0/1 weights commute with the clip), the weighted one otherwise."""
    if max_weight is None:
        return GradientTerm(loss, w, clip, features)
    return WeightedGradientTerm(loss, w, clip, features, max_weight)
