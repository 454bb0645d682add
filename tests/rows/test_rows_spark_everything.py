"""Every estimator, search, evaluation and profile of a Spark table: the sums, answers and records of the table in memory."""

from __future__ import annotations

import contextlib
import inspect

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator

import dperm
from dperm.problem import DataBounds, Interval
from dperm.profiles.held import held_by
from dperm.profiles.profile import question_about
from dperm.release.driver import watching
from dperm.release.ledger import Ledger
from dperm.terms.statistics import RowCount
from spark_sessions import classic_session, require_spark
from spark_tables import SCHEMA, raw

require_spark()
pytestmark = pytest.mark.filterwarnings("default")  # PySpark warns about its own dependencies, and leaves sockets to the JVM

ROWS = 1500
COLUMNS = {name: spec for name, spec in SCHEMA.spec()["columns"].items() if name != "height"}
NUMERIC = dperm.Schema.from_dict(
    {"columns": COLUMNS, "target": {"column": "height", "type": "numeric", "low": 100, "high": 220}}
)
COUNTS = dperm.Schema.from_dict({"columns": COLUMNS, "target": {"column": "height", "type": "count", "low": 0, "high": 220}})
THREE = dperm.Schema.from_dict(
    {
        "columns": {name: spec for name, spec in SCHEMA.spec()["columns"].items() if name != "place"},
        "target": {"column": "place", "type": "classes", "classes": ["north", "south", "west"]},
    }
)
CLASSES = ["small", "large"]


@pytest.fixture(scope="module")
def spark():
    session = classic_session()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def table():
    return raw().iloc[:ROWS].reset_index(drop=True)


@pytest.fixture(scope="module")
def frame(spark, table, tmp_path_factory):
    path = tmp_path_factory.mktemp("spark") / "people.parquet"
    table.to_parquet(path)
    return spark.read.parquet(str(path)).repartition(3).cache()


class Enough(Exception):
    pass


def sums(fit, most=2):
    """The bits of the first noisy sums of a fit, which see the same rows; then it is stopped."""
    seen = []

    def see(drawn):
        seen.append(drawn.exact.tobytes())
        if len(seen) == most:
            raise Enough

    with contextlib.suppress(Enough), watching(see):
        fit()
    return seen


PERSONS = {"groups": "who", "max_rows_per_person": 50}  # nobody has more: every row counts, in memory too
# (estimator, options, which columns `fit` gets beside the table: their cells in memory, their names for a Spark table)
CASES = {
    "logistic": ("LogisticRegression", {"schema": SCHEMA}, {}),
    "multinomial": ("LogisticRegression", {"schema": THREE}, {}),
    "class weights": ("LogisticRegression", {"schema": SCHEMA, "class_weight": {"small": 1.0, "large": 2.0}}, {}),
    "persons": ("LogisticRegression", {"schema": SCHEMA, **PERSONS}, {}),
    "private bounds": ("LogisticRegression", {"bounds": "private", "classes": CLASSES}, {"y": "income"}),
    "logistic intervals": ("LogisticRegression", {"schema": SCHEMA, "intervals": True, "epsilon": 50.0}, {}),
    "svc": ("LinearSVC", {"schema": SCHEMA}, {}),
    "curves": ("GAMClassifier", {"schema": SCHEMA}, {}),
    "curves of numbers": ("GAMRegressor", {"schema": NUMERIC}, {}),
    "network": ("MLPClassifier", {"schema": SCHEMA, "hidden": 4, "steps": 2}, {}),
    "linear": ("LinearRegression", {"schema": NUMERIC}, {}),
    "linear intervals": ("LinearRegression", {"schema": NUMERIC, "intervals": True, "epsilon": 50.0}, {}),
    "weights": ("LinearRegression", {"schema": NUMERIC, "max_weight": 2.0}, {"sample_weight": "weight"}),
    "protected size": ("LinearRegression", {"schema": NUMERIC, "relation": "add-remove", "nominal_n": 1000}, {}),
    "ridge": ("Ridge", {"schema": NUMERIC, "regularization": 1.0}, {}),
    "lasso": ("Lasso", {"schema": NUMERIC}, {}),
    "huber": ("HuberRegressor", {"schema": NUMERIC}, {}),
    "quantile": ("QuantileRegressor", {"schema": NUMERIC}, {}),
    "counts": ("PoissonRegressor", {"schema": COUNTS}, {}),
    "exposures": ("PoissonRegressor", {"schema": COUNTS, "max_exposure": 2.0}, {"exposure": "weight"}),
    "offsets": ("PoissonRegressor", {"schema": COUNTS, "max_exposure": 2.0}, {"offset": "weight"}),
    "counts intervals": (
        "PoissonRegressor",
        {"schema": COUNTS, "max_exposure": 2.0, "intervals": True, "epsilon": 50.0},
        {"exposure": "weight"},
    ),
    "weighed counts": (
        "PoissonRegressor",
        {"schema": COUNTS, "max_exposure": 2.0, "max_weight": 3.0},
        {"exposure": "weight", "sample_weight": "number"},
    ),
    "rates": (
        "PoissonRegressor",
        {"schema": COUNTS, "max_exposure": 2.0, "max_weight": 3.0, "method": dperm.Gradient(steps=2)},
        {"exposure": "weight", "sample_weight": "number"},
    ),
    "embeddings": ("EmbeddingClassifier", {"classes": CLASSES}, {"y": "income"}),
}
# These release no Gaussian sums, or have tests of their own below.
APART = {"MeanEstimator", "MedianEstimator", "FiniteClassLearner", "PrivateGridSearch"}


def test_every_estimator_has_a_case():
    public = {name: getattr(dperm, name) for name in dperm.__all__}
    named = {name for name, kind in public.items() if inspect.isclass(kind) and issubclass(kind, BaseEstimator)}
    assert named == {kind for kind, _, _ in CASES.values()} | APART


@pytest.mark.parametrize("case", CASES)
def test_every_estimator_asks_the_same_sums(frame, table, case):
    kind, options, given = CASES[case]
    declared = {"epsilon": 2.0, "random_state": 1, **options}
    held, spread = (table, frame) if "schema" in options else (table[["age", "height"]], frame.select("age", "height", "income"))
    in_memory = {word: table[name] for word, name in given.items()}
    expected = sums(lambda: getattr(dperm, kind)(**declared).fit(held, **in_memory))
    assert expected
    assert sums(lambda: getattr(dperm, kind)(**declared).fit(spread, **given)) == expected


def test_counts_with_exposures_and_weights_are_fitted_as_in_memory(frame, table):
    """The whole fit, by a method of few sums: coefficients, units and record."""
    declared = {"epsilon": 2.0, "random_state": 1, "schema": COUNTS, "max_exposure": 2.0, "max_weight": 3.0}
    declared["method"] = dperm.Gradient(steps=2)
    memory = dperm.PoissonRegressor(**declared).fit(table, sample_weight=table["number"], exposure=table["weight"])
    rows = dperm.SparkRows(frame, COUNTS, weight="number", max_weight=3.0)
    for data, given in ((frame, {"sample_weight": "number"}), (rows, {})):
        spread = dperm.PoissonRegressor(**declared).fit(data, exposure="weight", **given)
        np.testing.assert_array_equal(spread.coef_, memory.coef_)
        assert spread.intercept_ == memory.intercept_
        assert spread.certificate_.record == memory.certificate_.record


@pytest.mark.parametrize("hypotheses", ["stumps", "predictions"])
def test_finite_classes_choose_as_in_memory(frame, table, hypotheses):
    options = {"epsilon": 1.0, "classes": CLASSES, "hypotheses": hypotheses, "random_state": 3}
    names = ["age", "height"]
    if hypotheses == "predictions":
        names, table = ["said", "also"], table.assign(said=np.where(table["age"] > 50, "large", "small"), also="small")
        frame = frame.selectExpr("*", "IF(age > 50, 'large', 'small') AS said", "'small' AS also")
        frame = frame.selectExpr("IF(isnan(age), 'small', said) AS said", "also", "income", "who")  # NaN is the largest to Spark
    else:
        options["bounds"] = (0, 220)
    frame = frame.select(*names, "income", "who")
    memory = dperm.FiniteClassLearner(**options).fit(table[names], table["income"])
    rows = dperm.SparkRows(frame.select(*names, "income"), target="income") if hypotheses == "stumps" else frame.drop("who")
    spread = dperm.FiniteClassLearner(**options).fit(rows, "income")
    assert spread.rule_ == memory.rule_ and spread.certificate_.record == memory.certificate_.record
    owned = dperm.FiniteClassLearner(**options, max_rows_per_person=50).fit(table[[*names, "who"]], table["income"], groups="who")
    spread = dperm.FiniteClassLearner(**options, **PERSONS).fit(frame, "income")
    assert spread.certificate_.record == owned.certificate_.record
    assert (spread.predict(table[names]) == owned.predict(table[names])).all()


@pytest.mark.parametrize("schema", [SCHEMA, NUMERIC], ids=["classes", "numbers"])
def test_a_search_chooses_as_in_memory(frame, table, schema, tmp_path):
    estimator = dperm.LinearSVC if schema is SCHEMA else dperm.LinearRegression
    search = {"estimator": estimator(schema=schema, method=dperm.Gradient(steps=1)), "param_grid": {"radius": [0.5, 5.0]}}
    search |= {"epsilon": 4.0, "expected_runs": 2.0, "random_state": 5}
    memory = dperm.PrivateGridSearch(**search).fit(table, table[schema.target.column])
    ledger = Ledger.create(tmp_path / "people.ledger", dataset="people", epsilon=9, delta=1e-5)
    spread = dperm.PrivateGridSearch(**search, ledger=ledger).fit(frame)
    assert spread.best_params_ == memory.best_params_ and spread.best_score_ == memory.best_score_
    np.testing.assert_array_equal(spread.best_estimator_.coef_, memory.best_estimator_.coef_)
    record = dict(spread.certificate_.record)
    assert record.pop("ledger") and record == memory.certificate_.record
    assert ledger.account().fits == 1  # the search as a whole
    with pytest.raises(ValueError, match="without persons in a search"):
        dperm.PrivateGridSearch(**search).fit(dperm.SparkRows(frame, schema, person="who", max_rows_per_person=2))


EVALUATED = {
    "classes": (dperm.LogisticRegression, SCHEMA, {"by": "place"}),
    "persons": (dperm.LogisticRegression, SCHEMA, PERSONS),
    "several classes": (dperm.LogisticRegression, THREE, {}),
    "numbers": (dperm.LinearRegression, NUMERIC, {"relation": "add-remove", "nominal_n": 1000}),
    "counts": (dperm.PoissonRegressor, COUNTS, {"max_exposure": 2.0}),
    "curves": (dperm.GAMClassifier, SCHEMA, {"method": "auto"}),
}


@pytest.mark.parametrize("case", EVALUATED)
def test_an_evaluation_has_the_record_of_memory(frame, table, case):
    kind, schema, options = EVALUATED[case]
    options = dict(options)
    chosen = {"method": options.pop("method", dperm.Gradient(steps=2))}
    model = kind(epsilon=2.0, schema=schema, random_state=1, **chosen).fit(table)
    exposure = {"exposure": "weight"} if case == "counts" else {}
    memory = dperm.evaluate(model, table, epsilon=1.0, random_state=4, **options, **exposure)
    for data in (frame, dperm.SparkRows(frame, schema)) if case == "classes" else (frame,):
        spread = dperm.evaluate(model, data, epsilon=1.0, random_state=4, **options, **exposure)
        assert spread.record == memory.record
        assert spread.verify(allow_seeded=True).ok


def test_an_evaluation_without_a_schema_names_the_labels(frame, table):
    options = {"epsilon": 2.0, "bounds": ([0, 100], [100, 220]), "classes": CLASSES, "random_state": 2}
    model = dperm.LogisticRegression(**options, method=dperm.Gradient(steps=2)).fit(table[["age", "height"]], table["income"])
    memory = dperm.evaluate(model, table[["age", "height"]], table["income"], epsilon=1.0, random_state=4)
    spread = dperm.evaluate(model, frame, "income", epsilon=1.0, random_state=4)
    assert spread.record == memory.record
    with pytest.raises(ValueError, match="name of a column"):
        dperm.evaluate(model, frame, table["income"], epsilon=1.0)
    with pytest.raises(ValueError, match="declared columns 'height'"):
        dperm.evaluate(model, frame.drop("height"), "income", epsilon=1.0)


PROFILED = {
    "nothing declared": {"target": "income"},
    "persons": PERSONS,
    "schema": {"schema": SCHEMA, "correlations": True},
    "protected size": {"relation": "add-remove", "nominal_n": 1000, "parts": "schema"},
}


@pytest.mark.parametrize("case", PROFILED)
def test_a_profile_has_the_record_of_memory(frame, table, case):
    options = {"epsilon": 2.0, "random_state": 4, **PROFILED[case]}
    names = ["age", "place", "income", "who"] if "schema" not in options else list(table.columns)
    memory = dperm.profile(table[names], **options)
    spread = dperm.profile(frame.select(*names), **options)
    assert spread.record == memory.record
    assert spread.verify(allow_seeded=True).ok


def test_whose_rows_count_in_a_profile_does_not_follow_from_others_words(spark):
    """One person has five rows of which two count. Somebody else brings a word that stands before all others in the list, so
    that every place in it moves: the same two rows go on to count."""
    own = pd.DataFrame({"word": ["k", "l", "m", "n", "o"], "who": "one"})
    other = pd.DataFrame({"word": ["a"], "who": "two"})
    found = [kept_words(spark.createDataFrame(people)) for people in (own, pd.concat([own, other]))]
    assert len(found[0]) == 2 and found[1] == ["a", *found[0]]


def kept_words(frame):
    """The words of the rows that count, as the packed rows tell."""
    private = {"columns": {"word": {"type": "categorical", "levels": "private"}, "who": {"type": "ignored"}}}
    question, _ = question_about(["word"], private, None)
    rows, words = held_by(frame, question, "who", 2).look()
    piece = packed(rows)
    return sorted(words[0][int(place)] for place, weight in zip(piece.X[:, 2], piece.weight) if weight > 0)


def packed(rows):
    return rows.layout.unpacked(pa.RecordBatch.from_pandas(rows.ready().frame.toPandas(), preserve_index=False))


def test_no_kind_of_row_comes_first_for_everybody(spark):
    """300 persons have the same two rows, of which one counts. Its turn is a digest of person and content, so either counts for
    about half of them: 150 ± 8.7, and 44 is five deviations (one run in 1.7 million, and the digests are fixed)."""
    people = pd.DataFrame({"age": [1.0, 2.0] * 300, "who": np.repeat(np.arange(300), 2), "income": "small"})
    columns = {"age": {"type": "numeric", "low": 0, "high": 3}}
    one = dperm.Schema.from_dict({"columns": columns, "target": SCHEMA.spec()["target"]})
    rows = dperm.SparkRows(spark.createDataFrame(people), one, person="who", max_rows_per_person=1)
    piece = packed(rows.bounded(DataBounds(1.0, Interval(-1, 1))))
    assert piece.weight.sum() == 300
    assert abs((piece.X[piece.weight > 0, 0] > 0).sum() - 150) < 44


def test_what_is_refused_before_anything_is_spent(frame, table, tmp_path):
    ledger = Ledger.create(tmp_path / "people.ledger", dataset="people", epsilon=9, delta=1e-5)
    model = dperm.LogisticRegression(epsilon=1.0, schema=SCHEMA, method=dperm.Gradient(steps=2), random_state=1).fit(table)
    weighed = dperm.SparkRows(frame, SCHEMA, weight="weight", max_weight=2.0)
    owned = dperm.SparkRows(frame, SCHEMA, person="who", max_rows_per_person=2)
    refused = [
        ("without weights", lambda: dperm.evaluate(model, weighed, epsilon=1.0, ledger=ledger)),
        ("max_rows_per_person", lambda: dperm.evaluate(model, frame, epsilon=1.0, groups="who", ledger=ledger)),
        ("declared once", lambda: dperm.evaluate(model, owned, epsilon=1.0, groups="number", max_rows_per_person=2)),
        ("no device=", lambda: dperm.EmbeddingClassifier(classes=CLASSES, device="cpu").fit(frame, "income")),
        ("without 'age'", lambda: dperm.evaluate(model, frame.drop("age"), epsilon=1.0, ledger=ledger)),
        ("name of a column", lambda: dperm.profile(frame, epsilon=1.0, groups=table["who"], max_rows_per_person=1)),
        ("type array", lambda: dperm.profile(frame.selectExpr("array(age) AS age"), epsilon=1.0, ledger=ledger)),
        ("labels", lambda: dperm.FiniteClassLearner(classes=CLASSES, bounds=(0, 1), ledger=ledger).fit(frame)),
        ("of numbers", lambda: dperm.FiniteClassLearner(classes=CLASSES, bounds=(0, 1), ledger=ledger).fit(frame, "income")),
        ("name of the labels", lambda: dperm.LogisticRegression(bounds=(0, 1), classes=CLASSES).fit(frame.select("age"))),
        ("max_exposure", lambda: dperm.PoissonRegressor(schema=COUNTS, ledger=ledger).fit(frame, exposure="weight")),
        ("to name a column", lambda: dperm.PoissonRegressor(schema=COUNTS, max_exposure=1.0).fit(frame, exposure="years")),
        ("or the name", lambda: dperm.PoissonRegressor(schema=COUNTS, max_exposure=1.0).fit(frame, exposure=table["age"])),
    ]
    for words, run in refused:
        with pytest.raises(ValueError, match=words):
            run()
    assert ledger.account().fits == 0


def test_tables_that_change_between_passes_are_refused_everywhere(spark, frame, table, tmp_path):
    import random

    from pyspark.sql import functions

    ledger = Ledger.create(tmp_path / "people.ledger", dataset="people", epsilon=9, delta=1e-5)
    model = dperm.LogisticRegression(epsilon=1.0, schema=SCHEMA, method=dperm.Gradient(steps=2), random_state=1).fit(table)
    drawn = functions.udf(lambda: random.SystemRandom().random() * 100, "double").asNondeterministic()
    other = spark.createDataFrame(table).withColumn("age", drawn())
    svc = dperm.LinearSVC(schema=SCHEMA, method=dperm.Gradient(steps=1))
    search = dperm.PrivateGridSearch(svc, {"radius": [1.0]}, ledger=ledger)
    for run in (
        lambda: dperm.evaluate(model, other, epsilon=1.0, ledger=ledger),
        lambda: dperm.profile(other, epsilon=1.0, ledger=ledger),
        lambda: search.fit(other),
    ):
        with pytest.raises(ValueError, match=r"two passes disagree.*Nothing was spent"):
            run()
    assert ledger.account().fits == 0


def test_an_empty_table_is_evaluated_where_its_size_is_protected(frame, table):
    model = dperm.LinearRegression(epsilon=2.0, schema=NUMERIC, method=dperm.Gradient(steps=2), random_state=1).fit(table)
    options = {"epsilon": 1.0, "relation": "add-remove", "nominal_n": 1000, "random_state": 1}
    memory, spread = (dperm.evaluate(model, data, **options) for data in (table.iloc[:0], frame.limit(0)))
    assert spread.record == memory.record


def test_the_table_is_encoded_once_for_rows_that_are_encoded_alike(frame):
    """Copies of rows that are encoded alike share the cells that Spark keeps."""
    rows = dperm.SparkRows(frame, SCHEMA)
    first = rows.labelled(lambda y: (np.ones(len(y)), None)).ready()
    assert rows.ready() is first
    assert rows.encoded(rows.encoding).bounded(DataBounds(1.0, Interval(-1, 1))).sum(RowCount(), 1.0) > 0


def test_one_missing_label_does_not_decide_whether_a_type_of_labels_is_refused(spark):
    """A null makes floats of the whole numbers of its batch, and objects of truth values, which are no type to refuse."""
    refused = r"the classes \['no', 'yes'\], found an array of type (int64|bool)"
    model = dperm.LogisticRegression(bounds=(0, 1), classes=["no", "yes"], random_state=0).fit(np.eye(2), ["no", "yes"])
    for kind in ("int", "boolean"):
        for first in ("NULL", "1"):
            labels = f"CAST(CASE id WHEN 0 THEN {first} ELSE id % 2 END AS {kind}) AS t"
            frame = spark.range(40).selectExpr("id / 40.0D AS a", "id / 80.0D AS b", labels).coalesce(1)
            with pytest.raises(ValueError, match=refused):
                dperm.LogisticRegression(bounds=(0, 1), classes=["no", "yes"]).fit(frame, "t")
            with pytest.raises(ValueError, match=refused):
                dperm.EmbeddingClassifier(classes=["no", "yes"]).fit(frame, "t")
            with pytest.raises(ValueError, match=refused):
                dperm.evaluate(model, frame, "t", epsilon=1.0)
