"""What every engine does: cut rows into blocks at fixed indices, sum a term over each block, add the blocks as integers.

Why integers. A float sum of n rows can move by far more than one row's bound when that row changes, because every later
rounding moves with it. Here a row touches one block; the block's sum is rounded to a public grid and blocks add exactly. The
computed sum then moves by at most one block's sensitivity plus one grid step, whatever n is, and any order of adding the
blocks (threads, workers, retries) gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
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


def sum_step(row_bound: float, n: int) -> float:
    """Grid of a sum of n rows: the smallest power of two with n·row_bound ≤ 2⁵² steps, so a total is exact in float64.

    >>> sum_step(1.0, 1024) == 2.0**-42
    True
    """
    return float(2.0 ** math.ceil(math.log2(max(row_bound, 1e-300) * max(n, 1)) - 52))


def block_counts(term: Term, block: Block, step: float) -> NDArray[np.int64]:
    """The block's sum as an integer count of grid steps."""
    return np.rint(np.asarray(term(block), dtype=np.float64) / step).astype(np.int64)


def add_blocks(counts: Iterator[NDArray[np.int64]], step: float) -> NDArray[np.float64]:
    """Σ blocks, exactly, then back to real units."""
    total: NDArray[np.int64] | None = None
    for count in counts:
        total = count.copy() if total is None else total + count
    if total is None:
        raise ValueError("Expected at least one row, found none. Check that the file or array is not empty.")
    return total.astype(np.float64) * step
