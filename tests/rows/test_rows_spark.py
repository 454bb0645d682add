"""Rows of a Spark table: the bits of the rows in memory on any partitions, and everything that could go wrong refused first."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dperm
from dperm.mechanisms import Objective, Output
from dperm.problem import DataBounds, Interval, LogisticLoss
from dperm.release.ledger import Ledger
from dperm.rows import ArrowRows, MemoryRows, sum_step
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm, SampledTerm
from dperm.terms.statistics import RowCount, RowSum
from places import ROOT
from spark_sessions import classic_session, require_spark
from spark_tables import SCHEMA, N, raw

require_spark()
pytestmark = pytest.mark.filterwarnings("default")  # PySpark warns about its own dependencies, and leaves sockets to the JVM

ONE = dperm.Schema.from_dict(
    {
        "columns": {"age": {"type": "numeric", "low": 0, "high": 100}},
        "target": {"column": "income", "type": "classes", "classes": ["small", "large"]},
    }
)
BOUNDS = DataBounds(2.0, Interval(-1, 1), 1.0)


@pytest.fixture(scope="module")
def spark():
    session = classic_session()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def table():
    return raw()


@pytest.fixture(scope="module")
def file(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("spark") / "people.parquet"
    pq.write_table(pa.Table.from_pandas(table, preserve_index=False), path)
    return path


@pytest.fixture(scope="module")
def frame(spark, file):
    return spark.read.parquet(str(file))


def term(d=4):
    return GradientTerm(LogisticLoss(), np.linspace(-1, 1, d + 1), 0.3, Features(1.0))


STEP = sum_step(0.3, N)


@pytest.mark.parametrize("partitions", [1, 4, 7, 31])
def test_any_partitions_give_the_bits_of_memory(frame, file, partitions):
    """`repartition` deals the rows out anew, so they arrive in another order too."""
    spark_rows = dperm.SparkRows(frame.repartition(partitions), SCHEMA).bounded(BOUNDS)
    arrow = ArrowRows(file, SCHEMA).bounded(BOUNDS)
    assert spark_rows.n == N and spark_rows.d == arrow.d
    for one in (term(), RowSum(0.5)):
        assert spark_rows.sum(one, STEP).tobytes() == arrow.sum(one, STEP).tobytes()


def test_totals_of_many_tasks_are_added_by_executors_first(frame, file, monkeypatch):
    monkeypatch.setattr("dperm.rows.spark.FEW_TASKS", 4)
    rows = dperm.SparkRows(frame.repartition(9), SCHEMA).bounded(BOUNDS)
    assert rows.ready().tasks == 9
    assert rows.sum(term(), STEP).tobytes() == ArrowRows(file, SCHEMA).bounded(BOUNDS).sum(term(), STEP).tobytes()


def test_shapes_of_a_schema_give_the_bits_of_memory(frame, file):
    """Hats and steps are read cell by cell, missing cells included: partitions change nothing."""
    spec = SCHEMA.spec()
    spec["columns"]["age"]["shape"], spec["columns"]["height"]["shape"] = "smooth", "steps"
    shaped = dperm.Schema.from_dict(spec)
    spark_rows = dperm.SparkRows(frame.repartition(5), shaped).bounded(BOUNDS)
    arrow = ArrowRows(file, shaped).bounded(BOUNDS)
    assert spark_rows.d == arrow.d == 1 + 9 + 16 + 2
    assert spark_rows.sum(term(arrow.d), STEP).tobytes() == arrow.sum(term(arrow.d), STEP).tobytes()


@pytest.mark.parametrize("method", [dperm.Gradient(steps=3), "auto"], ids=["gradient", "auto"])
def test_fits_like_memory_arrow_and_dask(frame, file, table, method):
    dd = pytest.importorskip("dask.dataframe", reason="rows on a cluster need dask: pip install dperm[dask]")
    options = {"epsilon": 2.0, "schema": SCHEMA, "method": method, "random_state": 2}
    found = {
        "memory": dperm.LogisticRegression(**options).fit(table),
        "arrow": dperm.LogisticRegression(**options).fit(ArrowRows(file, SCHEMA)),
        "dask": dperm.LogisticRegression(**options).fit(dd.from_pandas(table, npartitions=3)),
        "spark": dperm.LogisticRegression(**options).fit(frame.repartition(3)),
    }
    expected = found.pop("memory")
    whole = expected.certificate_.record["mechanism"]["name"] == "objective"  # a solve is exact to its tolerance
    for name, fitted in found.items():
        np.testing.assert_allclose(fitted.coef_, expected.coef_, atol=1e-4 if whole else 0, rtol=0, err_msg=name)
        assert fitted.certificate_.verify(allow_seeded=True)
        if not whole:
            assert fitted.certificate_.record == expected.certificate_.record


def test_float32_rows_and_weights(frame, table):
    rows = dperm.SparkRows(frame, SCHEMA, weight="weight", max_weight=2.0, dtype="float32").bounded(BOUNDS)
    labels = np.where(table["income"] == "large", 1.0, -1.0)
    known = np.isin(table["income"], ["small", "large"]) * np.clip(table["weight"], 0, 2)
    memory = MemoryRows(SCHEMA.encoded(table).astype(np.float32), labels, known).bounded(BOUNDS)
    assert rows.sum(term(), STEP).tobytes() == memory.sum(term(), STEP).tobytes()


def test_sample_weights_are_a_column(frame, table):
    options = {"epsilon": 2.0, "schema": SCHEMA, "method": dperm.Gradient(steps=2), "random_state": 2, "max_weight": 2.0}
    memory = dperm.LogisticRegression(**options).fit(table, sample_weight=table["weight"])
    spread = dperm.LogisticRegression(**options).fit(frame, sample_weight="weight")
    np.testing.assert_array_equal(spread.coef_, memory.coef_)
    assert spread.certificate_.record == memory.certificate_.record
    with pytest.raises(ValueError, match="name of a column"):
        dperm.LogisticRegression(**options).fit(frame, sample_weight=table["weight"])


def test_without_a_schema_columns_are_declared(frame, table):
    numeric = frame.select("age", "height", "income")
    options = {"epsilon": 2.0, "bounds": ([0, 100], [100, 220]), "classes": ["small", "large"], "random_state": 2}
    options["method"] = dperm.Gradient(steps=2)
    memory = dperm.LogisticRegression(**options).fit(table[["age", "height"]], table["income"])
    spread = dperm.LogisticRegression(**options).fit(numeric, "income")
    np.testing.assert_array_equal(spread.coef_, memory.coef_)
    with pytest.raises(ValueError, match="without a schema"):
        dperm.LogisticRegression(**options).fit(frame.select("age", "place", "income"), "income")


def test_means_and_medians_of_columns(frame, table):
    numeric = frame.select("age", "height")
    for estimator in (dperm.MeanEstimator, dperm.MedianEstimator):
        options = {"epsilon": 1.0, "bounds": {"age": (0, 100), "height": (100, 220)}, "random_state": 1}
        memory = estimator(**options).fit(table[["age", "height"]])
        for data in (numeric, dperm.SparkRows(numeric)):
            spread = estimator(**options).fit(data)
            np.testing.assert_array_equal(spread.location_, memory.location_)
            assert spread.certificate_.record == memory.certificate_.record


# -- persons ---------------------------------------------------------------------------------------------------------


def test_at_most_k_rows_of_a_person_count_whatever_the_order(spark, frame, table):
    """The rows that count are the same on every shuffle; every person has at most k of them, and exactly k if he has more."""
    declared = {"person": "who", "max_rows_per_person": 2}
    frame, table = frame.where("income != '?'"), table[table["income"] != "?"]
    sums = set()
    for partitions in (1, 3):
        rows = dperm.SparkRows(frame.repartition(partitions), SCHEMA, **declared).bounded(BOUNDS)
        sums.add(rows.sum(term(), STEP).tobytes())
        counted = rows.sum(RowCount(), 1.0)[0]
    assert len(sums) == 1
    assert counted == np.minimum(table["who"].value_counts(), 2).sum()


def test_persons_with_few_rows_fit_as_in_memory(frame, table):
    most = int(table["who"].value_counts().max())
    options = {"epsilon": 2.0, "schema": SCHEMA, "method": dperm.Gradient(steps=2), "random_state": 2}
    options |= {"groups": "who", "max_rows_per_person": most}
    memory, spread = (dperm.LogisticRegression(**options).fit(data) for data in (table, frame))
    np.testing.assert_array_equal(spread.coef_, memory.coef_)
    assert spread.certificate_.record == memory.certificate_.record
    assert spread.certificate_.record["target"]["unit"] == "person"


def test_one_person_moves_a_sum_by_k_rows_at_most(spark):
    """A person with 50 rows comes or goes; nobody else's rows begin or stop to count."""
    generator = np.random.default_rng(0)
    X, who = generator.uniform(0, 100, 200), np.repeat(np.arange(4), 50)
    people = pd.DataFrame({"age": X, "who": who, "income": "small"})
    bounds = DataBounds(1.0, Interval(-1, 1))
    sums = []
    for kept in (people, people[people["who"] != 2], people[people["who"] == 2]):
        frame = spark.createDataFrame(kept.sample(frac=1, random_state=len(kept)))
        rows = dperm.SparkRows(frame, ONE, person="who", max_rows_per_person=3).bounded(bounds)
        sums.append(rows.sum(RowCount(), 1.0))
    assert sums[0] - sums[1] == sums[2] == 3


def test_nobody_and_odd_ids(spark):
    """Rows without an owner do not count; 7, 7.0 and "7" are one person."""
    people = pd.DataFrame({"age": np.arange(8.0), "who": ["7", "7", "7", None, "", "nan", "8", None], "income": "small"})
    rows = dperm.SparkRows(spark.createDataFrame(people), ONE, person="who", max_rows_per_person=2)
    assert rows.bounded(DataBounds(1.0, Interval(-1, 1))).sum(RowCount(), 1.0) == 3


# -- samples ---------------------------------------------------------------------------------------------------------


def doubled(spark, copies):
    """300 different rows, each of them `copies` times."""
    age = np.repeat(np.linspace(1, 99, 300), copies)
    people = pd.DataFrame({"age": age, "income": "small", "number": np.arange(len(age))})
    return spark.createDataFrame(people.sample(frac=1, random_state=1)).repartition(2)



def kept(rows):
    """The encoded rows that Spark keeps, as one piece."""
    found = rows.ready().frame.toPandas()
    return rows.layout.unpacked(pa.RecordBatch.from_pandas(found, preserve_index=False))


@pytest.mark.parametrize("row_id", ["content", "number"])
def test_equal_rows_join_a_sample_one_by_one(spark, row_id):
    """Each of 300 values is there twice. Were samples keyed by content alone, both or none would join. With keys of their own,
    half of the pairs have exactly one at rate 1/2: 150 ± 8.7, and 44 is five deviations (one run in 1.7 million; fixed seed)."""
    piece = kept(dperm.SparkRows(doubled(spark, 2), ONE, row_id=row_id))
    assert len({key.tobytes() for key in piece.keys}) == len(piece.values) == 600
    samples = [SampledTerm(RowCount(), 0.5, 11, step).joined(piece.keys, 600) for step in (0, 1)]
    for joined in samples:
        pairs = pd.Series(joined).groupby(piece.X[:, 0]).sum()
        assert abs((pairs == 1).sum() - 150) < 44
    assert abs((samples[0] == samples[1]).sum() - 300) < 62  # steps draw apart: five deviations of a fair coin


def test_a_sample_is_the_same_on_other_partitions(spark):
    frame = doubled(spark, 3)
    sums = set()
    for partitions in (1, 3):
        rows = dperm.SparkRows(frame.repartition(partitions), ONE, row_id="content").bounded(DataBounds(1.0, Interval(-1, 1)))
        sums.add(rows.sum(SampledTerm(RowCount(), 0.3, 5, 2), 1.0).tobytes())
    assert len(sums) == 1


def test_samples_are_refused_where_rows_cannot_be_told_apart(spark, tmp_path):
    frame = doubled(spark, 2)
    sampled = {"method": dperm.Gradient(steps=2, sampling_rate=0.2), "relation": "zero-out", "schema": ONE, "random_state": 1}
    ledger = Ledger.create(tmp_path / "people.ledger", dataset="people", epsilon=5, delta=1e-5, relation="zero-out")
    with pytest.raises(ValueError, match=r"told apart for a Poisson sample.*Nothing was spent"):
        dperm.LogisticRegression(**sampled, epsilon=1.0, ledger=ledger).fit(frame)
    twice = frame.selectExpr("age", "income", "number % 300 AS number")
    with pytest.raises(ValueError, match="found one missing or twice"):
        dperm.LogisticRegression(**sampled, epsilon=1.0, ledger=ledger).fit(dperm.SparkRows(twice, ONE, row_id="number"))
    assert ledger.account().fits == 0
    fitted = dperm.LogisticRegression(**sampled, epsilon=1.0).fit(dperm.SparkRows(frame, ONE, row_id="number"))
    assert fitted.certificate_.verify(allow_seeded=True)


def test_methods_that_count_rows_by_number_are_refused(spark):
    frame = doubled(spark, 2)
    output = Output(solver="permutation-sgd", passes=1, batches=5)
    with pytest.raises(ValueError, match=r"no order of the rows.*Nothing was spent"):
        dperm.LogisticRegression(epsilon=1.0, schema=ONE, method=output, regularization=1.0, radius=1.0).fit(frame)
    bounded = Objective(most_rows=1000)
    with pytest.raises(ValueError, match=r"no order of the rows.*Nothing was spent"):
        dperm.LogisticRegression(epsilon=1.0, schema=ONE, method=bounded, relation="add-remove", nominal_n=600).fit(frame)


# -- what is refused before anything is spent ------------------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "people.ledger", dataset="people", epsilon=50, delta=1e-5)


def refused(ledger, frame, match, schema=SCHEMA, **options):
    """The message of a fit that is refused in these words, before anything is debited, without the start of any cell in it."""
    with pytest.raises(ValueError, match=match) as caught:
        dperm.LogisticRegression(epsilon=1.0, schema=schema, method=dperm.Gradient(steps=2), ledger=ledger, **options).fit(frame)
    assert ledger.account().fits == 0
    assert "SECRET" not in f"{caught.value} {caught.value.__cause__}"
    return str(caught.value)


def test_bad_tables_are_refused(spark, frame, ledger):
    refused(ledger, frame.drop("age"), "declared columns 'age'")
    refused(ledger, frame.withColumnRenamed("age", "Age "), "declared columns 'age'")
    refused(ledger, frame.selectExpr("*", "age AS height2").toDF(*frame.columns, "age"), "a name twice")
    refused(ledger, frame.selectExpr("array(age) AS age", "height", "place", "income"), "'age', found the type array")
    dated = frame.selectExpr("date '2020-01-01' AS age", "height", "place", "income")
    refused(ledger, dated, r"'age'.*numeric, found the type date")
    refused(ledger, frame.limit(0), "at least one row")
    refused(ledger, frame, "to name a column", groups="nobody", max_rows_per_person=1)
    refused(ledger, frame, "max_rows_per_person", groups="who")
    refused(ledger, frame, "max_rows_per_person", max_rows_per_person=2)
    assert ledger.account().spent_share == 0
    stream = spark.readStream.format("rate").load().selectExpr("1.0 AS age", "2.0 AS height", "'x' AS place", "'y' AS income")
    assert "Write it to storage" in refused(ledger, stream, "found a stream")


def test_a_table_without_rows_looks_like_any_other_where_their_number_is_protected(frame):
    options = {"epsilon": 1.0, "schema": SCHEMA, "relation": "add-remove", "nominal_n": 1000, "random_state": 1}
    none = dperm.LogisticRegression(**options, method=dperm.Gradient(steps=2)).fit(frame.limit(0))
    assert np.isfinite(none.coef_).all()
    sampled = dperm.LogisticRegression(**options, delta=1e-5, method=dperm.Gradient(steps=2, sampling_rate=0.5))
    assert np.isfinite(sampled.fit(dperm.SparkRows(frame.limit(0), SCHEMA, row_id="content")).coef_).all()


def test_tables_that_change_between_passes_are_refused(spark, frame, ledger):
    """A function that draws gives other rows each time; so do numbers that depend on which task came first."""
    import random

    from pyspark.sql import functions

    drawn = functions.udf(lambda: random.SystemRandom().random() * 100, "double").asNondeterministic()
    other = frame.withColumn("age", drawn())
    refused(ledger, other, r"two passes disagree.*Nothing was spent")
    seeded = frame.selectExpr("rand(5) * 100 AS age", "height", "place", "income")  # the same numbers every time: no harm
    assert dperm.SparkRows(seeded, SCHEMA).bounded(BOUNDS).n == N


def test_rows_that_come_out_differently_later_release_nothing(frame, tmp_path):
    rows = dperm.SparkRows(frame, SCHEMA).bounded(BOUNDS)
    first = rows.sum(RowCount(), 1.0)
    kept = rows.ready()
    kept.frame = kept.frame.unionAll(kept.frame)  # as if tasks had been counted twice
    with pytest.raises(ValueError, match="every pass over the Spark table"):
        rows.sum(RowCount(), 1.0)
    assert first == np.isin(raw()["income"], ["small", "large"]).sum()


def test_errors_of_spark_never_quote_a_cell(spark, ledger):
    """The cast of the caller's own plan fails, and Spark's message quotes the cell."""
    people = spark.createDataFrame(pd.DataFrame({"age": ["1", "SECRET"], "income": ["small", "large"]}))
    spark.conf.set("spark.sql.ansi.enabled", "true")
    cast = people.selectExpr("CAST(age AS DOUBLE) AS age", "income")
    message = refused(ledger, cast, "found a failure", schema=ONE)
    assert "is not repeated here" in message and "SECRET" in _words_of_spark(cast)  # which ours stand for


def _words_of_spark(frame):
    with pytest.raises(Exception, match="SECRET") as caught:
        frame.collect()
    return str(caught.value)


def test_an_executor_without_the_packages_is_named(spark, frame, ledger, tmp_path, monkeypatch):
    import sys
    import venv

    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "bare/bin/python"))
    assert sys.prefix != sys.base_prefix  # the packages are in an environment that the bare one does not see
    message = refused(ledger, frame, "packages of dperm on every executor, found no module")
    assert "PYSPARK_PYTHON" in message


def test_a_ledger_recognises_the_table_in_any_order(frame, ledger):
    options = {"epsilon": 1.0, "schema": SCHEMA, "method": dperm.Gradient(steps=2), "ledger": ledger, "random_state": 1}
    for partitions in (1, 3):
        dperm.LogisticRegression(**options).fit(frame.repartition(partitions))
    assert ledger.account().fits == 2
    with pytest.raises(ValueError, match="found other content"):
        dperm.LogisticRegression(**options).fit(frame.where("age > 50"))


def test_predictions_are_made_part_by_part(frame, table):
    fitted = dperm.LogisticRegression(epsilon=1.0, schema=SCHEMA, method=dperm.Gradient(steps=2), random_state=1).fit(table)
    for refused_here in (fitted.predict, fitted.score):
        with pytest.raises(ValueError, match="mapInPandas"):
            refused_here(frame)
    with pytest.raises(ValueError, match=r"toPandas\(\)"):
        fitted.release_information(frame, epsilon=1.0)


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/spark.md"])
def test_the_lines_of_the_pages_run(spark, page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```py\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)
    block = block.replace('spark.read.parquet("', f'spark.read.parquet("{tmp_path}/')  # the session lives in another folder
    names: dict[str, object] = {}
    exec(compile(block, page, "exec"), names)
    assert names["model"].certificate_.verify().ok and "differential" in capsys.readouterr().out
