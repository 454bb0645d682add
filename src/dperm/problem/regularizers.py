"""Penalties on the parameters, on the SUM scale: they are added to Σ_i loss_i, not to its mean."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from dperm.problem.arrays import Array, clip, namespace
from dperm.problem.specs import Spec, built, field_spec, non_negative, split


@dataclass(frozen=True)
class Regularizer(ABC):
    """A convex penalty r(w) with its strong convexity, smoothness and proximal map."""

    name: ClassVar[str] = "regularizer"

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

    def spec(self) -> Spec:
        """JSON form: name and strengths."""
        return field_spec(self)


def _elastic_value(w: Array, ridge: float, lasso: float) -> float:
    xp = namespace(w)
    total = 0.0
    if ridge:
        total += 0.5 * ridge * float(xp.sum(w * w))
    if lasso:
        total += lasso * float(xp.sum(xp.abs(w)))
    return total


def _elastic_prox(w: Array, ridge: float, lasso: float) -> Array:
    """sign(w)·max(|w| - lasso, 0)/(1 + ridge): soft-threshold, then shrink."""
    if lasso:
        xp = namespace(w)
        w = xp.sign(w) * clip(xp, xp.abs(w) - lasso, 0.0, math.inf)
    return w / (1.0 + ridge)


@dataclass(frozen=True)
class NoRegularizer(Regularizer):
    """r(w) = 0.

    >>> NoRegularizer().strong_convexity
    0.0
    """

    name: ClassVar[str] = "none"

    @property
    def strong_convexity(self) -> float:
        """0."""
        return 0.0

    @property
    def smoothness(self) -> float:
        """0."""
        return 0.0

    def value(self, w: Array) -> float:
        """0."""
        return 0.0

    def gradient(self, w: Array) -> Array:
        """0."""
        return namespace(w).zeros_like(w)

    def prox(self, w: Array, step: float) -> Array:
        """w."""
        return w


@dataclass(frozen=True)
class Ridge(Regularizer):
    """r(w) = (λ/2)||w||² with λ = ``strength`` on the sum scale: λ-strongly convex and λ-smooth.

    The mean-scale ridge of the same minimiser is λ/n. λ||w||² without the half would be 2λ-strongly convex.

    >>> import numpy as np
    >>> Ridge(2.0).value(np.array([3.0, 4.0])), Ridge(2.0).prox(np.array([3.0]), 1.0)
    (25.0, array([1.]))
    """

    strength: float
    name: ClassVar[str] = "ridge"

    def __post_init__(self) -> None:
        object.__setattr__(self, "strength", non_negative(self.strength, "strength"))

    @property
    def strong_convexity(self) -> float:
        """λ."""
        return self.strength

    @property
    def smoothness(self) -> float:
        """λ."""
        return self.strength

    def value(self, w: Array) -> float:
        """(λ/2)||w||²."""
        return _elastic_value(w, self.strength, 0.0)

    def gradient(self, w: Array) -> Array:
        """λw."""
        return self.strength * w

    def prox(self, w: Array, step: float) -> Array:
        """w/(1 + step·λ)."""
        return _elastic_prox(w, step * self.strength, 0.0)


@dataclass(frozen=True)
class Lasso(Regularizer):
    """r(w) = λ||w||₁ with λ = ``strength`` on the sum scale: convex, neither strongly convex nor smooth.

    >>> import numpy as np
    >>> Lasso(1.0).prox(np.array([3.0, -0.5]), 1.0).tolist()
    [2.0, -0.0]
    """

    strength: float
    name: ClassVar[str] = "lasso"

    def __post_init__(self) -> None:
        object.__setattr__(self, "strength", non_negative(self.strength, "strength"))

    @property
    def strong_convexity(self) -> float:
        """0."""
        return 0.0

    @property
    def smoothness(self) -> float:
        """inf, unless the strength is 0."""
        return math.inf if self.strength else 0.0

    def value(self, w: Array) -> float:
        """λ||w||₁."""
        return _elastic_value(w, 0.0, self.strength)

    def gradient(self, w: Array) -> Array:
        """λ sign(w)."""
        return self.strength * namespace(w).sign(w)

    def prox(self, w: Array, step: float) -> Array:
        """Soft threshold at step·λ."""
        return _elastic_prox(w, 0.0, step * self.strength)


@dataclass(frozen=True)
class ElasticNet(Regularizer):
    """r(w) = (ridge/2)||w||² + lasso·||w||₁, both on the sum scale: ``ridge``-strongly convex.

    >>> ElasticNet(ridge=2.0, lasso=1.0).strong_convexity
    2.0
    """

    ridge: float
    lasso: float
    name: ClassVar[str] = "elastic-net"

    def __post_init__(self) -> None:
        object.__setattr__(self, "ridge", non_negative(self.ridge, "ridge"))
        object.__setattr__(self, "lasso", non_negative(self.lasso, "lasso"))

    @property
    def strong_convexity(self) -> float:
        """ridge."""
        return self.ridge

    @property
    def smoothness(self) -> float:
        """inf, unless lasso is 0."""
        return math.inf if self.lasso else self.ridge

    def value(self, w: Array) -> float:
        """(ridge/2)||w||² + lasso·||w||₁."""
        return _elastic_value(w, self.ridge, self.lasso)

    def gradient(self, w: Array) -> Array:
        """ridge·w + lasso·sign(w)."""
        return self.ridge * w + self.lasso * namespace(w).sign(w)

    def prox(self, w: Array, step: float) -> Array:
        """Soft threshold at step·lasso, then divide by 1 + step·ridge."""
        return _elastic_prox(w, step * self.ridge, step * self.lasso)


REGULARIZERS: dict[str, type[Regularizer]] = {item.name: item for item in (NoRegularizer, Ridge, Lasso, ElasticNet)}


def regularizer_from_spec(spec: object) -> Regularizer:
    """The regularizer whose ``spec()`` is given.

    >>> regularizer_from_spec({"name": "ridge", "strength": 2.0})
    Ridge(strength=2.0)
    """
    return built(REGULARIZERS, *split(spec, "regularizer", REGULARIZERS))
