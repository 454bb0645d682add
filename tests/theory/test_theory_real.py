"""Every risk bound against the mechanism that ships: data where the assumptions hold, many real fits, measured ≤ bound.

Seeds are fixed. "Measured" is the mean excess risk plus four standard errors, so a true bound fails with probability below 1e-4.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

import dperm.theory as theory
from dperm.mechanisms import MECHANISMS, Gradient, Shape, Target
from dperm.problem import AbsoluteLoss, Ball, DataBounds, Interval, LogisticLoss, Problem, Ridge
from dperm.rows import MemoryRows
from dperm.walk.fitting import fit, plan
from theory_registry import simulates

LABELS = Interval(-1.0, 1.0)


def measured(values):
    return float(np.mean(values) + 4 * np.std(values, ddof=1) / math.sqrt(len(values)))


def sphere_rows(n, d, seed):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    w = np.zeros(d)
    w[0] = 3.0
    y = np.where(generator.random(n) < 1 / (1 + np.exp(-X @ w)), 1.0, -1.0)
    return X, y


def mean_risk(X, y, w, ridge=0.0):
    return float(np.mean(np.logaddexp(0.0, -y * (X @ w)))) + ridge / 2 * float(w @ w)


def best_in_ball(X, y, radius):
    found = minimize(
        lambda w: mean_risk(X, y, w), np.zeros(X.shape[1]), constraints={"type": "ineq", "fun": lambda w: radius**2 - w @ w}
    )
    return mean_risk(X, y, found.x)


@simulates("gradient_descent_plan", "gradient_descent_risk")
@pytest.mark.parametrize("relation", ["replace-one", "zero-out"])
def test_noisy_gradient_descent_stays_below_its_bound(relation):
    n, d, radius, epsilon, delta = 400, 4, 1.0, 1.0, 1e-6
    X, y = sphere_rows(n, d, 1)
    advice = theory.gradient_descent_plan(n, d, 1.0, radius=radius, epsilon=epsilon, delta=delta, relation=relation, steps=60)
    problem = Problem(LogisticLoss(), domain=Ball(radius), data=DataBounds(1.0, LABELS))
    mechanism = Gradient(steps=60, step_size=advice.step_size, clip=1.0, momentum=0.0, output="average")
    target = Target(epsilon, delta, relation)
    best = best_in_ball(X, y, radius)
    rows = MemoryRows(X, y)
    excess = [mean_risk(X, y, fit(problem, rows, target, mechanism, random_state=s).w) - best for s in range(60)]
    bound = theory.gradient_descent_risk(n, d, 1.0, radius=radius, epsilon=epsilon, delta=delta, relation=relation, steps=60)
    assert measured(excess) <= bound
    settings = plan(problem, Shape(n, d), target, mechanism).stages[0].settings
    assert settings["noise_of_mean"] == pytest.approx(advice.noise, rel=2e-3)


@simulates("output_perturbation_risk", "objective_perturbation_risk")
@pytest.mark.parametrize(("name", "risk"), [("output", "output_perturbation_risk"), ("objective", "objective_perturbation_risk")])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_output_and_objective_perturbation_stay_below_their_bounds(name, risk, delta):
    if name not in MECHANISMS:
        pytest.fail(f"the mechanism {name!r} is not registered")
    n, d, epsilon, ridge = 500, 4, 1.0, 0.05
    X, y = sphere_rows(n, d, 2)
    problem = Problem(LogisticLoss(), Ridge(n * ridge), data=DataBounds(1.0, LABELS))
    exact = minimize(lambda w: mean_risk(X, y, w, ridge), np.zeros(d), options={"gtol": 1e-10})
    target = Target(epsilon, delta, "zero-out")
    rows = MemoryRows(X, y)
    mechanism = MECHANISMS[name]()
    excess = [mean_risk(X, y, fit(problem, rows, target, mechanism, random_state=s).w, ridge) - exact.fun for s in range(60)]
    options = {"self_bounding": 1.0} if name == "objective" else {}
    bound = getattr(theory, risk)(n, d, 1.0, ridge, epsilon=epsilon, delta=delta or None, relation="zero-out", **options)
    assert 0 < measured(excess) <= bound


@simulates("exponential_erm_risk")
def test_exponential_mechanism_stays_below_its_convex_bound():
    n, epsilon, radius = 300, 1.0, 1.0
    generator = np.random.default_rng(3)
    y = np.clip(generator.normal(0.3, 0.2, n), -1, 1)
    X = np.ones((n, 1))
    problem = Problem(AbsoluteLoss(), domain=Ball(radius), data=DataBounds(1.0, LABELS))
    target = Target(epsilon, 0.0)
    rows = MemoryRows(X, y)
    best = np.mean(np.abs(y - np.median(y)))
    excess = [np.mean(np.abs(y - fit(problem, rows, target, "exponential", random_state=s).w[0])) - best for s in range(150)]
    bound = theory.exponential_erm_risk(n, 1, 1.0, radius=radius, epsilon=epsilon, convex=True)
    assert measured(excess) <= bound
