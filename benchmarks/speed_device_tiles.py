"""Which tile shape reads fastest on this GPU: every shape × element type × tile, in one table. Feeds `dperm.rows.kernels.TILES`.

    python benchmarks/speed_device_tiles.py            # needs a CUDA GPU, torch and Triton; nothing else

Compiling takes longer than timing, so every tile is first compiled by several processes at once into Triton's cache.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import json
import multiprocessing
import sys
from pathlib import Path

import torch

SHAPES = {32: 60_000_000, 128: 16_000_000, 512: 4_000_000}
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
ENTRIES = (512, 1024, 2048, 4096)
WARPS = (1, 2, 4, 8)
STAGES = (1, 3)
PER_PROCESSOR = (8, 16, 32)


def kernels():
    """The kernels alone: the rest of the package is not needed here."""
    path = Path(__file__).resolve().parents[1] / "src" / "dperm" / "rows" / "kernels.py"
    spec = importlib.util.spec_from_file_location("dperm_kernels", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["dperm_kernels"] = module
    spec.loader.exec_module(module)
    return module


def data(n: int, d: int, dtype: torch.dtype, seed: int = 0):
    """Rows of norm about 1 and labels ±1, drawn on the GPU."""
    torch.manual_seed(seed)
    X = torch.empty(n, d, dtype=dtype, device="cuda")
    for part in X.split(1_000_000):
        part.copy_(torch.randn(part.shape, device="cuda") / d**0.5)
    y = torch.where(torch.rand(n, device="cuda") < 0.5, 1.0, -1.0)
    return X, y, torch.randn(d, device="cuda")


def milliseconds(function, repeats: int = 12) -> float:
    """Median over `repeats`, by events on the GPU, after two warm-ups."""
    for _ in range(2):
        function()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        function()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return sorted(times)[repeats // 2]


def step(k, X, y, w, tile, per_processor):
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    return k.fused_counts(X, y, None, w, k.Slope(0), clip=0.2, intercept=1.0, tile=(*tile, per_processor), processors=processors)


def tiles(d: int):
    for entries, warps, stages in itertools.product(ENTRIES, WARPS, STAGES):
        rows = max(entries // d, 1)
        if rows * d // (32 * warps) in (4, 8, 16, 32, 64):
            yield rows, warps, stages


def compile_tiles(job) -> None:
    d, name = job
    k = kernels()
    X, y, w = data(64, d, TYPES[name])
    for tile in tiles(d):
        try:
            step(k, X, y, w, tile, 1)
        except Exception as error:
            print("does not compile:", d, name, tile, type(error).__name__, str(error)[:80])


def ceiling(d: int = 32) -> float:
    """GB/s of the fastest plain read: the sum of a tensor of 8 GB."""
    X = torch.randn(2_000_000_000, device="cuda")
    return X.nbytes / milliseconds(lambda: torch.sum(X)) / 1e6


def sweep(k, d: int, name: str, limit: float) -> dict:
    X, y, w = data(SHAPES[d], d, TYPES[name])
    reference, lines = None, []
    for tile, many in itertools.product(tiles(d), PER_PROCESSOR):
        run = functools.partial(step, k, X, y, w, tile, many)
        try:
            total, grid = run()
        except Exception:
            continue
        value = total.double() * grid
        reference = value if reference is None else reference
        error = float((value - reference).norm() / reference.norm())
        lines.append(((X.nbytes + y.nbytes) / milliseconds(run, 6) / 1e6, tile, many, error))
    lines.sort(reverse=True)
    for speed, tile, many, error in lines[:6]:
        print(f"d={d:4d} {name:8s} {speed:6.0f} GB/s {speed / limit:6.1%} tile {tile} per processor {many} error {error:.0e}")
    return {"d": d, "type": name, "tiles": lines}


def main(out: str | None) -> None:
    with multiprocessing.get_context("spawn").Pool(6) as pool:
        pool.map(compile_tiles, [(d, name) for d in SHAPES for name in TYPES], chunksize=1)
    k = kernels()
    limit = ceiling()
    print(f"read ceiling {limit:,.0f} GB/s on {torch.cuda.get_device_name()}")
    found = [sweep(k, d, name, limit) for d, name in itertools.product(SHAPES, TYPES)]
    if out:
        Path(out).write_text(json.dumps({"ceiling": limit, "found": found}))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
