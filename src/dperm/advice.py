"""What can be said before a row is read: the chosen mechanism, its plan, every alternative with its predicted risk, odds.

One function for `dperm plan`, the explorer and the reports, so that they cannot disagree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dperm import theory
from dperm.mechanisms.base import MECHANISMS, Plan, Shape, Target
from dperm.planner import build, choose, expected_noise_ratio
from dperm.privacy import compose
from dperm.problem import Problem
from dperm.suggestions import closest

LINEAR = ("LogisticRegression", "LinearSVC", "LinearRegression", "Ridge", "HuberRegressor")
BOUNDED = (*LINEAR, "QuantileRegressor", "PoissonRegressor")
LOCATIONS = ("MeanEstimator", "MedianEstimator")
MODELS = (*BOUNDED, "Lasso", "MLPClassifier", *LOCATIONS)
"""Models that public numbers are enough to plan; the risk theorems speak of the first group."""
CLASSIFIERS = ("LogisticRegression", "LinearSVC", "MLPClassifier")
ALTERNATIVES = ("scaled-gradient", "scaled-objective", "gradient", "objective", "output", "statistics", "newton", "exponential")
SHORT = {
    "logistic": "LogisticRegression",
    "svm": "LinearSVC",
    "linear": "LinearRegression",
    "ridge": "Ridge",
    "huber": "HuberRegressor",
    "quantile": "QuantileRegressor",
    "poisson": "PoissonRegressor",
    "lasso": "Lasso",
    "mlp": "MLPClassifier",
    "mean": "MeanEstimator",
    "median": "MedianEstimator",
}
PRIORS = (0.01, 0.1, 0.5)


def odds(epsilon: float) -> dict[str, Any]:
    """e^ε, and what a belief of p can become: between p/(p + (1-p)e^ε) and p·e^ε/(1 - p + p·e^ε).

    >>> [round(row["after_at_most"], 3) for row in odds(1.0)["beliefs"]]
    [0.027, 0.232, 0.731]
    """
    factor = math.exp(min(epsilon, 700.0))
    beliefs = [
        {
            "before": prior,
            "after_at_least": prior / (prior + (1 - prior) * factor),
            "after_at_most": prior / (prior + (1 - prior) / factor),
        }
        for prior in PRIORS
    ]
    return {"factor": factor, "beliefs": beliefs}


def odds_sentence(epsilon: float, delta: float, relation: str = "replace-one") -> str:
    """The guarantee in words that a person can repeat.

    Replace-one compares two contents of a record; the other relations compare a record with its absence (two contents would be
    two steps, e^{2ε}), so the bet is another one.
    """
    half = odds(epsilon)["beliefs"][-1]
    bet = "says one thing or another" if relation == "replace-one" else "is in the data"
    text = (
        "An attacker who knows everyone else's record, and thinks it an even bet whether the last person's record "
        f"{bet}, would after seeing the release still not be surer than {percent(half['after_at_most'])} of either answer"
    )
    return text + (f" (except with probability {delta:g})." if delta else ".")


def percent(share: float) -> str:
    """A share as a percentage that never rounds up to certainty.

    >>> percent(0.7310), percent(0.99997)
    ('73.1 %', '99.997 %')
    """
    digits = 1
    while digits < 10 and float(f"{share * 100:.{digits}f}") >= 100.0:
        digits += 1
    if share > 0.999 and digits == 1:
        digits = 3
    return f"{share * 100:.{digits}f} %"


def declared(
    model: str,
    n: int,
    d: int,
    *,
    epsilon: float,
    delta: float | None,
    relation: str,
    method: Any = "auto",
    groups: int = 1,
    intervals: bool = False,
) -> tuple[Any, Problem, Shape, Target]:
    """An estimator over d columns with range [0, 1], its problem, size and target."""
    import dperm.estimators as estimators
    from dperm.encoding import Encoding
    from dperm.estimators.declared import asked_intervals

    model = named(model)
    if not (isinstance(n, int) and n >= 1 and isinstance(d, int) and 1 <= d <= 10**6):
        raise ValueError(f"Expected whole numbers n ≥ 1 and 1 ≤ d ≤ 1,000,000, found n={n!r} and d={d!r}.")
    kind = getattr(estimators, model)
    numbers: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "relation": relation, "bounds": (0, 1)}
    if model in LOCATIONS:
        if method != "auto":
            raise ValueError(f"Expected method='auto' for {model}, found {method!r}. It has one mechanism.")
        numbers["delta"] = delta if delta is not None or model == "MeanEstimator" else 0.0
        estimator = kind(**numbers)
        target = Target.declare(epsilon=epsilon, delta=numbers["delta"], relation=relation, n=n, rows_per_person=groups)
        return estimator, Problem(estimator._loss(), data=estimator._data(d, None)), Shape(n, d), target
    extra = {"classes": [0, 1]} if model in CLASSIFIERS else {"y_bounds": (0.0, 1.0)}
    estimator = kind(**numbers, method=method, **extra, **asked_intervals(kind, intervals))
    estimator._encoding = Encoding.from_declaration(d, bounds=(0, 1))
    estimator._size = (n, groups)
    _, _, interval = estimator._labels([0])
    target = Target.declare(epsilon=epsilon, delta=delta, relation=relation, n=n, rows_per_person=groups)
    return estimator, estimator._problem(interval), Shape(n, d), target


def named(model: str) -> str:
    """The estimator's name, from that or a short word.

    >>> named("Median"), named("Lasso")
    ('MedianEstimator', 'Lasso')
    """
    found = SHORT.get(model.lower(), model)
    if found == "FiniteClassLearner":
        raise ValueError(
            "Expected a model that n and d are enough to plan, found 'FiniteClassLearner', which needs its class of rules. Run "
            "`dperm theory pac hypotheses=1000 alpha=0.1 beta=0.05 epsilon=1` for the rows that a class of that size needs."
        )
    if found not in MODELS:
        known = (*MODELS, *SHORT)
        raise ValueError(f"Expected a model in {', '.join(known)}, found {model[:60]!r}.{closest(model, known)}")
    return found


def default_relation(model: str) -> str:
    """The relation that an estimator takes when none is asked for.

    >>> default_relation("ridge"), default_relation("mlp")
    ('replace-one', 'zero-out')
    """
    import dperm.estimators as estimators

    return str(getattr(estimators, named(model))().relation)


def plan_of(estimator: Any, problem: Problem, shape: Shape, target: Target) -> Plan:
    """The plan that `fit` would make."""
    from dperm.walk import plan

    if type(estimator).__name__ in LOCATIONS:
        return plan(problem, shape, target, estimator._mechanism())
    mechanism = choose(
        estimator._asked_method(), problem, shape, target, asked_for=estimator.asked_for, kinds=estimator._encoding.kinds
    )
    return plan(problem, shape, target, mechanism)


def predicted_risks(problem: Problem, shape: Shape, target: Target, *, radius: float = 1.0) -> dict[str, float | None]:
    """Worst-case excess risk (mean scale) of every mechanism with a theorem, for a best fit of norm at most `radius`.

    They inform; they do not rank mechanisms at real n. None where the theorem does not speak.
    """
    return {name: _value(lambda name=name: risk(name, problem, shape.n, shape, target, radius)) for name in RISK_NAMES}


RISK_NAMES = ("gradient", "objective", "output", "exponential")
RISK_NOTE = (
    "Bounds of the theorems, over all data with a best fit of norm at most the radius: they inform, they do not rank. The "
    "gradient's assumes as many plain steps as help (more cost no privacy); the planned schedule takes fewer, faster ones, for "
    "which no such bound is proved. The scaled methods show the bound of their family."
)
NO_RISK_NOTE = "No theorem here bounds the risk of this model: the plan and its privacy are exact, its accuracy is not predicted."


def risk(name: str, problem: Problem, n: float, shape: Shape, target: Target, radius: float) -> float:
    """The bound of `dperm.theory` for one mechanism at n records."""
    row = problem.row_norm * target.rows_per_person
    slope = problem.loss.bounds(problem.row_norm * radius, problem.data.y).slope
    common: dict[str, Any] = {"n": n, "d": shape.parameters(problem), "lipschitz": slope * row, "relation": target.relation}
    delta = target.delta or None
    if name == "exponential":
        return theory.exponential_erm_risk(**common, radius=radius, epsilon=target.epsilon, convex=problem.loss.convex)
    if name == "gradient":
        if delta is None:
            raise theory.ConditionError("Gaussian noise needs delta > 0")
        return theory.gradient_descent_risk(**common, radius=radius, epsilon=target.epsilon, delta=delta)
    if name == "output":
        return theory.output_perturbation_risk(**common, radius=radius, epsilon=target.epsilon, delta=delta)
    curvature = problem.loss.bounds(problem.row_norm * radius, problem.data.y).curvature
    if not (math.isfinite(curvature) and math.isfinite(problem.loss.bounds(math.inf, problem.data.y).slope)):
        raise theory.ConditionError("the loss has no bounded slope and curvature")
    bounding = getattr(problem.loss, "self_bounding", None)
    options = {"smoothness": curvature * problem.row_norm**2} | ({"self_bounding": bounding} if bounding else {})
    return theory.objective_perturbation_risk(**common, radius=radius, epsilon=target.epsilon, delta=delta, **options)


def _value(bound: Callable[[], float]) -> float | None:
    try:
        found = float(bound())
    except (ValueError, ArithmeticError, RuntimeError):  # the theorem does not speak here, or only beyond floats
        return None
    return found if math.isfinite(found) else None


def sample_sizes(problem: Problem, shape: Shape, target: Target, goal: float, *, radius: float = 1.0) -> dict[str, int | None]:
    """Smallest n at which each bound meets the goal, δ kept fixed."""
    if not goal > 0:
        raise ValueError(f"Expected a target risk > 0, found {goal}. Pass e.g. 0.01.")

    def size(name: str) -> int | None:
        def at(n: float) -> float:
            return risk(name, problem, n, shape, target, radius)

        found = _crossing(at, goal, shape.n)
        if found is None:
            found = _value(lambda: theory.sample_size(at, goal))
        return None if found is None else int(found)

    return {name: size(name) for name in RISK_NAMES}


def epsilons(problem: Problem, shape: Shape, target: Target, goal: float, *, radius: float = 1.0) -> dict[str, float | None]:
    """Smallest ε at which each bound meets the goal with these n rows, δ kept fixed."""

    def smallest(name: str) -> float | None:
        def at(epsilon: float) -> float:
            return risk(name, problem, shape.n, shape, replace(target, epsilon=epsilon), radius)

        return _value(lambda: theory.required_epsilon(at, goal))

    return {name: smallest(name) for name in RISK_NAMES}


def _crossing(at: Callable[[float], float], goal: float, start: int) -> int | None:
    """The n with at(n) ≤ goal < at(n - 1), by a few steps in logarithms: the bounds are close to powers of n and not cheap.

    None when a step fails; then `theory.sample_size` bisects.
    """
    n = max(2, start)
    try:
        for _ in range(12):
            here, before = at(n), at(n - 1)
            if here <= goal < before:
                return n
            power = (math.log(before) - math.log(here)) / (math.log(n) - math.log(n - 1))
            step = n * (here / goal) ** (1 / min(max(power, 0.3), 4.0))
            if not 2 <= step < 1e15:
                return None
            n = math.ceil(step - 1e-9) if math.ceil(step - 1e-9) != n else n + (1 if here > goal else -1)
    except (ValueError, ArithmeticError, RuntimeError):
        return None
    return None


def alternatives(
    problem: Problem, shape: Shape, target: Target, *, asked_for: str, kinds: Any, radius: float = 1.0, planned: bool = True
) -> list[dict[str, Any]]:
    """Every mechanism for coefficients: what it lacks for this problem, or what it would do, with its predicted risk.

    Planning the others can take seconds of calibration; `planned=False` leaves it out.
    """
    import dperm.mechanisms  # fills the registry  # noqa: F401

    risks = predicted_risks(problem, shape, target, radius=radius)
    listed = []
    for name in ALTERNATIVES:
        if name not in MECHANISMS:
            continue
        entry: dict[str, Any] = {"mechanism": name, "needs": [], "passes": None}
        try:
            mechanism = build(name, asked_for=asked_for, kinds=kinds, problem=problem)
            entry["needs"] = list(mechanism.missing(problem, target))
            if planned and not entry["needs"]:
                entry["passes"] = sum(event.total() for event in mechanism.plan(problem, shape, target).events)
        except (ValueError, TypeError, ArithmeticError, RuntimeError) as error:
            entry["needs"] = [str(error)]
        entry["predicted_risk"] = risks.get(name.removeprefix("scaled-"))
        listed.append(entry)
    return listed


def compare_accounting(plan: Plan) -> dict[str, float | None]:
    """ε of the same plan at the target's δ by several rules: what exact composition saves. None where a rule does not apply."""
    from dperm.filters import renyi_curve
    from dperm.privacy.conversions import rdp_epsilon, zcdp_epsilon

    delta, relation, events = plan.target.delta, plan.target.relation, plan.events
    count = sum(event.total() for event in events)
    found: dict[str, float | None] = {"exact composition": compose(events, relation).epsilon(delta)}
    if not delta:
        return found
    orders = tuple(1 + 1.25**k for k in range(-8, 28))
    curves = [renyi_curve(event, orders) for event in events]
    spare = delta - sum(mass for _, mass in curves)
    total = [sum(values) for values in zip(*(curve for curve, _ in curves))]
    found["renyi"] = min(rdp_epsilon(a, value, spare) for a, value in zip(orders, total)) if spare > 0 else None
    rho = [event.zcdp() for event in events]
    found["zcdp"] = None if None in rho else zcdp_epsilon(math.fsum(value for value in rho if value is not None), delta)
    single = [(replace(event, count=1), event.total()) if hasattr(event, "count") else (event, 1) for event in events]  # type: ignore[type-var]
    found["basic (sum of epsilons)"] = sum(times * compose([one], relation).epsilon(delta / count) for one, times in single)
    return {key: value if value is not None and math.isfinite(value) else None for key, value in found.items()}


def advise(
    *,
    n: int,
    d: int,
    epsilon: float,
    delta: float | None = None,
    relation: str = "replace-one",
    model: str = "LogisticRegression",
    method: Any = "auto",
    target_risk: float | None = None,
    radius: float = 1.0,
    planned: bool = True,
    intervals: bool = False,
) -> dict[str, Any]:
    """Everything above as one JSON object.

    >>> found = advise(n=10_000, d=10, epsilon=1.0)
    >>> found["mechanism"] in MECHANISMS, found["odds"]["factor"] == math.e
    (True, True)
    """
    numbers: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "relation": relation}
    estimator, problem, shape, target = declared(model, n, d, method=method, intervals=intervals, **numbers)
    plan = plan_of(estimator, problem, shape, target)
    found: dict[str, Any] = {
        "model": named(model),
        "n": n,
        "d": d,
        "epsilon": target.epsilon,
        "delta": target.delta,
        "relation": relation,
        "mechanism": plan.mechanism,
        "stages": [{"name": stage.name, "event": stage.event.spec()} for stage in plan.stages],
        "explanation": plan.explain(),
        "warnings": list(plan.warnings),
        "odds": odds(target.epsilon),
        "odds_sentence": odds_sentence(target.epsilon, target.delta, relation),
    }
    return found | outlook(estimator, plan, problem, radius=radius, planned=planned, target_risk=target_risk)


def outlook(
    estimator: Any, plan: Plan, problem: Problem, *, radius: float = 1.0, planned: bool = True, target_risk: float | None = None
) -> dict[str, Any]:
    """Predicted risks, the alternatives, and the n or ε that a target risk needs; None where no theorem speaks of the model."""
    if not 0 < radius < math.inf:
        raise ValueError(f"Expected a radius > 0, found {radius:g}. Pass the norm of the best coefficients, e.g. 1.")
    if target_risk is not None and not 0 < target_risk < math.inf:
        raise ValueError(f"Expected a target risk > 0, found {target_risk:g}. Pass e.g. 0.01.")
    shape, target, none = plan.shape, plan.target, dict.fromkeys(RISK_NAMES)
    spoken = type(estimator).__name__ in BOUNDED
    found: dict[str, Any] = {
        "noise_ratio": expected_noise_ratio(problem, shape, target) if spoken and target.delta else None,
        "predicted_risk": predicted_risks(problem, shape, target, radius=radius) if spoken else none,
        "risk_note": RISK_NOTE if spoken else NO_RISK_NOTE,
        "alternatives": [],
    }
    if spoken:
        kinds = estimator._encoding.kinds
        common: dict[str, Any] = {"asked_for": estimator.asked_for, "kinds": kinds, "radius": radius, "planned": planned}
        found["alternatives"] = alternatives(problem, shape, target, **common)
    if plan.mechanism not in [entry["mechanism"] for entry in found["alternatives"]]:
        passes = sum(event.total() for event in plan.events)
        own = {"mechanism": plan.mechanism, "needs": [], "passes": passes, "predicted_risk": None}
        found["alternatives"].insert(0, own)
    if target_risk is not None:
        given: tuple[Any, ...] = (problem, shape, target, target_risk)
        found["sample_size"] = {"target_risk": target_risk, **(sample_sizes(*given, radius=radius) if spoken else none)}
        found["epsilon_needed"] = epsilons(*given, radius=radius) if spoken else none
    return found
