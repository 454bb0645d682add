"""How far the noise of a descent moves the shapes of an additive model: standard deviations, from what the fit released.

Post-processing of a record: nothing is asked of the rows, and nothing is paid. Near its end the descent is

    v ← m·v + H(θ - θ*) + ξ,   θ ← θ - s·v,   kept = mean of the second half of the iterates,   ξ ~ N(0, σ²I),

with σ known from the clip and the μ of a step. All is linear in the ξ: along an eigenvector of H with eigenvalue λ the kept
mean has the variance σ²·Σ_k β_k(λ)², where β_k is what a unit of noise in step k adds to it (`moved_by`). H is that of
`shape_curvature.py`. docs/theorems/additive.md has the derivation, and the coverage that was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.mechanisms.registry import mechanism_of_plan
from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled.additive import Additive
from dperm.mechanisms.scaled.shape_curvature import Blocks, blocks_of, mean_curvature
from dperm.mechanisms.scaled.smoothness import FUNCTIONS
from dperm.privacy import kappa
from dperm.problem import Problem
from dperm.release.plan import Plan
from dperm.terms.additive import CELLS

Vector = NDArray[np.float64]
Record = Mapping[str, Any]
COVERED = ("logistic", "squared", "huber")
NORMAL = 1.959964  # half the width of a 95 % interval in standard deviations
# For the noise of the other stages (histograms, centre, clips), which moves basis and bias a little and has no formula here.
ALLOWANCE = 1.25
MOST_COORDINATES = 1200  # a matrix of so many takes a second or two
BAND = (
    "Bands: 95 % of the noise that was added for privacy, point by point; "
    "that other rows would give another curve is not counted."
)
FAINT = "Beyond the middle 99 % of the released marginal a curve is drawn faint: few rows or none hold it there."


def shape_noise(problem: Problem, plan: Plan, decided: Record, released: Record, w: Vector) -> Vector | None:
    """Standard deviation of every place of every shape, in the units of the margin; None where no formula covers the fit.

    Several classes, counts and weighted rows have none: their curvature does not follow from what was released. Nor have models
    with more than `MOST_COORDINATES` coordinates (some 35 curves), for want of time.
    """
    if plan.mechanism != Additive.name:
        return None
    mechanism = mechanism_of_plan(plan, Additive)
    plain = problem.loss.name in COVERED and problem.loss.margins == 1 and mechanism.max_weight is None
    few = plan.shape.d + (FUNCTIONS + 1) * len(mechanism.curved) <= MOST_COORDINATES
    if not (mechanism.curved and plain and few):
        return None
    steepness = mean_curvature(problem, plan, decided, released, w)
    blocks = blocks_of(plan, decided, released)
    covariance = kept_covariance(blocks, steepness, plan, decided)
    found = []
    for own, seen in zip(blocks.places, blocks.seen):
        found.append(np.sqrt(np.maximum(np.sum((seen @ covariance[np.ix_(own, own)]) * seen, axis=1), 0.0)))
    return np.asarray(np.array(found) * abs(decided.get("recalibrated_factor", 1.0)) * ALLOWANCE)


def crowded(marginal: Vector) -> slice:
    """The cells between the 0.5 % and 99.5 % quantiles of a released marginal, at least one.

    >>> crowded(np.append(np.full(256, 1 / 256), 0.0))
    slice(1, 255, None)
    """
    share = np.cumsum(marginal[:CELLS]) / max(float(np.sum(marginal[:CELLS])), 1e-300)
    first = min(int(np.searchsorted(share, 0.005)), CELLS - 1)
    return slice(first, max(int(np.searchsorted(share, 0.995)) + 1, first + 1))


def kept_covariance(blocks: Blocks, steepness: float, plan: Plan, decided: Record) -> Vector:
    """Covariance that the noise of the descent gives to the kept coefficients."""
    steps, step, first = decided["steps"], decided["step_size"], decided["second_clip_at"] or 0
    reach = kappa(plan.target.relation) * plan.target.rows_per_person / (decided["step_mu"] * plan.shape.n)
    early, late = (reach * clip for clip in decided["clips"])
    values, vectors = np.linalg.eigh(blocks.curvature)
    # The step keeps the descent stable on every row that counts, so what lies above 2(1 + β)/η is noise of the squares.
    stable = 2.0 * (1.0 + rule.MOMENTUM) / step
    lowered = np.clip(steepness * (values - blocks.unsure(vectors)), 0.0, stable)
    place, velocity, squares = moved_by(lowered, steps, step, first)
    covariance = late**2 * (vectors * squares) @ vectors.T
    if first:  # the line alone moved until then: what its noise had done by that time decays in all directions
        line = blocks.line
        values, own = np.linalg.eigh((vectors[line] * lowered) @ vectors[line].T)
        turned = vectors[line].T @ own
        ends = vectors @ (place[:, None] * turned), vectors @ (velocity[:, None] * turned)
        state = state_noise(np.maximum(values, 0.0), first, step)
        for a in range(2):
            for b in range(2):
                covariance += early**2 * (ends[a] * state[a, b]) @ ends[b].T
    return np.asarray(covariance)


def moved_by(curvature: Vector, steps: int, step: float, first: int) -> tuple[Vector, Vector, Vector]:
    """What the mean of the second half of the iterates moves by, for each curvature: per unit of θ and of v as step `first`
    begins, and the sum of squares per unit of noise in each step from there.

    Backwards: α is the derivative by θ after a step, β that by v.

    >>> [round(float(part[0]), 9) for part in moved_by(np.zeros(1), 2, 1.0, 0)]  # noise of two steps: 1.9² and 1
    [1.0, -1.71, 4.61]
    """
    weight = 1.0 / (steps - steps // 2)
    alpha, beta, squares = np.zeros_like(curvature), np.zeros_like(curvature), np.zeros_like(curvature)
    for k in range(steps - 1, first - 1, -1):
        alpha = alpha + curvature * beta + (weight if k >= steps // 2 else 0.0)
        beta = rule.MOMENTUM * beta - step * alpha
        squares = squares + beta * beta
    return alpha + curvature * beta, rule.MOMENTUM * beta, squares


def state_noise(curvature: Vector, steps: int, step: float) -> Vector:
    """Covariances of (θ, v) after so many steps, each with a unit of noise: 2 × 2 for every curvature, which comes last."""
    ones = np.ones_like(curvature)
    move = np.array([[1.0 - step * curvature, -step * rule.MOMENTUM * ones], [curvature, rule.MOMENTUM * ones]])
    kick = np.outer([-step, 1.0], [-step, 1.0])[:, :, None]
    found = np.zeros((2, 2, len(curvature)))
    for _ in range(steps):
        found = np.einsum("ijk,jlk,mlk->imk", move, found, move) + kick
    return found
