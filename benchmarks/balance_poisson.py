"""Balance of counts: predicted total over observed total, on the rows that were fitted, for lines and curves; resumable.

    python benchmarks/balance_poisson.py                 # lines: about twenty minutes on one core
    python benchmarks/balance_poisson.py --seeds 2 --sizes 5000
    python benchmarks/balance_poisson.py --curves --seeds 3 --sizes 50000 --jobs 16

Protocol: δ = 1e-6, relation replace-one (the default), everything default; seed s draws the table and the noise. Observed
counts are cut at the declared bound, as in the fit. Synthetic tables have five columns, three of which matter; their largest
count is declared generously. `--curves` fits `GAMRegressor(loss="poisson")` in the place of `PoissonRegressor`, and "curved
rate 1" is a table that a line cannot follow. The tables in `docs/theorems/poisson.md` are written anew from
`results/balance_poisson.json` and `results/balance_curves.json`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import dperm

HERE = Path(__file__).resolve().parent
DATA = HERE.parent.parent / "shared" / "data"
RESULTS = {False: HERE / "results" / "balance_poisson.json", True: HERE / "results" / "balance_curves.json"}
PAGE = HERE.parent / "docs" / "theorems" / "poisson.md"
MARKS = {
    False: ("<!-- balance: benchmarks/balance_poisson.py -->", "<!-- end of balance -->"),
    True: ("<!-- balance of curves: benchmarks/balance_poisson.py --curves -->", "<!-- end of the balance of curves -->"),
}
EPSILONS = (0.3, 1.0, 3.0)
SIZES = (5_000, 50_000, 100_000)
REAL = ("bike_sharing_hour", "randhie")
SLOPES = np.array([1.5, -1.0, 0.5, 0.0, 0.0])

# name: (mean count at exposure 1, largest count declared, exposed, extra variation)
SYNTHETIC: dict[str, tuple[float, float, bool, str]] = {
    "rate 0.1": (0.1, 10, False, "none"),
    "rate 0.11": (0.11, 10, False, "none"),
    "rate 1": (1.0, 10, False, "none"),
    "rate 10": (10.0, 80, False, "none"),
    "rate 0.1, exposures": (0.1, 10, True, "none"),
    "rate 1, exposures": (1.0, 10, True, "none"),
    "rate 10, exposures": (10.0, 80, True, "none"),
    "negative binomial": (1.0, 40, False, "gamma"),
    "heavy tail": (1.0, 100, False, "log-normal"),
}
CURVED = "curved rate 1"  # for curves alone


def synthetic(name: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, float]:
    """Rows in [0, 1]⁵, counts, exposures (0.1 to 1, or none) and the declared largest count."""
    rate, largest, exposed, variation = (1.0, 10, False, "none") if name == CURVED else SYNTHETIC[name]
    rng = np.random.default_rng(1000 + seed)
    X = rng.uniform(0, 1, (n, len(SLOPES)))
    # E[exp(⟨x, slopes⟩)] is a product of (e^b - 1)/b
    level = np.prod([np.expm1(b) / b for b in SLOPES if b])
    mean = rate * np.exp(X @ SLOPES) / level
    if name == CURVED:
        mean = rate * np.exp(1.5 * np.cos(9 * X[:, 0]) - X[:, 1]) / 1.0
    exposure = rng.choice([0.1, 0.25, 0.5, 1.0], n) if exposed else None
    mean = mean if exposure is None else mean * exposure
    if variation == "gamma":
        mean = mean * rng.gamma(0.5, 2.0, n)
    if variation == "log-normal":
        mean = mean * np.exp(1.2 * rng.normal(size=n) - 0.72)
    return X, rng.poisson(mean), exposure, largest


def balance(name: str, n: int, epsilon: float, seed: int, curves: bool = False) -> float:
    options: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-6, "random_state": seed}
    kind: Any = dperm.PoissonRegressor
    if curves:
        kind, options = dperm.GAMRegressor, {**options, "loss": "poisson"}
    if name in REAL:
        import pyarrow.parquet as pq

        from dperm.tables.tables import cells

        schema = dperm.Schema.load(DATA / "schemas" / f"{name}.json")
        table = pq.read_table(DATA / f"{name}.parquet")
        table = table.take(np.random.default_rng(seed).permutation(table.num_rows)[:n])
        observed = np.clip(np.asarray(cells(table, schema.target.column), dtype=float), 0, schema.target.high)
        return float(kind(schema=schema, **options).fit(table).predict(table).sum() / observed.sum())
    X, y, exposure, largest = synthetic(name, n, seed)
    longest = None if exposure is None else 1.0
    model = kind(bounds=(0, 1), y_bounds=(0, largest), max_exposure=longest, **options)
    predicted = model.fit(X, y, exposure=exposure).predict(X, exposure)
    return float(predicted.sum() / np.minimum(y, largest).sum())


def cells_wanted(sizes: tuple[int, ...], seeds: int, curves: bool) -> Iterator[tuple[str, int, float, int]]:
    rows = {"bike_sharing_hour": (5_000, 17_379), "randhie": (5_000, 20_190)}
    for seed in range(seeds):
        for name in (*REAL, *SYNTHETIC, *([CURVED] if curves else [])):
            for n in rows.get(name, sizes):
                for epsilon in EPSILONS:
                    yield name, n, epsilon, seed


def table(done: dict[str, float]) -> list[str]:
    """Mean ± standard deviation over seeds, and the share of fits within 1 %."""
    found: dict[tuple[str, int], dict[float, list[float]]] = {}
    for key, value in done.items():
        name, n, epsilon, _ = key.split("|")
        found.setdefault((name, int(n)), {}).setdefault(float(epsilon), []).append(value)
    budgets = " | ".join(f"ε = {epsilon:g}" for epsilon in EPSILONS)
    lines = [f"| counts | n | {budgets} | fits a cell |", "|---" * (3 + len(EPSILONS)) + "|"]
    order = [*REAL, *SYNTHETIC, CURVED]
    for name, n in sorted(found, key=lambda cell: (order.index(cell[0]), cell[1])):
        values = [np.array(found[name, n].get(epsilon, [np.nan])) for epsilon in EPSILONS]
        shown = [f"{v.mean():.3f} ± {v.std(ddof=min(1, len(v) - 1)):.3f} ({np.mean(abs(v - 1) < 0.01):.0%})" for v in values]
        lines.append(f"| {name} | {n:,} | " + " | ".join(shown) + f" | {min(len(v) for v in values)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--curves", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    results, (start, end) = RESULTS[given.curves], MARKS[given.curves]
    done = json.loads(results.read_text()) if results.exists() else {}
    wanted = {
        f"{name}|{n}|{epsilon:g}|{seed}": (name, n, epsilon, seed)
        for name, n, epsilon, seed in cells_wanted(tuple(int(size) for size in given.sizes.split(",")), given.seeds, given.curves)
    }
    waiting = {key: cell for key, cell in wanted.items() if key not in done}
    columns = list(zip(*waiting.values())) or [(), (), (), ()]
    with ProcessPoolExecutor(given.jobs) as pool:
        for key, found in zip(waiting, pool.map(balance, *columns, [given.curves] * len(waiting))):
            done[key] = round(found, 5)
            results.write_text(json.dumps(done, indent=0, sort_keys=True))
            print(f"{key:40} {done[key]:.4f}", flush=True)
    before, rest = PAGE.read_text(encoding="utf-8").split(start)
    after = rest.split(end)[1]
    PAGE.write_text(before + "\n".join([start, *table(done), end]) + after, encoding="utf-8")


if __name__ == "__main__":
    main()
