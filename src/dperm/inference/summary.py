"""The table of a fit with errors, tests of several coefficients at once, and intervals of predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, chdtri, ndtr, ndtri

from dperm.inference.table import COLUMNS, Facts, Row, Tabled
from dperm.mechanisms.scaled.errors import Errors
from dperm.problem.plain import is_number, plain_float, shown
from dperm.words.wording import in_percent, printable

Vector = NDArray[np.float64]
ON_LOGARITHM = "ratios with their intervals, beside the standard errors and z of their logarithms"


def reach(level: float) -> float:
    """How many standard errors an interval of this level goes to each side.

    >>> round(reach(0.95), 3)
    1.96
    """
    if not (is_number(level) and 0 < plain_float(level, "level") < 1):
        raise ValueError(f"Expected 0 < level < 1, found {shown(level)}. Pass e.g. 0.95.")
    return float(ndtri((1 + plain_float(level, "level")) / 2))


@dataclass(frozen=True)
class JointTest:
    """Wald's test that several coefficients are 0 together: statistic b'Σ⁻¹b, which is χ² with `degrees` degrees if they are."""

    names: tuple[str, ...]
    statistic: float
    degrees: int
    p: float

    def __str__(self) -> str:
        names = ", ".join(map(printable, self.names))
        return f"{names} all 0: chi² = {self.statistic:.4g} with {self.degrees} degrees, p = {self.p:.3g}"


@dataclass(frozen=True, eq=False)
class Region:
    """All values of several coefficients that the data do not rule out together: (b - centre)' matrix⁻¹ (b - centre) ≤ radius².

    Where columns are nearly collinear, single intervals are wide and say little; the region is long in the direction that the
    data cannot tell and narrow across it.

    names    of the coefficients, in the order of `centre`
    matrix   covariance of the estimates, sampling and privacy noise together
    radius   root of the χ² quantile with as many degrees as there are names
    """

    names: tuple[str, ...]
    centre: Vector
    matrix: Vector
    radius: float
    level: float

    def __contains__(self, values: object) -> bool:
        """Whether these values of the coefficients, in the order of `names`, are in the region."""
        point = np.asarray(values, dtype=np.float64)
        if point.shape != self.centre.shape:
            raise ValueError(f"Expected {len(self.centre)} values, one for each of the names, found shape {point.shape}.")
        away = point - self.centre
        return bool(away @ np.linalg.solve(self.matrix, away) <= self.radius**2)

    def axes(self) -> tuple[Vector, Vector]:
        """(half lengths, directions in rows), the longest first: what the data tell worst, and best."""
        values, vectors = np.linalg.eigh(self.matrix)
        return self.radius * np.sqrt(np.maximum(values[::-1], 0.0)), np.asarray(vectors[:, ::-1].T)

    def interval(self, weights: ArrayLike) -> tuple[float, float]:
        """Ends of the combination Σ weight·coefficient over the region: they hold for all combinations at once (Scheffé)."""
        combination = np.asarray(weights, dtype=np.float64)
        middle, half = float(combination @ self.centre), self.radius * float(np.sqrt(combination @ self.matrix @ combination))
        return middle - half, middle + half

    def __str__(self) -> str:
        lengths, directions = self.axes()
        lines = [f"{in_percent(self.level)} region of {', '.join(map(printable, self.names))}; its axes, the longest first:"]
        for length, direction in zip(lengths, directions):
            parts = " ".join(f"{part:+.3g}·{printable(name)}" for part, name in zip(direction, self.names))
            low, high = self.interval(direction)
            lines.append(f"  {parts}: {(low + high) / 2:.4g} ± {length:.3g}")
        return "\n".join(lines)


@dataclass(frozen=True, repr=False)
class Summary(Tabled):
    """One line per coefficient, in the units of `coef_`, the intercept last.

    With `exponentiated`, estimates and intervals are ratios (odds ratios, rate ratios); errors stay on the logarithm's scale.
    `note` says what the estimates are of. `classes` are those that a fit of several compares with its first one: their lines
    follow each other, and a column's name stands for all of them in a joint test.
    """

    names: tuple[str, ...]
    errors: Errors
    level: float
    note: str
    exponentiated: bool = False
    classes: tuple[str, ...] = ()
    title: str = ""
    facts: Facts = ()

    @property
    def estimate(self) -> Vector:
        return np.exp(self.errors.estimate) if self.exponentiated else self.errors.estimate

    @property
    def sampling_error(self) -> Vector:
        """Standard error from the sampling of the rows alone."""
        return np.sqrt(self.errors.variances()[0])

    @property
    def privacy_error(self) -> Vector:
        """Standard error from the privacy noise alone."""
        return np.sqrt(self.errors.variances()[1])

    @property
    def standard_error(self) -> Vector:
        """Of both together."""
        return np.hypot(self.sampling_error, self.privacy_error)

    @property
    def z(self) -> Vector:
        return self.errors.estimate / self.standard_error

    @property
    def p(self) -> Vector:
        """Two-sided p-value of a coefficient of 0."""
        return np.asarray(2 * ndtr(-np.abs(self.z)))

    @property
    def interval(self) -> Vector:
        """(low, high) per coefficient."""
        width = reach(self.level) * self.standard_error
        ends = np.column_stack([self.errors.estimate - width, self.errors.estimate + width])
        return np.exp(ends) if self.exponentiated else ends

    def joint_test(self, chosen: Sequence[str]) -> JointTest:
        """Wald's test that all chosen coefficients are 0; the name of a column with levels stands for all of them."""
        places = self._places(chosen)
        few = self.errors.mapped(np.eye(len(self.names))[places])
        statistic = float(few.estimate @ np.linalg.solve(few.covariance(), few.estimate))
        names = tuple(self.names[j] for j in places)
        return JointTest(names, statistic, len(places), float(chdtrc(len(places), statistic)))

    def region(self, chosen: Sequence[str] | None = None) -> Region:
        """The confidence region of the chosen coefficients at this table's level, or of all of them, on the scale of the
        estimates before they are exponentiated."""
        places = list(range(len(self.names))) if chosen is None else self._places(chosen)
        few = self.errors.mapped(np.eye(len(self.names))[places])
        radius = math.sqrt(float(chdtri(len(places), 1.0 - self.level)))
        return Region(tuple(self.names[j] for j in places), few.estimate, few.covariance(), radius, self.level)

    def _places(self, chosen: Sequence[str]) -> list[int]:
        """Which lines the words mean."""
        wanted = [chosen] if isinstance(chosen, str) else list(chosen)
        places: list[int] = []
        for word in wanted:
            # A column may be called "a=b": its own name goes before the levels of a column "a".
            ways = [[j for j in range(len(self.names)) if self._is_called(j, word, of_level)] for of_level in (False, True)]
            found = ways[0] or ways[1]
            if not found:
                known = ", ".join(map(printable, self.names[:20]))
                raise ValueError(f"Expected names of coefficients, found {word!r}. Names: {known}.")
            places += [j for j in found if j not in places]
        if not places:
            raise ValueError("Expected names of coefficients, found none. Pass at least one.")
        return places

    def _is_called(self, place: int, word: str, of_level: bool) -> bool:
        """Whether a word means this line: its name, or its column's; with several classes either without the class."""
        name = self.names[place]
        own = [name]
        if self.classes:
            label = self.classes[place * len(self.classes) // len(self.names)]
            own.append(name.removeprefix(f"{label}: "))
        return any(one.startswith(f"{word}=") if of_level else one == word for one in own)

    def rows(self) -> list[Row]:
        columns = {key: getattr(self, key) for key, _, _ in COLUMNS}
        columns["low"], columns["high"] = self.interval.T
        return [{"name": name} | {key: float(values[j]) for key, values in columns.items()} for j, name in enumerate(self.names)]

    def _shown(self) -> tuple[str, Facts, Sequence[Row], float, str]:
        title = f"{self.title}: ratios".removeprefix(": ") if self.exponentiated else self.title
        note = f"{self.note}; {ON_LOGARITHM}" if self.exponentiated else self.note
        return title, self.facts, self.rows(), self.level, note

    @property
    def _heading(self) -> str:
        return "ratio" if self.exponentiated else "coef"
