"""Tables that another engine holds, as record batches: DuckDB, polars, Arrow datasets, or any function that yields batches.

They have the face of `dperm.tables.files.Files`: names and types, and batches that can be asked for again. Rows come in whatever
order the engine likes; nothing may follow from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dperm.problem.arrays import offers
from dperm.words.spelling import closest, quoted

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

Opened = Callable[[list[str], int], Iterable["pa.Table | pa.RecordBatch"]]


@contextmanager
def quiet(where: str) -> Iterator[None]:
    """Errors of the engine, or of the caller's function, without their text, which may quote a cell."""
    try:
        yield
    except Exception as error:
        raise ValueError(
            f"Expected {where} that reads to its end, found a failure ({type(error).__name__}). Its message may quote a record "
            "and is not repeated here: run the query on its own. Nothing was released."
        ) from None


def unconverted(X: Any) -> Any:
    """A frame that was made of a pandas one, with the cells of that one.

    By default Dask turns a column of objects into text: bytes become their spelling, and one cell that cannot be written, such as
    half a surrogate pair, is an error. Frames that are computed from others in ways that Dask cannot redo stay as they are.
    """
    try:
        from dask.dataframe.dask_expr import new_collection
        from dask.dataframe.dask_expr.io.io import FromPandas

        found = X.expr
        for made in list(found.find_operations(FromPandas)):
            if made.pyarrow_strings_enabled:
                found = found.substitute(made, made.substitute_parameters({"pyarrow_strings_enabled": False}))
        return X if found is X.expr else new_collection(found)
    except Exception:
        return X


@dataclass(frozen=True, eq=False)
class Stream:
    """Record batches of the needed columns, as often as they are asked for."""

    where: str
    opened: Opened
    columns: tuple[str, ...]

    def batches(self, size: int) -> Iterator[pa.RecordBatch]:
        """Record batches of at most `size` rows, with the needed columns only."""
        import pyarrow as pa

        def tables() -> Iterator[pa.Table]:
            with quiet(self.where):
                for part in self.opened(list(self.columns), size):
                    yield part if isinstance(part, pa.Table) else pa.Table.from_batches([pa.record_batch(part)])

        for table in tables():
            check_names(self.columns, table.column_names)
            yield from table.select(list(self.columns)).to_batches(max_chunksize=size)


def check_names(needed: Sequence[str], found: list[str]) -> None:
    absent = [name for name in needed if name not in found]
    if absent:
        raise ValueError(
            f"Expected the declared columns {', '.join(map(repr, absent))}, found {quoted(found)}."
            f"{closest(absent[0], found)} Correct the names in the schema, or mark a column as ignored."
        )


def open_stream(source: object, columns: list[str]) -> Stream | None:
    """The source as a stream; None for what is none (paths, tables in memory, rows)."""
    found = _opened(source)
    if found is None:
        return None
    where, names, opened = found
    if names is not None:
        check_names(columns, names)
    return Stream(where, opened, tuple(columns))


def _opened(source: Any) -> tuple[str, list[str] | None, Opened] | None:
    module, kind = type(source).__module__.split(".")[0].strip("_"), type(source).__name__
    if module == "duckdb" and offers(source, "to_arrow_reader"):
        quote = lambda name: '"' + name.replace('"', '""') + '"'  # noqa: E731
        return (
            "a DuckDB relation",
            list(source.columns),
            lambda columns, size: source.project(", ".join(map(quote, columns))).to_arrow_reader(size),
        )
    if module == "polars" and kind == "LazyFrame":
        return "a polars scan", list(source.collect_schema().names()), lambda columns, size: _of_polars(source, columns, size)
    if module == "pyarrow" and offers(source, "to_batches") and offers(source, "get_fragments"):
        return (
            "an Arrow dataset",
            list(source.schema.names),
            lambda columns, size: source.to_batches(columns=columns, batch_size=size, batch_readahead=4, fragment_readahead=1),
        )
    if module == "pyarrow" and kind == "RecordBatchReader":
        raise ValueError(
            "Expected batches that can be read again, found a reader, which passes once. Pass a function that opens it, e.g. "
            "lambda: scan.to_arrow_batch_reader()."
        )
    if callable(source) and not offers(source, "columns") and not offers(source, "bounded"):
        return "a function", None, lambda columns, size: source()
    return None


def _of_polars(scan: pl.LazyFrame, columns: list[str], size: int) -> Iterator[pa.Table]:
    chosen = scan.select(columns)
    if hasattr(chosen, "collect_batches"):
        return (part.to_arrow() for part in chosen.collect_batches(chunk_size=max(size, 1), maintain_order=False))
    return iter([chosen.collect(engine="streaming").to_arrow()])
