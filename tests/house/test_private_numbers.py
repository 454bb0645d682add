"""Under add-remove the number of rows is protected: no error, warning or progress states it, nor a size that tells it."""

from __future__ import annotations

import resource
import signal
import sys
import traceback

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dperm
from dperm.rows.device import enough_memory
from dperm.tables.tables import read_table
from dperm.words.progress import row_printer

N = 7919
RNG = np.random.default_rng(3)
X = RNG.uniform(0, 1, (N, 2))
Y = (X[:, 0] > 0.5).astype(int)
HIDDEN = {"delta": 1e-5, "relation": "add-remove", "nominal_n": 8000}
SCHEMA = {
    "columns": {name: {"type": "numeric", "low": 0, "high": 1} for name in "ab"},
    "target": {"column": "y", "type": "classes", "classes": [0, 1]},
}


def table() -> pa.Table:
    return pa.table({"a": X[:, 0], "b": X[:, 1], "y": Y})


def said(error: BaseException) -> str:
    """All that a traceback shows: the error and its causes."""
    return "".join(traceback.format_exception(error)).partition("Error: ")[2] + str(error)


MODELS = {
    "binary": lambda: dperm.LogisticRegression(epsilon=1.0, bounds=(0, 1), classes=[0, 1], **HIDDEN),
    "regression": lambda: dperm.LinearRegression(epsilon=1.0, bounds=(0, 1), y_bounds=(0, 1), **HIDDEN),
    "counts": lambda: dperm.PoissonRegressor(epsilon=1.0, bounds=(0, 1), y_bounds=(0, 3), **HIDDEN),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("labels", [Y[:-1], np.r_[Y, 0], Y[:1]], ids=["short", "long", "one"])
def test_labels_of_another_number_are_refused_by_an_evaluation_without_a_number(kind, labels, tmp_path):
    model = MODELS[kind]().fit(X, Y)
    ledger = dperm.Ledger.create(tmp_path / "l", dataset="x", epsilon=9.0, delta=1e-4, relation="add-remove")
    with pytest.raises(ValueError, match="one label for every row") as found:
        dperm.evaluate(model, X, labels, epsilon=1.0, ledger=ledger, **HIDDEN)
    assert "79" not in said(found.value)
    assert ledger.account().fits == 0


def test_exposures_of_another_number_are_refused_without_a_number():
    model = MODELS["counts"]().fit(X, Y)
    with pytest.raises(ValueError, match="exposure") as found:
        model.predict(X, np.ones(N - 1))
    assert "79" not in str(found.value)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_a_full_disk_under_a_cache_is_told_without_sizes(tmp_path):
    pyarrow.parquet.write_table(table(), tmp_path / "t.parquet")
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with pytest.raises(ValueError, match="Expected room") as found:
            dperm.ArrowRows(tmp_path / "t.parquet", SCHEMA, cache=tmp_path / "cache")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    told = str(found.value).replace(str(tmp_path), "")
    assert not any(sign.isdigit() for sign in told)


def test_a_full_gpu_is_told_without_sizes():
    class OutOfMemoryError(RuntimeError):
        """As torch and CuPy name theirs."""

    with pytest.raises(ValueError, match="Expected room on the GPU") as found, enough_memory():
        raise OutOfMemoryError("Tried to allocate 7919 MiB")
    assert "79" not in said(found.value)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_a_file_that_ends_early_is_told_without_its_size(tmp_path, suffix):
    for size in (3, 7, 9):
        file = tmp_path / f"t{suffix}"
        file.write_bytes(b"PAR1PAR1PAR1"[:size])
        for read in (lambda place: dperm.ArrowRows(place, SCHEMA), read_table):
            with pytest.raises(ValueError) as found:
                read(file)
            assert f" {size} " not in str(found.value) and f" {size}." not in str(found.value)


def test_progress_over_a_file_tells_no_number_of_rows(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    show = row_printer()
    for done in (2000, 4000, N):
        show(done, N, done / 2000)
    text = capsys.readouterr().err
    assert "25 %" in text and "3 s left" in text
    assert not any(number in text for number in (str(N), "2000", "2,000", "4000", "rows"))
