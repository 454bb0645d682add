"""Extreme public numbers: refused in a sentence before anything is spent, never by an arithmetic error.

Every number here is the caller's, so a refusal says nothing about a row; an overflow after a debit would have cost a budget.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import dperm
from dperm.mechanisms.gradient import Gradient
from dperm.mechanisms.output import Output
from dperm.release.ledger.book import Ledger

X = np.random.default_rng(0).uniform(0, 1, (60, 2))
Y = (X[:, 0] > 0.5).astype(int)
SIZES = [5e-324, 1e-320, 1e-300, 1e300, 1.7e308]
SAMPLED = Gradient(steps=3, sampling_rate=0.1)


def classifier(**options):
    return dperm.LogisticRegression(**({"epsilon": 1.0, "bounds": (0, 1), "classes": [0, 1], "random_state": 0} | options))


def network(**options):
    return dperm.MLPClassifier(**({"epsilon": 1.0, "bounds": (0, 1), "classes": [0, 1], "hidden": 2} | options))


REFUSED = [
    *((f"delta {d:g} {m}", classifier(delta=d, method=m)) for d in (5e-324, 1e-310) for m in ("auto", "gradient", "output")),
    ("delta of a sampled fit", classifier(delta=5e-324, relation="zero-out", method=SAMPLED)),
    *((f"radius {v:g}", classifier(radius=v, method="output")) for v in SIZES),
    *((f"regularization {v:g}", classifier(regularization=v, method="output")) for v in SIZES),
    *((f"ridge {v:g}", classifier(method=Output(ridge=v))) for v in SIZES),
    *((f"weight {v:g}", classifier(max_weight=v)) for v in SIZES),
    *((f"epsilon {e:g} sampled", classifier(epsilon=e, relation="zero-out", method=SAMPLED)) for e in (1e6, 1e8)),
    ("epsilon 1e-300", classifier(epsilon=1e-300, delta=0)),
    *((f"mean {v:g}", dperm.MeanEstimator(1.0, bounds=(-v, v))) for v in SIZES),
    *((f"median {v:g}", dperm.MedianEstimator(1.0, bounds=(-v, v))) for v in SIZES),
    ("network by output perturbation", network(method=Output())),
    ("network by gradients", network(method=Gradient(steps=2))),
]


@pytest.mark.parametrize(("what", "model"), REFUSED, ids=[what for what, _ in REFUSED])
def test_extreme_options_are_refused_in_words_before_anything_is_spent(what, model, tmp_path):
    ledger = Ledger.create(tmp_path / "l", dataset="x", epsilon=1e12, delta=0.5)
    model.ledger, before = ledger, len(ledger.entries())
    weights = {"sample_weight": np.ones(60)} if what.startswith("weight") else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="Expected"):
            model.fit(X, Y, **weights)
    assert len(ledger.entries()) == before


def test_large_and_small_numbers_that_floats_can_keep_are_taken():
    for model in (classifier(radius=1e90, method="output"), classifier(delta=1e-290), classifier(regularization=1e-90)):
        assert np.isfinite(model.fit(X, Y).coef_).all()
    assert np.isfinite(dperm.MeanEstimator(1.0, bounds=(-1e140, 1e140), random_state=0).fit(X).location_).all()
