"""Shared by all tests: where the real data are, and small problems."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from places import SHARED_DATA


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public data sets beside the repository; tests that need it skip where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the folder ../shared/data with the public data sets is not beside this checkout")
    return SHARED_DATA


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.default_rng(20261115)
