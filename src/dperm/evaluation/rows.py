"""Held-out rows as the few numbers that scores need: each row's from that row, the model and public declarations alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from dperm.estimators.base import PrivateEstimator
from dperm.estimators.counts import CountTarget
from dperm.estimators.engines import labels_of
from dperm.evaluation.plan import BINS, Question
from dperm.evaluation.terms import tidy
from dperm.problem.arrays import Vector
from dperm.tables.cells import numbers, truth
from dperm.tables.column import Column
from dperm.tables.containers import beside
from dperm.tables.labels import classify, label_column
from dperm.tables.tables import cells, column_names, is_table
from dperm.words.spelling import closest, scalars


@dataclass(frozen=True)
class Groups:
    """A column with declared levels: every row is in one of its groups, or in none."""

    column: Column

    @property
    def names(self) -> tuple[str, ...]:
        if self.column.type == "boolean":
            return ("no", "yes")
        return tuple(name.removeprefix(f"{self.column.name}=") for name in self.column.features)

    def of(self, X: object) -> Vector:
        """The group of every row, from that row's cell alone; -1 for none."""
        values = cells(X, self.column.source or self.column.name)
        if self.column.type == "boolean":
            found = truth(values)
            return np.where(np.isfinite(found), (found >= 0.5).astype(np.float64), -1.0)
        return np.asarray(self.column.places(values), dtype=np.float64)


def groups_of(model: PrivateEstimator, X: object, by: str | None, levels: Sequence[object] | None) -> Groups | None:
    """The groups of a column: of the levels that the schema declares, or of those listed here."""
    if by is None:
        return None
    if not is_table(X):
        raise ValueError(f"Expected a table with the column {str(by)[:60]!r} for by=, found an array. Pass the table itself.")
    if by not in (known := column_names(X)):
        hint = closest(by, known) or f" Columns: {', '.join(map(repr, known[:20]))}."
        raise ValueError(f"Expected a table with the column {str(by)[:60]!r} for by= (--by), found none.{hint}")
    if levels is not None:
        return Groups(Column(by, "categorical", levels=scalars(levels, f"levels of column {by!r}")))
    schema = model._declared_schema()
    pieces = [] if schema is None else [p for column in schema.columns if column.name == by for p in column.pieces]
    if len(pieces) == 1 and pieces[0].type in ("categorical", "boolean"):
        return Groups(pieces[0])
    if len(pieces) == 1 and pieces[0].type == "ordinal":
        return Groups(Column(by, "categorical", levels=pieces[0].levels))
    raise ValueError(
        f"Expected declared levels of column {by!r} for by=, found none in the schema. Pass levels=[...] (--levels a,b,c), or "
        "declare its levels or bins in the schema."
    )


def question_of(
    model: PrivateEstimator, *, bins: int = BINS, max_exposure: float | None = None, by: Groups | None = None
) -> Question:
    """What can be asked about this model's answers, of all rows and of the groups of a declared column."""
    found = _question(model, bins, max_exposure)
    return found if by is None else replace(found, by=by.column.source or by.column.name, groups=by.names)


def _question(model: PrivateEstimator, bins: int, max_exposure: float | None) -> Question:
    if not isinstance(model, PrivateEstimator):
        raise ValueError(f"Expected a fitted classifier or regression of dperm, found {type(model).__name__}. Pass one of those.")
    check_is_fitted(model, "certificate_")
    if isinstance(model, CountTarget) and model._counting:
        most = 1.0 if max_exposure is None else float(max_exposure)
        # A count is at most the largest count, or, where the fit read rates, the largest rate times the largest exposure.
        usual = float(model.max_exposure or 1.0) if model._counted else 1.0
        return Question("counts", high=model._y_high * max(most / usual, 1.0), max_exposure=most)
    if max_exposure is not None:
        raise ValueError("Expected max_exposure= only for counts, found it for another model. Leave it out.")
    if hasattr(model, "classes_"):
        # Curves with a hinge have the method, and refuse: their scores are not log-odds.
        K, chances = len(model.classes_), hasattr(model, "predict_proba") and getattr(model, "loss", "") != "hinge"
        labels = tuple(str(label) for label in model.classes_.tolist())
        if K == 2:
            return Question("binary", 2, chances, bins, labels=labels)
        return Question("multiclass", K, chances, labels=labels)
    if not hasattr(model, "_y_low"):
        raise ValueError(
            f"Expected a classifier, a bounded regression or counts, found {type(model).__name__}. "
            "Pass one of those."
        )
    return Question("regression", low=float(model._y_low), high=float(model._y_high))


def scored_rows(
    model: PrivateEstimator, question: Question, X: object, y: object, exposure: object = None
) -> tuple[Vector, Vector]:
    """The numbers of every row (see `terms`), and 1 for rows that count: 0 if the label is missing or undeclared."""
    if exposure is not None and question.kind != "counts":
        raise ValueError("Expected exposure= only for counts, found it for another model. Leave it out.")
    if isinstance(exposure, str):
        exposure = cells(X, exposure)
    predicted = np.asarray(model.predict(X))
    y = _labels(model, X, y, len(predicted))  # before anything is compared: NumPy's errors state the number of rows
    if question.kind == "regression":
        return _residuals(question, predicted, y)
    if question.kind == "counts":
        return _counts(model, question, X, y, exposure)
    labels, weight, _ = classify(y, model.classes_)
    index = ((labels + 1) / 2).astype(np.int64) if question.kind == "binary" else labels
    said = _places(model, predicted)
    right = said == index
    loss, chance = np.zeros(len(index)), np.zeros(len(index))
    if question.probabilities:
        every = np.asarray(model.predict_proba(X), dtype=np.float64)
        least = np.exp(-question.most_loss)
        loss = -np.log(tidy(every[np.arange(len(index)), index], least, 1.0)) / question.most_loss
        chance = every[:, 1]
    elif question.kind == "binary":
        chance = expit(np.asarray(model.decision_function(X), dtype=np.float64))
    known = np.ones(len(index)) if weight is None else weight
    return np.column_stack([index, right, loss, chance, said]).astype(np.float64), known


def _places(model: PrivateEstimator, predicted: np.ndarray) -> np.ndarray:
    """The predicted class of every row, as its place among the classes."""
    place = {label: k for k, label in enumerate(model.classes_.tolist())}
    return np.array([place[label] for label in predicted.tolist()], dtype=np.int64)


def _labels(model: PrivateEstimator, X: object, y: object, n: int) -> np.ndarray:
    if y is None:
        y = labels_of(X, model._declared_schema())
    return label_column(y, n)


def _residuals(question: Question, predicted: np.ndarray, y: np.ndarray) -> tuple[Vector, Vector]:
    truth = numbers(y)
    known = np.isfinite(truth)
    truth = np.clip(np.where(known, truth, question.low), question.low, question.high)
    residual = (truth - predicted.astype(np.float64)) / question.width
    return np.column_stack([residual, (2 * truth - question.low - question.high) / question.width]), known.astype(np.float64)


def _counts(model: PrivateEstimator, question: Question, X: object, y: np.ndarray, exposure: object) -> tuple[Vector, Vector]:
    """Counts cut to [0, limit], predictions rate·exposure; exposures as a fit reads them: cut to the largest, 0 if missing."""
    truth = numbers(y)
    given = np.full(len(truth), question.max_exposure) if exposure is None else numbers(beside(exposure))
    if given.shape != truth.shape:
        raise ValueError("Expected one exposure per row, found another number of them. Pass one for every row.")
    given = tidy(given, 0.0, question.max_exposure)
    known = np.isfinite(truth) & (given > 0)
    truth = tidy(np.where(known, truth, 0.0), 0.0, question.high)
    predicted = tidy(model.predict(X, given), 0.0, question.high)  # of the exposures: the model cuts counts, not rates
    rows = [truth / question.high, predicted / question.high, given / question.max_exposure]
    return np.column_stack(rows), known.astype(np.float64)
