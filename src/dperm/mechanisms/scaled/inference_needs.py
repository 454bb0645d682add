"""What `scaled-inference` needs of a problem, in words: its errors are derived for these alone."""

from __future__ import annotations

import math

from dperm.mechanisms.scaled.inference_settings import FAMILIES
from dperm.problem import Problem
from dperm.release.plan import Target

RIDGED = ("squared", "huber", "logistic", "multinomial")


def needs_of(problem: Problem, target: Target, *, weighted: bool, importance: bool, summed: bool) -> list[str]:
    """What is missing; nothing where errors are derived."""
    loss, data = problem.loss.name, problem.data
    if loss not in FAMILIES:
        known = "logistic, softmax, squared, Huber, quantile or Poisson loss"
        return [f"{known}, found {loss!r}, whose error has no derivation here"]
    needs, counts = [], loss == "poisson"
    if target.delta == 0:
        needs.append("delta > 0, because its noise is Gaussian (pass delta=1e-6)")
    if problem.feature_map is not None:
        needs.append("rows without a feature map (it scales the declared columns itself)")
    if not math.isfinite(data.x_norm):
        needs.append("a finite bound on the norm of a row (x_norm= or bounds=)")
    if not problem.loss.classification and not math.isfinite(data.y.radius):
        needs.append("finite bounds on the target (y_bounds=)")
    if summed and target.rows_per_person == 1:
        needs.append("persons with several rows for summed=True (max_rows_per_person= above 1)")
    if importance and not (counts and weighted):
        needs.append("counts with weights (max_weight=) for importance=True, which is about theirs alone")
    if counts and not (data.y.low == 0 and data.intercept):
        needs.append("counts from 0 on, and an intercept (it carries the mean rate)")
    if problem.regularizer.name != "none" and (problem.regularizer.name != "ridge" or loss not in RIDGED):
        needs.append("no regularizer, or a ridge for a squared, Huber or logistic loss")
    if problem.domain.name != "whole-space":
        needs.append("coefficients without a bound (leave radius= out): an estimate at the edge has no normal law")
    return needs
