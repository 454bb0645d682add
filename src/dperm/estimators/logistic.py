"""Private logistic regression, binary and multinomial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin

from dperm.estimators.base import PrivateEstimator
from dperm.estimators.labels import classify, declared_classes
from dperm.problem import Interval, LogisticLoss, Loss, MultinomialLoss
from dperm.walk import Release


@dataclass(eq=False, repr=False, kw_only=True)
class LogisticRegression(ClassifierMixin, PrivateEstimator):
    """argmin_w Σ log(1 + exp(-y⟨x, w⟩)) + r(w), released with (ε, δ)-differential privacy; K classes by softmax.

    **Guarantee**: that of `certificate_`, for rows clipped into the declared bounds. `classes=` must be declared: which labels exist
    is information about people. A row whose label is not among them counts as a null row.

    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 400).reshape(-1, 1)
    >>> model = LogisticRegression(epsilon=5, bounds=(-1, 1), classes=[0, 1], random_state=0)
    >>> model.fit(X, (X[:, 0] > 0).astype(int)).score(X, X[:, 0] > 0) > 0.9
    True
    """

    asked_for: ClassVar[str] = "probabilities"

    classes: Any = None

    def _loss(self) -> Loss:
        K = len(self.classes_)
        return LogisticLoss() if K == 2 else MultinomialLoss(classes=K)

    def _labels(self, y: Any) -> tuple[np.ndarray, np.ndarray | None, Interval]:
        self.classes_ = declared_classes(self.classes, self._declared_schema())
        return classify(y, self.classes_)

    def _store(self, release: Release) -> None:
        K = len(self.classes_)
        self.w_ = release.w if K == 2 else release.w.reshape(K, -1)
        slopes, constant = self._encoding.original(self.w_, 1.0 if self.fit_intercept else 0.0)
        self.coef_ = np.atleast_2d(slopes)
        self.intercept_ = np.atleast_1d(constant)

    def _extra_record(self) -> dict[str, Any]:
        return {"classes": self.classes_.tolist()}

    def _restore(self, extra: dict[str, Any]) -> None:
        self.classes_ = declared_classes(extra["classes"], None)
        rows = 1 if self.w_.ndim == 1 else len(self.w_)
        if rows != (1 if len(self.classes_) == 2 else len(self.classes_)):
            raise ValueError("coefficients that do not fit the classes")

    def decision_function(self, X: Any) -> np.ndarray:
        """Log-odds (binary) or class scores."""
        return self._scores(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, in the order of `classes_`."""
        scores = self._scores(X)
        if scores.ndim == 1:
            positive = expit(scores)
            return np.column_stack([1 - positive, positive])
        return np.asarray(softmax(scores, axis=1))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        return np.log(np.maximum(self.predict_proba(X), 1e-300))

    def predict(self, X: Any) -> np.ndarray:
        """The class with the largest probability."""
        scores = self._scores(X)
        index = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[index])
