"""From the sample to the population: generalisation gaps and the phased-SGD bound (C8)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dperm.privacy.gaussian import gaussian_mu
from dperm.theory.checks import ConditionError, printed_relation, relation_factor, theorem
from dperm.theory.sample_sizes import uniform_convergence_error


@theorem
def generalisation_gap(
    n: float,
    *,
    hypotheses: float | None = None,
    lipschitz: float | None = None,
    radius: float | None = None,
    strong_convexity: float | None = None,
    loss_range: float | None = None,
    beta: float | None = None,
) -> float:
    """Finite class: c√(ln(|H|/β)/(2n)).   Linear models: 2LB/√n (+ c√(ln(1/β)/(2n))).   Strongly convex ERM:
    2L²/(nλ̄).

    Largest population risk minus empirical risk, mean scale. Which theorem, by what is passed:

    * `hypotheses` and `beta`: Hoeffding and a union bound, losses in an interval of length c =
      `loss_range` (default 1);
    * `lipschitz` L (slope bound times row norm) and `radius` B: supremum over ‖θ‖ <= B, in expectation, by
      symmetrisation and contraction; with `beta` (needs c) add McDiarmid's term: with probability ≥ 1-β;
    * `lipschitz` and `strong_convexity` λ̄: expected gap of the exact minimiser, by uniform stability: one
      record moves it by 2L/(nλ̄) and therefore any loss by 2L²/(nλ̄).

    Lectures 000 items 3-6, 003 item 3; errata E23, E31.

    >>> round(generalisation_gap(10**4, lipschitz=1, radius=1), 6)
    0.02
    >>> round(generalisation_gap(10**4, lipschitz=1, strong_convexity=0.1), 6)
    0.002
    >>> round(generalisation_gap(496, hypotheses=1000, beta=0.05), 4)
    0.0999
    """
    scale = 1.0 if loss_range is None else loss_range
    if hypotheses is not None:
        if beta is None or lipschitz is not None:
            raise ValueError("Expected beta and no lipschitz together with hypotheses. Pass beta.")
        return scale * uniform_convergence_error(n, hypotheses, beta)
    if lipschitz is None or (radius is None) == (strong_convexity is None):
        raise ValueError(
            "Expected hypotheses, or lipschitz with one of radius and strong_convexity. Pass what is known of the class."
        )
    if strong_convexity is not None:
        if beta is not None:
            raise ValueError("Expected no beta with strong_convexity (the bound is in expectation). Drop beta.")
        return 2 * lipschitz**2 / (n * strong_convexity)
    gap = 2 * lipschitz * (radius or 0.0) / math.sqrt(n)
    if beta is None:
        return gap
    if loss_range is None:
        raise ValueError("Expected loss_range together with beta, found None. Pass the length of the loss interval.")
    return gap + scale * math.sqrt(math.log(1 / beta) / (2 * n))


@dataclass(frozen=True)
class PhasedPlan:
    """Blocks nᵢ, step sizes ηᵢ and noises σᵢ of phased SGD, and the population bound `risk`."""

    risk: float
    blocks: tuple[int, ...]
    step_sizes: tuple[float, ...]
    noises: tuple[float, ...]


@theorem
def phased_sgd_plan(
    n: float,
    d: float,
    lipschitz: float,
    diameter: float,
    *,
    epsilon: float,
    delta: float,
    smoothness: float | None = None,
    relation: str = "replace-one",
    phases: float | None = None,
) -> PhasedPlan:
    """Phases i = 1..k: nᵢ = ⌊n/2ⁱ⌋ fresh records, ηᵢ = η4⁻ⁱ, one projected pass, average, add N(0, σᵢ²I), σᵢ = κLηᵢ/μ(ε,δ).

    k = `phases`; by default the number <= ⌊log₂n⌋ with the smallest bound (the paper takes all: ⌈log₂n⌉).
    **Bound** (derived here; the paper's constants are not needed). With w̄₀ = θ*, ‖θ₀-θ*‖ <= D and wᵢ = w̄ᵢ
    + ξᵢ: E F(w_k) - F* = Σᵢ E[F(w̄ᵢ) - F(w̄ᵢ₋₁)] + E[F(w_k) - F(w̄_k)] <= D²/(2η₁n₁) + Σ_{i≥2}
    dσᵢ₋₁²/(2ηᵢnᵢ) + Σᵢ ηᵢL²/2 + Lσ_k√d = A/η + Bη, least at η = √(A/B).
    **Privacy**: (ε, δ) under `relation`, because each record is in one phase, and one pass moves the averaged
    iterate by at most κLηᵢ: the changed record moves one step by κLηᵢ, and later steps do not push two iterates
    apart. The last half of the sentence needs convex, M-smooth losses and ηᵢ <= 2/M, so M = `smoothness` must be
    stated (0 for linear losses) and caps η at 8/M. Without smoothness it is false: with absolute losses later
    records can drive the two iterates 2η(√d-1) apart. Under add-remove n is nominal and an absent record is an
    empty step.

    >>> plan = phased_sgd_plan(1024, 10, 1, 1, epsilon=1, delta=1e-6, smoothness=1)
    >>> plan.blocks
    (512, 256, 128)
    """
    mu = gaussian_mu(epsilon, delta)
    if n < 2:
        raise ConditionError(f"Expected n >= 2 for one phase, found {n}. Pass more records.")
    if smoothness is None:
        raise ValueError(
            "Expected smoothness for phased SGD, found None: the noise is proven for M-smooth losses and steps <= 2/M only. "
            "Pass smoothness= (0 for linear losses)."
        )
    unit = relation_factor(relation) * lipschitz / mu  # σᵢ = unit · ηᵢ
    most = int(n).bit_length() - 1
    counts = range(1, most + 1) if phases is None else (int(phases),)
    if counts[-1] > most:
        raise ConditionError(f"Expected phases <= log2(n) = {most}, found {phases}. Pass fewer phases or more records.")
    plans = [_phased(int(n), d, lipschitz, diameter, unit, smoothness, k) for k in counts]
    return min(plans, key=lambda plan: plan.risk)


def _phased(n: int, d: float, lipschitz: float, reach: float, unit: float, smoothness: float, phases: int) -> PhasedPlan:
    blocks = tuple(n >> i for i in range(1, phases + 1))
    rates = [4.0**-i for i in range(1, phases + 1)]
    over = reach**2 / (2 * rates[0] * blocks[0])
    under = sum(rates) * lipschitz**2 / 2 + lipschitz * unit * rates[-1] * math.sqrt(d)
    for before, rate, block in zip(rates, rates[1:], blocks[1:]):
        under += d * (unit * before) ** 2 / (2 * rate * block)
    step = math.sqrt(over / under)
    if smoothness > 0:
        step = min(step, 8 / smoothness)  # η₁ = η/4 <= 2/M, and the later steps are shorter
    steps = tuple(step * rate for rate in rates)
    return PhasedPlan(over / step + under * step, blocks, steps, tuple(unit * eta for eta in steps))


@theorem
def phased_sgd_risk(
    n: float,
    d: float,
    lipschitz: float,
    diameter: float,
    *,
    epsilon: float,
    delta: float,
    smoothness: float | None = None,
    relation: str = "replace-one",
    as_printed: bool = False,
) -> float:
    """A/η + Bη of `phased_sgd_plan`, 2√(AB) unless M caps η; of the order LD(1/√n + √(d ln(1/δ))/(εn)).

    Excess *population* risk, in expectation, of phased SGD (Feldman, Koren and Talwar 2020) on convex, L-Lipschitz,
    M-smooth losses over a set of diameter D; `smoothness` M is a condition of the privacy proof (0: linear losses).
    `as_printed=True` returns the printed order with constant 1:
    a slope to draw, not a bound.

    >>> round(phased_sgd_risk(10**6, 50, 1, 1, epsilon=1, delta=1e-6, smoothness=1), 5)
    0.0017
    """
    if as_printed:
        printed_relation(relation)
        order = 1 / math.sqrt(n) + math.sqrt(d * math.log(1 / delta)) / (epsilon * n)
        return lipschitz * diameter * order
    return phased_sgd_plan(n, d, lipschitz, diameter, epsilon=epsilon, delta=delta, smoothness=smoothness, relation=relation).risk
