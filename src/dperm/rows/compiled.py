"""Products of rows that are whole numbers in float32, widened to float64 in registers by loops that Numba compiles.

NumPy multiplies in float64 only what is stored in float64, so a block of float32 rows is widened in memory before its products:
that takes as long as both. These loops read the float32 rows themselves. They are optional (`pip install dperm[fast]`) and give
the bits of the products that they stand for (`dperm.rows.exact`).

**Why the compiler may add in any order.** It is allowed to regroup sums and to fuse a product with a sum (`reassoc`,
`contract`); otherwise it would take one number at a time. Both change the bits of sums that round. These do not round: factors
are whole numbers, and the absolute values of the products of one sum add up to at most 2⁵³, so every partial sum, in any
grouping, is a whole number that float64 holds. Nothing is assumed about the numbers themselves: flags that rule out NaN,
infinity or the sign of zero are left out. A sum that begins with +0.0 and has only zeros stays +0.0, as in BLAS.

**Elementwise loops** stand for several calls of NumPy each, which would hand the interpreter over between threads as often.
They have no such flags: each of their operations is one that IEEE 754 defines to the last bit, in NumPy's order. Functions that
it does not define (`exp`) stay NumPy's.

**When they are loaded.** Importing Numba takes a third of a second and compiling a second (once: the machine code is kept on
disk where a folder can be written), which a small fit never earns back. A process begins without them and loads them once its
products have taken in `PAYS` numbers. That changes how long a sum takes and never what it is, and a clock learns no more from it
than from how long the passes before have taken.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

Narrow = NDArray[np.float32]
Vector = NDArray[np.float64]

# Numbers that products took in before compiled ones are worth loading: ten steps on 1,000,000 x 100, half a second of widening.
PAYS = 1 << 31
ANY_ORDER = {"reassoc", "contract"}


def _margins(rows: Narrow, weights: Vector, found: Vector) -> None:
    """From two places at once, as the memory gives more to two readers than to one."""
    half = rows.shape[0] // 2
    for i in range(half):
        one, other = 0.0, 0.0
        for j in range(rows.shape[1]):
            one += np.float64(rows[i, j]) * weights[j]
            other += np.float64(rows[half + i, j]) * weights[j]
        found[i], found[half + i] = one, other
    for i in range(2 * half, rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            total += np.float64(rows[i, j]) * weights[j]
        found[i] = total


def _pulled(left: Vector, rows: Narrow, found: Vector) -> None:
    for j in range(rows.shape[1]):
        found[j] = 0.0
    for i in range(rows.shape[0]):
        factor = left[i]
        for j in range(rows.shape[1]):
            found[j] += factor * np.float64(rows[i, j])


def _scaled(values: Vector, size: Vector, factor: float) -> None:
    for i in range(values.shape[0]):
        values[i] = values[i] * (size[i] * factor)


def _in_steps(values: Vector, size: Vector, factor: float, limit: Vector, found: Vector) -> None:
    for i in range(values.shape[0]):
        steps = values[i] * (size[i] * factor)
        found[i] = 0.0 if np.isnan(steps) else np.trunc(max(min(np.rint(steps), limit[i]), -limit[i]))


@dataclass(frozen=True)
class Kernels:
    """The compiled loops. Arrays that are not contiguous, or of another type, are a TypeError; shapes are checked here, because
    the loops read as far as they are told."""

    into_margins: Callable[[Narrow, Vector, Vector], None]
    into_pulled: Callable[[Vector, Narrow, Vector], None]
    into_scaled: Callable[[Vector, Vector, float], None]
    into_steps: Callable[[Vector, Vector, float, Vector, Vector], None]

    def margins(self, rows: Narrow, weights: Vector) -> Vector:
        """rows @ weights."""
        self._fit(weights, rows.shape[1])
        found = np.empty(len(rows))
        self.into_margins(rows, weights, found)
        return found

    def pulled(self, left: Vector, rows: Narrow) -> Vector:
        """left @ rows."""
        self._fit(left, rows.shape[0])
        found = np.empty(rows.shape[1])
        self.into_pulled(left, rows, found)
        return found

    def scaled(self, values: Vector, size: Vector, factor: float) -> Vector:
        """values·(size·factor), row by row, in place."""
        self._fit(size, len(values))
        self.into_scaled(values, size, factor)
        return values

    def in_steps(self, values: Vector, size: Vector, factor: float, limit: Vector) -> Vector:
        """values·(size·factor) as the nearest whole numbers, cut at the last one inside the limit; 0 for NaN."""
        self._fit(size, len(values))
        self._fit(limit, len(values))
        found = np.empty(len(values))
        self.into_steps(values, size, factor, limit, found)
        return found

    @staticmethod
    def _fit(factor: Vector, length: int) -> None:
        if factor.shape != (length,):
            raise ValueError(f"Expected a factor of {length} numbers, found shape {factor.shape}.")


def load() -> Kernels | None:
    """The loops, compiled or read from Numba's cache; None without Numba, with one that does not work here, or where
    `NUMBA_DISABLE_JIT` is set.

    Never an error: they are loaded after so many numbers, so one would cost a budget and tell how many rows there are.
    """
    try:
        numba = importlib.import_module("numba")
        return None if numba.config.DISABLE_JIT else _made_by(numba)
    except Exception:  # a library that is missing beside it, another NumPy, a processor that it does not know
        return None


def _made_by(numba: ModuleType) -> Kernels:
    rows = numba.types.Array(numba.float32, 2, "C", readonly=True)
    vector = numba.types.Array(numba.float64, 1, "C", readonly=True)
    found = numba.types.Array(numba.float64, 1, "C")

    def loops(cache: bool) -> Kernels:
        options = {"nogil": True, "cache": cache}
        return Kernels(
            numba.njit(numba.void(rows, vector, found), fastmath=ANY_ORDER, **options)(_margins),
            numba.njit(numba.void(vector, rows, found), fastmath=ANY_ORDER, **options)(_pulled),
            numba.njit(numba.void(found, vector, numba.float64), **options)(_scaled),
            numba.njit(numba.void(vector, vector, numba.float64, vector, found), **options)(_in_steps),
        )

    try:
        return loops(cache=True)
    except Exception:  # no folder that can be written, a full disk, a damaged file
        return loops(cache=False)


class _Loader:
    """Loads the loops once, when they are worth it; other threads go on without them meanwhile."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.taken_in = 0
        self.tried = False
        self.kernels: Kernels | None = None

    def ready(self) -> Kernels | None:
        """The loops, loaded if they are not: None where there are none, or while another thread loads them."""
        if not self.tried and self.lock.acquire(blocking=False):
            try:
                self.kernels = load()
                self.tried = True
            finally:
                self.lock.release()
        return self.kernels

    def worth(self, numbers: int) -> Kernels | None:
        """The loops for a product of so many numbers, where they are loaded or worth loading."""
        if not self.tried:
            self.taken_in += numbers  # threads may lose some: nothing but time depends on it
            if self.taken_in > PAYS:
                return self.ready()
        return self.kernels

    def in_child(self) -> None:
        """In a forked process: one that began while a thread was compiling would wait for that thread's locks for ever."""
        self.tried = self.tried or self.lock.locked()
        self.lock = threading.Lock()


LOADER = _Loader()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=LOADER.in_child)
