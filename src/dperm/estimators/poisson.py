"""Private Poisson regression, with exposures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score

from dperm.cells import numbers
from dperm.estimators.base import PrivateEstimator, score_interval
from dperm.problem import Interval, Loss, PoissonLoss
from dperm.walk import Release

LOWEST = -12.0  # rates below y_max·e^-12 are as good as none


@dataclass(eq=False, repr=False, kw_only=True)
class PoissonRegressor(RegressorMixin, PrivateEstimator):
    """argmin_w Σ exposure·exp(⟨x, w⟩) - y⟨x, w⟩: counts with a log link, released with (ε, δ)-differential privacy.

    y_bounds       (0, y_max), or the number y_max: the largest count that a row may have, or the largest rate y/exposure where
                   exposures are given. Larger ones are cut to it, negative ones to 0; a missing one makes the row a null row.
                   Predicted rates never exceed y_max.
    max_exposure   the largest exposure that a row may have; needed with exposure= or offset= in fit
    intervals      pay, out of the same epsilon, for standard errors: `summary()`, `confidence_interval()`,
                   `predict(X, interval=0.95)`

    `fit(X, y, exposure=e)` models E[y] = e·exp(⟨x, w⟩); `offset=` is log e. It is the regression of the rate y/e with weight
    e, so sample weights multiply. `score` is D², the share of the Poisson deviance that the model explains.

    **Guarantee**: that of `certificate_`, for rows clipped into the declared bounds.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 1, (5000, 1))
    >>> y = rng.poisson(np.exp(1 + 2 * X[:, 0]))
    >>> model = PoissonRegressor(epsilon=2, bounds=(0, 1), y_bounds=(0, 60), random_state=0).fit(X, y)
    >>> bool(abs(model.coef_[0] - 2) < 0.3)
    True
    """

    _given: ClassVar[Any] = None  # exposures, during a fit that has them

    has_intervals: ClassVar[bool] = True

    y_bounds: Any = None
    max_exposure: float | None = None
    intervals: bool = False

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        exposure: Any = None,
        offset: Any = None,
        groups: Any = None,
    ) -> PoissonRegressor:
        """Fit privately. Exposures outside [0, max_exposure] are cut into it; a missing one counts as 0."""
        if not self.fit_intercept:
            raise ValueError("Expected fit_intercept=True for counts, found False. The intercept carries the mean rate.")
        if self.intervals and sample_weight is not None:
            raise ValueError(
                "Expected no sample_weight= with intervals=True, found one: only exposures have a derivation. Pass exposure=, or "
                "leave one of the two out."
            )
        if exposure is not None and offset is not None:
            raise ValueError("Expected exposure= or offset= (its logarithm), found both. Pass one.")
        if offset is not None:
            exposure = np.exp(np.minimum(numbers(offset), 700.0))
        limit = self.max_exposure
        if (exposure is None) != (limit is None) or (limit is not None and not (limit > 0 and np.isfinite(limit))):
            raise ValueError(
                f"Expected max_exposure= > 0 together with exposure= or offset= in fit, found max_exposure={limit!r}. Declare "
                "the largest exposure a row may have; it must not be computed from the data."
            )
        if exposure is not None and limit is not None:
            given = numbers(exposure)
            self.__dict__["_given"] = np.clip(np.where(np.isnan(given), 0.0, given), 0.0, limit)
        try:
            fitted = super().fit(X, y, sample_weight, groups=groups)
        finally:
            self.__dict__.pop("_given", None)
        return fitted

    def _labels(self, y: Any) -> tuple[np.ndarray, np.ndarray | None, Interval]:
        """Counts, or rates where exposures are given, in units of y_max."""
        self._y_high = self._declared_limit()
        counts = numbers(y)
        if self._given is not None:
            if self._given.shape != counts.shape:
                raise ValueError(f"Expected one exposure per row ({len(counts)}), found shape {self._given.shape}.")
            counts = np.where(self._given > 0, counts / np.maximum(self._given, 1e-300), np.nan)
        known = np.isfinite(counts)
        labels = np.clip(np.where(known, counts, 0.0), 0.0, self._y_high) / self._y_high
        return labels, known.astype(np.float64), Interval(0.0, 1.0)

    def _declared_limit(self) -> float:
        declared = self.y_bounds
        schema = self._declared_schema()
        if declared is None and schema is not None and schema.target is not None:
            declared = (schema.target.low or 0.0, schema.target.high)
        if isinstance(declared, int | float):
            declared = (0.0, declared)
        try:
            low, high = (float(side) for side in declared)  # type: ignore[union-attr]
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Expected y_bounds=(0, y_max) for counts, found {declared!r}. Pass the largest count a row may have; it must "
                "not be computed from the data."
            ) from error
        if low < 0 or not (np.isfinite(high) and low < high):
            raise ValueError(f"Expected y_bounds=(0, y_max) with y_max > 0, found {declared!r}. Counts are never negative.")
        return high

    def _weights(self, known: np.ndarray | None, sample_weight: Any, n: int) -> tuple[np.ndarray | None, float | None]:
        """Weights of the likelihood times exposures, and their declared bound."""
        weight, heaviest = super()._weights(known, sample_weight, n)
        if self._given is None:
            return weight, heaviest
        limit = float(self.max_exposure or 1.0)
        weight = self._given if weight is None else self._given * weight
        return weight, limit * (1.0 if heaviest is None else heaviest)

    def _loss(self) -> Loss:
        return PoissonLoss(LOWEST, 0.0)

    def _store(self, release: Release) -> None:
        self.w_ = release.w
        slopes, constant = self._encoding.original(self.w_, 1.0)
        self.coef_ = slopes
        self.intercept_ = float(constant + np.log(self._y_high))

    def _extra_record(self) -> dict[str, Any]:
        return {"y_high": self._y_high}

    def _restore(self, extra: dict[str, Any]) -> None:
        self._y_high = float(extra["y_high"])
        if not (np.isfinite(self._y_high) and self._y_high > 0):
            raise ValueError("a largest count that is no positive number")

    def predict(self, X: Any, exposure: Any = None, interval: float | None = None) -> Any:
        """Expected counts, at most y_max (times the exposure).

        With `interval=0.95`, for a fit with `intervals=True`: (predictions, array of low and high), where the interval is for the
        expected count and not for a new count.
        """
        if interval is None:
            return self._counts(self._scores(X), exposure)
        score, low, high = score_interval(self, X, interval)
        return self._counts(score, exposure), np.column_stack([self._counts(low, exposure), self._counts(high, exposure)])

    def _counts(self, scores: np.ndarray, exposure: Any) -> np.ndarray:
        rates = self._y_high * np.exp(np.clip(scores, LOWEST, 0.0))
        return np.asarray(rates if exposure is None else rates * np.asarray(exposure, dtype=np.float64))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """D² of the Poisson deviance."""
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


