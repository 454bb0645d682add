"""Privacy filters: when may one more fit be paid from a shared budget, chosen after seeing all earlier ones?

Fix neighbours D, D' and let L_T be the privacy loss of everything released until the ledger stops. A filter is a rule on the
costs booked so far that keeps E(1 - e^{ε-L_T})₊ ≤ δ for every analyst, however adaptive. Here the rule accepts a history when
one of these holds, each with a share of δ of its own:

    Gaussian   every event is Gaussian but for a failure (most for none), Σμ_i² ≤ μ² with δ_G(ε; μ) = share₁·δ, and the failure
               masses sum to at most share₃·δ
    Rényi      for some order α of a list fixed at creation  Σ_i ε_i(α) ≤ B_α,
               (α, B_α)-RDP ⇒ (ε, weight_α·share₂·δ)-DP, and the failure masses sum to at most share₃·δ

**Guarantee** (ε, δ)-DP of all releases together. Proof. Split E(1 - e^{ε-L_T})₊ by the branch that holds when the process stops.
(1) Stop the process
before its first event that is not Gaussian but for a failure, or that would break Σμ_i² ≤ μ²: the GDP filter theorem (Smith and
Thakurta 2022; Koskela, Tobaben and Honkela 2023) bounds its expectation by share₁·δ, and on histories in this branch it is the
same process. (2) M_t = exp((α-1)(L_t - Σ_{i≤t} ε_i(α))) is a supermartingale for every α, because given the past event i has
E e^{(α-1)L_i} ≤ e^{(α-1)ε_i(α)}; where (1 - e^{ε-l})₊ ≤ c_α e^{(α-1)(l-ε)}, c_α = (1-1/α)^{α-1}/α, so the part of the expectation
with Σε_i(α) ≤ B_α is at most c_α e^{(α-1)(B_α-ε)} = weight_α·share₂·δ. (3) A release that fails with probability δ_i is a release
that reveals everything with probability δ_i, by a coin that is the same for D and D', and otherwise has a finite moment or is
μ_i-GDP (`Levels`). Something is revealed with probability at most share₃·δ in all; where nothing is, (1) and (2) hold. ∎

A privacy-loss distribution is never composed across fits: fits are chosen adaptively, for which that is not a theorem. The first
entry alone is chosen without seeing anything, so one fit may use the whole budget by its own composition theorem ("single").
At δ = 0 the only rule is Σε_i ≤ ε over pure events.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from dperm.privacy import Concentrated, Event, Gaussian, PureDP, Sampled, compose, gaussian_epsilon, gaussian_mu
from dperm.problem.plain import is_number, plain_number, shown

SHARES = {"auto": (0.75, 0.20, 0.05), "gaussian": (1.0, 0.0, 0.0), "renyi": (0.0, 0.95, 0.05)}
_SPREAD = (0, -0.5, 0.5, 1, 2)  # orders 1 + (α* - 1)·2^j around the best one, which has half of the weight


class CostRecord(TypedDict):
    """A cost as ledgers keep it."""

    square: float | None
    curve: list[float]
    failure: float
    pure: float | None


@dataclass(frozen=True)
class Cost:
    """What one fit costs, in the currencies of the filter: Σμ² or None, RDP at the filter's orders, failure mass, Σε or None."""

    square: float | None
    curve: tuple[float, ...]
    failure: float
    pure: float | None

    def spec(self) -> CostRecord:
        return {"square": self.square, "curve": list(self.curve), "failure": self.failure, "pure": self.pure}


LARGEST = 1e12  # as for a fit: nothing is private there, and Gaussians of that size have no μ in floats


@dataclass(frozen=True)
class Filter:
    """The rule for one budget; orders and limits are fixed by (ε, δ, kind) before anything is spent.

    >>> rule = Filter.declare(3.0, 1e-6, "auto")
    >>> rule.accepts([rule.cost([Gaussian(0.3)])]), rule.accepts([rule.cost([Gaussian(3.0)])])
    ('gaussian', None)
    """

    epsilon: float
    delta: float
    kind: str
    mu: float
    orders: tuple[float, ...]
    limits: tuple[float, ...]
    failure: float

    @classmethod
    def declare(cls, epsilon: float, delta: float, kind: str = "auto") -> Filter:
        epsilon = plain_number(epsilon, "epsilon") if is_number(epsilon) else epsilon
        delta = plain_number(delta, "delta") if is_number(delta) else delta
        if not (is_number(epsilon) and 0 < epsilon <= LARGEST):
            raise ValueError(f"Expected 0 < epsilon ≤ {LARGEST:g} for a ledger, found {shown(epsilon)}. Pass all of it, e.g. 3.")
        if not (is_number(delta) and 0 <= delta < 1):
            raise ValueError(f"Expected 0 ≤ delta < 1 for a ledger, found {shown(delta)}. Pass e.g. 1e-6, or 0 for pure privacy.")
        if kind not in SHARES:
            raise ValueError(f"Expected filter in {tuple(SHARES)}, found {kind!r}. Most ledgers want 'auto'.")
        if delta == 0:
            return cls(float(epsilon), 0.0, kind, 0.0, (), (), 0.0)
        gaussian, renyi, failure = (share * delta for share in SHARES[kind])
        mu = gaussian_mu(epsilon, gaussian) if gaussian else 0.0
        orders, limits = _orders(epsilon, renyi) if renyi else ((), ())
        return cls(float(epsilon), float(delta), kind, mu, orders, limits, failure)

    def cost(self, events: Sequence[Event]) -> Cost:
        """The cost of one planned fit."""
        hidden = [event.gdp_but_for() for event in events]
        ratios = [event.gdp() if found is None else found[0] for event, found in zip(events, hidden)]
        curve, failure = np.zeros(len(self.orders)), 0.0
        for event, found in zip(events, hidden):
            if self.orders:
                one, mass = renyi_curve(event, self.orders)
                curve, failure = curve + np.array(one), failure + mass
            elif found is not None:  # without the Rényi branch other masses have nothing to count against
                failure += found[1]
        square = _sum([None if mu is None else mu**2 for mu in ratios])
        return Cost(square, tuple(float(value) for value in curve), failure, _sum([event.pure() for event in events]))

    def accepts(self, costs: Sequence[Cost]) -> str | None:
        """The branch that admits this history ("pure", "gaussian" or "renyi"), or None."""
        if self.delta == 0:
            spent = _sum([cost.pure for cost in costs])
            return "pure" if spent is not None and spent <= self.epsilon else None
        if math.fsum(cost.failure for cost in costs) > self.failure:
            return None
        square = _sum([cost.square for cost in costs])
        if self.mu and square is not None and square <= self.mu**2:
            return "gaussian"
        return "renyi" if np.any(self._curve(costs) * (1 + 1e-12) <= np.array(self.limits)) else None

    def _curve(self, costs: Sequence[Cost]) -> np.ndarray:
        """The Rényi divergences of all costs together, at the orders."""
        curves = np.array([cost.curve for cost in costs]).reshape(len(costs), len(self.orders))
        return np.asarray(curves.sum(axis=0))

    def alone(self, events: Sequence[Event], relation: str) -> bool:
        """Whether a fit that nobody could have chosen adaptively keeps the whole budget by its own composition theorem."""
        return compose(events, relation).epsilon(self.delta) <= self.epsilon * (1 + 1e-9)

    def admits(self, costs: Sequence[Cost], cost: Cost, events: Sequence[Event], relation: str) -> str | None:
        """The branch by which one more fit is admitted, "single" for a first one that keeps the budget alone; or None."""
        branch = self.accepts([*costs, cost])
        return "single" if branch is None and not costs and self.alone(events, relation) else branch

    def left(self, costs: Sequence[Cost]) -> float:
        """The largest μ of one more Gaussian fit that would be accepted (at δ = 0: the largest ε of one more pure fit)."""
        if self.delta == 0:
            spent = _sum([cost.pure for cost in costs])
            return 0.0 if spent is None else max(0.0, self.epsilon - spent)
        if math.fsum(cost.failure for cost in costs) > self.failure:
            return 0.0
        square = _sum([cost.square for cost in costs])
        best = 0.0 if square is None else self.mu**2 - square
        if self.orders:
            room = (np.array(self.limits) - self._curve(costs)) * 2 / np.array(self.orders)
            best = max(best, float(room.max()))
        return math.sqrt(max(0.0, best)) * (1 - 1e-9)

    def left_epsilon(self, costs: Sequence[Cost], delta: float, fits: int = 1) -> float:
        """What is left, as the ε of one more Gaussian fit at `delta`, or of each of several."""
        room = self.left(costs)
        if self.delta == 0:
            return room / fits
        room /= math.sqrt(fits)
        return 0.0 if room == 0 or delta <= 0 else gaussian_epsilon(delta, room)

    def left_delta(self, costs: Sequence[Cost]) -> float:
        """What is left of the share of δ that releases may fail with, as thresholds of private levels do."""
        return max(0.0, self.failure - math.fsum(cost.failure for cost in costs))

    def spent_share(self, costs: Sequence[Cost]) -> float:
        """How much of the branch that holds is used, from 0 to 1."""
        if not costs:
            return 0.0
        branch = self.accepts(costs)
        if branch == "pure":
            return math.fsum(cost.pure or 0.0 for cost in costs) / self.epsilon
        if branch == "gaussian":
            return math.fsum(cost.square or 0.0 for cost in costs) / self.mu**2
        if branch == "renyi":
            return float(np.min(self._curve(costs) / np.array(self.limits)))
        return 1.0


def _sum(values: Sequence[float | None]) -> float | None:
    """The sum; None where one of them is."""
    known = [value for value in values if value is not None]
    return math.fsum(known) if len(known) == len(values) else None


def together(releases: Sequence[Sequence[Event]], delta: float, near: float) -> float:
    """An ε whose budget (ε, δ) has room for these releases, one after the other: close to the smallest, for orders chosen `near`
    it. B_α - ε does not depend on ε, so that at given orders the smallest follows without a search.

    >>> both = [[Gaussian(0.1)], [Gaussian(0.3)]]
    >>> rule = Filter.declare(together(both, 1e-6, near=1.0), 1e-6)
    >>> rule.accepts([rule.cost(one) for one in both])
    'gaussian'
    """
    found = math.inf
    for _ in range(2):
        rule = Filter.declare(min(near, found), delta, "auto")
        costs = [rule.cost(events) for events in releases]
        if math.fsum(cost.failure for cost in costs) > rule.failure:
            return math.inf
        squares = [cost.square for cost in costs]
        if None not in squares:
            mu = math.sqrt(math.fsum(square for square in squares if square is not None))
            found = min(found, gaussian_epsilon(SHARES["auto"][0] * delta, mu) * (1 + 1e-9))
        total = np.array([cost.curve for cost in costs]).sum(axis=0)
        found = min([found, *(total * (1 + 1e-12) + rule.epsilon - np.array(rule.limits)).tolist()])
    return float(found)


def _orders(epsilon: float, delta: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Orders around the one that leaves most room for curves αρ, and B_α for each; orders without room are left out."""
    grid = 1 + np.geomspace(1e-3, 1e6, 4000)
    best = float(grid[int(np.argmax(_limits(grid, epsilon, delta / 2) / grid))])
    orders = np.array([1 + (best - 1) * 2.0**j for j in _SPREAD])
    weights = np.array([0.5] + [0.5 / (len(_SPREAD) - 1)] * (len(_SPREAD) - 1))
    limits = _limits(orders, epsilon, weights * delta)
    keep = limits > 0
    return tuple(orders[keep].tolist()), tuple(limits[keep].tolist())


def _limits(orders: np.ndarray, epsilon: float, delta: np.ndarray | float) -> np.ndarray:
    """B_α = ε - [ln(1/δ) + (α-1)ln(1-1/α) - ln α]/(α-1)."""
    return np.asarray(epsilon - np.log1p(-1 / orders) + (np.log(delta) + np.log(orders)) / (orders - 1))


@functools.lru_cache(maxsize=1024)
def renyi_curve(event: Event, orders: tuple[float, ...]) -> tuple[tuple[float, ...], float]:
    """(ε(α) at the orders, failure mass): a bound on the Rényi divergence of the event, but for that mass.

    Gaussian αμ²/2, but for a failure where there is one; pure and (ε, δ) releases by randomised response, which dominates them;
    concentrated αρ; the curve that an event states itself (`rdp`: the best of K runs); every other event from the moments of the
    privacy-loss distribution that dominates it, Σ_l m_l e^{(α-1)l}, the worse of both directions.

    >>> renyi_curve(Gaussian(0.5, count=4), (3.0,))
    ((1.5,), 0.0)
    """
    mu, listed, hidden = event.gdp(), event.approximate(), event.gdp_but_for()
    if mu is not None:
        return tuple(alpha * mu**2 / 2 for alpha in orders), 0.0
    if hidden is not None:
        return tuple(alpha * hidden[0] ** 2 / 2 for alpha in orders), hidden[1]
    if listed is not None:
        epsilon, delta, count = listed
        return tuple(count * PureDP(epsilon, "replace-one").rdp(alpha) for alpha in orders), min(1.0, count * delta)
    own = [event.rdp(alpha) for alpha in orders]
    if own and None not in own:
        return tuple(float(value) for value in own if value is not None), 0.0
    if isinstance(event, Concentrated):
        return tuple(alpha * event.zcdp() for alpha in orders), 0.0
    if isinstance(event, Sampled):
        one = Sampled(event.rate, Gaussian(event.event.mu))
        curve, mass = _moments(one, orders)
        plain = [alpha * event.event.mu**2 / 2 for alpha in orders]
        return tuple(event.event.count * min(a, b) for a, b in zip(curve, plain)), min(1.0, event.event.count * mass)
    pure, rho = event.pure(), event.zcdp()
    routes = [tuple(PureDP(pure, "replace-one").rdp(alpha) for alpha in orders)] if pure is not None else []
    routes += [tuple(alpha * rho for alpha in orders)] if rho is not None else []
    if routes:
        return tuple(min(values) for values in zip(*routes)), 0.0
    return _moments(event, orders)


def _moments(event: Event, orders: tuple[float, ...]) -> tuple[tuple[float, ...], float]:
    scale = event.scale()
    grid = 1e-4 if not math.isfinite(scale) or scale <= 0 else min(1e-3, max(scale / 500, 1e-5))
    found = event.loss_distribution(grid)
    if found is None:
        return tuple(math.inf for _ in orders), 1.0
    worst, failure = np.full(len(orders), -np.inf), 0.0
    for side in {id(pmf): pmf for pmf in (found._pmf_remove, found._pmf_add)}.values():
        dense = side.to_dense_pmf()
        losses = (dense._lower_loss + np.arange(dense.size)) * dense._discretization
        with np.errstate(divide="ignore"):
            logs = np.log(np.maximum(dense._probs, 0.0))
        powers = np.array(orders)[:, None] - 1
        values = np.logaddexp.reduce(logs + powers * losses, axis=1) / powers[:, 0]
        worst = np.maximum(worst, values)
        failure = max(failure, float(dense._infinity_mass))
    return tuple(float(max(value, 0.0)) for value in worst), failure
