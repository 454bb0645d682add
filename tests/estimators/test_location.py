"""Mean, median, quantiles: answers, exact privacy of the noise, needs, certificates."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

import dperm
from alterations import unnoticed
from dperm.estimators.location import MeanEstimator, MedianEstimator
from dperm.mechanisms import Mean, QuantileExponential, Shape, Target, UnmetNeeds
from dperm.mechanisms.exponential.quantile import HistogramTerm
from dperm.mechanisms.mean import SumTerm, pure_release
from dperm.privacy import Gaussian, Pure
from dperm.problem import DataBounds, Interval, Problem, QuantileLoss, SquaredLoss
from dperm.release.ledger.book import Ledger
from dperm.release.noise import noise_source
from dperm.rows import MemoryRows
from dperm.walk.fitting import plan

NO_LABELS = Interval(0.0, 0.0)
BOX = DataBounds.box([0.0, -5.0], [10.0, 5.0], NO_LABELS)
MEAN = Problem(SquaredLoss(), data=BOX)


def values(n=4000, seed=0):
    generator = np.random.default_rng(seed)
    return np.column_stack([generator.gamma(2.0, 1.5, n), generator.normal(1.0, 1.0, n)])


@pytest.mark.parametrize("relation", ["replace-one", "zero-out", "add-remove"])
@pytest.mark.parametrize("delta", [None, 0.0])
def test_mean_is_close_and_certified(relation, delta):
    X = values()
    model = MeanEstimator(1.0, delta, bounds=([0, -5], [10, 5]), relation=relation, nominal_n=4000, random_state=0).fit(X)
    assert model.location_ == pytest.approx(np.clip(X, [0, -5], [10, 5]).mean(axis=0), abs=0.05)
    assert model.certificate_.epsilon == 1.0
    assert unnoticed(model.certificate_, ("noise.seed",)) == set()


def test_mean_takes_the_smaller_noise():
    """Pure noise in few dimensions, Gaussian in many, by p + 1 < (ε/μ)²."""
    for d, kind in ((1, Pure), (2, Pure), (60, Gaussian)):
        problem = Problem(SquaredLoss(), data=DataBounds(1.0, NO_LABELS))
        event = Mean().plan(problem, Shape(1000, d), Target(1.0, 1e-6)).stages[0].event
        assert isinstance(event, kind)


def test_exact_mean_noise_has_the_planned_scale():
    """Draws of a whole fit of constant data: E‖b‖ = p·κR/(εn) for pure noise, within 5 %, 6 standard errors of 4000 draws."""
    noise = noise_source(random_state=1)
    draws = np.array([pure_release(np.zeros(2), 3.0, 0.5, noise) for _ in range(4000)])
    expected = 2 * 3.0 / 0.5
    assert np.linalg.norm(draws, axis=1).mean() == pytest.approx(expected, rel=6 * math.sqrt(1 / 2) / math.sqrt(4000))
    settings = Mean("pure").plan(MEAN, Shape(100, 2), Target(0.5, 0.0)).stages[0].settings
    assert settings["sensitivity"] == pytest.approx(2 * math.sqrt(2) / 2)
    person = Mean("pure").plan(MEAN, Shape(100, 2), Target(0.5, 0.0, "zero-out", 3)).stages[0].settings
    assert person["sensitivity"] == pytest.approx(3 * math.sqrt(2) / 2)


@pytest.mark.parametrize("count", ["public", "released"])
def test_sum_sensitivity_is_attained_and_never_exceeded(count):
    """Opposite corners reach 2R between two released sums; no pair of random rows goes beyond it."""
    term = Mean(count=count)._term(MEAN)
    assert isinstance(term, SumTerm)
    worst = 0.0
    corners = [[0, -5], [10, 5], [0, 5], [10, -5]]
    rest = values(50)
    sums = [MemoryRows(np.vstack([rest, c]), np.zeros(51)).bounded(BOX).sum(term, 2.0**-40) for c in corners]
    null = MemoryRows(np.vstack([rest, rest[:1]]), np.zeros(51), np.r_[np.ones(50), 0]).bounded(BOX).sum(term, 2.0**-40)
    worst = max(float(np.linalg.norm(a - b)) for a in sums for b in sums)
    gone = max(float(np.linalg.norm(a - null)) for a in sums)
    assert worst <= term.sensitivity("replace-one") * (1 + 1e-9)
    assert gone == pytest.approx(term.sensitivity("zero-out"))
    if count == "public":
        assert worst == pytest.approx(term.sensitivity("replace-one"))


def test_mean_with_a_norm_people_and_missing_values():
    X = values(600)
    X[:3] = np.nan
    model = MeanEstimator(2.0, x_norm=6.0, groups=np.arange(600) // 3, max_rows_per_person=2, random_state=0).fit(X)
    assert model.certificate_.unit == "person"
    assert np.linalg.norm(model.location_) <= 6.0
    assert MeanEstimator(50.0, bounds=(0, 1), random_state=0).fit(np.full(300, 0.25)).location_ == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("quantile", [0.5, 0.1, 0.9])
@pytest.mark.parametrize("relation", ["replace-one", "zero-out", "add-remove"])
def test_quantiles_are_close_in_rank(quantile, relation):
    """The rank error exceeds (1/k)·(ln cells + 12) with probability < 1e-5 for each column."""
    X = values()
    model = MedianEstimator(
        1.0, bounds=([0, -5], [10, 5]), quantile=quantile, relation=relation, nominal_n=4000, random_state=1
    ).fit(X)
    for column in range(2):
        rate = model.plan_.stages[column].settings["rate"]
        rank = np.mean(X[:, column] < model.location_[column])
        assert abs(rank - quantile) * 4000 <= (math.log(65536) + 12) / rate + 5
    assert model.certificate_.epsilon == 1.0 and model.certificate_.delta == 0.0


def test_exact_noise_policy_takes_gaussian_noise():
    model = MeanEstimator(1.0, bounds=(0, 10), noise="exact").fit(np.full(500, 3.0))
    assert isinstance(model.plan_.stages[0].event, Gaussian)
    assert model.certificate_.verify()


def test_sparse_columns_give_the_same_quantile():
    import dperm

    X = np.maximum(values()[:, :1] - 2, 0)
    problem = Problem(QuantileLoss(0.7), data=DataBounds.box([0.0], [10.0], NO_LABELS))
    found = [
        dperm.fit(problem, MemoryRows(M, np.zeros(len(X))), Target(1.0, 0.0), QuantileExponential(), random_state=0).w
        for M in (X, sparse.csr_matrix(X))
    ]
    assert found[0] == found[1]


def test_ties_are_no_obstacle():
    ages = np.repeat([20.0, 30.0, 40.0, 50.0], [100, 700, 100, 100])
    assert MedianEstimator(1.0, bounds=(0, 100), random_state=0).fit(ages).location_ == pytest.approx(30.0, abs=0.01)


def test_median_certificate_is_bound():
    model = MedianEstimator(1.0, bounds=(0, 100), random_state=0).fit(np.arange(100.0))
    allowed = ("noise.seed", "coefficients.encoded", "coefficients.sha256")
    assert unnoticed(model.certificate_, allowed) == set()


def test_scaling_data_and_bounds_together_scales_the_answer():
    X = values()[:, 0]
    for estimator in (MeanEstimator, MedianEstimator):
        one = estimator(1.0, bounds=(0, 10), random_state=3).fit(X).location_
        other = estimator(1.0, bounds=(0, 40), random_state=3).fit(4 * X).location_
        assert other == pytest.approx(4 * one, rel=1e-9)
        shuffled = estimator(1.0, bounds=(0, 10), random_state=3).fit(X[::-1]).location_
        assert shuffled == pytest.approx(one, rel=1e-9)


def test_histogram_sensitivity():
    box = DataBounds.box([0.0], [1.0], NO_LABELS)
    term = HistogramTerm(0.0, 1.0, 8)
    one, other = (MemoryRows(np.array([[v], [0.4]]), np.zeros(2)).bounded(box).sum(term, 2.0**-20) for v in (0.1, 1.0))
    assert np.linalg.norm(one - other) == pytest.approx(term.sensitivity("replace-one"))
    assert other[-1] == 1.0  # the upper end belongs to the last cell


def test_missing_needs_are_named():
    with pytest.raises(ValueError, match="bounds="):
        MeanEstimator().fit(np.zeros(5))
    with pytest.raises(ValueError, match="bounds="):
        MedianEstimator().fit(np.zeros(5))
    with pytest.raises(ValueError, match="found both"):
        MeanEstimator(bounds=(0, 1), x_norm=2.0).fit(np.zeros(5))
    with pytest.raises(ValueError, match="found both"):
        MeanEstimator(bounds=(0, 1), x_norm=2.0).plan(5)
    with pytest.raises(ValueError, match="low < high"):
        MedianEstimator(bounds=(1, 0)).fit(np.zeros(5))
    with pytest.raises(UnmetNeeds, match="count='released'"):
        plan(MEAN, Shape(10, 2), Target(1.0, 1e-3, "add-remove"), Mean())
    with pytest.raises(UnmetNeeds, match="delta > 0"):
        plan(MEAN, Shape(10, 2), Target(1.0, 0.0), Mean("gaussian"))
    with pytest.raises(UnmetNeeds, match="quantile or absolute"):
        plan(MEAN, Shape(10, 2), Target(1.0, 0.0), QuantileExponential())
    with pytest.raises(UnmetNeeds, match="bounds of every column"):
        plan(Problem(QuantileLoss(0.5), data=DataBounds(1.0, NO_LABELS)), Shape(10, 1), Target(1.0, 0.0), QuantileExponential())


def test_a_ledger_is_debited(tmp_path):
    path = tmp_path / "budget.sqlite"
    Ledger.create(path, dataset="two columns", epsilon=2.0, delta=1e-5)
    model = MedianEstimator(1.0, bounds=(0, 10), ledger=path).fit(values()[:, 0])
    assert model.certificate_.verify()
    assert len(Ledger(path).entries()) == 2  # its making, and the fit
    with pytest.raises(ValueError, match="epsilon"):
        MeanEstimator(5.0, bounds=(0, 10), ledger=path).fit(values()[:, 0])


def test_delta_is_the_second_argument_of_every_estimator():
    import inspect

    for name in dperm.estimators.__all__:
        first = list(inspect.signature(getattr(dperm, name)).parameters.values())
        names = [parameter.name for parameter in first if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
        assert names[:2] == ["epsilon", "delta"] or name == "PrivateGridSearch", name
    assert MedianEstimator(1.0, 0.0, bounds=(0, 1), random_state=0).fit(np.linspace(0, 1, 101)).certificate_.delta == 0


@pytest.mark.parametrize("estimator", [dperm.MeanEstimator, dperm.MedianEstimator])
@pytest.mark.parametrize("gap", [np.nan, np.inf, -np.inf])
def test_a_missing_value_counts_as_the_middle_of_its_bounds(estimator, gap):
    """It was 0 cut into the bounds: at the lower end of (100, 200), which moved the mean of a column by 5 with 10 % missing."""
    values = np.random.default_rng(0).uniform(140, 180, 4000)
    values[::10] = gap
    filled = np.where(np.isfinite(values), values, 150.0)
    answers = [estimator(epsilon=5.0, bounds=(100, 200), random_state=0).fit(v).location_ for v in (values, filled)]
    assert answers[0] == answers[1]
    columns = np.column_stack([values, values])
    bounds = [(100, 200), (140, 180)]
    found = dperm.MeanEstimator(epsilon=50.0, bounds=bounds, random_state=0).fit(columns).location_
    assert np.allclose(found, [filled.mean(), np.where(np.isfinite(values), values, 160.0).mean()], atol=0.3)
