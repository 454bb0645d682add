"""The few array operations that losses share, written once for every array-API library.

Nothing here imports an array library at module import: the namespace comes from the array that arrives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, reduce
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from scipy import sparse
    from typing_extensions import TypeIs

Vector: TypeAlias = "NDArray[np.float64]"  # of any shape
# Rows as tables and engines hold them: dense, or compressed by rows.
Matrix: TypeAlias = "np.ndarray | sparse.csr_array"


class DType(Protocol):
    """The type of an array's numbers."""

    @property
    def itemsize(self) -> int: ...
    def __hash__(self) -> int: ...


class Array(Protocol):
    """What is used of an array of any library: its shape and its operators; all else comes from its namespace.

    The other operand and what an index picks are left open, because libraries differ in which numbers and arrays they take.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def T(self) -> Array: ...
    def __getitem__(self, key: Any, /) -> Array: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...
    def __len__(self) -> int: ...
    def __float__(self) -> float: ...
    def __invert__(self) -> Array: ...
    def __neg__(self) -> Array: ...
    def __add__(self, other: Any, /) -> Array: ...
    def __radd__(self, other: Any, /) -> Array: ...
    def __sub__(self, other: Any, /) -> Array: ...
    def __rsub__(self, other: Any, /) -> Array: ...
    def __mul__(self, other: Any, /) -> Array: ...
    def __rmul__(self, other: Any, /) -> Array: ...
    def __truediv__(self, other: Any, /) -> Array: ...
    def __rtruediv__(self, other: Any, /) -> Array: ...
    def __pow__(self, other: Any, /) -> Array: ...
    def __matmul__(self, other: Any, /) -> Array: ...
    def __and__(self, other: Any, /) -> Array: ...
    def __or__(self, other: Any, /) -> Array: ...
    def __rshift__(self, other: Any, /) -> Array: ...
    def __lt__(self, other: Any, /) -> Array: ...
    def __le__(self, other: Any, /) -> Array: ...
    def __gt__(self, other: Any, /) -> Array: ...
    def __ge__(self, other: Any, /) -> Array: ...


class Limits(Protocol):
    """The ends of a type of numbers."""

    @property
    def min(self) -> float: ...
    @property
    def max(self) -> float: ...
    @property
    def eps(self) -> float: ...


class Namespace(Protocol):
    """The functions of an array library (numpy, torch, cupy) under the names of the array API; all but a few give arrays."""

    @property
    def float32(self) -> object: ...
    @property
    def float64(self) -> object: ...
    def isdtype(self, dtype: object, kind: str) -> bool: ...
    def finfo(self, dtype: object) -> Limits: ...
    def iinfo(self, dtype: object) -> Limits: ...
    def __hash__(self) -> int: ...
    def __getattr__(self, name: str) -> Callable[..., Array]: ...


def namespace(array: object) -> Namespace:
    """The array-API namespace of an array (numpy, torch, cupy), looked up once for each type of array."""
    kind = type(array)
    if kind not in _NAMESPACES:
        import array_api_compat

        _NAMESPACES[kind] = array_api_compat.array_namespace(array)
    return _NAMESPACES[kind]


_NAMESPACES: dict[type, Namespace] = {}


@cache
def is_real(xp: Namespace, dtype: object) -> bool:
    """Whether a dtype is a real floating one."""
    return bool(xp.isdtype(dtype, "real floating"))


def device(array: Array) -> object:
    """The device that holds an array."""
    import array_api_compat

    return array_api_compat.device(array)


def prepare(z: Array, y: Array) -> tuple[Namespace, Array, Array]:
    """(namespace, z as floats, y in the dtype and on the device of z).

    Labels are cast to the margins' dtype so that float32 margins with integer labels stay float32.
    """
    if isinstance(z, (int, float)):
        import numpy as np

        z = np.asarray(float(z))
    xp = namespace(z)
    if not is_real(xp, z.dtype):
        z = xp.astype(z, xp.float64)
    ready = type(y) is type(z) and y.dtype == z.dtype and type(z).__module__ == "numpy"
    if not ready and not isinstance(y, (int, float)):
        y = xp.asarray(y, dtype=z.dtype, device=device(z))
    return xp, z, y


def clip(xp: Namespace, t: Array, low: float, high: float) -> Array:
    """min(max(t, low), high) elementwise; infinite ends do nothing."""
    if low > -math.inf:
        t = xp.maximum(t, scalar_like(xp, t, low))
    if high < math.inf:
        t = xp.minimum(t, scalar_like(xp, t, high))
    return t


def scalar_like(xp: Namespace, t: Array, number: float) -> Array | float:
    """A number as an array without dimensions, in the dtype and on the device of t; NumPy takes the number itself."""
    return number if type(t).__module__ == "numpy" else xp.asarray(number, dtype=t.dtype, device=device(t))


def between(xp: Namespace, t: Array, low: float, high: float) -> Array:
    """1 where low <= t <= high, else 0, in the dtype of t."""
    return xp.astype((t >= low) & (t <= high), t.dtype)


def softplus(xp: Namespace, t: Array) -> Array:
    """log(1 + e^t) = max(t, 0) + log1p(e^{-|t|}), without overflow."""
    return xp.maximum(t, xp.zeros_like(t)) + xp.log1p(xp.exp(-xp.abs(t)))


def bounded_exp(xp: Namespace, t: Array) -> Array:
    """e^t, or the largest power below overflow: y/(1 + e^t) is then right to the last bits in both tails and never warns."""
    return xp.exp(clip(xp, t, -math.inf, largest_exponent(xp, t.dtype)))


@cache
def largest_exponent(xp: Namespace, dtype: object) -> float:
    """The largest t, a little below log(max), for which e^t is finite in a dtype."""
    return math.log(float(xp.finfo(dtype).max)) * (1 - 2.0**-8)


def sigmoid(xp: Namespace, t: Array) -> Array:
    """1/(1 + e^{-t}), without overflow and with full relative accuracy in both tails."""
    return 1 / (1 + bounded_exp(xp, -t))


def sigmoid_derivative(xp: Namespace, t: Array) -> Array:
    """σ(t)σ(-t) = e^{-|t|}/(1 + e^{-|t|})², accurate where 1 - σ would cancel."""
    small = xp.exp(-xp.abs(t))
    return small / (1 + small) ** 2


def row_largest(xp: Namespace, rows: Array) -> Array:
    """The largest entry of every row, (n, 1). NumPy goes through short rows one by one, which takes five times as long."""
    if type(rows).__module__ != "numpy" or not 0 < rows.shape[1] <= 32:
        return xp.max(rows, axis=1, keepdims=True)
    return reduce(xp.maximum, [rows[:, k] for k in range(rows.shape[1])])[:, None]


def row_total(xp: Namespace, rows: Array) -> Array:
    """The sum of every row, (n, 1). NumPy adds fewer than eight numbers one after the other, and so do columns: the same bits."""
    if type(rows).__module__ != "numpy" or not 0 < rows.shape[1] < 8:
        return xp.sum(rows, axis=1, keepdims=True)
    return reduce(xp.add, [rows[:, k] for k in range(rows.shape[1])])[:, None]


def shrink_to_norm(xp: Namespace, rows: Array, limit: float, margin: float) -> Array:
    """Rows of norm above limit·(1 - margin) scaled down to it; the others untouched, bit for bit.

    The margin (a few rounding errors) makes ``norm <= limit`` true of the floats and not only of the reals.
    Each row is divided by max(its largest entry, limit) before squaring, so nothing overflows.
    """
    target = limit * (1.0 - margin)
    if rows.shape[-1] == 0 or math.isinf(target):
        return rows
    rows = row_by_row(rows)
    largest = xp.max(xp.abs(rows), axis=-1, keepdims=True)
    if target <= 0:
        return xp.zeros_like(rows)
    size = xp.maximum(largest, xp.full_like(largest, target))
    scaled = rows / size
    norm = xp.sqrt(xp.sum(scaled * scaled, axis=-1, keepdims=True))
    # norm >= 1 wherever largest >= target; elsewhere a zero row must not divide by zero.
    safe = xp.where(norm > 0, norm, xp.ones_like(norm))
    return xp.where(norm > target / size, scaled * (target / safe), rows)


def scalar_softplus(t: float) -> float:
    """log(1 + e^t) of a Python float, infinities included.

    >>> scalar_softplus(math.inf), round(scalar_softplus(0.0), 6)
    (inf, 0.693147)
    """
    return max(t, 0.0) + math.log1p(math.exp(-abs(t)))


def scalar_sigmoid(t: float) -> float:
    """1/(1 + e^{-t}) of a Python float, infinities included.

    >>> scalar_sigmoid(math.inf), scalar_sigmoid(0.0)
    (1.0, 0.5)
    """
    small = math.exp(-abs(t))
    return (1.0 if t >= 0 else small) / (1.0 + small)


def row_by_row(X: Array) -> Array:
    """X with the entries of a row side by side: sums along a row have other last bits in another layout."""
    made: Callable[[Array], Array] | None = getattr(namespace(X), "ascontiguousarray", None)
    if made is not None:  # of NumPy and CuPy
        return made(X)
    return X.contiguous() if hasattr(X, "contiguous") else X


def is_sparse(X: object) -> TypeIs[sparse.csr_array]:
    """Without importing SciPy for people who never use it."""
    return offers(X, "tocsr")


def dense(X: Matrix) -> np.ndarray:
    """The rows as an array; a sparse matrix is written out."""
    return X.toarray() if is_sparse(X) else X


def offers(thing: Any, name: str) -> bool:
    """Whether things of this type have an attribute: a data frame has one for every column too, whatever the column is called.

    >>> offers([], "append"), offers([], "columns")
    (True, False)
    """
    return hasattr(type(thing), name)
