"""Estimates with the parts of their covariance, and linear maps of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Errors:
    """Estimates and three covariances.

    model     of sampling, if the model holds
    robust    of sampling, from the released scores, whatever holds; the larger of the two counts
    privacy   of all privacy noise
    """

    estimate: Vector
    model: Vector
    robust: Vector
    privacy: Vector

    def mapped(self, matrix: Vector, constant: Vector | float = 0.0) -> Errors:
        """Of matrix·estimate + constant."""
        parts = (matrix @ part @ matrix.T for part in (self.model, self.robust, self.privacy))
        return Errors(matrix @ self.estimate + constant, *parts)

    def variances(self, combinations: Vector | None = None) -> tuple[Vector, Vector]:
        """(sampling, privacy) variance of each estimate, or of each row of `combinations` times the estimates.

        >>> one = np.eye(1)
        >>> [part.tolist() for part in Errors(np.zeros(1), one, 2 * one, 3 * one).variances(np.array([[1.0], [2.0]]))]
        [[2.0, 8.0], [3.0, 12.0]]
        """
        if combinations is None:
            return np.maximum(np.diag(self.model), np.diag(self.robust)), np.diag(self.privacy).copy()
        model, robust, privacy = (
            np.einsum("ij,ij->i", combinations @ part, combinations) for part in (self.model, self.robust, self.privacy)
        )
        return np.maximum(model, robust), privacy

    def covariance(self) -> Vector:
        """Of all estimates together; its sampling part is not below either of the two in any direction."""
        return np.asarray(dominating(self.model, self.robust) + self.privacy)


def dominating(first: Vector, second: Vector) -> Vector:
    """A matrix that exceeds both symmetric matrices in every direction; `first` must be positive definite.

    With first = LLᵀ and L⁻¹·second·L⁻ᵀ = UDUᵀ it is LU·max(D, 1)·UᵀLᵀ; for a single number it is the larger one.

    >>> dominating(np.array([[4.0]]), np.array([[9.0]])).tolist()
    [[9.0]]
    """
    lower = np.linalg.cholesky(first)
    ratio = np.linalg.solve(lower, np.linalg.solve(lower, second).T)
    values, vectors = np.linalg.eigh((ratio + ratio.T) / 2)
    factor = lower @ vectors
    return np.asarray((factor * np.maximum(values, 1.0)) @ factor.T)
