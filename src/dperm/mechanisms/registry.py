"""Mechanisms by name, for `method=` and for certificates. `dperm.mechanisms` imports every one, which fills the registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from dperm.release.plan import MECHANISMS, MOST_RELEASES, Mechanism, Plan
from dperm.release.typed import mistyped_fields

Kind = TypeVar("Kind")


def mechanism_from_spec(name: str, options: Mapping[str, object]) -> Mechanism:
    """Rebuild a mechanism from its certificate.

    >>> mechanism_from_spec("gradient", {"steps": 7}).steps
    7
    """

    if name not in MECHANISMS:
        raise ValueError(f"Expected a mechanism in {sorted(MECHANISMS)}, found {name!r}.")
    found: Mechanism = MECHANISMS[name](**options)
    return found


def mechanism_of_plan(plan: Plan, kind: type[Kind]) -> Kind:
    """The mechanism that made a plan, as its class."""
    found = mechanism_of_record(plan.mechanism, plan.options)
    if not isinstance(found, kind):
        raise ValueError(f"Expected a plan by {kind.__name__}, found one by {plan.mechanism!r}.")
    return found


def mechanism_of_record(name: str, options: Mapping[str, object]) -> Mechanism:
    """The mechanism that a certificate states; an option that it does not state has the meaning it had when there was none."""
    steps = options.get("steps")
    if isinstance(steps, int | float) and steps > MOST_RELEASES:  # some plans list their steps one by one
        raise ValueError(f"Expected at most {MOST_RELEASES:,} steps, found {steps:,}.")
    check_types(name, options)
    return mechanism_from_spec(name, {**getattr(MECHANISMS.get(name), "UNSTATED", {}), **options})


def check_types(name: str, options: Mapping[str, object]) -> None:
    """Refuse options of another type than their fields have, text or half a number for a whole one: "False" counts as true."""
    if name in MECHANISMS:
        for reason in mistyped_fields(options, MECHANISMS[name], "option"):
            raise ValueError(f"Expected options of {name!r} in their own types, found another: {reason}. Correct it.")
