"""The walk: it answers only what was planned, books before it draws, and protects n where it must."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.sparse import csr_array

import dperm
from dperm.mechanisms import Gradient, Newton, Target
from dperm.mechanisms.scaled.additive import Additive
from dperm.mechanisms.scaled.gradient import ScaledGradient
from dperm.mechanisms.scaled.inference import ScaledInference
from dperm.privacy import Gaussian, Pure
from dperm.problem import DataBounds, FeatureMap, Interval, LogisticLoss, Problem
from dperm.release.asks import Close, Decide, Open, Solve, Sum
from dperm.release.driver import PlanMismatch, replay, run
from dperm.release.ledger.book import Ledger
from dperm.release.noise import SeededNoise
from dperm.release.plan import Plan, Shape, Stage
from dperm.rows import MemoryRows
from dperm.terms.statistics import PositiveCount
from dperm.walk.fitting import fit

PROBLEM = Problem(LogisticLoss(), data=DataBounds(1.0, Interval(-1.0, 1.0), 1.0))
TARGET = Target(1.0, 1e-6)
COUNT = PositiveCount()


def rows(n=50):
    generator = np.random.default_rng(0)
    X = generator.uniform(-0.5, 0.5, (n, 2))
    return MemoryRows(X, np.sign(X[:, 0]))


class Greedy(Gradient):
    """Asks for one sum more than its allowance pays for."""

    def program(self, plan, problem):
        yield Open("descent", sums=4)
        for _ in range(4):
            yield Sum("descent", COUNT, mu=plan.stage("descent").settings["step_mu"], shape=(1,))
        yield Close("descent")
        return np.zeros(3)


class Frugal(Gradient):
    """Leaves a part of its allowance, and would publish less noise than it could."""

    def program(self, plan, problem):
        yield Open("descent", sums=2)
        yield Sum("descent", COUNT, mu=plan.stage("descent").settings["step_mu"], shape=(1,))
        yield Close("descent")
        return np.zeros(3)


class Idle(Gradient):
    """Plans a descent and runs none."""

    def program(self, plan, problem):
        return np.zeros(3)
        yield


class Unplanned(Gradient):
    """Asks for a stage that its plan does not have."""

    def program(self, plan, problem):
        yield Sum("a look at the rows", COUNT)
        return np.zeros(3)


class Twice(Gradient):
    """Asks for one stage twice."""

    def program(self, plan, problem):
        w = yield from super().program(plan, problem)
        yield Solve(("descent",), lambda secret: np.zeros(3), (3,))
        return w


class Louder(Gradient):
    """Asks for a stage of several sums as if it were one with all of their budget."""

    def program(self, plan, problem):
        yield Sum("descent", COUNT, mu=1.0)
        return np.zeros(3)


class LeftOpen(Gradient):
    """Never closes its allowance."""

    def program(self, plan, problem):
        yield Open("descent", sums=3)
        return np.zeros(3)


@pytest.mark.parametrize("mechanism", [Greedy, Frugal, Idle, Unplanned, Twice, Louder, LeftOpen])
def test_a_program_that_differs_from_its_plan_releases_nothing(mechanism):
    with pytest.raises(PlanMismatch):
        fit(PROBLEM, rows(), TARGET, mechanism(steps=3), random_state=0)


def test_an_ask_outside_the_plan_draws_no_noise():
    for mechanism in (Idle, Unplanned, Louder, LeftOpen):
        with pytest.raises(PlanMismatch):
            fit(PROBLEM, rows(), TARGET, mechanism(steps=3), noise=Silent(0))


def test_events_are_booked_before_noise_is_drawn():
    order = []

    class Watching(SeededNoise):
        def normal(self, scale, size):
            order.append("draw")
            return super().normal(scale, size)

    fit(PROBLEM, rows(), TARGET, Gradient(steps=3), noise=Watching(0), on_book=lambda event: order.append("book"))
    assert order == ["book", "draw", "draw", "draw"]
    order.clear()
    fit(PROBLEM, rows(), TARGET, Newton(steps=2), noise=Watching(0), on_book=lambda event: order.append("book"))
    assert order == ["book", "draw"] * 4


class Silent(SeededNoise):
    def normal(self, scale, size):
        raise AssertionError("noise was drawn although the budget refused")


def test_a_refused_booking_stops_the_run_before_any_draw():
    def refuse(event):
        raise ValueError("over budget")

    with pytest.raises(ValueError, match="over budget"):
        fit(PROBLEM, rows(), TARGET, Gradient(steps=3), noise=Silent(0), on_book=refuse)


def test_add_remove_needs_a_nominal_n_and_never_uses_the_real_one():
    target = Target(1.0, 1e-6, "add-remove")
    with pytest.raises(ValueError, match="nominal_n"):
        fit(PROBLEM, rows(), target)
    plans = [fit(PROBLEM, rows(n), target, nominal_n=1000, random_state=0).plan for n in (50, 51)]
    assert plans[0] == plans[1]


def test_progress_counts_public_steps():
    seen = []
    fit(PROBLEM, rows(), TARGET, Gradient(steps=4), random_state=0, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_solve_books_first():
    booked, seen = [], []
    planned = Plan("test", {}, (Stage("one", Pure(0.5)), Stage("two", Pure(0.25))), TARGET, Shape(50, 2))

    def program():
        return (yield Solve(("one", "two"), lambda secret: seen.extend(booked) or np.zeros(1), (1,)))

    run(program(), planned, rows(), SeededNoise(0), on_book=booked.append)
    assert seen == [Pure(0.5), Pure(0.25)]


def test_a_replay_has_no_answer_that_is_not_in_the_record():
    """What is drawn from an allowance is NaN in a replay, so that nothing that is decided can depend on it."""

    def program(leak):
        first = yield Sum("first", COUNT)
        yield Open("second", sums=1)
        hidden = yield Sum("second", COUNT, mu=0.1, shape=(1,))
        yield Close("second")
        yield Decide({"twice": 2 * float(first[0])} | ({"hidden": float(hidden[0])} if leak else {}))
        return hidden

    planned = Plan("test", {}, (Stage("first", Gaussian(0.1)), Stage("second", Gaussian(0.1))), TARGET, Shape(50, 2))
    outcome = run(program(True), planned, rows(), SeededNoise(0))
    assert set(outcome.released) == {"first"} and np.isfinite(outcome.decided["hidden"])
    again = replay(program(True), {"first": outcome.released["first"].tolist()})
    assert again.decided["twice"] == outcome.decided["twice"] and np.isnan(again.decided["hidden"]) and np.isnan(again.w).all()
    with pytest.raises(ValueError, match="'first' is missing"):
        replay(program(False), {})
    with pytest.raises(ValueError, match="'other' is not one"):
        replay(program(False), {"first": [1.0], "other": 2.0})


def test_only_one_allowance_is_open_at_a_time():
    def program():
        yield Open("first", sums=1)
        yield Open("second", sums=1)

    planned = Plan("test", {}, (Stage("first", Gaussian(0.1)), Stage("second", Gaussian(0.1))), TARGET, Shape(50, 2))
    with pytest.raises(PlanMismatch, match="one open stage"):
        run(program(), planned, rows(), SeededNoise(0))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": 0}, "epsilon > 0"),
        ({"epsilon": -1}, "epsilon > 0"),
        ({"epsilon": float("nan")}, "epsilon > 0"),
        ({"epsilon": float("inf")}, "epsilon > 0"),
        ({"delta": -0.1}, "0 ≤ delta < 1"),
        ({"delta": 1.0}, "0 ≤ delta < 1"),
        ({"delta": 0.02}, "1/n"),
        ({"relation": "swap"}, "relation in"),
        ({"rows_per_person": 0}, "max_rows_per_person"),
    ],
)
def test_wrong_targets_are_named(change, words):
    with pytest.raises(ValueError, match=words):
        Target.declare(**{"epsilon": 1.0, "n": 100, **change})


def test_default_delta_is_a_public_function_of_n():
    assert Target.declare(epsilon=1.0, n=100).delta == 1e-6
    assert Target.declare(epsilon=1.0, n=10**7).delta == pytest.approx(1e-8)


@pytest.mark.parametrize("delta", [None, 0.0])
def test_auto_is_the_table_of_the_planner(delta):
    from dperm.choose.table import choose

    X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    problem = dperm.Problem(LogisticLoss(), data=dperm.DataBounds(2.0, dperm.Interval(-1, 1), 1.0))
    target = dperm.Target.declare(epsilon=1.0, delta=delta, n=300)
    release = dperm.fit(problem, dperm.MemoryRows(X, np.sign(X[:, 0])), target, mechanism="auto")
    chosen = choose("auto", problem, dperm.Shape(300, 2), target, asked_for="probabilities")
    assert release.plan.mechanism == chosen.name != "gradient"
    assert release.certificate.verify() and release.plan == dperm.plan(problem, dperm.Shape(300, 2), target, mechanism="auto")


def joint_functions() -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    return {
        "mean": lambda X: X - X.mean(axis=0),
        "largest": lambda X: X / np.abs(X).max(),
        "rank": lambda X: np.argsort(np.argsort(X, axis=0), axis=0) / 10.0,
        "neighbour": lambda X: np.roll(X, 1, axis=0),
        "random": lambda X: X + np.random.default_rng().normal(size=X.shape),
    }


@pytest.mark.parametrize("name", sorted(joint_functions()))
def test_a_callers_function_that_looks_at_several_rows_is_refused_before_the_debit(name, tmp_path):
    """One row would move the features, or the mistakes, of all others: no clip bounds that."""
    function = joint_functions()[name]
    X = np.random.default_rng(1).uniform(-1, 1, (50, 2))
    y = np.sign(X[:, 0])
    ledger = Ledger.create(tmp_path / "people.ledger", dataset="people", epsilon=9.0, delta=1e-5)
    data, target = DataBounds(2.0, Interval(-1, 1)), Target.declare(epsilon=1.0, n=50)
    seen = Problem(LogisticLoss(), data=data, feature_map=FeatureMap(function, 2.0, 2, name))
    with pytest.raises(ValueError, match="each row alone"):
        dperm.fit(seen, MemoryRows(X, y), target, Gradient(steps=2), ledger=ledger)
    learner = dperm.FiniteClassLearner(
        1.0, hypotheses=[lambda X: function(X)[:, 0] > 0.05], bounds=(-1, 1), classes=[False, True], ledger=ledger
    )
    with pytest.raises(ValueError, match="each row alone"):
        learner.fit(X, y > 0)
    assert ledger.account().fits == 0


def test_a_callers_function_of_each_row_is_fitted():
    X = np.random.default_rng(1).uniform(-1, 1, (50, 2))
    turn = np.random.default_rng(2).normal(size=(2, 2))
    turned = FeatureMap(lambda X: X @ turn, 3.0, 2, "turn")
    seen = Problem(LogisticLoss(), data=DataBounds(2.0, Interval(-1, 1)), feature_map=turned)
    release = dperm.fit(seen, MemoryRows(X, np.sign(X[:, 0])), Target.declare(epsilon=1.0, n=50), Gradient(steps=2))
    assert release.certificate.verify()
    rules = [lambda X: X[:, 0] > 0, lambda X: X[:, 1] > 0]
    learner = dperm.FiniteClassLearner(20.0, hypotheses=rules, bounds=(-1, 1), classes=[False, True], random_state=0)
    assert learner.fit(X, X[:, 1] > 0).index_ == 1


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("mechanism", "what"),
    [
        (ScaledGradient(kinds=("boolean", "boolean")), "kinds"),
        (ScaledGradient(kinds=("private", "private")), "kinds"),
        (ScaledGradient(gaps=(0,)), "gaps"),
        (ScaledInference(groups=(0, 0)), "groups"),
    ],
)
def test_a_mechanism_for_other_columns_is_refused_before_the_debit(mechanism, what, sparse, tmp_path):
    """Its certificate would not verify, and what the fit costs would be spent."""
    ledger = dperm.Ledger.create(tmp_path / "people.ledger", dataset="people", epsilon=9.0, delta=1e-5)
    X = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    model = dperm.LogisticRegression(3.0, bounds=(-1, 1), classes=[0, 1], missing=0.0, method=mechanism, ledger=ledger)
    for made in (lambda: model.plan(50, 2), lambda: model.fit(csr_array(X) if sparse else X, X[:, 0] > 0)):
        with pytest.raises(ValueError, match=rf"Leave {what}= out"):
            made()
    assert ledger.account().fits == 0


def test_curves_of_columns_that_are_not_centred_are_refused_before_the_debit(tmp_path):
    ledger = dperm.Ledger.create(tmp_path / "people.ledger", dataset="people", epsilon=9.0, delta=1e-5)
    X = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    model = dperm.GAMClassifier(3.0, bounds=(-1, 1), classes=[0, 1], method=Additive(curved=(0,)), ledger=ledger)
    with pytest.raises(ValueError, match=r"found column 0\. Leave curved= out"):
        model.fit(csr_array(X), X[:, 0] > 0)
    assert ledger.account().fits == 0
