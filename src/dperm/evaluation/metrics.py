"""From released sums to scores with intervals. Pure post-processing: the same sums give the same numbers, to the last digit.

Every score is a ratio of sums, or a simple function of one, and its interval the set of values that a test accepts
(`evaluation_ratio`): sampling and noise together, without dividing by what may be noise. The score meant is that of the
population the held-out rows were drawn from, for this model.

Where an interval would say next to nothing the score is given as not known. Whether it would is foreseen from public numbers and
from *other* releases than those the score is made of (`WIDEST` is the widest interval worth giving): a choice by the same noise
that made the score would keep the lucky draws, and their intervals would cover less often than they say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from dperm.evaluation.plan import MOST_DEVIANCE, Decided, Question, typical
from dperm.evaluation.ratio import MOST, Ratio, known, share, unknown
from dperm.evaluation.terms import WITHIN, middles
from dperm.problem.arrays import Vector
from dperm.release.record import CalibrationRow, Known, RocRecord, Score, mapped

WIDEST = {"share": 0.8, "pairs": 1.0, "loss": 0.25, "mean": 0.25, "square": 0.1, "relative": 1.0, "r2": 4.0}
NUISANCE = 0.1  # part of the error probability that goes to a nuisance: the mean of the target, the number of rows
Interval = tuple[float, float] | None


@dataclass(frozen=True)
class Context:
    """What the sentences about unknown scores need."""

    epsilon: float
    n: int
    level: float

    def z(self, share: float = 1.0, tails: int = 1) -> float:
        """Normal quantile of a two-sided interval that may err with a share of 1 - level, for one of `tails` intervals."""
        return float(ndtri(1 - (1 - self.level) * share / 2 / tails))

    def score(
        self,
        value: float,
        interval: Interval,
        bounds: tuple[float, float],
        crowding: float,
        shape: Callable[[float], float] = float,
    ) -> Score:
        """The score, cut to its bounds and mapped by a rising `shape`; not known where `crowding`, the foreseen width over the
        widest one worth giving, is above 1 or no bounded interval exists."""
        if interval is None or not crowding <= 1:
            return unknown(crowding, self.epsilon, self.n)
        return mapped(known(value, interval, bounds), shape)

    def ratio(
        self, ratio: Ratio, bounds: tuple[float, float], crowding: float, shape: Callable[[float], float] = float
    ) -> Score:
        value = ratio.top / ratio.bottom if ratio.bottom > 0 else math.nan
        return self.score(value, ratio.interval(self.z()), bounds, crowding, shape)

    def crowding(self, noise: float, size: float, widest: str, sampling: float = 0.0) -> float:
        """Width of an interval whose noise has deviation `noise` in a sum over `size`, over the widest one worth giving."""
        size = max(size, 1e-300)
        return min(2 * self.z() * math.hypot(noise / size, math.sqrt(sampling / size)) / WIDEST[widest], 1e6)


# -- classes ----------------------------------------------------------------------------------------------------------


def answers(sums: Vector, s: float, question: Question, context: Context) -> dict[str, Score]:
    """Accuracy, log-loss, and the same of the best guess that does not look at the row."""
    right, rows, n = float(sums[0]), float(sums[0] + sums[1]), context.n
    interval = share(right, rows, (s * s, s * s, 2 * s * s), context.z())
    crowding = context.crowding(s, n, "share", 0.25)
    found = {"accuracy": context.score(right / rows if rows > 0 else math.nan, interval, (0.0, 1.0), crowding)}
    held = 2.0 * sums[-question.classes :]
    found["baseline accuracy"] = _baseline(held, rows, s, context)
    if question.kind == "binary":
        found["positive share"] = _class_share(float(held[1]), rows, s, context.z(), context)
    if question.probabilities:
        most, loss, second = question.most_loss, float(sums[2]), 2.0 * float(sums[3]) + 2 * s
        ratio = Ratio(loss, rows, (second, loss, rows), (s * s, 0.0, 2 * s * s))
        found["log-loss"] = context.ratio(ratio, (0.0, 1.0), context.crowding(s, n, "loss"), lambda value: value * most)
        if question.kind == "binary":
            found["baseline log-loss"] = _entropy(found["positive share"])
    return found


def _class_share(part: float, rows: float, s: float, z: float, context: Context) -> Score:
    """A class count has twice the noise of right and wrong, and independent noise."""
    interval = share(part, rows, (4 * s * s, 0.0, 2 * s * s), z)
    crowding = context.crowding(math.sqrt(6) * s, context.n, "share", 0.25)
    return context.score(part / rows if rows > 0 else math.nan, interval, (0.0, 1.0), crowding)


def _baseline(held: Vector, rows: float, s: float, context: Context) -> Score:
    """Share of the largest class: between the largest lower and the largest upper end of shares that all hold at once."""
    two = len(held) == 2
    z = context.z(tails=1 if two else len(held))
    every: list[Known] = []
    for part in held[1 if two else 0 :]:
        one = _class_share(float(part), rows, s, z, context)
        if one["value"] is None:
            return one
        every.append(one)
    if two:  # one share fixes the other
        every.append(_opposite(every[0]))
    least = 1 / len(held)
    return {
        "value": max(least, *(one["value"] for one in every)),
        "low": max(least, *(one["low"] for one in every)),
        "high": max(least, *(one["high"] for one in every)),
    }


def _entropy(positive: Score) -> Score:
    """Log-loss of always predicting the share of positives: rises up to a share of one half, then falls."""
    if positive["value"] is None:
        return positive

    def loss(p: float) -> float:
        return -sum(q * math.log(q) for q in (p, 1 - p) if q > 0)

    ends = [loss(positive["low"]), loss(positive["high"])]
    top = math.log(2) if positive["low"] <= 0.5 <= positive["high"] else max(ends)
    return {"value": loss(positive["value"]), "low": min(ends), "high": top}


def scores(
    held: Mapping[str, Vector], scale: Mapping[str, float], edges: tuple[int, ...], question: Question, context: Context
) -> dict[str, object]:
    """AUC and calibration from counts of negatives and positives per bin of the predicted probability."""
    bins, s = question.bins, scale["scores"]
    negative, positive = held["scores"][:bins], held["scores"][bins : 2 * bins]
    # How many there are of each class is known from the answers, with independent noise.
    fewest = 2.0 * float(min(held["answers"][-2:]))
    crowding = context.crowding(s * math.sqrt(bins), fewest, "pairs")
    found: dict[str, object] = {"auc": context.ratio(pairs(negative, positive, s), (0.0, 1.0), crowding)}
    if question.probabilities:
        middle, half = middles(edges)
        total = negative + positive
        excess = (1 - middle) * positive - middle * negative - half * held["scores"][2 * bins :] / WITHIN
        noise = s * s * ((1 - middle) ** 2 + middle**2 + (half / WITHIN) ** 2)
        sampling = np.maximum(positive, 0.0) * (1 - middle) ** 2 + np.maximum(negative, 0.0) * middle**2
        joint = (float(noise.sum()), -s * s * float((1 - 2 * middle).sum()), 2 * bins * s * s)
        mean = Ratio(-float(excess.sum()), float(total.sum()), (float(sampling.sum()), 0.0, 0.0), joint)
        crowding = context.crowding(s * math.sqrt(bins), context.n, "share")
        found["predicted minus observed"] = context.ratio(mean, (-1.0, 1.0), crowding)
        rows, spread = float(held["answers"][:2].sum()), math.sqrt(2) * scale["answers"]
        # Noise feigns an excess of some 0.6 s in every bin.
        crowding = max(crowding, context.crowding(s * bins / 4, context.n, "share"))
        found["calibration error"] = calibration_error(excess, noise + sampling, rows, spread, context, crowding)
        found["calibration"] = calibration(negative, positive, excess, s, context)
    found["roc"] = roc(negative, positive)
    return found


def order_kernel(bins: int) -> Vector:
    """K[j, k]: how often a positive in bin j is above a negative in bin k, ½ within a bin, extrapolated to bins of no width.

    Ties lose what the ROC curve does inside a bin, about 1/bins² of it; the same loss with bins joined in pairs is four times as
    large, so (4·fine - coarse)/3 has none to that order.
    """
    place = np.arange(bins)
    fine = np.sign(place[:, None] - place[None, :]) / 2 + 0.5
    pair = place // 2
    coarse = np.sign(pair[:, None] - pair[None, :]) / 2 + 0.5
    return np.asarray((4 * fine - coarse) / 3)


def pairs(negative: Vector, positive: Vector, s: float) -> Ratio:
    """AUC = pᵀKn / (p·1)(n·1). Noise of p and n is independent, so both products are unbiased without any clipping.

    Variance of the top by p and n in turn (DeLong): a cell's count varies by itself (Poisson) and by s². The squares of noisy
    Kn are too large by the very term s⁴‖K‖² that the product of two noises adds, so nothing is missing.
    """
    kernel = order_kernel(len(negative))
    above, below = kernel @ negative, positive @ kernel
    cells = np.maximum(np.concatenate([positive, negative]), 0.0) + s * s
    a = np.concatenate([above, below])
    b = np.concatenate([np.full(len(positive), negative.sum()), np.full(len(negative), positive.sum())])
    rows = (float(cells @ (a * a)), float(cells @ (a * b)), float(cells @ (b * b)))
    if not (negative.sum() > 0 and positive.sum() > 0):  # the product of two negative sums would pass for pairs
        return Ratio(0.0, 0.0, rows, (0.0, 0.0, 0.0))
    return Ratio(float(positive @ above), float(positive.sum() * negative.sum()), rows, (0.0, 0.0, 0.0))


def calibration_error(
    excess: Vector, variance: Vector, rows: float, spread: float, context: Context, crowding: float
) -> Score:
    """Σ_bins |Σ (label - probability)| per row of the population, over the bins stated in the record.

    The released x_k = g_k + e_k, e_k of known variance v_k. Σ|g_k| = Σ ±g_k ≤ Σ|x_k| + |Σ ±e_k|, whose last term is normal with
    variance Σv_k; and Σ|g_k| ≥ Σ|x_k| - Σ|e_k|, whose last term has mean √(2/π)·Σ√v_k and variance (1 - 2/π)·Σv_k. The lower end
    is cautious: the excess that noise feigns is taken off as if no bin had any of its own.
    """
    z = context.z(1 - NUISANCE)
    reach = context.z(NUISANCE) * spread
    if rows - reach <= 0:
        return unknown(crowding, context.epsilon, context.n)
    total, spreads = float(np.abs(excess).sum()), np.sqrt(variance)
    low = total - math.sqrt(2 / math.pi) * float(spreads.sum()) - z * math.sqrt((1 - 2 / math.pi) * float(variance.sum()))
    high = total + z * math.sqrt(float(variance.sum()))
    interval = max(low, 0.0) / (rows + reach), high / (rows - reach)
    value = float(np.sqrt(np.maximum(excess**2 - variance, 0.0)).sum()) / rows
    return context.score(value, interval, (0.0, 1.0), crowding)


def calibration(negative: Vector, positive: Vector, excess: Vector, s: float, context: Context) -> list[CalibrationRow]:
    """Observed share of positives per bin, for bins whose count stands out of the noise (five deviations)."""
    total = negative + positive
    rows: list[CalibrationRow] = []
    for k in np.flatnonzero(total > 5 * math.sqrt(2) * s):
        interval = share(float(positive[k]), float(total[k]), (s * s, s * s, 2 * s * s), context.z())
        if interval is not None:
            predicted = float(np.clip((positive[k] - excess[k]) / total[k], 0.0, 1.0))
            cut = known(float(positive[k] / total[k]), interval, (0.0, 1.0))
            rows.append({"predicted": predicted, "observed": cut["value"], "low": cut["low"], "high": cut["high"]})
    return rows


def roc(negative: Vector, positive: Vector) -> RocRecord:
    """The curve through the bins' edges for a plot, made monotone (noise can bend it)."""

    def rate(counts_of: Vector) -> list[float]:
        kept = np.maximum(counts_of[::-1], 0.0)
        return list(np.minimum(np.append(0.0, np.cumsum(kept)) / max(float(kept.sum()), 1e-300), 1.0).tolist())

    return {"false_positive_rate": rate(negative), "true_positive_rate": rate(positive)}


# -- numbers ----------------------------------------------------------------------------------------------------------


def regression(
    held: Mapping[str, Vector], scale: Mapping[str, float], decided: Decided, question: Question, context: Context
) -> dict[str, Score]:
    """R², root mean squared, mean absolute and mean error, and the deviation of the target, which is the error of its mean."""
    sums, n, s = held["moments"], context.n, scale["moments"]
    above, under, square, fourth = float(sums[0]), float(sums[1]), float(sums[2]), 2 * float(sums[3]) + 2 * s
    rows, unit = float(sums[8]), question.width * decided["clip"]

    squares = Ratio(square, rows, (fourth, square, rows), (s * s, 0.0, s * s))
    size = Ratio(above + under, rows, (square + s, above + under, rows), (2 * s * s, 0.0, s * s))
    mean = Ratio(above - under, rows, (square + s, above - under, rows), (2 * s * s, 0.0, s * s))
    most = 1 / decided["clip"]  # an error is at most the range
    wide = context.crowding(math.sqrt(2) * s, n, "mean")
    r_squared, deviation = _target(held, scale, decided, question, context)
    return {
        "r2": r_squared,
        "root mean squared error": context.ratio(squares, (0.0, most**2), context.crowding(s, n, "square"), _root_in(unit)),
        "mean absolute error": context.ratio(size, (0.0, most), wide, lambda value: unit * value),
        "mean error": context.ratio(mean, (-most, most), wide, lambda value: unit * value),
        "baseline root mean squared error": deviation,
    }


def _target(
    held: Mapping[str, Vector], scale: Mapping[str, float], decided: Decided, question: Question, context: Context
) -> tuple[Score, Score]:
    """R² and the deviation of the target: ratios for the means of the target that the sums allow, and the hull of the intervals.

    With v measured from a released centre and m its population mean, Σ(v - m)² = V₂ - 2mV₁ + m²N. The second moments follow from
    what was released, by Minkowski: ‖v - m‖₄ ≤ ‖v‖₄ + |m|·N^¼ and ‖r(v - m)‖₂ ≥ ‖rv‖₂ - |m|·‖r‖₂.
    """
    s, ratio = scale["moments"], (decided["clip"] / decided["spread"]) ** 2
    square, first, second, rows = (float(held["moments"][k]) for k in (2, 4, 5, 8))
    first *= 2
    # Entries that were halved; one deviation on the safe side.
    fourth, quartic, cross = (2 * float(held["moments"][k]) + sign * 2 * s for k, sign in ((3, 1), (6, 1), (7, -1)))
    mean = Ratio(first, rows, (second + s, first, rows), (4 * s * s, 0.0, s * s))
    ends = mean.interval(context.z(NUISANCE))
    shares: list[Interval] = []
    spreads: list[Interval] = []
    for m in (first / rows if rows > 0 else 0.0, *(ends or ())):
        m = min(max(m, -1.0), 1.0)
        size = abs(m)
        around = second - 2 * m * first + m * m * rows
        powers = (max(quartic, 0.0) ** 0.25 + size * max(rows, 0.0) ** 0.25) ** 4
        product = max(math.sqrt(max(cross, 0.0)) - size * math.sqrt(max(square, 0.0)), 0.0) ** 2
        noise = s * s * (1 + 16 * m * m + m**4)
        top = (ratio * ratio * fourth, ratio * product, powers)
        z = context.z(1 - NUISANCE)
        shares.append(Ratio(ratio * square, around, top, (ratio * ratio * s * s, 0.0, noise)).interval(z))
        spreads.append(Ratio(around, rows, (powers, around, rows), (noise, m * m * s * s, s * s)).interval(z))
    if ends is None:
        shares, spreads = [None], [None]
    best = second - first * first / rows if rows > 0 else math.nan
    unit, most = question.width * decided["spread"], (0.5 / decided["spread"]) ** 2  # at most a quarter of the squared range
    # Σ(v - m)² is about n times the squared median of |v|, which the histogram of sizes shows with noise of its own.
    foreseen = context.n * (typical(held["spread"], 1.0, scale["spread"]) / decided["spread"]) ** 2
    explained = context.score(
        ratio * square / best if best > 0 else math.nan,
        _hull(shares),
        (0.0, math.inf),
        context.crowding(s * math.hypot(1.0, ratio), foreseen, "r2"),  # the median is cautious by a factor of 2 to 4
    )

    crowding = context.crowding(s, context.n, "square")
    deviation = context.score(best / rows, _hull(spreads), (0.0, most), crowding, _root_in(unit))
    return _from_one(explained), deviation


def _root_in(unit: float) -> Callable[[float], float]:
    """The root of a mean square, in the target's units."""
    return lambda value: float(unit * math.sqrt(max(value, 0.0)))


def _from_one(score: Score) -> Score:
    """1 - θ."""
    return score if score["value"] is None else _opposite(score)


def _opposite(score: Known) -> Known:
    return {"value": 1 - score["value"], "low": 1 - score["high"], "high": 1 - score["low"]}


def _hull(intervals: list[Interval]) -> Interval:
    found = [one for one in intervals if one is not None]
    if len(found) < len(intervals):
        return None
    return min(low for low, _ in found), max(high for _, high in found)


def counts(
    held: Mapping[str, Vector], scale: Mapping[str, float], decided: Decided, question: Question, context: Context
) -> dict[str, Score]:
    """Mean Poisson deviance of the model and of a constant rate, the share explained (D²), and Σ predicted / Σ observed."""
    s = scale["moments"]
    a, aa, b, bb, ab, y, m, yy, mm, ym, rows = (float(v) for v in held["moments"])
    # Entries that were halved; one deviation on the safe side.
    aa, bb, yy, mm = (2 * value + 2 * s for value in (aa, bb, yy, mm))
    ab, ym = max(2 * ab - 2 * s, 0.0), max(2 * ym - 2 * s, 0.0)
    unit, noise, most = question.high * decided["clip"], (s * s, 0.0, s * s), (0.0, math.inf)

    def scaled(value: float) -> float:
        return float(unit * value)

    blind = decided["clip"] >= MOST_DEVIANCE  # nothing stood out of the histogram: the clip says nothing of the deviances
    wide = MOST if blind else context.crowding(s, context.n, "mean")
    # Counts seen by the stage before, with noise of its own; the constant rate comes from there, and must be near the true one.
    seen = float(held["rates"][0])
    rate_known = max(wide, min(8 * scale["rates"] / max(seen, 1e-300), 1e6))
    foreseen = context.n * typical(held["deviances"], MOST_DEVIANCE, scale["deviances"]) / decided["clip"]
    explained = max(rate_known, context.crowding(math.sqrt(2) * s, foreseen, "relative"))
    return {
        "deviance": context.ratio(Ratio(a, rows, (aa, a, rows), noise), most, wide, scaled),
        "baseline deviance": context.ratio(Ratio(b, rows, (bb, b, rows), noise), most, rate_known, scaled),
        "d2": _from_one(context.ratio(Ratio(a, b, (aa, ab, bb), noise), most, explained)),
        "balance": context.ratio(Ratio(m, y, (mm, ym, yy), noise), most, context.crowding(math.sqrt(2) * s, seen, "relative")),
    }


NUMBERS = {"regression": regression, "counts": counts}  # by the kind of question
