"""Widths of intervals for persons with three rows: the bound that is used, and a matrix of each person's summed scores beside it.

    python benchmarks/widths_persons.py

"used" is k times the matrix of single rows. "summed" is the matrix of the persons' sums, with the noise that its release would
have: a person's sum is at most k·t·R long, so (k·t·R)² of sensitivity, which is the noise that k times the other matrix has too.
Its model part counts rows as independent. Both are computed from the same fits; the second matrix is made here from the rows,
with seeded noise: it is no mechanism of the library. Linear regression, n = 5,000, d = 5, zero-out, δ = 1e-6, in widths of the
non-private interval that knows who belongs together, with the share of slopes that are covered.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import dperm
from dperm.mechanisms.registry import mechanism_of_record
from dperm.mechanisms.scaled import inference_settings as rule
from dperm.mechanisms.scaled.several_classes import terms_of
from dperm.problem import Problem
from dperm.release.noise import gaussian_scale
from dperm.rows.base import Block
from dperm.terms.inference import weighted
from dperm.terms.mixing import Mixing
from dperm.terms.moments import smat

sys.path.insert(0, str(Path(__file__).resolve().parent))
from coverage_intervals import DELTA, PERSON, Columns, mixed, robust, slopes

N, D, DRAWS = 5000, 5, 40
DESIGNS = {"rows that have nothing in common": (False, 0.0), "equal columns, half of the error's variance": (True, 0.5),
           "equal rows": (True, 1.0)}  # fmt: skip


def table_of(equal: bool, common: float, rng: np.random.Generator) -> tuple[Columns, np.ndarray, np.ndarray]:
    """Columns, labels and errors; `common` is the part of the errors' variance that a person's rows share."""
    columns = mixed(rng, N, D)
    if equal:
        columns = columns._replace(X=np.repeat(columns.X[: -(-N // PERSON)], PERSON, axis=0)[:N])
    shared = np.repeat(rng.standard_normal(-(-N // PERSON)), PERSON)[:N]
    error = math.sqrt(common) * shared + math.sqrt(1 - common) * rng.standard_normal(N)
    return columns, columns.X @ slopes(columns) + 0.3 + error, error


def summed(model: Any, X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Standard errors of the slopes with the matrix of the persons' sums in the place of the one that was released."""
    plan, released = model.plan_, dict(model.release_.released)
    problem = Problem.from_spec(model.certificate_.record["problem"])
    mechanism = mechanism_of_record(plan.mechanism, plan.options)
    scaled, rate, counts = mechanism._scaled(plan, problem, released)
    decided = model.certificate_.record["decided"]
    bound = rule.Limits(decided["radius"][-1], decided["clip"][-1], 1.0)
    features, at = mechanism._features(problem, scaled), np.asarray(released["last mean"])
    score = rule.score_of(problem, features, at, bound, rate, counts, None)
    rows = Mixing(np.asarray(scaled["shift"]), np.asarray(scaled["scale"]), scaled["turn"]).mapped(model._encoded(X))
    block = Block(rows, model._labels(y)[0], None, 0)
    scored, weight = weighted(score, bound.radius, block)
    single = features.dense(block.X) * (weight * scored.slope * scored.stretch)[:, None]
    sums = np.add.reduceat(single, np.arange(0, N, PERSON))
    term = terms_of(score, bound.radius).scores
    scale = gaussian_scale(PERSON**2 * term.sensitivity(plan.target.relation), plan.stage("scores").event.mu)
    p = D + 1
    V = (sums.T @ sums + smat(scale * rng.standard_normal(p * (p + 1) // 2), p)) / N
    step = mechanism.inference(plan, problem, released)
    bread = PERSON**-1 * N * step.errors.model  # φ̂·B'⁻¹, of single rows
    numbers = np.asarray(released["scale numbers"])
    inverse = bread / rule.dispersion(score, plan.stage("scale numbers").event.mu, numbers, plan.target)
    errors = replace(step.errors, model=bread / N, robust=inverse @ V @ inverse / N)
    lift = mechanism._lift(problem, plan.shape, scaled)
    half = (model._y_high - model._y_low) / 2
    return np.sqrt(np.add(*errors.variances(lift)))[:D] * half / model._encoding.width


def main() -> None:
    print("| a person's rows | ε | used: width | covered | summed: width | covered |\n|---|---|---|---|---|---|")
    for name, (equal, common) in DESIGNS.items():
        for epsilon in (1.0, 3.0):
            found = []
            for number in range(DRAWS):
                rng = np.random.default_rng([number, 11, round(epsilon)])
                columns, y, error = table_of(equal, common, rng)
                usual = robust(columns.X, error, rows=PERSON)
                model = dperm.LinearRegression(
                    epsilon=epsilon, delta=DELTA, bounds=(columns.low, columns.high), y_bounds=(-8, 8), relation="zero-out",
                    intervals=True, max_rows_per_person=PERSON, random_state=number,
                ).fit(columns.X, y, groups=np.arange(N) // PERSON)  # fmt: skip
                table = model.summary()
                away = np.abs(table.estimate[:D] - slopes(columns))
                other = summed(model, columns.X, y, rng)
                for stated in (table.standard_error[:D], other):
                    found.append((float(np.median(stated / usual)), float(np.mean(away <= 1.959964 * stated))))
            shown = []
            for part in (found[0::2], found[1::2]):
                shown.append(f"{np.median([w for w, _ in part]):.2f} | {np.mean([c for _, c in part]):.1%}")
            print(f"| {name} | {epsilon:g} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
