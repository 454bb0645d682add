"""The rows that a profile sums: made in memory, or by the executors of a Spark table with the same code.

On a Spark table executors first send the words of the columns whose levels nobody declared, each once, and then make rows by the
list of them: the driver holds what it would hold of a table in memory, and no more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dperm.profiles.question import Question
from dperm.profiles.rows import Vocabulary, looked_at, numbers_of_cells
from dperm.profiles.terms import PER_COLUMN
from dperm.rows.base import Rows
from dperm.rows.memory import MemoryRows
from dperm.rows.pieces import Made
from dperm.rows.spark_frames import as_read, in_words
from dperm.rows.spark_made import SparkTable
from dperm.rows.spark_tasks import digests
from dperm.tables.looks import in_order, levels_of
from dperm.tables.persons import person_column, person_weights, unit_of
from dperm.tables.schema import Schema
from dperm.tables.tables import cells, column_names, in_memory_only, is_table

if TYPE_CHECKING:
    import pyarrow as pa

    from dperm.rows.spark import SparkRows


@dataclass(frozen=True)
class Held:
    """What is public about the rows, and how to look at them."""

    n: int
    per_person: int
    unit: str
    seen: object  # what a ledger recognises the data set by
    look: Callable[[], tuple[Rows, Vocabulary]]


def names_of(table: object, groups: object, max_rows_per_person: int | None) -> tuple[list[str], Schema | None]:
    """The columns of a table but the one that names the person, and what is declared about them."""
    spark = SparkTable.of(table, groups, max_rows_per_person)
    if spark is not None:
        return spark.names, spark.schema
    in_memory_only(table)
    if not is_table(table):
        raise ValueError(f"Expected a table with named columns, found {type(table).__name__}. Pass e.g. a pandas data frame.")
    return column_names(person_column(table, groups)[0]), None


def held_by(table: Any, question: Question, groups: object, max_rows_per_person: int | None) -> Held:
    spark = SparkTable.of(table, groups, max_rows_per_person)
    if spark is not None:
        rows = spark.rows(Looking(question, {}, spark.person is not None))
        return Held(rows.n, spark.per_person, spark.unit, rows, partial(_on_spark, spark, rows, question))
    held, people = person_column(table, groups)
    weight, per_person = person_weights(people, max_rows_per_person, None, len(held))

    def look() -> tuple[Rows, Vocabulary]:
        looked = looked_at(held, question)
        return MemoryRows(looked.X, np.zeros(len(looked.X)), weight), looked.words

    return Held(len(held), per_person, unit_of(people), table, look)


def _on_spark(table: SparkTable, rows: SparkRows, question: Question) -> tuple[Rows, Vocabulary]:
    """Rows made by the executors, ready to be summed, and the list of words."""
    listed = question.unlisted
    found: dict[int, set[float | str]] = {j: set() for j in listed}
    if listed:
        with in_words():
            read = [f"{as_read(table.frame, question.columns[j].name)} AS c{j}" for j in listed]
            told = table.frame.selectExpr(*read).mapInArrow(Words(listed), "place int, word string").distinct().collect()
        for row in told:
            found[row.place].add(json.loads(row.word))
    words = {j: in_order(levels) for j, levels in found.items()}
    made = rows.remade(Looking(question, words, table.person is not None))
    made.ready()
    return made, words


@dataclass(frozen=True, eq=False)
class Words:
    """Raw cells of some columns → the words among them, each once in a batch."""

    places: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            found = [
                (place, json.dumps(word))
                for number, place in enumerate(self.places)
                for word in set(levels_of(pa.chunked_array([batch.column(number)]))) - {None}
            ]
            places, words = ([pair[side] for pair in found] for side in (0, 1))
            told = [pa.array(places, type=pa.int32()), pa.array(words, type=pa.string())]
            yield pa.RecordBatch.from_arrays(told, ["place", "word"])


@dataclass(frozen=True, eq=False)
class Looking:
    """Raw rows of a Spark table → the numbers of `looked_at`."""

    question: Question
    words: Vocabulary
    owned: bool

    numeric = ()
    raw = True

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.question.columns)

    @property
    def d(self) -> int:
        return PER_COLUMN * len(self.question.columns)

    def __call__(self, table: pa.Table) -> Made:
        """A place in the list follows from other rows' words, so that a row is told apart by its words themselves: which rows of
        a person count must not move when somebody else brings a word."""
        levels = {j: levels_of(cells(table, self.question.columns[j].name)) for j in self.words}
        X = numbers_of_cells(table, self.question, levels, self.words)
        content = None
        if self.owned:
            own = X.copy()
            own[:, [PER_COLUMN * j + 2 for j in self.words]] = 0.0
            told = [json.dumps([found[row] for found in levels.values()]).encode() for row in range(len(X))]
            content = digests(numbers.tobytes() + words for numbers, words in zip(own, told))
        return Made(X, np.zeros(len(X)), None, content)
