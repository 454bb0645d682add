"""Private quantile regression."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn.metrics import d2_pinball_score

from dperm.estimators.linear import PrivateRegressor
from dperm.problem import Loss, QuantileLoss
from dperm.release.plan import Mechanism


@dataclass(eq=False, repr=False, kw_only=True)
class QuantileRegressor(PrivateRegressor):
    """argmin_w Σ ρ_q(y - ⟨x, w⟩) + r(w), ρ_q(t) = max(q·t, (q - 1)·t), released with (ε, δ)-differential privacy.

    The default method descends on a smoothed loss with weighted rows after private scaling; `method="gradient"` takes
    subgradients of the loss itself. `score` is D² of the pinball loss: 1 is perfect, 0 is the best constant.

    **Guarantee**: that of `certificate_`, for rows clipped into the declared bounds.

    Parameters
    ----------
    quantile : float, default 0.5
        q in (0, 1); 0.5 is the conditional median.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 1, (4000, 1))
    >>> y = X[:, 0] + rng.uniform(0, 1, 4000)
    >>> model = QuantileRegressor(epsilon=2, quantile=0.9, bounds=(0, 1), y_bounds=(0, 2), random_state=0).fit(X, y)
    >>> bool(abs(np.mean(y <= model.predict(X)) - 0.9) < 0.05)
    True
    """

    quantile: float = 0.5

    def _loss(self) -> Loss:
        if not (isinstance(self.quantile, int | float) and 0 < self.quantile < 1):
            raise ValueError(f"Expected 0 < quantile < 1, found {self.quantile!r}. Pass e.g. quantile=0.9.")
        return QuantileLoss(float(self.quantile))

    def _method(self) -> Mechanism | str:
        pure = self.delta is not None and self.delta == 0
        penalised = self._regularizer().name != "none"
        auto = isinstance(self.method, str) and self.method == "auto"
        return "scaled-quantile" if auto and not pure and not penalised else super()._method()

    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """D² of the pinball loss at this quantile, on public rows."""
        truth, weight = self._truth(X, y, sample_weight)
        return float(d2_pinball_score(truth, self.predict(X), sample_weight=weight, alpha=self.quantile))
