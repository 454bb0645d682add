"""Certificates, models, evaluations, searches and ledgers written by version 0.1.0 still load and verify."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import dperm
from dperm.estimators.model_file import model_from_record
from dperm.estimators.search import SearchCertificate
from dperm.evaluation.evaluate import Evaluation
from dperm.release.ledger.book import Ledger
from dperm.walk.certificate import Certificate
from estimator_cases import rows
from places import FIXTURES

OLD = FIXTURES / "0.1.0"
CERTIFICATES = sorted((OLD / "certificates").glob("*.json"))


@pytest.mark.parametrize("path", CERTIFICATES, ids=lambda path: path.stem)
def test_an_old_certificate_verifies(path: Path) -> None:
    verdict = Certificate.load(path).verify(allow_seeded=True, accept_assumptions=True)
    assert verdict.ok, verdict.reasons


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_an_old_fit_with_intervals_verifies_and_has_its_summary(kind: str) -> None:
    model = dperm.load(OLD.with_name("0.2.0") / f"inference-{kind}.json")
    verdict = model.certificate_.verify(allow_seeded=True)
    assert verdict.ok, verdict.reasons
    estimate = model.summary().estimate
    assert np.allclose(estimate, np.r_[np.ravel(model.coef_), np.ravel(model.intercept_)], rtol=1e-9)


@pytest.mark.parametrize("kind", ["quantile", "counts"])
def test_fits_with_intervals_of_0_7_verify_and_say_what_they_estimate(kind: str) -> None:
    """The score of a quantile was smoothed, and the clip of counts had no regard for their tail."""
    model = dperm.load(FIXTURES / "0.7.0" / f"inference-{kind}.json")
    verdict = model.certificate_.verify(allow_seeded=True)
    assert verdict.ok, verdict.reasons
    words = {"quantile": "smoothed over ±0.99", "counts": "clipped at 3.58"}[kind]
    assert words in model.summary().note


ADDITIVE = sorted(path for version in ("0.3.0", "0.4.0") for path in (FIXTURES / version).glob("additive-*.json"))


@pytest.mark.parametrize("path", ADDITIVE, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_an_old_additive_model_verifies_and_predicts_what_it_did(path: Path, tmp_path: Path) -> None:
    stored = json.loads(path.read_text())
    (tmp_path / "model.json").write_text(json.dumps(stored["model"]))
    model = dperm.load(tmp_path / "model.json")
    verdict = model.certificate_.verify(allow_seeded=True)
    assert verdict.ok, verdict.reasons
    rows = np.array(stored["rows"])
    if path.stem == "additive-logistic":
        answers = model.predict_proba(rows)[:, 1]
    else:
        answers = model.decision_function(rows) if path.stem == "additive-hinge" else model.predict(rows)
    assert np.allclose(answers, stored["predictions"], rtol=1e-9)
    assert len(ADDITIVE) == 9


def test_every_mechanism_has_an_old_certificate() -> None:
    assert len(CERTIFICATES) == 56
    found = {json.loads(path.read_text())["mechanism"]["name"] for path in CERTIFICATES}
    assert {
        "gradient", "scaled-gradient", "scaled-objective", "scaled-quantile", "scaled-poisson", "objective", "output", "newton",
        "zeroth", "statistics", "selection", "network", "exponential", "finite-exponential", "quantile-exponential",
    } <= found  # fmt: skip


@pytest.mark.parametrize("path", sorted((OLD / "models").glob("*.json")), ids=lambda path: path.stem)
def test_an_old_model_predicts_what_it_did(path: Path) -> None:
    stored = json.loads(path.read_text())
    answers = model_from_record(stored["model"]).predict(np.array(stored["rows"]))
    if isinstance(stored["predictions"][0], float):
        assert np.allclose(answers, stored["predictions"], rtol=1e-9)
    else:
        assert answers.tolist() == stored["predictions"]


@pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])
def test_an_old_evaluation_verifies(kind: str) -> None:
    verdict = Evaluation.load(OLD / f"evaluation-{kind}.json").verify(allow_seeded=True)
    assert verdict.ok, verdict.reasons


def test_an_old_search_verifies() -> None:
    verdict = SearchCertificate.load(OLD / "search.json").verify(allow_seeded=True)
    assert verdict.ok, verdict.reasons


def test_an_old_ledger_opens_verifies_and_takes_another_debit(tmp_path: Path) -> None:
    file = tmp_path / "people.ledger"
    shutil.copy(OLD / "people.ledger", file)
    ledger = Ledger.open(file)
    assert ledger.account().fits == 2
    seen = json.loads((OLD / "certificates" / "logistic-with-ledger.json").read_text())
    assert ledger.verify([seen], allow_seeded=True) == []
    X, y = rows("logistic")
    model = dperm.LogisticRegression(epsilon=0.1, bounds=(-1, 1), classes=[0, 1], ledger=file).fit(X, y)
    assert ledger.account().fits == 3
    assert ledger.verify([seen, model.certificate_.record], allow_seeded=True) == []
