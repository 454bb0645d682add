"""Private regression that large residuals do not dominate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from dperm.estimators.alone import one_at_a_time
from dperm.estimators.linear import PrivateRegressor
from dperm.mechanisms.scaled.inference import ScaledInference
from dperm.problem import Loss
from dperm.words.notices import BUDGET, speak

OTHER_EPSILON = 1.35  # scikit-learn's default for another number of the same name

ROBUST = 2.0  # residual scales at which errors start to count linearly, where intervals are asked for without a threshold


@dataclass(eq=False, repr=False, kw_only=True)
class HuberRegressor(PrivateRegressor):
    """argmin_w Σ h(⟨x, w⟩ - y) + r(w) with h(t) = t²/2 up to a threshold and linear beyond it.

    **Guarantee**: that of `certificate_`, for rows clipped into the declared bounds.

    Parameters
    ----------
    threshold : float or None, default None
        Residual, in units of the target, beyond which the loss is linear. None takes a tenth of the declared range of the
        target, and with `intervals=True` twice the private 75 % quantile of the residuals where that is less.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 500).reshape(-1, 1)
    >>> model = HuberRegressor(epsilon=5, bounds=(0, 1), y_bounds=(0, 4), random_state=0).fit(X, 3 * X[:, 0] + 1)
    >>> bool(abs(model.coef_[0] - 3) < 0.7)
    True
    """

    threshold: float | None = None

    @one_at_a_time
    def fit(self, X: object, y: object = None, sample_weight: object = None, *, groups: object = None) -> Self:
        """As every fit; scikit-learn's `epsilon`, where residuals begin to count linearly, is `threshold` here."""
        if self.epsilon == OTHER_EPSILON and self.threshold is None:
            speak([f"{BUDGET}: epsilon={OTHER_EPSILON} is taken as the privacy budget here. Where scikit-learn's HuberRegressor "
                   "says epsilon, pass threshold=, in units of the target."])  # fmt: skip
        return super().fit(X, y, sample_weight, groups=groups)

    def _inference(self) -> ScaledInference:
        chosen = super()._inference()
        return replace(chosen, clip_factor=ROBUST) if self.threshold is None else chosen

    def _loss(self) -> Loss:
        return self._huber(self.threshold)
