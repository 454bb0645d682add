"""How many lines of code the same behaviours need in two trees of this project: what a redesign costs at equal function.

    git worktree add --detach ../old v0.1.0
    python scripts/equal_function.py ../old .

Every behaviour of `BEHAVIOURS` is public and was there in version 0.1.0. Each tree runs all of them in a process of its own, with
a tracer that notes every line of the package that is run. One that either tree refuses is left out of both counts and named.
Lines are counted as lines with code: no blank ones, comments or docstrings. Three numbers for each tree:

    run         the lines inside functions at which a statement began that was run
    functions   the lines of the functions that were entered, whether or not all of them were run
    files       those, and what stands outside functions in their files: imports, constants, classes and their fields
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType

Tracer = Callable[[FrameType, str, object], "Tracer | None"]
Place = tuple[str, int]  # a file of the package, and a line of it
RELATIONS = ("replace-one", "zero-out", "add-remove")
CLASSES = {"classes": [0, 1]}
RANGE = {"y_bounds": (-3, 3)}
COUNTS = {"y_bounds": (0, 20)}
# Estimator, its declarations, and the methods that version 0.1.0 had for it.
ESTIMATORS: dict[str, tuple[dict[str, object], tuple[str, ...]]] = {
    "LogisticRegression": (CLASSES, ("auto", "gradient", "scaled-gradient", "scaled-objective", "objective", "output")),
    "LinearSVC": (CLASSES, ("auto", "gradient", "scaled-gradient", "objective")),
    "LinearRegression": (RANGE, ("auto", "gradient", "scaled-gradient", "statistics")),
    "Ridge": (RANGE, ("auto", "statistics")),
    "Lasso": (RANGE, ("auto", "selection")),
    "HuberRegressor": (RANGE, ("auto", "gradient", "scaled-gradient")),
    "QuantileRegressor": (RANGE, ("auto", "gradient", "scaled-quantile")),
    "PoissonRegressor": (COUNTS, ("auto", "gradient", "scaled-poisson")),
    "MLPClassifier": (CLASSES | {"hidden": 3, "steps": 5}, ("auto",)),
}
SCHEMA = {
    "name": "people",
    "columns": {
        "age": {"type": "numeric", "low": 0, "high": 100},
        "city": {"type": "categorical", "levels": ["a", "b"]},
        "member": {"type": "boolean"},
    },
    "target": {"column": "y", "type": "classes", "classes": ["no", "yes"]},
}
COMMANDS = {
    "schema": "schema {table} --out {folder}/draft.json",
    "plan": "plan --model logistic --n 10000 --d 10 --epsilon 1",
    "plan of a schema": "plan --schema {schema} --n 10000 --epsilon 1 --json",
    "fit": "fit {table} --schema {schema} --target y --epsilon 1 --out {folder}/model --random-state 0",
    "predict": "predict {folder}/model/model.json {table} --out {folder}/predicted.csv",
    "evaluate": "evaluate {folder}/model/model.json {table} --epsilon 1 --random-state 0",
    "verify": "verify {folder}/model/certificate.json --allow-seeded",
    "report": "report {folder}/model/certificate.json --out {folder}/again.html",
    "ledger create": "ledger create {folder}/people.ledger --dataset people --epsilon 3 --delta 1e-6",
    "ledger show": "ledger show {folder}/people.ledger",
    "ledger verify": "ledger verify {folder}/people.ledger",
    "theory": "theory pac hypotheses=1000 alpha=0.1 beta=0.05 epsilon=1",
    "audit": "audit MeanEstimator --relation replace-one --trials 60 --minutes 0.2",
}


def behaviours() -> Iterator[tuple[str, Callable[[], object]]]:
    """(name, action), in an order in which later ones may use files of earlier ones."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv

    import dperm

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 3))
    score = 2 * X[:, 0] - X[:, 1]
    labels = {"classes": (score > 0).astype(int), "y_bounds": np.clip(score, -3, 3)}
    counts = rng.poisson(np.exp(1 + score / 2)).astype(float)
    folder = Path(tempfile.mkdtemp())
    table = pa.table(
        {
            "age": 50 + 40 * X[:, 0],
            "city": np.where(X[:, 1] > 0, "a", "b"),
            "member": X[:, 2] > 0,
            "y": np.where(score > 0, "yes", "no"),
        }
    )
    places = {"folder": folder, "table": folder / "people.csv", "schema": folder / "people.json"}
    pyarrow.csv.write_csv(table, places["table"])
    places["schema"].write_text(json.dumps(SCHEMA))

    def fitted(name: str, method: str, relation: str, **more: object) -> object:
        declared, _ = ESTIMATORS[name]
        y = counts if name == "PoissonRegressor" else labels["classes" if "classes" in declared else "y_bounds"]
        options = {"epsilon": 2.0, "bounds": (-1, 1), "relation": relation, "random_state": 0, **declared, **more}
        if relation == "add-remove":
            options["nominal_n"] = len(X)
        model = getattr(dperm, name)(**options, **({} if method == "auto" else {"method": method})).fit(X, y)
        model.predict(X[:5])
        assert model.certificate_.verify(allow_seeded=True).ok
        return model

    for name, (_, methods) in ESTIMATORS.items():
        for method in methods:
            for relation in RELATIONS:
                more = {"regularization": 1.0} if method == "output" else {}
                yield f"{name}, {method}, {relation}", lambda n=name, m=method, r=relation, o=more: fitted(n, m, r, **o)
    for name in ("MeanEstimator", "MedianEstimator"):
        yield name, lambda n=name: getattr(dperm, n)(2.0, bounds=(-1, 1), random_state=0).fit(X).certificate_.verify()
    rules = {"hypotheses": "thresholds", "bounds": (-1, 1), "classes": [0, 1], "random_state": 0}
    yield "FiniteClassLearner", lambda: dperm.FiniteClassLearner(1.0, **rules).fit(X[:, :1], labels["classes"]).predict(X[:, :1])
    yield "schema", lambda: dperm.LogisticRegression(1.0, schema=SCHEMA, random_state=0).fit(table).predict(table)
    yield "persons", lambda: dperm.LinearRegression(
        2.0, bounds=(-1, 1), y_bounds=(-3, 3), max_rows_per_person=3, random_state=0
    ).fit(X, labels["y_bounds"], groups=np.arange(300) // 4)
    yield "weights", lambda: dperm.LinearRegression(2.0, bounds=(-1, 1), y_bounds=(-3, 3), max_weight=2.0, random_state=0).fit(
        X, labels["y_bounds"], np.linspace(0, 2, 300)
    )
    yield "rows on disk", lambda: dperm.LogisticRegression(1.0, schema=SCHEMA, random_state=0).fit(
        dperm.ArrowRows(places["table"], SCHEMA)
    )
    yield "intervals", lambda: dperm.LinearRegression(
        5.0, bounds=(-1, 1), y_bounds=(-3, 3), method="statistics", intervals=True, random_state=0
    ).fit(np.tile(X, (20, 1)), np.tile(labels["y_bounds"], 20)).summary()
    base = dperm.LogisticRegression(bounds=(-1, 1), classes=[0, 1], method="gradient")
    grid = {"param_grid": {"radius": [1.0, 5.0]}, "expected_runs": 3, "random_state": 0}
    yield "search", lambda: dperm.PrivateGridSearch(base, epsilon=20, **grid).fit(X, labels["classes"])
    for name, words in COMMANDS.items():
        yield f"dperm {name}", lambda w=words: _command(w.format(**places))


def _command(words: str) -> None:
    from typer.testing import CliRunner

    from dperm.cli import app

    done = CliRunner().invoke(app, words.split())
    if done.exit_code:
        raise RuntimeError(f"exit code {done.exit_code}: {done.output[-300:]}")


def traced(root: Path) -> dict[str, list[Place] | str]:
    """The lines of the package that each behaviour runs, or the words with which it failed."""
    package = str(root / "src" / "dperm") + os.sep
    seen: set[tuple[CodeType, int]] = set()

    def line(frame: FrameType, _: str, __: object) -> Tracer:
        seen.add((frame.f_code, frame.f_lineno))
        return line

    def enter(frame: FrameType, _: str, __: object) -> Tracer | None:
        return line(frame, "", None) if frame.f_code.co_filename.startswith(package) else None

    found: dict[str, list[Place] | str] = {}
    for name, action in behaviours():
        seen.clear()
        threading.settrace(enter)
        sys.settrace(enter)
        try:
            with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                warnings.simplefilter("ignore")
                action()
        except Exception as error:
            found[name] = f"{type(error).__name__}: {str(error)[:200]}"
        else:
            found[name] = sorted({(code.co_filename.removeprefix(package), number) for code, number in seen})
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
    return found


def code_lines(text: str, tree: ast.Module) -> set[int]:
    """Numbers of the lines that hold code."""
    kept = {n for n, line in enumerate(text.splitlines(), 1) if line.strip() and not line.strip().startswith("#")}
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
            kept -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return kept


def counted(root: Path, places: set[Place]) -> tuple[int, int, int]:
    """(lines run, lines of the functions entered, those and what stands outside functions in their files)."""
    run = functions = files = 0
    for name in {file for file, _ in places}:
        text = (root / "src" / "dperm" / name).read_text(encoding="utf-8")
        tree = ast.parse(text)
        lines, inside, entered = code_lines(text, tree), set(), set()
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
                span = set(range(first, (node.end_lineno or node.lineno) + 1))
                inside |= span
                if any((name, number) in places for number in span - set(range(first, node.body[0].lineno))):
                    entered |= span
        run += len({number for file, number in places if file == name} & lines & entered)
        functions += len(lines & entered)
        files += len(lines & (entered | (lines - inside)))
    return run, functions, files


def main(trees: list[Path]) -> None:
    runs = []
    for root in trees:
        environment = os.environ | {"PYTHONPATH": str(root / "src"), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, __file__, "--trace", str(root)], env=environment, capture_output=True, text=True, check=True
        )
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    both = [name for name in runs[0] if all(isinstance(run[name], list) for run in runs)]
    print(f"{len(both)} of {len(runs[0])} behaviours, in both trees")
    for root, run in zip(trees, runs):
        failed = {name: why for name, why in run.items() if not isinstance(why, list)}
        for name, why in failed.items():
            print(f"  left out, refused by {root}: {name}: {why}")
        places = {(file, line) for name in both for file, line in run[name]}
        run_lines, functions, files = counted(root, places)
        print(f"{root}: {run_lines:,} lines run, {functions:,} of the functions entered, {files:,} with the rest of their files")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--trace"]:
        print(json.dumps(traced(Path(sys.argv[2]).resolve())))
    else:
        main([Path(word).resolve() for word in sys.argv[1:]])
