"""Labels: declared classes and declared bounds, never those found in the data."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

import numpy as np
from sklearn.exceptions import DataConversionWarning

from dperm.problem import Interval
from dperm.problem.plain import plain_pair, shown
from dperm.tables.cells import codes, key, numbers, plain
from dperm.tables.containers import beside, holds_times, objects, stored_kind
from dperm.tables.schema import Schema
from dperm.tables.tables import is_table, stored_columns
from dperm.words.spelling import finite


def declared_classes(classes: object, schema: Schema | None) -> np.ndarray:
    """The classes the caller declared, as an array; for two classes the second is the positive one."""
    target = None if schema is None else schema.target
    of_schema = None if target is None else target.classes
    if classes is None:
        classes = of_schema
    if classes is None:
        raise ValueError(
            "Expected classes=, the labels that can occur, found none. Pass e.g. classes=[0, 1]: which labels exist must be "
            "declared, because reading them off the data would reveal a rare one."
        )
    if isinstance(classes, str | bytes | set | frozenset | Mapping) or not isinstance(classes, Iterable):
        raise ValueError(
            f"Expected classes= as a list of labels, found {classes!r}. Write e.g. classes=[0, 1]; the last of two is the "
            "positive one."
        )
    classes = list(classes)
    found = _classes_as_array(classes)
    if found.ndim != 1 or len(found) < 2 or len(set(codes(classes, classes).tolist())) != len(found):
        raise ValueError(f"Expected at least two different classes, found {classes!r}. Pass e.g. classes=[0, 1].")
    found_in = list(of_schema or ())
    if target is not None and found_in and set(codes(classes, found_in).tolist()) != set(range(len(found_in))):
        raise ValueError(
            f"Expected the classes of the schema's target {target.column!r}, {found_in!r}, found classes={classes!r}. "
            "Leave classes= out, or correct the schema."
        )
    return found


def check_no_name(y: object) -> None:
    """Refuse the name of a column where labels are wanted."""
    if isinstance(y, str):
        raise ValueError(
            f"Expected y as one label for every row, found the text {y[:60]!r}. Pass the column itself, e.g. table[{y[:60]!r}], "
            "and the table without it; or leave y out where a schema names the target."
        )


def _classes_as_array(classes: list[object]) -> np.ndarray:
    """The classes as one array. What a saved model cannot state is refused here, before anything is spent."""
    found = np.asarray(classes)
    odd = [one for one in found.ravel().tolist() if not (one is None or isinstance(one, str | int) or finite(one))]
    if found.dtype.kind in "mM" and not odd:  # nanoseconds, which a list holds as whole numbers
        odd = [*found.ravel()]
    if odd and found.ndim == 1:
        raise ValueError(
            f"Expected classes= of words, finite numbers or truth values, found {shown(odd[0])} of type {type(odd[0]).__name__}, "
            'which no saved model could state. Write what such labels are compared by: text like "2020-01-31" for dates and for '
            "bytes, a number for decimals. The labels themselves may stay as they are."
        )
    if found.dtype.kind == "U" and any(isinstance(one, str) and one.endswith("\0") for one in classes):
        return objects(map(str, classes))  # NumPy's arrays of text drop NULs at the end, and two classes would be one
    return found


def label_column(y: object, n: int) -> np.ndarray:
    """y as one column of n labels, each as it is. Missing and odd ones pass: refusing them would let one person's row stop a fit.

    scikit-learn's own check of y raises on the first NaN, which is a message about a row, and quotes complex labels.
    """
    if isinstance(y, np.ndarray) and y.dtype.kind == "c":  # one cell makes a complex column of a table: there each is read alone
        raise ValueError("Complex data not supported: expected real labels, found complex ones. Pass real numbers.")
    tables = [_one_kind(part) for part in stored_columns(y)] if is_table(y) else []
    labels = _one_kind(y) if not tables else tables[0][:, None] if len(tables) == 1 else np.stack(tables, axis=1)
    if labels.ndim == 2 and labels.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Pass one label per row, e.g. y.ravel().",
            DataConversionWarning,
            stacklevel=2,
        )
        labels = labels[:, 0]
    check_no_name(y)
    if labels.ndim != 1:
        found = "an array of another shape"
        if isinstance(y, np.ndarray):  # in a list the cells would decide
            found = f"an array with {y.shape[1]} columns" if y.ndim == 2 else f"an array with {y.ndim} dimensions"
        raise ValueError(f"y should be a 1d array, got {found} instead. Pass one label for every row.")
    if len(labels) != n:
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: expected one label for every row. Pass as many labels "
            "as rows."
        )
    return labels


def known_labels(labels: np.ndarray, weight: object) -> tuple[np.ndarray, object]:
    """(labels, weights) for a score of public rows: where there is no label, any other stands with weight 0.

    They have the type that the labels have by themselves: scikit-learn scores no numbers in an array of objects.
    """
    given = labels.tolist()
    known = np.array([label is not None and label == label for label in given], dtype=bool)
    if known.all():
        return np.array(given), weight
    if not known.any():
        raise ValueError("Expected rows with a label to score, found none. Check the schema's target against the column.")
    labels = np.where(known, labels, given[int(known.argmax())])
    return np.array(labels.tolist()), np.where(known, 1.0 if weight is None else numbers(beside(weight)), 0.0)


def _one_kind(y: object) -> np.ndarray:
    """A column of labels whose array has a type that follows from the column's, whether or not a label is missing.

    A missing label makes floats of the whole numbers of a nullable column; without one they are floats here too.
    """
    labels = beside(y)
    own = isinstance(y, np.ndarray) or isinstance(getattr(y, "dtype", None), np.dtype)
    return labels if own or labels.dtype.kind not in "iub" else labels.astype(np.float64)


def check_label_type(y: object, classes: np.ndarray) -> None:
    """Refuse a column of whole numbers where no class is a number: its type is public, and every row would be a null row.

    The type is that of the column as it is stored: an array that is made of it, or of a part of it, depends on whether a label is
    missing there. In lists and arrays of objects each label is read alone, so nothing is refused there.
    """
    if is_table(y) and len(parts := stored_columns(y)) == 1:
        y = parts[0]
    found, kind = getattr(y, "dtype", getattr(y, "type", None)), stored_kind(y)
    comparable = [isinstance(key(plain(label)), float) for label in classes.tolist()]
    if kind in "iub" and not any(comparable):  # floats may be the missing ones of a column of words
        raise ValueError(
            f"Expected labels among the classes {classes.tolist()!r}, found an array of type {found}, which holds none of "
            "them. Pass the labels themselves, or declare the numbers that stand for them, e.g. "
            f"classes={list(range(len(classes)))}."
        )


def check_target_type(y: object) -> None:
    """Refuse a column of times as the target of a regression: its type is public, and every row would be a null row.

    In lists and arrays of objects each label is read alone, so nothing is refused there.
    """
    if is_table(y) and len(parts := stored_columns(y)) == 1:
        y = parts[0]
    if holds_times(y):
        found = getattr(y, "dtype", getattr(y, "type", None))
        raise ValueError(
            f"Expected numbers as the target of a regression, found a column of type {found}, whose cells are none. Pass "
            "numbers, e.g. days since a fixed date."
        )


def classify(y: object, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray | None, Interval]:
    """(-1/+1 or class numbers, weights, interval). A label outside the classes gets weight 0: a public rule, no error."""
    place = codes(y, classes.tolist())
    index, weight = np.maximum(place, 0), (place >= 0).astype(np.float64)
    if len(classes) == 2:
        return 2.0 * index - 1.0, weight, Interval(-1.0, 1.0)
    return index.astype(np.int64), weight, Interval(0.0, float(len(classes) - 1))


def bounded_labels(y: object, y_bounds: object) -> tuple[np.ndarray, np.ndarray | None, tuple[float, float]]:
    """(labels mapped to [-1, 1], weights, (low, high)). A missing label gets weight 0; others are clipped to the bounds."""
    if y_bounds is None:
        raise ValueError(
            "Expected y_bounds=(low, high), found none. Pass the range that the target can have; it must not be computed "
            "from the data."
        )
    low, high = plain_pair(y_bounds, "y_bounds")
    if not (np.isfinite([low, high]).all() and low < high):
        raise ValueError(f"Expected finite y_bounds with low < high, found {shown(y_bounds)}. Correct y_bounds=.")
    values = numbers(y)
    known = np.isfinite(values)
    scaled = (np.clip(np.where(known, values, low), low, high) - (low + high) / 2) / ((high - low) / 2)
    return scaled, known.astype(np.float64), (low, high)
