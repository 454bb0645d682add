"""What is minimised, and every constant that follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from dperm.problem.bounds import DataBounds, FeatureMap
from dperm.problem.domains import Domain, WholeSpace
from dperm.problem.intersections import domain_from_spec
from dperm.problem.losses import loss_from_spec
from dperm.problem.losses.base import Loss
from dperm.problem.regularizers import NoRegularizer, Regularizer, regularizer_from_spec
from dperm.problem.specs import Spec, Stated, product


@dataclass(frozen=True)
class Constants(Stated):
    """The constants of one record's loss ℓ(w) = φ(<x, w>; y) over the domain; inf where there is none.

    lipschitz          sup ||∇ℓ||           = sup|φ'| · row_norm
    smoothness         sup ||∇²ℓ||          = sup φ'' · row_norm²           (without the regularizer)
    strong_convexity   of the regularizer, on the SUM scale: F = Σℓ_i + r is at least that strongly convex
    loss_range         for every record, sup_w ℓ - inf_w ℓ <= loss_range over the domain; two records differ
                       by a function of w whose own spread is at most 2·loss_range (what an exponential
                       mechanism needs). A bound on |ℓ| itself is ``loss.bounds(margin_max, y).range``.
    radius, diameter   of the domain
    hessian_rank       largest rank of ∇²ℓ: 1, or K - 1 for K classes
    margin_max         sup |<x, w>| <= row_norm · radius

    >>> Constants(1, math.inf, 0, 1, 1, 2, 1, 1).spec()["smoothness"]
    'inf'
    """

    lipschitz: float
    smoothness: float
    strong_convexity: float
    loss_range: float
    radius: float
    diameter: float
    hessian_rank: int
    margin_max: float


def _undeclared() -> DataBounds:
    raise ValueError(
        "Expected data=DataBounds(x_norm, y), found nothing. Declare a public bound on the rows' norm and the labels."
    )


@dataclass(frozen=True)
class Problem(Stated):
    """minimise over w in the domain  F(w) = Σ_i φ(<x_i, w>; y_i) + r(w), rows and labels inside the data
    bounds.

    **Guarantee**: ``constants`` are derived from the parts and from nothing else. They hold for every w in
    the domain and every row that ``data.enforce`` (and the feature map) lets through; an intercept column,
    appended after the feature map, is counted in ``row_norm``.

    Parameters
    ----------
    loss : Loss
        φ, elementwise in the margin.
    regularizer : Regularizer
        r(w), on the sum scale.
    domain : Domain
        Where w may lie.
    data : DataBounds
        Bounds of rows and labels.
    feature_map : FeatureMap or None, default None
        A bounded map of the rows.

    Examples
    --------
    >>> from dperm.problem import Ball, DataBounds, Interval, LogisticLoss, Ridge
    >>> p = Problem(LogisticLoss(), Ridge(2.0), Ball(5.0), DataBounds(1.0, Interval(-1, 1)))
    >>> p.constants.smoothness, p.constants.strong_convexity, p.constants.margin_max
    (0.25, 2.0, 5.0)
    >>> sorted(p.spec())
    ['data', 'domain', 'feature_map', 'loss', 'regularizer']
    """

    loss: Loss
    regularizer: Regularizer = field(default_factory=NoRegularizer)
    domain: Domain = field(default_factory=WholeSpace)
    data: DataBounds = field(default_factory=_undeclared)
    feature_map: FeatureMap | None = None

    @property
    def row_norm(self) -> float:
        """sqrt(norm of the features² + intercept²), the norm that every constant uses."""
        if self.feature_map is None:
            return self.data.row_norm
        return math.hypot(self.feature_map.output_norm, self.data.intercept)

    @cached_property
    def constants(self) -> Constants:
        """Every constant, derived; see ``Constants`` for the formulas.

        Lipschitz: ∇ℓ = φ'(z)x, and for vector margins ∇ℓ = φ'(z) ⊗ x, so ||∇ℓ|| = ||φ'||·||x||.
        Smoothness: ∇²ℓ = φ''(z)xxᵀ (⊗ likewise), whose norm is ||φ''||·||x||².
        Range: the direct one, or lipschitz · diameter along the segment between two parameters.
        """
        row_norm, radius, diameter = self.row_norm, self.domain.radius, self.domain.diameter
        margin_max = product(row_norm, radius)
        bounds = self.loss.bounds(margin_max, self.data.y)
        lipschitz = product(bounds.slope, row_norm)
        return Constants(
            lipschitz=lipschitz,
            smoothness=product(bounds.curvature, product(row_norm, row_norm)),
            strong_convexity=self.regularizer.strong_convexity,
            loss_range=min(bounds.range, product(lipschitz, diameter)),
            radius=radius,
            diameter=diameter,
            hessian_rank=self.loss.hessian_rank,
            margin_max=margin_max,
        )

    @classmethod
    def from_spec(cls, spec: Spec) -> Problem:
        """The problem whose ``spec()`` is given; its constants are derived anew.

        >>> from dperm.problem import DataBounds, Interval, SquaredLoss
        >>> p = Problem(SquaredLoss(), data=DataBounds(1.0, Interval(0, 1)))
        >>> Problem.from_spec(p.spec()) == p
        True
        """
        features = spec.get("feature_map")
        return cls(
            loss_from_spec(spec["loss"]),
            regularizer_from_spec(spec["regularizer"]),
            domain_from_spec(spec["domain"]),
            DataBounds.from_spec(spec["data"]),
            None if features is None else FeatureMap.from_spec(features),
        )
