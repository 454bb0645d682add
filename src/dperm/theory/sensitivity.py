"""How far one record moves the logistic gradient (lecture 000 item 17)."""

from __future__ import annotations

import math

from scipy.optimize import minimize_scalar

from dperm.theory.checks import relation_factor, theorem


@theorem
def gradient_sensitivity(
    n: float = 1,
    d: float | None = None,
    domain: str = "ball",
    *,
    x_norm: float = 1.0,
    half_width: float = 1.0,
    intercept: float | None = None,
    parameter_radius: float | None = None,
    relation: str = "replace-one",
) -> float:
    """κR/n;  box [-h, h]^d with a constant feature c: R = √(dh² + c²);  ball: R = √(x_norm² + c²).

    L2 sensitivity of the logistic *mean* gradient over n records (n = 1: of the sum). `intercept` c is the
    value of the constant feature; default 1 on the box, as in the lecture (2√(d+1)/n), and 0 on the ball.
    **Guarantee** for every θ. With `parameter_radius` B, for ‖θ‖ <= B, exactly (erratum E32):

    * zero-out, add-remove: Rσ(BR)/n, σ the logistic function;
    * replace-one: max over α of 2Rσ(BR cos α) sin α / n. With v = -yx a gradient is σ(⟨v,θ⟩)v; the two
      worst records are mirror images at angle α from θ. A label flip alone moves it by exactly R.

    Under add-remove, n is a nominal public number. Multinomial and other losses: their own bounds.

    >>> round(gradient_sensitivity(n=1000, d=10, domain="box"), 8)           # 2 √11 / 1000
    0.00663325
    >>> [round(gradient_sensitivity(parameter_radius=b), 5) for b in (0.5, 1, 2, 5, 10, 50)]
    [1.02911, 1.0991, 1.26984, 1.61728, 1.82084, 1.98064]
    """
    factor = relation_factor(relation)
    norm = row_norm(d, domain, x_norm=x_norm, half_width=half_width, intercept=intercept)
    if parameter_radius is None:
        return factor * norm / n
    return norm * _unit_sensitivity(parameter_radius * norm, factor) / n


@theorem
def row_norm(
    d: float | None = None,
    domain: str = "ball",
    *,
    x_norm: float = 1.0,
    half_width: float = 1.0,
    intercept: float | None = None,
) -> float:
    """R = √(dh² + c²) on the box, √(x_norm² + c²) on the ball: the largest norm of an encoded row.

    >>> row_norm(d=8, domain="box"), row_norm(x_norm=3, intercept=4)
    (3.0, 5.0)
    """
    if domain == "box":
        if d is None:
            raise ValueError("Expected d with domain='box', found None. Pass the number of features.")
        return math.sqrt(d * half_width**2 + (1.0 if intercept is None else intercept) ** 2)
    if domain == "ball":
        return math.hypot(x_norm, intercept or 0.0)
    raise ValueError(f"Expected domain 'ball' or 'box', found {domain!r}. Pass one of them.")


def _sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


def _unit_sensitivity(reach: float, factor: int) -> float:
    """In units of R, with reach = B·R the largest margin."""
    if factor == 1:
        return _sigmoid(reach)
    # The maximum lies at cos α ≥ 0 (σ increasing, sin symmetric), where the function rises and then falls.
    best = minimize_scalar(
        lambda angle: -2 * _sigmoid(reach * math.cos(angle)) * math.sin(angle),
        bounds=(0.0, math.pi / 2), method="bounded", options={"xatol": 1e-13},
    )  # fmt: skip
    # at α = π/2 the value is 1; rounding must not report less than the label flip
    return max(1.0, -float(best.fun))
