"""Zeroth-order perturbation: two evaluations of the loss per row and step, one noisy number per step.

    s_t = Σ_i clip_C( (ℓ(w + h·u_t; d_i) - ℓ(w - h·u_t; d_i)) / 2h ) + N(0, σ²),     w ← Π_C( w - η·(p·s_t·u_t + ∇r(w)) / n )

The directions u_t are uniform on the sphere and public: they are a function of a seed that the plan states.

**Theorem (privacy).** For every fixed sequence of directions each s_t is a sum of numbers in [-C, C], so its sensitivity is κC
and T steps with σ = κC√T/μ are μ-GDP. No gradient, smoothness or convexity is used: only values of the loss.
**Theorem (utility).** E[p·s·u] is the gradient of the loss smoothed over a ball of radius h. For convex losses of one margin that
are L-Lipschitz, without active clipping: E excess ≤ D√((pL² + p²σ²/n²)/T) + hL on the mean scale.

With C = 3L/√p the noise term is 3√p·κLD/(μn), three times that of noisy gradients, but √(p/T) needs p times their steps. Use
it for losses without a useful gradient (the zero-one loss), or where only values can be computed; otherwise method="gradient"
is better. Proofs: `docs/theorems/zeroth.md`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dperm.mechanisms.conditions import BOUNDED_ROWS, GAUSSIAN, check_options, unmet
from dperm.privacy import Gaussian, gaussian_mu, kappa
from dperm.problem import Loss, Problem
from dperm.problem.plain import is_number, shown
from dperm.release.asks import Close, Open, Program, Sum
from dperm.release.noise import gaussian_scale
from dperm.release.plan import Plan, Shape, Stage, StageSettings, Target, Vector, options_of, register
from dperm.rows.base import Block
from dperm.terms.affine import Features
from dperm.terms.gridded import gridded
from dperm.terms.statistics import SignedAmounts

OUTPUTS = ("tail", "last")
REACH = 5.0  # nominal norm of the solution, in units of 1/R, where the domain is unbounded


@dataclass(frozen=True, eq=False)
class TwoPointTerm(SignedAmounts):
    """Σ clip_C(weight·(φ(z + h·v; y) - φ(z - h·v; y))/(2h)) with margins z = ⟨x, w⟩ and v = ⟨x, u⟩: one number.

    **Sensitivity** κC: a sum of numbers in [-C, C].
    """

    loss: Loss
    w: Vector
    direction: Vector
    smoothing: float
    clip: float
    features: Features

    def amounts(self, block: Block) -> Vector:
        shape, grid = (-1,) if self.loss.margins == 1 else (self.loss.margins, -1), gridded(block, self.features)
        base = grid.margins(self.w.reshape(shape))
        side = self.smoothing * grid.margins(self.direction.reshape(shape))
        rise = np.asarray(self.loss.value(base + side, block.y), dtype=np.float64)
        fall = np.asarray(self.loss.value(base - side, block.y), dtype=np.float64)
        change = (rise - fall) / (2 * self.smoothing)
        return change if block.weight is None else change * block.weight

    @property
    def row_bound(self) -> float:
        return self.clip


def directions(seed: int, steps: int, p: int) -> Iterator[Vector]:
    """`steps` independent uniform directions in ℝᵖ, a public function of the seed.

    >>> [round(float(np.linalg.norm(u)), 9) for u in directions(7, 2, 3)]
    [1.0, 1.0]
    """
    generator = np.random.Generator(np.random.Philox(seed))
    for _ in range(steps):
        draw = generator.standard_normal(p)
        yield draw / np.linalg.norm(draw)


@dataclass(frozen=True, eq=False)
class TwoPointDescent(StageSettings):
    """What a descent by differences does along its public directions."""

    steps: int
    step_size: float
    clip: float
    smoothing: float
    step_mu: float
    noise_of_mean: float
    seed: int
    iterates_averaged: int
    parameters: int


@register
@dataclass(frozen=True)
class Zeroth:
    """Noisy descent from loss values alone; every option has a default in public numbers.

    **Guarantee**: (ε, δ) for the target's relation; `Gaussian(μ/√T)` booked T times.

    Parameters
    ----------
    steps : int or None, default None
        Number of steps; None takes the rule of `plan`.
    step_size : float or None, default None
        Length of a step; None takes the rule of `plan`.
    clip : float or None, default None
        Largest difference of two loss values that a row may add; None takes the rule of `plan`.
    smoothing : float or None, default None
        Distance of the two points; None takes the rule of `plan`.
    output : {"tail", "last"}
        "tail" is the mean of the second half.
    seed : int
        Of the public directions. It is no secret and protects nothing.

    Examples
    --------
    >>> Zeroth(steps=50).name
    'zeroth'
    """

    steps: int | None = None
    step_size: float | None = None
    clip: float | None = None
    smoothing: float | None = None
    output: str = "tail"
    seed: int = 0

    name: ClassVar[str] = "zeroth"

    def __post_init__(self) -> None:
        check_options(self, among={"output": OUTPUTS}, positive=["steps", "step_size", "clip", "smoothing"])
        if not (is_number(self.seed) and 0 <= self.seed < math.inf and int(self.seed) == self.seed):
            raise ValueError(f"Expected a whole number seed ≥ 0, found {shown(self.seed)}.")

    def missing(self, problem: Problem, target: Target) -> list[str]:
        return unmet({
            GAUSSIAN: target.delta == 0,
            BOUNDED_ROWS: not 0 < problem.row_norm < math.inf,
            "clip=, because neither the slope of the loss nor its labels are bounded":
                self.clip is None and not math.isfinite(_slope(problem)) and problem.loss.name != "zero-one",
        })

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        """h, C, T and η from public numbers.

        smoothing   h = 0.01/R; for the zero-one loss 1/R, below which it would be flat almost everywhere
        clip        C = slope·R·min(1, 3/√p), since |⟨z, u⟩| ≤ 3R/√p for nearly all directions; zero-one: its exact bound 1/(2h)
        steps       T = 20·p in 200 … 2000
        step size   η = D/(G√T), G² = p·L² + p²(κC√T/(μn))², the rule that the utility theorem optimises
        """
        p, R = shape.parameters(problem), problem.row_norm
        jumps = problem.loss.name == "zero-one"
        smoothing = float(self.smoothing or (1.0 if jumps else 0.01) / R)
        lipschitz = 0.5 / (smoothing * math.sqrt(p)) if jumps else _slope(problem) * R
        if not math.isfinite(lipschitz):
            lipschitz = float(self.clip or 0.0) * math.sqrt(p) / 3
        clip = float(self.clip or (0.5 / smoothing if jumps else lipschitz * min(1.0, 3 / math.sqrt(p))))
        steps = int(self.steps or min(max(20 * p, 200), 2000))
        step_mu = gaussian_mu(target.epsilon, target.delta) / math.sqrt(steps) * (1 - 1e-12)  # never round up a budget
        noise = gaussian_scale(kappa(target.relation) * clip * target.rows_per_person, step_mu) / shape.n
        reach = problem.domain.radius if math.isfinite(problem.domain.radius) else REACH / R
        size = math.sqrt(p * lipschitz**2 + p**2 * noise**2)
        settings = TwoPointDescent(
            steps=steps,
            step_size=float(self.step_size or reach / (size * math.sqrt(steps))),
            clip=clip,
            smoothing=smoothing,
            step_mu=step_mu,
            noise_of_mean=noise,
            seed=int(self.seed),
            iterates_averaged=steps - steps // 2 if self.output == "tail" else 1,
            parameters=p,
        )
        stage = Stage("descent", Gaussian(step_mu, steps), settings)
        return Plan(self.name, options_of(self), (stage,), target, shape)

    def program(self, plan: Plan, problem: Problem) -> Program:
        settings = plan.settings("descent", TwoPointDescent)
        p, n, steps, step_size = settings.parameters, plan.shape.n, settings.steps, settings.step_size
        features, regularizer = Features(problem.data.intercept), problem.regularizer
        smooth = math.isfinite(regularizer.smoothness)
        w = np.asarray(problem.domain.project(np.zeros(p)))
        kept = np.zeros(p)
        first = steps - settings.iterates_averaged
        yield Open("descent", sums=steps)
        for step, direction in enumerate(directions(settings.seed, steps, p)):
            term = TwoPointTerm(problem.loss, w, direction, settings.smoothing, settings.clip, features)
            (change,) = yield Sum("descent", term, mu=settings.step_mu, shape=(1,))
            gradient = p * change * direction + (regularizer.gradient(w) if smooth else 0.0)
            w = w - step_size * gradient / n
            if not smooth:
                w = np.asarray(regularizer.prox(w, step_size / n))
            w = np.asarray(problem.domain.project(w))
            if step >= first:
                kept += w
        yield Close("descent")
        return np.asarray(kept / (steps - first))


def _slope(problem: Problem) -> float:
    """sup|φ'| over all margins, or the size of the labels for residuals without a bound (the clip then makes a Huber-like
    loss)."""
    slope = problem.loss.bounds(math.inf, problem.data.y).slope
    return slope if math.isfinite(slope) else problem.data.y.radius
