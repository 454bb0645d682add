"""`make bench`: one table of ratios, all measured in one run on one machine. See README.md beside this file for how to read it.

    python benchmarks/speed.py [--quick] [--out benchmarks/results/speed.json]

Each comparison alternates its two sides and takes medians, so that a busy machine slows both. Peers run in environments of
their own under benchmarks/.envs, made on the first run; one that cannot be made is left out with a note.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("DPERM_DATA", HERE.parents[1] / "shared" / "data"))
PEERS = {
    "opacus": ["opacus==1.6.0", "torch==2.13.0"],
    "diffprivlib": ["diffprivlib==0.6.6", "scikit-learn==1.5.2", "numpy<2.3"],
    "jax": ["jax-privacy", "jax"],
}


PAUSE = 0.3


def medians(
    sides: dict[str, Callable[[], Any]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Median seconds of each side, taken in turns after one warm-up each.

    The pause lets the threads of the side before fall asleep: OpenBLAS keeps its threads spinning for some 0.1 s after a product,
    and whatever runs next on the same cores pays for it.
    """
    times: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(repeats + 1):
        for name, run in sides.items():
            time.sleep(PAUSE)
            began = clock()
            run()
            if turn:
                times[name].append(clock() - began)
    return {name: float(np.median(values)) for name, values in times.items()}


def draw(n: int, d: int, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((n, d), dtype=np.float32).astype(dtype, copy=False)
    X /= np.float32(np.sqrt(d))
    return X, np.where(generator.random(n) < 0.5, 1.0, -1.0)


def private_rows(X: np.ndarray, y: np.ndarray) -> Any:
    from dperm.problem import DataBounds, Interval
    from dperm.rows import MemoryRows

    return MemoryRows(X, y).bounded(DataBounds(3.0, Interval(-1, 1)))


def term_of(d: int, clip: float = 0.5) -> Any:
    from dperm.problem import LogisticLoss
    from dperm.terms.affine import Features
    from dperm.terms.gradient import GradientTerm

    return GradientTerm(LogisticLoss(), np.linspace(-1, 1, d), clip, Features())


def without_compiled(run: Callable[[], Any]) -> Any:
    """A call by BLAS alone, as where Numba is not installed."""
    from dperm.rows.compiled import LOADER

    kept, LOADER.kernels = LOADER.kernels, None
    try:
        return run()
    finally:
        LOADER.kernels = kept


def compiled_products() -> dict[str, Any]:
    """Loads the compiled loops, which a process does by itself after some seconds of products, and says how long that took."""
    from dperm.rows.compiled import LOADER

    began = time.perf_counter()
    found = LOADER.ready()
    return {"used": found is not None, "seconds to load": time.perf_counter() - began}


def step_against_two_products(n: int, d: int, repeats: int) -> dict[str, Any]:
    """One private gradient (clipped, on the grid) against the usual non-private one: X @ w, then slopes @ X."""
    from dperm.rows import sum_step

    X, y = draw(n, d)
    rows, term, step = private_rows(X, y), term_of(d), sum_step(0.5, n)
    w, labels = np.linspace(-1, 1, d).astype(np.float32), y.astype(np.float32)

    def plain() -> Any:
        return (-labels / (1 + np.exp(labels * (X @ w)))) @ X

    def private() -> Any:
        return rows.sum(term, step)

    assert private().tobytes() == without_compiled(private).tobytes()
    sides = {"two products": plain, "private": private, "without Numba": lambda: without_compiled(private)}
    seconds = medians(sides, repeats)
    return {
        "n": n,
        "d": d,
        "seconds": seconds,
        "ratio": seconds["private"] / seconds["two products"],
        "ratio without Numba": seconds["without Numba"] / seconds["two products"],
        "reads of X": {"two products": 2, "private": 1, "best possible": 1},
        "GB/s": X.nbytes / seconds["private"] / 1e9,
        "rows per second": n / seconds["private"],
    }


def adult() -> tuple[Any, Any] | None:
    """(training rows, schema) of Adult, or None where the file is absent."""
    if not (DATA / "adult.parquet").exists():
        return None
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from dperm import Schema  # where older versions have it too: `speed_since.py`

    table = pq.read_table(DATA / "adult.parquet")
    if "split" in table.column_names:
        table = table.filter(pc.equal(table["split"], "train"))
    return table, Schema.load(DATA / "schemas" / "adult.json")


def adult_matrix(table: Any, schema: Any) -> tuple[Any, np.ndarray]:
    from dperm.tables.tables import cells

    labels = schema.labels(cells(table, schema.target.column))
    return schema.encoded(table), (labels == schema.target.classes[1]).astype(int)


def fit_against_sklearn(repeats: int) -> dict[str, Any]:
    """The default private fit of Adult against scikit-learn's fit of the same matrix, dense and CSR.

    Both sides start from encoded rows: the time to encode cells is measured in the same run and left out of ours.
    """
    found = adult()
    if found is None:
        return {"left out": f"no adult.parquet in {DATA}"}
    from sklearn.linear_model import LogisticRegression

    import dperm

    table, schema = found
    X, y = adult_matrix(table, schema)
    dense = X.toarray() if hasattr(X, "toarray") else X
    sides: dict[str, Callable[[], Any]] = {
        "scikit-learn, dense": lambda: LogisticRegression(max_iter=1000).fit(dense, y),
        "scikit-learn, CSR": lambda: LogisticRegression(max_iter=1000).fit(X, y),
        "dperm, from cells": lambda: dperm.LogisticRegression(epsilon=1.0, schema=schema).fit(table),
        "zero-out, from cells": lambda: dperm.LogisticRegression(epsilon=1.0, schema=schema, relation="zero-out").fit(table),
        "encoding cells": lambda: adult_matrix(table, schema),
    }
    seconds = medians(sides, repeats)
    seconds["dperm"] = seconds["dperm, from cells"] - seconds["encoding cells"]
    seconds["dperm, zero-out"] = seconds["zero-out, from cells"] - seconds["encoding cells"]
    ours = {name: sides[name] for name in ("dperm, from cells", "encoding cells")}
    processor = medians(ours, repeats, time.process_time)
    return {
        "processor seconds": processor["dperm, from cells"] - processor["encoding cells"],
        "seconds": seconds,
        "ratio to dense": seconds["dperm"] / seconds["scikit-learn, dense"],
        "ratio to CSR": seconds["dperm"] / seconds["scikit-learn, CSR"],
        "ratio to CSR, zero-out": seconds["dperm, zero-out"] / seconds["scikit-learn, CSR"],
    }


def peer_python(name: str) -> Path | str:
    """Python of the peer's environment, made if need be; a sentence where that fails."""
    python = HERE / ".envs" / name / "bin" / "python"
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(python.parents[1])], check=True, capture_output=True)
        probe = {"opacus": "opacus", "diffprivlib": "diffprivlib", "jax": "jax_privacy"}[name]
        if subprocess.run([str(python), "-c", f"import {probe}"], capture_output=True).returncode:
            install = [str(python), "-m", "pip", "install", "--quiet", *PEERS[name]]
            subprocess.run(install, check=True, capture_output=True, timeout=1200)
    except (subprocess.SubprocessError, OSError) as error:
        return f"environment not made: {type(error).__name__}"
    return python


def peers(ours: dict[str, Any]) -> dict[str, Any]:
    """Processor seconds of one fit of Adult at ε = 1 by each peer, and how many times ours that is.

    Processor seconds, because peers run in processes of their own and cannot take turns with us. They get one thread: so small a
    model is slower with several.
    """
    found = adult()
    if found is None:
        return {"left out": f"no adult.parquet in {DATA}"}
    X, y = adult_matrix(*found)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "adult.npz"
        np.savez(file, X=(X.toarray() if hasattr(X, "toarray") else X).astype(np.float32), y=y)
        for name in PEERS:
            script = HERE / f"speed_peer_{name}.py"
            python = peer_python(name)
            if isinstance(python, str):
                results[name] = {"left out": python}
                continue
            single = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            done = subprocess.run([str(python), str(script), str(file)], capture_output=True, text=True, timeout=1800, env=single)
            if done.returncode:
                results[name] = {"left out": done.stderr.strip().splitlines()[-1][:200]}
                continue
            measured = json.loads(done.stdout.strip().splitlines()[-1])
            times = {key: value / ours["processor seconds"] for key, value in measured.items() if "accuracy" not in key}
            results[name] = {"processor seconds": measured, "times ours": times}
    return results


def engines(n: int, d: int, repeats: int) -> dict[str, Any]:
    """Rows a second of one gradient on every engine that is installed here."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dperm.problem import DataBounds, Interval
    from dperm.rows import ArrowRows, DeviceRows, sum_step

    X, y = draw(n, d)
    bounds, term, step = DataBounds(3.0, Interval(-1, 1)), term_of(d), sum_step(0.5, n)
    sides: dict[str, Any] = {"memory, float32": private_rows(X, y), "memory, float64": private_rows(X.astype(np.float64), y)}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        pq.write_table(pa.table({f"x{j}": X[:, j] for j in range(d)} | {"y": y}), folder / "rows.parquet", compression="none")
        schema = {
            "columns": {f"x{j}": {"type": "numeric", "low": -1, "high": 1} for j in range(d)},
            "target": {"column": "y", "type": "classes", "classes": [-1, 1]},
        }
        sides["Arrow, from Parquet"] = ArrowRows(folder / "rows.parquet", schema, dtype="float32").bounded(bounds)
        cached = ArrowRows(folder / "rows.parquet", schema, dtype="float32", cache=folder / "cache")
        sides["Arrow, from its cache"] = cached.bounded(bounds)
        try:
            import torch

            tensors = torch.from_numpy(X), torch.from_numpy(y)
            sides["device, torch on the processor"] = DeviceRows(*tensors).bounded(bounds)
        except ImportError:
            pass
        try:
            import dask.array as da

            from dperm.rows import DaskRows

            sides["Dask, threads"] = DaskRows(da.from_array(X, (50_000, d)), da.from_array(y, 50_000)).bounded(bounds)
        except ImportError:
            pass
        seconds = medians({name: lambda rows=rows: rows.sum(term, step) for name, rows in sides.items()}, repeats)
    return {"n": n, "d": d, "rows per second": {name: n / value for name, value in seconds.items()}}


def growth(repeats: int) -> dict[str, Any]:
    """Slope of log seconds against log n and log d: 1 means time grows as the data do. Every size is beyond the caches."""
    from dperm.rows import sum_step

    found: dict[str, Any] = {}
    for name, shapes in {
        "n": [(250_000 * 2**k, 50) for k in range(4)],
        "d": [(250_000, 50 * 2**k) for k in range(4)],
    }.items():
        times = []
        for n, d in shapes:
            X, y = draw(n, d)
            rows, term = private_rows(X, y), term_of(d)
            times.append(medians({"step": lambda rows=rows, term=term, n=n: rows.sum(term, sum_step(0.5, n))}, repeats)["step"])
        sizes = [shape[0] if name == "n" else shape[1] for shape in shapes]
        slope = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
        found[name] = {"sizes": sizes, "seconds": times, "slope": slope}
    return found


MEMORY = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from speed import draw, private_rows, term_of
from dperm.rows import sum_step
X, y = draw(1_000_000, 100)
rows = private_rows(X, y)
def status(name):
    return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith(name))) / 1e3
open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
before = status("VmRSS")
for _ in range(3):
    rows.sum(term_of(100), sum_step(0.5, 1_000_000))
print(X.nbytes / 1e6, status("VmHWM") - before)
"""


def peak_memory() -> dict[str, float]:
    """MB that sums over 400 MB of rows add to what the rows take (Linux)."""
    done = subprocess.run([sys.executable, "-c", MEMORY, str(HERE)], capture_output=True, text=True)
    if done.returncode:
        return {"rows MB": 400.0, "extra MB": float("nan")}
    data, extra = map(float, done.stdout.split())
    return {"rows MB": data, "extra MB": extra}


def machine() -> dict[str, Any]:
    import scipy
    import sklearn
    from threadpoolctl import threadpool_info

    model = ""
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":")[1].strip() for line in lines if "model name" in line), "")
    return {
        "processor": model or platform.processor(),
        "cores": os.cpu_count(),
        "load at start": os.getloadavg()[0],
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "BLAS": [f"{library['internal_api']} {library['version']} x{library['num_threads']}" for library in threadpool_info()],
        "memory GB": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9,
    }


def show(found: dict[str, Any]) -> None:
    """The table."""
    step, fit = found["step"], found["fit"]
    lines = [("private step / two BLAS products", f"{step['ratio']:.2f}", "≤ 1.0", f"{step['n']:,} x {step['d']} float32")]
    for other in (step, *found["other steps"]):
        shape = f"{other['n']:,} x {other['d']}"
        if other is not step:
            lines.append((f"the same, {shape}", f"{other['ratio']:.2f}", "", ""))
        lines.append((f"the same without Numba, {shape}", f"{other['ratio without Numba']:.2f}", "", ""))
    loaded = f"{found['compiled']['seconds to load']:.2f} s to load" if found["compiled"]["used"] else "Numba is not installed"
    lines.append(("compiled products", "used" if found["compiled"]["used"] else "-", "", loaded))
    speed = f"{step['GB/s']:.1f} GB/s, {step['rows per second']:,.0f} rows/s"
    lines.append(("bytes of X per step / best possible", "1.00", "1", speed))
    if "seconds" in fit:
        seconds = f"{fit['seconds']['dperm']:.2f} s"
        lines.append(("Adult fit / scikit-learn, dense", f"{fit['ratio to dense']:.2f}", "≤ 1.5", seconds))
        lines.append(("Adult fit / scikit-learn, CSR", f"{fit['ratio to CSR']:.2f}", "≤ 1.5", "replace-one"))
        lines.append(("the same, zero-out", f"{fit['ratio to CSR, zero-out']:.2f}", "≤ 1.5", ""))
    for kind, side in found["since"].items():
        if isinstance(side, dict):
            seconds = f"{side['seconds']['then']['wall']:.2f} s at {found['since']['commit']}"
            lines.append((f"Adult fit, {kind} / the same before 0.2", f"{side['ratio']['wall']:.2f}", "≤ 1.3", seconds))
    for name, peer in found["peers"].items():
        if not isinstance(peer, dict) or "times ours" not in peer:
            lines.append((f"{name} / ours", "-", "", str(peer)))
            continue
        for kind, ratio in peer["times ours"].items():
            wanted = {"ordinary DataLoader": "≥ 20", "batched loader": "≥ 6"}.get(kind, "")
            lines.append((f"{name}, {kind} / ours", f"{ratio:.1f}", wanted, f"{peer['processor seconds'][kind]:.2f} processor s"))
    for name, speed in found["engines"]["rows per second"].items():
        lines.append((f"rows/s, {name}", f"{speed:,.0f}", "", ""))
    for name, grown in found["growth"].items():
        lines.append((f"log-log slope in {name}", f"{grown['slope']:.2f}", "1", ""))
    memory = found["memory"]
    lines.append(("extra memory of a sum, MB", f"{memory['extra MB']:.0f}", "", f"beside {memory['rows MB']:.0f} MB of rows"))
    width = max(len(line[0]) for line in lines)
    for name, value, wanted, note in lines:
        print(f"{name:{width}s}  {value:>12s}  {wanted:8s} {note}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, no peers")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "speed.json")
    options = parser.parse_args()
    from speed_since import since

    n, repeats = (200_000, 3) if options.quick else (1_000_000, 9)
    found: dict[str, Any] = {"machine": machine(), "command": "python benchmarks/speed.py", "compiled": compiled_products()}
    found["step"] = step_against_two_products(n, 100, repeats)
    shapes = [(n // 2, 100), (n // 20, 100), (n, 20), (n // 5, 500)]
    found["other steps"] = [step_against_two_products(*shape, repeats) for shape in shapes]
    found["fit"] = fit_against_sklearn(3)
    found["since"] = since(repeats=2 if options.quick else 9)
    found["peers"] = {} if options.quick else peers(found["fit"])
    found["engines"] = engines(n // 5, 50, 3)
    found["growth"] = growth(3)
    found["memory"] = peak_memory()
    found["peak MB of this run"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    show(found)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    from speed_figure import draw_figure

    draw_figure(found, options.out.with_suffix(".svg"))


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    main()
