"""Private selection among settings: the laws of K, the accounting, what is published, what the certificate binds."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import pytest

from dperm import LinearRegression, LogisticRegression, PoissonRegressor
from dperm.estimators.search import PrivateGridSearch, SearchCertificate, draw, law_of, row_scores, run_mu
from dperm.mechanisms.base import Target
from dperm.privacy import GDP, gaussian_mu, selection_epsilon

LAWS = ("geometric", "logarithmic", "poisson")


def threshold(n: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).uniform(-1, 1, (n, 2))
    return X, (X[:, 0] > 0.2).astype(int)


def search(**options: object) -> PrivateGridSearch:
    base = LogisticRegression(bounds=(-1, 1), classes=[0, 1], relation="zero-out", method="gradient")
    chosen: dict[str, object] = {"epsilon": 8.0, "delta": 1e-6, "expected_runs": 5.0, "random_state": 0}
    return PrivateGridSearch(base, {"radius": [1e-6, 20.0]}, **(chosen | options))


@pytest.mark.parametrize("name", LAWS)
def test_runs_follow_their_law(name: str) -> None:
    """Mean of 20,000 draws within 5 standard errors (false alarm 6e-7), and P(K = 1) likewise."""
    law = law_of(name, 4.0)
    assert law.expected == pytest.approx(4.0, rel=1e-9)
    generator = np.random.default_rng(1)
    drawn = np.array([draw(law, generator) for _ in range(20000)])
    assert abs(drawn.mean() - 4.0) < 5 * drawn.std() / math.sqrt(len(drawn))
    if name == "poisson":
        first = 4.0 * math.exp(-4.0)
    elif name == "geometric":
        first = 0.25
    else:
        first = (1 - law.stop) / math.log(1 / law.stop)
    assert drawn.min() == (0 if name == "poisson" else 1)
    assert abs(np.mean(drawn == 1) - first) < 5 * math.sqrt(first / len(drawn))


@pytest.mark.parametrize("name", LAWS)
def test_a_run_gets_what_the_theorem_leaves(name: str) -> None:
    """The budget of a run is the largest whose selection meets (ε, δ), and far below that of a single fit."""
    target, law = Target(1.0, 1e-6, "zero-out", 1), law_of(name, 10.0)
    mu = run_mu(law, target)
    assert selection_epsilon(GDP(mu, "zero-out"), law, 1e-6) <= 1.0
    assert selection_epsilon(GDP(mu * 1.0001, "zero-out"), law, 1e-6) > 1.0
    assert 0.4 * gaussian_mu(1.0, 1e-6) < mu < 0.6 * gaussian_mu(1.0, 1e-6)


def test_finds_the_setting_that_works() -> None:
    X, y = threshold()
    found = search().fit(X, y)
    assert found.best_params_ == {"radius": 20.0} and found.score(X, y) > 0.85
    assert abs(found.best_score_ - found.score(X, y)) < 0.05
    assert found.certificate_ is found.best_estimator_.certificate_  # one run's own certificate would promise too little
    assert not found.certificate_.verify().ok and found.certificate_.verify(allow_seeded=True).ok
    run = found.certificate_.record["run"]
    composed = found.certificate_.record["best"]["guarantee"]["kind"]["mu"] ** 2 + run["score_share"] * run["mu"] ** 2
    assert composed <= run["mu"] ** 2


def test_certificate_notices_changes() -> None:
    X, y = threshold(300)
    record = json.loads(search().fit(X, y).certificate_.to_json())
    for path, value in (
        (("guarantee", "epsilon"), 7.9),
        (("guarantee", "delta"), 1e-7),
        (("guarantee", "relation"), "add-remove"),
        (("law", "runs"), "geometric"),
        (("law", "expected_runs"), 4.0),
        (("run", "mu"), 0.1),
        (("run", "score_share"), 0.2),
        (("run", "fit_epsilon"), 1.0),
        (("run", "selection_epsilon"), 7.0),
        (("statement",), "private"),
        (("best", "target", "epsilon"), 8.0),
        (("best", "guarantee", "epsilon"), 1.0),
        (("noise", "private"), True),
    ):
        altered = copy.deepcopy(record)
        place = altered
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = value
        assert not SearchCertificate(altered).verify(allow_seeded=True).ok, path


def test_row_scores_stay_in_the_unit_interval() -> None:
    """The sensitivity of a score is 1 because of it, whatever the labels and rows are."""
    X, y = threshold(200)
    odd = np.array([np.nan, np.inf, -1e9, 1e9, *range(196)], dtype=float)
    for model in (
        LinearRegression(2.0, bounds=(-1, 1), y_bounds=(0, 50), random_state=0).fit(X, odd),
        PoissonRegressor(2.0, bounds=(-1, 1), y_bounds=(0, 50), random_state=0).fit(X, odd),
    ):
        scores = row_scores(model, 1e6 * X, odd)
        assert scores.min() >= 0 and scores.max() <= 1 and scores[0] == 0
    model = LogisticRegression(2.0, bounds=(-1, 1), classes=[0, 1], random_state=0).fit(X, y)
    assert set(row_scores(model, X, y)) <= {0.0, 1.0}


def test_what_is_refused() -> None:
    X, y = threshold(200)
    for options, message in (
        ({"delta": 0.0}, "delta"),
        ({"expected_runs": 1.0}, "expected_runs"),
        ({"runs": "uniform"}, "runs"),
        ({"score_share": 0.0}, "score_share"),
        ({"param_grid": {"epsilon": [1, 2]}}, "privacy alone"),
        ({"estimator": None}, "estimator"),
        ({"param_grid": {"method": ["objective"], "radius": [None], "regularization": [10.0]}}, "Gaussian"),
    ):
        with pytest.raises(ValueError, match=message):
            search().set_params(**options).fit(X, y)
