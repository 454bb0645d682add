"""Rows of embeddings as they are stored: blocks are views of an array, a memory map or an Arrow buffer of any numbers.

Nothing is clipped or converted here. Terms that read these rows bring each of them to length 1 themselves (`dperm.terms.heads`),
run by run, so that the matrix is held once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.problem import DataBounds, FeatureMap
from dperm.rows.base import ArrayRows, Block, Term
from dperm.rows.device import enough_memory
from dperm.rows.device_products import is_torch
from dperm.rows.mapped import MappedFiles
from dperm.rows.memory import MemoryRows, tame

if TYPE_CHECKING:
    from torch import Tensor


class EmbeddingRows(MemoryRows):
    """X (n × d numbers of any type), class numbers y and optional row weights.

    >>> EmbeddingRows(np.eye(3, dtype=np.float16), np.arange(3)).block(0).X.dtype
    dtype('float16')
    """

    def __init__(self, X: np.ndarray, y: object, weight: object = None) -> None:
        super().__init__(np.empty((len(X), 1)), y, weight)  # checks of y and weight
        if not (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "fiub"):
            raise ValueError("Expected embeddings as a matrix of numbers with one row per record, found something else.")
        self.X: np.ndarray = X
        self._files = MappedFiles.of(X, y, weight)
        self.weight = None if self.weight is None else tame(self.weight)

    def bounded(self, data: DataBounds, feature_map: FeatureMap | None = None) -> EmbeddingRows:
        """The same rows: their length is 1 wherever they are read, and labels are class numbers."""
        if feature_map is not None or data.low is not None:
            raise ValueError("Expected no feature map and no bounds of columns for embeddings, found one. Use MemoryRows.")
        return EmbeddingRows(self.X, np.asarray(data.enforce(np.empty((0, 1)), self.y)[1]), self.weight)

    def _cut(self, part: slice) -> Block:
        return Block(self.X[part], self.y[part], None if self.weight is None else self.weight[part], part.start)


class EmbeddingTensors(ArrayRows):
    """X (n × d) as a torch tensor on a device, or as an array on the host of which pieces travel there; y and weights beside it.

    Sums are left on the device. A term says itself how they are taken (`tensor_sum`).
    """

    def __init__(self, X: np.ndarray | Tensor, y: object, weight: object = None, *, device: object) -> None:
        import torch

        checked = EmbeddingRows(np.empty((len(X), 1)), y, weight)  # checks of y and weight
        self.X, self.device, self._files = X, torch.device(device), MappedFiles.of(X)
        self.y = torch.as_tensor(class_numbers(checked.y), device=self.device)
        self.weight = None if checked.weight is None else torch.as_tensor(checked.weight, device=self.device)

    def bounded(self, data: DataBounds, feature_map: FeatureMap | None = None) -> EmbeddingTensors:
        """The same rows: labels are class numbers already, and one outside them has no weight."""
        if feature_map is not None or data.low is not None:
            raise ValueError("Expected no feature map and no bounds of columns for embeddings, found one. Use MemoryRows.")
        return self

    def pieces(self, size: int) -> Iterator[tuple[int, Tensor]]:
        """(first row, rows on the device), `size` rows at a time."""
        import torch

        for start in range(0, self.n, size):
            part = self.X[start : start + size]
            if not is_torch(part):
                part = torch.from_numpy(np.array(part, dtype=part.dtype.newbyteorder("=")))  # a map may be read-only
            yield start, part.to(self.device)

    def sum(self, term: Term, step: float) -> Tensor:
        with enough_memory():
            found = tensor_sum(term, self)
        self._files.check()
        return found


def class_numbers(y: ArrayLike) -> NDArray[np.int32]:
    """Labels as whole numbers, -1 for one that is none: such a row has no class of its own.

    >>> class_numbers([2.0, 0.5, np.nan, 1e300]).tolist()
    [2, -1, -1, -1]
    """
    values = np.asarray(y, dtype=np.float64)
    whole = np.isfinite(values) & (np.abs(values) < 2.0**31) & (values == np.rint(values))
    return np.where(whole, values, -1.0).astype(np.int32)


def tensor_sum(term: Term, rows: object) -> Tensor:
    """A term's sum over tensors. By exact type: a subclass that computes something else must not be taken for its parent."""
    if "tensor_sum" not in vars(type(term)):
        raise ValueError(f"Expected a sum that last layers take, found {type(term).__name__}. Use arrays in memory.")
    return term.tensor_sum(rows)  # type: ignore[attr-defined]
