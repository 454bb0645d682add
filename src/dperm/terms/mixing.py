"""Rows seen through a released linear map: x ↦ T·(scale∘(x - shift)), so that correlated columns become uncorrelated ones.

The map follows from released values and looks at each row alone, so a term that is shown the mapped rows keeps the sensitivity
that it enforces on what it is shown.

**Why the bits do not depend on the block.** A row is put on the grid of its largest entry (20 bits) and T on one grid (22 bits).
For d ≤ 2¹¹ columns every partial sum of the product is a whole number of at most 2²⁰·2²²·2¹¹ = 2⁵³, which float64 holds: no
rounding, in any order of adding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dperm.problem.arrays import Matrix, Vector, dense
from dperm.rows.base import Block
from dperm.rows.recoded import RowView
from dperm.terms.gridded import BITS, exponents, scaled

MATRIX_BITS = 22
MOST_COLUMNS = 2**11


@dataclass(frozen=True, eq=False)
class Mixing(RowView):
    """The rows T·(scale∘(x - shift)); T is symmetric. A row with an entry that is no finite number stays one."""

    shift: Vector
    scale: Vector
    turn: Vector

    def __post_init__(self) -> None:
        if len(self.turn) > MOST_COLUMNS:
            raise ValueError(f"Expected at most {MOST_COLUMNS} columns, found {len(self.turn)}.")

    def block(self, block: Block) -> Block:
        """The block mapped, kept with it until another map asks; a map sent to a worker again finds what the first one left."""
        kept = block.memory.get("mixed")
        if kept is None or kept[0] != self.key:
            kept = (self.key, Block(self.mapped(block.X), block.y, block.weight, block.start, person=block.person))
            block.memory["mixed"] = kept
        found: Block = kept[1]
        return found

    @cached_property
    def key(self) -> bytes:
        return b"".join(part.tobytes() for part in (self.shift, self.scale, self.turn))

    def mapped(self, X: Matrix) -> NDArray[np.float32]:
        """In single precision, which has more bits than the grid that every later sum puts rows on, and half the memory."""
        raw = np.asarray(dense(X), dtype=np.float64)
        rows = (raw - self.shift) * self.scale
        largest = np.maximum(rows.max(axis=1, initial=0.0), -rows.min(axis=1, initial=0.0))
        e, bad = exponents(largest)
        whole = np.where(bad[:, None], 0.0, np.rint(scaled(rows, np.ldexp(1.0, BITS - e))))
        matrix, step = self._matrix
        with np.errstate(over="ignore"):  # beyond single precision is infinite, and such a row counts as a row of zeros
            answer = scaled(whole @ matrix, np.ldexp(step, e - BITS)).astype(np.float32)
        return np.where(bad[:, None], np.float32(np.nan), answer) if bad.any() else answer

    @cached_property
    def _matrix(self) -> tuple[Vector, float]:
        largest = max(float(np.max(np.abs(self.turn), initial=0.0)), 2.0**-100)
        step = 2.0 ** (math.frexp(largest)[1] - MATRIX_BITS)
        return np.rint(self.turn / step), step
