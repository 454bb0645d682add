"""Memory maps: arrays that show whatever is written into their file while a fit runs.

A pass keeps its bound whatever it sees, but a minimiser of several passes, or a search that fits again, speaks of one table. So
the file of a memory map is treated as other files are: its name, size and time must stay. Arrays in memory have no such mark:
whoever passes one leaves it alone until the fit is done.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from dperm.problem.arrays import offers
from dperm.tables.tables import is_table, stored_columns


@dataclass(frozen=True)
class MappedFiles:
    """The files under some arrays, tensors, sparse matrices or tables, and what they were when they were first looked at."""

    state: tuple[tuple[str, int, int, int], ...]

    @classmethod
    def of(cls, *arrays: object) -> MappedFiles:
        names = _files([piece for array in arrays for piece in _pieces(array)])
        return cls(tuple(_state(name) for name in sorted(names)))

    def check(self) -> None:
        """Refuse, before noise is drawn, what was written since."""
        if any(_state(name) != (name, *then) for name, *then in self.state):
            raise ValueError(
                "Expected memory maps whose files stay as they are during a fit, found one that was written meanwhile: passes "
                "would see different rows. Fit again when nobody writes, or pass a copy. Nothing was released by this pass."
            )


def _named(array: np.ndarray) -> str | None:
    """The file of the memory map that an array is a view of, as far as arrays and buffers say whose memory they see."""
    seen: object = array
    while isinstance(seen, np.ndarray | memoryview):
        if isinstance(seen, np.memmap) and seen.filename is not None:
            return os.path.realpath(seen.filename)
        seen = seen.obj if isinstance(seen, memoryview) else seen.base
    return None


def _owned(piece: np.ndarray | tuple[int, int]) -> bool:
    """True of an array, or a view of one, whose cells NumPy itself allocated: no file lies under it.

    >>> _owned(np.zeros((3, 2)).T[1:]), _owned(np.frombuffer(bytes(8)))
    (True, False)
    """
    while isinstance(piece, np.ndarray) and piece.base is not None:
        piece = piece.base
    return isinstance(piece, np.ndarray) and bool(piece.flags.owndata)


def _files(pieces: list[np.ndarray | tuple[int, int]]) -> set[str]:
    """The files under some memory. The system's list is long: it is read only where NumPy does not answer by itself."""
    foreign = [piece for piece in pieces if not _owned(piece)]
    found, maps = set(), _maps() if foreign else []
    for piece in foreign:
        if isinstance(piece, np.ndarray):
            if (name := _named(piece)) is not None:
                found.add(name)
            piece = byte_bounds(piece)
        low, high = piece
        found |= {os.path.realpath(name) for first, last, name in maps if low < last and first < high}
    return found


def _pieces(holder: object) -> Iterator[np.ndarray | tuple[int, int]]:
    """The memory in which the cells lie: arrays, or addresses."""
    part: Any = holder
    if isinstance(part, np.ndarray):
        yield part
    elif offers(part, "untyped_storage"):
        if str(part.device) == "cpu" and str(part.layout) == "torch.strided":
            start = int(part.data_ptr())
            yield start, start + int(part.untyped_storage().nbytes() - part.storage_offset() * part.element_size())
    elif offers(part, "tocsr"):
        stored = (getattr(part, name, None) for name in ("data", "indices", "indptr", "row", "col"))
        yield from (one for one in stored if isinstance(one, np.ndarray))
    elif offers(part, "buffers"):  # of an Arrow array
        yield from ((one.address, one.address + one.size) for one in part.buffers() if one is not None)
    elif offers(part, "chunks") and offers(part, "combine_chunks"):
        for one in part.chunks:
            yield from _pieces(one)
    elif is_table(part):
        for column in stored_columns(part):
            yield from _pieces(column)
    elif hasattr(part, "to_arrow") and part.dtype.is_numeric():  # a column of polars, without a copy
        for one in part.get_chunks():
            yield from _pieces(one.to_arrow())
    elif isinstance(getattr(part, "dtype", None), np.dtype) and hasattr(part, "to_numpy"):
        yield part.to_numpy()
    elif hasattr(part, "array"):  # a column of pandas whose type is not NumPy's: over Arrow, or an array beside a mask
        held = part.array
        yield from _pieces(getattr(held, "_pa_array", getattr(held, "_data", None)))
    elif isinstance(part, memoryview):
        yield np.asarray(part)


def _maps() -> list[tuple[int, int, str]]:
    """(first address, the one after the last, file) of every file that this process has mapped, where the system tells.

    An array does not always know: torch keeps no trace of the memory map that a tensor was made of.
    """
    try:
        lines = Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        area, _, _, _, number, *rest = line.split(maxsplit=5)
        if number != "0" and rest:
            first, last = (int(side, 16) for side in area.split("-"))
            found.append((first, last, rest[0]))
    return found


def _state(name: str) -> tuple[str, int, int, int]:
    try:
        found = os.stat(name)
    except OSError:  # removed: the map keeps what it shows, and nothing can be written under the name
        return name, -1, -1, -1
    return name, found.st_ino, found.st_size, found.st_mtime_ns
