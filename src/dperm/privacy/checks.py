"""Argument checks shared by the privacy package: each raises "Expected X, found Y. Do Z."."""

from __future__ import annotations

import math
import numbers

from dperm.problem.plain import is_number, plain_float, plain_number, shown


def non_negative(name: str, value: float, *, infinite: bool = False, zero: bool = True) -> float:
    """`value` as a float when it is ≥ 0 (> 0 unless `zero` may be; and finite, unless `infinite`), else ValueError."""
    number = _read(name, value)
    if math.isnan(number) or number < 0 or (number == 0 and not zero) or (math.isinf(number) and not infinite):
        finite, sign, kind = "" if infinite else "a finite ", ">=" if zero else ">", "non-negative" if zero else "positive"
        raise ValueError(f"Expected {finite}{name} {sign} 0, found {value!r}. Pass a {kind} number.")
    return number


def positive(name: str, value: float, *, infinite: bool = False) -> float:
    """`value` as a float when it is > 0 (and finite, unless `infinite`), else ValueError."""
    return non_negative(name, value, infinite=infinite, zero=False)


def probability(name: str, value: float) -> float:
    """`value` as a float when it lies in [0, 1], else ValueError."""
    number = _read(name, value)
    if math.isnan(number) or not 0 <= number <= 1:
        raise ValueError(f"Expected {name} in [0, 1], found {value!r}. Pass a probability, e.g. {name}=1e-6.")
    return number


def whole(name: str, value: int) -> int:
    """`value` as an int when it is a whole number ≥ 1, else ValueError."""
    if not (is_number(value) and isinstance(value, numbers.Integral) and value >= 1):
        raise ValueError(f"Expected a whole number {name} >= 1, found {shown(value)}. Pass an int.")
    return int(plain_number(value, name))


def _read(name: str, value: object) -> float:
    """A number of any kind as a float; records write infinities as words."""
    return float(value) if isinstance(value, str) and value in ("inf", "-inf") else plain_float(value, name)
