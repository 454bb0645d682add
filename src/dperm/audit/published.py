"""Audit a published certificate: run its mechanism again, as recorded, on made-up neighbours of the recorded size."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dperm.audit.cases import Case
from dperm.audit.transcript import Seen
from dperm.mechanisms.registry import mechanism_of_record
from dperm.problem import Problem
from dperm.release.plan import Mechanism, Target
from dperm.rows import MemoryRows
from dperm.walk.certificate import Certificate
from dperm.walk.fitting import fit

MOST_AUDITED_ROWS = 2000  # the neighbours are made up: more rows would cost time and hide the one that differs


@dataclass(frozen=True)
class _Rerun:
    """Looks like an estimator to the suite: `fit(X, y, weight)` releases by the recorded mechanism."""

    problem: Problem
    target: Target
    mechanism: Mechanism
    noise: str
    n: int

    def fit(self, X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Seen:
        nominal = self.n if self.target.relation == "add-remove" else None
        rows = MemoryRows(X, y, weight)
        release = fit(self.problem, rows, self.target, self.mechanism, nominal_n=nominal, noise=self.noise)
        return Seen(release, release.plan, release.certificate)


def certificate_case(path: Path) -> Case:
    """The case of a certificate: its problem, target, mechanism and noise policy (secure where it was seeded)."""
    record = Certificate.load(path).record
    problem = Problem.from_spec(record["problem"])
    n, d = min(int(record["shape"]["n"]), MOST_AUDITED_ROWS), int(record["shape"]["d"])
    stated = record["target"]
    stated["delta"] = min(stated["delta"], 0.5 / n)
    target = Target.declare(n=n, **stated)
    mechanism = mechanism_of_record(record["mechanism"]["name"], record["mechanism"]["options"])
    noise = "exact" if record["noise"]["policy"] == "exact" else "secure"
    rerun = _Rerun(problem, target, mechanism, noise, n)
    low, high = problem.data.y.low, problem.data.y.high
    X = 0.1 * problem.data.x_norm * np.random.default_rng(0).uniform(-1, 1, (n, d)) / np.sqrt(d)
    X[-1] = problem.data.x_norm / np.sqrt(d)
    y = np.where(np.arange(n) % 2 == 0, low, high)
    y[-1] = high
    if problem.loss.margins > 1:
        y = y.astype(np.int64)
    other, weight, lighter = y.copy(), np.ones(n), np.ones(n)
    lighter[-1] = 0.0
    if target.relation == "replace-one":
        other[-1] = int(low) if problem.loss.margins > 1 else low
        neighbour = (X, other, weight)
    elif target.relation == "zero-out":
        neighbour = (X, y, lighter)
    else:
        neighbour = (X[:-1], y[:-1], weight[:-1])
    return Case(path.name, mechanism.name, target.relation, noise, lambda: rerun, (X, y, weight), neighbour)
