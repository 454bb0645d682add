"""A private last layer: softmax on embeddings of length 1, by clipped noisy descent in the eigenbasis of noisy second moments.

    A = Σ zzᵀ + noise = V diag(λ) Vᵀ;   u = diag(√(f/max(λ, f)))·Vᵀz;   s = Σ‖u‖² + noise,   m = s/n
    θ ← θ - η·V,   V ← 0.9·V + ( Σ_i clip_C(∇ℓ_i(θ)) + N(0, σ²I) )/n;   the mean of the second half of the iterates

**Theorem.** Rows are brought to length 1, each alone. A has sensitivity 1 in Frobenius norm (√2 for a replaced row), s has 1 and
a gradient sum κC, by the clip. Directions and floor follow from A and public numbers, C and η from s. By adaptive composition the
whole is √(μ_A² + μ_s² + μ_θ²) = μ(ε, δ)-GDP. Proof, the rule, and what was tried beside it: `docs/theorems/heads.md`.

Why it needs no tuning: in units where rows have mean square 1, the noise of a *margin* after flow time τ is 0.8·Cτ/(μn), whatever
the spectrum is, and the best flow time had Cτ/(μn) near 2 on every table of embeddings that was tried.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dperm.mechanisms.conditions import GAUSSIAN, check_options, unmet
from dperm.mechanisms.scaled import settings as rule
from dperm.privacy import Gaussian, gaussian_mu
from dperm.problem import Problem
from dperm.release.asks import Asking, Close, Decide, Open, Program, See, Sum, unrecorded
from dperm.release.noise import gaussian_scale
from dperm.release.plan import Plan, Settings, Shape, Stage, Target, Vector, options_of, register
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm
from dperm.terms.heads import Directions, MeanSquare, UnitMoments, Whitening
from dperm.terms.heads_device import TensorDirections

STEPS = 400
CLIP = 0.2  # in units of the root mean square row
HORIZON = 2.0
SIZE_SHARE = 0.005
FLOOR = 0.3  # of the largest eigenvalue that noise alone has
CURVATURE = 0.5  # of softmax, in any direction
MOST_COLUMNS, MOST_CLASSES = 8192, 10_000


def moments_share(d: int) -> float:
    """Share of μ² for the d² moments: 10 % at 4,096 columns, less for fewer.

    >>> moments_share(4096), moments_share(256), moments_share(10)
    (0.1, 0.025, 0.02)
    """
    return min(max(0.1 * math.sqrt(d / 4096), 0.02), 0.1)


class OnUnitRows:
    """What mechanisms for rows of length 1 have in common."""

    linear: ClassVar[bool] = False  # its coefficients are those of rows of length 1: other estimators refuse it
    per_column: ClassVar[bool] = False  # … so that a record states none in the caller's units

    def missing(self, problem: Problem, target: Target) -> list[str]:
        penalised = problem.regularizer.name != "none" or problem.domain.spec()["name"] != "whole-space"
        return unmet({
            GAUSSIAN: target.delta == 0,
            f"classes, with the multinomial loss (found {problem.loss.name!r})": problem.loss.name != "multinomial",
            "no intercept (a direction that all rows share takes its place)": problem.data.intercept,
            "rows without a feature map (it brings rows to length 1 itself)": problem.feature_map is not None,
            "no regularizer and no domain (the flow time regularizes)": penalised,
        })


@register
@dataclass(frozen=True)
class Heads(OnUnitRows):
    """Softmax on embeddings.

    steps     of the descent; 400 if left out
    clip      of a row's gradient, in units of the root mean square row; 0.2 if left out
    horizon   Cτ/(μn), which is about the standard deviation of a margin's noise; 2 if left out

    **Guarantee**: μ(ε, δ)-GDP, hence (ε, δ), for the target's relation. Nothing is assumed of the rows.

    >>> Heads().name
    'heads'
    """

    steps: int | None = None
    clip: float | None = None
    horizon: float | None = None

    name: ClassVar[str] = "heads"

    def __post_init__(self) -> None:
        check_descent(self, self.steps)

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        check_size(self.name, problem, shape)
        before, left = first_stages(moments_share(shape.d), shape, target, FLOOR)
        descent = Stage("descent", Gaussian(left), public_settings(self.steps, self.clip, self.horizon))
        return Plan(self.name, options_of(self), (*before, descent), target, shape)

    def program(self, plan: Plan, problem: Problem) -> Program:
        classes = problem.loss.margins
        directions = yield from directions_of(plan, classes)
        settings = descent_settings(plan, (yield Sum("size", MeanSquare())))
        yield Decide(settings)
        theta = directions.zeros(classes)  # on the device of the rows, where they are on one
        theta = yield from descended(plan, problem, settings, Features(), theta)
        # In single precision, which a file of a large model can hold: rounding what is released is nobody's loss of privacy.
        return np.asarray(directions.back(theta), dtype=np.float32).astype(np.float64).reshape(-1)


def check_size(name: str, problem: Problem, shape: Shape) -> None:
    """More columns or classes than the arithmetic was proven for are refused."""
    if shape.d > MOST_COLUMNS or problem.loss.margins > MOST_CLASSES:
        raise ValueError(
            f"Expected at most {MOST_COLUMNS:,} columns and {MOST_CLASSES:,} classes for {name!r}, found {shape.d:,} and "
            f"{problem.loss.margins:,}. Project the embeddings to fewer columns by a public matrix."
        )


def first_stages(share: float, shape: Shape, target: Target, floor: float) -> tuple[tuple[Stage, Stage], float]:
    """The releases of Σ zzᵀ, which takes that share of μ², with the floor of its eigenvalues, and of Σ‖u‖²; and the μ left."""
    mu = gaussian_mu(target.epsilon, target.delta) * (1 - 1e-12)  # square roots round; never round up a budget
    first, second, left = mu * math.sqrt(share), mu * math.sqrt(SIZE_SHARE), mu * math.sqrt(1 - share - SIZE_SHARE)
    noise = gaussian_scale(UnitMoments(shape.d).sensitivity(target.relation) * target.rows_per_person, first)
    moments = {"rows": "length 1", "noise": noise, "floor": floor_of(noise, shape.d, floor)}
    size = {"noise": gaussian_scale(target.rows_per_person, second)}
    return (Stage("moments", Gaussian(first), moments), Stage("size", Gaussian(second), size)), left


def mean_square(plan: Plan, size: Vector) -> float:
    """Of whitened rows, from the noisy Σ‖u‖²: at least its noise, at most 1."""
    found = np.asarray(size, dtype=np.float64).reshape(-1)
    if len(found) != 1:
        raise ValueError(f"Expected one number for the size of the whitened rows, found {len(found)}.")
    return float(min(max(found.item(), plan.stage("size").settings["noise"]) / plan.shape.n, 1.0))


def directions_of(plan: Plan, classes: int) -> Asking[Directions | TensorDirections]:
    """Release the moments, and see rows in their eigenbasis from here on."""
    d, moments = plan.shape.d, plan.stage("moments")
    noisy = yield from unrecorded("moments", UnitMoments(d), moments.event.gdp(), (d * (d + 1) // 2,))  # no decision follows
    found: Directions | TensorDirections = yield See(Whitening(noisy, d, moments.settings["floor"], classes))
    return found


def check_descent(mechanism: object, steps: int | None) -> None:
    """Options of the descent that are no numbers of the right kind are refused."""
    check_options(mechanism, positive=("clip", "horizon"), whole=("steps",))
    if steps == 1:
        raise ValueError("Expected steps as a whole number ≥ 2, found 1.")


def public_settings(steps: int | None, clip: float | None, horizon: float | None, usual: float = HORIZON) -> Settings:
    """What a plan says of the descent; `usual` is the horizon where none is given."""
    return {
        "steps": STEPS if steps is None else int(steps),
        "clip_factor": CLIP if clip is None else float(clip),
        "horizon": usual if horizon is None else float(horizon),
        "momentum": rule.MOMENTUM,
        "given": ["rule" if value is None else value for value in (steps, clip, horizon)],
    }


def descended(plan: Plan, problem: Problem, settings: Settings, features: Features, theta: Vector) -> Asking[Vector]:
    """Heavy ball from θ; the mean of the second half of the iterates. Where θ is a tensor on a device, so is all the rest."""
    velocity, kept, steps = 0.0 * theta, 0.0 * theta, plan.stage("descent").settings["steps"]
    momentum = settings.get("momentum", rule.MOMENTUM)
    yield Open("descent", sums=steps)
    for step in range(steps):
        term = GradientTerm(problem.loss, theta.reshape(-1), settings["clip"], features)
        gradient = yield Sum("descent", term, mu=settings["step_mu"], shape=theta.shape)
        velocity = momentum * velocity + gradient / plan.shape.n
        theta = theta - settings["step_size"] * velocity
        if step >= steps // 2:
            kept = kept + theta
    yield Close("descent")
    mean: Vector = kept / (steps - steps // 2)
    return mean


def floor_of(noise: float, d: int, part: float = FLOOR) -> float:
    """f = 0.3·2s√(d/2): the noise alone, s on the diagonal and s/√2 off it, has eigenvalues up to 2s√(d/2)."""
    return part * 2 * noise * math.sqrt(d / 2)


def largest_moment(plan: Plan, mean_square: float) -> float:
    """Bound on the second moment of whitened rows in any direction."""
    return float(min(plan.stage("moments").settings["floor"] / plan.shape.n, mean_square))


def descent_settings(plan: Plan, size: Vector, room: float = 1.0) -> Settings:
    """Clip and step size from the noisy Σ‖u‖². Rows with mean square m and flow time τ/m are rows with mean square 1 and τ.

    The step is stable below 3.8/(curvature·largest second moment), which is about f/n in these coordinates, and at most m; `room`
    is how many times that it may be.
    """
    public, n = plan.stage("descent").settings, plan.shape.n
    mu = plan.stage("descent").event.gdp() or 0.0
    square = mean_square(plan, size)
    largest = largest_moment(plan, square)
    flow = public["horizon"] * rule.effective_mu(mu, plan.target) * n / (public["clip_factor"] * square)
    longest = 0.85 * 2 * (1 + rule.MOMENTUM) / (CURVATURE * room * largest)
    return {
        "mean_square": square,
        "clip": public["clip_factor"] * math.sqrt(square),
        "flow_time": flow,
        "step_size": min((1 - rule.MOMENTUM) * flow / public["steps"], longest),
        "step_mu": mu / math.sqrt(public["steps"]) * (1 - 1e-12),
    }
