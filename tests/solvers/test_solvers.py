"""Solvers reach their tolerance on hard strongly convex problems, and the certified distance holds."""

import numpy as np
import pytest
from scipy.optimize import minimize

from dperm.problem import Ball, HuberizedHingeLoss, HuberLoss, Lasso, LogisticLoss
from dperm.solvers import minimise, minimise_over


class Sum:
    """Σ φ(⟨x_i, w⟩; y_i) + (λ/2)‖w‖² + ⟨b, w⟩ with a count of passes."""

    def __init__(self, loss, X, y, ridge, tilt):
        self.loss, self.X, self.y, self.ridge, self.tilt, self.passes = loss, X, y, ridge, tilt, 0

    def gradient(self, w):
        self.passes += 1
        return self.X.T @ self.loss.slope(self.X @ w, self.y) + self.ridge * w + self.tilt

    def gradient_and_hessian(self, w):
        h = self.loss.curvature(self.X @ w, self.y)
        return self.gradient(w), (self.X.T * h) @ self.X + self.ridge * np.eye(len(w))

    def hessian_product(self, w, direction):
        self.passes += 1
        return self.X.T @ (self.loss.curvature(self.X @ w, self.y) * (self.X @ direction)) + self.ridge * direction


def problem(generator, loss, n, p, scale, budget, tilt):
    X = scale * generator.standard_normal((n, p))
    R = np.linalg.norm(X, axis=1).max()
    return Sum(loss, X, generator.choice([-1.0, 1.0], n), R**2 / budget, tilt * R * generator.standard_normal(p))


@pytest.mark.parametrize("dense_limit", [600, 0], ids=["newton", "newton-cg"])
@pytest.mark.parametrize("loss", [LogisticLoss(), HuberLoss(0.1), HuberizedHingeLoss(0.2)], ids=lambda loss: loss.name)
@pytest.mark.parametrize(("n", "p"), [(1, 1), (5, 30), (300, 8)])
def test_tolerance_is_reached_from_far_away(generator, loss, n, p, dense_limit):
    """Large and small tilts, scales over four decades, ridges R²/ε for ε up to 1000, kinks in the Hessian."""
    for scale in (0.01, 100.0):
        for budget, tilt in ((1.0, 0.1), (1.0, 50.0), (1000.0, 1.0)):
            objective = problem(generator, loss, n, p, scale, budget, tilt)
            tolerance = 1e-8 * scale * np.sqrt(n) * max(1, tilt)
            solution = minimise(objective, np.zeros(p), tolerance, dense_limit=dense_limit)
            assert solution.reached and np.linalg.norm(objective.gradient(solution.w)) <= tolerance
            exact = minimise(objective, solution.w, tolerance * 1e-3)
            assert np.linalg.norm(exact.w - solution.w) <= 1.01 * tolerance / objective.ridge


def test_newton_agrees_with_an_independent_solver(generator):
    objective = problem(generator, LogisticLoss(), 200, 5, 1.0, 1.0, 0.5)

    def value(w):
        losses = LogisticLoss().value(objective.X @ w, objective.y)
        return float(np.sum(losses) + objective.ridge / 2 * w @ w + objective.tilt @ w)

    reference = minimize(value, np.zeros(5), jac=objective.gradient, method="BFGS", options={"gtol": 1e-9}).x
    assert np.allclose(minimise(objective, np.zeros(5), 1e-10).w, reference, atol=1e-7)


def test_a_full_step_that_diverges_is_shortened():
    """log-cosh-like slope tanh: Newton from far away overshoots without a line search (the undamped iteration diverges)."""

    class Steep:
        def gradient(self, w):
            return np.tanh(w) + 1e-3 * w

        def gradient_and_hessian(self, w):
            return self.gradient(w), np.diag(1 / np.cosh(w) ** 2 + 1e-3)

    start = np.array([3.0])
    undamped = start.copy()
    for _ in range(2):
        g, h = Steep().gradient_and_hessian(undamped)
        undamped = undamped - g / h[0, 0]
    assert abs(undamped[0]) > 10
    assert minimise(Steep(), start, 1e-12).reached


def test_the_cap_is_reported():
    solution = minimise(Sum(LogisticLoss(), np.eye(2), np.ones(2), 1.0, np.ones(2)), np.full(2, 9.0), 1e-12, cap=1)
    assert not solution.reached and solution.steps == 1


def test_proximal_solver_is_within_its_certificate(generator):
    objective = problem(generator, LogisticLoss(), 100, 4, 1.0, 10.0, 0.2)
    smoothness = 0.25 * np.linalg.norm(objective.X, 2) ** 2 + objective.ridge
    ball, lasso = Ball(0.3), Lasso(5.0)
    for proximal in (lambda w, step: ball.project(w), lambda w, step: lasso.prox(w, step)):
        settings = {"smoothness": smoothness, "strong_convexity": objective.ridge}
        loose = minimise_over(objective.gradient, proximal, np.zeros(4), tolerance=1e-2, **settings)
        exact = minimise_over(objective.gradient, proximal, np.zeros(4), tolerance=1e-11, **settings)
        assert loose.reached and exact.reached
        assert np.linalg.norm(loose.w - exact.w) <= loose.gradient_norm / objective.ridge
    inside = minimise_over(objective.gradient, lambda w, step: w, np.zeros(4), tolerance=1e-10, **settings)
    assert np.allclose(inside.w, minimise(objective, np.zeros(4), 1e-10).w, atol=1e-9)
