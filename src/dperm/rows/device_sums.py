"""Gradient sums on a card: rows inside their bounds, which term takes the fused kernel, and that path."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.problem import DataBounds
from dperm.problem.arrays import shrink_to_norm
from dperm.problem.bounds import rounding_margin
from dperm.rows import kernels
from dperm.terms.gradient import GradientTerm

# Rows that one launch of the kernel takes when X streams from the host.
STREAM_ROWS = 1 << 20
CHUNK_ENTRIES = 1 << 26


def _is_torch(X: Any) -> bool:
    return type(X).__module__.split(".")[0] == "torch"


def device_labels(values: Any, rows: Any) -> Any:
    """Host labels or weights on the device of the rows; float32 for the kernel, whole numbers stay whole."""
    import array_api_compat

    xp = array_api_compat.array_namespace(rows.X)
    values = np.asarray(values)
    kind = xp.int64 if values.dtype.kind in "iu" else xp.float64
    if _is_torch(rows.X) and rows.X.dtype.itemsize < 8 and kind is xp.float64:
        kind = xp.float32
    return xp.asarray(values, dtype=kind, device=rows.device)


def clipped_rows(X: Any, data: DataBounds) -> Any:
    """`data.enforce` on a device, row by row: X itself where every row is inside, a clipped copy otherwise."""
    import array_api_compat

    xp = array_api_compat.array_namespace(X)
    if not xp.isdtype(X.dtype, "real floating"):
        X = xp.astype(X, xp.float64)
    n, d = X.shape
    half = _is_torch(X) and X.dtype.itemsize == 2
    # A row of bfloat16 that is inside stays as it is: only the store of a scaled row needs the room of its coarse rounding.
    margin = rounding_margin(d, 2.0**-23 if half else float(xp.finfo(X.dtype).eps))
    target = data.x_norm * (1.0 - margin)
    size = max(CHUNK_ENTRIES // d, 1)
    copy = None
    for start in range(0, n, size):
        part = X[start : start + size, :]
        wide = part if part.dtype == xp.float64 else xp.astype(part, xp.float32)
        slack = 1.0 - 4 * (d + 4) * float(xp.finfo(wide.dtype).eps)
        sums = xp.sum(wide * wide, axis=1)  # infinite where an entry is, which no bound lets pass
        if data.low is None and bool(xp.all((sums <= target * target * slack) & xp.isfinite(sums))):
            continue
        if copy is None:
            copy = xp.asarray(X, copy=True)
        wide = xp.astype(xp.where(xp.isfinite(part), part, xp.zeros_like(part)), xp.float64)
        if data.low is not None:
            place = array_api_compat.device(X)
            low, high = (xp.asarray(np.asarray(end), dtype=xp.float64, device=place) for end in (data.low, data.high))
            wide = xp.minimum(xp.maximum(wide, low), high)
        if math.isfinite(target):
            wide = shrink_to_norm(xp, wide, data.x_norm, margin)
            if half:
                outside = xp.sum(wide * wide, axis=1, keepdims=True) >= (target * (1.0 - 2.0**-20)) ** 2
                wide = xp.where(outside, wide * (1.0 - 2.0**-7), wide)
        copy[start : start + size, :] = xp.astype(wide, X.dtype)
    return X if copy is None else copy


def filled_entries(X: Any, values: NDArray[np.float64]) -> Any:
    """Missing cells (-0.0) at the given values, in the dtype of X: X itself where nothing is missing, a copy otherwise."""
    import array_api_compat

    xp = array_api_compat.array_namespace(X)
    fill = xp.asarray(values, dtype=X.dtype, device=array_api_compat.device(X))
    size = max(CHUNK_ENTRIES // X.shape[1], 1)
    copy = None
    for start in range(0, X.shape[0], size):
        part = X[start : start + size, :]
        gap = (part == 0) & xp.signbit(part)
        if not bool(xp.any(gap)):
            continue
        if copy is None:
            copy = xp.asarray(X, copy=True)
        copy[start : start + size, :] = xp.where(gap, fill, part)
    return X if copy is None else copy


def takes_fused(rows: Any, term: GradientTerm) -> bool:
    """True for a scalar loss the kernel knows, on float32 or bfloat16 CUDA rows of at most 4,096 columns, with tame numbers."""
    if not kernels.AVAILABLE or not _is_torch(rows.X) or kernels.slope_of(term.loss) is None or rows.d > kernels.LARGEST_WIDTH:
        return False
    import torch

    if "cuda" not in str(rows.device) or rows.X.dtype not in (torch.float32, torch.bfloat16):
        return False
    scale = 1.0 if term.features.scale is None else float(np.max(np.abs(term.features.scale)))
    shift = 0.0 if term.features.shift is None else float(np.max(np.abs(term.features.shift)))
    # The kernel multiplies before it clips: nothing on the way may overflow float32.
    tame = (rows.data.x_norm + shift) * scale < 1e15 and float(np.max(np.abs(term.w))) < 1e15
    return tame and 1e-25 < term.clip < 1e25


def fused_sum(rows: Any, term: GradientTerm, weight: Any) -> NDArray[np.float64]:
    """One read of X. Parameters go to the card and one vector of counts comes back."""
    import torch

    slope = kernels.slope_of(term.loss)
    assert slope is not None  # `takes_fused` asked
    features, d = term.features, rows.d
    w = torch.tensor(term.w[:d], dtype=torch.float32, device=rows.device)
    bias = float(features.intercept * term.w[d]) if features.intercept else 0.0
    scale = offset = None
    if features.scale is not None or features.shift is not None:
        factors = np.ones(d) if features.scale is None else features.scale
        shifts = np.zeros(d) if features.shift is None else features.shift
        scale = torch.tensor(factors, dtype=torch.float32, device=rows.device)
        offset = torch.tensor(-factors * shifts, dtype=torch.float32, device=rows.device)
    heaviest = getattr(term, "max_weight", None)
    if heaviest is not None and weight is not None:
        weight = torch.clamp(weight, 0.0, heaviest)
    total: Any = None
    step = 1.0
    processors = torch.cuda.get_device_properties(rows.device).multi_processor_count
    for start, X in rows.pieces(STREAM_ROWS if rows.streams else rows.n):
        part = slice(start, start + X.shape[0])
        total, step = kernels.fused_counts(
            X if X.stride(1) == 1 else X.contiguous(),
            rows.y[part],
            None if weight is None else weight[part],
            w,
            slope,
            clip=term.clip,
            bias=bias,
            intercept=features.intercept,
            scale=scale,
            offset=offset,
            weight_after_clip=heaviest is not None,
            heaviest=1.0 if heaviest is None else heaviest,
            total=total,
            processors=processors,
        )
    return np.asarray(total.cpu().numpy().astype(np.float64) * step)
