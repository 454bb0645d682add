"""How far the noise of a descent moves the shapes of an additive model: standard deviations, from what the fit released.

Post-processing of a record: nothing is asked of the rows, and nothing is paid. Near its end the descent is

    v ← m·v + H(θ - θ*) + ξ,   θ ← θ - s·v,   kept = mean of the second half of the iterates,   ξ ~ N(0, σ²I),

with σ known from the clip and the μ of a step. All is linear in the ξ: along an eigenvector of H with eigenvalue λ the kept
mean has the variance σ²·Σ_k β_k(λ)², where β_k is what a unit of noise in step k adds to it (`descent_noise.py`). H is that of
`shape_curvature.py`. docs/theorems/additive.md has the derivation, and the coverage that was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dperm.mechanisms.registry import mechanism_of_plan
from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled.additive import Additive
from dperm.mechanisms.scaled.descent_noise import moved_by, state_noise
from dperm.mechanisms.scaled.shape_curvature import Blocks, blocks_of, mean_curvature
from dperm.mechanisms.scaled.smoothness import FUNCTIONS
from dperm.privacy import kappa
from dperm.problem import Problem
from dperm.release.plan import Plan, Vector
from dperm.rows.base import one_blas_thread
from dperm.terms.additive import CELLS

Record = Mapping[str, Any]
COVERED = ("logistic", "squared", "huber")
NORMAL = 1.959964  # half the width of a 95 % interval in standard deviations
# For the noise of the other stages (histograms, centre, clips), which moves basis and bias a little and has no formula here.
ALLOWANCE = 1.25
MOST_COORDINATES = 1200  # a matrix of so many takes a second or two
BAND = (
    "Bands: 95 % of the noise that was added for privacy, point by point. "
    "They do not say how much the curve would change with other rows."
)
FAINT = "Outside the middle 99 % of the released histogram a curve is drawn faint, because few rows or none support it there."


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
    late = float(released["late"][0]) if "late" in released else 1.0
    covariance = kept_covariance(blocks, steepness, plan, decided, late)
    curves = zip(blocks.places, seen_curves(problem, mechanism, blocks, plan, decided, released))
    variances = [np.sum((seen @ covariance[np.ix_(own, own)]) * seen, axis=1) for own, seen in curves]
    found = np.sqrt(np.maximum(np.array(variances), 0.0))
    return np.asarray(found * abs(decided.get("recalibrated_factor", 1.0)) * ALLOWANCE)


def seen_curves(
    problem: Problem, mechanism: Additive, blocks: Blocks, plan: Plan, decided: Record, released: Record
) -> list[Vector]:
    """What the coefficients of each curve add at its places, after the curve was pulled to its line where it was.

    How strong the pull is follows from noise too. In a regression h is on the safe side by more; for classes half of the
    pull is believed.
    """
    if "pull" not in released:
        return blocks.seen
    kernel = (decided["kernel_scale"], decided["kernel_power"])
    beside = mechanism.beside(plan, decided, kernel, released)
    part_of_pull = 1.0 if rule.is_regression(problem) else 0.5
    return [seen @ part.kept(float(pull), part_of_pull) for seen, part, pull in zip(blocks.seen, beside, released["pull"])]


def crowded(marginal: Vector) -> slice:
    """The cells between the 0.5 % and 99.5 % quantiles of a released marginal, at least one.

    >>> crowded(np.append(np.full(256, 1 / 256), 0.0))
    slice(1, 255, None)
    """
    share = np.cumsum(marginal[:CELLS]) / max(float(np.sum(marginal[:CELLS])), 1e-300)
    first = min(int(np.searchsorted(share, 0.005)), CELLS - 1)
    return slice(first, max(int(np.searchsorted(share, 0.995)) + 1, first + 1))


@one_blas_thread()  # so small a decomposition is faster on one, and its bits do not depend on their number
def kept_covariance(blocks: Blocks, steepness: float, plan: Plan, decided: Record, late: float = 1.0) -> Vector:
    """Covariance that the noise of the descent gives to the kept coefficients; `late` as in `moved_by`.

    What the line did before curves began counts by where it had come to: its own iterates have a ninth of the growing weights.
    """
    steps, step, first = decided["steps"], decided["step_size"], decided["second_clip_at"] or 0
    reach = kappa(plan.target.relation) * plan.target.rows_per_person / (decided["step_mu"] * plan.shape.n)
    noise = [reach * clip for clip in decided["clips"]]  # before and after curves begin
    values, vectors = np.linalg.eigh(blocks.curvature)
    # The step keeps the descent stable on every row that counts, so what lies above 2(1 + β)/η is noise of the squares.
    stable = 2.0 * (1.0 + rule.MOMENTUM) / step
    lowered = np.clip(steepness * (values - blocks.unsure(vectors)), 0.0, stable)
    moved = moved_by(lowered, steps, step, first, late)
    covariance = noise[1] ** 2 * (vectors * moved.squares) @ vectors.T
    if first:  # the line alone moved until then: what its noise had done by that time decays in all directions
        line = blocks.line
        values, own = np.linalg.eigh((vectors[line] * lowered) @ vectors[line].T)
        turned = vectors[line].T @ own
        ends = vectors @ (moved.place[:, None] * turned), vectors @ (moved.velocity[:, None] * turned)
        state = state_noise(np.maximum(values, 0.0), first, step)
        for a, b in np.ndindex(2, 2):
            covariance += noise[0] ** 2 * (ends[a] * state[a, b]) @ ends[b].T
    return np.asarray(covariance)
