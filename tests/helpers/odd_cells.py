"""Odd cells, columns that they may land in, and every container that holds such a column."""

from __future__ import annotations

import datetime
import enum
import io
import math
import uuid
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from dperm.tables.containers import objects


class Unkind:
    """An object that raises whatever is asked of it."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")

    def __hash__(self) -> int:
        raise RuntimeError("hashed")

    def __float__(self) -> float:
        raise RuntimeError("read")

    def __str__(self) -> str:
        raise RuntimeError("written")

    __repr__ = __bool__ = __len__ = __array__ = __str__  # type: ignore[assignment]


class Colour(enum.IntEnum):
    RED = 1


class Word(str):
    """Text of another type."""


TEXTS: list[Any] = [
    "", " ", "yes", "no", "Yes", " yes", "None", "none", "nan", "NaN", "NA", "<NA>", "NaT", "null", "inf", "-inf",
    "Infinity", "1",
    "0", "1.0", "01", "+1", "1e0", " 1 ", "1\n", "1_0", "\uff11", "\u00b2", "0x1", "1,5", "1.5", "-0.0", "1e400",
    "-1e400", "9" * 400,
    "9" * 5000, "True", "TRUE", "true", "false", "False", "T", "t", "x", "caf\u00e9", "\U0001f600", "a\0", "\0",
    "a\0b", "x" * 5000,
    "2020-01-02", "2020-01-02 00:00:00", "2020-01-02T03:04:05", "=1+1", "e\u0301", "5e-324", "HIV positive", '"', "'", "1;2",
]  # fmt: skip
OBJECTS: list[Any] = [
    None, True, False, 0, 1, 2, -1, 7, 10**20, -(10**30), 10**400, 10**5000, 2**63, 2**64, 0.0, -0.0, 1.0, 0.5, 1e308, -1e308,
    5e-324, math.nan, math.inf, -math.inf, 1j, complex(1, 0), b"yes", b"1", b"", b"\xff", b"caf\xc3\xa9", bytearray(b"no"),
    memoryview(b"yes"), "\ud800", "yes\udcff", np.str_("yes"), np.str_("a\0"), np.bytes_(b"no"), Word("yes"), Colour.RED,
    np.bool_(True), np.int8(1), np.uint64(2**64 - 1), np.float16(1), np.float32(0.1), np.float64("nan"), np.longdouble("1e400"),
    np.complex128(1), np.datetime64("2020-01-02"), np.datetime64("NaT"), np.timedelta64(1, "s"), np.timedelta64("NaT"),
    np.array(1.0), np.array([1.0]), np.array([1, 2]), np.array("yes"), np.zeros((0,)), np.array([[1.0]]), [1], [],
    (1,), ((),), {},
    {"a": 1}, {1}, frozenset({1}), range(1), object(), len, int, Ellipsis, NotImplemented, Decimal("1"), Decimal("NaN"),
    Decimal("sNaN"), Decimal("Infinity"), Decimal("1e400"), Decimal("1e-400"), Fraction(1, 3), Fraction(1), Fraction(10**400),
    datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2), datetime.datetime(2020, 1, 2, 3, tzinfo=datetime.UTC),
    datetime.time(1, 2), datetime.timedelta(1), uuid.UUID(int=5), pd.NA, pd.NaT, pd.Timestamp(0), pd.Timedelta(1),
    pd.Interval(0, 1),
    pd.Period("2020"), pd.Series([1, 2]), pd.Series([1]), pd.DataFrame({"a": [1]}), pd.Categorical(["a"]), pl.Series([1]),
    pa.scalar(1), pa.scalar("yes"), pa.scalar(None), pa.array([1]), Unkind(),
]  # fmt: skip
ODD = TEXTS + OBJECTS

# What the other people of a column have: each list is repeated to the length of the column.
COLUMNS: dict[str, list[Any]] = {
    "floats": [0.25, 1.5, 0.0, -0.75],
    "whole": [0, 1, 1, 0],
    "true": [True, False, True],
    "words": ["yes", "no", "x"],
    "digits": ["1", "0", "1.5"],
    "spelled": ["01", "+1", " 1", "1e0", "1.0", "-0", "00.50"],
    "truth as words": ["True", "False", "TRUE", "true"],
    "bytes": [b"yes", b"no", b"1"],
    "with nulls": ["yes", None, "no", math.nan],
    "numbers with nulls": [1, None, 0.5, math.nan],
    "named nulls": ["None", "nan", "yes", None],
    "everything": [True, 1, 1.0, "1", b"1", None, "yes", 0, "nan", Decimal("1"), np.float32(0.5), "True"],
}
ROWS = 12


def usual(flavour: str) -> list[Any]:
    cells = COLUMNS[flavour]
    return [cells[place % len(cells)] for place in range(ROWS)]


def changed(flavour: str, odd: Any, place: int) -> list[Any]:
    cells = usual(flavour)
    cells[place] = odd
    return cells


def frame(cells: list[Any]) -> pd.Series:
    return pd.Series(objects(cells), dtype=object)


def through_csv(cells: list[Any]) -> Any:
    """As pandas reads a file: one cell decides about the type of the column."""
    if not all(isinstance(cell, str | int | float | bool | None) for cell in cells):
        raise TypeError("no text")
    text = pd.DataFrame({"c": objects(cells)}).to_csv(index=False)
    return pd.read_csv(io.StringIO(text), skip_blank_lines=False)["c"]


def fixed_width(cells: list[Any]) -> Any:
    """NumPy's own text, as a caller would have made it: every cell is text."""
    if not all(isinstance(cell, str) for cell in cells):
        raise TypeError("no text")
    return np.array(cells)


def masked(cells: list[Any]) -> Any:
    return np.ma.MaskedArray(objects(["hidden" if cell is None else cell for cell in cells]), [cell is None for cell in cells])


def arrow(kind: Any) -> Callable[[list[Any]], Any]:
    def made(cells: list[Any]) -> Any:
        return pa.array(objects(cells), type=kind, from_pandas=True)

    return made


def arrow_chunks(cells: list[Any]) -> Any:
    return pa.chunked_array([pa.array(objects(cells[:5]), pa.string()), pa.array(objects(cells[5:]), pa.string())])


def arrow_broken(cells: list[Any]) -> Any:
    """Arrow strings that were never checked: some are no UTF-8."""
    stored = pa.array(objects(cells), pa.binary(), from_pandas=True)
    return pa.Array.from_buffers(pa.string(), len(stored), stored.buffers(), stored.null_count)


# A container may refuse some cells: then they cannot reach us through it. Those that keep each cell take all of them.
CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "object array": objects,
    "object series": frame,
    "series": lambda cells: pd.Series(cells),
    "inferred series": lambda cells: frame(cells).infer_objects(),
    "nullable series": lambda cells: frame(cells).convert_dtypes(),
    "string series": lambda cells: pd.Series(cells, dtype="string"),
    "category series": lambda cells: pd.Series(cells).astype("category"),
    "csv series": through_csv,
    "NumPy": lambda cells: np.array(cells) if len({type(cell) for cell in cells}) == 1 else _refused(),
    "fixed width": fixed_width,
    "masked array": masked,
    "polars": lambda cells: pl.Series([None if cell != cell else cell for cell in cells], strict=False),  # it writes NaN as text
    "polars object": lambda cells: pl.Series("c", cells, dtype=pl.Object),
    "polars string": lambda cells: pl.Series(cells, dtype=pl.String),
    "polars category": lambda cells: pl.Series(cells, dtype=pl.Categorical),
    "polars binary": lambda cells: pl.Series(cells, dtype=pl.Binary),
    "polars numbers": lambda cells: pl.Series(cells, dtype=pl.Float64),
    "arrow": arrow(None),
    "arrow string": arrow(pa.string()),
    "arrow large string": arrow(pa.large_string()),
    "arrow string view": arrow(pa.string_view()),
    "arrow binary": arrow(pa.binary()),
    "arrow large binary": arrow(pa.large_binary()),
    "arrow unchecked": arrow_broken,
    "arrow chunks": arrow_chunks,
    "arrow dictionary": lambda cells: arrow(pa.string())(cells).dictionary_encode(),
    "arrow binary dictionary": lambda cells: arrow(pa.binary())(cells).dictionary_encode(),
    "arrow doubles": arrow(pa.float64()),
    "arrow floats": arrow(pa.float32()),
    "arrow whole": arrow(pa.int64()),
    "arrow truth": arrow(pa.bool_()),
    "arrow decimal": arrow(pa.decimal128(38, 3)),
    "arrow dates": arrow(pa.timestamp("us")),
}


def _refused() -> Any:
    raise TypeError("mixed")


def container(name: str, cells: list[Any]) -> Any:
    """The container with these cells, or None where it cannot hold them: then they never reach us through it."""
    allowed = ALLOWED.get(name)
    if allowed is not None and not all(isinstance(cell, allowed) and not _huge(cell) for cell in cells):
        return None
    try:
        return CONTAINERS[name](cells)
    except Exception:
        return None



def _huge(cell: Any) -> bool:
    return isinstance(cell, int) and abs(cell) >= 2**63


# Conversions that are not ours: polars panics about strange objects, Arrow makes durations of everybody's numbers.
PLAIN = (bool, int, float, str, bytes, list, tuple, type(None))
ALLOWED: dict[str, tuple[type, ...]] = {
    "polars": PLAIN,
    "polars string": (str, type(None)),
    "polars category": (str, type(None)),
    "polars binary": (bytes, type(None)),
    "polars numbers": (bool, int, float, type(None)),
    "arrow": (*PLAIN, Decimal, np.generic, pd.Series, dict, set),
}
