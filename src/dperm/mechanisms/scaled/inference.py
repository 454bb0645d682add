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
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dperm.mechanisms.scaled import gaps as gaps_rule
from dperm.mechanisms.scaled import inference_outlook, poisson_settings, several_classes, stages, whitening
from dperm.mechanisms.scaled import inference_settings as inference_rule
from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled.errors import Errors
from dperm.mechanisms.scaled.gradient import bounds_settings, budget_of, features_of, known_bounds, scaling_releases, start
from dperm.mechanisms.scaled.inference_settings import Limits, needs_of
from dperm.mechanisms.scaled.noise_ratio import noise_warning
from dperm.mechanisms.scaled.one_step import OneStep
from dperm.mechanisms.scaled.shrinkage import drawn_in
from dperm.privacy import Gaussian
from dperm.problem import Problem, Ridge
from dperm.release.asks import Asking, Close, Decide, Open, Program, Publish, See, Sum
from dperm.release.noise import gaussian_scale
from dperm.release.plan import Plan, Settings, Shape, Stage, Target, UnmetNeeds, Vector, options_of, register
from dperm.terms.affine import Features
from dperm.terms.mixing import Mixing
from dperm.terms.moments import CentredMoments
from dperm.terms.softmax import ClassCounts
from dperm.terms.statistics import LogHistogram, Residuals, SquareSum

RELEASES = {
    **stages.RELEASES,
    "count scale": "histogram of the counts",
    "count sum": "sum of the counts, each cut at a released limit",
    "exposure sum": "sum of the exposures",
    several_classes.CLASS_COUNTS: "number of rows of each class",
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

    kinds        "numeric", "categorical", "boolean", "sparse", "free" (if left out) or "private" per encoded column
    groups       the one-hot group of each column, -1 (if left out) for none
    clip_factor  clip of the residuals in units of their private 75 % quantile (linear, counts); by the rule if left out
    max_weight   declared bound on sample weights (for counts on exposures, times sample weights), or None when there are none
    summed       whether persons' scores are added up before they are squared; needs rows in memory, in the order of persons
    importance   whether the weights of counts hold sample weights and not exposures alone
    gaps         columns whose missing cells take the released centre; their present cells are counted
    whitened     release all second moments where squares alone would cost the same, and see rows as uncorrelated; False is how
                 version 0.2.0 fitted
    shrunk       predict with the estimate drawn in by the part of it that is privacy noise; False, as in versions up to 0.4.0,
                 predicts with the estimate that intervals are centred at
    wary         as in `ScaledGradient`

    **Guarantee**: μ(ε, δ)-GDP in stages, for the target's relation.

    >>> ScaledInference().name
    'scaled-inference'
    """

    kinds: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()
    clip_factor: float | None = None
    max_weight: float | None = None
    gaps: tuple[int, ...] = ()
    whitened: bool = True
    importance: bool = False
    summed: bool = False
    shrunk: bool = True
    wary: bool = True

    name: ClassVar[str] = "scaled-inference"
    # Earlier versions had no such options.
    UNSTATED: ClassVar[dict[str, Any]] = dict.fromkeys(("whitened", "importance", "summed", "shrunk", "wary"), False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(self.kinds))
        object.__setattr__(self, "groups", tuple(int(group) for group in self.groups))
        rule.check_kinds(self.kinds)
        object.__setattr__(self, "wary", bool(self.wary) and "private" in self.kinds)
        object.__setattr__(self, "gaps", gaps_rule.check_gaps(self.gaps))
        for label in ("clip_factor", "max_weight"):
            value = getattr(self, label)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f"Expected {label} > 0, found {value}. Leave it out to take the rule's.")

    @property
    def heaviest(self) -> float:
        return 1.0 if self.max_weight is None else self.max_weight

    def missing(self, problem: Problem, target: Target) -> list[str]:
        weighted = self.max_weight is not None
        return needs_of(problem, target, weighted=weighted, importance=self.importance, summed=self.summed)

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        kinds = rule.column_kinds(self.kinds, shape)
        if len(self.groups) not in (0, shape.d):
            raise ValueError(f"Expected one group number per column ({shape.d}), found {len(self.groups)}. Correct groups=.")
        most, found = inference_rule.MOST_COLUMNS, several_classes.free_parameters(problem, shape)
        if found > most:
            each = " (of each class against another)" if several_classes.several(problem) else ""
            needs = f"at most {most} coefficients{each}, because two matrices of that size are released, found {found}"
            raise UnmetNeeds(self.name, [needs])
        weights = self.max_weight is not None
        budget = inference_rule.shares(problem, shape, target, kinds, exposed=weights, weighted=weights, gaps=self.gaps)
        whole = sum(mu * mu for mu in budget.values())
        public: dict[str, dict[str, object]] = {
            name: {"releases": RELEASES[name], "share": mu * mu / whole} for name, mu in budget.items()
        }
        if self.whitened:
            public["squares"]["releases"] = "sums of squares and products of the centred columns"
        public["descent"] |= {
            "columns": rule.kinds_in_words(kinds),
            "declared_kinds": len(self.kinds),
            "groups": len({group for group in self.groups if group >= 0}),
            "clip_factor": "rule" if self.clip_factor is None else self.clip_factor,
            "max_weight": "none" if self.max_weight is None else self.max_weight,
            "momentum": rule.MOMENTUM,
            "early_share": inference_rule.EARLY_SHARE,
            **gaps_rule.gaps_in_words(self.gaps, shape),
        }
        if problem.loss.name == "poisson":
            public["descent"]["declared_range"] = [problem.loss.low, problem.loss.high]  # type: ignore[attr-defined]
        stages = tuple(Stage(name, Gaussian(mu), public[name]) for name, mu in budget.items())
        width, warned = inference_outlook.sentence(problem, shape, target), noise_warning(problem, shape, target)
        plain = self.max_weight is None and "private" not in kinds
        notes = (width, *(inference_outlook.rival_note(problem, shape, target) if plain else ()))
        return Plan(self.name, options_of(self), stages, target, shape, warnings=warned, notes=notes)

    # -- what follows from released values ---------------------------------------------------------------------------

    def _scaled(self, plan: Plan, problem: Problem, released: Mapping[str, Any]) -> tuple[Settings, float | None, Settings]:
        """(centre and scale, share of positives or what several classes have for it, settings of counts)."""
        shape, target, budget = plan.shape, plan.target, budget_of(plan)
        public = rule.Public(problem, shape, target, rule.column_kinds(self.kinds, shape), budget, self.gaps)
        squares = {"squares": np.asarray(released["squares"], dtype=np.float64)[: shape.d]}  # the first of the moments
        scaled = rule.centred_and_scaled(public, {**released, **squares})
        if self.whitened:
            of_moments = CentredMoments(Features(), scaled.centred_radius).sensitivity(target.relation)
            noise = gaussian_scale(of_moments * target.rows_per_person, budget["squares"])
            groups = self.groups if problem.data.intercept else ()
            moments = np.asarray(released["squares"], dtype=np.float64)
            scaled = whitening.whitened(scaled, moments, noise, shape.n, groups, problem.data.intercept)
        counts: Settings = {}
        if inference_rule.family(problem) == "counts":
            mean = poisson_settings.mean_rate(public, released, self.heaviest)
            limit = poisson_settings.count_limit(problem, shape, target, budget["count scale"], released)
            highest = math.log(problem.data.y.high / mean)
            counts = {"mean_rate": mean, "lowest": poisson_settings.LOWEST, "highest": highest, "count_limit": limit}
            if self.importance:
                counts["weight_unit"] = poisson_settings.total_weight(target, budget, released, self.heaviest) / shape.n
        if several_classes.several(problem):
            return scaled, several_classes.unevenness(self._shares(plan, released)), counts
        return scaled, rule.positive_rate(shape, target, budget, released), counts

    def _shares(self, plan: Plan, released: Mapping[str, Any]) -> Vector | None:
        """Released shares of several classes."""
        return several_classes.class_shares(plan.shape, plan.target, budget_of(plan), released)

    def _limits(
        self,
        plan: Plan,
        problem: Problem,
        size: float,
        rate: float | None,
        counts: Settings,
        released: Mapping[str, ArrayLike],
        name: str,
    ) -> Limits:
        shape, target, budget = plan.shape, plan.target, budget_of(plan)
        scale, rate = 1.0, rate if self.max_weight is None else None
        if name in released:
            mean = counts.get("mean_rate")
            scale = inference_rule.residual_scale(problem, shape, target, budget[name], released, name, mean)
        bound = inference_rule.limits(problem, shape, target, budget, size, rate, scale, self.clip_factor)
        if counts and poisson_settings.rare(shape, released):  # a smaller clip would cut every count above zero, and no zero
            bound = bound._replace(clip=max(bound.clip, counts["count_limit"] / counts["mean_rate"]))
        return bound

    def _decided(self, plan: Plan, problem: Problem, released: Mapping[str, Any]) -> tuple[Vector, Settings]:
        """(coefficients, what the record states): all of it follows from released values."""
        shape, kinds, budget = plan.shape, rule.column_kinds(self.kinds, plan.shape), budget_of(plan)
        scaled, rate, counts = self._scaled(plan, problem, released)
        first, last = (
            self._limits(plan, problem, scaled["size"], rate, counts, released, name) for name in ("residuals", "residuals again")
        )
        step = self.inference(plan, problem, released)
        sampling, privacy = step.errors.variances(self._lift(problem, shape, scaled))
        theta = drawn_in(step, several_classes.intercepts(problem, shape)) if self.shrunk else step.errors.estimate
        w = self._coefficients(theta, scaled, counts, problem)
        stated = {name: value for name, value in scaled.items() if name != "turn"}
        return w, {
            **stated,
            "mean_radius": rule.mean_radius(problem, shape, released),
            **({"class_shares": self._shares(plan, released)} if several_classes.several(problem) else {"positive_rate": rate}),
            **counts,
            **inference_rule.descent_settings(problem, shape, plan.target, kinds, budget, scaled, first),
            **bounds_settings(plan, kinds, released),
            "radius": [first.radius, last.radius],
            "clip": [first.clip, last.clip],
            "correction": step.shift,
            "coefficients": w,
            "sampling_error": np.sqrt(sampling),
            "privacy_error": np.sqrt(privacy),
            "released": rule.digest(released),
        }

    def _lift(self, problem: Problem, shape: Shape, scaled: Settings) -> Vector:
        """The matrix from θ to encoded coefficients, those of several classes one class after the other."""
        width = shape.parameters(problem) // problem.loss.margins
        lift = whitening.coefficients(np.eye(width), scaled, problem.data.intercept).T
        return np.asarray(np.kron(several_classes.basis_of(problem), lift)) if several_classes.several(problem) else lift

    def _coefficients(self, theta: Vector, scaled: Settings, counts: Settings, problem: Problem) -> Vector:
        if several_classes.several(problem):
            combined = theta.reshape(several_classes.combinations(problem), -1)
            w = whitening.coefficients(several_classes.basis_of(problem) @ combined, scaled, problem.data.intercept)
            return np.asarray(w.reshape(-1))
        w = whitening.coefficients(theta, scaled, problem.data.intercept)
        if counts:  # η is relative to the mean rate: its logarithm belongs to the intercept
            w[-1] += math.log(counts["mean_rate"]) / problem.data.intercept
        return w

    def _unit(self, problem: Problem) -> Problem:
        """The problem whose weights are at most 1: dividing all of them by the largest divides the ridge by it too."""
        ridge = problem.regularizer
        if self.max_weight is None or not isinstance(ridge, Ridge):
            return problem
        return replace(problem, regularizer=Ridge(ridge.strength / self.max_weight))

    def inference(self, plan: Plan, problem: Problem, released: Mapping[str, Any]) -> OneStep:
        """The estimate and its covariance in the coordinates of θ."""
        scaled, rate, counts = self._scaled(plan, problem, released)
        bound = self._limits(plan, problem, scaled["size"], rate, counts, released, "residuals again")
        features, at = self._features(problem, scaled), np.asarray(released[self._place], dtype=np.float64)
        score = inference_rule.score_of(problem, features, at, bound, rate, counts, self.max_weight)
        flat = whitening.flat_directions(self.groups if problem.data.intercept else (), scaled)
        flat = several_classes.by_combination(problem, flat) if problem.data.intercept else np.zeros((len(at), 0))
        return inference_rule.inference(
            problem, plan.shape, plan.target, budget_of(plan), scaled, score, bound.radius, released, flat, self.summed
        )

    def in_columns(self, plan: Plan, problem: Problem, released: Mapping[str, Any]) -> tuple[Errors, OneStep, Vector]:
        """(the estimate with its errors in encoded columns, the step behind it, the map from its coordinates to these)."""
        problem = self._unit(problem)
        scaled, _, counts = self._scaled(plan, problem, released)
        step = self.inference(plan, problem, released)
        lift = self._lift(problem, plan.shape, scaled)
        # A count regression has the logarithm of the mean rate in its intercept: a constant, since it is released.
        estimate = self._coefficients(step.errors.estimate, scaled, counts, problem)
        return step.errors.mapped(lift, estimate - lift @ step.errors.estimate), step, lift

    @property
    def _place(self) -> str:
        """Which released mean of iterates the matrices are taken at."""
        return "last mean" if self.whitened else "window mean"

    def _features(self, problem: Problem, scaled: Settings) -> Features:
        """Of the rows as they are seen: turned ones are centred and scaled already."""
        return Features(1.0 if problem.data.intercept else 0.0) if self.whitened else features_of(problem, scaled)

    # -- the run -----------------------------------------------------------------------------------------------------

    def program(self, plan: Plan, problem: Problem) -> Program:
        kinds, budget, problem = rule.column_kinds(self.kinds, plan.shape), budget_of(plan), self._unit(problem)
        released = yield from known_bounds(plan, kinds)
        squares = CentredMoments if self.whitened else SquareSum
        released |= yield from scaling_releases(problem, plan, kinds, self.gaps, squares=squares)
        if "count scale" in budget:
            yield from self._count(plan, problem, released)
        if several_classes.CLASS_COUNTS in budget:
            counted = ClassCounts(problem.loss.margins)
            released[several_classes.CLASS_COUNTS] = yield Sum(several_classes.CLASS_COUNTS, counted)
        scaled, rate, counts = self._scaled(plan, problem, released)
        if self.whitened:
            yield See(Mixing(np.asarray(scaled["shift"]), np.asarray(scaled["scale"]), scaled["turn"]))
        features = self._features(problem, scaled)
        bound = yield from self._descend(plan, problem, features, scaled, released)
        place = np.asarray(released[self._place], dtype=np.float64)
        at = inference_rule.score_of(problem, features, place, bound, rate, counts, self.max_weight)
        made = several_classes.terms_of(at, bound.radius)
        released["curvature"] = yield Sum("curvature", made.curvature)
        summed = plan.target.rows_per_person if self.summed else None
        released["scores"] = yield Sum("scores", several_classes.score_matrix(at, bound.radius, summed))
        if "scale numbers" in budget:
            released["scale numbers"] = yield Sum("scale numbers", made.numbers)
        w, decided = self._decided(plan, problem, released)
        yield Decide(decided)
        return w

    def _descend(
        self, plan: Plan, problem: Problem, features: Features, scaled: Settings, released: dict[str, Any]
    ) -> Asking[Limits]:
        """Heavy ball; publishes the means over the window of iterates and gradients, and returns the limits that held there."""
        shape, kinds, budget = plan.shape, rule.column_kinds(self.kinds, plan.shape), budget_of(plan)
        _, rate, counts = self._scaled(plan, problem, released)
        if several_classes.several(problem):
            theta = several_classes.start_at(problem, shape, self._shares(plan, released))
        else:
            theta = start(problem, shape, released, rate, rule.trust_in_label_mean(problem, shape, plan.target, budget))

        def limits_at(name: str) -> Asking[Limits]:
            if name in budget:
                released[name] = yield Sum(name, self._residuals(problem, features, theta, counts))
            return self._limits(plan, problem, scaled["size"], rate, counts, released, name)

        bound = yield from limits_at("residuals")
        settings = inference_rule.descent_settings(problem, shape, plan.target, kinds, budget, scaled, bound)
        steps, window = settings["steps"], settings["window_from"]
        velocity, mean, total, late = (np.zeros_like(theta) for _ in range(4))
        last = steps - (steps - window) // 2
        yield Open("descent", sums=steps)
        for step in range(steps):
            if step == window:
                bound = yield from limits_at("residuals again")
            mu = settings["early_mu"] if step < window else settings["window_mu"]
            score = inference_rule.score_of(problem, features, theta, bound, rate, counts, self.max_weight)
            pulled = several_classes.terms_of(score, bound.radius).gradient
            noisy = yield Sum("descent", pulled, mu=mu, shape=theta.shape)
            gradient = (noisy + self._pull(problem, theta, scaled)) / shape.n
            if step >= window:  # the mean of the points at which the gradients were taken
                mean, total = mean + theta, total + gradient
            if step >= last:
                late = late + theta
            velocity = rule.MOMENTUM * velocity + gradient
            unit = bound.scale if inference_rule.family(problem) == "quantile" else 1.0
            theta = theta - settings["step_size"] * unit * velocity
        yield Close("descent")
        # Sums of the descent are not in the record; errors and estimate follow from their means, which are.
        released["window mean"] = yield Publish("window mean", partial(np.asarray, mean / (steps - window)))
        released["window gradient"] = yield Publish("window gradient", partial(np.asarray, total / (steps - window)))
        if self.whitened:  # nearer to the root than the whole window's mean, which matters where log-odds are steep
            released["last mean"] = yield Publish("last mean", partial(np.asarray, late / (steps - last)))
        return bound

    def _count(self, plan: Plan, problem: Problem, released: dict[str, object]) -> Asking[None]:
        """Size and sum of the counts, as in `scaled-poisson`."""
        budget, shape, target = budget_of(plan), plan.shape, plan.target
        released["count scale"] = yield Sum("count scale", LogHistogram(poisson_settings.Counts(), problem.data.y.high))
        limit = poisson_settings.count_limit(problem, shape, target, budget["count scale"], released)
        released["count sum"] = yield Sum("count sum", poisson_settings.CountSum(limit, self.heaviest))
        if "exposure sum" in budget:
            released["exposure sum"] = yield Sum("exposure sum", poisson_settings.ExposureSum(self.heaviest))

    def _residuals(self, problem: Problem, features: Features, theta: Vector, counts: Settings) -> LogHistogram:
        if not counts:
            return LogHistogram(Residuals(features, theta), problem.data.y.width)
        pearson = inference_rule.count_score(features, theta, 1.0, counts, self.max_weight)
        return LogHistogram(pearson, poisson_settings.residual_top(problem, counts["mean_rate"], 1.0))

    def _pull(self, problem: Problem, theta: Vector, scaled: Settings) -> Vector | float:
        """Gradient of the ridge in the coordinates of θ."""
        if problem.regularizer.name == "none":
            return 0.0
        apart = theta.reshape(several_classes.combinations(problem), -1) if several_classes.several(problem) else theta
        w = whitening.coefficients(apart, scaled, problem.data.intercept)
        slope = np.asarray(problem.regularizer.gradient(w.reshape(-1))).reshape(w.shape)
        return whitening.pulled_back(slope, scaled, problem.data.intercept).reshape(theta.shape)
