"""`dperm card` and `dperm registry`: what the certificate states is filled in, what it does not state is left to people."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import dperm
from dperm.cli import app
from dperm.pages.registry import entry, to_yaml
from dperm.pages.subject import subject_of

yaml = pytest.importorskip("yaml")
RNG = np.random.default_rng(8)
X = RNG.uniform(-1, 1, (1500, 2))
Y = (X[:, 0] > 0).astype(int)


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("fit") / "model"
    model = dperm.LogisticRegression(2.0, bounds=(-1, 1), classes=["no", "yes"]).fit(X, np.where(Y, "yes", "no"))
    model.save(place)
    (place / "evaluation.json").write_text(dperm.evaluate(model, X, np.where(Y, "yes", "no"), epsilon=3.0).to_json())
    return place


def test_a_card_states_privacy_data_and_scores(folder, tmp_path):
    run("card", folder, "--evaluation", folder / "evaluation.json", "--out", tmp_path / "card.md")
    text = (tmp_path / "card.md").read_text(encoding="utf-8")
    certificate = dperm.Certificate.load(folder / "certificate.json")
    assert certificate.statement in text and "| epsilon | 2 |" in text and "baseline accuracy" in text
    assert "numeric, -1 to 1" in text and text.count("TO WRITE") == 5 and "dperm verify" in text and "no, yes" in text
    run("card", folder / "certificate.json", "--out", tmp_path / "card.html")
    assert "<h1>Model card" in (tmp_path / "card.html").read_text(encoding="utf-8")


def test_a_registry_entry_reads_back_as_yaml(folder):
    found = yaml.safe_load(run("registry", folder, "--curator", 'A: "b" #c', "--use", "- x"))
    deployment = found["deployment"]
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 2.0, "delta": 1e-6}
    assert deployment["privacy_loss"]["privacy_unit"] == "record-level" and deployment["dp_flavor"]["name"] == "Approximate DP"
    assert deployment["product"]["data_curators"] == ['A: "b" #c'] and deployment["product"]["intended_use"] == "- x"
    assert "the number of records" in deployment["dp_flavor"]["unprotected_quantities"]
    assert found == json.loads(run("registry", folder, "--curator", 'A: "b" #c', "--use", "- x", "--json"))


@pytest.mark.filterwarnings("ignore::dperm.PrivacyWarning")
def test_pages_read_coefficients_that_were_packed(tmp_path):
    rows, labels = RNG.uniform(-1, 1, (20, 40)), RNG.integers(3, size=20)
    model = dperm.GAMClassifier(2.0, bounds=(-1, 1), classes=[0, 1, 2], relation="zero-out", random_state=0).fit(rows, labels)
    made = entry(subject_of(model))["deployment"]
    assert isinstance(model.certificate_.record["coefficients"]["encoded"], dict)
    assert f"{model.w_.size} released coefficients" in json.dumps(made)
    assert "<h1" in model.report(tmp_path / "report.html").read_text(encoding="utf-8")


def test_persons_and_pure_privacy_are_said():
    groups = np.arange(1500) // 3
    model = dperm.LogisticRegression(1.0, bounds=(-1, 1), classes=[0, 1], max_rows_per_person=3).fit(X, Y, groups=groups)
    made = entry(subject_of(model))["deployment"]
    assert made["privacy_loss"]["privacy_unit"] == "user-level" and "at most 3" in made["dp_flavor"]["bound_on_input_distance"]
    pure = dperm.LogisticRegression(1.0, delta=0, bounds=(-1, 1), classes=[0, 1]).fit(X, Y)
    flavor = entry(subject_of(pure))["deployment"]["dp_flavor"]
    assert flavor["name"] == "Pure DP" and "delta" not in flavor["bound_on_output_distance"]


def test_seeded_and_altered_releases_are_not_registered(folder, tmp_path):
    seeded = dperm.LogisticRegression(2.0, bounds=(-1, 1), classes=[0, 1], random_state=0).fit(X, Y)
    (tmp_path / "c.json").write_text(seeded.certificate_.to_json())
    with pytest.raises(ValueError, match="seeded"):
        run("registry", tmp_path / "c.json")
    altered = (folder / "certificate.json").read_text().replace('"epsilon": 2.0', '"epsilon": 0.2', 1)
    (tmp_path / "d.json").write_text(altered)
    for name in ("card", "registry"):
        with pytest.raises(ValueError, match="verifies"):
            run(name, tmp_path / "d.json")


def test_no_name_becomes_structure():
    bad = {"a": {"b: c": "x\n- y: z", "n": 1e-8}, "l": ["#", "{", "\u2028", "yes"]}
    assert yaml.safe_load(to_yaml({"a": {"t": bad["a"]["b: c"], "n": 1e-8}, "l": bad["l"]})) == {
        "a": {"t": bad["a"]["b: c"], "n": 1e-8},
        "l": bad["l"],
    }
