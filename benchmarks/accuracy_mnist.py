"""MNIST by a linear softmax: ours, untuned, against Opacus at the settings that were best on the test set, in turns in one run.

    python benchmarks/accuracy_mnist.py            # writes benchmarks/results/mnist.json; some five minutes on two quiet cores

Both sides use all threads and the same rows. Opacus (batch 4,096, 20 epochs, learning rate 32, clip 1; add-remove) runs in its
own environment with a loader that fetches whole batches, the fast way to feed it. Ours: zero-out. δ = 1e-6.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("DPERM_DATA", HERE.parents[1] / "shared" / "data"))
EPSILONS, DELTA = (0.5, 1.0, 3.0), 1e-6


def rows():
    data = np.load(DATA / "mnist.npz")
    return {k: v.reshape(len(v), -1).astype(np.float32) if v.ndim > 1 else v for k, v in data.items()}


def ours(epsilon: float) -> dict:
    import dperm

    data = rows()
    began = time.perf_counter()
    model = dperm.LogisticRegression(epsilon, delta=DELTA, relation="zero-out", bounds=(0, 255), classes=range(10))
    model.fit(data["X_train"], data["y_train"])
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "accuracy": float(np.mean(model.predict(data["X_test"]) == data["y_test"]))}


def opacus(epsilon: float) -> dict:
    import warnings

    import torch
    from opacus import PrivacyEngine
    from speed_peer_opacus import Batches, together
    from torch.utils.data import DataLoader

    warnings.simplefilter("ignore")
    data = rows()
    X, Z = (torch.from_numpy(data[k] / np.float32(255)) for k in ("X_train", "X_test"))
    y = torch.from_numpy(data["y_train"].astype(np.int64))
    began = time.perf_counter()
    model = torch.nn.Linear(784, 10)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    model, optimizer, loader = PrivacyEngine(accountant="prv").make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=32.0),
        data_loader=DataLoader(Batches(X, y), batch_size=4096, collate_fn=together),
        target_epsilon=epsilon,
        target_delta=DELTA,
        epochs=20,
        max_grad_norm=1.0,
    )
    for _ in range(20):
        for part, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(part), labels).backward()
            optimizer.step()
    seconds = time.perf_counter() - began
    with torch.no_grad():
        return {"seconds": seconds, "accuracy": float(np.mean(model(Z).argmax(1).numpy() == data["y_test"]))}


def main() -> None:
    if len(sys.argv) > 2:
        side = {"ours": ours, "opacus": opacus}[sys.argv[1]]
        print(json.dumps(side(float(sys.argv[2]))))
        return
    import accuracy_peers

    found = {}
    for epsilon in EPSILONS:
        for side, python in (("ours", sys.executable), ("opacus", accuracy_peers.interpreter("opacus"))):
            done = subprocess.run([python, __file__, side, str(epsilon)], check=True, capture_output=True, text=True)
            found[f"{side}|{epsilon:g}"] = json.loads(done.stdout.splitlines()[-1])
            print(f"ε = {epsilon:g}  {side:7} {found[f'{side}|{epsilon:g}']}", flush=True)
    (HERE / "results" / "mnist.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
