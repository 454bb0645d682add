"""Quantile regression by scaled gradient descent on a smoothed pinball loss, with rows weighted instead of clipped.

    s = private 75 % quantile of |y - ȳ|;   ω_i = min(1, S/‖z_i‖)
    slope_i = 1/(1 + e^{-(⟨z_i,θ⟩ - y_i)/(h·s)}) - q   in [-q, 1 - q]
    θ ← θ - step·s·V,   V ← 0.9·V + ( Σ_i ω_i·slope_i·z_i + N(0, σ²I) )/n

**Theorem.** ‖ω_i·slope_i·z_i‖ ≤ S·max(q, 1 - q), so the sum has sensitivity κ·S·max(q, 1 - q); every other release is a Gaussian
mechanism on a sum whose sensitivity its term enforces. Stage k has the fixed budget μ_k, what later stages do depends on public
numbers and earlier releases only, so the whole is √(Σμ_k²) = μ(ε, δ)-GDP.

Why weights: cutting both signs of a slope at one size would turn every quantile into the median. A weight that depends on x alone
keeps the conditional quantile the minimiser. The smoothing is a twentieth of the residuals' scale; measured
coverage stays within .02 on real tables, and within .05 at a sharp edge (the first decile of an exponential).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from dperm.mechanisms.conditions import unmet
from dperm.mechanisms.scaled import centre as centre_rule
from dperm.mechanisms.scaled import coordinates, settling
from dperm.mechanisms.scaled import gaps as gaps_rule
from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled.gradient import budget_of, features_of, scaling_needs, scaling_releases, start
from dperm.mechanisms.scaled.method import ScaledMethod
from dperm.mechanisms.scaled.noise_ratio import noise_warning
from dperm.mechanisms.scaled.poisson_settings import centring_names, weights_of
from dperm.privacy import Gaussian
from dperm.problem import Problem
from dperm.release.asks import Asking, Close, Decide, Open, Program, Sum
from dperm.release.plan import Plan, Settings, Shape, Stage, Target, Vector, options_of, register
from dperm.rows.base import Block
from dperm.terms.affine import Features
from dperm.terms.gridded import Grid, Pulled
from dperm.terms.statistics import LogHistogram, Residuals, upper_quantile

SHARES = {"rough radius": 0.02, "radius": 0.02, "squares": 0.10, "label mean": 0.01, "residuals": 0.02, "residuals again": 0.02}
SHARES["present"] = gaps_rule.PRESENT_SHARE
SMOOTHING = 0.05  # of the residuals' scale
HORIZON = 1.0  # residual scales that the noise may reach in a flat direction


@dataclass(frozen=True, eq=False)
class PinballGradient(Pulled):
    """Σ weight·ω·(expit((⟨z, θ⟩ - y)/width) - q)·z with ω = min(1, reach/‖z‖).

    **Sensitivity** κ·W·reach·max(q, 1 - q): the slope lies in [-q, 1 - q], ω‖z‖ ≤ reach, the weight in [0, W].
    """

    features: Features
    theta: Vector
    level: float
    width: float
    reach: float
    heaviest: float = 1.0

    @property
    def longest(self) -> float:
        return self.heaviest * self.reach * max(self.level, 1.0 - self.level)

    def slopes(self, block: Block, grid: Grid) -> Vector:
        slopes = expit((grid.margins(self.theta) - block.y) / self.width) - self.level
        slopes = slopes * np.minimum(1.0, self.reach / np.maximum(grid.norms, 1e-200))
        return np.asarray(slopes * weights_of(block, self.heaviest))


@register
@dataclass(frozen=True)
class ScaledQuantile(ScaledMethod):
    """Noisy descent for conditional quantiles; nothing to tune.

    kinds        one of "numeric", "categorical", "boolean", "sparse", "free" per encoded column; all "free" if left out
    max_weight   declared bound on sample weights, or None when there are none
    gaps         columns whose missing cells take the released centre; their present cells are counted
    edition      of the rule, as in `ScaledGradient`; records that state none were made by the first

    **Guarantee**: μ(ε, δ)-GDP in stages, for the target's relation.

    >>> ScaledQuantile().name
    'scaled-quantile'
    """

    kinds: tuple[str, ...] = ()
    max_weight: float | None = None
    gaps: tuple[int, ...] = ()
    edition: int = centre_rule.EDITION

    name: ClassVar[str] = "scaled-quantile"
    UNSTATED: ClassVar[dict[str, object]] = {"gaps": (), "edition": 1}  # version 0.1.0 had no such options

    def missing(self, problem: Problem, target: Target) -> list[str]:
        return scaling_needs(problem, target) + unmet({
            f"the quantile loss (found {problem.loss.name!r})": problem.loss.name != "quantile",
            "no regularizer (the flow time regularizes)": problem.regularizer.name != "none",
        })

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        centred = problem.data.intercept != 0
        names = [*centring_names(problem, self.gaps, self.edition), *(["label mean"] if centred else [])]
        names += ["residuals", "descent", "residuals again"]
        parts = rule.parts_of(names, shape, target, SHARES)
        public = self.stated(shape, {"level": problem.loss.level})  # type: ignore[attr-defined]
        budget = rule.budget(names, parts, target, "descent")
        stages = tuple(Stage(name, Gaussian(mu), public if name == "descent" else {}) for name, mu in budget.items())
        return Plan(self.name, options_of(self), stages, target, shape, warnings=noise_warning(problem, shape, target))

    def _settings(self, plan: Plan, problem: Problem, released: Mapping[str, object]) -> tuple[Settings, Settings]:
        """τ = κ/(max(q, 1 - q)·ν): after that time the noise in a flat direction is κ residual scales."""
        shape, target, budget = plan.shape, plan.target, budget_of(plan)
        public = rule.Public(problem, shape, target, self.column_kinds(shape), budget, self.gaps)
        scaled = rule.centred_and_scaled(public, released)
        level = problem.loss.level  # type: ignore[attr-defined]
        nu = scaled.size ** 2 / (rule.effective_mu(budget["descent"] / self.heaviest, target) * shape.n)
        tau = min(HORIZON / (max(level, 1 - level) * nu), 300.0)
        # expit curves by at most 1/4, so the smoothed loss by 1/(4h); heavy ball is stable below 2(1 + momentum)/(curvature·S²)
        longest = 0.855 * 2 * (1 + rule.MOMENTUM) * 4 * SMOOTHING / (scaled.size ** 2 * self.heaviest)
        gain = 1 - rule.MOMENTUM
        steps = int(min(max(math.ceil(gain * tau / longest), 200), 1000))
        return scaled, {
            "noise_ratio": nu,
            "flow_time": tau,
            "steps": steps,
            "step_size": min(gain * tau / steps, longest),
            "step_mu": budget["descent"] / math.sqrt(steps),
            "second_width_at": steps // 2,
        }

    def program(self, plan: Plan, problem: Problem) -> Program:
        shape = plan.shape
        released = yield from scaling_releases(problem, plan, self.column_kinds(shape), self.gaps)
        scaled, settings = self._settings(plan, problem, released)
        settings = settings if self.edition == 1 else settling.without_cap(settings)
        features = features_of(problem, scaled)
        theta = start(problem, shape, released, None)
        velocity, kept, steps = np.zeros_like(theta), np.zeros_like(theta), settings["steps"]
        level, reach = problem.loss.level, scaled.size  # type: ignore[attr-defined]

        def spread_now(name: str) -> Asking[float]:
            released[name] = yield Sum(name, LogHistogram(Residuals(features, theta), problem.data.y.width))
            return _spread(problem, shape, released, name)

        spread = yield from spread_now("residuals")
        yield Open("descent", sums=steps)
        for step in range(steps):
            if step == settings["second_width_at"]:
                spread = yield from spread_now("residuals again")
            term = PinballGradient(features, theta, level, SMOOTHING * spread, reach, self.heaviest)
            gradient = yield Sum("descent", term, mu=settings["step_mu"], shape=theta.shape)
            velocity = settings.get("momentum", rule.MOMENTUM) * velocity + gradient / shape.n
            theta = theta - settings["step_size"] * spread * velocity
            if step >= 3 * steps // 4:
                kept = kept + theta
        yield Close("descent")
        widths = [SMOOTHING * _spread(problem, shape, released, name) for name in ("residuals", "residuals again")]
        mean_radius = rule.mean_radius(problem, shape, released)
        yield Decide({**scaled, "mean_radius": mean_radius, **settings, "widths": widths, "released": rule.digest(released)})
        w = coordinates.original_coefficients(kept / (steps - 3 * steps // 4), scaled, problem.data.intercept)
        return np.asarray(problem.domain.project(w))


def _spread(problem: Problem, shape: Shape, released: Mapping[str, object], name: str) -> float:
    return upper_quantile(np.asarray(released[name]), problem.data.y.width, shape.n, 0.75)
