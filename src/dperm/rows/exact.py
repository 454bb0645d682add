"""Exact sums: a term gives the two factors of every row as whole numbers, and a block is multiplied without rounding.

    Σ_i a_i ⊗ b_i = leftᵀ·right

**Why exact.** Where |a_i·b_ij| ≤ 2⁴⁰ for every row, all partial sums of a block of 8,192 = 2¹³ rows are whole numbers of at most
2⁵³, which float64 holds: the product has no rounding, in any order of adding, with or without fused multiply-add, by any BLAS.
Sparse factors are int64, where |a_i·b_ij| ≤ 2⁴⁹ leaves room for the same block. Blocks then add as integers in limbs
(`dperm.rows.base`). So what a row adds is a function of that row alone, wherever it stands and whichever thread, partition or
worker adds it.

Dense rows are kept in float32, which holds their whole numbers in half the bytes, and multiplied in float64: by compiled loops
where they are loaded (`dperm.rows.compiled`), otherwise by BLAS after a block has been widened. Both are the same exact sums.

Elementwise functions (`exp`) run on contiguous blocks, because on a strided view their last bit may differ; that bits agree
between engines is claimed for one build of these functions.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.problem.arrays import Matrix, is_sparse
from dperm.rows.compiled import LOADER

if TYPE_CHECKING:
    from scipy import sparse

    from dperm.rows.base import Block

# Steps that the product of two factors may have for one row: 2⁴⁰·8,192 = 2⁵³ in float64, 2⁴⁹·8,192 = 2⁶² in int64.
MOST_PRODUCT = 2.0**40
MOST_SPARSE_PRODUCT = 2.0**49
# BLAS has kernels for small matrices that are up to three times as fast on tall ones of few columns, taken in runs of rows.
FEW_COLUMNS, RUN, SHORT_RUN = 32, 128, 64


@dataclass(frozen=True, eq=False)
class Pair:
    """Whole numbers: `left` is (rows,) or (rows, K) in float64; `right` is (rows, p): dense, float64 or float32, or CSR in int64.

    None on the right is a column of ones.
    """

    left: np.ndarray
    right: Matrix | None = None


def product(pair: Pair) -> np.ndarray:
    """leftᵀ·right, flattened: float64 without any rounding, or int64 where a factor is."""
    left, right = pair.left, pair.right
    if right is None:
        return (left if len(left) == 1 else np.asarray(left.sum(axis=0))).reshape(-1)
    if is_sparse(right):
        return np.asarray((transposed(right) @ left.astype(np.int64, copy=False)).T).reshape(-1)
    if right.dtype == np.float32:
        kernels = LOADER.worth(right.size) if left.ndim == 1 else None
        if kernels is not None:
            return kernels.pulled(np.ascontiguousarray(left), np.ascontiguousarray(right))
        right = widened(right)
    if left.ndim == 1 or left.shape[1] > FEW_COLUMNS:
        return np.asarray(np.dot(left.T, right)).reshape(-1)  # `@` lets no other thread in where the result has few entries
    return in_runs(left, right).reshape(-1)


def in_runs(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """leftᵀ·right run by run."""
    count = len(left) // RUN
    whole = count * RUN
    runs = (part[:whole].reshape(count, RUN, part.shape[1]) for part in (left, right))
    return np.asarray((next(runs).transpose(0, 2, 1) @ next(runs)).sum(axis=0) + left[whole:].T @ right[whole:])


def margins(rows: NDArray[np.float32], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """rows @ weights for one or several columns of weights, whole numbers whose products in a row add up to at most 2⁵³."""
    kernels = LOADER.worth(rows.size) if weights.ndim == 1 else None
    if kernels is not None:
        return kernels.margins(np.ascontiguousarray(rows), np.ascontiguousarray(weights))
    return tall_product(widened(rows), weights)


def tall_product(X: Matrix, weights: np.ndarray) -> np.ndarray:
    """X @ weights. A few columns of weights go through BLAS in runs of 64 rows: its kernels for small matrices are up to four
    times as fast as those for a tall one, which are made for many columns."""
    if is_sparse(X) or weights.ndim == 1 or weights.shape[1] > FEW_COLUMNS:
        return np.asarray(X @ weights)
    count, (d, columns) = len(X) // SHORT_RUN, weights.shape
    whole, products = count * SHORT_RUN, np.empty((len(X), columns), dtype=X.dtype)
    np.matmul(X[:whole].reshape(count, SHORT_RUN, d), weights, out=products[:whole].reshape(count, SHORT_RUN, columns))
    np.matmul(X[whole:], weights, out=products[whole:])
    return products


class _Scratch(threading.local):
    """Where a block's rows are widened to float64: once for margins and product together, in memory that is used again."""

    owner: object = None
    room: NDArray[np.float64] = np.empty(0)


_SCRATCH = _Scratch()


def widened(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """The rows in float64, valid until this thread widens another block."""
    if _SCRATCH.owner is not rows:
        if _SCRATCH.room.size < rows.size:
            _SCRATCH.room = np.empty(rows.size)
        np.copyto(_SCRATCH.room[: rows.size].reshape(rows.shape), rows)
        _SCRATCH.owner = rows
    return np.asarray(_SCRATCH.room[: rows.size].reshape(rows.shape))


def products(pairs: Sequence[Pair]) -> np.ndarray:
    """The products of several pairs, one after the other, in int64."""
    return np.concatenate([product(pair).astype(np.int64, copy=False) for pair in pairs])


def transposed(X: sparse.csr_array) -> sparse.csc_array:
    """X.T of a sparse block, kept with it: SciPy checks a new matrix on every call, a tenth of a step on small blocks."""
    if "_kept_transpose" not in vars(X):
        vars(X)["_kept_transpose"] = X.T
    kept: sparse.csc_array = vars(X)["_kept_transpose"]
    return kept


def whole(values: object, bound: float, steps: float = MOST_PRODUCT) -> NDArray[np.float64]:
    """Numbers in [-bound, bound] as whole numbers of bound/steps, the nearest; NaN counts as 0.

    >>> whole([0.5, np.nan, -7.0], 1.0, 4.0).tolist()
    [2.0, 0.0, -4.0]
    """
    values = np.asarray(values, dtype=np.float64)
    counts = np.rint(np.where(np.isnan(values), 0.0, values) * (steps / max(bound, 1e-250)))
    return np.clip(counts, -steps, steps)


class Paired:
    """A term whose rows are pairs of factors on public grids."""

    # Of the total that `units` is given. `object` is Python's whole numbers: exact for any n, where large numbers cancel.
    precision: ClassVar[type] = np.longdouble

    @property
    def row_bound(self) -> float:
        """The largest entry, in absolute value, that one row can contribute."""
        raise NotImplementedError

    def factors(self, block: Block) -> Sequence[Pair]:
        """The factors of every row of the block, as whole numbers."""
        raise NotImplementedError

    def units(self, total: np.ndarray) -> NDArray[np.float64]:
        """The exact total, in whole numbers, in the units of the term; one rounding. Here they are of row_bound·2⁻⁴⁰."""
        return np.asarray(total * (self.row_bound / MOST_PRODUCT), dtype=np.float64)

    def __call__(self, block: Block) -> NDArray[np.float64]:
        return self.units(products(self.factors(block)).astype(self.precision))


class Tallied(Paired):
    """A term that adds one number, or some, of known size: their whole numbers of row_bound·2⁻⁴⁰, beside a column of ones.

    Rounding to the nearest step moves the ℓ2 distance of two rows by at most √p steps: 10⁻¹² of the bound for each entry.
    """

    def tally(self, block: Block) -> NDArray[np.float64]:
        """The block's sum in whole numbers of row_bound·2⁻⁴⁰: the caller adds what `whole` gives, and nothing else."""
        raise NotImplementedError

    def factors(self, block: Block) -> Sequence[Pair]:
        return [Pair(self.tally(block)[None, :])]


class Counted(Tallied):
    """A term of counts or shares: one row adds at most 1 to every entry, in absolute value."""

    row_bound: ClassVar[float] = 1.0


class Amounts(Tallied):
    """Σ of one number per row in [0, row_bound].

    **Sensitivity** row_bound under every relation: what a row adds moves within that range, whichever row takes its place.
    """

    lowest: ClassVar[float] = 0.0  # smaller numbers count as this one: the range is a fact, not a promise of `amounts`

    def amounts(self, block: Block) -> NDArray[np.float64]:
        """The number of every row."""
        raise NotImplementedError

    def tally(self, block: Block) -> NDArray[np.float64]:
        return np.array([np.sum(whole(np.maximum(self.amounts(block), self.lowest), self.row_bound))])

    def sensitivity(self, relation: str) -> float:
        return self.row_bound
