"""method="auto": a published decision table over public numbers. It never sees a row."""

from __future__ import annotations

from typing import Any

from dperm.mechanisms.base import MECHANISMS, Shape, Target, mechanism_from_spec
from dperm.problem import Problem


def choose(method: Any, problem: Problem, shape: Shape, target: Target, *, asked_for: str) -> Any:
    """The mechanism for `method`: a name, "auto", or a mechanism object that is taken as it is.

    `asked_for` is "probabilities", "accuracy" or "coefficients".
    """
    if not isinstance(method, str):
        return method
    if method == "auto":
        return mechanism_from_spec("gradient", {})
    if method not in MECHANISMS:
        known = ", ".join(repr(name) for name in ["auto", *sorted(MECHANISMS)])
        raise ValueError(f"Expected method in {known}, found {method!r}.")
    return mechanism_from_spec(method, {})
