"""Quantile regression: coverage, the term's sensitivity, what the certificate binds."""

from __future__ import annotations

import numpy as np
import pytest

from alterations import unnoticed
from dperm import QuantileRegressor
from dperm.mechanisms.scaled.quantile import PinballGradient
from dperm.privacy import kappa
from dperm.rows.base import Block
from dperm.terms.affine import Features


def skewed(n: int = 8000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 2))
    return X, 2 * X[:, 0] - X[:, 1] + rng.exponential(1.0, n)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_covers_its_share(level: float) -> None:
    """Shares below the prediction, in sample, over the whole and over each half of the first column; fixed seed."""
    X, y = skewed()
    model = QuantileRegressor(3.0, quantile=level, bounds=(-1, 1), y_bounds=(-4, 12), random_state=0).fit(X, y)
    below = y <= model.predict(X)
    assert abs(below.mean() - level) < 0.05
    assert all(abs(below[half].mean() - level) < 0.08 for half in (X[:, 0] < 0, X[:, 0] >= 0))
    assert np.allclose(model.coef_, [2, -1], atol=0.4)
    assert model.plan_.mechanism == "scaled-quantile" and model.score(X, y) > 0


def test_rows_are_weighted_by_features_alone() -> None:
    """A row of any norm and any label contributes at most reach·max(q, 1 - q); the bound is reached on the steeper side."""
    rng = np.random.default_rng(1)
    features = Features(1.0, rng.normal(size=2), np.exp(rng.normal(size=2)))
    term = PinballGradient(features, rng.normal(size=3), 0.8, 1e-3, 1.5, heaviest=2.0)
    for relation in ("replace-one", "zero-out"):
        farthest = 0.0
        for _ in range(400):
            X, y = 10 * rng.normal(size=(2, 2)), rng.choice([-1.0, 1.0], size=2)
            weight = np.array([rng.choice([1.0, 7.0]), 0.0 if relation == "zero-out" else 7.0])
            X[1] = -X[0] + 2 * np.asarray(features.shift)  # the mirror image, which pulls the other way
            one, other = (term(Block(X[[i]], y[[i]], weight[[i]], 0)) for i in (0, 1))
            farthest = max(farthest, float(np.linalg.norm(one - other)))
        bound = term.sensitivity(relation)
        assert bound == pytest.approx(kappa(relation) * 2.0 * 1.5 * 0.8)
        assert 0.9 * bound < farthest <= bound * (1 + 1e-9)


def test_certificate_notices_every_change() -> None:
    X, y = skewed(400)
    model = QuantileRegressor(2.0, quantile=0.7, bounds=(-1, 1), y_bounds=(-4, 12), random_state=0).fit(X, y)
    assert not unnoticed(model.certificate_, ("noise.seed",))


def test_other_methods_and_refusals() -> None:
    X, y = skewed(4000)
    declared = {"bounds": (-1, 1), "y_bounds": (-4, 12), "random_state": 0}
    plain = QuantileRegressor(3.0, method="gradient", **declared).fit(X, y)
    assert plain.plan_.mechanism == "gradient" and abs(np.mean(y <= plain.predict(X)) - 0.5) < 0.1
    ridge = QuantileRegressor(3.0, regularization=1.0, **declared).fit(X, y)
    assert ridge.plan_.mechanism != "scaled-quantile" and ridge.certificate_.verify(allow_seeded=True).ok
    for level in (0, 1, 1.5, "half"):
        with pytest.raises(ValueError, match="quantile"):
            QuantileRegressor(1.0, quantile=level, **declared).fit(X, y)
