"""Coverage and width of the intervals of `intervals=True`, on made data; resumable, and as parallel as asked.

    python benchmarks/coverage_intervals.py --processes 16            every cell of the study (hours on two cores)
    python benchmarks/coverage_intervals.py --seconds 300             what fits into that time; a third of every cell first
    python benchmarks/coverage_intervals.py --only small              the cells with n ≤ 5,000
    python benchmarks/coverage_intervals.py --merge other.json        draws of a run elsewhere (--results there)
    python benchmarks/coverage_intervals.py --write                   the tables of docs/intervals.md from what is measured
    python benchmarks/coverage_intervals.py --again                   all cells again, with seeds that no constant was chosen on

Draws are kept in benchmarks/results/coverage_intervals.json, those of `--again` in coverage_intervals_again.json: a run that is
stopped goes on where it was.
"cover" is the share of slopes (not the intercept, but for the 90 % quantiles, whose intercepts count too) whose 95 % interval
holds the truth, "worst" that of the worst slope, "width"
is the median length over that of the non-private interval (least squares, maximum likelihood, the asymptotic one of the median),
and "error" the same ratio for the actual error of the estimate. Data and noise are fresh in every draw.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
from scipy.special import ndtri

import dperm

sys.path.insert(0, str(Path(__file__).resolve().parent))
from resumable import Job, left, measure, merge, stored

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "coverage_intervals.json"
PAGE = ROOT / "docs" / "intervals.md"
AGAIN = RESULTS.with_stem("coverage_intervals_again")
STUDY, REPEATED = "study", "repeated study"
DELTA = 1e-6
FRESH = 1_000_000  # first number of the draws of `--again`; constants were chosen on draws below 300


@dataclass(frozen=True)
class Cell:
    model: str
    design: str
    n: int
    d: int
    epsilon: float
    relation: str
    draws: int

    @property
    def key(self) -> str:
        return f"{self.model} {self.design} n={self.n} d={self.d} eps={self.epsilon:g} {self.relation}"


class Draw(TypedDict):
    hits: str
    width: float
    error: float


class Columns(NamedTuple):
    """Rows with their declared bounds and the deviation of each column, for coefficients of comparable size."""

    X: np.ndarray
    low: np.ndarray
    high: np.ndarray
    deviation: np.ndarray


def mixed(rng: np.random.Generator, n: int, d: int) -> Columns:
    """A third uniform, a third normal with correlation 0.6 between neighbours, a third lognormal in loose bounds."""
    uniform, normal = d // 3, d // 3
    skewed = d - uniform - normal
    chain = correlated(rng, n, normal, 0.6)
    parts = [rng.uniform(-1, 1, (n, uniform)), chain, np.minimum(np.exp(rng.standard_normal((n, skewed))), 12.0)]
    low = np.r_[-np.ones(uniform), np.full(normal, -4.0), np.zeros(skewed)]
    high = np.r_[np.ones(uniform), np.full(normal, 4.0), np.full(skewed, 12.0)]
    return Columns(np.hstack(parts), low, high, np.r_[np.full(uniform, 3**-0.5), np.ones(normal), np.full(skewed, 1.9)])


def chained(rng: np.random.Generator, n: int, d: int) -> Columns:
    """Normal columns with correlation 0.9 between neighbours: the smallest eigenvalue is 0.05."""
    return Columns(correlated(rng, n, d, 0.9), np.full(d, -4.0), np.full(d, 4.0), np.ones(d))


def correlated(rng: np.random.Generator, n: int, d: int, rho: float) -> np.ndarray:
    Z = rng.standard_normal((n, d))
    for j in range(1, d):
        Z[:, j] = rho * Z[:, j - 1] + np.sqrt(1 - rho**2) * Z[:, j]
    return np.clip(Z, -4.0, 4.0)


DESIGNS: dict[str, Callable[[np.random.Generator, int, int], Columns]] = {"mixed": mixed, "AR(0.9)": chained}


def slopes(columns: Columns) -> np.ndarray:
    """Alternating signs and two sizes, of total deviation about 0.75 in the margin for uncorrelated columns."""
    d = columns.X.shape[1]
    return np.array([(-1) ** j * (1.0 if j % 2 == 0 else 0.4) for j in range(d)]) / (np.sqrt(d) * columns.deviation)


def ordinary(X: np.ndarray, weight: np.ndarray | float) -> np.ndarray:
    """Standard errors of slopes by the inverse information Σ weight·xxᵀ, without privacy."""
    design = np.column_stack([X, np.ones(len(X))])
    return np.sqrt(np.diag(np.linalg.inv((design * np.reshape(weight, (-1, 1))).T @ design)))[:-1]


# Size and constant of the log-odds: even classes, 3 % positives, and log-odds of deviation about 4.
LOGITS = {"logistic": (1.3, -0.3), "rare": (1.3, -3.9), "steep": (5.5, 0.0), "weighted": (1.3, -0.3)}
# Constants and sizes of the K - 1 = 2 log-odds of "softmax" against the first class; shares are about 0.47, 0.31 and 0.22.
SOFTMAX = ((-0.4, 1.3), (-0.9, 1.0))
# 90 % quantiles of errors of one size, and of errors whose size follows the last column; intercepts are counted.
HIGH, HIGH_LEVEL = ("quantile .9", "uneven quantile .9"), 0.9
HARDER = (*HIGH, "persons", "weighted", "weighted counts", "skewed", "student", "uneven", "rare", "steep")  # not the plain model
PERSON = 3  # rows of each person of "persons": equal columns, and half of the errors' variance in common


def errors(model: str, rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    """Of variance 1: normal, exponential, Student's t with 4 degrees, or normal with a size that follows the first column."""
    n = len(X)
    if model == "skewed":
        return rng.exponential(size=n) - 1.0
    if model == "student":
        return rng.standard_t(4, n) / np.sqrt(2.0)
    if model == "persons":
        shared = np.repeat(rng.standard_normal(-(-n // PERSON)), PERSON)[:n]
        return (shared + rng.standard_normal(n)) / np.sqrt(2.0)
    size = 0.5 + np.abs(X[:, 0]) / np.abs(X[:, 0]).mean() / 2 if model == "uneven" else 1.0
    return size * rng.standard_normal(n)


def robust(X: np.ndarray, error: np.ndarray, curvature: np.ndarray | float = 1.0, rows: int = 1) -> np.ndarray:
    """Standard errors by the sandwich, whatever the size of the errors; scores of `rows` rows in a row belong together."""
    design = np.column_stack([X, np.ones(len(X))])
    inverse = np.linalg.inv((design * np.reshape(curvature, (-1, 1))).T @ design)
    scores = np.add.reduceat(design * error[:, None], np.arange(0, len(X), rows))
    return np.sqrt(np.diag(inverse @ (scores.T @ scores) @ inverse))[:-1]


def of_classes(columns: Columns, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(labels, true slopes, non-private standard errors) of three classes, slopes of the second class first."""
    X, base = columns.X, slopes(columns)
    truth = np.array([size * (base if k == 0 else base[::-1] * columns.deviation[::-1] / columns.deviation)
                      for k, (_, size) in enumerate(SOFTMAX)])  # fmt: skip
    odds = X @ truth.T + np.array([constant for constant, _ in SOFTMAX])
    odds = np.exp(odds - (X @ truth.T).mean(axis=0))
    shares = np.column_stack([np.ones(len(X)), odds]) / (1 + odds.sum(axis=1, keepdims=True))
    y = (rng.uniform(size=(len(X), 1)) > np.cumsum(shares, axis=1)[:, :-1]).sum(axis=1)
    design, p = np.column_stack([X, np.ones(len(X))]), X.shape[1] + 1
    information = np.zeros((2 * p, 2 * p))
    for a in (1, 2):
        for b in (1, 2):
            weight = shares[:, a] * ((a == b) - shares[:, b])
            information[(a - 1) * p : a * p, (b - 1) * p : b * p] = (design * weight[:, None]).T @ design
    usual = np.sqrt(np.diag(np.linalg.inv(information))).reshape(2, p)[:, :-1]
    return y, truth.ravel(), usual.ravel()


def of_high_quantile(
    cell: Cell, columns: Columns, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(labels, coefficients of their quantile, non-private standard errors), the intercept last in both."""
    X, z = columns.X, float(ndtri(HIGH_LEVEL))
    base, growth = (0.5, 0.25) if cell.model.startswith("uneven") else (1.0, 0.0)
    size = base + growth * X[:, -1]
    y = X @ slopes(columns) + 0.3 + size * rng.standard_normal(cell.n)
    truth = np.r_[slopes(columns), 0.3 + z * base]
    truth[-2] += z * growth
    design = np.column_stack([X, np.ones(cell.n)])
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) / size
    inverse = np.linalg.inv((design * density[:, None]).T @ design)
    return y, truth, np.sqrt(HIGH_LEVEL * (1 - HIGH_LEVEL) * np.diag(inverse @ (design.T @ design) @ inverse))


def draw(cell: Cell, number: int) -> Draw:
    """One data set, one private fit: which slopes are covered, and the median width and error in non-private standard errors."""
    rng = np.random.default_rng([number, cell.n, cell.d, round(100 * cell.epsilon)])
    columns = DESIGNS[cell.design](rng, cell.n, cell.d)
    if cell.model == "persons":
        columns = columns._replace(X=np.repeat(columns.X[: -(-cell.n // PERSON)], PERSON, axis=0)[: cell.n])
    X, truth, given = columns.X, slopes(columns), {}
    options: dict[str, Any] = {
        "epsilon": cell.epsilon,
        "delta": DELTA,
        "bounds": (columns.low, columns.high),
        "relation": cell.relation,
        "intervals": True,
        "random_state": int(rng.integers(2**31)),
    }
    if cell.model in LOGITS:
        size, constant = LOGITS[cell.model]
        truth = size * truth
        share = 1 / (1 + np.exp(-(X @ truth + constant - (X @ truth).mean() * (cell.model == "rare"))))
        y, model = (rng.uniform(size=cell.n) < share).astype(int), dperm.LogisticRegression(classes=[0, 1], **options)
        usual = ordinary(X, share * (1 - share))
        if cell.model == "weighted":
            given["sample_weight"], model.max_weight = (weight := rng.uniform(0.2, 1.0, cell.n)), 1.0
            usual = robust(X, weight * (share - y), weight * share * (1 - share))
    elif cell.model == "softmax":
        y, truth, usual = of_classes(columns, rng)
        model = dperm.LogisticRegression(classes=[0, 1, 2], **options)
    elif cell.model in HIGH:
        y, truth, usual = of_high_quantile(cell, columns, rng)
        model = dperm.QuantileRegressor(quantile=HIGH_LEVEL, y_bounds=(-8, 8), **options)
    elif cell.model in ("poisson", "weighted counts"):
        truth = 0.6 * truth
        rate = np.exp(X @ truth + 0.7)
        y, model = np.minimum(rng.poisson(rate), 40), dperm.PoissonRegressor(y_bounds=(0, 40), **options)
        usual = ordinary(X, rate)
        if cell.model == "weighted counts":
            given["sample_weight"], model.max_weight = (weight := rng.uniform(0.2, 1.0, cell.n)), 1.0
            usual = robust(X, weight * (rate - y), weight * rate)
    else:
        kinds: dict[str, Any] = {"huber": dperm.HuberRegressor, "quantile": dperm.QuantileRegressor}
        error = errors(cell.model, rng, X)
        y, model = X @ truth + 0.3 + error, kinds.get(cell.model, dperm.LinearRegression)(y_bounds=(-8, 8), **options)
        if cell.model == "persons":
            given["groups"], model.max_rows_per_person = np.arange(cell.n) // PERSON, PERSON
        usual = ordinary(X, 2 / np.pi if cell.model == "quantile" else 1.0)
        if cell.model in ("uneven", "persons"):
            usual = robust(X, error, rows=PERSON if cell.model == "persons" else 1)
    table = model.fit(X, y, **given).summary()
    places = np.array([j for j, name in enumerate(table.names) if cell.model in HIGH or not name.endswith("intercept")])
    error, stated = table.estimate[places] - truth, table.standard_error[places]
    return {
        "hits": "".join("1" if hit else "0" for hit in np.abs(error) <= 1.959964 * stated),
        "width": round(float(np.median(stated / usual)), 4),
        "error": round(float(np.median(np.abs(error) / usual) / 0.67449), 4),
    }


def summarised(found: list[Draw]) -> dict[str, float]:
    hits = np.array([[mark == "1" for mark in one["hits"]] for one in found])
    return {
        "draws": len(found),
        "cover": float(hits.mean()),
        "spread": float(hits.mean(axis=1).std() / np.sqrt(len(found))),
        "worst": float(hits.mean(axis=0).min()),
        "width": float(np.median([one["width"] for one in found])),
        "error": float(np.median([one["error"] for one in found])),
    }


def cells() -> list[Cell]:
    listed = []
    for n in (2000, 5000, 50_000):
        draws = 300 if n <= 5000 else 100
        for d in (5, 20):
            for epsilon in (0.5, 1.0, 3.0):
                listed += [Cell(model, "mixed", n, d, epsilon, "zero-out", draws) for model in ("linear", "logistic", "poisson")]
    for n, d, epsilon in ((2000, 5, 0.5), (5000, 5, 1.0), (5000, 20, 1.0), (50_000, 20, 3.0)):
        draws = 300 if n <= 5000 else 100
        listed += [Cell(model, "mixed", n, d, epsilon, "zero-out", draws) for model in ("huber", "quantile")]
        listed += [Cell(model, "mixed", n, d, epsilon, "replace-one", draws) for model in ("linear", "logistic", "poisson")]
    for n, epsilon in ((5000, 1.0), (5000, 3.0), (50_000, 1.0)):
        draws = 300 if n <= 5000 else 100
        listed += [Cell(model, "AR(0.9)", n, 20, epsilon, "zero-out", draws) for model in ("linear", "logistic", "poisson")]
    for n, d in ((5000, 5), (20_000, 20)):
        others = ("skewed", "student", "uneven", "rare", "steep")
        listed += [Cell(model, "mixed", n, d, 1.0, "zero-out", 300 if n <= 5000 else 100) for model in others]
    for epsilon in (1.0, 3.0):
        others = ("weighted", "weighted counts", "persons")
        listed += [Cell(model, "mixed", 5000, 5, epsilon, "zero-out", 300) for model in others]
    for n, epsilon in ((5000, 1.0), (5000, 3.0), (50_000, 1.0), (50_000, 3.0)):
        listed.append(Cell("softmax", "mixed", n, 5, epsilon, "zero-out", 300 if n <= 5000 else 100))
    for n, d, epsilon in ((5000, 5, 1.0), (20_000, 5, 1.0), (20_000, 20, 3.0)):
        listed += [Cell(model, "mixed", n, d, epsilon, "zero-out", 300 if n <= 5000 else 100) for model in HIGH]
    return listed


def chunk(cell: Cell, numbers: list[int]) -> list[Draw]:
    return [draw(cell, number) for number in numbers]


def jobs(chosen: list[Cell], results: dict[str, Any], first: int) -> Iterator[Job]:
    """A third of every cell first, then the rest; `first` is the number of the first draw."""
    for share in (3, 1):
        for cell in chosen:
            draws = range(first + (0 if share == 3 else cell.draws // 3), first + cell.draws // share)
            for numbers in left(results, cell.key, draws, 10 if cell.n <= 5000 else 2):
                yield Job(cell.key, chunk, (cell,), numbers)


def tables(results: dict[str, Any]) -> str:
    """One table per design and relation; a cell whose mean is below 94 % beyond the luck of all of them is marked."""
    measured = {cell: list(results[cell.key].values()) for cell in cells() if cell.key in results}
    limit = -float(ndtri(0.05 / max(len(measured), 1)))
    lines: list[str] = []
    for design, relation in dict.fromkeys((cell.design, cell.relation) for cell in measured):
        lines += [f"\n**{design} columns, {relation}**\n", "| model | n | d | ε | draws | cover | worst | width | error |"]
        lines.append("|---|---|---|---|---|---|---|---|---|")
        for cell, drawn in measured.items():
            if (cell.design, cell.relation) != (design, relation):
                continue
            found = summarised(drawn)
            low = " (low)" if (found["cover"] - 0.94) < -limit * max(found["spread"], 1e-9) else ""
            shares = f"{found['cover']:.1%}{low} | {found['worst']:.1%} | {found['width']:.2f} | {found['error']:.2f}"
            lines.append(f"| {cell.model} | {cell.n:,} | {cell.d} | {cell.epsilon:g} | {found['draws']} | {shares} |")
    return "\n".join(lines).strip()


def bars(results: dict[str, Any]) -> str:
    """What was asked of the study beside what is measured, one line each."""
    found = {cell: summarised(list(results[cell.key].values())) for cell in cells() if results.get(cell.key)}
    limit = -float(ndtri(0.05 / max(len(found), 1)))
    plain = [cell for cell in found if cell.model not in HARDER]
    large = {cell: one for cell, one in found.items() if cell.n == 50_000}
    lowest = min(found, key=lambda cell: found[cell]["cover"])
    low = [cell.key for cell, one in found.items() if one["cover"] - 0.94 < -limit * max(one["spread"], 1e-9)]
    worst = min(found[cell]["worst"] for cell in plain)
    most = max(one["cover"] for one in large.values()) if large else float("nan")
    fewest, whole = min(one["draws"] / cell.draws for cell, one in found.items()), len(found) == len(cells())
    lines = [
        f"| no cell's mean significantly below 94 % | lowest mean {found[lowest]['cover']:.1%} ({lowest.key}); "
        f"significantly below: {', '.join(low) or 'none'} | {_met(not low)} |",
        f"| worst coefficient at least 88 % in the well-specified designs | {worst:.1%} | {_met(worst >= 0.88)} |",
        f"| at most 98 % at n = 50,000 | {most:.1%} | {_met(most <= 0.98)} |",
        *_width_bars(found),
        f"| 300 draws (100 from n = 20,000 on) | {len(found)} of {len(cells())} cells, the fewest draws of one "
        f"{fewest:.0%} of its number | {_met(whole and fewest >= 1)} |",
    ]
    return "\n".join(["| what was asked | seen | |", "|---|---|---|", *lines])


def _width_bars(found: dict[Cell, dict[str, float]]) -> Iterator[str]:
    models = ("logistic", "linear", "poisson")
    for n, d, asked in ((50_000, 20, (1.4, 1.7, 1.9)), (5000, 5, (1.6, 1.9, 2.2))):
        wanted = [Cell(model, "mixed", n, d, 1.0, "zero-out", 300 if n <= 5000 else 100) for model in models]
        if all(cell in found for cell in wanted):
            seen = [found[cell]["width"] for cell in wanted]
            text = f"| width at n = {n:,}, d = {d}, ε = 1: {' / '.join(map(str, asked))} (logistic, linear, Poisson) "
            yield f"{text}| {' / '.join(f'{one:.2f}' for one in seen)} | {_met(all(a <= b for a, b in zip(seen, asked)))} |"


def _met(reached: bool) -> str:
    return "met" if reached else "**not met**"


def write(name: str, text: str, page: Path = PAGE, script: str = "coverage_intervals") -> None:
    """Between the two marks of this name."""
    begin, end = f"<!-- {name}: written by benchmarks/{script}.py -->", f"<!-- end of {name} -->"
    before, rest = page.read_text(encoding="utf-8").split(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--draws", type=int, help="fewer draws per cell than the study's")
    parser.add_argument("--only", default="", help="cells whose name holds this text, or 'small' for n ≤ 5,000")
    parser.add_argument("--seconds", type=float, help="stop after so long")
    parser.add_argument("--again", action="store_true", help="fresh seeds, kept and shown apart")
    parser.add_argument("--results", type=Path, help="the file of draws")
    parser.add_argument("--merge", type=Path, nargs="*", help="take the draws of these files in, and measure nothing")
    parser.add_argument("--write", action="store_true", help="write the tables of docs/intervals.md and measure nothing")
    given = parser.parse_args()
    path: Path = given.results or (AGAIN if given.again else RESULTS)
    if given.merge:
        merge(path, given.merge)
    if given.write:
        results = stored(path)
        write(*((REPEATED, f"{bars(results)}\n\n{tables(results)}") if given.again else (STUDY, tables(results))))
    if given.merge or given.write:
        return
    chosen = [cell for cell in cells() if (cell.n <= 5000 if given.only == "small" else given.only in cell.key)]
    if given.draws is not None:
        chosen = [Cell(**{**asdict(cell), "draws": min(cell.draws, given.draws)}) for cell in chosen]
    measure(path, jobs(chosen, stored(path), FRESH if given.again else 0), given.processes, given.seconds)


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read by the children, each of which takes one core
    main()
