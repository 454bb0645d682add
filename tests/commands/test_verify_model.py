"""`dperm verify --model` compares all that `dperm.load` reads with the certificate, not the coefficients alone."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dperm
from alterations import leaves, other
from dperm.cli import app
from dperm.commands.agreeing import model_disagreements
from dperm.estimators.saving import model_record
from dperm.walk.certificate import Certificate

pytestmark = pytest.mark.filterwarnings("ignore::dperm.words.notices.PrivacyWarning")
RNG = np.random.default_rng(0)
N = 400
X = RNG.uniform(-1, 1, (N, 2))
TABLE = pd.DataFrame(
    {"age": 50 + 40 * X[:, 0], "town": np.where(X[:, 1] > 0, "Aa", "Bb"), "sick": np.where(X[:, 0] > 0, "yes", "no")}
)
SCHEMA = {
    "columns": {"age": {"type": "numeric", "low": 0, "high": 100}, "town": {"type": "categorical", "levels": ["Aa", "Bb"]}},
    "target": {"column": "sick", "type": "classes", "classes": ["no", "yes"]},
}
USUAL: dict[str, Any] = {"epsilon": 5.0, "random_state": 0}
PLACED = USUAL | {"bounds": (-1, 1)}
COUNTS = RNG.poisson(np.exp(X[:, 0]))


def edited() -> dperm.GAMRegressor:
    model = dperm.GAMRegressor(y_bounds=(-1, 1), **PLACED | {"epsilon": 50.0}).fit(X, X[:, 0])
    return model.edited("x0", lambda grid, value: value + 0.1)


MODELS: dict[str, Callable[[], Any]] = {
    "classes of a table": lambda: dperm.LogisticRegression(schema=SCHEMA, **USUAL).fit(TABLE),
    "numbers": lambda: dperm.LinearRegression(y_bounds=(-1, 1), radius=2.0, **PLACED).fit(X, X[:, 0]),
    "quantile": lambda: dperm.QuantileRegressor(y_bounds=(-1, 1), quantile=0.8, **PLACED).fit(X, X[:, 0]),
    "two columns": lambda: dperm.Lasso(y_bounds=(-1, 1), n_nonzero_coefs=1, **PLACED).fit(X, X[:, 0]),
    "counts": lambda: dperm.PoissonRegressor(y_bounds=(0, 20), **PLACED).fit(X, COUNTS),
    "edited curves": edited,
    "network": lambda: dperm.MLPClassifier(classes=[0, 1], hidden=2, steps=3, components=2, **PLACED).fit(X, X[:, 0] > 0),
}
# What no certificate states (docs/certificate.md): names of classes, the range of a target in its own units, words about the fit.
UNSTATED = ("extra.classes", "extra.y_bounds", "extra.y_high", "extra.unit", "extra.max_exposure", "schema.name", "extra.counted")
UNSTATED += ("extra.shapes.edits", "schema.target.column")
UNREAD = tuple(f"parameters.{name}" for name in ("method", "missing", "intervals", "noise", "centred_rows"))


def reasons(record: Any, model: Any, folder: Path) -> list[str]:
    file = folder / "model.json"
    file.write_text(json.dumps(record))
    claim = model.certificate_
    return model_disagreements(file, claim)


@pytest.mark.parametrize("name", MODELS)
def test_every_altered_leaf_of_a_model_is_found(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    record = json.loads(json.dumps(model_record(model)))
    assert reasons(record, model, tmp_path) == []
    passed = set()
    for path, value in leaves(record):
        if any(isinstance(part, int) and part > 1 for part in path):
            continue  # later entries of a long list are like the first
        altered = copy.deepcopy(record)
        place = altered
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = other(value)
        if not reasons(altered, model, tmp_path):
            passed.add(".".join(str(part) for part in path if not isinstance(part, int)))
    unread = UNREAD + (("parameters.regularization",) if name == "two columns" else ())  # a selection of columns has none
    assert {path for path in passed if not path.startswith((*UNSTATED, *unread))} == set()


def said(folder: Path, *more: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["verify", str(folder), "--allow-seeded", *more])
    return done.exit_code, " ".join(done.output.split())


def place(record: Any, path: str, value: Any) -> None:
    *way, last = path.split(".")
    for part in way:
        record = record[int(part) if part.isdigit() else part]
    record[int(last) if last.isdigit() else last] = value


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("encoding.low.0", -50.0, "encoding.low[0] says -50.0"),
        ("encoding.names", ["town=Bb", "town=Aa", "age"], "encoding.names[0]"),
        ("fit_intercept", False, "cannot be compared"),
        ("schema.columns.age.high", 200, "schema: its encoding.high[0] says 200"),
        ("schema.columns.town.levels", ["Bb", "Aa"], "schema: its encoding.names[1]"),
        ("extra.classes", ["no", "yes", "perhaps"], "coefficients that do not fit the classes"),
        ("extra.classes", ["yes", "never"], "extra.classes says ['yes', 'never']"),
        ("columns", ["town", "age"], "columns are others than those of the schema"),
        ("estimator", "Ridge", "cannot be compared"),
        ("parameters.epsilon", 0.1, "parameters.epsilon says 0.1"),
        ("parameters.relation", "zero-out", "parameters.relation says 'zero-out'"),
        ("w.0", 9.0, "coefficients are not the certified ones"),
        ("w.0", "0.25", "coefficients are not the certified ones"),
    ],
)
def test_the_field_that_was_altered_is_named(path: str, value: object, words: str, tmp_path: Path) -> None:
    MODELS["classes of a table"]().save(tmp_path / "m")
    assert said(tmp_path / "m")[0] == 0
    file = tmp_path / "m" / "model.json"
    record = json.loads(file.read_text())
    place(record, path, value)
    file.write_text(json.dumps(record))
    code, text = said(tmp_path / "m")
    assert code == 1 and words in text


@pytest.mark.parametrize(
    ("name", "path", "value", "words"),
    [
        ("quantile", "parameters.quantile", 0.2, "lead to the loss {'name': 'quantile', 'level': 0.2}"),
        ("two columns", "parameters.n_nonzero_coefs", 7, "parameters.n_nonzero_coefs says 7"),
        ("numbers", "parameters.radius", "2.0", "cannot be compared"),
        ("numbers", "extra.y_bounds", [1.0, -1.0], "a range of the target that is none"),
        ("edited curves", "extra.shapes.edited.0", "0.5", "edited shapes that do not fit"),
    ],
)
def test_what_a_parameter_means_is_compared_and_what_is_no_number_refused(
    name: str, path: str, value: object, words: str, tmp_path: Path
) -> None:
    model = MODELS[name]()
    record = json.loads(json.dumps(model_record(model)))
    place(record, path, value)
    assert any(words in reason for reason in reasons(record, model, tmp_path))


@pytest.mark.parametrize(("kind", "words"), [("HuberRegressor", "lead to the loss"), ("LinearRegression", "verified")])
def test_another_estimator_of_the_same_numbers_is_found(kind: str, words: str, tmp_path: Path) -> None:
    MODELS["numbers"]().save(tmp_path / "m")
    file = tmp_path / "m" / "model.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"estimator": kind}))
    assert words in said(tmp_path / "m")[1]


def test_a_certificate_inside_the_model_or_beside_it_is_the_one_that_was_verified(tmp_path: Path) -> None:
    model = MODELS["numbers"]()
    (tmp_path / "c.json").write_text(model.certificate_.to_json())
    model.save(tmp_path / "m.json")
    assert said(tmp_path / "c.json", "--model", str(tmp_path / "m.json"))[0] == 0
    record = json.loads((tmp_path / "m.json").read_text())
    record["certificate"]["guarantee"]["epsilon"] = 0.1
    (tmp_path / "m.json").write_text(json.dumps(record))
    code, text = said(tmp_path / "c.json", "--model", str(tmp_path / "m.json"))
    assert code == 1 and "certificate.guarantee.epsilon says 0.1" in text
    model.save(tmp_path / "m")
    claim = json.loads(model.certificate_.to_json())
    claim["guarantee"]["epsilon"] = 0.1
    (tmp_path / "m" / "certificate.json").write_text(json.dumps(claim))
    code, text = said(tmp_path / "c.json", "--model", str(tmp_path / "m" / "model.json"))
    assert code == 1 and "certificate.json beside the model is another one" in text


def test_edited_shapes_verify_and_are_said(tmp_path: Path) -> None:
    edited().save(tmp_path / "m")
    code, text = said(tmp_path / "m")
    assert code == 0 and "edited after the release: x0:" in text
    file = tmp_path / "m" / "model.json"
    kept = file.read_text()
    for path, value, words in (
        ("extra.shapes.edits", [], "which edits does not name"),
        ("extra.shapes.edits", ["x1: changed"], "which edits does not name"),
        ("extra.shapes.edits", ["x0: changed", "x9: changed"], "names a column that has no shape"),
        ("extra.shapes.edited.2", 3.0, "changes coefficients that are no shape"),
        ("extra.shapes.edited.0", 3.0, "a slope beside its edited shape"),
        ("extra.shapes.shares.0.0", 0.9, "extra.shapes.shares[0][0] says 0.9"),
        ("extra.shapes.noise.1.0", 1e-9, "extra.shapes.noise[1] is not what follows"),
    ):
        record = json.loads(kept)
        place(record, path, value)
        file.write_text(json.dumps(record))
        code, text = said(tmp_path / "m")
        assert code == 1 and words in text, (path, text)


def test_scores_belong_to_the_model_as_it_predicts(tmp_path: Path) -> None:
    model = MODELS["classes of a table"]()
    (tmp_path / "e.json").write_text(dperm.evaluate(model, TABLE, epsilon=5.0, random_state=0).to_json())
    model.save(tmp_path / "m.json")
    asked = (tmp_path / "e.json", "--model", str(tmp_path / "m.json"))
    assert said(*asked)[0] == 0
    record = json.loads((tmp_path / "m.json").read_text())
    for path, value, words in (
        ("extra.classes", ["yes", "no"], "lead to labels ('yes', 'no')"),
        ("encoding.high.0", 1000.0, "encoding.high[0] says 1000.0"),
        ("parameters.epsilon", 0.1, "parameters.epsilon says 0.1"),
    ):
        altered = copy.deepcopy(record)
        place(altered, path, value)
        (tmp_path / "m.json").write_text(json.dumps(altered))
        code, text = said(*asked)
        assert code == 1 and words in text, (path, text)
    model.save(tmp_path / "m")  # the same where the certificate lies beside the model
    file = tmp_path / "m" / "model.json"
    assert said(tmp_path / "e.json", "--model", str(file))[0] == 0
    altered = json.loads(file.read_text())
    place(altered, "encoding.high.0", 1000.0)
    file.write_text(json.dumps(altered))
    code, text = said(tmp_path / "e.json", "--model", str(file))
    assert code == 1 and "encoding.high[0] says 1000.0" in text


OLD = sorted((Path(__file__).parents[1] / "fixtures").glob("0.[234].0/*.json"))


@pytest.mark.parametrize("path", OLD, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_models_of_older_versions_agree_with_their_certificates(path: Path, tmp_path: Path) -> None:
    stored = json.loads(path.read_text())
    record = stored.get("model", stored)
    (tmp_path / "model.json").write_text(json.dumps(record))
    assert model_disagreements(tmp_path / "model.json", Certificate(record["certificate"])) == []
    assert len(OLD) >= 11


BY_OBJECT: dict[str, Callable[[Any], Any]] = {
    "LinearSVC": lambda method: dperm.LinearSVC(classes=[0, 1], method=method, **PLACED).fit(X, X[:, 0] > 0),
    "LogisticRegression": lambda method: dperm.LogisticRegression(classes=[0, 1], method=method, **PLACED).fit(X, X[:, 0] > 0),
    "Lasso": lambda method: dperm.Lasso(y_bounds=(-1, 1), method=method, **PLACED).fit(X, X[:, 0]),
    "HuberRegressor": lambda method: dperm.HuberRegressor(y_bounds=(-1, 1), method=method, **PLACED).fit(X, X[:, 0]),
}
NEVER = {("Lasso", name) for name in ("Newton", "Objective", "Output", "ScaledObjective")}
NEVER |= {("HuberRegressor", "ScaledObjective")}


@pytest.mark.parametrize("method", ["Gradient", "Newton", "Objective", "Output", "ScaledObjective", "Zeroth"])
@pytest.mark.parametrize("kind", BY_OBJECT)
def test_a_mechanism_passed_as_an_object_leads_to_its_own_loss_and_penalty(kind: str, method: str, tmp_path: Path) -> None:
    """A model's file does not hold the object, and a method by name was read in its place."""
    if (kind, method) in NEVER:
        pytest.skip("refused by its conditions")
    model = BY_OBJECT[kind](getattr(dperm.mechanisms, method)())
    record = json.loads(json.dumps(model_record(model)))
    assert "method" not in record["parameters"]
    assert reasons(record, model, tmp_path) == []
    if kind == "LinearSVC":
        record["parameters"]["loss"] = "squared-hinge" if model.loss != "squared-hinge" else "hinge"
        assert reasons(record, model, tmp_path) != []


@pytest.mark.parametrize("name", ["classes of a table", "edited curves"])
def test_a_model_that_was_saved_into_one_file_is_verified_and_reported_from_it(name: str, tmp_path: Path) -> None:
    """`model.save("a.json")` writes the certificate into the file; the command asked for a certificate.json, which is nowhere."""
    file = tmp_path / "a.json"
    MODELS[name]().save(file)
    done = CliRunner().invoke(app, ["verify", str(file), "--allow-seeded"])
    assert done.exit_code == 0 and done.output.startswith("verified: ")
    assert ("edited after the release: x0" in done.output) == (name == "edited curves")
    pages = (("report", "a.html", "Released with"), ("card", "a.md", "Model card"), ("registry", "", "seeded noise"))
    for command, out, words in pages:
        asked = [command, str(file), *(["--out", str(tmp_path / out)] if out else [])]
        done = CliRunner().invoke(app, asked)
        told = (tmp_path / out).read_text(encoding="utf-8") if out else str(done.exception)
        assert words in told and (done.exit_code == 0) == bool(out), told  # seeded noise is nothing to register
    assert ("Predicting sick" in (tmp_path / "a.html").read_text(encoding="utf-8")) == (name == "classes of a table")
    record = json.loads(file.read_text(encoding="utf-8"))
    altered = copy.deepcopy(record)
    altered["encoding"]["high"][0] += 1.0
    file.write_text(json.dumps(altered), encoding="utf-8")
    assert CliRunner().invoke(app, ["verify", str(file), "--allow-seeded"]).exit_code == 1
    del record["certificate"]
    file.write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(ValueError, match=r"found a model\. Pass certificate\.json"):
        CliRunner().invoke(app, ["verify", str(file)], catch_exceptions=False)


def test_what_to_pass_for_seeded_noise_is_said_in_python_and_on_the_command_line(tmp_path: Path) -> None:
    model = MODELS["numbers"]()
    assert "pass allow_seeded=True (--allow-seeded) to check the rest" in model.certificate_.verify().reasons[0]
    done = CliRunner().invoke(app, ["verify", str(model.save(tmp_path / "a.json"))])
    assert done.exit_code == 1 and "(pass --allow-seeded to check the rest)" in done.output
