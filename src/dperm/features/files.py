"""Embeddings on disk, as arrays that are read when they are needed: `.npy` and `.safetensors` files are memory maps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap

TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1"}
LONGEST_HEADER = 100 * 2**20


def open_embeddings(path: str | Path, tensor: str | None = None) -> np.ndarray:
    """The matrix in a `.npy` file, or the tensor of that name in a `.safetensors` file, as a memory map.

    A safetensors file is a length, a JSON header and the numbers, so that opening one runs no code and needs no other package.
    Where it holds one matrix only, `tensor` may be left out. bfloat16 has no NumPy type: save such a tensor in float32.
    """
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"Expected a file at {file}, found none. Check the path.")
    if file.suffix == ".npy":
        found: np.ndarray = open_memmap(file, mode="r")  # refuses objects, which would run code
    elif file.suffix == ".safetensors":
        found = _tensor(file, tensor)
    else:
        raise ValueError(f"Expected a .npy or .safetensors file, found {file.name!r}. Save the embeddings as one of them.")
    if found.ndim != 2:
        raise ValueError(f"Expected a matrix with one row per record in {file.name}, found {found.ndim} dimensions.")
    return np.asarray(found) if not isinstance(found, np.memmap) else found


def _tensor(file: Path, tensor: str | None) -> np.ndarray:
    whole = file.stat().st_size
    with file.open("rb") as handle:
        size = int.from_bytes(handle.read(8), "little")
        if not 2 <= size <= min(LONGEST_HEADER, whole - 8):
            raise ValueError(f"Expected a safetensors file, found another kind of file in {file.name}.")
        try:
            header = json.loads(handle.read(size).decode("utf-8"))
            stated = {name: part for name, part in header.items() if name != "__metadata__"}
            matrices = [name for name, part in stated.items() if len(part["shape"]) == 2]
            name = tensor if tensor is not None else matrices[0] if len(matrices) == 1 else None
            found = stated.get(name)
            kind, shape, (start, end) = ("", (), (0, 0)) if found is None else _parts(found)
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise ValueError(f"Expected a safetensors header in {file.name}, found a damaged one.") from error
    if found is None:
        raise ValueError(f"Expected tensor= as one of {sorted(stated)[:10]} in {file.name}, found {tensor!r}.")
    if kind not in TYPES:
        raise ValueError(f"Expected a tensor of type {sorted(TYPES)}, found {kind!r}. Save it as float32 or float16.")
    count = int(np.prod(shape, dtype=object)) * np.dtype(TYPES[kind]).itemsize
    if min(shape, default=-1) < 0 or not 0 <= start <= end <= whole - 8 - size or end - start != count:
        raise ValueError(f"Expected a whole tensor {name!r} in {file.name}, found one that does not fit the file.")
    if count == 0:  # no rows: where their number is protected, this is a matrix as any other
        return np.empty(shape, dtype=TYPES[kind])
    return np.memmap(file, dtype=TYPES[kind], mode="r", offset=8 + size + start, shape=shape)


def _parts(stated: Mapping[str, Any]) -> tuple[str, tuple[int, ...], tuple[int, int]]:
    """Type, shape and place of a tensor, as its header states them."""
    start, end = (int(place) for place in stated["data_offsets"])
    return str(stated["dtype"]), tuple(int(side) for side in stated["shape"]), (start, end)
