"""How much each column moves the prediction, from released numbers alone.

A coefficient per encoded column says little: it grows with the declared range, and loose bounds make any column look important.
Where the fit released the spread of its columns (`decided["scale"]`, 1/standard deviation in encoded units, or the second moments
of `statistics`), an effect is that of one standard deviation; elsewhere it is that of the whole declared range, and the page says
which. Bounds that are very wide leave the spread itself in the noise: then the effect says "roughly".

    a line     w_j/scale_j, or w_j over the whole range
    a choice   levels count from their average; its size is the standard deviation of the levels under their released shares,
               or half the distance between the lowest and the highest where no shares were released
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dperm.pages.charts import number
from dperm.pages.subject import Subject
from dperm.problem import specs
from dperm.problem.arrays import Vector
from dperm.release.plan import MECHANISMS
from dperm.tables.encoding import Encoding
from dperm.terms.affine import Features
from dperm.terms.moments import smat
from dperm.terms.statistics import SquareSum

CLEAR = 4.0  # a sum of squares this many times its noise tells a column's spread
ROUNDING = 1e-12  # of the largest coefficient: a smaller effect is 0


@dataclass(frozen=True)
class Effect:
    """One declared column. `size` has one entry per margin (one, or one per class)."""

    name: str
    size: Vector
    step: str  # what moves by how much, in the column's own units
    places: tuple[int, ...]  # its encoded columns
    low: float = 0.0
    high: float = 0.0
    centre: float = 0.0
    levels: tuple[str, ...] = ()
    level_effects: Vector | None = None  # margins × levels
    hidden: bool = False  # its spread is not far above the noise that it was released with

    @property
    def strength(self) -> float:
        return float(np.sqrt(np.mean(self.size**2)))


def weights_of(subject: Subject) -> Vector | None:
    """Coefficients per margin and encoded column, without the intercept, in the units of the outcome; None for other models."""
    record, problem, encoding = subject.certificate.record, subject.problem, subject.encoding
    linear = getattr(MECHANISMS.get(record["mechanism"]["name"]), "linear", True)
    weights = subject.weights
    if encoding is None or not linear:
        return None
    width = encoding.d + (1 if problem.data.intercept else 0)
    if width == 0 or weights.size != problem.loss.margins * width:
        return None
    return np.asarray(weights.reshape(problem.loss.margins, width)[:, : encoding.d] * (subject.half or 1.0))


def effects(subject: Subject, weights: Vector | None = None) -> list[Effect]:
    """One per declared column, the strongest first; none for models without a coefficient per column. `weights` are those of
    `weights_of` if left out."""
    weights, encoding = weights_of(subject) if weights is None else weights, subject.encoding
    if weights is None or encoding is None:
        return []
    spread, mean = spread_and_mean(subject)
    hidden = hidden_spreads(subject)
    found = []
    for places in _members(encoding):
        if len(places) > 1:
            found.append(_choice(encoding.names, places, weights, mean))
        else:
            line = _line(encoding, places[0], weights, spread, mean)
            if encoding.kinds[places[0]] != "boolean" and places[0] in hidden:
                line = replace(line, step=f"roughly {line.step}", hidden=True)
            found.append(line)
    least = ROUNDING * float(np.max(np.abs(weights)))
    return sorted((_without_rounding(effect, least) for effect in found), key=lambda effect: -effect.strength)


def _without_rounding(effect: Effect, least: float) -> Effect:
    """Coefficients that a fit draws to 0 come back from other coordinates as rounding, which would be drawn as if it mattered."""
    size, levels = (None if it is None else np.where(np.abs(it) > least, it, 0.0) for it in (effect.size, effect.level_effects))
    assert size is not None
    return replace(effect, size=size, level_effects=levels)


def spread_and_mean(subject: Subject) -> tuple[Vector | None, Vector | None]:
    """Standard deviation and mean of every encoded column, as far as the fit released them."""
    record, problem, encoding = subject.certificate.record, subject.problem, subject.encoding
    if encoding is None:
        return None, None
    scale, mean = (_column_values(record["decided"].get(name), encoding.d) for name in ("scale", "shift"))
    if scale is not None:
        released = record["released"]  # where a mean is taken in two steps, the second sums distances from the first
        summed = _column_values(released.get("rough mean", released.get("mean")), encoding.d)
        if mean is not None and summed is not None:  # the fit centres rare levels at 0; their shares are in the released sum
            mean = np.where(encoding.where("categorical"), summed / record["shape"]["n"], mean)
        return 1.0 / scale, mean
    size = encoding.d + 2  # the columns, the intercept's and the target
    moments = _column_values(record["released"].get("moments"), size * (size + 1) // 2)
    if moments is None or not problem.data.intercept:
        return None, None
    matrix = smat(moments, size) / record["shape"]["n"]
    mean = matrix[: encoding.d, encoding.d] / problem.data.intercept
    noise = specs.number(record["stages"][0]["settings"]["scale"]) / record["shape"]["n"]
    return np.sqrt(np.maximum(np.diag(matrix)[: encoding.d] - mean**2, noise)), mean


def hidden_spreads(subject: Subject) -> frozenset[int]:
    """Encoded columns whose released sum of squares is below `CLEAR` times its noise, so that no more than their order is known.

    A sum of squares q with noise σ gives a spread with the relative error σ/(2q): an eighth at the limit.
    """
    record, encoding = subject.certificate.record, subject.encoding
    if encoding is None or "squares" not in record["released"] or "centred_radius" not in record["decided"]:
        return frozenset()
    # Where all second moments were released the squares are the first of them, and have the same noise.
    decided, last = record["decided"], "finer squares" if "finer squares" in record["released"] else "squares"
    squares = np.array(record["released"][last], dtype=np.float64)
    cut = "largest_" + last.replace(" ", "_")
    most = specs.number(decided[cut]) if cut in decided else specs.number(decided["centred_radius"]) ** 2
    sensitivity = SquareSum(Features(), math.inf, most).sensitivity(record["target"]["relation"])
    event = next(stage["event"] for stage in record["stages"] if stage["name"] == last)
    noise = sensitivity * record["target"]["rows_per_person"] / specs.number(event["mu"])
    return frozenset(np.flatnonzero(squares[: encoding.d] < CLEAR * noise).tolist())


def _column_values(values: object, size: int) -> Vector | None:
    return np.array(values, dtype=np.float64) if isinstance(values, list) and len(values) == size else None


def _members(encoding: Encoding) -> list[tuple[int, ...]]:
    groups: dict[object, list[int]] = {}
    for j, group in enumerate(encoding.groups):
        groups.setdefault(("group", group) if group >= 0 else ("column", j), []).append(j)
    return [tuple(places) for places in groups.values()]


def column_and_levels(labels: list[str]) -> tuple[str, tuple[str, ...]]:
    """The column that one-hot names belong to, and its levels; columns written out by hand name themselves.

    >>> column_and_levels(["job=cook", "job=nurse"]), column_and_levels(["cook", "nurse"])
    (('job', ('cook', 'nurse')), ('cook, nurse', ('cook', 'nurse')))
    """
    for cut in (place for place, sign in enumerate(labels[0]) if sign == "="):  # a column's name may hold the sign itself
        start = labels[0][: cut + 1]
        if all(label.startswith(start) for label in labels):
            return start[:-1], tuple(label[len(start) :] for label in labels)
    return ", ".join(labels), tuple(labels)


def _choice(names: tuple[str, ...], places: tuple[int, ...], weights: Vector, mean: Vector | None) -> Effect:
    labels = [names[j] for j in places]
    column, levels = column_and_levels(labels)
    inner = weights[:, list(places)]
    shares = np.ones(len(places)) if mean is None else np.maximum(mean[list(places)], 0.0)
    known = mean is not None and shares.sum() > 0
    shares = shares / shares.sum() if shares.sum() > 0 else np.full(len(places), 1 / len(places))
    centred = inner - (inner @ shares)[:, None]
    size = np.sqrt(centred**2 @ shares) if known else np.ptp(inner, axis=1) / 2
    return Effect(column, size, f"a choice of {len(places)}", places, levels=levels, level_effects=centred)


def _line(encoding: Encoding, j: int, weights: Vector, spread: Vector | None, mean: Vector | None) -> Effect:
    width, anchor = float(encoding.width[j]), float(encoding.anchor[j])
    low, high = float(encoding.low[j]), float(encoding.high[j])
    if encoding.kinds[j] == "boolean":
        return Effect(encoding.names[j], weights[:, j], "yes instead of no", (j,), 0.0, 1.0, 0.0)
    if spread is not None:
        deviation = float(spread[j])
        centre = anchor + width * (0.0 if mean is None else float(mean[j]))
        reach = 2 * deviation * width
        left, right = max(low, centre - reach), min(high, centre + reach)
        centre = min(max(centre, left), right)
        return Effect(
            encoding.names[j], weights[:, j] * deviation, f"{number(deviation * width)} more", (j,), left, right, centre
        )
    if not (np.isfinite(low) and np.isfinite(high)):  # only the norm of a row was declared
        low, high = -width, width
        return Effect(encoding.names[j], weights[:, j], f"{number(width)} more", (j,), low, high, 0.0)
    return Effect(encoding.names[j], weights[:, j], f"from {number(low)} to {number(high)}", (j,), low, high, (low + high) / 2)
