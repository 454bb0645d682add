"""Sums on a device: a term gives products of arrays, or a kernel of its own, and this module adds blocks as integers.

What crosses to the host is the sum. Which formulas a term has is the term's own business (`dperm.terms.device`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from dperm.problem.arrays import Array, Namespace, namespace
from dperm.rows.base import BLOCK_ROWS, add_limbs, carried, split

if TYPE_CHECKING:
    import torch

    from dperm.rows.device import DeviceRows

Pairs = Iterator[tuple[Array, Array]]


class DeviceTerm(Protocol):
    """A term that can be summed where the rows are."""

    def device_pairs(self, xp: Namespace, X: Array, y: Array, weight: Array | None) -> Pairs:
        """(A, B) of whole blocks in float64: the sum of a block is the flattened AᵀB, one pair after the other."""
        ...


class KernelTerm(Protocol):
    """A term that has a kernel of its own."""

    def device_sum(self, rows: DeviceRows, weight: Array | None) -> NDArray[np.float64] | None:
        """The whole sum, or None where the kernel cannot take these rows."""
        ...


# By exact type: a subclass that computes something else must not be taken for its parent.
def has_pairs(term: object) -> TypeGuard[DeviceTerm]:
    return "device_pairs" in vars(type(term))


def has_kernel(term: object) -> TypeGuard[KernelTerm]:
    return "device_sum" in vars(type(term))


def is_torch(X: object) -> TypeGuard[torch.Tensor]:
    return type(X).__module__.split(".")[0] == "torch"


def product_counts(term: DeviceTerm, X: Array, y: Array, weight: Array | None, step: float) -> Array:
    """Counts of grid steps of Σ rows, in limbs, for rows that start at a block's first row: blocks in float64, then integers.

    All whole blocks are multiplied at once, what is left of the last one by itself: a GPU spends its time on products, not on
    being asked for them. A block of m rows errs by at most m²·2⁻⁵³ of the row bound: 7e-9 for 8,192 rows. Under add-remove one
    row more may change how many blocks are multiplied at once, and so how a library rounds each of them: at most 4,096/d blocks,
    3e-5/d of the row bound together, which the release slack covers.
    """
    xp = namespace(X)
    pairs = list(term.device_pairs(xp, X, y, None if weight is None else xp.astype(weight, xp.float64)))

    def counts(start: int, stop: int) -> Array:
        blocks = max((stop - start) // BLOCK_ROWS, 1)
        stacked = [[xp.reshape(side[start:stop, :], (blocks, -1, side.shape[1])) for side in pair] for pair in pairs]
        sums = [xp.reshape(xp.matrix_transpose(left) @ right, (blocks, -1)) for left, right in stacked]
        return carried(xp.sum(split(xp.round(xp.concat(sums, axis=1) / step), xp), axis=1))

    n = X.shape[0]
    whole = n - n % BLOCK_ROWS
    return reduce(add_limbs, [counts(start, stop) for start, stop in ((0, whole), (whole, n)) if start < stop])
