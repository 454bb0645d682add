"""What the noise of a descent does to the mean of its iterates: pure, from the settings in a record.

    v ← m·v + H(θ - θ*) + ξ,   θ ← θ - s·v,   kept = mean of the second half of the iterates,   ξ ~ N(0, σ²I)

All is linear in the ξ: along an eigenvector of H with eigenvalue λ the kept mean has the variance σ²·Σ_k β_k(λ)², where β_k is
what a unit of noise in step k adds to it (`moved_by`). H is h times second moments of features, h the mean curvature of the loss
over rows that are not clipped (`share_below`, `margin_curvature`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled import settling
from dperm.problem.arrays import Vector


class Moved(NamedTuple):
    """What the mean of the second half of the iterates moves by, for each curvature: per unit of θ (`place`) and of v
    (`velocity`) as the first step begins; `sums` per unit that all later slopes have in common, and `squares`, the sum of squares
    per unit of noise in each of them."""

    place: Vector
    velocity: Vector
    squares: Vector
    sums: Vector


def moved_by(curvature: Vector, steps: int, step: float, first: int, late: float = 1.0) -> Moved:
    """From step `first` on. `late` is the part of the mean of the second half in what is kept; the rest is the mean of all with
    growing weights (`settling.py`).

    Backwards: α is the derivative by θ after a step, β that by v.

    >>> [round(float(part[0]), 9) for part in moved_by(np.zeros(1), 2, 1.0, 0)]  # of two steps: 1.9² + 1 and -(1.9 + 1)
    [1.0, -1.71, 4.61, -2.9]
    """
    weight = late * settling.weights(steps, growing=False) + (1.0 - late) * settling.weights(steps, growing=True)
    alpha, beta, squares, sums = (np.zeros_like(curvature) for _ in range(4))
    for k in range(steps - 1, first - 1, -1):
        alpha = alpha + curvature * beta + weight[k]
        beta = rule.MOMENTUM * beta - step * alpha
        squares, sums = squares + beta * beta, sums + beta
    return Moved(alpha + curvature * beta, rule.MOMENTUM * beta, squares, sums)


def state_noise(curvature: Vector, steps: int, step: float) -> Vector:
    """Covariances of (θ, v) after so many steps, each with a unit of noise: 2 × 2 for every curvature, which comes last."""
    ones = np.ones_like(curvature)
    move = np.array([[1.0 - step * curvature, -step * rule.MOMENTUM * ones], [curvature, rule.MOMENTUM * ones]])
    kick = np.outer([-step, 1.0], [-step, 1.0])[:, :, None]
    found = np.zeros((2, 2, len(curvature)))
    for _ in range(steps):
        found = np.einsum("ijk,jlk,mlk->imk", move, found, move) + kick
    return found


def share_below(counts: Vector, top: float, limit: float) -> float:
    """Share of the magnitudes of a `LogHistogram` that are at most `limit`; counts cut at 0, spread over a bin by logarithm."""
    share = np.maximum(counts, 0.0) / max(float(np.maximum(counts, 0.0).sum()), 1e-12)
    place = 2.0 * math.log2(top / limit) if limit < top else 0.0
    below = np.clip(np.arange(len(share)) + 1.0 - place, 0.0, 1.0)
    return float(share @ below)


def mean_square(counts: Vector, top: float, limit: float) -> float:
    """Of the magnitudes of a `LogHistogram`, each cut at `limit`; counts cut at 0.

    >>> mean_square(np.array([1.0, 0.0, 1.0]), 2.0, 0.5)
    0.25
    """
    share = np.maximum(counts, 0.0) / max(float(np.maximum(counts, 0.0).sum()), 1e-12)
    return float(share @ np.minimum(middles(len(counts), top), limit) ** 2)


def middles(bins: int, top: float) -> Vector:
    """The magnitudes in the middle of the bins of a `LogHistogram`, by logarithm."""
    return np.asarray(top * 2.0 ** (-(np.arange(bins) + 0.5) / 2.0))


def squares_beyond(counts: Vector, top: float, limit: float, noise: float) -> float:
    """Share of the squares of the magnitudes of a `LogHistogram` that lies beyond `limit`: Σ(r - limit)₊² of Σr². Counts of less
    than two standard deviations of their `noise` are 0, or noise in the widest bins would pass for tails.

    >>> squares_beyond(np.array([0.0, 0.0, 4.0]), 2.0, 0.1, 1.0) > 0.5, squares_beyond(np.array([1.0, 0.0, 4.0]), 2.0, 1.0, 1.0)
    (True, 0.0)
    """
    kept = np.where(counts > 2.0 * noise, counts, 0.0)
    middle = middles(len(kept), top)
    whole = float(kept @ middle**2)
    return float(kept @ np.maximum(middle - limit, 0.0) ** 2) / whole if whole > 0 else 0.0


def margin_curvature(level: float, variance: float, limit: float) -> float:
    """Mean of p(1 - p) over a normal margin, rows whose slope is beyond the clip as 0.

    >>> round(margin_curvature(0.0, 0.0, 1.0), 9), margin_curvature(0.0, 1.0, 0.0)
    (0.25, 0.0)
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    margin = level + math.sqrt(variance) * nodes
    chance = expit(margin)
    kept = chance * (1.0 - chance <= limit) + (1.0 - chance) * (chance <= limit)  # the label's slope is within the clip
    return float(weights @ (chance * (1.0 - chance) * kept) / weights.sum())
