"""Accuracy beyond linear classification and regression: counts, a network on digits, a sparse support; resumable.

    python benchmarks/accuracy_more.py                 # everything: about ten minutes on one core
    python benchmarks/accuracy_more.py --jobs counts --seeds 2

Protocol: δ = 1e-6, relation zero-out, everything default; counts on a random 80/20 split with seed 0, digits on the file's own
split. The constants of the Poisson rule were chosen on both of its sets, those of the network on 10,000 rows held out of MNIST's
training set.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
DATA = HERE.parent.parent / "shared" / "data"
RESULTS = HERE / "results" / "accuracy_more.json"
Cell = tuple[str, float, int]


def counts(seeds: int, done: dict[str, Any]) -> Iterator[tuple[Cell, dict[str, float]]]:
    """D² of the Poisson deviance; ε = inf is scikit-learn's PoissonRegressor without a penalty."""
    import pyarrow.parquet as pq
    from sklearn.linear_model import PoissonRegressor as Plain
    from sklearn.metrics import d2_tweedie_score
    from sklearn.model_selection import train_test_split

    import dperm
    from dperm.tables.tables import cells

    for name in ("bike_sharing_hour", "randhie"):
        schema = dperm.Schema.load(DATA / "schemas" / f"{name}.json")
        table = pq.read_table(DATA / f"{name}.parquet")
        train, test = train_test_split(np.arange(table.num_rows), test_size=0.2, random_state=0)
        train, test = table.take(train), table.take(test)
        y, truth = (np.asarray(cells(part, schema.target.column), dtype=float) for part in (train, test))
        for epsilon in (math.inf, 0.1, 0.5, 1.0, 3.0, 8.0):
            for seed in range(1 if math.isinf(epsilon) else seeds):
                if key(("counts " + name, epsilon, seed)) in done:
                    continue
                started = time.perf_counter()
                if math.isinf(epsilon):
                    plain = Plain(alpha=0, max_iter=2000).fit(schema.encoded(train), np.minimum(y, schema.target.high))
                    predicted = np.minimum(plain.predict(schema.encoded(test)), schema.target.high)
                else:
                    options = {"relation": "zero-out", "schema": schema, "random_state": seed}
                    predicted = dperm.PoissonRegressor(epsilon, 1e-6, **options).fit(train).predict(test)
                seconds = time.perf_counter() - started
                score = float(d2_tweedie_score(truth, predicted, power=1))
                yield ("counts " + name, epsilon, seed), {"score": score, "seconds": seconds}


def sparse(seeds: int, done: dict[str, Any]) -> Iterator[tuple[Cell, dict[str, float]]]:
    """How many of ten relevant columns of 1,000 are kept; n = 20,000, neighbouring columns correlated .5, coefficients 1/√j."""
    from scipy.stats import norm

    import dperm

    for seed in range(max(20, seeds)):
        if key(("support of ten in a thousand", 1.0, seed)) in done:
            continue
        rng = np.random.default_rng(seed)
        Z = rng.normal(size=(20000, 1000))
        r = 2 * math.sin(math.pi / 12)
        for j in range(1, 1000):
            Z[:, j] = r * Z[:, j - 1] + math.sqrt(1 - r * r) * Z[:, j]
        X = 2 * norm.cdf(Z) - 1
        support = rng.choice(1000, 10, replace=False)
        y = X[:, support] @ (1 / np.sqrt(np.arange(1, 11))) + rng.normal(size=20000)
        started = time.perf_counter()
        model = dperm.Lasso(1.0, 1e-6, bounds=(-1, 1), y_bounds=(-8, 8), relation="zero-out", random_state=seed).fit(X, y)
        seconds = time.perf_counter() - started
        found = len(set(np.flatnonzero(model.coef_)) & set(support))
        yield ("support of ten in a thousand", 1.0, seed), {"score": float(found), "seconds": seconds}


def digits(seeds: int, done: dict[str, Any]) -> Iterator[tuple[Cell, dict[str, float]]]:
    """Test accuracy of the two-layer network on MNIST."""
    import dperm

    data = np.load(DATA / "mnist.npz")
    X, Z = (data[name].reshape(len(data[name]), -1).astype(np.float32) for name in ("X_train", "X_test"))
    for seed in range(seeds):
        for epsilon in (1.0, 3.0, 0.5, 8.0):
            if key(("network on mnist", epsilon, seed)) in done:
                continue
            started = time.perf_counter()
            model = dperm.MLPClassifier(epsilon, 1e-6, bounds=(0, 255), classes=range(10), random_state=seed)
            model.fit(X, data["y_train"])
            seconds = time.perf_counter() - started
            yield ("network on mnist", epsilon, seed), {"score": model.score(Z, data["y_test"]), "seconds": seconds}


JOBS = {"counts": counts, "sparse": sparse, "digits": digits}


def key(cell: Cell) -> str:
    return f"{cell[0]}|{cell[1]:g}|{cell[2]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    for job in given.jobs.split(","):
        for cell, values in JOBS[job](given.seeds, done):
            done[key(cell)] = values
            RESULTS.write_text(json.dumps(done, indent=0, sort_keys=True))
            print(f"{key(cell):40} {values['score']:.4f}  {values['seconds']:.1f}s", flush=True)


if __name__ == "__main__":
    main()
