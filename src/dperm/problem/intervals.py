"""Closed intervals and the bounds that a loss declares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dperm.problem.specs import Stated, encode, number


@dataclass(frozen=True)
class Interval:
    """[low, high], a declared range of a label; infinite ends are allowed and mean "not declared".

    radius = max(|low|, |high|), width = high - low.

    Parameters
    ----------
    low : float
        Lower end.
    high : float
        Upper end.

    Examples
    --------
    >>> Interval(-1, 3).radius, Interval(-1, 3).width
    (3.0, 4.0)
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", number(self.low, "low"))
        object.__setattr__(self, "high", number(self.high, "high"))
        if not self.low <= self.high or self.low == math.inf or self.high == -math.inf:
            raise ValueError(f"Expected low <= high, found [{self.low:g}, {self.high:g}]. Swap the two ends.")

    @property
    def radius(self) -> float:
        """max(|low|, |high|).

        >>> Interval(-2, 1).radius
        2.0
        """
        return max(abs(self.low), abs(self.high))

    @property
    def width(self) -> float:
        """high - low.

        >>> Interval(-2, 1).width
        3.0
        """
        return self.high - self.low

    def clip(self, value: float) -> float:
        """The point of the interval nearest to value.

        >>> Interval(1, 2).clip(0.0)
        1.0
        """
        return min(max(value, self.low), self.high)

    def includes(self, other: Interval) -> bool:
        """Whether other ⊆ self.

        >>> Interval(0, 3).includes(Interval(1, 2))
        True
        """
        return self.low <= other.low and other.high <= self.high

    def spec(self) -> list[object]:
        """[low, high] in JSON form.

        >>> Interval(0, float("inf")).spec()
        [0.0, 'inf']
        """
        return [encode(self.low), encode(self.high)]

    @classmethod
    def from_spec(cls, spec: Sequence[float]) -> Interval:
        """The interval whose spec() is given.

        >>> Interval.from_spec([0.0, "inf"])
        Interval(low=0.0, high=inf)
        """
        low, high = spec
        return cls(low, high)


@dataclass(frozen=True)
class LossBounds(Stated):
    """Suprema over |z| <= z_max and y in the declared interval; ``math.inf`` where there is none.

    range      width of the smallest interval that contains 0 and every value of the loss. One record moves a
               sum of losses by at most ``range``, whether it is replaced (value - value') or zeroed out
               (value - 0).
    slope      sup |φ'(z; y)|            (L2 norm for vector margins)
    curvature  sup |φ''(z; y)|           (operator norm for vector margins; inf if φ' jumps)

    >>> LossBounds(range=1.0, slope=math.inf, curvature=math.inf).range
    1.0
    >>> LossBounds(1, 1, math.inf).spec()
    {'range': 1.0, 'slope': 1.0, 'curvature': 'inf'}
    """

    range: float
    slope: float
    curvature: float

    def __post_init__(self) -> None:
        for what in ("range", "slope", "curvature"):
            value = number(getattr(self, what), what)
            if value < 0:
                raise ValueError(f"Expected {what} >= 0, found {value:g}. Pass the supremum of an absolute value.")
            object.__setattr__(self, what, value)
