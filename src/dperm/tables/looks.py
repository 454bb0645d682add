"""What a cell looks like, when nobody has declared its column: missing, a number, a truth value, a date, or text.

As everywhere in `dperm.tables.cells`, what a cell is depends on that cell alone. What its *column* is follows from a paid count.
"""

from __future__ import annotations

import datetime
import math

import numpy as np
from numpy.typing import NDArray

from dperm.tables.cells import TRUE_FALSE, WORDS, Plain, each_cell, key, number, numbers, plain, truth_value
from dperm.tables.containers import column

MISSING, NUMBER, TRUTH, DATE, TEXT, WORD = range(6)  # a WORD is a truth value that is no number, such as "yes"
LONGEST = 200  # characters of a text that may be a level
EPOCH = datetime.datetime(1970, 1, 1)


def look(cell: object) -> int:
    """The kind of one cell. Infinities and not-a-numbers are missing, as in numeric columns.

    >>> [look(cell) for cell in (None, "1.5", True, "yes", "2020-01-02", "blue", float("inf"))]
    [0, 1, 2, 5, 3, 4, 0]
    """
    value = plain(cell)
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return TRUTH
    if not isinstance(value, str):
        return NUMBER if math.isfinite(number(value)) else MISSING
    word = value.strip().lower()
    if word in WORDS:
        return TRUTH if word in TRUE_FALSE else WORD
    found = _float(value)
    if found is not None:
        return NUMBER if math.isfinite(found) else MISSING
    return TEXT if day(value) is None else DATE


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def moment(cell: object) -> datetime.datetime | None:
    """A date, or a date with time, in ISO form, by its own clock; None where the cell is none.

    >>> moment("1970-01-03").day, moment("1970-01-01 12:00+02:00").hour, moment("3 May")
    (3, 12, None)
    """
    value = plain(cell)
    if not isinstance(value, str) or not (value[:4].isdigit() and value[4:5] == "-"):
        return None
    try:
        return datetime.datetime.fromisoformat(value).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


def day(cell: object) -> float | None:
    """Days since 1 January 1970 of a date or a date with time in ISO form; None where the cell is none.

    >>> day("1970-01-03"), day("1970-01-01 12:00"), day("3 May")
    (2.0, 0.5, None)
    """
    found = moment(cell)
    return None if found is None else (found - EPOCH).total_seconds() / 86400


def iso(days: float) -> str:
    """The date of a number of days since 1970; what no calendar has is given as the number.

    >>> iso(2.0), iso(1e9)
    ('1970-01-03', '1000000000 days after 1970')
    """
    try:
        return (EPOCH + datetime.timedelta(days=days)).date().isoformat()
    except (OverflowError, ValueError):
        return f"{days:.0f} days after 1970"


def level(cell: object) -> float | str | None:
    """What a cell is compared by as a level, or None where it can be none: missing, infinite, or longer than `LONGEST`.

    >>> level("1.0"), level(" a"), level(float("nan")), level("x" * 500)
    (1.0, ' a', None, None)
    """
    found = key(plain(cell))
    if isinstance(found, float):
        return found if math.isfinite(found) else None
    return None if found is None or len(found) > LONGEST else found


def level_name(found: float | str) -> Plain:
    """A level as a schema lists it: whole numbers without a point, text as it is.

    >>> level_name(1.0), level_name(0.5), level_name("a")
    (1, 0.5, 'a')
    """
    return int(found) if isinstance(found, float) and abs(found) < 2**53 and found.is_integer() else found


def looks(values: object) -> NDArray[np.int64]:
    """`look` of every cell."""
    array = column(values)
    if array.dtype.kind in "fiu":
        return np.where(np.isfinite(array), NUMBER, MISSING).astype(np.int64)
    return each_cell(array, look, np.int64)


def readings(values: object) -> NDArray[np.float64]:
    """One number per cell: the number that it is, the days of a date, 1 or 0 for a truth value; NaN otherwise."""
    array = column(values)
    if array.dtype.kind in "fiub":
        found = numbers(array)
        return np.where(np.isfinite(found), found, np.nan)

    def reading(cell: object) -> float:
        days = day(cell)
        value = truth_value(cell) if days is None else days
        return value if math.isfinite(value) else math.nan

    return each_cell(array, reading, np.float64)


def levels_of(values: object) -> list[float | str | None]:
    """`level` of every cell."""
    return list(each_cell(column(values), level, object))


def in_order(found: set[float | str]) -> list[float | str]:
    """Levels in one order, whatever order they were met in: numbers, then text.

    >>> in_order({"b", 2.0, "a", 1.0})
    [1.0, 2.0, 'a', 'b']
    """
    return sorted(found, key=lambda one: (isinstance(one, str), one))
