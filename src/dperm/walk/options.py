"""Options that go together, each group declared once: what a paid question may spend and on whom, and how a run is watched."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

from dperm.privacy import Event
from dperm.release.driver import Progress
from dperm.release.ledger.book import LedgerPlace
from dperm.release.noise import RandomState
from dperm.release.plan import Target
from dperm.words.options import spelt_out


class Spending(TypedDict, total=False):
    """What `evaluate` and `profile` spend beside ε: on whom, against which neighbour, by which noise, from which ledger."""

    delta: float | None
    relation: str
    nominal_n: int | None
    groups: object
    max_rows_per_person: int | None
    noise: str
    random_state: RandomState
    ledger: LedgerPlace


spends = spelt_out(
    delta=None,
    relation="replace-one",
    nominal_n=None,
    groups=None,
    max_rows_per_person=None,
    noise="secure",
    random_state=None,
    ledger=None,
)


class Running(TypedDict, total=False):
    """Who is told of a run: the ledger that is debited, what it knows the data by, and two functions."""

    ledger: LedgerPlace
    fingerprint: object
    on_book: Callable[[Event], None] | None
    progress: Progress | None


runs = spelt_out(ledger=None, fingerprint=None, on_book=None, progress=None)


def check_nominal(spending: Spending) -> None:
    """Where the number of rows is protected, a public one must stand in for it."""
    if spending["relation"] == "add-remove" and spending["nominal_n"] is None:
        raise ValueError("Expected nominal_n= under relation='add-remove', found none. Pass a public round number.")


def spent_target(spending: Spending, epsilon: float, rows: int, per_person: int, unit: str) -> tuple[Target, int]:
    """The declared budget, and the number of rows that it is declared for: the nominal one where there is one."""
    n = rows if spending["nominal_n"] is None else spending["nominal_n"]
    delta, relation = spending["delta"], spending["relation"]
    return Target.declare(epsilon=epsilon, delta=delta, relation=relation, n=n, rows_per_person=per_person, unit=unit), n
