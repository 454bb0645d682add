"""Curves pulled towards their line, as far as the noise of the descent explains them: post-processing, and nothing is paid.

What a column adds to a prediction is g = a + b·x + r(x) over its 257 places, r being what no line explains, in mean square
under the released marginal. r is seen with noise of a known covariance (`descent_noise.py`, each column by itself). Before it
is seen it is taken to be s times a Brownian curve, the kernel of the basis, so its mean given what was seen is

    r̂ = s²K(s²K + Γ)⁻¹·r,   s the most likely one: maximal density of r under N(0, s²K + Γ)

(empirical Bayes, as James and Stein's factor is). a and b stay what they are, to the last digit. A column whose curve is no
more than its noise has s = 0 and becomes a line; one that stands out keeps what it has and loses its roughest noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dperm.mechanisms.scaled.descent_noise import moved_by
from dperm.mechanisms.scaled.settings import MOMENTUM
from dperm.mechanisms.scaled.smoothness import Column
from dperm.release.plan import Settings, Vector

SCALES = np.append(0.0, np.geomspace(1e-3, 1e18, 2101))  # of s², where the best known component of r has noise 1
ROUNDING = 1e-12  # of the mean variance, added to each
FAINTEST = 1e-6  # components of r smaller than this part of the largest are rounding


@dataclass(frozen=True)
class Wandering:
    """The noise of one descent: `unit` standard deviation of a step's mean gradient, `curvature` h of the loss, and its settings
    (steps, step size, when curves begin); `slope` variance of the mean slope, because the rows are a sample (0: not counted)."""

    unit: float
    curvature: float
    settings: Settings
    slope: float = 0.0

    def variances(self, curvatures: Vector) -> Vector:
        """Of the kept mean, along directions with that mean square of the features: noise is drawn at every step, the sample
        once for all, and a direction sees it in proportion to its mean square."""
        steps, step, first = (self.settings[name] for name in ("steps", "step_size", "second_clip_at"))
        stable = 2.0 * (1.0 + MOMENTUM) / step
        unit = min(max(self.unit, 1e-60), 1e60)  # squares of squares stay numbers
        moved = moved_by(np.clip(self.curvature * curvatures, 0.0, stable), steps, step, first or 0)
        return np.asarray(unit**2 * moved.squares + self.slope * np.maximum(curvatures, 0.0) * moved.sums**2)


@dataclass(frozen=True, eq=False)
class Beside:
    """What of one column no line explains, in components of unit noise: seen = `look`·θ with θ its slope and its curve, each of
    the variance `signal` for s = 1; `back` takes a change of them to one of (the intercept, slope, curve)."""

    look: Vector
    signal: Vector
    back: Vector

    def strength(self, theta: Vector) -> float:
        """s², the most likely one."""
        return most_likely(self.look @ theta, self.signal)

    def change(self, strength: float) -> Vector:
        """The matrix from (slope, curve) to what the pull adds to (the intercept, slope, curve)."""
        gone = -1.0 / (1.0 + max(strength, 0.0) * self.signal)
        return np.asarray((self.back * gone) @ self.look)

    def kept(self, strength: float, part: float = 1.0) -> Vector:
        """The matrix from (slope, curve) to what is left of them after a part of the pull."""
        return np.asarray(np.eye(self.look.shape[1]) + part * self.change(strength)[1:])


def strengths(theta: Vector, beside: Sequence[Beside], places: Sequence[Sequence[int]]) -> list[float]:
    """s² of every column; `places` are those of its slope and curve in θ."""
    return [part.strength(theta[list(own)]) for part, own in zip(beside, places)]


def pulled(
    theta: Vector, beside: Sequence[Beside], places: Sequence[Sequence[int]], found: Sequence[float], middle: int
) -> Vector:
    """θ with every curve pulled to its line; `middle` is the place of the intercept."""
    answer = theta.copy()
    for part, own, strength in zip(beside, places, found):
        answer[[middle, *own]] += part.change(strength) @ theta[list(own)]
    return answer


def beside_lines(columns: Sequence[Column], tables: Vector, lines: Vector, noise: Wandering) -> list[Beside]:
    """`tables` holds √λ_k·e_k at the 257 places of each column, `lines` its scaled number there."""
    features = [np.column_stack([line, table]) for line, table in zip(lines, tables)]
    turns = [np.linalg.eigh((own * column.places[:, None]).T @ own) for own, column in zip(features, columns)]
    variances = noise.variances(np.array([values for values, _ in turns]))
    found = zip(columns, features, turns, variances)
    return [_beside(column, own, (vectors * spread) @ vectors.T) for column, own, (_, vectors), spread in found]


def _beside(column: Column, features: Vector, covariance: Vector) -> Beside:
    root = np.sqrt(np.maximum(column.places, 0.0))[:, None]
    whole = np.column_stack([root, features * root])
    line, _ = np.linalg.qr(whole[:, :2])
    basis, sizes, turn = np.linalg.svd(whole[:, 1:] - line @ (line.T @ whole[:, 1:]), full_matrices=False)
    some = sizes > max(FAINTEST * sizes[0], 1e-9)  # none where the marginal leaves no room for a curve
    basis, turn = basis[:, some], sizes[some, None] * turn[some]
    spread, own = turn @ covariance @ turn.T, np.eye(int(some.sum()))
    half = np.linalg.cholesky(spread + ROUNDING * max(np.trace(spread), 1e-300) / max(len(own), 1) * own)
    weight = np.append(column.eigenvalues, 1.0 if column.missing > 0 else 0.0)
    prior = np.linalg.solve(half, basis.T @ (column.functions * np.sqrt(weight) * root))
    signal, axes = np.linalg.eigh(prior @ prior.T)
    look = axes.T @ np.linalg.solve(half, turn)
    return Beside(look, np.maximum(signal, 0.0), np.linalg.pinv(whole, rcond=1e-8) @ basis @ half @ axes)


def most_likely(seen: Vector, signal: Vector) -> float:
    """s² at which components of unit noise have the largest density, each with the variance 1 + s²κ, κ its `signal`.

    >>> most_likely(np.array([0.5, -0.5]), np.array([1.0, 1.0])), round(most_likely(np.array([10.0]), np.array([1.0])))
    (0.0, 100)
    """
    largest = float(np.max(signal, initial=0.0))
    if largest < 1e-250:  # the marginal leaves no room for a curve
        return 0.0
    scales = SCALES / largest
    spread = scales[:, None] * signal
    return float(scales[int(np.argmin(np.sum(seen**2 / (1.0 + spread) + np.log1p(spread), axis=1)))])
