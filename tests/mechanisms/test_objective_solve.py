"""Objective perturbation: that the run minimises what the theorem speaks of, its arithmetic, limits and invariances."""

import math

import numpy as np
import pytest
import scipy.sparse

from dperm.mechanisms import Objective, Shape, Target
from dperm.mechanisms.objective.solve import gradient_error, gradient_tolerance, norm_bound, solve_objective, weighted_rows
from dperm.problem import DataBounds, HuberLoss, Interval, LogCoshLoss, LogisticLoss, MultinomialLoss, Ridge
from dperm.release.asks import Secret
from dperm.release.noise import SeededNoise
from dperm.rows.base import Block
from dperm.rows.memory import MemoryRows
from dperm.solvers import minimise
from dperm.terms.affine import Features
from dperm.terms.objective import HessianProductTerm, MinimiserTerm
from dperm.walk.fitting import fit
from small_problems import UNIT, data, problem

# -- the solve ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [LogisticLoss(), HuberLoss(0.5), LogCoshLoss(0.5), MultinomialLoss(3)], ids=lambda v: v.name)
def test_run_minimises_the_tilted_objective(generator, loss):
    """The same seed gives the same b; the released w satisfies ∇F(w) = −b up to the output step."""
    X, y = data(generator)
    labels = (generator.integers(0, 3, len(y))) if loss.margins > 1 else y
    p = problem(loss, y=Interval(0, 2) if loss.margins > 1 else UNIT)
    release = fit(p, MemoryRows(X, labels), Target(1.0, 1e-6, "zero-out"), Objective(noise_kind="gaussian"), random_state=7)
    settings = release.plan.stage("objective").settings
    b = SeededNoise(7).normal(settings["noise_scale"], release.w.size)
    Z = np.column_stack([X, np.ones(len(X))])
    w = release.w.reshape(loss.margins, -1)
    margins = Z @ w.T if loss.margins > 1 else Z @ release.w
    gradient = (np.asarray(loss.slope(margins, labels)).T @ Z).reshape(-1) + settings["ridge"] * release.w
    paid = release.plan.stage("output").settings["output_scale"]
    curvature = loss.bounds(math.inf, UNIT).curvature
    assert np.linalg.norm(gradient + b) <= 8 * paid * np.sqrt(w.size) * (settings["ridge"] + len(X) * curvature * 2)
    assert release.certificate.verify(allow_seeded=True).ok


def test_terms_are_the_derivatives_of_the_weighted_loss(generator):
    X, y = data(generator, n=40)
    for loss, labels, interval in (
        (LogisticLoss(), y, UNIT),
        (MultinomialLoss(3), generator.integers(0, 3, 40), Interval(0, 2)),
    ):
        features = Features(1.0, shift=np.array([0.1, -0.2, 0.0]), scale=np.array([1.0, 2.0, 0.5]))
        rows = weighted_rows(loss, features, interval, row_radius=0.8, row_cap=1.2, max_weight=2.0)
        Z = np.column_stack([(X - features.shift) * features.scale, np.ones(40)])
        size = np.linalg.norm(Z, axis=1)
        Z = Z * np.minimum(1, 1.2 / size)[:, None]
        omega = np.minimum(1, 0.8 / np.linalg.norm(Z, axis=1)) * np.clip(np.arange(40) / 10, 0, 2)
        K = loss.margins

        def value(w, loss=loss, Z=Z, omega=omega, labels=labels, K=K):
            return float(np.sum(omega * loss.value(Z @ w if K == 1 else Z @ w.reshape(K, -1).T, labels)))

        w = generator.standard_normal(4 * K)
        for stored in (X, scipy.sparse.csr_array(X), X.astype(np.float32)):
            block = Block(stored, labels, np.arange(40) / 10, 0)
            total = MinimiserTerm(rows, w, True)(block)
            gradient, hessian = total[: w.size], total[w.size :].reshape(w.size, w.size)
            step = 1e-5
            numeric = [(value(w + step * e) - value(w - step * e)) / (2 * step) for e in np.eye(w.size)]
            near = 2e-5 if stored.dtype == np.float32 else 1e-7
            assert np.allclose(gradient, numeric, atol=near)
            shifted = [MinimiserTerm(rows, w + step * e, False)(block) for e in np.eye(w.size)]
            assert np.allclose(hessian, (np.array(shifted) - gradient) / step, atol=1e-3)
            direction = generator.standard_normal(w.size)
            assert np.allclose(HessianProductTerm(rows, w, direction)(block), hessian @ direction, atol=1e-8)
        one = Block(X[:1], labels[:1], None, 0)
        assert np.linalg.norm(MinimiserTerm(rows, w, False)(one)) <= rows.gradient_bound


def test_arithmetic_bounds_hold(generator):
    """The public error bound exceeds the real rounding error (against 80-bit sums), and the norm bound the real norm."""
    X, y = data(generator, n=5000)
    rows = weighted_rows(LogisticLoss(), Features(1.0), UNIT, row_radius=2.0, row_cap=2.0)
    w = 50 * generator.standard_normal(4)
    computed = MemoryRows(X, y).sum(MinimiserTerm(rows, w, False), 2.0**-40)
    Z = np.column_stack([X, np.ones(5000)]).astype(np.longdouble)
    s = 1 / (1 + np.exp(y * (Z @ w.astype(np.longdouble))))
    truth = np.sum((-y * s)[:, None] * Z, axis=0)
    error = float(np.linalg.norm(computed - truth))
    bound = gradient_error(rows, n=5000, width=4, magnitude=2.0, ridge=1.0, norm=float(np.linalg.norm(w)))
    assert error <= bound <= 1e6 * max(error, 1e-14)

    class Plain:
        def gradient(self, v):
            return self.gradient_and_hessian(v)[0]

        def gradient_and_hessian(self, v):
            Zd = np.asarray(Z, dtype=float)
            m = 1 / (1 + np.exp(y * (Zd @ v)))
            return -(y * m) @ Zd + 0.5 * v + 3.0, (Zd.T * (m * (1 - m))) @ Zd + 0.5 * np.eye(4)

    found = float(np.linalg.norm(minimise(Plain(), np.zeros(4), 1e-8).w))
    assert found <= norm_bound(rows, UNIT, n=5000, ridge=0.5, tilt=6.0)
    tolerances = [
        gradient_tolerance(rows, UNIT, n=n, columns=3, ridge=1.0, scale=4.0, pure=False, magnitude=2.0)
        for n in (10, 10**4, 10**6)
    ]
    assert tolerances[0] < tolerances[1] < tolerances[2] < 1e-3


def test_large_dimension_takes_conjugate_gradients(generator):
    X = scipy.sparse.random_array((200, 700), density=0.02, rng=generator, format="csr")
    X = X / np.sqrt(X.multiply(X).sum(axis=1).max())
    y = np.sign(generator.standard_normal(200))
    p = problem(intercept=0.0)
    release = fit(p, MemoryRows(X, y), Target(2.0, 1e-6, "zero-out"), Objective(), random_state=1)
    settings = release.plan.stage("objective").settings
    b = SeededNoise(1).normal(settings["noise_scale"], 700)
    gradient = X.T @ LogisticLoss().slope(X @ release.w, y) + settings["ridge"] * release.w
    assert np.linalg.norm(gradient + b) < 1e-2 * np.linalg.norm(b)


# -- limits and invariances --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize("epsilon", [1e4, 1e9])
def test_large_budget_gives_the_regularised_minimiser(generator, delta, epsilon):
    X, y = data(generator)
    p = problem(regularizer=Ridge(2.0))
    release = fit(p, MemoryRows(X, y), Target(epsilon, delta, "replace-one"), Objective(), random_state=0)
    assert release.plan.stage("objective").settings["ridge"] == 2.0
    Z = np.column_stack([X, np.ones(len(X))])

    class Plain:
        def gradient(self, v):
            return self.gradient_and_hessian(v)[0]

        def gradient_and_hessian(self, v):
            m = 1 / (1 + np.exp(y * (Z @ v)))
            return -(y * m) @ Z + 2.0 * v, (Z.T * (m * (1 - m))) @ Z + 2.0 * np.eye(4)

    assert np.allclose(release.w, minimise(Plain(), np.zeros(4), 1e-10).w, atol=5e-3)


def test_permuting_rows_changes_nothing_beyond_rounding(generator):
    X, y = data(generator, n=500)
    order = generator.permutation(500)
    target = Target(1.0, 1e-6, "zero-out")
    one = fit(problem(), MemoryRows(X, y), target, Objective(), random_state=3).w
    other = fit(problem(), MemoryRows(X[order], y[order]), target, Objective(), random_state=3).w
    assert np.allclose(one, other, atol=1e-8)


def test_scaling_rows_and_bounds_together_scales_the_answer(generator):
    X, y = data(generator, n=500)
    target = Target(1.0, 1e-6, "zero-out")
    one = fit(problem(intercept=0.0), MemoryRows(X, y), target, Objective(), random_state=3).w
    other = fit(problem(norm=8.0, intercept=0.0), MemoryRows(8 * X, y), target, Objective(), random_state=3).w
    assert np.allclose(one, 8 * other, rtol=1e-6, atol=1e-8)


def test_sample_weights_are_clipped_and_counted(generator):
    X, y = data(generator)
    weight = generator.uniform(0, 5, len(y))
    target = Target(1.0, 1e-6, "zero-out")
    heavy = Objective(max_weight=2.0, noise_kind="gaussian")
    light = Objective(noise_kind="gaussian")
    release = fit(problem(), MemoryRows(X, y, weight), target, heavy, random_state=1)
    clipped = fit(problem(), MemoryRows(X, y, np.minimum(weight, 2.0)), target, heavy, random_state=1)
    assert np.array_equal(release.w, clipped.w)
    two, one = (m.plan(problem(), Shape(300, 3), target).stage("objective").settings for m in (heavy, light))
    assert two["noise_scale"] == pytest.approx(2 * one["noise_scale"]) and two["ridge"] == pytest.approx(2 * one["ridge"])


def test_persons_pay_for_all_their_rows():
    scales = []
    for rows in (1, 2, 5):
        target = Target(1.0, 1e-6, "zero-out", rows)
        planned = Objective(noise_kind="gaussian").plan(problem(), Shape(1000, 3), target)
        assert planned.guarantee.epsilon(1e-6) <= 1.0
        scales.append(planned.stage("objective").settings["noise_scale"])
    assert scales[1] >= 2 * scales[0] and scales[2] >= 5 * scales[0]
    assert scales[1] < 2.2 * scales[0]


def test_add_remove_uses_the_nominal_size_only(generator):
    """Two more rows change the answer but nothing in the plan or the certificate's public part."""
    X, y = data(generator, n=120)
    target = Target(1.0, 1e-6, "add-remove")
    mechanism = Objective(most_rows=500)
    whole = fit(problem(), MemoryRows(X, y), target, mechanism, nominal_n=100, random_state=2)
    fewer = fit(problem(), MemoryRows(X[:-2], y[:-2]), target, mechanism, nominal_n=100, random_state=2)
    assert whole.plan == fewer.plan and not np.array_equal(whole.w, fewer.w)
    assert whole.certificate.verify(allow_seeded=True).ok


@pytest.mark.parametrize("relation", ["zero-out", "replace-one"])
def test_noise_that_is_drawn_is_the_planned_one(generator, relation):
    """Two draws: the tilt and the output step. The second covers two computed minimisers, each within 2τ/λ of the exact one."""

    class Listening(SeededNoise):
        def __init__(self):
            super().__init__(5)
            self.scales = []

        def normal(self, scale, size):
            self.scales.append(scale)
            return super().normal(scale, size)

    X, y = data(generator)
    noise = Listening()
    release = fit(problem(), MemoryRows(X, y), Target(1.0, 1e-6, relation), Objective(noise_kind="gaussian"), noise=noise)
    first, second = release.plan.stages
    tau, ridge = second.settings["gradient_tolerance"], first.settings["ridge"]
    assert noise.scales == pytest.approx([first.settings["noise_scale"], second.settings["output_scale"]])
    assert noise.scales[0] == pytest.approx(1.001 * math.sqrt(2.0) / first.event.shift)
    assert noise.scales[1] == pytest.approx(1.001 * 4 * tau / (ridge * second.event.mu))


def test_a_tiny_ridge_does_not_hit_the_cap_of_the_solver():
    """Separable rows, ridge 1e-9 of one row's curvature: 731 steps. A cap of 500 gave such data the centre, unpaid for."""
    generator = np.random.default_rng(59)
    X = generator.normal(size=(50, 2))
    X *= 10 ** generator.uniform(-3, 0, size=(50, 1)) / np.linalg.norm(X, axis=1, keepdims=True)
    data = DataBounds(1.0, UNIT, 1.0)
    rows = weighted_rows(LogisticLoss(), Features(1.0), UNIT, row_radius=1.5, row_cap=1.5)
    ridge, scale = 1e-9 * rows.hessian_bound, 10 * rows.gradient_bound
    tilt = generator.normal(size=3) * scale
    tolerance = gradient_tolerance(rows, UNIT, n=50, columns=2, ridge=ridge, scale=scale, pure=False, magnitude=2.0)
    secret = Secret(MemoryRows(X, np.sign(X.sum(axis=1))).bounded(data), SeededNoise(0), 50, "zero-out", 1)
    solution = solve_objective(secret, rows, ridge=ridge, tilt=tilt, tolerance=tolerance)
    assert solution.reached and solution.steps > 500
