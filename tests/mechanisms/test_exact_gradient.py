"""The true privacy profile of noisy gradient descent, by quadrature over its path, against the certified one.

The density is written apart from the mechanism (dperm.audit.densities); what ties the two is measured on the real run: the
standard deviation that reached the sampler, and the path of a run whose noise is zero.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

import dperm
from dperm.audit import densities
from dperm.audit.quadrature import exact, neighbour_pairs
from dperm.mechanisms import Gradient, Shape, Target
from dperm.privacy import RELATIONS
from dperm.problem import DataBounds, Interval, LogisticLoss, Problem, Ridge, SquaredLoss

LOGISTIC = Problem(LogisticLoss(), Ridge(0.5), data=DataBounds(1.0, Interval(-1.0, 1.0)))
SQUARED = Problem(SquaredLoss(), data=DataBounds(1.0, Interval(-1.0, 1.0)))
REST = (np.array([0.7, -0.4, 0.2]), np.array([1.0, 1.0, -1.0]))


@dataclass
class SilentNoise:
    """Zero noise that remembers the scale it was asked for."""

    policy: str = "secure"
    scales: list = field(default_factory=list)

    def generator(self):
        raise AssertionError("full-batch descent draws normals only")

    def normal(self, scale, size):
        self.scales.append(scale)
        return np.zeros(size)

    def spec(self):
        return {"policy": self.policy}


def mechanism(steps):
    # clip ½ is the largest logistic gradient at w = 0, so that one step can attain its sensitivity
    return Gradient(steps=steps, step_size=1.5, clip=0.5, momentum=0.0, output="last")


def measured_run(problem, data, steps, relation):
    """(standard deviation of the mean gradient's noise, noiseless last iterate, certified guarantee) of the real mechanism."""
    noise = SilentNoise()
    x, y = data
    rows = dperm.MemoryRows(x[:, None], y)
    nominal = {"nominal_n": 4} if relation == "add-remove" else {}
    release = dperm.fit(problem, rows, Target(1.0, 1e-3, relation), mechanism(steps), noise=noise, **nominal)
    assert len(noise.scales) == steps and len(set(noise.scales)) == 1
    return noise.scales[0] / 4, float(release.w[0]), release.plan.guarantee


def density_of(problem, steps, noise):
    def density(data):
        ridge = problem.regularizer.strong_convexity
        return densities.gradient_descent(
            data, loss=problem.loss, steps=steps, step_size=1.5, clip=0.5, noise=noise, n=4, ridge=ridge
        )

    return density


def pairs_of(relation):
    if relation == "replace-one":
        return neighbour_pairs((-1.0, 1.0), (-1.0, 1.0), REST)
    null = REST
    return [(null, (np.r_[REST[0], x], np.r_[REST[1], y])) for x in (-1.0, 1.0) for y in (-1.0, 1.0)]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("problem", [LOGISTIC, SQUARED], ids=["logistic", "squared"])
def test_true_profile_is_within_the_certified_one(problem, steps, relation):
    noise, _, certified = measured_run(problem, (np.r_[REST[0], 1.0], np.r_[REST[1], 1.0]), steps, relation)
    found = exact(density_of(problem, steps, noise), pairs_of(relation), epsilons=np.linspace(0, 3, 13), cells=512)
    assert found.holds(certified)
    assert not found.breaks(certified)


@pytest.mark.parametrize("relation", RELATIONS)
def test_one_step_attains_its_certificate_within_two_per_cent(relation):
    noise, _, certified = measured_run(LOGISTIC, (np.r_[REST[0], 1.0], np.r_[REST[1], 1.0]), 1, relation)
    density = density_of(LOGISTIC, 1, noise)
    worst = exact(density, pairs_of(relation), epsilons=[1.0]).pair
    found = exact(density, [worst], epsilons=np.linspace(0, 2, 401), cells=1024)
    for delta in (1e-2, 1e-3, 1e-5):
        low, high = found.epsilon(delta)
        claimed = certified.epsilon(delta)
        assert 0.98 * claimed <= low <= high <= claimed * (1 + 1e-9) + 0.005  # 0.005: the grid of epsilons


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_half_the_noise_breaks_the_certificate(steps, monkeypatch):
    from dperm.release import noise as noise_module

    honest = noise_module.gaussian_scale
    monkeypatch.setattr(noise_module, "gaussian_scale", lambda sensitivity, mu: honest(sensitivity, mu) / 2)
    noise, _, certified = measured_run(LOGISTIC, (np.r_[REST[0], 1.0], np.r_[REST[1], 1.0]), steps, "replace-one")
    found = exact(density_of(LOGISTIC, steps, noise), pairs_of("replace-one"), epsilons=np.linspace(0, 3, 13), cells=512)
    assert found.breaks(certified) and not found.holds(certified)


@pytest.mark.parametrize("problem", [LOGISTIC, SQUARED], ids=["logistic", "squared"])
def test_the_density_follows_the_same_path_as_the_run(problem):
    """With almost no noise the density sits at the noiseless iterate of the real run."""
    data = np.r_[REST[0], 1.0], np.r_[REST[1], -1.0]
    for steps in (1, 2, 3):
        _, w, _ = measured_run(problem, data, steps, "replace-one")
        narrow = density_of(problem, steps, 1e-4)(data)
        grid = np.linspace(*narrow.box[0], 4001)
        mean = np.average(grid, weights=np.exp(narrow.log(grid)))
        assert mean == pytest.approx(w, abs=1e-6)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_plan_states_the_noise_that_is_drawn(steps):
    noise, _, _ = measured_run(LOGISTIC, (np.r_[REST[0], 1.0], np.r_[REST[1], 1.0]), steps, "replace-one")
    plan = dperm.plan(LOGISTIC, Shape(4, 1), Target(1.0, 1e-3), mechanism(steps))
    assert math.isclose(plan.stage("descent").settings["noise_of_mean"], noise, rel_tol=1e-12)
