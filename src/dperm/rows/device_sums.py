"""Rows on a device, inside their bounds and with their gaps filled, row by row as in memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dperm.problem import DataBounds
from dperm.problem.arrays import Array, device, namespace, row_by_row, shrink_to_norm
from dperm.problem.bounds import rounding_margin, squares_hold
from dperm.rows.device_products import is_torch

if TYPE_CHECKING:
    from dperm.rows.device import DeviceRows

# Entries that are looked at in one go: temporaries stay small.
CHUNK_ENTRIES = 1 << 26


def device_labels(values: object, rows: DeviceRows) -> Array:
    """Host labels or weights on the device of the rows; float32 for the kernel, whole numbers stay whole."""
    xp = namespace(rows.X)
    values = np.asarray(values)
    kind = xp.int64 if values.dtype.kind in "iu" else xp.float64
    if is_torch(rows.X) and rows.X.dtype.itemsize < 8 and kind is xp.float64:
        kind = xp.float32
    return xp.asarray(values, dtype=kind, device=rows.device)


def beside(numbers: NDArray[np.float64], value: Array) -> Array:
    """Host numbers where a value is. They travel on a stream of their own, while the device still works on the value."""
    if not is_torch(value):
        return numbers.reshape(value.shape)
    import torch

    found = torch.from_numpy(numbers).reshape(value.shape)
    if value.is_cuda:
        aside, here = torch.cuda.Stream(value.device), torch.cuda.current_stream(value.device)
        with torch.cuda.stream(aside):
            found = found.to(value.device)
        here.wait_stream(aside)
        found.record_stream(here)
    moved: Array = found
    return moved


@np.errstate(all="ignore")  # a warning would tell of one row
def clipped_rows(X: Array, data: DataBounds) -> Array:
    """`data.enforce` on a device, row by row: X itself where every row is inside, a clipped copy otherwise."""
    xp = namespace(X)
    if not xp.isdtype(X.dtype, "real floating"):
        X = xp.astype(X, xp.float64)
    n, d = X.shape
    half = is_torch(X) and X.dtype.itemsize == 2
    # A row of bfloat16 that is inside stays as it is: only the store of a scaled row needs the room of its coarse rounding.
    margin = rounding_margin(d, 2.0**-23 if half else float(xp.finfo(X.dtype).eps))
    target = data.x_norm * (1.0 - margin)
    size = max(CHUNK_ENTRIES // d, 1)
    copy = None
    for start in range(0, n, size):
        part = X[start : start + size, :]
        wide = row_by_row(part if part.dtype == xp.float64 else xp.astype(part, xp.float32))
        slack = 1.0 - 4 * (d + 4) * float(xp.finfo(wide.dtype).eps)
        sums = xp.sum(wide * wide, axis=1)  # infinite where an entry is, which no bound lets pass
        holds = math.isinf(target) or squares_hold(target, d, xp.finfo(wide.dtype))
        if data.low is None and holds and bool(xp.all((sums <= target * target * slack) & xp.isfinite(sums))):
            continue
        if copy is None:
            copy = xp.asarray(X, copy=True)
        wide = xp.astype(xp.where(xp.isfinite(part), part, xp.zeros_like(part)), xp.float64)
        if data.low is not None:
            place = device(X)
            low, high = (xp.asarray(np.asarray(end), dtype=xp.float64, device=place) for end in (data.low, data.high))
            wide = xp.minimum(xp.maximum(wide, low), high)
        if math.isfinite(target):
            wide = shrink_to_norm(xp, wide, data.x_norm, margin)
            if half:
                outside = xp.sum(wide * wide, axis=1, keepdims=True) >= (target * (1.0 - 2.0**-20)) ** 2
                wide = xp.where(outside, wide * (1.0 - 2.0**-7), wide)
        copy[start : start + size, :] = xp.astype(wide, X.dtype)
    return X if copy is None else copy


def filled_entries(X: Array, values: NDArray[np.float64]) -> Array:
    """Missing cells (-0.0) at the given values, in the dtype of X: X itself where nothing is missing, a copy otherwise."""
    xp = namespace(X)
    fill = xp.asarray(values, dtype=X.dtype, device=device(X))
    size = max(CHUNK_ENTRIES // X.shape[1], 1)
    copy = None
    for start in range(0, X.shape[0], size):
        part = X[start : start + size, :]
        gap = (part >= 0) & xp.signbit(part)  # -0.0 alone is both
        if not bool(xp.any(gap)):
            continue
        if copy is None:
            copy = xp.asarray(X, copy=True)
        copy[start : start + size, :] = xp.where(gap, fill, part)
    return X if copy is None else copy
