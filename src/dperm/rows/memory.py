"""Rows held in memory: a dense NumPy array or a SciPy CSR matrix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.problem import DataBounds, FeatureMap
from dperm.rows.base import BLOCK_ROWS, Block, Term, add_blocks, block_counts


def is_sparse(X: Any) -> bool:
    """Without importing SciPy for people who never use it."""
    return hasattr(X, "tocsr")


class MemoryRows:
    """X (n × d, dense or CSR), y and optional row weights.

    >>> rows = MemoryRows(np.eye(3), np.ones(3))
    >>> rows.n, rows.d
    (3, 3)
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        weight: Any = None,
        *,
        data: DataBounds | None = None,
        feature_map: FeatureMap | None = None,
    ) -> None:
        self.X = X.tocsr() if is_sparse(X) else np.asarray(X)
        if self.X.ndim != 2:
            raise ValueError(f"Expected X with two dimensions, found {self.X.ndim}. Reshape it to (rows, columns).")
        self.y = np.asarray(y)
        if len(self.y) != self.X.shape[0]:
            raise ValueError(f"Expected as many labels as rows, found {len(self.y)} labels for {self.X.shape[0]} rows.")
        if self.X.shape[0] == 0:
            raise ValueError("Expected at least one row, found none. Check that the file or array is not empty.")
        self.weight: NDArray[np.float64] | None = None if weight is None else np.asarray(weight, dtype=np.float64)
        self.data = data
        self.feature_map = feature_map
        self._blocks: list[Block] | None = None

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        return int(self.X.shape[1])

    def bounded(self, data: DataBounds, feature_map: FeatureMap | None = None) -> MemoryRows:
        return MemoryRows(self.X, self.y, self.weight, data=data, feature_map=feature_map)

    def blocks(self) -> Iterator[Block]:
        if self._blocks is None:
            self._blocks = [self._cut(start) for start in range(0, self.n, BLOCK_ROWS)]
        return iter(self._blocks)

    def _cut(self, start: int) -> Block:
        part = slice(start, min(start + BLOCK_ROWS, self.n))
        X, y = self.X[part], self.y[part]
        if self.data is not None:
            X, y = self.data.enforce(X, y)
        if self.feature_map is not None:
            X = self.feature_map(X)
        return Block(X, y, None if self.weight is None else self.weight[part], start)

    def sum(self, term: Term, step: float) -> NDArray[np.float64]:
        return add_blocks((block_counts(term, block, step) for block in self.blocks()), step)
