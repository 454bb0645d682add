"""The exponential mechanism on a bounded set of parameters.

    release w with density ∝ exp(-k·F(w)) on C,   F(w) = Σ_i ℓ(w; d_i) + r(w)

**Theorem (pure).** If each record's loss varies by at most `loss_range` over C, then k = ε/(κ·loss_range) makes the release ε-DP:
log p_D/p_D' = -k·g(w) + const with g = F_D - F_D', which lies within an interval of length k·range(g) ≤ k·κ·loss_range.
**Theorem (Gaussian; Gopi, Lee and Liu 2022).** If F is λ-strongly convex and each loss is L-Lipschitz on C, k = μ²λ/(κL)² makes
it μ-GDP.

Corrections to the lectures: the range over the *diameter* counts, not over the radius (E6, E20); the law of least squares has
precision k·XᵀX and must be cut off at C (E8); the expected excess grows with the dimension, p/k for convex F (E7).
Proofs and measurements: `docs/theorems/exponential.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dperm.mechanisms.conditions import check_options, unmet
from dperm.mechanisms.exponential import samplers
from dperm.privacy import Approximate, Event, Gaussian, Pure, gaussian_mu, kappa
from dperm.problem import Ball, Box, Problem
from dperm.release.asks import Program, Secret, Solve
from dperm.release.plan import Plan, Shape, Stage, StageSettings, Target, UnmetNeeds, Vector, options_of, register
from dperm.terms.affine import Features
from dperm.terms.moments import GramTerm, smat

SAMPLERS = ("adaptive", "grid", "langevin")
ACCOUNTING = ("pure", "gaussian")
DIMENSIONS = 3  # of the exact samplers
EVALUATIONS = 3e8  # row-by-cell evaluations that a default grid may cost


@dataclass(frozen=True, eq=False)
class Sampling(StageSettings):
    """The law, and how often an exact sampler tries or into how many cells it cuts."""

    rate: float
    sampler: str
    accounting: str
    parameters: int
    rounds: int | None = None
    cells_per_axis: int | None = None
    LEFT_OUT: ClassVar[tuple[str, ...]] = ("rounds", "cells_per_axis")


@dataclass(frozen=True, eq=False)
class ChainSampling(Sampling):
    """A Markov chain in place of an exact sampler."""

    steps: int = 0
    step_size: float = 0.0
    total_variation: float | None = None


@register
@dataclass(frozen=True)
class Exponential:
    """Draw the parameters themselves from a density that favours a small loss.

    **Guarantee**: ε-DP or μ-GDP under the target's relation for the exact samplers.

    Parameters
    ----------
    sampler : {"adaptive", "grid", "langevin"} or None, default None
        None takes "adaptive" (exact) for convex losses, else "grid" (exact for its own piecewise constant density), both
        for at most 3 parameters. "langevin" is a Markov chain for any dimension: its distance from the law is not
        certified, so it must be asked for by name and the certificate calls it HEURISTIC.
    accounting : {"pure", "gaussian"}
        "pure" (k = ε/(κ·range)), or "gaussian" (strongly convex F: k = μ²λ/(κL)²).
    cells : int or None
        Cells of the grid per axis.
    steps : int or None
        Steps of the chain.
    step_size : float or None
        Step size of the chain.
    total_variation : float or None
        A bound ζ that the caller has for the chain. The event becomes (ε, (1+e^ε)ζ).

    Examples
    --------
    >>> Exponential(sampler="grid", cells=100).name
    'exponential'
    """

    sampler: str | None = None
    accounting: str = "pure"
    cells: int | None = None
    steps: int | None = None
    step_size: float | None = None
    total_variation: float | None = None

    name: ClassVar[str] = "exponential"
    only_sums: ClassVar[bool] = False  # draws more than Gaussian noise on sums, so not by the exact sampler

    def __post_init__(self) -> None:
        words = {"sampler": (None, *SAMPLERS), "accounting": ACCOUNTING}
        check_options(self, among=words, positive=["cells", "steps", "step_size"])
        if self.total_variation is not None and not 0 <= self.total_variation < 1:
            raise ValueError(f"Expected 0 ≤ total_variation < 1, found {self.total_variation}.")

    def missing(self, problem: Problem, target: Target) -> list[str]:
        sampler, gaussian = self._sampler(problem), self.accounting == "gaussian"
        needs = unmet({
            "a bounded domain: a ball (radius=) or a box with its dimension":
                not isinstance(problem.domain, Ball | Box) or not math.isfinite(problem.domain.radius),
            "a loss of one margin": problem.loss.margins != 1,
            "a finite loss range over the domain (bounded rows, labels and parameters)":
                self.accounting == "pure" and not math.isfinite(problem.constants.loss_range),
            "delta > 0 with accounting='gaussian'": gaussian and target.delta == 0,
            "a convex loss and a strongly convex regularizer with accounting='gaussian' (regularization=)":
                gaussian and not (problem.loss.convex and problem.regularizer.strong_convexity > 0),
            "a finite Lipschitz constant over the domain with accounting='gaussian'":
                gaussian and not math.isfinite(problem.constants.lipschitz),
            "sampler='adaptive' or 'langevin' with accounting='gaussian' (a grid density is not log-concave)":
                gaussian and sampler == "grid",
            "a convex loss for sampler='adaptive' (use sampler='grid')": sampler == "adaptive" and not problem.loss.convex,
            "a smooth loss for sampler='langevin'": sampler == "langevin" and not math.isfinite(problem.constants.smoothness),
            "cells= only with sampler='grid'": self.cells is not None and sampler != "grid",
        })
        if sampler != "langevin":
            chain = {"steps": self.steps, "step_size": self.step_size, "total_variation": self.total_variation}
            needs += [f"{label}= only with sampler='langevin'" for label, given in chain.items() if given is not None]
        if self.total_variation is not None:
            spent = _spilled(target.epsilon, self.total_variation)
            needs += unmet({
                "accounting='pure' with total_variation=": self.accounting != "pure",
                f"delta ≥ (1 + e^epsilon)·total_variation = {spent:.3g} (found {target.delta:g})": spent > target.delta,
            })
        return needs

    def _sampler(self, problem: Problem) -> str:
        return self.sampler or ("adaptive" if problem.loss.convex else "grid")

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan:
        p, sampler = shape.parameters(problem), self._sampler(problem)
        if p > DIMENSIONS and sampler != "langevin":
            need = f"at most {DIMENSIONS} parameters for an exact sampler, found {p} (sampler='langevin' is heuristic)"
            raise UnmetNeeds(self.name, [need])
        problem.domain.in_dimension(p)
        event, rate = self._event(problem, target)
        settings = Sampling(rate, sampler, self.accounting, p)
        assumptions: tuple[str, ...] = ()
        if sampler == "adaptive":
            settings = replace(settings, rounds=_rounds(problem, shape.n, p, rate))
        elif sampler == "grid":
            most = min(max(EVALUATIONS / shape.n, 4096.0), 65536.0)
            settings = replace(settings, cells_per_axis=int(self.cells or math.floor(most ** (1 / p) + 1e-9)))
        else:
            bend = rate * (shape.n * problem.constants.smoothness + _finite(problem.regularizer.smoothness))
            step_size = float(self.step_size or 0.5 / (bend * p ** (1 / 3)))
            steps, spill = int(self.steps or 1000), self.total_variation
            settings = ChainSampling(rate, sampler, self.accounting, p, None, None, steps, step_size, spill)
            if self.total_variation is None:
                assumptions = ("HEURISTIC: the Markov chain is assumed to have reached its law; no bound certifies that",)
            else:
                assumptions = (f"UNVERIFIED: the chain is within total variation {self.total_variation:g} of its law",)
        stage = Stage("sample", event, settings)
        return Plan(self.name, options_of(self), (stage,), target, shape, assumptions)

    def _event(self, problem: Problem, target: Target) -> tuple[Event, float]:
        """k·range = ε, or k = μ²λ/(κL)²; κ counts the rows of a person."""
        change = kappa(target.relation) * target.rows_per_person
        if self.accounting == "gaussian":
            mu = gaussian_mu(target.epsilon, target.delta)
            return Gaussian(mu), mu**2 * problem.regularizer.strong_convexity / (change * problem.constants.lipschitz) ** 2
        rate = target.epsilon / (change * problem.constants.loss_range)
        if self.total_variation is not None:
            return Approximate(target.epsilon, _spilled(target.epsilon, self.total_variation)), rate
        return Pure(target.epsilon), rate

    def program(self, plan: Plan, problem: Problem) -> Program:
        settings, p = plan.settings("sample", Sampling), plan.shape.parameters(problem)

        def sample(secret: Secret) -> Vector:
            generator, rate = secret.noise.generator(), settings.rate
            if settings.cells_per_axis is not None:
                centres, sides = samplers.grid_cells(problem, p, settings.cells_per_axis)
                values = secret.sum(samplers.ObjectiveTerm(problem, centres, values_only=True))[:, 0]
                values = values + np.array([problem.regularizer.value(c) for c in centres])
                return samplers.grid_sample(values, centres, sides, rate, generator)
            objective = exact_objective(problem, secret, p)
            if isinstance(settings, ChainSampling):
                start = np.asarray(problem.domain.project(np.zeros(p)))
                inside, step, steps = problem.domain.contains, settings.step_size, settings.steps
                return samplers.langevin(objective, inside, start, rate, step, steps, generator)
            low, high = samplers.cover(problem, p)
            radius = problem.domain.radius if isinstance(problem.domain, Ball) else None
            return samplers.adaptive_sample(objective, low, high, rate, settings.rounds or 0, radius, generator)

        drawn = np.asarray(problem.domain.project((yield Solve(("sample",), sample, (p,)))))
        step = 2.0 ** (math.floor(math.log2(problem.domain.diameter)) - 40)  # a public grid; rounding is post-processing
        return np.asarray(np.rint(drawn / step) * step)


def exact_objective(problem: Problem, secret: Secret, p: int) -> samplers.Evaluated:
    """F, ∇F and the diagonal of ∇²F at many candidates: from the second moments for the squared loss, else one pass each time."""
    regularizer = problem.regularizer
    moments: Vector | None = None
    if problem.loss.name == "squared":
        norm = math.hypot(problem.row_norm, problem.data.y.radius)
        moments = smat(secret.sum(GramTerm(Features(problem.data.intercept), norm, 1.0)), p + 1)

    def objective(candidates: Vector) -> tuple[Vector, Vector, Vector]:
        if moments is not None:
            gram, cross = moments[:p, :p], moments[:p, p]
            slopes = candidates @ gram - cross
            values = 0.5 * np.einsum("ij,ij->i", candidates, slopes - cross) + 0.5 * moments[p, p]
            bends = np.broadcast_to(np.diag(gram), candidates.shape)
        else:
            sums = secret.sum(samplers.ObjectiveTerm(problem, candidates))
            values, slopes, bends = sums[:, 0], sums[:, 1 : 1 + p], sums[:, 1 + p :]
        values = values + np.array([regularizer.value(w) for w in candidates])
        slopes = slopes + np.array([regularizer.gradient(w) for w in candidates])
        return values, slopes, np.asarray(bends + _finite(regularizer.smoothness))

    return objective


def _rounds(problem: Problem, n: int, p: int, rate: float) -> int:
    """Enough halvings to reach the width of the narrowest possible law, from public constants, and some more to refine it."""
    constants = problem.constants
    if math.isfinite(constants.smoothness):
        bits = 0.5 * math.log2(1 + rate * n * constants.smoothness * constants.diameter**2)
    else:
        bits = math.log2(1 + rate * n * constants.lipschitz * constants.diameter)
    return math.ceil(p * bits) + 12


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _spilled(epsilon: float, distance: float) -> float:
    """δ of a law within total variation ζ of an ε-DP one, on both sides: (1 + e^ε)·ζ."""
    return (1 + math.exp(epsilon)) * distance
