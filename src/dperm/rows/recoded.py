"""Rows seen through a map that looks at each row alone: every term keeps its sensitivity, because it bounds what it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dperm.problem import DataBounds, FeatureMap
from dperm.problem.arrays import Vector
from dperm.rows.base import Block, Rows, RowsView, Term, TermView


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

    def bounded(self, data: DataBounds, feature_map: FeatureMap | None = None) -> Rows:
        return RecodedRows(self.rows.bounded(data, feature_map), self.recoding)

    def sum(self, term: Term, step: float) -> Vector:
        return self.rows.sum(RecodedTerm(term, self.recoding), step)
