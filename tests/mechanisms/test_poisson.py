"""Poisson regression: the rule's releases, its terms' sensitivities, exposures, and what it reaches on real counts."""

from __future__ import annotations

import numpy as np
import pytest

from alterations import unnoticed
from dperm import PoissonRegressor, Schema
from dperm.mechanisms.scaled import poisson_settings as poisson_rule
from dperm.privacy import kappa
from dperm.rows.base import Block
from dperm.terms.affine import Features
from places import SHARED_DATA


def counts(n: int = 4000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n, 3))
    return X, rng.poisson(np.exp(0.5 + 2 * X[:, 0] - X[:, 1]))


def model(**options: object) -> PoissonRegressor:
    chosen: dict[str, object] = {"epsilon": 2.0, "bounds": (0, 1), "y_bounds": (0, 40), "relation": "zero-out", "random_state": 0}
    return PoissonRegressor(**(chosen | options))


def test_recovers_rates_and_units() -> None:
    X, y = counts(20000)
    fitted = model(epsilon=3.0).fit(X, y)
    assert np.allclose(fitted.coef_, [2, -1, 0], atol=0.25)
    assert abs(fitted.intercept_ - 0.5) < 0.25
    # predict is exp(⟨x, coef⟩ + intercept) on rows inside the bounds, so units come back right
    assert np.allclose(fitted.predict(X[:50]), np.exp(X[:50] @ fitted.coef_ + fitted.intercept_))
    assert fitted.plan_.mechanism == "scaled-poisson"


@pytest.mark.parametrize("relation", ["replace-one", "zero-out", "add-remove"])
def test_certificate_notices_every_change(relation: str) -> None:
    X, y = counts(500)
    nominal = 500 if relation == "add-remove" else None
    fitted = model(relation=relation, nominal_n=nominal).fit(X, y)
    assert abs(fitted.certificate_.record["guarantee"]["composed_epsilon"] - 2.0) < 1e-6
    assert not unnoticed(fitted.certificate_, ("noise.seed",))


@pytest.mark.parametrize("relation", ["replace-one", "zero-out"])
def test_terms_move_no_more_than_they_say(relation: str) -> None:
    """Random hostile rows: a row with a huge count and exposure against another, or against a null row."""
    rng = np.random.default_rng(1)
    features = Features(1.0, rng.normal(size=3), np.exp(rng.normal(size=3)))
    residuals = poisson_rule.CountResiduals(features, rng.normal(size=4), 0.05, -6.0, 3.0, heaviest=2.0)
    terms = [poisson_rule.CountGradient(residuals, 0.7), poisson_rule.CountSum(0.3, 2.0), poisson_rule.ExposureSum(2.0)]
    largest = {type(term).__name__: 0.0 for term in terms}
    for _ in range(300):
        X, y = 5 * rng.normal(size=(2, 3)), rng.choice([0.0, 0.3, 1.0], size=2)
        weight = rng.choice([0.0, 1.0, 2.0, 50.0], size=2)
        if relation == "zero-out":
            weight[1] = 0.0
        for term in terms:
            one, other = (np.asarray(term(Block(X[[i]], y[[i]], weight[[i]], 0))) for i in (0, 1))
            moved = float(np.linalg.norm(one - other))
            assert moved <= term.sensitivity(relation) * (1 + 1e-9)
            largest[type(term).__name__] = max(largest[type(term).__name__], moved)
    # The bounds are reached, so a smaller constant would fail above.
    assert largest["CountGradient"] > (1.5 if kappa(relation) == 2 else 0.99) * 0.7
    assert largest["CountSum"] == pytest.approx(0.6) and largest["ExposureSum"] == 2.0


def test_exposure_is_a_weighted_rate() -> None:
    """Rows seen for half the time have half the counts; with exposures the rates come back, without them they do not."""
    rng = np.random.default_rng(2)
    X = rng.uniform(0, 1, (20000, 1))
    exposure = rng.choice([0.25, 1.0], size=len(X))
    y = rng.poisson(exposure * np.exp(1 + X[:, 0]))
    fitted = model(y_bounds=(0, 60), max_exposure=1.0).fit(X, y, exposure=exposure)
    assert abs(fitted.predict(np.array([[0.5]]))[0] - np.exp(1.5)) < 0.35
    assert fitted.predict(np.array([[0.5]]), exposure=[0.5])[0] == pytest.approx(fitted.predict(np.array([[0.5]]))[0] / 2)
    same = model(y_bounds=(0, 60), max_exposure=1.0).fit(X, y, offset=np.log(exposure))
    assert np.allclose(same.w_, fitted.w_)
    assert fitted.certificate_.verify(allow_seeded=True).ok
    ignored = model(y_bounds=(0, 60)).fit(X, y)
    assert ignored.predict(np.array([[0.5]]))[0] < 0.8 * np.exp(1.5)


def test_bad_declarations_are_refused() -> None:
    X, y = counts(100)
    for options, message in (
        ({"y_bounds": None}, "y_max"),
        ({"y_bounds": (-3, 5)}, "never negative"),
        ({"fit_intercept": False}, "intercept"),
        ({"max_exposure": 2.0}, "exposure="),
    ):
        with pytest.raises(ValueError, match=message):
            model(**options).fit(X, y)
    with pytest.raises(ValueError, match="max_exposure"):
        model().fit(X, y, exposure=np.ones(100))


def test_negative_missing_and_huge_counts_follow_a_public_rule() -> None:
    X, y = counts(2000)
    odd = y.astype(float)
    odd[:3] = [-7, np.nan, 1e30]
    fitted = model().fit(X, odd)
    assert np.isfinite(fitted.coef_).all() and fitted.predict(X).max() <= 40


NEEDED = {"bike_sharing_hour": (0.775, 0.785, 0.79), "randhie": (0.085, 0.09, 0.092)}


@pytest.mark.skipif(not SHARED_DATA.exists(), reason="needs ../shared/data, which is not there")
@pytest.mark.parametrize("name", NEEDED)
def test_deviance_explained_on_real_counts(name: str) -> None:
    """Means over 5 fixed seeds; the seed-to-seed deviation is below .004, and the margins are above one of the mean's."""
    import pandas as pd
    from sklearn.model_selection import train_test_split

    schema = Schema.load(SHARED_DATA / "schemas" / f"{name}.json")
    table = pd.read_parquet(SHARED_DATA / f"{name}.parquet")
    train, test = train_test_split(table, test_size=0.2, random_state=0)
    for epsilon, least in zip((0.5, 1.0, 3.0), NEEDED[name]):
        options = {"epsilon": epsilon, "delta": 1e-6, "relation": "zero-out", "schema": schema}
        fitted = [PoissonRegressor(**options, random_state=seed).fit(train) for seed in range(5)]
        assert np.mean([m.score(test, test[schema.target.column].to_numpy()) for m in fitted]) >= least
