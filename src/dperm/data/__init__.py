"""The Adult census data (UCI Machine Learning Repository, CC BY 4.0: Becker & Kohavi 1996), with a public schema, for the demo.

The file keeps UCI's train/test split in the column `split`; "?" is null.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from dperm.tables.schema import Schema


def adult(split: str | None = None) -> pa.Table:
    """The Adult table as an Arrow table, whole or one split ("train", "test")."""
    import pyarrow.compute as pc
    import pyarrow.parquet

    with (files("dperm.data") / "adult.parquet").open("rb") as handle:
        table = pyarrow.parquet.read_table(handle)
    return table if split is None else table.filter(pc.equal(table.column("split"), split))


def adult_schema() -> Schema:
    """Its public schema: bounds and levels a person would know without the data."""
    import json

    from dperm.tables.schema import Schema

    return Schema.from_dict(json.loads((files("dperm.data") / "adult-schema.json").read_text(encoding="utf-8")))
