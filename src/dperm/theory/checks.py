"""Conditions of the theorems, as functions that either return the value or raise a sentence naming the
condition.
"""

from __future__ import annotations

import math

from dperm.privacy.relations import kappa


class ConditionError(ValueError):
    """A theorem's own condition fails at these numbers (typically: n is still too small).

    Kept apart from a plain `ValueError` (a nonsensical argument) so that `sample_size` can read
    "the theorem does not speak yet at this n" as "this n fails" without hiding a mistyped argument.
    """


def _finite(value: float) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def positive(name: str, value: float) -> float:
    """Return `value` if it is a finite number > 0.

    >>> positive("epsilon", 1)
    1.0
    >>> positive("epsilon", -1)
    Traceback (most recent call last):
        ...
    ValueError: Expected epsilon > 0, found -1. Pass a positive number for epsilon.
    """
    value = _scalar(value)
    if not _finite(value) or value <= 0:
        raise ValueError(f"Expected {name} > 0, found {value}. Pass a positive number for {name}.")
    return float(value)


def non_negative(name: str, value: float) -> float:
    """Return `value` if it is a finite number >= 0."""
    value = _scalar(value)
    if not _finite(value) or value < 0:
        raise ValueError(f"Expected {name} >= 0, found {value}. Pass a number that is not negative for {name}.")
    return float(value)


def count(name: str, value: float) -> int:
    """Return `value` as an int if it is a whole number >= 1 (a float such as 1e4 is accepted).

    >>> count("n", 1e4)
    10000
    """
    value = _scalar(value)
    if not _finite(value) or value < 1 or value != int(value):
        raise ValueError(f"Expected a whole number {name} >= 1, found {value}. Pass a positive count for {name}.")
    return int(value)


def fraction(name: str, value: float) -> float:
    """Return `value` if it lies strictly between 0 and 1."""
    value = _scalar(value)
    if not _finite(value) or not 0 < value < 1:
        raise ValueError(f"Expected 0 < {name} < 1, found {value}. Pass {name} strictly between 0 and 1.")
    return float(value)


def relation_factor(relation: str) -> int:
    """κ: 2 for replace-one, 1 for zero-out and add-remove (the factor of a sum of vectors)."""
    return kappa(relation)


def printed_relation(relation: str) -> None:
    """The lectures know one relation, replace-one; their printed constants mean nothing for another."""
    if relation_factor(relation) != 2:
        raise ValueError(
            f"Expected relation='replace-one' with as_printed=True, found {relation!r}. "
            "Drop as_printed to get the corrected constant for this relation."
        )


def diameter_of(radius: float | None, diameter: float | None) -> float:
    """diam(C) from exactly one of: the radius of a ball (diam = 2 radius), the diameter of any convex set.

    >>> diameter_of(1.0, None), diameter_of(None, 3.0)
    (2.0, 3.0)
    """
    if (radius is None) == (diameter is None):
        raise ValueError(
            f"Expected exactly one of radius and diameter, found radius={radius}, diameter={diameter}. "
            "Pass radius= for a ball, or diameter= for any convex set."
        )
    if radius is not None:
        return 2.0 * positive("radius", radius)
    assert diameter is not None
    return positive("diameter", diameter)


def _scalar(value: float) -> float:
    """Numpy scalars become Python numbers; anything else that is no number becomes a clear error."""
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise ValueError(f"Expected a number, found {value!r}. Pass an int or a float.")
    return value.item() if hasattr(value, "item") else value
