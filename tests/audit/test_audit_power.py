"""The auditor has power: planted bugs are reported, correct versions are not.

`make audit` runs all eleven with all trials; here nine run, most with a part of them, and the two that need tens of thousands of
fits are shown by quadrature. Family-wise false alarm of the correct versions: at most 9 × 0.001.
"""

import numpy as np
import pytest

from dperm.audit import densities, exact
from dperm.audit.objective import chaudhuri_calibration, minimise
from dperm.audit.planted import CONFIDENCE, planted
from dperm.privacy import ApproxDP, gaussian_mu
from dperm.problem import LogisticLoss

PLANTS = {plant.name: plant for plant in planted()}
SLOW = ("unregularised intercept", "curvature scaled by R instead of R²")
SHARE = 0.4


def test_there_are_eleven():
    assert len(PLANTS) == 11 and set(SLOW) < set(PLANTS) and CONFIDENCE == 0.999


@pytest.mark.parametrize("name", [name for name in PLANTS if name not in SLOW])
def test_a_planted_bug_is_reported(name):
    whole = ("exact n under add-remove", "noise of the curvature of intervals ÷ 2")  # with a part of its trials: missed at times
    share = 1.0 if name in whole else SHARE
    assert PLANTS[name].audit(broken=True, share=share).violates is True


_seen = {}
CORRECT = {name: _seen.setdefault(id(plant.correct), name) for name, plant in PLANTS.items() if name not in SLOW}


@pytest.mark.parametrize("name", sorted(set(CORRECT.values())))
def test_its_correct_version_is_not(name):
    assert PLANTS[name].audit(broken=False, share=SHARE).violates is False


@pytest.mark.parametrize(("ridge", "caught"), [(0.0, True), (None, False)])
def test_unregularised_intercept_by_quadrature(ridge, caught):
    """Rows (0, 1): the intercept's coordinate has the one-dimensional density, finite with half the mass for half the rows."""
    epsilon, delta = 0.2, 1e-3
    sigma = 1 / gaussian_mu(epsilon, delta)
    strength = 1 / epsilon if ridge is None else ridge

    def density(data):
        if strength:
            return densities.objective_perturbation(data, loss=LogisticLoss(), ridge=strength, noise=sigma)
        inner = densities.objective_perturbation(data, loss=LogisticLoss(), ridge=1e-12, noise=sigma, reach=1e-9)
        return densities.Density(inner.log, ((-30.0, 30.0),))  # the rest of the mass is at ±∞

    pair = tuple((np.ones(k), np.ones(k)) for k in (1, 2))
    found = exact(density, [pair], epsilons=[epsilon])
    assert bool(found.low[0] > delta) is caught
    assert found.breaks(ApproxDP(epsilon, delta, "add-remove")) is caught


def test_the_audits_own_solver_finds_the_minimum():
    """Its gradient vanishes and scikit-learn agrees (ridge on every coordinate, no intercept)."""
    from sklearn.linear_model import LogisticRegression

    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(30, 3)), np.sign(generator.normal(size=30))
    w = minimise(X, y, np.full(3, 2.0), np.zeros(3))
    reference = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-10, max_iter=1000).fit(X, y)
    assert np.allclose(w, reference.coef_.ravel(), atol=1e-6)
    b = generator.normal(size=3)
    w = minimise(X, y, np.full(3, 2.0), b)
    gradient = -((X * y[:, None]).T @ (1 / (1 + np.exp(X @ w * y)))) + 2.0 * w + b
    assert np.linalg.norm(gradient) < 1e-8


def test_the_printed_calibration():
    """At ε = 2, R = 100 the wrong bound leaves the ridge at 25/(e^½ - 1) and the right one raises it a hundredfold."""
    wrong, right = (chaudhuri_calibration(2.0, 100.0, c, 1.0) for c in (25.0, 2500.0))
    assert wrong[0] == pytest.approx(25 / np.expm1(0.5)) and right[0] == pytest.approx(100 * wrong[0])
    assert wrong[1] == right[1] == 200.0
    assert chaudhuri_calibration(2.0, 1.0, 0.25, 10.0)[0] == 10.0
