"""Seeded answers of every estimator, method and relation stay what they were, to 1e-6; `golden_cases` writes them anew."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from compiled_products import kernels, multiplying_by
from golden_cases import FILE, answers

KNOWN: dict[str, Any] = json.loads(FILE.read_text())


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    with multiplying_by(None):
        return answers()


def test_the_cases_are_those_of_the_file(found: dict[str, Any]) -> None:
    assert set(found) == set(KNOWN)
    assert len(KNOWN) >= 127


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_coefficients_stay(name: str, found: dict[str, Any]) -> None:
    expected, computed = np.array(KNOWN[name]["w"]), np.array(found[name]["w"])
    assert expected.shape == computed.shape
    scale = float(np.abs(expected).max()) or 1.0
    assert np.allclose(computed, expected, rtol=1e-6, atol=1e-6 * scale)


def test_compiled_products_give_the_same_bits(found: dict[str, Any]) -> None:
    with multiplying_by(kernels()):
        again = answers()
    assert {name: case["w"] for name, case in again.items()} == {name: case["w"] for name, case in found.items()}
