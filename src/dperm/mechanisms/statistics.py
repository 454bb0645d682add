"""Sufficient-statistics perturbation for least squares: release the second moments once, then solve as often as you like.

    M̃ = Σ_i a_i a_iᵀ + symmetric noise,   a = (z, τ·y);   blocks Ã = Σzzᵀ, c̃ = Σyz, and Σy²
    ŵ = (floor(Ã) + λI)⁻¹ c̃,               eigenvalues of Ã floored at 2s√p

**Theorem.** With ‖z‖ ≤ R, |y| ≤ B and ρ² = R² + τ²B² the row aaᵀ has Frobenius norm ≤ ρ². In isometric coordinates of the
symmetric matrices the sensitivity is ρ² (nulled, added, removed) or √2·ρ² (replaced), so Gaussian noise of deviation
s = sensitivity/μ in these coordinates (s on the diagonal, s/√2 off it) is μ-GDP. All else is post-processing: several
regressions, ridge paths, intervals. The default τ = R/(√2·B) gives Ã and c̃ the same relative noise; under replace-one it is
the noise of the exact joint release of Ã and c̃ alone, so that Σy² comes free. Proofs: `docs/theorems/statistics.md`.

`variant="adaptive"` is AdaSSP (Wang 2018) with exact Gaussian accounting: thirds of μ² for Ã, c̃ and the smallest eigenvalue, and
a ridge that lifts the spectrum just above the noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from dperm.mechanisms.conditions import BOUNDED_ROWS, GAUSSIAN, check_options, unmet
from dperm.privacy import Gaussian, gaussian_mu
from dperm.problem import Problem
from dperm.release.asks import Decide, Program, Secret, Solve, Sum
from dperm.release.noise import gaussian_scale, release
from dperm.release.plan import Plan, Released, Shape, Stage, StageSettings, Target, UnmetNeeds, Vector, options_of, register
from dperm.terms.affine import Features
from dperm.terms.moments import CrossTerm, GramTerm, smat

if TYPE_CHECKING:
    from dperm.walk.fitting import Release

VARIANTS = ("eigen-floor", "adaptive")
LARGEST = 1000  # columns: half a million released numbers
NEVER_UP = 1 - 1e-12  # square roots round; never round up a budget


@dataclass(frozen=True, eq=False)
class Summed(StageSettings):
    """Noise of a sum over the rows."""

    scale: float
    columns: int
    max_weight: float | None


@dataclass(frozen=True, eq=False)
class FlooredMoments(Summed):
    """All second moments, and the floor that their eigenvalues are raised to."""

    target_scale: float
    floor: float


@dataclass(frozen=True, eq=False)
class SmallestEigenvalue(StageSettings):
    """Noise of the smallest eigenvalue, and what is taken off it."""

    scale: float
    floor: float
    shift: float
    failure: float


@register
@dataclass(frozen=True)
class Statistics:
    """Least squares from noisy second moments.

    **Guarantee**: (ε, δ) for the target's relation; one `Gaussian(μ)`, or three of μ/√3. As ε → ∞ the answer tends to (ridge)
    least squares.

    Parameters
    ----------
    variant : {"eigen-floor", "adaptive"}, default "eigen-floor"
        How the noisy matrix is made positive.
    target_share : float or None, default None
        (τB/R)² of the label in the released row, eigen-floor only; None is ½.
    failure : float or None, default None
        Probability that the adaptive ridge is too small; None is 0.05.
    max_weight : float or None, default None
        Sample weights are clipped into [0, max_weight]; None is 1.

    Examples
    --------
    >>> Statistics().variant
    'eigen-floor'
    """

    variant: str = "eigen-floor"
    target_share: float | None = None
    failure: float | None = None
    max_weight: float | None = None

    name: ClassVar[str] = "statistics"

    def __post_init__(self) -> None:
        check_options(self, among={"variant": VARIANTS}, positive=["target_share", "max_weight"], parts=["failure"])

    def missing(self, problem: Problem, target: Target) -> list[str]:
        return unmet({
            GAUSSIAN: target.delta == 0,
            f"the squared loss, which second moments determine (found {problem.loss.name!r})": problem.loss.name != "squared",
            f"a ridge or no regularizer (found {problem.regularizer.name!r})": problem.regularizer.name not in ("none", "ridge"),
            BOUNDED_ROWS: not 0 < problem.row_norm < math.inf,
            "finite bounds on the labels (y_bounds=)": not 0 < problem.data.y.radius < math.inf,
            "target_share= only with variant='eigen-floor'": self.variant == "adaptive" and self.target_share is not None,
            "failure= only with variant='adaptive'": self.variant == "eigen-floor" and self.failure is not None,
        })

    # -- terms and scales --------------------------------------------------------------------------------------------

    def _target_scale(self, problem: Problem) -> float:
        share = 0.5 if self.target_share is None else self.target_share
        return math.sqrt(share) * problem.row_norm / problem.data.y.radius

    def _terms(self, problem: Problem) -> dict[str, GramTerm | CrossTerm]:
        features, R, B = Features(problem.data.intercept), problem.row_norm, problem.data.y.radius
        heaviest = 1.0 if self.max_weight is None else self.max_weight
        if self.variant == "adaptive":
            return {"gram": GramTerm(features, R, max_weight=heaviest), "cross": CrossTerm(features, R, B, heaviest)}
        tau = self._target_scale(problem)
        return {"moments": GramTerm(features, math.hypot(R, tau * B), tau, heaviest)}

    def _smallest_sensitivity(self, problem: Problem) -> float:
        """R²W under every relation: aaᵀ - bbᵀ has eigenvalues in [-R²W, R²W], and the smallest eigenvalue is 1-Lipschitz."""
        return problem.row_norm**2 * (1.0 if self.max_weight is None else self.max_weight)

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        p = shape.parameters(problem)
        if p > LARGEST:
            raise UnmetNeeds(self.name, [f"at most {LARGEST} columns for second moments (found {p}); use method='gradient'"])
        mu = gaussian_mu(target.epsilon, target.delta)
        terms = self._terms(problem)
        share = mu * NEVER_UP if self.variant == "eigen-floor" else mu / math.sqrt(3) * NEVER_UP
        people = target.rows_per_person
        scales = {name: gaussian_scale(term.sensitivity(target.relation) * people, share) for name, term in terms.items()}
        settings: dict[str, StageSettings] = {name: Summed(scale, p, self.max_weight) for name, scale in scales.items()}
        if self.variant == "eigen-floor":
            scale, floor = scales["moments"], 2 * scales["moments"] * math.sqrt(p)
            settings["moments"] = FlooredMoments(scale, p, self.max_weight, self._target_scale(problem), floor)
        else:
            failure = 0.05 if self.failure is None else self.failure
            scale = gaussian_scale(self._smallest_sensitivity(problem) * people, share)
            floor, shift = adaptive_constants(p, scales["gram"], scale, failure)
            settings["smallest"] = SmallestEigenvalue(scale, floor, shift, failure)
        stages = tuple(Stage(name, Gaussian(share), values) for name, values in settings.items())
        return Plan(self.name, options_of(self), stages, target, shape)

    # -- from released moments to coefficients -----------------------------------------------------------------------

    def _solved(self, plan: Plan, problem: Problem, released: Released) -> tuple[dict[str, object], Vector]:
        """(what the moments say besides, coefficients)."""
        p = plan.shape.parameters(problem)
        ridge = problem.regularizer.strong_convexity
        if self.variant == "eigen-floor":
            moments = Moments.planned(plan, released)
            w = moments.coefficients(ridge=ridge)
            errors, rest = moments.standard_errors(ridge=ridge), moments.residual_sum(ridge=ridge)
            decided: dict[str, object] = {"standard_errors": errors.tolist(), "residual_sum": rest}
        else:
            settings = plan.settings("smallest", SmallestEigenvalue)
            # A lower bound of the smallest eigenvalue.
            certain = float(np.asarray(released["smallest"], dtype=np.float64)) - settings.shift
            ridge += max(0.0, settings.floor - max(0.0, certain))
            gram = smat(np.asarray(released["gram"]), p) + ridge * np.eye(p)
            w = np.asarray(np.linalg.solve(gram, np.asarray(released["cross"], dtype=np.float64)), dtype=np.float64)
            decided = {"ridge": ridge, "smallest_eigenvalue_above": certain}
        w = np.asarray(problem.domain.project(w))
        return decided | {"coefficients": w.tolist()}, w

    def program(self, plan: Plan, problem: Problem) -> Program:
        terms = self._terms(problem)
        released: dict[str, ArrayLike] = {}
        for name, term in terms.items():
            released[name] = yield Sum(name, term)
        if self.variant == "adaptive":
            mu = plan.stage("smallest").event.gdp() or 0.0
            sensitivity = self._smallest_sensitivity(problem) * plan.target.rows_per_person

            def smallest(secret: Secret) -> float:
                gram = smat(secret.sum(terms["gram"]), plan.shape.parameters(problem))
                value = np.linalg.eigvalsh(gram)[0]
                return float(release([value], sensitivity=sensitivity, mu=mu, noise=secret.noise)[0])

            released["smallest"] = yield Solve(("smallest",), smallest, kept="smallest")
        decided, w = self._solved(plan, problem, released)
        yield Decide(decided)
        return w


def adaptive_constants(p: int, scale: float, smallest_scale: float, failure: float) -> tuple[float, float]:
    """(s(√(2p) + √(2 ln(2/ϱ))), s'Φ⁻¹(1 - ϱ/2)): how far noise lowers an eigenvalue, and the released smallest one, but for ϱ.

    The largest eigenvalue of the symmetric noise has mean ≤ s√(2p) and is s-Lipschitz in standard normals, hence the first.

    >>> [round(v, 6) for v in adaptive_constants(10, 7.3173584820, 7.3173584820, 0.05)]
    [52.599653, 14.341759]
    """
    return scale * (math.sqrt(2 * p) + math.sqrt(2 * math.log(2 / failure))), smallest_scale * float(ndtri(1 - failure / 2))


def solve_floored(gram: Vector, cross: Vector, floor: float, ridge: float) -> Vector:
    """(floor(A) + λI)⁻¹c: eigenvalues below `floor` are noise, and are raised to it.

    >>> solve_floored(np.diag([4.0, -1.0]), np.array([4.0, 1.0]), 2.0, 0.0).tolist()
    [1.0, 0.5]
    """
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(vectors @ ((vectors.T @ cross) / (np.maximum(values, floor) + ridge)))


@dataclass(frozen=True)
class Moments:
    """Released second moments of (z, τy): solve any regression among the columns, with intervals, at no further privacy cost.

    Columns 0 … p-1 are those of z (the intercept last, if any); column p is the label.
    """

    matrix: Vector
    n: int
    scale: float
    target_scale: float
    floor: float

    @classmethod
    def of(cls, release: Release) -> Moments:
        """The moments that a fit with `method="statistics"` released."""
        if "moments" not in release.released:
            raise ValueError("Expected a release by Statistics() with variant 'eigen-floor', found another. Fit with that.")
        return cls.planned(release.plan, release.released)

    @classmethod
    def planned(cls, plan: Plan, released: Released) -> Moments:
        stated = plan.settings("moments", FlooredMoments)
        matrix = smat(np.asarray(released["moments"]), stated.columns + 1)
        return cls(matrix, plan.shape.n, stated.scale, stated.target_scale, stated.floor)

    def _choose(self, target: int | None, features: Sequence[int] | None) -> tuple[int, list[int], Vector, Vector, float]:
        """(the target, the other columns, their moments, those with the target, the scale of the target)."""
        last = len(self.matrix) - 1
        target = last if target is None else target
        chosen = [j for j in range(last) if j != target] if features is None else list(features)
        if target in chosen or not 0 <= target <= last or not all(0 <= j < last for j in chosen):
            raise ValueError(f"Expected a target and other columns among 0 … {last}, found {target} and {chosen}.")
        gram, cross = self.matrix[np.ix_(chosen, chosen)], self.matrix[chosen, target]
        return target, chosen, gram, cross, self.target_scale if target == last else 1.0

    def coefficients(self, target: int | None = None, features: Sequence[int] | None = None, ridge: float = 0.0) -> Vector:
        """Least squares of one column (default: the label) on others (default: all of z)."""
        _, _, gram, cross, scale = self._choose(target, features)
        return solve_floored(gram, cross / scale, self.floor, ridge)

    def residual_sum(self, target: int | None = None, features: Sequence[int] | None = None, ridge: float = 0.0) -> float:
        """Σ(y - ⟨z, w⟩)² from the released moments; noise can make it negative."""
        target, chosen, gram, cross, scale = self._choose(target, features)
        w = scale * self.coefficients(target, chosen, ridge)
        return float(self.matrix[target, target] - 2 * cross @ w + w @ gram @ w) / scale**2

    def standard_errors(self, target: int | None = None, features: Sequence[int] | None = None, ridge: float = 0.0) -> Vector:
        """√diag of P(σ²A + (s²/2)(‖u‖²I + wwᵀ))P, P = (floor(A) + λI)⁻¹, u = (-w, 1): sampling and privacy noise together.

        First order in both, with the released moments plugged in; the bias of the floor is not counted. Symmetric noise E with s
        on the diagonal and s/√2 off it gives Cov(Eu) = (s²/2)(‖u‖²I + uuᵀ).
        """
        target, chosen, gram, cross, scale = self._choose(target, features)
        values, vectors = np.linalg.eigh(gram)
        raised = np.maximum(values, self.floor)
        inverse = (vectors / (raised + ridge)) @ vectors.T
        w = inverse @ cross  # for the label column times its scale
        rest = self.residual_sum(target, chosen, ridge) * scale**2
        variance = max(rest, self.scale) / self.n  # below its own noise the residual sum says nothing
        noise = self.scale**2 / 2 * ((1 + w @ w) * np.eye(len(w)) + np.outer(w, w))
        covariance = inverse @ (variance * (vectors * raised) @ vectors.T + noise) @ inverse
        return np.asarray(np.sqrt(np.diag(covariance)) / scale)

    def intervals(
        self, level: float = 0.95, target: int | None = None, features: Sequence[int] | None = None, ridge: float = 0.0
    ) -> Vector:
        """(low, high) per coefficient: estimate ± z·standard error."""
        estimate = self.coefficients(target, features, ridge)
        reach = float(ndtri(0.5 + level / 2)) * self.standard_errors(target, features, ridge)
        return np.column_stack([estimate - reach, estimate + reach])
