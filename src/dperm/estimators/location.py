"""Mean, median and quantiles of declared columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
from sklearn.utils import Tags

from dperm.estimators.alone import one_at_a_time
from dperm.estimators.declaration import Declaration, declared_unit, target_of
from dperm.estimators.declared import check_declared, check_lists
from dperm.estimators.matrix import read_matrix, width_of
from dperm.estimators.showing import Shown
from dperm.mechanisms.exponential.quantile import QuantileExponential
from dperm.mechanisms.mean import Mean
from dperm.problem import DataBounds, Interval, Loss, Problem, QuantileLoss, SquaredLoss
from dperm.problem.arrays import offers
from dperm.problem.plain import is_number, shown
from dperm.release.plan import Mechanism, Shape
from dperm.rows.base import Rows
from dperm.rows.memory import MemoryRows
from dperm.rows.spark import SparkRows
from dperm.rows.spark_made import SparkTable
from dperm.tables.containers import beside, column, is_list
from dperm.tables.declared import declared_bounds
from dperm.tables.encoding import LEAST, MOST
from dperm.tables.persons import person_column, person_weights
from dperm.tables.tables import is_table

NO_LABELS = Interval(0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Middled:
    """Rows as they are, but for missing and infinite values, which stand at the middle of their column's bounds."""

    low: np.ndarray
    high: np.ndarray
    mostly_zero: ClassVar[bool] = False

    @property
    def d(self) -> int:
        return len(self.low)

    def transform(self, X: np.ndarray) -> np.ndarray:
        return np.where(np.isfinite(X), X, (self.low / 2 + self.high / 2).astype(X.dtype))

    def packed(self, X: np.ndarray) -> np.ndarray:
        return X


@dataclass(eq=False, repr=False, kw_only=True)
class _Location(Shown):
    """Reads declarations, runs the walk, keeps the answer as `location_`.

    Parameters
    ----------
    bounds : pair, sequence of pairs or dict
        (low, high) for all columns, a pair for each, or a dict by name. Values are clipped into them.
    """

    bounds: object = None

    def _before_rows(self, n: int, d: int | None) -> Declaration:
        return self._declaration(n, d or 1, self.max_rows_per_person or 1, declared_unit(self) == "person")

    def _declaration(self, n: int, d: int, per_person: int, grouped: bool) -> Declaration:
        problem = Problem(self._loss(), data=self._data(d))
        target = target_of(self, n, per_person, "person" if grouped else "row")
        return Declaration(self, problem, Shape(n, d), target, self._mechanism(grouped))

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _mechanism(self, grouped: bool) -> Mechanism:
        """`grouped`: persons are named, so the number of counted rows is not public."""
        raise NotImplementedError

    @one_at_a_time
    def fit(self, X: object, y: object = None, groups: object = None) -> Self:
        """Release it; afterwards `location_` (a number for one-dimensional data, else one per column) and `certificate_`."""
        check_declared(self)
        table = SparkTable.of(X, self.groups if groups is None else groups, self.max_rows_per_person)
        if table is not None:
            return self._fit_on_spark(table, X)
        seen = X
        X, groups = person_column(X, self.groups if groups is None else groups)
        if self._in_a_list(X):
            X = beside(X)
        elif not (is_table(X) or is_list(X) or offers(X, "tocsr") or offers(X, "bounded")):
            X = column(X)  # the reader takes or refuses the others
        flat = getattr(X, "ndim", 2) == 1
        if not flat:  # an empty list is one of numbers
            check_lists(self, seen)
        X = self._filled(np.asarray(read_matrix(self, column(X).reshape(-1, 1) if flat else X)))
        weight, per_person = person_weights(groups, self.max_rows_per_person, None, len(X))
        self._run(MemoryRows(X, np.zeros(len(X)), weight), per_person, groups is not None, seen)
        self.location_ = float(self.release_.w[0]) if flat else self.release_.w
        return self

    def _in_a_list(self, X: object) -> bool:
        """Whether X is a list of the numbers of one column: by what is declared, because one entry must not decide it."""
        width = width_of(self, reset=True)
        return is_list(X) and (width == 1 or (width is None and self.bounds is not None))

    def _fit_on_spark(self, table: SparkTable, source: object) -> Self:
        """The same on a Spark table, all of whose columns are numbers but those that name the person and the labels."""
        frame = table.frame if table.target is None else table.frame.drop(table.target)
        rows = SparkRows(frame, person=table.person, max_rows_per_person=table.max_rows_per_person)
        self.feature_names_in_, self.n_features_in_ = np.array(rows.names, dtype=object), rows.d
        rows = rows.encoded(Middled(*self._sides(rows.d)))
        self._run(rows, table.per_person, table.person is not None, source if isinstance(source, SparkRows) else rows)
        self.location_ = self.release_.w
        return self

    def _run(self, rows: Rows, per_person: int, grouped: bool, seen: object) -> None:
        n = self.nominal_n if self.nominal_n is not None else rows.n
        self._declaration(n, rows.d, per_person, grouped).run(rows, seen)

    def _filled(self, X: np.ndarray) -> np.ndarray:
        """Missing and infinite values at the middle of their column's bounds; at 0 where only x_norm is declared."""
        return X if self.bounds is None else Middled(*self._sides(X.shape[1])).transform(X)

    def _sides(self, d: int) -> tuple[np.ndarray, np.ndarray]:
        if self.bounds is None:
            return np.full(d, np.nan), np.full(d, np.nan)
        return declared_bounds(self.bounds, d, getattr(self, "feature_names_in_", None))

    def _data(self, d: int) -> DataBounds:
        x_norm: float | None = getattr(self, "x_norm", None)
        if self.bounds is None and x_norm is None:
            raise ValueError(
                "Expected bounds=(low, high), found none. Pass the range that values can have; it must not be computed from "
                "the data."
            )
        if self.bounds is None:
            return DataBounds(float(x_norm or 0.0), NO_LABELS)
        if x_norm is not None:
            raise ValueError("Expected bounds= or x_norm=, found both. Pass the one that describes the data better.")
        low, high = self._sides(d)
        if not (low < high).all():
            raise ValueError(f"Expected bounds with low < high, found {self.bounds!r}. Correct bounds=.")
        with np.errstate(over="ignore"):
            kept = (high - low > LEAST) & (high - low < MOST)
        if not kept.all():
            raise ValueError(
                f"Expected bounds between {LEAST:g} and {MOST:g} apart, found others: floats cannot keep what lies between. "
                "Declare the values in another unit."
            )
        return DataBounds.box(low.tolist(), high.tolist(), NO_LABELS)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class MeanEstimator(_Location):
    """Mean of one or several columns: argmin_w Σ ½‖x_i - w‖², released with (ε, δ)- or ε-differential privacy.

    bounds     (low, high) for all columns, a pair each, or a dict by name: values are clipped, noise has each column's own scale

    A missing or infinite value counts as the middle of its column's bounds (as 0 with x_norm), because no centre is released
    before. Under add-remove, or with `groups=`, the number of rows is released together with the sum.

    Parameters
    ----------
    x_norm : float or None, default None
        Instead of bounds: the largest Euclidean norm of a row.
    delta : float or None, default None
        None means min(1e-6, 0.1/n); 0 is pure. The smaller of Gaussian and exponential-norm noise is taken.

    Examples
    --------
    >>> round(MeanEstimator(1.0, bounds=(0, 10), random_state=0).fit(np.full(1000, 4.0)).location_, 1)
    4.0
    """

    x_norm: float | None = None

    def _loss(self) -> Loss:
        return SquaredLoss()

    def _mechanism(self, grouped: bool) -> Mechanism:
        counted = self.relation == "add-remove" or grouped
        # The exact sampler draws Gaussian noise only.
        kind = "gaussian" if self.noise == "exact" and self.delta != 0 else "auto"
        return Mean(kind, "released" if counted else "public")


@dataclass(eq=False, repr=False, kw_only=True)
class MedianEstimator(_Location):
    """Median (or another quantile) of one or several columns, released with ε-differential privacy by the exponential mechanism.

    bounds     (low, high) for all columns, a pair per column, or a dict by name; the answer lies inside

    d columns take ε/d each. `delta` is not used: the release is pure. A missing or infinite value counts as the middle of its
    column's bounds.

    Parameters
    ----------
    quantile : float, default 0.5
        Level in (0, 1); 0.5 is the median.
    cells : int, default 65536
        Cells of the public grid over the bounds. The answer is uniform inside its cell.
    delta : float or None, default 0.0
        Not used: the release is pure.

    Examples
    --------
    >>> round(MedianEstimator(1.0, bounds=(0, 100), random_state=0).fit(np.arange(1001) / 20).location_)
    25
    """

    quantile: float = 0.5
    cells: int = 65536
    delta: float | None = field(default=0.0, kw_only=False)  # second, as in every other estimator

    def _loss(self) -> Loss:
        if not (is_number(self.quantile) and 0 < self.quantile < 1):
            raise ValueError(f"Expected 0 < quantile < 1, found {shown(self.quantile)}. Pass e.g. quantile=0.9.")
        return QuantileLoss(self.quantile)

    def _mechanism(self, grouped: bool) -> Mechanism:
        return QuantileExponential(self.cells)
