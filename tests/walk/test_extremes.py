"""Extreme public numbers: refused in a sentence before anything is spent, never by an arithmetic error.

Every number here is the caller's, so a refusal says nothing about a row; an overflow after a debit would have cost a budget.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import dperm
from dperm.choose.odds import odds
from dperm.mechanisms.gradient import Gradient
from dperm.mechanisms.output import Output
from dperm.release.ledger.book import Ledger
from dperm.words.notices import PrivacyWarning

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
    *((f"epsilon {e:g} sampled", classifier(epsilon=e, relation="zero-out", method=SAMPLED)) for e in (1e5, 1e6, 1e8)),
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


def test_an_epsilon_that_protects_nobody_is_said_to_give_no_useful_bound(tmp_path):
    """Aloud where the noise is real, in the statement and on the pages; a seeded release says that it is not private anyway."""
    model = classifier(epsilon=1e6, random_state=None)
    assert "no useful bound" in model.plan(60, 2).explain().lower()
    with pytest.warns(PrivacyWarning, match="NO USEFUL BOUND: with epsilon=1e"):
        model.fit(X, Y)
    assert "no useful bound on the odds" in model.certificate_.statement and "e+304" not in model.certificate_.to_json()
    assert model.certificate_.verify().ok
    page = model.report(tmp_path / "page.md").read_text()
    assert "No useful bound" in page and "surer than" not in page and "100.0" not in page.partition("## ")[0]
    with pytest.warns(PrivacyWarning, match="NO USEFUL BOUND"):
        dperm.evaluate(model, X, Y, epsilon=21.0)
    for quiet in (classifier(epsilon=20.0, random_state=None), classifier(epsilon=1e6)):
        with warnings.catch_warnings():
            warnings.simplefilter("error", PrivacyWarning)
            warnings.filterwarnings("ignore", message="LITTLE")
            quiet.fit(X, Y)
    assert odds(1e6)["factor"] is None and odds(1.0)["factor"] == np.e
    assert "change by a factor of at most 4.852e+08" in classifier(epsilon=20.0).fit(X, Y).certificate_.statement


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1e9, None), (1e12, 1e-9), (1e12, 1e-290), (699.0, 1e-300), (1.1, 1e-300), (1e-6, 1e-300)]
)
def test_an_objective_of_extreme_budgets_costs_what_was_asked(epsilon, delta):
    """Beyond ε = 5e8 the composed ε was infinite, which no JSON has, after the debit; at δ = 1e-300 a power of two."""
    options = {"method": "scaled-objective", "bounds": (0, 1), "classes": [0, 1]}
    planned = dperm.LogisticRegression(epsilon, delta, **options).plan(10**6, 2)
    composed = planned.guarantee.epsilon(planned.target.delta)
    assert 0.5 * epsilon < composed <= epsilon * (1 + 1e-9)
    model = dperm.LogisticRegression(epsilon, delta, random_state=0, **options).fit(X, Y)
    claim = type(model.certificate_).from_json(model.certificate_.to_json())
    assert claim.verify(allow_seeded=True).ok and claim.epsilon == epsilon


@pytest.mark.parametrize("runs", ["logarithmic", "geometric"])
@pytest.mark.parametrize("epsilon", [1e5, 1e6, 1e12])
def test_a_search_with_an_epsilon_that_protects_nobody_is_a_search(runs, epsilon, tmp_path):
    """It ended in the words of a root finder: "f(a) and f(b) must have different signs"."""
    base = dperm.LinearSVC(bounds=(0, 1), classes=[0, 1], method=Gradient(steps=3))
    given = {"runs": runs, "expected_runs": 2.0, "epsilon": epsilon, "random_state": 0}
    claim = dperm.PrivateGridSearch(base, {"radius": [1.0, 2.0]}, **given).fit(X, Y).certificate_
    assert claim.verify(allow_seeded=True).ok and 0 < claim.record["run"]["selection_epsilon"] <= epsilon
