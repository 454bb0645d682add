"""A Spark table whose rows others make by rules of their own: evaluations, profiles, searches, finite classes, embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dperm.problem.arrays import offers
from dperm.rows.pieces import TableMaker
from dperm.rows.spark import SparkRows
from dperm.rows.spark_frames import label_type
from dperm.tables.persons import check_limit
from dperm.tables.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, eq=False)
class SparkTable:
    """A Spark `DataFrame`, and which of its columns are what, as far as the caller or his `SparkRows` say."""

    frame: DataFrame
    schema: Schema | None = None
    target: str | None = None
    person: str | None = None
    max_rows_per_person: int | None = None

    @classmethod
    def of(cls, source: object, owners: object = None, max_rows_per_person: int | None = None) -> SparkTable | None:
        """The table behind a Spark `DataFrame` or `SparkRows`; None for anything else."""
        rows = source if isinstance(source, SparkRows) else None
        if rows is None and not offers(source, "mapInArrow"):
            return None
        if not (owners is None or isinstance(owners, str)):
            raise ValueError("Expected groups= as the name of a column of the Spark table, found something else. Pass the name.")
        found = cls(source, None, None, owners, max_rows_per_person)
        if rows is not None:
            recipe, limit = rows.recipe, rows.recipe.max_rows_per_person
            if recipe.weight is not None:
                raise ValueError("Expected SparkRows without weights here, found some. Pass the Spark table itself.")
            if limit is not None and not (owners in (None, recipe.person) and max_rows_per_person in (None, limit)):
                raise ValueError("Expected persons to be declared once, found two declarations. Leave one of them out.")
            person, limit = (owners, max_rows_per_person) if limit is None else (recipe.person, limit)
            found = cls(rows.frame, rows.schema, recipe.target, person, limit)
        check_limit(found.person, found.max_rows_per_person)
        return found

    @property
    def names(self) -> list[str]:
        """All columns but the one that names the person."""
        return [str(name) for name in self.frame.columns if name != self.person]

    @property
    def per_person(self) -> int:
        return self.max_rows_per_person or 1

    @property
    def unit(self) -> str:
        return "row" if self.person is None else "person"

    def labels(self, y: object) -> str:
        """The column of the labels: the one that y names, or that of the rows."""
        if not (y is None or isinstance(y, str)):
            raise ValueError("Expected y as the name of a column of the Spark table, found something else. Pass the name.")
        found = self.target if y is None else y
        if found is None:
            raise ValueError("Expected y, the name of the column of the labels, found none. Pass it.")
        return found

    def label_type(self, name: str) -> np.dtype:
        """The type of a column of labels, which is public."""
        return label_type(self.frame, name)

    def rows(self, maker: TableMaker) -> SparkRows:
        return SparkRows.made_by(maker, self.frame, self.person, self.max_rows_per_person)
