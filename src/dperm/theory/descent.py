"""Gradient descent, noisy and not: lectures 000, 002 and 004 on one potential argument.

One step θ⁺ = Π(θ - ηg̃), E[g̃] = g a subgradient of the mean risk: E‖θ⁺-θ*‖² <= E‖θ-θ*‖² - 2η(F(θ)-F*) +
η²E‖g̃‖². Sum over T steps, divide by 2ηT: average excess <= D²/(2ηT) + ηB²/2 with B² = L² + dσ², best at η =
D/(B√T): DB/√T. The iterates before each step, θ_0..θ_{T-1}, are averaged. σ is the noise on each coordinate
of the *mean* gradient.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dperm.privacy.gaussian import gaussian_epsilon, gaussian_mu
from dperm.theory.checks import printed_relation, relation_factor, theorem

NOISE_RULES = ("exact", "zcdp", "lecture-002", "lecture-004")


@dataclass(frozen=True)
class DescentPlan:
    """Public numbers of a run: the bound `risk`, `steps` T, `step_size` η and `noise` σ on the mean
    gradient.
    """

    risk: float
    steps: int
    step_size: float
    noise: float


@theorem
def gradient_noise(
    n: float,
    lipschitz: float,
    epsilon: float,
    delta: float,
    steps: float = 1,
    relation: str = "replace-one",
    rule: str = "exact",
) -> float:
    """σ = κL√T/(nμ(ε,δ)): noise on each coordinate of the mean gradient so that T steps are (ε, δ)-DP.

    `rule="zcdp"`: (κL/n)√(T/(2ρ)), ρ = (√(ε+ln(1/δ)) - √ln(1/δ))², a safe closed form. Two printed rules,
    for comparison only: `"lecture-002"` 2L√(T ln(1/δ))/(nε), false for typical ε (E24), and `"lecture-004"`
    L√(2T ln(1.25T/δ))/(nε), which uses the wrong sensitivity and the wrong composition (E14).
    `noise_epsilon` tells what each really gives.

    >>> round(gradient_noise(n=1, lipschitz=1, epsilon=1, delta=1e-6, relation="zero-out"), 6)
    4.224679
    """
    factor = relation_factor(relation)
    if rule == "exact":
        return factor * lipschitz * math.sqrt(steps) / (n * gaussian_mu(epsilon, delta))
    log_term = math.log(1 / delta)
    if rule == "zcdp":
        rho = (math.sqrt(epsilon + log_term) - math.sqrt(log_term)) ** 2
        return factor * lipschitz / n * math.sqrt(steps / (2 * rho))
    if rule not in NOISE_RULES:
        raise ValueError(f"Expected rule in {', '.join(NOISE_RULES)}, found {rule!r}. Pass one of them.")
    if rule == "lecture-002":
        return 2 * lipschitz * math.sqrt(steps * log_term) / (n * epsilon)
    return lipschitz * math.sqrt(2 * steps * math.log(1.25 * steps / delta)) / (n * epsilon)


@theorem
def noise_epsilon(
    n: float, lipschitz: float, noise: float, delta: float, steps: float = 1, relation: str = "replace-one"
) -> float:
    """ε(δ; μ), μ = √T κL/(nσ): the true ε of T noisy gradients, all released. Exact (C1.2).

    >>> claimed = gradient_noise(1, 1, epsilon=1, delta=1e-5, steps=100, rule="lecture-002")
    >>> round(noise_epsilon(1, 1, claimed, 1e-5, steps=100), 4)        # E24: claimed 1
    1.1099
    """
    mu = math.sqrt(steps) * relation_factor(relation) * lipschitz / (n * noise)
    return gaussian_epsilon(delta, mu)


@theorem
def projected_gradient_risk(
    steps: float | None = None,
    lipschitz: float = 1.0,
    diameter: float | None = None,
    *,
    radius: float | None = None,
    noise: float = 0.0,
    d: float | None = None,
    step_size: float | None = None,
    n: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    beta: float | None = None,
    relation: str = "replace-one",
    as_printed: bool = False,
) -> float:
    """D√(L² + dσ²)/√T; without noise LD/√T; with another `step_size` η: D²/(2ηT) + η(L² + dσ²)/2.

    Excess mean risk of the average of T projected (sub)gradient steps; L bounds the mean gradient, σ =
    `noise` per coordinate (needs `d`), D bounds ‖θ_0 - θ*‖: `diameter` of the set, or `radius` of a ball
    when θ_0 is its centre. With n, epsilon and delta the noise is the private one and this is
    `gradient_descent_risk`. Lecture 000 items 13, 19, lecture 004 item 5; erratum E15. `as_printed=True`:
    the slides' 2LD/√T, and with noise 2LD√(L² + dσ²)/√T with its stray factor L.

    >>> projected_gradient_risk(steps=100, lipschitz=2, diameter=1)
    0.2
    >>> projected_gradient_risk(steps=100, lipschitz=2, diameter=1, as_printed=True)
    0.4
    """
    if epsilon is not None:
        if n is None or d is None or delta is None or noise or as_printed or step_size is not None:
            raise ValueError(
                "Expected n, d and delta, and no noise, step_size or as_printed, together with epsilon. "
                "Pass either the noise itself, or the privacy target that fixes it."
            )
        return gradient_descent_risk(
            n, d, lipschitz, diameter,
            epsilon=epsilon, delta=delta, steps=steps, relation=relation, radius=radius, beta=beta,
        )  # fmt: skip
    if steps is None:
        raise ValueError("Expected steps, found None. Pass the number of gradient steps.")
    if beta is not None:
        raise ValueError("Expected beta only with a privacy target, found beta without epsilon. Pass epsilon and delta.")
    reach = _reach(diameter, radius)
    if noise > 0 and d is None:
        raise ValueError("Expected d together with noise, found None. Pass the dimension.")
    size = math.sqrt(lipschitz**2 + (d or 0) * noise**2)
    if as_printed:
        return 2 * lipschitz * reach * (size if noise > 0 else 1.0) / math.sqrt(steps)
    step = reach / (size * math.sqrt(steps)) if step_size is None else step_size
    return reach**2 / (2 * step * steps) + step * size**2 / 2


@theorem
def gradient_descent_risk(
    n: float,
    d: float,
    lipschitz: float,
    diameter: float | None = None,
    *,
    epsilon: float,
    delta: float,
    steps: float | None = None,
    relation: str = "replace-one",
    radius: float | None = None,
    strong_convexity: float | None = None,
    beta: float | None = None,
    as_printed: bool = False,
) -> float:
    """LD√(1/T + κ²d/(nμ)²), μ = μ(ε,δ);   `steps=None`: its limit κLD√d/(nμ) as T grows.

    Mean-scale excess empirical risk of the averaged iterate of T noisy full-gradient steps; convex losses,
    each L-Lipschitz (no clipping bias); D = `diameter` bounds ‖θ_0 - θ*‖ (`radius`: ball, start at its
    centre).
    **Guarantee**: in expectation; (ε, δ)-DP under `relation` with σ = κL√T/(nμ). `gradient_descent_plan`
    gives η and T.

    * `beta`: with probability ≥ 1-β, for projection on a set of diameter D; x = ln(3/β):
      D²/(2ηT) + (η/2)(L² + 2Lσ√(2x/T) + σ²(d + 2√(dx/T) + 2x/T)) + σD√(2x/T) at the η above: Azuma for the
      two martingales, Laurent–Massart for ‖Z‖². Limit: (κLD/(nμ))(√d + √(2x)).
    * `strong_convexity` λ̄ of the mean risk (then L must bound its gradient on the set): step 2/(λ̄(t+1)),
      weights ∝ t, 2L²(1 + Tκ²d/(nμ)²)/(λ̄(T+1)); limit 2d(κL)²/((nμ)²λ̄). D plays no role and may be left
      out.

    Lecture 000 items 18-20 (logistic on the box: L = √(d+1), d+1 weights), lecture 004 item 10; errata E14,
    E15, E29, E30. `as_printed=True` (needs `steps`): the slide's 2LD√(L² + dσ²)/√T, σ = L√(2T
    ln(1.25T/δ))/ε, over n.

    >>> round(gradient_descent_risk(10**4, 50, 1, 1, epsilon=1, delta=1e-6, relation="zero-out"), 10)   # C12
    0.0029872991
    >>> round(gradient_descent_risk(1000, 50, 1, 1, epsilon=1, delta=1e-6, steps=1000), 6)
    0.067599
    """
    ratio = relation_factor(relation) / (n * gaussian_mu(epsilon, delta))
    if strong_convexity is not None:
        if beta is not None or as_printed:
            raise ValueError("Expected no beta or as_printed with strong_convexity. Drop one of them.")
        return _strongly_convex(d, lipschitz, ratio, steps, strong_convexity)
    reach = _reach(diameter, radius)
    if as_printed:
        printed_relation(relation)
        if steps is None or beta is not None:
            raise ValueError("Expected steps and no beta with as_printed=True. Pass the number of steps.")
        sigma = gradient_noise(1, lipschitz, epsilon, delta, steps, rule="lecture-004")
        size = math.sqrt(lipschitz**2 + d * sigma**2)
        return 2 * lipschitz * reach * size / math.sqrt(steps) / n
    if beta is not None:
        across = reach if radius is None else 2 * reach  # an iterate may lie opposite to the minimiser
        return _high_probability(d, lipschitz, reach, across, ratio, steps, beta)
    floor = 0.0 if steps is None else 1 / steps
    return lipschitz * reach * math.sqrt(floor + d * ratio**2)


def _strongly_convex(d: float, lipschitz: float, ratio: float, steps: float | None, curvature: float) -> float:
    """2L²(1 + Td·ratio²)/(λ̄(T+1)), or its limit as T grows."""
    if steps is None:
        return 2 * d * (lipschitz * ratio) ** 2 / curvature
    return 2 * lipschitz**2 * (1 + steps * d * ratio**2) / (curvature * (steps + 1))


@theorem
def gradient_descent_plan(
    n: float,
    d: float,
    lipschitz: float,
    diameter: float | None = None,
    *,
    epsilon: float,
    delta: float,
    steps: float | None = None,
    relation: str = "replace-one",
    radius: float | None = None,
    slack: float = 0.05,
) -> DescentPlan:
    """η = D/√(T(L² + dσ²)); T the fewest steps whose bound is within a factor 1 + `slack` of the limit.

    1/T <= ((1+slack)² - 1)·κ²d/(nμ)², hence T = ⌈(nμ)²/(κ²d·((1+slack)²-1))⌉: more steps only bring the last
    `slack`.

    >>> plan = gradient_descent_plan(1000, 20, 1, 1, epsilon=1, delta=1e-6)
    >>> plan.steps, round(plan.risk, 5), round(plan.step_size, 5)
    (6833, 0.03968, 0.00369)
    """
    ratio = relation_factor(relation) / (n * gaussian_mu(epsilon, delta))
    if steps is None:
        grown = (1 + slack) ** 2 - 1
        steps = math.ceil(1 / (grown * d * ratio**2))
    risk = gradient_descent_risk(
        n, d, lipschitz, diameter, epsilon=epsilon, delta=delta, steps=steps, relation=relation, radius=radius
    )
    noise = gradient_noise(n, lipschitz, epsilon, delta, steps, relation)
    step = _reach(diameter, radius) / math.sqrt(steps * (lipschitz**2 + d * noise**2))
    return DescentPlan(risk=risk, steps=int(steps), step_size=step, noise=noise)


def _high_probability(
    d: float, lipschitz: float, reach: float, across: float, ratio: float, steps: float | None, beta: float
) -> float:
    x = math.log(3 / beta)
    if steps is None:
        return lipschitz * ratio * (reach * math.sqrt(d) + across * math.sqrt(2 * x))
    sigma = lipschitz * ratio * math.sqrt(steps)
    step = reach / math.sqrt(steps * (lipschitz**2 + d * sigma**2))
    cross = 2 * lipschitz * sigma * math.sqrt(2 * x / steps)
    square = sigma**2 * (d + 2 * math.sqrt(d * x / steps) + 2 * x / steps)
    drift = sigma * across * math.sqrt(2 * x / steps)
    return reach**2 / (2 * step * steps) + step / 2 * (lipschitz**2 + cross + square) + drift


def _reach(diameter: float | None, radius: float | None) -> float:
    """D: a bound on the distance from the start to the minimiser."""
    if (radius is None) == (diameter is None):
        raise ValueError(
            f"Expected exactly one of diameter and radius, found diameter={diameter}, radius={radius}. "
            "Pass a bound on the distance from the start to the minimiser."
        )
    return diameter if diameter is not None else radius or 0.0
