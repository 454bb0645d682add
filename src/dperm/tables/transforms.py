"""Column transforms as public facts: parts of a date, text hashed into k levels, bins between declared edges.

| declared                                          | becomes                                                          |
|---------------------------------------------------|------------------------------------------------------------------|
| {"type": "datetime", "parts": ["month", "hour"]}  | a choice per part; "year" is a number from low to high           |
| {"type": "categorical", "hash": 64}               | a choice of 64 levels: what a fixed public hash makes of the cell |
| {"type": "numeric", "low": .., "high": .., "bins": 10} | a choice of 10 bins of equal width; or "bins": [edges]      |
| {"type": "numeric", "low": 1, "high": 1000, "log": true} | its logarithm; cells below low count as low                 |
| {"type": "numeric", "low": .., "high": .., "shape": "steps"}  | a choice of 16 bins of equal width (of the logarithm)  |
| {"type": "numeric", "low": .., "high": .., "shape": "smooth"} | the number, and 9 hat functions between its bounds     |

**Guarantee**: what a cell becomes depends on that cell and on the declaration. The names of the features say what was done,
"month(when)=3", "hash(street)=17", "bins(age)=[20, 30)", so that a certificate states it.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dperm.tables.cells import each_cell, key, numbers, plain
from dperm.tables.containers import column
from dperm.tables.looks import EPOCH, moment
from dperm.words.spelling import closest, finite

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DATE_PARTS: dict[str, tuple[str, ...]] = {
    "year": (),  # a number
    "month": tuple(str(month) for month in range(1, 13)),
    "weekday": WEEKDAYS,
    "hour": tuple(str(hour) for hour in range(24)),
}
MOST_HASHED = 100_000
STEPS = 16  # bins of a column whose shape is "steps", where their number is not declared
KNOTS = 9  # of a column whose shape is "smooth"
MOST_BINS = 1_000
# Of the types of datetime64 whose text is a date: how many of their steps are a day.
UNITS_A_DAY = {(unit, 1): a_day for unit, a_day in [("D", 1), ("h", 24), ("m", 1440), ("s", 86_400)]}
UNITS_A_DAY |= {(unit, 1): 86_400 * parts for unit, parts in [("ms", 10**3), ("us", 10**6), ("ns", 10**9)]}
FIRST_DAY, LAST_DAY = (datetime.date(year, *day).toordinal() - EPOCH.toordinal() for year, *day in [(1, 1, 1), (9999, 12, 31)])


class Reader(Protocol):
    """From a column of cells to numbers: the place of a level (-1 for none), or a value (NaN for none)."""

    def __call__(self, values: object) -> NDArray[np.float64]: ...


@dataclass(frozen=True)
class Logarithm:
    """The logarithm of a number, `low` where that is smaller or does not exist; NaN where the cell is no number.

    >>> Logarithm(0.0)(["1", "0", "-3", "many"]).tolist()
    [0.0, 0.0, 0.0, nan]
    """

    low: float

    def __call__(self, values: object) -> NDArray[np.float64]:
        raw = np.asarray(numbers(values), dtype=np.float64)
        known = np.isfinite(raw)
        return np.where(known, np.maximum(np.log(np.where(known & (raw > 0), raw, 1e-300)), self.low), np.nan)


@dataclass(frozen=True)
class DatePart:
    """The year of a date, or the place of its month, weekday or hour among `DATE_PARTS`; NaN or -1 where the cell is no date.

    >>> DatePart("weekday")(["2020-01-01", "soon"]).tolist(), DatePart("hour")(["2020-01-01 17:30"]).tolist()
    ([2.0, -1.0], [17.0])
    """

    part: str

    @property
    def absent(self) -> float:
        return np.nan if self.part == "year" else -1.0

    def read(self, cell: object) -> float:
        found = moment(cell)
        if found is None:
            return self.absent
        return float({"year": found.year, "month": found.month - 1, "weekday": found.weekday(), "hour": found.hour}[self.part])

    def __call__(self, values: object) -> NDArray[np.float64]:
        array = column(values)
        if array.dtype.kind == "M" and np.datetime_data(array.dtype) in UNITS_A_DAY:
            return self._of_dates(array)
        return each_cell(array, self.read, np.float64)

    def _of_dates(self, array: np.ndarray) -> NDArray[np.float64]:
        """The same of an array of dates, without a text for every cell: days count from a Thursday.

        Days are counted in whole numbers: NumPy's own conversion wraps around on the first day that a type can say, and the hour
        of `pd.Timestamp.min` would be the 47th.
        """
        a_day = UNITS_A_DAY[np.datetime_data(array.dtype)]
        days, since = np.divmod(array.astype(np.int64), a_day)
        known = ~np.isnat(array) & (days >= FIRST_DAY) & (days <= LAST_DAY)
        days = np.where(known, days, 0)
        dates = days.astype("datetime64[D]")
        number = {
            "year": dates.astype("datetime64[Y]").astype(np.int64) + 1970,
            "month": dates.astype("datetime64[M]").astype(np.int64) % 12,
            "weekday": (days + 3) % 7,
            "hour": since * 24 // a_day,
        }[self.part]
        return np.where(known, number, self.absent)


@dataclass(frozen=True)
class Hashed:
    """Which of `levels` places the public hash of a cell is; -1 for a missing cell. Cells that are equal as levels are one.

    >>> Hashed(8)(["7", 7.0, "Main Street", None]).tolist()
    [1.0, 1.0, 4.0, -1.0]
    """

    levels: int

    def read(self, cell: object) -> float:
        found = key(plain(cell))
        if found is None:
            return -1.0
        digest = hashlib.blake2b(str(found).encode(), digest_size=8, person=b"dperm-hash").digest()
        return float(int.from_bytes(digest, "big") % self.levels)

    def __call__(self, values: object) -> NDArray[np.float64]:
        return each_cell(column(values), self.read, np.float64)


@dataclass(frozen=True)
class Binned:
    """The place of a number between edges; what lies outside belongs to the outermost bin, a cell that is no number to none.

    >>> Binned((0.0, 10.0, 20.0))([-5, 3, 10, 25, "x"]).tolist()
    [0.0, 0.0, 1.0, 1.0, -1.0]
    """

    edges: tuple[float, ...]

    def __call__(self, values: object) -> NDArray[np.float64]:
        found = numbers(values)
        known = np.isfinite(found)
        place = np.searchsorted(np.array(self.edges[1:-1]), np.where(known, found, 0.0), side="right")
        return np.where(known, place, -1.0)


@dataclass(frozen=True)
class Hats:
    """max(0, 1 - |u - k|) at k = 0 … 8, u in [0, 8] the place of a number between its bounds: a piecewise linear curve.

    At most two of them are above 0 and they add up to 1, so their norm is at most 1, as that of a level of a choice. A cell that
    is no number has none of them, or those of `missing` where that is declared.

    >>> Hats(0.0, 8.0)(["2.25", 9, "x"])[:, [2, 3, 8]].tolist()
    [[0.75, 0.25, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """

    low: float
    high: float
    log: bool = False
    missing: float | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The knots, in the units of the column."""
        knots = np.linspace(self.low, self.high, KNOTS)
        return tuple(f"{knot:.10g}" for knot in (np.exp(knots) if self.log else knots))

    def __call__(self, values: object) -> NDArray[np.float64]:
        raw = np.asarray((Logarithm(self.low) if self.log else numbers)(values), dtype=np.float64)
        if self.missing is not None:
            raw = np.where(np.isfinite(raw), raw, self.missing)
        known = np.isfinite(raw)
        u = (np.clip(np.where(known, raw, self.low), self.low, self.high) - self.low) / (self.high - self.low) * (KNOTS - 1)
        hats = np.maximum(0.0, 1.0 - np.abs(u[:, None] - np.arange(KNOTS)))
        return np.where(known[:, None], hats, 0.0)


def bin_edges(bins: object, low: float | None, high: float | None, where: str) -> tuple[float, ...]:
    """Edges from a number of bins between the declared bounds, or from a list of them."""
    if isinstance(bins, int) and not isinstance(bins, bool) and 2 <= bins <= MOST_BINS and low is not None and high is not None:
        return tuple(float(edge) for edge in np.linspace(low, high, bins + 1))
    listed = list(bins) if isinstance(bins, Sequence) and not isinstance(bins, str) else []
    rising = all(finite(edge) for edge in listed) and all(a < b for a, b in itertools.pairwise(listed))
    if not rising or not 3 <= len(listed) <= MOST_BINS + 1:
        raise ValueError(
            f"Expected bins of {where} as a whole number from 2 to {MOST_BINS}, or a list of at least three rising edges, found "
            'something else. Write e.g. "bins": 10, or "bins": [0, 18, 65, 120].'
        )
    return tuple(float(edge) for edge in listed)


def bin_names(edges: tuple[float, ...]) -> tuple[str, ...]:
    """>>> bin_names((0.0, 18.0, 65.0))
    ('[0, 18)', '[18, 65]')
    """
    pairs = list(itertools.pairwise(edges))
    texts = [f"[{a:.10g}, {b:.10g}" for a, b in pairs]
    return tuple(text + ("]" if place == len(pairs) - 1 else ")") for place, text in enumerate(texts))


def check_parts(parts: object, where: str) -> tuple[str, ...]:
    """Parts of a date as the schema lists them, in the order of `DATE_PARTS`."""
    known = tuple(DATE_PARTS)
    listed = [parts] if isinstance(parts, str) else list(parts) if isinstance(parts, list | tuple) else []
    if not listed or len(set(map(str, listed))) != len(listed) or any(part not in known for part in listed):
        wrong = next((str(part)[:40] for part in listed if part not in known), "")
        raise ValueError(
            f"Expected parts of {where} among {', '.join(known)}, each once, found another list.{closest(wrong, known)} "
            'Write e.g. "parts": ["month", "weekday"].'
        )
    return tuple(part for part in known if part in listed)


def check_hash(levels: object, where: str) -> int:
    if not isinstance(levels, int) or isinstance(levels, bool) or not 2 <= levels <= MOST_HASHED:
        raise ValueError(
            f"Expected hash of {where} as a number of levels from 2 to {MOST_HASHED}, found something else. Write e.g. 64."
        )
    return levels
