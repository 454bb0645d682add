"""Rows of embeddings as they are stored: blocks are views of an array, a memory map or an Arrow buffer of any numbers.

Nothing is clipped or converted here. Terms that read these rows bring each of them to length 1 themselves (`dperm.terms.heads`),
run by run, so that the matrix is held once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dperm.problem import DataBounds, FeatureMap
from dperm.rows.base import BLOCK_ROWS, Block
from dperm.rows.memory import MemoryRows


class EmbeddingRows(MemoryRows):
    """X (n × d numbers of any type), class numbers y and optional row weights.

    >>> EmbeddingRows(np.eye(3, dtype=np.float16), np.arange(3)).block(0).X.dtype
    dtype('float16')
    """

    def __init__(self, X: Any, y: Any, weight: Any = None) -> None:
        super().__init__(np.empty((len(X), 1)), y, weight)  # checks of y and weight
        if not (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "fiub"):
            raise ValueError("Expected embeddings as a matrix of numbers with one row per record, found something else.")
        self.X = X

    def bounded(self, data: DataBounds, feature_map: FeatureMap | None = None) -> EmbeddingRows:
        """The same rows: their length is 1 wherever they are read, and labels are class numbers."""
        if feature_map is not None or data.low is not None:
            raise ValueError("Expected no feature map and no bounds of columns for embeddings, found one. Use MemoryRows.")
        return EmbeddingRows(self.X, data.enforce(np.empty((0, 1)), self.y)[1], self.weight)

    def block(self, number: int) -> Block:
        found = self._blocks[number]
        if found is None:
            part = slice(number * BLOCK_ROWS, min((number + 1) * BLOCK_ROWS, self.n))
            found = Block(self.X[part], self.y[part], None if self.weight is None else self.weight[part], part.start)
            self._blocks[number] = found
        return found
