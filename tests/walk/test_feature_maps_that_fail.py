"""Feature maps that raise an error: what they say about a private row stays unsaid, and what they write there is lost."""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np
import pytest

import dperm
from dperm.mechanisms.gradient import Gradient
from dperm.problem import DataBounds, FeatureMap, Interval, LogisticLoss, Problem
from dperm.release.ledger import Ledger
from dperm.release.plan import Target
from dperm.rows import MemoryRows

X = np.random.default_rng(0).uniform(-0.5, 0.5, (60, 2))
Y = np.sign(X[:, 0])
ODD = 0.625  # in one cell of one row


def fit(function: Any, rows: np.ndarray, **options: Any) -> Any:
    seen = FeatureMap(function, 2.0, 2, "mine")
    problem = Problem(LogisticLoss(), data=DataBounds(2.0, Interval(-1, 1)), feature_map=seen)
    held, target = MemoryRows(rows, Y), Target.declare(epsilon=1.0, n=60)
    return dperm.fit(problem, held, target, Gradient(steps=2), random_state=0, **options)


def test_an_error_of_a_map_about_a_private_row_is_not_quoted() -> None:
    def refusing(rows: Any) -> Any:
        if np.any(rows == ODD):
            raise ValueError(f"secret row {rows}")
        return rows * 2.0

    odd = X.copy()
    odd[3, 1] = ODD
    with pytest.raises(ValueError, match="'mine' on private rows") as found:
        fit(refusing, odd)
    assert "secret" not in "".join(traceback.format_exception(found.value))


def test_a_map_to_other_features_than_declared_is_refused_before_the_debit(tmp_path: Any) -> None:
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
