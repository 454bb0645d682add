"""One Newton step from a noisy descent, and how far its answer may be from the truth.

    ḡ = H(θ̄ - θ_n) + ξ̄,  ξ̄ ~ N(0, σ_g²I)          mean of the noisy gradients over the window whose mean iterate is θ̄
    A = H + E                                       released curvature; E symmetric, deviation σ off and √2·σ on the diagonal
    x = σ²·tr (A + xI)⁻¹,  B = A + xI ≻ 0            Pastur's correction: B⁻¹ estimates H⁻¹ without the bias of A⁻¹
    θ̂ = θ̄ - v,  v = B⁻¹ḡ
    Cov θ̂ = sampling + B'⁻¹( σ_g²I + σ²(‖v‖²I + vvᵀ) )B'⁻¹,   sampling: the larger of φB'⁻¹/n and B'⁻¹V̂B'⁻¹/n

B' is B with every eigenvalue lowered by σ/√2, and not below σ/√2: noise that raised an eigenvalue must not shorten an interval.
Derivation, conditions and what is heuristic: `docs/theorems/intervals.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import null_space

from dperm.mechanisms.scaled.errors import Errors, Vector


def last_below(left: float, right: float, below: Callable[[float], bool]) -> float:
    """Where `below`, true on the left and false on the right, turns: by bisection to the last bit, so that another machine finds
    the same number."""
    for _ in range(200):
        middle = (left + right) / 2
        if not left < middle < right:
            break
        left, right = (middle, right) if below(middle) else (left, middle)
    return right


def pastur_shift(eigenvalues: Vector, deviation: float) -> float:
    """The x with x = σ²·Σ 1/(λ_j + x) and λ_j + x > 0 for all j: unique, since the right side falls and the left rises.

    With low = max(0, -λ_min), every λ_j + low + σ√p is at least σ√p, so the right side is at most σ√p there and the root lies in
    (low, low + σ√p].

    >>> round(pastur_shift(np.array([2.0]), 1.0), 6)  # x(2 + x) = 1
    0.414214
    """
    if deviation == 0:
        return 0.0
    low = max(0.0, -float(np.min(eigenvalues)))

    def below(middle: float) -> bool:
        gaps = eigenvalues + low + middle
        return float(np.min(gaps)) <= 0 or low + middle < deviation**2 * float(np.sum(1.0 / gaps))

    return low + last_below(0.0, deviation * math.sqrt(len(eigenvalues)), below)


@dataclass(frozen=True, eq=False)
class Released:
    """What the step needs, all divided by n: window mean and gradient, the two matrices, and the size of their noise.

    deviation        σ, of the curvature's entries off the diagonal
    gradient_noise   σ_g, per coordinate
    dispersion       φ, ratio of the scores' variance to the curvature where the model holds
    penalty          known curvature of a ridge, in the same units
    pooled           whether φ is at least the mean of scores over curvature in all directions, tr(B'⁻¹V̂)/p: of persons
    flat             orthogonal directions (columns) that no row can tell: levels of a one-hot group against the intercept
    """

    mean: Vector
    gradient: Vector
    curvature: Vector
    scores: Vector
    deviation: float
    gradient_noise: float
    dispersion: float
    n: int
    penalty: Vector | None = None
    flat: Vector | None = None
    pooled: bool = False


@dataclass(frozen=True, eq=False)
class OneStep:
    """The estimate with its errors in the coordinates of θ, and the curvature that they rest on.

    `eigenvalues` (ascending) and `directions` are those of the released curvature with its penalty; `deviation` is σ.
    """

    errors: Errors
    shift: float
    deviation: float
    eigenvalues: Vector
    directions: Vector

    def unresolved(self) -> Vector:
        """Directions whose eigenvalue is within two deviations (√2·σ each) of zero: the data cannot tell them from none."""
        return self.directions[:, self.eigenvalues < 2.0 * math.sqrt(2.0) * self.deviation]


def one_step(released: Released) -> OneStep:
    """The step and its covariance; everything outside the flat directions, where nothing moves."""
    p, sigma = len(released.mean), released.deviation
    basis = np.eye(p) if released.flat is None or not released.flat.size else null_space(released.flat.T)
    curvature = released.curvature if released.penalty is None else released.curvature + released.penalty
    values, vectors = np.linalg.eigh(basis.T @ curvature @ basis)
    shift = pastur_shift(values, sigma)
    directions = basis @ vectors
    step = directions @ ((directions.T @ released.gradient) / (values + shift))
    lowered = np.maximum(values + shift - sigma / math.sqrt(2.0), sigma / math.sqrt(2.0))
    bread = (directions / lowered) @ directions.T
    phi = released.dispersion
    if released.pooled:
        phi = max(phi, float(np.trace(bread @ released.scores)) / len(values))
    middle = (released.gradient_noise**2 + sigma**2 * float(step @ step)) * np.eye(p) + sigma**2 * np.outer(step, step)
    errors = Errors(
        released.mean - step,
        phi * bread / released.n,
        bread @ released.scores @ bread / released.n,
        bread @ middle @ bread,
    )
    return OneStep(errors, shift, sigma, values, directions)
