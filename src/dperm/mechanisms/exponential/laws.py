"""The laws of the finite exponential mechanism, and how to draw from them.

    exponential      P(h) ∝ exp(k·u_h)                                    = argmax_h k·u_h + Gumbel
    permute-and-flip P(h) = y_h ∫₀¹ Π_{j≠h} (1 - t·y_j) dt,  y = e^{k(u - max u)}   = argmax_h k·u_h + Exponential(1)

Let g = u' - u between neighbours and range = max g - min g. Both are (k·range)-DP; the proofs are in
`docs/theorems/exponential.md`.
"""

from __future__ import annotations

import numpy as np

from dperm.problem.arrays import Vector
from dperm.release.noise import Noise

SAMPLERS = ("permute-and-flip", "gumbel")


def draw(scores: Vector, rate: float, sampler: str, noise: Noise) -> int:
    """One index from the law, by adding noise to every score and taking the largest: one pass, whatever the scores."""
    generator = noise.generator()
    if sampler == "gumbel":
        return int(np.argmax(rate * scores + generator.gumbel(size=len(scores))))
    return int(np.argmax(rate * scores + generator.standard_exponential(len(scores))))
