"""Finite classes given by the caller: rules as functions, or as a matrix of their predictions, streamed in blocks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.mechanisms.hypotheses.classes import HYPOTHESES, Hypotheses, declared_grid, limited
from dperm.problem.arrays import Matrix, Vector, dense
from dperm.problem.failing import of_every_row
from dperm.problem.plain import plain_fields
from dperm.release.typed import mistyped_fields
from dperm.tables.cells import codes
from dperm.tables.containers import is_list, listed_rows
from dperm.tables.tables import columns, is_table

Ask = Callable[[np.ndarray], Vector]  # from rows to class numbers, one column per rule
# Rules asked at once, some 4 million predictions of a block. No row may decide it: where a function fails on a row, it says
# nothing about that row for all the rules it was asked for.
RULES_AT_A_TIME = 1 << 9


class Streamed(Hypotheses):
    """Rules known only through their predictions, asked for a block of hypotheses at a time."""

    @abstractmethod
    def predictions(self, X: Matrix, start: int, stop: int) -> np.ndarray:
        """Class numbers, rows × (stop - start); anything that is not a class number counts as a mistake."""

    def errors(self, X: Matrix, y: Vector, weight: Vector) -> Vector:
        found = np.empty(self.size)
        for start in range(0, self.size, RULES_AT_A_TIME):
            stop = min(start + RULES_AT_A_TIME, self.size)
            found[start:stop] = weight @ (self.predictions(X, start, stop) != y[:, None])
        return found

    def predict(self, index: int, X: Matrix) -> NDArray[np.int64]:
        return np.asarray(self.predictions(X, index, index + 1)[:, 0], dtype=np.int64)


@dataclass(frozen=True)
class Rules(Streamed):
    """Rules given by the caller: a function (X, start, stop) ↦ labels of hypotheses start … stop-1, or a list of functions of X.

    **Condition**: the functions are public (fixed before the data) and treat each row alone, which a fit tries on rows of its
    own. The certificate keeps their number and name, not the code. A row for which a function raises an error, or gives no label
    for every rule, is a row for which these rules say nothing, which is a mistake; the answers for other rows stay as they are.

    >>> Rules([lambda X: X[:, 0] > 0, lambda X: X[:, 0] > 1], classes=(False, True)).size
    2
    """

    functions: Callable[[object, int, int], object] | Sequence[Callable[[object], object]] | None = field(
        default=None, repr=False
    )
    count: int | None = None
    name: str = "rules"
    classes: tuple[object, ...] = (0, 1)
    kind: ClassVar[str] = "rules"

    def __post_init__(self) -> None:
        plain_fields(self)
        object.__setattr__(self, "classes", tuple(self.classes))
        if self.functions is not None and not callable(self.functions):
            object.__setattr__(self, "functions", tuple(self.functions))
            if self.count not in (None, len(self.functions)):
                raise ValueError(f"Expected count={len(self.functions)} for the listed functions, found {self.count}.")
            object.__setattr__(self, "count", len(self.functions))
        if self.count is None or self.count < 1:
            raise ValueError("Expected count=, the number of hypotheses of the callable, found none. Pass count=.")
        limited(self.count, "rules")

    @property
    def size(self) -> int:
        return int(self.count or 0)

    def predictions(self, X: Matrix, start: int, stop: int) -> np.ndarray:
        X = dense(X)
        return np.column_stack([_of_rows(ask, X, width) for ask, width in self._asked(start, stop)])

    def strict_predictions(self, X: Matrix, start: int, stop: int) -> np.ndarray:
        """The same on public rows, where an error of a function comes out."""
        return np.column_stack([ask(dense(X)) for ask, _ in self._asked(start, stop)])

    def _asked(self, start: int, stop: int) -> list[tuple[Ask, int]]:
        """Functions of rows that give class numbers, rows × rules, and how many rules each speaks for."""
        if self.functions is None:
            raise ValueError("Expected rules with their functions, found ones read from a certificate. Pass the original.")
        if callable(self.functions):
            together = self.functions
            return [(lambda X: _answers(together(_own(X), start, stop), self.classes, X.shape[0], stop - start), stop - start)]
        return [(partial(self._alone, rule), 1) for rule in self.functions[start:stop]]

    def _alone(self, rule: Callable[[object], object], X: np.ndarray) -> Vector:
        return _answers(rule(_own(X)), self.classes, X.shape[0], 1)

    def spec(self) -> dict[str, object]:
        return {"kind": self.kind, "count": self.size, "name": self.name, "classes": [_plain(c) for c in self.classes]}


def _own(X: np.ndarray) -> np.ndarray:
    """Rows that a function may write to: neither the next question nor the caller's table may be about what it left there."""
    return np.array(X, order="K")


def _answers(said: Any, classes: Sequence[object], n: int, width: int) -> Vector:
    """The class numbers that a function says of n rows, n × width; refused in words where they are others."""
    if is_list(said):
        said = listed_rows(said, width)
    parts = [class_numbers(part, classes) for part in columns(said)] if is_table(said) else None
    found = class_numbers(said, classes) if parts is None else np.stack(parts, axis=1)
    if found.shape == (n,) and width == 1:
        found = found[:, None]
    if found.shape != (n, width):  # in words: the number of rows may be protected
        raise ValueError(f"Expected a prediction of each of {width} rules for every row, found another shape.")
    return found


def _of_rows(ask: Ask, X: np.ndarray, width: int) -> Vector:
    """What a function says of rows, with -1 in the rows where it raises an error."""
    return np.asarray(of_every_row(lambda part: ask(X[part]), len(X), lambda count: np.full((count, width), -1.0)))


@dataclass(frozen=True)
class Predictions(Streamed):
    """X is itself the matrix of predictions: column h holds what hypothesis h says (as class numbers) about each row.

    **Condition**: the hypotheses were fixed without looking at these rows.

    >>> Predictions(3).size
    3
    """

    count: int
    kind: ClassVar[str] = "predictions"

    def __post_init__(self) -> None:
        plain_fields(self)
        declared_grid(0.0, 1.0, self.count)
        limited(self.size, "hypotheses")

    @property
    def size(self) -> int:
        return self.count

    @property
    def columns(self) -> int:
        return self.count

    def predictions(self, X: Matrix, start: int, stop: int) -> np.ndarray:
        return dense(X[:, start:stop])


def class_numbers(labels: object, classes: Sequence[object]) -> NDArray[np.float64]:
    """Position of each label among the classes; -1 for a label that is none of them.

    >>> class_numbers(np.array(["b", "a", "z"]), ("a", "b")).tolist()
    [1.0, 0.0, -1.0]
    """
    return codes(labels, classes).astype(np.float64)


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value


def hypotheses_from_spec(spec: Mapping[str, object]) -> Hypotheses:
    """A class of rules from its certificate.

    >>> from dperm.mechanisms.hypotheses.classes import Thresholds
    >>> hypotheses_from_spec(Thresholds(0.0, 1.0, 11).spec()).size
    22
    """
    values = dict(spec)
    kind = values.pop("kind", None)
    if kind not in HYPOTHESES:
        raise ValueError(f"Expected a class of hypotheses among {sorted(HYPOTHESES)}, found {kind!r}.")
    for reason in mistyped_fields(values, HYPOTHESES[kind], "hypotheses"):
        raise ValueError(reason)
    return HYPOTHESES[kind](**values)
