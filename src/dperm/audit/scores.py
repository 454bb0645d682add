"""Tests that guess which of two neighbouring data sets produced an outcome, fitted on one half of the trials.

A score is a number per outcome, larger for "neighbour"; a threshold turns it into a test. All of the choosing happens on the
first half, so that the counts on the second half are those of one fixed test.

A fitted direction separates the very trials it was fitted on, in a hundred dimensions perfectly and for no reason. So fitted
scores are compared by cross-fitting: each half of the choosing trials is scored by the direction fitted on its other half.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dperm.audit.bounds import claimed_profile, epsilon_from_rates, limits, mu_lower, profile_gap
from dperm.privacy import Guarantee
from dperm.problem.arrays import Vector

Matrix = NDArray[np.float64]
ScoreFunction = Callable[[Matrix], Vector]
Fit = Callable[[Matrix, Matrix], ScoreFunction]


@dataclass(frozen=True)
class Test:
    """"neighbour" when function(outcome) ≥ threshold."""

    __test__ = False  # not a pytest class

    name: str
    function: ScoreFunction
    threshold: float

    def errors(self, data: Matrix, neighbour: Matrix) -> tuple[int, int]:
        """(false positives on the data, false negatives on the neighbour)."""
        on_data = self.function(data) >= self.threshold
        on_neighbour = self.function(neighbour) >= self.threshold
        return int(on_data.sum()), int((~on_neighbour).sum())


def candidates(data: Matrix, neighbour: Matrix, *, columns: int = 12, centers: int = 15) -> list[tuple[str, ScoreFunction]]:
    """Scores worth trying: columns, the linear and the quadratic discriminant, and closeness to a point.

    Closeness finds leaks that a direction cannot: an output near 0 may be likely under one data set and rare under its neighbour.
    """
    pooled = np.concatenate([data, neighbour])
    moving = np.flatnonzero(pooled.max(axis=0) > pooled.min(axis=0))
    if len(moving) == 0:
        return [("constant", lambda outcomes: np.zeros(len(outcomes)))]
    shift = neighbour.mean(axis=0) - data.mean(axis=0)
    spread = 0.5 * (data.std(axis=0) + neighbour.std(axis=0))
    strength = np.abs(shift) / np.maximum(spread, 1e-300 + 1e-12 * np.abs(pooled).max(axis=0))
    ranked = moving[np.argsort(-strength[moving], kind="stable")][:columns]
    found: list[tuple[str, ScoreFunction]] = [(f"column {j}", _column(j)) for j in ranked]
    near: list[tuple[str, ScoreFunction]] = found[:3]
    if len(moving) > 1:
        linear = Fitted.of(_linear, data, neighbour)
        found, near = [*found, ("linear discriminant", linear)], [("linear discriminant", linear), *near]
        if len(moving) <= 16:
            found.append(("quadratic discriminant", Fitted.of(partial(_quadratic, moving=moving), data, neighbour)))
    for name, score in near:
        places = np.concatenate(choosing_scores(score, data, neighbour))
        distinct = np.quantile(np.unique(places), [0.1, 0.3, 0.5, 0.7, 0.9])  # where most of the mass sits on a few atoms
        for center in np.unique(np.r_[np.quantile(places, np.linspace(0.02, 0.98, centers)), distinct]):
            found.append((f"distance of {name} from {center:.4g}", _close(score, float(center))))
    return found + [(f"minus {name}", _changed(score, np.negative)) for name, score in found if not name.endswith("discriminant")]


@dataclass(frozen=True)
class Fitted:
    """A score fitted on all choosing trials, with the scores that these trials themselves get by cross-fitting."""

    score: ScoreFunction
    on_data: Vector
    on_neighbour: Vector

    @classmethod
    def of(cls, fit: Fit, data: Matrix, neighbour: Matrix) -> Fitted:
        crossed = []
        for part in (data, neighbour):
            values = np.empty(len(part))
            for fold in (0, 1):
                values[fold::2] = fit(data[1 - fold :: 2], neighbour[1 - fold :: 2])(part[fold::2])
            crossed.append(values)
        return cls(fit(data, neighbour), crossed[0], crossed[1])

    def __call__(self, outcomes: Matrix) -> Vector:
        return self.score(outcomes)


def _linear(data: Matrix, neighbour: Matrix) -> ScoreFunction:
    """The discriminant with the middle of the means at 0 and spread 1, so that scores from two fits share a scale."""
    direction = _discriminant(data, neighbour, neighbour.mean(axis=0) - data.mean(axis=0))
    sides = data @ direction, neighbour @ direction
    middle = float(sides[0].mean() + sides[1].mean()) / 2
    spread = float(sides[0].std() + sides[1].std()) / 2 or 1.0
    return lambda outcomes: np.asarray((outcomes @ direction - middle) / spread)


def _column(j: int) -> ScoreFunction:
    return lambda outcomes: np.asarray(outcomes[:, j])


def _close(score: ScoreFunction, center: float) -> ScoreFunction:
    return _changed(score, lambda values: -np.abs(values - center))


def _changed(score: ScoreFunction, change: Callable[[Vector], Vector]) -> ScoreFunction:
    if isinstance(score, Fitted):
        return Fitted(_changed(score.score, change), change(score.on_data), change(score.on_neighbour))
    return lambda outcomes: change(score(outcomes))


def choosing_scores(score: ScoreFunction, data: Matrix, neighbour: Matrix) -> tuple[Vector, Vector]:
    """Scores of the choosing trials themselves: crossed where the score was fitted on them."""
    return (score.on_data, score.on_neighbour) if isinstance(score, Fitted) else (score(data), score(neighbour))


def _discriminant(data: Matrix, neighbour: Matrix, shift: Vector) -> Vector:
    """Σ⁻¹(difference of means) after scaling columns; the tiny ridge keeps directions without noise, where reuse shows."""
    scale = np.maximum(np.sqrt(0.5 * (data.var(axis=0) + neighbour.var(axis=0))), 1e-12 * (np.abs(shift) + 1e-300))
    centred = np.concatenate([data - data.mean(axis=0), neighbour - neighbour.mean(axis=0)]) / scale
    covariance = centred.T @ centred / len(centred)
    ridge = 1e-10 * max(float(np.trace(covariance)) / len(shift), 1e-12)
    return np.asarray(np.linalg.solve(covariance + ridge * np.eye(len(shift)), shift / scale) / scale)


def _quadratic(data: Matrix, neighbour: Matrix, moving: NDArray[np.int64]) -> ScoreFunction:
    """log N(outcome; neighbour's mean and covariance) - the same for the data."""
    forms = []
    for sample in (neighbour[:, moving], data[:, moving]):
        covariance = np.atleast_2d(np.cov(sample.T))
        covariance += 1e-9 * max(float(np.trace(covariance)) / len(covariance), 1e-300) * np.eye(len(covariance))
        forms.append((sample.mean(axis=0), np.linalg.inv(covariance), np.linalg.slogdet(covariance)[1]))

    def score(outcomes: Matrix) -> Vector:
        values = []
        for mean, inverse, logdet in forms:
            gaps = outcomes[:, moving] - mean
            values.append(-0.5 * np.einsum("ij,jk,ik->i", gaps, inverse, gaps) - 0.5 * logdet)
        return np.asarray(values[0] - values[1])

    return score


def best_tests(
    data: Matrix,
    neighbour: Matrix,
    scores: list[tuple[str, ScoreFunction]],
    *,
    delta: float,
    confidence: float,
    claim: Guarantee | None,
) -> dict[str, Test]:
    """For each aim ("epsilon", "mu", and "claim" if there is one) the test whose bound is best on these trials."""
    sizes = len(data), len(neighbour)
    claimed = None if claim is None else claimed_profile(claim)
    best: dict[str, tuple[float, Test]] = {}
    for name, function in scores:
        on_data, on_neighbour = (np.sort(values) for values in choosing_scores(function, data, neighbour))
        levels = np.unique(np.quantile(np.concatenate([on_data, on_neighbour]), np.linspace(0, 1, 201)))
        # Between two values rather than on one, so that rounding of a score cannot flip a guess.
        levels = np.unique(np.r_[levels, (levels[1:] + levels[:-1]) / 2, (on_data[-1] + on_neighbour[0]) / 2])
        false_positives = sizes[0] - np.searchsorted(on_data, levels, side="left")
        false_negatives = np.searchsorted(on_neighbour, levels, side="left")
        fpr, fnr = limits(false_positives, false_negatives, sizes, confidence)
        values = {
            "epsilon": epsilon_from_rates(fpr, fnr, delta),
            "mu": mu_lower(false_positives, false_negatives, sizes, confidence=confidence),
        }
        if claimed is not None:
            values["claim"] = profile_gap(fpr, fnr, claimed)
        for aim, value in values.items():
            k = int(np.argmax(value))
            if aim not in best or value[k] > best[aim][0]:
                best[aim] = float(value[k]), Test(name, function, float(levels[k]))
    return {aim: test for aim, (_, test) in best.items()}
