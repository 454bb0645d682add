"""DP-EBM (interpret): the private additive model that tables are usually given to; `accuracy_peers.py` calls this too.

    python benchmarks/accuracy_ebm.py --sets power_plant_ccpp --epsilons 1 --seeds 5             # its defaults
    python benchmarks/accuracy_ebm.py --sets power_plant_ccpp --epsilons 1 --tune                # 32 settings, one seed each
    python benchmarks/accuracy_ebm.py --table                                                    # default and best so far

Tables travel as numeric columns with their declared bounds and nominal columns, on the splits of accuracy_ours.py; the label
range is declared in a regression, and predictions are clipped to it. δ = 1e-6, `composition="gdp"`, everything else as it comes.
"Tuned" is the best of 4 learning rates × 4 round counts × 2 leaf counts, for each score by itself, chosen on the test set:
nobody has that honestly, it is a bar. Its environment is made under benchmarks/.envs on first use, or named by DPERM_EBM_PYTHON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
DATA = HERE / ".envs" / "raw"
RESULTS = HERE / "results" / "accuracy_ebm.json"
CLASSIFICATION = ("adult", "bank_full", "covertype_92k")
REGRESSION = ("power_plant_ccpp", "california_housing", "protein_casp", "diamonds", "beijing_pm25")
EPSILONS = (0.1, 0.5, 1.0, 3.0)
DEFAULT = (0.01, 300, 3)
SETTINGS = tuple(product((0.01, 0.03, 0.1, 0.3), (10, 30, 100, 300), (3, 6)))
SCORES = {"AUROC": max, "accuracy": max, "log-loss": min, "R2": max}


def export(name: str) -> Path:
    """Numeric columns as numbers, the others as the place of their level; labels 0/1 or numbers."""
    file = DATA / f"{name}.npz"
    if file.exists():
        return file
    import accuracy_ours

    from dperm.tables.cells import codes, numbers, truth
    from dperm.tables.tables import cells

    schema, *tables, y, z = accuracy_ours.load(name)
    kept = [column for column in schema.columns if column.type != "ignored"]
    numeric = np.array([column.type in ("numeric", "sparse") for column in kept])
    parts = {"numeric": numeric, "low": [column.low or 0.0 for column in kept], "high": [column.high or 1.0 for column in kept]}
    for side, table, labels in (("train", tables[0], y), ("test", tables[1], z)):
        columns = []
        for column in kept:
            raw = cells(table, column.name)
            if column.type in ("numeric", "sparse"):
                value = numbers(raw)
                value = np.clip(np.where(np.isfinite(value), value, (column.low + column.high) / 2), column.low, column.high)
            else:
                value = truth(raw) if column.type == "boolean" else codes(raw, column.levels)
            columns.append(np.nan_to_num(np.asarray(value, dtype=np.float64), nan=-1.0))
        parts[f"X_{side}"] = np.column_stack(columns)
        if schema.target.type == "classes":
            parts[f"y_{side}"] = (labels == str(schema.target.classes[1])).astype(np.int64)
        else:
            parts[f"y_{side}"] = np.clip(labels, schema.target.low, schema.target.high)
            parts["target"] = [schema.target.low, schema.target.high]
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(file, **parts)
    return file


def key(settings, name: str, epsilon: float, seed: int) -> str:
    rate, rounds, leaves = settings
    return f"{rate:g},{rounds},{leaves}|{name}|{epsilon:g}|{seed}"


# -- in the environment of interpret -----------------------------------------------------------------------------------


def frame(data, side: str):
    """Nominal columns hold words, so that they are read as such."""
    import pandas

    columns = {
        f"c{j}": values if data["numeric"][j] else np.char.add("l", values.astype(int).astype(str)).astype(object)
        for j, values in enumerate(data[f"X_{side}"].T)
    }
    return pandas.DataFrame(columns)


def fitted(data, epsilon: float, seed: int, settings) -> dict[str, float]:
    """Scores of one fit."""
    from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

    rate, rounds, leaves = settings
    bounds = {f"c{j}": (data["low"][j], data["high"][j]) for j in np.flatnonzero(data["numeric"])}
    options = {
        "epsilon": epsilon, "delta": 1e-6, "learning_rate": rate, "max_rounds": rounds, "max_leaves": leaves,
        "feature_types": ["continuous" if numeric else "nominal" for numeric in data["numeric"]], "privacy_bounds": bounds,
        "random_state": seed, "n_jobs": 1,
    }  # fmt: skip
    y = data["y_test"]
    if "target" in data:
        low, high = data["target"]
        model = DPExplainableBoostingRegressor(privacy_target_min=low, privacy_target_max=high, **options)
        guess = np.clip(model.fit(frame(data, "train"), data["y_train"]).predict(frame(data, "test")), low, high)
        return {"R2": float(1 - np.mean((guess - y) ** 2) / np.var(y))}
    from sklearn.metrics import roc_auc_score

    model = DPExplainableBoostingClassifier(**options).fit(frame(data, "train"), data["y_train"])
    p = model.predict_proba(frame(data, "test"))[:, 1]
    loss = -np.mean(np.log(np.clip(np.where(y == 1, p, 1 - p), 1e-12, None)))
    return {"AUROC": float(roc_auc_score(y, p)), "log-loss": float(loss), "accuracy": float(np.mean((p > 0.5) == (y == 1)))}


def work(name: str, cells: list) -> None:
    """One line of JSON per finished cell."""
    import warnings

    warnings.simplefilter("ignore")
    data = dict(np.load(DATA / f"{name}.npz"))
    for settings, epsilon, seed in cells:
        started = time.perf_counter()
        scores = fitted(data, epsilon, seed, settings)
        line = {"key": key(settings, name, epsilon, seed), **scores, "seconds": time.perf_counter() - started}
        print(json.dumps(line), flush=True)


# -- in ours -----------------------------------------------------------------------------------------------------------


def python() -> str:
    if "DPERM_EBM_PYTHON" in os.environ:
        return os.environ["DPERM_EBM_PYTHON"]
    import accuracy_peers

    return accuracy_peers.interpreter("interpret")


def run(sets, epsilons, seeds: int, tune: bool, until: float) -> None:
    done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    started = time.monotonic()
    for name in sets:
        plain = [(DEFAULT, e, s) for e in epsilons for s in range(seeds)]
        cells = plain + ([(settings, e, 0) for settings in SETTINGS for e in epsilons] if tune else [])
        cells = [cell for cell in dict.fromkeys(cells) if key(*cell[:1], name, *cell[1:]) not in done]
        if not cells or time.monotonic() - started > until:
            continue
        export(name)
        worker = subprocess.Popen([python(), __file__, "--work", json.dumps([name, cells])], stdout=subprocess.PIPE, text=True)
        for line in worker.stdout:  # type: ignore[union-attr]
            found = json.loads(line)
            name_of_cell = found.pop("key")
            done[name_of_cell] = found
            RESULTS.write_text(json.dumps(done, indent=0, sort_keys=True) + "\n")
            print(name_of_cell, {label: round(value, 4) for label, value in found.items()}, flush=True)
            if time.monotonic() - started > until:
                worker.terminate()
                break
        if worker.wait() not in (0, -15):
            print(f"DP-EBM failed on {name}; the other tables go on", file=sys.stderr)


def cells_of(done, name: str, epsilon: float, score: str) -> tuple[list[float], float | None, int]:
    """(scores of the defaults, best score of the grid once all of it was tried, how many settings were)."""
    here = {k: v for k, v in done.items() if k.split("|")[1:3] == [name, f"{epsilon:g}"] and score in v}
    plain = [v[score] for k, v in here.items() if k.startswith(key(DEFAULT, name, epsilon, 0).split("|")[0] + "|")]
    grid = {k.split("|")[0]: v[score] for k, v in here.items() if k.endswith("|0")}
    return plain, SCORES[score](grid.values()) if len(grid) == len(SETTINGS) else None, len(grid)


def table() -> None:
    done = json.loads(RESULTS.read_text())
    print("| what | data | settings | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " |")
    print("|---" * (len(EPSILONS) + 3) + "|")
    rows = [(score, name) for name in CLASSIFICATION for score in ("AUROC", "log-loss", "accuracy")]
    for score, name in [*rows, *(("R2", name) for name in REGRESSION)]:
        found = [cells_of(done, name, epsilon, score) for epsilon in EPSILONS]
        if not any(plain for plain, _, _ in found):
            continue
        runs = min(len(plain) for plain, _, _ in found)
        cells = [f"{np.mean(plain):.4f} ± {np.std(plain):.4f}" if plain else "–" for plain, _, _ in found]
        print(f"| {score} | {name} | default, {runs} seeds | " + " | ".join(cells) + " |")
        cells = ["–" if best is None else f"{best:.4f} ({tried})" for _, best, tried in found]
        print(f"| {score} | {name} | tuned on the test set (settings) | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join((*REGRESSION, *CLASSIFICATION)))
    parser.add_argument("--epsilons", default=",".join(f"{e:g}" for e in EPSILONS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--until", type=float, default=float("inf"), help="stop after so many seconds; the next call goes on")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--work", default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work is not None:
        return work(*json.loads(given.work))
    if not given.table:
        epsilons = [float(e) for e in given.epsilons.split(",")]
        run(given.sets.split(","), epsilons, given.seeds, given.tune, given.until)
    table()


if __name__ == "__main__":
    main()
