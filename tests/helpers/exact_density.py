"""Exact densities of objective perturbation in one and two dimensions, and their privacy profiles by quadrature.

The density of θ̂ is q(b(θ))·det ∇²F(θ) with b(θ) = −∇F(θ), F the whole objective without the tilt and q the density of the noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Record = tuple[float, float]  # (x, y)


def gaussian_noise(sigma: float, dimension: int = 1) -> Callable[[Any], Any]:
    return lambda square: -square / (2 * sigma**2) - dimension * np.log(sigma * np.sqrt(2 * np.pi))


def gamma_norm_noise(rate: float) -> Callable[[Any], Any]:
    """log density of exp(−rate·|b|) on the line, normalised."""
    return lambda square: -rate * np.sqrt(square) + np.log(rate / 2)


@dataclass(frozen=True)
class Line:
    """One parameter. Every record is (x, y) or (x, y, weight of its loss)."""

    loss: Any
    ridge: float
    noise: Callable[[Any], Any]

    def slope(self, theta: np.ndarray, data: Sequence[tuple[float, ...]]) -> np.ndarray:
        total = self.ridge * theta
        for x, y, *weight in data:
            total = total + (weight[0] if weight else 1.0) * x * np.asarray(self.loss.slope(x * theta, np.full_like(theta, y)))
        return total

    def log_density(self, theta: np.ndarray, data: Sequence[tuple[float, ...]]) -> np.ndarray:
        curvature = np.full_like(theta, self.ridge)
        for x, y, *weight in data:
            part = np.asarray(self.loss.curvature(x * theta, np.full_like(theta, y)))
            curvature = curvature + (weight[0] if weight else 1.0) * x * x * part
        return self.noise(self.slope(theta, data) ** 2) + np.log(curvature)

    def grid(self, data: Sequence[tuple[float, ...]], reach: float, points: int) -> np.ndarray:
        """θ whose b(θ) is evenly spaced in ±reach: the mass is spread evenly and nothing is missed."""
        edge = reach / self.ridge + 1.0
        for x, _, *weight in data:
            edge += (weight[0] if weight else 1.0) * abs(x) * 3 / self.ridge
        theta = np.concatenate([-np.geomspace(edge, 1e-6, 12_000), [0.0], np.geomspace(1e-6, edge, 12_000)])
        return np.interp(np.linspace(-reach, reach, points), self.slope(theta, data), theta)

    def profile(
        self, one: Sequence[tuple[float, ...]], other: Sequence[tuple[float, ...]], epsilons: Sequence[float], reach: float
    ) -> np.ndarray:
        """max over both directions of ∫ (p − e^ε q)₊, at every ε."""
        return np.maximum(self._one_way(one, other, epsilons, reach), self._one_way(other, one, epsilons, reach))

    def _one_way(self, one: Any, other: Any, epsilons: Sequence[float], reach: float) -> np.ndarray:
        theta = np.unique(np.concatenate([self.grid(one, reach, 16_001), self.grid(other, reach, 16_001)]))
        p, log_ratio = np.exp(self.log_density(theta, one)), self.log_ratio(theta, one, other)
        width = np.diff(theta)
        result = []
        for epsilon in epsilons:
            excess = -np.expm1(np.minimum(epsilon - log_ratio, 0.0)) * p
            result.append(float(np.sum(width * (excess[1:] + excess[:-1]) / 2)))
        return np.array(result)

    def log_ratio(self, theta: np.ndarray, one: Any, other: Any) -> np.ndarray:
        return self.log_density(theta, one) - self.log_density(theta, other)

    def worst_log_ratio(self, one: Any, other: Any, reach: float) -> float:
        theta = np.concatenate([self.grid(one, reach, 8_001), self.grid(other, reach, 8_001)])
        return float(np.max(np.abs(self.log_ratio(theta, one, other))))


def plane_profile(
    loss: Any, ridge: float, sigma: float, one: Sequence[Any], other: Sequence[Any], epsilon: float, points: int = 700
) -> float:
    """Two parameters, records ((x1, x2), y, repeats): the worse ∫ (p − e^ε q)₊ on a box that holds all but e^-40 of the mass."""

    def log_density(a: np.ndarray, b: np.ndarray, data: Sequence[Any]) -> np.ndarray:
        g1, g2 = ridge * a, ridge * b
        h11, h12, h22 = np.full_like(a, ridge), np.zeros_like(a), np.full_like(a, ridge)
        for (x1, x2), y, repeats in data:
            margin = x1 * a + x2 * b
            s = repeats * np.asarray(loss.slope(margin, np.full_like(margin, y)))
            h = repeats * np.asarray(loss.curvature(margin, np.full_like(margin, y)))
            g1, g2 = g1 + s * x1, g2 + s * x2
            h11, h12, h22 = h11 + h * x1 * x1, h12 + h * x1 * x2, h22 + h * x2 * x2
        return -(g1**2 + g2**2) / (2 * sigma**2) + np.log(h11 * h22 - h12**2) - np.log(2 * np.pi * sigma**2)

    return box_profile(log_density, one, other, epsilon, 60 * sigma / ridge, points)


def softmax_profile(
    ridge: float, sigma: float, one: Sequence[Any], other: Sequence[Any], epsilon: float, points: int = 500
) -> float:
    """Three classes, one column, records (x, y, repeats). The direction (1, 1, 1) carries no data, so two parameters are left."""
    basis = np.array([[1, 1], [-1, 1], [0, -2]]) / np.sqrt([2, 6])

    def log_density(a: np.ndarray, b: np.ndarray, data: Sequence[Any]) -> np.ndarray:
        g1, g2 = ridge * a, ridge * b
        h11, h12, h22 = np.full_like(a, ridge), np.zeros_like(a), np.full_like(a, ridge)
        scores = np.multiply.outer(a, basis[:, 0]) + np.multiply.outer(b, basis[:, 1])
        for x, y, repeats in data:
            p = np.exp(x * scores - np.max(x * scores, axis=-1, keepdims=True))
            p /= p.sum(axis=-1, keepdims=True)
            q = (p - np.eye(3)[y]) @ basis
            first, second = p @ basis, np.einsum("...k,ki,kj->...ij", p, basis, basis)
            g1, g2 = g1 + repeats * x * q[..., 0], g2 + repeats * x * q[..., 1]
            w = repeats * x * x
            h11 = h11 + w * (second[..., 0, 0] - first[..., 0] ** 2)
            h12 = h12 + w * (second[..., 0, 1] - first[..., 0] * first[..., 1])
            h22 = h22 + w * (second[..., 1, 1] - first[..., 1] ** 2)
        return -(g1**2 + g2**2) / (2 * sigma**2) + np.log(h11 * h22 - h12**2) - np.log(2 * np.pi * sigma**2)

    return box_profile(log_density, one, other, epsilon, 40.0, points)


def box_profile(
    log_density: Callable[..., Any], one: Sequence[Any], other: Sequence[Any], epsilon: float, reach: float, points: int
) -> float:
    low, high = np.full(2, -reach), np.full(2, reach)
    for _ in range(12):  # shrink the box around the mass
        a, b = np.meshgrid(np.linspace(low[0], high[0], 201), np.linspace(low[1], high[1], 201), indexing="ij")
        both = np.maximum(log_density(a, b, one), log_density(a, b, other))
        where = np.argwhere(both > both.max() - 40)
        steps = (high - low) / 200
        new_low, new_high = low + (where.min(axis=0) - 1) * steps, low + (where.max(axis=0) + 1) * steps
        if np.all(new_high - new_low > 0.9 * (high - low)):
            break
        low, high = new_low, new_high
    a, b = np.meshgrid(np.linspace(low[0], high[0], points), np.linspace(low[1], high[1], points), indexing="ij")
    p, q = log_density(a, b, one), log_density(a, b, other)
    area = (high[0] - low[0]) * (high[1] - low[1]) / (points - 1) ** 2
    total = np.sum(np.exp(p)) * area
    assert abs(total - 1) < 1e-6, f"the box holds {total} of the mass"

    def one_way(p: np.ndarray, q: np.ndarray) -> float:
        return float(np.sum(-np.expm1(np.minimum(epsilon + q - p, 0.0)) * np.exp(p)) * area)

    return max(one_way(p, q), one_way(q, p))
