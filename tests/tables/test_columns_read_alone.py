"""Columns of every library: one cell that is missing, or that its library cannot hand out, changes nothing about the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dperm
from dperm.release.driver import watching
from dperm.release.ledger.book import Ledger
from dperm.tables.cells import codes, persons, plain
from dperm.tables.containers import column
from dperm.tables.files import Files
from dperm.tables.fingerprint import digest
from dperm.tables.tables import read_table

LARGE = [2**60 + i for i in range(300)]  # ids that floats cannot tell apart
SCHEMA = {"columns": {"c": {"type": "categorical", "levels": ["x", "y"]}}}


def ids(kind: str, missing: bool) -> Any:
    cells: list[Any] = [None if missing and i == 7 else cell for i, cell in enumerate(LARGE)]
    if kind == "polars":
        return pl.Series(cells)
    if kind == "arrow":
        return pa.chunked_array([cells])
    frame = pd.Series(cells, dtype="Int64")
    return frame.astype("category") if kind == "category" else frame.astype(kind)


@pytest.mark.parametrize("kind", ["Int64", "UInt64", "int64[pyarrow]", "category", "object", "string", "polars", "arrow"])
def test_one_missing_id_does_not_make_one_person_of_others(kind: str) -> None:
    whole, without = persons(ids(kind, missing=False)), persons(ids(kind, missing=True))
    assert len(set(whole.tolist())) == 300
    assert without[7] == -1 and len(set(without.tolist())) == 300


def test_no_sum_moves_by_more_than_its_sensitivity_when_one_id_goes_missing() -> None:
    def sums(groups: Any, y: np.ndarray) -> list[Any]:
        seen: list[Any] = []
        options: dict[str, Any] = {"bounds": (-1, 1), "classes": [0, 1], "relation": "zero-out", "max_rows_per_person": 1}
        with watching(seen.append):
            dperm.LogisticRegression(epsilon=1.0, random_state=0, **options).fit(np.full((300, 1), 0.95), y, groups=groups)
        return seen[:2]

    y = np.ones(300, dtype=object)
    gone = y.copy()
    gone[7] = None
    for one, other in zip(sums(ids("Int64", False), y), sums(ids("Int64", True), gone)):
        assert np.linalg.norm(one.exact - other.exact) <= one.term.sensitivity("zero-out") * (1 + 1e-9)


def not_text(cell: bytes) -> pd.DataFrame:
    words = pa.array([b"x", b"y"] * 29 + [b"x", cell], pa.binary())
    return pd.DataFrame({"c": pd.Series(pd.arrays.ArrowExtensionArray(pa.Array.from_buffers(pa.string(), 60, words.buffers())))})


def test_a_string_that_is_no_text_is_missing_and_is_not_quoted() -> None:
    good, odd = (codes(not_text(cell)["c"], ["x", "y"]) for cell in (b"x", b"SECRET \xe9"))
    assert good[-1] == 0 and odd[-1] == -1 and good[:-1].tolist() == odd[:-1].tolist()


def test_a_parquet_file_that_pandas_read_is_fitted_with_such_a_cell(tmp_path: Path) -> None:
    words = pa.array([b"x", b"y"] * 29 + [b"x", b"SECRET \xe9"], pa.binary())
    pq.write_table(pa.table({"c": pa.Array.from_buffers(pa.string(), 60, words.buffers())}), tmp_path / "a.parquet")
    model = dperm.LogisticRegression(1.0, schema=SCHEMA, classes=[0, 1], random_state=0)
    assert model.fit(pd.read_parquet(tmp_path / "a.parquet"), np.arange(60) % 2).coef_.shape == (1, 2)


def test_dates_that_python_does_not_have_are_missing_alone() -> None:
    when = np.array(["2023-03-04T12:00"] * 5, "M8[us]")
    when[2] = np.datetime64("9999-12-31T23:59:59", "us")
    zoned = pd.Series(when).dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin")
    told = [plain(cell) for cell in column(zoned)]
    assert told[2] is None and told[0] == told[4] and str(told[0]).startswith("2023-03-04 13:00")
    days = pa.array([18000, 18001, None], pa.date32()).dictionary_encode()
    assert [plain(cell) for cell in column(pd.Series(pd.arrays.ArrowExtensionArray(days)))] == ["2019-04-14", "2019-04-15", None]
    far = pl.Series([0, 1, 2**31 - 1]).cast(pl.Int32).cast(pl.Date)  # the library would write a message of its own
    assert len(set(persons(far).tolist())) == 3


def test_a_masked_cell_is_missing() -> None:
    assert plain(np.ma.masked) is None


def test_an_empty_line_of_a_file_with_one_column_is_a_row(tmp_path: Path) -> None:
    """The number of rows is public: it must not count who left the cell empty."""
    for cell in ("30", ""):
        (tmp_path / "ages.csv").write_text("age\n" + "\n".join(["41"] * 5 + [cell] + ["35"] * 4) + "\n")
        assert read_table(tmp_path / "ages.csv").num_rows == 10
        streamed = Files.open(tmp_path / "ages.csv", ["age"])
        assert streamed.n == sum(batch.num_rows for batch in streamed.batches(4)) == 10


def test_lists_in_lists_without_end_are_recognised(tmp_path: Path) -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    frame = pd.DataFrame({"a": pd.Series([0.1] * 79 + [deep], dtype=object)})
    assert digest(frame) == digest(frame) != digest(frame.iloc[::-1])
    book = Ledger.create(tmp_path / "a.ledger", dataset="d", epsilon=9, delta=1e-4)
    dperm.LogisticRegression(1.0, bounds=(-1, 1), classes=[0, 1], ledger=book).fit(frame, np.arange(80) % 2)
    assert book.account().fits == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("names", [["a", "b"], [0, 1], [("a", 1), ("a", 2)], [0.5, 1.5]])
def test_columns_of_pandas_are_found_whatever_their_names_are(names: list[Any], tmp_path: Path) -> None:
    """`pd.DataFrame(array)` has numbers as names: with a ledger, a schema or a person column it ended in a traceback."""
    X, y = np.random.default_rng(0).uniform(0, 1, (60, 2)), np.arange(60) % 2
    frame = pd.DataFrame(X, columns=pd.Index(names, tupleize_cols=False))
    first, second = map(str, names)
    book = Ledger.create(tmp_path / "book", dataset="d", epsilon=9.0, delta=1e-4)
    options: dict[str, Any] = {"epsilon": 1.0, "classes": [0, 1], "random_state": 0, "method": "gradient"}
    schema = {"columns": {name: {"type": "numeric", "low": 0, "high": 1} for name in (first, second)}}
    whole = dperm.LogisticRegression(bounds=(0, 1), **options).fit(X, y)
    for model in (
        dperm.LogisticRegression(bounds=(0, 1), ledger=book, **options).fit(frame, y),
        dperm.LogisticRegression(schema=schema, **options).fit(frame, y),
    ):
        assert np.array_equal(model.w_, whole.w_) and np.array_equal(model.predict(frame), whole.predict(X))
    alone = dperm.LogisticRegression(bounds=(0, 1), max_rows_per_person=60, **options).fit(frame, y, groups=first)
    assert alone.n_features_in_ == 1 and np.array_equal(alone.predict(frame), alone.predict(frame[[names[1]]]))
    found, wanted = (dperm.profile(one, epsilon=1.0, random_state=0) for one in (frame, frame.set_axis(["a", "b"], axis=1)))
    assert found.record["released"] == wanted.record["released"]
