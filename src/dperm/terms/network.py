"""What one row adds to the sums that train a two-layer network: its second moments, and its clipped gradient.

    h = tanh(z W₁ + b₁),   p = softmax(h W₂ + b₂),   δ₂ = p - e_y,   δ₁ = (δ₂ W₂ᵀ)∘(1 - h∘h)

The gradient of a row is (z,1)ᵀδ₁ and (h,1)ᵀδ₂, two outer products, so its squared norm is ‖δ₁‖²(‖z‖² + 1) + ‖δ₂‖²(‖h‖² + 1): the
clip needs no per-row gradient, also where a sample of the rows takes part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dperm.privacy import kappa
from dperm.problem.arrays import Matrix, Vector, dense
from dperm.rows.base import Block
from dperm.rows.exact import Pair, Paired, whole, widened
from dperm.terms.affine import Features, settled
from dperm.terms.gridded import DenseGrid, column_sum, on_grid, scaled, squares
from dperm.terms.moments import Moments
from dperm.terms.statistics import present

STEPS = 2.0**20  # of numbers in [-1, 1], and of a left factor of full length


@dataclass(frozen=True)
class RowMap:
    """x ↦ (x - mean of x's own entries)/‖·‖ for rows of like entries (`centred`), or x/R: a fixed rule for one row alone.

    Either way the result has norm ≤ 1. A row without any spread becomes 0.
    """

    centred: bool
    radius: float

    def __call__(self, X: Matrix) -> np.ndarray:
        rows = np.asarray(dense(X), dtype=np.float64)
        if not self.centred:
            return np.asarray(rows / (self.radius * (1 + 1e-6)))
        rows = rows - (column_sum(rows) / max(rows.shape[1], 1))[:, None]
        size = np.sqrt(squares(rows))[:, None]
        return np.where(size > 1e-9 * self.radius, rows / np.maximum(size, 1e-200), 0.0) * (1 - 1e-6)


@dataclass(frozen=True, eq=False)
class SecondMoments(Moments):
    """Σ x xᵀ of mapped rows as a vector: the diagonal, then √2 times what is above it, so that ℓ2 and Frobenius norms agree.

    **Sensitivity**: ‖x xᵀ‖_F = ‖x‖² ≤ 1 for one row present or absent; √2 for one replaced, because ‖x xᵀ - y yᵀ‖_F² =
    ‖x‖⁴ + ‖y‖⁴ - 2⟨x, y⟩² ≤ 2.
    """

    rows: RowMap
    row_bound: ClassVar[float] = 1.0

    def vectors(self, block: Block) -> Vector:
        return scaled(self.rows(block.X), present(block))


@dataclass(frozen=True, eq=False)
class Inputs:
    """z = x mapped, projected and brought to length `length`: exactly where rows are centred, at most twice that otherwise."""

    rows: RowMap
    directions: np.ndarray  # d × k, scaled
    length: float

    def of(self, X: Matrix) -> np.ndarray:
        Z = DenseGrid.of_rows(np.array(self.rows(X))).margins(np.asarray(self.directions, dtype=np.float64).T)
        factor = self.length / np.maximum(np.sqrt(squares(Z)), 1e-12)
        if not self.rows.centred:
            factor = np.minimum(2.0 * factor, 1.0)
        return scaled(Z, factor).astype(np.float32)

    def __call__(self, block: Block) -> DenseGrid:
        """(z, 1) of every row on its grid, kept with the block."""
        return block.remember((self, "inputs"), lambda: DenseGrid.of(self.of(block.X), Features(1.0)))


@dataclass(frozen=True)
class Layout:
    """Where the weights of each layer lie in one vector."""

    inputs: int
    hidden: int
    classes: int

    @property
    def size(self) -> int:
        return (self.inputs + 1) * self.hidden + (self.hidden + 1) * self.classes

    def split(self, w: Vector) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """W₁ (k × h), b₁, W₂ (h × K), b₂."""
        first = self.inputs * self.hidden
        second = first + self.hidden
        third = second + self.hidden * self.classes
        W1, W2 = w[:first].reshape(self.inputs, self.hidden), w[second:third].reshape(self.hidden, self.classes)
        return W1, w[first:second], W2, w[third:]

    def start(self, generator: np.random.Generator) -> Vector:
        """Random first layer of unit size, zeros elsewhere."""
        w = np.zeros(self.size)
        w[: self.inputs * self.hidden] = generator.normal(size=self.inputs * self.hidden) / math.sqrt(self.inputs)
        return w

    def scores(self, w: Vector, Z: np.ndarray) -> np.ndarray:
        W1, b1, W2, b2 = self.split(w)
        return np.asarray(np.tanh(Z @ W1 + b1) @ W2 + b2)


def exact_product(whole_numbers: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Rows of numbers in [-1, 1], in whole numbers of 2⁻²⁰, times public weights on a grid: exact, in any order of adding."""
    room = 2.0**52 / (STEPS * math.sqrt(max(whole_numbers.shape[1], 1)))
    counts, step = on_grid(np.asarray(weights, dtype=np.float64), room)
    return np.asarray(whole_numbers @ counts * (step / STEPS))


def residuals(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """softmax(scores) - e_y."""
    output = np.exp(scores - scores.max(axis=1, keepdims=True))
    output /= column_sum(output)[:, None]
    output[np.arange(len(output)), np.asarray(y, dtype=np.int64)] -= 1
    return np.asarray(output)


@dataclass(frozen=True, eq=False)
class NetworkGradient(Paired):
    """Σ clip_C(gradient of the cross entropy of one row), in closed form.

    **Sensitivity** κC.
    """

    inputs: Inputs
    layout: Layout
    w: Vector
    clip: float

    def factors(self, block: Block) -> list[Pair]:
        """(z, 1) ⊗ δ₁ and (h, 1) ⊗ δ₂ in whole numbers, every product on the way exact, clipped against the exact norms."""
        grid, here, (W1, b1, W2, b2) = self.inputs(block), present(block) > 0, self.layout.split(self.w)
        if not here.all():  # a sample may be few of the rows
            parts = {name: getattr(grid, name)[here] for name in ("rows", "size", "norm", "limit")}
            grid = replace(grid, **parts)
        H = np.tanh(grid.margins(np.vstack([W1, b1]).T))
        hidden = np.column_stack([whole(H, 1.0, STEPS), np.full(len(H), STEPS)])
        output = residuals(exact_product(hidden, np.vstack([W2, b2])), np.asarray(block.y)[here])
        back = exact_product(whole(output, 1.0, STEPS), W2.T) * (1 - H * H)
        first, second = grid.norms**2, np.vecdot(hidden, hidden) / STEPS**2
        length = np.sqrt(squares(output) * second + squares(back) * first)
        factor = STEPS / self.clip * np.minimum(1.0, self.clip / np.maximum(length, 1e-30))
        lefts = settled(scaled(back, factor * grid.size)), settled(scaled(output, factor))
        nearest = [np.rint(left) for left in lefts]
        longer = squares(nearest[0]) * grid.norm**2 + squares(nearest[1]) * second > STEPS**2
        back, output = (np.where(longer[:, None], np.trunc(left), near) for left, near in zip(lefts, nearest))
        return [Pair(widened(grid.rows), back), Pair(hidden, output)]

    def sensitivity(self, relation: str) -> float:
        return kappa(relation) * self.clip

    @property
    def row_bound(self) -> float:
        return self.clip
