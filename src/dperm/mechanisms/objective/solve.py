"""The tilted minimiser and its release, for any mechanism that perturbs an objective.

What other mechanisms use:

    rows = weighted_rows(loss, features, y, row_radius=R_z, row_cap=r_m)         # plain rows: R_z = r_m = row_norm
    event = ObjectiveEvent("self-bounding", shift=D, curvature=C·R_z·r_m/λ, replace=relation == "replace-one")
    D = calibrate_shift(epsilon, delta, curvature=…, relation=…, mu_pre=√(Σμ² of every Gaussian release, output step included))
    w = yield solve_for_minimiser(plan, rows, y, ridge=λ, magnitude=…, centre=prior)

The ask books the events of the stages "objective" and "output", draws b with σ = W·L·R_z/D (softmax: W·R_z/D), minimises
Σ ω_i φ(⟨z_i, w⟩; y_i) + (λ/2)‖w − centre‖² + ⟨b, w⟩ to a public gradient tolerance, and pays for the inexactness with the output
step. λ and the radii may come from earlier releases as long as curvature ≥ C·R_z·r_m/λ holds for the booked event. `magnitude`
bounds ‖scale∘x‖ + ‖scale∘shift‖ + intercept over all rows: what the arithmetic of a margin sees.

**When the number of rows is protected** (add-remove) the tolerance needs a bound on it, for rounding grows with the rows:
`most_rows`, which the caller declares. It is part of the guarantee, which speaks of tables of at most so many rows, and of the
code: rows after the first `most_rows` do not count. (In a larger table a row that goes makes room for another: the answer is then
as private as a replaced row is, which two changes of one row pay for.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dperm.privacy import Event, Gaussian, ObjectiveEvent, Pure
from dperm.privacy.relations import ADD_REMOVE
from dperm.problem import Interval, Loss, Problem
from dperm.problem.plain import shown
from dperm.release.asks import Secret, Solve
from dperm.release.noise import RELEASE_SLACK, Noise, gamma_norm_vector, gaussian_scale, release
from dperm.release.plan import Plan, Vector
from dperm.rows.base import BLOCK_ROWS, Block
from dperm.rows.recoded import RecodedRows
from dperm.solvers import Solution, minimise
from dperm.terms.affine import Features
from dperm.terms.objective import HessianProductTerm, MinimiserTerm, WeightedRows

# Losses that are never negative: then the objective at its centre bounds the norm of the minimiser.
NON_NEGATIVE = ("logistic", "multinomial", "softplus-hinge", "huberized-hinge", "huber", "log-cosh", "squared")


def weighted_rows(
    loss: Loss, features: Features, y: Interval, *, row_radius: float, row_cap: float, max_weight: float = 1.0
) -> WeightedRows:
    """Rows of an unconstrained problem, with the slope and curvature bounds of the loss over all margins.

    >>> from dperm.problem import Interval, LogisticLoss
    >>> weighted_rows(LogisticLoss(), Features(), Interval(-1, 1), row_radius=2.0, row_cap=4.0).hessian_bound
    2.0
    """
    bounds = loss.bounds(math.inf, y)
    return WeightedRows(loss, features, row_radius, row_cap, bounds.slope, bounds.curvature, max_weight)


def declared_rows(problem: Problem, max_weight: float = 1.0) -> WeightedRows:
    """Rows of the declared norm as they are: neither weighted down nor capped."""
    norm, features = problem.row_norm, Features(problem.data.intercept)
    return weighted_rows(problem.loss, features, problem.data.y, row_radius=norm, row_cap=norm, max_weight=max_weight)


def checked_most_rows(declared: object) -> None:
    """A whole number, "nominal", or None where n is public."""
    whole = isinstance(declared, int) and not isinstance(declared, bool) and declared >= 1
    if not (declared is None or declared == "nominal" or whole):
        raise ValueError(f"Expected most_rows= as a whole number ≥ 1, or 'nominal', found {shown(declared)}. Pass one of them.")


def unbounded_rows(declared: object, relation: str) -> list[str]:
    """The need that a minimiser has where the number of rows is protected and nobody bounded it."""
    if relation != ADD_REMOVE or declared is not None:
        return []
    return [
        "most_rows=, a public bound on the number of rows, under relation='add-remove', because the arithmetic of a minimiser "
        "needs one (pass the mechanism with it; 'scaled-gradient', 'gradient' and 'output' need none)"
    ]


def row_limit(declared: object, relation: str, n: int) -> int:
    """The number of rows that count at most: n where it is public, otherwise what was declared."""
    return n if relation != ADD_REMOVE or not isinstance(declared, int) else declared


class Numbered:
    """Some of the rows, chosen by their numbers: the others get weight 0."""

    def chosen(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which rows count."""
        raise NotImplementedError

    def block(self, block: Block) -> Block:
        counts = self.chosen(block.numbers).astype(np.float64)
        weight = counts if block.weight is None else counts * block.weight
        return Block(block.X, block.y, weight, block.start, block.memory)


@dataclass(frozen=True, eq=False)
class First(Numbered):
    """The first `limit` rows."""

    limit: int

    def chosen(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        return numbers < self.limit


@dataclass(frozen=True)
class TiltedObjective:
    """J(w) = Σ ω_i φ(⟨z_i, w⟩; y_i) + (λ/2)‖w − centre‖² + ⟨tilt, w⟩ through exact sums; one pass for gradient and Hessian."""

    secret: Secret
    rows: WeightedRows
    ridge: float
    centre: Vector
    tilt: Vector

    def gradient(self, w: Vector) -> Vector:
        return self.secret.sum(MinimiserTerm(self.rows, w, False)) + self._rest(w)

    def gradient_and_hessian(self, w: Vector) -> tuple[Vector, Vector]:
        p = w.size
        total = self.secret.sum(MinimiserTerm(self.rows, w, True))
        hessian = total[p:].reshape(p, p)
        return total[:p] + self._rest(w), (hessian + hessian.T) / 2 + self.ridge * np.eye(p)

    def hessian_product(self, w: Vector, direction: Vector) -> Vector:
        return self.secret.sum(HessianProductTerm(self.rows, w, direction)) + self.ridge * direction

    def _rest(self, w: Vector) -> Vector:
        return np.asarray(self.ridge * (w - self.centre) + self.tilt)


def solve_objective(
    secret: Secret, rows: WeightedRows, *, ridge: float, tilt: Vector, tolerance: float, centre: Vector | None = None
) -> Solution:
    """argmin J inside a solve, to a *computed* gradient norm ≤ tolerance.

    The convergence proof reaches the tolerance for any data, as long as it is above the rounding of as many rows as there are. A
    ridge of 1e-9 of one row's curvature took 1,800 steps at worst; the cap (100,000) only ends a loop that a bug would not. No
    other value stands in for the last iterate: which of two is let out would be a decision on private data.
    """
    start = np.zeros_like(tilt) if centre is None else centre
    return minimise(TiltedObjective(secret, rows, ridge, start, tilt), start, tolerance)


def norm_bound(rows: WeightedRows, y: Interval, *, n: int, ridge: float, tilt: float, centre: float = 0.0) -> float:
    """‖w‖ ≤ centre + min{ (nWLR_z + B)/λ, (B + √(B² + 2λnV))/λ }, B ≥ ‖b‖, V a bound of one row's loss at the centre.

    The first: J is λ-strongly convex and its gradient at the centre is at most nWLR_z + B. The second, for losses ≥ 0
    and r = ‖w − centre‖: J(w) ≤ J(centre) gives (λ/2)r² − Br ≤ nV.
    """
    direct = (n * rows.gradient_bound + tilt) / ridge
    if rows.loss.name in NON_NEGATIVE:
        value = rows.max_weight * rows.loss.bounds(rows.row_cap * centre, y).range
        direct = min(direct, (tilt + math.sqrt(tilt**2 + 2 * ridge * n * value)) / ridge)
    return centre + direct


def gradient_error(
    rows: WeightedRows, *, n: int, width: int, magnitude: float, ridge: float, norm: float, fine: bool = False
) -> float:
    """A public bound on ‖computed − true gradient‖ of the sums, for every data set of n rows and every ‖w‖ ≤ norm.

    u = 2⁻⁵³. A margin of `width` products errs by (width+8)·u·magnitude·‖w‖, its slope by sup φ'' times that and 8uL; a block
    adds at most BLOCK_ROWS products of slope and row; each block is rounded to the grid of the sum; the ridge adds 4uλ‖w‖.
    `fine` takes the grid as it is, which has not grown beyond 2¹⁶ rows since sums have two limbs; older records state the other.
    """
    u = 2.0**-53
    slope_error = rows.curvature * (width + 8) * u * magnitude * norm + 8 * u * rows.slope
    row = (BLOCK_ROWS + 8) * u * rows.slope * magnitude + slope_error * rows.row_radius
    grid = 2 * (min(n, 1 << 16) if fine else n) * max(rows.gradient_bound, rows.hessian_bound) * 2.0**-52
    size = math.sqrt(width * rows.loss.margins)
    return n * rows.max_weight * row + math.ceil(n / BLOCK_ROWS) * grid / 2 * size + 4 * u * ridge * norm


def tilt_bound(scale: float, p: int, pure: bool) -> float:
    """‖b‖ but for a probability below 1e-30: σ(√p + 12), or scale·(p + 12√p + 72) for Gamma(p) norms."""
    return scale * (p + 12 * math.sqrt(p) + 72 if pure else math.sqrt(p) + 12)


def gradient_tolerance(
    rows: WeightedRows, y: Interval, *, n: int, columns: int, ridge: float, scale: float, pure: bool, magnitude: float,
    centre: float = 0.0,
) -> float:  # fmt: skip
    """The public tolerance τ for the computed gradient; the true gradient is then at most 2τ.

    τ is the arithmetic error bound itself, so that it is reachable (real rounding is far smaller) and yet as small as can be
    certified; at least 2⁻⁴⁰ of one row's gradient.
    """
    width = rows.features.width(columns)
    p = rows.loss.margins * width
    norm = norm_bound(rows, y, n=n, ridge=ridge, tilt=tilt_bound(scale, p, pure), centre=centre)
    error = gradient_error(rows, n=n, width=width, magnitude=magnitude, ridge=ridge, norm=norm)
    return max(error, rows.gradient_bound * 2.0**-40)


def output_noise(value: Vector, *, sensitivity: float, event: Event, noise: Noise) -> Vector:
    """A value that neighbours may have so far apart, released so that `event` pays for the difference: Gaussian noise of scale
    sensitivity/μ, or a vector with density ∝ exp(−ε‖v‖/sensitivity)."""
    if isinstance(event, Gaussian):
        return release(value, sensitivity=sensitivity, mu=event.mu, noise=noise)
    if not isinstance(event, Pure):
        raise ValueError(f"Expected a Gaussian or Pure output event, found {event}.")
    scale = RELEASE_SLACK * sensitivity / event.epsilon
    step = 2.0 ** math.floor(math.log2(scale * 2.0**-20))
    return np.asarray(np.rint((value + gamma_norm_vector(value.size, scale, noise)) / step) * step)


def solve_for_minimiser(
    plan: Plan, rows: WeightedRows, y: Interval, *, ridge: float, magnitude: float, columns: int | None = None,
    centre: Vector | None = None, scale: float | None = None, most_rows: object = None,
) -> Solve:  # fmt: skip
    """The ask to tilt, minimise, and let the noisy minimiser out, paid by the plan's stages "objective" and "output".

    **Guarantee**: the composition of both events, provided that the first is an objective event with shift D and curvature
    ≥ C·W·R_z·r_m/λ, or a pure event proven for Gamma-norm noise of the given `scale`.
    """
    event, output = plan.stage("objective").event, plan.stage("output").event
    columns = plan.shape.d if columns is None else columns
    p = rows.loss.margins * rows.features.width(columns)
    pure = isinstance(event, Pure)
    if scale is None:
        if not isinstance(event, ObjectiveEvent):
            raise ValueError("Expected scale= for an event that does not state its noise, found none.")
        # The softmax theorem counts R/σ; the √2 of its gradient is inside it.
        bound = rows.max_weight * rows.row_radius if event.form == "softmax" else rows.gradient_bound
        scale = gaussian_scale(bound, event.shift)
    start = np.zeros(p) if centre is None else np.asarray(centre, dtype=np.float64)
    limit = row_limit(most_rows, plan.target.relation, plan.shape.n)
    tolerance = gradient_tolerance(
        rows, y, n=limit, columns=columns, ridge=ridge, scale=scale, pure=pure, magnitude=magnitude,
        centre=float(np.linalg.norm(start)),
    )  # fmt: skip
    drawn_scale = scale

    def algorithm(secret: Secret) -> Vector:
        if plan.target.relation == ADD_REMOVE and secret.rows.n > limit:
            secret = replace(secret, rows=RecodedRows(secret.rows, First(limit)))
        tilt = gamma_norm_vector(p, drawn_scale, secret.noise) if pure else secret.noise.normal(drawn_scale, p)
        solution = solve_objective(secret, rows, ridge=ridge, tilt=tilt, tolerance=tolerance, centre=start)
        # Both data sets' computed minimisers lie within 2τ/λ of the same exact one, hence twice that apart.
        return output_noise(solution.w, sensitivity=2 * (2 * tolerance / ridge), event=output, noise=secret.noise)

    return Solve(("objective", "output"), algorithm, (p,))
