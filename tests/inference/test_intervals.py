"""Intervals: coverage by simulation, the sensitivity of the curvature matrix, units, and refusals."""

from __future__ import annotations

import importlib.util
import json
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import dperm
from alterations import unnoticed
from dperm.cli import app
from dperm.mechanisms import Gradient, Objective
from dperm.problem import LogisticLoss
from dperm.rows.base import Block
from dperm.terms.affine import Features
from dperm.terms.moments import InformationTerm
from places import ROOT

SCRIPT = ROOT / "scripts" / "coverage_of_intervals.py"
spec = importlib.util.spec_from_file_location("coverage_script", SCRIPT)
simulation = importlib.util.module_from_spec(spec)
spec.loader.exec_module(simulation)


COVERED = [("linear, statistics", 1500, 4.0), ("logistic, objective", 2500, 3.0), ("logistic, intervals", 3000, 3.0)]


@pytest.mark.parametrize(("name", "n", "epsilon"), COVERED)
def test_coverage_within_three_points(name, n, epsilon):
    """1,000 draws of 3 or 4 coefficients: the standard error of the share is below 0.6 points even if a draw's coefficients agree
    wholly 1 point; a right interval fails with probability below 1e-3."""
    found = simulation.coverage(name, n, epsilon, draws=1000, seed=3)
    assert abs(found["at 90 %"] - 0.90) < 0.03 and abs(found["at 95 %"] - 0.95) < 0.03
    assert found["worst at 95 %"] > 0.92


def test_intervals_without_the_privacy_noise_would_be_too_short(monkeypatch):
    """The simulation can fail: drop the noise from the formula and coverage collapses."""
    import dperm.inference.intervals as intervals

    real = intervals._statistics

    def careless(model, kept):
        errors, note = real(model, kept)
        return replace(errors, privacy=0.0 * errors.privacy), note

    monkeypatch.setitem(intervals.ROUTES, "statistics", careless)
    assert simulation.coverage("linear, statistics", 3000, 0.5, draws=60, seed=3)["at 95 %"] < 0.9


@pytest.mark.parametrize("relation", ["replace-one", "zero-out"])
def test_sensitivity_of_the_curvature_matrix_is_reached_and_never_exceeded(relation, generator):
    term = InformationTerm(LogisticLoss(), np.zeros(2), Features(0.0), 2.0, 0.25)

    def contribution(row):
        return term(Block(np.array([row]), np.ones(1), None, 0))

    worst = 0.0
    rows = [np.array([2.0, 0.0]), np.array([0.0, 2.0])]
    rows += [2 * v / max(1.0, np.linalg.norm(v)) for v in generator.standard_normal((50, 2))]
    for a in rows:
        for b in rows if relation == "replace-one" else [np.zeros(2)]:
            worst = max(worst, float(np.linalg.norm(contribution(a) - contribution(b))))
    assert worst == pytest.approx(term.sensitivity(relation), rel=1e-9)


def test_summary_is_in_the_units_of_the_coefficients(generator):
    X = generator.uniform(10, 30, (3000, 2))
    y = 3 * X[:, 0] - 2 * X[:, 1] + generator.uniform(-5, 5, 3000)
    model = dperm.LinearRegression(epsilon=1e4, bounds=(10, 30), y_bounds=(-60, 90), method="statistics", random_state=0)
    model.fit(X, y)
    table = model.summary()
    assert table.names == ("x0", "x1", "intercept")
    assert table.estimate[:2] == pytest.approx(model.coef_, rel=1e-3)
    assert table.estimate[2] == pytest.approx(model.intercept_, abs=0.05)
    # At a huge ε the error is that of ordinary least squares.
    design = np.column_stack([X, np.ones(3000)])
    rest = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    ordinary = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * (rest @ rest) / (3000 - 3))
    assert table.standard_error == pytest.approx(ordinary, rel=0.05)
    assert "std err" in str(table) and "intercept" in str(table)


def test_fits_without_closed_form_are_refused_with_the_reason(generator):
    X = generator.uniform(-1, 1, (500, 1))
    y = (X[:, 0] > 0).astype(int)
    model = dperm.LogisticRegression(epsilon=1, bounds=(-1, 1), classes=[0, 1], method=Gradient(steps=2)).fit(X, y)
    with pytest.raises(ValueError, match="bias without closed form"):
        model.confidence_interval()
    tilted = dperm.LogisticRegression(epsilon=1, bounds=(-1, 1), classes=[0, 1], method="objective", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="release_information"):
        tilted.confidence_interval()
    assert "release_information" in tilted.summary().note
    tilted.release_information(X, y, epsilon=0.01, random_state=1)
    with pytest.raises(ValueError, match="stand out of its noise"):
        tilted.confidence_interval()
    with pytest.raises(ValueError, match="0 < level < 1"):
        tilted.summary(95)


def test_the_curvature_is_debited_and_its_cost_stated(generator, tmp_path):
    X = generator.uniform(-1, 1, (2000, 1))
    y = (X[:, 0] + generator.uniform(-1, 1, 2000) > 0).astype(int)
    ledger = dperm.Ledger.create(tmp_path / "l", dataset="x", epsilon=5, delta=1e-5, relation="zero-out")
    model = dperm.LogisticRegression(
        epsilon=1, delta=1e-6, bounds=(-1, 1), classes=[0, 1], method="objective", relation="zero-out", ledger=ledger
    ).fit(X, y)
    model.release_information(X, y, epsilon=0.5)
    assert ledger.account().fits == 2 and ledger.verify() == []
    assert 1.0 < model.information_.total_epsilon < 1.5
    assert math.isfinite(model.summary().standard_error.sum())
    together = f"{model.information_.total_epsilon:.4g}"
    assert dict(model.summary().facts)["Epsilon"] == f"1, {together} with the curvature for intervals"


def logistic(n: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (n, 2))
    return X, (rng.uniform(size=n) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(int)


@pytest.mark.parametrize("relation", ["replace-one", "zero-out", "add-remove"])
def test_one_option_plans_the_curvature_in_the_same_budget(relation, tmp_path):
    X, y = logistic()
    ledger = dperm.Ledger.create(tmp_path / "l", dataset="x", epsilon=4.0, delta=1e-5, relation=relation)
    method = Objective(most_rows=4000) if relation == "add-remove" else "objective"  # the arithmetic of a minimiser needs a bound
    model = dperm.LogisticRegression(
        epsilon=2.0, delta=1e-6, bounds=(-1, 1), classes=[0, 1], intervals=True, relation=relation, nominal_n=3000, ledger=ledger,
        method=method,
    ).fit(X, y)  # fmt: skip
    assert [stage.name for stage in model.plan_.stages] == ["objective", "output", "information"]
    assert 1.99 < model.plan_.guarantee.epsilon(1e-6) <= 2.0 * (1 + 1e-9) and model.certificate_.epsilon == 2.0
    assert model.certificate_.verify().ok and ledger.account().fits == 1 and ledger.verify() == []
    low, high = model.confidence_interval(0.95).T
    assert np.all(low < high) and low[0] > 0  # a slope of 2 at n = 3000 is not missed
    assert "together cost epsilon 2" in model.summary().note


def test_the_planned_matrix_is_the_one_that_a_paid_release_would_give():
    """Without noise to speak of both are Σφ''zzᵀ at the released coefficients."""
    X, y = logistic()
    options = {"bounds": (-1, 1), "classes": [0, 1], "relation": "zero-out", "random_state": 0}
    planned = dperm.LogisticRegression(epsilon=1e4, intervals=True, method="objective", **options).fit(X, y)
    paid = dperm.LogisticRegression(epsilon=1e4, method="objective", **options).fit(X, y).release_information(X, y, epsilon=1e4)
    assert np.allclose(planned.confidence_interval(), paid.confidence_interval(), atol=0.02)


def test_every_leaf_of_a_certificate_with_a_curvature_matrix_is_bound():
    X, y = logistic(1000)
    options = {"intervals": True, "method": "objective", "random_state": 0}
    model = dperm.LogisticRegression(epsilon=3, bounds=(-1, 1), classes=[0, 1], **options).fit(X, y)
    assert unnoticed(model.certificate_) == {"noise.seed"}


def test_what_a_planned_matrix_cannot_have_is_refused_before_anything_is_read():
    X, y = logistic(200)
    base = {"epsilon": 1.0, "bounds": (-1, 1), "classes": [0, 1], "intervals": True}
    for options, message in (
        ({"method": "gradient"}, "Leave method= out"),
        ({"delta": 0.0}, "delta > 0"),
        ({"classes": [0, 1, 2], "method": "objective"}, "two classes"),
        ({"class_weight": {0: 1.0, 1: 2.0}, "method": "objective"}, "weights"),
        ({"method": Objective(noise_kind="pure")}, "Gaussian noise"),
    ):
        with pytest.raises(ValueError, match=message):
            dperm.LogisticRegression(**(base | options)).fit(X, y)
    with pytest.raises(ValueError, match="Leave method= out"):
        dperm.LinearRegression(bounds=(-1, 1), y_bounds=(0, 1), intervals=True, method="gradient").fit(X, y)
    with pytest.raises(ValueError, match="information_share"):
        Objective(information_share=1.0)


def test_the_refusals_name_the_option():
    X, y = logistic(300)
    for method in ("objective", "scaled-objective"):
        model = dperm.LogisticRegression(epsilon=1, bounds=(-1, 1), classes=[0, 1], method=method, random_state=0).fit(X, y)
        with pytest.raises(ValueError, match=r"Fit with intervals=True \(--intervals\)"):
            model.confidence_interval()
    linear = dperm.LinearRegression(epsilon=4, bounds=(-1, 1), y_bounds=(0, 1), intervals=True).fit(X, y)
    assert linear.certificate_.mechanism == "scaled-inference" and linear.confidence_interval().shape == (3, 2)
    moments = dperm.LinearRegression(epsilon=4, bounds=(-1, 1), y_bounds=(0, 1), intervals=True, method="statistics").fit(X, y)
    assert moments.certificate_.mechanism == "statistics" and moments.confidence_interval().shape == (3, 2)


@pytest.mark.parametrize(
    "model",
    [
        dperm.LinearSVC(2.0, bounds=(-1, 1), classes=[0, 1]),
        dperm.Lasso(2.0, bounds=(-1, 1), y_bounds=(0, 1), n_nonzero_coefs=1),
    ],
)
def test_models_without_intervals_name_those_that_have_them(model):
    X, y = logistic(300)
    words = rf"{type(model).__name__} has none by any method: use LinearRegression, Ridge, .* LogisticRegression, with"
    with pytest.raises(ValueError, match=words):
        model.fit(X, y).confidence_interval()


def test_several_classes_without_intervals_are_told_how_to_get_them(generator):
    X, y = generator.uniform(-1, 1, (300, 2)), generator.integers(0, 3, 300)
    options = {"bounds": (-1, 1), "classes": [0, 1, 2], "random_state": 0}
    model = dperm.LogisticRegression(1.0, **options).fit(X, y)
    with pytest.raises(ValueError, match=r"Fit with intervals=True"):
        model.confidence_interval(0.95)
    with pytest.raises(ValueError, match="two classes for a curvature matrix"):
        dperm.LogisticRegression(1.0, intervals=True, method="objective", **options).fit(X, y)


def test_the_total_counts_every_release_and_ends_with_the_fit():
    X, y = logistic(3000)
    options = {"bounds": (-1, 1), "classes": [0, 1], "method": "objective", "random_state": 0}
    model = dperm.LogisticRegression(epsilon=2, **options).fit(X, y)
    assert model.total_epsilon_ == 2.0
    once = model.release_information(X, y, epsilon=1).total_epsilon_
    assert 2.0 < once < 3.0 and model.certificate_.epsilon == 2.0
    assert f"cost epsilon {once:.4g}" in model.summary().note and f"({once:.4g}, 1e-06)" in model.information_.statement
    for text in (model.summary().note, model.information_.statement):
        assert "provided that this second budget was fixed before the fit was seen" in text and "ledger" in text
    assert model.release_information(X, y, epsilon=1).total_epsilon_ > once
    planned = dperm.LogisticRegression(epsilon=2, bounds=(-1, 1), classes=[0, 1], intervals=True, random_state=0).fit(X, y)
    assert "provided" not in planned.summary().note  # one plan, one budget: nothing was chosen later
    assert model.fit(X, y).total_epsilon_ == 2.0
    with pytest.raises(ValueError, match="found none"):  # the matrix of the earlier fit is not used for this one
        model.confidence_interval()


def test_the_command_puts_intervals_into_the_report(tmp_path):
    X, y = logistic()
    spec = {"columns": {f"x{j}": {"type": "numeric", "low": -1, "high": 1} for j in range(2)}}
    spec["target"] = {"column": "y", "type": "classes", "classes": ["0", "1"]}
    (tmp_path / "s.json").write_text(json.dumps(spec))
    np.savetxt(tmp_path / "d.csv", np.c_[X, y], delimiter=",", header="x0,x1,y", comments="", fmt=["%.5f", "%.5f", "%d"])
    words = ["fit", str(tmp_path / "d.csv"), "--schema", str(tmp_path / "s.json"), "--epsilon", "2", "--intervals"]
    assert CliRunner().invoke(app, [*words, "--out", str(tmp_path / "m")]).exit_code == 0
    assert "95 % interval" in (tmp_path / "m" / "report.md").read_text()
    refused = CliRunner().invoke(app, [*words, "--model", "svm", "--out", str(tmp_path / "n")])
    assert isinstance(refused.exception, ValueError) and "--intervals" in str(refused.exception)


@pytest.mark.parametrize("kind", ["logistic", "linear"])
def test_levels_of_a_column_are_compared_with_its_first(kind):
    """One-hot columns add up to the intercept: only differences of levels have intervals. 300 draws of 4: the share's
    standard error is below 1.3 points even where its coefficients agree wholly: a right interval fails less than once in 10⁴."""
    rng = np.random.default_rng(6)
    truth = np.array([1.0, -0.8, 0.5, 0.3])  # slope of x (over a range of 2), b and c against a, intercept at a
    hits = []
    for seed in range(300):
        x, level = rng.uniform(-1, 1, 6000), rng.integers(0, 3, 6000)
        score = truth[0] * x + np.array([0, truth[1], truth[2]])[level] + truth[3]
        table = {"x": x, "g": np.array(["a", "b", "c"])[level]}
        options = {"epsilon": 4.0, "relation": "zero-out", "intervals": True, "random_state": seed}
        columns = {"x": {"type": "numeric", "low": -1, "high": 1}, "g": {"type": "categorical", "levels": ["a", "b", "c"]}}
        if kind == "logistic":
            table["y"] = np.where(rng.uniform(size=6000) < 1 / (1 + np.exp(-score)), "1", "0")
            target = {"column": "y", "type": "classes", "classes": ["0", "1"]}
            model = dperm.LogisticRegression(schema={"columns": columns, "target": target}, **options)
        else:
            table["y"] = score + rng.uniform(-1, 1, 6000)
            target = {"column": "y", "type": "numeric", "low": -4, "high": 4}
            model = dperm.LinearRegression(schema={"columns": columns, "target": target}, **options)
        found = model.fit(pa.table(table)).summary()
        assert found.names == ("x", "g=b", "g=c", "intercept")
        hits.append((found.interval[:, 0] <= truth) & (truth <= found.interval[:, 1]))
    assert abs(np.mean(hits) - 0.95) < 0.05 and np.mean(hits, axis=0).min() > 0.88
    assert "compares it with the first level" in found.note
