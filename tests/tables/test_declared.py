"""Wrong declarations are refused in words; types of columns are public, and what a cell holds is not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dperm

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (200, 3))
Y = (X[:, 0] > 0).astype(int)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
COLUMNS = {name: {"type": "numeric", "low": -1, "high": 1} for name in "abc"}
SCHEMA = {"columns": COLUMNS, "target": {"column": "y", "type": "classes", "classes": [0, 1]}}


def logistic(**changes):
    return dperm.LogisticRegression(**{"epsilon": 5.0, "bounds": (-1, 1), "classes": [0, 1], "random_state": 0, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_weight": -1}, "max_weight > 0, found -1"),
        ({"max_weight": "a"}, "max_weight > 0, found 'a'"),
        ({"fit_intercept": "yes"}, "fit_intercept=True or False, found 'yes'"),
        ({"epsilon": True}, "epsilon > 0, found True"),
        ({"delta": False}, "0 ≤ delta < 1, found False"),
        ({"classes": "ab"}, "classes= as a list of labels, found 'ab'"),
        ({"classes": 2}, "classes= as a list of labels, found 2"),
        ({"classes": {0, 1}}, "classes= as a list of labels"),
        ({"x_norm": "a"}, "x_norm > 0, found 'a'"),
        ({"radius": "a"}, "radius > 0, found 'a'"),
        ({"nominal_n": 2.5}, "nominal_n ≥ 1, a whole number, found 2.5"),
        ({"max_rows_per_person": "x"}, "max_rows_per_person ≥ 1, a whole number, found 'x'"),
        ({"random_state": "a"}, "random_state= as a whole number or a NumPy generator, found str"),
    ],
)
def test_a_parameter_of_the_wrong_type_or_sign_is_named(changes, words):
    with pytest.raises(ValueError, match=words):
        logistic(**changes).fit(X, Y)


@pytest.mark.parametrize("twice", [{"bounds": (-1, 1)}, {"x_norm": 2.0}, {"boolean": ["a"]}])
def test_columns_are_declared_once(twice):
    with pytest.raises(ValueError, match="declared once, by the schema"):
        dperm.LogisticRegression(1.0, schema=SCHEMA, **twice).fit(FRAME.assign(y=Y))


def test_classes_must_be_those_of_the_schema_in_either_order():
    with pytest.raises(ValueError, match="classes of the schema's target 'y'"):
        dperm.LogisticRegression(1.0, schema=SCHEMA, classes=[0, 2]).fit(FRAME.assign(y=Y))
    model = dperm.LogisticRegression(1.0, schema=SCHEMA, classes=[1, 0]).fit(FRAME.assign(y=Y))
    assert model.classes_.tolist() == [1, 0]


@pytest.mark.parametrize("kind", ["word", "category", "date", "span"])
@pytest.mark.parametrize("table", ["pandas", "polars", "arrow"])
def test_a_column_whose_type_holds_no_numbers_is_refused_by_its_name_and_type_alone(kind, table):
    cells = {
        "word": ["secret"] * 200,
        "category": pd.Categorical(["secret"] * 200),
        "date": pd.to_datetime(["2020-02-03"] * 200),
        "span": pd.to_timedelta([7] * 200, unit="s"),
    }[kind]
    frame = FRAME.assign(extra=cells)
    shown = {"pandas": lambda f: f, "polars": pl.from_pandas, "arrow": pa.Table.from_pandas}[table](frame)
    with pytest.raises(ValueError, match=r"'extra' of type .* Write a schema .* or drop the column") as caught:
        logistic().fit(shown, Y)
    assert "secret" not in str(caught.value) and "2020" not in str(caught.value)


def test_types_that_hold_numbers_pass():
    whole = FRAME.assign(d=pd.array(Y, dtype="Int64"), e=Y > 0, f=X[:, 0].astype(np.float32))
    model = logistic().fit(whole, Y)
    assert model.coef_.shape == (1, 6)
    assert np.array_equal(logistic().fit(pl.from_pandas(whole), Y).coef_, model.coef_)
    with pytest.raises(ValueError, match="array of numbers, found the type datetime64"):
        logistic().fit(np.zeros((200, 3), dtype="M8[s]"), Y)


@pytest.mark.parametrize("form", [str, "category", "object", "list", "string with a gap"])
def test_labels_written_as_words_are_their_numbers_cell_by_cell(form):
    """A rule for one cell: no row can turn it into an error, and a label that is no class is a null row as before."""
    words = pd.Series(Y.astype(str))
    if form == "string with a gap":
        gap = words.astype("string")
        gap[3] = pd.NA
        numbers = Y.astype(object)
        numbers[3] = None
        assert np.array_equal(logistic().fit(X, gap).coef_, logistic().fit(X, numbers).coef_)
        return
    labels = words.tolist() if form == "list" else words.astype(form)
    assert np.array_equal(logistic().fit(X, labels).coef_, logistic().fit(X, Y).coef_)
    assert np.array_equal(logistic(classes=["0", "1"]).fit(X, Y).coef_, logistic().fit(X, Y).coef_)


def test_locations_check_their_parameters_too():
    with pytest.raises(ValueError, match="x_norm > 0, found 'a'"):
        dperm.MeanEstimator(1.0, x_norm="a").fit(X)
    with pytest.raises(ValueError, match="max_rows_per_person ≥ 1"):
        dperm.MedianEstimator(1.0, bounds=(-1, 1), max_rows_per_person=0).fit(X)


def test_a_card_that_is_not_there_is_named_at_construction():
    torch = pytest.importorskip("torch", reason="device rows need torch: pip install dperm[torch]")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ValueError, match="a GPU for device='cuda', found none"):
        dperm.DeviceRows(X, Y, device="cuda")
