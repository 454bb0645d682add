"""What keeps the code readable, counted: types that say something, short lists of parameters, short functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from places import SOURCE

FILES = {file.relative_to(SOURCE).as_posix(): file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py")}
TREES = {name: ast.parse(text) for name, text in FILES.items()}
MOST_ANY = 8.0  # per 1,000 lines
MOST_PARAMETERS, MOST_LINES, MOST_LONG = 10, 60, 5
# Commands list their options, because the command line is read from there; theorems and kernels list their symbols.
LISTS = ("commands/", "theory/", "rows/kernels.py", "rows/int8_kernels.py")


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                yield name, node


def test_types_say_something() -> None:
    """`Any` by its name or as an attribute; an alias of it would be one more."""
    found = sum(
        (isinstance(node, ast.Name) and node.id == "Any") or (isinstance(node, ast.Attribute) and node.attr == "Any")
        for tree in TREES.values()
        for node in ast.walk(tree)
    )
    lines = sum(text.count("\n") for text in FILES.values())
    assert 1000 * found / lines < MOST_ANY
    aliases = [f"{name}:{node.lineno}" for name, tree in TREES.items() for node in tree.body if _alias_of_any(node)]
    assert not aliases


def _alias_of_any(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == "Any"


def test_nobody_names_more_than_ten_parameters() -> None:
    long = []
    for name, node in functions():
        arguments = node.args
        count = len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)
        if count > MOST_PARAMETERS and not name.startswith(LISTS):
            long.append(f"{name}:{node.lineno} {node.name} ({count})")
    assert not long


def test_few_functions_are_long() -> None:
    sizes = [(f"{name}:{node.lineno} {node.name}", (node.end_lineno or 0) - node.lineno + 1) for name, node in functions()]
    long = [place for place, size in sizes if size > MOST_LINES]
    assert len(long) <= MOST_LONG, long


def test_the_count_sees_the_source() -> None:
    assert len(FILES) > 250 and Path(SOURCE / "release" / "driver.py").is_file()
