"""The additive mechanism: sensitivities attained and never exceeded, noise as declared, a choice of smoothness that replays."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dperm.mechanisms import Additive, Shape, Target, UnmetNeeds
from dperm.mechanisms.scaled.recalibration import correction
from dperm.mechanisms.scaled.smoothness import CELLS, FUNCTIONS, LADDER, columns_of, denoised, tables_of
from dperm.privacy import RELATIONS, gaussian_mu
from dperm.problem import DataBounds, HuberLoss, Interval, LogisticLoss, MultinomialLoss, Problem, QuantileLoss, SquaredLoss
from dperm.problem import Ridge as RidgePenalty
from dperm.release.driver import watching
from dperm.release.noise import RELEASE_SLACK, gaussian_scale
from dperm.rows.base import Block
from dperm.rows.memory import MemoryRows
from dperm.tables.gaps import GAP, with_gaps_stored
from dperm.terms.additive import (
    PLACES,
    CellFilling,
    Curved,
    CurveFeatures,
    Curving,
    Level,
    Marginals,
    Recalibration,
    cell_numbers,
)
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm
from dperm.terms.gridded import Grid, gridded
from dperm.terms.statistics import LogHistogram, Residuals, WeightedGradientTerm
from dperm.walk.fitting import fit, plan
from recording import Recording

D, COLUMNS, GAPS = 4, (0, 2), (0, 1)
GENERATOR = np.random.default_rng(11)
TABLES = GENERATOR.normal(size=(2, PLACES, 5))
FEATURES = CurveFeatures(1.0, np.array([0.2, -0.1, 0.0, 0.3]), np.array([2.0, 5.0, 0.5, 1.0]), TABLES)
W = GENERATOR.normal(size=FEATURES.width(D))
THREE = GENERATOR.normal(size=3 * FEATURES.width(D))
TERMS = {
    "marginals": Marginals(COLUMNS, GAPS),
    "recalibration": Recalibration(FEATURES, W, 0.3, 0.4, 0.5),
    "level": Level(FEATURES, W, 0.5),
    "residuals": LogHistogram(Residuals(FEATURES, W), 2.0),
    "gradient": GradientTerm(LogisticLoss(), W, 0.4, FEATURES),
    "gradient of squares": GradientTerm(SquaredLoss(), W, 0.4, FEATURES),
    "weighted gradient": WeightedGradientTerm(LogisticLoss(), W, 0.4, FEATURES, 3.0),
    "gradient of classes": GradientTerm(MultinomialLoss(classes=3), THREE, 0.4, FEATURES),
    "weighted gradient of classes": WeightedGradientTerm(MultinomialLoss(classes=3), THREE, 0.4, FEATURES, 3.0),
}


def seen(X: np.ndarray, y: np.ndarray, weights: np.ndarray, form: str = "dense") -> Block:
    """A block as the descent sees it: filled, with its cells."""
    stored = with_gaps_stored(X) if form == "sparse" else X.astype(np.float32) if form == "float32" else X
    filled = CellFilling(np.array([0.1, -0.2, 0.0, 0.0]), COLUMNS, GAPS).block(Block(stored, y, weights, 0))
    return Curving().block(filled)


def shown(name: str, X: np.ndarray, y: np.ndarray, weights: np.ndarray, form: str = "dense") -> Block:
    plain = Block(with_gaps_stored(X) if form == "sparse" else X, y, weights, 0)
    return plain if name == "marginals" else seen(X, y, weights, form)


def random_rows(generator: np.random.Generator, n: int) -> np.ndarray:
    X = generator.uniform(-0.6, 0.6, (n, D)) * 10 ** generator.uniform(-2, 1)
    X[generator.uniform(size=X.shape) < 0.3] = GAP
    return X


@pytest.mark.parametrize("form", ["dense", "sparse", "float32"])
@pytest.mark.parametrize("relation", ["replace-one", "zero-out", "add-remove"])
@pytest.mark.parametrize("name", TERMS)
def test_no_neighbour_exceeds_the_sensitivity(name: str, relation: str, form: str) -> None:
    """1, 2 and 3 rows of a person change at once: the bound of k rows is k times that of one."""
    term, generator = TERMS[name], np.random.default_rng(5)
    slack = 1e-9  # whole numbers, whatever the rows are stored in
    for trial in range(90):
        rows = 1 + trial % 3
        X, y = random_rows(generator, 6), generator.choice([-1.0, 1.0], 6)
        weights = generator.choice([0.0, 0.5, 1.0, 3.0, 50.0], 6) if "weighted" in name else generator.choice([0.0, 1.0], 6)
        before = term(shown(name, X, y, weights, form))
        other, labels, heavy = X.copy(), y.copy(), weights.copy()
        if relation == "replace-one":
            other[:rows], labels[:rows] = random_rows(generator, rows), generator.choice([-1.0, 1.0], rows)
        else:
            heavy[:rows] = 0.0
        after = term(shown(name, other, labels, heavy, form))
        assert np.linalg.norm(after - before) <= rows * term.sensitivity(relation) * (1 + slack)
        alone = term(shown(name, X[:1], y[:1], weights[:1], form))
        assert np.max(np.abs(alone)) <= term.row_bound * (1 + slack)


def test_the_sensitivities_are_attained() -> None:
    """A smaller constant would be wrong: √p and √(2p) for histograms, 2 and 2√2 for the recalibration, κ for a level, κC for
    a gradient."""
    one, y = np.ones(1), np.ones(1)
    low, high = np.full((1, D), -0.45), np.full((1, D), 0.45)
    marginals = TERMS["marginals"]
    moved = marginals(shown("marginals", high, y, one)) - marginals(shown("marginals", low, y, one))
    assert np.linalg.norm(moved) == marginals.sensitivity("replace-one") == math.sqrt(4)
    assert np.linalg.norm(marginals(shown("marginals", high, y, one))) == marginals.sensitivity("zero-out") == math.sqrt(2)
    flat = Features(1.0)
    w = np.array([100.0, 0.0])
    term = Recalibration(flat, w, 0.0, 0.5, 0.1)
    far = [term(Block(np.array([[x]]), np.array([label]), None, 0)) for x, label in ((1.0, 300.0), (1.0, -300.0))]
    assert np.linalg.norm(far[0]) == pytest.approx(2.0) == term.sensitivity("zero-out")
    assert np.linalg.norm(far[0] - far[1]) == pytest.approx(2 * math.sqrt(2)) == term.sensitivity("replace-one")
    level = Level(flat, w, 0.1)
    up, down = (level(Block(np.array([[1.0]]), np.array([label]), None, 0)) for label in (300.0, -300.0))
    assert abs(up[0]) == level.sensitivity("zero-out") == level.sensitivity("add-remove") == 1.0
    assert abs(up[0] - down[0]) == level.sensitivity("replace-one") == 2.0
    gradient = dataclasses.replace(TERMS["gradient"], w=np.zeros_like(W), clip=1e-3)
    up, down = (gradient(seen(high, np.array([label]), one)) for label in (1.0, -1.0))
    assert np.linalg.norm(up) == pytest.approx(gradient.sensitivity("zero-out"), rel=1e-6)
    assert np.linalg.norm(up - down) == pytest.approx(gradient.sensitivity("replace-one"), rel=1e-6)
    classes = dataclasses.replace(TERMS["gradient of classes"], w=np.zeros_like(THREE), clip=1e-3)
    assert np.linalg.norm(classes(seen(high, np.ones(1), one))) == pytest.approx(classes.sensitivity("zero-out"), rel=1e-6)


@pytest.mark.parametrize("form", ["dense", "sparse", "float32"])
def test_several_margins_are_one_after_the_other(form: str) -> None:
    """Margins and gradients of K classes by look-up: each class has those of its own weights."""
    X = random_rows(np.random.default_rng(6), 200)
    block, weights = seen(X, np.ones(200), np.ones(200), form), THREE.reshape(3, -1)
    grid = gridded(block, FEATURES)
    apart = np.column_stack([grid.margins(w) for w in weights])
    np.testing.assert_allclose(grid.margins(weights), apart, rtol=0, atol=1e-4)  # of grids of the weights
    slopes = np.random.default_rng(7).normal(size=(200, 3))
    longest = 1.01 * float(np.max(np.linalg.norm(slopes, axis=1) * grid.norms))
    together = Fixed(MultinomialLoss(classes=3), THREE, longest, FEATURES, slopes)(block).reshape(3, -1)
    for k in range(3):
        alone = Fixed(SquaredLoss(), W, longest, FEATURES, slopes[:, k].copy())(block)
        np.testing.assert_allclose(together[k], alone, rtol=0, atol=1e-6 * longest)


@dataclasses.dataclass(frozen=True, eq=False)
class Fixed(GradientTerm):
    """Slopes that the test has chosen."""

    given: np.ndarray

    def slopes(self, block: Block, grid: Grid) -> np.ndarray:
        return self.given


@pytest.mark.parametrize("form", ["dense", "sparse", "float32"])
def test_features_equal_the_wide_matrix(form: str) -> None:
    """Margins, norms and gradients by look-up are those of the matrix that is never formed."""
    generator = np.random.default_rng(2)
    X = random_rows(generator, 300)
    block = seen(X, np.ones(300), np.ones(300), form)
    filled = np.where((X == 0) & np.signbit(X), np.array([0.1, -0.2, 0.0, 0.0]), X)
    cells = cell_numbers(X.astype(np.float32) if form == "float32" else X, COLUMNS, GAPS)
    assert set(np.unique(cells[:, 0])) >= {256} and cells[:, 1].max() < 256  # column 2 has no missing cells by declaration
    wide = np.column_stack(
        [(filled - FEATURES.shift) * FEATURES.scale, np.ones(300), *(TABLES[j][cells[:, j]] for j in range(2))]
    )
    sizes = np.linalg.norm(wide, axis=1)
    spare = 2.0**-19 * math.sqrt(D + 2)  # of a row's length: its entries lie on a grid of 2⁻²⁰ of the largest
    grid = gridded(block, FEATURES)
    assert np.all(np.abs(grid.margins(W) - wide @ W) <= spare * sizes * np.linalg.norm(W))
    np.testing.assert_allclose(grid.norms, sizes, rtol=spare)
    slopes = generator.normal(size=300)
    term = Fixed(SquaredLoss(), W, 1.01 * float(np.max(np.abs(slopes) * sizes)), FEATURES, slopes)
    np.testing.assert_allclose(term(block), slopes @ wide, atol=spare * float(np.abs(slopes) @ sizes), rtol=0)
    one = Fixed(SquaredLoss(), W, 0.9 * float(sizes[7]), FEATURES, np.ones(1))  # a row that is clipped keeps its direction
    alone = one(seen(X[7:8], np.ones(1), np.ones(1), form))
    np.testing.assert_allclose(alone, 0.9 * wide[7], atol=spare * sizes[7], rtol=0)
    assert np.linalg.norm(alone) <= one.clip * (1 + 1e-12)


# -- the basis -----------------------------------------------------------------------------------------------------------


def test_functions_are_orthonormal_and_smooth_ones_come_first() -> None:
    counts = np.zeros((2, PLACES))
    counts[0, :CELLS] = 100.0
    counts[1, [3, 40, 200]] = [5000.0, 300.0, 700.0]
    counts[1, CELLS] = 2000.0
    for column, missing in zip(columns_of(counts.ravel(), 1e-6, 25_600), (0.0, 2000 / 25_600)):
        weight = 0.99 * column.share + 0.01 / CELLS
        functions = column.functions[:CELLS, :FUNCTIONS]
        np.testing.assert_allclose(functions.T @ (weight[:, None] * functions), np.eye(FUNCTIONS), atol=1e-7)
        np.testing.assert_allclose(weight @ functions, 0.0, atol=1e-7)
        assert np.all(np.diff(column.eigenvalues) <= 1e-12) and column.eigenvalues[0] == 1.0
        assert column.missing == missing
    first, second = columns_of(counts.ravel(), 1e-6, 25_600)
    np.testing.assert_allclose(first.eigenvalues[:6], 1.0 / np.arange(1, 7) ** 2, rtol=0.02)  # uniform rows: cos(kπu)
    assert not first.functions[:, FUNCTIONS].any() and second.functions[CELLS, FUNCTIONS] > 1.0
    tables = tables_of([first, second], (1.0, 0.5))
    assert tables.shape == (2, PLACES, FUNCTIONS + 1) and np.isfinite(tables).all()


def test_denoising_keeps_what_stands_out_and_nothing_else() -> None:
    generator = np.random.default_rng(0)
    counts = np.zeros(CELLS)
    counts[64:128] = 1000.0
    found = denoised(counts + generator.normal(0, 20.0, CELLS), 20.0)
    assert found[64:128].sum() > 0.97 and found.min() >= 0 and found.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(denoised(counts, 0.0), counts / counts.sum(), atol=1e-15)
    np.testing.assert_allclose(denoised(generator.normal(0, 20.0, CELLS) - 50.0, 20.0), 1 / CELLS)  # nothing there: uniform


def test_the_recalibration_solves_the_normal_equations_and_shrinks() -> None:
    generator = np.random.default_rng(3)
    h = np.clip(generator.normal(size=5000), -1, 1)
    r = np.clip(0.05 + 0.02 * h, -0.5, 0.5)
    sums = np.array([np.sum(r / 0.5), np.sum(r * h / 0.5), np.sum(h), np.sum(h * h)])
    assert correction(sums, 0.5, 1.0, 0.0, 5000) == pytest.approx((0.05, 0.02), rel=1e-9)
    assert correction(sums, 0.5, 0.02, 0.0, 5000)[1] == 0.01  # at most half the spread
    assert correction(sums, 0.5, 1.0, 1e9, 5000) == (0.0, 0.0)  # all noise: nothing is believed


# -- whole runs ------------------------------------------------------------------------------------------------------------

KINDS = ("numeric",) * 3 + ("boolean",)
OWN: dict[str, Any] = {"kinds": KINDS, "curved": (0, 1, 2)}
CASES: dict[str, tuple[Any, Additive]] = {
    "hinge": (LogisticLoss(), Additive(**OWN)),
    "logistic": (LogisticLoss(), Additive(aim="probabilities", start="rate", **OWN)),
    "squared": (SquaredLoss(), Additive(**OWN)),
    "huber": (HuberLoss(0.3), Additive(**OWN)),
    "weighted": (SquaredLoss(), Additive(max_weight=2.5, **OWN)),
    "gaps": (SquaredLoss(), Additive(gaps=(0, 1), **OWN)),
    "private bounds": (LogisticLoss(), Additive(kinds=("private", *KINDS[1:]), curved=(0, 1, 2))),
    "no shape": (SquaredLoss(), Additive(kinds=KINDS)),
    "classes": (MultinomialLoss(classes=3), Additive(**OWN)),
    "weighted classes": (MultinomialLoss(classes=3), Additive(max_weight=2.5, gaps=(0,), **OWN)),
}
SIZE = 3000


def setting(name: str, relation: str = "replace-one", persons: int = 1, epsilon: float = 8.0, n: int = SIZE) -> Any:
    loss, mechanism = CASES[name]
    generator = np.random.default_rng(0)
    X = generator.uniform(-0.5, 0.5, (n, D))
    X[:, 3] = X[:, 3] > 0.2
    score = np.cos(8 * X[:, 0]) + X[:, 1] + 0.3 * X[:, 3]
    y = np.where(score > 0.2, 1.0, -1.0) if loss.classification else np.clip(score / 2, -1, 1)
    for j in mechanism.gaps:
        X[j :: 4 + j, j] = GAP
    interval = Interval(-1, 1)
    if loss.margins > 1:
        y, interval = np.digitize(score, [0.0, 0.7]).astype(np.float64), Interval(0, 2)
    problem = Problem(loss, data=DataBounds(1.5, interval, 1.0))
    target = Target.declare(epsilon=epsilon, delta=1e-6, relation=relation, n=n, rows_per_person=persons)
    return problem, MemoryRows(X, y), target, mechanism


def run(name: str, relation: str = "replace-one", persons: int = 1, **options: Any) -> Any:
    problem, rows, target, mechanism = setting(name, relation, persons)
    nominal = SIZE if relation == "add-remove" else None
    return fit(problem, rows, target, mechanism, nominal_n=nominal, **options)


def by_hand(name: str, replaced: bool, decided: dict[str, Any], mechanism: Additive) -> float:
    """What one row moves each stage's sum by, from the tables of the documentation."""
    return {
        "octaves": math.sqrt(2 if replaced else 1),
        "cells": math.sqrt(2 if replaced else 1),
        "marginals": math.sqrt((2 if replaced else 1) * 3),
        "row norms": math.sqrt(2) if replaced else 1.0,
        "rough mean": (2 if replaced else 1) * decided["mean_radius"],
        "rough radius": math.sqrt(2) if replaced else 1.0,
        "mean": (2 if replaced else 1) * decided["mean_reach"],
        "present": math.sqrt(len(mechanism.gaps)),
        "radius": math.sqrt(2) if replaced else 1.0,
        "squares": (math.sqrt(2) if replaced else 1.0) * decided["centred_radius"] ** 2,
        "positives": 1.0,
        "label mean": 2.0 if replaced else 1.0,
        "residuals": math.sqrt(2) if replaced else 1.0,
        "residuals again": math.sqrt(2) if replaced else 1.0,
        "recalibration": 2 * math.sqrt(2) if replaced else 2.0,
    }[name]


@pytest.mark.parametrize("persons", [1, 3])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", CASES)
def test_every_draw_has_the_declared_scale(name: str, relation: str, persons: int) -> None:
    noise = Recording(3)
    release = run(name, relation, persons, noise=noise)
    decided, mechanism = release.certificate.record["decided"], CASES[name][1]
    budget = {stage.name: stage.event.mu for stage in release.plan.stages}
    assert math.fsum(mu**2 for mu in budget.values()) == pytest.approx(gaussian_mu(8.0, 1e-6) ** 2, rel=1e-9)
    replaced, expected = relation == "replace-one", []
    for stage in release.plan.stages:
        if stage.name == "descent":
            turn, clips = decided["second_clip_at"], decided["clips"]
            for step in range(decided["steps"]):
                if step == turn:
                    expected.append(by_hand("residuals again", replaced, decided, mechanism) / budget["residuals again"])
                clip = clips[0] if turn is not None and step < turn else clips[1]
                moved = (2 if replaced else 1) * clip * (mechanism.max_weight or 1.0)
                expected.append(moved * math.sqrt(decided["steps"]) / budget["descent"])
        elif stage.name != "residuals again":
            expected.append(by_hand(stage.name, replaced, decided, mechanism) / budget[stage.name])
    assert noise.drawn == pytest.approx([RELEASE_SLACK * persons * scale for scale in expected], rel=1e-9)


@pytest.mark.parametrize("name", ["squared", "logistic"])
def test_measured_noise_equals_the_declared_noise(name: str) -> None:
    """Released numbers less exact sums, over 20 runs: standard deviation within 5 standard errors of the plan's.

    False alarm below 1e-5 for all stages together (seeds are fixed anyway); noise halved anywhere fails.
    """
    errors: dict[float, list[np.ndarray]] = {}

    def see(drawn: Any) -> None:
        sensitivity = drawn.term.sensitivity("zero-out")
        errors.setdefault(round(gaussian_scale(sensitivity, 1.0) / drawn.scale, 12), []).append(
            (drawn.value - drawn.exact) / sensitivity
        )

    with watching(see):
        for seed in range(20):
            release = run(name, "zero-out", random_state=seed)
    steps = release.certificate.record["decided"]["steps"]
    for stage in release.plan.stages:
        mu = stage.event.mu / math.sqrt(steps) if stage.name == "descent" else stage.event.mu
        found = [e for key, values in errors.items() if math.isclose(key, mu, rel_tol=1e-9) for e in values]
        if stage.name == "descent" and not found:
            continue  # another number of steps in the last run
        drawn = np.concatenate([e.ravel() for e in found])
        assert np.std(drawn) * mu == pytest.approx(1.0, abs=5 / math.sqrt(2 * len(drawn))), stage.name


def behind(rows: Any, other: MemoryRows, problem: Problem) -> Any:
    """The same views of other rows."""
    if isinstance(rows, MemoryRows):
        return other.bounded(problem.data)
    return dataclasses.replace(rows, rows=behind(rows.rows, other, problem))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", ["squared", "logistic", "gaps", "hinge", "classes"])
def test_exact_audit_of_a_whole_run(name: str, relation: str) -> None:
    """Every noisy sum of a run on one table, taken again on its neighbour: Σ (shift/σ)² ≤ μ², for each of the bad neighbours.

    Given the transcript the privacy loss is Gaussian with exactly that μ², so this is the whole of what an adversary can see. The
    row that changes contradicts all others, so that its gradient is clipped at every step: it uses more than a quarter of μ², and
    noise halved, or a sensitivity forgotten, would exceed μ².
    """
    problem, rows, target, mechanism = setting(name, relation)
    X, y = rows.X.copy(), rows.y.copy()
    X[-1], y[-1] = [0.0, 0.5, 0.5, 1.0], -1.0 if name != "classes" else 0.0
    drawn: list[Any] = []
    with watching(drawn.append):
        nominal = SIZE if relation == "add-remove" else None
        release = fit(problem, MemoryRows(X, y), target, mechanism, nominal_n=nominal, random_state=4)
    assert release.certificate.record["decided"]["shapes"] == "curves"
    allowed = gaussian_mu(8.0, 1e-6) ** 2
    keep = np.ones(SIZE)
    if relation == "replace-one":
        X, y = X.copy(), y.copy()
        X[-1], y[-1] = [0.4, -0.5, -0.5, 0.0], 1.0 if name != "classes" else 2.0
    else:
        keep[-1] = 0.0
    last = slice(None, -1 if relation == "add-remove" else None)
    other = MemoryRows(X[last], y[last], keep[last])
    spent = 0.0
    for one in drawn:
        again = behind(one.rows, other, problem).sum(one.term, 2.0**-36)
        spent += float(np.sum((again - one.exact) ** 2)) / one.scale**2
    assert 0.25 * allowed < spent <= allowed * (1 + 1e-3)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", CASES)
def test_certificates_verify_and_replay_the_choice(name: str, relation: str) -> None:
    release = run(name, relation, random_state=0)
    verdict = release.certificate.verify(allow_seeded=True)
    assert verdict.ok, verdict.reasons
    decided = release.certificate.record["decided"]
    if name == "no shape":
        assert decided["shapes"].startswith("the line") and "marginals" not in release.released
    else:
        assert (decided["kernel_scale"], decided["kernel_power"]) in LADDER
    problem, _, target, mechanism = setting(name, relation)
    assert release.plan.events == plan(problem, Shape(SIZE, D), target, mechanism).events
    assert release.w.shape == (problem.loss.margins * (D + 1 + PLACES * len(mechanism.curved)),)


@pytest.mark.parametrize("name", ["logistic", "gaps"])
def test_every_altered_number_of_the_run_fails(name: str) -> None:
    certificate = run(name, random_state=0).certificate
    record = json.loads(certificate.to_json())
    count = 0
    for part in ("mechanism", "stages", "decided", "released", "target", "shape", "problem"):
        for path in leaves(record[part]):
            if any(isinstance(step, int) and step > 1 and step % 251 for step in path):
                continue  # the cells of a histogram are alike
            changed = copy.deepcopy(record)
            place = changed[part]
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = altered(place[path[-1]])
            assert not type(certificate)(changed).verify(allow_seeded=True).ok, (part, path)
            count += 1
    assert count > 70


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None or not value:
        yield path
        return
    for key, item in items:
        yield from leaves(item, (*path, key))


def altered(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1 if isinstance(value, int) else value * 1.001 + (value == 0)
    if isinstance(value, dict | list):
        return {"x": 1} if isinstance(value, dict) else [0]
    others = {"boolean": "sparse", "numeric": "free", "replace-one": "zero-out", "zero": "rate"}
    return 0.7 if value is None else others.get(value, "x" if isinstance(value, str) else [0])


def test_more_budget_gives_rougher_curves_and_too_little_gives_the_line() -> None:
    found = []
    for epsilon in (0.005, 0.05, 0.5, 8.0, 100.0):
        problem, rows, target, mechanism = setting("squared", "zero-out", epsilon=epsilon)
        decided = fit(problem, rows, target, mechanism, random_state=0).certificate.record["decided"]
        kernel = (decided.get("kernel_scale"), decided.get("kernel_power"))
        assert decided["shapes"].startswith("the line") == (kernel == (None, None))
        found.append(next((place for place, rung in enumerate(LADDER) if rung == kernel), len(LADDER)))
    assert found == sorted(found, reverse=True) and found[0] == len(LADDER) and found[-1] == 0


def test_needs_are_named() -> None:
    target = Target.declare(epsilon=1.0, delta=0.0, n=100)
    data = DataBounds(1.0, Interval(-1, 1), 1.0)
    cases = [
        (Problem(LogisticLoss(), data=data), target, "Gaussian"),
        (Problem(QuantileLoss(0.5), data=data), None, "a loss in"),
        (Problem(LogisticLoss(), data=DataBounds(1.0, Interval(-1, 1))), None, "intercept"),
        (Problem(LogisticLoss(), RidgePenalty(1.0), data=data), None, "regularizer"),
    ]
    for problem, asked, words in cases:
        with pytest.raises(UnmetNeeds, match=words):
            plan(problem, Shape(100, 2), asked or Target.declare(epsilon=1.0, delta=1e-6, n=100), Additive(curved=(0, 1)))
    with pytest.raises(ValueError, match="curved="):
        plan(Problem(LogisticLoss(), data=data), Shape(100, 2), Target.declare(epsilon=1.0, n=100), Additive(curved=(5,)))


def test_rows_that_stream_give_the_same_answer_as_rows_in_memory() -> None:
    """Sparse storage, and blocks whose memory is lost between passes, change nothing but the last digits (of grids of 2⁻²⁰:
    those of sparse rows are of x, those of dense ones of the scaled x)."""
    problem, rows, target, mechanism = setting("gaps", "zero-out")
    w = fit(problem, rows, target, mechanism, random_state=0).w
    packed = fit(problem, MemoryRows(with_gaps_stored(rows.X), rows.y), target, mechanism, random_state=0).w
    np.testing.assert_allclose(packed, w, rtol=0, atol=1e-5)
    assert isinstance(seen(random_rows(np.random.default_rng(0), 5), np.ones(5), np.ones(5), "sparse").X, Curved)
    assert sparse.issparse(with_gaps_stored(rows.X))
