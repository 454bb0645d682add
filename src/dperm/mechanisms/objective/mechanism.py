"""Objective perturbation: one random linear tilt, one convex minimisation, one release.

    w = argmin_w Σ_i ℓ(w; d_i) + (λ/2)‖w‖² + ⟨b, w⟩,    b ~ N(0, σ²I), or density ∝ exp(−rate·‖b‖)

**Theorem** (logistic and softplus-hinge, zero-out and add-remove, row norm R, sup φ'' ≤ C·|φ'|(1−|φ'|)). If C·R²/λ ≤ ε + R²/(2σ²)
then δ(ε) ≤ δ_G(ε; R/σ): the log-determinant of the change of variables costs nothing, and σ = R/μ(ε, δ) is what one Gaussian
release would need. With pure noise rate = ε/R is ε-DP under the same λ ≥ CR²/ε. Replace-one, log-cosh, softmax, Huber losses
and persons with several rows have theorems of their own (`privacy/objective_event.py`).

The event is **not** μ-GDP: it is booked as `ObjectiveEvent` and composed by its privacy loss. The computed minimiser is
within 2τ/λ of the exact one, τ a public bound on the computed gradient; a second, tiny noise pays for it (`objective_solve`).

Corrections to the lectures: noise on all of ℝᵖ (E3), ridge in every direction, the intercept included, twice differentiable
losses and no constraint (E12), (γ/2)‖w‖² (E9), one factor 1 + β/λ instead of its square (E11) or none at all.
`docs/theorems/objective.md` has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dperm.mechanisms.conditions import BOUNDED_ROWS, check_options, unmet
from dperm.mechanisms.objective import accounting as theorems
from dperm.mechanisms.objective import solve
from dperm.mechanisms.scaled.settings import digest
from dperm.privacy import Approximate, Event, Gaussian, ObjectiveEvent, Pure, calibrate_shift, gaussian_mu, kappa
from dperm.problem import Problem, WholeSpace
from dperm.release.asks import Decide, Program, Sum
from dperm.release.noise import RELEASE_SLACK, gaussian_scale
from dperm.release.plan import Plan, Shape, Stage, StageSettings, Target, options_of, register
from dperm.terms.moments import information_term

# Beyond this ε nothing is private and the accounting has no digits left; meeting a smaller ε is always allowed.
LARGEST = 1e4


@dataclass(frozen=True, eq=False)
class Tilted(StageSettings):
    """The ridge and the random tilt of the objective."""

    ridge: float
    noise: str
    noise_scale: float
    loss_form: str
    curvature: float
    asked: dict[str, object]


@register
@dataclass(frozen=True)
class Objective:
    """Objective perturbation; nothing needs tuning.

    ridge          the total λ; `None` takes the theorem's default for the relation (`default_ridge`), raised to the
                   regularizer's own strength
    noise_kind     "auto" (pure when δ = 0 or p + 1 < (ε/μ)²), "gaussian", "pure"
    accounting     "tight"; "cms-2011", "kst-2012", "redberg-2023" calibrate as those papers do, for comparison
    max_weight     sample weights are clipped into [0, max_weight]
    output_share   part of the budget (of μ, or of ε) that pays for the inexact minimiser; `None` takes 1 % up to n = 10⁵ and
                   then √(n/10⁵) %, at most 10 %
    information_share   part of μ² that pays for the curvature matrix at the answer, from which intervals are made (two-class
                   logistic loss, Gaussian noise); `None`: no matrix
    most_rows      under add-remove, a public bound on the number of rows (rows beyond it do not count); "nominal": the nominal n

    **Guarantee**: (ε, δ) for the target's relation, or ε-DP when δ = 0.

    >>> Objective().name
    'objective'
    """

    ridge: float | None = None
    noise_kind: str = "auto"
    accounting: str = "tight"
    max_weight: float = 1.0
    output_share: float | None = None
    information_share: float | None = None
    most_rows: int | str | None = None

    name: ClassVar[str] = "objective"
    UNSTATED: ClassVar[Mapping[str, object]] = {"information_share": None, "most_rows": "nominal"}

    def __post_init__(self) -> None:
        words = {"noise_kind": theorems.NOISE_KINDS, "accounting": theorems.ACCOUNTING}
        check_options(self, among=words, positive=["ridge", "max_weight"])
        solve.checked_most_rows(self.most_rows)
        if self.output_share is not None and not 0 < self.output_share <= 0.5:
            raise ValueError(f"Expected 0 < output_share ≤ 0.5, found {self.output_share}.")
        if self.information_share is not None and not 0 < self.information_share <= 0.9:
            raise ValueError(f"Expected 0 < information_share ≤ 0.9, found {self.information_share}.")

    def missing(self, problem: Problem, target: Target) -> list[str]:
        strength = problem.regularizer.strong_convexity
        needs = objective_needs(problem) + unmet({
            f"ridge= at least the regularizer's own strength {strength:g}": self.ridge is not None and self.ridge < strength,
            "delta > 0 for noise_kind='gaussian' (pass delta=1e-6, or noise_kind='pure')":
                self.noise_kind == "gaussian" and target.delta == 0,
            "one row per person for several classes (no theorem for a person with several rows of softmax loss)":
                problem.loss.margins > 1 and target.rows_per_person > 1,
        })
        needs += solve.unbounded_rows(self.most_rows, target.relation)
        return needs + self._information_needs(problem, target) + self._literature_needs(problem, target)

    def _information_needs(self, problem: Problem, target: Target) -> list[str]:
        if self.information_share is None:
            return []
        return unmet({
            "the logistic loss of two classes for a curvature matrix (intervals)": problem.loss.name != "logistic",
            "delta > 0, Gaussian noise and tight accounting for a curvature matrix (intervals), which is Gaussian":
                target.delta == 0 or self.noise_kind == "pure" or self.accounting != "tight",
            "no sample or class weights for a curvature matrix (intervals)": self.max_weight != 1.0,
        })

    def _literature_needs(self, problem: Problem, target: Target) -> list[str]:
        if self.accounting == "tight":
            return []
        return unmet({
            f"a loss of one margin for accounting={self.accounting!r}": problem.loss.margins > 1,
            f"one row per person for accounting={self.accounting!r}": target.rows_per_person > 1,
            "noise_kind='pure' or 'auto' for accounting='cms-2011', whose noise is pure":
                self.accounting == "cms-2011" and self.noise_kind == "gaussian",
            "relation='replace-one' for accounting='kst-2012'":
                self.accounting == "kst-2012" and target.relation != "replace-one",
            "relation='zero-out' or 'add-remove' for accounting='redberg-2023'":
                self.accounting == "redberg-2023" and target.relation == "replace-one",
            f"delta > 0 and Gaussian noise for accounting={self.accounting!r}":
                self.accounting in ("kst-2012", "redberg-2023") and (target.delta == 0 or self.noise_kind == "pure"),
        })

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        form = theorems.loss_form(problem.loss, problem.data.y)
        p = shape.parameters(problem)
        pure = self._pure(target, p)
        share = self.output_share or min(0.1, 0.01 * max(1.0, math.sqrt(shape.n / 1e5)))
        ridge = self._ridge(problem, form, target, pure)
        area = self.max_weight * problem.row_norm**2
        event, output, scale = self._events(form, target, ridge, area, share, pure, problem.row_norm)
        rows = solve.declared_rows(problem, self.max_weight)
        tolerance = solve.gradient_tolerance(
            rows, problem.data.y, n=solve.row_limit(self.most_rows, target.relation, shape.n), columns=_columns(problem, shape),
            ridge=ridge, scale=scale, pure=pure, magnitude=problem.row_norm,
        )  # fmt: skip
        distance = 2 * tolerance / ridge
        settings = Tilted(
            ridge=ridge,
            noise="pure" if pure else "gaussian",
            noise_scale=scale,
            loss_form=form.form,
            curvature=form.constant * area / ridge,
            asked=options_of(self),  # an option that only repeats its default must be bound too
        )
        budget = output.epsilon if isinstance(output, Pure) else output.mu
        # How closely the minimiser is found, and the noise that covers the rest.
        paid = {"gradient_tolerance": tolerance, "output_scale": RELEASE_SLACK * 2 * distance / budget}
        stages: tuple[Stage, ...] = (Stage("objective", event, settings), Stage("output", output, paid))
        if self.information_share is not None:
            mu = self._information_mu(target)
            sensitivity = information_term(problem, np.zeros(p)).sensitivity(target.relation) * target.rows_per_person
            stages += (Stage("information", Gaussian(mu), {"scale": gaussian_scale(sensitivity, mu)}),)
        declared = self.most_rows if target.relation == "add-remove" and isinstance(self.most_rows, int) else None
        return Plan(self.name, options_of(self), stages, target, shape, most_rows=declared)

    def _information_mu(self, target: Target) -> float:
        share = self.information_share or 0.0
        return math.sqrt(share) * gaussian_mu(min(target.epsilon, LARGEST), target.delta) if share else 0.0

    def _pure(self, target: Target, p: int) -> bool:
        if self.accounting != "tight":
            return self.accounting == "cms-2011"
        if self.information_share is not None:
            return False
        return theorems.wants_pure(self.noise_kind, p, target.epsilon, target.delta)

    def _ridge(self, problem: Problem, form: theorems.LossForm, target: Target, pure: bool) -> float:
        if self.ridge is not None:
            return float(self.ridge)
        area = self.max_weight * problem.row_norm**2
        epsilon, beta = min(target.epsilon, LARGEST), form.curvature * area
        if self.accounting == "tight":
            ridge = theorems.default_ridge(
                form, area, epsilon=epsilon, delta=target.delta, relation=target.relation, rows=target.rows_per_person, pure=pure
            )
        else:
            ridge = {
                "cms-2011": beta / math.expm1(epsilon / 4),
                "kst-2012": 2 * beta / (0.98 * epsilon),
                "redberg-2023": 2.5 * beta / -math.expm1(-epsilon / 2),
            }[self.accounting]
        return max(ridge, problem.regularizer.strong_convexity)

    def _events(
        self, form: theorems.LossForm, target: Target, ridge: float, area: float, share: float, pure: bool, row_norm: float
    ) -> tuple[Event, Pure | Gaussian, float]:
        """(objective event, output event, scale of b)."""
        epsilon, delta = min(target.epsilon, LARGEST), target.delta
        relation, k = target.relation, target.rows_per_person
        bound = self.max_weight * form.slope * row_norm
        curvature = form.constant * area / ridge
        ratio = form.curvature * area / ridge
        if pure:
            main = (1 - share) * epsilon * (1 - 1e-12)
            rate = theorems.cms_rate(main, ratio, relation)
            if self.accounting == "tight":
                rate = theorems.pure_rate(form, main, curvature, relation, k)
            if rate <= 0:
                raise ValueError(f"Expected a larger ridge for accounting={self.accounting!r}, found {ridge:g}. Raise it.")
            return Pure(main), Pure(share * epsilon), RELEASE_SLACK * bound / rate
        if self.accounting == "kst-2012":
            main, failure = 0.98 * epsilon, 0.98 * delta
            if ridge < 2 * form.curvature * area / main * (1 - 1e-12):
                raise ValueError(f"Expected ridge ≥ 2β/ε for accounting='kst-2012', found {ridge:g}. Raise it.")
            spare = Gaussian(gaussian_mu(0.02 * epsilon, 0.02 * delta))
            return Approximate(main, failure), spare, RELEASE_SLACK * kappa(relation) * bound * theorems.kst_sigma(main, failure)
        spare = Gaussian(share * gaussian_mu(epsilon, delta))
        kind, c = form.form, curvature
        if self.accounting == "redberg-2023":
            kind, c = "two-sided", theorems.redberg_curvature(ratio)
            if not math.isfinite(c):
                raise ValueError(f"Expected ridge > β for accounting='redberg-2023', found {ridge:g}. Raise it.")
        beside = math.hypot(spare.mu, self._information_mu(target))
        shift = calibrate_shift(
            epsilon, delta, form=kind, curvature=c, relation=relation, mu_pre=beside, rows=k, classes=form.classes
        )
        return ObjectiveEvent(kind, shift, c, kappa(relation) == 2, k, form.classes), spare, RELEASE_SLACK * bound / shift

    def program(self, plan: Plan, problem: Problem) -> Program:
        settings = plan.settings("objective", Tilted)
        rows, columns, scale = solve.declared_rows(problem, self.max_weight), _columns(problem, plan.shape), settings.noise_scale
        w = yield solve.solve_for_minimiser(
            plan, rows, problem.data.y, ridge=settings.ridge, magnitude=problem.row_norm, columns=columns, scale=scale,
            most_rows=self.most_rows,
        )  # fmt: skip
        if self.information_share is None:
            return np.asarray(w)
        matrix = yield Sum("information", information_term(problem, w))
        if matrix.shape != (w.size * (w.size + 1) // 2,) or not np.isfinite(matrix).all():
            raise ValueError("the released curvature matrix does not have the shape that the plan says")
        yield Decide({"released": digest({"information": matrix})})
        return np.asarray(w)


def _columns(problem: Problem, shape: Shape) -> int:
    return shape.d if problem.feature_map is None else problem.feature_map.output_dimension


def objective_needs(problem: Problem) -> list[str]:
    """What every theorem on objective perturbation asks of the problem."""
    loss = problem.loss
    bounds = loss.bounds(math.inf, problem.data.y)
    return unmet({
        "an unconstrained domain (the density of the answer comes from a change of variables that a constraint breaks; "
        "use 'gradient' or 'output' with a domain)": not isinstance(problem.domain, WholeSpace),
        "a convex loss": not loss.convex,
        "a loss with a bounded second derivative (smooth it: softplus-hinge for hinge, log-cosh for absolute)":
            not loss.smooth or not math.isfinite(bounds.curvature),
        "a loss with a bounded slope over all margins (huber or log-cosh in place of squared)": not math.isfinite(bounds.slope),
        "a smooth regularizer (ridge; an ℓ1 penalty has no Hessian)": not math.isfinite(problem.regularizer.smoothness),
        BOUNDED_ROWS: not math.isfinite(problem.row_norm),
    })
