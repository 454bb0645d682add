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
TARGET = Target(4.0, 1e-3, "replace-one")
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
    """Every vector of a size is the same one."""

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
class Misstated(TermView):
    """A term that states another sensitivity than its own."""

    stated: Callable[[Term, str], float]

    def seen(self, block: Block) -> Block:
        return block

    def sensitivity(self, relation: str) -> float:
        return self.stated(self.term, relation)


def _one_sided(term: Term) -> Term:
    """Stated for a row nulled, whatever the relation."""
    return Misstated(term, lambda own, relation: own.sensitivity("zero-out"))


def _half_if_curvature(term: Term) -> Term:
    return Misstated(term, lambda own, relation: own.sensitivity(relation) / 2) if isinstance(term, CurvatureMatrix) else term


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
        return (yield from _with_terms(super().program(plan, problem), _one_sided))


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


@dataclass(frozen=True)
class HalvedCurvature(ScaledInference):
    """Intervals whose curvature matrix has half of its noise."""

    def program(self, plan: Plan, problem: Problem) -> Program:
        return (yield from _with_terms(super().program(plan, problem), _half_if_curvature))


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
    calm, tense = ((np.ones((2, 1)), labels) for labels in (PULL_DOWN[1], PULL_UP[1]))
    two, one = ((np.zeros((n, 1)), np.ones(n)) for n in (2, 1))
    add_remove, tighter = Target(0.5, 1e-3, "add-remove"), Target(2.0, 1e-3, "replace-one")
    bounds = DataBounds(1.0, Interval(-1.0, 1.0))
    return [
        _descents("noise ÷ 2", 2500, noise=HalfNoise()),
        _descents("sensitivity without the factor 2", 2500, WithoutFactorTwo),
        # Squared loss, |y| ≤ 1: the gradient at 0 is y·x with norm up to 1; a clip of 0.25 halves what a row may do twice.
        _descents("unclipped row", 1200, Unclipped, problem=Problem(SquaredLoss(), data=bounds), clip=0.25),
        _unregularised_intercept(),
        _linear_curvature(),
        # A strongly contracting descent forgets: its last iterate costs little, but each iterate has fresh noise to average out.
        _descents("averaged iterate accounted as last iterate", 600, AverageAsLast, target=tighter,
                  problem=Problem(LogisticLoss(), Ridge(4.0), data=bounds), steps=24, step_size=2 / 4.25,
                  accounting="hidden-state"),
        _descents("exact n under add-remove", 1600, ExactCount, (two, one), target=add_remove),
        _reused_noise(),
        _descents("seeded noise", 400, noise=FrozenNoise()),
        _descents("data-dependent stopping", 400, StopsWhenDone, (calm, tense), steps=4),
        _halved_curvature(),
    ]  # fmt: skip


def _descents(
    name: str,
    trials: int,
    kind: type[Gradient] = Gradient,
    pair: tuple[Data, Data] = (PULL_UP, PULL_DOWN),
    *,
    target: Target = TARGET,
    problem: Problem = LOGISTIC,
    noise: SecureNoise | None = None,
    **options: object,
) -> Plant:
    """A descent that is broken by its kind or its noise beside the honest one, both with the options of ONE_STEP but for those
    given; the claim is that of the target."""
    n = len(pair[0][0]) if target.relation == "add-remove" else None
    settings = vars(ONE_STEP) | options
    honest = repeated(problem, target, Gradient(**settings), nominal_n=n)
    broken = repeated(problem, target, kind(**settings), noise=noise, nominal_n=n)
    return Plant(name, broken, honest, *pair, GDP(gaussian_mu(target.epsilon, target.delta), target.relation), trials)


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
        return lambda data: minimise(*data, ridges, source.normal(sigma, 2))

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
        return lambda data: minimise(*data, np.array([ridge]), gamma_norm_vector(1, scale, source))

    labels = np.array([1.0, -1.0])
    quiet, loud = (np.array([[0.0], [0.0]]), labels), (np.array([[0.0], [norm]]), labels)
    return Plant("curvature scaled by R instead of R²", version(norm / 4), version(norm**2 / 4), quiet, loud,
                 PureDP(epsilon, "replace-one"), 24_000, 0.0)  # fmt: skip


def _reused_noise() -> Plant:
    """Two fits of two targets (y and -y) on the same rows: √2·μ-GDP with fresh noise; with one noise their difference is bare."""

    def twice(data: Data, *sources: SecureNoise) -> Vector:
        X, y = data
        fits = [repeated(LOGISTIC, TARGET, ONE_STEP, noise=source) for source in sources]
        return np.concatenate([fit((X, labels)) for fit, labels in zip(fits, (y, -y))])

    def broken(data: Data) -> Vector:
        return twice(data, *[RepeatingNoise()] * 2)

    def honest(data: Data) -> Vector:
        return twice(data, SecureNoise(), SecureNoise())

    claim = GDP(gaussian_mu(TARGET.epsilon, TARGET.delta) * 2**0.5, "replace-one")
    return Plant("reused noise", broken, honest, PULL_UP, PULL_DOWN, claim, 400)


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
            with transcript(rows, own=int(given is neighbour), only=(CurvatureMatrix, Misstated)) as seen:
                run(given)
            return np.array([(seen.ratio + seen.energy / 2) / seen.energy**0.5])

        return observe

    claim = compose([mechanism.plan(problem, Shape(n, 1), target).stage("curvature").event], target.relation)
    return Plant("noise of the curvature of intervals ÷ 2", version(HalvedCurvature), version(ScaledInference), data, neighbour,
                 claim, 320)  # fmt: skip
