"""Where the numbers of each column lie, from the two noisy histograms of a profile. Pure.

`terms.ranges` finds the outermost bins that noise cannot explain. Where the budget is small for the table that is too bold: a bin
with a quarter of the rows may fail to stand out, and a range that ends before it spoils the column. A wary question (all since
0.5.0) therefore goes past an end as long as more than a tenth of the rows may be hidden there: the count next to it, or of all
cells that would be cut, plus two deviations of its noise. With less noise than that both rules are the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dperm.problem.arrays import Vector
from dperm.profiles.question import Asked, is_wide
from dperm.profiles.terms import Scale
from dperm.tables.scale import OCTAVES, SMALLEST
from dperm.terms.ranges import CELLS, coarse_ranges, outermost, tight_ranges

HIDDEN = 0.1  # share of the rows that may be cut off because noise hides them
UNSURE = 2.0  # deviations of noise


def hides(count: float, noise: float, n: int) -> bool:
    """Whether more than a tenth of the rows may be where `count` was released."""
    return count + UNSURE * noise > HIDDEN * n


def first_scales(counts: Vector, noise: float, n: int, asked: Sequence[Asked], wary: bool) -> list[Scale]:
    """Powers of two around the rows of each column, within the declared bounds; logarithmic where they span a factor of 1,000
    above 0."""
    if not asked:
        return []
    low, high = coarse_ranges(counts, noise, n)
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
    if wary and all(outermost(side[:0:-1], noise, bins, n) is None for side in sides):
        least, most = _likeliest(sides)
    elif wary:
        least, most = -_further(negative, -least, noise, n), _further(positive, most, noise, n)
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


def _likeliest(sides: Vector) -> tuple[float, float]:
    """A range where no octave stands out: from 0 to past the two neighbours that count most together, on their side."""
    pairs = sides[:, :-1] + sides[:, 1:]
    side, first = np.unravel_index(int(np.argmax(pairs)), pairs.shape)
    end = SMALLEST * 2.0 ** (int(first) + 2)
    return (-end, 0.0) if side == 0 else (0.0, end)


def _further(octaves: Vector, end: float, noise: float, n: int) -> float:
    """An end of a range, one octave further out where that one may hide rows; 0 stays where a side is empty."""
    beyond = round(math.log2(end / SMALLEST)) if end > 0 else OCTAVES  # the octave that begins at `end`
    return 2 * end if beyond < OCTAVES and hides(float(octaves[beyond]), noise, n) else end


def tighter(counts: Vector, scales: Sequence[Scale], noise: float, n: int, wary: bool) -> list[Scale]:
    """The part of each scale where its rows are."""
    if not scales:
        return []
    start, stop = tight_ranges(counts, np.zeros(len(scales)), np.ones(len(scales)), noise, n)
    found = []
    for place, (scale, row) in enumerate(zip(scales, counts.reshape(-1, CELLS))):
        ends = np.array([start[place], stop[place]])
        if wary:
            ends = np.array([_cut(row, ends[0], noise, n), 1 - _cut(row[::-1], 1 - ends[1], noise, n)])
        low, high = (float(end) for end in scale.at(ends))
        found.append(Scale(low, high, scale.log) if low < high else scale)
    return found


def _cut(cells: Vector, share: float, noise: float, n: int) -> float:
    """How much of the scale is cut off before its first cell: at most `share`, and nothing that may hold a tenth of the rows."""
    many = np.arange(CELLS + 1)
    before = np.concatenate([[0.0], np.cumsum(cells)])
    sure = many[(before + UNSURE * noise * np.sqrt(many) <= HIDDEN * n) & (many <= share * CELLS)]
    most = float(np.max(sure, initial=0)) / CELLS
    return share if most > share - 1 / CELLS else most  # a share need not end with a cell
