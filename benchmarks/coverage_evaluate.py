"""Coverage of the intervals of `dperm evaluate` by simulation; writes the tables of docs/how-to/evaluate.md.

    python benchmarks/coverage_evaluate.py               # every cell that has no result yet; stop and start it as you like
    python benchmarks/coverage_evaluate.py --page        # write the tables
    python benchmarks/coverage_evaluate.py --redo counts # forget the results of one case
    python benchmarks/coverage_evaluate.py --again       # other seeds than those the rule was made with, and the other relations

A case is a fixed model and a population: a pool of rows drawn once. A repetition draws n rows of the pool with replacement,
spends ε on them through the library's own stages and noise, and asks whether each interval holds the score of the whole pool,
computed without any clip or bin (the calibration error over the bins that the record states).
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom
from sklearn.metrics import f1_score, log_loss, mean_poisson_deviance, roc_auc_score

import dperm
from dperm.evaluation.evaluate import listed_scores, metrics, program
from dperm.evaluation.plan import Question, plan_evaluation
from dperm.evaluation.rows import question_of, scored_rows
from dperm.evaluation.terms import GRID, cell_of
from dperm.release import driver
from dperm.release.noise import SeededNoise
from dperm.release.plan import Shape, Target
from dperm.rows.memory import MemoryRows

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "coverage_evaluate.json"
PAGE = HERE.parent / "docs" / "how-to" / "evaluate.md"
BEGIN, END = "<!-- coverage: written by benchmarks/coverage_evaluate.py -->", "<!-- end of coverage -->"
BEGIN_AGAIN, END_AGAIN = BEGIN.replace("coverage:", "coverage again:"), "<!-- end of coverage again -->"
SECOND = HERE / "results" / "coverage_evaluate_again.json"
RELATIONS, FRESH = ("replace-one", "zero-out", "add-remove"), 1_000_000
PLACES = ((300, 3.0), (1000, 1.0), (1000, 3.0), (5000, 0.3), (5000, 1.0), (5000, 3.0), (50_000, 1.0))
AGAIN = [(n, epsilon, relation) for n, epsilon in PLACES for relation in RELATIONS]
SIZES, EPSILONS = (300, 1000, 5000, 50_000), (0.3, 1.0, 3.0)
POOL, NOMINAL, LEAST = 200_000, 0.95, 0.94
Truth = dict[str, float]


class Case:
    """A question, the scored rows of the pool, and the scores of the whole pool."""

    def __init__(self, question: Question, rows: np.ndarray, known: np.ndarray, truth: Truth) -> None:
        self.question, self.rows, self.known, self.truth = question, rows, known, truth

    def calibration_truth(self, edges: list[int]) -> float:
        """Σ_bins |Σ (label - probability)| per row of the pool."""
        excess = np.bincount(cell_of(self.rows[:, 3]), weights=self.rows[:, 0] - self.rows[:, 3], minlength=GRID)
        return float(np.abs(np.add.reduceat(excess, edges[:-1])).sum() / len(self.rows))

    def once(self, n: int, epsilon: float, seed: int, relation: str) -> tuple[Mapping[str, Any], Truth]:
        """One draw of rows and noise: scores with intervals, and what they should hold. A nominal n is 5 % above the true one."""
        picked = np.random.default_rng([seed, n]).integers(len(self.rows), size=n)
        nominal = round(1.05 * n) if relation == "add-remove" else n
        target = Target.declare(epsilon=epsilon, delta=1e-6, relation=relation, n=nominal)
        plan = plan_evaluation(self.question, Shape(nominal, 2), target)
        rows = MemoryRows(self.rows[picked], self.known[picked], self.known[picked])
        outcome = driver.run(program(plan, self.question), plan, rows, SeededNoise(10**6 * seed + n))
        truth, found = dict(self.truth), metrics(plan, self.question, outcome.released, NOMINAL)
        flat = dict(listed_scores(found))
        if self.question.kind == "binary" and not self.question.groups:
            truth["calibration error"] = self.calibration_truth(outcome.decided["edges"])
            self.at_a_threshold(found["thresholds"]["lines"], flat, truth)
        return flat, truth

    def at_a_threshold(self, lines: list[dict[str, Any]], flat: dict[str, Any], truth: Truth) -> None:
        """The line nearest to one half, as three scores; not known where there is none."""
        line = min(lines, key=lambda one: abs(one["threshold"] - 0.5), default=None)
        positive = self.rows[:, 0] > 0.5
        above = self.rows[:, 3] >= (0.5 if line is None else line["threshold"])
        true = {"recall": above[positive].mean(), "precision": positive[above].mean(), "called positive": above.mean()}
        for name, value in true.items():
            truth[f"{name} at a threshold"] = float(value)
            flat[f"{name} at a threshold"] = {"value": None} if line is None else line[name]


def two_classes(shift: float, slope: float, overconfident: float) -> Case:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((POOL, 2)).clip(-4, 4)
    y = (rng.uniform(size=POOL) < 1 / (1 + np.exp(-(slope * X[:, 0] + shift)))).astype(int)
    model = dperm.LogisticRegression(epsilon=50, bounds=(-4, 4), classes=[0, 1], random_state=0).fit(X[:20000], y[:20000])
    model.w_ = model.w_ * overconfident  # a model that is not calibrated
    question = question_of(model)
    chance = model.predict_proba(X)[:, 1]
    rate = y.mean()
    truth = {
        "accuracy": float(np.mean(model.predict(X) == y)),
        "baseline accuracy": float(max(rate, 1 - rate)),
        "positive share": float(rate),
        "log-loss": float(log_loss(y, chance)),
        "baseline log-loss": float(-rate * math.log(rate) - (1 - rate) * math.log(1 - rate)),
        "auc": float(roc_auc_score(y, chance)),
        "predicted minus observed": float(np.mean(chance - y)),
    }
    return Case(question, *scored_rows(model, question, X, y), truth)


def three_classes() -> Case:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((POOL, 2)).clip(-4, 4)
    y = (X + 0.8 * rng.standard_normal((POOL, 2))).clip(-0.7, 0.7).sum(axis=1)
    y = np.digitize(y, [-0.6, 0.8])
    model = dperm.LogisticRegression(epsilon=50, bounds=(-4, 4), classes=[0, 1, 2], random_state=0).fit(X[:20000], y[:20000])
    question = question_of(model)
    truth = {
        "accuracy": float(np.mean(model.predict(X) == y)),
        "baseline accuracy": float(np.bincount(y).max() / POOL),
        "log-loss": float(log_loss(y, model.predict_proba(X))),
    }
    shares = np.bincount(y) / POOL
    truth["baseline log-loss"] = float(-np.sum(shares * np.log(shares)))
    return Case(question, *scored_rows(model, question, X, y), truth | by_class(model.predict(X), y, [0, 1, 2]))


def by_class(predicted: np.ndarray, y: np.ndarray, labels: list[int]) -> Truth:
    """Recall, precision and macro F1 of the pool, and the F1 of always guessing its largest class."""
    found: Truth = {}
    for k in labels:
        found[f"recall of {k}"] = float(np.mean(predicted[y == k] == k))
        found[f"precision of {k}"] = float(np.mean(y[predicted == k] == k))
    found["macro f1"] = float(f1_score(y, predicted, average="macro"))
    most = np.bincount(y).max() / len(y)
    return found | {"baseline macro f1": float(2 * most / (1 + most) / len(labels))}


def grouped(case: Case, group: np.ndarray, names: tuple[str, ...], truth_of: Callable[[np.ndarray], Truth]) -> Case:
    """A case whose scores are asked for by group; the truth of a group is that of its rows in the pool."""
    truth = {f"{score}, g = {name}": value for g, name in enumerate(names) for score, value in truth_of(group == g).items()}
    question = replace(case.question, by="g", groups=names)
    return Case(question, np.column_stack([case.rows, group]), case.known, truth)


def classes_by_group() -> Case:
    """Two classes in groups of 70, 25 and 5 % of the rows; the model is worst for the smallest."""
    rng = np.random.default_rng(7)
    group = rng.choice(3, POOL, p=[0.7, 0.25, 0.05])
    X = rng.standard_normal((POOL, 2)).clip(-4, 4)
    y = (rng.uniform(size=POOL) < 1 / (1 + np.exp(-((1.5 - 0.7 * group) * X[:, 0] + 0.3)))).astype(int)
    model = dperm.LogisticRegression(epsilon=50, bounds=(-4, 4), classes=[0, 1], random_state=0).fit(X[:20000], y[:20000])
    question, predicted, chance = question_of(model), model.predict(X), model.predict_proba(X)

    def truth(here: np.ndarray) -> Truth:
        found = {"accuracy": float(np.mean(predicted[here] == y[here])), "log-loss": float(log_loss(y[here], chance[here]))}
        found["baseline accuracy"] = float(np.bincount(y[here]).max() / here.sum())
        return found | by_class(predicted[here], y[here], [0, 1])

    return grouped(Case(question, *scored_rows(model, question, X, y), {}), group, ("a", "b", "c"), truth)


def numbers_by_group() -> Case:
    """A regression in the same groups."""
    rng = np.random.default_rng(8)
    group = rng.choice(3, POOL, p=[0.7, 0.25, 0.05])
    X = rng.uniform(-1, 1, (POOL, 2))
    y = np.clip(X[:, 0] + 0.5 * group + 0.9 * rng.standard_normal(POOL), -10, 10)
    model = dperm.LinearRegression(epsilon=50, bounds=(-1, 1), y_bounds=(-10, 10), random_state=0).fit(X[:20000], y[:20000])
    question = question_of(model)
    residual = y - model.predict(X)

    def truth(here: np.ndarray) -> Truth:
        e = residual[here]
        found = {"r2": float(1 - np.mean(e**2) / y[here].var()), "mean error": float(e.mean())}
        found |= {"root mean squared error": float(np.sqrt(np.mean(e**2))), "mean absolute error": float(np.abs(e).mean())}
        return found | {"baseline root mean squared error": float(y[here].std())}

    return grouped(Case(question, *scored_rows(model, question, X, y), {}), group, ("a", "b", "c"), truth)


def numbers(noise: Callable[[np.random.Generator], np.ndarray], bounds: tuple[float, float]) -> Case:
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (POOL, 2))
    y = np.clip(X[:, 0] + noise(rng), *bounds)
    model = dperm.LinearRegression(epsilon=50, bounds=(-1, 1), y_bounds=bounds, random_state=0).fit(X[:20000], y[:20000])
    question = question_of(model)
    residual = y - model.predict(X)
    truth = {
        "r2": float(1 - np.mean(residual**2) / y.var()),
        "root mean squared error": float(np.sqrt(np.mean(residual**2))),
        "mean absolute error": float(np.abs(residual).mean()),
        "mean error": float(residual.mean()),
        "baseline root mean squared error": float(y.std()),
    }
    return Case(question, *scored_rows(model, question, X, y), truth)


def counts(exposed: bool) -> Case:
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (POOL, 2))
    exposure = rng.uniform(0.1, 2.0, POOL) if exposed else np.ones(POOL)
    rate = np.exp(0.3 + X[:, 0] + 0.4 * rng.standard_normal(POOL))  # more varied than Poisson
    y = np.minimum(rng.poisson(exposure * rate), 60)
    more: dict[str, Any] = {"max_exposure": 2.0} if exposed else {}
    model = dperm.PoissonRegressor(epsilon=50, bounds=(-1, 1), y_bounds=(0, 60), random_state=0, **more)
    model.fit(X[:20000], y[:20000], **({"exposure": exposure[:20000]} if exposed else {}))
    question = question_of(model, **more)
    predicted = model.predict(X) * exposure
    constant = y.sum() / exposure.sum() * exposure
    truth = {
        "deviance": float(mean_poisson_deviance(y, predicted)),
        "baseline deviance": float(mean_poisson_deviance(y, constant)),
        "d2": float(1 - mean_poisson_deviance(y, predicted) / mean_poisson_deviance(y, constant)),
        "balance": float(predicted.sum() / y.sum()),
    }
    return Case(question, *scored_rows(model, question, X, y, exposure if exposed else None), truth)


CASES: dict[str, Callable[[], Case]] = {
    "two classes": lambda: two_classes(0.3, 1.5, 1.0),
    "rare class, overconfident model": lambda: two_classes(-3.5, 1.5, 1.4),
    "three classes": three_classes,
    "two classes by group": classes_by_group,
    "regression by group": numbers_by_group,
    "regression": lambda: numbers(lambda rng: 0.9 * rng.standard_normal(POOL), (-10.0, 10.0)),
    "regression, skewed errors": lambda: numbers(lambda rng: 0.9 * (rng.exponential(size=POOL) - 1), (-5.0, 50.0)),
    "counts": lambda: counts(False),
    "counts with exposure": lambda: counts(True),
}


def measure(
    case: Case, n: int, epsilon: float, draws: int, *, first: int = 0, relation: str = "replace-one"
) -> dict[str, dict[str, Any]]:
    """Per score: how often it was known, how often the interval held the truth, and the median half-width."""
    hits: dict[str, list[bool]] = {}
    widths: dict[str, list[float]] = {}
    for seed in range(first, first + draws):
        found, truth = case.once(n, epsilon, seed, relation)
        for name, value in truth.items():
            hits.setdefault(name, [])
            widths.setdefault(name, [])
            score = found[name]
            if score["value"] is not None:
                hits[name].append(bool(score["low"] <= value <= score["high"]))
                widths[name].append((score["high"] - score["low"]) / 2)
    return {
        name: {
            "draws": draws,
            "known": len(held),
            "covered": sum(held),
            "half-width": float(np.median(widths[name])) if held else None,
        }
        for name, held in hits.items()
    }


def stored(file: Path = RESULTS) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def keep(found: Mapping[str, Any], file: Path = RESULTS) -> None:
    """Whole or not at all: whoever reads beside it must not find half a file."""
    part = file.with_suffix(".part")
    part.write_text(json.dumps(found, indent=1), encoding="utf-8")
    part.replace(file)


def run_again(draws: int) -> None:
    """A part of the cells with seeds that no rule was adjusted on, under every relation."""
    for name, build in CASES.items():
        case = None
        for n, epsilon, relation in AGAIN:
            key = f"{name} | {n} | {epsilon:g} | {relation}"
            if key not in stored(SECOND):
                case = build() if case is None else case
                keep({**stored(SECOND), key: measure(case, n, epsilon, draws, first=FRESH, relation=relation)}, SECOND)
                print(key, flush=True)


def page_again() -> str:
    """A line per relation: cells, repetitions, coverage of all of them together, and the weakest."""
    found = stored(SECOND)
    every = [(key, name, v) for key, scores in found.items() for name, v in scores.items() if v["known"]]
    lines = ["| relation | cells | repetitions | all together | weakest cell | significantly below 94 % |", "|---" * 6 + "|"]
    for relation in RELATIONS:
        cells = [(key, name, v) for key, name, v in every if key.endswith(f"| {relation}")]
        tests = [p_value(v["covered"], v["known"]) for _, _, v in cells]
        key, name, v = cells[int(np.argmin(tests))]
        case, n, epsilon, _ = key.split(" | ")
        all_known, all_held = (sum(v[part] for _, _, v in cells) for part in ("known", "covered"))
        weakest = f"{name} of “{case}”, n = {int(n):,}, ε = {epsilon}: {v['covered']} of {v['known']}"
        few = sum(p * len(every) < 0.05 for p in tests)
        repetitions = max(v["draws"] for _, _, v in cells)
        lines.append(f"| {relation} | {len(cells)} | {repetitions} | {all_held / all_known:.1%} | {weakest} | {few} |")
    return "\n".join(lines)


def run(draws: int, only: str | None) -> None:
    for name, build in CASES.items():
        if only is not None and name != only:
            continue
        case = None
        for n in SIZES:
            for epsilon in EPSILONS:
                key, found = f"{name} | {n} | {epsilon:g}", stored()
                if key in found and all(score["draws"] >= draws for score in found[key].values()):
                    continue
                case = build() if case is None else case
                measured = measure(case, n, epsilon, draws)
                found = {**stored(), key: measured}  # read again: another case may be running beside this one
                keep(found)
                said = [f"{score} {v['covered']}/{v['known']}" for score, v in found[key].items()]
                print(key, "; ".join(said), flush=True)


def p_value(covered: int, known: int) -> float:
    """Of so few hits or fewer, if the interval covered 94 % of the time."""
    return float(binom.cdf(covered, known, LEAST)) if known else 1.0


def page() -> str:
    found = stored()
    every = [(key, name, v) for key, scores in found.items() for name, v in scores.items() if v["known"]]
    tests = [p_value(v["covered"], v["known"]) for _, _, v in every]
    worst = int(np.argmin(tests))
    least, significant = min(1.0, tests[worst] * len(tests)), sum(p * len(tests) < 0.05 for p in tests)
    key, name, v = every[worst]
    case, n, epsilon = key.split(" | ")
    lines = [
        f"{len(tests)} cells with {max(v['draws'] for _, _, v in every)} repetitions each. Significantly below {LEAST:.0%} "
        f"(binomial test, Bonferroni over the cells, 5 %): **{significant}**. The weakest cell is the {name} of “{case}” at "
        f"n = {int(n):,}, ε = {epsilon}: {v['covered']} of {v['known']} (corrected p = {least:.2g}).",
    ]
    for case in CASES:
        cells = {tuple(key.split(" | ")[1:]): scores for key, scores in found.items() if key.split(" | ")[0] == case}
        if not cells:
            continue
        names = list(next(iter(cells.values())))
        lines += ["", f"**{case[0].upper()}{case[1:]}**", ""]
        lines += ["| n | ε | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]
        for (n, epsilon), scores in cells.items():
            lines.append(f"| {int(n):,} | {epsilon} | " + " | ".join(_shown(scores[name]) for name in names) + " |")
    return "\n".join(lines)


def _shown(v: Mapping[str, Any]) -> str:
    if not v["known"]:
        return "not known"
    text = f"{v['covered'] / v['known']:.1%}, ±{v['half-width']:.2g}"
    return text if v["known"] == v["draws"] else f"{text} (known {v['known'] / v['draws']:.0%})"


def write(begin: str, end: str, text: str) -> None:
    before, rest = PAGE.read_text(encoding="utf-8").split(begin)
    PAGE.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--only", choices=sorted(CASES))
    parser.add_argument("--redo", choices=sorted(CASES))
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    if given.page:
        write(BEGIN, END, page())
        write(BEGIN_AGAIN, END_AGAIN, page_again())
        return
    if given.again:
        run_again(given.draws)
        return
    if given.redo is not None:
        kept = {key: value for key, value in stored().items() if key.split(" | ")[0] != given.redo}
        keep(kept)
    run(given.draws, given.redo or given.only)


if __name__ == "__main__":
    main()
