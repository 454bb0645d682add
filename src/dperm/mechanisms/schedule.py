"""Public-quantity defaults for gradient descent: clip, steps, step size, momentum.

The rule of the scaled method, with the declared row norm R in place of a private one. Let ν = R√p/(μn), the noise
of the averaged gradient relative to its size, c the clip in units of R, and h the curvature bound of the loss.

    flow time   τ = min(κ/(cν), 1000)         noise in a flat direction after time τ has norm κ, for every n, p and ε
    steps       T = ⌈0.1·τ·M/3.25⌉ in 100 … 500     heavy ball with momentum 0.9 moves ten steps' worth per step
    step size   η = min(0.1·τ/T, 3.25/M)      M = hR² + smoothness of the regularizer / n; stable below 3.8/M

More steps cost time but no accuracy, because the per-step noise averages out; what matters is the flow time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dperm.problem import Problem
from dperm.release.plan import Shape, StageSettings

if TYPE_CHECKING:
    from dperm.mechanisms.gradient import Gradient

MOMENTUM = 0.9


@dataclass(frozen=True, eq=False)
class Descent(StageSettings):
    """What a descent does, and the noise of its averaged gradient; both last numbers follow once its event is known."""

    steps: int
    step_size: float
    clip: float
    momentum: float
    bound: str
    sampling_rate: float | None
    iterates_averaged: int
    step_mu: float = 0.0
    noise_of_mean: float = 0.0


def schedule(options: Gradient, problem: Problem, shape: Shape, unit_mu: float) -> Descent:
    """Settings of a descent whose gradient noise per unit of clip is 1/unit_mu (all steps together).

    Public numbers only: the problem's constants, n, d and the budget.
    """
    R = problem.row_norm
    nu = R * math.sqrt(shape.parameters(problem)) / (unit_mu * shape.n)
    clip = _clip(options, problem, nu)
    curvature = problem.constants.smoothness / R**2
    hidden = options.accounting == "hidden-state"
    if not math.isfinite(curvature):
        return _subgradient(options, problem, shape, unit_mu, clip)
    momentum = options.momentum
    if momentum is None:
        momentum = 0.0 if hidden or not math.isfinite(problem.regularizer.smoothness) else MOMENTUM
    smoothness = curvature * R**2 * (options.heaviest if hidden else 1.0)
    if math.isfinite(problem.regularizer.smoothness):
        smoothness += problem.regularizer.smoothness / shape.n
    # Heavy ball is stable for η·M < 2(1 + momentum); 0.85 of it leaves room, and 1/M is the classical choice without it.
    longest = (0.85 * 2 * (1 + momentum) if momentum else 1.0) / smoothness
    scale = clip / (R * _slope_scale(problem))
    tau = min(1.0 / (scale * nu), 1000.0) / (curvature * 4)
    gain = 1 - momentum
    steps = options.steps or int(min(max(math.ceil(gain * tau / longest), 100), 500))
    step_size = options.step_size or min(gain * tau / steps, longest)
    return _settings(options, steps, step_size, clip, momentum)


def _slope_scale(problem: Problem) -> float:
    """A typical slope: its bound where there is one, a quarter of the label range for residuals."""
    bound = problem.constants.lipschitz / problem.row_norm
    return bound if math.isfinite(bound) else problem.data.y.radius / 4


def _clip(options: Gradient, problem: Problem, nu: float) -> float:
    if options.bound == "assumed":
        return float(options.assumed_bound or 0.0)
    if options.bound == "data":
        return problem.constants.lipschitz
    if options.clip is not None:
        return float(options.clip)
    lipschitz = problem.row_norm * problem.loss.bounds(math.inf, problem.data.y).slope
    if math.isfinite(lipschitz):
        return lipschitz
    # Residuals have no natural bound: clip lower when the noise is high (a Huberised loss), higher when there is room.
    factor = min(max(math.sqrt(0.05 / nu), 0.4), 5.0)
    return problem.row_norm * factor * problem.data.y.radius / 4


def _subgradient(options: Gradient, problem: Problem, shape: Shape, unit_mu: float, clip: float) -> Descent:
    """Non-smooth losses: η = D/(B√T), B² = C² + p(C√T/(μn))², the lectures' rule; D is the domain's or a nominal reach."""
    steps = options.steps or 400
    reach = problem.domain.radius if math.isfinite(problem.domain.radius) else 5.0 / problem.row_norm
    noise = clip * math.sqrt(steps * shape.parameters(problem)) / (unit_mu * shape.n)
    step_size = options.step_size or reach / math.sqrt(steps * (clip**2 + noise**2))
    return _settings(options, steps, step_size, clip, options.momentum or 0.0)


def _settings(options: Gradient, steps: int, step_size: float, clip: float, momentum: float) -> Descent:
    return Descent(
        steps=int(steps),
        step_size=float(step_size),
        clip=float(clip),
        momentum=float(momentum),
        bound=options.bound,
        sampling_rate=options.sampling_rate,
        iterates_averaged={"tail": steps - steps // 2, "average": int(steps), "last": 1}[options.output],
    )
