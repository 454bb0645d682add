"""Second moments, whitening and gradients of embeddings as torch tensors, on a GPU or a processor.

Moments have the bits of `dperm.terms.heads`: the same whole numbers, whose sums float64 holds exactly in any order. Whitened rows
are whole numbers of 8 bits here and of 20 bits there; their gradients are summed on integer matrix units (`dperm.rows.int8` has
the proof that a row adds at most the clip). Every step looks at one row alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dperm.problem import DataBounds, FeatureMap
from dperm.problem.arrays import namespace
from dperm.rows import int8
from dperm.rows.base import BLOCK_ROWS, RowsView, Term, add_limbs, split
from dperm.rows.device import enough_memory
from dperm.rows.embeddings import EmbeddingTensors, tensor_sum
from dperm.rows.exact import MOST_PRODUCT
from dperm.terms.gradient import GradientTerm
from dperm.terms.gridded import LOWEST, entry_bits
from dperm.terms.moments import MOST

if TYPE_CHECKING:
    from torch import Tensor

LARGEST = 1e150  # larger entries count as this one


def power(exponents: Tensor) -> Tensor:
    """2^e in float64 from its bits: a power that a device computes need not be exact."""
    import torch

    return ((exponents + 1023) << 52).view(torch.float64)


def on_grid(X: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers b of every row, as `DenseGrid.of_rows(raw_rows(X))` has them, and 1/‖b‖ (1 for a row of zeros)."""
    import torch

    Z = X.to(torch.float64)
    Z = torch.where(torch.isfinite(Z), Z, 0.0).clamp(-LARGEST, LARGEST)
    largest = Z.abs().amax(dim=1)
    e = ((largest.view(torch.int64) >> 52) - 1022).clamp(min=LOWEST)  # largest < 2^e
    bits = entry_bits(Z.shape[1])
    b = torch.round(Z * power(bits - e)[:, None])
    length = (b * b).sum(dim=1).sqrt()  # whole numbers below 2⁵³ have no order of adding
    return b, torch.where(length > 0, length, 1.0)


def in_unit_ball(b: Tensor, factor: Tensor) -> Tensor:
    """`in_ball` for rows of length at most 1: whole numbers of 2⁻²⁰ with ‖c‖² ≤ 2⁴⁰."""
    import torch

    counts = torch.round(b * factor[:, None] * MOST)
    sizes = (counts * counts).sum(dim=1)
    shorter = (MOST / sizes.clamp(min=1.0).sqrt()).clamp(max=1.0)
    return torch.where((sizes > MOST**2)[:, None], torch.trunc(counts * shorter[:, None]), counts)


def unit_moments(rows: EmbeddingTensors) -> Tensor:
    """svec(Σ zzᵀ) on the device, with the bits of `UnitMoments` in memory: blocks of 8,192 rows are exact in float64."""
    import torch

    total: Tensor = None
    for start, X in rows.pieces(BLOCK_ROWS):
        b, length = on_grid(X)
        weight = None if rows.weight is None else rows.weight[start : start + len(X)]
        taking_part = torch.ones_like(length) if weight is None else (weight > 0).to(torch.float64)
        c = in_unit_ball(b, taking_part / length)
        counts = split(c.T @ c, namespace(c))
        total = counts if total is None else add_limbs(total, counts)
    matrix = (total[0].to(torch.float64) * 2.0**32 + total[1].to(torch.float64)) / MOST_PRODUCT
    above = torch.triu_indices(rows.d, rows.d, 1, device=matrix.device)
    return torch.cat([matrix.diagonal(), matrix[above[0], above[1]] * math.sqrt(2.0)])


@dataclass(frozen=True, eq=False)
class TensorDirections:
    """`Directions` on a device: V in whole numbers of 2⁻²⁶ and the scales."""

    steps: Tensor
    scale: Tensor

    @staticmethod
    def of(moments: Tensor, d: int, floor: float, steps: float) -> TensorDirections:
        import torch

        matrix = torch.zeros((d, d), dtype=torch.float64, device=moments.device)
        above = torch.triu_indices(d, d, 1, device=moments.device)
        matrix[above[0], above[1]] = moments[d:] / math.sqrt(2.0)
        matrix = matrix + matrix.T + torch.diag(moments[:d])
        values, vectors = torch.linalg.eigh(matrix)
        largest = vectors.gather(0, vectors.abs().argmax(dim=0, keepdim=True))  # its sign is +, as in `Directions`
        scale = (floor / values.clamp(min=floor)).sqrt() / steps
        return TensorDirections(torch.round(vectors * torch.where(largest < 0, -steps, steps)), scale)

    def zeros(self, classes: int) -> Tensor:
        import torch

        return torch.zeros((classes, len(self.scale)), dtype=torch.float64, device=self.scale.device)

    def back(self, theta: Tensor) -> NDArray[np.float64]:
        """Coefficients of z, on the host."""
        return np.asarray(((theta * self.scale) @ self.steps.T).cpu().numpy())

    def whitened(self, X: Tensor) -> Tensor:
        """diag(scale)·Vᵀz of every row: products of whole numbers that float64 holds exactly, then elementwise operations."""
        b, length = on_grid(X)
        return (b @ self.steps) * self.scale * (1.0 / length)[:, None]


@dataclass(frozen=True, eq=False)
class WhiteTensors(RowsView):
    """Embeddings seen through directions, as whole numbers of 8 bits that are made when a sum first asks for them."""

    rows: EmbeddingTensors
    directions: TensorDirections
    limbs: int  # of a residual
    kept: list[int8.Int8Rows] = field(default_factory=list, init=False)

    def bounded(self, data: DataBounds, feature_map: FeatureMap | None = None) -> WhiteTensors:
        return WhiteTensors(self.rows.bounded(data, feature_map), self.directions, self.limbs)

    def sum(self, term: Term, step: float) -> Tensor:
        """The sum, left on the device: what a descent makes of it stays there too."""
        with enough_memory():
            return self.gradient(term) if type(term) is GradientTerm else tensor_sum(term, self)

    @property
    def grid(self) -> int8.Int8Rows:
        if not self.kept:
            pieces = ((start, self.directions.whitened(X)) for start, X in self.rows.pieces(int8.PIECE_ROWS))
            self.kept.append(int8.Int8Rows.of(pieces, self.rows.n, 0.0, self.limbs))
        return self.kept[0]

    def gradient(self, term: GradientTerm) -> Tensor:
        grid = self.grid
        weights = namespace(self.directions.scale).reshape(term.w, (term.loss.margins, -1))
        counts = grid.counts(weights, self.rows.y, self.rows.weight, term.clip)
        return (counts.double() * grid.unit(term.clip)).reshape(-1)

    def mean_square(self) -> NDArray[np.float64]:
        """Σ min(‖s·b‖, 1)² in whole numbers of 2⁻⁴⁰: at most 2⁶⁰ of them in a slab, then Python's integers."""
        total = 0
        for slab in self.grid.slabs:
            for first in range(0, slab.count, int8.PIECE_ROWS):
                part = slice(first, min(first + int8.PIECE_ROWS, slab.count))
                rows = slab.rows[part].int()
                size = ((rows * rows).sum(dim=1).double().sqrt() * slab.size[part].double()).clamp(max=1.0)
                counts = (size * size * MOST_PRODUCT).round().long()
                if self.rows.weight is not None:
                    counts *= self.rows.weight[slab.start + first : slab.start + part.stop] > 0
                total += int(counts.sum())
        return np.array([total / MOST_PRODUCT])
