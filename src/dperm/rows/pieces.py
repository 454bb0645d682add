"""Rows that workers of a cluster make of raw ones, and the blocks that they cut of them: one code for Spark and Dask.

A maker (`Encoded`, or any `TableMaker`) turns raw rows into rows that terms can read, each by itself. A `Cut` gives them their
labels and cuts blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dperm.problem import DataBounds, FeatureMap
from dperm.problem.plain import plain_fields
from dperm.rows.base import BLOCK_ROWS, Block
from dperm.rows.labelled import LabelRule, Labels, RowRule, labelled_by, target_cells
from dperm.rows.memory import cut_block
from dperm.tables.cells import numbers
from dperm.tables.schema import Schema
from dperm.tables.tables import cells

if TYPE_CHECKING:
    import pyarrow as pa

    from dperm.problem.arrays import Matrix


@dataclass(frozen=True, eq=False)
class Recipe:
    """Which columns of the table are what: public declarations."""

    schema: Schema | None
    features: tuple[str, ...]
    target: str | None = None
    weight: str | None = None
    max_weight: float | None = None
    exposure: str | None = None
    person: str | None = None
    max_rows_per_person: int | None = None
    row_id: str | None = None
    dtype: str = "float64"

    def __post_init__(self) -> None:
        plain_fields(self)
        for one, other in (("weight", "max_weight"), ("person", "max_rows_per_person")):
            if (getattr(self, one) is None) != (getattr(self, other) is None):
                raise ValueError(f"Expected {one}= and {other}= together, found one of them. Pass both, or neither.")

    @property
    def by_content(self) -> bool:
        return self.row_id == "content"

    @property
    def named(self) -> dict[str, str]:
        """Columns that are no features, under the words they were passed by."""
        asked = {"target": self.target, "weight": self.weight, "exposure": self.exposure, "person": self.person}
        asked["row_id"] = None if self.by_content else self.row_id
        return {word: name for word, name in asked.items() if name is not None}

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read, each once."""
        return tuple(dict.fromkeys([*self.features, *self.named.values()]))

    @property
    def gathers(self) -> bool:
        """Whether rows must meet other rows before they are packed."""
        return self.person is not None or self.by_content


@dataclass(frozen=True, eq=False)
class Made:
    """Rows that were made of raw ones, each of its own cells and public declarations alone.

    `content` tells rows apart where the numbers do not, because they point into something that other rows had a part in.
    """

    X: Matrix
    values: np.ndarray
    weight: NDArray[np.float64] | None = None
    content: NDArray[np.void] | None = None


class RowEncoding(Protocol):
    """Public scaling of a matrix of numbers, row by row: `dperm.tables.encoding.Encoding`, or what stands in for it."""

    @property
    def d(self) -> int: ...

    @property
    def mostly_zero(self) -> bool: ...

    def transform(self, X: np.ndarray, /) -> Matrix: ...
    def packed(self, rows: Any, /) -> Matrix: ...


class TableMaker(Protocol):
    """A public rule from raw rows to rows that terms can read. It says which columns it reads, which of them must hold numbers,
    how many numbers its rows have, and whether terms read these as they are (`raw`), because they bring them into their bounds
    themselves."""

    def __call__(self, table: pa.Table) -> Made: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def d(self) -> int: ...

    @property
    def numeric(self) -> tuple[str, ...]: ...

    @property
    def raw(self) -> bool: ...


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows by the schema, or by declared bounds of columns of numbers."""

    recipe: Recipe
    encoding: RowEncoding | None
    rule: LabelRule | RowRule | None

    def __call__(self, table: pa.Table) -> Made:
        recipe = self.recipe
        given = {name: numbers(cells(table, name)) for name in (recipe.weight, recipe.exposure) if name is not None}
        weight = None if recipe.weight is None else clipped(given[recipe.weight], recipe.max_weight)
        values: np.ndarray
        if recipe.schema is not None:
            X = recipe.schema.encoded(table)
            values = target_cells(recipe.schema, table)
        else:
            X = np.stack([numbers(cells(table, name)) for name in recipe.features], axis=1)
            X = X if self.encoding is None else self.encoding.packed(self.encoding.transform(X))
            values = np.zeros(table.num_rows) if recipe.target is None else cells(table, recipe.target)
        if isinstance(self.rule, RowRule):
            values, weight = self.rule(values, None if recipe.exposure is None else given[recipe.exposure], weight)
        elif self.rule is not None and recipe.schema is None:
            values, weight = labelled_by(self.rule, values, weight)
        return Made(X, values, weight)


def clipped(weight: NDArray[np.float64], most: float | None) -> NDArray[np.float64]:
    """Declared weights: 0 where one is missing, and none outside [0, most]."""
    return np.clip(np.where(np.isnan(weight), 0.0, weight), 0.0, most)


@dataclass(frozen=True, eq=False)
class Cut:
    """Made rows → blocks: labels by a public rule (`labels` reads target cells), clipped into the bounds and mapped."""

    labels: Labels | None = None
    label_type: str | None = None
    data: DataBounds | None = None
    feature_map: FeatureMap | None = None

    def makers(self, made: Made, start: int | NDArray[np.void] | None) -> Iterator[Callable[[], Block]]:
        """Blocks of some rows, each cut when it is asked for. `start` is the first row's number, or all keys, or None."""
        y, weight = made.values, made.weight
        if self.labels is not None:
            y, weight = labelled_by(self.labels, y, weight)
        elif self.label_type is not None:
            y = y.astype(self.label_type, copy=False)

        def make(first: int) -> Block:
            part = slice(first, first + BLOCK_ROWS)
            begin = start + first if isinstance(start, int) else None if start is None else start[part]
            kept = None if weight is None else weight[part]
            return cut_block(made.X[part], y[part], kept, begin, self.data, self.feature_map)

        return (partial(make, first) for first in range(0, made.X.shape[0], BLOCK_ROWS))

    def empty(self, d: int, start: int | NDArray[np.void] | None, dtype: str = "float64") -> Block:
        """A block without rows: where their number is protected, nobody may learn that there are none. `start` is what tells rows
        apart on this engine: a sample, which asks for it, must not find it missing."""
        return cut_block(np.zeros((0, d), dtype=dtype), np.zeros(0), None, start, self.data, self.feature_map)
