"""Floating point: the low bits of naive noise give the value away; those of a release on a grid do not."""

import math

import numpy as np
import pytest
from scipy.stats import chi2, norm

from dperm.audit import distinguish
from dperm.audit.bits import lowest_bits, spacing_exponent, unreachable
from dperm.privacy import GDP
from dperm.release.noise import ExactNoise, SecureNoise, SeededNoise, gaussian_scale, grid_step, release

CLAIM = GDP(0.1, "replace-one")  # noise ten times the sensitivity: statistically close to nothing can be seen


def naive(seed):
    generator = np.random.default_rng(seed)
    return lambda value: value + generator.normal(0.0, 10.0)


def impossible_from_zero(outcomes):
    return unreachable(outcomes[:, 1], 0.0, 10.0).astype(float)


def ours(source):
    return lambda value: release(np.array([value]), sensitivity=1.0, mu=0.1, noise=source)


def test_the_attack_breaks_naive_noise():
    found = distinguish(naive(0), 0.0, 1.0, 2000, statistic=impossible_from_zero, claim=CLAIM, confidence=0.999)
    assert found.violates and found.epsilon_lower > 1.0 > CLAIM.epsilon(1e-5)
    assert found.errors["claim"][0] == 0  # never on the data: each hit is a proof
    blind = distinguish(naive(0), 0.0, 1.0, 2000, claim=CLAIM, confidence=0.999)
    assert not blind.violates  # without looking at the bits there is nothing to see


@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(7)], ids=["secure", "seeded"])
def test_the_attack_fails_on_our_release(source):
    """Confidence 99.9 % each, three scores and two sources: false alarm ≤ 0.6 % in all."""
    scores = impossible_from_zero, lambda t: lowest_bits(t[:, 1:]), lambda t: -lowest_bits(t[:, 1:])
    for score in scores:
        assert not distinguish(ours(source), 0.0, 1.0, 1000, statistic=score, claim=CLAIM, confidence=0.999).violates


def test_every_answer_of_ours_lies_on_the_public_grid_and_every_grid_point_is_possible_for_both():
    step = grid_step(gaussian_scale(1.0, 0.1), 1.0, 1)
    for value in (0.0, 1.0, 1 / 3, -0.1):
        answers = np.array([ours(SecureNoise())(value)[0] for _ in range(300)])
        assert np.all(answers / step == np.rint(answers / step))
        # the last two bits of the count are uniform whatever the value is (χ² with 3 degrees, false alarm 1e-6 each)
        counts = np.bincount((answers / step).astype(np.int64) % 4, minlength=4)
        assert np.sum((counts - 75.0) ** 2) / 75.0 < chi2.isf(1e-6, 3)


def test_reachability_separates_naive_neighbours_and_not_ours():
    """Given an answer, try whether value 0 or 1 could have produced it at all."""
    generator = np.random.default_rng(1)
    noise = generator.normal(0.0, 1.0, 2000)
    assert not unreachable(1.0 + 10.0 * noise, 1.0, 10.0).any()
    assert unreachable(0.0 + 10.0 * noise, 1.0, 10.0).mean() > 0.05  # answers that value 1 can never give
    source = SecureNoise()
    for value in (0.0, 1.0):
        answers = np.array([ours(source)(value)[0] for _ in range(200)])
        step = grid_step(gaussian_scale(1.0, 0.1), 1.0, 1)
        for center in (0.0, 1.0):  # every grid answer is reachable from either value
            counts = np.rint(answers / step) - np.rint(center / step)
            assert np.all(counts * step + np.rint(center / step) * step == answers)


def test_spacing_exponent_on_known_floats():
    assert spacing_exponent(np.array([5.0, 0.5, 3 * 2.0**-30, 2.0**60])).tolist() == [0.0, -1.0, -30.0, 60.0]
    assert spacing_exponent(0.0) == 0.0


class TestExactSampler:
    """The policy `exact`, at its sampler: integers from the discrete Gaussian that it promises."""

    def test_small_scale_mass_function(self):
        """χ² against exp(-k²/2σ²)/Σ at σ = 1.5 over 6,000 draws; false alarm 1e-6."""
        drawn = ExactNoise().integers(1.5, 6000)
        support = np.arange(-5, 6)
        mass = np.exp(-(np.arange(-60, 61) ** 2) / (2 * 1.5**2))
        mass = mass[55:66] / mass.sum()
        expected = np.r_[mass, 1 - mass.sum()] * len(drawn)
        counts = np.array([np.sum(drawn == k) for k in support] + [np.sum(np.abs(drawn) > 5)])
        assert np.sum((counts - expected) ** 2 / expected) < chi2.isf(1e-6, len(counts) - 1)

    def test_printed_variances(self):
        """σ² = 4 gives variance 4.0000000 and σ² = 0.25 gives 0.2150126751 (C11), within six standard errors."""
        for scale, variance in ((2.0, 4.0), (0.5, 0.2150126751)):
            drawn = ExactNoise().integers(scale, 8000).astype(float)
            spread = math.sqrt(np.mean((drawn**2 - variance) ** 2) / len(drawn))
            assert abs(np.mean(drawn**2) - variance) < 6 * spread

    def test_large_scale_is_gaussian_and_low_bits_are_uniform(self):
        """At the scale that releases use (≥ 2²⁰ steps): Kolmogorov–Smirnov and parity, false alarm 1e-6 each."""
        drawn = ExactNoise().integers(2.0**20, 2000)
        ordered = np.sort(drawn) / 2.0**20
        gap = np.max(np.abs(norm.cdf(ordered) - (np.arange(2000) + 0.5) / 2000))
        assert gap < math.sqrt(-math.log(1e-6 / 2) / (2 * 2000))
        counts = np.bincount(drawn % 8, minlength=8)
        assert np.sum((counts - 250.0) ** 2) / 250.0 < chi2.isf(1e-6, 7)

    def test_release_is_private_and_the_attack_fails(self):
        found = distinguish(
            ours(ExactNoise()), 0.0, 1.0, 200, statistic=lambda t: -lowest_bits(t[:, 1:]), claim=CLAIM, confidence=0.999
        )
        assert not found.violates and found.repeats <= 2

    def test_discrete_profile_differs_from_the_gaussian_one_as_printed(self):
        """C11: σ = 10, Δ = 1: δ(.1) = .0087623539, δ(.3) = 4.45648e-5; at 2²⁰ steps a scale the gap is below the slack."""
        assert _discrete_delta(0.1, 10.0, 1) == pytest.approx(0.0087623539, rel=1e-8)
        assert _discrete_delta(0.3, 10.0, 1) == pytest.approx(4.45648e-5, rel=1e-5)
        sigma, shift = 2000.0, 200  # μ = 0.1, as a release with the grid 2,000 steps a scale would have
        claimed = CLAIM.delta(0.2)
        assert abs(_discrete_delta(0.2, sigma, shift) / claimed - 1) < 2e-3


def _discrete_delta(epsilon, sigma, shift):
    support = np.arange(-math.ceil(12 * sigma), math.ceil(12 * sigma) + 1)
    p = np.exp(-((support - shift) ** 2) / (2 * sigma**2))
    q = np.exp(-(support**2) / (2 * sigma**2))
    return float(np.sum(np.maximum(p / p.sum() - math.exp(epsilon) * q / q.sum(), 0.0)))
