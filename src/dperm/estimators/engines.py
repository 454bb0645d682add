"""Data that is not read into memory: rows on disk, on a GPU or on a cluster, encoded and labelled by the declarations."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dperm.estimators.declaration import declared_encoding
from dperm.estimators.declared import check_one_declaration
from dperm.problem.arrays import offers
from dperm.rows.dask import DaskRows
from dperm.rows.device import DeviceRows, to_host
from dperm.rows.memory import MemoryRows
from dperm.rows.spark import SparkRows
from dperm.rows.streams import rows_from
from dperm.tables.cells import numbers
from dperm.tables.tables import cells, column_names, is_table

if TYPE_CHECKING:
    import pyarrow as pa

    from dperm.estimators.base import PrivateEstimator
    from dperm.rows.spark_made import SparkTable
    from dperm.tables.schema import Schema


def engine_rows(X: Any, y: Any, schema: Any = None) -> object:
    """X as rows of an engine; None for what is read into memory (arrays, sparse matrices, tables).

    A torch or CuPy array becomes `DeviceRows`, a Dask array or dataframe `DaskRows`, a Spark table `SparkRows` (y names the
    column of its labels where no schema does), and rows stay what they are.
    """
    kind = type(X).__module__.split(".")[0]
    if kind in ("torch", "cupy"):
        return DeviceRows(X, y)
    if kind == "dask":
        return DaskRows(X, y, schema=schema)
    if kind == "pyspark":
        if not (y is None or isinstance(y, str)):
            raise ValueError("Expected y as the name of a column of the Spark table, found something else. Pass the name.")
        if y is None and schema is None:
            raise ValueError("Expected y, the name of the labels' column, or a schema with a target, found neither. Pass one.")
        return SparkRows(X, schema, target=y)
    if kind in ("duckdb", "_duckdb") or type(X).__name__ == "LazyFrame":
        if schema is None or y is not None:
            raise ValueError(
                "Expected schema= with a target, and no y, for a query of another engine, found no schema or a y. Write a schema."
            )
        return rows_from(X, schema)
    if not is_rows(X):
        return None
    if y is not None:
        raise ValueError("Expected no y with rows, which carry their labels, found one. Call fit(rows).")
    if not offers(X, "labelled"):
        raise ValueError(
            f"Expected MemoryRows, ArrowRows, DeviceRows, DaskRows or SparkRows, found {type(X).__name__}. Pass the arrays "
            "themselves, or use dperm.fit(problem, rows, target) with rows that are encoded already."
        )
    return X


def is_rows(X: object) -> bool:
    """Rows of an engine, rather than an array or a table (a frame has sums too, and no bounds)."""
    return offers(X, "bounded") and offers(X, "sum")


def in_memory(X: object, y: object, sample_weight: object) -> tuple[object, object, object]:
    """`MemoryRows` as the arrays that they hold; anything else as it is."""
    if not isinstance(X, MemoryRows):
        return X, y, sample_weight
    if y is not None or sample_weight is not None:
        raise ValueError("Expected no y or sample_weight= with rows, which carry their own, found one. Call fit(rows).")
    return X.X, X.labels, X.weight


def parts_of(X: Any) -> Any:
    """What predictions are made for, part by part, where X is rows or an array on a device; None for arrays and tables."""
    kind = type(X).__module__.split(".")[0]
    if isinstance(X, MemoryRows):
        return [X.X]
    if kind in ("torch", "cupy") or (is_rows(X) and offers(X, "host_blocks")):
        return [to_host(getattr(X, "X", X))]
    if offers(X, "tables") and is_rows(X):
        return X.tables()
    if is_rows(X) or kind in ("dask", "pyspark"):
        raise ValueError(
            f"Expected an array, a table or ArrowRows to predict for, found {type(X).__name__}. Predict part by part, e.g. "
            "frame.map_partitions(model.predict) of Dask, or frame.mapInPandas(...) of Spark. dperm.evaluate takes a Spark "
            "table as it is; of Dask, collect rows that the fit did not use, with compute()."
        )
    return None


def labels_of(X: Any, schema: Schema | None) -> np.ndarray:
    """The labels to score against: those that rows carry, or the target column of the schema."""
    if is_rows(X) and hasattr(X, "y"):
        return to_host(X.y)
    if schema is None or schema.target is None or not (is_table(X) or offers(X, "tables")):
        raise ValueError("Expected y, or a table with the schema's target column, found neither. Pass the labels.")
    parts = list(X.tables()) if is_rows(X) else [X]
    schema.check(column_names(parts[0]))
    return np.concatenate([schema.labels(cells(part, schema.target.column)) for part in parts])


@dataclass(frozen=True)
class DeclaredRows:
    """Rows encoded and labelled by an estimator's declarations, and what follows from these: public, all of it."""

    rows: Any
    interval: Any
    heaviest: float | None
    per_person: int
    unit: str


def declared_rows(estimator: Any, rows: Any, sample_weight: object, groups: object) -> DeclaredRows:
    """The rows as the estimator declares them. Rows in a Spark table take weights and persons from columns of it."""
    groups = estimator.groups if groups is None else groups
    named = getattr(estimator, "_named", None)
    if getattr(estimator, "_given", None) is not None and not (named is not None and hasattr(rows, "declared")):
        raise ValueError(
            "Expected counts without exposure= or offset= on rows that are not in memory, or the name of a column of a Spark "
            "table, found something else. Pass a table or arrays in memory, or the name of the column."
        )
    if hasattr(rows, "declared"):
        rows = _with_columns(estimator, rows, sample_weight, groups, named)
        if rows.recipe.weight is not None and getattr(estimator, "_counting", False):
            estimator.__dict__["_weighed"] = np.zeros(0)  # executors read them
    elif sample_weight is not None or groups is not None:
        raise ValueError(
            "Expected no sample_weight= or groups= with rows on disk, on a GPU or on a Dask cluster, found one. "
            "Pass a table or arrays in memory, or a Spark table."
        )
    elif estimator.max_rows_per_person is not None:
        raise ValueError(
            "Expected no max_rows_per_person= with rows on disk, on a GPU or on a Dask cluster, which are protected row by row, "
            "found one. Pass a table or arrays in memory, or a Spark table, with groups=."
        )
    schema = getattr(rows, "schema", None)
    if schema is not None:
        check_one_declaration(estimator, "the schema of the rows")
        if estimator.schema is not None and estimator._declared_schema().spec() != schema.spec():
            raise ValueError("Expected the schema of the rows, found another one in schema=. Leave schema= out.")
        estimator._schema_of_rows = schema
    if rows.encoding is None:
        rows = rows.encoded(declared_encoding(estimator, rows.d, rows.names))
    estimator._encoding = rows.encoding
    estimator.n_features_in_ = rows.d
    if schema is not None:
        estimator.feature_names_in_ = np.array([c.name for c in schema.columns if c.type != "ignored"], dtype=object)
    none = np.empty(0, dtype=getattr(rows, "label_type", object))  # of the whole column: that of a part may follow from its cells
    estimator._check_labels(none)
    interval = estimator._labels(none)[2]
    recipe = getattr(rows, "recipe", None)
    weighted = getattr(recipe, "weight", None) is not None
    _, heaviest = estimator._weights(None, np.zeros(0) if weighted else None, 0)
    limit = getattr(recipe, "max_rows_per_person", None)
    rule = for_executors(estimator)
    return DeclaredRows(rows.labelled(rule._rule_of_rows()), interval, heaviest, limit or 1, "row" if limit is None else "person")


def _with_columns(estimator: Any, rows: Any, sample_weight: object, groups: object, exposure: str | None) -> Any:
    """A Spark table with the columns that hold weights, exposures and persons, by name; rows that have their own keep them."""
    asked: dict[str, Any] = {} if exposure is None else {"exposure": exposure}
    for word, given, own in (("sample_weight", sample_weight, "weight"), ("groups", groups, "person")):
        if not (given is None or isinstance(given, str)):
            raise ValueError(f"Expected {word}= as the name of a column of the Spark table, found something else. Pass the name.")
        if given is not None:
            asked[own] = given
    recipe = rows.recipe
    if "weight" in asked or recipe.weight is not None:
        limit = estimator.max_weight if recipe.max_weight is None else recipe.max_weight
        if limit is None or estimator.max_weight != limit:
            raise ValueError(
                "Expected max_weight= > 0 on the estimator, and no other value in SparkRows, found something else. Declare "
                "the largest weight a row may have; it must not be computed from the data."
            )
        asked["max_weight"] = limit
    if "person" in asked or recipe.person is not None or estimator.max_rows_per_person is not None:
        most = estimator.max_rows_per_person if recipe.max_rows_per_person is None else recipe.max_rows_per_person
        if most is None or estimator.max_rows_per_person not in (None, most):
            raise ValueError("Expected max_rows_per_person= with groups=, found none or two. Pass it once.")
        asked["max_rows_per_person"] = most
    return rows.declared(**asked) if asked else rows


def for_executors(model: Any) -> Any:
    """A copy of a model that may travel: declarations and what was released, without a ledger or a seed."""
    sent = copy.copy(model)
    sent.ledger = sent.random_state = None
    return sent


def columns_read(model: Any, table: SparkTable, apart: tuple[str | None, ...]) -> tuple[tuple[str, ...], Schema | None]:
    """The columns of a Spark table that the model predicts from, and the schema if it reads the target (`apart[0]`) too."""
    schema: Schema | None = model._declared_schema()
    if schema is None:
        known = getattr(model, "feature_names_in_", None)
        return tuple(known if known is not None else (name for name in table.names if name not in apart)), None
    schema.check(table.names, with_target=False, fitted=True)
    reads = schema.target is not None and schema.target.column == apart[0]
    return tuple(column.name for column in schema.columns if column.type != "ignored"), schema if reads else None


@dataclass(frozen=True, eq=False)
class FromColumns:
    """A maker of rows from some columns of a Spark table and one with the labels; as it is, all of them but that hold numbers."""

    features: tuple[str, ...]
    target: str

    raw = True

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.features, self.target)

    @property
    def numeric(self) -> tuple[str, ...]:
        return self.features

    @property
    def d(self) -> int:
        return len(self.features)

    def matrix(self, table: pa.Table) -> np.ndarray:
        """The numbers in the columns."""
        return np.stack([numbers(cells(table, name)) for name in self.features], axis=1)


@dataclass(frozen=True, eq=False)
class FromModel(FromColumns):
    """A maker of rows from what a model answers to raw ones, and from their labels."""

    model: PrivateEstimator
    schema: Schema | None  # whose rules the target is read by

    numeric = ()

    def read(self, table: pa.Table) -> tuple[object, object]:
        """What the model predicts for (columns by name, or the numbers in them where it was fitted on a matrix), and labels."""
        by_place = self.model._declared_schema() is None and not hasattr(self.model, "feature_names_in_")
        y = cells(table, self.target)
        X = self.matrix(table) if by_place else table.select(list(self.features))
        return X, y if self.schema is None else self.schema.labels(y)
