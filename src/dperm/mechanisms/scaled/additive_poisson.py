"""Additive models of counts: a shape per numeric column on the logarithm of the rate, and a balanced total.

    log E[count] = log(exposure) + intercept + Σ_j slope_j·x_j + Σ_(numeric j) f_j(cell of x_j)

The stages are those of `scaled-poisson`, and before them the histograms of the columns that get a shape. The first third of the
steps moves linear coordinates only, as in every additive regression; then the residual scale is measured again and all
coordinates move. The balance comes last and moves the intercept alone, so shapes stay centred.

**Theorem.** Marginals are √p-sensitive (√(2p) replaced). Every other term clips or bounds what one row adds in whatever features
it is shown, so its sensitivity is that of `scaled-poisson`. Basis, smoothness, clip and steps are functions of public numbers and
earlier releases; shares are fixed in the plan and add up to 1: by adaptive composition the whole is μ(ε, δ)-GDP. Proof:
`docs/theorems/additive.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dperm.mechanisms.registry import mechanism_of_plan
from dperm.mechanisms.scaled import coordinates, poisson_counts
from dperm.mechanisms.scaled import poisson_settings as poisson_rule
from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled.additive import Additive, Curved
from dperm.mechanisms.scaled.gradient import budget_of, features_of, scaling_releases
from dperm.mechanisms.scaled.poisson import ScaledPoisson
from dperm.mechanisms.scaled.smoothness import Choice, Flow, choose_smoothness, in_words, linear_variances, tables_of
from dperm.privacy import Gaussian, gaussian_mu
from dperm.problem import Problem
from dperm.release.asks import Asking, Close, Decide, Open, Program, See, Sum
from dperm.release.plan import Plan, Settings, Shape, Stage, Target, Vector, register
from dperm.terms.additive import PLACES, CellFilling, CurveFeatures, Curving, Marginals
from dperm.terms.affine import Features
from dperm.terms.statistics import LogHistogram

# Counts are skewed: the small clips that curves ask for cost more than in other regressions, and rows that are clipped do not
# hold curves back, so N is too small by a factor of about three. Chosen on two shared and two made tables (docs/theorems).
LEAST_CLIP = 0.5  # of the line's
MOST_NOISE = 0.0042  # extra noise in a prediction of η, in units of the squared residual scale
HOPELESS = 0.1  # noise ratio of the line above which no curve is tried


@register
@dataclass(frozen=True)
class AdditivePoisson(Curved, ScaledPoisson):
    """Clipped noisy descent for counts on linear columns and on the released shapes of the columns `curved`; nothing to tune.

    curved     numeric columns, encoded in [-1/2, 1/2], that get a shape; all columns keep a linear part
    The other options are those of `ScaledPoisson`; labels are counts.

    **Guarantee**: μ(ε, δ)-GDP in stages, for the target's relation.

    >>> AdditivePoisson().name
    'additive-poisson'
    """

    labels: str = "counts"
    curved: tuple[int, ...] = ()

    name: ClassVar[str] = "additive-poisson"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_curved()
        if not self.counted:
            raise ValueError(f"Expected labels='counts' for shapes, found {self.labels!r}. Leave labels= out.")
        if "private" in self.kinds:
            raise ValueError("Expected declared bounds for shapes of counts, found private ones. Declare low and high.")

    def missing(self, problem: Problem, target: Target) -> list[str]:
        needs = super().missing(problem, target)
        if problem.domain.spec()["name"] != "whole-space":
            needs.append("no radius (smoothness and flow time regularize)")
        return needs

    # -- the plan ----------------------------------------------------------------------------------------------------

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        """That of `ScaledPoisson`, with a part of the descent's budget for the marginals."""
        self.check_columns(shape)
        line = super().plan(problem, shape, target)
        share = math.sqrt(rule.SHARES["marginals"]) * (1 - 1e-12) if self.curved else 0.0
        paid = share * gaussian_mu(target.epsilon, target.delta)
        left = math.sqrt(budget_of(line)["descent"] ** 2 - paid**2) * (1 - 1e-12)
        shapes = {"shapes": f"{len(self.curved)} of {shape.d} columns"}
        stages = [
            Stage(stage.name, Gaussian(left), {**stage.settings, **shapes}) if stage.name == "descent" else stage
            for stage in line.stages
        ]
        if self.curved:
            stages.insert(0, Stage("marginals", Gaussian(paid), {}))
        return replace(line, stages=tuple(stages), parameters=shape.d + 1 + PLACES * len(self.curved))

    # -- the fit -----------------------------------------------------------------------------------------------------

    def program(self, plan: Plan, problem: Problem) -> Program:
        shape, budget = plan.shape, budget_of(plan)
        kinds = self.column_kinds(shape)
        released: dict[str, Any] = {}
        if "marginals" in budget:
            released["marginals"] = yield Sum("marginals", Marginals(self.curved, self.gaps))

        def seen(values: Vector) -> CellFilling:
            return CellFilling(values, self.curved, self.gaps)

        if "present" not in budget:
            yield See(seen(np.zeros(shape.d)))
        released |= yield from scaling_releases(problem, plan, kinds, self.gaps, seen)
        released["count scale"] = yield Sum("count scale", LogHistogram(poisson_rule.Counts(), problem.data.y.high))
        limit = self._limit(plan, problem, released)
        released["count sum"] = yield Sum("count sum", poisson_counts.BoundedCounts(limit))
        if "exposure sum" in budget:
            released["exposure sum"] = yield Sum("exposure sum", poisson_rule.ExposureSum(self.heaviest))
        scaled, line = self._settings(plan, problem, released)
        choice = choose_smoothness(self._flow(plan, problem, scaled, line, released), self.columns(plan, released))
        settings = {**line, **choice.settings, **in_words(choice)}
        theta, features, clips = yield from self._fitted(plan, problem, scaled, settings, choice, released)
        caps, level = self._caps(plan, settings, released), self._log_balance(plan, settings, released)
        own = {"mean_radius": rule.mean_radius(problem, shape, released), "count_limit": limit, "clip": clips}
        own |= {"balance_caps": [caps.high, caps.low], "log_balance": level}
        yield Decide({**scaled, **settings, **own, "released": rule.digest(released)})
        w = coordinates.original_coefficients(theta[: shape.d + 1], scaled, problem.data.intercept)
        # η is relative to the mean rate: its logarithm belongs to the intercept.
        w[-1] += (math.log(settings["mean_rate"]) + level) / problem.data.intercept
        values = np.zeros(PLACES * len(self.curved))
        if isinstance(features, CurveFeatures):
            values = features.values(theta[shape.d + 1 :])
        return np.concatenate([w, values])

    def _flow(self, plan: Plan, problem: Problem, scaled: Settings, line: Settings, released: Mapping[str, Any]) -> Flow:
        """In units of a mean row, where e^η curves by 1; noise is compared with the residual scale, as in any regression."""
        shape, target = plan.shape, plan.target
        mu = line["step_mu"] * math.sqrt(line["steps"])  # of all gradients together, beside the balance
        budget = budget_of(plan) | {"descent": mu}

        def settings(wide: Shape, size: float, clip: float | None, reach: float | None) -> Settings:
            own = clip is None
            options = {"clip_factor": self.clip_factor if own else clip, "horizon": self.horizon if own else reach}
            least, rate = line["smallest_clip"], line["mean_count"]
            public = rule.Public(problem, wide, target, self.kinds, budget)
            found = poisson_rule.settings(public, {**scaled, "size": size}, rate, least, **options)
            return {name: value for name, value in found.items() if name not in ("mean_rate", "highest", "lowest")}

        variances = linear_variances(shape, released, scaled)
        own = rule.effective_mu(mu, target)
        return Flow(
            settings,
            shape,
            scaled["size"],
            variances,
            own,
            1.0,
            1.0,
            refined=self.clip_factor is None,
            least_clip=max(0.4, line["smallest_clip"], LEAST_CLIP * line["clip_factor"]),
            most=MOST_NOISE,
            hopeless=HOPELESS,
        )

    def _fitted(
        self,
        plan: Plan,
        problem: Problem,
        scaled: Settings,
        settings: Settings,
        choice: Choice,
        released: dict[str, Any],
    ) -> Asking[tuple[Vector, Features, list[float]]]:
        """Heavy ball from η = 0, the line first; the mean of the second half of the iterates, whose total is then weighed."""
        shape, line, top, steps = plan.shape, features_of(problem, scaled), self._top(problem, settings), settings["steps"]
        curves = choice.rung is not None
        tables = tables_of(self.columns(plan, released), choice.kernel) if curves else np.zeros((0, PLACES, 0))
        features = CurveFeatures(line.intercept, line.shift, line.scale, tables) if curves else line
        theta = np.zeros(line.width(shape.d))
        velocity, kept, seen = np.zeros_like(theta), np.zeros(features.width(shape.d)), line

        def clip_now(name: str, size: float) -> Asking[float]:
            released[name] = yield Sum(name, LogHistogram(self._residuals(line, theta, settings), top))
            return self._clip(plan, problem, {**scaled, "size": size}, settings, released, name)

        clip = first = yield from clip_now("residuals", scaled["size"])
        yield Open("descent", sums=steps + 1)
        for step in range(steps):
            if step == settings["second_clip_at"]:
                clip = yield from clip_now("residuals again", settings["size_of_all"])
                if curves:
                    yield See(Curving())
                theta, velocity = (np.concatenate([part, np.zeros(len(kept) - len(part))]) for part in (theta, velocity))
                seen = features
            term = poisson_rule.CountGradient(self._residuals(seen, theta, settings), clip)
            gradient = yield Sum("descent", term, mu=settings["step_mu"], shape=theta.shape)
            velocity = rule.MOMENTUM * velocity + gradient / shape.n
            theta = theta - settings["step_size"] * velocity
            if step >= steps // 2:
                kept = kept + theta
        theta = np.asarray(kept / (steps - steps // 2))
        residuals = poisson_counts.ExposedResiduals(features, theta, **poisson_counts.units(settings))
        yield from self._weighed(plan, residuals, top, settings, released)
        yield Close("descent")
        return theta, features, [first, clip]


def additive_of(plan: Plan) -> Additive | AdditivePoisson:
    """The mechanism of a plan whose release has shapes."""
    if plan.mechanism == Additive.name:
        return mechanism_of_plan(plan, Additive)
    return mechanism_of_plan(plan, AdditivePoisson)
