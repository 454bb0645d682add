"""Terms: what one row adds to a sum, with the clip that makes its sensitivity a fact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.privacy import kappa
from dperm.problem import Loss
from dperm.rows.base import Block, SeenThrough
from dperm.terms.affine import Features

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GradientTerm:
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

    def __call__(self, block: Block) -> Vector:
        margins = self.loss.margins
        weights = self.w if margins == 1 else self.w.reshape(margins, -1)
        slopes = np.asarray(self.loss.slope(self.features.margins(block.X, weights), block.y))
        if block.weight is not None:
            slopes = slopes * (block.weight if margins == 1 else block.weight[:, None])
        slopes = self.limited(slopes, block)
        return self.features.pull(block.X, slopes).reshape(-1)

    def limited(self, slopes: Vector, block: Block) -> Vector:
        """Slopes scaled down so that no row's gradient is longer than `clip`."""
        if slopes.ndim == 1:
            low, high = self._limits(block, slopes.dtype)
            return np.maximum(np.minimum(slopes, high), low)
        lengths = np.linalg.norm(slopes, axis=1) * self.features.norms(block)
        return np.asarray(slopes * (self.clip / np.maximum(lengths, self.clip))[:, None])

    def _limits(self, block: Block, dtype: Any) -> tuple[Vector, Vector]:
        """(-C/‖z‖, C/‖z‖) of every row, kept with the block until another clip or map asks.

        In the precision of the slopes: half a unit of float32 is far inside the release slack.
        """
        asked = (self.features.key, self.clip, np.dtype(dtype).str)
        kept = block.memory.get("limits")
        if kept is None or kept[0] != asked:
            high = (self.clip / np.maximum(self.features.norms(block), 1e-30)).astype(dtype, copy=False)
            kept = (asked, (-high, high))
            block.memory["limits"] = kept
        limits: tuple[Vector, Vector] = kept[1]
        return limits

    def sensitivity(self, relation: str) -> float:
        return kappa(relation) * self.clip

    @property
    def row_bound(self) -> float:
        return self.clip


@dataclass(frozen=True, eq=False)
class UnclippedGradientTerm(GradientTerm):
    """The gradient as it is, with a bound taken on trust ("by assumption"). A row that breaks the assumption breaks privacy.

    `docs/theorems/gradient.md` measures how: without a clip the privacy loss of two neighbours grows without limit.
    """

    def limited(self, slopes: Vector, block: Block) -> Vector:
        return slopes

    @property
    def row_bound(self) -> float:
        return self.clip * 2.0**20  # room on the integer grid for rows that break the assumption


@dataclass(frozen=True, eq=False)
class SampledTerm(SeenThrough):
    """Another term on a Poisson sample of the rows: row i joins step t with probability `rate`, by a keyed function of (t, i).

    The sample must stay secret, so the key comes from the noise source; being a function, it gives a retried or moved block the
    same rows again. The privacy of the sampling is booked as `Sampled`, at the rate of `person_rate`.
    """

    rate: float
    key: int
    step: int

    def __call__(self, block: Block) -> Vector:
        joined = self.joined(block.start, len(block.y))
        weight = joined if block.weight is None else joined * block.weight
        return np.asarray(self.term(Block(block.X, block.y, weight, block.start, block.memory)))

    def joined(self, start: int, count: int) -> Vector:
        """1 for the rows of a block that join, 0 for the others; `start` is the block's first row."""
        stream = np.random.Philox(key=self.key, counter=[0, 0, start, self.step])
        return (np.random.Generator(stream).random(count) < self.rate).astype(np.float64)


def person_rate(rate: float, rows: int) -> float:
    """1 - (1 - rate)^k: probability that at least one of a person's k rows joins; the rate that `Sampled` must be booked with.

    **Guarantee**: with that probability the sum moves by some v, ‖v‖ ≤ k·C, otherwise not at all. The mixture over v is dominated
    by its longest v (joint convexity), which is `Sampled(person_rate, Gaussian(μ))` for noise k·C/μ. Booking `rate` itself would
    be wrong: for k = 2, rate = 0.01, μ = 4 the true δ(0) is 0.0136 and that event says 0.0095.

    >>> person_rate(0.01, 1), round(person_rate(0.01, 2), 6)
    (0.01, 0.0199)
    """
    return rate if rows == 1 else 1.0 - (1.0 - rate) ** rows
