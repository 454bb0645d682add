"""Neighbours for fits with intervals: a row whose weighted score is as long as it may be, at every step.

A row of a `scaled-inference` fit adds ω·ψ·u with ω = min(1, (R/‖u‖)²): the most where ‖u‖ is the released radius R itself, less
for a shorter row and less for a longer one. So the row that differs lies at the edge of the bounds, x = 1, and all others at
±`spread`, which says how long it is in units of them: about R, which is larger where the noise is smaller. Its residual is beyond
the released clip and its class is one that the others say is impossible, so it is never fitted. There are as many rows as
δ < 1/n allows: among a dozen, noise decides about radius and clip, and the centre of a column, known poorly, takes a quarter of
the budget from the steps.

Replaced, the row stays and its label turns round; the scores of a class do not, and there the row goes to the other side instead.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

import dperm.estimators as estimators
from dperm.audit.cases import Builder, Case, Pair, neighbouring
from dperm.privacy import RELATIONS

N = 900
EPSILON, DELTA = 7.5, 1e-3  # about the μ of the other cases, at a δ that allows as many rows


@dataclass(frozen=True)
class Neighbours:
    """All rows but one are at ±`spread` in turn, with `labels` in turn; the other is at 1 with `label`, or `changed`.

    `spread` has one number for a row that is nulled or removed and another for one that is replaced, where noise is twice as
    large and the radius smaller.
    """

    spread: tuple[float, float]
    labels: tuple[float, ...]
    label: float
    changed: tuple[float, float]
    null: float = np.nan

    def pair(self, relation: str) -> Pair:
        a = self.spread[relation == "replace-one"]
        X, y = np.resize([a, -a], N)[:, None], np.resize(self.labels, N)
        X[-1], y[-1] = 1.0, self.label
        return neighbouring(relation, X, y, self.changed, self.null)


SMALL = (0.05, 0.05, -0.05, -0.05)  # labels that leave small residuals at both ends of the column
LINEAR = Neighbours((0.25, 0.36), SMALL, 1.0, (1.0, -1.0))
# One clip for most of the residuals, or none above a half: a radius as large as the rule allows.
CLIPPED = Neighbours((0.175, 0.175), SMALL, 1.0, (1.0, -1.0))
NEIGHBOURS = {
    "HuberRegressor": CLIPPED,
    "LinearRegression": LINEAR,
    "LogisticRegression": Neighbours((0.43, 0.43), (0.0,), 1.0, (-1.0, 1.0), null=7.0),
    "LogisticRegression, 3 classes": Neighbours((0.18, 0.28), (0.0, 1.0), 2.0, (-1.0, 2.0), null=7.0),
    "PoissonRegressor": Neighbours((0.255, 0.38), (1.0,), 4.0, (1.0, 0.0)),
    "QuantileRegressor": CLIPPED,
    "Ridge": LINEAR,
}


def interval_case(name: str, relation: str, neighbours: Neighbours, epsilon: float = EPSILON) -> Case:
    """A fit with intervals of the estimator called `name`, or of its "3 classes"."""
    cls = getattr(estimators, name.split(",")[0])
    options: dict[str, object] = {"epsilon": epsilon, "delta": DELTA, "bounds": (-1, 1), "relation": relation, "intervals": True}
    if relation == "add-remove":
        options["nominal_n"] = N
    if "classes" in {field.name for field in fields(cls)}:
        options["classes"] = [0, 1, 2] if "3 classes" in name else [0, 1]
    else:
        options["y_bounds"] = (0.0, 4.0) if name == "PoissonRegressor" else (-1.0, 1.0)
    return Case(name, "intervals", relation, "secure", Builder(cls, options), *neighbours.pair(relation))


def interval_cases() -> list[Case]:
    """Every estimator that has intervals, fitted with them, and a logistic regression of three classes; for every relation."""
    names = [name for name in estimators.__all__ if getattr(getattr(estimators, name), "has_intervals", False)]
    names += ["LogisticRegression, 3 classes"]
    return [interval_case(name, relation, NEIGHBOURS[name]) for name in sorted(names) for relation in RELATIONS]
