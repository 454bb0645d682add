"""Monotone in n, ε, d; units; ordering of rules; relations between functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm import theory
from dperm.theory.checks import ConditionError
from theory_registry import property_of

sizes = st.integers(2, 10**6)
dimensions = st.integers(1, 200)
budgets = st.floats(0.05, 10.0)
factors = st.floats(1.01, 20.0)
relations = st.sampled_from(["replace-one", "zero-out", "add-remove"])
quick = settings(max_examples=60, deadline=None, derandomize=True)


def exponential_lipschitz(n: int, d: int, lipschitz: float, epsilon: float, relation: str) -> float:
    return theory.exponential_erm_risk(n, d, lipschitz, radius=1.5, epsilon=epsilon, beta=0.05, relation=relation)


def exponential_convex(n: int, d: int, lipschitz: float, epsilon: float, relation: str) -> float:
    return theory.exponential_erm_risk(n, d, lipschitz, diameter=3, epsilon=epsilon, convex=True, relation=relation)


def exponential_convex_tail(n: int, d: int, lipschitz: float, epsilon: float, relation: str) -> float:
    return theory.exponential_erm_risk(n, d, lipschitz, diameter=3, epsilon=epsilon, convex=True, beta=0.05, relation=relation)


def output_pure(n: int, d: int, lipschitz: float, epsilon: float, relation: str) -> float:
    return theory.output_perturbation_risk(n, d, lipschitz, epsilon=epsilon, radius=1.5, relation=relation)


def output_gaussian(n: int, d: int, lipschitz: float, epsilon: float, relation: str) -> float:
    return theory.output_perturbation_risk(n, d, lipschitz, epsilon=epsilon, delta=1e-6, radius=1.5, beta=0.05, relation=relation)


def objective_pure(n: int, d: int, lipschitz: float, epsilon: float, relation: str) -> float:
    # curvature M must carry the unit of the loss as well: logistic at scale L has M = L·R/4; here R = 1
    return theory.objective_perturbation_risk(
        n, d, lipschitz, epsilon=epsilon, radius=1.5, smoothness=lipschitz / 4, relation=relation
    )


def objective_gaussian(n: int, d: int, lipschitz: float, epsilon: float, relation: str) -> float:
    return theory.objective_perturbation_risk(
        n, d, lipschitz, epsilon=epsilon, delta=1e-6, radius=1.5, smoothness=lipschitz / 4, relation=relation
    )


def descent(n: int, d: int, lipschitz: float, epsilon: float, relation: str) -> float:
    return theory.gradient_descent_risk(n, d, lipschitz, 1.5, epsilon=epsilon, delta=1e-6, relation=relation)


def descent_steps(n: int, d: int, lipschitz: float, epsilon: float, relation: str) -> float:
    return theory.gradient_descent_risk(
        n, d, lipschitz, 1.5, epsilon=epsilon, delta=1e-6, steps=1000, beta=0.05, relation=relation
    )


def by_rank(n: int, d: int, lipschitz: float, epsilon: float, relation: str) -> float:
    return theory.rank_risk(n, d, lipschitz, 1.5, epsilon, 1e-6, relation)


def phased(n: int, d: int, lipschitz: float, epsilon: float, relation: str) -> float:
    return theory.phased_sgd_risk(n, d, lipschitz, 1.5, epsilon=epsilon, delta=1e-6, smoothness=0.0, relation=relation)


RISKS: list[Callable[..., float]] = [
    exponential_lipschitz, exponential_convex, exponential_convex_tail, output_pure, output_gaussian,
    objective_pure, objective_gaussian, descent, descent_steps, by_rank, phased,
]  # fmt: skip


RISK_FUNCTIONS = (
    "exponential_erm_risk", "output_perturbation_risk", "objective_perturbation_risk", "gradient_descent_risk", "rank_risk",
    "phased_sgd_risk",
)  # fmt: skip


def value(risk: Callable[..., float], **numbers: Any) -> float:
    """A theorem that does not speak at these numbers promises nothing: an infinite risk."""
    try:
        return risk(**numbers)
    except ConditionError:
        return math.inf


@property_of(
    "exponential_erm_risk",
    "output_perturbation_risk",
    "objective_perturbation_risk",
    "gradient_descent_risk",
    "rank_risk",
    "phased_sgd_risk",
)
@pytest.mark.parametrize("risk", RISKS, ids=lambda f: f.__name__)
@quick
@given(n=sizes, d=dimensions, epsilon=budgets, factor=factors, relation=relations)
def test_risk_falls_in_n_and_epsilon_and_grows_in_d(
    risk: Callable[..., float], n: int, d: int, epsilon: float, factor: float, relation: str
) -> None:
    numbers: dict[str, Any] = {"n": n, "d": d, "lipschitz": 1.0, "epsilon": epsilon, "relation": relation}
    here = value(risk, **numbers) * (1 + 1e-7)
    assert value(risk, **{**numbers, "n": math.ceil(n * factor)}) <= here
    assert value(risk, **{**numbers, "epsilon": epsilon * factor}) <= here
    assert value(risk, **{**numbers, "d": math.ceil(d * factor)}) * (1 + 1e-7) >= value(risk, **numbers)


@property_of(
    "exponential_erm_risk",
    "output_perturbation_risk",
    "objective_perturbation_risk",
    "gradient_descent_risk",
    "rank_risk",
    "phased_sgd_risk",
)
@pytest.mark.parametrize("risk", RISKS, ids=lambda f: f.__name__)
@quick
@given(n=st.integers(5000, 10**6), d=dimensions, epsilon=st.floats(0.5, 5), factor=factors)
def test_scaling_the_loss_scales_the_risk(risk: Callable[..., float], n: int, d: int, epsilon: float, factor: float) -> None:
    numbers: dict[str, Any] = {"n": n, "d": d, "epsilon": epsilon, "relation": "replace-one"}
    one, scaled = value(risk, lipschitz=1.0, **numbers), value(risk, lipschitz=factor, **numbers)
    assert scaled == pytest.approx(factor * one, rel=1e-6)


@pytest.mark.parametrize("risk", RISKS, ids=lambda f: f.__name__)
def test_replace_one_costs_more_than_zero_out(risk: Callable[..., float]) -> None:
    numbers: dict[str, Any] = {"n": 10**5, "d": 10, "lipschitz": 1.0, "epsilon": 1.0}
    two, one = risk(relation="replace-one", **numbers), risk(relation="zero-out", **numbers)
    assert one < two
    assert two <= 2.1 * one
    assert one == risk(relation="add-remove", **numbers)


@property_of("pac_sample_size")
@quick
@given(
    hypotheses=st.integers(1, 10**6), alpha=st.floats(0.01, 0.9), beta=st.floats(1e-6, 0.9), epsilon=budgets,
    factor=factors, realizable=st.booleans(), relation=relations,
)  # fmt: skip
def test_pac_sample_size(
    hypotheses: int, alpha: float, beta: float, epsilon: float, factor: float, realizable: bool, relation: str
) -> None:
    size = theory.pac_sample_size(hypotheses, alpha, beta, epsilon, relation, realizable)
    plain = theory.pac_sample_size(hypotheses, alpha, beta, None, relation, realizable)
    assert plain <= size
    assert size <= theory.pac_sample_size(hypotheses, alpha, beta, epsilon / factor, relation, realizable)
    assert size <= theory.pac_sample_size(hypotheses, alpha / factor, beta, epsilon, relation, realizable)
    assert size <= theory.pac_sample_size(hypotheses, alpha, beta / factor, epsilon, relation, realizable)
    assert size <= theory.pac_sample_size(math.ceil(hypotheses * factor), alpha, beta, epsilon, relation, realizable)
    assert size <= theory.pac_sample_size(hypotheses, alpha, beta, epsilon, relation, realizable, optimise_split=False)
    for share in (0.5, 0.9, 0.999):
        assert size <= theory.pac_sample_size(hypotheses, alpha, beta, epsilon, relation, realizable, uniform_share=share)
    # without privacy in the limit
    assert theory.pac_sample_size(hypotheses, alpha, beta, 1e9, relation, realizable) <= plain + 1


@quick
@given(alpha=st.floats(0.01, 0.5), epsilon=budgets)
def test_realisable_size_goes_as_one_over_alpha(alpha: float, epsilon: float) -> None:
    """E38: 1/α, not 1/α²."""
    one = theory.pac_sample_size(1000, alpha, 0.05, epsilon, realizable=True)
    half = theory.pac_sample_size(1000, alpha / 2, 0.05, epsilon, realizable=True)
    assert abs(half - 2 * one) <= 2


def test_the_crossover_is_at_epsilon_equal_alpha() -> None:
    """Far above α the overhead is a small constant; far below it grows as α/ε."""
    alpha = theory.privacy_is_free_above(0.01)
    overheads = [theory.privacy_overhead(1000, alpha, 0.05, epsilon=alpha * r) for r in (100, 10, 1, 0.1, 0.01)]
    assert overheads[0] < 1.05
    assert overheads[2] < 3  # at the crossover: the same order
    assert overheads[4] / overheads[3] == pytest.approx(10, rel=0.25)


@property_of("uniform_convergence_error", "uniform_convergence_sample_size")
@quick
@given(n=st.integers(1, 10**7), hypotheses=st.integers(1, 10**6), beta=st.floats(1e-9, 0.9), sides=st.booleans())
def test_uniform_convergence_inverse(n: int, hypotheses: int, beta: float, sides: bool) -> None:
    alpha = theory.uniform_convergence_error(n, hypotheses, beta, sides)
    if 1e-3 < alpha < 0.999:
        size = theory.uniform_convergence_sample_size(hypotheses, alpha * (1 + 1e-9), beta, sides)
        assert size in (n, n - 1) or abs(size - n) <= 1e-6 * n
        smaller = theory.uniform_convergence_sample_size(hypotheses, alpha * (1 - 1e-6), beta, sides)
        assert smaller >= n


@property_of("exponential_mechanism_tail", "exponential_mechanism_failure")
@quick
@given(hypotheses=st.integers(1, 10**6), sensitivity=st.floats(0.01, 10), epsilon=budgets, beta=st.floats(1e-9, 0.9))
def test_tail_and_failure_are_inverse(hypotheses: int, sensitivity: float, epsilon: float, beta: float) -> None:
    gap = theory.exponential_mechanism_tail(hypotheses, sensitivity, epsilon, beta)
    assert theory.exponential_mechanism_failure(hypotheses, sensitivity, epsilon, gap) == pytest.approx(beta, rel=1e-9)
    one_sided = theory.exponential_mechanism_tail(hypotheses, sensitivity, epsilon, beta, relation="zero-out")
    assert gap == pytest.approx(2 * one_sided)


@property_of("composition_epsilon")
@quick
@given(rho=st.floats(1e-6, 1.0), count=st.integers(2, 10_000), delta=st.floats(1e-12, 0.1))
def test_composition_rules_are_ordered(rho: float, count: int, delta: float) -> None:
    by = {rule: theory.composition_epsilon(rho, count, delta, rule) for rule in theory.COMPOSITION_RULES}
    assert by["exact"] <= by["zcdp"] <= by["advanced"]
    assert by["exact"] <= by["basic"] * (1 + 1e-9)
    assert by["advanced"] - by["zcdp"] == pytest.approx(count * rho / 2, rel=1e-6)  # E28
    # exact composition sees only count·ρ
    assert by["exact"] == pytest.approx(theory.composition_epsilon(rho * count, 1, delta), rel=1e-9)


@property_of("composition_rho")
@quick
@given(epsilon=budgets, count=st.integers(1, 10_000), delta=st.floats(1e-12, 0.1), rule=st.sampled_from(theory.COMPOSITION_RULES))
def test_composition_rho_stays_inside_the_budget(epsilon: float, count: int, delta: float, rule: str) -> None:
    rho = theory.composition_rho(epsilon, count, delta, rule)
    assert theory.composition_epsilon(rho, count, delta, rule) <= epsilon
    assert theory.composition_epsilon(rho * (1 + 1e-6), count, delta, rule) > epsilon


@property_of("exponential_privacy_loss")
@quick
@given(n=sizes, epsilon=budgets)
def test_corrected_exponential_mechanism_is_private_and_the_printed_one_is_not(n: int, epsilon: float) -> None:
    assert theory.exponential_privacy_loss(n, epsilon) <= epsilon * (1 + 1e-9)
    assert theory.exponential_privacy_loss(10**6, epsilon, as_printed=True) > 1.9 * epsilon


@quick
@given(d=dimensions, n=st.integers(10**4, 10**7), r=st.floats(1e-4, 1.0))
def test_the_default_cover_radius_is_the_best(d: int, n: int, r: float) -> None:
    fixed: dict[str, Any] = {"n": n, "d": d, "lipschitz": 1, "radius": 1, "epsilon": 1, "beta": 0.05}
    assert theory.exponential_erm_risk(**fixed) <= theory.exponential_erm_risk(**fixed, r=r) * (1 + 1e-12)
    assert theory.exponential_erm_risk(**fixed, convex=True) < theory.exponential_erm_risk(**fixed)


@property_of("gradient_descent_plan", "projected_gradient_risk", "gradient_noise")
@quick
@given(n=sizes, d=dimensions, steps=st.integers(1, 10**7), epsilon=budgets)
def test_descent_bounds_agree(n: int, d: int, steps: int, epsilon: float) -> None:
    target: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-6}
    with_steps = theory.gradient_descent_risk(n, d, 2.0, 3.0, steps=steps, **target)
    assert with_steps > theory.gradient_descent_risk(n, d, 2.0, 3.0, **target)
    noise = theory.gradient_noise(n, 2.0, epsilon, 1e-6, steps)
    assert with_steps == pytest.approx(theory.projected_gradient_risk(steps, 2.0, 3.0, noise=noise, d=d))
    assert with_steps == theory.projected_gradient_risk(steps, 2.0, radius=3.0, n=n, d=d, **target)
    assert with_steps == pytest.approx(theory.rank_risk(n, d, 2.0, 3.0, epsilon, 1e-6, steps=steps))
    plan = theory.gradient_descent_plan(n, d, 2.0, 3.0, steps=steps, **target)
    assert plan.risk == with_steps
    assert plan.noise == pytest.approx(noise)
    for factor in (0.8, 1.25):  # the step size is the best one
        other = theory.projected_gradient_risk(steps, 2.0, 3.0, noise=noise, d=d, step_size=plan.step_size * factor)
        assert other > with_steps
    tail = theory.gradient_descent_risk(n, d, 2.0, 3.0, steps=steps, beta=0.01, **target)
    assert tail > with_steps
    sharp = theory.gradient_descent_risk(n, d, 2.0, strong_convexity=0.5, steps=steps, **target)
    assert sharp > 0.999 * theory.gradient_descent_risk(n, d, 2.0, strong_convexity=0.5, **target) * steps / (steps + 1)


@quick
@given(n=sizes, d=dimensions, epsilon=budgets, slack=st.floats(0.001, 1))
def test_planned_steps_are_just_enough(n: int, d: int, epsilon: float, slack: float) -> None:
    target: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-6}
    plan = theory.gradient_descent_plan(n, d, 1.0, 1.0, slack=slack, **target)
    limit = theory.gradient_descent_risk(n, d, 1.0, 1.0, **target)
    assert plan.risk <= (1 + slack) * limit * (1 + 1e-12)
    if plan.steps > 1:
        fewer = theory.gradient_descent_risk(n, d, 1.0, 1.0, steps=plan.steps - 1, **target)
        assert fewer > (1 + slack) * limit * (1 - 1e-12)


def test_high_probability_limit_is_approached() -> None:
    target: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "beta": 0.05}
    limit = theory.gradient_descent_risk(1000, 10, 1.0, 1.0, **target)
    far = theory.gradient_descent_risk(1000, 10, 1.0, 1.0, steps=10**10, **target)
    assert limit < far < 1.01 * limit


@quick
@given(n=st.integers(100, 10**6), d=dimensions, ridge=st.floats(0.01, 1.0), epsilon=budgets)
def test_perturbation_bounds(n: int, d: int, ridge: float, epsilon: float) -> None:
    fixed: dict[str, Any] = {"n": n, "d": d, "lipschitz": 1.0, "epsilon": epsilon}
    linear = theory.output_perturbation_risk(**fixed, strong_convexity=ridge)
    assert linear == pytest.approx(2 * d / (n * ridge * epsilon))
    # pure beats Gaussian noise only in small dimension (C3)
    gaussian = theory.output_perturbation_risk(**fixed, strong_convexity=ridge, delta=1e-6, smoothness=ridge)
    pure = theory.output_perturbation_risk(**fixed, strong_convexity=ridge, smoothness=ridge)
    from dperm.privacy import gaussian_mu

    assert (pure < gaussian) == (d + 1 < (epsilon / gaussian_mu(epsilon, 1e-6)) ** 2)
    # for a quadratic objective both mechanisms coincide when the determinant is free
    free = value(theory.objective_perturbation_risk, **fixed, strong_convexity=ridge, self_bounding=1.0)
    if n * ridge >= 2 / epsilon:
        assert free == pytest.approx(pure)
        assert free <= theory.objective_perturbation_risk(**fixed, strong_convexity=ridge, smoothness=1e-6) * (1 + 1e-9)


@pytest.mark.parametrize("self_bounding", [None, 1.0])
@pytest.mark.parametrize("delta", [None, 1e-6])
@pytest.mark.parametrize("n", [300, 10**4, 10**6])
def test_best_ridge_is_best(n: int, delta: float | None, self_bounding: float | None) -> None:
    fixed: dict[str, Any] = {"n": n, "d": 5, "lipschitz": 1.0, "epsilon": 0.7, "radius": 1.0, "delta": delta}
    best = theory.objective_perturbation_risk(**fixed, self_bounding=self_bounding)
    other = theory.output_perturbation_risk(**fixed)
    for ridge in (1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0):
        tried = value(theory.objective_perturbation_risk, **fixed, strong_convexity=ridge, self_bounding=self_bounding)
        assert best <= tried * (1 + 1e-9)
        assert other <= theory.output_perturbation_risk(**fixed, strong_convexity=ridge) * (1 + 1e-9)
    if delta is None:
        assert other == pytest.approx(math.sqrt(2 * 2 * 5 / (n * 0.7)), rel=1e-6)


def test_objective_noise_meets_delta_exactly() -> None:
    """The generic replace-one rule: 2δ_G(ε-t; 2L/σ) + 2δ_G(ε-t; √2L/σ) = δ."""
    from dperm.privacy import gaussian_delta

    sigma = theory.objective_noise(1000, 2.0, 0.01, 1.0, 1e-6, smoothness=1.0)
    left = 1.0 - math.log1p(1.0 / 10)
    total = 2 * gaussian_delta(left, 4 / sigma) + 2 * gaussian_delta(left, math.sqrt(2) * 2 / sigma)
    assert total == pytest.approx(1e-6, rel=1e-6)
    one = theory.objective_noise(1000, 2.0, 0.01, 1.0, 1e-6, smoothness=1.0, relation="zero-out")
    assert 2 * gaussian_delta(left, 2 / one) == pytest.approx(1e-6, rel=1e-6)


@property_of("phased_sgd_plan")
@quick
@given(n=st.integers(2, 10**6), d=dimensions, epsilon=budgets)
def test_phased_blocks_are_disjoint_and_the_step_is_best(n: int, d: int, epsilon: float) -> None:
    plan = theory.phased_sgd_plan(n, d, 1.0, 1.0, epsilon=epsilon, delta=1e-6, smoothness=0.0)
    assert sum(plan.blocks) <= n
    assert min(plan.blocks) >= 1
    for before, after in zip(plan.step_sizes, plan.step_sizes[1:]):
        assert after == pytest.approx(before / 4)
    everything = theory.phased_sgd_plan(
        n, d, 1.0, 1.0, epsilon=epsilon, delta=1e-6, smoothness=0.0, phases=n.bit_length() - 1
    )
    assert len(everything.blocks) == n.bit_length() - 1
    assert everything.risk >= plan.risk
    capped = theory.phased_sgd_plan(n, d, 1.0, 1.0, epsilon=epsilon, delta=1e-6, smoothness=16 / plan.step_sizes[0])
    assert capped.step_sizes[0] <= 2 / (16 / plan.step_sizes[0]) * (1 + 1e-9)
    assert capped.risk >= plan.risk


def test_phased_bound_has_the_printed_order() -> None:
    """Bound / order stays within constants over six decades: the constants of the proof are not hidden anywhere."""
    ratios = []
    for n in (10**3, 10**5, 10**7):
        for d in (1, 100):
            for epsilon in (0.1, 5.0):
                numbers: dict[str, Any] = {"n": n, "d": d, "lipschitz": 1, "diameter": 1, "epsilon": epsilon, "delta": 1e-6}
                bound = theory.phased_sgd_risk(**numbers, smoothness=0.0)
                ratios.append(bound / theory.phased_sgd_risk(**numbers, as_printed=True))
    assert min(ratios) > 0.5
    assert max(ratios) < 12


@property_of("gradient_sensitivity")
@quick
@given(reach=st.floats(0, 100), x_norm=st.floats(0.1, 10))
def test_gradient_sensitivity_limits(reach: float, x_norm: float) -> None:
    exact = theory.gradient_sensitivity(x_norm=x_norm, parameter_radius=reach / x_norm)
    assert x_norm * (1 - 1e-12) <= exact <= 2 * x_norm
    one = theory.gradient_sensitivity(x_norm=x_norm, parameter_radius=reach / x_norm, relation="zero-out")
    assert x_norm / 2 * (1 - 1e-12) <= one <= x_norm
    assert one <= exact <= 2 * one * (1 + 1e-12)


def test_lower_bound_slopes() -> None:
    fixed: dict[str, Any] = {"n": 10**5, "d": 64, "epsilon": 0.5}
    assert theory.lower_bound("convex", **fixed) == pytest.approx(64 / 5e4)
    assert theory.lower_bound("convex-pure", **fixed, delta=0) == theory.lower_bound("convex", **fixed)
    assert theory.lower_bound("convex_approximate", **fixed, delta=1e-6) == pytest.approx(8 / 5e4)
    assert theory.lower_bound("strongly-convex", **fixed) == pytest.approx((64 / 5e4) ** 2)
    assert theory.lower_bound("strongly-convex", **fixed, delta=1e-6) == pytest.approx(64 / 2.5e9)
    logged = theory.lower_bound("convex", **fixed, delta=1e-6, with_log=True)
    assert logged == pytest.approx(8 * math.sqrt(math.log(1e6)) / 5e4)
    assert theory.lower_bound("convex", n=1, d=64, epsilon=0.5) == 1.0
    assert logged.label.startswith("slope only")


def test_slope_survives_pickling() -> None:
    import pickle

    slope = theory.lower_bound("convex", 100, 2, 1.0)
    back = pickle.loads(pickle.dumps(slope))
    assert (back, back.label) == (slope, slope.label)


@property_of("generalisation_gap")
@quick
@given(n=sizes, factor=factors)
def test_generalisation_gaps(n: int, factor: float) -> None:
    gap = theory.generalisation_gap(n, lipschitz=1, radius=2, beta=0.05, loss_range=3)
    assert gap > theory.generalisation_gap(n, lipschitz=1, radius=2)
    assert theory.generalisation_gap(n, lipschitz=factor, radius=2, beta=0.05, loss_range=3 * factor) == pytest.approx(
        factor * gap
    )
    assert theory.generalisation_gap(n, hypotheses=10, beta=0.1, loss_range=factor) == pytest.approx(
        factor * theory.uniform_convergence_error(n, 10, 0.1)
    )
    assert theory.generalisation_gap(n, lipschitz=factor, strong_convexity=0.5) == pytest.approx(4 * factor**2 / n)


def test_registry_holds_callables_with_lecture_references() -> None:
    assert len(theory.THEOREMS) == 25
    assert set(theory.RISKS) < set(theory.THEOREMS)
    for function in theory.THEOREMS.values():
        assert getattr(theory, function.__name__) is function
        assert ">>>" in (function.__doc__ or "")
