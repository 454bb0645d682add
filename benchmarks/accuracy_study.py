"""Cells of the accuracy benchmarks by several processes at once, and the present rule beside its first edition; resumable.

    OPENBLAS_NUM_THREADS=1 python benchmarks/accuracy_study.py lines curves --processes 16
    OPENBLAS_NUM_THREADS=1 python benchmarks/accuracy_study.py paired --seeds 40 --epsilons 0.1 --seconds 120
    python benchmarks/accuracy_study.py --table                          # the third edition against the first

    lines    every cell of accuracy_ours.py, into its results
    curves   every cell of accuracy_gam.py (curves and line with the same seeds), into its results
    paired   cells of accuracy_ours.py by all editions of the rule with the same seeds, into results/accuracy_paired.json
    hard     every cell of accuracy_hard.py, into its results

Protocol: that of the benchmark whose cells they are. `--again` measures cells that are there already once more.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

import accuracy_gam
import accuracy_hard
import accuracy_ours
import numpy as np

RESULTS = Path(__file__).resolve().parent / "results"
FILES = {name: RESULTS / f"accuracy_{file}.json" for name, file in
         {"lines": "ours", "curves": "gam", "paired": "paired", "hard": "hard"}.items()}  # fmt: skip
SLOW_FIRST = ("mnist", "pixels", "strokes", "kddcup99_10pct", "covertype_92k", "covertype_92k:Elevation",
              "covertype_92k:Slope", "w8a", "adult", "bank_full", "a9a")
EDITIONS = {0: "third", 2: "second", 1: "first"}  # 0: what an estimator takes by itself
NO_LINE = ("mnist",)  # sets that have no pair: what the first edition did there is another mechanism's now


class Cell(NamedTuple):
    """One fit: of which study, under which name it is kept, and what it takes."""

    study: str
    key: str
    name: str
    arguments: tuple[Any, ...]


def wanted(study: str, sets: list[str], what: list[str], epsilons: list[float], seeds: range) -> Iterator[Cell]:
    for seed in seeds:
        for epsilon in epsilons:
            if study == "curves":
                for kind, name in accuracy_gam.jobs(sets):
                    for model in ("gam", "line") if kind in what else ():
                        key = f"{kind}|{name}|{model}|{epsilon:g}|{seed}"
                        yield Cell(study, key, name, (name, kind, model, epsilon, seed))
            elif study == "hard":
                for name in set(accuracy_hard.TABLES) & set(sets):
                    if epsilon in accuracy_hard.EPSILONS[name] or np.isinf(epsilon):
                        yield Cell(study, f"{name}|{epsilon:g}|{seed}", name, (name, epsilon, seed))
            else:
                yield from lines(study, sets, what, epsilon, seed)


def lines(study: str, sets: list[str], what: list[str], epsilon: float, seed: int) -> Iterator[Cell]:
    for name, kind, _ in accuracy_ours.jobs(sets):
        allowed = (epsilon == 1.0 if kind == "wide" else name != "mnist" or epsilon >= 0.5) and kind in what
        if allowed and not (study == "paired" and (kind == "wide" or name in NO_LINE)):
            for before in EDITIONS if study == "paired" else (0,):
                key = accuracy_ours.key(kind, name, epsilon, seed)
                key = f"{EDITIONS[before]}|{key}" if study == "paired" else key
                yield Cell(study, key, name, (kind, name, epsilon, seed, before))


def measured(cell: Cell) -> dict[str, Any]:
    """The scores of one cell, in a process of its own."""
    if cell.study == "curves":
        return accuracy_gam.fitted(*cell.arguments)
    if cell.study == "hard":
        return accuracy_hard.measured(*cell.arguments)
    kind, name, epsilon, seed, before = cell.arguments
    job = next(job for found, what, job in accuracy_ours.jobs([name]) if what == kind)
    own = {"before": before} if before else {}
    _, _, _, values = next(iter(job(name, [epsilon], [seed], **own)))
    return values


def run(cells: list[Cell], processes: int, seconds: float) -> None:
    """In the order given, until they or the seconds are used up; what is under way then is dropped."""
    end = time.monotonic() + seconds
    done = {study: json.loads(file.read_text()) if file.exists() else {} for study, file in FILES.items()}
    waiting, running, written = iter(cells), {}, time.monotonic()
    pool = ProcessPoolExecutor(processes)
    while True:
        while len(running) < processes + 2 and (cell := next(waiting, None)) is not None:
            running[pool.submit(measured, cell)] = cell
        finished, _ = wait(running, timeout=max(end - time.monotonic(), 0.0), return_when=FIRST_COMPLETED)
        keep(finished, running, done)
        late = time.monotonic() >= end
        if not running or late or time.monotonic() - written > 5:
            for study in {cell.study for cell in cells}:
                FILES[study].write_text(json.dumps(done[study], indent=0, sort_keys=True) + "\n")
            written = time.monotonic()
        if not running or late:
            break
    for process in list((pool._processes or {}).values()) if running else []:
        process.terminate()
    pool.shutdown(wait=not running, cancel_futures=True)


def keep(finished: set[Future[dict[str, Any]]], running: dict[Future[dict[str, Any]], Cell], done: dict[str, Any]) -> None:
    for future in finished:
        cell = running.pop(future)
        if future.exception() is not None:
            print(f"{cell.study} {cell.key}: {future.exception()!r}", flush=True)
            continue
        done[cell.study][cell.key] = future.result()
        print(f"{cell.study} {cell.key} {next(iter(future.result().values())):.4f}", flush=True)


def differences(done: dict[str, Any], base: str = "first", now: str = "third") -> list[str]:
    """By how much one edition is better than another, log-loss and all, with the standard error of the difference."""
    found: dict[tuple[str, str, float], list[dict[str, float]]] = defaultdict(list)
    for key, values in done.items():
        edition, kind, name, epsilon, seed = key.split("|")
        other = done.get("|".join([base, kind, name, epsilon, seed]))
        if edition == now and other is not None:
            found[kind, name, float(epsilon)].append({"before": other["score"], "now": values["score"]})
    epsilons = sorted({epsilon for _, _, epsilon in found})
    lines = ["| what | data | " + " | ".join(f"ε = {e:g}" for e in epsilons) + " | seeds |", "|---" * (len(epsilons) + 3) + "|"]
    for kind, name in sorted({(kind, name) for kind, name, _ in found}):
        shown, runs = [], []
        for epsilon in epsilons:
            pairs = found.get((kind, name, epsilon), [])
            runs.append(len(pairs))
            shown.append(difference(kind, pairs))
        seeds = "–".join(map(str, sorted(set(runs))))
        lines.append(f"| {kind.replace('R2', 'R²')} | {name} | " + " | ".join(shown) + f" | {seeds} |")
    return lines


def difference(kind: str, pairs: list[dict[str, float]]) -> str:
    if len(pairs) < 2:
        return ""
    gains = np.array([pair["now"] - pair["before"] for pair in pairs]) * (1.0 if kind == "accuracy" else -1.0)
    return f"{gains.mean():+.4f} ± {gains.std(ddof=1) / np.sqrt(len(gains)):.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", choices=[*FILES, []])
    parser.add_argument("--sets", default="")
    parser.add_argument("--what", default="accuracy,log-loss,R2,wide,AUROC")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--epsilons", default="0.1,0.5,1,3")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=1e6)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.table:
        print("\n".join(differences(json.loads(FILES["paired"].read_text()))))
        return
    epsilons, seeds = [float(e) for e in given.epsilons.split(",")], range(given.first_seed, given.first_seed + given.seeds)
    every = [*accuracy_ours.CLASSIFICATION, *accuracy_ours.REGRESSION, "mnist", *accuracy_gam.EVERY]
    sets = given.sets.split(",") if given.sets else [*every, *accuracy_hard.TABLES]
    cells = [cell for study in given.studies for cell in wanted(study, sets, given.what.split(","), epsilons, seeds)]
    if not given.again:
        kept = {study: json.loads(file.read_text()) if file.exists() else {} for study, file in FILES.items()}
        cells = [cell for cell in cells if cell.key not in kept[cell.study]]
    place = {name: rank for rank, name in enumerate(SLOW_FIRST)}
    cells.sort(key=lambda cell: place.get(cell.name, len(place)))
    run(cells, given.processes, given.seconds)


if __name__ == "__main__":
    main()
