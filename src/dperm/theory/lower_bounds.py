"""What no private algorithm can beat, as slopes (C12): orders of growth without constants."""

from __future__ import annotations

import math

from dperm.theory.checks import fraction, theorem

LOWER_BOUND_KINDS = ("convex", "strongly-convex")


class Slope(float):
    """A number with a label that says it is an order of growth: Ω(value) with an unknown constant.

    >>> Slope(0.5, "Ω(1/n)").label
    'Ω(1/n)'
    """

    label: str

    def __new__(cls, value: float, label: str) -> Slope:
        number = super().__new__(cls, value)
        number.label = label
        return number

    def __reduce__(self) -> tuple[type[Slope], tuple[float, str]]:
        return Slope, (float(self), self.label)


@theorem
def lower_bound(kind: str, n: float, d: float, epsilon: float, delta: float | None = None, *, with_log: bool = False) -> Slope:
    """Convex: min(1, d/(nε)) pure, min(1, √d/(nε)) for δ > 0.   Strongly convex: the squares of these.

    Smallest order of mean-scale excess empirical risk for L = diam = 1 (strongly convex: λ̄ = 1),
    Bassily–Smith–Thakurta 2014.
    **Read as a slope**: the papers give no explicit constant, so the number must not be compared with a
    risk, only drawn beside it; `.label` says so. `delta=None` or 0 asks for pure DP; `with_log=True` adds
    Steinke–Ullman's √ln(1/δ) (its square when strongly convex). `kind` is "convex" or "strongly-convex"; the
    suffixes "-pure" and "-approximate" are accepted and checked.

    >>> bound = lower_bound("convex", n=10**4, d=50, epsilon=1, delta=1e-6)
    >>> round(bound, 6), bound.label
    (0.000707, 'slope only, constant unknown: Ω(min(1, √d/(nε)))')
    """
    pure = delta is None or delta == 0
    if not pure:
        fraction("delta", float(delta or 0.0))
    base = kind.replace("_", "-")
    for suffix, wants_pure in (("-pure", True), ("-approximate", False)):
        if base.endswith(suffix):
            base = base.removesuffix(suffix)
            if wants_pure and not pure:
                raise ValueError(f"Expected delta=None or 0 with kind={kind!r}, found {delta}. Drop delta.")
            if not wants_pure and pure:
                raise ValueError(f"Expected 0 < delta < 1 with kind={kind!r}, found {delta}. Pass delta.")
    if base not in LOWER_BOUND_KINDS:
        raise ValueError(f"Expected kind in {', '.join(LOWER_BOUND_KINDS)}, found {kind!r}. Pass one of them.")
    log_term = 1.0 if pure or not with_log else math.sqrt(math.log(1 / float(delta or 1.0)))
    rate = (d if pure else math.sqrt(d)) * log_term / (n * epsilon)
    symbol = "d/(nε)" if pure else ("√(d ln(1/δ))/(nε)" if with_log else "√d/(nε)")
    if base == "strongly-convex":
        rate, symbol = rate**2, f"({symbol})²"
    return Slope(min(1.0, rate), f"slope only, constant unknown: Ω(min(1, {symbol}))")
