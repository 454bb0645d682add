"""Private bounds of columns: two noisy histograms per column, booked in the plan of the fit.

A column whose bounds are not declared is stored on a public logarithmic scale that covers every magnitude from 2⁻³² to 2³²,

    u = sign(x)·log₂(1 + |x|·2³²)/128 ∈ [-1/2, 1/2],

so that rows are bounded before anything is known about them. The first histogram counts signs and octaves; the outermost octaves
with more rows than the noise explains give a coarse range. The second counts 64 equal cells of that range and tightens it. The
column is then decoded, clipped to the range and treated as a numeric column with those bounds.

Where the budget is small for the table, to end where rows no longer stand out is too bold: a bin with a quarter of the rows may
fail to, and a range that ends before it spoils the column. The wary rule (profiles since 0.5.0, fits after it) goes past an end
as long as more than a tenth of the rows may be hidden there: the count next to it, or of all cells that would be cut, plus two
deviations of its noise. With less noise than that both rules are the same. Both are functions of the released counts and of
public numbers.

**Sensitivity** of a histogram over p columns: a row adds one count per column, so √p when it is nulled and √(2p) when replaced. A
missing cell adds none, which can only shorten what a row adds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dperm.problem.arrays import Vector
from dperm.rows.base import Block
from dperm.rows.exact import whole
from dperm.rows.recoded import RowView
from dperm.tables.gaps import GAP, is_gap
from dperm.tables.scale import OCTAVES, SMALLEST, decoded
from dperm.terms.statistics import ColumnHistogram, present

CELLS = 64
HIDDEN = 0.1  # share of the rows that may be cut off because noise hides them
UNSURE = 2.0  # deviations of noise


class OctaveHistogram(ColumnHistogram):
    """Counts of (sign, octave) for every private column, flattened: negative octaves first, then positive."""

    def tally(self, block: Block) -> Vector:
        here, total = whole(present(block), 1.0), np.zeros((len(self.columns), 2 * OCTAVES))
        for place, j in enumerate(self.columns):
            u = np.asarray(block.X[:, j], dtype=np.float64)
            octave = np.minimum((2 * OCTAVES * np.abs(u)).astype(np.int64), OCTAVES - 1)
            counted = np.where(is_gap(u), 0.0, here)
            total[place] = np.bincount(np.where(u < 0, octave, OCTAVES + octave), weights=counted, minlength=2 * OCTAVES)
        return total.reshape(-1)


@dataclass(frozen=True, eq=False)
class CellHistogram(ColumnHistogram):
    """Counts of 64 equal cells of each private column's coarse range; values outside count in the end cells."""

    low: Vector
    high: Vector

    def tally(self, block: Block) -> Vector:
        here, total = whole(present(block), 1.0), np.zeros((len(self.columns), CELLS))
        for place, j in enumerate(self.columns):
            u = np.asarray(block.X[:, j], dtype=np.float64)
            x, counted = decoded(u), np.where(is_gap(u), 0.0, here)
            share = (x - self.low[place]) / (self.high[place] - self.low[place])
            cell = np.clip(np.floor(share * CELLS), 0, CELLS - 1).astype(np.int64)
            total[place] = np.bincount(cell, weights=counted, minlength=CELLS)
        return total.reshape(-1)


def outermost(counts: Vector, noise: float, bins: int, n: int) -> int | None:
    """First bin, in the order given, where rows must be: its own count, or all counts up to it, exceed what noise explains.

    `bins` is how many counts were released together: noise alone passes in none of them with probability about 95 %. A thin tail
    is found by its running sum, whose noise grows as √j only. At least 0.1 % of the rows must lie there.
    """
    sure = math.sqrt(2.0 * math.log(max(bins, 2))) + 1.0
    running = np.cumsum(counts) / np.sqrt(np.arange(1, len(counts) + 1))
    found = np.flatnonzero((np.maximum(counts, running) > noise * sure) & (np.cumsum(counts) > 0.001 * n))
    return int(found[0]) if len(found) else None


def hides(count: float, noise: float, n: int) -> bool:
    """Whether more than a tenth of the rows may be where `count` was released."""
    return count + UNSURE * noise > HIDDEN * n


def coarse_ranges(counts: Vector, noise: float, n: int, wary: bool) -> tuple[Vector, Vector]:
    """(low, high) of each column from its octaves: powers of two, and 0 where a side is empty. A wary range goes one octave
    further where that one may hide rows."""
    table = np.asarray(counts, dtype=np.float64).reshape(-1, 2, OCTAVES)
    ends = np.zeros((len(table), 2))
    for place, sides in enumerate(table):
        for side in (0, 1):
            found = outermost(sides[side, :0:-1], noise, table.size, n)  # from the largest; octave 0 is zero itself
            if found is not None:
                beyond = OCTAVES - found  # the octave that begins where the range ends
                further = wary and beyond < OCTAVES and hides(float(sides[side, beyond]), noise, n)
                ends[place, side] = SMALLEST * 2.0 ** (beyond + further)
        if not ends[place].any():
            ends[place] = _likeliest(sides) if wary else (0.0, 1.0)
    return 0.0 - ends[:, 0], ends[:, 1]


def _likeliest(sides: Vector) -> tuple[float, float]:
    """How far a range goes on each side where no octave stands out: past the two neighbours that count most together."""
    pairs = sides[:, :-1] + sides[:, 1:]
    side, first = np.unravel_index(int(np.argmax(pairs)), pairs.shape)
    end = SMALLEST * 2.0 ** (int(first) + 2)
    return (end, 0.0) if side == 0 else (0.0, end)


def tight_ranges(counts: Vector, low: Vector, high: Vector, noise: float, n: int, wary: bool) -> tuple[Vector, Vector]:
    """From the outermost cells where rows must be, and half as much more on each side for tails that the noise hides.

    A range twice too wide costs little (the scale is private too), while a range that cuts real rows costs much.
    """
    table = np.asarray(counts, dtype=np.float64).reshape(-1, CELLS)
    tight_low, tight_high = low.copy(), high.copy()
    for place, row in enumerate(table):
        first, last = outermost(row, noise, table.size, n), outermost(row[::-1], noise, table.size, n)
        if first is None or last is None:
            continue
        width = (high[place] - low[place]) / CELLS
        start, stop = min(first, CELLS - 1 - last), max(first, CELLS - 1 - last) + 1
        spare = 0.5 * (stop - start) + 1
        begin, end = start - spare, stop + spare
        if wary:
            begin, end = _cut(row, begin, noise, n), CELLS - _cut(row[::-1], CELLS - end, noise, n)
        tight_low[place] = max(low[place], low[place] + width * begin)
        tight_high[place] = min(high[place], low[place] + width * end)
    return tight_low, tight_high


def _cut(cells: Vector, wish: float, noise: float, n: int) -> float:
    """How many cells are cut off an end: at most `wish`, which need not be whole, and none that may hold a tenth of the rows."""
    many = np.arange(CELLS + 1)
    before = np.concatenate([[0.0], np.cumsum(cells)])
    sure = many[(before + UNSURE * noise * np.sqrt(many) <= HIDDEN * n) & (many <= wish)]
    most = float(np.max(sure, initial=0))
    return wish if most > wish - 1 else most


@dataclass(frozen=True, eq=False)
class Recoding(RowView):
    """Private columns decoded, clipped to their released range and mapped to [-1/2, 1/2]; other columns and missing cells as they
    are, so that a missing cell becomes the middle of the range."""

    columns: tuple[int, ...]
    low: Vector
    high: Vector

    def seen(self, block: Block) -> Block:
        X = np.array(block.X, dtype=np.float64)
        for place, j in enumerate(self.columns):
            low, high = self.low[place], self.high[place]
            inside = (np.clip(decoded(X[:, j]), low, high) - (low + high) / 2) / (high - low)
            X[:, j] = np.where(is_gap(X[:, j]), GAP, inside + 0.0)
        return Block(X, block.y, block.weight, block.start, person=block.person)


def private_columns(kinds: Sequence[str]) -> tuple[int, ...]:
    return tuple(j for j, kind in enumerate(kinds) if kind == "private")
