"""Where rows are centred and how they are scaled, from released sums of rows and of squares.

Squares of a wide table are released in several steps: see `seen_squares`. Everything here is pure, and `verify` replays it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled.centre import NARROW, believed_step, reach
from dperm.mechanisms.scaled.gaps import filling, present_cells
from dperm.mechanisms.scaled.stages import SQUARES
from dperm.problem import Problem
from dperm.release.plan import StageSettings, Vector
from dperm.terms.statistics import PLAIN, SquareSum, upper_quantile

# A standard deviation below the floor is treated as the floor: a rarer level is not blown up beyond 1/floor.
FLOORS = {"numeric": 0.005, "categorical": 0.2, "boolean": 0.1, "sparse": 0.02}
REGRESSION_FLOORS = {**FLOORS, "categorical": 0.1}
CLEAR = 10.0  # deviations of one count, which the sum of a dozen noisy counts hardly ever reaches
RARE = 0.25  # a 0/1 column that is 1 less often than this keeps 0 as its centre, which costs no noise


def floors(problem: Problem, kinds: Sequence[str], *, narrow: bool = False) -> Vector:
    """Smallest standard deviation that is believed, per column of encoded rows; `narrow` once the centre is refined."""
    table = dict(REGRESSION_FLOORS if rule.is_regression(problem) else FLOORS)
    table["numeric"] = NARROW if narrow else table["numeric"]
    table["private"] = table["numeric"]  # once its bounds are known
    table["free"] = 0.04 * problem.data.x_norm / math.sqrt(max(len(kinds), 1))
    return np.array([table[kind] for kind in kinds])


def mean_radius(public: rule.Public, released: Mapping[str, object]) -> float:
    """Clip of the rows whose mean is taken: the declared norm, or a private 90 % quantile of the norms below it."""
    limit = public.problem.data.x_norm
    if "row norms" not in released:
        return limit
    return min(limit, upper_quantile(np.asarray(released["row norms"]), limit, public.shape.n, 0.9))


def centre(public: rule.Public, released: Mapping[str, Any]) -> Vector:
    """Noisy mean of the present cells; zero where zero is the better guess (sparse columns, rare levels, hardly any cell).

    Between the two steps of a mean it is the first one (`centre.py`).
    """
    problem, shape, kinds = public.problem, public.shape, public.kinds
    if "mean" not in released and "rough mean" not in released:
        return np.zeros(shape.d)
    rough, own = "rough mean" in released, "mean" if "mean" in released else "rough mean"
    cells = present_cells(shape, public.target, public.gaps, public.budget, released)
    mean = np.where(cells > 0, np.asarray(released[own], dtype=np.float64) / np.maximum(cells, 1.0), 0.0)
    if rough and own == "mean":
        first = {name: value for name, value in released.items() if name != "mean"}
        step = believed_step(mean_radius(public, released), reach(problem, shape, released), public.budget)
        mean = centre(public, first) + step * mean
    if "present" in released:  # a mean over few cells is noisy: it stays where a row can be
        mean = np.where(cells < shape.n, np.clip(mean, -problem.data.x_norm, problem.data.x_norm), mean)
    if rule.is_regression(problem) or rule.has_flags(kinds):
        rare = np.array([kind in ("categorical", "boolean") for kind in kinds], dtype=bool) & (mean < RARE)
        sparse = np.array([kind == "sparse" for kind in kinds], dtype=bool)
        mean = np.where(rare | sparse, 0.0, mean)
    return mean


def centred_radius(public: rule.Public, released: Mapping[str, ArrayLike]) -> float:
    """Private 75 % quantile of ‖x - m‖."""
    return upper_quantile(np.asarray(released["radius"]), 2 * public.problem.data.x_norm, public.shape.n, 0.75)


def even_radius(d: int) -> float:
    """Where rows are cut from the second step on: E‖z‖² is about d there, and rows with a rare entry that is not 0 are long."""
    return 8.0 * math.sqrt(d)


def largest_squares(public: rule.Public, released: Mapping[str, Any], norms: str) -> float:
    """Private quantile of the norm of a row's squares, from the histogram of that name: where the squares of its step are cut.

    Squares that are spread evenly over d columns have the norm ‖x - m‖²/√d: in a table of many columns that is what keeps noise
    from hiding the columns that vary little. The first step takes 75 %. Noise is small in the others, which take 97 %: a tighter
    cut takes most from the rows in which a rare column is for once not 0, and blows that column up. Less where noise hides 3 % of
    the rows; where it hides a quarter, 4√d, the norm at a mean fourth power of 16.
    """
    counts, n, d = np.asarray(released[norms]), public.shape.n, public.shape.d
    if norms == SQUARES[0][0]:
        return upper_quantile(counts, centred_radius(public, released) ** 2, n, 0.75)
    beyond = max(0.03 * n, CLEAR * public.count_noise(norms))
    if beyond > 0.25 * n:
        return 4.0 * math.sqrt(d)
    return upper_quantile(counts, even_radius(d) ** 2, n, 1.0 - beyond / n)


def seen_squares(public: rule.Public, released: Mapping[str, Any], steps: int) -> tuple[Vector, Vector]:
    """(sums of squares, what is believed of them) after so many of the steps in which those of a wide table are released.

    Every step sees the columns in units of what the one before believed of them, where none is longer than the others: its noise
    is a small part even of a variance that the one before could not see.
    """
    unit: float | Vector = 1.0
    for norms, name in SQUARES[:steps]:
        noise = noise_of_squares(public, name, largest_squares(public, released, norms))
        squares = np.asarray(released[name], dtype=np.float64) * unit
        believed = believed_squares(public, released, squares, noise * unit)
        unit = believed / public.shape.n
    return squares, believed


def noise_of_squares(public: rule.Public, stage: str, bound: float) -> float:
    """Standard deviation of sums of squares of rows whose squares have at most this norm."""
    sensitivity = SquareSum(PLAIN, math.inf, bound).sensitivity(public.target.relation)
    return sensitivity * public.target.rows_per_person / public.budget[stage]


def believed_squares(public: rule.Public, released: Mapping[str, Any], squares: Vector, noise: float | Vector) -> Vector:
    """Sums of squares, or their noise where it is larger, or the floor of the column."""
    floor = floors(public.problem, public.kinds, narrow="rough mean" in released)
    return np.maximum(np.maximum(squares, noise), public.shape.n * floor * floor)


CUTS = ("largest_rough_squares", "largest_squares", "largest_finer_squares")


@dataclass(frozen=True, eq=False)
class Scaled(StageSettings):
    """Where rows are centred and how they are scaled; `mean_reach` after a mean in two steps, `fill` where cells are missing,
    the norms that squares were cut to where they were released in several steps."""

    shift: Vector
    scale: Vector
    size: float
    centred_radius: float
    mean_reach: float | None = None
    fill: Vector | None = None
    largest_rough_squares: float | None = None
    largest_squares: float | None = None
    largest_finer_squares: float | None = None
    LEFT_OUT: ClassVar[tuple[str, ...]] = ("mean_reach", "fill", *CUTS)


def centred_and_scaled(public: rule.Public, released: Mapping[str, Any]) -> Scaled:
    """shift m, scale 1/standard deviation, S² = E‖z‖² and the radii, from the released statistics; what missing cells become."""
    problem, shape, shift = public.problem, public.shape, centre(public, released)
    radius, steps = centred_radius(public, released), sum(norms in released for norms, _ in SQUARES)
    if steps:
        squares, believed = seen_squares(public, released, steps)
    else:
        squares = np.asarray(released["squares"], dtype=np.float64)
        believed = believed_squares(public, released, squares, noise_of_squares(public, "squares", radius**2))
    size = max(1.0, float(np.sum(np.maximum(squares, 0.0) / believed)))
    cuts = [largest_squares(public, released, norms) for norms, _ in SQUARES[:steps]]
    return Scaled(
        shift=shift,
        scale=np.sqrt(shape.n / believed),
        size=math.sqrt((1.0 if problem.data.intercept else 0.0) + size),
        centred_radius=radius,
        mean_reach=reach(problem, shape, released) if "rough mean" in released else None,
        fill=filling(shape, public.gaps, shift) if "present" in released else None,
        **dict(zip(CUTS, cuts)),
    )
