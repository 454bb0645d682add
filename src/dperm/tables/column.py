"""One declared column: how a cell of it becomes features, by public rules and alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dperm.problem.plain import plain_fields, shown
from dperm.tables.cells import Level, Plain, codes, nulls, numbers, truth
from dperm.tables.encoding import missing_value
from dperm.tables.transforms import (
    DATE_PARTS,
    STEPS,
    Binned,
    DatePart,
    Hashed,
    Hats,
    Logarithm,
    Reader,
    bin_edges,
    bin_names,
    check_hash,
    check_parts,
)
from dperm.words.spelling import closest, finite, scalars

COLUMN_TYPES = ("numeric", "ordinal", "categorical", "boolean", "sparse", "datetime", "ignored", "private")
TARGET_TYPES = ("classes", "numeric", "count")
OWN_LEVEL = "its own level"
MISSING_NAME = "(missing)"
SHAPES = ("auto", "linear", "smooth", "steps")
MISSING_RULES = ("mean", "middle", "indicator")  # of numeric and ordinal columns; "mean" where nothing is said


def type_hint(kind: object) -> str:
    """What somebody meant who wrote this as the type of a column.

    >>> type_hint("month"), type_hint("numerc")
    (' For the month write "datetime" with "parts": ["month"].', " Did you mean 'numeric'?")
    """
    if isinstance(kind, str) and kind in DATE_PARTS:
        return f' For the {kind} write "datetime" with "parts": ["{kind}"].'
    return closest(kind, COLUMN_TYPES)


@dataclass(frozen=True)
class Column:
    """One declared column."""

    name: str
    type: str
    low: float | None = None
    high: float | None = None
    levels: tuple[Level, ...] = ()
    missing: Plain = None
    group: str | None = None
    bounds: str | None = None
    private_levels: bool = False  # they are to be found, and paid for, before a fit
    parts: tuple[str, ...] = ()  # of a date
    hash: int | None = None  # levels that text is hashed into
    bins: int | tuple[float, ...] | None = None  # a number of bins between low and high, or their edges
    log: bool = False  # whether the logarithm of a positive number is the feature
    shape: str = "auto"  # "linear", "smooth" (a curve in every model) or "steps" (bins); "auto" leaves it to the model
    reader: Reader | None = None  # of a piece: what takes its cells to places or numbers
    source: str | None = None  # of a piece: the column of the table that it is read from

    def __post_init__(self) -> None:
        where = f"column {self.name!r}"
        plain_fields(self, said=("low", "high", "hash", "bins"))
        if self.type is None:  # as drafted from a CSV
            raise ValueError(
                f"Expected a type of {where}, found none yet. Write what it is: numeric with low and high, categorical or "
                "ordinal with levels, boolean, sparse with high, datetime, ignored; with private it is found and paid for."
            )
        if self.type not in COLUMN_TYPES:
            hint = type_hint(self.type)
            raise ValueError(f"Expected the type of {where} in {COLUMN_TYPES}, found {self.type!r}.{hint} Correct the schema.")
        if self.bounds is not None and (self.type != "numeric" or self.bounds != "private" or self.low is not None):
            raise ValueError(f'Expected bounds="private" on a numeric column without low and high, found them on {where}.')
        self._check_transform(where)
        if (self.type in ("numeric", "sparse") and self.bounds is None) or "year" in self.parts:
            if self.type == "sparse" and self.low is None:
                object.__setattr__(self, "low", 0.0)
            for side in ("low", "high"):
                value = getattr(self, side)
                if not finite(value):
                    found = "nothing" if value is None else shown(value)
                    quotes = " Write it without quotes." if isinstance(value, str) else ""
                    private = ' Or write "bounds": "private" instead, and it is found and paid for.' if value is None else ""
                    private = private if self.type == "numeric" else ""
                    raise ValueError(
                        f"Expected a number for {side} of {where}, found {found}.{quotes} Fill in a bound that holds for every "
                        f"record; do not compute it from the data.{private}"
                    )
            if not (finite(self.low) and finite(self.high) and self.low < self.high):
                raise ValueError(f"Expected low < high for {where}, found {self.low} and {self.high}. Exchange or correct them.")
        if self.group is not None and self.type != "boolean":
            raise ValueError(f"Expected group= only for boolean columns, found it for {where}, which is {self.type}.")
        if self.private_levels and self.type != "categorical":
            raise ValueError(f'Expected "levels": "private" only for categorical columns, found it for {where}.')
        open_levels = self.private_levels or self.hash is not None
        different = open_levels or len({str(level) for level in self.levels}) == len(self.levels) > 0
        if self.type in ("categorical", "ordinal") and not different:
            found = repr(list(self.levels)) if self.levels else "none"
            private = ', or write "levels": "private"' if self.type == "categorical" else ""
            raise ValueError(
                f"Expected different levels for {where}, found {found}. List once every level that may occur{private}; do not "
                'read them off the data. A column that is not a feature gets "type": "ignored".'
            )

    def _check_transform(self, where: str) -> None:
        """Parts, hash and bins belong to their types, and to no column whose bounds or levels are still to be found."""
        if (self.type == "datetime") != bool(self.parts):
            what = "parts, found none" if self.type == "datetime" else f"no parts, found some on a column that is {self.type}"
            raise ValueError(
                f'Expected {what} for {where}. Parts belong to "type": "datetime", e.g. "parts": ["month"]; there are '
                f"{', '.join(DATE_PARTS)} (year with low and high)."
            )
        if self.hash is not None and (self.type != "categorical" or self.levels or self.private_levels):
            raise ValueError(f'Expected hash only on a categorical column without levels, found it for {where}. Drop "levels".')
        if self.shape not in SHAPES or (self.shape != "auto" and self.type not in ("numeric", "ordinal")):
            raise ValueError(
                f"Expected shape in {SHAPES} on a numeric or ordinal column, found {self.shape!r} for {where}. "
                "Leave it out."
            )
        if self.shape in ("smooth", "steps") and (self.type != "numeric" or self.bounds is not None):
            raise ValueError(
                f"Expected shape {self.shape!r} on a numeric column with low and high, between which it is drawn, found it for "
                f"{where}. Declare them, or leave shape out: an additive model pays for the shapes of other columns."
            )
        if self.bins is not None and self.shape not in ("auto", "steps"):
            raise ValueError(f"Expected no bins on a column that is {self.shape!r}, found them for {where}. Leave one out.")
        if self.log and not (self.type == "numeric" and self.bins is None and finite(self.low) and self.low > 0):
            raise ValueError(
                f"Expected log only on a numeric column with 0 < low and no bins, found it for {where}. Give it a low > 0."
            )
        if self.bins is None:
            return
        if self.type != "numeric" or self.bounds is not None:
            raise ValueError(
                f"Expected bins only on a numeric column with declared bounds, found them for {where}. Declare low and high."
            )
        if self.low is None and self.high is None and isinstance(self.bins, tuple):  # the edges are bounds
            object.__setattr__(self, "low", self.bins[0])
            object.__setattr__(self, "high", self.bins[-1])

    @property
    def to_find(self) -> bool:
        """Whether a profile must find its type or levels before a fit."""
        return self.private_levels or self.type == "private"

    @property
    def pieces(self) -> tuple[Column, ...]:
        """What the column is to the encoding: itself, nothing, or what its transform makes of it."""
        if self.type == "ignored":
            return ()
        if self.parts:
            return tuple(self._part(part) for part in self.parts)
        if self.hash is not None:
            return (self._choice("hash", tuple(range(self.hash)), Hashed(self.hash)),)
        if self.bins is not None or self.shape == "steps":
            edges = self._edges()
            return (self._choice("bins", bin_names(edges), Binned(edges)),)
        if self.shape == "smooth":
            return (*replace(self, shape="auto").pieces, self._hats())
        if self.log:
            low, high, given = self._drawn
            missing = self.missing if given is None else given
            return (Column(f"log({self.name})", "numeric", low, high, missing=missing, reader=Logarithm(low), source=self.name),)
        return (self,)

    @property
    def _drawn(self) -> tuple[float, float, float | None]:
        """(low, high, declared value of a missing cell) as the feature has them: of the logarithm, where that is the feature."""
        low, high, given = float(self.low or 0.0), float(self.high or 0.0), self.missing_number
        if not self.log:
            return low, high, given
        low, high = math.log(low), math.log(high)
        return low, high, None if given is None else float(Logarithm(low)([given])[0])

    def _edges(self) -> tuple[float, ...]:
        """The edges of bins: declared, or of equal width (of the logarithm) between the bounds."""
        where = f"column {self.name!r}"
        if not self.log:
            return bin_edges(STEPS if self.bins is None else self.bins, self.low, self.high, where)
        inside = np.exp(bin_edges(STEPS, *self._drawn[:2], where))[1:-1]
        return (float(self.low or 0.0), *(float(edge) for edge in inside), float(self.high or 0.0))

    def _hats(self) -> Column:
        """Hat functions beside the number itself; a missing cell has none, or those of the value that is declared for it."""
        low, high, given = self._drawn
        given = (low + high) / 2 if self.missing_rule == "middle" else given
        hats = Hats(low, high, self.log, given)
        return Column(f"smooth({self.name})", "categorical", levels=hats.names, reader=hats, source=self.name)

    def _part(self, part: str) -> Column:
        if part == "year":
            return Column(f"year({self.name})", "numeric", self.low, self.high, reader=DatePart(part), source=self.name)
        return self._choice(part, DATE_PARTS[part], DatePart(part))

    def _choice(self, made: str, levels: tuple[Level, ...], reader: Reader) -> Column:
        """A piece that has levels: what a transform makes of this column's cells."""
        name = f"{made}({self.name})"
        return Column(name, "categorical", levels=levels, missing=self.missing, reader=reader, source=self.name)

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

    def encode(self, values: object) -> np.ndarray:
        """Raw feature matrix of a column of cells (strings, numbers or None): n × len(features).

        A missing cell of a numeric or ordinal column is NaN, which the encoding turns into what its rule says.
        """
        if self.type == "boolean":
            return _filled(truth(values), self.missing, 0.0)[:, None]
        if self.type == "sparse":
            return _filled(numbers(values), self.missing, float(self.low or 0.0))[:, None]
        if self.type in ("numeric", "ordinal"):
            read = self.reader or (numbers if self.type == "numeric" else self.codes)
            raw = np.asarray(read(values), dtype=np.float64)
            raw = np.where(np.isfinite(raw) & ((raw >= 0) | (self.type == "numeric")), raw, np.nan)
            raw = raw if self.missing_number is None else _filled(raw, self.missing_number, 0.0)
            flag = [np.isnan(raw).astype(np.float64)] if self.missing_rule == "indicator" else []
            return np.stack([raw, *flag], axis=1)
        if isinstance(self.reader, Hats):
            return self.reader(values)
        code = self.places(values)
        matrix = np.zeros((len(code), len(self.features)))
        rows = np.flatnonzero(code >= 0)
        matrix[rows, code[rows]] = 1.0
        return matrix

    def places(self, values: object) -> np.ndarray:
        """Which feature of a categorical column each cell switches on; -1 for none (an unknown level)."""
        code = self.codes(values)
        if self.missing is None:
            return code
        replaced = len(self.levels) if self.missing == OWN_LEVEL else int(self.codes([self.missing])[0])
        return np.where(nulls(values) if self.reader is None else code < 0, replaced, code)

    def codes(self, values: object) -> np.ndarray:
        """The place of each cell among the levels, -1 for none."""
        found = codes(values, self.levels) if self.reader is None else self.reader(values)
        return np.where(found < len(self.levels), found, -1).astype(np.int64, copy=False)  # no entry of another column

    def spec(self) -> dict[str, object]:
        said = {name: getattr(self, name) for name in ("low", "high", "missing", "group", "bounds", "hash")}
        said["levels"] = "private" if self.private_levels else list(self.levels) or None
        said |= {"log": self.log or None, "shape": None if self.shape == "auto" else self.shape}
        said |= {"parts": list(self.parts) or None, "bins": list(self.bins) if isinstance(self.bins, tuple) else self.bins}
        return {"type": self.type, **_given(said)}


@dataclass(frozen=True)
class TargetColumn:
    """What is predicted: `classes` (the last of two is the positive one), `numeric` or `count` with bounds."""

    column: str
    type: str
    classes: tuple[Level, ...] | None = None
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
        plain_fields(self, said=("low", "high"))
        if self.type == "count" and self.low is None:
            object.__setattr__(self, "low", 0.0)  # a count is never negative
        if self.type != "classes" and not (finite(self.low) and finite(self.high) and self.low < self.high):
            sides = " and ".join("nothing" if side is None else shown(side) for side in (self.low, self.high))
            raise ValueError(
                f"Expected numbers low < high for target {self.column!r}, found {sides}. Fill in the range that it can have; do "
                "not compute it from the data."
            )

    def spec(self) -> dict[str, object]:
        classes = None if self.classes is None else list(self.classes)
        return {"column": self.column, "type": self.type, **_given({"classes": classes, "low": self.low, "high": self.high})}


def _given(said: Mapping[str, object]) -> dict[str, object]:
    """What was said: entries that were left out are None."""
    return {name: value for name, value in said.items() if value is not None}


ENTRIES = ("type", "low", "high", "levels", "missing", "group", "bounds", "parts", "hash", "bins", "log", "shape")


def described(name: str, entry: object) -> Column:
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
        choice = any(entry.get(key) is not None for key in ("parts", "hash", "bins")) or entry.get("shape") == "steps"
        if not choice:  # `_transform` knows what those allow
            _check_missing(name, entry.get("type"), missing, levels)
    said: dict[str, Any] = {key: entry.get(key) for key in ("low", "high", "group", "bounds")}
    said |= _transform(name, entry, missing)
    if not isinstance(entry.get("log", False), bool):
        raise ValueError(f"Expected true or false as log of column {name!r}, found another value.")
    said |= {key: entry[key] for key in ("log", "shape") if key in entry}
    return Column(name, entry.get("type", ""), levels=levels, missing=missing, private_levels=private, **said)


def _transform(name: str, entry: Mapping[str, Any], missing: Plain) -> dict[str, Any]:
    """Parts, hash and bins of a column, checked; what a null becomes there is nothing, or a level of its own."""
    where = f"column {name!r}"
    found: dict[str, Any] = {}
    if "parts" in entry:
        found["parts"] = check_parts(entry["parts"], where)
    if entry.get("hash") is not None:
        found["hash"] = check_hash(entry["hash"], where)
    if entry.get("bins") is not None:
        bins, ends = entry["bins"], [entry.get("low"), entry.get("high")]
        low, high = ends if all(finite(end) for end in ends) else (0.0, 1.0)  # the column itself says what is wrong with them
        edges = bin_edges(bins, low, high, where)
        found["bins"] = bins if isinstance(bins, int) else edges
    if (found or entry.get("shape") == "steps") and missing is not None and missing != OWN_LEVEL:
        raise ValueError(f'Expected "{OWN_LEVEL}" or nothing as missing of {where}, found {missing!r}.')
    return found


def scaled(column: Column) -> tuple[str, float, float, float, int, str]:
    """(kind, low, high, missing, group, rule) of a column that is one number."""
    kind = "private" if column.bounds is not None else "numeric" if column.type == "ordinal" else column.type
    low, high = (-0.5, 0.5) if kind == "private" else (float(column.low or 0.0), float(column.high or 0.0))
    if column.type in ("ordinal", "boolean"):
        low, high = 0.0, max(float(len(column.levels) - 1), 1.0)
    missing = missing_value(kind, low, high, column.missing_number)
    if column.type in ("boolean", "sparse"):
        missing = float(_filled(np.array([np.nan]), column.missing, low).clip(low, high)[0])
    return kind, low, high, missing, -1, "mean" if column.missing_rule == "indicator" else column.missing_rule


def _check_missing(name: str, kind: object, missing: Plain, levels: tuple[Level, ...]) -> None:
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


def _filled(values: np.ndarray, declared: Plain, default: float) -> np.ndarray:
    """Missing and infinite cells replaced by the declared value, or the default."""
    value = default if declared is None else float(declared)
    return np.where(np.isfinite(values), values, value)
