"""Where the processor time of a private step goes, and what other layouts of the gridded rows would take, on one thread.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/speed_layouts.py

All sides take turns and are measured in processor seconds, which a busy machine disturbs less than the clock. The layouts are
bare NumPy with the same products and slopes; "the library" is a whole step, with compiled products where Numba is installed.
Prints medians beside those of the plain step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from speed import compiled_products, draw, private_rows, term_of, without_compiled

from dperm.rows import BLOCK_ROWS, sum_step
from dperm.rows.compiled import LOADER

N, D, TURNS = 500_000, 100, 12
STEPS = 2.0**20
Vector = NDArray[np.float64]


class Layouts:
    """The rows of one table on their grid, in blocks, and the step by several layouts of them."""

    def __init__(self) -> None:
        self.X, y = draw(N, D)
        self.y, self.w = y.astype(np.float32), np.linspace(-1, 1, D)
        self.size = np.abs(self.X).max(axis=1).astype(np.float64) / STEPS
        self.parts = [slice(start, min(start + BLOCK_ROWS, N)) for start in range(0, N, BLOCK_ROWS)]
        self.single = [np.rint(self.X[part] / self.size[part, None]).astype(np.float32) for part in self.parts]
        self.double = [rows.astype(np.float64) for rows in self.single]
        self.room = np.empty((BLOCK_ROWS, D))

    def slopes(self, margins: Vector, part: slice) -> Vector:
        slopes = -self.y[part] / (1 + np.exp(np.minimum(self.y[part] * margins * self.size[part], 700.0)))
        return np.minimum(np.maximum(np.rint(slopes * STEPS), -STEPS), STEPS)

    def plain(self) -> object:
        w = self.w.astype(np.float32)
        return (-self.y / (1 + np.exp(self.y * (self.X @ w)))) @ self.X

    def widen(self, rows: NDArray[np.float32]) -> Vector:
        wide = self.room[: len(rows)]
        np.copyto(wide, rows)
        return wide

    def in_chunks(self, length: int) -> None:
        """Widened, multiplied and multiplied again, `length` rows at a time."""
        for rows, part in zip(self.single, self.parts):
            for first in range(0, len(rows), length):
                wide = self.widen(rows[first : first + length])
                self.slopes(wide @ self.w, slice(part.start + first, part.start + first + len(wide))) @ wide

    def margins_in_chunks(self, length: int) -> None:
        """Margins while the rows are widened, the product of the whole block afterwards."""
        for rows, part in zip(self.single, self.parts):
            wide, margins = self.room[: len(rows)], np.empty(len(rows))
            for first in range(0, len(rows), length):
                run = slice(first, first + length)
                np.copyto(wide[run], rows[run])
                np.matmul(wide[run], self.w, out=margins[run])
            self.slopes(margins, part) @ wide

    def in_double(self) -> None:
        """Rows that are kept in float64."""
        for rows, part in zip(self.double, self.parts):
            self.slopes(rows @ self.w, part) @ rows

    def each(self, run: Callable[[Vector, slice], object], blocks: Sequence[np.ndarray]) -> None:
        for rows, part in zip(blocks, self.parts):
            run(rows, part)


def main() -> None:
    layouts = Layouts()
    compiled_products()
    rows, term, step = private_rows(layouts.X, layouts.y.astype(np.float64)), term_of(D), sum_step(0.5, N)
    ones, wide = np.ones(BLOCK_ROWS), layouts.room
    sides: dict[str, Callable[[], object]] = {
        "two float32 products": layouts.plain,
        "the library": lambda: rows.sum(term, step),
        "the library without Numba": lambda: without_compiled(lambda: rows.sum(term, step)),
        "whole blocks": lambda: layouts.in_chunks(BLOCK_ROWS),
        **{f"chunks of {k}": lambda k=k: layouts.in_chunks(k) for k in (4096, 2048, 1024, 512)},
        **{f"margins in chunks of {k}": lambda k=k: layouts.margins_in_chunks(k) for k in (4096, 2048, 1024, 512)},
        "rows in float64": layouts.in_double,
        "widening alone": lambda: layouts.each(lambda block, _: layouts.widen(block), layouts.single),
        "margins alone": lambda: layouts.each(lambda block, _: wide[: len(block)] @ layouts.w, layouts.single),
        "slopes alone": lambda: layouts.each(lambda block, part: layouts.slopes(ones[: len(block)], part), layouts.single),
        "product alone": lambda: layouts.each(lambda block, _: ones[: len(block)] @ wide[: len(block)], layouts.single),
    }
    if (loops := LOADER.kernels) is not None:
        sides["margins, compiled"] = lambda: layouts.each(lambda rows, _: loops.margins(rows, layouts.w), layouts.single)
        sides["product, compiled"] = lambda: layouts.each(lambda rows, _: loops.pulled(ones[: len(rows)], rows), layouts.single)
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(TURNS):
        for name, run in sides.items():
            began = time.process_time()
            run()
            if turn:
                taken[name].append(time.process_time() - began)
    usual = float(np.median(taken["two float32 products"]))
    for name, seconds in taken.items():
        print(f"{name:26} {1e3 * float(np.median(seconds)):6.1f} ms {float(np.median(seconds)) / usual:5.2f}")


if __name__ == "__main__":
    main()
