"""EmbeddingClassifier: containers without copies, refusals by name, persons, files of large models, and the walk."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dperm
from dperm import EmbeddingClassifier
from dperm.estimators.embedding import matrix_of
from dperm.features import open_embeddings
from dperm.mechanisms import Heads, UnmetNeeds
from dperm.privacy import RELATIONS
from dperm.rows.embeddings import EmbeddingRows
from dperm.tables.containers import listed_rows
from dperm.tables.fingerprint import digest
from dperm.tables.packed import packed, unpacked

K, D = 3, 8


def data(n: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    return (rng.normal(size=(n, D)) + 3 * np.eye(K, D)[y]).astype(np.float32), y


def model(**options: Any) -> EmbeddingClassifier:
    return EmbeddingClassifier(**({"epsilon": 8.0, "classes": range(K), "steps": 20, "random_state": 0} | options))


@pytest.mark.parametrize("relation", RELATIONS)
def test_fit_predict_and_certificate(relation: str) -> None:
    X, y = data()
    fitted = model(relation=relation, nominal_n=500 if relation == "add-remove" else None).fit(X, y)
    assert fitted.score(X, y) > 0.8
    assert fitted.certificate_.verify(allow_seeded=True).ok and fitted.certificate_.relation == relation
    found = fitted.predict_proba(X)
    assert found.shape == (600, K) and np.allclose(found.sum(axis=1), 1.0)
    assert np.array_equal(fitted.predict(X), fitted.decision_function(X).argmax(axis=1))
    assert "original" not in fitted.certificate_.record["coefficients"]  # rows of length 1 have no units of the caller's
    planned = model(relation=relation).plan(500 if relation == "add-remove" else 600, D)
    assert planned.stages == fitted.plan_.stages


def test_two_classes_and_words_as_labels() -> None:
    X, y = data()
    words = np.where(y > 0, "yes", "no")
    fitted = model(classes=["no", "yes"]).fit(X, words)
    assert fitted.coef_.shape == (2, D) and fitted.score(X, words) > 0.8
    assert np.array_equal(fitted.predict(X) == "yes", fitted.decision_function(X) > 0)


def test_containers_give_the_same_model_and_share_their_memory(tmp_path: Path) -> None:
    X, y = data()
    expected = model().fit(X, y).w_
    np.save(tmp_path / "rows.npy", X)
    arrow = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), D)
    write_safetensors(tmp_path / "rows.safetensors", {"rows": X, "other": np.zeros(3, dtype=np.float32)})
    for rows in (
        np.load(tmp_path / "rows.npy", mmap_mode="r"),
        open_embeddings(tmp_path / "rows.npy"),
        open_embeddings(tmp_path / "rows.safetensors"),
        open_embeddings(tmp_path / "rows.safetensors", "rows"),
        arrow,
        pa.chunked_array([arrow]),
        pa.chunked_array([arrow.slice(0, 100), arrow.slice(100)]),
        X.astype(np.float64),
    ):
        assert np.array_equal(model().fit(rows, y).w_, expected)
    assert np.shares_memory(matrix_of(arrow), np.asarray(arrow.values))
    assert matrix_of(X) is X and isinstance(matrix_of(open_embeddings(tmp_path / "rows.npy")), np.memmap)
    assert np.shares_memory(EmbeddingRows(X, y).block(0).X, X)
    half = X.astype(np.float16)
    assert EmbeddingRows(half, y).block(0).X.dtype == np.float16 and model().fit(half, y).score(X, y) > 0.8


def test_a_ledger_recognises_embeddings_wherever_they_lie(tmp_path: Path) -> None:
    """Digests of ledgers that exist already stay: they are those of the bytes."""
    X, y = data()
    np.save(tmp_path / "rows.npy", X)
    assert digest(open_embeddings(tmp_path / "rows.npy")) == digest(X)
    for array in (X, X.T, np.empty((0, 3)), np.array(["2024-01-01"], dtype="M8[D]"), np.array(["a", "bc"]), np.array(1.5)):
        whole = np.ascontiguousarray(array)
        expected = hashlib.sha256(f"array {whole.dtype.str} {whole.shape}".encode() + whole.tobytes()).digest()
        assert digest(array) == expected
    ledger = dperm.Ledger.create(tmp_path / "ledger", dataset="rows", epsilon=20.0, delta=1e-5)
    model(ledger=ledger, random_state=None).fit(open_embeddings(tmp_path / "rows.npy"), y)
    spent = ledger.entries()[-1]
    assert "heads" in json.dumps(spent)


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    X, y = data()
    tensor = torch.from_numpy(X)
    assert np.shares_memory(matrix_of(tensor), X)
    assert np.array_equal(model().fit(tensor, y).w_, model().fit(X, y).w_)
    assert matrix_of(tensor.to(torch.bfloat16)).dtype == np.float32


def write_safetensors(path: Path, tensors: dict[str, np.ndarray], **changed: Any) -> None:
    """As the format says: a length, a header, the numbers."""
    header, offset = {}, 0
    for name, values in tensors.items():
        kind = {"float32": "F32", "float16": "F16"}[values.dtype.name]
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [offset, offset + values.nbytes]} | changed
        offset += values.nbytes
    text = json.dumps(header | {"__metadata__": {"made": "here"}}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(values.tobytes() for values in tensors.values()))


@pytest.mark.parametrize(
    "changed",
    [
        {"dtype": "BF16"}, {"shape": [600, 9]}, {"data_offsets": [0, 10**12]}, {"shape": [-1, 8]}, {"shape": "x"}, {"shape": 3},
        {"data_offsets": [8]}, {"data_offsets": [0, 1, 2]}, {"dtype": []},
    ],
)
def test_damaged_safetensors_are_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    write_safetensors(tmp_path / "rows.safetensors", {"rows": data()[0]}, **changed)
    with pytest.raises(ValueError, match="Expected"):
        open_embeddings(tmp_path / "rows.safetensors", "rows")


def test_files_that_hold_no_matrix_are_refused(tmp_path: Path) -> None:
    (tmp_path / "short.safetensors").write_bytes(b"\xff" * 20)
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    (tmp_path / "rows.csv").write_text("1,2\n")
    write_safetensors(tmp_path / "two.safetensors", {"a": data()[0], "b": data()[0]})
    for name in ("short.safetensors", "cube.npy", "rows.csv", "two.safetensors", "none.npy"):
        with pytest.raises(ValueError, match="Expected"):
            open_embeddings(tmp_path / name)


def test_odd_cells_change_no_other_row_and_raise_nothing() -> None:
    """NaN, infinities, rows of zeros, unknown labels: a public rule for each, no error and no warning."""
    X, y = data()
    labels = y.astype(object)
    X[0], X[1, 0], X[2], labels[3], labels[4] = 0.0, np.nan, np.inf, "unknown", None
    X = X.astype(np.float64)
    X[5] = 1.7e308
    fitted = model().fit(X, labels)
    assert np.isfinite(fitted.w_).all() and np.isfinite(fitted.predict_proba(X)).all()
    missing = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), D, mask=pa.array(np.arange(600) == 7))
    assert not matrix_of(missing)[7].any() and np.isfinite(model().fit(missing, labels).w_).all()
    scale = np.random.default_rng(1).uniform(0.1, 10.0, (600, 1))
    assert np.allclose(model().fit(X * 0.5, labels).w_, fitted.w_, atol=1e-6)  # only directions count
    near = np.clip(X, -1e6, 1e6)
    assert np.allclose(fitted.predict_proba(near * scale), fitted.predict_proba(near), atol=1e-9)


def test_persons() -> None:
    X, y = data()
    people = np.arange(600) // 2
    fitted = model(max_rows_per_person=2).fit(X, y, groups=people)
    assert fitted.certificate_.unit == "person" and fitted.certificate_.verify(allow_seeded=True).ok
    alone = model().fit(X, y)
    assert fitted.plan_.stage("moments").settings["noise"] == pytest.approx(2 * alone.plan_.stage("moments").settings["noise"])
    with pytest.raises(ValueError, match="groups= with one id per row"):
        model(groups="person", max_rows_per_person=2).fit(X, y)


def test_nothing_is_protected_twice_or_by_halves() -> None:
    X, y = data()
    for name, value in {
        "bounds": (0, 1), "x_norm": 1.0, "schema": {"columns": {}}, "radius": 2.0, "class_weight": {0: 2.0},
        "fit_intercept": True, "regularization": 1.0, "missing": 0.0, "boolean": [0], "max_weight": 2.0,
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=f"no {name}= for embeddings"):
            model(**{name: value}).fit(X, y)
    with pytest.raises(ValueError, match="no sample_weight="):
        model().fit(X, y, np.ones(600))
    with pytest.raises(UnmetNeeds, match="delta > 0"):
        model(delta=0).fit(X, y)
    with pytest.raises(ValueError, match="'heads'"):
        model(method="gradient").fit(X, y)
    with pytest.raises(ValueError, match="its own estimator"):
        dperm.LogisticRegression(1.0, method="heads", x_norm=1.0, classes=[0, 1, 2]).fit(X, y)
    with pytest.raises(ValueError, match="requires y"):
        model().fit(X)
    for bad in (X[:, 0], np.array([["a", "b"]] * 600), X.reshape(600, 2, 4)):
        with pytest.raises(ValueError, match="matrix of numbers"):
            model().fit(bad, y)
    with pytest.raises(ValueError, match="expecting 8 features"):
        model().fit(X, y).predict(X[:, :5])


def test_an_empty_table_is_a_fit_where_the_number_of_rows_is_protected() -> None:
    fitted = model(relation="add-remove", nominal_n=100).fit(np.empty((0, D)), np.empty(0))
    assert np.isfinite(fitted.w_).all()
    with pytest.raises(ValueError, match="minimum of 1"):
        model().fit(np.empty((0, D)), np.empty(0))


def test_a_large_model_is_saved_in_base64_and_loads_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 400)), rng.integers(0, 100, 200)
    fitted = EmbeddingClassifier(1.0, classes=range(100), steps=2, random_state=0).fit(X, y)
    fitted.save(tmp_path / "model")
    record = json.loads((tmp_path / "model" / "model.json").read_text())
    assert record["w"]["type"] == "float32" and record["w"]["shape"] == [100, 400]
    assert (tmp_path / "model" / "model.json").stat().st_size < 300_000  # 160,000 bytes in base64, and the columns
    found = dperm.load(tmp_path / "model")
    assert np.array_equal(found.w_, fitted.w_) and np.array_equal(found.predict(X), fitted.predict(X))
    assert found.certificate_.verify(allow_seeded=True).ok
    stated = json.loads((tmp_path / "model" / "certificate.json").read_text())
    assert stated["coefficients"]["encoded"]["type"] == "float32"


def test_a_record_that_lists_many_coefficients_still_verifies() -> None:
    """As records were written before numbers were packed; and no altered one does."""
    rng = np.random.default_rng(0)
    fitted = EmbeddingClassifier(1.0, classes=range(100), steps=2, random_state=0).fit(
        rng.normal(size=(200, 400)), rng.integers(0, 100, 200)
    )
    record = json.loads(fitted.certificate_.to_json())
    record["coefficients"]["encoded"] = unpacked(record["coefficients"]["encoded"]).tolist()
    assert dperm.Certificate(record).verify(allow_seeded=True).ok
    record["coefficients"]["encoded"][5] += 1.0
    assert not dperm.Certificate(record).verify(allow_seeded=True).ok


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_packed_numbers_come_back_as_they_were(kind: str) -> None:
    values = np.random.default_rng(0).normal(size=(200, 200)).astype(kind).astype(np.float64)
    stated = json.loads(json.dumps(packed(values)))
    assert stated["type"] == kind and np.array_equal(unpacked(stated), values)
    assert np.array_equal(unpacked(packed(values[:2])), values[:2])
    for changed in (
        {"type": "int8"}, {"shape": [10, 10]}, {"shape": [-1, 5]}, {"shape": [200, 200, 1]}, {"base64": "%%%"}, {"base64": 3},
        {"shape": "x"}, {"more": 1}, {"base64": stated["base64"][:-4]},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="packed numbers"):
            unpacked(stated | changed)


def test_the_exact_sampler_and_a_mechanism_object() -> None:
    X, y = data()
    fitted = model(method=Heads(steps=3, horizon=1.0)).fit(X, y)
    assert fitted.plan_.stage("descent").settings["horizon"] == 1.0 and fitted.plan_.stage("descent").settings["steps"] == 3
    pytest.importorskip("opendp")
    exact = EmbeddingClassifier(8.0, classes=range(K), steps=2, noise="exact").fit(X, y)
    assert exact.certificate_.verify().ok and exact.certificate_.noise == "exact"


@pytest.mark.parametrize("odd", ["x", None, [1.0], 10**400, float("nan")])
def test_a_cell_of_a_list_or_a_table_is_read_alone(odd: Any) -> None:
    """A word among numbers is a 0 of its own row: nothing raises, and nobody else's embedding changes."""
    X = np.arange(12.0).reshape(4, 3)
    listed = X.tolist()
    listed[2][1] = odd
    table = pd.DataFrame({str(j): [row[j] for row in listed] for j in range(3)})
    for stored in (listed_rows(listed, 3), np.array([[*row] for row in listed], dtype=object), table):
        found = np.nan_to_num(matrix_of(stored), nan=0.0, posinf=0.0)
        assert np.array_equal(np.delete(found, 2, axis=0), np.delete(X, 2, axis=0))
    assert np.array_equal(matrix_of(pa.table({str(j): X[:, j] for j in range(3)})), X)
    with pytest.raises(ValueError, match=r"found a list.*Pass numpy.array\(X\)"):
        model().fit(listed, [0, 1, 0, 1])
    fitted = model().fit(X, [0, 1, 0, 1])
    assert np.array_equal(fitted.predict(listed)[[0, 1, 3]], fitted.predict(X)[[0, 1, 3]])


@pytest.mark.parametrize("kind", [pa.bool_(), pa.int64(), pa.float16(), pa.float32()], ids=str)
def test_a_missing_entry_of_an_arrow_list_changes_its_own_row_alone(kind: pa.DataType) -> None:
    cells = np.array([[1, 0], [0, 1], [1, 1]])
    values = [kind.to_pandas_dtype()(cell) for cell in cells.ravel()]
    full = matrix_of(pa.FixedSizeListArray.from_arrays(pa.array(values, type=kind), 2))
    gaps = matrix_of(pa.FixedSizeListArray.from_arrays(pa.array([*values[:3], None, *values[4:]], type=kind), 2))
    assert np.array_equal(full, cells) and np.array_equal(gaps[[0, 2]], cells[[0, 2]])


def test_what_cannot_be_read_is_refused_by_its_type_before_anything_is_booked(tmp_path: Path) -> None:
    """A type is public. Found late, it would be an error of another library after the debit, or a warning about one cell."""
    torch = pytest.importorskip("torch")
    X, y = data()
    ledger = dperm.Ledger.create(tmp_path / "ledger", dataset="rows", epsilon=20.0, delta=1e-5)
    for rows, options, said in (
        (X.astype(np.longdouble), {}, "at most 64 bits"),
        (X.astype(np.longdouble), {"device": "cpu"}, "at most 64 bits"),
        (torch.from_numpy(X).to_sparse(), {}, "dense torch tensor"),
        (X + 0j, {}, "Complex data"),
        (X, {"device": "mps"}, "device=None or 'cuda'"),
        (X, {"delta": 0}, "delta > 0"),
        (X, {"steps": 1}, "whole number ≥ 2"),
        (X, {"steps": True}, "a number for steps"),
        (X, {"groups": np.zeros(3), "max_rows_per_person": 2}, "one entry per row"),
    ):
        with pytest.raises(ValueError, match=said):
            model(ledger=ledger, random_state=None, **options).fit(rows, y)
    for wrong in ({"clip": "x"}, {"clip": True}, {"horizon": 10**400}, {"steps": 2.5}):
        with pytest.raises(ValueError, match="Expected"):
            Heads(**wrong)
    assert len(ledger.entries()) == 1  # its opening, and nothing spent
    eighth = torch.from_numpy(X).to(torch.float8_e4m3fn)
    assert np.array_equal(matrix_of(eighth), eighth.float().numpy())


def test_a_file_without_rows_is_a_matrix_as_any_other(tmp_path: Path) -> None:
    """Where the number of rows is protected, an error would tell that there are none."""
    np.save(tmp_path / "rows.npy", np.empty((0, D), dtype=np.float32))
    write_safetensors(tmp_path / "rows.safetensors", {"rows": np.empty((0, D), dtype=np.float32)})
    arrow = pa.array([], type=pa.list_(pa.float32(), D))
    for rows in (
        open_embeddings(tmp_path / "rows.npy"), open_embeddings(tmp_path / "rows.safetensors"), arrow, pa.chunked_array([arrow]),
        pa.chunked_array([], type=arrow.type),
    ):  # fmt: skip
        fitted = model(relation="add-remove", nominal_n=100).fit(rows, [])
        assert np.isfinite(fitted.w_).all()


def test_a_slice_of_an_arrow_column_is_its_own_rows() -> None:
    X = np.arange(60.0).reshape(10, 6)
    gone = np.arange(10) % 5 == 0
    column = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), 6, mask=pa.array(gone))
    expected = np.where(gone[:, None], 0.0, X)
    assert np.array_equal(matrix_of(column.slice(3, 5)), expected[3:8])
    assert np.array_equal(matrix_of(pa.chunked_array([column.slice(3, 5), column.slice(0, 2)])), expected[[3, 4, 5, 6, 7, 0, 1]])
