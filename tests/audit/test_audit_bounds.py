"""Lower bounds from counts: printed numbers, coverage, and what they must never exceed."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import norm

from dperm.audit.bounds import epsilon_lower, limits, mu_lower, one_run_epsilon, one_run_tail, profile_gap, rate_upper
from dperm.privacy import GDP, PureDP, gaussian_epsilon
from vectors import VECTORS, agrees

C10 = VECTORS["C10"]


def test_printed_classical_bounds():
    counts = C10["false_positives"], C10["false_negatives"], C10["trials"]
    fpr, fnr = limits(*counts, 0.95)
    assert agrees(fpr, C10["false_positive_upper"]) and agrees(fnr, C10["false_negative_upper"])
    assert agrees(epsilon_lower(*counts, delta=C10["delta"], confidence=0.95), C10["epsilon_lower"])
    mu = float(mu_lower(*counts, confidence=0.95))
    assert agrees(mu, C10["mu_lower"])
    assert agrees(gaussian_epsilon(C10["delta"], mu), C10["epsilon_of_mu"])


@pytest.mark.parametrize(("canaries", "guesses", "correct", "delta", "epsilon"), C10["one_run"])
def test_printed_one_run_bounds(canaries, guesses, correct, delta, epsilon):
    assert agrees(one_run_epsilon(correct, guesses, canaries, delta=delta), epsilon)


def test_one_run_tail_is_a_probability_and_grows_with_epsilon_and_delta():
    tails = [one_run_tail(80, 100, 500, epsilon, 1e-6) for epsilon in np.linspace(0, 3, 13)]
    assert all(0 <= a <= b <= 1 for a, b in pairwise(tails))
    assert one_run_tail(80, 100, 500, 0.5, 1e-6) < one_run_tail(80, 100, 500, 0.5, 1e-3)
    assert one_run_epsilon(50, 100, 100, delta=0.0) == 0.0


def test_randomized_response_attains_the_one_run_tail():
    """m bits answered right with probability e^ε/(1+e^ε) are ε-private, and the tail is exactly binomial: no slack at δ = 0."""
    epsilon, m, v = 1.0, 200, 160
    q = 1 / (1 + np.exp(-epsilon))
    right = np.random.default_rng(0).binomial(m, q, 200_000)
    assert one_run_tail(v, m, m, epsilon, 0.0) == pytest.approx(np.mean(right >= v), rel=0.15)


def test_rate_upper_covers():
    """P[limit < truth] ≤ alpha for every rate, computed exactly over all counts."""
    from scipy.stats import binom

    n, alpha = 50, 0.05
    above = rate_upper(np.arange(n + 1), n, alpha)
    for rate in np.linspace(0.001, 0.999, 37):
        assert binom.pmf(np.arange(n + 1), n, rate)[above < rate].sum() <= alpha
    assert above[-1] == 1.0 and np.all(np.diff(above) > 0)


def test_bounds_of_a_true_gaussian_rarely_exceed_the_truth():
    """10,000 audits of a 1-GDP mechanism at confidence 0.95: at most 5 % may lie above (false alarm of this test 1e-6)."""
    generator = np.random.default_rng(1)
    fp = generator.binomial(500, norm.sf(0.5), 10_000)
    fn = generator.binomial(500, norm.cdf(-0.5), 10_000)
    limit = 0.05 + 4.75 * np.sqrt(0.05 * 0.95 / 10_000)
    assert np.mean(mu_lower(fp, fn, 500, confidence=0.95) > 1.0) <= limit
    assert np.mean(epsilon_lower(fp, fn, 500, delta=1e-5, confidence=0.95) > gaussian_epsilon(1e-5, 1.0)) <= limit


def test_profile_gap_is_zero_at_the_trade_off_and_positive_above_it():
    rates = np.array([0.05, 0.2, 0.4])
    for mu in (0.5, 1.0, 2.0):
        on_curve = norm.cdf(norm.isf(rates) - mu)
        assert np.all(np.abs(profile_gap(rates, on_curve, GDP(mu, "replace-one"))) < 2e-3)
        assert np.all(profile_gap(rates, on_curve, GDP(0.9 * mu, "replace-one")) > 0)
        assert np.all(profile_gap(rates, on_curve, GDP(1.1 * mu, "replace-one")) < 0)
    assert profile_gap(0.1, 1 - 0.1 * np.e - 1e-6, PureDP(1.0, "replace-one"))[0] == pytest.approx(1e-6, abs=1e-9)
