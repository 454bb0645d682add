"""Coverage of the error bars of `dperm profile` by simulation; writes the table of docs/how-to/profile.md.

    python benchmarks/coverage_profile.py                # 300 repetitions of every cell
    python benchmarks/coverage_profile.py --page         # write the table from the stored results

A repetition draws noise anew for a fixed table, through the library's own stages, and asks of every number whether its error bar
holds what the counted rows have, computed from the rows without noise or bins (values cut to the range that the profile states).
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dperm.profiles import terms as of
from dperm.profiles.numbers import LOOK_NAMES, described
from dperm.profiles.plan import decide, plan_profile, term_of
from dperm.profiles.profile import program, question_about
from dperm.profiles.rows import looked_at
from dperm.release import driver
from dperm.release.noise import SeededNoise
from dperm.release.plan import Shape, Target
from dperm.rows.base import Block
from dperm.rows.memory import MemoryRows

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "coverage_profile.json"
PAGE = HERE.parent / "docs" / "how-to" / "profile.md"
BEGIN, END = "<!-- coverage: written by benchmarks/coverage_profile.py -->", "<!-- end of coverage -->"
SIZES, EPSILONS, LEVEL, LEAST = (1000, 5000), (0.3, 1.0, 3.0), 0.95, 0.94
SCHEMA = {
    "columns": {
        "age": {"type": "numeric", "low": 0, "high": 1000},
        "income": {"type": "numeric", "bounds": "private"},
        "city": {"type": "categorical", "levels": ["a", "b", "c", "d"]},
        "flag": {"type": "boolean"},
    }
}


def table_of(n: int) -> pd.DataFrame:
    """Ages with gaps, log-normal incomes, a skewed balance of both signs, dates, cities, words, and flags."""
    rng = np.random.default_rng(n)
    days = pd.Timestamp("2012-01-01") + pd.to_timedelta(rng.integers(0, 3000, n), unit="D")
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n).astype(float),
            "income": np.exp(rng.normal(10, 1.5, n)),
            "balance": 100 * rng.standard_t(3, n),
            "since": days.strftime("%Y-%m-%d"),
            "city": rng.choice(["a", "b", "c", "d", "e"], n, p=[0.45, 0.3, 0.15, 0.07, 0.03]),
            "flag": rng.choice(["yes", "no"], n),
        }
    )
    table.loc[rng.uniform(size=n) < 0.1, "age"] = np.nan
    return table


class Case:
    """A table, what is asked about it, and the person limit."""

    def __init__(self, n: int, schema: Any = None, per_person: int = 1, target: str | None = None) -> None:
        table = table_of(n)
        if target is not None:
            table["balance"] += 2 * (table["age"].fillna(54) - 54) + 60 * (table["flag"] == "yes")
        self.question, _ = question_about(list(table.columns), schema, target, correlations=target is not None)
        self.looked, self.n, self.per_person = looked_at(table, self.question), n, per_person

    def once(self, epsilon: float, seed: int, relation: str = "replace-one") -> dict[str, list[bool]]:
        """One draw of noise: for every kind of number, whether each error bar holds."""
        target = Target.declare(epsilon=epsilon, delta=1e-6, n=self.n, relation=relation, rows_per_person=self.per_person)
        plan = plan_profile(self.question, Shape(self.n, len(self.question.columns)), target)
        rows = MemoryRows(self.looked.X, np.zeros(self.n))
        outcome = driver.run(program(plan, self.question, self.looked.words), plan, rows, SeededNoise(seed))
        told = described(plan, self.question, outcome.released, LEVEL)
        return self.held(told, decide(plan, self.question, outcome.released))

    def held(self, told: Mapping[str, Any], found: Any) -> dict[str, list[bool]]:
        block = Block(self.looked.X, np.zeros(self.n), None, 0)
        hits: dict[str, list[bool]] = defaultdict(list)

        def check(kind: str, bar: Mapping[str, Any], truth: float) -> None:
            if bar["value"] is not None:
                room = 1e-9 * max(abs(truth), 1.0)
                hits[kind].append(bool(bar["low"] - room <= truth <= bar["high"] + room))

        counts = term_of("counts", self.question, found, self.looked.words)
        check("rows", told["rows"], float(self.n))
        for j, (column, known) in enumerate(zip(told["columns"], found)):
            exact = counts.part(j, self.looked.X, np.ones(self.n))
            check("share missing", column["missing"], exact[-1] / self.n)
            if "reads_as" in column:
                seen = of.Looks((j,))(block)
                for name, truth in zip(LOOK_NAMES, seen):
                    check("type", column["reads_as"][name], truth)
            for entry, truth in zip(column.get("counts", []), exact):
                check("level", entry, truth)
            if known.scale is None:
                continue
            for entry, truth in zip(column["histogram"]["counts"], exact):
                check("histogram", entry, truth)
            term = of.Octaves((j,), (known.kind,))
            x, there = term.seen(0, self.looked.X)
            values = np.clip(x[there], known.scale.low, known.scale.high)
            for entry in column["quantiles"]:
                check("quantile", entry, float(np.quantile(values, entry["share"], method="inverted_cdf")))
            check("mean", column["mean"], float(values.mean()))
            check("spread", column["spread"], float(values.std()))
            if "correlation" in column:
                joint = term_of("joint", self.question, found, self.looked.words)
                v, vv, t, tt, vt, count = joint.part(joint.columns.index(j), self.looked.X, np.ones(self.n))
                spreads = vv * count - v * v, tt * count - t * t
                # A column that is one value within the range that was found has no correlation, only rounding.
                if spreads[0] > 1e-9 * vv * count and spreads[1] > 1e-9 * tt * count:
                    check("correlation", column["correlation"], (vt * count - v * t) / math.sqrt(spreads[0] * spreads[1]))
        return hits


CASES = {
    "declared": lambda n: Case(n, SCHEMA),
    "no schema": lambda n: Case(n),
    "no schema, 3 rows a person": lambda n: Case(n, None, 3),
    "correlations with a class": lambda n: Case(n, None, 1, "flag"),
    "correlations with a number": lambda n: Case(n, SCHEMA, 1, "age"),
}


def coverage(case: Case, epsilon: float, repetitions: int, first: int = 0) -> dict[str, tuple[float, float, int]]:
    """kind → (share of bars that hold, its standard error over repetitions, how many bars)."""
    shares: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for seed in range(first, first + repetitions):
        for kind, hits in case.once(epsilon, seed).items():
            shares[kind].append((sum(hits), len(hits)))
    answer = {}
    for kind, pairs in shares.items():
        hits, bars = np.array(pairs, dtype=float).T
        mean = hits.sum() / bars.sum()
        error = math.sqrt(float(((hits - mean * bars) ** 2).sum())) / bars.sum()
        answer[kind] = (float(mean), float(error), int(bars.sum()))
    return answer


def page(results: Mapping[str, Any]) -> str:
    """A line per kind of number: all cells together, and the cell (of at least 30 bars) where the fewest hold."""
    lines = ["| kind of number | error bars | hold | lowest of the cells |", "|---|---:|---:|---:|"]
    for kind in dict.fromkeys(kind for kinds in results.values() for kind in kinds):
        cells = {name: kinds[kind] for name, kinds in results.items() if kind in kinds and kinds[kind][2] >= 30}
        bars = sum(found[2] for found in cells.values())
        share = sum(found[0] * found[2] for found in cells.values()) / bars
        lowest = min(cells, key=lambda name: cells[name][0])
        mean, error, _ = cells[lowest]
        name, n, epsilon = lowest.split("|")
        where = f"{100 * mean:.1f} % ± {100 * error:.1f} ({name}, n = {int(n):,}, ε = {epsilon})"
        where += " significantly below 94 %" if mean + 3 * error < LEAST else ""
        lines.append(f"| {kind} | {bars:,} | {100 * share:.1f} % | {where} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--repetitions", type=int, default=300)
    given = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if not given.page:
        for name, make in CASES.items():
            for n in SIZES:
                for epsilon in EPSILONS:
                    cell = f"{name}|{n}|{epsilon:g}"
                    if cell not in results:
                        results[cell] = coverage(make(n), epsilon, given.repetitions, 10_000 * len(results))
                        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    text = PAGE.read_text(encoding="utf-8")
    start, stop = text.index(BEGIN) + len(BEGIN), text.index(END)
    PAGE.write_text(text[:start] + "\n\n" + page(results) + "\n\n" + text[stop:], encoding="utf-8")


if __name__ == "__main__":
    main()
