"""What a loss is: three elementwise functions of the margin, and the bounds they obey."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from dperm.problem.arrays import Array, Namespace, prepare
from dperm.problem.intervals import Interval, LossBounds
from dperm.problem.specs import Named, number


def checked_margin(z_max: float) -> float:
    """z_max as a float >= 0.

    >>> checked_margin(2)
    2.0
    """
    z_max = number(z_max, "z_max")
    if z_max < 0:
        raise ValueError(f"Expected z_max >= 0, found {z_max:g}. Pass a bound on |<x, w>|.")
    return z_max


@dataclass(frozen=True)
class Loss(Named, ABC):
    """φ(z; y) of the margin z = <x, w>: a record's loss is φ(<x, w>; y) and its gradient φ'(z; y)·x.

    A new loss is one frozen dataclass listed in ``LOSSES``: give it ``name``, the flags, ``value``,
    ``slope``, ``curvature`` and ``bounds`` (exact suprema); the tests find it there. Arrays may come from any array-API library.

    convex          φ(·; y) is convex for every y
    smooth          φ' is Lipschitz, so that ``bounds(...).curvature`` is finite
    classification  labels are -1 and +1 (0..K-1 for vector margins). Labels strictly between -1 and +1 obey
                    the same bounds, so a label clipped into [-1, 1] cannot break them
    """

    convex: ClassVar[bool] = True
    smooth: ClassVar[bool] = True
    classification: ClassVar[bool] = False

    @property
    def margins(self) -> int:
        """How many margins a record has: 1, or K for K classes."""
        return 1

    @property
    def hessian_rank(self) -> int:
        """Largest rank of the Hessian of one record's loss in the parameters: 1 for φ''·xxᵀ."""
        return 1

    @property
    def self_bounding(self) -> float | None:
        """C with φ'' <= C·|φ'|·(1 - |φ'|) and φ' of one sign for each y; None where there is none."""
        return None

    @abstractmethod
    def value(self, z: Array, y: Array) -> Array:
        """φ(z; y), elementwise."""

    @abstractmethod
    def slope(self, z: Array, y: Array) -> Array:
        """∂φ/∂z, elementwise; a subgradient at kinks."""

    @abstractmethod
    def curvature(self, z: Array, y: Array) -> Array:
        """∂²φ/∂z², elementwise, almost everywhere."""

    @abstractmethod
    def bounds(self, z_max: float, y: Interval) -> LossBounds:
        """Suprema over |z| <= z_max and y in the interval (over the classes, for classification)."""


@dataclass(frozen=True)
class ElementwiseLoss(Loss):
    """A loss of one margin, said by formulas for arrays that are ready: floats z, and y in their dtype and on their device."""

    def value(self, z: Array, y: Array) -> Array:
        return self.value_of(*prepare(z, y))

    def slope(self, z: Array, y: Array) -> Array:
        return self.slope_of(*prepare(z, y))

    def curvature(self, z: Array, y: Array) -> Array:
        return self.curvature_of(*prepare(z, y))

    @abstractmethod
    def value_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """φ(z; y) in the array library `xp`."""

    @abstractmethod
    def slope_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """∂φ/∂z."""

    @abstractmethod
    def curvature_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """∂²φ/∂z²."""


@dataclass(frozen=True)
class KinkedLoss(ElementwiseLoss):
    """A loss of straight pieces: its slope jumps, so the curvature bound is infinite."""

    smooth: ClassVar[bool] = False

    def curvature_of(self, xp: Namespace, z: Array, y: Array) -> Array:
        """0 almost everywhere."""
        return xp.zeros_like(z - y)
