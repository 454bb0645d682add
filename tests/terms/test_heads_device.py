"""Embeddings as tensors, on a GPU where there is one: moments with the bits of memory, bounds of every sum, fits as in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dperm import EmbeddingClassifier
from dperm.privacy import RELATIONS
from dperm.problem import DataBounds, Interval, MultinomialLoss
from dperm.rows.base import sum_step
from dperm.rows.embeddings import EmbeddingRows, EmbeddingTensors
from dperm.terms.affine import Features
from dperm.terms.gradient import GradientTerm
from dperm.terms.heads import MeanSquare, UnitMoments, Whitening

torch = pytest.importorskip("torch")
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
K, D = 3, 6


def odd_rows(count: int = 60, d: int = D, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of every size, some with cells that are no numbers."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, d)) * 10.0 ** rng.integers(-200, 200, (count, 1))
    rows[rng.random((count, d)) < 0.2] = 0.0
    rows[0], rows[1, 0], rows[2, 0], rows[3] = 0.0, np.nan, np.inf, 1e308
    rows[4:8] = np.eye(4, d)
    return rows, rng.integers(0, K, count)


def seen(rows: EmbeddingTensors, d: int = D) -> Any:
    X, y = odd_rows(500, d, seed=9)
    moments = EmbeddingTensors(X, y, device=rows.device).sum(UnitMoments(d), 1.0)
    return Whitening(moments, d, 100.0, K).of(rows)[0]


def host(value: Any) -> np.ndarray:
    return np.asarray(value.cpu() if hasattr(value, "cpu") else value, dtype=np.float64).reshape(-1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("d", [1, 5, 200])
def test_moments_have_the_bits_of_memory(device: str, d: int) -> None:
    """Three blocks of rows of every size; half of them take part."""
    X, y = odd_rows(20_000, max(d, 4))
    X = np.ascontiguousarray(X[:, :d])
    weight = (np.arange(len(y)) % 2).astype(np.float64)
    expected = EmbeddingRows(X, y, weight).sum(UnitMoments(d), 1.0)
    X.flags.writeable = False  # as a memory map that was opened to be read
    for rows in (X, torch.tensor(X).to(device)):
        found = EmbeddingTensors(rows, y, weight, device=device).sum(UnitMoments(d), 1.0)
        assert np.array_equal(host(found), expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("relation", RELATIONS)
def test_no_row_moves_a_sum_by_more_than_declared_and_some_come_near(device: str, relation: str) -> None:
    """A halved sensitivity would be exceeded."""
    X, y = odd_rows()
    theta = torch.from_numpy(50 * np.random.default_rng(1).normal(size=(K, D))).to(device)
    for term, near in (
        (UnitMoments(D), 1 - 1e-5),
        (MeanSquare(), 0.5),
        (GradientTerm(MultinomialLoss(K), theta.reshape(-1), 0.1, Features()), 0.85),
    ):
        alone = []
        for i in range(len(y)):
            rows: Any = EmbeddingTensors(X[[i]], y[[i]], device=device)
            alone.append(host((rows if isinstance(term, UnitMoments) else seen(rows)).sum(term, 1.0)))
        others = alone if relation == "replace-one" else [np.zeros_like(alone[0])]
        largest = max(float(np.linalg.norm(one - other)) for one in alone for other in others)
        assert near * term.sensitivity(relation) <= largest <= term.sensitivity(relation) * (1 + 1e-9)


@pytest.mark.parametrize("device", DEVICES)
def test_sums_do_not_know_the_order_of_rows_and_null_rows_add_nothing(device: str) -> None:
    X, y = odd_rows(9000)
    weight = (np.arange(9000) % 3 > 0).astype(np.float64)
    order = np.random.default_rng(3).permutation(9000)
    theta = torch.from_numpy(np.random.default_rng(4).normal(size=(K, D))).to(device)
    gradient = GradientTerm(MultinomialLoss(K), theta.reshape(-1), 0.05, Features())
    kept = weight > 0
    for term in (UnitMoments(D), MeanSquare(), gradient):
        sums = []
        for a, b, w in ((X, y, weight), (X[order], y[order], weight[order]), (X[kept], y[kept], None)):
            rows: Any = EmbeddingTensors(a, b, w, device=device)
            sums.append(host((rows if isinstance(term, UnitMoments) else seen(rows)).sum(term, 1.0)))
        assert np.array_equal(sums[0], sums[1]) and np.array_equal(sums[0], sums[2])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("d", "classes"), [(4096, 10), (512, 100), (2048, 1000)])
def test_a_gpu_gives_the_whole_numbers_of_a_processor(d: int, classes: int) -> None:
    """Seen through the same directions; whitened rows and their gradients agree in every bit."""
    from dperm.rows import int8
    from dperm.terms.heads_device import TensorDirections, WhiteTensors

    rng = np.random.default_rng(d)
    X, y = (rng.normal(size=(3000, d)) * np.arange(1, d + 1) ** -0.5).astype(np.float32), rng.integers(0, classes, 3000)
    steps = torch.round(torch.linalg.qr(torch.from_numpy(rng.normal(size=(d, d))))[0] * 2.0**26)
    scale, theta = torch.from_numpy(rng.uniform(0.2, 1, d)) * 2.0**-26, torch.from_numpy(5 * rng.normal(size=(classes, d)))
    found = []
    for device in ("cpu", "cuda"):
        rows = EmbeddingTensors(X, y, device=device)
        white = WhiteTensors(rows, TensorDirections(steps.to(device), scale.to(device)), int8.limbs_for(classes))
        found.append(white.grid.counts(theta.to(device), rows.y, None, 0.1).cpu())
    assert torch.equal(found[0], found[1])


def data(n: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    y = rng.integers(0, K, n)
    return (rng.normal(size=(n, 8)) + 3 * np.eye(K, 8)[y]).astype(np.float32), y


def model(**options: Any) -> EmbeddingClassifier:
    return EmbeddingClassifier(**({"epsilon": 3.0, "classes": range(K), "steps": 20, "random_state": 0} | options))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("relation", RELATIONS)
def test_a_fit_on_a_device_is_the_fit_in_memory_up_to_eight_bits(device: str, relation: str) -> None:
    """Seeded: the noise is the same, so that coefficients differ by the coarser rows alone."""
    X, y = data()
    options = {"relation": relation, "nominal_n": 2500 if relation == "add-remove" else None}
    there = model(device=device, **options).fit(torch.from_numpy(X).to(device), torch.from_numpy(y).to(device))
    here = model(**options).fit(X, y)
    assert np.abs(there.w_ - here.w_).max() < 0.02 * np.abs(here.w_).max()
    assert there.plan_.stages == here.plan_.stages and there.certificate_.verify(allow_seeded=True).ok
    assert there.score(X, y) == pytest.approx(here.score(X, y), abs=0.01)


def test_persons_and_unknown_labels_on_a_device() -> None:
    X, y = data(600)
    labels = np.where(np.arange(600) % 7 == 0, 99, y)
    owners = np.arange(600) // 3
    options = {"max_rows_per_person": 2}
    there, here = (model(device=place, **options).fit(X, labels, groups=owners) for place in ("cpu", None))
    assert there.certificate_.unit == "person" and np.abs(there.w_ - here.w_).max() < 0.05 * np.abs(here.w_).max()


def test_labels_that_are_no_classes_warn_about_nothing_and_keep_the_bound() -> None:
    X, _ = odd_rows()
    theta = torch.from_numpy(np.random.default_rng(1).normal(size=(K, D)))
    term = GradientTerm(MultinomialLoss(K), theta.reshape(-1), 0.1, Features())
    for odd in (np.nan, np.inf, 0.5, -3.0, 1e300):
        for i in range(len(X)):
            found = host(seen(EmbeddingTensors(X[[i]], np.array([odd]), device="cpu")).sum(term, 1.0))
            assert np.linalg.norm(found) <= 0.1 * (1 + 1e-9)


@pytest.mark.parametrize("weight", [0.0, 5e-324, 0.5, 1e300, -1.0, np.nan, np.inf])
def test_weights_of_any_size_warn_about_nothing_and_keep_every_bound(weight: float) -> None:
    """In memory and on a device, for labels of every kind: a weight may null a row, and never makes it more than one."""
    (X, _), rng = odd_rows(), np.random.default_rng(1)
    moments = EmbeddingRows(*odd_rows(500, seed=9)).sum(UnitMoments(D), 1.0)
    for i, label in enumerate(rng.choice([0.0, 2.0, 7.0, -3.0, 0.5, np.nan, 1e300], len(X))):
        theta, clip = 10.0 ** rng.integers(-2, 6) * rng.normal(size=K * D), 10.0 ** rng.integers(-6, 3)
        here = EmbeddingRows(X[[i]], [label], [weight]).bounded(DataBounds(1.0, Interval(0.0, K - 1.0)))
        there = EmbeddingTensors(X[[i]], [label], [weight], device="cpu")
        for rows, place in ((Whitening(moments, D, 100.0, K).of(here)[0], np.asarray), (seen(there), torch.from_numpy)):
            gradient = GradientTerm(MultinomialLoss(K), place(theta), clip, Features())
            for term, read in ((UnitMoments(D), here if rows.rows is here else there), (MeanSquare(), rows), (gradient, rows)):
                found = np.linalg.norm(host(read.sum(term, sum_step(term.row_bound, 1))))
                assert found <= term.sensitivity("zero-out") * (1 + 1e-9)


def test_no_rows_are_fitted_where_their_number_is_protected() -> None:
    X, y = data(8)
    found = model(relation="add-remove", nominal_n=500, device="cpu").fit(X[:0], y[:0])
    assert np.isfinite(found.w_).all()


def test_what_a_device_cannot_do_is_refused_by_name() -> None:
    X, y = data(40)
    with pytest.raises(ValueError, match="at most 2,047 classes on a GPU"):
        model(classes=range(3000), device="cpu").fit(X, y)
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="Expected a GPU"):
            model(device="cuda").fit(X, y)
    with pytest.raises(ValueError, match="a sum that last layers take"):
        EmbeddingTensors(X, y, device="cpu").sum(GradientTerm(MultinomialLoss(K), np.zeros(24), 1.0, Features()), 1.0)
