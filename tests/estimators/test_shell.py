"""The shell around a fit: caches, ledgers of rows on disk, saved models, hostile names, repeated fits, intervals foreseen."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from typer.testing import CliRunner

import dperm
from dperm.cli import app
from dperm.commands.fitting import csv_cell
from dperm.pages.page import report_page
from dperm.rows import ArrowRows, DaskRows, DeviceRows, MemoryRows
from dperm.words.wording import markdown_line, markdown_text, printable

SCHEMA = {
    "columns": {"a": {"type": "numeric", "low": -1, "high": 1}, "b": {"type": "numeric", "low": 0, "high": 9}},
    "target": {"column": "t", "type": "classes", "classes": ["no", "yes"]},
}


def table(n: int = 400, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.uniform(-1, 1, n), "b": rng.uniform(0, 9, n)})
    return frame.assign(t=np.where(frame.a + rng.normal(0, 0.7, n) > 0, "yes", "no"))


def command(*words: object) -> dict:
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1]) if "--json" in words else {"text": result.output}


# -- the cache ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["{}", '{"schema": {}}', '{"format": "dperm-cache/1"}', "no json"])
def test_a_cache_never_deletes_a_folder_that_it_did_not_make(tmp_path, key):
    """A folder with a key.json of its own, or with our key beside other files, lost everything it held."""
    table().to_csv(tmp_path / "f.csv", index=False)
    project = tmp_path / "project"
    (project / "results").mkdir(parents=True)
    (project / "key.json").write_text(key)
    (project / "results" / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="Nothing was deleted"):
        ArrowRows(tmp_path / "f.csv", SCHEMA, cache=project)
    assert (project / "results" / "thesis.txt").read_text() == "years of work" and (project / "key.json").read_text() == key
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.csv", "project"]


def test_our_own_cache_is_used_again_and_replaced_when_the_file_changes(tmp_path):
    table().to_csv(tmp_path / "f.csv", index=False)
    first = ArrowRows(tmp_path / "f.csv", SCHEMA, cache=tmp_path / "cache")
    made = (tmp_path / "cache" / "key.json").stat().st_mtime_ns
    ArrowRows(tmp_path / "f.csv", SCHEMA, cache=tmp_path / "cache")
    assert (tmp_path / "cache" / "key.json").stat().st_mtime_ns == made
    table(500).to_csv(tmp_path / "f.csv", index=False)
    again = ArrowRows(tmp_path / "f.csv", SCHEMA, cache=tmp_path / "cache")
    assert (first.n, again.n) == (400, 500) and (tmp_path / "cache").stat().st_mode & 0o077 == 0
    (tmp_path / "cache" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="Nothing was deleted"):
        ArrowRows(tmp_path / "f.csv", SCHEMA, cache=tmp_path / "cache")


# -- ledgers of rows ----------------------------------------------------------------------------------------------------


def test_a_ledger_knows_rows_on_disk_as_it_knows_their_file(tmp_path):
    """`ledger="path"` with ArrowRows raised a TypeError; other content must be refused, the file itself accepted."""
    for name, seed in (("f", 0), ("g", 1)):
        table(seed=seed).to_csv(tmp_path / f"{name}.csv", index=False)
    ledger = dperm.Ledger.create(tmp_path / "l", dataset="x", epsilon=9, delta=1e-5, data=tmp_path / "f.csv")
    model = dperm.LogisticRegression(1.0, schema=SCHEMA, ledger=str(tmp_path / "l"))
    model.fit(ArrowRows(tmp_path / "f.csv", SCHEMA))
    with pytest.raises(ValueError, match="other content"):
        model.fit(ArrowRows(tmp_path / "g.csv", SCHEMA))
    assert ledger.account().fits == 1


def test_a_ledger_knows_rows_on_a_cluster_whatever_their_partitions(tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    frame = table(20_000)
    ledger = dperm.Ledger.create(tmp_path / "l", dataset="x", epsilon=9, delta=1e-5)
    model = dperm.LogisticRegression(0.5, schema=SCHEMA, ledger=ledger)
    for partitions in (2, 3):
        model.fit(DaskRows(dd.from_pandas(frame, npartitions=partitions), schema=SCHEMA))
    frame.loc[12_345, "a"] += 0.5
    with pytest.raises(ValueError, match="other content"):
        model.fit(DaskRows(dd.from_pandas(frame, npartitions=2), schema=SCHEMA))
    assert ledger.account().fits == 2


def test_a_ledger_knows_rows_on_a_device_as_the_same_array(tmp_path):
    X, y = table()[["a"]].to_numpy(), np.arange(400) % 2
    ledger = dperm.Ledger.create(tmp_path / "l", dataset="x", epsilon=9, delta=1e-5, data=X)
    model = dperm.LogisticRegression(1.0, bounds=(-1, 1), classes=[0, 1], ledger=ledger)
    model.fit(X, y).fit(DeviceRows(X, y)).fit(MemoryRows(X, y))
    with pytest.raises(ValueError, match="other content"):
        model.fit(DeviceRows(X + 1e-9, y))
    assert ledger.account().fits == 3


# -- names --------------------------------------------------------------------------------------------------------------

HOSTILE = [
    "<script>alert(1)</script>",
    "](https://evil.example) ![x](javascript:alert(1))",
    "a|b|c\n\n# heading\n\n<img src=x onerror=alert(1)>",
    "`code` ``` **bold** __under__ $x$",
    "\x1b[2J\x1b[31mred\u202e",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text_in_every_printed_form(name):
    """report.md wrote names as they are; a terminal got their control characters."""
    frame = table(3000).rename(columns={"a": name})
    spec = {
        "columns": {name: SCHEMA["columns"]["a"], "b": SCHEMA["columns"]["b"]},
        "target": {"column": "t", "type": "numeric", "low": 0, "high": 1},
    }
    model = dperm.LinearRegression(5.0, schema=spec, intervals=True).fit(frame.assign(t=(frame.t == "yes").astype(float)))
    shown = {"text": str(model.summary()), "repr": repr(model.certificate_), "page": report_page(model, {name: name})}
    shown["markdown"] = report_page(model, {name: name}, markdown=True)
    for text in shown.values():
        assert "\x1b" not in text and "\u202e" not in text
    below = shown["text"].split("\n----")[1]  # the rule, two columns, the intercept, another rule and the note
    assert len(below.splitlines()) in (6, 7, 8) and len(shown["repr"].splitlines()) == 1
    lines = shown["markdown"].split("## Certificate")[0].split("\n")
    assert not any(line.startswith("# ") for line in lines[1:])
    prose = re.sub(r"`[^`\n]*`", "", "\n".join(lines))  # code spans are ours
    for mark in ("<script", "<img", "](", "**bold", "__under"):
        assert not re.search(r"(?<!\\)" + re.escape(mark), prose), mark
    assert "<script>alert" not in shown["page"] and "<img" not in shown["page"]
    counts = {len(re.findall(r"(?<!\\)\|", line)) for line in lines if line.startswith("| ") and "alert" in line and "b" in line}
    assert counts <= {3, 4, 6, 9}  # two, three, five or eight cells, as the tables have


def test_text_that_markdown_would_read_is_escaped():
    assert markdown_text("1. x") == r"1\. x" and markdown_text("- x") == r"\- x" and markdown_text("-0.5") == "-0.5"
    assert markdown_line("run `dperm verify` <b>") == "run `dperm verify` &lt;b&gt;"
    assert markdown_line("- run (`a`) it, `b`. Then") == r"\- run (`a`) it, `b`. Then", "only a line begins a list, no part of it"
    assert markdown_line("a ` b\n\n<script>` c").count("\n") == 0
    assert printable("größe\t") == r"größe\t"


@pytest.mark.parametrize("cell", ["-1+cmd|' /C calc'!A0", "+1+1", "=1+1", "@SUM(A1)", " =1+1", "-", "\t=1", "-1_0+A1"])
def test_no_cell_of_a_csv_is_a_formula(cell):
    assert csv_cell(cell).lstrip('"').startswith("'")


@pytest.mark.parametrize("cell", ["-1", "+0.5", "-1.5e-3", "-inf", "yes", "a-b"])
def test_numbers_and_words_stay_what_they_are(cell):
    assert csv_cell(cell) == cell


# -- saved models -------------------------------------------------------------------------------------------------------

BOUNDS = {"bounds": {"a": (-1, 1), "b": (0, 9)}}
MODELS = [
    dperm.LogisticRegression(3.0, classes=["no", "yes"], **BOUNDS),
    dperm.LogisticRegression(5.0, classes=["no", "yes"], intervals=True, **BOUNDS),
    dperm.LinearSVC(3.0, classes=["no", "yes", "perhaps"], **BOUNDS),
    dperm.MLPClassifier(3.0, classes=["no", "yes"], hidden=4, **BOUNDS),
    dperm.GAMClassifier(3.0, classes=["no", "yes"], **BOUNDS),
    dperm.GAMRegressor(3.0, y_bounds=(0, 3), **BOUNDS),
    dperm.LinearRegression(5.0, y_bounds=(0, 3), intervals=True, **BOUNDS),
    dperm.Ridge(3.0, y_bounds=(0, 3), fit_intercept=False, **BOUNDS),
    dperm.HuberRegressor(3.0, y_bounds=(0, 3), threshold=0.5, **BOUNDS),
    dperm.QuantileRegressor(3.0, y_bounds=(0, 3), quantile=0.9, **BOUNDS),
    dperm.PoissonRegressor(3.0, y_bounds=(0, 3), **BOUNDS),
    dperm.PoissonRegressor(5.0, y_bounds=(0, 3), intervals=True, **BOUNDS),
    dperm.Lasso(3.0, y_bounds=(0, 3), **BOUNDS),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("place", ["model.json", "folder"])
def test_a_saved_model_comes_back_whole(model, place, tmp_path):
    frame = table(3000)
    X, y = frame[["a", "b"]], frame.t if hasattr(model, "classes") else (frame.t == "yes").astype(float)
    model.fit(X, y).save(tmp_path / place)
    again = dperm.load(tmp_path / place)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    for name in ("coef_", "intercept_", "classes_", "feature_names_in_", "coefs_"):
        assert hasattr(model, name) == hasattr(again, name)
        if hasattr(model, name) and name != "coefs_":
            np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert again.certificate_.record == json.loads(model.certificate_.to_json()) and again.certificate_.verify().ok
    assert again.score(X, y) == model.score(X, y) and again.epsilon == model.epsilon

    def summarised(fitted: object) -> str:
        try:
            return str(fitted.summary())
        except ValueError as error:
            return str(error)

    assert summarised(again) == summarised(model)
    assert ("std err" in summarised(model)) == bool(getattr(model, "intervals", False))


OTHER = {"epsilon": 9.0, "delta": 1e-9, "relation": "zero-out", "radius": 2.0, "bounds": (0, 1), "schema": SCHEMA}
OTHER |= {"max_weight": 5.0, "max_rows_per_person": 3, "groups": "who", "noise": "exact", "method": "gradient", "x_norm": 4.0}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_parameters_set_after_a_fit_are_not_saved_with_it(model, tmp_path):
    """The file said another budget than the certificate beside it, and `verify` refused it."""
    frame = table(3000)
    X, y = frame[["a", "b"]], frame.t if hasattr(model, "classes") else (frame.t == "yes").astype(float)
    model = clone(model).fit(X, y)
    before = model.save(tmp_path / "before.json").read_text()
    given = model.get_params(deep=False)
    other = {name: value for name, value in OTHER.items() if name in given} | {"fit_intercept": not model.fit_intercept}
    other |= {name: value for name, value in {"quantile": 0.2, "y_bounds": (0, 9), "max_exposure": 2.0}.items() if name in given}
    for fitted in (model, dperm.load(tmp_path / "before.json")):
        fitted.set_params(**other)
        assert fitted.save(tmp_path / "after.json").read_text() == before
        assert fitted.epsilon == 9.0  # for the next fit
    assert command("verify", tmp_path / "after.json", "--json")["ok"]
    fitted = model.set_params(**given).set_params(epsilon=2.5).fit(X, y)
    assert dperm.load(fitted.save(tmp_path / "next.json")).epsilon == 2.5


def test_the_folder_of_the_command_is_accepted_everywhere(tmp_path):
    table(3000).to_csv(tmp_path / "f.csv", index=False)
    (tmp_path / "s.json").write_text(json.dumps(SCHEMA))
    out = tmp_path / "model"
    command("fit", tmp_path / "f.csv", "--schema", tmp_path / "s.json", "--epsilon", 2, "--out", out)
    model = dperm.load(out)
    assert list(model.feature_names_in_) == ["a", "b"] and model.classes_.tolist() == ["no", "yes"]
    assert model.coef_.shape == (1, 2) and model.certificate_.epsilon == 2
    assert len(command("predict", out, tmp_path / "f.csv", "--json")["predictions"]) == 3000
    assert command("verify", out, "--json")["ok"]
    assert "accuracy" in command("evaluate", out, tmp_path / "f.csv", "--epsilon", 1, "--json")["metrics"]
    command("report", out, "--out", tmp_path / "again.html")
    (out / "certificate.json").write_text((out / "certificate.json").read_text().replace('"sha256": "', '"sha256": "0'))
    assert dperm.load(out).certificate_ is None  # a certificate of something else says nothing about this model
    with pytest.raises(AssertionError):
        command("verify", out)


def test_models_of_earlier_versions_and_damaged_ones(tmp_path):
    frame = table(500)
    model = dperm.LogisticRegression(3.0, classes=["no", "yes"], **BOUNDS).fit(frame[["a", "b"]], frame.t)
    record = json.loads(model.save(tmp_path / "m.json").read_text())
    old = {key: value for key, value in record.items() if key not in ("parameters", "columns", "certificate")}
    (tmp_path / "old.json").write_text(json.dumps(old))
    np.testing.assert_array_equal(dperm.load(tmp_path / "old.json").coef_, model.coef_)
    for change in ({"parameters": {"ledger": "x"}}, {"parameters": {"schema": "/etc/passwd"}}, {"parameters": {"epsilon": [1]}}):
        (tmp_path / "bad.json").write_text(json.dumps({**record, **change}))
        with pytest.raises(ValueError, match="damaged"):
            dperm.load(tmp_path / "bad.json")
    (tmp_path / "bad.json").write_text(json.dumps({**record, "w": [1.0, 2.0, 3.0]}))
    with pytest.raises(ValueError, match="other coefficients"):
        dperm.load(tmp_path / "bad.json")


# -- repeated fits ------------------------------------------------------------------------------------------------------


def test_repeated_fits_say_what_they_spend(tmp_path):
    frame = table(300)
    model = dperm.LogisticRegression(3.0, classes=["no", "yes"], **BOUNDS)
    for name, action in (
        ("cross_val_score", lambda: cross_val_score(model, frame[["a", "b"]], frame.t, cv=2)),
        ("GridSearchCV", lambda: GridSearchCV(model, {"radius": [1.0, 2.0]}, cv=2).fit(frame[["a", "b"]], frame.t)),
    ):
        with pytest.warns(dperm.PrivacyWarning, match=f"^{name} fits .*PrivateGridSearch.*ledger=") as heard:
            action()
        assert len({(one.filename, one.lineno, str(one.message)) for one in heard}) == 1  # so it is printed once
        assert heard[0].filename == __file__
    # A ledger counts them, and a search of our own pays once: nothing to warn of.
    ledger = dperm.Ledger.create(tmp_path / "l", dataset="x", epsilon=30, delta=1e-5)
    model.set_params(ledger=dperm.Ledger(tmp_path / "l", data=b"these people")).fit(frame[["a", "b"]], frame.t)
    cross_val_score(model, frame[["a", "b"]], frame.t, cv=2, error_score="raise")
    assert ledger.account().fits == 3


# -- intervals ----------------------------------------------------------------------------------------------------------


def test_intervals_that_cannot_come_out_are_refused_before_anything_is_spent(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (5000, 15)), rng.integers(0, 2, 5000)
    ledger = dperm.Ledger.create(tmp_path / "l", dataset="x", epsilon=9, delta=1e-5)
    model = dperm.LogisticRegression(1.0, bounds=(-1, 1), classes=[0, 1], intervals=True, method="objective", ledger=ledger)
    with pytest.raises(ValueError, match=r"About n = 14,000 or epsilon = 2\.8 would be enough.*Nothing was spent") as refused:
        model.fit(X, y)
    with pytest.raises(ValueError) as planned:
        model.plan(5000, 15)
    assert ledger.account().fits == 0 and str(planned.value) == str(refused.value)
    words = ["plan", "--n", 5000, "--d", 15, "--epsilon", 1, "--intervals", "--method", "objective"]
    with pytest.raises(ValueError, match="would be enough"):
        command(*words)
    # What is said to be enough is enough for columns that are spread evenly, and said to be unsure.
    model.set_params(epsilon=3.0)
    with pytest.warns(dperm.PrivacyWarning, match="INTERVALS MAY NOT COME OUT"):
        model.fit(X, y)
    assert np.isfinite(model.summary().standard_error).all()
    assert "standard deviation above about" in command(*[3 if word == 1 else word for word in words])["text"]
    # The default has intervals at every n and ε: wide ones, and the plan says how wide.
    assert "× as wide as without privacy" in command(*words[:-2])["text"]
    assert np.isfinite(model.set_params(epsilon=1.0, method="auto").fit(X, y).summary().standard_error).all()


# -- options of the command ---------------------------------------------------------------------------------------------


def test_the_command_takes_persons_weights_exposures_and_class_weights(tmp_path):
    frame = table(3000).assign(id=np.arange(3000) // 2, w=1.5, e=2.0)
    frame.to_csv(tmp_path / "f.csv", index=False)
    (tmp_path / "s.json").write_text(json.dumps(SCHEMA))
    start = ["fit", tmp_path / "f.csv", "--schema", tmp_path / "s.json", "--epsilon", 3, "--overwrite", "--out", tmp_path / "m"]
    plan = ["plan", "--schema", tmp_path / "s.json", "--epsilon", 3, "--n", 3000, "--json"]
    for words, bound in (
        (["--person", "id", "--max-rows-per-person", 2], ["--max-rows-per-person", 2]),
        (["--weight", "w", "--max-weight", 2], ["--max-weight", 2]),
        (["--class-weight", "yes=4"], ["--class-weight", "yes=4"]),
        (["--noise", "exact"], ["--noise", "exact"]),
        (["--relation", "zero-out", "--method", "gradient"], ["--relation", "zero-out", "--method", "gradient"]),
    ):
        command(*start, *words)
        fitted, planned = dperm.load(tmp_path / "m"), command(*plan, *bound)
        assert planned["mechanism"] == fitted.plan_.mechanism and planned["warnings"] == list(fitted.plan_.warnings)
        assert planned["stages"] == [{"name": s.name, "event": s.event.spec()} for s in fitted.plan_.stages]
        assert "w" not in fitted.feature_names_in_ and "id" not in fitted.feature_names_in_
        assert (fitted.certificate_.unit == "person") == ("--person" in words)
    counts = {**SCHEMA, "target": {"column": "c", "type": "count", "low": 0, "high": 9}}
    frame.assign(c=np.arange(3000) % 4).to_csv(tmp_path / "f.csv", index=False)
    (tmp_path / "s.json").write_text(json.dumps(counts))
    command(*start, "--exposure", "e", "--max-exposure", 3)
    assert dperm.load(tmp_path / "m").certificate_.verify().ok


def test_options_that_do_not_fit_are_refused_before_the_file_is_opened(tmp_path):
    (tmp_path / "s.json").write_text(json.dumps(SCHEMA))
    start = ["fit", tmp_path / "none.csv", "--schema", tmp_path / "s.json", "--epsilon", 3, "--out", tmp_path / "m"]
    for words, message in (
        (["--person", "id"], "--person without --max-rows-per-person"),
        (["--max-weight", 2], "--max-weight without --weight"),
        (["--exposure", "e", "--max-exposure", 2], "found --max-exposure"),
        (["--class-weight", "maybe=4"], "a class in no, yes, found 'maybe=4'"),
    ):
        with pytest.raises(ValueError, match=message):
            command(*start, *words)


# -- conventions --------------------------------------------------------------------------------------------------------


def test_reprs_are_short_and_say_the_budget():
    assert repr(dperm.LogisticRegression(epsilon=1.0)) == "LogisticRegression(epsilon=1.0)"
    assert repr(dperm.LogisticRegression(classes=[0, 1])) == "LogisticRegression(epsilon=1.0, classes=[0, 1])"
    frame = table(500)
    model = dperm.LogisticRegression(3.0, classes=["no", "yes"], relation="zero-out", **BOUNDS).fit(frame[["a", "b"]], frame.t)
    told = f"epsilon=3.0, delta=1e-06, relation='zero-out', unit='row', mechanism={model.certificate_.mechanism!r}"
    assert repr(model.certificate_) == f"Certificate({told})"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("C", "regularization="),
        ("alpha", "regularization="),
        ("penalty", "regularization="),
        ("data_norm", "x_norm="),
        ("max_iter", "method="),
        ("n_jobs", "Leave it out"),
        ("espilon", "Did you mean 'epsilon'"),
    ],
)
def test_parameters_of_other_libraries_are_explained(wrong, words):
    with pytest.raises(TypeError, match=f"found {wrong}=.*{words}"):
        dperm.LogisticRegression(**{wrong: 1.0})


def test_intervals_of_curves_are_found_under_their_own_name():
    with pytest.raises(TypeError, match=r"found intervals=\. Leave it out: .*shapes_\[column\]\.band"):
        dperm.GAMClassifier(1.0, intervals=True)
    model = dperm.GAMClassifier(3.0, classes=["no", "yes"], random_state=0, **BOUNDS).fit(table(500)[["a", "b"]], table(500).t)
    assert model.shapes_["a"].band is not None


@pytest.mark.parametrize("path", [3, None, b"m.json"])
def test_a_path_that_is_none_is_named(path):
    with pytest.raises(TypeError, match="Expected the path of a model"):
        dperm.load(path)


def test_the_epsilon_of_another_huber_regression_is_noticed():
    frame = table(500)
    X, y = frame[["a", "b"]], (frame.t == "yes").astype(float)
    with pytest.warns(dperm.PrivacyWarning, match="threshold="):
        dperm.HuberRegressor(epsilon=1.35, y_bounds=(0, 1), **BOUNDS).fit(X, y)
    dperm.HuberRegressor(epsilon=1.35, threshold=0.2, y_bounds=(0, 1), **BOUNDS).fit(X, y)


def test_score_takes_the_target_from_the_schema_as_fit_does():
    frame = table(2000)
    model = dperm.LogisticRegression(5.0, schema=SCHEMA).fit(frame)
    assert list(model.feature_names_in_) == ["a", "b"] and model.predict(np.zeros((3, 2))).shape == (3,)
    assert model.score(frame) == model.score(frame[["a", "b"]], frame.t) > 0.6
    counts = {**SCHEMA, "target": {"column": "c", "type": "numeric", "low": 0, "high": 3}}
    frame["c"] = np.arange(2000) % 3
    for name in ("LinearRegression", "QuantileRegressor", "PoissonRegressor"):
        fitted = getattr(dperm, name)(5.0, schema=counts).fit(frame)
        assert fitted.score(frame) == pytest.approx(fitted.score(frame[["a", "b"]], frame.c))


@pytest.mark.parametrize("classes", [[0, 1], [False, True], ["no", "yes"]])
@pytest.mark.parametrize("name", ["LogisticRegression", "LinearSVC", "GAMClassifier"])
def test_score_of_a_table_takes_classes_of_every_type_and_leaves_out_rows_without_a_label(name: str, classes: list[Any]) -> None:
    frame = pd.DataFrame({"a": np.linspace(0, 1, 2000)})
    frame["t"] = pd.Series([classes[int(value > 0.3)] for value in frame.a], dtype=object)
    target = {"column": "t", "type": "classes", "classes": classes}
    schema = {"columns": {"a": {"type": "numeric", "low": 0, "high": 1}}, "target": target}
    model = getattr(dperm, name)(5.0, schema=schema, random_state=0).fit(frame)
    right = np.asarray(model.predict(frame)) == np.array(frame.t.tolist())
    assert model.score(frame) == pytest.approx(right.mean()) and model.score(frame) > 0.9
    gaps, weight = frame.copy(), np.linspace(1, 2, 2000)
    gaps.loc[100:900, "t"] = [None, "another", np.nan] * 267
    known = np.r_[0:100, 901:2000]
    assert model.score(gaps) == pytest.approx(right[known].mean())
    assert model.score(gaps, sample_weight=weight) == pytest.approx(np.average(right[known], weights=weight[known]))
    with pytest.raises(ValueError, match="Expected rows with a label to score, found none"):
        model.score(gaps[100:900])


@pytest.mark.parametrize("name", ["LinearRegression", "QuantileRegressor", "PoissonRegressor", "GAMRegressor"])
def test_score_of_a_table_of_numbers_leaves_out_rows_without_a_number(name: str) -> None:
    frame = pd.DataFrame({"a": np.linspace(0, 1, 2000), "t": np.arange(2000) % 4})
    target = {"column": "t", "type": "numeric", "low": 0, "high": 4}
    schema = {"columns": {"a": {"type": "numeric", "low": 0, "high": 1}}, "target": target}
    gaps, known = frame.astype({"t": object}), np.r_[0:100, 900:2000]
    gaps.loc[100:899, "t"] = ["n/a", None] * 400
    model = getattr(dperm, name)(5.0, schema=schema, random_state=0).fit(gaps)
    assert model.score(gaps) == pytest.approx(model.score(frame.iloc[known]))


def test_a_summary_says_what_other_labels_count_as_whatever_the_labels_are() -> None:
    """Text for a regression, or classes in another spelling, fit in silence: an error about them would be about the rows."""
    X, y = np.linspace(0, 1, 400)[:, None], np.where(np.arange(400) % 2, "yes", "no").astype(object)
    right = dperm.LogisticRegression(epsilon=3, bounds=(0, 1), classes=["no", "yes"], random_state=0).fit(X, y)
    wrong = dperm.LogisticRegression(epsilon=3, bounds=(0, 1), classes=["No", "Yes"], random_state=0).fit(X, y)
    line = dperm.LinearRegression(epsilon=3, bounds=(0, 1), y_bounds=(0, 1), random_state=0).fit(X, y)
    assert [("Other labels", "count as empty") in model.summary().facts for model in (right, wrong)] == [True, True]
    assert ("Non-numbers", "count as empty") in line.summary().facts
    assert all("count as empty" in str(model.summary()) for model in (right, wrong, line))
