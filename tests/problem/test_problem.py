"""Problems: constants of every combination, data bounds that become facts, feature maps, checkers, specs."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sparse

import dperm.problem
from dperm.problem import (
    AbsoluteLoss,
    Ball,
    Box,
    DataBounds,
    FeatureMap,
    HingeLoss,
    Interval,
    LogisticLoss,
    LossBounds,
    MultinomialLoss,
    Problem,
    Ridge,
    SquaredLoss,
    ZeroOneLoss,
    check_convexity,
    check_gradient,
    check_strong_convexity,
    range_from_lipschitz,
    squared_loss_constants,
    squared_loss_is_bounded,
    squared_loss_is_lipschitz,
)
from problem_cases import domains, losses, regularizers

DIMENSION = 3
DATA = DataBounds(x_norm=2.0, y=Interval(-1.0, 1.0), intercept=0.5)


def sample(loss, domain, data, count=100, seed=5):
    """Parameters spread over the domain (its rim included), rows at the full norm, labels at the ends."""
    rng = np.random.default_rng(seed)
    d = DIMENSION * loss.margins
    w = domain.project_rows(rng.normal(size=(count, d)) * 10 ** rng.uniform(-1, 1.5, size=(count, 1)))
    x = rng.normal(size=(count, DIMENSION))
    # Some rows along the parameters: the margins at which a bound is nearly attained.
    leading = w.reshape(count, loss.margins, DIMENSION)[:, 0, :]
    aligned = np.linalg.norm(leading, axis=1) > 1e-9
    aligned[::2] = False
    x[aligned] = leading[aligned] * rng.choice([-1, 1], size=(aligned.sum(), 1))
    x *= data.row_norm / np.linalg.norm(x, axis=1, keepdims=True)
    if loss.margins > 1:
        y = rng.integers(loss.margins, size=count)
    elif loss.classification:
        y = rng.choice([-1.0, 1.0], size=count)
    else:
        y = rng.choice([data.y.low, 0.5 * (data.y.low + data.y.high), data.y.high], size=count)
    return w, x, y


def margins(loss, w, x):
    if loss.margins > 1:
        return np.einsum("nkd,nd->nk", w.reshape(len(w), loss.margins, DIMENSION), x)
    return np.sum(w * x, axis=1)


def measured(problem, w, x, y):
    """Norms of gradients and Hessians, spreads of the loss between parameters for one record, largest margin."""
    loss = problem.loss
    z = margins(loss, w, x)
    other = margins(loss, np.roll(w, 1, axis=0), x)
    slope, curvature = loss.slope(z, y), loss.curvature(z, y)
    norm = np.linalg.norm(x, axis=1)
    if loss.margins > 1:
        slope, curvature = np.linalg.norm(slope, axis=1), np.linalg.eigvalsh(curvature)[:, -1]
        z = np.linalg.norm(z, axis=1)
    return {
        "lipschitz": np.max(np.abs(slope) * norm),
        "smoothness": np.max(np.abs(curvature) * norm**2),
        "loss_range": np.max(np.abs(loss.value(margins(loss, w, x), y) - loss.value(other, y))),
        "margin_max": np.max(np.abs(z)),
        "radius": np.max(np.linalg.norm(w, axis=1)),
        "diameter": np.max(np.linalg.norm(w - np.roll(w, 1, axis=0), axis=1)),
    }


@pytest.mark.parametrize("loss", losses(), ids=lambda item: json.dumps(item.spec()))
def test_constants_hold_for_every_combination(loss):
    """100 points for each loss × regularizer × domain, in as many parameters as the loss has margins."""
    combinations = 0
    for domain in domains(DIMENSION * loss.margins):
        w, x, y = sample(loss, domain, DATA)
        for regularizer in regularizers():
            problem = Problem(loss, regularizer, domain, DATA)
            constants = problem.constants
            for name, seen in measured(problem, w, x, y).items():
                limit = getattr(constants, name)
                assert seen <= limit * (1 + 1e-9) + 1e-9, (name, domain, seen, limit)
            u = np.roll(w, 1, axis=0)
            for a, b in zip(w, u):
                gap = 0.5 * regularizer.strong_convexity * (a - b) @ (a - b)
                rise = regularizer.value(a) - regularizer.value(b) - regularizer.gradient(b) @ (a - b)
                assert rise >= gap * (1 - 1e-9) - 1e-9
            assert constants.strong_convexity == regularizer.strong_convexity
            assert constants.hessian_rank == max(1, loss.margins - 1)
            combinations += 1
    assert combinations >= 5 * 13


@pytest.mark.parametrize("loss", [item for item in losses() if item.margins == 1], ids=lambda item: str(item.spec()))
def test_constants_are_attained_so_that_a_halved_one_fails(loss):
    """x along w at full length and w on the rim: the sharp cases of L = sup|φ'|·R, β = sup φ''·R², z = R·radius."""
    data = DataBounds(x_norm=math.sqrt(3.0), y=Interval(0.0, 1.0), intercept=1.0)
    problem = Problem(loss, domain=Ball(4.0), data=data)
    direction = np.array([0.6, 0.8, 0.0])
    reach = np.linspace(-4.0, 4.0, 20001)
    w, x = reach[:, None] * direction, np.tile(2.0 * direction, (reach.size, 1))
    labels = (-1.0, 1.0) if loss.classification else (0.0, 1.0)
    seen: dict[str, float] = {}
    for label in labels:
        for name, value in measured(problem, w, x, np.full(reach.size, label)).items():
            seen[name] = max(seen.get(name, 0.0), value)
    for name in ("lipschitz", "smoothness", "margin_max", "radius"):
        limit = getattr(problem.constants, name)
        if math.isfinite(limit):
            assert 0.99 * limit <= seen[name] <= limit * (1 + 1e-9), name


def test_formulas_on_known_problems():
    data = DataBounds(x_norm=3.0, y=Interval(-2.0, 1.0), intercept=4.0)
    squared = Problem(SquaredLoss(), Ridge(0.5), Ball(2.0), data).constants
    assert (squared.margin_max, squared.lipschitz, squared.smoothness) == (10.0, 5.0 * 12.0, 25.0)
    assert (squared.loss_range, squared.strong_convexity) == (72.0, 0.5)
    assert (squared.radius, squared.diameter, squared.hessian_rank) == (2.0, 4.0, 1)
    hinge = Problem(HingeLoss(), data=data, domain=Ball(0.01)).constants
    # 1 + margin = 1.05 directly, but along the domain only L·diameter = 5 · 0.02.
    assert hinge.loss_range == pytest.approx(0.1)
    assert math.isinf(hinge.smoothness)
    softmax = Problem(MultinomialLoss(4), data=data).constants
    assert softmax.lipschitz == pytest.approx(math.sqrt(2) * 5)
    assert (softmax.smoothness, softmax.hessian_rank) == (12.5, 3)


def test_unbounded_is_infinite_and_never_nan():
    data = DataBounds(math.inf, Interval(-math.inf, math.inf))
    for loss in losses():
        for bounds, domain in itertools.product((data, DATA, DataBounds(0.0, Interval(0, 1))), domains(DIMENSION)):
            constants = Problem(loss, domain=domain, data=bounds).constants
            assert not any(math.isnan(value) for value in vars(constants).values())
    assert Problem(SquaredLoss(), data=data).constants.lipschitz == math.inf
    assert Problem(ZeroOneLoss(), data=data).constants.loss_range == 1.0
    nothing = Problem(SquaredLoss(), data=DataBounds(0.0, Interval(-3, 3))).constants
    assert (nothing.margin_max, nothing.lipschitz, nothing.smoothness) == (0.0, 0.0, 0.0)


def test_softmax_hessian_has_the_stated_rank():
    loss = MultinomialLoss(4)
    curvature = loss.curvature(np.random.default_rng(0).normal(size=(50, 4)), np.zeros(50))
    assert set(np.linalg.matrix_rank(curvature, tol=1e-9)) == {Problem(loss, data=DATA).constants.hessian_rank}


def test_the_intercept_and_the_feature_map_are_counted():
    square = FeatureMap(lambda X: X**2, output_norm=3.0, output_dimension=2, name="square")
    data = DataBounds(100.0, Interval(-1, 1), intercept=4.0)
    problem = Problem(LogisticLoss(), data=data, feature_map=square)
    assert problem.row_norm == 5.0
    assert problem.constants.smoothness == 25.0 / 4
    features = square(np.array([[10.0, 1.0], [1.0, 0.5]]))
    assert np.all(np.linalg.norm(features, axis=1) <= 3.0)
    assert features[1].tolist() == [1.0, 0.25]


@pytest.mark.parametrize(
    "problem",
    [
        Problem(loss, regularizer, domain, DATA)
        for loss, regularizer, domain in zip(losses(), itertools.cycle(regularizers()), itertools.cycle(domains(3)))
    ],
    ids=lambda item: item.loss.name,
)
def test_spec_round_trip(problem):
    again = Problem.from_spec(json.loads(json.dumps(problem.spec(), allow_nan=False)))
    assert again == problem and again.constants == problem.constants
    json.dumps(problem.constants.spec(), allow_nan=False)


def test_spec_of_boxes_and_feature_maps():
    square = FeatureMap(lambda X: X**2, output_norm=3.0, output_dimension=2, name="square")
    data = DataBounds.box([-1.0, 0.0], [1.0, 2.0], Interval(0, math.inf), intercept=1.0)
    problem = Problem(SquaredLoss(), data=data, feature_map=square)
    again = Problem.from_spec(json.loads(json.dumps(problem.spec(), allow_nan=False)))
    assert again == problem and again.data.low == (-1.0, 0.0)
    with pytest.raises(ValueError, match="read from a spec"):
        again.feature_map(np.zeros((1, 2)))


# --- data bounds


def hostile(dtype):
    rng = np.random.default_rng(1)
    X = (rng.normal(size=(500, 6)) * 10 ** rng.uniform(-3, 3, size=(500, 1))).astype(dtype)
    X[rng.random(X.shape) < 0.3] = 0
    X[0] = np.finfo(dtype).max
    X[1] = [np.nan, np.inf, -np.inf, 0.1, 0, 0]
    X[2] = 0
    X[3] = np.finfo(dtype).tiny
    X[4] = [1.0, 0, 0, 0, 0, 0]
    return X


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("x_norm", [1.0, 0.1, 3.7, 0.0, 1e-6])
def test_rows_are_clipped_to_the_norm_and_no_further(dtype, form, x_norm):
    X = hostile(dtype)
    given = form(X)
    before = given.copy()
    result, y = DataBounds(x_norm, Interval(0, 1)).enforce(given)
    assert y is None and type(result) is type(given) and result.dtype == dtype
    dense = result.toarray() if sparse.issparse(result) else result
    if sparse.issparse(result):
        assert result.nnz <= before.nnz
        np.testing.assert_array_equal(given.toarray(), before.toarray())
    else:
        np.testing.assert_array_equal(given, before)
    # In the rows' own precision, and exactly: float64 sums of float32 rows, and fractions for a few.
    assert np.all(np.linalg.norm(dense, axis=1) <= dtype(x_norm) * (1 if dtype(x_norm) <= x_norm else 1 - 1e-7))
    assert np.all(np.linalg.norm(dense.astype(float), axis=1) <= x_norm)
    clean = np.where(np.isfinite(X), X, 0).astype(float)
    largest = np.maximum(np.abs(clean).max(axis=1, keepdims=True), 1e-300)
    with np.errstate(over="ignore"):  # the longest row's norm is infinite in floats, as it should be here
        norms = largest[:, 0] * np.linalg.norm(clean / largest, axis=1)
    fits = norms <= x_norm * (1 - 1e-5)
    np.testing.assert_array_equal(dense[fits], clean[fits].astype(dtype))
    if x_norm:
        # A row that was too long has the full norm, less rounding, and its old direction.
        np.testing.assert_allclose(np.linalg.norm(dense[norms > x_norm].astype(float), axis=1), x_norm, rtol=1e-5)
        direction = (clean / largest)[norms > x_norm]
        direction *= x_norm / np.linalg.norm(direction, axis=1, keepdims=True)
        np.testing.assert_allclose(dense[norms > x_norm], direction, rtol=2e-5, atol=1e-30)


def test_norms_hold_in_exact_arithmetic():
    from fractions import Fraction

    for dtype in (np.float32, np.float64):
        X, _ = DataBounds(0.1, Interval(0, 1)).enforce(hostile(dtype))
        for row in X[:100]:
            assert sum(Fraction(float(entry)) ** 2 for entry in row) <= Fraction(0.1) ** 2


def test_dense_and_sparse_agree():
    X = hostile(np.float64)
    bounds = DataBounds(1.3, Interval(0, 1))
    np.testing.assert_allclose(bounds.enforce(sparse.csr_array(X))[0].toarray(), bounds.enforce(X)[0], rtol=1e-12)


def test_each_row_is_clipped_by_itself():
    """Changing one row must change that row alone: otherwise one person would touch many terms of the sum."""
    X = hostile(np.float64)
    changed = X.copy()
    changed[5] = 1e9
    for form in (np.asarray, sparse.csr_array):
        a, b = (DataBounds(1.0, Interval(0, 1)).enforce(form(item))[0] for item in (X, changed))
        a, b = (item.toarray() if sparse.issparse(item) else item for item in (a, b))
        assert np.flatnonzero(np.any(a != b, axis=1)).tolist() == [5]


def test_a_sparse_row_does_not_depend_on_how_full_other_rows_are():
    """The rounding margin comes from the public number of columns, not from the fullest row."""
    X = sparse.random_array((20, 3000), density=0.001, rng=np.random.default_rng(0), format="lil") * 50
    changed = X.tolil().copy()
    changed[5] = np.ones(3000)
    a, b = (DataBounds(0.1, Interval(0, 1)).enforce(item.tocsr())[0].toarray() for item in (X, changed))
    assert np.flatnonzero(np.any(a != b, axis=1)).tolist() == [5]


def test_many_blocks_give_the_same_rows(monkeypatch):
    whole, _ = DATA.enforce(hostile(np.float64))
    monkeypatch.setattr("dperm.problem.bounds.ENTRIES_AT_A_TIME", 7)
    blocks, _ = DATA.enforce(hostile(np.float64))
    np.testing.assert_array_equal(whole, blocks)


def test_entries_stored_twice_count_as_their_sum():
    X = sparse.csr_array((np.array([0.9, 0.9]), np.array([0, 0]), np.array([0, 2])), shape=(1, 2))
    assert abs(DataBounds(1.0, Interval(0, 1)).enforce(X)[0]).sum() <= 1.0


def test_other_sparse_forms_and_integers():
    bounds = DataBounds(1.0, Interval(0, 1))
    assert bounds.enforce(sparse.coo_array(np.eye(3) * 2))[0].toarray().max() <= 1.0
    assert bounds.enforce(sparse.csr_array(np.eye(3, dtype=int) * 2))[0].dtype == np.float64
    assert bounds.enforce(np.eye(3, dtype=int) * 2)[0].dtype == np.float64
    unbounded = DataBounds(math.inf, Interval(0, 1))
    for form in (np.asarray, sparse.csr_array):
        rows = unbounded.enforce(form(np.array([[1e9, np.nan]])))[0]
        assert (rows.toarray() if sparse.issparse(rows) else rows).tolist() == [[1e9, 0.0]]


def test_box_norm_counts_the_farthest_corner():
    box = DataBounds.box([-3.0, 0.0], [1.0, 4.0], Interval(0, 1), intercept=12.0)
    assert box.x_norm == pytest.approx(5.0) and box.x_norm >= 5.0
    assert box.row_norm == pytest.approx(13.0)
    assert DataBounds.box(-1.0, 1.0, Interval(0, 1), dimension=4).x_norm == pytest.approx(2.0)
    assert DataBounds.box(0.0, [3.0, 4.0], Interval(0, 1)).x_norm == pytest.approx(5.0)
    assert DataBounds.box([-3.0, -4.0], 0.0, Interval(0, 1)).x_norm == pytest.approx(5.0)
    tighter = DataBounds.box(-1.0, 1.0, Interval(0, 1), dimension=4, x_norm=1.5)
    assert tighter.x_norm == 1.5
    assert np.linalg.norm(tighter.enforce(np.ones((1, 4)))[0]) <= 1.5
    assert DataBounds.box(0.0, 0.0, Interval(0, 1), dimension=2).x_norm == 0.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_box_ends_hold_in_every_precision(dtype, form):
    low, high = np.array([-0.1, -0.7, 0.0]), np.array([0.1, 0.3, 1e-3])
    box = DataBounds.box(low, high, Interval(0, 1))
    X = np.array([[5, 5, 5], [-5, -5, -5], [0.05, 0.05, 0.0005], [np.nan, np.inf, 0]], dtype=dtype)
    rows = box.enforce(form(X))[0]
    rows = (rows.toarray() if sparse.issparse(rows) else rows).astype(float)
    assert np.all(rows >= low) and np.all(rows <= high)
    np.testing.assert_allclose(rows[:2], [high, low], rtol=1e-6)
    np.testing.assert_array_equal(rows[2], X[2].astype(float))
    assert rows[3].tolist() == [0, 0, 0]
    assert np.all(np.linalg.norm(rows, axis=1) <= box.x_norm)


def test_box_away_from_zero():
    box = DataBounds.box([1.0], [2.0], Interval(0, 1))
    assert box.enforce(np.array([[np.nan], [9.0], [1.5]]))[0].tolist() == [[1.0], [2.0], [1.5]]
    with pytest.raises(ValueError, match="contain 0"):
        box.enforce(sparse.csr_array(np.ones((1, 1))))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_labels_are_clipped_and_the_missing_ones_take_the_value_nearest_zero(dtype):
    X = np.zeros((5, 1))
    y = np.array([np.nan, np.inf, -np.inf, 9.0, 0.2], dtype=dtype)
    found = DataBounds(1.0, Interval(0.1, 0.7)).enforce(X, y)[1]
    assert found.dtype == dtype
    assert np.all(found.astype(float) >= 0.1) and np.all(found.astype(float) <= 0.7)
    np.testing.assert_allclose(found, [0.1, 0.1, 0.1, 0.7, 0.2], rtol=1e-6)


def test_class_numbers_stay_whole():
    X = np.zeros((3, 1))
    found = DataBounds(1.0, Interval(0, 2)).enforce(X, np.array([-5, 1, 7]))[1]
    assert found.dtype.kind == "i" and found.tolist() == [0, 1, 2]
    assert DataBounds(1.0, Interval(0, math.inf)).enforce(X, np.array([-5, 1, 7]))[1].tolist() == [0, 1, 7]
    assert DataBounds(1.0, Interval(0, 1)).enforce(X, np.array([True, False, True]))[1].tolist() == [1, 0, 1]
    assert DataBounds(1.0, Interval(0.5, 2)).enforce(X, np.array([0, 1, 7]))[1].tolist() == [0.5, 1.0, 2.0]


def test_no_rows_and_no_columns():
    bounds = DataBounds(1.0, Interval(0, 1))
    for shape in ((0, 3), (3, 0)):
        assert bounds.enforce(np.zeros(shape))[0].shape == shape
        assert bounds.enforce(sparse.csr_array(shape))[0].shape == shape


def test_torch_rows():
    torch = pytest.importorskip("torch", reason="torch is an optional extra")
    X = hostile(np.float32)
    for bounds in (DATA, DataBounds.box(-1.0, 0.3, Interval(0, 1), dimension=6)):
        found, y = bounds.enforce(torch.asarray(X), torch.asarray([2.0] * 500))
        np.testing.assert_allclose(found.numpy(), bounds.enforce(X)[0], rtol=1e-6)
        assert float(y.max()) <= 1.0


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Problem(LogisticLoss()), "data=DataBounds"),
        (lambda: DataBounds(-1.0, Interval(0, 1)), "x_norm >= 0"),
        (lambda: DataBounds(1.0, (0, 1)), "Interval"),
        (lambda: DataBounds(1.0, Interval(0, 1), intercept=-1.0), "intercept >= 0"),
        (lambda: DataBounds(1.0, Interval(0, 1), low=(0.0,)), "both low and high"),
        (lambda: DataBounds(1.0, Interval(0, 1), low=(0.0,), high=(1.0, 1.0)), "one length"),
        (lambda: DataBounds.box(0.0, 1.0, Interval(0, 1)), "dimension="),
        (lambda: DataBounds.box([1.0], [0.0], Interval(0, 1)), "low <= high"),
        (lambda: DataBounds.box([0.0], [1.0], Interval(0, 1)).enforce(np.zeros((1, 2))), "Expected 1 columns"),
        (lambda: FeatureMap(abs, 0.0, 2, "zero"), "output_norm > 0"),
        (lambda: FeatureMap(abs, 1.0, 0, "none"), "output_dimension >= 1"),
        (lambda: FeatureMap(abs, 1.0, 3, "wrong")(np.zeros((2, 2))), "Expected one row of 3 features per input row"),
    ],
)
def test_bad_declarations_are_refused_in_words(build, message):
    with pytest.raises(ValueError, match=message):
        build()


# --- the lectures' exercises and the checkers


def test_when_the_squared_loss_is_bounded_and_when_it_is_lipschitz():
    assert squared_loss_constants(2.0, 1.0, 3.0) == LossBounds(0.5 * 7.0**2, 2.0 * 7.0, 4.0)
    inf = math.inf
    table = {
        (1.0, 1.0, 1.0): (True, True),
        (inf, 1.0, 1.0): (False, False),
        (1.0, inf, 1.0): (False, False),
        (1.0, 1.0, inf): (False, False),
        (0.0, 1.0, inf): (True, True),
        (0.0, inf, 1.0): (False, True),
    }
    for sizes, expected in table.items():
        assert (squared_loss_is_bounded(*sizes), squared_loss_is_lipschitz(*sizes)) == expected, sizes
    problem = Problem(SquaredLoss(), domain=Ball(3.0), data=DataBounds(2.0, Interval(-1, 1)))
    assert problem.constants.lipschitz == squared_loss_constants(2.0, 1.0, 3.0).slope


def test_lipschitz_on_a_bounded_domain_is_bounded():
    assert range_from_lipschitz(2.0, 3.0) == 6.0
    assert range_from_lipschitz(0.0, math.inf) == 0.0
    constants = Problem(AbsoluteLoss(), domain=Box(-1.0, 1.0, 3), data=DataBounds(1.0, Interval(-1e9, 1e9))).constants
    assert constants.loss_range == range_from_lipschitz(1.0, Box(-1.0, 1.0, 3).diameter)


def test_strong_convexity_needs_the_half():
    """E17: ½λ||w||² passes at λ and fails above; the printed form, with λα(1-α), would ask for 2λ."""

    def ridge(w):
        return 1.5 * float(w @ w)  # 3-strongly convex

    assert check_strong_convexity(ridge, 3.0, dimension=3)
    assert not check_strong_convexity(ridge, 3.03, dimension=3)
    printed = 2 * 3.0
    assert not check_strong_convexity(ridge, printed, dimension=3)
    assert check_strong_convexity(SquaredLoss(), 1.0)
    assert not check_strong_convexity(LogisticLoss(), 0.01)


def test_convexity_checker_finds_a_small_dent():
    assert check_convexity(lambda w: float(np.abs(w).sum()), dimension=2)
    dented = check_convexity(lambda w: float(w @ w + 2.2 * np.cos(w[0])))
    assert not dented and dented.worst > 0 and dented.witness is not None
    with pytest.raises(ValueError, match="one margin"):
        check_convexity(MultinomialLoss(3))


def test_gradient_checker():
    ridge = Ridge(0.7)
    assert check_gradient(ridge.value, ridge.gradient, dimension=3)
    assert not check_gradient(ridge.value, lambda w: 1.001 * ridge.gradient(w), dimension=3)


def test_importing_the_package_loads_no_array_library():
    code = "import sys, dperm.problem; print([m for m in ('numpy', 'scipy', 'sklearn', 'torch') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_every_public_name_has_a_docstring():
    assert set(dperm.problem.__all__) <= set(dir(dperm.problem))
    for name in dperm.problem.__all__:
        item = getattr(dperm.problem, name)
        if callable(item):
            assert item.__doc__ and not item.__doc__.startswith(f"{name}("), name
