"""Seeded noise that writes down the scale of every draw."""

from __future__ import annotations

from typing import Any

from dperm.release.noise import SeededNoise


class Recording(SeededNoise):
    """Seeded noise that writes down the scale of every draw."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.drawn: list[float] = []

    def normal(self, scale: float, size: Any) -> Any:
        self.drawn.append(scale)
        return super().normal(scale, size)
