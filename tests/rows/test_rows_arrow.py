"""Rows on disk: the bits of the rows in memory, within a memory budget, and clear errors for broken files before any spend."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import dperm
from dperm.mechanisms import Gradient, Target
from dperm.problem import DataBounds, Interval, LogisticLoss, Problem, Ridge
from dperm.rows import BLOCK_ROWS, ArrowRows, MemoryRows, sum_step
from dperm.tables.labels import bounded_labels, classify
from dperm.tables.schema import Schema
from dperm.tables.tables import cells, read_table
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm

SCHEMA = {
    "columns": {
        "age": {"type": "numeric", "low": 0, "high": 100, "missing": 40},
        "hours": {"type": "numeric", "low": 0, "high": 80},
        "grade": {"type": "ordinal", "levels": ["low", "middle", "high"]},
        "region": {"type": "categorical", "levels": ["north", "south", "east"], "missing": "its own level"},
        "member": {"type": "boolean"},
        "visits": {"type": "sparse", "high": 9},
        "note": {"type": "ignored"},
    },
    "target": {"column": "income", "type": "classes", "classes": ["small", "large"]},
}
N = 2 * BLOCK_ROWS + 1234


def table(n=N, seed=5):
    generator = np.random.default_rng(seed)

    def words(options, share_null):
        values = generator.choice(np.array([*options, "?"], dtype=object), n)
        return [None if generator.random() < share_null else str(value) for value in values]

    return pa.table(
        {
            "note": pa.array([f"n{i}" for i in range(n)]),
            "age": pa.array(generator.integers(-10, 120, n), mask=generator.random(n) < 0.05),
            "hours": pa.array(generator.uniform(-5, 90, n), mask=generator.random(n) < 0.05),
            "grade": words(["low", "middle", "high"], 0.1),
            "region": words(["north", "south", "east"], 0.1),
            "member": pa.array(generator.random(n) < 0.4, mask=generator.random(n) < 0.1),
            "visits": pa.array(generator.poisson(1.0, n).astype(float)),
            "income": words(["small", "large"], 0.02),
        }
    )


def in_memory(source, schema=None):
    """The rows as the estimators read a whole table."""
    schema = schema or Schema.from_dict(SCHEMA)
    labels, weight, _ = classify(schema.labels(cells(source, "income")), np.asarray(schema.target.classes))
    return MemoryRows(schema.encoded(source), labels, weight)


def term_for(d, clip=0.4):
    return GradientTerm(LogisticLoss(), np.linspace(-1, 1, d + 1), clip, Features(1.0))


def total(rows, n=None):
    term = term_for(rows.d)
    bounds = DataBounds(Schema.from_dict(SCHEMA).encoding().norm, Interval(-1, 1), 1.0)
    return rows.bounded(bounds).sum(term, sum_step(term.row_bound, n or rows.n))


@pytest.fixture(scope="module")
def source():
    return table()


def write_partitions(source, folder):
    """Uneven files whose ends fall inside blocks, and row groups that fall inside files."""
    cuts = [0, 5_000, BLOCK_ROWS + 1, BLOCK_ROWS + 2, source.num_rows]
    for part, (first, last) in enumerate(itertools.pairwise(cuts)):
        place = folder / f"part={part}"
        place.mkdir(parents=True)
        pq.write_table(source.slice(first, last - first), place / "data.parquet", row_group_size=3_000)
    (folder / "_metadata").write_bytes(b"no data")
    return folder


def write(source, kind, folder):
    if kind == "folder":
        return write_partitions(source, folder / "parts")
    path = folder / f"table.{kind}"
    if kind == "parquet":
        pq.write_table(source, path, row_group_size=7_000)
    elif kind == "csv":
        pyarrow.csv.write_csv(source, path)
    else:
        pyarrow.feather.write_feather(source, path, chunksize=3_000)
    return path


@pytest.mark.parametrize("kind", ["parquet", "folder", "csv", "arrow"])
def test_sums_are_the_bits_of_the_rows_in_memory(source, kind, tmp_path):
    path = write(source, kind, tmp_path)
    read = read_table(path) if kind == "csv" else source  # CSV cells are text; everything else keeps its types
    expected = total(in_memory(read))
    rows = ArrowRows(path, SCHEMA)
    assert (rows.n, rows.d) == (N, 9)
    assert total(rows).tobytes() == expected.tobytes()
    cached = ArrowRows(path, SCHEMA, cache=tmp_path / "cache")
    assert total(cached).tobytes() == expected.tobytes()
    again = ArrowRows(path, SCHEMA, cache=tmp_path / "cache")
    assert total(again).tobytes() == expected.tobytes()


def test_text_and_typed_columns_agree(source, tmp_path):
    """CSV text, dictionaries and typed cells go through the same public rules."""
    coded = source.set_column(source.column_names.index("region"), "region", source["region"].dictionary_encode())
    pq.write_table(coded, tmp_path / "coded.parquet")
    assert total(ArrowRows(tmp_path / "coded.parquet", SCHEMA)).tobytes() == total(in_memory(source)).tobytes()


def test_wide_one_hot_tables_stay_sparse(tmp_path):
    """A schema whose rows are mostly zeros gives CSR blocks, in memory, on disk and in the cache."""
    generator = np.random.default_rng(1)
    levels = [f"place {i}" for i in range(40)]
    columns = {"age": SCHEMA["columns"]["age"], "town": {"type": "categorical", "levels": levels}}
    schema = Schema.from_dict({**SCHEMA, "columns": columns})
    town = generator.choice(np.array([*levels, "elsewhere", None], dtype=object), N)
    wide = table().append_column("town", pa.array(town))
    pq.write_table(wide, tmp_path / "wide.parquet")
    memory = in_memory(wide, schema)
    assert memory.X.format == "csr"
    expected = total(memory)
    for options in ({}, {"cache": tmp_path / "cache"}):
        assert total(ArrowRows(tmp_path / "wide.parquet", schema, **options)).tobytes() == expected.tobytes()


def test_numeric_targets_and_partition_columns(tmp_path):
    """A column that only the folder names carry is a column like any other."""
    generator = np.random.default_rng(0)
    schema = {
        "columns": {"x": {"type": "numeric", "low": -1, "high": 1}, "year": {"type": "categorical", "levels": [2020, 2021]}},
        "target": {"column": "pay", "type": "numeric", "low": 0, "high": 10},
    }
    x, pay = generator.uniform(-1, 1, 3000), generator.uniform(-2, 12, 3000)
    pay[::50] = np.nan
    for year, part in ((2020, slice(0, 1000)), (2021, slice(1000, 3000))):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"x": x[part], "pay": pay[part]}), tmp_path / f"year={year}" / "a.parquet")
    rows = ArrowRows(tmp_path, schema)
    year = np.repeat([[1.0, 0.0], [0.0, 1.0]], [1000, 2000], axis=0)
    labels, weight, _ = bounded_labels(pay, (0, 10))
    expected = MemoryRows(rows.encoding.transform(np.column_stack([x, year])), labels, weight)
    assert total(rows).tobytes() == total(expected).tobytes()


@pytest.mark.parametrize("kind", ["folder", "csv"])
def test_estimators_fit_rows_on_disk_as_they_fit_the_table(source, kind, tmp_path):
    path = write(source, kind, tmp_path)
    schema = Schema.from_dict(SCHEMA)
    read = read_table(path) if kind == "csv" else source
    method = Gradient(steps=5)
    whole = dperm.LogisticRegression(epsilon=2.0, schema=schema, method=method, random_state=3).fit(read)
    streamed = dperm.LogisticRegression(epsilon=2.0, schema=schema, method=method, random_state=3).fit(ArrowRows(path, schema))
    np.testing.assert_array_equal(whole.coef_, streamed.coef_)
    assert streamed.certificate_.verify(allow_seeded=True)
    assert streamed.predict(read.slice(0, 5)).tolist() == whole.predict(read.slice(0, 5)).tolist()


def test_progress_counts_rows(source, tmp_path):
    seen = []
    rows = ArrowRows(write(source, "parquet", tmp_path), SCHEMA, progress=lambda done, n, seconds: seen.append((done, n)))
    total(rows)
    assert seen == [(BLOCK_ROWS, N), (2 * BLOCK_ROWS, N), (N, N)]


def test_memory_budget_is_stated_and_checked(source, tmp_path):
    path = write(source, "parquet", tmp_path)
    with pytest.raises(ValueError, match="memory of at least"):
        ArrowRows(path, SCHEMA, memory="1MB")
    with pytest.raises(ValueError, match="like"):
        ArrowRows(path, SCHEMA, memory="much")
    small, large = ArrowRows(path, SCHEMA, memory="20MB"), ArrowRows(path, SCHEMA, memory="1GB")
    assert small.files.read_ahead < large.files.read_ahead
    assert total(small).tobytes() == total(large).tobytes()


MEASURE = """
import resource, sys
import numpy as np
from dperm.rows import ArrowRows, sum_step
from dperm.terms.affine import Features
from dperm.problem import DataBounds, Interval, LogisticLoss
from dperm.terms.gradient import GradientTerm
import pyarrow.dataset
def peak(): return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))) / 1e3
schema = {"columns": {f"x{j}": {"type": "numeric", "low": -1, "high": 1} for j in range(32)},
          "target": {"column": "y", "type": "numeric", "low": -1, "high": 1}}
rows = ArrowRows(sys.argv[1], schema, memory="64MB", cache=sys.argv[2] or None)
before = peak()
term = GradientTerm(LogisticLoss(), np.ones(32), 1.0, Features())
rows.bounded(DataBounds(9.0, Interval(-1, 1))).sum(term, 1e-6)
print(before, peak())
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads peak memory from /proc")
@pytest.mark.parametrize("cached", [False, True])
def test_a_pass_holds_its_budget_and_not_the_file(tmp_path, cached):
    """200 MB of rows pass through 64 MB: the peak grows by no more than budget and buffers of the allocator."""
    generator = np.random.default_rng(0)
    part = pa.table({f"x{j}": generator.uniform(-1, 1, 1 << 17) for j in range(32)} | {"y": np.ones(1 << 17)})
    with pq.ParquetWriter(tmp_path / "wide.parquet", part.schema, compression="none", use_dictionary=False) as writer:
        for _ in range(6):
            writer.write_table(part, row_group_size=1 << 17)
    arguments = [str(tmp_path / "wide.parquet"), str(tmp_path / "cache") if cached else ""]
    done = subprocess.run([sys.executable, "-c", MEASURE, *arguments], capture_output=True, text=True, check=True)
    before, after = map(float, done.stdout.split())
    assert after - before < 130
    assert after < 450


# -- broken files: an error with advice, before anything is booked ----------------------------------------------------------


def fit_and_count(path, **options):
    """Fit with a spy on the ledger; every broken file must fail before the first entry."""
    booked = []
    rows = ArrowRows(path, SCHEMA, **options)
    problem = Problem(LogisticLoss(), Ridge(1.0), data=DataBounds(rows.encoding.norm, Interval(-1, 1), 1.0))
    target = Target.declare(epsilon=1.0, n=rows.n)
    try:
        dperm.fit(problem, rows, target, Gradient(steps=2), random_state=0, on_book=booked.append)
    finally:
        fit_and_count.booked = booked


def fails(path, match, **options):
    fit_and_count.booked = []
    with pytest.raises(ValueError, match=match) as caught:
        fit_and_count(path, **options)
    assert fit_and_count.booked == []
    return str(caught.value)


def test_parquet_that_ends_early(source, tmp_path):
    path = write(source, "parquet", tmp_path)
    path.write_bytes(path.read_bytes()[:-2000])
    assert path.name in fails(path, "broken file")
    folder = write_partitions(source, tmp_path / "parts")
    last = folder / "part=3" / "data.parquet"
    last.write_bytes(last.read_bytes()[:5000])
    assert last.name in fails(folder, "broken file")


def test_ipc_that_ends_early(source, tmp_path):
    path = write(source, "arrow", tmp_path)
    path.write_bytes(path.read_bytes()[:-500])
    assert path.name in fails(path, "broken file")


def test_parquet_with_damaged_pages(source, tmp_path):
    """The footer is whole, so the damage shows in the first pass: nothing is released, and no noise was drawn."""
    path = write(source, "parquet", tmp_path)
    content = bytearray(path.read_bytes())
    content[2000:60000] = os.urandom(58000)
    path.write_bytes(content)
    fails(path, "broken file")
    fails(path, "broken file", cache=tmp_path / "cache")
    assert not list(tmp_path.glob("cache*"))


def test_partition_with_another_schema(source, tmp_path):
    folder = write_partitions(source, tmp_path / "parts")
    place = source.column_names.index("age")
    other = source.slice(0, 10).set_column(place, "age", source["age"].slice(0, 10).cast(pa.string()))
    pq.write_table(other, folder / "part=3" / "more.parquet")
    message = fails(folder, "one schema")
    assert "more.parquet" in message and "'age'" in message
    pq.write_table(source.slice(0, 10).drop(["age"]), folder / "part=3" / "more.parquet")
    fails(folder, "declared columns 'age' in more.parquet")


def test_column_stored_as_null(source, tmp_path):
    """The type is public and an error; a typed column without values is not, since one person's cell would change the answer."""
    place = source.column_names.index("hours")
    empty = source.set_column(place, "hours", pa.nulls(N))
    pq.write_table(empty, tmp_path / "null.parquet")
    fails(tmp_path / "null.parquet", "type null")
    typed = source.set_column(place, "hours", pa.nulls(N, pa.float64()))
    pq.write_table(typed, tmp_path / "typed.parquet")
    assert total(ArrowRows(tmp_path / "typed.parquet", SCHEMA)).tobytes() == total(in_memory(typed)).tobytes()


def test_ragged_csv_is_named_without_quoting_the_record(source, tmp_path):
    path = write(source, "csv", tmp_path)
    lines = path.read_text().splitlines()
    lines[12_000] = "secret-name,1,2"
    path.write_text("\n".join(lines) + "\n")
    assert "secret-name" not in fails(path, "broken file")


@pytest.mark.parametrize("read", [lambda file: ArrowRows(file, SCHEMA), read_table], ids=["stream", "table"])
def test_not_even_the_traceback_of_a_ragged_line_holds_the_record_or_its_number(read, tmp_path):
    """Arrow's own error quotes the line and counts the rows before it; it is no cause of ours."""
    file = tmp_path / "people.csv"
    header = ",".join([*SCHEMA["columns"], SCHEMA["target"]["column"]])
    good = ",".join(["1"] * len(header.split(",")))
    file.write_text("\n".join([header, *[good] * 411, f"{good},HIV positive", good]))
    with pytest.raises(ValueError, match="CSV parse error") as found:
        read(file)
    told = "".join(traceback.format_exception(found.value))
    assert "HIV" not in told and "412" not in told and "413" not in told


@pytest.mark.parametrize("read", [lambda file: ArrowRows(file, SCHEMA).n, lambda file: read_table(file).num_rows])
def test_a_quote_in_one_line_takes_no_other_line_with_it(read, tmp_path):
    """Arrow's threads left out what stood behind a quote that never closes, to the end of a piece of 1 MB, and said nothing."""
    file = tmp_path / "people.csv"
    columns = [*SCHEMA["columns"], SCHEMA["target"]["column"]]
    header, good = ",".join(["remark", *columns, "end"]), ",".join(["1"] * (len(columns) + 1))
    for length in (30_000, 60_000):
        for place in (7, 20_000):
            lines = [f"{number:040d},{good}" for number in range(length)]
            for opened in (f'"never closed,{good}', f'1,{good[:-1]}"never closed'):  # at the end of a line the rest is one cell
                lines[place] = opened
                file.write_text("\n".join([header, *lines]) + "\n")
                with pytest.raises(ValueError, match=r"broken file|a line that is too long|does not read"):
                    read(file)
            lines[place] = lines[-1] = f'"two\nlines",{good[:-1]}"two\nlines"'
            file.write_text("\n".join([header, *lines]) + "\n")
            assert read(file) == length
    for before in range(0, 40, 4):  # a cell with a line break is one wherever the file is cut, which is at 1 MB
        filler = "x" * (2**20 - len(header) - len(good) - 3 - before)
        file.write_text("\n".join([header, f"{filler},{good}", f'"two\nlines, or\n\nthree",{good}', f"end,{good}"]) + "\n")
        assert read(file) == 3


def test_folder_without_files_or_of_two_formats(source, tmp_path):
    fails(tmp_path / "nowhere", "found none")
    (tmp_path / "empty").mkdir()
    fails(tmp_path / "empty", "found none")
    folder = write_partitions(source, tmp_path / "parts")
    pyarrow.csv.write_csv(source.slice(0, 3), folder / "stray.csv")
    fails(folder, "one format")
    pq.write_table(source.slice(0, 0), tmp_path / "none.parquet")
    with pytest.raises(ValueError, match="at least one row"):
        dperm.LogisticRegression(1.0).fit(ArrowRows(tmp_path / "none.parquet", SCHEMA))


def test_full_disk_while_the_cache_is_written(source, tmp_path, monkeypatch):
    """The entries lead to /dev/full, where every write fails as on a full disk."""
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    path = write(source, "parquet", tmp_path)
    make = Path.mkdir

    def onto_full_disk(self, *arguments, **options):
        make(self, *arguments, **options)
        if ".draft" in self.name:
            (self / "entries").symlink_to("/dev/full")

    monkeypatch.setattr(Path, "mkdir", onto_full_disk)
    message = fails(path, "room for", cache=tmp_path / "cache")
    assert "No space left" in message
    assert not list(tmp_path.glob("cache*"))


def test_files_that_change_during_a_fit(source, tmp_path):
    folder = write_partitions(source, tmp_path / "parts")
    rows = ArrowRows(folder, SCHEMA)
    pq.write_table(source.slice(0, 10), folder / "part=3" / "data.parquet")
    with pytest.raises(ValueError, match=r"broken file|during a fit"):
        total(rows)
    pq.write_table(pa.concat_tables([source, source]), folder / "part=3" / "data.parquet")
    with pytest.raises(ValueError, match=r"broken file|during a fit"):
        total(rows)


@pytest.mark.parametrize("kind", ["parquet", "csv", "arrow"])
def test_files_written_during_a_fit_release_nothing(source, kind, tmp_path):
    """Other cells, and as many rows as before: somebody writes while the fourth of ten passes runs."""
    path = write(source, kind, tmp_path)
    (tmp_path / "other").mkdir()
    other = write(source.take(np.arange(source.num_rows)[::-1]), kind, tmp_path / "other")
    looks = []

    def write_in_between(done, rows, seconds):
        looks.append(done)
        if len(looks) == 8:
            os.replace(other, path)

    rows = ArrowRows(path, SCHEMA, progress=write_in_between)
    with pytest.raises(ValueError, match="written meanwhile"):
        dperm.LogisticRegression(epsilon=1.0, method=Gradient(steps=10)).fit(rows)
    cached = ArrowRows(path, SCHEMA, cache=tmp_path / "cache")
    os.utime(path, ns=(1, 1))
    total(cached)  # passes do not read the file


def test_cache_is_private_and_belongs_to_its_files(source, tmp_path):
    path = write(source, "parquet", tmp_path)
    cache = tmp_path / "cache"
    ArrowRows(path, SCHEMA, cache=cache)
    assert cache.stat().st_mode & 0o077 == 0
    written = (cache / "entries").stat().st_mtime_ns
    ArrowRows(path, SCHEMA, cache=cache)
    assert (cache / "entries").stat().st_mtime_ns == written
    other = table(seed=6)
    pq.write_table(other, path)
    assert total(ArrowRows(path, SCHEMA, cache=cache)).tobytes() == total(in_memory(other)).tobytes()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("keep")
    with pytest.raises(ValueError, match="other files"):
        ArrowRows(path, SCHEMA, cache=tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "keep"
    data = (cache / "entries").read_bytes()
    (cache / "entries").write_bytes(data[:-100])
    with pytest.raises(ValueError, match="ends early"):
        total(ArrowRows(path, SCHEMA, cache=cache))


def test_command_streams_files_that_are_larger_than_its_limit(source, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from dperm.cli import app

    monkeypatch.setattr("dperm.commands.fitting.STREAM_BYTES", 1000)
    path = write(source, "folder", tmp_path)
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    arguments = ["fit", str(path), "--schema", str(tmp_path / "schema.json"), "--epsilon", "1", "--random-state", "1"]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out"), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["epsilon"] <= 1.0
