"""Whether JSON has the types that the library writes: parts of a record by their `TypedDict`, options by the fields of a class.

A number that is text, a truth value in the place of 1 or half a row may well lead to the same plan, because Python adds them up.
Another reader of the record would take them for something else, so they are no part of what was certified.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np

WORDS: dict[object, str] = {
    int: "a whole number", float: "a number", bool: "true or false", str: "a text", NoneType: "null", dict: "an object",
    list: "a list", tuple: "a list",
}  # fmt: skip
KEPT = 60  # letters of a value that a message quotes


@lru_cache(maxsize=256)
def hints_of(kind: Any) -> Mapping[str, Any]:
    """The types of the fields of a `TypedDict` or a dataclass."""
    return get_type_hints(kind)


def mistyped(value: object, hint: Any, where: str) -> Iterator[str]:
    """A sentence for everything in JSON that has another type than the hint says; what is missing is not told of.

    >>> list(mistyped(30.7, int, "steps")), list(mistyped([1, 2.5], list[float], "w"))
    (['steps says 30.7, where a whole number belongs'], [])
    """
    if is_typeddict(hint):
        if not isinstance(value, Mapping):
            yield _sentence(where, value, "an object")
            return
        for name, inner in hints_of(hint).items():
            if name in value:
                yield from mistyped(value[name], inner, f"{where}.{name}" if where else name)
        return
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        found = [list(mistyped(value, part, where)) for part in parts]
        if all(found):
            # The deepest sentence says most: of a list with one wrong entry, that entry.
            deepest = max((reasons[0] for reasons in found), key=lambda text: text.find(" says "))
            yield deepest if deepest.find(" says ") > len(where) else _sentence(where, value, _named(hint))
    elif origin in (list, tuple, Sequence):
        yield from _listed(value, parts, where, fixed=origin is tuple and parts[-1] is not Ellipsis)
    elif origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            yield _sentence(where, value, "an object")
            return
        for name, item in value.items():
            yield from mistyped(item, parts[1], f"{where}.{name}")
    elif not _fits(value, hint):
        yield _sentence(where, value, _named(hint))


def mistyped_fields(stated: Mapping[str, object], kind: Any, where: str) -> Iterator[str]:
    """The same of what is stated for the fields of a dataclass."""
    for name, hint in hints_of(kind).items():
        if name in stated:
            yield from mistyped(stated[name], hint, f"{where}.{name}" if where else name)


def unwritable(value: object, where: str = "") -> Iterator[str]:
    """A sentence for every number that no JSON has: 1e400 is read as an infinity."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from unwritable(item, f"{where}.{name}" if where else str(name))
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            yield from unwritable(item, f"{where}[{place}]")
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{where} says {value}, where a finite number belongs: a float holds at most 1.8e308"


def _listed(value: object, parts: Sequence[Any], where: str, fixed: bool) -> Iterator[str]:
    if not isinstance(value, list | tuple) or (fixed and len(value) != len(parts)):
        yield _sentence(where, value, f"a list of {len(parts)}" if fixed else "a list")
        return
    for place, item in enumerate(value):
        yield from mistyped(item, parts[place] if fixed else parts[0], f"{where}[{place}]")


def _fits(value: object, hint: Any) -> bool:
    value = value.item() if isinstance(value, np.generic) else value  # options of a run, which a record states as plain numbers
    if get_origin(hint) is Literal:
        return value in get_args(hint) and type(value) in {type(word) for word in get_args(hint)}
    if hint is float:
        return type(value) in (int, float)
    if hint in (int, bool, str):
        return type(value) is hint
    return value is None if hint in (None, NoneType) else True  # anything else is for its own reader to check


def _named(hint: Any) -> str:
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    named = [WORDS.get(get_origin(part) or part, "an object") for part in parts]
    return " or ".join(dict.fromkeys(named))


def _sentence(where: str, value: object, wanted: str) -> str:
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        text = repr(value)
    return f"{where or 'the record'} says {text[:KEPT]}, where {wanted} belongs"
