"""Intervals of paid scores hold the score of the population, also where noise dominates. `benchmarks/coverage_evaluate.py` is the
long form of this; here a few cells, through `evaluate` itself.

False alarms: 200 draws per cell and score. An interval that covers 94 % has fewer than 170 hits with probability 1.3e-6; there
are 45 scores in all, so that one of them fails by chance once in 17,000 choices of seeds.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss, mean_poisson_deviance, roc_auc_score

import dperm
from dperm.evaluation.evaluate import evaluate
from dperm.evaluation.terms import GRID, cell_of, grid_edges

POOL, DRAWS, ENOUGH = 60_000, 200, 170


def two_classes(rng):
    X = rng.standard_normal((POOL, 2)).clip(-4, 4)
    y = (rng.uniform(size=POOL) < 1 / (1 + np.exp(-(1.5 * X[:, 0] - 1)))).astype(int)
    model = dperm.LogisticRegression(epsilon=50, bounds=(-4, 4), classes=[0, 1], random_state=0).fit(X, y)
    model.w_ = 1.3 * model.w_  # not calibrated
    chance = model.predict_proba(X)[:, 1]
    truth = {"accuracy": np.mean(model.predict(X) == y), "auc": roc_auc_score(y, chance), "log-loss": log_loss(y, chance)}
    truth |= {"positive share": y.mean(), "predicted minus observed": np.mean(chance - y)}
    excess = np.bincount(cell_of(chance), weights=y - chance, minlength=GRID)

    def calibration(found):
        """The calibration error of the pool over the bins that the record states."""
        edges = np.searchsorted(grid_edges(), np.array(found.record["decided"]["edges"][:-1]) - 1e-12)
        return float(np.abs(np.add.reduceat(excess, edges)).sum() / POOL)

    return model, X, y, truth, {"calibration error": calibration}


def numbers(rng):
    X = rng.uniform(-1, 1, (POOL, 2))
    y = X[:, 0] + 0.9 * rng.standard_normal(POOL)
    model = dperm.LinearRegression(epsilon=50, bounds=(-1, 1), y_bounds=(-10, 10), random_state=0).fit(X, y)
    residual = y - model.predict(X)
    truth = {"r2": 1 - np.mean(residual**2) / y.var(), "root mean squared error": np.sqrt(np.mean(residual**2))}
    truth |= {"mean absolute error": np.abs(residual).mean(), "mean error": residual.mean()}
    return model, X, y, {**truth, "baseline root mean squared error": y.std()}, {}


def counts(rng):
    X = rng.uniform(-1, 1, (POOL, 2))
    y = np.minimum(rng.poisson(np.exp(0.3 + X[:, 0])), 40)
    model = dperm.PoissonRegressor(epsilon=50, bounds=(-1, 1), y_bounds=(0, 40), random_state=0).fit(X, y)
    made, base = mean_poisson_deviance(y, model.predict(X)), mean_poisson_deviance(y, np.full(POOL, y.mean()))
    truth = {"deviance": made, "baseline deviance": base, "d2": 1 - made / base, "balance": model.predict(X).sum() / y.sum()}
    return model, X, y, truth, {}


@pytest.mark.parametrize(("n", "epsilon"), [(300, 1.0), (1000, 1.0), (5000, 1.0)])
@pytest.mark.parametrize("case", [two_classes, numbers, counts])
def test_intervals_cover_the_score_of_the_population(case, n, epsilon):
    model, X, y, truth, of_record = case(np.random.default_rng(11))
    hits = {name: [] for name in (*truth, *of_record)}
    for seed in range(DRAWS):
        picked = np.random.default_rng(seed).integers(POOL, size=n)
        found = evaluate(model, X[picked], y[picked], epsilon=epsilon, random_state=10**6 + seed)
        for name, held in hits.items():
            score = found.metrics[name]
            value = truth[name] if name in truth else of_record[name](found)
            held.append(score["value"] is None or score["low"] <= value <= score["high"])
            assert n < 5000 or score["value"] is not None, name  # 5,000 rows and ε = 1 show every score
    assert {name: sum(held) for name, held in hits.items() if sum(held) < ENOUGH} == {}
