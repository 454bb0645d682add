"""Zeroth-order perturbation: sensitivity, unbiasedness, public directions, losses without gradients, certificates."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import dperm
from alterations import unnoticed
from dperm.mechanisms import Gradient, Shape, Target, UnmetNeeds, Zeroth
from dperm.mechanisms.zeroth import TwoPointTerm, directions
from dperm.privacy import gaussian_mu
from dperm.problem import (
    AbsoluteLoss,
    Ball,
    DataBounds,
    HingeLoss,
    Interval,
    Lasso,
    LogisticLoss,
    MultinomialLoss,
    Problem,
    Ridge,
    SquaredLoss,
    ZeroOneLoss,
)
from dperm.rows import MemoryRows
from dperm.terms.affine import Features

UNIT = DataBounds(1.0, Interval(-1, 1))
RELATIONS = ("replace-one", "zero-out", "add-remove")


def rows(n=8000, p=4, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1, 1, (n, p)) / math.sqrt(p)
    return X, np.sign(X @ np.linspace(1.0, -0.5, p) + 0.1 * generator.standard_normal(n))


def largest_mu(loss, relation, factor=1.0, clip=None):
    """max over adversarial rows, points and directions of |difference of exact sums|/(planned deviation × factor)."""
    problem = Problem(loss, data=UNIT)
    plan = Zeroth(clip=clip, steps=10).plan(problem, Shape(3, 2), Target(1.0, 1e-3, relation))
    settings = plan.stage("descent").settings
    deviation = settings["noise_of_mean"] * 3 * factor
    worst = 0.0
    records = [(np.array([math.cos(a), math.sin(a)]), y) for a in np.linspace(0, 2 * math.pi, 8) for y in (1.0, -1.0)]
    for w, u in itertools.product((np.zeros(2), np.array([2.0, 0.0])), (np.array([1.0, 0.0]), np.array([0.6, 0.8]))):
        term = TwoPointTerm(loss, w, u, settings["smoothing"], settings["clip"], Features())
        sums = [MemoryRows(np.array([[0.1, 0.2], x]), [1.0, y]).bounded(UNIT).sum(term, 2.0**-40)[0] for x, y in records]
        null = MemoryRows(np.array([[0.1, 0.2], records[0][0]]), [1.0, 1.0], [1.0, 0.0]).bounded(UNIT).sum(term, 2.0**-40)[0]
        pairs = itertools.combinations(sums, 2) if relation == "replace-one" else ((s, null) for s in sums)
        worst = max(worst, *(abs(a - b) for a, b in pairs))
    return worst / deviation, gaussian_mu(1.0, 1e-3) / math.sqrt(10)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("loss", [AbsoluteLoss(), HingeLoss(), ZeroOneLoss(), SquaredLoss()], ids=lambda loss: loss.name)
def test_exact_step_mu_stays_below_the_certified_one_and_touches_it(loss, relation):
    found, certified = largest_mu(loss, relation)
    assert found <= certified
    assert found > 0.99 * certified
    for factor in (0.7, 0.5):  # noise × 0.7, sensitivity ÷ 2
        assert largest_mu(loss, relation, factor)[0] > 1.2 * certified


def test_exact_total_is_the_target():
    plan = Zeroth(steps=77).plan(Problem(HingeLoss(), data=UNIT), Shape(100, 5), Target(0.8, 1e-5))
    assert 0.8 * (1 - 1e-6) < plan.guarantee.epsilon(1e-5) <= 0.8
    assert plan.events[0].count == 77


def test_the_estimate_is_unbiased_for_the_smoothed_gradient():
    """p·s·u averaged over 40,000 public directions against the gradient of a quadratic (smoothing leaves it as it is).

    Each entry within 6 standard errors: false-alarm rate below 1e-8.
    """
    X, y = rows(200, 3)
    problem = Problem(SquaredLoss(), data=UNIT)
    w = np.array([0.3, -0.2, 0.5])
    inner = np.array(
        [TwoPointTerm(problem.loss, w, u, 0.1, 1e9, Features())(_block(X, y))[0] * 3 * u for u in directions(5, 40_000, 3)]
    )
    exact = X.T @ (X @ w - y)
    assert np.all(np.abs(inner.mean(axis=0) - exact) < 6 * inner.std(axis=0) / 200)


def _block(X, y):
    from dperm.rows.base import Block

    return Block(X, y, None, 0)


def test_directions_are_a_public_function_of_the_seed():
    one, again, other = (np.array(list(directions(seed, 5, 3))) for seed in (3, 3, 4))
    assert (one == again).all()
    assert not np.allclose(one, other)
    X, y = rows(300)
    problem = Problem(HingeLoss(), data=UNIT)
    fits = [dperm.fit(problem, MemoryRows(X, y), Target(5.0, 1e-4), Zeroth(steps=30, seed=s), random_state=0) for s in (1, 1, 2)]
    assert (fits[0].w == fits[1].w).all()
    assert not np.allclose(fits[0].w, fits[2].w)
    assert fits[2].plan.stage("descent").settings["seed"] == 2


@pytest.mark.parametrize("loss", [HingeLoss(), AbsoluteLoss(), ZeroOneLoss(), LogisticLoss()], ids=lambda loss: loss.name)
def test_losses_with_and_without_gradients_are_learnt(loss):
    X, y = rows()
    release = dperm.fit(Problem(loss, data=UNIT), MemoryRows(X, y), Target(2.0, 1e-6), Zeroth(), random_state=0)
    assert np.mean(np.sign(X @ release.w) == y) > 0.85


def test_large_epsilon_and_many_steps_approach_the_minimum():
    X, y = rows(2000, 2)
    problem = Problem(LogisticLoss(), Ridge(20.0), Ball(5.0), UNIT)
    noisy = dperm.fit(problem, MemoryRows(X, y), Target(1e6, 1e-5), Zeroth(steps=2000, step_size=3.0), random_state=0).w
    exact = dperm.fit(problem, MemoryRows(X, y), Target(1e6, 1e-5), Gradient(steps=400), random_state=0).w
    assert noisy == pytest.approx(exact, abs=0.2)


def test_estimators_take_the_method():
    X, y = rows(3000)
    model = dperm.LogisticRegression(epsilon=3.0, x_norm=1.0, classes=[-1, 1], method="zeroth", random_state=0).fit(X, y)
    assert model.score(X, y) > 0.8
    three = dperm.LogisticRegression(epsilon=8.0, x_norm=1.0, classes=[0, 1, 2], method=Zeroth(steps=200), random_state=0)
    labels = np.digitize(X[:, 0], [-0.15, 0.15])
    assert three.fit(X, labels).score(X, labels) > 0.5
    line = dperm.LinearRegression(epsilon=5.0, x_norm=1.0, y_bounds=(-1, 1), method="zeroth", random_state=0).fit(X, X[:, 0])
    assert line.score(X, X[:, 0]) > 0.5


@pytest.mark.parametrize("loss", [HingeLoss(), ZeroOneLoss(), SquaredLoss()], ids=lambda loss: loss.name)
def test_every_leaf_of_the_certificate_is_bound(loss):
    X, y = rows(300)
    problem = Problem(loss, Ridge(1.0), Ball(3.0), UNIT)
    release = dperm.fit(problem, MemoryRows(X, y), Target(2.0, 1e-4), Zeroth(steps=20), random_state=0)
    unbound = unnoticed(release.certificate, ("noise.seed", "coefficients.encoded", "coefficients.sha256"))
    assert unbound == set()


def test_permuting_rows_and_scaling_units():
    X, y = rows(500)
    order = np.random.default_rng(1).permutation(500)
    problem, target = Problem(AbsoluteLoss(), data=UNIT), Target(1.0, 1e-4)
    one = dperm.fit(problem, MemoryRows(X, y), target, Zeroth(steps=50), random_state=2).w
    assert dperm.fit(problem, MemoryRows(X[order], y[order]), target, Zeroth(steps=50), random_state=2).w == pytest.approx(one)
    wide = Problem(AbsoluteLoss(), data=DataBounds(8.0, Interval(-1, 1)))
    scaled = dperm.fit(wide, MemoryRows(8 * X, y), target, Zeroth(steps=50), random_state=2).w
    assert 8 * scaled == pytest.approx(one, rel=1e-6)


def test_lasso_is_taken_by_its_proximal_step():
    X, y = rows(500)
    problem = Problem(HingeLoss(), Lasso(1e5), data=UNIT)
    assert (dperm.fit(problem, MemoryRows(X, y), Target(1.0, 1e-4), Zeroth(steps=20), random_state=2).w == 0).all()


@pytest.mark.parametrize(
    ("problem", "delta", "words"),
    [
        (Problem(HingeLoss(), data=UNIT), 0.0, "delta > 0"),
        (Problem(HingeLoss(), data=DataBounds(math.inf, Interval(-1, 1))), 1e-6, "norm of a row"),
        (Problem(SquaredLoss(), data=DataBounds(1.0, Interval(-math.inf, 1))), 1e-6, "clip="),
    ],
)
def test_missing_needs_are_named(problem, delta, words):
    with pytest.raises(UnmetNeeds, match=words):
        dperm.plan(problem, Shape(100, 2), Target(1.0, delta), Zeroth())


def test_multinomial_slopes_count_all_classes():
    problem = Problem(MultinomialLoss(classes=3), data=DataBounds(1.0, Interval(0, 2)))
    settings = Zeroth().plan(problem, Shape(100, 2), Target(1.0, 1e-6)).stage("descent").settings
    assert settings["parameters"] == 6
    assert settings["clip"] == pytest.approx(math.sqrt(2.0))
