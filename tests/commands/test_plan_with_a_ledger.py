"""What `dperm plan --ledger` says is left agrees with what it says fits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dperm
from command_line import run

PLAN = ("plan", "--n", "100", "--d", "3")


@pytest.fixture
def book(tmp_path: Path) -> dperm.Ledger:
    ledger = dperm.Ledger.create(tmp_path / "l", dataset="x", epsilon=3.0, delta=1e-5)
    ledger.debit(dperm.LogisticRegression(1.0, 1e-6, bounds=(0, 1), classes=[0, 1], method="gradient").plan(100, 3))
    return ledger


def test_what_is_left_is_said_at_the_delta_that_is_asked(book: dperm.Ledger) -> None:
    """It was said at the delta of the ledger: "about epsilon 2.76 is left and 2.9 is asked", and there was room."""
    code, said = run(*PLAN, "--epsilon", "2.9", "--delta", "1e-6", "--method", "gradient", "--ledger", book.path)
    found = re.search(r"there is room; about epsilon (\S+) is left and 2\.9 is asked", " ".join(said.split()))
    assert code == 0 and found is not None and float(found[1]) > 2.9


def test_a_fit_of_other_noise_is_not_told_that_enough_is_left(book: dperm.Ledger) -> None:
    """A refusal named more as left, for Gaussian fits, than was asked for, and said to ask for less."""
    words = (*PLAN, "--epsilon", "2.9", "--delta", "1e-6", "--method", "objective", "--ledger", book.path)
    code, said = run(*words)
    assert code == 2 and "This fit draws other noise, which takes more: ask for less, or for a method with Gaussian noise" in said
    assert "other noise" not in run(*PLAN, "--epsilon", "4", "--method", "gradient", "--ledger", book.path)[1]


def test_a_pure_fit_that_fits_is_not_said_to_ask_for_more_than_is_left(tmp_path: Path) -> None:
    ledger = dperm.Ledger.create(tmp_path / "l", dataset="x", epsilon=1.0, delta=1e-9, rule="renyi")
    ledger.debit(dperm.LogisticRegression(0.3, 1e-10, bounds=(0, 1), classes=[0, 1], method="gradient").plan(5000, 2))
    words = ("--epsilon", "0.6", "--delta", "1e-5", "--method", "output", "--ledger", ledger.path)
    code, said = run("plan", "--n", "5000", "--d", "2", *words)
    assert code == 0 and "there is room; enough is left and 0.6 is asked" in " ".join(said.split())
