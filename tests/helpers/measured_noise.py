"""Noise as it was drawn, in units of what was booked."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from dperm.release.driver import watching
from dperm.release.noise import SecureNoise


def deviations(fit: Callable[[], object], times: int, least: int = 1) -> np.ndarray:
    """(value - exact)/scale of every number that is released by `times` fits, in sums of at least so many numbers."""
    found: list[np.ndarray] = []
    with watching(lambda drawn: found.append(np.ravel(drawn.value - drawn.exact) / drawn.scale)):
        for _ in range(times):
            fit()
    return np.concatenate([one for one in found if len(one) >= least])


def spread_when_halved(
    monkeypatch: pytest.MonkeyPatch, fit: Callable[[], object], times: int, least: int = 1
) -> Iterator[tuple[float, float, float]]:
    """(factor, spread, error): the standard deviation of all deviations with the sampler as it is and halved, and five standard
    errors (1e-6)."""
    plain = SecureNoise.normal
    for factor in (1.0, 0.5):
        monkeypatch.setattr(SecureNoise, "normal", lambda self, scale, size, f=factor: f * plain(self, scale, size))
        found = deviations(fit, times, least)
        yield factor, float(np.std(found)), float(5 / np.sqrt(2 * len(found)))
