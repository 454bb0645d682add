"""No public function of `dperm.theory` without a doctest, a property test and a simulation. A new one without them fails here."""

from __future__ import annotations

import doctest
import inspect
import types
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from dperm import theory
from dperm.theory import simulate
from theory_registry import PROPERTIES, SIMULATIONS

# importing the test modules fills the registry
for path in sorted(Path(__file__).parent.glob("test_theory_*.py")):
    if path.stem != Path(__file__).stem:
        import_module(path.stem)

PUBLIC = sorted(name for name in theory.__all__ if inspect.isfunction(getattr(theory, name)))
HOMES = ("test_theory_", "theory_", "dperm.theory.simulate")
RANDOM = {"standard_normal", "random", "uniform", "default_rng", "fit", "noise_source", "generator", "binomial"}


def plain(test: Any) -> Callable[..., Any]:
    """The function that was written, without hypothesis or pytest around it."""
    inner = getattr(test, "hypothesis", None)
    return inspect.unwrap(test if inner is None else inner.inner_test)


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def words(function: Callable[..., Any], seen: set[int] | None = None) -> set[str]:
    """Every name that the function's code mentions, and that of the test helpers and experiments it calls."""
    seen = set() if seen is None else seen
    if id(function) in seen:
        return set()
    seen.add(id(function))
    found: set[str] = set()
    for code in codes(function.__code__):
        found |= set(code.co_names) | {c for c in code.co_consts if isinstance(c, str) and c.isidentifier()}
    for name in list(found):
        value = function.__globals__.get(name, getattr(simulate, name, None) if "simulate" in found else None)
        if isinstance(value, types.FunctionType) and value.__module__.startswith(HOMES):
            found |= words(inspect.unwrap(value), seen)
    return found | _parametrized(function, seen)


def _parametrized(function: Callable[..., Any], seen: set[int]) -> set[str]:
    """Names in the parameters that pytest passes: functions, and keys of the experiments."""
    found: set[str] = set()
    for mark in getattr(function, "pytestmark", []):
        if mark.name != "parametrize":
            continue
        for row in mark.args[1]:
            for item in row if isinstance(row, list | tuple) else [row]:
                item = simulate.EXPERIMENTS.get(item, item) if isinstance(item, str) else item
                item = item if not isinstance(item, str) else theory.THEOREMS.get(item, item)
                if isinstance(item, types.FunctionType):
                    found |= {item.__name__} | (words(inspect.unwrap(item), seen) if item.__module__.startswith(HOMES) else set())
                elif isinstance(item, str):
                    found.add(item)
    return found


def reached(test: Any) -> set[str]:
    inner = plain(test)
    return words(inner) | _parametrized(test, set())


@pytest.mark.parametrize("name", PUBLIC)
def test_has_a_doctest_that_calls_it(name: str) -> None:
    function = getattr(theory, name)
    examples = [example for found in doctest.DocTestFinder(recurse=False).find(function, name) for example in found.examples]
    source = "".join(example.source for example in examples)
    assert f"{name}(" in source and any(example.want for example in examples)


@pytest.mark.parametrize("name", PUBLIC)
def test_has_a_property_test(name: str) -> None:
    assert PROPERTIES.get(name), f"Expected a property test marked @property_of({name!r}). Write one."
    for test in PROPERTIES[name]:
        assert getattr(test, "is_hypothesis_test", False), f"{test.__name__} is no hypothesis test"
        assert name in reached(test), f"{test.__name__} never mentions {name}"


@pytest.mark.parametrize("name", PUBLIC)
def test_has_a_simulation(name: str) -> None:
    assert SIMULATIONS.get(name), f"Expected a simulation marked @simulates({name!r}). Write one."
    for test in SIMULATIONS[name]:
        mentioned = reached(test)
        assert name in mentioned, f"{test.__name__} never mentions {name}"
        assert mentioned & RANDOM, f"{test.__name__} draws nothing"


def test_the_registry_names_only_what_is_public() -> None:
    assert set(PROPERTIES) | set(SIMULATIONS) <= set(PUBLIC)
    assert {function.__name__ for function in theory.THEOREMS.values()} <= set(PUBLIC)
    assert len(PUBLIC) == 48


def test_the_check_sees_a_test_that_ignores_its_function() -> None:
    """The check itself can fail: a test that mentions one function is not taken for a test of another."""

    def only_rank() -> None:
        assert theory.rank_risk

    assert "rank_risk" in words(only_rank)
    assert "lower_bound" not in words(only_rank)
    assert not words(only_rank) & RANDOM
