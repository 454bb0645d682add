"""Laws of finite choices in closed form, and published formulas: what the tests hold the mechanisms against."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.mechanisms.exponential.quantile import quantile_scores
from dperm.mechanisms.output import sgd_step, visit

Vector = NDArray[np.float64]


def gumbel_law(scores: ArrayLike, rate: float) -> Vector:
    """exp(k·u)/Σexp(k·u).

    >>> gumbel_law([0, -1, -2, -4], 0.5).round(6).tolist()
    [0.473991, 0.28749, 0.174371, 0.064148]
    """
    scaled = rate * np.asarray(scores, dtype=np.float64)
    weights = np.exp(scaled - scaled.max())
    return np.asarray(weights / weights.sum())


def permute_and_flip_law(scores: ArrayLike, rate: float) -> Vector:
    """y_h ∫₀¹ Π_{j≠h}(1 - t·y_j) dt: a polynomial in t, so Gauss–Legendre with half as many nodes is exact.

    Proof: with U = e^{-E} uniform, h wins when U_h·e^{-q_h} ≤ U_j·e^{-q_j} for all j, which given U_h = u has probability
    Π_j (1 - u·e^{q_j - q_h})₊; it vanishes for u > y_h, and u = t·y_h gives the integral. Coins with probabilities y in
    random order, first head wins, give the same integral (t is the random position in the order).

    >>> permute_and_flip_law([0, -1, -2, -4], 0.5).round(6).tolist()
    [0.555912, 0.254913, 0.14097, 0.048205]
    """
    scaled = rate * np.asarray(scores, dtype=np.float64)
    y = np.exp(scaled - scaled.max())
    nodes, weights = np.polynomial.legendre.leggauss(len(y) // 2 + 1)
    t = (nodes + 1) / 2
    factors = 1 - t[:, None] * y[None, :]
    law = [y[h] * float((weights / 2) @ np.prod(np.delete(factors, h, axis=1), axis=1)) for h in range(len(y))]
    return np.array(law)


LAWS = {"gumbel": gumbel_law, "permute-and-flip": permute_and_flip_law}


def quantile_law(counts: Vector, widths: Vector, level: float, rate: float) -> Vector:
    """P(cell) ∝ width·exp(k·score)."""
    scaled = rate * quantile_scores(counts, level)
    chance = widths * np.exp(scaled - scaled.max())
    return np.asarray(chance / chance.sum())


def sgd_sensitivity(
    *,
    lipschitz: float,
    n: int,
    batches: int,
    passes: int,
    smoothness: float,
    strong_convexity: float,
    order: Sequence[int] | None = None,
) -> float:
    """Exact worst case of the recursion Δ ← (1 − γη_t)Δ + [row in batch t]·η_t·κL/(n/batches), over the batch of the row.

    It equals at most κL/(γn), whatever the batch size: a batch of b rows shrinks one row's share by b but also the number of
    steps. (A released implementation divided by b once more.) All on the scale of the mean; `lipschitz` includes κ.

    >>> round(sgd_sensitivity(lipschitz=2.0, n=1000, batches=100, passes=1, smoothness=1.0, strong_convexity=1.0), 9)
    0.002
    """
    worst = 0.0
    for batch in range(batches):
        difference, step = 0.0, 0
        for number in range(passes):
            for current in visit(number, batches) if order is None else order:
                step += 1
                size = sgd_step(step, smoothness, strong_convexity)
                difference *= 1 - strong_convexity * size
                if current == batch:
                    difference += size * lipschitz * batches / n
        worst = max(worst, difference)
    return worst


def adaptive_as_published(p: int, epsilon: float, delta: float, norm: float, failure: float = 0.05) -> dict[str, float]:
    """AdaSSP as published, thirds of (ε, δ), one row added or removed: for comparison only.

    scale √ln(6/δ)·R²/(ε/3), shift ln(6/δ)·R²/(ε/3), floor √(p·ln(6/δ)·ln(2p²/ϱ))·R²/(ε/3).

    >>> round(adaptive_as_published(10, 1.0, 1e-6, 1.0)["scale"], 4)
    11.8518
    """
    log, part = math.log(6 / delta), norm**2 / (epsilon / 3)
    floor = math.sqrt(p * log * math.log(2 * p**2 / failure)) * part
    return {"scale": math.sqrt(log) * part, "shift": log * part, "floor": floor}
