"""Person-level privacy, audited: all five rows of one person change, and the bound on ε stays below the claim."""

from __future__ import annotations

import numpy as np

import dperm
from dperm.audit import distinguish
from dperm.mechanisms import Gradient

PEOPLE = np.repeat(np.arange(6), 5)
OTHERS = np.zeros((25, 1))


def data(side: float) -> tuple[np.ndarray, np.ndarray]:
    """Five rows of person 0 at the end of the range, all others null in the middle of it."""
    return np.vstack([np.full((5, 1), side), OTHERS]), np.ones(30, dtype=int)


def fit(sample: tuple[np.ndarray, np.ndarray], limit: int, groups: np.ndarray) -> np.ndarray:
    mechanism = Gradient(steps=1, step_size=1.0, momentum=0.0, output="last", clip=0.25)
    model = dperm.LogisticRegression(
        2.0, 1e-3, bounds=(-1, 1), classes=[0, 1], fit_intercept=False, method=mechanism, max_rows_per_person=limit
    )
    return model.fit(*sample, groups=groups).coef_.ravel()


def test_the_whole_person_stays_below_the_claim():
    """Confidence 99.9 %: false alarm at most 0.1 %."""
    found = distinguish(
        lambda sample: fit(sample, 5, PEOPLE), data(1.0), data(-1.0), 1500, delta=1e-3, claim=2.0, confidence=0.999
    )
    assert found.epsilon_lower <= 2.0 and not found.violates  # the next test shows that the same audit has power


def test_row_level_noise_for_a_person_of_five_rows_is_accused():
    """The same data with every row called a person of its own: the claim is per row, and the person sees far more."""
    found = distinguish(
        lambda sample: fit(sample, 1, np.arange(30)), data(1.0), data(-1.0), 1500, delta=1e-3, claim=2.0, confidence=0.999
    )
    assert found.violates and found.epsilon_lower > 2.0
