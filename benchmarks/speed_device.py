"""The fused step on a GPU: share of the read bandwidth, agreement with float64, one changed row of 60 million, a 100-step fit.

    python benchmarks/speed_device.py results.json     # needs a CUDA GPU, torch, Triton and dperm's own dependencies

Every figure of docs/performance.md about GPUs comes from one run of this file.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from speed_device_tiles import SHAPES, TYPES, ceiling, data, milliseconds

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))


import dperm
from dperm.mechanisms import Gradient, Target
from dperm.problem import DataBounds, Interval, LogisticLoss, MultinomialLoss, Problem, Ridge
from dperm.release.noise import RELEASE_SLACK
from dperm.rows import DeviceRows, kernels, sum_step
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm
from problem_cases import losses as every_loss

CLIP = 0.2


def processors() -> int:
    return torch.cuda.get_device_properties(0).multi_processor_count


def fused(X, y, w, **options):
    return kernels.fused_counts(X, y, None, w, kernels.Slope(0), clip=CLIP, intercept=1.0, processors=processors(), **options)


def two_products(X, y, w):
    """The usual non-private step: X is read twice."""
    s = -y * torch.sigmoid(-y * (X @ w.to(X.dtype)).float())
    return X.T @ s.to(X.dtype)


def exact(loss, X, y, w, clip, intercept):
    """The clipped sum in float64, a million rows at a time."""
    total = 0
    size = max(2**27 // X.shape[1], 1)
    for start in range(0, X.shape[0], size):
        Z = X[start : start + size].double()
        if intercept:
            Z = torch.cat([Z, torch.full_like(Z[:, :1], intercept)], dim=1)
        s = loss.slope(Z @ w.double(), y[start : start + size].double())
        limit = clip / Z.norm(dim=1).clamp_min(1e-300)
        total = total + torch.minimum(torch.maximum(s, -limit), limit) @ Z
    return total


def bandwidth(limit: float) -> list[dict]:
    found = []
    for d, name in itertools.product(SHAPES, TYPES):
        X, y, w = data(SHAPES[d], d, TYPES[name])
        total, step = fused(X, y, w)
        expected = exact(LogisticLoss(), X, y, torch.cat([w, w.new_zeros(1)]), CLIP, 1.0)
        error = float((total.double() * step - expected).norm() / expected.norm())
        size = X.nbytes + y.nbytes
        speed = size / milliseconds(lambda X=X, y=y, w=w: fused(X, y, w), 25) / 1e6
        products = size / milliseconds(lambda X=X, y=y, w=w: two_products(X, y, w), 9) / 1e6
        found.append(
            {"d": d, "type": name, "n": SHAPES[d], "GB/s": speed, "share": speed / limit, "two products GB/s": products,
            "error": error}
        )
        print(f"d={d:4d} {name:8s} {speed:6.0f} GB/s {speed / limit:6.1%}; two products {products:5.0f} GB/s; error {error:.1e}")
        del X, y, w
    return found


def every_width_and_loss() -> dict:
    """Largest relative error against float64 over odd widths and over all scalar losses."""
    torch.manual_seed(1)
    widths, losses = {}, {}
    for d, name in itertools.product((1, 3, 31, 33, 100, 500, 1000, 2049, 4096), TYPES):
        X, y, w = data(100_003, d, TYPES[name], seed=d)
        total, step = fused(X, y, w)
        expected = exact(LogisticLoss(), X, y, torch.cat([w, w.new_zeros(1)]), CLIP, 1.0)
        widths[f"{d} {name}"] = float((total.double() * step - expected).norm() / expected.norm())
    for loss in filter(kernels.kernel_slope, every_loss()):
        X, y, w = data(100_003, 20, torch.float32, seed=2)
        y = y if loss.classification else y * torch.rand_like(y)
        rows = DeviceRows(X, y).bounded(DataBounds(50.0, Interval(-1, 1), 1.0))
        parameters = torch.cat([w, w.new_full((1,), 0.3)]) / 2
        term = GradientTerm(loss, parameters.double().cpu().numpy(), CLIP, Features(1.0))
        expected = exact(loss, X, y, parameters, CLIP, 1.0).cpu().numpy()
        got = rows.sum(term, sum_step(CLIP, rows.n))
        losses[repr(loss)] = float(np.linalg.norm(got - expected) / np.linalg.norm(expected))
    print(f"largest error over widths {max(widths.values()):.1e}, over losses {max(losses.values()):.1e}")
    return {"widths": widths, "losses": losses}


def one_changed_row() -> dict:
    """Rows among 60 million turn to their opposite: the computed sum moves by at most 1.001 of the sensitivity."""
    X, y, w = data(60_000_000, 32, torch.float32, seed=5)
    before, step = fused(X, y, w)
    moves = []
    for row in (0, 1, 31_415_926, 59_999_999):
        kept, label = X[row].clone(), y[row].clone()
        z = float(X[row] @ w)
        y[row] = -label
        # The largest move: the new row is minus the old one in its clipped gradient, with a slope that is clipped for sure.
        X[row] = -kept * 20 if z * float(label) < 0 else kept * 20
        moves.append(float((fused(X, y, w)[0] - before).double().norm()) * step / (2 * CLIP))
        X[row], y[row] = kept, label
    assert torch.equal(fused(X, y, w)[0], before), "the same rows must give the same bits"
    print("one changed row moves the sum by", [round(m, 6) for m in moves], "of its sensitivity")
    assert 0 < max(moves) <= RELEASE_SLACK
    return {"n": 60_000_000, "moves of the sensitivity": moves}


def attained() -> float:
    """Clipped gradients that turn around completely among 60 million rows: the move is the whole sensitivity."""
    X, y, w = data(60_000_000, 32, torch.float32, seed=6)
    X[7] = 10.0
    y[7], w = 1.0, w * 0
    total, step = kernels.fused_counts(X, y, None, w, kernels.Slope(0), clip=CLIP, processors=processors())
    y[7] = -1.0
    other, _ = kernels.fused_counts(X, y, None, w, kernels.Slope(0), clip=CLIP, processors=processors())
    moved = float((total - other).double().norm()) * step / (2 * CLIP)
    print(f"a full turn moves it by {moved:.7f}")
    assert 0.999 < moved <= RELEASE_SLACK
    return moved


def whole_fit() -> dict:
    """100 private steps on 60 million × 32: time on the GPU and on the clock, with certificate."""
    X, y, _ = data(60_000_000, 32, torch.float32, seed=7)
    y = torch.where(X[:, :8].sum(dim=1) > 0, 1.0, -1.0)
    problem = Problem(LogisticLoss(), Ridge(1.0), data=DataBounds(3.0, Interval(-1, 1), 1.0))
    target = Target.declare(epsilon=1.0, n=60_000_000)
    rows = DeviceRows(X, y)
    on_card = []
    plain = DeviceRows.sum

    def timed(self, term, step):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        value = plain(self, term, step)
        end.record()
        torch.cuda.synchronize()
        on_card.append(begin.elapsed_time(end))
        return value

    DeviceRows.sum = timed
    try:
        dperm.fit(problem, rows, target, Gradient(steps=2), random_state=0)
        on_card.clear()
        began = time.perf_counter()
        release = dperm.fit(problem, rows, target, Gradient(steps=100))
        wall = time.perf_counter() - began
    finally:
        DeviceRows.sum = plain
    w = torch.tensor(release.w, device="cuda", dtype=torch.float32)
    accuracy = float((torch.sign(X @ w[:32] + w[32]) == y).float().mean())
    checked = release.certificate.verify()
    print(f"100 steps of 60,000,000 x 32: {sum(on_card) / 1e3:.3f} s on the GPU, {wall:.2f} s in all, accuracy {accuracy:.4f}")
    return {"seconds on the GPU": sum(on_card) / 1e3, "seconds": wall, "accuracy": accuracy, "verified": bool(checked)}


def other_paths() -> dict:
    """Multinomial by products, float64, rows that stream from the host: agreement with each other and speed."""
    torch.manual_seed(3)
    X = torch.randn(8_000_000, 32) / 6
    y = torch.where(torch.rand(8_000_000) < 0.5, 1.0, -1.0)
    bounds = DataBounds(1.5, Interval(-1, 1), 1.0)
    term = GradientTerm(LogisticLoss(), np.linspace(-1, 1, 33), CLIP, Features(1.0))
    step = sum_step(CLIP, len(y))
    card = DeviceRows(X.cuda(), y.cuda()).bounded(bounds)
    host = DeviceRows(X, y, device="cuda").bounded(bounds)
    wide = DeviceRows(X[:1_000_000].double().cuda(), y[:1_000_000].cuda()).bounded(bounds)
    small = DeviceRows(X[:1_000_000].cuda(), y[:1_000_000].cuda()).bounded(bounds)
    first = card.sum(term, step)
    began = time.perf_counter()
    second = host.sum(term, step)
    seconds = time.perf_counter() - began
    gap = np.linalg.norm(small.sum(term, step) - wide.sum(term, step)) / np.linalg.norm(wide.sum(term, step))
    loss = MultinomialLoss(classes=4)
    classes = torch.randint(0, 4, (1_000_000,), device="cuda")
    many = DeviceRows(X[:1_000_000].cuda(), classes).bounded(DataBounds(1.5, Interval(0, 3), 1.0))
    w = np.linspace(-1, 1, 4 * 33)
    got = many.sum(GradientTerm(loss, w, CLIP, Features(1.0)), step)
    reference = dperm.MemoryRows(X[:1_000_000].numpy(), classes.cpu().numpy()).bounded(DataBounds(1.5, Interval(0, 3), 1.0))
    expected = reference.sum(GradientTerm(loss, w, CLIP, Features(1.0)), step)
    found = {
        "streamed equals resident, bits": bool(np.array_equal(first, second)),
        "streamed GB/s": X.nbytes / seconds / 1e9,
        "float32 kernel against float64 products": float(gap),
        "multinomial against memory": float(np.linalg.norm(got - expected) / np.linalg.norm(expected)),
    }
    print(found)
    return found


def flagship() -> dict:
    """Objective perturbation solved on the GPU: against the same fit in memory, and 20 million rows."""
    found = {}
    torch.manual_seed(4)
    X = torch.rand(20_000_000, 32, device="cuda") - 0.5
    y = torch.where(X[:, :8].sum(dim=1) + 0.5 * torch.randn(len(X), device="cuda") > 0, 1.0, -1.0)
    options = {"delta": 1e-9, "method": "objective", "x_norm": 3.0, "classes": [-1.0, 1.0], "random_state": 1}
    few = 200_000
    memory = dperm.LogisticRegression(1.0, **options).fit(X[:few].cpu().numpy(), y[:few].cpu().numpy())
    card = dperm.LogisticRegression(1.0, **options).fit(DeviceRows(X[:few], y[:few]))
    found["largest difference to memory"] = float(np.max(np.abs(memory.coef_ - card.coef_)))
    began = time.perf_counter()
    whole = dperm.LogisticRegression(1.0, **options | {"random_state": None}).fit(DeviceRows(X, y))
    found |= {"n": len(X), "d": 32, "seconds": time.perf_counter() - began, "verified": bool(whole.certificate_.verify())}
    print("objective perturbation:", found)
    return found


def other_library() -> dict:
    """The same sums on CuPy arrays."""
    try:
        import cupy
    except ImportError:
        return {"left out": "CuPy is not installed"}
    generator = np.random.default_rng(5)
    X = generator.uniform(-0.4, 0.4, (100_000, 8))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    term = GradientTerm(LogisticLoss(), np.linspace(-1, 1, 9), CLIP, Features(1.0))
    bounds, step = DataBounds(2.0, Interval(-1, 1), 1.0), sum_step(CLIP, len(y))
    memory = dperm.MemoryRows(X, y).bounded(bounds).sum(term, step)
    card = DeviceRows(cupy.asarray(X), cupy.asarray(y)).bounded(bounds).sum(term, step)
    options = {"delta": 1e-6, "x_norm": 2.0, "classes": [-1.0, 1.0], "random_state": 1}
    fits = []
    for rows in ((X, y), (DeviceRows(cupy.asarray(X), cupy.asarray(y)),)):
        fits.append(dperm.LogisticRegression(1.0, method="objective", **options).fit(*rows).coef_)
    found = {"cupy": cupy.__version__, "sum against memory": float(np.max(np.abs(card - memory)) / np.linalg.norm(memory)),
             "fit against memory": float(np.max(np.abs(fits[0] - fits[1])))}  # fmt: skip
    print(found)
    return found


def main(out: str) -> None:
    limit = ceiling()
    found = {
        "card": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": kernels.triton.__version__,
        "command": "python benchmarks/speed_device.py",
        "read ceiling GB/s": limit,
        "bandwidth": bandwidth(limit),
        "agreement": every_width_and_loss(),
        "one changed row": one_changed_row(),
        "full turn": attained(),
        "other paths": other_paths(),
        "fit": whole_fit(),
        "objective perturbation": flagship(),
        "another library": other_library(),
    }
    Path(out).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "device.json")
