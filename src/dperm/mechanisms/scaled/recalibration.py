"""Recalibration of an additive regression: its level and slope corrected by one more release.

With ρ the last residual scale, s the spread of f and h = clip((f - f₀)/s, ±1), r ≈ a + b·h is fitted to residuals clipped at ±3ρ;
a and b are shrunk by their noise. Small clips pull predictions to the median and make slopes too flat where the target is
skewed. `docs/theorems/additive.md` has the sensitivity.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dperm.mechanisms.scaled import settings as rule
from dperm.release.asks import Asking, Publish, Sum
from dperm.release.plan import Settings, Vector
from dperm.terms.additive import Level, Recalibration
from dperm.terms.affine import Features


def recalibrated(
    public: rule.Public, spectrum: Vector, theta: Vector, features: Features, released: dict[str, Any], straight: bool
) -> Asking[tuple[Vector, Settings]]:
    """θ with level and slope corrected: r ≈ a + b·clip((f - f₀)/s, ±1) over clipped residuals, each shrunk by its noise.

    Small clips pull predictions to the median and make slopes too flat where the target is skewed. Of a `straight` model, which
    is fitted where there is much noise, the level alone is corrected.
    """
    place, target = public.shape.d, public.target  # the intercept is behind the columns
    spread = max(math.sqrt(float(np.sum(np.delete(theta, place) ** 2 * spectrum))), 1e-3)  # if columns were independent
    released["level and spread"] = yield Publish("level and spread", lambda: [float(theta[place]), spread])
    centre, spread = (float(value) for value in released["level and spread"])
    term = Recalibration(features, theta, centre, spread, 3.0 * rule.residual_scale(public, released, "residuals again"))
    released["recalibration"] = sums = yield Sum("recalibration", term)
    noise = term.sensitivity(target.relation) * target.rows_per_person / public.budget["recalibration"]
    level, slope = correction(np.asarray(sums), term.bound, spread, noise, public.shape.n, straight=straight)
    factor = 1.0 + slope / spread
    theta = np.concatenate([theta[:place] * factor, [theta[place] + level], theta[place + 1 :] * factor])
    return theta, {"recalibrated_level": level, "recalibrated_factor": factor}


def levelled(public: rule.Public, theta: Vector, features: Features, released: dict[str, Any]) -> Asking[tuple[Vector, Settings]]:
    """θ with its level corrected by the mean of the clipped residuals, shrunk by its noise: what a line has of all this."""
    shape, target = public.shape, public.target
    term = Level(features, theta, 3.0 * rule.residual_scale(public, released, "residuals again"))
    (total,) = released["level"] = yield Sum("level", term)
    noise = term.sensitivity(target.relation) * target.rows_per_person / public.budget["level"]
    level = shrunk(term.bound * float(total) / shape.n, term.bound * noise / shape.n)
    theta = np.concatenate([theta[: shape.d], [theta[shape.d] + level], theta[shape.d + 1 :]])
    return theta, {"recalibrated_level": level, "recalibrated_factor": 1.0}


def correction(sums: Vector, bound: float, spread: float, noise: float, n: int, *, straight: bool = False) -> tuple[float, float]:
    """(a, b) of r ≈ a + b·h from Σ(r/B, rh/B, h, h²); each shrunk by (1 - noise²/value²)₊, |b| ≤ s/2, b = 0 if `straight`.

    >>> correction(np.array([10.0, 0.0, 0.0, 25.0]), 1.0, 1.0, 0.0, 100)
    (0.1, 0.0)
    """
    residual, cross, mean, square = sums * np.array([bound, bound, 1.0, 1.0]) / n
    variance = float(square - mean**2)
    slope = 0.0
    if not straight and variance > max(0.02, 2.5 * noise / n):  # it stands out of its noise
        slope = shrunk(float(cross - residual * mean) / variance, bound * noise / (n * variance))
        slope = min(max(slope, -spread / 2.0), spread / 2.0)
    return shrunk(float(residual - slope * mean), bound * noise / n), slope


def shrunk(value: float, noise: float) -> float:
    """value·(1 - noise²/value²)₊."""
    return 0.0 if abs(value) <= noise else value * (1.0 - (noise / value) ** 2)
