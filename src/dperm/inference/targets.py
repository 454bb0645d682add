"""What the estimates of a fit by `scaled-inference` are of, in one sentence for the last line of its table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dperm.mechanisms.registry import mechanism_of_plan
from dperm.mechanisms.scaled.inference import ScaledInference
from dperm.mechanisms.scaled.settings import budget_of
from dperm.privacy import kappa
from dperm.problem import Problem
from dperm.words.wording import grouped, in_percent, printable

if TYPE_CHECKING:
    from dperm.estimators.base import PrivateEstimator

CLEAR = 3.0  # deviations of noise
WEIGHTS = "rows weighted down by min(1, (R/length)²)"


def target_sentence(model: PrivateEstimator) -> str:
    """What the estimates are of, in one sentence without a full stop."""
    problem = Problem.from_spec(model.certificate_.record["problem"])
    sentence, loss = _of_loss(model, problem), problem.loss.name
    if problem.regularizer.name == "ridge":
        sentence += "; the ridge's bias towards 0 is part of the target and not of the error"
    options = model.plan_.options
    if options.get("importance", loss != "poisson") and options.get("max_weight") is not None:
        sentence += "; rows count by their sample or class weights"
    if (most := model.plan_.target.rows_per_person) > 1:
        way = "count the up to" if options.get("summed") else "hold however alike the up to"
        sentence += f"; sampling errors {way} {most} rows of a person" + (" together" if options.get("summed") else " are")
    return f"{sentence}; errors include sampling and privacy noise"


def _of_loss(model: PrivateEstimator, problem: Problem) -> str:
    loss, decided = problem.loss.name, model.certificate_.record["decided"]
    clip = grouped(float(model._step() * np.asarray(decided["clip"], dtype=np.float64)[-1]), 3)
    if loss == "poisson":
        clip += f" (in units of the mean rate; {_cut_off(model, problem)})"
        return (
            f"Poisson regression with Pearson residuals clipped at {clip} on {WEIGHTS}: the ordinary coefficients if the "
            "log-mean is linear and few residuals are clipped"
        )
    if loss == "quantile":
        return _of_quantile(model, float(problem.loss.level), clip)  # type: ignore[attr-defined]
    first = printable(str(next(iter(getattr(model, "classes_", ())), "")))
    return {
        "logistic": f"log-odds of the logistic model on {WEIGHTS}, the ordinary ones if the model holds",
        "multinomial": f"log-odds of each class against {first} in the multinomial logistic model on {WEIGHTS}, the ordinary "
        "ones if the model holds",
        "squared": f"least squares with residuals clipped at {clip} and {WEIGHTS}: the ordinary coefficients if the mean is "
        "linear and errors are symmetric or independent of the columns",
        "huber": f"Huber regression with threshold {clip} on {WEIGHTS}: the coefficients of the mean if it is linear and errors "
        "are symmetric",
    }[loss]


def _of_quantile(model: PrivateEstimator, level: float, width: str) -> str:
    if mechanism_of_plan(model.plan_, ScaledInference).sharp:
        return (
            f"{level:g} quantile on {WEIGHTS}: its coefficients if it is linear; the density of labels at the quantile is read "
            f"off rows within ±{width} of it"
        )
    return (
        f"quantile loss smoothed over ±{width} on {WEIGHTS}: the coefficients of its minimiser, which is the quantile itself "
        "only for a median with symmetric errors"
    )


def _cut_off(model: PrivateEstimator, problem: Problem) -> str:
    """Which part of the residuals of a count regression is beyond the clip, by the released histogram that the clip follows
    from."""
    plan, decided = model.plan_, model.certificate_.record["decided"]
    counts = np.asarray(model.release_.released["residuals again"], dtype=np.float64)
    upper = problem.data.y.high / decided["mean_rate"] * 2.0 ** (-np.arange(len(counts)) / 2)
    beyond = np.clip((upper - decided["clip"][-1]) / (upper * (1.0 - math.sqrt(0.5))), 0.0, 1.0)  # as if spread evenly in a bin
    rows = max(float(counts.sum()), 1.0)
    count_noise = math.sqrt(kappa(plan.target.relation)) * plan.target.rows_per_person / budget_of(plan)["residuals again"]
    noise = CLEAR * count_noise * float(np.linalg.norm(beyond)) / rows
    found = max(float(beyond @ counts), 0.0) / rows
    if found > noise:
        return f"about {in_percent(found, 3)} of them are beyond"
    return f"at most {in_percent(found + noise, 3)} of them are beyond"
