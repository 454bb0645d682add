"""The matrix of persons' summed scores, for intervals of people who have several rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dperm.privacy import kappa
from dperm.problem.arrays import Vector
from dperm.rows.base import Block
from dperm.terms.affine import settled
from dperm.terms.gridded import scaled
from dperm.terms.inference import Score, weighted
from dperm.terms.moments import Moments
from dperm.terms.softmax import SoftmaxScore


@dataclass(frozen=True, eq=False)
class PersonScores(Moments):
    """svec(Σ_persons S·Sᵀ), S = Σ s_i the sum of a person's scores s_i = ω·ψ·u (ω·s ⊗ u for several classes), at most k of them.

    ‖s_i‖ ≤ t·R, so ‖S‖ ≤ k·t·R, where it is cut once more, and ‖SSᵀ‖_F ≤ (k·t·R)²; √2 times that for a person who is replaced.
    **Sensitivity** is said per row, k·t²R², because a plan multiplies it by the k rows of a person. Blocks hold all rows of their
    persons (`Block.person`), so what a person adds is a function of that person's rows, wherever they stand.
    """

    score: Score | SoftmaxScore
    radius: float
    most: int

    def single(self, block: Block) -> Vector:
        """The scores of every row; a row with an entry that is no finite number has none."""
        score = self.score
        if isinstance(score, SoftmaxScore):
            found = score.vectors(block, self.radius)
        else:
            rows, weight = weighted(score, self.radius, block)
            found = scaled(score.features.dense(block.X), settled(np.asarray(weight * rows.slope * rows.stretch)))
        return scaled(np.nan_to_num(found, posinf=0.0, neginf=0.0), np.all(np.isfinite(found), axis=1).astype(np.float64))

    def vectors(self, block: Block) -> Vector:
        if block.person is None:
            raise ValueError("Expected rows in the order of persons, found rows without owners. Nothing was released.")
        sums = self.single(block)
        if len(sums):
            first = np.flatnonzero(np.diff(block.person, prepend=block.person[:1] - 1))
            sums = np.add.reduceat(sums, first, axis=0)
        return sums

    def sensitivity(self, relation: str) -> float:
        return math.sqrt(kappa(relation)) * self.row_bound / self.most

    @property
    def row_bound(self) -> float:
        return (self.most * self.score.slope_bound * self.radius) ** 2
