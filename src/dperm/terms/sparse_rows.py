"""Sparse rows under an affine map: norms without writing out a zero, and the column of ones that carries shift and intercept."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.sparse import csr_array

from dperm.problem.arrays import Vector
from dperm.terms.affine import Features

# Where a map's factors differ by more than this, rows that only small ones touch may be clipped earlier than need be.
WIDEST = 2.0**12


def canonical(X: csr_array) -> csr_array:
    """The CSR matrix with every entry stored once: the square of an entry is not the sum of the squares of its parts."""
    if X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X


def stretched(X: csr_array, features: Features) -> tuple[csr_array, Vector | None]:
    """The rows in float64 and the centre, both in the map's scale: z = x∘s about m∘s."""
    data, shift = X.data.astype(np.float64), features.shift
    if features.scale is not None:
        data *= features.scale.take(X.indices)
        shift = None if shift is None else shift * features.scale
    return csr_array((data, X.indices, X.indptr), shape=X.shape), shift


def affine(features: Features) -> bool:
    """Whether the map adds something to a row of zeros."""
    return bool(features.intercept) or features.shift is not None


@lru_cache(maxsize=8)
def narrowest(features: Features) -> float:
    """A public m such that rows are clipped as if ‖M(b, t)‖ were at least m: half of the map's smallest factor, within 2¹² of its
    largest. The grid of the left factor is C·2⁻²⁷/m, so that the row that the map stretches most still has 14 bits.

    Every block of a sum asks for the same one, so it is kept.
    """
    parts = [1.0] if features.scale is None else np.abs(features.scale)[np.flatnonzero(features.scale)].tolist() or [1.0]
    if features.intercept:
        parts.append(features.intercept)
    return max(min(parts), max(parts) / WIDEST) / 2


def centred_norms(X: csr_array, b: Vector, t: Vector, features: Features, behind: bool = False) -> Vector:
    """Upper bounds on ‖M(b, t)‖ = √(Σ s_j²(b_j - m_j·t)² + c²t²), each row's entries added one after the other.

    The square is expanded, so that zeros stay unstored: Σ_stored s_j²·b_j(b_j - 2m_j·t) + t²·Σ s_j²m_j². Each of at most d + 4
    roundings errs by 2⁻⁵² of at most 2(Σ s_j²b_j² + t²Σ s_j²m_j²), by which the result is raised. Where t stands `behind` b as a
    last column, it has the factor 0 there.
    """
    d = X.shape[1] - (1 if behind else 0)
    squares = np.ones(d) if features.scale is None else features.scale**2
    shift = np.zeros(d) if features.shift is None else features.shift
    places = X.indices.astype(np.intp)  # what `take` would make of them every time
    plain = np.append(squares, 0.0).take(places)
    plain *= b
    if features.shift is None:
        plain *= b
        exact = whole = row_sums(X, plain)
    else:
        crossed = np.append(2.0 * shift, 0.0).take(places)
        crossed *= np.repeat(t, np.diff(X.indptr))
        np.subtract(b, crossed, out=crossed)
        crossed *= plain
        plain *= b
        exact, whole = row_sums(X, crossed), row_sums(X, plain)
    beside = t * t * math.fsum(squares * shift * shift)
    total = exact + beside + (t * features.intercept) ** 2
    spare = (d + 8) * 2.0**-51 * (whole + beside)
    return np.asarray(np.sqrt(np.maximum(total, 0.0) + spare))


def centred_fourths(X: csr_array, entries: Vector, shift: Vector | None, unit: float) -> Vector:
    """Upper bounds on ‖x - m‖₄, with the fourth powers expanded as the squares of `centred_norms` are: Σ_stored ((x - m)⁴ - m⁴) +
    Σ m⁴. Powers are taken in units of a length that rows have; a row that is longer by far is infinitely long."""
    shift = np.zeros(X.shape[1]) if shift is None else shift / unit
    places = X.indices.astype(np.intp)
    with np.errstate(over="ignore", invalid="ignore"):  # a warning would tell of such a row
        stored, centre = (entries / unit - shift.take(places)) ** 4, (shift**4).take(places)
        beside = math.fsum(shift**4)
        total = row_sums(X, stored - centre) + beside
        spare = (X.shape[1] + 8) * 2.0**-51 * (row_sums(X, stored + centre) + beside)
        lengths = np.sqrt(np.sqrt(np.maximum(total, 0.0) + spare)) * unit
    return np.where(np.isnan(lengths), np.inf, lengths)


def row_sums(X: csr_array, entries: Vector) -> Vector:
    """Σ over the stored places of every row of X, with these entries there, one after the other."""
    return np.asarray(type(X)((entries, X.indices, X.indptr), shape=X.shape) @ np.ones(X.shape[1]))


def with_ones(X: csr_array, b: Vector, t: Vector, behind: bool) -> csr_array:
    """The whole numbers as CSR in int64, with t as a last column."""
    n, d = X.shape
    if not behind:
        return csr_array((b.astype(np.int64), X.indices, X.indptr), shape=(n, d))
    indptr = X.indptr + np.arange(n + 1, dtype=X.indptr.dtype)
    ends = indptr[1:] - 1
    inner = np.ones(indptr[-1], dtype=np.bool_)
    inner[ends] = False
    data, indices = np.empty(len(inner), dtype=np.int64), np.empty(len(inner), dtype=X.indices.dtype)
    data[inner], data[ends] = b, t
    indices[inner], indices[ends] = X.indices, d
    return csr_array((data, indices, indptr), shape=(n, d + 1))
