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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from dperm.mechanisms.conditions import BOUNDED_ROWS, GAUSSIAN, check_options, unmet
from dperm.mechanisms.scaled import coordinates, poisson_counts, scaling, settling
from dperm.mechanisms.scaled import poisson_settings as poisson_rule
from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled.gradient import scaling_releases
from dperm.mechanisms.scaled.method import ScaledMethod, in_stages
from dperm.mechanisms.scaled.smoothness import Column
from dperm.problem import Problem
from dperm.release.asks import Asking, Close, Decide, Open, Program, Publish, See, Sum
from dperm.release.plan import Plan, Released, Settings, Shape, Target, Vector, register
from dperm.terms.additive import PLACES, CurveFeatures, Curving
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
    edition: int = ScaledMethod.edition

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
        return in_stages(self, problem, shape, target, budget, {"descent": self.stated(shape, own)})

    def _settings(self, public: rule.Public, limit: float, released: Mapping[str, Any]) -> tuple[scaling.Scaled, Settings]:
        scaled = scaling.centred_and_scaled(public, released)
        options = {"clip_factor": self.clip_factor, "horizon": self.horizon}
        if self.counted:
            means = poisson_counts.means(public, released, self.heaviest)
            balance_mu, descent_mu = poisson_counts.parted(public, released, means, scaled.size, self.balance_most)
            usual = limit / means.mean_count
            smallest = max(usual - poisson_counts.USUAL, 0.0) if self.clip_factor is None else 0.0
            public = replace(public, budget={**public.budget, "descent": descent_mu})
            settings = poisson_rule.settings(public, scaled, means.mean_count, smallest, **options)
            return scaled, {**settings, **means, "smallest_clip": smallest, "balance_mu": balance_mu}
        rate = poisson_rule.mean_rate(public, released, self.heaviest)
        smallest = limit / rate if poisson_rule.rare(public.shape, released) else 0.0
        return scaled, poisson_rule.settings(public, scaled, rate, smallest, **options)

    def _course(
        self, public: rule.Public, scaled: scaling.Scaled, settings: Settings, released: Released, columns: Sequence[Column]
    ) -> tuple[Settings, Vector]:
        """(the settings of the descent, tables of the curves of these columns: there are none here)."""
        return settings if self.edition == 1 else settling.without_cap(settings), np.zeros((0, PLACES, 0))

    def _top(self, problem: Problem, settings: Settings) -> float:
        """No residual is larger."""
        if self.counted:
            return float(settings["largest"])
        return poisson_rule.residual_top(problem, settings["mean_rate"], self.heaviest)

    def program(self, plan: Plan, problem: Problem) -> Program:
        public = self.public(plan, problem)
        released = yield from scaling_releases(public)
        w, _, _ = yield from self._fitted(public, released)
        return np.asarray(problem.domain.project(w))

    def _fitted(
        self, public: rule.Public, released: dict[str, Any], columns: Sequence[Column] = ()
    ) -> Asking[tuple[Vector, Vector, Features]]:
        """(coefficients of encoded columns, θ, its features), once rows are centred and scaled; `columns` may have shapes."""
        problem, d = public.problem, public.shape.d
        sums = poisson_counts.BoundedCounts if self.counted else partial(poisson_rule.CountSum, heaviest=self.heaviest)
        limit = yield from poisson_rule.count_releases(public, sums, self.heaviest, released)
        scaled, settings = self._settings(public, limit, released)
        settings, tables = self._course(public, scaled, settings, released, columns)
        theta, features, clips = yield from self._descend(public, scaled, settings, tables, released)
        own: dict[str, object] = {"mean_radius": scaling.mean_radius(public, released), "count_limit": limit, "clip": clips}
        # η is relative to the mean rate: its logarithm belongs to the intercept.
        level = math.log(settings["mean_rate"])
        if self.counted:
            caps = poisson_counts.caps(public, settings, released)
            balance = poisson_counts.log_balance(public, settings["balance_mu"], caps, released["balance"])
            own |= {"balance_caps": [caps.high, caps.low], "log_balance": balance}
            level += balance
        yield Decide({**scaled, **settings, **own, "released": rule.digest(released)})
        w = coordinates.original_coefficients(theta[: d + 1], scaled, problem.data.intercept)
        w[-1] += level / problem.data.intercept
        return w, theta, features

    def _descend(
        self, public: rule.Public, scaled: Settings, settings: Settings, tables: Vector, released: dict[str, Any]
    ) -> Asking[tuple[Vector, Features, list[float]]]:
        """Heavy ball from η = 0, the mean rate; curves, where there are any, join once the residuals are seen again. The mean of
        the second half of the iterates, whose total is then weighed."""
        shape, line, steps = public.shape, coordinates.features_of(public.problem, scaled), settings["steps"]
        features = CurveFeatures(line.intercept, line.shift, line.scale, tables) if len(tables) else line
        theta, seen, top = np.zeros(line.width(shape.d)), line, self._top(public.problem, settings)
        velocity, kept = np.zeros_like(theta), np.zeros(features.width(shape.d))

        def clip_now(name: str, size: float) -> Asking[float]:
            released[name] = yield Sum(name, LogHistogram(self._residuals(line, theta, settings), top))
            rare = not self.counted and poisson_rule.rare(shape, released)
            spread = poisson_rule.residual_scale(public, released, name, top, rare=rare)
            return float(max(settings["clip_factor"] * size * spread, settings.get("smallest_clip", 0.0) * size))

        clip = first = yield from clip_now("residuals", scaled["size"])
        yield Open("descent", sums=steps + int(self.counted))
        for step in range(steps):
            if step == settings["second_clip_at"]:
                clip = yield from clip_now("residuals again", settings.get("size_of_all", scaled["size"]))
                if len(tables):
                    yield See(Curving())
                theta, velocity = (np.concatenate([part, np.zeros(len(kept) - len(part))]) for part in (theta, velocity))
                seen = features
            term = poisson_rule.CountGradient(self._residuals(seen, theta, settings), clip)
            gradient = yield Sum("descent", term, mu=settings["step_mu"], shape=theta.shape)
            velocity = settings.get("momentum", rule.MOMENTUM) * velocity + gradient / shape.n
            theta = theta - settings["step_size"] * velocity
            if step >= steps // 2:
                kept = kept + theta
        theta = np.asarray(kept / (steps - steps // 2))
        if self.counted:  # the balance of the residuals of the fit, out of the allowance of the descent
            residuals = poisson_counts.ExposedResiduals(features, theta, **poisson_counts.units(settings))
            released["signed residuals"] = yield Sum("signed residuals", poisson_counts.SignedHistogram(residuals, top))
            balance = poisson_counts.Balance(residuals, poisson_counts.caps(public, settings, released))
            sums = yield Sum("descent", balance, mu=settings["balance_mu"], shape=(2,))
            released["balance"] = yield Publish("balance", partial(np.asarray, sums), shape=(2,))
        yield Close("descent")
        return theta, features, [first, clip]

    def _residuals(self, features: Features, theta: Vector, settings: Settings) -> poisson_rule.Slopes:
        if self.counted:
            return poisson_counts.ExposedResiduals(features, theta, **poisson_counts.units(settings))
        rate, lowest, highest = settings["mean_rate"], settings["lowest"], settings["highest"]
        return poisson_rule.CountResiduals(features, theta, rate, lowest, highest, self.heaviest)
