"""Rows cut to a ball of known radius, on one grid for all of them: what symmetric moments and squares are made of.

    c = round(x·2²⁰/r),   ‖c‖ ≤ 2²⁰,   Σ c_i c_iᵀ and Σ c_i∘c_i in whole numbers of (r·2⁻²⁰)²

Both factors are the same c, so that what one row adds is c cᵀ, which is positive semidefinite: the √2 of a replaced row rests
on it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dperm.problem.arrays import Vector
from dperm.rows.exact import Pair
from dperm.terms.affine import Features
from dperm.terms.gridded import scaled
from dperm.terms.sparse_rows import canonical, centred_norms

MOST = 2.0**20
# Sparse rows are not centred before they are summed, so their entries may be longer than the ball: int64 has room for 2²⁴ steps.
MOST_SPARSE = 2.0**24


def in_ball(rows: Vector, radius: float) -> Vector:
    """Rows as whole numbers of radius·2⁻²⁰, none longer than the radius: ‖c‖² ≤ 2⁴⁰ is a comparison of whole numbers.

    A longer row is scaled down and rounded towards 0. A row with an entry that is no finite number is a row of zeros.
    """
    largest = np.maximum(rows.max(axis=1, initial=0.0), -rows.min(axis=1, initial=0.0))
    bad = ~np.isfinite(largest)
    if bad.any():
        rows = np.where(bad[:, None], 0.0, rows)
    # Entries beyond 2²⁰ radii have no whole number whose square is exact: such a row is brought near first, by its largest entry.
    near = np.maximum(np.where(bad, 0.0, largest) / radius, 1.0)
    counts = np.rint(scaled(rows, MOST / radius / near))
    sizes = np.vecdot(counts, counts)
    longer = (sizes > MOST**2) | (near > 1.0)
    if longer.any():
        shorter = np.minimum(1.0, MOST / np.sqrt(np.maximum(sizes, 1.0)))
        counts = np.where(longer[:, None], np.trunc(scaled(counts, shorter)), counts)
    return np.asarray(counts)


def reach(shift: Vector | None, radius: float) -> float:
    """How long a row inside the ball around the shift can be."""
    return radius + (0.0 if shift is None else float(np.linalg.norm(shift)))


def sparse_squares(X: csr_array, weight: Vector, shift: Vector | None, radius: float) -> list[Pair]:
    """Σ f²x², Σ f²x and Σ f² of rows scaled by f = min(1, r'/‖x - m‖), of which Σ (f(x - m))² is made afterwards.

    c = round(f·x·2²⁴/reach) and q = round(f·2²⁴) are whole numbers; a row adds (c·reach - m·q)²·2⁻⁴⁸, entry by entry. Rounding
    moves that row by at most (√d·reach + ‖m‖)·2⁻²⁵ in ℓ2, and r' is smaller than r by as much.
    """
    X, most = canonical(X), reach(shift, radius)
    spare = (math.sqrt(X.shape[1]) + 1) * most / MOST_SPARSE
    data = X.data.astype(np.float64)
    sizes = centred_norms(X, data, np.ones(X.shape[0]), Features(shift=shift))
    bad = ~np.isfinite(sizes)
    f = np.where(bad, 0.0, weight * np.minimum(1.0, max(radius - spare, 0.0) / np.maximum(sizes, 1e-200)))
    rows = np.repeat(f, np.diff(X.indptr))
    c = np.rint(np.where(rows > 0, data, 0.0) * rows * (MOST_SPARSE / most)).astype(np.int64)
    q = np.rint(f * MOST_SPARSE).astype(np.int64)
    entries, squares = (csr_array((part, X.indices, X.indptr), shape=X.shape) for part in (c, c * c))
    return [Pair(np.ones_like(q), squares), Pair(q, entries), Pair(q * q), Pair(np.ones(1))]


def centred_squares(total: NDArray[np.longdouble], shift: Vector | None, radius: float) -> Vector:
    """Σ (f(x - m))² for every column, from the exact totals of `sparse_squares`."""
    d = (len(total) - 2) // 2
    most = reach(shift, radius)
    squares = total[:d] * most**2
    if shift is not None:
        squares = squares - 2 * most * shift * total[d : 2 * d] + shift**2 * total[2 * d]
    return np.maximum(np.asarray(squares / MOST_SPARSE**2, dtype=np.float64), 0.0)
