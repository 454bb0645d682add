"""Arrows point down: a room imports only rooms below it, imports inside functions counted, and modules form no cycle."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "dperm"
ORDER = (
    "problem", "privacy", "theory", "words", "solvers", "features", "tables", "data", "rows", "terms", "release", "mechanisms",
    "choose", "walk", "inference", "pages", "estimators", "evaluation", "profiles", "audit", "report", "commands", "cli",
    "__main__",
)  # fmt: skip
AT_THE_TOP = {"cli.py", "solvers.py", "__init__.py", "__main__.py"}


@cache
def modules() -> dict[str, Path]:
    found = {}
    for file in SOURCE.rglob("*.py"):
        parts = file.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)] = file
    return found


@cache
def imported(name: str) -> frozenset[str]:
    return frozenset(_imported(name))


def _imported(name: str) -> Iterator[str]:
    """Modules of the package that one module imports at any depth; those for annotations alone do not count."""
    tree = ast.parse(modules()[name].read_text(encoding="utf-8"))
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dperm":
            base = (node.module or "").removeprefix("dperm").removeprefix(".")
            for alias in node.names:
                inner = f"{base}.{alias.name}".removeprefix(".")
                yield inner if inner in modules() else base
        elif isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("dperm.") for alias in node.names if alias.name.startswith("dperm."))


def room(name: str) -> int:
    return ORDER.index(name.split(".")[0])


def test_arrows_point_down() -> None:
    upward = {
        (name, target)
        for name in modules()
        if name != "__init__"
        for target in imported(name)
        if target and room(target) > room(name)
    }
    assert upward == set()


def test_nobody_imports_through_the_top() -> None:
    assert [name for name in modules() if name != "__init__" and "" in set(imported(name))] == []


def test_modules_form_no_cycle() -> None:
    graph = {name: {target for target in imported(name) if target in modules()} - {name} for name in modules()}
    while True:
        leaves = [name for name, targets in graph.items() if not targets & graph.keys()]
        if not leaves:
            break
        for name in leaves:
            del graph[name]
    assert not graph, sorted(graph)


def test_few_modules_stand_at_the_top() -> None:
    assert {file.name for file in SOURCE.glob("*.py")} == AT_THE_TOP


def test_the_page_shows_the_rooms_as_they_are() -> None:
    done = subprocess.run([sys.executable, str(SOURCE.parents[1] / "scripts" / "draw_layers.py"), "--check"], check=False)
    assert done.returncode == 0, "run python scripts/draw_layers.py"
