"""The mean of bounded rows: one noisy sum.

    ŵ = m + S·(Σ_i z_i + noise) / n,   z_i = S⁻¹(x_i - m), ‖z_i‖ ≤ R, sensitivity κR

With declared columns [low, high], m is their middle and S their widths, so every column gets noise in its own units and R = √d/2;
with a declared norm alone, m = 0 and S = 1. The answer is clipped to the declared bounds, which is free.

**Theorem.** Gaussian noise of deviation κR/μ is μ-GDP; noise of density ∝ exp(-ε‖b‖/(κR)) is ε-DP. Their mean squared norms are
p(κR/μ)² and p(p+1)(κR/ε)²: the second is smaller when p + 1 < (ε/μ)², and is then taken even at δ > 0.
When the number of rows is protected, or rows are left out by a public rule, the row (x, R) is summed instead: the last entry
counts, the norm grows to √2·R, and the mean is a quotient of released numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dperm.mechanisms.conditions import BOUNDED_ROWS, check_options, unmet
from dperm.mechanisms.objective.accounting import NOISE_KINDS, wants_pure
from dperm.privacy import Event, Gaussian, Pure, gaussian_mu
from dperm.problem import Problem
from dperm.problem.arrays import is_sparse
from dperm.release.asks import Decide, Program, Secret, Solve, Sum
from dperm.release.noise import RELEASE_SLACK, Noise, gamma_norm_vector, grid_step
from dperm.release.plan import Plan, Shape, Stage, StageSettings, Target, Vector, options_of, register
from dperm.rows.base import Block
from dperm.rows.exact import Pair
from dperm.terms.affine import Features
from dperm.terms.gridded import DenseGrid, Grid, Pulled, left_factor
from dperm.terms.moments import row_weights

COUNTS = ("public", "released")


@dataclass(frozen=True, eq=False)
class SumTerm(Pulled):
    """Σ weight·(z, count_value), weights in [0, 1], ‖z‖ ≤ radius. **Sensitivity** κ·norm, norm² = radius² + count_value².

    With declared columns every entry of z is clipped into [-½, ½] in the float64 that is summed: between bounds such as
    1e7 and 1e7 + 1 neither a float32 row nor the middle of the bounds is exact, and their difference may be 1.
    """

    features: Features
    radius: float

    @property
    def longest(self) -> float:
        return math.hypot(self.radius, self.features.intercept)

    def slopes(self, block: Block, grid: Grid) -> Vector:
        return row_weights(block)

    def factors(self, block: Block) -> list[Pair]:
        features = self.features
        if features.shift is None or features.scale is None or is_sparse(block.X):
            return super().factors(block)
        z = np.clip((block.X.astype(np.float64) - features.shift) * features.scale, -0.5, 0.5)
        grid = DenseGrid.of(z, Features(features.intercept))
        return grid.pairs(left_factor(self.slopes(block, grid), grid, self.longest))


def unit_rows(problem: Problem) -> tuple[Vector | float, Vector | float, float]:
    """(m, S, R) of the declaration: the middle and widths of the columns, or 0 and 1, and the largest norm of z."""
    if problem.data.low is None or problem.data.high is None:
        return 0.0, 1.0, problem.data.x_norm
    low, high = np.array(problem.data.low), np.array(problem.data.high)
    return (low + high) / 2, high - low, math.sqrt(len(low)) / 2


def pure_release(value: Vector, sensitivity: float, epsilon: float, noise: Noise) -> Vector:
    """value + b with density of b ∝ exp(-ε‖b‖/(RELEASE_SLACK·Δ)), on a public grid.

    **Guarantee**: ε-DP for a value of ℓ2-sensitivity Δ: the value on the grid has sensitivity below RELEASE_SLACK·Δ, and
    rounding the noisy value is post-processing.
    """
    scale = RELEASE_SLACK * sensitivity / epsilon
    step = grid_step(scale, sensitivity, value.size)
    counts = np.rint(value / step)
    return np.asarray((counts + np.rint(gamma_norm_vector(value.size, scale, noise) / step)) * step)


@dataclass(frozen=True, eq=False)
class ColumnSums(StageSettings):
    """The sums of the columns, and how far their mean is off."""

    noise: str
    count: str
    asked: str
    sensitivity: float
    deviation_of_mean: float
    columns: int


@register
@dataclass(frozen=True)
class Mean:
    """The mean of the rows.

    noise_kind  "auto" (the smaller at the target), "gaussian" or "pure"
    count       "public": divide by n; "released": release the number of rows with the sum

    **Guarantee**: `Gaussian(μ)` or `Pure(ε)` under the target's relation.

    >>> Mean().noise_kind
    'auto'
    """

    noise_kind: str = "auto"
    count: str = "public"

    name: ClassVar[str] = "mean"

    def __post_init__(self) -> None:
        check_options(self, among={"noise_kind": NOISE_KINDS, "count": COUNTS})

    def missing(self, problem: Problem, target: Target) -> list[str]:
        return unmet({
            "the squared loss without a regularizer, whose minimiser is the mean":
                problem.loss.name != "squared" or problem.regularizer.name != "none",
            "rows without labels or an intercept column": problem.data.intercept or problem.data.y.radius != 0,
            "no domain (the declared bounds limit the answer)": problem.domain.name != "whole-space",
            "no feature map": problem.feature_map is not None,
            "low < high in every column":
                problem.data.low is not None and any(not a < b for a, b in zip(problem.data.low, problem.data.high or ())),
            BOUNDED_ROWS: not 0 < problem.data.x_norm < math.inf,
            "delta > 0 with Gaussian noise": target.delta == 0 and self.noise_kind == "gaussian",
            "count='released' under relation='add-remove', where the number of rows is protected":
                target.relation == "add-remove" and self.count == "public",
        })

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        p = shape.parameters(problem)
        size = p + (1 if self.count == "released" else 0)
        pure = wants_pure(self.noise_kind, size, target.epsilon, target.delta)
        mu = 0.0 if pure else gaussian_mu(target.epsilon, target.delta)
        event: Event = Pure(target.epsilon) if pure else Gaussian(mu)
        term = self._term(problem)
        sensitivity = term.sensitivity(target.relation) * target.rows_per_person
        spread = math.sqrt(size + 1) / target.epsilon if pure else 1 / mu
        settings = ColumnSums(
            noise="pure" if pure else "gaussian",
            count=self.count,
            asked=self.noise_kind,
            sensitivity=sensitivity,
            deviation_of_mean=RELEASE_SLACK * sensitivity * spread / shape.n,
            columns=p,
        )
        return Plan(self.name, options_of(self), (Stage("sum", event, settings),), target, shape)

    def _term(self, problem: Problem) -> SumTerm:
        middle, width, radius = unit_rows(problem)
        count_value = radius if self.count == "released" else 0.0
        if problem.data.low is None:
            return SumTerm(Features(count_value), radius)
        return SumTerm(Features(count_value, np.asarray(middle), 1.0 / np.asarray(width)), radius)

    def _mean(self, plan: Plan, problem: Problem, total: Vector) -> Vector:
        middle, width, radius = unit_rows(problem)
        rows = float(plan.shape.n)
        if self.count == "released":
            rows, total = max(total[-1] / radius, 1.0), total[:-1]
        mean = middle + width * (total / rows)
        if problem.data.low is not None:
            mean = np.clip(mean, problem.data.low, problem.data.high)
        elif np.linalg.norm(mean) > problem.data.x_norm:
            mean = mean * (problem.data.x_norm / np.linalg.norm(mean))
        return np.asarray(mean, dtype=np.float64)

    def program(self, plan: Plan, problem: Problem) -> Program:
        stage, term = plan.stage("sum"), self._term(problem)
        if isinstance(stage.event, Gaussian):
            total = yield Sum("sum", term)
        else:
            sensitivity, epsilon = plan.settings("sum", ColumnSums).sensitivity, plan.target.epsilon

            def algorithm(secret: Secret) -> Vector:
                return pure_release(secret.sum(term), sensitivity, epsilon, secret.noise)

            total = yield Solve(("sum",), algorithm, kept="sum")
        mean = self._mean(plan, problem, np.asarray(total, dtype=np.float64))
        yield Decide({"coefficients": mean.tolist()})
        return mean
