"""Types say something: `Any` is rare, and no name stands for it."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCES = sorted((Path(__file__).resolve().parents[2] / "src" / "dperm").rglob("*.py"))


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
