"""Every theorem against every kind of bad number, and against the signatures that were promised."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest

from dperm import theory
from theory_table import CALLS

NO_NUMBERS: list[Any] = [math.nan, math.inf, -math.inf, True, np.True_, "many", [1], 1 + 0j, np.array([1.0, 2.0]), np.nan]
COUNTS = ("classes", "n", "d", "rank", "hypotheses", "steps", "count", "phases")
SHARES = ("alpha", "beta", "delta", "uniform_share")
MAY_BE_ZERO = ("loss", "tolerance", "noise", "seminorm", "intercept", "parameter_radius")
# lower_bound reads delta=0 as "pure": a documented meaning, not a number outside the domain
# and phased SGD takes linear losses, whose smoothness is 0
ZERO_HAS_A_MEANING = {("lower_bound", "delta"), ("phased_sgd_risk", "smoothness"), ("phased_sgd_plan", "smoothness")}


def numeric(name: str) -> set[str]:
    parameters = inspect.signature(getattr(theory, name)).parameters.values()
    return {p.name for p in parameters if "float" in str(p.annotation)}


ARGUMENTS = [(name, key, call) for name, calls in CALLS.items() for call in calls for key in sorted(numeric(name) & set(call))]


def test_the_table_names_every_number_of_every_theorem() -> None:
    assert {function.__name__ for function in theory.THEOREMS.values()} <= set(CALLS)
    for name, calls in CALLS.items():
        assert set().union(*calls) >= numeric(name), name


def refused(name: str, key: str, call: dict[str, Any], bad: Any) -> str:
    with pytest.raises(ValueError, match=r"^Expected") as caught:
        getattr(theory, name)(**{**call, key: bad})
    return str(caught.value)


@pytest.mark.parametrize(("name", "key", "call"), ARGUMENTS)
def test_what_is_no_number_is_refused_by_name(name: str, key: str, call: dict[str, Any]) -> None:
    for bad in NO_NUMBERS:
        assert key in refused(name, key, call, bad), bad


@pytest.mark.parametrize(("name", "key", "call"), ARGUMENTS)
def test_numbers_outside_the_range_are_refused_by_name(name: str, key: str, call: dict[str, Any]) -> None:
    bad: list[float] = [-1, -0.5, -1e-300]
    if key not in MAY_BE_ZERO and (name, key) not in ZERO_HAS_A_MEANING:
        bad += [0, 0.0]
    if key in COUNTS:
        bad += [1.5, 0.999]
    if key in SHARES:
        bad += [1, 1.0, 1.5, 1e300]
    for number in bad:
        text = refused(name, key, call, number)
        assert key in text and (">" in text or "<" in text), (number, text)


@pytest.mark.parametrize(("name", "key", "call"), ARGUMENTS)
def test_extreme_numbers_give_a_finite_value_or_a_sentence(name: str, key: str, call: dict[str, Any]) -> None:
    for extreme in (1e300, 1e-300, 5e-324, 10**400):
        try:
            value = getattr(theory, name)(**{**call, key: extreme})
        except ValueError as error:
            if str(error).startswith("Expected"):
                continue
            raise
        assert isinstance(value, int) or 0 <= float(getattr(value, "risk", value)) < math.inf


def test_probabilities_and_error_rates_stay_below_one() -> None:
    assert theory.uniform_convergence_error(1, 10, 0.05) == 1.0
    assert theory.exponential_mechanism_failure(10**6, 1, 0.01, gap=0.1) == 1.0
    assert theory.lower_bound("convex", 1, 10**6, 0.01) == 1.0


def test_switches_take_switches_only() -> None:
    with pytest.raises(ValueError, match="Expected True or False for convex, found 'no'"):
        theory.exponential_erm_risk(100, 1, 1, radius=1, epsilon=1, convex="no")
    with pytest.raises(ValueError, match="Expected a word for rule, found 1"):
        theory.composition_epsilon(0.01, 10, 1e-6, rule=1)
    assert theory.uniform_convergence_sample_size(10, 0.1, 0.1, two_sided=np.True_) == 265


def test_classes_too_large_for_a_float() -> None:
    """|H| = 2^d for d = 2000 inputs: the number is no float, its logarithm is."""
    bits = 2000 * math.log(2)
    assert theory.uniform_convergence_sample_size(2**2000, 0.1, 0.05) == math.ceil((bits - math.log(0.05)) / 0.02)
    assert theory.exponential_mechanism_tail(2**2000, 1, 1, 0.05) == pytest.approx(2 * (bits + math.log(20)))
    assert theory.exponential_mechanism_failure(2**2000, 1, 1, gap=2 * bits + 10) == pytest.approx(math.exp(-5))
    assert theory.pac_sample_size(2**2000, 0.1, 0.05, epsilon=1) > theory.agnostic_sample_size(2**2000, 0.1, 0.05)


@pytest.mark.parametrize("epsilon", [1e12, 1e100, 1e300])
def test_a_budget_without_end_costs_nothing(epsilon: float) -> None:
    """β₂ may shrink to nothing as ε grows; a split by 1 - share once divided by zero there."""
    assert theory.pac_sample_size(1000, 0.1, 0.05, epsilon) == theory.pac_sample_size(1000, 0.1, 0.05)
    assert theory.privacy_overhead(1000, 0.1, 0.05, epsilon) == 1.0


def test_zero_delta_is_not_a_gaussian_release() -> None:
    """delta=0 once meant "standard normal" to an internal function and gave a number without a guarantee."""
    with pytest.raises(ValueError, match="0 < delta < 1"):
        theory.output_perturbation_risk(100, 5, 1, 0.1, epsilon=1, delta=0)


# what was promised: names, and defaults where stated; ... marks an argument without one
PROMISED: dict[str, dict[str, Any]] = {
    "uniform_convergence_sample_size": {"hypotheses": ..., "alpha": ..., "beta": ..., "two_sided": False, "as_printed": False},
    "pac_sample_size": {
        "hypotheses": ..., "alpha": ..., "beta": ..., "epsilon": None, "relation": "replace-one", "realizable": False,
        "optimise_split": True, "as_printed": False,
    },
    "exponential_mechanism_tail": {"hypotheses": ..., "sensitivity": ..., "epsilon": ..., "beta": ...},
    "exponential_erm_risk": {
        "n": ..., "d": ..., "lipschitz": ..., "radius": None, "diameter": None, "epsilon": ..., "beta": None, "convex": False,
        "relation": "replace-one",
    },
    "output_perturbation_risk": {"n": ..., "epsilon": ..., "beta": None, "relation": "replace-one"},
    "objective_perturbation_risk": {"n": ..., "epsilon": ..., "beta": None, "relation": "replace-one"},
    "gradient_descent_risk": {
        "n": ..., "d": ..., "lipschitz": ..., "diameter": None, "epsilon": ..., "delta": ..., "steps": None,
        "relation": "replace-one", "beta": None,
    },
    "projected_gradient_risk": {"steps": None, "beta": None, "relation": "replace-one"},
    "rank_risk": {
        "n": ..., "rank": ..., "lipschitz": ..., "seminorm": ..., "epsilon": ..., "delta": ..., "relation": "replace-one",
    },
    "projector": {"X": ...},
    "seminorm": {"v": ..., "M": ...},
    "composition_epsilon": {"rho": ..., "count": ..., "delta": ..., "rule": "exact"},
    "gradient_sensitivity": {"domain": "ball", "relation": "replace-one"},
    "lower_bound": {"kind": ..., "n": ..., "d": ..., "epsilon": ..., "delta": None},
    "privacy_is_free_above": {"alpha": ...},
    "phased_sgd_risk": {"n": ..., "relation": "replace-one"},
    "generalisation_gap": {"n": ..., "beta": None},
    "empirical_risk": {"problem": ..., "w": ..., "X": ..., "y": ...},
    "excess_risk": {"problem": ..., "w": ..., "X": ..., "y": ..., "reference": ...},
    "excess_risk_summary": {"excesses": ..., "beta": 0.05},
    "population_risk": {"problem": ..., "w": ..., "X": ..., "y": ...},
    "sample_size": {"risk_function": ..., "target": ...},
}  # fmt: skip


@pytest.mark.parametrize("name", PROMISED)
def test_promised_signatures(name: str) -> None:
    found = inspect.signature(getattr(theory, name)).parameters
    for key, default in PROMISED[name].items():
        assert found[key].kind in (found[key].POSITIONAL_OR_KEYWORD, found[key].KEYWORD_ONLY)
        assert found[key].default == (inspect.Parameter.empty if default is ... else default)


def test_every_theorem_defaults_to_replace_one_and_the_corrected_constants() -> None:
    for function in theory.THEOREMS.values():
        parameters = inspect.signature(function).parameters
        assert "relation" not in parameters or parameters["relation"].default == "replace-one"
        assert "as_printed" not in parameters or parameters["as_printed"].default is False
