"""What `scaled-inference` needs of a problem, in words: its errors are derived for these alone."""

from __future__ import annotations

import math

from dperm.mechanisms.conditions import BOUNDED_ROWS, GAUSSIAN, unmet
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
    counts = loss == "poisson"
    return unmet({
        GAUSSIAN: target.delta == 0,
        "rows without a feature map (it scales the declared columns itself)": problem.feature_map is not None,
        BOUNDED_ROWS: not math.isfinite(data.x_norm),
        "finite bounds on the target (y_bounds=)": not problem.loss.classification and not math.isfinite(data.y.radius),
        "persons with several rows for summed=True (max_rows_per_person= above 1)": summed and target.rows_per_person == 1,
        "counts with weights (max_weight=) for importance=True, which is about theirs alone":
            importance and not (counts and weighted),
        "counts from 0 on, and an intercept (it carries the mean rate)": counts and not (data.y.low == 0 and data.intercept),
        "no regularizer, or a ridge for a squared, Huber or logistic loss":
            problem.regularizer.name != "none" and (problem.regularizer.name != "ridge" or loss not in RIDGED),
        "coefficients without a bound (leave radius= out): an estimate at the edge has no normal law":
            problem.domain.name != "whole-space",
    })
