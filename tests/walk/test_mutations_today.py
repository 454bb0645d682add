"""The mutations of `test_mutations.py` on records of today: mechanisms and records that version 0.1.0 did not have.

Every seventh mutation of each record, in turn, which keeps the test short; what may pass is what docs/certificate.md lists.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable

import numpy as np
import pytest
from test_mutations import UNBOUND, mutations

import dperm
from dperm.walk.certificate import Certificate

RNG = np.random.default_rng(0)
N = 3000
X = RNG.uniform(0, 1, (N, 2))
CHANCE = X[:, 0] + 0.3 * RNG.standard_normal(N)
VALUE = np.clip(X[:, 0] / 2 + 0.2 * np.sin(6 * X[:, 1]), 0, 1)
CLASS, THREE, COUNT = (CHANCE > 0.5).astype(int), RNG.integers(0, 3, N), RNG.poisson(2 * X[:, 0])
EMBEDDED = RNG.standard_normal((N, 12))
HALF = (EMBEDDED[:, 0] > 0).astype(int)
USUAL = {"bounds": (0, 1), "random_state": 0}
SAME = ("without target.unit",)  # its absence means what it says in these records
CASES: dict[str, Callable[[], dperm.estimators.base.PrivateEstimator]] = {
    "least-squares": lambda: dperm.EmbeddingClassifier(
        epsilon=3.0, classes=[0, 1], method="least-squares", random_state=0
    ).fit(EMBEDDED, HALF),
    "scaled-heads": lambda: dperm.LogisticRegression(
        epsilon=1.0, bounds=(-1, 1), classes=[0, 1], method="scaled-heads", random_state=0
    ).fit(EMBEDDED, HALF),
    "curves": lambda: dperm.GAMRegressor(epsilon=20.0, y_bounds=(0, 1), **USUAL).fit(X, VALUE),
    "curves that are lines": lambda: dperm.GAMRegressor(epsilon=0.1, y_bounds=(0, 1), **USUAL).fit(X, VALUE),
    "intervals": lambda: dperm.LinearRegression(epsilon=2.0, y_bounds=(0, 1), intervals=True, **USUAL).fit(X, VALUE),
    "intervals of classes": lambda: dperm.LogisticRegression(
        epsilon=8.0, classes=[0, 1, 2], intervals=True, **USUAL
    ).fit(X, THREE),
    "intervals of counts": lambda: dperm.PoissonRegressor(epsilon=2.0, y_bounds=(0, 6), intervals=True, **USUAL).fit(X, COUNT),
}


@pytest.mark.filterwarnings("ignore::dperm.words.notices.PrivacyWarning")
@pytest.mark.parametrize("name", CASES)
def test_no_mutation_of_a_record_of_today_passes(name: str) -> None:
    record = json.loads(CASES[name]().certificate_.to_json())
    assert Certificate(record).verify(allow_seeded=True).ok
    tried = list(itertools.islice(mutations(record), len(name) % 7, None, 7))
    passed = [label for label, altered in tried if Certificate(altered).verify(allow_seeded=True, accept_assumptions=True).ok]
    assert [label for label in passed if not label.startswith((*UNBOUND, *SAME))] == []
    assert len(tried) >= 30


def test_no_mutation_of_an_evaluation_of_today_passes() -> None:
    model = dperm.LogisticRegression(epsilon=2.0, classes=[0, 1], **USUAL).fit(X, CLASS)
    found = dperm.evaluate(model, X, CLASS, epsilon=1.0, random_state=0)
    record = json.loads(found.to_json())
    for place in ("guarantee", "target", "shape", "question", "released", "metrics", "noise"):
        for key in record[place]:
            less = json.loads(json.dumps(record))
            del less[place][key]
            assert not type(found)(less).verify(allow_seeded=True).ok, f"without {place}.{key}"
    forged = [("guarantee", "epsilon", 0.5), ("target", "delta", 1e-9), ("shape", "n", 9), ("noise", "private", True)]
    for place, key, value in forged:
        altered = json.loads(json.dumps(record))
        altered[place][key] = value
        assert not type(found)(altered).verify(allow_seeded=True).ok, f"{place}.{key}"
