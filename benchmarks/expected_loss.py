"""What a noise ratio cost on the benchmark tables: the table of `dperm.choose.expected`, from the results of docs/accuracy.md.

    python benchmarks/expected_loss.py     # prints the table; no fit is made

A cell is one fit of `accuracy_ours.py`, of `accuracy_more.py` (counts) or of `accuracy_gam.py` (curves): its noise ratio follows
from public numbers, its loss is the score of the non-private fit less its own. Curves have no such fit without privacy: theirs is
the mean score at ε = 3, which docs/theorems/additive.md finds within 0.005 of their limit. For every ratio on a grid, the cells
within a factor of 2.5 give the middle and the band that holds eight of ten; the three lines are then made to rise with the ratio
(isotonic regression).
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


def scores() -> list[tuple[str, str, float, float]]:
    """(kind of score, table, ε, loss) of every stored fit that has one to compare with."""
    files = [HERE / "results" / f"accuracy_{name}.json" for name in ("ours", "peers", "more", "gam")]
    ours, peers, more, curves = (json.loads(file.read_text(encoding="utf-8")) for file in files)
    base = {key.split("|")[1]: cell["score"] for key, cell in peers.items() if key.startswith("non-private|")}
    found = []
    for key, cell in ours.items():
        kind, name, epsilon, _ = key.split("|")
        if kind == "R2":
            found.append(("R²", name, float(epsilon), cell["score"]))  # stored as the difference
        elif kind == "accuracy" and name in base:
            found.append(("accuracy", name, float(epsilon), base[name] - cell["score"]))
    for key, cell in more.items():
        words, epsilon, _ = key.split("|")
        if words.startswith("counts ") and epsilon != "inf":
            found.append(("D²", words.removeprefix("counts "), float(epsilon), more[f"{words}|inf|0"]["score"] - cell["score"]))
    for kind, score in (("R2", "R² of curves"), ("AUROC", "AUROC of curves")):
        chosen = {tuple(key.split("|")): cell for key, cell in curves.items()}
        own = {place[1:]: cell[kind] for place, cell in chosen.items() if place[0] == kind and place[2] == "gam"}
        for (name, _, epsilon, _), value in own.items():
            limit = np.mean([other for place, other in own.items() if place[0] == name and place[2] == "3"])
            found.append((score, name, float(epsilon), float(limit) - value))
    return found


def points() -> dict[str, np.ndarray]:
    """(ratio, loss) of every stored fit, by kind of score."""
    problem = Problem(SquaredLoss(), data=DataBounds(1.0, Interval(-1.0, 1.0)))  # one margin: all that the ratio takes from it
    shapes: dict[str, Shape] = {}
    found: dict[str, list[tuple[float, float]]] = {}
    for kind, name, epsilon, loss in scores():
        if not (DATA / f"{name}.parquet").exists():
            continue
        if name not in shapes:
            schema, train, *_ = load(name)
            shapes[name] = Shape(train.num_rows, schema.encoding().d)
        target = Target.declare(epsilon=epsilon, delta=1e-6, n=shapes[name].n, relation="zero-out")
        found.setdefault(kind, []).append((expected_noise_ratio(problem, shapes[name], target), loss))
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
