"""What a mechanism's program may ask for. A program is a generator: it yields an ask and is sent the answer.

    radius = yield Sum("radius", LogHistogram(...))       a planned stage, answered with noise; the answer is in the record
    yield Open("descent", sums=steps)                     the whole allowance of a stage is booked before its first sum
    g = yield Sum("descent", term, mu=..., shape=...)     … and drawn from; such answers are not in the record
    yield Close("descent")
    w = yield Solve(("objective",), algorithm, shape)     a whole algorithm on exact sums, one value out
    rows = yield See(view)                                from here on rows are seen through a released recoding
    yield Decide(settings)                                what follows from released values, for the record

A program never sees a row. What it does after an answer can only follow from answers, public numbers and its plan, which is why
replaying the recorded answers (`driver.replay`) recomputes everything that a certificate states.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from dperm.problem.arrays import Vector
from dperm.release.noise import Noise, release
from dperm.rows.base import Rows, Term, sum_step


@dataclass(frozen=True)
class Secret:
    """What an algorithm inside a `Solve` may touch: exact sums and the noise source. It never leaves the solve."""

    rows: Rows
    noise: Noise
    n: int
    relation: str
    rows_per_person: int

    def sum(self, term: Term) -> Vector:
        """Σ_rows term, exactly."""
        return self.rows.sum(term, sum_step(term.row_bound, self.n))

    def noisy_sum(self, term: Term, mu: float) -> Vector:
        """Σ_rows term + N(0, (Δ/μ)²I), for a solve whose event covers it."""
        sensitivity = term.sensitivity(self.relation) * self.rows_per_person
        return release(self.sum(term), sensitivity=sensitivity, mu=mu, noise=self.noise)


@dataclass(frozen=True)
class Sum:
    """A noisy sum over the rows, paid by `stage`: with its whole μ, or with `mu` where the stage is open.

    **Guarantee**: μ-GDP for neighbours under the plan's relation, because Δ is the term's own sensitivity.

    `shape` is that of the answer; only a sum from an open allowance must state it, because a replay has no answer for it. With a
    `view` this one sum sees the rows through it: row by row, so the term's sensitivity stands.
    """

    stage: str
    term: Term
    mu: float | None = None
    shape: tuple[int, ...] | None = None
    view: View | None = None


@dataclass(frozen=True)
class Open:
    """Book the whole event of a stage, before the first of `sums` noisy sums that draw from it.

    **Guarantee**: sums of μ_1, …, μ_T with Σμ_t² ≤ μ² are together μ-GDP, also when T and the μ_t are chosen from what was
    released before (adaptive composition of Gaussian mechanisms is exact at fixed total μ²). With `sampling_rate` each sum is
    taken over a fresh Poisson sample of the rows and the event is `Sampled`. Overdrawing is refused before noise is drawn.
    """

    stage: str
    sums: int
    sampling_rate: float | None = None


@dataclass(frozen=True)
class Close:
    """End an allowance; one that was not used up is an error, because then the program did not do what its plan says."""

    stage: str


@dataclass(frozen=True)
class Solve:
    """A whole algorithm whose privacy is proven as the events of `stages`.

    `kept` names its value in the record; without it the value is not there, as with coefficients, which have their own place.
    A kept value consists of numbers; with `words` it may hold text, and whoever reads it says where.
    """

    stages: tuple[str, ...]
    algorithm: Callable[[Secret], object]
    shape: tuple[int, ...] = ()
    kept: str | None = None
    words: bool = False


@dataclass(frozen=True)
class Publish:
    """Put a value that follows from unrecorded answers (a norm, a basis) into the record; the answer is that value.

    `make` is called in a run only: a replay has no such answers. `listed` adds the value to a list, for one of every step. A
    record that states it in another `shape` is refused, where one is given: a list in a list has the same numbers.
    """

    name: str
    make: Callable[[], object]
    listed: bool = False
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Draw:
    """Randomness that protects nothing and costs nothing, such as starting weights."""

    make: Callable[[np.random.Generator], Vector]
    shape: tuple[int, ...]


class View(Protocol):
    """A row-by-row map that follows from public numbers and released values."""

    def of(self, rows: Rows) -> tuple[Rows, object]:
        """The rows as they are seen from now on, and what the program needs to know of it."""
        ...

    def unseen(self) -> object:
        """What the program is told where there are no rows, in a replay."""
        ...


@dataclass(frozen=True)
class See:
    """See the rows through `view` from now on."""

    view: View


@dataclass(frozen=True)
class Decide:
    """Settings that follow from released values, for the record."""

    settings: Mapping[str, object]


Ask = Sum | Open | Close | Solve | Publish | Draw | See | Decide
T = TypeVar("T")
# A generator that asks and returns a T. What is sent depends on the ask, so its type stays open.
Asking = Generator[Ask, Any, T]
Program = Asking[Vector]


def returned(program: Generator[Any, Any, Vector], answer: Callable[[Any], object]) -> Vector:
    """What the program returns once every ask of it is answered."""
    sent: object = None
    while True:
        try:
            ask = program.send(sent)
        except StopIteration as end:
            return np.asarray(end.value)
        sent = answer(ask)


def unrecorded(stage: str, term: Term, mu: float | None, shape: tuple[int, ...]) -> Asking[Any]:
    """The one noisy sum of a stage that stays out of the record: because it is large, or because a published value follows."""
    yield Open(stage, sums=1)
    noisy = yield Sum(stage, term, mu=mu, shape=shape)
    yield Close(stage)
    return noisy
