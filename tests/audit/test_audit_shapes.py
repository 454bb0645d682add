"""The audit's pairs for additive models and last layers: what a transcript says of them is most of the claim, and never more."""

from __future__ import annotations

import numpy as np
import pytest

import dperm
from dperm.audit.cases import DELTA, ESTIMATORS_OF, Case, mechanism_cases
from dperm.audit.transcript import transcript
from dperm.privacy import RELATIONS

SHAPED = [case for case in mechanism_cases() if case.method in ESTIMATORS_OF and case.build().delta == DELTA]


def energies(case: Case, runs: int = 4) -> list[float]:
    """Σ ‖(s' - s)/σ‖² of every noisy sum of a run: μ² of its transcript."""
    rows = []
    for data in (case.data, case.neighbour):
        with transcript() as seen:
            case.build().fit(*data)
        rows.append(seen.rows)
    found = []
    for _ in range(runs):
        with transcript((rows[0], rows[1])) as seen:
            case.build().fit(*case.data)
        found.append(seen.energy)
    return found


def test_every_additive_or_whitened_mechanism_and_relation_has_a_pair() -> None:
    names = [(case.name, case.method, case.relation) for case in SHAPED]
    assert len(names) == len(set(names)) == 6 * len(RELATIONS)


@pytest.mark.filterwarnings("ignore::dperm.PrivacyWarning")
@pytest.mark.parametrize("case", SHAPED, ids=lambda case: f"{case.name}-{case.method}-{case.relation}")
def test_a_pair_uses_much_of_its_claim_and_no_more(case: Case) -> None:
    """A third of μ² at least, as a mean of four runs; noise halved in the descent, or anywhere that matters, would pass μ².

    With Λ of such a transcript some 250 fits of each table prove a quarter of the claimed μ or more.
    """
    plan = case.build().fit(*case.data).plan_
    if case.method.startswith("additive"):  # the line alone would say nothing of curves
        assert "marginals" in [stage.name for stage in plan.stages]
    claim = plan.guarantee
    found = energies(case)
    assert np.mean(found) > claim.mu**2 / 3
    assert max(found) <= claim.mu**2 * (1 + 1e-3)


def test_pure_privacy_is_refused_by_name() -> None:
    X, y = np.zeros((12, 1)), np.zeros(12)
    for model in (
        dperm.GAMRegressor(bounds=(-1, 1), y_bounds=(-1, 1), delta=0.0),
        dperm.GAMRegressor(bounds=(-1, 1), y_bounds=(0, 4), loss="poisson", delta=0.0),
        dperm.GAMClassifier(bounds=(-1, 1), classes=[0, 1], delta=0.0),
        dperm.GAMClassifier(bounds=(-1, 1), classes=[0, 1, 2], delta=0.0),
    ):
        with pytest.raises(ValueError, match="delta > 0, because its noise is Gaussian"):
            model.fit(X, y)
