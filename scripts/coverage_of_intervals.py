"""Coverage of the intervals by simulation; writes the table of docs/intervals.md.

    python scripts/coverage_of_intervals.py --draws 1000 --write
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import dperm

PAGE = Path(__file__).resolve().parents[1] / "docs" / "intervals.md"
BEGIN, END = "<!-- coverage: written by scripts/coverage_of_intervals.py -->", "<!-- end of coverage -->"
LINEAR = np.array([0.5, -0.3, 0.2, 0.1])
LOGISTIC = np.array([1.0, -0.5, 0.3])


def linear_draw(rng: np.random.Generator, n: int, epsilon: float, seed: int) -> dperm.LinearRegression:
    X = rng.uniform(-1, 1, (n, 3))
    y = X @ LINEAR[:3] + LINEAR[3] + rng.uniform(-0.5, 0.5, n)
    return dperm.LinearRegression(
        epsilon=epsilon, delta=1e-6, bounds=(-1, 1), y_bounds=(-2, 2), method="statistics", random_state=seed
    ).fit(X, y)


def logistic_draw(rng: np.random.Generator, n: int, epsilon: float, seed: int) -> dperm.LogisticRegression:
    X = rng.uniform(-1, 1, (n, 2))
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-(X @ LOGISTIC[:2] + LOGISTIC[2])))).astype(int)
    model = dperm.LogisticRegression(
        epsilon=epsilon, delta=1e-6, bounds=(-1, 1), classes=[0, 1], method="objective", relation="zero-out", random_state=seed
    ).fit(X, y)
    return model.release_information(X, y, epsilon=epsilon, random_state=seed + 10**6)


def planned_draw(rng: np.random.Generator, n: int, epsilon: float, seed: int) -> dperm.LogisticRegression:
    X = rng.uniform(-1, 1, (n, 2))
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-(X @ LOGISTIC[:2] + LOGISTIC[2])))).astype(int)
    return dperm.LogisticRegression(
        epsilon=epsilon, delta=1e-6, bounds=(-1, 1), classes=[0, 1], intervals=True, method="objective", relation="zero-out",
        random_state=seed,
    ).fit(X, y)


DRAWS = {
    "linear, statistics": (linear_draw, LINEAR),
    "logistic, objective": (logistic_draw, LOGISTIC),
    "logistic, intervals": (planned_draw, LOGISTIC),
}


def coverage(name: str, n: int, epsilon: float, draws: int, seed: int = 1) -> dict[str, float]:
    """Share of intervals that hold the truth, over all coefficients, and the median half-width in sampling standard errors."""
    draw, truth = DRAWS[name]
    rng = np.random.default_rng(seed)
    hits = {0.9: [], 0.95: []}
    lengths = []
    for k in range(draws):
        model = draw(rng, n, epsilon, k)
        for level, found in hits.items():
            interval = model.confidence_interval(level)
            found.append((interval[:, 0] <= truth) & (truth <= interval[:, 1]))
        lengths.append(np.diff(interval, axis=1).mean())
    return {
        "at 90 %": float(np.mean(hits[0.9])),
        "at 95 %": float(np.mean(hits[0.95])),
        "worst at 90 %": float(np.mean(hits[0.9], axis=0).min()),
        "worst at 95 %": float(np.mean(hits[0.95], axis=0).min()),
        "length": float(np.median(lengths)),
    }


CASES = [
    ("linear, statistics", 2000, 4.0),
    ("linear, statistics", 10_000, 1.0),
    ("linear, statistics", 10_000, 0.5),
    ("logistic, objective", 5000, 2.0),
    ("logistic, objective", 10_000, 1.0),
    ("logistic, objective", 20_000, 0.5),
    ("logistic, intervals", 5000, 2.0),
    ("logistic, intervals", 10_000, 1.0),
    ("logistic, intervals", 20_000, 0.5),
]


def table(draws: int) -> str:
    lines = [
        "| model | n | ε of the fit | draws | covered at 90 % | covered at 95 % | worst coefficient at 95 % | length at 95 % |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, n, epsilon in CASES:
        found = coverage(name, n, epsilon, draws)
        cells = [f"{found['at 90 %']:.1%}", f"{found['at 95 %']:.1%}", f"{found['worst at 95 %']:.1%}", f"{found['length']:.3f}"]
        lines.append(f"| {name} | {n:,} | {epsilon:g} | {draws:,} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    text = table(given.draws)
    if given.write:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
