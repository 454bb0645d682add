"""One training run, many canaries: the audit of Steinke, Nasr and Jagielski (2023).

Each of m canary rows joins the data by a fair coin; whoever sees the answer guesses r of the coins and gets v right. An
(ε, δ)-private run makes v stochastically smaller than a binomial (`bounds.one_run_tail`), so a large v refutes small ε. One fit
is enough.

An excluded canary leaves a null row, so the run is audited under the zero-out relation with n fixed; "drop" leaves it out.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.audit.bounds import check_levels, one_run_epsilon, one_run_tail
from dperm.audit.trials import as_function
from dperm.problem import Problem
from dperm.problem.arrays import Vector
from dperm.release.driver import run, watching
from dperm.release.noise import Noise, noise_source
from dperm.release.plan import Mechanism, Shape, Target
from dperm.rows import MemoryRows

Null = tuple[ArrayLike, ArrayLike] | str


@dataclass(frozen=True)
class Canaries:
    """Rows to plant. `side` is +1 where the label pulls the margin ⟨x, w⟩ up and -1 where it pulls it down."""

    X: Vector
    y: np.ndarray
    side: Vector

    def __len__(self) -> int:
        return len(self.X)


def rare_directions(
    count: int, columns: int, norm: float, labels: tuple[object, object] = (-1.0, 1.0), *, seed: int = 0
) -> Canaries:
    """Canaries along the last `count` coordinate axes, a label at random on each: no other row points there.

    An included canary moves the model in its own direction only, and nothing else does: the coins can be read off separately.
    Needs columns ≥ count; give the other rows zeros there.

    >>> canaries = rare_directions(3, 5, norm=2.0)
    >>> canaries.X.shape, float(np.abs(canaries.X[:, :2]).max())
    ((3, 5), 0.0)
    """
    if not 1 <= count <= columns:
        raise ValueError(f"Expected 1 ≤ canaries ≤ columns = {columns}, found {count}. Add columns, or use flipped_labels.")
    X = np.zeros((count, columns))
    X[np.arange(count), columns - count + np.arange(count)] = norm
    chosen = np.random.default_rng(seed).integers(2, size=count)
    return Canaries(X, np.array([labels[k] for k in chosen]), np.asarray(2.0 * chosen - 1.0, dtype=np.float64))


def flipped_labels(X: ArrayLike, direction: ArrayLike, norm: float, labels: tuple[object, object] = (-1.0, 1.0)) -> Canaries:
    """Real rows stretched to the norm bound, with the label that `direction`, a public guess of the model, finds least likely."""
    rows = np.asarray(X, dtype=np.float64)
    lengths = np.maximum(np.linalg.norm(rows, axis=1), 1e-12)
    margins = rows @ np.asarray(direction, dtype=np.float64)
    side = np.where(margins > 0, -1.0, 1.0)
    return Canaries(rows * (norm / lengths)[:, None], np.array(labels)[(side > 0).astype(int)], side)


@dataclass(frozen=True)
class OneRun:
    """ε is at least `epsilon_lower` with the stated confidence; `p_value` is that of the claim, if one was made."""

    epsilon_lower: float
    correct: int
    guesses: int
    canaries: int
    delta: float
    confidence: float
    p_value: float | None
    seconds: float

    @property
    def violates(self) -> bool | None:
        return None if self.p_value is None else self.p_value < 1 - self.confidence


def one_run(
    fit: object,
    X: ArrayLike,
    y: ArrayLike,
    canaries: Canaries,
    *,
    null: Null = "drop",
    guesses: int | None = None,
    delta: float = 1e-5,
    confidence: float = 0.95,
    claim: float | None = None,
    seed: int | None = None,
) -> OneRun:
    """Plant the canaries by fair coins, fit once, guess the coins, bound ε from below.

    fit      an estimator, or a function (X, y) ↦ coefficients (black box) or a matrix of noisy gradients, one a step (white box)
    null     what an excluded canary becomes: a row (x, label) that the fit ignores, or "drop"
    guesses  how many coins to guess, half of them "in" (highest scores) and half "out"; default a fifth of the canaries
    claim    ε to test at `delta`
    seed     fixes the coins for a test; leave it out otherwise

    **Guarantee**: epsilon_lower exceeds the ε of an (ε, δ)-private fit with probability at most 1 - confidence, over coins and
    noise.

    >>> generator = np.random.default_rng(0)
    >>> canaries = rare_directions(200, 200, norm=1.0)
    >>> leaky = one_run(lambda X, y: X.T @ y + generator.normal(0, 0.1, 200), np.zeros((1, 200)), [1.0], canaries, seed=1)
    >>> leaky.correct, leaky.guesses, leaky.epsilon_lower > 2
    (40, 40, True)
    """
    started = time.perf_counter()
    check_levels(delta, confidence)
    if not isinstance(canaries, Canaries):
        raise ValueError(
            f"Expected canaries, found {type(canaries).__name__}. Make them with dperm.audit.rare_directions or flipped_labels."
        )
    X, y = np.asarray(X), np.asarray(y)
    m = len(canaries)
    r = guesses if guesses is not None else max(2, m // 5)
    if not 2 <= r <= m:
        raise ValueError(f"Expected 2 ≤ guesses ≤ {m} canaries, found {r}.")
    coins = np.random.default_rng(secrets.randbits(128) if seed is None else seed).integers(2, size=m).astype(bool)
    rows, labels = _planted(X, y, canaries, coins, null)
    outcome = _answer(fit, rows, labels)
    # An included row adds slope·x to every gradient, with a slope of sign -side: gradients point against it, weights along it.
    pull = -outcome.sum(axis=0) if outcome.ndim == 2 else outcome
    scores = canaries.side * (canaries.X @ pull[: canaries.X.shape[1]])
    order = np.argsort(-scores, kind="stable")
    ins, outs = order[: (r + 1) // 2], order[m - r // 2 :]
    correct = int(coins[ins].sum() + (~coins[outs]).sum())
    tail = None if claim is None else one_run_tail(correct, r, m, claim, delta)
    lower = one_run_epsilon(correct, r, m, delta=delta, confidence=confidence)
    return OneRun(lower, correct, r, m, delta, confidence, tail, time.perf_counter() - started)


def _planted(X: Vector, y: Vector, canaries: Canaries, coins: NDArray[np.bool_], null: Null) -> tuple[Vector, np.ndarray]:
    if isinstance(null, str):
        if null != "drop":
            raise ValueError(f"Expected null='drop' or a row (x, label), found {null!r}.")
        return np.concatenate([X, canaries.X[coins]]), np.concatenate([y, canaries.y[coins]])
    planted, labels = canaries.X.copy(), canaries.y.copy()
    planted[~coins] = null[0]
    labels[~coins] = null[1]
    return np.concatenate([X, planted]), np.concatenate([y, labels])


def _answer(fit: object, X: Vector, y: np.ndarray) -> Vector:
    outcome = fit(X, y) if callable(fit) and not hasattr(fit, "fit") else as_function(fit)((X, y))
    found = np.asarray(outcome, dtype=np.float64)
    return found if found.ndim == 2 else found.ravel()


def noisy_gradients(
    problem: Problem, target: Target, mechanism: Mechanism, *, noise: Noise | None = None
) -> Callable[[Vector, np.ndarray], Vector]:
    """A `fit` for white-box audits of our own mechanisms: all noisy sums of one run, a row each.

    **Guarantee** audited: that of the composition of the booked events, which covers everything the run let out.
    """
    def fit(X: Vector, y: np.ndarray) -> Vector:
        known = np.isfinite(np.asarray(y, dtype=np.float64))
        rows = MemoryRows(X, np.where(known, y, 0.0), known.astype(np.float64))
        source = noise_source() if noise is None else noise
        shape = Shape(rows.n, rows.d)
        plan, seen = mechanism.plan(problem, shape, target), []
        with watching(lambda drawn: seen.append(drawn.value.ravel())):
            run(mechanism.program(plan, problem), plan, rows.bounded(problem.data), source)
        return np.array(seen)

    return fit
