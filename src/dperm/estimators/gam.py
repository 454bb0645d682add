"""Private additive models: a curve for every numeric column, nothing to tune."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn.isotonic import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from dperm.estimators.base import PrivateEstimator
from dperm.estimators.classifier import PrivateClassifier
from dperm.estimators.linear import PrivateRegressor
from dperm.estimators.saving import Extra
from dperm.estimators.shape_plot import Shape, draw_shapes
from dperm.mechanisms.registry import mechanism_of_plan
from dperm.mechanisms.scaled.additive import MOST_COLUMNS, Additive
from dperm.mechanisms.scaled.smoothness import shape_values
from dperm.problem import HuberLoss, LogisticLoss, Loss, SquaredLoss
from dperm.problem.arrays import is_sparse
from dperm.release.plan import MECHANISMS
from dperm.rows.base import Block
from dperm.rows.gaps import Filling
from dperm.tables.encoding import Encoding
from dperm.tables.schema import Schema
from dperm.terms.additive import CELLS, PLACES, cell_numbers
from dperm.walk.fitting import Release

if TYPE_CHECKING:
    from dperm.release.plan import Mechanism


class Shapes(PrivateEstimator):
    """What additive models share: the mechanism, shapes, explanations, predictions by table look-up."""

    per_column: ClassVar[bool] = False
    has_intervals: ClassVar[bool] = False
    _edited: Any = None  # coefficients after edits, in the place of the released ones
    edits_: tuple[str, ...] = ()

    @property
    def _shown(self) -> np.ndarray:
        """The coefficients that predictions and shapes follow; `w_` stays what was released and certified."""
        return np.asarray(self.w_ if self._edited is None else self._edited)

    def edited(self, column: str, change: Callable[[np.ndarray, np.ndarray], Any]) -> Any:
        """A copy of the model whose shape of `column` is change(grid, value): as many numbers, in the units of `shapes_`.

        Post-processing of what was released: it costs nothing, and the copy keeps the certificate, which goes on speaking of the
        released coefficients `w_`. `edits_` says what was changed. The column's average stays in the intercept.

        Parameters
        ----------
        column : str
            A column with a shape.
        change : callable
            From the grid of the column and the value of its shape there to the new value. It must not look at private rows.
        """
        check_is_fitted(self, "certificate_")
        if column not in self.shapes_:
            raise ValueError(f"Expected a column with a shape, found {column!r}. Those are {', '.join(self.shapes_)}.")
        shape = self.shapes_[column]
        value = np.asarray(change(shape.grid.copy(), shape.value.copy()), dtype=np.float64)
        if value.shape != shape.value.shape or not np.isfinite(value).all():
            raise ValueError(f"Expected {len(shape.value)} finite numbers as the shape of {column!r}, found something else.")
        model, d, place = copy(self), self._encoding.d, list(self.shapes_).index(column)
        j, w = self._columns[place], self._shown.copy()
        table = w[d + 1 :].reshape(len(self._columns), PLACES)
        # The new shape is constant in each cell: its linear part goes into the table, or a slope would bend it within a cell.
        table[place, CELLS] += w[j] * self._centre[j]
        table[place, :CELLS] = value / self._unit() + self._means[place]
        w[j] = 0.0
        model._edited, model.edits_ = w, (*self.edits_, f"{column}: {getattr(change, '__name__', 'changed')}")
        model._in_callers_units()
        return model

    def monotone(self, column: str, *, increasing: bool = True) -> Any:
        """A copy of the model whose shape of `column` never falls (never rises with increasing=False).

        It is the nearest such shape in mean square under the released marginal of the column. See `edited`.

        Parameters
        ----------
        column : str
            A column with a shape.
        increasing : bool
            Whether the shape is to rise.
        """

        def monotone(grid: np.ndarray, value: np.ndarray) -> np.ndarray:
            share = self._shares[list(self.shapes_).index(column)][:CELLS]
            return np.asarray(isotonic_regression(value, sample_weight=share + 1e-9, increasing=increasing))

        monotone.__name__ = "never falls" if increasing else "never rises"
        return self.edited(column, monotone)

    def _curved(self) -> tuple[int, ...]:
        """Columns with a shape, by declaration alone: numeric ones, stored from the middle of their bounds."""
        encoding: Encoding = self._encoding
        straight = straight_features(self._declared_schema())
        numeric = (j for j, kind in enumerate(encoding.kinds) if kind in ("numeric", "private"))
        found = tuple(j for j in numeric if encoding.names[j] not in straight) if encoding.centred else ()
        return found if len(found) <= MOST_COLUMNS else ()

    def _options(self) -> dict[str, Any]:
        """Options of the descent beyond its defaults."""
        return {}

    def _method(self) -> Mechanism | str:
        if getattr(self, "intervals", False):
            raise ValueError(
                "Expected intervals=False for an additive model, found True: no theorem covers the errors of its shapes. Use a "
                "linear model with intervals=True."
            )
        if isinstance(self.method, Additive):
            return self.method
        if isinstance(self.method, str) and self.method in ("auto", "additive"):
            return Additive(kinds=self._encoding.kinds, curved=self._curved(), **self._options())
        known = "another method" if self.method in MECHANISMS else repr(self.method)
        raise ValueError(f"Expected method='auto' or 'additive' for an additive model, found {known}. Leave method= out.")

    def _store(self, release: Release) -> None:
        self.w_ = release.w
        record = release.certificate.record
        mechanism = mechanism_of_plan(release.plan, Additive)
        self._columns, found = mechanism.curved, mechanism.columns(release.plan, release.released)
        self._shares = np.array([column.places for column in found])
        self._centre = np.asarray(record["decided"]["shift"], dtype=np.float64)
        self.curves_ = str(record["decided"]["shapes"])
        self._in_callers_units()

    def _in_callers_units(self) -> None:
        """`shapes_` and `intercept_` from the coefficients, the released marginals and the encoding."""
        values = shape_values(self._shown, self._encoding.d, self._columns, self._centre, self._shares)
        self._values, self._means = values
        constant = float(self._shown[self._encoding.d] + self._means.sum())
        self.intercept_ = self._level(constant)
        self.shapes_: Mapping[str, Shape] = self._shapes()

    def _shapes(self) -> dict[str, Shape]:
        encoding, unit, found = self._encoding, self._unit(), {}
        for place, j in enumerate(self._columns):
            low, high = float(encoding.low[j]), float(encoding.high[j])
            grid = low + (high - low) * (np.arange(CELLS) + 0.5) / CELLS
            value = unit * self._values[place]
            missing = float(value[CELLS]) if encoding.rules[j] in ("mean", "released") else None
            found[encoding.names[j]] = Shape(encoding.names[j], grid, value[:CELLS], missing, self._shares[place])
        return found

    def _unit(self) -> float:
        """Size of one step of the margin in what a reader sees."""
        return 1.0

    def _level(self, constant: float) -> Any:
        return constant

    def _scores_of(self, X: Any) -> np.ndarray:
        encoded, cells = self._parts(X)
        d = self._encoding.d
        scores = np.asarray(encoded @ self._shown[:d]) + self._shown[d]
        table = self._shown[d + 1 :].reshape(len(self._columns), PLACES)
        for place in range(len(self._columns)):
            scores = scores + table[place][cells[:, place]]
        return np.asarray(scores, dtype=np.float64)

    def _parts(self, X: Any) -> tuple[Any, np.ndarray]:
        """Encoded rows, missing cells at the released centre, and their cell numbers."""
        encoding = self._encoding
        released = tuple(j for j, rule in enumerate(encoding.rules) if rule == "released")
        rules = tuple("mean" if rule == "released" else rule for rule in encoding.rules)  # keeps the marks of missing cells
        marked = self._encoded(X, replace(encoding, rules=rules))
        filled = Filling(encoding.fill).block(Block(marked, np.empty(0), None, 0)) if released else None
        return marked if filled is None else filled.X, cell_numbers(marked, self._columns, released)

    def explain(self, X: Any) -> dict[str, np.ndarray]:
        """What each column adds to the margin of each row, the "intercept" last: the contributions add up to it.

        In a regression the margin is the prediction before it is cut to the range of the target. Explanations of private rows are
        as private as the rows.
        """
        check_is_fitted(self, "certificate_")
        encoded, cells = self._parts(X)
        dense, unit = np.asarray(encoded.toarray() if is_sparse(encoded) else encoded, dtype=np.float64), self._unit()
        found: dict[str, np.ndarray] = {}
        table = self._shown[self._encoding.d + 1 :].reshape(len(self._columns), PLACES)
        for j, name in enumerate(self._encoding.names):
            part = self._shown[j] * dense[:, j]
            if j in self._columns:
                place = self._columns.index(j)
                part = part + table[place][cells[:, place]] - self._means[place]
            found[name] = unit * part
        found["intercept"] = np.full(len(dense), float(np.ravel(self.intercept_)[0]))
        return found

    def plot(self, columns: Any = None) -> Any:
        """A matplotlib figure of the shapes, with the released marginal of each column below its curve.

        `model.plot(["age"]).savefig("age.png")` keeps the curve of one column as a file.

        Parameters
        ----------
        columns : str, list of str or None, default None
            Columns with a shape, by name; all of them if left out.
        """
        check_is_fitted(self, "certificate_")
        return draw_shapes(self.shapes_, columns)

    def _extra_record(self) -> Extra:
        record: Extra = super()._extra_record()
        record["shapes"] = {
            "columns": list(self._columns),
            "shares": self._shares.tolist(),
            "centre": self._centre.tolist(),
            "curves": self.curves_,
        }
        if self._edited is not None:
            record["shapes"] |= {"edited": self._edited.tolist(), "edits": list(self.edits_)}
        return record

    def _restore(self, extra: Extra) -> None:
        super()._restore(extra)
        shapes = extra["shapes"]
        columns, d = shapes["columns"], self._encoding.d
        if not all(type(j) is int and 0 <= j < d for j in columns) or len(set(columns)) != len(columns):
            raise ValueError("shapes of columns that are not there")
        self._columns = tuple(columns)
        self._shares = np.array(shapes["shares"], dtype=np.float64).reshape(-1, PLACES)
        self._centre = np.array(shapes["centre"], dtype=np.float64)
        fits = self.w_.shape == (d + 1 + PLACES * len(columns),) and self._centre.shape == (d,)
        fits = fits and len(self._shares) == len(columns)
        if not (fits and self.fit_intercept and np.isfinite(self._shares).all() and np.isfinite(self._centre).all()):
            raise ValueError("shapes that do not fit the coefficients")
        self.curves_ = str(shapes["curves"])
        if "edited" in shapes:
            edited = np.array(shapes["edited"], dtype=np.float64)
            if edited.shape != self.w_.shape or not np.isfinite(edited).all():
                raise ValueError("edited shapes that do not fit the released ones")
            self._edited, self.edits_ = edited, tuple(str(edit) for edit in shapes["edits"])


def straight_features(schema: Schema | None) -> set[str]:
    """Features of columns that the schema keeps straight ("shape": "linear")."""
    columns = () if schema is None else schema.columns
    return {name for column in columns if column.shape == "linear" for piece in column.pieces for name in piece.features}


@dataclass(eq=False, repr=False, kw_only=True)
class GAMClassifier(Shapes, PrivateClassifier):
    """sign(Σ_j f_j(x_j)) with a curve f_j per numeric column, released with (ε, δ)-differential privacy; two classes.

    Nothing to tune: the smoothness of the curves follows from released histograms of the columns and from the noise that the
    descent is predicted to add. Where curves cannot be learnt the model is the line, and `curves_` says so. One-hot, boolean and
    sparse columns are linear. Missing cells have their own place in a column's shape.

    `shapes_` holds the curves, `plot()` draws them, `explain(X)` splits margins into what each column adds.

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
        return {"clip_factor": 0.7, "horizon": 1.0, "start": "rate"} if self.loss == "logistic" else {}

    def _loss(self) -> Loss:
        if self.loss not in ("logistic", "hinge"):
            raise ValueError(f"Expected loss='logistic' or 'hinge', found {self.loss!r}.")
        if len(self.classes_) != 2:
            raise ValueError(
                f"Expected two classes for GAMClassifier, found {len(self.classes_)}. Use LogisticRegression or LinearSVC."
            )
        return LogisticLoss()

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the two classes, in the order of `classes_`; for loss="logistic"."""
        if self.loss != "logistic":
            raise ValueError("Expected loss='logistic' for probabilities, found 'hinge', whose scores are no log-odds.")
        positive = expit(self._scores(X))
        return np.column_stack([1 - positive, positive])

    def predict_log_proba(self, X: Any) -> np.ndarray:
        return np.asarray(np.log(np.maximum(self.predict_proba(X), 1e-300)))


@dataclass(eq=False, repr=False, kw_only=True)
class GAMRegressor(Shapes, PrivateRegressor):
    """Σ_j f_j(x_j) with a curve f_j per numeric column, released with (ε, δ)-differential privacy.

    Nothing to tune: see `GAMClassifier`. `shapes_`, `plot()` and `explain(X)` are in units of the target.

    **Guarantee**: that of `certificate_`, for rows clipped into the declared bounds.

    Parameters
    ----------
    loss : {"squared", "huber"}, default "squared"
        With "huber" large residuals count linearly.
    threshold : float or None, default None
        Of "huber", in units of the target. None takes a tenth of the declared range of the target.

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

    def _loss(self) -> Loss:
        if self.loss not in ("squared", "huber"):
            raise ValueError(f"Expected loss='squared' or 'huber', found {self.loss!r}.")
        if self.loss == "squared":
            return SquaredLoss()
        if self.threshold is not None and not self.threshold > 0:
            raise ValueError(f"Expected threshold > 0 in units of the target, found {self.threshold}.")
        return HuberLoss(0.2 if self.threshold is None else float(self.threshold) / ((self._y_high - self._y_low) / 2))

    def _unit(self) -> float:
        return (self._y_high - self._y_low) / 2

    def _level(self, constant: float) -> float:
        return (self._y_low + self._y_high) / 2 + self._unit() * constant
