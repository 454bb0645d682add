"""Time of an additive model beside the line with the same loss, in turns in one process, and of a large made table.

    python benchmarks/speed_gam.py [--repeats 5] [--rows 500000]

Adult (`../shared/data`, or `DPERM_DATA`) at ε = 1, zero-out, everything default, from a table in memory to the fitted model; then
a made table of 12 numeric columns, a regression and a classification. Bars: Adult at most 3 s and 3 times the line, the large
table at most 60 s. Wall seconds mean little on a busy machine, so processor seconds stand beside them; ratios are of medians.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import dperm

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("DPERM_DATA", HERE.parents[1] / "shared" / "data"))
COMMON: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "relation": "zero-out", "random_state": 0}
COLUMNS = 12


def in_turns(sides: dict[str, Callable[[], Any]], repeats: int) -> dict[str, tuple[float, float]]:
    """Median (wall, processor) seconds of each side, taken in turns after one warm-up each."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for turn in range(repeats + 1):
        for name, run in sides.items():
            began = time.perf_counter(), time.process_time()
            run()
            if turn:
                times[name].append((time.perf_counter() - began[0], time.process_time() - began[1]))
    return {name: tuple(np.median(np.array(values), axis=0).tolist()) for name, values in times.items()}


def adult(repeats: int) -> dict[str, Any]:
    table, options = pq.read_table(DATA / "adult.parquet"), {**COMMON, "schema": dperm.Schema.load(DATA / "schemas/adult.json")}
    sides: dict[str, Callable[[], Any]] = {
        "logistic line": lambda: dperm.LogisticRegression(**options).fit(table),
        "logistic curves": lambda: dperm.GAMClassifier(**options).fit(table),
        "hinge line": lambda: dperm.LinearSVC(**options).fit(table),
        "hinge curves": lambda: dperm.GAMClassifier(loss="hinge", **options).fit(table),
    }
    found: dict[str, Any] = {"seconds": in_turns(sides, repeats)}
    for loss in ("logistic", "hinge"):
        wall, processor = (found["seconds"][f"{loss} curves"][k] / found["seconds"][f"{loss} line"][k] for k in range(2))
        found[f"{loss} curves / line"] = {"wall": wall, "processor": processor}
    return found


def large(rows: int) -> dict[str, Any]:
    """A made table of 12 columns, half of which matter by a curve."""
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, (rows, COLUMNS)).astype(np.float32)
    score = np.cos(3 * X[:, :6]).sum(axis=1) + X[:, 6:].sum(axis=1) + generator.normal(size=rows)
    options: dict[str, Any] = {**COMMON, "bounds": (-1, 1)}
    middle = float(np.median(score))
    sides: dict[str, Callable[[], Any]] = {
        "regression": lambda: dperm.GAMRegressor(y_bounds=(-12, 16), **options).fit(X, score),
        "logistic": lambda: dperm.GAMClassifier(classes=[0, 1], **options).fit(X, (score > middle).astype(int)),
        "hinge": lambda: dperm.GAMClassifier(classes=[0, 1], loss="hinge", **options).fit(X, (score > middle).astype(int)),
    }
    found = {}
    for name, run in sides.items():
        began = time.perf_counter(), time.process_time()
        model = run()
        spent = time.perf_counter() - began[0], time.process_time() - began[1]
        found[name] = {"wall": spent[0], "processor": spent[1], "steps": model.certificate_.record["decided"]["steps"]}
        print(f"{rows:,} × {COLUMNS} {name}: {spent[0]:.1f} s wall, {spent[1]:.1f} s processor", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "speed_gam.json")
    given = parser.parse_args()
    found: dict[str, Any] = {"cores": os.cpu_count(), "load": os.getloadavg()[0], "adult": adult(given.repeats)}
    print(json.dumps(found, indent=1), flush=True)
    found["large"] = {"rows": given.rows, **large(given.rows)} if given.rows else {}
    given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
