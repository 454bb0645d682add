"""Least squares on class indicators: the coefficients of a last layer in closed form, from one release of two moments.

    A = Σ zzᵀ + noise = V diag(λ) Vᵀ,     u = diag(√(f/max(λ, f)))·Vᵀz,     s = Σ‖u‖² + noise,   m = s/n
    B = Σ clip_C(u ⊗ (e_y - 1/K)) + noise,   C = √(m·(1 - 1/K)),        W = K·V diag(√(f/max(λ, f)))·B/f

Without clip and noise W = K·V diag(1/max(λ, f)) Vᵀ·Σ z ⊗ (e_y - 1/K).

**Theorem.** Rows z are brought to length 1, each alone. A has sensitivity 1 in Frobenius norm (√2 for a replaced row), s has 1,
B has κC, by the clip. Directions and floor follow from A and public numbers, C from s. The whole is √(μ_A² + μ_s² + μ_B²) =
μ(ε, δ)-GDP. Proof, and why `auto` never takes it: `docs/theorems/least-squares.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dperm.mechanisms import heads as heads_rule
from dperm.mechanisms.conditions import check_options
from dperm.privacy import Gaussian
from dperm.problem import Problem
from dperm.release.asks import Decide, Program, Sum, unrecorded
from dperm.release.plan import Plan, Shape, Stage, Target, options_of, register
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm
from dperm.terms.heads import MeanSquare

MOMENTS_SHARE, FLOOR = 0.3, 0.15  # of μ², and of the largest eigenvalue that noise alone has
CLIP = 1.0  # in units of the root mean square row
RULE = MOMENTS_SHARE, FLOOR, CLIP


@register
@dataclass(frozen=True)
class LeastSquares(heads_rule.OnUnitRows):
    """Least squares on embeddings, with an eigenvalue floor in place of a ridge.

    share     of μ² for the second moments; 0.3 if left out
    floor     of their eigenvalues, in units of the largest that noise alone has; 0.15 if left out
    clip      of a row's part of B, in units of the root mean square row; 1 if left out

    **Guarantee**: μ(ε, δ)-GDP, hence (ε, δ), for the target's relation. Nothing is assumed of the rows.

    >>> LeastSquares().name
    'least-squares'
    """

    share: float | None = None
    floor: float | None = None
    clip: float | None = None

    name: ClassVar[str] = "least-squares"

    def __post_init__(self) -> None:
        check_options(self, positive=("floor", "clip"), parts=("share",))
        if self.share is not None and self.share >= 1 - heads_rule.SIZE_SHARE:
            raise ValueError(f"Expected share < {1 - heads_rule.SIZE_SHARE:g}, found {self.share}. Labels need a part of it too.")

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        heads_rule.check_size(self.name, problem, shape)
        asked = (self.share, self.floor, self.clip)
        share, floor, clip = (own if one is None else float(one) for own, one in zip(RULE, asked))
        before, left = heads_rule.first_stages(share, shape, target, floor)
        given = ["rule" if one is None else one for one in asked]
        labels = Stage("labels", Gaussian(left), {"clip_factor": clip, "given": given})
        return Plan(self.name, options_of(self), (*before, labels), target, shape)

    def program(self, plan: Plan, problem: Problem) -> Program:
        classes, floor, labels = problem.loss.margins, plan.stage("moments").settings["floor"], plan.stage("labels")
        directions = yield from heads_rule.directions_of(plan, classes)
        mean_square = heads_rule.mean_square(plan, (yield Sum("size", MeanSquare())))
        clip = labels.settings["clip_factor"] * math.sqrt(mean_square * (1 - 1 / classes))
        yield Decide({"mean_square": mean_square, "clip": clip})
        # The softmax gradient at 0 is (1/K - e_y) ⊗ u, and ‖e_y - 1/K‖² = 1 - 1/K.
        start = directions.zeros(classes)
        term = GradientTerm(problem.loss, start.reshape(-1), clip, Features())
        gradient = yield from unrecorded("labels", term, labels.event.gdp(), start.shape)  # the coefficients follow from it
        theta = gradient * (-classes / floor)
        return np.asarray(directions.back(theta), dtype=np.float32).astype(np.float64).reshape(-1)
