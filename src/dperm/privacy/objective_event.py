"""Objective perturbation as an event of its own: what argmin Σℓ + (λ/2)‖w‖² + ⟨b, w⟩ with b ~ N(0, σ²I) costs.

It is *not* a Gaussian release: its δ(ε) can exceed that of N(0,1)/N(D,1) at small ε. It is booked with the numbers that its
theorems use, all without units:

    shift      D = (largest gradient of one record)/σ          (softmax: row norm over σ)
    curvature  c = C·W·R_z·r_m/λ for self-bounding losses; sup φ''·W·R_z·r_m/λ otherwise
               (R_z gradient radius of a row, r_m cap of a row, W largest sample weight; R_z = r_m = R when rows are not weighted)

`docs/theorems/objective.md` proves every bound below.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dperm.privacy.events import Event, register_event
from dperm.privacy.gaussian import gaussian_delta, gaussian_mu
from dperm.privacy.guarantees import BesideGaussian
from dperm.privacy.loss_distributions import from_points
from dperm.privacy.objective_loss import discrete_law, expected_delta, hockey_stick, two_sided_delta
from dperm.privacy.relations import ADD_REMOVE, REPLACE_ONE, ZERO_OUT

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

FORMS = ("self-bounding", "log-cosh", "one-signed", "two-sided", "softmax")
Vertices = Sequence[tuple[float, float, float]]  # (weight, offset, shift): Σ weight·δ_G(ε − offset; shift)


@register_event
@dataclass(frozen=True)
class ObjectiveEvent(Event):
    """The exact minimiser of the randomly tilted objective, for one of five forms of loss.

    self-bounding  |φ'| = s of one sign, φ'' ≤ C·s(1−s)      logistic, softplus-hinge
    log-cosh       φ' = τa, φ'' ≤ 1 − a²                     log-cosh
    one-signed     φ' of one sign, φ'' bounded               huberised hinge
    two-sided      φ' and φ'' bounded                        Huber, extended cumulants
    softmax        K classes with one weight vector each

    **Guarantee.** Zero-out and add-remove of one record (not softmax): δ(ε) = max over directions of E(1 − e^{ε−g(u)})₊, and
    equal to one Gaussian release, δ_G(ε; D), when the form is self-bounding and c ≤ ε + D²/2 (log-cosh: two_sided_delta when
    c ≤ ε and 2c ≤ ε + D²/2). Otherwise a sum over vertices (`vertices`).

    >>> event = ObjectiveEvent("self-bounding", shift=0.25, curvature=1.0)
    >>> event.beside_gaussian(0.0, "zero-out").delta(1.0) == gaussian_delta(1.0, 0.25)
    True
    """

    form: str
    shift: float
    curvature: float
    replace: bool = False
    rows: int = 1
    classes: int = 2
    kind: ClassVar[str] = "objective"

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise ValueError(f"Expected form in {FORMS}, found {self.form!r}.")
        super().__post_init__()
        if not isinstance(self.replace, bool):
            raise ValueError(f"Expected replace=True or False, found {self.replace!r}.")
        if self.form == "softmax" and (self.rows > 1 or self.classes < 2):
            raise ValueError("Expected one row per person and at least two classes for softmax, found otherwise.")
        if self.form != "softmax" and self.classes != 2:
            raise ValueError(f"Expected classes only with form='softmax', found {self.classes} with {self.form!r}.")

    def relations(self) -> tuple[str, ...]:
        return (REPLACE_ONE,) if self.replace else (ZERO_OUT, ADD_REMOVE)

    @property
    def pointwise(self) -> bool:
        """Whether one number u carries the whole privacy loss."""
        return not self.replace and self.rows == 1 and self.form != "softmax"

    def vertices(self) -> list[Vertices]:
        """Alternative bounds, each Σ weight·δ_G(ε − offset; shift); shift 0 stands for the constant `offset`.

        The loss is multilinear in the slopes plus at most `offset`, so it is at most the largest of its vertices plus `offset`,
        and E(1 − e^{ε−max})₊ ≤ Σ E(1 − e^{ε−vertex})₊.
        """
        D, c, k = self.shift, self.curvature, self.rows
        excess = max(0.0, c - D * D / 2)
        if self.form == "softmax":
            K = self.classes
            offset = min((1 - 1 / K) * excess, (K - 1) * math.log1p(c / K))
            if self.replace:
                return [[(1, offset, 0), (2 * (K - 1), offset, math.sqrt(2) * D), ((K - 1) ** 2, offset, 2 * math.sqrt(2) * D)]]
            return [[(1, offset, 0), (K - 1, offset, math.sqrt(2) * D)]]
        slopes = 2 * k if self.replace else k
        offset = k * min(
            {"self-bounding": excess / 4, "log-cosh": excess}.get(self.form, math.inf),
            math.log1p(c / 4 if self.form == "self-bounding" else c),
        )
        if self.form in ("self-bounding", "one-signed"):
            listed: list[Vertices] = [[(float(math.comb(slopes, j)), offset, j * D) for j in range(slopes + 1)]]
            if self.form == "self-bounding" and self.replace and k == 1:
                # The record that leaves has slope s: the loss is ≤ max(K, V10, V01 + K, V11), see the theorem page.
                listed.append([(1, excess, 0), (1, 0.0, D), (1, excess, D), (1, 0.0, 2 * D)])
            return listed
        if slopes == 2:
            listed = [[(2, offset, 2 * D), (2, offset, math.sqrt(2) * D)]]
            if self.form == "log-cosh" and self.replace:
                # The same argument: ≤ max(V±±, D²/2 + 2K + V0±), where V0 has only the record that arrives.
                listed.append([(2, 0.0, 2 * D), (2, 0.0, math.sqrt(2) * D), (2, 2 * excess + D * D / 2, D)])
            return listed
        return [[(2.0**slopes, offset, slopes * D)]]

    def delta(self, epsilon: float, mu: float = 0.0) -> float:
        """δ(ε) of this event beside Gaussian releases of total μ, whichever order they came in."""
        if self.pointwise:
            closed = self._closed_form(epsilon) if mu == 0 else None
            if closed is not None:
                return closed
            return max(expected_delta(self.form, self.shift, self.curvature, way, epsilon, mu) for way in (0, 1))
        sums = []
        for listed in self.vertices():
            parts = [
                weight * float(hockey_stick(np.array([epsilon - offset]), math.hypot(shift, mu))[0])
                for weight, offset, shift in listed
            ]
            sums.append(math.fsum(parts))
        return min(1.0, min(sums) * (1 + 1e-12))

    def _closed_form(self, epsilon: float) -> float | None:
        D, c = self.shift, self.curvature
        gain = epsilon + D * D / 2
        if self.form == "self-bounding" and c <= gain:
            return float(gaussian_delta(epsilon, D))
        if self.form == "log-cosh" and c <= epsilon and 2 * c <= gain:
            return two_sided_delta(epsilon, D)
        return None

    def beside_gaussian(self, mu: float, relation: str) -> ObjectiveDP:
        """The guarantee of this event composed with Gaussian releases of total μ."""
        return ObjectiveDP(self, mu, relation)

    def scale(self) -> float:
        factor = {"softmax": math.sqrt(2)}.get(self.form, 1.0) * self.rows * (2 if self.replace else 1)
        return factor * self.shift + min(self.curvature, 1.0)

    def loss_distribution(self, discretization: float) -> PrivacyLossDistribution:
        """One privacy-loss distribution per direction, dominating the event on the grid."""
        if self.pointwise:
            return _pair(self, discretization)
        return _from_profile(self, discretization)


@dataclass(frozen=True, init=False, repr=False)
class ObjectiveDP(BesideGaussian):
    """One objective perturbation beside μ-GDP: δ(ε) = E_u[δ_G(ε − g(u); μ)], the worse of both directions.

    **Guarantee.** Given everything released before, g(u) bounds the event's loss with u ~ N(0, 1), and N(0,1)/N(μ,1) dominates
    the Gaussian part adaptively, so the profile of the product pair applies in each direction.

    >>> guarantee = ObjectiveEvent("self-bounding", 0.2, 1.0).beside_gaussian(0.05, "zero-out")
    >>> bool(guarantee.delta(guarantee.epsilon(1e-6)) <= 1e-6)
    True
    """

    kind: ClassVar[str] = "objective"
    event: ObjectiveEvent

    def _delta(self, epsilon: float) -> float:
        return self.event.delta(epsilon, self.mu)

    def _epsilon(self, delta: float) -> float:
        return _epsilon(self.event, self.mu, delta)


def _falling_root(log_excess: Callable[[float], float], low: float, high: float) -> float:
    """A point, to a relative 1e-12, where the falling function is ≤ 0; `high` must be one. Brent's method, then steps upwards."""
    from scipy.optimize import brentq

    if not (math.isfinite(log_excess(low)) and log_excess(low) > 0 > log_excess(high)):
        return high
    root = float(brentq(log_excess, low, high, xtol=1e-300, rtol=1e-13))
    step = 1e-13 * root
    while root < high and log_excess(root) > 0:  # the answer must have been evaluated and found to keep the target
        root, step = min(root + step, high), 2 * step
    return root


def _first_power(log_excess: Callable[[float], float], most: float) -> float | None:
    """The first power of two from 1 on where the falling function is ≤ 0; None where that is beyond `most`."""
    high = 1.0
    while log_excess(high) > 0:
        high *= 2
        if high > most:
            return None
    return high


@functools.lru_cache(maxsize=512)
def _epsilon(event: ObjectiveEvent, mu: float, delta: float) -> float:
    floor = min(1e-300, 1e-10 * delta)  # below δ, or no ε but a power of two would be found to keep it

    def log_excess(epsilon: float) -> float:
        return math.log(max(event.delta(epsilon, mu), floor) / delta)

    if log_excess(0.0) <= 0:
        return 0.0
    high = _first_power(log_excess, 1e13)  # beyond every ε that a target may have
    return math.inf if high is None else _falling_root(log_excess, 0.0, high)


@functools.lru_cache(maxsize=512)
def calibrate_shift(
    epsilon: float,
    delta: float,
    *,
    form: str = "self-bounding",
    curvature: float,
    relation: str,
    mu_pre: float = 0.0,
    rows: int = 1,
    classes: int = 2,
) -> float:
    """The largest D for which an objective perturbation of this curvature, beside Gaussian releases of total μ_pre, is (ε, δ)-DP.

    Then σ = (largest gradient of one record)/D. Rounded down: the returned D was evaluated and found to keep the target.

    >>> round(1 / calibrate_shift(1.0, 1e-6, curvature=1.0, relation="zero-out"), 7)
    4.2246789
    """
    if delta <= 0:
        raise ValueError(f"Expected delta > 0 for Gaussian noise, found {delta}. Use pure noise for delta=0.")
    replace = relation == REPLACE_ONE
    budget = gaussian_mu(epsilon, delta)
    if mu_pre >= budget:
        raise ValueError(f"Expected earlier releases below mu={budget:g}, found {mu_pre:g}. Give them a smaller share.")

    def event(shift: float) -> ObjectiveEvent:
        return ObjectiveEvent(form, shift, curvature, replace, rows, classes)

    ideal = math.sqrt(budget**2 - mu_pre**2)
    if mu_pre == 0 and event(ideal)._closed_form(epsilon) == gaussian_delta(epsilon, ideal) and event(ideal).pointwise:
        return ideal

    def log_excess(smallness: float) -> float:
        return math.log(max(event(ideal / smallness).delta(epsilon, mu_pre), 1e-300) / delta)

    high = _first_power(log_excess, 1e6)
    if high is None:
        raise ValueError(
            f"Expected a larger ridge, found one whose log-determinant alone costs more than epsilon={epsilon:g} "
            f"(curvature {curvature:g}). Raise the regularization or epsilon."
        )
    if high == 1.0:
        return ideal
    return ideal / _falling_root(log_excess, high / 2, high)


def _pair(event: ObjectiveEvent, discretization: float) -> object:
    """dp_accounting's "remove" is with → without, the order of our directions."""
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    sides = []
    for way in (0, 1):
        losses, masses = discrete_law(event.form, event.shift, event.curvature, way)
        last = max(1, math.ceil(losses[-1] / discretization))
        stride = max(1, last // 4000)
        steps = np.arange(0, last + stride, stride)
        grid = steps * discretization
        # Suffix sums give δ = Σ_{l>ε} m(1 − e^{ε−l}) of the discrete law at every grid point.
        first = np.searchsorted(losses, grid, side="right")
        suffix = np.append(np.cumsum(masses[::-1])[::-1], 0.0)[first]
        tilted = np.append(np.cumsum((masses * np.exp(-losses))[::-1])[::-1], 0.0)[first]
        deltas = np.clip(suffix - np.exp(grid) * tilted, 0.0, 1.0) * (1 + 1e-6) + 1e-30
        deltas = np.minimum(1.0, np.maximum.accumulate(deltas[::-1])[::-1])
        sides.append(pld_pmf.create_pmf_pessimistic_connect_dots(discretization, steps, deltas))
    return privacy_loss_distribution.PrivacyLossDistribution(*sides)


def _from_profile(event: ObjectiveEvent, discretization: float) -> object:
    """The convex hull of the proven profile; the relation is symmetric, or the bound holds in both directions."""
    reach = 1.0
    while event.delta(reach) > 1e-26 and reach < 600:
        reach *= 1.5
    last = max(1, math.ceil(reach / discretization))
    steps = np.unique(np.round(np.linspace(0, last, 2001)).astype(np.int64))
    deltas = np.array([event.delta(float(step * discretization)) for step in steps])
    return from_points(steps, np.minimum.accumulate(deltas), discretization)
