"""Last layers on embeddings: bounds of the terms, exact sums, the exact profile, measured noise, records, and what is learned."""

from __future__ import annotations

import math

import numpy as np
import pytest

from alterations import unnoticed
from dperm.mechanisms import Heads, Shape, Target, UnmetNeeds
from dperm.mechanisms.heads import descent_settings, floor_of, moments_share
from dperm.privacy import RELATIONS, Gaussian, gaussian_delta, gaussian_mu, kappa
from dperm.problem import Ball, DataBounds, Interval, LogisticLoss, MultinomialLoss, Problem, Ridge
from dperm.release.driver import watching
from dperm.release.noise import gaussian_scale
from dperm.rows.base import Block, sum_step
from dperm.rows.embeddings import EmbeddingRows
from dperm.rows.memory import MemoryRows
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm
from dperm.terms.gridded import DenseGrid
from dperm.terms.heads import Directions, MeanSquare, UnitMoments, WhiteRows, WideGrid
from dperm.terms.moments import smat, svec
from dperm.walk.fitting import fit, plan

K = 3


def declared(classes: int = K) -> Problem:
    return Problem(MultinomialLoss(classes), data=DataBounds(1.0, Interval(0.0, classes - 1.0)))


def embeddings(n: int = 400, d: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    return (rng.normal(size=(n, d)) * np.arange(1, d + 1) ** -0.7 + 2 * np.eye(K, d)[y]).astype(np.float32), y


def odd_rows(rng: np.random.Generator, d: int) -> np.ndarray:
    """Rows of every size, some with cells that are no numbers."""
    rows = rng.normal(size=(60, d)) * 10.0 ** rng.integers(-200, 200, (60, 1))
    rows[rng.random((60, d)) < 0.2] = 0.0
    rows[0], rows[1, 0], rows[2, 0], rows[3] = 0.0, np.nan, np.inf, 1e308
    rows[4:8] = np.eye(4, d)
    return rows


def directions(d: int = 6) -> Directions:
    X, _ = embeddings(d=d)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    return Directions.of((unit.T @ unit).astype(np.float64), 20.0)


# -- the terms ---------------------------------------------------------------------------------------------------------


def test_second_moments_are_those_of_rows_of_length_one() -> None:
    X, y = embeddings()
    unit = X.astype(np.float64) / np.linalg.norm(X.astype(np.float64), axis=1, keepdims=True)
    taking_part = np.where(np.arange(400) % 5 == 0, 0.0, 1.0)
    found = UnitMoments(6)(Block(X, y, taking_part, 0))
    assert np.allclose(found, svec((unit * taking_part[:, None]).T @ unit), atol=400 * 2.0**-19)


@pytest.mark.parametrize("relation", RELATIONS)
def test_no_row_moves_the_moments_by_more_than_declared_and_some_move_them_by_as_much(relation: str) -> None:
    """A halved sensitivity would be exceeded, a doubled one not be reached."""
    rng, d = np.random.default_rng(1), 5
    term = UnitMoments(d)
    rows = odd_rows(rng, d)
    alone = [term(Block(rows[[i]], np.zeros(1), None, 0)) for i in range(len(rows))]
    nothing = np.zeros_like(alone[0])
    others = alone if relation == "replace-one" else [nothing]
    largest = max(float(np.linalg.norm(one - other)) for one in alone for other in others)
    assert largest <= term.sensitivity(relation) * (1 + 1e-9)
    assert largest >= term.sensitivity(relation) * (1 - 1e-5)


@pytest.mark.parametrize("relation", RELATIONS)
def test_no_row_moves_size_or_gradient_by_more_than_declared(relation: str) -> None:
    rng, d = np.random.default_rng(2), 6
    rows, labels = odd_rows(rng, d), rng.integers(0, K, 60)
    map_, theta = directions(d), 50 * rng.normal(size=(K, d))
    for term in (MeanSquare(), GradientTerm(MultinomialLoss(K), theta.reshape(-1), 0.1, Features())):
        alone = [term(map_.block(Block(rows[[i]], labels[[i]], None, 0))) for i in range(60)]
        others = alone if relation == "replace-one" else [np.zeros_like(alone[0])]
        largest = max(float(np.linalg.norm(one - other)) for one in alone for other in others)
        assert largest <= term.sensitivity(relation) * (1 + 1e-9)
        assert largest >= term.sensitivity(relation) * (0.5 if isinstance(term, MeanSquare) else 0.85)


def test_sums_are_the_same_bits_in_any_order_and_cut() -> None:
    """Permuted rows, and rows in blocks of their own between rows of zeros, give the same bits."""
    X, y = embeddings(n=9000, d=7)
    X[5], X[6, 0] = 0.0, np.nan
    map_, order = directions(7), np.random.default_rng(3).permutation(9000)
    theta = np.random.default_rng(4).normal(size=(K, 7))
    apart = np.zeros((18000, 7), dtype=np.float32)
    apart[::2] = X
    twice = np.repeat(y, 2)
    for term, seen in (
        (UnitMoments(7), lambda rows: rows),
        (GradientTerm(MultinomialLoss(K), theta.reshape(-1), 0.05, Features()), lambda rows: map_rows(rows, map_)),
        (MeanSquare(), lambda rows: map_rows(rows, map_)),
    ):
        step = sum_step(term.row_bound, 9000)
        sums = [seen(EmbeddingRows(a, b)).sum(term, step) for a, b in ((X, y), (X[order], y[order]), (apart, twice))]
        assert np.array_equal(sums[0], sums[1]) and np.array_equal(sums[0], sums[2])


def map_rows(rows: EmbeddingRows, map_: Directions):
    from dperm.rows.recoded import RecodedRows

    return RecodedRows(rows, map_)


def test_runs_give_the_bits_of_whole_blocks() -> None:
    rng = np.random.default_rng(5)
    Z, left, theta = rng.normal(size=(333, 40)), np.rint(rng.normal(size=(333, K)) * 1e5), rng.normal(size=(K, 40))
    whole = DenseGrid.of_rows(Z.copy())
    wide = WideGrid(**vars(whole))
    assert np.array_equal(whole.margins(theta), wide.margins(theta))
    assert np.array_equal(left.T @ whole.rows.astype(np.float64), wide.pairs(left)[0].left.reshape(K, 40))


def test_whitening_is_the_stated_map_and_back_is_its_transpose() -> None:
    X, y = embeddings(d=6)
    map_ = directions()
    unit = X.astype(np.float64) / np.linalg.norm(X.astype(np.float64), axis=1, keepdims=True)
    seen = map_.block(Block(X, y, None, 0))
    assert isinstance(seen.X, WhiteRows) and seen.X.shape == X.shape
    expected = unit @ (map_.steps * 2.0**-26) * map_.scale
    theta = np.random.default_rng(6).normal(size=(K, 6))
    assert np.allclose(seen.X.gridded(Features()).margins(theta), expected @ theta.T, atol=1e-5)
    assert np.allclose(unit @ map_.back(theta).T, expected @ theta.T, atol=1e-6)
    assert np.max(seen.X.grid.norms) <= 1 + 1e-5 and map_.scale.max() <= 1


# -- the mechanism -----------------------------------------------------------------------------------------------------


def test_exact_profile_in_one_dimension() -> None:
    """d = 1: the row is ±1, so A moves by 1, s by at most 1, and a gradient by C. Given A and s the rest is Gaussian with a shift
    that depends on s as C does: in units of the noise it is μ_t whatever s was. So the profile of (A, s, gradients) is at most
    that of a Gaussian with √(μ_A² + μ_s² + μ_θ²), which is what the plan books; halved noise would break δ.
    """
    target = Target(1.0, 1e-5, "zero-out")
    planned = Heads(steps=2).plan(declared(), Shape(50, 1), target)
    budget = [stage.event.mu for stage in planned.stages]
    exact = gaussian_delta(1.0, math.sqrt(sum(mu**2 for mu in budget)))
    assert exact <= 1e-5 and exact == pytest.approx(1e-5, rel=1e-6)
    for stage in range(3):
        broken = [mu * (2 if place == stage else 1) for place, mu in enumerate(budget)]
        assert gaussian_delta(1.0, math.sqrt(sum(mu**2 for mu in broken))) > 1e-5

    # The shift of every noisy sum between D = {} and D' = {one row}, measured on the sums, by the scale of their noise.
    shifts: list[list[float]] = []
    for weight in (0.0, 1.0):
        sums: list[tuple[np.ndarray, float]] = []
        rows = EmbeddingRows(np.ones((1, 1)), np.zeros(1, dtype=np.int64), np.array([weight]))
        with watching(lambda drawn, sums=sums: sums.append((drawn.exact, drawn.scale))):
            fit(declared(), rows, target, Heads(steps=2), random_state=1, nominal_n=None)
        shifts.append([float(np.linalg.norm(exact)) / scale for exact, scale in sums])
    moved = np.abs(np.array(shifts[1]) - np.array(shifts[0])) * 1.001
    assert moved[0] == pytest.approx(budget[0], rel=1e-5)
    assert moved[1] <= budget[1] * (1 + 1e-9)
    assert moved[2] == pytest.approx(budget[2] / math.sqrt(2), rel=1e-4)  # at θ = 0 every row is clipped
    assert math.sqrt(np.sum(moved**2)) <= gaussian_mu(1.0, 1e-5) * (1 + 1e-6)


@pytest.mark.parametrize(("relation", "person"), [("zero-out", 1), ("replace-one", 1), ("add-remove", 1), ("zero-out", 3)])
def test_scales_of_all_noise(relation: str, person: int) -> None:
    X, y = embeddings()
    target = Target(1.0, 1e-5, relation, person)
    scales: list[float] = []
    with watching(lambda drawn: scales.append(drawn.scale)):
        release = fit(
            declared(), EmbeddingRows(X, y), target, Heads(steps=4), random_state=0,
            nominal_n=500 if relation == "add-remove" else None,
        )  # fmt: skip
    budget, decided = [stage.event.mu for stage in release.plan.stages], release.certificate.record["decided"]
    moments = math.sqrt(2) if relation == "replace-one" else 1.0
    gradient = kappa(relation) * decided["clip"] * 2 / budget[2]
    expected = [moments / budget[0], 1 / budget[1], *[gradient] * 4]
    assert scales == pytest.approx([1.001 * person * e for e in expected], rel=1e-9)
    assert sum(mu**2 for mu in budget) <= gaussian_mu(1.0, 1e-5) ** 2
    assert release.plan.guarantee.epsilon(1e-5) == pytest.approx(1.0, rel=1e-4)
    assert release.certificate.verify(allow_seeded=True).ok


def test_measured_noise_is_the_planned_noise() -> None:
    """40 runs, deviations from the exact sums: within 5 standard errors for the moments (840 numbers) and the descent (5,760),
    within 45 % for the size (40 numbers). False alarm below 1e-4 over seeds, which are fixed; halved noise is off by 50 %.
    """
    X, y = embeddings()
    errors: dict[str, list[np.ndarray]] = {}

    def see(drawn) -> None:
        errors.setdefault(type(drawn.term).__name__, []).append((drawn.value - drawn.exact) / drawn.term.sensitivity("zero-out"))

    with watching(see):
        for seed in range(40):
            release = fit(declared(), EmbeddingRows(X, y), Target(1.0, 1e-5, "zero-out"), Heads(steps=8), random_state=seed)
    budget = {stage.name: stage.event.mu for stage in release.plan.stages}
    for kind, mu in (
        ("UnitMoments", budget["moments"]), ("GradientTerm", budget["descent"] / math.sqrt(8)), ("MeanSquare", budget["size"])
    ):  # fmt: skip
        drawn = np.concatenate([e.ravel() for e in errors[kind]])
        wide = 0.45 if kind == "MeanSquare" else 5 / math.sqrt(2 * len(drawn))
        assert np.std(drawn) * mu == pytest.approx(1.001, abs=wide), kind


def test_replay_recomputes_every_decision_and_no_leaf_can_be_changed() -> None:
    X, y = embeddings()
    release = fit(declared(), EmbeddingRows(X, y), Target(1.0, 1e-5, "zero-out"), Heads(steps=3), random_state=0)
    assert "moments" not in release.released and list(release.released) == ["size"]
    # Coefficients are bound by their hash alone, as for every method whose answer is not recorded on the way.
    assert unnoticed(release.certificate, allowed=("noise.seed", "coefficients.encoded")) == set()


def test_settings_follow_the_law() -> None:
    planned = Heads().plan(declared(), Shape(50_000, 100), Target(1.0, 1e-5, "zero-out"))
    found = descent_settings(planned, 10_000.0)
    mu = planned.stage("descent").event.mu
    assert found["mean_square"] == pytest.approx(0.2)
    assert found["clip"] == pytest.approx(0.2 * math.sqrt(0.2))
    assert found["clip"] * found["flow_time"] * math.sqrt(0.2) / (mu * 50_000) == pytest.approx(2.0)
    assert found["step_mu"] ** 2 * 400 <= mu**2
    # A size below its own noise, or above n, is not believed.
    low, high = descent_settings(planned, -1e9), descent_settings(planned, 1e9)
    assert low["mean_square"] == planned.stage("size").settings["noise"] / 50_000 and high["mean_square"] == 1.0


def test_the_floor_is_in_units_of_the_noise_spectrum() -> None:
    """The largest eigenvalue of symmetric noise, s on the diagonal and s/√2 off it, is 2s√(d/2)."""
    d, rng = 300, np.random.default_rng(7)
    largest = np.linalg.eigvalsh(smat(3.0 * rng.standard_normal(d * (d + 1) // 2), d))[-1]
    assert largest == pytest.approx(floor_of(3.0, d) / 0.3, rel=0.05)
    assert [moments_share(d) for d in (1, 1024, 8192)] == pytest.approx([0.02, 0.05, 0.1])


def test_without_noise_it_separates_what_a_line_separates() -> None:
    X, y = embeddings(n=3000, d=6)
    release = fit(declared(), EmbeddingRows(X, y), Target(1e6, 1e-5, "zero-out"), Heads(), random_state=0)
    scores = (X / np.linalg.norm(X, axis=1, keepdims=True)) @ release.w.reshape(K, -1).T
    from sklearn.linear_model import LogisticRegression

    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    best = LogisticRegression(C=1e4, fit_intercept=False, max_iter=2000).fit(unit, y).score(unit, y)
    assert np.mean(scores.argmax(axis=1) == y) >= best - 0.01


def test_memory_rows_give_what_embeddings_give() -> None:
    X, y = embeddings()
    X /= 2 * np.linalg.norm(X, axis=1, keepdims=True)  # inside the declared norm, so that nothing is clipped on the way
    found = [
        fit(declared(), rows(X, y), Target(1.0, 1e-5, "zero-out"), Heads(steps=5), random_state=0).w
        for rows in (EmbeddingRows, MemoryRows)
    ]
    assert np.array_equal(found[0], found[1])


def test_needs_are_named() -> None:
    bad = Problem(LogisticLoss(), Ridge(1.0), Ball(2.0), DataBounds(1.0, Interval(-1, 1), 1.0))
    with pytest.raises(UnmetNeeds) as refused:
        plan(bad, Shape(100, 3), Target(1.0, 0.0), Heads())
    needs = " ".join(refused.value.needs)
    assert all(word in needs for word in ("delta > 0", "multinomial", "no intercept", "no regularizer"))
    with pytest.raises(ValueError, match="at most 8,192 columns"):
        plan(declared(), Shape(100, 9000), Target(1.0, 1e-5), Heads())
    for option in ({"steps": 1}, {"clip": 0.0}, {"horizon": math.inf}):
        with pytest.raises(ValueError, match="Expected"):
            Heads(**option)


def test_the_plan_books_gaussians_of_the_whole_budget() -> None:
    planned = Heads().plan(declared(), Shape(60_000, 3969), Target(1.2, 1e-5, "zero-out"))
    assert all(isinstance(stage.event, Gaussian) for stage in planned.stages)
    total = sum(stage.event.mu**2 for stage in planned.stages)
    assert total <= gaussian_mu(1.2, 1e-5) ** 2 and total == pytest.approx(gaussian_mu(1.2, 1e-5) ** 2, rel=1e-9)
    assert planned.stage("moments").settings["noise"] == gaussian_scale(1.0, planned.stage("moments").event.mu)
