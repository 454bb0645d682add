"""What one row adds to the sums that train a two-layer network: its second moments, and its clipped gradient.

    h = tanh(z W₁ + b₁),   p = softmax(h W₂ + b₂),   δ₂ = p - e_y,   δ₁ = (δ₂ W₂ᵀ)∘(1 - h∘h)

The gradient of a row is (z,1)ᵀδ₁ and (h,1)ᵀδ₂, two outer products, so its squared norm is ‖δ₁‖²(‖z‖² + 1) + ‖δ₂‖²(‖h‖² + 1): the
clip needs no per-row gradient. `VmapGradient` forms them with PyTorch instead, for any sample of rows; both give the same sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.privacy import kappa
from dperm.problem.arrays import is_sparse
from dperm.rows.base import Block
from dperm.terms.affine import weighted_row_sum

Vector = NDArray[np.float64]
Matrix = NDArray[Any]


def present(block: Block) -> Vector:
    """1 for a row that takes part, 0 for a null row."""
    return np.ones(len(block.y)) if block.weight is None else np.asarray(block.weight > 0, dtype=np.float64)


@dataclass(frozen=True)
class RowMap:
    """x ↦ (x - mean of x's own entries)/‖·‖ for rows of like entries (`centred`), or x/R: a fixed rule for one row alone.

    Either way the result has norm ≤ 1. A row without any spread becomes 0.
    """

    centred: bool
    radius: float

    def __call__(self, X: Any) -> Matrix:
        rows = np.asarray(X.toarray() if is_sparse(X) else X)
        rows = rows.astype(np.float32) if rows.dtype != np.float64 else rows
        if not self.centred:
            return np.asarray(rows / rows.dtype.type(self.radius * (1 + 1e-6)))
        rows = rows - rows.mean(axis=1, keepdims=True)
        size = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))[:, None]
        unit = np.where(size > 1e-9 * self.radius, rows / np.maximum(size, 1e-300), 0.0) * (1 - 1e-6)
        return np.asarray(unit, dtype=rows.dtype)


@dataclass(frozen=True, eq=False)
class SecondMoments:
    """Σ x xᵀ of mapped rows as a vector: the diagonal, then √2 times what is above it, so that ℓ2 and Frobenius norms agree.

    **Sensitivity**: ‖x xᵀ‖_F = ‖x‖² ≤ 1 for one row present or absent; √2 for one replaced, because ‖x xᵀ - y yᵀ‖_F² =
    ‖x‖⁴ + ‖y‖⁴ - 2⟨x, y⟩² ≤ 2.
    """

    rows: RowMap

    def __call__(self, block: Block) -> Vector:
        X = np.asarray(self.rows(block.X), dtype=np.float64) * present(block)[:, None]
        total = X.T @ X
        return np.concatenate([np.diag(total), math.sqrt(2.0) * total[np.triu_indices(len(total), 1)]])

    def sensitivity(self, relation: str) -> float:
        return math.sqrt(2.0) if kappa(relation) == 2 else 1.0

    @property
    def row_bound(self) -> float:
        return math.sqrt(2.0)


def symmetric(values: Vector, d: int) -> Matrix:
    """The matrix that `SecondMoments` wrote as a vector."""
    total = np.zeros((d, d))
    total[np.triu_indices(d, 1)] = np.asarray(values[d:]) / math.sqrt(2.0)
    return np.asarray(total + total.T + np.diag(values[:d]))


@dataclass(frozen=True, eq=False)
class Inputs:
    """z = x mapped, projected and brought to length `length`: exactly where rows are centred, at most twice that otherwise."""

    rows: RowMap
    directions: Matrix  # d × k, scaled
    length: float

    def of(self, X: Any) -> Matrix:
        Z = np.asarray(self.rows(X) @ self.directions, dtype=np.float32)
        size = np.sqrt(np.einsum("ij,ij->i", Z, Z, dtype=np.float64))[:, None]
        factor = self.length / np.maximum(size, 1e-12)
        if not self.rows.centred:
            factor = np.minimum(2.0 * factor, 1.0)
        return np.asarray(Z * factor, dtype=np.float32)

    def __call__(self, block: Block) -> Matrix:
        return np.asarray(block.remember((self, "inputs"), lambda: self.of(block.X)))


@dataclass(frozen=True)
class Layout:
    """Where the weights of each layer lie in one vector."""

    inputs: int
    hidden: int
    classes: int

    @property
    def size(self) -> int:
        return (self.inputs + 1) * self.hidden + (self.hidden + 1) * self.classes

    def split(self, w: Vector) -> tuple[Matrix, Matrix, Matrix, Matrix]:
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

    def scores(self, w: Vector, Z: Matrix) -> Matrix:
        W1, b1, W2, b2 = self.split(w)
        return np.asarray(np.tanh(Z @ W1 + b1) @ W2 + b2)


@dataclass(frozen=True, eq=False)
class NetworkGradient:
    """Σ clip_C(gradient of the cross entropy of one row), in closed form.

    **Sensitivity** κC.
    """

    inputs: Inputs
    layout: Layout
    w: Vector
    clip: float
    wide: bool = False  # sums in float64, which add-remove needs: see `dperm.rows.double`

    def __call__(self, block: Block) -> Vector:
        Z = self.inputs(block)
        W1, b1, W2, b2 = (part.astype(np.float32) for part in self.layout.split(self.w))
        H = np.tanh(Z @ W1 + b1)
        scores = H @ W2 + b2
        output = np.exp(scores - scores.max(axis=1, keepdims=True))
        output /= output.sum(axis=1, keepdims=True)
        output[np.arange(len(output)), np.asarray(block.y, dtype=np.int64)] -= 1
        back = (output @ W2.T) * (1 - H * H)
        squares = np.vecdot(output, output) * (np.vecdot(H, H) + 1) + np.vecdot(back, back) * (np.vecdot(Z, Z) + 1)
        factor = present(block) * np.minimum(1.0, self.clip / np.sqrt(np.maximum(squares, 1e-30)))
        narrow = factor.astype(np.float32)[:, None]
        output, back = output * narrow, back * narrow
        if self.wide:
            Z, H = Z.astype(np.float64), H.astype(np.float64)
        parts = (weighted_row_sum(Z, back).T, back.sum(axis=0, dtype=np.float64))
        last = (weighted_row_sum(H, output).T, output.sum(axis=0, dtype=np.float64))
        return np.concatenate([np.ravel(part) for part in (*parts, *last)])

    def sensitivity(self, relation: str) -> float:
        return kappa(relation) * self.clip

    @property
    def row_bound(self) -> float:
        return self.clip


@dataclass(frozen=True, eq=False)
class VmapGradient(NetworkGradient):
    """The same sum from per-row gradients, formed by `torch.func.vmap` over the rows that take part: for sampled batches."""

    def __call__(self, block: Block) -> Vector:
        torch = import_torch()
        taking_part = np.flatnonzero(present(block))
        total = torch.zeros(self.layout.size, dtype=torch.float64)
        if not len(taking_part):
            return np.asarray(total)
        w = torch.as_tensor(np.asarray(self.w, dtype=np.float32))
        k, h, K = self.layout.inputs, self.layout.hidden, self.layout.classes
        sizes = (k * h, h, h * K, K)

        def loss(w: Any, z: Any, y: Any) -> Any:
            W1, b1, W2, b2 = torch.split(w, sizes)
            scores = torch.tanh(z @ W1.reshape(k, h) + b1) @ W2.reshape(h, K) + b2
            return torch.nn.functional.cross_entropy(scores[None], y[None])

        gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
        Z = torch.as_tensor(self.inputs(block)[taking_part])
        labels = torch.as_tensor(np.asarray(block.y, dtype=np.int64)[taking_part])
        for start in range(0, len(Z), 1024):
            each = gradients(w, Z[start : start + 1024], labels[start : start + 1024]).double()
            factor = torch.clamp(self.clip / torch.clamp(each.norm(dim=1), min=1e-15), max=1.0)
            total += factor @ each
        return np.asarray(total.numpy(), dtype=np.float64)


def import_torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise ValueError(
            "Expected PyTorch for sampling_rate=, found none. Install dperm[torch], or leave sampling_rate out: full batches "
            "need no PyTorch."
        ) from error
    return torch
