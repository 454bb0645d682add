"""Last-iterate ("hidden state") accounting of noisy projected gradient descent.

    θ_{k+1} = Π_C(θ_k − η(ḡ(θ_k) + Z_k)),   Z_k ~ N(0, σ²I),   k = 0, …, T−1,   only θ_T is released.

**Theorem** (Bok, Su and Altschuler 2024; the argument below is self-contained). Let every objective be
convex, M-smooth and m-strongly convex (m ≥ 0), C closed and convex, η ≤ 2/M, and let ḡ have sensitivity s
at every fixed θ. Put c = max(|1−ηm|, |1−ηM|) ≤ 1 and Δ = ηs. Then θ_T is μ-GDP with

    μ² = (ησ)⁻² · min{ F(T; 0), min_{1≤j≤T} F(j; D) },   D = diam(C),
    F(j; D₀) = (c^j D₀ + Δ(1−c^j)/(1−c))² (1−c²)/(1−c^{2j})     (c < 1),     (D₀ + jΔ)²/j     (c = 1).

*Proof.* Let θ and θ' be the two runs with the same start. Go back j steps; there ‖θ − θ'‖ ≤ D₀ (D₀ = D
for any j; D₀ = 0 for j = T). Follow from θ' a third run θ̃ that uses the noise of the primed run moved by
a vector of length a_k, chosen so that θ̃ reaches θ at step T. A gradient step of a convex M-smooth
function with η ≤ 2/M, followed by a projection, is c-Lipschitz, and the two gradients differ by at most
s, so the distance z_k left to cover obeys z_{k+1} + a_{k+1} = c·z_k + Δ with z = D₀ at the start and z =
0 at the end. Moving noise N(0, (ησ)²I) by a_k is (a_k/(ησ))-GDP, adaptively, and so the run costs
Σa_k²/(ησ)². The constraint reads Σ c^{j−k} a_k = c^j D₀ + Δ(1−c^j)/(1−c); by Cauchy–Schwarz the cheapest
a_k are proportional to c^{j−k} and give F(j; D₀). ∎ Quadratics with F(T; 0) attain it.

Not covered: averages of iterates, momentum, data-dependent stopping or step sizes, intermediate losses,
clipped gradients that are not those of a convex smooth loss (clipped GLMs with scalar margins are).
"""

from __future__ import annotations

import math

import numpy as np

from dperm.privacy.checks import non_negative, positive, whole

# Beyond this many steps F(j; D) is scanned on a geometric grid: every j is a valid bound.
_ENUMERATED = 1_000_000


def _forgetting(j: float, start: float, drift: float, contraction: float) -> float:
    """F(j; D₀) of the module's theorem, for j ≥ 1 or j = ∞."""
    if contraction == 1:
        return (start + j * drift) ** 2 / j if math.isfinite(j) else math.inf
    power = contraction**j
    log_power = j * math.log(contraction) if contraction > 0 else -math.inf
    reached = power * start if power > 0 else 0.0  # c^j·D₀ → 0 even when D₀ is infinite only if j is
    reached -= drift * math.expm1(log_power) / (1 - contraction)
    return reached**2 * (1 - contraction**2) / -math.expm1(2 * log_power)


def hidden_state_mu(
    steps: float,
    step_size: float,
    noise: float,
    sensitivity: float,
    smoothness: float,
    strong_convexity: float = 0.0,
    diameter: float = math.inf,
) -> float:
    """μ = (ησ)⁻¹·√min{F(T; 0), min_j F(j; D)}, at most the composition bound √T·s/σ: the cost of the last iterate.

    `noise` σ and `sensitivity` s are on the scale of the gradient that the step uses (both sums or both
    means), as are `smoothness` M and `strong_convexity` m of that objective. `steps` may be ∞.

    **Guarantee.** θ_T is μ-GDP for the relation that defines s, under the conditions of the module's
    theorem: M must be a data-independent bound, only the last iterate is released, plain projected steps
    with fixed η ≤ 2/M (checked).

    >>> round(hidden_state_mu(10_000, 0.5, 0.05, 0.002, smoothness=1.0, diameter=1.0), 10)
    2.5298221281
    """
    if steps != math.inf:
        steps = whole("steps", int(steps) if steps == steps // 1 else 0)
    step_size = positive("step_size", step_size)
    noise = positive("noise", noise)
    sensitivity = non_negative("sensitivity", sensitivity)
    smoothness = positive("smoothness", smoothness)
    strong_convexity = non_negative("strong_convexity", strong_convexity)
    diameter = non_negative("diameter", diameter, infinite=True)
    if strong_convexity > smoothness:
        raise ValueError(
            f"Expected strong_convexity <= smoothness = {smoothness}, found {strong_convexity}. Check both constants."
        )
    if step_size * smoothness > 2 * (1 + 1e-12):
        raise ValueError(
            f"Expected step_size <= 2/smoothness = {2 / smoothness}, found {step_size}. "
            "Use a smaller step, or account for every iterate by composition."
        )
    contraction = max(abs(1 - step_size * strong_convexity), abs(1 - step_size * smoothness))
    contraction = min(1.0, contraction)  # ηM = 2 up to rounding
    drift = step_size * sensitivity
    best = _forgetting(steps, 0.0, drift, contraction)
    if math.isfinite(diameter):
        for j in _candidates(steps, diameter, drift):
            best = min(best, _forgetting(j, diameter, drift, contraction))
        if contraction < 1:
            best = min(best, _scan(steps, diameter, drift, contraction))
    composition = steps * drift**2
    return math.sqrt(min(best, composition)) / (step_size * noise)


def _candidates(steps: float, diameter: float, drift: float) -> list[float]:
    """Minimisers of (D + jΔ)²/j among whole j ≤ T: the neighbours of D/Δ, and the ends."""
    ideal = diameter / drift if drift > 0 else math.inf
    near = [float(math.floor(ideal)), float(math.ceil(ideal))] if math.isfinite(ideal) else []
    return [1.0, float(steps), *(float(j) for j in near if 1 <= j <= steps)]


def _scan(steps: float, diameter: float, drift: float, contraction: float) -> float:
    """min_j F(j; D) for c < 1: every j up to a million, a geometric grid beyond."""
    top = min(float(steps), 1e15)
    j = np.arange(1, min(top, _ENUMERATED) + 1, dtype=np.float64)
    if top > _ENUMERATED:
        j = np.concatenate([j, np.floor(np.geomspace(_ENUMERATED, top, 10_000))])
    with np.errstate(divide="ignore", under="ignore"):
        log_power = j * np.log(contraction)
        reached = np.exp(log_power) * diameter - drift * np.expm1(log_power) / (1 - contraction)
        return float(np.min(reached**2 * (1 - contraction**2) / -np.expm1(2 * log_power)))
