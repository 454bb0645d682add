"""`dperm schema FILE`: a draft to fill in, from names and storage types alone."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from dperm.commands.shared import JSON_OPTION, say, show


def schema(
    file: Path = typer.Argument(..., help="CSV or Parquet file."),
    out: Path | None = typer.Option(None, help="Write the draft here instead of printing it."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Draft a schema with types and EMPTY bounds to fill in. No value of the data is copied: bounds and levels must come from
    what you know without looking.

    Example: dperm schema people.csv --out people.json
    """
    from dperm.tables.json_files import write_whole
    from dperm.tables.schema import Schema
    from dperm.tables.tables import storage_types

    text = json.dumps(Schema.draft(storage_types(file), file.stem), indent=1, ensure_ascii=False)
    if out is None:
        typer.echo(text)
    else:
        write_whole(out.parent, {out.name: text})
        if as_json:
            show({"draft": str(out)}, True)
            return
        say(f"Draft in {out}. Fill in low and high, levels and the target; nothing was taken from the data.")
        say('A missing number counts as the private mean of its column; "missing" in a column says otherwise.')
        say('Mark columns that are no features (a number of a person, a name) as {"type": "ignored"}.')
