"""The affine map between stored rows and the rows of the problem: z = (scale∘(x - shift), intercept).

Margins, norms and gradients of z are taken from x without forming z, so a sparse matrix stays sparse and X is read once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.rows.base import Block
from dperm.rows.memory import is_sparse

Vector = NDArray[np.float64]

# A float32 product over m rows can err by m²·2⁻²⁴ times the row bound. With 64 rows that is 2.4e-4: inside the 0.1 % slack
# of a release even when both neighbours err in opposite directions. Float64 needs no such care: 8,192²·2⁻⁵³ is 7e-9.
FLOAT32_ROWS = 64


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

    def margins(self, X: Any, weights: Vector) -> Vector:
        """Z @ weights.T for weights of shape (width,) or (K, width)."""
        d = X.shape[1]
        slopes = weights[..., :d] if self.scale is None else weights[..., :d] * self.scale
        constant = self.intercept * weights[..., d] if self.intercept else np.zeros(weights.shape[:-1])
        if self.shift is not None:
            constant = constant - slopes @ self.shift
        return np.asarray(X @ slopes.T.astype(X.dtype, copy=False)) + constant

    def norms(self, block: Block) -> Vector:
        """‖z_i‖₂ of every row, kept with the block."""
        return np.asarray(block.remember((self, "norms"), lambda: np.sqrt(self.squared_norms(block.X))))

    def squared_norms(self, X: Any) -> Vector:
        """‖z_i‖₂²; the sparse form expands the square so that zeros stay unstored."""
        shift = 0.0 if self.shift is None else self.shift
        scale = np.ones(X.shape[1]) if self.scale is None else self.scale
        if is_sparse(X):
            weights = scale * scale
            total = X.multiply(X) @ weights - 2.0 * (X @ (weights * shift)) + float(np.sum(weights * shift * shift))
            # The expansion can cancel; a floor of rounding size keeps a computed norm from falling below the true one.
            total = np.maximum(total, 0.0) * (1 + 1e-12) + 1e-15
        else:
            Z = (X - shift) * scale if self.shift is not None or self.scale is not None else X
            total = np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
        return np.asarray(total, dtype=np.float64) + self.intercept**2

    def pull(self, X: Any, slopes: Vector) -> Vector:
        """Σ_i slopes_i·z_i for slopes of shape (n,) or (n, K); the answer has the shape of the weights."""
        total = slopes.sum(axis=0)
        rows = weighted_row_sum(X, slopes, exact=self.shift is not None)
        if self.shift is not None:
            rows = rows - np.multiply.outer(total, self.shift)
        if self.scale is not None:
            rows = rows * self.scale
        if self.intercept:
            rows = np.concatenate([rows, np.asarray(self.intercept * total)[..., None]], axis=-1)
        return np.asarray(rows, dtype=np.float64)


def weighted_row_sum(X: Any, slopes: Vector, *, exact: bool = False) -> Vector:
    """slopesᵀ X with an error that fits the release slack, whatever the data: float32 blocks add in short runs."""
    if is_sparse(X):
        return np.asarray((X.T @ slopes).T, dtype=np.float64)
    if X.dtype != np.float32:
        return np.asarray(slopes.T @ X)
    if exact:  # after a shift small differences of large sums matter
        return np.asarray(slopes.T @ X.astype(np.float64))
    whole = len(X) - len(X) % FLOAT32_ROWS
    narrow = slopes.astype(np.float32)
    result = np.zeros((*slopes.shape[1:], X.shape[1]))
    if whole:
        runs = narrow[:whole].reshape(-1, FLOAT32_ROWS, *slopes.shape[1:])
        parts = X[:whole].reshape(-1, FLOAT32_ROWS, X.shape[1])
        if slopes.ndim == 1:
            result += (runs[:, None, :] @ parts)[:, 0, :].sum(axis=0, dtype=np.float64)
        else:
            result += (runs.transpose(0, 2, 1) @ parts).sum(axis=0, dtype=np.float64)
    if whole < len(X):
        result += slopes[whole:].T @ X[whole:].astype(np.float64)
    return result
