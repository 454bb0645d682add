"""Where the numbers of each column lie, from the two noisy histograms of a profile, by the rule of `terms.ranges`. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dperm.problem.arrays import Vector
from dperm.profiles.question import Asked, is_wide
from dperm.profiles.terms import Scale
from dperm.tables.scale import OCTAVES, SMALLEST
from dperm.terms.ranges import coarse_ranges, hides, outermost, tight_ranges


def first_scales(counts: Vector, noise: float, n: int, asked: Sequence[Asked], wary: bool) -> list[Scale]:
    """Powers of two around the rows of each column, within the declared bounds; logarithmic where they span a factor of 1,000
    above 0."""
    if not asked:
        return []
    low, high = coarse_ranges(counts, noise, n, wary)
    table = counts.reshape(-1, 2, OCTAVES)
    return [
        _first_scale(table[place], (float(low[place]), float(high[place])), noise, counts.size, n, column, wary)
        for place, column in enumerate(asked)
    ]


def _first_scale(
    sides: Vector, ends: tuple[float, float], noise: float, bins: int, n: int, asked: Asked, wary: bool
) -> Scale:
    """`ends` are those of `coarse_ranges`, whose lower one is 0 where no row is negative; here it is raised to the smallest
    octave with rows where none is zero either."""
    negative, positive = sides
    least, most = ends
    first = outermost(positive, noise, bins, n)  # from the smallest; octave 0 is zero itself
    if least == 0 and first is not None and first > 0 and outermost(negative, noise, bins, n) is None:
        unsure = wary and hides(float(positive[first - 1]), noise, n)
        least = 0.0 if unsure else SMALLEST * 2.0 ** (first - 1)
        least = least if least < most else 0.0  # noise found rows above the largest octave that stands out
    if asked.low is not None and asked.high is not None:
        largest = SMALLEST * 2.0**OCTAVES  # the octaves end there, and say nothing about what is beyond
        low = asked.low if least <= -largest else max(least, asked.low)
        high = asked.high if most >= largest else min(most, asked.high)
        least, most = (low, high) if low < high else (asked.low, asked.high)
    return Scale(least, most, is_wide(least, most))


def tighter(counts: Vector, scales: Sequence[Scale], noise: float, n: int, wary: bool) -> list[Scale]:
    """The part of each scale where its rows are."""
    if not scales:
        return []
    start, stop = tight_ranges(counts, np.zeros(len(scales)), np.ones(len(scales)), noise, n, wary)
    found = []
    for scale, ends in zip(scales, np.column_stack([start, stop])):
        low, high = (float(end) for end in scale.at(ends))
        found.append(Scale(low, high, scale.log) if low < high else scale)
    return found
