"""Width of the intervals of `method="auto"` and of `method="statistics"`, for the table in docs/intervals.md.

    python benchmarks/widths_statistics.py

    python benchmarks/widths_statistics.py --only tenth

Linear regression, zero-out, δ = 1e-6 (half of 1/n where that is less), in widths of the non-private interval: mean over three
draws, two from a million rows on, of the median coefficient's. "evenly" are uniform columns in their bounds, "mixed" those of the
study of coverage, "tenth" normal ones with a deviation of a tenth of their declared range.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np

import dperm
from dperm.words.notices import PrivacyWarning

sys.path.insert(0, str(Path(__file__).resolve().parent))
from coverage_intervals import DELTA, Columns, mixed, ordinary, slopes

CELLS = ((50_000, 5, 1.0), (50_000, 20, 1.0), (50_000, 20, 3.0), (200_000, 5, 1.0), (200_000, 20, 1.0), (1_000_000, 5, 1.0))
MANY = 1_000_000


def evenly(rng: np.random.Generator, n: int, d: int) -> Columns:
    return Columns(rng.uniform(-1, 1, (n, d)), -np.ones(d), np.ones(d), np.full(d, 3**-0.5))


def tenth(rng: np.random.Generator, n: int, d: int) -> Columns:
    return Columns(np.clip(rng.normal(0, 0.2, (n, d)), -1, 1), -np.ones(d), np.ones(d), np.full(d, 0.2))


def width(columns: Columns, y: np.ndarray, epsilon: float, method: str, seed: int) -> float:
    """NaN where the method gives no intervals."""
    model = dperm.LinearRegression(
        epsilon=epsilon, delta=min(DELTA, 0.5 / len(y)), bounds=(columns.low, columns.high), y_bounds=(-8, 8),
        relation="zero-out", intervals=True, method=method, random_state=seed,
    )  # fmt: skip
    table = model.fit(columns.X, y).summary()
    stated = getattr(table, "standard_error", None)
    return float("nan") if stated is None else float(np.median(stated[: columns.X.shape[1]] / ordinary(columns.X, 1.0)))


def main() -> None:
    warnings.simplefilter("ignore", PrivacyWarning)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="designs whose name holds this text")
    parser.add_argument("--least", type=int, default=0, help="cells of at least so many rows")
    given = parser.parse_args()
    designs = {"evenly": evenly, "mixed": mixed, "tenth": tenth}
    for name, design in ((name, design) for name, design in designs.items() if given.only in name):
        for n, d, epsilon in (cell for cell in CELLS if cell[0] >= given.least):
            found: dict[str, list[float]] = {"auto": [], "statistics": []}
            for seed in range(3 if n < MANY else 2):
                rng = np.random.default_rng([seed, n, d, 7])
                columns = design(rng, n, d)
                y = columns.X @ slopes(columns) + 0.3 + rng.standard_normal(n)
                for method, widths in found.items():
                    widths.append(width(columns, y, epsilon, method, seed))
            shown = " | ".join(f"{np.mean(widths):.2f}" for widths in found.values())
            print(f"| {name} | {n:,} | {d} | {epsilon:g} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
