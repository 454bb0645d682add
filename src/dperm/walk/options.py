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
    """What `evaluate` and `profile` spend beside ε: on whom, against which neighbour, by which noise, from which ledger.

    Estimators have the same parameters, and take these words for them.

    Parameters
    ----------
    delta : float or None, default None
        Chance δ of the guarantee. None means min(1e-6, 0.1/n) from the public n; 0 asks for pure privacy.
    relation : {"replace-one", "zero-out", "add-remove"}, default "replace-one"
        Which tables count as neighbours. "add-remove" protects the number of rows and needs `nominal_n`.
    nominal_n : int or None, default None
        A public guess of the number of rows, for "add-remove".
    groups : str or None, default None
        The column of the table that names the person.
    max_rows_per_person : int or None, default None
        How many rows of one person count; rows beyond it are left out by a public rule. Needed with `groups`.
    noise : {"secure", "exact"}, default "secure"
        Where noise comes from: a cryptographic stream, or the exact discrete samplers of OpenDP.
    random_state : int, numpy Generator or None, default None
        A seed makes the result reproducible and NOT private; the certificate says so.
    ledger : path, Ledger or None, default None
        A budget ledger that is debited before any noise is drawn.
    """

    delta: float | None
    relation: str
    nominal_n: int | None
    groups: object
    max_rows_per_person: int | None
    noise: str
    random_state: RandomState
    ledger: LedgerPlace


_ROWS = {"relation": "replace-one", "nominal_n": None, "groups": None, "max_rows_per_person": None}
spends = spelt_out(Spending, delta=None, **_ROWS, noise="secure", random_state=None, ledger=None)


class Running(TypedDict, total=False):
    """Who is told of a run: the ledger that is debited, what it knows the data by, and two functions."""

    ledger: LedgerPlace
    fingerprint: object
    on_book: Callable[[Event], None] | None
    progress: Progress | None


runs = spelt_out(Running, ledger=None, fingerprint=None, on_book=None, progress=None)


def check_nominal(spending: Spending) -> None:
    """Where the number of rows is protected, a public one must stand in for it."""
    if spending["relation"] == "add-remove" and spending["nominal_n"] is None:
        raise ValueError(
            "Expected nominal_n= (--nominal-n) under relation='add-remove', where the number of rows is protected, found none. "
            "Pass a public round number, or use relation='zero-out' if n is public."
        )


def check_level(level: float) -> None:
    """Refuse a coverage of intervals that is no chance, or below one half."""
    if not 0.5 <= level < 1:
        raise ValueError(f"Expected 0.5 ≤ level < 1, found {level}. Pass e.g. 0.95.")


def spent_target(spending: Spending, epsilon: float, rows: int, per_person: int, unit: str) -> tuple[Target, int]:
    """The declared budget, and the number of rows that it is declared for: the nominal one where there is one."""
    n = rows if spending["nominal_n"] is None else spending["nominal_n"]
    delta, relation = spending["delta"], spending["relation"]
    return Target.declare(epsilon=epsilon, delta=delta, relation=relation, n=n, rows_per_person=per_person, unit=unit), n
