"""What additive models share: the mechanism, shapes, explanations, edits, predictions by table look-up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.isotonic import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from dperm.estimators.base import PrivateEstimator
from dperm.estimators.marginals import Marginal, marginals_of
from dperm.estimators.matrix import row_products
from dperm.estimators.saving import Extra
from dperm.estimators.shape_bands import band_of, kept_noise, noise_of, stored_noise, without_edited
from dperm.estimators.shape_plot import Shape, draw_shapes
from dperm.mechanisms.scaled.additive import MOST_COLUMNS, Additive
from dperm.mechanisms.scaled.additive_poisson import AdditivePoisson, additive_of
from dperm.mechanisms.scaled.smoothness import shape_values
from dperm.pages.subject import subject_of
from dperm.problem.arrays import is_sparse
from dperm.release.plan import MECHANISMS, Mechanism
from dperm.rows.base import Block
from dperm.rows.recoded import Filling
from dperm.tables.encoding import Encoding
from dperm.tables.schema import Schema
from dperm.terms.additive import CELLS, PLACES, cell_numbers
from dperm.walk.fitting import Release
from dperm.words.spelling import Spelt, closest


class Shapes(PrivateEstimator):
    """What additive models share: the mechanism, shapes, explanations, predictions by table look-up."""

    per_column: ClassVar[bool] = False
    has_intervals: ClassVar[bool] = False
    _edited: np.ndarray | None = None  # coefficients after edits, in the place of the released ones
    _noise: np.ndarray | None = None  # standard deviations of the shapes at their 257 places, where a formula covers the fit
    edits_: tuple[str, ...] = ()

    @property
    def _shown(self) -> np.ndarray:
        """The coefficients that predictions and shapes follow; `w_` stays what was released and certified."""
        return np.asarray(self.w_ if self._edited is None else self._edited)

    def edited(self, column: str, change: Callable[[np.ndarray, np.ndarray], ArrayLike], *, label: object = None) -> Self:
        """A copy of the model whose shape of `column` is change(grid, value): as many numbers, in the units of `shapes_`.

        Post-processing of what was released: it costs nothing, and the copy keeps the certificate, which goes on speaking of the
        released coefficients `w_`. `edits_` says what was changed. The column's average stays in the intercept.

        Parameters
        ----------
        column : str
            A column with a shape.
        change : callable
            From the grid of the column and the value of its shape there to the new value. It must not look at private rows.
        label : object, default None
            Of several classes the one whose shape is changed.
        """
        check_is_fitted(self, "certificate_")
        if column not in self.shapes_:
            hint = closest(str(column), self.shapes_)
            raise ValueError(f"Expected a column with a shape, found {column!r}.{hint} Those are {', '.join(self.shapes_)}.")
        shape, margin = self.shapes_[column], self._margin(label)
        old = shape.value[margin]
        value = np.asarray(change(shape.grid.copy(), old.copy()), dtype=np.float64)
        if value.shape != old.shape or not np.isfinite(value).all():
            raise ValueError(
                f"Expected {len(old)} finite numbers as the shape of {column!r}, found something else. "
                "Return as many as the grid has."
            )
        model, d, place = copy(self), self._encoding.d, list(self.shapes_).index(column)
        j, changed = self._columns[place], self._shown.copy()
        w = changed[margin]
        table = w[d + 1 :].reshape(len(self._columns), PLACES)
        # The new shape is constant in each cell: its linear part goes into the table, or a slope would bend it within a cell.
        table[place, CELLS] += w[j] * self._centre[j]
        table[place, :CELLS] = value / self._step() + self._means[margin][place]
        w[j] = 0.0
        what = f"{column}: {getattr(change, '__name__', 'changed')}" + ("" if label is None else f", for {label}")
        model._noise = without_edited(self._noise, place)
        model._edited, model.edits_ = changed, (*self.edits_, what)
        model._in_callers_units()
        return model

    def _margin(self, label: object) -> Any:
        """Where the numbers of a class are: all of them where there is one margin."""
        if self._shown.ndim == 1:
            if label is not None:
                raise ValueError("Expected label= only for several classes, found it for one margin. Leave it out.")
            return ...
        known = self.classes_.tolist()
        if label not in known:
            raise ValueError(f"Expected label= among the classes {known}, found {label!r}. Pass the class whose shape changes.")
        return known.index(label)

    def monotone(self, column: str, *, increasing: bool = True, label: object = None) -> Self:
        """A copy of the model whose shape of `column` never falls (never rises with increasing=False).

        It is the nearest such shape in mean square under the released marginal of the column. See `edited`.

        Parameters
        ----------
        column : str
            A column with a shape.
        increasing : bool
            Whether the shape is to rise.
        label : object, default None
            Of several classes the one whose shape is changed.
        """

        def monotone(grid: np.ndarray, value: np.ndarray) -> np.ndarray:
            share = self._shares[list(self.shapes_).index(column)][:CELLS]
            return np.asarray(isotonic_regression(value, sample_weight=share + 1e-9, increasing=increasing))

        monotone.__name__ = "never falls" if increasing else "never rises"
        return self.edited(column, monotone, label=label)

    def _declared_schema(self) -> Schema | None:
        """A column that is declared smooth gets a curve as any other does, in the place of public hat functions beside it."""
        schema = super()._declared_schema()
        if schema is None or all(column.shape != "smooth" for column in schema.columns):
            return schema
        if schema is getattr(self, "_schema_of_rows", None):
            raise ValueError(
                'Expected "shape": "auto" for the curves of an additive model on rows that carry their schema, found "smooth". '
                "Leave shape out: every number has a curve."
            )
        columns = tuple(replace(column, shape="auto") if column.shape == "smooth" else column for column in schema.columns)
        return replace(schema, columns=columns)

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

    def _mechanism(self) -> type[Additive] | type[AdditivePoisson]:
        return Additive

    def _method(self) -> Mechanism | str:
        if getattr(self, "intervals", False):
            raise ValueError(
                "Expected intervals=False for an additive model, found True: no theorem covers the errors of its shapes. Use a "
                "linear model with intervals=True."
            )
        kind = self._mechanism()
        if isinstance(self.method, kind):
            return self.method
        if isinstance(self.method, str) and self.method in ("auto", kind.name):
            return kind(kinds=self._encoding.kinds, curved=self._curved(), **self._options())
        known = "another method" if self.method in MECHANISMS else repr(self.method)
        raise ValueError(f"Expected method='auto' or {kind.name!r} for this additive model, found {known}. Leave method= out.")

    def _store(self, release: Release) -> None:
        record = release.certificate.record
        mechanism = additive_of(release.plan)
        self._columns, found = mechanism.curved, mechanism.columns(release.plan, release.released)
        self._shares = np.array([column.places for column in found])
        self._centre = np.asarray(record["decided"]["shift"], dtype=np.float64)
        self.curves_ = str(record["decided"]["shapes"])
        self._noise = noise_of(record)
        self._edited, self.edits_ = None, ()  # of an earlier fit
        super()._store(release)

    def _in_callers_units(self) -> None:
        """`shapes_` and `intercept_` from the coefficients, the released marginals and the encoding."""
        d, lead = self._encoding.d, self._shown.shape[:-1]
        known = (d, self._columns, self._centre, self._shares)
        found = [shape_values(w, *known) for w in np.atleast_2d(self._shown)]
        self._values = np.array([values for values, _ in found]).reshape(*lead, len(self._columns), PLACES)
        self._means = np.array([means for _, means in found]).reshape(*lead, len(self._columns))
        constant = self._shown[..., d] + self._means.sum(axis=-1)
        self.intercept_ = self._level(constant if lead else float(constant))
        self.shapes_: Mapping[str, Shape] = self._shapes()

    def _shapes(self) -> dict[str, Shape]:
        encoding, unit, found = self._encoding, self._step(), Spelt[Shape]()
        for place, j in enumerate(self._columns):
            low, high = float(encoding.low[j]), float(encoding.high[j])
            grid = low + (high - low) * (np.arange(CELLS) + 0.5) / CELLS
            value = unit * self._values[..., place, :]
            gap = value[..., CELLS] if value.ndim > 1 else float(value[CELLS])
            missing = gap if encoding.rules[j] in ("mean", "released") else None
            name = encoding.names[j]
            band = band_of(value, self._noise, place, unit)
            found[name] = Shape(name, grid, value[..., :CELLS], missing, self._shares[place], self._class_names(), band)
        return found

    def _class_names(self) -> tuple[str, ...]:
        """Names of the classes that have a shape each; none for one margin."""
        return ()

    def _table(self) -> np.ndarray:
        """What every place of every column adds beside its linear part, per class where there are several."""
        return self._shown[..., self._encoding.d + 1 :].reshape(*self._shown.shape[:-1], len(self._columns), PLACES)

    def _scores_of(self, X: object) -> np.ndarray:
        encoded, cells = self._parts(X)
        d, table = self._encoding.d, self._table()
        scores = row_products(encoded, self._shown[..., :d]) + self._shown[..., d]
        for place in range(len(self._columns)):
            scores = scores + table[..., place, :].T[cells[:, place]]
        return np.asarray(scores, dtype=np.float64)

    def _parts(self, X: object) -> tuple[Any, np.ndarray]:
        """Encoded rows, missing cells at the released centre, and their cell numbers."""
        encoding = self._encoding
        released = tuple(j for j, rule in enumerate(encoding.rules) if rule == "released")
        rules = tuple("mean" if rule == "released" else rule for rule in encoding.rules)  # keeps the marks of missing cells
        marked = self._encoded(X, replace(encoding, rules=rules))
        filled = Filling(encoding.fill).block(Block(marked, np.empty(0), None, 0)) if released else None
        return marked if filled is None else filled.X, cell_numbers(marked, self._columns, released)

    def explain(self, X: object) -> dict[str, np.ndarray]:
        """What each column adds to the margin of each row, the "intercept" last: the contributions add up to it.

        In a regression the margin is the prediction before it is cut to the range of the target. With several classes each entry
        has a column per class, in the order of `classes_`. Explanations of private rows are as private as the rows.
        """
        check_is_fitted(self, "certificate_")
        encoded, cells = self._parts(X)
        dense, unit = np.asarray(encoded.toarray() if is_sparse(encoded) else encoded, dtype=np.float64), self._step()
        found: dict[str, np.ndarray] = {}
        table = self._table()
        for j, name in enumerate(self._encoding.names):
            part = np.multiply.outer(dense[:, j], self._shown[..., j])
            if j in self._columns:
                place = self._columns.index(j)
                part = part + table[..., place, :].T[cells[:, place]] - self._means[..., place]
            found[name] = unit * part
        found["intercept"] = np.tile(self.intercept_, (len(dense), *[1] * (self._shown.ndim - 1)))
        return found

    @property
    def marginals_(self) -> Mapping[str, Marginal]:
        """The histogram of each column with a shape, as the fit released and paid for it: using it again costs nothing."""
        check_is_fitted(self, "release_")
        return marginals_of(self.release_, self._encoding)

    def plot(self, columns: Any = None) -> Any:
        """A matplotlib figure of the shapes, with the released marginal of each column below its curve.

        `model.plot(["age"]).savefig("age.png")` keeps the curve of one column as a file.

        Parameters
        ----------
        columns : str, list of str or None, default None
            Columns with a shape, by name; all of them if left out.
        """
        check_is_fitted(self, "certificate_")
        outcome = subject_of(self).outcome.partition(", in halves")[0]  # shapes are in the target's own units
        return draw_shapes(self.shapes_, columns, outcome)

    def _extra_record(self) -> Extra:
        record: Extra = super()._extra_record()
        record["shapes"] = {
            "columns": list(self._columns),
            "shares": self._shares.tolist(),
            "centre": self._centre.tolist(),
            "curves": self.curves_,
        }
        if self._noise is not None:
            record["shapes"]["noise"] = kept_noise(self._noise)
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
        fits = self.w_.shape[-1] == d + 1 + PLACES * len(columns) and self._centre.shape == (d,)
        fits = fits and len(self._shares) == len(columns)
        if not (fits and self.fit_intercept and np.isfinite(self._shares).all() and np.isfinite(self._centre).all()):
            raise ValueError("shapes that do not fit the coefficients")
        self.curves_ = str(shapes["curves"])
        self._noise = stored_noise(shapes, self._shares.shape)
        if "edited" in shapes:
            edited = np.array(shapes["edited"])
            if edited.dtype.kind not in "if" or edited.shape != self.w_.shape or not np.isfinite(edited).all():
                raise ValueError("edited shapes that do not fit the released ones")
            self._edited, self.edits_ = edited.astype(np.float64), tuple(str(edit) for edit in shapes["edits"])


def straight_features(schema: Schema | None) -> set[str]:
    """Features of columns that the schema keeps straight ("shape": "linear")."""
    columns = () if schema is None else schema.columns
    return {name for column in columns if column.shape == "linear" for piece in column.pieces for name in piece.features}
