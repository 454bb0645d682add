"""Every public name says what each of its parameters is, inherited ones included, in numpydoc's form."""

from __future__ import annotations

import inspect
import re

import pytest

import dperm
from dperm.estimators.parameters import parameter_entries
from places import ROOT

# Exceptions and protocols: nobody constructs them.
WITHOUT = {"PrivacyWarning", "Rows"}
NAMES = sorted(set(dperm.__all__) - set(dperm._MODULES) - WITHOUT - {"__version__"})


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_has_an_entry_with_a_type_and_a_sentence(name: str) -> None:
    thing = getattr(dperm, name)
    entries = parameter_entries(thing.__doc__)
    assert list(entries) == [parameter for parameter in inspect.signature(thing).parameters if parameter != "_"]
    for parameter, text in entries.items():
        first, *rest = text.splitlines()
        assert first.startswith(f"{parameter} : ") and len(first) > len(parameter) + 3
        assert rest and rest[-1].endswith("."), f"{parameter} has no sentence"


def test_every_public_name_is_on_the_api_page() -> None:
    shown = re.findall(r"^::: ([\w.]+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.M)
    for name in sorted(set(dperm.__all__) - set(dperm._MODULES) - {"__version__"}):
        thing = getattr(dperm, name)
        assert f"{thing.__module__}.{thing.__name__}" in shown, name


def test_help_shows_inherited_parameters() -> None:
    text = inspect.getdoc(dperm.LogisticRegression)
    assert text is not None
    for parameter in ("epsilon", "bounds", "classes", "intervals", "max_rows_per_person", "ledger"):
        assert f"\n{parameter} : " in text
    assert text.index("Parameters") < text.index("Examples")
