"""Additive models beside the line on tables of public collections (`unseen_tables.py`), untuned; resumable, with progress.

    python benchmarks/accuracy_unseen.py FOLDER             # the tables there, 5 seeds; skips cells that are in the results
    python benchmarks/accuracy_unseen.py FOLDER --sets ring --seeds 1
    python benchmarks/accuracy_unseen.py --table            # what is there: cells below the line, means by set and budget

Protocol: δ = 1e-6, zero-out, everything default, logistic loss for AUROC and hinge for accuracy. Each seed has its own random
split (a fifth is for the test), the same for all models, so differences are paired. "before" is the rule of 0.7.0
(`choosier=False`).
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from accuracy_ours import EPSILONS, log_loss, r2
from sklearn.metrics import roc_auc_score
from unseen_tables import CHOSEN, JUDGED

import dperm
from dperm.mechanisms.registry import mechanism_of_plan
from dperm.mechanisms.scaled.additive import Additive

RESULTS = Path(__file__).resolve().parent / "results" / "accuracy_unseen.json"
MODELS = ("line", "gam", "before")
LIMITS = {"R2": 0.005, "AUROC": 0.003, "accuracy": 0.003}
WORDS = {"R2": "R²", "AUROC": "AUROC", "accuracy": "accuracy"}


@lru_cache(maxsize=2)
def table_of(folder: Path, name: str) -> tuple[dperm.Schema, pd.DataFrame]:
    schema = dperm.Schema.load(folder / f"{name}.json")
    text = {column: str for column, spec in schema.spec()["columns"].items() if spec["type"] == "categorical"}
    return schema, pd.read_csv(folder / f"{name}.csv", dtype=text)


def fitted(folder: Path, name: str, what: str, epsilon: float, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The scores of all models on one split."""
    schema, table = table_of(folder, name)
    order = np.random.default_rng(1000 + seed).permutation(len(table))
    test, train = (table.iloc[part].reset_index(drop=True) for part in np.split(order, [len(order) // 5]))
    y, truth = (part[schema.target.column].to_numpy() for part in (train, test))
    options: dict[str, Any] = {"delta": 1e-6, "relation": "zero-out", "schema": schema, "random_state": seed}
    lines = {"R2": dperm.LinearRegression, "AUROC": dperm.LogisticRegression, "accuracy": dperm.LinearSVC}
    curved = {"R2": dperm.GAMRegressor, "AUROC": dperm.GAMClassifier, "accuracy": dperm.GAMClassifier}
    own = {} if what != "accuracy" else {"loss": "hinge"}
    line, gam = lines[what](epsilon, **options).fit(train, y), curved[what](epsilon, **own, **options).fit(train, y)
    rule = replace(mechanism_of_plan(gam.release_.plan, Additive), choosier=False)
    before = curved[what](epsilon, method=rule, **own, **options).fit(train, y)
    for model, fit in zip(MODELS, (line, gam, before)):
        decided = fit.certificate_.record["decided"]
        kernel = [decided["kernel_scale"], decided["kernel_power"]] if "kernel_scale" in decided else None
        yield model, {**scores(fit, what, test, truth), "kernel": kernel}


def scores(fit: Any, what: str, test: pd.DataFrame, truth: np.ndarray) -> dict[str, float]:
    if what == "R2":
        return {what: r2(fit.predict(test), truth)}
    if what == "accuracy":
        return {what: float(np.mean(fit.predict(test) == truth))}
    positive = truth == "it"
    found = float(roc_auc_score(positive, fit.decision_function(test)))
    return {what: found, "log-loss": log_loss(fit.predict_proba(test)[:, 1], positive)}


def jobs(names: list[str]) -> list[tuple[str, str]]:
    wanted = {**CHOSEN, **JUDGED}
    return [(name, what) for name in names for what in (("AUROC", "accuracy") if wanted[name].level else ("R2",))]


def run(folder: Path, names: list[str], epsilons: list[float], seeds: int) -> None:
    done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, what in jobs(names):
        for epsilon in epsilons:
            for seed in range(seeds):
                keys = [f"{what}|{name}|{model}|{epsilon:g}|{seed}" for model in MODELS]
                if all(key in done for key in keys):
                    continue
                found = dict(fitted(folder, name, what, epsilon, seed))
                done |= {key: found[model] for key, model in zip(keys, MODELS)}
            RESULTS.write_text(json.dumps(done, indent=0, sort_keys=True) + "\n")
            print(f"{what:9} {name:18} epsilon {epsilon:<4g}", flush=True)


def differences(done: dict[str, Any], name: str, what: str, epsilon: float) -> dict[str, np.ndarray]:
    """What each rule of curves has above the line, by seed, where it was measured; and "line", the line's own score."""
    seeds = [key.rpartition("|")[2] for key in done if key.startswith(f"{what}|{name}|line|{epsilon:g}|")]
    keys = {model: [f"{what}|{name}|{model}|{epsilon:g}|{seed}" for seed in seeds] for model in MODELS}
    of = {model: np.array([done[key][what] for key in own]) for model, own in keys.items() if all(key in done for key in own)}
    return {model: values if model == "line" else values - of["line"] for model, values in of.items()}


def below(change: np.ndarray, what: str) -> bool:
    """Lower than the line by more than the limit and by two standard errors."""
    return bool(change.mean() < -max(LIMITS[what], 2 * change.std(ddof=1) / len(change) ** 0.5))


def with_error(change: np.ndarray) -> str:
    return f"{change.mean():+.4f} ± {change.std(ddof=1) / len(change) ** 0.5:.4f}"


def lines() -> list[str]:
    """The cells below the line and the means of all, for tables that were chosen on and for those that were not."""
    done, out = json.loads(RESULTS.read_text()), []
    for title, names in (("chosen on", list(CHOSEN)), ("not chosen on", list(JUDGED))):
        cells = [(name, what, epsilon) for name, what in jobs(names) for epsilon in EPSILONS]
        found = {cell: differences(done, *cell) for cell in cells if f"{cell[1]}|{cell[0]}|line|{cell[2]:g}|0" in done}
        out += ["", f"| {title}: cells below the line | ε | line | curves - line | by the rule of 0.7.0 |", "|---" * 5 + "|"]
        for (name, what, epsilon), part in found.items():
            low = {rule: rule in part and below(part[rule], what) for rule in MODELS[1:]}
            if any(low.values()):
                shown = [with_error(part[rule]) + " **below**" * low[rule] if rule in part else "–" for rule in MODELS[1:]]
                out.append(f"| {WORDS[what]}, {name} | {epsilon:g} | {part['line'].mean():.4f} | {' | '.join(shown)} |")
        budgets = " | ".join(f"ε = {e:g}" for e in EPSILONS)
        out += ["", f"| {title}: mean of curves - line | cells | below the line | {budgets} |"]
        out.append("|---" * (len(EPSILONS) + 3) + "|")
        for what in LIMITS:
            for rule, words in (("gam", "now"), ("before", "0.7.0")):
                of = {cell: part[rule] for cell, part in found.items() if cell[1] == what and rule in part}
                parts = [[change.mean() for cell, change in of.items() if cell[2] == e] for e in EPSILONS]
                shown = " | ".join(f"{np.mean(values):+.4f}" if values else "–" for values in parts)
                low = sum(below(change, what) for change in of.values())
                out.append(f"| {WORDS[what]}, {words} | {len(of)} | {low} | {shown} |")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--sets", default=",".join({**CHOSEN, **JUDGED}))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", default="0.1,0.5,1,3")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if not given.table:
        if given.folder is None or not given.folder.is_dir():
            raise SystemExit("Expected the folder that unseen_tables.py wrote, found none. Make it first.")
        warnings.simplefilter("ignore")
        run(given.folder, given.sets.split(","), [float(e) for e in given.epsilons.split(",")], given.seeds)
    print("\n".join(lines()))


if __name__ == "__main__":
    main()
