"""Poisson regression by scaled gradient descent: private centring and scaling, a private mean rate, then clipped noisy descent.

    ȳ = (Σ min(y, y₀) + noise)/n;   η = ⟨z, θ⟩ in [-6, log(y_max/ȳ)];   θ ← θ - step·V,
    V ← 0.9·V + ( Σ_i clip_C((e^{η_i} - y_i/ȳ)·z_i) + N(0, σ²I) )/n

**Theorem.** Every release is a Gaussian mechanism on a sum whose sensitivity its term enforces; stage k has the fixed budget μ_k
and what later stages do depends on public numbers and earlier releases only. By adaptive composition the whole is √(Σμ_k²) =
μ(ε, δ)-GDP.

The step size has no proof of stability: e^η curves without a uniform bound, and half the step of the squared loss is what
worked. A step that is too long costs accuracy and never privacy, because the clip acts on every step. Proof:
`docs/theorems/poisson.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dperm.features import Features
from dperm.mechanisms import gaps_rule, poisson_rule
from dperm.mechanisms import scaled_rule as rule
from dperm.mechanisms.base import Outcome, Plan, Settings, Shape, Stage, Target, Vector, options_of, register
from dperm.mechanisms.scaled import budget_of, features_of, scaling_releases
from dperm.privacy import Gaussian
from dperm.problem import Problem
from dperm.statistics_terms import LogHistogram

if TYPE_CHECKING:
    from dperm.curator import Curator


@register
@dataclass(frozen=True)
class ScaledPoisson:
    """Clipped noisy descent for counts; nothing to tune.

    kinds        one of "numeric", "categorical", "boolean", "sparse", "free" per encoded column; all "free" if left out
    clip_factor  the clip in units of S times the residual scale; by the rule if left out
    horizon      norm that the noise may reach in a flat direction; by the rule (2) if left out
    max_weight   declared bound on exposures (times sample weights), or None when every row has exposure 1
    gaps         columns whose missing cells take the released centre; their present cells are counted

    **Guarantee**: μ(ε, δ)-GDP in stages, for the target's relation.

    >>> ScaledPoisson().name
    'scaled-poisson'
    """

    kinds: tuple[str, ...] = ()
    clip_factor: float | None = None
    horizon: float | None = None
    max_weight: float | None = None
    gaps: tuple[int, ...] = ()

    name: ClassVar[str] = "scaled-poisson"
    UNSTATED: ClassVar[dict[str, Any]] = {"gaps": ()}  # version 0.1.0 had no such option

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(self.kinds))
        object.__setattr__(self, "gaps", gaps_rule.check_gaps(self.gaps))
        for kind in self.kinds:
            if kind not in rule.KINDS:
                raise ValueError(f"Expected kinds in {rule.KINDS}, found {kind!r}. Declare what each column is.")
        for label in ("clip_factor", "horizon", "max_weight"):
            value = getattr(self, label)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f"Expected {label} > 0, found {value}. Leave it out to take the rule's.")

    @property
    def heaviest(self) -> float:
        return 1.0 if self.max_weight is None else self.max_weight

    def missing(self, problem: Problem, target: Target) -> list[str]:
        needs = []
        if problem.loss.name != "poisson":
            needs.append(f"the Poisson loss (found {problem.loss.name!r})")
        if target.delta == 0:
            needs.append("delta > 0, because its noise is Gaussian (pass delta=1e-6)")
        if not math.isfinite(problem.data.x_norm):
            needs.append("a finite bound on the norm of a row (x_norm= or bounds=)")
        if not (problem.data.y.low == 0 and 0 < problem.data.y.high < math.inf):
            needs.append("counts in [0, y_max] with a declared y_max (y_bounds=(0, y_max))")
        if problem.feature_map is not None:
            needs.append("rows without a feature map (it scales the declared columns itself)")
        if not problem.data.intercept:
            needs.append("an intercept (it carries the mean rate)")
        if problem.regularizer.name != "none":
            needs.append("no regularizer (the flow time regularizes)")
        return needs

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        kinds = poisson_rule.kinds_of(self.kinds, shape)
        budget = poisson_rule.shares(problem, shape, target, exposed=self.max_weight is not None, gaps=self.gaps)
        public = {
            "columns": rule.kinds_in_words(kinds),
            "declared_kinds": len(self.kinds),
            "clip_factor": "rule" if self.clip_factor is None else self.clip_factor,
            "horizon": "rule" if self.horizon is None else self.horizon,
            "max_weight": "none" if self.max_weight is None else self.max_weight,
            "momentum": rule.MOMENTUM,
            "declared_range": [problem.loss.low, problem.loss.high],  # type: ignore[attr-defined]
            **gaps_rule.gaps_in_words(self.gaps, shape),
        }
        stages = tuple(Stage(name, Gaussian(mu), public if name == "descent" else {}) for name, mu in budget.items())
        from dperm.planner import noise_warning

        return Plan(self.name, options_of(self), stages, target, shape, warnings=noise_warning(problem, shape, target))

    def decide(self, plan: Plan, problem: Problem, released: Mapping[str, Any]) -> Settings:
        scaled, settings = self._settings(plan, problem, released)
        clips = [self._clip(plan, problem, scaled, settings, released, name) for name in ("residuals", "residuals again")]
        limit = self._limit(plan, problem, released)
        mean_radius = rule.mean_radius(problem, plan.shape, released)
        return {
            **scaled,
            "mean_radius": mean_radius,
            "count_limit": limit,
            **settings,
            "clip": clips,
            "released": rule.digest(released),
        }

    def _settings(self, plan: Plan, problem: Problem, released: Mapping[str, Any]) -> tuple[Settings, Settings]:
        shape, target, kinds, budget = plan.shape, plan.target, poisson_rule.kinds_of(self.kinds, plan.shape), budget_of(plan)
        scaled = rule.centred_and_scaled(problem, shape, target, kinds, budget, released, self.gaps)
        rate = poisson_rule.mean_rate(problem, shape, target, budget, released, self.heaviest)
        smallest = self._limit(plan, problem, released) / rate if poisson_rule.rare(shape, released) else 0.0
        settings = poisson_rule.settings(
            problem, shape, target, budget, scaled, rate, smallest, clip_factor=self.clip_factor, horizon=self.horizon
        )
        return scaled, settings

    def _limit(self, plan: Plan, problem: Problem, released: Mapping[str, Any]) -> float:
        return poisson_rule.count_limit(problem, plan.shape, plan.target, budget_of(plan)["count scale"], released)

    def _clip(
        self, plan: Plan, problem: Problem, scaled: Settings, settings: Settings, released: Mapping[str, Any], name: str
    ) -> float:
        top = poisson_rule.residual_top(problem, settings["mean_rate"], self.heaviest)
        spread = poisson_rule.residual_scale(
            plan.shape, plan.target, budget_of(plan)[name], released[name], top, rare=poisson_rule.rare(plan.shape, released)
        )
        return float(settings["clip_factor"] * scaled["size"] * spread)

    def run(self, plan: Plan, problem: Problem, curator: Curator) -> Outcome:
        shape, budget = plan.shape, budget_of(plan)
        kinds = poisson_rule.kinds_of(self.kinds, shape)
        released, curator = scaling_releases(problem, plan, kinds, self.gaps, curator)
        top = problem.data.y.high
        counts = LogHistogram(poisson_rule.Counts(), top)
        released["count scale"] = curator.noisy_sum(counts, mu=budget["count scale"])
        limit = self._limit(plan, problem, released)
        released["count sum"] = curator.noisy_sum(poisson_rule.CountSum(limit, self.heaviest), mu=budget["count sum"])
        if "exposure sum" in budget:
            exposure = poisson_rule.ExposureSum(self.heaviest)
            released["exposure sum"] = curator.noisy_sum(exposure, mu=budget["exposure sum"])
        scaled, settings = self._settings(plan, problem, released)
        theta = self._descend(plan, problem, curator, scaled, settings, released)
        w = rule.original_coefficients(theta, scaled, problem.data.intercept)
        # η is relative to the mean rate: its logarithm belongs to the intercept.
        w[-1] += math.log(settings["mean_rate"]) / problem.data.intercept
        return Outcome(problem.domain.project(w), released)

    def _descend(
        self,
        plan: Plan,
        problem: Problem,
        curator: Curator,
        scaled: Settings,
        settings: Settings,
        released: dict[str, Any],
    ) -> Vector:
        """Heavy ball from η = 0, the mean rate; the mean of the second half of the iterates."""
        shape, budget, features = plan.shape, budget_of(plan), features_of(problem, scaled)
        top = poisson_rule.residual_top(problem, settings["mean_rate"], self.heaviest)
        theta = np.zeros(features.width(shape.d))
        velocity, kept = np.zeros_like(theta), np.zeros_like(theta)
        steps = settings["steps"]

        def residuals(theta: Vector) -> poisson_rule.CountResiduals:
            return _residuals(features, theta, settings, self.heaviest)

        def clip_now(name: str) -> float:
            released[name] = curator.noisy_sum(LogHistogram(residuals(theta), top), mu=budget[name])
            return self._clip(plan, problem, scaled, settings, released, name)

        clip = clip_now("residuals")
        allowance = curator.allowance(Gaussian(budget["descent"]))
        for step in range(steps):
            if step == settings["second_clip_at"]:
                clip = clip_now("residuals again")
            gradient = allowance.noisy_sum(poisson_rule.CountGradient(residuals(theta), clip), mu=settings["step_mu"])
            velocity = rule.MOMENTUM * velocity + gradient / shape.n
            theta = theta - settings["step_size"] * velocity
            if step >= steps // 2:
                kept = kept + theta
            curator.step(step + 1, steps)
        allowance.close()
        return np.asarray(kept / (steps - steps // 2))


def _residuals(
    features: Features, theta: Vector, settings: Settings, heaviest: float
) -> poisson_rule.CountResiduals:
    rate, lowest, highest = settings["mean_rate"], settings["lowest"], settings["highest"]
    return poisson_rule.CountResiduals(features, theta, rate, lowest, highest, heaviest)
