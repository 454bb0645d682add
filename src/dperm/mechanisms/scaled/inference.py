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
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dperm.mechanisms.scaled import coordinates, inference_outlook, poisson_settings, scaling, several_classes, stages, whitening
from dperm.mechanisms.scaled import inference_quantile as quantile_rule
from dperm.mechanisms.scaled import inference_settings as inference_rule
from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled.errors import Errors
from dperm.mechanisms.scaled.gradient import bounds_settings, known_bounds, scaling_releases, start
from dperm.mechanisms.scaled.inference_settings import Limits, needs_of
from dperm.mechanisms.scaled.method import ScaledMethod, in_stages
from dperm.mechanisms.scaled.one_step import OneStep
from dperm.mechanisms.scaled.shrinkage import drawn_in
from dperm.problem import Problem, Ridge
from dperm.problem.plain import plain_wholes
from dperm.release.asks import Asking, Close, Decide, Open, Program, Publish, See, Sum
from dperm.release.noise import gaussian_scale
from dperm.release.plan import Plan, Settings, Shape, Target, UnmetNeeds, Vector, register
from dperm.terms.affine import Features
from dperm.terms.inference import PersonScores, Score
from dperm.terms.mixing import Mixing
from dperm.terms.moments import CentredMoments
from dperm.terms.softmax import ClassCounts, SoftmaxScore
from dperm.terms.statistics import LogHistogram, Residuals, SquareSum

RELEASES = {
    **stages.RELEASES,
    "count scale": "histogram of the counts",
    "count sum": "sum of the counts, each cut at a released limit",
    "exposure sum": "sum of the exposures",
    several_classes.CLASS_COUNTS: "number of rows of each class",
    "residuals again": "histogram of the residuals where the window begins",
    "residuals near": "histogram of the residuals at the window's mean",
    "descent": "sums of weighted scores, as many as the released scale asks for",
    "curvature": "curvature matrix at the window's mean",
    "scores": "matrix of the squared scores at the window's mean",
    "scale numbers": "sum of squared scores and sum of curvatures",
}


class Known(NamedTuple):
    """What the releases before the descent say: centre and scale, features of the rows as they are seen from then on, the share
    of positives (of several classes what they have for it), settings of counts, and the shares of several classes."""

    scaled: Settings
    features: Features
    rate: float | None
    counts: Settings
    shares: Vector | None


@register
@dataclass(frozen=True)
class ScaledInference(ScaledMethod):
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
    sharp        the score of a quantile is its own, and a histogram where the window ends says which rows tell its curvature;
                 False, as in versions up to 0.7.0, smooths it over 0.7 of the residuals' scale, which moves every quantile but
                 the median
    tailed       counts are clipped beyond the tail of their residuals, as far as noise allows; False, as in versions up to
                 0.7.0, clips at six residual scales at most

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
    sharp: bool = True
    tailed: bool = True

    name: ClassVar[str] = "scaled-inference"
    # Earlier versions had no such options.
    UNSTATED: ClassVar[dict[str, Any]] = dict.fromkeys(
        ("whitened", "importance", "summed", "shrunk", "wary", "sharp", "tailed"), False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "groups", plain_wholes(self.groups, "groups"))

    def missing(self, problem: Problem, target: Target) -> list[str]:
        weighted = self.max_weight is not None
        return needs_of(problem, target, weighted=weighted, importance=self.importance, summed=self.summed)

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        kinds, weighted = self.column_kinds(shape), self.max_weight is not None
        if len(self.groups) not in (0, shape.d):
            raise ValueError(f"Expected one group number per column ({shape.d}), found {len(self.groups)}. Correct groups=.")
        most, found = inference_rule.MOST_COLUMNS, several_classes.free_parameters(problem, shape)
        if found > most:
            each = " (of each class against another)" if several_classes.several(problem) else ""
            needs = f"at most {most} coefficients{each}, because two matrices of that size are released, found {found}"
            raise UnmetNeeds(self.name, [needs])
        budget = inference_rule.shares(problem, shape, target, kinds, weighted=weighted, gaps=self.gaps, sharp=self.sharp)
        whole = sum(mu * mu for mu in budget.values())
        public: dict[str, dict[str, object]] = {
            name: {"releases": RELEASES[name], "share": mu * mu / whole} for name, mu in budget.items()
        }
        if self.whitened:
            public["squares"]["releases"] = "sums of squares and products of the centred columns"
        groups = {"groups": len({group for group in self.groups if group >= 0})}
        public["descent"] |= self.stated(shape, {}, first=groups, last={"early_share": inference_rule.EARLY_SHARE})
        if problem.loss.name == "poisson":
            public["descent"]["declared_range"] = [problem.loss.low, problem.loss.high]  # type: ignore[attr-defined]
        plain = not weighted and "private" not in kinds
        notes = inference_outlook.rival_note(problem, shape, target) if plain else ()
        notes = (inference_outlook.sentence(problem, shape, target), *notes)
        return in_stages(self, problem, shape, target, budget, public, notes=notes)

    # -- what follows from released values ---------------------------------------------------------------------------

    def _known(self, public: rule.Public, released: Mapping[str, Any]) -> Known:
        """What the scaling releases say."""
        problem, shape, target, heaviest = public.problem, public.shape, public.target, self.heaviest
        moments = np.asarray(released["squares"], dtype=np.float64)  # squares are the first of them
        scaled = scaling.centred_and_scaled(public, {**released, "squares": moments[: shape.d]})
        if self.whitened:
            of_moments = CentredMoments(Features(), scaled.centred_radius).sensitivity(target.relation)
            noise = gaussian_scale(of_moments * target.rows_per_person, public.budget["squares"])
            scaled = whitening.whitened(scaled, moments, noise, shape.n, self._levels(problem), problem.data.intercept)
        counts: Settings = {}
        if inference_rule.family(problem) == "counts":
            mean, limit = poisson_settings.mean_rate(public, released, heaviest), poisson_settings.count_limit(public, released)
            highest = math.log(problem.data.y.high / mean)
            counts = {"mean_rate": mean, "lowest": poisson_settings.LOWEST, "highest": highest, "count_limit": limit}
            if self.importance:
                counts["weight_unit"] = poisson_settings.total_weight(public, released, heaviest) / shape.n
        # Turned rows are centred and scaled already.
        features = Features(1.0 if problem.data.intercept else 0.0) if self.whitened else coordinates.features_of(problem, scaled)
        if several_classes.several(problem):
            shares = several_classes.class_shares(public, released)
            return Known(scaled, features, several_classes.unevenness(shares), counts, shares)
        return Known(scaled, features, rule.positive_rate(public, released), counts, None)

    def _levels(self, problem: Problem) -> tuple[int, ...]:
        """The one-hot group of each column, where an intercept makes their levels add up to what is known."""
        return self.groups if problem.data.intercept else ()

    def _limits(self, public: rule.Public, known: Known, released: Mapping[str, Any], name: str) -> Limits:
        counts, scale, near = known.counts, 1.0, None
        if name in released:
            scale = inference_rule.residual_scale(public, released, name, counts.get("mean_rate"))
        if "residuals near" in public.budget:  # until it is released another one stands for it: only the curvature needs it
            near = quantile_rule.width_of(public, released.get("residuals near", released[name]), scale)
        rate = known.rate if self.max_weight is None else None
        bound = inference_rule.limits(public, known.scaled["size"], rate, scale, self.clip_factor, near)
        if counts and poisson_settings.rare(public.shape, released):
            # A smaller clip would cut every count above zero, and no zero.
            bound = bound._replace(clip=max(bound.clip, counts["count_limit"] / counts["mean_rate"]))
        if counts and self.tailed and name == "residuals again":
            bound = inference_rule.tailed(public, released, name, bound, counts["mean_rate"])
        return bound

    def _score(self, problem: Problem, known: Known, theta: Vector, bound: Limits) -> Score | SoftmaxScore:
        return inference_rule.score_of(problem, known.features, theta, bound, known.rate, known.counts, self.max_weight)

    def _decided(self, public: rule.Public, known: Known, released: Mapping[str, Any]) -> tuple[Vector, Settings]:
        """(coefficients, what the record states): all of it follows from released values."""
        problem, shape, scaled = public.problem, public.shape, known.scaled
        first, last = (self._limits(public, known, released, name) for name in ("residuals", "residuals again"))
        step = self._step(public, known, released)
        sampling, privacy = step.errors.variances(self._lift(problem, shape, scaled))
        theta = drawn_in(step, several_classes.intercepts(problem, shape)) if self.shrunk else step.errors.estimate
        w = self._coefficients(theta, known, problem)
        several = several_classes.several(problem)
        return w, {
            **{name: value for name, value in scaled.items() if name != "turn"},
            "mean_radius": scaling.mean_radius(public, released),
            **({"class_shares": known.shares} if several else {"positive_rate": known.rate}),
            **known.counts,
            **inference_rule.descent_settings(public, scaled, first),
            **bounds_settings(public, released),
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

    def _coefficients(self, theta: Vector, known: Known, problem: Problem) -> Vector:
        if several_classes.several(problem):
            combined = theta.reshape(several_classes.combinations(problem), -1)
            w = whitening.coefficients(several_classes.basis_of(problem) @ combined, known.scaled, problem.data.intercept)
            return np.asarray(w.reshape(-1))
        w = whitening.coefficients(theta, known.scaled, problem.data.intercept)
        if known.counts:  # η is relative to the mean rate: its logarithm belongs to the intercept
            w[-1] += math.log(known.counts["mean_rate"]) / problem.data.intercept
        return w

    def _unit(self, problem: Problem) -> Problem:
        """The problem whose weights are at most 1: dividing all of them by the largest divides the ridge by it too."""
        ridge = problem.regularizer
        if self.max_weight is None or not isinstance(ridge, Ridge):
            return problem
        return replace(problem, regularizer=Ridge(ridge.strength / self.max_weight))

    def _step(self, public: rule.Public, known: Known, released: Mapping[str, Any]) -> OneStep:
        """The estimate and its covariance in the coordinates of θ."""
        problem, scaled = public.problem, known.scaled
        bound, at = self._limits(public, known, released, "residuals again"), self._place(released)
        score = self._score(problem, known, at, bound)
        flat = whitening.flat_directions(self._levels(problem), scaled)
        flat = several_classes.by_combination(problem, flat) if problem.data.intercept else np.zeros((len(at), 0))
        return inference_rule.inference(public, scaled, score, bound.radius, released, flat, self.summed)

    def in_columns(self, plan: Plan, problem: Problem, released: Mapping[str, Any]) -> tuple[Errors, OneStep, Vector]:
        """(the estimate with its errors in encoded columns, the step behind it, the map from its coordinates to these)."""
        problem = self._unit(problem)
        public = self.public(plan, problem)
        known = self._known(public, released)
        step, lift = self._step(public, known, released), self._lift(problem, plan.shape, known.scaled)
        # A count regression has the logarithm of the mean rate in its intercept: a constant, since it is released.
        estimate = self._coefficients(step.errors.estimate, known, problem)
        return step.errors.mapped(lift, estimate - lift @ step.errors.estimate), step, lift

    def _place(self, released: Mapping[str, Any]) -> Vector:
        """The released mean of iterates that the matrices are taken at."""
        return np.asarray(released["last mean" if self.whitened else "window mean"], dtype=np.float64)

    # -- the run -----------------------------------------------------------------------------------------------------

    def program(self, plan: Plan, problem: Problem) -> Program:
        problem = self._unit(problem)
        public = self.public(plan, problem)
        released = yield from known_bounds(public)
        released |= yield from scaling_releases(public, squares=CentredMoments if self.whitened else SquareSum)
        if "count scale" in public.budget:
            sums = partial(poisson_settings.CountSum, heaviest=self.heaviest)
            yield from poisson_settings.count_releases(public, sums, self.heaviest, released)
        if several_classes.CLASS_COUNTS in public.budget:
            counted = ClassCounts(problem.loss.margins)
            released[several_classes.CLASS_COUNTS] = yield Sum(several_classes.CLASS_COUNTS, counted)
        known = self._known(public, released)
        scaled = known.scaled
        if self.whitened:
            yield See(Mixing(np.asarray(scaled["shift"]), np.asarray(scaled["scale"]), scaled["turn"]))
        bound = yield from self._descend(public, known, released)
        at = self._score(problem, known, self._place(released), bound)
        made = several_classes.terms_of(at, bound.radius)
        released["curvature"] = yield Sum("curvature", made.curvature)
        scores = PersonScores(at, bound.radius, plan.target.rows_per_person) if self.summed else made.scores
        released["scores"] = yield Sum("scores", scores)
        if "scale numbers" in public.budget:
            released["scale numbers"] = yield Sum("scale numbers", made.numbers)
        w, decided = self._decided(public, known, released)
        yield Decide(decided)
        return w

    def _descend(self, public: rule.Public, known: Known, released: dict[str, Any]) -> Asking[Limits]:
        """Heavy ball; publishes the means over the window of iterates and gradients, and returns the limits that held there."""
        problem, shape, scaled = public.problem, public.shape, known.scaled
        if several_classes.several(problem):
            theta = several_classes.start_at(problem, shape, known.shares)
        else:
            theta = start(public, released, known.rate)

        def limits_at(name: str) -> Asking[Limits]:
            if name in public.budget:
                released[name] = yield Sum(name, self._residuals(problem, known, theta))
            return self._limits(public, known, released, name)

        bound = yield from limits_at("residuals")
        settings = inference_rule.descent_settings(public, scaled, bound)
        steps, window = settings["steps"], settings["window_from"]
        velocity, mean, total, late = (np.zeros_like(theta) for _ in range(4))
        last = steps - (steps - window) // 2
        yield Open("descent", sums=steps)
        for step in range(steps):
            if step == window:
                bound = yield from limits_at("residuals again")
            mu = settings["early_mu"] if step < window else settings["window_mu"]
            pulled = several_classes.terms_of(self._score(problem, known, theta, bound), bound.radius).gradient
            noisy = yield Sum("descent", pulled, mu=mu, shape=theta.shape)
            gradient = (noisy + self._pull(problem, theta, scaled)) / shape.n
            if step >= window:  # the mean of the points at which the gradients were taken
                mean, total = mean + theta, total + gradient
            if step >= last:
                late = late + theta
            velocity = rule.MOMENTUM * velocity + gradient
            unit = bound.scale if inference_rule.family(problem) == "quantile" else 1.0
            pace = quantile_rule.FASTER if bound.sharp and step < window else 1.0
            theta = theta - settings["step_size"] * unit * pace * velocity
        yield Close("descent")
        # Sums of the descent are not in the record; errors and estimate follow from their means, which are.
        means = {"window mean": mean / (steps - window), "window gradient": total / (steps - window)}
        if self.whitened:  # nearer to the root than the whole window's mean, which matters where log-odds are steep
            means["last mean"] = late / (steps - last)
        for name, value in means.items():
            released[name] = yield Publish(name, partial(np.asarray, value), shape=value.shape)
        if "residuals near" in public.budget:
            released["residuals near"] = yield Sum("residuals near", self._residuals(problem, known, self._place(released)))
            bound = self._limits(public, known, released, "residuals again")
        return bound

    def _residuals(self, problem: Problem, known: Known, theta: Vector) -> LogHistogram:
        features, counts = known.features, known.counts
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
