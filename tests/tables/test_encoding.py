"""Encodings: declared columns become bounded rows, coefficients come back in the caller's units, private bounds are paid for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import dperm
from dperm.rows.base import Block
from dperm.tables.encoding import Encoding
from dperm.tables.scale import decoded, stored
from dperm.terms.ranges import CellHistogram, OctaveHistogram, coarse_ranges, outermost, tight_ranges

FINITE = st.floats(allow_nan=False, allow_infinity=False, width=64)
ANY = st.floats(width=64)


def mixed():
    return Encoding.from_declaration(
        6, bounds=([-3, 0, 0, 0, 0, 0], [5, 1, 1, 1, 1, 20]), categorical=[[1, 2, 3]], boolean=[4], sparse=[5]
    )


@settings(max_examples=200, deadline=None)
@given(st.lists(ANY, min_size=6, max_size=6))
def test_every_cell_of_an_encoded_row_is_bounded(row):
    encoding = mixed()
    encoded = encoding.transform(np.array([row]))[0]
    assert np.isfinite(encoded).all()
    assert abs(encoded[0]) <= 0.5 + 1e-12 and np.all((encoded[1:] >= 0) & (encoded[1:] <= 1))
    assert math.hypot(encoded[0], *sorted(encoded[1:4])[2:], *encoded[4:]) <= encoding.norm * (1 + 1e-12)


def test_the_norm_adds_up_by_kind():
    assert mixed().norm == pytest.approx(math.sqrt(1 / 4 + 1 + 1 + 1))
    assert Encoding.from_declaration(9, bounds=(0, 2)).norm == pytest.approx(1.5)
    assert Encoding.from_declaration(4, bounds="private").norm == pytest.approx(1.0)
    assert Encoding.from_declaration(4, x_norm=7.0).norm == 1.0
    # uncentred storage: a column in [-1, 3] reaches 3/4 of its width
    assert Encoding.from_declaration(1, bounds=(-1, 3), centred=False).norm == pytest.approx(0.75)


def test_coefficients_return_to_the_units_of_the_columns():
    generator = np.random.default_rng(0)
    encoding = mixed()
    onehot = np.eye(3)[generator.integers(0, 3, 30)]
    X = np.column_stack([generator.uniform(-3, 5, 30), onehot, np.ones(30), generator.uniform(0, 20, 30)])
    w = generator.normal(size=(2, 7))
    slopes, constant = encoding.original(w, 0.5)
    encoded = np.column_stack([encoding.transform(X), np.full(30, 0.5)])
    assert X @ slopes.T + constant == pytest.approx(encoded @ w.T)


def test_sparse_rows_encode_like_dense_ones():
    encoding = Encoding.from_declaration(3, bounds=(-4, 4), sparse=[1], centred=False)
    X = np.array([[1.0, 0, -9], [0, 7, 0], [np.nan, 0, np.inf]])
    X[2, 0] = 2.0
    X[2, 2] = 3.0
    assert encoding.transform(sparse.csr_array(X)).toarray() == pytest.approx(encoding.transform(X))


def test_one_hot_arrays_are_stored_sparsely_by_declaration_and_fit_the_same():
    generator = np.random.default_rng(0)
    X = np.column_stack([generator.uniform(0, 5, 600), np.eye(12)[generator.integers(0, 12, 600)]])
    y = (X[:, 0] + 3 * X[:, 1] > 3).astype(int)
    encoding = Encoding.from_declaration(13, bounds=(0, 5), categorical=[range(1, 13)])
    assert encoding.mostly_zero and not Encoding.from_declaration(13, bounds=(0, 5)).mostly_zero
    packed = encoding.packed(encoding.transform(X))
    assert packed.nnz <= 1200 and packed.toarray() == pytest.approx(encoding.transform(X))
    model = dperm.LinearSVC(5.0, bounds=(0, 5), categorical=[range(1, 13)], classes=[0, 1], random_state=0).fit(X, y)
    rows = dperm.MemoryRows(encoding.transform(X), 2.0 * y - 1)
    mechanism = dperm.ScaledGradient(kinds=encoding.kinds, gaps=encoding.gaps)
    target = dperm.Target.declare(epsilon=5.0, n=600)
    dense = dperm.fit(model._problem(dperm.problem.Interval(-1, 1)), rows, target, mechanism, random_state=0)
    assert model.w_ == pytest.approx(dense.w, rel=1e-4, abs=2e-5)  # dense and sparse rows have different grids


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_long_row_is_encoded_alike_alone_and_among_others(kind):
    """The last block of a stream may have one row. einsum takes such a row whole, and others in pieces of 8,192."""
    rows = np.random.default_rng(0).normal(size=(7, 9000)).astype(kind)
    for bounds in (None, (-1, 1)):
        encoding = Encoding.from_declaration(9000, bounds=bounds, x_norm=1.7)
        alone = [encoding.transform(rows[i : i + 1]) for i in range(7)]
        assert encoding.transform(rows).tobytes() == np.concatenate(alone).tobytes()


def test_spec_round_trip():
    for encoding in (mixed(), Encoding.from_declaration(2, x_norm=3.0), Encoding.from_declaration(2, bounds="private")):
        again = Encoding.from_spec(encoding.spec())
        assert again.spec() == encoding.spec() and again.norm == encoding.norm


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bounds": None}, "public bound"),
        ({"bounds": (3, 3)}, "low < high"),
        ({"bounds": (0, np.inf)}, "finite bounds"),
        ({"bounds": "secret"}, '"private"'),
        ({"bounds": "private", "x_norm": 2.0}, "x_norm"),
        ({"bounds": "private", "sparse": [0]}, "bounds= for sparse"),
        ({"boolean": ["nobody"]}, "name columns"),
        ({"boolean": [9]}, "below"),
        ({"boolean": "most"}, '"all"'),
        ({"categorical": [[0, 1], [1, 2]]}, "column in two"),
        ({"categorical": [[0, 1]], "boolean": [1]}, "declared twice"),
        ({"names": ["a", "a", "b"]}, "a name twice"),
        ({"x_norm": -1.0}, "x_norm > 0"),
    ],
)
def test_wrong_declarations_are_named(changes, words):
    with pytest.raises(ValueError, match=words):
        Encoding.from_declaration(3, **{"bounds": (0, 1), **changes})


# -- private bounds ----------------------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(FINITE)
def test_the_stored_scale_is_bounded_and_inverts(value):
    u = stored(np.array([value]))
    assert abs(u[0]) <= 0.5
    if 2.0**-30 < abs(value) < 2.0**32:
        assert decoded(u)[0] == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("relation", ["replace-one", "zero-out"])
def test_histograms_of_columns_have_their_sensitivity(relation):
    generator = np.random.default_rng(1)
    terms = (OctaveHistogram((0, 2, 3)), CellHistogram((0, 2, 3), np.full(3, -1.0), np.full(3, 2.0)))
    for term in terms:
        reached = 0.0
        for _ in range(200):
            X = stored(generator.normal(size=(5, 4)) * 10 ** generator.uniform(-3, 3, (5, 4)))
            before = term(Block(X, np.ones(5), np.ones(5), 0))
            weight = np.ones(5)
            if relation == "zero-out":
                weight[2] = 0.0
            else:
                X = X.copy()
                X[2] = stored(generator.normal(size=4) * 10 ** generator.uniform(-3, 3, 4))
            reached = max(reached, float(np.linalg.norm(term(Block(X, np.ones(5), weight, 0)) - before)))
        assert reached == pytest.approx(term.sensitivity(relation))
        assert term.sensitivity("zero-out") == pytest.approx(math.sqrt(3))
        assert term.sensitivity("replace-one") == pytest.approx(math.sqrt(6))


@pytest.mark.parametrize("wary", [True, False])
def test_ranges_without_noise_hold_the_bulk_of_the_rows(wary):
    generator = np.random.default_rng(2)
    years, small = generator.uniform(2010, 2015, 5000), -generator.uniform(0.001, 0.004, 5000)
    X = np.column_stack([years, small, generator.normal(size=5000)])
    block = Block(stored(X), np.ones(5000), None, 0)
    low, high = coarse_ranges(OctaveHistogram((0, 1, 2))(block), 1e-6, 5000, wary)
    assert (low[0], high[0], high[1]) == (0.0, 2048.0, 0.0)
    low, high = tight_ranges(CellHistogram((0, 1, 2), low, high)(block), low, high, 1e-6, 5000, wary)
    assert np.all(np.mean((low <= X) & (high >= X), axis=0) > 0.99)
    assert high[0] - low[0] <= 160 and high[1] - low[1] <= 0.008


def test_noise_alone_is_not_taken_for_rows():
    """2,000 empty histograms of 256 counts: a bin passes in at most 10 % of them (about 5 % expected)."""
    generator = np.random.default_rng(3)
    passed = sum(outermost(generator.normal(size=128), 1.0, 256, 1) is not None for _ in range(2000))
    assert passed < 200


def test_a_fit_pays_for_bounds_in_its_own_plan():
    generator = np.random.default_rng(4)
    X = np.column_stack([generator.normal(50, 10, 4000), generator.uniform(0, 1e6, 4000), generator.normal(0, 1e-3, 4000)])
    y = X[:, 0] / 10 + X[:, 1] / 1e6 + 500 * X[:, 2]
    model = dperm.LinearRegression(3.0, bounds="private", y_bounds=(0, 12), random_state=0).fit(X, y)
    assert [stage.name for stage in model.plan_.stages][:2] == ["octaves", "cells"]
    assert model.certificate_.verify(allow_seeded=True).ok
    assert model.certificate_.epsilon == 3.0
    assert model.score(X, y) > 0.9
    assert set(model._encoding.kinds) == {"numeric"}
    inside = model._encoding
    assert np.all(np.mean((inside.low <= X) & (inside.high >= X), axis=0) > 0.9)
    linear = X[:5] @ model.coef_ + model.intercept_
    assert model.predict(X[:5]) == pytest.approx(np.clip(linear, 0, 12), rel=1e-6)


def test_private_bounds_refuse_sparse_rows():
    with pytest.raises(ValueError, match="dense rows"):
        dperm.LinearRegression(1.0, bounds="private", y_bounds=(0, 1)).fit(sparse.csr_array(np.eye(20)), np.zeros(20))
