"""Rows of tables that another engine holds: DuckDB, polars, Arrow datasets, functions that yield record batches.

    dperm.LinearRegression(epsilon=1.0, schema=schema).fit(duckdb.sql("SELECT * FROM 'people/*.parquet' WHERE year > 2020"))
    dperm.LinearRegression(epsilon=1.0, schema=schema).fit(polars.scan_parquet("people/*.parquet"))
    dperm.LinearRegression(epsilon=1.0).fit(dperm.rows_from(lambda: table.scan().to_arrow_batch_reader(), schema))

The query runs again for every pass, unless `cache=` names a folder for the encoded rows. Engines may give rows in another order
each time, so rows have no numbers here (as on Spark), and every pass must give the rows that the first one gave: their number
and the sum of their checksums are compared, twice before anything is spent and then after every pass.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import vstack

from dperm.problem.arrays import is_sparse, offers
from dperm.rows.arrow import ArrowRows, Declared
from dperm.rows.arrow_cache import Piece
from dperm.rows.base import Rows, Term
from dperm.rows.packed import content_mark
from dperm.tables.streams import Stream, open_stream

if TYPE_CHECKING:
    import pyarrow as pa


class StreamRows(ArrowRows):
    """Rows of anything that yields Arrow batches as often as it is asked, as a schema describes them.

    Parameters are those of `ArrowRows`, with the source in place of a path.
    """

    numbered = False

    def __init__(self, source: object, schema: Declared, **options: Any) -> None:
        self._seen: list[int] = []
        self.mark: int | None = None
        super().__init__(source, schema, **options)
        if self.cache is None:
            self._drained()
        elif self._seen:  # the cache was written just now
            self._compare(self._seen)

    def _opened(self, path: object, columns: list[str]) -> Stream:
        stream = open_stream(path, columns)
        if stream is None:
            raise ValueError(
                f"Expected something that yields Arrow batches, found {type(path).__name__}. Pass a DuckDB relation, a polars "
                "LazyFrame, an Arrow dataset, or a function that yields record batches."
            )
        return stream

    def _file_state(self) -> object:
        return None  # passes are compared by their rows

    def _counted(self) -> int:
        rows = self._drained()
        self.mark, self._seen = sum(self._seen) % 2**64, []
        return rows

    def _drained(self) -> int:
        """Read everything once; how many rows there were. From the second time on, compared with the first."""
        fresh = self._copy(_seen=[])
        rows = sum(len(read()[1]) for _, read in fresh._raw_blocks())
        self._seen = fresh._seen
        if self.mark is not None:
            self._compare(fresh._seen)
        return rows

    def _compare(self, seen: list[int]) -> None:
        if sum(seen) % 2**64 != self.mark:
            raise ValueError(
                "Expected a query that gives the same rows whenever it runs, found one that does not: two passes disagree. Write "
                "its result to a file, or pass cache= with a folder for the encoded rows."
            )

    def _encode(self, batches: list[pa.RecordBatch]) -> Piece:
        """A function may store each batch as its cells suggest: batches of one type are encoded together, whatever others are,
        because an error about types would tell that some cell is odd."""
        parts = [super(StreamRows, self)._encode(list(alike)) for _, alike in groupby(batches, key=lambda batch: batch.schema)]
        rows: list[Any] = [X for X, _ in parts]
        X = rows[0] if len(rows) == 1 else vstack(rows, format="csr") if is_sparse(rows[0]) else np.concatenate(rows)
        values = np.concatenate([part for _, part in parts])
        self._seen.append(content_mark(X, values))
        return X, values

    def _told_apart_by(self) -> object:
        return ["stream", self.n, self.mark]

    def recognised_by(self) -> Path | bytes:
        """What a ledger recognises the data set by: the encoded cells, in any order."""
        return f"stream {self.n} {self.mark}".encode()

    def sum(self, term: Term, step: float) -> NDArray[np.float64]:
        if self.cache is not None:
            return super().sum(term, step)
        fresh = self._copy(_seen=[])
        total = ArrowRows.sum(fresh, term, step)
        self._compare(fresh._seen)
        return total


def rows_from(source: Any, schema: Any = None, **options: Any) -> Rows:
    """Rows of whatever holds a table.

    Parameters
    ----------
    source : path, Spark DataFrame, Dask collection, DuckDB relation, polars LazyFrame, Arrow dataset, or callable
        A callable yields record batches (or Arrow tables) anew whenever it is called.
    schema : Schema, dict or path
        Declared columns and target.
    options : keywords
        Options of the engine: those of `ArrowRows`, `SparkRows` or `DaskRows`.
    """
    if offers(source, "bounded") and offers(source, "sum"):
        found: Rows = source
        return found
    if isinstance(source, str | Path):
        return ArrowRows(source, schema, **options)
    kind = type(source).__module__.split(".")[0]
    if kind == "pyspark":
        from dperm.rows.spark import SparkRows

        return SparkRows(source, schema, **options)
    if kind == "dask":
        from dperm.rows.dask import DaskRows

        return DaskRows(source, schema=schema, **options)
    return StreamRows(source, schema, **options)
