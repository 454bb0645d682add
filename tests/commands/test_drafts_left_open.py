"""A draft that was not filled in: what is empty is found where that is asked for, and otherwise said to be empty."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dperm
from command_line import run
from dperm.tables.drafts import is_empty

PRIVATE = ["--bounds", "private", "--levels", "private"]
EMPTY = {"type": "numeric", "low": None, "high": None}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    draws, lines = np.random.default_rng(7), ["joined,age,branch,left"]
    for _ in range(3000):
        age = draws.integers(18, 85)
        left = "yes" if draws.random() < 0.2 + 0.008 * (age - 18) else "no"
        lines.append(f"2020-{draws.integers(1, 13):02d}-01,{age},{draws.choice(['north', 'south'])},{left}")
    (tmp_path / "members.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def drafted(*words: str, **changed: object) -> dict[str, Any]:
    """The draft that the command writes, with some columns filled in."""
    assert run("schema", "members.csv", "--out", "s.json", *words)[0] == 0
    found = json.loads(Path("s.json").read_text())
    found["columns"] |= changed
    Path("s.json").write_text(json.dumps(found))
    return found


def fit(*words: str) -> tuple[int, str]:
    return run("fit", "members.csv", "--schema", "s.json", "--epsilon", "2", "--out", "o", *words)


def test_what_a_draft_leaves_empty_is_found(folder: Path) -> None:
    draft = drafted("--target", "left", joined={"type": "datetime", "parts": ["month"]})
    assert draft["target"] == {"column": "left", "type": None} and "left" not in draft["columns"]
    code, said = fit()
    assert code == 2 and "found none yet" in said and not (folder / "o").exists()
    code, said = fit(*PRIVATE)
    assert code == 0 and "bounds " in said
    found = json.loads((folder / "o" / "schema.json").read_text())
    assert found["columns"]["joined"] == {"type": "datetime", "parts": ["month"]}
    assert found["columns"]["age"]["type"] == "numeric" and found["columns"]["branch"]["levels"] == ["north", "south"]
    assert found["target"] == {"column": "left", "type": "classes", "classes": ["no", "yes"]}
    assert run("verify", "o")[0] == 0


def test_what_a_schema_declares_is_not_looked_for(folder: Path) -> None:
    """Only the levels of one column are open: nothing else is asked of the profile, and bounds in the fit's own way."""
    age, branch = {"type": "numeric", "low": 18, "high": 85}, {"type": "categorical", "levels": []}
    draft = drafted(age=age, branch=branch, joined={"type": "ignored"}, left={"type": "boolean"})
    draft["target"] = {"column": "left", "type": "classes", "classes": ["no", "yes"]}
    del draft["columns"]["left"]
    Path("s.json").write_text(json.dumps(draft))
    assert fit("--levels", "private")[0] == 0
    asked = json.loads((folder / "o" / "profile.json").read_text())["question"]["columns"]
    assert {column["name"]: column["levels"] for column in asked} == {"age": None, "branch": None, "left": ["no", "yes"]}
    draft["columns"] |= {"age": EMPTY, "branch": {"type": "categorical", "levels": ["north", "south"]}}
    Path("s.json").write_text(json.dumps(draft))
    code, said = fit("--bounds", "private", "--overwrite")
    assert code == 0 and "bounds " in said and "budget" not in said


@pytest.mark.parametrize("target", [{"classes": "private"}, {"type": "classes", "classes": "private"}])
def test_classes_may_be_private_in_a_file(folder: Path, target: dict[str, str]) -> None:
    age = {"type": "numeric", "low": 18, "high": 85}
    spec = {"columns": {"age": age}, "target": {"column": "left", **target}}
    Path("s.json").write_text(json.dumps(spec))
    assert fit()[0] == 0
    assert json.loads((folder / "o" / "schema.json").read_text())["target"]["classes"] == ["no", "yes"]
    assert run("profile", "members.csv", "--schema", "s.json", "--epsilon", "1", "--out", "p")[0] == 0
    with pytest.raises(ValueError, match=r"name it to `dperm\.profile"):
        dperm.Schema.from_dict(spec)


def test_a_target_that_is_empty_among_the_columns_is_said_to_belong_elsewhere(folder: Path) -> None:
    drafted("--types", "age=ignored, joined=ignored, branch=ignored, left=categorical")
    code, said = fit("--target", "left")
    assert code == 2 and 'Move it from "columns" to "target": {"column": "left"' in said and not (folder / "o").exists()


@pytest.mark.parametrize(
    ("types", "target"),
    [
        ("left=categorical", {"type": "classes", "classes": []}),
        ("left=boolean", {"type": "classes", "classes": [0, 1]}),
        ("left=numeric", {"type": "numeric", "low": None, "high": None}),
    ],
)
def test_a_draft_knows_its_target(folder: Path, types: str, target: dict[str, object]) -> None:
    assert drafted("--target", "left", "--types", types)["target"] == {"column": "left", **target}
    code, said = run("schema", "members.csv", "--target", "lef")
    assert code == 2 and "Did you mean 'left'?" in said


def test_a_column_whose_type_is_private_is_refused_by_a_fit_in_python() -> None:
    schema = dperm.Schema.from_dict({"columns": {"age": {"type": "private"}}})
    with pytest.raises(ValueError, match="Expected the type of column 'age', found \"private\""):
        schema.encoding()
    full = [{"type": "boolean"}, {"type": "numeric", "low": 0, "high": 1}, {"type": "categorical", "hash": 8}, "numeric"]
    assert not any(map(is_empty, full)) and all(map(is_empty, [EMPTY, {"type": None}, {"type": "classes", "classes": "private"}]))


@pytest.mark.parametrize("more", [["--method", "gradient"], []])
def test_bounds_that_the_profile_finds_are_known_to_the_fit_after_it(folder: Path, more: list[str]) -> None:
    """Methods and norms that need declared bounds were refused, although the profile before the fit finds them."""
    draft = drafted(joined={"type": "ignored"}, age={"type": "numeric", "bounds": "private"})
    draft["columns"]["branch"] = {"type": "categorical", "levels": "private"}
    draft |= {"target": {"column": "left", "type": "classes", "classes": ["no", "yes"]}} | ({} if more else {"row_norm": 100})
    draft["columns"].pop("left")
    Path("s.json").write_text(json.dumps(draft))
    code, said = fit(*more)
    assert code == 0, said
    assert run("verify", "o")[0] == 0


def test_a_profile_that_finds_no_column_is_kept_and_its_cost_is_said(folder: Path) -> None:
    """With hardly any budget nothing stands out: the profile was debited, thrown away, and the error did not speak of it."""
    ledger = dperm.Ledger.create(folder / "l", dataset="members", epsilon=1.0, delta=1e-5)
    words = ("fit", "members.csv", "--target", "left", "--epsilon", "0.001", "--out", "o", "--random-state", "0", "--ledger", "l")
    code, said = run(*words, *PRIVATE)
    assert code == 2 and "not ignored, found none" in said and ledger.account().fits == 1
    assert "is paid for (epsilon 0.000" in said and "profile.json" in said
    assert run("verify", "o/profile.json", "--allow-seeded")[0] == 0 and not (folder / "o" / "schema.json").exists()
