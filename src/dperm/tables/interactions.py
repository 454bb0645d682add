"""Products of two declared columns: `"interactions": [["age", "job"], ["hour(when)", "holiday"]]` beside the columns of a schema.

| pair            | becomes                                                                                     |
|-----------------|---------------------------------------------------------------------------------------------|
| choice × choice | a choice of all pairs of levels; a boolean column is a choice of one level                   |
| choice × number | one number per level: the scaled number where the row has that level, 0 elsewhere            |
| number × number | the product of the scaled numbers                                                            |

A number is scaled by its declared bounds: (clip(x) - middle)/(high - low), in [-1/2, 1/2]; a sparse one clip(x)/(high - low). So
the range of a product is a public fact. A row in which either cell is missing (without a value declared for it) has 0 there: a
product is made of cells of its own row and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.tables.column import Column, scaled
from dperm.tables.transforms import Hats
from dperm.words.spelling import closest

MOST_FEATURES = 10_000


@dataclass(frozen=True)
class Interaction:
    """The product of two columns, or of pieces of columns."""

    left: Column
    right: Column

    @property
    def name(self) -> str:
        return f"{self.left.name} × {self.right.name}"

    @property
    def is_choice(self) -> bool:
        return _is_choice(self.left) and _is_choice(self.right)

    @property
    def features(self) -> list[str]:
        choices = [_levels(side) for side in (self.left, self.right) if _is_choice(side)]
        if not choices:
            return [self.name]
        if len(choices) == 1:
            return [f"{self.name}={level}" for level in choices[0]]
        return [f"{self.name}={a} × {b}" for a in choices[0] for b in choices[1]]

    @property
    def range(self) -> tuple[float, float]:
        """Of a product that is a number: the extremes of the products of its sides' ranges, with 0 for a level that is not on."""
        ends = [_range(side) for side in (self.left, self.right)]
        corners = [a * b for a in ends[0] for b in ends[1]] + [0.0]
        return min(corners), max(corners)

    def places(self, cells: Mapping[str, object]) -> NDArray[np.int64]:
        """Which pair of levels each row has; -1 where either is none."""
        a, b = (_place(side, cells) for side in (self.left, self.right))
        return np.where((a >= 0) & (b >= 0), a * len(_levels(self.right)) + b, -1)

    def encode(self, cells: Mapping[str, object]) -> NDArray[np.float64]:
        """Raw features: 0/1 of a choice, otherwise the product of the scaled numbers."""
        a, b = (_values(side, cells) for side in (self.left, self.right))
        return np.asarray((a[:, :, None] * b[:, None, :]).reshape(len(a), a.shape[1] * b.shape[1]))


def _is_choice(column: Column) -> bool:
    return column.type in ("categorical", "boolean")


def _levels(column: Column) -> list[str]:
    """Names of the levels of a choice; a boolean column has one, "yes"."""
    if column.type == "boolean":
        return ["yes"]
    return [name.removeprefix(f"{column.name}=") for name in column.features]


def _place(column: Column, cells: Mapping[str, object]) -> NDArray[np.int64]:
    values = cells[column.source or column.name]
    if column.type == "boolean":
        return np.where(column.encode(values)[:, 0] >= 0.5, 0, -1)
    return np.asarray(column.places(values))


def _range(column: Column) -> tuple[float, float]:
    if _is_choice(column):
        return 0.0, 1.0
    _, low, high, *_ = scaled(column)
    return (low / (high - low), high / (high - low)) if column.type == "sparse" else (-0.5, 0.5)


def _values(column: Column, cells: Mapping[str, object]) -> NDArray[np.float64]:
    """n × levels of 0/1 for a choice, n × 1 of the scaled number otherwise."""
    if _is_choice(column):
        place = _place(column, cells)
        return np.asarray(place[:, None] == np.arange(len(_levels(column)))[None, :], dtype=np.float64)
    _, low, high, *_ = scaled(column)
    raw = column.encode(cells[column.source or column.name])[:, :1]  # without its flag for missing cells
    middle = 0.0 if column.type == "sparse" else (low + high) / 2
    return np.asarray(np.where(np.isfinite(raw), (np.clip(raw, low, high) - middle) / (high - low), 0.0))


def declared_pairs(declared: object) -> tuple[tuple[str, str], ...]:
    """`interactions` of a schema as pairs of names."""
    if declared is None:
        return ()
    listed = list(declared) if isinstance(declared, Sequence) and not isinstance(declared, str) else [None]
    found = []
    for pair in listed:
        named = isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(name, str) for name in pair)
        if isinstance(pair, list | tuple) and named and pair[0] != pair[1]:
            found.append((str(pair[0]), str(pair[1])))
        else:
            raise ValueError('Expected interactions as pairs of two columns, e.g. [["age", "job"]], found something else.')
    if len({frozenset(pair) for pair in found}) != len(found):
        raise ValueError("Expected every pair of columns once in interactions, found one twice.")
    return tuple(found)


def products(pairs: tuple[tuple[str, str], ...], pieces: Sequence[Column]) -> list[Interaction]:
    """The declared pairs, each side found among the columns (or parts of columns) of the schema."""
    named = {piece.name: piece for piece in pieces}
    found = []
    for pair in pairs:
        for name in pair:
            if name not in named:
                parts = [piece.name for piece in pieces if piece.source == name]
                known = f" Its parts are {', '.join(map(repr, parts))}." if parts else closest(name, list(named))
                raise ValueError(f"Expected columns of the schema in interactions, found {name!r}.{known} Correct the pair.")
            if isinstance(named[name].reader, Hats):
                raise ValueError(
                    f"Expected columns or choices in interactions, found the curve {name!r}. Name its column, or give it steps."
                )
            if named[name].bounds is not None or named[name].to_find:
                raise ValueError(
                    f"Expected declared bounds and levels of {name!r}, which is in interactions, found private ones. Fill them "
                    "in with `dperm profile`, or drop the pair."
                )
        found.append(Interaction(named[pair[0]], named[pair[1]]))
    if sum(len(product.features) for product in found) > MOST_FEATURES:
        raise ValueError(f"Expected interactions with at most {MOST_FEATURES:,} features in all, found more. Use fewer levels.")
    return found
