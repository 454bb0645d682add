"""The command line: exit codes, JSON, quiet, colours, configuration, completion, help, and the ledger from the shell."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import numpy as np
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from dperm.cli import app
from dperm.commands import COMMANDS
from dperm.commands.shared import row_count
from dperm.estimators import outlook as advice
from dperm.release.ledger.book import BudgetExceeded, Ledger

RUN = CliRunner().invoke


def shell(*words: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", "from dperm.cli import main; main()", *words],
        capture_output=True, text=True, timeout=120, env={**os.environ, **environment},
    )  # fmt: skip


@pytest.fixture
def people(tmp_path):
    """A small table, its schema, and the words of a fit."""
    rng = np.random.default_rng(3)
    rows = [f"{a:.3f},{'yes' if a + b > 0 else 'no'}" for a, b in rng.uniform(-1, 1, (300, 2))]
    (tmp_path / "people.csv").write_text("a,y\n" + "\n".join(rows) + "\n")
    schema = {
        "columns": {"a": {"type": "numeric", "low": -1, "high": 1}},
        "target": {"column": "y", "type": "classes", "classes": ["no", "yes"]},
    }
    (tmp_path / "people.json").write_text(json.dumps(schema))
    words = ["fit", str(tmp_path / "people.csv"), "--schema", str(tmp_path / "people.json"), "--method", "gradient"]
    return tmp_path, [*words, "--out", str(tmp_path / "model"), "--overwrite"]


def test_every_command_has_help_with_an_example():
    def walk(words: list[str], thing) -> None:
        if hasattr(thing, "registered_commands"):
            for command in thing.registered_commands:
                walk([*words, command.name or command.callback.__name__], command.callback)
            return
        found = RUN(app, [*words, "--help"])
        assert found.exit_code == 0 and re.search(r"Examples?: dperm", re.sub(r"\s+", " ", found.output)), words

    for name, thing in COMMANDS.items():
        walk([name], thing)


def test_version_names_commit_and_dependencies():
    lines = RUN(app, ["--version"]).output.splitlines()
    assert re.fullmatch(r"dperm \d+\.\d+\.\d+ \(commit [0-9a-f]{12}\)|dperm .* \(commit unknown\)", lines[0])
    assert any(line.startswith("numpy ") for line in lines) and any(line.startswith("dp-accounting ") for line in lines)


def test_exit_codes_and_messages():
    wrong = shell("plan", "--n", "100", "--epsilon", "1")
    assert wrong.returncode == 2 and wrong.stderr.startswith("dperm: Expected --d") and wrong.stdout == ""
    assert shell("no-such-command").returncode == 2
    missing = shell("verify", "absent.json")
    assert missing.returncode == 2 and "Traceback" not in missing.stderr


def test_wrong_usage_is_a_sentence_with_exit_code_2(people):
    _, words = people
    for asked, message in (
        ([*words, "--epsilon", "one"], "dperm: Expected a number such as 1 or 0.5 for --epsilon, found 'one'. See `dperm fit -"),
        (["plan", "--n=2.5", "--d", "3", "--epsilon", "1"], "dperm: Expected a whole number such as 10000 for --n, found '2.5'."),
        (words, "dperm: Expected --epsilon, found none."),
        (["fti"], "Did you mean 'fit'? See `dperm --help`."),
        (["fit", "--modle", "svm"], "--modle"),
    ):
        found = shell(*asked)
        assert found.returncode == 2 and message in found.stderr and len(found.stderr.splitlines()) == 1, found.stderr
    found = shell(*words, DPERM_FIT_EPSILON="much")
    assert found.returncode == 2 and "in the environment or the configuration" in found.stderr
    assert shell("fit", "--help").returncode == 0 and "Usage" in shell().stdout + shell().stderr


def test_no_colour_codes_without_a_terminal_or_with_no_color():
    for environment in ({"NO_COLOR": "1"}, {"NO_COLOR": "1", "FORCE_COLOR": "", "TERM": "xterm-256color"}):
        assert "\x1b[3" not in shell("plan", "--help", **environment).stdout


def test_completion_is_offered_for_bash():
    words = {"_DPERM_COMPLETE": "complete_bash", "COMP_WORDS": "dperm led", "COMP_CWORD": "1"}
    assert "ledger" in shell(**words).stdout


def test_quiet_prints_nothing_and_json_still_does(people):
    _, words = people
    quiet = RUN(app, ["--quiet", *words, "--epsilon", "1"])
    assert quiet.exit_code == 0 and quiet.output == ""
    found = RUN(app, ["--quiet", *words, "--epsilon", "1", "--json"])
    assert json.loads(found.output)["epsilon"] == 1.0


def test_json_everywhere(people):
    folder, words = people
    assert RUN(app, [*words, "--epsilon", "2", "--json"]).exit_code == 0
    model, data = str(folder / "model" / "model.json"), str(folder / "people.csv")
    certificate = str(folder / "model" / "certificate.json")
    ledger = str(folder / "l.ledger")
    for command in (
        ["predict", model, data, "--json"],
        ["predict", model, data, "--probabilities", "--json"],
        ["verify", certificate, "--json"],
        ["report", certificate, "--out", str(folder / "r.md"), "--json"],
        ["evaluate", model, data, "--epsilon", "1", "--json"],
        ["theory", "--json"],
        ["theory", "privacy-is-free", "alpha=0.1", "--json"],
        ["schema", data],
        ["plan", "--n", "1000", "--schema", str(folder / "people.json"), "--epsilon", "1", "--method", "gradient", "--json"],
        ["ledger", "create", ledger, "--dataset", "people", "--epsilon", "3", "--delta", "1e-6", "--json"],
        ["ledger", "show", ledger, "--json"],
        ["ledger", "admit", ledger, data, "--json"],
        ["ledger", "verify", ledger, "--json"],
        ["ledger", "export", ledger],
    ):
        found = RUN(app, command)
        assert found.exit_code == 0, (command, found.output)
        assert isinstance(json.loads(found.output), dict), command


def test_every_command_offers_json():
    def walk(words, command) -> None:
        for name, inner in getattr(command, "commands", {}).items():
            walk([*words, name], inner)
        if not getattr(command, "commands", None):
            assert "--json" in [option for p in command.params for option in p.opts], words

    walk([], get_command(app))


def test_files_that_are_written_are_named_as_json(people):
    folder, _ = people
    draft = RUN(app, ["schema", str(folder / "people.csv"), "--out", str(folder / "d.json"), "--json"])
    assert json.loads(draft.output) == {"draft": str(folder / "d.json")}
    assert set(json.loads(RUN(app, ["schema", str(folder / "people.csv"), "--json"]).output)) == {"name", "columns", "target"}
    Ledger.create(folder / "l", dataset="x", epsilon=1.0, delta=1e-6)
    export = RUN(app, ["ledger", "export", str(folder / "l"), "--out", str(folder / "e.json"), "--json"])
    assert json.loads(export.output) == {"export": str(folder / "e.json")}
    assert len(json.loads(RUN(app, ["ledger", "export", str(folder / "l"), "--json"]).output)["entries"]) == 1


def test_configuration_by_file_and_environment(people, monkeypatch):
    folder, words = people
    monkeypatch.chdir(folder)
    (folder / "dperm.toml").write_text('[fit]\nepsilon = 1.5\nrelation = "zero-out"\n')
    found = json.loads(RUN(app, [*words, "--json"]).stdout)
    assert found["epsilon"] == 1.5 and found["relation"] == "zero-out"
    monkeypatch.setenv("DPERM_FIT_EPSILON", "0.7")
    assert json.loads(RUN(app, [*words, "--json"]).stdout)["epsilon"] == 0.7
    assert json.loads(RUN(app, [*words, "--json", "--epsilon", "0.9"]).stdout)["epsilon"] == 0.9
    for text, words_of in (("[fit]\nepsilonn = 1", "epsilonn"), ("[fitt]\nx = 1", "fitt"), ("not toml", "TOML")):
        (folder / "dperm.toml").write_text(text)
        with pytest.raises(ValueError, match=words_of):
            RUN(app, [*words, "--json"], catch_exceptions=False)


def test_a_ledger_from_the_shell(people):
    folder, words = people
    ledger = str(folder / "people.ledger")
    made = RUN(app, ["ledger", "create", ledger, "--dataset", "people", "--epsilon", "2", "--delta", "1e-6"])
    assert made.exit_code == 0 and "people" in made.output
    assert RUN(app, [*words, "--epsilon", "1.5", "--ledger", ledger]).exit_code == 0
    shown = json.loads(RUN(app, ["ledger", "show", ledger, "--json"]).output)
    assert shown["fits"] == 1 and 0 < shown["left_epsilon"] < 1.5
    # Over budget: refused before the file is opened as a table, so even a broken file makes no difference.
    (folder / "people.csv").write_bytes(b"a,y\n" + b"\xff\xfe\n" * 300)
    refused = shell(*words, "--epsilon", "1.9", "--ledger", ledger)
    assert refused.returncode == 2 and "left is about epsilon=" in refused.stderr and "does not read" not in refused.stderr
    certificate = str(folder / "model" / "certificate.json")
    assert RUN(app, ["ledger", "verify", ledger, "--certificate", certificate]).exit_code == 0
    exported = json.loads(RUN(app, ["ledger", "export", ledger]).output)
    assert len(exported["entries"]) == 2 and "secret" not in json.dumps(exported)


@pytest.mark.parametrize("names", [("a.csv",), ("a.csv", "b/c.csv"), ("a.PARQUET",), ("a.parquet", "b.pq"), ("a.feather",)])
def test_the_rows_of_every_file_are_counted_for_the_ledger(tmp_path, names):
    table = pyarrow.table({"a": [1.0, 2.0, 3.0], "y": ["no", "yes", "no"]})
    folder = tmp_path / "people"
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        kind = (folder / name).suffix.lower()
        write = {".csv": pyarrow.csv.write_csv, ".feather": pyarrow.feather.write_feather}.get(kind, pyarrow.parquet.write_table)
        write(table, folder / name)
    assert row_count(folder) == 3 * len(names)
    assert row_count(folder / names[0]) == 3
    header = tmp_path / "header.csv"
    header.write_text("a,y\n")
    assert row_count(header) == 1


@pytest.mark.parametrize(
    ("delta", "rule", "words"),
    [
        ("1e-6", "auto", ["for one fit that takes all; about epsilon 1.97", "5e-08 of the 5e-08", "compose as Gaussians"]),
        ("1e-6", "gaussian", ["about epsilon 2 for one more Gaussian fit", "takes Gaussian fits only"]),
        ("0", "auto", ["about epsilon 2 for one more pure fit", "only pure fits", "epsilons add up"]),
    ],
)
def test_create_and_show_say_the_same_in_words(tmp_path, delta, rule, words):
    ledger = str(tmp_path / "people.ledger")
    made = RUN(app, ["ledger", "create", ledger, "--dataset", "people", "--epsilon", "2", "--delta", delta, "--filter", rule])
    shown = RUN(app, ["ledger", "show", ledger]).output
    assert made.output.startswith(shown) and "_" not in shown
    assert all(word in shown for word in words), shown


def test_the_empty_ledger_takes_what_it_says(tmp_path):
    """ε whole for one fit alone; the smaller number for one that another may follow."""
    ledger = Ledger.create(tmp_path / "l", dataset="people", epsilon=2.0, delta=1e-6)

    def planned(epsilon):
        return advice.declared("LinearSVC", 5000, 4, epsilon=epsilon, delta=1e-6, relation="replace-one").plan()

    assert ledger.account().left_epsilon < 1.98
    ledger.check(planned(2.0))
    ledger.debit(planned(1.97))
    assert ledger.account().left_epsilon > 0


def test_another_file_is_not_debited(people):
    folder, words = people
    ledger = str(folder / "people.ledger")
    RUN(app, ["ledger", "create", ledger, "--dataset", "people", "--epsilon", "2", "--delta", "1e-6", "--data", words[1]])
    (folder / "other.csv").write_text((folder / "people.csv").read_text() + "0.5,yes\n")
    refused = shell(words[0], str(folder / "other.csv"), *words[2:], "--epsilon", "0.5", "--ledger", ledger)
    assert refused.returncode == 2 and "found other content" in refused.stderr
    assert json.loads(RUN(app, ["ledger", "show", ledger, "--json"]).output)["fits"] == 0


def test_a_theorem_is_drawn(tmp_path):
    words = ["theory", "gradient-descent", "n=1000", "d=5", "lipschitz=1", "diameter=1", "epsilon=1", "delta=1e-6"]
    found = RUN(app, [*words, "--plot", str(tmp_path / "g.svg"), "--json"])
    assert found.exit_code == 0 and (tmp_path / "g.svg").read_text().startswith("<?xml")


SPENDING = ("demo", "evaluate", "fit", "plan", "profile")  # plan spends nothing, but says whether there is room


def test_every_command_that_spends_takes_a_ledger():
    """The others read released files or public numbers: a new command has to choose its side here."""
    free = {"audit", "bench", "card", "explore", "ledger", "predict", "registry", "report", "schema", "theory", "verify"}
    assert set(SPENDING) | free == set(COMMANDS)
    for name in SPENDING:
        assert "--ledger" in [option for p in get_command(app).commands[name].params for option in p.opts], name


@pytest.mark.parametrize("name", SPENDING)
def test_a_command_debits_or_respects_its_ledger(people, name):
    folder, words = people
    model, ledger = folder / "model", str(folder / "l")
    if name == "evaluate":
        assert RUN(app, [*words, "--epsilon", "1"]).exit_code == 0
    asked = {
        "demo": ["demo", "--out", str(folder / "demo")],
        "evaluate": ["evaluate", str(model / "model.json"), str(folder / "people.csv")],
        "fit": words,
        "plan": ["plan", "--schema", str(folder / "people.json"), "--n", "300"],
        "profile": ["profile", str(folder / "people.csv"), "--out", str(folder / "profile"), "--overwrite"],
    }[name]
    Ledger.create(ledger, dataset="people", epsilon=2.0, delta=1e-6)
    done = RUN(app, [*asked, "--epsilon", "1", "--ledger", ledger, "--json"])
    assert done.exit_code == 0, done.output
    assert Ledger(ledger).account().fits == (0 if name == "plan" else 1) and Ledger(ledger).verify() == []
    if name == "plan":
        left = "about epsilon 1.97 is left and 1 is asked. Nothing was spent"
        in_words = RUN(app, [*asked, "--epsilon", "1", "--ledger", ledger]).output
        assert left in json.loads(done.output)["ledger"] and left in in_words
    refused = RUN(app, [*asked, "--epsilon", "5", "--ledger", ledger])
    assert isinstance(refused.exception, BudgetExceeded)


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_spent(people):
    folder, words = people
    ledger = Ledger.create(folder / "l", dataset="people", epsilon=2.0, delta=1e-6)
    words = [word for word in words if word != "--overwrite"]
    fit = [*words, "--epsilon", "0.3", "--ledger", str(ledger.path)]
    evaluate = ["evaluate", str(folder / "model/model.json"), str(folder / "people.csv"), "--epsilon", "0.3"]
    evaluate += ["--ledger", str(ledger.path)]
    assert RUN(app, fit).exit_code == 0 and ledger.account().fits == 1
    for asked, message in (
        (fit, "model.json in"),  # a model that was paid for is not replaced by accident
        ([*fit, "--out", str(folder / "people.csv")], "Pass another --out"),
        ([*fit, "--out", str(folder / "people.csv" / "x")], "Pass another --out"),
        ([*evaluate, "--out", str(folder / "people.csv")], "people.csv in"),
        ([*evaluate, "--out", str(folder / "people.csv" / "e.json")], "Pass another --out"),
    ):
        error = RUN(app, asked).exception
        assert isinstance(error, ValueError) and message in str(error) and "Nothing was spent" in str(error)
    assert ledger.account().fits == 1
    assert RUN(app, [*fit, "--overwrite"]).exit_code == 0 and ledger.account().fits == 2
