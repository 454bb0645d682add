"""Poisson regression by scaled gradient descent: private centring and scaling, a private mean count, then clipped noisy descent.

    m̄, ū = mean count and mean exposure, released;   η = ⟨z, θ⟩;   θ ← θ - step·V,
    V ← 0.9·V + ( Σ_i clip_C((min((u_i/ū)·e^{η_i}, y_max/m̄) - t_i/m̄)·z_i) + N(0, σ²I) )/n

and at the end one sum of residuals moves the intercept, so that the predicted total is the observed one (`poisson_counts`).

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
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dperm.mechanisms.conditions import BOUNDED_ROWS, GAUSSIAN, check_options, unmet
from dperm.mechanisms.scaled import centre as centre_rule
from dperm.mechanisms.scaled import coordinates, poisson_counts, settling
from dperm.mechanisms.scaled import poisson_settings as poisson_rule
from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled.gradient import budget_of, features_of, scaling_releases
from dperm.mechanisms.scaled.method import ScaledMethod
from dperm.mechanisms.scaled.noise_ratio import noise_warning
from dperm.privacy import Gaussian
from dperm.problem import Problem
from dperm.release.asks import Asking, Close, Decide, Open, Program, Publish, Sum
from dperm.release.plan import Plan, Released, Settings, Shape, Stage, Target, Vector, options_of, register
from dperm.terms.affine import Features
from dperm.terms.statistics import LogHistogram


@register
@dataclass(frozen=True)
class ScaledPoisson(ScaledMethod):
    """Clipped noisy descent for counts; nothing to tune.

    kinds        one of "numeric", "categorical", "boolean", "sparse", "free" per encoded column; all "free" if left out
    clip_factor  the clip in units of S times the residual scale; by the rule if left out
    horizon      norm that the noise may reach in a flat direction; by the rule (2) if left out
    max_weight   declared bound on exposures (times sample weights), or None when every row has exposure 1
    labels       "counts": labels are counts (times sample weights) and row weights exposures; the clip follows the size of the
                 counts, and the total is balanced at the end. "rates": labels are counts per exposure and nothing is balanced,
                 which is what records of version 0.1 mean
    gaps         columns whose missing cells take the released centre; their present cells are counted
    balance_most the largest share of the descent's μ² that the balance may take, where counts spread widely
    edition      of the rule, as in `ScaledGradient`; records that state none were made by the first

    **Guarantee**: μ(ε, δ)-GDP in stages, for the target's relation.

    >>> ScaledPoisson().name
    'scaled-poisson'
    """

    kinds: tuple[str, ...] = ()
    clip_factor: float | None = None
    horizon: float | None = None
    max_weight: float | None = None
    labels: str = "rates"
    gaps: tuple[int, ...] = ()
    balance_most: float = 0.5
    edition: int = centre_rule.EDITION

    name: ClassVar[str] = "scaled-poisson"
    # Version 0.1.0 had no such options, and in 0.2.0 the balance took a fifth at most.
    UNSTATED: ClassVar[dict[str, Any]] = {"gaps": (), "labels": "rates", "balance_most": 0.2, "edition": 1}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self, among={"labels": ("rates", "counts")}, parts=["balance_most"])

    @property
    def counted(self) -> bool:
        return self.labels == "counts"

    def missing(self, problem: Problem, target: Target) -> list[str]:
        return unmet({
            f"the Poisson loss (found {problem.loss.name!r})": problem.loss.name != "poisson",
            GAUSSIAN: target.delta == 0,
            BOUNDED_ROWS: not math.isfinite(problem.data.x_norm),
            "counts in [0, y_max] with a declared y_max (y_bounds=(0, y_max))":
                not (problem.data.y.low == 0 and 0 < problem.data.y.high < math.inf),
            "rows without a feature map (it scales the declared columns itself)": problem.feature_map is not None,
            "an intercept (it carries the mean rate)": not problem.data.intercept,
            "no regularizer (the flow time regularizes)": problem.regularizer.name != "none",
        })

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        exposed = self.max_weight is not None
        budget = poisson_rule.shares(
            problem, shape, target, exposed=exposed, balanced=self.counted, gaps=self.gaps, edition=self.edition
        )
        own: Settings = {"declared_range": [problem.loss.low, problem.loss.high]}  # type: ignore[attr-defined]
        if self.balance_most != self.UNSTATED["balance_most"]:
            own = {**own, "balance_most": self.balance_most}
        public = self.stated(shape, own)
        stages = tuple(Stage(name, Gaussian(mu), public if name == "descent" else {}) for name, mu in budget.items())
        return Plan(self.name, options_of(self), stages, target, shape, warnings=noise_warning(problem, shape, target))

    def _settings(self, plan: Plan, problem: Problem, released: Mapping[str, Any]) -> tuple[Settings, Settings]:
        kinds, budget = self.column_kinds(plan.shape), budget_of(plan)
        public = rule.Public(problem, plan.shape, plan.target, kinds, budget, self.gaps)
        scaled = rule.centred_and_scaled(public, released)
        options = {"clip_factor": self.clip_factor, "horizon": self.horizon}
        if self.counted:
            means = poisson_counts.means(public, released, self.heaviest)
            balance_mu, descent_mu = poisson_counts.parted(public, released, means, scaled.size, self.balance_most)
            usual = self._limit(plan, problem, released) / means.mean_count
            smallest = max(usual - poisson_counts.USUAL, 0.0) if self.clip_factor is None else 0.0
            public = replace(public, budget=budget | {"descent": descent_mu})
            settings = poisson_rule.settings(public, scaled, means.mean_count, smallest, **options)
            return scaled, {**settings, **means, "smallest_clip": smallest, "balance_mu": balance_mu}
        rate = poisson_rule.mean_rate(public, released, self.heaviest)
        smallest = self._limit(plan, problem, released) / rate if poisson_rule.rare(plan.shape, released) else 0.0
        return scaled, poisson_rule.settings(public, scaled, rate, smallest, **options)

    def _limit(self, plan: Plan, problem: Problem, released: Mapping[str, object]) -> float:
        return poisson_rule.count_limit(problem, plan.shape, plan.target, budget_of(plan)["count scale"], released)

    def _top(self, problem: Problem, settings: Settings) -> float:
        """No residual is larger."""
        if self.counted:
            return float(settings["largest"])
        return poisson_rule.residual_top(problem, settings["mean_rate"], self.heaviest)

    def _clip(
        self, plan: Plan, problem: Problem, scaled: Settings, settings: Settings, released: Mapping[str, Any], name: str
    ) -> float:
        rare = not self.counted and poisson_rule.rare(plan.shape, released)
        spread = poisson_rule.residual_scale(
            plan.shape, plan.target, budget_of(plan)[name], released[name], self._top(problem, settings), rare=rare
        )
        least = settings.get("smallest_clip", 0.0) * scaled["size"]
        return float(max(settings["clip_factor"] * scaled["size"] * spread, least))

    def _caps(self, plan: Plan, settings: Settings, released: Released) -> poisson_counts.Caps:
        name, top = "signed residuals", settings["largest"]
        mu = budget_of(plan)[name]
        return poisson_counts.caps(plan.shape, plan.target, mu, settings["balance_mu"], released[name], top)

    def _log_balance(self, plan: Plan, settings: Settings, released: Released) -> float:
        caps = self._caps(plan, settings, released)
        return poisson_counts.log_balance(plan.shape, plan.target, settings["balance_mu"], caps, released["balance"])

    def program(self, plan: Plan, problem: Problem) -> Program:
        shape, budget = plan.shape, budget_of(plan)
        released = yield from scaling_releases(problem, plan, self.column_kinds(shape), self.gaps)
        released["count scale"] = yield Sum("count scale", LogHistogram(poisson_rule.Counts(), problem.data.y.high))
        limit = self._limit(plan, problem, released)
        total = poisson_counts.BoundedCounts(limit) if self.counted else poisson_rule.CountSum(limit, self.heaviest)
        released["count sum"] = yield Sum("count sum", total)
        if "exposure sum" in budget:
            released["exposure sum"] = yield Sum("exposure sum", poisson_rule.ExposureSum(self.heaviest))
        scaled, settings = self._settings(plan, problem, released)
        settings = settings if self.edition == 1 else settling.without_cap(settings)
        theta = yield from self._descend(plan, problem, scaled, settings, released)
        clips = [self._clip(plan, problem, scaled, settings, released, name) for name in ("residuals", "residuals again")]
        own: dict[str, object] = {"mean_radius": rule.mean_radius(problem, shape, released), "count_limit": limit, "clip": clips}
        if self.counted:
            caps = self._caps(plan, settings, released)
            own |= {"balance_caps": [caps.high, caps.low], "log_balance": self._log_balance(plan, settings, released)}
        yield Decide({**scaled, **settings, **own, "released": rule.digest(released)})
        w = coordinates.original_coefficients(theta, scaled, problem.data.intercept)
        # η is relative to the mean rate: its logarithm belongs to the intercept.
        level = math.log(settings["mean_rate"])
        if self.counted:
            level += self._log_balance(plan, settings, released)
        w[-1] += level / problem.data.intercept
        return np.asarray(problem.domain.project(w))

    def _descend(
        self,
        plan: Plan,
        problem: Problem,
        scaled: Settings,
        settings: Settings,
        released: dict[str, ArrayLike],
    ) -> Asking[Vector]:
        """Heavy ball from η = 0, the mean rate; the mean of the second half of the iterates, whose total is then weighed."""
        shape, features, top = plan.shape, features_of(problem, scaled), self._top(problem, settings)
        theta = np.zeros(features.width(shape.d))
        velocity, kept = np.zeros_like(theta), np.zeros_like(theta)
        steps = settings["steps"]

        def clip_now(name: str) -> Asking[float]:
            released[name] = yield Sum(name, LogHistogram(self._residuals(features, theta, settings), top))
            return self._clip(plan, problem, scaled, settings, released, name)

        clip = yield from clip_now("residuals")
        yield Open("descent", sums=steps + int(self.counted))
        for step in range(steps):
            if step == settings["second_clip_at"]:
                clip = yield from clip_now("residuals again")
            term = poisson_rule.CountGradient(self._residuals(features, theta, settings), clip)
            gradient = yield Sum("descent", term, mu=settings["step_mu"], shape=theta.shape)
            velocity = settings.get("momentum", rule.MOMENTUM) * velocity + gradient / shape.n
            theta = theta - settings["step_size"] * velocity
            if step >= steps // 2:
                kept = kept + theta
        theta = np.asarray(kept / (steps - steps // 2))
        if self.counted:
            residuals = poisson_counts.ExposedResiduals(features, theta, **poisson_counts.units(settings))
            yield from self._weighed(plan, residuals, top, settings, released)
        yield Close("descent")
        return theta

    def _weighed(
        self, plan: Plan, residuals: poisson_counts.ExposedResiduals, top: float, settings: Settings, released: dict[str, Any]
    ) -> Asking[None]:
        """The balance of the residuals of the fit, out of the allowance of the descent."""
        released["signed residuals"] = yield Sum("signed residuals", poisson_counts.SignedHistogram(residuals, top))
        balance = poisson_counts.Balance(residuals, self._caps(plan, settings, released))
        sums = yield Sum("descent", balance, mu=settings["balance_mu"], shape=(2,))
        released["balance"] = yield Publish("balance", partial(np.asarray, sums))

    def _residuals(
        self, features: Features, theta: Vector, settings: Settings
    ) -> poisson_rule.CountResiduals | poisson_counts.ExposedResiduals:
        if self.counted:
            return poisson_counts.ExposedResiduals(features, theta, **poisson_counts.units(settings))
        rate, lowest, highest = settings["mean_rate"], settings["lowest"], settings["highest"]
        return poisson_rule.CountResiduals(features, theta, rate, lowest, highest, self.heaviest)
