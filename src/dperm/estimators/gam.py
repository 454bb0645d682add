"""Private additive models: a curve for every numeric column, nothing to tune."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dperm.estimators.classifier import PrivateClassifier
from dperm.estimators.counts import LOWEST, CountTarget
from dperm.estimators.linear import PrivateRegressor
from dperm.estimators.shapes import Shapes
from dperm.mechanisms.scaled.additive import Additive
from dperm.mechanisms.scaled.additive_poisson import AdditivePoisson
from dperm.problem import Loss, PoissonLoss, SquaredLoss


@dataclass(eq=False, repr=False, kw_only=True)
class GAMClassifier(Shapes, PrivateClassifier):
    """sign(Σ_j f_j(x_j)) with a curve f_j per numeric column, released with (ε, δ)-differential privacy; K classes by softmax.

    Nothing to tune: the smoothness of the curves follows from released histograms of the columns and from the noise that the
    descent is predicted to add. Where curves cannot be learnt the model is the line, and `curves_` says so. One-hot, boolean and
    sparse columns are linear. Missing cells have their own place in a column's shape.

    `shapes_` holds the curves, `plot()` draws them, `explain(X)` splits margins into what each column adds. With more than two
    classes a column has a curve per class: `shapes_[name].value` has a row for each.

    **Guarantee**: that of `certificate_`, for rows clipped into the declared bounds.

    Parameters
    ----------
    loss : {"logistic", "hinge"}, default "logistic"
        "logistic": margins are log-odds, for probabilities. "hinge": made for accuracy, as `LinearSVC`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 2))
    >>> y = (np.abs(X[:, 0]) > 0.5).astype(int)
    >>> GAMClassifier(epsilon=3, bounds=(-1, 1), classes=[0, 1], random_state=0).fit(X, y).score(X, y) > 0.85
    True
    """

    asked_for: ClassVar[str] = "probabilities"

    loss: str = "logistic"

    def _options(self) -> dict[str, Any]:
        binary = len(self.classes_) == 2
        return {"aim": "probabilities", "start": "rate"} if self.loss == "logistic" and binary else {}

    def _class_names(self) -> tuple[str, ...]:
        return () if len(self.classes_) == 2 else tuple(str(label) for label in self.classes_.tolist())

    def _loss(self) -> Loss:
        if self.loss not in ("logistic", "hinge"):
            raise ValueError(f"Expected loss='logistic' or 'hinge', found {self.loss!r}. Pass one of them.")
        return super()._loss()

    def predict_proba(self, X: object) -> np.ndarray:
        """Probabilities of the classes, in the order of `classes_`; for loss="logistic"."""
        if self.loss != "logistic":
            raise ValueError(
                "Expected loss='logistic' for probabilities, found 'hinge', whose scores are not log-odds. "
                "Fit with loss='logistic'."
            )
        return self._probabilities(X)

    def predict_log_proba(self, X: object) -> np.ndarray:
        return np.asarray(np.log(np.maximum(self.predict_proba(X), 1e-300)))


@dataclass(eq=False, repr=False, kw_only=True)
class GAMRegressor(Shapes, CountTarget, PrivateRegressor):
    """Σ_j f_j(x_j) with a curve f_j per numeric column, released with (ε, δ)-differential privacy.

    Nothing to tune: see `GAMClassifier`. `shapes_`, `plot()` and `explain(X)` are in units of the target; for counts, in those of
    the logarithm of the expected count.

    With loss="poisson" `fit(X, y, exposure=e)` models E[y] = e·exp(Σ_j f_j(x_j)) as `PoissonRegressor` does for lines: a part of
    the budget balances the total, `predict(X, exposure)` gives expected counts, and `score` is D².

    **Guarantee**: that of `certificate_`, for rows clipped into the declared bounds.

    Parameters
    ----------
    loss : {"squared", "huber", "poisson"}, default "squared"
        With "huber" large residuals count linearly; "poisson" is for counts.
    threshold : float or None, default None
        Of "huber", in units of the target. None takes a tenth of the declared range of the target.
    y_bounds : pair of floats
        The range that the target can have; for counts (0, y_max), or the number y_max.
    max_exposure : float or None, default None
        Of "poisson": the largest exposure that a row may have. Needed with exposure= or offset= in `fit`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 2))
    >>> y = X[:, 0] ** 2 + X[:, 1]
    >>> GAMRegressor(epsilon=3, bounds=(-1, 1), y_bounds=(-1, 2), random_state=0).fit(X, y).score(X, y) > 0.95
    True
    """

    loss: str = "squared"
    threshold: float | None = None

    @property
    def _counting(self) -> bool:
        return self.loss == "poisson"

    def _mechanism(self) -> type[Additive] | type[AdditivePoisson]:
        return AdditivePoisson if self._counting else Additive

    def _loss(self) -> Loss:
        if self.loss not in ("squared", "huber", "poisson"):
            raise ValueError(f"Expected loss='squared', 'huber' or 'poisson', found {self.loss!r}. Pass one of them.")
        if self._counting:
            return PoissonLoss(LOWEST, 0.0)
        return SquaredLoss() if self.loss == "squared" else self._huber(self.threshold)

    def predict(  # type: ignore[override]  # exposures come second, as in PoissonRegressor
        self, X: object, exposure: object = None, interval: float | None = None
    ) -> Any:
        """Predictions, cut to the declared range of the target; of counts, for the given exposures (1 if left out)."""
        if self._counting and interval is None:
            return self._counts(self._scores(X), exposure)
        if exposure is not None:
            raise ValueError("Expected exposures only for counts, found some for another target. Leave them out.")
        return PrivateRegressor.predict(self, X, interval)
