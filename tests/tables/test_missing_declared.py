"""What a missing cell counts as is declared: the certificate states it, the report shows it, and the model's file must agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dperm
from dperm.commands.agreeing import model_disagreements
from dperm.problem.arrays import dense
from dperm.tables.schema import Schema

N = 400
RNG = np.random.default_rng(0)
COLUMNS: dict[str, dict[str, Any]] = {
    "flag": {"type": "boolean", "missing": 1},
    "count": {"type": "sparse", "high": 5, "missing": 3},
    "town": {"type": "categorical", "levels": ["north", "south"], "missing": "south"},
    "left": {"type": "boolean", "group": "side", "missing": 1},
    "right": {"type": "boolean", "group": "side"},
    "far": {"type": "sparse", "high": 5, "missing": 99},
}
TARGET = {"column": "ill", "type": "classes", "classes": ["no", "yes"]}
CELLS: dict[str, list[object]] = {
    "flag": [True, False, None], "count": [0.0, 2.0, None], "town": ["north", "south", None], "left": [True, False, None],
    "right": [True, False, None], "far": [0.0, 5.0, None],
}  # fmt: skip
TABLE = pd.DataFrame({name: [cells[j % 3] for j in RNG.integers(0, 3, N)] for name, cells in CELLS.items()})
TABLE["ill"] = RNG.choice(["no", "yes"], N)


def fitted(columns: dict[str, Any]) -> dperm.LogisticRegression:
    return dperm.LogisticRegression(3.0, schema={"columns": columns, "target": TARGET}, random_state=0).fit(TABLE)


def stated(columns: dict[str, Any]) -> dict[str, str]:
    """What the certificate says that a missing cell counts as, by feature."""
    lines = fitted(columns).certificate_.record["declaration"][: len(Schema.from_dict({"columns": columns}).encoding().names)]
    return {line.partition(": ")[0]: line.rpartition("missing counts as ")[2] for line in lines}


def test_a_certificate_states_what_a_missing_flag_count_or_level_was_declared_to_be() -> None:
    said = {"flag": "1", "count": "3", "town=north": "0", "town=south": "1", "left": "1", "right": "0", "far": "5"}
    assert stated(COLUMNS) == said
    plain = {name: {key: value for key, value in entry.items() if key != "missing"} for name, entry in COLUMNS.items()}
    assert set(stated(plain).values()) == {"0"}


def test_cells_of_an_array_are_read_as_those_of_a_table() -> None:
    schema = Schema.from_dict({"columns": COLUMNS})
    encoding = schema.encoding()
    (row,) = encoding.transform(np.full((1, encoding.d), np.nan))
    empty = pd.DataFrame({name: pd.Series([None], dtype=object) for name in COLUMNS})
    assert np.array_equal(row, np.ravel(dense(schema.encoded(empty))))


def test_the_report_shows_the_level_that_a_missing_cell_counts_as(tmp_path: Path) -> None:
    lines = fitted(COLUMNS).report(tmp_path / "page.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]
    found = {row[0]: row[2] for row in rows if len(row) == 3}
    assert (found["flag"], found["count"], found["town"]) == ("1", "3", "south")


@pytest.mark.parametrize("name", ["flag", "count", "town", "left"])
def test_another_value_of_missing_cells_in_a_model_is_found(name: str, tmp_path: Path) -> None:
    model, file = fitted(COLUMNS), tmp_path / "model.json"
    record = json.loads(model.save(file).read_text())
    assert model_disagreements(file, model.certificate_) == []
    record["schema"]["columns"][name]["missing"] = "north" if name == "town" else 0
    file.write_text(json.dumps(record))
    assert any("encoding.missing" in reason for reason in model_disagreements(file, model.certificate_))
