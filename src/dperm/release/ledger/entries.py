"""What an entry of a ledger is: its text, its place in the chain, its events."""

from __future__ import annotations

import hashlib
import json

from dperm.privacy import Event, event_from_spec
from dperm.privacy.filters import Filter
from dperm.release.record import EntryRecord, PlanRecord

FORMAT = "dperm-ledger/1"
APPLICATION = 0x64706C31  # "dpl1", so that another SQLite file is not taken for a ledger


def entry_hash(previous: str, body: str) -> str:
    """SHA-256 of the hash before and the canonical text of the entry."""
    return hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()


def canonical(value: object) -> str:
    """One text per value: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def filter_of(head: EntryRecord) -> Filter:
    return Filter.declare(head["epsilon"], head["delta"], head["rule"])


def events_of(record: PlanRecord) -> list[Event]:
    """The events of a stored plan."""
    return [event_from_spec(spec) for spec in record["events"]]
