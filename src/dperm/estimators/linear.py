"""Private least squares, with and without ridge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, overload

import numpy as np
from sklearn.base import RegressorMixin

from dperm.estimators.base import Margin, PrivateEstimator
from dperm.estimators.saving import Extra
from dperm.inference.intervals import score_interval
from dperm.problem import HuberLoss, Interval, Loss, Regularizer, SquaredLoss
from dperm.problem import Ridge as RidgePenalty
from dperm.tables.labels import bounded_labels, check_target_type


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateRegressor(RegressorMixin, PrivateEstimator):
    """Parameters and predictions of a linear regression.

    Parameters
    ----------
    y_bounds : pair of floats
        The range that the target can have, (low, high). Labels are clipped to it and mapped to [-1, 1]; coefficients come
        back in the caller's units; predictions are clipped to it, which is free.
    intervals : bool, default False
        Pay, out of the same epsilon, for standard errors: `summary()`, `confidence_interval()` and `predict(X,
        interval=0.95)`. `coef_` is then the summary's estimate drawn towards 0 by its privacy noise, which predicts better.
    """

    has_intervals: ClassVar[bool] = True

    y_bounds: object = None
    intervals: bool = False

    def _check_labels(self, y: object) -> None:
        check_target_type(y)

    def _labels(self, y: object) -> tuple[np.ndarray, np.ndarray | None, Interval]:
        declared = self.y_bounds
        schema = self._declared_schema()
        if declared is None and schema is not None and schema.target is not None:
            declared = (schema.target.low, schema.target.high)
        labels, weight, (self._y_low, self._y_high) = bounded_labels(y, declared)
        return labels, weight, Interval(-1.0, 1.0)

    def _step(self) -> float:
        return (self._y_high - self._y_low) / 2

    def _level(self, constant: Margin) -> Margin:
        return (self._y_low + self._y_high) / 2 + self._step() * constant

    def _huber(self, threshold: float | None) -> Loss:
        """Linear beyond a threshold in units of the target; beyond a tenth of its declared range where none is given."""
        if threshold is None:
            return HuberLoss(0.2)
        if not threshold > 0:
            raise ValueError(f"Expected threshold > 0 in units of the target, found {threshold}. Pass a positive number.")
        return HuberLoss(float(threshold) / self._step())

    def _extra_record(self) -> Extra:
        return {"y_bounds": [self._y_low, self._y_high]}

    def _restore(self, extra: Extra) -> None:
        self._y_low, self._y_high = (float(side) for side in extra["y_bounds"])
        if not (self._y_low < self._y_high and np.isfinite(self._step())):
            raise ValueError("a range of the target that is none")

    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """R², on public rows: on private ones it leaks. Without y, the target is the schema's column of X."""
        return float(super().score(X, *self._truth(X, y, sample_weight)))

    @overload
    def predict(self, X: object, interval: None = None) -> np.ndarray: ...
    @overload
    def predict(self, X: object, interval: float) -> tuple[np.ndarray, np.ndarray]: ...
    def predict(self, X: object, interval: float | None = None) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predictions, clipped to the declared range of the target.

        With `interval=0.95`, for a fit with `intervals=True`: (predictions, array of low and high), where the interval is for the
        mean (or the quantile) at the row and not for a new record.
        """
        if interval is None:
            return self._in_range(self._scores(X))
        score, low, high = score_interval(self, X, interval)
        return self._in_range(score), np.column_stack([self._in_range(low), self._in_range(high)])

    def _in_range(self, scores: np.ndarray) -> np.ndarray:
        return np.asarray(np.clip(self._level(scores), self._y_low, self._y_high))


@dataclass(eq=False, repr=False, kw_only=True)
class LinearRegression(PrivateRegressor):
    """argmin_w Σ ½(⟨x, w⟩ - y)² + r(w), released with (ε, δ)-differential privacy.

    Under pure privacy (delta=0) without a `radius`, residuals wider than the whole declared range of the target count linearly:
    pure mechanisms need a bounded slope, and no prediction inside the range has such a residual.

    **Guarantee**: that of `certificate_`, for rows clipped into the declared bounds.

    Parameters
    ----------
    intervals : bool, default False
        Pay, out of the same epsilon, for what `summary()` and `confidence_interval()` need. With `method="statistics"` they
        rest on released second moments instead. `coef_` is the summary's estimate drawn towards 0 by its privacy noise, which
        predicts better; with `method="statistics"` it is as without intervals.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 500).reshape(-1, 1)
    >>> model = LinearRegression(epsilon=5, bounds=(0, 1), y_bounds=(0, 4), random_state=0).fit(X, 3 * X[:, 0] + 1)
    >>> bool(abs(model.coef_[0] - 3) < 0.5)
    True
    """

    older_intervals: ClassVar[str] = "statistics"

    def _loss(self) -> Loss:
        if self.delta == 0 and self.radius is None and self.method in ("auto", "objective", "output"):
            return HuberLoss(2.0)  # labels are in [-1, 1]
        return SquaredLoss()


@dataclass(eq=False, repr=False, kw_only=True)
class Ridge(LinearRegression):
    """argmin_w Σ ½(⟨x, w⟩ - y)² + (λ/2)‖w‖² over encoded columns and labels in [-1, 1], with (ε, δ)-differential privacy.

    `regularization` is λ on the sum scale ("auto": 1).

    **Guarantee**: that of `certificate_`, for rows clipped into the declared bounds.

    Parameters
    ----------
    regularization : "auto" or float, default "auto"
        λ on the sum scale; "auto" is 1.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 500).reshape(-1, 1)
    >>> model = Ridge(epsilon=5, bounds=(0, 1), y_bounds=(0, 4), random_state=0).fit(X, 3 * X[:, 0] + 1)
    >>> bool(abs(model.coef_[0] - 3) < 0.7)
    True
    """

    def _regularizer(self) -> Regularizer:
        if isinstance(self.regularization, str) and self.regularization == "auto":
            return RidgePenalty(1.0)
        return super()._regularizer()
