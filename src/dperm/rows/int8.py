"""Sums of softmax gradients on integer matrix units: Σ_i clip_C(p_i - e_{y_i}) ⊗ z_i, with no rounding over rows.

Arrays in, whole numbers out; this file knows tensors and no terms. A row is z ≈ s·b with whole numbers |b_j| ≤ 127, to the
nearest. Its residual becomes whole numbers a_k, written in limbs of 8 bits, and the sum is Σ a_i ⊗ b_i.

**Sensitivity.** A row adds a ⊗ b in units of C/L. Here s and b are functions of the row's entries, and a one of the row's b, s,
label and weight and of public numbers (parameters, clip, the number of entries). No other row, and not where the row stands,
enters any of them: margins are products of whole numbers, the softmax and the clip are elementwise float32 operations, and all
that is taken over entries or classes is a maximum or a sum of whole numbers, which has no order. With N = ‖b‖² counted exactly,
a is kept only if

    Σ a_k² ≤ min(⌊L²/N⌋, A²),   so that   ‖a ⊗ b‖² = Σ a_k²·N ≤ L²,

two comparisons of integers. What a row adds therefore has norm at most C as a fact about whole numbers. Replacing a row moves
the sum by at most 2C, nulling or removing it by C. A row that failed the comparison would add 0; none does (`limits`).

**Why exact.** |limb|, |b_j| ≤ 127, so 131,072 rows add to at most 127²·2¹⁷ < 2³¹: that many fit 32 bits in any order of adding,
and such runs add in 64 bits, which hold L·n for n < 2³⁴. Permuted rows and repeated runs give the same bits. A processor without
matrix units gives them too, since every float operation is one of IEEE 754's own, in the same order (no `exp`).

**Resolution.** A = 127·128 with two limbs, 127·128² with three, and L = 127·A, so that even a row with a single entry can reach
the clip. A residual of full length has L/‖b‖ steps. With three limbs s = max|z_j|/127, and there are more than 2¹⁴ steps up to
d = 2¹⁴. With two, s is at least ‖z‖/(12·√d): that leaves 3,800 steps at d = 2,048, and rounds a flat row to some 6 bits, whose
errors are random and average out over rows; those of residuals would not. Margins are kept in float16, parameters in 15 bits.

An intercept c is one more entry, t = round(c/s), of up to 15 bits in two limbs of its own: it does not coarsen the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dperm.rows import int8_kernels

if TYPE_CHECKING:
    from torch import Tensor

TOP, LIMB = 127, 128
SLAB_ROWS, PIECE_ROWS = 1 << 20, 1 << 16
PADDED = 128  # rows of a chunk and entries of a row are filled up with zeros to multiples of this
MOST_CLASSES = 2047  # Σ of so many numbers of 20 bits fits 31 bits
FEW_CLASSES = 128
MOST_CONSTANT = TOP * LIMB
SMALLEST = 1e-30  # rows below this are rows of zeros: the clip never meets them
MAGIC = 12582912.0  # 1.5·2²³: adding and subtracting it rounds numbers below 2²² to whole ones
MAGIC_BITS = 0x4B400000
# 2^-u on [-½, ½], to 2⁻¹³; 1 at u = 0.
POWERS = (-0.6931124925613403, 0.2422254979610443, -0.055977147072553635)
MOST_OCTAVES = 60000.0  # float16 holds them


@dataclass(frozen=True, eq=False)
class Slab:
    """Up to 2²⁰ rows of whole numbers, twice: contiguous along entries for the margins, along rows for the sum.

    `size` is s; `most` is the largest Σ a² of each row; rows of padding have 0.
    """

    start: int
    count: int
    rows: Tensor  # (m, padded d) int8
    columns: Tensor  # (entries, m) int8
    size: Tensor  # (m,) float32
    most: Tensor  # (m,) int64

    @staticmethod
    def empty(start: int, count: int, d: int, intercept: float, device: object) -> Slab:
        import torch

        m = -(-count // PADDED) * PADDED
        rows = torch.zeros((m, -(-d // PADDED) * PADDED), dtype=torch.int8, device=device)
        columns = torch.zeros((d + (2 if intercept else 0), m), dtype=torch.int8, device=device)
        size = torch.zeros(m, dtype=torch.float32, device=device)
        return Slab(start, count, rows, columns, size, torch.zeros(m, dtype=torch.int64, device=device))

    def fill(self, start: int, Z: Tensor, intercept: float, limbs: int) -> None:
        """Put the rows Z (float64, taken over), which begin at row `start`, on their grid.

        A row with an entry that is no finite number is a row of zeros.
        """
        import torch

        d, part = Z.shape[1], slice(start - self.start, start - self.start + len(Z))
        top = Z.abs().amax(dim=1)
        gone = ~torch.isfinite(top)
        Z[gone] = 0.0
        # Products with a constant: a GPU's quotient by one may differ from a processor's in the last bit.
        size = torch.clamp(torch.where(gone, 0.0, top) * (1 / TOP), min=abs(intercept) / MOST_CONSTANT)
        gone |= size <= SMALLEST
        size = torch.where(gone, 1.0, size)
        if limbs == 2:
            # The norm from whole numbers, whose sum has no order: an ordinary one would depend on where the row stands.
            norm = torch.round(Z / size[:, None]).square().sum(dim=1).sqrt()
            size = size * torch.clamp(norm * (1 / longest_row(d)), min=1.0)
        size = size.float()
        b = torch.round(Z.div_(size.double()[:, None])).clamp_(-TOP, TOP)
        b[gone] = 0.0
        t = torch.round(torch.where(gone, 0.0, intercept / size.double())).clamp(-MOST_CONSTANT, MOST_CONSTANT).long()
        squares = (b * b).sum(dim=1).long() + t * t  # whole numbers below 2⁵³: any order of adding
        length, factor = full_length(limbs), largest_factor(limbs)
        most = torch.where(squares > 0, (length * length) // squares.clamp(min=1), 0)
        self.most[part] = most.clamp(max=factor * factor)
        self.size[part] = size
        self.rows[part, :d] = b.to(torch.int8)
        self.columns[:d, part] = self.rows[part, :d].T
        if intercept:
            self.columns[d:, part] = digits(t, 2).to(torch.int8)


def largest_factor(limbs: int) -> int:
    """A: whole numbers up to this have digits within ±127.

    >>> largest_factor(2), largest_factor(3)
    (16256, 2080768)
    """
    return int(TOP * LIMB ** (limbs - 1))


def full_length(limbs: int) -> int:
    """L: norm of what one row may add, in steps. A row of one entry, ‖b‖ = 127, can use every step."""
    return largest_factor(limbs) * TOP


def limbs_for(classes: int) -> int:
    """Three where the third costs next to nothing, because reading the rows is most of the work."""
    return 3 if classes <= FEW_CLASSES else 2


def longest_row(d: int) -> int:
    """‖b‖ of a row under two limbs: rows are coarser than 8 bits allow, so that residuals are finer."""
    return max(TOP, math.ceil(12 * math.sqrt(d)))


def digits(numbers: Tensor, limbs: int) -> Tensor:
    """Whole numbers as limbs, the highest first: |highest| ≤ 127, the others in [-64, 63].

    >>> import torch
    >>> digits(torch.tensor([16256, -65, 64]), 2).tolist()
    [[127, -1, 1], [0, 63, -64]]
    """
    import torch

    found = []
    for _ in range(limbs - 1):
        low = ((numbers + 64) & (LIMB - 1)) - 64
        found.append(low)
        numbers = (numbers - low) >> 7
    return torch.stack([numbers, *reversed(found)])


@dataclass(frozen=True, eq=False)
class Parameters:
    """θ on a public grid: (2, K, padded d) limbs in int8; a step for each class and what the intercept adds, in octaves."""

    limbs: Tensor
    step: Tensor
    bias: Tensor

    @staticmethod
    def of(theta: Tensor, width: int, intercept: float) -> Parameters:
        """`theta` is (K, d) in float64, with a last column where there is an intercept."""
        import torch

        d = theta.shape[1] - (1 if intercept else 0)
        bias = theta[:, d] * (intercept / math.log(2)) if intercept else torch.zeros_like(theta[:, 0])
        step = (theta[:, :d].abs().amax(dim=1) * (1 / (TOP * LIMB))).clamp(1e-30, 1e30)
        whole = torch.round(theta[:, :d] / step[:, None]).clamp_(-TOP * LIMB, TOP * LIMB).int()
        limbs = torch.zeros((2, len(theta), width), dtype=torch.int8, device=theta.device)
        limbs[:, :, :d] = digits(whole, 2)
        return Parameters(limbs, (step * (1 / math.log(2))).float(), bias.clamp(-1e30, 1e30).float())


@dataclass(frozen=True, eq=False)
class Int8Rows:
    """Rows on their grids, on one device. `limbs` are those of a residual."""

    slabs: tuple[Slab, ...]
    d: int
    intercept: float
    limbs: int
    kept: dict[int, list[Tensor]] = field(default_factory=dict)  # `limits` of the slabs, for a number of classes

    @staticmethod
    def of(pieces: Iterable[tuple[int, Tensor]], n: int, intercept: float, limbs: int) -> Int8Rows:
        """From (first row, rows in float64) one after the other, each inside one slab: cut at multiples of `PIECE_ROWS`."""
        slabs: list[Slab] = []
        d = 0
        for start, Z in pieces:
            d = Z.shape[1]
            if start % SLAB_ROWS == 0:
                slabs.append(Slab.empty(start, min(SLAB_ROWS, n - start), d, intercept, Z.device))
            slabs[-1].fill(start, Z, intercept, limbs)
        return Int8Rows(tuple(slabs), d, intercept, limbs)

    def unit(self, clip: float) -> float:
        """What one count stands for."""
        return clip / full_length(self.limbs)

    def counts(self, weights: Tensor, labels: Tensor, weight: Tensor, clip: float) -> Tensor:
        """Σ rows in int64, shaped like `weights`: (K, d), or (K, d + 1) with an intercept.

        Labels are whole numbers; one outside 0 … K-1 has no class of its own. `weight` belongs to what is clipped.
        """
        import torch

        device = self.slabs[0].rows.device
        classes, entries = len(weights), self.slabs[0].columns.shape[0]
        total = torch.zeros((self.limbs * classes, entries), dtype=torch.int64, device=device)
        weights = torch.as_tensor(weights, dtype=torch.float64, device=device)
        theta = Parameters.of(weights, self.slabs[0].rows.shape[1], self.intercept)
        if classes not in self.kept:
            self.kept[classes] = [limits(slab.most, classes) for slab in self.slabs]
        for slab, limit in zip(self.slabs, self.kept[classes]):
            part = slice(slab.start, slab.start + slab.count)
            own = None if weight is None else weight[part]
            left = residual_limbs(slab, theta, labels[part], own, full_length(self.limbs) / clip, self.limbs, limit)
            add_products(total, left, slab.columns)
        total *= torch.isfinite(weights).all()  # a row whose margins are no numbers adds nothing
        total = joined(total.reshape(self.limbs, classes, entries))
        if self.intercept:
            total = torch.cat([total[:, : self.d], joined(total[:, self.d :].T)[:, None]], dim=1)
        return total


def joined(limbs: Tensor) -> Tensor:
    """Limbs, the highest first, as one number."""
    total = limbs[0]
    for low in limbs[1:]:
        total = total * LIMB + low
    return total


def residual_limbs(
    slab: Slab, theta: Parameters, labels: Tensor, weight: Tensor, scale: float, limbs: int, limit: Tensor = None
) -> Tensor:
    """(limbs·K, m) int8: the whole numbers a of every row, contiguous along rows. `scale` is L/C; `limit` is kept from before."""
    import torch

    m = len(slab.size)
    labels = labels.to(torch.int32)
    labels = labels if len(labels) == m else torch.nn.functional.pad(labels, (0, m - slab.count), value=-1)
    factor = slab.size * scale
    if weight is not None:
        factor = factor * torch.nn.functional.pad(weight.float(), (0, m - slab.count))
    factor = factor.clamp(-1e30, 1e30)
    limit = limits(slab.most, theta.limbs.shape[1]) if limit is None else limit
    if int8_kernels.usable(slab.rows):
        octaves = int8_kernels.octaves(theta.limbs, slab.rows, theta.step, slab.size, theta.bias)
        return int8_kernels.residual_limbs(octaves, labels, factor, slab.most, limit, spare(theta.limbs.shape[1]), limbs)
    a = left_factors(octave_margins(slab, theta), labels, factor, slab.most, limit)
    return digits(a, limbs).to(torch.int8).reshape(-1, m)


def octave_margins(slab: Slab, theta: Parameters) -> Tensor:
    """Margins in octaves, log₂(e)·⟨z, θ_k⟩, (K, m) in float16: exact products of whole numbers, then elementwise operations."""
    high, low = ((limb.double() @ slab.rows.double().T).float() for limb in theta.limbs)
    octaves = (high * 128.0 + low) * theta.step[:, None] * slab.size + theta.bias[:, None]
    return octaves.clamp(-MOST_OCTAVES, MOST_OCTAVES).half()


def left_factors(octaves: Tensor, labels: Tensor, factor: Tensor, most: Tensor, limit: Tensor) -> Tensor:
    """Whole numbers a ≈ factor·(p - e_y), one column for each row, with Σ a² ≤ most. The kernel does the same, step by step.

    p_k = c_k/Q with whole numbers c_k of at most 2²⁰ and Q = Σ c_k. So Q²·‖p - e_y‖² = Σ c_k² - 2·c_y·Q + Q² is a whole number.
    """
    import torch

    octaves = octaves.float()
    fall = (octaves.amax(dim=0) - octaves).clamp(max=64.0)
    nearest = fall + MAGIC
    u = fall - (nearest - MAGIC)
    power = torch.full_like(u, POWERS[2])
    for coefficient in (POWERS[1], POWERS[0], 1.0):
        power = fused(power, u, coefficient)
    lower = nearest.view(torch.int32) - MAGIC_BITS
    power = (power.view(torch.int32) + ((20 - lower) << 23)).view(torch.float32)  # 2²⁰·2^-fall
    counts = (power + MAGIC) - MAGIC
    chosen = labels[None, :] == torch.arange(len(octaves), device=octaves.device)[:, None]
    whole = counts.long()
    every = whole.sum(dim=0)
    squares = (whole * whole).sum(dim=0) + torch.where(chosen.any(dim=0), every * (every - 2 * (whole * chosen).sum(dim=0)), 0)
    residual = counts - torch.where(chosen, every.float(), 0.0)

    factor = factor / every.float()
    limit = torch.where(chosen.any(dim=0), limit, limit - spare(len(octaves))).clamp(min=0.0)
    # The root of a float32 through float64 is the correctly rounded one; torch's own is not, on a processor.
    length = (squares.float().double().sqrt().float() * factor.abs()).clamp(min=1e-30)
    factor = factor * (limit / length).clamp(max=1.0)
    a = (fused(residual, factor, MAGIC) - MAGIC).long()
    return torch.where((a**2).sum(dim=0) <= most, a, 0)


def fused(one: Tensor, other: Tensor, more: float) -> Tensor:
    """one·other + more with one rounding (two in a tie of the second, one case in 2²⁹): the product is exact in float64."""
    return (one.double() * other.double() + more).float()


def spare(classes: int) -> float:
    """√K/2: by how much rounding K numbers to the nearest whole ones can lengthen them."""
    return math.sqrt(classes) / 2


def limits(most: Tensor, classes: int) -> Tensor:
    """The longest residual v whose nearest whole numbers a have Σ a² ≤ most, less 2⁻¹⁹ of it for the rounding of its length.

    Σ a² ≤ ‖v‖² + ‖v‖₁ + K/4. A residual p - e_y has ‖v‖₁ = 2|v_y| ≤ 2‖v‖, so (‖v‖ + 1)² + K/4 ≤ most suffices; without a class of
    its own, ‖v‖₁ ≤ √K·‖v‖, and √K/2 is taken off (`spare`).
    """
    return ((most.double() - classes / 4).clamp(min=0.0).sqrt() * (1 - 2.0**-19) - 1).clamp(min=0.0).float()


def add_products(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += left·rightᵀ, exactly."""
    if int8_kernels.usable(left):
        int8_kernels.add_products(total, left, right)
    else:
        total += (left.double() @ right.double().T).long()  # whole numbers below 2³⁴
