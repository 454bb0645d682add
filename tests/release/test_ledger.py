"""The ledger: debits before noise, filters, refusals, tamper evidence, crashes and processes."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dperm
from dperm.mechanisms import Gradient
from dperm.privacy import GDP, Approximate, Gaussian, Levels, ObjectiveEvent, Pure, Sampled, gaussian_mu
from dperm.privacy.conversions import rdp_epsilon
from dperm.privacy.filters import Filter, renyi_curve
from dperm.release.ledger.book import BudgetExceeded, Ledger
from dperm.release.plan import Plan, Shape, Stage, Target
from places import ROOT


def planned(*events, epsilon=1.0, delta=1e-6, relation="zero-out", rows_per_person=1) -> Plan:
    stages = tuple(Stage(f"s{i}", event) for i, event in enumerate(events))
    return Plan("test", {}, stages, Target(epsilon, delta, relation, rows_per_person), Shape(100, 2))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "l.ledger", dataset="people", epsilon=3.0, delta=1e-6, relation="zero-out")


X = np.linspace(-1, 1, 60).reshape(-1, 1)
Y = (X[:, 0] > 0).astype(int)


def small_model(ledger, **options) -> dperm.LogisticRegression:
    options = {"relation": "zero-out", "epsilon": 0.5, **options}
    return dperm.LogisticRegression(bounds=(-1, 1), classes=[0, 1], ledger=ledger, method=Gradient(steps=2), **options)


# -- the filter ---------------------------------------------------------------------------------------------------------


def test_gaussian_branch_spends_squares_not_epsilons():
    rule = Filter.declare(3.0, 1e-6)
    mu = gaussian_mu(1.0, 1e-6)
    cost = rule.cost([Gaussian(mu)])
    fits = next(k for k in range(1, 100) if rule.accepts([cost] * k) is None) - 1
    assert fits == math.floor(gaussian_mu(3.0, 0.75e-6) ** 2 / mu**2) == 7  # a sum of ε would have allowed 3


def test_renyi_limits_imply_the_budget():
    """Every limit, read back through the conversion theorem, gives ε at its share of δ; the shares add up to δ."""
    rule = Filter.declare(2.0, 1e-5)
    share = 0.2e-5
    weights = [0.5] + [0.125] * 4
    assert len(rule.orders) <= 5
    found = [rdp_epsilon(a, b, share * w) for a, b, w in zip(rule.orders, rule.limits, weights)]
    assert found[0] == pytest.approx(2.0, rel=1e-9)
    assert max(found) <= 2.0 * (1 + 1e-9)
    assert 0.75e-5 + share + rule.failure <= 1e-5 * (1 + 1e-12)
    assert GDP(rule.mu, "zero-out").delta(2.0) <= 0.75e-5 * (1 + 1e-9)


def test_curves_of_events_against_closed_forms():
    orders = (2.0, 5.0, 20.0)
    assert renyi_curve(Gaussian(0.3, 4), orders)[0] == pytest.approx([a * 0.36 / 2 for a in orders])
    # Randomised response at order 2: log(p²/q + q²/p).
    p, q = 1 / (1 + math.exp(-0.7)), 1 / (1 + math.exp(0.7))
    assert renyi_curve(Pure(0.7), (2.0,))[0][0] == pytest.approx(math.log(p * p / q + q * q / p))
    curve, failure = renyi_curve(Approximate(0.7, 1e-8, 3), (2.0,))
    assert curve[0] == pytest.approx(3 * renyi_curve(Pure(0.7), (2.0,))[0][0]) and failure == pytest.approx(3e-8)


def test_curve_of_objective_perturbation_is_at_least_that_of_its_gaussian_and_implies_its_profile():
    event = ObjectiveEvent("self-bounding", 0.25, 1.0)
    orders = (3.0, 6.0, 12.0)
    curve, failure = renyi_curve(event, orders)
    assert all(value >= a * 0.25**2 / 2 for a, value in zip(orders, curve)) and failure < 1e-20
    # The conversion of a valid curve can never promise less than the exact δ of the event.
    exact = event.delta(1.5)
    assert min(math.exp((a - 1) * (v - 1.5 + math.log1p(-1 / a)) - math.log(a)) for a, v in zip(orders, curve)) >= exact


def test_curve_of_sampled_gaussian_is_between_zero_and_the_unsampled_one():
    event = Sampled(0.1, Gaussian(0.5, 10))
    (value,), failure = renyi_curve(event, (4.0,))
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    exact = RdpAccountant([4]).compose(PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)), 10)._rdp[0]
    assert exact * (1 - 1e-6) <= value <= exact * 1.01 and failure < 1e-15


def test_mixed_history_uses_the_renyi_branch_and_stays_within_exact_composition():
    rule = Filter.declare(3.0, 1e-6)
    events = [Gaussian(0.2), Pure(0.4)]
    cost = rule.cost(events)
    assert rule.accepts([cost]) == "renyi"
    fits = next(k for k in range(1, 100) if rule.accepts([cost] * k) is None) - 1
    from dperm.privacy import compose

    assert fits >= 3
    assert compose(events * fits, "zero-out").epsilon(1e-6) < 3.0


def test_failures_have_a_share_of_their_own():
    rule = Filter.declare(3.0, 1e-6)
    assert rule.accepts([rule.cost([Approximate(0.1, 4e-8)])]) == "renyi"
    assert rule.accepts([rule.cost([Approximate(0.1, 4e-8)])] * 2) is None


def test_pure_ledger_adds_epsilons_and_refuses_anything_else():
    rule = Filter.declare(1.0, 0.0)
    assert rule.accepts([rule.cost([Pure(0.5)])] * 2) == "pure"
    assert rule.accepts([rule.cost([Pure(0.5)])] * 3) is None
    assert rule.accepts([rule.cost([Gaussian(1e-6)])]) is None


def test_what_is_left_is_what_would_be_accepted():
    rule = Filter.declare(3.0, 1e-6)
    for spent in ([], [rule.cost([Gaussian(0.4)])], [rule.cost([Gaussian(0.2), Pure(0.3)])]):
        room = rule.left(spent)
        assert rule.accepts([*spent, rule.cost([Gaussian(room)])]) is not None
        assert rule.accepts([*spent, rule.cost([Gaussian(room * 1.001)])]) is None


# -- debits -------------------------------------------------------------------------------------------------------------


def test_a_first_fit_may_use_the_whole_budget_and_then_nothing_is_left(ledger):
    receipt = ledger.debit(planned(Gaussian(gaussian_mu(3.0, 1e-6)), epsilon=3.0))
    assert receipt["entry"]["branch"] == "single"
    with pytest.raises(BudgetExceeded, match="left is about epsilon=0 "):
        ledger.debit(planned(Gaussian(1e-4)))
    assert ledger.verify() == [] and ledger.account().spent_share == 1.0


def test_a_refusal_names_what_is_left_and_spends_nothing(ledger):
    ledger.debit(planned(Gaussian(0.6)))
    before = ledger.account()
    with pytest.raises(BudgetExceeded, match=r"asked for epsilon=3 at delta=1e-06, left is about epsilon=0\.\d+") as refused:
        ledger.debit(planned(Gaussian(0.5), epsilon=3.0))
    assert "No data were read" in str(refused.value) and ledger.account() == before


def test_a_refusal_for_delta_says_so_and_its_advice_is_accepted(ledger):
    """The thresholds of private levels spend the part of δ that is set aside, long before ε is spent."""

    def profiled(delta):
        return planned(Levels(0.05, 0.04 * delta), epsilon=0.2, delta=delta)

    assert ledger.account().left_delta == pytest.approx(5e-8)
    ledger.debit(profiled(1e-6))
    assert ledger.account().left_delta == pytest.approx(1e-8) and ledger.account().aside_delta == pytest.approx(5e-8)
    with pytest.raises(BudgetExceeded, match=r"Delta is short \(epsilon is not\).*asked for 4e-08, left is 1e-08") as refused:
        ledger.check(profiled(1e-6))
    assert "--schema" in str(refused.value) and "Ask for less" not in str(refused.value)
    advised = float(re.search(r"ask with delta=(\S+) or less", str(refused.value))[1])
    with pytest.raises(BudgetExceeded, match="Delta is short"):
        ledger.check(profiled(advised * 1.1))
    ledger.debit(profiled(advised))
    with pytest.raises(BudgetExceeded, match="Epsilon is short too: asked for epsilon=3"):
        ledger.check(planned(Levels(3.0, 4e-8), epsilon=3.0))
    assert ledger.verify() == []


def test_a_ledger_of_pure_fits_says_what_it_does_not_take(tmp_path):
    pure = Ledger.create(tmp_path / "pure.ledger", dataset="people", epsilon=1.0, delta=0.0, relation="zero-out")
    with pytest.raises(BudgetExceeded, match="takes pure fits only"):
        pure.check(planned(Gaussian(0.1)))
    with pytest.raises(BudgetExceeded, match="left is about epsilon=1 for one more pure fit"):
        pure.check(planned(Pure(2.0), epsilon=2.0, delta=0.0))


def test_relation_and_unit_are_fixed(ledger):
    with pytest.raises(ValueError, match="Expected relation='zero-out'"):
        ledger.debit(planned(Gaussian(0.1), relation="replace-one"))
    with pytest.raises(ValueError, match="Expected a fit per row"):
        ledger.debit(planned(Gaussian(0.1), rows_per_person=3))


def test_an_estimator_debits_its_whole_plan_and_carries_the_head(ledger):
    model = small_model(ledger).fit(X, Y)
    entry = ledger.entries()[-1]
    assert entry["plan"]["events"] == [event.spec() for event in model.plan_.events]
    record = json.loads(model.certificate_.to_json())
    assert record["ledger"]["head"] == entry["hash"] == ledger.account().head
    assert model.certificate_.verify().ok
    assert ledger.verify([record]) == []
    assert "fingerprint" not in json.dumps(record) and "secret" not in json.dumps(record)


def test_every_leaf_of_the_ledger_field_of_a_certificate_is_bound(ledger):
    from alterations import leaves, other

    record = json.loads(small_model(ledger).fit(X, Y).certificate_.to_json())
    checked = 0
    for path, value in leaves(record["ledger"]):
        altered = json.loads(json.dumps(record))
        place = altered["ledger"]
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = other(value)
        assert not dperm.Certificate(altered).verify().ok, path
        checked += 1
    assert checked > 15


def test_over_budget_is_refused_before_a_row_is_read_or_noise_is_drawn(ledger, monkeypatch):
    ledger.debit(planned(Gaussian(gaussian_mu(3.0, 1e-6)), epsilon=3.0))

    def forbidden(*_):
        raise AssertionError("a row was read")

    monkeypatch.setattr(dperm.MemoryRows, "sum", forbidden)
    monkeypatch.setattr("dperm.release.ledger.book.digest", forbidden)
    with pytest.raises(BudgetExceeded):
        small_model(ledger).fit(X, Y)


def test_the_debit_is_on_disk_before_noise_is_drawn(ledger, monkeypatch):
    seen = []

    def crash(*_, **__):
        seen.append(Ledger.open(ledger.path).account().fits)
        raise KeyboardInterrupt

    monkeypatch.setattr("dperm.release.noise.GridNoise.drawn", crash)
    with pytest.raises(KeyboardInterrupt):
        small_model(ledger).fit(X, Y)
    assert seen == [1] and ledger.verify() == []


def test_the_first_fit_fixes_the_data_and_another_set_is_refused_until_admitted(ledger):
    small_model(ledger).fit(X, Y)
    with pytest.raises(ValueError, match="found other content"):
        small_model(ledger).fit(X * 0.5, Y)
    assert ledger.account().fits == 1
    ledger.admit(X * 0.5)
    small_model(ledger).fit(X * 0.5, Y)
    assert ledger.account().fits == 2 and ledger.verify() == []


def test_seeded_noise_is_marked(ledger):
    small_model(ledger, random_state=1).fit(X, Y)
    assert ledger.account().seeded == 1
    assert any("NOT private" in reason for reason in ledger.verify())
    assert ledger.verify(allow_seeded=True) == []


# -- tampering ----------------------------------------------------------------------------------------------------------


def three_debits(ledger: Ledger) -> None:
    for _ in range(3):
        ledger.debit(planned(Gaussian(0.1)))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET body = replace(body, '0.1', '0.01') WHERE number = 2",
        "UPDATE entries SET secret = replace(secret, 'nonce', 'nance') WHERE number = 2",
        "UPDATE entries SET hash = substr(hash, 2) || 'g' WHERE number = 1",
        "UPDATE entries SET body = replace(body, '3.0', '9.0') WHERE number = 0",
        "DELETE FROM entries WHERE number = 2",
        "DELETE FROM entries WHERE number = 3",
        "DELETE FROM entries",
        "DELETE FROM tail",
    ],
)
def test_altered_removed_and_cut_off_rows_are_found(ledger, statement):
    three_debits(ledger)
    assert ledger.verify() == []
    connection = sqlite3.connect(ledger.path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    assert ledger.verify() != []


def test_a_careful_cut_is_found_by_a_certificate_that_saw_the_tail(ledger):
    record = json.loads(small_model(ledger).fit(X, Y).certificate_.to_json())
    previous = ledger.entries()[0]["hash"]
    connection = sqlite3.connect(ledger.path)
    connection.execute("DELETE FROM entries WHERE number = 1")
    connection.execute("UPDATE tail SET number = 0, hash = ?", (previous,))
    connection.commit()
    connection.close()
    assert ledger.verify() == []
    assert any("cut off or rewritten" in reason for reason in ledger.verify([record]))


def test_a_file_that_is_no_ledger_is_refused(tmp_path):
    (tmp_path / "text").write_text("hello" * 1000)
    with pytest.raises(ValueError, match="not one"):
        Ledger.open(tmp_path / "text").account()
    other = sqlite3.connect(tmp_path / "db")
    other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(ValueError, match="another SQLite file"):
        Ledger.open(tmp_path / "db").account()
    with pytest.raises(ValueError, match="no file"):
        Ledger.open(tmp_path / "absent")
    with pytest.raises(ValueError, match="never overwritten"):
        Ledger.create(tmp_path / "db", dataset="x", epsilon=1, delta=1e-6)


# -- processes ----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_fits_leave_a_ledger_that_covers_every_released_model(tmp_path):
    """A short version of `make soak`: 12 killed fits, 3 processes at a time."""
    script = ROOT / "scripts" / "soak.py"
    done = subprocess.run(
        [sys.executable, str(script), "--fits", "12", "--processes", "3", "--folder", str(tmp_path), "--seed", "5"],
        capture_output=True, text=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["fits"] >= 12 and result["problems"] == []


ESTIMATORS = {
    "EmbeddingClassifier": {"classes": [0, 1], "steps": 5},
    "FiniteClassLearner": {"bounds": (-1, 1), "classes": [0, 1]},
    "GAMClassifier": {"bounds": (-1, 1), "classes": [0, 1]},
    "GAMRegressor": {"bounds": (-1, 1), "y_bounds": (0, 1)},
    "HuberRegressor": {"bounds": (-1, 1), "y_bounds": (0, 1)},
    "Lasso": {"bounds": (-1, 1), "y_bounds": (0, 1)},
    "LinearRegression": {"bounds": (-1, 1), "y_bounds": (0, 1)},
    "LinearSVC": {"bounds": (-1, 1), "classes": [0, 1]},
    "LogisticRegression": {"bounds": (-1, 1), "classes": [0, 1]},
    "MLPClassifier": {"bounds": (-1, 1), "classes": [0, 1], "hidden": 2, "relation": "zero-out"},
    "MeanEstimator": {"bounds": (-1, 1)},
    "MedianEstimator": {"bounds": (-1, 1)},
    "PoissonRegressor": {"bounds": (-1, 1), "y_bounds": (0, 5)},
    "QuantileRegressor": {"bounds": (-1, 1), "y_bounds": (0, 1)},
    "Ridge": {"bounds": (-1, 1), "y_bounds": (0, 1)},
    "PrivateGridSearch": {"param_grid": {"radius": [1.0, 10.0]}, "expected_runs": 2.0},
    # Other plans of the same estimators, which book other events.
    "LogisticRegression, private bounds": {"bounds": "private", "classes": [0, 1]},
    "LinearRegression, private bounds": {"bounds": "private", "y_bounds": (0, 1)},
    "LogisticRegression, three classes": {"bounds": (-1, 1), "classes": [0, 1, 2]},
}


def test_every_public_estimator_is_in_the_list_above():
    assert {name.partition(",")[0] for name in ESTIMATORS} == set(dperm.estimators.__all__)


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_every_estimator_debits_its_plan_once(name, tmp_path):
    options, name = dict(ESTIMATORS[name]), name.partition(",")[0]
    if name == "PrivateGridSearch":
        options["estimator"] = dperm.LogisticRegression(bounds=(-1, 1), classes=[0, 1], method="gradient")
    relation = options.get("relation", "replace-one")
    ledger = Ledger.create(tmp_path / "l", dataset="x", epsilon=5.0, delta=1e-5, relation=relation)
    model = getattr(dperm.estimators, name)(epsilon=1.0, ledger=ledger, **options)
    model.fit(X[:, 0] if name in ("MeanEstimator", "MedianEstimator") else X, Y)
    assert ledger.account().fits == 1 and ledger.verify() == []
    record = json.loads(model.certificate_.to_json())
    assert record["ledger"]["head"] == ledger.account().head
    assert model.certificate_.verify().ok


def test_an_analyst_who_picks_the_worst_branch_after_seeing_the_first_release_stays_within_the_budget():
    """Exact by quadrature: first a Gaussian release x; then, for every x, the worse of the two continuations that the filter
    accepts (one Gaussian that uses up the first branch, or as many pure releases as the second admits). Their δ must not exceed
    the ledger's. The Gaussian branch alone uses its whole share, so a filter with 2 % too much δ in it is noticed."""
    from dperm.privacy import gaussian_delta
    from dperm.privacy.products import ProductDP

    epsilon, delta, first = 1.0, 1e-3, 0.12

    def worst(rule: Filter) -> float:
        start = rule.cost([Gaussian(first)])
        rest = math.sqrt(rule.mu**2 - first**2)
        one = rule.cost([Pure(0.05)])
        count = next(k for k in range(1, 500) if rule.accepts([start] + [one] * k) is None) - 1
        pure = ProductDP(0.0, [(0.05, count)], 0.0, "zero-out")

        def both(profile, e: float) -> float:  # δ(-e) = 1 - e^{-e}(1 - δ(e)) for a symmetric pair
            return profile(e) if e >= 0 else 1 - math.exp(e) * (1 - profile(-e))

        x = np.linspace(first - 8, first + 8, 1601)
        density = np.exp(-((x - first) ** 2) / 2) / math.sqrt(2 * math.pi)
        loss = first * x - first**2 / 2
        values = [
            max(both(lambda e: float(gaussian_delta(e, rest)), epsilon - item), both(pure.delta, epsilon - item)) for item in loss
        ]
        return float(np.trapezoid(density * np.array(values), x))

    assert 0.74 * delta < worst(Filter.declare(epsilon, delta)) <= delta
    assert worst(Filter.declare(epsilon, 1.02 * delta / 0.75)) > delta
