"""Coordinates in which released second moments look uncorrelated: z = T·(scale∘(x - shift)), T = C^(-1/2).

C is the correlation matrix of the released moments, drawn towards the identity by the part a of it that is not noise:

    off-diagonal of C = a·R_ij,   a = max(0, 1 - Σ noise²/Σ R_ij²),   eigenvalues of C raised to max(¼·edge, 0.01)

`edge` is the norm that noise alone would reach, twice its largest row norm. Where noise is all there is, a = 0 and T = I. T is a
function of the matrix C and not of its eigenvectors, so near-equal eigenvalues do no harm. `docs/theorems/intervals.md` says why
it costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dperm.mechanisms.scaled import coordinates, scaling
from dperm.release.plan import Settings, Vector
from dperm.terms.moments import smat

CUT, LEAST = 0.25, 0.01  # floors of an eigenvalue of C: in units of the noise edge, and at least


@dataclass(frozen=True, eq=False)
class Whitened(scaling.Scaled):
    """Rows that are turned as well, so that their columns are uncorrelated as far as the released moments tell."""

    turn: Vector | None = None


def whitened(scaled: scaling.Scaled, moments: Vector, noise: float, n: int, groups: Sequence[int], intercept: float) -> Whitened:
    """`scaled` with `turn` (T) and the size S of the rows in these coordinates.

    moments   svec of the released second moments of the centred rows
    noise     their deviation on the diagonal; off it they have 1/√2 of it
    groups    the one-hot group of each column: what its levels add up to is known, and kept as it is
    """
    scale = scaled.scale
    d = len(scale)
    outer = np.outer(scale, scale) / n
    seen = smat(moments, d) * outer
    off = seen - np.diag(np.diag(seen))
    spread = noise / math.sqrt(2.0) * outer * (1.0 - np.eye(d))
    signal = max(0.0, 1.0 - float(np.sum(spread**2)) / max(float(np.sum(off**2)), 1e-300))
    edge = 2.0 * signal * math.sqrt(float(np.max(np.sum(spread**2, axis=1), initial=0.0)))
    known = _level_sums(scale, groups)
    apart = np.eye(d) - known @ known.T
    values, vectors = np.linalg.eigh(apart @ (np.eye(d) + signal * off) @ apart + known @ known.T)
    values = np.maximum(values, max(CUT * edge, LEAST))
    turn = (vectors / np.sqrt(values)) @ vectors.T
    inside = np.einsum("ij,jk,ki->i", vectors.T, seen, vectors)
    size = max(1.0, float(np.sum(np.maximum(inside, 0.0) / values)))
    size = math.sqrt((1.0 if intercept else 0.0) + size)
    symmetric = (turn + turn.T) / 2.0
    return Whitened(scaled.shift, scaled.scale, size, scaled.centred_radius, scaled.mean_reach, scaled.fill, turn=symmetric)


def _level_sums(scale: Vector, groups: Sequence[int]) -> Vector:
    """Orthonormal directions of scaled rows along which the levels of a one-hot group add up to a constant."""
    found = [np.where([other == group for other in groups], 1.0 / scale, 0.0) for group in sorted({g for g in groups if g >= 0})]
    return np.linalg.qr(np.array(found).T)[0] if found else np.zeros((len(scale), 0))


def coefficients(theta: Vector, scaled: Settings, intercept: float) -> Vector:
    """Coefficients of encoded rows from those of the turned ones; rows of `theta` are separate vectors."""
    return coordinates.original_coefficients(_turned(theta, scaled), scaled, intercept)


def pulled_back(gradient: Vector, scaled: Settings, intercept: float) -> Vector:
    """The transpose of `coefficients`."""
    return _turned(coordinates.pulled_back(gradient, scaled, intercept), scaled)


def map_norm(scaled: Settings, intercept: float) -> float:
    """Bound on the norm of `coefficients`."""
    turn = scaled.get("turn")
    return coordinates.map_norm(scaled, intercept) * (1.0 if turn is None else max(1.0, float(np.linalg.norm(turn, 2))))


def _turned(theta: Vector, scaled: Settings) -> Vector:
    """T on the slopes: it is symmetric, so this is also what its transpose does."""
    turn = scaled.get("turn")
    if turn is None:
        return theta
    d = len(turn)
    return np.concatenate([theta[..., :d] @ turn, theta[..., d:]], axis=-1)


def flat_directions(groups: Sequence[int], scaled: Settings) -> Vector:
    """Orthonormal directions of θ that no row with a declared level can tell, one per one-hot group beside the intercept.

    Σ_j z_j/scale_j = Σ_j (x_j - shift_j) = 1 - Σ_j shift_j over the levels of a group: levels and intercept may move against each
    other without moving a margin. In turned coordinates the direction is T⁻¹ of it.
    """
    scale, shift = np.asarray(scaled["scale"]), np.asarray(scaled["shift"])
    found = []
    for group in sorted({group for group in groups if group >= 0}):
        levels = np.array([other == group for other in groups])
        slopes = np.where(levels, 1.0 / scale, 0.0)
        if scaled.get("turn") is not None:
            slopes = np.linalg.solve(scaled["turn"], slopes)
        direction = np.append(slopes, -(1.0 - float(np.sum(shift[levels]))))
        found.append(direction / np.linalg.norm(direction))
    return np.linalg.qr(np.array(found).T)[0] if found else np.zeros((len(scale) + 1, 0))
