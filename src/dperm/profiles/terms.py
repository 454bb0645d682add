"""What one row adds to each paid sum of a profile, and how far one row can move it.

A row holds three numbers per column (`rows.py`): its reading, its look and the place of its level. A null row (beyond a person's
limit) adds nothing. Squares of the ℓ2-sensitivity for p columns:

| term     | one row adds, per column                                  | null one | replace one |
|----------|-----------------------------------------------------------|----------|-------------|
| Looks    | 1 to one of five kinds                                    | p        | 2p          |
| Codes    | 1 to one whole number from 0 to 31 or to "other", or nothing | p      | 2p          |
| Places   | 1 to one level of the table, or nothing                   | p        | 2p          |
| Octaves  | 1 to one octave, or nothing                               | p        | 2p          |
| Cells    | 1 to one cell, or nothing                                 | p        | 2p          |
| Counts   | 1 to one cell, level, "other" or "missing"; once 1        | p + 1    | 2p          |
| Moments  | v, v², 1 with v in [-1, 1], or nothing                    | 3p       | 4p          |
| Joint    | v, v², t, t², vt, 1 with v, t in [-1, 1], or nothing      | 6p       | 12p         |

Counts: the single 1 does not move when a row is replaced by a row; by a null row p + 1 ≤ 2p. Moments: between present cells
(v - w)² + (v² - w²)² = (v - w)²(1 + (v + w)²). With v - w = s and v + w = t, |t| ≤ 2 - |s|, this is at most s²(1 + (2 - s)²),
which on [0, 2] is 4 at s = 2 and never more: its derivative 2s(1 + (2-s)²) - 2s²(2-s) = 2s(2s² - 6s + 5) is positive. A present
cell that goes missing moves it by at most 3. Joint: 4 for v and v², 4 for t and t², 2² for vt; going missing at most 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.problem.arrays import Vector
from dperm.rows.base import Block
from dperm.rows.exact import Counted, whole
from dperm.tables.looks import DATE, MISSING, NUMBER, TRUTH, WORD
from dperm.tables.scale import OCTAVES, stored
from dperm.terms.ranges import CELLS
from dperm.terms.statistics import present

PER_COLUMN = 3  # reading, look, level
LOOKS = 5
BINS = 32
CODES = 32  # whole numbers that may be codes: 0 to 31, which hours, months, days and most codes are
ACCEPTED = {"numeric": (NUMBER, TRUTH), "date": (DATE,), "boolean": (NUMBER, TRUTH, WORD)}


@dataclass(frozen=True)
class Scale:
    """Where the cells of a numeric column are: equal steps of x, or of log₂ x, between two ends."""

    low: float
    high: float
    log: bool = False

    @property
    def ends(self) -> tuple[float, float]:
        return (math.log2(self.low), math.log2(self.high)) if self.log else (self.low, self.high)

    def share(self, x: Vector) -> Vector:
        """Where x lies between the ends, as a number in [0, 1]."""
        first, last = self.ends
        inside = np.clip(x, self.low, self.high)
        return np.asarray(((np.log2(inside) if self.log else inside) - first) / (last - first))

    def even(self, x: Vector) -> Vector:
        """Where x lies between the ends in steps of x, also where the cells are logarithmic."""
        return np.asarray(np.clip((np.clip(x, self.low, self.high) - self.low) / (self.high - self.low), 0.0, 1.0))

    def at(self, share: Vector) -> Vector:
        """The inverse of `share`."""
        first, last = self.ends
        found = first + np.asarray(share) * (last - first)
        return np.asarray(np.clip(np.exp2(found) if self.log else found, self.low, self.high))


@dataclass(frozen=True, eq=False)
class ColumnTerm(Counted):
    """Sums over rows of one part per column; without columns a single 0, so that a planned stage always has an answer."""

    columns: tuple[int, ...]

    per_column_nulled: ClassVar[float] = 1.0
    per_column_replaced: ClassVar[float] = 2.0

    def part(self, place: int, X: Vector, here: Vector) -> Vector:
        """What the rows add for one column, in whole steps; `here` is a one in steps, 0 for null rows."""
        raise NotImplementedError

    def tally(self, block: Block) -> Vector:
        X, here = np.asarray(block.X, dtype=np.float64), whole(present(block), 1.0)
        parts = [self.part(place, X, here) for place in range(len(self.columns))]
        return np.concatenate(parts) if parts else np.zeros(1)

    def sensitivity(self, relation: str) -> float:
        each = self.per_column_replaced if relation == "replace-one" else self.per_column_nulled
        return math.sqrt(each * max(len(self.columns), 1))


def _counted(place: NDArray[np.int64], here: Vector, size: int) -> Vector:
    return np.asarray(np.bincount(np.clip(place, 0, size - 1), weights=here, minlength=size), dtype=np.float64)


def _numbers(X: Vector, column: int, kind: str) -> tuple[Vector, NDArray[np.bool_]]:
    """(readings of a column with 0 where there is none, whether there is one)."""
    x, seen = X[:, PER_COLUMN * column], X[:, PER_COLUMN * column + 1]
    known = np.isin(seen, ACCEPTED[kind]) & np.isfinite(x)
    return np.where(known, x, 0.0), known


def _added(values: Vector, counted: Vector) -> float:
    """Σ of values in [-1, 1], in steps, over the rows that count."""
    return float(np.sum(np.where(counted > 0, whole(values, 1.0), 0.0)))


@dataclass(frozen=True, eq=False)
class Looks(ColumnTerm):
    """How many cells of each column look like nothing, a number, a truth value, a date, text."""

    def part(self, place: int, X: Vector, here: Vector) -> Vector:
        seen = X[:, PER_COLUMN * self.columns[place] + 1].astype(np.int64)
        return _counted(np.where(seen == WORD, TRUTH, seen), here, LOOKS)


@dataclass(frozen=True, eq=False)
class Places(ColumnTerm):
    """How many cells have each level of the private vocabulary. Never released whole: see `levels.py`."""

    sizes: tuple[int, ...]

    def part(self, place: int, X: Vector, here: Vector) -> Vector:
        code = X[:, PER_COLUMN * self.columns[place] + 2].astype(np.int64)
        return _counted(code, np.where(code >= 0, here, 0.0), max(self.sizes[place], 1))


@dataclass(frozen=True, eq=False)
class NumberTerm(ColumnTerm):
    """A term of numeric columns; `kinds` says which cells of each count as numbers."""

    kinds: tuple[str, ...]

    def seen(self, place: int, X: Vector) -> tuple[Vector, NDArray[np.bool_]]:
        return _numbers(X, self.columns[place], self.kinds[place])


@dataclass(frozen=True, eq=False)
class Octaves(NumberTerm):
    """Counts of (sign, octave): negative octaves first, then positive, as `dperm.terms.ranges` reads them."""

    def part(self, place: int, X: Vector, here: Vector) -> Vector:
        x, known = self.seen(place, X)
        u = stored(x)
        octave = np.minimum((2 * OCTAVES * np.abs(u)).astype(np.int64), OCTAVES - 1)
        return _counted(np.where(u < 0, octave, OCTAVES + octave), np.where(known, here, 0.0), 2 * OCTAVES)


@dataclass(frozen=True, eq=False)
class Codes(NumberTerm):
    """How many numbers are 0, 1, … 31, and how many are something else."""

    def part(self, place: int, X: Vector, here: Vector) -> Vector:
        x, known = self.seen(place, X)
        code = np.where((x == np.floor(x)) & (x >= 0) & (x < CODES), x, CODES).astype(np.int64)
        return _counted(code, np.where(known, here, 0.0), CODES + 1)


@dataclass(frozen=True, eq=False)
class Cells(NumberTerm):
    """Counts of equal cells of each column's scale; what lies outside counts in the end cells."""

    scales: tuple[Scale, ...]

    def part(self, place: int, X: Vector, here: Vector) -> Vector:
        x, known = self.seen(place, X)
        cell = np.floor(self.scales[place].share(x) * CELLS).astype(np.int64)
        return _counted(cell, np.where(known, here, 0.0), CELLS)


@dataclass(frozen=True, eq=False)
class Moments(NumberTerm):
    """(Σv, Σv², Σ1) over present cells, v the place between the ends, from -1 to 1."""

    scales: tuple[Scale, ...]

    per_column_nulled = 3.0
    per_column_replaced = 4.0

    def part(self, place: int, X: Vector, here: Vector) -> Vector:
        x, known = self.seen(place, X)
        v, counted = 2 * self.scales[place].even(x) - 1, np.where(known, here, 0.0)
        return np.array([_added(part, counted) for part in (v, v * v, np.ones(len(v)))])


@dataclass(frozen=True, eq=False)
class Joint(NumberTerm):
    """(Σv, Σv², Σt, Σt², Σvt, Σ1) over rows where the column and the target are present, t the target's place from -1 to 1.

    `target` is a numeric column with its kind and scale, or one of two levels, which are -1 and 1.
    """

    scales: tuple[Scale, ...]
    target: int = 0
    target_kind: str = "numeric"
    target_scale: Scale | None = None
    target_names: NDArray[np.int64] | None = None

    per_column_nulled = 6.0
    per_column_replaced = 12.0

    def part(self, place: int, X: Vector, here: Vector) -> Vector:
        x, known = self.seen(place, X)
        v = 2 * self.scales[place].even(x) - 1
        t, there = self._target(X)
        counted = np.where(known & there, here, 0.0)
        return np.array([_added(part, counted) for part in (v, v * v, t, t * t, v * t, np.ones(len(v)))])

    def _target(self, X: Vector) -> tuple[Vector, NDArray[np.bool_]]:
        if self.target_scale is not None or self.target_kind == "boolean":
            x, known = _numbers(X, self.target, self.target_kind)
            if self.target_scale is not None:
                return 2 * self.target_scale.even(x) - 1, known
            known &= np.isin(x, (0.0, 1.0))
            return np.where(known, 2 * x - 1, 0.0), known
        code = renamed(X[:, PER_COLUMN * self.target + 2].astype(np.int64), self.target_names)
        known = (code == 0) | (code == 1)
        return np.where(known, 2.0 * code - 1, 0.0), known


def renamed(code: NDArray[np.int64], names: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Places in a private vocabulary as places among the levels shown; places among declared levels as they are."""
    return code if names is None or not len(names) else np.where(code >= 0, names[np.maximum(code, 0)], -1)


@dataclass(frozen=True, eq=False)
class Counts(ColumnTerm):
    """How many rows count; then per column its bins and missing cells, or its levels, other and missing cells.

    `kinds` are those of `decide`; `scales` of numeric columns, else None; `sizes` the numbers of levels; `renamed` turns places
    in the private vocabulary into places among the levels shown, where there is one (never in a replay).
    """

    kinds: tuple[str, ...]
    scales: tuple[Scale | None, ...]
    sizes: tuple[int, ...]
    renamed: tuple[NDArray[np.int64] | None, ...]

    def tally(self, block: Block) -> Vector:
        X, here = np.asarray(block.X, dtype=np.float64), whole(present(block), 1.0)
        return np.concatenate([[here.sum()], *(self.part(place, X, here) for place in range(len(self.columns)))])

    def sensitivity(self, relation: str) -> float:
        p = len(self.columns)
        return math.sqrt(max(2 * p, p + 1) if relation == "replace-one" else p + 1)

    def part(self, place: int, X: Vector, here: Vector) -> Vector:
        column, kind, scale, size = self.columns[place], self.kinds[place], self.scales[place], self.sizes[place]
        if scale is not None:
            x, known = _numbers(X, column, kind)
            bin_ = np.minimum(np.floor(scale.share(x) * BINS), BINS - 1)
            return _counted(np.where(known, bin_, BINS).astype(np.int64), here, BINS + 1)
        if kind == "boolean":
            x, known = _numbers(X, column, kind)
            code = np.where(known & np.isin(x, (0.0, 1.0)), x, -1.0).astype(np.int64)
        else:
            code = renamed(X[:, PER_COLUMN * column + 2].astype(np.int64), self.renamed[place])
        code = np.where(code >= 0, code, np.where(X[:, PER_COLUMN * column + 1] == MISSING, size + 1, size))
        return _counted(code, here, size + 2)
