"""How many records: uniform convergence and (private) PAC learning over a finite class.

Hoeffding's inequality for one hypothesis h and m records: P(err(h) - err_S(h) > t) <= exp(-2 m t²).
Everything here is that line, a union bound over the class, and the tail of the exponential mechanism.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq, minimize_scalar

from dperm.theory.checks import printed_relation, relation_factor, theorem
from dperm.theory.exponential import exponential_mechanism_tail


@theorem
def uniform_convergence_sample_size(
    hypotheses: float, alpha: float, beta: float, two_sided: bool = False, as_printed: bool = False
) -> int:
    """m = ⌈ln(|H|/β) / (2α²)⌉; two-sided: ⌈ln(2|H|/β) / (2α²)⌉.

    **Guarantee.** With m records, with probability ≥ 1-β every h in the class has
    err(h) <= err_S(h) + α (one-sided), or |err(h) - err_S(h)| <= α (two-sided).
    Conditions: loss in [0, 1], independent records, class fixed before the data.
    Lecture 000 item 6 and lecture 001 item 4; errata E31, E34. `as_printed=True` gives lecture 001's loose
    3 ln(2|H|/β)/α², which is 6 times the two-sided form.

    >>> uniform_convergence_sample_size(hypotheses=1000, alpha=0.1, beta=0.05)
    496
    >>> uniform_convergence_sample_size(1000, 0.1 / 3, 0.025, two_sided=True)   # E34, corrected
    5081
    >>> uniform_convergence_sample_size(1000, 0.1 / 3, 0.025, as_printed=True)  # E34, as printed
    30483
    """
    if as_printed:
        return math.ceil(3 * _log_ratio(2 * hypotheses, beta) / alpha**2)
    sides = 2 if two_sided else 1
    return math.ceil(_log_ratio(sides * hypotheses, beta) / (2 * alpha**2))


@theorem
def uniform_convergence_error(n: float, hypotheses: float, beta: float, two_sided: bool = False) -> float:
    """α = min(1, √(ln(|H|/β) / (2n))), the inverse of `uniform_convergence_sample_size` (two-sided: 2|H|).

    **Guarantee.** With probability ≥ 1-β no h of the class has err(h) > err_S(h) + α. Errors are shares, so α = 1 (n too
    small) says nothing.

    >>> round(uniform_convergence_error(n=496, hypotheses=1000, beta=0.05), 4)
    0.0999
    """
    sides = 2 if two_sided else 1
    return min(1.0, math.sqrt(_log_ratio(sides * hypotheses, beta) / (2 * n)))


@theorem
def agnostic_sample_size(hypotheses: float, alpha: float, beta: float) -> int:
    """m = ⌈2 ln((|H|+1)/β) / α²⌉: non-private ERM with err(ĥ) <= min_h err(h) + α.

    **Guarantee.** One-sided convergence at α/2 for all of H, and the opposite side for the best
    hypothesis alone: |H|+1 events, not 2|H|. Lecture 000 item 4, erratum E31.

    >>> agnostic_sample_size(hypotheses=1000, alpha=0.1, beta=0.05)
    1981
    """
    return math.ceil(2 * _log_ratio(hypotheses + 1, beta) / alpha**2)


@theorem
def pac_sample_size(
    hypotheses: float,
    alpha: float,
    beta: float,
    epsilon: float | None = None,
    relation: str = "replace-one",
    realizable: bool = False,
    optimise_split: bool = True,
    uniform_share: float | None = None,
    as_printed: bool = False,
) -> int:
    """The smallest m with 2√(ln(2|H|/β₁)/(2m)) + (κ/(εm))(ln|H| + ln(1/β₂)) <= α, β₁ + β₂ = β.

    **Guarantee.** The exponential mechanism with score "number of correct records" and m records returns ĥ
    with P(err(ĥ) > min_h err(h) + α) <= β, and is ε-DP under `relation` (κ = 2 replace-one, 1 otherwise).
    `epsilon=None`: plain ERM, the second term is absent. Lecture 001 items 4, 9, 10; errata E34, E35, E37.

    `optimise_split=True` takes the best β₁; `uniform_share=s` fixes β₁ = sβ instead; `optimise_split=False`
    keeps the lecture's thirds of α and halves of β with Hoeffding's constant; `as_printed=True` is the
    lecture's own number.

    `realizable=True` (some h makes no error; erratum E38): ĥ has fewer than γαm errors in the sample when
    γαm = (κ/ε)ln(|H|/β₂), and a fixed h with err(h) > α has so few with probability <= exp(-αm(1-γ+γ ln γ))
    (Chernoff), so αm(1-γ+γ ln γ) ≥ ln(|H|/β₁) is enough: m grows as 1/α. Without privacy γ = 0 and m =
    ⌈ln(|H|/β)/α⌉.

    >>> pac_sample_size(1000, 0.1, 0.05, epsilon=1)                         # E35
    2603
    >>> pac_sample_size(1000, 0.1, 0.05, epsilon=1, uniform_share=0.9)
    2606
    >>> pac_sample_size(1000, 0.1, 0.05, epsilon=1, optimise_split=False)   # E34
    5081
    >>> pac_sample_size(1000, 0.1, 0.05, epsilon=1, as_printed=True)
    30483
    >>> pac_sample_size(1000, 0.1, 0.05, realizable=True)
    100
    """
    factor = relation_factor(relation)
    # price: records paid per unit of (ln|H| + ln 1/β₂), i.e. κ/ε
    price = 0.0 if epsilon is None else factor / epsilon
    if as_printed:
        printed_relation(relation)
        if realizable:
            raise ValueError(
                "Expected realizable=False with as_printed=True, found True. "
                "Lecture 4 prints no constant for the realizable case: drop as_printed."
            )
        return _thirds(hypotheses, alpha, beta, epsilon, relation, as_printed=True)
    if not optimise_split and uniform_share is None:
        if realizable:
            halves = _log_ratio(hypotheses, beta / 2)
            return math.ceil(_realizable_load(halves, halves, price, 0.5) / alpha)
        return _thirds(hypotheses, alpha, beta, epsilon, relation, as_printed=False)

    return math.ceil(_at_the_split(hypotheses, alpha, beta, price, realizable, uniform_share))


def _at_the_split(size: float, alpha: float, beta: float, price: float, realizable: bool, share: float | None) -> float:
    """m where β₁ = share·β, or at the best β₁."""

    def needed(uniform: float, private: float) -> float:
        """m at the split given by ln(1/β₁) - ln(1/β) and ln(1/β₂) - ln(1/β)."""
        if realizable:
            return _realizable_load(_log_ratio(size, beta) + uniform, _log_ratio(size, beta) + private, price, None) / alpha
        return _agnostic_load(_log_ratio(2 * size, beta) + uniform, _log_ratio(size, beta) + private, price, alpha)

    if share is not None:
        return needed(-math.log(share), -math.log1p(-share))
    if price == 0.0:
        return needed(0.0, 0.0)
    # With β₂ = e^{-t}β the need is convex in t, and t keeps its resolution however little of β privacy takes (ε large).
    best = minimize_scalar(
        lambda t: needed(-math.log(-math.expm1(-t)), t), bounds=(1e-3, 60.0), method="bounded", options={"xatol": 1e-10}
    )
    return float(best.fun)


def _log_ratio(size: float, beta: float) -> float:
    """ln(size/β), also for a class so large (2^d) that the number itself is no float."""
    return math.log(size) - math.log(beta)


def _agnostic_load(uniform: float, private: float, price: float, alpha: float) -> float:
    """Solve α m - b√m - c = 0 for m: a quadratic in √m; `uniform` = ln(2|H|/β₁), `private` = ln(|H|/β₂)."""
    b, c = math.sqrt(2 * uniform), price * private
    return ((b + math.sqrt(b * b + 4 * alpha * c)) / (2 * alpha)) ** 2


def _realizable_load(target: float, private: float, price: float, share: float | None) -> float:
    """The smallest x = αm; `target` = ln(|H|/β₁); `share` fixes γ, otherwise γ = c/x with c = price · ln(|H|/β₂)."""
    c = price * private
    if share is not None:
        return max(target / (1 - share + share * math.log(share)), c / share)
    if c == 0.0:
        return target

    def margin(x: float) -> float:
        ratio = c / x
        return x * (1 - ratio + ratio * math.log(ratio)) - target

    high = 2 * (c + target)
    while margin(high) < 0:
        high *= 2
    return float(brentq(margin, c, high, xtol=1e-12, rtol=1e-14))


def _thirds(size: float, alpha: float, beta: float, epsilon: float | None, relation: str, as_printed: bool) -> int:
    """α' = α/3 three times (2α' for uniform convergence, α' for privacy), β' = β/2 twice; both must hold."""
    uniform = uniform_convergence_sample_size(size, alpha / 3, beta / 2, two_sided=True, as_printed=as_printed)
    if epsilon is None:
        return uniform
    tail = exponential_mechanism_tail(size, 1.0, epsilon, beta / 2, relation=relation)
    return max(uniform, math.ceil(tail / (alpha / 3)))


@theorem
def privacy_is_free_above(alpha: float) -> float:
    """ε = α: where 1/(αε) = 1/α² in m = Θ((ln|H| + ln(1/β))(1/α² + 1/(αε))).

    For ε above α the privacy term is the smaller of the two and the sample size keeps the order of the
    non-private one; for ε below α it dominates and m ∝ 1/(αε). It is a crossover of rates, not of constants:
    `privacy_overhead` gives the factor at any ε. Lecture 001 item 11, erratum E37.

    >>> privacy_is_free_above(0.1)
    0.1
    """
    return alpha


@theorem
def privacy_overhead(hypotheses: float, alpha: float, beta: float, epsilon: float, relation: str = "replace-one") -> float:
    """m(private) / m(non-private), both from `pac_sample_size` with the same (α, β).

    >>> round(privacy_overhead(1000, 0.1, 0.05, epsilon=1.0), 3)
    1.228
    """
    private = pac_sample_size(hypotheses, alpha, beta, epsilon, relation=relation)
    return private / pac_sample_size(hypotheses, alpha, beta, relation=relation)
