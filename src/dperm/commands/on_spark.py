"""`dperm fit --engine spark`: the table is one that Spark knows, or a path that Spark reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dperm.words.spelling import closest

if TYPE_CHECKING:
    from dperm.rows.spark import SparkRows
    from dperm.tables.schema import Schema

ENGINES = ("spark",)
ENGINE = typer.Option(
    None, help="spark: FILE is a table's name or a path that Spark reads, in the session that SPARK_REMOTE or spark-defaults say."
)
FORMATS = {".csv": "csv", ".json": "json", ".orc": "orc", ".parquet": "parquet"}


def check_engine(engine: str | None, schema: Schema | None, exposure: str | None, cache: Path | None) -> bool:
    """Whether Spark is asked for; what it cannot do is said before a session is started."""
    if engine is None:
        return False
    if engine not in ENGINES:
        raise ValueError(f"Expected --engine spark, found {engine!r}.{closest(engine, ENGINES)} Leave it out for files.")
    if schema is None or any(column.to_find for column in schema.columns):
        raise ValueError("Expected --schema with all levels for --engine spark, found none. Write a schema; see `dperm schema`.")
    if exposure is not None or cache is not None:
        raise ValueError("Expected neither --exposure nor --cache with --engine spark, found one. Leave it out.")
    return True


def spark_rows(table: str, schema: Schema) -> SparkRows:
    """Rows of the table in the session of the environment."""
    from dperm.rows.spark import SparkRows

    return SparkRows(spark_table(table), schema)


def spark_table(name: str) -> Any:
    """A table of the catalog, or the files at a path: by their suffix, otherwise Parquet. CSV cells are read as text."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ValueError("Expected the package pyspark for --engine spark, found none. Install dperm[spark].") from error
    from dperm.rows.spark_frames import in_words

    with in_words():
        spark = SparkSession.builder.appName("dperm").getOrCreate()
        if "/" not in name and spark.catalog.tableExists(name):
            return spark.table(name)
        form = FORMATS.get(Path(name).suffix.lower(), "parquet")
        return spark.read.format(form).option("header", "true").load(name)
