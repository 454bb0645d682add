"""Rows on a cluster: Dask arrays and dataframes, summed by `dask.distributed` workers.

    client = distributed.Client("tcp://scheduler:8786")
    dperm.LogisticRegression(epsilon=1.0, schema=schema).fit(DaskRows(dask.dataframe.read_parquet("people/"), schema=schema))

Workers encode each partition into blocks, by the rules and the code that Spark's executors use, and send integer counts, which a
tree adds. Integers commute: partitions may end anywhere, and the sums have the bits of the rows in memory. Partitions keep their
order, so rows have numbers here. A worker that dies is replaced by Dask, which computes its blocks again: they are the same
numbers. Noise is drawn once, by the client, after the sum: a retry can never release anything twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dperm.problem import DataBounds, FeatureMap
from dperm.problem.arrays import is_sparse
from dperm.rows.base import BLOCK_ROWS, Block, Limbs, Term, block_counts, real_sum, total_counts, total_of
from dperm.rows.labelled import LabelRule, Labels, labelled_by, rule_of_schema
from dperm.rows.memory import block_makers, cut_block, numeric
from dperm.tables.cells import column, numbers
from dperm.tables.fingerprint import digest
from dperm.tables.schema import Schema
from dperm.tables.tables import cells, columns

if TYPE_CHECKING:
    from distributed import Client

# Sums that one task of the tree adds.
BRANCHES = 16


@dataclass(frozen=True, eq=False)
class Recipe:
    """From a part of the raw rows to blocks: what every worker does, by public rules, row by row."""

    schema: Schema | None = None
    encoding: Any = None
    rule: LabelRule | None = None
    data: DataBounds | None = None
    feature_map: FeatureMap | None = None

    def blocks(self, partition: tuple[Any, Any, Any], start: int) -> list[Block]:
        """The blocks of a partition (rows, labels, weights) whose first row has this number."""
        X, y, weight = partition
        rule = self.rule
        if self.schema is not None:
            rule = labels = Labels(self.schema, rule or rule_of_schema(self.schema))
            y, X = labels.cells(cells(X, labels.target.column)), self.schema.encoded(X)
        else:
            if hasattr(X, "iloc"):
                X = np.stack([numbers(part) for part in columns(X)], axis=1)
            elif not is_sparse(X):
                X = numeric(X)
            X = X if self.encoding is None else self.encoding.transform(X)
            y, weight = column(y), None if weight is None else numbers(weight)
        if rule is not None:
            y, weight = labelled_by(rule, y, weight)
        return [make() for make in block_makers(X, y, weight, start, self.data, self.feature_map)]


class DaskRows:
    """X as a Dask array (n × d) with y and optional weights, or as a Dask dataframe with a `schema` that names the target.

    **Guarantee**: workers see rows and send sums of blocks to the client, inside the trusted cluster. Only the client draws
    noise.

    Parameters
    ----------
    X : Dask array or dataframe
        The rows: an array (n × d), or a dataframe with a `schema` that names the target.
    y : Dask array or None, default None
        Labels, where X is an array.
    weight : Dask array or None, default None
        Sample weights.
    schema : Schema, dict, path or None, default None
        Declared columns and target, where X is a dataframe.
    client : distributed.Client or None, default None
        None is the client in use; without any, Dask's threads on this machine.
    persist : bool
        Keep encoded blocks in the workers' memory between passes. Lost blocks are made again from the source.
    timeout : float
        Seconds to wait for a worker before a sum gives up.
    """

    def __init__(
        self,
        X: Any,
        y: object = None,
        weight: object = None,
        *,
        schema: Any = None,
        client: Client | None = None,
        persist: bool = True,
        timeout: float = 60.0,
    ) -> None:
        try:
            import dask  # noqa: F401
        except ImportError as error:
            raise ValueError("Expected the package dask for DaskRows, found none. Install dperm[dask].") from error
        self.client = client if client is not None else current_client()
        self.persist, self.timeout = persist, timeout
        self.require_workers(min(timeout, 5.0))
        self.schema = Schema.from_dict(schema) if isinstance(schema, dict) else schema
        self.encoding = None if self.schema is None else self.schema.encoding()
        frame = hasattr(X, "columns")
        self.names = [str(name) for name in X.columns] if frame else None
        if self.schema is not None:
            if not frame or y is not None:
                raise ValueError("Expected a Dask dataframe that holds its target with a schema, found arrays or y. Drop one.")
            self.schema.check(self.names or [])
            self.recipe = Recipe(schema=self.schema, rule=rule_of_schema(self.schema))
        else:
            if y is None:
                raise ValueError("Expected y, or a dataframe with a schema, found neither. Pass the labels.")
            self.recipe = Recipe()
        kind = getattr(y, "dtype", None)
        self.label_type = kind if isinstance(kind, np.dtype) else np.dtype(object)  # public: a fit may refuse it
        self.partitions, self.lengths = partitions_of(X, y, weight, self._compute)
        self.n = sum(self.lengths)
        self.d = self.encoding.d if self.encoding is not None else int(X.shape[1])
        self._parts: list[Any] | None = None

    def encoded(self, encoding: object) -> DaskRows:
        """Rows in the units of the problem, encoded by the workers."""
        return self._copy(encoding=encoding, recipe=replace(self.recipe, encoding=encoding))

    def labelled(self, rule: LabelRule) -> DaskRows:
        """The same rows with labels by another public rule, applied by the workers."""
        return self._copy(recipe=replace(self.recipe, rule=rule))

    def recognised_by(self) -> bytes:
        """What a ledger recognises the data set by: digests of its raw rows in blocks of 8,192, computed by the workers.

        Blocks begin at public row numbers, so the partitions do not matter; labels are left out, as for arrays in memory.
        """
        import dask

        make = dask.delayed(block_digests, pure=False)
        take = dask.delayed(take_rows, pure=False)
        parts = [make([take(self.partitions[number], *cut) for number, *cut in pieces]) for pieces in regroup(self.lengths)]
        return bytes(self._compute(dask.delayed(b"".join, pure=False)(parts)))

    def bounded(self, data: DataBounds, feature_map: FeatureMap | None = None) -> DaskRows:
        return self._copy(recipe=replace(self.recipe, data=data, feature_map=feature_map))

    def sum(self, term: Term, step: float) -> NDArray[np.float64]:
        import dask

        self.require_workers(self.timeout)
        shared = dask.delayed(term, traverse=False)
        counts = [dask.delayed(part_counts, pure=False)(part, shared, step) for part in self.parts()]
        if not counts:  # where the number of rows is protected, nobody may learn that there are none
            recipe, none = self.recipe, np.zeros(0, dtype=np.int64)
            empty = cut_block(np.zeros((0, self.d)), none, None, 0, recipe.data, recipe.feature_map)
            return real_sum(term, block_counts(term, empty, step), step)
        while len(counts) > 1:
            groups = [counts[first : first + BRANCHES] for first in range(0, len(counts), BRANCHES)]
            counts = [dask.delayed(add_counts, pure=False)(group) for group in groups]
        return real_sum(term, np.asarray(self._compute(counts[0])), step)

    def parts(self) -> list[Any]:
        """Lists of blocks on the workers, one per partition that has rows."""
        if self._parts is None:
            import dask

            make = dask.delayed(self.recipe.blocks, pure=False, traverse=False)
            starts = itertools.accumulate(self.lengths, initial=0)
            parts = [make(part, start) for part, start, rows in zip(self.partitions, starts, self.lengths) if rows]
            if self.persist:
                parts = list(self.client.persist(parts) if self.client is not None else dask.persist(*parts, scheduler="threads"))
            self._parts = parts
        return self._parts

    def require_workers(self, timeout: float) -> None:
        """A cluster without workers would wait for ever: say so instead."""
        if self.client is None:
            return
        try:
            self.client.wait_for_workers(1, timeout=timeout)
        except TimeoutError:
            raise ValueError(
                f"Expected a cluster with at least one worker, found none within {timeout:g} seconds. Start workers, e.g. "
                "`dask worker tcp://…`, or pass another client=. Nothing was spent."
            ) from None

    def _compute(self, value: Any) -> Any:
        if self.client is not None:
            return self.client.compute(value, retries=3).result()
        import dask

        return dask.compute(value, scheduler="threads")[0]

    def _copy(self, **changes: Any) -> DaskRows:
        other = object.__new__(DaskRows)
        other.__dict__.update({**self.__dict__, "_parts": None, **changes})
        return other


def current_client() -> Client | None:
    """The client in use, or None."""
    try:
        from distributed import default_client

        return default_client()
    except (ImportError, ValueError):
        return None


def partitions_of(X: Any, y: Any, weight: Any, compute: Callable[[Any], Any]) -> tuple[list[Any], list[int]]:
    """Delayed (rows, labels, weights) of every partition, in order, and their lengths."""
    import dask

    join = dask.delayed(lambda *parts: parts, pure=False)
    if hasattr(X, "columns"):
        labels = [None] * X.npartitions if y is None else y.to_delayed()
        if len(labels) != X.npartitions or weight is not None:
            raise ValueError("Expected y with the partitions of X, and no weights, found something else. Use one dataframe.")
        partitions = [join(rows, part, None) for rows, part in zip(X.to_delayed(), labels)]
        return partitions, [int(count) for count in compute(X.map_partitions(len))]
    import dask.array as da

    if any(np.isnan(length) for length in X.chunks[0]):
        X = X.compute_chunk_sizes()
    X = X.rechunk({1: -1})
    columns = [[rows[0] for rows in X.to_delayed()]]
    for values in (y, weight):
        if values is None:
            columns.append([None] * len(X.chunks[0]))
            continue
        values = da.asarray(values) if hasattr(values, "dask") else da.from_array(column(values))
        if np.isnan(values.shape[0]):
            values = values.compute_chunk_sizes()
        if values.shape[0] != X.shape[0]:
            raise ValueError("Expected one label and one weight per row, found another number of them. Pass one for every row.")
        columns.append(list(values.rechunk((X.chunks[0],)).to_delayed()))
    return [join(*parts) for parts in zip(*columns)], [int(length) for length in X.chunks[0]]


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


def take_rows(partition: tuple[Any, Any, Any], first: int, last: int) -> Any:
    """Raw rows first … last-1 of a partition, cut where it lives, so that only they travel."""
    X = partition[0]
    return X.iloc[first:last] if hasattr(X, "iloc") else X[first:last]


def block_digests(pieces: list[Any]) -> bytes:
    """A digest per block of the raw rows of the pieces, laid end to end."""
    X = _joined(pieces)
    rows = X.iloc if hasattr(X, "iloc") else X
    return b"".join(digest(rows[first : first + BLOCK_ROWS]) for first in range(0, X.shape[0], BLOCK_ROWS))


def _joined(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if hasattr(parts[0], "iloc"):
        import pandas

        return pandas.concat(parts)
    if is_sparse(parts[0]):
        import scipy.sparse

        return scipy.sparse.vstack(parts, format="csr")
    joined = [column(part) for part in parts]
    if len({part.dtype.kind for part in joined}) > 1:  # NumPy would make text of numbers beside words
        joined = [part.astype(object) for part in joined]
    return np.concatenate(joined)


def part_counts(blocks: list[Block], term: Term, step: float) -> Limbs:
    """Counts of one part, with one BLAS thread: the same bits on every worker."""
    return total_counts((partial(forgetful, block) for block in blocks), term, step, parallel=False)


def forgetful(block: Block) -> Block:
    """The block with nothing in its memory but the rows on their grid, which are found by the numbers of their map. A term that
    travelled is a new object, and what it remembered under its own name would never be found again."""
    for key in [key for key in block.memory if key != "gridded"]:
        del block.memory[key]
    return block


def add_counts(counts: list[Limbs]) -> Limbs:
    return total_of(counts)
