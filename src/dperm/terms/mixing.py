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

from dperm.problem.arrays import Array, Matrix, Vector, dense, namespace
from dperm.rows.base import Block, Rows
from dperm.rows.recoded import RowView
from dperm.terms.device import like
from dperm.terms.gridded import BITS, exponents, scaled

MATRIX_BITS = 22
PIECE_NUMBERS = 1 << 26  # that are widened at a time on a device
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
        return kept[1]

    def of(self, rows: Rows) -> tuple[Rows, None]:
        """The rows seen so; engines that sum elsewhere than on the host turn them there."""
        own = getattr(rows, "turned", None)
        return (super().of(rows)[0] if own is None else own(self)), None

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

    def on_device(self, X: Array) -> Array:
        """The rows mapped where they are, by the same rule: sums of whole numbers that float64 holds, in any order."""
        xp = namespace(X)
        whole_matrix, step = self._matrix
        shift, scale, matrix = (like(xp, X, part) for part in (self.shift, self.scale, whole_matrix))
        size = max(PIECE_NUMBERS // X.shape[1], 1)
        turned = xp.empty_like(X, dtype=xp.float32)
        for start in range(0, X.shape[0], size):
            rows = (xp.astype(X[start : start + size, :], xp.float64) - shift) * scale
            largest = xp.max(xp.abs(rows), axis=1, keepdims=True)
            good = xp.isfinite(largest) & (largest >= 2.0**-900)
            exponent = xp.floor(xp.log2(xp.where(good, largest, xp.ones_like(largest)))) + 1
            grid = xp.pow(xp.full_like(exponent, 2.0), BITS - exponent)
            whole = xp.where(good, xp.round(rows * grid), xp.zeros_like(rows))
            turned[start : start + size, :] = xp.astype((whole @ matrix) * (step / grid), xp.float32)
        return turned

    @cached_property
    def _matrix(self) -> tuple[Vector, float]:
        largest = max(float(np.max(np.abs(self.turn), initial=0.0)), 2.0**-100)
        step = 2.0 ** (math.frexp(largest)[1] - MATRIX_BITS)
        return np.rint(self.turn / step), step
