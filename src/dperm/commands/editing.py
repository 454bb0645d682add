"""Shapes of an additive model's file against those that its fit released: edits must be said, and nothing else may differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dperm.estimators.base import PrivateEstimator
from dperm.terms.additive import PLACES
from dperm.walk.claims import differences

NOISE = 1e-6  # of the largest: bands are roots of sums that another machine rounds otherwise
OWN = ("columns", "shares", "centre", "curves")


def stated_edits(stored: Any) -> list[str]:
    """What a model's file says was edited after the release."""
    extra = stored.get("extra") if isinstance(stored, dict) else None
    shapes = extra.get("shapes") if isinstance(extra, dict) else None
    edits = shapes.get("edits") if isinstance(shapes, dict) and "edited" in shapes else None
    return [str(edit) for edit in edits] if isinstance(edits, list) else []


def edited_shapes(expected: Mapping[str, Any], stated: Mapping[str, Any], model: PrivateEstimator) -> Iterator[str]:
    """A sentence for everything that neither was released nor is named among the edits."""
    names = [model._encoding.names[j] for j in expected["columns"]]
    yield from differences(
        {"extra": {"shapes": {key: expected[key] for key in OWN}}}, {"extra": {"shapes": {key: stated[key] for key in OWN}}}
    )
    edits = stated.get("edits", []) if "edited" in stated else []
    if not isinstance(edits, list) or not all(isinstance(edit, str) for edit in edits):
        yield "extra.shapes.edits is no list of words"
        return
    said = {place for place, name in enumerate(names) if any(edit.startswith(f"{name}: ") for edit in edits)}
    if any(not edit.startswith(tuple(f"{name}: " for name in names)) for edit in edits):
        yield "extra.shapes.edits names a column that has no shape"
    if "edited" in stated:
        yield from _changes(model, list(expected["columns"]), names, said)
    yield from _bands(expected.get("noise"), stated.get("noise"), said)


def _changes(model: PrivateEstimator, columns: list[int], names: list[str], said: set[int]) -> Iterator[str]:
    """An edit puts a shape, its straight part with it, into the table of its column; all else stays as it was released."""
    d = model._encoding.d
    released, shown = np.atleast_2d(model.w_), np.atleast_2d(model._shown)
    straight = [j for j in range(d + 1) if j not in columns]
    if not np.array_equal(released[:, straight], shown[:, straight]):
        yield "extra.shapes.edited changes coefficients that are no shape"
    for place, j in enumerate(columns):
        own = [j, *range(d + 1 + PLACES * place, d + 1 + PLACES * (place + 1))]
        changed = (released[:, own] != shown[:, own]).any(axis=1)
        if changed.any() and place not in said:
            yield f"extra.shapes.edited changes the shape of {names[place]!r}, which edits does not name"
        if (shown[changed, j] != 0).any():
            yield f"extra.shapes.edited gives {names[place]!r} a slope beside its edited shape"


def _bands(expected: Any, stated: Any, said: set[int]) -> Iterator[str]:
    """Bands are those of the released noise; an edited shape has none. Files of version 0.3.0 have none at all."""
    if stated is None:
        return
    if expected is None or len(stated) != len(expected):
        yield "extra.shapes.noise states bands that no formula gives"
        return
    for place, (row, known) in enumerate(zip(stated, expected)):
        if (row is None) != (place in said or known is None):
            yield f"extra.shapes.noise[{place}] has a band for an edited shape, or none for another"
        elif row is not None and not np.allclose(row, known, rtol=NOISE, atol=NOISE * float(np.max(known))):
            yield f"extra.shapes.noise[{place}] is not what follows from the released values"
