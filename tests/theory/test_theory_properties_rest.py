"""Property tests of the remaining functions: monotone, units, inverses, and what cannot happen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm import theory
from dperm.privacy import gaussian_delta
from dperm.problem import DataBounds, Interval, LogisticLoss, Problem, Ridge, ZeroOneLoss
from theory_registry import property_of

sizes = st.integers(2, 10**6)
dimensions = st.integers(1, 200)
budgets = st.floats(0.05, 10.0)
factors = st.floats(1.01, 20.0)
shares = st.floats(1e-6, 0.5)
seeds = st.integers(0, 10**6)
relations = st.sampled_from(["replace-one", "zero-out", "add-remove"])
quick = settings(max_examples=60, deadline=None, derandomize=True)


@property_of("agnostic_sample_size")
@quick
@given(hypotheses=st.integers(1, 10**9), alpha=st.floats(0.001, 0.9), beta=shares, factor=factors)
def test_agnostic_sample_size(hypotheses: int, alpha: float, beta: float, factor: float) -> None:
    size = theory.agnostic_sample_size(hypotheses, alpha, beta)
    assert size <= theory.agnostic_sample_size(math.ceil(hypotheses * factor), alpha, beta)
    assert size <= theory.agnostic_sample_size(hypotheses, alpha / factor, beta)
    assert size <= theory.agnostic_sample_size(hypotheses, alpha, beta / factor)
    # two halves of α, each by one-sided convergence: more than one-sided at α/2, never more than two-sided at α/2
    assert theory.uniform_convergence_sample_size(hypotheses, alpha / 2, beta) <= size
    assert size <= theory.uniform_convergence_sample_size(hypotheses, alpha / 2, beta, two_sided=True)
    half = theory.agnostic_sample_size(hypotheses, alpha / 2, beta)
    assert 4 * (size - 1) <= half <= 4 * size


@property_of("output_sensitivity")
@quick
@given(
    n=sizes, lipschitz=st.floats(0.01, 100), curvature=st.floats(1e-4, 10), tolerance=st.floats(0, 1), factor=factors,
    relation=relations,
)  # fmt: skip
def test_output_sensitivity(n: int, lipschitz: float, curvature: float, tolerance: float, factor: float, relation: str) -> None:
    def moved(**other: Any) -> float:
        return theory.output_sensitivity(
            **{
                "n": n,
                "lipschitz": lipschitz,
                "strong_convexity": curvature,
                "relation": relation,
                "tolerance": tolerance,
                **other,
            }
        )

    here = moved()
    assert moved(n=math.ceil(n * factor)) < here
    assert moved(lipschitz=lipschitz * factor) > here
    assert moved(tolerance=tolerance + factor) > here
    # units: the loss times c scales L, λ̄ and τ alike and moves nothing; the argument times c divides λ̄ by c² and L by c
    scaled = moved(lipschitz=factor * lipschitz, strong_convexity=factor * curvature, tolerance=factor * tolerance)
    assert scaled == pytest.approx(here)
    stretched = moved(lipschitz=lipschitz / factor, strong_convexity=curvature / factor**2, tolerance=tolerance / factor)
    assert stretched == pytest.approx(factor * here)
    exact = theory.output_sensitivity(n, lipschitz, curvature, relation)
    assert exact == pytest.approx((2 if relation == "replace-one" else 1) * lipschitz / (n * curvature))
    assert here - exact == pytest.approx(2 * tolerance / curvature, abs=1e-9 * here)


@property_of("noise_epsilon", "gradient_noise")
@quick
@given(n=sizes, lipschitz=st.floats(0.01, 100), epsilon=budgets, delta=st.floats(1e-9, 0.01), steps=st.integers(1, 10**5),
       factor=factors, relation=relations)  # fmt: skip
def test_noise_and_its_epsilon(
    n: int, lipschitz: float, epsilon: float, delta: float, steps: int, factor: float, relation: str
) -> None:
    noise = theory.gradient_noise(n, lipschitz, epsilon, delta, steps, relation)
    fixed: dict[str, Any] = {
        "n": n, "lipschitz": lipschitz, "noise": noise, "delta": delta, "steps": steps, "relation": relation,
    }  # fmt: skip
    assert theory.noise_epsilon(**fixed) == pytest.approx(epsilon, rel=1e-7)
    # more noise, more records, a larger δ: a smaller ε; more steps, a steeper loss: a larger one
    assert theory.noise_epsilon(**{**fixed, "noise": noise * factor}) < epsilon
    assert theory.noise_epsilon(**{**fixed, "n": math.ceil(n * factor)}) < epsilon
    assert theory.noise_epsilon(**{**fixed, "delta": min(0.5, delta * factor)}) < epsilon
    assert theory.noise_epsilon(**{**fixed, "steps": steps + 1}) > epsilon
    # units: loss and noise scale together; T steps of noise σ√T cost what one step of noise σ costs
    assert theory.noise_epsilon(**{**fixed, "lipschitz": factor * lipschitz, "noise": factor * noise}) == pytest.approx(epsilon)
    assert theory.noise_epsilon(**{**fixed, "noise": noise / math.sqrt(steps), "steps": 1}) == pytest.approx(epsilon)
    # the noise itself: units, and monotone the right way
    assert theory.gradient_noise(n, factor * lipschitz, epsilon, delta, steps, relation) == pytest.approx(factor * noise)
    assert theory.gradient_noise(n, lipschitz, factor * epsilon, delta, steps, relation) < noise
    assert theory.gradient_noise(math.ceil(factor * n), lipschitz, epsilon, delta, steps, relation) < noise
    # "zcdp" is safe: never less noise
    assert theory.gradient_noise(n, lipschitz, epsilon, delta, steps, relation, rule="zcdp") >= noise


@property_of("privacy_overhead", "privacy_is_free_above")
@settings(max_examples=25, deadline=None, derandomize=True)
@given(hypotheses=st.integers(2, 10**6), alpha=st.floats(0.005, 0.3), beta=st.floats(1e-4, 0.3), ratio=st.floats(1.0, 100.0))
def test_overhead_is_bounded_above_the_crossover_and_grows_below(
    hypotheses: int, alpha: float, beta: float, ratio: float
) -> None:
    crossover = theory.privacy_is_free_above(alpha)
    above, at, below = (theory.privacy_overhead(hypotheses, alpha, beta, crossover * r) for r in (ratio, 1.0, 1 / ratio))
    assert 1.0 <= above <= at <= below
    # β in halves: b² = 2 ln(4|H|/β), c = 2 ln(2|H|/β) < b², so m <= ((b + √(b² + 4b²))/(2α))² = ((1 + √5)/2)² b²/α²
    halves = 1 + math.log(2) / math.log(2 * hypotheses / beta)
    assert at <= 1.02 * halves * ((1 + math.sqrt(5)) / 2) ** 2
    assert below <= at * ratio * 1.01
    cheaper = theory.privacy_overhead(hypotheses, alpha, beta, crossover, relation="zero-out")
    assert cheaper <= at


@property_of("lower_bound")
@quick
@given(n=sizes, d=dimensions, epsilon=budgets, factor=st.integers(2, 50), delta=st.sampled_from([None, 1e-6]),
       kind=st.sampled_from(theory.LOWER_BOUND_KINDS))  # fmt: skip
def test_lower_bound_is_a_slope(n: int, d: int, epsilon: float, factor: int, delta: float | None, kind: str) -> None:
    here = theory.lower_bound(kind, n, d, epsilon, delta)
    assert 0 < here <= 1
    power = 2 if kind == "strongly-convex" else 1
    later = theory.lower_bound(kind, n * factor, d, epsilon, delta)
    assert later <= here
    assert theory.lower_bound(kind, n, d, epsilon * factor, delta) == pytest.approx(later)  # only n·ε matters
    wider = theory.lower_bound(kind, n, d * factor, epsilon, delta)
    assert wider >= here
    if wider < 1:
        assert wider / here == pytest.approx(factor ** (power * (1 if delta is None else 0.5)))
        assert here / later == pytest.approx(factor**power)
    # pure privacy is never easier
    assert theory.lower_bound(kind, n, d, epsilon) >= theory.lower_bound(kind, n, d, epsilon, 1e-6)


@property_of("objective_noise")
@quick
@given(n=st.integers(100, 10**6), curvature=st.floats(0.05, 5.0), epsilon=st.floats(0.2, 5.0), delta=st.floats(1e-9, 1e-3),
       factor=factors, relation=relations, self_bounding=st.sampled_from([None, 1.0]))  # fmt: skip
def test_objective_noise(
    n: int, curvature: float, epsilon: float, delta: float, factor: float, relation: str, self_bounding: float | None
) -> None:
    def noise(**other: Any) -> float:
        return theory.objective_noise(**{
            "n": n, "lipschitz": 1.0, "strong_convexity": curvature, "epsilon": epsilon, "delta": delta,
            "self_bounding": self_bounding, "relation": relation, **other,
        })  # fmt: skip

    here, slack = noise(), 1 + 1e-7
    assert noise(epsilon=epsilon * factor) <= here * slack
    assert noise(strong_convexity=curvature * factor) <= here * slack
    assert noise(n=math.ceil(n * factor)) <= here * slack
    assert noise(delta=delta / factor) >= here / slack
    assert noise(delta=None) >= noise(delta=None, epsilon=epsilon * factor)
    # never below the floor, one Gaussian release of the gradient sum
    reach = 2.0 if relation == "replace-one" else 1.0
    assert gaussian_delta(epsilon, reach / here) <= delta * slack
    # units: loss times c, with its curvature in the same unit and C divided by it (C bounds curvature by slope)
    scaled = noise(lipschitz=factor, strong_convexity=curvature * factor**2)
    assert scaled == pytest.approx(factor * here, rel=1e-6)


@property_of("row_norm")
@quick
@given(d=dimensions, half_width=st.floats(0.01, 10), intercept=st.floats(0, 10), factor=factors)
def test_row_norm(d: int, half_width: float, intercept: float, factor: float) -> None:
    box = theory.row_norm(d, "box", half_width=half_width, intercept=intercept)
    assert theory.row_norm(d, "box", half_width=factor * half_width, intercept=factor * intercept) == pytest.approx(factor * box)
    assert theory.row_norm(d + 1, "box", half_width=half_width, intercept=intercept) > box
    ball = theory.row_norm(x_norm=half_width * math.sqrt(d), intercept=intercept)
    assert ball == pytest.approx(box)  # the box's corners lie on that ball
    assert theory.gradient_sensitivity(1, d, "box", half_width=half_width, intercept=intercept) == pytest.approx(2 * box)


@property_of("required_epsilon", "sample_size")
@settings(max_examples=15, deadline=None, derandomize=True)
@given(n=st.integers(50, 10**5), d=dimensions, target=st.floats(0.01, 0.5))
def test_required_epsilon_and_sample_size_are_inverse(n: int, d: int, target: float) -> None:
    fixed: dict[str, Any] = {"d": d, "lipschitz": 1.0, "diameter": 1.0, "delta": 1e-6}
    epsilon = theory.required_epsilon(theory.gradient_descent_risk, target, n=n, **fixed)
    size = theory.sample_size(theory.gradient_descent_risk, target, epsilon=epsilon, **fixed)
    # n records meet the target at this ε, and fewer than n by more than the tolerance of ε do not
    assert size <= n
    assert size >= n * (1 - 1e-6) - 1
    assert theory.required_epsilon(theory.gradient_descent_risk, target, n=2 * n, **fixed) < epsilon


@property_of("exponential_probabilities", "max_log_ratio")
@quick
@given(scores=st.lists(st.floats(-50, 50), min_size=2, max_size=8), epsilon=budgets, shift=st.floats(-100, 100), seed=seeds)
def test_exponential_law(scores: list[float], epsilon: float, shift: float, seed: int) -> None:
    law = theory.exponential_probabilities(scores, 1.0, epsilon)
    assert law.sum() == pytest.approx(1.0)
    assert int(np.argmax(law)) == int(np.argmax(scores)) or law.max() == pytest.approx(law[int(np.argmax(scores))])
    moved = theory.exponential_probabilities([u + shift for u in scores], 1.0, epsilon)
    assert np.allclose(law, moved)  # only differences of scores matter
    scaled = theory.exponential_probabilities([3 * u for u in scores], 3.0, epsilon)
    assert np.allclose(law, scaled)  # units of the score
    changes = np.random.default_rng(seed).uniform(-1, 1, len(scores))
    other = theory.exponential_probabilities(np.asarray(scores) + changes, 1.0, epsilon)
    assert theory.max_log_ratio(law, other) <= epsilon * (1 + 1e-9)
    assert theory.max_log_ratio(law, other) == theory.max_log_ratio(other, law)
    assert theory.max_log_ratio(law, law) == 0.0


def logistic(strength: float = 0.0) -> Problem:
    return Problem(LogisticLoss(), Ridge(strength or 1e-9), data=DataBounds(x_norm=1.0, y=Interval(-1, 1)))


@property_of("empirical_risk", "excess_risk")
@quick
@given(n=st.integers(1, 30), d=st.integers(1, 4), copies=st.integers(2, 4), strength=st.floats(0.1, 5.0), seed=seeds)
def test_risks_on_a_sample(n: int, d: int, copies: int, strength: float, seed: int) -> None:
    source = np.random.default_rng(seed)
    X, y = source.uniform(-0.5, 0.5, (n, d)), source.choice([-1.0, 1.0], n)
    w, other = source.normal(size=(2, d))
    ridge = logistic(strength)
    risk = theory.empirical_risk(ridge, w, X, y)
    assert risk > 0
    # a mean: copies of the data change nothing, an order of the rows neither; the ridge is a sum and is shared by n rows
    assert theory.empirical_risk(ridge, w, np.tile(X, (copies, 1)), np.tile(y, copies)) == pytest.approx(risk)
    assert theory.empirical_risk(ridge, w, X[::-1], y[::-1]) == pytest.approx(risk)
    assert theory.empirical_risk(ridge, w, X, y, regularized=True) - risk == pytest.approx(strength / 2 * (w @ w) / n)
    # convex along the segment
    middle = theory.empirical_risk(ridge, (w + other) / 2, X, y)
    assert middle <= (risk + theory.empirical_risk(ridge, other, X, y)) / 2 + 1e-12
    excess = theory.excess_risk(ridge, w, X, y, reference=other)
    assert excess == pytest.approx(-theory.excess_risk(ridge, other, X, y, reference=w))
    assert abs(excess) <= float(np.linalg.norm(w - other)) * 0.5 * math.sqrt(d) + 1e-12  # slope ≤ 1, rows of norm ≤ √d/2


@property_of("excess_risk_summary")
@quick
@given(values=st.lists(st.floats(0, 1e3), min_size=2, max_size=300), beta=st.floats(0.01, 0.5), factor=factors)
def test_summary(values: list[float], beta: float, factor: float) -> None:
    here = theory.excess_risk_summary(values, beta=beta)
    assert here.mean <= here.mean_upper
    assert min(values) <= here.quantile <= max(values)
    assert here.quantile <= here.quantile_upper
    scaled = theory.excess_risk_summary([factor * v for v in values], beta=beta)
    assert scaled.mean_upper == pytest.approx(factor * here.mean_upper)
    assert scaled.quantile_upper == pytest.approx(factor * here.quantile_upper)
    surer = theory.excess_risk_summary(values, beta=beta, confidence=0.99999)
    assert surer.mean_upper >= here.mean_upper and surer.quantile_upper >= here.quantile_upper
    assert theory.excess_risk_summary(values, beta=beta / 2).quantile >= here.quantile


@property_of("population_risk")
@quick
@given(right=st.integers(0, 200), wrong=st.integers(0, 200), confidence=st.floats(0.5, 0.999))
def test_population_interval(right: int, wrong: int, confidence: float) -> None:
    if right + wrong == 0:
        return
    problem = Problem(ZeroOneLoss(), data=DataBounds(x_norm=1.0, y=Interval(-1, 1)))
    rows, labels = [[1.0]] * (right + wrong), [1.0] * right + [-1.0] * wrong
    exact = theory.population_risk(problem, [1.0], rows, labels, confidence=confidence)
    assert 0 <= exact.low <= exact.value == wrong / (right + wrong) <= exact.high <= 1
    wider = theory.population_risk(problem, [1.0], rows, labels, confidence=(1 + confidence) / 2)
    assert wider.low <= exact.low and exact.high <= wider.high
    more = theory.population_risk(problem, [1.0], rows * 4, labels * 4, confidence=confidence)
    assert more.high - more.low <= exact.high - exact.low
    hoeffding = theory.population_risk(problem, [1.0], rows, labels, confidence=confidence, loss_range=1.0)
    assert hoeffding.low <= exact.value <= hoeffding.high


@property_of("make_separable", "make_agnostic", "make_separators")
@quick
@given(n=st.integers(1, 200), d=st.integers(1, 10), margin=st.floats(0, 0.2), flip=st.floats(0.01, 0.49), seed=seeds)
def test_generated_data_keep_their_promise(n: int, d: int, margin: float, flip: float, seed: int) -> None:
    sample = theory.make_separable(np.random.default_rng(seed), n, d, margin=margin)
    assert sample.X.shape == (n, d) and sample.X.min() >= 0 and sample.X.max() <= 1
    assert np.all(sample.y * (sample.augmented @ sample.weights) >= margin)
    assert np.linalg.norm(sample.w) == pytest.approx(1.0)
    noisy = theory.make_agnostic(np.random.default_rng(seed), n, d, flip=flip, margin=margin)
    assert np.array_equal(noisy.X, sample.X) and set(noisy.y) <= {-1.0, 1.0}
    rules = theory.make_separators(np.random.default_rng(seed), n, d)
    assert rules.shape == (n, d + 1)
    assert np.allclose(rules[:, :d] @ np.full(d, 0.5) + rules[:, d], 0)  # through the centre of the cube
