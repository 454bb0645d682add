"""What a certificate says about whom it protects and what it rests on; and that neither a failed fit nor an error says more."""

from __future__ import annotations

import copy
import json
import pickle
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import dperm
from dperm.cli import app
from dperm.estimators import PrivateGridSearch
from dperm.estimators.search import SearchCertificate
from dperm.evaluation.evaluate import evaluate
from dperm.mechanisms.exponential.continuous import Exponential
from dperm.mechanisms.gradient import Gradient
from dperm.release.ledger.book import Ledger
from dperm.release.plan import Target
from dperm.rows import DaskRows, DeviceRows, MemoryRows
from dperm.tables.persons import person_weights, unit_of
from dperm.walk.certificate import Certificate

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (400, 2))
Y = (X[:, 0] > 0).astype(int)
PEOPLE = np.arange(400) // 2


def logistic(**options):
    return dperm.LogisticRegression(**{"epsilon": 1.0, "bounds": (-1, 1), "classes": [0, 1], "method": "gradient", **options})


# -- the unit ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize(
    ("relation", "words"),
    [
        ("replace-one", "replacing one person's rows"),
        ("zero-out", "replacing one person's rows"),
        ("add-remove", "adding or removing one person's rows"),
    ],
)
def test_rows_with_owners_are_certified_per_person_also_when_one_row_counts(k, relation, words):
    nominal = {"nominal_n": 400} if relation == "add-remove" else {}
    model = logistic(max_rows_per_person=k, relation=relation, **nominal).fit(X, Y, groups=PEOPLE)
    certificate = model.certificate_
    assert certificate.unit == "person" and certificate.record["target"]["unit"] == "person"
    assert words in certificate.statement and f"at most {k} count" in certificate.statement
    assert "one row" not in certificate.statement and certificate.verify().ok
    plain = logistic(relation=relation, **nominal).fit(X, Y).certificate_
    assert plain.unit == "row" and "person" not in plain.statement


def test_other_estimators_and_scores_state_the_unit_too():
    mean = dperm.MeanEstimator(epsilon=1.0, bounds=(-1, 1), max_rows_per_person=1).fit(X, groups=PEOPLE)
    median = dperm.MedianEstimator(epsilon=1.0, bounds=(-1, 1), max_rows_per_person=1).fit(X[:, :1], groups=PEOPLE)
    scores = evaluate(logistic().fit(X, Y), X, Y, epsilon=1.0, groups=PEOPLE, max_rows_per_person=1)
    for found in (mean.certificate_, median.certificate_, scores):
        assert found.record["guarantee"]["unit"] == "person" and found.verify().ok
        assert found.record["target"]["unit"] == "person"
    assert "per person" in scores.statement


def test_a_ledger_per_row_refuses_a_fit_per_person_and_the_other_way_round(tmp_path):
    rows = Ledger.create(tmp_path / "rows", dataset="x", epsilon=9.0, delta=1e-5)
    people = Ledger.create(tmp_path / "people", dataset="x", epsilon=9.0, delta=1e-5, unit="person")
    owned = logistic(max_rows_per_person=1)
    with pytest.raises(ValueError, match=r"Expected a fit per row, .* found one per person"):
        owned.set_params(ledger=rows).fit(X, Y, groups=PEOPLE)
    with pytest.raises(ValueError, match=r"Expected a fit per person, .* found one per row"):
        logistic(ledger=people).fit(X, Y)
    model = owned.set_params(ledger=people).fit(X, Y, groups=PEOPLE)
    assert people.entries()[1]["plan"]["unit"] == "person" and rows.account().fits == 0
    assert people.verify([dict(model.certificate_.record)]) == [] and model.certificate_.verify().ok


def test_the_unit_of_a_certificate_cannot_be_altered():
    record = copy.deepcopy(dict(logistic(max_rows_per_person=1).fit(X, Y, groups=PEOPLE).certificate_.record))
    record["target"]["unit"] = record["guarantee"]["unit"] = "row"
    assert not Certificate(record).verify().ok
    several = copy.deepcopy(dict(logistic(max_rows_per_person=2).fit(X, Y, groups=PEOPLE).certificate_.record))
    several["target"]["unit"] = "row"
    assert not Certificate(several).verify().ok


@pytest.mark.parametrize("k", [None, 3])
def test_a_record_that_does_not_state_its_unit_has_the_old_one(k):
    """A row, or a person where several rows count, in the words of then."""
    options = {} if k is None else {"max_rows_per_person": k}
    record = copy.deepcopy(dict(logistic(**options).fit(X, Y, **({} if k is None else {"groups": PEOPLE})).certificate_.record))
    del record["target"]["unit"]
    for side in ("low", "high"):  # nor did it state the loss
        record["constants"].pop(f"loss_at_{side}", None)
    if k is not None:
        before, after = record["statement"].split(", with n")
        start = before.split(" for ")[0]
        record["statement"] = f"{start} for replacing one person (at most 3 rows) by any other, with n{after}"
        record["statement"] = record["statement"].replace("about that person", "about that record")
    assert Certificate(record).verify().reasons == ()
    assert Target.declare(epsilon=1.0, n=10, rows_per_person=k or 1).unit == ("row" if k is None else "person")


def test_one_person_moves_k_rows_and_a_row_with_its_id_moves_more():
    """Why the unit is the person: with k = 1 the first row of "a" counts. Giving that row to "b", who has one, drops b's row and
    lets in the second of "a": three weights change. Replacing the person "a" by a new one changes those of one row."""
    before, k = person_weights(["a", "a", "b"], 1, None, 3)
    row = person_weights(["b", "a", "b"], 1, None, 3)[0]
    person = person_weights(["c", "c", "b"], 1, None, 3)[0]
    assert (before.tolist(), row.tolist(), person.tolist(), k) == ([1, 0, 1], [1, 1, 0], [1, 0, 1], 1)
    assert unit_of(["a"]) == "person" and unit_of(None) == "row"


def test_reports_speak_of_a_person_only_where_one_is_protected():
    from dperm.pages.content import sections
    from dperm.pages.subject import from_certificate

    titles = [part.title for part in sections(from_certificate(logistic().fit(X, Y).certificate_))]
    assert "What this means for one record" in titles
    owned = logistic(max_rows_per_person=1).fit(X, Y, groups=PEOPLE).certificate_
    assert "What this means for one person" in [part.title for part in sections(from_certificate(owned))]


# -- assumptions -------------------------------------------------------------------------------------------------------

ASSUMED = Gradient(bound="assumed", assumed_bound=1e-9)


def test_an_assumption_is_in_the_statement_and_must_be_accepted(tmp_path):
    ledger = Ledger.create(tmp_path / "l", dataset="x", epsilon=9.0, delta=1e-5)
    certificate = logistic(method=ASSUMED, ledger=ledger).fit(X, Y).certificate_
    assert "rests on an assumption that nothing enforces: UNVERIFIED: every row's gradient" in certificate.statement
    assert any("--accept-assumptions" in reason for reason in certificate.verify().reasons)
    assert certificate.verify(accept_assumptions=True).ok
    assert any("--accept-assumptions" in reason for reason in ledger.verify())
    assert ledger.verify([dict(certificate.record)], accept_assumptions=True) == []
    file = tmp_path / "certificate.json"
    file.write_text(certificate.to_json())
    refused, taken = (CliRunner().invoke(app, ["verify", str(file), *more]) for more in ([], ["--accept-assumptions"]))
    assert refused.exit_code == 1 and "NOT VERIFIED" in refused.output and "UNVERIFIED" in refused.output
    assert taken.exit_code == 0 and "rests on an assumption" in taken.output


def test_a_search_cannot_launder_an_assumption(tmp_path):
    base = dperm.LogisticRegression(bounds=(-1, 1), classes=[0, 1], method=ASSUMED)
    search = PrivateGridSearch(base, {"radius": [1.0, 5.0]}, epsilon=1.0, expected_runs=3).fit(X, Y)
    assert "rests on an assumption" in search.certificate_.statement
    assert not search.certificate_.verify().ok and search.certificate_.verify(accept_assumptions=True).ok
    file = tmp_path / "search.json"
    file.write_text(search.certificate_.to_json())
    assert CliRunner().invoke(app, ["verify", str(file)]).exit_code == 1
    assert CliRunner().invoke(app, ["verify", str(file), "--accept-assumptions"]).exit_code == 0
    record = copy.deepcopy(dict(search.certificate_.record))
    record["statement"] = re.sub(r" This rests on an assumption.*", "", record["statement"])
    assert not SearchCertificate(record).verify(accept_assumptions=True).ok


def test_an_older_record_of_an_assumption_verifies_as_it_was_once_it_is_accepted():
    record = copy.deepcopy(dict(logistic(method=ASSUMED).fit(X, Y).certificate_.record))
    del record["target"]["unit"]
    for side in ("low", "high"):  # nor did it state the loss
        record["constants"].pop(f"loss_at_{side}", None)
    record["statement"] = re.sub(r" This rests on an assumption.*", "", record["statement"])
    assert not Certificate(record).verify().ok and Certificate(record).verify(accept_assumptions=True).ok


def test_a_heuristic_sampler_is_an_assumption_too():
    options = {"epsilon": 2.0, "bounds": (-1, 1), "classes": [0, 1], "radius": 2.0, "fit_intercept": False}
    model = dperm.LogisticRegression(**options, method=Exponential(sampler="langevin")).fit(X[:50], Y[:50])
    assert "HEURISTIC" in model.certificate_.statement and not model.certificate_.verify().ok
    assert model.certificate_.verify(accept_assumptions=True).ok


# -- what a failed fit keeps, and what errors say ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "arguments"),
    [
        (dperm.LogisticRegression(bounds=(-1, 1)), (X, Y)),  # no classes
        (dperm.LogisticRegression(bounds=(-1, 1), classes=[0, 1], delta=0.9), (X, Y)),
        (dperm.LogisticRegression(bounds=(-1, 1), classes=[0, 1]), (X, Y[:-1])),
        (dperm.LogisticRegression(classes=[0, 1]), (X, Y)),  # no bounds
        (dperm.LogisticRegression(bounds=(-1, 1), classes=[0, 1], delta=0, method="gradient"), (X, Y)),
        (dperm.LinearRegression(bounds=(-1, 1)), (X, Y)),
        (dperm.Lasso(bounds=(-1, 1), y_bounds=(0, 1), delta=0), (X, Y)),
        (dperm.MeanEstimator(), (X,)),
        (dperm.MedianEstimator(bounds=(-1, 1), delta=0.9), (X[:, :1],)),
        (dperm.FiniteClassLearner(classes=[0, 1], hypotheses="stumps"), (X, Y)),
    ],
)
def test_a_fit_that_fails_keeps_no_rows(model, arguments, tmp_path):
    Ledger.create(tmp_path / "l", dataset="x", epsilon=5, delta=1e-5)
    model = copy.deepcopy(model).set_params(ledger=str(tmp_path / "l"))
    with pytest.raises(ValueError, match=r"Expected|Found|requires|covers"):
        model.fit(*arguments)
    kept = pickle.dumps(model)
    assert X[7].tobytes() not in kept and X.tobytes()[:64] not in kept
    assert not [name for name, value in vars(model).items() if isinstance(value, np.ndarray) and value.size >= 100]


def mistakes():
    import dask.array as da
    import torch

    A, y = np.zeros((6321, 2)), np.zeros(6321)
    made = logistic(relation="add-remove", nominal_n=100, max_weight=2.0, max_rows_per_person=1)
    plain = logistic(relation="add-remove", nominal_n=100, max_weight=2.0)
    yield lambda: plain.fit(A, y[:-1])
    yield lambda: plain.fit(A[:-1], y)
    yield lambda: plain.fit(A, np.zeros((6321, 2)))
    yield lambda: plain.fit(A, y, sample_weight=np.ones(6320))
    yield lambda: made.fit(A, y, groups=np.arange(6320))
    yield lambda: plain.fit(A[:, 0], y)
    yield lambda: plain.fit(A[:, 0].tolist(), y)
    yield lambda: plain.fit(A[:, :0], y)
    yield lambda: plain.fit(A.reshape(6321, 2, 1), y)
    yield lambda: plain.set_params(bounds=[(0, 0, 0), (1, 1, 1)]).fit(A, y)
    yield lambda: MemoryRows(A, y[:-1])
    yield lambda: MemoryRows(A, y, np.ones(6320))
    yield lambda: DeviceRows(torch.zeros((6321, 2)), torch.zeros(6320))
    yield lambda: DaskRows(da.zeros((6321, 2)), da.zeros(6320))
    yield lambda: dperm.MeanEstimator(
        epsilon=1.0, bounds=(0, 1), relation="add-remove", nominal_n=9, max_rows_per_person=1
    ).fit(A, groups=np.zeros(6320))


@pytest.mark.parametrize("number", range(15))
def test_no_error_states_a_number_of_rows(number):
    with pytest.raises(ValueError) as found:
        list(mistakes())[number]()
    text = str(found.value)
    assert not re.search(r"63[,.]?2[01]", text) and "array=" not in text and "0." not in text, text


def test_a_search_certificate_states_its_unit():
    base = dperm.LogisticRegression(bounds=(-1, 1), classes=[0, 1], method="gradient")
    search = PrivateGridSearch(base, {"radius": [1.0]}, epsilon=2.0, expected_runs=2, runs="geometric").fit(X, Y)
    record = json.loads(search.certificate_.to_json())
    assert record["guarantee"]["unit"] == "row" and search.certificate_.verify().ok
    del record["guarantee"]["unit"]
    assert SearchCertificate(record).verify().ok
