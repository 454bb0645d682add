"""Sums as products of arrays, in float64 on any device: gradients, and the gradient and Hessian that a minimiser needs.

Each function takes a term, the mapped rows Z of whole blocks, labels and weights, and gives pairs (A, B): the block's sum is the
flattened AᵀB of its rows, one pair after the other. The formulas are those of the terms' own `__call__`, on rows that may be on a
card: what crosses to the host is the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dperm.problem import Loss
from dperm.rows.base import BLOCK_ROWS, Term, add_limbs, split
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm, UnclippedGradientTerm
from dperm.terms.objective import CappedGradientTerm, HessianProductTerm, MinimiserTerm, WeightedRows
from dperm.terms.statistics import WeightedGradientTerm

Array = Any
Pairs = Iterator[tuple[Array, Array]]


def product_counts(term: Term, X: Array, y: Array, weight: Array, step: float) -> Array:
    """Counts of grid steps of Σ rows, in limbs, for rows that start at a block's first row: blocks in float64, then integers.

    A block of m rows errs by at most m²·2⁻⁵³ of the row bound: 7e-9 for 8,192 rows.
    """
    import array_api_compat

    xp = array_api_compat.array_namespace(X)
    Z = mapped(xp, X, features_of(term))
    if weight is not None:
        weight = xp.astype(weight, xp.float64)
    pairs = list(PRODUCTS[type(term)](xp, term, Z, y, weight))
    total: Any = None
    for start in range(0, X.shape[0], BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        sums = [xp.reshape(left[part, :].T @ right[part, :], (-1,)) for left, right in pairs]
        counts = split(xp.round(xp.concat(sums) / step), xp)
        total = counts if total is None else add_limbs(total, counts)
    return total


def features_of(term: Any) -> Features:
    return term.rows.features if hasattr(term, "rows") else term.features  # type: ignore[no-any-return]


def mapped(xp: Any, X: Array, features: Features) -> Array:
    """z = (scale∘(x - shift), intercept) in float64."""
    Z = xp.astype(X, xp.float64)
    if features.shift is not None:
        Z = Z - like(xp, Z, features.shift)
    if features.scale is not None:
        Z = Z * like(xp, Z, features.scale)
    if features.intercept:
        Z = xp.concat([Z, xp.full_like(Z[:, :1], features.intercept)], axis=1)
    return Z


def like(xp: Any, Z: Array, values: Any) -> Array:
    """Host numbers in float64 on the device of Z."""
    import array_api_compat

    return xp.asarray(np.asarray(values, dtype=np.float64), device=array_api_compat.device(Z))


def margins_of(xp: Any, loss: Loss, Z: Array, w: Any) -> Array:
    """Z wᵀ: one column for each margin."""
    return Z @ like(xp, Z, np.reshape(w, (loss.margins, -1))).T


def slopes_of(xp: Any, loss: Loss, margins: Array, y: Array) -> Array:
    """φ' as columns, one for each margin."""
    return xp.reshape(loss.slope(margins[:, 0] if loss.margins == 1 else margins, y), (-1, loss.margins))


def shortened(xp: Any, slopes: Array, Z: Array, clip: float) -> Array:
    """Slopes scaled down so that no row's gradient is longer than the clip."""
    lengths = xp.sqrt(xp.sum(slopes * slopes, axis=1) * xp.sum(Z * Z, axis=1))
    safe = xp.maximum(lengths, xp.full_like(lengths, 1e-300))
    return slopes * xp.minimum(clip / safe, xp.ones_like(safe))[:, None]


def between(xp: Any, weight: Array, high: float) -> Array:
    return xp.minimum(xp.maximum(weight, xp.zeros_like(weight)), xp.full_like(weight, high))


def gradient(xp: Any, term: GradientTerm, Z: Array, y: Array, weight: Array) -> Pairs:
    slopes = slopes_of(xp, term.loss, margins_of(xp, term.loss, Z, term.w), y)
    yield shortened(xp, slopes if weight is None else slopes * weight[:, None], Z, term.clip), Z


def unclipped(xp: Any, term: UnclippedGradientTerm, Z: Array, y: Array, weight: Array) -> Pairs:
    slopes = slopes_of(xp, term.loss, margins_of(xp, term.loss, Z, term.w), y)
    yield (slopes if weight is None else slopes * weight[:, None]), Z


def weighted(xp: Any, term: WeightedGradientTerm, Z: Array, y: Array, weight: Array) -> Pairs:
    slopes = slopes_of(xp, term.loss, margins_of(xp, term.loss, Z, term.w), y)
    slopes = shortened(xp, slopes, Z, term.clip)
    yield (slopes if weight is None else slopes * between(xp, weight, term.max_weight)[:, None]), Z


def capped(xp: Any, rows: WeightedRows, Z: Array, weight: Array) -> tuple[Array, Array]:
    """(cap factor, weight) of every row: `WeightedRows.factors`. Norms are raised by their rounding."""
    sizes = xp.sqrt(xp.sum(Z * Z, axis=1)) * (1 + 1e-12)
    sizes = xp.maximum(sizes, xp.full_like(sizes, 1e-300))
    cap = xp.minimum(rows.row_cap / sizes, xp.ones_like(sizes))
    omega = xp.minimum(rows.row_radius / (sizes * cap), xp.ones_like(sizes))
    return cap, omega if weight is None else omega * between(xp, weight, rows.max_weight)


def curvatures_of(xp: Any, loss: Loss, margins: Array, y: Array) -> Array:
    """φ'' as (rows, K, K)."""
    K = loss.margins
    return xp.reshape(loss.curvature(margins[:, 0] if K == 1 else margins, y), (-1, K, K))


def minimiser(xp: Any, term: MinimiserTerm | CappedGradientTerm, Z: Array, y: Array, weight: Array) -> Pairs:
    """Σ ω∇φ, then the Hessian row block by row block: for margin k, Zᵀ(φ''_kl·Z) over all l side by side."""
    rows, loss = term.rows, term.rows.loss
    cap, weight = capped(xp, rows, Z, weight)
    margins = margins_of(xp, loss, Z, term.w) * cap[:, None]
    yield slopes_of(xp, loss, margins, y) * (weight * cap)[:, None], Z
    if term.hessian:
        curvatures = curvatures_of(xp, loss, margins, y) * (weight * cap * cap)[:, None, None]
        for k in range(loss.margins):
            yield Z, xp.reshape(curvatures[:, k, :, None] * Z[:, None, :], (Z.shape[0], -1))


def hessian_product(xp: Any, term: HessianProductTerm, Z: Array, y: Array, weight: Array) -> Pairs:
    rows, loss = term.rows, term.rows.loss
    cap, weight = capped(xp, rows, Z, weight)
    margins = margins_of(xp, loss, Z, term.w) * cap[:, None]
    moved = margins_of(xp, loss, Z, term.direction) * cap[:, None]
    slopes = xp.sum(curvatures_of(xp, loss, margins, y) * moved[:, None, :], axis=2)
    yield slopes * (weight * cap)[:, None], Z


# By exact type: a subclass that computes something else must not be taken for its parent.
PRODUCTS: dict[type, Callable[..., Pairs]] = {
    GradientTerm: gradient,
    UnclippedGradientTerm: unclipped,
    WeightedGradientTerm: weighted,
    MinimiserTerm: minimiser,
    CappedGradientTerm: minimiser,
    HessianProductTerm: hessian_product,
}
