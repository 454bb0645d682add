"""Additive models: a shape per numeric column, learnt by the scaled descent on features of a released histogram.

    f(x) = intercept + Σ_j slope_j·x_j + Σ_(numeric j) f_j(cell of x_j),   f_j in the span of √λ_k·e_k (`smoothness.py`)

**Theorem.** Every release is a Gaussian mechanism on a sum whose sensitivity its term enforces: those of `scaled-gradient`; the
histograms of p columns, √p (√(2p) replaced); gradients clipped to C in whatever coordinates, κC; the recalibration, 2 (2√2
replaced); the level of a line, κ. Basis, smoothness, clip and steps are functions of public numbers and earlier releases; the
shares are fixed in the plan and add up to 1: by adaptive composition the whole is μ(ε, δ)-GDP. `docs/theorems/additive.md` has
the proof and the rule.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dperm.mechanisms.conditions import unmet
from dperm.mechanisms.scaled import coordinates, scaling, settling, smoothness
from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled.curve_shrinkage import Beside, Wandering, beside_lines, pulled, strengths
from dperm.mechanisms.scaled.descent_noise import margin_curvature, mean_square, share_below, squares_beyond
from dperm.mechanisms.scaled.gaps import check_gaps
from dperm.mechanisms.scaled.gradient import ScaledGradient, bounds_settings, known_bounds, scaling_needs, scaling_releases, start
from dperm.mechanisms.scaled.method import ScaledMethod, in_stages
from dperm.mechanisms.scaled.recalibration import FAR, affordable, levelled, recalibrated
from dperm.mechanisms.scaled.smoothness import Choice, Column, Flow, choose_smoothness, columns_of
from dperm.privacy import kappa
from dperm.problem import Problem
from dperm.release.asks import Asking, Close, Decide, Open, Program, Publish, See, Sum
from dperm.release.plan import Plan, Settings, Shape, Target, Vector, register
from dperm.terms.additive import PLACES, CellFilling, CurveFeatures, Curving, Marginals
from dperm.terms.affine import Features
from dperm.terms.moments import CentredMoments
from dperm.terms.statistics import LogHistogram, Residuals, SquareSum, gradient_term

CURVED_KINDS = ("numeric", "private")  # encoded between -1/2 and 1/2
LOSSES = ("logistic", "multinomial", "squared", "huber")
MOST_COLUMNS = 256  # a basis of 256 cells is computed for each
MOST_PRODUCTS = 128  # columns whose second moments are all released: some 8,000 numbers in the record


class Curved(ScaledMethod):
    """Base of the mechanisms with a shape per numeric column; the fields are those of the mechanism."""

    curved: tuple[int, ...]
    linear: ClassVar[bool] = False  # what it releases is a shape per column: linear estimators refuse it

    def __post_init__(self) -> None:
        """Columns with a shape, in order and once each, and not too many."""
        super().__post_init__()
        object.__setattr__(self, "curved", check_gaps(self.curved))
        if len(self.curved) > MOST_COLUMNS:
            raise ValueError(f"Expected at most {MOST_COLUMNS} columns with a shape, found {len(self.curved)}.")

    def check_columns(self, shape: Shape) -> None:
        if self.curved and self.curved[-1] >= shape.d:
            raise ValueError(f"Expected curved= below the number of columns ({shape.d}), found {self.curved[-1]}.")
        odd = [f"{j} ({kind})" for j, kind in enumerate(self.kinds) if j in self.curved and kind not in CURVED_KINDS]
        if odd:  # a flag has no cells between its bounds, and a histogram of it is another release
            raise ValueError(f"Expected curved= among the numeric columns, found {', '.join(odd)}.")

    def columns(self, plan: Plan, released: Mapping[str, object]) -> list[Column]:
        """The released histograms as densities and bases (even ones if none was paid for); none where no column has a shape."""
        if not self.curved:
            return []
        counts = np.asarray(released.get("marginals", np.zeros(PLACES * len(self.curved))))
        return columns_of(counts, self.marginal_noise(plan), plan.shape.n)

    def marginal_noise(self, plan: Plan) -> float:
        """Standard deviation of a released count."""
        unit = math.sqrt(kappa(plan.target.relation) * len(self.curved)) * plan.target.rows_per_person
        return unit / rule.budget_of(plan).get("marginals", math.inf) if self.curved else 0.0

    def filled(self, values: Vector) -> CellFilling:
        """Missing cells seen at these values, and beside them the cells that shapes look up."""
        return CellFilling(values, self.curved, self.gaps)

    def marginals(self, public: rule.Public) -> Asking[dict[str, Any]]:
        """Release the histograms of columns with a shape, and see the cells of rows from then on."""
        released = {}
        if "marginals" in public.budget:
            released["marginals"] = yield Sum("marginals", Marginals(self.curved, self.gaps))
        if "present" not in public.budget:
            yield See(self.filled(np.zeros(public.shape.d)))
        return released

    def shapes(self, theta: Vector, features: Features, d: int) -> Vector:
        """What every place of every shape adds, from the coordinates θ of a descent on d columns; 0 where it was the line's."""
        if isinstance(features, CurveFeatures):
            return features.values(theta[..., d + 1 :])
        return np.zeros((*theta.shape[:-1], PLACES * len(self.curved)))


@register
@dataclass(frozen=True)
class Additive(Curved):
    """Scaled descent on linear columns and on the released shapes of the columns `curved`; nothing to tune.

    curved     numeric columns, encoded in [-1/2, 1/2], that get a shape; all columns keep a linear part
    products   release all second moments of up to 128 columns where squares alone would cost the same: the bands of shapes need
               them (`shape_curvature.py`); the fit does not
    careful    pull every curve to its line by what its noise explains (`curve_shrinkage.py`), ask more before curves
               are tried, and fit the line as `ScaledGradient` does where they are not; False is how version 0.4.0 fitted
    nearer     of a careful fit: a flow and a clip still nearer to the line's where noise allows (`Flow.as_long`,
               `grown_clip`), and the level of a line corrected; False is how version 0.5.0 fitted
    levelled   that level has a stage of its own, at a quarter of the price; False is how version 0.6.0 paid for it
    choosier   of a careful fit: a regression tries smoother curves where rough ones would be too noisy, and counts in the pull
               that rows are a sample; two classes try the three roughest curves alone, and none where public numbers promise
               none; False is how version 0.7.0 chose
    The other options are those of `ScaledGradient`.

    **Guarantee**: μ(ε, δ)-GDP in stages, for the target's relation.

    >>> Additive().name
    'additive'
    """

    kinds: tuple[str, ...] = ()
    clip_factor: float | None = None
    horizon: float | None = None
    start: str = "zero"
    max_weight: float | None = None
    gaps: tuple[int, ...] = ()
    curved: tuple[int, ...] = ()
    edition: int = ScaledMethod.edition
    products: bool = True
    aim: str = "accuracy"
    careful: bool = True
    nearer: bool = True
    wary: bool = True
    levelled: bool = True
    choosier: bool = True

    # Versions 0.2.0 and 0.3.0 had no such options, 0.4.0 was not careful, 0.5.0 no nearer and not wary, 0.6.0 not levelled,
    # 0.7.0 not choosier.
    UNSTATED: ClassVar[dict[str, Any]] = {"edition": 1, "products": False, "aim": "accuracy"}
    UNSTATED |= {"careful": False, "nearer": False, "wary": False, "levelled": False, "choosier": False}
    name: ClassVar[str] = "additive"

    @property
    def line(self) -> ScaledGradient:
        """The method without curves."""
        shared = (self.kinds, self.clip_factor, self.horizon, self.start, self.max_weight, self.gaps, self.edition, self.aim)
        return ScaledGradient(*shared, self.wary)

    def missing(self, problem: Problem, target: Target) -> list[str]:
        return scaling_needs(problem, target) + unmet({
            f"a loss in {LOSSES} (found {problem.loss.name!r})": problem.loss.name not in LOSSES,
            "an intercept, because shapes are centred (fit_intercept=True)": not problem.data.intercept,
            "no regularizer and no radius (leave regularization= and radius= out: how smooth the curves are does their work)":
                problem.regularizer.name != "none" or problem.domain.spec()["name"] != "whole-space",
        })

    # -- the plan ----------------------------------------------------------------------------------------------------

    def _shares(self, problem: Problem, shape: Shape, target: Target, kinds: tuple[str, ...]) -> dict[str, float]:
        """Stage name → μ of its event, in the order of the program; the squares add up to μ(ε, δ)²."""
        if not self.careful:
            return self._shared(problem, shape, target, kinds, curves=bool(self.curved), corrected="recalibration")
        corrected = "recalibration" if self.curved else ""
        budget = self._shared(problem, shape, target, kinds, curves=bool(self.curved), corrected=corrected)
        gated = rule.is_regression(problem) or (self.choosier and problem.loss.margins == 1)
        if gated and not self._promising(rule.Public(problem, shape, target, kinds, budget)):
            corrected = "level" if corrected and self.levelled else corrected
            budget = self._shared(problem, shape, target, kinds, curves=False, corrected=corrected if self.nearer else "")
        return budget

    def _promising(self, public: rule.Public) -> bool:
        """Whether curves could be tried by public numbers: columns of unit variance, rows spread evenly over the cells. Where
        not, nothing is paid for them, and stages and shares are those of the line, up to the correction of its level."""
        n, d = public.shape.n, public.shape.d
        scaled = {"size": math.sqrt(1.0 + d), "scale": np.ones(d), "shift": np.zeros(d)}
        flow, even = self._flow(public, {"squares": np.full(d, float(n))}, scaled), columns_of(np.zeros(PLACES), 0.0, n)
        return choose_smoothness(flow, even * len(self.curved)).rung is not None

    def _shared(
        self, problem: Problem, shape: Shape, target: Target, kinds: tuple[str, ...], *, curves: bool, corrected: str
    ) -> dict[str, float]:
        names = rule.statistics(problem, kinds, positives=self.start == "rate", gaps=self.gaps, edition=self.edition)
        if curves:
            place = 2 if names[0] == "octaves" else 0
            names = [*names[:place], "marginals", *names[place:]]
        names += ["residuals", "descent", "residuals again"] if rule.is_regression(problem) else ["descent"]
        if corrected and self.max_weight is None and affordable(problem, shape, target):
            names.append(corrected)
        return rule.budget(names, rule.parts_of(names, shape, target), target)

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        self.check_columns(shape)
        budget = self._shares(problem, shape, target, self.column_kinds(shape))
        public = {name: rule.described(name, mu, target) for name, mu in budget.items()}
        if self.choosier and "level" in public:
            public["level"]["releases"] = FAR
        if self._squares(shape, budget) is CentredMoments:
            public["squares"]["releases"] = "sums of squares and products of the centred columns"
        aim, shapes = {} if self.aim == "accuracy" else {"aim": self.aim}, f"{len(self.curved)} of {shape.d} columns"
        public["descent"] |= self.stated(shape, {"start": self.start, **aim}, {"shapes": shapes})
        size = problem.loss.margins * (shape.d + 1 + PLACES * len(self.curved))
        return in_stages(self, problem, shape, target, budget, public, parameters=size)

    # -- the fit -----------------------------------------------------------------------------------------------------

    def program(self, plan: Plan, problem: Problem) -> Program:
        public, shape = self.public(plan, problem), plan.shape
        budget = public.budget
        released = yield from known_bounds(public)
        released |= yield from self.marginals(public)
        released |= yield from scaling_releases(public, self.filled, self._squares(shape, budget))
        plain = {**released, "squares": np.asarray(released["squares"])[: shape.d]}  # the first of the moments
        scaled = scaling.centred_and_scaled(public, plain)
        columns = self.columns(plan, released) if "marginals" in budget else []
        choice = choose_smoothness(self._flow(public, plain, scaled), columns)
        tables = choice.tables(columns)
        if self.careful and choice.rung is None:  # no curves: the descent of the line, to its end
            features = coordinates.features_of(problem, scaled)
            theta, clips = yield from self.line.descended(public, scaled, choice.settings, released)
        else:
            theta, features, clips = yield from self._descend(public, scaled, choice, tables, released)
        if self.careful and len(tables) and theta.ndim == 1:
            theta = yield from self._pulled(plan, problem, scaled, choice, clips[1], theta, released)
        settings = {**scaled, **choice.settings, **smoothness.in_words(choice), "clips": clips}
        if "recalibration" in budget:
            straight = self.careful and choice.rung is None  # a noisy slope costs a line more than it gives
            fitted, found = yield from recalibrated(
                public, choice.spectrum, theta, features, released, straight=straight, far=self.choosier
            )
            if straight and not self.nearer:
                fitted, found = theta, {"recalibrated_level": 0.0, "recalibrated_factor": 1.0}
            theta, settings = fitted, {**settings, **found}
        elif "level" in budget:
            theta, found = yield from levelled(public, theta, features, released, far=self.choosier)
            settings |= found
        settings |= bounds_settings(public, released)
        yield Decide({**settings, "mean_radius": scaling.mean_radius(public, released), "released": rule.digest(released)})
        line = coordinates.original_coefficients(theta[..., : shape.d + 1], scaled, problem.data.intercept)
        # Of several classes one after the other.
        return np.concatenate([line, self.shapes(theta, features, shape.d)], axis=-1).reshape(-1)

    def _flow(self, public: rule.Public, released: Mapping[str, object], scaled: Settings) -> Flow:
        problem, shape = public.problem, public.shape
        curvature = cost = problem.loss.bounds(math.inf, problem.data.y).curvature
        if problem.loss.margins > 1:  # p(1 - p) of classes that are alike, and what K such margins cost together
            cost = 1.0 - 1.0 / problem.loss.margins
            curvature = cost / problem.loss.margins

        def settings(wide: Shape, size: float, clip: float | None, reach: float | None) -> Settings:
            own = clip is None
            wishes = rule.Wishes(self.clip_factor if own else clip, self.horizon if own else reach, self.max_weight, self.aim)
            resized, most = {**scaled, "size": size}, smoothness.MOST_STEPS
            return rule.descent_settings(replace(public, shape=wide), released, resized, wishes, most)

        regression, linear = rule.is_regression(problem), smoothness.linear_variances(shape, released, scaled)
        careful = smoothness.CAREFUL_LIMITS if self.choosier else smoothness.CAREFUL_LIMITS[:2]
        of_two = smoothness.LIMITS[:3] if self.careful and self.choosier else smoothness.LIMITS
        of_classes = of_two if problem.loss.margins == 1 else smoothness.LIMITS
        return Flow(
            settings, shape, scaled["size"], linear, self._mu(public), curvature, cost,
            refined=regression and self.clip_factor is None,
            limits=careful if self.careful and regression else of_classes,
            careful=self.careful,
            nearer=self.careful and self.nearer and self.aim == "probabilities",
        )  # fmt: skip

    def _mu(self, public: rule.Public) -> float:
        """Of all gradients together, for rows clipped to length 1."""
        return rule.effective_mu(public.budget["descent"] / self.heaviest, public.target)

    def _squares(self, shape: Shape, budget: Mapping[str, float]) -> type[SquareSum] | type[CentredMoments]:
        """The term of the squares: with all products where bands will need them and there are not too many."""
        return CentredMoments if self.products and "marginals" in budget and shape.d <= MOST_PRODUCTS else SquareSum

    def _descend(
        self, public: rule.Public, scaled: Settings, choice: Choice, tables: Vector, released: dict[str, Any]
    ) -> Asking[tuple[Vector, Features, list[float]]]:
        """Heavy ball; the mean of the second half of the iterates, as the line ends in a careful regression. There the line goes
        first, for a third of the steps: the noise of slow directions is then paid at the scale of the residuals."""
        problem, shape, settings = public.problem, public.shape, choice.settings
        theta = start(public, released, settings["positive_rate"])
        line, steps = coordinates.features_of(problem, scaled), settings["steps"]
        features = CurveFeatures(line.intercept, line.shift, line.scale, tables) if len(tables) else line
        velocity, ready = np.zeros_like(theta), False
        kept = np.zeros((*theta.shape[:-1], features.width(shape.d)))
        more = np.zeros((*theta.shape[:-1], kept.shape[-1] - theta.shape[-1]))
        growing, last, weight = np.zeros_like(kept), np.zeros_like(kept), settling.weights(steps, growing=True)

        def clip(name: str, seen: Features, size: float) -> Asking[float]:
            if name not in public.budget:
                return float(settings["clip_factor"] * size)
            released[name] = yield Sum(name, LogHistogram(Residuals(seen, theta), problem.data.y.width))
            scale = rule.residual_scale(public, released, name)
            return float(self._clip_factor(public, choice, released, scale) * size * scale)

        first = limit = yield from clip("residuals", line, scaled["size"])
        yield Open("descent", sums=steps)
        for step in range(steps):
            if not ready and step == (settings["second_clip_at"] or 0):
                limit = yield from clip("residuals again", line, settings["size_of_all"])
                if len(tables):
                    yield See(Curving())
                theta, velocity = (np.concatenate([part, more], axis=-1) for part in (theta, velocity))
                ready = True
            term = gradient_term(problem.loss, theta, limit, features if ready else line, self.max_weight)
            gradient = yield Sum("descent", term, mu=settings["step_mu"], shape=theta.shape)
            velocity = rule.MOMENTUM * velocity + gradient / shape.n
            theta = theta - settings["step_size"] * velocity
            growing = growing + weight[step] * (theta if ready else np.concatenate([theta, more], axis=-1))
            kept = kept + theta if step >= steps // 2 else kept
            last = last + theta / (steps // 4) if step >= steps - steps // 4 else last
        yield Close("descent")
        kept = kept / (steps - steps // 2)
        if self.careful and rule.is_regression(problem):  # as the line ends
            unit = self._mu(public) * shape.n
            ends = (growing, kept, last, first / unit, limit / unit)
            released["late"] = yield Publish("late", lambda: [settling.part_of_late(*ends)])
            kept = growing + float(released["late"][0]) * (kept - growing)
        return kept, features, [first, limit]

    def _clip_factor(self, public: rule.Public, choice: Choice, released: Mapping[str, Any], scale: float) -> float:
        """c, and a larger one from the second histogram of residuals on, where they have tails and noise allows it."""
        name, factor = "residuals again", float(choice.settings["clip_factor"])
        if name not in released or choice.rung is None or not (self.careful and self.nearer and self.clip_factor is None):
            return factor
        width, noise = public.problem.data.y.width, public.count_noise(name)
        return smoothness.grown_clip(choice, squares_beyond(np.asarray(released[name]), width, factor * scale, noise))

    def _pulled(
        self, plan: Plan, problem: Problem, scaled: Settings, choice: Choice, clip: float, theta: Vector, released: dict[str, Any]
    ) -> Asking[Vector]:
        """θ with every curve pulled to its line by what its noise explains; by how much goes into the record, for the bands."""
        d, settings = plan.shape.d, choice.settings
        limit = clip / settings["size_of_all"]

        def curvature() -> list[float]:
            """h, and in a regression the variance of the mean slope: rows are a sample. For classes that was no gain."""
            if not rule.is_regression(problem):
                variance = float(np.sum(np.delete(theta, d) ** 2 * choice.spectrum))  # if columns were independent
                return [margin_curvature(float(theta[d]), variance, limit)]
            counts, within = np.asarray(released["residuals again"]), min(limit, getattr(problem.loss, "threshold", math.inf))
            width = problem.data.y.width
            found = [share_below(counts, width, within), mean_square(counts, width, within) / plan.shape.n]
            return found if self.choosier else found[:1]

        released["curvature"] = yield Publish("curvature", curvature)
        beside = self.beside(plan, {**scaled, **settings, "clips": [clip, clip]}, choice.kernel, released)
        m = (len(theta) - d - 1) // len(self.curved)
        places = [[j, *range(d + 1 + m * place, d + 1 + m * (place + 1))] for place, j in enumerate(self.curved)]
        released["pull"] = yield Publish("pull", lambda: strengths(theta, beside, places))
        return pulled(theta, beside, places, released["pull"], d)

    def beside(
        self, plan: Plan, decided: Mapping[str, Any], kernel: tuple[float, float], released: Mapping[str, Any]
    ) -> list[Beside]:
        """What of each curve no line explains, with its noise (`curve_shrinkage.py`), from what was decided and released."""
        columns, places = self.columns(plan, released), list(self.curved)
        mu = rule.effective_mu(decided["step_mu"] / self.heaviest, plan.target)
        unit, (curvature, *slope) = decided["clips"][1] / (mu * plan.shape.n), released["curvature"]
        shift, scale = (np.asarray(decided[name])[places, None] for name in ("shift", "scale"))
        lines = np.column_stack([(smoothness.MIDDLES - shift) * scale, np.zeros(len(places))])  # a missing cell is at the centre
        noise = Wandering(unit, float(curvature), decided, *slope)
        return beside_lines(columns, smoothness.tables_of(columns, kernel), lines, noise)
