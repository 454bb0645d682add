"""Noise of large sums is drawn while rows are summed: never before its stage is booked, and with the answers of before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dperm.mechanisms import Gradient, Target
from dperm.problem import DataBounds, Interval, MultinomialLoss, Problem, Ridge
from dperm.release import driver
from dperm.release.noise import SeededNoise
from dperm.rows.memory import MemoryRows
from dperm.walk.fitting import fit

K, D = 3, 8


def problem() -> Problem:
    return Problem(MultinomialLoss(K), Ridge(1e-3), data=DataBounds(1.0, Interval(0, K - 1)))


def rows() -> MemoryRows:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, D))
    return MemoryRows(X / np.linalg.norm(X, axis=1, keepdims=True), rng.integers(0, K, 50))


class Told(SeededNoise):
    """A seeded source that says when it is asked."""

    def __init__(self, seed: int, told: list[str]) -> None:
        super().__init__(seed)
        self.told = told

    def normal(self, scale: float, size: Any) -> np.ndarray:
        self.told.append("drawn")
        return super().normal(scale, size)


def coefficients(told: list[str], **options: Any) -> np.ndarray:
    target = Target(1.0, 1e-5, "zero-out")
    return fit(problem(), rows(), target, Gradient(steps=4, clip=0.5), noise=Told(3, told), **options).w


def test_noise_ahead_gives_the_same_answer_and_never_comes_before_its_booking(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = coefficients([])
    monkeypatch.setattr(driver, "MANY", 1)
    told: list[str] = []
    assert np.array_equal(coefficients(told, on_book=lambda event: told.append("booked")), expected)
    assert told == ["booked", *["drawn"] * 4]


def test_rows_that_fail_cost_nothing_also_where_noise_is_drawn_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "MANY", 1)
    told: list[str] = []

    def fail(self: MemoryRows, term: Any, step: float) -> Any:
        raise OSError("unreadable")

    monkeypatch.setattr(MemoryRows, "sum", fail)
    with pytest.raises(OSError, match="unreadable"):
        coefficients(told, on_book=lambda event: told.append("booked"))
    assert told == []
