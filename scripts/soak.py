"""Kill test of the ledger: fits killed by SIGKILL at random moments while several processes share one ledger.

    python scripts/soak.py --fits 500 --processes 8

Afterwards every released model has its debit, the filter recomputed over all entries never exceeds the budget, the file opens and
`verify` passes with every certificate that was written. Prints one JSON object; exit code 1 when anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from dperm import LogisticRegression
from dperm.estimators.saving import model_record
from dperm.mechanisms import Gradient
from dperm.release.ledger.book import BudgetExceeded, Ledger
from dperm.tables.json_files import write_whole

ROWS = np.linspace(-1, 1, 300).reshape(-1, 1)
LABELS = (ROWS[:, 0] > 0).astype(int)


def one_fit(ledger: Path, folder: Path) -> None:
    """What a child does: fit, then write the model and its certificate, all or none."""
    try:
        model = LogisticRegression(
            epsilon=0.4, bounds=(-1, 1), classes=[0, 1], relation="zero-out", method=Gradient(steps=3), ledger=ledger
        ).fit(ROWS, LABELS)
    except BudgetExceeded:
        (folder.with_suffix(".refused")).touch()
        return
    # The certificate first: a kill between the two renames then leaves no model without one.
    write_whole(folder, {"certificate.json": model.certificate_.to_json(), "model.json": json.dumps(model_record(model))})


def child(ledger: Path, folder: Path) -> None:
    try:
        one_fit(ledger, folder)
    except BaseException as error:  # a child must never return into the parent's loop
        folder.with_suffix(".error").write_text(repr(error))
    os._exit(0)


def worker(number: int, fits: int, ledger: Path, folder: Path, seed: int, deadline: float) -> None:
    """Start fits one after another and kill each at a random moment of its life (or after it, for some)."""
    moments = random.Random(f"{seed} {number}")
    usual = 0.2
    for k in range(fits):
        if time.monotonic() > deadline:
            break
        started = time.monotonic()
        pid = os.fork()
        if pid == 0:
            child(ledger, folder / f"fit-{number}-{k}")
        limit = moments.uniform(0.0, 2.0 * usual)
        done = 0
        while not done and time.monotonic() - started < limit:
            done, _ = os.waitpid(pid, os.WNOHANG)
            time.sleep(0.001)
        if done:
            usual = 0.8 * usual + 0.2 * (time.monotonic() - started)
        else:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            (folder / f"fit-{number}-{k}.killed").touch()
            usual = min(usual * 1.02, 5.0)
    os._exit(0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=500, help="fits started in all")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=600.0, help="no new fit starts after this time")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="dperm-soak-"))
    ledger = folder / "soak.ledger"
    # A budget for about half of the fits: once it is gone the others must be refused.
    epsilon = 0.45 * max(1.0, given.fits / 2) ** 0.5
    Ledger.create(ledger, dataset="soak", epsilon=epsilon, delta=1e-6, relation="zero-out")
    deadline = time.monotonic() + given.seconds
    workers = []
    for number in range(given.processes):
        pid = os.fork()
        if pid == 0:
            worker(number, -(-given.fits // given.processes), ledger, folder, given.seed, deadline)
        workers.append(pid)
    for pid in workers:
        os.waitpid(pid, 0)
    return report(folder, ledger)


def report(folder: Path, ledger: Path) -> int:
    book = Ledger.open(ledger)
    certificates, found = [], []
    for path in sorted(folder.glob("fit-*/certificate.json")):
        record = json.loads(path.read_text())
        certificates.append(record)
    for path in sorted(folder.glob("fit-*/model.json")):  # a model is a release: its debit must be in the ledger
        if not (path.parent / "certificate.json").exists():
            found.append(f"{path.parent.name} has a model whose certificate is missing")
    found += [f"{path.stem}: {path.read_text()}" for path in folder.glob("fit-*.error")]
    entries = [record["ledger"]["entry"]["number"] for record in certificates]
    if len(set(entries)) != len(entries):
        found.append("two models share a debit")
    found += book.verify(certificates)
    account = book.account()
    started = len({path.stem for path in folder.glob("fit-*")})
    result = {
        "fits": started,
        "killed": len(list(folder.glob("fit-*.killed"))),
        "released": len(certificates),
        "refused": len(list(folder.glob("fit-*.refused"))),
        "debits": account.fits,
        "spent_share": round(account.spent_share, 4),
        "problems": found[:20],
    }
    print(json.dumps(result))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
