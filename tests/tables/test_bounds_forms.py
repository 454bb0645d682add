"""`bounds=` as people write it: every form gives the same columns, and what can be read in two ways is refused.

On the code before, `bounds=[(0, 100), (50, 200)]` with two columns meant from 0 to 50 and from 100 to 200.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dperm
from dperm.tables.encoding import Encoding


def sides(bounds, d, **options):
    encoding = Encoding.from_declaration(d, bounds=bounds, **options)
    return list(zip(encoding.low.tolist(), encoding.high.tolist()))


@pytest.mark.parametrize(
    "bounds",
    [
        [(0, 100), (50, 200), (-1, 1)],
        np.array([(0, 100), (50, 200), (-1, 1)]),
        ([0, 50, -1], [100, 200, 1]),
        (np.array([0, 50, -1]), np.array([100, 200, 1])),
        {"c": (-1, 1), "a": (0, 100), "b": [50, 200]},
        {0: (0, 100), 1: (50, 200), "c": (-1, 1)},
    ],
    ids=["pairs", "array of pairs", "lows and highs", "arrays", "by name", "by number"],
)
def test_three_columns(bounds):
    assert sides(bounds, 3, names=["a", "b", "c"]) == [(0, 100), (50, 200), (-1, 1)]


def test_one_pair_is_for_all_columns():
    assert sides((0, 5), 3) == [(0, 5)] * 3
    assert sides((0, [1, 2, 3]), 3) == [(0, 1), (0, 2), (0, 3)]
    assert sides([(0, 5)], 1) == sides((0, 5), 1) == sides(([0], [5]), 1) == [(0, 5)]


def test_two_columns_that_can_be_read_in_two_ways_are_refused_with_both_readings():
    X = pd.DataFrame({"age": [1.0, 2.0], "height": [60.0, 70.0]})
    for bounds in ([(0, 100), (50, 200)], [[0, 50], [100, 200]], np.array([[0, 100], [50, 200]])):
        with pytest.raises(ValueError, match="can be read in one way") as caught:
            dperm.LinearRegression(1.0, bounds=bounds, y_bounds=(0, 1), nominal_n=None).fit(X, [0, 1])
        (a, b), (c, d) = np.asarray(bounds)
        assert f"'age' from {a} to {b} and 'height' from {c} to {d}" in str(caught.value)
        assert f"'age' from {a} to {c} and 'height' from {b} to {d}" in str(caught.value)
        assert "bounds={'age': (low, high), 'height': (low, high)}" in str(caught.value)


def test_two_columns_that_can_be_read_in_one_way():
    assert sides([(0, 1), (0, 1)], 2) == [(0, 1), (0, 1)]  # lows and highs would be equal: pairs
    assert sides([(0, 0), (1, 5)], 2) == [(0, 1), (0, 5)]  # a pair (0, 0) holds nothing: lows and highs
    assert sides([(0, 7), (7, 9)], 2) == [(0, 7), (7, 9)]  # both readings are the same
    assert sides((np.array([0, 50]), np.array([100, 200])), 2) == [(0, 100), (50, 200)]  # nobody writes a pair as an array
    assert sides({"age": (0, 100), "height": (50, 200)}, 2, names=["age", "height"]) == [(0, 100), (50, 200)]
    with pytest.raises(ValueError, match="low < high"):
        sides([(5, 1), (3, 2)], 2)


def test_a_dict_names_every_numeric_column_and_no_other():
    assert sides({"a": (0, 9)}, 2, names=["a", "b"], boolean=["b"]) == [(0, 9), (0, 1)]
    with pytest.raises(ValueError, match="none for 'b'"):
        sides({"a": (0, 9)}, 2, names=["a", "b"])
    with pytest.raises(ValueError, match=r"found 'agee'. Did you mean 'age'\?"):
        sides({"agee": (0, 9)}, 1, names=["age"])
    with pytest.raises(ValueError, match=r"a pair .* of column 'a'"):
        sides({"a": 9}, 1, names=["a"])


@pytest.mark.parametrize("bounds", ["wide", 5, (1, 2, 3), [(0, 1), (2, "x")], ((0, 1), (2, 3, 4)), None.__class__])
def test_other_forms_are_refused_in_words(bounds):
    with pytest.raises(ValueError, match="Expected bounds"):
        sides(bounds, 4)


def test_locations_and_grids_read_bounds_in_the_same_way():
    X = np.column_stack([np.full(500, 30.0), np.full(500, 150.0)])
    with pytest.raises(ValueError, match="can be read in one way"):
        dperm.MeanEstimator(1.0, bounds=[(0, 100), (50, 200)]).fit(X)
    found = dperm.MeanEstimator(50.0, bounds=(np.array([0, 50]), np.array([100, 200])), random_state=0).fit(X).location_
    assert found == pytest.approx([30, 150], abs=3)
    frame = pd.DataFrame(X, columns=["age", "height"])
    named = dperm.MeanEstimator(50.0, bounds={"height": (50, 200), "age": (0, 100)}, random_state=0).fit(frame).location_
    assert named.tolist() == found.tolist()
    with pytest.raises(ValueError, match="can be read in one way"):
        dperm.FiniteClassLearner(1.0, bounds=[(0, 100), (50, 200)], classes=[0, 1]).fit(X, X[:, 0] > 0)


def test_a_norm_of_rows_is_refused_beside_bounds_that_are_not_known_yet(tmp_path):
    """By a schema both were taken: rows were scaled in other units than when predicting, and the record did not verify."""
    column = {"a": {"type": "numeric", "bounds": "private"}}
    schema = {"columns": column, "target": {"column": "y", "type": "numeric", "low": 0, "high": 1}, "row_norm": 2.0}
    table = pd.DataFrame({"a": np.linspace(-9, 9, 200), "y": np.linspace(0, 1, 200)})
    ledger = dperm.Ledger.create(tmp_path / "l", dataset="x", epsilon=9.0, delta=1e-5)
    by_words = dperm.LinearRegression(3.0, bounds="private", x_norm=2.0, y_bounds=(0, 1), ledger=ledger)
    by_schema = dperm.LinearRegression(3.0, schema=schema, ledger=ledger)
    for model, given in ((by_schema, (table,)), (by_words, (table[["a"]], table.y))):
        for refused in (lambda model=model: model.plan(200, 1), lambda model=model, given=given: model.fit(*given)):
            with pytest.raises(ValueError, match=r"Expected x_norm= \(row_norm in a schema\) without private bounds, found both"):
                refused()
    assert ledger.account().fits == 0
