"""The fused kernel on a real GPU: what one row can add, whatever is in it; order, pieces and weights change no other row.

Without a GPU these tests are skipped; `test_rows_device.py` runs the same kernel through Triton's interpreter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dperm
from dperm.problem import DataBounds, Interval, LogisticLoss
from dperm.release.noise import RELEASE_SLACK
from dperm.rows import DeviceRows, kernels, sum_step
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm
from dperm.terms.statistics import WeightedGradientTerm
from problem_cases import losses

torch = pytest.importorskip("torch", reason="device rows need torch: pip install dperm[torch]")
pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
    pytest.mark.skipif(not kernels.AVAILABLE, reason="needs Triton"),
]

SCALAR = [loss for loss in losses() if loss.margins == 1 and kernels.kernel_slope(loss) is not None]
D, CLIP = 6, 0.2
ODD = (np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, 1e-30, 0.0, -0.0, 1.0)


def odd_rows(generator: np.random.Generator, count: int = 64) -> np.ndarray:
    """Rows of every size, with cells that are no numbers."""
    X = generator.standard_normal((count, D)) * 10.0 ** generator.integers(-30, 30, (count, 1))
    for i, cell in enumerate(ODD):
        X[i, i % D] = cell
        X[len(ODD) + i] = cell
    return X


def rows_of(X: np.ndarray, y: np.ndarray, weight: Any = None, kind: str = "float32") -> Any:
    with np.errstate(over="ignore"):
        X = X.astype(np.float32)
    tensors = [torch.from_numpy(X).to("cuda", getattr(torch, kind)), torch.from_numpy(np.asarray(y, dtype=np.float32)).cuda()]
    kept = None if weight is None else torch.from_numpy(np.asarray(weight, dtype=np.float32)).cuda()
    return DeviceRows(*tensors, kept).bounded(DataBounds(3.0, Interval(-1.0, 1.0), 1.0))


def only_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeviceRows, "_products", lambda *_: pytest.fail("the kernel did not take these rows"))


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("loss", SCALAR, ids=repr)
def test_no_row_adds_more_than_the_clip(loss: Any, kind: str, generator: Any, monkeypatch: Any) -> None:
    """Alone, without a weight and with odd ones, clipped with the weight and before it; some row comes near."""
    only_fused(monkeypatch)
    X = odd_rows(generator)
    y = np.where(generator.random(len(X)) < 0.5, -1.0, 1.0)
    w = 40 * generator.standard_normal(D + 1)
    weights = [None, np.resize([0.0, 1.0, 1e30, np.inf, -1.0, np.nan, 1e-30], len(X))]
    for most in (None, 0.5, 1.0, 3.0):
        plain = GradientTerm(loss, w, CLIP, Features(1.0))
        term: Any = plain if most is None else WeightedGradientTerm(loss, w, CLIP, Features(1.0), most)
        for weight in weights:
            kept = [None] * len(X) if weight is None else weight[:, None]
            lengths = [
                np.linalg.norm(rows_of(X[i : i + 1], y[i : i + 1], kept[i], kind).sum(term, sum_step(CLIP, 1)))
                for i in range(len(X))
            ]
            assert max(lengths) <= term.sensitivity("zero-out") * RELEASE_SLACK
            if most is None and weight is None:
                assert max(lengths) >= CLIP * (1 - 1e-3)


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_one_row_changes_what_it_adds_and_nothing_else(kind: str, generator: Any, monkeypatch: Any) -> None:
    """Sums of a whole table and of the table without one row differ by the row alone, in every bit; so do permuted rows."""
    only_fused(monkeypatch)
    n = 30_000
    X, y = generator.standard_normal((n, D)), np.where(generator.random(n) < 0.5, -1.0, 1.0)
    X[:64] = odd_rows(generator)
    term = GradientTerm(LogisticLoss(), generator.standard_normal(D + 1), CLIP, Features(1.0))
    step = sum_step(CLIP, n)
    whole = rows_of(X, y, kind=kind).sum(term, step)
    order = generator.permutation(n)
    assert rows_of(X[order], y[order], kind=kind).sum(term, step).tobytes() == whole.tobytes()
    for i in range(0, 64, 7):
        others = np.arange(n) != i
        alone = rows_of(X[i : i + 1], y[i : i + 1], kind=kind).sum(term, step)
        assert np.array_equal(rows_of(X[others], y[others], kind=kind).sum(term, step) + alone, whole)


def test_a_row_without_a_weight_counts_for_the_largest_declared_weight(generator: Any, monkeypatch: Any) -> None:
    """The sum is half of that with weights of 1, up to the grid of one row."""
    only_fused(monkeypatch)
    X, y = generator.standard_normal((1000, D)), np.ones(1000)
    w = generator.standard_normal(D + 1)
    half = WeightedGradientTerm(LogisticLoss(), w, CLIP, Features(1.0), 0.5)
    whole = WeightedGradientTerm(LogisticLoss(), w, CLIP, Features(1.0), 1.0)
    step = sum_step(CLIP, 1000)
    expected = rows_of(X, y).sum(whole, step) / 2
    for weight in (None, np.ones(1000), np.full(1000, 7.0)):
        np.testing.assert_allclose(rows_of(X, y, weight).sum(half, step), expected, rtol=0, atol=1000 * CLIP * 2.0**-20)
    assert np.linalg.norm(expected) > 1


@pytest.mark.parametrize("relation", ["replace-one", "zero-out"])
@pytest.mark.parametrize("method", ["auto", "gradient", "objective", "output", "newton"])
def test_a_fit_on_a_gpu_is_a_fit_in_memory(method: str, relation: str, generator: Any) -> None:
    """The same seed: coefficients agree up to the grids of the kernel, and the record verifies."""
    X = generator.uniform(-0.5, 0.5, (20_000, D)).astype(np.float32)
    y = np.where(X[:, 0] + 0.3 * generator.standard_normal(len(X)) > 0, 1.0, -1.0)
    options = {"delta": 1e-6, "method": method, "x_norm": 1.5, "classes": [-1.0, 1.0], "random_state": 5, "relation": relation}
    memory = dperm.LogisticRegression(1.0, **options).fit(X, y)
    device = dperm.LogisticRegression(1.0, **options).fit(DeviceRows(torch.from_numpy(X).cuda(), torch.from_numpy(y).cuda()))
    np.testing.assert_allclose(device.coef_, memory.coef_, rtol=0, atol=2e-2 * np.linalg.norm(memory.coef_))
    assert device.certificate_.verify(allow_seeded=True)
