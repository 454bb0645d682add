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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dperm.mechanisms.registry import mechanism_of_plan
from dperm.mechanisms.scaled import poisson_settings as poisson_rule
from dperm.mechanisms.scaled import scaling
from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled.additive import Additive, Curved
from dperm.mechanisms.scaled.gradient import scaling_releases
from dperm.mechanisms.scaled.poisson import ScaledPoisson
from dperm.mechanisms.scaled.smoothness import Column, Flow, choose_smoothness, in_words, linear_variances
from dperm.privacy import Gaussian, gaussian_mu
from dperm.problem import Problem
from dperm.release.asks import Program
from dperm.release.plan import Plan, Released, Settings, Shape, Stage, Target, Vector, register
from dperm.terms.additive import PLACES

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
        if not self.counted:
            raise ValueError(f"Expected labels='counts' for shapes, found {self.labels!r}. Leave labels= out.")
        if "private" in self.kinds:
            raise ValueError("Expected declared bounds for shapes of counts, found private ones. Declare low and high.")

    def missing(self, problem: Problem, target: Target) -> list[str]:
        needs = super().missing(problem, target)
        if problem.domain.spec()["name"] != "whole-space":
            needs.append("no radius (leave it out: how smooth the curves are does its work)")
        return needs

    # -- the plan ----------------------------------------------------------------------------------------------------

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        """That of `ScaledPoisson`, with a part of the descent's budget for the marginals."""
        self.check_columns(shape)
        line = super().plan(problem, shape, target)
        share = math.sqrt(rule.SHARES["marginals"]) * (1 - 1e-12) if self.curved else 0.0
        paid = share * gaussian_mu(target.epsilon, target.delta)
        left = math.sqrt(rule.budget_of(line)["descent"] ** 2 - paid**2) * (1 - 1e-12)
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
        public = self.public(plan, problem)
        released = yield from self.marginals(public)
        released |= yield from scaling_releases(public, self.filled)
        w, theta, features = yield from self._fitted(public, released, self.columns(plan, released))
        return np.concatenate([w, self.shapes(theta, features, public.shape.d)])

    def _course(
        self, public: rule.Public, scaled: scaling.Scaled, settings: Settings, released: Released, columns: Sequence[Column]
    ) -> tuple[Settings, Vector]:
        choice = choose_smoothness(self._flow(public, scaled, settings, released), columns)
        return {**settings, **choice.settings, **in_words(choice)}, choice.tables(columns)

    def _flow(self, public: rule.Public, scaled: Settings, line: Settings, released: Released) -> Flow:
        """In units of a mean row, where e^η curves by 1; noise is compared with the residual scale, as in any regression."""
        mu = line["step_mu"] * math.sqrt(line["steps"])  # of all gradients together, beside the balance
        within = replace(public, budget={**public.budget, "descent": mu})

        def settings(wide: Shape, size: float, clip: float | None, reach: float | None) -> Settings:
            own = clip is None
            options = {"clip_factor": self.clip_factor if own else clip, "horizon": self.horizon if own else reach}
            least, rate, resized = line["smallest_clip"], line["mean_count"], {**scaled, "size": size}
            found = poisson_rule.settings(replace(within, shape=wide), resized, rate, least, **options)
            return {name: value for name, value in found.items() if name not in ("mean_rate", "highest", "lowest")}

        linear, own = linear_variances(public.shape, released, scaled), rule.effective_mu(mu, public.target)
        least = max(0.4, line["smallest_clip"], LEAST_CLIP * line["clip_factor"])
        noise = {"least_clip": least, "most": MOST_NOISE, "hopeless": HOPELESS}
        return Flow(settings, public.shape, scaled["size"], linear, own, 1.0, 1.0, refined=self.clip_factor is None, **noise)


def additive_of(plan: Plan) -> Additive | AdditivePoisson:
    """The mechanism of a plan whose release has shapes."""
    if plan.mechanism == Additive.name:
        return mechanism_of_plan(plan, Additive)
    return mechanism_of_plan(plan, AdditivePoisson)
