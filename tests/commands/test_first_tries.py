"""What somebody types who does not know the command yet, and what it answers."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest

import dperm
from command_line import run, write_members
from dperm.cli import OPTIONS, WORDS, main
from dperm.commands import COMMANDS
from dperm.commands.evaluating import advice, group_lines, score_lines
from dperm.commands.spoken import spoken

SCHEMA = {
    "columns": {
        "member": {"type": "ignored"},
        "age": {"type": "numeric", "low": 18, "high": 85},
        "branch": {"type": "categorical", "levels": ["north", "south"]},
    },
    "target": {"column": "left", "type": "classes", "classes": ["no", "yes"]},
}
FOUND = ["fit", "members.csv", "--epsilon", "1", "--bounds", "private", "--levels", "private", "--out", "o"]
PLAN = ["plan", "--n", "1000", "--d", "4", "--epsilon", "1"]
FIT = ["fit", "members.csv", "--schema", "members.json", "--epsilon", "3", "--out", "o"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, its schema and a model."""
    folder = tmp_path_factory.mktemp("members")
    write_members(folder / "members.csv", 400, 4, lambda age, _: age > 50, each=2)
    (folder / "few.csv").write_text("member,branch\nm1,north\n")
    (folder / "members.json").write_text(json.dumps(SCHEMA))
    words = ["fit", folder / "members.csv", "--schema", folder / "members.json", "--epsilon", 3, "--out", folder / "model"]
    assert run(*words)[0] == 0
    return folder


@pytest.fixture
def folder(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    return made


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ([*FOUND, "--target", "lft"], "found none. Did you mean 'left'?"),
        ([*FOUND, "--target", "churn"], "Columns: 'member', 'age', 'branch', 'left'."),
        ([*FIT, "--target", "churn"], "Declared are 'member', 'age', 'branch', 'left'."),
        ([*FIT, "--model", "logit"], "Did you mean 'logistic'?"),
        ([*FIT, "--model", "zzz"], "Expected a model in logistic, svm, linear"),
        ([*FIT, "--person", "membr", "--max-rows-per-person", "2"], "Did you mean 'member'? Correct the name: --person"),
        (["evaluate", "model", "members.csv", "--epsilon", "1", "--by", "brnch"], "for --by, found none. Did you mean 'branch'?"),
        (["evaluate", "members.csv", "model", "--epsilon", "1"], "Write `dperm evaluate model members.csv`."),
        ([*FIT, "--weight", "memberr", "--max-weight", "2"], "no such column. Did you mean 'member'?"),
        (["predict", "members.csv", "model"], "Expected MODEL first"),
        (["predict", "model", "few.csv"], "found a table without 'age'"),
        (["schema", "members.csv", "--types", "age=month"], 'write "datetime" with "parts": ["month"]'),
    ],
)
def test_a_first_try_that_is_wrong_says_what_is_right(folder: Path, words: list[str], answer: str) -> None:
    code, message = run(*words)
    assert code == 2 and answer in message and not (folder / "o").exists()


def test_transforms_and_parts_are_named(folder: Path) -> None:
    said = " ".join(run("schema", "--help")[1].split())
    assert all(word in said for word in ('"parts": ["month"]', '"hash": 64', '"bins": 10', '"log": true'))
    with pytest.raises(ValueError, match="year, month, weekday, hour"):
        dperm.Schema.from_dict({"columns": {"joined": {"type": "datetime"}}})
    with pytest.raises(ValueError, match=r"found 'month'\. For the month write"):
        dperm.Schema.from_dict({"columns": {"joined": {"type": "month"}}})


@pytest.mark.parametrize("group", [-2, -5, True])
def test_a_group_below_minus_one_is_refused_by_verify(folder: Path, group: object) -> None:
    record = json.loads((folder / "model" / "certificate.json").read_text())
    (folder / "same.json").write_text(json.dumps(record))
    assert run("verify", "same.json")[0] == 0
    assert record["encoding"]["groups"][0] == -1
    record["encoding"]["groups"][0] = group
    (folder / "other.json").write_text(json.dumps(record))
    code, message = run("verify", "other.json", code=1)
    assert code == 1 and "NOT VERIFIED" in message


def test_groups_are_a_table_and_what_is_not_known_is_said_once(folder: Path) -> None:
    code, text = run("evaluate", "model", "members.csv", "--epsilon", "0.1", "--by", "branch", "--random-state", "1")
    lines = text.splitlines()
    assert code == 0 and text.count("the noise of privacy hides it") == 1 and "--json says it of every score" in text
    head = next(place for place, line in enumerate(lines) if line.startswith("  branch  "))
    assert lines[head].split()[:3] == ["branch", "rows", "accuracy"]
    assert [line.split()[0] for line in lines[head + 1 : head + 3]] == ["north", "south"]
    assert sum("north" in line for line in lines) <= 2  # its row, and perhaps the advice


def test_no_score_is_minus_zero() -> None:
    score = {"value": -0.00001, "low": -0.00002, "high": 0.1}
    metrics = {"mean error": score, "groups": {"column": "g", "rows": {"a": score}, "scores": {"a": {"mean error": score}}}}
    shown = "\n".join([*score_lines(metrics, 0.95).values(), *group_lines(metrics, 0.95)])
    assert "0.0000" in shown and "0.000 " in shown and "-0" not in shown and advice(metrics) == []


def test_python_says_what_was_found(folder: Path) -> None:
    model = dperm.LogisticRegression(epsilon=1.0, bounds="private", classes=["no", "yes"])
    for place in ("members.csv", Path("members.csv")):
        with pytest.raises(ValueError, match=r"A path goes to the command, `dperm fit FILE`, or to pandas\.read_csv"):
            model.fit(place)
    with pytest.raises(ValueError, match="found the text '1'"):
        dperm.LogisticRegression(epsilon="1", bounds=(0, 1), classes=[0, 1]).fit(np.eye(2), [0, 1])
    table = pandas.read_csv("members.csv", dtype={"branch": "string"})
    with pytest.raises(ValueError, match=r"dperm\.profile\(table, target=\.\.\., epsilon=\.\.\.\)\.schema\(\)"):
        model.fit(table[["age", "branch"]], table["left"])


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["plan", "--rows", "6000"], "No such option: --rows. Here it is --n."),
        (["fit", "members.csv", "--groups", "member"], "No such option: --groups. Here it is --person."),
        (["score", "model"], "No such command 'score'. Here it is `dperm evaluate`."),
        (["plan", "members.csv", "--epsilon", "1"], "reads no data, and takes no file. Pass --n"),
    ],
)
def test_words_of_other_tools_are_answered_with_ours(
    folder: Path, words: list[str], answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["dperm", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and answer in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "right", "python"),
    [
        ([*FIT, "--epsilon", "0"], "e.g. --epsilon 1.0", "epsilon="),
        ([*FIT, "--nominal-n", "9"], "Expected --nominal-n to be left out, or 400", "nominal_n="),
        ([*FIT, "--nominal-n", "9"], "use --relation add-remove", "relation="),
        ([*FIT, "--relation", "add-remove"], "Expected --nominal-n under --relation add-remove", "nominal_n="),
        ([*FIT, "--method", "exponential"], "a ball (radius= in Python)", "(radius=)"),
        ([*FIT, "--method", "scaled-gradient", "--delta", "0"], "With --delta 0 use", "delta=0"),
        ([*FIT, "--noise", "seeded"], "--random-state", "random_state="),
        ([*FIT, "--person", "membr", "--max-rows-per-person", "2"], "name: --person names a column", "--person or --person"),
        ([*PLAN, "--model", "Lasso", "--delta", "0"], "`LinearRegression(delta=0, regularization=dperm.problem.El", "in Python("),
        ([*FIT, "--method", "objective", "--intervals"], "Or leave --intervals out", "intervals="),
        (["evaluate", "model", "members.csv", "--epsilon", "1", "--relation", "add-remove"], "Expected --nominal-n", "l_n="),
        (["evaluate", "model", "members.csv", "--epsilon", "1", "--by", "member"], "Pass --levels a,b,c", "levels="),
        (["profile", "members.csv", "--epsilon", "1", "--correlations"], "Pass --target.", "target="),
        (["plan", "--n", "100", "--d", "0", "--epsilon", "1"], "found n=100 and d=0", "--n="),
    ],
)
def test_the_shell_names_its_own_options(folder: Path, words: list[str], right: str, python: str) -> None:
    code, said = run(*words, code=2)
    assert code == 2 and right in said and python not in said, said
    assert not (folder / "o").exists()


def test_what_a_schema_declares_is_said_in_the_words_of_a_schema() -> None:
    here = {"bounds": "--bounds", "method": "--method"}
    declared = "Expected y_bounds=(0, 30) and classes=, found bounds='private' for method='gradient'."
    assert spoken(declared, here) == (
        'Expected "low" and "high" of the target in the schema and "classes" of the target in the schema, found --bounds private '
        "for --method gradient."
    )
    asked = "Expected intervals=False for Lasso, found True. Use LinearRegression(intervals=True)."
    assert spoken(asked, {"intervals": "--intervals", "model": "--model"}) == (
        "Expected no --intervals for Lasso, found True. Use --model LinearRegression --intervals."
    )
    cached = "Pass another cache= folder, or cache=None."
    assert spoken(cached, {"cache": "--cache"}) == "Pass another --cache folder, or no --cache."
    kept = "found 'groups=' in `dperm theory pac epsilon=1`; left is about epsilon=0.3"
    assert spoken(kept, {"epsilon": "--epsilon", "person": "--person"}) == kept


def test_a_wrong_one_is_said_in_the_shell_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Through the entry point itself; and a warning on the way, of scores about rows of a model about persons."""
    monkeypatch.setattr(sys, "argv", ["dperm", *FIT, "--epsilon", "-1"])
    with pytest.raises(SystemExit):
        main()
    assert "e.g. --epsilon 1.0" in capsys.readouterr().err
    persons = [*FIT[:-1], "persons", "--person", "member", "--max-rows-per-person", "2"]
    assert run(*persons)[0] == 0
    monkeypatch.setattr(sys, "argv", ["dperm", "evaluate", "persons", "members.csv", "--epsilon", "1"])
    with pytest.raises(SystemExit):
        main()
    assert "pass --person and --max-rows-per-person to protect persons" in capsys.readouterr().err


def test_levels_of_an_estimator_are_answered_with_what_finds_them() -> None:
    with pytest.raises(TypeError, match=r"found levels=. Use schema=, which lists them; `dperm.profile\(table, target="):
        dperm.LogisticRegression(epsilon=1.0, levels="private")


def test_the_synonyms_are_no_options_of_ours_and_lead_to_some(folder: Path) -> None:
    helped = {name: run(name, "--help")[1] for name in ("plan", "fit", "evaluate")}
    known = " ".join(helped.values())
    assert all(f" {ours} " in known and f" {theirs} " not in known for theirs, ours in OPTIONS.items())
    assert not set(WORDS) & set(COMMANDS) and set(WORDS.values()) <= set(COMMANDS)
    assert "env var" not in helped["plan"].replace("[env var: DPERM_LEDGER]", "") and "DPERM_FIT" not in helped["fit"]


def test_a_plan_without_an_epsilon_is_a_table_over_some(folder: Path) -> None:
    told = json.loads(run("plan", "--n", 6000, "--d", 20, "--json")[1])["epsilons"]
    assert [row["epsilon"] for row in told] == [0.1, 0.3, 1.0, 3.0, 8.0]
    losses = [row["expected"]["value"] for row in told]
    assert losses == sorted(losses, reverse=True) and told[2]["even_bet_at_most"] == pytest.approx(0.7311, abs=1e-4)
    text = run("plan", "--n", 6000, "--d", 20)[1]
    assert "0.009 less accuracy than a fit without privacy" in text and "the same accuracy as a fit without privacy" in text
    plan = run("plan", "--n", 6000, "--d", 20, "--epsilon", 1)[1].splitlines()
    assert plan[0].startswith("expected ") and sum(line.startswith("budget ") for line in plan) == 1
    assert "86 % descent" in "\n".join(plan) and "mu=" not in "\n".join(plan)
    assert "not measured" in run("plan", "--n", 6000, "--d", 20, "--model", "lasso")[1]


def test_what_was_written_or_compared_is_said_shortly(folder: Path, tmp_path: Path) -> None:
    assert str(tmp_path / "p.csv") in run("predict", "model", "members.csv", "--out", tmp_path / "p.csv")[1]
    scores = run("evaluate", "model", "members.csv", "--epsilon", "3")[1]
    assert "(always guessing the most common class)" in scores and scores.count("predicted 0.") <= 1
    assert "; --json has all " in scores and "calibration  " in scores
    record = json.loads((folder / "model" / "certificate.json").read_text())
    record["target"]["epsilon"] /= 2
    (tmp_path / "c.json").write_text(json.dumps(record))
    refused = run("verify", tmp_path / "c.json", code=1)[1].splitlines()
    assert len(refused) == 5 and "more that follow from it; --json lists them" in refused[-1]
    assert len(json.loads(run("verify", tmp_path / "c.json", "--json", code=1)[1])["reasons"]) > 5


def test_a_method_that_is_misspelt_is_answered_with_those_that_the_model_takes(folder: Path) -> None:
    message = run(*FIT, "--method", "objectiv")[1]
    assert "'objective'" in message and "'auto'" in message and "'statistics'" not in message and "'heads'" not in message


def test_a_report_without_intervals_says_so_and_not_in_the_words_of_an_error(folder: Path) -> None:
    page = (folder / "model" / "report.md").read_text()
    assert "No intervals: this fit did not pay for them" in page and "Expected a fit" not in page


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match="Did you mean 'LogisticRegression'"):
        _ = dperm.LogisticRegresion
    with pytest.raises(AttributeError, match=r"'__nothing__'$"):
        _ = dperm.__nothing__


def test_an_array_is_no_table_and_embeddings_are_shown_the_way(folder: Path) -> None:
    """By the command, from the name of the file alone; and what Python has fitted is predicted by the command."""
    rng = np.random.default_rng(0)
    np.save("rows.npy", rng.normal(size=(300, 8)) + 4 * np.eye(3, 8)[np.arange(300) % 3])
    for words in (["fit", "rows.npy", "--epsilon", 1], ["profile", "rows.npy", "--epsilon", 1], ["schema", "rows.npy"]):
        code, said = run(*words)
        assert code == 2 and "dperm.features.open_embeddings('rows.npy')" in said, said
    assert "EmbeddingClassifier is for Python" in run("fit", "members.csv", "--epsilon", 1, "--model", "embedding")[1]
    model = dperm.EmbeddingClassifier(epsilon=8.0, classes=range(3), steps=20)
    with pytest.raises(ValueError, match="open_embeddings"):
        model.fit("rows.npy", np.arange(300) % 3)
    model.fit(dperm.features.open_embeddings("rows.npy"), np.arange(300) % 3).save("layer")
    predicted = run("predict", "layer", "rows.npy")[1].split()[1:]
    assert np.mean([int(label) for label in predicted] == np.arange(300) % 3) > 0.9
    assert "dperm.features.open_embeddings" in run("evaluate", "layer", "rows.npy", "--epsilon", 1)[1]


def test_a_summary_of_very_many_coefficients_is_cut_and_says_so() -> None:
    model = dperm.EmbeddingClassifier(epsilon=8.0, classes=range(3), steps=3)
    model.fit(np.random.default_rng(0).normal(size=(90, 80)), np.arange(90) % 3)
    text, few = str(model.summary()), dperm.LinearRegression(epsilon=1.0, bounds=(0, 1), y_bounds=(0, 1), method="gradient")
    assert "And 40 more: `summary().rows()` has all. No intervals. Its error" in text and len(text.splitlines()) < 220
    assert len(model.summary().rows()) == 240 and "And 40 more" in model.summary()._repr_html_()
    assert "more: `summary()" not in str(few.fit(np.ones((20, 2)), np.ones(20)).summary())


def test_a_width_alone_finds_its_epsilon_and_is_said_once(folder: Path) -> None:
    words = ["plan", "--n", 6000, "--d", 4, "--intervals", "--target-width"]
    said = run(*words, 1.5)[1]
    epsilon = float(said.partition("planned for ")[2].split(",")[0])
    assert "the smallest that gives such intervals" in said and said.count("as wide as without privacy") == 1
    at = [json.loads(run(*words, 1.5, "--epsilon", value, "--json")[1])["intervals"]["width"] for value in (epsilon, epsilon - 1)]
    assert at[0] <= 1.5 < at[1]
    assert "Expected a width that some epsilon reaches with n = 6,000, found 0.5" in run(*words, 0.5)[1]
    table = run(*words[:-1])[1]
    assert table.count("× as wide as without privacy") == 5 and "× as wide" not in run("plan", "--n", 6000, "--d", 4)[1]


def test_bounds_that_were_found_are_said_of_the_target_too(folder: Path) -> None:
    target = ["fit", "members.csv", "--target", "age", "--model", "ridge", "--epsilon", 8, "--out", "of-age"]
    said = run(*target, "--bounds", "private", "--levels", "private")[1]
    assert re.search(r"bounds +age [\d.]+ to [\d.]+ \(the target\)", said), said
