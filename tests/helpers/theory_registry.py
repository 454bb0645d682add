"""Which test is the property test, and which the simulation, of each public function of `dperm.theory`.

A test says so itself, with a decorator; `test_theory_complete.py` checks that every function has both and that each test's code
really reaches the functions it names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PROPERTIES: dict[str, list[Callable[..., Any]]] = {}
SIMULATIONS: dict[str, list[Callable[..., Any]]] = {}


def property_of(*names: str) -> Callable[[Any], Any]:
    """The decorated hypothesis test states a property (monotone, units, inverse, order) of these functions."""
    return _entered(PROPERTIES, names)


def simulates(*names: str) -> Callable[[Any], Any]:
    """The decorated test draws data, runs the mechanism many times and compares with these functions."""
    return _entered(SIMULATIONS, names)


def _entered(table: dict[str, list[Callable[..., Any]]], names: tuple[str, ...]) -> Callable[[Any], Any]:
    def enter(test: Any) -> Any:
        for name in names:
            table.setdefault(name, []).append(test)
        return test

    return enter
