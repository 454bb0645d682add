"""The walk: it reconciles what was booked with what was planned, books before it draws, and protects n where it must."""

from __future__ import annotations

import numpy as np
import pytest

import dperm
from dperm.curator import Curator
from dperm.mechanisms import Gradient, Outcome, Target
from dperm.noise import SeededNoise
from dperm.privacy import Gaussian, Pure, Sampled
from dperm.problem import DataBounds, Interval, LogisticLoss, Problem
from dperm.rows import MemoryRows
from dperm.walk import LedgerMismatch, fit, merge

PROBLEM = Problem(LogisticLoss(), data=DataBounds(1.0, Interval(-1.0, 1.0), 1.0))
TARGET = Target(1.0, 1e-6)


def rows(n=50):
    generator = np.random.default_rng(0)
    X = generator.uniform(-0.5, 0.5, (n, 2))
    return MemoryRows(X, np.sign(X[:, 0]))


class Greedy(Gradient):
    """Books one release more than it planned."""

    def run(self, plan, problem, curator):
        outcome = super().run(plan, problem, curator)
        curator.book(Gaussian(0.1))
        return outcome


class Idle(Gradient):
    """Plans a descent and runs none."""

    def run(self, plan, problem, curator):
        return Outcome(np.zeros(3))


@pytest.mark.parametrize("mechanism", [Greedy(steps=3), Idle(steps=3)])
def test_a_ledger_that_differs_from_the_plan_releases_nothing(mechanism):
    with pytest.raises(LedgerMismatch, match="Nothing was released"):
        fit(PROBLEM, rows(), TARGET, mechanism, random_state=0)


def test_events_are_booked_before_noise_is_drawn():
    order = []

    class Watching(SeededNoise):
        def normal(self, scale, size):
            order.append("draw")
            return super().normal(scale, size)

    fit(PROBLEM, rows(), TARGET, Gradient(steps=3), noise=Watching(0), on_book=lambda event: order.append("book"))
    assert order == ["book", "draw"] * 3


def test_a_refused_booking_stops_the_run_before_any_draw():
    class Silent(SeededNoise):
        def normal(self, scale, size):
            raise AssertionError("noise was drawn although the budget refused")

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


def test_merge_joins_equal_neighbours_only():
    assert merge([Sampled(0.1, Gaussian(0.2)), Sampled(0.1, Gaussian(0.2))]) == [Sampled(0.1, Gaussian(0.2, 2))]
    assert merge([Sampled(0.1, Gaussian(0.2)), Sampled(0.2, Gaussian(0.2))])[1].rate == 0.2
    assert merge([Pure(0.1), Gaussian(0.1), Pure(0.1)]) == [Pure(0.1), Gaussian(0.1), Pure(0.1)]


def test_progress_counts_public_steps():
    seen = []
    fit(PROBLEM, rows(), TARGET, Gradient(steps=4), random_state=0, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_solve_books_first():
    curator = Curator(rows(), SeededNoise(0), "replace-one", 50)
    assert curator.solve(Pure(0.5), lambda secret: len(curator.ledger)) == 1


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
    from dperm.planner import choose

    X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    problem = dperm.Problem(LogisticLoss(), data=dperm.DataBounds(2.0, dperm.Interval(-1, 1), 1.0))
    target = dperm.Target.declare(epsilon=1.0, delta=delta, n=300)
    release = dperm.fit(problem, dperm.MemoryRows(X, np.sign(X[:, 0])), target, mechanism="auto")
    chosen = choose("auto", problem, dperm.Shape(300, 2), target, asked_for="probabilities")
    assert release.plan.mechanism == chosen.name != "gradient"
    assert release.certificate.verify() and release.plan == dperm.plan(problem, dperm.Shape(300, 2), target, mechanism="auto")
