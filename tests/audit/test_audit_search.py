"""The search stays inside the declared bounds and finds pairs that reach the known worst case."""

import numpy as np
import pytest

from dperm.audit import densities, distinguish, exact, search
from dperm.privacy import GDP, gaussian_delta
from dperm.problem import DataBounds, Interval, LogisticLoss

BOUNDS = DataBounds(2.0, Interval(-1.0, 1.0))


@pytest.mark.parametrize(("relation", "mu"), [("replace-one", 2.0), ("zero-out", 1.0), ("add-remove", 1.0)])
def test_search_finds_the_sensitivity_of_a_clipped_gradient(relation, mu):
    """Clipped gradient at w = 0 with C = 1 and noise 1: κ-GDP, attained by records at the bound with opposite pulls."""

    def density(data):
        X, y = data
        return densities.gradient_descent(
            (X[:, 0], y), loss=LogisticLoss(), steps=1, step_size=1.0, clip=1.0, noise=1.0, n=1
        )

    def measure(data, neighbour):
        return exact(density, [(data, neighbour)], epsilons=[1.0], cells=256).low[0]

    found = search(measure, ([[0.3]], [1.0]), BOUNDS, relation=relation, evaluations=16)
    assert found.value == pytest.approx(gaussian_delta(1.0, mu), rel=1e-2)
    assert all(np.abs(X).max() <= 2.0 for X, _ in (found.data, found.neighbour))
    assert len(found.history) == 16 and list(found.history) == sorted(found.history)


def test_local_moves_improve_on_the_extremes():
    """The worst record is not extreme here: a peak at x = 1.3, which no starting point is near."""

    def measure(data, neighbour):
        return -abs(data[0][-1, 0] - 1.3)

    found = search(measure, ([[0.0]], [1.0]), BOUNDS, relation="zero-out", evaluations=80)
    assert found.value > -0.05 and found.history[3] < -0.5


def test_searched_pair_is_confirmed_on_fresh_trials():
    """An unclipped row: the promise assumes |x| ≤ 1, the bounds allow 2, and the search finds what breaks it."""
    generator = np.random.default_rng(0)

    def fit(data):
        return data[0].sum() + generator.normal(0, 2.0)  # 1-GDP if |x| ≤ 1

    def measure(data, neighbour):
        return distinguish(fit, data, neighbour, 200).mu_lower

    found = search(measure, ([[0.0]], [1.0]), BOUNDS, evaluations=10)
    assert distinguish(fit, found.data, found.neighbour, 2000, claim=GDP(1.0, "replace-one"), confidence=0.999).violates
