"""Terms of `scaled-inference`: weighted scores, their two matrices, and two numbers.

A row is u = r·z with z = (scale∘(x - shift), 1). It has a score ψ with |ψ| ≤ t, a curvature v in [0, v_max], and the weight

    ω = min(1, (R/‖u‖)²)

The square bounds what the row adds to the gradient *and* to both matrices, without capping a feature or cutting a slope:

| term            | one row adds   | bound                                                 | null one row | replace one row |
|-----------------|----------------|-------------------------------------------------------|--------------|-----------------|
| ScoreSum        | ω·ψ·u          | t·min(‖u‖, R²/‖u‖) ≤ t·R                              | t·R          | 2·t·R           |
| CurvatureMatrix | ω·v·uuᵀ        | ‖·‖_F = v·min(‖u‖², R²) ≤ v_max·R²                    | v_max·R²     | √2·v_max·R²     |
| ScoreMatrix     | ω²·ψ²·uuᵀ      | ‖·‖_F = ψ²·min(‖u‖, R²/‖u‖)² ≤ t²R²                   | t²R²         | √2·t²R²         |
| ScaleNumbers    | ωψ²/t², ωv/v_max | both in [0, 1]                                      | √2           | √2              |

√2 and not 2 for matrices: X, Y ≽ 0 have tr(XY) ≥ 0, so ‖X - Y‖_F² ≤ ‖X‖_F² + ‖Y‖_F². The two numbers stay in a square of side 1,
whose diagonal is √2, whichever row takes whose place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from scipy.special import expit

from dperm.problem.arrays import Vector
from dperm.rows.base import Block
from dperm.rows.exact import Counted, whole
from dperm.terms.affine import Features, settled
from dperm.terms.gridded import Grid, Pulled, gridded, scaled
from dperm.terms.moments import Moments, row_weights
from dperm.terms.statistics import present


class Scored(NamedTuple):
    """Of every row: r (u = r·z), ψ and v; `importance` in [0, 1] is its weight over the largest one."""

    stretch: Vector
    slope: Vector
    curvature: Vector
    importance: Vector | float = 1.0


class Bounded(Protocol):
    """A score at θ, with the bounds that it keeps for every row whatever its features and label."""

    @property
    def features(self) -> Features: ...

    @property
    def theta(self) -> Vector: ...

    @property
    def slope_bound(self) -> float: ...

    @property
    def curvature_bound(self) -> float: ...


class Score(Bounded, Protocol):
    """That of a model with one margin."""

    def rows(self, block: Block) -> Scored: ...


def _margins(score: Score, block: Block) -> Vector:
    return gridded(block, score.features).margins(score.theta)


def clipped(residual: Vector, bound: float) -> tuple[Vector, Vector]:
    """Residuals cut at ±bound, and 1 where they were not."""
    return np.clip(residual, -bound, bound), (np.abs(residual) <= bound).astype(np.float64)


@dataclass(frozen=True, eq=False)
class LogisticScore:
    """ψ = p - 1{y > 0}, v = min(p(1 - p), v_max): |ψ| ≤ 1, v ≤ v_max ≤ 1/4."""

    features: Features
    theta: Vector
    curvature_bound: float = 0.25
    slope_bound: ClassVar[float] = 1.0

    def rows(self, block: Block) -> Scored:
        p = expit(_margins(self, block))
        return Scored(np.ones(len(p)), p - (np.asarray(block.y) > 0), np.minimum(p * (1.0 - p), self.curvature_bound))


@dataclass(frozen=True, eq=False)
class ResidualScore:
    """ψ = residual clipped at ±k, v = 1 where it is not clipped."""

    features: Features
    theta: Vector
    slope_bound: float  # k
    curvature_bound: ClassVar[float] = 1.0

    def rows(self, block: Block) -> Scored:
        residual = _margins(self, block) - np.asarray(block.y, dtype=np.float64)
        return Scored(np.ones(len(residual)), *clipped(residual, self.slope_bound))


@dataclass(frozen=True, eq=False)
class QuantileScore:
    """ψ = clip((residual/h + 1)/2, 0, 1) - q, v = 1/(2h) where it is not clipped: |ψ| ≤ max(q, 1 - q)."""

    features: Features
    theta: Vector
    level: float
    width: float

    @property
    def slope_bound(self) -> float:
        return max(self.level, 1.0 - self.level)

    @property
    def curvature_bound(self) -> float:
        return 0.5 / self.width

    def rows(self, block: Block) -> Scored:
        residual = _margins(self, block) - np.asarray(block.y, dtype=np.float64)
        below = np.clip((residual / self.width + 1.0) / 2.0, 0.0, 1.0)
        inside = np.abs(residual) <= self.width
        return Scored(np.ones(len(residual)), below - self.level, np.asarray(inside * self.curvature_bound))


@dataclass(frozen=True, eq=False)
class CountScore:
    """u = √(weight·e^η)·z and the Pearson residual √weight·(e^{η/2} - (y/ȳ)·e^{-η/2}), clipped at ±k.

    Unclipped and unweighted, ψ·u = weight·(e^η - y/ȳ)·z is the Poisson score and uuᵀ its curvature, in units of the mean rate ȳ.
    The weight is the exposure, cut into [0, heaviest]. Where rows have sample weights (`important`) it is exposure times sample
    weight, in units of its released mean. Clip and ω come after it, so no bound depends on it.
    """

    features: Features
    theta: Vector
    slope_bound: float  # k
    rate: float
    lowest: float
    highest: float
    heaviest: float = 1.0
    unit: float = 1.0
    important: bool = False
    curvature_bound: ClassVar[float] = 1.0

    def residuals(self, block: Block) -> tuple[Vector, Vector]:
        """(√(weight·e^η), Pearson residual)."""
        half = np.clip(_margins(self, block), self.lowest, self.highest) / 2.0
        root = np.sqrt(row_weights(block, self.heaviest) / self.unit)
        up = np.exp(half)
        return root * up, root * (up - np.asarray(block.y, dtype=np.float64) / (self.rate * up))

    def rows(self, block: Block) -> Scored:
        stretch, residual = self.residuals(block)
        share = row_weights(block, self.heaviest) / self.heaviest if self.important else 1.0
        return Scored(stretch, *clipped(residual, self.slope_bound), share)

    def __call__(self, block: Block) -> Vector:
        """The measure of a histogram: |Pearson residual|."""
        return np.abs(self.residuals(block)[1])


@dataclass(frozen=True, eq=False)
class WeightedScore:
    """Another score on rows with sample or class weights, in units of the largest: a = weight/heaviest, cut into [0, 1].

    A weighted row has the score a·ψ·z and the curvature a·v·zzᵀ. With u = √a·z and ψ' = √a·ψ these are ψ'·u and v·uuᵀ, and since
    a ≤ 1 no bound changes: |ψ'| ≤ t, v ≤ v_max. Dividing all weights by one number does not move the root.
    """

    score: Score
    heaviest: float

    @property
    def features(self) -> Features:
        return self.score.features

    @property
    def theta(self) -> Vector:
        return self.score.theta

    @property
    def slope_bound(self) -> float:
        return self.score.slope_bound

    @property
    def curvature_bound(self) -> float:
        return self.score.curvature_bound

    def rows(self, block: Block) -> Scored:
        share = row_weights(block, self.heaviest) / self.heaviest
        root, plain = np.sqrt(share), self.score.rows(block)
        return Scored(plain.stretch * root, plain.slope * root, plain.curvature, share)


def weighted(score: Score, radius: float, block: Block) -> tuple[Scored, Vector]:
    """The rows' scores and ω = min(1, (R/‖u‖)²), 0 for a null row."""
    rows = score.rows(block)
    return rows, weight_of(score, radius, block, rows.stretch)


def weight_of(score: Bounded, radius: float, block: Block, stretch: Vector) -> Vector:
    """ω of rows u = stretch·z."""
    lengths = stretch * gridded(block, score.features).norms
    return np.asarray(present(block) * np.minimum(1.0, radius / np.maximum(lengths, 1e-150)) ** 2)


@dataclass(frozen=True, eq=False)
class WeightedSum(Pulled):
    """Σ ω·(score of a row). **Sensitivity** κ·t·R: the left factors are cut so that no row is longer."""

    score: Bounded
    radius: float

    @property
    def features(self) -> Features:  # type: ignore[override]
        return self.score.features

    @property
    def longest(self) -> float:
        return self.score.slope_bound * self.radius


@dataclass(frozen=True, eq=False)
class ScoreSum(WeightedSum):
    """Σ ω·ψ·u. **Sensitivity** κ·t·R."""

    score: Score

    def slopes(self, block: Block, grid: Grid) -> Vector:
        rows, weight = weighted(self.score, self.radius, block)
        return np.asarray(weight * rows.slope * rows.stretch)


@dataclass(frozen=True, eq=False)
class MatrixTerm(Moments):
    """svec(Σ f²·zzᵀ) with f·z in the ball of radius √row_bound.

    Both factors are the same whole numbers, so what a row adds is positive semidefinite: the √2 of a replaced row rests on it.
    """

    score: Score
    radius: float

    def roots(self, rows: Scored, weight: Vector) -> Vector:
        """f of every row."""
        raise NotImplementedError

    def vectors(self, block: Block) -> Vector:
        return scaled(self.score.features.dense(block.X), settled(self.roots(*weighted(self.score, self.radius, block))))


@dataclass(frozen=True, eq=False)
class CurvatureMatrix(MatrixTerm):
    """svec(Σ ω·v·uuᵀ). **Sensitivity** v_max·R², √2 times that for a replaced row."""

    def roots(self, rows: Scored, weight: Vector) -> Vector:
        return np.asarray(np.sqrt(weight * rows.curvature) * rows.stretch)

    @property
    def row_bound(self) -> float:
        return self.score.curvature_bound * self.radius**2


@dataclass(frozen=True, eq=False)
class ScoreMatrix(MatrixTerm):
    """svec(Σ ω²·ψ²·uuᵀ). **Sensitivity** t²R², √2 times that for a replaced row."""

    def roots(self, rows: Scored, weight: Vector) -> Vector:
        return np.asarray(weight * rows.slope * rows.stretch)

    @property
    def row_bound(self) -> float:
        return (self.score.slope_bound * self.radius) ** 2


@dataclass(frozen=True, eq=False)
class ScaleNumbers(Counted):
    """(Σ ωψ²/t², Σ ωv/v_max), each times the row's importance. **Sensitivity** √2 under every relation: one row's pair moves
    inside the unit square."""

    score: Score
    radius: float

    def tally(self, block: Block) -> Vector:
        rows, weight = weighted(self.score, self.radius, block)
        shares = ((rows.slope / self.score.slope_bound) ** 2, rows.curvature / self.score.curvature_bound)
        return np.array([np.sum(whole(weight * rows.importance * share, 1.0)) for share in shares])

    @property
    def unit(self) -> float:
        """t²/v_max, by which the ratio of the two is the ratio of squared scores to curvatures."""
        return self.score.slope_bound**2 / self.score.curvature_bound

    def sensitivity(self, relation: str) -> float:
        return math.sqrt(2.0)
