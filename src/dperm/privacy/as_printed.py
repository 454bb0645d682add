"""Noise levels exactly as two lectures print them, with what they really cost. Refused by default.

Both claim (ε, δ)-DP for T steps of noisy gradient descent and are wrong under replace-one for common
targets. They exist to be compared with the exact calibration σ = κL√T/μ(ε, δ), never to be used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from dperm.privacy.checks import positive, probability, whole
from dperm.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from dperm.privacy.relations import RELATIONS, kappa


@dataclass(frozen=True)
class AsPrinted:
    """A printed σ, the target it claims, and per relation the exact μ, ε at δ, δ at ε and the σ that
    would be right.
    """

    sigma: float
    epsilon: float
    delta: float
    true_mu: dict[str, float] = field(default_factory=dict)
    true_epsilon: dict[str, float] = field(default_factory=dict)
    true_delta: dict[str, float] = field(default_factory=dict)
    correct_sigma: dict[str, float] = field(default_factory=dict)


def _judge(sigma: float, steps: int, gradient_bound: float, epsilon: float, delta: float) -> AsPrinted:
    """T Gaussian releases of sensitivity κ·bound with noise σ are exactly (√T·κ·bound/σ)-GDP."""
    mu = {relation: math.sqrt(steps) * kappa(relation) * gradient_bound / sigma for relation in RELATIONS}
    budget = gaussian_mu(epsilon, delta)
    return AsPrinted(
        sigma,
        epsilon,
        delta,
        true_mu=mu,
        true_epsilon={relation: gaussian_epsilon(delta, value) for relation, value in mu.items()},
        true_delta={relation: gaussian_delta(epsilon, value) for relation, value in mu.items()},
        correct_sigma={relation: sigma * value / budget for relation, value in mu.items()},
    )


def _target(epsilon: float, delta: float, accept_known_error: bool, name: str) -> tuple[float, float]:
    if not accept_known_error:
        raise ValueError(
            f"Expected accept_known_error=True for {name}, found {accept_known_error}. "
            "This calibration is printed in a lecture and its privacy claim is false; "
            "use gaussian_mu(epsilon, delta) instead."
        )
    epsilon, delta = positive("epsilon", epsilon), probability("delta", delta)
    if not 0 < delta < 1:
        raise ValueError(f"Expected delta in (0, 1), found {delta}. Pass e.g. delta=1e-5.")
    return epsilon, delta


def slides_sigma(
    epsilon: float, delta: float, steps: int, lipschitz: float = 1.0, *, accept_known_error: bool = False
) -> AsPrinted:
    """σ = L√(2T ln(1.25T/δ))/ε, on the gradient *sum*, as the slides print it.

    Two errors: the sensitivity of the sum is 2L under the slides' own relation, and T runs of (ε/√T,
    δ/T)-DP do not compose to (ε, δ). **No guarantee**: see `true_epsilon`.

    >>> printed = slides_sigma(1.0, 1e-5, 100, accept_known_error=True)
    >>> round(printed.true_epsilon["replace-one"], 3), round(printed.true_epsilon["zero-out"], 3)
    (1.341, 0.627)
    """
    epsilon, delta = _target(epsilon, delta, accept_known_error, "slides_sigma")
    steps, lipschitz = whole("steps", steps), positive("lipschitz", lipschitz)
    sigma = lipschitz * math.sqrt(2 * steps * math.log(1.25 * steps / delta)) / epsilon
    return _judge(sigma, steps, lipschitz, epsilon, delta)


def claim_sigma(
    epsilon: float, delta: float, steps: int, rows: int = 1, lipschitz: float = 1.0, *, accept_known_error: bool = False
) -> AsPrinted:
    """σ = 2L√(T ln(1/δ))/(nε), on the gradient *mean*, as the claim prints it: μ = ε/√ln(1/δ) under replace-one.

    **No guarantee** under replace-one beyond small ε; valid and wasteful under zero-out and add-remove
    while ε ≤ 2.34·ln(1/δ).

    >>> printed = claim_sigma(1.0, 1e-5, 100, rows=1000, accept_known_error=True)
    >>> round(printed.true_epsilon["replace-one"], 4), round(printed.true_epsilon["add-remove"], 3)
    (1.1099, 0.52)
    """
    epsilon, delta = _target(epsilon, delta, accept_known_error, "claim_sigma")
    steps, rows, lipschitz = whole("steps", steps), whole("rows", rows), positive("lipschitz", lipschitz)
    sigma = 2 * lipschitz * math.sqrt(steps * math.log(1 / delta)) / (rows * epsilon)
    return _judge(sigma, steps, lipschitz / rows, epsilon, delta)
