"""compose: what a sequence of adaptively chosen events costs together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dperm.privacy.events import Concentrated, Event, Gaussian
from dperm.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PrivacyLoss, PureDP
from dperm.privacy.loss_distributions import choose_discretization
from dperm.privacy.products import LARGEST_SUPPORT, Composed, ProductDP, support_size
from dperm.privacy.relations import check_relation

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


def compose(events: Iterable[Event], relation: str, *, discretization: float | None = None) -> Guarantee:
    """All events Gaussian: μ = √Σμ_i², exactly. Otherwise the best of the routes that apply:

    * Σε_i when every event is pure;
    * the exact product of Gaussian and (ε_i, δ_i) releases (`ProductDP`), when its support is small;
    * an event's own closed form beside Gaussian releases (`beside_gaussian`), when it is the only other one;
    * Σρ_i when every event is concentrated (for Gaussian with concentrated events the only route);
    * the privacy-loss distribution on a grid, for sampled events and for everything else;
    * the same without amplification by sampling, which serves very small δ.

    **Guarantee.** Every route is an adaptive composition theorem, for events whose parameters are fixed
    in advance, under `relation`. Poisson sampling is refused under replace-one. No events: 0-DP.

    >>> compose([Gaussian(0.3, count=16), Gaussian(0.5)], "replace-one")
    GDP(mu=1.3, relation='replace-one')
    """
    events = tuple(events)
    check_relation(relation)
    for event in events:
        if relation not in event.relations():
            raise ValueError(event.refusal(relation))
    if not events:
        return PureDP(0.0, relation)
    gaussian = [event.gdp() for event in events]
    if None not in gaussian:
        return GDP(_root_sum_of_squares(gaussian), relation)

    routes: list[Guarantee] = []
    pure = [event.pure() for event in events]
    if None not in pure:
        routes.append(PureDP(math.fsum(value for value in pure if value is not None), relation))
    product = _product(events, relation)
    special = [event for event in events if event.gdp() is None]
    closed_form = getattr(special[0], "beside_gaussian", None) if len(special) == 1 else None
    if product is not None:
        routes.append(product)
    elif closed_form is not None:
        routes.append(closed_form(_root_sum_of_squares(gaussian), relation))
    else:
        zcdp = [event.zcdp() for event in events]
        if None not in zcdp:
            routes.append(ZCDP(math.fsum(value for value in zcdp if value is not None), relation))
        if not all(event.gdp() is not None or isinstance(event, Concentrated) for event in events):
            routes.extend(_on_a_grid(events, relation, discretization))
        relaxed = tuple(event.relaxed() for event in events)
        if relaxed != events:
            routes.append(compose(relaxed, relation, discretization=discretization))
    if not routes:
        # No theorem applies (for example a huge ρ beside an (ε, δ) release): claim nothing.
        return ApproxDP(0.0, 1.0, relation)
    return routes[0] if len(routes) == 1 else Composed(routes)


def _root_sum_of_squares(values: Sequence[float | None]) -> float:
    return math.sqrt(math.fsum(value**2 for value in values if value is not None))


def _product(events: Sequence[Event], relation: str) -> ProductDP | None:
    """The exact product, when every event is Gaussian, Gaussian but for a failure, or dominated by (ε, δ) releases."""
    squares, responses, log_intact = [0.0], [], 0.0
    for event in events:
        mu, pair, pure, hidden = event.gdp(), event.approximate(), event.pure(), event.gdp_but_for()
        if mu is not None:
            squares.append(mu**2)
        elif hidden is not None:
            squares.append(hidden[0] ** 2)
            log_intact += math.log1p(-hidden[1]) if hidden[1] < 1 else -math.inf
        elif pair is not None or pure is not None:
            epsilon, delta, count = pair if pair is not None else (pure or 0.0, 0.0, 1)
            responses.append((epsilon, count))
            log_intact += count * math.log1p(-delta) if delta < 1 else -math.inf
        else:
            return None
    product = ProductDP(math.sqrt(math.fsum(squares)), responses, -math.expm1(log_intact), relation)
    return product if support_size(product.responses) <= LARGEST_SUPPORT else None


def _on_a_grid(events: Sequence[Event], relation: str, discretization: float | None) -> list[Guarantee]:
    """The privacy-loss distribution of all events; Gaussian and concentrated ones are summed in closed
    form first.
    """
    gaussian = _root_sum_of_squares([event.gdp() for event in events])
    rest: list[Event] = [event for event in events if event.gdp() is None and not isinstance(event, Concentrated)]
    if gaussian > 0:
        rest.append(Gaussian(gaussian))
    rho = math.fsum(event.zcdp() for event in events if isinstance(event, Concentrated))
    if rho > 0:
        rest.append(Concentrated(rho))
    releases = sum(event.total() for event in rest)
    if discretization is None:
        scales = [event.scale() for event in rest]
        discretization = choose_discretization(_root_sum_of_squares(scales), releases)
    total: PrivacyLossDistribution | None = None
    for event in rest:
        part = event.loss_distribution(discretization)
        if part is None:
            return []
        total = part if total is None else total.compose(part)
    return [PrivacyLoss(total, relation, discretization, floor=rounding_floor(releases))]


def rounding_floor(releases: int) -> float:
    """1e-15·(releases + 100): added to every δ read off a grid, for the rounding of the Fourier transforms.

    Their error has no sign: against exact Gaussian composition the grid's δ was seen up to 5e-17 per release too
    *small* (10⁴ to 10⁶ releases, deep tail). Twenty times that is added.

    >>> rounding_floor(900)
    1e-12
    """
    return 1e-15 * (releases + 100)
