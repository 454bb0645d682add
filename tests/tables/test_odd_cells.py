"""One odd cell moves what its own row adds and nothing else: all cells, columns, containers and label types against each other.

Every change is one row of a table replaced. The rows of all other people must be encoded to the same bits, so that a sum moves by
one row's worth; nothing may raise or warn (the suite turns warnings into errors). Whole fits follow for every odd cell.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dperm
import odd_cells
from dperm.mechanisms.gradient import Gradient
from dperm.problem import DataBounds, Interval
from dperm.rows import ArrowRows, DaskRows, MemoryRows
from dperm.tables.cells import codes, nulls, number, numbers, person, persons, truth, truth_value
from dperm.tables.containers import listed_rows, objects
from dperm.tables.labels import bounded_labels, classify, label_column
from dperm.tables.schema import Schema
from odd_cells import COLUMNS, CONTAINERS, ODD, ROWS, TEXTS, changed, container, usual

LEVELS: list[list[Any]] = [
    ["yes", "no"],
    ["no", "yes", "None", "nan", "", "<NA>", "NaT"],
    [0, 1],
    ["0", "1"],
    [False, True],
    ["True", "False"],
    ["01", "1", "TRUE", "0"],
    [0.5, 1.5, "1", "x"],
    ["2020-01-02", "caf\u00e9", "yes", "inf"],
]
READERS = {
    "numbers": numbers,
    "truth": truth,
    "nulls": nulls,
    **{f"levels {levels}": (lambda values, levels=levels: codes(values, levels)) for levels in LEVELS},
}
# Containers that change what they are given, before we see it: the others must read as in the untouched container.
LOSSY = ("csv series", "polars", "polars numbers", "arrow floats", "arrow whole", "arrow decimal", "arrow dates")


def same(found: np.ndarray, wanted: np.ndarray, place: int) -> bool:
    """Equal bits, except in the changed row."""
    keep = np.arange(len(wanted)) != place
    return found.shape == wanted.shape and np.array_equal(found[keep], wanted[keep], equal_nan=found.dtype.kind == "f")


@pytest.mark.parametrize("name", CONTAINERS)
def test_an_odd_cell_changes_no_other_cell_of_a_column(name: str) -> None:
    """However the container stores the column after the change, the others read as before. Two readers take turns."""
    turns = itertools.cycle(READERS.items())
    places = itertools.cycle(range(ROWS))
    tried = 0
    for flavour in COLUMNS:
        untouched = container(name, usual(flavour)) if name in LOSSY else objects(usual(flavour))
        if untouched is None:
            continue
        wanted = {reader: function(untouched) for reader, function in READERS.items()}
        for odd in ODD:
            place = next(places)
            column = container(name, changed(flavour, odd, place))
            if column is None:
                continue
            tried += 1
            for reader, function in (next(turns), next(turns)):
                assert same(function(column), wanted[reader], place), (flavour, reader, place, type(odd))
    assert tried >= 5, tried
    TRIED["columns"] = TRIED.get("columns", 0) + tried


TRIED: dict[str, int] = {}


def test_a_cell_reads_alone_as_among_others() -> None:
    """The column readers are the cell readers, whatever fast way they take."""
    for odd in ODD:
        for flavour in ("floats", "words", "everything"):
            column = objects(changed(flavour, odd, 3))
            assert np.array_equal(numbers(column)[3], number(odd), equal_nan=True)
            assert np.array_equal(truth(column)[3], truth_value(odd), equal_nan=True)
            for levels in LEVELS:
                assert codes(column, levels)[3] == codes(objects([odd]), levels)[0]


# -- labels, ids and weights -------------------------------------------------------------------------------------------------

ONE_BY_ONE = ["list", "object array", "object series", "inferred series", "polars object", "arrow string", "arrow binary"]


@pytest.mark.parametrize("name", [*ONE_BY_ONE, "csv series"])
def test_an_odd_label_changes_no_other_label(name: str) -> None:
    tried = 0
    for flavour, odd in itertools.product(("whole", "words", "true", "named nulls", "everything"), ODD):
        place = tried % ROWS
        before, after = container(name, usual(flavour)), container(name, changed(flavour, odd, place))
        if before is None or after is None:
            continue
        before, after = label_column(before, ROWS), label_column(after, ROWS)
        levels = LEVELS[tried % len(LEVELS)]
        classes = np.array(levels, dtype=object)
        if not {before.dtype.kind, after.dtype.kind} & set("iub"):  # by that type such labels may be refused
            for first, second in zip(classify(before, classes)[:2], classify(after, classes)[:2]):
                assert same(second, first, place), (flavour, levels, type(odd))
        for first, second in zip(bounded_labels(before, (-1, 1))[:2], bounded_labels(after, (-1, 1))[:2]):
            assert same(second, first, place), (flavour, type(odd))
        tried += 1
    TRIED[f"labels {name}"] = tried
    assert tried > 100


@pytest.mark.parametrize("name", ["list", "object array", "object series", "polars object"])
def test_an_odd_id_merges_and_parts_no_other_persons(name: str) -> None:
    """Which of the other rows are one person, and which are nobody's, is what it was."""
    kept = ["a", "a\0", "a", 7, 7.0, "7", 2**60 + 1, 2**60 + 2, b"a", None, "", "\u00e9"]
    wanted = [[0, 1, 0, 3, 3, 3, 6, 7, 0, -1, -1, 11][j] for j in range(ROWS)]
    for tried, odd in enumerate(ODD):
        place = tried % ROWS
        cells = list(kept)
        cells[place] = odd
        found = persons(container(name, cells))
        rest = [j for j in range(ROWS) if j != place]
        for i, j in itertools.combinations(rest, 2):
            assert (found[i] == found[j]) == (wanted[i] == wanted[j]), (type(odd), i, j)
            assert (found[i] < 0) == (wanted[i] < 0)
    assert person("a") != person("a\0") and person(b"a") == person("a") and person(np.str_("a\0")) == person("a\0")


# -- whole tables: many changed columns in one encoding ----------------------------------------------------------------------

FLAVOURS = ("floats", "true", "words", "numbers with nulls", "named nulls", "everything")
KINDS: dict[str, dict[str, Any]] = {
    "numeric": {"type": "numeric", "low": -1, "high": 2},
    "sparse": {"type": "sparse", "high": 2},
    "boolean": {"type": "boolean"},
    "ordinal": {"type": "ordinal", "levels": ["no", "yes", "1", "True"]},
    "categorical": {"type": "categorical", "levels": ["yes", "no", "None", "nan"], "missing": "its own level"},
    "numbers as levels": {"type": "categorical", "levels": [0, 1, 0.5]},
    "datetime": {"type": "datetime", "parts": ["year", "month", "weekday", "hour"], "low": 1990, "high": 2030},
    "hash": {"type": "categorical", "hash": 5, "missing": "its own level"},
    "bins": {"type": "numeric", "low": -1, "high": 2, "bins": 3, "missing": "its own level"},
}
TABLES = {
    "pandas": lambda columns: pd.DataFrame({name: odd_cells.frame(cells) for name, cells in columns.items()}),
    "polars": lambda columns: pl.DataFrame({name: pl.Series(name, cells, dtype=pl.Object) for name, cells in columns.items()}),
    "arrow": lambda columns: pa.table({name: pa.array(objects(cells), from_pandas=True) for name, cells in columns.items()}),
}


def described(kind: str, count: int) -> Schema:
    columns = {f"c{place}": KINDS[kind] for place in range(count)}
    return Schema.from_dict({"columns": columns, "target": {"column": "c0", "type": "classes", "classes": ["no", "yes"]}})


def dense(rows: Any) -> np.ndarray:
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TABLES)
def test_odd_cells_of_a_table_change_their_own_rows(name: str, kind: str) -> None:
    """Column j is the usual one with odd cell j in one row; all its other rows are encoded as in the untouched table."""
    for flavour in FLAVOURS:
        odd = ODD
        if name == "arrow":  # columns of one type
            odd = [cell for cell in ODD if all(container(name, changed(flavour, cell, j)) is not None for j in range(ROWS))]
        if not odd or container("arrow" if name == "arrow" else "list", usual(flavour)) is None:
            continue
        schema = described(kind, len(odd))
        cells = {f"c{j}": changed(flavour, cell, j % ROWS) for j, cell in enumerate(odd)}
        found = dense(schema.encoded(TABLES[name](cells)))
        before = dense(schema.encoded(TABLES[name]({name: usual(flavour) for name in cells})))
        assert np.isfinite(found).all()
        width = found.shape[1] // len(odd)
        for j in range(len(odd)):
            part = slice(j * width, (j + 1) * width)
            assert same(found[:, part], before[:, part], j % ROWS), (flavour, type(odd[j]))
        TRIED[f"{name} {kind} {flavour}"] = len(odd)


def blocks_of(rows: Any) -> Any:
    """(encoded rows, labels, weights) as a sum would see them."""
    import dask

    if isinstance(rows, DaskRows):
        blocks = [block for part in dask.compute(*rows.parts(), scheduler="threads") for block in part.blocks]
    else:
        blocks = [make() if callable(make) else make for make in rows.blocks()]
    weights = [np.ones(len(block.y)) if block.weight is None else block.weight for block in blocks]
    columns = ([dense(block.X) for block in blocks], [block.y for block in blocks], weights)
    return tuple(np.concatenate(parts) for parts in columns)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("format", ["csv", "parquet", "ipc"])
def test_odd_cells_of_a_file_change_their_own_rows(tmp_path: Any, format: str, kind: str) -> None:
    """Cells of a file are bytes, UTF-8 or not."""
    odd = [text.encode("utf-8", "surrogatepass") for text in [*TEXTS, "\ud800"]] + [b"\xff", b"Jos\xe9", b"\xc3(", b"\x80" * 300]

    def write(cells: dict[str, list[bytes]], path: Any) -> Any:
        if format == "csv":
            quoted = {name: [b'"' + cell.replace(b'"', b'""') + b'"' for cell in column] for name, column in cells.items()}
            lines = [b",".join(row) for row in zip(*quoted.values())]
            path.write_bytes(b"\n".join([",".join(quoted).encode(), *lines]) + b"\n")
            return path
        table = pa.table({name: pa.array(column, pa.binary()) for name, column in cells.items()})
        if format == "parquet":
            pa.parquet.write_table(table, path)
        else:
            with pa.ipc.new_file(path, table.schema) as file:
                file.write_table(table)
        return path

    suffix = {"csv": ".csv", "parquet": ".parquet", "ipc": ".arrow"}[format]
    for flavour in ("words", "digits", "truth as words"):
        base = [cell.encode() for cell in usual(flavour)]
        cells = {f"c{j}": [odd[j] if place == j % ROWS else cell for place, cell in enumerate(base)] for j in range(len(odd))}
        schema = described(kind, len(odd))
        found = blocks_of(ArrowRows(write(cells, tmp_path / f"odd{suffix}"), schema))
        before = blocks_of(ArrowRows(write(dict.fromkeys(cells, base), tmp_path / f"usual{suffix}"), schema))
        width = found[0].shape[1] // len(odd)
        for j in range(len(odd)):
            part = slice(j * width, (j + 1) * width)
            assert same(found[0][:, part], before[0][:, part], j % ROWS), (flavour, j)
        assert same(found[1], before[1], 0) and same(found[2], before[2], 0)
        TRIED[f"{format} {kind} {flavour}"] = len(odd)


@pytest.mark.parametrize("kind", KINDS)
def test_odd_cells_on_a_cluster_change_their_own_rows(kind: str) -> None:
    dask = pytest.importorskip("dask")
    import dask.dataframe as dd

    for flavour in ("words", "numbers with nulls", "everything"):
        schema = described(kind, len(ODD))
        cells = {f"c{j}": changed(flavour, cell, j % ROWS) for j, cell in enumerate(ODD)}
        with dask.config.set({"dataframe.convert-string": False}):
            rows = [
                DaskRows(dd.from_pandas(TABLES["pandas"](columns), npartitions=2), schema=schema, persist=False)
                for columns in (cells, dict.fromkeys(cells, usual(flavour)))
            ]
        found, before = (blocks_of(one) for one in rows)
        width = found[0].shape[1] // len(ODD)
        for j in range(len(ODD)):
            part = slice(j * width, (j + 1) * width)
            assert same(found[0][:, part], before[0][:, part], j % ROWS), (flavour, j)
        assert same(found[1], before[1], 0) and same(found[2], before[2], 0)
        TRIED[f"dask {kind} {flavour}"] = len(ODD)


@pytest.mark.parametrize("name", ["list", "tuples", "object array", "pandas", "polars", "memory rows", "dask array"])
def test_odd_cells_of_a_matrix_change_their_own_rows(name: str) -> None:
    """Without a schema: numbers between declared bounds."""
    import dask.array as da

    makers: dict[str, Any] = {
        "list": lambda columns: [list(row) for row in zip(*columns.values())],
        "tuples": lambda columns: tuple(zip(*columns.values())),
        "object array": lambda columns: np.stack([objects(cells) for cells in columns.values()], axis=1),
        "pandas": TABLES["pandas"],
        "polars": TABLES["polars"],
        "memory rows": lambda columns: MemoryRows(makers["object array"](columns), np.zeros(ROWS)),
        "dask array": lambda columns: da.from_array(makers["object array"](columns), chunks=(6, len(columns))),
    }

    def encoded(columns: dict[str, list[Any]]) -> np.ndarray:
        bounds = [(-1, 2)] * len(columns)
        model = dperm.LogisticRegression(bounds=bounds, classes=[0, 1])
        X, y = makers[name](columns), np.arange(ROWS) % 2
        if name == "dask array":
            from dperm.estimators.engines import declared_rows, engine_rows

            return blocks_of(declared_rows(model, engine_rows(X, da.from_array(y, chunks=6)), None, None).rows)[0]
        return dense(model._unpack(X.X if name == "memory rows" else X, y, None)[0])

    for flavour in FLAVOURS:
        cells = {f"c{j}": changed(flavour, cell, j % ROWS) for j, cell in enumerate(ODD)}
        found, before = encoded(cells), encoded(dict.fromkeys(cells, usual(flavour)))
        assert found.shape == (ROWS, len(ODD)) and np.isfinite(found).all()
        for j in range(len(ODD)):
            assert same(found[:, j], before[:, j], j % ROWS), (flavour, type(ODD[j]))
        TRIED[f"{name} matrix {flavour}"] = len(ODD)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0, 3.5e38])
@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "longdouble", "sparse", "sparse twice"])
def test_odd_numbers_of_arrays_change_their_own_rows(kind: str, bad: float) -> None:
    from scipy import sparse

    rows = np.random.default_rng(0).uniform(-1, 1, (ROWS, 5)) * (np.arange(5) % 2)

    def encoded(X: np.ndarray, place: int = -1) -> np.ndarray:
        if kind.startswith("sparse"):
            X = sparse.csr_array(X)
            if kind == "sparse twice" and place >= 0:  # the odd cell stored in parts
                first = X.indptr[place]
                X.data[first] = bad
                extra = np.insert(X.indices, first, X.indices[first]), np.insert(X.data, first, bad)
                X = sparse.csr_array((extra[1], extra[0], X.indptr + (np.arange(ROWS + 1) > place)), shape=X.shape)
        else:
            with np.errstate(over="ignore"):
                X = X.astype(kind)
        y = np.arange(ROWS) % 2
        encoded = dperm.LogisticRegression(bounds=(-1, 2), classes=[0, 1])._unpack(X, y, None)[0]
        return dense(MemoryRows(encoded, 2.0 * y - 1).bounded(DataBounds(1.0, Interval(-1, 1))).block(0).X)

    before = encoded(rows)
    for place in range(ROWS):
        odd = rows.copy()
        odd[place, 1 + 2 * (place % 2)] = bad
        found = encoded(odd, place)
        assert same(found, before, place) and np.linalg.norm(found[place]) <= 1.0


def test_enough_changes_were_tried() -> None:
    """With the whole file; the columns alone are most of it."""
    if len(TRIED) > 60:
        assert sum(TRIED.values()) >= 20_000, sum(TRIED.values())


# -- whole fits --------------------------------------------------------------------------------------------------------------

N = 60
STEP = Gradient(steps=1, step_size=0.5, clip=0.4, momentum=0.0, output="last")
SCHEMA = {
    "columns": {
        "a": {"type": "numeric", "low": 0, "high": 10},
        "c": {"type": "categorical", "levels": ["x", "y", "None"]},
        "b": {"type": "boolean"},
    },
    "target": {"column": "t", "type": "classes", "classes": ["no", "yes"]},
}


def people(place: int = -1, column: str = "", odd: Any = None) -> dict[str, list[Any]]:
    chance = np.random.default_rng(1)
    cells: dict[str, list[Any]] = {
        "a": chance.uniform(0, 10, N).tolist(),
        "c": [["x", "y", None][j] for j in chance.integers(0, 3, N)],
        "b": [bool(flag) for flag in chance.integers(0, 2, N)],
        "t": [["no", "yes"][j] for j in chance.integers(0, 2, N)],
    }
    if column:
        cells[column][place] = odd
    return cells


def weights(data: Any, y: Any = None, **options: Any) -> np.ndarray:
    settings = {"schema": SCHEMA} if y is None else {"bounds": [(0, 10)], "classes": ["no", "yes"]}
    model = dperm.LogisticRegression(1.0, delta=1e-6, method=STEP, random_state=0, **settings, **options)
    return model.fit(data, y).w_ if y is not None else model.fit(data).w_


def test_one_step_moves_by_one_row_whatever_a_cell_is() -> None:
    """w = -η(Σ + noise)/n with the same noise: |Δw| ≤ η·2C/n, and the release slack of 1.001."""
    limit = 1.001 * 0.5 * 2 * 0.4 / N
    before = weights(TABLES["pandas"](people()))
    listed = people()
    before_lists = weights([[a] for a in listed["a"]], listed["t"])
    for turn, odd in enumerate(ODD):
        place, column = turn % N, "acbt"[turn % 4]
        after = weights(TABLES["pandas"](people(place, column, odd)))
        assert np.linalg.norm(after - before) <= limit, (column, type(odd))
        cells = people(place, "at"[turn % 2], odd)
        after = weights([[a] for a in cells["a"]], cells["t"])
        assert np.linalg.norm(after - before_lists) <= limit, type(odd)


def test_means_move_by_one_row_whatever_a_cell_is() -> None:
    values = np.random.default_rng(0).uniform(0, 1, N).tolist()

    def mean(cells: Any) -> float:
        return dperm.MeanEstimator(5.0, bounds=(0, 1), random_state=0).fit(cells).location_

    before = mean(values)
    for turn, odd in enumerate(ODD):
        cells = list(values)
        cells[turn % N] = odd
        assert abs(mean(cells) - before) <= 1.001 / N, type(odd)
        assert abs(mean(objects(cells)) - before) <= 1.001 / N, type(odd)


@pytest.mark.parametrize("place", [0, 30])
def test_no_estimator_stops_at_an_odd_cell(place: int, tmp_path: Any) -> None:
    """With a ledger, which digests the rows, and with weights, exposures and ids."""
    X = np.random.default_rng(0).uniform(0, 1, (N, 2)).tolist()
    y = [j % 2 for j in range(N)]
    for turn, odd in enumerate(ODD):
        rows, labels, extra = [list(row) for row in X], list(y), [1.0] * N
        rows[place][turn % 2] = labels[place] = odd
        extra[place] = ODD[(7 * turn + 3) % len(ODD)]
        seeded = {"random_state": 0, "bounds": [(0, 1)] * 2}
        debited = dict(seeded)
        if turn % 4 == 0:
            ledger = dperm.Ledger.create(tmp_path / f"{place}-{turn}", dataset="x", epsilon=9, delta=1e-4)
            debited |= {"random_state": None, "ledger": ledger}
        dperm.LinearRegression(1.0, y_bounds=(0, 1), method=STEP, max_weight=2, **debited).fit(rows, labels, sample_weight=extra)
        if turn % 3 == 0:
            dperm.PoissonRegressor(1.0, y_bounds=9, max_exposure=2, **seeded).fit(rows, labels, exposure=extra)
        elif turn % 3 == 1:
            learner = dperm.FiniteClassLearner(1.0, classes=[0, 1], max_rows_per_person=60, **seeded)
            assert len(learner.fit(rows, labels, groups=extra).predict(rows)) == N
        else:
            dperm.MedianEstimator(1.0, random_state=0, bounds=(0, 1)).fit(extra)
            said = listed_rows(rows, 2)
            dperm.FiniteClassLearner(1.0, hypotheses="predictions", classes=[0, 1], random_state=0).fit(said, labels)
