"""Softmax gradients as sums of whole numbers: what one row adds, that it depends on nothing else, and the kernels beside it."""

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
from dperm.problem import DataBounds, Interval, MultinomialLoss
from dperm.rows import DeviceRows, MemoryRows, int8, sum_step
from dperm.terms import device
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm, SampledTerm

torch = pytest.importorskip("torch", reason="rows on a device need torch: pip install dperm[torch]")

K, D = 9, 40


def hostile(generator, n=400, d=D):
    """Rows on the edges of their grids: ties, single entries, many orders of magnitude, zeros, entries that are no numbers."""
    Z = generator.standard_normal((n, d))
    Z[:50] = generator.integers(-254, 255, (50, d)) / 2  # nearest steps are ties
    Z[50:90] = 127.0 * np.sign(generator.standard_normal((40, d)))  # every entry the largest
    Z[90:130] = 0.0
    Z[np.arange(90, 130), generator.integers(0, d, 40)] = 10.0 ** generator.uniform(-12, 12, 40)
    Z[130:200] *= 10.0 ** generator.uniform(-6, 6, (70, d))
    Z[200:210], Z[210, 3], Z[211, 4], Z[212] = 0.0, np.nan, np.inf, 1e-300
    return torch.from_numpy(Z)


def draw(generator, n=500, d=D, classes=K):
    X = torch.from_numpy(generator.standard_normal((n, d)) / math.sqrt(d) + 0.05)
    return X, torch.from_numpy(generator.integers(0, classes, n)), generator.standard_normal((classes, d)) * 2


def grid_of(X, intercept=0.0, limbs=2):
    return int8.Int8Rows.of([(0, X.clone())], len(X), intercept, limbs)


def left(grid, W, labels, weight, clip):
    """The whole numbers a, (K, rows), of the only slab."""
    slab, limbs = grid.slabs[0], grid.limbs
    theta = int8.Parameters.of(torch.from_numpy(W), slab.rows.shape[1], grid.intercept)
    digits = int8.residual_limbs(slab, theta, labels, weight, int8.full_length(limbs) / clip, limbs)
    return int8.joined(digits.long().reshape(limbs, len(W), -1))[:, : slab.count]


def right(grid):
    """(b, t) of the only slab as whole numbers, (rows, entries)."""
    columns = grid.slabs[0].columns.long()[:, : grid.slabs[0].count]
    return (columns if not grid.intercept else torch.cat([columns[: grid.d], int8.joined(columns[grid.d :])[None]])).T


@pytest.mark.parametrize("limbs", [2, 3])
@pytest.mark.parametrize("intercept", [0.0, 1.0])
@pytest.mark.parametrize("clip", [1e-6, 0.1, 30.0])
def test_no_row_adds_more_than_the_clip(limbs, intercept, clip, generator):
    """‖a‖²·‖(b, t)‖² ≤ L² in Python's integers, for rows on the edges of their grids, labels outside and weights of any size."""
    X = hostile(generator)
    n, full = len(X), int8.full_length(limbs)
    labels = torch.from_numpy(generator.integers(-2, K + 2, n))
    weight = torch.from_numpy(10.0 ** generator.uniform(-9, 9, n) * np.sign(generator.standard_normal(n)))
    grid = grid_of(X, intercept, limbs)
    shares = []
    for scale in (0.0, 1.0, 1e4):
        W = generator.standard_normal((K, D + (1 if intercept else 0))) * scale
        for given in (None, weight):
            for a, b in zip(left(grid, W, labels, given, clip).T.tolist(), right(grid).tolist()):
                square = sum(value * value for value in a) * sum(value * value for value in b)
                assert square <= full * full
                shares.append(math.sqrt(square) / full)
    assert max(shares) > 0.999  # the bound is reached


def test_the_bound_does_not_rest_on_the_rounding_of_floats(generator, monkeypatch):
    """With lengths computed far too small, rows fail the comparison of integers and add nothing."""
    X, y, W = draw(generator)
    grid = grid_of(X)
    whole = left(grid, W, y, None, 0.01)
    assert (whole.abs().amax(dim=0) > 0).all()
    monkeypatch.setattr(int8, "limits", lambda most, classes: most.double().sqrt().float() * 1.01)
    assert not left(grid, W, y, None, 0.01).any()


def test_one_row_moves_the_sum_by_what_it_adds_and_nothing_else(generator):
    X, y, W = draw(generator)
    full = int8.full_length(2)
    before = grid_of(X).counts(W, y, None, 0.05)
    turned = 0.0
    for row in (0, 17, 499):
        other, labels = X.clone(), y.clone()
        other[row], labels[row] = -50 * X[row], (y[row] + 1) % K
        moved = grid_of(other).counts(W, labels, None, 0.05) - before
        alone = [grid_of(Z[row : row + 1]).counts(W, z[row : row + 1], None, 0.05) for Z, z in ((other, labels), (X, y))]
        assert torch.equal(moved, alone[0] - alone[1])
        square = sum(value * value for value in moved.flatten().tolist())
        assert square <= (2 * full) ** 2
        turned = max(turned, math.sqrt(square) / (2 * full))
    assert turned > 0.5


def test_a_row_that_turns_around_moves_the_sum_by_the_whole_sensitivity(generator):
    """x and -x with the same label at θ = 0 add opposite gradients, both longer than the clip."""
    X, y, W = draw(generator)
    other = X.clone()
    other[3] = -X[3]
    moved = grid_of(other).counts(W * 0, y, None, 0.01) - grid_of(X).counts(W * 0, y, None, 0.01)
    share = math.sqrt(sum(value * value for value in moved.flatten().tolist())) / (2 * int8.full_length(2))
    assert 0.998 < share <= 1


@pytest.mark.parametrize("limbs", [2, 3])
def test_order_slabs_and_repetition_give_the_same_integers(limbs, generator, monkeypatch):
    X, y, W = draw(generator)
    weight = torch.from_numpy(generator.uniform(0, 2, len(X)))
    counts = grid_of(X, 0.0, limbs).counts(W, y, weight, 0.1)
    order = torch.from_numpy(generator.permutation(len(X)))
    assert torch.equal(counts, grid_of(X[order], 0.0, limbs).counts(W, y[order], weight[order], 0.1))
    assert torch.equal(counts, grid_of(X, 0.0, limbs).counts(W, y, weight, 0.1))
    monkeypatch.setattr(int8, "SLAB_ROWS", 128)
    cut = int8.Int8Rows.of([(start, X[start : start + 64].clone()) for start in range(0, 500, 64)], 500, 0.0, limbs)
    assert len(cut.slabs) == 4
    assert torch.equal(counts, cut.counts(W, y, weight, 0.1))


def clipped_sum(X, y, W, clip, intercept=0.0, weight=None):
    Z = torch.cat([X, torch.full_like(X[:, :1], intercept)], dim=1) if intercept else X
    residual = torch.softmax(Z @ torch.from_numpy(W).T, dim=1)
    residual[torch.arange(len(Z)), y] -= 1
    residual = residual if weight is None else residual * weight[:, None]
    length = residual.norm(dim=1) * Z.norm(dim=1)
    return (residual * (clip / length.clamp(min=clip))[:, None]).T @ Z


@pytest.mark.parametrize("limbs", [2, 3])
@pytest.mark.parametrize("intercept", [0.0, 1.0])
@pytest.mark.parametrize("clip", [0.05, 0.5, 5.0])
def test_the_sum_is_that_of_float64(limbs, intercept, clip, generator):
    """2,000 rows: errors of single rows are random, 1/√n of some percent, and far below 1e-3 of the clip in the mean."""
    X, y, W = draw(generator, 2000)
    W = np.column_stack([W, np.linspace(-1, 1, K)]) if intercept else W
    weight = torch.from_numpy(generator.uniform(0, 2, len(X)))
    grid = grid_of(X, intercept, limbs)
    got = grid.counts(W, y, weight, clip).double() * grid.unit(clip)
    expected = clipped_sum(X, y, W, clip, intercept, weight)
    assert float((got - expected).norm()) < 1e-3 * clip * len(X)
    assert float(expected.norm()) > 5e-3 * clip * len(X)


def test_a_row_with_one_large_entry_is_clipped_no_earlier(generator):
    X, y, W = draw(generator, 300)
    X[:, 5] = 30.0
    for limbs in (2, 3):
        grid = grid_of(X, 0.0, limbs)
        got = grid.counts(W * 0, y, None, 0.1).double() * grid.unit(0.1)
        assert float((got - clipped_sum(X, y, W * 0, 0.1)).norm()) < 3e-3 * 0.1 * 300


def test_limbs_are_digits_that_fit(generator):
    for limbs in (2, 3):
        most = int8.largest_factor(limbs)
        numbers = torch.from_numpy(np.append(generator.integers(-most, most + 1, 10_000), [most, -most, 0, 63, 64, -64, -65]))
        digits = int8.digits(numbers, limbs)
        assert int(digits.abs().max()) <= 127
        assert torch.equal(int8.joined(digits), numbers)
    assert int8.TOP**2 * int8.int8_kernels.MOST_ROWS < 2**31
    assert int8.MOST_CLASSES * int8.SLAB_ROWS < 2**31 and int8.MOST_CLASSES << 20 < 2**31


def test_parameters_that_are_no_numbers_add_nothing(generator):
    X, y, W = draw(generator)
    W[0, 0] = np.nan
    assert not grid_of(X).counts(W, y, None, 0.1).any()


# -- the engine ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def on_processor(monkeypatch):
    """The path of a GPU on CPU tensors."""
    plain = device._on_matrix_units

    def allowed(rows, term):
        return term.loss.name == "multinomial" and rows.d >= device.LEAST_EMBEDDING

    monkeypatch.setattr(device, "_on_matrix_units", allowed)
    return plain


@pytest.mark.parametrize("features", [Features(), Features(1.0), Features(0.5, np.full(130, 0.05), np.linspace(0.5, 3, 130))])
def test_a_device_sums_softmax_gradients_of_wide_rows_as_integers(features, generator, on_processor):
    X, y, _ = draw(generator, 900, 130)
    W = generator.standard_normal(K * features.width(130))
    weight = generator.uniform(0, 2, 900)
    bounds = DataBounds(2.0, Interval(0, K - 1), features.intercept)
    rows = DeviceRows(X, y, torch.from_numpy(weight), host=False).bounded(bounds)
    memory = MemoryRows(X.numpy(), y.numpy(), weight).bounded(bounds)
    term = GradientTerm(MultinomialLoss(K), W, 0.3, features)
    assert not on_processor(rows, term)  # tensors of the host keep their products in float64
    for asked in (term, SampledTerm(term, 0.5, 11, 4)):
        got, expected = rows.sum(asked, sum_step(0.3, 900)), memory.sum(asked, sum_step(0.3, 900))
        assert 0 < np.linalg.norm(got - expected) < 1e-3 * 0.3 * 900
        assert np.linalg.norm(expected) > 0.01 * 0.3 * 900
    assert set(rows.memory) == {"int8"}
    assert not rows._copy().memory


def test_labels_that_are_no_whole_numbers_have_no_class(generator, on_processor):
    X, y, _ = draw(generator, 100, 130)
    labels = y.double()
    labels[:50] += 0.5
    bounds = DataBounds(2.0, Interval(0, K))
    term = GradientTerm(MultinomialLoss(K), np.zeros(K * 130), 0.3, Features())
    got = DeviceRows(X, labels, host=False).bounded(bounds).sum(term, sum_step(0.3, 100))
    expected = MemoryRows(X.numpy(), labels.numpy()).bounded(bounds).sum(term, sum_step(0.3, 100))
    assert np.linalg.norm(got - expected) < 2e-3 * 0.3 * 100


def test_a_private_fit_on_that_path_is_the_fit_of_memory(generator, on_processor):
    X, y, _ = draw(generator, 2000, 130, 4)
    X[torch.arange(2000), y] += 0.5
    options = {"epsilon": 50.0, "x_norm": 2.0, "classes": [0, 1, 2, 3], "method": Gradient(steps=10), "random_state": 1}
    one = dperm.LogisticRegression(**options).fit(DeviceRows(X, y, host=False))
    other = dperm.LogisticRegression(**options).fit(X.numpy(), y.numpy())
    assert one.certificate_.verify(allow_seeded=True)
    assert 0 < np.linalg.norm(one.coef_ - other.coef_) < 0.01 * np.linalg.norm(other.coef_)


# -- the kernels, through Triton's interpreter ---------------------------------------------------------------------------------

KERNEL = """
import json
import numpy as np, torch
import triton.runtime.interpreter as interpreter
plain = interpreter._patch_lang_tensor
def patched(tensor, scope):  # newer NumPy turns only 0-dimensional arrays into numbers
    plain(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))
interpreter._patch_lang_tensor = patched
def fma(self, x, y, z):  # the interpreter's own rounds twice
    wide = x.data.astype(np.float64) * y.data + z.data
    return interpreter.TensorHandle(wide.astype(np.float32), z.dtype.scalar)
interpreter.InterpreterBuilder.create_fma = fma
from dperm.rows import int8, int8_kernels as kernels

generator = np.random.default_rng(5)
found = []
for classes, d, intercept, limbs, n in ((7, 150, 1.0, 2, 130), (5, 20, 0.0, 3, 130), (40, 20, 0.0, 2, 100)):
    X = generator.standard_normal((n, d)) / d**0.5 * generator.standard_normal((n, d)) ** 4
    labels = torch.from_numpy(generator.integers(-1, classes + 1, n).astype(np.int32))
    W = torch.from_numpy(generator.standard_normal((classes, d + (1 if intercept else 0))) * 3)
    slab = int8.Int8Rows.of([(0, torch.from_numpy(X))], n, intercept, limbs).slabs[0]
    labels = torch.nn.functional.pad(labels, (0, len(slab.size) - n), value=-1)
    theta = int8.Parameters.of(W, slab.rows.shape[1], intercept)
    expected = int8.octave_margins(slab, theta)
    octaves = kernels.octaves(theta.limbs, slab.rows, theta.step, slab.size, theta.bias)
    same = torch.equal(octaves[0], expected) and torch.equal(octaves[1], expected.amax(dim=0).float())
    for clip in (0.01,) if classes > 5 else (0.01, 1.0):
        factor, limit = slab.size * (int8.full_length(limbs) / clip), int8.limits(slab.most, classes)
        a = int8.left_factors(expected, labels, factor, slab.most, limit)
        digits = int8.digits(a, limbs).to(torch.int8).reshape(limbs * classes, -1)
        got = kernels.residual_limbs(octaves, labels, factor, slab.most, limit, int8.spare(classes), limbs)
        total = torch.full((limbs * classes, slab.columns.shape[0]), 3)
        reference = total.clone()
        kernels.add_products(total, digits, slab.columns)
        int8.add_products(reference, digits, slab.columns)
        # lengths far too small: the kernel's own comparison must leave nothing
        wrong = kernels.residual_limbs(octaves, labels, factor * 1e9, slab.most, limit * 1.01 + 1, int8.spare(classes), limbs)
        found.append([same, torch.equal(got, digits), torch.equal(total, reference), bool(wrong.any()), bool(got.any())])
print(json.dumps(found))
"""


def test_the_kernels_give_the_integers_of_the_reference():
    pytest.importorskip("triton", reason="the kernels need Triton: pip install triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", KERNEL], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert len(found) == 4
    for margins, residuals, sums, wrong, some in found:
        assert margins and residuals and sums and some and not wrong


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("limbs", [2, 3])
def test_a_gpu_gives_the_integers_of_the_processor(limbs, generator):
    X, y, W = draw(generator, 1500, 300, 50)
    weight = torch.from_numpy(generator.uniform(0, 2, len(X)))
    host = grid_of(X, 0.0, limbs).counts(W, y, weight, 0.1)
    assert torch.equal(host, grid_of(X.cuda(), 0.0, limbs).counts(W, y.cuda(), weight.cuda(), 0.1).cpu())
