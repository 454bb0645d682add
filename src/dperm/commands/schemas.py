"""`dperm schema FILE`: a draft to fill in, from names, stored types and declared types alone."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from dperm.commands.shared import JSON_OPTION, notices_said, say, show
from dperm.tables.json_files import check_room, write_whole


def schema(
    file: Path = typer.Argument(..., help="CSV or Parquet file."),
    out: Path | None = typer.Option(None, help="Write the draft here instead of printing it."),
    target: str | None = typer.Option(None, help="Column to predict: it goes from the columns to the target."),
    types: str = typer.Option("", help='What the columns are, e.g. "age=numeric, town=categorical, *=ignored".'),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace a file that is there already."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Draft a schema with EMPTY bounds to fill in. No row is read: types are those that a Parquet or Arrow file states, or that
    you declare. A CSV states none, so there they are left open too; `dperm profile` finds types, bounds and levels and pays for
    them.

    In the draft a column can also be transformed: "parts": ["month"] of a datetime (year, month, weekday, hour), "hash": 64 of
    text with many levels, "bins": 10 or "log": true of a number, "shape": "smooth" (a curve in every model), "steps" or "linear".

    Example: dperm schema people.csv --types "age=numeric, town=categorical" --out people.json
    """
    from dperm.tables.drafts import declared, with_drafted_target
    from dperm.tables.schema import Schema
    from dperm.tables.tables import storage_types
    from dperm.words.notices import names_of_records

    if out is not None:  # a schema that a profile has filled in was paid for
        check_room(out.parent, [out.name], overwrite=overwrite)
    stored = storage_types(file)
    with notices_said():
        names_of_records(stored)
    found = Schema.draft(stored, file.stem)
    found["columns"] |= declared(types, list(stored))
    found = found if target is None else with_drafted_target(found, target)
    text = json.dumps(found, indent=1, ensure_ascii=False)
    if out is None:
        typer.echo(text)
    else:
        write_whole(out.parent, {out.name: text})
        if as_json:
            show({"draft": str(out)}, True)
            return
        say(f"Draft in {out}. Fill in low and high, levels and the target; no row was read.")
        say("What you leave empty, `dperm fit --bounds private --levels private` finds and pays for.")
        if any(column["type"] is None for column in found["columns"].values()):
            say("A CSV states no types: fill them in too or pass --types. `dperm profile` finds them for a part of the budget.")
        say('A missing number counts as the private mean of its column; "missing" in a column says otherwise.')
        say('Mark columns that are not features (such as an id or a name) as {"type": "ignored"}.')
