"""The histograms of columns that an additive model paid for: they stay in its record and can be used again for nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dperm.mechanisms.scaled.additive_poisson import additive_of
from dperm.problem.arrays import Vector
from dperm.tables.encoding import Encoding
from dperm.terms.additive import CELLS, PLACES
from dperm.walk.fitting import Release
from dperm.words.spelling import Spelt
from dperm.words.wording import grouped, printable


@dataclass(frozen=True, eq=False)
class Marginal:
    """What a fit released of one column, beside the curve that it was paid for.

    edges    of the 256 cells, in the column's units
    count    released number of rows in every cell, noise included
    missing  released number of missing cells, noise included
    noise    standard deviation of each of these numbers
    share    denoised shares of the cells, which add up to 1
    """

    name: str
    edges: Vector
    count: Vector
    missing: float
    noise: float
    share: Vector

    def __repr__(self) -> str:
        """One line: 256 numbers of each field would fill the screen."""
        ends = f"{grouped(float(self.edges[0]))} to {grouped(float(self.edges[-1]))}"
        middle, rows = grouped(self.quantile(0.5)), f"about {grouped(float(self.count.sum()))} present cells"
        return f"Marginal({printable(self.name)!r}, {len(self.count)} cells from {ends}, {rows}, median {middle})"

    def quantile(self, level: float) -> float:
        """Where the denoised marginal reaches `level`, between the edges of a cell by its share.

        >>> half = Marginal("x", np.arange(257.0), np.zeros(256), 0.0, 1.0, np.full(256, 1 / 256))
        >>> half.quantile(0.5)
        128.0
        """
        if not 0 <= level <= 1:
            raise ValueError(f"Expected a level between 0 and 1, found {level!r}. Pass e.g. 0.5 for the median.")
        return float(np.interp(level, np.concatenate([[0.0], np.cumsum(self.share)]), self.edges))


def marginals_of(release: Release, encoding: Encoding) -> dict[str, Marginal]:
    """The released histograms by name; none where no column has a shape, or where public numbers gave the line unpaid."""
    mechanism = additive_of(release.plan)
    if "marginals" not in release.released:
        return Spelt()
    counts = np.asarray(release.released["marginals"], dtype=np.float64).reshape(-1, PLACES)
    noise, found = mechanism.marginal_noise(release.plan), Spelt[Marginal]()
    for row, column, j in zip(counts, mechanism.columns(release.plan, release.released), mechanism.curved):
        edges = np.linspace(float(encoding.low[j]), float(encoding.high[j]), CELLS + 1)
        name = encoding.names[j]
        found[name] = Marginal(name, edges, row[:CELLS].copy(), float(row[CELLS]), noise, column.share)
    return found
