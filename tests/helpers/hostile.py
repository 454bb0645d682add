"""Small records as a stranger could send them: a valid one with a few leaves replaced by something unkind."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

NASTY: list[Any] = [
    None, True, False, 0, -1, 1, 2, 10**9, 10**18, -(10**18), 10**400, 1e308, -1e308, 5e-324, 0.5,
    "", "x", "\x00", "nan", "inf", "-inf", "../../etc/passwd", "=cmd|' /C calc'!A0", "<script>alert(1)</script>",
    "e\u0301\u202e", "9" * 400, "a" * 10_000, [], {}, [[]], [None], [1, 2, 3], ["a"], {"kind": "gaussian"}, {"name": "x"},
    [1e308] * 3, {"": {}}, {"__class__": "os.system"},
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every node below the root."""
    found = []
    items = value.items() if isinstance(value, dict) else enumerate(value[:40]) if isinstance(value, list) else ()
    for key, item in items:
        found.append((*path, key))
        found += places(item, (*path, key))
    return found


def mutated(record: Any, seed: int) -> Any:
    """A copy with one to three nodes replaced, removed or doubled, decided by the seed alone."""
    chance = random.Random(seed)
    result = copy.deepcopy(record)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        known = places(result)
        if not known:
            break
        *way, last = chance.choice(known)
        place = result
        for key in way:
            place = place[key]
        what = chance.random()
        if what < 0.75:
            place[last] = copy.deepcopy(chance.choice(NASTY))
        elif what < 0.9:
            if isinstance(place, dict):
                del place[last]
            else:
                place.pop(last)
        elif isinstance(place, dict):
            place[str(last) + "_"] = copy.deepcopy(place[last])
        else:
            place.append(copy.deepcopy(place[last]))
    return result


def through_json(record: Any) -> Any:
    """As it would come out of a file; None where JSON cannot hold it."""
    try:
        return json.loads(json.dumps(record))
    except (ValueError, RecursionError):
        return None
