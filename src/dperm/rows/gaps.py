"""Missing cells of encoded rows.

`dperm.tables.gaps` says how they are marked.

Once a fit has released the centre m of the rows, it looks at them through `Filling(m)`: a missing cell is then m_j, so that
x_j - m_j = 0. m is public by then and the map looks at each row alone, so a term shown the filled rows keeps the sensitivity
that it enforces.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dperm.problem.arrays import Vector, is_sparse
from dperm.rows.base import Block, Rows
from dperm.rows.recoded import RecodedRows, RowView
from dperm.tables.gaps import is_gap


@dataclass(frozen=True, eq=False)
class Filling(RowView):
    """Missing cells take the value of their column, in encoded units; 0 is the middle of the bounds."""

    values: Vector

    def block(self, block: Block) -> Block:
        # None where nothing is missing: a block that remembered itself would not be freed when a stream lets go of it.
        found: Block | None = block.remember((self, "filled"), lambda: self._filled(block))
        return block if found is None else found

    def of(self, rows: Rows) -> tuple[Rows, None]:
        """The rows seen so; engines that sum elsewhere than on the host fill them there."""
        own = getattr(rows, "filled", None)
        return (RecodedRows(rows, self) if own is None else own(self.values)), None

    def _filled(self, block: Block) -> Block | None:
        X = block.X
        gap = is_gap(X.data if is_sparse(X) else X)
        if not gap.any():
            return None
        if is_sparse(X):
            X = type(X)((np.where(gap, self.values[X.indices], X.data).astype(X.dtype), X.indices, X.indptr), shape=X.shape)
        else:
            X = np.where(gap, self.values.astype(X.dtype), X)
        return Block(X, block.y, block.weight, block.start, person=block.person)


