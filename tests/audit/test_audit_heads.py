"""Last layers under attack: the privacy loss of a whole transcript, by its exact energy on every path and by many fits."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dperm
from dperm.audit.transcript import transcript
from dperm.privacy import RELATIONS, gaussian_mu
from dperm.release.noise import SecureNoise

pytestmark = pytest.mark.usefixtures("repeated_keys")
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


HUGE = 1.7e308
OWN = np.array([[1.0, 0.0, np.nan], [HUGE, -np.inf, 0.0], [0.0, 1e-320, 0.0]])  # a person's rows; two of them count


def households(relation: str, others: np.ndarray, rng: np.random.Generator) -> list[tuple[Data, np.ndarray]]:
    """Two tables with the ids of their persons: in the second, one person's rows are turned round, nulled or gone."""
    X, y = np.vstack([others, OWN]), np.append(rng.choice([0, 1, 3], len(others)), [1, 1, 3])  # 2 is absent, 3 is not declared
    people = np.append(np.arange(len(others)) // 2, [99, 99, 99])
    changed, labels = X.copy(), y.copy()
    if relation == "add-remove":
        return [((X, y), people), ((X[:-3], y[:-3]), people[:-3])]
    if relation == "zero-out":
        labels[-3:] = 3
    else:
        changed[-3:] = -OWN
    return [((X, y), people), ((changed, labels), people)]


@pytest.mark.parametrize("method", ["heads", "heads on a device", "least-squares"])
@pytest.mark.parametrize(
    ("relation", "nominal"),
    [("replace-one", None), ("zero-out", None), ("add-remove", 2), ("add-remove", 12), ("add-remove", 90)],
)
def test_no_person_with_odd_rows_spends_more_than_was_booked(method: str, relation: str, nominal: int | None) -> None:
    """Persons with more rows than count, cells that are no numbers, huge and tiny rows, undeclared and absent classes, and a
    nominal n far from the true one, all together. The lower end is for this seed: halved noise would be above what was booked."""
    booked, largest, rng = gaussian_mu(EPSILON, DELTA), 0.0, np.random.default_rng(7)
    if method == "heads on a device":
        pytest.importorskip("torch", reason="rows on a device need torch: pip install dperm[torch]")
    how = {"method": method} if method == "least-squares" else {"steps": 20, "device": None if method == "heads" else "cpu"}
    for rest in (0.0, 1.0):
        tables = households(relation, rest * rng.normal(size=(N, 3)), rng)

        def fit(table: tuple[Data, np.ndarray]) -> None:
            options = {"relation": relation, "nominal_n": nominal, "random_state": 5}
            model = dperm.EmbeddingClassifier(EPSILON, delta=DELTA, classes=[0, 1, 2], max_rows_per_person=2, **options, **how)
            model.fit(*table[0], groups=table[1])

        rows = []
        for table in tables:
            with transcript() as seen:
                fit(table)
            rows.append(seen.rows)
        for own, table in enumerate(tables):
            with transcript((rows[0], rows[1]), own=own) as seen:
                fit(table)
            largest = max(largest, math.sqrt(seen.energy))
    assert 0.8 * booked <= largest <= booked
