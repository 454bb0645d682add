"""Whitened descent (`scaled-heads`) beside `scaled-gradient` on wide tables: what `auto` chooses between; resumable.

    OPENBLAS_NUM_THREADS=1 python benchmarks/heads_tables.py --processes 16 --seconds 150
    python benchmarks/heads_tables.py --table                 # print what is there

Protocol: LogisticRegression, δ = 1e-6, zero-out, everything default but the method; the same seed for both. Rows are those of
training sets, and scores are of training rows that were not fitted: 10,000 held out of MNIST, a fifth of the others. No test
set is read. `parity` and `pair` (3 or 8) have two classes, `pooled` are 2 × 2 means of pixels, `waves` are random cosines of
covertype's columns (seven classes), `hinges` random ReLUs of adult's (two classes), `pixels` and `two` the made table of
accuracy_hard.py with a seed that no benchmark uses. Log-losses are those of margins times each of `FACTORS`; the table has
that of the rule's constant for `scaled-heads`. ν₁ is the noise ratio of one class; where it is at most 0.1 and columns are numbers (w8a
has flags), `scaled-heads` is fitted in its wide form.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import accuracy_hard
import accuracy_ours
import numpy as np
from scipy.special import logsumexp

from dperm.choose.table import CALM, NOISY, WIDE
from dperm.mechanisms.scaled.heads import MODERATION

RESULTS = Path(__file__).resolve().parent / "results" / "heads_tables.json"
METHODS = ("scaled-gradient", "scaled-heads")
EPSILONS = (0.5, 1.0, 3.0)
FACTORS = (0.4, 0.5, 0.6, 0.7, 0.85, 1.0)  # of the margins
MARGINS = {"pixels": 10, "mnist": 10, "pooled": 10, "waves 512": 7, "waves 256": 7}  # of tables with several classes


class Table(NamedTuple):
    """Rows to fit, rows to score, and what is declared."""

    X: Any
    y: np.ndarray
    Z: Any
    z: np.ndarray
    declared: dict[str, Any]


def mnist(columns: Callable[[np.ndarray], np.ndarray], label: Callable[[np.ndarray], np.ndarray], classes: range) -> Table:
    data = np.load(accuracy_ours.DATA / "mnist.npz")
    X, y = columns(data["X_train"].astype(np.float32)), label(data["y_train"].astype(np.int64))
    fitted, scored = np.flatnonzero(y[:50_000] >= 0), 50_000 + np.flatnonzero(y[50_000:] >= 0)
    return Table(X[fitted], y[fitted], X[scored], y[scored], {"bounds": (0, 255), "classes": classes})


def flat(images: np.ndarray) -> np.ndarray:
    return images.reshape(len(images), -1)


def pooled(images: np.ndarray) -> np.ndarray:
    return images.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(images), -1)


def pair(y: np.ndarray) -> np.ndarray:
    return np.select([y == 3, y == 8], [0, 1], -1)


def of_schema(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Encoded training rows and labels of a table with a schema, shuffled once; covertype with all its classes."""
    from dperm.tables.tables import cells

    schema, train, _, y, _ = accuracy_ours.load(name)
    y = np.asarray(cells(train, schema.target.column), dtype=np.int64) if name == "covertype_92k" else y
    encoded = schema.encoded(train)
    order = np.random.default_rng(7).permutation(len(y))
    return np.asarray(encoded.toarray() if hasattr(encoded, "toarray") else encoded)[order], y[order]


def apart(X: np.ndarray, y: np.ndarray, declared: dict[str, Any]) -> Table:
    fitted = len(y) * 4 // 5
    return Table(X[:fitted], y[:fitted], X[fitted:], y[fitted:], declared)


def flags(name: str) -> Table:
    X, y = of_schema(name)
    return apart((X > 0).astype(np.float32), y, {"boolean": "all", "classes": sorted(set(y))})


def waves(d: int) -> Table:
    X, y = of_schema("covertype_92k")
    rng = np.random.default_rng(11)
    spread = 2.0 / 3.0 * np.median(np.linalg.norm(X - X.mean(axis=0), axis=1))
    turned = X @ rng.normal(size=(X.shape[1], d)) / spread + rng.uniform(0, 2 * np.pi, d)
    return apart(np.cos(turned).astype(np.float32), y, {"bounds": (-1, 1), "classes": range(1, 8)})


def hinges(d: int) -> Table:
    X, y = of_schema("adult")
    rng = np.random.default_rng(12)
    turned = X @ rng.normal(size=(X.shape[1], d)) / np.sqrt(np.mean(np.sum(X * X, axis=1))) + 0.5 * rng.normal(size=d)
    return apart(np.clip(turned, 0.0, 4.0).astype(np.float32), y, {"bounds": (0, 4), "classes": sorted(set(y))})


def made(two: bool) -> Table:
    X, y, Z, z, declared = accuracy_hard.split("pixels", 100)
    return Table(X, y % 2, Z, z % 2, declared | {"classes": range(2)}) if two else Table(X, y, Z, z, declared)


TABLES: dict[str, Callable[[], Table]] = {
    "pixels": lambda: made(two=False),
    "two": lambda: made(two=True),
    "mnist": lambda: mnist(flat, lambda y: y, range(10)),
    "parity": lambda: mnist(flat, lambda y: y % 2, range(2)),
    "pair": lambda: mnist(flat, pair, range(2)),
    "pooled": lambda: mnist(pooled, lambda y: y, range(10)),
    "pooled parity": lambda: mnist(pooled, lambda y: y % 2, range(2)),
    "waves 512": lambda: waves(512),
    "waves 256": lambda: waves(256),
    "hinges 1024": lambda: hinges(1024),
    "hinges 256": lambda: hinges(256),
    "w8a": lambda: flags("w8a"),
    "a9a": lambda: flags("a9a"),
}
ROWS = dict.fromkeys(TABLES, (3_000, 10_000)) | {"w8a": (3_000, 30_000), "waves 512": (6_000, 20_000)}


@lru_cache(maxsize=1)
def table_of(name: str) -> Table:
    return TABLES[name]()


class Cell(NamedTuple):
    name: str
    n: int
    epsilon: float
    method: str
    seed: int

    @property
    def key(self) -> str:
        return f"{self.name}|{self.n}|{self.epsilon:g}|{self.method}|{self.seed}"


def measured(cell: Cell) -> dict[str, Any]:
    import dperm
    from dperm.mechanisms.scaled.noise_ratio import expected_noise_ratio
    from dperm.problem import DataBounds, Interval, LogisticLoss, MultinomialLoss, Problem

    table = table_of(cell.name)
    options = {"delta": 1e-6, "relation": "zero-out", "random_state": cell.seed, "method": cell.method}
    model = dperm.LogisticRegression(cell.epsilon, **options, **table.declared)
    n, began = min(cell.n, len(table.y)), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that little can be learnt is what is looked at here
        model.fit(table.X[:n], table.y[:n])
    seconds, margins = time.perf_counter() - began, model.decision_function(table.Z)
    margins = margins / model.plan_.stages[-1].settings.get("moderation", 1.0)  # as they were before it
    margins = np.column_stack([np.zeros(len(margins)), margins]) if margins.ndim == 1 else margins
    own = np.searchsorted(np.asarray(model.classes_), table.z)
    plan, loss = model.plan_, MultinomialLoss(len(model.classes_)) if len(model.classes_) > 2 else LogisticLoss()
    return {
        "accuracy": float(np.mean(model.predict(table.Z) == table.z)),
        "log-loss": [log_loss(factor * margins, own) for factor in FACTORS],
        "ratio": expected_noise_ratio(Problem(loss, data=DataBounds(1.0, Interval(-1, 1))), plan.shape, plan.target),
        "columns": plan.shape.d,
        "seconds": seconds,
    }


def log_loss(margins: np.ndarray, own: np.ndarray) -> float:
    return float(np.mean(logsumexp(margins, axis=1) - margins[np.arange(len(own)), own]))


def together(cells: list[Cell]) -> dict[str, dict[str, Any]]:
    """Cells of one table, in a process of their own."""
    return {cell.key: measured(cell) for cell in cells}


def wanted(tables: list[str], seeds: int, done: dict[str, Any]) -> Iterator[list[Cell]]:
    for seed in range(seeds):
        for name in tables:
            for n in reversed(ROWS[name]):
                cells = [Cell(name, n, epsilon, method, seed) for epsilon in EPSILONS for method in METHODS]
                yield [cell for cell in cells if cell.key not in done]


def run(tables: list[str], seeds: int, processes: int, seconds: float) -> None:
    """In order, until all or the seconds are used up."""
    done, end = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}, time.monotonic() + seconds
    pool = ProcessPoolExecutor(processes)
    running = [pool.submit(together, cells) for cells in wanted(tables, seeds, done) if cells]
    try:
        for future in as_completed(running, timeout=max(end - time.monotonic(), 0.0)):
            done |= future.result()
            RESULTS.write_text(json.dumps(done, indent=0, sort_keys=True) + "\n")
            print(f"{len(done)} fits, {next(iter(future.result()))}", flush=True)
    except TimeoutError:
        print("out of time", flush=True)
    for process in list((pool._processes or {}).values()):
        process.terminate()
    pool.shutdown(wait=False, cancel_futures=True)


def described(done: dict[str, Any]) -> list[str]:
    """The table, line by line: mean scores of both, and the difference with the same seeds, each with its standard error."""
    found: dict[tuple[str, int, float], list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for key, values in done.items():
        name, n, epsilon, method, seed = key.split("|")
        other = done.get("|".join([name, n, epsilon, METHODS[0], seed]))
        if method == METHODS[1] and other is not None:
            found.setdefault((name, int(n), float(epsilon)), []).append((other, values))
    head = "table | columns | n | ε | ν₁ | scaled-gradient | scaled-heads | difference | log-loss, lower by | chosen | seeds"
    lines = [f"| {head} |", "|---" * 11 + "|"]
    for (name, n, epsilon), pairs in sorted(found.items()):
        before, now = (np.array([pair[place]["accuracy"] for pair in pairs]) for place in (0, 1))
        losses = np.array([pair[0]["log-loss"][-1] - moderated(name, pair[1]["log-loss"]) for pair in pairs])
        columns, ratio = pairs[0][1]["columns"], pairs[0][1]["ratio"] / np.sqrt(MARGINS.get(name, 1))
        row = [name, str(columns), f"{n:,}", f"{epsilon:g}", f"{ratio:.2f}", f"{before.mean():.4f}", f"{now.mean():.4f}"]
        row += [
            difference(now - before),
            difference(losses),
            "" if columns < WIDE else "yes" if ratio >= NOISY else "wide" if ratio <= CALM and name != "w8a" else "",
            str(len(pairs)),
        ]
        lines.append("| " + " | ".join(row) + " |")
    return lines


def moderated(name: str, losses: list[float]) -> float:
    return losses[FACTORS.index(MODERATION["multinomial" if name in MARGINS else "logistic"])]


def difference(gains: np.ndarray) -> str:
    if len(gains) < 2:
        return f"{gains.mean():+.4f}"
    return f"{gains.mean():+.4f} ± {gains.std(ddof=1) / np.sqrt(len(gains)):.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1e6)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if not given.table:
        run(given.tables.split(","), given.seeds, given.processes, given.seconds)
    print("\n".join(described(json.loads(RESULTS.read_text()))))


if __name__ == "__main__":
    main()
