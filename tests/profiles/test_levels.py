"""Private levels: the event, its threshold and its release, checked against exact laws."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_ndtr, ndtr

import dperm
from dperm.privacy import Approximate, Gaussian, Levels, Pure, compose, event_from_spec, gaussian_delta, levels_threshold
from dperm.privacy.filters import Filter
from dperm.profiles.levels import found_levels, noise_of
from dperm.profiles.profile import question_about
from dperm.profiles.rows import looked_at
from dperm.release.asks import Secret
from dperm.release.noise import SeededNoise
from dperm.rows.memory import MemoryRows

EVENT = Levels(0.5, 1e-4)


def exact_delta(epsilon: float, sigma: float, threshold: float, moved: float, own: float) -> float:
    """δ(ε) of one column, one common level that moves by `moved`, and one that only the first table has, `own` times.

    The common level shows its noisy count above the threshold; far above it (where nothing is cut) it is a plain Gaussian. The
    own level is listed with probability Φ̄((T - own)/σ), and then tells everything.
    """
    told = float(ndtr((own - threshold) / sigma))
    return told + (1 - told) * _hockey(epsilon, told, sigma, moved)


def _hockey(epsilon: float, told: float, sigma: float, moved: float) -> float:
    """Of (1 - told)·N(0, σ²) against N(moved, σ²), divided by (1 - told), by quadrature."""
    z = np.linspace(-12 * sigma - moved, 12 * sigma + moved, 400_001)
    step = float(z[1] - z[0])
    first = np.exp(-((z / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))
    second = np.exp(-(((z - moved) / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))
    return float(np.sum(np.maximum(first - math.exp(epsilon) * second / (1 - told), 0.0)) * step)


@pytest.mark.parametrize("relation", ["zero-out", "replace-one"])
def test_the_booked_delta_holds_exactly_and_not_with_half_the_noise_or_a_lower_threshold(relation):
    """A person who alone has a level leaves, or is replaced by one with a common level: zero-out moves no common count then."""
    sigma, _, threshold = noise_of(EVENT, 1, relation, 1)
    moved = 1.0 if relation == "replace-one" else 0.0
    booked = compose([EVENT], relation)
    broken_noise, broken_threshold = False, False
    for epsilon in np.linspace(0.0, 2.0, 9):
        truth = exact_delta(epsilon, sigma, threshold, moved, 1.0)
        assert truth <= booked.delta(epsilon)
        broken_noise |= exact_delta(epsilon, sigma / 2, threshold / 2 + 0.5, moved, 1.0) > booked.delta(epsilon)
        broken_noise |= exact_delta(epsilon, sigma / 2, threshold, 2 * moved or 1.0, 1.0) > booked.delta(epsilon)
        broken_threshold |= exact_delta(epsilon, sigma, threshold - 2 * sigma, moved, 1.0) > booked.delta(epsilon)
    assert broken_threshold
    assert broken_noise


def test_common_levels_alone_are_a_gaussian_release_whose_noise_cannot_be_halved():
    """A person with a common level in each of p columns is replaced by one with other common levels: the counts move by √(2p)."""
    for p in (1, 3):
        sigma, _, _ = noise_of(EVENT, p, "replace-one", 2)
        moved = 2 * math.sqrt(2 * p)
        for epsilon in (0.1, 0.5, 1.0):
            assert gaussian_delta(epsilon, moved / sigma) <= compose([EVENT], "replace-one").delta(epsilon)
            assert gaussian_delta(epsilon, 2 * moved / sigma) > compose([EVENT], "replace-one").delta(epsilon)


@pytest.mark.parametrize(("columns", "rows"), [(1, 1), (1, 5), (3, 4), (2, 50)])
def test_no_share_of_a_persons_rows_passes_more_often_than_delta(columns, rows):
    """Every way to spread k rows over own levels, at a noise where each of the two worst cases rules for some k."""
    for sigma in (0.5, 3.0, 40.0):
        threshold = levels_threshold(sigma, 1e-6, columns, rows)
        for parts in _partitions(rows, limit=400):
            total = columns * float(np.exp(log_ndtr((np.array(parts) - threshold) / sigma)).sum())
            assert total <= 1e-6 * (1 + 1e-9)
        worst = max(rows * ndtr((1 - threshold) / sigma), ndtr((rows - threshold) / sigma)) * columns
        assert worst == pytest.approx(1e-6, rel=1e-3)  # and it is not wasted


def _partitions(k: int, limit: int) -> list[list[int]]:
    generator = np.random.default_rng(k)
    found = [[k], [1] * k]
    for _ in range(limit):
        cuts = np.sort(generator.choice(np.arange(1, k), size=generator.integers(0, k), replace=False)) if k > 1 else []
        found.append(np.diff([0, *cuts, k]).tolist())
    return found


def test_the_event_composes_exactly_on_a_grid_and_in_a_ledger():
    alone = compose([EVENT], "replace-one")
    for epsilon in (0.0, 0.5, 1.0):
        assert alone.delta(epsilon) == pytest.approx(1e-4 + (1 - 1e-4) * gaussian_delta(epsilon, 0.5), rel=1e-9)
    beside = compose([EVENT, Gaussian(1.2), Levels(0.3, 1e-5)], "zero-out")
    hidden, b = math.sqrt(0.25 + 1.44 + 0.09), 1 - (1 - 1e-4) * (1 - 1e-5)
    assert beside.delta(1.0) == pytest.approx(b + (1 - b) * gaussian_delta(1.0, hidden), rel=1e-9)
    assert compose([EVENT, Pure(0.1), Approximate(0.2, 1e-6)], "zero-out").delta(1.0) > alone.delta(1.0)
    grid = EVENT.loss_distribution(1e-3)
    assert alone.delta(0.5) * (1 - 1e-10) <= grid.get_delta_for_epsilon(0.5) <= alone.delta(0.5) * 1.01
    assert alone.epsilon(0.0) == math.inf
    assert alone.epsilon(0.99e-4) == math.inf
    assert event_from_spec(EVENT.spec()) == EVENT
    for delta in (0.0, 0.5, 1.0):
        with pytest.raises(ValueError, match="private levels"):
            Levels(0.5, delta)


def test_a_filter_counts_the_failure_in_both_branches():
    """δ = 1e-6 sets 5e-8 aside for failures: what fits is Gaussian in cost, what does not is refused; pure ledgers refuse all."""
    rule = Filter.declare(3.0, 1e-6, "auto")
    fits, fails = rule.cost([Levels(0.1, 4e-8)]), rule.cost([Levels(0.1, 6e-8)])
    assert fits.square == pytest.approx(0.01)
    assert rule.accepts([fits]) == "gaussian"
    assert rule.accepts([fails]) is None
    assert rule.accepts([fits, fits]) is None
    assert rule.left([fits]) == pytest.approx(math.sqrt(rule.mu**2 - 0.01), rel=1e-6)
    assert rule.left([fails]) == 0.0
    assert Filter.declare(3.0, 1e-6, "renyi").accepts([fits]) == "renyi"
    assert Filter.declare(3.0, 1e-6, "gaussian").accepts([fits]) is None
    assert Filter.declare(3.0, 0.0).accepts([Filter.declare(3.0, 0.0).cost([Levels(0.1, 4e-8)])]) is None


def levels_of(table, seed, *, weight=None, per_person=1, event=EVENT, relation="replace-one"):
    question, _ = question_about(list(table.columns), {"columns": {"c": {"type": "categorical", "levels": "private"}}}, None)
    looked = looked_at(table, question)
    rows = MemoryRows(looked.X, np.zeros(len(looked.X)), weight)
    return found_levels(Secret(rows, SeededNoise(seed), len(table), relation, per_person), event, (0,), looked.words)[0]


def test_levels_are_listed_in_the_order_of_their_names_with_noise_of_the_stated_size():
    """400 levels of 300 rows each: the standard deviation of the noise is within 15 % of the stated one, 4 of its deviations."""
    names = [f"level {j:03d}" for j in np.random.default_rng(0).permutation(400)]
    found = levels_of(pd.DataFrame({"c": np.repeat(names, 300)}), 1)
    sigma, step, threshold = noise_of(EVENT, 1, "replace-one", 1)
    assert [name for name, _ in found] == sorted(names)
    counts = np.array([count for _, count in found])
    assert np.std(counts - 300) == pytest.approx(sigma, rel=0.15)
    assert min(counts) > threshold
    assert np.array_equal(np.rint(counts / step), counts / step)


def test_a_level_below_the_threshold_is_listed_as_often_as_its_noise_says():
    """Counts at the threshold: half of 2,000 levels pass; false alarms: 5 deviations of a binomial, 6e-7."""
    sigma, _, threshold = noise_of(EVENT, 1, "zero-out", 1)
    size = round(threshold)
    table = pd.DataFrame({"c": np.repeat(np.arange(2000), size)})
    expected = 2000 * float(ndtr((size - threshold) / sigma))
    assert abs(len(levels_of(table, 2, relation="zero-out")) - expected) < 5 * math.sqrt(500)
    lone = pd.DataFrame({"c": [f"only {j}" for j in range(20_000)]})
    assert len(levels_of(lone, 3)) <= 10  # each with probability below 1e-4: two expected at most


def test_rows_beyond_a_persons_limit_bring_no_levels():
    """With no noise to speak of and a threshold below 1, a level that only uncounted rows have would be drawn for and listed."""
    table = pd.DataFrame({"c": ["common"] * 50 + [f"extra {j}" for j in range(1000)]})
    weight = np.r_[np.ones(50), np.zeros(1000)]
    wide = Levels(1e-3, 0.49)  # so much noise that half of all levels would pass
    found = [name for seed in range(20) for name, _ in levels_of(table, seed, weight=weight, event=wide)]
    assert set(found) <= {"common"}


def test_odd_cells_are_read_alone_and_never_quoted():
    odd = [1, "1", 1.0, True, "1.0", b"1", None, float("nan"), float("inf"), "x" * 5000, [1], {"a": 1}, "\ud800", "a\0b", "é"]
    table = pd.DataFrame({"c": pd.Series(odd * 400, dtype=object)})
    found = levels_of(table, 5)
    assert [name for name, _ in found] == [1, "a\0b", "é"]
    assert dict((name, count) for name, count in found)[1] == pytest.approx(2400, abs=60)


def test_private_levels_are_refused_where_they_have_no_proof():
    table = pd.DataFrame({"c": ["a", "b"] * 50})
    schema = {"columns": {"c": {"type": "categorical", "levels": "private"}}}
    with pytest.raises(ValueError, match="delta > 0"):
        dperm.profile(table, schema=schema, epsilon=1.0, delta=0.0)
    with pytest.raises(ValueError, match="Find them first"):
        dperm.Schema.from_dict(schema).encoding()
    with pytest.raises(ValueError, match="only for categorical"):
        dperm.Schema.from_dict({"columns": {"c": {"type": "ordinal", "levels": "private"}}})
    assert dperm.Schema.from_dict(schema).spec()["columns"]["c"]["levels"] == "private"
