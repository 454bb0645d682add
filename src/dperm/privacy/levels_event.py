"""Which levels a column has, as an event of its own: Gaussian noise on counts, and a threshold below which nothing is shown.

A level that only one person has is in one table and not in its neighbour. No noise hides that: only the threshold does, up to a
probability δ. The event is therefore not μ-GDP for any μ; it is μ-GDP but for a failure of probability δ. The proof is in
docs/theorems/levels.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dperm.privacy import loss_distributions
from dperm.privacy.checks import probability
from dperm.privacy.events import Event, register_event

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


@register_event
@dataclass(frozen=True)
class Levels(Event):
    """Noisy counts of the levels that pass a threshold.

    **Guarantee.** Dominated by the pair "reveal everything with probability δ, else N(0, 1) against N(μ, 1)", if counts of levels
    have noise N(0, (Δ/μ)²) with Δ their ℓ2-sensitivity, only levels that occur are considered, and only those whose noisy count
    exceeds `levels_threshold` are shown.

    >>> Levels(0.1, 1e-8).gdp() is None, Levels(0.1, 1e-8).gdp_but_for()
    (True, (0.1, 1e-08))
    """

    mu: float
    delta: float
    kind: ClassVar[str] = "levels"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.delta < 0.5:
            raise ValueError(f"Expected 0 < delta < 1/2 for private levels, found {self.delta}. They have no pure guarantee.")

    def gdp_but_for(self) -> tuple[float, float]:
        return self.mu, self.delta

    def scale(self) -> float:
        return self.mu

    def loss_distribution(self, discretization: float) -> PrivacyLossDistribution:
        hidden = loss_distributions.gaussian(self.mu, discretization)
        return hidden.compose(loss_distributions.approximate(0.0, self.delta, 1, discretization))


def levels_threshold(scale: float, delta: float, columns: int, rows_per_person: int = 1) -> float:
    """T such that a person's own levels pass it, in any of the columns, with a probability of at most δ in all.

        p·max(k·Φ̄((T-1)/σ), Φ̄((T-k)/σ)) ≤ δ    for p columns and k rows of a person

    A person who alone has the levels with counts m_1, …, m_j, Σm ≤ k, shows one of them in a column with probability at most
    ΣΦ̄((T-m_i)/σ). The summand is convex in m below T, so that the sum is at most max(k·Φ̄((T-1)/σ), Φ̄((T-k)/σ)): k levels with
    one row each, or one with k.

    >>> round(levels_threshold(10.0, 1e-8, columns=1), 3)
    57.12
    """
    from scipy.special import ndtri

    if columns < 1 or rows_per_person < 1:
        raise ValueError(f"Expected columns ≥ 1 and rows_per_person ≥ 1, found {columns} and {rows_per_person}.")
    share = probability("delta", delta) / columns
    spread_out = 1.0 - scale * float(ndtri(share / rows_per_person))
    heaped = rows_per_person - scale * float(ndtri(share))
    return math.nextafter(max(spread_out, heaped), math.inf)
