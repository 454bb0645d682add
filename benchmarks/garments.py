"""Ten classes of drawn garments: harder pictures than digits, made by a rule, with similar classes and printed cloth.

    python benchmarks/garments.py garments.npz                                   # 60,000 + 10,000 pictures of 28 × 28
    python benchmarks/heads.py --data garments.npz --jobs scattering             # the same fits as on MNIST, nothing tuned

Shirts, pullovers, coats, dresses and trousers share one body with sleeves; sandals, sneakers and boots one sole and upper; bags
have a handle. Every length is normal around its class with a spread that makes classes overlap (`--spread`). No constant of
`dperm` was chosen on them (docs/theorems/heads.md has what was measured).
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
from scipy.ndimage import uniform_filter

Array = np.ndarray
SIDE, AT_A_TIME = 28, 5_000
LINE = (np.arange(SIDE) - (SIDE - 1) / 2) / (SIDE / 2)
Y, X = LINE[None, :, None], LINE[None, None, :]
CLOTH, SHOE, BAG = 0, 1, 2
#              tee   trousers pullover dress coat sandal shirt sneaker bag boot
KIND = np.array([CLOTH, CLOTH, CLOTH, CLOTH, CLOTH, SHOE, CLOTH, SHOE, BAG, SHOE])
HALF = np.array([0.38, 0.30, 0.40, 0.26, 0.40, 0.0, 0.38, 0.0, 0.60, 0.0])
LENGTH = np.array([0.72, 0.86, 0.74, 0.88, 0.84, 0.0, 0.76, 0.0, 0.42, 0.0])
FLARE = np.array([0.0, 0.05, 0.02, 0.22, 0.08, 0.0, 0.02, 0.0, 0.05, 0.0])
WAIST = np.array([0.0, 0.0, 0.0, -0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
SLEEVE = np.array([0.38, 0.0, 0.95, 0.12, 0.95, 0.0, 0.70, 0.0, 0.0, 0.0])
BUTTONED = np.array([0.05, 0.0, 0.08, 0.05, 0.75, 0.0, 0.45, 0.0, 0.0, 0.0])  # how often
HEIGHT = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.30, 0.0, 0.34, 0.0, 0.62])
SLOPE = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.45, 0.0, 0.38, 0.0, 0.45])
SHAFT = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.06, 0.0, 0.45])
OPEN = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.85, 0.0, 0.06, 0.0, 0.04])


class Draw:
    """Random numbers for pictures of the given classes, one for each."""

    def __init__(self, classes: Array, spread: float, rng: np.random.Generator) -> None:
        self.y, self.spread, self.rng = classes, spread, rng

    def about(self, middles: Array | float, deviation: float) -> Array:
        """Normal around the middle of the class."""
        centre = np.broadcast_to(middles, 10)[self.y]
        return (centre + deviation * self.spread * self.rng.standard_normal(len(self.y)))[:, None, None]

    def between(self, low: float, high: float) -> Array:
        return self.rng.uniform(low, high, len(self.y))[:, None, None]

    def often(self, chances: Array) -> Array:
        return (self.rng.random(len(self.y)) < chances[self.y])[:, None, None]


def inside(distance: Array) -> Array:
    """1 inside of an edge, 0 outside, with a soft edge of about a pixel."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(18 * distance, -30, 30))))


def strip(x0: Array, y0: Array, dx: Array, dy: Array, width: Array) -> Array:
    """A thick line from (x0, y0) by (dx, dy)."""
    along = np.clip(((X - x0) * dx + (Y - y0) * dy) / (dx * dx + dy * dy + 1e-6), 0, 1)
    return inside(width - np.hypot(X - x0 - along * dx, Y - y0 - along * dy))


def cloth(draw: Draw) -> Array:
    """A body with a neck, sleeves, legs and buttons, as its class has them."""
    trousers = (draw.y == 1)[:, None, None]
    half, length = draw.about(HALF, 0.05), draw.about(LENGTH, 0.06)
    sleeve = np.clip(draw.about(SLEEVE, 0.16), 0, 1.1) * ~trousers
    width = half + draw.about(FLARE, 0.06) * (Y + length) / 2 + draw.about(WAIST, 0.05) * np.cos(2.5 * Y)
    body = inside(width - np.abs(X)) * inside(length - np.abs(Y))
    body *= 1 - inside(draw.about(0.16, 0.03) - np.hypot(X / 1.2, Y + length)) * ~trousers
    gap = draw.about(0.1, 0.03) * np.maximum(Y + 0.5, 0)
    body *= 1 - inside(gap - np.abs(X)) * trousers * (gap > 0.02)
    angle, thick = draw.between(0.9, 1.45), 0.11 + np.abs(draw.about(0.0, 0.02))
    for side in (-1.0, 1.0):
        reach = 1.25 * sleeve
        arm = strip(side * (half - 0.06), 0.14 - length, side * reach * np.cos(angle), reach * np.sin(angle), thick)
        body = np.maximum(body, arm * (sleeve > 0.05))
    return np.asarray(body * (1 - 0.6 * draw.often(BUTTONED) * inside(0.03 - np.abs(X))))


def shoe(draw: Draw) -> Array:
    """A sole, an upper that rises towards the heel, a shaft; open ones have straps."""
    sole = inside(0.10 - np.abs(Y - draw.about(0.42, 0.04))) * inside(0.88 - np.abs(X))
    top = 0.42 - draw.about(HEIGHT, 0.09) - draw.about(SLOPE, 0.1) * X + 0.12 * draw.spread * np.sin(3 * X + draw.about(0.0, 0.8))
    top = top - np.maximum(draw.about(SHAFT, 0.1), 0) * inside(X - 0.12)
    upper = inside(Y - top) * inside(0.42 - Y) * inside(0.86 - np.abs(X))
    straps = np.sin(draw.between(9, 16) * (X + 0.6 * Y) + draw.between(0, 2 * math.pi)) > -0.1
    return np.asarray(np.maximum(sole, upper * (1 - draw.often(OPEN) * straps)))


def bag(draw: Draw) -> Array:
    """A box with a handle."""
    half, length, drop = draw.about(HALF, 0.05), draw.about(LENGTH, 0.06), draw.between(0.1, 0.4)
    box = inside(half - np.abs(X)) * inside(length - np.abs(Y - drop))
    across = np.maximum(half, 0.05) * draw.between(0.5, 0.9)
    arc = np.hypot(X / across, (Y - drop + length) / draw.between(0.25, 0.6))
    return np.asarray(np.maximum(box, inside(0.10 - np.abs(arc - 1)) * (drop - length > Y)))


def print_of(draw: Draw) -> Array:
    """Stripes, checks, specks or nothing, around 1."""
    turn, wave, phase = draw.between(0, math.pi), draw.between(4, 22), draw.between(0, 2 * math.pi)
    stripes = np.sin(wave * (X * np.cos(turn) + Y * np.sin(turn)) + phase)
    checks = stripes * np.sin(wave * (Y * np.cos(turn) - X * np.sin(turn)) + phase)
    specks = 2 * uniform_filter(draw.rng.standard_normal(stripes.shape), size=(0, 3, 3), mode="reflect")
    kind = draw.rng.integers(0, 5, len(draw.y))[:, None, None]
    found = np.select([kind == 0, kind == 1, kind == 2], [stripes, checks, specks], 0.0)
    return np.clip(1 + draw.between(0.1, 0.5) * found + 0.2 * draw.rng.standard_normal(kind.shape) * Y, 0.05, 2)


def garments(classes: Array, spread: float, rng: np.random.Generator) -> Array:
    """Pictures of these classes (numbers 0 … 9), as bytes."""
    draw, shape = Draw(classes, spread, rng), np.empty((len(classes), SIDE, SIDE))
    for kind, make in ((CLOTH, cloth), (SHOE, shoe), (BAG, bag)):
        mine = KIND[classes] == kind
        shape[mine] = make(Draw(classes[mine], spread, rng))
    dust = 0.02 * np.abs(rng.standard_normal(shape.shape))
    return np.rint(255 * np.clip(shape * print_of(draw) * draw.between(0.35, 1) + dust, 0, 1)).astype(np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--spread", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, made = np.random.default_rng(options.seed), {}
    for part, count in (("train", 60_000), ("test", 10_000)):
        y = rng.integers(0, 10, count)
        pieces = [garments(y[first : first + AT_A_TIME], options.spread, rng) for first in range(0, count, AT_A_TIME)]
        made |= {f"X_{part}": np.concatenate(pieces), f"y_{part}": y.astype(np.uint8)}
    np.savez_compressed(options.file, **made)


if __name__ == "__main__":
    main()
