"""The rule of the scaled methods: from public numbers to budget shares, and from released numbers to every setting.

Everything here is pure. `shares` fixes the events before the data are read; `descent_settings`, and `centred_and_scaled` of
`scaling.py`, are what `verify` replays on the released values. The one quantity that matters is the noise ratio

    ν = S²/(μ·n)   (S·√p/(μ·n) where only numeric and one-hot columns are declared),

the noise of a mean gradient relative to its size, with S² the private estimate of E‖z‖² after centring and scaling.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from dperm.mechanisms.scaled import coordinates
from dperm.mechanisms.scaled.aims import clip_for_probabilities
from dperm.mechanisms.scaled.centre import centring, divided
from dperm.mechanisms.scaled.gaps import PRESENT_SHARE
from dperm.mechanisms.scaled.stages import RELEASES, SQUARES
from dperm.privacy import Gaussian, gaussian_mu, kappa
from dperm.problem import Problem
from dperm.release.plan import Plan, Settings, Shape, Target
from dperm.terms.statistics import upper_quantile

MOMENTUM = 0.9
NOISE_LIMIT = 0.06  # share of the residual variance that noise may add to the predictions of a regression
LABEL_PRIOR = 0.1  # variance of a label mean about the middle of its bounds, in units of half their width squared
BLIND = 8.0  # the residual scale is taken to be 1/8 of the labels' range where noise hides their histogram
LONG_ENOUGH = 250.0  # flow time of a binary classification that more noise than the usual is accepted for
SHARES = {
    "octaves": 0.03,
    "cells": 0.03,
    "row norms": 0.01,
    "present": PRESENT_SHARE,
    "rough radius": 0.02,
    "radius": 0.02,
    "rough square norms": 0.01,
    "rough squares": 0.03,
    "square norms": 0.01,
    "squares": 0.10,  # less the two before it where there are several steps, and less the finer ones
    "finer square norms": 0.01,
    "finer squares": 0.03,
    "positives": 0.005,
    "residuals": 0.03,
    "residuals again": 0.03,
    "marginals": 0.05,
    "recalibration": 0.03,
    "level": 0.0075,  # the noise that the recalibration gives the level; √2 times as much where rows are replaced
}


@dataclass(frozen=True)
class Public:
    """What a rule knows beside the releases: the problem, the size, the target, the columns, and μ of every stage; the columns
    that may have missing cells, and whether private ranges are `wary` (`terms/ranges.py`)."""

    problem: Problem
    shape: Shape
    target: Target
    kinds: Sequence[str]
    budget: Mapping[str, float]
    gaps: tuple[int, ...] = ()
    wary: bool = False

    def count_noise(self, name: str) -> float:
        """Standard deviation of a count in the histogram that the stage releases."""
        return math.sqrt(kappa(self.target.relation)) * self.target.rows_per_person / self.budget[name]


def budget_of(plan: Plan) -> dict[str, float]:
    """Stage name → its μ, for the stages with Gaussian events."""
    return {stage.name: stage.event.mu for stage in plan.stages if isinstance(stage.event, Gaussian)}


def described(name: str, mu: float, target: Target) -> dict[str, object]:
    """What a stage releases and its share of the budget μ²."""
    return {"releases": RELEASES[name], "share": mu**2 / gaussian_mu(target.epsilon, target.delta) ** 2}


def is_regression(problem: Problem) -> bool:
    return not problem.loss.classification


def has_flags(kinds: Sequence[str]) -> bool:
    """Whether boolean or sparse columns are declared: then rows are short, and zero is their natural centre."""
    return any(kind in ("boolean", "sparse") for kind in kinds)


def kinds_in_words(kinds: Sequence[str]) -> str:
    """Run lengths, so that a stage says in one line which columns it was planned for.

    >>> kinds_in_words(("numeric", "numeric", "categorical"))
    '2 numeric, 1 categorical'
    """
    return ", ".join(f"{len(list(run))} {kind}" for kind, run in groupby(kinds))


def effective_mu(mu: float, target: Target) -> float:
    """μ per unit of a clipped row sum: what one row can change is κ clips, and a person owns several rows."""
    return mu / (kappa(target.relation) * target.rows_per_person)


def statistics(
    problem: Problem, kinds: Sequence[str], *, positives: bool, gaps: Sequence[int] = (), edition: int = 1, squares: int = 1
) -> list[str]:
    """Names of the releases before the fit itself, in order; `squares` are released in so many steps."""
    centred = problem.data.intercept != 0
    names = centring(problem, gaps, edition)
    if squares > 1:
        names = [*names[:-1], *(name for step in SQUARES[:squares] for name in step)]
    flags = has_flags(kinds) and not is_regression(problem)
    if flags and centred:
        names = ["row norms", *names]
    if centred and not is_regression(problem) and problem.loss.margins == 1 and (flags or positives):
        names.append("positives")
    if "private" in kinds:
        names = ["octaves", "cells", *names]
    return [*names, "label mean"] if is_regression(problem) and centred else names


def mean_share(shape: Shape, target: Target) -> float:
    """d/(0.1·μn)² kept in 1 … 25 %: what it takes to know each column's mean to a tenth of a standard error."""
    mu = effective_mu(gaussian_mu(target.epsilon, target.delta), target)
    return min(max(shape.d / (0.1 * mu * shape.n) ** 2, 0.01), 0.25)


def label_share(shape: Shape, target: Target) -> float:
    """(1/(0.02·μn))² kept in 1 … 10 %: what it takes to know the label mean to a hundredth of its range."""
    mu = effective_mu(gaussian_mu(target.epsilon, target.delta), target)
    return min(max((1.0 / (0.02 * mu * shape.n)) ** 2, 0.01), 0.1)


def shares(
    problem: Problem, shape: Shape, target: Target, kinds: Sequence[str], *, positives: bool = False,
    gaps: Sequence[int] = (), edition: int = 1, squares: int = 1, level: bool = False,
) -> dict[str, float]:  # fmt: skip
    """Stage name → μ of its event; the squares add up to μ(ε, δ)², and the descent has what the others leave."""
    names = statistics(problem, kinds, positives=positives, gaps=gaps, edition=edition, squares=squares)
    names += ["residuals", "descent", "residuals again"] if is_regression(problem) else ["descent"]
    names += ["level"] * level
    return budget(names, parts_of(names, shape, target), target)


def budget(names: Sequence[str], parts: Mapping[str, float], target: Target) -> dict[str, float]:
    """Stage name → μ from shares of μ², in the order of the names; the descent has what the others leave."""
    mu, rest = gaussian_mu(target.epsilon, target.delta), {"descent": 1.0 - sum(parts.values())}
    # The square roots round; a factor below one keeps the sum of squares from exceeding μ².
    return {name: mu * math.sqrt({**parts, **rest}[name]) * (1 - 1e-12) for name in names}


def parts_of(names: Sequence[str], shape: Shape, target: Target, shares: Mapping[str, float] = SHARES) -> dict[str, float]:
    """Shares of μ² of the named statistics."""
    mean = mean_share(shape, target)
    table = {"label mean": label_share(shape, target), **shares, "mean": mean, "rough mean": mean}
    return divided({name: table[name] for name in names if name in table})


def positive_rate(public: Public, released: Mapping[str, object]) -> float | None:
    """Noisy share of positives, kept away from 0 and 1 by its own noise."""
    if "positives" not in released:
        return None
    n = public.shape.n
    away = public.target.rows_per_person / (public.budget["positives"] * n) + 2.0 / n
    rate = float(np.asarray(released["positives"]).reshape(-1)[0]) / n
    return 0.5 if away >= 0.5 else min(max(rate, away), 1.0 - away)


def trust_in_label_mean(public: Public) -> float:
    """v/(v + noise²): the part of a noisy label mean's distance from the middle of the bounds that is believed."""
    if "label mean" not in public.budget:
        return 1.0
    y = public.problem.data.y
    noise = y.radius / (effective_mu(public.budget["label mean"], public.target) * public.shape.n)
    prior = LABEL_PRIOR * (y.width / 2) ** 2
    return prior / (prior + noise**2)


def residual_scale(public: Public, released: Mapping[str, Any], name: str) -> float:
    """Private 75 % quantile of the residuals in the histogram of that name; a fixed part of the labels' range where half of the
    bins hold more noise than rows.

    Otherwise noise in the first bins would pass for residuals as wide as the range, and the clip and its noise would be as wide.
    """
    top, n = public.problem.data.y.width, public.shape.n
    if math.sqrt(12.0) * public.count_noise(name) > 0.25 * n:
        return top / BLIND
    return upper_quantile(np.asarray(released[name]), top, n, 0.75)


def logit(rate: float) -> float:
    return math.log(rate / (1.0 - rate))


def noise_ratio(public: Public, mu: float, size: float) -> float:
    """ν: the noise of a mean gradient in units of its size."""
    margins, short = public.problem.loss.margins, is_regression(public.problem) or has_flags(public.kinds)
    spread = size * math.sqrt(margins) if short else math.sqrt(public.shape.d * margins)
    return size * spread / (effective_mu(mu, public.target) * public.shape.n)


def paced(tau: float, longest: float, least: int, most: int) -> tuple[int, float]:
    """(steps, step size) of heavy ball that takes the flow time τ, as far as `most` steps of the `longest` stable size reach."""
    gain = 1 - MOMENTUM
    steps = int(min(max(math.ceil(gain * tau / longest), least), most))
    return steps, min(gain * tau / steps, longest)


@dataclass(frozen=True)
class Wishes:
    """What the caller fixes of a descent; None leaves it to the rule. `max_weight` None: there are no sample weights. `aim` is
    what a classifier is asked for (`aims.py`)."""

    clip_factor: float | None = None
    horizon: float | None = None
    max_weight: float | None = None
    aim: str = "accuracy"


def descent_settings(
    public: Public, released: Mapping[str, object], scaled: Settings, wishes: Wishes, most_steps: int = 500
) -> Settings:
    """Clip, flow time, steps, step size and start of the descent, and when residuals are looked at again.

    τ = κ/(cν): after flow time τ = step·T/(1 - momentum) the noise in a flat direction has norm κ, for every n, d and ε.

    In a regression κ = 3, and less where noise would add more than `NOISE_LIMIT` of the residual variance: along a column of unit
    variance the noise of θ settles at (κρ/S)²/(2τ) with ρ the residual scale, so d columns add κcν·d/(2S²) of ρ². A classifier
    needs the sign alone and takes κ = 0.5/ν in 2√(K/2) … max(4, 2√(K/2)), where K classes share the noise; with two classes in
    2 … 3, and above 2 only while the flow is short and no boolean or sparse column is declared.
    """
    problem, shape, kinds = public.problem, public.shape, public.kinds
    regression = is_regression(problem)
    heaviest = 1.0 if wishes.max_weight is None else wishes.max_weight
    nu = noise_ratio(public, public.budget["descent"] / heaviest, scaled["size"])
    rate = positive_rate(public, released)
    if regression:
        clip = min(max(math.sqrt(0.05 / nu), 0.4), 5.0)
        columns = max(shape.d / scaled["size"] ** 2, 1.0)
        reach = min(3.0, 2.0 * NOISE_LIMIT / (clip * nu * columns))
    elif wishes.aim == "probabilities":
        clip, reach = clip_for_probabilities(nu, rate), 1.0
    else:
        clip, reach = _of_classifier(problem.loss.margins, nu, rate, has_flags(kinds))
    clip = clip if wishes.clip_factor is None else wishes.clip_factor
    reach = reach if wishes.horizon is None else wishes.horizon
    if rate is not None and has_flags(kinds):
        reach = max(reach, abs(logit(rate)))
    curvature = problem.loss.bounds(math.inf, problem.data.y).curvature
    # Heavy ball is stable below 2(1 + momentum)/(curvature·λ_max), and λ_max ≤ trace = S²; 0.85 of it leaves room.
    stiffness = curvature * scaled["size"] ** 2 * heaviest
    stiffness += problem.regularizer.smoothness * coordinates.map_norm(scaled, problem.data.intercept) ** 2 / shape.n
    longest = 0.855 * 2 * (1 + MOMENTUM) / stiffness
    tau = min(reach / (clip * nu), 1000.0)
    steps, step_size = paced(tau, longest, 100, most_steps)
    return {
        "noise_ratio": nu,
        "positive_rate": rate,
        "clip_factor": clip,
        "flow_time": tau,
        "steps": steps,
        "step_size": step_size,
        "step_mu": public.budget["descent"] / math.sqrt(steps),
        "second_clip_at": steps // 3 if regression else None,
    }


def _of_classifier(margins: int, nu: float, rate: float | None, flags: bool) -> tuple[float, float]:
    """(clip in units of S, norm that the noise may reach) of a classifier; `flags`: boolean or sparse columns are declared."""
    clip = 0.25 * (math.sqrt(2.0) if margins > 1 else 1.0)
    if rate is not None and flags:
        clip *= (4.0 * rate * (1.0 - rate)) ** -0.25
    least = 2.0 * math.sqrt(max(margins, 2) / 2)  # κ is the noise of all classes together
    reach = min(max(0.5 / nu, least), max(4.0, least))
    if margins == 1:
        reach = 2.0 if flags else max(2.0, min(reach, 3.0, LONG_ENOUGH * clip * nu))
    return clip, reach


def digest(released: Mapping[str, object]) -> str:
    """SHA-256 over all released numbers in order: a rule may round a number away, the record must still hold all of them."""
    text = hashlib.sha256()
    for name in released:
        text.update(name.encode())
        text.update(np.ascontiguousarray(released[name], dtype="<f8").tobytes())
    return text.hexdigest()
