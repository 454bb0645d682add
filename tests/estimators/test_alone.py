"""Threads and one estimator object: a fit never takes what another thread passed to its own."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest
from sklearn.base import clone

import dperm
from dperm.mechanisms import Gradient

X = np.linspace(0, 1, 400).reshape(-1, 1)
COUNTS = np.arange(400) % 3
STARTED, GO = threading.Event(), threading.Event()


class Slow(dperm.PoissonRegressor):
    """Waits where a fit has kept its exposures and has not read them yet."""

    def _labels(self, y: object):
        if len(y):
            STARTED.set()
            GO.wait(30)
        return super()._labels(y)


def test_a_second_thread_cannot_bring_its_rows_into_a_fit(tmp_path):
    ledger = dperm.Ledger.create(tmp_path / "l", dataset="x", epsilon=9.0, delta=1e-5)
    options = {"epsilon": 1.0, "bounds": (0, 1), "y_bounds": (0, 3), "max_exposure": 5.0, "method": Gradient(steps=3)}
    model = Slow(**options, ledger=ledger, random_state=0)
    ended: list[object] = []
    thread = threading.Thread(target=lambda: ended.append(model.fit(X, COUNTS, exposure=np.full(400, 4.0))))
    thread.start()
    try:
        assert STARTED.wait(30)
        with pytest.raises(ValueError, match="one fit of a Slow at a time"):
            model.fit(X, COUNTS, exposure=np.full(400, 0.1))
        assert ledger.account().fits == 0
    finally:
        GO.set()
        thread.join()
    assert ended == [model] and ledger.account().fits == 1
    alone = dperm.PoissonRegressor(**options, random_state=0).fit(X, COUNTS, exposure=np.full(400, 4.0))
    np.testing.assert_array_equal(model.coef_, alone.coef_)  # its own exposures, not those of the other thread


@pytest.mark.parametrize("again", [clone, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_an_estimator_fits_again_after_a_fit_a_failure_and_a_copy(again):
    model = dperm.HuberRegressor(epsilon=1.0, bounds=(0, 1), y_bounds=(0, 3))
    with pytest.raises(ValueError, match="one label for every row"):
        model.fit(X, COUNTS[:-1])
    for _ in range(2):
        model.fit(X, COUNTS)
    again(model).fit(X, COUNTS)


GAPS = np.where(np.arange(400)[:, None] % 5, X, np.nan)
FITS = {
    "line": lambda **o: dperm.LinearRegression(bounds=(0, 1), y_bounds=(0, 3), **o).fit(GAPS, COUNTS),
    "classes": lambda **o: dperm.LogisticRegression(bounds=(0, 1), classes=[0, 1, 2], **o).fit(GAPS, COUNTS),
    "curves": lambda **o: dperm.GAMRegressor(bounds=(0, 1), y_bounds=(0, 3), **o).fit(GAPS, COUNTS),
    "counts": lambda **o: dperm.PoissonRegressor(bounds=(0, 1), y_bounds=(0, 3), **o).fit(GAPS, COUNTS),
    "rules": lambda **o: dperm.FiniteClassLearner(bounds=(0, 1), classes=[0, 1], **o).fit(X, COUNTS > 0),
    "embeddings": lambda **o: dperm.EmbeddingClassifier(classes=[0, 1, 2], **o).fit(np.c_[X, 1 - X], COUNTS),
    "mean": lambda **o: dperm.MeanEstimator(bounds=(0, 1), **o).fit(X),
    "search": lambda **o: dperm.PrivateGridSearch(
        dperm.LinearSVC(bounds=(0, 1), classes=[0, 1], method=Gradient(steps=3)), {"radius": [1.0, 5.0]}, **o
    ).fit(X, COUNTS > 0),
}


@pytest.mark.parametrize("name", FITS)
def test_a_fit_that_the_ledger_refuses_leaves_the_last_one_as_it_was(name, tmp_path):
    """Its encoding, without the released centres, used to stand beside the coefficients of the last fit and to predict."""
    ledger = dperm.Ledger.create(tmp_path / "l", dataset="x", epsilon=2.3, delta=1e-5)
    model = FITS[name](epsilon=2.0, ledger=ledger, random_state=0)
    before, kept = dict(vars(model)), model.certificate_.to_json()
    data = (X,) if name == "mean" else (np.c_[X, X] if name == "embeddings" else X, COUNTS > 0 if name == "search" else COUNTS)
    for given, words in ((data, "exceed its budget"), ((np.zeros((3, 9)), np.zeros(2))[: len(data)], "xpected|features")):
        with pytest.raises(ValueError, match=words):
            model.fit(*given)
        assert set(vars(model)) == set(before) and all(vars(model)[key] is before[key] for key in before)
    assert model.certificate_.to_json() == kept and ledger.account().fits == 1


def test_a_first_fit_that_fails_keeps_nothing_of_its_rows(tmp_path):
    ledger = dperm.Ledger.create(tmp_path / "l", dataset="x", epsilon=0.5, delta=1e-5)
    model = dperm.PoissonRegressor(2.0, bounds=(0, 1), y_bounds=(0, 3), max_exposure=2.0, ledger=ledger)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="exceed its budget"):
        model.fit(X, COUNTS, exposure=np.ones(400))
    assert vars(model) == before
