"""Objective perturbation after private centring and scaling, with rows weighted instead of clipped.

    z = (scale∘(x - m), 1);   ω_i = min(1, R_z/‖z_i‖), rows capped at r_m
    θ = argmin Σ ω_i φ(⟨z_i, θ⟩; y_i) + (λ/2)‖θ - θ₀‖² + ⟨b, θ⟩,    b ~ N(0, σ²I),  σ = R_z/D

with R_z = 0.7·S, r_m = 2·S, θ₀ = (0, log-odds of the private positive rate) and λ = max(C·R_z·r_m/c, R_z·S/D).

**Theorem.** The statistics are Gaussian releases of total μ_pre. Given them, a row's gradient is at most s·R_z and its curvature
at most C·s(1 - s)·R_z·r_m, so the minimiser is an `ObjectiveEvent` of shift D and curvature c, both fixed in the plan: λ grows
with what was released so that C·R_z·r_m/λ ≤ c always holds. δ(ε) = E_u[δ_G(ε - g(u); μ_pre)], one integral per direction.

Weights that depend on x alone leave logistic regression consistent, so scores stay log-odds; clipped features do not.
`docs/theorems/scaled-gradient.md` has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dperm.mechanisms.conditions import unmet
from dperm.mechanisms.objective.solve import checked_most_rows, solve_for_minimiser, unbounded_rows, weighted_rows
from dperm.mechanisms.scaled import coordinates, scaling
from dperm.mechanisms.scaled import gaps as gaps_rule
from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled.gradient import bounds_settings, known_bounds, scaling_needs, scaling_releases, start
from dperm.mechanisms.scaled.method import ScaledMethod
from dperm.mechanisms.scaled.noise_ratio import noise_warning
from dperm.privacy import Event, Gaussian, ObjectiveEvent, calibrate_shift, gaussian_mu, kappa
from dperm.problem import NoRegularizer, Problem, WholeSpace
from dperm.release.asks import Decide, Program
from dperm.release.plan import Plan, Settings, Shape, Stage, Target, options_of, register

# Gradient radius and cap of a row in units of S: logistic regression wants few rows weighted down, a hinge wants short rows.
RADII = {"logistic": (0.7, 2.0), "softplus-hinge": (1.0, 1.5)}
OUTPUT_SHARE = 1e-4  # of μ²: pays for the minimiser being computed, not exact
LADDER = (1.25, 2.0, 2.5, 4.0, 6.0, 10.0, 16.0, 32.0, 64.0, 128.0, 256.0)


@register
@dataclass(frozen=True)
class ScaledObjective(ScaledMethod):
    """Row-weighted objective perturbation after private scaling; nothing to tune.

    kinds        one of "numeric", "categorical", "boolean", "sparse", "free" per encoded column; all "free" if left out
    max_weight   declared bound on sample weights, or None when there are none
    most_rows    under add-remove, a public bound on the number of rows (rows beyond it do not count); "nominal": the nominal n
    gaps         columns whose missing cells take the released centre; their present cells are counted
    edition      of the rule: 3, 2 (the same here), or 1, which is what records without it mean
    wary, wide   as in `ScaledGradient`

    **Guarantee**: (ε, δ) for the target's relation: Gaussian statistics beside one objective event.

    >>> ScaledObjective().name
    'scaled-objective'
    """

    kinds: tuple[str, ...] = ()
    max_weight: float | None = None
    most_rows: int | str | None = None
    gaps: tuple[int, ...] = ()
    edition: int = ScaledMethod.edition
    wary: bool = True
    wide: bool = False

    name: ClassVar[str] = "scaled-objective"
    # Version 0.1.0 had none of them.
    UNSTATED: ClassVar[Mapping[str, Any]] = {"most_rows": "nominal", "gaps": (), "edition": 1, "wary": False, "wide": False}

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_most_rows(self.most_rows)

    def missing(self, problem: Problem, target: Target) -> list[str]:
        return scaling_needs(problem, target) + unmet({
            f"a loss in {tuple(RADII)}, whose curvature vanishes with its slope": problem.loss.name not in RADII,
            "an unconstrained domain (use 'scaled-gradient' with a radius)": not isinstance(problem.domain, WholeSpace),
            "regularization='auto' (its ridge follows from the budget; 'scaled-gradient' takes yours)":
                not isinstance(problem.regularizer, NoRegularizer),
        }) + unbounded_rows(self.most_rows, target.relation)

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        kinds = self.column_kinds(shape)
        mu = gaussian_mu(target.epsilon, target.delta)
        names = rule.statistics(problem, kinds, positives=True, gaps=self.gaps, edition=self.edition, squares=1 + self.wide)
        parts = rule.parts_of(names, shape, target)
        budget = {name: mu * math.sqrt(parts[name]) for name in names if name in parts}
        stages = [Stage(name, Gaussian(part), rule.described(name, part, target)) for name, part in budget.items()]
        output = Gaussian(mu * math.sqrt(OUTPUT_SHARE))
        before = math.sqrt(math.fsum(part**2 for part in budget.values()) + output.mu**2)
        factor, shift = self._factor(target, parts.get("mean", 0.0) + parts.get("rough mean", 0.0), before)
        event = ObjectiveEvent(
            "self-bounding", shift, target.epsilon / factor, kappa(target.relation) == 2, target.rows_per_person
        )
        public = {
            "columns": rule.kinds_in_words(kinds),
            "declared_kinds": len(self.kinds),
            "max_weight": "none" if self.max_weight is None else self.max_weight,
            "radii": list(RADII[problem.loss.name]),
            **gaps_rule.gaps_in_words(self.gaps, shape),
        }
        stages += [Stage("objective", event, public), Stage("output", output)]
        declared = self.most_rows if target.relation == "add-remove" and isinstance(self.most_rows, int) else None
        notes = noise_warning(problem, shape, target)
        return Plan(self.name, options_of(self), tuple(stages), target, shape, warnings=notes, most_rows=declared)

    def _factor(self, target: Target, share: float, before: float) -> tuple[float, float]:
        """(ε/c, D): how far the curvature stays below ε, and the shift that this leaves room for.

        One row nulled: 1.25, or 2 where much of the budget went into the mean: within 0.05 % of ideal composition. One row
        replaced: the first of a ladder that comes within 3 % of a huge ridge, as a larger ridge only adds bias.
        """

        def reached(factor: float) -> float:
            curvature, relation = target.epsilon / factor, target.relation
            return calibrate_shift(
                target.epsilon, target.delta, curvature=curvature, relation=relation, mu_pre=before, rows=target.rows_per_person
            )

        if kappa(target.relation) == 1 and target.rows_per_person == 1:
            factor = 2.0 if share > 0.1 else 1.25
            return factor, reached(factor)
        rungs: dict[float, float] = {}
        best = reached(1e6) if target.rows_per_person == 1 else math.inf
        for factor in LADDER:
            try:
                rungs[factor] = reached(factor)
            except ValueError:  # the log-determinant alone would cost more than ε
                continue
            if rungs[factor] >= 0.97 * best:
                return factor, rungs[factor]
        if not rungs:
            raise ValueError(
                f"Expected fewer rows per person, found {target.rows_per_person}: the bound on the Hessians of so many rows "
                "leaves no room for noise. Use method='scaled-gradient', or lower max_rows_per_person."
            )
        if target.rows_per_person == 1:
            return max(rungs.items())
        # Several rows: the ridge is max(r_m·f/ε, S/D)·R_z, and the rung with the smallest one has the least bias.
        return min(rungs.items(), key=lambda rung: max(2.0 * rung[0] / target.epsilon, 1 / rung[1]))

    def _settings(self, public: rule.Public, event: Event, released: Mapping[str, object]) -> Settings:
        problem, scaled = public.problem, scaling.centred_and_scaled(public, released)
        assert isinstance(event, ObjectiveEvent)
        size = scaled.size
        radius, cap = (part * size for part in RADII[problem.loss.name])
        constant = problem.loss.self_bounding or 0.0
        ridge = self.heaviest * max(constant * radius * cap / event.curvature, radius * size / event.shift)
        scale, shift = scaled.scale, scaled.shift
        return {
            **scaled,
            "mean_radius": scaling.mean_radius(public, released),
            "positive_rate": rule.positive_rate(public, released),
            "row_radius": radius,
            "row_cap": cap,
            "ridge": ridge,
            "magnitude": float(np.max(scale)) * problem.data.x_norm + float(np.linalg.norm(scale * shift)) + 1.0,
            **bounds_settings(public, released),
            "released": rule.digest(released),
        }

    def program(self, plan: Plan, problem: Problem) -> Program:
        public = self.public(plan, problem)
        released = yield from known_bounds(public)
        released |= yield from scaling_releases(public)
        settings = self._settings(public, plan.stage("objective").event, released)
        yield Decide(settings)
        features, y = coordinates.features_of(problem, settings), problem.data.y
        radius, cap = settings["row_radius"], settings["row_cap"]
        rows = weighted_rows(problem.loss, features, y, row_radius=radius, row_cap=cap, max_weight=self.heaviest)
        centre, magnitude = start(public, released, settings["positive_rate"]), settings["magnitude"]
        theta = yield solve_for_minimiser(
            plan, rows, y, ridge=settings["ridge"], magnitude=magnitude, centre=centre, most_rows=self.most_rows
        )
        return coordinates.original_coefficients(theta, settings, problem.data.intercept)

