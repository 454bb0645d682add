"""Events: what was released, free of units. What it costs is the accountants' business.

An event is a frozen record such as `Gaussian(mu=0.3, count=100)`: one hundred releases, each with L2
sensitivity over noise standard deviation equal to 0.3 *under the relation of the run*. A mechanism file
may add its own kind with `@register_event`; it then needs `spec()` and as many of the cost methods as its
theorem supports.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from dperm.privacy import loss_distributions
from dperm.privacy.checks import non_negative, positive, probability, whole
from dperm.privacy.relations import RELATIONS, REPLACE_ONE

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

EVENTS: dict[str, type[Event]] = {}
AnyEvent = TypeVar("AnyEvent", bound="type[Event]")
CHECKS: dict[str, Callable[[str, Any], float]] = {
    **dict.fromkeys(("mu", "epsilon", "rho", "curvature", "expected"), non_negative),
    **dict.fromkeys(("count", "steps", "rows", "classes"), whole),
    **dict.fromkeys(("rate", "delta"), probability),
    "shift": positive,
}


def register_event(kind: AnyEvent) -> AnyEvent:
    """Class decorator: lets `event_from_spec` rebuild this kind of event.

    >>> EVENTS["gaussian"].__name__
    'Gaussian'
    """
    if not kind.kind or EVENTS.get(kind.kind, kind) is not kind:
        raise ValueError(f"Expected an unused event kind, found {kind.kind!r}. Give {kind.__name__} its own `kind`.")
    EVENTS[kind.kind] = kind
    return kind


def event_from_spec(spec: Mapping[str, object]) -> Event:
    """Rebuild an event from `event.spec()`.

    >>> event_from_spec({"kind": "gaussian", "mu": 0.5, "count": 3})
    Gaussian(mu=0.5, count=3)
    """
    kind = spec.get("kind")
    if kind not in EVENTS:
        known = ", ".join(sorted(EVENTS))
        raise ValueError(f"Expected an event kind among {known}, found {kind!r}. Register it with register_event.")
    return EVENTS[kind].from_spec(spec)


@dataclass(frozen=True)
class Event:
    """Base of all events. Cost methods return None where the event has no such guarantee."""

    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Every parameter is checked by what its name says it is."""
        for field in dataclasses.fields(self):
            if field.name in CHECKS:
                object.__setattr__(self, field.name, CHECKS[field.name](field.name, getattr(self, field.name)))

    def total(self) -> int:
        """Number of releases the event stands for."""
        return int(getattr(self, "count", 1))

    def gdp(self) -> float | None:
        """μ such that the whole event (all its releases) is μ-GDP, or None."""
        return None

    def pure(self) -> float | None:
        """ε such that the whole event is ε-DP, or None."""
        return None

    def zcdp(self) -> float | None:
        """ρ such that the whole event is ρ-zCDP, or None."""
        return None

    def rdp(self, alpha: float) -> float | None:
        """A bound on the Rényi divergence of order α of the whole event, where the event states its own curve; or None."""
        return None

    def approximate(self) -> tuple[float, float, int] | None:
        """(ε, δ, count): the event is `count` adaptive (ε, δ)-DP releases; or None."""
        return None

    def gdp_but_for(self) -> tuple[float, float] | None:
        """(μ, δ): dominated by "reveal everything with probability δ, else a μ-GDP release"; or None.

        Only for events that are not μ-GDP themselves.
        """
        return None

    def relaxed(self) -> Event:
        """A simpler event that costs at least as much (used as a second, always valid route)."""
        return self

    def scale(self) -> float:
        """Rough standard deviation of the privacy loss; it chooses grids and has no influence on validity."""
        rho = self.zcdp()
        return math.inf if rho is None else math.sqrt(2 * rho)

    def relations(self) -> tuple[str, ...]:
        """Relations under which the event has a meaning."""
        return RELATIONS

    def refusal(self, relation: str) -> str:
        """Why the event is refused under a relation that is not in `relations()`."""
        known = ", ".join(self.relations())
        return f"Expected relation in {known} for {type(self).__name__}, found {relation!r}. Change one."

    def loss_distribution(self, discretization: float) -> PrivacyLossDistribution:
        """A dp_accounting privacy-loss distribution dominating the event on that grid, or None.

        By default the dominating pair of the event's pure, Gaussian or concentrated guarantee, in this order.
        """
        pure, mu, rho = self.pure(), self.gdp(), self.zcdp()
        if pure is not None:
            return loss_distributions.approximate(pure, 0.0, 1, discretization)
        if mu is not None:
            return loss_distributions.gaussian(mu, discretization)
        return None if rho is None else loss_distributions.concentrated(rho, discretization)

    def spec(self) -> dict[str, object]:
        """JSON-ready description; `event_from_spec` inverts it."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {"kind": self.kind} | {name: value.spec() if isinstance(value, Event) else value for name, value in fields.items()}

    @classmethod
    def from_spec(cls, spec: Mapping[str, object]) -> Event:
        """Rebuild from `spec()`; unknown or missing fields are an error."""
        names = {field.name for field in dataclasses.fields(cls)}
        found = set(spec) - {"kind"}
        if found != names:
            raise ValueError(f"Expected fields {sorted(names)} for {cls.kind!r}, found {sorted(found)}. Repair the spec.")
        return cls(**{name: event_from_spec(value) if isinstance(value := spec[name], Mapping) else value for name in names})


class _Normal(Event):
    """`count` releases, each μ-GDP."""

    mu: float
    count: int

    def gdp(self) -> float:
        return self.mu * math.sqrt(self.count)

    def pure(self) -> float | None:
        return 0.0 if self.mu == 0 else None

    def zcdp(self) -> float:
        return self.count * self.mu**2 / 2


@register_event
@dataclass(frozen=True)
class Gaussian(_Normal):
    """`count` releases with N(0, σ²I) noise, each with Δ/σ = μ: together (μ√count)-GDP, exactly.

    **Guarantee.** Adaptive composition of μ_i-GDP releases is √(Σμ_i²)-GDP, for the relation that defines
    Δ.

    >>> Gaussian(0.1, count=100).gdp()
    1.0
    """

    mu: float
    count: int = 1
    kind: ClassVar[str] = "gaussian"


class _Dominated(Event):
    """`count` releases, each dominated by "reveal everything with probability δ, else randomised response with ε"."""

    epsilon: float
    delta: float
    count: int

    def pure(self) -> float | None:
        return self.count * self.epsilon if self.delta == 0 else None

    def zcdp(self) -> float | None:
        return self.count * self.epsilon * math.tanh(self.epsilon / 2) if self.delta == 0 else None

    def approximate(self) -> tuple[float, float, int]:
        return self.epsilon, self.delta, self.count

    def scale(self) -> float:
        return math.sqrt(2 * self.count * self.epsilon * math.tanh(self.epsilon / 2))

    def loss_distribution(self, discretization: float) -> PrivacyLossDistribution:
        return loss_distributions.approximate(self.epsilon, self.delta, self.count, discretization)


@register_event
@dataclass(frozen=True)
class Pure(_Dominated):
    """`count` releases, each ε-DP: together count·ε-DP, and less at δ > 0.

    **Guarantee.** Randomised response with parameter ε dominates every ε-DP release (Kairouz, Oh and
    Viswanath 2015). ρ = ε·tanh(ε/2) per release is the tight zCDP parameter of that pair.

    >>> Pure(0.5, count=4).pure()
    2.0
    """

    epsilon: float
    count: int = 1
    delta: ClassVar[float] = 0.0  # type: ignore[misc]  # a field of the other kind
    kind: ClassVar[str] = "pure"


@register_event
@dataclass(frozen=True)
class Concentrated(Event):
    """`count` releases, each ρ-zCDP: together count·ρ-zCDP (additive).

    >>> Concentrated(0.01, count=50).zcdp()
    0.5
    """

    rho: float
    count: int = 1
    kind: ClassVar[str] = "concentrated"

    def zcdp(self) -> float:
        return self.count * self.rho

    def pure(self) -> float | None:
        return 0.0 if self.rho == 0 else None


@register_event
@dataclass(frozen=True)
class Approximate(_Dominated):
    """`count` releases, each (ε, δ)-DP.

    **Guarantee.** The pair "reveal everything with probability δ, else randomised response with ε"
    dominates every (ε, δ)-DP release; composing it gives the optimal composition theorem.

    >>> Approximate(1.0, 1e-6).approximate()
    (1.0, 1e-06, 1)
    """

    epsilon: float
    delta: float
    count: int = 1
    kind: ClassVar[str] = "approximate"


@register_event
@dataclass(frozen=True)
class Sampled(Event):
    """Each release of `event` sees a fresh Poisson sample: every record joins independently with
    probability `rate`.

    **Guarantee.** The privacy-loss distribution of (1−q)N(0, 1/μ²) + qN(1, 1/μ²) against N(0, 1/μ²), both directions,
    composed `count` times; pessimistic grid. For zero-out and add-remove only: under replace-one the
    changed record may be absent, present on one side or present on both, and the pair above does not
    dominate that. Without amplification the event is no worse than `event` itself (`relaxed`), which
    serves tiny δ.

    >>> Sampled(0.01, Gaussian(1.0, count=1000)).total()
    1000
    """

    rate: float
    event: Gaussian
    kind: ClassVar[str] = "sampled"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.event, Gaussian):
            raise ValueError(f"Expected a Gaussian event to sample, found {self.event!r}. Pass Gaussian(mu, count).")

    def total(self) -> int:
        return self.event.count

    def gdp(self) -> float | None:
        if self.rate == 0:
            return 0.0
        return self.event.gdp() if self.rate == 1 else None

    def pure(self) -> float | None:
        return 0.0 if self.rate * self.event.mu == 0 else None

    def zcdp(self) -> float:
        # Rényi divergence is jointly quasi-convex: mixing both laws with the same N(0, σ²) cannot increase it.
        return 0.0 if self.rate == 0 else self.event.zcdp()

    def relaxed(self) -> Event:
        return self.event

    def scale(self) -> float:
        return 0.0 if self.pure() == 0 else loss_distributions.sampled_scale(self.rate, self.event.mu, self.event.count)

    def relations(self) -> tuple[str, ...]:
        return tuple(relation for relation in RELATIONS if relation != REPLACE_ONE)

    def refusal(self, relation: str) -> str:
        return (
            f"Expected relation 'zero-out' or 'add-remove' for Poisson sampling, found {relation!r}. "
            "The amplification theorem compares runs in which the record is absent or present; "
            "replacing a record is a different pair, for which the reported epsilon would be too small. "
            "Use relation='zero-out', or full batches."
        )

    def loss_distribution(self, discretization: float) -> PrivacyLossDistribution:
        return loss_distributions.sampled(self.rate, self.event.mu, self.event.count, discretization)


@register_event
@dataclass(frozen=True)
class HiddenState(_Normal):
    """The last iterate of `steps` noisy steps, already accounted (see `hidden_state_mu`): one μ-GDP
    release.

    >>> HiddenState(0.4, steps=10_000).gdp()
    0.4
    """

    mu: float
    steps: int
    count: ClassVar[int] = 1  # type: ignore[misc]  # a field of the other kind
    kind: ClassVar[str] = "hidden-state"
