"""Files as streams of record batches: CSV, Parquet (one file or a partitioned folder) and Arrow IPC, in a fixed order.

Everything that can be wrong with the files as files is found here, before a fit begins: a Parquet or IPC file that ends early has
no footer, a partition with other types is compared with the first one, a ragged CSV line shows when rows are counted.
"""

from __future__ import annotations

import mmap
import re
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dperm.words.spelling import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.dataset as ds

SIZES = re.compile(r"\b\d+\b")
NUMBERED = re.compile(r":? Row #\d")
# A cell and what ends it: in quotes, with what stands behind the closing one, or as it is.
CELL = re.compile(rb'(?:"((?:[^"]++|"")*+)("?)([^,\r\n]*+)|[^,\r\n"][^,\r\n]*+)(?:,|\r?\n|\r|\Z)|,|\r?\n|\r')
SUFFIXES = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet", ".arrow": "ipc", ".ipc": "ipc", ".feather": "ipc"}


@contextmanager
def readable(where: str) -> Iterator[None]:
    """Arrow's errors in our words; the error itself is cut off, because a traceback would show it."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"Expected a table that reads to its end in {where}, found a broken file: {told_by(error)}. Write the file again; "
            "nothing was released."
        ) from None


def told_by(error: Exception) -> str:
    """What Arrow says of a file, less what it says of rows: it quotes the offending line, which is a person's record, and counts
    the rows before it. Sizes of files and pages are left out too: they tell the number of rows, which may be protected."""
    first = str(error).splitlines()[0].split(": Expected")[0].split(". Conversion error")[0]
    return SIZES.sub("…", NUMBERED.split(first)[0][:160]).rstrip(".")


@dataclass(frozen=True)
class Files:
    """A table on disk: files in the order of their names, one format, the columns that will be read.

    `read_ahead` batches are decoded while the caller works on one.
    """

    root: Path
    names: tuple[str, ...]
    format: str
    columns: tuple[str, ...]
    read_ahead: int = 4

    @classmethod
    def open(cls, path: str | Path, columns: list[str], read_ahead: int = 4) -> Files:
        """Find the files and check every one of them against the columns that are needed."""
        root = Path(path)
        if not root.exists():
            raise ValueError(f"Expected a file or folder at {root}, found none. Check the path.")
        found = [root]
        if root.is_dir():
            found = sorted(file for file in root.rglob("*") if file.suffix.lower() in SUFFIXES and _plain(file, root))
        if not found:
            raise ValueError(f"Expected CSV, Parquet or Arrow files in {root.resolve().name}, found none. Check the folder.")
        kinds = sorted({SUFFIXES.get(file.suffix.lower(), "csv") for file in found})
        if len(kinds) > 1:
            place, found_in = root.resolve().name, " and ".join(kinds)
            raise ValueError(f"Expected files of one format in the folder {place}, found {found_in}. Put each in its own folder.")
        files = cls(root, tuple(str(file) for file in found), kinds[0], tuple(columns), read_ahead)
        files.check()
        return files

    def check(self) -> None:
        """Every file has the needed columns, with the types of the first file; no column is stored as "null"."""
        import pyarrow as pa

        first: dict[str, object] = {}
        for name in self.names:
            types = {**self._partition_types(name), **self._types(name)}
            missing = [column for column in self.columns if column not in types]
            if missing:
                raise ValueError(
                    f"Expected the declared columns {', '.join(map(repr, missing))} in {Path(name).name}, found "
                    f"{quoted(list(types))}. Correct the names in the schema, or mark a column as ignored."
                )
            for column in self.columns:
                if types[column] == pa.null():
                    raise ValueError(
                        f"Expected values in column {column!r} of {Path(name).name}, found a column stored with type null. "
                        "Mark it as ignored in the schema, or write it with a type."
                    )
                if first.setdefault(column, types[column]) != types[column]:
                    raise ValueError(
                        f"Expected column {column!r} with type {first[column]} as in {Path(self.names[0]).name}, found "
                        f"{types[column]} in {Path(name).name}. Write all partitions with one schema."
                    )

    def types(self) -> dict[str, pa.DataType]:
        """The storage type of every column, which is public: from the file's own schema; text in a CSV, which states none."""
        return {**self._partition_types(self.names[0]), **self._types(self.names[0])}

    def _types(self, name: str) -> dict[str, object]:
        import pyarrow as pa

        with readable(Path(name).name):
            if self.format == "parquet":
                import pyarrow.parquet

                found = pyarrow.parquet.read_schema(name)
            elif self.format == "ipc":
                with pa.memory_map(name) as file:
                    found = pa.ipc.open_file(file).schema
            else:
                return dict.fromkeys(csv_header(Path(name)), pa.string())
        check_different(found.names)
        return {field.name: field.type for field in found}

    def _partition_types(self, name: str) -> dict[str, object]:
        """Columns that folder names carry, as in year=2020/part-0.parquet; read as text."""
        import pyarrow as pa

        parts = Path(name).relative_to(self.root).parts[:-1] if self.root.is_dir() else ()
        return {part.split("=", 1)[0]: pa.string() for part in parts if "=" in part}

    @cached_property
    def dataset(self) -> ds.Dataset:
        import pyarrow as pa
        import pyarrow.dataset as ds

        folders = self._partition_types(self.names[0])
        partitioning = ds.partitioning(pa.schema(list(folders.items())), flavor="hive") if folders else None
        schema = None
        form: object = self.format
        if self.format == "csv":
            schema = pa.schema([(column, pa.string()) for column in csv_header(Path(self.names[0]))])
            form = ds.CsvFileFormat(parse_options=parsing(schema.names))
        with readable(self.root.name):
            return ds.dataset(
                list(self.names),
                schema=schema,
                format=form,
                partitioning=partitioning,
                partition_base_dir=str(self.root) if folders else None,
            )

    @cached_property
    def n(self) -> int:
        """Rows: from the footers of Parquet and IPC files; a CSV is read once to its end. None is no error here: see `fit`."""
        import pyarrow.parquet as pq

        with readable(self.root.name):
            if self.format == "csv":
                rows = sum(map(self._csv_rows, self.dataset.get_fragments()))
            elif self.format == "parquet":
                rows = sum(pq.read_metadata(name).num_rows for name in self.names)
            else:
                rows = self.dataset.count_rows()
        return int(rows)

    def _csv_rows(self, fragment: ds.Fragment) -> int:
        """Rows of one CSV file, which is read once to its end."""
        import pyarrow as pa

        last = csv_header(Path(fragment.path))[-1]  # which the other files need not have
        batches = fragment.to_batches(
            pa.schema([(last, pa.string())]), columns=[last], batch_size=1 << 16, fragment_scan_options=csv_options((last,))
        )
        rows = int(sum(batch.num_rows for batch in batches))
        check_closed(Path(fragment.path), rows)
        return rows

    def batches(self, size: int) -> Iterator[pa.RecordBatch]:
        """Record batches of at most `size` rows, in file order, with the needed columns only."""
        with readable(self.root.name):
            if self.format == "parquet":
                yield from ahead(self._pages(size), self.read_ahead)
            else:
                yield from self._scan(self.columns, size)

    def _pages(self, size: int) -> Iterator[pa.RecordBatch]:
        """Parquet page by page. A dataset scan would decode whole row groups, several at once: no budget could be kept."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        for name in self.names:
            folders = dict(part.split("=", 1) for part in Path(name).relative_to(self.root).parts[:-1] if "=" in part)
            stored = [column for column in self.columns if column not in folders]
            with pq.ParquetFile(name, buffer_size=1 << 18, pre_buffer=False) as file:
                for batch in file.iter_batches(size, columns=stored, use_threads=True):
                    for column in self.columns:
                        if column in folders:
                            batch = batch.append_column(column, pa.repeat(folders[column], batch.num_rows))
                    yield batch

    def _scan(self, columns: tuple[str, ...], size: int) -> Iterator[pa.RecordBatch]:
        options = csv_options(columns) if self.format == "csv" else None
        yield from self.dataset.to_batches(
            columns=list(columns),
            batch_size=size,
            batch_readahead=self.read_ahead,
            fragment_readahead=1,
            fragment_scan_options=options,
        )

    def fingerprint(self) -> list[list[object]]:
        """Name, size and time of every file: what a cache must match."""
        states = [(name, Path(name).stat()) for name in self.names]
        return [[name, state.st_size, state.st_mtime_ns] for name, state in states]


def ahead(batches: Iterator[pa.RecordBatch], count: int) -> Iterator[pa.RecordBatch]:
    """The same batches, with up to `count` of them read by another thread while the caller works."""
    with ThreadPoolExecutor(1, "dperm read-ahead") as pool:
        waiting = deque(pool.submit(next, batches, None) for _ in range(count))
        try:
            while (batch := waiting.popleft().result()) is not None:
                waiting.append(pool.submit(next, batches, None))
                yield batch
        finally:  # also when the caller stops early
            for job in waiting:
                job.cancel()


def _plain(file: Path, root: Path) -> bool:
    """Files that writers leave beside the data (_metadata, .crc, hidden folders) are no data."""
    return file.is_file() and not any(part.startswith((".", "_")) for part in file.relative_to(root).parts)


def csv_header(file: Path) -> list[str]:
    """Names of the columns, from the header line alone: Arrow's inference of types would look at rows, which are private."""
    import pyarrow as pa
    import pyarrow.csv

    line = _first_record(file)
    if not line.decode("utf-8-sig").strip():
        raise ValueError(
            f"Expected a header line with the names of the columns in {file.name}, found an empty one. Write the names there."
        )
    with pyarrow.csv.open_csv(pa.BufferReader(line)) as reader:
        names = list(reader.schema.names)
    check_different(names)
    _check_separator(file, names)
    return names


def _check_separator(file: Path, names: list[str]) -> None:
    """Refuse one column whose name holds another separator, and JSON. A header is public: this says nothing about a row."""
    for mark, word in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if len(names) == 1 and mark in names[0]:
            raise ValueError(
                f"Expected commas between the columns of {file.name}, found {word}. Save the file as CSV with commas and decimal "
                f"points, e.g. pandas.read_csv(..., sep={mark!r}).to_csv(..., index=False)."
            )
    if names[0].lstrip().startswith(("{", "[{")):  # an error about names would quote it
        raise ValueError(
            f"Expected a table with a header line in {file.name}, found JSON. Save it as CSV, e.g. pandas.read_json(..., "
            "lines=True).to_csv(..., index=False)."
        )


def as_text(columns: Sequence[str]) -> pyarrow.csv.ConvertOptions:
    """How a CSV is read: every cell as text. One that is no UTF-8 is a missing cell, no broken file: `cells.py` reads bytes."""
    import pyarrow as pa
    import pyarrow.csv

    types = dict.fromkeys(columns, pa.string())
    return pyarrow.csv.ConvertOptions(
        check_utf8=False, column_types=types, strings_can_be_null=True, null_values=["", "NA", "NaN", "null"]
    )


def csv_options(columns: Sequence[str]) -> ds.CsvFragmentScanOptions:
    """How a CSV is streamed: in pieces of 1 MB."""
    import pyarrow.csv
    import pyarrow.dataset as ds

    return ds.CsvFragmentScanOptions(convert_options=as_text(columns), read_options=pyarrow.csv.ReadOptions(block_size=1 << 20))


def check_closed(file: Path, rows: int) -> None:
    """Refuse a file in which a quote takes in lines that are no part of its cell: Arrow makes them one cell without a word.

    Such a quote never closes, or another one closes it that opens a later cell: then text stands behind it. Cells are looked at
    only in a file with quotes and more lines than rows.
    """
    lines, quotes, before = 0, 0, b"\n"
    with file.open("rb") as handle:
        while piece := handle.read(1 << 20):
            lines += piece.count(b"\n") + piece.count(b"\r") - (before[-1:] + piece).count(b"\r\n")
            quotes, before = quotes + piece.count(b'"'), piece
        lines += before[-1:] not in b"\r\n"
        if not quotes or lines <= rows + 1:  # the first line has the names
            return
        with mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as text:
            broken = any(_takes_in_lines(cell) for cell in CELL.finditer(text))
    if broken:
        raise ValueError(
            f"Expected a table that reads to its end in {file.name}, found a broken file: a quote that never closes, or only "
            "where a later cell opens one. Write the file again; nothing was released."
        )


def _takes_in_lines(cell: re.Match[bytes]) -> bool:
    inside, closed, behind = cell.group(1), cell.group(2), cell.group(3)
    if not inside or not set(b"\r\n") & set(inside) or not inside.strip(b"\r\n"):  # of line breaks alone no line is lost
        return False
    return not closed or bool(behind.strip())


def parsing(names: Sequence[str]) -> pyarrow.csv.ParseOptions:
    """How lines become rows: in a file of one column an empty line is a row whose cell is missing, and counts.

    Quoted cells may have line breaks, wherever they stand. Arrow would take them for ends of rows where it cuts a file into
    pieces, and after a quote that never closes its threads leave out the rest of the piece, thousands of rows, without a word.
    """
    import pyarrow.csv

    return pyarrow.csv.ParseOptions(ignore_empty_lines=len(names) > 1, newlines_in_values=True)


def check_different(names: Sequence[str]) -> None:
    """Refuse a table in which two columns have one name."""
    if len(set(names)) != len(names):
        raise ValueError("Expected column names that differ, found a name twice. Rename the columns of the table.")


def _first_record(file: Path) -> bytes:
    """The header's bytes: one line, or several where a quoted name holds a line break."""
    with file.open("rb") as handle:
        record = handle.readline()
        while record.count(b'"') % 2 and (line := handle.readline()):
            record += line
    return record
