"""Private logistic regression, binary and multinomial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, softmax

from dperm.estimators.classifier import PrivateClassifier
from dperm.problem import LogisticLoss, Loss, MultinomialLoss


@dataclass(eq=False, repr=False, kw_only=True)
class LogisticRegression(PrivateClassifier):
    """argmin_w Σ log(1 + exp(-y⟨x, w⟩)) + r(w), released with (ε, δ)-differential privacy; K classes by softmax.

    Made for probabilities: scores are log-odds and `predict` agrees with `predict_proba`. For accuracy see `LinearSVC`.

    **Guarantee**: that of `certificate_`, for rows clipped into the declared bounds. `classes=` must be declared: which labels
    exist is information about people. A row whose label is not among them counts as a null row.

    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 400).reshape(-1, 1)
    >>> model = LogisticRegression(epsilon=5, bounds=(-1, 1), classes=[0, 1], random_state=0)
    >>> model.fit(X, (X[:, 0] > 0).astype(int)).score(X, X[:, 0] > 0) > 0.9
    True
    """

    asked_for: ClassVar[str] = "probabilities"

    def _loss(self) -> Loss:
        K = len(self.classes_)
        return LogisticLoss() if K == 2 else MultinomialLoss(classes=K)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, in the order of `classes_`."""
        scores = self._scores(X)
        if scores.ndim == 1:
            positive = expit(scores)
            return np.column_stack([1 - positive, positive])
        return np.asarray(softmax(scores, axis=1))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        return np.log(np.maximum(self.predict_proba(X), 1e-300))
