"""How often the bands of shapes hold the curve that noise moved: repeated fits of the same rows with different noise.

    python benchmarks/coverage_shapes.py --processes 8        # 40 fits a cell; skips cells that are in the results already
    python benchmarks/coverage_shapes.py --table              # print the table of what is there

The truth of a fit is the mean curve of the other fits, centred under its own released marginals: what the same rows and the same
rule give on average over the noise. A band is widened by the error of that mean. Shares are over cells in the middle 99 % of each
released marginal, of all fits and curves. The allowance in `shape_noise.py` was chosen on adult, california housing and diamonds;
the others were not looked at before.
"""

from __future__ import annotations

import argparse
import json
import math
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from accuracy_ours import load

import dperm
from dperm.mechanisms.scaled.shape_noise import crowded

RESULTS = Path(__file__).resolve().parent / "results" / "coverage_shapes.json"
CHOSEN_ON = ("adult", "california_housing", "diamonds")
SETS = (*CHOSEN_ON, "power_plant_ccpp", "protein_casp", "beijing_pm25", "bank_full")
EPSILONS = (0.5, 1.0, 3.0)


@lru_cache(maxsize=1)
def table_of(name: str) -> Any:
    schema, train, _, y, _ = load(name)
    return schema, train, y


def fitted(job: tuple[str, float, int]) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(value, half the band, marginal) of every shape of one fit."""
    name, epsilon, seed = job
    schema, train, y = table_of(name)
    options: dict[str, Any] = {"delta": 1e-6, "relation": "zero-out", "schema": schema, "random_state": seed}
    if schema.target.type == "classes":
        model = dperm.GAMClassifier(epsilon, classes=[str(label) for label in schema.target.classes], **options).fit(train, y)
    else:
        model = dperm.GAMRegressor(epsilon, **options).fit(train, np.clip(y, schema.target.low, schema.target.high))
    shapes = model.shapes_.values()
    return [(shape.value, (shape.band[1] - shape.band[0]) / 2, shape.marginal) for shape in shapes]


def coverage(fits: list[list[tuple[np.ndarray, np.ndarray, np.ndarray]]]) -> dict[str, Any]:
    """Share of cells within their band, for all shapes together and for each, and how wide the bands are beside the curves."""
    wider = math.sqrt(1.0 + 1.0 / (len(fits) - 1))
    inside, width = np.zeros((len(fits), len(fits[0]))), np.zeros(len(fits[0]))
    for place in range(len(fits[0])):
        values = np.array([fit[place][0] for fit in fits])
        for number, fit in enumerate(fits):
            value, reach, marginal = fit[place]
            truth = np.delete(values, number, axis=0).mean(axis=0)
            share = marginal[:-1] / max(float(marginal[:-1].sum()), 1e-300)
            truth, value = truth - share @ truth, value - share @ value
            sure = crowded(marginal)
            inside[number, place] = np.mean(np.abs(value - truth)[sure] <= wider * reach[sure])
            width[place] += float(np.mean(2 * reach[sure])) / len(fits)
    by_fit = inside.mean(axis=1)
    error = float(by_fit.std(ddof=1) / math.sqrt(len(fits)))
    return {"coverage": float(by_fit.mean()), "error": error, "least": float(inside.mean(axis=0).min()), "width": width.tolist()}


def run(sets: list[str], epsilons: list[float], repetitions: int, processes: int) -> None:
    done = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    with ProcessPoolExecutor(processes) as pool:
        for name in sets:
            for epsilon in epsilons:
                key = f"{name}|{epsilon:g}"
                if key in done:
                    continue
                fits = list(pool.map(fitted, [(name, epsilon, seed) for seed in range(repetitions)]))
                done[key] = {**coverage(fits), "fits": repetitions}
                RESULTS.write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")
                print(key, done[key], flush=True)


def table() -> None:
    done = json.loads(RESULTS.read_text(encoding="utf-8"))
    print("| table | ε | coverage, % | worst curve, % |\n|---|---|---|---|")
    for key, cell in done.items():
        name, epsilon = key.split("|")
        print(f"| {name} | {epsilon} | {100 * cell['coverage']:.1f} ± {200 * cell['error']:.1f} | {100 * cell['least']:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS))
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.table:
        table()
    else:
        run(arguments.sets, arguments.epsilons, arguments.repetitions, arguments.processes)


if __name__ == "__main__":
    main()
