"""Every regularizer in REGULARIZERS: its constants hold and are attained, gradients and proximal maps are right."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from dperm.problem import ElasticNet, Lasso, NoRegularizer, Ridge, regularizer_from_spec
from problem_cases import regularizers

POINTS = 10_000
DIMENSION = 4


ALL = pytest.mark.parametrize("regularizer", regularizers(), ids=lambda item: json.dumps(item.spec()))


def pairs():
    """Points at many scales, some on kinks (zeros), some pairs close together."""
    rng = np.random.default_rng(11)
    u = rng.normal(size=(POINTS, DIMENSION)) * 10 ** rng.uniform(-3, 2, size=(POINTS, 1))
    u[rng.random(u.shape) < 0.2] = 0.0
    w = np.where(rng.random((POINTS, 1)) < 0.5, u + 1e-2 * rng.normal(size=u.shape), rng.normal(size=u.shape))
    w[rng.random(w.shape) < 0.2] = 0.0
    return list(zip(u, w))


def smallest_and_largest_bend(regularizer):
    """Extremes of <∇r(u) - ∇r(w), u - w>/||u - w||²: the strong convexity and, where finite, the smoothness."""
    bends = [
        float((regularizer.gradient(u) - regularizer.gradient(w)) @ (u - w)) / float((u - w) @ (u - w))
        for u, w in pairs()
        if np.any(u != w)
    ]
    assert len(bends) > 0.99 * POINTS
    return min(bends), max(bends)


@ALL
def test_constants_hold_and_are_attained(regularizer):
    low, high = smallest_and_largest_bend(regularizer)
    assert low >= regularizer.strong_convexity * (1 - 1e-6) - 1e-12
    assert low <= regularizer.strong_convexity * 1.01 + 1e-12, "a larger constant would be refuted"
    if math.isinf(regularizer.smoothness):
        assert high > 50
    else:
        assert high <= regularizer.smoothness * (1 + 1e-6) + 1e-12
        assert high >= regularizer.smoothness * 0.99 - 1e-12, "a smaller constant would be refuted"


@ALL
def test_gradient_is_a_subgradient_to_the_full_strong_convexity(regularizer):
    """r(u) >= r(w) + <g(w), u - w> + (λ/2)||u - w||² with the half (E17): twice λ is refuted."""
    gaps = np.array(
        [
            [
                regularizer.value(u) - regularizer.value(w) - regularizer.gradient(w) @ (u - w),
                0.5 * (u - w) @ (u - w),
                1 + regularizer.value(u) + regularizer.value(w),
            ]
            for u, w in pairs()
        ]
    )
    excess = gaps[:, 0] - regularizer.strong_convexity * gaps[:, 1]
    assert np.all(excess >= -1e-10 * gaps[:, 2])
    if regularizer.strong_convexity:
        doubled = gaps[:, 0] - 2 * regularizer.strong_convexity * gaps[:, 1]
        assert np.any(doubled < -1e-3)


@ALL
@pytest.mark.parametrize("step", [0.1, 1.0, 10.0])
def test_prox_is_the_minimiser(regularizer, step):
    """step·r(u) + ½||u - w||² is (1 + step·λ)-strongly convex: any other point costs at least that much more."""
    strong = 1 + step * regularizer.strong_convexity

    def cost(u, w):
        return step * regularizer.value(u) + 0.5 * float((u - w) @ (u - w))

    for u, w in pairs()[:2000]:
        best = regularizer.prox(w, step)
        other = best + 0.1 * (u - best)
        margin = 0.5 * strong * float((other - best) @ (other - best))
        assert cost(other, w) >= cost(best, w) + margin * (1 - 1e-6) - 1e-9 * (1 + cost(other, w))


@ALL
def test_prox_is_not_expansive(regularizer):
    for u, w in pairs()[:2000]:
        moved = np.linalg.norm(regularizer.prox(u, 0.7) - regularizer.prox(w, 0.7))
        limit = np.linalg.norm(u - w) / (1 + 0.7 * regularizer.strong_convexity)
        assert moved <= limit * (1 + 1e-9) + 1e-15


@ALL
def test_matrices_and_specs(regularizer):
    w = np.arange(6.0).reshape(2, 3) - 2
    assert regularizer.gradient(w).shape == regularizer.prox(w, 0.5).shape == (2, 3)
    assert regularizer.value(w) == pytest.approx(regularizer.value(w.ravel()))
    text = json.dumps(regularizer.spec(), allow_nan=False)
    assert regularizer_from_spec(json.loads(text)) == regularizer


def test_known_values():
    w = np.array([3.0, -4.0])
    assert Ridge(2.0).value(w) == 25.0
    assert Lasso(2.0).value(w) == 14.0
    assert ElasticNet(2.0, 2.0).value(w) == 39.0
    assert NoRegularizer().value(w) == 0.0
    assert ElasticNet(1.0, 1.0).prox(w, 1.0).tolist() == [1.0, -1.5]
    assert (Lasso(0.0).smoothness, ElasticNet(3.0, 0.0).smoothness) == (0.0, 3.0)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Ridge(-1.0), "strength >= 0"),
        (lambda: Lasso(math.inf), "finite"),
        (lambda: ElasticNet(1.0, math.nan), "NaN"),
        (lambda: regularizer_from_spec({"name": "group-lasso"}), "among"),
        (lambda: regularizer_from_spec({"name": "ridge"}), "parameters of ridge"),
    ],
)
def test_bad_declarations_are_refused_in_words(build, message):
    with pytest.raises(ValueError, match=message):
        build()
