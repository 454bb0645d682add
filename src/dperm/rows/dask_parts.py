"""What is asked of a Dask collection itself: its partitions and their lengths, and digests of its raw rows for a ledger."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dperm.problem.arrays import Matrix, is_sparse, offers
from dperm.rows.base import BLOCK_ROWS
from dperm.tables.containers import beside, column
from dperm.tables.fingerprint import digest
from dperm.tables.streams import quiet, unconverted

if TYPE_CHECKING:
    import pandas as pd
    from dask.array import Array
    from dask.dataframe import DataFrame
    from dask.delayed import Delayed


WHERE = "a Dask collection"
# What a caller passes, and what a worker has of it: some raw rows, and with them their labels and weights.
Collection: TypeAlias = "Array | DataFrame"
Part: TypeAlias = "Matrix | pd.DataFrame"
Partition: TypeAlias = "tuple[Part, object, object]"


def partitions_of(
    X: Collection, y: Collection | None, weight: object, compute: Callable[[Collection], Iterable[int]]
) -> tuple[list[Delayed], list[int]]:
    """Delayed (rows, labels, weights) of every partition, in order, and their lengths."""
    import dask

    join = dask.delayed(lambda *parts: parts, pure=False)
    if not (offers(X, "dask") and offers(X, "ndim") and X.ndim == 2):
        raise ValueError(
            f"Expected a Dask array with two dimensions or a Dask data frame as X, found neither, of type {type(X).__name__}. "
            "Pass e.g. dask.array.from_array(X) or dask.dataframe.from_pandas(X)."
        )
    if hasattr(X, "columns"):
        return _of_frame(X, y, weight, compute, join)
    import dask.array as da

    if any(np.isnan(length) for length in X.chunks[0]):
        with quiet(WHERE):
            X = X.compute_chunk_sizes()
    X = X.rechunk({1: -1})
    columns = [[rows[0] for rows in X.to_delayed()]]
    for values in (y, weight):
        if values is None:
            columns.append([None] * len(X.chunks[0]))
            continue
        if not hasattr(values, "dask"):  # in one piece: Dask does not cut arrays of objects by itself
            values = da.from_array(beside(values), chunks=-1, name=False)
        values = da.asarray(values)
        if np.isnan(values.shape[0]):
            with quiet(WHERE):
                values = values.compute_chunk_sizes()
        values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
        if values.shape != X.shape[:1]:
            raise ValueError("Expected one label and one weight per row, found another number of them. Pass one for every row.")
        columns.append(list(values.rechunk((X.chunks[0],)).to_delayed()))
    return [join(*parts) for parts in zip(*columns)], [int(length) for length in X.chunks[0]]


def _of_frame(
    X: DataFrame, y: Any, weight: object, compute: Callable[[Collection], Iterable[int]], join: Callable[..., Delayed]
) -> tuple[list[Delayed], list[int]]:
    """The same of a frame, whose labels lie in its partitions or in memory."""
    X, held = unconverted(X), y is not None and not offers(y, "dask")
    lengths = [int(count) for count in compute(X.map_partitions(len))]
    labels: Any = [None] * X.npartitions
    if held and (cells := beside(y)).shape[:1] == (sum(lengths),):
        labels = np.split(cells, np.cumsum(lengths)[:-1])
    elif held:
        raise ValueError("Expected one label per row, found another number of them. Pass one for every row.")
    with quiet(WHERE):  # Dask converts text as soon as it is asked
        labels = unconverted(y).to_delayed() if y is not None and not held else labels
        parts = X.to_delayed()
    if len(labels) != X.npartitions or weight is not None:
        raise ValueError("Expected y with the partitions of X, and no weights, found something else. Use one dataframe.")
    return [join(rows, part, None) for rows, part in zip(parts, labels)], lengths


def regroup(lengths: list[int]) -> list[list[tuple[int, int, int]]]:
    """[(partition, from, to)] of parts that begin at multiples of 8,192 of all rows: partition ends, rounded up.

    >>> regroup([8192, 10000])
    [[(0, 0, 8192)], [(1, 0, 10000)]]
    >>> regroup([5000, 5000])
    [[(0, 0, 5000), (1, 0, 3192)], [(1, 3192, 5000)]]
    """
    ends = list(itertools.accumulate(lengths))
    n = ends[-1] if ends else 0
    cuts = sorted({0, *(min(-(-end // BLOCK_ROWS) * BLOCK_ROWS, n) for end in ends)})
    parts = []
    for first, last in itertools.pairwise(cuts):
        bounds = [(max(first - end + rows, 0), min(last - end, 0) + rows) for end, rows in zip(ends, lengths)]
        parts.append([(number, low, high) for number, (low, high) in enumerate(bounds) if low < high])
    return parts


def take_rows(partition: Partition, first: int, last: int) -> Part:
    """Raw rows first … last-1 of a partition, cut where it lives, so that only they travel."""
    X = partition[0]
    return X.iloc[first:last] if hasattr(X, "iloc") else X[first:last]


def block_digests(pieces: list[Part]) -> bytes:
    """A digest per block of the raw rows of the pieces, laid end to end."""
    X = _joined(pieces)
    rows = X.iloc if hasattr(X, "iloc") else X
    return b"".join(digest(rows[first : first + BLOCK_ROWS]) for first in range(0, X.shape[0], BLOCK_ROWS))


def _joined(parts: list[Part]) -> Part:
    if len(parts) == 1:
        return parts[0]
    if hasattr(parts[0], "iloc"):
        import pandas

        return pandas.concat(parts)
    if is_sparse(parts[0]):
        import scipy.sparse

        return scipy.sparse.vstack([part for part in parts if is_sparse(part)], format="csr")
    joined = [column(part) for part in parts]
    if len({part.dtype.kind for part in joined}) > 1:  # NumPy would make text of numbers beside words
        joined = [part.astype(object) for part in joined]
    return np.concatenate(joined)
