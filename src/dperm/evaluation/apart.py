"""Classes, thresholds and groups apart: scores with intervals from released counts. Pure post-processing, as in `metrics`.

Recall and precision of a class are shares, whose variance at a candidate needs no estimate. Macro F1 is a smooth function of the
cells of the confusion matrix that does not change when all of them are doubled, so to first order

    Var = Σ (∂F/∂c)²·(c + 1 + s²)

with s² the noise of a cell and its own count for its sampling (the multinomial's covariances drop out of such a function); the 1
stands for cells that happen to be empty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from dperm.evaluation.metrics import NUMBERS, Context, answers
from dperm.evaluation.plan import Decided, Question
from dperm.evaluation.ratio import known, share
from dperm.evaluation.terms import grid_edges
from dperm.problem.arrays import Vector
from dperm.release.record import GroupsRecord, Known, Score, ThresholdRecord, mapped

END = " by group"  # of the names of stages that sum every group apart


def confusion(cells: Vector, s: float, held: Vector, question: Question, context: Context, baseline: Score) -> dict[str, object]:
    """Recall, precision and macro F1 beside the F1 of always guessing the largest class. `held` are the rows of each class as
    another release counted them: from there it is foreseen what is worth giving."""
    K = question.classes
    table = cells.reshape(K, K)
    found: dict[str, object] = {}
    for k, label in enumerate(question.labels):
        noise = (s * s, s * s, K * s * s)
        crowding = context.crowding(math.sqrt(K) * s, float(held[k]), "share", 0.25)
        for name, whole in (("recall", float(table[k].sum())), ("precision", float(table[:, k].sum()))):
            part = float(table[k, k])
            value = part / whole if whole > 0 else math.nan
            found[f"{name} of {label}"] = context.score(value, share(part, whole, noise, context.z()), (0.0, 1.0), crowding)
    crowding = context.crowding(math.sqrt(2 * K) * s, float(held.min()), "share", 0.25)
    found["macro f1"] = context.score(*_macro(table, s, context.z()), (0.0, 1.0), crowding)
    found["baseline macro f1"] = mapped(baseline, lambda p: 2 * p / (1 + p) / K)
    found["confusion"] = {"labels": list(question.labels), "counts": table.tolist(), "noise": s}
    return found


def _macro(table: Vector, s: float, z: float) -> tuple[float, tuple[float, float] | None]:
    """mean_k 2c_kk/(row_k + column_k) and its interval; none where a class has no rows to divide by."""
    K = len(table)
    sums = table.sum(axis=0) + table.sum(axis=1)
    if not (sums > 0).all():
        return math.nan, None
    parts = 2 * np.diag(table) / sums
    slopes = -(parts / sums)[:, None] - (parts / sums)[None, :] + np.diag(2 / sums)
    error = z * math.sqrt(float(np.sum(slopes**2 * (np.maximum(table, 0.0) + 1 + s * s)))) / K
    value = float(parts.mean())
    return value, (value - error, value + error)


def entropy_of(held: Vector, rows: float, s: float, context: Context) -> Score:
    """Log-loss of always predicting the shares of the classes, Σ -p·log p, between its least and its most over the shares that
    hold at once (each with 1/K of the error): cautious, and at most log K."""
    K, z = len(held), context.z(tails=len(held))
    intervals = [share(float(part), rows, (4 * s * s, 0.0, 2 * s * s), z) for part in held]
    crowding = context.crowding(math.sqrt(6) * s, context.n, "share", 0.25)
    if any(ends is None for ends in intervals) or rows <= 0:
        return context.score(math.nan, None, (0.0, math.log(K)), crowding)

    def part(p: float) -> float:
        return -p * math.log(p) if p > 0 else 0.0

    low = high = 0.0
    for ends in intervals:
        assert ends is not None  # looked at above
        a, b = (min(max(end, 0.0), 1.0) for end in ends)
        low += min(part(a), part(b))
        high += part(min(max(math.exp(-1), a), b))
    value = sum(part(min(max(float(one) / rows, 0.0), 1.0)) for one in held)
    return context.score(value, (low, high), (0.0, math.log(K)), crowding)


def thresholds(scores: Vector, edges: tuple[int, ...], s: float, question: Question, context: Context) -> list[ThresholdRecord]:
    """Recall, precision and the share called positive, where every probability from a bin's border up is called positive.

    The counts above a border are sums of bins, each with its own noise. A line is given where the rows above stand out of it
    (five deviations), and the positives do.
    """
    bins = question.bins
    negative, positive = scores[:bins], scores[bins : 2 * bins]
    borders, lines = grid_edges()[np.asarray(edges)], []
    P, all_noise = float(positive.sum()), bins * s * s
    for k in range(1, bins):
        m = bins - k
        above, total = float(positive[k:].sum()), float(positive[k:].sum() + negative[k:].sum())
        if total <= 5 * math.sqrt(2 * m) * s or 5 * math.sqrt(bins) * s >= P:
            continue
        rows = float(scores[: 2 * bins].sum())
        shares = (
            (above, P, (m * s * s, m * s * s, all_noise)),
            (above, total, (m * s * s, m * s * s, 2 * m * s * s)),
            (total, rows, (2 * m * s * s, 2 * m * s * s, 2 * all_noise)),
        )
        given: list[Known] = []
        for part, whole, noise in shares:
            ends = share(part, whole, noise, context.z())
            if ends is not None:
                given.append(known(part / whole, ends, (0.0, 1.0)))
        if len(given) == len(shares):
            recall, precision, called = given
            line: ThresholdRecord = {
                "threshold": float(borders[k]), "recall": recall, "precision": precision, "called positive": called
            }
            lines.append(line)
    return lines


def by_group(
    held: Mapping[str, Vector], scale: Mapping[str, float], decided: Decided, question: Question, level: Context
) -> GroupsRecord:
    """The scores of every group, from its own sums; how many rows it has is known from a release of their own."""
    names = question.groups
    sizes = held["groups"][1::2] if question.kind == "regression" else held["groups"]
    found: GroupsRecord = {"column": question.by, "rows": {}, "scores": {}}
    reach = level.z() * scale["groups"]
    for g, name in enumerate(names):
        rows = float(sizes[g])
        # The number of rows in the data, not of a population: the noise is all of its error.
        found["rows"][name] = {"value": max(rows, 0.0), "low": max(rows - reach, 0.0), "high": max(rows + reach, 0.0)}
        context = Context(level.epsilon, max(int(rows), 1), level.level)
        own = {key.removesuffix(END): np.split(values, len(names))[g] for key, values in held.items() if key.endswith(END)}
        noises = {**scale, **{key.removesuffix(END): s for key, s in scale.items() if key.endswith(END)}}
        if question.kind in NUMBERS:
            found["scores"][name] = {**NUMBERS[question.kind]({**held, **own}, noises, decided, question, context)}
        else:
            scored = answers(own["answers"], noises["answers"], question, context)
            classes = 2.0 * own["answers"][-question.classes :]
            apart = confusion(own["confusion"], noises["confusion"], classes, question, context, scored["baseline accuracy"])
            found["scores"][name] = {**scored, **apart}
    return found
