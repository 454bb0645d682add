"""Finite classes: counting, the learner, its sample-size theorem, its certificate."""

from __future__ import annotations

import resource

import numpy as np
import pytest

from alterations import unnoticed
from dperm.estimators.finite import FiniteClassLearner
from dperm.mechanisms.hypotheses.classes import Boxes, Separators, Stumps, Thresholds
from dperm.mechanisms.hypotheses.stored import Predictions, Rules, hypotheses_from_spec
from dperm.theory import pac_sample_size

CLASSES = [
    Thresholds(-1.0, 1.0, 41),
    Thresholds(-1.0, 1.0, 41, column=2),
    Stumps((-1.0, -1.0, -1.0), (1.0, 0.5, 1.0), 13),
    Separators(3, 20, 15, 1.5),
]


def rows(d=3, n=300, seed=0):
    generator = np.random.default_rng(seed)
    X = np.round(generator.uniform(-1.2, 1.2, (n, d)), 1)  # many values fall exactly on the grid
    y = (X[:, 0] + 0.3 * generator.standard_normal(n) > 0).astype(float)
    return X, y, (generator.random(n) < 0.8).astype(float)


@pytest.mark.parametrize(
    ("hypotheses", "d"),
    [
        *((h, 3) for h in CLASSES),
        (Boxes((-1.0,), (1.0,), 9), 1),
        (Boxes((-1.0, -1.0), (1.0, 1.0), 6), 2),
        (Boxes((-1.0, 0.0, -1.0), (1.0, 1.0, 1.0), 4), 3),
        (Separators(2, 12, 21, 1.0), 2),
        (Separators(1, 1, 21, 1.0), 1),
    ],
    ids=lambda value: getattr(value, "kind", str(value)),
)
def test_counting_by_sums_equals_asking_every_rule(hypotheses, d):
    X, y, weight = rows(d)
    asked = [float(weight @ (hypotheses.predict(h, X) != y)) for h in range(hypotheses.size)]
    assert hypotheses.errors(X, y, weight).tolist() == asked
    assert hypotheses_from_spec(hypotheses.spec()) == hypotheses
    assert hypotheses.describe(hypotheses.size - 1)["number"] == hypotheses.size - 1


def test_callables_and_predictions_equal_the_built_in_class():
    X, y, weight = rows(1)
    grid = Thresholds(-1.0, 1.0, 41)
    listed = Rules([lambda X, t=t: X[:, 0] >= t for t in grid.grid], classes=(False, True))
    block = Rules(lambda X, start, stop: X[:, :1] >= grid.grid[None, start:stop], 41, classes=(False, True))
    expected = grid.errors(X, y, weight)[:41].tolist()
    assert listed.errors(X, y, weight).tolist() == expected
    assert block.errors(X, y, weight).tolist() == expected
    matrix = (X[:, :1] >= grid.grid[None, :]).astype(float)
    assert Predictions(41).errors(matrix, y, weight).tolist() == expected


@pytest.mark.parametrize("sampler", ["permute-and-flip", "gumbel"])
def test_failure_rate_stays_below_the_beta_of_the_sample_size_theorem(sampler):
    """500 runs at the m of the theorem, which is conservative: none fails here. At a true rate of β/2 the false-alarm rate is
    2e-6."""
    hypotheses, alpha, beta, epsilon = Thresholds(0.0, 1.0, 50), 0.15, 0.1, 0.5
    m = pac_sample_size(hypotheses.size, alpha, beta, epsilon)
    generator = np.random.default_rng(11)
    failures = 0
    for run in range(500):
        X = generator.random((m, 1))
        flipped = generator.random(m) < 0.2
        y = (X[:, 0] >= 0.4) ^ flipped
        model = FiniteClassLearner(epsilon, hypotheses=hypotheses, classes=[False, True], sampler=sampler, random_state=run).fit(
            X, y
        )
        t, above = model.rule_["threshold"], model.rule_["class_above"]
        wrong = abs(t - 0.4) if above else 1 - abs(t - 0.4)
        error = 0.2 + 0.6 * wrong
        best = 0.2 + 0.6 * np.abs(hypotheses.grid - 0.4).min()
        failures += error > best + alpha
    assert failures / 500 <= beta


def test_a_million_thresholds_fit_in_memory():
    generator = np.random.default_rng(3)
    X = generator.random((100_000, 1))
    y = X[:, 0] >= 0.25
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = FiniteClassLearner(0.5, hypotheses=Thresholds(0.0, 1.0, 10**6), classes=[False, True], random_state=1).fit(X, y)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 2**20  # KiB: one GiB
    assert abs(model.rule_["threshold"] - 0.25) < 0.002
    assert model.score(X, y) > 0.995


@pytest.mark.parametrize("relation", ["replace-one", "zero-out", "add-remove"])
def test_the_rate_follows_the_relation_and_the_person(relation):
    X, y, _ = rows(1)
    common = {"hypotheses": CLASSES[0], "classes": [0, 1], "relation": relation, "nominal_n": 300, "random_state": 0}
    model = FiniteClassLearner(2.0, **common).fit(X, y)
    kappa = 2 if relation == "replace-one" else 1
    assert model.plan_.stage("selection").settings["rate"] == 2.0 / kappa
    assert model.certificate_.epsilon == 2.0 and model.certificate_.delta == 0.0
    person = FiniteClassLearner(2.0, groups=np.arange(300) // 3, max_rows_per_person=3, **common).fit(X, y)
    assert person.plan_.stage("selection").settings["rate"] == pytest.approx(2.0 / (3 * kappa))
    assert person.certificate_.unit == "person"


def test_every_leaf_of_the_certificate_is_bound():
    X, y, _ = rows(1)
    for hypotheses, more in ((CLASSES[0], {}), (lambda X, a, b: np.tile(X[:, :1] > 0, b - a), {"count": 5})):
        model = FiniteClassLearner(1.0, hypotheses=hypotheses, classes=[0, 1], random_state=0, **more).fit(X, y)
        # The name and labels of functions are words; the stated rules have only their number.
        assert unnoticed(model.certificate_, ("noise.seed",)) == set()


def test_concentrated_accounting_books_the_square_over_eight():
    X, y, _ = rows(1)
    model = FiniteClassLearner(1.0, 1e-6, hypotheses=CLASSES[0], classes=[0, 1], accounting="concentrated", random_state=0).fit(
        X, y
    )
    stage = model.plan_.stage("selection")
    assert stage.event.rho == pytest.approx((2 * stage.settings["rate"]) ** 2 / 8)
    assert model.plan_.guarantee.epsilon(1e-6) <= 1.0
    assert model.certificate_.verify(allow_seeded=True)


def test_labels_multiclass_predictions_and_null_rows():
    generator = np.random.default_rng(5)
    y = generator.choice(["a", "b", "c"], 400)
    P = generator.choice(["a", "b", "c"], (400, 6))
    P[:, 4] = y
    y[:5] = "unknown"
    model = FiniteClassLearner(3.0, hypotheses="predictions", classes=["a", "b", "c"], random_state=0).fit(P, y)
    assert model.index_ == 4
    assert (model.predict(P) == P[:, 4]).all()


def test_missing_declarations_are_named():
    X, y, _ = rows(1)
    with pytest.raises(ValueError, match="hypotheses="):
        FiniteClassLearner(classes=[0, 1]).fit(X, y)
    with pytest.raises(ValueError, match="classes="):
        FiniteClassLearner(hypotheses=CLASSES[0]).fit(X, y)
    with pytest.raises(ValueError, match="count="):
        FiniteClassLearner(hypotheses=lambda X, a, b: X, classes=[0, 1]).fit(X, y)
    with pytest.raises(ValueError, match="delta > 0"):
        FiniteClassLearner(hypotheses=CLASSES[0], classes=[0, 1], accounting="concentrated").fit(X, y)
    with pytest.raises(ValueError, match="gumbel"):
        FiniteClassLearner(
            1.0, 1e-6, hypotheses=CLASSES[0], classes=[0, 1], accounting="concentrated", sampler="permute-and-flip"
        ).fit(X, y)
    with pytest.raises(ValueError, match="columns"):
        FiniteClassLearner(hypotheses=CLASSES[2], classes=[0, 1]).fit(X, y)
    with pytest.raises(ValueError, match="two classes"):
        FiniteClassLearner(hypotheses=CLASSES[0], classes=[0, 1, 2]).fit(X, y)


@pytest.mark.parametrize(("name", "d"), [("thresholds", 1), ("stumps", 3), ("boxes", 2), ("separators", 2)])
def test_built_in_classes_by_name_on_the_declared_bounds(name, d):
    X = np.random.default_rng(0).uniform(-1, 1, (400, d))
    y = X[:, 0] > 0
    model = FiniteClassLearner(5.0, hypotheses=name, bounds=(-1, 1), classes=[False, True], random_state=0).fit(X, y)
    assert model.hypotheses_.kind == name and model.score(X, y) > 0.9
    assert model.certificate_.verify(allow_seeded=True)


@pytest.mark.parametrize(
    ("hypotheses", "words"),
    [
        ("tresholds", r"'stumps'.*Did you mean 'thresholds'.*dperm\.mechanisms\.hypotheses"),
        ("thresholds", r"one column for 'thresholds', found 4.*'stumps'"),
        ("boxes", "at most three columns"),
        (np.zeros((50, 3)), r"hypotheses='predictions', \.\.\.\)\.fit\(matrix, y\)"),
    ],
)
def test_what_cannot_be_built_says_what_to_pass(hypotheses, words):
    X = np.zeros((50, 4))
    with pytest.raises(ValueError, match=words):
        FiniteClassLearner(hypotheses=hypotheses, bounds=(-1, 1), classes=[0, 1]).fit(X, np.zeros(50))
