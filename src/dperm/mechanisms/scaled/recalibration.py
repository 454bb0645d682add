"""Recalibration of an additive regression: its level and slope corrected by one more release.

With ρ the last residual scale, s the spread of f and h = clip((f - f₀)/s, ±1), r ≈ a + b·h is fitted to residuals clipped at ±B,
B a multiple of ρ (`reach_of`); a and b are shrunk by their noise. Small clips pull predictions to the median and make slopes too
flat where the target is skewed. `docs/theorems/additive.md` has the sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled.descent_noise import squares_beyond
from dperm.privacy import gaussian_mu
from dperm.problem import Problem
from dperm.release.asks import Asking, Publish, Sum
from dperm.release.plan import Settings, Shape, Target, Vector
from dperm.terms.additive import Level, Recalibration
from dperm.terms.affine import Features

RESIDUALS = "residuals again"
ENOUGH = 80.0  # μn of the recalibration below which its noise would do more harm than good
FAR = "sum of the residuals, cut where their tails end, that corrects the level of the predictions"
REACHES = (3.0, 4.25, 6.0, 8.5, 12.0)  # B in units of ρ, half an octave apart, as the bins of the histogram are
REST = 0.02  # of the squares of the residuals may lie beyond B
NOISY = 0.04  # largest noise of the mean of the clipped residuals, as a part of ρ, with which B grows beyond 3ρ


def affordable(problem: Problem, shape: Shape, target: Target) -> bool:
    """Whether the residuals of a least squares fit may be asked for once more: the loss, and public numbers."""
    own = rule.effective_mu(gaussian_mu(target.epsilon, target.delta) * math.sqrt(rule.SHARES["recalibration"]), target)
    plain = problem.loss.name == "squared" and problem.regularizer.name == "none" and problem.data.intercept != 0
    return plain and own * shape.n >= ENOUGH


def recalibrated(
    public: rule.Public, spectrum: Vector, theta: Vector, features: Features, released: dict[str, Any],
    *, straight: bool, far: bool,
) -> Asking[tuple[Vector, Settings]]:  # fmt: skip
    """θ with level and slope corrected: r ≈ a + b·clip((f - f₀)/s, ±1) over clipped residuals, each shrunk by its noise.

    Small clips pull predictions to the median and make slopes too flat where the target is skewed. Of a `straight` model, which
    is fitted where there is much noise, the level alone is corrected. `far`: residuals are clipped where their tails end.
    """
    place = public.shape.d  # the intercept is behind the columns
    spread = max(math.sqrt(float(np.sum(np.delete(theta, place) ** 2 * spectrum))), 1e-3)  # if columns were independent
    released["level and spread"] = yield Publish("level and spread", lambda: [float(theta[place]), spread])
    centre, spread = (float(value) for value in released["level and spread"])
    term = Recalibration(features, theta, centre, spread, 1.0)
    bound, noise = bound_and_noise(public, released, "recalibration", term.sensitivity(public.target.relation), far)
    released["recalibration"] = sums = yield Sum("recalibration", replace(term, bound=bound))
    most = 1.0 if far else 0.5
    level, slope = correction(np.asarray(sums), bound, spread, noise, public.shape.n, straight=straight, most=most)
    factor = 1.0 + slope / spread
    theta = np.concatenate([theta[:place] * factor, [theta[place] + level], theta[place + 1 :] * factor])
    return theta, {"recalibrated_level": level, "recalibrated_factor": factor, **({"recalibrated_within": bound} if far else {})}


def levelled(
    public: rule.Public, theta: Vector, features: Features, released: dict[str, Any], *, far: bool
) -> Asking[tuple[Vector, Settings]]:
    """θ with its level corrected by the mean of the clipped residuals, shrunk by its noise: what a line has of all this."""
    shape, term = public.shape, Level(features, theta, 1.0)
    bound, noise = bound_and_noise(public, released, "level", term.sensitivity(public.target.relation), far)
    (total,) = released["level"] = yield Sum("level", replace(term, bound=bound))
    level = shrunk(bound * float(total) / shape.n, bound * noise / shape.n)
    theta = np.concatenate([theta[: shape.d], [theta[shape.d] + level], theta[shape.d + 1 :]])
    return theta, {"recalibrated_level": level, "recalibrated_factor": 1.0, **({"recalibrated_within": bound} if far else {})}


def bound_and_noise(
    public: rule.Public, released: Mapping[str, Any], stage: str, sensitivity: float, far: bool
) -> tuple[float, float]:
    """(B, standard deviation of the noise of a sum of r/B).

    B = 3ρ, and where the residuals have tails the next of `REACHES` beyond which at most 2 % of their squares lie, as far as the
    noise of a mean, which grows with B, stays a small part of ρ.
    """
    scale = rule.residual_scale(public, released, RESIDUALS)
    noise = sensitivity * public.target.rows_per_person / public.budget[stage]
    quiet = [reach for reach in REACHES[1:] if far and reach * noise / public.shape.n <= NOISY]
    bounds = [reach * scale for reach in (REACHES[0], *quiet)]
    counts, width, own = np.asarray(released[RESIDUALS]), public.problem.data.y.width, public.count_noise(RESIDUALS)
    return next((bound for bound in bounds if squares_beyond(counts, width, bound, own) <= REST), bounds[-1]), noise


def correction(
    sums: Vector, bound: float, spread: float, noise: float, n: int, *, straight: bool = False, most: float = 0.5
) -> tuple[float, float]:
    """(a, b) of r ≈ a + b·h from Σ(r/B, rh/B, h, h²); each shrunk by (1 - noise²/value²)₊, -s/2 ≤ b ≤ `most`·s, b = 0 if
    `straight`.

    >>> correction(np.array([10.0, 0.0, 0.0, 25.0]), 1.0, 1.0, 0.0, 100)
    (0.1, 0.0)
    """
    residual, cross, mean, square = sums * np.array([bound, bound, 1.0, 1.0]) / n
    variance = float(square - mean**2)
    slope = 0.0
    if not straight and variance > max(0.02, 2.5 * noise / n):  # it stands out of its noise
        slope = shrunk(float(cross - residual * mean) / variance, bound * noise / (n * variance))
        slope = min(max(slope, -0.5 * spread), most * spread)
    return shrunk(float(residual - slope * mean), bound * noise / n), slope


def shrunk(value: float, noise: float) -> float:
    """value·(1 - noise²/value²)₊."""
    return 0.0 if abs(value) <= noise else value * (1.0 - (noise / value) ** 2)
