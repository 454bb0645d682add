"""Rows on a cluster: the bits of the rows in memory, with any partitions, and when a worker is killed in the middle of a fit."""

from __future__ import annotations

import os
import pickle
import signal
import traceback

import numpy as np
import pytest

import dperm
from dperm.mechanisms import Gradient, Target
from dperm.problem import DataBounds, Interval, LogisticLoss, Problem, Ridge
from dperm.rows import BLOCK_ROWS, MemoryRows, sum_step
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm, SampledTerm
from dperm.terms.statistics import RowSum

pytest.importorskip("distributed", reason="rows on a cluster need dask: pip install dperm[dask]")
# A cluster that loses a worker on purpose leaves sockets and tasks behind, which Python warns about.
pytestmark = pytest.mark.filterwarnings("default")

import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402
import pandas as pd  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402

from dperm.rows.dask import DaskRows  # noqa: E402
from dperm.rows.dask_parts import regroup  # noqa: E402
from dperm.tables.fingerprint import digest  # noqa: E402

N, D = 3 * BLOCK_ROWS + 777, 6
BOUNDS = DataBounds(1.0, Interval(-1, 1), 1.0)


def draw(dtype="float64"):
    generator = np.random.default_rng(8)
    X = (generator.standard_normal((N, D)) / 2).astype(dtype)
    return X, np.where(generator.random(N) < 0.5, 1.0, -1.0), generator.integers(0, 2, N).astype(float)


def term():
    return GradientTerm(LogisticLoss(), np.linspace(-1, 1, D + 1), 0.3, Features(1.0))


STEP = sum_step(0.3, N)
CHUNKS = {
    "aligned": (BLOCK_ROWS, BLOCK_ROWS, BLOCK_ROWS, 777),
    "small": (1000,) * 25 + (N - 25_000,),
    "uneven": (1, 20_000, 5, N - 20_006),
    "one": (N,),
}


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_any_partitions_give_the_bits_of_memory(chunks, dtype):
    X, y, weight = draw(dtype)
    rows = DaskRows(da.from_array(X, (chunks, 3)), da.from_array(y, 5000), da.from_array(weight, 7000)).bounded(BOUNDS)
    memory = MemoryRows(X, y, weight).bounded(BOUNDS)
    for one in (term(), SampledTerm(term(), 0.4, 5, 2), RowSum(0.5)):
        assert rows.sum(one, STEP).tobytes() == memory.sum(one, STEP).tobytes()


@pytest.mark.parametrize("lengths", CHUNKS.values(), ids=CHUNKS)
def test_digested_parts_begin_blocks_and_cover_every_row_once(lengths):
    seen = []
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    for pieces in regroup(list(lengths)):
        assert len(seen) % BLOCK_ROWS == 0
        for number, first, last in pieces:
            seen += range(offsets[number] + first, offsets[number] + last)
    assert seen == list(range(N))


def test_a_ledger_recognises_the_rows_on_any_partitions():
    X, y, _ = draw()
    found = {DaskRows(da.from_array(X, (chunks, 3)), da.from_array(y, 5000)).recognised_by() for chunks in CHUNKS.values()}
    assert found == {b"".join(digest(X[first : first + BLOCK_ROWS]) for first in range(0, N, BLOCK_ROWS))}


def test_gridded_rows_are_kept_between_passes_and_not_piled_up():
    """A term that travels is a new object every time; its rows on their grid are found by its numbers."""
    X, y, _ = draw()
    rows = MemoryRows(X, y).bounded(BOUNDS)
    for _ in range(3):
        rows.sum(pickle.loads(pickle.dumps(term())), STEP)
    assert {len(block.memory) for block in rows.blocks()} == {1}  # the rows on the grid of the last map


def test_a_sample_of_no_rows_is_a_sample():
    """Where the number of rows is protected, a Poisson sample of none may not fail: one row more would not."""
    empty = DaskRows(da.zeros((0, D)), da.zeros(0)).bounded(BOUNDS)
    assert not empty.sum(SampledTerm(term(), 0.4, 5, 2), STEP).any()
    options = {"epsilon": 1.0, "delta": 1e-5, "bounds": (-1, 1), "classes": [-1, 1], "relation": "add-remove", "nominal_n": 99}
    for rows in (DaskRows(da.zeros((0, D)), da.zeros(0)), DaskRows(da.zeros((1, D)), da.ones(1))):
        model = dperm.LogisticRegression(**options, method=Gradient(sampling_rate=0.5, steps=2)).fit(rows)
        assert model.certificate_.verify()


def test_lazy_chunks_of_unknown_length():
    X, y, _ = draw()
    lazy = da.from_array(np.column_stack([X, y]), (5000, -1))
    lazy = lazy[lazy[:, 0] > -9]  # keeps every row, but Dask does not know
    rows = DaskRows(lazy[:, :D], lazy[:, D]).bounded(BOUNDS)
    assert rows.n == N
    assert rows.sum(term(), STEP).tobytes() == MemoryRows(X, y).bounded(BOUNDS).sum(term(), STEP).tobytes()


def test_dataframes_with_a_schema():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": generator.uniform(-5, 120, N),
            "place": generator.choice(["north", "south", "west", None], N),
            "income": generator.choice(["small", "large", "?"], N),
        }
    )
    schema = dperm.Schema.from_dict(
        {
            "columns": {
                "age": {"type": "numeric", "low": 0, "high": 100},
                "place": {"type": "categorical", "levels": ["north", "south"]},
            },
            "target": {"column": "income", "type": "classes", "classes": ["small", "large"]},
        }
    )
    options = {"epsilon": 2.0, "schema": schema, "method": Gradient(steps=4), "random_state": 2}
    memory = dperm.LogisticRegression(**options).fit(frame)
    spread = dperm.LogisticRegression(**options).fit(dd.from_pandas(frame, npartitions=7))
    np.testing.assert_array_equal(spread.coef_, memory.coef_)
    assert spread.certificate_.verify(allow_seeded=True)


def test_declared_arrays():
    X, y, _ = draw()
    options = {"epsilon": 2.0, "bounds": (-1, 1), "classes": [-1, 1], "method": Gradient(steps=4), "random_state": 2}
    memory = dperm.LogisticRegression(**options).fit(X, y)
    spread = dperm.LogisticRegression(**options).fit(da.from_array(X, (5000, 6)), da.from_array(y, 5000))
    np.testing.assert_array_equal(spread.coef_, memory.coef_)


def test_weights_stay_when_a_rule_has_none():
    X, y, weight = draw()
    rows = DaskRows(da.from_array(X, (5000, 6)), da.from_array(y, 5000), da.from_array(weight, 5000))
    memory = MemoryRows(X, -y, weight).bounded(BOUNDS).sum(term(), STEP)
    assert rows.labelled(lambda labels: (-labels, None)).bounded(BOUNDS).sum(term(), STEP).tobytes() == memory.tobytes()
    half = MemoryRows(X, -y, weight / 2).bounded(BOUNDS).sum(term(), STEP)
    assert rows.labelled(lambda y: (-y, np.full(len(y), 0.5))).bounded(BOUNDS).sum(term(), STEP).tobytes() == half.tobytes()


def test_bad_collections_are_named():
    X, y, _ = draw()
    with pytest.raises(ValueError, match="Expected y"):
        DaskRows(da.from_array(X, (5000, 6)))
    with pytest.raises(ValueError, match="one label"):
        DaskRows(da.from_array(X, (5000, 6)), da.from_array(y[:-1], 5000))
    with pytest.raises(ValueError, match="at least one row"):
        dperm.LinearRegression(bounds=(0, 1), y_bounds=(0, 1)).fit(DaskRows(da.zeros((0, 3)), da.zeros(0)))


SECRET = "HIV positive"


def graphs_that_fail():
    """Collections whose own graph cannot read one cell: rows, labels, a frame, chunks of unknown length."""
    good, bad = (np.array([["0.5"]] * 99 + [[cell]], dtype=object) for cell in ("1", SECRET))
    X, y = da.from_array(good.astype(float), 50), da.from_array(np.arange(100) % 2, 50)
    words = da.from_array(bad, 50).astype(float)
    frame = dd.from_pandas(pd.DataFrame({"a": bad[:, 0], "t": ["no", "yes"] * 50}), npartitions=2)
    frame = frame.map_partitions(lambda part: part.assign(a=part.a.astype(float)), meta={"a": float, "t": object})
    fit = dperm.LogisticRegression(1.0, bounds=(0, 1), classes=[0, 1]).fit
    return {
        "rows": lambda: fit(words, y),
        "labels": lambda: fit(X, words[:, 0]),
        "unknown length": lambda: fit(words[words[:, 0] > -1], y),
        "frame": lambda: dperm.LogisticRegression(1.0, schema=SCHEMA).fit(frame),
    }


SCHEMA = {
    "columns": {"a": {"type": "numeric", "low": 0, "high": 1}},
    "target": {"column": "t", "type": "classes", "classes": ["no", "yes"]},
}


@pytest.mark.parametrize("name", ["rows", "labels", "unknown length", "frame"])
def test_a_graph_that_fails_at_a_cell_does_not_quote_it(name):
    with pytest.raises(ValueError, match="Its message may quote a record") as found:
        graphs_that_fail()[name]()
    assert SECRET not in "".join(traceback.format_exception(found.value))


def test_how_a_partition_stores_its_labels_decides_nothing():
    """A reader that guesses types by partition stores whole numbers as such unless one cell is a word: no error may tell."""
    X = da.from_array(np.linspace(0, 1, 100)[:, None], 50)

    def guessed(part):
        cells = part.tolist()
        return np.array(cells) if all(type(cell) is int for cell in cells) else part

    def fitted(cell):
        labels = np.array([cell, *[1] * 49, *["no", "yes"] * 25], dtype=object)
        y = da.from_array(labels, 50).map_blocks(guessed, dtype=object)
        return dperm.LogisticRegression(5.0, 1e-6, bounds=(0, 1), classes=["no", "yes"], random_state=0).fit(X, y)

    assert fitted(1).w_.tobytes() == fitted("x").w_.tobytes()  # neither is a class
    frame = dd.from_pandas(pd.DataFrame({"a": np.linspace(0, 1, 60)}), npartitions=3)
    for first in (1, None):
        labels = dd.from_pandas(pd.Series([first, *[0, 1] * 29, 1], dtype="Int64"), npartitions=3)
        blocks = [block for part in DaskRows(frame, labels).parts() for block in part.compute().blocks]
        assert {str(block.y.dtype) for block in blocks} == {"float64"}


def test_labels_in_a_frame_of_one_column_are_read():
    """They were all missing, and the fit that of no rows."""
    frame, y = pd.DataFrame({"a": np.linspace(0, 1, 60)}), pd.DataFrame({"t": [0, 1] * 30})
    model = dperm.LogisticRegression(5.0, 1e-6, bounds=(0, 1), classes=[0, 1], random_state=0)
    apart = [dd.from_pandas(part, npartitions=3) for part in (frame, y)]
    assert model.fit(*apart).w_.tobytes() == model.fit(frame, y["t"]).w_.tobytes()


@pytest.fixture(scope="module")
def cluster():
    """Two real worker processes; a third of a minute to start and stop."""
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as started:
        yield started


def test_a_killed_worker_changes_nothing(cluster):
    """SIGKILL in the middle of the fit: it completes, every event is booked once, and the sums have the bits of memory."""
    X, y, _ = draw()
    problem = Problem(LogisticLoss(), Ridge(1.0), data=BOUNDS)
    target = Target.declare(epsilon=1.0, n=N)
    mechanism = Gradient(steps=8)
    booked = []
    expected = dperm.fit(problem, MemoryRows(X, y), target, mechanism, random_state=4)
    with Client(cluster) as client:
        workers = client.run(os.getpid)
        assert len(workers) == 2
        rows = DaskRows(da.from_array(X, (5000, 6)), da.from_array(y, 5000), client=client)
        killed = []

        def kill_one(done, total):
            if done == 3:
                os.kill(next(iter(workers.values())), signal.SIGKILL)
                killed.append(done)

        release = dperm.fit(problem, rows, target, mechanism, random_state=4, on_book=booked.append, progress=kill_one)
        assert killed == [3]
        assert set(client.run(os.getpid).values()) != set(workers.values())
        again = rows.bounded(BOUNDS).sum(term(), STEP)
    assert tuple(booked) == release.plan.events
    assert release.certificate.verify(allow_seeded=True)
    np.testing.assert_array_equal(release.w, expected.w)
    assert again.tobytes() == MemoryRows(X, y).bounded(BOUNDS).sum(term(), STEP).tobytes()


def test_a_cluster_without_workers_is_an_error_and_costs_nothing():
    X, y, _ = draw()
    data = da.from_array(X, (5000, 6)), da.from_array(y, 5000)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as empty,
        Client(empty) as client,
        pytest.raises(ValueError, match="at least one worker"),
    ):
        DaskRows(*data, client=client, timeout=0.3)


class Moody:
    """Rows that come out differently from some look on: another cell, another order, more or fewer rows."""

    def __init__(self, X, how, calm):
        self.X, self.how, self.calm, self.looks = X, how, calm, 0

    def __call__(self):
        self.looks += 1
        X = self.X.copy()
        if self.looks <= self.calm:
            return X
        if self.how == "cell":
            X[3, 0] = 0.75
        return {"order": X[::-1], "more": np.concatenate([X, X[:1]]), "fewer": X[1:]}.get(self.how, X)


@pytest.mark.parametrize("how", ["cell", "order", "more", "fewer", "same"])
@pytest.mark.parametrize("calm", [0, 1, 3])
def test_a_collection_that_gives_other_rows_in_another_pass_is_refused(how, calm):
    """Chunks are of a declared length, so that nothing is counted before the first pass."""
    import dask

    rng = np.random.default_rng(1)
    first, second = Moody(rng.uniform(0, 1, (500, 2)), how, calm), rng.uniform(0, 1, (300, 2))
    parts = [dask.delayed(first, pure=False)(), dask.delayed(second)]
    arrays = [da.from_delayed(part, (size, 2), float) for part, size in zip(parts, (500, 300))]
    X, y = da.concatenate(arrays), da.from_array((rng.random(800) < 0.5).astype(int), chunks=(500,))
    rows = DaskRows(X, y, persist=False)
    model = dperm.LogisticRegression(epsilon=1.0, bounds=(0, 1), classes=[0, 1], method=Gradient(steps=4))
    if how == "same" or (calm == 0 and how in ("cell", "order")):  # other rows from the first look on are simply those rows
        model.fit(rows)
        assert first.looks >= 4
    else:
        with pytest.raises(ValueError, match=r"gives the same rows|reads to its end") as found:
            model.fit(rows)
        assert "500" not in str(found.value) and "501" not in str(found.value)
