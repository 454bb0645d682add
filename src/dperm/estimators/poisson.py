"""Private Poisson regression, with exposures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, overload

import numpy as np

from dperm.choose.table import automatic
from dperm.estimators.counts import LOWEST, CountTarget
from dperm.inference.intervals import score_interval
from dperm.mechanisms.scaled.inference import ScaledInference
from dperm.mechanisms.scaled.poisson import ScaledPoisson
from dperm.problem import Interval, Loss, PoissonLoss
from dperm.release.plan import Mechanism, Shape, Target


@dataclass(eq=False, repr=False, kw_only=True)
class PoissonRegressor(CountTarget):
    """argmin_w Σ exposure·exp(⟨x, w⟩) - y⟨x, w⟩: counts with a log link, released with (ε, δ)-differential privacy.

    `fit(X, y, exposure=e)` models E[y] = e·exp(⟨x, w⟩); `offset=` is log e. Sample weights multiply a row's likelihood. Part of
    the budget balances the total: Σ predicted = Σ observed up to noise. `score` is D², the share of the Poisson deviance that the
    model explains.

    `intervals=True` and methods other than the default ("gradient", "objective", …) fit the rate y/e with weight e: they cut the
    rate at y_max, not the count, and balance nothing.

    **Guarantee**: that of `certificate_`, for rows clipped into the declared bounds.

    Parameters
    ----------
    intervals : bool, default False
        Pay, out of the same epsilon, for standard errors: `summary()`, `confidence_interval()` and `predict(X,
        interval=0.95)`. Sample weights are importance weights there. `coef_` is then the summary's estimate drawn towards 0 by
        its privacy noise, which predicts better.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 1, (5000, 1))
    >>> y = rng.poisson(np.exp(1 + 2 * X[:, 0]))
    >>> model = PoissonRegressor(epsilon=2, bounds=(0, 1), y_bounds=(0, 60), random_state=0).fit(X, y)
    >>> bool(abs(model.coef_[0] - 2) < 0.3)
    True
    """

    has_intervals: ClassVar[bool] = True

    intervals: bool = False

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
            return replace(chosen, importance=True)
        return chosen

    def _loss(self) -> Loss:
        return PoissonLoss(LOWEST, 0.0)

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
