"""What Spark itself is asked about a table: its columns, its number of rows and their checksum; and its errors in our words."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dperm.problem.arrays import offers
from dperm.rows.pieces import Recipe, TableMaker
from dperm.tables.files import check_different
from dperm.tables.streams import check_names
from dperm.words.spelling import closest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "boolean")
WORDS = ("string", "varchar", "char", "binary", "date", "timestamp", "timestamp_ntz")
NEVER_NUMBERS = ("date", "timestamp", "timestamp_ntz", "binary")
IDS = ("tinyint", "smallint", "int", "bigint", "string", "varchar", "char")


@dataclass(frozen=True)
class Checked:
    """How many rows there are, and the sum of their hashes mod 2⁶⁴."""

    rows: int
    mark: int
    digest: bytes = b""

    @classmethod
    def of(cls, records: list[Row]) -> Checked:
        """Of all that tasks saw, by their records."""
        return cls(sum(record.rows for record in records), sum(record.mark for record in records) % 2**64)


def quoted(name: str) -> str:
    """A column's name in Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def as_read(frame: DataFrame, name: str) -> str:
    """A column in Spark SQL as its cells are read: a moment by the clock of the session, as `toPandas()` and Spark's own
    functions show it. Arrow would hand it out by that of UTC, and the hours of a model would not be those of its table.

    A moment so far away that the shift of the clock leaves Spark's range is missing: the cast would fail for everybody.
    """
    if kind_of(frame, name) != "timestamp":
        return quoted(name)
    near = f"{quoted(name)} BETWEEN TIMESTAMP'-290000-01-01' AND TIMESTAMP'+290000-01-01'"
    return f"CAST(IF({near}, {quoted(name)}, NULL) AS TIMESTAMP_NTZ)"


def kind_of(frame: DataFrame, name: str) -> str:
    """The storage type of a column, without its parameters."""
    return str(dict(frame.dtypes)[name]).split("(")[0].split("<")[0].split(" ")[0]


def label_type(frame: DataFrame, name: str) -> np.dtype:
    """The type of a column of labels, which a fit may refuse, by its storage type alone: a null makes floats of a batch."""
    kind = kind_of(frame, name)
    return np.dtype({"boolean": bool, **dict.fromkeys(NUMBERS[:4], np.int64)}.get(kind, object))


def check_frame(frame: DataFrame, recipe: Recipe, maker: TableMaker | None = None) -> tuple[str, ...]:
    """Refuse what is no table to fit on, by names and types alone; returns the features, or what a maker reads."""
    if not offers(frame, "mapInArrow"):
        raise ValueError(f"Expected a Spark DataFrame, found {type(frame).__name__}. Pass e.g. spark.read.parquet(...).")
    if frame.isStreaming:
        raise ValueError(
            "Expected a Spark table that can be read again, found a stream, which passes once. Write it to storage and read that."
        )
    found = [str(name) for name in frame.columns]
    if recipe.schema is not None:
        recipe.schema.check(found)
    else:
        check_different(found)
    if recipe.row_id == "content" and "content" in found:
        raise ValueError('Expected no column named "content" with row_id="content", found one. Rename the column.')
    for word, name in recipe.named.items():
        if name not in found:
            hint = closest(name, found)
            raise ValueError(f"Expected {word}= to name a column of the table, found {name!r}, which is none.{hint} Correct it.")
    apart = set(recipe.named.values())
    if maker is not None:
        features, numeric = maker.columns, set(maker.numeric)
        check_names(features, found)
    elif recipe.schema is not None:
        features = tuple(column.name for column in recipe.schema.columns if column.type != "ignored")
        if both := sorted((apart - {recipe.target}) & set(features)):
            raise ValueError(f"Expected {both[0]!r} to be no feature, found it declared as one. Mark it as ignored.")
        numeric = {c.name for c in recipe.schema.columns if c.type in ("numeric", "sparse")}
        if recipe.schema.target is not None and recipe.schema.target.type != "classes":
            numeric.add(recipe.schema.target.column)
    else:
        features = tuple(name for name in found if name not in apart)
        numeric = set(features)
    _check_types(frame, features, numeric, recipe)
    if not features:
        raise ValueError("Expected at least one column to fit on, found none. Pass a table with features.")
    return features


def _check_types(frame: DataFrame, features: tuple[str, ...], numeric: set[str], recipe: Recipe) -> None:
    for name in (*features, *recipe.named.values()):
        kind = kind_of(frame, name)
        if kind not in NUMBERS + WORDS:
            raise ValueError(
                f"Expected numbers, text, dates or truth values in column {name!r}, found the type {kind}. Take its parts out "
                "into columns of their own, or mark it as ignored."
            )
        if recipe.schema is None and name in numeric and kind not in NUMBERS:
            raise ValueError(
                f"Expected columns of numbers in a table without a schema, found {name!r} of type {kind}. Write a schema, or "
                "drop the column."
            )
        if name in numeric and kind in NEVER_NUMBERS:
            raise ValueError(
                f"Expected numbers in column {name!r}, which is declared as numeric, found the type {kind}. Cast it, e.g. "
                "unix_date(day), or declare its levels."
            )
    if recipe.row_id not in (None, "content") and kind_of(frame, str(recipe.row_id)) not in IDS:
        raise ValueError(f"Expected whole numbers or text in the row_id= column {recipe.row_id!r}, found another type. Cast it.")


def checksums(frame: DataFrame, columns: tuple[str, ...], *, every: bool = False) -> Checked:
    """Count and checksum, computed by Spark without Python. The hash is summed in three parts, so that no sum overflows.

    `every` leaves out columns that Spark cannot hash, and takes two hashes, for a digest of the whole table.
    """
    if every:
        columns = tuple(name for name in columns if kind_of(frame, name) in NUMBERS + WORDS)
    listed = ", ".join(map(quoted, columns))
    hashes = [f"xxhash64({listed}) AS h0", *([f"xxhash64({listed}, 'second') AS h1"] if every else [])]
    parts = ["count(1) AS n"]
    for place in range(len(hashes)):
        parts += [f"sum(shiftrightunsigned(h{place}, 42)) AS a{place}", f"sum(h{place} & 2097151) AS c{place}"]
        parts.append(f"sum(shiftrightunsigned(h{place}, 21) & 2097151) AS b{place}")
    found = frame.selectExpr(*hashes).selectExpr(*parts).collect()[0].asDict()
    whole = [
        ((found[f"a{place}"] or 0) * 2**42 + (found[f"b{place}"] or 0) * 2**21 + (found[f"c{place}"] or 0)) % 2**64
        for place in range(len(hashes))
    ]
    if not every:
        return Checked(int(found["n"]), whole[0])
    names = ",".join(map(repr, columns)).encode()
    return Checked(int(found["n"]), whole[0], b"spark " + names + b"".join(int(part).to_bytes(8, "big") for part in whole))


def check_unique(frame: DataFrame, recipe: Recipe, rows: int) -> None:
    """A declared id must name one row each: equal ids would join a sample together."""
    if recipe.row_id in (None, "content"):
        return
    different = frame.selectExpr(f"count(DISTINCT {quoted(str(recipe.row_id))}) AS n").collect()[0].n
    if int(different) != rows:
        raise ValueError(
            f"Expected another value in every row of the row_id= column {recipe.row_id!r}, found one missing or twice. Pass a "
            'column that is unique, or row_id="content". Nothing was spent.'
        )


@contextlib.contextmanager
def in_words() -> Iterator[None]:
    """Spark's errors in our words. Theirs may quote a cell (a value that a cast of the caller's own plan cannot read)."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.split(".")[0] not in ("pyspark", "py4j", "grpc"):
            raise
        raise ValueError(_said(error)) from None


def _said(error: Exception) -> str:
    text = str(error)
    module = re.search(r"No module named '([A-Za-z_][\w.]{0,60})'", text)
    if module is not None:
        return (
            f"Expected the packages of dperm on every executor, found no module {module.group(1)!r} there. Install dperm and its "
            "dependencies on the executors, or point spark.pyspark.python (PYSPARK_PYTHON) to an environment that has them."
        )
    if "PYTHON_VERSION_MISMATCH" in text or ("different version" in text and "Python" in text):
        return "Expected one version of Python on driver and executors, found two. Set PYSPARK_PYTHON to the same interpreter."
    name = type(error).__name__
    for ask in ("getCondition", "getErrorClass"):
        with contextlib.suppress(Exception):
            name = f"{name} {getattr(error, ask)() or ''}".strip()
            break
    return (
        f"Expected a Spark job that ends, found a failure ({name}). Its message may quote a record and is not repeated here: see "
        "the logs of the executors. Nothing was released by this pass."
    )
