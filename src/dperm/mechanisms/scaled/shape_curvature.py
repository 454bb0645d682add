"""The curvature of an additive fit's loss in the coordinates of its descent, as far as releases tell it: pure post-processing.

*Within a column* it is Σ_cells share·φφᵀ over its linear part and its curve, with the shares of the released histogram before it
was made smooth: noisy, but without bias. *Between columns* only the second moments are known. With correlation r of two columns
their curves are taken to go together as under a normal copula, whose Hermite functions of order m have the correlation r^m:

    E φ(x)ψ(y)ᵀ = Σ_m r^m·a_m·b_mᵀ,   a_m = E φ(x)·He_m(x),   b_m = E ψ(y)·He_m(y)

with He_m orthonormal under each column's shares. Other columns (levels, flags) take part with m = 1. All of it times *h*, the
mean curvature of the loss over rows that are not clipped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from dperm.mechanisms.registry import mechanism_of_plan
from dperm.mechanisms.scaled import settings as rule
from dperm.mechanisms.scaled.additive import Additive
from dperm.mechanisms.scaled.descent_noise import margin_curvature, share_below
from dperm.mechanisms.scaled.smoothness import MIDDLES, shape_values, tables_of
from dperm.problem import Problem
from dperm.release.plan import Plan, Vector
from dperm.terms.additive import CELLS, PLACES
from dperm.terms.affine import Features
from dperm.terms.moments import smat
from dperm.terms.statistics import SquareSum

Record = Mapping[str, Any]
ORDERS = 12  # Hermite functions by which two columns may go together


@dataclass(frozen=True, eq=False)
class Blocks:
    """E zzᵀ of all coordinates z of a descent but the intercept, which is independent of those that are centred.

    curvature  estimated from releases
    line       coordinates of the linear parts
    places     coordinates of each shape: its linear part first
    seen       what they add at each of the 257 places, less the mean under the released marginal
    features   the same with the mean
    counts     standard deviation of the share of rows in one cell
    products   standard deviation of a second moment, per unit of each of its two columns' scales
    """

    curvature: Vector
    line: list[int]
    places: list[list[int]]
    seen: list[Vector]
    features: list[Vector]
    counts: float
    products: Vector

    def unsure(self, vectors: Vector) -> Vector:
        """Standard deviation of vᵀ·curvature·v for columns v: Σ_c noise_c·(φ(c)ᵀv)² of the histograms, whose mean noise is taken
        out with their sum, and of the moments."""
        found = np.sum((self.products[:, None] * vectors[self.line] ** 2), axis=0) ** 2
        for own, features in zip(self.places, self.features):
            squares = (features @ vectors[own]) ** 2
            found = found + self.counts**2 * np.sum((squares - squares.mean(axis=0)) ** 2, axis=0)
        return np.asarray(np.sqrt(found))


def blocks_of(plan: Plan, decided: Record, released: Record) -> Blocks:
    """The curvature of the coordinates (linear columns, curves one after the other)."""
    mechanism, n, d = mechanism_of_plan(plan, Additive), plan.shape.n, plan.shape.d
    if "marginals" not in released:  # a line by public numbers: how columns go together was not released either
        return _unknown(plan, decided, list(mechanism.curved))
    columns, scale = mechanism.columns(plan, released), np.asarray(decided["scale"])
    kernel = (decided["kernel_scale"], decided["kernel_power"]) if "kernel_scale" in decided else None
    tables = np.zeros((len(columns), PLACES, 0)) if kernel is None else tables_of(columns, kernel)
    counts = np.asarray(released["marginals"], dtype=np.float64).reshape(-1, PLACES)
    counts = counts / np.maximum(counts.sum(axis=1), n / 2)[:, None]  # their sum is known: a large part of the noise goes
    moments = np.asarray(released["squares"], dtype=np.float64) / n
    whole = (smat(moments, d) if len(moments) > d else np.diag(moments)) * np.outer(scale, scale)
    features = [np.column_stack([line, table]) for line, table in zip(_lines(decided, mechanism.curved), tables)]
    m = tables.shape[2]
    places = [[j, *range(d + m * place, d + m * (place + 1))] for place, j in enumerate(mechanism.curved)]
    squares = SquareSum(Features(), float(decided["centred_radius"])).sensitivity(plan.target.relation)
    noise = squares * plan.target.rows_per_person / rule.budget_of(plan)["squares"]
    return Blocks(
        curvature=_curvature(whole, places, features, counts),
        line=list(range(d)),
        places=places,
        seen=[table - column.places @ table for table, column in zip(features, columns)],
        features=features,
        counts=mechanism.marginal_noise(plan) / n,
        products=noise / n * scale**2,
    )


def _lines(decided: Record, curved: Sequence[int]) -> list[Vector]:
    """The scaled number of every place of these columns; a missing cell is at the centre."""
    return [np.append((MIDDLES - decided["shift"][j]) * decided["scale"][j], 0.0) for j in curved]


def _unknown(plan: Plan, decided: Record, curved: list[int]) -> Blocks:
    """Nothing is known of the curvature: every direction counts as free, and bands are as wide as noise can make them."""
    d, features = plan.shape.d, [line[:, None] for line in _lines(decided, curved)]
    seen = [table - np.mean(table[:CELLS], axis=0) for table in features]
    return Blocks(np.zeros((d, d)), list(range(d)), [[j] for j in curved], seen, features, 0.0, np.zeros(d))


def _curvature(whole: Vector, places: list[list[int]], features: list[Vector], counts: Vector) -> Vector:
    """E zzᵀ: `whole` of the linear columns, the histograms' within a shape, those of the copula between shapes."""
    d = len(whole)
    spread = np.sqrt(np.maximum(np.diag(whole), 1e-9))
    together = np.clip(whole / np.outer(spread, spread), -0.999, 0.999)
    width = d + sum(len(own) - 1 for own in places)
    curvature = np.zeros((width, width))
    curvature[:d, :d] = whole
    hermite, order = [_orders(table, share) for table, share in zip(features, counts)], np.arange(1, ORDERS + 1)
    straight = sorted(set(range(d)) - {own[0] for own in places})
    for a, own in enumerate(places):
        curvature[np.ix_(own, own)] = features[a].T @ (features[a] * counts[a][:, None])
        for b, other in enumerate(places[:a]):
            both = (hermite[a] * together[own[0], other[0]] ** order) @ hermite[b].T
            curvature[np.ix_(own, other)] = both
            curvature[np.ix_(other, own)] = both.T
        linear = np.outer(hermite[a][:, 0], together[own[0], straight] * spread[straight])
        curvature[np.ix_(own, straight)] = linear
        curvature[np.ix_(straight, own)] = linear.T
    return curvature


def _orders(table: Vector, counts: Vector) -> Vector:
    """E φ·He_m for m = 1 … : He_m of the normal score of a cell, made orthonormal under the shares."""
    share = np.maximum(counts[:CELLS], 0.0)
    share = share / max(float(share.sum()), 1e-12)
    score = ndtri(np.clip(np.cumsum(share) - share / 2, 1e-6, 1.0 - 1e-6))
    powers = np.polynomial.hermite_e.hermevander(score, ORDERS) / np.sqrt([math.factorial(m) for m in range(ORDERS + 1)])
    root = np.sqrt(share)
    q, r = np.linalg.qr(powers * root[:, None])
    q = q * np.where(np.diag(r) < 0, -1.0, 1.0)
    return np.asarray((table[:CELLS] * root[:, None]).T @ q[:, 1:])


def mean_curvature(problem: Problem, plan: Plan, decided: Record, released: Record, w: Vector) -> float:
    """h: the mean of the loss's second derivative over the rows, clipped rows as 0, rows of the usual length."""
    limit = decided["clips"][1] / decided["size_of_all"]
    if rule.is_regression(problem):
        limit = min(limit, getattr(problem.loss, "threshold", math.inf))
        return share_below(np.asarray(released["residuals again"], dtype=np.float64), problem.data.y.width, limit)
    mechanism, d = mechanism_of_plan(plan, Additive), plan.shape.d
    shares = np.array([column.places for column in mechanism.columns(plan, released)])
    values, means = shape_values(w, d, mechanism.curved, np.asarray(decided["shift"]), shares)
    straight = [j for j in range(d) if j not in mechanism.curved]
    squares = np.maximum(np.asarray(released["squares"], dtype=np.float64)[:d], 0.0) / plan.shape.n
    variance = float(np.sum(values**2 * shares) + np.sum(np.asarray(w)[straight] ** 2 * squares[straight]))
    level = float(w[d] + means.sum() + np.asarray(w)[straight] @ np.asarray(decided["shift"])[straight])
    return margin_curvature(level, variance, limit)
