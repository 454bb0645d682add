"""Rules about imports: pure modules stay pure, arrows point downwards, and `import dperm` stays light."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from places import SOURCE

PURE = ["problem", "privacy", "theory", "solvers.py"]
PURE += ["mechanisms/scaled/errors.py", "mechanisms/scaled/one_step.py", "inference/summary.py"]
ALLOWED = {"problem": {"problem"}, "privacy": {"privacy", "problem"}, "theory": {"theory", "privacy", "problem"}}
ALLOWED |= {"mechanisms": {"mechanisms"}, "inference": {"inference", "mechanisms", "problem", "words"}}
FORBIDDEN = {
    "os", "io", "sys", "pathlib", "json", "tomllib", "sqlite3", "socket", "subprocess", "shutil", "tempfile", "csv", "pickle",
    "random", "secrets", "randomgen", "sklearn", "pyarrow", "pandas", "polars", "torch", "dask", "matplotlib", "typer", "rich",
    "logging", "http", "urllib", "opendp",
}  # fmt: skip


def pure_files():
    for name in PURE:
        place = SOURCE / name
        yield from sorted(place.rglob("*.py")) if place.is_dir() else ([place] if place.exists() else [])


def violations(text: str, package: str) -> list[str]:
    """Imports (at any depth) and calls that a pure module may not have."""
    found = []
    for node in ast.walk(ast.parse(text)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
            if node.module == "numpy":
                names += [f"numpy.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] in FORBIDDEN or name.startswith("numpy.random"):
                found.append(name)
            if parts[0] == "dperm" and len(parts) > 1 and package in ALLOWED and parts[1] not in ALLOWED[package]:
                found.append(name)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("open", "print", "input"):
            found.append(node.func.id)
        if (
            isinstance(node, ast.Attribute)
            and node.attr == "random"
            and isinstance(node.value, ast.Name)
            and node.value.id == "np"
        ):
            found.append("np.random")
    return found


def test_pure_modules_import_no_io_and_no_randomness():
    files = list(pure_files())
    assert len(files) >= 25
    for file in files:
        package = file.relative_to(SOURCE).parts[0]
        # A Generator may be *named* in an annotation under TYPE_CHECKING; it is handed in, never made.
        text = file.read_text(encoding="utf-8").replace("from numpy.random import Generator", "")
        assert violations(text, package) == [], file


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        ("import json", ["json"]),
        ("def f():\n    from sklearn.base import clone", ["sklearn.base"]),
        ("import numpy as np\nx = np.random.default_rng()", ["np.random"]),
        ("from dperm.rows import MemoryRows", ["dperm.rows"]),
        ("open('x')", ["open"]),
        ("import math", []),
    ],
)
def test_the_rule_itself_catches_what_it_should(text, caught):
    assert violations(text, "problem") == caught


def modules_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_import_dperm_is_light():
    """Counting modules instead of seconds: nothing heavy is loaded, and not many modules at all."""
    loaded = modules_after("import dperm")
    heavy = {"numpy", "scipy", "sklearn", "pyarrow", "matplotlib", "dp_accounting", "torch", "opendp", "dask", "pandas", "typer"}
    assert not loaded & heavy
    assert len(loaded) < 120


def test_public_names_resolve():
    import dperm

    for name in dperm.__all__:
        assert getattr(dperm, name) is not None
    assert set(dperm.__all__) <= set(dir(dperm))
    with pytest.raises(AttributeError, match="no attribute"):
        dperm.Logistic  # noqa: B018


@pytest.mark.parametrize("name", ["advice", "certificate", "ledger", "mechanisms.base", "rows.arrow_files", "schema"])
def test_module_names_of_version_0_1_have_ended(name):
    """They led to the new places, with a warning, in 0.2 to 0.4."""
    import importlib

    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(f"dperm.{name}")
