"""One column of any container as an array that holds its cells as they are; `cells.py` reads them.

**Guarantee**: what stands in a place of the array depends on the cell in that place alone. Where a container hands out a column
in a way in which one cell changes or forbids the others, its cells are taken one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from dperm.problem.arrays import offers
from dperm.tables.streams import quiet, unconverted

if TYPE_CHECKING:
    import pyarrow as pa

UUIDS = "extension<arrow.uuid>"


def column(values: object, *, exact: bool = False) -> np.ndarray:
    """Cells as an array that keeps each one as it is, from a list, an array, or a column of pandas, polars or Arrow.

    A list is a column of as many cells, whatever they are; `listed_rows` reads rows in a list. With `exact`, whole numbers beside
    a missing one do not become floats.
    """
    if isinstance(values, np.ma.MaskedArray):
        known = np.asarray(values.data).astype(object)
        known[np.ma.getmaskarray(values)] = None
        return known
    if isinstance(values, np.ndarray):
        return np.asarray(values)  # not as a matrix, which has no other shape than its own
    if is_list(values):
        return objects(values)
    if is_tabular(values):  # its rows would be read as cells: all of them missing
        raise ValueError("Expected one column, found a table. Pass the column itself, e.g. table['name'].")
    if offers(values, "dask") and offers(values, "npartitions"):
        return _of_dask(values, exact)
    if offers(values, "combine_chunks") or offers(values, "dictionary_encode"):
        return _of_arrow(values, exact)
    if hasattr(values, "to_numpy"):
        return _of_series(values, exact)
    return np.asarray(values)


def beside(values: object, *, exact: bool = False) -> np.ndarray:
    """A column that a caller passes beside the rows: labels, weights, exposures, ids.

    Of a list, every entry decides about itself: it is a cell, or a list with one cell. What else it may be is missing.

    >>> beside([[0.5], 2, [3, 4], []]).tolist()
    [0.5, 2, None, None]
    """
    return column(listed_rows(values, 1)[:, 0] if is_list(values) else values, exact=exact)


def is_tabular(values: Any) -> bool:
    """Whether something has named columns, by its type; a column of Dask offers them too, and has one dimension."""
    named = offers(values, "columns") or offers(values, "column_names")
    return named and not (offers(values, "ndim") and values.ndim == 1)


def is_list(values: object) -> TypeGuard[Sequence[object]]:
    """A list, tuple, deque or other sequence in which each entry is what it is: its type says nothing of them.

    >>> is_list([1, 2]), is_list("ab"), is_list(np.ones(2))
    (True, False, False)
    """
    return isinstance(values, Sequence) and not isinstance(values, str | bytes) and not _typed(values)


def _typed(values: Sequence[object]) -> bool:
    """Whether a sequence says itself what its cells are, as arrays and buffers do."""
    if isinstance(values, list | tuple):
        return False
    if hasattr(values, "__array__") or hasattr(values, "to_numpy"):
        return True
    try:
        return memoryview(values).ndim > 0  # type: ignore[arg-type]
    except TypeError:
        return False


def stored_kind(values: object) -> str:
    """What a column holds by its type alone, in NumPy's letters: "i", "u" and "b" are whole numbers and truth values; else "O".

    An array that is made of the column may say something else: a missing cell turns whole numbers into floats, or objects.

    >>> stored_kind(np.zeros(2, np.int8)), stored_kind([1, 2])
    ('i', 'O')
    """
    kind: Any = getattr(values, "dtype", None)
    if kind is None and (offers(values, "combine_chunks") or offers(values, "dictionary_encode")):
        return _arrow_kind(values.type)  # type: ignore[attr-defined]
    if hasattr(kind, "is_integer"):  # of polars
        return "i" if kind.is_integer() else "b" if str(kind) == "Boolean" else "O"
    return str(getattr(kind, "kind", "O"))


def holds_times(values: object) -> bool:
    """Whether a column holds dates, times or lengths of time by its type alone; a column of objects does not.

    >>> holds_times(np.zeros(2, "M8[D]")), holds_times(np.zeros(2, "m8[s]")), holds_times(np.zeros(2, object))
    (True, True, False)
    """
    kind: Any = getattr(values, "dtype", None)
    if kind is None and (offers(values, "combine_chunks") or offers(values, "dictionary_encode")):
        from pyarrow import types

        return bool(types.is_temporal(values.type))  # type: ignore[attr-defined]
    if hasattr(kind, "is_temporal"):  # of polars
        return bool(kind.is_temporal())
    return str(getattr(kind, "kind", "O")) in "mM"


def _arrow_kind(kind: Any) -> str:
    from pyarrow import types

    while hasattr(kind, "storage_type") or types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        kind = kind.storage_type if hasattr(kind, "storage_type") else kind.value_type
    return "i" if types.is_integer(kind) else "b" if types.is_boolean(kind) else "O"


def _of_series(values: Any, exact: bool) -> np.ndarray:
    """A column of pandas or polars. A missing whole number makes floats of all the others, and a cell that cannot be converted
    (a string that is no UTF-8, a date beyond Python's years) fails for all of them: such columns are read cell by cell."""
    framed = hasattr(values, "iloc")
    with suppress(Exception):
        if not framed and hasattr(values, "to_arrow"):  # polars ends the process's thread over a string that is no UTF-8
            if str(values.dtype) != "Object":  # of which Arrow would get the addresses
                return _of_arrow(values.to_arrow(), exact)
        elif not (exact and _whole_beside_missing(values)):
            array = np.asarray(values.to_numpy())
            if not (hasattr(values, "to_list") and hasattr(values, "shape") and array.ndim != len(values.shape)):
                return array  # lists of one length may be a matrix
    try:
        return objects(values.astype(object).tolist() if framed else values.to_list())
    except Exception:
        place = values.iloc if framed else values
        return objects(_alone(place, number) for number in range(len(values)))


def _of_dask(values: Any, exact: bool) -> np.ndarray:
    """A column of Dask, as the pandas column that it stands for."""
    with quiet("a Dask collection"):  # the caller's own graph may fail at a cell, and quote it
        found = unconverted(values).compute()
    return column(found, exact=exact)


def _whole_beside_missing(values: Any) -> bool:
    """Whether a column may hold whole numbers and missing ones, by its type."""
    kind = values.dtype
    return not isinstance(kind, np.dtype) and (hasattr(kind, "categories") or kind.kind in "iu")


def _alone(cells: Any, place: int) -> object:
    """One cell; one that its own column cannot hand out is missing."""
    try:
        return cells[place]
    except Exception:
        return None


def _of_arrow(values: pa.Array | pa.ChunkedArray, exact: bool) -> np.ndarray:
    import pyarrow as pa

    try:
        values = _decoded(values)
        if str(values.type) == UUIDS:
            return objects(as_python(values))
        if not (exact and pa.types.is_integer(values.type)):
            return np.asarray(_own_clock(values).to_numpy(zero_copy_only=False))
    except Exception:  # a type that NumPy does not know, or a string that is no UTF-8: each cell is read for itself
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            return np.asarray(values.cast(pa.large_binary()).to_numpy(zero_copy_only=False))
    return objects(values)


def _own_clock(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Moments with a time zone by the clock of that zone, as pandas has them; NumPy would be given those of UTC."""
    if getattr(values.type, "tz", None) is None:
        return values
    import pyarrow.compute

    return pyarrow.compute.local_timestamp(values)


def as_python(values: pa.Array | pa.ChunkedArray) -> list[object]:
    """The cells of an Arrow column as Python has them; one that Python cannot hold (a text that is no UTF-8, a date beyond its
    years) as it is stored, in bytes or as a whole number. `to_pylist` would fail for all cells of the column."""
    try:
        return list(values.to_pylist())
    except Exception:
        return [_as_python(cell) for cell in values]


def _as_python(cell: pa.Scalar) -> object:
    try:
        return cell.as_py()
    except Exception:
        return cell.as_buffer().to_pybytes() if hasattr(cell, "as_buffer") else cell.value


def _decoded(values: Any) -> Any:
    """The cells under a named type, runs and a dictionary, which may lie in each other: `to_numpy` makes floats of whole numbers
    that are stored there beside a null, and the last word of a dictionary of a null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    while True:
        kind = values.type
        if str(kind) == UUIDS:  # in storage 16 bytes that are no text: every id would be missing
            return values
        if isinstance(kind, pa.BaseExtensionType):
            chunked = isinstance(values, pa.ChunkedArray)
            parts = [part.storage for part in values.chunks] if chunked else []
            values = pa.chunked_array(parts, type=kind.storage_type) if chunked else values.storage
        elif pa.types.is_dictionary(kind):
            values = values.cast(kind.value_type)
        elif pa.types.is_run_end_encoded(kind):
            values = pc.run_end_decode(values)  # or raises, where the runs are of a named type or words of a dictionary
        else:
            return values


def objects(cells: Iterable[object]) -> np.ndarray:
    """Cells as an array of objects, each as it is: one word among numbers must not make text of them."""
    listed = list(cells)
    array = np.empty(len(listed), dtype=object)
    for place, cell in enumerate(listed):
        array[place] = cell
    return array


def listed_rows(values: Sequence[object], width: int) -> np.ndarray:
    """A list as a matrix of objects with a *declared* number of columns, one row per entry.

    An entry that is no row of so many cells is a row of missing cells: it decides about itself. Of one column an entry may be the
    cell itself.

    >>> listed_rows([[1, 2], [3, "x"], [4], 5], 2).tolist(), listed_rows([[1], 2], 1).tolist()
    ([[1, 2], [3, 'x'], [None, None], [None, None]], [[1], [2]])
    """
    matrix = np.empty((len(values), width), dtype=object)
    for place, entry in enumerate(values):
        found = _width(entry)
        if found == width:
            with suppress(Exception):  # an object that says one length and has another is a row of missing cells
                matrix[place] = objects(entry)  # type: ignore[arg-type]
        elif found is None and width == 1:
            matrix[place, 0] = entry
    return matrix


def _width(entry: object) -> int | None:
    """How many cells an entry has that is a row; None for one cell, such as an object that cannot say it."""
    try:
        return len(entry) if isinstance(entry, list | tuple) or getattr(entry, "ndim", None) == 1 else None  # type: ignore[arg-type]
    except Exception:  # whatever a foreign object raises about itself
        return None
