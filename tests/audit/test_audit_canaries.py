"""One-run audits: silent on honest runs, loud on broken ones; black box and white box."""

import numpy as np
import pytest

import dperm
from dperm.audit import flipped_labels, noisy_gradients, one_run, rare_directions
from dperm.mechanisms import Gradient, Target
from dperm.problem import DataBounds, Interval, LogisticLoss, Problem

M = 300
PROBLEM = Problem(LogisticLoss(), data=DataBounds(1.0, Interval(-1.0, 1.0)))
X = np.zeros((20, M))
Y = np.ones(20)
CANARIES = rare_directions(M, M, norm=1.0)
NULL = (np.zeros(M), np.nan)


def one_step(target):
    # one step from w = 0 with the clip at the largest gradient there: every canary is as visible as the claim allows
    return noisy_gradients(PROBLEM, target, Gradient(steps=1, clip=0.5, momentum=0.0, output="last"))


def test_white_box_sees_an_honest_run_without_exceeding_it():
    """Confidence 99.9 %: false alarm ≤ 0.1 % if the noise were not fixed by nature; the bound must also have some power."""
    target = Target(6.0, 1e-5, "zero-out")
    found = one_run(one_step(target), X, Y, CANARIES, null=NULL, claim=6.0, confidence=0.999)
    assert found.violates is False and found.canaries == M
    assert one_run(one_step(target), X, Y, CANARIES, null=NULL, confidence=0.95).epsilon_lower > 0.3


def test_white_box_catches_noise_that_is_too_small(monkeypatch):
    from dperm.release import noise as noise_module

    honest = noise_module.gaussian_scale
    monkeypatch.setattr(noise_module, "gaussian_scale", lambda sensitivity, mu: honest(sensitivity, mu) / 8)
    found = one_run(one_step(Target(1.0, 1e-5, "zero-out")), X, Y, CANARIES, null=NULL, claim=1.0, confidence=0.999)
    assert found.violates is True and found.epsilon_lower > 1.0


@pytest.mark.parametrize("factor", [1.0, 1 / 8])
def test_black_box(factor, monkeypatch):
    from dperm.release import noise as noise_module

    honest = noise_module.gaussian_scale
    monkeypatch.setattr(noise_module, "gaussian_scale", lambda sensitivity, mu: honest(sensitivity, mu) * factor)
    model = dperm.LogisticRegression(
        epsilon=1.0, delta=1e-5, x_norm=1.0, classes=[-1, 1], fit_intercept=False, relation="zero-out",
        method=Gradient(steps=1, clip=0.5, momentum=0.0, output="last"),
    )
    canaries = rare_directions(M, M, norm=1.0, labels=(-1, 1))
    found = one_run(model, X, Y.astype(int), canaries, null=(np.zeros(M), 99), claim=1.0, confidence=0.999)
    assert found.violates is (factor < 1)


def test_flipped_labels_point_against_the_model():
    rows = np.array([[0.1, 0.2], [-0.3, 0.1]])
    canaries = flipped_labels(rows, [1.0, 0.0], norm=2.0, labels=(0, 1))
    assert np.allclose(np.linalg.norm(canaries.X, axis=1), 2.0)
    assert canaries.y.tolist() == [0, 1] and canaries.side.tolist() == [-1.0, 1.0]


def test_flipped_labels_catch_a_fit_without_noise():
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(60, 400))
    canaries = flipped_labels(rows, generator.normal(size=400), norm=1.0)
    found = one_run(lambda A, b: np.linalg.pinv(A) @ b, np.zeros((1, 400)), np.zeros(1), canaries, seed=3, guesses=20)
    assert found.epsilon_lower > 0.5


def test_declarations_are_checked():
    with pytest.raises(ValueError, match="canaries ≤ columns"):
        rare_directions(5, 3, norm=1.0)
    with pytest.raises(ValueError, match="guesses"):
        one_run(lambda A, b: np.zeros(M), X, Y, CANARIES, guesses=1)
    with pytest.raises(ValueError, match="null="):
        one_run(lambda A, b: np.zeros(M), X, Y, CANARIES, null="zero")
