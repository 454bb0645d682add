"""Private least squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from dperm.estimators.base import PrivateEstimator
from dperm.estimators.labels import bounded_labels
from dperm.problem import Interval, Loss, SquaredLoss
from dperm.walk import Release


@dataclass(eq=False, repr=False, kw_only=True)
class LinearRegression(RegressorMixin, PrivateEstimator):
    """argmin_w Σ ½(⟨x, w⟩ - y)² + r(w), released with (ε, δ)-differential privacy.

    Labels are clipped to `y_bounds` and mapped to [-1, 1]; coefficients come back in the caller's units; predictions are
    clipped to `y_bounds`, which is free.

    **Guarantee**: that of `certificate_`, for rows clipped into the declared bounds.

    >>> import numpy as np
    >>> X = np.linspace(0, 1, 500).reshape(-1, 1)
    >>> model = LinearRegression(epsilon=5, bounds=(0, 1), y_bounds=(0, 4), random_state=0).fit(X, 3 * X[:, 0] + 1)
    >>> bool(abs(model.coef_[0] - 3) < 0.5)
    True
    """

    y_bounds: Any = None

    def _loss(self) -> Loss:
        return SquaredLoss()

    def _labels(self, y: Any) -> tuple[np.ndarray, np.ndarray | None, Interval]:
        declared = self.y_bounds
        schema = self._declared_schema()
        if declared is None and schema is not None and schema.target is not None:
            declared = (schema.target.low, schema.target.high)
        labels, weight, (self._y_low, self._y_high) = bounded_labels(y, declared)
        return labels, weight, Interval(-1.0, 1.0)

    def _store(self, release: Release) -> None:
        self.w_ = release.w
        middle, half = (self._y_low + self._y_high) / 2, (self._y_high - self._y_low) / 2
        slopes, constant = self._encoding.original(self.w_, 1.0 if self.fit_intercept else 0.0)
        self.coef_ = half * slopes
        self.intercept_ = float(middle + half * constant)

    def _extra_record(self) -> dict[str, Any]:
        return {"y_bounds": [self._y_low, self._y_high]}

    def _restore(self, extra: dict[str, Any]) -> None:
        self._y_low, self._y_high = (float(side) for side in extra["y_bounds"])

    def predict(self, X: Any) -> np.ndarray:
        """Predictions, clipped to the declared range of the target."""
        middle, half = (self._y_low + self._y_high) / 2, (self._y_high - self._y_low) / 2
        return np.clip(middle + half * self._scores(X), self._y_low, self._y_high)
