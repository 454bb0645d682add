"""A private fit on a real multi-process cluster, with a worker killed on the way.

    python examples/dask_cluster.py                      # starts two worker processes on this machine
    python examples/dask_cluster.py tcp://scheduler:8786 # uses a cluster that runs already

Workers send integer sums of blocks; noise is drawn once per step, by this process. The coefficients are those of a fit in memory
with the same noise, bit for bit, although a worker dies after the third step.
"""

from __future__ import annotations

import os
import signal
import sys

import dask.array as da
import numpy as np
from dask import delayed
from distributed import Client, LocalCluster

import dperm
from dperm.mechanisms import Gradient, Target
from dperm.problem import DataBounds, Interval, LogisticLoss, Problem, Ridge

N, D, PARTITION = 200_000, 20, 30_000


def draw(seed: int, count: int) -> np.ndarray:
    """Rows and labels of one partition, made by the worker that holds it."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((count, D)) / np.sqrt(D)
    y = np.where(X @ np.linspace(-3, 3, D) + generator.logistic(size=count) > 0, 1.0, -1.0)
    return np.column_stack([X, y])


def main() -> None:
    if len(sys.argv) > 1:
        run(Client(sys.argv[1]), own=False)
    else:
        with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster:
            run(Client(cluster), own=True)


def run(client: Client, *, own: bool) -> None:
    counts = [min(PARTITION, N - first) for first in range(0, N, PARTITION)]
    parts = [da.from_delayed(delayed(draw)(seed, count), (count, D + 1), float) for seed, count in enumerate(counts)]
    data = da.concatenate(parts)
    rows = dperm.DaskRows(data[:, :D], data[:, D], client=client)
    workers = client.run(os.getpid)
    print(f"{rows.n:,} rows in {len(rows.lengths)} partitions on {len(workers)} workers")

    def watch(done: int, total: int) -> None:
        if own and done == 3:
            victim = next(iter(workers.values()))
            os.kill(victim, signal.SIGKILL)
            print(f"step {done} of {total}: worker process {victim} killed")

    problem = Problem(LogisticLoss(), Ridge(1.0), data=DataBounds(2.0, Interval(-1, 1), 1.0))
    target = Target.declare(epsilon=1.0, n=N)
    release = dperm.fit(problem, rows, target, Gradient(steps=20), random_state=1, progress=watch)
    whole = data.compute()
    X, y = whole[:, :D], whole[:, D]
    memory = dperm.fit(problem, dperm.MemoryRows(X, y), target, Gradient(steps=20), random_state=1)
    same = "the same bits as" if np.array_equal(release.w, memory.w) else "NOT the same as"
    print(f"epsilon {release.certificate.epsilon:.3f}; events {release.plan.events}; {same} the fit in memory")
    accuracy = np.mean(np.sign(X @ release.w[:D] + release.w[D]) == y)
    print(f"accuracy {accuracy:.3f} (seeded noise: for the comparison only, NOT private)")
    client.close()


if __name__ == "__main__":
    main()
