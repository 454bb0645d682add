"""No constant of a theorem may come from a nominal n or from weights as they are: tables of any size, weights of any size."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pandas as pd
import pytest

import dperm
from dperm.audit.transcript import exchanged
from dperm.mechanisms.gradient import Gradient
from dperm.mechanisms.objective.mechanism import Objective
from dperm.mechanisms.output import FadedRows, Output
from dperm.mechanisms.registry import mechanism_of_record
from dperm.mechanisms.scaled.objective import ScaledObjective
from dperm.privacy import gaussian_mu
from dperm.problem import (
    Ball,
    DataBounds,
    HuberLoss,
    Interval,
    Lasso,
    LogisticLoss,
    NoRegularizer,
    Problem,
    Ridge,
    SquaredLoss,
    WholeSpace,
)
from dperm.release.asks import Secret
from dperm.release.driver import watching
from dperm.release.noise import RELEASE_SLACK, SeededNoise, noise_source
from dperm.release.plan import Target, UnmetNeeds, options_of
from dperm.rows import BLOCK_ROWS, DaskRows, DeviceRows, MemoryRows, sum_step
from dperm.rows.base import add_limbs, from_counts, split
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm
from dperm.terms.statistics import PositiveCount
from dperm.walk.fitting import fit

LABELS = Interval(-1.0, 1.0)


class Silent(SeededNoise):
    """Noise of nothing, which notes the scales that it was asked for: what is released is then the computed value."""

    def __init__(self):
        super().__init__(0)
        self.scales = []

    def normal(self, scale, size):
        self.scales.append(scale)
        return np.zeros(size)


# -- sums --------------------------------------------------------------------------------------------------------------


def test_limbs_add_like_whole_numbers_of_any_size(generator):
    counts = [np.rint(generator.standard_normal(50) * 2.0 ** generator.integers(0, 66)) for _ in range(200)]
    total = split(counts[0])
    for count in counts[1:]:
        add_limbs(total, split(count))
    exact = [sum(int(count[j]) for count in counts) for j in range(50)]
    assert [int(high) * 2**32 + int(low) for high, low in total.T] == exact
    np.testing.assert_allclose(from_counts(total, 2.0**-40), [float(value) * 2.0**-40 for value in exact], rtol=3e-16)


def test_a_sum_saturates_and_never_wraps():
    top = split(np.array([1e300, -1e300, np.inf, -np.inf]))
    assert from_counts(top, 1.0).tolist() == [2.0**70, -(2.0**70), 2.0**70, -(2.0**70)]


def engines(X, y):
    import dask.array as da
    import torch

    yield MemoryRows(X, y)
    yield DaskRows(da.from_array(X, chunks=(1000, 1)), da.from_array(y, chunks=1000))
    yield DeviceRows(torch.tensor(X), torch.tensor(y), host=False)


@pytest.mark.parametrize("nominal", [1, 10])
def test_far_more_rows_than_the_nominal_n_cannot_overflow_a_sum(nominal):
    """2,047 and 2,048 rows per nominal row: the integers of one limb ended there, and one more row flipped the sign of all."""
    for n in (2047 * nominal, 2048 * nominal, 2048 * nominal + 1, 3000 * nominal + 7):
        X, y = np.full((n, 1), 0.5), np.ones(n)
        term = GradientTerm(LogisticLoss(), np.zeros(1), 1.0, Features())
        for rows in engines(X, y):
            bounded = rows.bounded(DataBounds(1.0, LABELS))
            assert bounded.sum(PositiveCount(), sum_step(1.0, nominal))[0] == n
            assert bounded.sum(term, sum_step(1.0, nominal))[0] == pytest.approx(-0.25 * n, rel=1e-12)


def test_rows_in_files_do_not_overflow_either(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    n = 5000
    pq.write_table(pa.table({"x": np.full(n, 0.5), "y": np.ones(n, dtype=np.int64)}), tmp_path / "t.parquet")
    schema = {
        "columns": {"x": {"type": "numeric", "low": 0, "high": 1}},
        "target": {"column": "y", "type": "classes", "classes": [0, 1]},
    }
    rows = dperm.ArrowRows(tmp_path / "t.parquet", schema).bounded(DataBounds(1.0, LABELS))
    assert rows.sum(PositiveCount(), sum_step(1.0, 1))[0] == n


@pytest.mark.parametrize(("nominal", "n"), [(1, 2047), (1, 3000), (10, 20471), (100, 300_000)])
def test_a_mean_of_far_more_rows_than_nominal(nominal, n):
    mean = dperm.MeanEstimator(epsilon=1.0, bounds=(0, 1), relation="add-remove", nominal_n=nominal)
    total = mean.fit(np.ones((n, 1))).release_.released["sum"]
    # Values count from the middle of the bounds, and the count has as much weight as they have: n/2 twice, with noise of about 1.
    assert np.all(np.abs(np.asarray(total) - n / 2) < 60)
    assert mean.certificate_.verify().ok


# -- minimisers --------------------------------------------------------------------------------------------------------

SOLVED = [
    Problem(LogisticLoss(), NoRegularizer(), Ball(5.0), DataBounds(1.0, LABELS)),
    Problem(HuberLoss(1.0), Ridge(20.0), Ball(2.0), DataBounds(1.0, LABELS)),
    Problem(HuberLoss(1.0), Lasso(3.0), WholeSpace(), DataBounds(1.0, LABELS)),
    Problem(LogisticLoss(), NoRegularizer(), WholeSpace(), DataBounds(1.0, LABELS)),
]
SIZES = [0, 1, 99, 150, 199, 240, 383, 1000, 25_599, 102_399, 102_400, 300_000]


@pytest.mark.parametrize("number", range(len(SOLVED)))
def test_output_perturbation_keeps_its_sensitivity_for_tables_of_every_size(number):
    """Nominal n = 100. One row decided whether the solver diverged, and with it whether 0 or the minimiser got noise."""
    problem, target = SOLVED[number], Target(1.0, 1e-6, "add-remove")

    def answer(X, y):
        silent = Silent()
        made = fit(problem, MemoryRows(X, y), target, Output(ridge=20.0, noise_kind="gaussian"), nominal_n=100, noise=silent)
        return made, float(made.w[0])

    for n in SIZES:
        X, y = np.ones((n + 1, 1)), np.full(n + 1, 0.9)
        y[: n // 10] = -1.0
        made, less = answer(X[:-1], y[:-1])
        allowed = made.plan.stage("minimiser").settings["sensitivity"]
        for label in (1.0, -1.0):
            y[-1] = label
            assert abs(answer(X, y)[1] - less) <= allowed * (1 + 1e-6), n
    assert allowed < 1.01 * problem.constants.lipschitz / 20.0  # the room costs next to nothing


def test_the_weight_of_all_rows_is_one_lipschitz():
    """Removing a row changes the weights by at most 1 in sum, and no table weighs more than M/4."""
    def weight(n):
        return FadedRows(MemoryRows(np.zeros((n, 1)), np.zeros(n)), 1000).weight

    for n in [*range(1, 1200), 5000]:
        assert weight(n) + (n - 1) * abs(weight(n - 1) - weight(n)) <= 1 + 1e-12
        assert n * weight(n) <= 250 + 1e-9


@pytest.mark.parametrize("mechanism", [Objective(), ScaledObjective()])
def test_a_minimiser_needs_a_bound_on_a_protected_number_of_rows(mechanism):
    problem = Problem(LogisticLoss(), data=DataBounds(1.0, LABELS, 1.0))
    rows = MemoryRows(np.zeros((50, 1)), np.ones(50))
    with pytest.raises(UnmetNeeds, match="most_rows=, a public bound on the number of rows"):
        fit(problem, rows, Target(1.0, 1e-6, "add-remove"), mechanism, nominal_n=100)
    bounded = type(mechanism)(most_rows=1000)
    made = fit(problem, rows, Target(1.0, 1e-6, "add-remove"), bounded, nominal_n=100)
    assert "in tables of at most 1000 rows" in made.certificate.statement and made.certificate.verify().ok


@pytest.mark.parametrize("n", [3, 2000, 60_000])
def test_rows_beyond_the_declared_bound_do_not_count(n):
    """Nominal n = 20 and at most 2,000 rows: later rows change nothing, and the solver ends whatever the table is."""
    rng = np.random.default_rng(1)
    X, y = rng.uniform(-0.5, 0.5, (n, 3)), np.sign(rng.standard_normal(n))
    problem = Problem(LogisticLoss(), data=DataBounds(1.0, LABELS, 1.0))
    answers = []
    for kept in (n, min(n, 2000)):
        rows = MemoryRows(X[:kept], y[:kept])
        made = fit(problem, rows, Target(1.0, 1e-6, "add-remove"), Objective(most_rows=2000), nominal_n=20, random_state=3)
        answers.append(made.w)
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-9)


def test_pure_privacy_with_a_radius_still_has_a_method_under_add_remove():
    X, y = np.ones((383, 1)), np.r_[np.ones(344, int), np.zeros(39, int)]
    model = dperm.LogisticRegression(
        epsilon=1e4, delta=0, x_norm=1.0, classes=[0, 1], fit_intercept=False, relation="add-remove", nominal_n=100, radius=5.0
    ).fit(X, y)
    assert model.plan_.mechanism == "output" and model.w_[0] > 0.5 and model.certificate_.verify().ok


def test_older_records_keep_the_meaning_of_options_that_they_do_not_state():
    assert mechanism_of_record("output", {}).room is None and Output().room == 1024
    assert mechanism_of_record("objective", {}).most_rows == "nominal" and Objective().most_rows is None
    assert "room" not in options_of(mechanism_of_record("output", {}))
    assert options_of(mechanism_of_record("gradient", {})).keys() == options_of(Gradient()).keys()
    older = mechanism_of_record("output", {"noise_kind": "gaussian"})
    problem, target = SOLVED[1], Target(1.0, 1e-6, "add-remove")
    with pytest.raises(ValueError, match="Expected room= > 0"):
        fit(problem, MemoryRows(np.ones((9, 1)), np.ones(9)), target, older, nominal_n=9)


# -- hidden state ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heaviest", [None, 0.5, 3.0])
@pytest.mark.parametrize("relation", ["replace-one", "zero-out"])
def test_the_last_iterate_costs_what_is_claimed_with_weights(heaviest, relation):
    """For the squared loss the last iterate is Gaussian, with mean and deviation in closed form: its μ against the claimed one.

    All rows are heavy (30, cut to the declared bound), so that the mean objective is as curved as it can be.
    """
    n, steps, eta, strength = 500, 300, 0.4, 1.0
    W = 1.0 if heaviest is None else heaviest
    problem = Problem(SquaredLoss(), Ridge(strength * n), WholeSpace(), DataBounds(1.0, LABELS))
    mechanism = Gradient(
        steps=steps, step_size=eta, clip=W, momentum=0.0, output="last", accounting="hidden-state", max_weight=heaviest
    )
    y = np.full(n, 0.5)
    y[0] = 0.9
    ends, silent = [], Silent()
    for x, label in ((1.0, 0.9), (0.0, 0.5) if relation == "zero-out" else (1.0, -0.9)):
        X = np.ones((n, 1))
        X[0], y[0] = x, label
        heavy = MemoryRows(X, y, np.full(n, 30.0))
        ends.append(float(fit(problem, heavy, Target(1.0, 1e-6, relation), mechanism, noise=silent).w[0]))
    contraction = 1 - eta * (W + strength)
    sigma = eta * silent.scales[0] / n
    spread = sigma * math.sqrt(sum(contraction ** (2 * k) for k in range(steps)))
    assert 0 < abs(ends[0] - ends[1]) / spread <= gaussian_mu(1.0, 1e-6)


def test_hidden_state_accounting_refuses_a_protected_number_of_rows():
    mechanism = Gradient(output="last", momentum=0.0, accounting="hidden-state")
    with pytest.raises(UnmetNeeds, match="how far a step contracts depends on the number of rows"):
        fit(SOLVED[1], MemoryRows(np.ones((9, 1)), np.ones(9)), Target(1.0, 1e-6, "add-remove"), mechanism, nominal_n=9)


def test_an_estimator_hands_its_bound_on_weights_to_hidden_state_accounting():
    X, y = np.ones((200, 1)), np.full(200, 0.5)
    method = Gradient(steps=50, step_size=0.2, output="last", momentum=0.0, accounting="hidden-state", clip=3.0)
    model = dperm.LinearRegression(
        epsilon=1.0, x_norm=1.0, y_bounds=(-1, 1), fit_intercept=False, regularization=200.0, max_weight=3.0, method=method
    ).fit(X, y, sample_weight=np.full(200, 7.0))
    assert model.certificate_.record["mechanism"]["options"]["max_weight"] == 3.0 and model.certificate_.verify().ok


# -- every mechanism that releases sums --------------------------------------------------------------------------------


def watched(moves, other, relation):
    """Show every noisy sum of a fit to a check that takes it again with the neighbour's rows."""

    def see(drawn):
        step = sum_step(drawn.term.row_bound, drawn.n)
        both = [np.ravel(rows.sum(drawn.term, step)) for rows in (drawn.rows, exchanged(drawn.rows, other()))]
        assert all(np.all(np.isfinite(value)) for value in both)
        moves.append(float(np.linalg.norm(both[0] - both[1])) / (RELEASE_SLACK * drawn.term.sensitivity(relation)))

    return watching(see)


REGRESSIONS = ("statistics", "gradient", "scaled-gradient", "scaled-inference")
MECHANISMS = [
    *(("logistic", name) for name in ("gradient", "scaled-gradient", "newton", "zeroth", "scaled-objective", "objective")),
    ("logistic", "scaled-inference"),
    *(("squared", name) for name in REGRESSIONS),
]


@pytest.mark.parametrize(("loss", "name"), MECHANISMS)
@pytest.mark.parametrize("relation", ["replace-one", "zero-out", "add-remove"])
def test_every_noisy_sum_stays_within_its_sensitivity(loss, name, relation):
    """True n of 0, 1 and 3,000 times the nominal 20 (the public n otherwise), weights of 0, 1, 10⁶, NaN and -5, beside a row of
    the largest gradient that goes, comes or is replaced by its opposite."""
    options = {"most_rows": 100} if "objective" in name and relation == "add-remove" else {}
    options |= {"steps": 3} if name in ("gradient", "zeroth") else {"information_share": 0.2} if name == "objective" else {}
    mechanism = dperm.mechanisms.mechanism_from_spec(name, options)
    problem = Problem(LogisticLoss() if loss == "logistic" else SquaredLoss(), data=DataBounds(1.0, LABELS, 1.0))
    rng = np.random.default_rng(5)
    for n, weighted in itertools.product((1, 20) if relation != "add-remove" else (0, 1, 60_000), (False, True)):
        X, y = rng.uniform(-0.7, 0.7, (n + 1, 2)), np.sign(rng.standard_normal(n + 1))
        weight = rng.choice([0.0, 1.0, 1e6, np.nan, -5.0], n + 1) if weighted else None
        X[-1], y[-1] = (0.6, -0.8), 1.0
        if weighted:
            weight[-1] = 1e6
        cut = slice(0, n if relation == "add-remove" else n + 1)
        neighbour = [X[cut].copy(), y[cut].copy(), None if weight is None else weight[cut].copy()]
        if relation == "zero-out":
            neighbour[2] = np.ones(n + 1) if weight is None else neighbour[2]
            neighbour[2][-1] = 0.0
        elif relation == "replace-one":
            neighbour[0][-1], neighbour[1][-1] = (-0.6, 0.8), -1.0

        def other(made=neighbour):
            return MemoryRows(*made).bounded(problem.data)

        moves = []
        with watched(moves, other, relation):
            public = None if relation != "add-remove" else 20
            fit(problem, MemoryRows(X, y, weight), Target(1.0, 1e-6, relation), mechanism, nominal_n=public, random_state=n)
        assert max(moves) <= 1.0, (n, weighted, max(moves))


def test_every_estimator_fits_a_table_without_rows_where_their_number_is_protected():
    """An error would tell an empty table from one with a row."""
    common = {"epsilon": 1.0, "relation": "add-remove", "nominal_n": 100}
    X, y = np.zeros((0, 2)), np.zeros(0)
    for name in ("LogisticRegression", "LinearSVC", "GAMClassifier", "MLPClassifier"):
        for method in ("auto",) if name != "LogisticRegression" else ("auto", "gradient", "output", "newton", "zeroth"):
            getattr(dperm, name)(bounds=(-1, 1), classes=[0, 1], method=method, **common).fit(X, y)
    for name in ("LinearRegression", "HuberRegressor", "QuantileRegressor", "Lasso", "GAMRegressor"):
        getattr(dperm, name)(bounds=(-1, 1), y_bounds=(0, 1), **common).fit(X, y)
    dperm.MeanEstimator(bounds=(0, 1), **common).fit(X)
    dperm.MedianEstimator(bounds=(0, 1), **common).fit(X[:, :1])
    with pytest.raises(ValueError, match=r"minimum of 1 is required|at least one row"):
        dperm.MeanEstimator(epsilon=1.0, bounds=(0, 1)).fit(X)


@pytest.mark.filterwarnings("ignore::dperm.PrivacyWarning")
@pytest.mark.parametrize("n", [0, 1])
def test_options_fit_a_table_without_rows_as_they_fit_one_row(n):
    """Error bars, curves, interactions, an assumed bound: none tells an empty table from one with a row."""
    common = {"epsilon": 1.0, "relation": "add-remove", "nominal_n": 100}
    X, y, bounded, made = np.zeros((n, 2)), np.zeros(n), {"bounds": (-1, 1)} | common, []
    for classes in ([0, 1], [0, 1, 2]):
        logistic = functools.partial(dperm.LogisticRegression, classes=classes, **bounded)
        made.append(logistic(intervals=True).fit(X, y))
        made.append(logistic(intervals=True, max_weight=2.0).fit(X, y, sample_weight=np.ones(n)))
        made.append(logistic(intervals=True, max_rows_per_person=2).fit(X, y, groups=np.arange(n)))
        made.append(logistic(method=Gradient(clip=None, steps=3)).fit(X, y))
        made.append(dperm.GAMClassifier(classes=classes, **bounded).fit(X, y))
    for name in ("LinearRegression", "HuberRegressor", "QuantileRegressor", "PoissonRegressor"):
        made.append(getattr(dperm, name)(y_bounds=(0, 1), intervals=True, **bounded).fit(X, y))
    made.append(dperm.GAMRegressor(y_bounds=(0, 3), loss="poisson", **bounded).fit(X, y))
    columns = {"a": {"type": "numeric", "low": -1, "high": 1}, "b": {"type": "categorical", "levels": ["u", "v"]},
               "c": {"type": "numeric", "low": 0, "high": 1, "shape": "smooth"}}  # fmt: skip
    target = {"column": "t", "type": "classes", "classes": ["no", "yes"]}
    schema = {"columns": columns, "interactions": [["a", "b"]], "target": target}
    table = pd.DataFrame({"a": np.zeros(n), "b": ["u"] * n, "c": np.zeros(n), "t": ["no"] * n})
    made.append(dperm.LogisticRegression(schema=schema, **common).fit(table))
    assert all(np.isfinite(model.w_).all() and model.certificate_.verify().ok for model in made)


def test_sums_with_weights_of_any_size_go_through_a_solve(generator):
    """Inside a solve too: the secret sums of a minimiser cut weights, so that no row counts more than the bound says."""
    from dperm.terms.objective import MinimiserTerm

    rows = Output()._rows(SOLVED[0])
    X, y = np.ones((BLOCK_ROWS + 5, 1)), np.ones(BLOCK_ROWS + 5)
    heavy = MemoryRows(X, y, np.full(len(y), 1e6)).bounded(SOLVED[0].data)
    plain = MemoryRows(X, y).bounded(SOLVED[0].data)
    term = MinimiserTerm(rows, np.zeros(1), False)
    sums = [Secret(held, noise_source(), 1, "zero-out", 1).sum(term)[0] for held in (heavy, plain)]
    assert sums[0] == sums[1]


@pytest.mark.parametrize("X", [[], [[0.5, 0.5]], ((0.5, 0.5),)], ids=["none", "one", "tuple"])
def test_rows_as_a_list_are_refused_where_their_number_is_protected(X):
    """An empty list has no columns: it cannot be fitted as one with a row is, so that neither is."""
    common = {"epsilon": 1.0, "relation": "add-remove", "nominal_n": 100}
    y, bounded = [0] * len(X), {"bounds": (0, 1)} | common
    base = dperm.LogisticRegression(classes=[0, 1], method="gradient", bounds=(0, 1), relation="add-remove", nominal_n=100)
    fits = [
        dperm.LogisticRegression(classes=[0, 1], **bounded).fit,
        dperm.GAMRegressor(y_bounds=(0, 1), **bounded).fit,
        dperm.EmbeddingClassifier(classes=[0, 1], **common).fit,
        dperm.FiniteClassLearner(hypotheses="stumps", classes=[0, 1], **bounded).fit,
        dperm.PrivateGridSearch(base, {"radius": [1.0, 2.0]}, 1.0, 1e-6).fit,
    ]
    for fit_rows in fits:
        with pytest.raises(ValueError, match="found a list, which has no columns"):
            fit_rows(X, y)
    for held in (X, [0.5] * len(X)):  # one declared pair is one column, also of a list that has none
        assert np.ndim(dperm.MeanEstimator(**bounded).fit(held).location_) == 0
