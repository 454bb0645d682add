"""The Gaussian profile and its inverses, against 60-digit arithmetic and against printed numbers."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm.privacy import gaussian_delta, gaussian_epsilon, gaussian_mu, gaussian_sigma
from vectors import VECTORS, agrees

LEAST = mpmath.mpf(10) ** -300


def exact_delta(epsilon: float, mu: float) -> mpmath.mpf:
    """Φ(−t₁) − e^ε Φ(−t₂) with enough digits for the cancellation and the tail."""
    with mpmath.workdps(90):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        t1, t2 = e / m - m / 2, e / m + m / 2
        if t1 > 45:  # far below 1e-300
            return mpmath.mpf(0)
        root = mpmath.sqrt(2)
        return (mpmath.erfc(t1 / root) - mpmath.exp(e) * mpmath.erfc(t2 / root)) / 2


def grid() -> list[tuple[float, float]]:
    """ε in [1e-3, 100] × μ in [1e-5, 10], plus points that follow t₁ from −4.9 to 37 (δ from 1 to 1e-300)."""
    points = [(float(e), float(m)) for e in np.geomspace(1e-3, 100, 16) for m in np.geomspace(1e-5, 10, 25)]
    for t in np.linspace(-4.9, 37, 43):
        for e in np.geomspace(1e-3, 100, 7):
            root = math.sqrt(t * t + 2 * e)
            m = 2 * e / (t + root) if t > 0 else root - t
            if 1e-5 <= m <= 10:
                points.append((float(e), float(m)))
    return [(e, m) for e, m in points if exact_delta(e, m) > LEAST]


GRID = grid()


def test_grid_covers_the_domain():
    deltas = [float(exact_delta(e, m)) for e, m in GRID]
    assert len(GRID) > 350
    assert min(deltas) < 1e-280 and max(deltas) > 0.9999
    assert min(m for _, m in GRID) < 1e-4  # at μ = 1e-5 and ε ≥ 1e-3 the profile is below 1e-300


def test_delta_to_eleven_digits():
    values = gaussian_delta([e for e, _ in GRID], [m for _, m in GRID])
    for (e, m), value in zip(GRID, values):
        truth = exact_delta(e, m)
        assert abs(mpmath.mpf(float(value)) - truth) <= 1e-11 * truth, (e, m)


def test_mu_is_accurate_and_never_above():
    for e, m in GRID:
        delta = float(exact_delta(e, m))
        if delta == 1.0:
            continue
        mu = gaussian_mu(e, delta)
        truth = exact_delta(e, mu)
        assert truth <= mpmath.mpf(delta), (e, m)
        assert gaussian_delta(e, mu) <= delta, (e, m)
        # |μ − root| = |δ(μ) − δ|/φ(t₁) to first order, since ∂δ/∂μ = φ(t₁)
        slope = mpmath.npdf(mpmath.mpf(e) / mu - mpmath.mpf(mu) / 2)
        assert (mpmath.mpf(delta) - truth) / slope <= 1e-8 * mu, (e, m)


def test_epsilon_is_accurate_and_never_below():
    for e, m in GRID:
        delta = float(exact_delta(e, m))
        if delta == 1.0:
            continue
        epsilon = gaussian_epsilon(delta, m)
        truth = exact_delta(epsilon, m)
        assert truth <= mpmath.mpf(delta), (e, m)
        assert gaussian_delta(epsilon, m) <= delta, (e, m)
        slope = mpmath.exp(epsilon) * mpmath.ncdf(-mpmath.mpf(epsilon) / m - mpmath.mpf(m) / 2)
        assert (mpmath.mpf(delta) - truth) / slope <= 1e-8 * epsilon, (e, m)


def test_smallest_delta():
    mu = gaussian_mu(1.0, 1e-300)
    assert 0 < mu < 0.03
    assert exact_delta(1.0, mu) <= LEAST
    assert exact_delta(1.0, mu * (1 + 1e-8)) > LEAST
    epsilon = gaussian_epsilon(1e-300, 1.0)
    assert exact_delta(epsilon, 1.0) <= LEAST
    assert exact_delta(epsilon * (1 - 1e-8), 1.0) > LEAST


@pytest.mark.parametrize(("epsilon", "delta", "printed"), VECTORS["C1_1"]["sigma"])
def test_printed_sigma(epsilon, delta, printed):
    assert agrees(gaussian_sigma(1.0, epsilon, delta), printed)
    assert agrees(gaussian_sigma(3.0, epsilon, delta) / 3, printed)


def test_printed_delta_and_epsilon():
    for epsilon, mu, printed in VECTORS["C1_1"]["delta"]:
        assert agrees(gaussian_delta(epsilon, mu), printed)
    for mu, delta, printed in VECTORS["C1_1"]["epsilon"]:
        assert agrees(gaussian_epsilon(delta, mu), printed)


def test_no_epsilon_needed_above_the_total_variation():
    for mu in (1e-5, 0.3, 1.0, 5.0):
        variation = math.erf(mu / (2 * math.sqrt(2)))  # 2Φ(μ/2) − 1
        assert gaussian_delta(0.0, mu) == pytest.approx(variation, rel=1e-13)
        assert gaussian_epsilon(variation * (1 + 1e-9), mu) == 0.0
        assert gaussian_epsilon(variation * (1 - 1e-6), mu) > 0.0


def test_edges():
    assert gaussian_delta(0.0, 0.0) == 0.0
    assert gaussian_delta(1.0, 0.0) == 0.0
    assert gaussian_delta(math.inf, 1.0) == 0.0
    assert gaussian_delta(1.0, math.inf) == 1.0
    assert gaussian_delta(1.0, 1e200) == 1.0
    assert gaussian_delta(1e3, 1e-200) == 0.0
    assert gaussian_epsilon(0.0, 0.0) == 0.0
    assert gaussian_epsilon(0.0, 1.0) == math.inf
    assert gaussian_epsilon(1.0, 1.0) == 0.0
    assert gaussian_epsilon(1e-5, math.inf) == math.inf
    assert gaussian_mu(1.0, 0.0) == 0.0
    assert gaussian_mu(math.inf, 1e-5) == math.inf
    assert gaussian_mu(1.0, 1.0) == math.inf
    assert gaussian_mu(0.0, 0.5) == pytest.approx(2 * 0.6744897501960817, rel=1e-12)  # 2Φ⁻¹(3/4)
    assert gaussian_mu(1e6, 1e-6) == pytest.approx(math.sqrt(2e6), rel=0.01)  # t₁ stays of order one


def test_arrays_broadcast():
    table = gaussian_delta(np.array([[0.5], [1.0]]), np.array([0.0, 1.0, 2.0]))
    assert table.shape == (2, 3)
    assert table[1, 1] == gaussian_delta(1.0, 1.0)
    assert isinstance(gaussian_delta(1.0, 1.0), float)


@pytest.mark.parametrize("bad", [-1.0, math.nan])
def test_bad_numbers_are_refused(bad):
    with pytest.raises(ValueError, match="Expected epsilon >= 0"):
        gaussian_delta(bad, 1.0)
    with pytest.raises(ValueError, match="Expected mu >= 0"):
        gaussian_delta([1.0, 2.0], bad)
    with pytest.raises(ValueError, match="Expected mu >= 0"):
        gaussian_epsilon(1e-5, bad)
    with pytest.raises(ValueError, match=r"Expected delta in \[0, 1\]"):
        gaussian_epsilon(bad, 1.0)
    with pytest.raises(ValueError, match="Expected epsilon >= 0"):
        gaussian_mu(bad, 1e-5)
    with pytest.raises(ValueError, match=r"Expected delta in \[0, 1\]"):
        gaussian_mu(1.0, bad)


def test_delta_above_one_is_refused():
    with pytest.raises(ValueError, match=r"Expected delta in \[0, 1\]"):
        gaussian_mu(1.0, 1.5)


def test_pure_target_has_no_gaussian_noise():
    with pytest.raises(ValueError, match="Expected delta > 0"):
        gaussian_sigma(1.0, 1.0, 0.0)
    with pytest.raises(ValueError, match="epsilon > 0"):
        gaussian_sigma(1.0, 0.0, 1e-5)


positive_epsilon = st.floats(1e-6, 1e3)
any_mu = st.floats(1e-6, 50.0)
any_delta = st.floats(-300.0, -1e-9).map(lambda power: 10.0**power)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(positive_epsilon, any_delta)
def test_mu_keeps_the_target(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    assert gaussian_delta(epsilon, mu * (1 + 1e-9)) >= delta


@settings(max_examples=200, deadline=None, derandomize=True)
@given(any_delta, any_mu)
def test_epsilon_keeps_the_target(delta, mu):
    epsilon = gaussian_epsilon(delta, mu)
    assert gaussian_delta(epsilon, mu) <= delta
    if epsilon > 1e-3:
        # an ε one part in 10⁷ smaller fails, unless δ is so close to 1 that a float cannot tell
        assert gaussian_delta(epsilon * (1 - 1e-7), mu) > delta or 1 - delta < 1e-7


@settings(max_examples=200, deadline=None, derandomize=True)
@given(positive_epsilon, positive_epsilon, any_mu, any_mu)
def test_delta_is_monotone(first, second, mu, other):
    low, high = sorted((first, second))
    assert gaussian_delta(high, mu) <= gaussian_delta(low, mu) * (1 + 1e-12)
    small, large = sorted((mu, other))
    assert gaussian_delta(first, small) <= gaussian_delta(first, large) * (1 + 1e-12)
