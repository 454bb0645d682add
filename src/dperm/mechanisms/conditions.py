"""What a theorem needs, in words that several mechanisms share, and what the options of a mechanism may be."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from dperm.problem.plain import plain_fields, shown

GAUSSIAN = "delta > 0, because its noise is Gaussian (pass delta=1e-6)"
BOUNDED_ROWS = "a finite bound on the norm of a row (x_norm= or bounds=)"
LARGEST = sys.float_info.max
NOTHING: Mapping[str, Sequence[str | None]] = {}


def unmet(needs: Mapping[str, object]) -> list[str]:
    """The needs that are missing, in order; each is stated with whether it is.

    >>> unmet({"a convex loss": False, "a ridge": True})
    ['a ridge']
    """
    return [words for words, missing in needs.items() if missing]


def check_options(
    mechanism: object,
    *,
    among: Mapping[str, Sequence[str | None]] = NOTHING,
    positive: Sequence[str] = (),
    whole: Sequence[str] = (),
    parts: Sequence[str] = (),
) -> None:
    """Words among those allowed, numbers in (0, ∞), from 1 on, or in (0, 1); None passes where it is the
    default, and leaves a number to the rule. Numbers of every kind become Python's own before anything is computed with them."""
    plain_fields(mechanism)
    for label, allowed in among.items():
        if (word := getattr(mechanism, label)) not in allowed:
            raise ValueError(f"Expected {label} in {tuple(filter(None, allowed))}, found {shown(word)}. Pass one of them.")
    given = {label: getattr(mechanism, label) for label in (*positive, *whole, *parts)}
    for label, number in given.items():
        unstated = getattr(mechanism, "UNSTATED", NOTHING)  # what records of older versions mean, which may be None
        if number is None and unstated.get(label, getattr(type(mechanism), label, None)) is None:
            continue
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise ValueError(f"Expected a number for {label}, found {shown(number)}. Leave it out to take the default.")
        if label in whole and not (isinstance(number, int) and number >= 1):
            raise ValueError(f"Expected {label} as a whole number ≥ 1, found {number!r}. Pass an int.")
        if label in parts and not 0 < number < 1:
            raise ValueError(f"Expected 0 < {label} < 1, found {number}. Leave it out to take the default rule.")
        if not 0 < number <= LARGEST:  # which is below infinity, and below whole numbers that no float holds
            raise ValueError(f"Expected a finite {label} > 0, found {number}. Leave it out to take the default rule.")
