"""A regression's target of times is refused by its type, which is public, and by nothing that its cells hold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dperm

N = 40
X = np.random.default_rng(0).uniform(size=(N, 2))
DAYS = np.arange(N).astype("M8[ms]")
GONE = np.full(N, "NaT", "M8[ms]")
COLUMN = {"type": "numeric", "low": 0, "high": 1}
SCHEMA = {"columns": {"a": COLUMN, "b": COLUMN}, "target": {"column": "y", "type": "numeric", "low": 0, "high": 9}}


def model(kind=dperm.LinearRegression, **options):
    return kind(**({"epsilon": 1.0, "bounds": (0, 1), "y_bounds": (0, 9), "random_state": 0} | options))


@pytest.mark.parametrize("days", [DAYS, GONE], ids=["present", "missing"])
@pytest.mark.parametrize(
    "made",
    [
        lambda days: days,
        lambda days: days - np.datetime64(0, "ms"),
        pd.Series,
        lambda days: pd.Series(days).dt.tz_localize("UTC"),
        lambda days: pd.DataFrame({"y": days}),
        pl.Series,
        pa.array,
        lambda days: pa.table({"y": days}),
    ],
    ids=["array", "lengths", "pandas", "zoned", "frame", "polars", "arrow", "table"],
)
def test_times_are_refused_as_the_target_of_a_regression_whatever_its_cells(made, days, tmp_path):
    ledger = dperm.Ledger.create(tmp_path / "l", dataset="x", epsilon=9.0, delta=1e-3)
    for kind in (dperm.LinearRegression, dperm.PoissonRegressor, dperm.GAMRegressor, dperm.QuantileRegressor):
        with pytest.raises(ValueError, match="Expected numbers as the target of a regression, found a column of type"):
            model(kind, ledger=ledger).fit(X, made(days))
    assert ledger.account().fits == 0


def test_so_are_they_in_the_column_of_a_schema_and_objects_are_read_cell_by_cell():
    for table in (pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": DAYS}), pa.table({"a": X[:, 0], "b": X[:, 1], "y": DAYS})):
        with pytest.raises(ValueError, match="Expected numbers as the target"):
            dperm.LinearRegression(1.0, schema=SCHEMA).fit(table)
    mixed = np.array([*range(N - 1), DAYS[0]], dtype=object)
    model().fit(X, mixed)  # one cell that is a date makes one empty row, and no error
    model().fit(X, mixed.tolist())


def test_public_shapes_are_stated_and_what_to_pass():
    fitted = model().fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"got 1D array instead.*X\.reshape\(1, -1\) for one row"):
        fitted.predict(X[0])
    for relation in ("replace-one", "add-remove"):
        one = model(relation=relation, nominal_n=N if relation == "add-remove" else None)
        with pytest.raises(ValueError, match=r"two dimensions, found 1\. .*X\.reshape\(-1, 1\) for one column"):
            one.fit(X[:, 0], X[:, 0])
        with pytest.raises(ValueError, match=r"two dimensions, found 3\. "):
            one.fit(X[None], X[:, 0])
        with pytest.raises(ValueError, match="got an array with 2 columns instead") as found:
            one.fit(X, X)
        assert str(N) not in str(found.value)
    with pytest.raises(ValueError, match="names of columns, in which the schema finds the target"):
        dperm.LinearRegression(1.0, schema=SCHEMA).fit(X)
