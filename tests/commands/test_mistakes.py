"""Mistakes that people make with parameters and files: each refusal says what was expected, what was found and what to do."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from typer.testing import CliRunner

import dperm
from command_line import run
from dperm.cli import app, main
from dperm.mechanisms import Gradient

X = np.random.default_rng(0).uniform(0, 1, (300, 2))
Y = (X[:, 0] > 0.5).astype(int)
BOTH: dict[str, Any] = {"bounds": (0, 1), "classes": [0, 1]}
SOURCE = Path(dperm.__file__).parent


def classifier(**options: Any) -> Any:
    return dperm.LogisticRegression(**(BOTH | {"random_state": 0} | options)).fit(X, Y)


def classifier_of(rows: object, labels: object) -> Any:
    return dperm.LogisticRegression(**BOTH).fit(rows, labels)


def of_words(rows: object = None, labels: object = None) -> Any:
    """A model of a column with three levels."""
    schema = {"columns": {"a": {"type": "categorical", "levels": ["x", "y", "z"]}}}
    schema["target"] = {"column": "ill", "type": "classes", "classes": [0, 1]}
    table = pd.DataFrame({"a": ["x", "y"] * 300, "ill": [0, 1] * 300})
    return dperm.LogisticRegression(schema=schema, random_state=0).fit(table if rows is None else rows, labels)


def regression(kind: str, **options: Any) -> Any:
    return getattr(dperm, kind)(bounds=(0, 1), **({"y_bounds": (0, 1)} | options)).fit(X, X[:, 0])


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a class": (lambda: classifier(method=Gradient), r"method= as a name or a mechanism, found the class Gradient\. Pass"),
    "a list": (lambda: dperm.LinearSVC(schema=[1]).fit(X, Y), r"schema= as a Schema, a dict or a path, found list\. Pass"),
    "no end": (lambda: classifier(epsilon=float("inf")), r"a finite epsilon > 0, found inf\. Pass"),
    "a word": (lambda: classifier(intervals="no"), r"intervals=True or False, found 'no'\. Pass"),
    "a penalty": (lambda: classifier(regularization=-1), r"regularization ≥ 0 and finite, found -1\. Pass"),
    "none kept": (lambda: regression("Lasso", n_nonzero_coefs=0), r"n_nonzero_coefs ≥ 1, a whole number, found 0\. Pass"),
    "half kept": (lambda: regression("Lasso", n_nonzero_coefs=2.5), r"n_nonzero_coefs ≥ 1, a whole number, found 2\.5\. Pass"),
    "percent": (
        lambda: dperm.MedianEstimator(bounds=(0, 1), quantile=50).fit(X[:, 0]),
        r"0 < quantile < 1, found 50\. Pass",
    ),
    "a column's name": (
        lambda: classifier_of(pd.DataFrame({"age": [1.0, 2.0], "ill": ["no", "yes"]}), "ill"),
        r"y as one label for every row, found the text 'ill'\. Pass the column itself",
    ),
    "a row as a dict": (lambda: classifier().predict({"x0": 1}), r"rows as an array or a table, found a dict\. Pass a table"),
    "a row as a series": (
        lambda: classifier().predict(pd.DataFrame(X).iloc[0]),
        r"rows as an array or a table, found a Series\. Pass a table",
    ),
    "a path to predict": (lambda: classifier().predict("new.csv"), r"rows as an array or a table, found text\. Read the file"),
    "values to predict": (lambda: of_words().predict(np.zeros((1, 2))), r"a table with the declared columns.* found one with 2"),
    "values to fit": (lambda: of_words(np.zeros((5, 4)), [0] * 5), r"a table with the columns of the sch.* found one with 4"),
    "a report in PDF": (lambda: classifier().report("report.pdf"), r"a report in \.html or \.md, found 'report\.pdf'\. Change"),
    "a pickle": (lambda: classifier().save("model.pkl"), r"a name that ends in \.json, or a folder, found 'model\.pkl'\. Models"),
    "a curve": (
        lambda: dperm.GAMRegressor(bounds={"age": (0, 1)}, y_bounds=(0, 1), random_state=0)
        .fit(pd.DataFrame({"age": X[:, 0]}), X[:, 0])
        .monotone("agee"),
        r"a column with a shape, found 'agee'\. Did you mean 'age'\?",
    ),
    "embeddings": (
        lambda: dperm.PrivateGridSearch(dperm.EmbeddingClassifier(classes=[0, 1]), {"steps": [2, 3]}).fit(X, Y),
        r"an estimator of declared columns in a search, found EmbeddingClassifier\. Fit it alone",
    ),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_parameter_is_refused_by_its_own_name(mistake: str) -> None:
    fit, words = REFUSED[mistake]
    with pytest.raises(ValueError, match=f"Expected {words}"):
        fit()


@pytest.mark.parametrize(("name", "meant"), [("eps", "epsilon="), ("y_range", "y_bounds="), ("seed", "random_state=")])
def test_a_parameter_of_other_tools_is_translated(name: str, meant: str) -> None:
    with pytest.raises(TypeError, match=f"found {name}=. Use {meant}"):
        dperm.LinearRegression(**{name: 1})


def test_files_that_do_not_read_and_options_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    target = {"column": "y", "type": "classes", "classes": [0, 1]}
    schema = {"columns": {"a": {"type": "numeric", "low": 0, "high": 1}}, "target": target}
    Path("schema.json").write_text(json.dumps(schema))
    files = {"uneven.csv": "a,y\n0,1\n1\n0,0\n", "empty.csv": "a,y\n", "fine.csv": "a,y\n" + "0,1\n1,0\n" * 200}
    for name, text in files.items():
        Path(name).write_text(text)
    words = ["--schema", "schema.json", "--epsilon", "1"]

    def said(file: str, *options: str) -> str:
        return run("fit", file, *options)[1]

    assert "Check that every line has as many cells as the header line" in said("uneven.csv", *words)
    assert "found 0. Pass a table with rows" in said("empty.csv", *words)
    assert re.search(r"fitted +LogisticRegression of y\n", said("fine.csv", *words))
    assert "NOT PRIVATE" in said("fine.csv", *words, "--random-state", "1", "--out", "seeded")
    assert "Pass e.g. --n 10000." in run("plan", "--schema", "schema.json", "--epsilon", "1")[1]
    assert "Did you mean 'LogisticRegression'? Pass one of them" in run("audit", "LogisticRegresion")[1]
    Path("other.parquet").write_text("")
    left_out = [sys.executable, "-m", "dperm", "fit", "fine.csv", *words[:2]]
    text = subprocess.run(left_out, capture_output=True, text=True).stderr
    assert text.startswith("dperm: Expected --epsilon, found none. Pass --epsilon: privacy budget. See")
    assert f"in the folder {tmp_path.name}, found csv and parquet" in said(".", *words, "--out", "other")


def test_a_model_that_is_not_fitted_is_called_that() -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        dperm.evaluate(dperm.LogisticRegression(**BOTH), X, Y, epsilon=1)


def test_a_search_takes_the_target_of_the_schema_as_a_fit_does() -> None:
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(t=np.where(Y, "yes", "no"))
    frame.loc[:9, "t"] = None
    columns = {name: {"type": "numeric", "low": 0, "high": 1} for name in "ab"}
    schema = {"columns": columns, "target": {"column": "t", "type": "classes", "classes": ["no", "yes"]}}
    searches = [
        dperm.PrivateGridSearch(dperm.LinearSVC(schema=schema), {"radius": [1.0, 9.0]}, expected_runs=2, random_state=0)
        for _ in range(2)
    ]
    inside, beside = searches[0].fit(frame), searches[1].fit(frame, frame.t)
    assert np.array_equal(inside.best_estimator_.w_, beside.best_estimator_.w_) and inside.best_score_ == beside.best_score_
    assert inside.score(frame) > 0.5
    with pytest.raises(ValueError, match="or a table with the target of the estimator's schema"):
        searches[0].fit(X)


@pytest.mark.parametrize("options", [{"fit_intercept": False}, {"max_exposure": 2.0}])
def test_what_a_fit_of_counts_refuses_a_search_refuses_before_the_debit(tmp_path: Path, options: dict[str, Any]) -> None:
    ledger = dperm.Ledger.create(tmp_path / "people.ledger", dataset="people", epsilon=20, delta=1e-5)
    base = dperm.PoissonRegressor(bounds=(0, 1), y_bounds=(0, 5), **options)
    search = dperm.PrivateGridSearch(base, {"missing": ["mean", "middle"]}, epsilon=5, expected_runs=2, ledger=ledger)
    with pytest.raises(ValueError, match=r"fit_intercept=True for counts|max_exposure= > 0 together with exposure="):
        search.fit(X, Y)
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize("name", ["bounded", "column_names", "mapInArrow", "drop_columns", "recognised_by", "tocsr", "tables"])
def test_no_name_of_a_column_makes_another_thing_of_a_data_frame(tmp_path: Path, name: str) -> None:
    """pandas shows a column as an attribute. One named column_names was taken for the names, and an error quoted its cells."""
    frame = pd.DataFrame({"a": X[:, 0], name: X[:, 1], "t": np.where(Y, "yes", "no")})
    columns = {column: {"type": "numeric", "low": 0, "high": 1} for column in ("a", name)}
    schema = {"columns": columns, "target": {"column": "t", "type": "classes", "classes": ["no", "yes"]}}
    ledger = dperm.Ledger.create(tmp_path / "people.ledger", dataset="people", epsilon=50, delta=1e-5)
    model = dperm.LogisticRegression(5.0, schema=schema, ledger=ledger).fit(frame)
    plain = dperm.LogisticRegression(5.0, **BOTH | {"classes": ["no", "yes"]}).fit(frame[["a", name]], frame.t)
    assert model.predict(frame).shape == plain.predict(frame[["a", name]]).shape == (300,)
    assert dperm.evaluate(model, frame, epsilon=5).verify() and dperm.profile(frame, epsilon=5, target="t").verify().ok
    owned = {**schema, "columns": {"a": columns["a"], name: {"type": "ignored"}}}
    dperm.LogisticRegression(5.0, schema=owned, groups=name, max_rows_per_person=1).fit(frame)
    assert dperm.MeanEstimator(5.0, bounds=(0, 1)).fit(frame[["a", name]]).location_.shape == (2,)
    assert list(dperm.Schema.from_table(frame)["columns"]) == ["a", name, "t"]


def test_rows_are_scored_by_the_labels_that_they_carry(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": X[:, 0], "t": np.where(Y, "yes", "no")})
    schema = {"columns": {"a": {"type": "numeric", "low": 0, "high": 1}}}
    schema["target"] = {"column": "t", "type": "classes", "classes": ["no", "yes"]}
    frame.loc[:9, "t"] = None
    frame.to_parquet(tmp_path / "table.parquet")
    rows = dperm.ArrowRows(tmp_path / "table.parquet", schema)
    model = dperm.LogisticRegression(5.0, schema=schema, random_state=0).fit(frame)
    assert model.score(rows) == model.score(frame) > 0.7
    found = [dperm.evaluate(model, held, epsilon=5, random_state=0).metrics["accuracy"] for held in (rows, frame)]
    assert found[0] == found[1]
    arrays = dperm.LogisticRegression(5.0, **BOTH, random_state=0).fit(X, Y)
    assert arrays.score(dperm.MemoryRows(X, Y)) == arrays.score(X, Y)
    with pytest.raises(ValueError, match="Expected y, or a table with the schema's target column, found neither"):
        arrays.score(X)
    with pytest.raises(ValueError, match="Expected a table with the column 'a' for by=, found an array"):
        dperm.evaluate(model, rows, epsilon=5, by="a")


RECORD = "41,7.5,low"


SCHEMA = """{"columns": {"age": {"type": "numeric", "low": 0, "high": 99}, "dose": {"type": "numeric", "low": 0, "high": 9}},
"target": {"column": "risk", "type": "classes", "classes": ["low", "high"]}}"""
PUBLISHED = "it was read as names, and will be published"


def told(*words: object) -> str:
    """What a command says, or refuses with, on one line."""
    found = CliRunner().invoke(app, [str(word) for word in words])
    return " ".join(f"{found.output} {found.exception or ''}".split())


@pytest.fixture
def headless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table whose first line is somebody's record."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "table.csv"
    lines = [RECORD, *(f"{20 + k % 60},{k % 9}.5,{'high' if k % 3 else 'low'}" for k in range(400))]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "schema.json").write_text(SCHEMA, encoding="utf-8")
    return file


FIRST = (["fit", "--schema", "schema.json"], ["profile", "--target", "risk"])


@pytest.mark.parametrize("words", FIRST)
def test_no_refusal_quotes_a_first_line_that_is_a_record(headless: Path, words: list[str]) -> None:
    said = told(words[0], headless, *words[1:], "--epsilon", 1)
    assert "others, some of them numbers: if the first line of a file is a record, write a line of names above it" in said
    assert not re.search(r"\b41\b|7\.5", said)
    with pytest.raises(ValueError, match="if the first line of a file is a record"):
        dperm.ArrowRows(headless, json.loads(SCHEMA))


def test_names_that_may_be_a_record_are_said_before_they_are_published(headless: Path) -> None:
    fit = ("fit", headless, "--target", "low", "--bounds", "private", "--levels", "private", "--epsilon", 1, "--random-state", 0)
    profile = ("profile", headless, "--target", "low", "--epsilon", 1, "--random-state", 0)
    for words in (("schema", headless, "--out", "draft.json"), profile, fit):
        assert told(*words).count(PUBLISHED) == 1, words
    named = headless.with_name("named.csv")
    named.write_text(f"age,dose 2020,risk\n{headless.read_text(encoding='utf-8')}", encoding="utf-8")
    assert PUBLISHED not in told("schema", named, "--out", "other.json")


def test_the_example_of_a_theorem_can_be_typed() -> None:
    command = re.search(r"`dperm (theory .*?)`", told("theory", "pac", "alpha=0.1"))
    assert command is not None and CliRunner().invoke(app, command[1].split()).exit_code == 0


def refusals(room: str) -> list[tuple[str, str]]:
    """(place, text) of every error of a room that says what was expected; what is filled in is {}."""

    def text(node: ast.expr) -> str:
        if isinstance(node, ast.JoinedStr):
            return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        return str(node.value) if isinstance(node, ast.Constant) else ""

    found = []
    for file in sorted((SOURCE / room).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            call = node.exc if isinstance(node, ast.Raise) else None
            if isinstance(call, ast.Call) and call.args and getattr(call.func, "id", "") in ("ValueError", "TypeError"):
                found.append((f"{file.name}:{node.lineno}", text(node.exc.args[0])))
    return [(place, words) for place, words in found if words.startswith("Expected")]


def test_errors_of_estimators_say_what_to_do() -> None:
    found = [entry for entry in refusals("estimators") if "damaged" not in entry[1]]
    assert len(found) > 80
    assert [place for place, words in found if not re.search(r"[.?:)]\s*(\{\}\s*)?[A-Z{`'\"d]", words[10:])] == []


PEOPLE = {
    "columns": {"age": {"type": "numeric", "low": 0, "high": 1}},
    "target": {"column": "income", "type": "classes", "classes": [0, 1]},
}


def test_a_table_without_its_target_is_told_of_the_target() -> None:
    """The error spoke of the schema's names, which are right, and of columns to ignore."""
    table = pd.DataFrame({"age": X[:, 0], "incom": Y})
    words = r"the target 'income' among the columns of the table, found 'age', 'incom'\. Did you mean 'incom'\? Add the column"
    model = dperm.LogisticRegression(schema=PEOPLE, random_state=0)
    with pytest.raises(ValueError, match=words):
        model.fit(table)
    fitted = model.fit(table, Y)
    with pytest.raises(ValueError, match=words):
        dperm.evaluate(fitted, table, epsilon=1.0, random_state=0)
    with pytest.raises(ValueError, match=r"y as one label for every row, found the text 'incom'\. .* table\['incom'\]"):
        model.fit(table, "incom")


def test_one_is_singular(tmp_path: Path) -> None:
    ask = ["plan", "--model", "huber", "--n", "3000", "--d", "4", "--epsilon", "1"]
    said = CliRunner().invoke(app, ask).output
    assert re.search(r"output +\S+ +1 release\n", said) and "target     epsilon 1 at delta" in said
    ledger = dperm.Ledger.create(tmp_path / "a.ledger", dataset="people", epsilon=1.0, delta=1e-6)
    model = dperm.LogisticRegression(epsilon=0.9, ledger=ledger, random_state=0, **BOTH)
    model.fit(X, Y)
    with pytest.raises(ValueError, match=r"one more Gaussian fit after 1 fit\. Ask for less"):
        model.fit(X, Y)


def test_a_wrong_name_in_a_configuration_file_gets_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for text, words in (
        ("[fit]\nepsilonn = 1", "found 'epsilonn'. Did you mean 'epsilon'? Options: bounds,"),
        ("[fitt]\nepsilon = 1", "found 'fitt'. Did you mean 'fit'? Write options below the name of their command, e.g. [fit]."),
        ("epsilon = 1", "found 'epsilon'. Write options below the name of their command, e.g. [fit]."),
    ):
        Path("dperm.toml").write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, "-m", "dperm", "fit", "people.csv"], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and words in done.stderr, text


def test_a_theorem_says_how_its_own_numbers_are_written() -> None:
    with pytest.raises(ValueError, match=r"found 'n=10'\. Write e\.g\. `dperm theory pac hypotheses=1000 alpha=0\.1 beta=0\.05`"):
        CliRunner().invoke(app, ["theory", "pac", "n=10"], catch_exceptions=False)


def test_a_profile_of_noise_says_what_it_would_take(tmp_path: Path) -> None:
    pd.DataFrame({"age": X[:, 0]}).to_csv(tmp_path / "people.csv", index=False)
    for epsilon, told in (("0.001", True), ("8", False)):
        ask = ["profile", str(tmp_path / "people.csv"), "--epsilon", epsilon, "--random-state", "0"]
        ask += ["--out", str(tmp_path / epsilon)]
        assert ("needs a larger --epsilon, or more rows" in CliRunner().invoke(app, ask).output) == told


def entry(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object) -> tuple[object, str]:
    """What the command says, through its entry point."""
    monkeypatch.setattr(sys, "argv", ["dperm", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    return ended.value.code, said.out + said.err


def test_a_plan_takes_a_number_of_columns_or_a_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--d` beside a schema was ignored without a word."""
    columns = {"a": {"type": "numeric", "low": 0, "high": 1}}
    (tmp_path / "s.json").write_text(json.dumps({"columns": columns, "target": {"column": "t", "type": "count", "high": 9}}))
    words = ("plan", "--n", 1000, "--epsilon", 1, "--schema", tmp_path / "s.json")
    code, said = entry(monkeypatch, capsys, *words, "--d", 9)
    assert code == 2 and "Expected --d or --schema, which says how many columns there are, found both." in said
    assert entry(monkeypatch, capsys, *words)[0] == 0


ASKED = [("plan", "--n", 1000, "--d", 2, "--epsilon", 1), ("ledger", "create", "--dataset", "x", "--epsilon", 1)]


@pytest.mark.parametrize("command", ASKED, ids=["plan", "ledger"])
def test_a_delta_too_small_for_a_number_is_not_read_as_0(
    command: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which asks for pure privacy, and so for another method."""
    monkeypatch.chdir(tmp_path)
    code, said = entry(monkeypatch, capsys, *command, "--delta", "1e-400")
    assert code == 2 and "Expected a value for --delta, found '1e-400': a number so small is 0 here" in said
    code, said = entry(monkeypatch, capsys, *command, "--delta", "small")
    assert code == 2 and "Expected a number such as 1 or 0.5 for --delta, found 'small'" in said
    assert entry(monkeypatch, capsys, *command, "--delta", "0e-9")[0] == 0


@pytest.mark.parametrize("method", ["auto", "scaled-poisson"])
def test_bounds_that_no_method_finds_for_counts_are_refused_without_naming_one(method: str) -> None:
    """It said of scaled-poisson that scaled methods pay for bounds."""
    counts = dperm.PoissonRegressor(1.0, y_bounds=(0, 5), bounds="private", method=method)
    with pytest.raises(ValueError, match=r"found bounds='private'. No method pays for them here. Declare them, or find them by"):
        counts.plan(500, 2)
    with pytest.raises(ValueError, match=r"Use method='scaled-gradient' or 'scaled-objective', which pays for them, or declare"):
        dperm.LogisticRegression(1.0, bounds="private", classes=[0, 1], method="objective").plan(500, 2)
