"""Mechanisms by name, for `method=` and for certificates. `dperm.mechanisms` imports every one, which fills the registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dperm.release.plan import MECHANISMS, MOST_RELEASES


def mechanism_from_spec(name: str, options: Mapping[str, Any]) -> Any:
    """Rebuild a mechanism from its certificate.

    >>> mechanism_from_spec("gradient", {"steps": 7}).steps
    7
    """

    if name not in MECHANISMS:
        raise ValueError(f"Expected a mechanism in {sorted(MECHANISMS)}, found {name!r}.")
    return MECHANISMS[name](**options)


def mechanism_of_record(name: str, options: Mapping[str, object]) -> Any:
    """The mechanism that a certificate states; an option that it does not state has the meaning it had when there was none."""
    steps = options.get("steps")
    if isinstance(steps, int | float) and steps > MOST_RELEASES:  # some plans list their steps one by one
        raise ValueError(f"Expected at most {MOST_RELEASES:,} steps, found {steps:,}.")
    return mechanism_from_spec(name, {**getattr(MECHANISMS.get(name), "UNSTATED", {}), **options})
