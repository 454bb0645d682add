"""Rules of a finite class that raise an error: on rows of our own before anything is spent, on a private row without a word."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dperm
from dperm.mechanisms.hypotheses.stored import Rules
from dperm.release.ledger import Ledger

pytestmark = pytest.mark.filterwarnings("ignore::dperm.words.notices.PrivacyWarning")
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (60, 2))
Y = (X[:, 0] > 0).astype(int)
ODD = 7.0  # in one cell of one row
W = RNG.normal(size=2)


def refusing(X: Any) -> Any:
    if np.any(np.asarray(X) == ODD):
        raise ValueError(f"secret row {X}")
    return X @ W > 0


def shorter(X: Any) -> Any:
    return (X[:, 0] > 0)[X[:, 1] != ODD]


def together(X: Any, start: int, stop: int) -> Any:
    if np.any(X == ODD):
        raise RuntimeError(f"secret row {X}")
    return np.stack([X[:, 0] > place / 4 for place in range(start, stop)], axis=1)


def fit(rules: Any, rows: np.ndarray, **options: Any) -> Any:
    return dperm.FiniteClassLearner(5.0, hypotheses=rules, classes=[0, 1], random_state=0, **options).fit(rows, Y)


def odd_rows() -> np.ndarray:
    rows = X.copy()
    rows[3, 1] = rows[8, 1] = ODD
    return rows


CASES: dict[str, tuple[Any, int | None]] = {
    "one by one": ([refusing, lambda X: X[:, 0] > 0], None),
    "another shape": ([shorter, lambda X: X[:, 0] > 0], None),
    "together": (together, 3),
}


@pytest.mark.parametrize("name", CASES)
def test_a_row_on_which_a_rule_fails_changes_no_other_and_is_not_heard_of(name: str, tmp_path: Path) -> None:
    functions, count = CASES[name]
    rules = Rules(functions, count, classes=(0, 1))
    before, found = rules.predictions(X, 0, rules.size), rules.predictions(odd_rows(), 0, rules.size)
    others = np.setdiff1d(np.arange(len(X)), [3, 8])
    assert np.array_equal(found[others], before[others])
    failed = found[[3, 8]] if name == "together" else found[[3, 8], 0]
    assert np.all(failed == -1) and not np.any(before == -1)
    book = Ledger.create(tmp_path / "book", dataset="d", epsilon=100.0, delta=1e-5)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = fit(functions, odd_rows(), count=count, ledger=book)
    assert book.account().fits == 1 and not [one for one in said if "secret" in str(one.message)]
    assert set(model.predict(odd_rows()).tolist()) <= {0, 1}


def test_rows_keep_their_last_bits_beside_one_that_fails() -> None:
    """A row alone may have other last bits than among others, and be on the other side of a threshold."""
    rows = RNG.normal(size=(3000, 40)).astype(np.float32)
    weights = RNG.normal(size=40).astype(np.float32)
    middle = np.partition(rows @ weights, 1500)[1500]
    seen = []

    def rule(X: Any) -> Any:
        if np.any(X == ODD):
            raise ValueError("secret")
        seen.append(len(X))
        return X @ weights >= middle

    rules = Rules([rule], classes=(0, 1))
    before = rules.predictions(rows, 0, 1)
    rows[5, 0] = ODD
    assert np.array_equal(np.delete(rules.predictions(rows, 0, 1), 5), np.delete(before, 5))
    assert seen[0] == seen[-1] == 3000  # asked again in as many rows


def test_rules_that_fail_on_every_row_say_nothing() -> None:
    def rule(X: Any) -> Any:
        raise ValueError("secret")

    assert np.all(Rules([rule, rule], classes=(0, 1)).predictions(X, 0, 2) == -1)
    assert Rules([rule], classes=(0, 1)).predictions(X[:0], 0, 1).shape == (0, 1)


REFUSED: dict[str, tuple[Callable[..., Any], int | None]] = {
    "an error": (lambda X: X["age"] > 3, None),
    "a column that is not there": (lambda X: X[:, 9] > 0, None),
    "one number": (lambda X: 1, None),
    "two columns": (lambda X: X > 0, None),
    "too few rules": (lambda X, start, stop: X[:, :1] > 0, 2),
}


@pytest.mark.parametrize("name", REFUSED)
def test_rules_that_fail_on_rows_of_our_own_are_refused_before_the_debit(name: str, tmp_path: Path) -> None:
    rule, count = REFUSED[name]
    book = Ledger.create(tmp_path / "book", dataset="d", epsilon=100.0, delta=1e-5)
    with pytest.raises(ValueError, match=r"a label for every row of numbers.*Nothing was spent"):
        fit([rule] if count is None else rule, X, count=count, ledger=book)
    assert book.account().fits == 0


def test_answers_may_be_lists_and_tables() -> None:
    expected = Rules(lambda X, start, stop: X > 0, 2, classes=(False, True)).predictions(X, 0, 2)
    for made in (lambda found: found.tolist(), pd.DataFrame, lambda found: list(map(tuple, found))):
        rules = Rules(lambda X, start, stop, made=made: made(X > 0), 2, classes=(False, True))
        assert np.array_equal(rules.predictions(X, 0, 2), expected)
    alone = Rules([lambda X: (X[:, :1] > 0).tolist(), lambda X: X[:, 1:] > 0], classes=(False, True))
    assert np.array_equal(alone.predictions(X, 0, 2), expected)


def test_what_a_rule_writes_into_its_rows_stays_there() -> None:
    """It was asked again about rows that it had turned around already, so one odd row changed what it said of all others."""

    def rule(X: Any) -> Any:
        X *= -1.0
        if np.any(X == -ODD):
            raise ValueError("secret")
        return X[:, 0] > 0

    rules, rows = Rules([rule, lambda X: X[:, 0] > 0], classes=(0, 1)), X.copy()
    before = rules.predictions(rows, 0, 2)
    assert np.array_equal(rows, X) and np.array_equal(before[:, 0], 1 - before[:, 1])
    found = rules.predictions(odd_rows(), 0, 2)
    assert np.array_equal(np.delete(found, [3, 8], axis=0), np.delete(before, [3, 8], axis=0)) and found[3, 0] == -1


def test_how_many_rules_are_asked_at_once_is_no_matter_of_the_rows() -> None:
    """One more row moves every count of mistakes by at most 1, also where a function fails on others for one of the rules."""
    count, bad = 1100, 524  # once asked together with the rules before it of 7,989 rows, and of 7,990 rows no longer

    def asked(rows: Any, start: int, stop: int) -> Any:
        if np.any(rows == ODD) and start <= bad < stop:
            raise ValueError("secret")
        return np.zeros((len(rows), stop - start))

    rules, rows = Rules(asked, count, classes=(0, 1)), np.zeros((7990, 1))
    rows[:50] = ODD
    counts = [rules.errors(rows[:n], np.zeros(n), np.ones(n)) for n in (7989, 7990)]
    assert counts[0][bad] == 50 and np.max(np.abs(counts[0] - counts[1])) <= 1


def test_one_row_that_fails_costs_few_questions() -> None:
    asked: list[int] = []

    def rule(X: Any) -> Any:
        asked.append(len(X))
        if np.any(X == ODD):
            raise ValueError("secret")
        return X[:, 0] > 0

    rows = np.zeros((8192, 1))
    rows[4567] = ODD
    found = Rules([rule], classes=(0, 1)).predictions(rows, 0, 1)[:, 0]
    assert np.flatnonzero(found == -1).tolist() == [4567] and len(asked) <= 2 + 2 * 13
