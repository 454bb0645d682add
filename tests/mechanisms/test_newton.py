"""Double-noise Newton: its sensitivity, its exact profile, its limit, its refusals."""

import math

import numpy as np
import pytest

from alterations import unnoticed
from dperm.mechanisms import Newton, Shape, Target, UnmetNeeds
from dperm.mechanisms.newton import HessianTerm, majoriser, newton_sensitivity
from dperm.mechanisms.objective.solve import weighted_rows
from dperm.privacy import GDP, gaussian_delta, gaussian_mu
from dperm.privacy.objective_loss import hockey_stick
from dperm.problem import (
    DataBounds,
    HingeLoss,
    HuberizedHingeLoss,
    HuberLoss,
    Interval,
    Lasso,
    LogCoshLoss,
    LogisticLoss,
    MultinomialLoss,
    Problem,
    Ridge,
    SoftplusHingeLoss,
    SquaredLoss,
)
from dperm.release.noise import SeededNoise, gaussian_scale
from dperm.rows.base import Block
from dperm.rows.memory import MemoryRows
from dperm.terms.affine import Features
from dperm.terms.objective import MinimiserTerm
from dperm.walk.fitting import fit, plan
from small_problems import UNIT, problem


def test_exact_sensitivity_of_the_step_for_every_relation(generator):
    """Random A ⪰ 0 and records: never above B/(Λ(Λ+B))·‖v‖ also when a record is replaced; attained at A = 0 and v along x."""
    largest = {"zero-out": 0.0, "replace-one": 0.0}
    for _ in range(3000):
        p = int(generator.integers(1, 4))
        rest = generator.standard_normal((p, p)) * generator.choice([0.0, 0.0, 0.3, 2.0])
        damping, change = generator.uniform(0.2, 3.0), generator.uniform(0.1, 2.0)
        A = rest @ rest.T + damping * np.eye(p)
        v = generator.standard_normal(p)
        x, other = (u / np.linalg.norm(u) for u in generator.standard_normal((2, p)))
        if generator.random() < 0.3:
            x = v / np.linalg.norm(v)
        with_one = np.linalg.solve(A + change * np.outer(x, x), v)
        for relation, compared in (
            ("zero-out", np.linalg.solve(A, v)),
            ("replace-one", np.linalg.solve(A + change * generator.random() * np.outer(other, other), v)),
        ):
            bound = newton_sensitivity(float(np.linalg.norm(v)), change, damping)
            largest[relation] = max(largest[relation], float(np.linalg.norm(with_one - compared)) / bound)
    assert largest["zero-out"] <= 1 + 1e-9 and largest["zero-out"] > 0.999
    assert largest["replace-one"] <= 1 + 1e-9 and largest["replace-one"] > 0.8


def test_exact_profile_of_one_step_in_one_dimension():
    """Joint density of (g̃, step) for D = {} and D' = {(1, 1)} at w = 0: slope ½, curvature ¼. Conditional on g̃ the step is normal
    with the planned sensitivity, so the profile is an integral over g̃; it stays below the plan, and attains the step's share."""
    mechanism, target = Newton(steps=1, curvature="hessian"), Target(1.0, 1e-4, "zero-out")
    declared = Problem(LogisticLoss(), data=DataBounds(1.0, UNIT))
    planned = mechanism.plan(declared, Shape(10, 1), target)
    mu_gradient, mu_step = planned.stage("gradient 1").event.mu, planned.stage("step 1").event.mu
    sigma, change = 1 / mu_gradient, planned.stage("gradient 1").settings["hessian_change"]
    assert change == 0.25

    def truth(noise=1.0, bound=1.0, damp=1.0):
        values = []
        for sign in (1, -1):  # both directions: the gradient's mean is −½ with the record, 0 without
            own, other = (-0.5, 0.0) if sign > 0 else (0.0, -0.5)
            g = own + noise * sigma * (np.linspace(-9, 9, 4000) + 1e-7)
            damping = np.array([mechanism._damping(abs(v), change, mu_step, 1, 1.0) for v in g])
            s = np.array([bound * newton_sensitivity(abs(v), change, at) for v, at in zip(g, damping)])
            gap = np.abs(g) * change / (damping / damp * (damping / damp + change))  # 1/Λ − 1/(Λ + ¼), times |g̃|
            shift = gap / (noise * s / mu_step)
            loss = ((g - other) ** 2 - (g - own) ** 2) / (2 * (noise * sigma) ** 2)
            density = np.exp(-((g - own) ** 2) / (2 * (noise * sigma) ** 2)) / (noise * sigma * math.sqrt(2 * math.pi))
            inner = np.array([float(hockey_stick(np.array([1.0 - a]), b)[0]) for a, b in zip(loss, shift)])
            values.append(float(np.sum(inner * density) * (g[1] - g[0])))
        return max(values)

    exact = truth()
    assert exact <= 1e-4
    effective = math.hypot(mu_gradient / 2, mu_step)  # the slope at w = 0 is half its bound
    assert exact == pytest.approx(gaussian_delta(1.0, effective), rel=1e-3)
    assert truth(noise=0.5) > 1e-4  # mutations: all noise halved, step sensitivity quartered, a quarter of the damping
    assert truth(bound=0.25) > 1e-4
    assert truth(damp=4.0) > 1e-4


def test_step_noise_and_gradient_noise_are_what_the_plan_says(generator):
    """One step by hand with the same seed."""
    X = generator.uniform(-0.5, 0.5, (80, 2))
    y = np.sign(X[:, 0] + 0.1)
    declared = problem(regularizer=Ridge(0.7))
    for relation, kappa in (("zero-out", 1), ("replace-one", 2)):
        release = fit(declared, MemoryRows(X, y), Target(2.0, 1e-5, relation), Newton(steps=1), random_state=4)
        events = release.plan.events
        noise = SeededNoise(4)
        Z = np.column_stack([X, np.ones(80)])
        R = math.sqrt(2.0)
        gradient = -(y / 2) @ Z + noise.normal(gaussian_scale(kappa * R, events[0].mu), 3)
        norm = float(np.linalg.norm(gradient))
        damping = release.certificate.record["decided"]["damping"][0]
        assert damping == pytest.approx(math.sqrt(math.sqrt(3) * norm * 0.5 * R / events[1].mu), rel=1e-3)
        s = newton_sensitivity(norm, 0.5, damping + 0.7)
        step = -np.linalg.solve(0.25 * Z.T @ Z + (damping + 0.7) * np.eye(3), gradient)
        expected = step + noise.normal(gaussian_scale(s, events[1].mu), 3)
        assert np.allclose(release.w, expected, rtol=1e-3, atol=1e-4)
        assert release.certificate.verify(allow_seeded=True).ok


@pytest.mark.parametrize(
    "loss",
    [LogisticLoss(), SoftplusHingeLoss(0.3), HuberLoss(0.5), LogCoshLoss(0.5), HuberizedHingeLoss(0.4)],
    ids=lambda loss: loss.name,
)
def test_majoriser_bounds_the_loss_from_above(generator, loss):
    """φ(z) ≤ φ(m) + φ'(m)(z − m) + h(m)(z − m)²/2, and φ'' ≤ h ≤ sup φ''."""
    m, z = generator.uniform(-8, 8, 4000), generator.uniform(-20, 20, 4000)
    y = generator.choice([-1.0, 1.0], 4000)
    bound = loss.bounds(math.inf, UNIT).curvature
    h = majoriser(loss, m, y, bound)
    upper = loss.value(m, y) + loss.slope(m, y) * (z - m) + h * (z - m) ** 2 / 2
    assert np.all(loss.value(z, y) <= upper + 1e-9)
    assert np.all(h >= loss.curvature(m, y) - 1e-9) and np.all(h <= bound)


def test_softmax_majoriser_dominates_every_hessian(generator):
    loss = MultinomialLoss(4)
    z = 3 * generator.standard_normal((300, 4))
    gap = majoriser(loss, z, np.zeros(300), 0.5) - loss.curvature(z, np.zeros(300))
    assert np.min(np.linalg.eigvalsh(gap)) >= -1e-12


def test_terms_are_sums_over_rows(generator):
    loss = LogisticLoss()
    rows = weighted_rows(loss, Features(), UNIT, row_radius=1.0, row_cap=1.0)
    X = generator.uniform(-0.5, 0.5, (20, 3))
    w = generator.standard_normal(3)
    block = Block(X, np.ones(20), None, 0)
    margins = np.abs(X @ w)
    expected = (X.T * (np.tanh(margins / 2) / (2 * margins))) @ X
    assert np.allclose(HessianTerm(rows, w, True)(block).reshape(3, 3), expected)
    plain = MinimiserTerm(rows, w, True)(block)[3:].reshape(3, 3)
    assert np.allclose(HessianTerm(rows, w, False)(block).reshape(3, 3), plain)


@pytest.mark.parametrize("loss", [LogisticLoss(), HuberLoss(0.5), LogCoshLoss(0.5), MultinomialLoss(3)], ids=lambda v: v.name)
def test_large_budget_gives_the_minimiser(generator, loss):
    X = generator.uniform(-0.5, 0.5, (200, 2))
    y = generator.integers(0, 3, 200) if loss.margins > 1 else np.sign(X[:, 0] + 0.1 * generator.standard_normal(200))
    declared = problem(loss, Ridge(1.0), Interval(0, 2) if loss.margins > 1 else UNIT)
    w = fit(declared, MemoryRows(X, y), Target(1e9, 1e-6, "replace-one"), Newton(steps=30), random_state=0).w
    rows = weighted_rows(loss, Features(1.0), declared.data.y, row_radius=2.0, row_cap=2.0)
    gradient = MinimiserTerm(rows, w, False)(Block(X, y, None, 0)) + w
    assert np.linalg.norm(gradient) < 0.05


def test_everything_is_gaussian_and_the_budget_is_spent_exactly():
    for relation in ("replace-one", "zero-out", "add-remove"):
        planned = plan(problem(), Shape(1000, 5), Target(0.7, 1e-6, relation), Newton(steps=5))
        assert isinstance(planned.guarantee, GDP) and len(planned.events) == 10
        assert planned.guarantee.mu == pytest.approx(gaussian_mu(0.7, 1e-6), rel=1e-9)
        assert planned.guarantee.epsilon(1e-6) <= 0.7


@pytest.mark.parametrize(
    ("declared", "options", "target", "words"),
    [
        (problem(), {}, Target(1.0, 0.0), "delta > 0"),
        (problem(HingeLoss()), {}, Target(1.0, 1e-6), "bounded second derivative"),
        (problem(SquaredLoss()), {}, Target(1.0, 1e-6), "bounded slope"),
        (problem(regularizer=Lasso(1.0)), {}, Target(1.0, 1e-6), "smooth regularizer"),
        (Problem(LogisticLoss(), data=DataBounds(math.inf, UNIT)), {}, Target(1.0, 1e-6), "finite bound on the norm"),
    ],
)
def test_every_missing_need_is_named(declared, options, target, words):
    with pytest.raises(UnmetNeeds, match=words):
        plan(declared, Shape(100, 2), target, Newton(**options))


NONE = [{"steps": None}, {"gradient_share": None}]  # numbers that no rule stands behind


@pytest.mark.parametrize("bad", [{"steps": 0}, {"gradient_share": 1.0}, {"curvature": "x"}, {"damping": -1.0}, *NONE])
def test_bad_options_are_refused(bad):
    with pytest.raises(ValueError, match="Expected"):
        Newton(**bad)


def test_every_leaf_of_the_certificate_is_bound(generator):
    X, y = generator.uniform(-0.5, 0.5, (40, 3)), generator.choice([-1.0, 1.0], 40)
    release = fit(problem(), MemoryRows(X, y), Target(1.0, 1e-6), Newton(steps=2), random_state=0)
    assert not unnoticed(release.certificate, ("coefficients", "noise.seed"))
