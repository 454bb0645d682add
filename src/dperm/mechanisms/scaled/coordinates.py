"""From coefficients of centred and scaled columns to those of encoded rows, and back for gradients."""

from __future__ import annotations

import math

import numpy as np

from dperm.problem import Problem
from dperm.release.plan import Settings, Vector
from dperm.terms.affine import Features


def features_of(problem: Problem, scaled: Settings) -> Features:
    """z = (scale∘(x - shift), 1), or without the 1 when the problem has no intercept."""
    return Features(1.0 if problem.data.intercept else 0.0, np.asarray(scaled["shift"]), np.asarray(scaled["scale"]))


def map_norm(scaled: Settings, intercept: float) -> float:
    """Bound on the norm of θ ↦ w: w = scale∘θ, and the intercept takes -⟨shift, w⟩ along."""
    largest = float(np.max(scaled["scale"], initial=1.0))
    if not intercept:
        return largest
    return math.hypot(largest, (1.0 + float(np.linalg.norm(scaled["shift"] * scaled["scale"]))) / intercept)


def original_coefficients(theta: Vector, scaled: Settings, intercept: float) -> Vector:
    """Coefficients of encoded rows from those of z = (scale∘(x - shift), 1): linear, so it commutes with averaging."""
    scale, shift = np.asarray(scaled["scale"]), np.asarray(scaled["shift"])
    d = len(scale)
    slopes = theta[..., :d] * scale
    if not intercept:
        return np.asarray(slopes)
    constant = (theta[..., d] - slopes @ shift) / intercept
    return np.concatenate([slopes, np.asarray(constant)[..., None]], axis=-1)


def pulled_back(gradient: Vector, scaled: Settings, intercept: float) -> Vector:
    """The transpose of `original_coefficients`: a gradient in w becomes one in θ."""
    scale, shift = np.asarray(scaled["scale"]), np.asarray(scaled["shift"])
    d = len(scale)
    if not intercept:
        return np.asarray(gradient[..., :d] * scale)
    constant = gradient[..., d] / intercept
    return np.concatenate([scale * (gradient[..., :d] - constant[..., None] * shift), constant[..., None]], axis=-1)
