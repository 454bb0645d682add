"""A matrix of numbers from whatever a caller passes as X, with scikit-learn's checks of its shape and names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, validate_data

from dperm.estimators.declared import fewest_rows
from dperm.problem.arrays import Matrix, is_sparse
from dperm.tables.containers import is_list
from dperm.tables.declared import declared_width
from dperm.tables.tables import is_table, parsed

if TYPE_CHECKING:
    from dperm.estimators.base import PrivateEstimator


def read_matrix(
    estimator: PrivateEstimator, X: object, *, sparse: bool = False, reset: bool = True, named: bool = True
) -> Matrix:
    """X as float64 (or float32, if it is an array of them), every cell read alone; a sparse matrix as CSR where `sparse` allows.

    scikit-learn sees numbers only, and the names of a table's columns: its own reading of cells raises errors that quote them.
    `named=False` leaves names and number of columns unchecked, for columns that are encoded already.
    """
    matrix = parsed(X, width_of(estimator, reset=reset) if is_list(X) else None)
    limits: dict[str, object] = {
        "accept_sparse": "csr" if sparse else False,
        "dtype": [np.float64, np.float32],
        "ensure_all_finite": False,
        "ensure_min_samples": fewest_rows(estimator) if reset else 0,  # no rows have no predictions, which a score may protect
    }
    if named and not is_table(X):
        found: Matrix = validate_data(estimator, matrix, reset=reset, **limits)
        return found
    if named:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    found = check_array(matrix, estimator=estimator, **limits)
    return found


def width_of(estimator: Any, *, reset: bool) -> int | None:
    """How many columns rows in a list have: those of the schema or of the fit, or those that bounds speak of one by one."""
    schema = estimator._declared_schema() if hasattr(estimator, "_declared_schema") else None
    if schema is not None:
        return int(schema.encoding().d)
    if not reset:
        return int(estimator.n_features_in_)
    others = (getattr(estimator, name, None) for name in ("categorical", "boolean", "sparse"))
    return declared_width(getattr(estimator, "bounds", None), *others)


def row_products(X: Any, w: NDArray[np.float64]) -> NDArray[np.float64]:
    """⟨x, w⟩ of every row, one column for each row of a matrix w.

    Row by row: a product of matrices adds in an order that depends on where a row stands among the others, so that the same row
    gets other last bits in another batch, and a score of private rows would not be a function of each row alone.
    """
    if is_sparse(X):
        return np.asarray(X @ w.T)
    X = np.ascontiguousarray(X)
    return np.asarray(np.vecdot(X, w) if w.ndim == 1 else np.stack([np.vecdot(X, one) for one in w], axis=1))
