"""Cumulant functions Φ of exponential families, by name so that a declaration can be written down."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dperm.problem.arrays import Array, Namespace, sigmoid, sigmoid_derivative, softplus

ArrayFunction = Callable[[Namespace, Array], Array]


@dataclass(frozen=True)
class Cumulant:
    """Φ with its first two derivatives on the open interval (lowest, highest) of the natural parameter.

    Φ is the log-partition function: Φ' is the mean (the *inverse* link), Φ'' > 0 the variance. ``peak`` is
    where Φ'' is largest; Φ'' falls away from it on both sides, so the supremum of Φ'' over an interval is at
    the point nearest to the peak. Each function takes (array namespace, z).

    >>> CUMULANTS["poisson"].peak
    inf
    """

    name: str
    value: ArrayFunction
    first: ArrayFunction
    second: ArrayFunction
    lowest: float = -math.inf
    highest: float = math.inf
    peak: float = 0.0

    def at(self, order: int, z: float) -> float:
        """Φ, Φ' or Φ'' (order 0, 1, 2) at a Python float; limits at ±inf come out as limits.

        >>> CUMULANTS["bernoulli"].at(1, 0.0)
        0.5
        """
        import array_api_compat.numpy as xp
        import numpy as np

        function = (self.value, self.first, self.second)[order]
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            return float(function(xp, np.asarray(float(z))))


def _exponential(name: str) -> Cumulant:
    """-log(-z): exponential and gamma families share it (the shape is a dispersion)."""
    return Cumulant(name, lambda xp, z: -xp.log(-z), lambda xp, z: -1 / z, lambda xp, z: 1 / (z * z), highest=0.0)


def _exp(xp: Namespace, z: Array) -> Array:
    return xp.exp(z)


CUMULANTS: dict[str, Cumulant] = {
    item.name: item
    for item in (
        Cumulant("gaussian", lambda xp, z: 0.5 * z * z, lambda xp, z: z, lambda xp, z: xp.ones_like(z)),
        Cumulant("bernoulli", softplus, sigmoid, sigmoid_derivative),
        Cumulant("poisson", _exp, _exp, _exp, peak=math.inf),
        _exponential("exponential"),
        _exponential("gamma"),
        Cumulant(
            "inverse-gaussian",
            lambda xp, z: -xp.sqrt(-2 * z),
            lambda xp, z: 1 / xp.sqrt(-2 * z),
            lambda xp, z: (-2 * z) ** -1.5,
            highest=0.0,
        ),
    )
}
