"""Intervals of ratios of noisy sums that hold also where noise dominates (Fieller).

A score is θ = E a / E b. For the true θ the sum of a - θ·b has mean 0, so A - θB, with A and B the released sums, is 0 up to
sampling and noise. The interval is every θ that passes the test (A - θB)² ≤ z²·(V_aa - 2θV_ab + θ²V_bb), where V adds the second
moments of the rows and the covariance of the noise. Nothing is divided by an estimate that may be near 0: where B does not stand
out, the set is unbounded and the score is not known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dperm.release.record import Known, Unknown, not_known


@dataclass(frozen=True)
class Ratio:
    """A, B and their covariance: `rows` as second moments (aa, ab, bb) of the rows, `noise` of what was added."""

    top: float
    bottom: float
    rows: tuple[float, float, float]
    noise: tuple[float, float, float]

    def covariance(self) -> tuple[float, float, float]:
        """Second moments made consistent: noise can push a sum of squares below 0 or a cross moment beyond what squares allow."""
        aa, ab, bb = self.rows
        aa, bb = max(aa, 0.0), max(bb, 0.0)
        most = math.sqrt(aa * bb)
        return aa + self.noise[0], min(max(ab, -most), most) + self.noise[1], bb + self.noise[2]

    def interval(self, z: float) -> tuple[float, float] | None:
        """Fieller's interval, or None where it is unbounded or empty (its ends are no numbers)."""
        return solve(self.top, self.bottom, self.covariance(), z)


def share(part: float, whole: float, noise: tuple[float, float, float], z: float) -> tuple[float, float] | None:
    """Of a share: a row is 1 or 0, so its variance at a candidate θ is θ(1 - θ), which needs no estimate (Wilson)."""
    rows = max(whole, 0.0)
    return solve(part, whole, (noise[0], noise[1] - rows / 2, noise[2] - rows), z)


def solve(top: float, bottom: float, covariance: tuple[float, float, float], z: float) -> tuple[float, float] | None:
    """Roots of (A - θB)² = z²(V_aa - 2θV_ab + θ²V_bb), where the set between them is bounded and B > 0."""
    aa, ab, bb = covariance
    square = bottom * bottom - z * z * bb
    middle = top * bottom - z * z * ab
    last = top * top - z * z * aa
    inside = middle * middle - square * last
    if not (bottom > 0 and square > 0 and inside >= 0 and math.isfinite(inside)):
        return None
    reach = math.sqrt(inside)
    return (middle - reach) / square, (middle + reach) / square


def known(value: float, interval: tuple[float, float], bounds: tuple[float, float]) -> Known:
    """A score with its interval cut to what the score can be; an estimate outside gives way to the middle of the interval."""
    low, high = (min(max(side, bounds[0]), bounds[1]) for side in interval)
    inside = low < value < high or low == high == value
    return {"value": float(value if inside else (low + high) / 2), "low": float(low), "high": float(high)}


MOST = 30.0  # beyond this the factor is not worth naming


def unknown(crowding: float, epsilon: float, n: int) -> Unknown:
    """No value, no interval, and in words what it would take: noise falls as 1/(ε·n), so `crowding` times as much of either."""
    factor = min(max(crowding, 1.5), MOST)
    needed = _rounded(epsilon * factor), _rounded(n * factor)
    why = (
        f"not known at this budget: the noise of privacy hides it. {'At least' if factor == MOST else 'About'} epsilon = "
        f"{needed[0]:g}, or {needed[1]:,.0f} rows at epsilon = {epsilon:g}, would show it"
    )
    return not_known(why)


def _rounded(value: float) -> float:
    """Up to two digits: the factor is a rough one."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.ceil(value / unit - 1e-9) * unit
