"""Bands of the shapes of an additive model: from its record, and to and from its file."""

from __future__ import annotations

import numpy as np

from dperm.estimators.saving import ShapesRecord
from dperm.mechanisms.scaled.shape_noise import NORMAL, shape_noise
from dperm.problem.arrays import Vector
from dperm.release.record import CertificateRecord
from dperm.tables.packed import unpacked
from dperm.terms.additive import CELLS
from dperm.walk.fitting import rebuilt_plan


def noise_of(record: CertificateRecord) -> Vector | None:
    """Standard deviations of the shapes at their places, from what the record holds; None where no formula covers the fit."""
    plan, problem = rebuilt_plan(record)
    return shape_noise(problem, plan, record["decided"], record["released"], unpacked(record["coefficients"]["encoded"]))


def band_of(value: Vector, noise: Vector | None, place: int, unit: float) -> Vector | None:
    """Lower and upper end over the cells of one shape; None without noise, and for a shape that was edited."""
    if noise is None or not np.isfinite(noise[place]).all():
        return None
    reach = NORMAL * unit * noise[place, :CELLS]
    return np.array([value[:CELLS] - reach, value[:CELLS] + reach])


def without_edited(noise: Vector | None, place: int) -> Vector | None:
    """No band for a shape that somebody changed: what they did is not known to follow the noise."""
    if noise is None:
        return None
    left = noise.copy()
    left[place] = np.nan
    return left


def kept_noise(noise: Vector) -> list[list[float] | None]:
    """For a model's file: a list per shape, None for an edited one."""
    return [row.tolist() if np.isfinite(row).all() else None for row in noise]


def stored_noise(shapes: ShapesRecord, wanted: tuple[int, ...]) -> Vector | None:
    """Of a model's file; files of version 0.3.0 and before hold none."""
    if "noise" not in shapes:
        return None
    rows = [np.full(wanted[1], np.nan) if row is None else np.array(row, dtype=np.float64) for row in shapes["noise"]]
    noise = np.array(rows, dtype=np.float64)
    if noise.shape != wanted or not np.all(np.isnan(noise) | (np.isfinite(noise) & (noise >= 0))):
        raise ValueError("bands that do not fit the shapes")
    return noise
