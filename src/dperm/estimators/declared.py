"""Checks of an estimator's parameters before a row is read: types and contradictions, which no later step would notice."""

from __future__ import annotations

import math
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dperm.problem.plain import is_number, plain_fields, shown
from dperm.tables.containers import is_list
from dperm.walk.options import check_nominal

if TYPE_CHECKING:
    from dperm.estimators.base import PrivateEstimator
    from dperm.estimators.declaration import Budgeted


POSITIVE = {
    "x_norm": "the largest Euclidean norm a row may have",
    "radius": "the largest norm of the coefficients",
    "max_weight": "the largest weight a row may have",
}
WHOLE = {"max_rows_per_person": "how many rows of a person may count", "nominal_n": "a public round number of rows"}
WHOLE |= {"n_nonzero_coefs": "how many coefficients may differ from 0"}
OF_COLUMNS = ("bounds", "x_norm", "categorical", "boolean", "sparse")


def check_declared(estimator: Budgeted) -> None:
    """Refuse a parameter of the wrong type or sign, and columns declared twice, in words.

    >>> from dperm import LogisticRegression
    >>> check_declared(LogisticRegression(bounds=(0, 1), classes=[0, 1]))
    """
    plain_fields(estimator, said=("epsilon", "delta", "verbose", *POSITIVE, *WHOLE))  # of any kind, to Python's own
    given = {name: getattr(estimator, name) for name in (*POSITIVE, *WHOLE) if getattr(estimator, name, None) is not None}
    for name, value in given.items():
        if name in POSITIVE and not (is_number(value) and 0 < value < math.inf):
            raise ValueError(f"Expected {name} > 0, found {shown(value)}. Pass {POSITIVE[name]}, or leave it out.")
        if name in WHOLE and not (is_number(value) and isinstance(value, Integral) and int(value) >= 1):
            raise ValueError(f"Expected {name} ≥ 1, a whole number, found {shown(value)}. Pass {WHOLE[name]}, or leave it out.")
    # Before anything is computed from the number of rows: an error about delta would state it.
    check_nominal({"relation": estimator.relation, "nominal_n": estimator.nominal_n})
    for name in ("fit_intercept", "intervals"):
        if not isinstance(value := getattr(estimator, name, True), bool | np.bool_):
            raise ValueError(f"Expected {name}=True or False, found {shown(value)}. Pass one of them.")
    if getattr(estimator, "schema", None) is not None:
        check_one_declaration(estimator, "the schema")


def check_shape(estimator: PrivateEstimator, X: object) -> None:
    """Refuse an array that is no matrix in our words: scikit-learn's quote its cells, and state its number of rows."""
    check_no_path(X, "A path goes to the command, `dperm fit FILE`, or to pandas.read_csv first, whose table goes here.")
    check_lists(estimator, X)
    if isinstance(X, np.ndarray) and X.ndim != 2:
        shape = "X.reshape(-1, 1) for one column" if X.ndim == 1 else "X.reshape(len(X), -1)"
        raise ValueError(f"Expected X with two dimensions, found {X.ndim}. Reshape your data, e.g. {shape}.")
    if isinstance(X, np.ndarray) and X.shape[1] == 0 and fewest_rows(estimator) == 0:
        raise ValueError("Expected X with at least one column, found 0 feature(s). Pass the features.")


def check_no_path(X: object, advice: str) -> None:
    """Refuse a path where rows are wanted."""
    if isinstance(X, str | Path):
        raise ValueError(f"Expected rows as X, found text. {advice}")


def check_lists(estimator: object, X: object) -> None:
    """Refuse rows as a list where their number is protected: an empty one has no columns, and would be told from the others."""
    if is_list(X) and fewest_rows(estimator) == 0:
        raise ValueError(
            "Expected an array or a table as X under relation='add-remove', found a list, which has no columns when it has no "
            "rows. Pass numpy.array(X, dtype=object).reshape(-1, d) for d columns."
        )


def fewest_rows(estimator: object) -> int:
    """1, or 0 where the number of rows is protected: an error would tell an empty table from one with a row."""
    return 0 if getattr(estimator, "relation", None) == "add-remove" else 1


def check_one_declaration(estimator: object, other: str) -> None:
    """Columns are declared by `other`: parameters that declare them again would be ignored."""
    twice = [name for name in OF_COLUMNS if getattr(estimator, name) is not None]
    twice += ["missing"] if getattr(estimator, "missing", "mean") != "mean" else []
    if twice:
        raise ValueError(f"Expected columns declared once, by {other}, found {twice[0]}= as well. Leave one of the two out.")


def asked_intervals(kind: type, intervals: bool) -> dict[str, bool]:
    """The option of an estimator class that pays for intervals, or a refusal where it has none."""
    if not intervals:
        return {}
    if not getattr(kind, "has_intervals", False):
        raise ValueError(
            f"Expected a model with intervals for --intervals, found {kind.__name__}. Use LinearRegression, Ridge, "
            "HuberRegressor, QuantileRegressor, PoissonRegressor or LogisticRegression, or leave --intervals out."
        )
    return {"intervals": True}
