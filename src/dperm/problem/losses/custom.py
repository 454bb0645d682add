"""A loss that the user supplies as three functions with declared bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from dperm.problem.arrays import Array, device, namespace
from dperm.problem.failing import Unanswered, failing, of_every_row, real_numbers
from dperm.problem.intervals import Interval, LossBounds
from dperm.problem.losses.base import Loss, checked_margin
from dperm.problem.specs import Spec, encode

if TYPE_CHECKING:
    import numpy as np

    Failed: TypeAlias = np.ndarray | bool
    Refuse: TypeAlias = Callable[[Failed, str, np.ndarray | float], None]

LossFunction = Callable[[Array, Array], Array]

# Declared suprema are compared with this relative slack, so that an exact bound survives rounding.
SLACK = 1e-9


def adversarial_margins(z_max: float) -> np.ndarray:
    """Margins where declared bounds break first: both ends, zero, unit points, and every scale between.

    An infinite range is searched up to 1e6: beyond, a slope that is still growing has already passed any
    bound.

    >>> float(adversarial_margins(2.0).max())
    2.0
    """
    import numpy as np

    end = z_max if math.isfinite(z_max) else 1e6
    scales = np.concatenate([np.linspace(0.0, min(end, 10.0), 401), end * np.logspace(-9, 0, 181)])
    joints = np.array([0.25, 0.5, 1.0, 2.0])
    joints = np.concatenate([joints * (1 - 1e-9), joints, joints * (1 + 1e-9)])
    scales = np.concatenate([scales, joints[joints <= end]])
    return np.unique(np.concatenate([-scales, scales]))


def adversarial_labels(y: Interval, classification: bool) -> np.ndarray:
    """The ends, the middle and zero of a label range; the two labels for classification.

    >>> adversarial_labels(Interval(0, 2), False).tolist()
    [0.0, 1.0, 2.0]
    """
    import numpy as np

    if classification:
        return np.array([-1.0, 1.0])
    low, high = max(y.low, -1e6), min(y.high, 1e6)
    return np.unique([low, 0.5 * (low + high), high, y.clip(0.0)])


def asked(function: LossFunction, z: np.ndarray, y: np.ndarray, what: str) -> np.ndarray:
    """What a function says of some points, one number for each."""
    import numpy as np

    answers = function(z.copy(), y.copy())
    found = np.asarray(real_numbers(answers, np.shape(answers)), dtype=float)
    if found.shape != z.shape:
        raise ValueError(f"Expected one {what} per margin, found shape {found.shape}. Work elementwise.")
    return found


def beside_others(function: LossFunction, z: np.ndarray, y: np.ndarray, what: str) -> np.ndarray:
    """What a function says of the points when others stand beside them: positive margins without the rest and turned around, the
    rest likewise, and some points alone. Where one row moved what is said of others, no clip would bound what it moves."""
    import numpy as np

    found = np.empty_like(z)
    alone = np.arange(0, len(z), 37)
    for part in (np.flatnonzero(z > 0)[::-1], np.flatnonzero(z <= 0)[::-1], *np.split(alone, len(alone))):
        if len(part):
            found[part] = asked(function, z[part], y[part], what)
    return found


def _own(values: Array) -> Array:
    """Numbers that a function may write to."""
    return values if isinstance(values, int | float) else namespace(values).asarray(values, copy=True)


def _flat(values: Array, shape: tuple[int, ...]) -> Array:
    """Numbers repeated to a shape, one after the other."""
    xp = namespace(values)
    return xp.reshape(xp.broadcast_to(values, shape), (-1,))


@dataclass(frozen=True)
class CustomLoss(Loss):
    """φ given by three functions of (z, y), with bounds declared for |z| <= z_max and y in the interval.

    At construction the functions are evaluated on a fixed grid of adversarial points and refused if a
    declared bound, the declared convexity, or the agreement of value, slope and curvature fails there, or
    if what they say of a point changes with the points beside it.

    **Guarantee**: the check finds mistakes, it does not prove the bounds. A privacy guarantee that uses them
    rests on the declaration, and the spec says so; it cannot be rebuilt from JSON. Outside the declared
    region every bound is infinite. A row on which a function raises an error, or gives no real number, counts 0
    there, and no error comes out.

    >>> import numpy as np
    >>> loss = CustomLoss(
    ...     value_function=lambda z, y: np.sqrt(1 + (z - y) ** 2) - 1,
    ...     slope_function=lambda z, y: (z - y) / np.sqrt(1 + (z - y) ** 2),
    ...     curvature_function=lambda z, y: (1 + (z - y) ** 2) ** -1.5,
    ...     declared=LossBounds(math.inf, 1.0, 1.0), label="pseudo-huber")
    >>> loss.bounds(3.0, Interval(-1, 1)).slope
    1.0
    """

    value_function: LossFunction
    slope_function: LossFunction
    curvature_function: LossFunction
    declared: LossBounds
    z_max: float = math.inf
    y: Interval = field(default_factory=lambda: Interval(-1.0, 1.0))
    convex: bool = field(default=True, kw_only=True)  # type: ignore[misc]
    smooth: bool = field(default=True, kw_only=True)  # type: ignore[misc]
    classification: bool = field(default=False, kw_only=True)  # type: ignore[misc]
    label: str = "custom"
    name: ClassVar[str] = "custom"

    def __post_init__(self) -> None:
        object.__setattr__(self, "z_max", checked_margin(self.z_max))
        if self.smooth and math.isinf(self.declared.curvature):
            raise ValueError("Expected a finite curvature for a smooth loss, found inf. Pass smooth=False.")
        self._check()

    def value(self, z: Array, y: Array) -> Array:
        """The supplied φ."""
        return self._of_every_row(self.value_function, z, y)

    def slope(self, z: Array, y: Array) -> Array:
        """The supplied φ'."""
        return self._of_every_row(self.slope_function, z, y)

    def curvature(self, z: Array, y: Array) -> Array:
        """The supplied φ''."""
        return self._of_every_row(self.curvature_function, z, y)

    def _of_every_row(self, function: LossFunction, z: Array, y: Array) -> Array:
        """What a function says of private rows, of which none must be heard: NumPy warns of nothing, and where the function
        raises an error or gives no real number, the row adds 0. Where it overflows, its NaN adds nothing to a sum."""
        import numpy as np

        z = np.asarray(z) if isinstance(z, int | float) else z
        xp, place = namespace(z), device(z)
        y = y if isinstance(y, int | float) or type(y) is type(z) else xp.asarray(y, device=place)
        shape = np.broadcast_shapes(tuple(z.shape), np.shape(y))

        def said(z: Array, y: Array, shape: tuple[int, ...]) -> Array:
            return xp.asarray(real_numbers(function(_own(z), _own(y)), shape), device=place)

        def nothing(count: int) -> Array:
            return xp.zeros(count, dtype=z.dtype, device=place)

        with np.errstate(all="ignore"):
            with suppress(Unanswered), failing():
                return said(z, y, shape)
            # Each in its own type, so that others are asked what they were asked before.
            flat, labels = _flat(z, shape), y if isinstance(y, int | float) else _flat(y, shape)
            try:  # what was found to work when the loss was made, on arrays of NumPy
                said(nothing(1), nothing(1) + (1.0 if self.classification else self.y.clip(0.0)), (1,))
            except Exception as error:
                raise ValueError(
                    f"Expected a loss for arrays of {type(z).__module__}, in which these rows are, found {type(error).__name__} "
                    f"at z=0: {str(error)[:200]} Write {self.label!r} for such arrays, or use MemoryRows. Nothing was released."
                ) from error

            def ask(part: slice | np.ndarray) -> Array:
                some = flat[part]
                return said(some, labels if isinstance(labels, int | float) else labels[part], tuple(some.shape))

            return xp.reshape(of_every_row(ask, math.prod(shape), nothing), shape)

    def bounds(self, z_max: float, y: Interval) -> LossBounds:
        """The declared bounds inside the declared region, infinite outside."""
        inside = checked_margin(z_max) <= self.z_max and (self.classification or self.y.includes(y))
        return self.declared if inside else LossBounds(math.inf, math.inf, math.inf)

    def spec(self) -> Spec:
        """What can be written down: the declaration, not the functions."""
        return {
            "name": self.name,
            "label": self.label,
            "reconstructible": False,
            "declared": self.declared.spec(),
            "checked": "on a grid of adversarial points; not proven",
            "z_max": encode(self.z_max),
            "y": self.y.spec(),
            "convex": self.convex,
            "smooth": self.smooth,
            "classification": self.classification,
        }

    def _check(self) -> None:
        import numpy as np

        margins = adversarial_margins(self.z_max)
        labels = adversarial_labels(self.y, self.classification)
        z, y = (grid.ravel() for grid in np.meshgrid(margins, labels, indexing="ij"))
        functions = {"value": self.value_function, "slope": self.slope_function, "curvature": self.curvature_function}

        def refuse(failed: Failed, expected: str, found: np.ndarray | float) -> None:
            if np.any(failed):
                i = int(np.argmax(failed))
                raise ValueError(
                    f"Expected {expected}, found {float(np.broadcast_to(found, z.shape)[i]):g} at z={z[i]:g}, y={y[i]:g}. "
                    "Correct the loss or declare what it does."
                )

        found = {what: asked(function, z, y, what) for what, function in functions.items()}
        for what, array in found.items():
            refuse(~np.isfinite(array), f"a finite {what}", array)
            others = beside_others(functions[what], z, y, what)
            near = 1e-6 * float(np.max(np.abs(array)))
            refuse(np.abs(others - array) > near, f"a {what} that does not change with the points beside it", others)
        value, slope, curvature = found.values()
        spread = max(float(value.max()), 0.0) - min(float(value.min()), 0.0)
        refuse(spread > self.declared.range * (1 + SLACK), f"values within {self.declared.range:g}", spread)
        for what, array, bound in (("slope", slope, self.declared.slope), ("curvature", curvature, self.declared.curvature)):
            refuse(np.abs(array) > bound * (1 + SLACK), f"|{what}| <= {bound:g}", array)
        self._check_derivatives(refuse, z, y, slope, curvature)

    def _check_derivatives(self, refuse: Refuse, z: np.ndarray, y: np.ndarray, slope: np.ndarray, curvature: np.ndarray) -> None:
        """Values and slopes must agree across each step: a convex φ rises by between φ'(z)h and φ'(z +
        h)h."""
        import numpy as np

        step = 1e-4 * np.maximum(np.abs(z), 1.0)
        step = np.where(z + step > self.z_max, -step, step)
        before, after = (np.asarray(self.value_function(z + s, y), dtype=float) for s in (0 * step, step))
        later = np.asarray(self.slope_function(z + step, y), dtype=float)
        rise = (after - before) / step
        noise = 1e-10 * (1 + np.abs(before) + np.abs(after)) / np.abs(step) + 1e-9
        if self.convex:
            smaller, larger = np.minimum(slope, later), np.maximum(slope, later)
            refuse((rise < smaller - noise) | (rise > larger + noise), "a slope that is the value's derivative", slope)
            refuse((later - slope) * np.sign(step) < -noise, "a slope that never falls (convex loss)", later - slope)
            refuse(curvature < -SLACK, "curvature >= 0 (convex loss)", curvature)
        if self.smooth:
            bend = (later - slope) / step
            limit = self.declared.curvature * (1 + SLACK) + noise / np.abs(step) * 1e-3
            refuse(np.abs(bend) > limit, "a slope that changes no faster than the curvature bound", bend)
            gap = np.abs(rise - slope)
            allowed = 0.5 * self.declared.curvature * np.abs(step) * (1 + SLACK) + noise
            refuse(gap > allowed, "a slope that is the value's derivative", slope)
