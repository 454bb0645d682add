"""Last layers on public features: `EmbeddingClassifier` on scattering features and on pixels of MNIST; resumable.

    python benchmarks/heads.py                       # MNIST: every cell, three seeds
    python benchmarks/heads.py --held-out            # trained on 50,000 rows, scored on the other 10,000
    python benchmarks/heads.py --data fashion.npz    # another set of ten classes: X_train, y_train, X_test, y_test
    python benchmarks/heads.py --jobs pixels --seeds 1

On a machine with a CUDA GPU and torch the fits run there (`device="cuda"`); features are made by all threads, once.

Protocol: relation zero-out, everything default, nothing tuned; δ = 1e-5 for scattering features (as in published figures), 1e-6
for pixels (as in `accuracy_ours.py`). Writes results/heads.json; `accuracy_page.py` puts it into docs/accuracy.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("DPERM_DATA", HERE.parents[1] / "shared" / "data"))
RESULTS = HERE / "results" / "heads.json"
KEPT = HERE / ".envs" / "heads"  # features: made once, a gigabyte
JOBS = {"scattering": ((1.2, 2.93), 1e-5), "pixels": ((0.5, 1.0, 3.0), 1e-6)}


def features(job: str, file: Path, part: str) -> np.ndarray:
    """Rows of a part ("train" or "test"), as they are given to the estimator; scattering features are a memory map."""
    images = np.load(file)[f"X_{part}"]
    if job == "pixels":
        return images.reshape(len(images), -1)
    from dperm.features import scattering

    kept = KEPT / f"{file.stem}-{part}.npy"
    if not kept.is_file():
        KEPT.mkdir(parents=True, exist_ok=True)
        began = time.perf_counter()
        part_file = kept.with_suffix(".part.npy")
        made = open_memmap(part_file, mode="w+", dtype=np.float32, shape=(len(images), scattering(images[:1]).shape[1]))

        def make(first: int) -> None:
            made[first : first + 512] = scattering(images[first : first + 512])

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(make, range(0, len(images), 512)))
        made.flush()
        part_file.replace(kept)
        print(f"{len(images):,} images in {time.perf_counter() - began:.0f} s", flush=True)
    return np.load(kept, mmap_mode="r")


def cell(job: str, file: Path, epsilon: float, seed: int, held_out: bool) -> dict[str, Any]:
    import dperm

    arrays = np.load(file)
    X, y = features(job, file, "train"), arrays["y_train"]
    test, truth = (X[50_000:], y[50_000:]) if held_out else (features(job, file, "test"), arrays["y_test"])
    n = 50_000 if held_out else len(y)
    options = {"delta": JOBS[job][1], "relation": "zero-out", "classes": range(10), "random_state": seed, "device": device()}
    model = dperm.EmbeddingClassifier(epsilon, **options)
    began = time.perf_counter(), time.process_time()
    model.fit(X[:n], y[:n])
    seconds, processor = time.perf_counter() - began[0], time.process_time() - began[1]
    accuracy = float(np.mean(model.predict(test) == truth))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # so far; rows on disk that were read count
    return {"accuracy": accuracy, "seconds": seconds, "processor_seconds": processor, "peak_MB": peak, "on": device() or "cpu"}


def device() -> str | None:
    """A GPU, if torch is here and finds one."""
    try:
        import torch
    except ImportError:
        return None
    return "cuda" if torch.cuda.is_available() else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA / "mnist.npz")
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--epsilons", default="", help="other budgets than those of the protocol")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--held-out", action="store_true")
    options = parser.parse_args()
    done: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    for seed in range(options.seeds):
        for job in options.jobs.split(","):
            for epsilon in [float(e) for e in options.epsilons.split(",") if e] or JOBS[job][0]:
                key = f"{options.data.stem}{' held out' if options.held_out else ''}|{job}|{epsilon:g}|{seed}"
                if key not in done:
                    done[key] = cell(job, options.data, epsilon, seed, options.held_out)
                    RESULTS.write_text(json.dumps(done, indent=1, sort_keys=True) + "\n")
                    print(key, json.dumps(done[key]), flush=True)


if __name__ == "__main__":
    main()
