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
