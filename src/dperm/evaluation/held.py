"""The rows that an evaluation sums: made in memory, or by the executors of a Spark table with the same code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dperm.estimators.engines import FromModel, columns_read, for_executors
from dperm.evaluation.plan import Question
from dperm.evaluation.rows import Groups, groups_of, question_of, scored_rows
from dperm.problem.arrays import offers
from dperm.rows.base import Rows
from dperm.rows.memory import MemoryRows
from dperm.rows.pieces import Made
from dperm.rows.spark_made import SparkTable
from dperm.rows.spark_tasks import cell_digests
from dperm.tables.labels import check_label_type
from dperm.tables.persons import person_column, person_weights, unit_of
from dperm.tables.tables import cells, in_memory_only

if TYPE_CHECKING:
    import pyarrow as pa

    from dperm.estimators.base import PrivateEstimator
    from dperm.rows.spark import SparkRows


@dataclass(frozen=True)
class Held:
    """Rows to sum, and what is public about them."""

    rows: Rows
    n: int
    per_person: int
    unit: str
    seen: object  # what a ledger recognises the data set by


@dataclass(frozen=True)
class Asked:
    """What is asked about a model: the scores, and the rows of which column apart."""

    model: PrivateEstimator
    bins: int
    max_exposure: float | None
    by: str | None
    levels: Sequence[object] | None

    def about(self, X: object) -> tuple[Question, Groups | None]:
        apart = groups_of(self.model, X, self.by, self.levels)
        return question_of(self.model, bins=self.bins, max_exposure=self.max_exposure, by=apart), apart


def held_rows(
    asked: Asked, X: object, y: object, exposure: object, groups: object, max_rows_per_person: int | None
) -> tuple[Question, Held]:
    """The question, and the rows that answer it."""
    table = SparkTable.of(X, groups, max_rows_per_person)
    if table is not None:
        question, apart = asked.about(table.frame)
        spread = table.rows(scoring(asked.model, question, table, y, exposure, apart))
        return question, Held(spread, spread.n, table.per_person, table.unit, spread)
    if not offers(X, "bounded"):  # rows are scored part by part
        in_memory_only(X)
    question, apart = asked.about(X)
    held, people = person_column(X, groups)
    if y is not None and hasattr(asked.model, "classes_"):
        check_label_type(y, asked.model.classes_)
    rows, known = scored_rows(asked.model, question, held, y, exposure)
    if apart is not None:
        rows = np.column_stack([rows, apart.of(X)])
    weight, per_person = person_weights(people, max_rows_per_person, known, len(known))
    return question, Held(MemoryRows(rows, known, weight), len(rows), per_person, unit_of(people), X)


def ready(rows: Rows | SparkRows) -> Rows:
    """The rows, made and checked where that has not been done: before anything is booked."""
    if hasattr(rows, "ready"):
        rows.ready()
    return rows


@dataclass(frozen=True, eq=False)
class Scoring(FromModel):
    """Raw rows of a Spark table → the numbers of `scored_rows`."""

    question: Question
    exposure: str | None
    apart: Groups | None
    owned: bool

    @property
    def columns(self) -> tuple[str, ...]:
        others = [self.exposure, None if self.apart is None else self.apart.column.source or self.apart.column.name]
        return tuple(dict.fromkeys([*self.features, self.target, *(name for name in others if name is not None)]))

    @property
    def d(self) -> int:
        return {"regression": 2, "counts": 3}.get(self.question.kind, 5) + (self.apart is not None)

    def __call__(self, table: pa.Table) -> Made:
        """A row is told apart by its cells, not by the numbers made of it: which rows of a person count must not move with the
        last bits of a score."""
        exposure = None if self.exposure is None else cells(table, self.exposure)
        rows, known = scored_rows(self.model, self.question, *self.read(table), exposure)
        if self.apart is not None:
            rows = np.column_stack([rows, self.apart.of(table)])
        return Made(rows, known, known, cell_digests(table, self.columns) if self.owned else None)


def scoring(
    model: PrivateEstimator, question: Question, table: SparkTable, y: object, exposure: object, apart: Groups | None
) -> Scoring:
    """What the executors need: a copy of the model without a ledger or a seed, and the names of columns."""
    if not (exposure is None or isinstance(exposure, str)):
        raise ValueError("Expected exposure= as the name of a column of the Spark table, found something else. Pass the name.")
    if exposure is not None and question.kind != "counts":
        raise ValueError("Expected exposure= only for counts, found it for another model. Leave it out.")
    schema = model._declared_schema()
    named = None if schema is None or schema.target is None else schema.target.column
    target = table.labels(named if y is None and named is not None else y)
    features, reader = columns_read(model, table, (target, exposure, None if apart is None else apart.column.name))
    if reader is None and hasattr(model, "classes_"):
        check_label_type(np.empty(0, dtype=table.label_type(target)), model.classes_)
    return Scoring(features, target, for_executors(model), reader, question, exposure, apart, table.person is not None)
