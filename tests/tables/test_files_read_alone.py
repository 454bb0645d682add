"""Types of files and names of folders: no cell, and no name of another folder, decides how one is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dperm
from dperm.rows import ArrowRows
from dperm.tables.tables import read_table, storage_types

SCHEMA = {
    "columns": {"x": {"type": "numeric", "low": 0, "high": 9}},
    "target": {"column": "c", "type": "classes", "classes": ["a", "b"]},
}
READERS = {"stream": lambda path: ArrowRows(path, SCHEMA).n, "table": lambda path: read_table(path, ["x", "c"]).num_rows}


def folder_of(place: Path, **columns: pa.Array) -> Path:
    """A folder with one Parquet file for each column of numbers."""
    place.mkdir(exist_ok=True)
    for name, values in columns.items():
        pq.write_table(pa.table({"x": values, "c": pa.array(["a"] * len(values), pa.string())}), place / f"{name}.parquet")
    return place


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("cell", [2.0, 2.5, float("nan"), "7", "secret-name"])
def test_a_cell_does_not_decide_whether_files_of_two_types_are_read(
    cell: object, read: Callable[[Path], int], tmp_path: Path
) -> None:
    """Arrow converts the second file to the type of the first, and failed at the first cell that did not convert."""
    folder = folder_of(tmp_path / "people", first=pa.array([1, 2]), second=pa.array([cell]))
    with pytest.raises(ValueError, match=r"Expected column 'x' with type int64 as in first\.parquet") as found:
        read(folder)
    assert "secret" not in str(found.value)


def test_the_name_of_a_folder_does_not_decide_about_those_of_others(tmp_path: Path) -> None:
    """007 and 7 were one person, unless a third folder had a name that is no number."""
    for name in ("id=007", "id=7", "id=x"):
        folder_of(tmp_path / name, part=pa.array([1.0]))
        table = read_table(tmp_path)
        assert table.column("id").to_pylist() == ["007", "7", "x"][: table.num_rows]
        assert table.schema.names == ["id", "x", "c"]


def test_a_folder_is_read_as_its_files_are(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "people", first=pa.array([1.5, None]), second=pa.array([], pa.float64()), third=pa.array([3.0]))
    assert read_table(folder).equals(pa.table({"x": pa.array([1.5, None, 3.0]), "c": ["a"] * 3}))
    assert read_table(folder, ["c", "other"]).schema.names == ["c"]
    empty = folder_of(tmp_path / "nobody", first=pa.array([], pa.float64()))
    assert read_table(empty, ["x"]).equals(pa.table({"x": pa.array([], pa.float64())}))
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "1.csv").write_text("x,c\n1,a\n")
    with pytest.raises(ValueError, match="a folder with other files than Parquet"):
        read_table(tmp_path / "lines")


def test_a_fit_of_a_folder_has_the_bits_of_its_table(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).uniform(0, 9, 300)
    folder = folder_of(tmp_path / "people", first=pa.array(numbers[:100]), second=pa.array(numbers[100:]))
    whole = pa.table({"x": numbers, "c": ["a"] * 300})
    model = dperm.LogisticRegression(1.0, schema=SCHEMA, random_state=0, method="gradient")
    found = [model.fit(rows).w_ for rows in (read_table(folder), ArrowRows(folder, SCHEMA), whole)]
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


@pytest.mark.parametrize("text", ['{"x": 1, "c": "secret"}\n{"x": 2, "c": "secret"}\n', "secret\t1\nsecret\t2\n", "secret;1\n"])
def test_a_file_that_is_no_csv_is_refused_without_its_first_record(text: str, tmp_path: Path) -> None:
    """Of lines of JSON, and in `ArrowRows` of other separators, the first record was quoted as names of columns."""
    file = tmp_path / "people.jsonl"
    file.write_text(text)
    for read in (*READERS.values(), storage_types):
        with pytest.raises(ValueError, match=r"Save (it|the file) as CSV") as found:
            read(file)
        assert "secret" not in str(found.value)


def test_names_in_brackets_are_names(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("[x],[c]\n1,a\n")
    assert list(storage_types(file)) == ["[x]", "[c]"] and read_table(file).num_rows == 1
