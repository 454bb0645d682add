"""Types say something: `Any` is rare, no name stands for it, and mypy and ruff find nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src" / "dperm").rglob("*.py"))


def is_any(node: ast.AST | None) -> bool:
    return (isinstance(node, ast.Name) and node.id == "Any") or (isinstance(node, ast.Attribute) and node.attr == "Any")


def test_fewer_than_eight_any_per_thousand_lines() -> None:
    texts = [file.read_text(encoding="utf-8") for file in SOURCES]
    lines = sum(text.count("\n") for text in texts)
    found = sum(is_any(node) for text in texts for node in ast.walk(ast.parse(text)))
    assert lines > 40_000  # the sources were found
    assert 1000 * found < 8 * lines


def test_no_name_stands_for_any() -> None:
    """`Tensor = Any` would hide it from the count, and from the reader."""
    aliases = []
    for file in SOURCES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assign | ast.AnnAssign) and is_any(node.value):
                aliases.append(f"{file.name}:{node.lineno}")
    assert aliases == []


@pytest.mark.parametrize("checked", [("mypy", "--strict", "src/dperm"), ("ruff", "check", "src", "tests")])
def test_what_make_lint_checks_is_clean(checked: tuple[str, ...], tmp_path: Path) -> None:
    """A name that does not exist is found here where no other test happens to pass by."""
    pytest.importorskip(checked[0], reason=f"{checked[0]} is not installed: make setup does it")
    kept = ("--cache-dir", str(tmp_path))
    said = subprocess.run([sys.executable, "-m", *checked, *kept], cwd=ROOT, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr
