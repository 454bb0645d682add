"""The quadrature itself: known profiles are inside the bar, and known errors are outside it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm.audit import densities
from dperm.audit.quadrature import Density, exact, neighbour_pairs, profile, pure_epsilon
from dperm.privacy import GDP, gaussian_delta, gaussian_mu
from dperm.problem import LogCoshLoss, LogisticLoss


@given(mu=st.floats(0.05, 4.0), epsilon=st.floats(0.0, 6.0))
@settings(max_examples=40, deadline=None)
def test_gaussian_profile_lies_in_the_bar(mu, epsilon):
    low, high = profile(densities.gaussian_output(mu, 1.0), densities.gaussian_output(0.0, 1.0), [epsilon])
    truth = gaussian_delta(epsilon, mu)
    assert low[0] <= truth * (1 + 1e-9) + 1e-14 and truth <= high[0] + 1e-14
    assert high[0] - low[0] <= 2e-3 * truth + 1e-12


def test_two_dimensional_gaussian_profile_lies_in_the_bar():
    low, high = profile(densities.gaussian_output([0.6, 0.8], 1.0), densities.gaussian_output([0.0, 0.0], 1.0), [0.5, 1.0])
    truth = np.array([gaussian_delta(e, 1.0) for e in (0.5, 1.0)])
    assert np.all(low <= truth) and np.all(truth <= high) and np.all(high - low < 0.03 * truth)


def test_laplace_profile_and_pure_epsilon():
    p, q = densities.gamma_norm_output(1.0, 0.5), densities.gamma_norm_output(0.0, 0.5)
    epsilons = np.array([0.0, 1.0, 1.9, 2.0, 2.1])
    truth = np.maximum(0.0, -np.expm1((epsilons - 2.0) / 2))  # δ(ε) = 1 - e^{(ε-Δ/b)/2}
    low, high = profile(p, q, epsilons)
    assert np.all(low <= truth + 1e-9) and np.all(truth <= high + 1e-9) and np.all(high - low < 1e-4)
    assert 1.99 < pure_epsilon(p, q) <= 2.0 + 1e-9


def test_two_dimensional_gamma_norm_noise_is_pure_and_a_gamma_per_coordinate_is_not():
    """exp(-‖b‖/s) with s = Δ/ε is ε-DP in the plane; independent Laplace coordinates with that scale lose √2 on a diagonal."""
    step = np.array([1.0, 1.0]) / math.sqrt(2)
    right = pure_epsilon(densities.gamma_norm_output(step, 1.0), densities.gamma_norm_output([0.0, 0.0], 1.0))
    assert 0.9 < right <= 1.0 + 1e-9

    def laplace(center):
        def log(points):
            return -np.abs(points - center).sum(axis=1) - 2 * math.log(2)

        return Density(log, ((-30.0, 30.0), (-30.0, 30.0)))

    assert pure_epsilon(laplace(step), laplace(np.zeros(2))) > 1.35


def test_densities_have_mass_one():
    data = (np.array([1.0, -0.5, 0.3]), np.array([1.0, -1.0, 1.0]))
    made = [
        densities.gaussian_output(0.3, 2.0),
        densities.gamma_norm_output(0.3, 2.0),
        densities.objective_perturbation(data, loss=LogisticLoss(), ridge=1.0, noise=3.0),
        densities.objective_perturbation(data, loss=LogisticLoss(), ridge=1.0, noise=2.0, pure=True),
        densities.exponential_mechanism(data, loss=LogisticLoss(), inverse_temperature=2.0, box=(-3.0, 2.0)),
        densities.gradient_descent(data, loss=LogisticLoss(), steps=3, step_size=1.0, clip=0.5, noise=0.4, n=3),
    ]
    for density in made:
        grid = np.linspace(*density.box[0], 200_001)
        assert np.trapezoid(np.exp(density.log(grid)), grid) == pytest.approx(1.0, abs=2e-7)


def test_objective_perturbation_density_matches_its_solver():
    """Draw b, minimise, compare the empirical distribution with the density (Kolmogorov–Smirnov, false alarm 1e-6)."""
    from scipy.optimize import brentq
    from scipy.stats import kstwo

    x, y = np.array([1.0, -0.5, 0.3]), np.array([1.0, -1.0, 1.0])
    loss, generator = LogisticLoss(), np.random.default_rng(0)
    drawn = []
    for b in generator.normal(0, 3.0, 3000):
        drawn.append(brentq(lambda w, b=b: float(np.sum(loss.slope(x * w, y) * x)) + w + b, -60, 60))
    density = densities.objective_perturbation((x, y), loss=loss, ridge=1.0, noise=3.0)
    grid = np.linspace(*density.box[0], 20_001)
    cumulative = np.cumsum(np.exp(density.log(grid))) * (grid[1] - grid[0])
    ordered = np.sort(drawn)
    gap = np.max(np.abs(np.interp(ordered, grid, cumulative) - (np.arange(3000) + 0.5) / 3000))
    assert gap < kstwo.ppf(1 - 1e-6, 3000)


@pytest.mark.parametrize(("ridge", "holds"), [(1.0, True), (0.02, False)])
def test_objective_perturbation_needs_its_ridge(ridge, holds):
    """Logistic, ‖x‖ ≤ 1, one row added: λ ≥ R²/ε makes ε = 1 cost one Gaussian release; far below it the claim fails."""
    sigma = 1 / gaussian_mu(1.0, 1e-3)
    pairs = [
        ((np.array(rest), np.ones(len(rest))), (np.array([*rest, 1.0]), np.ones(len(rest) + 1)))
        for rest in ([0.0], [0.5], [-1.0], [1.0, 1.0])
    ]

    def density(data):
        return densities.objective_perturbation(data, loss=LogisticLoss(), ridge=ridge, noise=sigma)

    found = exact(density, pairs, epsilons=[1.0])
    assert bool(found.high[0] <= 1e-3 * (1 + 1e-3)) is holds
    assert bool(found.low[0] > 1e-3) is not holds


def test_curvature_scaled_by_the_norm_instead_of_its_square_is_caught():
    """The witness of the mathematics page, B.6: CMS with c = R/4 in place of R²/4, ε = 1, x = R against x = 0."""
    printed = {10.0: 1.236, 20.0: 1.783}
    for norm, ratio in printed.items():
        assert _log_ratio(norm, curvature=norm / 4) == pytest.approx(ratio, abs=2e-3)
        assert _log_ratio(norm, curvature=norm**2 / 4) <= 1.0


def _log_ratio(norm, curvature):
    """log density ratio at the worst output of CMS objective perturbation, λ = 1, one record x = norm against x = 0."""
    ridge, epsilon = 1.0, 1.0
    left = epsilon - 2 * math.log1p(curvature / ridge)
    if left <= 0:  # CMS case II: raise the ridge until half of epsilon is left
        ridge, left = curvature / math.expm1(epsilon / 4), epsilon / 2
    scale = 2 * norm / left
    sets = [(np.array([0.0, x]), np.array([1.0, 1.0])) for x in (0.0, norm)]
    p, q = (densities.objective_perturbation(d, loss=LogisticLoss(), ridge=ridge, noise=scale, pure=True) for d in sets)
    grid = np.linspace(-0.5, 0.5, 20_001)
    return float(np.max(np.abs(p.log(grid) - q.log(grid))))


def test_regularised_exponential_mechanism_attains_its_bound():
    """C5.5: exp(-kF), F λ-strongly convex, is κL√(k/λ)-GDP, with equality for a linear loss."""

    class Linear:
        def value(self, z, y):
            return z * y

    ridge, temperature = 5.0, 0.0700362048
    sets = [(np.array([x]), np.array([1.0])) for x in (1.0, -1.0)]

    def density(data):
        return densities.exponential_mechanism(
            data, loss=Linear(), inverse_temperature=temperature, box=(-25.0, 25.0), ridge=ridge
        )

    mu = 2 * math.sqrt(temperature / ridge)
    found = exact(density, [tuple(sets)], epsilons=np.linspace(0, 2, 21))
    truth = np.array([gaussian_delta(e, mu) for e in found.epsilons])
    assert np.all(np.abs(found.delta - truth) <= found.error + 1e-9)
    assert not found.breaks(GDP(mu * (1 + 1e-6), "replace-one")) and found.breaks(GDP(0.98 * mu, "replace-one"))


def test_exponential_mechanism_with_a_bounded_range_is_pure():
    """k = ε/range over the box: log p/q ≤ ε; twice that k breaks it."""
    loss, box = LogisticLoss(), (-1.0, 1.0)
    range_ = 2 * math.log1p(math.e) - 2 * math.log1p(math.exp(-1))  # replace-one, ‖x‖ ≤ 1, difference of two losses spans this
    rest = (np.array([0.5]), np.array([1.0]))
    for factor, ok in ((1.0, True), (2.0, False)):
        worst = 0.0
        for one, two in neighbour_pairs((-1.0, 0.0, 1.0), (-1.0, 1.0), rest):
            p, q = (
                densities.exponential_mechanism(d, loss=loss, inverse_temperature=factor / range_, box=box) for d in (one, two)
            )
            worst = max(worst, pure_epsilon(p, q))
        assert bool(worst <= 1.0) is ok


def test_two_sided_losses_reach_their_bound():
    """C4.3, printed: δ(1) = 2.2550e-6 at τ = 1, σ = 4.2, λ = 1.94487 (worst one-dimensional case equals the bound)."""
    bound = 2 * gaussian_delta(1.0, 1 / 4.2)
    assert bound == pytest.approx(2.2550e-6, rel=1e-4)
    pairs = [
        ((np.array([1.0] * k), np.full(k, far)), (np.array([1.0] * (k + 1)), np.r_[np.full(k, far), y]))
        for k, far, y in ((1, 0.0, 0.0), (1, 1.0, -1.0), (2, 5.0, 5.0), (1, 40.0, 0.0))
    ]

    def density(data):
        return densities.objective_perturbation(data, loss=LogCoshLoss(scale=1.0), ridge=1.94487, noise=4.2)

    found = exact(density, pairs, epsilons=[1.0])
    assert found.high[0] <= bound * (1 + 1e-3)


def test_no_pairs_is_refused():
    with pytest.raises(ValueError, match="at least one pair"):
        exact(lambda data: densities.gaussian_output(0.0, 1.0), [])
