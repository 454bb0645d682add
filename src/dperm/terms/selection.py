"""Columns chosen privately: the scores they are chosen by, and rows that show only the chosen columns.

| term            | one row adds                                   | null one row | replace one row |
|-----------------|------------------------------------------------|--------------|-----------------|
| LabelSpread     | (measure) |y - m|                              |              |                 |
| CentredLabelSum | y - m cut to [-c, c]                           | c            | 2c              |
| CorrelationTerm | x_j/reach_j · (cut label)/(its bound), in [-1, 1] for every column | √d | 2√d     |

The selection does not use the ℓ2 sensitivity of the last one. It uses that every |Σ_i ·| moves within [-κ, κ], so that the scores
of two neighbours differ by numbers within one interval of length 2κ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dperm.privacy import kappa
from dperm.problem import DataBounds, FeatureMap
from dperm.problem.arrays import Vector, is_sparse
from dperm.rows.base import Block, Rows
from dperm.rows.exact import Pair, Paired, whole
from dperm.rows.recoded import RecodedRows, RowView
from dperm.terms.moments import row_weights
from dperm.terms.sparse_rows import canonical
from dperm.terms.statistics import SignedAmounts, present

STEPS = 2.0**20  # of each factor of a correlation


def label_spread(middle: float, block: Block) -> Vector:
    """|y - m|, as the measure of a histogram."""
    return np.abs(np.asarray(block.y, dtype=np.float64) - middle)


@dataclass(frozen=True, eq=False)
class CentredLabelSum(SignedAmounts):
    """Σ clip(y - m, -c, c), null rows left out.

    **Sensitivity** κc.
    """

    middle: float
    spread: float

    def amounts(self, block: Block) -> Vector:
        return present(block) * np.clip(np.asarray(block.y, dtype=np.float64) - self.middle, -self.spread, self.spread)

    @property
    def row_bound(self) -> float:
        return self.spread


@dataclass(frozen=True, eq=False)
class CorrelationTerm(Paired):
    """Σ_i weight_i · clip(x_ij/reach_j, -1, 1) · (clip(y_i - m, ±c) - m₂)/(c + |m₂|) for every column j.

    Every factor lies in [-1, 1], so one row moves every entry by at most 1 (replaced: 2).
    **Sensitivity** κ√d in ℓ2; the selection uses the bound per entry.
    """

    reach: Vector
    middle: float
    spread: float
    rest: float
    heaviest: float = 1.0
    row_bound: ClassVar[float] = 1.0

    def factors(self, block: Block) -> list[Pair]:
        """Both factors in [-1, 1], each in whole numbers of 2⁻²⁰."""
        cut = np.clip(np.asarray(block.y, dtype=np.float64) - self.middle, -self.spread, self.spread) - self.rest
        share = 1.0 if block.weight is None else row_weights(block, self.heaviest) / self.heaviest
        pull = share * cut / (self.spread + abs(self.rest))
        left = whole(pull, 1.0, STEPS)
        if is_sparse(block.X):
            X = canonical(block.X)
            shares = whole(X.data / self.reach[X.indices], 1.0, STEPS).astype(np.int64)
            return [Pair(left, type(X)((shares, X.indices, X.indptr), shape=X.shape))]
        return [Pair(left, whole(np.asarray(block.X, dtype=np.float64) / self.reach, 1.0, STEPS))]

    def units(self, total: np.ndarray) -> Vector:
        return np.asarray(total / STEPS**2, dtype=np.float64)

    def sensitivity(self, relation: str) -> float:
        return kappa(relation) * math.sqrt(len(self.reach))


@dataclass(frozen=True, eq=False)
class ColumnRows(RecodedRows):
    """Rows with only the chosen columns."""

    recoding: Columns

    @property
    def d(self) -> int:
        return len(self.recoding.columns)

    def bounded(self, data: DataBounds, feature_map: FeatureMap | None = None) -> ColumnRows:
        """Refused: the rows below are bounded already, and a second rule would not be the declared one."""
        raise RuntimeError("Expected rows that are bounded already, found a second set of bounds.")


@dataclass(frozen=True)
class Columns(RowView):
    """The view of rows that shows only the chosen columns: a term clips what it is shown."""

    columns: tuple[int, ...]

    def seen(self, block: Block) -> Block:
        X = block.X[:, list(self.columns)]
        if not is_sparse(X):
            X = np.ascontiguousarray(X, dtype=np.float64)
        return Block(X, block.y, block.weight, block.start)

    def of(self, rows: Rows) -> tuple[Rows, None]:
        return ColumnRows(rows, self), None


def reaches(kinds: Sequence[str]) -> Vector:
    """Largest size that an entry of an encoded column is allowed in the score: ½ for a numeric column (encoded around its
    midpoint), 1 for flags, and three typical entries of a unit row for columns with only a norm declared. Larger ones are cut."""
    free = min(1.0, 3.0 / math.sqrt(max(len(kinds), 1)))
    return np.array([{"numeric": 0.5, "free": free}.get(kind, 1.0) for kind in kinds])
