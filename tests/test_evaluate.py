"""Paid evaluation: sensitivities, scores against exact ones, coverage of the intervals, the record and the command."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from sklearn.metrics import r2_score, roc_auc_score
from typer.testing import CliRunner

import dperm
from alterations import leaves, other
from dperm.cli import app
from dperm.evaluation import CountTerm, Evaluation, MomentTerm, evaluate, plan_evaluation
from dperm.evaluation_metrics import accuracy, auc, metrics
from dperm.ledger import BudgetExceeded, Ledger
from dperm.mechanisms import Gradient
from dperm.mechanisms.base import Shape, Target
from dperm.rows.base import Block

RNG = np.random.default_rng(7)
X = RNG.uniform(-1, 1, (4000, 2))
Y = (X[:, 0] + 0.5 * RNG.standard_normal(4000) > 0).astype(int)


@pytest.fixture(scope="module")
def classifier():
    model = dperm.LogisticRegression(epsilon=5, bounds=(-1, 1), classes=[0, 1], method=Gradient(steps=20), random_state=0)
    return model.fit(X, Y)


@pytest.fixture(scope="module")
def regression():
    model = dperm.LinearRegression(epsilon=5, bounds=(-1, 1), y_bounds=(-2, 2), method=Gradient(steps=20), random_state=0)
    return model.fit(X, X[:, 0] + 0.1)


def block(rows: np.ndarray) -> Block:
    return Block(rows, np.zeros(len(rows)), np.ones(len(rows)), 0)


@pytest.mark.parametrize("relation", ["replace-one", "zero-out"])
def test_sensitivities_are_reached_and_never_exceeded(relation, generator):
    """Worst rows attain the stated bound: a smaller constant would fail here."""
    worst = {"count": 0.0, "moments": 0.0}
    corners = [np.array([[r, u]]) for r in (-1.0, 0.0, 1.0) for u in (-1.0, 0.0, 1.0)]
    corners += list(generator.uniform(-1, 1, (200, 1, 2)))
    null = block(np.zeros((0, 2)))
    for one in corners:
        for two in corners if relation == "replace-one" else [None]:
            after = null if two is None else block(two)
            worst["moments"] = max(worst["moments"], float(np.linalg.norm(MomentTerm()(block(one)) - MomentTerm()(after))))
    for a in range(3):
        for b in range(3) if relation == "replace-one" else [None]:
            after = np.zeros(3) if b is None else CountTerm(3, 0)(block(np.array([[b]])))
            worst["count"] = max(worst["count"], float(np.linalg.norm(CountTerm(3, 0)(block(np.array([[a]]))) - after)))
    assert worst["count"] == pytest.approx(CountTerm(3, 0).sensitivity(relation))
    # Both (r², u²) entries cannot move by 1 while r and u move by 2, so the bound √11 is not attained; it must hold.
    assert worst["moments"] <= MomentTerm().sensitivity(relation) * (1 + 1e-12)
    if relation == "zero-out":
        assert worst["moments"] == pytest.approx(math.sqrt(5))


def test_the_plan_costs_its_target_and_not_more():
    for kind in ("binary", "multiclass", "regression"):
        target = Target.declare(epsilon=0.7, delta=1e-6, n=1000)
        spent = plan_evaluation(kind, Shape(1000, 3), target).guarantee.epsilon(1e-6)
        assert 0.7 * (1 - 1e-6) <= spent <= 0.7


def test_scores_approach_the_exact_ones_as_epsilon_grows(classifier, regression):
    found = evaluate(classifier, X, Y, epsilon=1000, bins=200, random_state=1).metrics
    assert found["accuracy"]["value"] == pytest.approx(np.mean(classifier.predict(X) == Y), abs=1e-3)
    assert found["auc"]["value"] == pytest.approx(roc_auc_score(Y, classifier.predict_proba(X)[:, 1]), abs=2e-3)
    truth = X[:, 0] + 0.1
    found = evaluate(regression, X, truth, epsilon=1000, random_state=1).metrics
    assert found["r2"]["value"] == pytest.approx(r2_score(truth, regression.predict(X)), abs=1e-3)
    rms = np.sqrt(np.mean((truth - regression.predict(X)) ** 2))
    assert found["root mean squared error"]["value"] == pytest.approx(rms, abs=5e-3)


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_accuracy_intervals_cover(level, generator):
    """2,000 draws: share covered has standard error ≤ 0.7 points; 3 points away happens by chance with probability < 1e-4."""
    from scipy.special import ndtri

    p, rows, scale = 0.83, 1500, 12.0
    right = generator.binomial(rows, p, 2000)
    noisy = np.stack([right, rows - right], axis=1) + scale * generator.standard_normal((2000, 2))
    covered = [s["low"] <= p <= s["high"] for s in (accuracy(row, scale, float(ndtri((1 + level) / 2))) for row in noisy)]
    assert abs(np.mean(covered) - level) < 0.03


def test_auc_intervals_cover(generator):
    """300 draws at 95 %: fewer than 90 % covered has probability < 1e-3 when the interval is right."""
    bins, rows, scale = 10, 2000, 6.0
    law = generator.dirichlet(np.ones(2 * bins))
    truth = auc(law.reshape(2, bins))
    plan = plan_evaluation("binary", Shape(rows, 1), Target.declare(epsilon=1.0, delta=1e-6, n=rows), bins=bins)
    covered = []
    for _ in range(300):
        counts = generator.multinomial(rows, law) + scale * generator.standard_normal(2 * bins)
        from dperm.evaluation_metrics import _redrawn

        found = _redrawn(auc, counts.reshape(2, bins), scale, 1.96, (0.0, 1.0))
        covered.append(found["low"] <= truth <= found["high"])
    assert np.mean(covered) >= 0.9
    assert "roc" in metrics(plan, {"answers": [5, 5], "scores": law * rows}, None, 0.95)


def test_every_number_of_the_record_is_bound(classifier):
    record = json.loads(json.dumps(evaluate(classifier, X, Y, epsilon=1, bins=4, random_state=1).record))
    assert Evaluation(record).verify(allow_seeded=True).ok
    free = {("model", "sha256"), ("model", "estimator"), ("shape", "d"), ("shape", "n"), ("noise", "seed")}
    checked = 0
    for path, value in leaves(record):
        if path in free:
            continue
        altered = json.loads(json.dumps(record))
        place = altered
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = other(value)
        assert not Evaluation(altered).verify(allow_seeded=True).ok, path
        checked += 1
    assert checked > 40
    assert not Evaluation(record).verify().ok  # seeded


def test_an_evaluation_is_debited_and_refused_like_a_fit(classifier, tmp_path):
    ledger = Ledger.create(tmp_path / "l", dataset="held out", epsilon=1.0, delta=1e-6)
    found = evaluate(classifier, X, Y, epsilon=0.8, ledger=ledger)
    assert found.record["ledger"]["entry"]["note"] == "evaluation" and found.verify().ok
    assert ledger.verify([found.record]) == []
    with pytest.raises(BudgetExceeded):
        evaluate(classifier, X, Y, epsilon=0.9, ledger=ledger)


def test_labels_outside_the_classes_do_not_stop_it(classifier):
    strange = np.where(np.arange(len(Y)) < 5, 7, Y)
    assert 0.5 < evaluate(classifier, X, strange, epsilon=1, random_state=0).metrics["accuracy"]["value"] <= 1


def test_bad_requests_are_refused(classifier):
    for options, words in (
        ({"delta": 0.0}, "delta > 0"),
        ({"bins": 1}, "2 ≤ bins"),
        ({"level": 1.0}, "level < 1"),
        ({"relation": "add-remove"}, "nominal_n"),
        ({"epsilon": -1.0}, "epsilon > 0"),
    ):
        with pytest.raises(ValueError, match=words):
            evaluate(classifier, X, Y, **{"epsilon": 1.0, **options})


def test_the_command_writes_a_record_that_verifies(tmp_path):
    schema = {
        "columns": {"a": {"type": "numeric", "low": -1, "high": 1}},
        "target": {"column": "y", "type": "classes", "classes": ["no", "yes"]},
    }
    (tmp_path / "s.json").write_text(json.dumps(schema))
    rows = "\n".join(f"{a:.4f},{'yes' if b else 'no'}" for a, b in zip(X[:600, 0], Y))
    (tmp_path / "d.csv").write_text("a,y\n" + rows + "\n")
    run = CliRunner().invoke
    data, out = str(tmp_path / "d.csv"), str(tmp_path / "m")
    made = run(app, ["fit", data, "--schema", str(tmp_path / "s.json"), "--epsilon", "2", "--out", out, "--json"])
    assert made.exit_code == 0, made.output
    model = str(tmp_path / "m" / "model.json")
    out = str(tmp_path / "e.json")
    done = run(app, ["evaluate", model, str(tmp_path / "d.csv"), "--epsilon", "1", "--out", out, "--json"])
    assert done.exit_code == 0, done.output
    assert 0.5 < json.loads(done.output)["metrics"]["accuracy"]["value"] <= 1
    checked = run(app, ["verify", out, "--model", model, "--json"])
    assert checked.exit_code == 0, checked.output
