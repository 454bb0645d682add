"""Encoded rows on disk: written once, read back block by block at the speed of the disk.

Plain arrays of numbers and a key (key.json) that names this format, the files, their sizes and times, the schema and the dtype.
Only a folder that holds such a key and nothing but a cache's own files is ever replaced. Dense rows
are n × d numbers; CSR rows are their entries, the columns of the entries and the number of entries in every row. `blocks.npy`
says where each block's entries begin. Blocks are read into buffers rather than mapped: mapped pages count as resident memory, and
the budget is about that. The folder is readable by its owner alone, and appears under its name only when it is complete.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from dperm.problem.arrays import Matrix, is_sparse
from dperm.rows.base import BLOCK_ROWS

Piece = tuple[Matrix, NDArray[np.float64]]
Blocks = Iterator[tuple[int, Callable[[], Piece]]]
FORMAT = "dperm-cache/1"
NAMES = frozenset({"key.json", "blocks.npy", "entries", "columns", "counts", "cells"})


class EncodedCache:
    """n × d encoded rows and n target cells in a folder."""

    def __init__(self, folder: Path, n: int, d: int, dtype: np.dtype) -> None:
        # Behind a link: the folder itself is replaced, and a link would be left without it.
        self.folder, self.n, self.d, self.dtype = folder.resolve(), n, d, dtype

    def fill(self, key: Mapping[str, object], blocks: Callable[[], Blocks]) -> None:
        """Write the cache unless it is there for the same key; our cache of other files or another schema is replaced.

        A folder that is no cache of this format is refused and left as it is: nothing in it is deleted.
        """
        text = json.dumps({"format": FORMAT, **key}, sort_keys=True, default=str)
        self._refuse_others()
        key_file = self.folder / "key.json"
        if key_file.exists() and key_file.read_text(encoding="utf-8") == text:
            return
        draft = self.folder.with_name(f"{self.folder.name}.draft-{secrets.token_hex(8)}")  # a name that nobody else has
        try:
            draft.mkdir(mode=0o700, parents=True)
            self._write(draft, blocks())
            (draft / "key.json").write_text(text, encoding="utf-8")
            self._clear()
            draft.rename(self.folder)
        except OSError as error:
            raise ValueError(
                f"Expected room for the encoded rows at {self.folder}, found: {error.strerror or type(error).__name__}. "
                "Free some space, pass another cache= folder, or cache=None. Nothing was spent."
            ) from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _refuse_others(self) -> None:
        """Raise unless the folder is new, empty, or a cache of ours: a key of this format beside files of a cache's names."""
        if not self.folder.exists():
            return
        found = {part.name: part.is_file() for part in self.folder.iterdir()} if self.folder.is_dir() else {".": False}
        ours = "key.json" in found and all(name in NAMES and plain for name, plain in found.items())
        if found and not (ours and self._format() == FORMAT):
            raise ValueError(
                "Expected an empty or new folder for the cache, or a cache that this version of dperm made, found other files at "
                f"{self.folder}. Pass another cache= folder; if it is an old cache, delete it yourself. Nothing was deleted."
            )

    def _format(self) -> object:
        try:
            key = json.loads((self.folder / "key.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        return key.get("format") if isinstance(key, dict) else None

    def _clear(self) -> None:
        """Take away our own files by name, then the empty folder; whatever else has come meanwhile stops the removal."""
        if self.folder.exists():
            for name in NAMES:
                (self.folder / name).unlink(missing_ok=True)
            self.folder.rmdir()

    def _write(self, draft: Path, blocks: Blocks) -> None:
        starts, written = [0], 0
        with ExitStack() as stack:
            files: dict[str, BinaryIO] = {}
            for _, read in blocks:
                X, values = read()
                arrays = {"entries": X}
                if is_sparse(X):
                    arrays = {"entries": X.data, "columns": X.indices, "counts": np.diff(X.indptr)}
                for name, array in {**arrays, "cells": values}.items():
                    if name not in files:
                        files[name] = stack.enter_context((draft / name).open("wb"))
                    files[name].write(np.ascontiguousarray(array, dtype=self._type(name)).data)
                starts.append(starts[-1] + arrays["entries"].size)
                written += len(values)
            for file in files.values():
                file.flush()
                os.fsync(file.fileno())
        np.save(draft / "blocks.npy", np.array(starts, dtype=np.int64))
        if written != self.n:
            raise ValueError("Expected as many rows as when the files were opened, found another number. Do not change them.")

    def _type(self, name: str) -> np.dtype:
        return {"entries": self.dtype, "cells": np.dtype(np.float64)}.get(name, np.dtype(np.int32))

    def blocks(self) -> Blocks:
        starts = np.load(self.folder / "blocks.npy")
        sparse = (self.folder / "counts").exists()
        for number, start in enumerate(range(0, self.n, BLOCK_ROWS)):
            yield start, partial(self._read, sparse, start, int(starts[number]), int(starts[number + 1]))

    def _read(self, sparse: bool, start: int, first: int, last: int) -> Piece:
        rows = min(BLOCK_ROWS, self.n - start)
        entries = self._part("entries", first, last - first)
        cells = self._part("cells", start, rows)
        if not sparse:
            return entries.reshape(rows, self.d), cells
        from scipy.sparse import csr_array

        ends = np.concatenate([np.zeros(1, dtype=np.int32), np.cumsum(self._part("counts", start, rows), dtype=np.int32)])
        return csr_array((entries, self._part("columns", first, last - first), ends), shape=(rows, self.d)), cells

    def _part(self, name: str, first: int, count: int) -> np.ndarray:
        """Each read opens its own file, so that no thread can move or close another's."""
        kind = self._type(name)
        array = np.fromfile(self.folder / name, dtype=kind, count=count, offset=first * kind.itemsize)
        if len(array) != count:
            raise ValueError("Expected a whole cache, found one that ends early. Delete the cache folder and fit again.")
        return array
