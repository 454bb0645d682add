"""The inverse of a risk bound: the n, or the ε, at which it meets a target."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq

from dperm.theory.checks import ConditionError, positive

LARGEST_SAMPLE = 2**60


class SampleSize(int):
    """An int n with its proof: `risk` at n meets the target, `risk_before` at n-1 does not.

    `risk_before` is inf where the theorem does not speak at n-1 (its condition fails, or n = 1).
    """

    n: int
    target: float
    risk: float
    risk_before: float

    def __new__(cls, n: int, target: float, risk: float, risk_before: float) -> SampleSize:
        number = super().__new__(cls, n)
        number.n, number.target, number.risk, number.risk_before = n, target, risk, risk_before
        return number

    def __reduce__(self) -> tuple[type[SampleSize], tuple[int, float, float, float]]:
        return SampleSize, (self.n, self.target, self.risk, self.risk_before)


def _spoken(risk_function: Callable[..., float], **numbers: object) -> float:
    """The risk; infinite where the theorem does not speak yet."""
    try:
        return float(risk_function(**numbers))
    except ConditionError:
        return math.inf


def sample_size(risk_function: Callable[..., float], target: float, **fixed: object) -> SampleSize:
    """min{n : risk(n, …) <= target} for a risk that falls in n, by doubling and bisection.

    The returned number carries the proof: risk(n) <= target < risk(n-1), both evaluated. For a function that
    is not monotone the same two evaluations hold, and n is one crossing among several. A `ConditionError`
    ("n too small for the theorem") counts as a failing n; every other error is the caller's and is passed
    on.

    >>> from dperm.theory import gradient_descent_risk
    >>> size = sample_size(gradient_descent_risk, 0.01, d=50, lipschitz=1, diameter=1, epsilon=1, delta=1e-6)
    >>> size, size.risk <= 0.01 < size.risk_before
    (5975, True)
    """
    goal = positive("target", target)
    if "n" in fixed:
        raise ValueError("Expected no n among the fixed arguments, found one. Drop n: it is what is asked for.")

    def risk(n: int) -> float:
        return _spoken(risk_function, n=n, **fixed)

    high, value = 1, risk(1)
    low, before = 0, math.inf
    while not value <= goal:
        if high >= LARGEST_SAMPLE:
            raise ValueError(
                f"Expected a target that the bound reaches, found risk {value:g} > {goal:g} at n = {high}. "
                "Raise the target, epsilon or the number of steps."
            )
        low, before = high, value
        high *= 2
        value = risk(high)
    while high - low > 1:
        middle = (low + high) // 2
        found = risk(middle)
        if found <= goal:
            high, value = middle, found
        else:
            low, before = middle, found
    return SampleSize(high, goal, value, before)


def required_epsilon(risk_function: Callable[..., float], target: float, *, largest: float = 1e6, **fixed: object) -> float:
    """The smallest ε (to a relative 1e-9, rounded up) with risk(epsilon=ε, …) <= target, for a risk that
    falls in ε.

    >>> from dperm.theory import exponential_erm_risk
    >>> numbers = dict(n=10**4, d=10, lipschitz=1, radius=1, convex=True)
    >>> round(required_epsilon(exponential_erm_risk, 0.004, **numbers), 6)
    1.0
    """
    goal = positive("target", target)

    def risk(epsilon: float) -> float:
        return _spoken(risk_function, epsilon=epsilon, **fixed)

    low, high = 0.0, 1e-6
    while not risk(high) <= goal:
        if high >= largest:
            raise ValueError(
                f"Expected a target that the bound reaches for epsilon <= {largest:g}, "
                f"found risk {risk(high):g} > {goal:g}. Raise the target or n."
            )
        low, high = high, min(high * 4, largest)
    guess = _crossing(risk, goal, low, high)
    for middle in () if guess is None else (guess * (1 - 4e-10), guess * (1 + 4e-10)):
        if low < middle < high:
            low, high = (low, middle) if risk(middle) <= goal else (middle, high)
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if risk(middle) <= goal else (middle, high)
    return high


def _crossing(risk: Callable[[float], float], goal: float, low: float, high: float) -> float | None:
    """Where log risk crosses log goal, by a few secants, because bounds are not cheap. None where one is no number."""
    ends = [risk(low), risk(high)] if low > 0 else [math.inf]
    if not all(math.isfinite(value) and value > 0 for value in ends) or ends[0] <= goal:
        return None
    try:
        found = brentq(lambda t: math.log(risk(math.exp(t)) / goal), math.log(low), math.log(high), xtol=1e-10, rtol=1e-12)
    except (ValueError, ArithmeticError, RuntimeError):
        return None
    return math.exp(float(found))
