"""The one reader of cells: from one cell to one number, truth value, place among declared levels, or person.

**Guarantee**: what a cell becomes depends on that cell and on public declarations, never on another cell. Every function below
is `read(cell)` for one cell at a time; a faster way is taken only where it gives the same answers: for an array of a numeric
dtype, for a column whose cells are all text (each distinct text is read once), for Python numbers.

| a cell                                                                       | is read as                          |
|------------------------------------------------------------------------------|-------------------------------------|
| None, NaN, NaT, NA, NaN of Decimal, "", a masked entry                       | missing                             |
| bytes                                                                        | its UTF-8 text; missing if it is none |
| True, np.True_; whole, decimal and floating numbers, fractions               | that value                          |
| dates and times                                                              | their ISO text, without a midnight  |
| text with half a surrogate pair, lists, arrays, numbers that are not real, other objects | missing                   |

A missing cell is no level and no class, also where one is named "None" or "nan". Nothing that a cell holds raises an error.
"""

from __future__ import annotations

import copy
import datetime
import functools
import math
import uuid
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dperm.tables.containers import column

if TYPE_CHECKING:
    import pyarrow as pa

Level = bool | int | float | str
Plain = Level | None
Read = Callable[[object], Plain]  # one cell to a number, a truth value, a place or a level
WORDS = {"true": 1.0, "yes": 1.0, "t": 1.0, "y": 1.0, "false": 0.0, "no": 0.0, "f": 0.0, "n": 0.0}
TRUE_FALSE = {"true": 1.0, "false": 0.0}  # what readers of files turn into truth values unless another cell forbids it
NOBODY = ("nan", "NaN", "None", "<NA>", "NaT")  # ids that writers of files leave for a missing one


# -- one cell --------------------------------------------------------------------------------------------------------------


def plain(cell: object) -> Plain:
    """The cell as a truth value, number or text of Python; None where it is missing or cannot be read.

    >>> plain(b"yes"), plain(np.float32(0.5)), plain(float("nan")), plain([1, 2])
    ('yes', 0.5, None, None)
    """
    if type(cell) is str:
        return _text(cell)
    if type(cell) is float:
        return None if cell != cell else cell
    if type(cell) is int or type(cell) is bool or cell is None:
        return cell
    try:
        return _unusual(cell)
    except Exception:  # whatever a foreign object raises about itself, the cell is missing: an error would tell that it is there
        return None


def _text(cell: str) -> str | None:
    if not cell.isascii():
        try:
            cell.encode()
        except UnicodeEncodeError:  # half a surrogate pair: bytes that were no text
            return None
    return cell or None


def _unusual(cell: object) -> Plain:
    if cell is np.ma.masked:  # a number to NumPy
        return None
    if isinstance(cell, bytes | bytearray | memoryview):
        return _text(bytes(cell).decode())
    if isinstance(cell, str):
        return _text(str.__str__(cell))
    if isinstance(cell, np.bool_):
        return bool(cell)
    if isinstance(cell, np.timedelta64):  # an integer to NumPy
        return None
    if isinstance(cell, int | np.integer):
        return int(cell)
    if isinstance(cell, float | np.floating):
        return plain(float(cell))
    if isinstance(cell, complex | np.complexfloating):  # a column of real numbers becomes complex when one cell is
        return plain(float(cell.real)) if cell.imag == 0 else None
    if isinstance(cell, Decimal):
        whole = cell.is_finite() and cell.adjusted() < 300 and cell == cell.to_integral_value()
        return None if cell.is_nan() else int(cell) if whole else float(cell)
    if isinstance(cell, Fraction):
        return cell.numerator if cell.denominator == 1 else _float(cell)
    if isinstance(cell, datetime.date | datetime.time | np.datetime64):
        return None if cell != cell else _moment(str(cell) if isinstance(cell, np.datetime64) else cell.isoformat())
    if isinstance(cell, uuid.UUID):
        return str(cell)
    if hasattr(cell, "as_py"):  # a scalar of Arrow
        return plain(cell.as_py())
    if hasattr(cell, "item") and not isinstance(cell, np.generic) and getattr(cell, "ndim", None) == 0:  # an array of one cell
        return plain(cell.item())
    return None


def _moment(text: str) -> str:
    """ISO text of a date and time; a column of dates becomes one of midnights when one cell has a time.

    >>> _moment("2020-01-02T00:00:00.000"), _moment("2020-01-02T10:30:00.500"), _moment("2020-01-02T10:30:00.500-05:00")
    ('2020-01-02', '2020-01-02 10:30:00.5', '2020-01-02 10:30:00.500-05:00')
    """
    text = text.replace("T", " ")
    if "." in text and not set("+-") & set(text.partition(".")[2]):  # zeros of an offset are not those of a fraction
        text = text.rstrip("0").rstrip(".")
    return text.removesuffix(" 00:00:00")


def _float(value: float | Fraction) -> float:
    """A number as a float; beyond the largest one it is infinite, as its text would be."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def number(cell: object) -> float:
    """The cell as a float; NaN where it is missing or no number. The words true and false are 1 and 0, as truth values are.

    >>> number("1.5"), number(True), number("true"), number("x"), number(b"2")
    (1.5, 1.0, 1.0, nan, 2.0)
    """
    value = plain(cell)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return TRUE_FALSE.get(value.strip().lower(), math.nan)
    return math.nan if value is None else _float(value)


def truth_value(cell: object) -> float:
    """1 or 0 for truth values and words for them, otherwise the number; NaN where the cell is neither.

    >>> truth_value("Yes"), truth_value(False), truth_value(0.0), truth_value("perhaps")
    (1.0, 0.0, 0.0, nan)
    """
    value = plain(cell)
    known = WORDS.get(value.strip().lower()) if isinstance(value, str) else None
    return number(value) if known is None else known


def person(cell: object) -> str | None:
    """Who an id names, as text; None for nobody. 7, 7.0 and "7" are one person, b"a" and "a" are; "a" and "a\\0" are two."""
    value = plain(cell)
    if isinstance(value, float):
        value = int(value) if value.is_integer() else repr(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return hex(value) if abs(value) > 10**300 else str(value)  # Python refuses to write thousands of digits
    text = None if value is None else str(value)
    return None if text in NOBODY else text


def key(value: Plain) -> float | str | None:
    """What levels are compared by: numbers, truth values and the words for them by value, dates as `_moment` writes them.

    Zero has no sign: columns of numbers are read once per distinct one, and 0.0 and -0.0 are one to them.

    >>> key("1.0") == key(1) == key(True) == key("TRUE"), key("2020-01-02 00:00"), key("x"), key(-0.0)
    (True, '2020-01-02', 'x', 0.0)
    """
    if not isinstance(value, str):
        return None if value is None else _float(value) + 0.0
    found = number(value)
    if found == found:
        return found + 0.0
    if value[:4].isdigit() and value[4:5] == "-":
        try:
            return _moment(datetime.datetime.fromisoformat(value).isoformat())
        except ValueError:
            return value
    return value


class Places:
    """From one cell to its place among declared levels, compared by `key`; -1 where there is none.

    Two levels with one key ("1" and "01") are one level, the last: a table may store both as the number 1 or not, as other
    cells decide.

    >>> place = Places(["1", "2", "None"])
    >>> place(1), place("2.0"), place(None), place("None"), place("x")
    (0, 1, -1, 2, -1)
    """

    def __init__(self, levels: Iterable[object]) -> None:
        self.known = {key(plain(level)): place for place, level in enumerate(levels)}
        self.known[None] = -1  # a missing cell is no level

    def __call__(self, cell: object) -> int:
        return self.known.get(key(plain(cell)), -1)


# -- columns of cells ------------------------------------------------------------------------------------------------------


def nulls(values: object) -> NDArray[np.bool_]:
    """Which cells are missing."""
    text = _of_arrow_text(values, lambda cell: plain(cell) is None, bool)
    if text is not None:
        return text
    array = column(values)
    if array.dtype.kind in "fiub":
        return np.asarray(np.isnan(array)) if array.dtype.kind == "f" else np.zeros(array.shape, dtype=bool)
    return each_cell(array, lambda cell: plain(cell) is None, bool)


def numbers(values: object) -> NDArray[np.float64]:
    """Cells as floats, in the shape they have; whatever is no number is NaN."""
    array = column(values)
    if array.dtype.kind in "fiub":
        return _floats(array)
    return _numbers_of_objects(array)


def sparse_numbers(X: Any) -> Any:
    """A sparse matrix whose stored cells are floats: of objects each is read alone, and one beyond float64 is infinite.

    SciPy's own conversions quote the cell that they cannot read, and warn of one that is too large.
    """
    if X.dtype.kind != "O" and not (X.dtype.kind == "f" and X.dtype.itemsize > 8):
        return X
    found = copy.copy(X if X.format in ("csr", "csc", "coo", "bsr") else X.tocoo())  # the caller keeps its own cells
    found.data = numbers(found.data)
    return found


def truth(values: object) -> NDArray[np.float64]:
    """Cells as 0/1; words for yes and no are understood, anything else is NaN."""
    array = column(values)
    return _floats(array) if array.dtype.kind in "fiub" else each_cell(array, truth_value, np.float64)


def codes(values: object, levels: Iterable[object]) -> NDArray[np.int64]:
    """Place of each cell among the levels, or of each label among classes, in the shape of the cells; -1 for none of them.

    >>> codes(["b", "zebra", None], ["a", "b"]).tolist(), codes([2, 1.0], ["1", "2"]).tolist()
    ([1, -1, -1], [1, 0])
    >>> codes(np.array(["1", "0", "x"]), [0, 1]).tolist(), codes([True, "False", 1], np.array(["False", "True"])).tolist()
    ([1, 0, -1], [1, 0, 1])
    """
    place = Places(levels)
    found = _of_arrow_text(values, place, np.int64)
    return each_cell(column(values), place, np.int64) if found is None else found


def persons(values: object) -> NDArray[np.int64]:
    """A number for the person that each id names, -1 for nobody; equal numbers mean the same person."""
    names = [person(cell) for cell in _listed(column(values, exact=True))]
    seen: dict[str | None, int] = {None: -1}
    return np.array([seen.setdefault(name, len(seen)) for name in names], dtype=np.int64)


def _floats(array: np.ndarray) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):  # a number wider than float64 is infinite, without a warning about it
        return array.astype(np.float64)


def _numbers_of_objects(array: np.ndarray) -> NDArray[np.float64]:
    """number(cell) of every cell. NumPy converts by `float(cell)`: the same for Python's numbers, and for text that reads."""
    text = _as_text(array)
    cells = array
    if text is not None:
        cells = text.fill_null("nan").to_numpy(zero_copy_only=False)
    elif array.dtype.kind != "O" or not set(map(type, array.ravel().tolist())) <= {float, int, bool}:
        return each_cell(array, number, np.float64)
    try:
        return cells.astype(np.float64).reshape(array.shape)
    except (ValueError, OverflowError):
        return np.array([number(cell) for cell in cells.ravel().tolist()], dtype=np.float64).reshape(array.shape)


def each_cell(array: np.ndarray, function: Read, dtype: type) -> np.ndarray:
    """function(cell) for every cell, in the shape of the array; once per distinct number or text, which columns have few of."""
    flat = array.ravel()
    if array.dtype.kind in "fiub":
        distinct, inverse = np.unique(flat, return_inverse=True)
        return np.array([function(cell) for cell in distinct.tolist()], dtype=dtype)[inverse].reshape(array.shape)
    text = _as_text(flat)
    if text is not None:
        return _of_text(text, function, dtype).reshape(array.shape)
    of_text = functools.cache(function)  # of text alone: 1 and True are one key, and not one cell
    found = [of_text(cell) if type(cell) is str else function(cell) for cell in _listed(flat)]
    return np.array(found, dtype=dtype).reshape(array.shape)


def _of_text(text: pa.Array, function: Read, dtype: type) -> np.ndarray:
    """function(cell) for every cell of an Arrow array of strings, once per distinct one."""
    coded = text.dictionary_encode()
    answers: np.ndarray = np.array([function(cell) for cell in [*coded.dictionary.to_pylist(), None]], dtype=dtype)
    return np.asarray(answers[coded.indices.fill_null(len(answers) - 1).to_numpy(zero_copy_only=False)])


def _of_arrow_text(values: object, function: Read, dtype: type) -> np.ndarray | None:
    """The same straight from a column that Arrow stores as strings; None for any other, and where a cell is no UTF-8.

    Without it every string would become a Python object and be taken back, an eighth of a fit on a table of words.
    """
    if not hasattr(values, "dictionary_encode") or not hasattr(values, "type"):
        return None
    import pyarrow as pa

    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return None
    try:
        whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        return _of_text(whole, function, dtype)
    except Exception:  # no UTF-8, or more text than one array holds: each cell is read for itself
        return None


def _listed(flat: np.ndarray) -> list[object]:
    """The cells as Python has them; dates stay NumPy's, whose list may hold integers instead."""
    return list(flat) if flat.dtype.kind in "mM" else flat.tolist()


def _as_text(array: np.ndarray) -> pa.Array | None:
    """A column of objects as Arrow text when every cell is a string, UTF-8 bytes or null, as `plain` reads them; else None."""
    import pyarrow as pa

    if array.dtype.kind not in "OUS":
        return None
    try:  # as objects: Arrow ends the text of a fixed-width array at a NUL
        return pa.array(np.asarray(array.ravel(), dtype=object), type=pa.large_string(), from_pandas=True)
    except Exception:  # other cells; each object raises what it likes
        return None
