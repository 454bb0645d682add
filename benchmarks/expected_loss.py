"""What a noise ratio cost on the benchmark tables: the table of `dperm.choose.expected`, from the results of docs/accuracy.md.

    python benchmarks/expected_loss.py     # prints the table; no fit is made

A cell is one fit of `accuracy_ours.py`: its noise ratio follows from public numbers, its loss is the score of the non-private fit
less its own. For every ratio on a grid, the cells within a factor of 2.5 give the middle and the band that holds eight of ten;
the three lines are then made to rise with the ratio (isotonic regression).
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from accuracy_ours import DATA, load
from sklearn.isotonic import IsotonicRegression

from dperm.mechanisms.scaled.noise_ratio import expected_noise_ratio
from dperm.problem import DataBounds, Interval, Problem, SquaredLoss
from dperm.release.plan import Shape, Target

HERE = Path(__file__).resolve().parent
GRID = tuple(round(10.0**k, 5) for k in np.arange(-3.0, 0.01, 0.25))
REACH, LEAST = 2.5, 10


def points() -> dict[str, np.ndarray]:
    """(ratio, loss) of every stored fit, by kind of score."""
    ours = json.loads((HERE / "results" / "accuracy_ours.json").read_text(encoding="utf-8"))
    peers = json.loads((HERE / "results" / "accuracy_peers.json").read_text(encoding="utf-8"))
    base = {key.split("|")[1]: cell["score"] for key, cell in peers.items() if key.startswith("non-private|")}
    problem = Problem(SquaredLoss(), data=DataBounds(1.0, Interval(-1.0, 1.0)))  # one margin: all that the ratio takes from it
    shapes: dict[str, Shape] = {}
    found: dict[str, list[tuple[float, float]]] = {"accuracy": [], "r2": []}
    for key, cell in ours.items():
        kind, name, epsilon, _ = key.split("|")
        if kind not in ("accuracy", "R2") or not (DATA / f"{name}.parquet").exists():
            continue
        if name not in shapes:
            schema, train, *_ = load(name)
            shapes[name] = Shape(train.num_rows, schema.encoding().d)
        target = Target.declare(epsilon=float(epsilon), delta=1e-6, n=shapes[name].n, relation="zero-out")
        if kind == "accuracy" and name not in base:
            continue
        loss = cell["score"] if kind == "R2" else base[name] - cell["score"]  # stored as the difference for R²
        found["r2" if kind == "R2" else "accuracy"].append((expected_noise_ratio(problem, shapes[name], target), loss))
    return {kind: np.array(pairs) for kind, pairs in found.items()}


def table(pairs: np.ndarray) -> list[tuple[float, float, float, float]]:
    """(ratio, low, middle, high) where enough fits have such a ratio."""
    lines = []
    for ratio in GRID:
        near = pairs[np.abs(np.log(pairs[:, 0] / ratio)) <= math.log(REACH), 1]
        if len(near) >= LEAST:
            lines.append((ratio, *np.quantile(near, [0.1, 0.5, 0.9])))
    rows = np.array(lines)
    for column in (1, 2, 3):
        rows[:, column] = IsotonicRegression().fit_transform(np.arange(len(rows)), rows[:, column])
    return [tuple(round(float(value), 5) for value in row) for row in rows]  # type: ignore[misc]


if __name__ == "__main__":
    for kind, pairs in points().items():
        print(f"{kind}: {len(pairs)} fits, ratios from {pairs[:, 0].min():.2g} to {pairs[:, 0].max():.2g}")
        for row in table(pairs):
            print(f"    {row},")
