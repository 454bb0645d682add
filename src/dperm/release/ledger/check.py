"""What an entry of a ledger is, and the check of a ledger by computing it again: chain, costs, every decision of the filter, and
the certificates that saw it."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from dperm.privacy import event_from_spec
from dperm.privacy.filters import Cost, CostRecord, Filter
from dperm.release.ledger.file import opened
from dperm.release.record import EntryRecord, SecretRecord

if TYPE_CHECKING:
    from dperm.release.ledger.book import Ledger

FORMAT = "dperm-ledger/1"
Row = tuple[int, str, str, str]  # number, body, secret, hash
APPLICATION = 0x64706C31  # "dpl1", so that another SQLite file is not taken for a ledger


@dataclass(frozen=True)
class Chain:
    """What was read from a ledger: rows as they are stored, the entries in them, and what each cost (None: it is no debit)."""

    rows: list[Row]
    entries: list[EntryRecord]
    costs: list[Cost | None]

    def spent(self) -> list[Cost]:
        return [cost for cost in self.costs if cost is not None]

    def closed(self) -> bool:
        """Whether the first fit took the whole budget."""
        return any(entry.get("branch") == "single" for entry in self.entries)


def entry_hash(previous: str, body: str) -> str:
    """SHA-256 of the hash before and the canonical text of the entry."""
    return hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()


_WRITER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(value: object) -> str:
    """One text per value: sorted keys, no spaces, no NaN."""
    return _WRITER.encode(value)


def cost_of(body: EntryRecord) -> Cost | None:
    """What an entry cost, None where it is no debit; raises where one lacks what an account needs."""
    if body["kind"] != "debit":
        return None
    body["plan"]["mechanism"], body["branch"], body["noise"]
    cost = body["cost"]
    square, pure = (None if value is None else _amount(value) for value in (cost["square"], cost["pure"]))
    return Cost(square, tuple(map(_amount, cost["curve"])), _amount(cost["failure"]), pure)


def _amount(value: object) -> float:
    if type(value) not in (int, float):  # nor a bool
        raise ValueError("a cost that is no number")
    return float(cast(float, value))


def secret_of(text: str) -> SecretRecord:
    secret = cast(SecretRecord, dict(json.loads(text)))
    bytes.fromhex(secret.get("salt", "")), hash(secret.get("fingerprint"))
    return secret


def filter_of(head: EntryRecord) -> Filter:
    return Filter.declare(head["epsilon"], head["delta"], head["rule"])


def problems(
    ledger: Ledger, certificates: Sequence[Mapping[str, object]], *, allow_seeded: bool, accept_assumptions: bool = False
) -> list[str]:
    """Every reason not to trust the file; empty when all agrees."""
    try:
        with opened(ledger.path) as connection:
            connection.execute("BEGIN")
            if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
                return ["this is another SQLite file, not a ledger"]
            damage = [str(row[0]) for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
            rows, bodies, reasons = stored(connection)
    except (ValueError, sqlite3.Error) as error:
        return [f"the file does not open as a ledger: {error}"]
    reasons = [f"the file is damaged: {text}" for text in damage] + reasons
    if reasons or not bodies:
        return reasons or ["the ledger has no entries"]
    _replay(bodies, reasons, allow_seeded)
    if not accept_assumptions:
        reasons += _assumed(bodies)
    heads = {row[3] for row in rows}
    for number, certificate in enumerate(certificates, 1):
        _saw(number, certificate, heads, bodies, reasons)
    return reasons


def stored(connection: sqlite3.Connection, known: Sequence[Row] = ()) -> tuple[list[Row], list[EntryRecord], list[str]]:
    """Rows as they are stored, the entries in them, and every reason why they are not what was written, end included.

    Rows that were checked before (`known`) and are still there, letter by letter, need no second check: then the entries given
    are those that follow.
    """
    rows = connection.execute("SELECT number, body, secret, hash FROM entries ORDER BY number").fetchall()
    tail = connection.execute("SELECT number, hash FROM tail").fetchall()
    reasons: list[str] = []
    same = rows[: len(known)] == list(known)
    bodies = _chain(rows, reasons, len(known) if same else 0)
    if not same:  # a chain that was computed anew for other entries has no fault of its own
        reasons.append("entries that were there a moment ago are gone or were altered")
    if not rows or tail != [(rows[-1][0], rows[-1][3])]:
        reasons.append("the last entries are cut off: the file's own mark of its end names another entry")
    return rows, bodies, reasons


def _chain(rows: Sequence[Row], reasons: list[str], start: int) -> list[EntryRecord]:
    previous = rows[start - 1][3] if start else ""
    bodies: list[EntryRecord] = []
    for place, (number, text, secret, found) in enumerate(rows[start:], start):
        if number != place:
            reasons.append(f"entry {place} is missing (found {number} in its place)")
            return []
        try:
            body = json.loads(text)
            same = isinstance(body, dict) and canonical(body) == text
        except (ValueError, TypeError, RecursionError):
            body, same = {}, False
        sealed = isinstance(secret, str) and hashlib.sha256(secret.encode()).hexdigest()
        if not same or body.get("number") != number or body.get("sealed") != sealed:
            reasons.append(f"entry {number} was altered: its text does not agree with itself")
        elif entry_hash(previous, text) != found:
            reasons.append(f"entry {number} was altered, or one before it: its hash does not follow")
        previous = found
        bodies.append(cast(EntryRecord, body) if isinstance(body, dict) else {})
    if bodies and not start and (bodies[0].get("kind") != "create" or bodies[0].get("format") != FORMAT):
        reasons.append("entry 0 does not create a ledger")
    return bodies


def _replay(bodies: Sequence[EntryRecord], reasons: list[str], allow_seeded: bool) -> None:
    try:
        rule = filter_of(bodies[0])
        costs: list[Cost] = []
        closed = False
        for body in bodies[1:]:
            if body["kind"] != "debit":
                continue
            events = [event_from_spec(spec) for spec in body["plan"]["events"]]
            cost = rule.cost(events)
            if not _same(cost.spec(), body["cost"]):
                reasons.append(f"entry {body['number']} states another cost than its events have")
            if body["plan"]["relation"] != bodies[0]["relation"]:
                reasons.append(f"entry {body['number']} is for another relation")
            if body["plan"].get("unit", bodies[0]["unit"]) != bodies[0]["unit"]:
                reasons.append(f"entry {body['number']} protects another unit")
            branch = rule.admits(costs, cost, events, bodies[0]["relation"])
            if closed or branch is None:
                reasons.append(f"entry {body['number']} exceeds the budget of epsilon={rule.epsilon:g}, delta={rule.delta:g}")
            elif branch != body["branch"]:
                reasons.append(f"entry {body['number']} was admitted as {body['branch']!r}, recomputed {branch!r}")
            if body["noise"] == "seeded" and not allow_seeded:
                reasons.append(f"entry {body['number']} used seeded noise: its release is NOT private")
            closed = closed or branch == "single"
            costs.append(cost)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        reasons.append(f"the entries cannot be recomputed: {type(error).__name__}: {error}")


def _assumed(bodies: Sequence[EntryRecord]) -> list[str]:
    """What the guarantees of the debited fits rest on and no code enforces."""
    found = []
    for body in bodies:
        plan = body.get("plan")
        texts = plan.get("assumptions", []) if isinstance(plan, Mapping) else []
        for text in texts if isinstance(texts, list) else [texts]:
            found.append(f"entry {body['number']}: {text}: pass accept_assumptions=True (--accept-assumptions) to accept that")
    return found


def _same(one: CostRecord, other: CostRecord) -> bool:
    if set(one) != set(other) or len(one["curve"]) != len(other["curve"]):
        return False
    pairs: list[tuple[float | None, float | None]] = [*zip(one["curve"], other["curve"]), (one["failure"], other["failure"])]
    pairs += [(one["square"], other["square"]), (one["pure"], other["pure"])]
    return all(a == b or (a is not None and b is not None and math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-20)) for a, b in pairs)


def _saw(
    number: int, certificate: Mapping[str, object], heads: set[str], bodies: Sequence[EntryRecord], reasons: list[str]
) -> None:
    """The certificate's entry must still be in the chain, as it was."""
    record = certificate.get("ledger") if isinstance(certificate, Mapping) else None
    if not isinstance(record, Mapping) or not isinstance(record.get("entry"), Mapping):
        reasons.append(f"certificate {number} carries no ledger entry: its fit was not debited here")
        return
    if record.get("head") not in heads:
        entry = record["entry"].get("number")
        reasons.append(f"certificate {number} saw entry {entry}, which is not in this ledger: it was cut off or rewritten")
    elif record["entry"] not in [dict(body) for body in bodies]:
        reasons.append(f"certificate {number} states another entry than the ledger has")
