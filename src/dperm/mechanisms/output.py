"""Output perturbation: minimise first, add noise to the minimiser, project afterwards.

    w = Π_C( argmin_{w∈C} [Σ_i ℓ(w; d_i) + r(w) + (λ/2)‖w‖²] + b )

**Theorem.** If the objective is λ-strongly convex (as a sum) and every ℓ is L-Lipschitz on C, the minimiser moves by at most
S = κL/λ when one record changes (2L/λ replace-one, L/λ otherwise). A computed minimiser within ρ of the exact one has sensitivity
S + 2ρ. Noise with density ∝ exp(−ε‖b‖/S) is ε-DP; N(0, (S/μ)²I) is μ-GDP. Noise lives on all of ℝᵖ; projecting the result is
post-processing.

Corrections to the lectures: ε multiplies in the exponent (E1: the printed density loses 1/(2ε) instead of ε), λ belongs to the
sum (E2), noise is not restricted to C (E3), and the sensitivity is 2L/λ, not 4L/λ. `docs/theorems/output.md` has the proofs.

`solver="permutation-sgd"` is the "bolt-on" method: k passes of batch SGD with η_t = min(1/M, 1/(γt)), whose last iterate has the
same sensitivity κL/λ for every batch size and number of passes.

**When the number of rows is protected** (add-remove) no arithmetic bounds ρ for every table: rounding grows with the rows. So all
rows together are weighted by ω(n) = max(0, 1 − n/M), with M = room·nominal n and n the true number of rows that take part (null
rows, such as those beyond a person's limit, do not: one person may own any number of them). Then ω(n)·n ≤ M/4:
a bound on the rounding, and on the smoothness, that holds for tables of every size. And nothing is lost: removing a row changes
the weights, in sum, by ω(n) + (n − 1)·(ω(n−1) − ω(n)) ≤ (1 − n/M) + (n − 1)/M < 1, so Σ ω·∇ℓ at any fixed w still moves by less
than L, and the minimiser by less than L/λ. At n = nominal n the weight is 0.999. There is no other value to fall back on: the
solver starts from the smoothness of the true rows, inside the solve, and its theorem reaches the tolerance for every table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.mechanisms.conditions import BOUNDED_ROWS, check_options, unmet
from dperm.mechanisms.objective.accounting import NOISE_KINDS, wants_pure
from dperm.mechanisms.objective.solve import Numbered, gradient_error, norm_bound, output_noise, solve_objective
from dperm.privacy import Gaussian, Pure, gaussian_mu, kappa
from dperm.problem import ElasticNet, Lasso, Problem, WholeSpace
from dperm.release.asks import Program, Secret, Solve
from dperm.release.noise import RELEASE_SLACK
from dperm.release.plan import Plan, Shape, Stage, StageSettings, Target, Vector, options_of, register
from dperm.rows.base import Rows, RowsView, Term, sum_step
from dperm.rows.recoded import RecodedTerm
from dperm.solvers import Solution, minimise_over
from dperm.terms.affine import Features
from dperm.terms.objective import MinimiserTerm, WeightedRows
from dperm.terms.statistics import RowCount

SOLVERS = ("certified", "permutation-sgd")


@dataclass(frozen=True, eq=False)
class Minimiser(StageSettings):
    """The strongly convex problem, how closely it is solved, and the noise on its answer."""

    ridge: float
    noise: str
    asked: dict[str, object]
    passes: int | None
    batches: int | None
    gradient_tolerance: float | None
    distance: float
    sensitivity: float
    noise_scale: float
    LEFT_OUT: ClassVar[tuple[str, ...]] = ("passes", "batches", "gradient_tolerance")


@register
@dataclass(frozen=True)
class Output:
    """Output perturbation for strongly convex problems.

    ridge        total strong convexity λ; `None` takes the regularizer's own, or `balanced_ridge` when it has none
    noise_kind   "auto" (pure when δ = 0 or p + 1 < (ε/μ)²), "gaussian", "pure"
    solver       "certified" (to a public gradient tolerance) or "permutation-sgd" with `passes` and `batches`
    room         under add-remove, M/nominal n of the weight 1 − n/M that all rows get; None (older records) means no weight, and
                 is refused for new fits under add-remove

    **Guarantee**: `Gaussian(μ(ε, δ))` or `Pure(ε)`, for the target's relation; k rows per person multiply L by k.

    >>> Output().name
    'output'
    """

    ridge: float | None = None
    noise_kind: str = "auto"
    solver: str = "certified"
    passes: int | None = None
    batches: int | None = None
    room: int | None = 1024

    name: ClassVar[str] = "output"
    only_sums: ClassVar[bool] = False  # draws more than Gaussian noise on sums, so not by the exact sampler
    UNSTATED: ClassVar[Mapping[str, object]] = {"room": None}

    def __post_init__(self) -> None:
        words = {"noise_kind": NOISE_KINDS, "solver": SOLVERS}
        check_options(self, among=words, positive=["ridge", "passes", "batches", "room"])

    def missing(self, problem: Problem, target: Target) -> list[str]:
        constants, regularizer, sgd = problem.constants, problem.regularizer, self.solver == "permutation-sgd"
        return unmet({
            "a convex loss": not problem.loss.convex,
            "a smooth loss, so that a minimiser can be certified (softplus-hinge for hinge, log-cosh for absolute)":
                not problem.loss.smooth or not math.isfinite(constants.smoothness),
            "a finite Lipschitz constant (a bounded domain: radius=, or a loss with bounded slope)":
                not math.isfinite(constants.lipschitz),
            BOUNDED_ROWS: not math.isfinite(problem.row_norm),
            "either a constraint or an ℓ1 penalty, not both (no certified solver for their sum)":
                not math.isfinite(regularizer.smoothness) and not isinstance(problem.domain, WholeSpace),
            "a ridge, lasso or elastic-net regularizer":
                not math.isfinite(regularizer.smoothness) and not isinstance(regularizer, Lasso | ElasticNet),
            f"ridge= at least the regularizer's own strength {regularizer.strong_convexity:g}":
                self.ridge is not None and self.ridge < regularizer.strong_convexity,
            "delta > 0 for noise_kind='gaussian' (pass delta=1e-6, or noise_kind='pure')":
                self.noise_kind == "gaussian" and target.delta == 0,
            "passes= and batches= only with solver='permutation-sgd'":
                self.solver == "certified" and (self.passes is not None or self.batches is not None),
            "relation='replace-one' or 'zero-out' for SGD (a removed row moves all later rows to other batches)":
                sgd and target.relation == "add-remove",
            "a smooth regularizer for SGD": sgd and not math.isfinite(regularizer.smoothness),
        })

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        p = shape.parameters(problem)
        pure = wants_pure(self.noise_kind, p, target.epsilon, target.delta)
        event = Pure(target.epsilon) if pure else Gaussian(gaussian_mu(target.epsilon, target.delta))
        unit = math.sqrt(p + 1) / target.epsilon if isinstance(event, Pure) else 1 / event.mu
        lipschitz = kappa(target.relation) * target.rows_per_person * problem.constants.lipschitz
        ridge = self.ridge or problem.regularizer.strong_convexity
        if not ridge:
            ridge = balanced_ridge(problem, shape.n, lipschitz * unit)
        sgd = self.solver == "permutation-sgd"
        batches = int(min(self.batches or 10, shape.n)) if sgd else None
        distance, tolerance = self._distance(problem, shape, float(ridge), batches, self._most_rows(shape, target))
        sensitivity = lipschitz / ridge + 2 * distance
        settings = Minimiser(
            ridge=float(ridge),
            noise="pure" if pure else "gaussian",
            asked=options_of(self),
            passes=int(self.passes or 20) if sgd else None,
            batches=batches,
            gradient_tolerance=tolerance,
            distance=distance,
            sensitivity=sensitivity,
            noise_scale=RELEASE_SLACK * sensitivity / (event.epsilon if isinstance(event, Pure) else event.mu),
        )
        return Plan(self.name, options_of(self), (Stage("minimiser", event, settings),), target, shape)

    def _most_rows(self, shape: Shape, target: Target) -> int:
        """A public bound on the weight of all rows together: n where it is public, M/4 where it is protected."""
        faded = target.relation == "add-remove" and self.room is not None
        return math.ceil(self.room * shape.n / 4) if faded and self.room else shape.n

    def _distance(self, problem: Problem, shape: Shape, ridge: float, batches: int | None, n: int) -> tuple[float, float | None]:
        """ρ: how far the computed minimiser (or last iterate of SGD) can be from that of exact arithmetic and an exact solver,
        and the tolerance of the solver."""
        rows = self._rows(problem)
        norm = problem.domain.radius
        if not math.isfinite(norm):
            norm = norm_bound(rows, problem.data.y, n=n, ridge=ridge, tilt=0.0)
            if self.solver == "permutation-sgd":  # every step contracts towards a ball of this radius
                norm = n * rows.gradient_bound / ridge
        norm *= 2  # the points at which the last gradients are taken lie close to the minimiser, not at it
        width = shape.parameters(problem) // problem.loss.margins
        error = gradient_error(rows, n=n, width=width, magnitude=problem.row_norm, ridge=ridge, norm=norm, fine=n != shape.n)
        if batches is not None:
            # η_t-weighted errors of contracting steps add up to at most (error of the mean gradient)/γ; each batch rounds anew.
            return float(batches * error / ridge), None
        # The proximal residual 2‖G‖ cannot fall below rounding of M·w; Newton's tolerance is the smaller of the two.
        smoothness = n * problem.constants.smoothness + ridge
        tolerance = max(error, 16 * 2.0**-53 * smoothness * norm, rows.gradient_bound * 2.0**-40)
        return float(2 * tolerance / ridge), tolerance

    def _rows(self, problem: Problem) -> WeightedRows:
        R = problem.row_norm
        bounds = problem.loss.bounds(problem.constants.margin_max, problem.data.y)
        return WeightedRows(problem.loss, Features(problem.data.intercept), R, R, bounds.slope, bounds.curvature)

    def program(self, plan: Plan, problem: Problem) -> Program:
        settings, event = plan.settings("minimiser", Minimiser), plan.stage("minimiser").event
        p = plan.shape.parameters(problem)
        protected = plan.target.relation == "add-remove"
        if protected and self.room is None:
            raise ValueError(
                "Expected room= > 0 for 'output' under relation='add-remove', found none: without it a solver's tolerance holds "
                "for tables near the nominal n only. Leave room= out for the default."
            )
        most = self._most_rows(plan.shape, plan.target)

        def algorithm(secret: Secret) -> Vector:
            if protected:
                secret = replace(secret, rows=FadedRows(secret.rows, 4 * most))
            if self.solver == "permutation-sgd":
                w = permutation_sgd(secret, problem, self._rows(problem), settings, np.zeros(p))
            else:
                w = self._solve(secret, problem, settings, p, most).w
            return output_noise(w, sensitivity=settings.sensitivity, event=event, noise=secret.noise)

        w = yield Solve(("minimiser",), algorithm, (p,))
        return np.asarray(problem.domain.project(w))

    def _solve(self, secret: Secret, problem: Problem, settings: Minimiser, p: int, most: int) -> Solution:
        rows, ridge, tolerance = self._rows(problem), settings.ridge, settings.gradient_tolerance or 0.0
        regularizer, domain = problem.regularizer, problem.domain
        if isinstance(domain, WholeSpace) and math.isfinite(regularizer.smoothness):
            return solve_objective(secret, rows, ridge=ridge, tilt=np.zeros(p), tolerance=tolerance)
        # The whole ridge goes into the smooth part, so that the proximal map is a projection or a soft threshold.
        penalty = Lasso(regularizer.lasso) if isinstance(regularizer, ElasticNet) else regularizer

        def proximal(w: Vector, step: float) -> Vector:
            return np.asarray(domain.project(w) if math.isfinite(regularizer.smoothness) else penalty.prox(w, step))

        # Of the true rows, public or not: only the solve sees it. The cap is that of the largest weight there can be.
        smoothness = total_weight(secret.rows) * problem.constants.smoothness + ridge
        return minimise_over(
            lambda w: secret.sum(MinimiserTerm(rows, w, False)) + ridge * w,
            proximal,
            np.zeros(p),
            smoothness=smoothness,
            strong_convexity=ridge,
            tolerance=tolerance,
            cap=proximal_cap((most * problem.constants.smoothness + ridge) / ridge),
        )


@dataclass(frozen=True, eq=False)
class FadedRows(RowsView):
    """Rows of which each counts ω = max(0, 1 − n/M): sums are multiplied by ω, and no table weighs more than M/4.

    n counts the rows that take part. A person has k of these at most, and so moves ω by k/M at most, however many rows he owns.
    """

    most: int  # M

    @cached_property
    def counted(self) -> float:
        """n."""
        count = RowCount()
        return float(self.rows.sum(count, sum_step(count.row_bound, 1))[0])

    @property
    def weight(self) -> float:
        return max(0.0, 1.0 - self.counted / self.most)

    def sum(self, term: Term, step: float) -> Vector:
        return self.weight * self.rows.sum(term, step)


def total_weight(rows: Rows) -> float:
    """The weight of all rows together, at most."""
    return rows.counted * rows.weight if isinstance(rows, FadedRows) else float(rows.n)


def proximal_cap(condition: float) -> int:
    """Steps after which `minimise_over` reaches the tolerance for every data set: whether a cap is hit must not tell anything.

    The gap falls as (1 - q)^k·M·norm², q = √(λ/M), and 2M‖v - w‖ ≤ 8M√(2·gap/λ), so 2/q·ln(12·√(M/λ)·M·norm/tolerance) steps do;
    the tolerance is at least 2⁻⁴⁹·M·norm (`_distance`).

    >>> proximal_cap(1e4), proximal_cap(1e8)
    (200000, 913190)
    """
    return max(200_000, math.ceil(2 * math.sqrt(condition) * (math.log(12 * math.sqrt(condition)) + 49 * math.log(2))))


def balanced_ridge(problem: Problem, n: int, noise: float) -> float:
    """λ = (2nβ·noise²/B²)^{1/3}: the minimum of nβ/2·(noise/λ)² + λB²/2, a bound on the cost of noise plus that of the ridge.

    `noise` is the root mean square of b per coordinate times λ; tr ∇²F ≤ nβ. B is the domain's radius, or 5/R for a free one.
    """
    reach = problem.domain.radius if math.isfinite(problem.domain.radius) else 5.0 / problem.row_norm
    return float((2 * n * problem.constants.smoothness * noise**2 / reach**2) ** (1 / 3))


@dataclass(frozen=True, eq=False)
class Batch(Numbered):
    """The rows i with i mod `batches` = `batch`: every row joins exactly one batch of a pass."""

    batch: int
    batches: int

    def chosen(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.asarray(numbers % self.batches == self.batch)


def sgd_step(step: int, smoothness: float, strong_convexity: float) -> float:
    """η_t = min(1/M, 1/(γt)), t = 1, 2, …

    >>> sgd_step(1, 4.0, 0.5), sgd_step(16, 4.0, 0.5)
    (0.25, 0.125)
    """
    return min(1 / smoothness, 1 / (strong_convexity * step))


def visit(number: int, batches: int) -> list[int]:
    """The public order in which pass `number` visits the batches."""
    return [int(batch) for batch in np.random.default_rng(number).permutation(batches)]


def permutation_sgd(secret: Secret, problem: Problem, rows: WeightedRows, settings: Minimiser, start: Vector) -> Vector:
    """The last iterate of `passes` passes of projected batch SGD on the mean objective, γ = λ/n."""
    n, batches = secret.n, settings.batches or 1
    gamma = settings.ridge / n
    share = n / batches
    # A batch holds at most ⌈n/batches⌉ rows, so its mean over n/batches is at most this smooth.
    smoothness = problem.constants.smoothness * math.ceil(share) / share + gamma
    w, step = start, 0
    for number in range(settings.passes or 0):
        for batch in visit(number, batches):
            step += 1
            gradient = secret.sum(RecodedTerm(MinimiserTerm(rows, w, False), Batch(batch, batches))) / share + gamma * w
            w = np.asarray(problem.domain.project(w - sgd_step(step, smoothness, gamma) * gradient))
    return w
