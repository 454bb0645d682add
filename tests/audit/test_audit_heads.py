"""Last layers under attack: the privacy loss of a whole transcript, by its exact energy on every path and by many fits."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dperm
from dperm.audit.transcript import transcript
from dperm.privacy import RELATIONS, gaussian_mu
from dperm.release.noise import SecureNoise

EPSILON, DELTA, N = 6.0, 1e-2, 12
Data = tuple[np.ndarray, np.ndarray]


def model(relation: str) -> dperm.EmbeddingClassifier:
    return dperm.EmbeddingClassifier(
        EPSILON, delta=DELTA, relation=relation, classes=[0, 1], steps=20, nominal_n=N if relation == "add-remove" else None
    )


def pairs(relation: str) -> list[tuple[Data, Data]]:
    """The last row is replaced (turned round, another label, another direction), nulled or removed, among zeros and others."""
    found = []
    for rest, d in ((0.0, 1), (0.0, 2), (1.0, 2), (1.0, 3)):
        rng = np.random.default_rng(5)
        X, y = rest * rng.normal(size=(N, d)), rng.integers(0, 2, N) if rest else np.zeros(N, dtype=np.int64)
        X[-1], y[-1] = np.eye(d)[0], 1
        other, labels = X.copy(), y.copy()
        if relation == "add-remove":
            found.append(((X, y), (X[:-1], y[:-1])))
        elif relation == "zero-out":
            labels[-1] = 7
            found.append(((X, y), (other, labels)))
        else:
            for x, label in ((-np.eye(d)[0], 1), (np.eye(d)[0], 0), (np.eye(d)[-1], 0)):
                other, labels = X.copy(), y.copy()
                other[-1], labels[-1] = x, label
                found.append(((X, y), (other, labels)))
    return found


def stored(relation: str, data: Data, neighbour: Data) -> tuple[object, object]:
    rows = []
    for part in (data, neighbour):
        with transcript() as seen:
            model(relation).fit(*part)
        rows.append(seen.rows)
    return rows[0], rows[1]


@pytest.mark.parametrize("relation", RELATIONS)
def test_no_path_spends_more_than_was_booked_and_the_worst_pair_nearly_all(relation: str) -> None:
    """Σ‖(s' - s)/σ‖² over the answers of one run is its μ² exactly; halved noise would have four times as much."""
    booked, largest = gaussian_mu(EPSILON, DELTA), 0.0
    for data, neighbour in pairs(relation):
        rows = stored(relation, data, neighbour)
        for own, part in enumerate((data, neighbour)):
            with transcript(rows, own=own) as seen:
                model(relation).fit(*part)
            largest = max(largest, math.sqrt(seen.energy))
    assert 0.97 * booked <= largest <= booked


def measured(relation: str, fits: int) -> tuple[float, float]:
    """μ from the log-likelihood ratios of fits on both data sets, and its standard error."""
    data, neighbour = pairs(relation)[1]
    rows, ratios = stored(relation, data, neighbour), []
    for own, part in enumerate((data, neighbour)):
        found = []
        for _ in range(fits):
            with transcript(rows, own=own) as seen:
                model(relation).fit(*part)
            found.append(seen.ratio)
        ratios.append(np.array(found))
    spread = math.sqrt((ratios[0].var(ddof=1) + ratios[1].var(ddof=1)) / 2)
    mu = float(ratios[1].mean() - ratios[0].mean()) / spread
    return mu, math.sqrt(2 / fits + mu**2 / (4 * fits))


def test_many_fits_find_the_booked_loss_and_halved_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """120 fits of both data sets: μ is known to ±0.16, and a false alarm is four standard errors away (3e-5 each)."""
    booked = gaussian_mu(EPSILON, DELTA)
    mu, error = measured("replace-one", 120)
    assert abs(mu - booked) <= 4 * error
    plain = SecureNoise.normal
    monkeypatch.setattr(SecureNoise, "normal", lambda self, scale, size: plain(self, scale, size) / 2)
    mu, error = measured("replace-one", 120)
    assert mu - 4 * error > booked
