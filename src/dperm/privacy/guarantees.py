"""Guarantees: what a run proved, with the relation it holds for, ordered by implication.

PureDP(ε)  ⇒  GDP(μ), Φ(−μ/2) = 1/(1+e^ε)  ⇒  ZCDP(μ²/2)  ⇒  ApproxDP(ε, δ) for a curve of pairs
PureDP(ε)  ⇒  ZCDP(ε·tanh(ε/2))                PrivacyLoss(pld)  ⇒  ApproxDP(ε, δ) for a curve of pairs
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dperm.privacy import conversions
from dperm.privacy.checks import non_negative, probability
from dperm.privacy.events import Event
from dperm.privacy.gaussian import gaussian_delta, gaussian_epsilon
from dperm.privacy.relations import REPLACE_ONE, check_relation

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


@dataclass(frozen=True, init=False, repr=False)
class Guarantee:
    """Base: a set of (ε, δ) pairs proven for `relation`; `a.implies(b)` when b is provable from a."""

    kind: ClassVar[str] = ""
    relation: str

    def _set(self, relation: str, **values: object) -> None:
        for name, value in {**values, "relation": check_relation(relation)}.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={value!r}" for name, value in self.spec().items() if name != "kind")
        return f"{type(self).__name__}({parts})"

    def delta(self, epsilon: float) -> float:
        """Smallest δ proven at this ε ≥ 0."""
        raise NotImplementedError

    def epsilon(self, delta: float) -> float:
        """Smallest ε proven at this δ in [0, 1]; ∞ when there is none."""
        raise NotImplementedError

    def gdp(self) -> float | None:
        """μ with μ-GDP proven, or None."""
        return None

    def zcdp(self) -> float | None:
        """ρ with ρ-zCDP proven, or None."""
        return None

    def rdp(self, alpha: float) -> float:
        """A proven bound on the Rényi divergence of order α > 1; ∞ when there is none."""
        rho = self.zcdp()
        return math.inf if rho is None else alpha * rho

    def under(self, relation: str) -> Guarantee | None:
        """The guarantee that follows for another relation, or None.

        Replacing a record is two steps of zero-out (record → null → other record) or of add-remove (add,
        then remove), so group privacy with two steps applies. Nothing else follows: a null row need not
        be a record, and under add-remove n itself is protected.
        """
        if check_relation(relation) == self.relation:
            return self
        return self._two_steps() if relation == REPLACE_ONE else None

    def _two_steps(self) -> Guarantee | None:
        return None

    def implies(self, other: Guarantee) -> bool:
        """True only when `other` is provable from this guarantee (sound, not complete)."""
        own = self.under(other.relation)
        return own is not None and other._follows_from(own)

    def _follows_from(self, own: Guarantee) -> bool:
        return own is self

    def spec(self) -> dict[str, object]:
        """JSON-ready description: the kind, the parameters by the names that the constructor gives them, the relation."""
        if not self.kind:
            raise NotImplementedError
        stated = {one.name: getattr(self, one.name) for one in fields(self) if one.compare}
        named = {_PARAMETERS.get(name, name): _stated(value) for name, value in stated.items() if name != "relation"}
        return {"kind": self.kind, **named, "relation": self.relation}


_PARAMETERS = {"value": "epsilon", "failure": "delta"}  # `epsilon` and `delta` are methods


def _stated(value: object) -> object:
    """A field as JSON has it: tuples are lists, events and guarantees say theirs."""
    if isinstance(value, tuple):
        return [_stated(item) for item in value]
    return value.spec() if hasattr(value, "spec") else value


@dataclass(frozen=True, init=False, repr=False)
class PureDP(Guarantee):
    """ε-DP: P(S) ≤ e^ε Q(S) for neighbours under `relation`.

    **Guarantee.** At ε' < ε: δ = (e^ε − e^ε')/(1 + e^ε) (randomised response is the worst case). Also
    ε·tanh(ε/2)-zCDP, and μ-GDP with Φ(−μ/2) = 1/(1 + e^ε): the convex trade-off curve G_μ meets the
    piecewise linear one of randomised response at (0, 1), at its fixed point and at (1, 0), and between
    them a chord lies above the curve. Two steps (zero-out or add-remove → replace-one): 2ε.

    >>> PureDP(1.0, "zero-out").implies(PureDP(2.0, "replace-one"))
    True
    >>> round(PureDP(1.0, "replace-one").zcdp(), 10)
    0.4621171573
    """

    kind: ClassVar[str] = "pure"
    value: float

    def __init__(self, epsilon: float, relation: str) -> None:
        self._set(relation, value=non_negative("epsilon", epsilon))

    def delta(self, epsilon: float) -> float:
        epsilon = non_negative("epsilon", epsilon, infinite=True)
        if epsilon >= self.value:
            return 0.0
        return -math.expm1(epsilon - self.value) / (1 + math.exp(-self.value))

    def epsilon(self, delta: float) -> float:
        spare = probability("delta", delta) * (1 + math.exp(-self.value))
        return 0.0 if spare >= 1 else max(0.0, self.value + math.log1p(-spare))

    def gdp(self) -> float:
        from scipy.special import ndtri_exp

        log_fixed_point = -self.value - math.log1p(math.exp(-self.value))
        return -2 * float(ndtri_exp(log_fixed_point)) * (1 + 1e-13)

    def zcdp(self) -> float:
        return self.value * math.tanh(self.value / 2)

    def rdp(self, alpha: float) -> float:
        # Randomised response: log[p^α q^{1−α} + q^α p^{1−α}]/(α−1) with p = e^ε/(1+e^ε), q = 1−p.
        log_p = -math.log1p(math.exp(-self.value))
        log_q = log_p - self.value
        first, second = alpha * log_p + (1 - alpha) * log_q, alpha * log_q + (1 - alpha) * log_p
        return min(self.value, float(np.logaddexp(first, second)) / (alpha - 1))

    def _two_steps(self) -> Guarantee:
        return PureDP(2 * self.value, REPLACE_ONE)

    def _follows_from(self, own: Guarantee) -> bool:
        return own.epsilon(0.0) <= self.value


@dataclass(frozen=True, init=False, repr=False)
class GDP(Guarantee):
    """μ-GDP: no test tells neighbours apart better than N(0, 1) from N(μ, 1).

    **Guarantee.** (ε, δ_G(ε; μ))-DP for every ε, μ²/2-zCDP; two steps: 2μ.

    >>> GDP(1.0, "replace-one").implies(ApproxDP(4.4, 1e-5, "replace-one"))
    True
    >>> GDP(1.0, "replace-one").implies(ApproxDP(4.37, 1e-5, "replace-one"))
    False
    """

    kind: ClassVar[str] = "gdp"
    mu: float

    def __init__(self, mu: float, relation: str) -> None:
        self._set(relation, mu=non_negative("mu", mu))

    def delta(self, epsilon: float) -> float:
        return float(gaussian_delta(epsilon, self.mu))

    def epsilon(self, delta: float) -> float:
        return gaussian_epsilon(delta, self.mu)

    def gdp(self) -> float:
        return self.mu

    def zcdp(self) -> float:
        return self.mu**2 / 2

    def _two_steps(self) -> Guarantee:
        return GDP(2 * self.mu, REPLACE_ONE)

    def _follows_from(self, own: Guarantee) -> bool:
        mu = own.gdp()
        return mu is not None and mu <= self.mu


@dataclass(frozen=True, init=False, repr=False)
class ZCDP(Guarantee):
    """ρ-zCDP: the Rényi divergence of every order α > 1 is at most αρ.

    **Guarantee.** (ε, δ)-DP by the optimised conversion `conversions.zcdp_epsilon`; two steps: 4ρ.

    >>> round(ZCDP(0.045, "replace-one").epsilon(1e-5), 8)
    1.23492635
    """

    kind: ClassVar[str] = "zcdp"
    rho: float

    def __init__(self, rho: float, relation: str) -> None:
        self._set(relation, rho=non_negative("rho", rho))

    def delta(self, epsilon: float) -> float:
        return conversions.zcdp_delta(self.rho, non_negative("epsilon", epsilon, infinite=True))

    def epsilon(self, delta: float) -> float:
        return conversions.zcdp_epsilon(self.rho, probability("delta", delta))

    def zcdp(self) -> float:
        return self.rho

    def _two_steps(self) -> Guarantee:
        return ZCDP(4 * self.rho, REPLACE_ONE)

    def _follows_from(self, own: Guarantee) -> bool:
        rho = own.zcdp()
        return rho is not None and rho <= self.rho


@dataclass(frozen=True, init=False, repr=False)
class ApproxDP(Guarantee):
    """(ε, δ)-DP: P(S) ≤ e^ε Q(S) + δ.

    **Guarantee.** At ε' < ε: δ' = δ + (1−δ)(e^ε − e^ε')/(1 + e^ε). Two steps: (2ε, (1 + e^ε)δ).

    >>> ApproxDP(1.0, 1e-6, "replace-one").epsilon(1e-6), ApproxDP(1.0, 1e-6, "replace-one").epsilon(1e-7)
    (1.0, inf)
    """

    kind: ClassVar[str] = "approximate"
    value: float
    failure: float

    def __init__(self, epsilon: float, delta: float, relation: str) -> None:
        self._set(relation, value=non_negative("epsilon", epsilon), failure=probability("delta", delta))

    def delta(self, epsilon: float) -> float:
        return self.failure + (1 - self.failure) * PureDP(self.value, self.relation).delta(epsilon)

    def epsilon(self, delta: float) -> float:
        delta = probability("delta", delta)
        if delta < self.failure:
            return math.inf
        if self.failure == 1:
            return 0.0
        return PureDP(self.value, self.relation).epsilon((delta - self.failure) / (1 - self.failure))

    def _two_steps(self) -> Guarantee:
        failure = math.exp(min(self.value, 700.0)) * self.failure + self.failure
        return ApproxDP(2 * self.value, min(1.0, failure), REPLACE_ONE)

    def _follows_from(self, own: Guarantee) -> bool:
        return own.delta(self.value) <= self.failure


@dataclass(frozen=True, init=False, repr=False)
class PrivacyLoss(Guarantee):
    """The (ε, δ) curve of a privacy-loss distribution on a grid, rounded pessimistically.

    **Guarantee.** δ(ε) = E[(1 − e^{ε−L})₊] of the grid distribution, plus `floor`: an allowance for the
    rounding of the Fourier transforms, whose error (unlike the grid's) has no sign. Below `floor` nothing
    is claimed (ε = ∞).
    """

    kind: ClassVar[str] = "privacy-loss"
    discretization: float
    floor: float
    pld: PrivacyLossDistribution = field(compare=False)

    def __init__(self, pld: object, relation: str, discretization: float, floor: float = 1e-13) -> None:
        self._set(relation, pld=pld, discretization=float(discretization), floor=probability("floor", floor))

    def delta(self, epsilon: float) -> float:
        epsilon = non_negative("epsilon", epsilon, infinite=True)
        return min(1.0, float(self.pld.get_delta_for_epsilon(epsilon)) + self.floor)

    def epsilon(self, delta: float) -> float:
        spare = probability("delta", delta) - self.floor
        return math.inf if spare <= 0 else float(self.pld.get_epsilon_for_delta(spare))


@dataclass(frozen=True, init=False, repr=False)
class BesideGaussian(Guarantee):
    """An event with a law of its own beside Gaussian releases of μ in all; a subclass says its curve at finite ε and δ > 0."""

    event: Event
    mu: float

    def __init__(self, event: Event, mu: float, relation: str) -> None:
        if check_relation(relation) not in event.relations():
            raise ValueError(event.refusal(relation))
        self._set(relation, event=event, mu=non_negative("mu", mu))

    def _delta(self, epsilon: float) -> float:
        raise NotImplementedError

    def _epsilon(self, delta: float) -> float:
        raise NotImplementedError

    def delta(self, epsilon: float) -> float:
        epsilon = non_negative("epsilon", epsilon, infinite=True)
        return 0.0 if math.isinf(epsilon) else self._delta(epsilon)

    def epsilon(self, delta: float) -> float:
        delta = probability("delta", delta)
        return math.inf if delta == 0 else self._epsilon(delta)


def guarantee_from_spec(spec: Mapping[str, object]) -> Guarantee:
    """Rebuild a closed-form guarantee from its `spec()`; a composed one is rebuilt from its events by
    `compose`.

    >>> guarantee_from_spec({"kind": "gdp", "mu": 0.5, "relation": "zero-out"})
    GDP(mu=0.5, relation='zero-out')
    """
    kinds: dict[str, type[Guarantee]] = {cls.kind: cls for cls in (PureDP, GDP, ZCDP, ApproxDP)}
    kind = spec.get("kind")
    if kind not in kinds:
        raise ValueError(f"Expected a guarantee kind among {sorted(kinds)}, found {kind!r}. Compose its events instead.")
    return kinds[kind](**{name: value for name, value in spec.items() if name != "kind"})
