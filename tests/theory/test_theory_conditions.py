"""Bad numbers and failing conditions: an error that names what was expected, never a number."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dperm import theory
from dperm.theory import ConditionError

DESCENT: dict[str, Any] = {"n": 100, "d": 5, "lipschitz": 1, "diameter": 1, "epsilon": 1, "delta": 1e-6}
ERM: dict[str, Any] = {"n": 10**4, "d": 5, "lipschitz": 1, "radius": 1, "epsilon": 1, "beta": 0.05}
OUTPUT: dict[str, Any] = {"n": 100, "d": 5, "lipschitz": 1, "strong_convexity": 0.1, "epsilon": 1}
OBJECTIVE: dict[str, Any] = {**OUTPUT, "n": 1000}
RANK: dict[str, Any] = {"n": 100, "rank": 5, "lipschitz": 1, "seminorm": 1, "epsilon": 1, "delta": 1e-6}
PAC: dict[str, Any] = {"hypotheses": 10, "alpha": 0.1, "beta": 0.05, "epsilon": 1.0}
UNIFORM: dict[str, Any] = {"hypotheses": 10, "alpha": 0.1, "beta": 0.05}
PHASED: dict[str, Any] = {**DESCENT, "smoothness": 1}
TAIL: dict[str, Any] = {"hypotheses": 10, "sensitivity": 1, "epsilon": 1, "beta": 0.05}
COMPOSE: dict[str, Any] = {"rho": 0.01, "count": 10, "delta": 1e-6}
LOWER: dict[str, Any] = {"kind": "convex", "n": 10, "d": 2, "epsilon": 1}
SENSE: dict[str, Any] = {"n": 10, "d": 2, "domain": "box"}
GAP: dict[str, Any] = {"n": 10, "lipschitz": 1, "radius": 1}

CASES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    *[("gradient_descent_risk", DESCENT, bad, text) for bad, text in [
        ({"n": 0}, "n >= 1"), ({"n": -5}, "n >= 1"), ({"n": 1.5}, "whole number n"), ({"d": 0}, "d >= 1"),
        ({"lipschitz": 0}, "lipschitz > 0"), ({"diameter": -1}, "diameter > 0"), ({"epsilon": 0}, "epsilon > 0"),
        ({"epsilon": float("nan")}, "epsilon > 0"), ({"epsilon": float("inf")}, "epsilon > 0"),
        ({"delta": 0}, "0 < delta < 1"), ({"delta": 1}, "0 < delta < 1"), ({"steps": 0}, "steps >= 1"),
        ({"relation": "swap"}, "relation"), ({"radius": 1}, "exactly one of diameter and radius"),
        ({"diameter": None}, "exactly one of diameter and radius"), ({"beta": 1.0}, "0 < beta < 1"),
        ({"as_printed": True}, "steps"), ({"as_printed": True, "steps": 5, "relation": "zero-out"}, "replace-one"),
        ({"strong_convexity": 1, "beta": 0.1}, "strong_convexity"), ({"strong_convexity": 0}, "strong_convexity > 0"),
        ({"n": "many"}, "number"), ({"n": True}, "number"),
    ]],
    *[("exponential_erm_risk", ERM, bad, text) for bad, text in [
        ({"n": 0}, "n >= 1"), ({"beta": 0}, "0 < beta < 1"), ({"radius": None}, "exactly one of radius and diameter"),
        ({"diameter": 1}, "exactly one of radius and diameter"), ({"n": 19}, "r <= R"), ({"r": 1.1}, "r <= R"),
        ({"r": 0}, "r > 0"), ({"as_printed": True, "beta": None}, "radius and beta"),
        ({"as_printed": True, "relation": "zero-out"}, "replace-one"),
    ]],
    *[("output_perturbation_risk", OUTPUT, bad, text) for bad, text in [
        ({"strong_convexity": 0}, "strong_convexity > 0"), ({"strong_convexity": None}, "strong_convexity or radius"),
        ({"smoothness": 0.01}, "smoothness >= strong_convexity"), ({"smoothness": -1}, "smoothness"),
        ({"radius": 0}, "radius > 0"), ({"delta": 1}, "0 < delta < 1"), ({"beta": 2}, "0 < beta < 1"),
        ({"as_printed": True, "strong_convexity": None}, "strong_convexity"),
    ]],
    *[("objective_perturbation_risk", OBJECTIVE, bad, text) for bad, text in [
        ({"strong_convexity": 1e-7}, "epsilon"), ({"strong_convexity": None}, "strong_convexity or radius"),
        ({"smoothness": 0}, "smoothness > 0"), ({"self_bounding": 0}, "self_bounding > 0"),
        ({"delta": 0}, "0 < delta < 1"), ({"delta": 2, "self_bounding": 1.0}, "0 < delta < 1"),
        ({"strong_convexity": None, "radius": 1e9}, "ridge"),
        ({"as_printed": True, "relation": "zero-out"}, "replace-one"),
    ]],
    *[("rank_risk", RANK, bad, text) for bad, text in [
        ({"rank": 0}, "rank >= 1"), ({"seminorm": -1}, "seminorm >= 0"), ({"rule": "loose"}, "rule in"),
        ({"as_printed": True, "steps": 4}, "steps=None"), ({"as_printed": True, "relation": "zero-out"}, "replace-one"),
    ]],
    *[("pac_sample_size", PAC, bad, text) for bad, text in [
        ({"alpha": 0}, "0 < alpha < 1"), ({"alpha": 1}, "0 < alpha < 1"), ({"beta": 1.5}, "0 < beta < 1"),
        ({"hypotheses": 0}, "hypotheses >= 1"), ({"epsilon": -1}, "epsilon > 0"), ({"uniform_share": 1}, "uniform_share"),
        ({"as_printed": True, "realizable": True}, "realizable=False"),
        ({"as_printed": True, "relation": "zero-out"}, "replace-one"),
    ]],
    ("uniform_convergence_sample_size", UNIFORM, {"alpha": 1.0}, "0 < alpha < 1"),
    ("uniform_convergence_sample_size", UNIFORM, {"beta": 0.0}, "0 < beta < 1"),
    ("uniform_convergence_error", {"n": 5, "hypotheses": 10, "beta": 0.1}, {"n": 0}, "n >= 1"),
    ("agnostic_sample_size", UNIFORM, {"alpha": -0.1}, "0 < alpha < 1"),
    ("privacy_is_free_above", {"alpha": 0.1}, {"alpha": 1.0}, "0 < alpha < 1"),
    ("exponential_mechanism_tail", TAIL, {"sensitivity": 0}, "sensitivity > 0"),
    ("exponential_mechanism_failure", {"hypotheses": 9, "sensitivity": 1, "epsilon": 1, "gap": 2}, {"gap": 0}, "gap > 0"),
    ("phased_sgd_risk", PHASED, {"n": 1}, "n >= 2"),
    ("phased_sgd_plan", PHASED, {"phases": 7}, "phases <= log2"),
    ("phased_sgd_risk", PHASED, {"smoothness": -1}, "smoothness >= 0"),
    ("phased_sgd_risk", PHASED, {"smoothness": None}, "smoothness for phased SGD, found None"),
    ("phased_sgd_plan", PHASED, {"smoothness": None}, "smoothness for phased SGD, found None"),
    ("composition_epsilon", COMPOSE, {"rule": "magic"}, "rule in"),
    ("composition_epsilon", COMPOSE, {"count": 0}, "count >= 1"),
    ("composition_epsilon", COMPOSE, {"rho": 0}, "rho > 0"),
    ("gradient_noise", {"n": 1, "lipschitz": 1, "epsilon": 1, "delta": 1e-6}, {"rule": "magic"}, "rule in"),
    ("output_sensitivity", {"n": 10, "lipschitz": 1, "strong_convexity": 1}, {"tolerance": -1}, "tolerance >= 0"),
    ("lower_bound", LOWER, {"kind": "linear"}, "kind in"),
    ("lower_bound", LOWER, {"delta": 1.0}, "0 < delta < 1"),
    ("lower_bound", LOWER, {"kind": "convex-pure", "delta": 1e-6}, "delta"),
    ("lower_bound", LOWER, {"kind": "convex-approximate"}, "delta"),
    ("gradient_sensitivity", SENSE, {"d": None}, "d with domain='box'"),
    ("gradient_sensitivity", SENSE, {"domain": "cube"}, "'ball' or 'box'"),
    ("gradient_sensitivity", SENSE, {"parameter_radius": -1}, "parameter_radius >= 0"),
    ("generalisation_gap", GAP, {"radius": None}, "hypotheses, or lipschitz"),
    ("generalisation_gap", GAP, {"beta": 0.1}, "loss_range"),
    ("generalisation_gap", GAP, {"hypotheses": 10}, "beta"),
    ("generalisation_gap", GAP, {"radius": None, "strong_convexity": 1, "beta": 0.1}, "beta"),
    ("projected_gradient_risk", {"steps": 10, "diameter": 1}, {"steps": None}, "steps"),
    ("projected_gradient_risk", {"steps": 10, "diameter": 1}, {"noise": 1.0}, "d together with noise"),
    ("projected_gradient_risk", {"steps": 10, "diameter": 1}, {"beta": 0.1}, "beta"),
    ("projected_gradient_risk", {"steps": 10, "diameter": 1}, {"epsilon": 1.0}, "n, d and delta"),
]  # fmt: skip


def call(name: str, arguments: dict[str, Any]) -> Any:
    return getattr(theory, name)(**arguments)


@pytest.mark.parametrize(("name", "good", "bad", "text"), CASES)
def test_bad_numbers_are_named(name: str, good: dict[str, Any], bad: dict[str, Any], text: str) -> None:
    call(name, good)
    with pytest.raises(ValueError, match="Expected") as caught:
        call(name, {**good, **bad})
    assert text in str(caught.value)


def test_theorem_2_5_names_its_condition_and_the_cure() -> None:
    with pytest.raises(ConditionError, match=r"r <= R .* Theorem 2.5, found r = .* n \* epsilon to at least 40"):
        theory.exponential_erm_risk(30, 10, 1, radius=1, epsilon=1, beta=0.05)
    assert theory.exponential_erm_risk(40, 10, 1, radius=1, epsilon=1, beta=0.05) > 0
    # as printed the condition is nε >= 2d (E22)
    assert theory.exponential_erm_risk(20, 10, 1, radius=1, epsilon=1, beta=0.05, as_printed=True) > 0
    with pytest.raises(ConditionError):
        theory.exponential_erm_risk(19, 10, 1, radius=1, epsilon=1, beta=0.05, as_printed=True)


def test_numpy_numbers_are_accepted() -> None:
    assert theory.gradient_descent_risk(
        np.int64(100), np.int32(5), np.float64(1), np.float32(1), epsilon=np.float64(1), delta=1e-6
    ) == theory.gradient_descent_risk(100, 5, 1, 1, epsilon=1, delta=1e-6)


@pytest.mark.parametrize("matrix", [np.zeros((0, 3)), np.zeros(3), np.array([[np.nan, 1.0]])])
def test_row_space_refuses_what_is_no_matrix(matrix: np.ndarray) -> None:
    with pytest.raises(ValueError, match="Expected a finite matrix"):
        theory.row_space(matrix)


def test_seminorm_refuses_other_shapes_and_signs() -> None:
    with pytest.raises(ValueError, match="Expected M of shape"):
        theory.seminorm([1.0, 2.0], np.eye(3))
    with pytest.raises(ValueError, match="positive semidefinite"):
        theory.seminorm([1.0, 2.0], -np.eye(2))


def test_max_log_ratio_refuses_other_arrays() -> None:
    with pytest.raises(ValueError, match="two positive laws"):
        theory.max_log_ratio([0.5, 0.5], [1.0])


def test_phased_sgd_is_false_without_smoothness() -> None:
    """Absolute losses, one pass from 0, d = 25: a first record that differs, then one record per coordinate whose label lies
    between the two iterates. They end 2η(√d-1) = 8η apart, four times the 2Lη that the noise of a phase covers.
    """
    d, step = 25, 0.1
    ends = []
    for sign in (1.0, -1.0):
        first = np.full(d, 1 / math.sqrt(d))
        theta = step * sign * first  # |<x, θ> - y| at θ = 0 with y = ±1: a step of length η along ±x
        for j in range(d):
            theta[j] -= step * np.sign(theta[j])  # x = e_j, y = 0
        ends.append(theta)
    apart = float(np.linalg.norm(ends[0] - ends[1]))
    assert apart == pytest.approx(2 * step * (math.sqrt(d) - 1))
    assert apart > 3 * (2 * step)
