"""Coverage-guided fuzzing of everything that reads a stranger's file. Needs the package atheris.

    python scripts/fuzz.py -max_total_time=600

Each input is one byte that names a reader and then the file: raw bytes, or the seed of a mutation of a valid record. A reader may
work or raise ValueError; any other exception, and any input that takes more than ten seconds, is a finding.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["dperm"]):
    import numpy as np
    import pyarrow as pa

    import dperm
    from dperm.cli import _defaults
    from dperm.estimators.model_file import model_from_record
    from dperm.estimators.saving import model_record
    from dperm.evaluation.evaluate import Evaluation, evaluate
    from dperm.mechanisms import Gradient
    from dperm.tables.json_files import read_json
    from dperm.tables.schema import Schema
    from dperm.tables.tables import read_table
    from dperm.walk.certificate import Certificate

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))
from hostile import mutated, through_json

SCHEMA = {
    "columns": {
        "a": {"type": "numeric", "low": -1, "high": 1},
        "b": {"type": "categorical", "levels": ["u", "v"], "missing": "its own level"},
    },
    "target": {"column": "y", "type": "classes", "classes": ["no", "yes"]},
}
X = np.random.default_rng(0).uniform(-1, 1, (100, 1))
TABLE = pa.table({"a": X[:, 0], "b": ["u"] * 100, "y": np.where(X[:, 0] > 0, "yes", "no")})
MODEL = dperm.LogisticRegression(epsilon=1, schema=SCHEMA, method=Gradient(steps=2), random_state=0).fit(TABLE)
RECORDS = {
    "model": model_record(MODEL),
    "certificate": json.loads(MODEL.certificate_.to_json()),
    "schema": SCHEMA,
    "evaluation": through_json(evaluate(MODEL, TABLE, epsilon=1, bins=3, random_state=0).record),
}
FOLDER = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(".")


def use(kind: str, record: object) -> None:
    if kind == "model":
        model_from_record(record).predict(TABLE)
    elif kind == "schema":
        schema = Schema.from_dict(record)  # type: ignore[arg-type]
        schema.check(["a", "b", "y"])
        schema.encoded(TABLE)
    elif isinstance(record, dict):
        (Certificate(record) if kind == "certificate" else Evaluation(record)).verify(allow_seeded=True)


def one(data: bytes) -> None:
    if len(data) < 2:
        return
    choice, content = data[0] % 8, data[1:]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if choice < 4:
                kind = list(RECORDS)[choice]
                use(kind, through_json(mutated(RECORDS[kind], int.from_bytes(content[:8], "little"))))
            elif choice == 4:
                use(list(RECORDS)[content[0] % 4], json.loads(content[1:]))
            else:
                file = FOLDER / f"dperm-fuzz{('.json', '.csv', '.toml')[choice - 5]}"
                file.write_bytes(content)
                if choice == 5:
                    use("schema", read_json(file))
                elif choice == 6:
                    table = read_table(file)
                    Schema.from_dict(SCHEMA).check(table.column_names)
                    Schema.from_dict(SCHEMA).encoded(table)
                else:
                    Schema.load(file)
                    _defaults(file, type("Context", (), {"command": None})())  # type: ignore[arg-type]
    except (ValueError, RecursionError):
        pass  # json.loads of raw text may recurse; read_json turns that into a ValueError


if __name__ == "__main__":
    atheris.Setup([*sys.argv, "-timeout=10", "-rss_limit_mb=4096"], one)
    atheris.Fuzz()
