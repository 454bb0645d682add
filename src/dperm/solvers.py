"""Solvers for smooth strongly convex objectives that end with a certified gradient norm. Pure: they see functions, not rows.

`minimise` (Newton, or Newton–CG when p is large): J is C¹ with a generalised Hessian λI ⪯ H ⪯ MI.

* A full step is taken when it halves the smallest gradient norm seen so far. That can happen only finitely often before the
  tolerance is met.
* Otherwise the step length α on d = −H⁻¹g is found by bisection of h'(α) = ⟨g(w + αd), d⟩, which is non-decreasing because J is
  convex: it stops where h'(0)/2 ≤ h'(α) ≤ 0. Then J falls by at least h'(0)²/(4M‖d‖²) ≥ λ²‖g‖²/(4M³): the slope cannot rise from
  h'(0) to h'(0)/2 before α = |h'(0)|/(2M‖d‖²), and up to there it is at most h'(0)/2.

A Hessian is kept for the next step while steps divide the norm by ten (most of the cost is Hessians); a kept one that does not
halve the norm is replaced by that of the point, and only then a step of the second kind is taken.

J is bounded below, so ‖g‖ → 0 along steps of the second kind and the tolerance is reached after finitely many steps, for every
such J. The number of steps is data-dependent and is not published; `cap` bounds it, and the answer says whether it was hit.

`minimise_over` (accelerated proximal gradient) does the same with a proximal map: a constraint set or an ℓ1 penalty.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

Vector = NDArray[np.float64]

DENSE_LIMIT = 600  # above it p×p Hessians cost more than conjugate-gradient passes
KEEP_BELOW = 0.1
NEWTON_CAP = 100_000  # a net for bugs: hitting it would be a data-dependent answer that nothing pays for (1,800 steps were seen)


class Smooth(Protocol):
    """J through its gradient and its Hessian; `hessian_product` is used above DENSE_LIMIT only."""

    def gradient(self, w: Vector) -> Vector: ...

    def gradient_and_hessian(self, w: Vector) -> tuple[Vector, Vector]: ...

    def hessian_product(self, w: Vector, direction: Vector) -> Vector: ...


@dataclass(frozen=True)
class Solution:
    """w with its computed gradient norm (or residual); `reached` is false only when the cap was hit first."""

    w: Vector
    gradient_norm: float
    steps: int
    reached: bool


def minimise(
    objective: Smooth, start: Vector, tolerance: float, *, cap: int = NEWTON_CAP, dense_limit: int = DENSE_LIMIT
) -> Solution:
    """argmin J to ‖∇J(w)‖ ≤ tolerance.

    **Guarantee**: reaches the tolerance for every C¹ strongly convex J with a bounded generalised Hessian (proof above), as long
    as the tolerance is above the rounding error of the computed gradient. If J is λ-strongly convex then ‖w − w*‖ ≤ tolerance/λ.

    >>> class Bowl:
    ...     def gradient(self, w): return 3 * w - 6
    ...     def gradient_and_hessian(self, w): return 3 * w - 6, 3 * np.eye(len(w))
    >>> minimise(Bowl(), np.zeros(2), 1e-9).w.round(9).tolist()
    [2.0, 2.0]
    """
    w = np.array(start, dtype=np.float64)
    dense = w.size <= dense_limit
    gradient, hessian = objective.gradient(w), None
    norm = best = float(np.linalg.norm(gradient))
    for step in range(cap):
        if norm <= tolerance:
            return Solution(w, norm, step, True)
        fresh = hessian is None
        if dense and hessian is None:
            gradient, hessian = objective.gradient_and_hessian(w)
        direction = _direction(objective, w, gradient, hessian, tolerance)
        trial = w + direction
        trial_gradient = objective.gradient(trial)
        trial_norm = float(np.linalg.norm(trial_gradient))
        if trial_norm <= max(best / 2, tolerance):
            kept = hessian if trial_norm <= KEEP_BELOW * norm else None
        elif not fresh:  # the old Hessian has served: the same point again with its own
            hessian = None
            continue
        else:
            slope = float(gradient @ direction)
            trial, trial_gradient = _line_search(objective, w, direction, slope, trial_gradient)
            trial_norm, kept = float(np.linalg.norm(trial_gradient)), None
        w, gradient, hessian, norm = trial, trial_gradient, kept, trial_norm
        best = min(best, norm)
    return Solution(w, norm, cap, norm <= tolerance)


def _direction(objective: Smooth, w: Vector, gradient: Vector, hessian: Vector | None, tolerance: float) -> Vector:
    """−H⁻¹g, by Cholesky or by conjugate gradients until the residual is below min(0.1, √(‖g‖/‖g₀‖))·‖g‖."""
    if hessian is not None:
        try:
            return np.asarray(-cho_solve(cho_factor(hessian), gradient), dtype=np.float64)
        except LinAlgError:  # rounding hid a tiny ridge: floor the eigenvalues where they have no digits
            values, vectors = eigh(hessian)
            floored = np.maximum(values, 1e-15 * max(float(values[-1]), 1e-300))
            return np.asarray(-vectors @ ((vectors.T @ gradient) / floored), dtype=np.float64)
    target = max(0.05 * float(np.linalg.norm(gradient)), 0.25 * tolerance)
    solution = np.zeros_like(gradient)
    residual = -gradient
    direction = residual.copy()
    size = float(residual @ residual)
    for _ in range(2 * gradient.size + 50):
        if math.sqrt(size) <= target:
            break
        product = objective.hessian_product(w, direction)
        length = size / float(direction @ product)
        solution += length * direction
        residual -= length * product
        new = float(residual @ residual)
        direction = residual + (new / size) * direction
        size = new
    return solution


def _line_search(
    objective: Smooth, w: Vector, direction: Vector, slope: float, full_gradient: Vector
) -> tuple[Vector, Vector]:
    """A point with h'(0)/2 ≤ h'(α) ≤ 0 on the ray; the full step when it qualifies, a doubled one when it is too short."""
    low, high, length = 0.0, math.inf, 1.0
    gradient = full_gradient
    for _ in range(200):
        there = float(gradient @ direction)
        if slope / 2 <= there <= 0:
            break
        low, high = (low, length) if there > 0 else (length, high)
        following = (low + high) / 2 if math.isfinite(high) else 2 * length
        if following in (low, high):
            break
        length = following
        gradient = objective.gradient(w + length * direction)
    return w + length * direction, gradient


def minimise_over(
    gradient: Callable[[Vector], Vector],
    proximal: Callable[[Vector, float], Vector],
    start: Vector,
    *,
    smoothness: float,
    strong_convexity: float,
    tolerance: float,
    cap: int = 200_000,
) -> Solution:
    """argmin f + r for λ-strongly convex, M-smooth f and convex r given by its proximal map (for a set: the projection).

    **Guarantee**: with G = M(v − w), w = prox(v − ∇f(v)/M): ‖w − w*‖ ≤ 2‖G‖/λ, so it stops at 2‖G‖ ≤ tolerance and
    ‖w − w*‖ ≤ tolerance/λ. Proof: G − ∇f(v) ∈ ∂r(w) and −∇f(w*) ∈ ∂r(w*), so ⟨G − ∇f(v) + ∇f(w*), w − w*⟩ ≥ 0; hence
    λ‖w − w*‖² ≤ ⟨∇f(w) − ∇f(w*), w − w*⟩ ≤ ⟨∇f(w) − ∇f(v) + G, w − w*⟩ ≤ 2‖G‖·‖w − w*‖. Nesterov's constant momentum
    (√M − √λ)/(√M + √λ) contracts by 1 − √(λ/M) per step, so the tolerance is reached for every such f.

    >>> minimise_over(lambda w: w - 3, lambda w, step: np.clip(w, -1, 1), np.zeros(1),
    ...               smoothness=1.0, strong_convexity=1.0, tolerance=1e-9).w.tolist()
    [1.0]
    """
    ratio = math.sqrt(strong_convexity / smoothness)
    momentum = (1 - ratio) / (1 + ratio)
    w = proximal(np.array(start, dtype=np.float64), 1 / smoothness)
    ahead = w
    residual = math.inf
    for step in range(cap):
        following = proximal(ahead - gradient(ahead) / smoothness, 1 / smoothness)
        residual = 2 * smoothness * float(np.linalg.norm(ahead - following))
        ahead, w = following + momentum * (following - w), following
        if residual <= tolerance:
            return Solution(w, residual, step + 1, True)
    return Solution(w, residual, cap, False)
