"""What one held-out row adds to each paid sum of an evaluation, and how far one row can move it.

The rows of an evaluation are numbers computed row by row from model and row (`evaluation_rows`): for classes (class, right,
loss/cap, probability, predicted class), for regressions (residual/range, u = target in [-1, 1]), for counts (count/limit,
predicted/limit, exposure/largest); where scores are asked for by group, the group stands last. Each term clips what it adds,
turns NaN into 0, and adds nothing for a null row (label missing or undeclared, beyond a person's limit). "Known" rows are the
others. Squares of the ℓ2-sensitivity, per row:

| term         | one known row adds                                         | null one | replace one                       |
|--------------|------------------------------------------------------------|----------|-----------------------------------|
| Cells        | 1 to one cell                                              | 1        | 2                                 |
| Grouped      | what another term adds, at the place of the row's group    | as there | the larger of: as there, 2·null   |
| Answers      | right, wrong, l, l²/2, ½·1{class}   (l in [0, 1])          | 2.5      | 3.75                              |
| Scores       | 1 to (class, bin), d/5 to bin       (d in [-1, 1])         | 1.04     | 2.16                              |
| Centre       | u/2, 1                                                     | 1.25     | 1.25                              |
| Moments      | r₊, r₋, r², r⁴/2, v/2, v², v⁴/2, r²v²/2, 1                 | 5        | 5                                 |
| Rates        | y, e, 1                             (in [0, 1])            | 3        | 3                                 |
| CountMoments | a, a²/2, b, b²/2, ab/2, y, m, y²/2, m²/2, ym/2, 1          | 6.5      | 6.5                               |

A row has one group, or none: two rows of one group differ as in the other term, two of different groups stand at different places
and their squared norms add up.

*Null one*: the squared norm of the largest row. *Replace one*: a known row by a known one, or by a null one (the column before),
whichever is more. Answers: right and wrong move by 1 each, l by 1, l²/2 by ½, two class cells by ½ each: 2 + 1 + ¼ + ½; without
probabilities the two entries of l are absent and both numbers are smaller by 1.25. Scores: two counts move by one each and, at
worst, d moves from -1 to 1 in one bin: 2 + (2/5)². Centre, Rates, CountMoments: the 1 does not move between known rows, and
every other entry has a range of at most its largest size there (u/2: range 1, size ½: 1 ≤ 1.25).

Moments, known rows with |r| = A, B and |v| = a, b. All moves grow when A and B (or a and b) are scaled up together, so take
A = 1, B² = q, a = 1, b = t. The r-part is at most (1 + q) + (1 - q)² + ¼(1 - q²)² ≤ 1 + q + 1 - q + ¼ = 2.25. The v-part is at
most ¼(1 + t)² + (1 - t²)² + ¼(1 - t⁴)² ≤ ¼ + t/2 + t²/4 + 1 - t² + ¼ = 1.5 + t/2 - ¾t² ≤ 1.59. r²v²/2 moves by at most ½.
Together 2.25 + 1.59 + 0.25 < 5.
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
from dperm.terms.statistics import present

OCTAVES = 40  # half-octave bins of a histogram of sizes: from the top down to a millionth of it
GRID = 256  # cells of the first look at the probabilities
WITHIN = 0.2  # weight of a probability's place inside its bin


def tidy(values: Vector, low: float, high: float) -> Vector:
    """Numbers in [low, high]; NaN counts as 0.

    >>> tidy(np.array([np.nan, np.inf, -3.0]), -1.0, 1.0).tolist()
    [0.0, 1.0, -1.0]
    """
    return np.asarray(np.clip(np.where(np.isnan(values), 0.0, values), low, high), dtype=np.float64)


def cell_of(chance: Vector) -> NDArray[np.int64]:
    """Cell of a probability on the public grid, even in arcsin √p: finer near 0 and 1, where rare events live."""
    place = np.floor(GRID * (2 / np.pi) * np.arcsin(np.sqrt(tidy(chance, 0.0, 1.0))))
    return np.asarray(np.clip(place, 0, GRID - 1), dtype=np.int64)


def grid_edges() -> Vector:
    """The probabilities at the borders of the grid's cells."""
    return np.asarray(np.sin(np.pi / 2 * np.arange(GRID + 1) / GRID) ** 2)


@dataclass(frozen=True, eq=False)
class RowTerm(Counted):
    """A sum over known rows of vectors whose squared sensitivities `nulled` and `replaced` are in the table above."""

    nulled: ClassVar[float]
    replaced: ClassVar[float]

    def rows(self, X: Vector) -> Vector:
        """One vector per row."""
        raise NotImplementedError

    def tally(self, block: Block) -> Vector:
        rows = self.rows(np.asarray(block.X, dtype=np.float64))
        return np.asarray(whole(present(block)[:, None] * rows, 1.0).sum(axis=0))

    def sensitivity(self, relation: str) -> float:
        return math.sqrt(self.replaced if relation == "replace-one" else self.nulled)


@dataclass(frozen=True, eq=False)
class Cells(RowTerm):
    """A histogram: `place` gives every row its cell."""

    cells: int

    nulled, replaced = 1.0, 2.0

    def place(self, X: Vector) -> NDArray[np.int64]:
        raise NotImplementedError

    def tally(self, block: Block) -> Vector:
        place = np.clip(self.place(np.asarray(block.X, dtype=np.float64)), 0, self.cells - 1)
        return np.asarray(np.bincount(place, weights=whole(present(block), 1.0), minlength=self.cells), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class ScoreGrid(Cells):
    """Probabilities on the public grid."""

    cells: int = GRID

    def place(self, X: Vector) -> NDArray[np.int64]:
        return cell_of(X[:, 3])


@dataclass(frozen=True, eq=False)
class Confusion(Cells):
    """How often class j is taken for class k: cell j·K + k."""

    classes: int = 2

    def place(self, X: Vector) -> NDArray[np.int64]:
        held, said = (tidy(X[:, column], 0.0, self.classes - 1.0).astype(np.int64) for column in (0, 4))
        return np.asarray(held * self.classes + said, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class GroupSizes(Cells):
    """Rows per group; the last cell has those of no group, and is there so that every row has one."""

    def place(self, X: Vector) -> NDArray[np.int64]:
        return group_of(X, self.cells - 1)


@dataclass(frozen=True, eq=False)
class Sizes(Cells):
    """Sizes in half octaves below `top`: bin k holds (top·2^(-(k+1)/2), top·2^(-k/2)], the first also what is larger."""

    cells: int = OCTAVES
    top: float = 1.0

    def size(self, X: Vector) -> Vector:
        raise NotImplementedError

    def place(self, X: Vector) -> NDArray[np.int64]:
        share = tidy(self.size(X) / self.top, 2.0**-OCTAVES, 1.0)
        return np.asarray(np.floor(-2.0 * np.log2(share)), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class ResidualSizes(Sizes):
    """|residual|, in units of the target's range."""

    def size(self, X: Vector) -> Vector:
        return np.abs(tidy(X[:, 0], -1.0, 1.0))


@dataclass(frozen=True, eq=False)
class TargetSizes(Sizes):
    """|target - centre|, in units of the target's range."""

    centre: float = 0.0

    def size(self, X: Vector) -> Vector:
        return np.abs(tidy(X[:, 1], -1.0, 1.0) - self.centre) / 2


@dataclass(frozen=True, eq=False)
class CountSizes(Sizes):
    """The larger of count and prediction, in units of the limit."""

    def size(self, X: Vector) -> Vector:
        return np.maximum(tidy(X[:, 0], 0.0, 1.0), tidy(X[:, 1], 0.0, 1.0))


def deviance(y: Vector, predicted: Vector) -> Vector:
    """2(y·log(y/m) - y + m) ≥ 0, row by row; 2m where y = 0."""
    y, m = tidy(y, 0.0, 1.0), tidy(predicted, 1e-150, 1e150)
    return np.asarray(np.maximum(2.0 * (y * np.log(np.maximum(y, 1e-150) / m) - y + m), 0.0))


@dataclass(frozen=True, eq=False)
class DevianceSizes(Sizes):
    """The larger deviance of the model and of the constant rate `rate`, per unit of the limit."""

    rate: float = 1.0

    def size(self, X: Vector) -> Vector:
        return np.maximum(deviance(X[:, 0], X[:, 1]), deviance(X[:, 0], self.rate * tidy(X[:, 2], 0.0, 1.0)))


@dataclass(frozen=True, eq=False)
class Answers(RowTerm):
    """(right, wrong, l, l²/2, ½·1{class}); without the entries of l for models without probabilities."""

    classes: int
    probabilities: bool

    def rows(self, X: Vector) -> Vector:
        right = (X[:, 1] > 0.5).astype(np.float64)
        columns = [right, 1.0 - right]
        if self.probabilities:
            loss = tidy(X[:, 2], 0.0, 1.0)
            columns += [loss, loss * loss / 2]
        held = tidy(X[:, 0], 0.0, self.classes - 1.0).astype(np.int64)
        return np.column_stack([*columns, 0.5 * (held[:, None] == np.arange(self.classes))])

    def sensitivity(self, relation: str) -> float:
        squared = 2.5 if relation == "replace-one" else 1.25
        return math.sqrt(squared + (1.25 if self.probabilities else 0.0))


@dataclass(frozen=True, eq=False)
class Scores(RowTerm):
    """Counts per (class, bin) of two classes, and d/5 per bin: d in [-1, 1] is the place of the probability inside its bin."""

    edges: tuple[int, ...]  # borders of the bins, as cells of the grid

    nulled, replaced = 1.0 + WITHIN**2, 2.0 + 4 * WITHIN**2

    def tally(self, block: Block) -> Vector:
        X, bins = np.asarray(block.X, dtype=np.float64), len(self.edges) - 1
        chance = tidy(X[:, 3], 0.0, 1.0)
        place = np.clip(np.searchsorted(self.edges, cell_of(chance), side="right") - 1, 0, bins - 1)
        middle, half = middles(self.edges)
        here = present(block)
        positive = (X[:, 0] > 0.5).astype(np.int64)
        counts = np.bincount(place + bins * positive, weights=whole(here, 1.0), minlength=2 * bins)
        inside = tidy((chance - middle[place]) / half[place], -1.0, 1.0)
        return np.append(counts, np.bincount(place, weights=whole(here * inside * WITHIN, 1.0), minlength=bins))


def group_of(X: Vector, groups: int) -> NDArray[np.int64]:
    """The group of every row, which stands in its last number; `groups` for none."""
    found = tidy(X[:, -1], -1.0, groups + 0.0)
    return np.where((found >= 0) & (found < groups), found, groups).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Grouped(RowTerm):
    """A term for every group, of one kind and one sensitivity, summed over its rows; a row of no group adds nothing."""

    inner: tuple[RowTerm, ...]

    def tally(self, block: Block) -> Vector:
        X = np.asarray(block.X, dtype=np.float64)
        here, place = present(block), group_of(X, len(self.inner))
        parts = [term.tally(Block(X[:, :-1], block.y, here * (place == g), block.start)) for g, term in enumerate(self.inner)]
        return np.concatenate(parts)

    def sensitivity(self, relation: str) -> float:
        apart = math.sqrt(2.0 if relation == "replace-one" else 1.0) * self.inner[0].sensitivity("zero-out")
        return max(self.inner[0].sensitivity(relation), apart)


def middles(edges: tuple[int, ...]) -> tuple[Vector, Vector]:
    """Middle and half width of every bin, as probabilities."""
    borders = grid_edges()[np.asarray(edges)]
    return (borders[1:] + borders[:-1]) / 2, (borders[1:] - borders[:-1]) / 2


@dataclass(frozen=True, eq=False)
class Centre(RowTerm):
    """(u/2, 1)."""

    nulled = replaced = 1.25

    def rows(self, X: Vector) -> Vector:
        return np.column_stack([tidy(X[:, 1], -1.0, 1.0) / 2, np.ones(len(X))])


@dataclass(frozen=True, eq=False)
class Moments(RowTerm):
    """(r₊, r₋, r², r⁴/2, v/2, v², v⁴/2, r²v²/2, 1) with r = residual/clip and v = (target - centre)/spread, clipped to ±1."""

    clip: float
    centre: float
    spread: float

    nulled = replaced = 5.0

    def rows(self, X: Vector) -> Vector:
        r = tidy(tidy(X[:, 0], -1.0, 1.0) / self.clip, -1.0, 1.0)
        v = tidy((tidy(X[:, 1], -1.0, 1.0) - self.centre) / 2 / self.spread, -1.0, 1.0)
        r2, v2 = r * r, v * v
        columns = [np.maximum(r, 0.0), np.maximum(-r, 0.0), r2, r2 * r2 / 2, v / 2, v2, v2 * v2 / 2, r2 * v2 / 2]
        return np.column_stack([*columns, np.ones(len(X))])


@dataclass(frozen=True, eq=False)
class Rates(RowTerm):
    """(count/size, exposure, 1), each in [0, 1]."""

    size: float

    nulled = replaced = 3.0

    def rows(self, X: Vector) -> Vector:
        return np.column_stack([tidy(X[:, 0] / self.size, 0.0, 1.0), tidy(X[:, 2], 0.0, 1.0), np.ones(len(X))])


@dataclass(frozen=True, eq=False)
class CountMoments(RowTerm):
    """(a, a²/2, b, b²/2, ab/2, y, m, y²/2, m²/2, ym/2, 1), every letter in [0, 1].

    a and b are the deviances of the model and of the constant rate over `clip`, y and m count and prediction over `size`.
    """

    size: float
    rate: float
    clip: float

    nulled = replaced = 6.5

    def rows(self, X: Vector) -> Vector:
        a = tidy(deviance(X[:, 0], X[:, 1]) / self.clip, 0.0, 1.0)
        b = tidy(deviance(X[:, 0], self.rate * tidy(X[:, 2], 0.0, 1.0)) / self.clip, 0.0, 1.0)
        y, m = (tidy(X[:, column] / self.size, 0.0, 1.0) for column in (0, 1))
        columns = [a, a * a / 2, b, b * b / 2, a * b / 2, y, m, y * y / 2, m * m / 2, y * m / 2]
        return np.column_stack([*columns, np.ones(len(X))])
