"""A small objective perturbation for logistic regression, for audits only: it must not share code with the one it may audit."""

from __future__ import annotations

import math

import numpy as np

from dperm.problem.arrays import Vector

FAR = 60.0  # a coefficient beyond this counts as infinite: the objective has no minimiser there


def minimise(X: Vector, y: Vector, ridge: Vector, b: Vector) -> Vector:
    """argmin Σ log(1 + e^{-y⟨x, w⟩}) + Σ_j (ridge_j/2)w_j² + ⟨b, w⟩ by damped Newton, to a gradient of 1e-10·(1 + ‖b‖).

    Where some ridge_j is 0 there may be no minimiser; coefficients are then cut at ±60.

    >>> minimise(np.array([[1.0]]), np.array([1.0]), np.array([0.25]), np.array([0.5])).round(12)
    array([0.])
    """
    w = np.zeros(X.shape[1])
    signed = X * y[:, None]

    def value(at: Vector) -> float:
        return float(np.logaddexp(0.0, -(signed @ at)).sum() + 0.5 * np.sum(ridge * at * at) + b @ at)

    best = value(w)
    for _ in range(200):
        slack = 1.0 / (1.0 + np.exp(np.clip(signed @ w, -700, 700)))
        gradient = -(signed.T @ slack) + ridge * w + b
        if np.linalg.norm(gradient) <= 1e-10 * (1 + np.linalg.norm(b)) or np.abs(w).max() >= FAR:
            break
        hessian = (X * (slack * (1 - slack))[:, None]).T @ X + np.diag(ridge + 1e-14)
        move = np.linalg.solve(hessian, gradient)
        length = float(np.linalg.norm(move))
        move *= min(1.0, 2 * FAR / max(length, 1e-300))
        share = 1.0
        while share > 1e-12:
            candidate = np.clip(w - share * move, -FAR, FAR)
            found = value(candidate)
            if found <= best + 1e-13 * (1 + abs(best)):  # near the minimum only rounding is left of the decrease
                break
            share /= 2
        else:
            break
        w, best = candidate, found
    return w


def chaudhuri_calibration(epsilon: float, norm: float, curvature: float, ridge: float) -> tuple[float, float]:
    """(ridge, scale) of pure objective perturbation as Chaudhuri, Monteleoni and Sarwate (2011) state it, replace-one.

    ε' = ε - 2·log(1 + curvature/ridge); where that leaves nothing the ridge is raised until ε' = ε/2. The noise has density
    ∝ exp(-‖b‖/scale), scale = 2·norm/ε'. `curvature` bounds ℓ''·‖x‖²: norm²/4 for logistic regression.
    """
    left = epsilon - 2 * math.log1p(curvature / ridge)
    if left <= 0:
        ridge, left = curvature / math.expm1(epsilon / 4), epsilon / 2
    return ridge, 2 * norm / left
