"""JAX-Privacy on the matrix in the .npz given: processor seconds of one fit at (ε, δ), compilation included (.envs/jax).

Settings as for Opacus: expected batch 1,024, 60 epochs, learning rate 2, clip 1, ε = 1. Batches are padded to one size, so that
the step compiles once; padded rows have weight 0.
"""

from __future__ import annotations

import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax_privacy import accounting, batch_selection, clipped_grad

EPSILON, DELTA, BATCH, EPOCHS, RATE, CLIP = 1.0, 1e-6, 1024, 60, 2.0, 1.0


def loss(w, X, y, present):
    """Mean over the (single) row that JAX-Privacy hands over; padded rows count for nothing."""
    return jnp.sum(present * jax.nn.softplus(-(2 * y - 1) * (X @ w[:-1] + w[-1])))


def main():
    data = np.load(sys.argv[1])
    X, y = data["X"].astype(np.float32), data["y"].astype(np.float32)
    n, d = X.shape
    steps = EPOCHS * n // BATCH
    began = time.process_time()
    multiplier = accounting.calibrate_noise_multiplier(
        target_epsilon=EPSILON,
        accountant=accounting.DpsgdTrainingAccountant(accounting.PldAccountantConfig()),
        batch_sizes=BATCH,
        num_updates=steps,
        num_samples=n,
        target_delta=DELTA,
    )
    gradient = clipped_grad(loss, l2_clip_norm=CLIP, batch_argnums=(1, 2, 3))
    size = BATCH + 8 * int(BATCH**0.5)

    @jax.jit
    def step(w, key, X, y, present):
        noise = multiplier * CLIP * jax.random.normal(key, w.shape)
        return w - RATE * (gradient(w, X, y, present) + noise) / BATCH

    batches = batch_selection.CyclicPoissonSampling(sampling_prob=BATCH / n, iterations=steps, truncated_batch_size=size)
    w, keys = jnp.zeros(d + 1), jax.random.split(jax.random.key(0), steps)
    for key, rows in zip(keys, batches.batch_iterator(n, np.random.default_rng(0))):
        padded = np.zeros(size, dtype=np.int64)
        padded[: len(rows)] = rows
        w = step(w, key, X[padded], y[padded], (np.arange(size) < len(rows)).astype(np.float32))
    w = np.asarray(w.block_until_ready())
    seconds = time.process_time() - began
    print(json.dumps({"fit": seconds, "fit, accuracy": float(np.mean((X @ w[:-1] + w[-1] > 0) == (y > 0)))}))


main()
