"""Odd cells of a Spark table: they stop no job, stand in no error, and are read as the same cells in memory are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dperm
from dperm.problem import DataBounds, Interval
from dperm.rows.spark_tasks import cell_digests
from dperm.tables.containers import as_python
from dperm.terms.statistics import RowCount
from spark_sessions import classic_session, require_spark

require_spark()
pytestmark = pytest.mark.filterwarnings("default")  # PySpark warns about its own dependencies, and leaves sockets to the JVM

TARGET = {"column": "income", "type": "classes", "classes": ["small", "large"]}
ONE = dperm.Schema.from_dict({"columns": {"age": {"type": "numeric", "low": 0, "high": 100}}, "target": TARGET})
BOUNDS = DataBounds(1.0, Interval(-1, 1))
NO_TEXT = "CAST(X'ff61' AS STRING)"
# Storage type → cells; those that Python cannot hold are among them.
ODD = {
    "text": ["'a'", "NULL", NO_TEXT, "'1e400'", "'nan'", "''", "'true'", "repeat('9', 5000)", "' 12 '", "'[1, 2]'", "'1'"],
    "double": ["1.0D", "NULL", "DOUBLE('NaN')", "DOUBLE('Infinity')", "-0.0D", "1e308D"],
    "bigint": ["1L", "NULL", "9223372036854775807L", "9007199254740993L"],
    "decimal": ["1BD", "NULL", "CAST('99999999999999999999' AS DECIMAL(38, 10))"],
    "date": ["DATE'2020-01-01'", "NULL", "DATE'+12345-01-01'", "DATE'-0005-03-01'"],
    "time": ["TIMESTAMP_NTZ'2020-01-01 00:00:00'", "NULL", "TIMESTAMP_NTZ'+12345-01-01 00:00:00'"],
}
SPECS = {
    "numeric": {"type": "numeric", "low": -5, "high": 100},
    "levels": {"type": "categorical", "levels": ["a", 1, "2020-01-01", "true"], "missing": "its own level"},
    "hashed": {"type": "categorical", "hash": 8},
    "truth": {"type": "boolean"},
    "date": {"type": "datetime", "parts": ["year", "month", "hour"], "low": 1900, "high": 2100},
}


@pytest.fixture(scope="module")
def spark():
    session = classic_session()
    yield session
    session.stop()


def column_of(spark, cells, name="cell"):
    """One row for every cell, with its place as the age, in one partition."""
    rows = " UNION ALL ".join(f"SELECT {place} AS age, {cell} AS {name}" for place, cell in enumerate(cells))
    return spark.sql(f"SELECT CAST(age AS DOUBLE) AS age, {name}, 'small' AS income FROM ({rows})").coalesce(1)


def packed(rows):
    return rows.layout.unpacked(pa.RecordBatch.from_pandas(rows.ready().frame.toPandas(), preserve_index=False))


def dense(X):
    return X.toarray() if hasattr(X, "toarray") else X


@pytest.mark.parametrize("kind", ODD)
def test_odd_cells_are_read_as_in_memory_and_alone(spark, kind):
    """All cells in one batch, against each of them in a table of its own."""
    frame = column_of(spark, ODD[kind])
    arrow = frame.toArrow() if hasattr(frame, "toArrow") else pytest.skip("PySpark 3 has no toArrow")
    for name, spec in SPECS.items():
        if kind in ("date", "time") and name == "numeric":
            continue  # refused by its type
        columns = {"age": {"type": "numeric", "low": 0, "high": 20}, "cell": spec}
        schema = dperm.Schema.from_dict({"columns": columns, "target": TARGET})
        X = dense(packed(dperm.SparkRows(frame, schema)).X)
        alone = np.concatenate([dense(schema.encoded(arrow.slice(place, 1))) for place in range(arrow.num_rows)])
        assert X[np.argsort(X[:, 0])].tobytes() == alone.tobytes(), name


def test_moments_are_read_by_the_clock_of_the_session(spark):
    """As `toPandas()` hands them out, for which a model predicts; one at the end of Spark's range fails no cast."""
    moments = ["TIMESTAMP'2020-01-01 00:30:00'", "TIMESTAMP'2020-07-31 23:30:00.5'", "TIMESTAMP_MICROS(9223372036854775807)"]
    parts = {"type": "datetime", "parts": ["month", "hour"]}
    columns = {"age": {"type": "numeric", "low": 0, "high": 20}, "cell": parts}
    schema = dperm.Schema.from_dict({"columns": columns, "target": TARGET})
    clock = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        frame = column_of(spark, moments)
        X = dense(packed(dperm.SparkRows(frame, schema)).X)
        memory = dense(schema.encoded(frame.where("age < 2").toPandas()))
        profiles = [
            dperm.profile(table.where("age < 2").select("cell"), epsilon=50.0, random_state=1).record
            for table in (frame, column_of(spark, ["'2020-01-01 00:30:00'", "'2020-07-31 23:30:00.5'"]))
        ]
    finally:
        spark.conf.set("spark.sql.session.timeZone", clock)
    X = X[np.argsort(X[:, 0])]
    assert X[:2].tobytes() == memory.tobytes() and not X[2, 1:].any()
    assert profiles[0] == profiles[1]


# -- who a row belongs to ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usual", "odd"),
    [
        ("'a'", NO_TEXT),
        ("DATE'2020-01-01'", "DATE'+12345-01-01'"),
        ("TIMESTAMP'2020-01-01 00:00:00'", "TIMESTAMP'-0005-01-01 00:00:00'"),
    ],
    ids=["text", "date", "time"],
)
def test_an_odd_id_of_a_person_stops_no_job(spark, usual, odd):
    """One row has an id that Python cannot hold. The five others go on to be one person, of whom two rows count."""
    counts = []
    for cell in (usual, odd):
        frame = column_of(spark, [usual, usual, cell, usual, usual, usual], "who")
        rows = dperm.SparkRows(frame, ONE, person="who", max_rows_per_person=2).bounded(BOUNDS)
        counts.append(rows.sum(RowCount(), 1.0)[0])
    nobody = usual == "'a'"  # bytes that are no text name nobody; another date is somebody else
    assert counts == [2, 2 if nobody else 3]


def test_ids_of_rows_that_are_no_text_stay_different(spark):
    """Keys join a sample one by one: no two ids may have one key, and no id may stop the job."""
    ids = [NO_TEXT, "CAST(X'ff62' AS STRING)", "'b''\\\\xffa'''", "'a'"]
    rows = dperm.SparkRows(column_of(spark, ids, "number"), ONE, row_id="number")
    assert len({key.tobytes() for key in packed(rows).keys}) == len(ids)


def test_an_odd_cell_moves_no_turn_of_other_rows():
    """An evaluation tells rows of a person apart by their cells: whose rows count must not follow from another's cell."""
    odd = pa.array([b"a", b"\xff", "ä".encode()]).view(pa.string())
    usual = pa.array(["a", "b", "ä"])
    first, second = (cell_digests(pa.table({"word": words}), ["word"]) for words in (odd, usual))
    assert [a == b for a, b in zip(first, second)] == [True, False, True]


def test_cells_that_python_cannot_hold_are_as_they_are_stored():
    far = pa.array([0, 10**7, None], type=pa.int32()).cast(pa.date32())
    assert as_python(far) == [pd.Timestamp("1970-01-01").date(), 10**7, None]
    assert as_python(pa.array([b"a", b"\xff", None]).view(pa.string())) == ["a", b"\xff", None]
