"""Finite classes of rules, counted in blocks: how many of these rows does each hypothesis get wrong?

    errors(X, y, weight)[h] = Σ_i weight_i · 1{h(x_i) ≠ y_i},   weights in [0, 1]

A class is a frozen record that a certificate can store (`spec`) and that never looks at the data: grids are declared. Labels are
class numbers (0, 1, …). The built-in classes count by sorting and cumulative sums instead of asking every rule about every
row; both ways add the same zeros and ones, which are exact in floating point, so the answers agree to the last bit.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.problem.arrays import Matrix, Vector, dense
from dperm.problem.plain import plain_fields, plain_float, plain_whole, shown
from dperm.tables.declared import declared_bounds
from dperm.words.spelling import closest

LARGEST = 20_000_000
HYPOTHESES: dict[str, type[Hypotheses]] = {}


class Hypotheses(ABC):
    """A finite class of rules x ↦ class number."""

    kind: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        """Let `hypotheses_from_spec` find the class by its kind, if it has one of its own."""
        if cls.__dict__.get("kind"):
            HYPOTHESES[cls.kind] = cls

    @property
    @abstractmethod
    def size(self) -> int:
        """How many rules: public, never a function of the data."""

    @property
    def columns(self) -> int | None:
        """How many columns X must have; None when any number will do."""
        return None

    @abstractmethod
    def errors(self, X: Matrix, y: Vector, weight: Vector) -> Vector:
        """Weighted number of mistakes of every rule on these rows."""

    @abstractmethod
    def predict(self, index: int, X: Matrix) -> NDArray[np.int64]:
        """Class numbers that rule `index` gives to the rows of X."""

    def describe(self, index: int) -> dict[str, object]:
        """The rule in public numbers."""
        return {"number": int(index)}

    def spec(self) -> dict[str, object]:
        """JSON form; `hypotheses_from_spec` inverts it."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.init}  # type: ignore[arg-type]
        return {"kind": self.kind} | {key: list(v) if isinstance(v, tuple) else v for key, v in values.items()}


def declared_grid(low: float, high: float, count: int) -> None:
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"Expected finite low < high, found {low} and {high}. Declare the range of the grid.")
    if not (isinstance(count, int) and count >= 1):
        raise ValueError(f"Expected a whole number count ≥ 1, found {shown(count)}. Pass how many grid points to use.")


def limited(size: int, what: str) -> None:
    if size > LARGEST:
        raise ValueError(f"Expected at most {LARGEST:,} {what}, found {size:,}. Pass a smaller count.")


def cumulative_errors(values: Vector, grid: Vector, y: Vector, weight: Vector) -> Vector:
    """Mistakes of "class 1 where value ≥ t" for every t of an increasing grid, then of the reversed rules.

    A value with j grid points ≤ it is called 1 by exactly the first j rules. So the mistakes of rule k are the ones with j ≤ k
    plus the zeros with j > k: two histograms of j and their cumulative sums. Cost n·log m + m instead of n·m; the same
    comparisons `value ≥ t` decide, and the sums are of the same numbers, so the result is the streamed one.

    >>> cumulative_errors(np.array([0.2, 0.8]), np.array([0.0, 0.5, 1.0]), np.array([0.0, 1.0]), np.ones(2)).tolist()
    [1.0, 0.0, 1.0, 1.0, 2.0, 1.0]
    """
    place = np.searchsorted(grid, values, side="right")
    ones = np.bincount(place, weights=weight * (y == 1), minlength=len(grid) + 1)
    zeros = np.bincount(place, weights=weight * (y == 0), minlength=len(grid) + 1)
    errors = np.cumsum(ones)[:-1] + (zeros.sum() - np.cumsum(zeros)[:-1])
    return np.concatenate([errors, weight.sum() - errors])


@dataclass(frozen=True)
class Thresholds(Hypotheses):
    """1{x_column ≥ t} and 1{x_column < t} for t on a grid of `count` points from low to high: 2·count rules.

    >>> Thresholds(0.0, 1.0, 1_000_000).size
    2000000
    """

    low: float
    high: float
    count: int
    column: int = 0
    kind: ClassVar[str] = "thresholds"

    def __post_init__(self) -> None:
        plain_fields(self)
        object.__setattr__(self, "column", plain_whole(self.column, "column"))
        declared_grid(self.low, self.high, self.count)
        limited(self.size, "thresholds")

    @property
    def size(self) -> int:
        return 2 * self.count

    @cached_property
    def grid(self) -> Vector:
        return np.linspace(self.low, self.high, self.count)

    def errors(self, X: Matrix, y: Vector, weight: Vector) -> Vector:
        return cumulative_errors(dense(X)[:, self.column], self.grid, y, weight)

    def predict(self, index: int, X: Matrix) -> NDArray[np.int64]:
        above = dense(X)[:, self.column] >= self.grid[index % self.count]
        return np.asarray(above if index < self.count else ~above, dtype=np.int64)

    def describe(self, index: int) -> dict[str, object]:
        return {
            "number": int(index),
            "column": self.column,
            "threshold": float(self.grid[index % self.count]),
            "class_above": int(index < self.count),
        }


@dataclass(frozen=True)
class ColumnGrids(Hypotheses):
    """Rules on a grid of `count` points, or cells, of every column: `low` and `high` with one entry per column."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    count: int

    def __post_init__(self) -> None:
        for label in ("low", "high"):
            object.__setattr__(self, label, tuple(plain_float(v, label) for v in getattr(self, label)))
        plain_fields(self)
        if len(self.low) != len(self.high) or not self.low:
            raise ValueError(f"Expected one low and one high per column, found {len(self.low)} and {len(self.high)}.")
        limited(self.size, self.kind)
        for low, high in zip(self.low, self.high):
            declared_grid(low, high, self.count)

    @property
    def columns(self) -> int:
        return len(self.low)


@dataclass(frozen=True)
class Stumps(ColumnGrids):
    """Thresholds on every column: `low` and `high` with one entry per column, 2·count rules each.

    >>> Stumps((0.0, -1.0), (1.0, 1.0), 50).size
    200
    """

    kind: ClassVar[str] = "stumps"

    @property
    def size(self) -> int:
        return 2 * self.count * len(self.low)

    @cached_property
    def parts(self) -> tuple[Thresholds, ...]:
        return tuple(Thresholds(low, high, self.count, j) for j, (low, high) in enumerate(zip(self.low, self.high)))

    def errors(self, X: Matrix, y: Vector, weight: Vector) -> Vector:
        X = dense(X)
        return np.concatenate([part.errors(X, y, weight) for part in self.parts])

    def predict(self, index: int, X: Matrix) -> NDArray[np.int64]:
        return self.parts[index // (2 * self.count)].predict(index % (2 * self.count), X)

    def describe(self, index: int) -> dict[str, object]:
        return self.parts[index // (2 * self.count)].describe(index % (2 * self.count)) | {"number": int(index)}


@dataclass(frozen=True)
class Boxes(ColumnGrids):
    """Class 1 inside Π_j [a_j, b_j), class 0 outside; a_j < b_j among count + 1 edges per axis, in one to three dimensions.

    (m(m+1)/2)^d rules for m = count. Counting: the table of signed counts per grid cell, summed cumulatively along each axis;
    a box is a difference of two entries per axis.

    >>> Boxes((0.0, 0.0), (1.0, 1.0), 10).size
    3025
    """

    kind: ClassVar[str] = "boxes"

    def __post_init__(self) -> None:
        if not 1 <= len(self.low) <= 3:
            raise ValueError(f"Expected one to three columns for boxes, found {len(self.low)} and {len(self.high)} ends.")
        super().__post_init__()

    @property
    def size(self) -> int:
        return int((self.count * (self.count + 1) // 2) ** len(self.low))

    @cached_property
    def edges(self) -> tuple[Vector, ...]:
        return tuple(np.linspace(low, high, self.count + 1) for low, high in zip(self.low, self.high))

    @cached_property
    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        first, last = np.triu_indices(self.count + 1, 1)
        return first, last

    def errors(self, X: Matrix, y: Vector, weight: Vector) -> Vector:
        X, d, m = dense(X), len(self.low), self.count
        place = np.zeros(len(X), dtype=np.int64)
        for j, edges in enumerate(self.edges):  # 0: below the grid, 1 … m: cell, m+1: above
            place = place * (m + 2) + np.searchsorted(edges, X[:, j], side="right")
        signed = weight * np.where(y == 0, 1.0, np.where(y == 1, -1.0, 0.0))
        table = np.bincount(place, weights=signed, minlength=(m + 2) ** d).reshape((m + 2,) * d)
        for axis in range(d):
            summed = np.cumsum(table, axis=axis)  # entry e: cells below edge e
            first, last = self.pairs
            table = np.take(summed, last, axis=axis) - np.take(summed, first, axis=axis)
        ones = float(np.sum(weight * (y == 1)))
        return np.asarray(table.reshape(-1) + ones)

    def _ends(self, index: int) -> list[tuple[float, float]]:
        pairs = len(self.pairs[0])
        numbers = []
        for _ in self.low:
            index, number = divmod(index, pairs)
            numbers.append(number)
        return [(float(e[self.pairs[0][k]]), float(e[self.pairs[1][k]])) for e, k in zip(self.edges, reversed(numbers))]

    def predict(self, index: int, X: Matrix) -> NDArray[np.int64]:
        X = dense(X)
        inside = np.ones(len(X), dtype=bool)
        for j, (low, high) in enumerate(self._ends(index)):
            inside &= (X[:, j] >= low) & (X[:, j] < high)
        return inside.astype(np.int64)

    def describe(self, index: int) -> dict[str, object]:
        return {"number": int(index), "ends": [list(pair) for pair in self._ends(index)]}


@dataclass(frozen=True)
class Separators(Hypotheses):
    """1{⟨a, x⟩ ≥ t} and its reverse: `directions` unit vectors on a half circle (half sphere), `offsets` values |t| ≤ radius.

    One to three columns; 2·directions·offsets rules. The half sphere is a golden-angle spiral.

    >>> Separators(2, 36, 51, 1.5).size
    3672
    """

    dimension: int
    directions: int
    offsets: int
    radius: float
    kind: ClassVar[str] = "separators"

    def __post_init__(self) -> None:
        plain_fields(self)
        if self.dimension not in (1, 2, 3):
            raise ValueError(f"Expected dimension 1, 2 or 3, found {self.dimension!r}. Pass a callable for other classes.")
        if self.dimension == 1 and self.directions != 1:
            raise ValueError(f"Expected directions=1 in one dimension, found {self.directions}.")
        declared_grid(-self.radius, self.radius, self.offsets)
        declared_grid(0.0, 1.0, self.directions)
        limited(self.size, "separators")

    @property
    def size(self) -> int:
        return 2 * self.directions * self.offsets

    @property
    def columns(self) -> int:
        return self.dimension

    @cached_property
    def normals(self) -> Vector:
        k = np.arange(self.directions)
        if self.dimension == 1:
            return np.ones((1, 1))
        if self.dimension == 2:
            angle = math.pi * k / self.directions
            return np.column_stack([np.cos(angle), np.sin(angle)])
        height = (k + 0.5) / self.directions
        ring = np.sqrt(1 - height**2)
        angle = np.asarray(math.pi * (3 - math.sqrt(5)) * k, dtype=np.float64)
        return np.column_stack([ring * np.cos(angle), ring * np.sin(angle), height])

    @cached_property
    def cuts(self) -> Thresholds:
        """The rules of one direction, on the places of rows along it."""
        return Thresholds(-self.radius, self.radius, self.offsets)

    def errors(self, X: Matrix, y: Vector, weight: Vector) -> Vector:
        X = dense(X)
        # Column after column: the last bit of a BLAS product may depend on where a row stands, and decide a tie.
        places = (sum(X[:, j] * a[j] for j in range(len(a))) for a in self.normals)
        return np.concatenate([self.cuts.errors(np.asarray(place)[:, None], y, weight) for place in places])

    def predict(self, index: int, X: Matrix) -> NDArray[np.int64]:
        direction, rest = divmod(index, self.cuts.size)
        return self.cuts.predict(rest, (dense(X) @ self.normals[direction])[:, None])

    def describe(self, index: int) -> dict[str, object]:
        direction, rest = divmod(index, self.cuts.size)
        cut, normal = self.cuts.describe(rest), self.normals[direction].tolist()
        return {"number": int(index), "normal": normal, "offset": cut["threshold"], "class_above": cut["class_above"]}


GRIDS = ("thresholds", "stumps", "boxes", "separators")


def on_grid(name: str, bounds: object, d: int, columns: Sequence[str] | None = None) -> Hypotheses:
    """A built-in class on a grid over declared bounds, of at most some two million rules.

    >>> on_grid("boxes", (0, 1), 2).size, on_grid("thresholds", (0, 1), 1).size
    (1625625, 2000)
    """
    if name not in GRIDS:
        raise ValueError(
            f"Expected hypotheses= as one of {', '.join(map(repr, GRIDS))} or 'predictions', found {name!r}."
            f"{closest(name, GRIDS)} For other grids pass e.g. dperm.mechanisms.hypotheses.classes.Thresholds(low, high, count)."
        )
    if bounds is None:
        raise ValueError("Expected bounds=(low, high) for the grid of hypotheses=, found none. Declare the range of the columns.")
    low, high = (side.tolist() for side in declared_bounds(bounds, d, columns))
    if name == "stumps":
        return Stumps(tuple(low), tuple(high), 100)
    if name == "thresholds" and d != 1:
        raise ValueError(f"Expected one column for 'thresholds', found {d}. Use 'stumps', or Thresholds(..., column=).")
    if name == "thresholds":
        return Thresholds(low[0], high[0], 1000)
    if d > 3:
        raise ValueError(f"Expected at most three columns for {name!r}, found {d}. Use 'stumps', or pass a callable.")
    if name == "boxes":
        return Boxes(tuple(low), tuple(high), (1000, 50, 15)[d - 1])
    reach = math.hypot(*(max(abs(a), abs(b)) for a, b in zip(low, high)))
    return Separators(d, (1, 90, 500)[d - 1], 201, reach)

