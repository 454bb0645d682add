"""Publishing the best of K private runs, as an event of its own: it has a Rényi curve and nothing simpler.

    ε'(α) of `dperm.privacy.selection`, for a μ-GDP run (fit and score together) and a named law of K

A ledger pays for it by the Rényi filter. Alone, or beside Gaussian releases, `compose` converts the sum of the curves.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar

from dperm.privacy.checks import non_negative, probability
from dperm.privacy.conversions import minimize_order, rdp_epsilon, rdp_log_delta
from dperm.privacy.events import Event, register_event
from dperm.privacy.guarantees import GDP, Guarantee
from dperm.privacy.relations import check_relation
from dperm.privacy.selection import law_of


@register_event
@dataclass(frozen=True)
class SelectionEvent(Event):
    """The best of K runs, each μ-GDP, K secret and from the law `runs` with mean `expected`.

    **Guarantee.** (α, ε'(α))-RDP for every α > 1, if each run, score included, is μ-GDP whatever setting it drew, runs are
    independent given the data, and of K and the other runs nothing is published.

    >>> SelectionEvent(0.1, "geometric", 10.0).rdp(5.0) > 5.0 * 0.1**2 / 2  # that of one run
    True
    """

    mu: float
    runs: str
    expected: float
    kind: ClassVar[str] = "selection"

    def __post_init__(self) -> None:
        super().__post_init__()
        law_of(self.runs, self.expected)

    def rdp(self, alpha: float) -> float:
        return _curve(self.mu, self.runs, self.expected, float(alpha))

    def scale(self) -> float:
        return self.mu

    def beside_gaussian(self, mu: float, relation: str) -> Guarantee:
        """The guarantee together with Gaussian releases of `mu` in all."""
        return SelectionDP(self, mu, relation)


@functools.lru_cache(maxsize=4096)
def _curve(mu: float, runs: str, expected: float, alpha: float) -> float:
    return law_of(runs, expected).rdp(GDP(mu, "replace-one"), alpha)  # a curve has no relation: μ carries it


@dataclass(frozen=True, init=False, repr=False)
class SelectionDP(Guarantee):
    """ε(δ) = min_α ε'(α) + αμ²/2 + [ln(1/δ) + (α-1)ln(1-1/α) - ln α]/(α-1): Rényi divergences add up under adaptive composition.

    >>> from dperm.privacy.selection import TruncatedNegativeBinomial, selection_epsilon
    >>> one = SelectionDP(SelectionEvent(0.1, "geometric", 10.0), 0.0, "replace-one").epsilon(1e-6)
    >>> one == selection_epsilon(GDP(0.1, "replace-one"), TruncatedNegativeBinomial(1.0, 0.1), 1e-6)
    True
    """

    kind: ClassVar[str] = "selection"
    event: SelectionEvent
    mu: float

    def __init__(self, event: SelectionEvent, mu: float, relation: str) -> None:
        self._set(event=event, mu=non_negative("mu", mu), relation=check_relation(relation))

    def rdp(self, alpha: float) -> float:
        return self.event.rdp(alpha) + alpha * self.mu**2 / 2

    def epsilon(self, delta: float) -> float:
        delta = probability("delta", delta)
        return math.inf if delta == 0 else minimize_order(lambda alpha: rdp_epsilon(alpha, self.rdp(alpha), delta))

    def delta(self, epsilon: float) -> float:
        epsilon = non_negative("epsilon", epsilon, infinite=True)
        if math.isinf(epsilon):
            return 0.0
        return min(1.0, math.exp(minimize_order(lambda alpha: rdp_log_delta(alpha, self.rdp(alpha), epsilon))))
