"""Rows of a Spark table, summed by Spark's executors, on PySpark 3.5 and 4, classic and Connect.

    people = spark.read.parquet("s3://bucket/people")
    dperm.LogisticRegression(epsilon=1.0, schema=schema).fit(people)

The executors encode the table once, by the public rules of the schema, into cells of packed rows (`dperm.rows.packed`), which
Spark keeps in memory and on disk. A pass sends them a term, maps cells to integers and adds these. Integers commute, so neither
order nor partitions, retries or speculative copies of a task can change a bit. The driver draws noise, once, after the sum.

**Nothing follows from the order in which rows arrive.** Rows have no numbers here. What needs one is refused before anything is
spent, or goes by content: which rows of a person count, and, with `row_id=`, who joins a Poisson sample.

**Every pass sees the same rows.** The table is counted and checksummed (a sum of row hashes, which no order changes) by Spark
itself, then encoded, and the cells carry the checksums along. A table that gives other rows when it is computed again, because
of `rand()` or a file that changed, is refused before anything is spent; a later pass that finds other rows releases nothing.
"""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dperm.problem import DataBounds, FeatureMap
from dperm.rows.base import Copied, Term, block_counts, real_sum, total_of
from dperm.rows.labelled import LabelRule, Labels, RowRule, rule_of_schema
from dperm.rows.packed import KEY_BYTES, SPARK_TYPES, Layout
from dperm.rows.pieces import Cut, Encoded, Recipe, RowEncoding, TableMaker
from dperm.rows.spark_frames import Checked, as_read, check_frame, check_unique, checksums, in_words, label_type, quoted
from dperm.rows.spark_tasks import ADDED, COUNTED, OWNED, CountTerm, Encode, Settle, add, counted, tally
from dperm.tables.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Totals of so many tasks are added by the driver; more are added by executors first.
FEW_TASKS = 256


class SparkRows(Copied):
    """The rows of a Spark `DataFrame`, as a schema describes them; without one, every column but those named here is a number.

    **Guarantee**: executors see rows and send sums to the driver, inside the trusted cluster; only the driver draws noise.
    Encoding and clipping look at each row alone, so sensitivities are those of the rows in memory.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The table, classic or Connect.
    schema : Schema, dict or None
        Declared columns and target.
    target : str or None
        Column of the labels; with a schema, that of the schema.
    weight : str or None
        Column of sample weights.
    max_weight : float or None
        The largest sample weight that a row may have.
    person : str or None
        Column that names the person.
    max_rows_per_person : int or None
        How many rows of each count: those with the smallest digests of person and content, whatever order they come in.
    row_id : str or None
        What tells rows apart where a method samples them: a column with another value in every row, or "content": what the row
        holds, and its number among rows that hold the same. That a column is unique is a declaration about the table as a whole,
        as its types are; it is checked, and a table that breaks it is refused (the threat model says what that may tell).
    dtype : {"float64", "float32"}
        "float64" gives the bits of a table fitted in memory; "float32" halves the memory.
    """

    numbered = False  # rows have no order

    def __init__(
        self,
        frame: DataFrame,
        schema: Schema | Mapping[str, object] | None = None,
        *,
        target: str | None = None,
        weight: str | None = None,
        max_weight: float | None = None,
        person: str | None = None,
        max_rows_per_person: int | None = None,
        row_id: str | None = None,
        dtype: str = "float64",
    ) -> None:
        if dtype not in ("float32", "float64"):
            raise ValueError(f"Expected dtype 'float32' or 'float64', found {dtype!r}.")
        self.schema = None if schema is None else Schema.of(schema)
        if self.schema is not None:
            if target is not None:
                self.schema = self.schema.with_target(target)
            target = self.schema.declared_target.column
        self.encoding: RowEncoding | None = None if self.schema is None else self.schema.encoding()
        self.rule: LabelRule | RowRule | None = None if self.schema is None else rule_of_schema(self.schema)
        recipe = Recipe(self.schema, (), target, weight, max_weight, None, person, max_rows_per_person, row_id, dtype)
        self._begin(frame, recipe, None)

    def _begin(self, frame: DataFrame, recipe: Recipe, maker: TableMaker | None) -> None:
        """Rows of the table, checked by names and types alone, of which nothing was counted or made yet."""
        self.frame, self.maker = frame, maker
        self.recipe = replace(recipe, features=check_frame(frame, recipe, maker))
        self._checked: Checked | None = None
        self._shelf = Shelf()

    @classmethod
    def made_by(cls, maker: TableMaker, frame: DataFrame, person: str | None, max_rows_per_person: int | None) -> SparkRows:
        """Rows that a maker makes of the columns it reads, by its own public rule: scores, looks, class numbers."""
        rows = object.__new__(cls)
        rows.schema = rows.encoding = rows.rule = None
        rows._begin(frame, Recipe(None, maker.columns, person=person, max_rows_per_person=max_rows_per_person), maker)
        return rows

    @property
    def names(self) -> list[str]:
        return list(self.recipe.features)

    @property
    def d(self) -> int:
        if self.maker is not None:
            return self.maker.d
        return len(self.recipe.features) if self.encoding is None else int(self.encoding.d)

    @property
    def label_type(self) -> np.dtype:
        """The type of the labels, which is public: a fit may refuse it. Those of a schema are read cell by cell."""
        read = self.schema is not None or self.recipe.target is None
        return np.dtype(object) if read else label_type(self.frame, str(self.recipe.target))

    @property
    def keyed(self) -> bool:
        """Whether rows have keys of their own, by which a Poisson sample can be drawn."""
        return self.recipe.row_id is not None

    @property
    def n(self) -> int:
        return self._count().rows

    def _count(self) -> Checked:
        """Rows and checksum of the table, by Spark itself: no row leaves the JVM."""
        if self._checked is None:
            with in_words():
                self._checked = checksums(self.frame, self.recipe.columns)
                check_unique(self.frame, self.recipe, self._checked.rows)
        return self._checked

    def encoded(self, encoding: RowEncoding) -> SparkRows:
        """The same rows, each column read as a number and encoded by the public rule."""
        return self._copy(encoding=encoding, _shelf=Shelf())

    def labelled(self, rule: LabelRule | RowRule) -> SparkRows:
        """The same rows with labels by another public rule; target cells of a schema are kept as they are, and not read again."""
        again = self.schema is None or isinstance(rule, RowRule) or isinstance(self.rule, RowRule)
        return self._copy(rule=rule, _shelf=Shelf() if again else self._shelf)

    def remade(self, maker: TableMaker) -> SparkRows:
        """The same rows, made of the same columns by another rule."""
        return self._copy(maker=maker, _shelf=Shelf())

    def declared(self, **columns: Any) -> SparkRows:
        """The same rows with other columns for weights, exposures and persons."""
        recipe = replace(self.recipe, features=(), **columns)
        return self._copy(recipe=replace(recipe, features=check_frame(self.frame, recipe)), _shelf=Shelf(), _checked=None)

    def bounded(self, data: DataBounds, feature_map: FeatureMap | None = None) -> SparkRows:
        """Rows ready to be summed. The table is encoded here, before a fit books anything, unless that was done before."""
        self.ready()
        raw = self.maker is not None and self.maker.raw
        return self._copy(data=None if raw else data, feature_map=None if raw else feature_map)

    def recognised_by(self) -> bytes:
        """What a ledger recognises the data set by: the cells of all columns, in any order and partitions."""
        with in_words():
            return checksums(self.frame, tuple(self.frame.columns), every=True).digest

    def sum(self, term: Term, step: float) -> NDArray[np.float64]:
        kept = self.ready()
        labels = None
        if self.schema is not None and self.rule is not None and not isinstance(self.rule, RowRule):
            labels = Labels(self.schema, self.rule)
        cut = Cut(labels, kept.label_type, self.data, self.feature_map)
        task = CountTerm(self.layout, cut, term, step)
        with in_words():
            totals = kept.frame.mapInArrow(task, COUNTED)
            if kept.tasks > FEW_TASKS:
                totals = totals.repartition(math.isqrt(kept.tasks)).mapInArrow(add, COUNTED)
            found = totals.collect()
        if Checked.of(found) != kept.checked:
            raise ValueError(
                "Expected every pass over the Spark table to see the same rows, found others: some were computed again and came "
                "out differently. Write the table to storage, read it from there, and fit again. Nothing more was released."
            )
        counts = counted(part.counts for part in found)
        if not counts:
            keys = np.empty(0, dtype=f"V{KEY_BYTES}") if self.keyed else None
            counts = [block_counts(term, cut.empty(self.d, keys, self.recipe.dtype), step)]
        return real_sum(term, total_of(counts), step)

    @property
    def layout(self) -> Layout:
        return Layout(self.d, self.recipe.dtype, self.encoding is not None and self.encoding.mostly_zero)

    def ready(self) -> Kept:
        """Encode the table into cells that Spark keeps, if need be, and check that they hold the rows that were counted."""
        if self._shelf.kept is not None:
            return self._shelf.kept
        expected = self._count()
        label_type = np.dtype(np.float64)
        if self.schema is None and self.rule is not None and not isinstance(self.rule, RowRule):
            label_type = np.asarray(self.rule(np.empty(0, dtype=object))[0]).dtype
        make = Encoded(self.recipe, self.encoding, self.rule) if self.maker is None else self.maker
        with in_words():
            cells = self._cells(Encode(self.recipe, make, self.layout)).persist()
            kept = Kept(cells, expected, str(label_type))
            found = cells.mapInArrow(tally, ADDED).collect()
        builds = sorted({part.build for part in found})
        if len(builds) > 1:
            raise ValueError(f"Expected one build on all executors, found {' and '.join(builds)}. Install one version on all.")
        if Checked.of(found) != expected:
            raise ValueError(
                "Expected a Spark table that gives the same rows whenever it is computed, found one that does not: two passes "
                "disagree. Columns made by rand(), uuid() or a function that draws, and files that change, do so. Write the "
                "table to storage and read it from there. Nothing was spent."
            )
        kept.tasks = len(found)
        self._shelf.kept = kept
        return kept

    def _cells(self, encode: Encode) -> DataFrame:
        """The packed frame. Persons and contents bring equal rows together first, one row a cell."""
        ids = {self.recipe.person, self.recipe.row_id}  # no clock may make two of them one
        read = [quoted(name) if name in ids else as_read(self.frame, name) for name in self.recipe.columns]
        read = [f"{cell} AS c{place}" for place, cell in enumerate(read)]
        marked = f"xxhash64({', '.join(map(quoted, self.recipe.columns))}) AS mark"
        raw = self.frame.selectExpr(*read, marked)
        if not self.recipe.gathers:
            return raw.mapInArrow(encode, SPARK_TYPES)
        rows = raw.mapInArrow(encode, OWNED)
        limit = self.recipe.max_rows_per_person
        place = "row_number() OVER (PARTITION BY owner, owned ORDER BY turn, keys)" if limit is not None else "1"
        rows = rows.selectExpr("*", f"owned AND {place} <= {limit or 1} AS counted")
        copy = "row_number() OVER (PARTITION BY content, counted ORDER BY content)" if self.recipe.by_content else "1"
        rows = rows.selectExpr("*", f"{copy} AS copy")
        return rows.mapInArrow(Settle(self.layout, limit is not None, self.recipe.by_content), SPARK_TYPES)

    def _copy(self, **changes: object) -> SparkRows:
        self._count()
        return super()._copy(**changes)

    def __repr__(self) -> str:
        return f"SparkRows({self.d} columns)"


class Shelf:
    """Where the copies of some rows that are encoded alike find their cells."""

    kept: Kept | None = None


class Kept:
    """Cells that Spark holds, given back when nobody has them any more."""

    def __init__(self, frame: DataFrame, checked: Checked, label_type: str) -> None:
        self.frame, self.checked, self.label_type, self.tasks = frame, checked, label_type, 1
        weakref.finalize(self, _give_back, frame).atexit = False


def _give_back(frame: DataFrame) -> None:
    with contextlib.suppress(Exception):  # the session may have ended before
        frame.unpersist()
