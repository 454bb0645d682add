"""The width h within which rows tell the curvature of a quantile, for `scaled-inference`.

The mean of the score 1{r > 0} - q is 0 at the quantile itself. Only the slope of that mean, the density at the quantile, needs a
width: it is taken to be (share of rows with |r| ≤ h)/(2h). h is the |r| below which a fixed share of the rows lies, read off a
released histogram of |r|. So it follows the density where the quantile is, and not the residuals on its other side.

For normal errors the density is so understated by 7 % (q = 0.5) and 5 % (0.75) and overstated by 2 % (0.9), 5 % (0.95) and
7 % (0.99): a share that grew further beyond a tail would make intervals too short.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dperm.mechanisms.scaled import settings as rule

TAIL, LARGEST_SHARE = 1.8, 0.5
NARROWEST, WIDEST = 0.05, 1.0  # of the residuals' scale: where many labels are equal, and where noise hides the histogram
HISTOGRAM_SHARE = 0.02  # of μ²
LEAST_STEPS, MOST_STEPS = 300, 600
# Longest flow time. A path that noise moves by δ sees the quantile moved outward by about E[δ²]/2 times the slope of the
# density's logarithm, and E[δ²] grows with the flow time; a shorter one has not arrived where columns explain nearly everything.
LONGEST = 30.0
FASTER = 1.5  # how much longer steps are before the window, for the way


def near_share(level: float) -> float:
    """Share of the rows that tell the curvature.

    >>> near_share(0.5), round(near_share(0.9), 3)
    (0.5, 0.18)
    """
    return min(TAIL * min(level, 1.0 - level), LARGEST_SHARE)


def near_width(counts: ArrayLike, top: float, share: float) -> float:
    """The |r| below which this share of the rows lies by a noisy histogram of |r|, as if rows were spread evenly in a bin.

    >>> near_width(np.r_[[0.0, 0.0, 100.0], np.zeros(21)], 4.0, 1.0), round(near_width(np.full(24, 1.0), 1.0, 0.5), 4)
    (2.0, 0.0156)
    """
    within = np.maximum.accumulate(np.cumsum(np.asarray(counts, dtype=np.float64)[::-1]))[::-1]  # rows up to top·2^(-k/2)
    wanted = share * max(float(within[0]), 1.0)
    place = max(int(np.count_nonzero(within >= wanted)) - 1, 0)
    below = max(float(within[place + 1]), 0.0) if place + 1 < len(within) else 0.0
    part = (wanted - below) / max(float(within[place]) - below, 1e-9)
    low, high = (float(top * 2.0 ** (-(place + step) / 2)) for step in (1, 0))
    return low + (high - low) * min(max(part, 0.0), 1.0)


def width_of(public: rule.Public, counts: ArrayLike, scale: float) -> float:
    """h, kept within a twentieth of the residuals' scale and that scale."""
    share = near_share(float(public.problem.loss.level))  # type: ignore[attr-defined]
    found = near_width(counts, public.problem.data.y.width, share)
    return min(max(found, NARROWEST * scale), WIDEST * scale)
