"""Rows on a device: the products on any array library, and the fused kernel through Triton's interpreter."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest

import dperm
from dperm.mechanisms import Gradient
from dperm.problem import CustomLoss, DataBounds, Interval, LogisticLoss, LossBounds, MultinomialLoss, ScaledLoss, SquaredLoss
from dperm.release.noise import RELEASE_SLACK
from dperm.rows import BLOCK_ROWS, DeviceRows, MemoryRows, sum_step
from dperm.rows.kernels import LOSS_CODES, ROWS_PER_FLUSH, excess, kernel_slope, kernel_step, tile_sizes
from dperm.terms.affine import Features
from dperm.terms.device import _within_float32
from dperm.terms.gradient import GradientTerm, SampledTerm, UnclippedGradientTerm
from dperm.terms.objective import HessianProductTerm, MinimiserTerm, WeightedRows
from dperm.terms.statistics import RowSum, WeightedGradientTerm
from problem_cases import losses

torch = pytest.importorskip("torch", reason="device rows need torch: pip install dperm[torch]")

SCALAR = [loss for loss in losses() if loss.margins == 1]
SCALAR.append(ScaledLoss(SquaredLoss(), 2.0))
N, D = BLOCK_ROWS + 100, 5
MAPPED = Features(0.0, np.linspace(-1, 1, D), np.linspace(0.5, 3, D))


def draw(loss, generator, n=N, d=D):
    X = generator.standard_normal((n, d)) / 3
    y = generator.uniform(-1, 1, n)
    if loss.margins > 1:
        return X, generator.integers(0, loss.margins, n), Interval(0, loss.margins - 1)
    return X, np.sign(y) if loss.classification else y, Interval(-1, 1)


def grid_error(n, longest):
    """n rows on the grids of rows in memory, at worst; on the device products are taken in float64."""
    return n * 2.0**-19 * longest


def both(term, X, y, bounds, weight=None, dtype="float64"):
    """(sum in memory, sum on the device) of the same rows."""
    X = X.astype(dtype)
    step = sum_step(term.row_bound, len(y))
    tensor = torch.from_numpy(X)
    tensors = tensor, torch.from_numpy(np.asarray(y)), None if weight is None else torch.from_numpy(weight)
    memory = MemoryRows(X, y, weight).bounded(bounds).sum(term, step)
    assert DeviceRows(*tensors).bounded(bounds).sum(term, step).tobytes() == memory.tobytes()
    return memory, DeviceRows(*tensors, host=False).bounded(bounds).sum(term, step)


@pytest.mark.parametrize("loss", [*SCALAR, MultinomialLoss(classes=3)], ids=repr)
@pytest.mark.parametrize("features", [Features(1.0), MAPPED], ids=["plain", "mapped"])
def test_products_equal_memory_for_every_loss(loss, features, generator):
    X, y, labels = draw(loss, generator)
    w = generator.standard_normal(loss.margins * features.width(D)) / 2
    term = GradientTerm(loss, w, 0.4, features)
    memory, device = both(term, X, y, DataBounds(1.0, labels, features.intercept))
    np.testing.assert_allclose(device, memory, rtol=0, atol=grid_error(N, term.clip))


@pytest.mark.parametrize("loss", [LogisticLoss(), SquaredLoss(), MultinomialLoss(classes=3)], ids=repr)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("features", [Features(1.0), MAPPED], ids=["intercept", "mapped"])
def test_gradients_and_hessians_of_a_minimiser_equal_memory(loss, weighted, features, generator):
    X, y, labels = draw(loss, generator)
    weight = generator.uniform(0, 3, N) if weighted else None
    bounds = DataBounds(1.0, labels, features.intercept)
    public = WeightedRows(loss, features, row_radius=0.6, row_cap=0.9, slope=2.0, curvature=1.0, max_weight=1.5)
    w, direction = (generator.standard_normal(loss.margins * features.width(D)) for _ in range(2))
    for term in (MinimiserTerm(public, w, False), MinimiserTerm(public, w, True), HessianProductTerm(public, w, direction)):
        memory, device = both(term, X, y, bounds, weight)
        np.testing.assert_allclose(device, memory, rtol=1e-10, atol=1e-8)
        assert np.linalg.norm(memory) > 1


def test_the_flagship_is_solved_where_the_rows_are(generator, monkeypatch):
    """Objective perturbation on tensors: no block of rows comes to the host, and the answer is that of rows in memory."""
    X = generator.uniform(-0.5, 0.5, (3 * BLOCK_ROWS, 4))
    y = np.where(X[:, 0] + 0.3 * generator.standard_normal(len(X)) > 0, 1.0, -1.0)
    options = {"delta": 1e-6, "method": "objective", "x_norm": 1.0, "classes": [-1.0, 1.0], "random_state": 5}
    memory = dperm.LogisticRegression(1.0, **options).fit(X, y)
    monkeypatch.setattr(DeviceRows, "host_blocks", lambda self: pytest.fail("rows went to the host"))
    device = dperm.LogisticRegression(1.0, **options).fit(DeviceRows(torch.from_numpy(X), torch.from_numpy(y), host=False))
    np.testing.assert_allclose(device.coef_, memory.coef_, rtol=0, atol=1e-8)
    assert np.linalg.norm(memory.coef_) > 1


def test_weights_samples_and_unclipped_terms(generator):
    X, y, labels = draw(LogisticLoss(), generator)
    weight = generator.integers(0, 3, N).astype(float)
    bounds = DataBounds(1.0, labels, 1.0)
    plain = GradientTerm(LogisticLoss(), np.linspace(-1, 1, D + 1), 0.3, Features(1.0))
    heavy = WeightedGradientTerm(LogisticLoss(), np.linspace(-1, 1, D + 1), 0.3, Features(1.0), max_weight=1.5)
    free = UnclippedGradientTerm(SquaredLoss(), np.linspace(-9, 9, D + 1), 0.3, Features(1.0))
    for term in (plain, heavy, free, SampledTerm(plain, 0.3, 11, 4), SampledTerm(heavy, 0.3, 11, 4)):
        memory, device = both(term, X, y, bounds, weight)
        longest = 20.0 if term is free else 1.5 * 0.3
        np.testing.assert_allclose(device, memory, rtol=0, atol=grid_error(N, longest))
        assert np.linalg.norm(memory) > 1


def test_terms_that_are_no_gradients_run_on_host_blocks_with_the_same_bits(generator):
    X, y, labels = draw(LogisticLoss(), generator)
    memory, device = both(RowSum(0.5), X, y, DataBounds(1.0, labels))
    assert memory.tobytes() == device.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rows_outside_the_bounds_are_clipped_on_the_device(dtype, generator):
    X = torch.from_numpy(generator.standard_normal((300, 40))).to(getattr(torch, dtype))
    X[0, 0], X[1, 1], X[2] = torch.nan, torch.inf, 1e-3
    bounds = DataBounds(2.0, Interval(-1, 1))
    before = X.clone()
    clipped = DeviceRows(X, torch.ones(300), host=False).bounded(bounds).X
    assert torch.equal(X.isnan(), before.isnan())
    assert float(clipped.double().norm(dim=1).max()) <= 2.0
    assert torch.equal(clipped[2], X[2])
    norms = clipped[3:].double().norm(dim=1)
    assert float(norms.min()) > 1.9  # rows of norm about 6 are scaled to the bound, not far below it
    inside = torch.ones(10, 4) / 4
    assert DeviceRows(inside, torch.ones(10), host=False).bounded(bounds).X is inside


def test_declared_encoding_is_the_rule_of_memory(generator):
    X = generator.uniform(-3, 12, (400, 3))
    X[5, 1], X[6, 2] = np.nan, np.inf
    y = np.where(X[:, 0] > 5, "yes", "no")
    y[::7] = "else"
    codes = np.select([y == "no", y == "yes"], [0, 1], 9)
    options = {"epsilon": 3.0, "bounds": (0, 10), "x_norm": 12.0, "classes": [0, 1]}
    options |= {"method": Gradient(steps=5), "random_state": 1}
    memory = dperm.LogisticRegression(**options).fit(X, codes)
    tensors = torch.from_numpy(X), torch.from_numpy(codes)
    for arguments in (tensors, (DeviceRows(*tensors, host=False),)):
        device = dperm.LogisticRegression(**options).fit(*arguments)
        np.testing.assert_allclose(device.coef_, memory.coef_, atol=1e-6)
        assert device.certificate_.verify(allow_seeded=True)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_private_bounds_are_found_as_in_memory(kind, generator):
    """Columns without declared bounds go through the same public scale; without it every cell above 1/2 was one value."""
    X = torch.from_numpy(generator.normal((50.0, -2.0, 0.1), (20.0, 1.0, 3.0), (20_000, 3))).to(kind)
    X[3, 0], X[4, 1] = np.nan, np.inf
    y = (X[:, 0] + X[:, 1] > 48).to(torch.int64)
    options = {"epsilon": 8.0, "delta": 1e-6, "bounds": "private", "classes": [0, 1], "random_state": 1}
    memory = dperm.LogisticRegression(**options).fit(X.numpy(), y.numpy())
    for arguments in ((X, y), (DeviceRows(X, y, host=False),)):
        device = dperm.LogisticRegression(**options).fit(*arguments)
        np.testing.assert_allclose(device.coef_, memory.coef_, rtol=1e-3, atol=1e-5)
        assert device.score(X.numpy(), y.numpy()) > 0.9 and device.certificate_.verify(allow_seeded=True)


def test_given_weights_stay_under_a_rule(generator):
    X, y, _ = draw(LogisticLoss(), generator)
    weight = generator.integers(0, 3, N).astype(float)
    rows = DeviceRows(torch.from_numpy(X), torch.from_numpy(y), torch.from_numpy(weight))
    assert rows.labelled(lambda y: (y, np.full(len(y), 0.5))).weight.tolist() == (weight / 2).tolist()
    assert rows.labelled(lambda y: (y, None)).weight.tolist() == weight.tolist()
    assert DeviceRows(torch.from_numpy(X), torch.from_numpy(y)).labelled(lambda y: (y, None)).weight is None


def test_bad_arrays_are_named():
    with pytest.raises(ValueError, match="two dimensions"):
        DeviceRows(torch.zeros(3), torch.zeros(3))
    with pytest.raises(ValueError, match="as many labels"):
        DeviceRows(torch.zeros(3, 2), torch.zeros(2))
    with pytest.raises(ValueError, match="at least one row"):
        dperm.LinearRegression(1.0, bounds=(0, 1), y_bounds=(0, 1)).fit(DeviceRows(torch.zeros(0, 2), torch.zeros(0)))


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("method", ["auto", "gradient", "statistics", dperm.Gradient(steps=2, sampling_rate=0.5)])
@pytest.mark.parametrize("host", [True, False])
def test_no_rows_are_fitted_where_n_is_protected(kind, method, host):
    """One row and none are neighbours under add-remove: an error would tell them apart."""
    options = {"bounds": (0, 1), "y_bounds": (0, 1), "relation": "add-remove", "nominal_n": 100, "random_state": 0}
    for rows in (0, 1):
        X, y = torch.full((rows, 2), 0.5, dtype=kind), torch.full((rows,), 0.5, dtype=kind)
        device = dperm.LinearRegression(1.0, method=method, **options).fit(DeviceRows(X, y, host=host))
        memory = dperm.LinearRegression(1.0, method=method, **options).fit(X.numpy(), y.numpy())
        np.testing.assert_allclose(device.coef_, memory.coef_, atol=1e-4)


def test_a_GPU_without_room_is_named(monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("dperm.rows.device.clipped_rows", full)
    with pytest.raises(ValueError, match="room on the GPU"):
        DeviceRows(torch.ones(4, 2), torch.ones(4), host=False).bounded(DataBounds(1.0, Interval(-1, 1)))


# -- the kernel -------------------------------------------------------------------------------------------------------------


def test_every_scalar_loss_has_a_kernel_slope():
    """zero-one has no slope to descend by; every other scalar loss of the package must be in the kernel's list."""
    assert [loss.name for loss in SCALAR if kernel_slope(loss) is None] == ["zero-one"]
    assert kernel_slope(MultinomialLoss(classes=3)) is None
    used = {kernel_slope(loss).code for loss in SCALAR if kernel_slope(loss)}
    assert used == set(LOSS_CODES.values())


@pytest.mark.parametrize("clip", [0.01, 0.5, 1.0, 3.0, 1e4])
def test_grid_leaves_room_in_32_bits_and_keeps_the_slack(clip):
    step = kernel_step(clip)
    assert 2**20 < clip / step <= 2**21
    assert clip / step * ROWS_PER_FLUSH < 2**31
    for d in (1, 100, 4096):
        assert np.sqrt(d + 1) * step / 2 < excess(d) * clip < (RELEASE_SLACK - 1) / 4 * clip


def test_a_kernel_takes_no_clip_that_a_row_of_zeros_would_carry_beyond_float32(generator):
    """The kernel divides the clip by at least 1e-15: an infinite slope that is not clipped would be any integer."""
    X, y, labels = draw(LogisticLoss(), generator, n=10)
    rows = DeviceRows(torch.from_numpy(X), torch.from_numpy(y), host=False).bounded(DataBounds(1.0, labels))
    for clip, fits in ((0.2, True), (9e19, True), (1e24, False), (1e-26, False)):
        assert _within_float32(rows, GradientTerm(LogisticLoss(), np.ones(D), clip, Features())) is fits
        assert not fits or np.isfinite(np.float32(clip) / np.sqrt(np.float32(1e-30)))


def test_tiles_cover_every_width():
    for width in 2 ** np.arange(4, 13):
        for size in (2, 4):
            rows, warps, stages, programs = tile_sizes(int(width), size)
            assert rows >= 1 and rows & (rows - 1) == 0 and warps & (warps - 1) == 0 and stages and programs


KERNEL = """
import json, sys
import numpy as np, torch
import triton.runtime.interpreter as interpreter
plain = interpreter._patch_lang_tensor
def patched(tensor, scope):  # newer NumPy turns only 0-dimensional arrays into numbers
    plain(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))
interpreter._patch_lang_tensor = patched
from problem_cases import losses
from dperm.problem import ScaledLoss, SquaredLoss, LogisticLoss
from dperm.rows.kernels import fused_counts, kernel_slope

generator = np.random.default_rng(3)
def reference(loss, X, y, w, clip, bias, intercept, weight=None, after=None):
    Z = np.column_stack([X, np.full(len(X), intercept)]) if intercept else X
    s = np.asarray(loss.slope(X @ w + bias, y), dtype=np.float64)
    if weight is not None and after is None: s = s * weight
    limit = clip / np.maximum(np.linalg.norm(Z, axis=1), 1e-300)
    s = np.clip(s, -limit, limit)
    if weight is not None and after is not None: s = s * weight
    return s @ Z
found = {"errors": {}, "moves": [], "width": {}}
SCALAR = [loss for loss in losses() if loss.margins == 1] + [ScaledLoss(SquaredLoss(), 2.0)]
for loss in SCALAR:
    slope = kernel_slope(loss)
    if slope is None: continue
    X = generator.standard_normal((300, 7)).astype(np.float32) / 3
    y = generator.uniform(-1, 1, 300).astype(np.float32)
    y = np.sign(y) if loss.classification else y
    w = generator.standard_normal(7).astype(np.float32)
    tensors = torch.from_numpy(X), torch.from_numpy(y), None, torch.from_numpy(w)
    total, step = fused_counts(*tensors, slope, clip=0.4, bias=0.25, intercept=1.0)
    expected = reference(loss, X.astype(float), y.astype(float), w.astype(float), 0.4, 0.25, 1.0)
    found["errors"][repr(loss)] = float(np.abs(total.numpy() * step - expected).max())
loss, slope = LogisticLoss(), kernel_slope(LogisticLoss())
for d in (1, 16, 33, 200):  # widths beside powers of two, with map, weights and bfloat16
    for kind in ("float32", "bfloat16"):
        X = torch.from_numpy(generator.standard_normal((130, d))).to(getattr(torch, kind))
        y = torch.from_numpy(np.sign(generator.standard_normal(130)).astype(np.float32))
        w = torch.from_numpy(generator.standard_normal(d).astype(np.float32)) / d**0.5
        scale, offset = torch.rand(d) + 0.5, torch.rand(d)
        weight = torch.from_numpy(generator.integers(0, 2, 130).astype(np.float32)) * 1.5
        for after in (False, True):
            options = dict(clip=0.4, scale=scale, offset=offset, weight_after_clip=after, heaviest=1.5)
            total, step = fused_counts(X, y, weight, w, slope, **options)
            Z = (X.double() * scale + offset).numpy()
            labels, coefficients, weights = (t.double().numpy() for t in (y, w, weight))
            expected = reference(loss, Z, labels, coefficients, 0.4, 0.0, 0.0, weights, after or None)
            found["width"][f"{d} {kind} {after}"] = float(np.abs(total.numpy() * step - expected).max())
# neighbours: the changed row's gradient turns from one clipped vector to the opposite one
for trial in range(20):
    d, clip = int(generator.integers(1, 60)), float(generator.uniform(0.05, 3))
    X = generator.standard_normal((100, d)).astype(np.float32) * 10.0 ** generator.uniform(-2, 2)
    y = np.ones(100, dtype=np.float32)
    w = np.zeros(d, dtype=np.float32)
    one = fused_counts(torch.from_numpy(X), torch.from_numpy(y), None, torch.from_numpy(w), slope, clip=clip)
    row = int(generator.integers(100))
    y[row] = -1
    other = fused_counts(torch.from_numpy(X), torch.from_numpy(y), None, torch.from_numpy(w), slope, clip=clip)
    moved = np.linalg.norm((one[0] - other[0]).numpy() * one[1])
    found["moves"].append([float(moved / (2 * clip)), float(0.5 * np.linalg.norm(X[row].astype(float)) / clip)])
# a row that is not a number adds nothing; several pieces add into one total
X = torch.ones(40, 3); w = torch.full((3,), float("nan"))
found["nan"] = fused_counts(X, torch.ones(40), None, w, slope, clip=1.0)[0].tolist()
w = torch.ones(3)
whole = fused_counts(X, torch.ones(40), None, w, slope, clip=1.0)[0]
part = fused_counts(X[:13], torch.ones(13), None, w, slope, clip=1.0)[0]
found["pieces"] = torch.equal(whole, fused_counts(X[13:], torch.ones(27), None, w, slope, clip=1.0, total=part)[0])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def kernel():
    pytest.importorskip("triton", reason="the fused kernel needs Triton: pip install triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", KERNEL], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_kernel_equals_the_slope_of_every_loss(kernel):
    """300 rows, each rounded to 2⁻²¹ of the clip and computed in float32."""
    assert len(kernel["errors"]) == len(SCALAR) - 1
    assert max(kernel["errors"].values()) < 1e-4


def test_kernel_takes_any_width_map_weight_and_bfloat16(kernel):
    assert len(kernel["width"]) == 16
    assert max(kernel["width"].values()) < 1e-4


def test_kernel_moves_by_at_most_the_sensitivity_and_attains_it(kernel):
    """Clipped gradients turn around completely; gradients below the clip move by their own length."""
    for moved, unclipped in kernel["moves"]:
        assert moved <= 1 + 1e-4
        assert moved == pytest.approx(min(1.0, unclipped), rel=1e-3)
    assert any(unclipped > 1 for _, unclipped in kernel["moves"])


def test_kernel_ignores_nan_and_adds_pieces(kernel):
    assert kernel["nan"] == [0, 0, 0]
    assert kernel["pieces"]


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_a_loss_that_overflows_on_a_row_changes_what_that_row_adds(odd, generator):
    """The sum of its block was no number, and 8,191 other rows added nothing."""

    def slope(z, y):
        found = (z - y) / (1 + (z - y) ** 2) ** 0.5
        found[y == 0.625] = odd
        return found

    def value(z, y):
        return (1 + (z - y) ** 2) ** 0.5 - 1

    def curvature(z, y):
        return (1 + (z - y) ** 2) ** -1.5

    loss = CustomLoss(value, slope, curvature, LossBounds(math.inf, 1.0, 1.0), label="mine")
    X, y, labels = draw(LogisticLoss(), generator, 300)
    y = 0.9 * y
    w = np.linspace(-1, 1, D)
    for kind in (GradientTerm(loss, w, 0.3, Features()), WeightedGradientTerm(loss, w, 0.3, Features(), max_weight=1.0)):
        before = both(kind, X, y, DataBounds(1.0, labels))[1]
        other = y.copy()
        other[5] = 0.625
        with np.errstate(all="ignore"):
            memory, device = both(kind, X, other, DataBounds(1.0, labels))
        assert np.linalg.norm(before) > 1 and np.linalg.norm(device - before) <= 2 * 0.3 * RELEASE_SLACK
        if math.isnan(odd):
            np.testing.assert_allclose(device, memory, rtol=0, atol=grid_error(300, 0.3))


def test_a_curvature_that_is_no_number_adds_nothing_to_a_minimiser(generator):
    def curvature(z, y):
        found = (1 + (z - y) ** 2) ** -1.5
        found[y == 0.625] = np.nan
        return found

    def slope(z, y):
        return (z - y) / (1 + (z - y) ** 2) ** 0.5

    loss = CustomLoss(lambda z, y: (1 + (z - y) ** 2) ** 0.5 - 1, slope, curvature, LossBounds(math.inf, 1.0, 1.0), label="mine")
    X, y, labels = draw(LogisticLoss(), generator, 300)
    y = 0.9 * y
    y[5] = 0.625
    public = WeightedRows(loss, Features(), row_radius=1.0, row_cap=1.0, slope=1.0, curvature=1.0, max_weight=1.0)
    w = np.linspace(-1, 1, D)
    for term in (MinimiserTerm(public, w, True), HessianProductTerm(public, w, w)):
        memory, device = both(term, X, y, DataBounds(1.0, labels))
        np.testing.assert_allclose(device, memory, rtol=1e-10, atol=1e-8)
        assert np.linalg.norm(device) > 1


def test_a_label_outside_the_classes_changes_its_own_block_only(generator):
    """Weights that are all 1 must not be dropped: one row's label would choose the precision of every other row."""
    n = 8 * BLOCK_ROWS
    X = torch.from_numpy(generator.uniform(0.3, 0.57, (n, 3)).astype(np.float32))
    term = GradientTerm(LogisticLoss(), np.array([0.3, -0.2, 0.1, 0.4]), 0.5, Features(1.0))

    def rule(labels):
        return np.ones(len(labels)), (np.asarray(labels) == 1).astype(np.float64), None

    def moved(count):
        """What row 5 changes among the first `count` rows when its label is none of the classes."""
        known = torch.ones(count, dtype=torch.float64)
        unknown = known.clone()
        unknown[5] = 7.0
        rows = [DeviceRows(X[:count], y).labelled(rule).bounded(DataBounds(1.0, Interval(-1, 1), 1.0)) for y in (known, unknown)]
        return rows[0].sum(term, sum_step(0.5, n)) - rows[1].sum(term, sum_step(0.5, n))

    assert moved(n).tolist() == moved(BLOCK_ROWS).tolist()
