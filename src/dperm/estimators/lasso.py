"""Private sparse least squares."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array

from dperm.estimators.base import NO_REGULARIZER
from dperm.estimators.declaration import declared_unit, target_of
from dperm.estimators.linear import PrivateRegressor
from dperm.mechanisms.gradient import Gradient
from dperm.mechanisms.scaled.selection import Selection
from dperm.mechanisms.schedule import MOMENTUM, schedule
from dperm.privacy import gaussian_mu, kappa
from dperm.problem import DataBounds, Interval, Loss, NoRegularizer, Problem, Regularizer, SquaredLoss
from dperm.problem import Lasso as LassoPenalty
from dperm.problem.plain import is_number, plain_float
from dperm.release.plan import Mechanism, Shape

PROXIMAL = Gradient(momentum=MOMENTUM, output="last")  # an average of sparse iterates would not be sparse


@dataclass(eq=False, repr=False, kw_only=True)
class Lasso(PrivateRegressor):
    """Least squares with few coefficients that are not zero, released with (ε, δ)-differential privacy.

    **Guarantee**: that of `certificate_`, for rows clipped into the declared bounds; see `docs/theorems/selection.md`.

    Parameters
    ----------
    n_nonzero_coefs : int, default 10
        How many encoded columns are kept; public. The default method chooses three times as many candidates with the
        one-shot Gumbel mechanism, regresses on them with the other half of the budget, and keeps the largest
        (`method="selection"`). It is stable where columns are correlated, which plain noisy selection is not.
    regularization : "auto" or float, default "auto"
        With `method="gradient"` only: λ of λ‖w‖₁ on the sum scale, by proximal noisy descent, whose last iterate is sparse.
        "auto" is the noise that a step carries, times √(2·log d).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (4000, 50))
    >>> y = 2 * X[:, 3] - X[:, 7] + rng.normal(size=4000)
    >>> model = Lasso(epsilon=2, bounds=(-1, 1), y_bounds=(-6, 6), n_nonzero_coefs=2, random_state=0).fit(X, y)
    >>> np.flatnonzero(model.coef_).tolist()
    [3, 7]
    """

    has_intervals: ClassVar[bool] = False

    n_nonzero_coefs: int = 10

    def _loss(self) -> Loss:
        return SquaredLoss()

    def _method(self) -> Mechanism | str:
        if self.intervals:
            raise ValueError(
                "Expected intervals=False for Lasso, found True: which columns were kept depends on the data, and an interval "
                "that ignores it is too short. Use LinearRegression(intervals=True) on columns chosen beforehand."
            )
        if not isinstance(self.method, str):
            return self.method
        if self.method in ("auto", "selection"):
            if self.delta is not None and self.delta == 0:
                raise ValueError(
                    "Expected delta > 0 for a private selection of columns, found 0: no pure mechanism selects. Leave delta= "
                    "out, or use `LinearRegression(delta=0, regularization=dperm.problem.ElasticNet(ridge, lasso))`, whose "
                    "noise covers every column."
                )
            return Selection(tuple(self._encoding.kinds), int(self.n_nonzero_coefs))
        if self.n_nonzero_coefs != next(f.default for f in fields(Lasso) if f.name == "n_nonzero_coefs"):
            raise ValueError("Expected n_nonzero_coefs= only with method='selection', found it elsewhere. Use regularization=.")
        return PROXIMAL if self.method == "gradient" else self.method

    def _regularizer(self) -> Regularizer:
        named = self.method if isinstance(self.method, str) else self.method.name
        if named in ("auto", "selection"):
            if isinstance(self.regularization, str) and self.regularization != "auto":
                raise ValueError(NO_REGULARIZER.format(found=repr(self.regularization)))
            if not isinstance(self.regularization, str):
                raise ValueError(
                    "Expected regularization= only with method='gradient', found it with selection. Set n_nonzero_coefs=."
                )
            return NoRegularizer()
        if isinstance(self.regularization, str) and self.regularization == "auto":
            return LassoPenalty(self._default_strength())
        if is_number(self.regularization):
            return LassoPenalty(plain_float(self.regularization, "regularization"))
        return super()._regularizer()

    def _default_strength(self) -> float:
        """σ√(2·log d) with σ the noise that one coordinate of a step carries: noise alone rarely makes a zero move."""
        n, per_person = self._size
        target = target_of(self, n, per_person, declared_unit(self))
        if target.delta == 0:
            return 1.0  # refused by the mechanism, whose noise is Gaussian
        unit = gaussian_mu(target.epsilon, target.delta) / (kappa(target.relation) * per_person)
        data = DataBounds(self._encoding.norm, Interval(-1.0, 1.0), 1.0 if self.fit_intercept else 0.0)
        plain = Problem(SquaredLoss(), data=data)
        settings = schedule(PROXIMAL, plain, Shape(n, self._encoding.d), unit)
        # Momentum m averages the noise of a step down by √((1 - m)/(1 + m)) against the proximal step it is compared with.
        noise = settings.clip * np.sqrt(settings.steps) / unit * np.sqrt((1 - MOMENTUM) / (1 + MOMENTUM))
        return float(noise * np.sqrt(2 * np.log(max(self._encoding.d, 2))))

    @property
    def sparse_coef_(self) -> csr_array:
        """`coef_` as a sparse row."""
        return csr_array(np.atleast_2d(self.coef_))
