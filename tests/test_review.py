"""Attacks by a reader who did not write the code: each test reproduces a defect that was found so."""

from __future__ import annotations

import numpy as np

import dperm
from dperm.mechanisms.output import Output


def test_rows_beyond_a_persons_limit_do_not_fade_the_others() -> None:
    """One person of whom one row counts may own any number of rows; under add-remove all of them come and go together."""
    generator = np.random.default_rng(0)
    n = 300
    X = generator.normal(size=(n, 2))
    y = (X[:, 0] > 0).astype(int)

    def coefficients(owned: int) -> np.ndarray:
        model = dperm.LogisticRegression(
            1.0, 1e-6, bounds=(-3, 3), classes=[0, 1], method=Output(ridge=50.0, room=8), relation="add-remove", nominal_n=n,
            max_rows_per_person=1, random_state=3,
        )  # fmt: skip
        model.fit(
            np.vstack([X, np.zeros((owned, 2))]),
            np.r_[y, np.zeros(owned, dtype=int)],
            groups=np.r_[np.arange(n), np.full(owned, n)],
        )
        bound[:] = [model.plan_.stage("minimiser").settings["sensitivity"]]
        return np.asarray(model.w_)

    bound: list[float] = []
    without = coefficients(0)
    for owned in (1, 1000, 8 * n):
        assert np.linalg.norm(coefficients(owned) - without) <= bound[0]
