"""Numbers of every kind as Python's own: what a person declares may be a NumPy number, a fraction or a decimal.

Arithmetic in another kind would change a guarantee without a word: float16 overflows at 65,504, int16 wraps around, and float32
rounds what follows from a number. So every declared number goes through here before anything is computed with it. What is no
number (text, a truth value, a length of time, a complex number) is refused.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import fields
from decimal import Decimal
from numbers import Integral, Rational, Real

LONGEST = 10**308  # whole numbers of more digits are beyond every float, and Python refuses to write very long ones out


def shown(value: object) -> str:
    """What was found, for a sentence: short, also where Python would refuse to write a number out.

    >>> shown("two"), shown(10**5000)
    ("'two'", 'a whole number of more than 308 digits')
    """
    if isinstance(value, int) and abs(value) > LONGEST:
        return "a whole number of more than 308 digits"
    try:
        text = repr(value)
    except ValueError:  # it holds such a number, as a fraction or a list may
        return "a number of too many digits"
    return text if len(text) <= 200 else f"{text[:200]}..."


def is_number(value: object) -> bool:
    """A real number of any library, and neither a truth value nor a length of time, which NumPy counts as whole.

    >>> is_number(2), is_number(Decimal("0.5")), is_number(True), is_number("2"), is_number(1j)
    (True, True, False, False, False)
    """
    if isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "f") not in "iuf":
        return False
    return isinstance(value, Real | Decimal)


def plain_number(value: object, what: str, *, whole: bool = False) -> float:
    """The same number as Python's int (whole kinds) or float (all others); only what has more bits than a float is rounded to
    the nearest one. With `whole`, a fraction or decimal that is whole becomes an int too.

    >>> plain_number(Decimal("0.5"), "share"), plain_number(7, "steps"), plain_number(Decimal(7), "steps", whole=True)
    (0.5, 7, 7)
    >>> plain_number("7", "steps")
    Traceback (most recent call last):
    ValueError: Expected a number for steps, found '7'. Pass an int or a float.
    """
    if type(value) is float:
        return value
    if not is_number(value):
        raise ValueError(f"Expected a number for {what}, found {shown(value)}. Pass an int or a float.")
    try:
        near = float(value)  # type: ignore[arg-type]
        nothing = near == 0 and value != 0
        beyond = math.isinf(near) and value not in (math.inf, -math.inf)
        counted = isinstance(value, Integral) or (whole and isinstance(value, Rational | Decimal) and value == math.floor(value))
    except (OverflowError, ArithmeticError, ValueError):  # beyond every float, or a decimal that signals
        nothing, beyond, counted = False, True, False
    if nothing or beyond:
        raise ValueError(f"Expected a number for {what} that a float can hold, found {shown(value)}. Pass one nearer to 1.")
    return int(value) if counted else near  # type: ignore[call-overload]


def plain_float(value: object, what: str) -> float:
    """`plain_number` as a float.

    >>> plain_float(2, "radius")
    2.0
    """
    return float(plain_number(value, what))


def plain_whole(value: object, what: str) -> int:
    """`plain_number` of a whole kind, as an int: 2.0 is refused, as it always was.

    >>> plain_whole(Decimal(2), "steps")
    2
    """
    found = plain_number(value, what, whole=True)
    if not isinstance(found, int):
        raise ValueError(f"Expected a whole number for {what}, found {shown(value)}. Pass an int.")
    return found


def plain_wholes(values: object, what: str) -> tuple[int, ...]:
    """Several whole numbers.

    >>> plain_wholes([0, Decimal(1)], "gaps")
    (0, 1)
    """
    if not isinstance(values, Iterable):
        raise ValueError(f"Expected {what}= as a list of whole numbers, found {shown(values)}. Pass a list.")
    return tuple(plain_whole(value, what) for value in values)


def plain_pair(pair: object, what: str) -> tuple[float, float]:
    """Two numbers as floats.

    >>> plain_pair([0, Decimal(1)], "y_bounds")
    (0.0, 1.0)
    """
    ends = list(pair) if isinstance(pair, Iterable) and not isinstance(pair, str | bytes) and _has_ends(pair) else []
    if len(ends) != 2:
        raise ValueError(f"Expected {what}=(low, high), found {shown(pair)}. Pass two numbers.")
    return plain_float(ends[0], what), plain_float(ends[1], what)


def _has_ends(pair: object) -> bool:
    """An array of no dimension says that it can be iterated, and cannot."""
    return getattr(pair, "shape", (2,)) != ()


def plain_fields(declared: object, said: Collection[str] = ()) -> None:
    """Every field of a dataclass that is a number by its annotation, as a plain one in its place.

    NumPy's truth values become Python's too. A field that may be something else as well (None, a word, an object) is left alone
    where it is; so is one of `said` that is no number, of which the caller speaks in its own words. What range a number may have
    is said by whoever declares it.
    """
    for field in fields(declared):  # type: ignore[arg-type]
        kinds, value = set(str(field.type).split(" | ")), getattr(declared, field.name)
        if kinds == {"bool"} and getattr(getattr(value, "dtype", None), "kind", "") == "b":
            object.__setattr__(declared, field.name, bool(value))
        if not kinds & {"int", "float"} or value is None or (isinstance(value, str) and "str" in kinds):
            continue
        if kinds - {"int", "float", "str", "None"} and hasattr(value, "spec"):
            continue  # an object that the annotation names
        if field.name in said and not is_number(value):
            continue
        plain = plain_number(value, field.name, whole="float" not in kinds)
        if plain is not value:
            object.__setattr__(declared, field.name, plain)
