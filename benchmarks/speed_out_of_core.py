"""Fit a table that is larger than the memory it may use: seconds, passes, rows a second, peak resident memory.

    python benchmarks/speed_make_table.py /data/people 20GB
    python benchmarks/speed_out_of_core.py /data/people --steps 10 --cache /data/people.cache --out results.json

Without --steps the fit takes the default method. The sums over a prefix of 200,000 rows are compared with those in memory, bit
by bit.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

import dperm
from dperm.mechanisms import Gradient
from dperm.problem import DataBounds, Interval, LogisticLoss
from dperm.rows import ArrowRows, MemoryRows, sum_step
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm

PREFIX = 200_000


def resident() -> dict[str, float]:
    """Peak and present resident memory in MB."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {"peak": int(lines["VmHWM"].split()[0]) / 1e3, "now": int(lines["VmRSS"].split()[0]) / 1e3}


def count_passes() -> list[float]:
    """From now on every pass over a table adds its seconds to the list."""
    plain, passes = ArrowRows.sum, []

    def timed(self, term, step):
        began = time.perf_counter()
        value = plain(self, term, step)
        passes.append(time.perf_counter() - began)
        if len(passes) in (1, 2, 5) or len(passes) % 20 == 0:
            print(f"pass {len(passes)}: {passes[-1]:.1f} s, {self.n / passes[-1]:,.0f} rows/s", flush=True)
        return value

    ArrowRows.sum = timed
    return passes


def same_bits(folder: Path, schema: dict, dtype: str) -> bool:
    """The first file, cut to a prefix: sums from disk and in memory."""
    import tempfile

    import pyarrow.parquet as pq

    table = pq.read_table(sorted(folder.glob("*.parquet"))[0]).slice(0, PREFIX)
    with tempfile.TemporaryDirectory() as place:
        pq.write_table(table, Path(place) / "prefix.parquet", row_group_size=70_000)
        disk = ArrowRows(Path(place) / "prefix.parquet", schema, dtype=dtype)
        declared = disk.schema
        y = np.where(table["y"].to_numpy() == 1, 1.0, -1.0)
        memory = MemoryRows(declared.encoded(table).astype(dtype), y, np.ones(len(y)))
        bounds = DataBounds(declared.encoding().norm, Interval(-1, 1), 1.0)
        term = GradientTerm(LogisticLoss(), np.linspace(-1, 1, disk.d + 1), 0.3, Features(1.0))
        step = sum_step(0.3, PREFIX)
        sums = [rows.bounded(bounds).sum(term, step).tobytes() for rows in (disk, memory)]
    return sums[0] == sums[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--memory", default="600MB")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    schema = json.loads((options.folder.parent / f"{options.folder.name}.schema.json").read_text())
    size = sum(file.stat().st_size for file in options.folder.glob("*.parquet"))
    began = time.perf_counter()
    rows = ArrowRows(options.folder, schema, memory=options.memory, cache=options.cache, dtype=options.dtype)
    opened = time.perf_counter() - began
    print(f"{size / 1e9:.2f} GB, {rows.n:,} rows x {rows.d}, opened (and cached) in {opened:.1f} s", flush=True)
    passes = count_passes()
    method = "auto" if options.steps is None else Gradient(steps=options.steps)
    began = time.perf_counter()
    fitted = dperm.LogisticRegression(epsilon=1.0, schema=schema, method=method).fit(rows)
    seconds = time.perf_counter() - began
    found = {
        "bytes": size,
        "rows": rows.n,
        "columns": rows.d,
        "method": fitted.certificate_.mechanism,
        "cached": options.cache is not None,
        "seconds to open": opened,
        "seconds to fit": seconds,
        "passes": len(passes),
        "rows per second": rows.n * len(passes) / sum(passes),
        "resident MB": resident(),
        "memory option": options.memory,
        "verified": bool(fitted.certificate_.verify()),
    }
    found["prefix has the bits of memory"] = same_bits(options.folder, schema, options.dtype)
    print(json.dumps(found, indent=1))
    if options.out:
        known = json.loads(options.out.read_text()) if options.out.exists() else []
        options.out.write_text(json.dumps([*known, found], indent=1))


if __name__ == "__main__":
    main()
