"""Width of the intervals of `method="auto"` and of `method="statistics"`, for the table in docs/intervals.md.

    python benchmarks/widths_statistics.py

Linear regression, zero-out, δ = 1e-6, in widths of the non-private interval: mean over three draws of the median coefficient's.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

import dperm
from dperm.words.notices import PrivacyWarning

sys.path.insert(0, str(Path(__file__).resolve().parent))
from coverage_intervals import DELTA, Columns, mixed, ordinary, slopes

CELLS = ((50_000, 5, 1.0), (50_000, 20, 1.0), (50_000, 20, 3.0), (200_000, 5, 1.0), (200_000, 20, 1.0))


def evenly(rng: np.random.Generator, n: int, d: int) -> Columns:
    return Columns(rng.uniform(-1, 1, (n, d)), -np.ones(d), np.ones(d), np.full(d, 3**-0.5))


def width(columns: Columns, y: np.ndarray, epsilon: float, method: str, seed: int) -> float:
    """NaN where the method gives no intervals."""
    model = dperm.LinearRegression(
        epsilon=epsilon, delta=DELTA, bounds=(columns.low, columns.high), y_bounds=(-8, 8), relation="zero-out",
        intervals=True, method=method, random_state=seed,
    )  # fmt: skip
    table = model.fit(columns.X, y).summary()
    stated = getattr(table, "standard_error", None)
    return float("nan") if stated is None else float(np.median(stated[: columns.X.shape[1]] / ordinary(columns.X, 1.0)))


def main() -> None:
    warnings.simplefilter("ignore", PrivacyWarning)
    for name, design in (("evenly", evenly), ("mixed", mixed)):
        for n, d, epsilon in CELLS:
            found: dict[str, list[float]] = {"auto": [], "statistics": []}
            for seed in range(3):
                rng = np.random.default_rng([seed, n, d, 7])
                columns = design(rng, n, d)
                y = columns.X @ slopes(columns) + 0.3 + rng.standard_normal(n)
                for method, widths in found.items():
                    widths.append(width(columns, y, epsilon, method, seed))
            shown = " | ".join(f"{np.mean(widths):.2f}" for widths in found.values())
            print(f"| {name} | {n:,} | {d} | {epsilon:g} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
