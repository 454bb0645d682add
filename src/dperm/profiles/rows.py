"""A table as rows of numbers: three per column, each from its own cell and public declarations.

A level is a place in a private list of words, in one order whatever order rows come in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.profiles.question import Question
from dperm.profiles.terms import PER_COLUMN
from dperm.tables.cells import codes
from dperm.tables.looks import in_order, levels_of, looks, readings
from dperm.tables.tables import cells

Vocabulary = dict[int, list[float | str]]


@dataclass(frozen=True)
class Looked:
    """Rows for the sums, and for each column without declared levels the private list that its third number points into."""

    X: NDArray[np.float64]
    words: Vocabulary


def looked_at(table: object, question: Question) -> Looked:
    """(reading, look, place of the level) of every cell. Nothing here leaves but through paid sums."""
    levels = {j: levels_of(cells(table, question.columns[j].name)) for j in question.unlisted}
    words = {j: in_order({level for level in found if level is not None}) for j, found in levels.items()}
    return Looked(numbers_of_cells(table, question, levels, words), words)


def numbers_of_cells(
    table: object, question: Question, levels: dict[int, list[float | str | None]], words: Vocabulary
) -> NDArray[np.float64]:
    found: list[np.ndarray] = []
    for j, column in enumerate(question.columns):
        held = cells(table, column.name)
        places = np.full(len(held), -1)
        if j in words:
            place: dict[float | str | None, int] = {word: number for number, word in enumerate(words[j])}
            places = np.array([place.get(level, -1) for level in levels[j]], dtype=np.int64)
        elif column.kind == "levels" and column.levels is not None:
            places = codes(held, column.levels)
        found += [readings(held), looks(held), places]
    return np.stack(found, axis=1).astype(np.float64).reshape(-1, PER_COLUMN * len(question.columns))
