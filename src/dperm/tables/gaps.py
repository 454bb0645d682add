"""The mark of a missing cell in encoded rows.

A missing cell is stored as **-0.0**, and no present cell is: the encoding adds 0.0 to those, which turns -0.0 into 0.0. So every
engine, dtype and file keeps the mark without storing anything beside the rows. To a term that does not ask, a missing cell is
the number 0, which is the middle of the bounds in encoded units: bounds on the norm of a row hold as they are, and a missing cell
adds nothing to a sum of rows. Clipping a row multiplies it by a positive number, which keeps the mark.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dperm.problem.arrays import Matrix

GAP = -0.0


def is_gap(X: object) -> NDArray[np.bool_]:
    """Which entries of a NumPy array are missing cells.

    >>> is_gap(np.array([0.0, -0.0, -1.0])).tolist()
    [False, True, False]
    """
    array = np.asarray(X)
    if array.dtype == np.float64:
        return np.asarray(array.view(np.int64) == np.iinfo(np.int64).min)  # one comparison: only the sign bit is set
    if array.dtype == np.float32:
        return np.asarray(array.view(np.int32) == np.iinfo(np.int32).min)
    return np.asarray((array == 0) & np.signbit(array)) if array.dtype.kind == "f" else np.zeros(array.shape, dtype=bool)


def with_gaps_stored(rows: np.ndarray) -> Matrix:
    """A dense array as CSR that stores missing cells beside the entries that are not 0."""
    return kept_entries(rows, np.broadcast_to(np.arange(rows.shape[1], dtype=np.int32), rows.shape), rows.shape[1])


def kept_entries(values: np.ndarray, columns: np.ndarray, d: int) -> Matrix:
    """CSR rows from n × k values and their columns, without the zeros that mark nothing."""
    from scipy.sparse import csr_array

    kept = (values != 0) | is_gap(values)
    ends = np.concatenate([[0], np.cumsum(kept.sum(axis=1))]).astype(np.int32)
    return csr_array((values[kept], columns[kept].astype(np.int32, copy=False), ends), shape=(len(values), d))
