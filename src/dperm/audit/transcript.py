"""What the certificate of a fit covers, as numbers that a test can use: coefficients, released values, noisy sums, and one ratio.

    Λ = Σ_t ⟨s'_t - s_t, a_t - (s_t + s'_t)/2⟩ / σ_t²

a_t is the t-th noisy sum, σ_t the noise it should have, s_t and s'_t the exact sums of the data and of the neighbour. A query is
a function of earlier answers, so whoever knows both data sets can compute Λ from the answers alone. For Gaussian answers it is
the log-likelihood ratio of the whole transcript: no test tells the neighbours apart better (Neyman and Pearson). Where the code
adds other noise than it books it is still a statistic like any other, and the bound holds for every statistic.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from dperm.problem.arrays import Vector
from dperm.release.driver import Drawn, watching
from dperm.release.plan import Plan
from dperm.rows.base import Rows, sum_step
from dperm.terms.gradient import SampledTerm
from dperm.walk.claims import Claim


@dataclass
class Transcript:
    """Noisy sums in units of their noise, the rows they were taken from, Λ, and ‖(s'_t - s_t)/σ_t‖² added up."""

    sums: list[Vector] = field(default_factory=list)
    rows: Rows | None = None
    ratio: float = 0.0
    energy: float = 0.0


@contextlib.contextmanager
def transcript(
    pair: tuple[Rows, Rows] | None = None, own: int = 0, only: tuple[type, ...] = (object,)
) -> Iterator[Transcript]:
    """Watch every noisy sum that is drawn meanwhile.

    `pair` holds the rows of data and neighbour, as captured before, and `own` says which of them is being fitted. The booked
    events cover the sums whether or not they are published. Λ and its energy are of the terms of the kinds in `only`.
    """
    seen = Transcript()

    def see(drawn: Drawn) -> None:
        seen.sums.append(np.ravel(drawn.value) / drawn.scale)
        if seen.rows is None:
            seen.rows = bottom(drawn.rows)
        if pair is None or not isinstance(drawn.term, only):
            return
        # Who joined a sample is secret, also from this test.
        query = drawn.term.term if isinstance(drawn.term, SampledTerm) else drawn.term
        step = sum_step(query.row_bound, drawn.n)
        both = [
            np.ravel(drawn.exact if side == own and query is drawn.term else exchanged(drawn.rows, rows).sum(query, step))
            for side, rows in enumerate(pair)
        ]
        shift, middle = (both[1] - both[0]) / drawn.scale, (both[0] + both[1]) / (2 * drawn.scale)
        seen.ratio += float(shift @ (seen.sums[-1] - middle))
        seen.energy += float(shift @ shift)

    with watching(see):
        yield seen


def bottom(rows: Rows) -> Rows:
    """The stored rows under all views of them."""
    return bottom(rows.rows) if hasattr(rows, "rows") else rows


def exchanged(rows: Any, other: Rows) -> Rows:
    """The same view of other stored rows: recoding and scaling follow from released values, not from the rows."""
    return replace(rows, rows=exchanged(rows.rows, other)) if hasattr(rows, "rows") else other


def gathered(sums: list[Vector], sizes: list[int] | None = None) -> list[Vector]:
    """Sums of one length added up and divided by √count: T steps that each see a record see it √T times better together.

    With `sizes` there is one vector for each, of zeros where no sum has its length: what a released choice of coordinates leaves
    out in one run and not in another.
    """
    found = []
    for size in sorted({len(value) for value in sums}) if sizes is None else sizes:
        alike = [value for value in sums if len(value) == size]
        found.append(np.sum(alike, axis=0) / np.sqrt(len(alike)) if alike else np.zeros(size))
    return found


class Released(Protocol):
    """What a fit published."""

    @property
    def w(self) -> Vector: ...
    @property
    def released(self) -> Mapping[str, object]: ...


class Fitted(Protocol):
    """What an audit reads of a fit: all that was published, its plan, and what it claims."""

    @property
    def release_(self) -> Released: ...
    @property
    def plan_(self) -> Plan: ...
    @property
    def certificate_(self) -> Claim: ...


class Fitting(Protocol):
    """Something with `fit`: an estimator, or what looks like one to an audit."""

    def fit(self, *data: Any) -> Fitted: ...


@dataclass(frozen=True)
class Seen:
    """A `Fitted` of an audit's own making."""

    release_: Released
    plan_: Plan
    certificate_: Claim


def released_sizes(model: Fitted) -> dict[str, int]:
    """How many numbers each released value of a fit has."""
    return {key: len(_flat(value)) for key, value in model.release_.released.items()}


def released_numbers(model: Fitted, sizes: Mapping[str, int] | None = None) -> Vector:
    """Coefficients and every number released on the way, in a fixed order: what the certificate covers.

    With `sizes` there are so many of each, zeros where a run has released none: a released choice can leave a value out.
    """
    release = model.release_
    parts = [np.ravel(np.asarray(release.w, dtype=np.float64))]
    for key, size in sorted((released_sizes(model) if sizes is None else sizes).items()):
        found = _flat(release.released[key]) if key in release.released else np.zeros(size)
        parts.append(found)
    return np.concatenate(parts)


def _flat(value: object) -> Vector:
    return np.concatenate([np.zeros(0), *_numbers(value)])


def _numbers(value: object) -> Iterator[Vector]:
    if isinstance(value, dict):
        for key in sorted(value):
            yield from _numbers(value[key])
    elif isinstance(value, list | tuple) and any(isinstance(item, dict | list | tuple | str) for item in value):
        for item in value:
            yield from _numbers(item)
    elif not isinstance(value, str) and value is not None:
        yield np.ravel(np.asarray(value, dtype=np.float64))
