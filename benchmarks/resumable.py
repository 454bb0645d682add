"""Draws of a study in chunks, by several processes, kept in a file after each: a run that is stopped goes on where it was."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple


class Job(NamedTuple):
    """The draws `numbers` of the cell `key`, made by `make(*arguments, numbers)`."""

    key: str
    make: Callable[..., list[Any]]
    arguments: tuple[Any, ...]
    numbers: list[int]


def stored(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def keep(path: Path, results: dict[str, Any]) -> None:
    """Written whole to another name first: a stop in the middle of it loses nothing."""
    path.parent.mkdir(exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(results), encoding="utf-8")
    part.replace(path)


def merge(path: Path, others: Iterable[Path]) -> None:
    """Draws of other runs into the results at `path`; one that is there already stays."""
    results = stored(path)
    for other in others:
        for key, draws in stored(other).items():
            results[key] = {**draws, **results.get(key, {})}
    keep(path, results)


def left(results: dict[str, Any], key: str, draws: range, chunk: int) -> Iterator[list[int]]:
    """The numbers of draws that are not there yet, in chunks."""
    missing = [number for number in draws if str(number) not in results.get(key, {})]
    return (missing[k : k + chunk] for k in range(0, len(missing), chunk))


def measure(path: Path, jobs: Iterable[Job], processes: int, seconds: float | None) -> None:
    """Run the jobs in their order until they or the seconds are used up; what is under way then is dropped."""
    end, results, waiting = time.monotonic() + (seconds or float("inf")), stored(path), iter(jobs)
    running: dict[Future[list[Any]], Job] = {}
    pool = ProcessPoolExecutor(processes)
    while True:
        while len(running) < 2 * processes and (job := next(waiting, None)) is not None:
            running[pool.submit(job.make, *job.arguments, job.numbers)] = job
        done, _ = wait(running, timeout=min(max(end - time.monotonic(), 0.0), 3600.0), return_when=FIRST_COMPLETED)
        for future in done:
            job = running.pop(future)
            results.setdefault(job.key, {}).update({str(number): one for number, one in zip(job.numbers, future.result())})
        if done:
            keep(path, results)
        if not running or time.monotonic() >= end:
            break
    for process in list((pool._processes or {}).values()) if running else []:
        process.terminate()
    pool.shutdown(wait=False, cancel_futures=True)
