"""The numbers of a profile, each with its error bar, from what was released. Pure.

An error bar speaks of the table itself: with probability `level` it holds the number that the counted rows have. The only thing
unknown is the noise, whose law is public, so that the bars of counts, shares, means and quantiles are exact at any size:

count      value ± zσ
ratio      Fieller: all r with (A - rB)² ≤ z²σ²(1 + r²), for A/B with independent noise of the same σ
quantile   a bin is kept unless its left end has significantly more than a share q of the rows below it, or its right end less:
           D_j = C_j - qP has variance σ²[j(1-q)² + (m-j)q²] for the count C_j below edge j and P in all m bins
correlation  of rows where both are present, first order in the noise, wider by what smaller variances would make of it
spread     √(S₂/S₀ - (S₁/S₀)²), first order in the noise; only where S₀ is far above it

Means, spreads and quantiles are those of the column cut to the ends of its histogram.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy.special import ndtri

from dperm.problem.arrays import Vector
from dperm.profiles import terms as of
from dperm.profiles.plan import Found, decide, noise_of, numbers_of, numeric, term_of
from dperm.profiles.question import Question
from dperm.release.plan import Plan, Released
from dperm.release.record import ColumnRecord, FoundRecord, Known, QuantileRecord, Score, bar, mapped, not_known

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
FAR = 20.0  # deviations of noise that S₀ must have for a spread: second-order terms are then below a tenth of the bar
LOOK_NAMES = ("missing", "number", "truth value", "date", "text")


def described(plan: Plan, question: Question, released: Released, level: float) -> FoundRecord:
    """{"rows": …, "columns": [...]}: everything that a profile says."""
    found, z = decide(plan, question, released), float(ndtri((1 + level) / 2))
    columns = [_column(asked.name, column) for asked, column in zip(question.columns, found)]
    look = Look(plan, question, released, found, columns, z)
    if "types" in released:
        reach = z * look.noise("types")
        table = look.sums("types", of.LOOKS * len(question.unknown)).reshape(-1, of.LOOKS)
        for j, row in zip(question.unknown, table):
            columns[j]["reads_as"] = {name: bar(value, reach) for name, value in zip(LOOK_NAMES, row)}
    told: FoundRecord = {"columns": columns}
    if "counts" in released:
        told["rows"] = _counted(look)
    if "moments" in released:
        _averaged(look)
    if "joint" in released:
        _correlated(look)
    return told


@dataclass(frozen=True)
class Look:
    """A profile while its numbers are written down: `columns` are what is said of each so far."""

    plan: Plan
    question: Question
    released: Released
    found: tuple[Found, ...]
    columns: list[ColumnRecord]
    z: float

    def noise(self, stage: str) -> float:
        return noise_of(self.plan, stage, term_of(stage, self.question, self.found))

    def sums(self, stage: str, size: int) -> Vector:
        return numbers_of(self.released[stage], size)


def _column(name: str, found: Found) -> ColumnRecord:
    scale, levels = found.scale, found.levels
    return {
        "name": name,
        "kind": found.kind,
        "levels": None if levels is None else list(levels),
        "scale": None if scale is None else {"low": scale.low, "high": scale.high, "log": scale.log},
    }


def ratio(top: float, bottom: float, reach: float, low: float, high: float) -> Score:
    """top/bottom within [low, high], by Fieller; `reach` is zσ of both."""
    if bottom <= 2 * reach:  # below `reach` the set of ratios is unbounded; twice that is not reached by noise alone
        return not_known("too few rows for this budget")
    middle, half = top * bottom, reach * math.sqrt(max(top * top + bottom * bottom - reach * reach, 0.0))
    below = bottom * bottom - reach * reach
    ends = [min(max(end / below, low), high) for end in (middle - half, middle + half)]
    return {"value": float(min(max(top / bottom, ends[0]), ends[1])), "low": float(ends[0]), "high": float(ends[1])}


def _counted(look: Look) -> Known:
    """Histograms, levels, quantiles and shares of missing cells; gives the number of rows."""
    reach = look.z * look.noise("counts")
    sizes = [of.BINS + 1 if column.scale is not None else len(column.levels or ()) + 2 for column in look.found]
    values = look.sums("counts", 1 + sum(sizes))
    rows, start = float(values[0]), 1
    for told, column, size in zip(look.columns, look.found, sizes):
        counts = values[start : start + size]
        start += size
        told["missing"] = ratio(float(counts[-1]), rows, reach, 0.0, 1.0)
        if column.scale is None:
            told["counts"] = [{"level": name, **bar(float(c), reach)} for name, c in zip(column.levels or (), counts)]
            told["other"] = bar(float(counts[-2]), reach)
            continue
        edges = column.scale.at(np.linspace(0.0, 1.0, of.BINS + 1))
        told["histogram"] = {"edges": edges.tolist(), "counts": [bar(float(c), reach) for c in counts[:-1]]}
        below = [{"share": q, **quantile(counts[:-1], edges, q, reach)} for q in QUANTILES]
        told["quantiles"] = cast("list[QuantileRecord]", below)
    return bar(rows, reach)


def quantile(counts: Vector, edges: Vector, q: float, reach: float) -> Score:
    """The q-quantile from noisy counts of bins, with its error bar."""
    m, below = len(counts), np.concatenate([[0.0], np.cumsum(counts)])
    whole = float(below[-1])
    if whole <= 2 * reach * math.sqrt(m):
        return not_known("too few rows for this budget")
    j = np.arange(m + 1)
    excess = below - q * whole
    unsure = reach * np.sqrt(j * (1 - q) ** 2 + (m - j) * q**2)
    kept = np.flatnonzero((excess[:-1] <= unsure[:-1]) & (excess[1:] >= -unsure[1:]))
    if len(kept) == 0:  # contradicting ends: noise far out in both
        return not_known("the noise hides it")
    low, high = float(edges[kept[0]]), float(edges[kept[-1] + 1])
    rising = np.maximum.accumulate(below)
    first = int(np.clip(np.searchsorted(rising, q * whole, side="left") - 1, 0, m - 1))
    inside = (q * whole - rising[first]) / max(rising[first + 1] - rising[first], 1e-300)
    value = edges[first] + min(max(float(inside), 0.0), 1.0) * (edges[first + 1] - edges[first])
    return {"value": float(min(max(value, low), high)), "low": low, "high": high}


def _averaged(look: Look) -> None:
    """Mean and spread of every numeric column."""
    places, noise, z = numeric(look.found), look.noise("moments"), look.z
    table = look.sums("moments", max(3 * len(places), 1))
    for place, j in enumerate(places):
        scale = look.found[j].scale or of.Scale(0.0, 1.0)
        first, second, count = (float(value) for value in table[3 * place : 3 * place + 3])
        half, middle = (scale.high - scale.low) / 2, (scale.high + scale.low) / 2
        look.columns[j]["mean"] = _in_units(ratio(first, count, z * noise, -1.0, 1.0), half, middle)
        look.columns[j]["spread"] = _in_units(_spread(first, second, count, noise, z), half, 0.0)


def _in_units(found: Score, factor: float, shift: float) -> Score:
    return mapped(found, lambda number: shift + factor * number)


def _spread(first: float, second: float, count: float, noise: float, z: float) -> Score:
    if count <= FAR * noise:
        return not_known("too few rows for this budget")
    mean, square = first / count, second / count
    variance = square - mean * mean
    error = z * noise * math.sqrt(1 + 4 * mean * mean + (square - 2 * mean * mean) ** 2) / count
    ends = [math.sqrt(min(max(end, 0.0), 1.0)) for end in (variance - error, variance, variance + error)]
    return {"value": ends[1], "low": ends[0], "high": ends[2]}


def _correlated(look: Look) -> None:
    """Correlation of every numeric column with the target."""
    paired, noise = term_of("joint", look.question, look.found).columns, look.noise("joint")
    table = look.sums("joint", max(6 * len(paired), 1))
    for place, j in enumerate(paired):
        look.columns[j]["correlation"] = _correlation(table[6 * place : 6 * place + 6], noise, look.z)


def _correlation(sums: Vector, noise: float, z: float) -> Score:
    """r = C/√(VT) with C = E vt - Ev·Et, V and T the variances; given where both variances are far above their own noise."""
    count = float(sums[5])
    if count <= FAR * noise:
        return not_known("too few rows for this budget")
    v, vv, t, tt, vt = (float(value) / count for value in sums[:5])
    V, T, C = vv - v * v, tt - t * t, vt - v * t
    unsure = [z * noise / count * math.sqrt(1 + 4 * m * m + (q - 2 * m * m) ** 2) for m, q in ((v, vv), (t, tt))]
    if 3 * unsure[0] >= V or 3 * unsure[1] >= T:
        return not_known("the values are too close together for this budget")
    root = math.sqrt(V * T)
    r = C / root
    # dr by each of the six sums, times `count`
    slopes = [-t / root + r * v / V, -r / (2 * V), -v / root + r * t / T, -r / (2 * T), 1 / root]
    slopes.append(-sum(slope * mean for slope, mean in zip(slopes, (v, vv, t, tt, vt))))
    reach = z * noise * math.sqrt(sum(slope * slope for slope in slopes)) / count
    wider = 1 / math.sqrt((1 - unsure[0] / V) * (1 - unsure[1] / T))  # for what the first order leaves out: smaller variances
    return bar(r, reach * wider, -1.0, 1.0)
