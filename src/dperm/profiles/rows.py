"""A table as rows of numbers: three per column, each from its own cell and public declarations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.profiles.question import Question
from dperm.profiles.terms import PER_COLUMN
from dperm.tables.cells import codes
from dperm.tables.looks import looks, readings, vocabulary
from dperm.tables.tables import cells

Vocabulary = dict[int, list[float | str]]


@dataclass(frozen=True)
class Looked:
    """Rows for the sums, and for each column without declared levels the private list that its third number points into."""

    X: NDArray[np.float64]
    words: Vocabulary


def looked_at(table: object, question: Question) -> Looked:
    """(reading, look, place of the level) of every cell. Nothing here leaves but through paid sums."""
    found: list[NDArray[Any]] = []
    words: Vocabulary = {}
    for j, column in enumerate(question.columns):
        held = cells(table, column.name)
        places = np.full(len(held), -1)
        if column.kind == "levels" and column.levels is not None:
            places = codes(held, column.levels)
        elif column.kind in ("levels", "unknown"):
            places, words[j] = vocabulary(held)
        found += [readings(held), looks(held), places]
    return Looked(np.stack(found, axis=1).astype(np.float64).reshape(-1, PER_COLUMN * len(question.columns)), words)
