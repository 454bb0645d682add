"""Rows held in memory: a dense NumPy array or a SciPy CSR matrix."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.problem import DataBounds, FeatureMap
from dperm.problem.arrays import Array, Matrix, Vector, is_sparse
from dperm.problem.bounds import rounding_margin, squares_hold
from dperm.problem.failing import of_every_row
from dperm.rows.base import BLOCK_ROWS, ArrayRows, Block, Term, real_sum, total_counts
from dperm.rows.mapped import MappedFiles
from dperm.tables.cells import numbers, sparse_numbers
from dperm.tables.containers import beside, column

# Starting threads for fewer stored numbers costs more than they save. Bits do not depend on it.
FEW_NUMBERS = 1 << 18


class MemoryRows(ArrayRows):
    """X (n × d, dense or CSR), y and optional row weights.

    Blocks are cut and clipped once, on the first pass, and kept; a block that lies inside the bounds as it is stays a view of X,
    so X is held once. Later passes read each block once, while it is in the cache. A table without rows has one block without
    rows: where the number of rows is protected, nobody may learn that there are none.

    Parameters
    ----------
    X : array or sparse matrix
        n × d, dense or CSR.
    y : array
        One label for every row.
    weight : array or None, default None
        Sample weights.
    data : DataBounds or None, default None
        Bounds into which rows are clipped.
    feature_map : FeatureMap or None, default None
        A bounded map that rows go through after the clip.
    person : array of int or None, default None
        Who owns each row, equal numbers one after the other: blocks then end with a person, and hold at most 8,192 rows. Sums of
        pairs are exact, so where blocks end changes none of them.

    Examples
    --------
    >>> rows = MemoryRows(np.eye(3), np.ones(3))
    >>> rows.n, rows.d
    (3, 3)
    """

    def __init__(
        self,
        X: object,
        y: object,
        weight: object = None,
        *,
        data: DataBounds | None = None,
        feature_map: FeatureMap | None = None,
        person: NDArray[np.int64] | None = None,
    ) -> None:
        self.X: Matrix = sparse_numbers(X).tocsr() if is_sparse(X) else numeric(X)
        if self.X.ndim != 2:
            raise ValueError(f"Expected X with two dimensions, found {self.X.ndim}. Reshape it to (rows, columns).")
        self.labels = y  # as they are stored: the type of an array that is made of them may follow from a missing one
        self.y = beside(y)
        if self.y.shape[:1] != self.X.shape[:1]:
            raise ValueError("Expected as many labels as rows, found another number of them. Pass one label for every row.")
        self.weight: NDArray[np.float64] | None = None if weight is None else numbers(beside(weight))
        if self.weight is not None and self.weight.shape != (self.n,):
            raise ValueError("Expected one weight per row, found another number of them. Pass one weight for every row.")
        self.data = data
        self.feature_map = feature_map
        self.person = person
        self._files = MappedFiles.of(self.X, self.y, weight)
        self._edges = block_edges(self.n, person)
        self._blocks: list[Block | None] = [None] * (len(self._edges) - 1)

    def bounded(self, data: DataBounds, feature_map: FeatureMap | None = None) -> MemoryRows:
        return MemoryRows(self.X, self.y, self.weight, data=data, feature_map=feature_map, person=self.person)

    def recognised_by(self) -> object:
        """What a ledger recognises the data set by: the array itself, as where it is passed without rows around it."""
        return self.X

    def blocks(self) -> Iterator[Block]:
        return (self.block(number) for number in range(len(self._blocks)))

    def block(self, number: int) -> Block:
        """Block `number`, cut and clipped when it is first asked for."""
        found = self._blocks[number]
        if found is None:
            found = self._blocks[number] = self._cut(slice(self._edges[number], self._edges[number + 1]))
        return found

    def _cut(self, part: slice) -> Block:
        weight = None if self.weight is None else self.weight[part]
        found = cut_block(self.X[part], self.y[part], weight, part.start, self.data, self.feature_map)
        found.person = None if self.person is None else self.person[part]
        return found

    def sum(self, term: Term, step: float) -> NDArray[np.float64]:
        makers: Iterator[Callable[[], Block]] = (partial(self.block, number) for number in range(len(self._blocks)))
        stored = self.X.nnz if is_sparse(self.X) else self.X.size
        counts = total_counts(makers, term, step, parallel=stored > FEW_NUMBERS)
        self._files.check()
        return real_sum(term, counts, step)


def block_edges(n: int, person: NDArray[np.int64] | None) -> list[int]:
    """Where blocks begin, and n: every 8,192 rows, or at the last change of person within so many.

    >>> block_edges(3, None), block_edges(4, np.array([0, 0, 7, 7]))
    ([0, 3], [0, 4])
    """
    if person is None:
        return [*range(0, max(n, 1), BLOCK_ROWS), n]
    ends, edges = np.append(np.flatnonzero(np.diff(person)) + 1, n), [0]
    while edges[-1] < n or len(edges) == 1:
        place = int(np.searchsorted(ends, edges[-1] + BLOCK_ROWS, side="right"))
        last = int(ends[place - 1]) if place else 0
        edges.append(last if last > edges[-1] else min(edges[-1] + BLOCK_ROWS, n))
    return edges


def numeric(values: object) -> np.ndarray:
    """Rows or labels as numbers: arrays of numbers as they are, every cell of anything else read alone."""
    array = column(values)
    return array if array.dtype.kind in "iub" or array.dtype in (np.float32, np.float64) else numbers(array)


def cut_block(
    X: Any,
    y: object,
    weight: Vector | None,
    start: int | NDArray[np.void] | None,
    data: DataBounds | None,
    feature_map: FeatureMap | None,
) -> Block:
    """A block clipped into the bounds and mapped: the one rule for what a block is, on every engine."""
    if not is_sparse(X):
        X = np.ascontiguousarray(X)  # the bits of a product depend on the layout
    values = numeric(y)
    if X.dtype == np.float32 and values.dtype == np.float64:
        with np.errstate(over="ignore"):  # a label beyond float32 is infinite, and clipped below
            values = values.astype(np.float32)  # the precision that margins have: losses need not convert it on every pass
    labels: Array = values
    if data is not None:
        if inside(X, data):
            labels = data.enforce(X[:0], labels)[1]
        else:
            X, labels = data.enforce(X, labels)
    if feature_map is not None:
        X = _mapped(X, feature_map)
    return Block(X, np.asarray(labels), None if weight is None else tame(weight), start)


def _mapped(X: Any, feature_map: FeatureMap) -> Any:
    """The features of private rows, which a caller's function may not write to; zeros for a row on which it fails, as for a row
    that cannot be read."""

    def zeros(count: int) -> Array:
        return np.zeros((count, feature_map.output_dimension))

    def features(part: slice | np.ndarray) -> Any:
        found = feature_map(X[part].copy())
        return found if is_sparse(found) else np.asarray(found)  # a map may give tensors

    with np.errstate(all="ignore"):  # a warning would tell of one row
        return of_every_row(features, X.shape[0], zeros)


def tame(weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights with 0 for those that are no number, and none beyond 1e9: NaN passes every clip and would be the whole sum. An
    infinite weight is a large one, as where a largest weight is declared.

    >>> tame([0.5, np.nan, np.inf, 1e300]).tolist()
    [0.5, 0.0, 1000000000.0, 1000000000.0]
    """
    values = numbers(weight)
    return np.clip(np.where(np.isnan(values), 0.0, values), -1e9, 1e9)


def inside(X: Matrix, data: DataBounds) -> bool:
    """True only where `data.enforce` would give every entry of X back as it is, at a tenth of its cost.

    Needs: no box, no entry of a sparse X stored in parts, and every squared norm below the clipping norm by more than the
    rounding of both. NaN and inf fail, also where the norm has no bound: a row must be read the same whoever stands beside it.
    """
    if X.dtype not in (np.float32, np.float64) or data.low is not None or not X.shape[1]:
        return False
    if is_sparse(X) and not X.has_canonical_format:
        return False
    unit = float(np.finfo(X.dtype).eps)
    d = X.shape[1]
    target = data.x_norm * (1.0 - rounding_margin(d, unit))
    if math.isinf(target):
        return bool(np.isfinite(X.data if is_sparse(X) else X).all())
    if not squares_hold(target, d, np.finfo(X.dtype)):
        return False
    with np.errstate(all="ignore"):
        squares = X.power(2) @ np.ones(d, dtype=X.dtype) if is_sparse(X) else np.vecdot(X, X)
        return bool(np.all(squares <= target * target * (1.0 - 4 * (d + 4) * unit)))
