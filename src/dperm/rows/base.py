"""What every engine does: cut rows into blocks at fixed indices, sum a term over each block, add the blocks as integers.

Why integers. A float sum of n rows can move by far more than one row's bound when that row changes, because every later
rounding moves with it. Here a row touches one block; the block's sum is rounded to a public grid and blocks add exactly. The
computed sum then moves by at most one block's sensitivity plus one grid step, whatever n is, and any order of adding the
blocks (threads, workers, retries) gives the same bits.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dperm.problem import DataBounds, FeatureMap

# A block of 8,192 rows by some 100 float32 columns stays in a second-level cache while margins, clips and the transposed
# product are taken. The number is part of the definition of a sum: every engine must cut at multiples of it.
BLOCK_ROWS = 8192


@dataclass
class Block:
    """Rows start … start+len(y)-1, already inside the declared bounds.

    `memory` keeps per-row numbers (norms) between passes where the engine holds the block in memory; streaming engines start
    with an empty one each time. `weight` is 0 for a row that the public rules leave out (a label outside the classes, a row
    beyond a person's limit), 1 or the declared sample weight otherwise.
    """

    X: Any
    y: NDArray[Any]
    weight: NDArray[np.float64] | None
    start: int
    memory: dict[Hashable, Any] = field(default_factory=dict)

    def remember(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        if key not in self.memory:
            self.memory[key] = compute()
        return self.memory[key]


class Term(Protocol):
    """One row's contribution to a sum, with the bound that it enforces itself. Frozen and picklable."""

    def __call__(self, block: Block) -> NDArray[np.float64]: ...

    def sensitivity(self, relation: str) -> float:
        """ℓ2 distance of two sums whose data sets are neighbours."""
        ...

    @property
    def row_bound(self) -> float:
        """The largest entry, in absolute value, that one row can contribute."""
        ...


class Rows(Protocol):
    """Data that answers "the sum over rows of a term" and nothing else."""

    @property
    def n(self) -> int: ...

    @property
    def d(self) -> int: ...

    def bounded(self, data: DataBounds, feature_map: FeatureMap | None = None) -> Rows:
        """The same rows, each clipped into the declared bounds and mapped: the declaration becomes a fact."""
        ...

    def sum(self, term: Term, step: float) -> NDArray[np.float64]: ...


@dataclass(frozen=True, eq=False)
class SeenThrough:
    """A term that shows another term every row through some row-by-row map: sensitivity and bound are the other term's own."""

    term: Term

    def sensitivity(self, relation: str) -> float:
        return self.term.sensitivity(relation)

    @property
    def row_bound(self) -> float:
        return self.term.row_bound


@dataclass(frozen=True, eq=False)
class RowsBehind:
    """Rows that another view of them is taken of."""

    rows: Rows

    @property
    def n(self) -> int:
        return self.rows.n

    @property
    def d(self) -> int:
        return self.rows.d


def sum_step(row_bound: float, n: int) -> float:
    """Grid of a sum of n rows: the smallest power of two with n·row_bound ≤ 2⁵² steps, so a total is exact in float64.

    >>> sum_step(1.0, 1024) == 2.0**-42
    True
    """
    return float(2.0 ** math.ceil(math.log2(max(row_bound, 1e-300) * max(n, 1)) - 52))


def block_counts(term: Term, block: Block, step: float) -> NDArray[np.int64]:
    """The block's sum as an integer count of grid steps."""
    counts = np.rint(np.asarray(term(block), dtype=np.float64) / step)
    return np.where(np.isnan(counts), 0.0, counts).astype(np.int64)  # terms leave NaN rows out; no sum may become INT64_MIN


def total_counts(makers: Iterable[Callable[[], Block]], term: Term, step: float, *, parallel: bool = True) -> NDArray[np.int64]:
    """Σ blocks as integers. `makers` give the blocks one by one, each made by the thread that sums it.

    Threads take whole blocks and BLAS keeps to one thread inside a block: a product split over threads adds in another order,
    and the bits of a block's sum would depend on the machine. Which thread takes which block cannot matter: integers commute.
    """
    source = iter(makers)
    with one_blas_thread() as threads:
        if not parallel or threads == 1:
            return _drain(source, term, step)
        queue = _Queue(source)
        with ThreadPoolExecutor(threads) as pool:
            jobs = [pool.submit(_work, queue, term, step) for _ in range(threads)]
            try:
                totals = [job.result() for job in jobs]
            finally:
                queue.stopped = True  # an interrupt here ends the threads too
        return np.asarray(sum(totals[1:], totals[0]))


class _Queue:
    """An iterator that several threads take from."""

    def __init__(self, source: Iterator[Callable[[], Block]]) -> None:
        self.source, self.lock, self.stopped = source, threading.Lock(), False

    def __iter__(self) -> Iterator[Callable[[], Block]]:
        while True:
            with self.lock:
                make = None if self.stopped else next(self.source, None)
            if make is None:
                return
            yield make


def _work(queue: _Queue, term: Term, step: float) -> NDArray[np.int64]:
    try:
        return _drain(queue, term, step)
    except BaseException:
        queue.stopped = True  # the other threads end after the block they are at
        raise


def _drain(makers: Iterable[Callable[[], Block]], term: Term, step: float) -> NDArray[np.int64]:
    total: Any = np.zeros((), dtype=np.int64)  # grows to the shape of the first sum
    for make in makers:
        total = total + block_counts(term, make(), step)
    return np.asarray(total)


def add_blocks(counts: Iterable[NDArray[np.int64]], step: float) -> NDArray[np.float64]:
    """Σ of block counts that were taken elsewhere (on workers, on a card), exactly, then back to real units."""
    total: Any = None
    for count in counts:
        total = count if total is None else total + count
    if total is None:
        raise ValueError("Expected at least one row, found none. Check that the file or array is not empty.")
    return from_counts(total, step)


def from_counts(total: NDArray[np.int64], step: float) -> NDArray[np.float64]:
    """Counts of grid steps back to real units, exactly (both are within 53 bits)."""
    return total.astype(np.float64) * step


class _BlasThreads:
    """One BLAS thread while any sum runs, and the number it had before when the last one ends."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running = 0
        self.before: list[int] = []
        self.controller: Any = None

    def enter(self) -> int:
        with self.lock:
            if self.running == 0:
                if self.controller is None:
                    from threadpoolctl import ThreadpoolController

                    self.controller = ThreadpoolController().select(user_api="blas")
                # Asked library by library: `info()` and `limit()` look up versions too, a millisecond on every sum.
                self.before = [library.num_threads for library in self.controller.lib_controllers]
                self._set([1] * len(self.before))
            self.running += 1
            return max(self.before, default=1)

    def leave(self) -> None:
        with self.lock:
            self.running -= 1
            if self.running == 0:
                self._set(self.before)

    def _set(self, threads: list[int]) -> None:
        for library, before, count in zip(self.controller.lib_controllers, self.before, threads):
            if before > 1:
                library.set_num_threads(count)


_BLAS = _BlasThreads()
if hasattr(os, "register_at_fork"):  # a child must not inherit a lock that some thread of the parent holds
    os.register_at_fork(after_in_child=_BLAS.__init__)


@contextmanager
def one_blas_thread() -> Iterator[int]:
    """Keep BLAS to one thread; gives the number of threads it was allowed, which is how many blocks may run at once.

    So `OMP_NUM_THREADS`, `OPENBLAS_NUM_THREADS` and `threadpoolctl` limit sums as they limit products.
    """
    threads = _BLAS.enter()
    try:
        yield threads
    finally:
        _BLAS.leave()
