"""What executors do with batches of a Spark table: make rows of raw ones, settle who counts, sum a term over cells.

Each task is a small frozen object that travels as a pickle; dperm must be installed where it is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dperm.problem import DataBounds, FeatureMap
from dperm.rows.base import Block, Term, add_limbs, total_counts, total_of
from dperm.rows.labelled import LabelRule, Labels, RowRule, labelled_by
from dperm.rows.memory import block_makers
from dperm.rows.packed import KEY_BYTES, SPARK_TYPES, Layout, Piece, row_digests
from dperm.tables.cells import numbers, person
from dperm.tables.schema import Schema
from dperm.tables.tables import cells

if TYPE_CHECKING:
    import pyarrow as pa

OWNED = SPARK_TYPES + ", owner string, owned boolean, content binary, turn binary"
COUNTED = "counts binary, rows bigint, mark bigint"
ADDED = "build string, rows bigint, mark bigint"
Batches = Iterator[Any]


@dataclass(frozen=True, eq=False)
class Recipe:
    """Which columns of the table are what: public declarations."""

    schema: Schema | None
    features: tuple[str, ...]
    target: str | None = None
    weight: str | None = None
    max_weight: float | None = None
    exposure: str | None = None
    person: str | None = None
    max_rows_per_person: int | None = None
    row_id: str | None = None
    dtype: str = "float64"

    def __post_init__(self) -> None:
        if (self.weight is None) != (self.max_weight is None):
            raise ValueError("Expected weight= and max_weight= together, found one of them. Pass both, or neither.")
        if (self.person is None) != (self.max_rows_per_person is None):
            raise ValueError("Expected person= and max_rows_per_person= together, found one of them. Pass both, or neither.")

    @property
    def by_content(self) -> bool:
        return self.row_id == "content"

    @property
    def named(self) -> dict[str, str]:
        """Columns that are no features, under the words they were passed by."""
        asked = {"target": self.target, "weight": self.weight, "exposure": self.exposure, "person": self.person}
        asked["row_id"] = None if self.by_content else self.row_id
        return {word: name for word, name in asked.items() if name is not None}

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read, each once."""
        return tuple(dict.fromkeys([*self.features, *self.named.values()]))

    @property
    def gathers(self) -> bool:
        """Whether rows must meet other rows before they are packed."""
        return self.person is not None or self.by_content


@dataclass(frozen=True, eq=False)
class Made:
    """Rows that were made of raw ones, each of its own cells and public declarations alone.

    `content` tells rows apart where the numbers do not, because they point into something that other rows had a part in.
    """

    X: Any
    values: Any
    weight: NDArray[np.float64] | None = None
    content: NDArray[np.void] | None = None


class Maker(Protocol):
    """A public rule from raw rows to rows that terms can read."""

    def __call__(self, table: pa.Table) -> Made: ...


class TableMaker(Maker, Protocol):
    """A maker that says which columns it reads, which of them must hold numbers, how many numbers its rows have, and whether
    terms read these as they are (`raw`), because they bring them into their bounds themselves."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def d(self) -> int: ...

    @property
    def numeric(self) -> tuple[str, ...]: ...

    @property
    def raw(self) -> bool: ...


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows by the schema, or by declared bounds of columns of numbers."""

    recipe: Recipe
    encoding: Any
    rule: LabelRule | RowRule | None

    def __call__(self, table: pa.Table) -> Made:
        recipe = self.recipe
        given = {name: numbers(cells(table, name)) for name in (recipe.weight, recipe.exposure) if name is not None}
        weight = None if recipe.weight is None else clipped(given[recipe.weight], recipe.max_weight)
        values: Any
        if recipe.schema is not None:
            X = recipe.schema.encoded(table)
            labels = Labels(recipe.schema, lambda y: (np.zeros(len(y)), None))
            values = labels.cells(cells(table, labels.target.column))
        else:
            X = np.stack([numbers(cells(table, name)) for name in recipe.features], axis=1)
            X = X if self.encoding is None else self.encoding.packed(self.encoding.transform(X))
            values = np.zeros(table.num_rows) if recipe.target is None else cells(table, recipe.target)
        if isinstance(self.rule, RowRule):
            values, weight = self.rule(values, None if recipe.exposure is None else given[recipe.exposure], weight)
        elif self.rule is not None and recipe.schema is None:
            values, weight = labelled_by(self.rule, values, weight)
        return Made(X, values, weight)


def clipped(weight: NDArray[np.float64], most: float | None) -> NDArray[np.float64]:
    """Declared weights: 0 where one is missing, and none outside [0, most]."""
    return np.clip(np.where(np.isnan(weight), 0.0, weight), 0.0, most)


@dataclass(frozen=True, eq=False)
class Encode:
    """Raw rows → cells."""

    recipe: Recipe
    make: Maker
    layout: Layout

    def __call__(self, batches: Batches) -> Batches:
        import pyarrow as pa

        names = [*self.recipe.columns, "mark"]
        for batch in batches:
            if not batch.num_rows:
                continue
            raw = pa.Table.from_batches([batch])
            table = raw.rename_columns([f"c{place}" for place in range(len(names) - 1)] + ["mark"])
            columns = {name: table.column(place) for place, name in enumerate(names[:-1])}
            made = self.make(pa.table(columns))
            X = made.X.astype(self.recipe.dtype, copy=False)
            piece = Piece(X, numbers(made.values), made.weight, self._keys(columns), table.column("mark").to_numpy())
            if not self.recipe.gathers:
                yield self.layout.packed(piece)
                continue
            packed = self.layout.packed(piece, 1)
            for name, values in self._owners(columns, row_digests(piece) if made.content is None else made.content).items():
                packed = packed.append_column(name, values)
            yield packed

    def _keys(self, columns: dict[str, Any]) -> NDArray[np.void] | None:
        if self.recipe.row_id is None or self.recipe.by_content:
            return None
        return digests(str(cell).encode() for cell in columns[self.recipe.row_id].to_pylist())

    def _owners(self, columns: dict[str, Any], digested: NDArray[np.void]) -> dict[str, Any]:
        """Who a row belongs to, the digest of what it holds, and its turn among the rows of its owner.

        The turn is a digest of owner and content: by content alone, some kinds of rows would come first for everybody, and a sum
        over the rows that count would be bent towards them. A row that nobody owns stands for itself, and does not count.
        """
        import pyarrow as pa

        content = [digest.tobytes() for digest in digested]
        owned = [True] * len(content)
        owners = [""] * len(content)
        if self.recipe.person is not None:
            names = [person(cell) for cell in columns[self.recipe.person].to_pylist()]
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
        for batch in batches:
            if not batch.num_rows:
                continue
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
    labels: Labels | None
    label_type: str
    data: DataBounds | None
    feature_map: FeatureMap | None
    term: Term
    step: float

    def __call__(self, batches: Batches) -> Batches:
        rows = mark = 0
        total = None
        for batch in batches:
            if not batch.num_rows:
                continue
            piece = self.layout.unpacked(batch)
            rows, mark = rows + len(piece.values), mark + int(np.sum(piece.mark))
            counts = total_counts(self.makers(piece), self.term, self.step, parallel=False)
            total = counts if total is None else add_limbs(total, counts)
        yield _record(counts=b"" if total is None else total.reshape(2, -1).tobytes(), rows=rows, mark=_wrapped(mark))

    def makers(self, piece: Piece) -> Iterator[Callable[[], Block]]:
        y, weight = piece.values.astype(self.label_type, copy=False), piece.weight
        if self.labels is not None:
            y, weight = labelled_by(self.labels, piece.values, weight)
        return block_makers(piece.X, y, weight, piece.keys, self.data, self.feature_map)


@dataclass(frozen=True)
class Add:
    """Totals of many tasks → one."""

    def __call__(self, batches: Batches) -> Batches:
        rows = mark = 0
        totals = []
        for batch in batches:
            for part in batch.to_pylist():
                rows, mark = rows + part["rows"], mark + part["mark"]
                if part["counts"]:
                    totals.append(np.frombuffer(part["counts"], dtype=np.int64).reshape(2, -1).copy())
        yield _record(counts=total_of(totals).tobytes() if totals else b"", rows=rows, mark=_wrapped(mark))


@dataclass(frozen=True)
class Tally:
    """Cells → rows and checksum, and what was installed where they were made."""

    def __call__(self, batches: Batches) -> Batches:
        import dperm

        rows = mark = 0
        for batch in batches:
            rows += int(np.sum(batch.column("rows").to_numpy(zero_copy_only=False)))
            mark += int(np.sum(batch.column("mark").to_numpy(zero_copy_only=False)))
        yield _record(build=f"dperm {dperm.__version__} with NumPy {np.__version__}", rows=rows, mark=_wrapped(mark))


def digests(texts: Iterable[bytes]) -> NDArray[np.void]:
    """16 bytes of every text, by BLAKE2."""
    found = b"".join(hashlib.blake2b(text, digest_size=KEY_BYTES).digest() for text in texts)
    return np.frombuffer(found, dtype=f"V{KEY_BYTES}")


def _wrapped(mark: int) -> int:
    """A sum mod 2⁶⁴, as the signed number that a bigint holds."""
    return (mark + 2**63) % 2**64 - 2**63


def _record(**values: Any) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([values], schema=pa.schema([(name, _TYPES[name](pa)) for name in values]))


_TYPES: dict[str, Callable[[Any], Any]] = {
    "counts": lambda pa: pa.binary(),
    "build": lambda pa: pa.string(),
    "rows": lambda pa: pa.int64(),
    "mark": lambda pa: pa.int64(),
}
