"""The rows that a search fits and scores on: in memory, or in a Spark table where executors score with the same code."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from dperm.estimators.engines import FromModel, columns_read, declared_rows, engine_rows, for_executors
from dperm.problem import Interval
from dperm.problem.arrays import offers
from dperm.rows.base import Block, Rows
from dperm.rows.exact import Tallied, whole
from dperm.rows.mapped import MappedFiles
from dperm.rows.memory import MemoryRows
from dperm.rows.pieces import Made
from dperm.rows.spark_made import SparkTable
from dperm.tables.cells import codes, numbers
from dperm.tables.labels import label_column
from dperm.tables.persons import person_weights
from dperm.tables.tables import cells, column_names, in_memory_only, is_table

if TYPE_CHECKING:
    import pyarrow as pa

    from dperm.estimators.base import PrivateEstimator
    from dperm.tables.schema import Schema


@dataclass(frozen=True, eq=False)
class ScoreSum(Tallied):
    """Σ of one score in [0, 1] per row. **Sensitivity** 1 under every relation: replaced, nulled, added or removed, a row moves
    the sum by the difference of two scores at most."""

    def tally(self, block: Block) -> np.ndarray:
        return np.array([np.sum(np.clip(whole(block.X[:, 0], 1.0), 0.0, None))])

    def sensitivity(self, relation: str) -> float:
        return 1.0

    @property
    def row_bound(self) -> float:
        return 1.0


def row_scores(model: PrivateEstimator, X: object, y: object) -> np.ndarray:
    """1 for a right class; 1 - (error/range)² for a number in its declared range; 0 for a row whose label is missing."""
    predicted = model.predict(X)
    y = label_column(y, len(predicted))  # one label per row: a column of shape (n, 1) would be scored against every prediction
    if hasattr(model, "classes_"):
        classes = model.classes_.tolist()
        return np.asarray(codes(y, classes) == codes(predicted, classes), dtype=np.float64)
    low, high = getattr(model, "_y_low", 0.0), model._y_high
    truth = numbers(y)
    known = np.isfinite(truth)
    gap = (np.clip(np.where(known, truth, low), low, high) - np.clip(predicted, low, high)) / (high - low)
    return np.asarray(known * (1 - gap * gap))


class InMemory:
    """Arrays or a table, and labels beside them."""

    def __init__(self, X: object, y: object, schema: Schema | None) -> None:
        in_memory_only(X)
        if y is None and schema is not None and schema.target is not None and is_table(X):
            schema.check(column_names(X))
            y = schema.labels(cells(X, schema.target.column))
        if y is None:
            raise ValueError(
                "Expected y, the labels, for a search on rows in memory, found none. Pass them, or a table with the target of "
                "the estimator's schema."
            )
        self.seen = X
        self.X = X
        self.n: int = _num_samples(self.X)
        self.y = label_column(y, self.n)
        self.files = MappedFiles.of(X, y)

    def declare(self, model: PrivateEstimator) -> tuple[Interval, float | None]:
        """The model with its encoding built, which follows from declarations alone; its labels' interval, its largest weight."""
        first, label = _first_row(self.X), self.y[:1]
        person_weights(None, model.max_rows_per_person, None, 0)
        model._unpack(first, label, None)
        return model._labels(label)[2], model._weights(None, None, 0)[1]

    def ready(self) -> None:
        """Nothing: rows in memory are there."""

    def fit(self, model: PrivateEstimator) -> PrivateEstimator:
        return model.fit(self.X, self.y)

    def scored(self, model: PrivateEstimator) -> Rows:
        scores = row_scores(model, self.X, self.y)
        self.files.check()  # every run reads the rows again
        return MemoryRows(scores.reshape(-1, 1), np.zeros(len(scores)))


def _first_row(X: Any) -> Any:
    """One row of an array or a table, as it holds it; none where there is none."""
    if offers(X, "slice"):  # of Arrow and polars
        return X.slice(0, 1)
    X = X.tocsr() if offers(X, "tocsr") else X  # not every format of a sparse matrix has rows
    return _safe_indexing(X, [0] if _num_samples(X) else [])


class OnSpark:
    """A Spark table, encoded once for all fits that encode it alike."""

    def __init__(self, table: SparkTable, source: object, y: object, schema: Schema | None) -> None:
        if table.person is not None:
            raise ValueError("Expected rows without persons in a search, found them. Fit one setting instead.")
        self.table = table
        found: Any = source if hasattr(source, "recipe") else engine_rows(source, y, schema)
        self.rows = self.seen = found
        self.n: int = found.n

    def declare(self, model: PrivateEstimator) -> tuple[Interval, float | None]:
        found = declared_rows(model, self.rows, None, None)
        return found.interval, found.heaviest

    def ready(self) -> None:
        """Encode the table before anything is debited: one that changes between passes is refused here."""
        self.rows.ready()

    def fit(self, model: PrivateEstimator) -> PrivateEstimator:
        return model.fit(self.rows)

    def scored(self, model: PrivateEstimator) -> Rows:
        target = str(self.rows.recipe.target)
        features, schema = columns_read(model, self.table, (target,))
        return self.table.rows(RowScores(features, target, for_executors(model), schema))


def searched(X: object, y: Sized | None, schema: Schema | None) -> InMemory | OnSpark:
    table = SparkTable.of(X)
    return InMemory(X, y, schema) if table is None else OnSpark(table, X, y, schema)


@dataclass(frozen=True, eq=False)
class RowScores(FromModel):
    """Raw rows of a Spark table → one score a row."""

    d = 1

    def __call__(self, table: pa.Table) -> Made:
        scores = row_scores(self.model, *self.read(table))
        return Made(scores.reshape(-1, 1), np.zeros(len(scores)))
