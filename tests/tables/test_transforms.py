"""Parts of dates, hashes, bins and products of columns: public facts, read cell by cell, the same in every container and file."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import dperm
from dperm.rows import ArrowRows, DaskRows
from dperm.tables.column import OWN_LEVEL, Column
from dperm.tables.schema import Schema
from dperm.tables.transforms import DatePart, Hashed

SPEC: dict[str, Any] = {
    "columns": {
        "when": {"type": "datetime", "parts": ["hour", "year", "weekday", "month"], "low": 2010, "high": 2020},
        "street": {"type": "categorical", "hash": 4, "missing": OWN_LEVEL},
        "age": {"type": "numeric", "bins": [0, 18, 65, 120]},
        "income": {"type": "numeric", "low": 0, "high": 100},
        "member": {"type": "boolean"},
        "visits": {"type": "sparse", "high": 10},
    },
    "target": {"column": "paid", "type": "classes", "classes": ["no", "yes"]},
    "interactions": [["income", "visits"], ["bins(age)", "member"], ["weekday(when)", "income"]],
}
ROWS: dict[str, list[Any]] = {
    "when": ["2015-06-07 23:10:00", "2010-01-04", "soon", None, "2050-12-31 00:00:00"],
    "street": ["Main", "Low", None, "Main", "7"],
    "age": ["17", "18", "200", None, "-5"],
    "income": ["100", "50", None, "0", "75"],
    "member": ["yes", "no", "yes", "yes", "yes"],
    "visits": ["5", "10", "1", "0", "20"],
    "paid": ["yes", "no", "yes", "no", "yes"],
}


def dense(rows: Any) -> np.ndarray:
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)


def test_every_feature_by_hand() -> None:
    schema = Schema.from_dict(SPEC)
    encoding, found = schema.encoding(), dense(schema.encoded(pa.table(ROWS)))
    by_name = dict(zip(encoding.names, found.T))
    assert [name for name in encoding.names if "(when)" in name and "×" not in name][:2] == ["year(when)", "month(when)=1"]
    assert np.allclose(by_name["year(when)"], [0.0, -0.5, 0, 0, 0.5])  # missing: the middle, as numbers are
    assert by_name["month(when)=6"].tolist() == [1, 0, 0, 0, 0] and by_name["month(when)=12"].tolist() == [0, 0, 0, 0, 1]
    assert by_name["weekday(when)=Sun"].tolist() == [1, 0, 0, 0, 0] and by_name["weekday(when)=Mon"].tolist() == [0, 1, 0, 0, 0]
    assert by_name["hour(when)=23"].tolist() == [1, 0, 0, 0, 0] and by_name["hour(when)=0"].tolist() == [0, 1, 0, 0, 1]
    hashed = np.stack([by_name[f"hash(street)={k}"] for k in range(4)])
    assert hashed.sum(axis=0).tolist() == [1, 1, 0, 1, 1] and np.array_equal(hashed[:, 0], hashed[:, 3])
    assert by_name["hash(street)=(missing)"].tolist() == [0, 0, 1, 0, 0]
    bins = [by_name[f"bins(age)={name}"].tolist() for name in ("[0, 18)", "[18, 65)", "[65, 120]")]
    assert bins == [[1, 0, 0, 0, 1], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0]]
    # income in [-1/2, 1/2] times visits in [0, 1]: the range is [-1/2, 1/2]; a missing side is 0
    assert np.allclose(by_name["income × visits"], [0.25, 0.0, 0.0, 0.0, 0.25])
    assert by_name["bins(age) × member=[0, 18) × yes"].tolist() == [1, 0, 0, 0, 1]
    assert by_name["bins(age) × member=[18, 65) × yes"].tolist() == [0, 0, 0, 0, 0]
    assert np.allclose(by_name["weekday(when) × income=Sun"], [0.5, 0, 0, 0, 0])
    assert np.allclose(by_name["weekday(when) × income=Sat"], [0, 0, 0, 0, 0.25])
    assert (np.linalg.norm(found, axis=1) <= encoding.norm + 1e-12).all()


def test_no_row_is_longer_than_the_declared_norm() -> None:
    """Extreme and odd cells in every column: R counts the products with the ranges that they can have."""
    rng = np.random.default_rng(5)
    odd = ["", "x", "1e300", "-1e300", "inf", "nan", "2015-01-01", "0001-01-01 23:59", "9999-12-31", "yes", "no", "100", "10"]
    schema = Schema.from_dict({**SPEC, "interactions": [*SPEC["interactions"], ["visits", "member"], ["income", "year(when)"]]})
    table = pa.table({name: [odd[k] for k in rng.integers(0, len(odd), 2000)] for name in ROWS})
    found = dense(schema.encoded(table))
    assert np.isfinite(found).all()
    assert np.linalg.norm(found, axis=1).max() <= schema.encoding().norm * (1 + 1e-12)
    numeric = schema.encoding().where("numeric")
    assert np.abs(found[:, numeric]).max() <= 0.5


def test_a_schema_with_transforms_survives_json_and_the_sparse_form_is_the_dense_one() -> None:
    schema = Schema.from_dict(SPEC)
    again = Schema.from_dict(json.loads(json.dumps(schema.spec())))
    assert again == schema and again.spec() == schema.spec()
    dense_form = schema.encoding().transform(schema.features(ROWS))
    assert np.array_equal(dense(schema.encoded(pa.table(ROWS))), dense_form)
    wide = Schema.from_dict({**SPEC, "columns": {**SPEC["columns"], "more": {"type": "categorical", "hash": 200}}})
    assert wide.encoding().mostly_zero and hasattr(wide.encoded(pa.table({**ROWS, "more": ROWS["street"]})), "tocsr")
    narrow = Schema.from_dict({"columns": {name: SPEC["columns"][name] for name in ("income", "visits")},
                               "interactions": [["income", "visits"]]})
    assert not narrow.encoding().mostly_zero and narrow.encoded(pa.table(ROWS)).shape == (5, 3)


def containers() -> dict[str, Any]:
    days = [None if cell in (None, "soon") else datetime.datetime.fromisoformat(cell) for cell in ROWS["when"]]
    typed = {**ROWS, "when": days, "income": [100.0, 50.0, None, 0.0, 75.0]}
    pandas = pd.DataFrame(typed)
    return {
        "text": pa.table(ROWS),
        "arrow timestamps": pa.table(typed),
        "pandas datetime64": pandas.astype({"when": "datetime64[ns]", "street": "category"}),
        "pandas objects": pandas.astype({"when": object}),
        "polars": pl.DataFrame(typed),
    }


@pytest.mark.parametrize("name", list(containers()))
def test_every_container_gives_the_same_rows(name: str) -> None:
    schema = Schema.from_dict(SPEC)
    assert np.array_equal(dense(schema.encoded(containers()[name])), dense(schema.encoded(containers()["text"])))


def test_files_and_clusters_give_the_same_rows(tmp_path: Path) -> None:
    import dask.dataframe as dd

    schema, text = Schema.from_dict(SPEC), containers()["text"]
    wanted = dense(schema.encoded(text))
    pandas = containers()["pandas objects"]
    pandas.to_csv(tmp_path / "rows.csv", index=False)
    pyarrow.parquet.write_table(containers()["arrow timestamps"], tmp_path / "rows.parquet")
    for file in ("rows.csv", "rows.parquet"):
        (make,) = ArrowRows(tmp_path / file, schema).blocks()
        assert np.array_equal(dense(make().X), wanted), file
    (block,) = DaskRows(dd.from_pandas(pandas, npartitions=1), schema=schema, persist=False).parts()[0].compute().blocks
    assert np.array_equal(dense(block.X), wanted)


@pytest.mark.parametrize("kind", ["pandas", "arrow", "polars"])
def test_the_first_moment_that_a_type_can_say_stops_no_fit(kind: str) -> None:
    """`pd.Timestamp.min` stands for "never" in some tables. Its hour was the 47th, an entry beyond the row."""
    frame = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=300, freq="h").astype("M8[ns]"), "y": [0, 1] * 150})
    frame["number"] = 0.5
    usual, odd = frame.copy(), frame.copy()
    usual.loc[7, "when"], odd.loc[7, "when"] = pd.Timestamp("1677-10-01 00:30"), pd.Timestamp.min
    schema = dperm.Schema.from_dict(
        {
            "columns": {
                "when": {"type": "datetime", "parts": ["hour"]},
                "number": {"type": "categorical", "hash": 64},
            },
            "target": {"column": "y", "type": "classes", "classes": [0, 1]},
        }
    )
    made = {"pandas": pd.DataFrame, "arrow": pa.Table.from_pandas, "polars": pl.from_pandas}[kind]
    rows = [dense(schema.encoded(made(table))) for table in (usual, odd)]
    assert rows[0].tobytes() == rows[1].tobytes()
    model = dperm.LogisticRegression(epsilon=1.0, schema=schema, random_state=0, method=dperm.Gradient(steps=2))
    assert model.fit(made(odd)).coef_.tobytes() == model.fit(made(usual)).coef_.tobytes()


def test_a_place_that_a_reader_invents_is_none() -> None:
    column = Column("c", "categorical", levels=("a", "b"), reader=lambda values: np.array([0.0, 1.0, 2.0, 47.0, -1.0]))
    assert column.codes([None] * 5).tolist() == [0, 1, -1, -1, -1]


@pytest.mark.parametrize("part", ["year", "month", "weekday", "hour"])
def test_dates_by_their_type_read_as_their_texts(part: str) -> None:
    """The fast way for arrays of dates, over 10,000 years of them, before 1970 and after, and beyond what a calendar has."""
    rng = np.random.default_rng(0)
    seconds = rng.integers(-62_200_000_000, 253_500_000_000, 3000)
    dates = np.concatenate([seconds.astype("datetime64[s]"), np.array(["NaT", "-0005-01-01", "0000-02-03"], "datetime64[s]")])
    for unit in ("D", "h", "m", "s", "ms", "us"):
        array = dates.astype(f"datetime64[{unit}]")
        one_by_one = np.array([DatePart(part).read(cell) for cell in array])
        assert np.array_equal(DatePart(part)(array), one_by_one, equal_nan=True), unit
    ends = np.iinfo(np.int64)
    for unit in ("D", "h", "m", "s", "ms", "us", "ns"):
        array = np.array([ends.min + 1, ends.min + 10**12, 7, ends.max - 10**12, ends.max]).view(f"datetime64[{unit}]")
        one_by_one = [DatePart(part).read(cell) for cell in array]
        assert np.array_equal(DatePart(part)(array), one_by_one, equal_nan=True), unit
    recent = np.array(["2001-02-03T04:05:06.123456789", "NaT"], "datetime64[ns]")
    assert np.array_equal(DatePart(part)(recent), [DatePart(part).read(cell) for cell in recent], equal_nan=True)


def test_hashes_are_fixed_for_ever_and_even() -> None:
    """Models are used years after their fit: a text must fall into the same level then. Chi-square within 5 deviations."""
    assert Hashed(64)(["a", "Main Street 5", "é", 7, True]).tolist() == [51.0, 56.0, 15.0, 57.0, 2.0]
    k, n = 32, 20_000
    counts = np.bincount(Hashed(k)([f"street {j}" for j in range(n)]).astype(int), minlength=k)
    assert abs(((counts - n / k) ** 2 / (n / k)).sum() - (k - 1)) < 5 * np.sqrt(2 * (k - 1))


def test_somebody_with_minus_zero_does_not_change_what_zero_hashes_to() -> None:
    """A column of numbers is read once per distinct one, and -0.0 in one row stood for everybody's 0.0."""
    alone = Hashed(64)(np.zeros(1))[0]
    for others in ([-0.0, 0.0, 0.0], [0.0, -0.0, 0.0]):
        for held in (np.array(others), np.array(others, dtype=np.float32), pd.Series(others), others, [str(x) for x in others]):
            assert Hashed(64)(held).tolist() == [alone] * 3


@pytest.mark.parametrize("method", ["scaled-gradient", "objective", "gradient"])
def test_a_saved_model_predicts_the_same_and_its_certificate_names_the_transforms(tmp_path: Path, method: str) -> None:
    rng = np.random.default_rng(0)
    n = 4000
    hours = rng.integers(0, 24, n)
    table = pd.DataFrame({
        "when": pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 700, n) * 24 + hours, unit="h"),
        "street": rng.choice(["Main", "Low", "High"], n), "age": rng.uniform(0, 100, n), "income": rng.uniform(0, 100, n),
        "member": rng.random(n) < 0.5, "visits": rng.poisson(1.0, n),
        "paid": np.where(np.isin(hours, range(8, 20)) ^ (rng.random(n) < 0.1), "yes", "no"),
    })
    model = dperm.LogisticRegression(epsilon=8.0, schema=SPEC, method=method, random_state=0).fit(table)
    assert model.score(table) > (0.8 if method != "gradient" else 0.6)  # only the hour of the date knows
    record = model.certificate_.record
    for name in ("hour(when)=23", "hash(street)=3", "bins(age)=[18, 65)", "income × visits"):
        assert any(line.startswith(f"{name}:") for line in record["declaration"]), name
    assert model.certificate_.verify(allow_seeded=True).ok
    loaded = dperm.load(model.save(tmp_path / "model") or tmp_path / "model")
    assert np.array_equal(loaded.predict(table), model.predict(table))
    texts = table.assign(when=table["when"].astype(str))
    assert np.array_equal(loaded.predict_proba(texts), model.predict_proba(table))
    assert list(model.feature_names_in_) == list(SPEC["columns"])


WRONG: list[tuple[dict[str, Any], list[Any], str]] = [
    ({"type": "datetime"}, [], "parts"),
    ({"type": "datetime", "parts": ["hours"]}, [], "hour"),
    ({"type": "datetime", "parts": ["year"]}, [], "Expected a number for low"),
    ({"type": "numeric", "low": 0, "high": 1, "parts": ["hour"]}, [], "datetime"),
    ({"type": "categorical", "hash": 1}, [], "from 2 to"),
    ({"type": "categorical", "hash": 4, "levels": ["a", "b"]}, [], "without levels"),
    ({"type": "categorical", "hash": 4, "missing": "a"}, [], OWN_LEVEL),
    ({"type": "numeric", "low": 0, "high": 1, "bins": 1}, [], "bins"),
    ({"type": "numeric", "bins": [0, 5, 5]}, [], "rising"),
    ({"type": "numeric", "bounds": "private", "bins": 5}, [], "declared bounds"),
    ({"type": "numeric", "low": 0, "high": 1}, [["a", "c"]], "found 'c'"),
    ({"type": "numeric", "low": 0, "high": 1}, [["a", "a"]], "pairs of two"),
    ({"type": "numeric", "low": 0, "high": 1}, [["a", "b"], ["b", "a"]], "one twice"),
    ({"type": "numeric", "low": 0, "high": 1}, "ab", "pairs of two"),
    ({"type": "numeric", "bounds": "private"}, [["a", "b"]], "private ones"),
    ({"type": "datetime", "parts": ["hour"]}, [["a", "b"]], "'hour(a)'"),
    ({"type": "categorical", "hash": 9_000}, [["hash(a)", "b"]], "10,000 features"),
]


@pytest.mark.parametrize(("column", "interactions", "words"), WRONG)
def test_a_wrong_transform_is_refused_by_name(column: dict[str, Any], interactions: Any, words: str) -> None:
    other = {"type": "categorical", "levels": ["x", "y"]}
    with pytest.raises(ValueError, match="Expected") as caught:
        Schema.from_dict({"columns": {"a": column, "b": other}, "interactions": interactions})
    assert words in str(caught.value)


def test_drafts_know_dates_and_categories_by_type_and_codes_by_name() -> None:
    frame = pd.DataFrame({
        "when": pd.to_datetime(["2020-01-01"]), "grade": pd.Categorical(["b"], ["a", "b"], ordered=True),
        "job": pd.Categorical(["secret cook"]), "hr": [5], "zip_code": ["12345"], "person_id": [7], "paid": [True],
        "price": [1.5],
    })
    arrow = pa.Table.from_pandas(frame)
    wanted = {"when": "datetime", "grade": "ordinal", "job": "categorical", "hr": "categorical", "zip_code": "categorical",
              "person_id": "ignored", "paid": "boolean", "price": "numeric"}
    for table in (frame, arrow, pl.from_pandas(frame.drop(columns=["grade"]))):
        draft = Schema.from_table(table)["columns"]
        assert {name: entry["type"] for name, entry in draft.items()} == {name: wanted[name] for name in draft}
        assert draft["hr"]["levels"] == list(range(24)) and draft["zip_code"] == {"type": "categorical", "hash": 64}
        assert draft["job"]["levels"] == [] and "secret" not in json.dumps(draft)
    assert Schema.from_table(arrow)["columns"]["when"]["parts"] == ["year", "month", "weekday", "hour"]


def test_a_profile_leaves_transforms_as_declared() -> None:
    rng = np.random.default_rng(1)
    n = 3000
    table = pd.DataFrame({
        "when": pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 9000, n), unit="h"),
        "street": rng.choice(["Main", "Low"], n), "age": rng.uniform(0, 100, n), "income": rng.uniform(0, 50, n),
        "member": rng.random(n) < 0.5, "visits": rng.poisson(1.0, n), "paid": rng.choice(["yes", "no"], n),
    })
    found = dperm.profile(table, schema=SPEC, epsilon=2.0, random_state=0).schema().spec()
    for name in ("when", "street"):
        assert found["columns"][name] == Schema.from_dict(SPEC).spec()["columns"][name]
    assert found["columns"]["age"]["bins"] == [0, 18, 65, 120] and found["interactions"] == SPEC["interactions"]
    assert found["columns"]["income"]["high"] <= 100


def test_moments_with_a_time_zone_are_read_by_their_own_clock():
    """In pandas, Arrow and polars alike, with and without a fraction of a second, west and east of Greenwich."""
    for zone, hours in (("America/New_York", [5.0, 1.0]), ("Asia/Tokyo", [19.0, 14.0])):
        utc = pd.Series(pd.to_datetime(["2020-01-01 10:30:00.500000", "2020-07-01 05:00:00.000000"])).dt.tz_localize("UTC")
        moments = utc.dt.tz_convert(zone)
        arrow = pa.Array.from_pandas(moments)
        for values in (moments, moments.astype(object), arrow, pa.chunked_array([arrow]), pl.from_arrow(arrow)):
            assert DatePart("hour")(values).tolist() == hours, (zone, type(values))
    far = pa.array([0, 2**62, None], type=pa.int64()).cast(pa.timestamp("us", tz="Asia/Tokyo"))  # one cell stops no other
    for values in (far, pl.from_arrow(far)):
        assert DatePart("hour")(values).tolist() == [9.0, -1.0, -1.0]
