"""Small pieces of the experiments: draws from a given generator, thresholds, batched logistic regression."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dperm.theory.generators import Generator

Array = NDArray[np.float64]


def thresholds(hypotheses: int) -> Array:
    """Odd counts hold ½ itself, the labelling threshold."""
    return np.linspace(0.0, 1.0, hypotheses)


def threshold_errors(generator: Generator, n: int, hypotheses: int, flip: float) -> Array:
    """Number of sample errors of every threshold; labels are 1{x ≥ ½}, flipped with probability `flip`."""
    x = np.asarray(generator.random(n))
    labels = (x >= 0.5) != (np.asarray(generator.random(n)) < flip)
    order = np.argsort(x)
    # threshold t predicts 1 for x ≥ t: it errs on ones below t and on zeros from t on
    ones_before = np.concatenate([[0], np.cumsum(labels[order])])
    position = np.searchsorted(x[order], thresholds(hypotheses), side="left")
    zeros_before = position - ones_before[position]
    zeros = n - ones_before[-1]
    return np.asarray(ones_before[position] + zeros - zeros_before, dtype=float)


def gumbel(generator: Generator, size: int | tuple[int, int]) -> Array:
    return np.asarray(-np.log(-np.log(np.asarray(generator.random(size)))))


def sphere(generator: Generator, rows: int, d: int) -> Array:
    normal = np.asarray(generator.standard_normal((rows, d)))
    return np.asarray(normal / np.linalg.norm(normal, axis=1, keepdims=True))


def ball_rows(generator: Generator, n: int, d: int) -> Array:
    return np.asarray(sphere(generator, n, d) * generator.random((n, 1)))


def gamma_vectors(generator: Generator, rows: int, d: int) -> Array:
    """Density ∝ exp(-‖b‖): uniform direction, norm Gamma(d)."""
    return np.asarray(sphere(generator, rows, d) * generator.standard_gamma(d, (rows, 1)))


def project_ball(theta: Array, radius: float) -> Array:
    return np.asarray(theta / np.maximum(1.0, np.linalg.norm(theta, axis=1, keepdims=True) / radius))


def logistic_data(generator: Generator, n: int, d: int) -> tuple[Array, Array]:
    """Unit-norm rows, labels from a logistic model of weight norm 1: agnostic, minimiser of moderate size."""
    X = sphere(generator, n, d)
    truth = np.full(d, 1 / math.sqrt(d))
    y = np.where(np.asarray(generator.random(n)) < expit(X @ truth), 1.0, -1.0)
    return X, y


def logistic_risk(X: Array, y: Array, theta: Array) -> Array:
    return np.asarray(np.logaddexp(0.0, -y * (theta @ X.T)).mean(axis=1))


def logistic_gradient(X: Array, y: Array, theta: Array) -> Array:
    slopes = -y * expit(-y * (theta @ X.T))
    return np.asarray(slopes @ X / len(y))


def logistic_newton(X: Array, y: Array, ridge: float, tilts: Array, rounds: int = 60) -> Array:
    """argmin Σ log(1+e^{-y⟨x,θ⟩}) + (ridge/2)‖θ‖² + ⟨tilt, θ⟩ for every row of `tilts`, damped Newton."""
    theta = np.zeros_like(tilts)
    identity = np.eye(X.shape[1])
    for _ in range(rounds):
        chance = expit(-y * (theta @ X.T))
        gradient = (-y * chance) @ X + ridge * theta + tilts
        weight = chance * (1 - chance)
        hessian = np.einsum("rn,ni,nj->rij", weight, X, X, optimize=True) + ridge * identity
        move = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        # The third derivative is at most the second times the row norm, here 1: the Hessian grows at most as
        # e^{t·length} along the step, and this t descends from anywhere.
        length = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-12)
        theta = theta - move * np.log1p(length) / length
    return theta
