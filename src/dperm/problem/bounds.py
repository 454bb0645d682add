"""Declared bounds on the data and on public features of it, and the clipping that turns the declaration into a fact."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from dperm.problem.arrays import Array, device, is_sparse, namespace, shrink_to_norm
from dperm.problem.failing import real_numbers
from dperm.problem.intervals import Interval
from dperm.problem.specs import Spec, Stated, count, non_negative, number, positive, vector

if TYPE_CHECKING:
    import numpy as np
    from scipy import sparse

    Ends: TypeAlias = tuple[np.ndarray, np.ndarray]

# Rows handled at a time: the float64 copy that norms are computed on stays near 8 MiB.
ENTRIES_AT_A_TIME = 1 << 20


def rounding_margin(d: int, epsilon: float) -> float:
    """8·eps + (d + 8)·2^-53: covers the rounding of d products, their sum, the root, and the store in the
    dtype.

    >>> rounding_margin(10, 2.0**-52) < 1e-14
    True
    """
    return 8 * epsilon + (d + 8) * 2.0**-53


def squares_hold(target: float, d: int, limits: Any) -> bool:
    """Whether squared norms can be compared with target² in a dtype with these limits (its `finfo`): else squares of longer rows
    vanish or are infinite as target² is, and would pass for short ones.

    >>> import numpy as np
    >>> squares_hold(1.0, 8, np.finfo(np.float32)), squares_hold(1e-24, 8, np.finfo(np.float32))
    (True, False)
    """
    return bool(d * float(limits.smallest_normal) / float(limits.eps) <= target * target <= float(limits.max))


@dataclass(frozen=True)
class DataBounds(Stated):
    """||x||₂ <= x_norm and y in an interval, for every row; an intercept column of value c counts in:

    row_norm = sqrt(x_norm² + c²).

    **Guarantee**: after ``enforce`` the bounds hold for the floats that are summed, whatever the data were;
    each row is changed by a fixed public rule that looks at that row alone, so sensitivities are unaffected.
    ``math.inf`` means "not declared"; mechanisms that need the bound refuse it.

    Parameters
    ----------
    x_norm : float
        Bound on the Euclidean norm of a row.
    y : Interval
        Range of the labels.
    intercept : float, default 0.0
        Value of the constant column; 0 means none.
    low : tuple of floats or None, default None
        Lower ends of the columns.
    high : tuple of floats or None, default None
        Upper ends of the columns.

    Examples
    --------
    >>> DataBounds(x_norm=3.0, y=Interval(-1, 1), intercept=4.0).row_norm
    5.0
    >>> DataBounds(2.0, Interval(0, 1)).spec()
    {'x_norm': 2.0, 'y': [0.0, 1.0], 'intercept': 0.0, 'low': None, 'high': None}
    """

    x_norm: float
    y: Interval
    intercept: float = 0.0
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "x_norm", number(self.x_norm, "x_norm"))
        if self.x_norm < 0:
            raise ValueError(f"Expected x_norm >= 0, found {self.x_norm:g}. Pass a bound on the row norms.")
        object.__setattr__(self, "intercept", non_negative(self.intercept, "intercept"))
        if not isinstance(self.y, Interval):
            raise ValueError(f"Expected y to be an Interval, found {self.y!r}. Pass Interval(low, high).")
        if (self.low is None) != (self.high is None):
            raise ValueError("Expected both low and high, found one of them. Pass both, or use x_norm alone.")
        if self.low is not None and self.high is not None:
            object.__setattr__(self, "low", vector(self.low, "low"))
            object.__setattr__(self, "high", vector(self.high, "high"))
            if len(self.low) != len(self.high):
                raise ValueError(f"Expected ends of one length, found {len(self.low)} and {len(self.high)}. Pass one per column.")
            for low, high in zip(self.low, self.high):
                Interval(low, high)

    @classmethod
    def box(
        cls,
        low: object,
        high: object,
        y: Interval,
        intercept: float = 0.0,
        *,
        dimension: int | None = None,
        x_norm: float = math.inf,
    ) -> DataBounds:
        """low_j <= x_j <= high_j, so ||x||² <= Σ max(low_j², high_j²); the tighter of that and ``x_norm``
        counts.

        >>> DataBounds.box([-1, 0], [1, 3], Interval(0, 1)).x_norm ** 2
        10.000000000000...
        """
        ends = {"low": low, "high": high}
        plain = [what for what, end in ends.items() if isinstance(end, str) or not hasattr(end, "__iter__")]
        listed = {what: vector(end, what) for what, end in ends.items() if what not in plain}
        if dimension is None and not listed:
            raise ValueError("Expected one end per column or dimension=, found plain numbers. Pass dimension=number of columns.")
        columns = len(next(iter(listed.values()))) if dimension is None else dimension
        lows, highs = (listed.get(what) or (number(end, what),) * columns for what, end in ends.items())
        return cls(min(_corner(lows, highs), number(x_norm, "x_norm")), y, intercept, lows, highs)

    @property
    def row_norm(self) -> float:
        """sqrt(x_norm² + intercept²)."""
        return math.hypot(self.x_norm, self.intercept)

    @overload
    def enforce(self, X: sparse.csr_array) -> tuple[sparse.csr_array, None]: ...
    @overload
    def enforce(self, X: Array) -> tuple[Array, None]: ...
    @overload
    def enforce(self, X: Array, y: Array) -> tuple[Array, Array]: ...
    def enforce(self, X: Array | sparse.csr_array, y: Array | None = None) -> tuple[Array | sparse.csr_array, Array | None]:
        """Every row inside the bounds, dense (any array-API library) or SciPy CSR, which stays sparse.

        The fixed rule, row by row: entries that are NaN or ±inf become 0; entries are clipped into their
        column's box, if declared; a row of larger norm is scaled to x_norm less a few rounding errors;
        labels that are NaN or ±inf become the label nearest to 0, then all are clipped into the interval.
        Inputs are not modified.

        >>> import numpy as np
        >>> X, y = np.array([[3.0, 4.0], [np.nan, 0.5]]), np.array([7.0, 0.5])
        >>> X, y = DataBounds(1.0, Interval(0, 1)).enforce(X, y)
        >>> X.round(9).tolist(), y.tolist()
        ([[0.6, 0.8], [0.0, 0.5]], [1.0, 0.5])
        """
        if self.low is not None and X.shape[1] != len(self.low):
            raise ValueError(f"Expected {len(self.low)} columns, as declared, found {X.shape[1]}. Check the columns.")
        rows = self._enforce_sparse(X) if is_sparse(X) else self._enforce_dense(X)
        return rows, None if y is None else self._enforce_labels(y)

    def _needs_norm(self) -> bool:
        """False when the box alone implies the norm: its corner is what x_norm was derived from."""
        return self.low is None or self.high is None or self.x_norm < _corner(self.low, self.high)

    def _ends(self, single: bool) -> Ends | None:
        """The box in the rows' dtype, rounded inwards so that float32 cannot step over a float64 end."""
        if self.low is None or self.high is None:
            return None
        import numpy as np

        return _inwards(np.asarray(self.low), np.asarray(self.high), single)

    def _enforce_dense(self, X: Array) -> Array:
        xp = namespace(X)
        if X.dtype not in (xp.float32, xp.float64):
            X = xp.astype(X, xp.float64)
        n, d = X.shape
        out = xp.empty_like(X)
        margin = rounding_margin(d, float(xp.finfo(X.dtype).eps))
        ends = [xp.asarray(end, device=device(X)) for end in self._ends(X.dtype == xp.float32) or ()]
        step = max(1, ENTRIES_AT_A_TIME // max(d, 1))
        for start in range(0, n, step):
            block = X[start : start + step, :]
            block = xp.where(xp.isfinite(block), block, xp.zeros_like(block))
            if ends:
                block = xp.minimum(xp.maximum(block, ends[0]), ends[1])
            if self._needs_norm():
                # Rows that fit keep their bits: float64 holds a float32 exactly and gives it back.
                block = shrink_to_norm(xp, xp.astype(block, xp.float64), self.x_norm, margin)
            out[start : start + step, :] = xp.astype(block, X.dtype)
        return out

    def _enforce_sparse(self, X: Any) -> Any:
        import numpy as np

        if self.low is not None and self.high is not None and not (max(self.low) <= 0 <= min(self.high)):
            raise ValueError(
                "Expected bounds that contain 0 for sparse rows, found a column whose bounds do not. "
                "Shift the column, or pass dense rows."
            )
        X = X.tocsr()
        if not X.has_canonical_format:  # an entry stored twice would count twice in the row, once each in the norm
            X = X.copy()
            X.sum_duplicates()
        data = X.data if X.data.dtype in (np.float32, np.float64) else X.data.astype(np.float64)
        data = np.where(np.isfinite(data), data, data.dtype.type(0))
        ends = self._ends(data.dtype == np.float32)
        if ends is not None:
            data = np.minimum(np.maximum(data, np.asarray(ends[0])[X.indices]), np.asarray(ends[1])[X.indices])
        if self._needs_norm():
            data = self._shrink_sparse(data, np.diff(X.indptr), X.shape[1])
        return type(X)((data, X.indices, X.indptr), shape=X.shape)

    def _shrink_sparse(self, data: np.ndarray, counts: np.ndarray, d: int) -> np.ndarray:
        """``shrink_to_norm`` on the stored entries: same scaling by max(largest entry, target), same rule."""
        import numpy as np

        # The public d, not the number of stored entries: a row's rule must not look at other rows.
        margin = rounding_margin(d, float(np.finfo(data.dtype).eps))
        target = self.x_norm * (1.0 - margin)
        if math.isinf(target):
            return data
        if target <= 0:
            return np.zeros_like(data)
        rows = np.repeat(np.arange(counts.size), counts)
        size = np.full(counts.size, target)
        np.maximum.at(size, rows, np.abs(data).astype(np.float64))
        scaled = data / size[rows]
        norm = np.sqrt(np.bincount(rows, weights=scaled * scaled, minlength=counts.size))
        safe = np.where(norm > 0, norm, 1.0)
        outside = (norm > target / size)[rows]
        return np.where(outside, scaled * (target / safe)[rows], data).astype(data.dtype)

    def _enforce_labels(self, y: Array) -> Array:
        xp = namespace(y)
        low, high = self.y.low, self.y.high
        whole = all(end == math.floor(end) for end in (low, high) if math.isfinite(end))
        if xp.isdtype(y.dtype, "integral") and whole:
            # Class numbers stay whole numbers. Ends beyond the dtype clip nothing.
            info = xp.iinfo(y.dtype)
            ends = (int(max(low, info.min)), int(min(high, info.max)))
            return xp.minimum(xp.maximum(y, xp.full_like(y, ends[0])), xp.full_like(y, ends[1]))
        if not xp.isdtype(y.dtype, "real floating"):
            y = xp.astype(y, xp.float64)
        y = xp.where(xp.isfinite(y), y, xp.zeros_like(y))
        low, high = (float(end) for end in _inwards(low, high, y.dtype == xp.float32))
        return xp.minimum(xp.maximum(y, xp.full_like(y, low)), xp.full_like(y, high))

    @classmethod
    def from_spec(cls, spec: Spec) -> DataBounds:
        """The bounds whose ``spec()`` is given.

        >>> DataBounds.from_spec(DataBounds(2.0, Interval(0, 1)).spec()).x_norm
        2.0
        """
        return cls(spec["x_norm"], Interval.from_spec(spec["y"]), spec["intercept"], spec["low"], spec["high"])


def _corner(low: tuple[float, ...], high: tuple[float, ...]) -> float:
    """Norm of the farthest corner, rounded up: two steps cover the rounding of squares, sum and root."""
    corner = math.hypot(*(max(abs(a), abs(b)) for a, b in zip(low, high)))
    return math.nextafter(math.nextafter(corner, math.inf), math.inf) if corner else 0.0


def _inwards(low: float | np.ndarray, high: float | np.ndarray, single: bool) -> Ends:
    """Both ends in the rows' precision, one step inwards where rounding to float32 moved them outwards."""
    import numpy as np

    if not single:
        return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    with np.errstate(over="ignore"):
        first, last = np.asarray(low).astype(np.float32), np.asarray(high).astype(np.float32)
    first = np.where(first < low, np.nextafter(first, np.float32(np.inf)), first)
    last = np.where(last > high, np.nextafter(last, np.float32(-np.inf)), last)
    return first, last


def _absent(X: Array) -> Array:
    raise ValueError("Expected a feature map with its function, found one read from a spec. Pass the FeatureMap that was fitted.")


@dataclass(frozen=True)
class FeatureMap:
    """x ↦ clip(function(x)) with ||clip(·)||₂ <= output_norm, applied row by row.

    **Guarantee**: the declared norm is enforced by clipping, so constants derived from it hold whatever the
    function returns; the function must treat each row alone (a fit tries that on rows of its own) and must be
    public (fixed before seeing the data). A row on which it raises an error, or gives no real numbers, has features
    0, and no error comes out. JSON keeps name, norm and dimension, which is all that a certificate's constants need; not the
    function.

    >>> import numpy as np
    >>> square = FeatureMap(lambda X: X**2, output_norm=1.0, output_dimension=2, name="square")
    >>> square(np.array([[2.0, 0.0]])).round(9).tolist()
    [[1.0, 0.0]]
    """

    function: Callable[[Array], Array] = field(compare=False)
    output_norm: float
    output_dimension: int
    name: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "output_norm", positive(self.output_norm, "output_norm"))
        object.__setattr__(self, "output_dimension", count(self.output_dimension, "output_dimension"))

    def __call__(self, X: Array) -> Array:
        """The features of every row, clipped to the declared norm."""
        features: Array = self.function(X)
        if len(features.shape) != 2 or tuple(features.shape) != (X.shape[0], self.output_dimension):
            raise ValueError(
                f"Expected one row of {self.output_dimension} features per input row, found another shape. "
                "Return one row per input row, output_dimension wide."
            )
        features = real_numbers(features, features.shape)
        return DataBounds(self.output_norm, Interval(0.0, 0.0)).enforce(features)[0]

    def spec(self) -> Spec:
        """JSON form, without the function.

        >>> FeatureMap(abs, 1.0, 2, "absolute").spec()
        {'name': 'absolute', 'output_norm': 1.0, 'output_dimension': 2}
        """
        return {"name": self.name, "output_norm": self.output_norm, "output_dimension": self.output_dimension}

    @classmethod
    def from_spec(cls, spec: Spec, function: Callable[[Array], Array] = _absent) -> FeatureMap:
        """The map whose ``spec()`` is given; calling it needs the function.

        >>> FeatureMap.from_spec({"name": "absolute", "output_norm": 1.0, "output_dimension": 2}).output_norm
        1.0
        """
        return cls(function, spec["output_norm"], spec["output_dimension"], spec["name"])
