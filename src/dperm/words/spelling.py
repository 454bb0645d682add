"""Help with typing mistakes in declarations, and checks of what came out of a file."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard, TypeVar

Value = TypeVar("Value")
MEANT = {"min": "low", "minimum": "low", "lower": "low", "max": "high", "maximum": "high", "upper": "high"}  # of other libraries
MEANT |= {"categories": "levels", "values": "levels", "labels": "classes"}


def closest(word: object, known: Iterable[str]) -> str:
    """ "Did you mean 'age'?" with a space before it, or nothing.

    >>> closest("agee", ["age", "income"])
    " Did you mean 'age'?"
    >>> closest("zebra", ["age", "income"]), closest("mdvis", ["disea", "lincome"])
    ('', '')
    >>> closest("min", ["low", "high", "missing"])
    " Did you mean 'low'?"
    """
    names = [str(name) for name in known]
    if (meant := MEANT.get(str(word).lower())) in names:
        return f" Did you mean {meant!r}?"
    found = difflib.get_close_matches(str(word)[:200], names, n=1, cutoff=0.65)
    return f" Did you mean {found[0]!r}?" if found else ""


class Spelt(dict[str, Value]):
    """A dict that helps with typing mistakes in its keys.

    >>> Spelt(age=1)["agee"]
    Traceback (most recent call last):
    KeyError: "Expected one of 'age', found 'agee'. Did you mean 'age'?"
    """

    def __missing__(self, key: object) -> Value:
        known = quoted(list(self)) if self else "no names at all"
        raise KeyError(f"Expected one of {known}, found {key!r}.{closest(str(key), self)}")


def headless(names: Iterable[str]) -> bool:
    """Whether a name is a number, as where the first line of a file is a record and was read as names.

    >>> headless(["age", "income"]), headless(["41", "low"])
    (False, True)
    """
    return any(re.fullmatch(r"[-+]?[\d.,]*\d[\d.,]*([eE][-+]?\d+)?", str(name).strip()) for name in names)


def quoted(names: Sequence[str], most: int = 30) -> str:
    """Names of columns for an error; not where they may be somebody's record."""
    if headless(names):
        return "others, some of them numbers: if the first line of a file is a record, write a line of names above it"
    return ", ".join(map(repr, names[:most]))


def scalars(values: object, what: str) -> tuple[str | int | float, ...]:
    """A list of words and finite numbers, NumPy's too, as a tuple of Python's; anything else is refused.

    >>> scalars(["a", 1], "levels")
    ('a', 1)
    """
    if not isinstance(values, list | tuple):
        raise ValueError(f'Expected a list for {what}, found {str(values)[:60]!r}. Write e.g. ["a", "b"].')
    listed: list[Any] = [value.item() if _of_numpy(value) else value for value in values]
    for value in listed:
        if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
            raise ValueError(
                f"Expected words or finite numbers in {what}, found {str(value)[:60]!r} of type {type(value).__name__}. Write a "
                "date as text, and a decimal as a number."
            )
    return tuple(listed)


def _of_numpy(value: Any) -> bool:
    """One number or truth value in a type of NumPy's: a list of a column's values has them."""
    return getattr(value, "ndim", None) == 0 and getattr(getattr(value, "dtype", None), "kind", "") in tuple("biuf")


def finite(value: object) -> TypeGuard[float]:
    """A finite number, and not a truth value.

    >>> finite(1.5), finite(True), finite("1"), finite(float("nan"))
    (True, False, False, False)
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number of more than 308 digits
        return False
