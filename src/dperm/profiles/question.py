"""What a profile asks of a table, in public words: the names of the columns and what is declared about each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dperm.release.typed import mistyped_fields
from dperm.tables.schema import Schema
from dperm.words.spelling import closest, finite, quoted, scalars

LOOKED_FOR = ("numeric", "levels", "boolean", "unknown")
PARTS = ("all", "schema")
WANTED = ("classes", "numeric")
LATER = ("codes", "wary", "mixed")  # rules that older records do not state, because they did not have them


@dataclass(frozen=True)
class Asked:
    """One column: `unknown` where a paid count shall decide its type.

    low, high   declared bounds of a numeric column; None where they are found privately
    levels      declared levels; None where they are found privately
    target      whether it is the column to predict
    wanted      what an undeclared target is read as, if its cells allow it: "classes" or "numeric"
    """

    name: str
    kind: str
    low: float | None = None
    high: float | None = None
    levels: tuple[object, ...] | None = None
    target: bool = False
    wanted: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.kind not in LOOKED_FOR or type(self.target) is not bool:
            raise ValueError(f"Expected a named column with a kind in {LOOKED_FOR}, found {self.kind!r}.")
        bounded = finite(self.low) and finite(self.high) and self.low < self.high
        if not bounded and not (self.low is None and self.high is None):
            raise ValueError(f"Expected low < high for column {self.name!r}, or neither, found {self.low} and {self.high}.")
        if (self.kind != "numeric" and self.low is not None) or (self.kind != "levels" and self.levels is not None):
            raise ValueError(f"Expected only what a {self.kind} column has for {self.name!r}, found more.")
        if self.wanted is not None and not (self.target and self.kind == "unknown" and self.wanted in WANTED):
            raise ValueError(f"Expected a target's type in {WANTED}, of a target that is not declared, found {self.wanted!r}.")

    def spec(self) -> dict[str, object]:
        levels = None if self.levels is None else list(self.levels)
        later = {} if self.wanted is None else {"wanted": self.wanted}  # not in records of 0.4.0
        return {**{name: value for name, value in vars(self).items() if name != "wanted"}, "levels": levels, **later}


@dataclass(frozen=True)
class Question:
    """The columns in order, and which part is asked for: "all", or "schema" (types, levels and ranges only)."""

    columns: tuple[Asked, ...]
    parts: str = "all"
    correlations: bool = False  # of numeric columns with the target
    codes: bool = False  # whether undeclared numbers may turn out to be codes; not in records of 0.2.0
    wary: bool = False  # whether a range keeps the rows that noise may hide; not in records of 0.4.0
    mixed: bool = False  # whether truth values beside other text are read as text; in a record only where that matters

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if not names or len(set(names)) != len(names) or sum(column.target for column in self.columns) > 1:
            raise ValueError("Expected columns with names that differ and at most one target, found others.")
        if self.correlations and (self.parts != "all" or not any(column.target for column in self.columns)):
            raise ValueError("Expected a target for correlations, found none. Pass target=.")
        flags = (self.correlations, *(getattr(self, name) for name in LATER))
        if self.parts not in PARTS or any(type(flag) is not bool for flag in flags):
            raise ValueError(f"Expected parts in {PARTS}, found {self.parts!r}.")

    def spec(self) -> dict[str, Any]:
        later = {name: True for name in LATER if getattr(self, name)}
        columns = [column.spec() for column in self.columns]
        return {"columns": columns, "parts": self.parts, "correlations": self.correlations, **later}

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> Question:
        columns = []
        for reason in mistyped_fields({name: item for name, item in spec.items() if name != "columns"}, cls, "question"):
            raise ValueError(reason)
        for place, entry in enumerate(spec["columns"]):
            for reason in mistyped_fields(entry, Asked, f"question.columns[{place}]"):
                raise ValueError(reason)
            levels = entry["levels"]
            listed = None if levels is None else scalars(levels, f"levels of column {entry['name']!r}")
            columns.append(Asked(**{**entry, "levels": listed}))
        later = {name: spec.get(name, False) for name in LATER}
        return cls(tuple(columns), spec["parts"], spec["correlations"], **later)

    @property
    def unknown(self) -> tuple[int, ...]:
        return tuple(j for j, column in enumerate(self.columns) if column.kind == "unknown")

    @property
    def unlisted(self) -> tuple[int, ...]:
        """Columns whose levels nobody declared, because a column says so or nothing is said about it: their words are listed."""
        return tuple(j for j, c in enumerate(self.columns) if c.kind == "unknown" or (c.kind == "levels" and c.levels is None))

    @property
    def may_have_numbers(self) -> bool:
        return any(column.kind in ("unknown", "numeric") for column in self.columns)


def asked_by_schema(schema: Schema) -> tuple[Asked, ...]:
    """The columns of a schema, the target last; ignored ones are not looked at."""
    found = []
    for column in schema.columns:
        if column.type in ("numeric", "sparse"):
            found.append(Asked(column.name, "numeric", column.low, column.high))
        elif column.type in ("categorical", "ordinal") and column.hash is None:
            found.append(Asked(column.name, "levels", levels=None if column.private_levels else column.levels))
        elif column.type in ("boolean", "private"):
            found.append(Asked(column.name, "boolean" if column.type == "boolean" else "unknown"))
    if schema.target is not None:
        target = schema.target
        if target.type == "classes":
            found.append(Asked(target.column, "levels", levels=target.classes, target=True))
        else:
            found.append(Asked(target.column, "numeric", target.low, target.high, target=True))
    return tuple(found)


def asked_by_names(names: Sequence[str], target: str | None, wanted: str | None = None) -> tuple[Asked, ...]:
    """Every column by its name alone."""
    if target is not None and target not in names:
        hint = closest(target, names) or f" Columns: {quoted(names, 20)}."
        raise ValueError(f"Expected the target {target!r} among the columns, found none.{hint} Correct the name.")
    if wanted is not None and target is None:
        raise ValueError("Expected a target for its type, found none. Pass target=.")
    return tuple(Asked(name, "unknown", target=name == target, wanted=wanted if name == target else None) for name in names)


def is_wide(low: float, high: float) -> bool:
    """Whether positive bounds span a factor of 1,000: a column that is looked at on a logarithmic scale."""
    return low > 0 and math.log2(high / low) >= 9.9
