"""The lectures' exercises on convexity, Lipschitz constants and missing minimisers: properties, and what random data show."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm import theory
from dperm.problem import AbsoluteLoss, HingeLoss, LogisticLoss, check_convexity
from dperm.terms.network import Layout
from dperm.theory.sampling import ball_rows, sphere
from theory_registry import property_of, simulates

quick = settings(max_examples=60, deadline=None, derandomize=True)
numbers = st.floats(-50.0, 50.0)
bounds = st.lists(st.floats(0.0, 100.0), min_size=1, max_size=20)


@property_of("mean_lipschitz")
@quick
@given(constants=bounds, factor=st.floats(0.1, 10.0))
def test_the_mean_is_never_steeper_than_its_steepest_record(constants: list[float], factor: float) -> None:
    found = theory.mean_lipschitz(constants)
    assert min(constants) * (1 - 1e-12) <= found <= max(constants) * (1 + 1e-12)
    assert theory.mean_lipschitz([factor * value for value in constants]) == pytest.approx(factor * found)
    assert theory.mean_lipschitz(constants + constants) == pytest.approx(found)


@simulates("mean_lipschitz")
@pytest.mark.parametrize("loss", [LogisticLoss(), HingeLoss(), AbsoluteLoss()], ids=lambda loss: loss.name)
def test_mean_losses_inherit_the_lipschitz_constant(loss: Any) -> None:
    """Exercise 2.3: 2,000 pairs of parameters, rows of random norm. |L(w) - L(w')| ≤ G‖w - w'‖ with G = mean ‖x_i‖, and parallel
    rows of one label come close to it: the constant cannot be smaller.
    """
    generator = np.random.default_rng(3)
    X = ball_rows(generator, 40, 4)
    y = np.where(generator.random(40) < 0.5, 1.0, -1.0)
    bound = theory.mean_lipschitz(np.linalg.norm(X, axis=1))
    assert bound <= 1.0

    def mean(rows: np.ndarray, labels: np.ndarray, w: np.ndarray) -> float:
        return float(np.mean(loss.value(rows @ w, labels)))

    steepest = 0.0
    for u, v in generator.standard_normal((2000, 2, 4)) * 3:
        steepest = max(steepest, abs(mean(X, y, u) - mean(X, y, v)) / float(np.linalg.norm(u - v)))
    assert steepest <= bound
    parallel = np.tile(sphere(generator, 1, 4), (40, 1))
    ones = np.ones(40)
    far = -30.0 * parallel[0]
    rise = abs(mean(parallel, ones, far) - mean(parallel, ones, 2 * far)) / 30.0
    assert rise >= 0.999 * theory.mean_lipschitz(np.ones(40))


@property_of("jensen_gap")
@quick
@given(points=st.lists(numbers, min_size=2, max_size=8), factor=st.floats(0.1, 5.0), shift=numbers)
def test_jensen_gap_is_linear_in_f_and_ignores_affine_parts(points: list[float], factor: float, shift: float) -> None:
    square = theory.jensen_gap(lambda x: x * x, points)
    assert square == pytest.approx(float(np.var(points)), abs=1e-9 * (1 + max(map(abs, points)) ** 2))
    assert theory.jensen_gap(lambda x: factor * x * x + shift * x + 3, points) == pytest.approx(factor * square, abs=1e-6)
    assert theory.jensen_gap(lambda x: -x * x, points) <= 1e-9
    assert abs(theory.jensen_gap(lambda x: shift * x, points)) <= 1e-9 * (1 + abs(shift) * max(map(abs, points)))


CONVEX = [
    ("logistic", lambda x: float(np.logaddexp(0.0, -x))),
    ("absolute", abs),
    ("exponential", lambda x: math.exp(x / 10)),
]


@simulates("jensen_gap")
def test_random_laws_never_break_jensen_for_convex_losses_and_do_for_the_cube() -> None:
    """Exercise A.4: 3,000 random laws on random points, convex functions: no negative gap. (x-1)³: negative where points lie
    below 1, positive above, so no sign is right for all of them.
    """
    generator = np.random.default_rng(4)
    signs = set()
    for _ in range(1000):
        points = 6 * generator.standard_normal(5)
        weights = generator.random(5)
        for _, function in CONVEX:
            assert theory.jensen_gap(function, points, weights) >= -1e-9
        signs.add(theory.jensen_gap(lambda x: (x - 1) ** 3, points, weights) > 0)
    assert signs == {True, False}
    below = 1 - np.abs(generator.standard_normal(5))
    assert theory.jensen_gap(lambda x: (x - 1) ** 3, below) < 0
    vectors = generator.standard_normal((6, 3))
    assert theory.jensen_gap(lambda w: float(w @ w), vectors) == pytest.approx(np.trace(np.cov(vectors.T, bias=True)))


def test_the_cube_is_refused_by_the_convexity_check() -> None:
    outcome = check_convexity(lambda w: float((w[0] - 1) ** 3))
    assert not outcome
    u, w, share = outcome.witness
    points, middle = (u[0], w[0]), share * u[0] + (1 - share) * w[0]
    assert (middle - 1) ** 3 > share * (points[0] - 1) ** 3 + (1 - share) * (points[1] - 1) ** 3


@property_of("subgradient_gap")
@quick
@given(at=st.floats(-5.0, 5.0), slope=st.floats(-3.0, 3.0), points=st.lists(numbers, min_size=1, max_size=6))
def test_subgradients_of_the_absolute_value_are_those_between_its_slopes(at: float, slope: float, points: list[float]) -> None:
    zero = theory.subgradient_gap(abs, slope, 0.0, [*points, -1.0, 1.0])
    assert (zero >= 0) == (abs(slope) <= 1)
    tangent = theory.subgradient_gap(lambda x: x * x, 2 * at, at, points)
    assert tangent >= -1e-9 * (1 + max(map(abs, points)) ** 2)
    # with w itself among the points the gap is never positive, whatever is offered
    assert theory.subgradient_gap(abs, slope, at, [*points, at]) <= 1e-12


@simulates("subgradient_gap")
def test_random_tangents_lie_below_convex_losses_only() -> None:
    """Lemma A.3 both ways at 500 random points: shipped slopes are subgradients; the cube has none below 1."""
    generator = np.random.default_rng(5)
    for at in 3 * generator.standard_normal(500):
        others = 6 * generator.standard_normal(20)
        for loss in (LogisticLoss(), HingeLoss(), AbsoluteLoss()):

            def value(z: Any, loss: Any = loss) -> float:
                return float(np.asarray(loss.value(np.atleast_1d(z), np.array([1.0])))[0])

            slope = float(np.asarray(loss.slope(np.array([at]), np.array([1.0])))[0])
            assert theory.subgradient_gap(value, slope, at, others) >= -1e-9
        if at < 0.9:
            assert theory.subgradient_gap(lambda x: (x - 1) ** 3, 3 * (at - 1) ** 2, at, [at - 1.0]) < 0
    # convex, but the edge of a closed set may have no subgradient: every slope fails for -√x at 0
    for slope in (-1.0, -100.0, -1e6):
        assert theory.subgradient_gap(lambda x: -math.sqrt(x), slope, 0.0, [1e-14, 1.0]) < 0


@property_of("two_layer_gap")
@quick
@given(classes=st.integers(2, 1000), share=st.floats(0.0, 0.99), factor=st.floats(0.01, 0.99))
def test_the_better_the_network_the_larger_the_gap(classes: int, share: float, factor: float) -> None:
    loss = share * math.log(classes)
    gap = theory.two_layer_gap(loss, classes)
    assert 0 < gap <= math.log(classes)
    assert theory.two_layer_gap(factor * loss, classes) >= gap
    with pytest.raises(theory.ConditionError, match="better than guessing"):
        theory.two_layer_gap(math.log(classes) + 1e-9, classes)


@simulates("two_layer_gap")
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_the_shipped_network_is_not_convex(classes: int) -> None:
    """The network of `MLPClassifier` at random weights, last layer fitted so that it beats guessing; then its mirror image."""
    generator = np.random.default_rng(classes)
    layout = Layout(4, 16, classes)
    labels = generator.integers(0, classes, 300)
    Z = sphere(generator, classes, 4)[labels] * 4 + 0.1 * generator.standard_normal((300, 4))
    first = np.concatenate([generator.standard_normal((4, 16)).ravel(), generator.standard_normal(16)])
    hidden = np.tanh(Z @ first[:64].reshape(4, 16) + first[64:])
    second = np.linalg.lstsq(hidden, 4 * np.eye(classes)[labels], rcond=None)[0]
    w = np.concatenate([first, second.ravel(), np.zeros(classes)])
    assert layout.size == w.size

    def loss(w: np.ndarray) -> float:
        scores = np.asarray(layout.scores(w, Z), dtype=np.float64)
        picked = scores[np.arange(len(labels)), labels]
        return float(np.mean(np.logaddexp.reduce(scores, axis=1) - picked))

    assert loss(-w) == pytest.approx(loss(w), abs=1e-9)  # the same network, far away
    bump = loss(0 * w) - (loss(w) + loss(-w)) / 2
    assert bump == pytest.approx(theory.two_layer_gap(loss(w), classes), abs=1e-9)
    assert bump > 0.1


@property_of("infimum_gap")
@quick
@given(example=st.sampled_from(["separable", "open-set"]), reach=st.floats(0.01, 300.0), factor=st.floats(1.01, 2.0))
def test_the_infimum_is_approached_and_never_reached(example: str, reach: float, factor: float) -> None:
    here = theory.infimum_gap(example, reach)
    assert 0 < theory.infimum_gap(example, factor * reach) < here
    assert theory.infimum_gap("open-set", 1e9 * reach) < 1e-6


@simulates("infimum_gap")
def test_logistic_regression_on_separable_data_has_no_minimiser() -> None:
    """Along the separator the risk falls for ever below ln(1 + e^{-t·margin}); with a ridge it turns upwards."""
    sample = theory.make_separable(np.random.default_rng(6), 200, 3, margin=0.1)
    Z, smallest = sample.augmented, float(np.min(sample.y * (sample.augmented @ sample.weights)))

    def risk(t: float, ridge: float = 0.0) -> float:
        w = t * sample.weights
        return float(np.mean(np.logaddexp(0.0, -sample.y * (Z @ w)))) + ridge / 2 * float(w @ w)

    steps = [2.0**j for j in range(1, 12)]
    values = [risk(t) for t in steps]
    assert all(later < before for before, later in itertools.pairwise(values))
    assert all(0 < value <= theory.infimum_gap("separable", t * smallest) for t, value in zip(steps, values))
    equal = float(np.mean(np.logaddexp(0.0, -np.full(9, 2.5))))
    assert equal == pytest.approx(theory.infimum_gap("separable", 2.5))
    assert risk(1e4, 0.01) > risk(1.0, 0.01)
    inside = np.random.default_rng(7).random(1000)  # points of the open interval (0, 1): each has a smaller one below it
    assert all(theory.infimum_gap("open-set", 1 / x) < x for x in inside if x > 0)
