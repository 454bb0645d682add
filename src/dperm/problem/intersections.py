"""Half-spaces, affine sets, and intersections of domains."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from dperm.problem.arrays import Array, clip, namespace
from dperm.problem.domains import Ball, Box, Domain, NonNegative, Simplex, Unbounded, WholeSpace, _like
from dperm.problem.specs import built, count, number, split, vector

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class HalfSpace(Unbounded):
    """C = {w : <normal, w> <= offset}; projection w - max(<normal, w> - offset, 0)·normal/||normal||².

    >>> import numpy as np
    >>> HalfSpace((1.0, 0.0), 1.0).project(np.array([3.0, 5.0])).tolist()
    [1.0, 5.0]
    """

    normal: tuple[float, ...]
    offset: float
    name: ClassVar[str] = "half-space"

    def __post_init__(self) -> None:
        object.__setattr__(self, "normal", vector(self.normal, "normal"))
        object.__setattr__(self, "offset", number(self.offset, "offset"))
        length = math.hypot(*self.normal)
        if not 0 < length < math.inf or math.isinf(self.offset):
            raise ValueError(
                f"Expected a finite offset and a normal that is not zero, found {self.normal}, {self.offset:g}. "
                "Pass the direction and the level of the face."
            )

    @property
    def fixed_dimension(self) -> int | None:
        """The length of the normal."""
        return len(self.normal)

    def project_rows(self, rows: Array) -> Array:
        """Move along the normal, if outside."""
        xp = namespace(rows)
        length = math.hypot(*self.normal)
        unit = _like([entry / length for entry in self.normal], rows)
        excess = clip(xp, xp.sum(rows * unit, axis=1, keepdims=True) - self.offset / length, 0.0, math.inf)
        return rows - excess * unit


@dataclass(frozen=True)
class Affine(Domain):
    """C = {w : matrix·w = offset}; projection w - A⁺(Aw - b). Flat; bounded only when it is a single point.

    >>> import numpy as np
    >>> Affine([[1.0, 1.0]], [1.0]).project(np.array([1.0, 1.0])).round(9).tolist()
    [0.5, 0.5]
    """

    matrix: tuple[tuple[float, ...], ...]
    offset: tuple[float, ...]
    name: ClassVar[str] = "affine"
    flat: ClassVar[bool] = True

    def __post_init__(self) -> None:
        import numpy as np

        object.__setattr__(self, "matrix", tuple(vector(row, "matrix") for row in self.matrix))
        object.__setattr__(self, "offset", vector(self.offset, "offset"))
        if {len(row) for row in self.matrix} != {len(self.matrix[0])} or len(self.matrix) != len(self.offset):
            raise ValueError(
                f"Expected a rectangular matrix with one offset per row, found rows of lengths "
                f"{[len(row) for row in self.matrix]} and {len(self.offset)} offsets. Pass A and b of A·w = b."
            )
        matrix, offset = np.asarray(self.matrix), np.asarray(self.offset)
        if not (np.isfinite(matrix).all() and np.isfinite(offset).all()):
            raise ValueError("Expected finite matrix and offset, found an infinity. Pass numbers.")
        point = self._inverse @ offset
        if np.max(np.abs(matrix @ point - offset)) > 1e-9 * (1 + np.max(np.abs(offset))):
            raise ValueError("Expected matrix·w = offset to have a solution, found none. Drop the contradicting rows.")

    @cached_property
    def _inverse(self) -> np.ndarray:
        import numpy as np

        return np.linalg.pinv(np.asarray(self.matrix))

    @property
    def _is_point(self) -> bool:
        import numpy as np

        return int(np.linalg.matrix_rank(np.asarray(self.matrix))) == len(self.matrix[0])

    @property
    def fixed_dimension(self) -> int | None:
        """The number of columns."""
        return len(self.matrix[0])

    @property
    def radius(self) -> float:
        """inf, or the norm of the only point."""
        return math.hypot(*(self._inverse @ self.offset)) if self._is_point else math.inf

    @property
    def diameter(self) -> float:
        """inf, or 0 for a single point."""
        return 0.0 if self._is_point else math.inf

    def project_rows(self, rows: Array) -> Array:
        """w - A⁺(Aw - b)."""
        xp = namespace(rows)
        matrix, inverse, offset = (_like(item, rows) for item in (self.matrix, self._inverse.tolist(), self.offset))
        residual = xp.matmul(rows, xp.matrix_transpose(matrix)) - offset
        return rows - xp.matmul(residual, xp.matrix_transpose(inverse))

    def log_volume(self, d: int) -> float:
        """inf, or 0 (one point, counted) for a single point."""
        return 0.0 if self._is_point else math.inf


@dataclass(frozen=True)
class Intersection(Domain):
    """C = C_1 ∩ ... ∩ C_k; radius and diameter are the smallest of the parts' (valid upper bounds).

    Projection by Dykstra's cycles: at most ``cycles`` of them, fewer if a whole cycle changes neither the
    point nor any correction by more than 1e-13 of its size (a stalled point with moving corrections goes on). The part
    with the smallest radius comes last, so the result is exactly within the declared radius; in the other
    parts it is to about 1e-7 where two faces meet at a fair angle, less where they nearly touch.

    >>> import numpy as np
    >>> Intersection((Ball(1.0), NonNegative())).project(np.array([-1.0, 2.0])).round(9).tolist()
    [0.0, 1.0]
    """

    parts: tuple[Domain, ...]
    cycles: int = 1000
    name: ClassVar[str] = "intersection"

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        object.__setattr__(self, "cycles", count(self.cycles, "cycles"))
        if not self.parts:
            raise ValueError("Expected one domain or more, found none. Pass the domains to intersect.")
        dimensions = {part.fixed_dimension for part in self.parts} - {None}
        if len(dimensions) > 1:
            raise ValueError(f"Expected parts of one dimension, found {sorted(map(str, dimensions))}. Make them agree.")
        if self.fixed_dimension is not None:
            import numpy as np

            point = self.project(np.zeros(self.fixed_dimension))
            if not all(part.contains(point, 1e-4) for part in self.parts):
                raise ValueError("Expected domains that meet, found an empty intersection. Widen one of them.")

    @property
    def fixed_dimension(self) -> int | None:
        """That of any part that has one."""
        return next((part.fixed_dimension for part in self.parts if part.fixed_dimension is not None), None)

    @property
    def flat(self) -> bool:
        """Whether a part is."""
        return any(part.flat for part in self.parts)

    def in_dimension(self, d: int) -> Domain:
        """Every part with d parameters."""
        return Intersection(tuple(part.in_dimension(d) for part in self.parts), self.cycles)

    @property
    def radius(self) -> float:
        """Smallest radius of the parts: an upper bound."""
        return min(part.radius for part in self.parts)

    @property
    def diameter(self) -> float:
        """Smallest diameter of the parts: an upper bound."""
        return min(part.diameter for part in self.parts)

    def project_rows(self, rows: Array) -> Array:
        """Dykstra's alternating projections with corrections."""
        xp = namespace(rows)
        parts = sorted(self.parts, key=lambda part: -part.radius)
        corrections = [xp.zeros_like(rows) for _ in parts]
        small = max(1e-13, float(xp.finfo(rows.dtype).eps)) * (1.0 + float(xp.max(xp.abs(rows))))
        for _ in range(self.cycles):
            moved = 0.0
            for i, part in enumerate(parts):
                shifted = rows + corrections[i]
                nearest = part.project_rows(shifted)
                correction = shifted - nearest
                moved = max(moved, float(xp.max(xp.abs(correction - corrections[i]))))
                rows, corrections[i] = nearest, correction
            if moved <= small:
                break
        return rows

    def log_volume(self, d: int) -> float:
        """Smallest of the parts' (of the flat parts', if any): an upper bound."""
        parts = [part for part in self.parts if part.flat] or list(self.parts)
        return min(part.log_volume(d) for part in parts)


DOMAINS: dict[str, type[Domain]] = {
    item.name: item for item in (WholeSpace, Ball, Box, NonNegative, Simplex, HalfSpace, Affine, Intersection)
}


def domain_from_spec(spec: object) -> Domain:
    """The domain whose ``spec()`` is given.

    >>> domain_from_spec({"name": "ball", "radius": 2.0})
    Ball(radius=2.0)
    """
    name, parameters = split(spec, "domain", DOMAINS)
    if name == Intersection.name:
        parameters["parts"] = tuple(domain_from_spec(part) for part in parameters.get("parts", ()))
    return built(DOMAINS, name, parameters)
