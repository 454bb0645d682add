"""The two-layer network: closed-form and vmap gradients agree, terms keep their bounds, certificates bind, and what it learns."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import dperm
from alterations import unnoticed
from dperm import MLPClassifier
from dperm.cli import app
from dperm.estimators.model_file import load_model
from dperm.estimators.saving import model_record
from dperm.mechanisms import Network
from dperm.privacy import Gaussian, Sampled, gaussian_mu, kappa
from dperm.rows.base import Block
from dperm.terms.moments import smat
from dperm.terms.network import Inputs, Layout, NetworkGradient, RowMap, SecondMoments
from dperm.walk.certificate import coefficient_hash


def rings(n: int = 3000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three classes by angle and radius: no linear rule gets above about .6."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 4))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int) + (np.abs(X[:, 2]) > 0.7)


def model(**options: object) -> MLPClassifier:
    chosen: dict[str, object] = {"bounds": (-1, 1), "classes": [0, 1, 2], "hidden": 8, "steps": 40, "random_state": 0}
    return MLPClassifier(8.0, **(chosen | options))


def gradient(kind: type = NetworkGradient, centred: bool = True, clip: float = 0.5) -> NetworkGradient:
    rng = np.random.default_rng(1)
    layout = Layout(3, 5, 4)
    return kind(Inputs(RowMap(centred, 2.0), rng.normal(size=(6, 3)), 4.0), layout, rng.normal(size=layout.size), clip)


def block(n: int = 50, weight: np.ndarray | None = None) -> Block:
    rng = np.random.default_rng(2)
    return Block(rng.normal(size=(n, 6)), rng.integers(0, 4, n), weight, 0)


@pytest.mark.parametrize("clip", [100.0, 0.5])
def test_closed_form_equals_the_gradient(clip: float) -> None:
    """Against numerical differentiation (no clip), and against a sum of single clipped rows."""
    term, rows = gradient(clip=clip), block()
    if clip == 0.5:
        single = [np.asarray(term(Block(rows.X[[i]], rows.y[[i]], None, 0))) for i in range(50)]
        assert np.allclose(term(rows), np.sum(single, axis=0), atol=1e-5)
        assert max(np.linalg.norm(g) for g in single) == pytest.approx(0.5, rel=1e-5)
        return

    def loss(w: np.ndarray) -> float:
        scores = term.layout.scores(w, term.inputs.of(rows.X).astype(np.float64))
        top = scores.max(axis=1)
        total = np.log(np.exp(scores - top[:, None]).sum(axis=1)) + top - scores[np.arange(50), rows.y]
        return float(total.sum())

    found = np.asarray(term(rows))
    for j in range(0, term.layout.size, 7):
        shift = np.zeros(term.layout.size)
        shift[j] = 1e-5
        assert found[j] == pytest.approx((loss(term.w + shift) - loss(term.w - shift)) / 2e-5, abs=1e-3)


def by_vmap(term: NetworkGradient, rows: Block) -> np.ndarray:
    """The sum of the clipped gradients of rows that take part, each formed by automatic differentiation."""
    import torch

    k, h, K = term.layout.inputs, term.layout.hidden, term.layout.classes

    def loss(w, z, y):
        W1, b1, W2, b2 = torch.split(w, (k * h, h, h * K, K))
        scores = torch.tanh(z @ W1.reshape(k, h) + b1) @ W2.reshape(h, K) + b2
        return torch.nn.functional.cross_entropy(scores[None], y[None])

    here = np.flatnonzero(rows.weight)
    inputs = torch.as_tensor(term.inputs.of(rows.X)[here].astype(np.float64))
    labels = torch.as_tensor(np.asarray(rows.y, dtype=np.int64)[here])
    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(torch.as_tensor(term.w), inputs, labels)
    return (torch.clamp(term.clip / each.norm(dim=1), max=1.0)[:, None] * each).sum(dim=0).numpy()


def test_vmap_gives_the_same_sum() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed: per-row gradients by vmap are not checked")
    sampled = (np.arange(50) % 3 > 0).astype(float)
    for clip, weight in itertools.product((0.2, 100.0), (sampled, np.ones(50), np.eye(50)[7])):
        term, rows = gradient(clip=clip), block(weight=weight)
        grid = 50 * 2.0**-19 * clip  # 50 rows on the grids of the closed form
        assert np.allclose(term(rows), by_vmap(term, rows), rtol=1e-4, atol=1e-4 + grid)
    assert not np.any(gradient()(block(weight=np.zeros(50))))


def test_a_sample_has_the_bits_of_its_rows_alone() -> None:
    sampled, whole = np.flatnonzero(np.arange(50) % 7 == 2), block()
    alone = Block(whole.X[sampled], whole.y[sampled], None, 0)
    joined = block(weight=(np.arange(50) % 7 == 2).astype(float))
    assert np.array_equal(gradient()(joined), gradient()(alone))


@pytest.mark.parametrize("relation", ["replace-one", "zero-out"])
@pytest.mark.parametrize("centred", [True, False])
def test_terms_move_no_more_than_they_say(relation: str, centred: bool) -> None:
    """Hostile rows, the declared radius broken only where the walk would have clipped it before."""
    rng = np.random.default_rng(3)
    terms = [gradient(centred=centred), SecondMoments(RowMap(centred, 2.0))]
    farthest = [0.0, 0.0]
    for _ in range(300):
        X = rng.normal(size=(2, 6)) * 10.0 ** rng.uniform(-3, 3, (2, 1))
        X *= np.minimum(1.0, 2.0 / np.linalg.norm(X, axis=1, keepdims=True))
        y, weight = rng.integers(0, 4, 2), np.array([1.0, 0.0 if relation == "zero-out" else 1.0])
        for place, term in enumerate(terms):
            one, other = (np.asarray(term(Block(X[[i]], y[[i]], weight[[i]], 0))) for i in (0, 1))
            farthest[place] = max(farthest[place], float(np.linalg.norm(one - other)))
    for moved, term in zip(farthest, terms):
        assert moved <= term.sensitivity(relation) * (1 + 1e-9)
    assert farthest[1] > (0.99 if kappa(relation) == 1 else 1.3)  # a smaller constant than 1 or √2 would fail


def test_moments_in_isometric_form() -> None:
    rows = block()
    mapped = RowMap(True, 2.0)(rows.X)
    assert np.allclose(mapped.sum(axis=1), 0) and np.allclose(np.linalg.norm(mapped, axis=1), 1, atol=1e-5)
    vector = SecondMoments(RowMap(True, 2.0))(rows)
    assert np.allclose(smat(vector, 6), mapped.T @ mapped, atol=50 * 2.0**-19)
    assert np.linalg.norm(vector) == pytest.approx(np.linalg.norm(mapped.T @ mapped), rel=1e-5)
    assert not np.any(RowMap(True, 2.0)(np.ones((1, 6))))  # a row without spread


@pytest.mark.parametrize("relation", ["replace-one", "zero-out", "add-remove"])
def test_learns_and_certifies(relation: str) -> None:
    X, y = rings()
    fitted = model(steps=150, relation=relation, nominal_n=3000 if relation == "add-remove" else None).fit(X, y)
    assert fitted.score(X, y) > 0.6
    assert fitted.predict_proba(X).sum(axis=1) == pytest.approx(1)
    assert np.array_equal(fitted.predict(X), fitted.classes_[fitted.predict_proba(X).argmax(axis=1)])
    assert fitted.certificate_.verify(allow_seeded=True).ok
    mu = math.sqrt(sum(event.gdp() ** 2 for event in fitted.plan_.events))
    assert fitted.plan_.guarantee.spec()["mu"] == pytest.approx(mu)


def test_certificate_notices_every_change() -> None:
    X, y = rings(300)
    fitted = model(components=2, hidden=2, steps=3).fit(X, y)
    assert not unnoticed(fitted.certificate_, ("noise.seed",))


def test_sampled_descent() -> None:
    X, y = rings()
    fitted = model(sampling_rate=0.1, steps=60).fit(X, y)
    event = fitted.plan_.stage("descent").event
    assert isinstance(event, Sampled) and event.rate == 0.1 and event.event.count == 60
    assert 7.9 < fitted.certificate_.record["guarantee"]["composed_epsilon"] <= 8.0
    # amplification: without sampling the same noise would cost far more than the whole budget
    assert Gaussian(event.event.mu, 60).gdp() > 1.5 * gaussian_mu(8.0, fitted.certificate_.delta)
    assert fitted.score(X, y) > 0.45 and fitted.certificate_.verify(allow_seeded=True).ok
    with pytest.raises(ValueError, match="absent, and a replaced row is neither"):
        model(sampling_rate=0.1, relation="replace-one").fit(X, y)


def test_sampling_needs_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    X, y = rings(200)
    for rate in (0.1, None):
        assert model(sampling_rate=rate, steps=2).fit(X, y).certificate_.verify(allow_seeded=True).ok


def test_like_columns_are_told_by_declaration() -> None:
    rng = np.random.default_rng(4)
    X, y = rng.uniform(0, 255, (200, 40)), rng.integers(0, 2, 200)
    options = {"classes": [0, 1], "steps": 2}
    assert model(bounds=(0, 255), **options).fit(X, y).plan_.options["centred_rows"] is True
    assert model(bounds=([0] * 40, [255] * 39 + [256]), **options).fit(X, y).plan_.options["centred_rows"] is False
    assert model(bounds=(0, 255), centred_rows=False, **options).fit(X, y).plan_.options["centred_rows"] is False
    with pytest.raises(ValueError, match="not convex"):
        model(method="objective").fit(X, y)
    with pytest.raises(ValueError, match="class_weight"):
        model(class_weight={0: 2.0}).fit(X, y)
    with pytest.raises(ValueError, match="hidden"):
        Network(hidden=0)


def test_digits(shared_data: Path) -> None:
    """A third of the images and half of the steps, to be quick; docs/theorems/network.md has the full numbers (.939 at ε = 1)."""
    data = np.load(shared_data / "mnist.npz")
    X, Z = (data[name].reshape(len(data[name]), -1).astype(np.float32) for name in ("X_train", "X_test"))
    fitted = MLPClassifier(3.0, 1e-6, bounds=(0, 255), classes=range(10), steps=100, random_state=0)
    assert fitted.fit(X[:20000], data["y_train"][:20000]).score(Z, data["y_test"]) > 0.9
    assert fitted.plan_.options["centred_rows"] is True and fitted.certificate_.verify(allow_seeded=True).ok


def test_a_network_survives_json(tmp_path: Path) -> None:
    """The same answers, bit by bit, from a file of JSON numbers; the certificate's hash is that of the file's weights."""
    X, y = rings(400)
    fitted = model(steps=5).fit(X, y)
    (tmp_path / "model.json").write_text(json.dumps(model_record(fitted), allow_nan=False))
    again = load_model(tmp_path / "model.json")
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert again.predict(X).tolist() == fitted.predict(X).tolist()
    assert [part.shape for part in again.coefs_] == [part.shape for part in fitted.coefs_]
    assert coefficient_hash(again.w_) == fitted.certificate_.record["coefficients"]["sha256"]


def test_the_command_fits_saves_verifies_and_predicts_with_a_network(tmp_path: Path) -> None:
    X, y = rings(400)
    spec = {"columns": {f"x{j}": {"type": "numeric", "low": -1, "high": 1} for j in range(4)}}
    spec["target"] = {"column": "y", "type": "classes", "classes": ["0", "1", "2"]}
    (tmp_path / "s.json").write_text(json.dumps(spec))
    head = ",".join([*spec["columns"], "y"])
    np.savetxt(tmp_path / "d.csv", np.column_stack([X, y]), delimiter=",", header=head, comments="", fmt=["%.6f"] * 4 + ["%d"])
    run = CliRunner().invoke
    out = tmp_path / "m"
    asked = ["fit", str(tmp_path / "d.csv"), "--schema", str(tmp_path / "s.json"), "--epsilon", "8", "--model", "mlp"]
    assert run(app, [*asked, "--out", str(out)]).exit_code == 0
    assert run(app, ["verify", str(out / "certificate.json"), "--model", str(out / "model.json")]).exit_code == 0
    found = run(app, ["predict", str(out / "model.json"), str(tmp_path / "d.csv"), "--json"])
    assert len(json.loads(found.output)["predictions"]) == 400
    assert "no coefficient per column" in (out / "report.md").read_text()


def test_sample_weights_are_refused_with_advice_that_helps() -> None:
    X = np.zeros((50, 2))
    with pytest.raises(ValueError, match=r"no sample_weight= for a network.*leave it out"):
        dperm.MLPClassifier(1.0, bounds=(-1, 1), classes=[0, 1], max_weight=1.0).fit(X, np.zeros(50), sample_weight=np.ones(50))
