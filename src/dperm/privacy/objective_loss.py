"""The privacy loss of objective perturbation as a function of one standard normal number u.

One record (x, y) separates the two data sets. With D = (largest gradient of a record)/σ and c = (largest curvature constant)/λ
the density of the minimiser changes by at most e^{g(u)}, where

    with → without       g(u) = max over the slope of  log-determinant + (quadratic in the slope, linear in u)
    without → with       the same without the log-determinant, which then has the other sign

Every g is a maximum of functions linear in u, hence convex: between two points it lies below their chord. `expected_delta`
integrates chords, so that its answer is an upper bound up to rounding.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dperm.privacy.gaussian import gaussian_delta, log_profile

FloatArray = npt.NDArray[np.float64]
Law = Callable[[FloatArray], FloatArray]

REACH = 12.0  # |u| beyond this has probability 4e-33, which is added to every δ
_TAIL = 4e-33
_CELLS_PER_UNIT = 100
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)


def hockey_stick(epsilon: npt.ArrayLike, mu: float) -> FloatArray:
    """δ_G(ε; μ) for every real ε: below 0 it is 1 − e^ε(1 − δ_G(−ε; μ)), and (1 − e^ε)₊ when μ = 0.

    >>> hockey_stick([-1.0], 0.0).round(6).tolist()
    [0.632121]
    """
    gap = np.asarray(epsilon, dtype=np.float64)
    if mu == 0:
        return np.asarray(-np.expm1(np.minimum(gap, 0.0)))
    # Beyond forty standard deviations δ_G is below 1e-348: (1 − e^ε)₊ is then the value to every digit.
    value = np.asarray(-np.expm1(np.minimum(gap, 0.0)))
    reach = mu * (40 + mu / 2)
    above, below = (gap >= 0) & (gap < reach), (gap < 0) & (gap > -reach)
    if above.any():
        value[above] = gaussian_delta(gap[above], mu)
    if below.any():
        _, log_rest = log_profile(-gap[below], mu)
        value[below] = -np.expm1(gap[below] + log_rest)
    return value


def two_sided_delta(epsilon: float, shift: float) -> float:
    """E(1 − e^{ε−(D²+2D|u|)/2})₊ = 2δ_G(ε; D) for ε ≥ D²/2, and 1 − 2e^ε Φ(−D) below.

    >>> round(two_sided_delta(1.0, 1 / 4.2), 10)
    2.255e-06
    """
    if epsilon >= shift**2 / 2:
        return 2 * float(gaussian_delta(epsilon, shift))
    from scipy.special import log_ndtr

    return -math.expm1(epsilon + math.log(2.0) + float(log_ndtr(-shift)))


def _largest(value: Callable[[FloatArray], FloatArray], coefficients: list[FloatArray]) -> FloatArray:
    """max of `value` over [0, 1]: at the ends or at a real root of its derivative, a cubic (highest coefficient first)."""
    lead = coefficients[0]
    companion = np.zeros((len(lead), 3, 3))
    companion[:, 1, 0] = companion[:, 2, 1] = 1.0
    for row, coefficient in enumerate(coefficients[1:]):
        companion[:, 0, row] = -coefficient / lead
    roots = np.clip(np.linalg.eigvals(companion).real, 0.0, 1.0).T
    # A few fixed points as well: they cost nothing and would catch a badly conditioned cubic.
    fixed = np.broadcast_to(np.linspace(0.0, 1.0, 33)[:, None], (33, len(lead)))
    return np.asarray(np.max(value(np.concatenate([roots, fixed])), axis=0))


def self_bounding_loss(u: npt.ArrayLike, shift: float, curvature: float) -> FloatArray:
    """g(u) = max_{s∈[0,1]} log(1 + c·s(1−s)) + s²D²/2 + sDu.

    **Guarantee**: for a loss with |φ'| = s of one sign and φ'' ≤ C·s(1−s), it bounds the privacy loss of removing a record, with
    u ~ N(0, 1) under the data set that holds it. Setting the derivative to zero and multiplying by 1 + cs(1−s) gives
    −cD²s³ + c(D² − Du)s² + (D² + cDu − 2c)s + c + Du = 0.

    >>> self_bounding_loss([-9.0, 9.0], 0.25, 0.0).tolist()
    [0.0, 2.28125]
    """
    u = np.atleast_1d(np.asarray(u, dtype=np.float64))
    D, c = shift, curvature
    if c == 0:
        return np.maximum(0.0, D * D / 2 + D * u)

    def value(s: FloatArray) -> FloatArray:
        return np.asarray(np.log1p(c * s * (1 - s)) + s * s * (D * D / 2) + s * D * u)

    ones = np.ones_like(u)
    return _largest(value, [-c * D * D * ones, c * (D * D - D * u), D * D + c * D * u - 2 * c, c + D * u])


def log_cosh_loss(u: npt.ArrayLike, shift: float, curvature: float) -> FloatArray:
    """g(u) = max_{a∈[−1,1]} log(1 + c(1−a²)) + a²D²/2 + aDu, for φ' = τa and φ'' ≤ 1 − a²; even in u.

    Stationary points: −cD²a³ − cDu·a² + (D²(1+c) − 2c)a + Du(1+c) = 0.

    >>> log_cosh_loss([-2.0, 2.0], 0.25, 0.0).tolist()
    [0.53125, 0.53125]
    """
    u = np.abs(np.atleast_1d(np.asarray(u, dtype=np.float64)))
    D, c = shift, curvature
    if c == 0:
        return D * D / 2 + D * u

    def value(a: FloatArray) -> FloatArray:
        return np.asarray(np.log1p(c * (1 - a * a)) + a * a * (D * D / 2) + a * D * u)

    ones = np.ones_like(u)
    return _largest(value, [-c * D * D * ones, -c * D * u, (D * D * (1 + c) - 2 * c) * ones, D * u * (1 + c)])


@functools.lru_cache(maxsize=256)
def laws(form: str, shift: float, curvature: float) -> tuple[Law, Law, bool]:
    """(with → without, without → with, even in u) for one record under zero-out and add-remove."""
    D, c = shift, curvature

    def one_signed(u: FloatArray) -> FloatArray:
        return np.maximum(0.0, D * D / 2 + D * u)

    def two_sided(u: FloatArray) -> FloatArray:
        return np.asarray(D * D / 2 + D * np.abs(u))

    if form == "self-bounding":
        return lambda u: self_bounding_loss(u, D, c), one_signed, False
    if form == "log-cosh":
        return lambda u: log_cosh_loss(u, D, c), two_sided, True
    if form == "one-signed":
        return lambda u: math.log1p(c) + one_signed(u), one_signed, False
    if form == "two-sided":
        return lambda u: math.log1p(c) + two_sided(u), two_sided, True
    raise ValueError(f"Expected a form with a pointwise loss, found {form!r}.")


@functools.lru_cache(maxsize=128)
def _tabulated(form: str, shift: float, curvature: float, direction: int) -> tuple[FloatArray, FloatArray]:
    """The law on fixed points, for reuse by every ε."""
    *both, even = laws(form, shift, curvature)
    u = np.linspace(0.0 if even else -REACH, REACH, int(REACH * _CELLS_PER_UNIT * (1 if even else 2)) + 1)
    return u, both[direction](u)


def expected_delta(form: str, shift: float, curvature: float, direction: int, epsilon: float, mu: float) -> float:
    """E_u[δ_G(ε − g(u); μ)]: the profile of one direction (0: with → without, 1: back) beside Gaussian releases of total μ.

    **Guarantee**: never below the integral but for rounding (a relative 1e-9 is added): g is replaced by its chords, each cell is
    integrated by four Gauss points, and the part beyond |u| = 12 is counted in full.
    """
    u, loss = _tabulated(form, shift, curvature, direction)
    *both, even = laws(form, shift, curvature)
    if mu > 0 or shift > 2:
        # Where the loss crosses ε the integrand turns within μ/D, and rises within 1/D: finer cells there.
        crossing = float(np.interp(epsilon, loss, u)) if loss[0] < loss[-1] else 0.0
        parts = [crossing + (mu / shift) * np.linspace(-10, 10, 81)] if mu > 0 else []
        parts += [crossing + np.linspace(-10, 40, 201) / shift] if shift > 2 else []
        near = np.concatenate(parts)
        near = near[(near > u[0]) & (near < u[-1])]
        u = np.concatenate([u, near])
        loss = np.concatenate([loss, both[direction](near)]) if near.size else loss
        order = np.argsort(u, kind="stable")
        u, loss = u[order], loss[order]
    left, right, low, high = u[:-1], u[1:], loss[:-1], loss[1:]
    if mu == 0:  # only the part of a cell where the chord is above ε counts
        active = high > epsilon
        left, right, low, high = left[active], right[active], low[active], high[active]
        rise = high - low
        start = np.where(low < epsilon, (epsilon - low) / np.where(rise > 0, rise, 1.0), 0.0)
        left, low = left + start * (right - left), np.maximum(low, epsilon)
    middle, half = (left + right) / 2, (right - left) / 2
    nodes = middle[:, None] + half[:, None] * _NODES
    chord = ((low + high) / 2)[:, None] + ((high - low) / 2)[:, None] * _NODES
    density = np.exp(-nodes * nodes / 2) / math.sqrt(2 * math.pi)
    total = float(np.sum(half[:, None] * _WEIGHTS * density * hockey_stick(epsilon - chord, mu)))
    return min(1.0, (2 if even else 1) * total * (1 + 1e-9) + _TAIL)


def discrete_law(form: str, shift: float, curvature: float, direction: int) -> tuple[FloatArray, FloatArray]:
    """(losses, probabilities), losses ascending: the law rounded up in cells of u of width 1e-4."""
    from scipy.special import ndtr

    u, loss = _tabulated(form, shift, curvature, direction)
    *_, even = laws(form, shift, curvature)
    fine = np.linspace(u[0], u[-1], (len(u) - 1) * 100 + 1)
    losses = np.interp(fine[1:], u, loss)
    # Differences of the upper tail keep their digits where they matter.
    masses = -np.diff(ndtr(-fine)) * (2 if even else 1)
    return losses, np.maximum(masses, 0.0)
