"""Held-out rows as the few numbers that scores need: each row's from that row, the model and public declarations alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from dperm.estimators.base import PrivateEstimator
from dperm.estimators.poisson import PoissonRegressor
from dperm.evaluation.plan import BINS, Question
from dperm.evaluation.terms import Vector, tidy
from dperm.tables.cells import numbers
from dperm.tables.labels import classify, label_column
from dperm.tables.tables import cells, column_names, is_table


def question_of(model: Any, *, bins: int = BINS, max_exposure: float | None = None) -> Question:
    """What can be asked about this model's answers."""
    if not isinstance(model, PrivateEstimator):
        raise ValueError(f"Expected a fitted classifier or regression of dperm, found {type(model).__name__}.")
    if isinstance(model, PoissonRegressor):
        most = 1.0 if max_exposure is None else float(max_exposure)
        # A count is at most the largest count, or, where the fit read rates, the largest rate times the largest exposure.
        usual = float(model.max_exposure or 1.0) if model._counted else 1.0
        return Question("counts", high=model._y_high * max(most / usual, 1.0), max_exposure=most)
    if max_exposure is not None:
        raise ValueError("Expected max_exposure= only for counts, found it for another model. Leave it out.")
    if hasattr(model, "classes_"):
        K, chances = len(model.classes_), hasattr(model, "predict_proba")
        return Question("binary", 2, chances, bins) if K == 2 else Question("multiclass", K, chances)
    if not hasattr(model, "_y_low"):
        raise ValueError(f"Expected a classifier, a bounded regression or counts, found {type(model).__name__}.")
    return Question("regression", low=float(model._y_low), high=float(model._y_high))


def scored_rows(model: Any, question: Question, X: Any, y: Any, exposure: Any = None) -> tuple[Vector, Vector]:
    """The numbers of every row (see `evaluation_terms`), and 1 for rows that count: 0 if the label is missing or undeclared."""
    if exposure is not None and question.kind != "counts":
        raise ValueError("Expected exposure= only for counts, found it for another model. Leave it out.")
    if isinstance(exposure, str):
        exposure = cells(X, exposure)
    y = _labels(model, X, y)
    if question.kind == "regression":
        return _residuals(model, question, X, y)
    if question.kind == "counts":
        return _counts(model, question, X, y, exposure)
    labels, weight, _ = classify(y, model.classes_)
    index = ((labels + 1) / 2).astype(np.int64) if question.kind == "binary" else labels
    right = np.asarray(model.predict(X)) == model.classes_[index]
    loss, chance = np.zeros(len(index)), np.zeros(len(index))
    if question.probabilities:
        every = np.asarray(model.predict_proba(X), dtype=np.float64)
        least = np.exp(-question.most_loss)
        loss = -np.log(tidy(every[np.arange(len(index)), index], least, 1.0)) / question.most_loss
        chance = every[:, 1]
    elif question.kind == "binary":
        chance = expit(np.asarray(model.decision_function(X), dtype=np.float64))
    known = np.ones(len(index)) if weight is None else weight
    return np.column_stack([index, right, loss, chance]).astype(np.float64), known


def _labels(model: Any, X: Any, y: Any) -> np.ndarray:
    if y is None:
        schema = model._declared_schema()
        if schema is None or schema.target is None or not is_table(X):
            raise ValueError("Expected y, or a table with the schema's target column, found neither. Pass the labels.")
        if schema.target.column not in column_names(X):
            raise ValueError(f"Expected the target column {schema.target.column!r} in the data, found none. Scores need it.")
        y = schema.labels(cells(X, schema.target.column))
    return label_column(y, len(y))


def _residuals(model: Any, question: Question, X: Any, y: np.ndarray) -> tuple[Vector, Vector]:
    truth = numbers(y)
    known = np.isfinite(truth)
    truth = np.clip(np.where(known, truth, question.low), question.low, question.high)
    residual = (truth - np.asarray(model.predict(X), dtype=np.float64)) / question.width
    return np.column_stack([residual, (2 * truth - question.low - question.high) / question.width]), known.astype(np.float64)


def _counts(model: Any, question: Question, X: Any, y: np.ndarray, exposure: Any) -> tuple[Vector, Vector]:
    """Counts cut to [0, limit], predictions rate·exposure; exposures as a fit reads them: cut to the largest, 0 if missing."""
    truth = numbers(y)
    given = np.full(len(truth), question.max_exposure) if exposure is None else numbers(exposure)
    if given.shape != truth.shape:
        raise ValueError("Expected one exposure per row, found another number of them. Pass one for every row.")
    given = tidy(given, 0.0, question.max_exposure)
    known = np.isfinite(truth) & (given > 0)
    truth = tidy(np.where(known, truth, 0.0), 0.0, question.high)
    predicted = tidy(model.predict(X, given), 0.0, question.high)  # of the exposures: the model cuts counts, not rates
    rows = [truth / question.high, predicted / question.high, given / question.max_exposure]
    return np.column_stack(rows), known.astype(np.float64)
