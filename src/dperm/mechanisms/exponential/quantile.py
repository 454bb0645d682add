"""Median and quantiles by the exponential mechanism on a public grid of cells.

    below(t) = Σ_i weight_i·1{x_i < t},  total = Σ_i weight_i
    score(cell [a, b)) = -dist(q·total, [below(a), below(b)]),   P(cell) ∝ (b - a)·exp(k·score),  uniform inside

A cell that contains the quantile scores 0; ties (ages, prices, counts) are then no obstacle, as they are for the classical
form on the gaps between sorted values, to which this one tends as cells shrink.

**Theorem.** One row changes below(·) - q·total by numbers in [-q, 1-q] (present or absent) or in [-1, 1] (replaced); the
distance of 0 to an interval moves by no more than its ends do. So the scores move within an interval of length 2·max(q, 1-q),
or 2, and k = ε over that length gives ε-DP. Proof: `docs/theorems/exponential.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dperm.mechanisms.conditions import unmet
from dperm.privacy import Pure, kappa
from dperm.problem import Problem
from dperm.problem.arrays import dense
from dperm.problem.plain import is_number, plain_fields, shown
from dperm.release.asks import Program, Secret, Solve
from dperm.release.plan import Plan, Shape, Stage, StageSettings, Target, Vector, options_of, register
from dperm.rows.base import Block
from dperm.rows.exact import whole
from dperm.terms.moments import row_weights
from dperm.terms.statistics import Histogram

LOSSES = ("quantile", "absolute")
STEPS = 2**16  # points of a cell that can be released


@dataclass(frozen=True, eq=False)
class HistogramTerm(Histogram):
    """Weighted counts of one column in cells of equal width from low to high.

    **Sensitivity** 1 for one row present or absent, √2 for one replaced: a row is in one cell.
    """

    low: float
    high: float
    cells: int
    column: int = 0

    def tally(self, block: Block) -> Vector:
        values = np.asarray(dense(block.X[:, [self.column]])[:, 0], dtype=np.float64)
        place = np.floor((values - self.low) / (self.high - self.low) * self.cells)
        place = np.clip(place, 0, self.cells - 1).astype(np.int64)
        return np.asarray(np.bincount(place, weights=whole(row_weights(block), 1.0), minlength=self.cells), dtype=np.float64)


def quantile_scores(counts: Vector, level: float) -> Vector:
    """-dist(q·total, [below(a), below(b)]) for every cell.

    >>> quantile_scores(np.array([1.0, 0.0, 1.0, 1.0]), 0.5).tolist()
    [-0.5, -0.5, -0.0, -0.5]
    """
    above = np.cumsum(counts)
    aim = level * above[-1]
    below = above - counts
    return np.asarray(-np.maximum(np.maximum(below - aim, aim - above), 0.0))


def quantile_span(level: float, relation: str) -> float:
    """How far apart two cells' scores can move when one row changes: 2 replaced, 2·max(q, 1-q) present or absent."""
    return 2.0 if kappa(relation) == 2 else 2.0 * max(level, 1 - level)


@dataclass(frozen=True, eq=False)
class ColumnQuantile(StageSettings):
    """The law over the cells of a column."""

    rate: float
    level: float
    low: float
    high: float
    cells: int


@register
@dataclass(frozen=True)
class QuantileExponential:
    """The quantile of every column, released with ε-DP; d columns take ε/d each.

    cells   of the public grid over the declared range of a column

    >>> QuantileExponential().cells
    65536
    """

    cells: int = 65536

    name: ClassVar[str] = "quantile-exponential"

    def __post_init__(self) -> None:
        plain_fields(self)
        if not (is_number(self.cells) and 1 <= self.cells <= 2**24 and int(self.cells) == self.cells):
            raise ValueError(f"Expected 1 ≤ cells ≤ 2^24, found {shown(self.cells)}. Leave it out to take 65536.")
        object.__setattr__(self, "cells", int(self.cells))

    def missing(self, problem: Problem, target: Target) -> list[str]:
        sides = list(zip(problem.data.low or (), problem.data.high or ()))
        return unmet({
            f"the quantile or absolute loss (found {problem.loss.name!r})": problem.loss.name not in LOSSES,
            "declared finite bounds of every column (bounds=)":
                not sides or not all(-math.inf < low < high < math.inf for low, high in sides),
            "rows without labels or an intercept column, and no regularizer":
                problem.data.intercept or problem.data.y.radius != 0 or problem.regularizer.name != "none",
            "no domain (the answer lies in the declared bounds) and no feature map":
                problem.domain.name != "whole-space" or problem.feature_map is not None,
        })

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        level = float(getattr(problem.loss, "level", 0.5))  # the median minimises the absolute loss
        low, high = problem.data.low or (), problem.data.high or ()
        share = target.epsilon / shape.d
        stages = []
        for column in range(shape.d):
            rate = share / (quantile_span(level, target.relation) * target.rows_per_person)
            settings = ColumnQuantile(rate, level, low[column], high[column], self.cells)
            stages.append(Stage(f"column {column}", Pure(share), settings))
        return Plan(self.name, options_of(self), tuple(stages), target, shape)

    def program(self, plan: Plan, problem: Problem) -> Program:
        answers = []
        for column, stage in enumerate(plan.stages):
            settings = plan.settings(stage.name, ColumnQuantile)

            def select(secret: Secret, column: int = column, settings: ColumnQuantile = settings) -> float:
                low, high = settings.low, settings.high
                scores = quantile_scores(secret.sum(HistogramTerm(low, high, self.cells, column)), settings.level)
                generator = secret.noise.generator()
                cell = int(np.argmax(settings.rate * scores + generator.gumbel(size=self.cells)))
                inside = int(generator.integers(STEPS)) / STEPS  # uniform on a public grid of the cell
                return float(low + (high - low) * (cell + inside) / self.cells)

            answers.append((yield Solve((stage.name,), select)))
        return np.array(answers, dtype=np.float64)
