"""scaled-inference: every sensitivity, every scale of noise, the ledger, verification, and refusals."""

import json
import math

import numpy as np
import pytest
from scipy import sparse

import dperm
from alterations import unnoticed
from dperm.mechanisms import ScaledInference, Shape, Target, UnmetNeeds
from dperm.privacy import RELATIONS, gaussian_mu
from dperm.problem import (
    Ball,
    DataBounds,
    HuberLoss,
    Interval,
    Lasso,
    LogCoshLoss,
    LogisticLoss,
    MultinomialLoss,
    PoissonLoss,
    Problem,
    QuantileLoss,
    Ridge,
    SquaredLoss,
)
from dperm.release.driver import watching
from dperm.release.noise import RELEASE_SLACK
from dperm.rows.base import Block, sum_step
from dperm.rows.memory import MemoryRows
from dperm.rows.recoded import RecodedRows
from dperm.tables.gaps import GAP
from dperm.tables.persons import person_order, person_weights
from dperm.terms import inference as inference_terms
from dperm.terms import softmax as softmax_terms
from dperm.terms.affine import Features
from dperm.terms.inference import (
    CountScore,
    CurvatureMatrix,
    LogisticScore,
    PersonScores,
    QuantileScore,
    ResidualScore,
    ScaleNumbers,
    ScoreMatrix,
    ScoreSum,
    WeightedScore,
)
from dperm.terms.moments import CentredMoments, smat
from dperm.terms.softmax import (
    ClassCounts,
    SoftmaxCurvature,
    SoftmaxNumbers,
    SoftmaxScore,
    SoftmaxScores,
    SoftmaxSum,
    class_basis,
)
from dperm.terms.statistics import SquareSum
from dperm.walk.certificate import Certificate
from dperm.walk.fitting import fit, plan

FEATURES = Features(1.0, np.array([0.3, -0.2, 0.1]), np.array([2.0, 0.5, 1.0]))
THETA = np.array([0.4, -0.8, 0.2, 0.1])
SCORES = {
    "logistic": LogisticScore(FEATURES, THETA, 0.2),
    "linear": ResidualScore(FEATURES, THETA, 0.7),
    "quantile": QuantileScore(FEATURES, THETA, 0.8, 0.3),
    "sharp quantile": QuantileScore(FEATURES, THETA, 0.8, 0.3, sharp=True),
    "counts": CountScore(FEATURES, THETA, 1.5, 0.3, -6.0, 2.0, heaviest=2.5),
    "weighted counts": CountScore(FEATURES, THETA, 1.5, 0.3, -6.0, 2.0, heaviest=2.5, unit=0.3, important=True),
    "weighted": WeightedScore(LogisticScore(FEATURES, THETA, 0.2), 2.5),
    "weighted linear": WeightedScore(ResidualScore(FEATURES, THETA, 0.7), 0.6),
    "softmax": SoftmaxScore(FEATURES, np.concatenate([THETA, -THETA[::-1]]), 3),
    "weighted softmax": SoftmaxScore(FEATURES, np.concatenate([THETA, -THETA[::-1], 3 * THETA]), 4, 2.5),
}
TERMS = {"gradient": ScoreSum, "curvature": CurvatureMatrix, "scores": ScoreMatrix, "numbers": ScaleNumbers}
LABELS = {"logistic": (-1.0, 1.0), "linear": (-1.0, 0.2, 1.0), "quantile": (-1.0, 0.0, 1.0), "counts": (0.0, 0.1, 1.0)}
LABELS |= {"weighted": LABELS["logistic"], "weighted linear": LABELS["linear"]}
LABELS |= {"weighted counts": LABELS["counts"]}
LABELS |= {"sharp quantile": LABELS["quantile"]}
LABELS |= {"softmax": (0.0, 1.0, 2.0), "weighted softmax": (0.0, 1.0, 2.0, 3.0)}
SOFTMAX = {"gradient": SoftmaxSum, "curvature": SoftmaxCurvature, "scores": SoftmaxScores, "numbers": SoftmaxNumbers}


def terms_of(model):
    return SOFTMAX if "softmax" in model else TERMS


def block(rows, labels, weights, stored="dense"):
    X = np.array(rows, dtype=float)
    X = sparse.csr_array(X) if stored == "sparse" else X.astype(np.float32) if stored == "float32" else X
    return Block(X, np.array(labels, dtype=float), np.array(weights, dtype=float), 0)


@pytest.mark.parametrize("stored", ["dense", "sparse", "float32"])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("model", SCORES)
def test_no_neighbour_exceeds_the_sensitivity(model, term, relation, stored):
    made, generator = terms_of(model)[term](SCORES[model], 1.7), np.random.default_rng(5)
    bound, room = made.sensitivity(relation), 1e-6 if stored == "float32" else 1e-9
    for _ in range(150):
        X = generator.normal(size=(4, 3)) * 10 ** generator.uniform(-3, 2)
        y = generator.choice(LABELS[model], 4)
        weights = generator.choice([0.0, 0.5, 1.0, 3.0], 4)
        before = made(block(X, y, weights, stored))
        if relation == "replace-one":
            X[1], y[1] = generator.normal(size=3) * 10 ** generator.uniform(-3, 2), generator.choice(LABELS[model])
            weights[1] = generator.choice([0.0, 1.0, 50.0])
        else:
            weights[1] = 0.0
        after = made(block(X, y, weights, stored))
        assert np.linalg.norm(after - before) <= bound * (1 + room)
        assert np.max(np.abs(made(block(X[1:2], y[1:2], weights[1:2], stored)))) <= made.row_bound * (1 + room)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("term", TERMS)
def test_the_sensitivity_is_attained(term, relation):
    """A smaller constant anywhere would be wrong: for z without intercept, two orthogonal rows of norm R at θ = 0 reach it."""
    score = ResidualScore(Features(), np.zeros(3), 1.0)
    made = TERMS[term](score, 2.0)
    first, second = [2.0, 0.0, 0.0], [-2.0, 0.0, 0.0] if term == "gradient" else [0.0, 2.0, 0.0]
    labels = [1.0, 1.0]  # a residual of exactly the clip has both the largest score and curvature 1
    if term == "numbers":  # the pair of a null row is the opposite corner of the square
        second = first
    before = made(block([first], labels[:1], [1.0]))
    after = made(block([second], labels[1:], [0.0 if relation != "replace-one" or term == "numbers" else 1.0]))
    assert np.linalg.norm(after - before) >= made.sensitivity(relation) * 0.999999


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("term", SOFTMAX)
def test_the_sensitivity_of_several_classes_is_attained(term, relation):
    """Probabilities (1 - e, e, 0) with label 1 have ‖s‖ → √2, (½, ½, 0) have ‖M‖_F = ½ and even ones the largest trace; rows are
    orthogonal, of norm R. The intercept-free map leaves the margins of a row to its own coefficients."""
    steep = np.array([[40.0, 0.0, -40.0]] * 3).T  # class k has the score steep[k]·x_j for every column
    even = np.array([[40.0, 40.0, -40.0]] * 3).T
    weights = even if term == "curvature" else steep
    theta = (class_basis(3).T @ weights).ravel()
    made = SOFTMAX[term](SoftmaxScore(Features(), theta, 3), 2.0)
    first, second = [2.0, 0.0, 0.0], [0.0, 2.0, 0.0]
    replaced = relation == "replace-one"
    if term == "numbers":  # no row reaches both ends; its corner is ‖s‖²/2 = 1 against nothing
        moved = made(block([first], [2.0], [1.0])) - made(block([first], [2.0], [0.0]))
        assert moved[0] == pytest.approx(1.0, rel=1e-6) and 0 <= moved[1] <= 1
        return
    other = made(block([first if term == "gradient" else second], [0.0 if term == "gradient" else 2.0], [float(replaced)]))
    if term == "gradient" and replaced:  # the opposite score needs the opposite row: -x with the classes in reverse order
        other = made(block([[-2.0, 0.0, 0.0]], [0.0], [1.0]))
        assert np.linalg.norm(made(block([first], [2.0], [1.0]))) == pytest.approx(made.row_bound, rel=1e-5)
        assert np.linalg.norm(other) == pytest.approx(made.row_bound, rel=1e-5)
        return
    moved = np.linalg.norm(made(block([first], [2.0], [1.0])) - other)
    assert moved == pytest.approx(made.sensitivity(relation), rel=3e-3) and moved <= made.sensitivity(relation) * (1 + 1e-9)


def test_sums_of_several_classes_are_those_of_the_softmax_loss():
    """Without a weight that bites: gradient, curvature and squared scores of `MultinomialLoss` in the basis of classes."""
    generator, score = np.random.default_rng(9), SCORES["softmax"]
    X, y = generator.normal(size=(60, 3)) / 5, generator.integers(0, 3, 60).astype(float)
    Z = FEATURES.dense(X)
    margins, basis = Z @ (class_basis(3) @ score.theta.reshape(2, -1)).T, class_basis(3)
    loss = MultinomialLoss(classes=3)
    slopes = np.asarray(loss.slope(margins, y)) @ basis
    curved = np.einsum("ka,nkl,lb->nab", basis, np.asarray(loss.curvature(margins, y)), basis)
    rows = np.einsum("na,nj->naj", slopes, Z).reshape(60, -1)
    assert np.max(np.linalg.norm(Z, axis=1)) < 5.0
    seen = {name: made(score, 5.0)(block(X, y, np.ones(60))) for name, made in SOFTMAX.items()}
    assert seen["gradient"] == pytest.approx(rows.sum(axis=0), abs=1e-3)
    assert smat(seen["scores"], 8) == pytest.approx(rows.T @ rows, abs=1e-3)
    assert smat(seen["curvature"], 8) == pytest.approx(np.einsum("nab,ni,nj->aibj", curved, Z, Z).reshape(8, 8), abs=1e-3)
    assert np.linalg.eigvalsh(smat(seen["curvature"], 8))[0] > -1e-9
    expected = [np.sum(slopes**2) / 2, np.trace(curved.sum(axis=0))]
    assert seen["numbers"] == pytest.approx(expected)


def test_what_a_row_adds_to_the_curvature_of_classes_depends_on_it_alone():
    """Order and neighbours do not matter, to the last bit, also where the factors of a block are made in parts."""
    generator, score = np.random.default_rng(10), SCORES["weighted softmax"]
    X, y, w = generator.normal(size=(500, 3)), generator.integers(0, 4, 500).astype(float), generator.uniform(0, 3, 500)
    order = generator.permutation(500)
    made = SoftmaxCurvature(score, 1.7)
    whole_block = made(block(X, y, w))
    assert np.array_equal(whole_block, made(block(X[order], y[order], w[order])))
    parts = [made.factors(block(X[i : i + 1], y[i : i + 1], w[i : i + 1]))[0].left for i in range(500)]
    assert np.array_equal(np.sum(parts, axis=0), made.factors(block(X, y, w))[0].left)


@pytest.mark.parametrize("relation", RELATIONS)
def test_class_counts_move_by_their_sensitivity(relation):
    made, rows = ClassCounts(3), np.zeros((1, 2))
    first = made(block(rows, [0.0], [1.0]))
    after = made(block(rows, [2.0], [1.0 if relation == "replace-one" else 0.0]))
    assert np.linalg.norm(first - after) == pytest.approx(made.sensitivity(relation))
    assert made(block(np.zeros((3, 2)), [5.0, -1.0, 1.0], [1.0, 1.0, 0.0])) == pytest.approx(np.zeros(3))


def moments_of(rows, weights, radius=1.5, stored="dense"):
    return CentredMoments(Features(shift=np.array([0.3, -0.2, 0.1])), radius)(block(rows, np.ones(len(rows)), weights, stored))


@pytest.mark.parametrize("stored", ["dense", "sparse", "float32"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_no_neighbour_moves_the_centred_moments_by_more(relation, stored):
    generator, bound = np.random.default_rng(8), CentredMoments(Features(), 1.5).sensitivity(relation)
    for _ in range(200):
        X = generator.normal(size=(3, 3)) * 10 ** generator.uniform(-2, 2, (3, 1))
        before, other = moments_of(X, np.ones(3), stored=stored), X.copy()
        other[1] = generator.normal(size=3) * 10 ** generator.uniform(-2, 2)
        weights = np.ones(3) if relation == "replace-one" else np.array([1.0, 0.0, 1.0])
        assert np.linalg.norm(moments_of(other, weights, stored=stored) - before) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("relation", RELATIONS)
def test_centred_moments_attain_their_sensitivity(relation):
    first, second = np.array([[0.3 + 1.5, -0.2, 0.1]]), np.array([[0.3, -0.2 + 1.5, 0.1]])
    moved = moments_of(first, [1.0]) - moments_of(second, [1.0 if relation == "replace-one" else 0.0])
    assert np.linalg.norm(moved) == pytest.approx(CentredMoments(Features(), 1.5).sensitivity(relation), rel=1e-5)
    squares = SquareSum(Features(), 1.5).sensitivity(relation)
    assert CentredMoments(Features(), 1.5).sensitivity(relation) == pytest.approx(squares)  # the products come for nothing


# -- whole runs ----------------------------------------------------------------------------------------------------------

KINDS = ("numeric",) * 3 + ("boolean",)
CASES = {
    "logistic": (LogisticLoss(), ScaledInference(KINDS)),
    "linear": (SquaredLoss(), ScaledInference(KINDS)),
    "ridge": (SquaredLoss(), ScaledInference(KINDS)),
    "huber": (HuberLoss(0.3), ScaledInference(KINDS, clip_factor=2.0)),
    "quantile": (QuantileLoss(0.8), ScaledInference(KINDS)),
    "smoothed quantile": (QuantileLoss(0.8), ScaledInference(KINDS, sharp=False)),
    "counts": (PoissonLoss(-12.0, 0.0), ScaledInference(KINDS)),
    "exposed counts": (PoissonLoss(-12.0, 0.0), ScaledInference(KINDS, max_weight=2.0)),
    "exposed counts with weights": (PoissonLoss(-12.0, 0.0), ScaledInference(KINDS, max_weight=2.0, importance=True)),
    "weighted": (LogisticLoss(), ScaledInference(KINDS, max_weight=2.0)),
    "weighted ridge": (SquaredLoss(), ScaledInference(KINDS, max_weight=2.0)),
    "levels": (LogisticLoss(), ScaledInference(("numeric", *("categorical",) * 3), (-1, 0, 0, 0))),
    "private bounds": (SquaredLoss(), ScaledInference(("private", *KINDS[1:]))),
    "softmax": (MultinomialLoss(classes=3), ScaledInference(KINDS)),
    "weighted softmax ridge": (MultinomialLoss(classes=4), ScaledInference(KINDS, max_weight=2.0)),
    "softmax levels": (MultinomialLoss(classes=3), ScaledInference(("numeric", *("categorical",) * 3), (-1, 0, 0, 0))),
    "gaps": (SquaredLoss(), ScaledInference(KINDS, gaps=(0, 2))),
    "logistic gaps": (LogisticLoss(), ScaledInference(KINDS, gaps=(1,))),
}


def setting(name, relation="replace-one", n=600, epsilon=3.0, seed=0):
    loss, mechanism = CASES[name]
    generator = np.random.default_rng(seed)
    X = generator.uniform(-0.5, 0.5, (n, 4))
    X[:, 3] = X[:, 3] > 0.2
    if "levels" in name:
        X[:, 1:] = np.eye(3)[generator.integers(0, 3, n)]
    score = 2 * X[:, 0] - X[:, 1] + 0.5 * X[:, 3] - 0.2
    weight = generator.uniform(0, 2, n) if "weighted" in name else None
    if loss.margins > 1:
        y = np.minimum(np.searchsorted([-0.6, 0.5], score + generator.logistic(size=n)) + (X[:, 0] > 0.45), loss.margins - 1)
        y, interval = y.astype(float), Interval(0, loss.margins - 1)
    elif loss.classification:
        y, interval = np.where(generator.uniform(size=n) < 1 / (1 + np.exp(-score)), 1.0, -1.0), Interval(-1, 1)
    elif loss.name == "poisson":
        y, interval = np.minimum(generator.poisson(2 * np.exp(score)) / 15, 1.0), Interval(0.0, 1.0)
        weight = generator.uniform(0, 2, n) if "exposed" in name else None
    else:
        y, interval = np.clip(score / 4 + 0.1 * generator.normal(size=n), -1, 1), Interval(-1, 1)
    if "gaps" in name:
        X[np.ix_(generator.integers(0, n, n // 5), mechanism.gaps)] = GAP
    ridge = {"regularizer": Ridge(5.0)} if "ridge" in name else {}
    problem = Problem(loss, data=DataBounds(1.8, interval, 1.0), **ridge)
    target = Target.declare(epsilon=epsilon, delta=1e-6, relation=relation, n=n)
    return problem, MemoryRows(X, y, weight), target, mechanism


def nominal(relation, n=600):
    return {"nominal_n": n} if relation == "add-remove" else {}


def hand_scales(name, relation, decided, budget):
    """Sensitivity over μ of every draw, in order, from the table of docs/theorems/intervals.md."""
    replaced = relation == "replace-one"
    k, km = (2.0, math.sqrt(2.0)) if replaced else (1.0, 1.0)
    counted, heaviest = "counts" in name, 2.0 if "exposed" in name else 1.0
    (R, last), (clip, final) = decided["radius"], decided["clip"]
    t = {"logistic": 1.0, "logistic gaps": 1.0, "levels": 1.0, "weighted": 1.0}.get(name, 0.8 if "quantile" in name else None)
    t = math.sqrt(2.0) if "softmax" in name else t
    first_t, t = (clip, final) if t is None else (t, t)
    rate = decided.get("positive_rate")
    v = 1.0 if rate is None else 0.25 if name == "weighted" else min(0.25, 6 * rate * (1 - rate))
    v = 0.5 / final if "quantile" in name else 0.5 if "softmax" in name else v
    known = {
        "octaves": km, "cells": km, "class counts": km, "row norms": km, "radius": km, "residuals": km, "count scale": km,
        "residuals near": km,
        "mean": k * decided["mean_radius"], "squares": km * decided["centred_radius"] ** 2, "positives": 1.0,
        "label mean": 2.0 if replaced else 1.0, "curvature": km * v * last**2, "scores": km * (t * last) ** 2,
        "scale numbers": math.sqrt(2.0), "exposure sum": heaviest, "present": math.sqrt(1 if "logistic" in name else 2),
    }  # fmt: skip
    if counted:
        known["count sum"] = heaviest * decided["count_limit"]
    found = []
    for stage, mu in budget.items():
        if stage == "residuals again":
            continue
        if stage != "descent":
            found.append(known[stage] / mu)
            continue
        early, steps = decided["window_from"], decided["steps"]
        found += [k * first_t * R * math.sqrt(early / 0.15) / mu] * early
        found += [km / budget["residuals again"]] if "residuals again" in budget else []
        found += [k * t * last * math.sqrt((steps - early) / 0.85) / mu] * (steps - early)
    return found


class Recording:
    """Zero noise that writes down the scale of every draw."""

    policy = "secure"

    def __init__(self, seed=None):
        self.scales, self.generator_ = [], None if seed is None else np.random.default_rng(seed)

    def normal(self, scale, size):
        self.scales.append(scale)
        return np.zeros(size) if self.generator_ is None else self.generator_.normal(0, scale, size)

    def spec(self):
        return {"policy": self.policy}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", CASES)
def test_every_draw_has_the_declared_scale(name, relation):
    problem, rows, target, mechanism = setting(name, relation)
    noise = Recording(3)
    release = fit(problem, rows, target, mechanism, noise=noise, **nominal(relation))
    decided = release.certificate.record["decided"]
    budget = {stage.name: stage.event.mu for stage in release.plan.stages}
    assert math.fsum(mu**2 for mu in budget.values()) == pytest.approx(gaussian_mu(3.0, 1e-6) ** 2, rel=1e-9)
    expected = hand_scales(name, relation, decided, budget)
    assert noise.scales == pytest.approx([RELEASE_SLACK * scale for scale in expected], rel=1e-9)


def seen_like(rows, twin):
    """Other rows seen through the same released maps."""
    return RecodedRows(seen_like(rows.rows, twin), rows.recoding) if isinstance(rows, RecodedRows) else twin


def shifts(name, relation, row, other, epsilon=3.0):
    """(term, ‖difference of the exact sums‖ over its sensitivity, and over its noise) of every draw, for two neighbours seen
    through the same releases.

    A ratio above 1 says that the stage shows more than its event states.
    """
    problem, rows, target, mechanism = setting(name, relation, n=40, epsilon=epsilon)
    X, y = np.asarray(rows.X).copy(), np.asarray(rows.y).copy()
    weight = np.ones(40) if rows.weight is None else np.append(rows.weight[:-1], mechanism.max_weight)
    changed_X, changed_y, changed_weight = X.copy(), y.copy(), weight.copy()
    (X[-1], y[-1]), found = row, []
    if relation == "replace-one":
        changed_X[-1], changed_y[-1] = other
    else:
        changed_X[-1], changed_y[-1], changed_weight[-1] = X[-1], y[-1], 0.0
    twin = MemoryRows(changed_X, changed_y, changed_weight).bounded(problem.data)

    def see(drawn):
        own = seen_like(drawn.rows, twin)
        moved = np.linalg.norm(drawn.exact - own.sum(drawn.term, sum_step(drawn.term.row_bound, drawn.n)))
        found.append((type(drawn.term).__name__, moved / drawn.term.sensitivity(relation), moved / drawn.scale))

    with watching(see):
        fit(problem, MemoryRows(X, y, weight), target, mechanism, noise=Recording(1))
    return found


ROW, OTHER = ([0.5, -0.5, 0.5, 0.0], 1.0), ([-0.5, 0.5, 0.5, 0.0], -1.0)


@pytest.mark.parametrize("relation", ["replace-one", "zero-out"])
@pytest.mark.parametrize("name", ["logistic", "linear", "quantile", "softmax", "exposed counts with weights"])
def test_no_stage_shows_more_than_its_event(name, relation):
    """Exact, without chance: whatever the path, the sums of neighbours differ by at most μ times the noise of the stage."""
    other = {"softmax": 2.0, "exposed counts with weights": 0.0}.get(name, OTHER[1])
    found = shifts(name, relation, ROW, (OTHER[0], other))
    assert max(ratio for _, ratio, _ in found) <= 1.0
    assert math.hypot(*(shown for *_, shown in found)) <= gaussian_mu(3.0, 1e-6)
    kinds = {"SoftmaxSum", "SoftmaxCurvature", "SoftmaxScores", "ClassCounts"}
    kinds = kinds if name == "softmax" else {"ScoreSum", "CurvatureMatrix", "ScoreMatrix"}
    assert {kind for kind, *_ in found} >= {"CentredMoments", *kinds}


@pytest.mark.parametrize("kind", ["ScoreSum", "CurvatureMatrix", "ScoreMatrix"])
def test_halved_noise_is_caught(kind, monkeypatch):
    """The same check accuses a stage whose noise is half of what its event needs. The row is long; its residual is clipped, or
    none where the curvature is asked for (at a large ε, which keeps the path near the fit)."""
    row, epsilon = ((ROW[0], 0.33), 50.0) if kind == "CurvatureMatrix" else (ROW, 3.0)
    honest = getattr(inference_terms, kind).sensitivity

    def largest():
        return max(ratio for name, ratio, _ in shifts("linear", "zero-out", row, OTHER, epsilon) if name == kind)

    whole = largest()
    monkeypatch.setattr(getattr(inference_terms, kind), "sensitivity", lambda self, relation: honest(self, relation) / 2)
    assert 0.5 < whole <= 1.0 < largest()


@pytest.mark.parametrize("kind", ["SoftmaxSum", "SoftmaxCurvature", "SoftmaxScores", "ClassCounts"])
def test_halved_noise_of_several_classes_is_caught(kind, monkeypatch):
    """The row is long and of a class that is rarely seen, or between two classes where the curvature is asked for."""
    honest, epsilon = getattr(softmax_terms, kind).sensitivity, 50.0 if kind == "SoftmaxCurvature" else 3.0

    def largest():
        return max(ratio for name, ratio, _ in shifts("softmax", "zero-out", (ROW[0], 2.0), OTHER, epsilon) if name == kind)

    whole = largest()
    monkeypatch.setattr(getattr(softmax_terms, kind), "sensitivity", lambda self, relation: honest(self, relation) / 2)
    assert 0.5 < whole <= 1.0 < largest()


@pytest.mark.parametrize("relation", ["replace-one", "zero-out"])
def test_a_person_with_several_rows_moves_no_stage_by_more_than_its_event(relation):
    """Three rows of one person change together: every sum moves by at most three times its term's own bound, and all stages
    together show at most μ."""
    problem, rows, _, mechanism = setting("linear", relation, n=40)
    target = Target.declare(epsilon=3.0, delta=1e-6, relation=relation, n=40, rows_per_person=3, unit="person")
    X, y = np.asarray(rows.X).copy(), np.asarray(rows.y).copy()
    X[-3:], y[-3:] = ROW
    other, label, weight, found = X.copy(), y.copy(), np.ones(40), []
    if relation == "replace-one":
        other[-3:], label[-3:] = OTHER
    else:
        weight[-3:] = 0.0
    twin = MemoryRows(other, label, weight).bounded(problem.data)

    def see(drawn):
        own = seen_like(drawn.rows, twin)
        moved = np.linalg.norm(drawn.exact - own.sum(drawn.term, sum_step(drawn.term.row_bound, drawn.n)))
        found.append((moved / (3 * drawn.term.sensitivity(relation)), moved / drawn.scale))

    with watching(see):
        fit(problem, MemoryRows(X, y), target, mechanism, noise=Recording(1))
    assert 0.5 < max(ratio for ratio, _ in found) <= 1.0
    assert math.hypot(*(shown for _, shown in found)) <= gaussian_mu(3.0, 1e-6)


def owned(sizes, generator, score, stored="dense"):
    """A block of persons with so many rows each, with labels at random."""
    n = int(np.sum(sizes))
    X = generator.normal(size=(n, 3)) * 10 ** generator.uniform(-2, 1, (n, 1))
    made = block(X, generator.choice(LABELS[score], n), np.ones(n), stored)
    made.person = np.repeat(np.arange(len(sizes)), sizes)
    return made


def without(one, person, labels=None):
    """The same block after a person has gone, or (with labels) with other rows in their place, fewer or more."""
    kept = one.person != person
    X, y, owner = np.asarray(one.X)[kept], one.y[kept], one.person[kept]
    if labels is not None:
        X, y, owner = np.vstack([X, 3.0 * np.ones((len(labels), 3))]), np.r_[y, labels], np.r_[owner, [99] * len(labels)]
    return Block(X, y, np.ones(len(y)), 0, person=owner)


@pytest.mark.parametrize("model", ["linear", "logistic", "quantile", "counts", "weighted", "softmax"])
def test_no_person_moves_the_matrix_of_summed_scores_by_more_than_k_rows_may(model):
    """Persons go, or are replaced by others with fewer or more rows: k times the term's sensitivity is enough, for every pair."""
    generator, made = np.random.default_rng(3), PersonScores(SCORES[model], 1.7, 3)
    for _ in range(60):
        one = owned(generator.integers(1, 4, 5), generator, model)
        before = made(one)
        assert np.linalg.norm(made(without(one, 2)) - before) <= 3 * made.sensitivity("zero-out") * (1 + 1e-9)
        other = without(one, 2, generator.choice(LABELS[model], generator.integers(1, 4)))
        assert np.linalg.norm(made(other) - before) <= 3 * made.sensitivity("replace-one") * (1 + 1e-9)


def test_the_sensitivity_of_summed_scores_is_attained_and_half_of_it_is_not_enough():
    made = PersonScores(ResidualScore(Features(), np.zeros(3), 1.0), 2.0, 3)
    first, second = (np.tile(row, (3, 1)) for row in ([2.0, 0.0, 0.0], [0.0, 2.0, 0.0]))
    one, other = (Block(rows, np.ones(3), np.ones(3), 0, person=np.zeros(3, dtype=np.int64)) for rows in (first, second))
    assert np.linalg.norm(made(one)) == pytest.approx(3 * made.sensitivity("zero-out"), rel=1e-5)
    assert np.linalg.norm(made(one) - made(other)) == pytest.approx(3 * made.sensitivity("replace-one"), rel=1e-5)
    rows = ScoreMatrix(made.score, 2.0)
    assert 3 * made.sensitivity("zero-out") == pytest.approx(9 * rows.sensitivity("zero-out"))  # of sums: k² of one row's


def test_what_a_person_adds_does_not_depend_on_where_the_others_stand():
    """20,000 rows in several blocks: no block cuts a person, any order of persons gives the same bits, and a person who goes
    takes exactly their own matrix along."""
    generator, made = np.random.default_rng(4), PersonScores(ResidualScore(Features(), np.array([0.3, -0.1]), 0.7), 1.5, 4)
    sizes = generator.integers(1, 5, 8000)
    owner = np.repeat(np.arange(8000), sizes)
    X, y = generator.normal(size=(len(owner), 2)), generator.uniform(-1, 1, len(owner))
    step = sum_step(made.row_bound, len(owner))

    def total(kept):
        rows = MemoryRows(X[kept], y[kept], np.ones(len(kept)), person=owner[kept])
        ends = [part.person[-1] for part in rows.blocks()]
        assert len(ends) == len(set(ends)) > 2 and max(len(part.y) for part in rows.blocks()) <= 8192
        return rows.sum(made, step)

    everybody = np.arange(len(owner))
    place = generator.permutation(8000)
    shuffled = np.argsort(place[owner], kind="stable")
    assert np.array_equal(total(everybody), total(shuffled))
    gone = total(everybody[owner != 17])
    own = MemoryRows(X[owner == 17], y[owner == 17], person=owner[owner == 17]).sum(made, step)
    assert total(everybody) - gone == pytest.approx(own, abs=1e-6)


def test_rows_beyond_the_limit_belong_to_nobody():
    order, person = person_order(["b", "a", "b", None, "a", "b"], person_weights(["b", "a", "b", None, "a", "b"], 2, None, 6)[0])
    counted = person >= 0
    assert sorted(order[counted].tolist()) == [0, 1, 2, 4] and len(set(person[~counted].tolist())) == 2
    assert np.all(np.diff(person[counted]) >= 0) and max(np.bincount(person[counted])) == 2


@pytest.mark.parametrize("relation", ["replace-one", "zero-out", "add-remove"])
def test_summed_persons_move_no_stage_by_more_than_its_event(relation):
    """A person with three rows is replaced by one with two, nulled, or goes: over all stages at most μ is shown."""
    problem, rows, _, _ = setting("linear", relation, n=40)
    target = Target.declare(epsilon=3.0, delta=1e-6, relation=relation, n=40, rows_per_person=3, unit="person")
    X, y, owner = np.asarray(rows.X).copy(), np.asarray(rows.y).copy(), np.r_[np.arange(37), [50, 50, 50]]
    X[-3:], y[-3:] = ROW
    other, label, weight, found = X.copy(), y.copy(), np.ones(40), []
    if relation == "replace-one":
        other[-3:], label[-3:], weight[-1] = OTHER[0], OTHER[1], 0.0
    else:
        weight[-3:] = 0.0
    twin = MemoryRows(other, label, weight, person=owner).bounded(problem.data)

    def see(drawn):
        own = seen_like(drawn.rows, twin)
        moved = np.linalg.norm(drawn.exact - own.sum(drawn.term, sum_step(drawn.term.row_bound, drawn.n)))
        name = type(drawn.term).__name__
        found.append((name, moved / (3 * drawn.term.sensitivity(relation)), moved / drawn.scale))

    with watching(see):
        mechanism = ScaledInference(KINDS, summed=True)
        release = fit(problem, MemoryRows(X, y, person=owner), target, mechanism, noise=Recording(1), **nominal(relation, 40))
    assert release.certificate.verify().ok and "PersonScores" in {name for name, *_ in found}
    assert 0.5 < max(ratio for _, ratio, _ in found) <= 1.0
    assert math.hypot(*(shown for *_, shown in found)) <= gaussian_mu(3.0, 1e-6)


def test_summed_scores_are_refused_before_anything_is_spent_where_rows_have_no_owners():
    problem, rows, _, _ = setting("linear", "zero-out", n=40)
    target = Target.declare(epsilon=3.0, delta=1e-6, relation="zero-out", n=40, rows_per_person=3, unit="person")
    with pytest.raises(ValueError, match=r"order of persons.*Nothing was spent"):
        fit(problem, rows, target, ScaledInference(KINDS, summed=True))
    with pytest.raises(UnmetNeeds, match="several rows for summed"):
        plan(problem, Shape(40, 4), Target(3.0, 1e-6, "zero-out"), ScaledInference(KINDS, summed=True))


def test_measured_noise_of_both_matrices_equals_the_declared_noise():
    """Released less exact, over 60 runs: the deviation is within 5 standard errors of the plan's (false alarm below 1e-5).

    Noise halved anywhere fails.
    """
    problem, rows, target, mechanism = setting("linear", "zero-out")
    stages = {"CurvatureMatrix": "curvature", "ScoreMatrix": "scores", "ScaleNumbers": "scale numbers"}
    planned, errors = plan(problem, Shape(600, 4), target, mechanism), {name: [] for name in stages}

    def see(drawn):
        name = type(drawn.term).__name__
        if name in stages:
            mu = planned.stage(stages[name]).event.mu
            errors[name].append((drawn.value - drawn.exact) / (drawn.term.sensitivity("zero-out") / mu))

    with watching(see):
        for seed in range(60):
            fit(problem, rows, target, mechanism, random_state=seed)
    for name, found in errors.items():
        drawn = np.concatenate(found)
        assert np.std(drawn) == pytest.approx(1.0, abs=5 / math.sqrt(2 * len(drawn))), name


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", CASES)
def test_ledger_equals_plan_and_certificate_verifies(name, relation):
    problem, rows, target, mechanism = setting(name, relation)
    release = fit(problem, rows, target, mechanism, random_state=0, **nominal(relation))
    verdict = release.certificate.verify(allow_seeded=True)
    assert verdict.ok, verdict.reasons
    assert release.plan.events == plan(problem, Shape(600, 4), target, mechanism).events
    assert np.allclose(release.w, release.certificate.record["decided"]["coefficients"], rtol=1e-12)


@pytest.mark.parametrize("name", ["logistic", "ridge", "counts", "levels", "softmax"])
def test_every_altered_leaf_is_noticed(name):
    problem, rows, target, mechanism = setting(name)
    certificate = fit(problem, rows, target, mechanism, random_state=0).certificate
    assert unnoticed(certificate) == {"noise.seed"}


def test_a_narrower_interval_or_another_matrix_is_refused():
    """The errors in the record follow from the released matrices, and those are bound by the digest."""
    problem, rows, target, mechanism = setting("linear")
    record = json.loads(fit(problem, rows, target, mechanism, random_state=0).certificate.to_json())
    record["decided"]["privacy_error"] = [error / 2 for error in record["decided"]["privacy_error"]]
    assert any("privacy_error" in reason for reason in Certificate(record).verify(allow_seeded=True).reasons)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": LogCoshLoss()}, "logistic, softmax, squared"),
        ({"method": ScaledInference(importance=True)}, "counts with weights"),
        ({"loss": MultinomialLoss(classes=30), "d": 20}, "at most 500 coefficients .of each class.* found 609"),
        ({"loss": MultinomialLoss(classes=3), "regularizer": Lasso(1.0)}, "a ridge"),
        ({"regularizer": Lasso(1.0)}, "a ridge"),
        ({"domain": Ball(1.0)}, "edge"),
        ({"delta": 0.0}, "delta > 0"),
        ({"d": 600}, "at most 500"),
        ({"feature_norm": math.inf}, "x_norm"),
    ],
)
def test_needs_are_named(change, message):
    loss = change.get("loss", LogisticLoss())
    interval = Interval(0, 2) if loss.margins > 1 else Interval(-1, 1)
    parts = {key: change[key] for key in ("regularizer", "domain") if key in change}
    problem = Problem(loss, data=DataBounds(change.get("feature_norm", 1.5), interval, 1.0), **parts)
    target = Target(1.0, change.get("delta", 1e-6), "zero-out")
    with pytest.raises(UnmetNeeds, match=message):
        plan(problem, Shape(500, change.get("d", 4)), target, change.get("method", ScaledInference()))


def test_bad_options_are_refused():
    for options, message in (({"kinds": ("odd",)}, "kinds"), ({"clip_factor": -1.0}, "clip"), ({"max_weight": 0.0}, "max")):
        with pytest.raises(ValueError, match=message):
            ScaledInference(**options)
    problem, _, target, _ = setting("linear")
    with pytest.raises(ValueError, match="group number"):
        plan(problem, Shape(600, 4), target, ScaledInference(KINDS, (0, 1)))


def test_a_row_with_an_unknown_label_counts_as_nothing():
    """Null rows move no released number: two data sets whose null rows differ give the same fit."""
    generator = np.random.default_rng(2)
    X, y = generator.uniform(-1, 1, (400, 2)), generator.integers(0, 2, 400)
    y[:20] = 7
    other = X.copy()
    other[:20] = -X[:20]
    options = {"epsilon": 2.0, "bounds": (-1, 1), "classes": [0, 1], "intervals": True, "random_state": 0}
    models = [dperm.LogisticRegression(**options).fit(rows, y) for rows in (X, other)]
    assert np.array_equal(models[0].coef_, models[1].coef_)
    assert np.array_equal(models[0].confidence_interval(), models[1].confidence_interval())
