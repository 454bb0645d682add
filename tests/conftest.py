"""Shared by all tests: where the real data are, small problems, and noise whose keys repeat."""

from __future__ import annotations

import random
import zlib
from pathlib import Path

import numpy as np
import pytest

from dperm.release import noise
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


@pytest.fixture
def repeated_keys(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """ChaCha20 as users have it, keyed by a generator seeded with the test's name: a statistical test of one process has the
    same verdict on every run. Children of a fork would share the keys."""
    monkeypatch.setattr(noise.secrets, "randbits", random.Random(zlib.crc32(request.node.nodeid.encode())).getrandbits)
