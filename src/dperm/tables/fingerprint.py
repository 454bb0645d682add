"""A digest of a data set's content: a file's bytes, a table's columns, arrays, or rows of an engine.

It is private: the ledger keeps it. Rows say themselves what they are recognised by, whatever was declared about them: rows
on disk by the bytes of their files (as `Ledger(path, data=file)` is), rows in memory or on a GPU by their array, rows on a
cluster by their cells in blocks of 8,192 rows, whatever the partitions.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dperm.problem.arrays import offers
from dperm.tables.containers import column, is_list, objects
from dperm.tables.tables import cells, column_names, is_table

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Digest(Protocol):
    """A hash that is fed piece by piece."""

    def update(self, data: ReadableBuffer, /) -> None: ...


def digest(data: object) -> bytes:
    """SHA-256 of a path's bytes, of a table's named columns, of a tuple of arrays, or of ready-made bytes.

    >>> digest(np.zeros(3)) == digest(np.zeros(3)), digest(np.zeros(3)) == digest(np.ones(3))
    (True, False)
    """
    found = hashlib.sha256()
    _feed(found, data)
    return found.digest()


def recognisable(data: object) -> bool:
    """Whether `digest` has a rule for it."""
    if offers(data, "recognised_by"):
        return True
    known = isinstance(data, str | Path | Sequence) or offers(data, "__array__")  # a custom engine of rows is neither
    return known or (data is not None and (is_table(data) or offers(data, "tocsr")))


def _feed(found: Digest, data: Any) -> None:
    if isinstance(data, bytes):
        found.update(b"bytes" + data)
    elif isinstance(data, str | Path):
        _feed_path(found, Path(data))
    elif isinstance(data, tuple):
        for part in data:
            _feed_part(found, part)
    elif offers(data, "recognised_by"):
        _feed(found, data.recognised_by())
    elif data is None:
        found.update(b"none")
    elif is_table(data):
        for name in column_names(data):
            found.update(f"column {name}".encode())
            values = cells(data, name)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what an object says of itself would tell that it is there
                values = values if values.dtype.kind in "fiub" else objects(map(_present, values))
            _feed(found, values)
    elif offers(data, "tocsr"):
        rows = data.tocsr()
        _feed(found, (np.array(rows.shape), rows.indptr, rows.indices, rows.data))
    else:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # a masked cell in a list
                array = np.ascontiguousarray(data if isinstance(data, np.ndarray) or is_list(data) else column(data))
        except Exception:  # a list among numbers: the cells stay as they are
            array = column(data)
        found.update(f"array {array.dtype.str} {array.shape}".encode())
        found.update(_written(array.tolist(), array.ndim + is_list(data)) if array.dtype.hasobject else _bytes(array))


def _feed_part(found: Digest, part: object) -> None:
    """An array of several, or a row or cell of rows in a tuple: its text is no path, and an error would tell that it is there."""
    if isinstance(part, str | Path):
        found.update(_written(part, 0))
        return
    try:
        _feed(found, part)
    except Exception:
        found.update(_written(part, 0))


def _bytes(array: np.ndarray) -> ReadableBuffer:
    """The bytes of a contiguous array where they lie: a memory map may be larger than memory."""
    return array.reshape(-1).view(np.uint8).data if array.size and array.itemsize else b""


def _present(cell: object) -> object:
    """The cell, or None for the nulls of other libraries, so that a table keeps its digest in each of them."""
    try:
        return None if type(cell).__name__ == "NAType" or bool(cell != cell) else cell
    except Exception:  # an array, a signalling NaN
        return cell


def _written(cells: object, levels: int) -> bytes:
    """The cells, in as many levels of lists, as Python writes them; one that cannot be written leaves its type."""
    try:
        return repr(cells).encode(errors="backslashreplace")
    except Exception:  # an integer of 5,000 digits, an object that raises, lists in lists without end
        if levels and isinstance(cells, list):
            return b"[" + b", ".join(_written(cell, levels - 1) for cell in cells) + b"]"
        return f"<{type(cells).__name__}>".encode()


def _feed_path(found: Digest, path: Path) -> None:
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    if not files or not files[0].exists():
        raise ValueError(f"Expected a file at {path}, found none. Check the path.")
    for file in files:
        found.update(b"file")
        with file.open("rb") as handle:
            while chunk := handle.read(1 << 20):
                found.update(chunk)
