"""Calibration: the largest budget that keeps a target."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from dperm.privacy.accountants import compose
from dperm.privacy.checks import non_negative, positive, probability
from dperm.privacy.events import Event
from dperm.privacy.gaussian import gaussian_mu


def calibrate(
    builder: Callable[[float], Iterable[Event]],
    epsilon: float,
    delta: float,
    relation: str,
    *,
    tolerance: float = 1e-9,
    start: float = 1.0,
) -> float:
    """sup{s : compose(builder(s), relation).epsilon(δ) ≤ ε}, from below to a relative `tolerance`.

    `builder(s)` lists the events of a run with budget scale s > 0 and must cost more as s grows, for
    example `lambda s: [Gaussian(0.5 * s, steps), Pure(0.1 * s)]`.

    **Guarantee.** The returned scale itself was composed and found to cost at most ε at δ: never above the target,
    whatever the shape of the cost (a cost that is not monotone gives a valid scale, perhaps not the
    largest).

    >>> from dperm.privacy import Gaussian
    >>> round(calibrate(lambda s: [Gaussian(s, count=4)], 1.0, 1e-5, "replace-one") * 2 * 3.7306316348, 8)
    1.0
    """
    target = positive("epsilon", epsilon, infinite=True)
    delta = probability("delta", delta)
    if math.isinf(target):
        return math.inf

    def cost(scale: float) -> float:
        return compose(builder(scale), relation).epsilon(delta)

    (low, cost_low), (high, cost_high) = _bracket(cost, target, positive("start", start), delta)
    turn = 0
    while high > low * (1 + tolerance):
        # Two false-position steps in logs (cost is close to a power of the scale), then one bisection as a guarantee.
        share = 0.5
        if turn % 3 < 2 and 0 < cost_low < cost_high < math.inf:
            share = math.log(target / cost_low) / math.log(cost_high / cost_low)
        turn += 1
        middle = low * (high / low) ** share
        middle = min(max(middle, low * (1 + tolerance / 2)), high / (1 + tolerance / 2))
        if not low < middle < high:
            break
        cost_middle = cost(middle)
        if cost_middle <= target:
            low, cost_low = middle, cost_middle
        else:
            high, cost_high = middle, cost_middle
    return low


def _bracket(
    cost: Callable[[float], float], target: float, start: float, delta: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Two scales with their costs: the first costs at most the target, the second more."""
    low = high = start
    cost_low = cost_high = cost(start)
    while cost_high <= target:
        low, cost_low = high, cost_high
        high *= 2
        if high > 1e100 * start:
            raise ValueError("Expected a builder whose cost grows with the scale, found one that stays below. Check it.")
        cost_high = cost(high)
    while cost_low > target:
        high, cost_high = low, cost_low
        low /= 2
        if low < 1e-100 * start:
            raise ValueError(
                f"Expected some scale that costs at most epsilon={target:g} at delta={delta}, found none. "
                "Pass a larger epsilon or delta, or drop the events whose cost does not shrink."
            )
        cost_low = cost(low)
    return (low, cost_low), (high, cost_high)


def gaussian_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """σ = Δ/μ(ε, δ): the smallest Gaussian noise that makes one release of L2 sensitivity Δ (ε, δ)-DP.

    **Guarantee.** Exact (Balle and Wang 2018), for the relation that defines Δ. Refused at δ = 0:
    Gaussian noise is never purely private.

    >>> round(gaussian_sigma(1.0, 1.0, 1e-5), 10)
    3.7306316348
    """
    sensitivity = non_negative("sensitivity", sensitivity)
    mu = gaussian_mu(positive("epsilon", epsilon, infinite=True), probability("delta", delta))
    if mu == 0:
        raise ValueError("Expected delta > 0 for Gaussian noise, found 0. Pass delta > 0 or use a pure mechanism.")
    return sensitivity / mu


def split_mu(mu: float, shares: Sequence[float]) -> tuple[float, ...]:
    """μ_k = μ√p_k with Σp_k = 1: stages that together are exactly μ-GDP, since Σμ_k² = μ².

    >>> [round(part, 6) for part in split_mu(1.0, (0.36, 0.64))]
    [0.6, 0.8]
    """
    mu = non_negative("mu", mu, infinite=True)
    parts = [non_negative("share", share) for share in shares]
    if abs(math.fsum(parts) - 1) > 1e-9:
        raise ValueError(f"Expected shares that sum to 1, found {math.fsum(parts)}. Divide them by their sum.")
    # dividing by the exact sum keeps Σμ_k² ≤ μ² when the shares carry rounding errors
    total = max(1.0, math.fsum(parts))
    return tuple(mu * math.sqrt(part / total) for part in parts)


def calibrate_mu(epsilon: float, delta: float, shares: Sequence[float] = (1.0,)) -> tuple[float, ...]:
    """split_mu(μ(ε, δ), shares): the Gaussian budget of a target, divided among stages.

    >>> round(1 / calibrate_mu(1.0, 1e-6)[0], 10)
    4.2246788893
    """
    return split_mu(gaussian_mu(epsilon, delta), shares)
