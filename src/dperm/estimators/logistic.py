"""Private logistic regression, binary and multinomial."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, softmax

from dperm.estimators.classifier import PrivateClassifier
from dperm.mechanisms.objective.mechanism import Objective
from dperm.problem import LogisticLoss, Loss, MultinomialLoss

INFORMATION_SHARE = 0.2  # of μ²: the fit keeps 89 % of its μ, and the matrix stands out of its noise for n·μ in the hundreds


@dataclass(eq=False, repr=False, kw_only=True)
class LogisticRegression(PrivateClassifier):
    """argmin_w Σ log(1 + exp(-y⟨x, w⟩)) + r(w), released with (ε, δ)-differential privacy; K classes by softmax.

    intervals   pay, out of the same epsilon, for what `confidence_interval()` and `summary()` need: the fit is then by
                objective perturbation and releases its curvature matrix too (two classes, no weights)

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

    intervals: bool = False

    def _method(self) -> Any:
        if not self.intervals:
            return super()._method()
        chosen = Objective() if isinstance(self.method, str) and self.method in ("auto", "objective") else self.method
        if not isinstance(chosen, Objective):
            raise ValueError(
                f"Expected method='auto' or 'objective' with intervals=True, found {self.method!r}, whose error has no closed "
                "form here. Leave method= out."
            )
        return chosen if chosen.information_share is not None else replace(chosen, information_share=INFORMATION_SHARE)

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
        return np.asarray(np.log(np.maximum(self.predict_proba(X), 1e-300)))
