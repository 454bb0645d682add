"""The private PAC learner: the best of finitely many rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from dperm.estimators.alone import one_at_a_time
from dperm.estimators.declaration import Budgeted, Declaration, target_of
from dperm.estimators.declared import check_declared, check_lists
from dperm.estimators.engines import FromColumns
from dperm.estimators.matrix import read_matrix, width_of
from dperm.mechanisms.exponential.finite import FiniteExponential
from dperm.mechanisms.hypotheses.classes import GRIDS, Hypotheses, on_grid
from dperm.mechanisms.hypotheses.stored import Predictions, Rules, class_numbers
from dperm.problem import DataBounds, Interval, Problem, ZeroOneLoss
from dperm.problem.arrays import dense
from dperm.release.plan import Shape
from dperm.rows.base import Rows
from dperm.rows.memory import MemoryRows
from dperm.rows.pieces import Made
from dperm.rows.spark_made import SparkTable
from dperm.tables.containers import is_list
from dperm.tables.labels import declared_classes, label_column
from dperm.tables.persons import person_column, person_weights, unit_of, without_person
from dperm.tables.tables import cells, columns, is_table, listed
from dperm.words.notices import repeated_fits

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(eq=False, repr=False, kw_only=True)
class FiniteClassLearner(ClassifierMixin, Budgeted):
    """argmin over a finite class of the number of mistakes, released with ε-differential privacy.

    **Guarantee**: that of `certificate_`. A row whose label is not among the classes is a null row. With m ≥
    `dperm.theory.pac_sample_size(size, α, β, ε)` independent rows, the error exceeds the best in the class by more than α with
    probability at most β (sampler "gumbel": the theorem; "permute-and-flip" has the same tail bound).

    Parameters
    ----------
    delta : float, default 0.0
        0 (pure privacy), unless `accounting="concentrated"`.
    hypotheses : str, hypotheses, callable or list of callables
        "thresholds", "stumps" (the default), "boxes" or "separators" on a grid over `bounds=(low, high)`; or one of
        `Thresholds`, `Stumps`, `Boxes`, `Separators` of `dperm.mechanisms.hypotheses` with a grid of your own (class 1 is
        classes[1]); a callable (X, start, stop) ↦ labels with `count=`; a list of callables X ↦ labels; or "predictions",
        when X is the matrix whose column h holds the labels that hypothesis h gives. Callables get NumPy arrays. One that fails
        on rows of our own is refused before anything is spent; a row on which it fails during the fit is one that it gets wrong.
    classes : sequence
        The labels that can occur, declared.
    count : int or None, default None
        Number of hypotheses, where they are one callable.
    bounds : pair or sequence of pairs or None, default None
        Public bounds of the columns, for a grid by name.
    sampler : {"permute-and-flip", "gumbel"} or None, default None
        How the answer is drawn; None is "permute-and-flip".
    accounting : {"pure", "concentrated"}, default "pure"
        What the release is booked as.

    Examples
    --------
    >>> from dperm.mechanisms.hypotheses.classes import Thresholds
    >>> X = np.linspace(0, 1, 500).reshape(-1, 1)
    >>> model = FiniteClassLearner(1.0, hypotheses=Thresholds(0.0, 1.0, 101), classes=[0, 1], random_state=0)
    >>> model = model.fit(X, X[:, 0] >= 0.3)
    >>> bool(abs(model.rule_["threshold"] - 0.3) < 0.1)
    True
    """

    delta: float = field(default=0.0, kw_only=False)  # second, as in every other estimator
    hypotheses: object = None
    classes: Sequence[object] | None = None
    count: int | None = None
    bounds: object = None
    sampler: str | None = None
    accounting: str = "pure"

    @one_at_a_time
    def fit(self, X: object, y: object = None, groups: object = None) -> FiniteClassLearner:
        """Choose a rule privately; afterwards `rule_` describes it, `certificate_` says what was guaranteed.

        For a Spark table y and groups are names of columns.
        """
        check_declared(self)
        repeated_fits(self.epsilon, self.ledger)
        self.classes_ = declared_classes(self.classes, None)
        named = self.groups if groups is None else groups
        self._person = named if isinstance(named, str) else None  # a fitted model must not keep who its rows belong to
        table = SparkTable.of(X, named, self.max_rows_per_person)
        if table is not None:
            return self._fit_on_spark(table, y)
        check_lists(self, X)
        seen = X
        if y is None:
            raise ValueError(f"This {type(self).__name__} requires y to be passed, but the target y is None. Pass the labels.")
        X, groups = person_column(X, named)
        X = read_matrix(self, self._raw(X, reset=True))
        y = label_column(y, X.shape[0])
        labels = class_numbers(y, self.classes_.tolist())
        weight, per_person = person_weights(groups, self.max_rows_per_person, (labels >= 0).astype(np.float64), len(labels))
        return self._run(MemoryRows(X, labels, weight), per_person, unit_of(groups), seen)

    def _fit_on_spark(self, table: SparkTable, y: object) -> FiniteClassLearner:
        """The same on a Spark table, whose columns are read but those of labels (`y` names it) and persons."""
        target = table.labels(y)
        known = tuple(name for name in table.names if name != target)
        if table.schema is not None:
            known = tuple(column.name for column in table.schema.columns if column.type != "ignored")
        self.feature_names_in_, self.n_features_in_ = np.array(known, dtype=object), len(known)
        predictions = isinstance(self.hypotheses, str) and self.hypotheses == "predictions"
        rows = table.rows(Classed(known, target, tuple(self.classes_.tolist()), predictions))
        self._person = table.person
        return self._run(rows, table.per_person, table.unit, rows)

    def _run(self, rows: Rows, per_person: int, unit: str, seen: object) -> FiniteClassLearner:
        self.hypotheses_ = self._class(rows.d)
        n = self.nominal_n if self.nominal_n is not None else rows.n
        target = target_of(self, n, per_person, unit)
        problem = Problem(ZeroOneLoss(), data=DataBounds(np.inf, Interval(0.0, float(len(self.classes_) - 1))))
        mechanism = FiniteExponential(self.hypotheses_, self.sampler, self.accounting)
        release = Declaration(self, problem, Shape(n, rows.d), target, mechanism).run(rows, seen)
        self.index_ = int(release.w[0])
        self.rule_ = self.hypotheses_.describe(self.index_)
        return self

    def _raw(self, X: object, *, reset: bool) -> object:
        """X as it is, or predicted labels turned into class numbers."""
        if is_list(X):
            X = listed(X, width_of(self, reset=reset))
        if isinstance(self.hypotheses, str) and self.hypotheses == "predictions":
            classes = self.classes_.tolist()
            parts = [class_numbers(part, classes) for part in columns(X)] if is_table(X) else None
            return class_numbers(X, classes) if parts is None else np.stack(parts, axis=1)
        return X

    def _class(self, d: int) -> Hypotheses:
        given = self.hypotheses
        found: Hypotheses
        if given is None or (isinstance(given, str) and given != "predictions"):
            found = on_grid("stumps" if given is None else given, self.bounds, d, getattr(self, "feature_names_in_", None))
        elif isinstance(given, str):
            found = Predictions(d)
        elif isinstance(given, Hypotheses):
            found = replace(given)  # type: ignore[type-var]  # what it remembers about its grid stays out of the parameter
        elif callable(given) or isinstance(given, list | tuple):
            found = Rules(given, self.count, classes=tuple(self.classes_.tolist()))
        else:
            raise ValueError(
                f"Expected hypotheses= as one of {', '.join(GRIDS)}, rules of dperm.mechanisms.hypotheses, "
                "callables or 'predictions', "
                f"found {type(given).__name__}. A matrix of predictions goes in place of X: "
                "FiniteClassLearner(hypotheses='predictions', ...).fit(matrix, y)."
            )
        if self.count is not None and not isinstance(found, Rules):
            raise ValueError("Expected count= only with a callable, found it with a class that knows its size. Leave it out.")
        if len(self.classes_) != 2 and not isinstance(found, Rules | Predictions):
            raise ValueError(f"Expected two classes for {found.kind}, found {len(self.classes_)}. Pass rules as callables.")
        return found

    def predict(self, X: object) -> np.ndarray:
        """The label that the released rule gives."""
        check_is_fitted(self, "certificate_")
        matrix = read_matrix(self, self._raw(without_person(X, self._person), reset=False), reset=False)
        numbers = self.hypotheses_.predict(self.index_, np.nan_to_num(dense(matrix), posinf=0.0, neginf=0.0))
        return np.asarray(self.classes_[np.clip(numbers, 0, len(self.classes_) - 1)])


@dataclass(frozen=True, eq=False)
class Classed(FromColumns):
    """Raw rows of a Spark table → numbers (or the class numbers of predictions), class numbers of labels, and who counts."""

    classes: tuple[object, ...]
    predictions: bool

    raw = False

    @property
    def numeric(self) -> tuple[str, ...]:
        return () if self.predictions else self.features

    def matrix(self, table: pa.Table) -> np.ndarray:
        if not self.predictions:
            return super().matrix(table)
        return np.stack([class_numbers(cells(table, name), self.classes) for name in self.features], axis=1)

    def __call__(self, table: pa.Table) -> Made:
        labels = class_numbers(cells(table, self.target), self.classes)
        return Made(self.matrix(table), labels, (labels >= 0).astype(np.float64))
