"""A light, seeded part of the accuracy benchmark: what the defaults must reach on public data (`benchmarks/accuracy_ours.py`).

Adult ships with the package. The thresholds leave three standard deviations of two seeds to the means measured over five.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as NonPrivate

import dperm
from dperm.data import adult, adult_schema
from dperm.tables.schema import Schema
from dperm.tables.tables import cells, read_table
from places import SHARED_DATA

COMMON = {"delta": 1e-6, "relation": "zero-out"}


@pytest.fixture(scope="module")
def census():
    schema, train, test = adult_schema(), adult("train"), adult("test")
    return schema, train, test, schema.labels(cells(train, "income")), schema.labels(cells(test, "income"))


@pytest.mark.parametrize(("epsilon", "least"), [(0.1, 0.843), (1.0, 0.852)])
def test_adult_accuracy(census, epsilon, least):
    schema, train, test, _, truth = census
    scores = []
    for seed in (0, 1):
        model = dperm.LinearSVC(epsilon, schema=schema, random_state=seed, **COMMON).fit(train)
        scores.append(np.mean(model.predict(test) == truth))
    assert model.certificate_.mechanism == "scaled-gradient"
    assert np.mean(scores) >= least


@pytest.mark.parametrize(("epsilon", "most", "mechanism"), [(0.1, 0.030, "scaled-gradient"), (1.0, 0.003, "scaled-objective")])
def test_adult_probabilities(census, epsilon, most, mechanism):
    schema, train, test, labels, truth = census
    positive = truth == ">50K"

    def log_loss(p):
        return -np.mean(np.log(np.maximum(np.where(positive, p, 1 - p), 1e-12)))

    plain = NonPrivate(C=10.0, max_iter=3000).fit(schema.encoded(train), labels == ">50K")
    base = log_loss(plain.predict_proba(schema.encoded(test))[:, 1])
    excess = []
    for seed in (0, 1):
        model = dperm.LogisticRegression(epsilon, schema=schema, random_state=seed, **COMMON).fit(train)
        p = model.predict_proba(test)[:, 1]
        excess.append(log_loss(p) - base)
        assert np.array_equal(model.predict(test) == ">50K", p > 0.5)
    assert model.certificate_.mechanism == mechanism
    assert np.mean(excess) <= most


def test_bounds_ten_times_too_wide_cost_little(census):
    schema, train, test, _, truth = census
    spec = schema.spec()
    for column in spec["columns"].values():
        if column["type"] == "numeric":
            middle, half = (column["low"] + column["high"]) / 2, (column["high"] - column["low"]) / 2
            column["low"], column["high"] = middle - 10 * half, middle + 10 * half
    loose = dperm.LinearSVC(1.0, schema=spec, random_state=0, **COMMON).fit(train)
    tight = dperm.LinearSVC(1.0, schema=schema, random_state=0, **COMMON).fit(train)
    assert np.mean(tight.predict(test) == truth) - np.mean(loose.predict(test) == truth) <= 0.008


@pytest.mark.skipif(not (SHARED_DATA / "power_plant_ccpp.parquet").exists(), reason="../shared/data is not here")
def test_power_plant_regression():
    schema = Schema.load(SHARED_DATA / "schemas" / "power_plant_ccpp.json")
    table = read_table(SHARED_DATA / "power_plant_ccpp.parquet")
    order = np.random.default_rng(0).permutation(table.num_rows)
    train, test = table.take(order[:7654]), table.take(order[7654:])
    truth = cells(test, "PE")
    scores = [
        dperm.LinearRegression(0.5, schema=schema, random_state=seed, **COMMON).fit(train).score(test, truth) for seed in (0, 1)
    ]
    dense = np.column_stack([schema.encoded(train), np.ones(train.num_rows)])
    best = np.linalg.lstsq(dense, cells(train, "PE"), rcond=None)[0]
    fitted = np.column_stack([schema.encoded(test), np.ones(test.num_rows)]) @ best
    non_private = 1 - np.mean((fitted - truth) ** 2) / np.var(truth)
    assert np.mean(scores) >= non_private - 0.003


def test_weights_and_persons_keep_their_guarantees(census):
    schema, train, _, labels, _ = census
    small = train.slice(0, 4000)
    weighted = dperm.LinearSVC(1.0, schema=schema, max_weight=4.0, class_weight={">50K": 3.0}, random_state=0, **COMMON)
    weighted.fit(small, sample_weight=np.full(4000, 2.0))
    assert weighted.plan_.options["max_weight"] == 12.0
    assert weighted.certificate_.verify(allow_seeded=True).ok
    plain = dperm.LinearSVC(1.0, schema=schema, random_state=0, **COMMON).fit(small)
    rate = np.mean(weighted.predict(small) == ">50K")
    assert rate > np.mean(plain.predict(small) == ">50K") and rate > np.mean(labels[:4000] == ">50K")
    persons = np.repeat(np.arange(800), 5)
    owned = dperm.LinearSVC(3.0, schema=schema, max_rows_per_person=5, random_state=0, **COMMON).fit(small, groups=persons)
    assert owned.certificate_.unit == "person" and owned.certificate_.verify(allow_seeded=True).ok
