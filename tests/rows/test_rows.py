"""Sums over rows: the computed sum moves by no more than its declared sensitivity, whatever n, dtype, storage or order."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse

import dperm
from dperm.problem import DataBounds, HuberLoss, Interval, LogisticLoss, MultinomialLoss, SquaredLoss
from dperm.release.noise import RELEASE_SLACK
from dperm.rows import BLOCK_ROWS, MemoryRows, sum_step
from dperm.rows.base import block_counts, real_sum, total_of
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm, SampledTerm, UnclippedGradientTerm

LABELS = Interval(-1.0, 1.0)


def gradient_sum(X, y, term, n=None):
    rows = MemoryRows(X, y).bounded(DataBounds(1.0, LABELS, 1.0))
    return rows.sum(term, sum_step(term.row_bound, n or len(y)))


def term_for(d, clip=0.3, loss=None, features=None):
    w = np.linspace(-1, 1, d + 1)
    return GradientTerm(loss or LogisticLoss(), w, clip, features or Features(1.0))


def grid_error(n, clip):
    """n rows on their grids, at worst: the row errs by 2⁻²¹ of itself and its slope by a step, 2⁻²⁰ of the clip."""
    return n * 2.0**-19 * clip


def test_swapping_one_row_among_a_million_float32_rows_moves_the_sum_by_at_most_the_sensitivity(generator):
    n, d = 1_000_000, 16
    X = generator.standard_normal((n, d), dtype=np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(generator.random(n) < 0.5, 1.0, -1.0)
    term = term_for(d)
    before = gradient_sum(X, y, term)
    for row in (0, BLOCK_ROWS, n - 1):
        kept, label = X[row].copy(), y[row]
        X[row], y[row] = -10 * kept, -label
        moved = np.linalg.norm(gradient_sum(X, y, term) - before)
        X[row], y[row] = kept, label
        assert moved <= RELEASE_SLACK * term.sensitivity("replace-one")
        assert moved > 0


def test_worst_neighbour_attains_the_sensitivity():
    """Opposite gradients of full length: a sensitivity stated too small by any factor fails here."""
    X = np.zeros((100, 1))
    X[0] = 1.0
    y = np.ones(100)
    term = GradientTerm(LogisticLoss(), np.array([0.0]), 0.1, Features(0.0))
    bounds = DataBounds(1.0, LABELS)
    step = sum_step(term.row_bound, 100)
    one = MemoryRows(X, y).bounded(bounds).sum(term, step)
    X[0] = -1.0
    other = MemoryRows(X, y).bounded(bounds).sum(term, step)
    X[0] = 0.0
    null = MemoryRows(X, y).bounded(bounds).sum(term, step)
    assert np.abs(one - other)[0] == pytest.approx(term.sensitivity("replace-one"), rel=1e-9)
    assert np.abs(one - null)[0] == pytest.approx(term.sensitivity("zero-out"), rel=1e-9)


@pytest.mark.parametrize("loss", [LogisticLoss(), SquaredLoss(), HuberLoss(0.5)])
def test_blocks_equal_a_plain_float64_sum(generator, loss):
    n, d = 20_001, 7
    X = generator.standard_normal((n, d)) / 10
    y = generator.uniform(-1, 1, n)
    if loss.classification:
        y = np.sign(y)
    w = generator.standard_normal(d + 1)
    total = gradient_sum(X, y, GradientTerm(loss, w, 0.4, Features(1.0)))
    X, y = DataBounds(1.0, LABELS, 1.0).enforce(X, y)
    Z = np.column_stack([X, np.ones(n)])
    slopes = loss.slope(Z @ w, y)
    norms = np.linalg.norm(Z, axis=1)
    slopes = slopes * np.minimum(1, 0.4 / (np.abs(slopes) * norms))
    np.testing.assert_allclose(total, Z.T @ slopes, rtol=0, atol=grid_error(n, 0.4))


def test_sparse_and_dense_rows_agree_with_shift_and_scale(generator):
    n, d = 9_000, 12
    X = sparse.random(n, d, density=0.2, random_state=3, format="csr")
    X.data -= 0.5
    y = np.where(generator.random(n) < 0.5, 1.0, -1.0)
    features = Features(1.0, generator.standard_normal(d) / 9, generator.uniform(0.5, 20, d))
    term = term_for(d, features=features)
    dense = gradient_sum(X.toarray(), y, term)
    np.testing.assert_allclose(gradient_sum(X, y, term), dense, rtol=0, atol=grid_error(n, term.clip))


def test_multinomial_rows_are_clipped_by_their_whole_gradient(generator):
    n, d, K = 5_000, 4, 3
    X = generator.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = generator.integers(0, K, n)
    loss = MultinomialLoss(classes=K)
    term = GradientTerm(loss, generator.standard_normal(K * (d + 1)), 0.2, Features(1.0))
    rows = MemoryRows(X, y).bounded(DataBounds(1.0, Interval(0, K - 1), 1.0))
    single = [np.linalg.norm(term(type(b)(b.X[i : i + 1], b.y[i : i + 1], None, 0))) for b in rows.blocks() for i in range(50)]
    assert max(single) == pytest.approx(0.2)
    assert max(single) <= 0.2 * (1 + 1e-12)


def test_float32_blocks_agree_with_float64(generator):
    n, d = 10_000, 30
    X = generator.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(generator.random(n) < 0.5, 1.0, -1.0)
    for loss, labels, K in ((LogisticLoss(), y, 1), (MultinomialLoss(classes=3), generator.integers(0, 3, n), 3)):
        term = GradientTerm(loss, np.linspace(-1, 1, K * (d + 1)), 0.3, Features(1.0))
        bounds = DataBounds(1.0, LABELS if K == 1 else Interval(0, 2), 1.0)
        sums = [MemoryRows(A, labels).bounded(bounds).sum(term, 2.0**-40) for A in (X, X.astype(np.float32))]
        np.testing.assert_allclose(sums[0], sums[1], atol=1e-3 * np.sqrt(n))


def test_order_of_blocks_cannot_change_the_bits(generator):
    X = generator.standard_normal((5 * BLOCK_ROWS, 3))
    y = np.ones(len(X))
    term = term_for(3)
    rows = MemoryRows(X, y).bounded(DataBounds(1.0, LABELS, 1.0))
    step = sum_step(term.row_bound, len(y))
    counts = [block_counts(term, block, step) for block in rows.blocks()]
    forward, backward = (real_sum(term, total_of(order), step) for order in (counts, counts[::-1]))
    assert forward.tobytes() == backward.tobytes() == rows.sum(term, step).tobytes()


def test_terms_pickle_so_that_workers_can_have_them(generator):
    term = term_for(3)
    X, y = generator.standard_normal((10, 3)), np.ones(10)
    again = pickle.loads(pickle.dumps(term))
    np.testing.assert_array_equal(gradient_sum(X, y, term), gradient_sum(X, y, again))


def test_zero_weight_rows_count_for_nothing(generator):
    X, y = generator.standard_normal((50, 2)), np.ones(50)
    weight = np.ones(50)
    weight[20:] = 0
    term = term_for(2)
    bounds = DataBounds(1.0, LABELS, 1.0)
    part = MemoryRows(X[:20], y[:20]).bounded(bounds).sum(term, 2.0**-40)
    np.testing.assert_allclose(MemoryRows(X, y, weight).bounded(bounds).sum(term, 2.0**-40), part, atol=1e-9)


def test_poisson_samples_are_a_keyed_function_of_step_and_row(generator):
    """10,000 rows at rate 0.3: the joined share is within 5 standard deviations (false alarm 6e-7)."""
    n = 10_000
    X, y = np.ones((n, 1)), np.ones(n)
    plain = GradientTerm(LogisticLoss(), np.zeros(1), 0.5, Features(0.0))
    rows = MemoryRows(X, y).bounded(DataBounds(1.0, LABELS))

    def joined(key, step):
        return abs(rows.sum(SampledTerm(plain, 0.3, key, step), 2.0**-30)[0]) / 0.5

    assert joined(5, 0) == joined(5, 0)
    assert joined(5, 0) != joined(5, 1)
    assert joined(5, 0) != joined(6, 0)
    assert abs(joined(5, 0) - 0.3 * n) < 5 * np.sqrt(n * 0.21)


def test_unclipped_term_really_does_not_clip():
    X, y = np.array([[1.0]]), np.array([1.0])
    term = UnclippedGradientTerm(SquaredLoss(), np.array([1000.0]), 0.1, Features(0.0))
    total = MemoryRows(X, y).bounded(DataBounds(1.0, LABELS)).sum(term, sum_step(term.row_bound, 1))
    assert total[0] == pytest.approx(999.0)


def test_bad_shapes_are_named():
    with pytest.raises(ValueError, match="two dimensions"):
        MemoryRows(np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match="as many labels as rows"):
        MemoryRows(np.zeros((3, 1)), np.zeros(2))
    with pytest.raises(ValueError, match="minimum of 1 is required"):  # only where the number of rows is public
        dperm.LinearRegression(bounds=(0, 1), y_bounds=(0, 1)).fit(MemoryRows(np.zeros((0, 1)), np.zeros(0)))


def test_norms_of_entries_that_are_stored_in_parts():
    """A CSR matrix may store 2 as 1 + 1: its square is 4, not 1 + 1."""
    from scipy.sparse import csr_array

    parts = csr_array((np.array([1.0, 1.0, 3.0]), np.array([0, 0, 1]), np.array([0, 3])), shape=(1, 2))
    assert not parts.has_canonical_format
    for features in (Features(), Features(1.0, np.array([0.5, -0.5]), np.array([2.0, 1.0]))):
        assert features.squared_norms(parts) == pytest.approx(features.squared_norms(parts.toarray()))
