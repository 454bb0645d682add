"""Widths of intervals for persons with three rows: their summed scores, and the bound that engines without persons use.

    python benchmarks/widths_persons.py

"summed" is what fits of rows in memory do: a person's scores are added up before they are squared. "bound" is k times the matrix
of single rows, which files and clusters use. Both have the same noise. Linear regression, n = 5,000, d = 5, zero-out, δ = 1e-6,
40 draws, in widths of the non-private interval that knows who belongs together, with the share of slopes that are covered.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

import dperm
from dperm.mechanisms import ScaledInference

sys.path.insert(0, str(Path(__file__).resolve().parent))
from coverage_intervals import DELTA, PERSON, Columns, mixed, robust, slopes

N, D, DRAWS = 5000, 5, 40
DESIGNS = {
    "rows that have nothing in common": (False, 0.0),
    "equal columns, half of the error's variance": (True, 0.5),
    "equal rows": (True, 1.0),
}
METHODS = {"summed": "auto", "bound": ScaledInference(("numeric",) * D)}


def table_of(equal: bool, common: float, rng: np.random.Generator) -> tuple[Columns, np.ndarray, np.ndarray]:
    """Columns, labels and errors; `common` is the part of the errors' variance that a person's rows share."""
    columns = mixed(rng, N, D)
    if equal:
        columns = columns._replace(X=np.repeat(columns.X[: -(-N // PERSON)], PERSON, axis=0)[:N])
    shared = np.repeat(rng.standard_normal(-(-N // PERSON)), PERSON)[:N]
    error = math.sqrt(common) * shared + math.sqrt(1 - common) * rng.standard_normal(N)
    return columns, columns.X @ slopes(columns) + 0.3 + error, error


def main() -> None:
    head = " | ".join(f"{name}: width | covered" for name in METHODS)
    print(f"| a person's rows | ε | {head} |\n|---|---|{'---|---|' * len(METHODS)}")
    for name, (equal, common) in DESIGNS.items():
        for epsilon in (1.0, 3.0):
            found: dict[str, list[tuple[float, float]]] = {method: [] for method in METHODS}
            for number in range(DRAWS):
                columns, y, error = table_of(equal, common, np.random.default_rng([number, 11, round(epsilon)]))
                usual = robust(columns.X, error, rows=PERSON)
                for method, kind in METHODS.items():
                    model = dperm.LinearRegression(
                        epsilon=epsilon, delta=DELTA, bounds=(columns.low, columns.high), y_bounds=(-8, 8), relation="zero-out",
                        intervals=True, max_rows_per_person=PERSON, random_state=number, method=kind,
                    )  # fmt: skip
                    table = model.fit(columns.X, y, groups=np.arange(N) // PERSON).summary()
                    away, stated = np.abs(table.estimate[:D] - slopes(columns)), table.standard_error[:D]
                    found[method].append((float(np.median(stated / usual)), float(np.mean(away <= 1.959964 * stated))))
            shown = [f"{np.median([w for w, _ in part]):.2f} | {np.mean([c for _, c in part]):.1%}" for part in found.values()]
            print(f"| {name} | {epsilon:g} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
