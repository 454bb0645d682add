"""Write a Parquet folder of a given size: float32 columns x0 … x99 and a label, in files of about 200 MB.

    python benchmarks/speed_make_table.py /data/people 20GB

The label follows a logistic model of the columns. `people.schema.json` beside the folder declares the bounds.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = 100
ROWS_PER_FILE = 500_000
SCHEMA = {
    "columns": {f"x{j}": {"type": "numeric", "low": -3, "high": 3} for j in range(COLUMNS)},
    "target": {"column": "y", "type": "classes", "classes": [0, 1]},
}


def write(folder: Path, size: float) -> int:
    """Number of rows written: size / 401 bytes, in whole files but for the last."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = int(size / (4 * COLUMNS + 1))
    truth = np.linspace(-1, 1, COLUMNS, dtype=np.float32)
    for number, first in enumerate(range(0, rows, ROWS_PER_FILE)):
        generator = np.random.default_rng(number)
        X = generator.standard_normal((COLUMNS, min(ROWS_PER_FILE, rows - first)), dtype=np.float32)
        y = (truth @ X + generator.logistic(size=X.shape[1]) > 0).astype(np.int8)
        table = pa.table({f"x{j}": X[j] for j in range(COLUMNS)} | {"y": y})
        place = folder / f"part-{number:05d}.parquet"
        pq.write_table(table, place, compression="none", use_dictionary=False, row_group_size=100_000)
        print(f"\r{first + len(y):,} of {rows:,} rows", end="", file=sys.stderr)
    (folder.parent / f"{folder.name}.schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    print(file=sys.stderr)
    return rows


if __name__ == "__main__":
    from dperm.rows.arrow import byte_count

    write(Path(sys.argv[1]), byte_count(sys.argv[2]))
