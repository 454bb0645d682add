"""`distinguish`: it finds what leaks, does not find what does not, survives interruption, and spreads over processes."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as NonPrivate

import dperm
from dperm.audit import distinguish, exact, one_run, rare_directions
from dperm.audit.bounds import mu_lower
from dperm.audit.densities import gaussian_output
from dperm.audit.scores import Test
from dperm.audit.trials import as_guarantee
from dperm.mechanisms import Gradient
from dperm.privacy import GDP, PureDP


def gaussian(seed, scale=1.0):
    generator = np.random.default_rng(seed)
    return lambda data: np.array([data, 0.0]) + generator.normal(0, scale, 2)


def test_gaussian_mechanism_is_measured_and_not_overstated():
    found = distinguish(gaussian(0), 0.0, 2.0, 4000, claim=GDP(2.0, "replace-one"), confidence=0.99)
    assert 1.7 < found.mu_lower <= 2.0
    assert found.violates is False and found.repeats == 0
    assert distinguish(gaussian(1), 0.0, 2.0, 4000, claim=GDP(1.6, "replace-one")).violates is True


def test_equal_distributions_give_nothing():
    """Ten audits of a mechanism that ignores its data at 99.9 % each: family-wise false alarm ≤ 1 %; seeds fixed."""
    for seed in range(10):
        found = distinguish(gaussian(seed), 0.0, 0.0, 300, claim=PureDP(1e-3, "replace-one"), confidence=0.999)
        assert not found.violates and found.epsilon_lower < 0.2


def test_a_leak_without_a_direction_is_found():
    """Outputs near 0 are likely on one data set and rare on the other, with equal means: only closeness sees it."""
    generator = np.random.default_rng(2)
    found = distinguish(lambda wide: generator.normal(0, 8.0 if wide else 0.5), True, False, 3000, delta=0.0)
    assert found.epsilon_lower > 1.5


def test_a_fitted_direction_is_not_chosen_for_fitting_its_own_trials():
    """Eighty columns of noise, one that tells, 200 trials: in-sample the discriminant separates perfectly and proves nothing."""
    generator = np.random.default_rng(4)

    def fit(side):
        outcome = generator.normal(size=81)
        outcome[17] += 3.0 * side
        return outcome

    found = distinguish(fit, 0, 1, 200, delta=0.0, confidence=0.999)
    assert found.mu_lower > 1.0 and "18" in found.statistics["mu"]  # column 0 counts failures


SECOND = Test("the first number", lambda outcomes: outcomes[:, 1], 1.0)  # column 0 counts failures


def test_a_test_fixed_beforehand_counts_every_trial_and_shares_the_false_alarms():
    """Sixty trials among two hundred numbers: what is chosen among them proves little, what was known proves much."""
    generator = np.random.default_rng(6)

    def fit(side):
        return np.append(2.0 * side, np.zeros(200)) + generator.normal(size=201)

    claim = GDP(2.0, "replace-one")
    found = distinguish(fit, 0, 1, 60, statistic=SECOND, claim=claim, confidence=0.99)
    alone = distinguish(fit, 0, 1, 60, claim=claim, confidence=0.99)
    assert found.statistics["mu"] == "the first number" and found.confidence == 0.99
    table, other = found.outcomes
    errors = int(np.sum(table[:, 1] >= 1.0)), int(np.sum(other[:, 1] < 1.0))
    assert found.errors["mu"] == errors and found.mu_lower == mu_lower(*errors, 60, confidence=0.995)
    assert found.mu_lower > max(alone.mu_lower, 0.5) and not found.violates


def test_a_test_fixed_beforehand_proves_halved_noise_and_accuses_nobody_else():
    """Forty correct mechanisms at 99.9 % each: a false alarm among them is at most 4 % likely; seeds fixed."""
    claim = GDP(2.0, "replace-one")
    assert distinguish(gaussian(7, 0.5), 0.0, 2.0, 120, statistic=SECOND, claim=claim, confidence=0.999).violates
    for seed in range(40):
        found = distinguish(gaussian(seed), 0.0, 2.0, 120, statistic=SECOND, claim=claim, confidence=0.999)
        assert not found.violates and found.mu_lower <= 2.0


def test_the_choosing_share_is_left_out_of_the_counts():
    """The first 30 % show the contrary of the others: a test chosen there is wrong on all that count."""
    calls = {0.0: 0, 1.0: 0}

    def fit(side):
        calls[side] += 1
        return side if calls[side] <= 30 else 1.0 - side

    found = distinguish(fit, 0.0, 1.0, 100, delta=0.0, choosing=0.3, chunk=10)
    assert found.errors["epsilon"] == (70, 70) and found.epsilon_lower == 0.0
    with pytest.raises(ValueError, match="choosing"):
        distinguish(fit, 0.0, 1.0, 100, choosing=0.95)


def test_failures_are_outcomes():
    generator = np.random.default_rng(3)

    def fit(bad):
        if bad and generator.random() < 0.5:
            raise RuntimeError("did not converge")
        return generator.normal()

    assert distinguish(fit, False, True, 400, delta=0.0).epsilon_lower > 2.0


def test_a_fit_that_always_fails_is_an_error_not_a_pass():
    def broken(data):
        raise RuntimeError("no such column")

    with pytest.raises(RuntimeError, match="no such column"):
        distinguish(broken, 0, 1, 40)


def test_estimators_that_are_not_ours():
    X, y = np.array([[0.5], [-0.5], [1.0], [0.2]]), np.array([0, 1, 1, 0])
    other = X.copy()
    other[0] = 5.0
    found = distinguish(NonPrivate(), (X, y), (other, y), 40, claim=1.0)
    assert found.violates and found.epsilon_lower > 1.0 and found.repeats == 2 * 39


def test_our_estimator_keeps_its_claim():
    X = np.linspace(-1, 1, 8)[:, None]
    y = (X[:, 0] > 0).astype(int)
    other = y.copy()
    other[-1] = 0
    model = dperm.LogisticRegression(epsilon=2.0, delta=1e-3, bounds=(-1, 1), classes=[0, 1], method=Gradient(steps=2))
    found = distinguish(model, (X, y), (X, other), 300, claim=model.fit(X, y).plan_.guarantee, confidence=0.999)
    assert found.violates is False and found.repeats == 0


def test_processes_do_not_share_noise():
    """Global generators are reseeded in every worker; without it forked workers would repeat each other's outcomes."""
    found = distinguish(lambda data: data + np.random.normal(), 0.0, 1.0, 400, processes=2)  # noqa: NPY002
    assert found.repeats == 0 and len(found.outcomes[0]) == 400


def test_resume_continues_and_refuses_another_audit(tmp_path):
    calls = []
    store = tmp_path / "audit.npz"

    def fit(data, stop=False):
        calls.append(data)
        if stop and len(calls) > 230:
            raise KeyboardInterrupt
        return data + 0.001 * len(calls)

    import dperm.audit.workers as workers

    clock = iter(range(0, 10_000, 5))
    original = workers.time.monotonic
    workers.time.monotonic = lambda: next(clock)  # a save after every chunk
    try:
        with pytest.raises(KeyboardInterrupt):
            distinguish(lambda data: fit(data, stop=True), 0.0, 1.0, 200, resume=store)
    finally:
        workers.time.monotonic = original
    before = len(calls)
    found = distinguish(fit, 0.0, 1.0, 200, resume=store)
    assert len(calls) - before == 400 - 200  # four chunks of fifty were kept
    assert found.trials == 200
    again = len(calls)
    assert distinguish(fit, 0.0, 1.0, 200, resume=store).epsilon_lower == found.epsilon_lower
    assert len(calls) == again
    with pytest.raises(ValueError, match="another's"):
        distinguish(fit, 0.0, 2.0, 200, resume=store)


def test_progress_counts_up_to_the_end():
    seen = []
    distinguish(lambda data: 0.0, 0, 1, 200, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (8, 8) and [done for done, _ in seen] == list(range(1, 9))
    assert distinguish(lambda data: 0.0, 0, 1, 40, progress=True).trials == 40


def test_declarations_are_checked():
    with pytest.raises(ValueError, match="trials ≥ 20"):
        distinguish(lambda data: 0.0, 0, 1, 5)
    with pytest.raises(ValueError, match="statistic"):
        distinguish(lambda data: 0.0, 0, 1, 40, statistic="best")
    with pytest.raises(ValueError, match="function or an estimator"):
        distinguish(3, 0, 1, 40)
    for wrong in ({"delta": -1.0}, {"delta": 1.0}, {"delta": math.nan}, {"confidence": 2.0}, {"confidence": 0.0}):
        with pytest.raises(ValueError, match=f"Expected 0 .* {next(iter(wrong))}"):
            distinguish(lambda data: 0.0, 0, 1, 40, **wrong)
        with pytest.raises(ValueError, match=f"Expected 0 .* {next(iter(wrong))}"):
            one_run(lambda X, y: X.sum(axis=0), np.zeros((1, 2)), [1.0], rare_directions(2, 2, norm=1.0), **wrong)
    with pytest.raises(ValueError, match="rare_directions"):
        one_run(lambda X, y: X.sum(axis=0), np.zeros((1, 2)), [1.0], 50)
    with pytest.raises(ValueError, match="epsilons ≥ 0"):
        exact(lambda data: gaussian_output(sum(data), 1.0), [([0], [1])], epsilons=[-1.0])
    assert as_guarantee(1.0, 1e-5).delta(1.0) == 1e-5


def test_an_estimator_takes_one_array_or_its_arguments(generator):
    mean, rows = dperm.MeanEstimator(1.0, bounds=(0, 1)), generator.random((20, 1))
    for data, other in ((rows, rows + 0.1), ((rows,), (rows + 0.1,))):
        assert distinguish(mean, data, other, 20).trials == 20
