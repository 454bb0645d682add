"""One read of X: margins, slopes, per-row clip and gradient in a single Triton kernel, for every scalar loss.

Needs torch and Triton only, so that it can be read, tested and timed by itself.

**Why the computed sum keeps its sensitivity.** A row's clipped gradient s·z is rounded, entry by entry, to a public grid of
step h (one fused multiply-add with 1.5·2²³ does it: the low bits of the sum are the integer), and integers are added: in 32
bits inside a program, in 64 bits across programs. Integer sums are exact and have no order. So what a row adds depends on that
row alone, whatever n is. Its length is at most C·(1 + (d/2 + 32)·2⁻²⁴), since the computed norm is a sum of d squares, a root
and a quotient in float32, and √p·h/2 of the grid with h ≤ C·2⁻²⁰. For d = 4,096 that is C·(1 + 1.6e-4): within the release
slack of 1.001, which has room for the grid of the release (1.2e-4) beside it. No float32 sum over rows is ever taken.

**Why 32 bits suffice.** C/h ≤ 2²¹ and an accumulator sees at most 512 rows before it is flushed: 2³⁰ < 2³¹. The grid does not
know n, nominal or true: 64 bits hold the sum of 2⁴² rows, 4.4·10¹², which no GPU and no host beside it holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

try:
    import triton
    import triton.language as tl
except ImportError:  # the caller takes two products instead
    triton = tl = None
AVAILABLE = triton is not None

# Slopes that the kernel knows, by the name of the loss; the tests compare each with `loss.slope`.
LOSS_CODES = {
    "logistic": 0,
    "squared": 1,
    "hinge": 2,
    "softplus-hinge": 3,
    "huberized-hinge": 4,
    "absolute": 5,
    "quantile": 6,
    "huber": 7,
    "log-cosh": 8,
    "poisson": 9,
    "glm-gaussian": 10,
    "glm-bernoulli": 11,
    "glm-exponential": 12,
    "glm-inverse-gaussian": 13,
}
PARAMETERS = {
    "softplus-hinge": "width",
    "huberized-hinge": "width",
    "quantile": "level",
    "huber": "threshold",
    "log-cosh": "scale",
}
LARGEST_WIDTH = 4096
ROWS_PER_FLUSH = 512
MAGIC = 12582912.0  # 1.5·2²³
MAGIC_BITS = 0x4B400000


@dataclass(frozen=True)
class Slope:
    """A loss as the kernel takes it: its code, up to two parameters, and a factor in front."""

    code: int
    first: float = 0.0
    second: float = 0.0
    factor: float = 1.0


def kernel_slope(loss: Any) -> Slope | None:
    """The kernel's form of a loss, or None where it has none (vector margins, custom losses).

    The range of a generalised linear model is (first, second); infinite ends become the largest float32.
    """
    name = loss.name
    if name == "scaled":
        inner = kernel_slope(loss.base)
        return None if inner is None else replace(inner, factor=inner.factor * loss.factor)
    if name in ("poisson", "glm"):
        family = "poisson" if name == "poisson" else f"glm-{loss.cumulant}"
        known = {"glm-poisson": "poisson", "glm-gamma": "glm-exponential"}
        return Slope(LOSS_CODES[known.get(family, family)], max(loss.low, -3e38), min(loss.high, 3e38))
    if name not in LOSS_CODES:
        return None
    return Slope(LOSS_CODES[name], getattr(loss, PARAMETERS[name]) if name in PARAMETERS else 0.0)


def kernel_step(bound: float) -> float:
    """h = 2^(⌈log₂ bound⌉ - 21): bound/h lies in (2²⁰, 2²¹].

    >>> kernel_step(1.0) == 2.0**-21, kernel_step(1.5) == 2.0**-20
    (True, True)
    """
    return float(2.0 ** (math.ceil(math.log2(bound)) - 21))


def excess(d: int) -> float:
    """By how much of the clip a row's computed gradient can be longer than the clip: norm, root and quotient, then the grid.

    >>> excess(4096) < 1.6e-4
    True
    """
    return (d / 2 + 32) * 2.0**-24 + math.sqrt(d + 1) * 2.0**-21


if triton is not None:

    @triton.jit
    def _slope(z, y, CODE: tl.constexpr, first, second):
        if CODE == 0:
            s = -y * tl.sigmoid(-y * z)
        elif CODE == 1:
            s = z - y
        elif CODE == 2:
            s = tl.where(y * z < 1.0, -y, 0.0)
        elif CODE == 3:
            s = -y * tl.sigmoid((1.0 - y * z) / first)
        elif CODE == 4:
            s = -y * tl.minimum(tl.maximum(1.0 + first - y * z, 0.0), 2.0 * first) / (2.0 * first)
        elif CODE == 5:
            s = tl.where(z > y, 1.0, tl.where(z < y, -1.0, 0.0))
        elif CODE == 6:
            s = tl.where(z > y, 1.0 - first, tl.where(z < y, -first, 0.0))
        elif CODE == 7:
            s = tl.minimum(tl.maximum(z - y, -first), first)
        elif CODE == 8:
            s = first * (2.0 * tl.sigmoid(2.0 * (z - y) / first) - 1.0)
        else:
            c = tl.minimum(tl.maximum(z, first), second)
            if CODE == 9:
                s = tl.exp(c) - y
            elif CODE == 10:
                s = c - y
            elif CODE == 11:
                s = tl.sigmoid(c) - y
            elif CODE == 12:
                s = -1.0 / c - y
            else:
                s = 1.0 / tl.sqrt(-2.0 * c) - y
        return s

    @triton.jit
    def _fused(
        x_ptr, y_ptr, weight_ptr, w_ptr, scale_ptr, offset_ptr, total_ptr,
        n, stride, d, bias, intercept, limit, inverse_step, first, second, factor,
        CODE: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, EVEN: tl.constexpr, MAPPED: tl.constexpr,
        WEIGHTED: tl.constexpr, CONSTANT: tl.constexpr, STAGES: tl.constexpr,
    ):  # fmt: skip
        columns = tl.arange(0, WIDTH)
        inside = columns < d
        lines = tl.arange(0, ROWS)
        w = tl.load(w_ptr + columns, mask=inside, other=0.0)
        if MAPPED:
            scale = tl.load(scale_ptr + columns, mask=inside, other=0.0)
            offset = tl.load(offset_ptr + columns, mask=inside, other=0.0)
        total = tl.zeros([ROWS, WIDTH], dtype=tl.int32)
        constant = tl.zeros([ROWS], dtype=tl.int32)
        for tile in tl.range(tl.program_id(0), tl.cdiv(n, ROWS), tl.num_programs(0), num_stages=STAGES):
            row = tile * ROWS + lines
            live = row < n
            place = row.to(tl.int64)[:, None] * stride + columns[None, :]
            if EVEN:
                z = tl.load(x_ptr + place, mask=live[:, None], other=0.0).to(tl.float32)
            else:
                z = tl.load(x_ptr + place, mask=live[:, None] & inside[None, :], other=0.0).to(tl.float32)
            if MAPPED:
                z = z * scale[None, :] + offset[None, :]
            y = tl.load(y_ptr + row, mask=live, other=0.0).to(tl.float32)
            margin = tl.sum(z * w[None, :], axis=1) + bias
            square = tl.sum(z * z, axis=1) + intercept * intercept
            s = factor * _slope(margin, y, CODE, first, second)
            if WEIGHTED == 1:  # the weight belongs to the gradient that is clipped
                s = s * tl.load(weight_ptr + row, mask=live, other=0.0)
            most = limit / tl.sqrt(square + 1e-30)
            s = tl.minimum(tl.maximum(s, -most), most)
            if WEIGHTED == 2:  # the weight acts on the clipped gradient, and is at most max_weight
                s = s * tl.load(weight_ptr + row, mask=live, other=0.0)
            s = tl.where(live & (s == s), s, 0.0) * inverse_step  # a NaN adds nothing
            total += (z * s[:, None] + 12582912.0).to(tl.int32, bitcast=True) - 0x4B400000
            if CONSTANT:
                constant += (intercept * s + 12582912.0).to(tl.int32, bitcast=True) - 0x4B400000
        tl.atomic_add(total_ptr + columns, tl.sum(total.to(tl.int64), axis=0), mask=inside, sem="relaxed")
        if CONSTANT:
            tl.atomic_add(total_ptr + d, tl.sum(constant.to(tl.int64), axis=0), sem="relaxed")


# By element size: (up to this width, entries of a tile, warps, pipeline stages, programs per processor), from a sweep on an H200
# (benchmarks/speed_device_tiles.py). Any choice gives a right answer; these read at the speed of the memory.
TILES = {
    4: ((32, 1024, 2, 3, 32), (128, 4096, 8, 1, 16), (512, 4096, 2, 3, 8), (4096, 4096, 4, 3, 8)),
    2: ((128, 4096, 2, 3, 16), (512, 2048, 1, 3, 16), (4096, 4096, 4, 3, 8)),
}


def tile_sizes(width: int, itemsize: int) -> tuple[int, int, int, int]:
    """(rows per tile, warps, stages, programs per processor) for a power-of-two width."""
    for largest, entries, warps, stages, programs in TILES[itemsize]:
        if width <= largest:
            return max(entries // width, 1), warps, stages, programs
    raise ValueError(f"Expected at most {LARGEST_WIDTH} columns, found {width}.")


def fused_counts(
    X: torch.Tensor,
    y: object,
    weight: object,
    w: object,
    slope: Slope,
    *,
    clip: float,
    bias: float = 0.0,
    intercept: float = 0.0,
    scale: object = None,
    offset: object = None,
    weight_after_clip: bool = False,
    heaviest: float = 1.0,
    total: torch.Tensor | None = None,
    tile: tuple[int, int, int, int] | None = None,
    processors: int = 1,
) -> tuple[torch.Tensor, float]:
    """(Σ rows of the clipped gradient as int64 counts, step of the grid). X is n × d, float32 or bfloat16, rows contiguous.

    z = scale∘x + offset; the margin is ⟨z, w⟩ + bias. `total` lets several pieces of X add into one tensor. `processors` is the
    number of multiprocessors of the GPU.
    """
    import torch

    n, d = X.shape
    width = max(triton.next_power_of_2(d), 16)
    rows, warps, stages, each = tile or tile_sizes(width, X.element_size())
    step = kernel_step(clip * heaviest)
    if total is None:
        total = torch.zeros(d + (1 if intercept else 0), dtype=torch.int64, device=X.device)
    tiles = triton.cdiv(n, rows)
    programs = max(min(tiles, processors * each), triton.cdiv(tiles, ROWS_PER_FLUSH))
    kind = 0 if weight is None else 2 if weight_after_clip else 1
    _fused[(programs,)](
        X, y, y if weight is None else weight, w, w if scale is None else scale, w if offset is None else offset, total,
        n, X.stride(0), d, float(bias), float(intercept), clip, 1.0 / step, slope.first, slope.second, slope.factor,
        CODE=slope.code, ROWS=rows, WIDTH=width, EVEN=width == d, MAPPED=scale is not None,
        WEIGHTED=kind, CONSTANT=bool(intercept), STAGES=stages, num_warps=warps,
    )  # fmt: skip
    return total, step
