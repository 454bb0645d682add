"""Noisy gradient descent: its limit, its noise, its options, and the lectures' printed calibrations."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

import dperm
from dperm.mechanisms import Gradient, Shape, Target, UnmetNeeds
from dperm.privacy import Gaussian, HiddenState, Sampled, gaussian_epsilon, gaussian_mu
from dperm.problem import (
    AbsoluteLoss,
    Ball,
    DataBounds,
    FeatureMap,
    HingeLoss,
    HuberLoss,
    Interval,
    Lasso,
    LogisticLoss,
    MultinomialLoss,
    Problem,
    Ridge,
    SquaredLoss,
    ZeroOneLoss,
)
from dperm.release.noise import gaussian_scale
from dperm.rows import MemoryRows
from dperm.rows.base import sum_step
from dperm.walk.fitting import fit, plan
from small_problems import problem

LABELS = Interval(-1.0, 1.0)
HUGE = Target(1e18, 1e-6)


def data(generator, n=400, d=3):
    X = generator.uniform(-0.5, 0.5, (n, d))
    y = np.sign(X @ np.arange(1, d + 1) + 0.3 * generator.standard_normal(n))
    return X, y


def objective(p, X, y):
    Z = np.column_stack([X, np.ones(len(X))])
    K = p.loss.margins

    def value(w):
        z = Z @ w if K == 1 else Z @ w.reshape(K, -1).T
        return float(np.sum(p.loss.value(z, y)) + p.regularizer.value(w))

    return value


@pytest.mark.parametrize(
    ("loss", "regularizer", "labels"),
    [
        (LogisticLoss(), Ridge(5.0), None),
        (SquaredLoss(), Ridge(2.0), None),
        (HuberLoss(0.3), Ridge(2.0), None),
        (MultinomialLoss(classes=3), Ridge(5.0), 3),
        (SquaredLoss(), Lasso(8.0), None),
    ],
)
def test_large_epsilon_gives_the_non_private_minimiser(generator, loss, regularizer, labels):
    X, y = data(generator)
    interval = LABELS
    if labels:
        y, interval = generator.integers(0, labels, len(X)), Interval(0, labels - 1)
    p = problem(loss, regularizer, y=interval)
    mechanism = Gradient(steps=3000, step_size=0.5, clip=10.0, momentum=0.5, output="last")
    release = fit(p, MemoryRows(X, y), HUGE, mechanism, random_state=0)
    value = objective(p, X, y)
    if isinstance(regularizer, Lasso):  # smooth solvers do not reach a kink: check optimality by small moves instead
        for j in range(4):
            for move in (1e-4, -1e-4):
                assert value(release.w) <= value(release.w + move * np.eye(4)[j]) + 1e-9
        assert np.any(release.w == 0) or np.all(np.abs(release.w) > 1e-3)
        return
    best = minimize(value, np.zeros_like(release.w), method="BFGS", options={"gtol": 1e-10, "maxiter": 5000})
    best = minimize(value, best.x, method="BFGS", options={"gtol": 1e-12, "maxiter": 5000})
    assert value(release.w) - value(best.x) < 1e-6
    np.testing.assert_allclose(release.w, best.x, atol=5e-6 * (1 + 100 * (labels is not None)))


def test_noise_of_every_step_is_the_planned_one():
    """One step from zero on null rows: w = -η·noise. 4,000 coordinates: the deviation is within 5 % (false alarm 1e-5)."""
    n, d = 50, 4000
    p = Problem(SquaredLoss(), data=DataBounds(1.0, LABELS))
    mechanism = Gradient(steps=1, step_size=1.0, clip=0.5, momentum=0.0, output="last")
    for relation, kappa in (("replace-one", 2), ("zero-out", 1)):
        target = Target(1.0, 1e-6, relation)
        release = fit(p, MemoryRows(np.zeros((n, d)), np.zeros(n)), target, mechanism, random_state=3)
        sigma = gaussian_scale(kappa * 0.5, gaussian_mu(1.0, 1e-6)) / n
        assert release.plan.stage("descent").settings["noise_of_mean"] == pytest.approx(sigma, rel=1e-9)
        assert np.std(release.w) == pytest.approx(sigma, rel=0.05)


def test_events_compose_to_exactly_the_target():
    for steps in (1, 7, 100):
        planned = plan(problem(), Shape(1000, 3), Target(1.0, 1e-6), Gradient(steps=steps))
        assert planned.events == (Gaussian(planned.events[0].mu, steps),)
        assert planned.guarantee.epsilon(1e-6) <= 1.0 + 1e-9
        assert planned.guarantee.epsilon(1e-6) == pytest.approx(1.0, rel=1e-8)


def test_person_level_noise_scales_with_the_rows_of_a_person():
    settings = [
        plan(problem(), Shape(1000, 3), Target(1.0, 1e-6, "replace-one", k), Gradient(steps=10, clip=1.0)).stages[0].settings
        for k in (1, 5)
    ]
    assert settings[1]["noise_of_mean"] == pytest.approx(5 * settings[0]["noise_of_mean"])


@pytest.mark.parametrize("output", ["tail", "average", "last"])
def test_outputs_differ_and_are_what_they_say(generator, output):
    X, y = data(generator, 60)
    steps = 6
    mechanism = Gradient(steps=steps, step_size=0.3, clip=5.0, momentum=0.0, output=output)
    release = fit(problem(), MemoryRows(X, y), HUGE, mechanism, random_state=1)
    Z = np.column_stack([X, np.ones(60)])
    path = [np.zeros(4)]
    for _ in range(steps):
        path.append(path[-1] - 0.3 * Z.T @ LogisticLoss().slope(Z @ path[-1], y) / 60)
    expected = {"last": path[-1], "average": np.mean(path[:-1], axis=0), "tail": np.mean(path[4:], axis=0)}[output]
    np.testing.assert_allclose(release.w, expected, atol=1e-3)


def test_projection_keeps_the_answer_in_the_domain(generator):
    X, y = data(generator)
    release = fit(problem(domain=Ball(0.2)), MemoryRows(X, y), Target(1.0, 1e-6), Gradient(), random_state=0)
    assert np.linalg.norm(release.w) <= 0.2 + 1e-12


@pytest.mark.parametrize("loss", [HingeLoss(), AbsoluteLoss()])
def test_subgradients_learn_something(generator, loss):
    X, y = data(generator, 4000)
    release = fit(problem(loss), MemoryRows(X, y), Target(5.0, 1e-6), Gradient(), random_state=0)
    Z = np.column_stack([X, np.ones(len(X))])
    assert np.mean(np.sign(Z @ release.w) == y) > 0.8


def test_poisson_sampling_is_booked_and_works(generator):
    X, y = data(generator, 3000)
    mechanism = Gradient(steps=40, step_size=2.0, sampling_rate=0.1, momentum=0.5)
    release = fit(problem(), MemoryRows(X, y), Target(3.0, 1e-6, "zero-out"), mechanism, random_state=0)
    event = release.plan.events[0]
    assert isinstance(event, Sampled) and event.rate == 0.1 and event.total() == 40
    # Amplification: the same noise without sampling would cost far more.
    assert gaussian_epsilon(1e-6, event.event.mu * math.sqrt(40)) > 6.0
    Z = np.column_stack([X, np.ones(len(X))])
    assert np.mean(np.sign(Z @ release.w) == y) > 0.8


def test_poisson_sampling_is_refused_under_replace_one():
    with pytest.raises(UnmetNeeds, match="a replaced row is neither"):
        plan(problem(), Shape(100, 3), Target(1.0, 1e-6), Gradient(sampling_rate=0.1))


def test_hidden_state_is_never_more_noise_than_composition_and_less_when_it_pays():
    p = problem(regularizer=Ridge(500.0))
    shape, target = Shape(1000, 3), Target(1.0, 1e-6)
    options = {"steps": 5000, "step_size": 0.5, "clip": 1.0, "momentum": 0.0, "output": "last"}
    composed = plan(p, shape, target, Gradient(**options))
    hidden = plan(p, shape, target, Gradient(**options, accounting="hidden-state"))
    assert isinstance(hidden.events[0], HiddenState)
    assert hidden.stages[0].settings["noise_of_mean"] < 0.2 * composed.stages[0].settings["noise_of_mean"]
    assert hidden.guarantee.epsilon(1e-6) <= 1.0 + 1e-9
    short = {**options, "steps": 2}
    hidden, composed = (plan(p, shape, target, Gradient(**short, accounting=a)) for a in ("hidden-state", "composition"))
    assert hidden.stages[0].settings["noise_of_mean"] <= composed.stages[0].settings["noise_of_mean"] * (1 + 1e-9)


def test_a_step_of_the_hidden_state_contracts_as_it_is_computed():
    """Two million equal rows: where slopes are on a grid, all of them round together, and two parameters that are next to each
    other end up 1.9 sensitivities apart after one step."""
    n, clip = 2_000_000, 1.0
    mechanism = Gradient(steps=10, step_size=0.5, clip=clip, accounting="hidden-state", output="last")
    p = Problem(LogisticLoss(), Ridge(0.01), Ball(1.0), DataBounds(1.0, Interval(-1, 1)))
    rows = MemoryRows(np.ones((n, 1)), np.ones(n)).bounded(p.data)

    def slope(w):
        return rows.sum(mechanism._term(p, np.array([w]), clip), sum_step(clip, n))[0] / n

    low, high = 0.3, 0.3 + 1e-5
    for _ in range(40):  # halve towards the largest jump
        middle = (low + high) / 2
        first, last = slope(middle) - slope(low), slope(high) - slope(middle)
        low, high = (low, middle) if abs(first) > abs(last) else (middle, high)
    assert abs(slope(high) - slope(low)) <= 0.25 * (high - low) + 0.001 * clip / n
    weighted = MemoryRows(np.ones((50, 1)), np.ones(50), np.full(50, 9.0)).bounded(p.data)
    heavy = replace(mechanism, max_weight=2.0)
    found = weighted.sum(heavy._term(p, np.array([0.5]), clip), sum_step(clip, 50))[0]
    assert found == pytest.approx(50 * 2 * max(-1 / (1 + np.exp(0.5)), -clip / 2))  # weights are cut, and act after the clip


def test_hidden_state_fit_books_one_event(generator):
    X, y = data(generator)
    mechanism = Gradient(steps=50, step_size=0.5, clip=1.0, output="last", accounting="hidden-state")
    release = fit(problem(regularizer=Ridge(40.0)), MemoryRows(X, y), Target(1.0, 1e-6), mechanism, random_state=0)
    assert len(release.plan.events) == 1 and release.certificate.verify(allow_seeded=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"accounting": "hidden-state", "output": "tail"}, "output='last'"),
        ({"accounting": "hidden-state", "output": "last", "momentum": 0.9}, "momentum=0"),
        ({"bound": "assumed"}, "assumed_bound"),
        ({"assumed_bound": 1.0}, "assumed_bound"),
        ({"bound": "data", "clip": 1.0}, "clip= only"),
        ({"calibration": "printed-slides"}, "accept_known_error"),
        ({"accept_known_error": True}, "only with a printed"),
    ],
)
def test_every_missing_need_is_named(options, words):
    with pytest.raises(UnmetNeeds, match=words):
        plan(problem(), Shape(100, 3), Target(1.0, 1e-6), Gradient(**options))


def test_unmet_needs_of_the_problem_are_all_listed():
    bad = Problem(ZeroOneLoss(), data=DataBounds(math.inf, LABELS))
    with pytest.raises(UnmetNeeds) as caught:
        plan(bad, Shape(100, 3), Target(1.0, 0.0), Gradient(bound="data"))
    assert len(caught.value.needs) >= 4
    for words in ("delta > 0", "zero-one", "finite bound on the norm", "Lipschitz"):
        assert words in str(caught.value)


@pytest.mark.parametrize("options", [{"output": "best"}, {"steps": 0}, {"clip": -1.0}, {"sampling_rate": 2.0}, {"momentum": 1.0}])
def test_bad_options_are_refused(options):
    with pytest.raises(ValueError, match="Expected"):
        Gradient(**options)


def test_data_bound_uses_the_lipschitz_constant():
    planned = plan(problem(), Shape(100, 3), Target(1.0, 1e-6), Gradient(bound="data"))
    assert planned.stages[0].settings["clip"] == pytest.approx(math.sqrt(2.0))
    squared = problem(SquaredLoss(), domain=Ball(2.0))
    planned = plan(squared, Shape(100, 3), Target(1.0, 1e-6), Gradient(bound="data"))
    assert planned.stages[0].settings["clip"] == pytest.approx(math.sqrt(2.0) * (2 * math.sqrt(2.0) + 1))


def test_assumed_bound_is_recorded_as_unverified(generator):
    X, y = data(generator)
    release = fit(problem(), MemoryRows(X, y), Target(1.0, 1e-6), Gradient(bound="assumed", assumed_bound=1.5), random_state=0)
    assert any("UNVERIFIED" in text for text in release.certificate.record["assumptions"])


def test_exercise_without_a_bound_the_privacy_loss_has_no_limit():
    """Lecture 13, exercise 2.1: with an unclipped gradient the two noisy gradients separate by as many σ as one likes."""
    p = Problem(SquaredLoss(), data=DataBounds(1.0, LABELS))
    mechanism = Gradient(steps=1, step_size=1.0, bound="assumed", assumed_bound=1.0, momentum=0.0, output="last")
    from dperm.terms.affine import Features
    from dperm.terms.gradient import GradientTerm, UnclippedGradientTerm

    sigma = gaussian_scale(2.0, gaussian_mu(1.0, 1e-6))
    gaps = []
    for size in (1.0, 10.0, 100.0, 1000.0):
        w = np.array([size])
        sums = []
        for x in (1.0, 0.0):
            rows = MemoryRows(np.array([[x]]), np.array([-1.0])).bounded(p.data)
            sums.append(rows.sum(UnclippedGradientTerm(p.loss, w, 1.0, Features(0.0)), 2.0**-20)[0])
            clipped = rows.sum(GradientTerm(p.loss, w, 1.0, Features(0.0)), 2.0**-20)[0]
            assert abs(clipped) <= 1.0
        gaps.append(gaussian_epsilon(1e-6, abs(sums[0] - sums[1]) / sigma))
    assert gaps == sorted(gaps) and gaps[0] <= 1.0 and gaps[-1] > 1000
    assert plan(p, Shape(1, 1), Target(1.0, 1e-6), mechanism).assumptions


@pytest.mark.parametrize(("calibration", "true"), [("printed-slides", 1.341), ("printed-lecture-13", 1.1099)])
def test_printed_calibrations_certify_their_true_epsilon(generator, calibration, true):
    X, y = data(generator)
    mechanism = Gradient(steps=100, calibration=calibration, accept_known_error=True)
    release = fit(problem(), MemoryRows(X, y), Target(1.0, 1e-5), mechanism, random_state=0)
    assert release.certificate.epsilon == pytest.approx(true, abs=6e-4)
    assert release.certificate.verify(allow_seeded=True)


def test_feature_map_is_applied_and_counted(generator):
    X, y = data(generator, 2000)
    square = FeatureMap(lambda A: A**2, output_norm=0.5, output_dimension=3, name="square")
    p = Problem(LogisticLoss(), data=DataBounds(1.0, LABELS, 1.0), feature_map=square)
    release = fit(p, MemoryRows(X, y), HUGE, Gradient(steps=50), random_state=0)
    assert release.w.shape == (4,)
    assert release.plan.stages[0].settings["clip"] == pytest.approx(math.hypot(0.5, 1.0))


def test_extreme_budgets_run(generator):
    X, y = data(generator, 100)
    for epsilon in (1e-6, 1e6):
        model = dperm.LogisticRegression(epsilon=epsilon, bounds=(-0.5, 0.5), classes=[-1, 1], method="gradient")
        assert np.isfinite(model.fit(X, y).coef_).all()
        assert model.certificate_.verify()
