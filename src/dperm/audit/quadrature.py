"""The true privacy profile of a mechanism whose output density is explicit, by quadrature with an error bar.

    δ(ε) = ∫ (p - e^ε q)₊      for a pair of neighbours with output densities p and q, both directions, worst pair of a family

The box is cut into cells. Their masses P_c, Q_c come from Gauss–Legendre rules of two orders, whose difference is charged.

    low(ε)  = Σ_c (P_c - e^ε Q_c)₊                 merging a cell into one outcome is post-processing: never above the truth
    high(ε) = low on cells where log p/q stays on one side of ε; on the others ≤ P_c·(1 - e^{ε - max log p/q}); plus tails

`low` is a bound whatever the densities are. `high` needs log p/q to range over a cell by at most half again what the nodes and
ends inside that cell show, which holds for densities that are smooth at the scale of a cell (some 1/1000 of the box).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.privacy import Guarantee
from dperm.problem.arrays import Vector

Box = tuple[tuple[float, float], ...]
OneColumn = tuple[Vector, Vector]  # x and y of one-dimensional data
Measured = tuple[Vector, ...]  # of every cell: masses of p and q, their errors, and the range of log p/q
D = TypeVar("D")


@dataclass(frozen=True)
class Density:
    """A normalised output density: log p at points of shape (m,) or, in the plane, (m, 2); and a box that holds its mass."""

    log: Callable[[Vector], Vector]
    box: Box

    @property
    def dimension(self) -> int:
        return len(self.box)


@dataclass(frozen=True)
class ExactProfile:
    """low ≤ δ(ε) ≤ high for every ε asked for, of the worst pair found, and which pair and direction that was."""

    epsilons: Vector
    low: Vector
    high: Vector
    pair: object
    direction: str

    @property
    def delta(self) -> Vector:
        return (self.low + self.high) / 2

    @property
    def error(self) -> Vector:
        return (self.high - self.low) / 2

    def epsilon(self, delta: float) -> tuple[float, float]:
        """An interval that holds ε(δ), by interpolation of log δ between the ε asked for (which should be dense)."""
        return _crossing(self.epsilons, self.low, delta, first=True), _crossing(self.epsilons, self.high, delta, first=False)

    def breaks(self, guarantee: Guarantee) -> bool:
        """Whether the lower limit exceeds the claimed profile somewhere: a proof of violation up to rounding."""
        return bool(self.excess(guarantee) > 0)

    def holds(self, guarantee: Guarantee) -> bool:
        """Whether the upper limit stays within the claimed profile everywhere, up to the error bar."""
        return all(bool(high <= guarantee.delta(float(e)) + 1e-13) for e, high in zip(self.epsilons, self.high))

    def excess(self, guarantee: Guarantee) -> float:
        """The largest low(ε)/δ_claimed(ε) - 1 over points above rounding; positive means violation."""
        seen = self.low > 1e-12
        claimed = np.array([guarantee.delta(float(epsilon)) for epsilon in self.epsilons[seen]])
        return float(np.max((self.low[seen] - 1e-12) / np.maximum(claimed, 1e-300) - 1, initial=-1.0))


def _crossing(epsilons: Vector, deltas: Vector, delta: float, *, first: bool) -> float:
    """ε where δ(ε) falls through `delta`; the grid point before it (first) or after it where the value is off the grid."""
    below = np.flatnonzero(deltas <= delta)
    if len(below) == 0:
        return float(epsilons[-1]) if first else math.inf
    k = int(below[0])
    if k == 0:
        return float(epsilons[0])
    upper, lower = deltas[k - 1], max(deltas[k], 1e-300)
    # log δ is concave in ε here: the chord lies below the curve, so it errs low; the right end of the cell errs high.
    share = math.log(upper / delta) / math.log(upper / lower) if delta > 0 else 1.0
    step = float(epsilons[k] - epsilons[k - 1])
    return float(epsilons[k - 1]) + min(max(share, 0.0), 1.0) * step if first else float(epsilons[k - 1]) + step


def profile(p: Density, q: Density, epsilons: ArrayLike, *, cells: int | None = None) -> tuple[Vector, Vector]:
    """Lower and upper limits of ∫(p - e^ε q)₊ for each ε.

    >>> gauss = lambda m: Density(lambda x: -0.5 * (x - m) ** 2 - 0.5 * np.log(2 * np.pi), ((-12.0, 12.0),))
    >>> from dperm.privacy import gaussian_delta
    >>> low, high = profile(gauss(1.0), gauss(0.0), [1.0])
    >>> bool(low[0] <= gaussian_delta(1.0, 1.0) <= high[0]), bool(high[0] - low[0] < 1e-6)
    (True, True)
    """
    levels = np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
    box = _hull(p.box, q.box)
    count = cells if cells is not None else (4096 if len(box) == 1 else 320)
    measured = _cells(p, q, box, count)
    outside = max(0.0, 1.0 - float(measured[0].sum()) + float(measured[2].sum())) + 1e-15
    lows, highs = np.zeros(len(levels)), np.zeros(len(levels))
    for k, epsilon in enumerate(levels.tolist()):
        low, high, unsure = _limits(measured, epsilon)
        if len(box) == 1 and 0 < len(unsure) <= 8:  # cut the few cells where the sign changes once more, into 16 each
            width = (box[0][1] - box[0][0]) / count
            for c in unsure.tolist():
                inner = _limits(_cells(p, q, ((box[0][0] + c * width, box[0][0] + (c + 1) * width),), 16), epsilon)
                low[c], high[c] = inner[0].sum(), inner[1].sum()
        lows[k] = max(float(np.sum(low)) - 1e-14, 0.0)
        highs[k] = float(np.sum(high)) + outside + 1e-14
    return lows, np.maximum(highs, lows)


def _limits(measured: Measured, epsilon: float) -> tuple[Vector, Vector, NDArray[np.int64]]:
    """Both limits on every cell, and the cells in which log p/q may pass ε."""
    p_mass, q_mass, p_error, q_error, low_ratio, high_ratio = measured
    margin = 0.25 * (high_ratio - low_ratio)
    floor, ceiling = low_ratio - margin, high_ratio + margin
    gain, slip = p_mass - math.exp(epsilon) * q_mass, p_error + math.exp(epsilon) * q_error
    kept = -np.expm1(np.minimum(epsilon - ceiling, 0.0)) * (p_mass + p_error)  # nothing where the ratio stays below
    high = np.maximum(np.where(floor >= epsilon, gain + slip, kept), 0.0)
    return np.maximum(gain - slip, 0.0), high, np.flatnonzero((floor < epsilon) & (ceiling > epsilon) & (p_mass > 1e-14))


def _hull(one: Box, other: Box) -> Box:
    if len(one) != len(other):
        raise ValueError(f"Expected densities of one dimension, found {len(one)} and {len(other)}.")
    return tuple((min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(one, other))


def _cells(p: Density, q: Density, box: Box, count: int) -> Measured:
    """Masses with their quadrature errors, and the range of log p/q over the nodes and ends of every cell."""
    order = 8 if len(box) == 1 else 4
    fine, fine_weights = np.polynomial.legendre.leggauss(order)
    coarse, coarse_weights = np.polynomial.legendre.leggauss(order // 2)
    nodes = np.r_[fine, coarse, -1.0, 1.0]
    w_fine = np.r_[fine_weights, np.zeros(len(coarse) + 2)] / 2
    w_coarse = np.r_[np.zeros(order), coarse_weights, 0.0, 0.0] / 2
    widths = [(high - low) / count for low, high in box]
    axes = [low + width * (np.arange(count)[:, None] + (nodes[None, :] + 1) / 2) for (low, _), width in zip(box, widths)]
    if len(box) == 1:
        parts = [_measure(p, q, axes[0], w_fine * widths[0], w_coarse * widths[0])]
    else:
        weights = [np.multiply.outer(w, w).ravel() * widths[0] * widths[1] for w in (w_fine, w_coarse)]
        parts = []
        for row in axes[0]:  # one strip of cells at a time keeps the memory small
            first = np.broadcast_to(row[None, :, None], (count, len(nodes), len(nodes)))
            second = np.broadcast_to(axes[1][:, None, :], (count, len(nodes), len(nodes)))
            points = np.stack([first, second], axis=-1).reshape(count, -1, 2)
            parts.append(_measure(p, q, points, weights[0], weights[1]))
    return tuple(np.concatenate(values) for values in zip(*parts))


def _measure(p: Density, q: Density, points: Vector, fine: Vector, coarse: Vector) -> Measured:
    flat = points.reshape(-1, *points.shape[2:])
    shape = points.shape[:2]
    log_p, log_q = p.log(flat).reshape(shape), q.log(flat).reshape(shape)
    masses, errors = [], []
    for logs in (log_p, log_q):
        values = np.exp(logs)
        mass = values @ fine
        masses.append(mass)
        errors.append(np.abs(mass - values @ coarse) + 1e-15 * mass)
    ratio = np.where(np.isneginf(log_p), -np.inf, log_p - np.where(np.isneginf(log_q), -800.0, log_q))
    ratio = np.clip(ratio, -800.0, 800.0)
    return masses[0], masses[1], errors[0], errors[1], ratio.min(axis=1), ratio.max(axis=1)


def exact(
    density: Callable[[D], Density],
    pairs: Iterable[tuple[D, D]],
    *,
    epsilons: ArrayLike | None = None,
    cells: int | None = None,
    at: float | None = None,
) -> ExactProfile:
    """The worst privacy profile over a family of neighbouring pairs.

    density   data ↦ `Density` of the mechanism's output (see `dperm.audit.densities` for ready-made ones)
    pairs     the neighbours to try, e.g. from `dperm.audit.neighbour_pairs` or `dperm.audit.search`
    epsilons  where to evaluate; default 0 … 12 in steps of 0.05
    at        the ε by which "worst" is judged; default: the largest sum of low over all ε

    >>> from dperm.audit.densities import gaussian_output
    >>> found = exact(lambda data: gaussian_output(sum(data), 1.0), [([0, 1], [0, 1]), ([0, 1], [0, 2])], epsilons=[1.0])
    >>> found.pair, bool(abs(found.delta[0] - 0.1269367375) < 1e-6)
    (([0, 1], [0, 2]), True)
    """
    levels = np.linspace(0.0, 12.0, 241) if epsilons is None else np.atleast_1d(np.asarray(epsilons, dtype=np.float64))
    judged = levels if at is None else np.array([at])
    if not (np.all(levels >= 0) and np.all(judged >= 0) and np.all(np.isfinite(levels))):
        raise ValueError("Expected finite epsilons ≥ 0, found others. Pass e.g. epsilons=[0.5, 1.0].")
    worst: ExactProfile | None = None
    best = -1.0
    for data, neighbour in pairs:
        p, q = density(data), density(neighbour)
        for direction, one, two in (("data to neighbour", p, q), ("neighbour to data", q, p)):
            low, high = profile(one, two, levels, cells=cells)
            value = float(np.sum(low)) if at is None else float(profile(one, two, judged, cells=cells)[0][0])
            if value > best:
                best, worst = value, ExactProfile(levels, low, high, (data, neighbour), direction)
    if worst is None:
        raise ValueError("Expected at least one pair of neighbours, found none. Pass pairs=[(data, neighbour)].")
    return worst


def pure_epsilon(p: Density, q: Density, *, cells: int | None = None, floor: float = 1e-9) -> float:
    """The largest log(P_c/Q_c) over cells of mass ≥ floor, both directions: a lower bound on ε of a pure mechanism."""
    p_mass, q_mass, p_error, q_error, _, _ = _cells(p, q, _hull(p.box, q.box), cells or (4096 if p.dimension == 1 else 320))
    worst = 0.0
    for top, bottom, slip, room in ((p_mass, q_mass, p_error, q_error), (q_mass, p_mass, q_error, p_error)):
        seen = top > floor
        worst = max(worst, float(np.max(np.log((top - slip)[seen] / np.maximum((bottom + room)[seen], 1e-300)), initial=0.0)))
    return worst


def neighbour_pairs(
    x_values: Sequence[float], y_values: Sequence[float], rest: tuple[ArrayLike, ArrayLike]
) -> list[tuple[OneColumn, OneColumn]]:
    """All replace-one pairs of one-dimensional data sets: a record (x, y) appended to `rest`, x and y from the given values."""
    records = [(float(x), float(y)) for x in x_values for y in y_values]
    sets = [(np.r_[rest[0], x], np.r_[rest[1], y]) for x, y in records]
    return [(one, other) for i, one in enumerate(sets) for other in sets[i + 1 :]]
