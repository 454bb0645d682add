"""The certificate: what was claimed, in enough detail that anyone can compute it again without the data.

`verify` rebuilds the problem from its description, plans again, replays every decision on the released values, composes the
events and compares each number with what the certificate says. A change to any field shows because the recomputation
disagrees; no checksum is trusted for it. `docs/certificate.md` lists what recomputation cannot bind: it shows that a claim is
consistent, not that the run took place.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dperm.mechanisms.registry import mechanism_of_record
from dperm.problem import Problem
from dperm.problem.plain import shown
from dperm.release.driver import replay
from dperm.release.ledger.book import receipt_again
from dperm.release.noise import Noise
from dperm.release.plan import MECHANISMS, Mechanism, Outcome, Plan, Shape, Target, UnmetNeeds, Vector
from dperm.release.record import CertificateRecord, CoefficientsRecord, GuaranteeRecord, NoiseRecord, ReceiptRecord, TargetRecord
from dperm.tables.encoding import WITH_GAPS, Encoding
from dperm.tables.packed import packed, unpacked
from dperm.walk.claims import SEEDED, TOLERANCE, Claim, differences, noise_again, plain

FORMAT = "dperm-certificate/1"
PROBES = (-100.0, -10.0, -1.0, 0.0, 1.0, 10.0, 100.0)  # margins at which a record states its loss
ARITHMETIC = {
    "secure": "differential privacy in the real-arithmetic model; every release lies on a public grid",
    "exact": "integer noise from an exact sampler on a public grid",
    "seeded": "NOT PRIVATE: the noise is reproducible by whoever knows the seed",
}


@dataclass(frozen=True, repr=False)
class Certificate(Claim):
    """The record of a fit.

    **Guarantee of a pass** of `verify`: the stated (ε, δ) follows from the stated events; the events follow from the stated
    problem, size, target and options; every decision follows from the released values; the coefficients match their hash and
    units.

    Parameters
    ----------
    record : mapping
        The JSON record, as `to_json` writes it.
    """

    FORMAT: ClassVar[str] = FORMAT
    PARTS: ClassVar[type] = CertificateRecord

    record: CertificateRecord

    @property
    def unit(self) -> str:
        return str(self.record["guarantee"]["unit"])

    @property
    def mechanism(self) -> str:
        return str(self.record["mechanism"]["name"])

    def disagreements(self) -> Iterator[str]:
        return iter(differences(_recompute(self.record), self.record))


def certify(
    problem: Problem,
    plan: Plan,
    outcome: Outcome,
    noise: Noise,
    encoding: Encoding | None,
    receipt: ReceiptRecord | None = None,
) -> Certificate:
    """Write the record of a finished run; `receipt` is the ledger's, where one was debited."""
    told = replace(outcome, released=plain(outcome.released))
    known = None if encoding is None else encoding.resolved(outcome.decided)  # a fit that paid for bounds knows them now
    return Certificate(_record(problem, plan, told, noise.spec(), known, None if receipt is None else plain(receipt)))


def _record(
    problem: Problem,
    plan: Plan,
    outcome: Outcome,
    noise: NoiseRecord,
    encoding: Encoding | None,
    receipt: ReceiptRecord | None,
    *,
    older: bool = False,
    listed: bool = False,
) -> CertificateRecord:
    """`older`: as a record was written before it stated its unit (`target.unit`); `listed`: before many numbers were packed."""
    target, shape = plan.target, plan.shape
    guarantee: GuaranteeRecord = {**composed(plan, target.unit), "kind": plan.guarantee.spec()}
    assumptions = list(plan.assumptions)
    if noise["policy"] == "seeded":
        assumptions.append(SEEDED)
    record: CertificateRecord = {
        "format": FORMAT,
        "statement": statement(guarantee, plan, noise["policy"], older=older),
        "guarantee": guarantee,
        "target": target_spec(target, older),
        "shape": {"n": shape.n, "d": shape.d, "parameters": int(released_size(plan, problem))},
        "problem": problem.spec(),
        "constants": _constants(problem, older),
        "mechanism": {"name": plan.mechanism, "options": plain(dict(plan.options))},
        "stages": [plain(stage.spec()) for stage in plan.stages],
        "decided": plain(dict(outcome.decided)),
        "released": outcome.released,
        "assumptions": assumptions,
        "noise": noise_stated(noise),
        "encoding": None if encoding is None else encoding.spec(),
        "declaration": [] if encoding is None else declaration(encoding),
        "coefficients": _coefficients(problem, encoding if per_column(plan.mechanism) else None, outcome.w, listed),
    }
    if receipt is not None:
        record["ledger"] = receipt
    return record


def composed(plan: Plan, unit: str) -> GuaranteeRecord:
    """What the events of a plan come to: never more than its target, but for the lectures' printed calibrations, where the truth
    is what is stated."""
    target, cost = plan.target, plan.guarantee.epsilon(plan.target.delta)
    return {
        "epsilon": target.epsilon if cost <= target.epsilon * (1 + TOLERANCE) else cost,
        "delta": target.delta,
        "relation": target.relation,
        "unit": unit,
        "composed_epsilon": cost,
    }


def promised(plan: Plan, unit: str) -> GuaranteeRecord:
    """What a plan of booked sums promises; one that costs more than its target is none."""
    found = composed(plan, unit)
    if found["epsilon"] != plan.target.epsilon:
        raise ValueError("the plan costs more than its target")
    return found


def noise_stated(noise: NoiseRecord) -> NoiseRecord:
    """Where the noise came from, and what that is worth."""
    return {**noise, "private": noise["policy"] != "seeded", "claim": ARITHMETIC[noise["policy"]]}


def _constants(problem: Problem, older: bool) -> dict[str, object]:
    """Derived constants, with the labels' range, the regularizer's value at w = 1 and the loss at some margins, so that no
    declared number stands alone. An older record did not state the loss."""
    own: dict[str, object] = {"label_low": problem.data.y.low, "label_high": problem.data.y.high}
    own["regularizer_at_one"] = float(problem.regularizer.value(np.ones(1)))
    if not older and problem.loss.margins == 1:
        for side, label in (("low", problem.data.y.low), ("high", problem.data.y.high)):
            with np.errstate(all="ignore"):
                values = problem.loss.value(np.array(PROBES), np.full(len(PROBES), label))
            own[f"loss_at_{side}"] = plain(np.asarray(values, dtype=np.float64))
    return {**problem.constants.spec(), **own}


def declaration(encoding: Encoding) -> list[str]:
    """What the caller declared about each column, in words a privacy officer can check against common knowledge."""
    lines = []
    for name, kind, low, high, missing, group, rule in zip(
        encoding.names, encoding.kinds, encoding.low, encoding.high, encoding.missing, encoding.groups, encoding.rules
    ):
        text = f"{name}: {kind}" + (f" of group {group}" if group >= 0 else "")
        # Columns that are not centred, and those without bounds, have 0 where others have their middle.
        middle = "the middle of its bounds, " if kind == "numeric" and encoding.centred else ""
        value = missing if middle or rule in ("value", "released") else 0.0
        origin = {"value": "", "released": "the released mean of the present ones, "}.get(rule, middle)
        lines.append(f"{text}, from {low:.17g} to {high:.17g}, missing counts as {origin}{value:.17g}")
    lines.append(f"numeric columns count from {'the middle of their bounds' if encoding.centred else '0'}")
    if encoding.x_norm is not None:
        lines.append(f"norm of a row at most {encoding.x_norm:.17g}")
    return lines


def _coefficients(problem: Problem, encoding: Encoding | None, w: Vector, listed: bool) -> CoefficientsRecord:
    values = np.ravel(w)
    stored: CoefficientsRecord = {"encoded": values.tolist() if listed else packed(values), "sha256": coefficient_hash(w)}
    linear = problem.loss.margins * ((0 if encoding is None else encoding.d) + (1 if problem.data.intercept else 0))
    if encoding is not None and len(values) == linear > 0:  # a network has no coefficients per column
        margins = problem.loss.margins
        slopes, constant = encoding.original(w if margins == 1 else w.reshape(margins, -1), problem.data.intercept)
        stored["original"] = {"slopes": slopes.tolist(), "intercept": np.asarray(constant).tolist()}
    return stored


def per_column(mechanism: str) -> bool:
    """Whether coefficients are those of columns; rows of length 1 have none in the caller's units."""
    return bool(getattr(MECHANISMS[mechanism], "per_column", True))


def coefficient_hash(w: ArrayLike) -> str:
    """SHA-256 of the coefficients as IEEE doubles, little-endian."""
    return hashlib.sha256(np.ascontiguousarray(np.ravel(w), dtype="<f8").tobytes()).hexdigest()


def target_spec(target: Target, older: bool = False) -> TargetRecord:
    """The target as records state it; an older one did not state its unit."""
    record = target.spec()
    if older:
        del record["unit"]
    return record


MOST_ODDS = 700.0  # beyond it e^ε is beyond floats, and no bound that anybody could use


def statement(guarantee: GuaranteeRecord, plan: Plan, policy: str, *, older: bool = False) -> str:
    """The guarantee in words that a person can repeat, with everything that it rests on."""
    epsilon, delta, target, shape = guarantee["epsilon"], guarantee["delta"], plan.target, plan.shape
    nominal = target.relation == "add-remove"
    size = f"with nominal n = {shape.n} (the number of rows is protected)" if nominal else f"with n = {shape.n} public"
    if plan.most_rows is not None:
        size += f", in tables of at most {plan.most_rows} rows"
    conclusion = f"the odds of any conclusion about that {'person' if target.unit == 'person' and not older else 'record'}"
    text = f"({epsilon:g}, {delta:g})-differential privacy for {_change(target, older)}, {size}: "
    if epsilon > MOST_ODDS:
        text += f"no useful bound on {conclusion}."
    else:
        unless = f", except with probability {delta:g}" if delta else ""
        text += f"{conclusion} change by a factor of at most {math.exp(epsilon):.4g}{unless}."
    if plan.assumptions and not older:
        text += f" This rests on an assumption that nothing enforces: {'; '.join(plan.assumptions)}."
    if policy == "seeded":
        text += " THIS RELEASE IS NOT PRIVATE: its noise was seeded."
    return text


def _change(target: Target, older: bool) -> str:
    """What two neighbouring tables differ by, as the code enforces it.

    A person is replaced by one who is new to the table: whoever took the id of somebody else would also decide which of that
    one's rows are the first k, and move twice as many.
    """
    k = target.rows_per_person
    if older or target.unit == "row":
        who = "one row" if k == 1 else f"one person (at most {k} rows)"
        return {
            "replace-one": f"replacing {who} by any other",
            "zero-out": f"replacing {who} by a null row",
            "add-remove": f"adding or removing {who}",
        }[target.relation]
    rows = f"of which at most {k} {'counts' if k == 1 else 'count'}"
    return {
        "replace-one": f"replacing one person's rows, {rows}, by those of another person who has no other rows here",
        "zero-out": f"replacing one person's rows, {rows}, by null rows",
        "add-remove": f"adding or removing one person's rows, {rows}",
    }[target.relation]


def declared_by(record: CertificateRecord) -> tuple[Problem, Shape, Target, Mechanism]:
    """What a record says was declared."""
    shape = Shape(record["shape"]["n"], record["shape"]["d"])
    mechanism = mechanism_of_record(record["mechanism"]["name"], record["mechanism"]["options"])
    return Problem.from_spec(record["problem"]), shape, Target.declare(n=shape.n, **record["target"]), mechanism


def _recompute(record: CertificateRecord) -> CertificateRecord:
    problem, shape, target, mechanism = declared_by(record)
    needs = mechanism.missing(problem, target)
    if needs:
        raise UnmetNeeds(mechanism.name, needs)
    encoding = None if record["encoding"] is None else Encoding.from_spec(record["encoding"])
    if encoding is not None and encoding.d != shape.d:
        raise ValueError(f"the encoding has {encoding.d} features and the shape says {shape.d}")
    plan = mechanism.plan(problem, shape, target)
    if encoding is not None:
        check_columns(encoding, mechanism, plan, fitted=True)
        if not math.isclose(encoding.norm, problem.data.x_norm, rel_tol=TOLERANCE):
            raise ValueError("the declared columns imply another bound on the rows than the problem states")
    w = unpacked(record["coefficients"]["encoded"])
    if w.size != released_size(plan, problem):  # before the replay, which would make as many
        raise ValueError(f"{w.size} coefficients are stated where the problem has {released_size(plan, problem)}")
    decided = replay(mechanism.program(plan, problem), record["released"]).decided
    encoding = None if encoding is None else encoding.resolved(decided)
    _check_coefficients(decided, w)
    noise = noise_again(record["noise"])
    receipt = receipt_again(record.get("ledger"), plan, noise["policy"])
    older, listed = "unit" not in record["target"], isinstance(record["coefficients"]["encoded"], list)
    return _record(problem, plan, Outcome(w, record["released"], decided), noise, encoding, receipt, older=older, listed=listed)


def check_columns(encoding: Encoding, mechanism: Mechanism, planned: Plan, *, fitted: bool = False) -> None:
    """The columns that a mechanism was planned for are the declared ones: a fit refuses others before it spends, and so does
    `verify`. Of a `fitted` model private bounds are known, and so is the centre that missing cells took."""
    kinds = tuple("numeric" if fitted and kind == "private" else kind for kind in getattr(mechanism, "kinds", ()))
    groups = getattr(mechanism, "groups", ())
    for what, own, declared in (("kinds", kinds, encoding.kinds), ("groups", groups, encoding.groups)):
        if own and own != declared:
            found = f"{shown(declared)}, found {shown(own)}"
            raise ValueError(f"Expected a mechanism planned for columns of the {what} {found}. Leave {what}= out.")
    for j in getattr(mechanism, "curved", ()):
        if j >= encoding.d or encoding.kinds[j] not in ("numeric", "private") or not encoding.centred:
            raise ValueError(
                f"Expected curves of numeric columns that are centred between their bounds, found column {j}. Leave curved= out."
            )
    for j, rule in enumerate(encoding.rules):
        if rule != "value" and encoding.kinds[j] not in WITH_GAPS:
            raise ValueError(f"Expected rules for missing cells of numbers alone, found {rule!r} for column {j}. Correct it.")
    known = tuple(j for j, rule in enumerate(encoding.rules) if rule in ("mean", "released"))
    stated = tuple(getattr(mechanism, "gaps", ()))
    if stated and stated != known:
        raise ValueError(f"Expected gaps of columns {shown(known)}, found {shown(stated)}. Leave gaps= out.")
    centred = tuple(j for j, rule in enumerate(encoding.rules) if rule == ("released" if fitted else "mean"))
    counted = tuple(getattr(mechanism, "gaps", ())) if any(stage.name == "present" for stage in planned.stages) else ()
    if (fitted or counted) and counted != centred:
        raise ValueError(
            f"Expected the present cells of columns {shown(centred)} to be counted, whose missing cells take the centre, found "
            f"those of {shown(counted)}. Leave gaps= out."
        )


def released_size(plan: Plan, problem: Problem) -> int:
    """How many numbers leave: one per coefficient of the problem, unless the plan says otherwise (the number of a hypothesis)."""
    return plan.shape.parameters(problem) if plan.parameters is None else plan.parameters


def _check_coefficients(decided: Mapping[str, object], w: Vector) -> None:
    """A mechanism whose coefficients follow from released values decides them: then the stated ones must be those."""
    if "coefficients" in decided:
        follow = np.asarray(decided["coefficients"], dtype=np.float64)
        if not (np.isfinite(follow).all() and np.isfinite(w).all()):
            raise ValueError("the coefficients are not finite")
        if follow.shape != w.shape or not np.allclose(w, follow, rtol=TOLERANCE, atol=TOLERANCE * float(np.abs(follow).max())):
            raise ValueError("the coefficients do not follow from the released values")
