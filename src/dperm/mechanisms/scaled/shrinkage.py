"""The coefficients to predict with: an estimate drawn towards "no column matters" by the part of it that is privacy noise.

In coordinates z in which the curvature is the identity and the intercept is left out, the estimate has privacy noise of a known
covariance with eigenvalues c_j. It is multiplied, direction by direction, by τ²/(τ² + c_j), where τ² solves

    Σ_j z_j²/(τ² + c_j) = m - 2            m directions; τ² = 0 where even 0 leaves less

With equal c this is the positive-part James-Stein estimator, (1 - (m - 2)c/‖z‖²)₊·z, whose expected squared error in predictions
is below that of z for every truth (m > 2). With unequal c noisy directions are drawn in more, which is empirical Bayes with a
prior of one size for all of them. It uses released values alone. Without privacy noise nothing is drawn in.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import null_space

from dperm.mechanisms.scaled.one_step import OneStep, last_below
from dperm.problem.arrays import Vector

ROUNDING = 1e-12  # of the largest coefficient: a smaller one is 0


def prior_variance(squares: Vector, noise: Vector) -> float:
    """τ² with Σ squares/(τ² + noise) = m - 2, for m > 2; the sum falls in τ², and at τ² = Σ squares/(m - 2) it is not above.

    >>> round(prior_variance(np.full(4, 3.0), np.ones(4)), 9), prior_variance(np.full(4, 0.4), np.ones(4))  # 12/(τ² + 1) = 2
    (5.0, 0.0)
    """
    wanted = len(squares) - 2
    if np.all(noise > 0) and float(np.sum(squares / noise)) <= wanted:
        return 0.0
    return last_below(0.0, float(np.sum(squares)) / wanted, lambda tau: float(np.sum(squares / (tau + noise))) > wanted)


def drawn_in(step: OneStep, kept: Vector) -> Vector:
    """θ̂ drawn in; `kept` has the directions (columns) of θ that stay free: those of the intercepts.

    What moves is orthogonal to `kept` in the metric of the curvature, so the intercept goes along and the mean prediction stays.
    Directions that no row can tell do not move. What stays is computed by itself, not as what is left of θ̂: where everything is
    drawn in, a remainder would be rounding, which another machine does not find again.
    """
    root, theta = np.sqrt(step.eigenvalues + step.shift), step.errors.estimate
    free = root[:, None] * (step.directions.T @ kept)
    basis = null_space(free.T) if kept.size else np.eye(len(root))
    if basis.shape[1] <= 2:
        return theta
    outward = root[:, None] * basis
    noise, turned = np.linalg.eigh(outward.T @ step.directions.T @ step.errors.privacy @ step.directions @ outward)
    inside = step.directions.T @ theta
    z = turned.T @ (outward.T @ inside)
    noise = np.maximum(noise, 0.0)
    prior = prior_variance(z**2, noise)
    part = np.where(noise > 0, prior / np.maximum(prior + noise, 1e-300), 1.0)
    moved = step.directions @ ((basis @ (turned @ (part * z))) / root)
    stays = kept @ np.linalg.lstsq(free, root * inside, rcond=None)[0] if kept.size else np.zeros_like(theta)
    if len(root) < len(theta):  # flat directions, in which θ̂ stays what it is
        stays = theta + step.directions @ (step.directions.T @ stays - inside)
    found = stays + moved
    return np.asarray(np.where(np.abs(found) > ROUNDING * np.max(np.abs(theta)), found, 0.0))
