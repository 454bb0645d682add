"""Rows of a Spark table: what encoding costs, what a pass costs, beside `ArrowRows` with its cache in the same run.

    python benchmarks/spark_passes.py --rows 1000000,10000000 --columns 20
    python benchmarks/spark_passes.py --rows 50000000 --no-arrow

Writes one line of JSON per size. Passes of both engines alternate, so that a loaded machine slows both. `peak` is the resident
memory of driver, JVM and Python workers together (proportional shares), sampled four times a second.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from statistics import median

import numpy as np

import dperm
from dperm.problem import DataBounds, Interval, LogisticLoss
from dperm.rows import ArrowRows, SparkRows, sum_step
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm


class Memory:
    """Peak of the memory of this process and all below it, while the context is open."""

    def __enter__(self) -> Memory:
        self.peak, self.ended = 0, threading.Event()
        self.watcher = threading.Thread(target=self.watch, daemon=True)
        self.watcher.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.ended.set()
        self.watcher.join()

    def watch(self) -> None:
        while not self.ended.wait(0.25):
            self.peak = max(self.peak, sum(map(resident, family(os.getpid()))))


def family(root: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += parents.get(one, [])
    return found


def resident(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def session(heap: str):
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.memory": heap,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.files.maxPartitionBytes": "32m",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    started = builder.getOrCreate()
    started.sparkContext.setLogLevel("ERROR")
    return started


def made(spark, rows: int, columns: int):
    """A table of remainders of the row number: the same numbers whenever it is computed, by Spark itself."""
    cells = [f"CAST((id % 1000003 * {7919 * j + 13}) % 2001 - 1000 AS FLOAT) / 1000 AS x{j}" for j in range(columns)]
    return spark.range(0, rows, 1, max(rows // 1_000_000, 2)).selectExpr(*cells, "CAST(id % 7 % 2 AS INT) AS y")


def processor_seconds() -> float:
    """User and system time of this process and all below it, those that ended included."""
    total = 0
    for process in family(os.getpid()):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


def timed(work) -> tuple[float, float]:
    """Seconds on the clock, and of the processors, which other people's work on the machine changes little."""
    began, worked = time.perf_counter(), processor_seconds()
    work()
    return time.perf_counter() - began, processor_seconds() - worked


def measure(spark, rows: int, columns: int, passes: int, with_arrow: bool, folder: Path) -> dict[str, object]:
    described = {f"x{j}": {"type": "numeric", "low": -1, "high": 1} for j in range(columns)}
    schema = dperm.Schema.from_dict({"columns": described, "target": {"column": "y", "type": "classes", "classes": [0, 1]}})
    bounds = DataBounds(schema.encoding().norm, Interval(-1, 1), 1.0)
    term = GradientTerm(LogisticLoss(), np.linspace(-1, 1, columns + 1), 0.3, Features(1.0))
    step = sum_step(0.3, rows)
    found: dict[str, object] = {"rows": rows, "columns": columns}
    frame = made(spark, rows, columns)
    with Memory() as memory:
        spread = SparkRows(frame, schema, dtype="float32")
        found["count_s"], found["count_cpu"] = timed(lambda: spread.n)
        kept = []
        found["encode_s"], found["encode_cpu"] = timed(lambda: kept.append(spread.bounded(bounds)))
        found["tasks"] = spread.ready().tasks
        engines = {"spark": kept[0]}
        if with_arrow:
            frame.write.parquet(str(folder / "rows"))
            disk = ArrowRows(folder / "rows", schema, dtype="float32", cache=folder / "cache").bounded(bounds)
            engines["arrow"] = disk
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in engines}
        sums = {}
        for _ in range(passes):
            for name, engine in engines.items():
                times[name].append(timed(lambda engine=engine, name=name: sums.update({name: engine.sum(term, step)})))
    for name, values in times.items():
        later = values[1:] or values  # the first starts workers and imports packages
        found[f"{name}_pass_s"], found[f"{name}_pass_cpu"] = (median(one) for one in zip(*later))
        found[f"{name}_first_s"] = values[0][0]
    found["peak_GB"] = memory.peak / 1e9
    if with_arrow:
        found["same_bits"] = sums["spark"].tobytes() == sums["arrow"].tobytes()
        found["share_of_arrow"] = found["arrow_pass_s"] / found["spark_pass_s"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="1000000")
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--passes", type=int, default=6)
    parser.add_argument("--heap", default="2g")
    parser.add_argument("--no-arrow", action="store_true")
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    warnings.simplefilter("ignore")
    spark = session(options.heap)
    for rows in map(int, options.rows.split(",")):
        with tempfile.TemporaryDirectory() as place:
            found = measure(spark, rows, options.columns, options.passes, not options.no_arrow, Path(place))
        rounded = {key: round(value, 3) if isinstance(value, float) else value for key, value in found.items()}
        print(json.dumps(rounded), flush=True)


if __name__ == "__main__":
    main()
