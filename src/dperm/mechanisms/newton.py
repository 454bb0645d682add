"""Double-noise Newton: a noisy gradient, then a noisy Newton step, a few times.

    g̃ = Σ∇ℓ(w) + N(0, (κkL/μ_g)²I)                                               κkL-sensitive, L per record, k rows per person
    w ← w − (H + Λ)⁻¹(g̃ + ∇r(w)) + N(0, (s/μ_h)²I),   s = ‖g̃ + ∇r‖·kβ/(Λ(Λ + kβ)),  Λ = λ + damping

**Theorem.** Given g̃ the second line depends on the data through H = Σ∇²ℓ ⪰ 0 only. Neighbours satisfy H = A + E, H' = A + E' with
A ⪰ 0 and 0 ⪯ E, E' ⪯ kβI (E' = 0 for zero-out and add-remove). Then ‖((H+Λ)⁻¹ − (H'+Λ)⁻¹)v‖ ≤ ‖v‖·kβ/(Λ(Λ+kβ)) for *every*
relation, without a factor 2: both inverses lie between (A+Λ+kβ)⁻¹ and (A+Λ)⁻¹ in the order of matrices, and the difference of two
matrices that lie between the same two has at most the norm of that gap. All releases are Gaussian, so μ² adds up exactly.

The damping of a step is a function of the noisy gradient: large while the gradient is long, so that the step's own noise stays
below one unit of margin. `docs/theorems/newton.md` has the proof; the published form is for zero-out and unit rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from dperm.mechanisms.conditions import BOUNDED_ROWS, GAUSSIAN, check_options, unmet
from dperm.mechanisms.objective.solve import declared_rows
from dperm.privacy import Gaussian, gaussian_mu, kappa
from dperm.problem import Loss, Problem
from dperm.release.asks import Decide, Program, Publish, Secret, Solve, unrecorded
from dperm.release.noise import release
from dperm.release.plan import Plan, Shape, Stage, StageSettings, Target, Vector, options_of, register
from dperm.rows.base import Block
from dperm.solvers import DENSE_LIMIT
from dperm.terms.objective import CappedGradientTerm, WeightedRows, second_moments

CURVATURES = ("majoriser", "hessian")


@dataclass(frozen=True, eq=False)
class NewtonSteps(StageSettings):
    """What every step does; stated with the first gradient."""

    steps: int
    curvature: str
    gradient_sensitivity: float
    hessian_change: float
    asked: dict[str, object]


@register
@dataclass(frozen=True)
class Newton:
    """Double-noise Newton for smooth losses with bounded slope.

    steps            Newton steps; 25 by default
    gradient_share   part of each step's budget (of μ²) for the gradient, the rest for the Newton step
    curvature        "majoriser" (a global quadratic bound in place of φ'', see `majoriser`) or "hessian", whose steps are
                     better near the minimum and may run away far from it; `None` takes "hessian" for several classes
    damping          Λ − λ; `None` takes √(√p·‖g̃‖·kβR/μ_h) at every step

    **Guarantee**: μ(ε, δ)-GDP, hence (ε, δ), for the target's relation.

    >>> Newton(steps=4).name
    'newton'
    """

    steps: int = 25
    gradient_share: float = 0.5
    curvature: str | None = None
    damping: float | None = None

    name: ClassVar[str] = "newton"

    def __post_init__(self) -> None:
        words = {"curvature": (None, *CURVATURES)}
        check_options(self, among=words, whole=["steps"], parts=["gradient_share"], positive=["damping"])

    def missing(self, problem: Problem, target: Target) -> list[str]:
        loss = problem.loss
        bounds = loss.bounds(math.inf, problem.data.y)
        return unmet({
            GAUSSIAN: target.delta == 0,
            "a convex loss with a bounded second derivative":
                not loss.convex or not loss.smooth or not math.isfinite(bounds.curvature),
            "a loss with a bounded slope over all margins (huber or log-cosh in place of squared)":
                not math.isfinite(bounds.slope),
            "a smooth regularizer (ridge)": not math.isfinite(problem.regularizer.smoothness),
            BOUNDED_ROWS: not math.isfinite(problem.row_norm),
        })

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        p = shape.parameters(problem)
        if p > DENSE_LIMIT * 5:
            raise ValueError(f"Expected at most {DENSE_LIMIT * 5} coefficients for 'newton', found {p}. Use method='objective'.")
        mu = gaussian_mu(target.epsilon, target.delta) * (1 - 1e-12)  # square roots round; never round up a budget
        each = mu / math.sqrt(self.steps)
        gradient = Gaussian(each * math.sqrt(self.gradient_share))
        step = Gaussian(each * math.sqrt(1 - self.gradient_share))
        rows = declared_rows(problem)
        settings = NewtonSteps(
            steps=self.steps,
            curvature=self.curvature or ("majoriser" if problem.loss.margins == 1 else "hessian"),
            gradient_sensitivity=kappa(target.relation) * target.rows_per_person * rows.gradient_bound,
            hessian_change=target.rows_per_person * rows.hessian_bound,
            asked=options_of(self),
        )
        stages = []
        for number in range(1, self.steps + 1):
            stages.append(Stage(f"gradient {number}", gradient, settings if number == 1 else {}))
            stages.append(Stage(f"step {number}", step, {}))
        return Plan(self.name, options_of(self), tuple(stages), target, shape)

    def _damping(self, gradient_norm: float, change: float, mu: float, p: int, row_norm: float) -> float:
        """√(√p·‖g̃‖·kβ·R/μ_h): the noise of the step then has norm about 1/R, one unit of margin; at least kβ."""
        if self.damping is not None:
            return self.damping
        return max(math.sqrt(math.sqrt(p) * gradient_norm * change * row_norm / mu), change)

    def program(self, plan: Plan, problem: Problem) -> Program:
        """The norm of every noisy gradient is published: the damping of its step follows from it."""
        rows, settings = declared_rows(problem), plan.settings("gradient 1", NewtonSteps)
        majorised, change = settings.curvature == "majoriser", settings.hessian_change
        mu_gradient, mu_step = plan.stage("gradient 1").event.gdp() or 0.0, plan.stage("step 1").event.gdp() or 0.0
        w = np.zeros(plan.shape.parameters(problem))
        dampings: list[float] = []
        for number in range(1, self.steps + 1):
            noisy = yield from unrecorded(f"gradient {number}", CappedGradientTerm(rows, w), mu_gradient, w.shape)
            gradient = noisy + problem.regularizer.gradient(w)
            norm = yield Publish("gradient_norms", partial(_length, gradient), listed=True)
            dampings.append(self._damping(norm, change, mu_step, w.size, problem.row_norm))
            damping = dampings[-1] + problem.regularizer.strong_convexity
            sensitivity = newton_sensitivity(norm, change, damping)
            algorithm = partial(_newton_step, HessianTerm(rows, w, majorised), gradient, damping, sensitivity, mu_step)
            step = yield Solve((f"step {number}",), algorithm, w.shape)
            w = np.asarray(problem.domain.project(w + step))
        yield Decide({"damping": dampings})
        return w


def _length(gradient: Vector) -> float:
    return float(np.linalg.norm(gradient))


def _newton_step(
    term: HessianTerm, gradient: Vector, damping: float, sensitivity: float, mu: float, secret: Secret
) -> Vector:
    hessian = secret.sum(term).reshape(gradient.size, gradient.size)
    direction = -np.linalg.solve((hessian + hessian.T) / 2 + damping * np.eye(gradient.size), gradient)
    return release(direction, sensitivity=sensitivity, mu=mu, noise=secret.noise)


def newton_sensitivity(gradient_norm: float, change: float, damping: float) -> float:
    """‖v‖·B/(Λ(Λ + B)): how far (H + Λ)⁻¹v moves when H moves between A and A + BI, A ⪰ 0.

    >>> newton_sensitivity(2.0, 1.0, 1.0)
    1.0
    """
    return gradient_norm * change / (damping * (damping + change))


def majoriser(loss: Loss, margins: Vector, y: Vector, bound: float) -> Vector:
    """h with φ(z) ≤ φ(m) + φ'(m)(z − m) + h(z − m)²/2 for every z, and 0 ≤ h ≤ sup φ'' (as matrices for K classes).

    logistic               tanh(m/2)/(2m), and the same in (1 − ym)/width for softplus-hinge
    huber, log-cosh        φ'(m)/(m − y): the parabola that touches at both ±residual
    K classes              ½(I − 11ᵀ/K)
    everything else        sup φ''

    >>> from dperm.problem import LogisticLoss
    >>> majoriser(LogisticLoss(), np.array([0.0]), np.array([1.0]), 0.25).round(6).tolist()
    [0.25]
    """
    if loss.margins > 1:
        K = loss.margins
        return np.broadcast_to(0.5 * (np.eye(K) - 1.0 / K), (len(margins), K, K))
    if loss.name in ("logistic", "softplus-hinge"):
        width = getattr(loss, "width", None)
        inner = margins if width is None else (1 - y * margins) / width
        size = np.maximum(np.abs(inner), 1e-6)
        return np.asarray(np.minimum(np.tanh(size / 2) / (2 * size) / (width or 1.0), bound))
    if loss.name in ("huber", "log-cosh"):
        residual = np.asarray(margins - y, dtype=np.float64)
        far = np.abs(residual) > 1e-6
        ratio = np.asarray(loss.slope(margins, y), dtype=np.float64) / np.where(far, residual, 1.0)
        return np.minimum(np.where(far, ratio, bound), bound)
    return np.full(len(margins), bound)


@dataclass(frozen=True, eq=False)
class HessianTerm:
    """Σ φ''(⟨z, w⟩; y)·zzᵀ, flattened; with `majorised` the `majoriser` in place of φ'', which obeys the same bound."""

    rows: WeightedRows
    w: Vector
    majorised: bool

    def __call__(self, block: Block) -> Vector:
        rows = self.rows
        X, cap, weight, margins = rows.capped(block, self.w)
        if self.majorised:
            curvatures = majoriser(rows.loss, margins, block.y, rows.curvature)
        else:
            curvatures = np.asarray(rows.loss.curvature(margins, block.y), dtype=np.float64)
        return second_moments(rows.features, X, curvatures, weight * cap * cap).reshape(-1)

    def sensitivity(self, relation: str) -> float:
        return self.row_bound

    @property
    def row_bound(self) -> float:
        return self.rows.hessian_bound
