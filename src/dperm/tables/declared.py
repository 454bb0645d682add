"""What a person declares about the columns of an array: `bounds=` in each of its forms, lists of columns, one-hot groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from dperm.problem.arrays import Vector
from dperm.problem.plain import is_number, plain_float, plain_number, plain_whole, shown
from dperm.words.spelling import closest

FORMS = (
    'one pair (low, high) for all columns, one pair per column [(low, high), ...], a dict {"name": (low, high), ...}, or '
    "(lows, highs) with one number per column each"
)


def declared_bounds(
    bounds: object, d: int, names: Sequence[str] | None = None, others: Sequence[int] = ()
) -> tuple[Vector, Vector]:
    """(lows, highs) of d columns, called x0, x1, ... where they have no names.

    `others` are columns whose kind has its own bounds (0/1 columns): a dict may leave them out.
    Which form was meant is decided by its structure and by d, which are public.

    >>> [side.tolist() for side in declared_bounds([(0, 100), (50, 200), (0, 1)], 3, ("a", "b", "c"))]
    [[0.0, 50.0, 0.0], [100.0, 200.0, 1.0]]
    >>> [side.tolist() for side in declared_bounds({"b": (50, 200), "a": (0, 100)}, 2, ("a", "b"))]
    [[0.0, 50.0], [100.0, 200.0]]
    """
    names = [f"x{j}" for j in range(d)] if names is None or len(names) != d else [str(name) for name in names]
    if isinstance(bounds, Mapping):
        low, high = _by_name(bounds, names, others)
    else:
        low, high = _by_place(bounds, d, names)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError("Expected finite bounds, found inf or NaN. Pass numbers that hold for every record, loose if need be.")
    return low, high


def declared_width(bounds: object, *others: object) -> int | None:
    """How many columns bounds speak of, by their structure alone; None where they say one thing of any number of columns.

    A dict speaks of the columns up to the last that it, or one of the `others` (lists of columns), names: by its place, or as x0.

    >>> declared_width((0, 1)), declared_width([(0, 1)] * 3), declared_width((0, [1, 2])), declared_width({"x0": (0, 1)}, [3])
    (None, 3, 2, 4)
    """
    if isinstance(bounds, Mapping):
        places = [_place(name) for name in [*bounds, *(item for listed in others for item in _flat(listed))]]
        return None if not places or None in places else 1 + max(place for place in places if place is not None)
    table = _numbers(bounds)
    if table is not None and table.ndim == 2 and 2 in table.shape:
        return int(table.shape[1] if table.shape[0] == 2 else table.shape[0])
    if table is not None:
        return None
    try:
        sides = np.broadcast_shapes(*(np.shape(side) for side in _pair(bounds)))  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return None
    return int(sides[0]) if len(sides) == 1 else None


def _place(name: object) -> int | None:
    """The place of a column without a name of its own."""
    if isinstance(name, str) and name[:1] == "x" and name[1:].isdecimal():
        name = int(name[1:])
    return int(name) if isinstance(name, int | np.integer) and not isinstance(name, bool) and name >= 0 else None


def _flat(listed: object) -> list[object]:
    """The columns in a list, or in a list of groups."""
    if listed is None:
        return []
    if isinstance(listed, str) or not isinstance(listed, Iterable):
        return [None]
    return [item for group in listed for item in (group if isinstance(group, list | tuple) else [group])]


def _by_name(bounds: Mapping[object, object], names: Sequence[str], others: Sequence[int]) -> tuple[Vector, Vector]:
    places = {name: j for j, name in enumerate(names)}
    low, high = np.zeros(len(names)), np.ones(len(names))
    open_columns = set(range(len(names))) - set(others)
    for name, pair in bounds.items():
        number = plain_number(name, "a column") if is_number(name) else -1
        j = int(number) if isinstance(number, int) and 0 <= number < len(names) else places.get(str(name))
        if j is None:
            raise ValueError(
                f"Expected bounds= to name columns of X, found {str(name)[:60]!r}.{closest(str(name), names)} Columns: "
                f"{', '.join(names[:20])}."
            )
        found = _numbers(pair)
        if found is None or found.shape != (2,):
            raise ValueError(
                f"Expected a pair (low, high) as bounds of column {names[j]!r}, found {shown(pair)}. Write two numbers."
            )
        low[j], high[j] = found
        open_columns.discard(j)
    if open_columns:
        absent = ", ".join(repr(names[j]) for j in sorted(open_columns)[:12])
        raise ValueError(f"Expected bounds of every numeric column, found none for {absent}. Add them to bounds=.")
    return low, high


def _by_place(bounds: object, d: int, names: Sequence[str]) -> tuple[Vector, Vector]:
    table = _numbers(bounds)
    if table is not None and table.shape == (d, 2) and d != 2:
        return table[:, 0].copy(), table[:, 1].copy()
    try:
        low, high = (np.broadcast_to(_real(side), (d,)).copy() for side in _pair(bounds))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Expected bounds= as {FORMS}; X has {d} columns. Found {shown(bounds)}. Write numbers, in one of these forms."
        ) from error
    # Nobody writes a pair as an array.
    arrays = isinstance(bounds, tuple) and all(isinstance(side, np.ndarray) for side in bounds)
    if d == 2 and not arrays and table is not None and table.shape == (2, 2):
        return _two_columns(table, names)
    return low, high


def _two_columns(table: Vector, names: Sequence[str]) -> tuple[Vector, Vector]:
    """Two columns and a 2 × 2 table: pairs per column are its rows, lows and highs are its rows too. Only one may make sense."""
    pairs, sides = bool(np.all(table[:, 0] < table[:, 1])), bool(np.all(table[0] < table[1]))
    if pairs and sides and not np.array_equal(table, table.T):
        (a, b), (c, d) = table.tolist()
        first, second = (repr(name) for name in names)
        raise ValueError(
            "Expected bounds= that can be read in one way, found two numbers twice for two columns. One pair per column would "
            f"mean {first} from {a:g} to {b:g} and {second} from {c:g} to {d:g}; (lows, highs) would mean {first} from {a:g} to "
            f"{c:g} and {second} from {b:g} to {d:g}. Write a dict by column name: bounds={{{first}: (low, high), {second}: "
            "(low, high)}."
        )
    return (table[:, 0].copy(), table[:, 1].copy()) if pairs else (table[0].copy(), table[1].copy())


def _pair(bounds: object) -> tuple[object, object]:
    if isinstance(bounds, str) or not isinstance(bounds, Iterable):
        raise TypeError("no pair")
    low, high = bounds
    return low, high


def _numbers(values: object) -> Vector | None:
    """As an array of numbers, or None for what is none (words, ragged lists)."""
    try:
        return _real(values)
    except (TypeError, ValueError):
        return None


def _real(values: object) -> Vector:
    """Numbers of every kind, in lists or arrays, as floats; text, truth values and ragged lists are refused."""
    if is_number(values):
        return np.asarray(plain_float(values, "a bound"))
    array = values if isinstance(values, list | tuple) else np.asarray(values)
    if isinstance(array, np.ndarray) and array.dtype.kind in "iuf" and array.dtype.itemsize <= 8:
        return array.astype(np.float64)
    if isinstance(array, np.ndarray) and array.ndim == 0:
        raise TypeError("no number")
    sides = [_real(side) for side in array]
    if len({side.shape for side in sides}) > 1:
        raise ValueError("lists of different lengths")
    return np.array(sides, dtype=np.float64)


def listed_columns(declared: object, labels: tuple[str, ...], kind: str) -> list[int]:
    """Column indices from a list of indices or names, or "all"."""
    if declared is None:
        return []
    if isinstance(declared, str) and declared == "all":
        return list(range(len(labels)))
    if isinstance(declared, str) or not isinstance(declared, Iterable):
        raise ValueError(f'Expected {kind}= as a list of columns or "all", found {shown(declared)}. Pass one of them.')
    found = []
    for item in declared:
        if isinstance(item, str):
            if item not in labels:
                raise ValueError(f"Expected {kind}= to name columns of X, found {item!r}. Columns: {', '.join(labels[:20])}.")
            found.append(labels.index(item))
        else:
            place = plain_whole(item, f"a column of {kind}=")
            if not -len(labels) <= place < len(labels):
                raise ValueError(f"Expected {kind}= column numbers below {len(labels)}, found {place}. Pass others.")
            found.append(place % len(labels))
    return found


def grouped_columns(declared: object, labels: tuple[str, ...]) -> list[list[int]]:
    """Groups of one-hot columns; a flat list is one group."""
    if declared is None:
        return []
    if isinstance(declared, str) or not isinstance(declared, Iterable):
        return [listed_columns(declared, labels, "categorical")]
    items = list(declared)
    nested = [list(item) for item in items if not isinstance(item, str | int | np.integer)]
    if nested and len(nested) != len(items):
        raise ValueError("Expected categorical= as a list of groups, found columns and groups mixed. Write [[0, 1], [2, 3, 4]].")
    groups = [listed_columns(group, labels, "categorical") for group in (nested or [items])]
    flat = [j for group in groups for j in group]
    if len(set(flat)) != len(flat):
        raise ValueError("Expected each column in one categorical group, found a column in two.")
    return groups
