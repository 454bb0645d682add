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
    raise NotImplementedError


def gaussian_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """σ = Δ/μ(ε, δ): the smallest Gaussian noise that makes one release of L2 sensitivity Δ (ε, δ)-DP.

    **Guarantee.** Exact (Balle and Wang 2018), for the relation that defines Δ. Refused at δ = 0: Gaussian noise is never
    purely private.

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
