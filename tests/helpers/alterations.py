"""Change one leaf of a certificate at a time and see whether verification notices."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np

from dperm.walk.certificate import Certificate, coefficient_hash


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """(path, value) of every number, word or empty list."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) and value else None
    if items is None:
        yield path, value
        return
    for key, item in items:
        yield from leaves(item, (*path, key))


def other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.001 + (value == 0)
    return "x" if value is None else [1] if value == [] else value + "x"


def unnoticed(certificate: Certificate, allowed: tuple[str, ...] = ()) -> set[str]:
    """Leaves that can be changed, checksum made anew, without failing verification."""
    record = json.loads(certificate.to_json())
    assert Certificate(record).verify(allow_seeded=True, accept_assumptions=True).reasons == ()
    found = set()
    for path, value in leaves(record):
        if any(isinstance(part, int) and part > 2 for part in path):
            continue  # later entries of a long list are like the first
        altered = copy.deepcopy(record)
        place = altered
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = other(value)
        if path != ("coefficients", "sha256"):
            altered["coefficients"]["sha256"] = coefficient_hash(np.array(altered["coefficients"]["encoded"], dtype=float))
        if Certificate(altered).verify(allow_seeded=True, accept_assumptions=True).ok:
            found.add(".".join(str(part) for part in path if not isinstance(part, int)))
    return {path for path in found if not path.startswith(allowed)}


def parts(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """(path, value) of everything in a record, objects and lists included; of long lists the first two entries."""
    yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, item in items:
        yield from parts(item, (*path, key))


def retypings(value: Any) -> list[Any]:
    """The same, or nothing, in another type."""
    if isinstance(value, bool):
        return [int(value), None, str(value).lower(), [value]]
    if isinstance(value, int):
        truth = [bool(value)] if value in (0, 1) else []
        return [value + 0.7, float(value), str(value), None, [value], *truth]
    if isinstance(value, float):
        return [str(value), None, [value], *([bool(value)] if value in (0, 1) else [])]
    if isinstance(value, str):
        return [None, [value], 0, {}]
    if value is None:
        return [0, False, {}, [], ""]
    return [[value], None, "x", 0, {} if isinstance(value, list) else []]


def retyped(record: Any) -> Any:
    """(where, what, record) with one part in another type."""
    for path, value in parts(record):
        for changed in retypings(value) if path else ():
            altered = copy.deepcopy(record)
            place = altered
            for part in path[:-1]:
                place = place[part]
            place[path[-1]] = changed
            yield ".".join(str(part) for part in path), f"{value!r} as {changed!r}"[:80], altered
