"""Fits with a schema that a paid profile filled in, beside fits with the hand-written one, at the same whole budget.

    python benchmarks/accuracy_found.py            # six tables, ε = 1 and 3, five seeds; about ten minutes on one core
    python benchmarks/accuracy_found.py --page     # write the table of docs/how-to/profile.md

A found schema is what `dperm fit --bounds private --levels private` uses: a tenth of μ² for types, codes, levels and ranges, the
rest for the fit. Nothing is declared but the names of the columns and which is the target. 80/20 split with seed 0, or the file's
own.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from sklearn.metrics import accuracy_score, r2_score

import dperm
from dperm.privacy import gaussian_epsilon, gaussian_mu
from dperm.tables.cells import numbers
from dperm.tables.schema import Schema
from dperm.tables.tables import cells

HERE = Path(__file__).resolve().parent
DATA = HERE.parent.parent / "shared" / "data"
RESULTS = HERE / "results" / "accuracy_found.json"
PAGE = HERE.parent / "docs" / "how-to" / "profile.md"
BEGIN, END = "<!-- found: written by benchmarks/accuracy_found.py -->", "<!-- end of found -->"
TABLES = ("adult", "bank_full", "beijing_pm25", "bike_sharing_hour", "california_housing", "diamonds")
EPSILONS, SEEDS, DELTA, SHARE = (1.0, 3.0), 5, 1e-6, 0.1


def parts(name: str) -> tuple[Any, Any, Schema]:
    """Train and test tables with the columns of the hand-written schema, and that schema."""
    schema = Schema.load(DATA / "schemas" / f"{name}.json")
    table = pyarrow.parquet.read_table(DATA / f"{name}.parquet")
    assert schema.target is not None
    used = [column.name for column in schema.columns if column.type != "ignored"] + [schema.target.column]
    if "split" in table.column_names:
        train = np.array([value == "train" for value in table.column("split").to_pylist()])
    else:
        train = np.random.default_rng(0).permutation(len(table)) >= len(table) // 5
    table = table.select(used)
    return table.filter(pa.array(train)), table.filter(pa.array(~train)), schema


def scored(train: Any, test: Any, schema: Schema, target: Any, epsilon: float, seed: int) -> float:
    """Accuracy or R² on the test part, against the labels as the hand-written schema reads them."""
    classes = target.type == "classes"
    kind = dperm.LogisticRegression if classes else dperm.LinearRegression
    model = kind(epsilon=epsilon, delta=DELTA, schema=schema, random_state=seed).fit(train)
    truth = cells(test, target.column)
    predicted = model.predict(test)
    if classes:
        return float(accuracy_score([str(value) for value in truth], [str(value) for value in predicted]))
    values = numbers(truth)
    known = np.isfinite(values)
    return float(r2_score(np.clip(values[known], target.low, target.high), predicted[known]))


def found_schema(train: Any, declared: Schema, epsilon: float, seed: int) -> tuple[Schema, float]:
    """The schema of a profile that spends a tenth of μ², and the ε that is left."""
    assert declared.target is not None
    mu = gaussian_mu(epsilon, DELTA)
    spent = gaussian_epsilon(DELTA * 0.95, math.sqrt(SHARE) * mu)
    column = declared.target.column
    profile = dperm.profile(train, epsilon=spent, delta=DELTA, target=column, parts="schema", random_state=seed)
    return profile.schema(), gaussian_epsilon(DELTA * 0.95, math.sqrt(1 - SHARE) * mu)


def measure(names: tuple[str, ...]) -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for name in names:
        train, test, declared = parts(name)
        for epsilon in EPSILONS:
            written, found = [], []
            for seed in range(SEEDS):
                written.append(scored(train, test, declared, declared.target, epsilon, seed))
                schema, left = found_schema(train, declared, epsilon, 100 + seed)
                found.append(scored(train, test, schema, declared.target, left, seed))
            results[f"{name} | {epsilon:g}"] = {"written": written, "found": found, "types": kinds(schema)}
            print(name, epsilon, f"written {np.mean(written):.4f} found {np.mean(found):.4f}", kinds(schema), flush=True)
            RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def kinds(schema: Schema) -> dict[str, int]:
    found: dict[str, int] = {}
    for column in schema.columns:
        found[column.type] = found.get(column.type, 0) + 1
    return found


def page() -> str:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    lines = ["| table | score | ε | hand-written | found | difference |", "|---|---|---:|---:|---:|---:|"]
    for key, cell in results.items():
        name, epsilon = key.split(" | ")
        score = "accuracy" if Schema.load(DATA / "schemas" / f"{name}.json").target.type == "classes" else "R²"  # type: ignore[union-attr]
        written, found = (np.array(cell[side]) for side in ("written", "found"))
        error = math.sqrt((written.var(ddof=1) + found.var(ddof=1)) / len(written))
        values = f"{written.mean():.4f} | {found.mean():.4f} | {found.mean() - written.mean():+.4f} ± {error:.4f}"
        lines.append(f"| {name} | {score} | {epsilon} | {values} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--only", choices=TABLES)
    given = parser.parse_args()
    if given.page:
        text = PAGE.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{page()}\n\n{END}{rest.split(END)[1]}", encoding="utf-8")
        return
    measure(TABLES if given.only is None else (given.only,))


if __name__ == "__main__":
    main()
