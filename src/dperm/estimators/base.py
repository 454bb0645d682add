"""What all estimators share: reading declarations, building the problem, running the walk, mapping coefficients back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self, TypeVar

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from dperm.estimators.alone import one_at_a_time
from dperm.estimators.declaration import NO_ROWS, Declaration, declaration, declared_encoding, declared_unit, encoding_before_rows
from dperm.estimators.declared import check_declared, check_shape
from dperm.estimators.engines import declared_rows, engine_rows, in_memory, labels_of, parts_of
from dperm.estimators.inferred import Inferred
from dperm.estimators.matrix import read_matrix, row_products
from dperm.estimators.saving import keep_parameters, save
from dperm.estimators.showing import Shown
from dperm.mechanisms.scaled.inference import ScaledInference
from dperm.problem import Ball, DataBounds, Interval, Loss, NoRegularizer, Problem, Regularizer, Ridge, WholeSpace
from dperm.problem.arrays import Matrix, dense, is_sparse
from dperm.problem.plain import is_number, plain_float, shown
from dperm.release.plan import MECHANISMS, Mechanism
from dperm.rows.base import Rows
from dperm.rows.labelled import LabelRule, RowRule
from dperm.rows.memory import MemoryRows
from dperm.tables.cells import numbers
from dperm.tables.containers import beside
from dperm.tables.encoding import Encoding
from dperm.tables.labels import check_no_name, check_target_type, known_labels, label_column
from dperm.tables.persons import person_column, person_order, person_weights, unit_of, without_person
from dperm.tables.schema import Schema
from dperm.tables.tables import cells, column_names, is_table
from dperm.walk.fitting import Release
from dperm.words.notices import repeated_fits, speak
from dperm.words.progress import step_printer

INTERCEPT = 1.0
NO_REGULARIZER = "Expected regularization='auto', a number or a regularizer, found {found}. Pass one of them."
Margin = TypeVar("Margin", float, np.ndarray)


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateEstimator(Shown, Inferred):
    """Parameters common to all estimators, and the fit.

    Parameters
    ----------
    bounds : pair, sequence of pairs, dict, "private" or None, default None
        Public bounds of the columns: (low, high) for all of them, a pair for each, or a dict by name. "private" pays for
        them out of the budget. Bounds or `x_norm` must be declared.
    x_norm : float or None, default None
        Public bound on the Euclidean norm of a row.
    categorical : list of lists or None, default None
        Groups of one-hot columns, by index or name.
    boolean : list, "all" or None, default None
        Columns that hold 0 or 1, by index or name.
    sparse : list, "all" or None, default None
        Columns that are mostly 0, by index or name.
    missing : "mean", "middle" or float, default "mean"
        What a missing number becomes: the private centre of its column where the method releases one (else the middle of
        its bounds), the middle, or a number. A schema says it per column instead.
    schema : Schema, dict, path or None, default None
        Declared columns and target, where X is a table.
    fit_intercept : bool, default True
        Whether the model has a constant. It is a bounded column and counts in the row norm.
    method : str or mechanism, default "auto"
        "auto" (a table over public numbers), the name of a mechanism, or an object such as `Gradient(steps=100)`.
    regularization : "auto", float or regularizer, default "auto"
        A number is a ridge λ on the sum scale: λ/2·‖w‖² is added to the sum of losses.
    radius : float or None, default None
        Coefficients of the encoded columns are kept in a ball of this radius.
    groups : str or None, default None
        The column of the table that names the person. It is never a feature. Ids can be passed to `fit` instead.
    max_weight : float or None, default None
        The largest sample weight that a row may have. Needed where `fit` gets sample weights.
    verbose : int, default 0
        1 shows progress on standard error.
    """

    asked_for: ClassVar[str] = "coefficients"
    per_column: ClassVar[bool] = True  # whether w_ has one coefficient per encoded column
    reads_schema: ClassVar[bool] = True  # whether it can be fitted on a table that a schema describes

    bounds: object = None
    x_norm: float | None = None
    categorical: object = None
    boolean: object = None
    sparse: object = None
    missing: object = "mean"
    schema: Schema | Mapping[str, object] | str | Path | None = None
    fit_intercept: bool = True
    method: Mechanism | str = "auto"
    regularization: Regularizer | float | str = "auto"
    radius: float | None = None
    max_weight: float | None = None
    verbose: int = 0

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """As scikit-learn writes it, with the budget also where it is the default."""
        text = str(super().__repr__(N_CHAR_MAX))
        if "epsilon=" in text:
            return text
        return text.replace("(", f"(epsilon={self.epsilon!r}" + ("" if text.endswith("()") else ", "), 1)

    # -- what a subclass supplies ------------------------------------------------------------------------------------

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _labels(self, y: object) -> tuple[np.ndarray, np.ndarray | None, Interval]:
        """Encoded labels, row weights (0 for a label outside the declaration), and their interval."""
        raise NotImplementedError

    def _check_labels(self, y: object) -> None:
        """Refuse a column of labels by its type, before it is made an array, whose type its cells may change."""

    def _rule_of_rows(self) -> LabelRule | RowRule:
        """The labels of rows that are not in memory, by a rule that travels."""
        return self._labels

    def _store(self, release: Release) -> None:
        """`w_`, and what a reader sees of it."""
        self.w_ = release.w.reshape(self._margins())
        self._in_callers_units()

    def _margins(self) -> tuple[int, ...]:
        """The shape of `w_`: one row of coefficients per class where there are several."""
        return (-1,)

    @property
    def _shown(self) -> np.ndarray:
        """The coefficients that predictions follow: `w_`, where nothing was edited afterwards."""
        return np.asarray(self.w_)

    def _in_callers_units(self) -> None:
        """`coef_` and `intercept_` from `w_` and the encoding."""
        slopes, constant = self._encoding.original(self.w_, INTERCEPT if self.fit_intercept else 0.0)
        self.coef_ = self._step() * slopes + 0.0  # no -0.0, which tables would show
        self.intercept_: float | np.ndarray = self._level(float(constant))

    def _step(self) -> float:
        """Size of one step of the margin in what a reader sees."""
        return 1.0

    def _level(self, constant: Margin) -> Margin:
        """Margins in what a reader sees."""
        return constant

    def _method(self) -> Mechanism | str:
        """The method as the planner takes it; an estimator with its own mechanism or options builds it here."""
        if isinstance(self.method, str) and self.method == ScaledInference.name:
            return self._inference()
        chosen = MECHANISMS.get(self.method) if isinstance(self.method, str) else self.method
        if not getattr(chosen, "linear", True):
            raise ValueError(f"Expected a method with one coefficient per column, found {self.method!r}. Use its own estimator.")
        return self.method

    # -- the fit -----------------------------------------------------------------------------------------------------

    @one_at_a_time
    def fit(self, X: object, y: object = None, sample_weight: object = None, *, groups: object = None) -> Self:
        """Fit privately; afterwards `certificate_` says what was guaranteed and `plan_` what was done.

        `sample_weight` needs the declared bound `max_weight`; weights outside [0, max_weight] are clipped into it, a
        missing weight counts as 0.
        """
        check_declared(self)
        repeated_fits(self.epsilon, self.ledger)
        check_shape(self, X)
        X, y, sample_weight = in_memory(X, y, sample_weight)
        self._schema_of_rows = None
        engine = engine_rows(X, y, self._declared_schema())
        seen = None if self.ledger is None else X if engine is None else engine  # what a ledger recognises the data set by
        if engine is not None:
            self.__dict__["_persons_in_order"] = False
            found = declared_rows(self, engine, sample_weight, groups)
            return self._run(found.rows, found.interval, found.heaviest, found.per_person, found.unit, seen)
        check_no_name(y)
        rows, y, groups = self._unpack(X, y, groups)
        labels, weight, interval = self._labels(y)
        weight, heaviest = self._weights(weight, sample_weight, len(labels))
        weight, per_person = person_weights(groups, self.max_rows_per_person, weight, len(labels))
        self._sum_persons(per_person)
        if not self._persons_in_order or weight is None:
            held = MemoryRows(rows, labels, weight)
        else:
            order, person = person_order(groups, weight)
            held = MemoryRows(rows[order], labels[order], weight[order], person=person)
        return self._run(held, interval, heaviest, per_person, unit_of(groups), seen)

    def _run(
        self, rows: Rows, interval: Interval, heaviest: float | None, per_person: int, unit: str, seen: object = None
    ) -> Self:
        """The walk, on rows of any engine that are encoded and labelled by the declarations."""
        n = self.nominal_n if self.nominal_n is not None else rows.n
        encoding: Encoding = vars(self)["_encoding"]
        declared = declaration(self, interval, n, per_person, heaviest, unit)
        if (expected := declared.intervals()) is not None:
            speak([expected.words])
        release = declared.run(rows, seen, encoding=encoding, progress=step_printer("fit") if self.verbose else None)
        for earlier in ("information_", "about_"):  # of an earlier fit
            self.__dict__.pop(earlier, None)
        self._encoding: Encoding = encoding.resolved(release.certificate.record["decided"])
        self.feature_names_out_ = np.array(encoding.names, dtype=object)
        self._store(release)
        keep_parameters(self)
        return self

    def _before_rows(self, n: int, d: int | None) -> Declaration:
        self._encoding = encoding_before_rows(self, d)
        self._sum_persons(self.max_rows_per_person or 1)
        interval = self._labels(NO_ROWS)[2]
        heaviest = self._weights(None, None if self.max_weight is None else NO_ROWS, 0)[1]
        return declaration(self, interval, n, self.max_rows_per_person or 1, heaviest, declared_unit(self))

    def save(self, path: str | Path) -> Path:
        """Write the model as JSON, its certificate with it: one file if the name ends in .json, else into a folder.

        `dperm.load(path)` gives it back. Nothing about the rows is in it but what was released. Parameters are those of the fit,
        also where others were set since.
        """
        check_is_fitted(self, "certificate_")
        return save(self, path)

    def _class_weights(self) -> dict[object, float] | None:
        """Declared weights of classes; regressors have none."""
        return None

    def _weights(self, known: np.ndarray | None, sample_weight: object, n: int) -> tuple[np.ndarray | None, float | None]:
        """Row weights in [0, W] and W, or None where no weights were declared.

        `known` is 0 for a row left out by a public rule, and otherwise 1 or the class weight.
        """
        classes = self._class_weights()
        heaviest = None if classes is None else max(classes.values())
        if sample_weight is None:
            return known, heaviest
        limit = self.max_weight
        if limit is None:
            raise ValueError(
                "Expected max_weight= > 0 with sample_weight=, found none. Declare the largest weight a row may have; it "
                "must not be computed from the data."
            )
        given = numbers(beside(sample_weight))
        if given.shape != (n,):
            raise ValueError("Expected one weight per row, found another number of them. Pass one weight for every row.")
        given = np.clip(np.where(np.isnan(given), 0.0, given), 0.0, limit)
        return given if known is None else given * known, float(limit) * (1.0 if heaviest is None else heaviest)

    def _unpack(self, X: object, y: object, groups: object) -> tuple[Matrix, np.ndarray, object]:
        """Encoded rows, labels and person column; also builds the encoding from the declarations."""
        schema = self._declared_schema()
        named = self.groups if groups is None else groups
        X, groups = person_column(X, named)
        self._person = named if isinstance(named, str) else None
        if schema is not None and any(c.name == self._person and c.type != "ignored" for c in schema.columns):
            raise ValueError(
                f"Expected the person column {self._person!r} to be no feature, found it declared as one. Mark it as ignored in "
                "the schema."
            )
        if schema is not None and is_table(X):
            schema.check(column_names(X), with_target=y is None)
            if y is None:
                if schema.target is None:
                    raise ValueError('Expected y, or a schema with a target, found neither. Add "target" to the schema.')
                if schema.target.type != "classes":
                    check_target_type(cells(X, schema.target.column))
                y = schema.labels(cells(X, schema.target.column))
            else:
                self._check_labels(y)
            rows = schema.encoded(X)
            self._encoding = schema.encoding()
            self.n_features_in_ = rows.shape[1]
            self.feature_names_in_ = np.array([c.name for c in schema.columns if c.type != "ignored"], dtype=object)
            return rows, label_column(y, rows.shape[0]), groups
        if y is None:
            name = type(self).__name__
            named = "" if schema is None else ", or a table with names of columns, in which the schema finds the target"
            raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None. Pass the labels{named}.")
        X = read_matrix(self, X, sparse=True)
        self._check_labels(y)
        y = label_column(y, X.shape[0])
        if schema is None:
            names = getattr(self, "feature_names_in_", None)
            self._encoding = declared_encoding(self, X.shape[1], None if names is None else list(names), centred=not is_sparse(X))
        else:
            self._encoding = schema.encoding()
        if self._encoding.d != X.shape[1]:
            known = f"Expected a table with the columns of the schema, or an array with its {self._encoding.d} encoded columns"
            raise ValueError(f"{known}, found one with {X.shape[1]}. Pass the table itself, not its values.")
        return self._encoding.packed(self._encoding.transform(X)), y, groups

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Names of the encoded features, in the order of `coef_`."""
        check_is_fitted(self, "certificate_")
        return np.array(self._encoding.names, dtype=object)

    def _declared_schema(self) -> Schema | None:
        if self.schema is None:
            return getattr(self, "_schema_of_rows", None)
        return Schema.of(self.schema)

    def _problem(self, interval: Interval) -> Problem:
        data = DataBounds(self._encoding.norm, interval, INTERCEPT if self.fit_intercept else 0.0)
        domain = WholeSpace() if self.radius is None else Ball(float(self.radius))
        return Problem(self._loss(), self._regularizer(), domain, data)

    def _regularizer(self) -> Regularizer:
        if isinstance(self.regularization, str):
            if self.regularization != "auto":
                raise ValueError(NO_REGULARIZER.format(found=repr(self.regularization)))
            return NoRegularizer()
        if is_number(self.regularization):
            strength = plain_float(self.regularization, "regularization")
            if not 0 <= strength < math.inf:
                raise ValueError(f"Expected regularization ≥ 0 and finite, found {strength:g}. Pass a ridge λ on the sum scale.")
            return Ridge(strength) if strength else NoRegularizer()
        if not isinstance(self.regularization, Regularizer):
            raise ValueError(NO_REGULARIZER.format(found=shown(self.regularization)))
        return self.regularization

    def _truth(self, X: object, y: object, weight: object) -> tuple[object, object]:
        """(labels, weights) to score against: y, or the target column of the schema where `fit` took it from there too.

        A row whose cell there is no label has weight 0, as in the fit and in a paid evaluation.
        """
        if y is None:
            parts_of(X)  # refuses tables of a cluster, whose cells are not here
            return known_labels(labels_of(X, self._declared_schema()), weight)
        return y, weight

    def _scores(self, X: object) -> np.ndarray:
        """⟨encoded x, w⟩ for new rows, encoded by the same public rule as the training rows; rows on disk part by part."""
        check_is_fitted(self, "certificate_")
        parts = parts_of(X)
        return self._scores_of(X) if parts is None else np.concatenate([self._scores_of(part) for part in parts])

    def _scores_of(self, X: object) -> np.ndarray:
        encoded, w = self._encoded(X), self.w_
        scores = row_products(encoded, w[..., : encoded.shape[1]])
        return np.asarray(scores + INTERCEPT * w[..., -1]) if self.fit_intercept else np.asarray(scores)

    def _encoded(self, X: object, encoding: Encoding | None = None) -> Matrix:
        """New rows, encoded as the fit's were, or by another encoding of the same columns."""
        encoding = self._encoding if encoding is None else encoding
        X = without_person(X, getattr(self, "_person", None))
        schema = self._declared_schema()
        if schema is not None and is_table(X):
            schema.check(column_names(X), with_target=False, fitted=True)
            return schema.encoded(X, encoding)
        matrix = read_matrix(self, X, sparse=True, reset=False, named=schema is None)  # encoded columns have other names
        encoded = encoding.transform(dense(matrix) if encoding.centred else matrix)
        if is_sparse(encoded) and encoding.x_norm is not None:  # which a fit leaves to the bounds of its problem
            encoded = DataBounds(encoding.norm, Interval(0.0, 0.0)).enforce(encoded)[0]
        return encoded

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
