"""A durable record of what has been spent on a data set, shared by processes and people.

One SQLite file. The debit of a whole plan is committed, to disk, before any noise is drawn: a crash can over-count, never
under-count. What may still be spent is decided by a privacy filter (`dperm.privacy.filters`), proven for analysts who choose each
fit after seeing the ones before.

An entry has a public body, which the certificate of the fit repeats, and a secret part (a keyed fingerprint of the data) that
stays in the file; the body holds the hash of the secret part.

Tamper-evident: hash_k = SHA-256(hash_{k-1} ‖ body_k), and certificates carry the entry and head that they saw. `verify` finds
an altered or removed row by itself, and a tail that was cut off (or a chain written anew) from a certificate that saw it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dperm.privacy import RELATIONS
from dperm.privacy.filters import Cost, Filter
from dperm.release.ledger.check import (
    APPLICATION,
    FORMAT,
    Chain,
    canonical,
    cost_of,
    entry_hash,
    filter_of,
    problems,
    secret_of,
    stored,
)
from dperm.release.ledger.file import BOOKED, UNSPENT, UNSURE, check_seen, opened, remember
from dperm.release.ledger.refusal import why_refused
from dperm.release.plan import UNITS, Plan
from dperm.release.record import EntryRecord, PlanRecord, ReceiptRecord, SecretRecord
from dperm.tables.fingerprint import digest, recognisable

_TABLES = """
CREATE TABLE entries (number INTEGER PRIMARY KEY, body TEXT NOT NULL, secret TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE tail (only INTEGER PRIMARY KEY CHECK (only = 1), number INTEGER NOT NULL, hash TEXT NOT NULL);
"""


class BudgetExceeded(ValueError):
    """The request does not fit into what is left. Nothing was read, nothing was spent."""


@dataclass(frozen=True)
class Account:
    """What a ledger says now."""

    dataset: str
    epsilon: float
    delta: float
    relation: str
    unit: str
    fits: int
    spent_share: float
    left_epsilon: float
    rule: str
    head: str
    seeded: int
    left_twice: float  # ε of each of two more fits
    aside_delta: float  # of δ, for releases that may fail
    left_delta: float

    def spec(self) -> dict[str, object]:
        return dict(self.__dict__)


class Ledger:
    """A budget ledger on disk.

    **Guarantee**: everything released under its debits is together (ε, δ)-DP for its relation and unit, whatever the analysts
    chose after seeing what; see `dperm.privacy.filters` for the proof.

    Parameters
    ----------
    path : path
        The file of an existing ledger; `Ledger.create` makes one.
    data : object, default None
        The data set, to be compared with the one that the ledger was made for.

    Examples
    --------
    >>> import tempfile, dperm
    >>> file = Path(tempfile.mkdtemp()) / "people.ledger"
    >>> ledger = Ledger.create(file, dataset="people", epsilon=3.0, delta=1e-6)
    >>> ledger.account().fits, round(ledger.account().left_epsilon, 2)
    (0, 2.96)
    """

    def __init__(self, path: str | Path, *, data: object = None) -> None:
        """`data`: recognise the data set by this (a path to its file) instead of by the array or table that is fitted."""
        self.path = Path(path).absolute()  # the same file wherever the process goes
        self.data = data
        if not self.path.is_file():
            raise ValueError(f"Expected a ledger at {self.path}, found no file. Make one with `dperm ledger create`.")

    # -- making and opening ------------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        dataset: str,
        epsilon: float,
        delta: float,
        relation: str = "replace-one",
        unit: str = "row",
        rule: str = "auto",
        data: object = None,
    ) -> Ledger:
        """A new file; an existing one is never overwritten. `data` (a path, table or array) fixes the fingerprint now."""
        file = Path(path)
        if relation not in RELATIONS:
            raise ValueError(f"Expected relation in {RELATIONS}, found {relation!r}. Most ledgers want 'replace-one'.")
        if unit not in UNITS:
            raise ValueError(f"Expected unit in {UNITS}, found {unit!r}. 'person' is for fits with groups=.")
        if not dataset or len(dataset) > 200 or not dataset.isprintable():
            raise ValueError(f"Expected a short printable name for the data set, found {dataset[:80]!r}.")
        Filter.declare(epsilon, delta, rule)
        salt = secrets.token_hex(32)
        body: EntryRecord = {
            "kind": "create",
            "number": 0,
            "format": FORMAT,
            "time": _now(),
            "dataset": dataset,
            "epsilon": float(epsilon),
            "delta": float(delta),
            "relation": relation,
            "unit": unit,
            "rule": rule,
        }
        secret: SecretRecord = {"salt": salt, "fingerprint": None if data is None else _keyed(salt, digest(data))}
        try:
            file.touch(0o600, exist_ok=False)
        except FileExistsError as error:
            raise ValueError(f"Expected a new file, found {file} there already. A ledger is never overwritten.") from error
        except OSError as error:
            raise ValueError(f"Expected to write {file}, found: {error.strerror}.") from error
        made = cls(file)
        with opened(file) as connection:
            connection.executescript(_TABLES)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO tail VALUES (1, 0, '')")
            made._append(connection, "", body, secret)
        return made

    @classmethod
    def open(cls, ledger: object) -> Ledger:
        """A ledger from a path; a `Ledger` is given back as it is."""
        if isinstance(ledger, Ledger):
            return ledger
        if isinstance(ledger, str | Path):
            return cls(ledger)
        raise ValueError(f"Expected ledger= as a path or a Ledger, found {type(ledger).__name__}. Pass one of them.")

    # -- reading -----------------------------------------------------------------------------------------------------

    def entries(self) -> list[EntryRecord]:
        """Every entry in order, parsed; each with its hash."""
        return self._seen().entries

    def _seen(self, known: Chain | None = None, so_far: str = UNSPENT) -> Chain:
        with opened(self.path, so_far) as connection:
            connection.execute("BEGIN")
            return self._read(connection, known, so_far)

    def _read(self, connection: sqlite3.Connection, known: Chain | None = None, so_far: str = UNSPENT) -> Chain:
        """All of the file, checked; of what is `known` from a moment ago only that it is still there, letter by letter."""
        mark = connection.execute("PRAGMA application_id").fetchone()[0]
        if mark != APPLICATION:
            raise ValueError(f"Expected a ledger in {self.path.name}, found another SQLite file.")
        rows, bodies, reasons = stored(connection, known.rows if known else [])
        start = len(rows) - len(bodies)
        chain = Chain(rows, known.entries[:start], known.costs[:start]) if known else Chain(rows, [], [])
        for (number, _, secret, found), body in zip(rows[start:], bodies):
            try:
                chain.entries.append({**body, "secret": secret_of(secret), "hash": found})
                chain.costs.append(cost_of(body))
            except (LookupError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
                raise ValueError(f"Expected readable entries in {self.path.name}, found entry {number} damaged.") from error
        if not rows or (chain.entries and chain.entries[0].get("format") != FORMAT):
            raise ValueError(f"Expected a ledger with format {FORMAT!r} in {self.path.name}, found none.")
        if reasons:  # what is left of an altered file is no account of what was spent
            raise ValueError(f"Expected the ledger {self.path.name} as it was written, found: {reasons[0]}. {so_far}")
        check_seen(self.path, [found for *_, found in rows])
        return chain

    def account(self, delta: float | None = None) -> Account:
        """What is spent and left; `left_epsilon` is that of one more Gaussian fit at `delta` (default: the ledger's)."""
        chain = self._seen()
        entries, costs, closed = chain.entries, chain.spent(), chain.closed()
        head, rule = entries[0], filter_of(entries[0])
        debits = [entry for entry in entries if entry["kind"] == "debit"]
        return Account(
            head["dataset"],
            head["epsilon"],
            head["delta"],
            head["relation"],
            head["unit"],
            len(debits),
            1.0 if closed else rule.spent_share(costs),
            0.0 if closed else rule.left_epsilon(costs, head["delta"] if delta is None else delta),
            debits[-1]["branch"] if debits else head["rule"],
            entries[-1]["hash"],
            sum(entry["noise"] == "seeded" for entry in debits),
            0.0 if closed else rule.left_epsilon(costs, head["delta"] if delta is None else delta, fits=2),
            rule.failure,
            0.0 if closed else rule.left_delta(costs),
        )

    # -- spending ----------------------------------------------------------------------------------------------------

    def check(self, *plans: Plan) -> None:
        """Raise as `debit` would for these, one after the other, spending nothing: for a refusal before data are opened."""
        chain = self._seen()
        rule, before = filter_of(chain.entries[0]), list[Cost]()
        for plan in plans:
            self._matches(chain.entries[0], plan)
            cost = rule.cost(plan.events)
            self._admit(chain, plan, cost, before)
            before.append(cost)

    def debit(self, plan: Plan, *, noise: str = "secure", data: object = None, note: str = "") -> ReceiptRecord:
        """Commit the cost of the whole plan, or raise; call it before any noise is drawn.

        Gives the receipt that goes into the certificate: the entry, the hash before it, and the new head.
        """
        chain = self._seen()
        self._matches(chain.entries[0], plan)
        cost = filter_of(chain.entries[0]).cost(plan.events)  # may take a second: not while others wait
        self._admit(chain, plan, cost)  # the refusal that needs no data comes first
        shown = data if self.data is None else self.data
        seen = _keyed(chain.entries[0]["secret"]["salt"], digest(shown)) if recognisable(shown) else None
        with opened(self.path) as connection:
            connection.execute("BEGIN IMMEDIATE")
            chain = self._read(connection, chain)
            entries = chain.entries
            known = {entry["secret"].get("fingerprint") for entry in entries} - {None}
            if seen is not None and known and seen not in known:
                raise ValueError(
                    f"Expected the data set that ledger {self.path.name} was made for ({entries[0]['dataset']!r}), found other "
                    "content. Use that data set's own ledger; if these are the same people in another form, admit it first: "
                    "`dperm ledger admit`."
                )
            branch = self._admit(chain, plan, cost)
            body: EntryRecord = {
                "kind": "debit",
                "number": len(entries),
                "time": _now(),
                "dataset": entries[0]["dataset"],
                "plan": plan_record(plan),
                "cost": cost.spec(),
                "branch": branch,
                "noise": noise,
                "note": note,
            }
            sealed: SecretRecord = {"fingerprint": seen, "nonce": secrets.token_hex(16)}
            receipt = self._append(connection, entries[-1]["hash"], body, sealed)
        self._seen(chain, BOOKED)  # under its name, before noise is drawn: the file may have been replaced meanwhile
        return receipt

    def admit(self, data: object) -> None:
        """Accept another form of the same people's data (other columns, another file format) for later fits."""
        with opened(self.path) as connection:
            connection.execute("BEGIN IMMEDIATE")
            entries = self._read(connection).entries
            found = _keyed(entries[0]["secret"]["salt"], digest(data))
            body: EntryRecord = {"kind": "admit", "number": len(entries), "time": _now()}
            self._append(connection, entries[-1]["hash"], body, {"fingerprint": found, "nonce": secrets.token_hex(16)})

    def _append(self, connection: sqlite3.Connection, previous: str, body: EntryRecord, secret: SecretRecord) -> ReceiptRecord:
        hidden = canonical(secret)
        entry: EntryRecord = {**body, "sealed": hashlib.sha256(hidden.encode()).hexdigest()}
        text = canonical(entry)
        head = entry_hash(previous, text)
        connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", (body["number"], text, hidden, head))
        connection.execute("UPDATE tail SET number = ?, hash = ? WHERE only = 1", (body["number"], head))
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:  # where the disk fails at the end, the entry may be there or not
            raise ValueError(f"Expected to write into the ledger {self.path.name}, found: {error}. {UNSURE}") from error
        remember(self.path, head)
        return {"entry": entry, "previous": previous, "head": head}

    def _matches(self, head: EntryRecord, plan: Plan) -> None:
        if plan.target.relation != head["relation"]:
            raise ValueError(
                f"Expected relation={head['relation']!r}, which ledger {self.path.name} is kept for, "
                f"found {plan.target.relation!r}. Change one."
            )
        unit = plan.target.unit
        if unit != head["unit"]:
            advice = "Pass groups= and max_rows_per_person=." if head["unit"] == "person" else "Use a ledger with unit person."
            raise ValueError(
                f"Expected a fit per {head['unit']}, which ledger {self.path.name} is kept for, found one per {unit}. {advice}"
            )

    def _admit(self, chain: Chain, plan: Plan, cost: Cost, before: Sequence[Cost] = ()) -> str:
        """The branch that admits a plan after the entries, and after what would be booked `before` it."""
        head, costs = chain.entries[0], [*chain.spent(), *before]
        rule = filter_of(head)
        closed = chain.closed() or bool(before and rule.accepts(costs) is None)
        branch = None if closed else rule.admits(costs, cost, plan.events, plan.target.relation)
        if branch is not None:
            return branch
        raise BudgetExceeded(
            f"Expected a fit within what is left in ledger {self.path.name} of data set {head['dataset']!r}, found one "
            f"that would exceed its budget of epsilon={rule.epsilon:g}, delta={rule.delta:g}: "
            f"{why_refused(rule, costs, cost, plan.target, closed=closed)} No data were read, nothing was spent."
        )

    # -- checking ----------------------------------------------------------------------------------------------------

    def verify(
        self,
        certificates: Sequence[Mapping[str, object]] = (),
        *,
        allow_seeded: bool = False,
        accept_assumptions: bool = False,
    ) -> list[str]:
        """Reasons why the ledger cannot be trusted, each a sentence; empty when all agrees. See `dperm.release.ledger.check`."""
        return problems(self, certificates, allow_seeded=allow_seeded, accept_assumptions=accept_assumptions)


def plan_record(plan: Plan) -> PlanRecord:
    """What the ledger keeps of a plan: public numbers only."""
    return {
        "mechanism": plan.mechanism,
        **plan.target.spec(),
        "assumptions": list(plan.assumptions),
        "n": plan.shape.n,
        "d": plan.shape.d,
        "events": [event.spec() for event in plan.events],
    }


def _keyed(salt: str, found: bytes) -> str:
    """The fingerprint under the ledger's own key: without the ledger nobody can test a guess of the data against it."""
    return hmac.new(bytes.fromhex(salt), found, hashlib.sha256).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def receipt_again(stated: ReceiptRecord | None, plan: Plan, policy: str) -> ReceiptRecord | None:
    """The receipt that a certificate must carry for this plan, if it states one: verification compares the two.

    The plan, the noise and the head are recomputed. When the entry was written, which entry came before and what its filter said
    about other fits cannot be recomputed without the ledger: a change to them shows in the head, and `dperm ledger verify` with
    the certificate compares all of it.
    """
    if stated is None:
        return None
    record = plan_record(plan)
    if "unit" not in stated["entry"]["plan"]:  # as entries were written before they stated it
        del record["unit"], record["assumptions"]
    entry: EntryRecord = {**stated["entry"], "kind": "debit", "plan": record, "noise": policy}
    # The head is that of the stated text: another machine's last digits must not break the chain; events are compared as numbers.
    head = entry_hash(stated["previous"], canonical(stated["entry"]))
    return {"entry": entry, "previous": stated["previous"], "head": head}


# What `ledger=` may be: a ledger, or the place of its file.
LedgerPlace = Ledger | str | Path | None
