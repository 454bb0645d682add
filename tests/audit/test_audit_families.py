"""Statistical audits of the finite, quantile, mean, statistics and zeroth-order mechanisms.

Each audit fits on two neighbours with fixed seeds, so its verdict never changes; with fresh seeds a sound mechanism would
fail with probability at most 1e-4. The same audit with a larger budget behind the same claim must fail: the audits have power.
(The continuous exponential mechanism has its density checked by quadrature and its draws against the density.)
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dperm
from dperm.audit import distinguish
from dperm.mechanisms import FiniteExponential, Mean, QuantileExponential, Statistics, Target, Zeroth
from dperm.mechanisms.hypotheses.classes import Thresholds
from dperm.privacy import gaussian_mu
from dperm.problem import DataBounds, HingeLoss, Interval, Problem, QuantileLoss, SquaredLoss, ZeroOneLoss
from dperm.rows import MemoryRows

UNIT = DataBounds(1.0, Interval(-1, 1))
ONE = np.ones((20, 1))
UP = np.ones(20)
DOWN = np.r_[-np.ones(1), np.ones(19)]
CLASSES = DataBounds(np.inf, Interval(0, 1))
COLUMN = DataBounds.box([0.0], [1.0], Interval(0, 0))

# name: mechanism, problem, data, neighbour, delta, trials
CASES = {
    "finite": (
        FiniteExponential(Thresholds(0.0, 1.0, 2)),
        Problem(ZeroOneLoss(), data=CLASSES),
        (np.full((20, 1), 0.5), np.r_[np.ones(10), np.zeros(10)]),
        (np.full((20, 1), 0.5), np.r_[np.ones(9), np.zeros(11)]),
        0.0,
        500,
    ),
    "quantile": (
        QuantileExponential(cells=16),
        Problem(QuantileLoss(0.5), data=COLUMN),
        (np.r_[np.zeros(10), np.ones(10)][:, None], np.zeros(20)),
        (np.r_[np.zeros(9), np.ones(11)][:, None], np.zeros(20)),
        0.0,
        500,
    ),
    "mean": (
        Mean(),
        Problem(SquaredLoss(), data=COLUMN),
        (np.zeros((20, 1)), np.zeros(20)),
        (np.r_[np.zeros(19), np.ones(1)][:, None], np.zeros(20)),
        0.0,
        500,
    ),
    "statistics": (Statistics(), Problem(SquaredLoss(), data=UNIT), (ONE, UP), (ONE, DOWN), 1e-3, 300),
    "zeroth": (Zeroth(steps=1), Problem(HingeLoss(), data=UNIT), (ONE, UP), (ONE, DOWN), 1e-3, 300),
}


def audit(name, budget):
    mechanism, problem, data, neighbour, delta, trials = CASES[name]
    seeds = itertools.count(1)

    def run(rows):
        release = dperm.fit(problem, MemoryRows(*rows), Target(budget, delta), mechanism, random_state=next(seeds))
        return release.released.get("moments", release.w)

    claim = dperm.privacy.PureDP(1.0, "replace-one")
    if delta:
        claim = dperm.privacy.GDP(gaussian_mu(1.0, delta), "replace-one")
    return distinguish(run, data, neighbour, trials, delta=delta, confidence=0.9999, claim=claim)


@pytest.mark.parametrize("name", CASES)
def test_the_claim_survives_an_audit(name):
    found = audit(name, 1.0)
    assert not found.violates
    assert found.epsilon_lower <= 1.0


@pytest.mark.parametrize("name", CASES)
def test_a_larger_budget_behind_the_same_claim_is_found(name):
    assert audit(name, 6.0).violates
