"""Sums on a Spark cluster of several processes while workers are killed, tasks fail and stragglers are run twice.

    python benchmarks/spark_cluster.py

A standalone master and two workers with addresses of their own (127.0.0.1 and 127.0.0.2), because Spark starts no copy of a slow
task on the host where it runs; plain `local[2]` neither retries nor speculates. A fit of a few steps runs on many small
partitions. In the first pass one task kills its Python worker (SIGKILL), another raises, and one waits until Spark has started a
copy of it elsewhere. Coefficients, record and number of events must be those of a fit in memory. Prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dperm
from dperm.mechanisms import Gradient
from dperm.rows import SparkRows

SOURCES = str(Path(dperm.__file__).resolve().parents[1])
HERE = str(Path(__file__).resolve().parent)
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.adaptive.enabled": "false",
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "2",
    "spark.speculation.efficiency.enabled": "false",  # it would look at rates of records, of which a task here has one
    "spark.speculation.interval": "200ms",
    "spark.task.maxFailures": "8",
    "spark.executorEnv.PYTHONPATH": f"{SOURCES}:{HERE}",
    "spark.log.level": "OFF",
}


@dataclass(frozen=True)
class Trouble:
    """A task of a pass, before which three partitions get into trouble once. Every start is noted in a file of its own."""

    task: Any
    folder: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        place, attempt = context.partitionId(), context.attemptNumber()
        note = Path(self.folder) / f"stage{context.stageId()}-part{place}-attempt{attempt}"
        note.write_text(str(os.getpid()))
        if attempt == 0 and self.first(f"trouble{place}"):
            if place == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            if place == 2:
                raise RuntimeError("a task that fails once")
            if place == 3:
                copy = note.with_name(note.name.replace("attempt0", "attempt1"))
                for _ in range(1000):
                    time.sleep(0.2)
                    if copy.exists():
                        time.sleep(5)
                        break
        return self.task(batches)

    def first(self, name: str) -> bool:
        try:
            os.close(os.open(Path(self.folder) / name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


class TroubledFrame:
    """The cells of a table, whose passes get into trouble."""

    def __init__(self, frame: Any, folder: str) -> None:
        self.frame, self.folder = frame, folder

    def mapInArrow(self, task: Any, types: str) -> Any:
        return self.frame.mapInArrow(Trouble(task, self.folder), types)


@contextmanager
def cluster(work: str) -> Iterator[str]:
    """The address of a standalone master with two workers, each a process with a host of its own."""
    import pyspark

    home = Path(pyspark.__file__).parent
    paths = f"{SOURCES}:{HERE}"
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": paths, "SPARK_HOME": str(home), "SPARK_LOG_DIR": work}
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    master, start = f"spark://127.0.0.1:{port}", [str(home / "bin/spark-class")]
    deploy = "org.apache.spark.deploy"
    commands = [[*start, f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    for host in ("127.0.0.1", "127.0.0.2"):
        options = ["--host", host, "--cores", "1", "--memory", "1g", "--work-dir", f"{work}/{host}", "--webui-port", "0"]
        commands.append([*start, f"{deploy}.worker.Worker", *options, master])
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = [subprocess.Popen(command, start_new_session=True, **quiet) for command in commands]
    try:
        yield master
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGTERM)
        for process in processes:
            process.wait(30)


def session(master: str) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def run(partitions: int = 12, rows: int = 20_000, steps: int = 3) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, (rows, 4))
    table = pd.DataFrame(X, columns=list("abcd")).assign(y=(X[:, 0] + generator.logistic(size=rows) > 0).astype(int))
    described = {name: {"type": "numeric", "low": -1, "high": 1} for name in "abcd"}
    schema = dperm.Schema.from_dict({"columns": described, "target": {"column": "y", "type": "classes", "classes": [0, 1]}})
    options = {"epsilon": 1.0, "method": Gradient(steps=steps), "random_state": 5}
    expected = dperm.LogisticRegression(schema=schema, **options).fit(table)
    with tempfile.TemporaryDirectory() as work, cluster(work) as master:
        spark = session(master)
        table.to_parquet(f"{work}/people.parquet")
        notes = Path(work) / "notes"
        notes.mkdir()
        spread = SparkRows(spark.read.parquet(f"{work}/people.parquet").repartition(partitions), schema)
        kept = spread.ready()
        kept.frame = TroubledFrame(kept.frame, str(notes))
        fitted = dperm.LogisticRegression(**options).fit(spread)
        time.sleep(1)
        starts = [file.name for file in notes.iterdir() if file.name.startswith("stage")]
        workers = {file.read_text() for file in notes.iterdir() if file.name.startswith("stage")}
        spark.stop()
    again = {f"partition {place}": sum(f"-part{place}-" in name for name in starts) - steps for place in (1, 2, 3)}
    stages = {name.split("-")[0] for name in starts}
    return {
        "partitions": partitions,
        "passes": len(stages),
        "tasks_needed": partitions * len(stages),
        "tasks_started": len(starts),
        "started_again": len(starts) - partitions * len(stages),
        "starts_beyond_one": dict(zip(("killed worker", "raised", "straggler"), again.values())),
        "python_workers": len(workers),
        "same_coefficients": fitted.coef_.tobytes() == expected.coef_.tobytes(),
        "same_record": fitted.certificate_.record == expected.certificate_.record,
        "events": len(fitted.plan_.events),
        "verified": bool(fitted.certificate_.verify(allow_seeded=True)),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.modules.setdefault("spark_cluster", sys.modules["__main__"])
    Trouble.__module__ = "spark_cluster"  # executors find it by that name
    print(json.dumps(run()), flush=True)
