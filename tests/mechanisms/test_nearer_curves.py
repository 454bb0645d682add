"""Clip and flow of curves nearer to the line's: where tails, noise and the line's own flow allow it, and never in old records."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dperm.mechanisms.scaled.additive import Additive
from dperm.mechanisms.scaled.descent_noise import squares_beyond
from dperm.mechanisms.scaled.gradient import ScaledGradient
from dperm.mechanisms.scaled.smoothness import LARGEST_CLIP, LITTLE, TAILS, Choice, Flow, grown_clip
from dperm.privacy import gaussian_mu
from dperm.problem import DataBounds, HuberLoss, Interval, LogisticLoss, Problem, SquaredLoss
from dperm.release.driver import watching
from dperm.release.plan import Shape, Target
from dperm.rows.memory import MemoryRows
from dperm.terms.additive import Level
from dperm.walk.fitting import fit, plan

OWN: dict[str, Any] = {"kinds": ("numeric",) * 2, "curved": (0, 1)}


@pytest.mark.parametrize("noise", [1e-6, 0.001, 0.0021, 0.0022, 0.03])
@pytest.mark.parametrize("factor", [0.4, 1.3, 3.0, 5.0])
def test_a_clip_grows_for_tails_alone_and_only_to_little_noise(factor: float, noise: float) -> None:
    choice = Choice(0, noise, 0.0, {"clip_factor": factor}, np.ones(1))
    grown = grown_clip(choice, 0.5)
    assert grown_clip(choice, TAILS) == factor <= grown <= LARGEST_CLIP
    assert grown == factor or noise * (grown / factor) ** 2 <= LITTLE * (1 + 1e-9)
    if noise < LITTLE and factor < LARGEST_CLIP:
        assert grown > factor


def test_squares_beyond_a_limit_are_those_of_the_residuals() -> None:
    """Half-octave bins below the top, counted by hand; noise of two deviations is no tail."""
    residuals = np.abs(np.random.default_rng(0).standard_t(3, 40_000)) * 0.05
    residuals = np.clip(residuals, 1e-4, 2.0 - 1e-9)
    counts = np.histogram(np.floor(2 * np.log2(2.0 / residuals)), bins=np.arange(25))[0].astype(float)
    for limit in (0.03, 0.1, 0.3):
        exact = float(np.sum(np.maximum(residuals - limit, 0) ** 2) / np.sum(residuals**2))
        assert abs(squares_beyond(counts, 2.0, limit, 0.0) - exact) < 0.05
    quiet = np.where(np.arange(24) == 12, 30_000.0, 0.0)
    noisy = quiet + np.where(np.arange(24) < 4, 19.0, 0.0)
    small, seen, believed = squares_beyond(quiet, 2.0, 0.03, 10.0), *(squares_beyond(noisy, 2.0, 0.03, s) for s in (10.0, 1.0))
    assert small == seen < 0.05 < believed
    assert squares_beyond(np.zeros(24), 2.0, 0.1, 1.0) == 0.0


def released(loss: Any, mechanism: Additive, tails: bool = False, relation: str = "zero-out", epsilon: float = 12.0) -> Any:
    """A fit of 6,000 rows whose residuals have tails, or none at all."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-0.5, 0.5, (6000, 2))
    noise = 0.04 * rng.standard_t(1.5, 6000) if tails else rng.uniform(-0.1, 0.1, 6000)
    score = 0.05 * np.cos(6 * X[:, 0]) + 0.3 * X[:, 1] + noise
    y = np.where(score > 0.1, 1.0, -1.0) if loss.classification else np.clip(score, -1, 1)
    problem = Problem(loss, data=DataBounds(1.0, Interval(-1, 1), 1.0))
    target = Target.declare(epsilon=epsilon, delta=1e-6, relation=relation, n=6000)
    nominal = 6000 if relation == "add-remove" else None
    return fit(problem, MemoryRows(X, y), target, mechanism, nominal_n=nominal, random_state=0)


@pytest.mark.parametrize("relation", ["zero-out", "replace-one", "add-remove"])
@pytest.mark.parametrize("loss", [SquaredLoss(), HuberLoss(0.3)])
def test_the_second_clip_alone_grows_and_the_record_replays_it(loss: Any, relation: str) -> None:
    now, before = (released(loss, Additive(nearer=nearer, **OWN), True, relation).certificate for nearer in (True, False))
    clips, usual = (found.record["decided"]["clips"] for found in (now, before))
    assert clips[0] == usual[0] and usual[1] * 1.05 < clips[1]
    for found in (now, before):
        verdict = found.verify(allow_seeded=True)
        assert verdict.ok, verdict.reasons
    changed = copy.deepcopy(json.loads(now.to_json()))
    changed["decided"]["clips"][1] *= 0.9
    assert not type(now)(changed).verify(allow_seeded=True).ok


def test_light_tails_a_fixed_clip_and_the_rule_of_0_4_0_keep_their_numbers() -> None:
    for own in (Additive(**OWN), Additive(clip_factor=1.0, **OWN), Additive(careful=False, **OWN)):
        tails = own.clip_factor is not None or not own.careful
        now, before = (released(SquaredLoss(), replace(own, nearer=nearer), tails) for nearer in (True, False))
        assert now.certificate.record["decided"]["shapes"] == "curves"
        assert np.array_equal(now.w, before.w)


def skewed(relation: str = "zero-out", n: int = 30_000) -> tuple[Problem, np.ndarray, np.ndarray, Target, Additive]:
    """A target with a long tail on one side, at a budget for which public numbers promise no curve."""
    rng, d = np.random.default_rng(2), 12
    X = rng.uniform(-0.25, 0.25, (n, d))
    y = np.clip(0.6 * X[:, 0] + 0.15 * rng.exponential(size=n) ** 2 - 0.5, -1, 1)
    problem = Problem(SquaredLoss(), data=DataBounds(1.0, Interval(-1, 1), 1.0))
    epsilon = (6000.0 if relation == "replace-one" else 3000.0) / n
    target = Target.declare(epsilon=epsilon, delta=1e-6, relation=relation, n=n)
    return problem, X, y, target, Additive(kinds=("numeric",) * d, curved=tuple(range(d)))


def test_a_line_has_its_level_corrected_and_its_slopes_left() -> None:
    """A skewed target pulls clipped fits to the median; the correction is planned by public numbers and paid by the descent."""
    problem, X, y, target, own = skewed()
    n, d = X.shape
    now, before = (fit(problem, MemoryRows(X, y), target, replace(own, nearer=b), random_state=0) for b in (True, False))
    line = ScaledGradient(kinds=("numeric",) * d)
    levelled, straight = (plan(problem, Shape(n, d), target, replace(line, levelled=b)) for b in (True, False))
    assert before.plan.events == straight.events and now.plan.events == levelled.events
    assert [stage.name for stage in now.plan.stages] == [stage.name for stage in straight.stages] + ["level"]
    np.testing.assert_allclose(now.w[: d + 1], fit(problem, MemoryRows(X, y), target, line, random_state=0).w, rtol=1e-12)
    assert now.plan.stages[-1].event.mu ** 2 == pytest.approx(0.0075 * gaussian_mu(0.1, 1e-6) ** 2)
    decided = now.certificate.record["decided"]
    assert decided["recalibrated_factor"] == 1.0 and decided["recalibrated_level"] > 0.01
    assert now.certificate.verify(allow_seeded=True).ok

    def level(release: Any) -> float:
        return float(np.mean(X @ release.w[:d]) + release.w[d] - y.mean())

    assert abs(level(now)) < 0.6 * abs(level(before))  # residuals beyond three scales are cut here too


@pytest.mark.parametrize("relation", ["zero-out", "replace-one", "add-remove"])
def test_the_level_has_the_noise_of_its_plan_and_the_worst_row_uses_it(relation: str) -> None:
    """Fails with the noise halved: as a number, as it was drawn in 60 fits, and as what a row beyond the cut uses of μ."""
    problem, X, y, target, own = skewed(relation, 3000)
    X[0], y[0] = 0.0, 1.0
    rows, gone = MemoryRows(X, y), MemoryRows(X, y, np.append(0.0, np.ones(2999)))
    other = MemoryRows(X, np.append(-1.0, y[1:])) if relation == "replace-one" else gone
    drawn: list[Any] = []
    with watching(lambda one: drawn.append(one) if isinstance(one.term, Level) else None):
        for seed in range(60):
            nominal = 3000 if relation == "add-remove" else None
            release = fit(problem, rows, target, own, nominal_n=nominal, random_state=seed)
    stage, moved = release.plan.stages[-1], 2.0 if relation == "replace-one" else 1.0
    assert stage.name == "level" and len(drawn) == 60
    errors = [float(one.value[0] - one.exact[0]) * stage.event.mu / moved for one in drawn]
    assert np.std(errors) == pytest.approx(1.0, abs=0.4)  # four standard errors
    used = [abs(float(other.sum(one.term, 2.0**-36)[0] - one.exact[0])) / one.scale for one in drawn]
    assert 0.9 * stage.event.mu < max(used) <= stage.event.mu


def test_records_of_0_6_0_paid_for_the_level_as_they_say() -> None:
    problem, X, y, target, own = skewed()
    certificate = fit(problem, MemoryRows(X, y), target, replace(own, levelled=False), random_state=0).certificate
    record = json.loads(certificate.to_json())
    assert "levelled" not in record["mechanism"]["options"] and record["stages"][-1]["name"] == "recalibration"
    assert type(certificate)(copy.deepcopy(record)).verify(allow_seeded=True).ok
    record["mechanism"]["options"]["levelled"] = True
    assert not type(certificate)(record).verify(allow_seeded=True).ok


@pytest.mark.parametrize(("loss", "own"), [(SquaredLoss(), {}), (LogisticLoss(), {"aim": "probabilities", "start": "rate"})])
def test_records_of_0_5_0_are_read_as_they_were_made(loss: Any, own: dict[str, Any]) -> None:
    """They have no such option, and stand for the rule of that version; read by the rule of another they fail."""
    certificate = released(loss, Additive(nearer=False, **OWN, **own), True, epsilon=3.0 if own else 12.0).certificate
    record = json.loads(certificate.to_json())
    assert "nearer" not in record["mechanism"]["options"]
    verdict = type(certificate)(copy.deepcopy(record)).verify(allow_seeded=True)
    assert verdict.ok, verdict.reasons
    record["mechanism"]["options"]["nearer"] = True
    assert not type(certificate)(record).verify(allow_seeded=True).ok


def test_probabilities_flow_as_long_as_noise_along_a_flat_direction_allows() -> None:
    """C·τ becomes that of the line, and τ no shorter than the formulas have it."""

    def settings(shape: Any, size: float, clip: float | None, reach: float | None) -> Any:
        assert clip is not None and reach is not None
        return {"clip_factor": clip, "flow_time": reach / (clip * 0.02)}

    flow = Flow(settings, Shape(1000, 3), 3.0, np.ones(3), 1.0, 0.25, 0.25, refined=False, careful=True, nearer=True)
    line = {"clip_factor": 0.8, "size_of_all": 3.0, "flow_time": 90.0}
    for size in (3.0, 6.0, 30.0):
        found = {"clip_factor": 0.7, "size_of_all": size, "flow_time": 30.0, "noise_ratio": 0.02}
        longer = flow.raised(np.full(1, size**2 - 9.0), found, line)
        assert longer["flow_time"] == pytest.approx(max(30.0, 90.0 * 0.8 * 3.0 / (0.7 * size)))
        assert replace(flow, nearer=False).raised(np.ones(1), found, line) is found


def test_a_classifier_made_for_accuracy_keeps_its_flow() -> None:
    for own, same in (({"aim": "probabilities", "start": "rate"}, False), ({}, True)):
        now, before = (released(LogisticLoss(), Additive(nearer=nearer, **OWN, **own), epsilon=3.0) for nearer in (True, False))
        long, usual = (found.certificate.record["decided"]["flow_time"] for found in (now, before))
        assert long == usual if same else long > usual
        assert np.array_equal(now.w, before.w) == same
