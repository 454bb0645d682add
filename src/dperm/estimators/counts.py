"""Targets that are counts, with exposures: how they are declared, read, predicted and scored."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score
from sklearn.utils import Tags

from dperm.estimators.alone import one_at_a_time
from dperm.estimators.base import Margin, PrivateEstimator
from dperm.estimators.declaration import Declaration
from dperm.estimators.declared import check_declared
from dperm.estimators.saving import Extra
from dperm.problem import Interval
from dperm.problem.arrays import Vector
from dperm.problem.plain import is_number, plain_pair, shown
from dperm.rows.labelled import LabelRule, RowRule
from dperm.tables.cells import numbers
from dperm.tables.containers import beside
from dperm.tables.labels import check_target_type

LOWEST = -12.0  # rates below y_max·e^-12 are as good as none


@dataclass(eq=False, repr=False, kw_only=True)
class CountTarget(RegressorMixin, PrivateEstimator):
    """What models of counts share. For a model of another target (`_counting` is False) every method is that of the next class.

    Parameters
    ----------
    y_bounds : pair of floats, or float
        (0, y_max), or the number y_max: the largest count that a row may have, whatever its exposure. Larger ones are cut
        to it, negative ones to 0; a missing one makes the row a null row. Predicted counts never exceed y_max.
    max_exposure : float or None, default None
        The largest exposure that a row may have. Needed with exposure= or offset= in `fit`.
    """

    _given: ClassVar[np.ndarray | None] = None  # exposures and
    _weighed: ClassVar[object] = None  # sample weights, during a fit that has them; none of either where executors read them
    _named: ClassVar[str | None] = None  # the column of a Spark table that holds exposures, or,
    _logs: ClassVar[bool] = False  # if so, their logarithms

    y_bounds: object = None
    max_exposure: float | None = None

    @property
    def _counting(self) -> bool:
        """Whether the target is a count."""
        return True

    @one_at_a_time
    def fit(
        self,
        X: object,
        y: object = None,
        sample_weight: object = None,
        *,
        exposure: object = None,
        offset: object = None,
        groups: object = None,
    ) -> Any:
        """Fit privately. Exposures outside [0, max_exposure] are cut into it; a missing one counts as 0.

        For a Spark table exposure, offset and sample_weight are names of columns.
        """
        if exposure is not None and offset is not None:
            raise ValueError("Expected exposure= or offset= (its logarithm), found both. Pass one.")
        check_declared(self)  # before exposures are cut at a number that may be of any kind
        given, logs = offset if exposure is None else exposure, offset is not None
        self._check_exposure(given is not None)
        during: dict[str, object] = {"_logs": logs, "_weighed": sample_weight if self._counting else None}
        if isinstance(given, str):
            during |= {"_named": given, "_given": np.zeros(0)}
        elif given is not None:
            during["_given"] = self._exposures(given, logs)
        self.__dict__.update(during)
        try:
            super().fit(X, y, sample_weight, groups=groups)
        finally:
            for name in during:
                self.__dict__.pop(name, None)
        return self

    def _exposures(self, given: object, logs: bool) -> np.ndarray:
        """Exposures, or what their logarithms stand for, within the declared ones."""
        found = numbers(beside(given))
        found = np.exp(np.minimum(found, 700.0)) if logs else found
        return np.clip(np.where(np.isnan(found), 0.0, found), 0.0, self.max_exposure)

    def _rule_of_rows(self) -> LabelRule | RowRule:
        return self._labels if self._given is None and self._weighed is None else CountRule(self, self._logs)

    def _counts_are_read(self) -> bool:
        """Whether the method reads counts beside exposures."""
        return True

    def _check_labels(self, y: object) -> None:
        check_target_type(y)

    def _labels(self, y: object) -> tuple[np.ndarray, np.ndarray | None, Interval]:
        """Counts (times sample weights) in units of the largest, or rates in units of y_max for methods that fit rates."""
        if not self._counting:
            return super()._labels(y)
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

    def _step(self) -> float:
        return 1.0 if self._counting else super()._step()

    def _level(self, constant: Margin) -> Margin:
        return constant + float(np.log(self._unit)) if self._counting else super()._level(constant)

    def _before_rows(self, n: int, d: int | None) -> Declaration:
        self._check_exposure(self.max_exposure is not None)
        if self._counting:
            self.__dict__["_given"] = None if self.max_exposure is None else np.zeros(0)
            self.__dict__["_weighed"] = None if self.max_weight is None else np.zeros(0)
        return super()._before_rows(n, d)

    def _check_exposure(self, given: bool) -> None:
        if not self._counting:
            if given or self.max_exposure is not None:
                raise ValueError("Expected exposures only for counts, found some for another target. Leave them out.")
            return
        if not self.fit_intercept:
            raise ValueError("Expected fit_intercept=True for counts, found False. The intercept carries the mean rate.")
        limit = self.max_exposure
        if given != (limit is not None) or (limit is not None and not (limit > 0 and np.isfinite(limit))):
            raise ValueError(
                f"Expected max_exposure= > 0 together with exposure= or offset= in fit, found max_exposure={limit!r}. Declare "
                "the largest exposure a row may have; it must not be computed from the data."
            )

    def _declared_limit(self) -> float:
        declared = self.y_bounds
        schema = self._declared_schema()
        if declared is None and schema is not None and schema.target is not None:
            declared = (schema.target.low or 0.0, schema.target.high)
        if is_number(declared):
            declared = (0.0, declared)
        try:
            low, high = plain_pair(declared, "y_bounds")
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Expected y_bounds=(0, y_max) for counts, found {shown(declared)}. Pass the largest count a row may have; it "
                "must not be computed from the data."
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

    def _extra_record(self) -> Extra:
        if not self._counting:
            other: Extra = super()._extra_record()
            return other
        return {"y_high": self._y_high, "unit": self._unit, "counted": self._counted, "max_exposure": self.max_exposure}

    def _restore(self, extra: Extra) -> None:
        """A model of version 0.1 states y_high alone: it is one of rates, in units of y_max."""
        if not self._counting:
            super()._restore(extra)
            return
        self._y_high = float(extra["y_high"])
        self._unit = float(extra.get("unit", self._y_high))
        self._counted = bool(extra.get("counted", False))
        self.max_exposure = extra.get("max_exposure")
        for value in (self._y_high, self._unit, 1.0 if self.max_exposure is None else float(self.max_exposure)):
            if not (np.isfinite(value) and value > 0):
                raise ValueError("a largest count or exposure that is no positive number")

    def _counts(self, scores: np.ndarray, exposure: object) -> np.ndarray:
        """The counts of scores ⟨encoded x, w⟩."""
        time = np.ones(len(scores)) if exposure is None else numbers(beside(exposure))
        if time.shape not in ((), scores.shape) or not np.all(np.isfinite(time) & (time >= 0)):
            raise ValueError(
                "Expected one exposure ≥ 0 per row or one for all, found another number of them, or a negative, missing or "
                "infinite one. Correct exposure=."
            )
        if not self._counted:
            return np.asarray(self._unit * np.exp(np.clip(scores, LOWEST, 0.0)) * time)
        longest = 1.0 if self.max_exposure is None else float(self.max_exposure)
        rates = self._unit * np.exp(np.clip(scores, LOWEST - np.log(max(longest, 1.0)), 700.0))
        with np.errstate(over="ignore"):
            return np.asarray(np.minimum(rates * time, self._y_high * np.maximum(1.0, time / longest)))

    def score(self, X: object, y: object = None, sample_weight: object = None, *, exposure: object = None) -> float:
        """D² of the Poisson deviance on public rows, for counts seen during the given exposures (1 if left out)."""
        if not self._counting:
            if exposure is not None:
                raise ValueError("Expected exposures only for counts, found some for another target. Leave them out.")
            return float(super().score(X, y, sample_weight))
        truth, weight = self._truth(X, y, sample_weight)
        return float(d2_tweedie_score(truth, self.predict(X, exposure), sample_weight=weight, power=1))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self._counting
        return tags


@dataclass(frozen=True, eq=False)
class CountRule(RowRule):
    """Labels and weights of counts that have exposures or sample weights, for executors: as `fit` makes them in memory."""

    estimator: CountTarget
    logs: bool

    def __call__(self, y: object, exposure: Vector | None, weight: Vector | None) -> tuple[np.ndarray, Vector | None]:
        rule = copy.copy(self.estimator)
        rule.__dict__["_given"] = None if exposure is None else rule._exposures(exposure, self.logs)
        rule.__dict__["_weighed"] = weight
        labels, known, _ = rule._labels(y)
        return labels, rule._weights(known, weight, len(labels))[0]
