"""Second-moment perturbation: sensitivities, exact noise, limits, several regressions and intervals, certificates."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import dperm
from alterations import unnoticed
from dperm.mechanisms import Shape, Statistics, Target, UnmetNeeds
from dperm.mechanisms.statistics import Moments
from dperm.privacy import gaussian_mu
from dperm.problem import AbsoluteLoss, Ball, DataBounds, Interval, Lasso, Problem, Ridge, SquaredLoss
from dperm.release.noise import RELEASE_SLACK
from dperm.rows import MemoryRows
from dperm.terms.affine import Features
from dperm.terms.moments import CrossTerm, GramTerm, smat, svec
from dperm.walk.certificate import Certificate, coefficient_hash
from exact_laws import adaptive_as_published
from vectors import VECTORS, agrees

RELATIONS = ("replace-one", "zero-out", "add-remove")


def problem(regularizer=None, norm=1.0, label=1.0, intercept=0.0, domain=None):
    parts = {"regularizer": regularizer} if regularizer is not None else {}
    if domain is not None:
        parts["domain"] = domain
    return Problem(SquaredLoss(), data=DataBounds(norm, Interval(-label, label), intercept), **parts)


def rows(n=3000, p=3, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1, 1, (n, p)) / math.sqrt(p)
    return X, np.clip(X @ np.linspace(0.5, -0.5, p) + 0.1 * generator.standard_normal(n), -1, 1)


# -- exact: the release is Gaussian, so its μ is a distance over a deviation -----------------------------------------


def adversaries(p, norm, label):
    """Rows of full norm along the axes and between them, and a short one, with both labels."""
    directions = [v for v in itertools.product((-1.0, 0.0, 1.0), repeat=p) if any(v)]
    points = [norm * np.array(v) / np.linalg.norm(v) for v in directions] + [np.full(p, norm / 10)]
    points += [norm * np.eye(p)[0] * 0.5 + norm * math.sqrt(0.75) * np.eye(p)[-1]]
    return [(x, y) for x in points for y in (label, -label, 0.0)]


def largest_mu(mechanism, stage, relation, factor=1.0, p=2, norm=1.3, label=0.7):
    """max over neighbours of ‖difference of the exact sums‖/(planned deviation × factor)."""
    case = problem(norm=norm, label=label)
    scale = mechanism.plan(case, Shape(4, p), Target(1.0, 1e-4, relation)).stage(stage).settings["scale"] * factor
    term = mechanism._terms(case)[stage]
    rest = [(np.eye(p)[0] * norm / 2, 0.1)] * 3
    sums = []
    for x, y in adversaries(p, norm, label):
        X, labels = np.array([r[0] for r in rest] + [x]), np.array([r[1] for r in rest] + [y])
        sums.append(MemoryRows(X, labels).bounded(case.data).sum(term, 2.0**-40))
    null = MemoryRows(X, labels, np.r_[np.ones(3), 0]).bounded(case.data).sum(term, 2.0**-40)
    pairs = itertools.combinations(sums, 2) if relation == "replace-one" else ((s, null) for s in sums)
    return max(float(np.linalg.norm(a - b)) for a, b in pairs) / scale


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("variant", "stage"), [("eigen-floor", "moments"), ("adaptive", "gram"), ("adaptive", "cross")], ids=str)
def test_exact_mu_stays_below_the_certified_one_and_touches_it(relation, variant, stage):
    mu = gaussian_mu(1.0, 1e-4) / (1 if variant == "eigen-floor" else math.sqrt(3))
    found = largest_mu(Statistics(variant), stage, relation)
    assert found <= mu
    assert found > 0.998 * mu  # nothing is wasted but the release slack
    for factor in (0.7, 0.5):  # noise × 0.7, sensitivity ÷ 2
        assert largest_mu(Statistics(variant), stage, relation, factor) > mu * 1.2


def test_exact_smallest_eigenvalue_moves_by_at_most_one_squared_norm():
    """A full row orthogonal to the others moves it by R² when it comes or goes; replacing a row moves it no further."""
    generator = np.random.default_rng(0)
    worst = 0.0
    for _ in range(300):
        X = generator.standard_normal((3, 2))
        X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
        base = X[:2].T @ X[:2]
        for a, b in itertools.product([*np.eye(2), X[2], np.zeros(2)], repeat=2):
            one, other = (np.linalg.eigvalsh(base + np.outer(v, v))[0] for v in (a, b))
            worst = max(worst, abs(one - other))
    assert worst <= 1.0 + 1e-12
    big = np.diag([5.0, 0.0])
    assert np.linalg.eigvalsh(big + np.diag([0.0, 1.0]))[0] - np.linalg.eigvalsh(big)[0] == pytest.approx(1.0)
    case = problem(norm=1.3)
    assert Statistics("adaptive")._smallest_sensitivity(case) == pytest.approx(1.69)


def test_joint_release_is_no_better_than_the_augmented_one():
    """max ‖xxᵀ - x'x'ᵀ‖² + ‖yx - y'x'‖² over unit rows and labels is 4.5: the deviation √4.5 of the augmented release."""
    generator = np.random.default_rng(0)
    x, other = generator.standard_normal((2, 200_000, 2))
    x, other = (v / np.linalg.norm(v, axis=1, keepdims=True) * generator.random((200_000, 1)) ** 0.1 for v in (x, other))
    inner = np.sum(x * other, axis=1)
    a, b = np.sum(x * x, axis=1), np.sum(other * other, axis=1)
    joint = a**2 + b**2 - 2 * inner**2 + a + b + 2 * np.abs(inner)
    assert 4.4 < joint.max() <= 4.5
    plan = Statistics().plan(problem(), Shape(10, 2), Target(1.0, 1e-4))
    unit = plan.stage("moments").settings["scale"] * gaussian_mu(1.0, 1e-4) / RELEASE_SLACK
    assert unit == pytest.approx(math.sqrt(4.5))
    assert unit / (math.sqrt(2) * plan.stage("moments").settings["target_scale"]) == pytest.approx(math.sqrt(4.5))


def test_exact_coordinates_are_isometric():
    generator = np.random.default_rng(1)
    A = generator.standard_normal((4, 4))
    A = A + A.T
    assert np.linalg.norm(svec(A)) == pytest.approx(np.linalg.norm(A))
    assert smat(svec(A), 4) == pytest.approx(A)


def test_released_noise_has_the_planned_shape():
    """Deviation s on the diagonal and s/√2 off it: chi-square over 300 releases of null rows, false-alarm rate 1e-6 each."""
    case = problem()
    X, y = np.zeros((5, 2)), np.zeros(5)
    found = []
    for seed in range(300):
        release = dperm.fit(case, MemoryRows(X, y, np.zeros(5)), Target(1.0, 1e-3), Statistics(), random_state=seed)
        found.append(Moments.of(release).matrix)
    scale = release.plan.stage("moments").settings["scale"]
    matrices = np.array(found)
    for (i, j), deviation in {(0, 0): scale, (2, 2): scale, (0, 1): scale / math.sqrt(2), (1, 2): scale / math.sqrt(2)}.items():
        total = np.sum((matrices[:, i, j] / deviation) ** 2)
        assert 1e-6 < stats.chi2(300).cdf(total) < 1 - 1e-6


# -- numbers, limits, invariance -------------------------------------------------------------------------------------


def test_adaptive_numbers():
    vector = VECTORS["C6_2"]
    p, epsilon, delta, failure = vector["columns"], vector["epsilon"], vector["delta"], vector["failure"]
    published = adaptive_as_published(p, epsilon, delta, vector["norm"], failure)
    assert all(agrees(published[key], printed) for key, printed in vector["original"].items())
    plan = Statistics("adaptive").plan(problem(), Shape(1000, p), Target(epsilon, delta, "zero-out"))
    settings = plan.stage("smallest").settings
    assert agrees(settings["scale"] / RELEASE_SLACK, vector["gaussian"]["scale"])
    assert agrees(plan.stage("gram").settings["scale"] / RELEASE_SLACK, vector["gaussian"]["scale"])
    assert agrees(settings["floor"] / RELEASE_SLACK, vector["gaussian"]["floor"])
    assert settings["shift"] == pytest.approx(settings["scale"] * stats.norm.ppf(0.975))


@pytest.mark.parametrize("variant", ["eigen-floor", "adaptive"])
@pytest.mark.parametrize("strength", [0.0, 25.0])
def test_large_epsilon_gives_least_squares(variant, strength):
    X, y = rows()
    case = problem(Ridge(strength) if strength else None, intercept=1.0)
    release = dperm.fit(case, MemoryRows(X, y), Target(1e9, 1e-6), Statistics(variant), random_state=0)
    Z = np.column_stack([X, np.ones(len(X))])
    exact = np.linalg.solve(Z.T @ Z + strength * np.eye(4), Z.T @ y)
    assert release.w == pytest.approx(exact, abs=1e-3)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("method", ["statistics", Statistics("adaptive")], ids=["eigen-floor", "adaptive"])
def test_linear_regression_takes_the_method(relation, method):
    X, y = rows(20_000)
    model = dperm.LinearRegression(
        epsilon=4.0, bounds=(-0.6, 0.6), y_bounds=(-1, 1), method=method, relation=relation, nominal_n=20_000, random_state=0
    ).fit(X, y)
    assert model.score(X, y) > 0.6
    assert model.certificate_.verify(allow_seeded=True), model.certificate_.verify(allow_seeded=True).reasons


def test_noise_follows_relation_people_and_weights():
    def scale(relation="zero-out", people=1, **options):
        plan = Statistics(**options).plan(problem(), Shape(100, 2), Target(1.0, 1e-5, relation, people))
        return plan.stage("moments").settings["scale"]

    assert scale("replace-one") == pytest.approx(math.sqrt(2) * scale())
    assert scale(people=4) == pytest.approx(4 * scale())
    assert scale(max_weight=2.5) == pytest.approx(2.5 * scale())
    assert scale() == pytest.approx(RELEASE_SLACK * 1.5 / gaussian_mu(1.0, 1e-5))


def test_weights_enter_the_moments_within_their_bound():
    X, y = rows(50)
    heavy = MemoryRows(X, y, np.full(50, 7.0))
    term = GramTerm(Features(), 1.0, max_weight=2.0)
    grid = 50 * 2 * 2.0**-19  # 50 rows, each on a grid of 2⁻²⁰ of its bound
    assert heavy.sum(term, 2.0**-40) == pytest.approx(2 * svec(X.T @ X), abs=grid)
    cross = CrossTerm(Features(), 1.0, 1.0, 2.0)
    assert heavy.sum(cross, 2.0**-40) == pytest.approx(2 * X.T @ y, abs=grid)


def test_permuting_rows_and_scaling_units():
    X, y = rows()
    order = np.random.default_rng(3).permutation(len(X))
    target = Target(1.0, 1e-6)
    one = dperm.fit(problem(), MemoryRows(X, y), target, Statistics(), random_state=5).w
    other = dperm.fit(problem(), MemoryRows(X[order], y[order]), target, Statistics(), random_state=5).w
    assert other == pytest.approx(one, rel=1e-6)
    scaled = dperm.fit(problem(norm=8.0, label=0.5), MemoryRows(8 * X, y / 2), target, Statistics(), random_state=5).w
    assert scaled == pytest.approx(one / 16, rel=1e-4)


def test_sparse_rows_give_the_same_moments():
    from scipy import sparse

    X, y = rows(200)
    X[np.abs(X) < 0.3] = 0
    case = problem(intercept=1.0)
    dense, csr = (MemoryRows(M, y).bounded(case.data) for M in (X, sparse.csr_matrix(X)))
    term = Statistics()._terms(case)["moments"]
    assert csr.sum(term, 2.0**-40) == pytest.approx(dense.sum(term, 2.0**-40))


# -- one release, many answers ---------------------------------------------------------------------------------------


def test_several_regressions_from_one_release():
    X, y = rows(50_000)
    case = problem()
    release = dperm.fit(case, MemoryRows(X, y), Target(20.0, 1e-6), Statistics(), random_state=0)
    moments = Moments.of(release)
    assert moments.coefficients() == pytest.approx(release.w)
    two = np.linalg.lstsq(X[:, :2], y, rcond=None)[0]
    assert moments.coefficients(features=[0, 1]) == pytest.approx(two, abs=0.02)
    column = np.linalg.lstsq(X[:, 1:], X[:, 0], rcond=None)[0]
    assert moments.coefficients(target=0) == pytest.approx(column, abs=0.02)
    assert np.linalg.norm(moments.coefficients(ridge=1e6)) < 0.1 * np.linalg.norm(moments.coefficients())
    with pytest.raises(ValueError, match="target"):
        moments.coefficients(target=0, features=[0, 1])


@pytest.mark.parametrize("epsilon", [0.5, 50.0])
def test_intervals_cover(epsilon):
    """300 data sets × 3 coefficients at 95 %: coverage below 92 % or above 98 % has probability < 1e-4 if all are exact and
    independent."""
    truth = np.linspace(0.5, -0.5, 3)
    hits = 0
    generator = np.random.default_rng(8)
    for seed in range(300):
        X = generator.uniform(-1, 1, (4000, 3)) / math.sqrt(3)
        y = X @ truth + generator.uniform(-0.3, 0.3, 4000)
        release = dperm.fit(problem(), MemoryRows(X, y), Target(epsilon, 1e-5), Statistics(), random_state=seed)
        low, high = Moments.of(release).intervals().T
        hits += np.sum((low <= truth) & (truth <= high))
    assert 0.92 < hits / 900 < 0.98


# -- certificates and needs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism", [Statistics(), Statistics("adaptive"), Statistics(target_share=1.0, max_weight=2.0)], ids=str
)
def test_every_leaf_is_bound_and_so_are_the_coefficients(mechanism):
    X, y = rows(400, 2)
    case = problem(Ridge(1.0), domain=Ball(3.0))
    release = dperm.fit(case, MemoryRows(X, y), Target(2.0, 1e-5), mechanism, random_state=0)
    assert unnoticed(release.certificate, ("noise.seed",)) == set()
    record = dict(release.certificate.record)
    forged = np.array(record["coefficients"]["encoded"]) * 1.01
    record["coefficients"] = {"encoded": forged.tolist(), "sha256": coefficient_hash(forged)}
    reasons = Certificate(record).verify(allow_seeded=True).reasons
    assert any("do not follow from the released values" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("case", "mechanism", "delta", "words"),
    [
        (problem(), Statistics(), 0.0, "delta > 0"),
        (Problem(AbsoluteLoss(), data=DataBounds(1.0, Interval(-1, 1))), Statistics(), 1e-6, "squared loss"),
        (problem(Lasso(1.0)), Statistics(), 1e-6, "ridge"),
        (problem(norm=math.inf), Statistics(), 1e-6, "norm of a row"),
        (problem(label=math.inf), Statistics(), 1e-6, "labels"),
        (problem(), Statistics("adaptive", target_share=0.3), 1e-6, "target_share="),
        (problem(), Statistics(failure=0.1), 1e-6, "failure="),
    ],
)
def test_missing_needs_are_named(case, mechanism, delta, words):
    with pytest.raises(UnmetNeeds, match=words):
        dperm.plan(case, Shape(100, 2), Target(1.0, delta), mechanism)


def test_too_many_columns_are_refused():
    with pytest.raises(UnmetNeeds, match="at most 1000 columns"):
        dperm.plan(problem(), Shape(100, 1001), Target(1.0, 1e-6), Statistics())
