"""Privacy-loss distributions on a grid, through dp_accounting.

dp_accounting doubles the sensitivity of Gaussian pairs under REPLACE_ONE, so the relation is kept out of
it: the sensitivity is divided out beforehand and every pair is built with unit sensitivity under
ADD_OR_REMOVE_ONE.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_MOST_POINTS = 2e6  # a grid of this size still transforms in a few seconds


def choose_discretization(scale: float, releases: int) -> float:
    """Grid width h for a total privacy loss of standard deviation `scale` over `releases` releases.

    Rounding adds about h² to the variance of every release, so h = scale/(10√releases) costs at most one
    per cent of it; 1e-4 is the usual width; a range of scale² + 20·scale must fit the largest grid. Any
    width is valid.

    >>> choose_discretization(1.0, 1000)
    0.0001
    """
    if not 0 < scale < math.inf:
        return 1e-4
    fine = min(1e-4, scale / 300, scale / (10 * math.sqrt(releases)))
    return max(fine, scale * (scale + 20) / _MOST_POINTS)


def sampled_scale(rate: float, mu: float, count: int) -> float:
    """√(count·E[L²]) for the loss L of one Poisson-sampled Gaussian release (chooses grids, proves
    nothing).

    >>> round(sampled_scale(0.01, 1.0, 10_000), 1)
    1.3
    """
    x = np.linspace(-8.0, mu + 8.0, 2001)
    step = (x[1] - x[0]) / math.sqrt(2 * math.pi)
    with np.errstate(divide="ignore"):
        loss = np.logaddexp(np.log1p(-rate), math.log(rate) + mu * x - mu * mu / 2)
    weight = step * ((1 - rate) * np.exp(-x * x / 2) + rate * np.exp(-((x - mu) ** 2) / 2))
    return math.sqrt(count * float(weight @ loss**2))


def _module() -> ModuleType:
    return importlib.import_module("dp_accounting.pld.privacy_loss_distribution")


def gaussian(mu: float, discretization: float) -> PrivacyLossDistribution:
    """N(0, 1) against N(μ, 1), chords between grid points.

    >>> print(f"{gaussian(1.0, 1e-3).get_delta_for_epsilon(1.0):.6f}")
    0.126937
    """
    return sampled(1.0, mu, 1, discretization)


def sampled(rate: float, mu: float, count: int, discretization: float) -> object:
    """(1−q)N(0, 1/μ²) + qN(1, 1/μ²) against N(0, 1/μ²), both directions, `count` times.

    >>> print(f"{sampled(0.01, 1.0, 1000, 1e-4).get_epsilon_for_delta(1e-5):.6f}")
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


def _symmetric(steps: Sequence[int], deltas: Sequence[float], discretization: float) -> PrivacyLossDistribution:
    """The symmetric pair whose profile joins (e^{step·h}, δ) by chords, for steps ≥ 0 and a convex profile.

    A vertex carries the change of slope of the profile in e^ε. Exchanging the data sets mirrors it: the
    mass at −l is e^{−l} times the mass at l, which avoids differences of numbers close to one. What is
    left sits at loss 0 when 0 is a vertex, and is a rounding error otherwise; then it is counted as
    infinite loss.
    """
    from dp_accounting.pld import pld_pmf

    losses = [step * discretization for step in steps]
    masses: dict[int, float] = {}
    for i, (step, loss, delta) in enumerate(zip(steps, losses, deltas)):
        if step == 0:
            continue
        if i > 0:
            mass = (delta - deltas[i - 1]) / math.expm1(losses[i - 1] - loss)
        else:  # the vertex before is the mirror image: δ(−l) = 1 − e^{−l}(1 − δ(l)), l twice the distance away
            mirrored = -math.expm1(-loss) + math.exp(-loss) * delta
            mass = (delta - mirrored) / math.expm1(-2 * loss)
        if i + 1 < len(steps):
            mass += (deltas[i + 1] - delta) / math.expm1(losses[i + 1] - loss)
        masses[step] = max(0.0, mass)
        masses[-step] = math.exp(-loss) * masses[step]
    rest = max(0.0, 1 - deltas[-1] - math.fsum(masses.values()))
    infinite = deltas[-1]
    if steps[0] == 0:
        masses[0] = rest
    else:
        infinite += rest
    pmf = pld_pmf.create_pmf(masses, discretization, infinite, True)
    return _module().PrivacyLossDistribution(pmf)


def approximate(epsilon: float, delta: float, count: int, discretization: float) -> PrivacyLossDistribution:
    """Randomised response with ε, except that everything is revealed with probability δ; `count` times.

    The profile is linear in e^ε between its kinks at ±ε, so that the grid points around the kinks
    reproduce it but for the two cells that hold a kink, where the chord lies above it.

    >>> print(f"{approximate(1.0, 0.0, 1, 1e-3).get_delta_for_epsilon(0.5):.6f}")
    0.287649
    """
    cell = epsilon / discretization
    steps = sorted({math.floor(cell), math.ceil(cell)})
    inner = steps[0] * discretization
    at_inner = max(0.0, -math.expm1(inner - epsilon) / (1 + math.exp(-epsilon)))
    deltas = [delta + (1 - delta) * at_inner, delta][: len(steps)]
    single = _symmetric(steps, deltas, discretization)
    return single if count == 1 else single.self_compose(count)


def concentrated(rho: float, discretization: float) -> PrivacyLossDistribution:
    """A pair that dominates every ρ-zCDP release: a convex hull of its (ε, δ) conversion. None for ρ
    above 5000.

    In γ = e^ε the true profile H is convex and lies below the conversion δ_z at any grid point (and below
    Pinsker's √(ρ/2) and Bretagnolle–Huber's √(1−e^{−ρ}) at ε = 0), so it lies below the chords of the
    points; the lower convex hull of the points is therefore valid, and a convex profile is the profile of
    a pair (Zhu, Dong and Wang 2022).

    >>> from dperm.privacy.conversions import zcdp_delta
    >>> bool(0 <= concentrated(0.045, 1e-3).get_delta_for_epsilon(1.0) / zcdp_delta(0.045, 1.0) - 1 < 1e-2)
    True
    """
    if rho == 0:
        return _module().identity(value_discretization_interval=discretization)
    reach = rho + 2 * math.sqrt(rho * 60.0)  # the simple conversion at δ = e^-60
    if reach > 600:  # e^reach must stay a float
        return None
    last = max(1, math.ceil(reach / discretization))
    steps = np.unique(np.round(np.linspace(0, last, 801)).astype(np.int64))
    epsilon = steps * discretization
    alpha = 1 + np.geomspace(1e-6, 1e9, 1500)[:, None]
    log_delta = (alpha - 1) * (alpha * rho - epsilon + np.log1p(-1 / alpha)) - np.log(alpha)
    delta = np.exp(np.minimum(0.0, log_delta.min(axis=0)))
    delta[0] = min(delta[0], math.sqrt(rho / 2), math.sqrt(-math.expm1(-rho)))
    return from_points(steps, delta, discretization)


def from_points(steps: np.ndarray, deltas: np.ndarray, discretization: float) -> PrivacyLossDistribution:
    """The symmetric pair whose profile is the lower convex hull of the points (e^{step·h}, δ)."""
    hull = _lower_hull(np.exp(steps * discretization), deltas)
    return _symmetric([int(steps[i]) for i in hull], [float(deltas[i]) for i in hull], discretization)


def _lower_hull(gamma: np.ndarray, delta: np.ndarray) -> list[int]:
    """Indices of the vertices with γ ≥ 1 of the lower convex hull of the points and their mirror images."""

    def slope(i: int, j: int) -> float:
        return float((delta[j] - delta[i]) / (gamma[j] - gamma[i]))

    hull: list[int] = []
    for i in range(len(gamma)):
        while len(hull) > 1 and slope(hull[-1], i) <= slope(hull[-2], hull[-1]):
            hull.pop()
        hull.append(i)
    # At the first vertex the left slope comes from the mirror image, the point (1/γ, 1 − (1 − δ)/γ): it is −(1 − δ)/(γ + 1).
    # Drop vertices until it is the smaller one.
    while len(hull) > 1 and slope(hull[0], hull[1]) < -(1 - delta[hull[0]]) / (gamma[hull[0]] + 1):
        hull.pop(0)
    return hull
