"""The continuous exponential mechanism: its samplers draw from the stated law; needs, certificates, invariance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import dperm
from alterations import unnoticed
from dperm.mechanisms import Exponential, Shape, Target, UnmetNeeds
from dperm.mechanisms.exponential.continuous import exact_objective
from dperm.mechanisms.exponential.samplers import cover, grid_cells, partition, propose
from dperm.problem import (
    AbsoluteLoss,
    Ball,
    Box,
    DataBounds,
    HingeLoss,
    Interval,
    Lasso,
    LogisticLoss,
    Problem,
    Ridge,
    SquaredLoss,
    WholeSpace,
    ZeroOneLoss,
)
from dperm.release.asks import Secret
from dperm.release.noise import noise_source
from dperm.rows import MemoryRows

UNIT = DataBounds(1.0, Interval(-1, 1))
FALSE_ALARM = 1e-6  # of each statistical test, by its own null law


def rows(n, p, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1, 1, (n, p)) / math.sqrt(p)
    return X, np.sign(X @ np.ones(p) + 0.3 * generator.standard_normal(n))


def envelope(problem, X, y, size, seed=1):
    """`size` proposals of the adaptive sampler and whether each is accepted: many draws from one partition."""
    p = X.shape[1]
    settings = Exponential().plan(problem, Shape(len(X), p), Target(1.0, 0.0)).stage("sample").settings
    secret = Secret(MemoryRows(X, y).bounded(problem.data), noise_source(random_state=0), len(X), "zero-out", 1)
    objective = exact_objective(problem, secret, p)
    radius = problem.domain.radius if isinstance(problem.domain, Ball) else None
    cells = partition(objective, *cover(problem, p), settings["rate"], settings["rounds"], radius)
    generator = np.random.default_rng(seed)
    points, number = propose(cells, cells.log_mass(settings["rate"], radius), settings["rate"], size, generator)
    bound = cells.value[number] + np.einsum("ij,ij->i", cells.slope[number], points - cells.centre[number])
    gap = settings["rate"] * (objective(points)[0] - bound)
    inside = np.ones(size, bool) if radius is None else np.linalg.norm(points, axis=1) <= radius
    assert gap[inside].min() > -1e-6  # the envelope lies above the density
    accepted = inside & (np.log(generator.random(size)) <= -gap)
    return points[accepted], accepted.mean(), settings["rate"]


CASES = {
    "logistic in a ball": (LogisticLoss(), Ball(3.0), 2, 400),
    "optimum outside the ball": (SquaredLoss(), Ball(0.2), 2, 5000),
    "optimum outside the box": (SquaredLoss(), Box((-0.1, -0.1), (0.1, 0.3)), 2, 3000),
    "hinge": (HingeLoss(), Ball(2.0), 2, 300),
    "absolute with lasso": (AbsoluteLoss(), Box(-1.0, 1.0, 2), 2, 300),
}


@pytest.mark.parametrize("name", CASES)
def test_adaptive_draws_follow_the_density(name):
    """Marginal moments of accepted draws against quadrature in two dimensions, within 6 standard errors."""
    loss, domain, p, n = CASES[name]
    X, y = rows(n, p)
    regularizer = Lasso(3.0) if "lasso" in name else Ridge(0.5)
    problem = Problem(loss, regularizer, domain, UNIT)
    draws, share, rate = envelope(problem, X, y, 6000)
    assert share > 0.05  # the work is bounded: a batch of 64 fails with probability < 4 %
    low, high = cover(problem, p)
    axes = [np.linspace(lo, hi, 301) for lo, hi in zip(low, high)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, p)
    if isinstance(domain, Ball):
        grid = grid[np.linalg.norm(grid, axis=1) <= domain.radius]
    if loss.name == "squared":
        F = 0.5 * np.einsum("ij,ij->i", grid @ (X.T @ X), grid) - grid @ (X.T @ y)
    else:
        F = sum(np.asarray(loss.value(grid @ x, np.full(len(grid), label))) for x, label in zip(X, y))
    ridge, lasso = (0.0, 3.0) if "lasso" in name else (0.5, 0.0)
    F += ridge / 2 * np.sum(grid**2, axis=1) + lasso * np.sum(np.abs(grid), axis=1)
    law = np.exp(-rate * F - logsumexp(-rate * F))
    for power in (1, 2):
        exact = law @ grid**power
        spread = np.sqrt(law @ grid ** (2 * power) - exact**2)
        error = np.abs((draws**power).mean(axis=0) - exact)
        cell = (high - low) / 300  # the quadrature is no finer than its grid
        assert np.all(error < 6 * spread / math.sqrt(len(draws)) + cell)


def test_adaptive_draws_in_one_dimension_are_a_truncated_normal():
    X, y = rows(2000, 1)
    problem = Problem(SquaredLoss(), domain=Box(-0.5, 0.7, 1), data=UNIT)
    draws, share, rate = envelope(problem, X, y, 4000)
    gram, cross = float(X[:, 0] @ X[:, 0]), float(X[:, 0] @ y)
    deviation = 1 / math.sqrt(rate * gram)  # E8: the precision of the law is k·XᵀX for half the squared residual
    ends = [(-0.5 - cross / gram) / deviation, (0.7 - cross / gram) / deviation]
    law = stats.truncnorm(*ends, loc=cross / gram, scale=deviation)
    assert share > 0.9
    assert stats.kstest(draws[:, 0], law.cdf).pvalue > FALSE_ALARM
    assert stats.kstest(draws[:, 0], stats.norm(cross / gram, deviation).cdf).pvalue < 1e-9  # the cut-off matters


def test_whole_fits_follow_the_density_too():
    """150 complete fits in one dimension against the exact law."""
    X, y = rows(60, 1)
    problem = Problem(LogisticLoss(), domain=Ball(3.0), data=UNIT)
    target, grid = Target(2.0, 0.0), np.linspace(-3, 3, 3001)
    found = [dperm.fit(problem, MemoryRows(X, y), target, Exponential(), random_state=seed).w[0] for seed in range(150)]
    rate = Exponential().plan(problem, Shape(60, 1), target).stage("sample").settings["rate"]
    F = np.asarray(LogisticLoss().value(X @ grid[None, :], np.broadcast_to(y[:, None], (60, 3001)))).sum(axis=0)
    cdf = np.cumsum(np.exp(-rate * F - logsumexp(-rate * F)))
    assert stats.kstest(found, lambda w: np.interp(w, grid, cdf)).pvalue > FALSE_ALARM


def test_grid_is_an_exponential_mechanism_over_cells():
    """The law over cells is exp(-k·F(centre)): chi-square over 20 cells, 2000 fits' worth of draws from one evaluation."""
    X, y = rows(80, 1)
    problem = Problem(ZeroOneLoss(), domain=Ball(1.0), data=DataBounds(1.0, Interval(-1, 1), intercept=0.0))
    mechanism, target = Exponential(cells=20), Target(1.0, 0.0)
    settings = mechanism.plan(problem, Shape(80, 1), target).stage("sample").settings
    centres, sides = grid_cells(problem, 1, 20)
    errors = [(np.sign(X[:, 0] * c) != y).sum() for c in centres[:, 0]]
    law = np.exp(-settings["rate"] * np.array(errors) - logsumexp(-settings["rate"] * np.array(errors)))
    fits = [dperm.fit(problem, MemoryRows(X, y), target, mechanism, random_state=s).w[0] for s in range(400)]
    counts = np.histogram(fits, np.linspace(-1, 1, 21))[0]
    assert stats.chisquare(counts, 400 * law).pvalue > FALSE_ALARM
    assert sides.tolist() == [0.1]


def test_langevin_is_marked_heuristic_and_refused_by_default():
    X, y = rows(500, 6)
    problem = Problem(LogisticLoss(), domain=Ball(2.0), data=UNIT)
    with pytest.raises(UnmetNeeds, match="at most 3 parameters"):
        dperm.plan(problem, Shape(500, 6), Target(1.0, 0.0), Exponential())
    release = dperm.fit(problem, MemoryRows(X, y), Target(1.0, 1e-6), Exponential(sampler="langevin", steps=300), random_state=0)
    assert any("HEURISTIC" in text for text in release.certificate.record["assumptions"])
    bounded = Exponential(sampler="langevin", steps=50, total_variation=1e-8)
    release = dperm.fit(problem, MemoryRows(X, y), Target(1.0, 1e-6), bounded, random_state=0)
    event = release.plan.stages[0].event
    assert event.epsilon == 1.0 and event.delta == pytest.approx((1 + math.e) * 1e-8)
    assert any("UNVERIFIED" in text for text in release.certificate.record["assumptions"])
    assert release.certificate.verify(allow_seeded=True, accept_assumptions=True)


def test_langevin_reaches_the_law_in_one_dimension():
    """Mean and deviation of 100 chains against quadrature, within 6 standard errors."""
    X, y = rows(100, 1)
    problem = Problem(LogisticLoss(), Ridge(1.0), Ball(3.0), UNIT)
    mechanism, target = Exponential(sampler="langevin", steps=120), Target(3.0, 0.0)
    found = np.array([dperm.fit(problem, MemoryRows(X, y), target, mechanism, random_state=s).w[0] for s in range(100)])
    rate = mechanism.plan(problem, Shape(100, 1), target).stage("sample").settings["rate"]
    grid = np.linspace(-3, 3, 3001)
    F = np.asarray(LogisticLoss().value(X @ grid[None, :], np.broadcast_to(y[:, None], (100, 3001)))).sum(axis=0) + grid**2 / 2
    law = np.exp(-rate * F - logsumexp(-rate * F))
    mean, spread = law @ grid, math.sqrt(law @ grid**2 - (law @ grid) ** 2)
    assert abs(found.mean() - mean) < 6 * spread / math.sqrt(100)
    assert abs(found.std() / spread - 1) < 0.45


@pytest.mark.parametrize("relation", ["replace-one", "zero-out", "add-remove"])
def test_rates_follow_the_relation_and_the_person(relation):
    problem = Problem(SquaredLoss(), domain=Ball(2.0), data=UNIT)
    kappa = 2 if relation == "replace-one" else 1
    assert problem.constants.loss_range == 4.5  # half the square of 2 + 1 (E8 with our half-squared loss)
    for people in (1, 3):
        plan = Exponential().plan(problem, Shape(10, 1), Target(1.0, 0.0, relation, people))
        assert plan.stage("sample").settings["rate"] == pytest.approx(1 / (kappa * people * 4.5))


def test_estimators_take_the_method_and_verify():
    X, y = rows(800, 1)
    model = dperm.LogisticRegression(
        epsilon=2.0, delta=0, x_norm=1.0, classes=[-1, 1], method="exponential", radius=5.0, random_state=0
    ).fit(X, y)
    assert model.score(X, y) > 0.7
    assert model.certificate_.delta == 0 and model.certificate_.epsilon == 2.0
    line = dperm.LinearRegression(
        epsilon=5.0, delta=0, bounds=(-1, 1), y_bounds=(-1, 1), method="exponential", radius=3.0, random_state=0
    ).fit(X, 0.8 * X[:, 0])
    assert abs(line.coef_[0] - 0.8) < 0.4


@pytest.mark.parametrize(
    "mechanism",
    [Exponential(), Exponential(sampler="grid", cells=30), Exponential(accounting="gaussian"), Exponential("langevin", steps=9)],
    ids=["adaptive", "grid", "gaussian", "langevin"],
)
def test_every_leaf_of_the_certificate_is_bound(mechanism):
    X, y = rows(50, 2)
    problem = Problem(LogisticLoss(), Ridge(2.0), Ball(1.5), UNIT)
    release = dperm.fit(problem, MemoryRows(X, y), Target(1.0, 1e-4), mechanism, random_state=0)
    assert unnoticed(release.certificate, ("noise.seed", "coefficients.encoded", "coefficients.sha256")) == set()


def test_scaling_rows_and_bounds_together_changes_nothing():
    X, y = rows(200, 2)
    found = []
    for scale in (1.0, 4.0):
        problem = Problem(LogisticLoss(), domain=Ball(2.0 / scale), data=DataBounds(scale, Interval(-1, 1)))
        found.append(dperm.fit(problem, MemoryRows(scale * X, y), Target(1.0, 0.0), Exponential(), random_state=3).w * scale)
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_permuting_rows_changes_nothing_beyond_rounding():
    X, y = rows(300, 2)
    problem = Problem(LogisticLoss(), domain=Ball(2.0), data=UNIT)
    order = np.random.default_rng(0).permutation(300)
    one = dperm.fit(problem, MemoryRows(X, y), Target(1.0, 0.0), Exponential(), random_state=3).w
    other = dperm.fit(problem, MemoryRows(X[order], y[order]), Target(1.0, 0.0), Exponential(), random_state=3).w
    assert one == pytest.approx(other, rel=1e-6)


@pytest.mark.parametrize(
    ("problem", "mechanism", "target", "words"),
    [
        (Problem(LogisticLoss(), domain=WholeSpace(), data=UNIT), {}, (1, 0), "bounded domain"),
        (Problem(SquaredLoss(), domain=Ball(1.0), data=DataBounds(math.inf, Interval(-1, 1))), {}, (1, 0), "loss range"),
        (Problem(ZeroOneLoss(), domain=Ball(1.0), data=UNIT), {"sampler": "adaptive"}, (1, 0), "convex"),
        (Problem(HingeLoss(), domain=Ball(1.0), data=UNIT), {"sampler": "langevin"}, (1, 0), "smooth"),
        (Problem(HingeLoss(), domain=Ball(1.0), data=UNIT), {"cells": 9}, (1, 0), "cells="),
        (Problem(HingeLoss(), domain=Ball(1.0), data=UNIT), {"steps": 9}, (1, 0), "steps="),
        (
            Problem(HingeLoss(), domain=Ball(1.0), data=UNIT),
            {"accounting": "gaussian"},
            (1, 0),
            "strongly convex",
        ),
        (
            Problem(LogisticLoss(), domain=Ball(1.0), data=UNIT),
            {"sampler": "langevin", "total_variation": 1e-3},
            (1, 1e-6),
            "total_variation",
        ),
    ],
)
def test_missing_needs_are_named(problem, mechanism, target, words):
    with pytest.raises(UnmetNeeds, match=words):
        dperm.plan(problem, Shape(100, 1), Target(*map(float, target)), Exponential(**mechanism))
