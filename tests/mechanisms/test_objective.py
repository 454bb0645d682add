"""Objective perturbation: its numbers, its event, its refusals, and its accuracy on the Adult data."""

import math

import numpy as np
import pytest

import dperm
from alterations import unnoticed
from dperm.mechanisms import Objective, Shape, Target, UnmetNeeds
from dperm.mechanisms.objective.accounting import (
    cms_rate,
    compare_accounting,
    kst_sigma,
    loss_form,
    pure_is_better,
    pure_rate,
    redberg_curvature,
)
from dperm.privacy import (
    Gaussian,
    ObjectiveEvent,
    Pure,
    PureDP,
    Sampled,
    calibrate_shift,
    compose,
    event_from_spec,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
)
from dperm.problem import (
    Ball,
    DataBounds,
    FeatureMap,
    HingeLoss,
    Lasso,
    LogisticLoss,
    MultinomialLoss,
    Problem,
    Ridge,
    SquaredLoss,
)
from dperm.rows.memory import MemoryRows
from dperm.walk.fitting import fit, plan
from small_problems import UNIT, data, problem
from vectors import VECTORS, agrees

# -- numbers -----------------------------------------------------------------------------------------------------------


def test_comparison_table_is_the_printed_one():
    printed = VECTORS["C4_2"]
    table = compare_accounting(tuple(row[0] for row in printed["sigma"]), printed["delta"])
    for row, (_, half, default, redberg, floor) in zip(table, printed["sigma"]):
        assert agrees(row["half"], half) and agrees(row["default"], default) and agrees(row["gaussian"], floor)
        assert row["redberg"] is None if redberg == "n/a" else agrees(row["redberg"], redberg)


def test_literature_constants_are_the_printed_ones():
    printed = VECTORS["C4_1"]
    assert agrees(kst_sigma(printed["kst"]["epsilon"], printed["kst"]["delta"]), printed["kst"]["sigma"])
    assert agrees(2 / gaussian_mu(1.0, 1e-6), printed["kst"]["floor"])
    redberg = printed["redberg"]
    ratio = redberg["beta"] / redberg["ridge"]
    published = ObjectiveEvent("two-sided", 1 / redberg["sigma"], redberg_curvature(ratio))
    improved = ObjectiveEvent("two-sided", 1 / redberg["sigma"], ratio)
    assert agrees(published.delta(redberg["epsilon"]), redberg["delta"])
    assert agrees(improved.delta(redberg["epsilon"]), redberg["improved"])
    cms = printed["cms"]
    assert agrees(cms_rate(1.0, 0.25 / cms["ridge"], "replace-one"), cms["rate"])
    assert agrees(pure_rate(loss_form(LogisticLoss(), UNIT), 1.0, 1 / cms["ridge"], "replace-one"), cms["ours"])


def test_pure_rates_below_the_threshold_are_the_printed_ones():
    for ridge, relation, rate in VECTORS["C4_2"]["pure"]:
        assert agrees(pure_rate(loss_form(LogisticLoss(), UNIT), 1.0, 1 / ridge, relation), rate)


def test_vertex_bound_of_replace_one_is_the_printed_one_and_ours_is_sharper():
    """The page's bound δ_G(ε−c; 2D) + 2δ_G(ε−c; D) is the first alternative; the second one makes λ = 2.5·R²/ε nearly free."""
    for ridge, sigma in VECTORS["C4_2"]["replace_one"]:
        low, high = 8.0, 14.0
        for _ in range(60):
            middle = (low + high) / 2
            D = 1 / middle
            c = max(0.0, 1 / ridge - D * D / 2) / 4
            value = gaussian_delta(1 - c, 2 * D) + 2 * gaussian_delta(1 - c, D)
            low, high = (middle, high) if value > 1e-6 else (low, middle)
        assert agrees(high, sigma)
        ours = 1 / calibrate_shift(1.0, 1e-6, curvature=1 / ridge, relation="replace-one")
        assert ours <= high * (1 + 1e-9)
    best = 2 / gaussian_mu(1.0, 1e-6)
    assert 1 / calibrate_shift(1.0, 1e-6, curvature=0.4, relation="replace-one") < 1.001 * best


def test_output_step_costs_what_the_page_says():
    printed = VECTORS["C4_4"]
    mu = 2e-8 / (1.0 * 1e-5)
    assert agrees(mu, printed["mu"])
    event = ObjectiveEvent("self-bounding", gaussian_mu(1.0, 1e-6), 1.0)
    # The page counts the release at the full ridge as the Gaussian it costs no more than: two Gaussian releases.
    total = gaussian_epsilon(1e-6, math.hypot(gaussian_mu(1.0, 1e-6), mu))
    assert agrees(total, printed["epsilon"])
    # Composed as loss distributions on a grid, rounded up: never below, and above by the grid alone.
    assert total <= compose([event, Gaussian(mu)], "zero-out").epsilon(1e-6) <= total + 2e-5


def test_pure_noise_is_chosen_by_the_printed_rule():
    for epsilon, p in VECTORS["C3"]["pure_until"]:
        assert pure_is_better(p, epsilon, 1e-6) and not pure_is_better(p + 1, epsilon, 1e-6)
    for d, kind in ((3, "pure"), (40, "gaussian")):
        stage = Objective().plan(problem(), Shape(1000, d), Target(1.0, 1e-6, "zero-out")).stage("objective")
        assert stage.settings["noise"] == kind


# -- the event ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "relation"),
    [
        (ObjectiveEvent("self-bounding", 0.2, 0.8), "zero-out"),
        (ObjectiveEvent("self-bounding", 0.1, 0.4, replace=True), "replace-one"),
        (ObjectiveEvent("log-cosh", 0.2, 0.5), "add-remove"),
        (ObjectiveEvent("log-cosh", 0.1, 0.2, replace=True), "replace-one"),
        (ObjectiveEvent("two-sided", 0.2, 0.1), "zero-out"),
        (ObjectiveEvent("one-signed", 0.2, 0.1, rows=3), "zero-out"),
        (ObjectiveEvent("softmax", 0.1, 0.1, classes=4), "zero-out"),
    ],
    ids=str,
)
def test_grid_composition_is_above_the_direct_one_and_close(event, relation):
    """A negligible pure event forces the privacy-loss distribution; the direct route must not be above it."""
    direct = compose([event, Gaussian(0.1)], relation)
    grid = compose([event, Gaussian(0.1), Pure(1e-12)], relation)
    for delta in (1e-3, 1e-6):
        assert grid.epsilon(delta) == pytest.approx(direct.epsilon(delta), rel=0.02)
        if event.pointwise:
            assert direct.epsilon(delta) - 1e-6 <= grid.epsilon(delta) <= direct.epsilon(delta) * 1.001
    assert event_from_spec(event.spec()) == event
    assert direct.delta(direct.epsilon(1e-6)) <= 1e-6


def test_two_objectives_and_a_sampled_release_compose_on_the_grid():
    event = ObjectiveEvent("self-bounding", 0.2, 0.8)
    both = compose([event, event], "zero-out")
    single = compose([event], "zero-out")
    ideal = compose([Gaussian(0.2, 2)], "zero-out")
    assert single.epsilon(1e-6) < both.epsilon(1e-6)
    assert both.epsilon(1e-6) >= ideal.epsilon(1e-6)
    beside = compose([event, Sampled(0.01, Gaussian(1.0, 100))], "zero-out")
    assert single.epsilon(1e-5) < beside.epsilon(1e-5) < single.epsilon(5e-6) + 3


def test_event_refuses_the_other_relation_and_bad_numbers():
    with pytest.raises(ValueError, match="Expected relation in zero-out, add-remove"):
        compose([ObjectiveEvent("self-bounding", 0.2, 0.8)], "replace-one")
    for bad in ({"form": "other"}, {"shift": 0.0}, {"curvature": -1.0}, {"classes": 3}, {"replace": 1}):
        with pytest.raises(ValueError, match="Expected"):
            ObjectiveEvent(**({"form": "self-bounding", "shift": 0.1, "curvature": 1.0} | bad))


def test_profile_is_monotone_in_every_number():
    reference = ObjectiveEvent("self-bounding", 0.2, 3.0).delta(0.5)
    assert ObjectiveEvent("self-bounding", 0.21, 3.0).delta(0.5) > reference
    assert ObjectiveEvent("self-bounding", 0.2, 3.5).delta(0.5) > reference
    assert ObjectiveEvent("self-bounding", 0.2, 3.0).delta(0.5, 0.05) > reference
    assert ObjectiveEvent("self-bounding", 0.2, 3.0).delta(0.6) < reference


def test_directions_agree_with_the_sampled_gaussian():
    """dp_accounting's first side is with → without, as ours: for it the sampled mixture is the first distribution of the pair."""
    from scipy.stats import norm

    pld = Sampled(0.1, Gaussian(1.0)).loss_distribution(1e-4)
    x = np.linspace(-12, 13, 200_001)
    mixture, plain = 0.9 * norm.pdf(x) + 0.1 * norm.pdf(x - 1), norm.pdf(x)
    step = x[1] - x[0]
    with_first = float(np.sum(np.maximum(mixture - math.exp(0.05) * plain, 0)) * step)
    without_first = float(np.sum(np.maximum(plain - math.exp(0.05) * mixture, 0)) * step)
    assert with_first > 1.05 * without_first
    first, second = pld._pmf_remove, pld._pmf_add
    assert first.get_delta_for_epsilon(0.05) == pytest.approx(with_first, rel=1e-3)
    assert second.get_delta_for_epsilon(0.05) == pytest.approx(without_first, rel=1e-3)
    event = ObjectiveEvent("self-bounding", 0.3, 3.0)  # only the record's departure meets the log-determinant
    ours = event.loss_distribution(1e-4)
    assert ours._pmf_remove.get_delta_for_epsilon(0.5) > 2 * ours._pmf_add.get_delta_for_epsilon(0.5)
    assert ours._pmf_add.get_delta_for_epsilon(0.5) == pytest.approx(gaussian_delta(0.5, 0.3), rel=1e-2)


# -- refusals and certificates -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "options", "target", "words"),
    [
        ({"domain": Ball(1.0)}, {}, Target(1.0, 1e-6), "unconstrained domain"),
        ({"loss": HingeLoss()}, {}, Target(1.0, 1e-6), "bounded second derivative"),
        ({"loss": SquaredLoss()}, {}, Target(1.0, 1e-6), "bounded slope"),
        ({"regularizer": Lasso(1.0)}, {}, Target(1.0, 1e-6), "smooth regularizer"),
        ({"data": DataBounds(math.inf, UNIT)}, {}, Target(1.0, 1e-6), "finite bound on the norm"),
        ({}, {"noise_kind": "gaussian"}, Target(1.0, 0.0), "delta > 0"),
        ({"regularizer": Ridge(3.0)}, {"ridge": 1.0}, Target(1.0, 1e-6), "own strength"),
        ({"loss": MultinomialLoss(3)}, {}, Target(1.0, 1e-6, "zero-out", 2), "one row per person"),
        ({}, {"accounting": "kst-2012"}, Target(1.0, 1e-6, "zero-out"), "replace-one"),
        ({}, {"accounting": "redberg-2023"}, Target(1.0, 1e-6), "zero-out"),
        ({}, {"accounting": "redberg-2023"}, Target(1.0, 0.0, "zero-out"), "delta > 0"),
        ({}, {"accounting": "cms-2011", "noise_kind": "gaussian"}, Target(1.0, 1e-6), "whose noise is pure"),
        ({}, {"accounting": "cms-2011"}, Target(1.0, 1e-6, "zero-out", 3), "one row per person"),
    ],
)
def test_every_missing_need_is_named(parts, options, target, words):
    declared = Problem(**({"loss": LogisticLoss(), "data": DataBounds(1.0, UNIT)} | parts))
    with pytest.raises(UnmetNeeds, match=words):
        plan(declared, Shape(100, 2), target, Objective(**options))


@pytest.mark.parametrize(
    "bad", [{"ridge": 0.0}, {"noise_kind": "other"}, {"accounting": "x"}, {"max_weight": -1}, {"output_share": 1}]
)
def test_bad_options_are_refused(bad):
    with pytest.raises(ValueError, match="Expected"):
        Objective(**bad)


@pytest.mark.parametrize("accounting", ["tight", "cms-2011", "kst-2012", "redberg-2023"])
@pytest.mark.parametrize("relation", ["replace-one", "zero-out", "add-remove"])
def test_every_plan_keeps_its_target(accounting, relation):
    for target in (Target(0.3, 1e-6, relation), Target(3.0, 1e-6, relation), Target(1.0, 0.0, relation)):
        try:
            planned = plan(problem(), Shape(2000, 30), target, Objective(accounting=accounting))
        except UnmetNeeds:
            continue
        assert planned.guarantee.epsilon(target.delta) <= target.epsilon * (1 + 1e-12)
        if target.delta == 0:
            assert isinstance(planned.guarantee, PureDP) or planned.guarantee.epsilon(0.0) <= target.epsilon


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_every_leaf_of_the_certificate_is_bound(generator, delta):
    X, y = data(generator, n=60)
    target = Target(1.0, delta, "zero-out")
    release = fit(problem(), MemoryRows(X, y), target, Objective(), random_state=0)
    assert not unnoticed(release.certificate, ("coefficients", "noise.seed"))


def test_a_feature_map_is_counted(generator):
    X, y = data(generator, n=100)
    mapped = Problem(
        LogisticLoss(),
        data=DataBounds(1.0, UNIT, 1.0),
        feature_map=FeatureMap(np.tanh, 0.8, 3, "tanh"),
    )
    release = fit(mapped, MemoryRows(X, y), Target(1.0, 1e-6, "zero-out"), Objective(), random_state=0)
    assert release.w.size == 4 and release.plan.stage("objective").settings["ridge"] == pytest.approx(1.64)


# -- accuracy ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta", "relation", "floor"),
    [
        (1.0, 1e-5, "zero-out", 0.851),
        (0.5, 1e-5, "zero-out", 0.848),
        (1.0, 0.0, "zero-out", 0.845),
        (1.0, 0.0, "replace-one", 0.832),
    ],
)
def test_adult_accuracy_with_nothing_tuned(epsilon, delta, relation, floor):
    """Mean test accuracy of two fixed seeds; over seeds its standard deviation is below 0.002."""
    from dperm.data import adult, adult_schema

    schema, train, test = adult_schema(), adult("train"), adult("test")
    labels = schema.labels(np.asarray(test.column(schema.target.column).to_pylist(), dtype=object))
    scores = []
    for seed in (0, 1):
        model = dperm.LogisticRegression(
            epsilon, delta, schema=schema, relation=relation, method="objective", random_state=seed
        ).fit(train)
        scores.append(np.mean(model.predict(test) == labels))
    assert np.mean(scores) >= floor
