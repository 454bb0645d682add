"""Functions that a caller passes, feature maps and rules, tried on public rows before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any, cast

import numpy as np
from scipy.sparse import csr_array

from dperm.mechanisms.hypotheses.stored import Rules
from dperm.problem import DataBounds, FeatureMap, Problem
from dperm.problem.arrays import Matrix, Vector, dense, is_sparse
from dperm.release.plan import Mechanism
from dperm.rows.base import Rows

Function = Callable[[Any], Any]  # of rows, dense or sparse
ROWS, RULES = 40, 64  # of our own; rules of a caller that are tried on them


def check_functions(problem: Problem, mechanism: Mechanism, rows: Rows) -> None:
    """Refuse, before anything is debited, a caller's function that looks at several rows: tried on rows of our own."""
    rules, features = getattr(mechanism, "hypotheses", None), problem.feature_map
    if features is None and not isinstance(rules, Rules):
        return
    X, zeros = _public_rows(problem.data, rows.d)
    with np.errstate(all="ignore"):
        if isinstance(rules, Rules):
            ask = partial(rules.strict_predictions, start=0, stop=min(rules.size, RULES))
            _check_answers(ask, X)
            _check_alone("rules", ask, X)
        if features is not None:
            function = cast(Function, features.function)
            _check_alone("a feature map", lambda rows: dense(function(rows)), _mapped(features, [X, zeros], rows))


def _public_rows(data: DataBounds, d: int) -> list[Vector]:
    """Two tables of rows of our own inside the bounds: numbers of all sizes, and zeros."""
    size = min(data.x_norm, 1e6) if math.isfinite(data.x_norm) else 1.0
    probe = size * np.geomspace(0.01, 1.0, ROWS)[:, None] * np.sin(1.0 + np.arange(ROWS * d)).reshape(ROWS, d)
    return [np.asarray(data.enforce(X)[0], dtype=np.float64) for X in (probe, np.zeros((ROWS, d)))]


def _check_alone(what: str, function: Function, X: Matrix) -> None:
    if not treats_rows_alone(function, X):
        raise ValueError(
            f"Expected functions of {what} to treat each row alone, found one whose answer for a row changes with the rows "
            "beside it (a mean or maximum over rows, or a random draw): one person would move all rows. Compute such numbers "
            "from public data, and pass them as constants. Nothing was spent."
        )


def _check_answers(rules: Function, X: Vector) -> None:
    """Refuse rules that fail on rows of our own, which are public: of private rows no error may come out."""
    try:
        rules(X)
    except Exception as error:
        raise ValueError(
            f"Expected rules that give a label for every row of numbers, found {type(error).__name__}: {str(error)[:200]} "
            "Rules are functions of a NumPy array, rows × columns, and return one label per row. Nothing was spent."
        ) from error


def _mapped(feature_map: FeatureMap, public: Sequence[Vector], rows: Rows) -> Matrix:
    """Those of some public rows that a map takes, in the form of the caller's. A map that takes none, or gives other features
    than it declares, is refused: of private rows no error comes out, and all of them would be 0."""
    held, function = getattr(rows, "X", None), cast(Function, feature_map.function)
    forms: list[Function] = [np.asarray, csr_array]  # other engines make dense or sparse rows, as their encoding says
    forms = forms if held is None else forms[is_sparse(held) :][:1]
    failed, wide = None, feature_map.output_dimension
    for form, X in product(forms, public):
        made = form(X)
        try:
            found = np.shape(function(made.copy()))
            if found == (ROWS, wide):
                feature_map(made.copy())
                return cast(Matrix, made)
        except Exception as error:
            failed = failed or error
        else:
            raise ValueError(
                f"Expected one row of {wide} features per input row, found shape {found} for {ROWS} rows. "
                "Correct output_dimension= or the map. Nothing was spent."
            )
    raise ValueError(
        f"Expected a feature map of rows of {rows.d} numbers, found {type(failed).__name__} of {feature_map.name!r} on rows of "
        f"our own: {str(failed)[:200]} Correct the map, or pass rows of the form that it takes. Nothing was spent."
    ) from failed


def treats_rows_alone(function: Function, X: Matrix) -> bool:
    """Whether a caller's function says the same of public rows together, in another order and one by one.

    This finds mistakes (a mean over rows, a maximum, a random draw) and proves nothing. What it writes into its rows is lost.

    >>> X = np.arange(6.0).reshape(3, 2)
    >>> treats_rows_alone(lambda X: X**2, X), treats_rows_alone(lambda X: X - X.mean(axis=0), X)
    (True, False)
    """

    def asked(rows: Matrix) -> Vector:
        return np.asarray(function(rows.copy()), dtype=np.float64)

    whole = asked(X)
    try:
        alone = np.concatenate([asked(X[row : row + 1]) for row in range(X.shape[0])])
        turned = asked(X[::-1])[::-1]
    except Exception:  # a block may have one row
        return False
    near = 1e-6 * max(float(np.max(np.abs(whole), initial=0.0, where=np.isfinite(whole))), 1e-300)
    return all(
        other.shape == whole.shape and bool(np.allclose(whole, other, rtol=1e-6, atol=near, equal_nan=True))
        for other in (alone, turned)
    )
