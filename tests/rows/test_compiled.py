"""Compiled products: the bits of BLAS on widened rows, used where they are said to be, and never needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

import dperm
from compiled_products import kernels, multiplying_by, watched
from dperm.problem import DataBounds, Interval, LogisticLoss, MultinomialLoss
from dperm.rows import BLOCK_ROWS, ArrowRows, MemoryRows, compiled
from dperm.rows.base import Block, block_counts
from dperm.rows.exact import Pair, margins, product, widened
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm
from dperm.terms.gridded import BITS, DenseGrid, gridded, left_factor
from places import ROOT

BOUNDS = DataBounds(3.0, Interval(-1.0, 1.0))
TOP = 2.0**BITS


def as_integers(values: np.ndarray) -> np.ndarray:
    """Python's own integers, which have no largest one."""
    return np.array([int(value) for value in np.ravel(values)], dtype=object).reshape(values.shape)


def whole_numbers(generator: np.random.Generator, shape: tuple[int, ...], most: float, kind: str) -> np.ndarray:
    """Whole numbers up to `most`: of all sizes, or its ends alone, the worst that a grid allows."""
    if kind == "ends":
        return np.where(generator.random(shape) < 0.5, -most, most)
    if kind == "one end":
        return np.full(shape, most)
    sizes = np.rint(np.exp2(generator.uniform(0, np.log2(most), shape)))
    return np.where(generator.random(shape) < 0.3, 0.0, np.where(generator.random(shape) < 0.5, -sizes, sizes))


KINDS = st.sampled_from(["all sizes", "ends", "one end"])


@settings(max_examples=150, deadline=None)
@given(
    rows=st.sampled_from([0, 1, 2, 3, 5, 7, 64, 257, BLOCK_ROWS - 1, BLOCK_ROWS]),
    columns=st.sampled_from([0, 1, 2, 3, 7, 8, 31, 100]),
    right=KINDS,
    left=KINDS,
    seed=st.integers(0, 2**32 - 1),
)
def test_products_that_fill_53_bits_are_exact(rows: int, columns: int, right: str, left: str, seed: int) -> None:
    """Against integers without a largest one, and against BLAS, with the sign of zero."""
    generator, loops = np.random.default_rng(seed), kernels()
    b = whole_numbers(generator, (rows, columns), TOP, right).astype(np.float32)
    a = whole_numbers(generator, (rows,), 2.0 ** (40 - BITS), left)  # |a·b| ≤ 2⁴⁰ for each of 8,192 rows
    w = whole_numbers(generator, (columns,), float(2**53 // (2**BITS * max(columns, 1))), left)  # and Σ|b·w| ≤ 2⁵³
    found = loops.pulled(a, b), loops.margins(b, w)
    wide = b.astype(np.float64)
    assert found[0].tobytes() == (np.dot(a, wide) + 0.0).tobytes()
    assert found[1].tobytes() == (np.dot(wide, w) + 0.0).tobytes()
    some = slice(None, None, max(1, columns // 3))  # integers of Python are slow
    assert (as_integers(found[0][some]) == as_integers(a) @ as_integers(wide[:, some])).all() or not rows
    assert (as_integers(found[1][:50]) == as_integers(wide[:50]) @ as_integers(w)).all() or not columns


def test_the_largest_sum_is_all_of_two_to_the_53() -> None:
    """One unit less than everything is another number: nothing has been rounded on the way."""
    a, b = np.full(BLOCK_ROWS, 2.0 ** (40 - BITS)), np.full((BLOCK_ROWS, 3), TOP, dtype=np.float32)
    assert kernels().pulled(a, b).tolist() == [2.0**53] * 3
    a[-1] -= 1.0
    assert kernels().pulled(a, b).tolist() == [2.0**53 - TOP] * 3
    b[-1], a[-1] = 1.0, 2.0 ** (40 - BITS) - 1
    assert kernels().pulled(a, b).tolist() == [2.0**53 - 2.0**40 + 2.0 ** (40 - BITS) - 1] * 3


def test_nothing_is_assumed_about_the_numbers() -> None:
    """Flags that rule out NaN or infinity would let a compiler answer anything: sums are regrouped, and that is all."""
    assert {"reassoc", "contract"} == compiled.ANY_ORDER
    rows = np.array([[np.nan, 1.0], [np.inf, 1.0], [-np.inf, 0.0], [-0.0, 0.0]], dtype=np.float32)
    found = kernels().margins(rows, np.array([1.0, 2.0]))
    assert np.isnan(found[0]) and found[1:].tolist() == [np.inf, -np.inf, 0.0] and not np.signbit(found[3])
    assert np.isnan(kernels().pulled(np.ones(2), rows[:2])[0]) and kernels().pulled(np.ones(2), rows[1:3])[1] == 1.0


def test_arrays_that_do_not_fit_are_refused_and_strided_ones_copied() -> None:
    loops, rows, left = kernels(), np.ones((6, 4), dtype=np.float32), np.arange(6.0)
    for wrong in (rows[:, ::2], np.asfortranarray(rows), rows.astype(np.float64), rows.astype(">f4")):
        with pytest.raises(TypeError):
            loops.pulled(left, wrong)
        with pytest.raises(TypeError):
            loops.margins(wrong, np.ones(wrong.shape[1]))
    with pytest.raises(TypeError):
        loops.pulled(np.arange(12.0)[::2], rows)
    for short in (left[:5], np.arange(7.0), np.arange(6.0)[:, None]):  # the loops read as far as they are told
        with pytest.raises(ValueError):
            loops.pulled(short, rows)
        with pytest.raises(ValueError):
            loops.margins(np.ascontiguousarray(rows.T), short)
    strided = np.arange(48, dtype=np.float32).reshape(6, 8)[:, ::2]
    with multiplying_by(loops):
        assert product(Pair(np.arange(12.0)[::2], strided)).tolist() == (np.arange(12.0)[::2] @ strided).tolist()
        assert margins(strided, np.arange(8.0)[::2]).tolist() == (strided @ np.arange(8.0)[::2]).tolist()


def table(n: int, d: int, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(n + d)
    X = (generator.standard_normal((n, d)) * np.exp(generator.uniform(-9, 9, (n, 1)))).astype(dtype)
    return X, np.where(generator.random(n) < 0.5, 1.0, -1.0)


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "d"), [(3 * BLOCK_ROWS + 5, 33), (1, 7), (0, 3), (1001, 1)])
def test_sums_have_the_bits_of_those_without(n: int, d: int, dtype: str, threads: int) -> None:
    X, y = table(n, d, dtype)
    X[:3, :1] = np.array([[np.nan], [np.inf], [-np.inf]])[:n]
    found = []
    for features in (Features(), Features(1.0, np.ones(d), np.ones(d) / 3)):
        term = GradientTerm(LogisticLoss(), np.linspace(-2, 3, features.width(d)), 0.7, features)
        for loops in (None, kernels()):
            with multiplying_by(loops), threadpool_limits(threads):
                found.append(MemoryRows(X, y).bounded(BOUNDS).sum(term, 1.0).tobytes())
    assert found[0] == found[1] and found[2] == found[3]


EDGES = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, 1e-320, 5e-324, np.nan, np.inf, -np.inf, 1e308, -1e308, 2.0**52 + 1, -(2.0**53)]


@settings(max_examples=100, deadline=None)
@given(
    values=st.lists(st.one_of(st.floats(), st.sampled_from(EDGES)), min_size=1, max_size=30),
    exponent=st.integers(-900, 1000),
    factor=st.floats(min_value=0, max_value=1e300),
    limit=st.floats(min_value=0.01, max_value=2.0**21),
)
def test_elementwise_loops_have_the_bits_of_numpy(values: list[float], exponent: int, factor: float, limit: float) -> None:
    slopes, size = np.array(values), np.full(len(values), 2.0**exponent)
    limits = np.full(len(values), limit)
    with np.errstate(all="ignore"):
        scaled = slopes * (size * factor)
        whole = np.rint(np.where(np.isnan(scaled), 0.0, scaled))
        cut = np.trunc(np.maximum(np.minimum(whole, limits), -limits))
    assert kernels().in_steps(slopes, size, factor, limits).tobytes() == cut.tobytes()
    known = ~np.isnan(scaled)  # a NaN has no one bit pattern
    assert kernels().scaled(slopes.copy(), size, factor)[known].tobytes() == scaled[known].tobytes()
    with pytest.raises(ValueError):
        kernels().in_steps(slopes, size, factor, limits[1:])
    with pytest.raises(ValueError):
        kernels().scaled(slopes, size[1:], factor)


def test_left_factors_are_those_of_numpy() -> None:
    """Of slopes at every edge, through the clip itself."""
    X, _ = table(len(EDGES), 5)
    grid = DenseGrid.of_rows(X.astype(np.float64))
    count = len(EDGES)
    for slopes in (np.array(EDGES), np.linspace(-3, 3, count), np.array(EDGES * 2)[::2], np.arange(count, dtype=np.float32)):
        found = []
        for loops in (None, kernels()):
            with multiplying_by(loops), np.errstate(all="ignore"):
                found.append(left_factor(slopes, grid, 0.3).tobytes())
        assert found[0] == found[1]


def test_only_finite_whole_numbers_reach_the_loops() -> None:
    """Rows and slopes that are no numbers became 0 before (`dperm.terms.gridded`)."""
    X, y = table(5000, 9)
    X[::5, 3], X[1::7, 4], X[2::9] = np.nan, np.inf, 3e38
    seen = []

    def see(name: str, *arrays: np.ndarray) -> None:
        seen.append(name)
        assert all(np.array_equal(part, np.rint(part)) and np.isfinite(part).all() for part in arrays)

    for w in (np.full(9, np.nan), np.full(9, 1e150), np.linspace(-1, 1, 9)):
        with multiplying_by(watched(see)):
            block = Block(X, np.where(np.arange(5000) % 11, y, np.nan), np.where(np.arange(5000) % 3, 1.0, np.nan), 0)
            block_counts(GradientTerm(LogisticLoss(), w, 0.7, Features()), block, 1.0)
    assert seen == ["margins", "pulled"] * 3


def engines(X: np.ndarray, y: np.ndarray, folder: Path) -> dict[str, Any]:
    da = pytest.importorskip("dask.array", reason="rows on a cluster need dask: pip install dperm[dask]")
    names = [f"x{j}" for j in range(X.shape[1])]
    pq.write_table(pa.table({name: X[:, j] for j, name in enumerate(names)} | {"y": y}), folder / "rows.parquet")
    columns = {name: {"type": "numeric", "low": -1, "high": 1} for name in names}
    declared = {"columns": columns, "target": {"column": "y", "type": "classes", "classes": [-1, 1]}}
    return {
        "memory": MemoryRows(X, y),
        "arrow": ArrowRows(folder / "rows.parquet", declared, dtype="float32"),
        "dask": dperm.rows.DaskRows(da.from_array(X, (4000, X.shape[1])), da.from_array(y, 4000)),
    }


@pytest.mark.parametrize("name", ["memory", "arrow", "dask"])
def test_every_engine_multiplies_by_them_once_they_are_worth_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a sum that loads them in the middle of its blocks: both kinds of products, and the same bits."""
    n, d = 2 * BLOCK_ROWS + 10, 6
    X, y = table(n, d)
    X = np.clip(X, -1, 1)
    rows = engines(X, y, tmp_path)[name].bounded(BOUNDS)
    term = GradientTerm(LogisticLoss(), np.linspace(-1, 1, d), 0.5, Features())
    with multiplying_by(None):
        expected = rows.sum(term, 1.0).tobytes()
    seen: list[int] = []
    loops = watched(lambda name, *arrays: seen.append(max(len(array) for array in arrays)))
    monkeypatch.setattr(compiled, "LOADER", None)  # nothing but the loader that follows may be asked
    loader = compiled._Loader()
    monkeypatch.setattr("dperm.rows.exact.LOADER", loader)
    monkeypatch.setattr(compiled, "load", lambda: loops)
    monkeypatch.setattr(compiled, "PAYS", 2 * BLOCK_ROWS * d)  # two products come before
    assert rows.sum(term, 1.0).tobytes() == expected and loader.kernels is loops
    assert 0 < sum(seen) < 2 * n
    seen.clear()
    assert rows.sum(term, 1.0).tobytes() == expected
    assert sum(seen) == 2 * n  # margins and product of every row, once


@pytest.mark.parametrize("wrong", ["margins", "pulled"])
def test_a_loop_that_is_wrong_by_one_unit_is_seen(wrong: str) -> None:
    """The comparisons above would fail: one unit of one product is another sum."""

    def spoil(name: str, *arrays: np.ndarray) -> None:
        if name == wrong:
            arrays[-1][-1] += 1.0

    term, (X, y) = GradientTerm(LogisticLoss(), np.array([2.0**-16, 0.0]), 0.5, Features()), table(40, 2)
    found = []
    for loops in (kernels(), watched(spoil)):
        with multiplying_by(loops):
            grid = gridded(Block(X, y, None, 0), Features())
            found.append((block_counts(term, Block(X, y, None, 0), 1.0), grid.margins(term.w)))
    assert (found[0][0] != found[1][0]).any() if wrong == "pulled" else (found[0][1] != found[1][1]).sum() == 1


def test_rows_in_float64_and_several_columns_go_their_old_way() -> None:
    """A product of K columns widens a block once for all of them: BLAS has the better loops for it."""
    X, _ = table(500, 5)
    seen: list[str] = []
    with multiplying_by(watched(lambda name, *_: seen.append(name))):
        wide = np.rint(X.astype(np.float64))
        assert product(Pair(np.ones(500), wide)).tolist() == wide.sum(axis=0).tolist() and not seen
        grid = DenseGrid.of_rows(X.astype(np.float64))
        product(Pair(np.ones((500, 3)), grid.rows))
        term = GradientTerm(MultinomialLoss(classes=3), np.linspace(-1, 1, 15), 0.3, Features())
        block_counts(term, Block(X, np.arange(500) % 3, None, 0), 1.0)
    assert seen == []
    assert widened(grid.rows) is not None and widened(grid.rows).dtype == np.float64


def test_a_forked_process_does_not_wait_for_a_thread_that_compiled() -> None:
    loader = compiled._Loader()
    loader.lock.acquire()
    loader.in_child()
    assert loader.worth(2 * compiled.PAYS) is None and loader.ready() is None
    other = compiled._Loader()
    other.in_child()
    assert not other.tried


def test_other_threads_go_on_while_one_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    loader, begun, end = compiled._Loader(), threading.Event(), threading.Event()

    def slowly() -> None:
        begun.set()
        assert end.wait(60)

    monkeypatch.setattr(compiled, "load", slowly)
    thread = threading.Thread(target=loader.ready)
    thread.start()
    assert begun.wait(60)
    assert loader.worth(2 * compiled.PAYS) is None and not loader.tried
    end.set()
    thread.join()
    assert loader.tried


def in_a_process(code: str, **environment: str) -> str:
    given = {key: value for key, value in os.environ.items() if not key.startswith(("NUMBA", "XDG"))}
    given |= {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])} | environment
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=given, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


FIT = """
import sys
import numpy as np
import dperm
from dperm.rows import compiled
{before}
generator = np.random.default_rng(0)
X = generator.uniform(-1, 1, (3000, 4)).astype(np.float32)
y = (X[:, 0] + generator.normal(size=3000) > 0).astype(int)
options = dict(bounds=(-1, 1), classes=[0, 1], random_state=0, method=dperm.mechanisms.Gradient(steps=8))
print(dperm.LogisticRegression(epsilon=1.0, **options).fit(X, y).coef_.tobytes().hex())
print("numba" in sys.modules and sys.modules["numba"] is not None, compiled.LOADER.kernels is not None)
"""


def test_fits_with_and_without_numba_are_the_same_bits() -> None:
    """A small fit does not load it; an environment without it, or where it is switched off, is as good as any."""
    kernels()
    eager = "compiled.PAYS = 0"
    small, fast = in_a_process(FIT.format(before="")).split("\n"), in_a_process(FIT.format(before=eager)).split("\n")
    assert small[1] == "False False" and fast[1] == "True True"
    absent = in_a_process(FIT.format(before=f"sys.modules['numba'] = None; {eager}")).split("\n")
    assert absent[1] == "False False"
    off = in_a_process(FIT.format(before=eager), NUMBA_DISABLE_JIT="1").split("\n")
    assert off[1] == "True False"
    assert small[0] == fast[0] == absent[0] == off[0]


def test_a_damaged_cache_is_done_without(tmp_path: Path) -> None:
    kernels()
    shutil.copy(compiled.__file__, tmp_path / "alone.py")
    code = "import numpy as np, alone; k = alone.load(); print(k.margins(np.ones((2, 3), np.float32), np.ones(3)))"
    places = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    places["NUMBA_CACHE_DIR"] = str(tmp_path / "kept")
    for _ in range(2):
        assert in_a_process(code, **places) == "[3. 3.]"
        files = [file for file in (tmp_path / "kept").rglob("*") if file.is_file()]
        assert len(files) == 8
        for file in files:
            file.write_bytes(file.read_bytes()[:40])


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    """Neither the folder of the source nor the home of the user takes a file: compiled anew, without a word."""
    kernels()
    shutil.copy(compiled.__file__, tmp_path / "alone.py")
    (tmp_path / "__pycache__").write_text("a file where a folder would be")
    code = "import numpy as np, alone; k = alone.load(); print(k.margins(np.ones((2, 3), np.float32), np.ones(3)), "
    code += "k.into_margins.stats.cache_path)"
    places = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]), "HOME": os.devnull}
    assert in_a_process(code, PYTHONDONTWRITEBYTECODE="1", **places) == "[3. 3.] None"
    (tmp_path / "home").mkdir()
    kept = in_a_process(code, PYTHONDONTWRITEBYTECODE="1", **places | {"HOME": str(tmp_path / "home")})
    assert str(tmp_path / "home") in kept  # a folder of the user's, where that of the source is closed


@pytest.mark.parametrize("broken", ["raise OSError('no LLVM here')", "class config: DISABLE_JIT = False", "1 / 0"])
def test_a_numba_that_does_not_work_is_done_without(tmp_path: Path, broken: str) -> None:
    """It is loaded once a fit has seen many numbers: an error then would cost the budget, and come with many rows alone."""
    (tmp_path / "numba.py").write_text(broken)
    sound = in_a_process(FIT.format(before="")).split("\n")
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    found = in_a_process(FIT.format(before="compiled.PAYS = 0"), PYTHONPATH=path).split("\n")
    assert found[0] == sound[0] and found[1].endswith("False")
