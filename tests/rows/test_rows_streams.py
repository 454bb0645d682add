"""Tables that DuckDB, polars, Arrow datasets and functions hold: the bits of the same file, and passes that must agree."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import dperm
from dperm.problem import DataBounds, Interval, LogisticLoss
from dperm.release.ledger import Ledger
from dperm.rows import BLOCK_ROWS, ArrowRows, sum_step
from dperm.rows.packed import Layout, Piece, content_mark
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm

pl = pytest.importorskip("polars", reason="scans of polars need it: pip install polars")

N = BLOCK_ROWS + 700
SCHEMA = dperm.Schema.from_dict(
    {
        "columns": {
            "age": {"type": "numeric", "low": 0, "high": 100},
            "place": {"type": "categorical", "levels": ["north", "south"]},
        },
        "target": {"column": "income", "type": "classes", "classes": ["small", "large"]},
    }
)
BOUNDS = DataBounds(2.0, Interval(-1, 1), 1.0)
TERM = GradientTerm(LogisticLoss(), np.linspace(-1, 1, 4), 0.3, Features(1.0))
STEP = sum_step(0.3, N)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    generator = np.random.default_rng(3)
    table = pd.DataFrame(
        {
            "age": generator.uniform(-5, 120, N),
            "place": generator.choice(np.array(["north", "south", "west", None], dtype=object), N),
            "income": generator.choice(["large", "small", "?"], N),
            "unused": "x",
        }
    )
    path = tmp_path_factory.mktemp("streams") / "people.parquet"
    pq.write_table(pa.Table.from_pandas(table, preserve_index=False), path, row_group_size=1000)
    return path


def sources(file):
    duckdb = pytest.importorskip("duckdb", reason="queries of DuckDB need it: pip install duckdb")
    yield "duckdb", duckdb.sql(f"SELECT * FROM '{file}' ORDER BY random()")  # in another order on every pass
    yield "polars", pl.scan_parquet(file)
    yield "dataset", ds.dataset(file)
    yield "function", lambda: pq.ParquetFile(file).iter_batches(777)


def test_every_source_gives_the_bits_of_the_file(file):
    expected = ArrowRows(file, SCHEMA).bounded(BOUNDS).sum(TERM, STEP).tobytes()
    seen = []
    for name, source in sources(file):
        rows = dperm.rows_from(source, SCHEMA).bounded(BOUNDS)
        assert rows.n == N
        for _ in range(2):
            assert rows.sum(TERM, STEP).tobytes() == expected, name
        seen.append(name)
    assert seen == ["duckdb", "polars", "dataset", "function"]


def test_paths_and_rows_pass(file):
    rows = dperm.rows_from(str(file), SCHEMA)
    assert type(rows) is ArrowRows and dperm.rows_from(rows) is rows


def test_a_cache_is_read_instead_of_the_query(file, tmp_path):
    asked = []

    def source():
        asked.append(1)
        return pq.ParquetFile(file).iter_batches(3000)

    rows = dperm.rows_from(source, SCHEMA, cache=tmp_path / "cache").bounded(BOUNDS)
    expected = ArrowRows(file, SCHEMA).bounded(BOUNDS).sum(TERM, STEP).tobytes()
    assert rows.sum(TERM, STEP).tobytes() == rows.sum(TERM, STEP).tobytes() == expected
    assert len(asked) == 2


def test_estimators_take_lazy_scans_and_queries(file):
    duckdb = pytest.importorskip("duckdb", reason="queries of DuckDB need it: pip install duckdb")
    options = {"epsilon": 2.0, "schema": SCHEMA, "method": dperm.Gradient(steps=3), "random_state": 2}
    expected = dperm.LogisticRegression(**options).fit(ArrowRows(file, SCHEMA))
    for source in (pl.scan_parquet(file), duckdb.sql(f"SELECT * FROM '{file}'")):
        fitted = dperm.LogisticRegression(**options).fit(source)
        np.testing.assert_array_equal(fitted.coef_, expected.coef_)
        assert fitted.certificate_.record == expected.certificate_.record


def test_queries_that_change_are_refused_before_anything_is_spent(file, tmp_path):
    duckdb = pytest.importorskip("duckdb", reason="queries of DuckDB need it: pip install duckdb")
    ledger = Ledger.create(tmp_path / "people.ledger", dataset="people", epsilon=5, delta=1e-5)
    changing = duckdb.sql(f"SELECT random() * 100 AS age, place, income FROM '{file}'")
    with pytest.raises(ValueError, match="two passes disagree"):
        dperm.LogisticRegression(epsilon=1.0, schema=SCHEMA, ledger=ledger).fit(changing)
    assert ledger.account().fits == 0
    with pytest.raises(ValueError, match="two passes disagree"):
        dperm.rows_from(changing, SCHEMA, cache=tmp_path / "cache")


def test_a_source_that_changes_later_releases_nothing(file):
    passes = itertools.count()

    def source():
        table = pq.read_table(file)
        return (table if next(passes) < 2 else table.slice(1)).to_batches()

    rows = dperm.rows_from(source, SCHEMA).bounded(BOUNDS)
    with pytest.raises(ValueError, match=r"as many rows|two passes disagree"):
        rows.sum(TERM, STEP)


def test_samples_and_readers_are_refused(file):
    sampled = dperm.Gradient(steps=2, sampling_rate=0.1)
    with pytest.raises(ValueError, match="told apart for a Poisson sample"):
        dperm.LogisticRegression(epsilon=1.0, schema=SCHEMA, method=sampled, relation="zero-out").fit(pl.scan_parquet(file))
    with pytest.raises(ValueError, match="passes once"):
        dperm.rows_from(ds.dataset(file).scanner().to_reader(), SCHEMA)
    with pytest.raises(ValueError, match="yields Arrow batches, found int"):
        dperm.rows_from(3, SCHEMA)
    with pytest.raises(ValueError, match="declared columns 'age'"):
        dperm.rows_from(pl.scan_parquet(file).drop("age"), SCHEMA)
    with pytest.raises(ValueError, match="declared columns 'age'"):
        dperm.rows_from(lambda: [pa.table({"place": ["x"], "income": ["small"]})], SCHEMA)


def test_errors_of_the_engine_never_quote_a_cell(tmp_path):
    duckdb = pytest.importorskip("duckdb", reason="queries of DuckDB need it: pip install duckdb")
    file = tmp_path / "odd.parquet"
    pq.write_table(pa.table({"age": ["1", "SECRET"], "place": ["north", "south"], "income": ["small", "large"]}), file)
    failing = duckdb.sql(f"SELECT age::DOUBLE AS age, place, income FROM '{file}'")
    with pytest.raises(ValueError, match="found a failure") as caught:
        dperm.rows_from(failing, SCHEMA)
    assert "SECRET" not in f"{caught.value} {caught.value.__cause__}" and caught.value.__suppress_context__
    # float() of the caller's own function says what it could not read, too
    reading = lambda: iter([pa.table({"age": [float("SECRET")], "place": ["north"], "income": ["small"]})])  # noqa: E731
    with pytest.raises(ValueError, match="found a failure") as caught:
        dperm.rows_from(reading, SCHEMA)
    assert "SECRET" not in f"{caught.value} {caught.value.__cause__}" and caught.value.__suppress_context__


@pytest.mark.parametrize("levels", [2, 200], ids=["dense", "CSR"])
def test_one_odd_cell_does_not_stop_a_function_that_infers_types(levels):
    """pandas reads a chunk of numbers with one word among them as text: the error named the types of the two chunks."""
    spec = SCHEMA.spec()
    spec["columns"]["place"]["levels"] = [str(k) for k in range(levels)]
    schema = dperm.Schema.from_dict(spec)
    assert schema.encoding().mostly_zero == (levels == 200)
    others = {"place": [0, 1, 7], "income": ["small", "large", "small"]}

    def stored(*ages):
        return lambda: iter([pa.table({"age": list(part), **others}) for part in ages])

    term, bounds = GradientTerm(LogisticLoss(), np.ones(levels + 2), 0.3, Features(1.0)), BOUNDS
    found = [
        dperm.rows_from(stored(*ages), schema).bounded(bounds).sum(term, STEP).tobytes()
        for ages in (([1, 2, 3], [4, 5, None]), ([1, 2, 3], ["4", "5", "odd"]), ([1.0, 2.0, 3.0], [4, 5, None]))
    ]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_a_checksum_sees_every_cell_and_no_order(storage):
    generator = np.random.default_rng(0)
    X, values = generator.standard_normal((50, 4)) * (generator.random((50, 4)) < 0.7), generator.standard_normal(50)
    expected, order = content_mark(storage(X), values), generator.permutation(50)
    assert content_mark(storage(X[order]), values[order]) == expected
    assert content_mark(storage(X), np.roll(values, 1)) != expected
    for i, j in itertools.product(range(50), range(4)):
        other = X.copy()
        other[i, j] += 1e-9
        assert content_mark(storage(other), values) != expected
    assert content_mark(storage(X[:, ::-1]), values) != expected
    assert content_mark(storage(np.vstack([X, X[:1]])), np.append(values, values[0])) != expected


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize("rows_per_cell", [1, 7, None])
def test_cells_give_back_what_was_packed(storage, dtype, rows_per_cell):
    generator = np.random.default_rng(0)
    X = np.where(generator.random((100, 5)) < 0.5, generator.standard_normal((100, 5)), 0).astype(dtype)
    keys = np.frombuffer(generator.bytes(1600), dtype="V16")
    mark = generator.integers(-(2**62), 2**62, 100)
    packed = Layout(5, dtype, storage is not np.asarray).packed(
        Piece(storage(X), np.arange(100.0), None, keys, mark), rows_per_cell
    )
    back = Layout(5, dtype, storage is not np.asarray).unpacked(packed)
    found = back.X.toarray() if hasattr(back.X, "toarray") else back.X
    assert found.dtype == dtype and found.tobytes() == X.tobytes()
    assert back.values.tolist() == list(range(100)) and back.weight is None and back.keys.tobytes() == keys.tobytes()
    with np.errstate(over="ignore"):
        assert np.sum(back.mark) == np.sum(mark)
    half = Layout(5, dtype, storage is not np.asarray).unpacked(packed.slice(1))
    assert len(half.values) == 100 - (rows_per_cell or 100)
