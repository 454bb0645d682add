"""The curvature of a fitted problem, released: what intervals for an objective-perturbation fit rest on.

    H = Σ_i weight_i·φ''(⟨z_i, ŵ⟩, y_i)·z_i z_iᵀ + noise
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.problem import Loss, Problem
from dperm.rows.base import Block
from dperm.terms.affine import Features, settled
from dperm.terms.gridded import gridded, scaled
from dperm.terms.moments import Moments, design, row_weights

Vector = NDArray[np.float64]


def information_term(problem: Problem, w: Vector) -> InformationTerm:
    """The term for one problem at released coefficients w."""
    bound = problem.loss.bounds(math.inf, problem.data.y).curvature
    return InformationTerm(problem.loss, w, Features(problem.data.intercept), problem.row_norm, bound)


@dataclass(frozen=True, eq=False)
class InformationTerm(Moments):
    """svec(Σ weight·φ''(⟨z, w⟩, y)·zzᵀ), φ'' ≤ `curvature`, ‖z‖ ≤ norm, weights in [0, 1].

    **Sensitivity** curvature·norm² for a row nulled, added or removed, √2 times that for one replaced: the Frobenius norm of
    aaᵀ - bbᵀ with ‖a‖², ‖b‖² ≤ curvature·norm² (as for a Gram matrix).
    """

    loss: Loss
    w: Vector
    features: Features
    norm: float
    curvature: float

    def vectors(self, block: Block) -> Vector:
        margins = gridded(block, self.features).margins(self.w)
        bent = np.minimum(np.asarray(self.loss.curvature(margins, block.y), dtype=np.float64), self.curvature)
        weight = row_weights(block) * np.maximum(settled(bent), 0.0)
        return scaled(design(block, self.features), np.sqrt(weight))

    @property
    def row_bound(self) -> float:
        return self.curvature * self.norm**2
