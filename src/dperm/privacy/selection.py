"""Private selection: run a private base K times for a random K, publish only the best run (Papernot and
Steinke 2022).

The law of K is public and does not depend on the data; the score that picks the best run is part of the
base's release or computed from it. With the base's Rényi curve ε(α) and profile δ(ε):

    truncated negative binomial (η, γ), any order a > 1:
        ε'(α) = ε(α) + (1+η)·[(1 − 1/a)·ε(a) + ln(1/γ)/a] + ln E[K]/(α−1);   pure base: (2 + η)·ε
    Poisson(m), d = δ(e) with exp(e) = 1 + 1/(α−1):
        ε'(α) = ε(α) + m·d + ln(m)/(α−1)

The release of the best run is an event of its own (`SelectionEvent`): it has the Rényi curve ε'(α) and nothing simpler. A ledger
pays for it by the Rényi filter. Alone, or beside Gaussian releases, `compose` converts the sum of the curves.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar

from dperm.privacy.checks import positive, probability
from dperm.privacy.conversions import minimize_order, rdp_epsilon, rdp_log_delta
from dperm.privacy.events import Event, register_event
from dperm.privacy.guarantees import GDP, BesideGaussian, Guarantee


@dataclass(frozen=True)
class TruncatedNegativeBinomial:
    """K ≥ 1 with shape η > −1 and stopping parameter γ in (0, 1): geometric for η = 1, logarithmic for η
    = 0.

        E[K] = η(1−γ)/(γ(1−γ^η)),   (1/γ − 1)/ln(1/γ) at η = 0.

    >>> TruncatedNegativeBinomial(1.0, 0.1).expected
    10.0
    """

    shape: float
    stop: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.shape) and self.shape > -1):
            raise ValueError(f"Expected shape > -1, found {self.shape}. Pass e.g. shape=1.0 (geometric).")
        if not 0 < self.stop < 1:
            raise ValueError(f"Expected stop in (0, 1), found {self.stop}. Pass e.g. stop=0.1.")

    @property
    def expected(self) -> float:
        """E[K]."""
        if self.shape == 1:
            return 1 / self.stop
        if self.shape == 0:
            return (1 / self.stop - 1) / math.log(1 / self.stop)
        return self.shape * (1 - self.stop) / (-self.stop * math.expm1(self.shape * math.log(self.stop)))

    def rdp(self, base: Guarantee, alpha: float) -> float:
        """ε'(α): Rényi cost of publishing the best of K runs (theorem 2 of the paper)."""

        def price(order: float) -> float:
            return (1 - 1 / order) * base.rdp(order) + math.log(1 / self.stop) / order

        choice = (1 + self.shape) * minimize_order(price)
        return base.rdp(alpha) + choice + math.log(self.expected) / (alpha - 1)

    def pure(self, epsilon: float) -> float:
        """(2 + η)ε: the cost when every run is ε-DP (α → ∞ with α̂ → ∞ above)."""
        return (2 + self.shape) * epsilon


@dataclass(frozen=True)
class PoissonRuns:
    """K ~ Poisson(m); K = 0 publishes a fixed public answer.

    >>> PoissonRuns(10.0).expected
    10.0
    """

    mean: float

    def __post_init__(self) -> None:
        positive("mean", self.mean)

    @property
    def expected(self) -> float:
        """E[K]."""
        return self.mean

    def rdp(self, base: Guarantee, alpha: float) -> float:
        """ε'(α): Rényi cost of publishing the best of K runs (theorem 6 of the paper)."""
        failure = base.delta(math.log1p(1 / (alpha - 1)))
        return base.rdp(alpha) + self.mean * failure + math.log(self.mean) / (alpha - 1)

    def pure(self, epsilon: float) -> float:
        """∞: Poisson runs have no pure guarantee."""
        return math.inf


Runs = TruncatedNegativeBinomial | PoissonRuns  # a law of the number of runs


def law_of(name: str, expected: float) -> Runs:
    """The law of K with the given mean: "logarithmic", "geometric" or "poisson".

    >>> law_of("geometric", 10.0)
    TruncatedNegativeBinomial(shape=1.0, stop=0.1)
    """
    if not (math.isfinite(expected) and expected > 1):
        raise ValueError(f"Expected expected_runs > 1, found {expected}. Pass the mean number of runs, e.g. 10.")
    if name == "poisson":
        return PoissonRuns(float(expected))
    if name == "geometric":
        return TruncatedNegativeBinomial(1.0, 1.0 / expected)
    if name != "logarithmic":
        raise ValueError(f"Expected runs in ('geometric', 'logarithmic', 'poisson'), found {name!r}. Pass one of them.")
    low, high = -700.0, math.log(1 - 1e-12)  # log of the stopping parameter: the mean falls as it grows
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if TruncatedNegativeBinomial(0.0, math.exp(middle)).expected > expected else (low, middle)
    return TruncatedNegativeBinomial(0.0, math.exp(high))


def selection_epsilon(base: Guarantee, runs: Runs, delta: float) -> float:
    """ε at δ of publishing the best of K ~ `runs` runs of a mechanism with guarantee `base`.

    ε = min_{α>1} ε'(α) + [ln(1/δ) + (α−1)ln(1−1/α) − ln α]/(α−1); for a pure base also (2+η)ε, whatever δ.

    **Guarantee.** (ε, δ)-DP under the relation of `base`, if every run is an independent use of the base,
    K is drawn from `runs` and never published, and the score is part of the base's output. `base` needs a
    Rényi curve (PureDP, GDP, ZCDP or a composition of them); otherwise ∞.

    >>> from dperm.privacy import GDP
    >>> round(selection_epsilon(GDP(0.1, "replace-one"), TruncatedNegativeBinomial(1.0, 0.1), 1e-6), 6)
    0.898078
    """
    delta = probability("delta", delta)
    single = base.epsilon(0.0)
    pure = runs.pure(single) if math.isfinite(single) else math.inf
    if delta == 0:
        return pure
    return min(pure, minimize_order(lambda alpha: rdp_epsilon(alpha, runs.rdp(base, alpha), delta)))


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
class SelectionDP(BesideGaussian):
    """ε(δ) = min_α ε'(α) + αμ²/2 + [ln(1/δ) + (α-1)ln(1-1/α) - ln α]/(α-1): Rényi divergences add up under adaptive composition.

    >>> one = SelectionDP(SelectionEvent(0.1, "geometric", 10.0), 0.0, "replace-one").epsilon(1e-6)
    >>> one == selection_epsilon(GDP(0.1, "replace-one"), TruncatedNegativeBinomial(1.0, 0.1), 1e-6)
    True
    """

    kind: ClassVar[str] = "selection"
    event: SelectionEvent

    def rdp(self, alpha: float) -> float:
        return self.event.rdp(alpha) + alpha * self.mu**2 / 2

    def _epsilon(self, delta: float) -> float:
        return minimize_order(lambda alpha: rdp_epsilon(alpha, self.rdp(alpha), delta))

    def _delta(self, epsilon: float) -> float:
        return min(1.0, math.exp(minimize_order(lambda alpha: rdp_log_delta(alpha, self.rdp(alpha), epsilon))))
