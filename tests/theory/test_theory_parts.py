"""Inverses, projector and seminorm, generators, metrics."""

from __future__ import annotations

import ast
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dperm.theory
from dperm import theory
from dperm.problem import (
    DataBounds,
    FeatureMap,
    Interval,
    LogisticLoss,
    MultinomialLoss,
    Problem,
    Ridge,
    SquaredLoss,
    ZeroOneLoss,
)
from places import ROOT
from theory_registry import property_of, simulates

DESCENT: dict[str, Any] = {"d": 50, "lipschitz": 1, "diameter": 1, "epsilon": 1, "delta": 1e-6}
INVERTED: list[tuple[str, dict[str, Any]]] = [
    ("gradient-descent", DESCENT),
    ("gradient-descent", {**DESCENT, "beta": 0.05}),
    ("exponential-erm", {"d": 10, "lipschitz": 1, "radius": 1, "epsilon": 1, "beta": 0.05}),
    ("exponential-erm", {"d": 10, "lipschitz": 1, "diameter": 1, "epsilon": 1, "convex": True}),
    ("output-perturbation", {"d": 10, "lipschitz": 1, "epsilon": 1, "radius": 1}),
    ("output-perturbation", {"d": 10, "lipschitz": 1, "epsilon": 1, "strong_convexity": 0.1}),
    ("objective-perturbation", {"d": 10, "lipschitz": 1, "epsilon": 1, "delta": 1e-6, "radius": 1}),
    ("rank", {"rank": 20, "lipschitz": 1, "seminorm": 1, "epsilon": 1, "delta": 1e-6}),
    ("phased-sgd", {"d": 10, "lipschitz": 1, "diameter": 1, "epsilon": 1, "delta": 1e-6, "smoothness": 1}),
]


@pytest.mark.parametrize(("name", "fixed"), INVERTED)
@pytest.mark.parametrize("target", [0.3, 0.05, 0.0123])
def test_sample_size_with_its_proof(name: str, fixed: dict[str, Any], target: float) -> None:
    risk = theory.THEOREMS[name]
    size = theory.sample_size(risk, target, **fixed)
    assert risk(n=size, **fixed) == size.risk <= target
    assert size.risk_before > target
    if math.isfinite(size.risk_before):
        assert risk(n=size - 1, **fixed) == size.risk_before
    else:
        with pytest.raises(theory.ConditionError):
            risk(n=size - 1, **fixed)


@pytest.mark.parametrize(
    ("name", "fixed", "target"),
    [
        ("uniform-convergence-error", {"hypotheses": 1000, "beta": 0.05}, 0.1),
        ("projected-gradient", {"lipschitz": 1, "diameter": 1, "d": 5, "epsilon": 1, "delta": 1e-6, "beta": 0.05}, 0.05),
        ("generalisation-gap", {"lipschitz": 1, "radius": 1, "beta": 0.05, "loss_range": 1}, 0.05),
        ("output-sensitivity", {"lipschitz": 1, "strong_convexity": 0.1}, 0.003),
        ("gradient-noise", {"lipschitz": 1, "epsilon": 1, "delta": 1e-6, "steps": 10}, 0.01),
        ("noise-epsilon", {"lipschitz": 1, "noise": 0.01, "delta": 1e-6, "steps": 10}, 1.0),
        ("lower-bound", {"kind": "convex", "d": 5, "epsilon": 1, "delta": 1e-6}, 0.001),
    ],
)
def test_sample_size_inverts_whatever_falls_in_n(name: str, fixed: dict[str, Any], target: float) -> None:
    function = theory.THEOREMS[name]
    size = theory.sample_size(function, target, **fixed)
    assert size > 1
    assert function(n=size, **fixed) == size.risk <= target < size.risk_before == function(n=size - 1, **fixed)
    if name == "uniform-convergence-error":
        assert size == theory.uniform_convergence_sample_size(1000, 0.1, 0.05) == 496


def test_every_risk_is_inverted() -> None:
    assert {name for name, _ in INVERTED} == set(theory.RISKS)


def test_sample_size_of_the_convex_exponential_mechanism_by_hand() -> None:
    """4dLR/(nε) <= t: n = ⌈4·10/0.004⌉."""
    size = theory.sample_size(theory.exponential_erm_risk, 0.004, d=10, lipschitz=1, radius=1, epsilon=1, convex=True)
    assert size == 10_000
    assert isinstance(size, int)
    assert (int(size), size + 1, f"{size}") == (10_000, 10_001, "10000")


def test_sample_size_of_one_record() -> None:
    size = theory.sample_size(lambda n: 1 / n, 2.0)
    assert (size, size.risk, size.risk_before) == (1, 1.0, math.inf)
    back = pickle.loads(pickle.dumps(size))
    assert (back, back.risk, back.risk_before, back.target) == (size, size.risk, size.risk_before, size.target)


@property_of("sample_size")
@settings(max_examples=50, deadline=None, derandomize=True)
@given(threshold=st.integers(1, 10**12))
def test_sample_size_finds_any_threshold(threshold: int) -> None:
    assert theory.sample_size(lambda n: 0.0 if n >= threshold else 1.0, 0.5) == threshold


def test_sample_size_refuses() -> None:
    with pytest.raises(ValueError, match="target that the bound reaches"):
        theory.sample_size(theory.gradient_descent_risk, 1e-3, **DESCENT, steps=10)
    with pytest.raises(ValueError, match="no n among"):
        theory.sample_size(theory.gradient_descent_risk, 0.1, n=5, **DESCENT)
    with pytest.raises(ValueError, match="target > 0"):
        theory.sample_size(theory.gradient_descent_risk, 0.0, **DESCENT)
    with pytest.raises(ValueError, match="epsilon > 0"):  # a wrong argument is not "n too small"
        theory.sample_size(theory.gradient_descent_risk, 0.1, **{**DESCENT, "epsilon": -1})


@pytest.mark.parametrize("target", [0.3, 0.01])
def test_required_epsilon(target: float) -> None:
    fixed = {key: value for key, value in DESCENT.items() if key != "epsilon"}
    epsilon = theory.required_epsilon(theory.gradient_descent_risk, target, n=2000, **fixed)
    assert theory.gradient_descent_risk(n=2000, epsilon=epsilon, **fixed) <= target
    assert theory.gradient_descent_risk(n=2000, epsilon=epsilon * (1 - 1e-8), **fixed) > target
    needs = theory.required_epsilon(theory.exponential_erm_risk, 0.2, n=1000, d=5, lipschitz=1, radius=1, beta=0.05)
    assert theory.exponential_erm_risk(n=1000, d=5, lipschitz=1, radius=1, beta=0.05, epsilon=needs) <= 0.2
    with pytest.raises(ValueError, match="target that the bound reaches"):
        theory.required_epsilon(theory.gradient_descent_risk, 1e-9, n=2000, largest=10.0, **fixed)


@property_of("projector", "row_space", "seminorm", "basis_seminorm")
@settings(max_examples=40, deadline=None, derandomize=True)
@given(n=st.integers(1, 30), d=st.integers(1, 20), rank=st.integers(1, 5), seed=st.integers(0, 10**6))
def test_projector_and_seminorm(n: int, d: int, rank: int, seed: int) -> None:
    """Definitions 4.2, 4.3 and Claim 4.4: M is the projector on the rows' span, ‖·‖_M a seminorm that sees that span only."""
    source = np.random.default_rng(seed)
    rank = min(rank, n, d)
    X = source.standard_normal((n, rank)) @ source.standard_normal((rank, d))
    M, basis = theory.projector(X), theory.row_space(X)
    assert basis.shape == (d, rank)
    assert np.allclose(M, M.T) and np.allclose(M @ M, M) and np.trace(M) == pytest.approx(rank)
    assert np.allclose(X @ M, X)
    u, v = source.standard_normal((2, d))
    assert theory.seminorm(v, M) == pytest.approx(float(np.linalg.norm(M @ v)), abs=1e-9)
    assert theory.seminorm(v, M) == pytest.approx(theory.basis_seminorm(v, basis), abs=1e-9)
    assert theory.seminorm(u + v, M) <= theory.seminorm(u, M) + theory.seminorm(v, M) + 1e-9
    assert theory.seminorm(-3 * v, M) == pytest.approx(3 * theory.seminorm(v, M))
    assert theory.seminorm(v - M @ v, M) == pytest.approx(0.0, abs=1e-6)
    # predictions do not see the rest of v
    assert np.allclose(X @ v, X @ (M @ v))


def test_projector_tolerance_is_relative() -> None:
    X = np.diag([1.0, 1e-3])
    assert theory.row_space(X).shape[1] == 2
    assert theory.row_space(X, tolerance=0.01).shape[1] == 1
    assert theory.row_space(1e-9 * X).shape[1] == 2


@simulates("make_separable", "make_agnostic", "make_separators")
def test_generators() -> None:
    source = np.random.default_rng(0)
    sample = theory.make_separable(source, 500, 3, margin=0.1)
    assert sample.X.shape == (500, 3) and sample.X.min() >= 0 and sample.X.max() <= 1
    assert np.linalg.norm(sample.w) == pytest.approx(1)
    assert np.all(sample.y * (sample.augmented @ sample.weights) >= 0.1)
    assert 0.35 < np.mean(sample.y > 0) < 0.65
    noisy = theory.make_agnostic(source, 4000, 3, flip=0.3)
    wrong = np.mean(noisy.y * (noisy.augmented @ noisy.weights) < 0)
    assert abs(wrong - 0.3) < 5 * math.sqrt(0.21 / 4000)  # 5 standard errors: 6e-7
    # the same stream gives the same data; another one does not
    again = theory.make_separable(np.random.default_rng(0), 500, 3, margin=0.1)
    assert np.array_equal(again.X, sample.X)
    assert not np.array_equal(theory.make_separable(np.random.default_rng(1), 500, 3).X, sample.X)
    rules = theory.make_separators(source, 7, 3)
    assert np.allclose(np.linalg.norm(rules[:, :3], axis=1), 1)
    assert np.allclose(rules @ np.array([0.5, 0.5, 0.5, 1.0]), 0)


def test_generators_refuse() -> None:
    source = np.random.default_rng(0)
    with pytest.raises(ValueError, match="margin <="):
        theory.make_separable(source, 10, 2, margin=0.9)
    with pytest.raises(ValueError, match="flip < 1/2"):
        theory.make_agnostic(source, 10, 2, flip=0.5)
    with pytest.raises(ValueError, match="n >= 1"):
        theory.make_separable(source, 0, 2)


@simulates("exponential_probabilities", "exponential_mechanism_tail", "make_separators")
def test_private_learner_over_a_class_of_separators() -> None:
    """make_separators + exponential probabilities: the expected empirical error obeys the tail bound (exact, no draws)."""
    source = np.random.default_rng(2)
    sample = theory.make_agnostic(source, 2000, 2, flip=0.1)
    rules = np.vstack([theory.make_separators(source, 200, 2), sample.weights])
    correct = np.sum(sample.y[:, None] * (sample.augmented @ rules.T) > 0, axis=0).astype(float)
    law = theory.exponential_probabilities(correct, 1.0, 0.5)
    for beta in (0.5, 0.1, 0.01):
        gap = theory.exponential_mechanism_tail(201, 1.0, 0.5, beta)
        assert law[correct <= correct.max() - gap].sum() <= beta


def problem(loss: Any, **more: Any) -> Problem:
    return Problem(loss, data=DataBounds(x_norm=1.0, y=Interval(-1, 1), **more.pop("data", {})), **more)


def test_empirical_and_excess_risk() -> None:
    source = np.random.default_rng(3)
    X, y = source.uniform(-0.5, 0.5, (50, 2)), source.uniform(-1, 1, 50)
    ridge = problem(SquaredLoss(), regularizer=Ridge(2.0))
    best = np.linalg.solve(X.T @ X + 2.0 * np.eye(2), X.T @ y)
    w = np.array([0.3, -0.2])
    plain = theory.empirical_risk(ridge, w, X, y)
    assert plain == pytest.approx(np.mean((X @ w - y) ** 2) / 2)
    assert theory.empirical_risk(ridge, w, X, y, regularized=True) == pytest.approx(plain + (w @ w) / 50)
    excess = theory.excess_risk(ridge, w, X, y, reference=best, regularized=True)
    assert excess == pytest.approx((w - best) @ (X.T @ X + 2.0 * np.eye(2)) @ (w - best) / 2 / 50)
    assert theory.excess_risk(ridge, best, X, y, reference=best, regularized=True) == 0.0
    with pytest.raises(ValueError, match="Expected X with 2 columns"):
        theory.empirical_risk(ridge, w, X[:, :0], y)
    with pytest.raises(ValueError, match="a label per row"):
        theory.empirical_risk(ridge, w, X, y[:3])


def test_risk_with_intercept_feature_map_and_classes() -> None:
    X, y = np.array([[1.0], [2.0]]), np.array([1.0, -1.0])
    logistic = problem(LogisticLoss(), data={"intercept": 2.0})
    expected = np.mean(np.logaddexp(0, -y * (X[:, 0] * 0.5 + 2.0 * 0.25)))
    assert theory.empirical_risk(logistic, [0.5, 0.25], X, y) == pytest.approx(expected)
    mapped = problem(
        SquaredLoss(), feature_map=FeatureMap(lambda rows: rows**2, output_norm=4.0, output_dimension=1, name="square")
    )
    assert theory.empirical_risk(mapped, [0.5], X, [0.0, 0.0]) == pytest.approx((0.5**2 + 2.0**2) / 4)
    classes = problem(MultinomialLoss(classes=3))
    assert theory.empirical_risk(classes, np.zeros((3, 1)), X, [0, 2]) == pytest.approx(math.log(3))


@simulates("excess_risk_summary")
def test_summary_covers_the_quantile() -> None:
    """400 repetitions of 200 exponential draws: both limits miss in at most 1 % of them (nominal; binomial slack 4 sd)."""
    source = np.random.default_rng(4)
    missed = np.zeros(2)
    for _ in range(400):
        summary = theory.excess_risk_summary(source.exponential(size=200), beta=0.1, confidence=0.99)
        missed += [summary.mean_upper < 1.0, summary.quantile_upper < -math.log(0.1)]
        assert summary.mean <= summary.mean_upper and summary.quantile <= summary.quantile_upper
    assert missed[1] <= 4 + 4 * 2
    assert missed[0] <= 4 + 4 * 2 + 4  # the normal limit is approximate for a skewed law
    assert theory.excess_risk_summary([1.0, 2.0], beta=0.05).quantile_upper == math.inf
    with pytest.raises(ValueError, match="at least 2 finite"):
        theory.excess_risk_summary([1.0])


def test_population_risk_intervals() -> None:
    source = np.random.default_rng(5)
    sample = theory.make_agnostic(source, 4000, 2, flip=0.2)
    rule, rows = sample.weights, sample.augmented
    errors = theory.population_risk(problem(ZeroOneLoss()), rule, rows, sample.y, confidence=0.999)
    assert errors.method == "binomial" and errors.low < 0.2 < errors.high
    wide = theory.population_risk(problem(ZeroOneLoss()), rule, rows, sample.y, confidence=0.999, loss_range=1.0)
    assert wide.method == "hoeffding" and wide.high - wide.low > errors.high - errors.low
    assert wide.high - wide.value == pytest.approx(math.sqrt(math.log(2000) / 8000))
    normal = theory.population_risk(problem(LogisticLoss()), rule, rows, sample.y)
    assert normal.method == "normal" and normal.low < normal.value < normal.high
    perfect = theory.population_risk(problem(ZeroOneLoss()), [1.0], [[1.0]] * 10, [1.0] * 10)
    assert (perfect.low, perfect.high) == (0.0, pytest.approx(1 - 0.025**0.1))
    hopeless = theory.population_risk(problem(ZeroOneLoss()), [1.0], [[1.0]] * 10, [-1.0] * 10)
    assert (hopeless.low, hopeless.high) == (pytest.approx(0.025**0.1), 1.0)
    with pytest.raises(ValueError, match="at least 2 held-out"):
        theory.population_risk(problem(LogisticLoss()), [1.0], [[1.0]], [1.0])


def test_theory_is_pure() -> None:
    """No module of the package imports a random generator, sklearn, rows, or anything that reads files."""
    banned = ("random", "numpy.random", "secrets", "sklearn", "dperm.rows", "dperm.release", "pathlib", "io", "os")
    files = sorted(Path(dperm.theory.__file__).parent.glob("*.py"))
    assert len(files) >= 12
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not set(names) & set(banned), path
            assert not (
                isinstance(node, ast.Attribute)
                and node.attr == "random"
                and isinstance(node.value, ast.Name)
                and node.value.id == "np"
            )


def test_every_erratum_and_every_theorem_is_on_its_page() -> None:
    """That each named function and test exists is checked in `test_lectures_page.py`."""
    docs = ROOT / "docs"
    lectures, errata = (docs / "theorems" / "lectures.md").read_text("utf-8"), (docs / "errata.md").read_text("utf-8")
    for number in range(1, 39):
        assert f"| E{number} |" in errata
    # every theorem of the registry appears in the map of items or of errata
    for function in theory.THEOREMS.values():
        assert f"`{function.__name__}" in lectures, function.__name__
