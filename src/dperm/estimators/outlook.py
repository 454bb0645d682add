"""What can be said before a row is read: the chosen mechanism, its plan, every alternative with its predicted risk, odds.

One function for `dperm plan`, the explorer and the reports, so that they cannot disagree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import NotRequired, TypedDict, cast

from dperm.choose.expected import expected_loss
from dperm.choose.odds import Odds, odds, odds_sentence
from dperm.choose.risks import (
    NO_RISK_NOTE,
    RISK_NAMES,
    RISK_NOTE,
    AlternativeRecord,
    alternatives,
    epsilons,
    predicted_risks,
    sample_sizes,
)
from dperm.estimators.base import PrivateEstimator
from dperm.estimators.declaration import Declaration, before_rows
from dperm.mechanisms.scaled.inference import ScaledInference
from dperm.mechanisms.scaled.inference_outlook import widths
from dperm.mechanisms.scaled.noise_ratio import expected_noise_ratio
from dperm.release.plan import Mechanism, Plan
from dperm.words.spelling import closest

LINEAR = ("LogisticRegression", "LinearSVC", "LinearRegression", "Ridge", "HuberRegressor")
BOUNDED = (*LINEAR, "QuantileRegressor", "PoissonRegressor")
LOCATIONS = ("MeanEstimator", "MedianEstimator")
MODELS = (*BOUNDED, "Lasso", "GAMClassifier", "GAMRegressor", "MLPClassifier", "EmbeddingClassifier", *LOCATIONS)
"""Models that public numbers are enough to plan; the risk theorems speak of the first group."""
CLASSIFIERS = ("LogisticRegression", "LinearSVC", "GAMClassifier", "MLPClassifier")
MODEL_WORDS = {
    "logistic": "LogisticRegression",
    "svm": "LinearSVC",
    "linear": "LinearRegression",
    "ridge": "Ridge",
    "huber": "HuberRegressor",
    "quantile": "QuantileRegressor",
    "poisson": "PoissonRegressor",
    "lasso": "Lasso",
    "gam": "GAMClassifier",
    "gamregressor": "GAMRegressor",
    "mlp": "MLPClassifier",
    "embedding": "EmbeddingClassifier",
    "mean": "MeanEstimator",
    "median": "MedianEstimator",
}


class Foreseen(TypedDict, total=False):
    """What can be said of intervals; empty without them."""

    intervals: Mapping[str, float | int | str | None]


class PlanFacts(Foreseen):
    """What a plan says at once."""

    model: str
    n: int
    d: int
    epsilon: float
    delta: float
    relation: str
    mechanism: str
    stages: list[dict[str, object]]
    explanation: str
    warnings: list[str]
    odds: Odds
    odds_sentence: str


class Bounds(TypedDict):
    """Worst-case risks, and what a target risk needs."""

    noise_ratio: float | None
    predicted_risk: Mapping[str, float | None]
    risk_note: str
    alternatives: list[AlternativeRecord]
    sample_size: NotRequired[Mapping[str, float | None] | None]
    epsilon_needed: NotRequired[Mapping[str, float | None]]
    accounting: NotRequired[Mapping[str, float | None]]
    ledger: NotRequired[str]


class ExpectedRecord(TypedDict):
    """The loss of a score that is expected, with its band."""

    score: str
    low: float
    value: float
    high: float
    beyond: bool
    curves: bool
    sentence: str


class Advice(PlanFacts, Bounds):
    """Both, as `dperm plan --json` prints them, and what is expected."""

    expected: ExpectedRecord | None


def declared(
    model: str, n: int, d: int, *, epsilon: float, delta: float | None, relation: str, method: Mechanism | str = "auto"
) -> Declaration:
    """The fit of an estimator over d columns with range [0, 1]: its problem, size, target and mechanism."""
    given: dict[str, object] = {"epsilon": epsilon, "delta": delta, "relation": relation, "method": method}
    kind, extra, _ = reference(model, given)
    return before_rows(kind().set_params(**given, **extra), n, d)


def reference(model: str, given: dict[str, object]) -> tuple[type[PrivateEstimator], dict[str, object], list[int]]:
    """(the estimator class, what declares columns with range [0, 1] and a target to it, the classes of the target).

    `given` loses what a location does not have: it has one mechanism, and the median no delta.
    """
    import dperm.estimators as estimators

    model = named(model)
    kind = getattr(estimators, model)
    if model in LOCATIONS:
        if (method := given.pop("method", "auto")) != "auto":
            raise ValueError(f"Expected method='auto' for {model}, found {method!r}. It has one mechanism.")
        if given.get("delta") is None and model == "MedianEstimator":
            given["delta"] = 0.0
        return kind, {"bounds": (0, 1)}, []
    if model == "EmbeddingClassifier":  # its rows have length 1: no range is declared
        return kind, {"classes": [0, 1]}, [0, 1]
    if model in CLASSIFIERS:
        return kind, {"bounds": (0, 1), "classes": [0, 1]}, [0, 1]
    return kind, {"bounds": (0, 1), "y_bounds": (0.0, 1.0)}, []


def named(model: str) -> str:
    """The estimator's name, from that or a short word.

    >>> named("Median"), named("Lasso")
    ('MedianEstimator', 'Lasso')
    """
    found = MODEL_WORDS.get(model.lower(), model)
    if found == "FiniteClassLearner":
        raise ValueError(
            "Expected a model that n and d are enough to plan, found 'FiniteClassLearner', which needs its class of rules. Run "
            "`dperm theory pac hypotheses=1000 alpha=0.1 beta=0.05 epsilon=1` for the rows that a class of that size needs."
        )
    if found not in MODELS:
        known = (*MODELS, *MODEL_WORDS)
        raise ValueError(f"Expected a model in {', '.join(known)}, found {model[:60]!r}.{closest(model, known)}")
    return found


def advise(
    *,
    n: int,
    d: int,
    epsilon: float,
    delta: float | None = None,
    relation: str = "replace-one",
    model: str = "LogisticRegression",
    method: Mechanism | str = "auto",
    target_risk: float | None = None,
    radius: float = 1.0,
    planned: bool = True,
) -> Advice:
    """Everything above as one JSON object.

    >>> found = advise(n=10_000, d=10, epsilon=1.0)
    >>> found["mechanism"], found["odds"]["factor"] == math.e
    ('scaled-objective', True)
    """
    fit = declared(model, n, d, epsilon=epsilon, delta=delta, relation=relation, method=method)
    return advise_for(fit, radius=radius, planned=planned, target_risk=target_risk)


def advise_for(
    fit: Declaration,
    *,
    radius: float = 1.0,
    planned: bool = True,
    target_risk: float | None = None,
    target_width: float | None = None,
) -> Advice:
    """The same for a declared fit."""
    plan = fit.plan()
    bounds = outlook(fit, plan, radius=radius, planned=planned, target_risk=target_risk)
    return {**plan_facts(fit, plan, target_width), **bounds, "expected": expected_of(fit)}


def expected_of(fit: Declaration) -> ExpectedRecord | None:
    """What such a noise ratio cost on the benchmark tables; None for models that were not measured, at δ = 0, and for counts with
    intervals, whose clip follows the tail of the counts: how much noise that is, no public number tells."""
    counts = fit.problem.loss.name == "poisson" and getattr(fit.estimator, "intervals", False)
    if not fit.target.delta or counts:
        return None
    loss = expected_loss(type(fit.estimator).__name__, expected_noise_ratio(fit.problem, fit.shape, fit.target))
    if loss is None:
        return None
    return cast("ExpectedRecord", {**asdict(loss), "sentence": loss.sentence})


def smallest_epsilon(fit: Declaration, target_risk: float, *, radius: float = 1.0) -> float:
    """The smallest ε at which a bound meets the target risk, rounded up to two digits; refused where no theorem speaks."""
    _check_risk(target_risk, radius)
    spoken = type(fit.estimator).__name__ in BOUNDED
    given = epsilons(fit.problem, fit.shape, fit.target, target_risk, radius=radius) if spoken else {}
    found = min((value for value in given.values() if value is not None), default=None)
    if found is None:
        raise ValueError("Expected --epsilon, found none, and no theorem here says which one the target risk needs. Pass e.g. 1.")
    unit = 10.0 ** (math.floor(math.log10(found)) - 1)
    return float(f"{math.ceil(found / unit) * unit:.2g}")


def _check_risk(target_risk: float | None, radius: float) -> None:
    if not 0 < radius < math.inf:
        raise ValueError(f"Expected a radius > 0, found {radius:g}. Pass the norm of the best coefficients, e.g. 1.")
    if target_risk is not None and not 0 < target_risk < math.inf:
        raise ValueError(f"Expected a target risk > 0, found {target_risk:g}. Pass e.g. 0.01.")


def plan_facts(fit: Declaration, plan: Plan, target_width: float | None = None) -> PlanFacts:
    """What a plan says at once: no bound on a risk is computed, which may take seconds."""
    target = fit.target
    return {
        "model": type(fit.estimator).__name__,
        "n": fit.shape.n,
        "d": fit.shape.d,
        "epsilon": target.epsilon,
        "delta": target.delta,
        "relation": target.relation,
        "mechanism": plan.mechanism,
        "stages": [{"name": stage.name, "event": stage.event.spec()} for stage in plan.stages],
        "explanation": plan.explain(),
        "warnings": list(plan.warnings),
        **foreseen_intervals(fit, plan, target_width),
        "odds": odds(target.epsilon),
        "odds_sentence": odds_sentence(target.epsilon, target.delta, target.relation, target.unit),
    }


def epsilon_of_width(fit: Declaration, width: float | None) -> float:
    """The smallest ε, upwards to two decimals, whose intervals are so many times as wide as without privacy."""
    found = foreseen_intervals(fit, fit.plan(), width).get("intervals", {}).get("epsilon_needed")
    if not isinstance(found, float):
        raise ValueError(
            f"Expected a width that some epsilon reaches with n = {fit.shape.n:,}, found {width}. Pass a larger n or width."
        )
    return math.ceil(100 * found) / 100


def foreseen_intervals(fit: Declaration, plan: Plan, target_width: float | None) -> Foreseen:
    """What can be said of the intervals: how wide they will be, or what the older methods need for any; nothing without them."""
    if plan.mechanism == ScaledInference.name:
        return {"intervals": widths(fit.problem, plan.shape, plan.target, target_width)}
    if target_width is not None:
        raise ValueError(
            f"Expected --method auto for a prediction of the intervals' width, found {plan.mechanism!r}. Leave --method out."
        )
    expected = fit.intervals()
    return {} if expected is None else {"intervals": {"sentence": expected.words}}


def outlook(
    fit: Declaration, plan: Plan, *, radius: float = 1.0, planned: bool = True, target_risk: float | None = None
) -> Bounds:
    """Predicted risks, the alternatives, and the n or ε that a target risk needs; None where no theorem speaks of the model."""
    _check_risk(target_risk, radius)
    estimator, problem, shape, target = fit.estimator, fit.problem, plan.shape, plan.target
    none: dict[str, float | None] = dict.fromkeys(RISK_NAMES)
    spoken = type(estimator).__name__ in BOUNDED
    found: Bounds = {
        "noise_ratio": expected_noise_ratio(problem, shape, target) if spoken and target.delta else None,
        "predicted_risk": predicted_risks(problem, shape, target, radius=radius) if spoken else none,
        "risk_note": RISK_NOTE if spoken else NO_RISK_NOTE,
        "alternatives": [],
    }
    if isinstance(estimator, PrivateEstimator) and (spoken or estimator.asked_for == "embeddings"):
        found["alternatives"] = alternatives(
            problem,
            shape,
            target,
            asked_for=estimator.asked_for,
            kinds=estimator._encoding.kinds,
            radius=radius,
            planned=planned,
        )
    if plan.mechanism not in [entry["mechanism"] for entry in found["alternatives"]]:
        passes = sum(event.total() for event in plan.events)
        own: AlternativeRecord = {"mechanism": plan.mechanism, "needs": [], "passes": passes, "predicted_risk": None}
        found["alternatives"].insert(0, own)
    if target_risk is not None:
        sizes = sample_sizes(problem, shape, target, target_risk, radius=radius) if spoken else none
        found["sample_size"] = {"target_risk": target_risk, **sizes}
        found["epsilon_needed"] = epsilons(problem, shape, target, target_risk, radius=radius) if spoken else none
    return found
