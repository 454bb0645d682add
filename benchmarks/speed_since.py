"""Fits of Adult by this source and by that of an older commit, in turns in one run.

    python benchmarks/speed_since.py [--commit 45fc070] [--repeats 9]

Each source has a process of its own that reads the table once and fits when it is told to; the first fits are not timed. 45fc070
is the last commit before the redesign of version 0.2. Bar: at most 1.3 times its time. `make bench` runs it too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from speed import adult

HERE = Path(__file__).resolve().parent
START = "45fc070"
KINDS: dict[str, dict[str, Any]] = {"default": {}, "zero-out": {"relation": "zero-out"}}


def fit_when_told() -> None:
    """For every kind on standard input, its seconds on the clock and of the processor."""
    import dperm

    found = adult()
    assert found is not None
    table, schema = found
    for line in sys.stdin:
        began = time.perf_counter(), time.process_time()
        dperm.LogisticRegression(epsilon=1.0, schema=schema, **KINDS[line.strip()]).fit(table)
        print(time.perf_counter() - began[0], time.process_time() - began[1], flush=True)


def worker(source: Path) -> subprocess.Popen[str]:
    places = [str(source / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]  # packages may lie on the path that is set
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    command = [sys.executable, str(HERE / "speed_since.py"), "--worker"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def told(process: subprocess.Popen[str], kind: str) -> tuple[float, ...]:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(kind + "\n")
    process.stdin.flush()
    return tuple(map(float, process.stdout.readline().split()))


def since(commit: str = START, repeats: int = 9) -> dict[str, Any]:
    """Median seconds of both sources and their ratios, for each kind of fit."""
    if adult() is None:
        return {"left out": "no adult.parquet"}
    with tempfile.TemporaryDirectory() as place:
        archive = subprocess.run(["git", "-C", str(HERE.parent), "archive", commit, "src"], capture_output=True)
        if archive.returncode:
            return {"left out": f"commit {commit} is not in this clone"}
        subprocess.run(["tar", "-x", "-C", place], input=archive.stdout, check=True)
        sides = {"then": worker(Path(place)), "now": worker(HERE.parent)}
        try:
            return {"commit": commit, **{kind: in_turns(sides, kind, repeats) for kind in KINDS}}
        finally:
            for process in sides.values():
                process.terminate()
                process.wait()


def in_turns(sides: dict[str, subprocess.Popen[str]], kind: str, repeats: int) -> dict[str, Any]:
    times: dict[str, list[tuple[float, ...]]] = {name: [] for name in sides}
    for turn in range(repeats + 1):
        for name, process in sides.items():
            spent = told(process, kind)
            if turn:
                times[name].append(spent)
    middle = {name: np.median(np.array(values), axis=0) for name, values in times.items()}
    seconds = {name: dict(zip(("wall", "processor"), values.tolist())) for name, values in middle.items()}
    ratio = dict(zip(("wall", "processor"), (middle["now"] / middle["then"]).tolist()))
    return {"seconds": seconds, "ratio": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", default=START)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        fit_when_told()
        return
    found = since(given.commit, given.repeats)
    for kind, side in found.items():
        print(kind, side if isinstance(side, str) else {name: round(value, 3) for name, value in side["ratio"].items()}, side)


if __name__ == "__main__":
    main()
