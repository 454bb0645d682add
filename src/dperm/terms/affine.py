"""The affine map between stored rows and the rows of the problem: z = (scale∘(x - shift), intercept).

What a whole solve needs of it is here, in floats: margins, norms and gradients of z are taken from x without forming z, so a
sparse matrix stays sparse. Noisy sums see rows on their grids instead: `dperm.terms.gridded`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dperm.problem.arrays import Matrix, Vector, dense, is_sparse
from dperm.rows.exact import tall_product, transposed

HALF_UNIT = {np.dtype(np.float32): 2.0**-24, np.dtype(np.float64): 2.0**-53}


@dataclass(frozen=True, eq=False)
class Features:
    """z = (scale∘(x - shift), intercept); `None` means no shift, unit scale; intercept 0 means no intercept column.

    >>> features = Features(intercept=1.0)
    >>> features.width(3)
    4
    """

    intercept: float = 0.0
    shift: Vector | None = None
    scale: Vector | None = None

    def width(self, d: int) -> int:
        """Number of columns of z."""
        return d + (1 if self.intercept else 0)

    @property
    def places(self) -> int:
        """Number of places of the map's tables, where a part of z is looked up: none in an affine map."""
        return 0

    def looked_up(self, totals: np.ndarray) -> np.ndarray:
        """The totals of the places, one row per output, through the tables."""
        return totals

    def margins(self, X: Matrix, weights: Vector) -> Vector:
        """Z @ weights.T for weights of shape (width,) or (K, width), in the precision of X.

        A rounded margin changes a row's slope a little, and never its bound: the clip comes after.
        """
        d = X.shape[1]
        slopes = weights[..., :d] if self.scale is None else weights[..., :d] * self.scale
        products = tall_product(X, slopes.T.astype(X.dtype, copy=False))
        if not self.intercept and self.shift is None:
            return np.asarray(products)
        constant = self.intercept * weights[..., d] if self.intercept else np.zeros(weights.shape[:-1])
        if self.shift is not None:
            constant = constant - slopes @ self.shift
        return np.asarray(products + np.asarray(constant, dtype=products.dtype))

    @cached_property
    def key(self) -> tuple[object, ...]:
        """The map's numbers: a term that was sent to a worker finds the gridded rows of the one sent before."""
        return (self.intercept, *(None if part is None else part.tobytes() for part in (self.shift, self.scale)))

    def squared_norms(self, X: Matrix) -> Vector:
        """‖z_i‖₂², raised by its own rounding error; the sparse form expands the square so that zeros stay unstored."""
        shift = 0.0 if self.shift is None else self.shift
        scale = np.ones(X.shape[1]) if self.scale is None else self.scale
        if is_sparse(X):
            weights = scale * scale
            # `power` squares stored numbers, which are the entries only where none is stored in parts.
            squares = X.power(2) if X.has_canonical_format else X.multiply(X)
            total = squares @ weights - 2.0 * (X @ (weights * shift)) + float(np.sum(weights * shift * shift))
            # The expansion can cancel; a floor of rounding size keeps a computed norm from falling below the true one.
            total = np.maximum(total, 0.0) * (1 + 1e-12) + 1e-15
        else:
            Z = self.centred(X)
            if self.scale is not None:
                Z = Z * self.scale.astype(Z.dtype)
            total = row_squares(Z)
        return np.asarray(total, dtype=np.float64) + self.intercept**2

    def centred(self, X: np.ndarray) -> np.ndarray:
        """x - shift in the precision of X. For float32 rows the map is defined with the shift rounded to float32: a difference of
        two float32 numbers is exact up to half a unit of itself, so nothing cancels however large the shift is."""
        return X if self.shift is None else X - self.shift.astype(X.dtype)

    def dense(self, X: Matrix) -> Vector:
        """The rows z themselves, in float64, intercept column last."""
        Z = np.asarray(self.centred(dense(X)), dtype=np.float64)
        if self.scale is not None:
            Z = Z * self.scale
        return np.column_stack([Z, np.full(len(Z), self.intercept)]) if self.intercept else Z

    def pull(self, X: Matrix, slopes: Vector) -> Vector:
        """Σ_i slopes_i·z_i for slopes of shape (n,) or (n, K), in float64; shaped like the weights. A NaN slope adds nothing."""
        slopes = settled(slopes)
        rows = np.asarray((transposed(X) @ slopes).T if is_sparse(X) else np.dot(slopes.T, X))
        total = slopes.sum(axis=0) if self.intercept or self.shift is not None else 0.0
        if self.shift is not None:
            rows = rows - np.multiply.outer(total, self.shift)
        if self.scale is not None:
            rows = rows * self.scale
        if self.intercept:
            rows = np.concatenate([rows, np.asarray(self.intercept * total)[..., None]], axis=-1)
        return np.asarray(rows, dtype=np.float64)


def settled(values: Vector) -> Vector:
    """What rows add, with 0 for NaN, as on a GPU: a loss that overflows on one row must not be the whole block's sum."""
    nothing = np.isnan(values)
    return np.where(nothing, values.dtype.type(0), values) if nothing.any() else values


def row_squares(Z: np.ndarray) -> Vector:
    """Upper bounds on Σ_j Z_ij².

    The computed sum of d non-negative products is within a factor 1 ± γ_(d+2) of the real one (two more for a shift and a scale),
    so 1 + 2(d + 2)u raises it above; the last term covers squares that underflow.
    """
    d = Z.shape[1]
    unit = HALF_UNIT.get(Z.dtype, 2.0**-53)
    with np.errstate(over="ignore"):  # an infinite norm means a slope of 0: safe
        total = np.vecdot(Z, Z) if d else np.zeros(len(Z))
    return np.asarray(np.asarray(total, dtype=np.float64) * (1 + 2 * (d + 2) * unit) + d * 2.0**-126)
