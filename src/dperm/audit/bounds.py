"""From counts of right and wrong guesses to lower bounds on ε and μ.

A test guesses which of two neighbouring data sets produced an answer. FPR is how often it says "neighbour" on the data, FNR how
often it says "data" on the neighbour. Any (ε, δ)-private mechanism has 1 - FNR ≤ e^ε·FPR + δ and the same with the roles
swapped; a μ-GDP one has Φ⁻¹(1 - FPR) - Φ⁻¹(FNR) ≤ μ. Upper confidence limits of the two rates turn that into lower bounds.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, ndtri
from scipy.stats import binom

from dperm.privacy import Guarantee
from dperm.problem.arrays import Vector


def check_levels(delta: float, confidence: float) -> None:
    """δ in [0, 1) and a confidence in (0, 1), or an error: outside them a bound means nothing."""
    if not 0 <= delta < 1:
        raise ValueError(f"Expected 0 ≤ delta < 1, found {delta}. Pass the δ of the claim, e.g. 1e-5.")
    if not 0 < confidence < 1:
        raise ValueError(f"Expected 0 < confidence < 1, found {confidence}. Pass e.g. 0.99.")


def rate_upper(errors: ArrayLike, trials: int, alpha: float) -> Vector:
    """Clopper–Pearson: the largest rate under which `errors` or fewer in `trials` still has probability ≥ alpha.

    **Guarantee**: below the true rate with probability at most alpha, for every true rate and number of trials.

    >>> round(float(rate_upper(5, 1000, 0.025)), 8)
    0.01162947
    """
    count = np.asarray(errors, dtype=np.float64)
    inside = np.minimum(count, trials - 1)
    return np.where(count >= trials, 1.0, betaincinv(inside + 1, trials - inside, 1 - alpha))


def epsilon_from_rates(false_positive: ArrayLike, false_negative: ArrayLike, delta: float) -> Vector:
    """max( ln((1-δ-FNR)/FPR), ln((1-δ-FPR)/FNR), 0 ) for rates or their upper limits."""
    positive, negative = np.broadcast_arrays(np.asarray(false_positive, float), np.asarray(false_negative, float))
    tiny = 1e-300
    one = np.log(np.maximum(1 - delta - negative, tiny) / np.maximum(positive, tiny))
    two = np.log(np.maximum(1 - delta - positive, tiny) / np.maximum(negative, tiny))
    return np.asarray(np.maximum(np.maximum(one, two), 0.0))


def epsilon_lower(
    false_positives: ArrayLike, false_negatives: ArrayLike, trials: int | tuple[int, int], *, delta: float, confidence: float
) -> Vector:
    """A lower bound on ε at δ from the errors of one fixed test; each limit gets half of 1 - confidence.

    **Guarantee**: above the true ε(δ) with probability at most 1 - confidence, provided the test was chosen without looking
    at these trials (`distinguish` chooses it on the other half).

    >>> round(float(epsilon_lower(5, 400, 1000, delta=1e-5, confidence=0.95)), 6)
    3.890107
    """
    positive, negative = limits(false_positives, false_negatives, trials, confidence)
    return epsilon_from_rates(positive, negative, delta)


def mu_lower(
    false_positives: ArrayLike, false_negatives: ArrayLike, trials: int | tuple[int, int], *, confidence: float
) -> Vector:
    """Φ⁻¹(1 - FPR_u) - Φ⁻¹(FNR_u), floored at 0: a lower bound on μ for a mechanism that claims μ-GDP.

    >>> round(float(mu_lower(5, 400, 1000, confidence=0.95)), 6)
    2.442674
    """
    positive, negative = limits(false_positives, false_negatives, trials, confidence)
    return np.maximum(ndtri(1 - positive) - ndtri(negative), 0.0)


def limits(
    false_positives: ArrayLike, false_negatives: ArrayLike, trials: int | tuple[int, int], confidence: float
) -> tuple[Vector, Vector]:
    """Joint upper limits of both error rates."""
    on_data, on_neighbour = (trials, trials) if isinstance(trials, int) else trials
    alpha = (1 - confidence) / 2
    return rate_upper(false_positives, on_data, alpha), rate_upper(false_negatives, on_neighbour, alpha)


PROFILE_EPSILONS = np.concatenate([np.linspace(0.0, 4.0, 41), np.linspace(4.25, 12.0, 32)])


def claimed_profile(guarantee: Guarantee) -> Vector:
    """δ(ε) of the claim at the ε where `profile_gap` looks."""
    return np.array([guarantee.delta(float(epsilon)) for epsilon in PROFILE_EPSILONS])


def profile_gap(false_positive: ArrayLike, false_negative: ArrayLike, guarantee: Guarantee | Vector) -> Vector:
    """max over ε of ( 1 - FNR - e^ε·FPR - δ(ε) ), in both directions: positive means that the claimed profile is broken.

    One (ε, δ) point is often blind: at δ = 1e-6 a test needs a million trials. The certified profile δ(·) claims every point at
    once, so any point may refute it.

    >>> from dperm.privacy import GDP
    >>> profile_gap([0.01, 0.3], [0.01, 0.35], GDP(1.0, "replace-one")) > 0
    array([ True, False])
    """
    positive, negative = (np.atleast_1d(np.asarray(rate, dtype=np.float64)) for rate in (false_positive, false_negative))
    deltas = claimed_profile(guarantee) if not isinstance(guarantee, np.ndarray) else guarantee
    worst = np.full(positive.shape, -np.inf)
    for one, two in ((positive, negative), (negative, positive)):
        gaps = (1 - two)[:, None] - np.exp(PROFILE_EPSILONS) * one[:, None] - deltas
        worst = np.maximum(worst, gaps.max(axis=1))
    return worst


def one_run_tail(correct: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """P[Bin(r, q) ≥ v] + 2mδ·max_{1≤i≤v} (1/i)·P[v > Bin(r, q) ≥ v-i], q = 1/(1+e^{-ε}).

    **Guarantee** (Steinke, Nasr, Jagielski 2023): an upper bound on the chance that an (ε, δ)-private training run lets anybody
    guess v or more of r inclusions right, when m canaries were each included by an independent fair coin.
    """
    q = 1.0 / (1.0 + math.exp(-epsilon))
    at_least = float(binom.sf(correct - 1, guesses, q))
    if delta == 0 or correct == 0:
        return min(at_least, 1.0)
    steps = np.arange(1, correct + 1)
    # P[v > B ≥ v-i] = cdf(v-1) - cdf(v-i-1)
    between = binom.cdf(correct - 1, guesses, q) - binom.cdf(correct - steps - 1, guesses, q)
    return min(at_least + 2 * canaries * delta * float(np.max(between / steps)), 1.0)


def one_run_epsilon(correct: int, guesses: int, canaries: int, *, delta: float, confidence: float = 0.95) -> float:
    """sup{ε : one_run_tail < 1 - confidence}: a lower bound on ε from a single run.

    >>> round(one_run_epsilon(90, 100, 1000, delta=1e-5), 6), round(one_run_epsilon(100, 100, 1000, delta=1e-5), 6)
    (1.626143, 3.465376)
    """
    level = 1 - confidence

    def refuted(epsilon: float) -> bool:
        return one_run_tail(correct, guesses, canaries, epsilon, delta) < level

    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while refuted(high):
        low, high = high, 2 * high
        if high > 200:
            return low
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def describe(value: float | None) -> str:
    """A number for a table: four digits, or a dash for none."""
    return "–" if value is None else f"{float(value):.4g}"
