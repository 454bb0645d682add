"""Sums by compiled loops, or without them, whatever the process has loaded so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import pytest

from dperm.rows.compiled import LOADER, Kernels, load


@cache
def kernels() -> Kernels:
    """The compiled loops. `make setup` installs Numba; a machine without it has nothing to test here."""
    pytest.importorskip("numba", reason="compiled products need Numba: pip install dperm[fast]")
    found = load()
    assert found is not None
    return found


@contextmanager
def multiplying_by(loops: Kernels | None) -> Iterator[None]:
    """Products by these loops, or by BLAS alone."""
    before = LOADER.tried, LOADER.kernels
    LOADER.tried, LOADER.kernels = True, loops
    try:
        yield
    finally:
        LOADER.tried, LOADER.kernels = before


def watched(see: Callable[..., None]) -> Kernels:
    """The compiled loops, with every product shown: its name, its two factors and, afterwards, what was found."""
    loops = kernels()

    def shown(name: str, run: Callable[..., None]) -> Callable[..., None]:
        def loop(*arrays: object) -> None:
            run(*arrays)
            see(name, *arrays)

        return loop

    return replace(loops, into_margins=shown("margins", loops.into_margins), into_pulled=shown("pulled", loops.into_pulled))
