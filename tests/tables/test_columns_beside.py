"""Columns that a caller passes beside the rows: of a list, an entry is a cell or a list with one, and decides about itself."""

from __future__ import annotations

from array import array
from collections import deque
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dperm
from dperm.release.ledger import Ledger
from dperm.rows import DaskRows, DeviceRows
from dperm.rows.memory import MemoryRows
from dperm.tables.containers import beside

N = 200
X = np.random.default_rng(0).uniform(0, 1, (N, 2))
Y = (X[:, 0] > 0.5).astype(int)
COUNTS = np.random.default_rng(1).poisson(2.0, N)
WEIGHTS = np.linspace(0.2, 1.0, N)
IDS = np.arange(N) // 2
OPTIONS = {"bounds": (0, 1), "random_state": 0}


def alone(values: np.ndarray) -> list[list[object]]:
    return [[value] for value in values.tolist()]


def classifier(**options: object) -> dperm.LogisticRegression:
    return dperm.LogisticRegression(1.0, classes=[0, 1], method="gradient", **OPTIONS, **options)


def poisson(**options: object) -> dperm.PoissonRegressor:
    return dperm.PoissonRegressor(epsilon=5.0, y_bounds=(0, 10), max_exposure=2.0, **OPTIONS, **options)


def fitted_counts(**given: object) -> np.ndarray:
    return poisson().fit(X, COUNTS, **given).w_


def scores(**given: object) -> object:
    model = poisson().fit(X, COUNTS, exposure=WEIGHTS)
    return dperm.evaluate(model, X, COUNTS, epsilon=50.0, max_exposure=2.0, random_state=0, **given).record["released"]


def on_device(y: object, weight: object = None) -> np.ndarray:
    return classifier().fit(DeviceRows(X, y, weight)).w_


def of_products(y: object, weight: object = None) -> np.ndarray:
    return classifier().fit(DeviceRows(X, y, weight, host=False)).w_


def on_dask(weight: object) -> np.ndarray:
    import dask.array as da

    return classifier().fit(DaskRows(da.from_array(X, chunks=64), da.from_array(Y, chunks=64), weight)).w_


CASES = {
    "exposure": (WEIGHTS, lambda given: fitted_counts(exposure=given)),
    "offset": (np.log(WEIGHTS), lambda given: fitted_counts(offset=given)),
    "exposure of an evaluation": (WEIGHTS, lambda given: scores(exposure=given)),
    "exposure of predictions": (
        WEIGHTS,
        lambda given: poisson().fit(X, COUNTS, exposure=WEIGHTS).predict(X, exposure=given),
    ),
    "counts": (COUNTS, lambda given: poisson().fit(X, given, exposure=WEIGHTS).w_),
    "sample_weight": (WEIGHTS, lambda given: classifier(max_weight=1.0).fit(X, Y, sample_weight=given).w_),
    "groups": (IDS, lambda given: classifier(max_rows_per_person=1).fit(X, Y, groups=given).w_),
    "y": (Y, lambda given: classifier().fit(X, given).w_),
    "y of MemoryRows": (Y, lambda given: classifier().fit(MemoryRows(X, given)).w_),
    "weight of MemoryRows": (WEIGHTS, lambda given: MemoryRows(X, Y, given).weight),
    "y of DeviceRows": (Y, on_device),
    "weight of DeviceRows": (WEIGHTS, lambda given: on_device(Y, given)),
    "y of products": (Y, of_products),
    "weight of products": (WEIGHTS, lambda given: of_products(Y, given)),
    "weight of DaskRows": (WEIGHTS, on_dask),
}


@pytest.mark.filterwarnings("ignore")  # of budgets that are too small
@pytest.mark.parametrize("name", CASES)
def test_a_list_of_lists_with_one_cell_is_the_column(name: str) -> None:
    """All cells used to be missing, and the budget was spent on nothing."""
    column, answer = CASES[name]
    expected = answer(column)
    for given in (alone(column), tuple(map(tuple, alone(column))), deque(column.tolist()), deque(alone(column))):
        assert np.array_equal(answer(given), expected) if isinstance(expected, np.ndarray) else answer(given) == expected


def test_an_entry_decides_about_itself_alone() -> None:
    """No vote of the entries, and no first entry, says whether the list is a column of cells or of lists."""
    for odd in ([], [1, 2], "x", None, [[5]], np.ones(3), {1: 2}):
        for others in ([1.0, 2.0], [[1.0], [2.0]]):
            for given in ([odd, *others], [*others, odd]):
                kept = beside(given)[1:] if given[0] is odd else beside(given)[:-1]
                assert kept.tolist() == [1.0, 2.0]


@pytest.mark.filterwarnings("ignore")
def test_a_deque_of_rows_is_read_as_a_list_is() -> None:
    declared = {"epsilon": 1.0, "bounds": [(0, 1), (0, 1)], "random_state": 0}
    held = deque(X.tolist())
    for estimator in (
        dperm.LogisticRegression(classes=[0, 1], **declared),
        dperm.FiniteClassLearner(classes=[0, 1], **declared),
        dperm.MedianEstimator(**declared),
    ):
        expected, found = (estimator.fit(rows, Y).release_.w for rows in (X.tolist(), held))
        assert np.array_equal(expected, found)
    assert dperm.MedianEstimator(1.0, bounds=(0, 1), random_state=0).fit(deque(X[:, 0])).location_ == (
        dperm.MedianEstimator(1.0, bounds=(0, 1), random_state=0).fit(X[:, 0]).location_
    )
    model = classifier().fit(X, Y)
    assert np.array_equal(model.predict(held), model.predict(X))
    with pytest.raises(ValueError, match="found a list"):
        classifier().fit(held, Y)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", ["pandas", "dask", "polars"])
def test_a_column_of_every_library_is_a_column(library: str) -> None:
    """A column of Dask offers names of columns as a table does, and was refused as one."""
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "id": IDS, "w": WEIGHTS, "y": Y, "counts": COUNTS})
    held = frame
    if library == "dask":
        held = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3)
    elif library == "polars":
        held = pytest.importorskip("polars").from_pandas(frame)

    def answers(table: object) -> list[object]:
        rows, private = table[["a", "b"]], {"epsilon": 1.0, "random_state": 0}
        model = classifier().fit(X, Y)
        return [
            classifier(max_weight=1.0).fit(X, Y, sample_weight=table["w"]).w_,
            classifier(max_rows_per_person=1).fit(X, Y, groups=table["id"]).w_,
            classifier().fit(X, table["y"]).w_,
            poisson().fit(X, table["counts"], exposure=table["w"]).w_,
            dperm.MeanEstimator(bounds=(0, 1), **private).fit(rows).location_,
            dperm.MedianEstimator(bounds=(0, 1), **private).fit(rows).location_,
            dperm.MedianEstimator(bounds=(0, 1), **private).fit(table["a"]).location_,
            dperm.EmbeddingClassifier(classes=[0, 1], **private).fit(rows, table["y"]).w_,
            dperm.FiniteClassLearner(classes=[0, 1], bounds=(0, 1), **private).fit(rows, table["y"]).release_.w,
            dperm.profile(rows, **private).record["released"],
            dperm.evaluate(model, X, table["y"], **private).record["released"],
        ]

    for expected, found in zip(answers(frame), answers(held), strict=True):
        assert np.array_equal(expected, found) if isinstance(expected, np.ndarray) else found == expected


def test_an_error_of_a_dask_column_quotes_no_cell() -> None:
    dask = pytest.importorskip("dask.dataframe")
    words = pd.Series(["1"] * 5 + ["secret-name"], dtype=object)
    column = dask.from_pandas(words, npartitions=2).map_partitions(lambda part: part.astype(float), meta=("a", float))
    with pytest.raises(ValueError, match="a Dask collection that reads to its end") as found:
        beside(column)
    assert "secret" not in str(found.value)


def test_labels_in_memory_lie_beside_a_frame_of_dask() -> None:
    """They ended in an error about a collection that does not read to its end; a column of shape (n, 1) in Dask's, with n."""
    dask = pytest.importorskip("dask.dataframe")
    frame = dask.from_pandas(pd.DataFrame(X, columns=["a", "b"]), npartitions=3)
    array = frame.to_dask_array(lengths=True)
    expected = classifier().fit(X, Y).w_
    for given in (Y, Y.tolist(), alone(Y), deque(Y.tolist()), pd.Series(Y), pd.Series(Y, dtype="Int64")):
        assert np.array_equal(classifier().fit(DaskRows(frame, given)).w_, expected)
    for given in (array[:, :1] * 0 + Y[:, None], dask.from_pandas(pd.DataFrame({"y": Y}), npartitions=2)):
        assert np.array_equal(classifier().fit(DaskRows(array, given)).w_, expected)
    for rows in (frame, array):
        with pytest.raises(ValueError, match="found another number of them"):
            DaskRows(rows, Y[1:])
        with pytest.raises(ValueError, match="Complex data not supported"):  # on the workers, after the debit
            DaskRows(rows, Y + 1j)
    with pytest.raises(ValueError, match="found another number of them"):
        DaskRows(array, array)


@pytest.mark.parametrize("kind", ["bag", "column", "line", "delayed", "numpy", "pandas"])
def test_what_is_no_matrix_of_dask_is_refused_in_words(kind: str) -> None:
    dask = pytest.importorskip("dask")
    frame = pd.DataFrame(X)
    made = {
        "bag": lambda: pytest.importorskip("dask.bag").from_sequence(X.tolist()),
        "column": lambda: pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=2)[0],
        "line": lambda: pytest.importorskip("dask.array").from_array(X[:, 0]),
        "delayed": lambda: dask.delayed(X),
        "numpy": lambda: X,
        "pandas": lambda: frame,
    }
    with pytest.raises(ValueError, match="Expected a Dask array with two dimensions or a Dask data frame as X, found neither"):
        DaskRows(made[kind](), Y)


@pytest.mark.parametrize("host", [True, False])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_labels_and_weights_of_a_device_are_one_per_row_before_anything_is_spent(
    library: str, host: bool, tmp_path: Path
) -> None:
    """Labels of shape (n, 1), as torch has them, ended in an error about shapes after the debit, which stated n."""
    torch = pytest.importorskip("torch")
    made = torch.tensor if library == "torch" else np.asarray
    expected = classifier().fit(DeviceRows(made(X), made(Y), made(WEIGHTS), host=host)).w_
    rows = DeviceRows(made(X), made(Y)[:, None], made(WEIGHTS)[:, None], host=host)
    assert np.array_equal(classifier().fit(rows).w_, expected)
    for wrong in (made(X), made(Y)[1:], np.array(3), "text", {1, 2}, {0: 1}, iter([1]), array("d", [1.0])):
        for given in ((wrong,), (Y, wrong)):
            with pytest.raises(ValueError, match="as rows, found another number of them"):
                DeviceRows(made(X), *given, host=host)
    ledger = Ledger.create(tmp_path / "book", dataset="d", epsilon=9.0, delta=1e-4)
    with pytest.raises(ValueError, match="Expected one column, found a table"):
        classifier(ledger=ledger).fit(DeviceRows(made(X), Y, pd.DataFrame({"w": WEIGHTS}), host=host))
    assert ledger.account().fits == 0
