"""Accuracy of peers on the same splits and the same public encoding, each in its own environment; resumable.

    python benchmarks/accuracy_peers.py                                    # everything, 5 seeds
    python benchmarks/accuracy_peers.py --sets adult --methods opacus-default --seeds 1
    python benchmarks/accuracy_peers.py --until 600                        # stop after so many seconds; the next call goes on

Environments are made under benchmarks/.envs on first use: diffprivlib (needs scikit-learn < 1.7) and Opacus (torch==2.13.0, CPU).
Rows travel as .npz files of encoded features, so that every method sees the same rows: numeric columns in [-1/2, 1/2] for
ours and AdaSSP, in [0, 1] for diffprivlib and Opacus, whose oracle settings were searched with that scaling.

    non-private          scikit-learn LogisticRegression(C=10), or least squares clipped to the declared label range
    dperm-pure           our estimators with delta=0 (zero-out)
    diffprivlib          LogisticRegression, LinearRegression with the declared norm and bounds, else defaults (pure, replace-one)
    diffprivlib-oracle   the scaling and C that were best on the test set (pure, replace-one)
    opacus-default       batch 512, 5 epochs, learning rate 0.1, clip 1 (add-remove, δ = 1e-6)
    opacus-oracle        batch, epochs, learning rate and clip that were best on the test set out of 72–144 settings (the same)
    ebm, ebm-oracle      DP-EBM (interpret) with its defaults, and the best of 32 settings on the test set; accuracy_ebm.py
                         keeps its scores (AUROC, log-loss, accuracy, R²) in a file of its own
    adassp, adassp-gdp   AdaSSP as in the paper, and with exact Gaussian accounting (add-remove, δ = 1e-6)

An oracle is tuned on the test set, so nobody has it honestly: it is the bar, not a competitor.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE / ".envs"
RESULTS = HERE / "results" / "accuracy_peers.json"
DELTA = 1e-6
EPSILONS = (0.1, 0.5, 1.0, 3.0, 8.0)
CLASSIFICATION = ("adult", "bank_full", "covertype_92k", "w8a", "kddcup99_10pct")
REGRESSION = ("california_housing", "diamonds", "beijing_pm25", "power_plant_ccpp", "protein_casp")
# (batch, epochs, learning rate, clip) at ε = 0.1, 0.5, 1, 3
OPACUS = {
    "adult": ((1024, 10, 8.0, 0.3), (1024, 60, 8.0, 0.3), (1024, 60, 2.0, 1.0), (1024, 60, 2.0, 1.0)),
    "covertype_92k": ((1024, 60, 8.0, 0.3), (4096, 120, 4.0, 1.0), (1024, 120, 1.0, 1.0), (1024, 120, 8.0, 0.3)),
    "bank_full": ((4096, 60, 8.0, 0.3), (1024, 60, 8.0, 0.3), (1024, 60, 8.0, 0.1), (1024, 60, 8.0, 1.0)),
    "w8a": ((4096, 60, 8.0, 0.3), (1024, 60, 2.0, 1.0), (1024, 60, 8.0, 1.0), (1024, 60, 8.0, 1.0)),
    "kddcup99_10pct": ((16384, 60, 0.1, 0.3),) * 4,
    "california_housing": ((1024, 60, 0.5, 0.3), (1024, 60, 0.5, 1.0), (1024, 60, 0.5, 1.0), (1024, 60, 0.5, 1.0)),
    "diamonds": ((1024, 120, 2.0, 0.1), (1024, 120, 0.2, 1.0), (1024, 120, 0.2, 3.0), (1024, 120, 0.2, 3.0)),
    "beijing_pm25": ((1024, 20, 0.5, 0.3), (1024, 60, 0.1, 1.0), (1024, 60, 0.1, 1.0), (1024, 60, 0.1, 1.0)),
    "power_plant_ccpp": ((1024, 60, 0.5, 0.1), (1024, 60, 0.5, 0.3), (1024, 60, 0.5, 0.3), (1024, 60, 0.5, 0.3)),
    "protein_casp": ((1024, 60, 0.2, 3.0), (1024, 120, 0.2, 3.0), (1024, 120, 0.2, 3.0), (1024, 120, 0.2, 3.0)),
}
# (rows scaled to unit length?, C) at ε = 0.1, 0.5, 1, 3, 8
DIFFPRIVLIB = {
    "adult": ((True, 0.01), (True, 0.1), (True, 0.1), (True, 1.0), (True, 1.0)),
    "covertype_92k": ((True, 0.03), (True, 0.1), (True, 1.0), (False, 1.0), (False, 1.0)),
    "bank_full": ((True, 0.003), (True, 0.1), (True, 0.1), (True, 0.1), (True, 1.0)),
    "w8a": ((True, 0.001), (True, 0.01), (True, 0.03), (True, 0.1), (True, 1.0)),
    "kddcup99_10pct": ((True, 0.003), (True, 0.1), (True, 0.003), (True, 1.0), (True, 1.0)),
}
PACKAGES = {
    "diffprivlib": ["diffprivlib", "scikit-learn<1.7"],
    "opacus": ["torch==2.13.0", "opacus", "scikit-learn"],
    "interpret": ["interpret-core==0.7.8"],
}


# -- data, in our environment ------------------------------------------------------------------------------------------


def export(name: str) -> Path:
    """Encoded rows, labels (±1 or numbers in [-1, 1]) and public bounds, written once."""
    file = ENVIRONMENTS / "data" / f"{name}.npz"
    if file.exists():
        return file
    sys.path.insert(0, str(HERE))
    import accuracy_ours

    schema, train, test, y, truth = accuracy_ours.load(name)
    encoding = schema.encoding()
    parts = {}
    for side, table, labels in (("train", train, y), ("test", test, truth)):
        rows = schema.encoded(table)
        parts[f"X_{side}"] = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float32)
        if name in CLASSIFICATION:
            parts[f"y_{side}"] = np.where(labels == str(schema.target.classes[1]), 1.0, -1.0)
        else:
            low, high = schema.target.low, schema.target.high
            parts[f"y_{side}"] = (np.clip(labels, low, high) - (low + high) / 2) / ((high - low) / 2)
    numeric = np.array([kind == "numeric" for kind in encoding.kinds])
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(file, norm=encoding.norm, low=np.where(numeric, -0.5, 0.0), high=np.where(numeric, 0.5, 1.0), **parts)
    return file


def on_unit_interval(data: dict) -> dict:
    """Numeric columns in [0, 1] instead of [-1/2, 1/2]: the scaling the peers' settings were searched with."""
    numeric = data["low"] < 0
    norm = math.sqrt(float(data["norm"]) ** 2 + 0.75 * int(numeric.sum()))
    moved = {side: data[side] + np.float32(0.5) * numeric.astype(np.float32) for side in ("X_train", "X_test")}
    return data | moved | {"norm": norm, "low": np.zeros_like(data["low"]), "high": np.ones_like(data["high"])}


def interpreter(name: str) -> str:
    """The Python of a peer's environment, made on first use."""
    folder = ENVIRONMENTS / name
    if not (folder / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *PACKAGES[name]], check=True)
    return str(folder / "bin" / "python")


# -- one cell, in any environment --------------------------------------------------------------------------------------


def cell(method: str, name: str, epsilon: float, seed: int, data) -> float:
    """Test accuracy or R² of one fit."""
    if name in CLASSIFICATION:
        scores = CLASSIFIERS[method](data, name, epsilon, seed)
        return float(np.mean(np.where(scores > 0, 1.0, -1.0) == data["y_test"]))
    predicted = np.clip(REGRESSORS[method](data, name, epsilon, seed), -1, 1)
    return float(1 - np.mean((predicted - data["y_test"]) ** 2) / np.var(data["y_test"]))


def with_bias(X, value=1.0):
    return np.column_stack([X, np.full(len(X), value, dtype=X.dtype)])


def plain_classifier(data, name, epsilon, seed):
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=10.0, max_iter=3000).fit(data["X_train"], data["y_train"]).decision_function(data["X_test"])


def plain_regressor(data, name, epsilon, seed):
    w = np.linalg.lstsq(with_bias(data["X_train"].astype(float)), data["y_train"], rcond=None)[0]
    return with_bias(data["X_test"].astype(float)) @ w


def ours_pure(data, name, epsilon, seed):
    import dperm

    options = {"delta": 0.0, "relation": "zero-out", "x_norm": float(data["norm"]), "random_state": seed}
    if name in CLASSIFICATION:
        model = dperm.LinearSVC(epsilon, classes=[-1.0, 1.0], **options).fit(data["X_train"], data["y_train"])
        return model.decision_function(data["X_test"])
    model = dperm.LinearRegression(epsilon, y_bounds=(-1, 1), **options).fit(data["X_train"], data["y_train"])
    return model.predict(data["X_test"])


def diffprivlib_classifier(data, name, epsilon, seed, unit=False, C=1.0):
    from diffprivlib.models import LogisticRegression

    X, Z, norm = data["X_train"].astype(float), data["X_test"].astype(float), float(data["norm"])
    if unit:
        X, Z = (M / np.maximum(np.linalg.norm(M, axis=1, keepdims=True), 1e-12) for M in (X, Z))
        norm = 1.0
    elif C != 1.0 or unit is None:
        X, Z, norm = X / norm, Z / norm, 1.0
    model = LogisticRegression(
        epsilon=epsilon, data_norm=math.hypot(norm, 1.0), C=C, fit_intercept=False, random_state=seed, max_iter=1000
    )
    model.fit(with_bias(X), data["y_train"])
    return model.decision_function(with_bias(Z))


def diffprivlib_oracle(data, name, epsilon, seed):
    unit, C = DIFFPRIVLIB[name][EPSILONS.index(epsilon)]
    return diffprivlib_classifier(data, name, epsilon, seed, unit=unit or None, C=C)


def diffprivlib_regressor(data, name, epsilon, seed):
    from diffprivlib.models import LinearRegression

    bounds = (data["low"], data["high"])
    model = LinearRegression(epsilon=epsilon, bounds_X=bounds, bounds_y=(-1, 1), random_state=seed)
    return model.fit(data["X_train"].astype(float), data["y_train"]).predict(data["X_test"].astype(float))


def opacus(data, name, epsilon, seed, settings):
    """Poisson-sampled DP-SGD on a linear model, with Opacus' per-sample gradients, optimizer and accountant."""
    import torch
    from opacus import GradSampleModule
    from opacus.accountants.utils import get_noise_multiplier
    from opacus.optimizers import DPOptimizer

    batch, epochs, rate, clip = settings
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    X, y, Z = (torch.as_tensor(data[k].astype(np.float32)) for k in ("X_train", "y_train", "X_test"))
    sample, steps = batch / len(X), math.ceil(len(X) / batch)
    noise = noise_multiplier(get_noise_multiplier, epsilon, sample, epochs)
    model = torch.nn.Linear(X.shape[1], 1)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    model = GradSampleModule(model)
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=rate), noise_multiplier=noise, max_grad_norm=clip, expected_batch_size=batch
    )
    classes = name in CLASSIFICATION
    for _ in range(epochs * steps):
        chosen = torch.rand(len(X)) < sample
        optimizer.zero_grad()
        scores = model(X[chosen])[:, 0]
        if classes:
            loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, (y[chosen] > 0).float())
        else:
            loss = torch.nn.functional.mse_loss(scores, y[chosen])
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return model(Z)[:, 0].numpy()


_NOISE: dict = {}


def noise_multiplier(solve, epsilon, sample, epochs):
    key = (epsilon, sample, epochs)
    if key not in _NOISE:
        _NOISE[key] = solve(target_epsilon=epsilon, target_delta=DELTA, sample_rate=sample, epochs=epochs, accountant="prv")
    return _NOISE[key]


def opacus_default(data, name, epsilon, seed):
    return opacus(data, name, epsilon, seed, (512, 5, 0.1, 1.0))


def opacus_oracle(data, name, epsilon, seed):
    return opacus(data, name, epsilon, seed, OPACUS[name][EPSILONS.index(epsilon)])


def adassp(data, name, epsilon, seed, exact=False):
    """AdaSSP on rows of norm R with a bias column and labels in [-1, 1]."""
    rng = np.random.default_rng(seed)
    X, y, Z = with_bias(data["X_train"].astype(float)), data["y_train"], with_bias(data["X_test"].astype(float))
    p, R = X.shape[1], math.hypot(float(data["norm"]), 1.0)
    if exact:
        from dperm.privacy import gaussian_mu

        scale = math.sqrt(3) / gaussian_mu(epsilon, DELTA)
        extra = scale * R**2 * (math.sqrt(2 * p) + math.sqrt(2 * math.log(2 / 0.05)))
        shift = scale * R**2 * 1.959963985
    else:
        log = math.log(6 / DELTA)
        scale = math.sqrt(log) / (epsilon / 3)
        extra = math.sqrt(p * log * math.log(2 * p**2 / 0.05)) * R**2 / (epsilon / 3)
        shift = log * R**2 / (epsilon / 3)
    A, c = X.T @ X, X.T @ y
    smallest = max(0.0, float(np.linalg.eigvalsh(A)[0]) + scale * R**2 * rng.normal() - shift)
    ridge = max(0.0, extra - smallest)
    noise = rng.normal(size=(p, p)) / math.sqrt(2)
    noise = np.triu(noise, 1) + np.triu(noise, 1).T + np.diag(rng.normal(size=p))
    w = np.linalg.solve(A + scale * R**2 * noise + ridge * np.eye(p), c + scale * R * rng.normal(size=p))
    return Z @ w


CLASSIFIERS = {
    "non-private": plain_classifier,
    "dperm-pure": ours_pure,
    "diffprivlib": diffprivlib_classifier,
    "diffprivlib-oracle": diffprivlib_oracle,
    "opacus-default": opacus_default,
    "opacus-oracle": opacus_oracle,
}
REGRESSORS = {
    "non-private": plain_regressor,
    "dperm-pure": ours_pure,
    "diffprivlib": diffprivlib_regressor,
    "adassp": adassp,
    "adassp-gdp": lambda *given: adassp(*given, exact=True),
    "opacus-default": opacus_default,
    "opacus-oracle": opacus_oracle,
}
METHODS = tuple(dict.fromkeys(("non-private", "adassp", "adassp-gdp", "dperm-pure", *CLASSIFIERS, "ebm", "ebm-oracle")))


def home(method: str) -> str:
    return next((name for name in PACKAGES if method.startswith(name)), "dperm")


def applies(method: str, name: str, epsilon: float) -> bool:
    if name not in CLASSIFICATION and method == "diffprivlib-oracle":
        return False
    if name in CLASSIFICATION and method.startswith("adassp"):
        return False
    return not (method == "opacus-oracle" and epsilon == 8.0)


def key(method: str, name: str, epsilon: float, seed: int) -> str:
    return f"{method}|{name}|{epsilon:g}|{seed}"


# -- workers and the orchestra -----------------------------------------------------------------------------------------


def work(method: str, name: str, cells: list[list[float]]) -> None:
    """Runs in a peer's environment: one line of JSON per finished cell."""
    import warnings

    warnings.simplefilter("ignore")
    data = dict(np.load(ENVIRONMENTS / "data" / f"{name}.npz"))
    if home(method) != "dperm":
        data = on_unit_interval(data)
    for epsilon, seed in cells:
        started = time.perf_counter()
        score = cell(method, name, epsilon, int(seed), data)
        seconds = time.perf_counter() - started
        print(json.dumps({"key": key(method, name, epsilon, int(seed)), "score": score, "seconds": seconds}), flush=True)


def run(sets: list[str], methods: list[str], epsilons: list[float], seeds: int, until: float) -> None:
    done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    if ebm := [method for method in methods if method.startswith("ebm")]:
        import accuracy_ebm

        tables = [name for name in sets if name in (*accuracy_ebm.REGRESSION, *accuracy_ebm.CLASSIFICATION)]
        accuracy_ebm.run(tables, [e for e in epsilons if e in accuracy_ebm.EPSILONS], seeds, "ebm-oracle" in ebm, until)
    for method in (method for method in methods if method not in ebm):
        for name in sets:
            count = 1 if method == "non-private" else seeds
            wanted = [(e, s) for e in epsilons for s in range(count) if applies(method, name, e)]
            if method == "non-private":
                wanted = wanted[:1]
            cells = [pair for pair in wanted if key(method, name, *pair) not in done]
            left = until - (time.monotonic() - started)
            if not cells or left <= 0:
                continue
            export(name)
            python = sys.executable if home(method) == "dperm" else interpreter(home(method))
            command = [python, __file__, "--work", json.dumps([method, name, cells])]
            worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            for line in worker.stdout:  # type: ignore[union-attr]
                found = json.loads(line)
                done[found.pop("key")] = found
                RESULTS.write_text(json.dumps(done, indent=0, sort_keys=True))
                print(f"{method:19} {name:20} {found['score']:.4f} {found['seconds']:.1f}s", flush=True)
                if time.monotonic() - started > until:
                    worker.terminate()
                    break
            if worker.wait() not in (0, -15):
                print(f"{method} failed on {name}; the other cells go on", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join((*CLASSIFICATION, *REGRESSION)))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--epsilons", default=",".join(f"{e:g}" for e in EPSILONS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--until", type=float, default=math.inf)
    parser.add_argument("--work", default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work is not None:
        work(*json.loads(given.work))
        return
    run(given.sets.split(","), given.methods.split(","), [float(e) for e in given.epsilons.split(",")], given.seeds, given.until)


if __name__ == "__main__":
    main()
