"""The exponential mechanism: finite classes (lecture 001) and convex sets (lectures 003 and 004)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaincinv

from dperm.theory.checks import ConditionError, declared_diameter, positive, printed_relation, relation_factor, theorem


@theorem
def exponential_mechanism_tail(
    hypotheses: float, sensitivity: float, epsilon: float, beta: float, relation: str = "replace-one"
) -> float:
    """gap = (κΔ/ε)(ln|H| + ln(1/β)), κ = 2 under replace-one.

    **Guarantee.** Drawing h with probability ∝ exp(εu(h)/(κΔ)), P(u(ĥ) <= max u - gap) <= β.
    Proof: the hypotheses below the gap have total weight <= |H|e^{-(ln|H| + ln 1/β)} = β relative to the
    best one. κ = 2 is also right for any score of sensitivity Δ; κ = 1 (zero-out, add-remove) needs a
    monotone score, such as a count of correct records, whose change has one sign. Lecture 001 item 8,
    erratum E36.

    >>> round(exponential_mechanism_tail(hypotheses=1000, sensitivity=1, epsilon=1, beta=0.05), 4)
    19.807
    """
    return relation_factor(relation) * sensitivity / epsilon * (math.log(hypotheses) - math.log(beta))


@theorem
def exponential_mechanism_failure(
    hypotheses: float, sensitivity: float, epsilon: float, gap: float, relation: str = "replace-one"
) -> float:
    """min(1, |H| exp(-ε·gap/(κΔ))), the inverse of `exponential_mechanism_tail` in β.

    >>> round(exponential_mechanism_failure(1000, 1, 1, gap=19.807), 4)
    0.05
    """
    rate = epsilon / (relation_factor(relation) * sensitivity)
    return min(1.0, math.exp(min(0.0, math.log(hypotheses) - rate * gap)))


def exponential_probabilities(
    scores: ArrayLike, sensitivity: float, epsilon: float, relation: str = "replace-one"
) -> NDArray[np.float64]:
    """P(h) = exp(εu(h)/(κΔ)) / Σ exp(εu(h')/(κΔ)), the law of the mechanism on a finite class.

    Lecture 001 item 6. Used for exact privacy-loss checks (item 7): see `max_log_ratio`.

    >>> exponential_probabilities([0.0, -1.0, -2.0, -4.0], sensitivity=1, epsilon=1).round(6).tolist()
    [0.473991, 0.28749, 0.174371, 0.064148]
    """
    u = np.asarray(scores, dtype=float)
    rate = positive("epsilon", epsilon) / (relation_factor(relation) * positive("sensitivity", sensitivity))
    weights = np.exp(rate * (u - u.max()))
    return np.asarray(weights / weights.sum(), dtype=float)


def max_log_ratio(p: ArrayLike, q: ArrayLike) -> float:
    """max_h |ln p(h) - ln q(h)|: the exact pure-DP loss between two laws on one finite range.

    >>> round(max_log_ratio([0.5, 0.5], [0.25, 0.75]), 4)
    0.6931
    """
    a, b = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
    if a.shape != b.shape or a.size == 0 or np.any(a <= 0) or np.any(b <= 0):
        raise ValueError("Expected two positive laws of the same length, found other arrays. Pass two probability vectors.")
    return float(np.max(np.abs(np.log(a) - np.log(b))))


@theorem
def exponential_erm_risk(
    n: float,
    d: float,
    lipschitz: float,
    radius: float | None = None,
    diameter: float | None = None,
    *,
    epsilon: float,
    beta: float | None = None,
    convex: bool = False,
    relation: str = "replace-one",
    r: float | None = None,
    as_printed: bool = False,
) -> float:
    """Lipschitz: rL + (κLD/(nε))(d ln(D/r) + ln(1/β)), r = κDd/(nε).   Convex: κ d L D/(nε).

    Mean-scale excess empirical risk of the exponential mechanism with density ∝ exp(-(ε/(κLD)) Σᵢℓ(θ;dᵢ)) on
    a convex set of diameter D = `diameter` (a ball of radius R: D = 2R), each ℓ(·;dᵢ) L-Lipschitz (L =
    `lipschitz`).
    **Guarantee** (ε-DP under `relation`):

    * `convex=False`: with probability ≥ 1-β; in expectation when `beta=None` (then ln(1/β) becomes 1). Any
      r in (0, D/2]. Proof: shrink the set towards the minimiser by s = r/D; that piece has a share s^d of
      the volume and excess <= rL.
    * `convex=True`: in expectation κdLD/(nε); with `beta`, (κLD/(nε))·Q, Q the (1-β)-quantile of a
      Gamma(d) variable. Proof: Vol{F - F* <= t}^{1/d} is concave (Brunn–Minkowski), so (ε/(κLD))(F - F*)
      lies below a Gamma(d) variable in likelihood-ratio order, with equality for cones.

    Lecture 003 Theorem 2.5, lecture 004 item 7; errata E6, E7, E20, E22. `as_printed=True`: Theorem 2.5 with
    Δ = LR, which is only 2ε-DP (needs `radius` and `beta`; with `convex=True` its convex form d·2LR/(nε)).

    >>> round(exponential_erm_risk(10**4, 10, 1, radius=1, epsilon=1, beta=0.05), 7)                   # E20
    0.0300567
    >>> round(exponential_erm_risk(10**4, 10, 1, radius=1, epsilon=1, beta=0.05, as_printed=True), 7)
    0.0164147
    >>> exponential_erm_risk(10**4, 10, 1, radius=1, epsilon=1, convex=True)
    0.004
    """
    factor = relation_factor(relation)
    width = declared_diameter(radius, diameter)
    if as_printed:
        printed_relation(relation)
        if radius is None or (beta is None and not convex):
            raise ValueError("Expected radius and beta with as_printed=True. Pass both: Theorem 2.5 is stated with them.")
        factor = 1  # Δ = GR instead of 2GR: half of the corrected κ
    unit = factor * lipschitz * width / (n * epsilon)
    if convex:
        return unit * (d if beta is None else float(gammaincinv(d, 1 - beta)))
    cover = factor * width * d / (n * epsilon) if r is None else r
    if cover > width / 2:
        raise ConditionError(
            f"Expected r <= R (R = half the diameter = {width / 2:g}) in Theorem 2.5, found r = {cover:g}. "
            f"Raise n * epsilon to at least {2 * factor * d}, or pass a smaller r."
        )
    spread = 1.0 if beta is None else math.log(1 / beta)
    return cover * lipschitz + unit * (d * math.log(width / cover) + spread)


@theorem
def exponential_privacy_loss(n: float, epsilon: float, as_printed: bool = False) -> float:
    """max over θ of |ln p_D(θ)/p_{D'}(θ)| on C = [-1, 1], ℓ(θ;±1) = ±θ, D all +1, D' with one record changed.

    With p_D ∝ e^{-knθ}, Z(a) = 2 sinh(ka)/(ka): the loss is 2k + |ln Z(n)/Z(n-2)|. The corrected k =
    ε/(2L·diam) = ε/4 keeps it below ε; the printed Δ = LR gives k = ε/2 and up to 2ε. Erratum E20.

    >>> [round(exponential_privacy_loss(m, 1, as_printed=True), 3) for m in (1, 5, 20, 1000)]
    [1.0, 1.533, 1.895, 1.998]
    >>> exponential_privacy_loss(1000, 1) < 1
    True
    """
    k = epsilon / 2 if as_printed else epsilon / 4

    def log_normaliser(a: float) -> float:
        a = abs(k * a)
        return a + math.log(-math.expm1(-2 * a) / a) if a > 0 else math.log(2.0)

    return 2 * k + abs(log_normaliser(n) - log_normaliser(n - 2))
