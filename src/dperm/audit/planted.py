"""Eleven bugs on purpose, each beside its correct version: the auditor's own examination.

A bug is planted in the real mechanism where it lives there (a subclass that does one thing wrong, a faulty noise source) and in a
small objective perturbation of its own where the theorem is what is broken. Both versions are audited against the same claim.

With confidence 0.999 an audit accuses a correct version with probability at most 0.001, the eleven together with at most 1.1 %.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dperm.audit.intervals import Neighbours
from dperm.audit.objective import chaudhuri_calibration, minimise
from dperm.audit.repeated import repeated
from dperm.audit.transcript import transcript
from dperm.audit.trials import Distinguished, distinguish
from dperm.mechanisms.gradient import Gradient
from dperm.mechanisms.scaled.inference import ScaledInference
from dperm.mechanisms.schedule import Descent
from dperm.privacy import GDP, ApproxDP, Guarantee, PureDP, compose, gaussian_mu
from dperm.problem import DataBounds, Interval, LogisticLoss, Problem, Ridge, SquaredLoss
from dperm.problem.arrays import Vector
from dperm.release.asks import Close, Open, Program, See, Sum
from dperm.release.noise import SecureNoise, gamma_norm_vector
from dperm.release.plan import Plan, Shape, Target
from dperm.rows import MemoryRows
from dperm.rows.base import Block, Rows, Term, TermView, sum_step
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm
from dperm.terms.inference import CurvatureMatrix

Data = tuple[Vector, Vector]
CONFIDENCE = 0.999

LOGISTIC = Problem(LogisticLoss(), data=DataBounds(1.0, Interval(-1.0, 1.0)))
# One step from w = 0 with the clip at the largest gradient there attains its sensitivity, so the claim is tight.
ONE_STEP = Gradient(steps=1, step_size=1.0, clip=0.5, momentum=0.0, output="last")
PULL_UP: Data = (np.array([[0.2], [1.0]]), np.array([1.0, 1.0]))
PULL_DOWN: Data = (np.array([[0.2], [1.0]]), np.array([1.0, -1.0]))


@dataclass(frozen=True)
class Plant:
    """A bug: two fits, a pair of neighbours, the claim both versions make, and how many trials tell."""

    name: str
    broken: Callable[[Data], Vector]
    correct: Callable[[Data], Vector]
    data: Data
    neighbour: Data
    claim: Guarantee
    trials: int
    delta: float = 1e-5

    def audit(self, *, broken: bool, share: float = 1.0, processes: int = 1) -> Distinguished:
        """Audit one version; `share` below 1 runs a part of the trials."""
        return distinguish(
            self.broken if broken else self.correct,
            self.data,
            self.neighbour,
            max(40, int(self.trials * share)),
            claim=self.claim,
            delta=self.delta,
            confidence=CONFIDENCE,
            processes=processes,
        )


class HalfNoise(SecureNoise):
    """Noise ÷ 2."""

    def normal(self, scale: float, size: int | tuple[int, ...]) -> Vector:
        return super().normal(scale, size) / 2


class RepeatingNoise(SecureNoise):
    """Every vector of a size is the same one until `renew`."""

    def __init__(self) -> None:
        self.kept: dict[int | tuple[int, ...], Vector] = {}

    def normal(self, scale: float, size: int | tuple[int, ...]) -> Vector:
        if size not in self.kept:
            self.kept[size] = super().normal(1.0, size)
        return scale * self.kept[size]


class FrozenNoise(SecureNoise):
    """A forgotten seed: the same stream at every fit."""

    def normal(self, scale: float, size: int | tuple[int, ...]) -> Vector:
        return np.asarray(scale * np.random.default_rng(12345).standard_normal(size))


@dataclass(frozen=True, eq=False)
class OneSided(TermView):
    """A term that states its sensitivity for a row nulled, whatever the relation."""

    def seen(self, block: Block) -> Block:
        return block

    def sensitivity(self, relation: str) -> float:
        return self.term.sensitivity("zero-out")


def _with_terms(honest: Program, change: Callable[[Term], Term]) -> Program:
    """The same program, asking for sums of other terms."""
    answer = None
    while True:
        try:
            ask = honest.send(answer)
        except StopIteration as end:
            return np.asarray(end.value)
        answer = yield replace(ask, term=change(ask.term)) if isinstance(ask, Sum) else ask


@dataclass(frozen=True)
class WithoutFactorTwo(Gradient):
    """Scales noise to C where replace-one needs 2C."""

    def program(self, plan: Plan, problem: Problem) -> Program:
        return (yield from _with_terms(super().program(plan, problem), OneSided))


@dataclass(frozen=True)
class Unclipped(Gradient):
    """Books the clip and forgets to apply it."""

    def program(self, plan: Plan, problem: Problem) -> Program:
        clip = plan.settings("descent", Descent).clip
        return Gradient(bound="assumed", assumed_bound=clip, output=self.output).program(plan, problem)


@dataclass(frozen=True)
class AverageAsLast(Gradient):
    """Pays for the last iterate and releases the average."""

    def program(self, plan: Plan, problem: Problem) -> Program:
        return Gradient(output="average", accounting="hidden-state").program(plan, problem)


@dataclass(frozen=True, eq=False)
class HalfSensitive(TermView):
    """A term that states half of its sensitivity."""

    def seen(self, block: Block) -> Block:
        return block

    def sensitivity(self, relation: str) -> float:
        return self.term.sensitivity(relation) / 2


@dataclass(frozen=True)
class HalvedCurvature(ScaledInference):
    """Intervals whose curvature matrix has half of its noise."""

    def program(self, plan: Plan, problem: Problem) -> Program:
        return (yield from _with_terms(super().program(plan, problem), _half_if_curvature))


def _half_if_curvature(term: Term) -> Term:
    return HalfSensitive(term) if isinstance(term, CurvatureMatrix) else term


@dataclass(frozen=True, eq=False)
class Peek:
    """A view that changes nothing and tells something about the rows: what no view may do."""

    tell: Callable[[Rows], object]

    def of(self, rows: Rows) -> tuple[Rows, object]:
        return rows, self.tell(rows)

    def unseen(self) -> None:
        return None


@dataclass(frozen=True)
class ExactCount(Gradient):
    """Divides by the number of rows, which add-remove protects."""

    def program(self, plan: Plan, problem: Problem) -> Program:
        true = yield See(Peek(lambda rows: rows.n))
        return (yield from super().program(replace(plan, shape=Shape(true, plan.shape.d)), problem))


@dataclass(frozen=True)
class StopsWhenDone(Gradient):
    """Stops as soon as the exact gradient is small, and books all steps."""

    def program(self, plan: Plan, problem: Problem) -> Program:
        settings = plan.settings("descent", Descent)
        w, stopped, mu = np.zeros(plan.shape.parameters(problem)), False, settings.step_mu
        yield Open("descent", sums=settings.steps)
        for _ in range(settings.steps):
            term = GradientTerm(problem.loss, w, settings.clip, Features(problem.data.intercept))
            exact = partial(_exact, term, plan.shape.n)
            stopped = stopped or bool(np.linalg.norm((yield See(Peek(exact)))) < 0.3)
            noisy = yield Sum("descent", term, mu=mu, shape=w.shape)
            if not stopped:
                w = w - settings.step_size * noisy / plan.shape.n
        yield Close("descent")
        return w


def _exact(term: GradientTerm, n: int, rows: Rows) -> Vector:
    return rows.sum(term, sum_step(term.row_bound, n))


def planted() -> list[Plant]:
    """The eleven, in the order of the list in docs/theorems/audit.md."""
    target = Target(4.0, 1e-3, "replace-one")
    mu = gaussian_mu(4.0, 1e-3)
    tight = repeated(LOGISTIC, target, ONE_STEP)
    return [
        Plant("noise ÷ 2", repeated(LOGISTIC, target, ONE_STEP, noise=HalfNoise()), tight, PULL_UP, PULL_DOWN,
              GDP(mu, "replace-one"), 2500),
        Plant("sensitivity without the factor 2", repeated(LOGISTIC, target, WithoutFactorTwo(**vars(ONE_STEP))), tight, PULL_UP,
              PULL_DOWN, GDP(mu, "replace-one"), 2500),
        _unclipped(target, mu),
        _unregularised_intercept(),
        _linear_curvature(),
        _average_as_last(),
        _exact_count(),
        _reused_noise(target, mu),
        Plant("seeded noise", repeated(LOGISTIC, target, ONE_STEP, noise=FrozenNoise()), tight, PULL_UP, PULL_DOWN,
              GDP(mu, "replace-one"), 400),
        _stopping(),
        _halved_curvature(),
    ]  # fmt: skip


def _unclipped(target: Target, mu: float) -> Plant:
    """Squared loss, |y| ≤ 1: the gradient at 0 is y·x with norm up to 1; a clip of 0.25 halves what a row may do twice."""
    problem = Problem(SquaredLoss(), data=DataBounds(1.0, Interval(-1.0, 1.0)))
    honest, broken = (repeated(problem, target, kind(**vars(ONE_STEP) | {"clip": 0.25})) for kind in (Gradient, Unclipped))
    return Plant("unclipped row", broken, honest, PULL_UP, PULL_DOWN, GDP(mu, "replace-one"), 1200)


def _unregularised_intercept() -> Plant:
    """Objective perturbation of logistic regression, add-remove, λ = R²/ε, σ = R/μ(ε, δ) (theory C4.2), x and intercept.

    Without a ridge on the intercept the minimiser is finite only where the noise is weaker than the data's own pull: with one row
    half as often as with two, so that ε ≥ ln 2 whatever was asked for.
    """
    epsilon, delta = 0.2, 1e-3
    row_norm = np.hypot(0.1, 1.0)
    sigma, ridge = row_norm / gaussian_mu(epsilon, delta), row_norm**2 / epsilon
    source = SecureNoise()

    def version(ridges: Vector) -> Callable[[Data], Vector]:
        def run(data: Data) -> Vector:
            return minimise(data[0], data[1], ridges, source.normal(sigma, 2))

        return run

    two = (np.array([[0.0, 1.0], [0.0, 1.0]]), np.array([1.0, 1.0]))
    one = (two[0][:1], two[1][:1])
    return Plant("unregularised intercept", version(np.array([ridge, 0.0])), version(np.array([ridge, ridge])), one, two,
                 ApproxDP(epsilon, delta, "add-remove"), 24_000, delta)  # fmt: skip


def _linear_curvature() -> Plant:
    """CMS objective perturbation at ε = 2, R = 100 with the Hessian bound R/4 in place of R²/4 (the error found in a peer)."""
    norm, epsilon = 100.0, 2.0
    source = SecureNoise()

    def version(curvature: float) -> Callable[[Data], Vector]:
        ridge, scale = chaudhuri_calibration(epsilon, norm, curvature, 1.0)

        def run(data: Data) -> Vector:
            return minimise(data[0], data[1], np.array([ridge]), gamma_norm_vector(1, scale, source))

        return run

    labels = np.array([1.0, -1.0])
    quiet, loud = (np.array([[0.0], [0.0]]), labels), (np.array([[0.0], [norm]]), labels)
    return Plant("curvature scaled by R instead of R²", version(norm / 4), version(norm**2 / 4), quiet, loud,
                 PureDP(epsilon, "replace-one"), 24_000, 0.0)  # fmt: skip


def _average_as_last() -> Plant:
    """A strongly contracting descent forgets: its last iterate costs little, but each iterate has fresh noise to average out."""
    problem = Problem(LogisticLoss(), Ridge(4.0), data=DataBounds(1.0, Interval(-1.0, 1.0)))
    options = vars(ONE_STEP) | {"steps": 24, "step_size": 2 / 4.25, "accounting": "hidden-state"}
    target = Target(2.0, 1e-3, "replace-one")
    honest, broken = (repeated(problem, target, kind(**options)) for kind in (Gradient, AverageAsLast))
    mu = gaussian_mu(2.0, 1e-3)
    return Plant("averaged iterate accounted as last iterate", broken, honest, PULL_UP, PULL_DOWN, GDP(mu, "replace-one"), 600)


def _exact_count() -> Plant:
    target = Target(0.5, 1e-3, "add-remove")
    honest, broken = (repeated(LOGISTIC, target, kind(**vars(ONE_STEP)), nominal_n=2) for kind in (Gradient, ExactCount))
    two = (np.array([[0.0], [0.0]]), np.array([1.0, 1.0]))
    one = (two[0][:1], two[1][:1])
    return Plant("exact n under add-remove", broken, honest, two, one, GDP(gaussian_mu(0.5, 1e-3), "add-remove"), 1600)


def _once(target: Target, source: SecureNoise) -> Callable[[Data], Vector]:
    return repeated(LOGISTIC, target, ONE_STEP, noise=source)


def _reused_noise(target: Target, mu: float) -> Plant:
    """Two fits of two targets (y and -y) on the same rows: √2·μ-GDP with fresh noise; with one noise their difference is bare."""

    def twice(data: Data, sources: tuple[SecureNoise, SecureNoise]) -> Vector:
        X, y = data
        return np.concatenate([_once(target, source)((X, labels)) for source, labels in zip(sources, (y, -y))])

    def broken(data: Data) -> Vector:
        source = RepeatingNoise()
        return twice(data, (source, source))

    def honest(data: Data) -> Vector:
        return twice(data, (SecureNoise(), SecureNoise()))

    return Plant("reused noise", broken, honest, PULL_UP, PULL_DOWN, GDP(mu * 2**0.5, "replace-one"), 400)


def _halved_curvature() -> Plant:
    """A row of full length and no residual, which uses up what the curvature matrix may show; the claim is the matrix' own.

    What is seen is (Λ + e/2)/√e of the matrix, e the energy of its shift: on the data it is N(0, 1) whatever the other sums were,
    on the neighbour N(√e, 1), and √e is at most the μ of the matrix. So it is as private as the matrix, given the other sums.
    """
    problem = Problem(SquaredLoss(), data=DataBounds.box([-1.0], [1.0], Interval(-1.0, 1.0), intercept=1.0))
    target, mechanism = Target(30.0, 1e-3, "add-remove"), ScaledInference(kinds=("numeric",))
    data, neighbour = Neighbours((0.18, 0.18), (0.3, 0.3, -0.3, -0.3), 0.0, (0.0, 0.0)).pair(target.relation)
    n = len(data[0])

    def version(kind: type[ScaledInference]) -> Callable[[Data], Vector]:
        run = repeated(problem, target, kind(**vars(mechanism)), nominal_n=n)
        rows = (MemoryRows(*data).bounded(problem.data), MemoryRows(*neighbour).bounded(problem.data))

        def observe(given: Data) -> Vector:
            with transcript(rows, own=int(given is neighbour), only=(CurvatureMatrix, HalfSensitive)) as seen:
                run(given)
            return np.array([(seen.ratio + seen.energy / 2) / seen.energy**0.5])

        return observe

    claim = compose([mechanism.plan(problem, Shape(n, 1), target).stage("curvature").event], target.relation)
    return Plant("noise of the curvature of intervals ÷ 2", version(HalvedCurvature), version(ScaledInference), data, neighbour,
                 claim, 320)  # fmt: skip


def _stopping() -> Plant:
    target = Target(4.0, 1e-3, "replace-one")
    honest, broken = (repeated(LOGISTIC, target, kind(**vars(ONE_STEP) | {"steps": 4})) for kind in (Gradient, StopsWhenDone))
    calm = (np.array([[1.0], [1.0]]), np.array([1.0, -1.0]))
    tense = (np.array([[1.0], [1.0]]), np.array([1.0, 1.0]))
    mu = gaussian_mu(4.0, 1e-3)
    return Plant("data-dependent stopping", broken, honest, calm, tense, GDP(mu, "replace-one"), 400)
