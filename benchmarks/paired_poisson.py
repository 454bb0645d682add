"""Two versions of `PoissonRegressor` on the same rows: the difference of D² with a paired standard error.

    python benchmarks/paired_poisson.py --predict old.npz           # with the package of one version on the path
    python benchmarks/paired_poisson.py --predict new.npz           # with that of the other
    python benchmarks/paired_poisson.py --compare old.npz new.npz   # new minus old, as a Markdown table

Protocol of `accuracy_more.py`: one split into 80 % and 20 %, zero-out, δ = 1e-6, everything default. The standard error is that
of a bootstrap over test rows, the same rows for both versions, and over seeds, each version's drawn on its own: 4,000 draws with
a fixed seed. Beside it stands the balance, predicted over observed total, of both versions on the training and the test part.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
TABLES = ("bike_sharing_hour", "randhie")
EPSILONS = (0.5, 1.0, 3.0, 8.0)
DRAWS = 4000


def predict(file: str, seeds: int) -> None:
    """Predictions on the test part, one row per seed, and the totals on the training part."""
    import pandas as pd
    from sklearn.model_selection import train_test_split

    import dperm

    found: dict[str, np.ndarray] = {}
    for name in TABLES:
        schema = dperm.Schema.load(DATA / "schemas" / f"{name}.json")
        target, high = schema.target.column, schema.target.high
        train, test = train_test_split(pd.read_parquet(DATA / f"{name}.parquet"), test_size=0.2, random_state=0)
        found[f"{name} truth"] = test[target].to_numpy(dtype=float)
        observed = np.minimum(train[target].to_numpy(dtype=float), high).sum()
        for epsilon in EPSILONS:
            options = {"relation": "zero-out", "schema": schema}
            fitted = [dperm.PoissonRegressor(epsilon, 1e-6, random_state=seed, **options).fit(train) for seed in range(seeds)]
            found[f"{name} {epsilon:g}"] = np.stack([model.predict(test) for model in fitted])
            found[f"{name} {epsilon:g} train"] = np.array([model.predict(train).sum() / observed for model in fitted])
    np.savez_compressed(file, **found)


def deviances(truth: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """2·(y·log(y/p) - y + p) of every row; y·log y is 0 at y = 0."""
    logs = truth * np.log(np.where(truth > 0, truth, 1.0) / predicted)
    return np.asarray(2.0 * (logs - truth + predicted))


def explained(truth: np.ndarray, units: np.ndarray) -> float:
    """D² of the mean of the seeds' deviances `units`, one row per seed."""
    return float(1.0 - units.mean() / deviances(truth, np.full_like(truth, truth.mean())).mean())


def compared(truth: np.ndarray, old: np.ndarray, new: np.ndarray) -> tuple[float, float, float, float]:
    """D² of both, and the bootstrap's standard errors of their difference: over rows and seeds, and over rows alone."""
    rng = np.random.default_rng(0)
    units = [deviances(truth, part) for part in (old, new)]
    both, rows_alone = [], []
    for _ in range(DRAWS):
        rows = rng.integers(len(truth), size=len(truth))
        null = deviances(truth[rows], np.full(len(rows), truth[rows].mean())).mean()
        means = [part[:, rows].mean(axis=1) for part in units]
        chosen = [mean[rng.integers(len(mean), size=len(mean))].mean() for mean in means]
        both.append((chosen[0] - chosen[1]) / null)
        rows_alone.append((means[0].mean() - means[1].mean()) / null)
    first, second = (explained(truth, part) for part in units)
    return first, second, float(np.std(both)), float(np.std(rows_alone))


def compare(old_file: str, new_file: str) -> None:
    old, new = np.load(old_file), np.load(new_file)
    print("| counts | ε | D² before | D² now | difference | error (rows and seeds; rows) | total, training | total, test |")
    print("|---" * 8 + "|")
    for name in TABLES:
        truth = old[f"{name} truth"]
        for epsilon in EPSILONS:
            key = f"{name} {epsilon:g}"
            before, now, error, rows = compared(truth, old[key], new[key])
            trained = " → ".join(f"{part[f'{key} train'].mean():.3f}" for part in (old, new))
            tested = " → ".join(f"{part[key].sum() / (len(part[key]) * truth.sum()):.3f}" for part in (old, new))
            scores = f"{before:.4f} | {now:.4f} | {now - before:+.4f} | {error:.4f}; {rows:.4f}"
            print(f"| {name} | {epsilon:g} | {scores} | {trained} | {tested} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--predict", metavar="FILE")
    parser.add_argument("--compare", nargs=2, metavar="FILE")
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    if given.predict:
        predict(given.predict, given.seeds)
    if given.compare:
        compare(*given.compare)


if __name__ == "__main__":
    main()
