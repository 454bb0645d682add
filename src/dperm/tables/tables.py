"""Reading tables: CSV and Parquet files, and pandas, polars or Arrow tables in memory, as columns of cells.

CSV cells are read as text, so that a cell that does not parse is a missing value by the public rule and never an error about
one person's row. A broken file (ragged lines, wrong columns, nothing in it) is an error before anything is spent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np

from dperm.problem.arrays import offers
from dperm.tables.cells import numbers, sparse_numbers
from dperm.tables.containers import column, is_list, is_tabular, listed_rows
from dperm.tables.files import SUFFIXES, Files, as_text, check_closed, check_different, csv_header, parsing, told_by

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

# In memory; polars has the face of pandas in all that is used here.
Table: TypeAlias = "pa.Table | pd.DataFrame"
SPREADSHEETS = (".xlsx", ".xls", ".ods")


def is_table(X: object) -> TypeGuard[Table]:
    """A data frame or Arrow table, rather than an array."""
    return is_tabular(X)


def column_names(table: Table) -> list[str]:
    names = table.column_names if offers(table, "column_names") else table.columns
    return [str(name) for name in names]


def without_column(table: Table, name: str) -> Table:
    """The table without one column: pandas, polars or Arrow."""
    if offers(table, "drop_columns"):
        return table.drop_columns([name])
    return table.drop(columns=[_own_name(table, name)]) if offers(table, "assign") else table.drop(name)


def cells(table: Table, name: str, *, exact: bool = False) -> np.ndarray:
    """One column as a NumPy array of cells as they are; see `dperm.tables.containers.column`."""
    return column(stored(table, name), exact=exact)


def stored(table: Table, name: str) -> object:
    """One column as its table stores it."""
    return table.column(name) if offers(table, "column_names") else table[_own_name(table, name)]


def _own_name(table: Table, name: str) -> Any:
    """The name of a column as the table has it: pandas has numbers, dates and tuples too."""
    if not offers(table, "iloc") or name in table.columns:
        return name
    return next((own for own in table.columns if str(own) == name), name)


def columns(table: Table) -> list[np.ndarray]:
    """Every column of a table, in order, whatever its name is."""
    return [column(values) for values in stored_columns(table)]


def stored_columns(table: Table) -> list[object]:
    """Every column as the table stores it."""
    if offers(table, "iloc"):
        return [table.iloc[:, place] for place in range(table.shape[1])]
    return [stored(table, name) for name in column_names(table)]


def in_memory_only(X: object) -> None:
    """Refuse rows and tables that are elsewhere, where all rows are looked at together."""
    if offers(X, "bounded") and offers(X, "sum"):  # the reader's own message would print the rows' parts
        raise ValueError(
            f"Expected an array or a table, found {type(X).__name__}. Pass the arrays that the rows were made from, or the table "
            "(Spark: toPandas())."
        )
    if offers(X, "mapInArrow") or type(X).__name__ in ("LazyFrame", "DuckDBPyRelation"):
        raise ValueError(
            f"Expected an array or a table in memory, found a {type(X).__name__} of another engine. Collect it, or a random part "
            "of it, first (Spark: toPandas(), polars: collect(), DuckDB: df()). Estimators with a schema fit it as it is."
        )


def parsed(X: object, width: int | None = None) -> object:
    """A matrix of numbers: float32 and float64 arrays and sparse matrices as they are, of anything else every cell read alone.

    One person's cell must never become an error that quotes it, so text is read cell by cell instead of being refused. Tables
    become float64: one odd cell would make such a column of a float32 one, and the others must not round differently for it.
    Rows in a list need a declared `width`, their number of columns.

    >>> parsed(np.array([["1.5", "x"]], dtype=object)).tolist()
    [[1.5, nan]]
    """
    in_memory_only(X)
    check_rows(X)
    if is_list(X):
        X = listed(X, width)
    _check_types(X)
    if is_table(X):
        found = [numbers(values) for values in columns(X)]
        return np.stack(found, axis=1) if found else np.zeros((len(X), 0))
    X = sparse_numbers(X) if offers(X, "tocsr") else column(X)
    _check_matrix(X)
    if isinstance(X, np.ndarray) and X.dtype not in (np.float32, np.float64):
        return numbers(X)
    return X


def listed(X: Sequence[object], width: int | None) -> np.ndarray:
    """Rows in a list as a matrix of declared width; refused without one, whatever is in the list.

    A vote of the rows on their length would turn with one row where it is close, and so would a refusal of uneven rows.
    """
    if width is None:
        raise ValueError(
            "Expected X as an array or a table, found a list, which has no number of columns of its own: the length of one row "
            "could decide it. Pass numpy.array(X), or, where the estimator takes bounds=, one pair for every column."
        )
    return listed_rows(X, width)


def _check_types(X: object) -> None:
    """Refuse columns of a table whose type holds no numbers: words, categories, dates. Types are public, cells are not.

    A pandas column of mixed objects passes: one person's cell can make a column that, so it is read cell by cell.
    """
    if not is_table(X):
        kind = getattr(X, "dtype", None)
        if getattr(kind, "kind", "-") in "mMV":
            raise ValueError(f"Expected an array of numbers, found the type {kind}. Pass numbers, e.g. days since a date.")
        return
    found = X.schema.types if offers(X, "column_names") else getattr(X, "dtypes", ())
    check_different(column_names(X))
    for name, kind in zip(column_names(X), found):
        if not _is_numeric(kind):
            raise ValueError(
                f"Expected columns of numbers in a table without a schema, found {name!r} of type {kind}. Write a schema "
                "(`dperm schema` or Schema.from_table drafts one; `dperm.profile(table, target=..., epsilon=...).schema()` finds "
                "one and pays for it), or drop the column. Of embeddings, pass their columns alone."
            )


def _is_numeric(kind: object) -> bool:
    """Whether a column type of pandas, polars or Arrow holds numbers or truth values, or whatever a cell says."""
    if hasattr(kind, "kind"):  # NumPy's and pandas' types; categories and words are their own classes of kind "O"
        return kind.kind in "biufc" or (isinstance(kind, np.dtype) and kind.hasobject)
    if hasattr(kind, "is_numeric"):
        return bool(kind.is_numeric()) or str(kind) in ("Boolean", "Null", "Object")
    from pyarrow import types

    tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    return any(test(kind) for test in tests)


_COMPLEX = "Complex data not supported: expected columns of real numbers, found complex ones. Pass their real parts."


def check_rows(X: object) -> None:
    """Refuse what people pass for one row or for a file, by its type alone."""
    if isinstance(X, str | Path):
        raise ValueError("Expected rows as an array or a table, found text. Read the file first, e.g. pandas.read_csv(path).")
    if isinstance(X, Mapping) and not offers(X, "tocsr"):  # a sparse matrix may be a dict
        raise ValueError("Expected rows as an array or a table, found a dict. Pass a table, e.g. pandas.DataFrame([row]).")
    if offers(X, "to_frame") and getattr(X, "ndim", 2) == 1:
        raise ValueError(
            "Expected rows as an array or a table, found a Series. Pass a table, e.g. table.iloc[[0]] for one row, or "
            "table[['age']] for one column."
        )


def _check_matrix(X: object) -> None:
    """Refuse what is no matrix of real numbers by its shape and type: scikit-learn's own messages would print the array."""
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        raise ValueError(_COMPLEX)
    if isinstance(X, np.ndarray | np.generic) and X.ndim < 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead. Reshape your data to (rows, columns), e.g. by X.reshape(-1, 1) for "
            "one column, or X.reshape(1, -1) for one row."
        )


ARRAYS = (".npy", ".npz", ".safetensors")


def read_table(path: str | Path, columns: list[str] | None = None) -> pa.Table:
    """An Arrow table from a CSV or Parquet file."""
    import pyarrow as pa

    file = Path(path)
    check_is_table(file)
    if not file.exists():
        raise ValueError(f"Expected a file at {file}, found none. Check the path.")
    try:
        if file.is_dir():
            return _read_folder(file, columns)
        return _read_parquet(file, columns) if SUFFIXES.get(file.suffix.lower()) == "parquet" else _read_csv(file)
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as error:
        raise _unreadable(file, error) from None  # Arrow quotes the line that it cannot read


def check_is_table(file: Path) -> None:
    """Arrays have no named columns, which a schema would declare; said from the file's name, before anything is read."""
    if file.suffix in ARRAYS:
        raise ValueError(
            f"Expected a CSV or Parquet table in {file.name}, found an array. Embeddings are fitted and scored in Python: `dperm."
            f"EmbeddingClassifier(epsilon=1.0, classes=[...]).fit(dperm.features.open_embeddings({file.name!r}), labels)`, then "
            "`.save(FOLDER)`."
        )


def _unreadable(file: Path, error: Exception) -> ValueError:
    """What a file that is no table should have been, without a word from its rows."""
    start = f"Expected a CSV or Parquet table in {file.resolve().name}, found"
    if file.is_dir():
        return ValueError(f"{start} a folder with other files than Parquet. Pass the file itself, or a folder of Parquet files.")
    if file.suffix.lower() in SPREADSHEETS:
        return ValueError(f"{start} a spreadsheet. Save it as CSV (UTF-8, commas) and pass that.")
    if isinstance(error, UnicodeDecodeError) or "utf8" in str(error).lower().replace("-", ""):
        return ValueError(f"{start} text in another encoding than UTF-8. Save it as CSV in UTF-8.")
    if "straddling" in str(error):
        return ValueError(f"{start} a line that is too long to be one. Check for a quote that never closes.")
    advice = "Check that it is a table with a header line."
    if "CSV" in str(error):
        advice = "Check that every line has as many cells as the header line, and that every quote closes."
    return ValueError(f"{start} a file that does not read: {told_by(error)}. {advice}")


def storage_types(path: str | Path) -> dict[str, str | None]:
    """Column names with their storage types, all that a draft of a schema may use. A CSV has none: what its cells look like is
    private, and one odd cell would change what is inferred from them."""
    import pyarrow

    file = Path(path)
    check_is_table(file)
    if file.exists() and not file.is_dir() and SUFFIXES.get(file.suffix.lower(), "csv") == "csv":
        try:
            return dict.fromkeys(csv_header(file))
        except (pyarrow.ArrowInvalid, OSError, UnicodeDecodeError) as error:
            raise _unreadable(file, error) from None
    files = Files.open(file, [])
    return {name: None if files.format == "csv" else str(kind) for name, kind in files.types().items()}


def _read_parquet(file: Path, columns: list[str] | None) -> pa.Table:
    import pyarrow.parquet

    if columns is None:
        return pyarrow.parquet.read_table(file)
    known = set(pyarrow.parquet.read_schema(file).names)
    return pyarrow.parquet.read_table(file, columns=[name for name in columns if name in known])


def _read_folder(folder: Path, columns: list[str] | None) -> pa.Table:
    """A folder of Parquet files, by the rules of streams: Arrow itself converts files to the types of the first, which fails at
    one cell, and reads names of folders as numbers unless one of them is none."""
    import pyarrow as pa

    types = Files.open(folder, []).types()
    files = Files.open(folder, [name for name in (types if columns is None else columns) if name in types])
    if files.format != "parquet":
        raise OSError("no Parquet")
    parts = [pa.Table.from_batches([batch]).select(list(files.columns)) for batch in files.batches(1 << 16)]
    whole = pa.schema([(name, types[name]) for name in files.columns])
    return pa.concat_tables([whole.empty_table(), *parts], promote_options="default")


def _read_csv(file: Path) -> pa.Table:
    import pyarrow.csv

    names = csv_header(file)
    table = pyarrow.csv.read_csv(file, convert_options=as_text(names), parse_options=parsing(names))
    check_closed(file, table.num_rows)
    return table
