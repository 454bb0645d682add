"""One seeded fit, four engines, the same coefficients; and sums whose bits do not depend on the number of threads."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

import dperm
from dperm.problem import DataBounds, Interval, LogisticLoss, MultinomialLoss
from dperm.rows import BLOCK_ROWS, ArrowRows, DeviceRows, MemoryRows, sum_step
from dperm.rows.device_sums import clipped_rows
from dperm.rows.memory import cut_block, inside
from dperm.rows.pieces import Encoded, Recipe
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm

N, D = 2 * BLOCK_ROWS + 500, 5
NAMES = [f"x{j}" for j in range(D)]


def raw(seed=0):
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1.3, 1.3, (N, D))
    X[3, 1], X[4, 2] = np.nan, np.inf
    y = (np.nan_to_num(X, posinf=0) @ np.linspace(-1, 1, D) + generator.logistic(size=N) > 0).astype(np.int64)
    y[::97] = 5  # no declared class: a null row
    return X, y


def schema(target):
    columns = {name: {"type": "numeric", "low": -1, "high": 1} for name in NAMES}
    return dperm.Schema.from_dict({"columns": columns, "target": {"column": "y", **target}})


def engines(X, y, folder, declared):
    """The same rows as arrays in memory, a Parquet file, torch tensors and a Dask array."""
    yield "memory", (X, y)
    table = pa.table({name: X[:, j] for j, name in enumerate(NAMES)} | {"y": y})
    pq.write_table(table, folder / "rows.parquet", row_group_size=3000)
    yield "arrow", (ArrowRows(folder / "rows.parquet", declared),)
    yield "arrow, cached", (ArrowRows(folder / "rows.parquet", declared, cache=folder / "cache"),)
    torch = pytest.importorskip("torch", reason="device rows need torch: pip install dperm[torch]")
    yield "torch", (torch.from_numpy(X), torch.from_numpy(y))
    yield "device", (DeviceRows(torch.from_numpy(X), torch.from_numpy(y), host=False),)
    da = pytest.importorskip("dask.array", reason="rows on a cluster need dask: pip install dperm[dask]")
    yield "dask", (da.from_array(X, (5000, 2)), da.from_array(y, 3000))


@pytest.mark.filterwarnings("default:.*:ResourceWarning")
@pytest.mark.parametrize(
    ("estimator", "options", "target"),
    [
        ("LogisticRegression", {"classes": [0, 1]}, {"type": "classes", "classes": [0, 1]}),
        ("LogisticRegression", {"classes": [0, 1, 5]}, {"type": "classes", "classes": [0, 1, 5]}),
        ("LinearRegression", {"y_bounds": (0, 4)}, {"type": "numeric", "low": 0, "high": 4}),
    ],
    ids=["logistic", "multinomial", "linear"],
)
@pytest.mark.parametrize("method", [dperm.Gradient(steps=6), "auto"], ids=["gradient", "auto"])
def test_the_same_seeded_fit_on_every_engine(estimator, options, target, method, tmp_path):
    X, y = raw()
    fits = {}
    for name, arguments in engines(X, y, tmp_path, schema(target)):
        declared = {} if name.startswith("arrow") else {"bounds": (-1, 1)}  # the schema of the rows says it
        settings = {"epsilon": 2.0, "random_state": 7, "method": method, **declared, **options}
        fits[name] = getattr(dperm, estimator)(**settings).fit(*arguments)
    expected = fits.pop("memory")
    assert set(fits) == {"arrow", "arrow, cached", "torch", "device", "dask"}
    for name, fitted in fits.items():
        # Arrays on a device have grids of their own: `dperm.rows.device`. A solve is exact to its tolerance.
        same = name != "device" and fitted.certificate_.record["mechanism"]["name"] != "objective"
        spare = 0.0 if same else 1e-4
        np.testing.assert_allclose(fitted.coef_, expected.coef_, atol=spare, rtol=0, err_msg=name)
        np.testing.assert_allclose(fitted.intercept_, expected.intercept_, atol=spare, rtol=0, err_msg=name)
        assert fitted.certificate_.verify(allow_seeded=True)


def sums(threads, dtype):
    """Bits of several sums with a number of BLAS threads."""
    generator = np.random.default_rng(1)
    X = (generator.standard_normal((3 * BLOCK_ROWS + 99, 70)) / 9).astype(dtype)
    y = np.where(generator.random(len(X)) < 0.5, 1.0, -1.0)
    features = Features(1.0, generator.standard_normal(70) / 9, generator.uniform(0.5, 2, 70))
    found = []
    with threadpool_limits(threads):
        for matrix, term in (
            (X, GradientTerm(LogisticLoss(), np.linspace(-1, 1, 71), 0.3, Features(1.0))),
            (X, GradientTerm(LogisticLoss(), np.linspace(-1, 1, 71), 0.3, features)),
            (X, GradientTerm(MultinomialLoss(classes=3), np.linspace(-1, 1, 213), 0.3, Features(1.0))),
            (sparse.csr_array(np.where(X > 0.1, X, 0)), GradientTerm(LogisticLoss(), np.linspace(-1, 1, 71), 0.3, Features(1.0))),
        ):
            rows = MemoryRows(matrix, y).bounded(DataBounds(1.0, Interval(-1, 1), 1.0))
            found.append(rows.sum(term, sum_step(0.3, len(y))).tobytes())
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_threads_cannot_change_the_bits(dtype):
    assert sums(1, dtype) == sums(2, dtype) == sums(4, dtype)


PROCESS = """
import hashlib, sys
sys.path.insert(0, "tests/rows")
from test_rows_agree import sums
print(hashlib.sha256(b"".join(sums(None, "float32"))).hexdigest())
"""


def test_a_process_with_other_thread_settings_gives_the_same_bits():
    """Workers of a cluster often run with one thread; the bits must be those of a process with four."""
    expected = hashlib.sha256(b"".join(sums(None, "float32"))).hexdigest()
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "4", "OMP_NUM_THREADS": "4"}
    done = subprocess.run([sys.executable, "-c", PROCESS], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected


def test_threads_are_given_back_after_a_sum_and_after_an_error():
    from dperm.rows.base import one_blas_thread

    X, y = np.ones((3 * BLOCK_ROWS, 2)), np.ones(3 * BLOCK_ROWS)

    class Broken:
        row_bound = 1.0

        def __call__(self, block):
            raise RuntimeError("broken term")

    with threadpool_limits(3):
        with pytest.raises(RuntimeError, match="broken term"):
            MemoryRows(X, y).sum(Broken(), 1.0)
        with one_blas_thread() as outer, one_blas_thread() as inner:
            assert (outer, inner) == (3, 3)
        with one_blas_thread() as threads:
            assert threads == 3


WIDE = (np.ones((5 * BLOCK_ROWS, 20)), np.ones(5 * BLOCK_ROWS))  # numbers enough for several threads


@pytest.mark.parametrize("fails_in_main", [True, False])
def test_an_error_in_a_thread_is_an_error_of_the_sum(fails_in_main):
    met, seen = threading.Barrier(2, timeout=60), set()

    class Broken:
        row_bound = 1.0

        def __call__(self, block):
            here = threading.current_thread()
            if here not in seen:  # both threads have a block before one of them fails
                seen.add(here)
                met.wait()
            if (here is threading.main_thread()) is fails_in_main:
                raise RuntimeError("broken term")
            return np.full(1, float(len(block.y)))

    with threadpool_limits(2), pytest.raises(RuntimeError, match="broken term"):
        MemoryRows(*WIDE).sum(Broken(), 1.0)


def test_a_sum_inside_a_sum_does_not_wait_for_its_own_thread():
    rows = MemoryRows(*WIDE)

    class Count:
        row_bound = 1.0

        def __call__(self, block):
            return np.full(1, float(len(block.y)))

    class Nested(Count):
        def __call__(self, block):
            return rows.sum(Count(), 1.0)

    with threadpool_limits(8):
        assert rows.sum(Nested(), 1.0) == [25 * BLOCK_ROWS]


FORKED = """
import os, sys
sys.path.insert(0, "tests/rows")
from test_rows_agree import sums
before = sums(2, "float32")
child = os.fork()
if not child:
    os._exit(0 if sums(2, "float32") == before else 1)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_has_threads_of_its_own():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_float32_blocks_never_add_thousands_of_rows_in_float32(storage):
    """8,191 equal rows and a small one: a float32 sum over the block errs by some 1e-4 here, runs of 64 rows by 1e-6 at most."""
    X = np.full((BLOCK_ROWS, 3), 0.1, dtype=np.float32)
    X[5] = 1e-3
    y = np.ones(BLOCK_ROWS)
    term = GradientTerm(LogisticLoss(), np.zeros(3), 1.0, Features())
    total = MemoryRows(storage(X), y).bounded(DataBounds(1.0, Interval(-1, 1))).sum(term, 2.0**-40)
    exact = -0.5 * X.astype(np.float64).sum(axis=0)
    naive = np.zeros(3, dtype=np.float32)
    for row in X:
        naive += np.float32(-0.5) * row
    np.testing.assert_allclose(total, exact, rtol=1e-6)
    assert np.abs(naive - exact).max() > 1e-5 * np.abs(exact).max()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_inside_the_bounds_are_not_copied_and_rows_outside_are_clipped(dtype):
    generator = np.random.default_rng(2)
    X = generator.standard_normal((1000, 8)).astype(dtype)
    X *= (0.9 / np.linalg.norm(X, axis=1, keepdims=True)).astype(dtype)
    bounds = DataBounds(1.0, Interval(-1, 1))
    assert inside(X, bounds)
    assert np.shares_memory(cut_block(X, np.ones(1000), None, 0, bounds, None).X, X)
    np.testing.assert_array_equal(bounds.enforce(X)[0], X)
    for bad in (np.nan, np.inf, 5.0, -1e30):
        worse = X.copy()
        worse[500, 3] = bad
        assert not inside(worse, bounds)
        block = cut_block(worse, np.ones(1000), None, 0, bounds, None)
        assert np.linalg.norm(block.X.astype(float), axis=1).max() <= 1.0
    assert not inside(X, DataBounds.box([-1] * 8, [1] * 8, Interval(-1, 1)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sparse_rows_inside_the_bounds_are_not_copied_and_the_others_are_clipped_as_ever(dtype):
    generator = np.random.default_rng(3)
    X = sparse.random(1000, 8, density=0.4, random_state=generator, format="csr").astype(dtype)
    X.data *= X.dtype.type(0.9 / np.sqrt(X.power(2).sum(axis=1)).max())
    X.data[::50] = -0.0  # missing cells keep their mark
    bounds, y = DataBounds(1.0, Interval(-1, 1)), np.ones(1000)
    assert inside(X, bounds) and inside(X, DataBounds(np.inf, Interval(-1, 1)))
    block = cut_block(X, y, None, 0, bounds, None)
    assert np.shares_memory(block.X.data, X.data)
    assert block.X.data.tobytes() == bounds.enforce(X)[0].data.tobytes()
    for bad in (np.nan, np.inf, 5.0, -1e30):
        worse = X.copy()
        worse.data[700] = bad
        assert not inside(worse, bounds) and (np.isfinite(bad) or not inside(worse, DataBounds(np.inf, Interval(-1, 1))))
        assert cut_block(worse, y, None, 0, bounds, None).X.data.tobytes() == bounds.enforce(worse)[0].data.tobytes()
    doubled = sparse.csr_array((np.array([0.8, 0.8], dtype=dtype), [2, 2], [0, 2]), shape=(1, 8))  # stored in parts: 1.6
    assert not inside(doubled, bounds)
    assert not inside(X, DataBounds.box([-1] * 8, [1] * 8, Interval(-1, 1)))
    assert not inside(X.astype(np.int64), bounds)


@pytest.mark.parametrize(("norm", "entry"), [(1e-24, 2e-23), (1e-30, 1e-24), (1e20, 1e25)])
def test_no_row_passes_for_a_short_one_because_its_square_is_no_number(norm, entry):
    """In float32 both squares are 0, or both infinite."""
    torch, bounds = pytest.importorskip("torch"), DataBounds(norm, Interval(-1, 1))
    X = np.array([[entry, 0.0], [0.0, norm / 2]], dtype=np.float32)
    for rows in (X, sparse.csr_array(X)):
        assert not inside(rows, bounds)
        found = cut_block(rows, np.ones(2), None, 0, bounds, None).X
        lengths = np.linalg.norm(np.asarray(found.todense() if sparse.issparse(found) else found, dtype=np.float64), axis=1)
        assert 0.99 * norm <= lengths[0] <= norm and lengths[1] == X[1, 1]
    kept = clipped_rows(torch.from_numpy(X), bounds).numpy().astype(np.float64)
    assert 0.99 * norm <= np.linalg.norm(kept[0]) <= norm and kept[1, 1] == X[1, 1]


CURVES = """
import numpy as np
import dperm
generator = np.random.default_rng(0)
X = generator.uniform(-1, 1, (3_000, 6))
y = (np.cos(3 * X[:, 0]) + X[:, 1] + generator.normal(size=3_000) > 0.5).astype(int)
model = dperm.GAMClassifier(3.0, bounds=(-1, 1), classes=[0, 1], relation="zero-out", random_state=0).fit(X, y)
assert model.certificate_.verify(allow_seeded=True)
print(model.decision_function(X).tobytes().hex())
"""


def test_a_seeded_fit_has_the_same_bits_on_any_number_of_threads():
    """Decompositions between sums too: BLAS keeps to one thread for a whole fit of few columns."""
    found = set()
    for threads in ("1", "4"):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        found.add(subprocess.run([sys.executable, "-c", CURVES], env=environment, capture_output=True, check=True).stdout)
    assert len(found) == 1


def weighed(X, y, weight):
    """The same weighted rows on every engine that takes weights beside them."""
    yield "memory", MemoryRows(X, y, weight)
    torch = pytest.importorskip("torch", reason="device rows need torch: pip install dperm[torch]")
    tensors = torch.from_numpy(X), torch.from_numpy(y)
    yield "tensors on the host", DeviceRows(*tensors, weight)
    yield "tensors on a device", DeviceRows(*tensors, torch.from_numpy(weight), host=False)
    da = pytest.importorskip("dask.array", reason="rows on a cluster need dask: pip install dperm[dask]")
    yield "dask", dperm.DaskRows(da.from_array(X, (30, 2)), da.from_array(y, 20), da.from_array(weight, 25))


def test_an_infinite_weight_is_the_largest_on_every_engine():
    """It was the largest one of arrays in memory and Spark tables, and none at all on Dask and in tensors."""
    generator = np.random.default_rng(3)
    X, y = generator.uniform(-0.4, 0.4, (100, 2)), np.where(generator.random(100) < 0.5, 1.0, -1.0)
    given, largest = np.ones(100), np.ones(100)
    given[[2, 5, 9]], largest[[2, 5, 9]] = (np.inf, -np.inf, np.nan), (1e9, -1e9, 0.0)
    term = GradientTerm(LogisticLoss(), np.array([0.3, -0.2]), 1.0, Features())
    fits, other = {}, {}
    for weight, sums in ((given, fits), (largest, other)):
        for name, rows in weighed(X, y, weight):
            sums[name] = rows.bounded(DataBounds(1.0, Interval(-1, 1))).sum(term, sum_step(1.0, 100))
            encoded = rows.labelled(lambda y: (y, np.ones(len(y)))) if hasattr(rows, "labelled") else rows
            sums[f"{name}, labelled"] = encoded.bounded(DataBounds(1.0, Interval(-1, 1))).sum(term, sum_step(1.0, 100))
    assert len(fits) == 8
    for name, found in fits.items():
        assert np.array_equal(found, other[name]), name
        np.testing.assert_allclose(found, fits["memory"], rtol=1e-5, err_msg=name)  # a device has roundings of its own
    table = pa.table({"x": [1.0, 1.0, 1.0], "y": [1.0, 1.0, 1.0], "w": [np.inf, -np.inf, np.nan]})
    made = Encoded(Recipe(None, ("x",), "y", "w", 2.0), None, None)(table)  # as executors of Spark make them
    settings = {"epsilon": 1.0, "max_weight": 2.0, "bounds": (-1, 1), "classes": [-1, 1]}
    memory = dperm.LogisticRegression(**settings)._weights(None, np.array([np.inf, -np.inf, np.nan]), 3)[0]
    assert made.weight.tolist() == memory.tolist() == [2.0, 0.0, 0.0]
