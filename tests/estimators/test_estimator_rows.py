"""Estimators fit and predict with every kind of rows: the same numbers as from the arrays that the rows hold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dperm
from dperm import ArrowRows, DeviceRows, MemoryRows

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (300, 3))
Y = (X[:, 0] > 0).astype(int)
OPTIONS = {"bounds": (-1, 1), "classes": [0, 1], "random_state": 0}
COLUMNS = {name: {"type": "numeric", "low": -1, "high": 1} for name in "abc"}
SCHEMA = {"columns": COLUMNS, "target": {"column": "y", "type": "classes", "classes": [0, 1]}}
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y)


@pytest.fixture
def file(tmp_path):
    FRAME.to_parquet(tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def test_rows_in_memory_give_the_fit_of_their_arrays():
    weight = RNG.uniform(0, 1, 300)
    for rows, sample_weight in ((MemoryRows(X, Y), None), (MemoryRows(X, Y, weight), weight)):
        model = dperm.LogisticRegression(1.0, max_weight=1.0, **OPTIONS).fit(rows)
        plain = dperm.LogisticRegression(1.0, max_weight=1.0, **OPTIONS).fit(X, Y, sample_weight=sample_weight)
        assert np.array_equal(model.coef_, plain.coef_) and np.array_equal(model.predict(rows), plain.predict(X))
    with pytest.raises(ValueError, match="no y or sample_weight= with rows"):
        dperm.LogisticRegression(1.0, **OPTIONS).fit(MemoryRows(X, Y), Y)


def test_the_schema_of_the_rows_declares_classes_and_columns(file):
    rows = ArrowRows(file, SCHEMA)
    model = dperm.LogisticRegression(1.0, random_state=0).fit(rows)
    plain = dperm.LogisticRegression(1.0, random_state=0, schema=SCHEMA).fit(FRAME)
    assert np.array_equal(model.coef_, plain.coef_) and model.classes_.tolist() == [0, 1]
    assert np.array_equal(model.predict(FRAME), plain.predict(FRAME))
    numeric = {"columns": COLUMNS, "target": {"column": "y", "type": "numeric", "low": 0, "high": 1}}
    assert dperm.LinearRegression(1.0, random_state=0).fit(ArrowRows(file, numeric)).predict(FRAME).shape == (300,)


def test_what_the_schema_of_the_rows_says_is_not_said_again(file):
    rows = ArrowRows(file, SCHEMA)
    with pytest.raises(ValueError, match="declared once, by the schema of the rows"):
        dperm.LogisticRegression(1.0, bounds=(-1, 1)).fit(rows)
    with pytest.raises(ValueError, match="found another one in schema="):
        dperm.LogisticRegression(1.0, schema={**SCHEMA, "row_norm": 1.0}).fit(rows)
    with pytest.raises(ValueError, match="classes of the schema's target"):
        dperm.LogisticRegression(1.0, classes=[1, 2]).fit(rows)
    model = dperm.LogisticRegression(1.0, random_state=0).fit(rows).fit
    with pytest.raises(ValueError, match="Expected classes="):  # a later fit does not remember the schema of an earlier one
        model(X, Y)


@pytest.mark.parametrize("private", [False, True])
def test_predictions_for_rows_on_disk_are_those_for_the_table(file, private):
    columns = {**COLUMNS, "a": {"type": "numeric", "bounds": "private"}} if private else COLUMNS
    rows = ArrowRows(file, {**SCHEMA, "columns": columns})
    model = dperm.LogisticRegression(3.0, random_state=0).fit(rows)
    assert np.array_equal(model.predict_proba(rows), model.predict_proba(FRAME))
    assert np.array_equal(model.predict(rows), model.predict(FRAME))


def test_what_cannot_be_predicted_for_is_refused_in_words_without_the_data():
    model = dperm.LogisticRegression(1.0, **OPTIONS).fit(X, Y)
    assert np.array_equal(model.predict(DeviceRows(X, Y)), model.predict(X))

    class Other:
        n, d = 300, 3
        bounded = sum = None

    for call in (model.predict, dperm.MeanEstimator(1.0, bounds=(-1, 1)).fit):
        with pytest.raises(ValueError, match=r"Expected an array.*, found Other"):
            call(Other())
    with pytest.raises(ValueError, match="Expected MemoryRows, ArrowRows, DeviceRows, DaskRows or SparkRows, found Other"):
        dperm.LogisticRegression(1.0, **OPTIONS).fit(Other())
