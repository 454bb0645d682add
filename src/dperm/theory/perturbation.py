"""Output and objective perturbation (lecture 004): predicted excess risk on the mean scale.

Both theorems rest on strong convexity. `strong_convexity` is always that of the *mean* objective, λ̄ = λ/n
for a ridge (λ/2)‖θ‖² added to the sum (erratum E2: say which function is strongly convex).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaincinv

from dperm.privacy.gaussian import gaussian_delta, gaussian_mu
from dperm.theory.checks import ConditionError, printed_relation, relation_factor, theorem


@theorem
def output_sensitivity(
    n: float, lipschitz: float, strong_convexity: float, relation: str = "replace-one", tolerance: float = 0.0
) -> float:
    """S = κL/(nλ̄) + 2τ/λ̄: how far one record moves the minimiser of a λ̄-strongly convex mean objective.

    L = `lipschitz` bounds each record's gradient; τ = `tolerance` bounds the mean gradient's norm at the
    solver's exit. Proof: λ‖θ-θ'‖² <= ⟨∇F_D(θ') - ∇F_{D'}(θ'), θ'-θ⟩ <= κL‖θ-θ'‖ from the two variational
    inequalities. Tight for linear losses. Lecture 004 item 8, errata E1, E2 (the slide's function-value
    route gives twice as much); C3.

    >>> output_sensitivity(n=1000, lipschitz=1, strong_convexity=0.01)
    0.2
    >>> round(output_sensitivity(1000, 1, 0.01, tolerance=1e-6), 4)
    0.2002
    """
    return relation_factor(relation) * lipschitz / (n * strong_convexity) + 2 * tolerance / strong_convexity


@theorem
def output_perturbation_risk(
    n: float,
    d: float,
    lipschitz: float,
    strong_convexity: float | None = None,
    *,
    epsilon: float,
    delta: float | None = None,
    smoothness: float | None = None,
    radius: float | None = None,
    beta: float | None = None,
    relation: str = "replace-one",
    as_printed: bool = False,
) -> float:
    """L·E‖b‖ = κL²d/(nλ̄ε);   with `smoothness` M̄: (M̄/2)·E‖b‖² = (M̄/2)·d(d+1)(κL/(nλ̄ε))².

    Mean-scale excess empirical risk of θ* + b, density of b ∝ exp(-(ε/S)‖b‖) on all of R^d, S = κL/(nλ̄).
    **Guarantee** (ε-DP under `relation`; with `delta`, Gaussian noise S/μ(ε,δ), so E‖b‖ <= √d·S/μ and E‖b‖²
    = d(S/μ)²):

    * first form: the mean objective is λ̄-strongly convex and L-Lipschitz where the result lies (project
      it onto C: free);
    * with `smoothness`: the mean objective is M̄-smooth and its minimiser interior; quadratic in 1/n, no
      projection;
    * with `radius` ‖θ*‖ <= B: the strong convexity comes from an added ridge, the excess is that of the
      risk *without* it, and the bias λ̄B²/2 is added. `strong_convexity=None` then takes the best ridge;
      pure: LB√(2κd/(nε)).
    * with `beta`: holds with probability ≥ 1-β, ‖b‖ replaced by its exact quantile (Gamma(d), or χ_d).

    Lecture 004 item 8; errata E1, E3, E5. `as_printed=True` is the slide's inverted λ̄d/(Lε).

    >>> output_perturbation_risk(n=1000, d=5, lipschitz=1, strong_convexity=0.01, epsilon=1)
    1.0
    >>> round(output_perturbation_risk(10**6, 5, 1, 0.01, epsilon=1, smoothness=0.25), 10)
    1.5e-07
    >>> round(output_perturbation_risk(10**4, 10, 1, epsilon=1, radius=1), 6)
    0.063246
    """
    if as_printed:
        printed_relation(relation)
        return _needed(strong_convexity) * d / (lipschitz * epsilon)
    first, second = _norm_moments(d, epsilon, delta, beta)

    def risk(curvature: float) -> float:
        scale = output_sensitivity(n, lipschitz, curvature, relation)
        if smoothness is None:
            return lipschitz * first * scale + _bias(curvature, radius)
        # an added ridge (radius given) counts towards the smoothness of what is perturbed
        total = smoothness + (0.0 if radius is None else curvature)
        return total / 2 * second * scale**2 + _bias(curvature, radius)

    if strong_convexity is None:
        return _best_ridge(risk, radius, lipschitz, least=0.0)
    if smoothness is not None and radius is None and smoothness < strong_convexity:
        raise ValueError(
            f"Expected smoothness >= strong_convexity, found {smoothness} < {strong_convexity}. Pass both for the same mean "
            "objective."
        )
    return risk(strong_convexity)


@theorem
def objective_perturbation_risk(
    n: float,
    d: float,
    lipschitz: float,
    strong_convexity: float | None = None,
    *,
    epsilon: float,
    delta: float | None = None,
    smoothness: float | None = None,
    self_bounding: float | None = None,
    radius: float | None = None,
    beta: float | None = None,
    relation: str = "replace-one",
    as_printed: bool = False,
) -> float:
    """E‖w‖²/(2n²λ̄) = d(d+1)(κL)²/(2n²λ̄ε'²), ε' = ε - ln(1 + M/(nλ̄)).

    Mean-scale excess of the regularised empirical risk of argmin Σℓ + (nλ̄/2)‖θ‖² + ⟨w, θ⟩, w ∝
    exp(-(ε'/(κL))‖w‖). M = `smoothness` of one record's loss (default L²/4, which is logistic's M = R²/4 at
    L = R); generalised linear, twice differentiable losses; θ unconstrained; λ̄ covers every direction,
    intercept included (erratum E12).
    **Guarantee** (ε-DP under `relation`): with F λ-strongly convex, F(θ̂) - F* <= ‖∇F(θ̂)‖²/(2λ) =
    ‖w‖²/(2λ), so the bound is exact up to the shape of F (equality for linear losses).

    * `delta`: Gaussian noise of standard deviation `objective_noise(...)`, E‖w‖² = dσ².
    * `self_bounding` C (logistic: 1, softplus-hinge of width h: 1/h): when nλ̄ ≥ κC L²/ε the
      log-determinant is free, ε' = ε; replace-one with `delta` takes the better of two bounds at every λ̄.
    * `radius` ‖θ*‖ <= B: excess of the risk *without* the ridge, λ̄B²/2 added; `strong_convexity=None`
      takes the best λ̄.
    * `beta`: with probability ≥ 1-β, by the exact quantile of ‖w‖.

    Lecture 004 item 9; errata E9-E13, C4.1, C4.2. `as_printed=True` is the slide's Ld/(ελ)/n with λ = nλ̄.

    >>> round(objective_perturbation_risk(10**4, 10, 1, 0.01, epsilon=1, self_bounding=1), 6)
    0.00022
    >>> 2 * 10 * 11 / (1e4**2 * 0.01)
    0.00022
    """
    curvature_of_loss = lipschitz**2 / 4 if smoothness is None else smoothness
    if as_printed:
        printed_relation(relation)
        return lipschitz * d / (epsilon * n * _needed(strong_convexity)) / n
    _, second = _norm_moments(d, 1.0, None if delta is None else 0.0, beta)

    def risk(curvature: float) -> float:
        scale = objective_noise(
            n, lipschitz, curvature, epsilon, delta,
            smoothness=curvature_of_loss, self_bounding=self_bounding, relation=relation,
        )  # fmt: skip
        return second * scale**2 / (2 * n * n * curvature) + _bias(curvature, radius)

    if strong_convexity is None:
        # below this ridge ε' <= 0: the whole budget would go to the determinant
        least = curvature_of_loss / (n * math.expm1(epsilon))
        # C4.2 switches on at this ridge: the risk jumps down there, so it is searched on both sides
        switch = None if self_bounding is None else relation_factor(relation) * self_bounding * lipschitz**2 / epsilon / n
        return _best_ridge(risk, radius, lipschitz, least, switch)
    return risk(strong_convexity)


@theorem
def objective_noise(
    n: float,
    lipschitz: float,
    strong_convexity: float,
    epsilon: float,
    delta: float | None = None,
    *,
    smoothness: float | None = None,
    self_bounding: float | None = None,
    relation: str = "replace-one",
) -> float:
    """Pure: κL/ε'.   Gaussian, add/remove: smallest σ with 2δ_G(ε-t; L/σ) <= δ, t = ln(1 + M/λ), λ = nλ̄.

    The scale of the objective's noise on the sum scale: of the Gamma norm (pure) or of each Gaussian
    coordinate. Replace-one, Gaussian: 2δ_G(ε-t; 2L/σ) + 2δ_G(ε-t; √2L/σ) <= δ. Proof: the log-determinant is
    <= t (erratum E11); the Gaussian part of the loss is convex in the record's slopes (a, a'), so it is
    largest at a vertex v = ±x ± x', and ‖x+x'‖² + ‖x-x'‖² <= 4L²: one pair of vertices has norm <= 2L, the
    other <= √2L; sum over vertices.

    With `self_bounding` C: pure κL/ε and add/remove Gaussian L/μ(ε,δ), both once λ ≥ κCL²/ε; replace-one Gaussian
    the smaller of the bounds (a) and (b) of Theorem 2 (docs/theorems/objective.md), as the mechanism takes it, for
    every λ. With D = L/σ and K = (CL²/λ - D²/2)₊:

        (a)  δ_G(ε-o; 2D) + 2δ_G(ε-o; D),  o = min(K/4, ln(1 + CL²/(4λ))), for ε ≥ o
        (b)  δ_G(ε; 2D) + δ_G(ε; D) + δ_G(ε-K; D), for ε ≥ K

    >>> round(objective_noise(1000, 1, 0.001, 1, 1e-6, self_bounding=1, relation="zero-out"), 4)
    4.2247
    >>> round(objective_noise(1000, 1, 0.0025, 1, 1e-6, self_bounding=1), 3)   # replace-one, λ = 2.5; the floor is 8.449
    8.451
    >>> round(objective_noise(1000, 1, 0.002, 1, self_bounding=1), 4)
    2.0
    """
    factor = relation_factor(relation)
    ridge = n * strong_convexity
    loss_curvature = lipschitz**2 / 4 if smoothness is None else smoothness
    strength = None if self_bounding is None else self_bounding * lipschitz**2 / ridge
    free = strength is not None and strength * factor <= epsilon * (1 + 1e-12)  # the threshold counts in spite of rounding
    if free and (delta is None or factor == 1):
        return lipschitz * (factor / epsilon if delta is None else 1 / gaussian_mu(epsilon, delta))
    left = epsilon - math.log1p(loss_curvature / ridge)
    sharper = math.inf if strength is None or delta is None or factor == 1 else _replaced_noise(epsilon, delta, strength)
    if left <= 0 and math.isinf(sharper):
        raise ConditionError(
            f"Expected ln(1 + M/(n*strong_convexity)) < epsilon, found {epsilon - left:g} >= {epsilon:g}. "
            "Raise n or strong_convexity: the determinant takes the whole budget."
        )
    if left <= 0:
        return lipschitz * sharper
    if delta is None:
        return factor * lipschitz / left
    if factor == 1:
        return lipschitz / gaussian_mu(left, delta / 2)
    return lipschitz * min(_vertices_noise(left, delta), sharper)


def _vertices_noise(epsilon: float, delta: float) -> float:
    """The smallest σ/L with 2δ_G(ε; 2L/σ) + 2δ_G(ε; √2L/σ) <= δ."""

    def excess(sigma: float) -> float:
        total = gaussian_delta(epsilon, 2 / sigma) + gaussian_delta(epsilon, math.sqrt(2) / sigma)
        return math.log(2 * total) - math.log(delta)

    # with the second term set to 0, resp. equal to the first, the root is 2L/μ at δ/2, resp. δ/4
    low, high = 2 / gaussian_mu(epsilon, delta / 2), 2 / gaussian_mu(epsilon, delta / 4)
    return float(brentq(excess, low * (1 - 1e-9), high * (1 + 1e-9), xtol=1e-14 * high))


def _replaced_noise(epsilon: float, delta: float, strength: float) -> float:
    """σ/L of Theorem 2, the smaller of (a) and (b); `strength` = CL²/λ. Infinite where ε does not cover the determinant."""

    def bound(sigma: float) -> float:
        shift = 1 / sigma
        rest = max(0.0, strength - shift**2 / 2)
        offset = min(rest / 4, math.log1p(strength / 4))
        spread = two = math.inf
        if epsilon > offset:
            left = epsilon - offset
            spread = gaussian_delta(left, 2 * shift) + 2 * gaussian_delta(left, shift)
        if epsilon > rest:
            two = gaussian_delta(epsilon, 2 * shift) + gaussian_delta(epsilon, shift) + gaussian_delta(epsilon - rest, shift)
        return min(spread, two)

    if math.log1p(strength / 4) >= epsilon:
        return math.inf
    low = high = 2 / gaussian_mu(epsilon, delta)  # a change of 2L released once: nothing can need less
    while bound(high) > delta:
        low, high = high, 2 * high
    if low == high:
        return low
    return float(brentq(lambda sigma: math.log(bound(sigma) / delta), low, high, xtol=1e-14 * high))


def _norm_moments(d: float, epsilon: float, delta: float | None, beta: float | None) -> tuple[float, float]:
    """(E‖b‖, E‖b‖²) per unit of sensitivity, or the (1-β)-quantile and its square.

    `delta=0.0` stands for a standard normal vector whose scale the caller multiplies in.
    """
    if delta is None:
        norm = d if beta is None else float(gammaincinv(d, 1 - beta))
        square = d * (d + 1) if beta is None else norm**2
        return norm / epsilon, square / epsilon**2
    mu = 1.0 if delta == 0.0 else gaussian_mu(epsilon, delta)
    square = d if beta is None else 2 * float(gammaincinv(d / 2, 1 - beta))
    return math.sqrt(square) / mu, square / mu**2


def _needed(strong_convexity: float | None) -> float:
    if strong_convexity is None:
        raise ValueError("Expected strong_convexity with as_printed=True, found None. Pass the mean-scale constant.")
    return strong_convexity


def _bias(curvature: float, radius: float | None) -> float:
    return 0.0 if radius is None else curvature * radius**2 / 2


def _best_ridge(
    risk: Callable[[float], float], radius: float | None, lipschitz: float, least: float, switch: float | None = None
) -> float:
    """Minimise over the ridge on a logarithmic scale; noise falls and bias grows with it: one minimum per
    piece.
    """
    if radius is None:
        raise ValueError(
            "Expected strong_convexity or radius, found neither. Pass the mean-scale strong convexity, "
            "or radius= (a bound on the minimiser's norm) to let the best ridge be chosen."
        )
    # a ridge above 2L/B has a bias above L·B, worse than answering without looking at the data
    top = math.log(4 * lipschitz / radius)
    bottom = math.log(least * (1 + 1e-9)) if least > 0 else top - 60.0
    ends = [bottom, top] if switch is None else [bottom, math.log(switch), top]
    found = []
    for low, high in [piece for piece in itertools.pairwise(ends) if piece[0] < piece[1]]:
        best = minimize_scalar(
            lambda t: math.log(risk(math.exp(t))),
            bounds=(low, high),
            method="bounded",
            options={"xatol": 1e-6},  # any ridge gives a valid bound, and near the best one the bound moves by its square
        )
        found.append(risk(math.exp(float(best.x))))
    if switch is not None:
        found.append(risk(switch))
    if not found:
        raise ConditionError("Expected room for a ridge below 4 L/radius, found none at this n and epsilon. Raise n or epsilon.")
    return min(found)
