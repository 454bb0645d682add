"""What classifiers share: declared classes, class weights, predictions by the largest score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin

from dperm.estimators.base import PrivateEstimator
from dperm.estimators.saving import Extra
from dperm.problem import Interval, LogisticLoss, Loss, MultinomialLoss
from dperm.problem.plain import plain_float, shown
from dperm.tables.labels import check_label_type, classify, declared_classes


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateClassifier(ClassifierMixin, PrivateEstimator):
    """Parameters and predictions of a linear classifier.

    Parameters
    ----------
    classes : sequence
        The labels that can occur, declared. Of two classes the second is the positive one.
    class_weight : dict or None, default None
        Weights of classes, e.g. {"no": 1, "yes": 5}. "balanced" is refused, because it counts labels.
    """

    classes: object = None
    class_weight: object = None

    def _labels(self, y: object) -> tuple[np.ndarray, np.ndarray | None, Interval]:
        self.classes_ = declared_classes(self.classes, self._declared_schema())
        labels, weight, interval = classify(y, self.classes_)
        declared = self._class_weights()
        if declared is not None and weight is not None:
            index = ((labels + 1) / 2).astype(np.int64) if len(self.classes_) == 2 else labels
            weight = weight * np.array([declared[label] for label in self.classes_.tolist()])[index]
        return labels, weight, interval

    def _check_labels(self, y: object) -> None:
        check_label_type(y, declared_classes(self.classes, self._declared_schema()))

    def _class_weights(self) -> dict[object, float] | None:
        if self.class_weight is None:
            return None
        if not isinstance(self.class_weight, Mapping):
            raise ValueError(
                f"Expected class_weight= as a dict of declared weights, found {self.class_weight!r}. Counting labels to "
                "balance them would read the data: write e.g. {0: 1.0, 1: 5.0}."
            )
        unknown = [label for label in self.class_weight if label not in self.classes_.tolist()]
        if unknown:
            known = self.classes_.tolist()
            raise ValueError(f"Expected class_weight= for declared classes, found {unknown!r}. Classes: {known}.")
        weights = {
            label: plain_float(self.class_weight.get(label, 1.0), "class_weight") for label in self.classes_.tolist()
        }
        if not all(np.isfinite(value) and value >= 0 for value in weights.values()) or not any(weights.values()):
            found = shown(dict(self.class_weight))
            raise ValueError(f"Expected class weights ≥ 0, one of them positive, found {found}. Correct them.")
        return weights

    def _loss(self) -> Loss:
        K = len(self.classes_)
        return LogisticLoss() if K == 2 else MultinomialLoss(classes=K)

    def _margins(self) -> tuple[int, ...]:
        return (-1,) if len(self.classes_) == 2 else (len(self.classes_), -1)

    def _in_callers_units(self) -> None:
        slopes, constant = self._encoding.original(self.w_, 1.0 if self.fit_intercept else 0.0)
        self.coef_ = np.atleast_2d(slopes) + 0.0
        self.intercept_ = np.atleast_1d(constant)

    def _extra_record(self) -> Extra:
        return {"classes": self.classes_.tolist()}

    def _restore(self, extra: Extra) -> None:
        self.classes_ = declared_classes(extra["classes"], None)
        rows = 1 if self.w_.ndim == 1 else len(self.w_)
        if rows != (1 if len(self.classes_) == 2 else len(self.classes_)):
            raise ValueError("coefficients that do not fit the classes")

    def decision_function(self, X: object) -> np.ndarray:
        """Scores: positive means the second class (binary), or one score per class."""
        return self._scores(X)

    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """Accuracy, on public rows: on private ones it leaks. Without y, the target is the schema's column of X."""
        return float(super().score(X, *self._truth(X, y, sample_weight)))

    def predict(self, X: object) -> np.ndarray:
        """The class with the largest score."""
        scores = self._scores(X)
        index = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[index])

    def _probabilities(self, X: object) -> np.ndarray:
        """Of the classes, in the order of `classes_`, for scores that are log-odds."""
        scores = self._scores(X)
        if scores.ndim > 1:
            return np.asarray(softmax(scores, axis=1))
        positive = expit(scores)
        return np.column_stack([1 - positive, positive])


class SoftmaxClassifier(PrivateClassifier):
    """One score per class, two classes included."""

    def _labels(self, y: object) -> tuple[np.ndarray, np.ndarray | None, Interval]:
        labels, weight, interval = super()._labels(y)
        if len(self.classes_) == 2:
            return ((labels + 1) / 2).astype(np.int64), weight, Interval(0.0, 1.0)
        return labels, weight, interval

    def _loss(self) -> Loss:
        return MultinomialLoss(classes=len(self.classes_))

    def decision_function(self, X: object) -> np.ndarray:
        """Scores before the softmax; for two classes, the difference of the second and the first."""
        scores = self._scores(X)
        return np.asarray(scores[:, 1] - scores[:, 0]) if len(self.classes_) == 2 else scores

    def predict_proba(self, X: object) -> np.ndarray:
        """Probabilities of the classes, in the order of `classes_`."""
        return self._probabilities(X)
