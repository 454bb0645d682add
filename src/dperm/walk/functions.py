"""Functions that a caller passes, feature maps and rules, tried on public rows before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dperm.mechanisms.hypotheses.stored import Rules
from dperm.problem import FeatureMap, Problem
from dperm.problem.arrays import Vector
from dperm.release.plan import Mechanism

Function = Callable[[Vector], object]
ROWS, RULES = 40, 64  # of our own; rules of a caller that are tried on them


def check_functions(problem: Problem, mechanism: Mechanism, d: int) -> None:
    """Refuse, before anything is debited, a caller's function that looks at several rows: tried on rows of our own."""
    rules = getattr(mechanism, "hypotheses", None)
    asked: dict[str, Function] = {}
    if problem.feature_map is not None:
        asked["a feature map"] = problem.feature_map.function
    if isinstance(rules, Rules):
        asked["rules"] = lambda rows: rules.strict_predictions(rows, 0, min(rules.size, RULES))
    if not asked:
        return
    size = min(problem.data.x_norm, 1e6) if math.isfinite(problem.data.x_norm) else 1.0
    probe = size * np.geomspace(0.01, 1.0, ROWS)[:, None] * np.sin(1.0 + np.arange(ROWS * d)).reshape(ROWS, d)
    X = np.asarray(problem.data.enforce(probe)[0], dtype=np.float64)
    if isinstance(rules, Rules):
        _check_answers(asked["rules"], X)
    if problem.feature_map is not None:
        _check_width(problem.feature_map, X)
    for what, function in asked.items():
        with np.errstate(all="ignore"):
            alone = treats_rows_alone(function, X)
        if not alone:
            raise ValueError(
                f"Expected functions of {what} to treat each row alone, found one whose answer for a row changes with the rows "
                "beside it (a mean or maximum over rows, or a random draw): one person would move all rows. Compute such numbers "
                "from public data, and pass them as constants. Nothing was spent."
            )


def _check_answers(rules: Function, X: Vector) -> None:
    """Refuse rules that fail on rows of our own, which are public: of private rows no error may come out."""
    try:
        with np.errstate(all="ignore"):
            rules(X)
    except Exception as error:
        raise ValueError(
            f"Expected rules that give a label for every row of numbers, found {type(error).__name__}: {str(error)[:200]} "
            "Rules are functions of a NumPy array, rows × columns, and return one label per row. Nothing was spent."
        ) from error


def _check_width(feature_map: FeatureMap, X: Vector) -> None:
    """Refuse a map to other features than it declares: of private rows no error says more than that there is one."""
    try:
        with np.errstate(all="ignore"):
            found = np.shape(feature_map.function(X.copy()))
    except Exception:  # it is made for sparse rows
        return
    if found != (ROWS, feature_map.output_dimension):
        raise ValueError(
            f"Expected one row of {feature_map.output_dimension} features per input row, found shape {found} for {ROWS} rows. "
            "Correct output_dimension= or the map. Nothing was spent."
        )


def treats_rows_alone(function: Function, X: Vector) -> bool:
    """Whether a caller's function says the same of public rows together, in another order and one by one.

    This finds mistakes (a mean over rows, a maximum, a random draw) and proves nothing. A function that does not take NumPy's
    arrays passes: it is made for sparse rows. What it writes into its rows is lost.

    >>> X = np.arange(6.0).reshape(3, 2)
    >>> treats_rows_alone(lambda X: X**2, X), treats_rows_alone(lambda X: X - X.mean(axis=0), X)
    (True, False)
    """

    def asked(rows: Vector) -> Vector:
        return np.asarray(function(rows.copy()), dtype=np.float64)

    try:
        whole = asked(X)
    except Exception:
        return True
    try:
        alone = np.concatenate([asked(X[row : row + 1]) for row in range(len(X))])
        turned = asked(X[::-1])[::-1]
    except Exception:  # a block may have one row
        return False
    near = 1e-6 * max(float(np.max(np.abs(whole), initial=0.0, where=np.isfinite(whole))), 1e-300)
    return all(
        other.shape == whole.shape and bool(np.allclose(whole, other, rtol=1e-6, atol=near, equal_nan=True))
        for other in (alone, turned)
    )
