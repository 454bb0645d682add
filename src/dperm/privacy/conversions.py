"""Conversions from Rényi and concentrated privacy to (ε, δ)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np


def rdp_epsilon(alpha: float, value: float, delta: float) -> float:
    """ε = ε_α + [ln(1/δ) + (α−1)·ln(1−1/α) − ln α]/(α−1), never below 0.

    **Guarantee.** (α, ε_α)-RDP with α > 1 implies (ε, δ)-DP (Canonne, Kamath and Steinke 2020,
    Proposition 12).

    >>> round(rdp_epsilon(10.0, 0.5, 1e-5), 10)
    1.4180106368
    """
    if not alpha > 1:
        raise ValueError(f"Expected alpha > 1, found {alpha}. Pass a Rényi order above one.")
    if delta <= 0:
        return math.inf
    return max(0.0, value + math.log1p(-1 / alpha) - (math.log(delta) + math.log(alpha)) / (alpha - 1))


def rdp_log_delta(alpha: float, value: float, epsilon: float) -> float:
    """log δ = (α−1)(ε_α − ε) + (α−1)·ln(1−1/α) − ln α: the same proposition, solved for δ; never above 0.

    >>> round(math.exp(rdp_log_delta(10.0, 0.5, 1.4180106368)), 12)
    1e-05
    """
    if not alpha > 1:
        raise ValueError(f"Expected alpha > 1, found {alpha}. Pass a Rényi order above one.")
    return min(0.0, (alpha - 1) * (value - epsilon + math.log1p(-1 / alpha)) - math.log(alpha))


def minimize_order(objective: Callable[[float], float]) -> float:
    """Smallest value found of `objective(α)` over α > 1: a grid in log(α−1), then golden section.

    **Guarantee.** Every α gives a valid bound, so an imperfect minimum is loose, never wrong.

    >>> round(minimize_order(lambda alpha: (alpha - 3.0) ** 2 + 1.0), 9)
    1.0
    """
    grid = [-14.0 + 0.25 * index for index in range(180)]
    values = [objective(1 + math.exp(x)) for x in grid]
    best = int(np.argmin(values))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    smallest = values[best]
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(50):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        at_left, at_right = objective(1 + math.exp(left)), objective(1 + math.exp(right))
        smallest = min(smallest, at_left, at_right)
        low, high = (low, right) if at_left < at_right else (left, high)
    return float(smallest)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """ε = min_{α>1} αρ + [ln(1/δ) + (α−1)ln(1−1/α) − ln α]/(α−1): ρ-zCDP is (α, αρ)-RDP for every α.

    >>> round(zcdp_epsilon(0.045, 1e-5), 8)
    1.23492635
    """
    if rho == 0 or delta >= 1:
        return 0.0
    if delta <= 0 or math.isinf(rho):
        return math.inf
    return minimize_order(lambda alpha: rdp_epsilon(alpha, alpha * rho, delta))


def zcdp_delta(rho: float, epsilon: float) -> float:
    """δ = min_{α>1} exp((α−1)(αρ − ε + ln(1−1/α)))/α, the inverse of `zcdp_epsilon`.

    >>> round(zcdp_delta(0.045, 1.23492635), 10)
    1e-05
    """
    if rho == 0 or math.isinf(epsilon):
        return 0.0
    if math.isinf(rho):
        return 1.0
    return math.exp(minimize_order(lambda alpha: rdp_log_delta(alpha, alpha * rho, epsilon)))


def simple_zcdp_epsilon(rho: float, delta: float) -> float:
    """ε = ρ + 2√(ρ ln(1/δ)): the textbook conversion (Bun and Steinke 2016), kept for comparisons.

    >>> round(simple_zcdp_epsilon(0.045, 1e-5), 10)
    1.4845577737
    """
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))
