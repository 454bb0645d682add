"""The driver: the one place where rows, noise and bookings meet. Read it first.

`run`      answers a program from rows and noise. Every ask is checked against the plan, then booked, then drawn.
`replay`   answers it from released values alone. This is what `verify` does: whatever the program decides on the way must be
           what the record states. Answers that are not in the record are NaN, so no decision can depend on them.
`watching` lets an audit see every noisy sum of the runs inside it, with the rows and the term it was taken from.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dperm.privacy import Event, Gaussian, Sampled
from dperm.problem.arrays import Array, Vector, namespace
from dperm.release.asks import Ask, Close, Decide, Draw, Open, Program, Publish, Secret, See, Solve, Sum, returned
from dperm.release.noise import MANY, GridNoise, Noise, gaussian_scale
from dperm.release.plan import Outcome, Plan, Released, Stage
from dperm.rows.base import Rows, Term, one_blas_thread, sum_step
from dperm.rows.device import to_host
from dperm.terms.gradient import SampledTerm, person_rate

Progress = Callable[[int, int], None]
WIDE = 512  # columns from which on a decomposition between sums is worth several threads


class PlanMismatch(RuntimeError):
    """A program asked for what its plan does not say: a bug in a mechanism. Nothing is released."""


@dataclass(frozen=True)
class Drawn:
    """One noisy sum, as an audit sees it: `exact` and `value` in the units of the term."""

    term: Term
    rows: Rows
    n: int
    exact: Vector
    value: Vector
    scale: float


_WATCHER: ContextVar[Callable[[Drawn], None] | None] = ContextVar("watcher", default=None)


@contextlib.contextmanager
def watching(see: Callable[[Drawn], None]) -> Iterator[None]:
    """Show `see` every noisy sum that is drawn inside the context, on this thread."""
    token = _WATCHER.set(see)
    try:
        yield
    finally:
        _WATCHER.reset(token)


@dataclass
class Allowance:
    """What is left of an open stage: μ² in all, at most `sums` of them."""

    stage: Stage
    left: float
    whole: float
    sums: int
    sampling_rate: float | None
    key: int
    most: float = math.inf  # the largest μ of one sum
    done: int = 0

    def spend(self, mu: float) -> None:
        self.left -= mu * mu
        self.done += 1
        if self.left < -1e-9 * self.whole or mu > self.most:
            raise PlanMismatch("Expected noisy sums within the booked allowance, found more. Nothing was released.")

    def close(self) -> None:
        if abs(self.left) > 1e-6 * self.whole:
            raise PlanMismatch(f"Expected the booked allowance to be used up, found {self.left / self.whole:.3g} of it left.")


@dataclass
class _Run:
    """Rows, noise, the stages not yet asked for, the open allowance, and what was released so far."""

    plan: Plan
    rows: Rows
    noise: Noise
    on_book: Callable[[Event], None] | None
    progress: Progress | None
    waiting: dict[str, Stage] = field(default_factory=dict)
    allowance: Allowance | None = None
    released: dict[str, Any] = field(default_factory=dict)
    decided: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.waiting = {stage.name: stage for stage in self.plan.stages}
        if len(self.waiting) != len(self.plan.stages):
            raise PlanMismatch("Expected stages with names that differ, found a name twice.")

    def answer(self, ask: Ask) -> object:
        match ask:
            case Sum():
                return self._sum(ask)
            case Open():
                self._open(ask)
            case Close():
                self._opened(ask.stage).close()
                self.allowance = None
            case Solve():
                return self._solve(ask)
            case Publish():
                value = ask.make()
                if ask.listed:
                    self.released.setdefault(ask.name, []).append(value)
                else:
                    self.released[ask.name] = value
                return value
            case Draw():
                return ask.make(self.noise.generator())
            case See():
                self.rows, told = ask.view.of(self.rows)
                return told
            case Decide():
                self.decided |= ask.settings
        return None

    def _sum(self, ask: Sum) -> Array:
        if self.allowance is not None and ask.stage == self.allowance.stage.name:
            return self._drawn_from(self.allowance, ask)
        stage = self._planned(ask.stage)
        if not isinstance(stage.event, Gaussian) or stage.event.count != 1 or ask.mu is not None:
            raise PlanMismatch(f"Expected one Gaussian sum with the planned μ for stage {ask.stage!r}, found another ask.")
        # The exact sum comes first: it says nothing to anybody, and rows that fail to read must not cost budget.
        rows = self.rows if ask.view is None else ask.view.of(self.rows)[0]
        exact = self._exact(ask.term, rows)
        self._book(stage)
        value = self._noisy(ask.term, exact, stage.event.mu, rows)
        self.released[ask.stage] = value
        return value

    def _drawn_from(self, allowance: Allowance, ask: Sum) -> Array:
        if ask.mu is None or ask.shape is None or ask.view is not None:
            raise PlanMismatch(f"Expected mu and shape and no view for a sum from the open stage {ask.stage!r}.")
        term = ask.term
        if allowance.sampling_rate is not None:
            term = SampledTerm(term, allowance.sampling_rate, allowance.key, allowance.done)
        allowance.spend(ask.mu)
        size = math.prod(ask.shape)
        if ask.stage in self.waiting or size < MANY:
            exact = self._exact(term, self.rows)  # first: rows that fail to read must not cost budget
            if ask.stage in self.waiting:
                self._book(allowance.stage)
            value = self._noisy(term, exact, ask.mu, self.rows)
        else:  # the stage is booked, and noise follows from public numbers: it is drawn while rows are summed
            with ThreadPoolExecutor(1) as pool:
                ahead = pool.submit(self._noise, term, ask.mu, (size,))
                exact = self._exact(term, self.rows)
                value = self._noisy(term, exact, ask.mu, self.rows, ahead.result())
        value = namespace(value).reshape(value, ask.shape)
        if self.progress is not None:
            self.progress(allowance.done, allowance.sums)
        return value

    def _open(self, ask: Open) -> None:
        if self.allowance is not None:
            raise PlanMismatch(f"Expected one open stage at a time, found {ask.stage!r} while another is open.")
        stage = self._planned(ask.stage)
        event, key = stage.event, 0
        if ask.sampling_rate is not None:
            rate = person_rate(ask.sampling_rate, self.plan.target.rows_per_person)
            if not isinstance(event, Sampled) or event.rate != rate:
                raise PlanMismatch(f"Expected stage {ask.stage!r} to be booked as sampled at {rate:g}, found {event}.")
            # The sample must stay secret, so its key comes from the noise source.
            event, key = event.event, int(self.noise.generator().integers(2**62))
        if not isinstance(event, Gaussian):
            raise PlanMismatch(f"Expected a Gaussian allowance for stage {ask.stage!r}, found {event}.")
        whole = event.mu**2 * event.count
        # Σμ² says it all for Gaussians; a sample hides the less the larger one μ is, so there every sum keeps to the booked one.
        most = math.inf if ask.sampling_rate is None else event.mu * (1 + 1e-9)
        self.allowance = Allowance(stage, whole, whole, ask.sums, ask.sampling_rate, key, most)

    def _opened(self, name: str) -> Allowance:
        if self.allowance is None or self.allowance.stage.name != name:
            raise PlanMismatch(f"Expected stage {name!r} to be open, found it closed.")
        return self.allowance

    def _solve(self, ask: Solve) -> object:
        for stage in [self._planned(name) for name in ask.stages]:
            self._book(stage)
        target = self.plan.target
        value = ask.algorithm(Secret(self.rows, self.noise, self.plan.shape.n, target.relation, target.rows_per_person))
        if ask.kept is not None:
            self.released[ask.kept] = value
        if self.progress is not None:
            self.progress(len(self.plan.stages) - len(self.waiting), len(self.plan.stages))
        return value

    def _planned(self, name: str) -> Stage:
        if name not in self.waiting:
            raise PlanMismatch(f"Expected a planned stage that was not asked for before, found {name!r}. Nothing was released.")
        return self.waiting[name]

    def _book(self, stage: Stage) -> None:
        """Write the event down before noise is drawn: a crash can over-count, never under-count."""
        if self.on_book is not None:
            self.on_book(stage.event)
        del self.waiting[stage.name]

    def _exact(self, term: Term, rows: Rows) -> Array:
        return rows.sum(term, sum_step(term.row_bound, self.plan.shape.n))

    def _noise(self, term: Term, mu: float, shape: tuple[int, ...]) -> GridNoise:
        return GridNoise.drawn(shape, sensitivity=self._sensitivity(term), mu=mu, noise=self.noise)

    def _sensitivity(self, term: Term) -> float:
        return term.sensitivity(self.plan.target.relation) * self.plan.target.rows_per_person

    def _noisy(self, term: Term, exact: Array, mu: float, rows: Rows, noise: GridNoise | None = None) -> Array:
        noise = self._noise(term, mu, tuple(exact.shape)) if noise is None else noise
        value = noise.added_to(exact)  # where the sum is: on a device, if the engine left it there
        watcher = _WATCHER.get()
        if watcher is not None:
            scale = gaussian_scale(self._sensitivity(term), mu)
            watcher(Drawn(term, rows, self.plan.shape.n, to_host(exact), to_host(value), scale))
        return value

    def finished(self, w: Vector) -> Outcome:
        if self.waiting or self.allowance is not None:
            left = ", ".join(self.waiting) or "an allowance that is still open"
            raise PlanMismatch(f"Expected every planned stage to be used, found these unused: {left}. Nothing was released.")
        return Outcome(w, self.released, self.decided)


def run(
    program: Program,
    plan: Plan,
    rows: Rows,
    noise: Noise,
    *,
    on_book: Callable[[Event], None] | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Answer the program from rows and noise; the booked events are then exactly the planned ones.

    **Guarantee**: the composition of the plan's events under its relation: each stage is booked once and whole before its first
    draw, no ask outside the plan is answered, and a program that leaves a stage unused releases nothing.
    """
    state = _Run(plan, rows, noise, on_book, progress)
    # Threads of BLAS round by their number, and go on spinning for a while on the cores that sum rows next.
    with one_blas_thread() if plan.shape.d < WIDE else contextlib.nullcontext():
        return state.finished(returned(program, state.answer))


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, Mapping | list | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _leaves(part)
    else:
        yield value


@one_blas_thread()
def replay(program: Program, released: Released) -> Outcome:
    """What the program decides when it is given the recorded answers; unrecorded ones are NaN.

    Raises `ValueError` where the record lacks an answer that the program asks for, or holds one that it does not.
    """
    waiting: dict[str, object] = dict(released)
    decided: dict[str, object] = {}
    opened: str | None = None

    def recorded(name: str, listed: bool = False, words: bool = False) -> object:
        found = waiting.pop(name, None)
        if found is None or (listed and not (isinstance(found, list) and found)):
            raise ValueError(f"the released value {name!r} is missing")
        if not words and any(isinstance(leaf, str | bool) for leaf in _leaves(found)):
            raise ValueError(f"the released value {name!r} is stated as text or a truth value")
        if not (listed and isinstance(found, list)):
            return found
        first, *rest = found
        if rest:
            waiting[name] = rest
        return first

    def answer(ask: Ask) -> object:
        nonlocal opened
        match ask:
            case Sum() if ask.stage == opened:
                return np.full(ask.shape or (), np.nan)
            case Sum():
                value = np.asarray(recorded(ask.stage), dtype=np.float64)
                if value.ndim != 1:
                    raise ValueError(f"the released value {ask.stage!r} is not a list of numbers")
                return value
            case Open() | Close():
                opened = ask.stage if isinstance(ask, Open) else None
            case Solve():
                return np.full(ask.shape, np.nan) if ask.kept is None else recorded(ask.kept, words=ask.words)
            case Publish():
                stated: Any = recorded(ask.name, ask.listed)
                if ask.shape is not None and np.shape(stated) != ask.shape:
                    raise ValueError(f"the released value {ask.name!r} does not have the shape of what is released")
                return stated
            case Draw():
                return np.full(ask.shape, np.nan)
            case See():
                return ask.view.unseen()
            case Decide():
                decided.update(ask.settings)
        return None

    w = returned(program, answer)
    if waiting:
        raise ValueError(f"the released value {next(iter(waiting))!r} is not one that the mechanism releases")
    return Outcome(w, released, decided)
