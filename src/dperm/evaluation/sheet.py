"""Every score of an evaluation, from its releases."""

from __future__ import annotations

from typing import cast

from dperm.evaluation.apart import by_group, confusion, entropy_of, thresholds
from dperm.evaluation.metrics import Context, answers, counts, regression, scores
from dperm.evaluation.plan import Question, arrays, decide, noise_scales
from dperm.release.plan import Plan, Released
from dperm.release.record import Metrics


def metrics(plan: Plan, question: Question, released: Released, level: float) -> Metrics:
    """Every score that the releases of this plan support."""
    context = Context(plan.target.epsilon, plan.shape.n, level)
    held, scale, decided = arrays(question, released), noise_scales(plan), decide(plan, question, released)
    found: dict[str, object]
    if question.kind == "regression":
        found = {**regression(held, scale, decided, question, context)}
    elif question.kind == "counts":
        found = {**counts(held, scale, decided, question, context)}
    else:
        own = answers(held["answers"], scale["answers"], question, context)
        found = {**own}
        if question.kind == "binary":
            found |= scores(held, scale, tuple(decided["edges"]), question, context)
        if question.labels and question.kind == "binary":
            lines = thresholds(held["scores"], tuple(decided["edges"]), scale["scores"], question, context)
            found["thresholds"] = {"labels": list(question.labels), "lines": lines}
        elif question.labels:
            classes, rows = 2.0 * held["answers"][-question.classes :], float(held["answers"][:2].sum())
            if question.probabilities:
                found["baseline log-loss"] = entropy_of(classes, rows, scale["answers"], context)
            found |= confusion(held["confusion"], scale["confusion"], classes, question, context, own["baseline accuracy"])
    if question.groups:
        found["groups"] = by_group(held, scale, decided, question, context)
    return cast(Metrics, found)
