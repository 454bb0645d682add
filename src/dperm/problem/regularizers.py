"""Penalties on the parameters, on the SUM scale: they are added to Σ_i loss_i, not to its mean."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from dperm.problem.arrays import Array, clip, namespace
from dperm.problem.specs import Named, built, split


@dataclass(frozen=True)
class Regularizer(Named, ABC):
    """A convex penalty r(w) with its strong convexity, smoothness and proximal map."""

    @property
    @abstractmethod
    def strong_convexity(self) -> float:
        """Largest λ such that r - (λ/2)||·||² is convex."""

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """Lipschitz constant of the gradient; inf where it jumps."""

    @abstractmethod
    def value(self, w: Array) -> float:
        """r(w)."""

    @abstractmethod
    def gradient(self, w: Array) -> Array:
        """∇r(w); the subgradient of least norm where it jumps."""

    @abstractmethod
    def prox(self, w: Array, step: float) -> Array:
        """argmin_u step·r(u) + ½||u - w||²."""


@dataclass(frozen=True)
class _Elastic(Regularizer):
    """r(w) = (ridge/2)||w||² + lasso·||w||₁; a subclass says how strong both parts are."""

    @property
    def _strengths(self) -> tuple[float, float]:
        """(ridge, lasso)."""
        raise NotImplementedError

    @property
    def strong_convexity(self) -> float:
        """The strength of the ridge."""
        return self._strengths[0]

    @property
    def smoothness(self) -> float:
        """The strength of the ridge; inf, unless that of the lasso is 0."""
        ridge, lasso = self._strengths
        return math.inf if lasso else ridge

    def value(self, w: Array) -> float:
        """(ridge/2)||w||² + lasso·||w||₁."""
        xp, (ridge, lasso) = namespace(w), self._strengths
        total = 0.0
        if ridge:
            total += 0.5 * ridge * float(xp.sum(w * w))
        if lasso:
            total += lasso * float(xp.sum(xp.abs(w)))
        return total

    def gradient(self, w: Array) -> Array:
        """ridge·w + lasso·sign(w)."""
        ridge, lasso = self._strengths
        return ridge * w + lasso * namespace(w).sign(w) if lasso else ridge * w

    def prox(self, w: Array, step: float) -> Array:
        """sign(w)·max(|w| - step·lasso, 0)/(1 + step·ridge): soft-threshold, then shrink."""
        xp, (ridge, lasso) = namespace(w), self._strengths
        if lasso:
            w = xp.sign(w) * clip(xp, xp.abs(w) - step * lasso, 0.0, math.inf)
        return w / (1.0 + step * ridge) if ridge else w


@dataclass(frozen=True)
class NoRegularizer(_Elastic):
    """r(w) = 0.

    >>> NoRegularizer().strong_convexity
    0.0
    """

    name: ClassVar[str] = "none"
    _strengths: ClassVar[tuple[float, float]] = (0.0, 0.0)


@dataclass(frozen=True)
class Ridge(_Elastic):
    """r(w) = (λ/2)||w||² with λ = ``strength`` on the sum scale: λ-strongly convex and λ-smooth.

    The mean-scale ridge of the same minimiser is λ/n. λ||w||² without the half would be 2λ-strongly convex.

    >>> import numpy as np
    >>> Ridge(2.0).value(np.array([3.0, 4.0])), Ridge(2.0).prox(np.array([3.0]), 1.0)
    (25.0, array([1.]))
    """

    strength: float
    name: ClassVar[str] = "ridge"

    @property
    def _strengths(self) -> tuple[float, float]:
        return self.strength, 0.0


@dataclass(frozen=True)
class Lasso(_Elastic):
    """r(w) = λ||w||₁ with λ = ``strength`` on the sum scale: convex, neither strongly convex nor smooth.

    >>> import numpy as np
    >>> Lasso(1.0).prox(np.array([3.0, -0.5]), 1.0).tolist()
    [2.0, -0.0]
    """

    strength: float
    name: ClassVar[str] = "lasso"

    @property
    def _strengths(self) -> tuple[float, float]:
        return 0.0, self.strength


@dataclass(frozen=True)
class ElasticNet(_Elastic):
    """r(w) = (ridge/2)||w||² + lasso·||w||₁, both on the sum scale: ``ridge``-strongly convex.

    >>> ElasticNet(ridge=2.0, lasso=1.0).strong_convexity
    2.0
    """

    ridge: float
    lasso: float
    name: ClassVar[str] = "elastic-net"

    @property
    def _strengths(self) -> tuple[float, float]:
        return self.ridge, self.lasso


REGULARIZERS: dict[str, type[Regularizer]] = {item.name: item for item in (NoRegularizer, Ridge, Lasso, ElasticNet)}


def regularizer_from_spec(spec: object) -> Regularizer:
    """The regularizer whose ``spec()`` is given.

    >>> regularizer_from_spec({"name": "ridge", "strength": 2.0})
    Ridge(strength=2.0)
    """
    return built(REGULARIZERS, *split(spec, "regularizer", REGULARIZERS))
