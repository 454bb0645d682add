"""Every linear cell of docs/accuracy.md beside what the versions before had: is any of them lower?

    python benchmarks/accuracy_versions.py        # print the table; exit code 1 if a cell is lower by more than allowed

Scores of versions are in results/accuracy_ours_VERSION.json, the present ones in results/accuracy_ours.json. A cell is *lower* if
its mean over seeds is lower by more than 0.002 and by more than two standard errors of the difference; log-loss and `wide` are
losses, and R² is kept as the distance to the non-private fit, so that a larger score is worse there.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).resolve().parent / "results"
VERSIONS = ("0.3.0", "0.4.0")
ROOM = 0.002
Cells = dict[tuple[str, str, float], np.ndarray]


def cells(file: Path) -> Cells:
    found: dict[tuple[str, str, float], list[float]] = defaultdict(list)
    for key, values in json.loads(file.read_text()).items() if file.is_file() else ():
        kind, name, epsilon, _ = key.split("|")
        found[kind, name, float(epsilon)].append(values["score"])
    return {key: np.array(scores) * (1.0 if key[0] == "accuracy" else -1.0) for key, scores in found.items()}


def difference(now: np.ndarray, before: np.ndarray) -> tuple[float, float]:
    """By how much the mean is better now, and the standard error of that."""
    error = np.sqrt(sum(scores.var(ddof=1) / len(scores) for scores in (now, before)))
    return float(now.mean() - before.mean()), float(error)


def lower(gain: float, error: float) -> bool:
    return gain < -ROOM and gain < -2 * error


def described() -> tuple[list[str], dict[str, tuple[int, int]]]:
    """Lines of the table, and for each version how many cells are lower, of how many."""
    now, counts, lines = cells(RESULTS / "accuracy_ours.json"), {}, []
    epsilons = sorted({epsilon for _, _, epsilon in now})
    for version in VERSIONS:
        before = cells(RESULTS / f"accuracy_ours_{version}.json")
        found = {key: difference(now[key], scores) for key, scores in before.items() if key in now and len(now[key]) > 1}
        counts[version] = (sum(lower(*values) for values in found.values()), len(found))
        for kind, name in sorted({key[:2] for key in found}):
            row = [version, f"{kind.replace('R2', 'R²')}, {name}"]
            for epsilon in epsilons:
                one = found.get((kind, name, epsilon))
                shown = "" if one is None else f"{one[0]:+.4f} ± {one[1]:.4f}"
                row.append(shown + (" **lower**" if one is not None and lower(*one) else ""))
            lines.append("| " + " | ".join(row) + " |")
    head = ["| against | what | " + " | ".join(f"ε = {e:g}" for e in epsilons) + " |", "|---" * (len(epsilons) + 2) + "|"]
    return [*head, *lines], counts


def unchanged(version: str) -> tuple[int, int]:
    """How many fits have the very score of that version with the same seed, of how many."""
    now, before = (json.loads((RESULTS / f"accuracy_ours{name}.json").read_text()) for name in ("", f"_{version}"))
    both = [key for key in before if key in now]
    return sum(now[key]["score"] == before[key]["score"] for key in both), len(both)


def section() -> list[str]:
    """What the page says of it."""
    table, counts = described()
    same, every = unchanged(VERSIONS[-1])
    words = "; ".join(f"{few} of {many} against {version}" for version, (few, many) in counts.items())
    return [
        "## Beside the versions before",
        "",
        "The present defaults, with one rule for tables and embeddings, minus what a version had: positive is better (log-loss",
        "and what wide bounds cost too), with the standard error of the difference of the means",
        f"(`benchmarks/accuracy_versions.py`). Lower by more than {ROOM} and two standard errors: {words}.",
        f"All fits were run again with the seeds of {VERSIONS[-1]}: {same} of {every} have its score to the last digit.",
        "",
        *table,
        "",
    ]


def main() -> int:
    table, counts = described()
    print("\n".join(table))
    print(counts)
    return 1 if any(few for few, _ in counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
