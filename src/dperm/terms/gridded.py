"""Rows on public grids: z = 2^e·b, whole numbers b of steps; 2^e is the first power of two above the row's largest entry.

    b_j = round(z_j·2^(bits - e)),   |b_j| ≤ 2^bits,   ‖b‖² a whole number that float64 holds exactly, in any order of adding

The exponent comes from the largest entry, which no order of looking changes, so b is a function of the row alone, and its
resolution does not depend on how wide the declared bounds are. A left factor a = slope·2^e is clipped against the exact norm,
|a|·‖b‖ ≤ C, and put on the grid C·2^(bits - 40). Then |a_i·b_ij| ≤ 2⁴⁰ steps, as an exact product needs (`dperm.rows.exact`), and
the norm of what a row adds is at most C as a fact about whole numbers, up to 2⁻⁵⁰ for one root and one division.

Sparse rows keep x itself on the grid, with a 1 behind it where the map has a shift or an intercept: (x, 1) = 2^e·(b, t). The
sums are of a·(b, t); the affine map M is linear in (b, t) and is applied to the exact total, once. The clip is against
‖M(b, t)‖, the norm of the centred row. All sums are in int64.

A row with an entry that is no finite number is a row of zeros. A NaN slope adds nothing. Both happen here and nowhere else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.privacy.relations import kappa
from dperm.problem.arrays import Array, Vector, is_sparse
from dperm.rows.base import Block
from dperm.rows.compiled import LOADER
from dperm.rows.exact import MOST_PRODUCT, MOST_SPARSE_PRODUCT, Pair, Paired, margins
from dperm.terms.affine import Features, settled
from dperm.terms.sparse_rows import affine, canonical, centred_norms, narrowest, with_ones

if TYPE_CHECKING:
    from scipy import sparse


BITS = 20
SPARSE_BITS = 22  # of x itself: a map may stretch what its rounding is off by, where dense rows are rounded behind the map
# Beside a sum: whether its totals wait for the map (sparse rows) or have gone through it.
WAITS, READY = Pair(np.ones(1)), Pair(np.zeros(1))
LOWEST = -900  # exponent of a row of zeros, and of rows that are smaller than any number that matters
FEW_WEIGHTS = 1 << 18  # of which the latest sixteen are kept on their grid


def entry_bits(width: int) -> int:
    """Bits of a row's entries: 20, fewer where the squares of more than 8,192 columns would pass 2⁵³.

    >>> entry_bits(100), entry_bits(8192), entry_bits(1_000_000)
    (20, 20, 16)
    """
    return min(BITS, (53 - math.ceil(math.log2(max(width, 1)))) // 2)


def exponents(largest: Vector) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """e with largest < 2^e, and which rows hold something that is no finite number."""
    bad = ~np.isfinite(largest)
    e = np.frexp(np.where(bad, 0.0, largest))[1]
    return np.where(bad | (largest == 0), LOWEST, np.maximum(e, LOWEST)), bad


def on_grid(weights: Vector, room: float) -> tuple[Vector, float]:
    """Public weights as whole numbers of norm ≤ room (up to rounding), and their step: margins with them are exact sums.

    Every block of a sum asks for the same ones, so they are kept; of large ones, as 10,000 classes have, the latest alone.
    """
    keep = _few_on_grid if weights.size <= FEW_WEIGHTS else _many_on_grid
    return keep(np.asarray(weights, dtype=np.float64).tobytes(), weights.shape, room)


def _on_grid(numbers: bytes, shape: tuple[int, ...], room: float) -> tuple[Vector, float]:
    weights = np.frombuffer(numbers).reshape(shape)
    size = float(np.linalg.norm(weights))
    if not (math.isfinite(size) and size > 0):
        return np.zeros_like(weights), 1.0 if size == 0 else math.nan
    step = 2.0 ** (math.frexp(size)[1] - math.floor(math.log2(room)))
    return np.rint(weights / step), step


_few_on_grid, _many_on_grid = lru_cache(maxsize=16)(_on_grid), lru_cache(maxsize=1)(_on_grid)


@dataclass(frozen=True, eq=False, kw_only=True)
class Grid:
    """The rows of a block on their grid, whatever they are stored in: 2^e of every row, its norm in units of that, and its
    largest left factor, in steps."""

    size: Vector
    norm: Vector
    limit: Vector

    @property
    def norms(self) -> Vector:
        """‖z‖ of every row, as it stands on its grid."""
        return self.norm * self.size

    @property
    def most(self) -> float:
        """Steps of a left factor of full length against a row of norm 1."""
        raise NotImplementedError

    def margins(self, weights: Vector) -> Vector:
        """⟨z, w⟩ of every row."""
        raise NotImplementedError

    def pairs(self, left: Vector) -> list[Pair]:
        """The rows beside a left factor, and whether totals wait for the map (sparse rows), so that a sum says which it is."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class DenseGrid(Grid):
    """The rows z of a block as whole numbers b (in float32, which holds 24 bits), 2^e, and ‖b‖·2^-bits, at least ½ for z ≠ 0."""

    rows: NDArray[np.float32]
    bits: int

    @staticmethod
    def of(X: Array, features: Features, least: float = 0.0) -> DenseGrid:
        n, d = X.shape
        width = features.width(d)
        Z = np.empty((n, width))
        Z[:, :d] = X
        if features.shift is not None:
            Z[:, :d] -= features.shift
        if features.scale is not None:
            Z[:, :d] *= features.scale
        Z[:, d:] = features.intercept
        return DenseGrid.of_rows(Z, least)

    @staticmethod
    def of_rows(Z: Vector, least: float = 0.0) -> DenseGrid:
        """Takes Z over. 2^e is above `least` too, where something beside the row has that size."""
        bits = entry_bits(Z.shape[1])
        largest = np.maximum(Z.max(axis=1, initial=least), -Z.min(axis=1, initial=-least))
        e, bad = exponents(largest)
        if bad.any():
            Z[bad] = 0.0
        Z *= np.ldexp(1.0, bits - e)[:, None]
        np.rint(Z, out=Z)
        norm = np.sqrt(np.vecdot(Z, Z)) * 2.0**-bits
        limit = MOST_PRODUCT * 2.0**-bits / np.maximum(norm, 0.5)
        return DenseGrid(Z.astype(np.float32), bits, size=np.ldexp(1.0, e), norm=norm, limit=limit)

    def margins(self, weights: Vector) -> Vector:
        """⟨z, w⟩ for weights of shape (width,) or (K, width), exact for the weights on their grid: ‖b‖·‖w‖ ≤ 2⁵³ steps."""
        room = 2.0**52 / (2.0**self.bits * math.sqrt(max(self.rows.shape[1], 1)))
        whole, step = on_grid(weights, room)
        found, loops = margins(self.rows, np.ascontiguousarray(whole.T)), LOADER.kernels
        if found.ndim == 1 and loops is not None:
            return loops.scaled(found, self.size, step * 2.0**-self.bits)
        return scaled(found, self.size * (step * 2.0**-self.bits))

    def pairs(self, left: Vector) -> list[Pair]:
        return [Pair(left, self.rows), READY]

    @property
    def most(self) -> float:
        return MOST_PRODUCT * 2.0**-self.bits


@dataclass(frozen=True, eq=False)
class SparseGrid(Grid):
    """The stored entries of a block as whole numbers b, followed by t where the map needs it (CSR, int64), 2^e, and ‖M(b, t)‖.

    A left factor may have 2²⁷ steps at most, also where ‖M(b, t)‖ is next to nothing.
    """

    rows: sparse.csr_array
    features: Features
    bits: ClassVar[int] = SPARSE_BITS

    @staticmethod
    def of(X: sparse.csr_array, features: Features, least: float = 0.0) -> SparseGrid:
        return SparseGrid.through(*sparse_whole(X, affine(features), least), features)

    @staticmethod
    def through(rows: sparse.csr_array, size: Vector, features: Features) -> SparseGrid:
        """Rows that are on their grid already, with the norms of this map."""
        data = rows.data * 2.0**-SPARSE_BITS
        t = data[rows.indptr[1:] - 1] if affine(features) else np.zeros(len(size))
        norm = centred_norms(rows, data, t, features, affine(features))
        floor = narrowest(features)
        limit = MOST_SPARSE_PRODUCT * 2.0**-SPARSE_BITS * floor / np.maximum(norm, floor)
        return SparseGrid(rows, features, size=size, norm=norm, limit=limit)

    def seen_by(self, features: Features) -> SparseGrid | None:
        """The same whole numbers through another map, where it needs the same ones."""
        same = affine(features) == affine(self.features)
        return SparseGrid.through(self.rows, self.size, features) if same else None

    def margins(self, weights: Vector) -> Vector:
        whole, step, constant = sparse_weights(self.features, weights, self.rows.shape[1])
        margins = scaled(self.rows @ whole, self.size * (step * 2.0**-SPARSE_BITS))
        margins += constant
        return margins

    def pairs(self, left: Vector) -> list[Pair]:
        return [Pair(left, self.rows), WAITS]

    @property
    def most(self) -> float:
        return MOST_SPARSE_PRODUCT * 2.0**-SPARSE_BITS * narrowest(self.features)


def sparse_whole(X: sparse.csr_array, behind: bool, least: float) -> tuple[sparse.csr_array, Vector]:
    """Stored entries as whole numbers b, with t `behind` them where a map needs it, and 2^e of every row."""
    X = canonical(X)
    counts = np.diff(X.indptr)
    data = X.data.astype(np.float64)
    largest = np.full(X.shape[0], 1.0 if behind else least)
    held = counts > 0
    if held.any():
        tops = np.maximum.reduceat(np.abs(data), X.indptr[:-1][held])
        largest[held] = np.maximum(largest[held], tops)
    e, bad = exponents(largest)
    if bad.any():
        data = np.where(np.repeat(bad, counts), 0.0, data)
    scale = np.ldexp(1.0, SPARSE_BITS - e)
    data *= np.repeat(scale, counts)
    t = np.where(bad, 0.0, np.rint(scale))
    return with_ones(X, np.rint(data, out=data), t, behind), np.ldexp(1.0, e)


Mapped = tuple[NDArray[np.int64], float, Vector]


def sparse_weights(features: Features, weights: Vector, columns: int) -> Mapped:
    """Weights of one or K margins behind the map: a whole number for each stored column, their step, and what every row adds.

    Every block of a sum asks for the same ones, so they are kept.
    """
    return _sparse_weights(features, np.asarray(weights, dtype=np.float64).tobytes(), weights.shape, columns)


@lru_cache(maxsize=16)
def _sparse_weights(features: Features, numbers: bytes, shape: tuple[int, ...], columns: int) -> Mapped:
    weights = np.frombuffer(numbers).reshape(shape)
    d = columns - (1 if affine(features) else 0)
    slopes = weights[..., :d] if features.scale is None else weights[..., :d] * features.scale
    constant = np.asarray(features.intercept * weights[..., d] if features.intercept else np.zeros(shape[:-1]))
    if features.shift is not None:
        constant = constant - slopes @ features.shift
    whole, step = on_grid(slopes, 2.0 ** (52 - SPARSE_BITS))  # int64 holds rows of 4 million entries
    whole = np.concatenate([whole, np.zeros((*whole.shape[:-1], columns - d))], axis=-1)
    return whole.T.astype(np.int64), step, constant


def scaled(values: Vector, factor: Vector) -> Vector:
    """values·factor row by row, for one or several margins."""
    return np.asarray(values * (factor if values.ndim == 1 else factor[:, None]))


def gridded(block: Block, features: Features) -> Grid:
    """The block's rows on their grid, kept with the block until another map asks; sparse rows then stay, and norms are new."""
    kept = block.memory.get("gridded")
    if kept is None or kept[0] != features.key:
        own = getattr(block.X, "gridded", None)  # rows that are more than a matrix put themselves on their grid
        make = own or partial(SparseGrid.of if is_sparse(block.X) else DenseGrid.of, block.X)
        again = kept[1].seen_by(features) if kept is not None and isinstance(kept[1], SparseGrid) else None
        block.memory["gridded"] = kept = None  # one copy in memory, never two
        kept = block.memory["gridded"] = (features.key, again or make(features))
    return kept[1]


def in_steps(slopes: Vector, grid: Grid, clip: float) -> Vector:
    """slope·2^e in steps of the grid that belongs to the clip; NaN counts as 0."""
    return settled(scaled(slopes, grid.size * (grid.most / clip)))


def left_factor(slopes: Vector, grid: Grid, clip: float) -> Vector:
    """slope·2^e as whole numbers of steps, so that no row of slope·z is longer than `clip`.

    One number is rounded to the nearest step and cut at the last whole step inside the limit. K numbers are scaled down to the
    limit and rounded to the nearest step, or towards 0 where the nearest ones would be longer.
    """
    if slopes.ndim == 1 and LOADER.kernels is not None:
        numbers = np.ascontiguousarray(slopes, dtype=np.float64)
        return LOADER.kernels.in_steps(numbers, grid.size, grid.most / clip, grid.limit)
    steps = in_steps(slopes, grid, clip)
    if steps.ndim == 1:
        cut = shortened(np.rint(steps, out=steps), grid.limit)
        return np.trunc(cut, out=cut)
    steps = shortened(steps, grid.limit)
    nearest = np.rint(steps)
    longer = squares(nearest) > grid.limit**2
    return np.where(longer[:, None], np.trunc(steps), nearest)


def shortened(values: Vector, limit: Vector) -> Vector:
    """Rows of one or several numbers, none longer than its limit."""
    if values.ndim == 1:
        shorter = np.minimum(values, limit)
        return np.maximum(shorter, -limit, out=shorter)
    values = np.clip(values, -1e150, 1e150)
    return scaled(values, limit / np.maximum(np.sqrt(squares(values)), limit))


def squares(values: Vector) -> Vector:
    """Σ_k v_k² of every row."""
    return column_sum(values**2)


def column_sum(values: np.ndarray) -> Vector:
    """Sum of every row, column after column: a function of the row alone."""
    total = np.zeros(len(values))
    for k in range(values.shape[1]):
        total += values[:, k]
    return total


class Pulled(Paired):
    """A term of the form Σ clip_C(slope ⊗ z): one number, or K of them, times the mapped row.

    A subclass says what the slopes of a block are, and the largest norm C that one row may add, where it is not its `clip`.

    **Sensitivity** κC: the left factor is cut so that no row adds more than C; nulling or removing a row moves the sum by one
    such vector, replacing it by the difference of two.
    """

    features: Features
    clip: float

    @property
    def longest(self) -> float:
        """C: the largest norm of what one row adds."""
        return self.clip

    def sensitivity(self, relation: str) -> float:
        return kappa(relation) * self.longest

    @property
    def row_bound(self) -> float:
        return self.longest

    def slopes(self, block: Block, grid: Grid) -> Vector:
        """(rows,) or (rows, K) in float64."""
        raise NotImplementedError

    def factors(self, block: Block) -> list[Pair]:
        grid = gridded(block, self.features)
        return grid.pairs(left_factor(self.slopes(block, grid), grid, self.longest))

    def units(self, total: NDArray[np.longdouble]) -> Vector:
        features, waits = self.features, bool(total[-1])
        sums = total[:-1] * (self.longest / (MOST_SPARSE_PRODUCT * narrowest(features) if waits else MOST_PRODUCT))
        places = self.outputs * features.places
        line = len(sums) - places
        mapped = self._mapped(sums[:line]) if waits else sums[:line]
        if places:  # each of the K outputs has its line, then its curves
            curves = features.looked_up(sums[line:].reshape(self.outputs, -1))
            mapped = np.concatenate([mapped.reshape(self.outputs, -1), curves], axis=1).reshape(-1)
        return np.asarray(mapped, dtype=np.float64)

    def _mapped(self, sums: np.ndarray) -> np.ndarray:
        """Totals of (b, t) through the affine map."""
        features, sums = self.features, sums.reshape(self.outputs, -1)
        if affine(features):
            sums, ones = sums[:, :-1], sums[:, -1:]
            if features.shift is not None:
                sums = sums - ones * features.shift
        if features.scale is not None:
            sums = sums * features.scale
        if features.intercept:
            sums = np.concatenate([sums, ones * features.intercept], axis=1)
        return np.asarray(sums.reshape(-1))

    @property
    def outputs(self) -> int:
        """K: how many numbers are multiplied with the row."""
        return 1
