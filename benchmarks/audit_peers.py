"""Audit diffprivlib 0.6.6 in an environment of its own, and record the result in docs/audit.md.

    python benchmarks/audit_peers.py [--trials 8000] [--processes 2] [--page docs/audit.md]

The script makes benchmarks/.envs/diffprivlib (scikit-learn < 1.7, which that release needs), fits there on two neighbouring data
sets, and bounds ε here with `dperm.audit.distinguish`: the test is chosen on one half of the fits and counted on the other.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE / ".envs" / "diffprivlib"
REQUIREMENTS = ("diffprivlib==0.6.6", "scikit-learn<1.7")
CONFIDENCE = 0.99

# Both neighbours stay inside the bounds that the estimator was told; one record differs.
CASES = {
    "LogisticRegression": {
        "call": "LogisticRegression(epsilon=2, data_norm=100, C=1, fit_intercept=False, tol=1e-8, max_iter=1000)",
        "epsilon": 2.0,
        "data": ([[0.0], [0.0]], [0, 1]),
        "neighbour": ([[0.0], [100.0]], [0, 1]),
        "why": "the Hessian bound grows with data_norm, where l''·x·xᵀ needs data_norm²",
    },
    "LinearRegression": {
        "call": "LinearRegression(epsilon=1, bounds_X=(0, 100), bounds_y=(0, 1), fit_intercept=False)",
        "epsilon": 1.0,
        "data": ([[1.0], [0.0]], [0.0, 0.0]),
        "neighbour": ([[1.0], [100.0]], [0.0, 0.0]),
        "why": "bounds (0, 100) give x² the sensitivity 0, so the second moment is released without noise",
    },
}

# Runs in the other environment: reads a job, fits, writes coefficients. A worker per process, each keyed by the operating system.
WORKER = """
import json, sys, warnings
import numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression
warnings.simplefilter("ignore")
job = json.loads(sys.argv[1])
tables = []
for X, y in (job["data"], job["neighbour"]):
    X, y = np.array(X), np.array(y)
    rows = []
    for _ in range(job["trials"]):
        rows.append(eval(job["call"]).fit(X, y).coef_.ravel())
    tables.append(np.array(rows))
np.savez(sys.argv[2], data=tables[0], neighbour=tables[1])
"""


def prepare() -> Path:
    """The interpreter of the peer's environment, made if need be."""
    python = ENVIRONMENT / "bin" / "python"
    probe = [str(python), "-c", "import diffprivlib, sys; sys.exit(diffprivlib.__version__ != '0.6.6')"]
    if python.is_file() and subprocess.run(probe, capture_output=True).returncode == 0:
        return python
    print(f"making {ENVIRONMENT.relative_to(HERE.parent)} with {', '.join(REQUIREMENTS)}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
    return python


def outcomes(python: Path, case: dict[str, object], trials: int, processes: int) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of `trials` fits on each data set."""
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for number in range(processes):
            share = trials // processes + (number < trials % processes)
            job = json.dumps({key: case[key] for key in ("call", "data", "neighbour")} | {"trials": share})
            file = Path(folder) / f"{number}.npz"
            command = [str(python), "-c", WORKER, job, str(file)]
            running.append((subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}), file))
        tables: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        for process, file in running:
            if process.wait() != 0:
                raise SystemExit("a worker in the other environment failed; see its message above")
            with np.load(file) as found:
                tables[0].append(found["data"])
                tables[1].append(found["neighbour"])
    return np.concatenate(tables[0]), np.concatenate(tables[1])


def main() -> None:
    from dperm.audit import distinguish
    from dperm.audit.page import replace_section

    parser = argparse.ArgumentParser(description="Audit diffprivlib 0.6.6.")
    parser.add_argument("--trials", type=int, default=8000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--page", type=Path, default=HERE.parent / "docs" / "audit.md")
    options = parser.parse_args()
    python = prepare()
    lines = [
        "## Peers",
        "",
        f"`benchmarks/audit_peers.py` on {datetime.date.today().isoformat()}: diffprivlib 0.6.6 with scikit-learn < 1.7, in an "
        f"environment of its own. Lower bounds at {CONFIDENCE:.0%} confidence, test chosen on one half of the fits and counted "
        "on the other.",
        "",
        "| call | data → neighbour | claimed ε | ε at least | fits | test | cause |",
        "|---|---|---|---|---|---|---|",
    ]
    caught = True
    for name, case in CASES.items():
        started = time.perf_counter()
        tables = outcomes(python, case, options.trials, options.processes)
        streams = [iter(table) for table in tables]
        found = distinguish(
            lambda which, streams=streams: next(streams[which]), 0, 1, options.trials, delta=0.0, claim=case["epsilon"],
            confidence=CONFIDENCE,
        )  # fmt: skip
        caught &= bool(found.violates) and found.epsilon_lower > case["epsilon"]
        print(
            f"{name}: claimed {case['epsilon']}, proven ≥ {found.epsilon_lower:.3f} ({found.statistics['epsilon']}, errors "
            f"{found.errors['epsilon']} of {options.trials - options.trials // 2} each, {time.perf_counter() - started:.0f} s)",
            flush=True,
        )
        change = f"X = {case['data'][0]} → {case['neighbour'][0]}, y = {case['data'][1]}"
        lines.append(
            f"| `{case['call']}` | {change} | {case['epsilon']:g} | **{found.epsilon_lower:.2f}** | 2 × {options.trials} | "
            f"{found.statistics['epsilon']} | {case['why']} |"
        )
    replace_section(options.page, "\n".join(lines))
    print(f"recorded in {options.page}")
    raise SystemExit(0 if caught else 1)


if __name__ == "__main__":
    main()
