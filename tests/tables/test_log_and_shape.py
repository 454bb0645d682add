"""Columns whose logarithm is the feature, and columns that an additive model keeps straight: public facts of the schema."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dperm

SCHEMA: dict[str, Any] = {
    "columns": {
        "price": {"type": "numeric", "low": 1, "high": 1000, "log": True},
        "size": {"type": "numeric", "low": 0, "high": 1, "shape": "linear"},
        "age": {"type": "numeric", "low": 0, "high": 1},
    },
    "target": {"column": "y", "type": "numeric", "low": -4, "high": 4},
}


def table(n: int = 6000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    price = np.exp(rng.uniform(0, np.log(1000), n))
    frame = pd.DataFrame({"price": price, "size": rng.uniform(0, 1, n), "age": rng.uniform(0, 1, n)})
    frame["y"] = np.clip(np.log(price) / 3 - 1 + frame["size"] + np.abs(frame["age"] - 0.5), -4, 4)
    return frame


def test_a_logarithm_is_read_cell_by_cell_and_named() -> None:
    schema = dperm.Schema.from_dict(SCHEMA)
    cells = {"price": [1, 1000, 0, -5, None, "ten", 1e9], "size": [0.5] * 7, "age": [0.5] * 7}
    encoded = np.asarray(schema.encoded(pd.DataFrame(cells)))[:, 0]
    assert np.allclose(encoded[:4], [-0.5, 0.5, -0.5, -0.5]) and np.allclose(encoded[4:], [0.0, 0.0, 0.5])
    assert schema.encoding().names[0] == "log(price)"
    assert dperm.Schema.from_dict(json.loads(json.dumps(schema.spec()))).spec() == schema.spec()
    alone = np.asarray(schema.encoded(pd.DataFrame({name: values[1:2] for name, values in cells.items()})))[0, 0]
    assert alone == encoded[1]


def test_ratios_are_learnt_on_the_log_scale_in_every_container() -> None:
    frame = table()
    straight = json.loads(json.dumps(SCHEMA))
    del straight["columns"]["price"]["log"]
    fits = [
        dperm.LinearRegression(3.0, schema=s, random_state=0).fit(frame).score(frame, frame["y"]) for s in (SCHEMA, straight)
    ]
    assert fits[0] > fits[1] + 0.1
    model = dperm.LinearRegression(3.0, schema=SCHEMA, random_state=0).fit(frame)
    other = dperm.LinearRegression(3.0, schema=SCHEMA, random_state=0).fit(pa.Table.from_pandas(frame))
    assert np.array_equal(model.w_, other.w_)


def test_a_straight_column_gets_no_curve() -> None:
    model = dperm.GAMRegressor(3.0, schema=SCHEMA, random_state=0).fit(table())
    assert list(model.shapes_) == ["log(price)", "age"]
    assert model.certificate_.record["mechanism"]["options"]["curved"] == [0, 2]
    assert model.certificate_.verify(allow_seeded=True).ok


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"type": "numeric", "low": 0, "high": 9, "log": True}, "0 < low"),
        ({"type": "sparse", "high": 9, "log": True}, "0 < low"),
        ({"type": "numeric", "low": 1, "high": 9, "log": "yes"}, "true or false"),
        ({"type": "numeric", "low": 1, "high": 9, "bins": 3, "log": True}, "no bins"),
        ({"type": "numeric", "low": 1, "high": 9, "shape": "wavy"}, "shape"),
        ({"type": "boolean", "shape": "linear"}, "shape"),
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(entry: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        dperm.Schema.from_dict({"columns": {"a": entry}})


# -- smooth columns and steps ------------------------------------------------------------------------------------------------

SHAPED: dict[str, Any] = {
    "columns": {
        "age": {"type": "numeric", "low": 0, "high": 8, "shape": "smooth"},
        "price": {"type": "numeric", "low": 1, "high": 256, "log": True, "shape": "smooth", "missing": 16},
        "size": {"type": "numeric", "low": 0, "high": 32, "shape": "steps", "missing": "its own level"},
        "cost": {"type": "numeric", "low": 1, "high": 65536, "log": True, "shape": "steps"},
    },
    "target": {"column": "y", "type": "numeric", "low": -4, "high": 4},
}


def shaped(n: int = 8000) -> pd.DataFrame:
    """Curves that a line cannot follow, one in five ages missing."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"age": rng.uniform(0, 8, n), "size": rng.uniform(0, 32, n)})
    frame["price"], frame["cost"] = np.exp(rng.uniform(0, np.log(256), n)), np.exp(rng.uniform(0, np.log(65536), n))
    score = np.abs(frame["age"] - 4) - 2 + (frame["size"] > 20) + np.cos(np.log(frame["price"])) - (np.log(frame["cost"]) < 4)
    frame["y"] = np.clip(score, -4, 4)
    frame.loc[::5, "age"] = np.nan
    return frame


def encoded(cells: dict[str, list[Any]]) -> np.ndarray:
    found = dperm.Schema.from_dict(SHAPED).encoded(pd.DataFrame(cells))
    return np.asarray(found.toarray() if hasattr(found, "toarray") else found)


def test_hats_and_steps_are_read_cell_by_cell_between_the_declared_bounds() -> None:
    """9 hats that add up to 1 beside the number, 16 bins of equal width (of the logarithm); each cell alone, missing ones too."""
    schema = dperm.Schema.from_dict(SHAPED)
    names = list(schema.encoding().names)
    assert names[:3] == ["age", "smooth(age)=0", "smooth(age)=1"]
    assert names[10:13] == ["log(price)", "smooth(price)=1", "smooth(price)=2"]
    assert names.index("bins(size)=[0, 2)") == 20 and "bins(size)=(missing)" in names and "bins(cost)=[1, 2)" in names
    cells = {
        "age": [2.25, -7, None, "old", 99],
        "price": [1, 16, None, 0, 1e9],
        "size": [0, 31.9, None, "x", 2],
        "cost": [1, 3, None, 4, 9e9],
    }
    rows = encoded(cells)
    age, price = rows[:, 1:10], rows[:, 11:20]
    assert age[0].tolist() == [0, 0, 0.75, 0.25, 0, 0, 0, 0, 0]
    np.testing.assert_allclose(age.sum(axis=1), [1, 1, 0, 0, 1])  # a missing age has no hat; beyond the bounds is at the bound
    assert age[1, 0] == 1 and age[4, 8] == 1
    np.testing.assert_allclose(price @ np.arange(9), [0, 4, 4, 0, 8], atol=1e-12)  # a missing price is 16 by declaration
    size, cost = rows[:, 20:37], rows[:, 37:]
    assert size.argmax(axis=1).tolist() == [0, 15, 16, 16, 1] and cost.argmax(axis=1)[[0, 1, 3, 4]].tolist() == [0, 1, 2, 15]
    assert not cost[2].any() and np.all(rows**2 @ np.ones(rows.shape[1]) <= schema.encoding().norm ** 2 + 1e-12)
    for place in range(5):  # alone as in company
        alone = encoded({name: values[place : place + 1] for name, values in cells.items()})
        np.testing.assert_array_equal(alone[0], rows[place])
    assert dperm.Schema.from_dict(json.loads(json.dumps(schema.spec()))).spec() == schema.spec()


@pytest.mark.parametrize("rule", ["mean", "middle", "indicator"])
def test_a_missing_cell_of_a_smooth_column_follows_its_rule(rule: str) -> None:
    spec = {"columns": {"a": {"type": "numeric", "low": 1, "high": 16, "log": True, "shape": "smooth", "missing": rule}}}
    schema = dperm.Schema.from_dict(spec)
    row = np.asarray(schema.features({"a": [None, 4.0]}))
    hats = row[:, -9:]
    np.testing.assert_allclose(hats[1], np.eye(9)[4], atol=1e-12)  # 4 is the middle of the logarithms
    np.testing.assert_allclose(hats[0], np.eye(9)[4] if rule == "middle" else 0.0, atol=1e-12)
    assert ("log(a)=(missing)" in schema.encoding().names) == (rule == "indicator")


@pytest.mark.parametrize("model", [dperm.LinearRegression, dperm.Ridge, dperm.HuberRegressor, dperm.QuantileRegressor])
def test_every_linear_model_draws_curves_that_a_schema_declares(model: Any) -> None:
    frame = shaped()
    straight = json.loads(json.dumps(SHAPED))
    for entry in straight["columns"].values():
        entry["shape"] = "linear"
        entry.pop("missing", None)
    line = model(6.0, schema=straight, relation="zero-out", random_state=0).fit(frame)
    curves = model(6.0, schema=SHAPED, relation="zero-out", random_state=0).fit(frame)
    rest = frame.dropna()
    assert curves.score(rest) > 0.75 > 0.35 > line.score(rest)
    assert curves.certificate_.verify(allow_seeded=True).ok


def test_containers_saved_models_and_other_targets_read_shapes_alike(tmp_path: Any) -> None:
    frame = shaped(3000)
    options: dict[str, Any] = {"relation": "zero-out", "random_state": 0}
    model = dperm.LinearRegression(6.0, schema=SHAPED, **options).fit(frame)
    arrow = dperm.LinearRegression(6.0, schema=SHAPED, **options).fit(pa.Table.from_pandas(frame))
    assert np.array_equal(model.w_, arrow.w_)
    frame.to_parquet(tmp_path / "d.parquet")
    rows = dperm.rows.ArrowRows(tmp_path / "d.parquet", dperm.Schema.from_dict(SHAPED))
    np.testing.assert_allclose(dperm.LinearRegression(6.0, **options).fit(rows).w_, model.w_, atol=1e-9)
    again = dperm.load(model.save(tmp_path / "model.json"))
    assert np.array_equal(again.predict(frame), model.predict(frame))
    classes = SHAPED | {"target": {"column": "y", "type": "classes", "classes": ["no", "yes"]}}
    sides = frame.assign(y=np.where(frame["y"] > 0, "yes", "no"))
    for kind in (dperm.LogisticRegression, dperm.LinearSVC):
        fitted = kind(6.0, schema=classes, **options).fit(sides)
        assert fitted.score(sides) > 0.7 and fitted.certificate_.verify(allow_seeded=True).ok
    counts = SHAPED | {"target": {"column": "y", "type": "count", "high": 40}}
    many = frame.assign(y=np.random.default_rng(0).poisson(np.exp(1 + frame["y"] / 2)))
    counted = dperm.PoissonRegressor(6.0, schema=counts, **options).fit(many)
    assert counted.certificate_.verify(allow_seeded=True).ok


def test_in_an_additive_model_smooth_is_a_paid_curve_and_steps_are_bins(tmp_path: Any) -> None:
    frame = shaped()
    model = dperm.GAMRegressor(6.0, schema=SHAPED, relation="zero-out", random_state=0).fit(frame)
    assert list(model.shapes_) == ["age", "log(price)"] and not any("smooth" in name for name in model.get_feature_names_out())
    assert sum(name.startswith("bins(") for name in model.get_feature_names_out()) == 33
    assert model.score(frame.dropna()) > 0.8 and model.certificate_.verify(allow_seeded=True).ok
    again = dperm.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    frame.to_parquet(tmp_path / "d.parquet")
    rows = dperm.rows.ArrowRows(tmp_path / "d.parquet", dperm.Schema.from_dict(SHAPED))
    with pytest.raises(ValueError, match='"shape": "auto" for the curves'):
        dperm.GAMRegressor(6.0).fit(rows)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"type": "numeric", "bounds": "private", "shape": "smooth"}, "low and high"),
        ({"type": "numeric", "bounds": "private", "shape": "steps"}, "low and high"),
        ({"type": "ordinal", "levels": ["a", "b"], "shape": "smooth"}, "low and high"),
        ({"type": "sparse", "high": 3, "shape": "steps"}, "numeric or ordinal"),
        ({"type": "numeric", "low": 0, "high": 1, "shape": "smooth", "bins": 4}, "no bins"),
        ({"type": "numeric", "low": 0, "high": 1, "shape": "steps", "missing": 3}, "its own level"),
    ],
)
def test_shapes_that_cannot_be_drawn_are_refused(entry: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        dperm.Schema.from_dict({"columns": {"a": entry}})


def test_a_curve_takes_part_in_no_product_and_has_no_intervals() -> None:
    with pytest.raises(ValueError, match="found the curve"):
        dperm.Schema.from_dict(SHAPED | {"interactions": [["smooth(age)", "bins(size)"]]}).encoding()
    schema = dperm.Schema.from_dict(SHAPED | {"interactions": [["age", "bins(size)"]]})
    assert "age × bins(size)=[0, 2)" in schema.encoding().names
    with pytest.raises(ValueError, match='no "shape": "smooth" with intervals'):
        dperm.LinearRegression(6.0, schema=SHAPED, intervals=True).fit(shaped(200))
