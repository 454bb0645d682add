"""Additive models of counts: every bound attained and never exceeded, noise as declared, exact audits of whole runs, replays."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest

from dperm.mechanisms import AdditivePoisson, Shape, Target, UnmetNeeds
from dperm.mechanisms.scaled.poisson_counts import LARGEST_PREDICTION, Balance, Caps, ExposedResiduals, SignedHistogram
from dperm.mechanisms.scaled.poisson_settings import CountGradient
from dperm.privacy import RELATIONS, gaussian_mu
from dperm.problem import Ball, DataBounds, Interval, PoissonLoss, Problem, SquaredLoss
from dperm.release.driver import watching
from dperm.release.noise import RELEASE_SLACK
from dperm.rows.base import Block
from dperm.rows.memory import MemoryRows
from dperm.tables.gaps import GAP, with_gaps_stored
from dperm.terms.additive import PLACES, CellFilling, CurveFeatures, Curving
from dperm.walk.fitting import fit, plan
from recording import Recording

D, SIZE = 3, 4000
GENERATOR = np.random.default_rng(3)
FEATURES = CurveFeatures(
    1.0, np.array([0.2, -0.1, 0.0]), np.array([2.0, 5.0, 0.5]), GENERATOR.normal(size=(2, PLACES, 4)) / 3
)
W = GENERATOR.normal(size=FEATURES.width(D)) / 3
RESIDUALS = ExposedResiduals(FEATURES, W, 0.05, 0.7, -6.0, 9.0, heaviest=2.0, largest=20.0)
TERMS = {
    "gradient": CountGradient(RESIDUALS, 0.8),
    "histogram": SignedHistogram(RESIDUALS, 20.0),
    "balance": Balance(RESIDUALS, Caps(3.0, 7.0)),
}


def seen(X: np.ndarray, y: np.ndarray, weight: np.ndarray, form: str) -> Block:
    stored = with_gaps_stored(X) if form == "sparse" else X
    filling = CellFilling(np.array([0.1, 0.0, 0.0]), (0, 2), (0,))
    return Curving().block(filling.block(Block(stored, y, weight, 0)))


def drawn_rows(generator: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows far outside of the bounds, missing cells, counts at both ends, exposures beyond the declared one and null rows."""
    X = generator.uniform(-0.6, 0.6, (n, D)) * 10 ** generator.uniform(-2, 1)
    X[generator.uniform(size=X.shape) < 0.2] = GAP
    return X, generator.choice([0.0, 0.05, 1.0], n), generator.choice([0.0, 0.3, 2.0, 50.0], n)


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", TERMS)
def test_no_neighbour_exceeds_the_sensitivity_on_curves(name: str, relation: str, form: str) -> None:
    term, generator = TERMS[name], np.random.default_rng(5)
    largest = 0.0
    for _ in range(150):
        X, y, weight = drawn_rows(generator, 5)
        before = term(seen(X, y, weight, form))
        other, counts, exposed = X.copy(), y.copy(), weight.copy()
        if relation == "replace-one":
            other[:1], counts[:1], exposed[:1] = drawn_rows(generator, 1)
        else:
            exposed[0], counts[0] = 0.0, 0.0
        moved = float(np.linalg.norm(term(seen(other, counts, exposed, form)) - before))
        assert moved <= term.sensitivity(relation) * (1 + 1e-9)
        largest = max(largest, moved)
    assert largest > 0.45 * term.sensitivity(relation)  # half of the bound would be broken, or nearly


def test_the_balance_attains_its_bound_on_curves() -> None:
    """A row at the largest prediction and one at the largest count are the corners of the box."""
    flat = dataclasses.replace(RESIDUALS, theta=np.append(np.zeros(D), np.append([8.0], np.zeros(FEATURES.width(D) - D - 1))))
    term = Balance(flat, Caps(3.0, 7.0))
    X, one = np.zeros((1, D)) + 0.2, np.full(1, 2.0)
    high = term(seen(X, np.zeros(1), one, "dense"))
    low = term(seen(X, np.ones(1), np.full(1, 1e-9), "dense"))
    np.testing.assert_allclose(high, [-3.0, term.caps.weight * LARGEST_PREDICTION], rtol=1e-9)
    assert np.linalg.norm(high - low) == pytest.approx(term.sensitivity("replace-one"), rel=1e-6)


# -- whole runs ----------------------------------------------------------------------------------------------------------

OWN: dict[str, Any] = {"kinds": ("numeric", "numeric", "boolean"), "curved": (0, 1)}
CASES = {
    "counts": AdditivePoisson(**OWN),
    "exposures": AdditivePoisson(max_weight=2.0, **OWN),
    "gaps": AdditivePoisson(gaps=(0,), **OWN),
    "no shape": AdditivePoisson(kinds=OWN["kinds"]),
}


def setting(name: str, relation: str = "replace-one", persons: int = 1, epsilon: float = 8.0) -> Any:
    mechanism, generator = CASES[name], np.random.default_rng(0)
    X = generator.uniform(-0.5, 0.5, (SIZE, D))
    X[:, 2] = X[:, 2] > 0.2
    exposure = generator.choice([0.5, 2.0], SIZE) if mechanism.max_weight else np.ones(SIZE)
    y = np.minimum(generator.poisson(3 * exposure * np.exp(np.cos(8 * X[:, 0]) + X[:, 1])), 40) / 40
    for j in mechanism.gaps:
        X[j :: 4 + j, j] = GAP
    problem = Problem(PoissonLoss(-12.0, 0.0), data=DataBounds(1.3, Interval(0.0, 1.0), 1.0))
    target = Target.declare(epsilon=epsilon, delta=1e-6, relation=relation, n=SIZE, rows_per_person=persons)
    return problem, MemoryRows(X, y, exposure if mechanism.max_weight else None), target, mechanism


def run(name: str, relation: str = "replace-one", persons: int = 1, **options: Any) -> Any:
    problem, rows, target, mechanism = setting(name, relation, persons)
    return fit(problem, rows, target, mechanism, nominal_n=SIZE if relation == "add-remove" else None, **options)


def by_hand(name: str, relation: str, decided: dict[str, Any], heaviest: float) -> float:
    """What one row moves each stage's sum by, from the tables of the documentation."""
    replaced = relation == "replace-one"
    bins = math.sqrt(2) if replaced else 1.0
    return {
        "marginals": math.sqrt((2 if replaced else 1) * 2),
        "rough mean": (2 if replaced else 1) * decided["mean_radius"],
        "rough radius": bins,
        "mean": (2 if replaced else 1) * decided["mean_reach"],
        "present": 1.0,
        "radius": bins,
        "squares": bins * decided["centred_radius"] ** 2,
        "count scale": bins,
        "count sum": decided["count_limit"],
        "exposure sum": heaviest,
        "residuals": bins,
        "residuals again": bins,
        "signed residuals": bins,
    }[name]


@pytest.mark.parametrize("persons", [1, 3])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", CASES)
def test_every_draw_has_the_declared_scale(name: str, relation: str, persons: int) -> None:
    noise = Recording(3)
    release = run(name, relation, persons, noise=noise)
    decided, heaviest = release.certificate.record["decided"], CASES[name].heaviest
    budget = {stage.name: stage.event.mu for stage in release.plan.stages}
    assert math.fsum(mu**2 for mu in budget.values()) == pytest.approx(gaussian_mu(8.0, 1e-6) ** 2, rel=1e-9)
    descent = decided["steps"] * decided["step_mu"] ** 2 + decided["balance_mu"] ** 2
    assert descent <= budget["descent"] ** 2 * (1 + 1e-9)
    replaced, expected = relation == "replace-one", []
    for stage in release.plan.stages:
        if stage.name == "descent":
            for step in range(decided["steps"]):
                if step == decided["second_clip_at"]:
                    expected.append(by_hand("residuals again", relation, decided, heaviest) / budget["residuals again"])
                clip = decided["clip"][step >= decided["second_clip_at"]]
                expected.append((2 if replaced else 1) * clip / decided["step_mu"])
            expected.append(by_hand("signed residuals", relation, decided, heaviest) / budget["signed residuals"])
            expected.append(Caps(*decided["balance_caps"]).sensitivity(relation) / decided["balance_mu"])
        elif stage.name not in ("residuals again", "signed residuals"):
            expected.append(by_hand(stage.name, relation, decided, heaviest) / budget[stage.name])
    assert noise.drawn == pytest.approx([RELEASE_SLACK * persons * scale for scale in expected], rel=1e-9)


def behind(rows: Any, other: MemoryRows, problem: Problem) -> Any:
    """The same views of other rows."""
    if isinstance(rows, MemoryRows):
        return other.bounded(problem.data)
    return dataclasses.replace(rows, rows=behind(rows.rows, other, problem))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", ["counts", "exposures", "gaps"])
def test_exact_audit_of_a_whole_run(name: str, relation: str) -> None:
    """Every noisy sum of a run, taken again on a neighbour: Σ (shift/σ)² ≤ μ², which is all that the transcript says.

    The row that changes has the largest count where few are expected, so that its gradient is clipped at every step: it uses more
    than a quarter of μ², and noise halved anywhere that matters, or a sensitivity forgotten, would exceed μ².
    """
    problem, rows, target, mechanism = setting(name, relation)
    X, y = rows.X.copy(), rows.y.copy()
    weight = np.ones(SIZE) if rows.weight is None else rows.weight.copy()
    X[-1], y[-1], weight[-1] = [0.4, -0.5, 1.0], 1.0, mechanism.heaviest
    drawn: list[Any] = []
    with watching(drawn.append):
        nominal = SIZE if relation == "add-remove" else None
        given = MemoryRows(X, y, weight)
        release = fit(problem, given, target, mechanism, nominal_n=nominal, random_state=4)
    assert release.certificate.record["decided"]["shapes"] == "curves"
    X, y, weight = X.copy(), y.copy(), weight.copy()
    if relation == "replace-one":
        X[-1], y[-1] = [0.0, 0.5, 0.0], 0.0
    else:
        weight[-1] = y[-1] = 0.0
    last = slice(None, -1 if relation == "add-remove" else None)
    other, spent, allowed = MemoryRows(X[last], y[last], weight[last]), 0.0, gaussian_mu(8.0, 1e-6) ** 2
    for one in drawn:
        again = behind(one.rows, other, problem).sum(one.term, 2.0**-36)
        spent += float(np.sum((again - one.exact) ** 2)) / one.scale**2
    assert 0.25 * allowed < spent <= allowed * (1 + 1e-3)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", CASES)
def test_certificates_verify_and_replay_the_choice(name: str, relation: str) -> None:
    release = run(name, relation, random_state=0)
    verdict = release.certificate.verify(allow_seeded=True)
    assert verdict.ok, verdict.reasons
    decided = release.certificate.record["decided"]
    assert decided["shapes"].startswith("the line") == (name == "no shape") == ("marginals" not in release.released)
    problem, _, target, mechanism = setting(name, relation)
    assert release.plan.events == plan(problem, Shape(SIZE, D), target, mechanism).events
    assert release.w.shape == (D + 1 + PLACES * len(mechanism.curved),)


def test_every_altered_decision_fails() -> None:
    certificate = run("exposures", random_state=0).certificate
    record = json.loads(certificate.to_json())
    for name, value in record["decided"].items():
        changed = copy.deepcopy(record)
        number = isinstance(value, int | float)
        changed["decided"][name] = value * 1.01 + 0.5 if number else "another" if isinstance(value, str) else [9.0]
        assert not type(certificate)(changed).verify(allow_seeded=True).ok, name
    for name in record["released"]:
        changed = copy.deepcopy(record)
        changed["released"][name][0] += 1.0
        assert not type(certificate)(changed).verify(allow_seeded=True).ok, name


def test_too_little_budget_gives_the_line() -> None:
    problem, rows, target, mechanism = setting("counts", "zero-out", epsilon=0.05)
    release = fit(problem, rows, target, mechanism, random_state=0)
    assert release.certificate.record["decided"]["shapes"].startswith("the line") and not release.w[D + 1 :].any()


def test_needs_are_named() -> None:
    data, target = DataBounds(1.3, Interval(0.0, 1.0), 1.0), Target.declare(epsilon=1.0, delta=1e-6, n=100)
    loss = PoissonLoss(-12.0, 0.0)
    for problem, asked, words in (
        (Problem(SquaredLoss(), data=data), target, "Poisson loss"),
        (Problem(loss, data=DataBounds(1.3, Interval(0.0, 1.0))), target, "intercept"),
        (Problem(loss, domain=Ball(1.0), data=data), target, "no radius"),
        (Problem(loss, data=data), Target.declare(epsilon=1.0, delta=0.0, n=100), "Gaussian"),
    ):
        with pytest.raises(UnmetNeeds, match=words):
            plan(problem, Shape(100, 2), asked, AdditivePoisson(curved=(0, 1)))
    with pytest.raises(ValueError, match="labels='counts'"):
        AdditivePoisson(labels="rates")
    with pytest.raises(ValueError, match="declared bounds"):
        AdditivePoisson(kinds=("private",))
    with pytest.raises(ValueError, match="curved="):
        plan(Problem(loss, data=data), Shape(100, 2), target, AdditivePoisson(curved=(5,)))
