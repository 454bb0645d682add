"""Person-level privacy: at most k rows of a person take part, by a public rule."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dperm.tables.cells import persons
from dperm.tables.containers import beside
from dperm.tables.tables import cells, column_names, is_table, without_column
from dperm.words.spelling import closest

Held = TypeVar("Held")


def person_column(X: Held, owners: object) -> tuple[Held, object]:
    """(X without the person column, its cells) where `owners` is the name of a column; otherwise both as they are.

    Who a row belongs to is no feature: a model that had seen it could not predict for anybody else.
    """
    if not isinstance(owners, str):
        return X, owners
    names = column_names(X) if is_table(X) else []
    if not is_table(X) or names.count(owners) != 1:
        found = "it twice. Rename one of them" if owners in names else f"none.{closest(owners, names)} Correct the name"
        raise ValueError(
            f"Expected a table with one person column {owners[:60]!r}, found {found}: groups= (--person) names a column of "
            "the table. In Python, fit takes ids as `groups=` too, one entry per row."
        )
    return without_column(X, owners), cells(X, owners, exact=True)


def without_person(X: object, owners: object) -> object:
    """New rows without the person column of the fit, where they have it."""
    return without_column(X, owners) if isinstance(owners, str) and is_table(X) and owners in column_names(X) else X


def unit_of(owners: object) -> str:
    """What one neighbour differs by: a person where the rows have owners, however many of them count, a row otherwise.

    >>> unit_of(["a", "b"]), unit_of(None)
    ('person', 'row')
    """
    return "row" if owners is None else "person"


def check_limit(owners: object, limit: int | None) -> None:
    """Refuse persons without a limit, and the other way round."""
    if owners is None and limit is not None:
        raise ValueError("Expected groups= with max_rows_per_person=, found none. Pass the column that names the person.")
    if owners is not None and limit is None:
        raise ValueError("Expected max_rows_per_person= with groups=, found none. Pass how many rows of a person may count.")


def person_order(owners: object, weight: np.ndarray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(an order of the rows in which those of a person follow each other, the person of each row in that order).

    Rows that do not count (weight 0) belong to nobody: each has a number of its own, so that no person has more rows than count.
    """
    person = persons(beside(owners, exact=True))
    alone = np.asarray(weight) == 0
    person = np.where(alone, -1 - np.arange(len(person)), person)
    order = np.argsort(person, kind="stable")
    return order, person[order]


def person_weights(owners: object, limit: int | None, weight: np.ndarray | None, n: int) -> tuple[np.ndarray | None, int]:
    """Row weights with every person's rows after the first `limit` set to 0, and the factor for sensitivities.

    The rule is the order of the rows, so which rows stay depends on that person's rows alone. Replacing one person's rows by
    those of another who has no others here, nulling them, or adding or removing them, takes at most k counted rows out of the sum
    and puts at most k into it: it moves by at most k times what one replaced, nulled or added row can, the factor returned. That
    holds for a *person*. Replacing a single row together with its id is another change: the row's owner gets room for one more
    row and the new owner loses one, so that two persons' rows move. No statement is made about it: `unit_of` is "person". Rows
    without an owner (missing, empty) get weight 0: counted as one person's they would make room for each other, and one person
    who goes would move 2k rows. `dperm.tables.cells.person`
    says which ids are the same person; ids above 2⁵³ are best kept as text, because tables round them when one is missing.

    >>> person_weights(["a", "a", "b"], 1, None, 3)
    (array([1., 0., 1.]), 1)
    """
    check_limit(owners, limit)
    if owners is None or limit is None:
        return weight, 1
    people = beside(owners, exact=True)
    if people.shape != (n,):
        raise ValueError("Expected groups= with one entry per row, found another number of them. Pass one id for every row.")
    person = persons(people)
    order = np.argsort(person, kind="stable")
    first = np.r_[0, np.flatnonzero(np.diff(person[order])) + 1]
    rank = np.empty(n, dtype=np.int64)
    rank[order] = np.arange(n) - np.repeat(first, np.diff(np.r_[first, n]))
    kept = ((rank < limit) & (person >= 0)).astype(np.float64)
    return (kept if weight is None else kept * weight), int(limit)
