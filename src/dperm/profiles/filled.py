"""A schema filled in from a profile: post-processing of what was paid for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dperm.profiles.plan import Found
from dperm.profiles.question import Asked, Question
from dperm.tables.looks import iso
from dperm.tables.schema import Schema


def filled_schema(
    question: Question, found: tuple[Found, ...], declared: Mapping[str, Any] | None, *, target: bool = True
) -> Schema:
    """Types, bounds and levels as found, dates by their parts. Text without a level that stands out, and empty columns, are
    ignored. `target=False` leaves out a target that was to be found."""
    columns: dict[str, Any] = {} if declared is None else dict(declared["columns"])
    predicted = None if declared is None else declared.get("target")
    for asked, column in zip(question.columns, found):
        if asked.target:
            predicted = _target(asked, column, predicted) if target or predicted is not None else None
        else:
            columns[asked.name] = _column(asked.name, column, columns.get(asked.name))
    if predicted is not None:
        columns.pop(predicted["column"], None)
    spec: dict[str, object] = {"name": "table"} if declared is None else {key: declared[key] for key in declared}
    return Schema.from_dict({**spec, "columns": columns, **({} if predicted is None else {"target": predicted})})


def _column(name: str, found: Found, declared: Mapping[str, Any] | None) -> dict[str, Any]:
    """One feature; what a schema says about missing cells and groups stays."""
    if declared is not None and declared["type"] == "private":
        declared = None  # nothing was known of it
    kept = {} if declared is None else {key: declared[key] for key in ("missing", "group", "log", "shape") if key in declared}
    if declared is not None and declared["type"] in ("sparse", "ordinal", "boolean"):
        return dict(declared)
    if declared is not None and declared.get("bins") is not None:
        return dict(declared)
    if found.kind == "numeric" and found.scale is not None:
        flag = {"log": True} if found.scale.log and declared is None else {}  # a schema says it itself
        return {"type": "numeric", "low": found.scale.low, "high": found.scale.high, **flag, **kept}
    if found.kind == "date" and found.scale is not None:
        return _date(name, found.scale.low, found.scale.high)
    if found.kind == "boolean":
        return {"type": "boolean", **kept}
    if found.kind == "levels" and found.levels:
        return {"type": "categorical", "levels": list(found.levels), **kept}
    return {"type": "ignored"}


def _date(name: str, first: float, last: float) -> dict[str, Any]:
    """Parts of dates that lie between two days; hours where the name speaks of a time, which no count was paid for."""
    years = [int(iso(day)[:4]) if iso(day)[4:5] == "-" else None for day in (first, last)]
    parts = ["month", "weekday", *(["hour"] if any(word in name.lower() for word in ("time", "hour", "stamp")) else [])]
    if years[0] is None or years[1] is None:  # beyond what a calendar has
        return {"type": "datetime", "parts": parts}
    return {"type": "datetime", "parts": ["year", *parts], "low": years[0], "high": max(years[1], years[0] + 1)}


def _target(asked: Asked, found: Found, declared: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if declared is not None and declared.get("type") in ("classes", "count"):
        return dict(declared)
    if found.kind == "levels":
        if len(found.levels or ()) < 2:
            raise ValueError(
                f"Expected at least two classes of target {asked.name!r} that stand out of the noise, found fewer. A "
                "column with a value of its own in every row (a name, a person) is no target; otherwise spend more on "
                'the profile, or declare it in the schema: "target": {"column": ..., "type": "classes", "classes": [...]}.'
            )
        return {"column": asked.name, "type": "classes", "classes": list(found.levels or ())}
    if found.kind == "numeric" and found.scale is not None:
        return {"column": asked.name, "type": "numeric", "low": found.scale.low, "high": found.scale.high}
    raise ValueError(
        f"Expected a target {asked.name!r} with classes or numbers, found a column that looks like {found.kind}. Declare it in a "
        "schema."
    )
