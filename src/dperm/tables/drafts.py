"""A draft of a column from its name and storage type, which are public; no cell is read and no level copied.

Storage types are those of Parquet, Arrow, pandas or polars. A CSV has none: what its cells look like is private, and one odd cell
would change what is inferred from them, so there types are left to be filled in, or declared by the caller. The categories of a
categorical type came from the data, as a rule, so they are left to be filled in. What a name says is what everybody knows: an
hour is one of 24.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from dperm.problem.arrays import offers
from dperm.tables.column import COLUMN_TYPES, type_hint
from dperm.words.spelling import closest

if TYPE_CHECKING:
    from dperm.tables.tables import Table

CLOCK: dict[str, range] = {
    **dict.fromkeys(("hour", "hr"), range(24)),
    **dict.fromkeys(("month", "mnth"), range(1, 13)),
    **dict.fromkeys(("weekday", "dow", "dayofweek"), range(8)),  # counted from 0 or from 1
}
NOBODYS = ("id", "uuid", "guid", "email", "phone", "ssn")  # a number or name of a person is no feature
LONG_LISTS = ("zip", "zipcode", "postcode", "postal", "street", "address", "url", "sku", "isbn")
HASHED = 64
TO_FILL_IN: dict[str, dict[str, object]] = {
    "numeric": {"low": None, "high": None},
    "sparse": {"high": None},
    "categorical": {"levels": []},
    "ordinal": {"levels": []},
    "datetime": {"parts": ["year", "month", "weekday"], "low": None, "high": None},
}


class Draft(TypedDict):
    """A schema to fill in, as JSON."""

    name: str
    columns: dict[str, dict[str, object]]
    target: dict[str, object]


def drafted(name: str, storage: str | None) -> dict[str, object]:
    """One column of a draft, as JSON.

    >>> drafted("when", "timestamp[us]")["parts"], drafted("kind", "dictionary<values=string, indices=int8, ordered=0>")
    (['year', 'month', 'weekday', 'hour'], {'type': 'categorical', 'levels': []})
    >>> drafted("start_hour", "int64")["levels"][-1], drafted("person_id", "int64"), drafted("zip_code", "string")
    (23, {'type': 'ignored'}, {'type': 'categorical', 'hash': 64})
    """
    words = re.split(r"[^a-z]+", name.lower())
    if storage is None:
        return {"type": "ignored" if any(word in NOBODYS for word in words) else None}
    storage = storage.lower()
    if "duration" in storage or "timedelta" in storage:
        return {"type": "ignored"}
    if re.match(r"datetime|timestamp|date", storage):
        parts = ["year", "month", "weekday", *([] if storage.startswith("date") and "time" not in storage else ["hour"])]
        return {"type": "datetime", "parts": parts, "low": None, "high": None}
    if storage in ("bool", "boolean"):
        return {"type": "boolean"}
    if "ordered=1" in storage or storage == "ordered category":
        return {"type": "ordinal", "levels": []}
    if any(word in NOBODYS for word in words):
        return {"type": "ignored"}
    if re.match(r"category|categorical|enum|dictionary|interval|period", storage):
        return {"type": "categorical", "levels": []}
    if re.match(r"u?int|float|double|half|decimal", storage):
        known = next((CLOCK[word] for word in reversed(words) if word in CLOCK), None)
        return {"type": "numeric", "low": None, "high": None} if known is None else {"type": "categorical", "levels": [*known]}
    if any(word in LONG_LISTS for word in words):
        return {"type": "categorical", "hash": HASHED}
    return {"type": "categorical", "levels": []}


def column_types(table: Table) -> dict[str, str]:
    """Names and storage types of a pandas, polars or Arrow table."""
    kinds = table.schema if offers(table, "schema") else table.dtypes
    if hasattr(kinds, "names") and hasattr(kinds, "field"):  # Arrow
        return {field.name: str(field.type) for field in kinds}
    return {str(name): f"ordered {kind}" if getattr(kind, "ordered", False) else str(kind) for name, kind in kinds.items()}


def declared(text: str, names: list[str]) -> dict[str, dict[str, object]]:
    """`age=numeric, town=categorical, *=ignored` as columns of a draft; "*" is every column that is not named."""
    given: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, kind = (word.strip() for word in part.rpartition("="))
        if name != "*" and name not in names:
            raise ValueError(
                f"Expected types as COLUMN=TYPE with columns of the file, found {part!r}.{closest(name, names)} Example: "
                '--types "age=numeric, town=categorical, *=ignored".'
            )
        if kind not in COLUMN_TYPES:
            hint = type_hint(kind)
            parts = " The draft lists the parts." if "parts" in hint else ""
            raise ValueError(f"Expected a type in {COLUMN_TYPES} for {name!r}, found {kind!r}.{hint} Correct --types.{parts}")
        given[name] = kind
    rest = given.pop("*", None)
    kinds = ({} if rest is None else dict.fromkeys(names, rest)) | given
    return {name: {"type": kind} | TO_FILL_IN.get(kind, {}) for name, kind in kinds.items()}


def with_drafted_target(draft: Draft, target: str) -> Draft:
    """The draft with one of its columns as the target; its type follows from the column's, and is left open where that is.

    >>> with_drafted_target({"name": "t", "columns": {"left": {"type": "boolean"}}, "target": {}}, "left")["target"]
    {'column': 'left', 'type': 'classes', 'classes': [0, 1]}
    """
    columns = dict(draft["columns"])
    if target not in columns:
        hint = closest(target, columns)
        raise ValueError(f"Expected the target {target!r} among the columns, found none.{hint} Correct the name.")
    entry = columns.pop(target)
    kind = entry["type"]
    found: dict[str, object] = {"type": None}
    if kind in ("numeric", "sparse"):
        found = {"type": "numeric", "low": None, "high": None}
    elif kind is not None:
        found = {"type": "classes", "classes": [0, 1] if kind == "boolean" else entry.get("levels", [])}
    return {**draft, "columns": columns, "target": {"column": target, **found}}


def opened(spec: Mapping[str, Any], *, bounds: bool, levels: bool) -> dict[str, Any]:
    """A draft with "private" where bounds or levels were left empty, and both a type: they are to be found, and paid for.

    >>> draft = {"columns": {"age": {"type": "numeric", "low": None, "high": None}, "town": {"type": None}}}
    >>> opened(draft, bounds=True, levels=True)["columns"]
    {'age': {'type': 'numeric', 'bounds': 'private'}, 'town': {'type': 'private'}}
    """
    columns: dict[str, Any] = {}
    for name, entry in spec["columns"].items():
        columns[name] = entry
        if not isinstance(entry, Mapping):
            continue
        kind, empty = entry.get("type"), entry.get("low") is None and entry.get("high") is None
        if kind is None and bounds and levels:
            columns[name] = {"type": "private"}
        elif kind == "numeric" and bounds and empty and entry.get("bins") is None:
            columns[name] = {key: value for key, value in entry.items() if key not in ("low", "high")} | {"bounds": "private"}
        elif kind == "categorical" and levels and not entry.get("levels") and entry.get("hash") is None:
            columns[name] = {**entry, "levels": "private"}
    return {**spec, "columns": columns}


def is_empty(entry: object) -> bool:
    """Whether what a column (or a target) can hold was left empty in a draft, or is said to be private."""
    if not isinstance(entry, Mapping):
        return False
    kind, listed = entry.get("type"), entry.get("classes" if "classes" in entry else "levels")
    if kind in ("classes", "categorical", "ordinal"):
        return listed == "private" or (not listed and entry.get("hash") is None)
    open_ends = entry.get("low") is None and entry.get("high") is None
    return kind in (None, "private") or (kind in ("numeric", "count", "sparse") and open_ends)
