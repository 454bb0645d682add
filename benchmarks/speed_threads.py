"""How a private step grows with threads, beside two float32 products with as many BLAS threads.

    env -u OPENBLAS_NUM_THREADS -u OMP_NUM_THREADS python benchmarks/speed_threads.py [--rows 2000000] [--threads 1 2 8 16]

All sides take turns after a pause, as in `make bench`. "products alone" are the compiled loops on the same blocks, without
slopes, clip and rounding: what threads could reach if nothing handed the interpreter over.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from speed import compiled_products, draw, machine, medians, private_rows, term_of, without_compiled
from threadpoolctl import threadpool_limits

from dperm.rows import sum_step
from dperm.rows.compiled import LOADER, Kernels
from dperm.terms.gridded import gridded


def products_alone(blocks: list[Any], d: int, loops: Kernels, threads: int) -> Callable[[], None]:
    """Margins and product of every block, a share of the blocks for each thread."""
    w, left, pool = np.ones(d), np.ones(len(blocks[0])), ThreadPoolExecutor(threads)

    def share(first: int) -> None:
        for rows in blocks[first::threads]:
            loops.margins(rows, w)
            loops.pulled(left[: len(rows)], rows)

    return lambda: list(pool.map(share, range(threads))) and None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2, 8, 16])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    n, d = given.rows, given.columns
    found: dict[str, Any] = {"machine": machine(), "compiled": compiled_products(), "n": n, "d": d, "threads": {}}
    X, y = draw(n, d)
    rows, term, step = private_rows(X, y), term_of(d), sum_step(0.5, n)
    w, labels = np.linspace(-1, 1, d).astype(np.float32), y.astype(np.float32)
    expected = rows.sum(term, step).tobytes()
    blocks = [gridded(block, term.features).rows for block in rows.blocks()]
    for threads in given.threads:
        sides: dict[str, Callable[[], Any]] = {
            "two products": lambda: (-labels / (1 + np.exp(labels * (X @ w)))) @ X,
            "private": lambda: rows.sum(term, step),
            "without Numba": lambda: without_compiled(lambda: rows.sum(term, step)),
        }
        if LOADER.kernels is not None:
            sides["products alone"] = products_alone(blocks, d, LOADER.kernels, threads)
        with threadpool_limits(threads):
            assert rows.sum(term, step).tobytes() == expected
            seconds = medians(sides, given.repeats)
        found["threads"][threads] = seconds
        usual = seconds["two products"]
        shown = (f" {name} {1e3 * spent:.1f} ms ({spent / usual:.2f})" for name, spent in seconds.items())
        print(threads, "threads", *shown, flush=True)
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
