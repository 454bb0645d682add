"""Labels of rows that stream: target cells as numbers, turned into labels and weights by an estimator's public rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dperm.problem.arrays import Vector
from dperm.rows.memory import tame
from dperm.tables.cells import codes, numbers
from dperm.tables.schema import Schema
from dperm.tables.tables import cells

if TYPE_CHECKING:
    import pyarrow as pa

# y → (labels, weights or None, anything else): `PrivateEstimator._labels`, or a function like it.
LabelRule = Callable[..., tuple[Any, ...]]


def rule_of_schema(schema: Schema) -> LabelRule:
    """The rule that the schema's target implies: classes to -1/+1 or 0..K-1, numbers clipped and mapped to [-1, 1]."""
    from dperm.tables.labels import bounded_labels, classify, declared_classes

    target = schema.declared_target
    if target.type == "classes":
        classes = declared_classes(target.classes, None)
        return lambda y: classify(y, classes)
    return lambda y: bounded_labels(y, (target.low, target.high))


class RowRule:
    """A label rule that reads more of a row than its label: its exposure and its weight, each None where there is none."""

    def __call__(self, y: object, exposure: Vector | None, weight: Vector | None) -> tuple[np.ndarray, Vector | None]:
        """(labels, weights) of some rows."""
        raise NotImplementedError


def labelled_by(rule: LabelRule, y: object, weight: Vector | None) -> tuple[np.ndarray, Vector | None]:
    """Labels by the rule, and the weights times those that the rule gives; None where neither has any."""
    labels, known = rule(y)[:2]
    if weight is not None:
        weight = tame(weight)  # an infinite one times 0 would be a warning about one row
    return labels, known if weight is None else weight if known is None else known * weight


def target_cells(schema: Schema, table: pa.Table) -> NDArray[np.float64]:
    """The target's cells as float64, by the schema's rules for cells: what `Labels` reads."""
    target = schema.declared_target
    column = cells(table, target.column)
    return numbers(column) if target.type != "classes" else codes(column, target.classes or ()).astype(np.float64)


class Labels:
    """Target cells → (labels, weights). Cells travel as float64: a class's position (-1: none of them), or the number itself.

    A rule for classes is applied once to every class and to "none of them"; a row then looks its label up.
    """

    def __init__(self, schema: Schema, rule: LabelRule) -> None:
        self.target, self.rule = schema.declared_target, rule
        self.table: tuple[np.ndarray, NDArray[np.float64]] | None = None
        if self.target.type == "classes":
            self.table = self._applied(np.array([*(self.target.classes or ()), None], dtype=object))

    def _applied(self, y: NDArray[np.float64]) -> tuple[np.ndarray, NDArray[np.float64]]:
        labels, weight = self.rule(y)[:2]
        return np.asarray(labels), np.ones(len(labels)) if weight is None else np.asarray(weight)

    def __call__(self, cells: NDArray[np.float64]) -> tuple[np.ndarray, NDArray[np.float64]]:
        if self.table is None:
            return self._applied(cells)
        known = (cells >= 0) & (cells < len(self.table[0]) - 1)  # a cache that somebody spoilt holds anything
        position = np.where(known, cells, -1.0).astype(np.int64)
        return self.table[0][position], self.table[1][position]
