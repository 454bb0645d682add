"""`docs/theorems/lectures.md` promises a function and a test for every item of the lectures: both exist and belong together."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

import pytest

import dperm
from dperm import mechanisms, privacy, problem, terms, theory
from dperm.report.gallery import FIGURES
from dperm.theory import simulate
from places import ROOT

PAGE = ROOT / "docs" / "theorems" / "lectures.md"
TOUR = ROOT / "docs" / "tutorials" / "lectures-tour.md"
ERRATA = ROOT / "docs" / "errata.md"
HOMES = (theory, problem, dperm, mechanisms, terms, privacy)
CODE = re.compile(r"`([^`]+)`")
# Items per file, as the map of the lectures counts them; the last item of the slides is a list of readings.
ITEMS = {"000": 20, "001": 11, "002": 11, "003": 13, "004": 10}


def rows() -> list[tuple[str, str, str, str]]:
    """(file, item, functions, tests) of every row of the page's tables."""
    found, file = [], ""
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("## "):
            file = line[3:6]
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("| ") else []
        if len(cells) == 3 and cells[0] != "item":
            found.append((file, *cells))
    return found


def written_tests() -> dict[str, str]:
    """Name of every test function → the text of the file that holds it (of all of them, where a name is used twice)."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[node.name] = found.get(node.name, "") + text
    return found


TESTS = written_tests()


def resolved(text: str) -> Any:
    """The object that `name`, `Class.attribute` or `function(keyword=…)` stands for; keywords must be its parameters."""
    name, _, arguments = text.partition("(")
    first, *rest = name.split(".")
    home = next((place for place in (*HOMES, simulate) if hasattr(place, first)), None)
    assert home is not None, f"{first} is in none of the packages that the page names"
    value = getattr(home, first)
    for part in rest:
        assert hasattr(value, part), text
        value = getattr(value, part)
    for keyword in re.findall(r"(\w+)=", arguments):
        assert keyword in inspect.signature(value).parameters, (text, keyword)
    return value


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row[0]} {row[1]}"[:60])
def test_every_item_names_a_function_and_a_test_that_uses_it(row: tuple[str, str, str, str]) -> None:
    _, _, functions, tests = row
    figures = set(re.findall(r"figure `([^`]+)`", functions))
    assert figures <= set(FIGURES)
    named = [text for text in CODE.findall(functions) if text not in figures]
    checked = [text for text in CODE.findall(tests) if text.startswith("test_")]
    assert named and checked
    for text in named:
        resolved(text)
    assert [text for text in checked if text not in TESTS] == []
    short = [re.split(r"[.(]", text)[0] for text in named]
    used = [name for name in short if any(re.search(rf"\b{name}\b", TESTS[test]) for test in checked)]
    assert used, f"none of {checked} mentions any of {short}"


def test_no_item_is_left_out() -> None:
    for file, last in ITEMS.items():
        numbers = {int(item.split()[0]) for home, item, _, _ in rows() if home == file}
        assert numbers == set(range(1, last + 1)), file


def test_the_tour_follows_the_five_documents() -> None:
    headings = re.findall(r"^## (.+)$", TOUR.read_text("utf-8"), re.M)
    assert [heading[:4] for heading in headings] == [*(f"{file}:" for file in ITEMS), "Beyo"]


def test_every_erratum_names_what_exists() -> None:
    """The last cell of an erratum: at least one function, class or mechanism, and each of them real."""
    found = 0
    for line in ERRATA.read_text("utf-8").splitlines():
        if not re.match(r"\| E\d+ \|", line):
            continue
        named = CODE.findall(re.split(r"(?<!\\)\|", line)[-2])
        assert named, line
        for text in named:
            assert text in TESTS if text.startswith("test_") else resolved(text) is not None
        found += 1
    assert found == 38
