"""Private logistic regression, binary and multinomial."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, overload

import numpy as np
from scipy.special import expit

from dperm.estimators.classifier import PrivateClassifier
from dperm.inference.intervals import probability_intervals, score_interval
from dperm.mechanisms.objective.mechanism import Objective
from dperm.release.plan import Mechanism

INFORMATION_SHARE = 0.2  # of μ²: the fit keeps 89 % of its μ, and the matrix stands out of its noise for n·μ in the hundreds


@dataclass(eq=False, repr=False, kw_only=True)
class LogisticRegression(PrivateClassifier):
    """argmin_w Σ log(1 + exp(-y⟨x, w⟩)) + r(w), released with (ε, δ)-differential privacy; K classes by softmax.

    Made for probabilities: scores are log-odds and `predict` agrees with `predict_proba`. For accuracy see `LinearSVC`.

    **Guarantee**: that of `certificate_`, for rows clipped into the declared bounds. `classes=` must be declared: which labels
    exist is information about people. A row whose label is not among them counts as a null row.

    Parameters
    ----------
    intervals : bool, default False
        Pay, out of the same epsilon, for what `summary()`, `confidence_interval()` and `predict_proba(X, interval=0.95)`
        need. With several classes, they speak of the log-odds of each class against the first of `classes`. With
        `method="objective"` (two classes, no weights) intervals rest on its curvature matrix instead. Otherwise `coef_` is the
        summary's estimate drawn towards 0 by its privacy noise, which predicts better.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 400).reshape(-1, 1)
    >>> model = LogisticRegression(epsilon=5, bounds=(-1, 1), classes=[0, 1], random_state=0)
    >>> model.fit(X, (X[:, 0] > 0).astype(int)).score(X, X[:, 0] > 0) > 0.9
    True
    """

    asked_for: ClassVar[str] = "probabilities"

    has_intervals: ClassVar[bool] = True
    older_intervals: ClassVar[str] = "objective"

    intervals: bool = False

    def _with_intervals(self) -> Mechanism | str:
        chosen = super()._with_intervals()
        chosen = Objective() if isinstance(chosen, str) else chosen
        if not isinstance(chosen, Objective) or chosen.information_share is not None:
            return chosen
        return replace(chosen, information_share=INFORMATION_SHARE)

    @overload
    def predict_proba(self, X: object, interval: None = None) -> np.ndarray: ...
    @overload
    def predict_proba(self, X: object, interval: float) -> tuple[np.ndarray, np.ndarray]: ...
    def predict_proba(self, X: object, interval: float | None = None) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Probabilities of the classes, in the order of `classes_`.

        With `interval=0.95`, for a fit with `intervals=True`: (probabilities, array of low and high). For two classes the array
        has a row per row of X, for the probability of the second class; for several also a place per class, (n, K, 2).
        """
        if interval is not None and len(self.classes_) > 2:
            return probability_intervals(self, X, interval)
        if interval is not None:
            positive, low, high = (expit(score) for score in score_interval(self, X, interval))
            return np.column_stack([1 - positive, positive]), np.column_stack([low, high])
        return self._probabilities(X)

    def predict_log_proba(self, X: object) -> np.ndarray:
        return np.asarray(np.log(np.maximum(self.predict_proba(X), 1e-300)))
