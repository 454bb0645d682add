"""Private softmax heads on integer matrix units of a GPU: speed beside a plain loop, exactness, error against float64.

    python benchmarks/heads_device.py heads_device.json     # needs a CUDA GPU, torch, Triton and dperm's own dependencies

Every figure of docs/performance.md about softmax heads on a GPU comes from one run of this file.
"""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import dperm
from dperm.privacy import gaussian_mu
from dperm.release import driver
from dperm.rows import int8

ROWS, STEPS, CLIP = 1_281_024, 100, 0.3
SHAPES = ((2048, 1000), (4096, 10), (512, 100))
EPSILON, DELTA = 3.0, 5e-7


def data(d: int, K: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Embeddings of unit length in bfloat16: a class mean, noise with a decaying spectrum and an offset that all rows share."""
    torch.manual_seed(seed)
    spectrum = torch.arange(1, d + 1, device="cuda").float() ** -0.5
    means = torch.randn(K, d, device="cuda") * spectrum
    offset = 0.5 * torch.randn(d, device="cuda") * spectrum
    X, y = torch.empty(ROWS, d, dtype=torch.bfloat16, device="cuda"), torch.randint(0, K, (ROWS,), device="cuda")
    for part in torch.arange(ROWS, device="cuda").split(1 << 16):
        Z = means[y[part]] + 2 * torch.randn(len(part), d, device="cuda") * spectrum + offset
        X[part] = (Z / Z.norm(dim=1, keepdim=True) * 0.99).bfloat16()
    return X, y


def gridded(X: torch.Tensor, K: int) -> int8.Int8Rows:
    pieces = ((start, X[start : start + int8.PIECE_ROWS].double()) for start in range(0, len(X), int8.PIECE_ROWS))
    return int8.Int8Rows.of(pieces, len(X), 0.0, int8.limbs_for(K))


def seconds(loop) -> float:
    """Wall time of a loop of STEPS steps, after one of three."""
    loop(3)
    torch.cuda.synchronize()
    began = time.perf_counter()
    loop(STEPS)
    torch.cuda.synchronize()
    return time.perf_counter() - began


def plain_loop(X: torch.Tensor, y: torch.Tensor, K: int, steps: int) -> torch.Tensor:
    """Full-batch heavy ball without privacy: two bfloat16 products a step."""
    theta = torch.zeros(K, X.shape[1], device="cuda")
    velocity, every = torch.zeros_like(theta), torch.arange(len(y), device="cuda")
    for _ in range(steps):
        residual = torch.softmax(X @ theta.bfloat16().T, dim=1)
        residual[every, y] -= 1
        velocity = 0.9 * velocity + (residual.T @ X).float() / len(y)
        theta = theta - 10.0 * velocity
    return theta


def private_loop(grid: int8.Int8Rows, y: torch.Tensor, K: int, steps: int) -> torch.Tensor:
    """The same with clipped integer sums and noise of the right size, drawn on the GPU (a fit draws it on the host)."""
    theta = torch.zeros(K, grid.d, device="cuda", dtype=torch.float64)
    velocity = torch.zeros_like(theta)
    for _ in range(steps):
        total = grid.counts(theta, y, None, CLIP).double() * grid.unit(CLIP) + noise_scale() * torch.randn_like(theta)
        velocity = 0.9 * velocity + total / len(y)
        theta = theta - 10.0 * velocity
    return theta


def noise_scale() -> float:
    """Standard deviation of a step's noise under zero-out."""
    return CLIP * math.sqrt(STEPS) / gaussian_mu(EPSILON, DELTA)


def exact(X: torch.Tensor, y: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
    """The clipped sum in float64."""
    total = torch.zeros_like(theta)
    for start in range(0, len(X), 1 << 16):
        Z, labels = X[start : start + (1 << 16)].double(), y[start : start + (1 << 16)]
        residual = torch.softmax(Z @ theta.T, dim=1)
        residual[torch.arange(len(Z), device="cuda"), labels] -= 1
        length = residual.norm(dim=1) * Z.norm(dim=1)
        total += (residual * (CLIP / length.clamp(min=CLIP))[:, None]).T @ Z
    return total


def norm(counts: torch.Tensor) -> float:
    """The length of whole numbers, from their exact sum of squares."""
    return math.sqrt(sum(int(value) ** 2 for value in counts.flatten().tolist()))


def moves(X: torch.Tensor, y: torch.Tensor, theta: torch.Tensor, before: torch.Tensor) -> list[float]:
    """By how much of 2C the exact sum moves when one row is replaced by its opposite, with another label."""
    found = []
    for row in (0, 131_072, 700_001, ROWS - 1):
        kept, label = X[row].clone(), y[row].clone()
        X[row], y[row] = -kept, (label + 1) % len(theta)
        after = gridded(X, len(theta))
        found.append(norm(after.counts(theta, y, None, CLIP) - before) / (2 * int8.full_length(after.limbs)))
        X[row], y[row] = kept, label
    return found


def fit(X: torch.Tensor, y: torch.Tensor, K: int) -> dict:
    """A whole fit of 100 steps by the library itself: moments, directions, whitening, secure noise from the host, certificate.

    `plan` and `labels` are parts of it that no GPU takes; the last fit of three is also timed stage by stage.
    """
    model = dperm.EmbeddingClassifier(EPSILON, delta=DELTA, relation="zero-out", classes=range(K), steps=STEPS)
    found: dict = {}
    torch.cuda.reset_peak_memory_stats()
    for turn in (1, 2, 3):
        torch.cuda.synchronize()
        stages, began = [], time.perf_counter()
        plain = driver._Run.answer

        def answer(self, ask, plain=plain, stages=stages, began=began, last=turn == 3):
            value = plain(self, ask)
            if last and not isinstance(ask, driver.Sum):
                torch.cuda.synchronize()
            stages.append((type(ask).__name__, time.perf_counter() - began))
            return value

        driver._Run.answer = answer
        try:
            model.fit(X, y)
        finally:
            driver._Run.answer = plain
        found[f"seconds {turn}"] = time.perf_counter() - began
    found["until"] = {name: when for name, when in stages if name != "Sum"}  # the last of each kind
    found["first and last sum of the descent"] = [stages[-STEPS - 1][1], stages[-2][1]]
    found["verified"] = bool(model.certificate_.verify())
    found["accuracy"] = float(model.score(X[:20_000], y[:20_000].cpu().numpy()))
    found["peak GB"] = torch.cuda.max_memory_allocated() / 1e9
    return found


def measure(d: int, K: int) -> dict:
    torch.cuda.reset_peak_memory_stats()
    X, y = data(d, K)
    began = time.perf_counter()
    grid = gridded(X, K)
    torch.cuda.synchronize()
    found: dict = {"d": d, "K": K, "n": ROWS, "gridding seconds": time.perf_counter() - began}
    for turn in (1, 2):
        found[f"plain seconds {turn}"] = seconds(lambda steps: plain_loop(X, y, K, steps))
        found[f"private seconds {turn}"] = seconds(lambda steps, grid=grid: private_loop(grid, y, K, steps))
    found["ratio"] = min(found["private seconds 1"], found["private seconds 2"]) / min(
        found["plain seconds 1"], found["plain seconds 2"]
    )
    theta = private_loop(grid, y, K, 20)
    counts = grid.counts(theta, y, None, CLIP)
    found["same on ten runs"] = all(torch.equal(counts, grid.counts(theta, y, None, CLIP)) for _ in range(10))
    error = float((counts.double() * grid.unit(CLIP) - exact(X, y, theta)).norm())
    found["error of the clip"] = error / (ROWS * CLIP)
    found["error of the noise"] = error / (noise_scale() * math.sqrt(d * K))
    found["peak GB"] = torch.cuda.max_memory_allocated() / 1e9
    few = slice(0, 3000)
    host = int8.Int8Rows.of([(0, X[few].double().cpu())], 3000, 0.0, grid.limbs).counts(theta.cpu(), y[few].cpu(), None, CLIP)
    found["processor and GPU agree"] = torch.equal(host, gridded(X[few], K).counts(theta, y[few], None, CLIP).cpu())
    found["moves"] = moves(X, y, theta, counts)
    del grid
    order = torch.randperm(ROWS, device="cuda")
    found["same when permuted"] = torch.equal(counts, gridded(X[order], K).counts(theta, y[order], None, CLIP))
    print(json.dumps(found), flush=True)
    torch.cuda.empty_cache()
    found["fit"] = fit(X, y, K)
    plain = min(found["plain seconds 1"], found["plain seconds 2"])
    found["fit"]["ratio to the plain loop"] = min(found["fit"][f"seconds {turn}"] for turn in (1, 2, 3)) / plain
    print(json.dumps(found["fit"]), flush=True)
    return found


def main(out: str) -> None:
    name = torch.cuda.get_device_name()
    found = {"GPU": name, "torch": torch.__version__, "command": "python benchmarks/heads_device.py", "clip": CLIP}
    found |= {"numpy": np.__version__, "epsilon": EPSILON, "delta": DELTA, "shapes": [measure(d, K) for d, K in SHAPES]}
    Path(out).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "heads_device.json")
