"""Conditions of the theorems, as functions that either return the value or raise a sentence naming the
condition.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from numbers import Integral
from typing import Any, Final, ParamSpec, TypeVar

import numpy as np

from dperm.privacy.relations import kappa
from dperm.problem.plain import is_number, plain_number, shown

P = ParamSpec("P")
R = TypeVar("R")


class ConditionError(ValueError):
    """A theorem's own condition fails at these numbers (typically: n is still too small).

    Kept apart from a plain `ValueError` (a nonsensical argument) so that `sample_size` can read
    "the theorem does not speak yet at this n" as "this n fails" without hiding a mistyped argument.
    """


def theorem(function: Callable[P, R]) -> Callable[P, R]:
    """Check what every theorem shares: numbers are numbers, switches are switches, and the value is finite.

    The annotations say which is which, and the name of a number its range (`RANGES`). Conditions stay with the theorem; numbers
    so extreme that the arithmetic leaves the floating-point range end in a sentence instead of an infinity or a division by zero.

    >>> @theorem
    ... def half(n: float, rounded: bool = False) -> float:
    ...     return n * 1e308 / 2
    >>> half("two")
    Traceback (most recent call last):
        ...
    ValueError: Expected a number for n, found 'two'. Pass an int or a float.
    >>> half(1, rounded="no")
    Traceback (most recent call last):
        ...
    ValueError: Expected True or False for rounded, found 'no'. Pass one of them.
    >>> half(10)
    Traceback (most recent call last):
        ...
    ValueError: Expected numbers that keep half within the floating-point range, found n=10. Pass less extreme ones.
    """
    signature = inspect.signature(function)
    kinds = {name: str(parameter.annotation).split(" | ") for name, parameter in signature.parameters.items()}
    ranges = {name: RANGES.get(f"{function.__name__}.{name}", RANGES[name]) for name in kinds if name in RANGES}

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        given = signature.bind(*args, **kwargs)
        for name, value in given.arguments.items():
            given.arguments[name] = _plain(name, value, kinds[name])
        try:
            for name, ranged in ranges.items():
                if given.arguments.get(name) is not None:
                    given.arguments[name] = ranged(name, given.arguments[name])
            with np.errstate(over="ignore", invalid="ignore"):  # inside root finders; the value itself is checked below
                value = function(*given.args, **given.kwargs)
        except (ArithmeticError, RuntimeError, ValueError) as error:
            # our own sentences pass; math, and root finders that found no sign change, speak of the arithmetic only
            if isinstance(error, ValueError) and str(error).startswith("Expected"):
                raise
            raise ValueError(_extreme(function.__name__, given.arguments)) from error
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(_extreme(function.__name__, given.arguments))
        return value

    return checked


def _plain(name: str, value: object, kinds: list[str]) -> object:
    """The argument as a Python number, switch or word of the annotated kind."""
    if value is None and "None" in kinds:
        return None
    if "bool" in kinds:
        if type(value).__name__ not in ("bool", "bool_"):
            raise ValueError(f"Expected True or False for {name}, found {value!r}. Pass one of them.")
        return bool(value)
    if "float" in kinds:
        return _scalar(value, name)
    if "str" in kinds and not isinstance(value, str):
        raise ValueError(f"Expected a word for {name}, found {value!r}. Pass a str.")
    return value


def _extreme(name: str, arguments: dict[str, object]) -> str:
    shown = ", ".join(
        f"{key}={value:.3g}" if isinstance(value, float) else f"{key}={_brief(value)}" for key, value in arguments.items()
    )
    return f"Expected numbers that keep {name} within the floating-point range, found {shown}. Pass less extreme ones."


def _brief(value: object) -> str:
    return f"2**{value.bit_length() - 1}" if isinstance(value, int) and abs(value) > 10**15 else str(value)


def _checked(value: object, holds: Callable[[float], bool], expected: str, wanted: str) -> float:
    """The number, if it is finite (a whole one of any size is) and in its range."""
    number = _scalar(value)
    if not (isinstance(number, int) or math.isfinite(number)) or not holds(number):
        raise ValueError(f"Expected {expected}, found {number}. Pass {wanted}.")
    return number


def positive(name: str, value: float) -> float:
    """Return `value` if it is a finite number > 0.

    >>> positive("epsilon", 1)
    1.0
    >>> positive("epsilon", -1)
    Traceback (most recent call last):
        ...
    ValueError: Expected epsilon > 0, found -1. Pass a positive number for epsilon.
    """
    return float(_checked(value, lambda found: found > 0, f"{name} > 0", f"a positive number for {name}"))


def non_negative(name: str, value: float) -> float:
    """Return `value` if it is a finite number >= 0."""
    return float(_checked(value, lambda found: found >= 0, f"{name} >= 0", f"a number that is not negative for {name}"))


def count(name: str, value: float) -> int:
    """Return `value` as an int if it is a whole number >= 1 (a float such as 1e4 is accepted).

    >>> count("n", 1e4)
    10000
    """
    def counts(found: float) -> bool:
        return found >= 1 and found == int(found)

    return int(_checked(value, counts, f"a whole number {name} >= 1", f"a positive count for {name}"))


def fraction(name: str, value: float) -> float:
    """Return `value` if it lies strictly between 0 and 1."""
    return float(_checked(value, lambda found: 0 < found < 1, f"0 < {name} < 1", f"{name} strictly between 0 and 1"))


# What a number may be, by its name: a theorem gets whole numbers as int and all others as float. A theorem in which a name has
# another range is named with it.
RANGES: Final[dict[str, Callable[[str, Any], float]]] = {
    **dict.fromkeys(("n", "d", "hypotheses", "steps", "count", "rank", "phases", "classes"), count),
    **dict.fromkeys(("epsilon", "lipschitz", "strong_convexity", "smoothness", "radius", "diameter", "step_size", "r"), positive),
    **dict.fromkeys(("sensitivity", "gap", "rho", "noise", "self_bounding", "loss_range", "reach", "slack"), positive),
    **dict.fromkeys(("x_norm", "half_width"), positive),
    **dict.fromkeys(("delta", "alpha", "beta", "uniform_share"), fraction),
    **dict.fromkeys(("tolerance", "seminorm", "parameter_radius", "intercept", "loss"), non_negative),
    "lower_bound.delta": non_negative,
    "phased_sgd_plan.smoothness": non_negative,
    "phased_sgd_risk.smoothness": non_negative,
    "projected_gradient_risk.noise": non_negative,
}


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


def declared_diameter(radius: float | None, diameter: float | None) -> float:
    """diam(C) from exactly one of: the radius of a ball (diam = 2 radius), the diameter of any convex set.

    >>> declared_diameter(1.0, None), declared_diameter(None, 3.0)
    (2.0, 3.0)
    """
    if (radius is None) == (diameter is None):
        raise ValueError(
            f"Expected exactly one of radius and diameter, found radius={radius}, diameter={diameter}. "
            "Pass radius= for a ball, or diameter= for any convex set."
        )
    return 2.0 * radius if radius is not None else float(diameter or 0.0)


def _scalar(value: object, name: str = "") -> float:
    """Numbers of every kind become Python's, whole ones of any size; anything else that is no number becomes a clear error."""
    plain = value.reshape(-1)[0] if isinstance(value, np.ndarray) and value.size == 1 else value
    if not is_number(plain):
        raise ValueError(f"Expected a number{' for ' + name if name else ''}, found {shown(value)}. Pass an int or a float.")
    return int(plain) if isinstance(plain, Integral) else plain_number(plain, name or "a theorem")
