"""CSV files in which a quote takes in other lines: they would be one cell, and must not disappear without a word."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from dperm.rows import ArrowRows
from dperm.tables.tables import read_table

SCHEMA = {
    "columns": {"x": {"type": "numeric", "low": 0, "high": 9}},
    "target": {"column": "c", "type": "classes", "classes": ["a", "b"]},
}
READERS = {"stream": lambda file: ArrowRows(file, SCHEMA).n, "table": lambda file: read_table(file).num_rows}
OPENED = ['"oops\n', '"oops\r\n', '"""\n', '"a ""b""\n', '"\n']
ENDS = ['5,""\n', '5,""', "5,x\n", "5,x", '5,""""\n', '5,x""\r\n', '5,""\n\n\n', "5,\n", '5,"" \n']
CLOSED = ["x", 'x"', '"\n"""', '"a\nb"', '"a\nb"""', '"a\r\nb"', '"a\nb" ', '"a"c', '"\n"', '"a\n""b"" c"', '""', '""""']


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("opened", OPENED)
def test_a_quote_that_never_closes_is_refused_whatever_stands_at_the_end(
    opened: str, end: str, read: Callable[[Path], int], tmp_path: Path
) -> None:
    """An escaped quote at the end of the open cell looked like the quote that closes it."""
    file = tmp_path / "people.csv"
    file.write_bytes(("x,c\n1,a\n3," + opened + "1,b\n" * 50 + end).encode())
    with pytest.raises(ValueError, match=r"broken file.*a quote that never closes"):
        read(file)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("opened", ['3,"oops', '3,"', '"oops,b'])
@pytest.mark.parametrize("later", ['4,"fine"', '4,"a ""b"""', '"4",x', '4,"two' + "\n" + 'lines"'])
def test_a_quote_that_closes_where_a_later_cell_opens_is_refused(
    later: str, opened: str, end: str, read: Callable[[Path], int], tmp_path: Path
) -> None:
    """Two dozen rows between the two quotes were one cell, in the last column and in another."""
    file = tmp_path / "people.csv"
    lines = ["x,c", "1,a", opened, *["1,b"] * 24, later, "5,a"]
    file.write_bytes(end.join([*lines, ""]).encode())
    with pytest.raises(ValueError, match=r"broken file|does not read"):  # or Arrow finds too many cells, or too few
        read(file)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("last", CLOSED)
def test_a_last_cell_that_is_closed_is_read(last: str, read: Callable[[Path], int], tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    for end in ("", "\n", "\r\n", "\n\n\n"):
        file.write_bytes(f"x,c\n1,a\n2,{last}{end}".encode())
        assert read(file) == 2


def test_what_a_writer_quotes_is_read_back(tmp_path: Path) -> None:
    """Every last cell of up to four of these characters, as Python writes it."""
    file, marks = tmp_path / "people.csv", '"\n,x'
    for number in range(4**4):
        cell = "".join(marks[number // 4**place % 4] for place in range(4))
        written = io.StringIO()
        csv.writer(written, quoting=csv.QUOTE_ALL).writerows([["x", "c"], ["1", "a"], ["2", cell]])
        for text in (written.getvalue(), written.getvalue().rstrip("\r\n")):
            file.write_bytes(text.encode())
            assert read_table(file).column("c").to_pylist() == ["a", cell]


def test_the_last_column_of_every_file_is_looked_at(tmp_path: Path) -> None:
    """A file may have columns that the first one lacks, and a quote may open there."""
    (tmp_path / "1.csv").write_text("x,c\n1,a\n")
    (tmp_path / "2.csv").write_text("x,c,note\n1,a,z\n2,b,z\n")
    assert ArrowRows(tmp_path, SCHEMA).n == 3
    (tmp_path / "2.csv").write_text('x,c,note\n1,a,"z\n2,b,z\n')
    with pytest.raises(ValueError, match="broken file"):
        assert ArrowRows(tmp_path, SCHEMA).n
