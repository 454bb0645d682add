"""Terms: what one row adds to a sum, with the clip that makes its sensitivity a fact."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dperm.problem import Loss
from dperm.problem.arrays import Array, Vector
from dperm.rows.base import BLOCK_ROWS, Block, Thinned
from dperm.rows.exact import Pair
from dperm.terms import device
from dperm.terms.affine import Features
from dperm.terms.gridded import Grid, Pulled, gridded, in_steps, scaled

if TYPE_CHECKING:
    from dperm.rows.device import DeviceRows

ROOM = 2.0**20  # how much longer than was assumed a row may be before it is cut, where nothing is clipped


@dataclass(frozen=True, eq=False)
class GradientTerm(Pulled):
    """clip_C(weight · slope(⟨z, w⟩, y) · z), flattened.

    A GLM gradient is a number (or K numbers) times the row, so its norm is ‖slope‖·‖z‖ and clipping rescales the slope: no
    per-row gradient is ever formed. For a scalar margin this equals the gradient of a convex, Huberised loss.

    **Sensitivity** κC: each row's clipped gradient has norm ≤ C; replacing a row changes the sum by the difference of two such
    vectors (2C), nulling or removing it by one (C).
    """

    loss: Loss
    w: Vector
    clip: float
    features: Features

    @property
    def outputs(self) -> int:
        return self.loss.margins

    def slopes(self, block: Block, grid: Grid) -> Vector:
        slopes = self.plain_slopes(block, grid)
        return slopes if block.weight is None else scaled(slopes, block.weight)

    def plain_slopes(self, block: Block, grid: Grid) -> Vector:
        """φ' of every row, before weight and clip."""
        weights = self.w if self.loss.margins == 1 else self.w.reshape(self.loss.margins, -1)
        return np.asarray(self.loss.slope(grid.margins(weights), block.y), dtype=np.float64)

    device_pairs = device.gradient

    def device_sum(self, rows: DeviceRows, weight: Array | None) -> Vector | None:
        found = device.fused_sum(rows, self, weight, None)
        return device.integer_sum(rows, self, weight) if found is None else found


class UnclippedGradientTerm(GradientTerm):
    """The gradient as it is, with a bound taken on trust ("by assumption"). A row that breaks the assumption breaks privacy.

    `docs/theorems/gradient.md` measures how: without a clip the privacy loss of two neighbours grows without limit.
    """

    def factors(self, block: Block) -> list[Pair]:
        """Two left factors, a = high·2²⁰ + low, for rows up to 2²⁰ times as long as was assumed; longer ones are cut there."""
        grid = gridded(block, self.features)
        steps = np.rint(in_steps(self.slopes(block, grid), grid, self.clip))
        steps = steps if steps.ndim == 2 else steps[:, None]
        most = (np.floor(grid.limit) * ROOM)[:, None]
        steps = np.minimum(np.maximum(steps, -most), most)
        high = np.floor(steps / ROOM)
        return grid.pairs(np.concatenate([high, steps - high * ROOM], axis=1))

    def units(self, total: NDArray[np.longdouble]) -> Vector:
        high, low = total[:-1].reshape(2, -1)
        return super().units(np.append(high * ROOM + low, total[-1]))

    @property
    def row_bound(self) -> float:
        return self.clip * ROOM  # room on the integer grid for rows that break the assumption

    device_pairs = device.unclipped


@dataclass(frozen=True, eq=False)
class SampledTerm(Thinned):
    """Another term on a Poisson sample of the rows: row i joins step t with probability `rate`, by a keyed function of (t, i).

    i is the number of the row, or, on engines that keep no order, a key that no other row has. What a row holds is no such key:
    equal rows would join together, two of them would count as one that is twice as long, and the amplification is gone.
    The sample must stay secret, so the key comes from the noise source; being a function, it gives a retried or moved block the
    same rows again. The privacy of the sampling is booked as `Sampled`, at the rate of `person_rate`.
    """

    rate: float
    key: int
    step: int

    def joined(self, start: int | NDArray[np.void] | None, count: int) -> Vector:
        """1 for the rows of a block that join, 0 for the others; `start` is the block's first row, or the keys of its rows."""
        if start is None:
            raise ValueError("Expected rows with numbers or keys for a sample, found rows without. Nothing was released.")
        if isinstance(start, np.ndarray):
            return self._joined_by_keys(start)
        before = start % BLOCK_ROWS  # every 8,192 rows have a stream: where an engine cuts its blocks does not matter
        streams = [
            np.random.Philox(key=self.key, counter=[0, 0, first, self.step])
            for first in range(start - before, start + max(count, 1), BLOCK_ROWS)
        ]
        uniform = np.concatenate([np.random.Generator(stream).random(BLOCK_ROWS) for stream in streams])
        return (uniform[before : before + count] < self.rate).astype(np.float64)

    def _joined_by_keys(self, keys: NDArray[np.void]) -> Vector:
        """BLAKE2 under the secret key as a uniform number in [0, 1) for every (step, row key)."""
        told = hashlib.blake2b(self.step.to_bytes(8, "big"), digest_size=8, key=self.key.to_bytes(8, "big"))
        found = bytearray()
        for key in keys.tolist():
            one = told.copy()
            one.update(key)
            found += one.digest()
        uniform = np.frombuffer(bytes(found), dtype=">u8").astype(np.float64) * 2.0**-64
        return (uniform < self.rate).astype(np.float64)


def person_rate(rate: float, rows: int) -> float:
    """1 - (1 - rate)^k: probability that at least one of a person's k rows joins; the rate that `Sampled` must be booked with.

    **Guarantee**: with that probability the sum moves by some v, ‖v‖ ≤ k·C, otherwise not at all. The mixture over v is dominated
    by its longest v (joint convexity), which is `Sampled(person_rate, Gaussian(μ))` for noise k·C/μ. Booking `rate` itself would
    be wrong: for k = 2, rate = 0.01, μ = 4 the true δ(0) is 0.0136 and that event says 0.0095.

    >>> person_rate(0.01, 1), round(person_rate(0.01, 2), 6)
    (0.01, 0.0199)
    """
    return rate if rows == 1 else 1.0 - (1.0 - rate) ** rows
