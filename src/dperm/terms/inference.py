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
from typing import TYPE_CHECKING, ClassVar, NamedTuple

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


class Bounded:
    """A score at θ, with the bounds that it keeps for every row whatever its features and label."""

    if TYPE_CHECKING:  # plain attributes in some classes, properties in others

        @property
        def features(self) -> Features: ...

        @property
        def slope_bound(self) -> float: ...

        @property
        def curvature_bound(self) -> float: ...

        @property
        def outputs(self) -> int: ...

    def slopes(self, block: Block, radius: float) -> Vector:
        """ω·ψ·r of every row, so that the row adds this times z: one number, or one for each of several outputs."""
        raise NotImplementedError

    def vectors(self, block: Block, radius: float) -> Vector:
        """ω·ψ·u of every row, ω·s ⊗ u for several outputs."""
        return crossed(settled(self.slopes(block, radius)), self.features.dense(block.X))


class Score(Bounded):
    """That of a model with one margin."""

    outputs: ClassVar[int] = 1

    def rows(self, block: Block) -> Scored:
        raise NotImplementedError

    def weighted(self, block: Block, radius: float) -> tuple[Scored, Vector]:
        """The rows' scores and ω = min(1, (R/‖u‖)²), 0 for a null row."""
        rows = self.rows(block)
        return rows, weight_of(self, radius, block, rows.stretch)

    def slopes(self, block: Block, radius: float) -> Vector:
        rows, weight = self.weighted(block, radius)
        return np.asarray(weight * rows.slope * rows.stretch)


@dataclass(frozen=True, eq=False)
class PlainScore(Score):
    """One of features and θ, as the descent sees them."""

    features: Features
    theta: Vector

    def margins(self, block: Block) -> Vector:
        return gridded(block, self.features).margins(self.theta)


def clipped(residual: Vector, bound: float) -> tuple[Vector, Vector]:
    """Residuals cut at ±bound, and 1 where they were not."""
    return np.clip(residual, -bound, bound), (np.abs(residual) <= bound).astype(np.float64)


@dataclass(frozen=True, eq=False)
class LogisticScore(PlainScore):
    """ψ = p - 1{y > 0}, v = min(p(1 - p), v_max): |ψ| ≤ 1, v ≤ v_max ≤ 1/4."""

    curvature_bound: float = 0.25
    slope_bound: ClassVar[float] = 1.0

    def rows(self, block: Block) -> Scored:
        p = expit(self.margins(block))
        return Scored(np.ones(len(p)), p - (np.asarray(block.y) > 0), np.minimum(p * (1.0 - p), self.curvature_bound))


@dataclass(frozen=True, eq=False)
class ResidualScore(PlainScore):
    """ψ = residual clipped at ±k, v = 1 where it is not clipped."""

    slope_bound: float  # k
    curvature_bound: ClassVar[float] = 1.0

    def rows(self, block: Block) -> Scored:
        residual = self.margins(block) - np.asarray(block.y, dtype=np.float64)
        return Scored(np.ones(len(residual)), *clipped(residual, self.slope_bound))


@dataclass(frozen=True, eq=False)
class QuantileScore(PlainScore):
    """ψ = 1{residual > 0} - q, half of the step where it is 0; v = 1/(2h) where |residual| ≤ h: |ψ| ≤ max(q, 1 - q).

    Not `sharp`, as in versions up to 0.7.0: ψ = clip((residual/h + 1)/2, 0, 1) - q, the score of the smoothed quantile.
    """

    level: float
    width: float
    sharp: bool = False

    @property
    def slope_bound(self) -> float:
        return max(self.level, 1.0 - self.level)

    @property
    def curvature_bound(self) -> float:
        return 0.5 / self.width

    def rows(self, block: Block) -> Scored:
        residual = self.margins(block) - np.asarray(block.y, dtype=np.float64)
        below = np.heaviside(residual, 0.5) if self.sharp else np.clip((residual / self.width + 1.0) / 2.0, 0.0, 1.0)
        inside = np.abs(residual) <= self.width
        return Scored(np.ones(len(residual)), below - self.level, np.asarray(inside * self.curvature_bound))


@dataclass(frozen=True, eq=False)
class CountScore(PlainScore):
    """u = √(weight·e^η)·z and the Pearson residual √weight·(e^{η/2} - (y/ȳ)·e^{-η/2}), clipped at ±k.

    Unclipped and unweighted, ψ·u = weight·(e^η - y/ȳ)·z is the Poisson score and uuᵀ its curvature, in units of the mean rate ȳ.
    The weight is the exposure, cut into [0, heaviest]. Where rows have sample weights (`important`) it is exposure times sample
    weight, in units of its released mean. Clip and ω come after it, so no bound depends on it.
    """

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
        half = np.clip(self.margins(block), self.lowest, self.highest) / 2.0
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
class WeightedScore(Score):
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
    def slope_bound(self) -> float:
        return self.score.slope_bound

    @property
    def curvature_bound(self) -> float:
        return self.score.curvature_bound

    def rows(self, block: Block) -> Scored:
        share = row_weights(block, self.heaviest) / self.heaviest
        root, plain = np.sqrt(share), self.score.rows(block)
        return Scored(plain.stretch * root, plain.slope * root, plain.curvature, share)


def weight_of(score: Bounded, radius: float, block: Block, stretch: Vector) -> Vector:
    """ω of rows u = stretch·z."""
    lengths = stretch * gridded(block, score.features).norms
    return np.asarray(present(block) * np.minimum(1.0, radius / np.maximum(lengths, 1e-150)) ** 2)


def crossed(left: Vector, rows: Vector) -> Vector:
    """left ⊗ row of every row."""
    left = left if left.ndim == 2 else left[:, None]
    return np.asarray((left[:, :, None] * rows[:, None, :]).reshape(len(rows), left.shape[1] * rows.shape[1]))


@dataclass(frozen=True, eq=False)
class ScoreSum(Pulled):
    """Σ ω·ψ·u. **Sensitivity** κ·t·R: the left factors are cut so that no row is longer."""

    score: Bounded
    radius: float

    @property
    def features(self) -> Features:  # type: ignore[override]
        return self.score.features

    @property
    def longest(self) -> float:
        return self.score.slope_bound * self.radius

    @property
    def outputs(self) -> int:
        return self.score.outputs

    def slopes(self, block: Block, grid: Grid) -> Vector:
        return self.score.slopes(block, self.radius)


# Both factors of a matrix are the same whole numbers, so what a row adds is positive semidefinite: the √2 of a replaced row
# rests on it.
@dataclass(frozen=True, eq=False)
class CurvatureMatrix(Moments):
    """svec(Σ ω·v·uuᵀ). **Sensitivity** v_max·R², √2 times that for a replaced row."""

    score: Score
    radius: float

    def vectors(self, block: Block) -> Vector:
        rows, weight = self.score.weighted(block, self.radius)
        return crossed(settled(np.sqrt(weight * rows.curvature) * rows.stretch), self.score.features.dense(block.X))

    @property
    def row_bound(self) -> float:
        return self.score.curvature_bound * self.radius**2


@dataclass(frozen=True, eq=False)
class ScoreMatrix(Moments):
    """svec(Σ ω²·ψ²·uuᵀ). **Sensitivity** t²R², √2 times that for a replaced row."""

    score: Bounded
    radius: float

    def vectors(self, block: Block) -> Vector:
        return self.score.vectors(block, self.radius)

    @property
    def row_bound(self) -> float:
        return (self.score.slope_bound * self.radius) ** 2


@dataclass(frozen=True, eq=False)
class PersonScores(ScoreMatrix):
    """svec(Σ_persons S·Sᵀ), S = Σ s_i the sum of a person's scores s_i = ω·ψ·u (ω·s ⊗ u for several classes), at most k of them.

    ‖s_i‖ ≤ t·R, so ‖S‖ ≤ k·t·R, where it is cut once more, and ‖SSᵀ‖_F ≤ (k·t·R)²; √2 times that for a person who is replaced.
    **Sensitivity** is said per row, k·t²R², because a plan multiplies it by the k rows of a person. Blocks hold all rows of their
    persons (`Block.person`), so what a person adds is a function of that person's rows, wherever they stand.
    """

    most: int

    def vectors(self, block: Block) -> Vector:
        if block.person is None:
            raise ValueError("Expected rows in the order of persons, found rows without owners. Nothing was released.")
        found = super().vectors(block)  # a row with an entry that is no finite number has no scores
        sums = scaled(np.nan_to_num(found, posinf=0.0, neginf=0.0), np.all(np.isfinite(found), axis=1).astype(np.float64))
        if len(sums):
            first = np.flatnonzero(np.diff(block.person, prepend=block.person[:1] - 1))
            sums = np.add.reduceat(sums, first, axis=0)
        return sums

    def sensitivity(self, relation: str) -> float:
        return super().sensitivity(relation) / self.most

    @property
    def row_bound(self) -> float:
        return (self.most * self.score.slope_bound * self.radius) ** 2


@dataclass(frozen=True, eq=False)
class ScaleNumbers(Counted):
    """(Σ ωψ²/t², Σ ωv/v_max), each times the row's importance. **Sensitivity** √2 under every relation: one row's pair moves
    inside the unit square."""

    score: Score
    radius: float

    def tally(self, block: Block) -> Vector:
        rows, weight = self.score.weighted(block, self.radius)
        shares = ((rows.slope / self.score.slope_bound) ** 2, rows.curvature / self.score.curvature_bound)
        return np.array([np.sum(whole(weight * rows.importance * share, 1.0)) for share in shares])

    @property
    def unit(self) -> float:
        """t²/v_max, by which the ratio of the two is the ratio of squared scores to curvatures."""
        return self.score.slope_bound**2 / self.score.curvature_bound

    def sensitivity(self, relation: str) -> float:
        return math.sqrt(2.0)
