"""What a row adds is a function of that row alone: order, partitions, threads and engines give the same bits, and one changed row
moves every sum by at most its declared bound, to 1e-9 of it."""

from __future__ import annotations

import sys
import threading
import time
import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from threadpoolctl import threadpool_limits

import dperm
from dperm.evaluation.terms import Answers, CountMoments, Moments, Scores
from dperm.mechanisms.exponential.quantile import HistogramTerm
from dperm.mechanisms.mean import SumTerm
from dperm.mechanisms.scaled.poisson_counts import Balance, Caps, ExposedResiduals
from dperm.mechanisms.scaled.poisson_settings import CountGradient, CountResiduals, CountSum
from dperm.mechanisms.scaled.quantile import PinballGradient
from dperm.mechanisms.zeroth import TwoPointTerm
from dperm.privacy import RELATIONS
from dperm.problem import DataBounds, HuberLoss, Interval, LogisticLoss, MultinomialLoss, SquaredLoss
from dperm.rows import BLOCK_ROWS, ArrowRows, MemoryRows, sum_step
from dperm.rows.base import Block, block_counts, innermost, real_sum, split_whole, total_counts, total_of
from dperm.rows.exact import Amounts, Pair, Paired, product
from dperm.rows.recoded import RecodedTerm
from dperm.tables.schema import Schema
from dperm.terms.additive import PLACES, CellFilling, CurveFeatures, Curving, Level, Marginals, Recalibration
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm, UnclippedGradientTerm
from dperm.terms.gridded import Pulled, SparseGrid, gridded, on_grid
from dperm.terms.inference import (
    CountScore,
    CurvatureMatrix,
    LogisticScore,
    QuantileScore,
    ResidualScore,
    ScaleNumbers,
    ScoreMatrix,
    ScoreSum,
)
from dperm.terms.moments import CrossTerm, GramTerm, InformationTerm
from dperm.terms.network import Inputs, Layout, NetworkGradient, RowMap, SecondMoments
from dperm.terms.objective import CappedGradientTerm, WeightedRows
from dperm.terms.selection import CentredLabelSum, CorrelationTerm
from dperm.terms.statistics import (
    LabelSum,
    LogHistogram,
    Residuals,
    RowCount,
    RowNorms,
    RowSum,
    SquareNorms,
    SquareSum,
    WeightedGradientTerm,
)

D, N = 6, 2 * BLOCK_ROWS + 700
W = np.linspace(-1.3, 1.1, D + 1)
SHIFT, SCALE = np.linspace(-0.3, 0.2, D), np.geomspace(0.3, 40, D)
MAPPED = Features(1.0, SHIFT, SCALE)
CENTRED = Features(shift=SHIFT)
SCALED = Features(shift=SHIFT, scale=SCALE)
PLAIN = Features(1.0)
BOUNDS = DataBounds(1.0, Interval(-1.0, 1.0), 1.0)
INPUTS = Inputs(RowMap(False, 1.0), np.eye(D)[:, :3] * 4, 4.0)
CURVES = CurveFeatures(1.0, SHIFT, SCALE, np.sin(np.arange(2.0 * PLACES * 3)).reshape(2, PLACES, 3) * 2)
CURVED_W = np.linspace(-0.7, 0.9, CURVES.width(D))
COUNTED = CountScore(PLAIN, W, 1.5, 0.3, -6.0, 2.0, heaviest=1.5)


def curved(term: Any) -> RecodedTerm:
    """The term on rows as an additive model sees them."""
    return RecodedTerm(RecodedTerm(term, Curving()), CellFilling(np.full(D, 0.1), (0, 2), (0,)))


# Everything that a program may ask a noisy sum of, for labels -1 and 1, and rows of norm ≤ 1.
TERMS: dict[str, Any] = {
    "gradient": GradientTerm(LogisticLoss(), W, 0.3, PLAIN),
    "mapped gradient": GradientTerm(HuberLoss(0.5), W, 0.3, MAPPED),
    "weighted gradient": WeightedGradientTerm(SquaredLoss(), W, 0.3, MAPPED, max_weight=1.5),
    "unclipped gradient": UnclippedGradientTerm(LogisticLoss(), W, 2.0, PLAIN),
    "capped gradient": CappedGradientTerm(WeightedRows(LogisticLoss(), PLAIN, 0.8, 1.2, 1.0, 0.25, 1.5), W),
    "row sum": RowSum(0.7),
    "square sum": SquareSum(CENTRED, 0.8),
    "square sum of a wide table": SquareSum(CENTRED, 0.8, most=0.3),
    "square sum in a first scale": SquareSum(SCALED, 5.0, most=9.0),
    "square norms": LogHistogram(SquareNorms(CENTRED, 0.8), 0.64),
    "square norms in a first scale": LogHistogram(SquareNorms(SCALED, 5.0), 25.0),
    "row norms": LogHistogram(RowNorms(CENTRED), 2.0),
    "residuals": LogHistogram(Residuals(PLAIN, W), 2.0),
    "label sum": LabelSum(-1.0, 1.0),
    "gram": GramTerm(PLAIN, 1.5, target_scale=0.5, max_weight=1.5),
    "cross": CrossTerm(PLAIN, 1.5, 1.0, max_weight=1.5),
    "information": InformationTerm(LogisticLoss(), W, PLAIN, 1.5, 0.25),
    "pinball": PinballGradient(MAPPED, W, 0.7, 0.1, 0.9, 1.5),
    "count gradient": CountGradient(CountResiduals(PLAIN, W, 0.5, -2.0, 2.0, 1.5), 0.4),
    "count sum": CountSum(0.8, 1.5),
    "balance": Balance(ExposedResiduals(PLAIN, W, 0.4, 0.6, -2.0, 2.0, 1.5, 2.5), Caps(0.9, 0.7)),
    "two points": TwoPointTerm(LogisticLoss(), W, W[::-1] / 2, 0.1, 0.5, PLAIN),
    "centred labels": CentredLabelSum(0.2, 0.6),
    "correlation": CorrelationTerm(np.full(D, 0.5), 0.1, 0.8, 0.05, 1.5),
    "sum": SumTerm(Features(0.5), 1.0),
    "histogram": HistogramTerm(-1.0, 1.0, 16),
    "moments of a network": SecondMoments(RowMap(True, 1.0)),
    "row count": RowCount(),
    "marginals": Marginals((0, 2), (0,)),
    "curved gradient": curved(GradientTerm(LogisticLoss(), CURVED_W, 0.3, CURVES)),
    "curved weighted gradient": curved(WeightedGradientTerm(SquaredLoss(), CURVED_W, 0.3, CURVES, max_weight=1.5)),
    "curved residuals": curved(LogHistogram(Residuals(CURVES, CURVED_W), 2.0)),
    "recalibration": curved(Recalibration(CURVES, CURVED_W, 0.3, 0.4, 0.5)),
    "level": curved(Level(CURVES, CURVED_W, 0.5)),
    "scores": ScoreSum(LogisticScore(MAPPED, W, 0.2), 1.3),
    "scores of counts": ScoreSum(COUNTED, 1.3),
    "curvature": CurvatureMatrix(QuantileScore(PLAIN, W, 0.8, 0.3), 1.3),
    "curvature of counts": CurvatureMatrix(COUNTED, 1.3),
    "squared scores": ScoreMatrix(ResidualScore(MAPPED, W, 0.7), 1.3),
    "scale numbers": ScaleNumbers(ResidualScore(PLAIN, W, 0.7), 1.3),
    "network": NetworkGradient(INPUTS, Layout(3, 4, 2), np.linspace(-1, 1, 26), 0.3),
}
SQUARES = [name for name, term in TERMS.items() if isinstance(term, SquareSum)]


def draw(n: int = N, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n, D)) * generator.random((n, D)) ** 3
    X[generator.random((n, D)) < 0.3] = 0.0
    return X, np.where(generator.random(n) < 0.5, 1.0, -1.0), generator.uniform(0, 2, n)


def labels_for(name: str, y: np.ndarray) -> np.ndarray:
    return (y > 0).astype(np.int64) if name == "network" else y


def in_memory(name: str, X: Any, y: np.ndarray, weight: np.ndarray, dtype: str = "float64") -> bytes:
    stored = sparse.csr_array(X) if dtype == "sparse" else X.astype(dtype)
    term = TERMS[name]
    rows = MemoryRows(stored, labels_for(name, y), weight).bounded(BOUNDS)
    return rows.sum(term, sum_step(term.row_bound, len(y))).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64", "sparse"])
@pytest.mark.parametrize("name", sorted(TERMS))
def test_order_and_threads_cannot_change_a_bit(name: str, dtype: str) -> None:
    assert isinstance(innermost(TERMS[name]), Paired)
    X, y, weight = draw()
    expected = in_memory(name, X, y, weight, dtype)
    for seed in (1, 2):
        order = np.random.default_rng(seed).permutation(N)
        assert in_memory(name, X[order], y[order], weight[order], dtype) == expected
    with threadpool_limits(8):
        assert in_memory(name, X, y, weight, dtype) == expected


@pytest.mark.parametrize("name", sorted(TERMS))
def test_blocks_of_any_length_give_the_same_integers(name: str) -> None:
    """Cut anywhere, even row by row: the integers add up to the same total."""
    X, y, weight = draw(300)
    X, y = BOUNDS.enforce(X, labels_for(name, y))
    term = TERMS[name]

    def total(cuts: list[int]) -> np.ndarray:
        blocks = [Block(X[a:b].copy(), y[a:b], weight[a:b], a) for a, b in zip([0, *cuts], [*cuts, len(y)])]
        return real_sum(term, total_of([block_counts(term, block, 1.0) for block in blocks]), 1.0)

    whole = total([])
    assert whole.tobytes() == total([1, 7, 100, 101, 299]).tobytes() == total(list(range(1, 300))).tobytes()
    assert np.any(whole)


@pytest.mark.parametrize("dtype", ["float32", "float64", "sparse"])
@pytest.mark.parametrize("name", sorted(TERMS))
def test_a_removed_row_moves_the_sum_by_itself(name: str, dtype: str) -> None:
    """Add-remove: all later rows stand elsewhere then, and add what they added before, to the last integer."""
    X, y, weight = draw()
    y, term = labels_for(name, y), TERMS[name]
    stored = sparse.csr_array(X) if dtype == "sparse" else X.astype(dtype)

    def counts(part: slice) -> list[int]:
        rows = MemoryRows(stored[part], y[part], weight[part]).bounded(BOUNDS)
        high, low = total_of([block_counts(term, block, 1.0) for block in rows.blocks()])
        return [int(a) * 2**32 + int(b) for a, b in zip(high, low)]

    whole, rest, first = (counts(part) for part in (slice(None), slice(1, None), slice(0, 1)))
    # A count of sparse blocks, which is no sum over rows.
    flags = 1 if isinstance(innermost(term), Pulled | SquareSum) else 0
    size = len(whole) - flags
    assert [a - b for a, b in zip(whole, rest)][:size] == first[:size]


@pytest.mark.parametrize("stored", ["float64", "float32", "sparse"])
@pytest.mark.parametrize("pieces", [1, 4, 7])
def test_partitions_and_engines_cannot_change_a_bit(pieces: int, stored: str, tmp_path: Any) -> None:
    da = pytest.importorskip("dask.array", reason="rows on a cluster need dask: pip install dperm[dask]")
    X, y, _ = draw()
    X = np.maximum(X, 0) if stored == "sparse" else X
    X = np.clip(X, -1, 1).astype("float64" if stored == "sparse" else stored)
    names = [f"x{j}" for j in range(D)]
    numeric = {"type": "sparse", "high": 1} if stored == "sparse" else {"type": "numeric", "low": -1, "high": 1}
    classes = {"column": "y", "type": "classes", "classes": [-1, 1]}
    declared = Schema.from_dict({"columns": {name: numeric for name in names}, "target": classes})
    table = pa.table({name: X[:, j] for j, name in enumerate(names)} | {"y": y})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=-(-N // pieces))
    cuts = -(-N // pieces)
    encoded = X * X.dtype.type(declared.encoding().transform(np.ones((1, D)))[0, 0])
    bounds = DataBounds(2.0, Interval(-1.0, 1.0), 1.0)
    kept = sparse.csr_array(encoded) if stored == "sparse" else encoded
    cluster = da.from_array(encoded, (cuts, D))
    cluster = cluster.map_blocks(sparse.csr_matrix) if stored == "sparse" else cluster
    for name in ("gradient", "mapped gradient", "row sum", "square sum", "gram", "information"):
        term = TERMS[name]
        step = sum_step(term.row_bound, N)
        expected = MemoryRows(kept, y, np.ones(N)).bounded(bounds).sum(term, step).tobytes()
        arrow = ArrowRows(tmp_path / "rows.parquet", declared).bounded(bounds)
        assert arrow.sum(term, step).tobytes() == expected, name
        dask = dperm.rows.DaskRows(cluster, da.from_array(y, cuts), da.from_array(np.ones(N), cuts))
        assert dask.bounded(bounds).sum(term, step).tobytes() == expected, name


def test_many_classes_and_sparse_engines_agree_on_permuted_rows() -> None:
    X, _, weight = draw()
    y = np.random.default_rng(3).integers(0, 3, N)
    term = GradientTerm(MultinomialLoss(classes=3), np.linspace(-1, 1, 3 * (D + 1)), 0.3, MAPPED)
    order = np.random.default_rng(4).permutation(N)
    bounds = DataBounds(1.0, Interval(0, 2), 1.0)
    for stored in (X, X.astype(np.float32), sparse.csr_array(X)):
        one = MemoryRows(stored, y, weight).bounded(bounds).sum(term, 1.0)
        other = MemoryRows(stored[order], y[order], weight[order]).bounded(bounds).sum(term, 1.0)
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("estimator", ["logistic", "linear", "quantile", "poisson", "mean"])
def test_seeded_fits_on_permuted_rows_are_the_same_bits(estimator: str, relation: str) -> None:
    """Fits by noisy sums (a whole solve is exact to its certified tolerance instead)."""
    X, y, _ = draw(3000)
    common: dict[str, Any] = {"epsilon": 2.0, "random_state": 0, "relation": relation, "bounds": (-1, 1)}
    common |= {"nominal_n": 3000} if relation == "add-remove" else {}
    made = {
        "logistic": partial(dperm.LogisticRegression, classes=[-1, 1], method="scaled-gradient"),
        "linear": partial(dperm.LinearRegression, y_bounds=(-1, 1)),
        "quantile": partial(dperm.QuantileRegressor, y_bounds=(-1, 1)),
        "poisson": partial(dperm.PoissonRegressor, y_bounds=(0, 4)),
        "mean": dperm.MeanEstimator,
    }[estimator]
    if estimator == "poisson":
        y = np.random.default_rng(1).poisson(1.0, 3000).astype(float)
    order = np.random.default_rng(5).permutation(3000)
    for dtype in ("float64", "float32"):
        fits = [made(**common).fit(X[part].astype(dtype), y[part]) for part in (slice(None), order)]
        assert np.asarray(fits[0].release_.w).tobytes() == np.asarray(fits[1].release_.w).tobytes()


BORDERS = [0.0, 0.5, 2.0**-20, 2.0**-21, 1 - 2.0**-20, 1 + 2.0**-52]  # of the grids
EDGE = st.sampled_from([*BORDERS, 1.0, -1.0, 3.0, 1e9, 1e-9, 1e-300, np.nan, np.inf])
NUMBER = st.one_of(EDGE, st.floats(-3, 3, allow_nan=False))


def moved(term: Any, rows: list[Block]) -> float:
    """‖t(row) - t(other row)‖, from the exact integers: a difference of totals is one of integers before it is one of floats."""
    one, other = (split_whole(counts_of(term, row)) for row in rows)
    difference = (one[0] - other[0]).astype(innermost(term).precision) * 2**32 + (one[1] - other[1])
    if len(difference) and isinstance(innermost(term), Pulled):  # the mark of sparse blocks is the same on both sides
        difference[-1] = np.sign(split_whole(counts_of(term, rows[0]))[1][-1])
    return float(np.linalg.norm(np.asarray(innermost(term).units(difference), dtype=np.float64)))


def counts_of(term: Any, block: Block) -> np.ndarray:
    high, low = block_counts(term, block, 1.0)
    return high * 2**32 + low


BOUNDED = sorted(set(TERMS) - {"unclipped gradient", *SQUARES})


@pytest.mark.parametrize("stored", ["dense", "sparse"])
@pytest.mark.parametrize("name", BOUNDED)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_one_row_moves_a_sum_by_at_most_its_bound(name: str, stored: str, data: Any) -> None:
    term = TERMS[name]
    rows = []
    for _ in range(2):
        x = np.array([data.draw(st.lists(NUMBER, min_size=D, max_size=D))])
        y = np.array([data.draw(st.sampled_from([-1.0, 1.0]))])
        X, y = BOUNDS.enforce(sparse.csr_array(x) if stored == "sparse" else x, labels_for(name, y))
        rows.append(Block(X, y, np.array([data.draw(st.sampled_from([0.0, 0.5, 1.0, 1.5, 1e9]))]), 0))
    assert moved(term, rows) <= term.sensitivity("replace-one") * (1 + 1e-9)
    for row in rows:
        null = Block(row.X, row.y, np.zeros(1), 0)
        assert moved(term, [row, null]) <= term.sensitivity("zero-out") * (1 + 1e-9)


@pytest.mark.parametrize("name", SQUARES)
@pytest.mark.parametrize("stored", ["dense", "sparse"])
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_squares_of_one_row_stay_inside_their_bound(stored: str, name: str, data: Any) -> None:
    term = TERMS[name]
    sums = []
    for _ in range(2):
        x = np.array([data.draw(st.lists(NUMBER, min_size=D, max_size=D))])
        X, y = BOUNDS.enforce(sparse.csr_array(x) if stored == "sparse" else x, np.ones(1))
        sums.append(term(Block(X, y, np.ones(1), 0)))
    assert np.linalg.norm(sums[0] - sums[1]) <= term.sensitivity("replace-one") * (1 + 1e-9)
    assert np.linalg.norm(sums[0]) <= term.sensitivity("zero-out") * (1 + 1e-9)


@pytest.mark.parametrize(
    "term", [Answers(3, True), Scores((0, 100, 200, 256)), Moments(0.5, 0.1, 0.4), CountMoments(0.5, 0.3, 0.6)], ids=repr
)
def test_evaluations_on_permuted_rows(term: Any) -> None:
    generator = np.random.default_rng(0)
    X = generator.random((5000, 4))
    order = generator.permutation(5000)
    one, other = (MemoryRows(part, np.ones(5000)).sum(term, 1.0) for part in (X, X[order]))
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("name", ["gradient", "mapped gradient", "row sum", *SQUARES, "correlation"])
def test_entries_that_are_stored_in_parts_count_once(name: str) -> None:
    """1 = ½ + ½: were each part squared alone, the norm would be too small and the row longer than its bound."""
    parts = sparse.csr_array((np.array([0.5, 0.5, 0.3]), np.array([1, 1, 4]), np.array([0, 3])), shape=(1, D))
    once = sparse.csr_array(parts.toarray())
    term = TERMS[name]
    sums = [term(Block(X, np.ones(1), np.ones(1), 0)) for X in (parts, once)]
    assert sums[0].tobytes() == sums[1].tobytes() and np.any(sums[0])


@pytest.mark.parametrize("stored", ["dense", "sparse"])
def test_far_more_rows_than_nominal_do_not_overflow(stored: str) -> None:
    """3,000 times the nominal n of full-length rows, by adding a full block's own integers as often: the total is exact."""
    x = np.zeros((BLOCK_ROWS, 2))
    x[:, 0] = 1.0
    X = sparse.csr_array(x) if stored == "sparse" else x
    term = GradientTerm(LogisticLoss(), np.array([-50.0, 0.0]), 0.4, Features())
    counts = block_counts(term, Block(X, np.ones(BLOCK_ROWS), None, 0), 1.0)
    total = total_of([counts] * 3000)
    assert real_sum(term, total, 1.0)[0] == pytest.approx(-0.4 * 3000 * BLOCK_ROWS, rel=1e-8)


@pytest.mark.parametrize("n", [10**7, 10**12])
def test_squares_far_from_their_centre_are_exact_for_any_number_of_rows(n: int) -> None:
    """Σ(x - m)² of sparse rows is a small difference of large totals: one row among n still moves it by no more than its bound.

    Long double rounds off 0.03 of the bound at 10¹⁰ rows, and at 10⁷ on machines where it has 53 bits.
    """
    term = SquareSum(Features(shift=np.array([250.0, 0.0])), 0.1)
    few, one = ([int(a) * 2**32 + int(b) for a, b in zip(*block_counts(term, square_block(x), 1.0))] for x in (250.003, 250.1))

    def total(copies: int) -> np.ndarray:
        counts = [copies * a + b for a, b in zip(few, one)]
        return real_sum(term, np.array([[c // 2**32 for c in counts], [c % 2**32 for c in counts]]), 1.0)

    alone = total(0)
    assert alone[0] == pytest.approx(0.01, rel=1e-3)
    each = (total(1000) - alone)[0] / 1000
    assert each == pytest.approx(0.003**2, rel=1e-2)
    assert abs(total(n)[0] - n * each - alone[0]) <= 1e-15 * n * each + 1e-6 * alone[0]


def square_block(x: float) -> Block:
    return Block(sparse.csr_array([[x, 0.0]]), np.ones(1), np.ones(1), 0)


def test_blocks_that_add_without_a_carry_give_the_total_of_those_with_one() -> None:
    """The low limbs of 1,000 blocks pass 2³² many times over: Python's integers say what the total is."""
    generator = np.random.default_rng(5)
    X, y = generator.standard_normal((64, 3)), np.where(generator.random(64) < 0.5, 1.0, -1.0)
    term = GradientTerm(LogisticLoss(), np.array([1.0, -2.0, 0.5]), 0.4, Features())
    block = Block(X, y, None, 0)
    once = block_counts(term, block, 1.0).astype(object)
    total = total_counts([lambda: block] * 1000, term, 1.0)
    assert ((total.astype(object)[0] << 32) + total[1] == 1000 * ((once[0] << 32) + once[1])).all()
    assert (total[1] >= 0).all() and (total[1] < 2**32).all()


@pytest.mark.parametrize("columns", [1, 40])
def test_other_threads_go_on_while_a_block_is_multiplied(columns: int) -> None:
    """Threads take blocks: a product that keeps the interpreter to itself would let them wait for each other."""
    left, rows, ticks, done = np.ones((BLOCK_ROWS, columns)).squeeze(), np.ones((BLOCK_ROWS, 10)), [0], threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks[0] += 1
            time.sleep(0)

    before, ticking = sys.getswitchinterval(), threading.Thread(target=tick)
    sys.setswitchinterval(100.0)  # a thread goes on until it lets others in by itself
    try:
        ticking.start()
        while not ticks[0]:
            time.sleep(0)
        begun = ticks[0]
        for _ in range(20_000):
            product(Pair(left, rows))
            if ticks[0] > begun:
                break
        assert ticks[0] > begun
    finally:
        done.set()
        sys.setswitchinterval(before)
        ticking.join()


def test_sparse_rows_that_stay_on_their_grid_are_those_of_a_new_one() -> None:
    """Another map takes whole numbers over where it needs the same ones: nothing may depend on which map came before."""
    generator = np.random.default_rng(4)
    X = sparse.csr_array(np.where(generator.random((300, 9)) < 0.4, generator.standard_normal((300, 9)) * 3, 0))
    X.data[5], X.data[17] = np.nan, np.inf
    shift, scale = generator.standard_normal(9), generator.uniform(0.01, 4, 9)
    maps = [Features(), Features(1.0, shift), Features(0.5, shift, scale), Features(0.0, None, scale), Features(), Features(2.0)]
    block = Block(X, np.ones(300), None, 0)
    for features in [*maps, *reversed(maps)]:
        kept, fresh = gridded(block, features), SparseGrid.of(X, features)
        assert isinstance(kept, SparseGrid) and (kept.rows != fresh.rows).nnz == 0 and kept.features is features
        for name in ("size", "norm", "limit"):
            assert getattr(kept, name).tobytes() == getattr(fresh, name).tobytes(), name
        assert np.isfinite(kept.norm).all()


def test_large_weights_are_kept_once_on_their_grid():
    """Sixteen copies of the weights of 10,000 classes were gigabytes that stayed when the fit was done."""
    weights = np.ones((4, 1 << 17))
    tracemalloc.start()
    for size in range(1, 9):
        on_grid(weights * size, 2.0**30)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 3 * weights.nbytes
    small = np.arange(1.0, 4.0)
    assert on_grid(small, 2.0**30)[0] is on_grid(small.copy(), 2.0**30)[0]


def test_amounts_are_not_negative_whatever_a_term_says():
    """Amounts declare one row_bound under every relation: a number below 0 in place of one above would move the sum by two."""

    class Signed(Amounts):
        row_bound = 2.0

        def amounts(self, block: Block) -> np.ndarray:
            return np.asarray(block.y)

    sums = [Signed()(Block(np.zeros((1, 1)), np.array([y]), None, 0)) for y in (-np.inf, -1.5, np.nan, 0.5, np.inf)]
    np.testing.assert_array_equal(np.concatenate(sums), [0.0, 0.0, 0.0, 0.5, 2.0])
