"""The lectures' exercises on constants as functions, and numerical checkers of convexity and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dperm.problem.intervals import Interval, LossBounds
from dperm.problem.losses.base import Loss
from dperm.problem.losses.regression import SquaredLoss
from dperm.problem.specs import number, product

if TYPE_CHECKING:
    import numpy as np

Function = Callable[["np.ndarray"], float]


@dataclass(frozen=True)
class Check:
    """Outcome of a numerical check: true if nothing above the tolerance was found, with the worst case seen.

    >>> bool(Check(True, 0.0, None))
    True
    """

    holds: bool
    worst: float
    witness: object

    def __bool__(self) -> bool:
        return self.holds


def squared_loss_constants(row_norm: float, y_bound: float, parameter_bound: float) -> LossBounds:
    """For ½(<x, w> - y)² with ||x|| <= R, |y| <= B, ||w|| <= B_w, as a function of w:

    range ½(R·B_w + B)²,   Lipschitz R(R·B_w + B),   smoothness R².

    >>> squared_loss_constants(row_norm=2.0, y_bound=1.0, parameter_bound=3.0)
    LossBounds(range=24.5, slope=14.0, curvature=4.0)
    """
    row_norm = number(row_norm, "row_norm")
    y_bound = number(y_bound, "y_bound")
    margin = product(row_norm, number(parameter_bound, "parameter_bound"))
    bounds = SquaredLoss().bounds(margin, Interval(-y_bound, y_bound))
    return LossBounds(bounds.range, product(bounds.slope, row_norm), product(row_norm, row_norm))


def squared_loss_is_bounded(row_norm: float, y_bound: float, parameter_bound: float) -> bool:
    """Exactly when R·B_w and B are finite: on an unbounded domain one row makes it as large as one likes.

    >>> squared_loss_is_bounded(1.0, 1.0, 10.0), squared_loss_is_bounded(1.0, 1.0, math.inf)
    (True, False)
    """
    return math.isfinite(squared_loss_constants(row_norm, y_bound, parameter_bound).range)


def squared_loss_is_lipschitz(row_norm: float, y_bound: float, parameter_bound: float) -> bool:
    """Exactly when R(R·B_w + B) is finite: the gradient (<x, w> - y)x grows with w, with y and twice with x.

    >>> squared_loss_is_lipschitz(1.0, 1.0, 10.0), squared_loss_is_lipschitz(1.0, math.inf, 10.0)
    (True, False)
    """
    return math.isfinite(squared_loss_constants(row_norm, y_bound, parameter_bound).slope)


def range_from_lipschitz(lipschitz: float, diameter: float) -> float:
    """sup ℓ - inf ℓ <= L · diameter: a Lipschitz loss on a bounded domain is bounded, up to a constant.

    >>> range_from_lipschitz(lipschitz=2.0, diameter=3.0)
    6.0
    """
    return product(number(lipschitz, "lipschitz"), number(diameter, "diameter"))


def spread_points(count: int, dimension: int, size: float = 1.0) -> np.ndarray:
    """``count`` points spread evenly over [-size, size]^dimension by an additive recurrence; no randomness.

    Point i has coordinates frac(½ + i/g^j), where g is the root of g^{dimension+1} = g + 1.

    >>> spread_points(2, 1).shape
    (2, 1)
    """
    import numpy as np

    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (dimension + 1))
    powers = root ** -np.arange(1.0, dimension + 1)
    return size * (2 * ((0.5 + np.arange(1, count + 1)[:, None] * powers[None, :]) % 1.0) - 1)


def check_strong_convexity(
    function: Loss | Function,
    strength: float,
    dimension: int = 1,
    size: float = 5.0,
    count: int = 200,
    labels: tuple[float, ...] = (-1.0, 1.0),
    tolerance: float = 1e-9,
) -> Check:
    """f(αu + (1-α)w) <= αf(u) + (1-α)f(w) - (λ/2)α(1-α)||u - w||²  for λ = ``strength``.

    The half belongs there: with λα(1-α) the inequality says 2λ-strongly convex, and disagrees with the
    first-order form f(u) >= f(w) + <∇f(w), u-w> + (λ/2)||u-w||² and with ∇²f ⪰ λI.
    ``function`` maps a vector to a number, or is a loss of a scalar margin, checked for each of ``labels``.
    The search covers pairs of points in [-size, size]^dimension and finds counterexamples; it proves nothing.

    >>> bool(check_strong_convexity(lambda w: 0.5 * w @ w, strength=1.0, dimension=3))
    True
    >>> bool(check_strong_convexity(lambda w: 0.5 * w @ w, strength=1.1, dimension=3))
    False
    """
    if isinstance(function, Loss):
        if function.margins != 1:
            raise ValueError(f"Expected a loss of one margin, found {function.margins}. Pass a function of a vector.")
        outcomes = [check_strong_convexity(_along(function, y), strength, 1, size, count, labels, tolerance) for y in labels]
        return max(outcomes, key=lambda outcome: outcome.worst)
    pairs = spread_points(count, 2 * dimension, size)
    worst, witness = -math.inf, None
    for i, pair in enumerate(pairs):
        # Every other pair is close together: curvature that holds at a distance may fail nearby.
        u = pair[:dimension]
        w = pair[dimension:] if i % 2 else u + 0.01 * pair[dimension:]
        ends = float(function(u)), float(function(w))
        gap = float((u - w) @ (u - w))
        scale = 1.0 + abs(ends[0]) + abs(ends[1])
        for share in (0.5, 0.1, 0.9):
            allowed = share * ends[0] + (1 - share) * ends[1] - 0.5 * strength * share * (1 - share) * gap
            excess = (float(function(share * u + (1 - share) * w)) - allowed) / scale
            if excess > worst:
                worst, witness = excess, (u.tolist(), w.tolist(), share)
    return Check(worst <= tolerance, worst, witness)


def check_convexity(
    function: Loss | Function,
    dimension: int = 1,
    size: float = 5.0,
    count: int = 200,
    labels: tuple[float, ...] = (-1.0, 1.0),
    tolerance: float = 1e-9,
) -> Check:
    """f(αu + (1-α)w) <= αf(u) + (1-α)f(w) for pairs of points and several α: Jensen's form.

    >>> from dperm.problem import LogisticLoss, ZeroOneLoss
    >>> bool(check_convexity(LogisticLoss())), bool(check_convexity(ZeroOneLoss()))
    (True, False)
    """
    return check_strong_convexity(function, 0.0, dimension, size, count, labels, tolerance)


def _along(loss: Loss, y: float) -> Function:
    """z ↦ φ(z; y) as a function of a vector of one entry."""
    return lambda z: float(loss.value(z, 0 * z + y)[0])


def check_gradient(
    function: Function,
    gradient: Callable[[np.ndarray], object],
    dimension: int = 1,
    size: float = 3.0,
    count: int = 50,
    step: float = 1e-5,
    tolerance: float = 1e-6,
) -> Check:
    """|(f(w + he_j) - f(w - he_j))/(2h) - ∂_j f(w)| <= tolerance·(1 + |∂_j f(w)|), at spread points.

    >>> bool(check_gradient(lambda w: float(w @ w), lambda w: 2 * w, dimension=2))
    True
    >>> bool(check_gradient(lambda w: float(w @ w), lambda w: w, dimension=2))
    False
    """
    import numpy as np

    worst, witness = -math.inf, None
    for w in spread_points(count, dimension, size):
        claimed = np.asarray(gradient(w), dtype=float)
        for j, direction in enumerate(np.eye(dimension)):
            rise = float(function(w + step * direction)) - float(function(w - step * direction))
            error = abs(rise / (2 * step) - claimed[j]) / (1 + abs(claimed[j]))
            if error > worst:
                worst, witness = float(error), (w.tolist(), j)
    return Check(worst <= tolerance, worst, witness)
