"""Data that is not read into memory: rows on disk, on a card or on a cluster, encoded and labelled by the declarations."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from dperm.estimators.declared import check_one_declaration
from dperm.rows.memory import MemoryRows
from dperm.tables.encoding import Encoding


def engine_rows(X: Any, y: Any, schema: Any = None) -> Any:
    """X as rows of an engine; None for what is read into memory (arrays, sparse matrices, tables).

    A torch or CuPy array becomes `DeviceRows`, a Dask array or dataframe `DaskRows`, and rows stay what they are.
    """
    kind = type(X).__module__.split(".")[0]
    if kind in ("torch", "cupy"):
        from dperm.rows.device import DeviceRows

        return DeviceRows(X, y)
    if kind == "dask":
        from dperm.rows.dask import DaskRows

        return DaskRows(X, y, schema=schema)
    if not is_rows(X):
        return None
    if y is not None:
        raise ValueError("Expected no y with rows, which carry their labels, found one. Call fit(rows).")
    if not hasattr(X, "labelled"):
        raise ValueError(
            f"Expected MemoryRows, ArrowRows, DeviceRows or DaskRows, found {type(X).__name__}. Pass the arrays themselves, or "
            "use dperm.fit(problem, rows, target) with rows that are encoded already."
        )
    return X


def is_rows(X: Any) -> bool:
    """Rows of an engine, rather than an array or a table (a frame has sums too, and no bounds)."""
    return hasattr(X, "bounded") and hasattr(X, "sum")


def in_memory(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """`MemoryRows` as the arrays that they hold; anything else as it is."""
    if not isinstance(X, MemoryRows):
        return X, y, sample_weight
    if y is not None or sample_weight is not None:
        raise ValueError("Expected no y or sample_weight= with rows, which carry their own, found one. Call fit(rows).")
    return X.X, X.y, X.weight


def parts_of(X: Any) -> Any:
    """What predictions are made for, part by part, where X is rows or an array on a device; None for arrays and tables."""
    kind = type(X).__module__.split(".")[0]
    if isinstance(X, MemoryRows):
        return [X.X]
    if kind in ("torch", "cupy") or (is_rows(X) and hasattr(X, "host_blocks")):
        from dperm.rows.device import to_host

        return [to_host(getattr(X, "X", X))]
    if hasattr(X, "tables") and is_rows(X):
        return X.tables()
    if is_rows(X) or kind == "dask":
        raise ValueError(
            f"Expected an array, a table or ArrowRows to predict for, found {type(X).__name__}. Predict part by part, e.g. "
            "frame.map_partitions(model.predict)."
        )
    return None


def declared_rows(estimator: Any, rows: Any, sample_weight: Any, groups: Any) -> tuple[Any, Any, float | None]:
    """(rows encoded and labelled by the estimator's declarations, interval of the labels, largest weight)."""
    if sample_weight is not None or groups is not None or estimator.groups is not None:
        raise ValueError(
            "Expected no sample_weight= or groups= with rows on disk, on a card or on a cluster, found one. "
            "Pass a table or arrays in memory."
        )
    if estimator.max_rows_per_person is not None:
        raise ValueError(
            "Expected no max_rows_per_person= with rows on disk, on a card or on a cluster, which are protected row by row, "
            "found one. Pass a table or arrays in memory, with groups=."
        )
    schema = getattr(rows, "schema", None)
    if schema is not None:
        check_one_declaration(estimator, "the schema of the rows")
        if estimator.schema is not None and estimator._declared_schema().spec() != schema.spec():
            raise ValueError("Expected the schema of the rows, found another one in schema=. Leave schema= out.")
        estimator._schema_of_rows = schema
    if rows.encoding is None:
        rows = rows.encoded(
            Encoding.from_declaration(
                rows.d,
                bounds=estimator.bounds,
                x_norm=estimator.x_norm,
                categorical=estimator.categorical,
                boolean=estimator.boolean,
                sparse=estimator.sparse,
                missing=estimator.missing,
                names=rows.names,
            )
        )
    estimator._encoding = rows.encoding
    estimator.n_features_in_ = rows.d
    if schema is not None:
        estimator.feature_names_in_ = np.array([c.name for c in schema.columns if c.type != "ignored"], dtype=object)
    interval = estimator._labels(np.empty(0, dtype=getattr(rows, "label_type", object)))[2]
    _, heaviest = estimator._weights(None, None, 0)
    # Workers get a copy that holds declarations only: no budget ledger, no random state.
    rule = copy.copy(estimator)
    rule.ledger = rule.random_state = None
    return rows.labelled(rule._labels), interval, heaviest
