"""Opacus on the matrix in the .npz given: processor seconds of one fit at (ε, δ), with an ordinary and with a batched loader.

Runs in its own environment (benchmarks/.envs/opacus). Settings: batch 1,024, 60 epochs, learning rate 2, clip 1, ε = 1.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np
import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, Dataset, TensorDataset

warnings.filterwarnings("ignore")
EPSILON, DELTA, BATCH, EPOCHS, RATE, CLIP = 1.0, 1e-6, 1024, 60, 2.0, 1.0


class Batches(Dataset):
    """Rows fetched a batch at a time: the fast way to feed a small model."""

    def __init__(self, X, y):
        self.X, self.y = X, y

    def __len__(self):
        return len(self.y)

    def __getitem__(self, row):
        return self.X[row], self.y[row]

    def __getitems__(self, rows):
        return self.X[rows], self.y[rows]


def together(batch):
    return batch if isinstance(batch, tuple) and isinstance(batch[0], torch.Tensor) else torch.utils.data.default_collate(batch)


def fit(loader, d, epochs):
    torch.manual_seed(0)
    model = torch.nn.Linear(d, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    began = time.process_time()
    model, optimizer, loader = PrivacyEngine(accountant="prv").make_private_with_epsilon(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        target_epsilon=EPSILON,
        target_delta=DELTA,
        epochs=EPOCHS,
        max_grad_norm=CLIP,
    )
    loss = torch.nn.BCEWithLogitsLoss()
    for _ in range(epochs):
        for X, y in loader:
            if len(y) == 0:
                continue
            optimizer.zero_grad()
            loss(model(X)[:, 0], y).backward()
            optimizer.step()
    return time.process_time() - began, model


def main():
    data = np.load(sys.argv[1])
    X, y = torch.from_numpy(data["X"].astype(np.float32)), torch.from_numpy(data["y"].astype(np.float32))
    found = {}
    loaders = {
        "batched loader": DataLoader(Batches(X, y), batch_size=BATCH, collate_fn=together),
        "ordinary DataLoader": DataLoader(TensorDataset(X, y), batch_size=BATCH),
    }
    for name, loader in loaders.items():
        found[name], model = fit(loader, X.shape[1], EPOCHS)
        with torch.no_grad():
            found[f"{name}, accuracy"] = float(((model(X)[:, 0] > 0) == (y > 0)).float().mean())
    print(json.dumps(found))


if __name__ == "__main__":
    main()
