"""A gradient-free search for the pair of neighbours that a mechanism tells apart best.

The records stay inside the declared bounds: beyond them nothing is promised. Extreme records are tried first (the sensitivity is
usually attained there), then random moves around the best pair so far, shorter and shorter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dperm.problem import DataBounds
from dperm.problem.arrays import Vector

Data = tuple[Vector, Vector]
Measure = Callable[[Data, Data], float]


@dataclass(frozen=True)
class Found:
    """The worst pair, its measured loss, and how the best value grew from one evaluation to the next."""

    data: Data
    neighbour: Data
    value: float
    history: tuple[float, ...]


def search(
    measure: Measure,
    rest: tuple[ArrayLike, ArrayLike],
    bounds: DataBounds,
    *,
    relation: str = "replace-one",
    labels: tuple[float, ...] | None = None,
    evaluations: int = 60,
    seed: int = 0,
) -> Found:
    """Maximise measure(data, neighbour) over the record in which the two differ.

    measure   e.g. δ at some ε from `exact`, or a bound from `distinguish` (then confirm the pair found on fresh trials: the
              maximum of many noisy measurements is biased upwards)
    rest      the rows both data sets share
    labels    the labels to try; default the two ends of the declared interval
    relation  replace-one: two records compete; otherwise the record is present in `data` and absent from `neighbour`

    >>> from dperm.problem import Interval
    >>> found = search(lambda a, b: abs(a[0].sum() - b[0].sum()), ([[0.1]], [1.0]), DataBounds(3.0, Interval(-1, 1)))
    >>> round(found.value, 9)
    6.0
    """
    generator = np.random.default_rng(seed)
    shared = np.atleast_2d(np.asarray(rest[0], dtype=np.float64)), np.asarray(rest[1], dtype=np.float64)
    d = shared[0].shape[1]
    ends = labels if labels is not None else (bounds.y.low, bounds.y.high)
    two = relation == "replace-one"
    history: list[float] = []
    best: tuple[float, list[Vector], list[float]] = (-np.inf, [], [])

    def attempt(xs: list[Vector], ys: list[float]) -> None:
        nonlocal best
        pair = _pair(shared, bounds, xs, ys, two)
        value = float(measure(*pair))
        if value > best[0]:
            best = value, xs, ys
        history.append(best[0])

    for xs, ys in _extremes(d, bounds.x_norm, ends, two, generator, evaluations // 2):
        attempt(xs, ys)
    reach = 0.5 * bounds.x_norm
    while len(history) < evaluations:
        xs = [x + reach * generator.standard_normal(d) / np.sqrt(d) for x in best[1]]
        ys = [float(generator.choice(ends)) if generator.random() < 0.2 else y for y in best[2]]
        attempt(xs, ys)
        reach *= 0.93
    data, neighbour = _pair(shared, bounds, best[1], best[2], two)
    return Found(data, neighbour, best[0], tuple(history))


def _extremes(
    d: int, norm: float, labels: tuple[float, ...], two: bool, generator: np.random.Generator, count: int
) -> list[tuple[list[Vector], list[float]]]:
    """Records at the norm bound: opposite ones with equal labels, equal ones with opposite labels, and one against nothing."""
    directions = [np.ones(d) / np.sqrt(d), *np.eye(d)[: max(count // 8, 1)]]
    directions += [v / np.linalg.norm(v) for v in generator.standard_normal((max(count // 8, 1), d))]
    tried: list[tuple[list[Vector], list[float]]] = []
    for direction in directions:
        x = norm * direction
        if not two:
            tried += [([x], [y]) for y in labels]
            continue
        tried += [([x, -x], [y, y]) for y in labels]
        tried += [([x, x], [labels[0], labels[-1]]), ([x, 0 * x], [labels[-1], labels[-1]])]
    return tried[: max(count, 4)]


def _pair(shared: Data, bounds: DataBounds, xs: list[Vector], ys: list[float], two: bool) -> tuple[Data, Data]:
    sets = [(np.vstack([shared[0], x]), np.r_[shared[1], y]) for x, y in zip(xs, ys)] + ([] if two else [shared])
    first, second = ((np.asarray(X), np.asarray(y)) for X, y in (bounds.enforce(*data) for data in sets))
    return first, second
