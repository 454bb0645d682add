"""Gradient perturbation: noisy projected gradient descent.

    w ← Π_C( w - η·v ),   v ← momentum·v + ( Σ_i clip_C(∇ℓ(w; d_i)) + N(0, σ²I) + ∇r(w) ) / n

**Theorem.** Each noisy gradient sum has ℓ2-sensitivity κC (κ = 2 for replace-one, 1 otherwise) and is κC/σ-GDP. T adaptive
releases compose to √T·κC/σ-GDP exactly, so σ = κC·√T/μ(ε, δ) gives (ε, δ), where μ is the exact inverse of the Gaussian profile.
Everything after the noise (step, momentum, projection, proximal step, averaging) is post-processing.

Corrections to the lectures: the sensitivity is 2C under replace-one (E14), noise is inside the step (E29), calibration is exact
rather than by advanced composition (E14, E24, E28). `docs/theorems/gradient.md` has the proofs and the table of true ε.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from dperm.mechanisms.conditions import BOUNDED_ROWS, GAUSSIAN, check_options, unmet
from dperm.mechanisms.sampling import sampled_event, sampling_needs
from dperm.mechanisms.schedule import Descent, schedule
from dperm.privacy import Event, Gaussian, HiddenState, gaussian_mu, hidden_state_mu, kappa
from dperm.privacy.as_printed import claim_sigma, slides_sigma
from dperm.problem import Problem
from dperm.release.asks import Close, Open, Program, Secret, Solve, Sum, returned
from dperm.release.noise import gaussian_scale
from dperm.release.plan import Plan, Shape, Stage, Target, Vector, options_of, register
from dperm.rows.base import Term
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm, UnclippedGradientTerm
from dperm.terms.statistics import SmoothGradientTerm

OUTPUTS = ("tail", "average", "last")
BOUNDS = ("clip", "data", "assumed")
ACCOUNTING = ("composition", "hidden-state")
CALIBRATIONS = ("exact", "printed-slides", "printed-lecture-13")


@register
@dataclass(frozen=True)
class Gradient:
    """Noisy gradient descent; every option has a default that is a function of public numbers.

    **Guarantee**: (ε, δ) for the target's relation; `Gaussian(μ/√T)` booked T times.

    Parameters
    ----------
    steps : int or None, default None
        Number of steps; None takes the rule of `schedule`.
    step_size : float or None, default None
        Length of a step; None takes the rule of `schedule`.
    clip : float or None, default None
        Largest norm of a row's gradient; None takes the rule of `schedule`.
    momentum : float or None, default None
        Of heavy-ball steps; None takes the rule of `schedule`.
    output : {"tail", "average", "last"}
        "tail" is the mean of the second half, "average" the lectures'.
    bound : {"clip", "data", "assumed"}
        "clip" (per row), "data" (the Lipschitz constant that the declared bounds imply), "assumed" (`assumed_bound` is
        believed and nothing is clipped: the certificate says so).
    assumed_bound : float or None, default None
        The bound that is believed.
    sampling_rate : float or None, default None
        Poisson sampling of rows at each step; zero-out and add-remove only.
    accounting : {"composition", "hidden-state"}
        With "hidden-state" only the last iterate is released, and the cost stops growing with steps.
    calibration : str
        "exact". The lectures' printed formulas are kept for study and refused unless `accept_known_error`.
    accept_known_error : bool, default False
        Consent to a printed calibration that is known to be wrong.
    max_weight : float or None, default None
        With hidden-state accounting: weights are cut into [0, max_weight] (None: [0, 1]), and a row's loss is that much
        more curved; see `_hidden_step_mu`.

    Examples
    --------
    >>> Gradient(steps=50).name
    'gradient'
    """

    steps: int | None = None
    step_size: float | None = None
    clip: float | None = None
    momentum: float | None = None
    output: str = "tail"
    bound: str = "clip"
    assumed_bound: float | None = None
    sampling_rate: float | None = None
    accounting: str = "composition"
    calibration: str = "exact"
    accept_known_error: bool = False
    max_weight: float | None = None

    name: ClassVar[str] = "gradient"
    UNSTATED: ClassVar[Mapping[str, object]] = {"max_weight": None}

    def __post_init__(self) -> None:
        words = {"output": OUTPUTS, "bound": BOUNDS, "accounting": ACCOUNTING, "calibration": CALIBRATIONS}
        check_options(self, among=words, positive=["steps", "step_size", "clip", "max_weight"])
        if self.sampling_rate is not None and not 0 < self.sampling_rate <= 1:
            raise ValueError(f"Expected 0 < sampling_rate ≤ 1, found {self.sampling_rate}. Pass e.g. 0.01.")
        if self.momentum is not None and not 0 <= self.momentum < 1:
            raise ValueError(f"Expected 0 ≤ momentum < 1, found {self.momentum}. Pass e.g. 0.9.")

    def missing(self, problem: Problem, target: Target) -> list[str]:
        needs = unmet({
            GAUSSIAN: target.delta == 0,
            "a loss with a gradient (the zero-one loss has none: use the exponential mechanism)": problem.loss.name == "zero-one",
            BOUNDED_ROWS: not math.isfinite(problem.row_norm),
            "a finite Lipschitz constant for bound='data' (a bounded domain, or bound='clip')":
                self.bound == "data" and not math.isfinite(problem.constants.lipschitz),
            "assumed_bound= together with bound='assumed', and only then":
                (self.bound == "assumed") != (self.assumed_bound is not None),
            "clip= only with bound='clip'": self.bound != "clip" and self.clip is not None,
            **sampling_needs(self.sampling_rate, target),
            f"accept_known_error=True, because calibration={self.calibration!r} is known to miss its epsilon":
                self.calibration != "exact" and not self.accept_known_error,
            "accept_known_error=True only with a printed calibration": self.calibration == "exact" and self.accept_known_error,
        })
        if self.accounting == "hidden-state":
            needs += self._hidden_state_needs(problem, target)
        return needs

    def _hidden_state_needs(self, problem: Problem, target: Target) -> list[str]:
        return unmet({
            "relation='replace-one' or 'zero-out' for hidden-state accounting (how far a step contracts depends on the "
            "number of rows, which add-remove protects)": target.relation == "add-remove",
            "output='last' for hidden-state accounting (an average reveals more than the last iterate)": self.output != "last",
            "momentum=0 for hidden-state accounting (the step must be a contraction of w alone)": self.momentum,
            "full batches for hidden-state accounting": self.sampling_rate is not None,
            "a convex loss of one margin for hidden-state accounting (clipping keeps only those convex)":
                problem.loss.margins != 1 or not problem.loss.convex,
            "a smooth loss for hidden-state accounting": not math.isfinite(problem.constants.smoothness),
            "a smooth regularizer for hidden-state accounting": not math.isfinite(problem.regularizer.smoothness),
            "an enforced gradient bound for hidden-state accounting": self.bound == "assumed",
        })

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        mu = gaussian_mu(target.epsilon, target.delta)
        settings = schedule(self, problem, shape, mu / (kappa(target.relation) * target.rows_per_person))
        event, step_mu = self._event(problem, shape, target, mu, settings)
        rate = self.sampling_rate or 1.0
        sensitivity = kappa(target.relation) * settings.clip * target.rows_per_person
        noise = gaussian_scale(sensitivity, step_mu) / (shape.n * rate)
        settings = replace(settings, step_mu=step_mu, noise_of_mean=noise)
        believed = f"UNVERIFIED: every row's gradient has norm at most {settings.clip:g} (taken on trust)"
        assumptions = (believed,) if self.bound == "assumed" else ()
        return Plan(self.name, options_of(self), (Stage("descent", event, settings),), target, shape, assumptions)

    def _event(self, problem: Problem, shape: Shape, target: Target, mu: float, settings: Descent) -> tuple[Event, float]:
        """The event of the whole descent and the μ of one noisy sum in it."""
        steps = settings.steps
        if self.calibration != "exact":
            printed = slides_sigma if self.calibration == "printed-slides" else claim_sigma
            sigma = printed(target.epsilon, target.delta, steps, accept_known_error=self.accept_known_error).sigma
            step_mu = kappa(target.relation) * target.rows_per_person / sigma
            return Gaussian(step_mu, steps), step_mu
        if self.sampling_rate is not None:
            return sampled_event(self.sampling_rate, steps, target, start=mu / math.sqrt(steps))  # what it could have without
        exact = mu / math.sqrt(steps) * (1 - 1e-12)  # the square root rounds; never round up a budget
        if self.accounting == "hidden-state":
            step_mu = self._hidden_step_mu(problem, shape, target, mu, settings)
            return HiddenState(mu, steps), max(step_mu, exact)
        return Gaussian(exact, steps), exact

    def _hidden_step_mu(self, problem: Problem, shape: Shape, target: Target, mu: float, settings: Descent) -> float:
        """Noise is what the theorem scales with: solve hidden_state_mu(noise) = μ, which is linear in 1/noise.

        The theorem needs the smoothness of the objective that the steps descend, (1/n)·Σ ω_i·φ_i + r/n. With weights
        ω_i ∈ [0, W] (`SmoothGradientTerm` cuts them) and φ_i, a clipped loss of one margin, β-smooth, that is W·β + β_r/n for
        every data set of n rows. A weight of 0 is a null row, so the weights add no strong convexity: it is the regularizer's.
        """
        sensitivity = kappa(target.relation) * settings.clip * target.rows_per_person / shape.n
        reached = hidden_state_mu(
            steps=settings.steps,
            step_size=settings.step_size,
            noise=sensitivity,
            sensitivity=sensitivity,
            smoothness=self.heaviest * problem.constants.smoothness + problem.regularizer.smoothness / shape.n,
            strong_convexity=problem.regularizer.strong_convexity / shape.n,
            diameter=problem.domain.diameter,
        )
        return mu / reached * (1 - 1e-12)

    @property
    def heaviest(self) -> float:
        """W: no row counts for more."""
        return 1.0 if self.max_weight is None else self.max_weight

    def _term(self, problem: Problem, w: Vector, clip: float) -> Term:
        """What one row adds to a gradient, at most `clip` long.

        Weights act before the clip, and may be of any size. In hidden-state accounting they are cut into [0, W] and act after a
        clip of C/W: the same bound, on the gradient of a loss whose curvature is at most W times that of one row. Its sums are
        floats, as those of every whole solve: the theorem needs a step that contracts, which rounded slopes do not give.
        """
        features = Features(problem.data.intercept)
        if self.accounting == "hidden-state":
            return SmoothGradientTerm(problem.loss, w, clip / self.heaviest, features, self.heaviest)
        return (UnclippedGradientTerm if self.bound == "assumed" else GradientTerm)(problem.loss, w, clip, features)

    def program(self, plan: Plan, problem: Problem) -> Program:
        if self.accounting == "hidden-state":
            # The iterates stay inside the solve: only the last one is covered by the event.
            w = yield Solve(("descent",), partial(self._hidden, plan, problem), (plan.shape.parameters(problem),))
            return np.asarray(w)
        yield Open("descent", sums=plan.settings("descent", Descent).steps, sampling_rate=self.sampling_rate)
        w = yield from self._descent(plan, problem)
        yield Close("descent")
        return w

    def _hidden(self, plan: Plan, problem: Problem, secret: Secret) -> Vector:
        """The same descent, its sums answered inside the solve."""
        return returned(self._descent(plan, problem), lambda ask: secret.noisy_sum(ask.term, ask.mu or 0.0))

    def _descent(self, plan: Plan, problem: Problem) -> Generator[Sum, Vector, Vector]:
        """The loop. The number of steps is fixed beforehand; nothing in it looks at the data except through the noisy sums."""
        settings = plan.settings("descent", Descent)
        steps, step_size, momentum = settings.steps, settings.step_size, settings.momentum
        n, regularizer = plan.shape.n, problem.regularizer
        expected = n * (settings.sampling_rate or 1.0)
        w = np.asarray(problem.domain.project(np.zeros(plan.shape.parameters(problem))))
        velocity, kept = np.zeros_like(w), np.zeros_like(w)
        first = {"tail": steps // 2, "average": 0, "last": steps}[self.output]
        smooth = math.isfinite(regularizer.smoothness)
        for step in range(steps):
            if self.output == "average":  # the lectures average θ_0 … θ_{T-1}
                kept += w
            term = self._term(problem, w, settings.clip)
            gradient = (yield Sum("descent", term, mu=settings.step_mu, shape=w.shape)) / expected
            if smooth:
                gradient = gradient + np.asarray(regularizer.gradient(w)) / n
            velocity = momentum * velocity + gradient
            w = w - step_size * velocity
            if not smooth:  # momentum lengthens the gradient step by 1/(1 - momentum); the proximal step must match it
                w = np.asarray(regularizer.prox(w, step_size / (1 - momentum) / n))
            w = np.asarray(problem.domain.project(w))
            if self.output == "tail" and step >= first:
                kept += w
        return w if self.output == "last" else np.asarray(kept / (steps - first))

