"""Intervals of an estimator: which method pays for them, and the tables, tests and regions that follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dperm.estimators.coefficient_plot import draw_coefficients
from dperm.estimators.showing import coefficient_summary
from dperm.inference.information import release_information
from dperm.inference.intervals import scaled_inference, summary
from dperm.inference.summary import JointTest, Region, Summary
from dperm.inference.table import Estimates
from dperm.mechanisms.scaled.inference import ScaledInference
from dperm.pages.subject import subject_of
from dperm.pages.whiskers import whiskers
from dperm.rows.base import BLOCK_ROWS
from dperm.tables.tables import in_memory_only

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dperm.release.ledger.book import LedgerPlace
    from dperm.release.plan import Mechanism


class Inferred(BaseEstimator):
    """What `intervals=True` means, for estimators that have it and for those that say why they have not."""

    has_intervals: ClassVar[bool] = False  # whether intervals=True is an option
    _persons_in_order: ClassVar[bool] = False  # whether the rows of a fit with intervals stand in the order of persons
    older_intervals: ClassVar[str] = ""  # another method of this model that intervals may rest on, asked for by name
    method: Mechanism | str

    def _asked_method(self) -> Mechanism | str:
        """`_method`, or the method of `intervals=True` where that is asked for."""
        return self._with_intervals() if self.has_intervals and getattr(self, "intervals", False) else self._method()

    def _inference(self) -> ScaledInference:
        """The method of `intervals=True`."""
        return scaled_inference(self)

    def _with_intervals(self) -> Mechanism | str:
        """The method that `intervals=True` takes: its own, or an older one that was asked for by name."""
        found, schema = getattr(self.method, "name", self.method), self._declared_schema()
        if schema is not None and any(column.shape == "smooth" for column in schema.columns):
            raise ValueError(
                'Expected no "shape": "smooth" with intervals=True, found one: a number and the hat functions beside it share '
                'one effect, and neither has an error of its own. Declare "steps" or "linear", or leave intervals= out.'
            )
        if found in ("auto", ScaledInference.name):
            return self._inference() if isinstance(self.method, str) else self.method
        if found == self.older_intervals:
            return self.method
        older = f" or {self.older_intervals!r}" if self.older_intervals else ""
        raise ValueError(
            f"Expected method='auto'{older} with intervals=True, found {found!r}, whose error has no closed form here. Leave "
            "method= out."
        )

    def _sum_persons(self, per_person: int) -> None:
        """Whether intervals of persons are to rest on their summed scores: rows in memory then stand in the order of persons."""
        asked = getattr(self, "intervals", False) and self.method in ("auto", ScaledInference.name)
        self.__dict__["_persons_in_order"] = bool(asked) and 1 < per_person <= BLOCK_ROWS

    def confidence_interval(self, level: float = 0.95) -> np.ndarray:
        """(low, high) per coefficient, the intercept last, for fits with `intervals=True`; see `dperm.inference.intervals`."""
        return np.asarray(summary(self, level).interval)

    def summary(self, level: float = 0.95, *, exponentiate: bool = False) -> Summary | Estimates:
        """A table of the coefficients, in the units of `coef_`; where the fit has intervals, with standard errors (of sampling,
        of privacy, of both), z, p and the interval.

        `exponentiate=True` shows odds ratios (logistic) or rate ratios (Poisson).

        For other fits its note says why there are none.
        """
        check_is_fitted(self, "certificate_")
        return coefficient_summary(self, level, exponentiate=exponentiate)

    def joint_test(self, names: Sequence[str] | str) -> JointTest:
        """Wald's test that all named coefficients are 0; the name of a column with levels stands for all of its contrasts."""
        return summary(self).joint_test(names)

    def confidence_region(self, names: Sequence[str] | None = None, level: float = 0.95) -> Region:
        """The joint region of several coefficients (all if none is named): centre, matrix and radius of an ellipsoid.

        For columns that the data can hardly tell apart it says more than one interval each; see `Region`.
        """
        return summary(self, level).region(names)

    def plot(self, columns: str | Sequence[str] | None = None) -> Figure:
        """A matplotlib figure of the coefficients with their 95 % intervals, for fits with `intervals=True`.

        Each is multiplied by the released deviation of its column (by the whole declared range where none was released), so that
        columns in different units can be compared; a flag or a level counts as it is. `model.plot().savefig("effects.png")`
        keeps it as a file.

        Parameters
        ----------
        columns : str, list of str or None, default None
            Names of coefficients as the summary has them; all but the intercept if left out.
        """
        table, subject = summary(self), subject_of(self)
        return draw_coefficients(whiskers(subject, table), columns, subject.outcome, table.level)

    def release_information(
        self,
        X: object,
        y: object = None,
        *,
        epsilon: float,
        delta: float | None = None,
        ledger: LedgerPlace = None,
        random_state: object = None,
        groups: object = None,
    ) -> Self:
        """Pay for the curvature matrix that intervals of a fit by `objective` need; see `dperm.inference.information`.

        `certificate_` goes on to speak of the fit alone; `total_epsilon_` is what fit and matrix cost together if this
        second budget was fixed before the fit was seen. A ledger states the total otherwise.
        """
        check_is_fitted(self, "certificate_")
        in_memory_only(X)
        self.information_ = release_information(
            self, X, y, epsilon=epsilon, delta=delta, ledger=ledger, random_state=random_state, groups=groups
        )
        return self

    @property
    def total_epsilon_(self) -> float:
        """ε of all that this model released about its rows: the certificate's, or more after `release_information`.

        The sum is by exact composition, for budgets fixed in advance; a ledger covers those chosen after seeing a release.
        """
        check_is_fitted(self, "certificate_")
        paid = getattr(self, "information_", None)
        return float(self.certificate_.epsilon if paid is None else paid.total_epsilon)
