"""Triton kernels of `dperm.rows.int8`: margins, residuals and sums of whole numbers on the matrix units of a GPU.

Every float operation is one of IEEE 754's own, in the order of the functions there, and a multiplication is fused with an
addition only where it says so (`enable_fp_fusion=False`), so that a GPU and a processor give the same whole numbers. Tiles are
from sweeps on an H200; any choice gives the same answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import triton
    import triton.language as tl
except ImportError:  # the caller takes plain products instead
    triton = tl = None

if TYPE_CHECKING:
    from torch import Tensor

GROUP = 8  # tiles of rows that run together
PROCESSORS = 132  # multiprocessors of an H100 or H200; on others sums are cut a little less evenly
MOST_ROWS = 1 << 17  # rows that one program adds in 32 bits: 127²·2¹⁷ < 2³¹


def usable(tensor: Tensor) -> bool:
    """Whether the kernels take this tensor."""
    return triton is not None and tensor.is_cuda


if triton is not None:

    @triton.jit
    def _octaves(
        theta_ptr, x_ptr, step_ptr, size_ptr, bias_ptr, out_ptr, top_ptr, classes, m, width,
        CLASSES: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
    ):  # fmt: skip
        """out[k, i] = ((128·high + low)·step_k)·size_i + bias_k; `theta` has CLASSES high limbs, then the low ones, and so on."""
        program = tl.program_id(0)
        across = tl.cdiv(classes, CLASSES)
        # Programs that run together share rows and parameters: GROUP tiles of rows, and all classes of each.
        group = program // (GROUP * across)
        tall = tl.minimum(m // ROWS - group * GROUP, GROUP)
        rest = program % (GROUP * across)
        i = (group * GROUP + rest % tall) * ROWS + tl.arange(0, ROWS)
        block = rest // tall
        depth = tl.arange(0, DEPTH)
        x_ptrs = x_ptr + i.to(tl.int64)[:, None] * width + depth[None, :]
        theta_ptrs = theta_ptr + (block * 2 * CLASSES + tl.arange(0, 2 * CLASSES))[:, None] * width + depth[None, :]
        both = tl.zeros([ROWS, 2 * CLASSES], dtype=tl.int32)
        for _ in range(0, width, DEPTH):
            both = tl.dot(tl.load(x_ptrs), tl.trans(tl.load(theta_ptrs)), both, out_dtype=tl.int32)
            x_ptrs += DEPTH
            theta_ptrs += DEPTH
        high, low = tl.split(tl.permute(tl.reshape(both, [ROWS, 2, CLASSES]), [0, 2, 1]))
        k = block * CLASSES + tl.arange(0, CLASSES)
        step = tl.load(step_ptr + k, mask=k < classes, other=0.0)
        bias = tl.load(bias_ptr + k, mask=k < classes, other=0.0)
        size = tl.load(size_ptr + i)
        octaves = (high.to(tl.float32) * 128.0 + low.to(tl.float32)) * step[None, :] * size[:, None] + bias[None, :]
        octaves = tl.minimum(tl.maximum(octaves, -60000.0), 60000.0).to(tl.float16)
        tl.store(out_ptr + k.to(tl.int64)[:, None] * m + i[None, :], tl.trans(octaves), mask=(k < classes)[:, None])
        top = tl.max(tl.where((k < classes)[None, :], octaves.to(tl.float32), -60000.0), axis=1)
        tl.atomic_max(top_ptr + i, top, sem="relaxed")  # a maximum has no order

    @triton.jit
    def _counts(octaves, top):
        """2²⁰·2^-(top - octaves) + 1.5·2²³: the low bits are the nearest whole number."""
        fall = tl.minimum(top - octaves.to(tl.float32), 64.0)
        nearest = fall + 12582912.0
        u = fall - (nearest - 12582912.0)
        power = tl.fma(u, -58696.29296875, 253991.84375)  # `POWERS` times 2²⁰
        power = tl.fma(power, u, -726781.125)
        power = tl.fma(power, u, 1048576.0)
        bits = power.to(tl.int32, bitcast=True) - (nearest.to(tl.int32, bitcast=True) << 23)
        return bits.to(tl.float32, bitcast=True) + 12582912.0

    @triton.jit
    def _whole(shifted):
        return shifted.to(tl.int32, bitcast=True) - 0x4B400000

    @triton.jit
    def _residuals(
        octaves_ptr, top_ptr, label_ptr, factor_ptr, most_ptr, limit_ptr, out_ptr, classes, m, spare,
        ROWS: tl.constexpr, LINES: tl.constexpr, LIMBS: tl.constexpr,
    ):  # fmt: skip
        """`left_factors` and `digits` of ROWS rows, LINES classes at a time; two passes, the sums of integers in any order."""
        i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        k = tl.arange(0, LINES)
        place = k[:, None] * m + i[None, :]  # below 2³¹
        highest = tl.load(top_ptr + i)
        total = tl.zeros([LINES, ROWS], dtype=tl.int32)
        square = tl.zeros([LINES, ROWS], dtype=tl.int64)
        for first in range(0, classes, LINES):
            octaves = tl.load(octaves_ptr + (first * m + place), mask=(k < classes - first)[:, None], other=-60000.0)
            whole = _whole(_counts(octaves, highest[None, :]))
            total += whole
            square += whole.to(tl.int64) * whole.to(tl.int64)
        every = tl.sum(total, axis=0).to(tl.int64)
        label = tl.load(label_ptr + i)
        inside = (label >= 0) & (label < classes)
        own = tl.load(octaves_ptr + (label * m + i), mask=inside, other=-60000.0)
        own_shifted = _counts(own, highest)
        own_count = _whole(own_shifted).to(tl.int64)
        squares = tl.sum(square, axis=0) + tl.where(inside, every * (every - 2 * own_count), 0)

        all_of = every.to(tl.float32)
        factor = tl.div_rn(tl.load(factor_ptr + i), all_of)
        limit = tl.load(limit_ptr + i)
        limit = tl.maximum(tl.where(inside, limit, limit - spare), 0.0)
        length = tl.maximum(tl.sqrt_rn(squares.to(tl.float32)) * tl.abs(factor), 1e-30)
        factor = factor * tl.minimum(tl.div_rn(limit, length), 1.0)

        span = classes.to(tl.int64) * m
        used = tl.zeros([LINES, ROWS], dtype=tl.int64)
        for first in range(0, classes, LINES):
            live = (k < classes - first)[:, None]
            octaves = tl.load(octaves_ptr + (first * m + place), mask=live, other=-60000.0)
            counts = _counts(octaves, highest[None, :]) - 12582912.0
            a = _whole(tl.fma(counts, factor[None, :], 12582912.0))
            used += a.to(tl.int64) * a.to(tl.int64)
            _store(out_ptr + (first * m + place), a, live, span, LIMBS)
        # The entry of the row's own class is p - 1.
        counts = own_shifted - 12582912.0
        before = tl.where(inside, _whole(tl.fma(counts, factor, 12582912.0)), 0).to(tl.int64)
        a = tl.where(inside, _whole(tl.fma(counts - all_of, factor, 12582912.0)), 0)
        square_sum = tl.sum(used, axis=0) - before * before + a.to(tl.int64) * a.to(tl.int64)
        tl.debug_barrier()
        _store(out_ptr + (label * m + i), a, inside, span, LIMBS)
        wrong = square_sum > tl.load(most_ptr + i)
        if tl.max(wrong.to(tl.int32), axis=0) > 0:  # never, by the proof beside `left_factors`; if ever, the row adds nothing
            tl.debug_barrier()
            for line in range(0, classes * LIMBS):
                tl.store(out_ptr + (tl.cast(line, tl.int64) * m + i), tl.zeros([ROWS], dtype=tl.int8), mask=wrong)

    @triton.jit
    def _store(out_ptrs, a, live, span, LIMBS: tl.constexpr):
        for limb in tl.static_range(LIMBS):
            digit = a
            if limb < LIMBS - 1:
                a = (a + 64) >> 7
                digit = digit - (a << 7)
            tl.store(out_ptrs + (LIMBS - 1 - limb) * span, digit.to(tl.int8), mask=live)

    @triton.jit
    def _products(
        left, right, out_ptr, lines, entries, m, span, LINES: tl.constexpr, ENTRIES: tl.constexpr, DEPTH: tl.constexpr
    ):  # fmt: skip
        """A tile of left·rightᵀ over `span` rows, at most 131,072 of them: exact in 32 bits."""
        down = tl.cdiv(lines, LINES)
        line = (tl.program_id(0) % down) * LINES
        entry = (tl.program_id(0) // down) * ENTRIES
        first = tl.program_id(1) * span
        total = tl.zeros([LINES, ENTRIES], dtype=tl.int32)
        for row in range(first, tl.minimum(first + span, m), DEPTH):
            total = tl.dot(left.load([line, row]), right.load([entry, row]).T, total, out_dtype=tl.int32)
        line += tl.arange(0, LINES)
        entry += tl.arange(0, ENTRIES)
        place = (tl.program_id(1) * lines + line).to(tl.int64)[:, None] * entries + entry[None, :]
        tl.store(out_ptr + place, total, mask=(line < lines)[:, None] & (entry < entries)[None, :])


def octaves(theta: Tensor, rows: Tensor, step: Tensor, size: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """(K, m) float16 and their maxima; theta is (2, K, width) int8, rows (m, width) int8."""
    import torch

    classes, (m, width) = theta.shape[1], rows.shape
    tall, wide, depth, warps, stages = 128, 64, 128, 4, 3
    wide = min(wide, max(triton.next_power_of_2(classes), 16))
    across = triton.cdiv(classes, wide)
    beside = torch.zeros((2, across * wide, width), dtype=torch.int8, device=rows.device)
    beside[:, :classes] = theta
    beside = beside.reshape(2, across, wide, width).transpose(0, 1).contiguous()
    out = torch.empty((classes, m), dtype=torch.float16, device=rows.device)
    top = torch.full((m,), -60000.0, dtype=torch.float32, device=rows.device)
    _octaves[(across * (m // tall),)](
        beside, rows, step, size, bias, out, top, classes, m, width,
        CLASSES=wide, ROWS=tall, DEPTH=depth, GROUP=GROUP, num_warps=warps, num_stages=stages, enable_fp_fusion=False,
    )  # fmt: skip
    return out, top


def residual_limbs(
    octaves: tuple[Tensor, Tensor], labels: Tensor, factor: Tensor, most: Tensor, limit: Tensor, spare: float, limbs: int
) -> Tensor:
    """(limbs·K, m) int8."""
    import torch

    (values, top), (classes, m) = octaves, octaves[0].shape
    wide, lines, warps = 128, 4, 4
    out = torch.empty((limbs * classes, m), dtype=torch.int8, device=values.device)
    _residuals[(m // wide,)](
        values, top, labels, factor, most, limit, out, classes, m, spare,
        ROWS=wide, LINES=lines, LIMBS=limbs, num_warps=warps, enable_fp_fusion=False,
    )  # fmt: skip
    return out


def add_products(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total (lines × entries, int64) += left (lines × m, int8)·right (entries × m, int8)ᵀ; m is a multiple of 128."""
    import torch
    from triton.tools.tensor_descriptor import TensorDescriptor

    (lines, m), entries = left.shape, right.shape[0]
    tall, wide, depth, warps, stages = 128, 256, 128, 8, 4
    tall = min(tall, max(triton.next_power_of_2(lines), 16))
    tiles = triton.cdiv(lines, tall) * triton.cdiv(entries, wide)
    splits = split_count(tiles, triton.cdiv(m, MOST_ROWS), m // depth, PROCESSORS)
    span = triton.cdiv(m // depth, splits) * depth
    parts = torch.empty((triton.cdiv(m, span), lines, entries), dtype=torch.int32, device=left.device)
    _products[(tiles, len(parts))](
        TensorDescriptor.from_tensor(left, [tall, depth]), TensorDescriptor.from_tensor(right, [wide, depth]),
        parts, lines, entries, m, span,
        LINES=tall, ENTRIES=wide, DEPTH=depth, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    total += parts.sum(dim=0, dtype=torch.int64)


def split_count(tiles: int, least: int, most: int, processors: int) -> int:
    """Into how many runs of rows a sum is cut, so that the last round of programs is nearly full.

    >>> split_count(128, 1, 1024, 132), split_count(192, 1, 1024, 132), split_count(32, 8, 1024, 132)
    (1, 2, 8)
    """
    largest = max(min(most, 64), least)
    for splits in range(least, largest):
        rounds = tiles * splits / processors
        if rounds >= 0.9 and rounds / -(-rounds // 1) >= 0.9:
            return splits
    return largest
