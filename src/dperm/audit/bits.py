"""The least-significant-bit attack on floating-point noise (Mironov 2012; Casacuberta et al. 2022), as a score.

value + scale·z in floating point cannot be every float: z is one of finitely many, and which sums occur depends on the value.
Given an answer, try every z near (answer - v)/scale; if none gives it back bit for bit, the value was not v. A share of the
answers proves that, whatever the scale of the noise: ε is infinite.

A release on a public grid has the same set of possible answers for every value, so the score says nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.problem.arrays import Vector


def spacing_exponent(values: ArrayLike) -> Vector:
    """log₂ of the largest power of two that divides each float: the place of its lowest set bit; 0 gives 0.

    >>> spacing_exponent([1.0, 0.75, 2.0**-40 + 1.0, 6.0]).tolist()
    [0.0, -2.0, -40.0, 1.0]
    """
    numbers = np.asarray(values, dtype=np.float64)
    mantissa, exponent = np.frexp(numbers)
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    lowest = whole & -whole
    place = np.where(whole == 0, 0.0, np.log2(np.maximum(lowest, 1).astype(np.float64)) + exponent - 53)
    return np.where(whole == 0, 0.0, place)


def lowest_bits(outcomes: NDArray[np.float64]) -> Vector:
    """A score for `distinguish`: how fine the lowest set bit of an outcome is (the finest over its numbers)."""
    return np.asarray(-spacing_exponent(np.atleast_2d(outcomes)).min(axis=1))


def unreachable(answers: ArrayLike, center: float, scale: float) -> NDArray[np.bool_]:
    """Whether a float answer cannot be center + scale·z in double arithmetic for any double z near the only candidate.

    The candidate noise is z = (answer - center)/scale; all doubles within four spacings of it are tried. An answer that none of
    them reproduces proves that the value was not `center`.
    """
    found = np.atleast_1d(np.asarray(answers, dtype=np.float64))
    candidate = (found - center) / scale
    reached = np.zeros(found.shape, dtype=bool)
    near = candidate.copy()
    for _ in range(4):
        near = np.nextafter(near, -np.inf)
    for _ in range(9):
        reached |= center + scale * near == found
        near = np.nextafter(near, np.inf)
    return ~reached
