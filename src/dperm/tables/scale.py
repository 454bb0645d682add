"""The public logarithmic scale on which a column without declared bounds is stored.

    u = sign(x)·log₂(1 + |x|·2³²)/128 ∈ [-1/2, 1/2]

It covers every magnitude from 2⁻³² to 2³², so that rows are bounded before anything is known about them.
"""

from __future__ import annotations

import numpy as np

from dperm.problem.arrays import Array, Vector, namespace

OCTAVES = 64
SMALLEST = 2.0**-32


def stored(values: object) -> Vector:
    """The public logarithmic scale.

    >>> stored(np.array([0.0, 2.0**32, -(2.0**32)])).round(6).tolist()
    [0.0, 0.5, -0.5]
    """
    return np.asarray(on_scale(np.asarray(values, dtype=np.float64)))


def on_scale(x: Array) -> Array:
    """`stored` of an array wherever it is, in its own precision."""
    xp = namespace(x)
    size = xp.log2(1.0 + xp.minimum(xp.abs(x), xp.full_like(x, SMALLEST * 2.0**OCTAVES)) / SMALLEST) / (2 * OCTAVES)
    return xp.sign(x) * xp.minimum(size, xp.full_like(x, 0.5))


def decoded(u: Vector) -> Vector:
    """The inverse of `stored`."""
    return np.asarray(np.sign(u) * (np.exp2(2 * OCTAVES * np.abs(u)) - 1.0) * SMALLEST)
