"""Scaled descent with error bars: weighted rows, a window of quiet steps, two released matrices, one Newton step.

    θ ← θ - η·V,   V ← 0.9·V + ( Σ_i ω_i·ψ_i·u_i + N(0, σ²I) )/n,   ω = min(1, (R/‖u‖)²)
    θ̄, ḡ: means over the last two thirds;   A = (Σ ω·v·uuᵀ + E)/n,  V̂ = (Σ ω²ψ²uuᵀ + E')/n at θ̄;   θ̂ = θ̄ - (A + xI)⁻¹ḡ

**Theorem.** Every release is a Gaussian mechanism on a sum whose sensitivity its term enforces (κ·t·R for a gradient,
κ_m·v_max·R² and κ_m·t²R² for the matrices, κ_m = 1 or √2). Stage k has the fixed budget μ_k; R, clips, steps and step size
are functions of public numbers and earlier releases. By adaptive composition the whole is √(Σμ_k²) = μ(ε, δ)-GDP; estimate and
errors are post-processing, which `verify` repeats.

What the errors are about, when they are right and what is heuristic in them: `docs/theorems/intervals.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dperm.inference.one_step import OneStep
from dperm.mechanisms import inference_outlook, inference_rule, poisson_rule
from dperm.mechanisms import scaled_rule as rule
from dperm.mechanisms.base import Outcome, Plan, Settings, Shape, Stage, Target, UnmetNeeds, Vector, options_of, register
from dperm.mechanisms.inference_rule import Limits
from dperm.mechanisms.inference_terms import CountScore, CurvatureMatrix, ScaleNumbers, Score, ScoreMatrix, ScoreSum
from dperm.mechanisms.scaled import (
    bounds_settings,
    budget_of,
    features_of,
    known_bounds,
    scaling_releases,
    standardised,
    start,
)
from dperm.privacy import Gaussian
from dperm.problem import Problem
from dperm.statistics_terms import LogHistogram, Residuals

if TYPE_CHECKING:
    from dperm.curator import Curator
    from dperm.features import Features

RELEASES = {
    **rule.RELEASES,
    "count scale": "histogram of the counts",
    "count sum": "sum of the counts, each cut at a released limit",
    "exposure sum": "sum of the exposures",
    "residuals again": "histogram of the residuals where the window begins",
    "descent": "sums of weighted scores, as many as the released scale asks for",
    "curvature": "curvature matrix at the window's mean",
    "scores": "matrix of the squared scores at the window's mean",
    "scale numbers": "sum of squared scores and sum of curvatures",
}


@register
@dataclass(frozen=True)
class ScaledInference:
    """Noisy descent on weighted rows that also releases what standard errors need; nothing to tune.

    kinds        "numeric", "categorical", "boolean", "sparse", "free" or "private" per encoded column; all "free" if left out
    groups       the one-hot group of each column, -1 for none; all -1 if left out
    clip_factor  clip of the residuals in units of their private 75 % quantile (linear, counts); by the rule if left out
    max_weight   declared bound on the exposures of counts, or None when every row has exposure 1

    **Guarantee**: μ(ε, δ)-GDP in stages, for the target's relation.

    >>> ScaledInference().name
    'scaled-inference'
    """

    kinds: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()
    clip_factor: float | None = None
    max_weight: float | None = None

    name: ClassVar[str] = "scaled-inference"

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(self.kinds))
        object.__setattr__(self, "groups", tuple(int(group) for group in self.groups))
        rule.check_kinds(self.kinds)
        for label in ("clip_factor", "max_weight"):
            value = getattr(self, label)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f"Expected {label} > 0, found {value}. Leave it out to take the rule's.")

    @property
    def heaviest(self) -> float:
        return 1.0 if self.max_weight is None else self.max_weight

    def missing(self, problem: Problem, target: Target) -> list[str]:
        needs = []
        counts = problem.loss.name == "poisson"
        if problem.loss.name not in inference_rule.FAMILIES or problem.loss.margins > 1:
            known = "two classes (logistic), squared, Huber, quantile or Poisson loss"
            return [f"{known}, found {problem.loss.name!r}, whose error has no derivation here"]
        if target.delta == 0:
            needs.append("delta > 0, because its noise is Gaussian (pass delta=1e-6)")
        if problem.feature_map is not None:
            needs.append("rows without a feature map (it scales the declared columns itself)")
        if not math.isfinite(problem.data.x_norm):
            needs.append("a finite bound on the norm of a row (x_norm= or bounds=)")
        if not problem.loss.classification and not math.isfinite(problem.data.y.radius):
            needs.append("finite bounds on the target (y_bounds=)")
        if counts and not (problem.data.y.low == 0 and problem.data.intercept):
            needs.append("counts from 0 on, and an intercept (it carries the mean rate)")
        if problem.regularizer.name != "none" and (problem.regularizer.name != "ridge" or problem.loss.name not in RIDGED):
            needs.append("no regularizer, or a ridge for a squared, Huber or logistic loss")
        if problem.domain.name != "whole-space":
            needs.append("coefficients without a bound (leave radius= out): an estimate at the edge has no normal law")
        if target.rows_per_person > 1:
            needs.append("one row per person (a person's scores belong together, and the rows do not say whose they are)")
        if self.max_weight is not None and not counts:
            needs.append("rows without sample or class weights (only the exposures of counts have a derivation)")
        return needs

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        kinds = rule.column_kinds(self.kinds, shape)
        if len(self.groups) not in (0, shape.d):
            raise ValueError(f"Expected one group number per column ({shape.d}), found {len(self.groups)}. Correct groups=.")
        if shape.parameters(problem) > inference_rule.MOST_COLUMNS:
            most = inference_rule.MOST_COLUMNS
            raise UnmetNeeds(self.name, [f"at most {most} coefficients (two matrices of that size are released)"])
        budget = inference_rule.shares(problem, shape, target, kinds, exposed=self.max_weight is not None)
        whole = sum(mu * mu for mu in budget.values())
        public: dict[str, Settings] = {
            name: {"releases": RELEASES[name], "share": mu * mu / whole} for name, mu in budget.items()
        }
        public["descent"] |= {
            "columns": rule.kinds_in_words(kinds),
            "declared_kinds": len(self.kinds),
            "groups": len({group for group in self.groups if group >= 0}),
            "clip_factor": "rule" if self.clip_factor is None else self.clip_factor,
            "max_weight": "none" if self.max_weight is None else self.max_weight,
            "momentum": rule.MOMENTUM,
            "early_share": inference_rule.EARLY_SHARE,
        }
        if problem.loss.name == "poisson":
            public["descent"]["declared_range"] = [problem.loss.low, problem.loss.high]  # type: ignore[attr-defined]
        stages = tuple(Stage(name, Gaussian(mu), public[name]) for name, mu in budget.items())
        from dperm.planner import noise_warning

        notes = (inference_outlook.sentence(problem, shape, target), *noise_warning(problem, shape, target))
        return Plan(self.name, options_of(self), stages, target, shape, warnings=notes)

    # -- what follows from released values ---------------------------------------------------------------------------

    def _scaled(self, plan: Plan, problem: Problem, released: Mapping[str, Any]) -> tuple[Settings, float | None, Settings]:
        """(centre and scale, share of positives, settings of counts)."""
        shape, target, budget = plan.shape, plan.target, budget_of(plan)
        kinds = rule.column_kinds(self.kinds, shape)
        scaled = rule.centred_and_scaled(problem, shape, target, kinds, budget, released)
        counts: Settings = {}
        if inference_rule.family(problem) == "counts":
            mean = poisson_rule.mean_rate(problem, shape, target, budget, released, self.heaviest)
            limit = poisson_rule.count_limit(problem, shape, target, budget["count scale"], released)
            highest = math.log(problem.data.y.high / mean)
            counts = {"mean_rate": mean, "lowest": poisson_rule.LOWEST, "highest": highest, "count_limit": limit}
        return scaled, rule.positive_rate(shape, target, budget, released), counts

    def _limits(
        self,
        plan: Plan,
        problem: Problem,
        size: float,
        rate: float | None,
        counts: Settings,
        released: Mapping[str, Any],
        name: str,
    ) -> Limits:
        shape, target, budget = plan.shape, plan.target, budget_of(plan)
        scale = 1.0
        if name in released:
            mean = counts.get("mean_rate")
            scale = inference_rule.residual_scale(problem, shape, target, budget[name], released, name, mean)
        bound = inference_rule.limits(problem, shape, target, budget, size, rate, scale, self.clip_factor)
        if counts and poisson_rule.rare(shape, released):  # a smaller clip would cut every count above zero, and no zero
            bound = bound._replace(clip=max(bound.clip, counts["count_limit"] / counts["mean_rate"]))
        return bound

    def decide(self, plan: Plan, problem: Problem, released: Mapping[str, Any]) -> Settings:
        shape, kinds, budget = plan.shape, rule.column_kinds(self.kinds, plan.shape), budget_of(plan)
        scaled, rate, counts = self._scaled(plan, problem, released)
        first, last = (
            self._limits(plan, problem, scaled["size"], rate, counts, released, name) for name in ("residuals", "residuals again")
        )
        step = self.inference(plan, problem, released)
        lift = rule.original_coefficients(np.eye(shape.parameters(problem)), scaled, problem.data.intercept).T
        sampling, privacy = step.errors.variances(lift)
        return {
            **scaled,
            "mean_radius": rule.mean_radius(problem, shape, released),
            "positive_rate": rate,
            **counts,
            **inference_rule.descent_settings(problem, shape, plan.target, kinds, budget, scaled, first),
            **bounds_settings(plan, kinds, released),
            "radius": [first.radius, last.radius],
            "clip": [first.clip, last.clip],
            "correction": step.shift,
            "coefficients": self._coefficients(step.errors.estimate, scaled, counts, problem),
            "sampling_error": np.sqrt(sampling),
            "privacy_error": np.sqrt(privacy),
            "released": rule.digest(released),
        }

    def _coefficients(self, theta: Vector, scaled: Settings, counts: Settings, problem: Problem) -> Vector:
        w = rule.original_coefficients(theta, scaled, problem.data.intercept)
        if counts:  # η is relative to the mean rate: its logarithm belongs to the intercept
            w[-1] += math.log(counts["mean_rate"]) / problem.data.intercept
        return w

    def inference(self, plan: Plan, problem: Problem, released: Mapping[str, Any]) -> OneStep:
        """The estimate and its covariance in the coordinates of θ."""
        scaled, rate, counts = self._scaled(plan, problem, released)
        bound = self._limits(plan, problem, scaled["size"], rate, counts, released, "residuals again")
        features, mean = features_of(problem, scaled), np.asarray(released["window mean"], dtype=np.float64)
        score = inference_rule.score_of(problem, features, mean, bound, rate, counts, self.heaviest)
        flat = inference_rule.flat_directions(self.groups if problem.data.intercept else (), scaled)
        flat = flat if problem.data.intercept else np.zeros((len(mean), 0))
        return inference_rule.inference(
            problem, plan.shape, plan.target, budget_of(plan), scaled, score, bound.radius, released, flat
        )

    # -- the run -----------------------------------------------------------------------------------------------------

    def run(self, plan: Plan, problem: Problem, curator: Curator) -> Outcome:
        shape, kinds, budget = plan.shape, rule.column_kinds(self.kinds, plan.shape), budget_of(plan)
        released, curator = known_bounds(plan, kinds, curator)
        released |= scaling_releases(problem, shape, kinds, budget, curator)
        if "count scale" in budget:
            self._count(plan, problem, released, curator)
        scaled, rate, counts = self._scaled(plan, problem, released)
        curator, features = standardised(curator, features_of(problem, scaled))

        def score(theta: Vector, bound: Limits) -> Score:
            return inference_rule.score_of(problem, features, theta, bound, rate, counts, self.heaviest)

        def limits_at(name: str, theta: Vector) -> Limits:
            if name in budget:
                released[name] = curator.noisy_sum(self._residuals(problem, features, theta, counts), mu=budget[name])
            return self._limits(plan, problem, scaled["size"], rate, counts, released, name)

        trust = rule.trust_in_label_mean(problem, shape, plan.target, budget)
        theta = start(problem, shape, released, rate, trust)
        bound = limits_at("residuals", theta)
        settings = inference_rule.descent_settings(problem, shape, plan.target, kinds, budget, scaled, bound)
        steps, window = settings["steps"], settings["window_from"]
        allowance = curator.allowance(Gaussian(budget["descent"]))
        velocity, mean, total = np.zeros_like(theta), np.zeros_like(theta), np.zeros_like(theta)
        for step in range(steps):
            if step == window:
                bound = limits_at("residuals again", theta)
            mu = settings["early_mu"] if step < window else settings["window_mu"]
            gradient = allowance.noisy_sum(ScoreSum(score(theta, bound), bound.radius), mu=mu) / shape.n
            gradient = gradient + self._pull(problem, theta, scaled) / shape.n
            if step >= window:  # the mean of the points at which the gradients were taken
                mean, total = mean + theta, total + gradient
            velocity = rule.MOMENTUM * velocity + gradient
            unit = bound.scale if inference_rule.family(problem) == "quantile" else 1.0
            theta = theta - settings["step_size"] * unit * velocity
            curator.step(step + 1, steps)
        allowance.close()
        released["window mean"], released["window gradient"] = mean / (steps - window), total / (steps - window)
        at = score(released["window mean"], bound)
        released["curvature"] = curator.noisy_sum(CurvatureMatrix(at, bound.radius), mu=budget["curvature"])
        released["scores"] = curator.noisy_sum(ScoreMatrix(at, bound.radius), mu=budget["scores"])
        if "scale numbers" in budget:
            released["scale numbers"] = curator.noisy_sum(ScaleNumbers(at, bound.radius), mu=budget["scale numbers"])
        estimate = self.inference(plan, problem, released).errors.estimate
        return Outcome(self._coefficients(estimate, scaled, counts, problem), released)

    def _count(self, plan: Plan, problem: Problem, released: dict[str, Any], curator: Curator) -> None:
        """Size and sum of the counts, as in `scaled-poisson`."""
        budget, shape, target = budget_of(plan), plan.shape, plan.target
        histogram = LogHistogram(poisson_rule.Counts(), problem.data.y.high)
        released["count scale"] = curator.noisy_sum(histogram, mu=budget["count scale"])
        limit = poisson_rule.count_limit(problem, shape, target, budget["count scale"], released)
        released["count sum"] = curator.noisy_sum(poisson_rule.CountSum(limit, self.heaviest), mu=budget["count sum"])
        if "exposure sum" in budget:
            exposure = poisson_rule.ExposureSum(self.heaviest)
            released["exposure sum"] = curator.noisy_sum(exposure, mu=budget["exposure sum"])

    def _residuals(self, problem: Problem, features: Features, theta: Vector, counts: Settings) -> LogHistogram:
        if not counts:
            return LogHistogram(Residuals(features, theta), problem.data.y.width)
        mean = counts["mean_rate"]
        pearson = CountScore(features, theta, 1.0, mean, counts["lowest"], counts["highest"], self.heaviest)
        return LogHistogram(pearson, poisson_rule.residual_top(problem, mean, 1.0))

    def _pull(self, problem: Problem, theta: Vector, scaled: Settings) -> Vector | float:
        """Gradient of the ridge in the coordinates of θ."""
        if problem.regularizer.name == "none":
            return 0.0
        w = rule.original_coefficients(theta, scaled, problem.data.intercept)
        return rule.pulled_back(np.asarray(problem.regularizer.gradient(w)), scaled, problem.data.intercept)


RIDGED = ("squared", "huber", "logistic")
