"""Data for linear separators, realisable and agnostic (lecture 000 item 7). Randomness comes in as an
argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dperm.theory.checks import count, fraction, non_negative

Size = int | tuple[int, ...]


class Generator(Protocol):
    """The part of numpy's Generator that is used here; pure modules import no generator of their own."""

    def random(self, size: Size, /) -> np.ndarray: ...
    def standard_normal(self, size: Size, /) -> np.ndarray: ...
    def standard_gamma(self, shape: float, /, size: Size) -> np.ndarray: ...


@dataclass(frozen=True)
class Sample:
    """X in [0,1]^d, labels ±1, and the separator: sign(⟨w, x⟩ + bias), ‖w‖ = 1."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    w: NDArray[np.float64]
    bias: float

    @property
    def augmented(self) -> NDArray[np.float64]:
        """(x, 1): the homogeneous form, in which the bias is one more weight."""
        return np.column_stack([self.X, np.ones(len(self.X))])

    @property
    def weights(self) -> NDArray[np.float64]:
        """(w, bias) for `augmented` rows."""
        return np.append(self.w, self.bias)


def make_separable(generator: Generator, n: int, d: int, margin: float = 0.05) -> Sample:
    """x uniform on {x in [0,1]^d : |⟨w,x⟩ + bias| ≥ margin}, y = sign(⟨w,x⟩ + bias): realisable.

    w is a uniform direction and the boundary passes through the cube's centre, so both labels have
    probability ½. No record lies on the boundary (sign(0) is no label, erratum E33), whatever the margin.

    >>> import numpy as np
    >>> sample = make_separable(np.random.default_rng(0), 100, 2, margin=0.1)
    >>> bool(np.all(sample.y * (sample.X @ sample.w + sample.bias) >= 0.1))
    True
    """
    n, d, margin = count("n", n), count("d", d), non_negative("margin", margin)
    w = np.asarray(generator.standard_normal(d), dtype=float)
    w /= np.linalg.norm(w)
    bias = -float(w.sum()) / 2
    # the cube's corner farthest from the boundary is Σ|w|/2 away; beyond half of that, rejection would crawl
    if margin > float(np.abs(w).sum()) / 4:
        raise ValueError(
            f"Expected margin <= {float(np.abs(w).sum()) / 4:.3g} for this direction, found {margin}. Pass a smaller margin."
        )
    kept = np.empty((0, d))
    while len(kept) < n:
        X = np.asarray(generator.random((2 * n + 64, d)), dtype=float)
        distance = np.abs(X @ w + bias)
        kept = np.concatenate([kept, X[(distance >= margin) & (distance > 0)]])
    X = kept[:n]
    return Sample(X, np.where(X @ w + bias > 0, 1.0, -1.0), w, bias)


def make_agnostic(generator: Generator, n: int, d: int, flip: float = 0.1, margin: float = 0.0) -> Sample:
    """`make_separable` with each label flipped independently with probability `flip` < ½.

    The separator stays the best classifier, and its population error is exactly `flip`.

    >>> import numpy as np
    >>> sample = make_agnostic(np.random.default_rng(0), 10_000, 3, flip=0.2)
    >>> wrong = np.mean(sample.y * (sample.X @ sample.w + sample.bias) < 0)
    >>> bool(abs(wrong - 0.2) < 0.02)
    True
    """
    if fraction("flip", flip) >= 0.5:
        raise ValueError(f"Expected flip < 1/2, found {flip}. Pass a smaller share of flipped labels.")
    clean = make_separable(generator, n, d, margin)
    flips = np.asarray(generator.random(len(clean.y))) < flip
    return Sample(clean.X, np.where(flips, -clean.y, clean.y), clean.w, clean.bias)


def make_separators(generator: Generator, hypotheses: int, d: int) -> NDArray[np.float64]:
    """A finite class: `hypotheses` random separators (w, -⟨w,½⟩) through the cube's centre, one per row, for
    (x, 1).

    >>> import numpy as np
    >>> make_separators(np.random.default_rng(0), 5, 2).shape
    (5, 3)
    """
    directions = np.asarray(generator.standard_normal((count("hypotheses", hypotheses), count("d", d))), dtype=float)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return np.column_stack([directions, -directions.sum(axis=1) / 2])
