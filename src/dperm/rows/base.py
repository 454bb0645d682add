"""What every engine does: hand out blocks of rows, sum a term over each block, add the blocks as integers.

Why integers. A float sum of n rows can move by far more than one row's bound when that row changes, because every later
rounding moves with it. Here every row is a pair of whole numbers on public grids, a block's product of them is exact
(`dperm.rows.exact`) and blocks add exactly: what a row adds is a function of that row alone. The computed sum moves by what the
changed row adds and by nothing else, whatever n is; order, threads, workers and retries give the same bits.

The sums inside a whole solve are not pairs (their slopes must be smooth): a block's float64 sum is rounded to a public grid,
and the solve's certified tolerance covers the rounding. Blocks are cut at multiples of 8,192 for them, and for samples of rows.

Why no number of rows overflows. A nominal n may be far below the true one, and an integer that wraps round at some n would let
one row move the sum by everything there is. A block's count of grid steps is a whole number that float64 (or int64) holds
exactly. It is cut into two limbs, count = high·2³² + low with 0 ≤ low < 2³², each of which int64 holds, and limbs add with a
carry (`add_limbs`). A block of pairs is at most 2⁶², a float block at most 2⁶⁵, so `high` is below 2³³ per block and below 2⁶³
for 2³⁰ blocks: 8.8·10¹² rows. A float block that breaks its term's bound saturates at ±2⁷⁰ steps, 1-Lipschitz in every entry.

**Sensitivity.** A sum of pairs moves by what its term declares: the term clips the left factor against the exact norm of the
right one. Turning the total back into one float64 rounds it once, by 2⁻⁵³ of itself: 10⁻⁶ of the row bound at n = 10¹⁰.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dperm.problem import DataBounds, FeatureMap
from dperm.problem.arrays import Array
from dperm.rows.exact import Paired, products

if TYPE_CHECKING:
    from threadpoolctl import LibController

Kept = TypeVar("Kept")
Count = TypeVar("Count", bound=Array)

# A block of 8,192 rows by some 100 float32 columns stays in a second-level cache while margins, clips and the transposed
# product are taken. The number is part of the definition of a sum: every engine must cut at multiples of it.
BLOCK_ROWS = 8192


@dataclass
class Block:
    """Rows that are already inside the declared bounds, and how they are told apart.

    `start` is the number of the first row, or one key per row on engines that keep no order, or None where rows have neither.
    `memory` keeps per-row numbers (norms) between passes where the engine holds the block in memory; streaming engines start
    with an empty one each time. `weight` is 0 for a row that the public rules leave out (a label outside the classes, a row
    beyond a person's limit), 1 or the declared sample weight otherwise. `person` says who owns each row, in blocks that hold all
    rows of each of their persons, one after the other; None where an engine does not keep rows so.
    """

    X: Any  # dense, CSR, or rows that put themselves on their grid (`gridded`)
    y: np.ndarray
    weight: NDArray[np.float64] | None
    start: int | NDArray[np.void] | None
    memory: dict[Hashable, Any] = field(default_factory=dict)
    person: NDArray[np.int64] | None = None

    def __getstate__(self) -> dict[str, object]:
        """Without the memory, which can be made again where the block travels to."""
        return {**self.__dict__, "memory": {}}

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The numbers of the rows, where the engine keeps their order."""
        if not isinstance(self.start, int):
            raise ValueError("Expected rows that keep their order, found an engine that keeps none. Nothing was released.")
        return self.start + np.arange(len(self.y))

    def remember(self, key: Hashable, compute: Callable[[], Kept]) -> Kept:
        if key not in self.memory:
            self.memory[key] = compute()
        kept: Kept = self.memory[key]
        return kept


class Term(Protocol):
    """One row's contribution to a sum, with the bound that it enforces itself. Frozen and picklable."""

    def __call__(self, block: Block) -> NDArray[np.float64]:
        """The sum over the rows of a block. A `Paired` term says what the factors of every row are instead."""
        ...

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
class TermView:
    """A term that shows another term every row through some row-by-row map: sensitivity and bound are the other term's own."""

    term: Term

    def seen(self, block: Block) -> Block:
        """The block as the other term sees it."""
        raise NotImplementedError

    def __call__(self, block: Block) -> NDArray[np.float64]:
        return self.term(self.seen(block))

    def sensitivity(self, relation: str) -> float:
        return self.term.sensitivity(relation)

    @property
    def row_bound(self) -> float:
        return self.term.row_bound


class Thinned(TermView):
    """Another term on some of the rows: those that join keep their weight, the others get 0."""

    def joined(self, start: int | NDArray[np.void] | None, count: int) -> NDArray[np.float64]:
        """1 for the rows of a block that join, 0 for the others; `start` is that of the block."""
        raise NotImplementedError

    def seen(self, block: Block) -> Block:
        joined = self.joined(block.start, len(block.y))
        weight = joined if block.weight is None else joined * block.weight
        return Block(block.X, block.y, weight, block.start, block.memory)


class ArrayRows:
    """Rows that lie in one array or matrix."""

    X: Any

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        return int(self.X.shape[1])


class Copied:
    """Rows of which others are copies with some changes: nothing that is read or made is read or made again."""

    data: DataBounds | None = None
    feature_map: FeatureMap | None = None

    def _copy(self, **changes: object) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update({**self.__dict__, **changes})
        return other


@dataclass(frozen=True, eq=False)
class RowsView:
    """Other rows, seen in another way; a subclass says how."""

    rows: Rows

    def bounded(self, data: DataBounds, feature_map: FeatureMap | None = None) -> Self:
        """The same view of the rows clipped into the declared bounds."""
        return replace(self, rows=self.rows.bounded(data, feature_map))

    @property
    def n(self) -> int:
        return self.rows.n

    @property
    def d(self) -> int:
        return self.rows.d


def sum_step(row_bound: float, n: int) -> float:
    """Grid of a sum: the smallest power of two with min(n, 2¹⁶)·row_bound ≤ 2⁵² steps. `n` is public, and may be nominal.

    A sum of more rows than n is as exact as any other: see the top of the module.

    >>> sum_step(1.0, 1024) == 2.0**-42, sum_step(1.0, 10**9) == 2.0**-36
    (True, True)
    """
    return float(2.0 ** math.ceil(math.log2(max(row_bound, 1e-250) * min(max(n, 1), 1 << 16)) - 52))


Limbs = NDArray[np.int64]  # (2, …): count = [0]·2³² + [1], with 0 ≤ [1] < 2³²
LIMB = 2.0**32
MOST_STEPS = 2.0**70


def innermost(term: Term) -> Term:
    """The term behind the views of rows that it is shown."""
    while isinstance(term, TermView):
        term = term.term
    return term


def split(counts: Array, xp: Any = np) -> Array:
    """Whole numbers in float64, of any size, as limbs: exact below 2⁷⁰, saturated beyond. A block's NaN counts as 0.

    >>> split(np.array([-1.0, 2.0**64 + 2.0**12])).tolist()
    [[-1, 4294967296], [4294967295, 4096]]
    """
    counts = xp.clip(counts, -MOST_STEPS, MOST_STEPS)
    high = xp.floor(counts / LIMB)
    limbs = xp.stack([high, counts - high * LIMB])
    whole: Array = xp.astype(xp.where(xp.isnan(limbs), xp.zeros_like(limbs), limbs), xp.int64)
    return whole


def add_limbs(one: Count, other: Count) -> Count:
    """The exact sum of two counts. Written in place: `one` is the caller's own total."""
    one[...] += other
    return carried(one)


def carried(total: Count) -> Count:
    """What the low limb holds beyond 2³² is added to the high one, in place."""
    total[0, ...] += total[1, ...] >> 32
    total[1, ...] &= 0xFFFFFFFF
    return total


def split_whole(counts: NDArray[np.int64]) -> Limbs:
    """Whole numbers in int64 as limbs."""
    limbs = np.empty((2, *counts.shape), dtype=np.int64)
    np.right_shift(counts, 32, out=limbs[0])
    np.bitwise_and(counts, 0xFFFFFFFF, out=limbs[1])
    return limbs


def block_counts(term: Term, block: Block, step: float) -> Limbs:
    """The block's sum as integers, in limbs: exact for pairs, otherwise the float sum as a count of grid steps."""
    while isinstance(term, TermView):
        block, term = term.seen(block), term.term
    if isinstance(term, Paired):
        return split_whole(products(term.factors(block)))
    return np.asarray(split(np.rint(np.asarray(term(block), dtype=np.float64) / step)))


def total_counts(makers: Iterable[Callable[[], Block]], term: Term, step: float, *, parallel: bool = True) -> Limbs:
    """Σ blocks as integers. `makers` give the blocks one by one, each made by the thread that sums it.

    Threads take whole blocks and BLAS keeps to one thread inside a block: a product split over threads adds in another order,
    and the bits of a block's sum would depend on the machine. Which thread takes which block cannot matter: integers commute.
    """
    source = iter(makers)
    with one_blas_thread() as threads:
        if not parallel or threads == 1:
            return total_of([_drain(source, term, step)])
        queue = _Queue(source)
        jobs = [_helpers().submit(_work, queue, term, step) for _ in range(threads - 1)]
        try:
            totals = [_work(queue, term, step)]
        finally:
            queue.stopped = True  # an interrupt here ends the helpers too, and those that never began are not waited for
            begun = [job for job in jobs if not job.cancel()]
            wait(begun)
        return total_of([*totals, *(job.result() for job in begun)])


@cache
def _helpers() -> ThreadPoolExecutor:
    """Threads that help the caller's own, kept from sum to sum: starting them costs as much as a block."""
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="dperm-rows")


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


def _work(queue: _Queue, term: Term, step: float) -> Limbs | None:
    try:
        return _drain(queue, term, step)
    except BaseException:
        queue.stopped = True  # the other threads end after the block they are at
        raise


def _drain(makers: Iterable[Callable[[], Block]], term: Term, step: float) -> Limbs | None:
    """Σ of the blocks; the low limbs of 2³⁰ blocks add without a carry."""
    total: Limbs | None = None
    for make in makers:
        counts = block_counts(term, make(), step)
        total = counts if total is None else np.add(total, counts, out=total)
    return None if total is None else carried(total)


def total_of(counts: Iterable[Limbs | None]) -> Limbs:
    """Σ of counts that were taken elsewhere (by threads, on workers), exactly; None where somebody had no block."""
    total: Limbs | None = None
    for count in counts:
        if count is not None:
            total = count.copy() if total is None else add_limbs(total, count)
    if total is None:
        raise ValueError("Expected at least one row, found none. Check that the file or array is not empty.")
    return total


def from_counts(total: Limbs, step: float) -> NDArray[np.float64]:
    """Counts of grid steps back to real units; one rounding, of 2⁻⁵³ of the total."""
    return np.asarray((total[0] * LIMB + total[1]) * step)


def real_sum(term: Term, total: Limbs, step: float) -> NDArray[np.float64]:
    """The sum that the counts stand for, in the units of the term."""
    inner = innermost(term)
    if isinstance(inner, Paired):
        return inner.units(total[0].astype(inner.precision) * int(LIMB) + total[1])
    return from_counts(total, step)


class _BlasThreads:
    """One BLAS thread while any sum runs, and the number it had before when the last one ends."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running = 0
        self.before: list[int] = []
        self.libraries: list[LibController] = []

    def enter(self) -> int:
        with self.lock:
            if self.running == 0:
                if not self.libraries:
                    from threadpoolctl import ThreadpoolController

                    self.libraries = ThreadpoolController().select(user_api="blas").lib_controllers
                # Asked library by library: `info()` and `limit()` look up versions too, a millisecond on every sum.
                self.before = [library.num_threads for library in self.libraries]
                self._set([1] * len(self.before))
            self.running += 1
            return max(self.before, default=1)

    def leave(self) -> None:
        with self.lock:
            self.running -= 1
            if self.running == 0:
                self._set(self.before)

    def _set(self, threads: list[int]) -> None:
        for library, before, count in zip(self.libraries, self.before, threads):
            if before > 1:
                library.set_num_threads(count)


_BLAS = _BlasThreads()
if hasattr(os, "register_at_fork"):  # a child must not inherit a lock that some thread of the parent holds
    os.register_at_fork(after_in_child=lambda: _BlasThreads.__init__(_BLAS))
    os.register_at_fork(after_in_child=_helpers.cache_clear)  # threads do not live on in a child


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
