"""The audit's pairs for fits with intervals: their transcripts use most of the claim and never more, and so do both matrices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dperm.audit.cases import Builder, Case
from dperm.audit.intervals import NEIGHBOURS, Neighbours, interval_case, interval_cases
from dperm.audit.transcript import transcript
from dperm.privacy import RELATIONS
from dperm.release.plan import Plan
from dperm.rows.base import Rows
from dperm.terms.inference import CurvatureMatrix, ScoreMatrix
from dperm.terms.softmax import SoftmaxCurvature, SoftmaxScores

pytestmark = pytest.mark.filterwarnings("ignore::dperm.PrivacyWarning")
CASES = interval_cases()
KINDS = {"curvature": (CurvatureMatrix, SoftmaxCurvature), "scores": (ScoreMatrix, SoftmaxScores)}

# A row whose residual is small, or whose classes are even, has all of the curvature that a row may have.
WIDE = (0.3, 0.3, -0.3, -0.3)
EVEN = (0.0, 0.0, 1.0, 1.0)
# A third of the labels near 0 hold the median there; the others make the width, which half of the rows are in, reach the odd row.
HELD = (*WIDE, *WIDE, 0.02, -0.02, -0.02, 0.02)
CURVED = {
    "HuberRegressor": Neighbours((0.175, 0.175), WIDE, 0.0, (0.0, 0.0)),
    "LinearRegression": Neighbours((0.25, 0.36), WIDE, 0.0, (0.0, 0.0)),
    "LogisticRegression": Neighbours((0.17, 0.19), EVEN, 1.0, (0.0, 1.0), null=7.0),
    "LogisticRegression, 3 classes": Neighbours((0.17, 0.2), EVEN, 1.0, (0.0, 1.0), null=7.0),
    "PoissonRegressor": Neighbours((0.255, 0.38), (1.0,), 1.0, (0.0, 1.0)),
    "QuantileRegressor": Neighbours((0.175, 0.175), HELD, 0.0, (0.0, 0.0)),
    "Ridge": Neighbours((0.25, 0.36), WIDE, 0.0, (0.0, 0.0)),
}
# A row with the longest score; replaced by one at the centre, whose matrix is next to nothing, instead of its mirror image.
SCORED = {name: replace(pair, changed=(0.0, pair.labels[0])) for name, pair in NEIGHBOURS.items()}


def seeded(case: Case, seed: int) -> Case:
    """With given noise, so that what a test sees is the same each time."""
    assert isinstance(case.build, Builder)
    return replace(case, build=Builder(case.build.cls, {**case.build.options, "random_state": seed}))


def stored(case: Case) -> tuple[tuple[Rows, Rows], Plan]:
    """The rows of data and neighbour as a fit sees them, and its plan."""
    rows = []
    for data in (case.data, case.neighbour):
        with transcript() as seen:
            planned = seeded(case, 0).build().fit(*data).plan_
        rows.append(seen.rows)
    return (rows[0], rows[1]), planned


def energy(case: Case, rows: tuple[Rows, Rows], only: tuple[type, ...] = (object,), seed: int = 1) -> float:
    """Σ ‖(s' - s)/σ‖² over the noisy sums of a run, of all terms or of some: μ² of what it shows of the pair."""
    with transcript(rows, only=only) as seen:
        seeded(case, seed).build().fit(*case.data)
    return seen.energy


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}-{case.relation}")
def test_a_pair_of_a_fit_with_intervals_uses_much_of_its_claim_and_no_more(case: Case) -> None:
    """Half of μ² at least: 300 fits of each table then prove a quarter of μ. Mirrored rows, where one is replaced, have equal
    matrices; a nulled row shows four fifths. Halved noise of the descent alone would pass μ²."""
    rows, planned = stored(case)
    claim = planned.guarantee.mu**2
    found = [energy(case, rows, seed=seed) for seed in (1, 2)]
    assert np.mean(found) > (0.5 if case.relation == "replace-one" else 0.7) * claim
    assert max(found) <= claim * (1 + 1e-3)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", NEIGHBOURS)
@pytest.mark.parametrize("matrix", KINDS)
def test_halved_noise_of_a_matrix_shows_more_than_was_booked_for_it(
    matrix: str, name: str, relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row uses up what its matrix may show, a replaced one half of it; with half of the noise that is four times as much."""
    case = interval_case(name, relation, (CURVED if matrix == "curvature" else SCORED)[name])
    rows, planned = stored(case)
    booked = planned.stage(matrix).event.mu ** 2
    assert energy(case, rows, KINDS[matrix]) <= booked * (1 + 1e-3)
    for kind in KINDS[matrix]:
        sensitivity = kind.sensitivity
        monkeypatch.setattr(kind, "sensitivity", lambda self, relation, honest=sensitivity: honest(self, relation) / 2)
    assert energy(case, rows, KINDS[matrix]) > 1.25 * booked
