"""Rows on disk: tables larger than memory, read as a stream on every pass, encoded batch by batch.

    rows = ArrowRows("people/", schema, memory="1GB", cache="people.cache")
    dperm.LogisticRegression(epsilon=1.0, schema=schema).fit(rows)

A pass reads the needed columns, cuts them into the same blocks of 8,192 rows as an array in memory would be cut, encodes each
block by the public rules of the schema and sums it: the sums are the same bits. Memory is bounded by `memory`, not by the files.
With `cache=` the encoded rows are written once and later passes read them back at the speed of the disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from dperm.problem import DataBounds, FeatureMap
from dperm.rows.arrow_cache import Blocks, EncodedCache, Piece
from dperm.rows.base import BLOCK_ROWS, Block, Copied, Term, one_blas_thread, real_sum, total_counts
from dperm.rows.labelled import LabelRule, Labels, rule_of_schema, target_cells
from dperm.rows.memory import cut_block
from dperm.tables.files import Files, readable
from dperm.tables.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

Progress = Callable[[int, int, float], None]
Declared = Schema | Mapping[str, Any] | str | Path


class ArrowRows(Copied):
    """Rows of a CSV, Parquet or Arrow IPC file, or of a folder of them (partitioned or not), as a schema describes them.

    **Guarantee**: reading, encoding and clipping look at each row alone, so sensitivities are those of the rows in memory. A cell
    that does not parse is missing; a file that does not read is an error, and costs no budget unless noise was drawn before.

    Parameters
    ----------
    path : path
        A CSV, Parquet or Arrow IPC file, or a folder of them.
    schema : Schema, dict or path
        Declared columns and target.
    memory : int or str
        Bound on what a pass holds: bytes, or a text like "512MB" or "2GB". Arrow and Python take some 200 MB more.
    cache : path or None
        Folder for the encoded rows (private data in clear text: keep it as safe as the files).
    dtype : {"float64", "float32"}
        "float64" gives the bits of a table fitted in memory; "float32" halves cache and time.
    progress : callable or None
        Called with (rows done, rows, seconds) while a pass runs.
    rule : callable or None
        Takes labels to (numbers, weights); None takes the schema's own rule.
    """

    numbered = True  # rows keep the order of the files

    def __init__(
        self,
        path: object,
        schema: Declared,
        *,
        memory: int | str = "1GB",
        cache: str | Path | None = None,
        dtype: str = "float64",
        progress: Progress | None = None,
        rule: LabelRule | None = None,
    ) -> None:
        self.schema = Schema.of(schema)
        target = self.schema.declared_target.column
        if dtype not in ("float32", "float64"):
            raise ValueError(f"Expected dtype 'float32' or 'float64', found {dtype!r}.")
        self.dtype = np.dtype(dtype)
        self.encoding = self.schema.encoding()
        self.columns = [column for column in self.schema.columns if column.type != "ignored"]
        needed = [column.name for column in self.columns] + [target]
        self.memory = byte_count(memory)
        self.files = self._opened(path, list(dict.fromkeys(needed)))
        self._state = self._file_state()
        self.progress = progress
        self.labels = Labels(self.schema, rule or rule_of_schema(self.schema))
        self.n = self._counted()
        self.cache: EncodedCache | None = None
        if cache is not None:
            self.cache = EncodedCache(Path(cache), self.n, self.encoding.d, self.dtype)
            # The encoding is part of the key: a schema may mean other rows in another version.
            key = {"schema": self.schema.spec(), "files": self._told_apart_by(), "dtype": dtype}
            key["encoding"] = self.encoding.spec()
            self.cache.fill(key, lambda: self._reported(self._raw_blocks()))

    def _opened(self, path: Any, columns: list[str]) -> Any:
        return Files.open(path, columns, self._read_ahead())

    def _file_state(self) -> object:
        """What shows that files were written during a fit: names, sizes and times."""
        with readable(self.files.root.name):
            return self.files.fingerprint()

    def _counted(self) -> int:
        return int(self.files.n)

    def _told_apart_by(self) -> object:
        """What a cache must match."""
        return self.files.fingerprint()

    @property
    def d(self) -> int:
        return self.encoding.d

    def labelled(self, rule: LabelRule) -> Self:
        """The same rows with labels by another public rule: an estimator's classes or bounds."""
        return self._copy(labels=Labels(self.schema, rule))

    def bounded(self, data: DataBounds, feature_map: FeatureMap | None = None) -> Self:
        return self._copy(data=data, feature_map=feature_map)

    def recognised_by(self) -> Path | bytes:
        """What a ledger recognises the data set by: the bytes of the file, or of all files in the folder."""
        return Path(self.files.root)

    def sum(self, term: Term, step: float) -> NDArray[np.float64]:
        return real_sum(term, total_counts(self.blocks(), term, step), step)

    def blocks(self) -> Iterator[Callable[[], Block]]:
        """One maker per block; the thread that takes it decodes, encodes and clips."""
        done = 0
        for start, read in self._reported(self.cache.blocks() if self.cache is not None else self._raw_blocks()):
            yield partial(self._block, start, read)
            done = min(start + BLOCK_ROWS, self.n)
        if done != self.n:
            raise ValueError("Expected as many rows as at the start, found another number. Do not change the files during a fit.")
        if self.cache is None and self._file_state() != self._state:
            raise ValueError(
                "Expected files that stay as they are during a fit, found one that was written meanwhile: passes would see "
                "different rows. Fit again when nobody writes. Nothing was released by this pass."
            )
        if self.n == 0:  # where the number of rows is protected, nobody may learn that there are none
            yield partial(self._block, 0, lambda: (np.zeros((0, self.d), dtype=self.dtype), np.zeros(0)))

    def tables(self) -> Iterator[pa.Table]:
        """The needed columns as they are stored, a table of at most 8,192 rows at a time: what predictions are made for."""
        import pyarrow as pa

        return (pa.Table.from_batches([batch]) for batch in self.files.batches(BLOCK_ROWS) if batch.num_rows)

    def _reported(self, pieces: Blocks) -> Blocks:
        """The same pieces; the caller's progress hears of each when the next is asked for."""
        began = time.perf_counter()
        for start, read in pieces:
            yield start, read
            if self.progress is not None:
                self.progress(min(start + BLOCK_ROWS, self.n), self.n, time.perf_counter() - began)

    def _block(self, start: int, read: Callable[[], Piece]) -> Block:
        X, values = read()
        if len(values) != min(BLOCK_ROWS, self.n - start):
            raise ValueError("Expected as many rows as at the start, found another number. Do not change the files during a fit.")
        y, weight = self.labels(values)
        return cut_block(X, y, weight, start if self.numbered else None, self.data, self.feature_map)

    def _raw_blocks(self) -> Blocks:
        """(first row, reader) of every block, from the files. Batches end where files and row groups end; blocks do not."""
        held: list[pa.RecordBatch] = []
        rows, start = 0, 0
        for batch in self.files.batches(BLOCK_ROWS):
            while batch.num_rows:
                part = batch.slice(0, BLOCK_ROWS - rows)
                batch = batch.slice(part.num_rows)
                held.append(part)
                rows += part.num_rows
                if rows == BLOCK_ROWS:
                    yield start, partial(self._encode, held)
                    held, rows, start = [], 0, start + BLOCK_ROWS
        if rows:
            yield start, partial(self._encode, held)

    def _encode(self, batches: list[pa.RecordBatch]) -> Piece:
        """Encoded rows (dense, or CSR where the schema says so) and target cells of a block."""
        import pyarrow as pa

        table = pa.Table.from_batches(batches)
        return self.schema.encoded(table).astype(self.dtype, copy=False), target_cells(self.schema, table)

    def _read_ahead(self) -> int:
        """How many batches may be decoded ahead, within half of the budget; the other half holds blocks being summed."""
        with one_blas_thread() as threads:
            block = BLOCK_ROWS * self.encoding.d * 8 * 4 * threads
        batch = BLOCK_ROWS * 16 * (len(self.columns) + 1)
        if block + batch > self.memory:
            raise ValueError(
                f"Expected memory of at least {(block + batch) / 1e6:.0f} MB for {self.encoding.d} encoded columns on {threads} "
                f"threads, found {self.memory / 1e6:.0f} MB. Raise memory=, or set OMP_NUM_THREADS=1."
            )
        return int(min(max((self.memory - block) // (2 * batch), 1), 16))


def byte_count(memory: int | str) -> int:
    """Bytes from a number or a text.

    >>> byte_count("512MB"), byte_count(1000)
    (512000000, 1000)
    """
    units = {"KB": 1e3, "MB": 1e6, "GB": 1e9}
    if isinstance(memory, str):
        number, unit = memory.strip()[:-2], memory.strip()[-2:].upper()
        try:
            memory = int(float(number) * units[unit])
        except (KeyError, ValueError, OverflowError):
            raise ValueError(f'Expected memory like "512MB" or "2GB", found {memory!r}.') from None
    if memory <= 0:
        raise ValueError(f"Expected memory > 0, found {memory}. Pass bytes, or a text like '1GB'.")
    return int(memory)
