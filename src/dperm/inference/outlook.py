"""Whether intervals can come out, said before anything is spent, from public numbers alone.

Intervals need a released matrix (Σzzᵀ, or the curvature Σφ''zzᵀ) whose smallest eigenvalue stands out of its noise: above
2s√p, s the noise's scale, p the number of coefficients. What the eigenvalue will be is private. For a reference table, whose
numeric columns are spread evenly over their declared ranges, whose truth values are half true and whose levels are equally
frequent, it is known, and the noise lowers it by up to s√(2p), the size of the noise's largest eigenvalue. Real columns rarely
spread wider: where not even the reference table would get intervals, they are refused and the budget is kept. Up to a factor of
thirty above that, correlated or narrow columns can still fail, and a warning says what they need.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dperm.inference.intervals import contrasts
from dperm.privacy import gaussian_epsilon, gaussian_mu
from dperm.problem import Problem
from dperm.release.plan import Plan, Vector
from dperm.words.notices import UNSURE

if TYPE_CHECKING:
    from dperm.estimators.base import PrivateEstimator

SURE = 30.0  # times what the reference table needs; nearly collinear columns of real tables failed below it
LARGEST = 3000  # coefficients beyond which the matrix of the reference table is not worth its time


@dataclass(frozen=True)
class Outlook:
    """What intervals need of the table, in public numbers."""

    needed: float  # the smallest eigenvalue must be above it
    reference: float  # what it is for the reference table
    per_row: float  # the largest weight of a row in the matrix: 1, or the largest curvature
    plan: Plan

    @property
    def likely(self) -> bool:
        return self.reference > self.needed

    @property
    def words(self) -> str:
        """What has to hold for intervals to come out, as a share of a column's declared range and of the rows."""
        share = self.needed / (self.per_row * self.plan.shape.n)
        start = UNSURE if self.reference < SURE * self.needed else "Intervals should come out"
        return (
            f"{start}: every numeric column, given the others, needs a standard deviation above about {math.sqrt(share):.2g} of "
            f"its declared range (one that is spread evenly has {math.sqrt(1 / 12):.2g}), and every level more than about "
            f"{share:.2g} of the rows. More rows, a larger epsilon, narrower bounds or fewer columns help."
        )

    def refuse(self) -> None:
        """Raise where not even the reference table would get intervals, with the n or the ε that would do."""
        if self.likely:
            return
        short, target, n = self.needed / self.reference, self.plan.target, self.plan.shape.n
        epsilon = gaussian_epsilon(target.delta, gaussian_mu(target.epsilon, target.delta) * short)
        raise ValueError(
            f"Expected enough rows or budget for intervals, found n = {n:,} and epsilon = {target.epsilon:g}: even for columns "
            "spread evenly over their declared ranges the released matrix would not stand out of its noise. About "
            f"n = {_rounded(n * short)} or epsilon = {epsilon:.2g} would be enough for such columns; narrower bounds and fewer "
            "columns help too. Or leave intervals=True (--intervals) out, to fit with the whole budget. Nothing was spent."
        )


def _rounded(n: float) -> str:
    """Two digits, rounded up.

    >>> _rounded(12_345)
    '13,000'
    """
    unit = 10 ** max(0, math.floor(math.log10(n)) - 1)
    return f"{math.ceil(n / unit) * unit:,}"


def outlook(model: PrivateEstimator, problem: Problem, plan: Plan) -> Outlook | None:
    """For an estimator with its encoding, and its plan; None where intervals rest on something else."""
    stages = {stage.name: stage for stage in plan.stages}
    stage = stages.get("information") or stages.get("moments")
    kept = contrasts(model).places
    if stage is None or "scale" not in stage.settings or len(kept) > LARGEST:
        return None
    p, scale = len(kept), float(stage.settings["scale"])
    per_row = problem.loss.bounds(math.inf, problem.data.y).curvature if stage.name == "information" else 1.0
    needed = max(2 * scale * math.sqrt(p), float(stage.settings.get("floor", 0.0))) + scale * math.sqrt(2 * p)
    moments = reference_moments(model)[np.ix_(kept, kept)]
    usual = 0.8 if stage.name == "information" else 1.0  # the mean curvature of a fit that says something, against the largest
    return Outlook(needed, plan.shape.n * usual * per_row * float(np.linalg.eigvalsh(moments)[0]), per_row, plan)


def reference_moments(model: PrivateEstimator) -> Vector:
    """E[zzᵀ] of a row of the reference table, the intercept last."""
    encoding = model._encoding
    p = encoding.d + int(model.fit_intercept)
    mean, spread = np.ones(p), np.zeros((p, p))
    groups = np.array(encoding.groups)
    for j, kind in enumerate(encoding.kinds):
        mean[j], spread[j, j] = 0.0, 1 / 12
        if kind == "categorical" and groups[j] >= 0:
            members = np.flatnonzero(groups == groups[j])
            mean[j], spread[j, members] = 1 / len(members), -1 / len(members) ** 2
            spread[j, j] += 1 / len(members)
        elif kind == "boolean":
            mean[j], spread[j, j] = 0.5, 0.25
        elif kind == "free":
            spread[j, j] = 1 / encoding.d  # a row of the declared norm in no particular direction
        elif kind == "numeric" and not encoding.centred:
            mean[j] = (encoding.low[j] + encoding.high[j]) / 2 / encoding.width[j]
    return np.asarray(spread + np.outer(mean, mean))
