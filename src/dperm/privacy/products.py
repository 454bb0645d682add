"""Composed guarantees: the exact product of Gaussian and (ε, δ) releases, and the best of several routes."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dperm.privacy.checks import non_negative, probability, whole
from dperm.privacy.gaussian import FloatArray, gaussian_epsilon
from dperm.privacy.guarantees import Guarantee, PureDP
from dperm.privacy.objective_loss import hockey_stick

LARGEST_SUPPORT = 2048
_ROUNDING = 1e-11  # relative error of the binomial weights (log-gamma at 2048 terms) with two digits of room


def support_size(responses: Sequence[tuple[float, int]]) -> int:
    """Number of points of the loss distribution of those randomised responses.

    >>> support_size([(0.1, 10), (0.3, 1)])
    22
    """
    return math.prod(count + 1 for _, count in responses)


@functools.lru_cache(maxsize=64)
def _loss_law(responses: tuple[tuple[float, int], ...]) -> tuple[FloatArray, FloatArray]:
    """Losses and probabilities of independent randomised responses: ε·(2·Binomial(count, e^ε/(1+e^ε)) − count)."""
    from scipy.special import gammaln

    losses, logs = np.zeros(1), np.zeros(1)
    for epsilon, count in responses:
        heads = np.arange(count + 1, dtype=np.float64)
        log_p = -math.log1p(math.exp(-epsilon))
        log_binomial = gammaln(count + 1.0) - gammaln(heads + 1) - gammaln(count - heads + 1)
        law = log_binomial + count * log_p - (count - heads) * epsilon
        losses = np.add.outer(losses, epsilon * (2 * heads - count)).ravel()
        logs = np.add.outer(logs, law).ravel()
    return losses, np.exp(logs)


@dataclass(frozen=True, init=False, repr=False)
class ProductDP(Guarantee):
    """μ-GDP composed with randomised responses (ε_i, count_i) and a probability `broken` of revealing
    everything.

        δ(ε) = b + (1 − b)·E_L[δ_G(ε − L; μ)],   L = Σ ±ε_i,   δ_G(−e; μ) = 1 − e^{−e}(1 − δ_G(e; μ)).

    **Guarantee.** N(0,1)/N(μ,1) dominates every μ-GDP release and randomised response every ε-DP one,
    adaptively; the hockey-stick divergence of a product of pairs is the expectation above, exactly. No
    grid and no transform, so it holds for δ as small as 1e-300. The sum is enlarged by a relative 1e-11
    for rounding.

    >>> ProductDP(0.0, [(0.5, 4)], 0.0, "replace-one").epsilon(0.0)
    2.0
    """

    kind: ClassVar[str] = "product"
    mu: float
    responses: tuple[tuple[float, int], ...]
    broken: float

    def __init__(self, mu: float, responses: Sequence[tuple[float, int]], broken: float, relation: str) -> None:
        merged: dict[float, int] = {}
        for epsilon, count in responses:
            value = non_negative("epsilon", epsilon)
            merged[value] = merged.get(value, 0) + whole("count", count)
        merged.pop(0.0, None)
        listed, broken = tuple(sorted(merged.items())), probability("broken", broken)
        self._set(relation, mu=non_negative("mu", mu), responses=listed, broken=broken)

    def _total(self) -> float:
        return math.fsum(epsilon * count for epsilon, count in self.responses)

    def delta(self, epsilon: float) -> float:
        epsilon = non_negative("epsilon", epsilon, infinite=True)
        if math.isinf(epsilon) or (self.mu == 0 and epsilon >= self._total()):
            return self.broken
        losses, weights = _loss_law(self.responses)
        mean = min(1.0, float(weights @ hockey_stick(epsilon - losses, self.mu)) * (1 + _ROUNDING))
        return self.broken + (1 - self.broken) * mean

    def epsilon(self, delta: float) -> float:
        delta = probability("delta", delta)
        if delta < self.broken:
            return math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        spare = (delta - self.broken) / (1 - self.broken)
        # δ(ε) ≤ δ_G(ε − Σε_i; μ) closes the bracket; `high` always satisfies the target and is what is returned.
        low, high = 0.0, self._total() + gaussian_epsilon(spare / (1 + 1e-9), self.mu)
        if math.isinf(high):
            return math.inf
        for _ in range(200):
            middle = low + (high - low) / 2
            if high - low <= 1e-13 * high or middle in (low, high):
                break
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high

    def gdp(self) -> float | None:
        if self.broken > 0:
            return None
        parts = [count * PureDP(epsilon, self.relation).gdp() ** 2 for epsilon, count in self.responses]
        return math.sqrt(math.fsum([self.mu**2, *parts]))

    def zcdp(self) -> float | None:
        if self.broken > 0:
            return None
        parts = [count * epsilon * math.tanh(epsilon / 2) for epsilon, count in self.responses]
        return math.fsum([self.mu**2 / 2, *parts])


@dataclass(frozen=True, init=False, repr=False)
class Composed(Guarantee):
    """Several guarantees proven for the same releases: at every (ε, δ) the best one counts.

    >>> Composed([PureDP(1.0, "zero-out"), PureDP(2.0, "zero-out")]).epsilon(0.0)
    1.0
    """

    kind: ClassVar[str] = "composed"
    routes: tuple[Guarantee, ...]

    def __init__(self, routes: Sequence[Guarantee]) -> None:
        relations = {route.relation for route in routes}
        if len(relations) != 1:
            raise ValueError(f"Expected routes for one relation, found {sorted(relations)}. Convert with `under`.")
        self._set(relations.pop(), routes=tuple(routes))

    def delta(self, epsilon: float) -> float:
        return min(route.delta(epsilon) for route in self.routes)

    def epsilon(self, delta: float) -> float:
        return min(route.epsilon(delta) for route in self.routes)

    def gdp(self) -> float | None:
        return min((mu for mu in (route.gdp() for route in self.routes) if mu is not None), default=None)

    def zcdp(self) -> float | None:
        return min((rho for rho in (route.zcdp() for route in self.routes) if rho is not None), default=None)

    def rdp(self, alpha: float) -> float:
        return min(route.rdp(alpha) for route in self.routes)

    def _two_steps(self) -> Guarantee | None:
        converted = [two for two in (route._two_steps() for route in self.routes) if two is not None]
        return Composed(converted) if converted else None

    def _follows_from(self, own: Guarantee) -> bool:
        return own is self or all(route._follows_from(own) for route in self.routes)
