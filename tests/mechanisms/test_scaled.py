"""The scaled methods: sensitivities attained and never exceeded, noise as declared, decisions that replay."""

from __future__ import annotations

import copy
import dataclasses
import json
import math

import numpy as np
import pytest
from scipy import sparse

from dperm.choose.table import build
from dperm.mechanisms import ScaledGradient, ScaledObjective, Shape, Target
from dperm.mechanisms.scaled import coordinates
from dperm.privacy import gaussian_mu
from dperm.problem import Ball, DataBounds, HuberLoss, Interval, LogisticLoss, MultinomialLoss, Problem, SquaredLoss
from dperm.problem import Ridge as RidgePenalty
from dperm.release.driver import watching
from dperm.release.noise import RELEASE_SLACK, SeededNoise, gaussian_scale
from dperm.rows.base import Block
from dperm.rows.memory import MemoryRows
from dperm.tables.gaps import GAP, with_gaps_stored
from dperm.terms.affine import Features
from dperm.terms.statistics import (
    LabelSum,
    LogHistogram,
    PositiveCount,
    PresentCount,
    Residuals,
    RowNorms,
    RowSum,
    SmoothGradientTerm,
    SquareNorms,
    SquareSum,
    WeightedGradientTerm,
    upper_quantile,
)
from dperm.walk.fitting import fit, plan

RELATIONS = ("replace-one", "zero-out")
SHIFT = np.array([0.2, -0.1, 0.3])
CENTRED = Features(shift=SHIFT)
SCALED = Features(shift=SHIFT, scale=np.array([2.0, 5.0, 0.5]))
AFFINE = Features(1.0, SHIFT, np.array([2.0, 5.0, 0.5]))
W = np.array([0.3, -0.8, 1.5, 0.2])

TERMS = {
    "row sum": RowSum(0.7),
    "row sum about a centre": RowSum(0.4, CENTRED),
    "present cells": PresentCount((0, 2)),
    "square sum": SquareSum(CENTRED, 0.6),
    "square sum of a wide table": SquareSum(CENTRED, 0.6, most=0.2),
    "square sum in a first scale": SquareSum(SCALED, 3.0, most=4.0),
    "square norms": LogHistogram(SquareNorms(CENTRED, 0.6), 0.36),
    "square norms in a first scale": LogHistogram(SquareNorms(SCALED, 3.0), 9.0),
    "norm histogram": LogHistogram(RowNorms(CENTRED), 2.0),
    "residual histogram": LogHistogram(Residuals(AFFINE, W), 2.0),
    "positive count": PositiveCount(),
    "label sum": LabelSum(-1.0, 1.0),
    "weighted gradient": WeightedGradientTerm(LogisticLoss(), W, 0.4, AFFINE, 3.0),
    "weighted squares": WeightedGradientTerm(SquaredLoss(), W, 0.4, AFFINE, 3.0),
    "smooth gradient": SmoothGradientTerm(LogisticLoss(), W, 0.4, AFFINE, 3.0),
    "smooth squares": SmoothGradientTerm(SquaredLoss(), W, 0.4, AFFINE, 3.0),
    "weighted softmax": WeightedGradientTerm(MultinomialLoss(classes=3), np.tile(W, 3), 0.4, AFFINE, 2.0),
}
# Neighbours (x, y, weight) → (x', y', weight') that reach the bound when a row is replaced; the first alone when it is nulled.
EXTREME = {
    "row sum": (([0.9, 0, 0], 1), ([-0.9, 0, 0], 1)),
    "row sum about a centre": ((SHIFT + np.array([9, 0, 0]), 1), (SHIFT - np.array([9, 0, 0]), 1)),
    "present cells": (([0.9, 0, 0], 1), ([GAP, 0, GAP], 1)),
    "square sum": ((SHIFT + np.array([5, 0, 0]), 1), (SHIFT + np.array([0, 5, 0]), 1)),
    "square sum of a wide table": ((SHIFT + np.array([5, 0, 0]), 1), (SHIFT + np.array([0, 5, 0]), 1)),
    "square sum in a first scale": ((SHIFT + np.array([5, 0, 0]), 1), (SHIFT + np.array([0, 5, 0]), 1)),
    "square norms": ((SHIFT + np.array([1.9, 0, 0]), 1), (SHIFT, 1)),
    "square norms in a first scale": ((SHIFT + np.array([1.9, 0, 0]), 1), (SHIFT, 1)),
    "norm histogram": ((SHIFT + np.array([1.9, 0, 0]), 1), (SHIFT, 1)),
    "residual histogram": (([0.2, -0.1, 0.3], 1), ([0.2, -0.1, 90], 1)),
    "positive count": (([0, 0, 0], 1), ([0, 0, 0], -1)),
    "label sum": (([0, 0, 0], 1), ([0, 0, 0], -1)),
    "weighted gradient": (([0.2, 90, 0.3], 1), ([0.2, 90, 0.3], -1)),
    "weighted squares": (([0.2, 90, 0.3], 1), ([0.2, 90, 0.3], -1)),
    "smooth gradient": (([0.2, 90, 0.3], 1), ([0.2, 90, 0.3], -1)),
    "smooth squares": (([0.2, 90, 0.3], 1), ([0.2, 90, 0.3], -1)),
}


def block(rows, labels, weights, sparse_rows=False):
    X = np.array(rows, dtype=float)
    return Block(with_gaps_stored(X) if sparse_rows else X, np.array(labels), np.array(weights, dtype=float), 0)


def labels_for(name):
    return (0, 1, 2) if "softmax" in name else (-1.0, 1.0)


@pytest.mark.parametrize("stored", ["dense", "sparse"])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", TERMS)
def test_no_neighbour_exceeds_the_sensitivity(name, relation, stored):
    term, generator = TERMS[name], np.random.default_rng(5)
    bound = term.sensitivity(relation)
    for _ in range(200):
        X = generator.normal(size=(4, 3)) * 10 ** generator.uniform(-3, 2)
        X[generator.uniform(size=X.shape) < 0.3] = GAP  # a missing cell
        y = generator.choice(labels_for(name), 4)
        weights = generator.choice([0.0, 0.5, 1.0, 3.0, 50.0], 4)
        before = term(block(X, y, weights, stored == "sparse"))
        if relation == "zero-out":
            weights[1] = 0.0
        else:
            X[1], y[1] = generator.normal(size=3) * 10 ** generator.uniform(-3, 2), generator.choice(labels_for(name))
            X[1][generator.uniform(size=3) < 0.3] = GAP
            weights[1] = generator.choice([0.0, 1.0, 50.0])
        after = term(block(X, y, weights, stored == "sparse"))
        assert np.linalg.norm(after - before) <= bound * (1 + 1e-9)
        assert np.max(np.abs(term(block(X[1:2], y[1:2], weights[1:2], stored == "sparse")))) <= term.row_bound * (1 + 1e-9)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", EXTREME)
def test_the_sensitivity_is_attained(name, relation):
    """A smaller constant anywhere would be wrong: some neighbours reach it."""
    term = TERMS[name]
    if hasattr(term, "w"):  # away from w = 0 a large row has either no slope or the other sign
        term = dataclasses.replace(term, w=np.zeros(4))
    (first, label), (second, other) = EXTREME[name]
    rows, labels = [[0.1, 0.2, 0.3], first], [1.0, label]
    before = term(block(rows, labels, [1, 9]))
    replaced = block([rows[0], second], [1.0, other], [1, 9])
    after = term(replaced if relation == "replace-one" else block(rows, labels, [1, 0]))
    assert np.linalg.norm(after - before) >= term.sensitivity(relation) * 0.999


def test_quantile_reads_the_upper_edge():
    term = LogHistogram(RowNorms(Features()), 8.0)
    X = np.array([[v, 0.0, 0.0] for v in (0.001, 0.9, 1.1, 1.5, 3.0, 100.0)])
    counts = term(block(X, np.ones(6), np.ones(6)))
    assert counts.sum() == 6 and counts[0] == 1  # beyond the top: the first bin
    assert upper_quantile(counts, 8.0, 6, 0.5) == pytest.approx(math.sqrt(2), rel=1e-12)


# -- whole runs --------------------------------------------------------------------------------------------------------


def data(n=400, d=6, regression=False, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.uniform(-0.5, 0.5, (n, d))
    X[:, -1] = X[:, -1] > 0.3
    score = 3 * X[:, 0] - 2 * X[:, 1] + X[:, -1] - 0.4
    y = np.clip(score / 3 + 0.1 * generator.normal(size=n), -1, 1) if regression else np.where(score > 0, 1.0, -1.0)
    return X, y


KINDS = ("numeric",) * 5 + ("boolean",)
CASES = {
    "plain": (LogisticLoss(), ScaledGradient(kinds=("numeric",) * 6)),
    "flags": (LogisticLoss(), ScaledGradient(kinds=KINDS)),
    "probabilities": (LogisticLoss(), ScaledGradient(kinds=("numeric",) * 6, aim="probabilities", start="rate")),
    "probabilities, clip fixed": (LogisticLoss(), ScaledGradient(("numeric",) * 6, clip_factor=0.7, horizon=1.0, start="rate")),
    "regression": (SquaredLoss(), ScaledGradient(kinds=KINDS)),
    "huber": (HuberLoss(0.3), ScaledGradient(kinds=KINDS)),
    "softmax": (MultinomialLoss(classes=3), ScaledGradient(kinds=KINDS)),
    "wide": (MultinomialLoss(classes=3), ScaledGradient(kinds=("numeric",) * 6, wide=True)),
    "wide, gaps": (SquaredLoss(), ScaledGradient(kinds=("numeric",) * 6, gaps=(0, 1, 3), wide=True)),
    "objective, wide": (LogisticLoss(), ScaledObjective(kinds=("numeric",) * 6, wide=True)),
    "weighted": (LogisticLoss(), ScaledGradient(kinds=KINDS, max_weight=2.5)),
    "private bounds": (LogisticLoss(), ScaledGradient(kinds=("private", "private", *KINDS[2:]))),
    "objective, private bounds": (LogisticLoss(), ScaledObjective(kinds=("private", *KINDS[1:]))),
    "objective": (LogisticLoss(), ScaledObjective(kinds=KINDS)),
    "gaps": (SquaredLoss(), ScaledGradient(kinds=KINDS, gaps=(0, 1, 3))),
    "gaps, private bounds": (LogisticLoss(), ScaledGradient(kinds=("private", "private", *KINDS[2:]), gaps=(0, 1, 2))),
    "objective, gaps": (LogisticLoss(), ScaledObjective(kinds=KINDS, gaps=(0, 1))),
    "objective, weighted": (LogisticLoss(), ScaledObjective(kinds=("numeric",) * 6, max_weight=2.5)),
}


def setting(name, relation="replace-one", rows_per_person=1, n=400, epsilon=2.0):
    loss, mechanism = CASES[name]
    regression = not loss.classification
    X, y = data(n=n, regression=regression)
    if loss.margins > 1:
        y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.2)
    for j in mechanism.gaps:
        X[j :: 4 + j, j] = GAP
    interval = Interval(0, 2) if loss.margins > 1 else Interval(-1, 1)
    problem = Problem(loss, data=DataBounds(1.5, interval, 1.0))
    target = Target.declare(epsilon=epsilon, delta=1e-6, relation=relation, n=n, rows_per_person=rows_per_person)
    return problem, MemoryRows(X, y), target, mechanism


class Recording(SeededNoise):
    """Seeded noise that writes down the scale and size of every draw."""

    def __init__(self, seed):
        super().__init__(seed)
        self.drawn = []

    def normal(self, scale, size):
        self.drawn.append((scale, int(np.prod(size))))
        return super().normal(scale, size)


def stage_sensitivity(name, relation, decided, gaps=()):
    """By hand, from the table of the module: what one row moves each stage's sum by."""
    replaced = relation == "replace-one"
    return {
        "octaves": math.sqrt(2 * (2 if replaced else 1)),
        "cells": math.sqrt(2 * (2 if replaced else 1)),
        "row norms": math.sqrt(2) if replaced else 1.0,
        "rough mean": (2 if replaced else 1) * decided["mean_radius"],
        "rough radius": math.sqrt(2) if replaced else 1.0,
        "mean": (2 if replaced else 1) * decided["mean_reach"],
        "present": math.sqrt(len(gaps)),
        "radius": math.sqrt(2) if replaced else 1.0,
        "rough square norms": math.sqrt(2) if replaced else 1.0,
        "rough squares": (math.sqrt(2) if replaced else 1.0) * decided.get("largest_rough_squares", 0.0),
        "square norms": math.sqrt(2) if replaced else 1.0,
        "squares": (math.sqrt(2) if replaced else 1.0) * decided.get("largest_squares", decided["centred_radius"] ** 2),
        "positives": 1.0,
        "label mean": 2.0 if replaced else 1.0,
        "residuals": math.sqrt(2) if replaced else 1.0,
        "residuals again": math.sqrt(2) if replaced else 1.0,
    }[name]


@pytest.mark.parametrize("person", [1, 3])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", [name for name in CASES if "objective" not in name])
def test_every_draw_has_the_declared_scale(name, relation, person):
    problem, rows, target, mechanism = setting(name, relation, person)
    noise = Recording(3)
    release = fit(problem, rows, target, mechanism, noise=noise)
    decided = release.certificate.record["decided"]
    budget = {stage.name: stage.event.mu for stage in release.plan.stages}
    assert math.fsum(mu**2 for mu in budget.values()) == pytest.approx(gaussian_mu(2.0, 1e-6) ** 2, rel=1e-9)
    expected = []
    weight = mechanism.max_weight or 1.0
    clips = decided["clip"] if isinstance(decided["clip"], list) else [decided["clip"]] * 2
    for stage in release.plan.stages:
        if stage.name == "descent":
            turn = decided["second_clip_at"] or decided["steps"]
            for step in range(decided["steps"]):
                if step == turn:
                    expected.append(stage_sensitivity("residuals again", relation, decided) / budget["residuals again"])
                clip = clips[0] if step < turn else clips[1]
                moved = (2 if relation == "replace-one" else 1) * clip * weight
                expected.append(moved * math.sqrt(decided["steps"]) / budget["descent"])
        elif stage.name != "residuals again":
            expected.append(stage_sensitivity(stage.name, relation, decided, mechanism.gaps) / budget[stage.name])
    assert [scale for scale, _ in noise.drawn] == pytest.approx([RELEASE_SLACK * person * e for e in expected], rel=1e-9)


@pytest.mark.parametrize("name", ["flags", "regression", "gaps", "wide"])
def test_measured_noise_equals_the_declared_noise(name):
    """The released numbers less the exact sums, over 60 runs: standard deviation within 5 standard errors of the plan's.

    False alarm below 1e-5 for all stages together (seeds are fixed anyway); noise halved anywhere fails.
    """
    problem, rows, target, mechanism = setting(name, "zero-out")
    errors: dict[float, list[np.ndarray]] = {}

    def see(drawn):
        sensitivity = drawn.term.sensitivity(target.relation) * target.rows_per_person
        mu = gaussian_scale(sensitivity, 1.0) / drawn.scale
        errors.setdefault(round(mu, 12), []).append((drawn.value - drawn.exact) / sensitivity)

    with watching(see):
        for seed in range(60):
            release = fit(problem, rows, target, mechanism, random_state=seed)
    planned = {stage.name: stage.event.mu for stage in release.plan.stages if stage.name != "descent"}
    for stage, mu in planned.items():
        drawn = np.concatenate([e.ravel() for e in errors[round(mu, 12)]])
        assert np.std(drawn) * mu == pytest.approx(1.0, abs=5 / math.sqrt(2 * len(drawn))), stage
    steps = release.certificate.record["decided"]["steps"]
    descent = release.plan.stage("descent").event.mu
    others = {round(mu, 12) for mu in planned.values()}
    inner = np.concatenate([e.ravel() for mu, found in errors.items() if mu not in others for e in found])
    assert np.std(inner) * descent / math.sqrt(steps) == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("name", ["objective", "objective, weighted"])
@pytest.mark.parametrize(("relation", "person"), [("zero-out", 1), ("replace-one", 1), ("zero-out", 2)])
def test_the_tilt_and_the_curvature_keep_to_the_event(name, relation, person):
    problem, rows, target, mechanism = setting(name, relation, person)
    noise = Recording(1)
    release = fit(problem, rows, target, mechanism, noise=noise)
    event, decided = release.plan.stage("objective").event, release.certificate.record["decided"]
    weight = mechanism.max_weight or 1.0
    assert weight * decided["row_radius"] * decided["row_cap"] / decided["ridge"] <= event.curvature * (1 + 1e-12)
    tilt = noise.drawn[-2][0]
    assert tilt == pytest.approx(RELEASE_SLACK * weight * decided["row_radius"] / event.shift, rel=1e-9)
    assert event.replace == (relation == "replace-one") and event.rows == person
    assert release.plan.guarantee.epsilon(1e-6) <= 2.0 * (1 + 1e-9)
    assert release.plan.guarantee.epsilon(1e-6) >= 2.0 * 0.97


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", CASES)
def test_ledger_equals_plan_and_certificate_verifies(name, relation):
    problem, rows, target, mechanism = setting(name, relation)
    release = fit(problem, rows, target, mechanism, random_state=0)
    verdict = release.certificate.verify(allow_seeded=True)
    assert verdict.ok, verdict.reasons
    assert release.plan.events == plan(problem, Shape(400, 6), target, mechanism).events


@pytest.mark.parametrize("name", ["flags", "regression", "objective", "private bounds", "gaps", "objective, gaps", "wide"])
def test_every_altered_number_of_the_run_fails(name):
    """Options, stages, decisions and released values: one changed leaf, and the recomputation disagrees."""
    problem, rows, target, mechanism = setting(name)
    certificate = fit(problem, rows, target, mechanism, random_state=0).certificate
    record = json.loads(certificate.to_json())
    count = 0
    for part in ("mechanism", "stages", "decided", "released", "target", "shape", "problem"):
        for path in leaves(record[part]):
            changed = copy.deepcopy(record)
            place = changed[part]
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = altered(place[path[-1]])
            assert not type(certificate)(changed).verify(allow_seeded=True).ok, (part, path)
            count += 1
    assert count > 100


def leaves(value, path=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None or not value:
        yield path
        return
    for key, item in items:
        yield from leaves(item, (*path, key))


def altered(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1 if isinstance(value, int) else value * 1.001 + (value == 0)
    if isinstance(value, dict):
        return {"x": 1}
    others = {"boolean": "sparse", "numeric": "free", "replace-one": "zero-out", "zero": "rate"}
    return 0.7 if value is None else others.get(value, "x" if isinstance(value, str) else ["x"])


def test_the_plan_reads_no_row_and_shares_add_up():
    for name in CASES:
        problem, _, target, mechanism = setting(name, n=400)
        planned = plan(problem, Shape(400, 6), target, mechanism)
        assert planned.guarantee.epsilon(1e-6) <= 2.0 * (1 + 1e-9), name
        assert mechanism.name in planned.explain()
    few = plan(problem, Shape(50, 6), Target.declare(epsilon=0.1, delta=1e-6, n=50), ScaledGradient())
    assert any("LITTLE CAN BE LEARNT" in text for text in few.warnings)


def test_sparse_rows_give_the_answer_of_dense_rows():
    for name in ("flags", "regression", "objective", "wide"):
        problem, rows, target, mechanism = setting(name)
        dense = fit(problem, rows, target, mechanism, random_state=4)
        stored = fit(problem, MemoryRows(sparse.csr_array(rows.X), rows.y), target, mechanism, random_state=4)
        assert stored.w == pytest.approx(dense.w, rel=2e-5, abs=2e-6)


def test_coefficients_of_encoded_rows_give_the_scores_of_scaled_rows():
    generator = np.random.default_rng(1)
    X, theta = generator.normal(size=(5, 3)), generator.normal(size=(2, 4))
    settings = {"shift": SHIFT, "scale": np.array([2.0, 5.0, 0.5])}
    w = coordinates.original_coefficients(theta, settings, 0.5)
    assert np.column_stack([X, np.full(5, 0.5)]) @ w.T == pytest.approx(AFFINE.margins(X, theta))
    gradient = generator.normal(size=w.shape)
    assert np.sum(gradient * w) == pytest.approx(np.sum(coordinates.pulled_back(gradient, settings, 0.5) * theta))


def test_with_a_huge_budget_regression_is_least_squares():
    X, y = data(n=3000, regression=True)
    problem = Problem(SquaredLoss(), data=DataBounds(1.5, Interval(-1, 1), 1.0))
    target = Target.declare(epsilon=1e5, delta=1e-6, relation="zero-out", n=3000)
    w = fit(problem, MemoryRows(X, y), target, ScaledGradient(kinds=KINDS), random_state=0).w
    exact = np.linalg.lstsq(np.column_stack([X, np.ones(3000)]), y, rcond=None)[0]
    assert w == pytest.approx(exact, abs=0.02)


def test_a_weight_of_two_counts_twice():
    X, y = data(n=2000)
    y = np.where(np.random.default_rng(0).random(2000) < 0.25, -y, y)
    heavy = X[:, 2] + y > 0
    problem = Problem(LogisticLoss(), data=DataBounds(1.5, Interval(-1, 1), 1.0))
    kinds = ("numeric",) * 6
    doubled = np.concatenate([np.arange(2000), np.flatnonzero(heavy)])

    def fitted(X, y, weight, limit):
        target = Target.declare(epsilon=1e4, delta=1e-6, relation="zero-out", n=len(y))
        return fit(problem, MemoryRows(X, y, weight), target, ScaledObjective(kinds=kinds, max_weight=limit), random_state=0).w

    plain, twice = fitted(X, y, None, None), fitted(X[doubled], y[doubled], None, None)
    weighted = fitted(X, y, np.where(heavy, 2.0, 1.0), 2.0)
    assert np.linalg.norm(weighted - twice) < 0.5 * np.linalg.norm(plain - twice)


def test_ridge_and_domain_are_respected():
    X, y = data(n=2000, regression=True)
    target = Target.declare(epsilon=1e4, delta=1e-6, relation="zero-out", n=2000)
    bounds = DataBounds(1.5, Interval(-1, 1), 1.0)

    def fitted(**parts):
        problem = Problem(SquaredLoss(), data=bounds, **parts)
        return fit(problem, MemoryRows(X, y), target, ScaledGradient(kinds=KINDS), random_state=0).w

    ridged = fitted(regularizer=RidgePenalty(200.0))
    Z = np.column_stack([X, np.ones(2000)])
    assert ridged == pytest.approx(np.linalg.solve(Z.T @ Z + 200 * np.eye(7), Z.T @ y), abs=0.03)
    assert np.linalg.norm(ridged) < np.linalg.norm(fitted())
    assert np.linalg.norm(fitted(domain=Ball(0.3))) <= 0.3 * (1 + 1e-9)


def test_needs_are_listed_and_bad_options_refused():
    problem, _, target, _ = setting("plain")
    pure = Target.declare(epsilon=1.0, delta=0.0, n=100)
    assert ScaledGradient().missing(problem, pure) and ScaledObjective().missing(problem, pure)
    squares = Problem(SquaredLoss(), data=DataBounds(1.0, Interval(-1, 1), 1.0))
    assert any("curvature vanishes" in need for need in ScaledObjective().missing(squares, target))
    with pytest.raises(ValueError, match="kinds"):
        ScaledGradient(kinds=("textual",))
    with pytest.raises(ValueError, match="one kind per column"):
        plan(problem, Shape(100, 2), target, ScaledGradient(kinds=("numeric",)))
    with pytest.raises(ValueError, match="clip_factor"):
        ScaledGradient(clip_factor=-1.0)
    with pytest.raises(ValueError, match="start"):
        ScaledGradient(start="there")


def test_squares_of_many_columns_in_two_steps_see_columns_that_vary_little() -> None:
    """Of 400 columns a quarter vary an eighth as much as half of them, and a quarter a fortieth: the first step sees the former
    where rows that are cut alone see neither, the second step sees both."""
    generator = np.random.default_rng(0)
    widths = np.repeat([1.0, 0.125, 0.025], [200, 100, 100])
    X = generator.uniform(-0.5, 0.5, (20_000, 400)) * widths
    y = np.where((X / widths)[:, 200:].sum(axis=1) > 0, 1.0, -1.0)
    problem = Problem(LogisticLoss(), data=DataBounds(10.0, Interval(-1, 1), 1.0))
    target = Target.declare(epsilon=3.0, delta=1e-6, relation="zero-out", n=20_000)
    found = {}
    for wide in (False, True):
        mechanism = ScaledGradient(kinds=("numeric",) * 400, wide=wide)
        found[wide] = fit(problem, MemoryRows(X, y), target, mechanism, random_state=0)
    decided = {wide: release.certificate.record["decided"] for wide, release in found.items()}
    told = {wide: np.array(said["scale"]) * widths / math.sqrt(12) for wide, said in decided.items()}  # 1 where it is right
    right = {wide: np.mean(np.sign(X @ release.w[:-1] + release.w[-1]) == y) for wide, release in found.items()}
    assert np.median(told[False][200:300]) < 0.5 and np.median(told[False][300:]) < 0.15
    assert np.median(told[True][200:300]) == pytest.approx(1, rel=0.1)
    assert np.median(told[True][300:]) == pytest.approx(1, rel=0.2)
    assert right[True] > right[False] + 0.05
    assert decided[True]["largest_rough_squares"] < decided[True]["centred_radius"] ** 2 / 4


def test_wide_tables_of_numbers_ask_for_it_and_others_do_not() -> None:
    problem = Problem(LogisticLoss(), data=DataBounds(10.0, Interval(-1, 1), 1.0))
    for name in ("scaled-gradient", "scaled-objective"):
        for kinds, wide in {
            ("numeric",) * 192: True,
            ("numeric",) * 192 + ("categorical",) * 3: True,
            ("numeric",) * 191 + ("boolean",): False,
            ("numeric",) * 192 + ("sparse",): False,
            ("private",) * 300: False,
        }.items():
            sizes = Shape(10_000, len(kinds)), Target(1.0, 1e-6, "zero-out")
            assert build(name, problem, *sizes, asked_for="accuracy", kinds=kinds).wide is wide
