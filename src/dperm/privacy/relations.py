"""Neighbouring relations: which two data sets must look alike."""

from __future__ import annotations

from typing import Final

REPLACE_ONE: Final = "replace-one"
ZERO_OUT: Final = "zero-out"
ADD_REMOVE: Final = "add-remove"
RELATIONS: Final[tuple[str, ...]] = (REPLACE_ONE, ZERO_OUT, ADD_REMOVE)


def check_relation(relation: str) -> str:
    """Return `relation` when it is one of RELATIONS, raise ValueError otherwise.

    >>> check_relation("zero-out")
    'zero-out'
    """
    if relation not in RELATIONS:
        known = ", ".join(repr(name) for name in RELATIONS)
        raise ValueError(f"Expected relation in {known}, found {relation!r}. Pass one of them.")
    return relation


def kappa(relation: str) -> int:
    """κ: how many norm bounds one neighbouring step can move a *vector sum*.

    κ = 2 for replace-one (‖v − v'‖ ≤ ‖v‖ + ‖v'‖ ≤ 2C), κ = 1 for zero-out and add-remove (‖v − 0‖ ≤ C).

    **Guarantee.** The L2 sensitivity of Σ_i v_i with ‖v_i‖ ≤ C is κC. Histograms, Gram matrices and squared
    norms have factors of their own (√2 under replace-one): do not use κ for them.

    >>> kappa("replace-one"), kappa("zero-out"), kappa("add-remove")
    (2, 1, 1)
    """
    return 2 if check_relation(relation) == REPLACE_ONE else 1
