"""`dperm fit --engine spark`: a table of Spark's catalog or a path, in a real session; what it cannot do is said first."""

from __future__ import annotations

import json

import pytest

from command_line import run
from spark_sessions import classic_session, require_spark
from spark_tables import SCHEMA, raw

require_spark()
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def spark():
    session = classic_session()  # the command finds it, as it would find the one of SPARK_REMOTE
    yield session
    session.stop()


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    raw().head(2000).to_parquet("people.parquet")
    (tmp_path / "people.json").write_text(json.dumps(SCHEMA.spec()))
    return tmp_path


def test_a_path_and_a_table_give_the_model_of_the_file(spark, here):
    options = ["--schema", "people.json", "--epsilon", "2", "--random-state", "1", "--method", "statistics", "--model", "linear"]
    schema = SCHEMA.spec() | {"target": {"column": "height", "type": "numeric", "low": 100, "high": 220}}
    del schema["columns"]["height"]
    (here / "people.json").write_text(json.dumps(schema))
    run("fit", "people.parquet", *options, "--out", "plain")
    run("fit", str(here / "people.parquet"), *options, "--out", "path", "--engine", "spark")
    spark.read.parquet(str(here / "people.parquet")).createOrReplaceTempView("people")
    run("fit", "people", *options, "--out", "table", "--engine", "spark")
    plain, path, table = ((here / name / "certificate.json").read_text() for name in ("plain", "path", "table"))
    assert plain == path == table


def test_what_spark_cannot_do_is_said_first(here):
    for more, expected in (
        (["--engine", "sprak", "--schema", "people.json"], "Expected --engine spark"),
        (["--engine", "spark", "--bounds", "private", "--levels", "private", "--target", "income"], "Expected --schema"),
        (["--engine", "spark", "--schema", "people.json", "--cache", "c"], "neither --exposure nor --cache"),
    ):
        code, message = run("fit", "people", *more, "--epsilon", "1", code=2)
        assert code == 2 and expected in message
