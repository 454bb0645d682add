"""What executors do with batches of a Spark table: make rows of raw ones, settle who counts, sum a term over cells.

Each task is a small frozen object that travels as a pickle; dperm must be installed where it is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dperm.rows.base import Limbs, Term, add_limbs, total_counts, total_of
from dperm.rows.packed import KEY_BYTES, SPARK_TYPES, Layout, Piece, row_digests
from dperm.rows.pieces import Cut, Made, Recipe
from dperm.tables.cells import numbers, person
from dperm.tables.containers import as_python

if TYPE_CHECKING:
    import pyarrow as pa

OWNED = SPARK_TYPES + ", owner string, owned boolean, content binary, turn binary"
COUNTED = "counts binary, rows bigint, mark bigint"
ADDED = "build string, rows bigint, mark bigint"
Batches = Iterator["pa.RecordBatch"]


@dataclass(frozen=True, eq=False)
class Encode:
    """Raw rows → cells."""

    recipe: Recipe
    make: Callable[[pa.Table], Made]
    layout: Layout

    def __call__(self, batches: Batches) -> Batches:
        import pyarrow as pa

        for batch in with_rows(batches):
            *cells, mark = pa.Table.from_batches([batch]).columns  # as they were selected
            columns = dict(zip(self.recipe.columns, cells))
            made = self.make(pa.table(columns))
            X: Any = made.X.astype(self.recipe.dtype, copy=False)
            piece = Piece(X, numbers(made.values), made.weight, self._keys(columns), mark.to_numpy())
            if not self.recipe.gathers:
                yield self.layout.packed(piece)
                continue
            packed = self.layout.packed(piece, 1)
            for name, values in self._owners(columns, row_digests(piece) if made.content is None else made.content).items():
                packed = packed.append_column(name, values)
            yield packed

    def _keys(self, columns: dict[str, pa.Array]) -> NDArray[np.void] | None:
        if self.recipe.row_id is None or self.recipe.by_content:
            return None
        told = as_python(columns[self.recipe.row_id])  # bytes that are no text are no text's bytes, so that keys stay different
        return digests(cell if isinstance(cell, bytes) else str(cell).encode() for cell in told)

    def _owners(self, columns: dict[str, pa.Array], digested: NDArray[np.void]) -> dict[str, pa.Array]:
        """Who a row belongs to, the digest of what it holds, and its turn among the rows of its owner.

        The turn is a digest of owner and content: by content alone, some kinds of rows would come first for everybody, and a sum
        over the rows that count would be bent towards them. A row that nobody owns stands for itself, and does not count.
        """
        import pyarrow as pa

        content = [digest.tobytes() for digest in digested]
        owned = [True] * len(content)
        owners = [""] * len(content)
        if self.recipe.person is not None:
            names = [person(cell) for cell in as_python(columns[self.recipe.person])]
            owned = [name is not None for name in names]
            owners = [digest.hex() if name is None else name for name, digest in zip(names, content)]
        turns = [turn.tobytes() for turn in digests(owner.encode() + digest for owner, digest in zip(owners, content))]
        found = {"owner": pa.array(owners), "owned": pa.array(owned)}
        return found | {name: pa.array(told, type=pa.binary()) for name, told in (("content", content), ("turn", turns))}


@dataclass(frozen=True, eq=False)
class Settle:
    """Cells of one row that know whether they count, and which of their equals they are → cells of many rows."""

    layout: Layout
    persons: bool
    by_content: bool

    def __call__(self, batches: Batches) -> Batches:
        for batch in with_rows(batches):
            piece = self.layout.unpacked(batch)
            weight, keys = piece.weight, piece.keys
            if self.persons:
                counted = batch.column("counted").to_numpy(zero_copy_only=False).astype(np.float64)
                weight = counted if weight is None else counted * weight
            if self.by_content:
                content, copy = batch.column("content").to_pylist(), batch.column("copy").to_pylist()
                keys = digests(one + int(number).to_bytes(8, "big") for one, number in zip(content, copy))
            yield self.layout.packed(Piece(piece.X, piece.values, weight, keys, piece.mark))


@dataclass(frozen=True, eq=False)
class CountTerm:
    """Cells → the integers of a term, with rows and checksum of what was seen. One record per task."""

    layout: Layout
    cut: Cut
    term: Term
    step: float

    def __call__(self, batches: Batches) -> Batches:
        rows = mark = 0
        total = None
        for batch in with_rows(batches):
            piece = self.layout.unpacked(batch)
            rows, mark = rows + len(piece.values), mark + int(np.sum(piece.mark))
            makers = self.cut.makers(Made(piece.X, piece.values, piece.weight), piece.keys)
            counts = total_counts(makers, self.term, self.step, parallel=False)
            total = counts if total is None else add_limbs(total, counts)
        yield _record(rows, mark, counts=b"" if total is None else total.reshape(2, -1).tobytes())


def add(batches: Batches) -> Batches:
    """Totals of many tasks → one."""
    parts = [part for batch in batches for part in batch.to_pylist()]
    totals = counted(part["counts"] for part in parts)
    rows, mark = (sum(part[name] for part in parts) for name in ("rows", "mark"))
    yield _record(rows, mark, counts=total_of(totals).tobytes() if totals else b"")


def counted(records: Iterable[bytes]) -> list[Limbs]:
    """The counts that tasks recorded, less those of tasks that had no rows."""
    return [np.frombuffer(counts, dtype=np.int64).reshape(2, -1).copy() for counts in records if counts]


def tally(batches: Batches) -> Batches:
    """Cells → rows and checksum, and what was installed where they were made."""
    import dperm

    rows = mark = 0
    for batch in batches:
        rows += int(np.sum(batch.column("rows").to_numpy(zero_copy_only=False)))
        mark += int(np.sum(batch.column("mark").to_numpy(zero_copy_only=False)))
    yield _record(rows, mark, build=f"dperm {dperm.__version__} with NumPy {np.__version__}")


def with_rows(batches: Batches) -> Batches:
    """Batches that are not empty: Spark hands out some that are."""
    return (batch for batch in batches if batch.num_rows)


def digests(texts: Iterable[bytes]) -> NDArray[np.void]:
    """16 bytes of every text, by BLAKE2."""
    found = b"".join(hashlib.blake2b(text, digest_size=KEY_BYTES).digest() for text in texts)
    return np.frombuffer(found, dtype=f"V{KEY_BYTES}")


def cell_digests(table: pa.Table, names: Iterable[str]) -> NDArray[np.void]:
    """16 bytes of every row's cells as they are stored: where the numbers made of a row may owe their last bits to others."""
    return digests(repr(row).encode() for row in zip(*(as_python(table.column(name)) for name in names)))


def _record(rows: int, mark: int, **first: object) -> pa.RecordBatch:
    """What one task found; the mark is a sum mod 2⁶⁴, as the signed number that a bigint holds."""
    import pyarrow as pa

    wrapped = (mark + 2**63) % 2**64 - 2**63
    # Bytes, text and whole numbers are binary, string and int64 to Arrow.
    return pa.RecordBatch.from_pylist([{**first, "rows": rows, "mark": wrapped}])
