"""Schemas: what a person declares, for tables of every kind; a bad row meets a public rule, a bad file an error."""

from __future__ import annotations

import datetime
import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dperm
from dperm.tables.cells import codes, nulls, numbers, truth
from dperm.tables.column import OWN_LEVEL
from dperm.tables.schema import Schema

SPEC = {
    "name": "people",
    "columns": {
        "age": {"type": "numeric", "low": 0, "high": 100},
        "grade": {"type": "ordinal", "levels": ["low", "middle", "high"]},
        "town": {"type": "categorical", "levels": ["Aix", "Bonn", "Cork"], "missing": OWN_LEVEL},
        "member": {"type": "boolean"},
        "visits": {"type": "sparse", "high": 10},
        "comment": {"type": "ignored"},
        "hot": {"type": "boolean", "group": "weather"},
        "cold": {"type": "boolean", "group": "weather"},
    },
    "target": {"column": "paid", "type": "classes", "classes": ["no", "yes"]},
}
CELLS = {
    "age": [20.0, 150.0, None, 40.0],
    "grade": ["low", "high", "unheard of", "middle"],
    "town": ["Cork", None, "Atlantis", "Aix"],
    "member": [True, False, None, True],
    "visits": [0.0, 3.0, None, 99.0],
    "comment": ["x", "y", "z", None],
    "hot": [True, False, False, None],
    "cold": [False, True, False, None],
    "paid": ["yes", "no", "yes", "maybe"],
}
ENCODED = np.array(
    [
        # age, grade, Aix, Bonn, Cork, (missing), member, visits, hot, cold
        [-0.3, -0.5, 0, 0, 1, 0, 1, 0.0, 1, 0],
        [0.5, 0.5, 0, 0, 0, 1, 0, 0.3, 0, 1],
        [0.0, 0.0, 0, 0, 0, 0, 0, 0.0, 0, 0],  # a missing number, an unknown level of an order: the middle
        [-0.1, 0.0, 1, 0, 0, 0, 1, 1.0, 0, 0],
    ]
)
TABLES = {
    "arrow": lambda: pa.table(CELLS),
    "arrow dictionary": lambda: pa.table({**CELLS, "town": pa.array(CELLS["town"]).dictionary_encode()}),
    "pandas": lambda: pd.DataFrame(CELLS),
    "pandas nullable": lambda: pd.DataFrame(CELLS).convert_dtypes(),
    "polars": lambda: pl.DataFrame(CELLS),
    "text as in a CSV": lambda: pa.table({k: [None if v is None else str(v) for v in column] for k, column in CELLS.items()}),
}


@pytest.mark.parametrize("kind", TABLES)
def test_every_kind_of_table_encodes_to_the_same_rows(kind):
    schema = Schema.from_dict(SPEC)
    rows = schema.encoded(TABLES[kind]())
    assert (rows.toarray() if hasattr(rows, "toarray") else rows) == pytest.approx(ENCODED)


def test_sparse_storage_is_chosen_from_the_schema_and_changes_nothing():
    wide = {**SPEC, "columns": {**SPEC["columns"], "code": {"type": "categorical", "levels": list(range(60))}}}
    schema = Schema.from_dict(wide)
    table = pa.table({**CELLS, "code": [3, 59, None, 0]})
    rows = schema.encoded(table)
    assert hasattr(rows, "tocsr") and rows.nnz <= 4 * len(wide["columns"])
    dense = schema.encoding().transform(schema.features({c.name: np.array(table.column(c.name).to_pylist(), dtype=object)
                                                         for c in schema.columns if c.type != "ignored"}))  # fmt: skip
    assert rows.toarray() == pytest.approx(dense)
    assert rows.has_canonical_format


def test_one_hot_groups_of_booleans_count_once_in_the_norm():
    schema = Schema.from_dict(SPEC)
    encoding = schema.encoding()
    assert encoding.kinds[-2:] == ("categorical", "categorical") and encoding.groups[-1] == encoding.groups[-2] >= 0
    # two numeric (1/4 each), town, member, visits, weather
    assert encoding.norm == pytest.approx(math.sqrt(0.5 + 4))
    assert Schema.from_dict({**SPEC, "row_norm": 1.5}).encoding().x_norm == 1.5


def test_json_toml_and_python_say_the_same(tmp_path):
    (tmp_path / "s.json").write_text(json.dumps(SPEC))
    (tmp_path / "s.toml").write_text(
        'name = "people"\n[columns.age]\ntype = "numeric"\nlow = 0\nhigh = 100\n'
        '[target]\ncolumn = "paid"\ntype = "classes"\nclasses = ["no", "yes"]\n'
    )
    assert Schema.load(tmp_path / "s.json").spec() == Schema.from_dict(SPEC).spec()
    small = Schema.load(tmp_path / "s.toml")
    assert small.columns[0].high == 100 and small.target.classes == ("no", "yes")
    assert Schema.from_dict(Schema.from_dict(SPEC).spec()).spec() == Schema.from_dict(SPEC).spec()


def test_a_draft_holds_types_and_no_value(tmp_path):
    table = pa.table(CELLS)
    draft = Schema.from_table(table)
    text = json.dumps(draft)
    assert draft["columns"]["age"] == {"type": "numeric", "low": None, "high": None}
    assert draft["columns"]["member"] == {"type": "boolean"} and draft["columns"]["town"] == {"type": "categorical", "levels": []}
    assert not any(str(word) in text for word in ("Cork", "20.0", "150", "unheard"))
    with pytest.raises(ValueError, match="Fill in a bound"):
        Schema.from_dict({"columns": {"age": draft["columns"]["age"]}})
    for other in (pd.DataFrame(CELLS), pl.DataFrame(CELLS)):
        assert Schema.from_table(other)["columns"]["age"]["type"] == "numeric"


def test_levels_and_classes_may_be_numbers_of_numpy():
    """A list of the values in a column has them: they were refused as no numbers."""
    of_numpy = [np.int64(3), np.float32(0.5), np.bool_(True)]
    specs = [
        Schema.from_dict(
            {
                "columns": {"town": {"type": "categorical", "levels": levels}},
                "target": {"column": "y", "type": "classes", "classes": levels},
            }
        ).spec()
        for levels in (of_numpy, [3, 0.5, True])
    ]
    assert json.dumps(specs[0]) == json.dumps(specs[1])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"age": {"type": "numeric", "low": 5}}, "a number for high"),
        ({"age": {"type": "numeric", "low": 5, "high": 5}}, "low < high"),
        ({"age": {"type": "numeric", "low": 0, "high": True}}, "a number for high"),
        ({"age": {"type": "guess"}}, "Expected the type of column 'age'"),
        ({"age": {"type": "numeric", "low": 0, "high": 1, "top": 2}}, "top"),
        ({"town": {"type": "categorical", "levels": []}}, "different levels"),
        ({"town": {"type": "categorical", "levels": ["a", "a"]}}, "different levels"),
        ({"age": {"type": "numeric", "low": 0, "high": 1, "group": "g"}}, "group"),
        ({"age": {"type": "numeric", "low": 0, "high": 1, "bounds": "private"}}, "private"),
        ({"age": 3}, "description of column"),
        ({"town": {"type": "categorical", "levels": ["a", datetime.date(2020, 1, 1)]}}, "of type date. Write a date as text"),
        ({"town": {"type": "categorical", "levels": [np.datetime64(1, "ns"), "a"]}}, "of type datetime64"),
    ],
)
def test_mistakes_in_a_schema_are_named(change, words):
    with pytest.raises(ValueError, match=words):
        Schema.from_dict({"columns": change})


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "Expected a schema"),
        ({"columns": {"a": {"type": "ignored"}}}, "not ignored"),
        ({"columns": SPEC["columns"], "target": {"column": "paid", "type": "classes", "classes": ["no"]}}, "two classes"),
        ({"columns": SPEC["columns"], "target": {"column": "paid", "type": "numeric", "low": 1}}, "low < high"),
        ({"columns": SPEC["columns"], "target": "paid"}, "target"),
        ({"columns": SPEC["columns"], "row_norm": -1}, "row_norm"),
    ],
)
def test_mistakes_around_the_columns_are_named(spec, words):
    with pytest.raises(ValueError, match=words):
        Schema.from_dict(spec)


def test_a_bad_table_is_an_error_before_any_spend():
    schema = Schema.from_dict(SPEC)
    with pytest.raises(ValueError, match="'age'"):
        dperm.LinearSVC(1.0, schema=schema).fit(pa.table(CELLS).drop_columns(["age"]))
    with pytest.raises(ValueError, match="'paid'"):
        dperm.LinearSVC(1.0, schema=schema).fit(pa.table(CELLS).drop_columns(["paid"]))
    twice = pd.DataFrame(CELLS)
    twice.columns = ["age", *twice.columns[:-1]]
    with pytest.raises(ValueError, match="a name twice"):
        dperm.LinearSVC(1.0, schema=schema).fit(twice)


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_a_fit_on_a_table_keeps_names_and_units(kind):
    generator = np.random.default_rng(0)
    n = 3000
    cells = {"age": generator.uniform(20, 80, n), "town": generator.choice(["Aix", "Bonn"], n)}
    cells["income"] = 100 * cells["age"] + np.where(cells["town"] == "Bonn", 2000.0, 0.0)
    table = {"arrow": pa.table, "pandas": pd.DataFrame, "polars": pl.DataFrame}[kind](cells)
    age, town = {"type": "numeric", "low": 0, "high": 100}, {"type": "categorical", "levels": ["Aix", "Bonn"]}
    schema = {
        "columns": {"age": age, "town": town},
        "target": {"column": "income", "type": "numeric", "low": 0, "high": 12000},
    }
    model = dperm.LinearRegression(20.0, schema=schema, random_state=0).fit(table)
    assert model.get_feature_names_out().tolist() == ["age", "town=Aix", "town=Bonn"]
    assert model.coef_[0] == pytest.approx(100, rel=0.05)
    assert model.coef_[2] - model.coef_[1] == pytest.approx(2000, rel=0.1)
    assert model.score(table, cells["income"]) > 0.99


def test_schema_columns_with_private_bounds_are_paid_for_and_predict_from_tables():
    generator = np.random.default_rng(0)
    cells = {"age": generator.uniform(20, 80, 3000), "size": generator.uniform(0, 5000, 3000)}
    cells["income"] = 100 * cells["age"] + cells["size"]
    schema = {
        "columns": {"age": {"type": "numeric", "low": 0, "high": 100}, "size": {"type": "numeric", "bounds": "private"}},
        "target": {"column": "income", "type": "numeric", "low": 0, "high": 15000},
    }
    model = dperm.LinearRegression(3.0, schema=schema, random_state=0).fit(pa.table(cells))
    assert "octaves" in [stage.name for stage in model.plan_.stages]
    assert model.score(pa.table(cells), cells["income"]) > 0.9
    from dperm.estimators.model_file import model_from_record
    from dperm.estimators.saving import model_record

    again = model_from_record(json.loads(json.dumps(model_record(model))))
    assert again.predict(pa.table(cells)) == pytest.approx(model.predict(pa.table(cells)))


def test_cells_compare_as_declared():
    assert codes([1, 2.0, "2", "x", None, True], [1, 2]).tolist() == [0, 1, 1, -1, -1, 0]
    assert codes(np.array([1.0, 2.0, np.nan]), ["1", "2"]).tolist() == [0, 1, -1]
    assert codes(["True", True, False], [True, False]).tolist() == [0, 0, 1]
    assert codes(["01", "1.0", "1e0", "one"], ["1"]).tolist() == [0, 0, 0, -1]
    assert codes([["a"], "a"], ["a"]).tolist() == [-1, 0]
    assert nulls([None, "", float("nan"), "x", 0]).tolist() == [True, True, True, False, False]
    assert np.isnan(numbers(["1.5", "abc", None])).tolist() == [False, True, True]
    assert truth(["yes", "No", "T", "0", "1", "?"]).tolist()[:5] == [1, 0, 1, 0, 1]


def test_text_and_loops_agree_on_what_a_cell_is():
    """The vectorised path for text and the loop for mixed cells must give the same codes."""
    words = ["a", "7", "-3.50", "", None, "True", "nan", "b"]
    levels = ["a", 7, -3.5, True, "zzz"]
    slow = [codes([word, 1], levels)[0] for word in words]  # the extra number keeps the column mixed
    assert codes(words, levels).tolist() == slow


def test_with_target_moves_a_column():
    schema = Schema.from_dict({"columns": SPEC["columns"]}).with_target("member")
    assert schema.target.classes == (0, 1) and "member" not in [c.name for c in schema.columns]
    with pytest.raises(ValueError, match="declared columns"):
        schema.with_target("nobody")
