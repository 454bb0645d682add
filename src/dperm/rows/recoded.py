"""Rows seen through a map that looks at each row alone: every term keeps its sensitivity, because it bounds what it is shown.

`Filling` is the map that every fit may need. `dperm.tables.gaps` says how missing cells are marked. Once a fit has released the
centre m of the rows, it looks at them through `Filling(m)`: a missing cell is then m_j, so that x_j - m_j = 0. m is public by
then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dperm.problem.arrays import Vector, is_sparse
from dperm.rows.base import Block, Rows, RowsView, Term, TermView
from dperm.tables.gaps import is_gap


class Recoder(Protocol):
    """Something that turns one block of rows into another, row by row."""

    def block(self, block: Block) -> Block: ...


class RowView:
    """A map of rows as a program sees through it (`See`); a subclass says how one block is seen, row by row."""

    def seen(self, block: Block) -> Block:
        raise NotImplementedError

    def block(self, block: Block) -> Block:
        """The block as it is seen, kept with it."""
        return block.remember((self, "seen"), lambda: self.seen(block))

    def of(self, rows: Rows) -> tuple[Rows, None]:
        return RecodedRows(rows, self), None

    def unseen(self) -> None:
        return None


@dataclass(frozen=True, eq=False)
class RecodedTerm(TermView):
    """A term on recoded rows."""

    recoding: Recoder

    def seen(self, block: Block) -> Block:
        return self.recoding.block(block)


@dataclass(frozen=True, eq=False)
class RecodedRows(RowsView):
    """Rows seen through a recoding."""

    recoding: Recoder

    def sum(self, term: Term, step: float) -> Vector:
        return self.rows.sum(RecodedTerm(term, self.recoding), step)


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
