"""Encoded rows as cells of bytes: what a cluster keeps between passes, and reads back as whole blocks without touching a row.

A cell holds the numbers of some whole rows, one column of cells for each kind of number. Arrow lays the cells of a column end to
end, so that the bytes of many cells are one matrix as they stand. A cell is small (16 kB): engines move thousands of cells in
one Arrow batch, whose columns may hold 2 GB.

    rows      how many rows the cell holds          values    one float64 a row: label, or target cell by the schema's rules
    entries   the encoded rows, or stored entries   weight    one float64 a row, or nothing
    places    columns of the stored entries (CSR)   keys      16 bytes a row: a key that no other row has, or nothing
    counts    stored entries of every row (CSR)     mark      Σ of the rows' checksums, mod 2⁶⁴
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dperm.problem.arrays import Matrix, Vector, is_sparse

if TYPE_CHECKING:
    import pyarrow as pa

CELL_BYTES = 1 << 14
KEY_BYTES = 16
BINARY = ("entries", "places", "counts", "values", "weight", "keys")
SPARK_TYPES = "rows int, " + ", ".join(f"{name} binary" for name in BINARY) + ", mark bigint"


@dataclass(frozen=True, eq=False)
class Piece:
    """Some encoded rows, in no order that means anything; `mark` has one checksum per row."""

    X: Matrix
    values: Vector
    weight: Vector | None
    keys: NDArray[np.void] | None
    mark: NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """What the bytes of a cell are: public numbers, the same for every cell."""

    d: int
    dtype: str
    sparse: bool

    def packed(self, piece: Piece, rows_per_cell: int | None = None) -> pa.RecordBatch:
        """The piece as a record batch of cells."""
        import pyarrow as pa

        n = len(piece.values)
        size = max(CELL_BYTES // max(self.d * np.dtype(self.dtype).itemsize, 1), 1) if rows_per_cell is None else rows_per_cell
        starts = np.append(np.arange(0, n, size), n)
        columns = {"rows": pa.array(np.diff(starts).astype(np.int32))}
        for name, (array, ends) in self._arrays(piece).items():
            columns[name] = _cells(array, starts if ends is None else ends[starts], len(starts) - 1)
        marks = np.add.reduceat(piece.mark, starts[:-1]) if n else piece.mark
        return pa.RecordBatch.from_pydict({**columns, "mark": pa.array(marks, type=pa.int64())})

    def _arrays(self, piece: Piece) -> dict[str, tuple[np.ndarray | None, np.ndarray | None]]:
        """Each column's numbers, and where every row begins among them unless it has one."""
        X = piece.X
        found: dict[str, tuple[np.ndarray | None, np.ndarray | None]]
        if is_sparse(X):
            found = {"entries": (X.data, X.indptr), "places": (X.indices.astype(np.int32), X.indptr)}
            found["counts"] = (np.diff(X.indptr).astype(np.int32), None)
        else:
            found = {"entries": (X, None), "places": (None, None), "counts": (None, None)}
        return found | {"values": (piece.values, None), "weight": (piece.weight, None), "keys": (piece.keys, None)}

    def unpacked(self, batch: pa.RecordBatch) -> Piece:
        """All rows of a batch of cells, as views of its memory; the checksums are those of the cells."""
        entries = _numbers(batch, "entries", self.dtype)
        values = _numbers(batch, "values", np.float64)
        shape = (len(values), self.d)
        if self.sparse:
            from scipy.sparse import csr_array

            ends = np.concatenate([[0], np.cumsum(_numbers(batch, "counts", np.int32), dtype=np.int64)])
            X: Matrix = csr_array((entries, _numbers(batch, "places", np.int32), ends), shape=shape)
        else:
            X = entries.reshape(shape)
        weight, keys = _numbers(batch, "weight", np.float64), _numbers(batch, "keys", f"V{KEY_BYTES}")
        mark = np.asarray(batch.column("mark").to_numpy(zero_copy_only=False), dtype=np.int64)
        return Piece(X, values, weight if len(weight) else None, keys if len(keys) else None, mark)


def row_digests(piece: Piece) -> NDArray[np.void]:
    """16 bytes of every row's content, by BLAKE2: equal for equal rows, whatever order or storage they come in.

    -0.0, the mark of a missing cell, is another content than 0.0.
    """
    X, others = piece.X, np.column_stack([piece.values, *([] if piece.weight is None else [piece.weight])])
    if is_sparse(X):
        X = X.copy()
        X.sort_indices()
    found = np.empty(len(others), dtype=f"V{KEY_BYTES}")
    for i, behind in enumerate(others):
        told = hashlib.blake2b(behind.tobytes(), digest_size=KEY_BYTES)
        if is_sparse(X):
            stored = slice(X.indptr[i], X.indptr[i + 1])
            told.update(X.indices[stored].astype(np.int32).tobytes())
            told.update(X.data[stored].tobytes())
        else:
            told.update(X[i].tobytes())
        found[i] = np.void(told.digest())
    return found


def content_mark(X: Matrix, values: Vector) -> int:
    """Σ of a checksum of every encoded row, mod 2⁶⁴: the same for the same rows in any order, other where one cell differs."""
    if is_sparse(X):
        entries = _mixed(_bits(X.data) + _mixed(X.indices.astype(np.uint64) + np.uint64(1)))
        per_row = type(X)((entries.view(np.int64), X.indices, X.indptr), shape=X.shape) @ np.ones(X.shape[1], dtype=np.int64)
        marks: NDArray[np.uint64] = per_row.view(np.uint64)
    else:
        places = _mixed(np.arange(1, X.shape[1] + 1, dtype=np.uint64))
        marks = np.zeros(len(values), dtype=np.uint64)
        for j, place in enumerate(places):
            marks += _mixed(_bits(X[:, j]) + place)
    return int(np.sum(_mixed(marks + _mixed(_bits(values))), dtype=np.uint64))


def _bits(values: np.ndarray) -> NDArray[np.uint64]:
    return np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64, entry by entry."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _cells(array: np.ndarray | None, starts: np.ndarray, count: int) -> pa.Array:
    """The bytes of an array as `count` cells that begin at these entries; empty cells where there is no array."""
    import pyarrow as pa

    if array is None:
        return pa.array([b""] * count, type=pa.binary())
    array = np.ascontiguousarray(array)
    width = array.dtype.itemsize * (array.shape[1] if array.ndim == 2 else 1)
    offsets = (np.asarray(starts, dtype=np.int64) * width).astype(np.int32)
    data = array.view(np.uint8) if array.dtype.kind != "V" else np.frombuffer(array.tobytes(), dtype=np.uint8)
    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _numbers(batch: pa.RecordBatch, name: str, dtype: DTypeLike) -> np.ndarray:
    """The bytes of a column of cells, end to end, as one array."""
    column = batch.column(name)
    if not len(column):
        return np.zeros(0, dtype=dtype)
    _, offsets, data = column.buffers()
    wide = np.int64 if str(column.type).startswith("large") else np.int32
    ends = np.frombuffer(offsets, dtype=wide)[column.offset : column.offset + len(column) + 1]
    found = np.frombuffer(b"" if data is None else data, dtype=np.uint8)[int(ends[0]) : int(ends[-1])].view(dtype)
    return np.require(found, requirements=["A"])
