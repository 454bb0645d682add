"""The walk: declare → plan → check → run → reconcile → release. Short on purpose; read it first.

    release = dperm.fit(problem, rows, target, mechanism=Gradient())

Nothing flows back. The plan is a pure function of public numbers; the check lists everything the theorem lacks; the curator
books each event before it draws; the booked events must equal the planned ones; only then is anything released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dperm.certificate import Certificate, certify
from dperm.curator import Curator, Progress
from dperm.mechanisms.base import Plan, Shape, Target, UnmetNeeds, Vector, mechanism_from_spec
from dperm.noise import Noise, noise_source
from dperm.privacy import Event, Sampled
from dperm.problem import Problem

if TYPE_CHECKING:
    from dperm.encoding import Encoding
    from dperm.rows.base import Rows


class LedgerMismatch(RuntimeError):
    """The events booked differ from those planned: a bug in a mechanism. Nothing is released."""


@dataclass(frozen=True)
class Release:
    """What leaves: coefficients, the certificate, the plan, values released on the way, and public statistics."""

    w: Vector
    certificate: Certificate
    plan: Plan
    released: Mapping[str, Any]
    stats: Mapping[str, Any]


def plan(
    problem: Problem, shape: Shape, target: Target, mechanism: Any = "gradient", encoding: Encoding | None = None
) -> Plan:
    """Decide from public numbers, by a mechanism, its name or "auto" (the table of `dperm.planner`).

    `encoding` says what the columns are; the plan then notes where missing cells are not at a released centre.
    Raises `UnmetNeeds` with the whole list when the mechanism's theorem does not apply.
    """
    chosen = _named(mechanism, problem, shape, target, encoding)
    try:
        needs = chosen.missing(problem, target)
        if needs:
            raise UnmetNeeds(chosen.name, needs)
        planned: Plan = chosen.plan(problem, shape, target)
    except UnmetNeeds as error:
        if target.delta or not getattr(chosen, "linear", True):
            raise
        from dperm.planner import pure_advice

        raise UnmetNeeds(error.mechanism, error.needs, pure_advice(error.mechanism, problem, shape, target)) from error
    if encoding is None or not encoding.gaps or any(stage.name == "present" for stage in planned.stages):
        return planned
    return replace(planned, notes=(*planned.notes, NO_CENTRE))


NO_CENTRE = "a missing number counts as the middle of its column's bounds: this fit releases no centre of the columns"


def _named(mechanism: Any, problem: Problem, shape: Shape, target: Target, encoding: Encoding | None = None) -> Any:
    if isinstance(mechanism, str) and mechanism == "auto":
        from dperm.planner import choose

        likelihood = problem.loss.name in ("logistic", "multinomial")
        asked_for = "probabilities" if likelihood else "coefficients"
        declared: dict[str, Any] = {} if encoding is None else {"kinds": encoding.kinds, "gaps": encoding.gaps}
        return choose("auto", problem, shape, target, asked_for=asked_for, **declared)
    return mechanism_from_spec(mechanism, {}) if isinstance(mechanism, str) else mechanism


def merge(events: Iterable[Event]) -> list[Event]:
    """Join neighbours that differ only in their count, so that T single bookings equal one event of count T.

    >>> from dperm.privacy import Gaussian
    >>> merge([Gaussian(0.1), Gaussian(0.1), Gaussian(0.2)])
    [Gaussian(mu=0.1, count=2), Gaussian(mu=0.2, count=1)]
    """
    merged: list[Event] = []
    for event in events:
        joined = _joined(merged[-1], event) if merged else None
        if joined is None:
            merged.append(event)
        else:
            merged[-1] = joined
    return merged


def _joined(first: Any, second: Any) -> Any:
    if isinstance(first, Sampled) and isinstance(second, Sampled) and first.rate == second.rate:
        inner = _joined(first.event, second.event)
        return None if inner is None else Sampled(first.rate, inner)
    if not hasattr(first, "count") or type(first) is not type(second):
        return None
    if replace(first, count=1) != replace(second, count=1):
        return None
    return replace(first, count=first.count + second.count)


def fit(
    problem: Problem,
    rows: Rows,
    target: Target,
    mechanism: Any = "gradient",
    *,
    nominal_n: int | None = None,
    noise: Noise | str = "secure",
    random_state: Any = None,
    encoding: Encoding | None = None,
    on_book: Callable[[Event], None] | None = None,
    progress: Progress | None = None,
    ledger: Any = None,
    fingerprint: Any = None,
) -> Release:
    """Fit `problem` on `rows` so that the answer satisfies `target`.

    `mechanism` is an object, a name, or "auto": the table of `dperm.planner`, as the estimators use it.
    `ledger` (a path or `Ledger`) is debited for the whole plan before any row is summed; `fingerprint` is what it recognises the
    data set by.

    **Guarantee**: the composition of the certificate's events under `target.relation`, for rows clipped into `problem.data`.
    """
    if target.relation == "add-remove" and nominal_n is None:
        raise ValueError(
            "Expected nominal_n= (--nominal-n) under relation='add-remove', where the number of rows is protected, found none. "
            "Pass a public round number, or use relation='zero-out' if n is public."
        )
    if target.relation != "add-remove" and nominal_n not in (None, rows.n):
        raise ValueError(
            f"Expected nominal_n= to be left out, or {rows.n:,}, the number of rows, which is public under "
            f"relation={target.relation!r}, found {nominal_n:,}. To protect it use relation='add-remove'."
        )
    shape = Shape(nominal_n if nominal_n is not None else rows.n, rows.d)
    chosen = _named(mechanism, problem, shape, target, encoding)
    planned = plan(problem, shape, target, chosen, encoding)
    source = noise_source(noise, random_state) if isinstance(noise, str) else noise
    receipt = None if ledger is None else _debited(ledger, planned, source, fingerprint)
    curator = Curator(
        rows.bounded(problem.data, problem.feature_map),
        source,
        target.relation,
        shape.n,
        target.rows_per_person,
        on_book,
        progress,
    )
    outcome = chosen.run(planned, problem, curator)
    if merge(curator.ledger) != merge(planned.events):
        raise LedgerMismatch(f"Expected the planned events {planned.events}, found {curator.ledger}. Nothing was released.")
    if not np.all(np.isfinite(outcome.w)):
        raise FloatingPointError("Expected finite coefficients, found overflow. Choose a smaller step_size or a bounded domain.")
    certificate = certify(problem, planned, chosen, outcome, source, encoding, receipt)
    return Release(outcome.w, certificate, planned, outcome.released, {"passes": sum(e.total() for e in planned.events)})


def _debited(ledger: Any, planned: Plan, source: Noise, fingerprint: Any) -> dict[str, Any]:
    """The debit of the whole plan, on disk before anything is drawn."""
    from dperm.ledger import Ledger

    return Ledger.open(ledger).debit(planned, noise=source.policy, data=fingerprint)
