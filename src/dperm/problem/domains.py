"""Sets of admissible parameters: how large they are, and how to project onto them.

Parameters that are matrices (one row per class) are flattened, projected as one vector, and shaped back.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dperm.problem.arrays import Array, clip, device, namespace, shrink_to_norm
from dperm.problem.intervals import Interval
from dperm.problem.specs import Named, count, number, vector


class Domain(Named, ABC):
    """A closed convex set C of parameters.

    radius    sup of ||w|| over C (exact, or a valid upper bound where the class says so); inf if unbounded
    diameter  sup of ||u - w|| over C, likewise
    """

    if TYPE_CHECKING:  # plain attributes in some classes, properties in others

        @property
        def radius(self) -> float: ...

        @property
        def diameter(self) -> float: ...

    @property
    def fixed_dimension(self) -> int | None:
        """The number of parameters, where the declaration fixes it."""
        return None

    @property
    def flat(self) -> bool:
        """Whether C lies in a hyperplane, so that its volume is counted in fewer dimensions."""
        return False

    @abstractmethod
    def project_rows(self, rows: Array) -> Array:
        """The nearest point of C for every row of an (m, d) array."""

    @abstractmethod
    def log_volume(self, d: int) -> float:
        """log of the volume in R^d (of a flat set: in its own dimension); inf if unbounded."""

    def check_dimension(self, d: int) -> None:
        """Refuse a number of parameters other than the declared one."""
        if self.fixed_dimension not in (None, d):
            raise ValueError(
                f"Expected {self.fixed_dimension} parameters, as the {self.name} domain declares, found {d}. "
                "Declare a domain of the right dimension."
            )

    def in_dimension(self, d: int) -> Domain:
        """The same set with the number of parameters fixed to d, so that its radius can be finite."""
        self.check_dimension(d)
        return self

    def project(self, w: Array) -> Array:
        """argmin over C of ||u - w||, in the shape of w."""
        xp = namespace(w)
        self.check_dimension(math.prod(w.shape))
        return xp.reshape(self.project_rows(xp.reshape(w, (1, -1))), w.shape)

    def contains(self, w: Array, tolerance: float = 1e-9) -> bool:
        """Whether w is within ``tolerance`` of C (relative to max(1, ||w||))."""
        xp = namespace(w)
        gap = xp.max(xp.abs(w - self.project(w)))
        return bool(gap <= tolerance * max(1.0, float(xp.max(xp.abs(w)))))


class Unbounded(Domain):
    """A domain that goes on for ever."""

    radius: ClassVar[float] = math.inf
    diameter: ClassVar[float] = math.inf

    def log_volume(self, d: int) -> float:
        """inf."""
        return math.inf


def _like(values: object, rows: Array) -> Array:
    """A declared vector or matrix in the library, dtype and device of rows."""
    return namespace(rows).asarray(values, dtype=rows.dtype, device=device(rows))


@dataclass(frozen=True)
class WholeSpace(Unbounded):
    """C = R^d: nothing is bounded.

    >>> WholeSpace().radius
    inf
    """

    name: ClassVar[str] = "whole-space"

    def project_rows(self, rows: Array) -> Array:
        """Every row is its own projection."""
        return rows


@dataclass(frozen=True)
class Ball(Domain):
    """C = {w : ||w||₂ <= radius}; projection w·min(1, radius/||w||); diameter 2·radius.

    Volume π^{d/2}·radius^d/Γ(d/2 + 1). The projection lands a few rounding errors inside, so that the radius
    bounds the computed parameters too.

    >>> round(math.exp(Ball(1.0).log_volume(2)), 6)
    3.141593
    """

    radius: float
    name: ClassVar[str] = "ball"

    @property
    def diameter(self) -> float:
        """2·radius."""
        return 2.0 * self.radius

    def project_rows(self, rows: Array) -> Array:
        """w·min(1, radius/||w||)."""
        xp = namespace(rows)
        return shrink_to_norm(xp, rows, self.radius, 4 * float(xp.finfo(rows.dtype).eps))

    def log_volume(self, d: int) -> float:
        """(d/2)log π - log Γ(d/2 + 1) + d·log radius."""
        return 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1) + d * math.log(self.radius)


@dataclass(frozen=True)
class Box(Domain):
    """C = {w : low <= w_j <= high}; ends are numbers, or one per parameter; projection clips each entry.

    radius² = Σ max(low_j², high_j²), diameter² = Σ (high_j - low_j)². With plain numbers they need
    ``dimension=`` (or ``in_dimension(d)``); until it is known they are inf, which is valid and useless on
    purpose.

    >>> Box(-1.0, 1.0, dimension=4).radius, Box((0, 0), (3, 4)).diameter
    (2.0, 5.0)
    """

    low: float | tuple[float, ...]
    high: float | tuple[float, ...]
    dimension: int | None = None
    name: ClassVar[str] = "box"

    def __post_init__(self) -> None:
        for what in ("low", "high"):
            value = getattr(self, what)
            many = hasattr(value, "__iter__") and not isinstance(value, str) and getattr(value, "shape", (1,)) != ()
            object.__setattr__(self, what, vector(value, what) if many else number(value, what))
        lengths = {len(end) for end in (self.low, self.high) if isinstance(end, tuple)}
        if self.dimension is not None:
            lengths.add(count(self.dimension, "dimension"))
        if len(lengths) > 1:
            raise ValueError(f"Expected ends of one length, found lengths {sorted(lengths)}. Pass one per parameter.")
        object.__setattr__(self, "dimension", lengths.pop() if lengths else None)
        for low, high in self._ends(self.dimension or 1):
            Interval(low, high)

    def _ends(self, d: int) -> list[tuple[float, float]]:
        low = self.low if isinstance(self.low, tuple) else (self.low,) * d
        high = self.high if isinstance(self.high, tuple) else (self.high,) * d
        return list(zip(low, high))

    @property
    def fixed_dimension(self) -> int | None:
        """The number of ends, or the declared dimension."""
        return self.dimension

    def in_dimension(self, d: int) -> Domain:
        """The box with d parameters."""
        self.check_dimension(d)
        return Box(self.low, self.high, d)

    @property
    def radius(self) -> float:
        """Norm of the farthest corner."""
        if self.dimension is None:
            return 0.0 if self.low == self.high == 0 else math.inf
        return math.hypot(*(max(abs(low), abs(high)) for low, high in self._ends(self.dimension)))

    @property
    def diameter(self) -> float:
        """Length of the diagonal."""
        if self.dimension is None:
            return 0.0 if self.low == self.high else math.inf
        return math.hypot(*(high - low for low, high in self._ends(self.dimension)))

    def project_rows(self, rows: Array) -> Array:
        """Entrywise clip."""
        xp = namespace(rows)
        if isinstance(self.low, float) and isinstance(self.high, float):
            return clip(xp, rows, self.low, self.high)
        ends = self._ends(rows.shape[1])
        low, high = (_like([pair[i] for pair in ends], rows) for i in (0, 1))
        return xp.minimum(xp.maximum(rows, low), high)

    def log_volume(self, d: int) -> float:
        """Σ log(high_j - low_j)."""
        self.check_dimension(d)
        widths = [high - low for low, high in self._ends(d)]
        return -math.inf if 0 in widths else math.fsum(math.log(width) for width in widths)


@dataclass(frozen=True)
class NonNegative(Unbounded):
    """C = {w : w >= 0}; projection max(w, 0).

    >>> import numpy as np
    >>> NonNegative().project(np.array([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    name: ClassVar[str] = "non-negative"

    def project_rows(self, rows: Array) -> Array:
        """max(w, 0)."""
        return clip(namespace(rows), rows, 0.0, math.inf)


@dataclass(frozen=True)
class Simplex(Domain):
    """C = {w : w >= 0, Σw = 1}; radius 1 (a vertex), diameter √2 (two vertices).

    Projection max(w - θ, 0) with θ = max_k (u_1 + ... + u_k - 1)/k over the sorted entries u. Proof: with
    the right θ, Σ_{i<=k}(u_i - θ) <= Σ max(u_i - θ, 0) = 1 for every k, with equality when k counts the
    positive terms. It is flat: ``log_volume`` is that of the (d-1)-dimensional face, √d/(d-1)!.

    >>> import numpy as np
    >>> Simplex().project(np.array([1.0, 1.0, -5.0])).tolist()
    [0.5, 0.5, 0.0]
    """

    name: ClassVar[str] = "simplex"
    radius: ClassVar[float] = 1.0
    diameter: ClassVar[float] = math.sqrt(2.0)
    flat: ClassVar[bool] = True  # Σw = 1

    def project_rows(self, rows: Array) -> Array:
        """max(w - θ, 0)."""
        xp = namespace(rows)
        # A common shift changes nothing, and without it large entries would lose all their digits.
        rows = rows - xp.max(rows, axis=1, keepdims=True)
        falling = xp.sort(rows, axis=1, descending=True)
        counts = xp.arange(1, rows.shape[1] + 1, dtype=rows.dtype, device=device(rows))
        threshold = xp.max((xp.cumulative_sum(falling, axis=1) - 1) / counts, axis=1, keepdims=True)
        return clip(xp, rows - threshold, 0.0, math.inf)

    def log_volume(self, d: int) -> float:
        """½log d - log (d-1)!."""
        return 0.5 * math.log(d) - math.lgamma(d)
