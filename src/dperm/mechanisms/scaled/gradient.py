"""Scaled gradient descent: private centring and scaling, then clipped noisy descent whose settings follow from one number.

    m = (Σ x + noise)/n;   v = Σ (x - m)² + noise;   z = (1, (x - m)/√(v/n)),   z_j = 0 where x_j is missing
    θ ← θ - η·V,   V ← 0.9·V + ( Σ_i clip_C(φ'(⟨z_i, θ⟩; y_i)·z_i) + N(0, σ²I) )/n,   C = c·S,   S² = E‖z‖² (released)

**Theorem.** Every release is a Gaussian mechanism on a sum whose sensitivity its term enforces: κR for the mean, √p for counts of
present cells (by which m divides where p columns may have missing ones), √2 or 1 for a histogram, √2·r² or r² for squares, κC for
a gradient. Stage k has the fixed budget μ_k; what later stages do (clip, steps, step size) is a function of public numbers and
earlier releases. By adaptive composition the whole is √(Σμ_k²) = μ(ε, δ)-GDP.

Why it needs no tuning: after scaling the problem is dimensionless, and ν = S²/(μn) fixes how long to descend. More steps average
the noise out, so their number costs time only. `docs/theorems/scaled-gradient.md` has the proof and the measurements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dperm.mechanisms.conditions import BOUNDED_ROWS, GAUSSIAN, unmet
from dperm.mechanisms.scaled import centre as centre_rule
from dperm.mechanisms.scaled import coordinates, recalibration, scaling, settling
from dperm.mechanisms.scaled import gaps as gaps_rule
from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled.method import ScaledMethod, in_stages
from dperm.mechanisms.scaled.stages import SQUARES
from dperm.privacy import kappa
from dperm.problem import Problem
from dperm.release.asks import Asking, Close, Decide, Open, Program, See, Sum, View
from dperm.release.noise import RELEASE_SLACK
from dperm.release.plan import Plan, Settings, Shape, Target, Vector, register
from dperm.rows.base import Term
from dperm.rows.recoded import Filling
from dperm.terms import statistics
from dperm.terms.affine import Features
from dperm.terms.ranges import CellHistogram, OctaveHistogram, Recoding, coarse_ranges, private_columns, tight_ranges
from dperm.terms.statistics import LogHistogram, RowNorms, RowSum, SquareSum


@register
@dataclass(frozen=True)
class ScaledGradient(ScaledMethod):
    """Clipped noisy descent after private centring and scaling; nothing to tune.

    **Guarantee**: μ(ε, δ)-GDP in stages, for the target's relation. The domain, if bounded, is enforced by projecting the answer.

    Parameters
    ----------
    kinds : tuple of str
        "numeric", "categorical", "boolean", "sparse", "free" or "private" per encoded column; all "free" if left out.
    clip_factor : float or None
        The clip in units of S (accuracy: 0.25; probabilities and regression: by the rule).
    horizon : float or None
        Norm that the noise may reach in a flat direction (accuracy: from 2, more for many classes; probabilities: 1;
        regression: at most 3).
    start : {"zero", "rate"}
        "rate" releases the positive rate (0.5 % of μ²) and starts at its log-odds, as the rule always does where boolean or
        sparse columns are declared.
    max_weight : float or None
        Declared bound on sample weights, or None when there are none.
    gaps : tuple of int
        Columns whose missing cells take the released centre. Their present cells are counted.
    edition : {3, 2, 1}
        Of the rule; records that state none were made by the first.
    aim : {"accuracy", "probabilities"}
        What a classifier is asked for: its clip and horizon follow (`aims.py`).
    wary : bool
        Private ranges keep the rows that noise may hide (`terms/ranges.py`); False, as in versions up to 0.5.0 and wherever no
        column is "private", is bolder.
    wide : bool
        Squares are released in two steps, the second in the scale that the first one found, and those of a row are cut by their
        own norm, which is released too: in a table of many numeric columns that leaves far less noise in the scale of columns
        that vary little. False, as in versions up to 0.6.0, cuts rows alone.
    levelled : bool
        Of the squared loss without weights and regularizer: the intercept is corrected by the mean of the residuals, a release of
        its own where public numbers afford it (`recalibration.affordable`). False is how versions up to 0.7.0 fitted.

    Examples
    --------
    >>> ScaledGradient().name
    'scaled-gradient'
    """

    kinds: tuple[str, ...] = ()
    clip_factor: float | None = None
    horizon: float | None = None
    start: str = "zero"
    max_weight: float | None = None
    gaps: tuple[int, ...] = ()
    edition: int = centre_rule.EDITION
    aim: str = "accuracy"
    wary: bool = True
    wide: bool = False
    levelled: bool = True

    name: ClassVar[str] = "scaled-gradient"
    # 0.1.0 had none of them.
    UNSTATED: ClassVar[dict[str, Any]] = {"gaps": (), "edition": 1, "aim": "accuracy", "wary": False, "wide": False}
    UNSTATED |= {"levelled": False}

    def missing(self, problem: Problem, target: Target) -> list[str]:
        return scaling_needs(problem, target) + unmet({
            "a smooth loss whose curvature is bounded (its step size follows from it)":
                not math.isfinite(problem.loss.bounds(math.inf, problem.data.y).curvature),
            "a smooth regularizer (ridge or none)": not math.isfinite(problem.regularizer.smoothness),
        })

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        kinds = self.column_kinds(shape)
        budget = rule.shares(
            problem, shape, target, kinds,
            positives=self.start == "rate", gaps=self.gaps, edition=self.edition, squares=1 + self.wide,
            level=self.levelled and self.max_weight is None and recalibration.affordable(problem, shape, target),
        )  # fmt: skip
        public = {name: rule.described(name, mu, target) for name, mu in budget.items()}
        if "level" in public:
            public["level"]["releases"] = recalibration.FAR
        aim = {} if self.aim == "accuracy" else {"aim": self.aim}
        public["descent"] |= self.stated(shape, {"start": self.start, **aim})
        return in_stages(self, problem, shape, target, budget, public)

    def program(self, plan: Plan, problem: Problem) -> Program:
        w, settings, released = yield from self.fitted(plan, problem)
        yield Decide({**settings, "released": rule.digest(released)})
        return w

    def fitted(self, plan: Plan, problem: Problem) -> Asking[tuple[Vector, Settings, dict[str, object]]]:
        """(coefficients, what was decided, what was released): the whole fit, for mechanisms that build on it too."""
        public = self.public(plan, problem)
        released = yield from known_bounds(public)
        released |= yield from scaling_releases(public)
        scaled = scaling.centred_and_scaled(public, released)
        wishes = rule.Wishes(self.clip_factor, self.horizon, self.max_weight, self.aim)
        settings = rule.descent_settings(public, released, scaled, wishes)
        settings = settings if self.edition == 1 else settling.without_cap(settings)
        theta, clips = yield from self.descended(public, scaled, settings, released)
        clip, radius = clips[0] if clips[0] == clips[1] else clips, scaling.mean_radius(public, released)
        decided = {**scaled, **settings, "clip": clip, "mean_radius": radius, **bounds_settings(public, released)}
        if "level" in public.budget:
            features = coordinates.features_of(problem, scaled)
            theta, found = yield from recalibration.levelled(public, theta, features, released, far=True)
            decided |= found
        w = coordinates.original_coefficients(theta, scaled, problem.data.intercept)
        return np.asarray(problem.domain.project(w.reshape(-1))), decided, released

    def descended(
        self, public: rule.Public, scaled: Settings, settings: Settings, released: dict[str, object]
    ) -> Asking[tuple[Vector, list[float]]]:
        """Heavy ball; a mean of the iterates (`settling.weights`). Returns θ with shape (margins?, width), and both clips."""
        problem, n, features = public.problem, public.shape.n, coordinates.features_of(public.problem, scaled)
        growing = self.edition > 1 and rule.is_regression(problem)
        steps, step_size = settings["steps"], settings["step_size"]
        theta = start(public, released, settings["positive_rate"])

        def residual_clip(name: str) -> Asking[float]:
            """C = c·S, times the private scale of the residuals in a regression."""
            own: float = settings["clip_factor"] * scaled["size"]
            if name not in public.budget:
                return own
            released[name] = yield Sum(name, LogHistogram(statistics.Residuals(features, theta), problem.data.y.width))
            return own * rule.residual_scale(public, released, name)

        clip = first = yield from residual_clip("residuals")
        momentum, weight = settings.get("momentum", rule.MOMENTUM), settling.weights(steps, growing=growing)
        later, late, last = settling.weights(steps, growing=False), np.zeros_like(theta), np.zeros_like(theta)
        yield Open("descent", sums=steps)
        velocity, kept = np.zeros_like(theta), np.zeros_like(theta)
        ridge = problem.regularizer.smoothness > 0
        for step in range(steps):
            if step == settings["second_clip_at"]:
                clip = yield from residual_clip("residuals again")
            term = statistics.gradient_term(problem.loss, theta, clip, features, self.max_weight)
            gradient = yield Sum("descent", term, mu=settings["step_mu"], shape=theta.shape)
            if ridge:
                w = coordinates.original_coefficients(theta, scaled, problem.data.intercept)
                slope = np.asarray(problem.regularizer.gradient(w.reshape(-1))).reshape(w.shape)
                gradient = gradient + coordinates.pulled_back(slope, scaled, problem.data.intercept)
            velocity = momentum * velocity + gradient / n
            theta = theta - step_size * velocity
            kept, late = kept + weight[step] * theta, late + later[step] * theta
            if step >= steps - steps // 4:
                last = last + theta / (steps // 4)
        yield Close("descent")
        if not growing:
            return kept, [first, clip]
        intercept = problem.data.intercept != 0
        unit = rule.effective_mu(public.budget["descent"] / self.heaviest, public.target) * n
        if self.edition == 2:
            return settling.shrunken(kept, max(first, clip) / unit, settings, intercept=intercept), [first, clip]
        kept, variance = settling.blended(kept, late, last, first / unit, clip / unit)
        flat = 0.6 * (settings["flow_time"] * max(first, clip) / unit) ** 2
        return settling.pulled(kept, min(variance, flat), intercept=intercept), [first, clip]


def scaling_needs(problem: Problem, target: Target) -> list[str]:
    """What every method that starts with the private scaling needs."""
    return unmet({
        GAUSSIAN: target.delta == 0,
        "rows without a feature map (it scales the declared columns itself)": problem.feature_map is not None,
        BOUNDED_ROWS: not math.isfinite(problem.data.x_norm),
        "finite bounds on the target (y_bounds=)": not problem.loss.classification and not math.isfinite(problem.data.y.radius),
        "a loss of the residual or of the margin (counts need their own scale)": problem.loss.name == "poisson",
    })


def known_bounds(public: rule.Public) -> Asking[dict[str, object]]:
    """Release the ranges of private columns, and see the rows through them from then on; nothing to do without such columns."""
    columns = private_columns(public.kinds)
    if not columns:
        return {}
    released: dict[str, Any] = {"octaves": (yield Sum("octaves", OctaveHistogram(columns)))}
    released["cells"] = yield Sum("cells", CellHistogram(columns, *private_ranges(public, released)))
    yield See(Recoding(columns, *private_ranges(public, released)))
    return released


def bounds_settings(public: rule.Public, released: Mapping[str, Any]) -> Settings:
    """What was found for private columns, for the record and for encoding new rows."""
    if not private_columns(public.kinds):
        return {}
    low, high = private_ranges(public, released)
    return {"low": low, "high": high}


def start(public: rule.Public, released: Mapping[str, object], rate: float | None, trust: float | None = None) -> Vector:
    """θ₀ = 0, with the intercept at the private label mean (regression) or log-odds (when released).

    `trust` in (0, 1] draws a noisy label mean towards the middle of the bounds; left out, it is what its noise leaves.
    """
    problem, shape = public.problem, public.shape
    width = shape.d + (1 if problem.data.intercept else 0)
    theta = np.zeros((problem.loss.margins, width) if problem.loss.margins > 1 else width)
    if "label mean" in released:
        trust = rule.trust_in_label_mean(public) if trust is None else trust
        mean = float(np.asarray(released["label mean"]).reshape(-1)[0]) / shape.n
        middle = (problem.data.y.low + problem.data.y.high) / 2
        theta[-1] = min(max(middle + trust * (mean - middle), problem.data.y.low), problem.data.y.high)
    elif rate is not None:
        theta[-1] = rule.logit(rate)
    return theta


def scaling_releases(
    public: rule.Public, filled: Callable[[Vector], View] = Filling, squares: Callable[[Features, float], Term] = SquareSum
) -> Asking[dict[str, Any]]:
    """Row norms, mean, present cells, centred norms, squares and label statistics, each a booked noisy sum, in the plan's order;
    missing cells are seen at the centre from then on, through the view that `filled` makes of it. `squares` is the term of the
    stage of that name: sums of squares, or the whole matrix of second moments."""
    released, centred, radius = yield from centred_releases(public, filled)
    if "rough squares" in public.budget:
        yield from squares_in_steps(public, released, centred, radius)
    else:
        released["squares"] = yield Sum("squares", squares(centred, radius))
    if "positives" in public.budget:
        released["positives"] = yield Sum("positives", statistics.PositiveCount())
    if "label mean" in public.budget:
        y = public.problem.data.y
        released["label mean"] = yield Sum("label mean", statistics.LabelSum(y.low, y.high))
    return released


def squares_in_steps(public: rule.Public, released: dict[str, Any], centred: Features, radius: float) -> Asking[None]:
    """Release the squares of a wide table: those of every step are cut by their own norm, and seen in the scale found before."""
    for step, (norms, name) in enumerate(SQUARES[: sum(norms in public.budget for norms, _ in SQUARES)]):
        if step:
            scale = 1.0 / np.sqrt(scaling.seen_squares(public, released, step)[1] / public.shape.n)
            centred, radius = Features(shift=centred.shift, scale=scale), scaling.even_radius(public.shape.d)
        histogram = LogHistogram(statistics.SquareNorms(centred, radius), radius**2)
        released[norms] = yield Sum(norms, histogram)
        released[name] = yield Sum(name, SquareSum(centred, radius, scaling.largest_squares(public, released, norms)))


def centred_releases(
    public: rule.Public, filled: Callable[[Vector], View] = Filling
) -> Asking[tuple[dict[str, Any], Features, float]]:
    """(what was released, rows about their centre, their radius): row norms, mean, present cells and centred norms, in order."""
    problem, shape, budget, gaps = public.problem, public.shape, public.budget, public.gaps
    released: dict[str, Any] = {}
    if "row norms" in budget:
        released["row norms"] = yield Sum("row norms", LogHistogram(RowNorms(statistics.PLAIN), problem.data.x_norm))
    first = "rough mean" if "rough mean" in budget else "mean"
    if first in budget:
        released[first] = yield Sum(first, RowSum(scaling.mean_radius(public, released)))
    if "present" in budget:
        released["present"] = yield Sum("present", statistics.PresentCount(gaps))
    shift = scaling.centre(public, released)
    if "rough mean" in budget:
        near = Features(shift=shift)
        view = Filling(gaps_rule.filling(shape, gaps, shift)) if "present" in budget else None
        distances = LogHistogram(RowNorms(near), 2 * problem.data.x_norm)
        released["rough radius"] = yield Sum("rough radius", distances, view=view)
        term = RowSum(centre_rule.reach(problem, shape, released), near)
        released["mean"] = yield Sum("mean", term, view=view)
        shift = scaling.centre(public, released)
    if "present" in budget:
        yield See(filled(gaps_rule.filling(shape, gaps, shift)))
    centred = Features(shift=shift)
    released["radius"] = yield Sum("radius", LogHistogram(RowNorms(centred), 2 * problem.data.x_norm))
    return released, centred, scaling.centred_radius(public, released)


def private_ranges(public: rule.Public, released: Mapping[str, Any]) -> tuple[Vector, Vector]:
    """(low, high) of the private columns, coarse after the first histogram and tight after the second, by the rule that the plan
    states. All but the counts is public, the deviation of their noise too."""
    n, target, budget, wary = public.shape.n, public.target, public.budget, public.wary
    unit = RELEASE_SLACK * math.sqrt(kappa(target.relation) * len(private_columns(public.kinds))) * target.rows_per_person
    low, high = coarse_ranges(np.asarray(released["octaves"]), unit / budget["octaves"], n, wary)
    if "cells" not in released:
        return low, high
    return tight_ranges(np.asarray(released["cells"]), low, high, unit / budget["cells"], n, wary)
