"""Small problems and rows that the tests of several mechanisms share."""

from __future__ import annotations

import numpy as np

from dperm.problem import DataBounds, Domain, Interval, LogisticLoss, Loss, Problem, Regularizer

UNIT = Interval(-1.0, 1.0)


def problem(
    loss: Loss | None = None,
    regularizer: Regularizer | None = None,
    y: Interval = UNIT,
    norm: float = 1.0,
    intercept: float = 1.0,
    domain: Domain | None = None,
) -> Problem:
    """Logistic regression on rows of norm 1 with an intercept, but for what is given."""
    given = {"regularizer": regularizer, "domain": domain}
    parts = {name: value for name, value in given.items() if value is not None}
    return Problem(loss or LogisticLoss(), data=DataBounds(norm, y, intercept), **parts)


def data(generator: np.random.Generator, n: int = 300, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Rows inside the unit cube, and labels ±1 that mostly follow them."""
    X = generator.uniform(-0.5, 0.5, (n, d))
    return X, np.sign(X @ np.arange(1, d + 1) + 0.2 * generator.standard_normal(n))
