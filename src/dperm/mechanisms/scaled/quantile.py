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
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from dperm.mechanisms.conditions import unmet
from dperm.mechanisms.scaled import centre as centre_rule
from dperm.mechanisms.scaled import coordinates, scaling, settling
from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled.gradient import scaling_needs, scaling_releases, start
from dperm.mechanisms.scaled.method import ScaledMethod, in_stages
from dperm.problem import Problem
from dperm.release.asks import Asking, Close, Decide, Open, Program, Sum
from dperm.release.plan import Plan, Settings, Shape, Target, Vector, register
from dperm.rows.base import Block
from dperm.terms.affine import Features
from dperm.terms.gridded import Grid, Pulled
from dperm.terms.moments import row_weights
from dperm.terms.statistics import LogHistogram, Residuals, upper_quantile

SHARES = {**rule.SHARES, "label mean": 0.01, "residuals": 0.02, "residuals again": 0.02}
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
        return np.asarray(slopes * row_weights(block, self.heaviest))


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
        names = centre_rule.centring(problem, self.gaps, self.edition)
        names += [*(["label mean"] if problem.data.intercept else []), "residuals", "descent", "residuals again"]
        budget = rule.budget(names, rule.parts_of(names, shape, target, SHARES), target)
        public = self.stated(shape, {"level": problem.loss.level})  # type: ignore[attr-defined]
        return in_stages(self, problem, shape, target, budget, {"descent": public})

    def _settings(self, public: rule.Public, scaled: scaling.Scaled, level: float) -> Settings:
        """τ = κ/(max(q, 1 - q)·ν): after that time the noise in a flat direction is κ residual scales."""
        mu = public.budget["descent"]
        nu = scaled.size ** 2 / (rule.effective_mu(mu / self.heaviest, public.target) * public.shape.n)
        tau = min(HORIZON / (max(level, 1 - level) * nu), 300.0)
        # expit curves by at most 1/4, so the smoothed loss by 1/(4h); heavy ball is stable below 2(1 + momentum)/(curvature·S²)
        longest = 0.855 * 2 * (1 + rule.MOMENTUM) * 4 * SMOOTHING / (scaled.size ** 2 * self.heaviest)
        steps, step_size = rule.paced(tau, longest, 200, 1000)
        return {
            "noise_ratio": nu,
            "flow_time": tau,
            "steps": steps,
            "step_size": step_size,
            "step_mu": mu / math.sqrt(steps),
            "second_width_at": steps // 2,
        }

    def program(self, plan: Plan, problem: Problem) -> Program:
        public, n, level = self.public(plan, problem), plan.shape.n, problem.loss.level  # type: ignore[attr-defined]
        released = yield from scaling_releases(public)
        scaled = scaling.centred_and_scaled(public, released)
        settings = self._settings(public, scaled, level)
        settings = settings if self.edition == 1 else settling.without_cap(settings)
        features = coordinates.features_of(problem, scaled)
        theta = start(public, released, None, trust=1.0)
        velocity, kept, steps = np.zeros_like(theta), np.zeros_like(theta), settings["steps"]

        def spread_now(name: str) -> Asking[float]:
            released[name] = yield Sum(name, LogHistogram(Residuals(features, theta), problem.data.y.width))
            return upper_quantile(np.asarray(released[name]), problem.data.y.width, n, 0.75)

        spread = first = yield from spread_now("residuals")
        yield Open("descent", sums=steps)
        for step in range(steps):
            if step == settings["second_width_at"]:
                spread = yield from spread_now("residuals again")
            term = PinballGradient(features, theta, level, SMOOTHING * spread, scaled.size, self.heaviest)
            gradient = yield Sum("descent", term, mu=settings["step_mu"], shape=theta.shape)
            velocity = settings.get("momentum", rule.MOMENTUM) * velocity + gradient / n
            theta = theta - settings["step_size"] * spread * velocity
            if step >= 3 * steps // 4:
                kept = kept + theta
        yield Close("descent")
        widths = [SMOOTHING * first, SMOOTHING * spread]
        found = {"mean_radius": scaling.mean_radius(public, released), **settings, "widths": widths}
        yield Decide({**scaled, **found, "released": rule.digest(released)})
        w = coordinates.original_coefficients(kept / (steps - 3 * steps // 4), scaled, problem.data.intercept)
        return np.asarray(problem.domain.project(w))
