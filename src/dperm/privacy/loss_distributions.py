"""Privacy-loss distributions on a grid, through dp_accounting.

dp_accounting doubles the sensitivity of Gaussian pairs under REPLACE_ONE, so the relation is kept out of it: the
sensitivity is divided out beforehand and every pair is built with unit sensitivity under ADD_OR_REMOVE_ONE.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def _module() -> Any:
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution


def gaussian(mu: float, discretization: float) -> Any:
    """N(0, 1) against N(μ, 1) by connect-the-dots.

    >>> round(gaussian(1.0, 1e-3).get_delta_for_epsilon(1.0), 6)
    0.126937
    """
    return sampled(1.0, mu, 1, discretization)


def sampled(rate: float, mu: float, count: int, discretization: float) -> Any:
    """(1−q)N(0, 1/μ²) + qN(1, 1/μ²) against N(0, 1/μ²), both directions, `count` times.

    >>> round(sampled(0.01, 1.0, 1000, 1e-4).get_epsilon_for_delta(1e-5), 6)
    1.828244
    """
    if mu == 0 or rate == 0:
        return _module().identity(value_discretization_interval=discretization)
    from dp_accounting import NeighboringRelation

    single = _module().from_gaussian_mechanism(
        standard_deviation=1 / mu,
        sensitivity=1.0,
        sampling_prob=rate,
        value_discretization_interval=discretization,
        neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
    )
    return single if count == 1 else single.self_compose(count)


def _from_profile(steps: list[int], deltas: list[float], discretization: float) -> Any:
    """The symmetric distribution whose δ(ε) is the chord interpolation of (steps·discretization, deltas)."""
    from dp_accounting.pld import pld_pmf

    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(discretization, np.array(steps), np.array(deltas))
    return _module().PrivacyLossDistribution(pmf)


def approximate(epsilon: float, delta: float, count: int, discretization: float) -> Any:
    """Randomised response with ε, except that everything is revealed with probability δ; `count` times.

    The profile is linear in e^ε between its kinks at ±ε, so that four grid points around the kinks reproduce it
    but for the two cells that hold a kink, where the chord lies above it.

    >>> round(approximate(1.0, 0.0, 1, 1e-3).get_delta_for_epsilon(0.5), 6)
    0.287636
    """
    cell = epsilon / discretization
    inner, outer = math.floor(cell), math.ceil(cell)
    steps = sorted({-outer, -inner, inner, outer})

    def profile(value: float) -> float:
        if value >= epsilon:
            return 0.0
        if value <= -epsilon:
            return -math.expm1(value)
        return -math.expm1(value - epsilon) / (1 + math.exp(-epsilon))

    deltas = [delta + (1 - delta) * profile(step * discretization) for step in steps]
    single = _from_profile(steps, deltas, discretization)
    return single if count == 1 else single.self_compose(count)


def concentrated(rho: float, discretization: float) -> Any:
    """A pair that dominates every ρ-zCDP release: the greatest convex minorant of its (ε, δ) conversion.

    In γ = e^ε the true profile H is convex, lies below the conversion δ_z(ε) for ε ≥ 0 and, by exchanging the two data
    sets, below 1 − γ + γ·δ_z(−ε) for ε < 0; hence it lies below the greatest convex function under both, and a convex
    profile is the profile of a pair (Zhu, Dong and Wang 2022). Chords of grid points only add.

    >>> from dperm.privacy.conversions import zcdp_delta
    >>> 0 <= concentrated(0.045, 1e-3).get_delta_for_epsilon(1.0) / zcdp_delta(0.045, 1.0) - 1 < 1e-3
    True
    """
    if rho == 0:
        return _module().identity(value_discretization_interval=discretization)
    from dperm.privacy.conversions import zcdp_delta

    reach = rho + 2 * math.sqrt(rho * 50.0)  # the simple conversion at δ = e^-50
    ...
    raise NotImplementedError
