"""Sparse regression by private selection: choose candidate columns, regress on them privately, keep the largest.

    s_j = | Σ_i x_ij·(y_i - ȳ) |  (both factors cut to [-1, 1]);   candidates = the m largest of s_j + Gumbel/k
    θ = scaled gradient regression on the candidates;   keep the q largest |θ_j| in standard units, 0 elsewhere

**Theorem.** The m largest of s + Gumbel/k, in order, are m adaptive draws of the exponential mechanism without replacement. Each
has a privacy loss within an interval of length ε₀ = k·2κ and is therefore (ε₀²/8)-zCDP; with m draws and Gaussian releases of
μ₁, …, μ_r the whole is (m·ε₀²/8 + Σμ²/2)-zCDP. What is kept in the end is post-processing. Where there are no more columns than
candidates nothing is selected and the whole budget goes to the regression. Proof: `docs/theorems/selection.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dperm.mechanisms.conditions import check_options, unmet
from dperm.mechanisms.scaled import coordinates
from dperm.mechanisms.scaled import gaps as gaps_rule
from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled.gradient import ScaledGradient, scaling_needs
from dperm.mechanisms.scaled.method import ScaledMethod
from dperm.privacy import Concentrated, Gaussian, calibrate, gaussian_epsilon, kappa
from dperm.problem import DataBounds, NoRegularizer, Problem, WholeSpace
from dperm.release.asks import Asking, Decide, Program, Publish, Secret, See, Solve, Sum
from dperm.release.noise import RELEASE_SLACK
from dperm.release.plan import Plan, Settings, Shape, Stage, Target, Vector, options_of, register
from dperm.terms.selection import CentredLabelSum, Columns, CorrelationTerm, label_spread, reaches
from dperm.terms.statistics import LabelSum, LogHistogram, upper_quantile

# Shares of ρ; the rest is the regression's.
SHARES = {"label centre": 0.01, "label spread": 0.01, "label recentre": 0.01, "support": 0.47}


@register
@dataclass(frozen=True)
class Selection(ScaledMethod):
    """Candidates by one-shot Gumbel, then scaled gradient regression, then the largest coefficients.

    kinds        one of "numeric", "categorical", "boolean", "sparse", "free" per encoded column; all "free" if left out
    keep         how many coefficients are not zero in the end
    candidates   how many columns the regression sees; 3·keep if left out
    max_weight   declared bound on sample weights, or None when there are none
    gaps         columns whose missing cells take the centre that the regression releases; the score counts them at the middle
    edition      of the regression's rule; records that state none were made by the first

    **Guarantee**: ρ-zCDP with ρ fitted to (ε, δ); μ(ε, δ)-GDP where d ≤ candidates.

    >>> Selection(keep=5).size(1000)
    15
    """

    kinds: tuple[str, ...] = ()
    keep: int = 10
    candidates: int | None = None
    max_weight: float | None = None
    gaps: tuple[int, ...] = ()
    edition: int = ScaledMethod.edition

    name: ClassVar[str] = "selection"
    UNSTATED: ClassVar[dict[str, object]] = {"gaps": (), "edition": 1}  # version 0.1.0 had no such options

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self, whole=["keep", "candidates"])
        if self.candidates is not None and self.candidates < self.keep:
            raise ValueError(f"Expected candidates ≥ keep = {self.keep}, found {self.candidates}. Pass more, or leave it out.")

    def size(self, d: int) -> int:
        """How many columns the regression sees."""
        return min(d, 3 * self.keep if self.candidates is None else self.candidates)

    def missing(self, problem: Problem, target: Target) -> list[str]:
        return scaling_needs(problem, target) + unmet({
            f"a regression loss (found {problem.loss.name!r})": problem.loss.classification or problem.loss.margins > 1,
            "a smooth loss whose curvature is bounded":
                not math.isfinite(problem.loss.bounds(math.inf, problem.data.y).curvature),
            "no regularizer (`keep` takes its place; use method='gradient' for an ℓ1 penalty)":
                problem.regularizer.name != "none",
            "declared bounds, bounds=(low, high) (columns are compared before bounds could be paid for)": "private" in self.kinds,
        })

    # -- the plan ----------------------------------------------------------------------------------------------------

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        kinds, count = self.column_kinds(shape), self.size(shape.d)
        stages: list[Stage] = []
        inner = self._inner_plan(problem, shape, target, ("free",) * count)
        if count < shape.d:
            rho = _total(target)
            names = ("label centre", "label spread", "label recentre")
            stages += [Stage(name, Gaussian(math.sqrt(2 * rho * SHARES[name]))) for name in names]
            event = Concentrated(rho * SHARES["support"] / count, count)
            width = math.sqrt(8 * event.rho)  # ε₀, the range of one draw
            settings = {
                "candidates": count,
                "rate": width / (2 * kappa(target.relation) * target.rows_per_person * RELEASE_SLACK),
                "columns": rule.kinds_in_words(kinds),
                "max_weight": "none" if self.max_weight is None else self.max_weight,
            }
            stages.append(Stage("support", event, settings))
        public = {
            "keep": min(self.keep, count),
            "candidates": count,
            "columns": rule.kinds_in_words(kinds),
            "declared_kinds": len(self.kinds),
            "asked_for": [self.keep, "3·keep" if self.candidates is None else self.candidates],
            "max_weight": "none" if self.max_weight is None else self.max_weight,
            **gaps_rule.gaps_in_words(self.gaps, shape),
        }
        stages += [Stage(s.name, s.event, public if s.name == "descent" else {}) for s in inner.stages]
        return Plan(self.name, options_of(self), tuple(stages), target, shape, warnings=inner.warnings)

    def _inner_plan(self, problem: Problem, shape: Shape, target: Target, kinds: tuple[str, ...]) -> Plan:
        """The regression's plan. Its events depend on the number of candidates and not on which they are."""
        if len(kinds) < shape.d:
            mu = math.sqrt(2 * _total(target) * (1 - sum(SHARES.values()))) * (1 - 1e-9)
            target = replace(target, epsilon=gaussian_epsilon(target.delta, mu))
        return self._inner(kinds).plan(self._inner_problem(problem, kinds), Shape(shape.n, len(kinds)), target)

    def _inner(self, kinds: tuple[str, ...]) -> ScaledGradient:
        """Where any column may have missing cells the regression counts those of every candidate, whichever they are."""
        gaps = tuple(range(len(kinds))) if self.gaps else ()
        return ScaledGradient(kinds, max_weight=self.max_weight, gaps=gaps, edition=self.edition, levelled=False)

    def _inner_problem(self, problem: Problem, kinds: tuple[str, ...]) -> Problem:
        """The same loss on rows of the candidates; their norm bound only sets scales, every term clips by itself."""
        norm = min(problem.data.x_norm, float(np.linalg.norm(np.where([k == "free" for k in kinds], math.inf, reaches(kinds)))))
        data = DataBounds(norm, problem.data.y, problem.data.intercept)
        return Problem(problem.loss, NoRegularizer(), WholeSpace(), data)

    # -- what follows from the releases ------------------------------------------------------------------------------

    def _support(self, plan: Plan, released: Mapping[str, Any]) -> tuple[int, ...]:
        """Candidate columns in ascending order; all of them where none had to be chosen."""
        if "support" not in released:
            return tuple(range(plan.shape.d))
        support = tuple(released["support"])
        count = self.size(plan.shape.d)
        sound = all(isinstance(j, int) and 0 <= j < plan.shape.d for j in support)
        if not sound or len(support) != count or list(support) != sorted(set(support)):
            raise ValueError(f"the candidates are not {count} different columns in order")
        return support

    def _kept(
        self, plan: Plan, problem: Problem, released: Mapping[str, ArrayLike], scaled: Settings, support: tuple[int, ...]
    ) -> Vector:
        """Coefficients of encoded columns from the estimate in standard units: the largest are kept."""
        theta = np.array(released["estimate"], dtype=np.float64)
        size = len(support)
        keep = np.argsort(-np.abs(theta[:size]), kind="stable")[: min(self.keep, size)]
        kept = np.zeros_like(theta)
        kept[keep], kept[size:] = theta[keep], theta[size:]
        narrow = coordinates.original_coefficients(kept, scaled, problem.data.intercept)
        w = np.zeros(plan.shape.parameters(problem))
        w[list(support)] = narrow[:size]
        w[plan.shape.d :] = narrow[size:]
        return np.asarray(problem.domain.project(w))

    # -- the run -----------------------------------------------------------------------------------------------------

    def program(self, plan: Plan, problem: Problem) -> Program:
        own: dict[str, Any] = {}
        decided: dict[str, object] = {}
        if self.size(plan.shape.d) < plan.shape.d:
            own, decided = yield from self._selected(plan, problem)
        support = self._support(plan, own)
        kinds = tuple(self.column_kinds(plan.shape)[j] for j in support)
        inner, inner_problem = self._inner(kinds), self._inner_problem(problem, kinds)
        yield See(Columns(support))
        inner_plan = self._inner_plan(problem, plan.shape, plan.target, kinds)
        w, settings, released = yield from inner.fitted(inner_plan, inner_problem)
        own["estimate"] = yield Publish("estimate", partial(_standard, w, settings, problem.data.intercept))
        kept = self._kept(plan, problem, own, settings, support)
        if "fill" in settings:  # a column that is no candidate has coefficient 0, whatever its missing cells are
            shift = np.zeros(plan.shape.d)
            shift[list(support)] = settings["fill"]
            decided["fill"] = gaps_rule.filling(plan.shape, self.gaps, shift)
        regression = {**settings, "released": rule.digest(released)}
        yield Decide({**decided, "regression": regression, "released": rule.digest(own), "coefficients": kept})
        return kept

    def _selected(self, plan: Plan, problem: Problem) -> Asking[tuple[dict[str, Any], dict[str, object]]]:
        """(what was released, what labels were centred and cut at)."""
        y, n = problem.data.y, plan.shape.n
        released: dict[str, Any] = {"label centre": (yield Sum("label centre", LabelSum(y.low, y.high)))}
        middle = float(np.ravel(released["label centre"])[0]) / n
        released["label spread"] = yield Sum("label spread", LogHistogram(partial(label_spread, middle), y.width))
        # Nine labels in ten are nearer to the middle; the others are cut, which costs little signal and saves sensitivity.
        spread = upper_quantile(np.asarray(released["label spread"]), y.width, n, 0.9)
        released["label recentre"] = yield Sum("label recentre", CentredLabelSum(middle, spread))
        # Mean of the cut labels, which a skew leaves off zero; without it a column with a large mean would look relevant.
        rest = min(max(float(np.ravel(released["label recentre"])[0]) / n, -spread), spread)
        term = CorrelationTerm(reaches(self.column_kinds(plan.shape)), middle, spread, rest, self.heaviest)
        stage = plan.stage("support")

        def choose(secret: Secret) -> list[int]:
            noisy = stage.settings["rate"] * np.abs(secret.sum(term)) + secret.noise.generator().gumbel(size=plan.shape.d)
            return sorted(int(j) for j in np.argsort(-noisy)[: stage.settings["candidates"]])

        released["support"] = yield Solve(("support",), choose, kept="support")
        return released, {"middle": middle, "spread": spread, "rest": rest}


@lru_cache(maxsize=64)
def _total(target: Target) -> float:
    """ρ(ε, δ): the largest ρ whose zCDP guarantee stays within (ε, δ)."""
    found = calibrate(lambda rho: [Concentrated(rho)], epsilon=target.epsilon, delta=target.delta, relation=target.relation)
    return found * (1 - 1e-9)


def _standard(w: Vector, scaled: Settings, intercept: float) -> list[float]:
    """θ of z = (scale∘(x - shift), 1) from coefficients of encoded rows: the inverse of `original_coefficients`."""
    scale, shift = np.asarray(scaled["scale"]), np.asarray(scaled["shift"])
    d = len(scale)
    theta = list(w[:d] / scale)
    if intercept:
        theta.append(w[d] * intercept + float(w[:d] @ shift))
    return [float(v) for v in theta]
