"""What a term adds on a device, as products of arrays in float64: gradients, and the gradient and Hessian of a minimiser.

Each function takes a term, the mapped rows Z of whole blocks, labels and weights, and gives pairs (A, B): the block's sum is the
flattened AᵀB of its rows, one pair after the other. The formulas are those of the terms' own `__call__`, on rows that may be on a
GPU. A term offers them as `device_pairs`, and the fused kernel as `device_sum`; the engine multiplies and knows no term.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.problem import Loss
from dperm.problem.arrays import Array, Namespace, clip, device, namespace
from dperm.rows import int8, kernels
from dperm.rows.device_products import Pairs, is_torch
from dperm.terms.affine import Features

if TYPE_CHECKING:
    from dperm.rows.device import DeviceRows
    from dperm.terms.gradient import GradientTerm
    from dperm.terms.objective import CappedGradientTerm, HessianProductTerm, MinimiserTerm, WeightedRows
    from dperm.terms.statistics import SmoothGradientTerm, WeightedGradientTerm

# Rows that one launch of the kernel takes when X streams from the host.
STREAM_ROWS = 1 << 20
# Rows with fewer entries are those of tables, for whose columns 8 bits are coarse: they keep float64, which is fast there.
LEAST_EMBEDDING = 128


def mapped(xp: Namespace, X: Array, features: Features) -> Array:
    """z = (scale∘(x - shift), intercept) in float64."""
    Z = xp.astype(X, xp.float64)
    if features.shift is not None:
        Z = Z - like(xp, Z, features.shift)
    if features.scale is not None:
        Z = Z * like(xp, Z, features.scale)
    if features.intercept:
        Z = xp.concat([Z, xp.full_like(Z[:, :1], features.intercept)], axis=1)
    return Z


def like(xp: Namespace, Z: Array, values: ArrayLike) -> Array:
    """Host numbers in float64 on the device of Z."""
    return xp.asarray(np.asarray(values, dtype=np.float64), device=device(Z))


def device_margins(xp: Namespace, loss: Loss, Z: Array, w: ArrayLike) -> Array:
    """Z wᵀ: one column for each margin."""
    return Z @ like(xp, Z, np.reshape(w, (loss.margins, -1))).T


def device_slopes(xp: Namespace, loss: Loss, margins: Array, y: Array) -> Array:
    """φ' as columns, one for each margin."""
    return xp.reshape(without_overflow(xp, loss.slope(margins[:, 0] if loss.margins == 1 else margins, y)), (-1, loss.margins))


def without_overflow(xp: Namespace, values: Array) -> Array:
    """What a loss says, with 0 for NaN, and a large number, which a clip shortens, for an infinite one: a loss that overflows on
    one row must not be the whole block's sum."""
    values = clip(xp, xp.astype(values, xp.float64), -1e100, 1e100)
    return xp.where(xp.isnan(values), xp.zeros_like(values), values)


def shortened(xp: Namespace, slopes: Array, Z: Array, clip: float) -> Array:
    """Slopes scaled down so that no row's gradient is longer than the clip."""
    lengths = xp.sqrt(xp.sum(slopes * slopes, axis=1) * xp.sum(Z * Z, axis=1))
    safe = xp.maximum(lengths, xp.full_like(lengths, 1e-300))
    return slopes * xp.minimum(clip / safe, xp.ones_like(safe))[:, None]


def kept_weights(xp: Namespace, Z: Array, weight: Array | None, high: float) -> Array:
    """The weights of rows Z, kept in [0, high]; one without a weight has 1."""
    weight = xp.ones_like(Z[:, 0]) if weight is None else weight
    return xp.minimum(xp.maximum(weight, xp.zeros_like(weight)), xp.full_like(weight, high))


def sloped(term: GradientTerm | SmoothGradientTerm, xp: Namespace, X: Array, y: Array) -> tuple[Array, Array]:
    """(φ', z) of every row, before weight and clip."""
    Z = mapped(xp, X, term.features)
    return device_slopes(xp, term.loss, device_margins(xp, term.loss, Z, term.w), y), Z


def gradient(term: GradientTerm, xp: Namespace, X: Array, y: Array, weight: Array | None) -> Pairs:
    """The weight belongs to the gradient that is clipped."""
    slopes, Z = sloped(term, xp, X, y)
    yield shortened(xp, slopes if weight is None else slopes * weight[:, None], Z, term.clip), Z


def unclipped(term: GradientTerm, xp: Namespace, X: Array, y: Array, weight: Array | None) -> Pairs:
    slopes, Z = sloped(term, xp, X, y)
    yield (slopes if weight is None else slopes * weight[:, None]), Z


def weighted(term: WeightedGradientTerm | SmoothGradientTerm, xp: Namespace, X: Array, y: Array, weight: Array | None) -> Pairs:
    """The weight, at most `max_weight`, acts on the clipped gradient."""
    slopes, Z = sloped(term, xp, X, y)
    slopes = shortened(xp, slopes, Z, term.clip)
    yield slopes * kept_weights(xp, Z, weight, term.max_weight)[:, None], Z


def capped(
    xp: Namespace, rows: WeightedRows, X: Array, weight: Array | None, w: ArrayLike
) -> tuple[Array, Array, Array, Array]:
    """(mapped rows, cap factors, weights, capped margins at w), as `WeightedRows.capped`. Norms are raised by their rounding."""
    Z = mapped(xp, X, rows.features)
    sizes = xp.sqrt(xp.sum(Z * Z, axis=1)) * (1 + 1e-12)
    sizes = xp.maximum(sizes, xp.full_like(sizes, 1e-300))
    cap = xp.minimum(rows.row_cap / sizes, xp.ones_like(sizes))
    omega = xp.minimum(rows.row_radius / (sizes * cap), xp.ones_like(sizes))
    omega = omega * kept_weights(xp, Z, weight, rows.max_weight)
    return Z, cap, omega, device_margins(xp, rows.loss, Z, w) * cap[:, None]


def device_curvatures(xp: Namespace, loss: Loss, margins: Array, y: Array) -> Array:
    """φ'' as (rows, K, K)."""
    K = loss.margins
    return xp.reshape(without_overflow(xp, loss.curvature(margins[:, 0] if K == 1 else margins, y)), (-1, K, K))


def minimiser(term: MinimiserTerm | CappedGradientTerm, xp: Namespace, X: Array, y: Array, weight: Array | None) -> Pairs:
    """Σ ω∇φ, then the Hessian row block by row block: for margin k, Zᵀ(φ''_kl·Z) over all l side by side."""
    loss = term.rows.loss
    Z, cap, weight, margins = capped(xp, term.rows, X, weight, term.w)
    yield device_slopes(xp, loss, margins, y) * (weight * cap)[:, None], Z
    if term.hessian:
        curvatures = device_curvatures(xp, loss, margins, y) * (weight * cap * cap)[:, None, None]
        for k in range(loss.margins):
            yield Z, xp.reshape(curvatures[:, k, :, None] * Z[:, None, :], (Z.shape[0], -1))


def hessian_product(term: HessianProductTerm, xp: Namespace, X: Array, y: Array, weight: Array | None) -> Pairs:
    loss = term.rows.loss
    Z, cap, weight, margins = capped(xp, term.rows, X, weight, term.w)
    moved = device_margins(xp, loss, Z, term.direction) * cap[:, None]
    slopes = xp.sum(device_curvatures(xp, loss, margins, y) * moved[:, None, :], axis=2)
    yield slopes * (weight * cap)[:, None], Z


def fused_sum(rows: DeviceRows, term: GradientTerm, weight: Array | None, most: float | None) -> NDArray[np.float64] | None:
    """One read of X by the fused kernel, or None where it cannot take these rows. Parameters go to the GPU, counts come back.

    `most` is the largest weight where weights act on the clipped gradient, None where they belong to what is clipped.
    """
    slope = kernels.kernel_slope(term.loss) if kernels.AVAILABLE else None
    if slope is None or not _tame(rows, term):
        return None
    import torch

    features, d = term.features, rows.d
    w = torch.tensor(term.w[:d], dtype=torch.float32, device=rows.device)
    scale = offset = None
    if features.scale is not None or features.shift is not None:
        factors = np.ones(d) if features.scale is None else features.scale
        shifts = np.zeros(d) if features.shift is None else features.shift
        scale = torch.tensor(factors, dtype=torch.float32, device=rows.device)
        offset = torch.tensor(-factors * shifts, dtype=torch.float32, device=rows.device)
    if most is not None and (weight is not None or most < 1.0):
        weight = torch.ones(rows.n, device=rows.device) if weight is None else weight
        weight = torch.clamp(weight, 0.0, most)
    total, step = None, 1.0
    processors = torch.cuda.get_device_properties(rows.device).multi_processor_count
    for start, X in rows.pieces(STREAM_ROWS if rows.streams else rows.n):
        part = slice(start, start + X.shape[0])
        total, step = kernels.fused_counts(
            X if is_torch(X) and X.stride(1) == 1 else torch.asarray(X).contiguous(),
            rows.y[part],
            None if weight is None else weight[part],
            w,
            slope,
            clip=term.clip,
            bias=float(features.intercept * term.w[d]) if features.intercept else 0.0,
            intercept=features.intercept,
            scale=scale,
            offset=offset,
            weight_after_clip=most is not None,
            heaviest=1.0 if most is None else most,
            total=total,
            processors=processors,
        )
    assert total is not None  # there is at least one row
    return np.asarray(total.cpu().numpy().astype(np.float64) * step)


def integer_sum(rows: DeviceRows, term: GradientTerm, weight: Array | None) -> NDArray[np.float64] | None:
    """Softmax gradients of resident rows on integer matrix units (`dperm.rows.int8`), or None where it cannot take these rows.

    The rows on their grid are kept until another map asks.
    """
    if not _on_matrix_units(rows, term):
        return None
    import torch

    features, K = term.features, term.loss.margins
    limbs, kept = int8.limbs_for(K), rows.memory.get("int8")
    if kept is None or kept[0] != (features.key, limbs):
        rows.memory.clear()
        plain = Features(0.0, features.shift, features.scale)
        xp = namespace(rows.X)
        pieces = ((start, mapped(xp, X, plain)) for start, X in rows.pieces(int8.PIECE_ROWS))
        kept = rows.memory["int8"] = ((features.key, limbs), int8.Int8Rows.of(pieces, rows.n, features.intercept, limbs))
    grid: int8.Int8Rows = kept[1]
    labels = torch.where(rows.y == torch.round(rows.y), rows.y, -1) if torch.is_floating_point(rows.y) else rows.y
    counts = grid.counts(np.reshape(term.w, (K, -1)), labels, weight, term.clip)
    return np.asarray(counts.cpu().numpy().astype(np.float64) * grid.unit(term.clip)).reshape(-1)


def _on_matrix_units(rows: DeviceRows, term: GradientTerm) -> bool:
    """True for a softmax on resident CUDA tensors with at least 128 columns and at most 2,047 classes, with tame numbers."""
    if term.loss.name != "multinomial" or not is_torch(rows.X) or rows.streams or "cuda" not in str(rows.device):
        return False
    wide = rows.d >= LEAST_EMBEDDING and term.loss.margins <= int8.MOST_CLASSES
    return wide and _within_float32(rows, term)


def _tame(rows: DeviceRows, term: GradientTerm) -> bool:
    """True for float32 or bfloat16 CUDA rows of at most 4,096 columns with tame numbers."""
    if not is_torch(rows.X) or rows.d > kernels.LARGEST_WIDTH:
        return False
    import torch

    if "cuda" not in str(rows.device) or rows.X.dtype not in (torch.float32, torch.bfloat16):
        return False
    return _within_float32(rows, term)


def _within_float32(rows: DeviceRows, term: GradientTerm) -> bool:
    """A kernel multiplies before it clips: nothing on the way may overflow float32, not even clip / 1e-15 for a row of zeros."""
    if rows.data is None:
        return False
    scale = 1.0 if term.features.scale is None else float(np.max(np.abs(term.features.scale)))
    shift = 0.0 if term.features.shift is None else float(np.max(np.abs(term.features.shift)))
    fits = (rows.data.x_norm + shift) * scale < 1e15 and float(np.max(np.abs(term.w))) < 1e15
    return fits and 1e-25 < term.clip < 1e20
