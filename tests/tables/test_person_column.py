"""The column that names the person gives the ids and is no feature, in every kind of table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dperm

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (300, 3))
Y = (X[:, 0] > 0).astype(int)
PEOPLE = np.repeat(np.arange(100), 3)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
COMMON = {"bounds": (-1, 1), "classes": [0, 1], "random_state": 0, "max_rows_per_person": 2}


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_the_named_column_gives_the_ids_and_is_no_feature(kind):
    owned = FRAME.assign(p=[f"person {i}" for i in PEOPLE])
    make = {"pandas": lambda f: f, "polars": lambda f: pl.DataFrame(f.to_dict("list")), "arrow": pa.Table.from_pandas}[kind]
    named = dperm.LogisticRegression(groups="p", **COMMON).fit(make(owned), Y)
    passed = dperm.LogisticRegression(**COMMON).fit(X, Y, groups=PEOPLE)
    assert named.coef_.shape == (1, 3) and named.certificate_.unit == "person"
    assert np.array_equal(named.coef_, passed.coef_)
    assert np.array_equal(named.predict(make(FRAME)), named.predict(make(owned)))
    if kind != "arrow":
        assert list(named.feature_names_in_) == ["a", "b", "c"]


def test_fit_takes_the_name_too_and_a_wrong_one_is_refused():
    owned = FRAME.assign(p=PEOPLE)
    named = dperm.LogisticRegression(**COMMON).fit(owned, Y, groups="p")
    assert named.coef_.shape == (1, 3) and len(named.predict(owned)) == 300
    with pytest.raises(ValueError, match="one person column 'q', found none"):
        dperm.LogisticRegression(groups="q", **COMMON).fit(owned, Y)
    with pytest.raises(ValueError, match="one person column 'p', found none"):
        dperm.LogisticRegression(groups="p", **COMMON).fit(X, Y)


def test_a_person_column_that_a_schema_declares_as_a_feature_is_refused():
    columns = {name: {"type": "numeric", "low": -1, "high": 1} for name in "abc"}
    options = {key: value for key, value in COMMON.items() if key != "bounds"}
    schema = {"columns": {**columns, "p": {"type": "ignored"}}}
    owned = FRAME.assign(p=PEOPLE)
    model = dperm.LogisticRegression(groups="p", schema=schema, **options).fit(owned, Y)
    assert model.coef_.shape == (1, 3) and len(model.predict(FRAME)) == 300
    schema["columns"]["p"] = {"type": "numeric", "low": 0, "high": 100}
    with pytest.raises(ValueError, match="'p' to be no feature"):
        dperm.LogisticRegression(groups="p", schema=schema, **options).fit(owned, Y)


def test_locations_and_finite_classes_take_the_name():
    owned = FRAME.assign(p=PEOPLE)
    mean = dperm.MeanEstimator(1.0, bounds=(-1, 1), groups="p", max_rows_per_person=2, random_state=0).fit(owned)
    assert mean.location_.shape == (3,) and mean.certificate_.unit == "person"
    rules = dperm.FiniteClassLearner(1.0, groups="p", **COMMON).fit(owned, Y)
    assert rules.n_features_in_ == 3 and np.array_equal(rules.predict(owned), rules.predict(FRAME))
