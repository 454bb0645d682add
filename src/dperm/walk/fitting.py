"""The walk: declare → plan → check → run → reconcile → release. Short on purpose; read it first.

    release = dperm.fit(problem, rows, target, mechanism=Gradient())

Nothing flows back. The plan is a pure function of public numbers; the check lists everything the theorem lacks; the driver
(`release/driver.py`) answers the mechanism's program, checks each ask against the plan and books its event before it draws; a
stage that is left over is an error; only then is anything released. Fits, evaluations and information matrices all `execute`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np

from dperm.choose.table import choose, pure_advice
from dperm.mechanisms.registry import check_types, mechanism_from_spec
from dperm.privacy import Gaussian, HiddenState, Sampled
from dperm.problem import Problem
from dperm.problem.plain import is_number, plain_number, plain_whole
from dperm.release import driver
from dperm.release.asks import Program
from dperm.release.ledger.book import Ledger
from dperm.release.noise import ExactNoise, Noise, noise_source
from dperm.release.plan import Mechanism, Outcome, Plan, Released, Shape, Target, UnmetNeeds, Vector
from dperm.release.record import CertificateRecord, ReceiptRecord
from dperm.rows.base import Rows
from dperm.tables.encoding import Encoding
from dperm.walk.certificate import Certificate, certify, check_columns, declared_by
from dperm.walk.claims import plain
from dperm.walk.functions import check_functions
from dperm.walk.options import Running, check_nominal, runs
from dperm.words.notices import loose, speak


@dataclass(frozen=True)
class Release:
    """What leaves: coefficients, the certificate, the plan, values released on the way, and public statistics.

    Parameters
    ----------
    w : array
        The coefficients in encoded units.
    certificate : Certificate
        What the fit claims, for anyone to compute again.
    plan : Plan
        The stages as they were planned.
    released : mapping
        Values released on the way, by the name of their stage.
    stats : mapping
        Public statistics of the run.
    """

    w: Vector
    certificate: Certificate
    plan: Plan
    released: Released
    stats: Mapping[str, object]


def plan(
    problem: Problem, shape: Shape, target: Target, mechanism: Mechanism | str = "gradient", encoding: Encoding | None = None
) -> Plan:
    """Decide from public numbers, by a mechanism, its name or "auto" (the table of `dperm.choose.table`).

    `encoding` says what the columns are; the plan then notes where missing cells are not at a released centre.
    Raises `UnmetNeeds` with the whole list when the mechanism's theorem does not apply.

    Parameters
    ----------
    problem : Problem
        What is minimised, with its declared bounds.
    shape : Shape
        Public size of the data.
    target : Target
        How much privacy to spend, against which neighbour.
    mechanism : mechanism or str, default "gradient"
        An object, a name, or "auto": the table of `dperm.choose.table`.
    encoding : Encoding or None, default None
        What the columns are. The plan then notes where missing cells are not at a released centre.
    """
    chosen = _named(mechanism, problem, shape, target, encoding)
    check_magnitudes(problem, chosen)
    try:
        needs = chosen.missing(problem, target)
        if needs:
            raise UnmetNeeds(chosen.name, needs)
        planned: Plan = chosen.plan(problem, shape, target)
    except UnmetNeeds as error:
        if target.delta or not getattr(chosen, "linear", True):
            raise
        raise UnmetNeeds(error.mechanism, error.needs, pure_advice(error.mechanism, problem, shape, target)) from error
    if encoding is not None:
        check_columns(encoding, chosen, planned)
    centred = encoding is None or not encoding.gaps or any(stage.name == "present" for stage in planned.stages)
    said = (*loose(target.epsilon), *(() if centred else (NO_CENTRE,)))
    return replace(planned, notes=(*planned.notes, *said)) if said else planned


def check_magnitudes(problem: Problem, mechanism: Mechanism) -> None:
    """Every declared number can be squared and divided by: said before a plan is made, because later it would be an overflow."""
    for part in (problem.domain, problem.regularizer, mechanism):
        for name, value in getattr(part, "__dict__", {}).items():
            size = abs(plain_number(value, name)) if is_number(value) else 1.0
            if size and math.isfinite(size) and not LEAST <= size <= MOST:
                raise ValueError(
                    f"Expected {name} of {part.name!r} between {LEAST:g} and {MOST:g}, found {size:g}: floats overflow "
                    "with it. Declare the data in another unit, or leave the option out."
                )


LEAST, MOST = 1e-100, 1e100
NO_CENTRE = "a missing number counts as the middle of its column's bounds: this fit releases no centre of the columns"


def check_noise(policy: str, mechanism: object, planned: Plan) -> None:
    """Refuse the exact sampler, before anything is debited, where a run draws anything but Gaussian noise on sums."""
    sums = getattr(mechanism, "only_sums", True) and all(isinstance(event, Gaussian | HiddenState) for event in planned.events)
    if policy == "exact" and not sums:
        ExactNoise().generator()  # raises, in the words of a draw


def check_number(target: Target, rows: Rows, nominal_n: int | None) -> None:
    """Refuse a nominal number of rows that is missing, or that stands beside a public one."""
    check_nominal({"relation": target.relation, "nominal_n": nominal_n})
    if target.relation == "add-remove":
        return
    if nominal_n not in (None, rows.n):
        raise ValueError(
            f"Expected nominal_n= to be left out, or {rows.n:,}, the number of rows, which is public under "
            f"relation={target.relation!r}, found {nominal_n:,}. To protect it use relation='add-remove'."
        )
    if rows.n == 0:
        raise ValueError("Expected at least one row, found none. Check that the file or array is not empty.")


def check_order(rows: Rows, planned: Plan) -> None:
    """Refuse, before anything is debited, what needs numbers, keys or owners of rows that have none."""
    if dict(planned.options).get("summed") and getattr(rows, "person", None) is None:
        raise ValueError(
            "Expected rows in memory in the order of persons for summed=True, found others. Leave it out. Nothing was spent."
        )
    if getattr(rows, "numbered", True):
        return
    if any(isinstance(event, Sampled) for event in planned.events) and not getattr(rows, "keyed", False):
        raise ValueError(
            "Expected rows that can be told apart for a Poisson sample, found rows without an order or a key: equal rows would "
            'join together. Pass SparkRows(table, schema, row_id="id") with a column that is unique, row_id="content", or no '
            "sampling_rate=. Nothing was spent."
        )
    # A minimiser counts the first rows alone where their number is protected; permutation SGD cuts batches by number.
    first = planned.target.relation == "add-remove" and any(stage.name == "objective" for stage in planned.stages)
    if first or dict(planned.options).get("solver") == "permutation-sgd":
        raise ValueError(
            f"Expected a method that needs no order of the rows, found {planned.mechanism!r} as asked for "
            "(a minimiser under add-remove, or solver='permutation-sgd') on rows that keep none. Use another method or engine. "
            "Nothing was spent."
        )


def _named(
    mechanism: Mechanism | str, problem: Problem, shape: Shape, target: Target, encoding: Encoding | None = None
) -> Mechanism:
    if isinstance(mechanism, str) and mechanism == "auto":
        likelihood = problem.loss.name in ("logistic", "multinomial")
        asked_for = "probabilities" if likelihood else "coefficients"
        kinds, gaps = ((), ()) if encoding is None else (encoding.kinds, encoding.gaps)
        return choose("auto", problem, shape, target, asked_for=asked_for, kinds=kinds, gaps=gaps)
    if isinstance(mechanism, str):
        return mechanism_from_spec(mechanism, {})
    check_types(mechanism.name, plain(vars(mechanism)))  # as its record will be read: refused here, nothing is spent
    return mechanism


def rebuilt_plan(record: CertificateRecord) -> tuple[Plan, Problem]:
    """The plan and the problem, computed again from the record of a certificate."""
    problem, shape, target, mechanism = declared_by(record)
    return mechanism.plan(problem, shape, target), problem


@runs
def execute(
    program: Program,
    planned: Plan,
    rows: Rows,
    source: Noise,
    *,
    note: str = "",
    **running: Unpack[Running],
) -> tuple[Outcome, ReceiptRecord | None]:
    """Debit the whole plan, answer the program, reconcile: the one way from a plan to a release. Returns (outcome, receipt).

    `ledger` (a path or `Ledger`) is debited, on disk, before any row is summed; `fingerprint` is what it knows the data set by.
    """
    if source.policy != "seeded":  # such a release says itself that it protects nobody
        speak(loose(planned.target.epsilon))
    receipt = None
    if running["ledger"] is not None:
        book = Ledger.open(running["ledger"])
        receipt = book.debit(planned, noise=source.policy, data=running["fingerprint"], note=note)
    outcome = driver.run(program, planned, rows, source, on_book=running["on_book"], progress=running["progress"])
    if not np.all(np.isfinite(outcome.w)):
        raise FloatingPointError("Expected finite coefficients, found overflow. Choose a smaller step_size or a bounded domain.")
    return outcome, receipt


@runs
def fit(
    problem: Problem,
    rows: Rows,
    target: Target,
    mechanism: Mechanism | str = "gradient",
    *,
    nominal_n: int | None = None,
    noise: Noise | str = "secure",
    random_state: object = None,
    encoding: Encoding | None = None,
    **running: Unpack[Running],
) -> Release:
    """Fit `problem` on `rows` so that the answer satisfies `target`.

    `ledger` (a path or `Ledger`) is debited for the whole plan before any row is summed; `fingerprint` is what it recognises the
    data set by.

    **Guarantee**: the composition of the certificate's events under `target.relation`, for rows clipped into `problem.data`.

    Parameters
    ----------
    problem : Problem
        What is minimised, with its declared bounds.
    rows : Rows
        The private data.
    target : Target
        How much privacy to spend, against which neighbour.
    mechanism : mechanism, str, default "gradient"
        An object, a name, or "auto": the table of `dperm.choose.table`, as the estimators use it.
    nominal_n : int or None, default None
        A public guess of the number of rows, for "add-remove".
    noise : str or Noise, default "secure"
        Where noise comes from.
    random_state : int, numpy Generator or None, default None
        A seed makes the result reproducible and NOT private; the certificate says so.
    encoding : Encoding or None, default None
        What the columns are, for units of the coefficients and for missing cells.
    ledger : path, Ledger or None, default None
        A budget ledger that is debited before any noise is drawn.
    fingerprint : object, default None
        What the ledger recognises the data set by.
    on_book : callable or None, default None
        Called with each event when it is booked.
    progress : callable or None, default None
        Called with (done, planned) while the fit runs.
    """
    nominal_n = None if nominal_n is None else plain_whole(nominal_n, "nominal_n")
    check_number(target, rows, nominal_n)
    shape = Shape(nominal_n if nominal_n is not None else rows.n, rows.d)
    chosen = _named(mechanism, problem, shape, target, encoding)
    planned = plan(problem, shape, target, chosen, encoding)
    check_order(rows, planned)
    check_functions(problem, chosen, rows)
    source = noise_source(noise, random_state) if isinstance(noise, str) else noise
    check_noise(source.policy, chosen, planned)
    speak(planned.warnings)  # public numbers decide them, and nothing is spent yet
    clipped = rows.bounded(problem.data, problem.feature_map)
    outcome, receipt = execute(chosen.program(planned, problem), planned, clipped, source, **running)
    certificate = certify(problem, planned, outcome, source, encoding, receipt)
    return Release(outcome.w, certificate, planned, outcome.released, {"passes": sum(e.total() for e in planned.events)})

