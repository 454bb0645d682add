"""The one door between rows and the outside: it sums, books the event, and only then draws.

A mechanism never sees a row. It asks for a noisy sum, or hands in a whole algorithm whose privacy is proven as one event; the
entry is in the ledger before anything random happens, so a crash can over-count but never under-count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.noise import Noise, release
from dperm.privacy import Event, Gaussian
from dperm.privacy.relations import ADD_REMOVE
from dperm.rows.base import Rows, Term, sum_step
from dperm.rows.double import DoubleRows

Vector = NDArray[np.float64]
Progress = Callable[[int, int], None]


@dataclass
class Secret:
    """What an algorithm inside `Curator.solve` may touch: exact sums and the noise source. It never leaves the solve."""

    rows: Rows
    noise: Noise
    n: int

    def sum(self, term: Term) -> Vector:
        return self.rows.sum(term, sum_step(term.row_bound, self.n))


@dataclass
class Allowance:
    """A booked Gaussian budget μ² that later noisy sums draw from, when their number depends on an earlier release.

    **Guarantee**: sums of μ_1, …, μ_T with Σμ_t² ≤ μ² are together μ-GDP, also when T and the μ_t are chosen from what was
    released before (adaptive composition of Gaussian mechanisms is exact at fixed total μ²). Overdrawing is refused before noise
    is drawn, and `close` refuses a budget that was not used up: then the mechanism did not do what its plan says.
    """

    curator: Curator
    left: float
    _whole: float = 0.0

    def __post_init__(self) -> None:
        self._whole = self.left

    def noisy_sum(self, term: Term, *, mu: float) -> Vector:
        """Σ_rows term + N(0, (Δ/μ)²I), paid from the allowance."""
        self.left -= mu * mu
        if self.left < -1e-9 * self._whole:
            raise RuntimeError("Expected noisy sums within the booked allowance, found more. Nothing was released.")
        return self.curator.draw(term, mu)

    def close(self) -> None:
        if abs(self.left) > 1e-6 * self._whole:
            raise RuntimeError(f"Expected the booked allowance to be used up, found {self.left / self._whole:.3g} of it left.")


@dataclass
class Curator:
    """Rows, noise and the list of events booked so far.

    `n` is the public (or nominal) number of rows; `rows_per_person` multiplies every sensitivity when a neighbour is a person
    who owns several rows: k changed rows move a sum by at most k times what one row can.
    """

    rows: Rows
    noise: Noise
    relation: str
    n: int
    rows_per_person: int = 1
    on_book: Callable[[Event], None] | None = None
    progress: Progress | None = None
    ledger: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.relation == ADD_REMOVE and not isinstance(self.rows, DoubleRows):
            self.rows = DoubleRows(self.rows)

    def book(self, event: Event) -> None:
        """Write the event down; the durable ledger, if any, hears of it before noise is drawn."""
        if self.on_book is not None:
            self.on_book(event)
        self.ledger.append(event)

    def noisy_sum(self, term: Term, *, mu: float, event: Event | None = None) -> Vector:
        """Σ_rows term + N(0, (Δ/μ)²I) on a public grid; books `Gaussian(mu)`, or `event` when sampling makes it cheaper.

        **Guarantee**: μ-GDP for neighbours under the curator's relation, because Δ is the term's own sensitivity.
        """
        return self.draw(term, mu, Gaussian(mu) if event is None else event)

    def draw(self, term: Term, mu: float, event: Event | None = None) -> Vector:
        """The noisy sum itself; `event` is None where it is booked already.

        The exact sum comes first: it says nothing to anybody, and rows that fail to read must not cost budget.
        """
        value = self.rows.sum(term, sum_step(term.row_bound, self.n))
        if event is not None:
            self.book(event)
        sensitivity = term.sensitivity(self.relation) * self.rows_per_person
        return release(value, sensitivity=sensitivity, mu=mu, noise=self.noise)

    def allowance(self, event: Gaussian) -> Allowance:
        """Book `event` now, for noisy sums whose number a later release decides; see `Allowance`."""
        self.book(event)
        return Allowance(self, event.gdp() ** 2)

    def solve(self, event: Event, algorithm: Callable[[Secret], Any]) -> Any:
        """Book `event`, run a whole algorithm on exact sums and secret noise, and let its one value out."""
        self.book(event)
        return algorithm(Secret(self.rows, self.noise, self.n))

    def step(self, done: int, total: int) -> None:
        """Report progress; both numbers are public."""
        if self.progress is not None:
            self.progress(done, total)
