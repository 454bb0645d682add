"""The laws of the finite exponential mechanism, exactly, and how to draw from them.

    exponential      P(h) ∝ exp(k·u_h)                                    = argmax_h k·u_h + Gumbel
    permute-and-flip P(h) = y_h ∫₀¹ Π_{j≠h} (1 - t·y_j) dt,  y = e^{k(u - max u)}   = argmax_h k·u_h + Exponential(1)

Let g = u' - u between neighbours and range = max g - min g. Both are (k·range)-DP; the proofs are in
`docs/theorems/exponential.md`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.release.noise import Noise

Vector = NDArray[np.float64]
SAMPLERS = ("permute-and-flip", "gumbel")


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


LAWS: dict[str, object] = {"gumbel": gumbel_law, "permute-and-flip": permute_and_flip_law}


def draw(scores: Vector, rate: float, sampler: str, noise: Noise) -> int:
    """One index from the law, by adding noise to every score and taking the largest: one pass, whatever the scores."""
    generator = noise.generator()
    if sampler == "gumbel":
        return int(np.argmax(rate * scores + generator.gumbel(size=len(scores))))
    return int(np.argmax(rate * scores + generator.standard_exponential(len(scores))))
