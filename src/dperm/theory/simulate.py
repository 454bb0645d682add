"""Experiments: data on which a theorem's assumptions hold, the mechanism run many times, the measured number
beside the bound.

Self-contained numpy versions of the mechanisms, small enough to read next to the theorem. They draw from the
generator they are given, so they are reproducible and **not private**; releases come from
`dperm.mechanisms`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, gammainc, gammaincinv, ndtri

from dperm.theory.composition import composition_epsilon
from dperm.theory.descent import gradient_descent_plan, gradient_descent_risk, gradient_noise, projected_gradient_risk
from dperm.theory.exponential import exponential_erm_risk, exponential_mechanism_tail
from dperm.theory.generators import Generator
from dperm.theory.perturbation import objective_noise, objective_perturbation_risk, output_perturbation_risk, output_sensitivity
from dperm.theory.population import PhasedPlan, generalisation_gap, phased_sgd_plan, phased_sgd_risk
from dperm.theory.rank import rank_risk
from dperm.theory.sample_sizes import pac_sample_size, uniform_convergence_sample_size
from dperm.theory.sampling import (
    ball_rows,
    gamma_vectors,
    gumbel,
    logistic_data,
    logistic_gradient,
    logistic_newton,
    logistic_risk,
    project_ball,
    sphere,
    threshold_errors,
    thresholds,
)

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Experiment:
    """`measured`: one number per repetition; their mean estimates what `bound` bounds.

    `frequency=True`: the numbers are failures (0 or 1) and the bound is β.
    """

    name: str
    bound: float
    measured: Array
    frequency: bool = False

    @property
    def mean(self) -> float:
        return float(np.mean(self.measured))

    @property
    def ratio(self) -> float:
        """measured / bound: 1 means tight."""
        return self.mean / self.bound

    def error(self) -> float:
        """Standard error of the mean."""
        return float(np.std(self.measured, ddof=1)) / math.sqrt(len(self.measured))

    def upper(self, confidence: float = 0.999) -> float:
        """One-sided upper confidence limit of the true mean: exact (Clopper–Pearson) for frequencies, else
        normal.
        """
        size = len(self.measured)
        if self.frequency:
            hits = int(self.measured.sum())
            return 1.0 if hits == size else float(betaincinv(hits + 1, size - hits, confidence))
        return self.mean + float(ndtri(confidence)) * self.error()


def uniform_convergence(
    generator: Generator, hypotheses: int = 64, alpha: float = 0.08, beta: float = 0.1, flip: float = 0.2, repeats: int = 1500
) -> Experiment:
    """Thresholds on [0,1]; failure: some threshold's population error exceeds its sample error by more than
    α.
    """
    n = uniform_convergence_sample_size(hypotheses, alpha, beta)
    population = flip + (1 - 2 * flip) * np.abs(thresholds(hypotheses) - 0.5)
    failures = [float(np.max(population - threshold_errors(generator, n, hypotheses, flip) / n) > alpha) for _ in range(repeats)]
    return Experiment("Uniform convergence (failures)", beta, np.asarray(failures), frequency=True)


def exponential_tail(
    generator: Generator, hypotheses: int = 50, epsilon: float = 0.5, beta: float = 0.1, repeats: int = 20_000
) -> Experiment:
    """Gumbel-max on the hardest scores: one hypothesis at 0, all others exactly one gap below. Failure:
    another one wins.
    """
    gap = exponential_mechanism_tail(hypotheses, 1.0, epsilon, beta)
    scores = np.full(hypotheses, -gap)
    scores[0] = 0.0
    noisy = scores * epsilon / 2 + gumbel(generator, (repeats, hypotheses))
    failures = (noisy.argmax(axis=1) != 0).astype(float)
    return Experiment("Exponential mechanism tail (failures)", beta, failures, frequency=True)


def pac_learner(
    generator: Generator,
    hypotheses: int = 51,
    alpha: float = 0.1,
    beta: float = 0.1,
    epsilon: float = 0.5,
    realizable: bool = False,
    repeats: int = 1000,
) -> Experiment:
    """The private learner with m = pac_sample_size records. Failure: err(ĥ) > min err + α."""
    n = pac_sample_size(hypotheses, alpha, beta, epsilon, realizable=realizable)
    flip = 0.0 if realizable else 0.2
    population = flip + (1 - 2 * flip) * np.abs(thresholds(hypotheses) - 0.5)
    failures = np.empty(repeats)
    for i in range(repeats):
        wrong = threshold_errors(generator, n, hypotheses, flip)
        chosen = int(np.argmax(-wrong * epsilon / 2 + gumbel(generator, hypotheses)))
        failures[i] = population[chosen] > population.min() + alpha
    return Experiment("Private PAC learner (failures)", beta, failures, frequency=True)


def exponential_cone(
    generator: Generator, n: int = 200, d: int = 5, epsilon: float = 1.0, radius: float = 1.0, repeats: int = 20_000
) -> Experiment:
    """ℓ(θ;x) = ‖θ - x‖ with every record at 0, exact sampling: the radius is a truncated Gamma(d). Tight
    when n is large.
    """
    rate = epsilon * n / (2 * 2 * radius)  # k·n, k = ε/(κ L diam)
    share = gammainc(d, rate * radius) * np.asarray(generator.random(repeats))
    bound = exponential_erm_risk(n, d, 1.0, radius=radius, epsilon=epsilon, convex=True)
    return Experiment("Exponential mechanism, convex", bound, np.asarray(gammaincinv(d, share) / rate))


def output_perturbation(
    generator: Generator, n: int = 200, d: int = 5, epsilon: float = 1.0, smooth: bool = True, repeats: int = 20_000
) -> Experiment:
    """ℓ(θ;x) = ½‖θ - x‖² on the unit ball (L = 2, λ̄ = M̄ = 1): excess ½‖b‖². Smooth form: equality.

    `smooth=False` projects the result on the ball and compares with the Lipschitz form.
    """
    center = ball_rows(generator, n, d).mean(axis=0)
    released = center + output_sensitivity(n, 2.0, 1.0) / epsilon * gamma_vectors(generator, repeats, d)
    if not smooth:
        released = project_ball(released, 1.0)
    bound = output_perturbation_risk(n, d, 2.0, 1.0, epsilon=epsilon, smoothness=1.0 if smooth else None)
    name = f"Output perturbation, {'smooth' if smooth else 'Lipschitz'}"
    return Experiment(name, bound, np.sum((released - center) ** 2, axis=1) / 2)


def objective_perturbation(
    generator: Generator,
    n: int = 400,
    d: int = 3,
    epsilon: float = 1.0,
    delta: float | None = None,
    strong_convexity: float = 0.02,
    repeats: int = 400,
) -> Experiment:
    """Logistic regression on unit-norm rows, exact minimiser by Newton's method; excess of the regularised
    mean risk.
    """
    X, y = logistic_data(generator, n, d)
    scale = objective_noise(n, 1.0, strong_convexity, epsilon, delta, self_bounding=1.0)
    noise = gamma_vectors(generator, repeats, d) if delta is None else generator.standard_normal((repeats, d))
    tilts = np.vstack([np.zeros(d), scale * np.asarray(noise)])
    fitted = logistic_newton(X, y, n * strong_convexity, tilts)
    values = logistic_risk(X, y, fitted) + strong_convexity / 2 * np.sum(fitted**2, axis=1)
    bound = objective_perturbation_risk(n, d, 1.0, strong_convexity, epsilon=epsilon, delta=delta, self_bounding=1.0)
    return Experiment("Objective perturbation, logistic", bound, values[1:] - values[0])


def projected_gradient(generator: Generator, steps: int = 100, d: int = 5, repeats: int = 50) -> Experiment:
    """No noise, F(θ) = ‖θ - c‖ on the unit ball from its centre, random c on the sphere: how tight LD/√T is."""
    center = sphere(generator, repeats, d)
    theta, total = np.zeros((repeats, d)), np.zeros((repeats, d))
    step = 1.0 / math.sqrt(steps)
    for _ in range(steps):
        total += theta
        away = theta - center
        theta = project_ball(theta - step * away / np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-12), 1.0)
    bound = projected_gradient_risk(steps, 1.0, radius=1.0)
    return Experiment("Projected gradient, no noise", bound, np.linalg.norm(total / steps - center, axis=1))


def gradient_descent(
    generator: Generator,
    n: int = 400,
    d: int = 5,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    radius: float = 2.0,
    steps: int = 200,
    beta: float | None = None,
    repeats: int = 100,
) -> Experiment:
    """Logistic regression, projected noisy GD from 0 on a ball that holds the minimiser; averaged iterate.

    With `beta`: failures of the high-probability bound.
    """
    X, y = logistic_data(generator, n, d)
    best = logistic_newton(X, y, 1e-9, np.zeros((1, d)))
    assert float(np.linalg.norm(best)) <= radius, "the minimiser must lie in the ball for the reference value"
    plan = gradient_descent_plan(n, d, 1.0, radius=radius, epsilon=epsilon, delta=delta, steps=steps)
    theta, total = np.zeros((repeats, d)), np.zeros((repeats, d))
    for _ in range(steps):
        total += theta
        noisy = logistic_gradient(X, y, theta) + plan.noise * generator.standard_normal((repeats, d))
        theta = project_ball(theta - plan.step_size * noisy, radius)
    excess = logistic_risk(X, y, total / steps) - logistic_risk(X, y, best)[0]
    if beta is None:
        return Experiment("Noisy gradient descent, logistic", plan.risk, excess)
    limit = gradient_descent_risk(n, d, 1.0, radius=radius, epsilon=epsilon, delta=delta, steps=steps, beta=beta)
    return Experiment("Noisy gradient descent, logistic (failures)", beta, (excess > limit).astype(float), frequency=True)


def rank(
    generator: Generator,
    d: int = 10_000,
    rank: int = 20,
    n: int = 400,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    steps: int = 100,
    repeats: int = 20,
) -> Experiment:
    """Unprojected noisy GD in all d coordinates on logistic rows that span `rank` of them; nothing but the
    rows is low rank.

    X = Z Uᵀ with U (d × rank) orthonormal is kept as its two factors: the noise is drawn in full dimension,
    the products cost n·rank + rank·d.
    """
    Z, y = logistic_data(generator, n, rank)
    basis = np.linalg.qr(np.asarray(generator.standard_normal((d, rank))))[0]
    best = logistic_newton(Z, y, 1e-9, np.zeros((1, rank)))
    size = float(np.linalg.norm(best))
    noise = gradient_noise(n, 1.0, epsilon, delta, steps)
    step = size / math.sqrt(steps * (1 + rank * noise**2))
    mean = _mean_iterate(generator, basis, lambda inside: logistic_gradient(Z, y, inside), (steps, step, noise), repeats)
    excess = logistic_risk(Z, y, mean) - logistic_risk(Z, y, best)[0]
    bound = rank_risk(n, rank, 1.0, size, epsilon, delta, steps=steps)
    return Experiment(f"Rank theorem, logistic, d = {d:,}", bound, excess)


def _mean_iterate(
    generator: Generator, basis: Array, slope: Callable[[Array], Array], walk: tuple[int, float, float], repeats: int
) -> Array:
    """The averaged iterate, inside the span of the basis, of (steps, step, noise) of noisy descent in all d coordinates."""
    steps, step, noise = walk
    theta, total = np.zeros((repeats, len(basis))), np.zeros((repeats, basis.shape[1]))
    for _ in range(steps):
        inside = theta @ basis
        total += inside
        theta -= step * (slope(inside) @ basis.T + noise * generator.standard_normal(theta.shape))
    return np.asarray(total / steps)


def rank_hard(
    generator: Generator,
    d: int = 10_000,
    rank: int = 20,
    n: int = 400,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    steps: int = 400,
    repeats: int = 10,
) -> Experiment:
    """Data on which the √rank of the theorem shows: absolute loss, L = 1 and ‖θ*‖ = 1 whatever the rank.

    n - rank + 1 records ask ⟨u₁,θ⟩ = 1, one record per further direction asks ⟨uⱼ,θ⟩ = 0. The slope towards θ* = u₁ is constant,
    so the averaged iterate carries the distance term D²/(2ηT), half the bound, and η shrinks with the rank. (Unit-norm isotropic
    rows, as in `rank`, do not show it: their curvature per direction is 1/rank, which cancels the rank-fold noise.)
    """
    noise = gradient_noise(n, 1.0, epsilon, delta, steps)
    step = 1.0 / math.sqrt(steps * (1 + rank * noise**2))
    basis = np.linalg.qr(np.asarray(generator.standard_normal((d, rank))))[0]
    goal, weight = np.zeros(rank), np.full(rank, 1 / n)
    goal[0], weight[0] = 1.0, (n - rank + 1) / n
    mean = _mean_iterate(generator, basis, lambda inside: weight * np.sign(inside - goal), (steps, step, noise), repeats)
    bound = rank_risk(n, rank, 1.0, 1.0, epsilon, delta, steps=steps)
    return Experiment(f"Rank theorem, hard data, d = {d:,}", bound, np.abs(mean - goal) @ weight)


def composition(
    generator: Generator, rho: float = 0.01, count: int = 50, delta: float = 0.01, rule: str = "exact", repeats: int = 40_000
) -> Experiment:
    """Privacy loss of `count` Gaussian releases, each N(ρ/2, ρ); measured E(1 - e^{ε-loss})₊ at the ε of the
    rule, bound δ.
    """
    epsilon = composition_epsilon(rho, count, delta, rule)
    loss = np.zeros(repeats)
    for _ in range(count):
        loss += rho / 2 + math.sqrt(rho) * np.asarray(generator.standard_normal(repeats))
    return Experiment(f"{rule.capitalize()} composition", delta, np.maximum(0.0, -np.expm1(epsilon - loss)))


def _phases(generator: Generator, plan: PhasedPlan, theta: Array, slope: Callable[[Array], Array]) -> Array:
    """Phased descent on the unit ball: every phase starts where the last one ended, and ends at its noisy average."""
    for block, step, noise in zip(plan.blocks, plan.step_sizes, plan.noises):
        current, total = project_ball(theta, 1.0), np.zeros(theta.shape)
        for _ in range(block):
            total += current
            current = project_ball(current - step * slope(current), 1.0)
        theta = total / block + noise * generator.standard_normal(theta.shape)
    return theta


def phased_sgd(
    generator: Generator, n: int = 1024, d: int = 5, epsilon: float = 1.0, delta: float = 1e-6, repeats: int = 200
) -> Experiment:
    """ℓ(θ;x) = ½‖θ - x‖² on the unit ball, x = ±1/√d per coordinate with mean m: population excess ½‖θ - m‖²
    exactly.
    """
    plan = phased_sgd_plan(n, d, 2.0, 2.0, epsilon=epsilon, delta=delta, smoothness=1.0)
    probability = 0.8
    mean = np.full(d, (2 * probability - 1) / math.sqrt(d))

    def slope(current: Array) -> Array:
        return current - np.where(generator.random(current.shape) < probability, 1.0, -1.0) / math.sqrt(d)

    theta = _phases(generator, plan, np.zeros((repeats, d)), slope)
    return Experiment("Phased SGD, mean estimation", plan.risk, np.sum((theta - mean) ** 2, axis=1) / 2)


def phased_sgd_hard(
    generator: Generator, n: int = 1024, d: int = 5, epsilon: float = 1.0, delta: float = 1e-6, repeats: int = 300
) -> Experiment:
    """ℓ(θ;x) = -⟨x, θ⟩ on the unit ball from its centre, x = ±u with mean qu: population excess q(1 - ⟨u,θ⟩) exactly.

    q = 1/(η₁n₁) is so flat that the first pass only just gets from the centre to the boundary: the distance term shows.
    """
    plan = phased_sgd_plan(n, d, 1.0, 1.0, epsilon=epsilon, delta=delta, smoothness=0.0)
    slope = min(1.0, 1 / (plan.step_sizes[0] * plan.blocks[0]))
    first = np.eye(1, d)

    def falling(current: Array) -> Array:
        return np.where(generator.random(repeats) < (1 + slope) / 2, -1.0, 1.0)[:, None] * first

    theta = _phases(generator, plan, np.zeros((repeats, d)), falling)
    bound = phased_sgd_risk(n, d, 1.0, 1.0, epsilon=epsilon, delta=delta, smoothness=0.0)
    return Experiment("Phased SGD, hard data", bound, slope * (1 - theta[:, 0]))


def generalisation(generator: Generator, n: int = 100, d: int = 10, radius: float = 1.0, repeats: int = 500) -> Experiment:
    """ℓ(θ;x) = ⟨x, θ⟩, x uniform on the sphere: the largest gap over the ball is radius · ‖mean of x‖."""
    gaps = [radius * float(np.linalg.norm(sphere(generator, n, d).mean(axis=0))) for _ in range(repeats)]
    return Experiment("Generalisation gap, linear", generalisation_gap(n, lipschitz=1.0, radius=radius), np.asarray(gaps))


EXPERIMENTS: Final[dict[str, Callable[..., Experiment]]] = {
    "uniform-convergence": uniform_convergence,
    "exponential-tail": exponential_tail,
    "pac": pac_learner,
    "exponential-erm": exponential_cone,
    "output-perturbation": output_perturbation,
    "objective-perturbation": objective_perturbation,
    "projected-gradient": projected_gradient,
    "gradient-descent": gradient_descent,
    "rank": rank,
    "rank-hard": rank_hard,
    "composition": composition,
    "phased-sgd": phased_sgd,
    "phased-sgd-hard": phased_sgd_hard,
    "generalisation-gap": generalisation,
}
