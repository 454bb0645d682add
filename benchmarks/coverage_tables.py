"""Coverage of the intervals of `intervals=True` on real tables, and what asking for them costs in accuracy; resumable.

    python benchmarks/coverage_tables.py --processes 16
    python benchmarks/coverage_tables.py --only adult --draws 20
    python benchmarks/coverage_tables.py --seconds 300 --results other.json
    python benchmarks/coverage_tables.py --write                       the table of docs/intervals.md from what is measured
    python benchmarks/coverage_tables.py --again                       once more, with seeds that no constant was chosen on
    python benchmarks/coverage_tables.py --first 2000000 --only "n=5000 eps=1" --results fresh.json
                                                                       draws that no rule was chosen on, of neither study

Four fifths of a table are the population, from which n rows are drawn with replacement; the rest is for the scores. "own" is the
interval's own target: the weighted and clipped problem of that very fit, solved on the whole population. "ordinary" is maximum
likelihood or least squares on the population. Scores are log-loss, R² or D² on the last fifth, of the default fit less that of
the fit with intervals (for log-loss the other way round): what asking costs. Zero-out, δ = 1e-6, numeric and boolean columns.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from scipy.special import expit

import dperm
from dperm.mechanisms.registry import mechanism_of_record
from dperm.mechanisms.scaled import inference_settings as rule
from dperm.mechanisms.scaled import whitening
from dperm.problem import Problem
from dperm.rows.base import Block
from dperm.terms.inference import CurvatureMatrix, ScoreSum
from dperm.terms.mixing import Mixing
from dperm.terms.moments import smat

sys.path.insert(0, str(Path(__file__).resolve().parent))
from coverage_intervals import FRESH, write
from resumable import Job, left, measure, merge, stored

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("DPERM_TABLES", ROOT.parent / "shared" / "data"))
RESULTS = ROOT / "benchmarks" / "results" / "coverage_tables.json"
AGAIN = RESULTS.with_stem("coverage_tables_again")
TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "adult": ("logistic", ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")),
    "bank_full": ("logistic", ("age", "balance", "day", "campaign", "pdays", "previous")),
    "covertype_92k": (
        "logistic",
        ("Elevation", "Aspect", "Slope", "Horizontal_Distance_To_Hydrology", "Vertical_Distance_To_Hydrology",
         "Horizontal_Distance_To_Roadways", "Hillshade_9am", "Hillshade_Noon", "Hillshade_3pm",
         "Horizontal_Distance_To_Fire_Points"),
    ),
    "protein_casp": ("linear", tuple(f"F{j}" for j in range(1, 10))),
    "bike_sharing_hour": ("poisson", ("yr", "holiday", "workingday", "temp", "hum", "windspeed")),
}  # fmt: skip
POSITIVE = {"adult": ">50K", "bank_full": "yes", "covertype_92k": 2}
CELLS = [(name, n, epsilon) for name in TABLES for n in (5000, 20_000) for epsilon in (1.0, 3.0)]
DRAWS, DELTA = 60, 1e-6


@cache
def population(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
    """(rows, labels) of the population, those that are held out, and the declared bounds."""
    model, columns = TABLES[name]
    table = pq.read_table(DATA / f"{name}.parquet")
    schema = json.loads((DATA / "schemas" / f"{name}.json").read_text(encoding="utf-8"))
    raw = table.column(schema["target"]["column"]).to_numpy(zero_copy_only=False)
    y = (raw == POSITIVE[name]).astype(np.int64) if model == "logistic" else np.asarray(raw, dtype=np.float64)
    parts, low, high = [], [], []
    for column in columns:
        declared = schema["columns"][column]
        low.append(float(declared.get("low", 0.0)))
        high.append(float(declared.get("high", 1.0)))
        cells = np.asarray(table.column(column).to_numpy(zero_copy_only=False), dtype=np.float64)
        parts.append(np.clip(cells, low[-1], high[-1]))
    X = np.column_stack(parts)
    known = np.isfinite(X).all(axis=1) & np.isfinite(y)
    order = np.random.default_rng(0).permutation(np.flatnonzero(known))
    train, test = order[: 4 * len(order) // 5], order[4 * len(order) // 5 :]
    options: dict[str, Any] = {"bounds": (np.array(low), np.array(high)), "delta": DELTA, "relation": "zero-out"}
    if model == "logistic":
        options["classes"] = [0, 1]
    else:
        target = schema["target"]
        options["y_bounds"] = (float(target.get("low", 0.0)), float(target["high"]))
    return X[train], y[train], X[test], y[test], options


def estimator(name: str, **options: Any) -> Any:
    kinds = {"logistic": dperm.LogisticRegression, "linear": dperm.LinearRegression, "poisson": dperm.PoissonRegressor}
    return kinds[TABLES[name][0]](**population(name)[4], **options)


def newton(gradient: Any, curvature: Any, theta: np.ndarray, rounds: int = 60) -> np.ndarray:
    """A root by damped Newton steps; the field need not be a gradient, so its norm decides."""
    value = gradient(theta)
    for _ in range(rounds):
        step, length = np.linalg.solve(curvature(theta) + 1e-12 * np.eye(len(theta)), value), 1.0
        while length > 1e-4:
            trial = gradient(theta - length * step)
            if np.linalg.norm(trial) < np.linalg.norm(value):
                break
            length /= 2
        else:
            return theta
        theta, value = theta - length * step, trial
        if np.linalg.norm(value) < 1e-11:
            break
    return theta


@cache
def ordinary(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Non-private coefficients on the population, and n times their variance by the sandwich, in the caller's units."""
    X, y, _, _, options = population(name)
    low, high = options["bounds"]
    middle, width = (low + high) / 2, high - low
    Z = np.column_stack([(X - middle) / width, np.ones(len(X))])
    n, model = len(y), TABLES[name][0]

    def mean(theta: np.ndarray) -> np.ndarray:
        scores = Z @ theta
        return expit(scores) if model == "logistic" else np.exp(scores) if model == "poisson" else scores

    def curvature(theta: np.ndarray) -> np.ndarray:
        m = mean(theta)
        weight = m * (1 - m) if model == "logistic" else m if model == "poisson" else np.ones(n)
        return (Z * weight[:, None]).T @ Z / n

    start = np.zeros(Z.shape[1])
    start[-1] = np.log(y.mean()) if model == "poisson" else 0.0
    theta = newton(lambda t: Z.T @ (mean(t) - y) / n, curvature, start)
    inverse, residual = np.linalg.inv(curvature(theta)), mean(theta) - y
    covariance = inverse @ ((Z * (residual**2)[:, None]).T @ Z / n) @ inverse
    return theta[:-1] / width, np.diag(covariance)[:-1] / width**2


def own_target(name: str, model: Any) -> np.ndarray:
    """The slopes that solve the fit's own weighted problem on the whole population."""
    X, y, _, _, _ = population(name)
    decided, plan = model.certificate_.record["decided"], model.plan_
    problem = Problem.from_spec(model.certificate_.record["problem"])
    mechanism = mechanism_of_record(plan.mechanism, plan.options)
    known = mechanism._known(mechanism.public(plan, problem), model.release_.released)
    scaled, features, rate, counts, _ = known
    labels, _, _ = model._labels(y)
    bound = rule.Limits(decided["radius"][-1], decided["clip"][-1], 1.0)
    rows = Mixing(np.asarray(scaled["shift"]), np.asarray(scaled["scale"]), scaled["turn"]).mapped(model._encoded(X))
    block = Block(rows, labels, None, 0)

    def score(theta: np.ndarray) -> Any:
        return rule.score_of(problem, features, theta, bound, rate, counts, 1.0)

    p = X.shape[1] + 1
    theta = newton(
        lambda t: ScoreSum(score(t), bound.radius)(block) / len(y),
        lambda t: smat(CurvatureMatrix(score(t), bound.radius)(block), p) / len(y),
        np.array(model.release_.released["window mean"]),
    )
    slopes = model._encoding.original(whitening.coefficients(theta, scaled, 1.0), 1.0)[0]
    return slopes * ((model._y_high - model._y_low) / 2 if hasattr(model, "_y_low") else 1.0)


def loss_on(name: str, model: Any) -> float:
    """Log-loss, or minus R² or D², on the held-out rows: smaller is better."""
    _, _, X, y, _ = population(name)
    if TABLES[name][0] != "logistic":
        return -float(model.score(X, y))
    share = np.clip(model.predict_proba(X)[:, 1], 1e-12, 1 - 1e-12)
    return float(-np.mean(np.where(y == 1, np.log(share), np.log1p(-share))))


def draw(name: str, n: int, epsilon: float, number: int) -> dict[str, Any]:
    X, y, _, _, _ = population(name)
    rng = np.random.default_rng([number, n, round(100 * epsilon)])
    chosen, seed = rng.integers(0, len(y), n), int(rng.integers(2**31))
    model = estimator(name, epsilon=epsilon, intervals=True, random_state=seed).fit(X[chosen], y[chosen])
    default = estimator(name, epsilon=epsilon, random_state=seed).fit(X[chosen], y[chosen])
    table, d = model.summary(), X.shape[1]
    usual, variance = ordinary(name)

    def hits(truth: np.ndarray) -> str:
        near = np.abs(table.estimate[:d] - truth) <= 1.959964 * table.standard_error[:d]
        return "".join("1" if hit else "0" for hit in near)

    width = float(np.median(table.standard_error[:d] / np.sqrt(variance / n)))
    cost = loss_on(name, model) - loss_on(name, default)
    return {"own": hits(own_target(name, model)), "ordinary": hits(usual), "width": round(width, 4), "cost": round(cost, 6)}


def chunk(name: str, n: int, epsilon: float, numbers: list[int]) -> list[dict[str, Any]]:
    return [draw(name, n, epsilon, number) for number in numbers]


def key(cell: tuple[str, int, float]) -> str:
    return f"{cell[0]} n={cell[1]} eps={cell[2]:g}"


def summarised(found: list[dict[str, Any]]) -> dict[str, float]:
    shares = {side: np.array([[mark == "1" for mark in one[side]] for one in found]) for side in ("own", "ordinary")}
    answer = {"draws": len(found), "width": float(np.median([one["width"] for one in found]))}
    answer["cost"] = float(np.mean([one["cost"] for one in found]))
    for side, hits in shares.items():
        answer |= {side: float(hits.mean()), f"{side} worst": float(hits.mean(axis=0).min())}
    return answer


def jobs(chosen: list[tuple[str, int, float]], draws: int, results: dict[str, Any], first: int) -> Iterator[Job]:
    """A third of every cell first, then the rest; `first` is the number of the first draw."""
    for share in (range(first, first + draws // 3), range(first + draws // 3, first + draws)):
        for cell in chosen:
            for numbers in left(results, key(cell), share, 5 if cell[1] <= 5000 else 2):
                yield Job(key(cell), chunk, cell, numbers)


def table(results: dict[str, Any]) -> str:
    lines = ["| table (model, columns) | n, ε | draws | own: cover / worst | ordinary: cover / worst | width | cost |"]
    lines.append("|---|---|---|---|---|---|---|")
    for cell in CELLS:
        if key(cell) in results:
            found = summarised(list(results[key(cell)].values()))
            name, (model, columns) = cell[0], TABLES[cell[0]]
            shares = " | ".join(f"{found[side]:.1%} / {found[side + ' worst']:.0%}" for side in ("own", "ordinary"))
            text = f"| {name} ({model}, {len(columns)}) | {cell[1]:,}, {cell[2]:g} | {found['draws']} | {shares} "
            lines.append(f"{text}| {found['width']:.1f} | {found['cost']:+.4f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--only", default="", help="cells whose name holds this text")
    parser.add_argument("--seconds", type=float, help="stop after so long")
    parser.add_argument("--again", action="store_true", help="fresh seeds, kept and shown apart")
    parser.add_argument("--first", type=int, help="number of the first draw, for others than those two studies have")
    parser.add_argument("--results", type=Path, help="the file of draws")
    parser.add_argument("--merge", type=Path, nargs="*", help="take the draws of these files in, and measure nothing")
    parser.add_argument("--write", action="store_true", help="write the table of docs/intervals.md and measure nothing")
    given = parser.parse_args()
    path: Path = given.results or (AGAIN if given.again else RESULTS)
    if given.merge:
        merge(path, given.merge)
    if given.write:
        write("repeated tables" if given.again else "tables", table(stored(path)), script="coverage_tables")
    if given.merge or given.write:
        return
    chosen = [cell for cell in CELLS if given.only in key(cell)]
    first = given.first if given.first is not None else FRESH if given.again else 0
    measure(path, jobs(chosen, given.draws, stored(path), first), given.processes, given.seconds)


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read by the children, each of which takes one core
    main()
