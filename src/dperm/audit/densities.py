"""Output densities in closed form or by quadrature over the path, written apart from the mechanisms they audit.

Each takes the data of one of two neighbours and public numbers, and returns a normalised `Density`. Nothing here calls the code
under audit: a shared helper would hide a shared error.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from dperm.audit.quadrature import Density
from dperm.problem.arrays import Vector
from dperm.problem.losses.base import Loss

_REACH = 9.0  # standard deviations kept on each side; a Gaussian leaves 2e-19 outside
_LOG_ROOT = 0.5 * math.log(2 * math.pi)


def gaussian_output(center: object, scale: float, *, reach: float = _REACH) -> Density:
    """N(center, scale²·I) in one or two dimensions: output perturbation, or one noisy sum."""
    middle = np.atleast_1d(np.asarray(center, dtype=np.float64))

    def log(points: Vector) -> Vector:
        gaps = (points.reshape(len(points), -1) - middle) / scale
        return np.asarray(-0.5 * np.sum(gaps * gaps, axis=1) - len(middle) * (_LOG_ROOT + math.log(scale)))

    return Density(log, tuple((float(m - reach * scale), float(m + reach * scale)) for m in middle))


def gamma_norm_output(center: object, scale: float, *, reach: float = 40.0) -> Density:
    """center + b with density ∝ exp(-‖b‖/scale): in one dimension Laplace, in two a Gamma(2) norm in a uniform direction.

    The normaliser is scale^p·Γ(p)·(surface of the unit sphere) = scale^p·2π^{p/2}Γ(p)/Γ(p/2).
    """
    middle = np.atleast_1d(np.asarray(center, dtype=np.float64))
    p = len(middle)
    constant = p * math.log(scale) + math.log(2) + p / 2 * math.log(math.pi) + gammaln(p) - gammaln(p / 2)

    def log(points: Vector) -> Vector:
        gaps = np.linalg.norm(points.reshape(len(points), -1) - middle, axis=1)
        return np.asarray(-gaps / scale - constant)

    return Density(log, tuple((float(m - reach * scale), float(m + reach * scale)) for m in middle))


def gradient_descent(
    data: tuple[Vector, Vector],
    *,
    loss: Loss,
    steps: int,
    step_size: float,
    clip: float,
    noise: float,
    n: int,
    ridge: float = 0.0,
    start: float = 0.0,
    points: int = 401,
) -> Density:
    """The last iterate of w ← w - η(Σ clip(∇ℓ) + ridge·w + n·noise·Z)/n in one dimension, T = 1, 2, 3, …

    Given w_k the next iterate is N(m(w_k), (η·noise)²); the law of w_T is the mixture over the path, integrated one step at a
    time by the trapezoid rule on `points` points, whose error for such smooth integrands is below 1e-12.
    """
    x, y = (np.asarray(part, dtype=np.float64) for part in data)
    spread = step_size * noise

    def mean(w: Vector) -> Vector:
        slopes = np.asarray(loss.slope(np.multiply.outer(w, x), np.broadcast_to(y, (len(w), len(y)))))
        gradients = np.clip(slopes * x, -clip, clip)
        return np.asarray(w - step_size * (gradients.sum(axis=1) + ridge * w) / n)

    first = float(mean(np.array([start]))[0])
    if steps == 1:
        return gaussian_output(first, spread)
    centers, log_weights = np.array([first]), np.array([0.0])
    for _ in range(steps - 1):
        low, high = centers.min() - _REACH * spread, centers.max() + _REACH * spread
        grid = np.linspace(low, high, points)
        logs = _mixture(grid, centers, log_weights, spread) + math.log(grid[1] - grid[0])
        # Drop what cannot be seen, so that the box does not grow by nine deviations at every step.
        kept = logs > -46.0
        centers, log_weights = mean(grid[kept]), logs[kept]
    log_weights = log_weights - np.log(np.sum(np.exp(log_weights)))

    def log(points_out: Vector) -> Vector:
        return _mixture(points_out.reshape(-1), centers, log_weights, spread)

    return Density(log, ((float(centers.min() - _REACH * spread), float(centers.max() + _REACH * spread)),))


def _mixture(points: Vector, centers: Vector, log_weights: Vector, scale: float) -> Vector:
    """log Σ_j weight_j·N(point; center_j, scale²), a strip of points at a time."""
    out = np.empty(len(points))
    for start in range(0, len(points), 4096):
        part = points[start : start + 4096]
        exponents = log_weights - 0.5 * ((part[:, None] - centers) / scale) ** 2
        top = exponents.max(axis=1)
        out[start : start + 4096] = top + np.log(np.exp(exponents - top[:, None]).sum(axis=1))
    return out - _LOG_ROOT - math.log(scale)


def objective_perturbation(
    data: tuple[Vector, Vector], *, loss: Loss, ridge: float, noise: float, pure: bool = False, reach: float | None = None
) -> Density:
    """argmin Σℓ + (ridge/2)w² + bw in one dimension, b ~ N(0, noise²), or b with density ∝ exp(-|b|/noise) when `pure`.

    w is the minimiser exactly when b = -F'(w), a decreasing function of w, so its density is density_b(-F'(w))·F''(w).
    """
    x, y = (np.asarray(part, dtype=np.float64) for part in data)
    far = reach if reach is not None else (45.0 if pure else _REACH + 1)

    def derivatives(w: Vector) -> tuple[Vector, Vector]:
        margins, labels = np.multiply.outer(w, x), np.broadcast_to(y, (len(w), len(y)))
        first = (np.asarray(loss.slope(margins, labels)) * x).sum(axis=1) + ridge * w
        second = (np.asarray(loss.curvature(margins, labels)) * x * x).sum(axis=1) + ridge
        return first, second

    def log(points: Vector) -> Vector:
        first, second = derivatives(points.reshape(-1))
        if pure:
            return np.asarray(-np.abs(first) / noise - math.log(2 * noise) + np.log(second))
        return np.asarray(-0.5 * (first / noise) ** 2 - _LOG_ROOT - math.log(noise) + np.log(second))

    def solve(target: float) -> float:
        low, high = -1.0, 1.0
        while derivatives(np.array([low]))[0][0] > target:
            low *= 2
        while derivatives(np.array([high]))[0][0] < target:
            high *= 2
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if derivatives(np.array([middle]))[0][0] < target else (low, middle)
        return (low + high) / 2

    return Density(log, ((solve(-far * noise), solve(far * noise)),))


def exponential_mechanism(
    data: tuple[Vector, Vector], *, loss: Loss, inverse_temperature: float, box: tuple[float, float], ridge: float = 0.0
) -> Density:
    """Density ∝ exp(-k·F(w)) on an interval, F(w) = Σℓ + (ridge/2)w²; normalised by quadrature on 20,000 panels."""
    x, y = (np.asarray(part, dtype=np.float64) for part in data)

    def raw(points: Vector) -> Vector:
        w = points.reshape(-1)
        values = np.asarray(loss.value(np.multiply.outer(w, x), np.broadcast_to(y, (len(w), len(y))))).sum(axis=1)
        return np.asarray(-inverse_temperature * (values + 0.5 * ridge * w * w))

    nodes, weights = np.polynomial.legendre.leggauss(4)
    edges = np.linspace(box[0], box[1], 20_001)
    half = (edges[1] - edges[0]) / 2
    logs = raw((edges[:-1, None] + half * (1 + nodes)).ravel())
    top = float(logs.max())
    total = top + math.log(float(np.sum(np.exp(logs - top).reshape(-1, len(nodes)) @ weights) * half))
    return Density(lambda points: raw(points) - total, (box,))
