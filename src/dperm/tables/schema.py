"""A public description of columns: what a person who has never seen the data could write down.

    {"columns": {"age": {"type": "numeric", "low": 17, "high": 90},
                 "sex": {"type": "categorical", "levels": ["Female", "Male"]}},
     "target":  {"column": "income", "type": "classes", "classes": ["<=50K", ">50K"]}}

Column types: numeric (low, high), ordinal (levels in order), categorical (levels), boolean, sparse (non-negative, mostly zero:
high), ignored. A numeric column may say "bounds": "private" instead of low and high: the fit then pays for them. A categorical
column may say "levels": "private": a profile then pays for them. `missing` says
what a null becomes. In numeric and ordinal columns: "mean" (the default: the private centre of the column, or the middle of its
bounds where the method releases none), "middle", "indicator" (as "mean", and a 0/1 column says where a cell was missing), a
number or a level. In categorical columns: a level, "its own level", or by default the all-zero one-hot. In boolean and sparse
columns: a number, 0 by default. A cell that does not parse is missing; an unknown level is the all-zero one-hot. Boolean columns
with the same `group` are a one-hot code written out: exactly one of them is 1. `row_norm` beside "columns" bounds a row's norm.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dperm.tables.cells import codes, filled, nulls, numbers, truth
from dperm.tables.encoding import Encoding, missing_value
from dperm.tables.gaps import kept_entries
from dperm.words.spelling import closest, finite, scalars

COLUMN_TYPES = ("numeric", "ordinal", "categorical", "boolean", "sparse", "ignored")
TARGET_TYPES = ("classes", "numeric", "count")
OWN_LEVEL = "its own level"
MISSING_NAME = "(missing)"
MISSING_RULES = ("mean", "middle", "indicator")  # of numeric and ordinal columns; "mean" where nothing is said


@dataclass(frozen=True)
class Column:
    """One declared column."""

    name: str
    type: str
    low: float | None = None
    high: float | None = None
    levels: tuple[Any, ...] = ()
    missing: Any = None
    group: str | None = None
    bounds: str | None = None
    private_levels: bool = False  # they are to be found, and paid for, before a fit

    def __post_init__(self) -> None:
        where = f"column {self.name!r}"
        if self.type not in COLUMN_TYPES:
            hint = closest(self.type, COLUMN_TYPES)
            raise ValueError(f"Expected the type of {where} in {COLUMN_TYPES}, found {self.type!r}.{hint} Correct the schema.")
        if self.bounds is not None and (self.type != "numeric" or self.bounds != "private" or self.low is not None):
            raise ValueError(f'Expected bounds="private" on a numeric column without low and high, found another for {where}.')
        if self.type in ("numeric", "sparse") and self.bounds is None:
            if self.type == "sparse" and self.low is None:
                object.__setattr__(self, "low", 0.0)
            for side in ("low", "high"):
                value = getattr(self, side)
                if not finite(value):
                    found = "nothing" if value is None else repr(value)
                    quotes = " Write it without quotes." if isinstance(value, str) else ""
                    private = ' Or write "bounds": "private" instead, and it is found and paid for.' if value is None else ""
                    private = private if self.type == "numeric" else ""
                    raise ValueError(
                        f"Expected a number for {side} of {where}, found {found}.{quotes} Fill in a bound that holds for every "
                        f"record; do not compute it from the data.{private}"
                    )
            if not self.low < self.high:  # type: ignore[operator]
                raise ValueError(f"Expected low < high for {where}, found {self.low} and {self.high}. Exchange or correct them.")
        if self.group is not None and self.type != "boolean":
            raise ValueError(f"Expected group= only for boolean columns, found it for {where}, which is {self.type}.")
        if self.private_levels and self.type != "categorical":
            raise ValueError(f'Expected "levels": "private" only for categorical columns, found it for {where}.')
        different = self.private_levels or len({str(level) for level in self.levels}) == len(self.levels) > 0
        if self.type in ("categorical", "ordinal") and not different:
            found = repr(list(self.levels)) if self.levels else "none"
            private = ', or write "levels": "private"' if self.type == "categorical" else ""
            raise ValueError(
                f"Expected different levels for {where}, found {found}. List once every level that may occur{private}; do not "
                'read them off the data. A column that is not a feature gets "type": "ignored".'
            )

    @property
    def features(self) -> list[str]:
        """Names of the encoded features this column becomes."""
        if self.type == "ignored":
            return []
        if self.type != "categorical":
            return [self.name, f"{self.name}={MISSING_NAME}"] if self.missing_rule == "indicator" else [self.name]
        names = [f"{self.name}={level}" for level in self.levels]
        return [*names, f"{self.name}={MISSING_NAME}"] if self.missing == OWN_LEVEL else names

    @property
    def missing_rule(self) -> str:
        """ "mean", "middle", "indicator" or "value". A level of an ordinal column that has such a name is a level."""
        if self.type not in ("numeric", "ordinal"):
            return "value"
        if self.missing is None:
            return "mean"
        return self.missing if self.missing in MISSING_RULES and self.missing not in self.levels else "value"

    @property
    def missing_number(self) -> float | None:
        """The declared value of a missing cell in the raw matrix of a numeric or ordinal column; None where a rule says it."""
        if self.missing is None or self.missing_rule != "value":
            return None
        return float(codes([self.missing], self.levels)[0] if self.type == "ordinal" else self.missing)

    def encode(self, values: Any) -> np.ndarray:
        """Raw feature matrix of a column of cells (strings, numbers or None): n × len(features).

        A missing cell of a numeric or ordinal column is NaN, which the encoding turns into what its rule says.
        """
        if self.type == "boolean":
            return filled(truth(values), self.missing, 0.0)[:, None]
        if self.type == "sparse":
            return filled(numbers(values), self.missing, float(self.low or 0.0))[:, None]
        if self.type in ("numeric", "ordinal"):
            raw = numbers(values) if self.type == "numeric" else codes(values, self.levels).astype(np.float64)
            raw = np.where(np.isfinite(raw) & ((raw >= 0) | (self.type == "numeric")), raw, np.nan)
            raw = raw if self.missing_number is None else filled(raw, self.missing_number, 0.0)
            flag = [np.isnan(raw).astype(np.float64)] if self.missing_rule == "indicator" else []
            return np.stack([raw, *flag], axis=1)
        code = self.places(values)
        matrix = np.zeros((len(code), len(self.features)))
        rows = np.flatnonzero(code >= 0)
        matrix[rows, code[rows]] = 1.0
        return matrix

    def places(self, values: Any) -> np.ndarray:
        """Which feature of a categorical column each cell switches on; -1 for none (an unknown level)."""
        code = codes(values, self.levels)
        if self.missing is None:
            return code
        replaced = len(self.levels) if self.missing == OWN_LEVEL else int(codes([self.missing], self.levels)[0])
        return np.where(nulls(values), replaced, code)

    def spec(self) -> dict[str, Any]:
        found: dict[str, Any] = {"type": self.type}
        for name in ("low", "high", "missing", "group", "bounds"):
            if getattr(self, name) is not None:
                found[name] = getattr(self, name)
        if self.levels or self.private_levels:
            found["levels"] = "private" if self.private_levels else list(self.levels)
        return found


@dataclass(frozen=True)
class TargetColumn:
    """What is predicted: `classes` (the last of two is the positive one), `numeric` or `count` with bounds."""

    column: str
    type: str
    classes: tuple[Any, ...] | None = None
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if self.type not in TARGET_TYPES:
            hint = closest(self.type, TARGET_TYPES)
            raise ValueError(f"Expected the target's type in {TARGET_TYPES}, found {self.type!r}.{hint} Correct the schema.")
        if self.type == "classes" and (self.classes is None or len(self.classes) < 2):
            found = list(self.classes) if self.classes else "none"
            raise ValueError(
                f"Expected at least two classes for target {self.column!r}, found {found}. List every label that may occur, the "
                'positive one last, e.g. "classes": ["no", "yes"].'
            )
        if self.type == "count" and self.low is None:
            object.__setattr__(self, "low", 0.0)  # a count is never negative
        if self.type != "classes" and not (finite(self.low) and finite(self.high) and self.low < self.high):  # type: ignore[operator]
            sides = " and ".join("nothing" if side is None else repr(side) for side in (self.low, self.high))
            raise ValueError(
                f"Expected numbers low < high for target {self.column!r}, found {sides}. Fill in the range that it can have; do "
                "not compute it from the data."
            )


PARTS = ("name", "note", "columns", "target", "row_norm")
MOST_MISTAKES = 12
ENTRIES = ("type", "low", "high", "levels", "missing", "group", "bounds")


def _described(name: str, entry: Any) -> Column:
    """One column from its JSON description."""
    if not isinstance(entry, Mapping):
        raise ValueError(f"Expected a description of column {name!r}, found {str(entry)[:60]!r}.")
    unknown = sorted(str(key) for key in entry if key not in ENTRIES)
    if unknown:
        hint = closest(unknown[0], ENTRIES)
        listed = ", ".join(ENTRIES[:-1])
        raise ValueError(f"Expected {listed} or {ENTRIES[-1]} for column {name!r}, found {unknown}.{hint}")
    given = entry.get("levels") or ()
    private = isinstance(given, str) and given == "private"
    levels = () if private else scalars(given, f"levels of column {name!r}")
    missing = entry.get("missing")
    if missing is not None:
        (missing,) = scalars([missing], f"missing of column {name!r}")
        _check_missing(name, entry.get("type"), missing, levels)
    low, high = entry.get("low"), entry.get("high")
    return Column(name, entry.get("type", ""), low, high, levels, missing, entry.get("group"), entry.get("bounds"), private)


def _scaled(column: Column) -> tuple[Any, ...]:
    """(kind, low, high, missing, group, rule) of a column that is one number."""
    kind = "private" if column.bounds is not None else "numeric" if column.type == "ordinal" else column.type
    low, high = (-0.5, 0.5) if kind == "private" else (float(column.low or 0.0), float(column.high or 0.0))
    if column.type in ("ordinal", "boolean"):
        low, high = 0.0, max(float(len(column.levels) - 1), 1.0)
    missing = missing_value(kind, low, high, column.missing_number)
    return kind, low, high, missing, -1, "mean" if column.missing_rule == "indicator" else column.missing_rule


def _check_missing(name: str, kind: Any, missing: Any, levels: tuple[Any, ...]) -> None:
    """A word must be one that the type of the column knows."""
    if kind in ("sparse", "boolean") and isinstance(missing, str):
        raise ValueError(f"Expected a number as missing of column {name!r}, found {missing!r}. Write what a null becomes.")
    if kind == "numeric" and isinstance(missing, str) and missing not in MISSING_RULES:
        words = ", ".join(f'"{word}"' for word in MISSING_RULES)
        raise ValueError(
            f"Expected {words} or a number as missing of column {name!r}, found {missing!r}.{closest(missing, MISSING_RULES)} "
            "Write what a null becomes."
        )
    if kind == "ordinal" and missing not in MISSING_RULES and codes([missing], levels)[0] < 0:
        raise ValueError(
            f"Expected one of the levels of column {name!r} or a rule in {MISSING_RULES} as its missing, found {missing!r}."
        )


@dataclass(frozen=True)
class Schema:
    """Declared columns and target.

    >>> schema = Schema.from_dict({"columns": {"age": {"type": "numeric", "low": 0, "high": 100}}})
    >>> schema.encoding().norm
    0.5
    """

    columns: tuple[Column, ...]
    target: TargetColumn | None = None
    name: str = "table"
    row_norm: float | None = None

    @classmethod
    def from_dict(cls, spec: Mapping[str, Any]) -> Schema:
        """Build from the JSON form; every mistake is named with its place."""
        if not isinstance(spec, Mapping) or not isinstance(spec.get("columns"), Mapping) or not spec["columns"]:
            given = [str(key)[:40] for key in list(spec)[:9]] if isinstance(spec, Mapping) else [type(spec).__name__]
            keys, hint = ", ".join(map(repr, given)), "" if "columns" in given else closest((given or [""])[0], PARTS)
            raise ValueError(
                f'Expected a schema {{"columns": {{name: {{...}}}}, "target": {{...}}}}, found {keys or "nothing"}.{hint} Draft '
                "one with `dperm schema FILE`."
            )
        unknown = [str(key)[:60] for key in spec if key not in PARTS]
        if unknown:
            hint = closest(unknown[0], PARTS)
            raise ValueError(f"Expected {', '.join(PARTS)} at the top of a schema, found {unknown[0]!r}.{hint} Correct it.")
        columns: list[Column] = []
        mistakes: list[str] = []
        for name, entry in spec["columns"].items():
            try:
                columns.append(_described(str(name), entry))
            except ValueError as error:
                mistakes.append(str(error))
        if mistakes:
            more = [f"{len(mistakes) - MOST_MISTAKES} more columns have mistakes."] if len(mistakes) > MOST_MISTAKES else []
            raise ValueError("\n".join(mistakes[:MOST_MISTAKES] + more))
        if all(column.type == "ignored" for column in columns):
            raise ValueError("Expected at least one column that is not ignored, found none.")
        target = spec.get("target")
        declared = None
        # A draft's target that was left empty is no target: --target names one.
        if target is not None and not (isinstance(target, Mapping) and target.get("column") == ""):
            if not isinstance(target, Mapping) or not isinstance(target.get("column"), str):
                raise ValueError('Expected "target": {"column": ..., "type": ...}, found something else.')
            classes = target.get("classes")
            classes = None if classes is None else scalars(classes, f"classes of target {target['column']!r}")
            declared = TargetColumn(
                str(target["column"]),
                target.get("type", ""),
                None if classes is None else tuple(classes),
                target.get("low"),
                target.get("high"),
            )
        norm = spec.get("row_norm")
        if norm is not None and not (isinstance(norm, int | float) and 0 < norm < math.inf):
            raise ValueError(f"Expected row_norm > 0, the largest Euclidean norm of a row, found {norm!r}. Correct the schema.")
        return cls(tuple(columns), declared, str(spec.get("name", "table")), None if norm is None else float(norm))

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read JSON or TOML."""
        from dperm.tables.json_files import read_json

        file = Path(path)
        if not file.is_file():
            raise ValueError(f"Expected a schema at {file}, found no file. Draft one with `dperm schema`, or check the path.")
        if file.suffix != ".toml":
            return cls.from_dict(read_json(file))
        try:
            spec = tomllib.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"Expected a schema in TOML in {file}, found text that does not parse: {error}.") from error
        return cls.from_dict(spec)

    def spec(self) -> dict[str, Any]:
        found: dict[str, Any] = {"name": self.name, "columns": {c.name: c.spec() for c in self.columns}}
        if self.row_norm is not None:
            found["row_norm"] = self.row_norm
        if self.target is not None:
            entries: dict[str, Any] = {"column": self.target.column, "type": self.target.type}
            for key in ("classes", "low", "high"):
                value = getattr(self.target, key)
                if value is not None:
                    entries[key] = list(value) if key == "classes" else value
            found["target"] = entries
        return found

    def with_target(self, column: str) -> Schema:
        """The same schema for another target; a declared column may become the target if it has classes or bounds."""
        if self.target is not None and self.target.column == column:
            return self
        named = {c.name: c for c in self.columns}
        if column not in named:
            known = [*named, *([] if self.target is None else [self.target.column])]
            hint = closest(column, known)
            raise ValueError(f"Expected target {column!r} among the declared columns, found none.{hint} Add it to the schema.")
        chosen = named[column]
        kind = "numeric" if chosen.type in ("numeric", "sparse") else "classes"
        classes = (0, 1) if chosen.type == "boolean" else chosen.levels
        target = TargetColumn(column, kind, classes if kind == "classes" else None, chosen.low, chosen.high)
        return Schema(tuple(c for c in self.columns if c.name != column), target, self.name, self.row_norm)

    def encoding(self) -> Encoding:
        """The encoding of the features, in the order of the columns."""
        for column in self.columns:
            if column.private_levels:
                raise ValueError(
                    f'Expected the levels of column {column.name!r}, found "private". Find them first: `dperm.profile(table, '
                    "schema=..., epsilon=...).schema()` fills them in, and `dperm fit` does both in one budget."
                )
        features: list[tuple[Any, ...]] = []  # name, kind, low, high, missing, group, rule
        numbered: dict[str, int] = {}
        for column in self.columns:
            if column.type == "ignored":
                continue
            first, *others = column.features
            if column.type == "categorical" or column.group is not None:
                # Boolean columns of one group are a one-hot code that somebody wrote out: one of them is 1.
                label = f"column {column.name}" if column.group is None else f"group {column.group}"
                group = numbered.setdefault(label, len(numbered))
                features += [(name, "categorical", 0.0, 1.0, 0.0, group, "value") for name in (first, *others)]
                continue
            features.append((first, *_scaled(column)))
            for name in others:  # where a cell was missing
                group = numbered.setdefault(f"missing {column.name}", len(numbered))
                features.append((name, "categorical", 0.0, 1.0, 0.0, group, "value"))
        names, kinds, low, high, missing, groups, rules = zip(*features)
        return Encoding(names, kinds, np.array(low), np.array(high), np.array(missing), groups, self.row_norm, True, rules)

    def check(self, found: list[str], *, with_target: bool = True) -> None:
        """The table's columns against the declared ones; raises before anything is spent."""
        if len(set(found)) != len(found):
            raise ValueError("Expected column names that differ, found a name twice. Rename the columns of the table.")
        needed = [c.name for c in self.columns if c.type != "ignored"]
        if with_target and self.target is not None:
            needed.append(self.target.column)
        absent = [name for name in needed if name not in found]
        if absent:
            raise ValueError(
                f"Expected the declared columns {', '.join(map(repr, absent))}, found {', '.join(map(repr, found[:30]))}."
                f"{closest(absent[0], found)} Correct the names in the schema, or mark a column as ignored."
            )

    def features(self, cells: Mapping[str, Any]) -> np.ndarray:
        """Raw feature matrix from columns of cells; encode it with `encoding().transform`."""
        return np.concatenate([c.encode(cells[c.name]) for c in self.columns if c.type != "ignored"], axis=1)

    def encoded(self, table: Any, encoding: Encoding | None = None) -> Any:
        """Encoded rows of a table, ready to be summed: CSR where the schema says that most entries are 0, else dense.

        The choice is made from the schema alone. A one-hot group stores one entry per row however many levels it has, so a
        descent over Adult reads 13 numbers per row where the dense form has 107.
        """
        from dperm.tables.tables import cells

        encoding = self.encoding() if encoding is None else encoding
        used = [column for column in self.columns if column.type != "ignored"]
        if not encoding.mostly_zero:
            return encoding.transform(self.features({c.name: cells(table, c.name) for c in used}))
        from scipy.sparse import csr_array

        places, values, start = [], [], 0
        for column in used:
            found = cells(table, column.name)
            if column.type == "categorical":
                level = column.places(found)
                places.append(start + np.maximum(level, 0))
                values.append((level >= 0).astype(np.float64))
            else:
                raw = column.encode(found)
                places += [np.full(len(found), start + offset) for offset in range(raw.shape[1])]
                values += [encoding.transform_column(start + offset, raw[:, offset]) for offset in range(raw.shape[1])]
            start += len(column.features)
        return kept_entries(np.stack(values, axis=1), np.stack(places, axis=1), start, csr_array)

    def labels(self, cells: Any) -> np.ndarray:
        """Target cells as class labels (in the type of the declared classes) or numbers; unknown → None or NaN."""
        target = self.target
        if target is None:
            raise ValueError("Expected a target in the schema, found none. Add \"target\" or pass --target.")
        if target.type != "classes":
            return numbers(cells)
        code = codes(cells, target.classes or ())
        labels = np.array([*(target.classes or ()), None], dtype=object)
        return np.asarray(labels[code])

    @classmethod
    def from_table(cls, table: Any) -> dict[str, Any]:
        """A draft to fill in, from the names and storage types of a pandas, polars or Arrow table: no value is read."""
        kinds = table.schema if hasattr(table, "schema") else table.dtypes
        if hasattr(kinds, "names") and hasattr(kinds, "field"):  # Arrow
            return cls.draft({field.name: str(field.type) for field in kinds})
        return cls.draft({str(name): str(kind).lower() for name, kind in kinds.items()})

    @classmethod
    def draft(cls, types: Mapping[str, str]) -> dict[str, Any]:
        """A schema to fill in, from column names and storage types alone: no value of the data is ever copied.

        >>> Schema.draft({"age": "int64"})["columns"]["age"]
        {'type': 'numeric', 'low': None, 'high': None}
        """
        columns: dict[str, Any] = {}
        for name, storage in types.items():
            if storage in ("bool", "boolean"):
                columns[name] = {"type": "boolean"}
            elif any(word in storage for word in ("int", "float", "double", "decimal")):
                columns[name] = {"type": "numeric", "low": None, "high": None}
            else:
                columns[name] = {"type": "categorical", "levels": []}
        return {"name": "table", "columns": columns, "target": {"column": "", "type": "classes", "classes": []}}
