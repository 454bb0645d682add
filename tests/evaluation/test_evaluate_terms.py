"""What one held-out row can move: every sum of an evaluation, against odd cells, null rows and whole persons."""

from __future__ import annotations

import copy
import math
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from scipy.spatial.distance import cdist

import dperm
from dperm.evaluation import terms as of
from dperm.evaluation.evaluate import evaluate, program
from dperm.evaluation.held import scoring
from dperm.evaluation.plan import SHARES, Question, bin_edges, clip_of, plan_evaluation, term_of
from dperm.evaluation.rows import question_of, scored_rows
from dperm.mechanisms import Gradient
from dperm.privacy import gaussian_mu
from dperm.release.driver import run
from dperm.release.noise import RELEASE_SLACK, SeededNoise
from dperm.release.plan import Shape, Target
from dperm.rows.base import Block, sum_step
from dperm.rows.memory import MemoryRows
from dperm.rows.packed import Layout
from dperm.rows.pieces import Recipe
from dperm.rows.spark_made import SparkTable
from dperm.rows.spark_tasks import Encode
from dperm.tables.persons import person_weights

ODD = [math.nan, math.inf, -math.inf, -1.0, -0.3, 0.0, 0.05, 0.1, 0.5, 0.9, 1.0, 2.0, 1e300]
TERMS = {
    "grid": of.ScoreGrid(),
    "residuals": of.ResidualSizes(),
    "targets": of.TargetSizes(centre=0.3),
    "sizes": of.CountSizes(),
    "deviances": of.DevianceSizes(top=64.0, rate=0.01),
    "answers": of.Answers(2, True),
    "labels": of.Answers(2, False),
    "scores": of.Scores((0, 60, 128, 200, 256)),
    "centre": of.Centre(),
    "moments": of.Moments(0.1, 0.05, 0.2),
    "rates": of.Rates(0.1),
    "count moments": of.CountMoments(0.05, 1e-4, 0.01),
    "confusion": of.Confusion(4, 2),
    "group sizes": of.GroupSizes(4),
    "centres": of.Grouped((of.Centre(),) * 2),
    "answers by group": of.Grouped((of.Answers(2, True),) * 3),
    "confusion by group": of.Grouped((of.Confusion(4, 2),) * 3),
    "moments by group": of.Grouped((of.Moments(0.1, 0.05, 0.2), of.Moments(0.1, -0.3, 0.2))),
    "count moments by group": of.Grouped((of.CountMoments(0.05, 1e-4, 0.01),) * 3),
}


def added(term: of.RowTerm, row: np.ndarray | None) -> np.ndarray:
    """What one row adds to the sum; a row of weight 0 for None."""
    X = np.zeros((1, 6)) if row is None else np.asarray(row, dtype=float).reshape(1, 6)
    return term(Block(X, np.zeros(1), np.array([0.0 if row is None else 1.0]), 0))


def candidates(generator: np.random.Generator) -> list[np.ndarray | None]:
    """Rows of odd numbers, rows at the borders of the bins of `Scores`, and a null row."""
    borders = of.grid_edges()[[0, 60, 128, 200, 256]]
    chances = np.concatenate([borders, np.nextafter(borders, 0), np.nextafter(borders, 1), generator.uniform(0, 1, 20), ODD])
    rows: list[np.ndarray] = [generator.choice(ODD, 4) for _ in range(220)]
    rows += [np.append(generator.integers(0, 2, 3), p) for p in chances]
    rows += [np.append(generator.uniform(-1, 1, 2), [0.5, 0.5]) for _ in range(40)]
    rows += [np.array([1.0, 1.0, 1.0, 1.0]), np.array([0.9, 0.1, 0.0, 0.0]), np.array([0.0, 0.0, 0.0, 0.0])]
    ends = generator.choice([*ODD, 1.0, 0.0, 1.0, 2.0], (len(rows), 2))
    apart = [np.append(row, pair) for row in (np.ones(4), np.array([1.0, 0.0, 1.0, 1.0])) for pair in ([0, 0], [0, 1], [1, 0])]
    return [*(np.append(row, pair) for row, pair in zip(rows, ends)), *apart, None]


@pytest.mark.parametrize("relation", ["replace-one", "zero-out", "add-remove"])
@pytest.mark.parametrize("name", TERMS)
def test_one_row_moves_a_sum_by_its_stated_bound_and_by_no_more(name, relation, generator):
    """Fails if a stated sensitivity is halved (the search exceeds it) or doubled (the search stays far below it)."""
    term = TERMS[name]
    rows = np.stack([added(term, row) for row in candidates(generator)])
    others = rows if relation == "replace-one" else added(term, None)[None]
    worst, stated = float(cdist(rows, others).max()), term.sensitivity(relation)
    assert 0.97 * stated <= worst <= stated * (1 + 1e-9), (worst, stated)
    assert np.abs(rows).max() <= term.row_bound


def test_every_stage_has_the_noise_of_its_sensitivity_and_the_stages_cost_the_target():
    """Σ (Δ_k·k/scale_k)² is μ² less the slack; halved noise or doubled sensitivities would be off by a factor of 4."""
    questions = (Question("binary", 2, True), Question("binary", 2, False), Question("multiclass", 3, True))
    labels = {"labels": ("a", "b", "c"), "by": "g", "groups": ("x", "y")}
    questions = (*questions, Question("multiclass", 3, True, **labels), Question("regression", by="g", groups=("x", "y", "z")))
    for question in (*questions, Question("regression", low=-1.0, high=4.0), Question("counts", high=60.0, max_exposure=2.0)):
        for relation in ("replace-one", "zero-out", "add-remove"):
            target = Target.declare(epsilon=0.7, delta=1e-6, n=1000, relation=relation, rows_per_person=3)
            plan = plan_evaluation(question, Shape(1000, 3), target)
            assert 0.7 * (1 - 1e-6) <= plan.guarantee.epsilon(1e-6) <= 0.7
            decided = {"edges": (0, 128, 256), "centre": 0.0, "clip": 0.1, "spread": 0.1, "size": 0.1, "rate": 0.1}
            spent = 0.0
            for stage in plan.stages:
                term = term_of(question, stage.name, decided)
                spent += (3 * term.sensitivity(relation) / stage.settings["scale"]) ** 2
            assert spent * RELEASE_SLACK**2 == pytest.approx(gaussian_mu(0.7, 1e-6) ** 2, rel=1e-9)
    assert all(sum(shares.values()) == pytest.approx(1.0) for shares in SHARES.values())


def test_the_noise_drawn_has_the_stated_scale():
    """400 draws per stage of 3 or more numbers: a deviation 15 % off has probability < 1e-9."""
    question = Question("regression", low=0.0, high=1.0)
    plan = plan_evaluation(question, Shape(50, 1), Target.declare(epsilon=1.0, delta=1e-6, n=50))
    rows, noise = MemoryRows(np.zeros((50, 2)), np.zeros(50), np.ones(50)), SeededNoise(5)
    drawn = [run(program(plan, question), plan, rows, noise).released for _ in range(400)]
    for stage in plan.stages:
        spread = np.std([one[stage.name] for one in drawn], axis=0).mean()
        assert spread == pytest.approx(stage.settings["scale"], rel=0.15)


@pytest.fixture(scope="module")
def models():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (600, 2))
    common = {"bounds": (-1, 1), "epsilon": 5, "method": Gradient(steps=5), "random_state": 0}
    y = (X[:, 0] > 0).astype(int)
    return X, {
        "binary": (dperm.LogisticRegression(classes=[0, 1], **common).fit(X, y), y),
        "classes": (dperm.LogisticRegression(classes=[0, 1, 2], **common).fit(X, y + (X[:, 1] > 0)), y + (X[:, 1] > 0)),
        "margins": (dperm.LinearSVC(classes=[0, 1], **common).fit(X, y), y),
        "regression": (dperm.LinearRegression(y_bounds=(-2, 2), **common).fit(X, X[:, 0]), X[:, 0]),
        "counts": (dperm.PoissonRegressor(y_bounds=(0, 9), bounds=(-1, 1), epsilon=5, random_state=0).fit(X, y), y),
    }


def sums_of(model, X, y, groups=None, limit=None, decided=None):
    """Exact sums of every stage through the same path as `evaluate`, and what was decided on the way."""
    question = question_of(model)
    rows, known = scored_rows(model, question, X, y)
    weight, k = person_weights(groups, limit, known, len(known))
    plan = plan_evaluation(question, Shape(len(rows), 2), Target.declare(epsilon=1.0, n=len(rows), rows_per_person=k))
    held = MemoryRows(rows, known, weight)
    if decided is None:
        decided = run(program(plan, question), plan, held, SeededNoise(1)).decided
    terms = {stage.name: term_of(question, stage.name, decided) for stage in plan.stages}
    return {name: held.sum(term, sum_step(1.0, len(rows))) for name, term in terms.items()}, terms, decided, k


ODD_ROWS = [(math.nan, math.nan), (math.inf, -math.inf), (1e300, 0.0), (0.3, -0.2)]
ODD_LABELS = [math.nan, math.inf, -math.inf, 1e300, 7, 0, 1]


@pytest.mark.parametrize("kind", ["binary", "classes", "margins", "regression", "counts"])
def test_one_changed_row_moves_all_sums_of_a_model_by_one_rows_worth(models, kind):
    X, fitted = models
    model, y = fitted[kind]
    y = np.asarray(y, dtype=float)
    before, terms, decided, _ = sums_of(model, X, y)
    for row in ODD_ROWS:
        for label in ODD_LABELS:
            X2, y2 = X.copy(), y.copy()
            X2[7], y2[7] = row, label
            after, *_ = sums_of(model, X2, y2, decided=decided)
            for name, term in terms.items():
                assert np.linalg.norm(after[name] - before[name]) <= term.sensitivity("replace-one") * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["binary", "regression", "counts"])
def test_a_person_with_more_rows_than_count_moves_the_sums_by_k_rows(models, kind):
    X, fitted = models
    model, y = fitted[kind]
    y = np.asarray(y, dtype=float)
    groups = np.arange(len(X)) // 5
    before, terms, decided, k = sums_of(model, X, y, groups, 2)
    X2, y2 = X.copy(), y.copy()
    X2[10:15], y2[10:15] = -X2[10:15], [1.0, 0.0, math.nan, 1.0, 0.0]
    after, *_ = sums_of(model, X2, y2, groups, 2, decided)
    assert k == 2
    for name, term in terms.items():
        assert np.linalg.norm(after[name] - before[name]) <= k * term.sensitivity("replace-one") * (1 + 1e-9)


def test_predictions_that_are_no_numbers_stop_nothing(models):
    X, fitted = models
    for kind in ("binary", "margins", "regression", "counts"):
        model, y = fitted[kind]
        broken = copy.copy(model)
        broken.w_ = np.full_like(np.asarray(model.w_), math.nan)
        with np.errstate(invalid="ignore"):
            assert evaluate(broken, X, y, epsilon=1, random_state=0).verify(allow_seeded=True).ok


def test_the_clip_follows_the_residuals_and_is_the_top_where_noise_hides_them():
    """Exact counts of 10,000 normal sizes of deviation 0.01; then noise alone, which must not pass for rows."""
    rng = np.random.default_rng(0)
    sizes = np.column_stack([0.01 * rng.standard_normal(10_000), np.zeros((10_000, 3))])
    counts = of.ResidualSizes()(Block(sizes, np.zeros(10_000), None, 0))
    assert 0.03 < clip_of(counts, 1.0, 5.0, 5.0) < 0.1
    blind = [clip_of(30.0 * rng.standard_normal(of.OCTAVES), 1.0, 30.0, 30.0) for _ in range(2000)]
    assert np.mean(np.array(blind) == 1.0) > 0.995


def test_bins_hold_equally_many_rows_where_they_can():
    rng = np.random.default_rng(0)
    rows = np.column_stack([np.zeros((20_000, 3)), rng.beta(1, 60, 20_000)])
    counts = of.ScoreGrid()(Block(rows, np.zeros(20_000), None, 0))
    edges = bin_edges(counts, 10, 1.0)
    held = np.add.reduceat(counts, edges[:-1])
    assert edges[0] == 0 and edges[-1] == of.GRID and held.min() > 500 and held.max() < 4000
    assert bin_edges(np.zeros(of.GRID), 4, 10.0) == [0, 64, 128, 192, 256]
    assert all(np.diff(bin_edges(30 * rng.standard_normal(of.GRID), 200, 1e-3)) >= 1)


def turns(model, X, y, people) -> list[bytes]:
    """The turn of every row among those of its person, as an executor of Spark decides it for one batch of rows."""
    types = [*((str(place), "double") for place in range(X.shape[1])), ("t", "bigint"), ("who", "bigint")]
    table = SparkTable(SimpleNamespace(columns=[name for name, _ in types], dtypes=types), None, "t", "who", 2)
    made = scoring(model, question_of(model), table, "t", None, None)
    recipe = Recipe(None, made.columns, person="who", max_rows_per_person=2)
    columns = [*X.T, y, people, np.zeros(len(y), dtype=np.int64)]
    batch = pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=[*map(str, range(len(columns)))])
    packed = Encode(recipe, made, Layout(made.d, recipe.dtype, False))(iter([batch]))
    return [turn for part in packed for turn in part.column("turn").to_pylist()]


def test_which_rows_of_a_person_are_scored_on_spark_does_not_follow_from_the_rows_beside_them():
    """If last bits that other rows of the batch have a hand in decided which k rows count, one person would move the rows of many
    others, and no k would bound that."""
    generator = np.random.default_rng(0)
    X, y, people = generator.normal(size=(400, 64)), generator.integers(0, 5, 400), np.arange(400) // 5
    model = dperm.EmbeddingClassifier(5.0, 1e-6, classes=list(range(5)), steps=3, random_state=0).fit(X, y)
    whole = turns(model, X, y, people)
    assert len(set(whole)) == 400
    for gone in (slice(0, 5), slice(200, 205), slice(395, 400), slice(200, 400)):
        kept = np.delete(np.arange(400), gone)
        assert turns(model, X[kept], y[kept], people[kept]) == [whole[row] for row in kept]
