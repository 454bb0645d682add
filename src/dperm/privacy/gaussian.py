"""The privacy profile of the Gaussian mechanism, and its two inverses.

With t₁ = ε/μ − μ/2, t₂ = ε/μ + μ/2 and R(t) = Φ(−t)/φ(t) = ∫₀^∞ e^{−ts−s²/2} ds (Mills' ratio):

    δ_G(ε; μ) = Φ(−t₁) − e^ε Φ(−t₂) = φ(t₁)·[R(t₁) − R(t₂)] = φ(t₁) ∫₀^∞ e^{−t₁s−s²/2} (1 − e^{−μs}) ds,

because e^ε φ(t₂) = φ(t₁). The two differences lose digits when μ is small beside t₁: R(t₁) and R(t₂) then
share their leading digits. The integral has a positive integrand and loses none, so it serves that region
by Gauss–Legendre quadrature; the difference of Mills' ratios serves the rest. Where t₁ < 0 the complement

    1 − δ_G = Φ(t₁) + e^ε Φ(−t₂) = φ(t₁)·[R(−t₁) + R(t₂)]

is again a sum of positive terms, and it is what the inverses solve for when δ > 1/2. Everything is kept
in logs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from dperm.privacy.checks import non_negative, probability

FloatArray = npt.NDArray[np.float64]

# Relative step by which inverses move to the safe side. Evaluation errors in log δ are a few units of
# 1e-16·max(1, t²), and log δ moves by max(1, t²) times the relative step: 1e-13 leaves two to three
# decimal digits of room.
SAFETY = 1e-13
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_EXPONENT = 40.0  # the quadrature stops where the integrand has fallen by e^-40


@functools.cache
def _nodes() -> tuple[FloatArray, FloatArray]:
    """Gauss–Legendre nodes and weights on [0, 1]; 64 points integrate e^{-80u} to rounding error."""
    x, w = np.polynomial.legendre.leggauss(64)
    return (x + 1) / 2, w / 2


def _mills(t: FloatArray) -> FloatArray:
    """R(t) = Φ(−t)/φ(t) for t ≥ 0, by the scaled complementary error function."""
    from scipy.special import erfcx

    return np.asarray(math.sqrt(math.pi / 2) * erfcx(t / math.sqrt(2)), dtype=np.float64)


def _mills_drop(t1: FloatArray, mu: FloatArray) -> FloatArray:
    """R(t₁) − R(t₁ + μ) = ∫₀^∞ e^{−t₁s−s²/2}(1 − e^{−μs}) ds, without cancellation; needs t₁ ≥ −1/2."""
    u, w = _nodes()
    # end solves t₁s + s²/2 = 40 (conjugate form of the root, stable for large t₁)
    end = 2 * _EXPONENT / (t1 + np.sqrt(t1 * t1 + 2 * _EXPONENT))
    s = end[..., None] * u
    integrand = -np.exp(-(t1[..., None] + s / 2) * s) * np.expm1(-mu[..., None] * s)
    return np.asarray(end * (integrand @ w), dtype=np.float64)


def log_profile(epsilon: npt.ArrayLike, mu: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """(log δ_G, log(1 − δ_G)) for finite ε ≥ 0 and finite μ > 0, broadcast against each other."""
    eps, m = np.broadcast_arrays(np.asarray(epsilon, dtype=np.float64), np.asarray(mu, dtype=np.float64))
    shape = eps.shape
    eps, m = eps.ravel(), m.ravel()
    with np.errstate(over="ignore", divide="ignore", invalid="ignore", under="ignore"):
        t1 = eps / m - m / 2
        t2 = eps / m + m / 2
        log_density = -0.5 * t1 * t1 - _HALF_LOG_2PI
        log_delta = np.full(eps.shape, -np.inf)
        log_complement = np.zeros(eps.shape)

        smooth = (m <= np.maximum(1.0, t1)) & (t1 < 1e150)
        if smooth.any():
            log_delta[smooth] = log_density[smooth] + np.log(_mills_drop(t1[smooth], m[smooth]))
            log_complement[smooth] = np.log1p(-np.exp(log_delta[smooth]))
        apart = ~smooth & (t1 > 0) & (t1 < 1e150)
        if apart.any():
            log_delta[apart] = log_density[apart] + np.log(_mills(t1[apart]) - _mills(t2[apart]))
            log_complement[apart] = np.log1p(-np.exp(log_delta[apart]))
        below = ~smooth & (t1 <= 0)
        if below.any():
            log_complement[below] = log_density[below] + np.log(_mills(-t1[below]) + _mills(t2[below]))
            log_delta[below] = np.log(-np.expm1(log_complement[below]))
    return log_delta.reshape(shape), log_complement.reshape(shape)


@overload
def gaussian_delta(epsilon: float, mu: float) -> float: ...
@overload
def gaussian_delta(epsilon: FloatArray | Sequence[float], mu: npt.ArrayLike) -> FloatArray: ...
def gaussian_delta(epsilon: npt.ArrayLike, mu: npt.ArrayLike) -> float | FloatArray:
    """δ_G(ε; μ) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ): the privacy profile of N(0, σ²I) noise, μ = Δ/σ.

    **Guarantee.** Adding N(0, σ²I) to a statistic of L2 sensitivity Δ is (ε, δ_G(ε; Δ/σ))-DP for every ε
    ≥ 0, and for no smaller δ (Balle and Wang 2018; Dong, Roth and Su 2022), in any dimension and for the
    relation that defines Δ. The value has relative error below 1e-8 (in fact about 1e-12) for ε ≤ 100,
    1e-5 ≤ μ ≤ 10 and δ ≥ 1e-300. Arrays broadcast; two scalars give a float. μ = 0 reveals nothing, ε = ∞
    asks for nothing: both give 0.

    >>> round(gaussian_delta(1.0, 1.0), 10)
    0.1269367375
    >>> gaussian_delta([0.5, 1.0], 0.0).tolist()
    [0.0, 0.0]
    """
    eps, m = np.broadcast_arrays(np.asarray(epsilon, dtype=np.float64), np.asarray(mu, dtype=np.float64))
    for name, values in (("epsilon", eps), ("mu", m)):
        bad = np.isnan(values) | (values < 0)
        if bad.any():
            raise ValueError(f"Expected {name} >= 0, found {values[bad].flat[0]}. Pass a non-negative number.")
    delta = np.zeros(eps.shape)
    delta[np.isposinf(m) & np.isfinite(eps)] = 1.0
    inside = np.isfinite(eps) & np.isfinite(m) & (m > 0)
    log_delta, log_complement = log_profile(eps[inside], m[inside])
    # Above one half the complement carries the digits; subtracting it is then correctly rounded.
    delta[inside] = np.where(log_delta > math.log(0.5), -np.expm1(log_complement), np.exp(log_delta))
    return float(delta) if delta.ndim == 0 else delta


def _residual(delta: float) -> Callable[[float, float], float]:
    """A function of (ε, μ) that is ≤ 0 exactly when δ_G(ε; μ) ≤ δ, accurate in relative terms at both ends."""
    if delta <= 0.5:
        log_target = math.log(delta)
        return lambda epsilon, mu: float(log_profile(epsilon, mu)[0]) - log_target
    log_rest = math.log(1 - delta)  # 1 − δ is exact in floating point for δ ≥ 1/2
    return lambda epsilon, mu: log_rest - float(log_profile(epsilon, mu)[1])


def _root(residual: Callable[[float], float], low: float, high: float) -> float:
    """Brent's root of `residual` between low and high, to the last digits."""
    from scipy.optimize import brentq

    return float(brentq(residual, low, high, xtol=1e-300, rtol=8.9e-16, maxiter=500))


def gaussian_epsilon(delta: float, mu: float) -> float:
    """ε(δ; μ) = min{ε ≥ 0 : δ_G(ε; μ) ≤ δ}: what a μ-GDP release costs at a given δ.

    **Guarantee.** A μ-GDP mechanism is (ε, δ)-DP with this ε. The root is rounded *up* by a relative
    1e-13 (and by the rounding error of δ_G, divided by its slope in ε), so that δ_G at the returned ε never exceeds δ.
    Where δ ≥ δ_G(0; μ) = 2Φ(μ/2) − 1 the answer is 0; δ = 0 gives ∞ unless μ = 0.

    >>> round(gaussian_epsilon(1e-5, 1.0), 10)
    4.3771780957
    >>> gaussian_epsilon(0.5, 1.0)
    0.0
    """
    delta, mu = probability("delta", delta), non_negative("mu", mu, infinite=True)
    if mu == 0 or delta == 1:
        return 0.0
    if delta == 0 or math.isinf(mu):
        return math.inf
    condition = _residual(delta)
    if condition(0.0, mu) <= 0:
        return 0.0
    # δ_G ≤ Φ(−t₁), so any t₁ with Φ(−t₁) ≤ δ closes the bracket: Φ(−t) ≤ e^{−t²/2} gives t₁ = √(2 ln 1/δ).
    high = mu * (mu / 2 + math.sqrt(2 * math.log(1 / delta))) + mu
    epsilon = _root(lambda value: condition(value, mu), 0.0, high)
    # One rounding error of log δ (or of the complement) moves the root by that error over |d log δ/dε| = R₂/(R₁ − R₂)
    # (in the complement R₂/(R₂ + R(−t₁))): the share of the second term, which is tiny only when ε is.
    t1, t2 = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    log_value = float(log_profile(epsilon, mu)[0 if delta <= 0.5 else 1])
    log_slope = -0.5 * t1 * t1 - _HALF_LOG_2PI + math.log(float(_mills(np.asarray(t2)))) - log_value
    return epsilon * (1 + SAFETY) + 4e-15 * math.exp(-log_slope)


@functools.lru_cache(maxsize=256)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """μ(ε, δ) = max{μ : δ_G(ε; μ) ≤ δ}: the whole Gaussian budget of an (ε, δ) target; σ = Δ/μ.

    **Guarantee.** Any μ'-GDP mechanism with μ' ≤ μ(ε, δ) is (ε, δ)-DP. The root is rounded *down* by a
    relative 1e-13, more than the evaluation error of δ_G, so that δ_G(ε; μ) never exceeds δ. δ = 0 gives
    0 (Gaussian noise is never purely private), δ = 1 or ε = ∞ gives ∞.

    >>> round(1 / gaussian_mu(1.0, 1e-6), 10)
    4.2246788893
    >>> gaussian_mu(1.0, 0.0)
    0.0
    """
    epsilon, delta = non_negative("epsilon", epsilon, infinite=True), probability("delta", delta)
    if delta == 0:
        return 0.0
    if delta == 1 or math.isinf(epsilon):
        return math.inf
    condition = _residual(delta)
    # Start where t₁ = √(2 ln 1/δ), hence δ_G ≤ Φ(−t₁) ≤ δ: below the root. ε = 0 starts at δ_G(0; μ) ≤ μ/√(2π).
    tail = math.sqrt(2 * math.log(1 / delta))
    low = max(2 * epsilon / (tail + math.sqrt(tail * tail + 2 * epsilon)), delta) * (1 - 1e-9)
    high = 2 * low
    while condition(epsilon, high) <= 0:
        low, high = high, 2 * high
    return _root(lambda value: condition(epsilon, value), low, high) * (1 - SAFETY)
