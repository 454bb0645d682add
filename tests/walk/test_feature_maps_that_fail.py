"""Feature maps that raise an error: of a private row without a word, on rows of our own before anything is spent."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import dperm
from dperm.mechanisms.gradient import Gradient
from dperm.problem import DataBounds, FeatureMap, Interval, LogisticLoss, Problem
from dperm.release.ledger import Ledger
from dperm.release.plan import Target
from dperm.rows import MemoryRows

X = np.random.default_rng(0).uniform(-0.5, 0.5, (60, 2))
Y = np.sign(X[:, 0])
ODD = 0.625  # in one cell of a row
TURN = np.array([[0.6, 0.8], [-0.8, 0.6]])


def fit(function: Any, rows: np.ndarray, **options: Any) -> Any:
    seen = FeatureMap(function, 2.0, 2, "mine")
    problem = Problem(LogisticLoss(), data=DataBounds(2.0, Interval(-1, 1)), feature_map=seen)
    held, target = MemoryRows(rows, Y), Target.declare(epsilon=1.0, n=60)
    return dperm.fit(problem, held, target, Gradient(steps=2), random_state=0, **options)


def refusing(rows: Any) -> Any:
    if np.any((rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)) == ODD):
        raise ValueError(f"secret row {rows}")
    return rows @ TURN


def shorter(rows: Any) -> Any:
    return (rows @ TURN)[rows[:, 1] != ODD]


def panicking(rows: Any) -> Any:
    class Panic(BaseException):
        """As compiled libraries raise it."""

    if np.any(rows == ODD):
        raise Panic("secret")
    return rows @ TURN


def complex_there(rows: Any) -> Any:
    return rows @ TURN + (0j if np.any(rows == ODD) else 0.0)


def odd_rows() -> np.ndarray:
    odd = X.copy()
    odd[3, 1] = odd[40, 1] = ODD
    return odd


@pytest.mark.parametrize("function", [refusing, shorter, panicking, complex_there])
def test_a_row_on_which_a_map_fails_counts_as_zeros_and_is_not_heard_of(function: Any, tmp_path: Path) -> None:
    """It ended the fit, after the debit: one bit about that row."""
    book = Ledger.create(tmp_path / "book", dataset="d", epsilon=9.0, delta=1e-5)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = fit(function, odd_rows(), ledger=book)
    assert book.account().fits == 1 and found.certificate.verify(allow_seeded=True)
    assert not [one for one in said if "secret" in str(one.message) or "omplex" in str(one.message)]
    zeros = X.copy()
    zeros[[3, 40]] = 0.0
    assert np.array_equal(found.w, fit(lambda rows: rows @ TURN, zeros).w)


@pytest.mark.parametrize("form", [np.asarray, np.float32, csr_array])
def test_rows_keep_their_last_bits_beside_one_on_which_a_map_fails(form: Any) -> None:
    rows = np.random.default_rng(1).normal(size=(9000, 30))
    turn = np.random.default_rng(2).normal(size=(30, 5))
    odd = rows.copy()
    odd[[0, 77, 8999], 4] = ODD

    def turned(rows: Any) -> Any:
        if np.any((rows.data if hasattr(rows, "tocsr") else rows) == ODD):
            raise ValueError("secret")
        return rows @ turn.astype(rows.dtype)

    seen, data = FeatureMap(turned, 50.0, 5, "mine"), DataBounds(1e3, Interval(-1, 1))
    before, found = (
        np.concatenate([block.X for block in MemoryRows(form(table), np.ones(9000)).bounded(data, seen).blocks()])
        for table in (rows, odd)
    )
    others = np.delete(np.arange(9000), [0, 77, 8999])
    assert np.array_equal(found[others], before[others]) and found.dtype == before.dtype
    assert not found[[0, 77, 8999]].any() and before[[0, 77, 8999]].all()


def test_a_map_to_tensors_goes_on_too() -> None:
    torch = pytest.importorskip("torch", reason="tensors need torch")
    zeros = X.copy()
    zeros[[3, 40]] = 0.0
    found = fit(lambda rows: torch.from_numpy(refusing(rows)), odd_rows())
    assert np.array_equal(found.w, fit(lambda rows: rows @ TURN, zeros).w)


def test_what_ends_a_program_passes() -> None:
    for ending in (KeyboardInterrupt, SystemExit):

        def ended(rows: Any, ending: Any = ending) -> Any:
            raise ending

        with pytest.raises(ending):
            MemoryRows(X, Y).bounded(DataBounds(2.0, Interval(-1, 1)), FeatureMap(ended, 2.0, 2, "mine")).block(0)


def test_sparse_features_stay_sparse_beside_a_row_on_which_a_map_fails() -> None:
    def refused(rows: Any) -> Any:
        if np.any(rows.data == ODD):
            raise ValueError("secret")
        return rows.multiply(0.5).tocsr()

    seen, data = FeatureMap(refused, 50.0, 2, "mine"), DataBounds(2.0, Interval(-1, 1))
    block = MemoryRows(csr_array(odd_rows()), Y).bounded(data, seen).block(0)
    expected = 0.5 * X
    expected[[3, 40]] = 0.0
    assert block.X.format == "csr" and np.array_equal(block.X.toarray(), expected)


def test_a_map_that_fails_on_every_row_or_on_none_maps_no_rows() -> None:
    """A block may have no rows, and a map may fail there (an empty maximum): an error would tell the number of rows."""

    def largest(rows: Any) -> Any:
        rows.max()
        raise ValueError("secret")

    seen, data = FeatureMap(largest, 2.0, 3, "mine"), DataBounds(2.0, Interval(-1, 1))
    for count in (0, 1, 60):
        found = MemoryRows(X[:count], Y[:count]).bounded(data, seen).block(0).X
        assert found.shape == (count, 3) and not found.any()


def test_a_warning_of_a_map_about_a_private_row_is_not_shown() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fit(lambda rows: np.where(rows == ODD, np.log(ODD - rows), rows), odd_rows())
    assert not [one for one in said if issubclass(one.category, RuntimeWarning)]


BROKEN: dict[str, Any] = {
    "complex numbers": lambda rows: rows.astype(complex),
    "an error": lambda rows: rows["age"],
    "a list": lambda rows: rows.tolist(),
    "one name too many": lambda rows: rows @ undefined,  # noqa: F821
    "for sparse rows": lambda rows: rows.tocsr(),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_map_that_fails_on_rows_of_our_own_is_refused_before_the_debit(name: str, tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "book", dataset="d", epsilon=9.0, delta=1e-5)
    with pytest.raises(ValueError, match=r"a feature map of rows of 2 numbers, found \w+ of 'mine'.*Nothing was spent"):
        fit(BROKEN[name], X, ledger=book)
    assert book.account().fits == 0


def test_a_map_is_tried_on_rows_in_the_form_of_the_callers() -> None:
    sparse = csr_array(X)
    assert fit(lambda rows: rows.tocsr(), sparse).certificate.verify(allow_seeded=True)
    with pytest.raises(ValueError, match=r"found AttributeError of 'mine'.*Nothing was spent"):
        fit(lambda rows: rows.clip(-1.0, 1.0), sparse)
    with pytest.raises(ValueError, match="each row alone"):
        fit(lambda rows: rows.multiply(1.0 / max(abs(rows).max(), 1e-9)).tocsr(), sparse)


def test_a_map_that_takes_zeros_and_some_rows_alone_is_fitted() -> None:
    """Such as a table of places, which has none for numbers of our own."""
    places = np.linspace(-1.0, 1.0, 3)

    def looked_up(rows: Any) -> Any:
        return places[np.searchsorted(places, np.where(np.abs(rows) < 0.7, rows, 9.0))]

    assert fit(looked_up, X).certificate.verify(allow_seeded=True)


def test_a_map_to_other_features_than_declared_is_refused_before_the_debit(tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "book", dataset="d", epsilon=9.0, delta=1e-5)
    with pytest.raises(ValueError, match=r"2 features per input row, found shape \(40, 4\).*Nothing was spent"):
        fit(lambda rows: np.hstack([rows, rows]), X, ledger=book)
    assert book.account().fits == 0


def test_a_map_that_writes_into_its_rows_leaves_the_callers_table_alone() -> None:
    def doubled(rows: Any) -> Any:
        rows *= 2.0
        return rows

    kept = X.copy()
    assert np.array_equal(fit(doubled, kept).w, fit(lambda rows: rows * 2.0, X).w) and np.array_equal(kept, X)
