"""Private Poisson regression, with exposures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, overload

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score

from dperm.choose.table import automatic
from dperm.estimators.base import PrivateEstimator
from dperm.estimators.declaration import Declaration
from dperm.estimators.saving import Extra
from dperm.inference.intervals import score_interval
from dperm.mechanisms.scaled.inference import ScaledInference
from dperm.mechanisms.scaled.poisson import ScaledPoisson
from dperm.problem import Interval, Loss, PoissonLoss
from dperm.release.plan import Shape, Target
from dperm.tables.cells import numbers
from dperm.walk.fitting import Release

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from dperm.release.plan import Mechanism

LOWEST = -12.0  # rates below y_max·e^-12 are as good as none


@dataclass(eq=False, repr=False, kw_only=True)
class PoissonRegressor(RegressorMixin, PrivateEstimator):
    """argmin_w Σ exposure·exp(⟨x, w⟩) - y⟨x, w⟩: counts with a log link, released with (ε, δ)-differential privacy.

    `fit(X, y, exposure=e)` models E[y] = e·exp(⟨x, w⟩); `offset=` is log e. Sample weights multiply a row's likelihood. Part of
    the budget balances the total: Σ predicted = Σ observed up to noise. `score` is D², the share of the Poisson deviance that the
    model explains.

    `intervals=True` and methods other than the default ("gradient", "objective", …) fit the rate y/e with weight e: they cut the
    rate at y_max, not the count, and balance nothing.

    **Guarantee**: that of `certificate_`, for rows clipped into the declared bounds.

    Parameters
    ----------
    y_bounds : pair of floats, or float
        (0, y_max), or the number y_max: the largest count that a row may have, whatever its exposure. Larger ones are cut
        to it, negative ones to 0; a missing one makes the row a null row. Predicted counts never exceed y_max.
    max_exposure : float or None, default None
        The largest exposure that a row may have. Needed with exposure= or offset= in `fit`.
    intervals : bool, default False
        Pay, out of the same epsilon, for standard errors: `summary()`, `confidence_interval()` and `predict(X,
        interval=0.95)`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 1, (5000, 1))
    >>> y = rng.poisson(np.exp(1 + 2 * X[:, 0]))
    >>> model = PoissonRegressor(epsilon=2, bounds=(0, 1), y_bounds=(0, 60), random_state=0).fit(X, y)
    >>> bool(abs(model.coef_[0] - 2) < 0.3)
    True
    """

    _given: ClassVar[np.ndarray | None] = None  # exposures and
    _weighed: ClassVar[object] = None  # sample weights, during a fit that has them

    has_intervals: ClassVar[bool] = True

    y_bounds: Sequence[float] | float | None = None
    max_exposure: float | None = None
    intervals: bool = False

    def fit(
        self,
        X: object,
        y: object = None,
        sample_weight: object = None,
        *,
        exposure: object = None,
        offset: object = None,
        groups: object = None,
    ) -> PoissonRegressor:
        """Fit privately. Exposures outside [0, max_exposure] are cut into it; a missing one counts as 0."""
        if exposure is not None and offset is not None:
            raise ValueError("Expected exposure= or offset= (its logarithm), found both. Pass one.")
        if offset is not None:
            exposure = np.exp(np.minimum(numbers(offset), 700.0))
        self._check_exposure(exposure is not None)
        if exposure is not None:
            given = numbers(exposure)
            self.__dict__["_given"] = np.clip(np.where(np.isnan(given), 0.0, given), 0.0, self.max_exposure)
        self.__dict__["_weighed"] = sample_weight
        try:
            super().fit(X, y, sample_weight, groups=groups)
        finally:
            self.__dict__.pop("_given", None)
            self.__dict__.pop("_weighed", None)
        return self

    def _labels(self, y: object) -> tuple[np.ndarray, np.ndarray | None, Interval]:
        """Counts (times sample weights) in units of the largest, or rates in units of y_max for methods that fit rates."""
        self._y_high = self._unit = self._declared_limit()
        counts, exposure = numbers(y), self._given
        if exposure is not None and exposure.shape != counts.shape:
            raise ValueError("Expected one exposure per row, found another number of them. Pass one for every row.")
        self._counted = self._counts_are_read()
        if exposure is not None:
            per = np.ones_like(exposure) if self._counted else np.maximum(exposure, 1e-300)
            with np.errstate(over="ignore"):  # a warning would tell of one row's count
                counts = np.where(exposure > 0, counts / per, np.nan)
        known = np.isfinite(counts)
        labels = np.clip(np.where(known, counts, 0.0), 0.0, self._y_high) / self._y_high
        if self._counted and self._weighed is not None:
            weight, heaviest = super()._weights(None, self._weighed, len(counts))
            labels = labels * np.asarray(weight) / heaviest
            self._unit = self._y_high * float(heaviest or 1.0)
        return labels, known.astype(np.float64), Interval(0.0, 1.0)

    def _before_rows(self, n: int, d: int | None) -> Declaration:
        self._check_exposure(self.max_exposure is not None)
        self.__dict__["_given"] = None if self.max_exposure is None else np.zeros(0)
        self.__dict__["_weighed"] = None if self.max_weight is None else np.zeros(0)
        return super()._before_rows(n, d)

    def _check_exposure(self, given: bool) -> None:
        if not self.fit_intercept:
            raise ValueError("Expected fit_intercept=True for counts, found False. The intercept carries the mean rate.")
        limit = self.max_exposure
        if given != (limit is not None) or (limit is not None and not (limit > 0 and np.isfinite(limit))):
            raise ValueError(
                f"Expected max_exposure= > 0 together with exposure= or offset= in fit, found max_exposure={limit!r}. Declare "
                "the largest exposure a row may have; it must not be computed from the data."
            )

    def _counts_are_read(self) -> bool:
        """Whether the method reads counts beside exposures; without exposures and weights there is no difference."""
        if self._given is None and self._weighed is None:
            return True
        method = self._asked_method()
        if isinstance(method, str) and method == "auto":
            shape = Shape(1, self._encoding.d)
            target = Target(float(self.epsilon), 1e-6 if self.delta is None else float(self.delta))
            method = automatic(self._problem(Interval(0.0, 1.0)), shape, target, asked_for=self.asked_for)
        return bool((method if isinstance(method, str) else method.name) == ScaledPoisson.name)

    def _method(self) -> Mechanism | str:
        """A `ScaledPoisson` of the caller's reads counts too."""
        chosen = super()._method()
        return replace(chosen, labels="counts") if isinstance(chosen, ScaledPoisson) else chosen

    def _asked_method(self) -> Mechanism | str:
        chosen = super()._asked_method()
        if isinstance(chosen, ScaledInference) and self._weighed is not None:
            raise ValueError(
                "Expected no sample weights with intervals=True, found some (or max_weight=): only exposures have a derivation. "
                "Pass exposure=, or leave one of the two out."
            )
        return chosen

    def _declared_limit(self) -> float:
        declared: Sequence[float | None] | float | None = self.y_bounds
        schema = self._declared_schema()
        if declared is None and schema is not None and schema.target is not None:
            declared = (schema.target.low or 0.0, schema.target.high)
        if isinstance(declared, int | float):
            declared = (0.0, declared)
        try:
            low, high = np.asarray(declared, dtype=np.float64).tolist()
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Expected y_bounds=(0, y_max) for counts, found {declared!r}. Pass the largest count a row may have; it must "
                "not be computed from the data."
            ) from error
        if low < 0 or not (np.isfinite(high) and low < high):
            raise ValueError(f"Expected y_bounds=(0, y_max) with y_max > 0, found {declared!r}. Counts are never negative.")
        return float(high)

    def _weights(self, known: np.ndarray | None, sample_weight: object, n: int) -> tuple[np.ndarray | None, float | None]:
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
        self._in_callers_units()

    def _in_callers_units(self) -> None:
        slopes, constant = self._encoding.original(self.w_, 1.0)
        self.coef_ = slopes
        self.intercept_ = float(constant + np.log(self._unit))

    def _extra_record(self) -> Extra:
        return {"y_high": self._y_high, "unit": self._unit, "counted": self._counted, "max_exposure": self.max_exposure}

    def _restore(self, extra: Extra) -> None:
        """A model of version 0.1 states y_high alone: it is one of rates, in units of y_max."""
        self._y_high = float(extra["y_high"])
        self._unit = float(extra.get("unit", self._y_high))
        self._counted = bool(extra.get("counted", False))
        self.max_exposure = extra.get("max_exposure")
        for value in (self._y_high, self._unit, 1.0 if self.max_exposure is None else float(self.max_exposure)):
            if not (np.isfinite(value) and value > 0):
                raise ValueError("a largest count or exposure that is no positive number")

    @overload
    def predict(self, X: object, exposure: object = None, interval: None = None) -> np.ndarray: ...
    @overload
    def predict(self, X: object, exposure: object = None, *, interval: float) -> tuple[np.ndarray, np.ndarray]: ...
    def predict(
        self, X: object, exposure: object = None, interval: float | None = None
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Expected counts for the given exposures (1 if left out).

        None exceeds y_max; for an exposure e beyond max_exposure the limit is y_max·e/max_exposure. With `interval=0.95`, for a
        fit with `intervals=True`: (predictions, array of low and high), where the interval is for the expected count and not for
        a new count.
        """
        if interval is None:
            return self._counts(self._scores(X), exposure)
        score, low, high = score_interval(self, X, interval)
        return self._counts(score, exposure), np.column_stack([self._counts(low, exposure), self._counts(high, exposure)])

    def _counts(self, scores: np.ndarray, exposure: object) -> np.ndarray:
        """The counts of scores ⟨encoded x, w⟩."""
        time = np.ones(len(scores)) if exposure is None else np.asarray(exposure, dtype=np.float64)
        if time.shape not in ((), scores.shape) or not np.all(np.isfinite(time) & (time >= 0)):
            raise ValueError(
                f"Expected one exposure ≥ 0 per row ({len(scores)}) or one for all, found shape {time.shape}, or a negative, "
                "missing or infinite one among them. Correct exposure=."
            )
        if not self._counted:
            return np.asarray(self._unit * np.exp(np.clip(scores, LOWEST, 0.0)) * time)
        longest = 1.0 if self.max_exposure is None else float(self.max_exposure)
        rates = self._unit * np.exp(np.clip(scores, LOWEST - np.log(max(longest, 1.0)), 700.0))
        with np.errstate(over="ignore"):
            return np.asarray(np.minimum(rates * time, self._y_high * np.maximum(1.0, time / longest)))

    def score(self, X: object, y: object = None, sample_weight: object = None, *, exposure: object = None) -> float:
        """D² of the Poisson deviance on public rows, for counts seen during the given exposures (1 if left out)."""
        return float(d2_tweedie_score(self._truth(X, y), self.predict(X, exposure), sample_weight=sample_weight, power=1))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
