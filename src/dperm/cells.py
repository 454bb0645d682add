"""Reading cells by public rules: numbers, truth values and positions among declared levels; whatever does not read is missing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def nulls(values: Any) -> np.ndarray:
    """Which cells are missing: None, NaN or an empty string."""
    array = _column(values)
    if array.dtype.kind in "fiub":
        return np.asarray(np.isnan(array)) if array.dtype.kind == "f" else np.zeros(len(array), dtype=bool)
    return _each_once(array, lambda v: v is None or v == "" or (isinstance(v, float) and math.isnan(v)), bool)


def numbers(values: Any) -> np.ndarray:
    """Cells as floats; whatever does not parse is NaN."""
    array = np.asarray(values)
    if array.dtype.kind in "US" and isinstance(values, list | tuple):  # one word made text of all: True would not parse
        array = np.array(values, dtype=object)
    if array.dtype.kind in "fiub":
        return array.astype(np.float64)
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.array([_number(value) for value in array.ravel()], dtype=np.float64).reshape(array.shape)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


WORDS = {"true": 1.0, "yes": 1.0, "t": 1.0, "y": 1.0, "false": 0.0, "no": 0.0, "f": 0.0, "n": 0.0}


def truth(values: Any) -> np.ndarray:
    """Cells as 0/1; words for yes and no are understood, anything else is NaN."""
    array = np.asarray(values)
    if array.dtype.kind in "fiub":
        return array.astype(np.float64)
    return _each_once(array, lambda v: WORDS.get(str(v).strip().lower(), _number(v)), np.float64)


def codes(values: Any, levels: Any) -> np.ndarray:
    """Position of each cell among the levels, compared as text (numbers by value); -1 where unknown.

    >>> codes(["b", "zebra", None], ["a", "b"]).tolist(), codes([2, 1.0], ["1", "2"]).tolist()
    ([1, -1, -1], [1, 0])
    """
    lookup = {_key(level): position for position, level in enumerate(levels)}
    return _each_once(_column(values), lambda value: lookup.get(_key(value), -1), np.int64)


def positions(labels: Any, classes: Any) -> np.ndarray:
    """Place of each label among the classes, in the shape of the labels; -1 for none of them.

    Equal values first (True is 1); then, where either side holds words, by the rule of `codes`: "1" is 1, cell by cell.

    >>> positions(np.array(["1", "0", "x"]), [0, 1]).tolist(), positions([1, 0], np.array(["0", "1"])).tolist()
    ([1, 0, -1], [1, 0])
    """
    array, known = np.asarray(labels), np.asarray(classes)
    if array.dtype.kind == "O" and _as_text(array.ravel()) is not None:  # words and nulls: each distinct one is placed once
        found = _each_once(array.ravel(), lambda cell: int(_places(_column([cell]), known)[0]), np.int64)
        return found.reshape(array.shape)
    return _places(array, known)


def _places(array: np.ndarray, known: np.ndarray) -> np.ndarray:
    if array.dtype.kind == "O":
        array = _column([_comparable(value) for value in array.ravel()]).reshape(array.shape)
    place = np.full(array.shape, -1, dtype=np.int64)
    for number, label in enumerate(known.tolist()):
        place[np.broadcast_to(np.asarray(array == label, dtype=bool), array.shape)] = number
    if array.dtype.kind in "biuf" and known.dtype.kind in "biuf":
        return place
    return np.where(place >= 0, place, codes(array.ravel(), known.tolist()).reshape(array.shape))


def _comparable(value: Any) -> Any:
    """The cell, or None where it refuses to be compared (NA of a frame, an array, a signalling NaN): that would stop a fit."""
    try:
        return value if value is None or bool(value == value) or value != value else None
    except (TypeError, ValueError, ArithmeticError):
        return None


def _column(values: Any) -> np.ndarray:
    """Cells as an array that keeps each one as it is: a list of mixed cells must not become text."""
    if isinstance(values, np.ndarray):
        return values
    array = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        array[place] = value
    return array


def _each_once(array: np.ndarray, function: Any, dtype: Any) -> np.ndarray:
    """function(cell) for every cell, computed once per distinct value: columns have few of them."""
    if array.dtype.kind in "fiub":
        distinct, inverse = np.unique(array, return_inverse=True)
        return np.array([function(value) for value in distinct.tolist()], dtype=dtype)[inverse]
    text = _as_text(array)
    if text is not None:
        coded = text.dictionary_encode()
        answers = np.array([function(value) for value in [*coded.dictionary.to_pylist(), None]], dtype=dtype)
        return np.asarray(answers[coded.indices.fill_null(len(answers) - 1).to_numpy(zero_copy_only=False)])
    memory: dict[Any, Any] = {}
    found = np.empty(len(array), dtype=dtype)
    for place, value in enumerate(array.tolist()):
        key = (type(value), value)  # 1, 1.0 and True are equal as dictionary keys but not as cells
        try:
            answer = memory.get(key)
            if answer is None:
                answer = memory[key] = function(value)
        except TypeError:  # a cell that cannot be a key, such as a list
            answer = function(value)
        found[place] = answer
    return found


def _as_text(array: np.ndarray) -> Any:
    """The column as Arrow text when every cell is a string or null; None otherwise."""
    import pyarrow as pa

    try:
        return pa.array(array, type=pa.string(), from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError):
        return None


def _key(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, int | float | np.integer | np.floating):
        try:
            return repr(float(value))
        except OverflowError:  # a whole number of more than 308 digits
            return str(value)
    text = str(value)
    if text and (text[0].isdigit() or text[0] in "+-."):
        try:
            return repr(float(text))
        except ValueError:
            return text
    return text


def filled(values: np.ndarray, declared: Any, default: float) -> np.ndarray:
    """Missing and infinite cells replaced by the declared value, or the default."""
    value = default if declared is None else float(declared)
    return np.where(np.isfinite(values), values, value)
