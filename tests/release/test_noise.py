"""Noise: right variance, on a public grid, never shared between two draws."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from scipy import stats

from dperm.release.noise import (
    RELEASE_SLACK,
    GridNoise,
    SecureNoise,
    SeededNoise,
    gamma_norm_vector,
    gaussian_scale,
    grid_step,
    noise_source,
    release,
)


@pytest.mark.parametrize("policy", ["secure", "seeded", "exact"])
def test_release_has_the_declared_variance(policy):
    """10,000 draws: the sample variance lies within 6 % of σ² unless an event of probability 3e-5 happens; half noise fails."""
    if policy == "exact":
        pytest.importorskip("opendp", reason="the extra dperm[exact] is not installed")
    noise = noise_source("secure" if policy == "seeded" else policy, random_state=1 if policy == "seeded" else None)
    values = release(np.zeros(10_000), sensitivity=2.0, mu=0.5, noise=noise)
    assert np.var(values) == pytest.approx((RELEASE_SLACK * 4.0) ** 2, rel=0.06)


def test_release_is_gaussian_around_the_value():
    """Kolmogorov-Smirnov at level 1e-6."""
    values = release(np.full(20_000, 3.0), sensitivity=1.0, mu=1.0, noise=SeededNoise(5))
    assert stats.kstest((values - 3.0) / gaussian_scale(1.0, 1.0), "norm").pvalue > 1e-6


def test_released_numbers_lie_on_the_grid():
    scale = gaussian_scale(0.7, 0.1)
    values = release(np.array([0.123456789, -5.0]), sensitivity=0.7, mu=0.1, noise=SecureNoise())
    steps = values / grid_step(scale, 0.7, 2)
    np.testing.assert_array_equal(steps, np.rint(steps))


def test_the_grid_costs_less_than_the_slack():
    for size in (1, 100, 10**6):
        for mu in (1e-4, 0.1, 10.0):
            assert np.sqrt(size) * grid_step(gaussian_scale(1.0, mu), 1.0, size) <= 2e-4


def test_gamma_norm_vector_has_gamma_norm_and_no_preferred_direction():
    """Norms against Gamma(p) and one coordinate against its symmetric law, both at level 1e-6."""
    noise = SeededNoise(11)
    draws = np.array([gamma_norm_vector(4, 0.5, noise) for _ in range(4_000)])
    norms = np.linalg.norm(draws, axis=1)
    assert stats.kstest(norms, "gamma", args=(4, 0, 0.5)).pvalue > 1e-6
    assert stats.wilcoxon(draws[:, 0]).pvalue > 1e-6
    assert norms.mean() == pytest.approx(4 * 0.5, rel=0.05)


def test_secure_noise_is_never_repeated_by_copies():
    source = SecureNoise()
    twins = [source, copy.copy(source), copy.deepcopy(source), pickle.loads(pickle.dumps(source))]
    first = {float(twin.normal(1.0, 1)[0]) for twin in twins}
    assert len(first) == 4


def test_seeded_noise_repeats_and_says_so():
    assert SeededNoise(3).normal(1.0, 2).tolist() == SeededNoise(3).normal(1.0, 2).tolist()
    assert noise_source(random_state=3).policy == "seeded"
    assert noise_source(random_state=np.random.RandomState(0)).policy == "seeded"
    assert noise_source(random_state=np.random.default_rng(0)).policy == "seeded"


def test_unknown_policies_and_forgotten_seeds_are_named():
    with pytest.raises(ValueError, match="Expected noise in"):
        noise_source("pseudo")
    with pytest.raises(ValueError, match="random_state"):
        noise_source("seeded")


def test_exact_noise_refuses_what_it_cannot_draw():
    with pytest.raises(ValueError, match="Gaussian noise only"):
        gamma_norm_vector(2, 1.0, noise_source("exact"))


def test_large_draws_have_a_key_for_every_part_and_are_gaussian():
    """300,000 numbers from nineteen keys: no part repeats another; variance within 2 % (by chance 1e-13; halved: 75 % off)."""
    keys = []

    class Counted(SecureNoise):
        def generator(self):
            keys.append(1)
            return super().generator()

    values = Counted().normal(3.0, (300, 1000)).ravel()
    assert len(keys) == 19 and len(np.unique(values)) > 299_990
    assert np.var(values) == pytest.approx(9.0, rel=0.02)
    assert stats.kstest(values / 3.0, "norm").pvalue > 1e-6
    assert abs(np.corrcoef(values[:60_000], values[60_000:120_000])[0, 1]) < 0.03


def test_noise_that_is_drawn_first_is_the_noise_of_a_release():
    """The noise follows from public numbers: drawn before the value is known it is the same, to the bit."""
    values = np.random.default_rng(0).normal(size=500)
    ahead = GridNoise.drawn((500,), sensitivity=2.0, mu=0.3, noise=SeededNoise(3)).added_to(values)
    np.testing.assert_array_equal(ahead, release(values, sensitivity=2.0, mu=0.3, noise=SeededNoise(3)))


def test_noise_is_added_where_the_sum_is():
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).normal(size=500)
    for device in ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]:
        noise = GridNoise.drawn((500,), sensitivity=2.0, mu=0.3, noise=SeededNoise(3))
        found = noise.added_to(torch.tensor(values, device=device))
        np.testing.assert_array_equal(found.cpu().numpy(), release(values, sensitivity=2.0, mu=0.3, noise=SeededNoise(3)))


@pytest.mark.parametrize("seed", [-1, np.int64(-3)])
def test_a_seed_below_zero_is_refused_by_its_name(seed):
    with pytest.raises(ValueError, match=r"^Expected random_state ≥ 0, found -\d\. Leave it out for a private fit\.$"):
        noise_source(random_state=seed)
