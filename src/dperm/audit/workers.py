"""Repeated runs in chunks, over processes, with progress and a file to resume from."""

from __future__ import annotations

import multiprocessing
import os
import random
import secrets
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Progress = Callable[[int, int], None]
Rows = list[Any]

_JOB: dict[str, Any] = {}  # what forked workers inherit: a function need not be picklable


def run_chunks(
    fit: Callable[[object], object],
    sets: tuple[object, object],
    trials: int,
    chunk: int,
    processes: int,
    store: tuple[Path, str] | None,
    progress: Progress | None,
) -> tuple[Rows, Rows]:
    """`trials` outcomes of `fit` on each data set, in order; None stands for a run that raised.

    Both data sets are served alternately, so that a drift of the machine cannot pass for a difference between them.
    """
    jobs = [(which, start) for start in range(0, trials, chunk) for which in (0, 1)]
    done = _read(store)
    left = [job for job in jobs if job not in done]
    saved = time.monotonic()
    for job, rows in _work(fit, sets, trials, chunk, processes, left):
        done[job] = rows
        if store is not None and time.monotonic() - saved > 2.0:
            _write(store, done)
            saved = time.monotonic()
        if progress is not None:
            progress(len(done), len(jobs))
    if store is not None and left:
        _write(store, done)
    first, second = ([row for start in range(0, trials, chunk) for row in done[which, start]] for which in (0, 1))
    return first, second


def _work(
    fit: Callable[[object], object],
    sets: tuple[object, object],
    trials: int,
    chunk: int,
    processes: int,
    jobs: list[tuple[int, int]],
) -> Iterator[tuple[tuple[int, int], Rows]]:
    if processes <= 1 or "fork" not in multiprocessing.get_all_start_methods():
        for which, start in jobs:
            yield (which, start), [_outcome(fit, sets[which]) for _ in range(min(chunk, trials - start))]
        return
    _JOB.update(fit=fit, sets=sets, trials=trials, chunk=chunk)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # fork beside idle BLAS threads is safe here: no locks are held
            pool = multiprocessing.get_context("fork").Pool(processes, initializer=_fresh)
        with pool:
            yield from pool.imap_unordered(_chunk, jobs)
    finally:
        _JOB.clear()


def _fresh() -> None:
    """A forked worker must not continue its parent's streams: two workers would draw the same noise."""
    np.random.seed(secrets.randbits(32))  # noqa: NPY002
    random.seed(secrets.randbits(128))
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def _chunk(job: tuple[int, int]) -> tuple[tuple[int, int], Rows]:
    which, start = job
    count = min(_JOB["chunk"], _JOB["trials"] - start)
    return job, [_outcome(_JOB["fit"], _JOB["sets"][which]) for _ in range(count)]


def _outcome(fit: Callable[[object], object], data: object) -> object:
    try:
        return np.atleast_1d(np.asarray(fit(data), dtype=np.float64)).ravel()
    except Exception:
        return None


def _read(store: tuple[Path, str] | None) -> dict[tuple[int, int], Rows]:
    """Finished chunks of the same audit; a file of another audit is refused."""
    if store is None or not store[0].is_file():
        return {}
    with np.load(store[0], allow_pickle=False) as kept:
        if str(kept["fingerprint"]) != store[1]:
            raise ValueError(f"Expected {store[0]} to belong to this audit, found another's. Choose another file or remove it.")
        done = {}
        for name in kept.files:
            if name == "fingerprint":
                continue
            which, start = (int(part) for part in name.split("-"))
            table = kept[name]
            done[which, start] = [None if row[0] else row[1:] for row in table]
        return done


def _write(store: tuple[Path, str], done: dict[tuple[int, int], Rows]) -> None:
    path, fingerprint = store
    tables = {}
    for (which, start), rows in done.items():
        width = max((len(row) for row in rows if row is not None), default=0)
        table = np.zeros((len(rows), width + 1))
        for k, row in enumerate(rows):
            if row is None:
                table[k, 0] = 1.0
            else:
                table[k, 1:] = row
        tables[f"{which}-{start}"] = table
    temporary = path.with_name(f".{path.name}.part.npz")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.savez(temporary, allow_pickle=False, **{"fingerprint": np.array(fingerprint), **tables})
    temporary.replace(path)
