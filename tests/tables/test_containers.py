"""What a container does to its cells by itself: nothing that one person's cell decides, warns of or raises may be left of it."""

from __future__ import annotations

import datetime
import uuid
import warnings
from array import array
from collections import deque
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

import dperm
from dperm.problem import DataBounds, Interval
from dperm.release.ledger import Ledger
from dperm.rows import DaskRows, DeviceRows
from dperm.rows.memory import MemoryRows
from dperm.tables.cells import codes, nulls, numbers, person, persons
from dperm.tables.containers import column as cells_of
from dperm.tables.fingerprint import digest
from dperm.tables.tables import parsed

N = 60
X = np.random.default_rng(0).uniform(0, 1, (N, 3)) * (np.random.default_rng(1).uniform(0, 1, (N, 3)) < 0.5)
Y = np.arange(N) % 2


def model(**options: object) -> dperm.LogisticRegression:
    return dperm.LogisticRegression(1.0, bounds=(0, 1), classes=[0, 1], method="gradient", random_state=0, **options)


def unlabelled() -> np.ndarray:
    """Labels of which one is no class, on a row that has an infinite weight."""
    labels = Y.astype(object)
    labels[3] = "neither"
    return labels


def weights(odd: object) -> np.ndarray:
    found = np.ones(N) if isinstance(odd, float) else np.ones(N, dtype=object)
    found[3] = odd
    return found


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan, 1e300, "secret", 10**400])
@pytest.mark.parametrize("kind", ["torch", "torch products", "numpy", "dask"])
def test_a_weight_of_a_row_that_does_not_count_is_heard_of_nowhere(kind: str, odd: object) -> None:
    """0 · inf is a warning, and a word an error that quotes it."""
    import dask.array as da

    torch = pytest.importorskip("torch")

    def rows(weight: np.ndarray) -> object:
        if kind == "dask":
            return DaskRows(*(da.from_array(part, chunks=30) for part in (X, unlabelled(), weight)))
        if kind == "numpy":
            return DeviceRows(X, unlabelled(), weight)
        weight = weight if weight.dtype == object else torch.tensor(weight)
        return DeviceRows(torch.tensor(X), unlabelled(), weight, host=kind == "torch")

    assert np.array_equal(model().fit(rows(weights(odd))).w_, model().fit(rows(weights(0.0))).w_)


def stored(kind: str, odd: object) -> sparse.csr_array:
    found = sparse.csr_array(X).asformat(kind)
    found.data = found.data.astype(object if isinstance(odd, str) else np.longdouble)
    found.data.reshape(-1)[5] = odd
    return found


@pytest.mark.parametrize("odd", ["secret", np.longdouble(0.5), np.ldexp(np.longdouble(1.0), 12_000)])
@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr"])
def test_a_stored_cell_of_a_sparse_matrix_is_read_alone(kind: str, odd: object) -> None:
    """SciPy's conversions quote a cell that is no number, and warn of one beyond float64."""
    rows = stored(kind, odd)
    value = np.nan if isinstance(odd, str) else float(odd) if odd < 1e300 else np.inf
    plain = sparse.csr_array(X).asformat(kind)
    plain.data.reshape(-1)[5] = value
    found = parsed(rows)
    assert found.dtype == np.float64 and np.array_equal(found.toarray(), plain.toarray(), equal_nan=True)
    fitted = model().fit(rows, Y)
    assert np.array_equal(fitted.w_, model().fit(plain, Y).w_)
    assert np.array_equal(fitted.decision_function(rows), fitted.decision_function(plain))
    data = DataBounds(1.0, Interval(-1, 1))
    held, other = (MemoryRows(one, 2.0 * Y - 1).bounded(data).block(0).X.toarray() for one in (rows, plain))
    assert np.array_equal(held, other)
    embedded = dperm.EmbeddingClassifier(1.0, classes=[0, 1], steps=3, random_state=0)
    assert np.array_equal(embedded.fit(rows, Y).w_, embedded.fit(plain, Y).w_)


class Unwritable:
    def __str__(self) -> str:
        raise RuntimeError("secret")

    __repr__ = __str__


SCHEMA = {
    "columns": {"a": {"type": "numeric", "low": 0, "high": 1}, "c": {"type": "categorical", "levels": ["x", "y"]}},
    "target": {"column": "t", "type": "classes", "classes": [0, 1]},
}


@pytest.mark.parametrize("odd", ["\ud800", b"\xff", b"y", Unwritable(), [1, 2], None, 10**400], ids=str.__name__.format)
@pytest.mark.parametrize("named", ["a", "c"])
def test_dask_hands_out_the_cells_of_its_pandas_frame(named: str, odd: object) -> None:
    """Its default makes text of objects, which failed for everybody at a cell that cannot be written."""
    dask = pytest.importorskip("dask")
    import dask.dataframe as dd

    cells = {"a": [0.1, np.float32(0.7)] * 20, "c": ["x", b"y"] * 20, "t": [0, 1] * 20}
    cells[named][4] = odd
    frame = pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in cells.items()})
    fitted = dperm.LogisticRegression(1.0, schema=SCHEMA, method="gradient", random_state=0)
    expected = fitted.fit(frame).w_
    for converting in (True, False):
        with dask.config.set({"dataframe.convert-string": converting}):
            made = dd.from_pandas(frame, npartitions=2)
            assert np.array_equal(fitted.fit(DaskRows(made, schema=SCHEMA)).w_, expected)
            assert np.array_equal(fitted.fit(DaskRows(made[["t", "c", "a"]], schema=SCHEMA)).w_, expected)


def test_ids_that_arrow_stores_as_uuids_are_read_as_their_text() -> None:
    """Their 16 bytes are no text: every row belonged to nobody, and a fit of persons was one of no rows."""
    ids = [None, *(uuid.UUID(int=number) for number in (1, 2**127, 1))]
    stored = pa.array([None if one is None else one.bytes for one in ids], type=pa.uuid())
    for column in (stored, pa.chunked_array([stored[:2], stored[2:]]), pd.Series(ids), ids):
        assert persons(column).tolist() == [-1, 1, 2, 1]
        assert codes(column, [str(ids[2])]).tolist() == [-1, -1, 0, -1]


def test_a_masked_cell_in_a_list_is_digested_in_silence() -> None:
    """NumPy warns of it where warnings are no errors, as they are for users."""
    cells, rows = [1.0, 2.0, np.ma.masked], [[1.0, np.ma.masked], [2.0, 3.0]]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        found = [digest(cells), digest(rows)]
    assert not heard and found == [digest(list(cells)), digest([list(row) for row in rows])]
    assert found[0] != digest([1.0, 2.0, 3.0]) and found[1] != digest([[1.0, 2.0], [2.0, 3.0]])
    assert dperm.MeanEstimator(1.0, bounds=(0, 3), random_state=0).fit(cells).location_ >= 0


LAYOUTS = {
    "columns first": np.asfortranarray,
    "every second column": lambda rows: np.repeat(rows, 2, axis=1)[:, ::2],
    "columns from behind": lambda rows: np.ascontiguousarray(rows[:, ::-1])[:, ::-1],
}


@pytest.mark.parametrize("laid", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("missing", [False, True])
def test_no_bit_of_a_fit_depends_on_how_the_array_is_laid_out(laid, missing: bool) -> None:
    """Of columns first, norms of rows had other last bits, and one missing cell in the table gave everybody the usual ones."""
    rows = np.random.default_rng(3).normal(size=(400, 17))
    labels = (rows[:, 0] > 0).astype(int)
    if missing:
        rows[5, 2] = np.nan
    options = {"epsilon": 1.0, "classes": [0, 1], "random_state": 0}
    models = [
        dperm.LogisticRegression(x_norm=1.0, method="gradient", **options),
        dperm.LogisticRegression(bounds=(-2, 2), x_norm=2.0, **options),
        dperm.MLPClassifier(bounds=(-2, 2), hidden=3, steps=3, **options),
        dperm.EmbeddingClassifier(steps=3, **options),
    ]
    for fitted in models:
        plain, expected = fitted.fit(rows, labels).w_, fitted.decision_function(rows)
        assert np.array_equal(fitted.fit(laid(rows), labels).w_, plain)
        assert np.array_equal(fitted.decision_function(laid(rows)), expected)
    encoding = models[0]._encoding
    encoded = encoding.transform(laid(rows))
    assert np.array_equal(encoded, encoding.transform(rows), equal_nan=True)
    other = rows.copy()
    other[7, 3] = np.nan  # the others are encoded as before
    assert np.array_equal(np.delete(encoding.transform(laid(other)), 7, axis=0), np.delete(encoded, 7, axis=0), equal_nan=True)
    mean = dperm.MeanEstimator(1.0, x_norm=1.0, random_state=0)
    assert np.array_equal(mean.fit(laid(rows)).location_, mean.fit(rows).location_)


@pytest.mark.parametrize("kind", ["torch.float32", "torch.float64"])
def test_rows_of_a_turned_tensor_have_the_bits_of_rows(kind: str) -> None:
    torch = pytest.importorskip("torch")
    rows = torch.tensor(np.random.default_rng(3).normal(size=(400, 17))).to(getattr(torch, kind.removeprefix("torch.")))
    turned = rows.T.contiguous().T
    assert not turned.is_contiguous()
    labels = (rows[:, 0].numpy() > 0).astype(int)
    fitted = dperm.LogisticRegression(1.0, x_norm=1.0, classes=[0, 1], method="gradient", random_state=0)
    for host in (True, False):
        first, second = (fitted.fit(DeviceRows(one, labels, host=host)).w_ for one in (rows, turned))
        assert np.array_equal(first, second)
    data = DataBounds(1.0, Interval(-1, 1))
    assert torch.equal(data.enforce(rows)[0], data.enforce(turned)[0])


@pytest.mark.parametrize("host", [True, False])
@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "longdouble", "object", "text"])
@pytest.mark.parametrize("declared", ["bounds", "x_norm"])
def test_odd_cells_of_numpy_rows_for_a_device_are_read_alone(declared: str, kind: str, host: bool) -> None:
    """A word among objects was an error that quoted it, and the square of 1e308 a warning."""
    odd: list[object] = [np.inf, np.nan, 3e4, 1e308, -1e308, np.longdouble("1e400")]
    odd += ["secret-name", None, b"\xff", 10**400, [1]] if kind == "object" else ["secret-name"] if kind == "text" else []
    bounds = {"bounds": (0, 1)} if declared == "bounds" else {"x_norm": 1.0}

    def fitted(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        estimator = dperm.LogisticRegression(1.0, classes=[0, 1], method="gradient", random_state=0, **bounds)
        in_memory = estimator.fit(MemoryRows(rows, Y)).w_
        return in_memory, estimator.fit(DeviceRows(rows, Y, host=host)).w_

    for cell in odd:
        rows = X.astype(object)
        rows[0, 1] = cell
        with np.errstate(over="ignore"):
            rows = rows if kind == "object" else rows.astype(str) if kind == "text" else rows.astype(kind)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            expected, found = fitted(rows)
        assert np.array_equal(expected, found) if host else np.allclose(expected, found, atol=1e-4)


NOT_TEXT = [b"\xff\xfe", b"a\xff", b"\xed\xa0\x80"]


@pytest.mark.parametrize("kind", ["text", "categories"])
@pytest.mark.parametrize("cell", NOT_TEXT)
def test_text_of_polars_that_is_no_utf8_is_a_missing_cell(cell: bytes, kind: str) -> None:
    """Polars ended with an error that is no Exception, after one on the screen that quoted the cell."""
    polars = pytest.importorskip("polars")

    def held(odd: bytes | None) -> object:
        values = polars.from_arrow(pa.array([b"1", odd, b"a"], pa.binary()).view(pa.string()))
        return values.cast(polars.Categorical) if kind == "categories" else values

    for read in (nulls, numbers, persons, lambda values: codes(values, ["a", "1"])):
        assert np.array_equal(read(held(cell)), read(held(None)), equal_nan=True)


def test_columns_of_polars_are_read_as_those_of_arrow() -> None:
    polars = pytest.importorskip("polars")
    columns: list[tuple[pa.DataType, list[object]]] = [
        (pa.int64(), [1, None, 2**53 + 1]),
        (pa.bool_(), [True, None]),
        (pa.decimal128(30, 3), [Decimal("9007199254740993.125"), None]),
        (pa.date32(), [datetime.date(1, 1, 1), None]),
        (pa.time64("us"), [datetime.time(3), None]),
        (pa.timestamp("us", "Asia/Tokyo"), [datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), None]),
        (pa.list_(pa.int64()), [[1, 2], [3, 4], None]),
        (pa.null(), [None]),
    ]
    for kind, cells in columns:
        stored = pa.chunked_array([pa.array(cells, type=kind)])
        for read in (numbers, nulls, lambda values: [person(cell) for cell in cells_of(values, exact=True).tolist()]):
            assert np.array_equal(np.array(read(stored)), np.array(read(polars.from_arrow(stored))), equal_nan=read is numbers)
    assert nulls(polars.Series([1, None, 2**100], dtype=polars.Int128)).tolist() == [False, True, False]
    assert numbers(polars.Series([1, "x", [2]], dtype=polars.Object)).tolist()[:1] == [1.0]


@pytest.mark.parametrize("kind", [np.float64, np.int64, object])
def test_a_matrix_of_numpy_is_the_array(kind: type) -> None:
    """Of objects it was an error that stated the number of rows: a matrix cannot be flattened."""
    rows = np.round(X).astype(kind)
    expected = model().fit(rows, Y).w_
    for given in (rows.view(np.matrix), MemoryRows(rows.view(np.matrix), Y), DeviceRows(rows.view(np.matrix), Y)):
        assert np.array_equal(model().fit(*((given, Y) if isinstance(given, np.ndarray) else (given,))).w_, expected)


@pytest.mark.parametrize("missing", [True, False])
@pytest.mark.parametrize("library", ["pandas", "arrow", "category"])
def test_one_missing_label_does_not_decide_whether_labels_in_rows_are_refused(library: str, missing: bool) -> None:
    """The array that `MemoryRows` made of whole numbers was one of objects or floats where a label is missing."""
    labels = [None if missing and row == 3 else int(label) for row, label in enumerate(Y)]
    given = pa.array(labels) if library == "arrow" else pd.Series(labels, dtype="Int64")
    given = given.astype("category") if library == "category" else given
    words = dperm.LogisticRegression(1.0, bounds=(0, 1), classes=["a", "b"], random_state=0)
    refused = []
    for arguments in ((X, given), (MemoryRows(X, given),)):
        try:
            words.fit(*arguments)
            refused.append(False)
        except ValueError:
            refused.append(True)
    assert refused == [library != "category"] * 2


@pytest.mark.parametrize("made", [3, {1, 2}, None, "text", iter([1])])
def test_labels_that_are_no_column_are_refused_in_words(made: object) -> None:
    with pytest.raises(ValueError, match="as many labels as rows"):
        MemoryRows(X, made)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "lil", "dok", "dia", "batch"])
def test_a_search_takes_what_a_fit_takes(kind: str) -> None:
    """A search looks at the first row to find the width, and some containers have no rows to be taken."""
    given = pa.record_batch({str(j): X[:, j] for j in range(3)}) if kind == "batch" else sparse.csr_array(X).asformat(kind)
    dense = X if kind == "batch" else sparse.csr_array(X)

    def found(rows: object) -> float:
        search = dperm.PrivateGridSearch(model(), {"radius": [0.1, 1.0]}, epsilon=5.0, expected_runs=2, random_state=0)
        return float(search.fit(rows, Y).best_score_)

    assert found(given) == found(dense)


def test_a_ledger_recognises_every_container(tmp_path: Path) -> None:
    """A deque, a column of a table and a buffer had no digest: a ledger took them for the data set that it was made for."""
    values = np.arange(40.0)
    held = [values.tolist(), deque(values.tolist()), array("d", values.tolist()), memoryview(values), pd.Series(values)]
    held += [pa.array(values), pa.chunked_array([values[:9], values[9:]]), pd.array(values)]
    assert {digest(one) for one in held} == {digest(values)}
    ledger = Ledger.create(tmp_path / "book", dataset="d", epsilon=9.0, delta=1e-5)
    options = {"bounds": (0, 40), "ledger": ledger, "random_state": 0}
    dperm.MedianEstimator(1.0, **options).fit(values)
    for one in (deque((values + 1).tolist()), pd.Series(values + 1), pa.array(values + 1)):
        with pytest.raises(ValueError, match="found other content"):
            dperm.MedianEstimator(1.0, **options).fit(one)
    assert ledger.account().fits == 1


class Unreadable:
    def __array__(self, *_: object) -> np.ndarray:
        raise RuntimeError("secret-name")

    def __repr__(self) -> str:
        raise RuntimeError("secret-name")


@pytest.mark.parametrize("odd", ["secret-name", "/etc/hostname", "\ud800", Path("secret-name"), Unreadable(), [1, "secret-name"]])
def test_text_in_a_tuple_of_rows_is_no_path_to_a_ledger(odd: object, tmp_path: Path) -> None:
    """The digest of the data set looked for a file of that name, and the error quoted the cell; a file that is there was read."""
    options = {"bounds": {"x0": (0, 1), "x1": (0, 1)}, "classes": [0, 1], "random_state": 0, "method": "gradient"}
    found = []
    for number, cell in enumerate((odd, None)):
        ledger = Ledger.create(tmp_path / str(number), dataset="d", epsilon=9.0, delta=1e-5)
        rows = tuple((*row[:1], cell if place == 3 else row[1]) for place, row in enumerate(X[:, :2].tolist()))
        found.append(dperm.LogisticRegression(1.0, ledger=ledger, **options).fit(rows, Y).w_)
        assert ledger.account().fits == 1
    assert np.array_equal(*found)
    assert digest((X, Y)) == digest((X.copy(), Y.copy())) != digest((X, Y + 1))
