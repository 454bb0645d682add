"""Printed numbers that belong to no single mechanism: Rényi baselines, the covariance of descent, errors of others."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import (
    GaussianDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.rdp import RdpAccountant
from scipy.stats import norm

from dperm.mechanisms import Gradient, Target
from dperm.privacy import ObjectiveEvent, gaussian_delta, gaussian_epsilon, gaussian_mu
from dperm.problem import DataBounds, Interval, LogisticLoss, Problem, SquaredLoss
from dperm.release.noise import gaussian_scale
from dperm.rows import MemoryRows
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm
from dperm.walk.fitting import fit
from vectors import VECTORS, agrees


def renyi(event, relation, delta):
    accountant = RdpAccountant(neighboring_relation=relation)
    accountant.compose(event)
    return accountant.get_epsilon(delta)


def test_renyi_baselines_that_exact_accounting_beats():
    row = VECTORS["C1_3_renyi"]["sampled"]
    event = SelfComposedDpEvent(PoissonSampledDpEvent(row["rate"], GaussianDpEvent(row["noise"])), row["steps"])
    assert agrees(renyi(event, NeighboringRelation.ADD_OR_REMOVE_ONE, row["delta"]), row["epsilon"])
    row = VECTORS["C1_3_renyi"]["without_replacement"]
    event = SampledWithoutReplacementDpEvent(row["n"], row["batch"], GaussianDpEvent(row["noise"]))
    found = renyi(SelfComposedDpEvent(event, row["steps"]), NeighboringRelation.REPLACE_ONE, row["delta"])
    assert agrees(found, row["epsilon"])


def test_renyi_form_of_redberg_and_its_improvement():
    """t + D²/2 + log(E-moment)/(α-1) of a folded normal; t = |log(1 - β/λ)| printed, log(1 + β/λ) improved."""
    row = VECTORS["C4_1_renyi"]["redberg"]
    D, ratio, order = 1 / row["sigma"], row["beta"] / row["ridge"], row["alpha"] - 1

    def at(t):
        return t + D * D / 2 + (D * D * order**2 / 2 + math.log(2 * norm.cdf(D * order))) / order

    assert agrees(at(-math.log1p(-ratio)), row["printed"])
    assert agrees(at(math.log1p(ratio)), row["improved"])


def test_covariance_of_noisy_descent_is_the_printed_one():
    """η²σ²(1 - (1-ηλ)^{2T})/(1 - (1-ηλ)²), and the shipped descent has it: 3,000 runs in one, false alarm below 1e-5."""
    row = VECTORS["C6_4"]["covariance"]
    eta, sigma, steps = row["step_size"], row["noise"], row["steps"]
    for curvature, printed in zip(row["curvature"], row["printed"]):
        shrink = (1 - eta * curvature) ** 2
        value = eta**2 * sigma**2 * (1 - shrink**steps) / (1 - shrink)
        assert agrees(value, printed)
    n, d = 40, 3000  # rows (1, …, 1)/√d·s make the Hessian rank one; noise orthogonal to it has curvature 0: λ = 0 exactly
    problem = Problem(SquaredLoss(), data=DataBounds(1.0, Interval(-1.0, 1.0)))
    target = Target(1.0, 1e-6, "zero-out")
    mechanism = Gradient(steps=steps, step_size=eta, clip=0.1, momentum=0.0, output="last")
    release = fit(problem, MemoryRows(np.zeros((n, d)), np.zeros(n)), target, mechanism, random_state=0)
    flat = eta**2 * release.plan.stages[0].settings["noise_of_mean"] ** 2 * steps
    assert np.var(release.w) == pytest.approx(flat, rel=0.12)


def test_cross_entropy_with_signed_labels_is_not_a_loss():
    """E16: -y log p - (1-y) log(1-p) at y = -1 is z + log(1 + e^z): convex, unbounded below: nothing to minimise."""
    row = VECTORS["E16"]

    def wrong(z):
        p = 1 / (1 + math.exp(-z))
        return math.log(p) - 2 * math.log(1 - p)

    assert agrees(wrong(row["z"]), row["cross_entropy"])
    assert agrees(float(LogisticLoss().value(np.array([row["z"]]), np.array([-1.0]))[0]), row["logistic"])
    assert wrong(-500.0) < -400
    assert wrong(-10.0) + wrong(0.0) >= 2 * wrong(-5.0)
    assert wrong(3.0) == pytest.approx(3.0 + math.log1p(math.exp(3.0)))


def test_bolt_on_sensitivity_does_not_shrink_with_the_batch():
    """Exact recursion of the worst neighbour for strongly convex permutation SGD, steps 1/(γt), batch b."""
    row = VECTORS["B6"]["bolt_on"]
    n, batch, gamma = row["n"], row["batch"], row["strong_convexity"]
    gap, worst = 0.0, 0.0
    for place in range(n // batch):  # the batch that holds the changed row
        gap = 0.0
        for step in range(1, n // batch + 1):
            gap *= 1 - 1 / step
            if step - 1 == place:
                gap += 2 * row["lipschitz"] / batch / (gamma * step)
        worst = max(worst, gap)
    assert worst == pytest.approx(float(row["correct"]), rel=1e-9)
    assert worst == pytest.approx(10 * float(row["printed"]), rel=1e-9)


def test_original_adassp_spends_less_than_it_says():
    """Three releases with scale √ln(6/δ)/(ε/3) of their sensitivity, composed exactly."""
    row = VECTORS["B6"]["adassp"]
    scale = math.sqrt(math.log(6 / row["delta"])) / (row["epsilon"] / 3)
    assert agrees(gaussian_epsilon(row["delta"], math.sqrt(3) / scale), row["epsilon_true"])


@pytest.mark.parametrize("step_size", [0.5, 4.0])
def test_noise_outside_the_step_breaks_privacy_and_ours_is_inside(step_size):
    """E29: θ - η∇ + Z with the Z of θ - η(∇ + Z) has shift η·Δ/σ; beyond η = 1 the printed listing spends more than ε."""
    epsilon, delta, clip, n, d = 1.0, 1e-6, 0.5, 20, 4000
    mu = gaussian_mu(epsilon, delta)
    sigma = gaussian_scale(2 * clip, mu) / n
    x = np.zeros((n, 1))
    moved = []
    for value in (1.0, -1.0):
        x[0] = value
        rows = MemoryRows(x, np.ones(n)).bounded(DataBounds(1.0, Interval(-1.0, 1.0)))
        moved.append(rows.sum(GradientTerm(LogisticLoss(), np.zeros(1), clip, Features(0.0)), 2.0**-40)[0] / n)
    shift = abs(moved[0] - moved[1])
    printed = step_size * shift / sigma
    assert (gaussian_epsilon(delta, printed) > epsilon) == (step_size > 1)
    problem = Problem(SquaredLoss(), data=DataBounds(1.0, Interval(-1.0, 1.0)))
    mechanism = Gradient(steps=1, step_size=step_size, clip=clip, momentum=0.0, output="last")
    release = fit(problem, MemoryRows(np.zeros((n, d)), np.zeros(n)), Target(epsilon, delta), mechanism, random_state=1)
    ours = step_size * shift / np.std(release.w)  # the measured noise of the released step
    assert ours == pytest.approx(mu, rel=0.06)
    assert gaussian_delta(epsilon, step_size * shift / (step_size * sigma)) <= delta


def test_a_bracket_lost_in_the_variance_costs_privacy():
    """E29: 4d+1 printed for 4(d+1): the noise is too small by √((4d+1)/(4d+4)), and ε grows by as much."""
    for d in (1, 10):
        short = math.sqrt((4 * d + 1) / (4 * d + 4))
        assert gaussian_epsilon(1e-6, gaussian_mu(1.0, 1e-6) / short) > 1.0


def test_objective_perturbation_is_not_gaussian_even_at_a_full_ridge():
    """C4.2: at λ = R²/ε the profile stays below one Gaussian release at ε, and above it at smaller ε: it is not μ-GDP.

    The neighbours: 18.8 million rows of size 1e-6 push θ by a constant -9.4 with hardly any curvature, so that the added row
    sits at slope 1/2, where the log-determinant is largest, just where its noise is improbable. Without them it stays below.
    """
    row = VECTORS["C4_2_counterexample"]
    theta = np.linspace(-60.0, 60.0, 400_001)
    push = (1e-6, -1.0, 2e6 * row["pull"])  # (size, label, how many): their slopes are one half

    def density(rows):
        gradient, curvature = row["ridge"] * theta, np.full_like(theta, row["ridge"])
        for x, y, times in rows:
            slope = 1 / (1 + np.exp(y * x * theta))
            gradient = gradient - times * y * x * slope
            curvature = curvature + times * x * x * slope * (1 - slope)
        return norm.pdf(gradient, scale=row["sigma"]) * curvature

    def profile(epsilon, *others):
        more, less = density([*others, (1.0, 1.0, 1.0)]), density(others)
        assert np.trapezoid(more, theta) == pytest.approx(1.0, abs=1e-6)
        forth = np.trapezoid(np.maximum(more - math.exp(epsilon) * less, 0.0), theta)
        return max(float(forth), float(np.trapezoid(np.maximum(less - math.exp(epsilon) * more, 0.0), theta)))

    mu = 1 / row["sigma"]
    assert agrees(profile(row["epsilon"], push), row["delta"])
    assert agrees(gaussian_delta(row["epsilon"], mu), row["gaussian"])
    assert profile(row["epsilon"], push) > 1.003 * gaussian_delta(row["epsilon"], mu)
    assert profile(row["epsilon"]) < gaussian_delta(row["epsilon"], mu)
    assert profile(1.0, push) <= gaussian_delta(1.0, mu)
    booked = ObjectiveEvent("self-bounding", mu, 1.0)
    assert profile(row["epsilon"], push) <= booked.delta(row["epsilon"], 0.0)
