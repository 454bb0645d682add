"""Many numbers in JSON: base64 of their bytes where decimal text would take hundreds of megabytes."""

from __future__ import annotations

import base64
import binascii

import numpy as np
from numpy.typing import ArrayLike, NDArray

MANY = 30_000  # numbers; fewer stay decimal, which people can read
TYPES = {"float32": "<f4", "float64": "<f8"}


def packed(values: ArrayLike) -> list[float] | dict[str, object]:
    """A list (of lists), or {"type", "shape", "base64"} for more than 30,000 numbers, in single precision if that loses nothing.

    >>> packed(np.eye(2)), sorted(packed(np.zeros(30_001)))
    ([[1.0, 0.0], [0.0, 1.0]], ['base64', 'shape', 'type'])
    """
    array = np.asarray(values, dtype=np.float64)
    if array.size <= MANY:
        listed: list[float] = array.tolist()
        return listed
    with np.errstate(over="ignore"):
        single = array.astype(np.float32)
    kind = "float32" if np.array_equal(single.astype(np.float64), array) else "float64"
    text = base64.b64encode(np.ascontiguousarray(array, dtype=TYPES[kind]).tobytes()).decode("ascii")
    return {"type": kind, "shape": list(array.shape), "base64": text}


def unpacked(stated: object) -> NDArray[np.float64]:
    """The numbers again, from either form; anything else is refused with a sentence."""
    if not isinstance(stated, dict):
        return np.array(stated, dtype=np.float64)
    kind, shape, text = stated.get("type"), stated.get("shape"), stated.get("base64")
    if not isinstance(shape, list) or not all(type(side) is int and side >= 0 for side in shape) or not 1 <= len(shape) <= 2:
        raise ValueError("packed numbers without a shape")
    if kind not in TYPES or not isinstance(text, str) or set(stated) != {"type", "shape", "base64"}:
        raise ValueError("packed numbers without a type or their text")
    try:
        numbers = np.frombuffer(base64.b64decode(text, validate=True), dtype=TYPES[kind])
    except (binascii.Error, ValueError) as error:
        raise ValueError("packed numbers whose text is no base64 of whole numbers of bytes") from error
    if numbers.size != int(np.prod(shape, dtype=object)):
        raise ValueError("packed numbers that do not fill their shape")
    return numbers.astype(np.float64).reshape(shape)
