"""Data that is not read into memory: rows on disk, on a card or on a cluster, encoded and labelled by the declarations."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from dperm.encoding import Encoding
from dperm.rows.memory import MemoryRows


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
    if not (hasattr(X, "bounded") and hasattr(X, "sum")):
        return None
    if y is not None:
        raise ValueError("Expected no y with rows, which carry their labels, found one. Call fit(rows).")
    if not hasattr(X, "labelled") or isinstance(X, MemoryRows):
        raise ValueError(
            f"Expected ArrowRows, DeviceRows or DaskRows, found {type(X).__name__}. Pass the arrays themselves, or use "
            "dperm.fit(problem, rows, target) with rows that are encoded already."
        )
    return X


def declared_rows(estimator: Any, rows: Any, sample_weight: Any, groups: Any) -> tuple[Any, Any, float | None]:
    """(rows encoded and labelled by the estimator's declarations, interval of the labels, largest weight)."""
    if sample_weight is not None or groups is not None or estimator.groups is not None:
        raise ValueError(
            "Expected no sample_weight= or groups= with rows on disk, on a card or on a cluster, found one. "
            "Pass a table or arrays in memory."
        )
    if rows.encoding is None:
        rows = rows.encoded(
            Encoding.from_declaration(
                rows.d,
                bounds=estimator.bounds,
                x_norm=estimator.x_norm,
                categorical=estimator.categorical,
                boolean=estimator.boolean,
                sparse=estimator.sparse,
                names=rows.names,
            )
        )
    estimator._encoding = rows.encoding
    estimator.n_features_in_ = rows.d
    interval = estimator._labels(np.array([], dtype=object))[2]
    _, heaviest = estimator._weights(None, None, 0)
    # Workers get a copy that holds declarations only: no budget ledger, no random state.
    rule = copy.copy(estimator)
    rule.ledger = rule.random_state = None
    return rows.labelled(rule._labels), interval, heaviest
