"""Finite classes given by the caller: rules as functions, or as a matrix of their predictions, streamed in blocks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.mechanisms.hypotheses.classes import HYPOTHESES, Hypotheses, declared_grid, limited
from dperm.problem.arrays import Matrix, Vector, dense
from dperm.problem.plain import plain_fields
from dperm.release.typed import mistyped_fields
from dperm.tables.cells import codes

ENTRIES_AT_A_TIME = 1 << 22  # predictions held at once: 4 million


class Streamed(Hypotheses):
    """Rules known only through their predictions, asked for a block of hypotheses at a time."""

    @abstractmethod
    def predictions(self, X: Matrix, start: int, stop: int) -> np.ndarray:
        """Class numbers, rows × (stop - start); anything that is not a class number counts as a mistake."""

    def errors(self, X: Matrix, y: Vector, weight: Vector) -> Vector:
        step = max(1, ENTRIES_AT_A_TIME // max(len(y), 1))
        found = np.empty(self.size)
        for start in range(0, self.size, step):
            stop = min(start + step, self.size)
            found[start:stop] = weight @ (self.predictions(X, start, stop) != y[:, None])
        return found

    def predict(self, index: int, X: Matrix) -> NDArray[np.int64]:
        return np.asarray(self.predictions(X, index, index + 1)[:, 0], dtype=np.int64)


@dataclass(frozen=True)
class Rules(Streamed):
    """Rules given by the caller: a function (X, start, stop) ↦ labels of hypotheses start … stop-1, or a list of functions of X.

    **Condition**: the functions are public (fixed before the data) and treat each row alone, which a fit tries on rows of its
    own. The certificate keeps their number and name, not the code.

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
        if self.functions is None:
            raise ValueError("Expected rules with their functions, found ones read from a certificate. Pass the original.")
        if callable(self.functions):
            found = class_numbers(self.functions(X, start, stop), self.classes)
        else:
            found = np.column_stack([class_numbers(rule(X), self.classes) for rule in self.functions[start:stop]])
        if found.shape != (X.shape[0], stop - start):
            # In words: the number of rows may be protected.
            raise ValueError(f"Expected a prediction of each of {stop - start} rules for every row, found another shape.")
        return found

    def spec(self) -> dict[str, object]:
        return {"kind": self.kind, "count": self.size, "name": self.name, "classes": [_plain(c) for c in self.classes]}


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
