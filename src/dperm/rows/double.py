"""Float32 rows summed in float64, for add-remove.

A row that is removed moves every later row to another place, so that *all* runs of 64 float32 rows are cut elsewhere and round
anew: the computed sum moved by 1.1e-3 of the clip more than the real one at 1.2·10⁷ rows, growing with √n, which the release
slack does not cover. (Under zero-out and replace-one all other rows keep their place: one run changes, whatever n is.) In
float64 the same effect is below 1e-9 of the clip. Rows on a card need nothing: the fused kernel adds integers row by row, and
products are taken in float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.problem import DataBounds, FeatureMap
from dperm.problem.arrays import is_sparse
from dperm.rows.base import Block, Rows, RowsBehind, SeenThrough, Term, innermost
from dperm.rows.exact import Paired
from dperm.rows.gaps import Filling


@dataclass(frozen=True, eq=False)
class DoubleTerm(SeenThrough):
    """A term on rows in float64."""

    def seen(self, block: Block) -> Block:
        if is_sparse(block.X) or block.X.dtype != np.float32:
            return block
        memory = block.remember("in double", dict)  # norms are kept, the wide rows are not
        return Block(block.X.astype(np.float64), block.y, block.weight, block.start, memory)


@dataclass(frozen=True, eq=False)
class DoubleRows(RowsBehind):
    """Rows whose float32 blocks are widened before they are summed."""

    def bounded(self, data: DataBounds, feature_map: FeatureMap | None = None) -> Rows:
        return DoubleRows(self.rows.bounded(data, feature_map))

    def filled(self, values: NDArray[np.float64]) -> DoubleRows:
        return DoubleRows(Filling(values).of(self.rows)[0])

    def sum(self, term: Term, step: float) -> NDArray[np.float64]:
        from dperm.rows.device import DeviceRows

        if isinstance(self.rows, DeviceRows) and self.rows.computes(term):
            return self.rows.sum(term, step)
        return self.rows.sum(term if isinstance(innermost(term), Paired) else DoubleTerm(term), step)
