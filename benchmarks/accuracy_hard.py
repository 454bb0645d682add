"""Five made tables on which the untuned rule is known to be under strain, each beside the non-private line; resumable.

    python benchmarks/accuracy_hard.py                        # all, 5 seeds, ε = 0.1, 1, 3 (images: 1 and 3)
    python benchmarks/accuracy_hard.py --tables counts --seeds 2
    python benchmarks/accuracy_hard.py --table                # print what is there

    tails     fifty heavy-tailed columns (log-normal, Student t with 2.5 degrees) in bounds a hundred deviations wide; two classes
    counts    counts that are zero nearly nine times in ten; D² of the Poisson deviance
    pixels    784 pixels of ten blurred patterns, neighbours correlated; ten classes
    strokes   784 pixels of ten shapes of four strokes, drawn anew for every row: as in MNIST four pixels of five are black, and
              the 10, 30, 100 largest components hold 47, 70, 90 % of the variance (MNIST 50, 74, 92 %; pixels 64, 88, 99 %)
    faint     3,000 rows, ten columns, the best line has an R² of about 0.15

Protocol: δ = 1e-6, relation zero-out, everything default. Seed s draws the table and the noise. Scores are of fresh rows, and
the bar is the non-private line of the same table: 0.01 accuracy, 10 % of D² or 0.03 R² below it at ε = 1 (images: ε = 3).
"""

from __future__ import annotations

import argparse
import json
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from accuracy_pictures import mean_and_error

RESULTS = Path(__file__).resolve().parent / "results" / "accuracy_hard.json"
FRESH = 20_000
EVERY = (0.1, 1.0, 3.0)
EPSILONS = {"tails": EVERY, "counts": EVERY, "pixels": EVERY[1:], "strokes": EVERY[1:], "faint": EVERY}
BARS = {"tails": (1.0, 0.01), "counts": (1.0, 0.1), "pixels": (3.0, 0.01), "strokes": (3.0, 0.01), "faint": (1.0, 0.03)}

WHY_NOT = (
    "The made pixels fall short because columns that vary little tell their classes apart: a tenth of the columns have a standard",
    "deviation of less than 1/800 of their bounds. A non-private softmax on the 100, 200, 400 largest components scores .794, .848, .880 (seed 0),",
    "and they hold 98.5, 99.6, 99.98 % of the variance; the line has .931. Version 0.6.0 scored .838 on these rows, 0.7.0 .908, and",
    "this one .917: it releases squares in three steps and draws in the few directions that stand far out (the wide form in",
    "docs/theorems/scaled-heads.md). A float copy says what is left, as means over the five seeds (two draws of noise, or one without):",
    "",
    "| variant | accuracy |",
    "|---|---|",
    "| the rule | .931 |",
    "| exact scale of every column | .931 |",
    "| no noise in the gradients | .934 |",
    "| no noise in the gradients, and a flow 5 times as long | .940 |",
    "| non-private line | .945 |",
    "",
    "So a third of the gap is noise, and most of the rest is flow that the noise does not allow. On strokes (15,000 rows) 30, 100, 200",
    "components score .894, .907, .902.",
)


def tails(seed: int):
    """Half of the columns are log-normal in [0, 500], half Student t in [-250, 250]; a third of them matter."""
    rng = np.random.default_rng([1, seed])
    n = 30_000 + FRESH
    latent = rng.normal(size=(n, 50)) + 0.5 * rng.normal(size=(n, 1))
    X = np.exp(1.0 * latent)
    X[:, 25:] = rng.standard_t(2.5, size=(n, 25))
    slopes = np.where(np.arange(50) % 3 == 0, rng.choice([-1.0, 1.0], 50), 0.0)
    signal = np.column_stack([latent[:, :25], np.arctan(X[:, 25:])]) @ slopes
    y = (signal + 1.5 * rng.logistic(size=n) > np.median(signal)).astype(int)
    low, high = np.where(np.arange(50) < 25, 0.0, -250.0), np.where(np.arange(50) < 25, 500.0, 250.0)
    return np.clip(X, low, high), y, {"bounds": (low, high), "classes": [0, 1]}


def counts(seed: int):
    """Eight columns, mean count 0.12: 89 % zeros."""
    rng = np.random.default_rng([2, seed])
    X = rng.uniform(0, 1, (50_000 + FRESH, 8))
    margin = X @ np.array([1.5, -1.0, 0.8, 0.5, 0.0, 0.0, 0.0, 0.0])
    y = rng.poisson(0.12 * np.exp(margin) / np.mean(np.exp(margin)))
    return X, y, {"bounds": (0, 1), "y_bounds": (0, 20)}


def pixels(seed: int):
    """Ten smooth patterns of 28 × 28 pixels, three variants each, with smooth noise, cut to [0, 255]; the edge is mostly 0."""
    from scipy.ndimage import gaussian_filter

    rng = np.random.default_rng([3, seed])
    n = 40_000 + FRESH // 4
    shapes = gaussian_filter(rng.normal(size=(30, 28, 28)), (0, 2.5, 2.5))
    shapes /= shapes.std(axis=(1, 2), keepdims=True)
    y, variant = rng.integers(10, size=n), rng.integers(3, size=n)
    X = np.empty((n, 784), dtype=np.float32)
    window = np.exp(-(((np.arange(28) - 13.5) / 9.0) ** 4))
    for first in range(0, n, 5_000):
        part = slice(first, min(first + 5_000, n))
        noise = gaussian_filter(rng.normal(size=(part.stop - first, 28, 28)), (0, 1.5, 1.5))
        image = shapes[3 * y[part] + variant[part]] + noise / noise.std() - 0.5
        X[part] = (np.clip(image, 0.0, 3.0) * 85.0 * np.outer(window, window)).reshape(-1, 784)
    return X, y, {"bounds": (0, 255), "classes": range(10)}


def strokes(seed: int):
    """Ten polylines through five points; a row moves the points, turns and shifts them, and has a pen of its own width. How far
    the points move was set so that the non-private line is about as good as on MNIST."""
    rng = np.random.default_rng([5, seed])
    n = 40_000 + FRESH // 4
    points, y = rng.uniform(0.15, 0.85, (10, 5, 2)), rng.integers(10, size=n)
    grid = ((np.indices((28, 28)).reshape(2, -1).T + 0.5) / 28).astype(np.float32)
    X = np.empty((n, 784), dtype=np.float32)
    for first in range(0, n, 2_500):
        part = slice(first, min(first + 2_500, n))
        k = part.stop - first
        turn = 0.2 * rng.normal(size=k)
        rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        moved = points[y[part]] + 0.07 * rng.normal(size=(k, 5, 2)) - 0.5
        moved = (np.einsum("abk,kpb->kpa", rotation, moved) + 0.5 + 0.03 * rng.normal(size=(k, 1, 2))).astype(np.float32)
        near = np.full((k, 784), 9.0, dtype=np.float32)
        for a in range(4):
            stroke = moved[:, a + 1] - moved[:, a]
            away = grid[None] - moved[:, None, a]
            along = np.einsum("kgi,ki->kg", away, stroke) / np.maximum(np.sum(stroke**2, axis=1), 1e-9)[:, None]
            away -= np.clip(along, 0, 1)[:, :, None] * stroke[:, None]
            np.minimum(near, np.sqrt(np.sum(away**2, axis=-1)), out=near)
        X[part] = np.clip((rng.uniform(0.05, 0.08, (k, 1)) - near) / 0.03, 0, 1) * 255
    return X, y, {"bounds": (0, 255), "classes": range(10)}


def faint(seed: int):
    """Ten correlated columns; the target lies in a range some five deviations wide on either side."""
    rng = np.random.default_rng([4, seed])
    n = 3_000 + FRESH
    X = np.tanh(rng.normal(size=(n, 10)) + 0.5 * rng.normal(size=(n, 1)))
    line = X @ rng.normal(size=10)
    y = np.sqrt(0.15) * line / line.std() + np.sqrt(0.85) * rng.normal(size=n)
    return X, y, {"bounds": (-1, 1), "y_bounds": (-5, 5)}


TABLES = {"tails": tails, "counts": counts, "pixels": pixels, "strokes": strokes, "faint": faint}
IMAGES = ("pixels", "strokes")


@lru_cache(maxsize=1)
def split(name: str, seed: int):
    X, y, declared = TABLES[name](seed)
    n = len(X) - (FRESH // 4 if name in IMAGES else FRESH)
    return X[:n], y[:n], X[n:], y[n:], declared


def plain(name: str, X, y, Z, z, declared) -> float:
    """Score of the non-private line on scaled columns."""
    from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if name == "counts":
        return float(PoissonRegressor(alpha=0, max_iter=1000).fit(X, y).score(Z, z))
    if name == "faint":
        return float(LinearRegression().fit(X, y).score(Z, z))
    line = LogisticRegression(C=0.02 if name in IMAGES else 1.0, max_iter=300)
    return float(make_pipeline(StandardScaler(), line).fit(X, y).score(Z, z))


def private(name: str, epsilon: float, seed: int, X, y, Z, z, declared) -> float:
    import dperm

    kinds: dict[str, Any] = {
        "tails": dperm.LinearSVC,
        "counts": dperm.PoissonRegressor,
        "pixels": dperm.LogisticRegression,
        "strokes": dperm.LogisticRegression,
        "faint": dperm.LinearRegression,
    }
    model = kinds[name](epsilon, delta=1e-6, relation="zero-out", random_state=seed, **declared)
    return float(model.fit(X, y).score(Z, z))


def measured(name: str, epsilon: float, seed: int) -> dict[str, float]:
    """Score of one cell; an infinite ε is the non-private line."""
    parts, started = split(name, seed), time.perf_counter()
    score = plain(name, *parts) if np.isinf(epsilon) else private(name, epsilon, seed, *parts)
    return {"score": score, "seconds": time.perf_counter() - started}


def run(tables, seeds: int, epsilons) -> None:
    done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in tables:
        for seed in range(seeds):
            wanted = [np.inf, *(e for e in EPSILONS[name] if e in epsilons)]
            for epsilon in (e for e in wanted if f"{name}|{e:g}|{seed}" not in done):
                done[f"{name}|{epsilon:g}|{seed}"] = found = measured(name, epsilon, seed)
                RESULTS.write_text(json.dumps(done, indent=0, sort_keys=True) + "\n")
                print(f"{name:8} epsilon {epsilon:<4g} seed {seed}  {found['score']:.4f}", flush=True)


def described(done: dict[str, Any]) -> list[str]:
    """The table, line by line."""
    every = sorted({e for cells in EPSILONS.values() for e in cells})
    lines = ["| table | " + " | ".join(f"ε = {e:g}" for e in every) + " | non-private | below it | bar | met | seeds |"]
    lines.append("|---" * (len(every) + 6) + "|")
    for name in TABLES:
        found = {e: seeds_of(done, name, e) for e in (*every, np.inf)}
        if not found[np.inf]:
            continue
        cells = [mean_and_error(list(found[e].values())) for e in every]
        best, (epsilon, room) = float(np.mean(list(found[np.inf].values()))), BARS[name]
        private, plain = found[epsilon], found[np.inf]
        below = mean_and_error([plain[seed] - private[seed] for seed in sorted(set(private) & set(plain))])
        bar = best * (1 - room) if name == "counts" else best - room
        met = "" if not private else "yes" if np.mean(list(private.values())) >= bar else "no"
        row = [name, *cells, f"{best:.4f}", below, f"{bar:.4f} at ε = {epsilon:g}", met, str(len(plain))]
        lines.append("| " + " | ".join(row) + " |")
    return lines


def seeds_of(done: dict[str, Any], name: str, epsilon: float) -> dict[str, float]:
    """Seed → score of one cell."""
    start = f"{name}|{epsilon:g}|"
    return {key.removeprefix(start): values["score"] for key, values in done.items() if key.startswith(start)}


def table() -> None:
    print("\n".join(described(json.loads(RESULTS.read_text()))))


def main() -> None:
    global RESULTS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", default="0.1,1,3")
    parser.add_argument("--results", type=Path, default=RESULTS, help="another file, to compare two versions")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    RESULTS = given.results
    if not given.table:
        run(given.tables.split(","), given.seeds, [float(e) for e in given.epsilons.split(",")])
    table()


if __name__ == "__main__":
    main()
