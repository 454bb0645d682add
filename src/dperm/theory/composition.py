"""Composition of adaptive Gaussian releases: four ways to add up the same privacy (lecture 000, items 15 and
16).
"""

from __future__ import annotations

import math

from scipy.optimize import brentq

from dperm.privacy.gaussian import gaussian_epsilon
from dperm.theory.checks import theorem

COMPOSITION_RULES = ("basic", "advanced", "zcdp", "exact")


@theorem
def composition_epsilon(rho: float, count: float, delta: float, rule: str = "exact") -> float:
    """exact: ε(δ; √(kρ)).   zcdp: kρ/2 + √(2kρ ln(1/δ)).   advanced: kρ + √(2kρ ln(1/δ)).   basic: k·ε(δ/k;
    √ρ).

    The ε at δ of k = `count` adaptive releases, each of sensitivity Δ with noise N(0, (Δ²/ρ) I): one release
    is √ρ-GDP and (ρ/2)-zCDP.
    **Guarantee**: each rule is an upper bound; "exact" is the smallest ε there is. "advanced" is what
    lecture 000 prints (erratum E28: its kρ can be kρ/2); "basic" pays δ/k per release and adds the ε's.

    >>> [round(composition_epsilon(1e-3, 100, 1e-5, rule), 4) for rule in ("advanced", "zcdp", "exact")]
    [1.6174, 1.5674, 1.1994]
    >>> round(composition_epsilon(rho=1e-2, count=100, delta=1e-5), 4)
    4.3772
    """
    k = count
    if rule == "exact":
        return gaussian_epsilon(delta, math.sqrt(k * rho))
    if rule == "basic":
        return k * gaussian_epsilon(delta / k, math.sqrt(rho))
    tail = math.sqrt(2 * k * rho * math.log(1 / delta))
    if rule == "zcdp":
        return k * rho / 2 + tail
    if rule == "advanced":
        return k * rho + tail
    raise ValueError(f"Expected rule in {', '.join(COMPOSITION_RULES)}, found {rule!r}. Pass one of them.")


@theorem
def composition_rho(epsilon: float, count: float, delta: float, rule: str = "exact") -> float:
    """The largest ρ with composition_epsilon(ρ, count, δ, rule) <= ε: noise variance Δ²/ρ for each of
    `count` releases.

    >>> round(composition_rho(epsilon=1.6174, count=100, delta=1e-5, rule="advanced"), 5)
    0.001
    """

    def spent(log_rho: float) -> float:
        return composition_epsilon(math.exp(log_rho), count, delta, rule) - epsilon

    low, high = -1.0, 1.0
    while spent(low) > 0:
        low *= 2
    while spent(high) < 0:
        high += 2
    root = float(brentq(spent, low, high, xtol=1e-13))
    # brentq may stop a rounding error above the target; a calibration must stop below it
    while spent(root) > 0:
        root -= 1e-13 * max(1.0, abs(root))
    return math.exp(root)
