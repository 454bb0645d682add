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
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dperm.problem import DataBounds, FeatureMap
from dperm.problem.arrays import is_sparse, offers
from dperm.rows.base import Block, Copied, Limbs, Term, block_counts, real_sum, total_counts, total_of
from dperm.rows.dask_parts import WHERE, Collection, Partition, block_digests, partitions_of, regroup, take_rows
from dperm.rows.labelled import LabelRule, Labels, labelled_by, rule_of_schema
from dperm.rows.memory import numeric
from dperm.rows.packed import content_mark
from dperm.rows.pieces import Cut, Encoded, Made, Recipe
from dperm.tables.cells import numbers, sparse_numbers
from dperm.tables.labels import label_column
from dperm.tables.schema import Schema
from dperm.tables.streams import quiet
from dperm.tables.tables import columns

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from distributed import Client

    from dperm.tables.encoding import Encoding

# Sums that one task of the tree adds.
BRANCHES = 16


@dataclass(frozen=True, eq=False)
class Arrays:
    """Rows of a partition (rows, labels, weights) of arrays or frames without a schema, by declared bounds of columns."""

    encoding: Encoding | None = None
    rule: LabelRule | None = None
    label_kind: str = "O"  # of all labels, which is public; that of a partition may follow from its cells

    def __call__(self, partition: Partition) -> Made:
        X, y, weight = partition
        if hasattr(X, "iloc"):
            X = np.stack([numbers(part) for part in columns(X)], axis=1)
        else:
            X = sparse_numbers(X) if is_sparse(X) else numeric(X)
        X = X if self.encoding is None else self.encoding.transform(X)
        y, weight = label_column(y, X.shape[0]), None if weight is None else numbers(weight)
        if y.dtype.kind != self.label_kind:  # whole numbers stay whole, and others do not
            y = y.astype(object)
        return Made(X, *((y, weight) if self.rule is None else labelled_by(self.rule, y, weight)))


class DaskRows(Copied):
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
        X: Collection,
        y: Collection | None = None,
        weight: object = None,
        *,
        schema: Schema | dict[str, object] | None = None,
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
        self.schema = None if schema is None else Schema.of(schema)
        self.encoding = None if self.schema is None else self.schema.encoding()
        frame = offers(X, "columns")
        self.names = [str(name) for name in X.columns] if frame else None
        kind = getattr(y, "dtype", None)
        self.label_type = kind if isinstance(kind, np.dtype) else np.dtype(object)  # public: a fit may refuse it
        if self.schema is not None:
            if not frame or y is not None:
                raise ValueError("Expected a Dask dataframe that holds its target with a schema, found arrays or y. Drop one.")
            self.schema.check(self.names or [])
            self.make: Arrays | Encoded = Encoded(Recipe(self.schema, ()), None, None)
            self.cut = Cut(Labels(self.schema, rule_of_schema(self.schema)))
        else:
            if y is None:
                raise ValueError("Expected y, or a dataframe with a schema, found neither. Pass the labels.")
            label_column(np.empty(0, self.label_type), 0)  # refuses a type here, and not on the workers, after the debit
            self.make, self.cut = Arrays(label_kind=self.label_type.kind), Cut()
        self.partitions, self.lengths = partitions_of(X, y, weight, self._compute)
        self.n = sum(self.lengths)
        self.d = self.encoding.d if self.encoding is not None else int(X.shape[1])
        self._parts: list[Delayed] | None = None
        self._mark: int | None = None  # of all rows, as the first pass saw them

    def encoded(self, encoding: Encoding) -> DaskRows:
        """Rows in the units of the problem, encoded by the workers."""
        return self._copy(encoding=encoding, make=replace(self.make, encoding=encoding))

    def labelled(self, rule: LabelRule) -> DaskRows:
        """The same rows with labels by another public rule, applied by the workers."""
        if self.schema is not None:
            return self._copy(cut=replace(self.cut, labels=Labels(self.schema, rule)))
        return self._copy(make=replace(self.make, rule=rule))

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
        return self._copy(cut=replace(self.cut, data=data, feature_map=feature_map))

    def sum(self, term: Term, step: float) -> NDArray[np.float64]:
        import dask

        self.require_workers(self.timeout)
        shared = dask.delayed(term, traverse=False)
        counts = [dask.delayed(part_counts, pure=False)(part, shared, step) for part in self.parts()]
        if not counts:
            return real_sum(term, block_counts(term, self.cut.empty(self.d, 0), step), step)
        while len(counts) > 1:
            branches = [counts[first : first + BRANCHES] for first in range(0, len(counts), BRANCHES)]
            counts = [dask.delayed(added, pure=False)(branch) for branch in branches]
        total, mark = self._compute(counts[0])
        if mark is None or self._mark not in (None, mark):
            raise ValueError(
                "Expected a Dask collection that gives the same rows whenever it is computed, found one that does not: two "
                "passes disagree. Write it to storage and read it from there. Nothing was released by this pass."
            )
        self._mark = mark
        return real_sum(term, np.asarray(total), step)

    def parts(self) -> list[Delayed]:
        """Blocks on the workers with their checksum, one `Part` per partition that has rows."""
        if self._parts is None:
            import dask

            make = dask.delayed(partial(blocks_of, self.make, self.cut), pure=False, traverse=False)
            starts = itertools.accumulate(self.lengths, initial=0)
            parts = [make(part, start, rows) for part, start, rows in zip(self.partitions, starts, self.lengths) if rows]
            if self.persist:
                with quiet(WHERE):
                    client = self.client
                    parts = list(dask.persist(*parts, scheduler="threads") if client is None else client.persist(parts))
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

    def _compute(self, value: object) -> Any:
        import dask

        with quiet(WHERE):  # the caller's own graph may fail at a cell, and quote it
            if self.client is not None:
                return self.client.compute(value, retries=3).result()
            return dask.compute(value, scheduler="threads")[0]

    def _copy(self, **changes: object) -> DaskRows:
        return super()._copy(_parts=None, _mark=None, **changes)


def current_client() -> Client | None:
    """The client in use, or None."""
    try:
        from distributed import default_client

        return default_client()
    except (ImportError, ValueError):
        return None


@dataclass(frozen=True, eq=False)
class Part:
    """The blocks of a partition, and the checksum of their rows; None where there are not as many as were counted at first."""

    blocks: list[Block]
    mark: int | None


def blocks_of(make: Arrays | Encoded, cut: Cut, partition: Partition, start: int, rows: int) -> Part:
    """The blocks of a partition whose first row has this number."""
    made = make(partition) if isinstance(make, Arrays) else make(partition[0])
    blocks = [one() for one in cut.makers(made, start)]
    if len(made.values) != rows:
        return Part(blocks, None)
    places = start + np.arange(rows, dtype=np.float64)  # rows have numbers here, and must keep them
    weight = np.ones(rows) if made.weight is None else made.weight
    others = np.column_stack([np.concatenate([block.y for block in blocks]), weight])
    return Part(blocks, content_mark(made.X, places) + content_mark(others, places))


def part_counts(part: Part, term: Term, step: float) -> tuple[Limbs, int | None]:
    """Counts of one part, with one BLAS thread: the same bits on every worker; and the checksum of its rows."""
    return total_counts((partial(forgetful, block) for block in part.blocks), term, step, parallel=False), part.mark


def added(branch: list[tuple[Limbs, int | None]]) -> tuple[Limbs, int | None]:
    """Counts and checksums of several parts."""
    marks = [mark for _, mark in branch if mark is not None]
    return total_of([counts for counts, _ in branch]), sum(marks) % 2**64 if len(marks) == len(branch) else None


def forgetful(block: Block) -> Block:
    """The block with nothing in its memory but the rows on their grid, which are found by the numbers of their map. A term that
    travelled is a new object, and what it remembered under its own name would never be found again."""
    for key in [key for key in block.memory if key != "gridded"]:
        del block.memory[key]
    return block
