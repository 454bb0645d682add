"""Plain JSON forms of declarations: infinities become the words "inf" and "-inf", tuples become lists.

Strict JSON has no infinity, and a certificate that another language cannot parse proves nothing there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from typing import Any, ClassVar, TypeVar

from dperm.problem.plain import is_number, plain_float, plain_number, shown

Spec = dict[str, Any]
Kind = TypeVar("Kind")


def encode(value: object) -> object:
    """JSON form of a number, text, sequence or anything with a ``spec()``.

    >>> encode((1.0, float("inf")))
    [1.0, 'inf']
    """
    if hasattr(value, "spec"):
        return value.spec()
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    return value


def number(value: object, what: str = "a number") -> float:
    """A number of any kind as a float, reading "inf" back; NaN and non-numbers are refused.

    >>> number("inf"), number(2)
    (inf, 2.0)
    """
    if isinstance(value, str) and value in ("inf", "-inf"):  # as records have it
        return float(value)
    if not is_number(value):
        raise ValueError(f"Expected {what} to be a number, found {shown(value)}. Pass a float.")
    result = plain_float(value, what)
    if math.isnan(result):
        raise ValueError(f"Expected {what} to be a number, found NaN. Pass a float.")
    return result


def positive(value: object, what: str) -> float:
    """A finite number > 0.

    >>> positive(2, "radius")
    2.0
    """
    result = number(value, what)
    if not 0 < result < math.inf:
        raise ValueError(f"Expected {what} > 0 and finite, found {result:g}. Pass a positive {what}.")
    return result


def non_negative(value: object, what: str) -> float:
    """A finite number >= 0.

    >>> non_negative(0, "strength")
    0.0
    """
    result = number(value, what)
    if not 0 <= result < math.inf:
        raise ValueError(f"Expected {what} >= 0 and finite, found {result:g}. Pass a non-negative {what}.")
    return result


def count(value: object, what: str, least: int = 1) -> int:
    """A whole number of any kind, at least so large.

    >>> count(3.0, "classes", 2)
    3
    """
    found = plain_number(value, what)
    if not (least <= found < math.inf and found == int(found)):
        raise ValueError(f"Expected {what} >= {least}, a whole number, found {shown(value)}. Pass an int.")
    return int(found)


def product(first: float, second: float) -> float:
    """first·second with 0·inf = 0: a bound on a product whose one factor is always zero.

    >>> product(0.0, float("inf"))
    0.0
    """
    return 0.0 if first == 0 or second == 0 else first * second


def vector(value: object, what: str) -> tuple[float, ...]:
    """A tuple of numbers from any one-dimensional sequence or array.

    >>> vector([1, 2], "normal")
    (1.0, 2.0)
    """
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise ValueError(f"Expected {what} to be a sequence of numbers, found {shown(value)}. Pass a list.")
    result = tuple(number(item, what) for item in value)
    if not result:
        raise ValueError(f"Expected {what} to have at least one entry, found none. Pass one per column.")
    return result


class Stated:
    """A dataclass that can be written down."""

    def spec(self) -> Spec:
        """Every field in JSON form."""
        return {f.name: encode(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]


class Named(Stated):
    """Something that is declared by a name and parameters, which a dataclass has as fields: checked by what they are called."""

    name: ClassVar[str]

    def __post_init__(self) -> None:
        for parameter in fields(self):  # type: ignore[arg-type]
            if parameter.name in CHECKS:
                found = CHECKS[parameter.name](getattr(self, parameter.name), parameter.name)
                object.__setattr__(self, parameter.name, found)

    def spec(self) -> Spec:
        """JSON form: name and parameters."""
        return {"name": self.name, **super().spec()}


CHECKS: dict[str, Callable[[object, str], float]] = {
    **dict.fromkeys(("factor", "radius", "scale", "threshold", "width"), positive),
    **dict.fromkeys(("lasso", "ridge", "strength"), non_negative),
}


def split(spec: object, what: str, known: Collection[str]) -> tuple[str, Spec]:
    """The name and the parameters of a spec; unknown names are refused with the list of known ones."""
    if not isinstance(spec, Mapping) or "name" not in spec:
        raise ValueError(f"Expected a {what} spec with a name, found {spec!r}. Pass the result of spec().")
    name = spec["name"]
    if name not in known:
        raise ValueError(f"Expected a {what} among {sorted(known)}, found {name!r}. Choose one of them.")
    return str(name), {key: item for key, item in spec.items() if key != "name"}


def built(kinds: Mapping[str, type[Kind]], name: str, parameters: Spec) -> Kind:
    """An instance of the kind of that name; other parameters than its own are refused."""
    try:
        return kinds[name](**parameters)
    except TypeError as error:
        raise ValueError(f"Expected the parameters of {name}, found {encode(parameters)} ({error}). Use spec().") from None
