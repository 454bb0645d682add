"""Last-iterate accounting (skeleton)."""

from __future__ import annotations

import math


def hidden_state_mu(
    steps: float,
    step_size: float,
    noise: float,
    sensitivity: float,
    smoothness: float,
    strong_convexity: float = 0.0,
    diameter: float = math.inf,
) -> float:
    raise NotImplementedError
