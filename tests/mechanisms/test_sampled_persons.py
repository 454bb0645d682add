"""Poisson sampling of rows, where a person owns several: the booked event must cover any number of them joining a step."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from dperm.mechanisms import Gradient, Network, Shape, Target, sampling
from dperm.privacy import Sampled
from dperm.problem import DataBounds, Interval, LogisticLoss, MultinomialLoss, Problem
from dperm.rows.memory import MemoryRows
from dperm.terms.gradient import person_rate
from dperm.walk.fitting import fit


def profile(shares, shifts, epsilon: float) -> float:
    """max over directions of δ(ε) of Σ share_j·N(shift_j, 1) against N(0, 1), by the trapezoid rule."""
    x = np.linspace(-12.0, max(shifts) + 12.0, 20_001)
    mixed = sum(share * norm.pdf(x, shift) for share, shift in zip(shares, shifts))
    plain, factor = norm.pdf(x), math.exp(epsilon)
    ways = (mixed - factor * plain, plain - factor * mixed)
    return max(float(np.trapezoid(np.maximum(way, 0.0), x)) for way in ways)


def planned(mechanism, problem, rows: int, mu: float, monkeypatch) -> Sampled:
    """The event of the plan, with the μ of a step given: its search takes seconds and is not what is tested."""
    monkeypatch.setattr(sampling, "_sampled_mu", lambda *numbers: mu)
    target = Target(1.0, 1e-6, "zero-out", rows_per_person=rows)
    event = mechanism.plan(problem, Shape(1000, 2), target).stage("descent").event
    assert isinstance(event, Sampled)
    return event


LOGISTIC = Problem(LogisticLoss(), data=DataBounds(1.0, Interval(-1.0, 1.0)))
CLASSES = Problem(MultinomialLoss(3), data=DataBounds(1.0, Interval(0.0, 2.0)))


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize(
    ("mechanism", "problem"),
    [(Gradient(sampling_rate=0.1, steps=2), LOGISTIC), (Network(sampling_rate=0.1, steps=2), CLASSES)],
    ids=["gradient", "network"],
)
@pytest.mark.parametrize("mu", [0.5, 4.0])
def test_booked_event_covers_every_number_of_joining_rows(mechanism, problem, mu, rows, monkeypatch):
    """Noise is k·C/μ; k aligned rows move the sum by j·μ/k noise units with probability Bin(k, q)(j)."""
    event = planned(mechanism, problem, rows, mu, monkeypatch)
    joined = np.arange(rows + 1)
    for epsilon in (0.0, 0.02, 0.1, 0.5, 1.0, 2.0):
        truth = profile(binom.pmf(joined, rows, 0.1), joined * mu / rows, epsilon)
        assert truth <= profile([1 - event.rate, event.rate], [0.0, mu], epsilon) * (1 + 1e-6) + 1e-9


def test_rate_of_a_row_is_too_small_for_a_person():
    """Why: without the correction the bound above fails."""
    shares = binom.pmf(np.arange(3), 2, 0.01)
    assert profile(shares, [0.0, 2.0, 4.0], 0.0) > 1.4 * profile([0.99, 0.01], [0.0, 4.0], 0.0)
    assert person_rate(0.01, 1) == 0.01  # bit for bit: one row per person is as before
    assert person_rate(1.0, 3) == 1.0


def test_the_run_books_what_the_plan_says():
    """Two rows per person: the walk compares the events of plan and run and would raise."""
    generator = np.random.default_rng(0)
    rows = MemoryRows(generator.normal(size=(40, 2)), np.ones(40))
    target = Target(1.0, 1e-3, "zero-out", rows_per_person=2)
    release = fit(LOGISTIC, rows, target, Gradient(sampling_rate=0.5, steps=1), random_state=0)
    assert release.plan.stages[0].event.rate == 0.75
