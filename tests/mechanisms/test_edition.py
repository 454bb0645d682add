"""The second edition of the rule for lines: centre in two steps, momentum instead of a cap, weights, shrinkage."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dperm
from dperm.mechanisms import ScaledGradient, ScaledPoisson, ScaledQuantile, Selection, Shape, Target
from dperm.mechanisms.scaled import aims, centre, settling
from dperm.privacy import gaussian_mu
from dperm.problem import DataBounds, Interval, LogisticLoss, Problem, SquaredLoss
from dperm.release.driver import watching
from dperm.rows.base import sum_step
from dperm.terms.statistics import RowSum
from dperm.walk.fitting import plan


def heavy(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Ten log-normal columns about 1, to be declared in [0, 2000]."""
    rng = np.random.default_rng(seed)
    X = np.exp(rng.normal(size=(8000, 10)))
    y = (np.log(X) @ np.tile([1.0, -1.0], 5) + rng.logistic(size=len(X)) > 0).astype(int)
    return X, y


def options(edition: int) -> dict[str, object]:
    method = ScaledGradient(kinds=("numeric",) * 10, edition=edition, gaps=tuple(range(10)))
    return {"bounds": (0, 2000), "classes": [0, 1], "relation": "zero-out", "random_state": 0, "method": method}


def test_columns_in_bounds_a_thousand_deviations_wide_are_scaled_and_learnt() -> None:
    X, y = heavy()
    scores, scales = {}, {}
    for edition in (1, 2):
        model = dperm.LinearSVC(0.2, **options(edition)).fit(X, y)
        scores[edition] = model.score(X, y)
        scales[edition] = np.asarray(model.certificate_.record["decided"]["scale"])
    assert scores[2] > 0.7 > 0.6 > scores[1]
    assert np.median(scales[2]) > 4 * np.median(scales[1])


def test_a_missing_cell_takes_the_refined_centre() -> None:
    X, y = heavy()
    X[::3, 0] = np.nan
    decided = dperm.LinearSVC(1.0, **options(2)).fit(X, y).certificate_.record["decided"]
    assert decided["fill"][0] == decided["shift"][0]
    assert abs((decided["fill"][0] + 0.5) * 2000 - np.nanmean(X[:, 0])) < 1.5  # far rows are clipped: nearer to the median


def test_a_view_of_one_sum_ends_with_it() -> None:
    """Through the view a missing cell stands at the rough centre; the sums that follow see it at the refined one."""
    X, y = heavy()
    X[:, 0] = np.where(np.arange(len(X)) % 2, np.nan, 1500.0)
    seen: list[float] = []

    def see(drawn: Any) -> None:
        seen.append(float(drawn.rows.sum(RowSum(10.0), sum_step(10.0, len(X)))[0]) / len(X))

    with watching(see):
        decided = dperm.LinearSVC(1.0, **options(2)).fit(X, y).certificate_.record["decided"]
    marked, rough, refined = seen[:2], seen[2:4], seen[4:]
    assert marked == pytest.approx([0.125, 0.125], abs=1e-5)  # rough mean, present cells: a mark is 0, the others 1500/2000 - 1/2
    assert rough[0] == rough[1] != refined[0]
    assert refined == pytest.approx([(0.25 + decided["fill"][0]) / 2] * len(refined), abs=1e-6)


def test_the_first_edition_is_what_records_without_one_mean() -> None:
    X, y = heavy()
    old, new = (dperm.LinearSVC(1.0, **options(edition)).fit(X, y).certificate_ for edition in (1, 2))
    assert "edition" not in old.record["mechanism"]["options"] and new.record["mechanism"]["options"]["edition"] == 2
    assert "rough mean" not in json.dumps(old.record) and new.verify(allow_seeded=True).ok and old.verify(allow_seeded=True).ok
    with pytest.raises(ValueError, match="edition"):
        ScaledGradient(edition=4)


@pytest.mark.parametrize("loss", [LogisticLoss(), SquaredLoss()])
def test_shares_of_both_editions_add_up_to_the_budget(loss: LogisticLoss | SquaredLoss) -> None:
    target = Target.declare(epsilon=1.0, delta=1e-6, n=9000)
    problem = Problem(loss, data=DataBounds(1.0, Interval(-1.0, 1.0), 1.0))
    for edition in (1, 2, 3):
        stages = plan(problem, Shape(9000, 4), target, ScaledGradient(edition=edition)).stages
        total = math.fsum(stage.event.mu**2 for stage in stages)
        assert total == pytest.approx(gaussian_mu(1.0, 1e-6) ** 2, rel=1e-9)


def test_weights_add_up_to_one_and_momentum_reaches_the_flow_time() -> None:
    for growing in (True, False):
        assert settling.weights(101, growing=growing).sum() == pytest.approx(1.0)
    assert 100 * np.sum(settling.weights(100, growing=True) ** 2) == pytest.approx(settling.GROWING, rel=0.01)
    capped = settling.without_cap({"flow_time": 300.0, "steps": 500, "step_size": 0.02})
    assert capped["step_size"] / (1 - capped["momentum"]) * 500 == pytest.approx(300.0)
    enough = settling.without_cap({"flow_time": 50.0, "steps": 500, "step_size": 0.01})
    assert enough["momentum"] == pytest.approx(0.9) and enough["step_size"] == pytest.approx(0.01)
    assert settling.without_cap({"flow_time": 1e6, "steps": 500, "step_size": 0.01})["momentum"] == settling.MOST_MOMENTUM


def test_shrinkage_helps_on_average_and_leaves_a_strong_signal_alone() -> None:
    """Mean squared error over 400 draws of N(θ, v·I), d = 12: for ‖θ‖² = d·v the factor saves a third; it never costs."""
    rng, settings = np.random.default_rng(0), {"flow_time": 50.0}
    for strength, most in ((0.0, 0.4), (1.0, 0.75), (30.0, 1.01)):
        truth = np.full(12, strength)
        draws = truth + math.sqrt(settling.GROWING) * rng.normal(size=(400, 12))
        ours = np.array([settling.shrunken(np.append(t, 7.0), 1.0, settings, intercept=True) for t in draws])
        assert np.all(ours[:, -1] == 7.0)
        assert np.mean((ours[:, :-1] - truth) ** 2) <= most * np.mean((draws - truth) ** 2)


def test_both_means_of_the_iterates_are_blended_by_what_noise_explains() -> None:
    """Twelve settled columns, 400 draws. Where the early iterates are behind, the answer moves to the second half; where nothing
    but noise tells the two apart, it stays at the growing weights, whose noise is less."""
    rng, steps, d = np.random.default_rng(0), 400, 12
    growing, later = settling.weights(steps, growing=True), settling.weights(steps, growing=False)
    last = np.repeat([0.0, 4.0 / steps], [3 * steps // 4, steps // 4])
    for behind, best in ((0.0, growing), (16.0, later)):
        errors: dict[str, list[float]] = {"growing": [], "late": [], "blended": []}
        for _ in range(400):
            noise = math.sqrt(steps) * rng.normal(size=(steps, d))  # the mean of all steps has variance 1
            path = noise - behind * np.exp(-4.0 * np.arange(steps) / steps)[:, None]
            means = [weight @ path for weight in (growing, later, last)]
            answer, variance = settling.blended(*means, 1.0, 1.0)
            assert 4 / 3 - 1e-9 <= variance <= 2 + 1e-9
            for name, found in zip(errors, (*means[:2], answer)):
                errors[name].append(float(found @ found) / d)
        mean = {name: np.mean(found) for name, found in errors.items()}
        good, bad = ("growing", "late") if best is growing else ("late", "growing")
        assert mean[good] < 0.7 * mean[bad] and mean["blended"] < 0.8 * mean[bad] and mean["blended"] < 1.2 * mean[good]


def test_a_first_clip_far_wider_than_the_second_leaves_early_iterates_out() -> None:
    means = [np.ones(5), np.full(5, 2.0), np.full(5, 2.0)]
    answer, variance = settling.blended(*means, 5.0, 1.0)
    assert np.array_equal(answer, means[1]) and variance == 2.0


def test_the_second_mean_counts_by_its_noise() -> None:
    assert centre.believed_step(1.0, 0.01, {"rough mean": 0.1, "mean": 0.1}) > 0.999
    assert centre.in_two_steps(["radius", "squares"]) == ["radius", "squares"]


def test_the_clip_of_probabilities_grows_as_noise_falls_and_with_rare_positives() -> None:
    ratios = np.geomspace(1e-6, 10.0, 60)
    for rate in (None, 0.5, 0.1, 1e-6):
        clips = [aims.clip_for_probabilities(nu, rate) for nu in ratios]
        assert all(aims.SMALLEST <= clip <= aims.LARGEST for clip in clips) and clips == sorted(clips, reverse=True)
    rare, common, even = (aims.clip_for_probabilities(0.01, rate) for rate in (0.1, 0.9, 0.5))
    assert rare == pytest.approx(common) and rare > even
    with pytest.raises(ValueError, match="aim"):
        ScaledGradient(aim="ranks")


def test_the_clip_of_probabilities_is_decided_from_what_was_released() -> None:
    """Two tables with the same declarations, one with few positives: the record states the clip of its own released rate."""
    X, y = heavy()
    for labels in (y, y * (np.arange(len(y)) % 8 == 0)):
        method = ScaledGradient(kinds=("numeric",) * 10, aim="probabilities", start="rate")
        own = {**options(2), "method": method}
        certificate = dperm.LogisticRegression(1.0, **own).fit(X, labels).certificate_
        decided = certificate.record["decided"]
        assert decided["clip_factor"] == aims.clip_for_probabilities(decided["noise_ratio"], decided["positive_rate"])
        assert decided["clip"] == pytest.approx(decided["clip_factor"] * decided["size"])
        assert certificate.record["mechanism"]["options"]["aim"] == "probabilities" and certificate.verify(allow_seeded=True).ok
        altered = json.loads(json.dumps(certificate.record))
        altered["mechanism"]["options"]["aim"] = "accuracy"
        assert not dperm.Certificate(altered).verify(allow_seeded=True).ok


def counts_in_wide_bounds() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ten log-normal columns, to be declared in [0, 2000]; counts, and numbers about the same line."""
    rng = np.random.default_rng(3)
    latent = rng.normal(size=(12_000, 10))
    line = latent @ np.tile([0.4, -0.4], 5)
    return np.exp(latent), rng.poisson(np.exp(line)), line + rng.normal(size=len(latent))


@pytest.mark.parametrize("model", ["counts", "quantile", "lasso"])
def test_the_centre_in_two_steps_serves_counts_quantiles_and_sparse_lines(model: str) -> None:
    """In bounds two thousand wide at ε = 0.2: the first edition learns little, the third most; both records verify."""
    X, counts, numbers = counts_in_wide_bounds()
    common: dict[str, Any] = {"delta": 1e-6, "relation": "zero-out", "bounds": (0, 2000), "random_state": 0}
    kinds = ("numeric",) * 10
    methods: dict[str, Any] = {
        "counts": (dperm.PoissonRegressor, ScaledPoisson(kinds, labels="counts"), counts, (0, 50)),
        "quantile": (dperm.QuantileRegressor, ScaledQuantile(kinds), numbers, (-10, 10)),
        "lasso": (dperm.Lasso, Selection(kinds, keep=10), numbers, (-10, 10)),
    }
    kind, method, y, reach = methods[model]
    found = {}
    for edition in (1, 3):
        own = replace(method, edition=edition)
        fitted = kind(0.2, method=own, y_bounds=reach, **common).fit(X, y)
        found[edition] = fitted.score(X, y)
        certificate = fitted.certificate_
        stages = [stage["name"] for stage in certificate.record["stages"]]
        assert ("rough mean" in stages) == (edition == 3) and certificate.verify(allow_seeded=True).ok
        assert certificate.record["mechanism"]["options"].get("edition", 1) == edition
        total = math.fsum(stage.event.mu**2 for stage in fitted.plan_.stages)
        assert total <= gaussian_mu(0.2, 1e-6) ** 2 and total == pytest.approx(gaussian_mu(0.2, 1e-6) ** 2, rel=1e-6)
    assert found[3] > found[1] + 0.03
