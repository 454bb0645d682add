"""What the command line fills in by itself: ledger files, names of theorems and models, relations, options after the command."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from dperm.cli import app

RUN = CliRunner().invoke


def answer(*words: str, **environment: str) -> dict:
    found = RUN(app, [*words, "--json"], env=environment)
    assert found.exit_code == 0, (words, found.output, found.exception)
    return json.loads(found.stdout)


def refusal(*words: str, **environment: str) -> str:
    found = RUN(app, list(words), env=environment)
    assert isinstance(found.exception, ValueError), (words, found.output)
    return str(found.exception)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a table of classes and numbers, and a schema for each target."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPERM_LEDGER", raising=False)
    draws = np.random.default_rng(3).uniform(-1, 1, (200, 2))
    rows = [f"{a:.3f},{a + b:.3f},{'yes' if a + b > 0 else 'no'},{int(a + b > 0)}" for a, b in draws]
    (tmp_path / "people.csv").write_text("a,v,y,k\n" + "\n".join(rows) + "\n")
    targets = {
        "words": {"column": "y", "type": "classes", "classes": ["no", "yes"]},
        "whole": {"column": "k", "type": "classes", "classes": [0, 1]},
        "number": {"column": "v", "type": "numeric", "low": -2, "high": 2},
    }
    for name, target in targets.items():
        columns = {"a": {"type": "numeric", "low": -1, "high": 1}}
        (tmp_path / f"{name}.json").write_text(json.dumps({"columns": columns, "target": target}))
    return tmp_path


BUDGET = ("--dataset", "people", "--epsilon", "3", "--delta", "1e-6")


def test_the_ledger_file_may_be_left_out(folder):
    assert "found no *.ledger file" in refusal("ledger", "show")
    assert answer("ledger", "create", *BUDGET)["file"] == "people.ledger" and (folder / "people.ledger").is_file()
    assert answer("ledger", "show")["dataset"] == "people" and answer("ledger", "verify")["ok"]
    assert len(answer("ledger", "export")["entries"]) == 1
    assert answer("ledger", "admit", "people.csv") == {"admitted": "people.csv"}
    assert "never overwritten" in refusal("ledger", "create", *BUDGET)
    assert answer("ledger", "create", "b.ledger", *BUDGET)["file"] == "b.ledger"
    for command in (["show"], ["verify"], ["export"], ["admit", "people.csv"]):
        assert "found 2: b.ledger, people.ledger. Pass it" in refusal("ledger", *command)


def test_a_name_that_is_no_file_name_needs_a_file(folder):
    for name in ("../people", "a/b", "", ".hidden"):
        words = ("ledger", "create", "--dataset", name, "--epsilon", "3", "--delta", "1e-6")
        assert "Pass one before --dataset" in refusal(*words)
    assert list(folder.rglob("*.ledger")) == []


def test_the_environment_names_the_ledger_of_every_command_that_uses_one(folder):
    answer("ledger", "create", "x.ledger", *BUDGET)
    (folder / "y.ledger").write_bytes((folder / "x.ledger").read_bytes())
    assert answer("ledger", "show", DPERM_LEDGER="x.ledger")["fits"] == 0
    fit = ("fit", "people.csv", "--schema", "words.json", "--method", "gradient", "--epsilon", "1")
    answer(*fit, DPERM_LEDGER="x.ledger")
    assert answer("ledger", "show", "x.ledger")["fits"] == 1 and answer("ledger", "show", "y.ledger")["fits"] == 0
    evaluate = ("evaluate", "dperm-model/model.json", "people.csv", "--epsilon", "1")
    answer(*evaluate, DPERM_LEDGER="x.ledger")
    assert answer("ledger", "show", DPERM_LEDGER="x.ledger")["fits"] == 2
    assert "left" in refusal("plan", "--n", "200", "--d", "1", "--epsilon", "3", DPERM_LEDGER="x.ledger")
