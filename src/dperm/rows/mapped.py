"""Memory maps: arrays that show whatever is written into their file while a fit runs.

A pass keeps its bound whatever it sees, but a minimiser of several passes, or a search that fits again, speaks of one table. So
the file of a memory map is treated as other files are: its name, size and time must stay. Arrays in memory have no such mark:
whoever passes one leaves it alone until the fit is done.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class MappedFiles:
    """The files under some arrays, and what they were when they were first looked at."""

    state: tuple[tuple[str, int, int, int], ...]

    @classmethod
    def of(cls, *arrays: object) -> MappedFiles:
        return cls(tuple(_state(name) for array in arrays if (name := _file(array)) is not None))

    def check(self) -> None:
        """Refuse, before noise is drawn, what was written since."""
        if any(_state(name) != (name, *then) for name, *then in self.state):
            raise ValueError(
                "Expected memory maps whose files stay as they are during a fit, found one that was written meanwhile: passes "
                "would see different rows. Fit again when nobody writes, or pass a copy. Nothing was released by this pass."
            )


def _file(array: object) -> str | None:
    """The file that an array is a view of."""
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap) and array.filename is not None:
            return os.fspath(array.filename)
        array = array.base
    return None


def _state(name: str) -> tuple[str, int, int, int]:
    try:
        found = os.stat(name)
    except OSError:  # removed: the map keeps what it shows, and nothing can be written under the name
        return name, -1, -1, -1
    return name, found.st_ino, found.st_size, found.st_mtime_ns
