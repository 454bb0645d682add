"""Repeated runs in chunks, over processes, with progress and a file to resume from."""

from __future__ import annotations

import multiprocessing
import os
import random
import secrets
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Progress = Callable[[int, int], None]
Outcome = NDArray[np.float64] | None  # None for a run that raised
Rows = list[Outcome]


@dataclass(frozen=True)
class Job:
    """A function, its two data sets, and how many runs of each are handed out at a time."""

    fit: Callable[[object], object]
    sets: tuple[object, object]
    trials: int
    chunk: int

    def outcomes(self, which: int, start: int) -> Rows:
        return [_outcome(self.fit, self.sets[which]) for _ in range(min(self.chunk, self.trials - start))]


_JOBS: list[Job] = []  # what forked workers inherit: a function need not be picklable


def run_chunks(
    job: Job, processes: int, store: tuple[Path, str] | None, progress: Progress | None
) -> tuple[Rows, Rows]:
    """The outcomes on each data set, in order; None stands for a run that raised.

    Both data sets are served alternately, so that a drift of the machine cannot pass for a difference between them.
    """
    starts = range(0, job.trials, job.chunk)
    places = [(which, start) for start in starts for which in (0, 1)]
    done = _read(store)
    left = [place for place in places if place not in done]
    saved = time.monotonic()
    for place, rows in _work(job, processes, left):
        done[place] = rows
        if store is not None and time.monotonic() - saved > 2.0:
            _write(store, done)
            saved = time.monotonic()
        if progress is not None:
            progress(len(done), len(places))
    if store is not None and left:
        _write(store, done)
    first, second = ([row for start in starts for row in done[which, start]] for which in (0, 1))
    return first, second


def _work(job: Job, processes: int, places: list[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], Rows]]:
    if processes <= 1 or "fork" not in multiprocessing.get_all_start_methods():
        for which, start in places:
            yield (which, start), job.outcomes(which, start)
        return
    _JOBS.append(job)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # fork beside idle BLAS threads is safe here: no locks are held
            pool = multiprocessing.get_context("fork").Pool(processes, initializer=_fresh)
        with pool:
            yield from pool.imap_unordered(_chunk, places)
    finally:
        _JOBS.clear()


def _fresh() -> None:
    """A forked worker must not continue its parent's streams: two workers would draw the same noise."""
    np.random.seed(secrets.randbits(32))  # noqa: NPY002
    random.seed(secrets.randbits(128))
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def _chunk(place: tuple[int, int]) -> tuple[tuple[int, int], Rows]:
    return place, _JOBS[0].outcomes(*place)


def _outcome(fit: Callable[[object], object], data: object) -> Outcome:
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
        done: dict[tuple[int, int], Rows] = {}
        for name in set(kept.files) - {"fingerprint"}:
            which, start = (int(part) for part in name.split("-"))
            done[which, start] = [None if row[0] else row[1:] for row in kept[name]]
        return done


def _write(store: tuple[Path, str], done: dict[tuple[int, int], Rows]) -> None:
    path, fingerprint = store
    tables = {f"{which}-{start}": as_table(rows, longest(rows)) for (which, start), rows in done.items()}
    temporary = path.with_name(f".{path.name}.part.npz")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.savez(temporary, allow_pickle=False, **{"fingerprint": np.array(fingerprint), **tables})
    temporary.replace(path)


def longest(*parts: Rows) -> int:
    """How many numbers the longest outcome has."""
    return max((len(row) for part in parts for row in part if row is not None), default=0)


def as_table(rows: Rows, width: int) -> NDArray[np.float64]:
    """Outcomes of `width` numbers as rows; the first column is 1 for a run that failed."""
    table = np.zeros((len(rows), width + 1))
    for place, row in enumerate(rows):
        if row is None:
            table[place, 0] = 1.0
        else:
            table[place, 1:] = row
    return table
