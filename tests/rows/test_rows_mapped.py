"""Memory maps whose file another process writes during a fit: passes that would see other rows are refused."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import dperm
from dperm.estimators import search_rows
from dperm.problem import DataBounds, Interval, LogisticLoss, Problem
from dperm.problem.regularizers import Ridge
from dperm.release.driver import watching
from dperm.rows import DeviceRows, MemoryRows
from dperm.rows.base import total_counts
from dperm.rows.mapped import MappedFiles

WRITES = """
import sys
import numpy as np
X = np.load(sys.argv[1], mmap_mode=None)
np.save(sys.argv[1], -X)
"""


def mapped(tmp_path: Path) -> tuple[np.memmap, np.ndarray, Callable[[], object]]:
    """Rows as a memory map, their labels, and another process that writes other rows into the file."""
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (400, 3))
    file = tmp_path / "rows.npy"
    np.save(file, X)
    found = np.load(file, mmap_mode="r")
    assert isinstance(found, np.memmap)
    return found, (X[:, 0] > 0).astype(int), lambda: subprocess.run([sys.executable, "-c", WRITES, str(file)], check=True)


def embeddings(**options: object) -> dperm.EmbeddingClassifier:
    return dperm.EmbeddingClassifier(epsilon=5.0, classes=[0, 1], steps=4, **options)


@pytest.mark.parametrize("view", [lambda X: X, lambda X: X[::2], lambda X: np.asarray(X)[:, :2]])
def test_embeddings_that_are_written_between_two_passes_are_refused(tmp_path, view):
    X, y, write = mapped(tmp_path)
    rows = view(X)
    drawn: list[object] = []

    def see(one: object) -> None:
        drawn.append(one)
        if len(drawn) == 1:
            write()

    with watching(see), pytest.raises(ValueError, match="written meanwhile"):
        embeddings().fit(rows, y[: len(rows)])
    assert len(drawn) == 1  # no noise was drawn for what the second pass saw
    embeddings().fit(rows, y[: len(rows)])  # the next fit takes the file as it is now


def test_a_minimiser_never_sees_two_tables(tmp_path, monkeypatch):
    X, y, write = mapped(tmp_path)
    problem = Problem(LogisticLoss(), Ridge(0.1), data=DataBounds(1.0, Interval(-1.0, 1.0)))
    passes: list[object] = []

    def counted(*given: object, **options: object) -> object:
        passes.append(1)
        if len(passes) == 3:
            write()
        return total_counts(*given, **options)

    monkeypatch.setattr("dperm.rows.memory.total_counts", counted)
    target = dperm.mechanisms.Target.declare(epsilon=1.0, delta=1e-6, relation="zero-out", n=len(y))
    with pytest.raises(ValueError, match="written meanwhile"):
        dperm.fit(problem, MemoryRows(X, 2.0 * y - 1.0), target, "objective")
    assert len(passes) == 3


def test_a_search_fits_one_table(tmp_path, monkeypatch):
    X, y, write = mapped(tmp_path)
    scores = search_rows.row_scores

    def scored(*given: object) -> np.ndarray:
        write()
        return scores(*given)

    monkeypatch.setattr(search_rows, "row_scores", scored)
    base = dperm.LogisticRegression(bounds=(-1, 1), classes=[0, 1])
    search = dperm.PrivateGridSearch(base, {"regularization": [0.1, 1.0]}, epsilon=3.0, runs="logarithmic")
    with pytest.raises(ValueError, match="written meanwhile"):
        search.fit(X, y)
    assert not hasattr(search, "best_estimator_")


def tensor(X: np.memmap) -> object:
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the map is read only
        return torch.from_numpy(X)


def arrow(X: np.memmap) -> pa.ChunkedArray:
    cells = pa.Array.from_buffers(pa.float64(), X.size, [None, pa.py_buffer(X)])
    return pa.chunked_array([cells.slice(0, 600), cells.slice(600)])


HOLDERS = {
    "tensor": tensor,
    "array of a tensor": lambda X: tensor(X).numpy(),
    "part of a tensor": lambda X: tensor(X)[200:, 1],
    "buffer": lambda X: np.asarray(memoryview(X)),
    "memoryview": memoryview,
    "pandas": lambda X: pd.DataFrame(X, columns=list("abc"), copy=False),
    "pandas column": lambda X: pd.Series(X[:, 1], copy=False),
    "pandas over arrow": lambda X: pd.DataFrame({"a": pd.arrays.ArrowExtensionArray(arrow(X))}),
    "arrow": arrow,
    "arrow table": lambda X: pa.table({"a": arrow(X)}),
    "polars": lambda X: pl.DataFrame({"a": pl.from_arrow(arrow(X))}),
    "sparse": lambda X: sparse.csr_array((X.ravel(), np.tile(np.arange(3), 400), np.arange(0, 1201, 3)), shape=(400, 3)),
    "sparse columns": lambda X: sparse.csc_array((X.ravel(), np.tile(np.arange(400), 3), 400 * np.arange(4)), shape=(400, 3)),
}


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not tell which files are mapped")
@pytest.mark.parametrize("held", HOLDERS.values(), ids=HOLDERS)
def test_the_file_under_a_container_is_found_whatever_holds_it(tmp_path, held):
    X, _, write = mapped(tmp_path)
    copied, holder = held(np.array(X)), held(X)
    assert MappedFiles.of(copied, None, [1.0], "x").state == ()
    found = MappedFiles.of(None, holder)
    assert [name for name, *_ in found.state] == [str((tmp_path / "rows.npy").resolve())]
    found.check()
    write()
    with pytest.raises(ValueError, match="written meanwhile"):
        found.check()


@pytest.mark.parametrize("kind", ["pandas", "sparse"])
def test_a_search_on_a_container_over_a_map_fits_one_table(tmp_path, monkeypatch, kind):
    X, y, write = mapped(tmp_path)
    scores = search_rows.row_scores

    def scored(*given: object) -> np.ndarray:
        write()
        return scores(*given)

    monkeypatch.setattr(search_rows, "row_scores", scored)
    base = dperm.LogisticRegression(bounds=(-1, 1), classes=[0, 1])
    search = dperm.PrivateGridSearch(base, {"regularization": [0.1, 1.0]}, epsilon=3.0, runs="logarithmic")
    with pytest.raises(ValueError, match="written meanwhile"):
        search.fit(HOLDERS[kind](X), y)
    assert not hasattr(search, "best_estimator_")


@pytest.mark.parametrize("host", [True, False])
def test_rows_of_a_tensor_over_a_map_are_one_table(tmp_path, host):
    X, y, write = mapped(tmp_path)
    problem = Problem(LogisticLoss(), Ridge(0.1), data=DataBounds(1.0, Interval(-1.0, 1.0)))
    target = dperm.mechanisms.Target.declare(epsilon=1.0, delta=1e-6, relation="zero-out", n=len(y))
    drawn: list[object] = []

    def see(one: object) -> None:
        drawn.append(one)
        if len(drawn) == 1:
            write()

    rows = DeviceRows(tensor(X), 2.0 * y - 1.0, host=host)
    with watching(see), pytest.raises(ValueError, match="written meanwhile"):
        dperm.fit(problem, rows, target, "gradient")
    assert len(drawn) == 1


def test_a_map_that_nobody_writes_is_fitted_as_the_array_is(tmp_path):
    X, y, _ = mapped(tmp_path)
    mine, theirs = (embeddings(random_state=0).fit(rows, y) for rows in (X, np.array(X)))
    assert np.array_equal(mine.w_, theirs.w_)
