"""How to draw from a density ∝ exp(-k·F(w)) on a box or ball of at most three dimensions.

`grid`      F is read at the centres of a public grid of cells; the density that is constant on each cell is drawn from exactly.
            It is itself an exponential mechanism over cells, so nothing about the privacy is approximate.
`adaptive`  exact for convex F. The box is cut into cells; on a cell, convexity puts F above its tangent plane at the centre, so
            exp(-k·tangent) is an envelope whose mass and law are in closed form. A proposal from the envelopes is accepted with
            probability exp(-k·(F - tangent)). The number of cuts is a public number; proposals come in batches of a fixed
            size, so the work does not follow the data except when a whole batch fails, and the number of batches is never told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dperm.problem import Ball, Box, Problem
from dperm.problem.arrays import Vector
from dperm.rows.base import Block
from dperm.terms.affine import Features, settled
from dperm.terms.moments import row_weights

# candidates (m × p) ↦ values (m), gradients (m × p), diagonal curvatures (m × p)
Evaluated = Callable[[Vector], tuple[Vector, Vector, Vector]]
CUTS = 32  # cells cut in each round
BATCH = 64  # proposals tried at once
CANDIDATES = 64  # candidates whose margins are held at once


@dataclass(frozen=True, eq=False)
class ObjectiveTerm:
    """For every candidate w: Σ weight·(ℓ(w), ∇ℓ(w), diagonal of ∇²ℓ(w)), or the values alone.

    Used inside a whole solve, on exact sums: its ℓ2 sensitivity is not what the privacy rests on.
    """

    problem: Problem
    candidates: Vector
    values_only: bool = False

    def __call__(self, block: Block) -> Vector:
        loss, weight = self.problem.loss, row_weights(block)
        z = Features(self.problem.data.intercept).dense(block.X)
        y = np.asarray(block.y, dtype=np.float64)[:, None]
        parts = []
        for start in range(0, len(self.candidates), CANDIDATES):
            margins = z @ self.candidates[start : start + CANDIDATES].T
            labels = np.broadcast_to(y, margins.shape)
            values = weight @ settled(np.asarray(loss.value(margins, labels)))
            if self.values_only:
                parts.append(values[:, None])
                continue
            slopes = weight[:, None] * settled(np.asarray(loss.slope(margins, labels)))
            bends = weight[:, None] * settled(np.asarray(loss.curvature(margins, labels)))
            parts.append(np.column_stack([values, slopes.T @ z, bends.T @ (z * z)]))
        return np.concatenate(parts)

    def sensitivity(self, relation: str) -> float:
        return 2.0 * float(np.sqrt(len(self.candidates))) * self.row_bound

    @property
    def row_bound(self) -> float:
        constants = self.problem.constants
        bounds = self.problem.loss.bounds(constants.margin_max, self.problem.data.y)
        finite = [b for b in (bounds.range, constants.lipschitz, constants.smoothness) if np.isfinite(b)]
        return max([1e-6, *finite])


def cover(problem: Problem, p: int) -> tuple[Vector, Vector]:
    """Corners of the smallest box around the domain."""
    domain = problem.domain.in_dimension(p)
    if isinstance(domain, Ball):
        return np.full(p, -domain.radius), np.full(p, domain.radius)
    assert isinstance(domain, Box)
    low, high = (np.broadcast_to(np.asarray(side, dtype=np.float64), (p,)) for side in (domain.low, domain.high))
    return low.copy(), high.copy()


def grid_cells(problem: Problem, p: int, per_axis: int) -> tuple[Vector, Vector]:
    """Centres of the public cells that belong to the domain, and the sides of a cell."""
    low, high = cover(problem, p)
    axes = [lo + (hi - lo) * (np.arange(per_axis) + 0.5) / per_axis for lo, hi in zip(low, high)]
    centres = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, p)
    if isinstance(problem.domain, Ball):
        centres = centres[np.linalg.norm(centres, axis=1) <= problem.domain.radius]
    return centres, (high - low) / per_axis


def grid_sample(values: Vector, centres: Vector, sides: Vector, rate: float, generator: Generator) -> Vector:
    """One cell by the exponential law on -F at the centres, then a uniform point of it."""
    cell = int(np.argmax(-rate * values + generator.gumbel(size=len(values))))
    return np.asarray(centres[cell] + sides * (generator.random(len(sides)) - 0.5))


@dataclass
class Cells:
    """A partition with an affine lower bound of F for every cell: value + ⟨slope, w - centre⟩ ≤ F(w) on the cell (inside the
    ball).

    `bend` and `pull` estimate how far above the bound F can be; they only choose the cuts.
    """

    low: Vector
    high: Vector
    value: Vector
    slope: Vector
    bend: Vector
    pull: Vector

    @property
    def centre(self) -> Vector:
        return (self.low + self.high) / 2

    @property
    def side(self) -> Vector:
        return self.high - self.low

    def log_mass(self, rate: float, radius: float | None) -> Vector:
        """log ∫_cell exp(-k·bound) = -k·value + Σ_j log(h_j·sinh(a_j)/a_j), a = k·slope·h/2; -inf for a cell outside the ball."""
        mass = -rate * self.value + np.sum(np.log(self.side) + _log_sinhc(rate * self.slope * self.side / 2), axis=1)
        if radius is not None:
            mass = np.where(np.linalg.norm(np.clip(0.0, self.low, self.high), axis=1) <= radius, mass, -np.inf)
        return np.asarray(mass)

    def gap(self, rate: float, whole: Vector) -> Vector:
        """About how much log-mass each axis wastes."""
        return np.asarray(rate * (self.bend * self.side**2 / 8 + self.pull * self.side / 2) + 1e-6 * self.side / whole)

    def take(self, index: NDArray[np.int64]) -> Cells:
        return Cells(*(getattr(self, part.name)[index] for part in fields(self)))

    def join(self, other: Cells) -> Cells:
        return Cells(*(np.concatenate([getattr(self, part.name), getattr(other, part.name)]) for part in fields(self)))


def _log_sinhc(a: Vector) -> Vector:
    """log(sinh(a)/a), stable."""
    size = np.maximum(np.abs(a), 1e-6)
    return np.asarray(np.where(np.abs(a) > 1e-6, size + np.log(-np.expm1(-2 * size) / (2 * size)), 0.0))


def make_cells(low: Vector, high: Vector, objective: Evaluated, rate: float, radius: float | None) -> Cells:
    """Tangents at the centres; in a ball, tilted where that makes the envelope smaller.

    Inside the ball (ν/2)(‖w‖² - r²) ≤ 0 for ν ≥ 0, so the tangent of F + (ν/2)(‖w‖² - r²) is a lower bound of F there as well.
    The ν with the least envelope mass plays the part of a multiplier: when the minimiser lies outside the ball, it keeps the
    envelope from piling up in the corners that stick out of it.
    """
    centre = (low + high) / 2
    value, slope, bend = objective(centre)
    pull = np.zeros_like(slope)
    if radius is not None:
        tilt = _least_tilt(centre, high - low, slope, rate, radius)[:, None]
        value = value + tilt[:, 0] / 2 * (np.sum(centre**2, axis=1) - radius**2)
        slope, bend, pull = slope + tilt * centre, bend + tilt, tilt * np.abs(centre)
        reach = np.linalg.norm(np.maximum(np.abs(low), np.abs(high)), axis=1, keepdims=True)
        pull = pull + np.where(reach > radius, 0.3 / (rate * np.max(high - low)), 0.0)  # a cell that sticks out wastes a share
    return Cells(low, high, value, slope, bend, pull)


def _least_tilt(centre: Vector, side: Vector, slope: Vector, rate: float, radius: float) -> Vector:
    """argmin over ν ≥ 0 of the log-mass, convex in ν: bisection on its derivative in log ν, a fixed number of steps."""
    outside = (np.sum(centre**2, axis=1) - radius**2) / 2

    def derivative(tilt: Vector) -> Vector:
        a = rate * (slope + tilt[:, None] * centre) * side / 2
        size = np.maximum(np.abs(a), 1e-4)
        lean = np.where(np.abs(a) > 1e-4, np.sign(a) * (1 / np.tanh(size) - 1 / size), a / 3)
        return np.asarray(-outside + np.sum(centre * side / 2 * lean, axis=1))

    scale = 1e-9 + np.linalg.norm(slope, axis=1) / radius
    first, last = np.full(len(centre), -30.0), np.full(len(centre), 10.0)
    for _ in range(50):
        middle = (first + last) / 2
        rising = derivative(scale * np.exp(middle)) >= 0
        first, last = np.where(rising, first, middle), np.where(rising, middle, last)
    return np.where(derivative(np.zeros(len(centre))) >= 0, 0.0, scale * np.exp(first))


def partition(objective: Evaluated, low: Vector, high: Vector, rate: float, rounds: int, radius: float | None) -> Cells:
    """`rounds` times: cut the cells with the most envelope mass that the acceptance step would throw away."""
    cells = make_cells(low[None, :], high[None, :], objective, rate, radius)
    for _ in range(rounds):
        gap = cells.gap(rate, high - low)
        waste = cells.log_mass(rate, radius) + np.log(np.minimum(np.sum(gap, axis=1) + 1e-3, 1.0))
        chosen = np.argsort(waste)[::-1][:CUTS]  # always as many as there are, so that the work is a public number
        axis = np.argmax(gap[chosen], axis=1)
        rows = np.arange(len(chosen))
        lows, highs = np.tile(cells.low[chosen], (2, 1)), np.tile(cells.high[chosen], (2, 1))
        middle = (lows[rows, axis] + highs[rows, axis]) / 2
        highs[rows, axis], lows[rows + len(rows), axis] = middle, middle
        kept = np.setdiff1d(np.arange(len(cells.value)), chosen)
        cells = cells.take(kept).join(make_cells(lows, highs, objective, rate, radius))
    return cells


def propose(cells: Cells, log_mass: Vector, rate: float, size: int, generator: Generator) -> tuple[Vector, NDArray[np.int64]]:
    """Points from the envelopes and the numbers of their cells."""
    chance = np.exp(log_mass - log_mass.max())
    number = generator.choice(len(chance), size=size, p=chance / chance.sum())
    side = cells.side[number]
    b = rate * cells.slope[number] * side  # density ∝ exp(-b·t) for t in [0, 1] along each axis
    u = generator.random(b.shape)
    size_b = np.maximum(np.abs(b), 1e-12)
    t = -np.log1p(u * np.expm1(-size_b)) / size_b
    t = np.where(np.abs(b) < 1e-9, u, np.where(b > 0, t, 1 - t))
    return cells.low[number] + np.clip(t, 0.0, 1.0) * side, number


def adaptive_sample(
    objective: Evaluated, low: Vector, high: Vector, rate: float, rounds: int, radius: float | None, generator: Generator
) -> Vector:
    """One exact draw from exp(-rate·F) on the box (cut to the ball of `radius`), for convex F."""
    cells = partition(objective, low, high, rate, rounds, radius)
    log_mass = cells.log_mass(rate, radius)
    while True:
        points, number = propose(cells, log_mass, rate, BATCH, generator)
        values = objective(points)[0]
        bound = cells.value[number] + np.einsum("ij,ij->i", cells.slope[number], points - cells.centre[number])
        accepted = np.log(generator.random(BATCH)) <= -rate * (values - bound)
        if radius is not None:
            accepted &= np.linalg.norm(points, axis=1) <= radius
        if accepted.any():
            return np.asarray(points[np.argmax(accepted)])


def langevin(
    objective: Evaluated, inside: Callable[[Vector], bool], start: Vector, rate: float, step: float, steps: int,
    generator: Generator,
) -> Vector:  # fmt: skip
    """Metropolis-adjusted Langevin: w' = w - (step·k)∇F + √(2·step)·N, accepted by the Metropolis rule; w' outside is refused."""

    def look(w: Vector) -> tuple[float, Vector]:
        value, slope, _ = objective(w[None, :])
        return -rate * float(value[0]), -rate * slope[0]

    w = start
    density, force = look(w)
    for _ in range(steps):
        new = w + step * force + np.sqrt(2 * step) * generator.standard_normal(len(w))
        u = np.log(generator.random())
        new_density, new_force = look(new if inside(new) else w)  # one pass either way
        there = np.sum((new - w - step * force) ** 2)
        back = np.sum((w - new - step * new_force) ** 2)
        if inside(new) and u <= new_density - density + (there - back) / (4 * step):
            w, density, force = new, new_density, new_force
    return w
