"""Every mechanism for a problem: what it lacks, and the worst-case risk that its theorem predicts.

Worst-case bounds inform; they do not rank mechanisms at real n.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TypedDict

from dperm import theory
from dperm.choose.table import build, whitened
from dperm.privacy import Event, compose
from dperm.privacy.conversions import rdp_epsilon, zcdp_epsilon
from dperm.privacy.filters import renyi_curve
from dperm.problem import Problem
from dperm.release.plan import MECHANISMS, Plan, Shape, Target

ALTERNATIVES = ("scaled-gradient", "scaled-objective", "gradient", "objective", "output", "statistics", "newton", "exponential")
EMBEDDINGS = ("heads", "least-squares")
RISK_NAMES = ("gradient", "objective", "output", "exponential")
RISK_NOTE = (
    "Bounds of the theorems, over all data with a best fit of norm at most the radius: they inform, they do not rank. The "
    "gradient's assumes as many plain steps as help (more cost no privacy); the planned schedule takes fewer, faster ones, for "
    "which no such bound is proved. The scaled methods show the bound of their family."
)
NO_RISK_NOTE = "No theorem here predicts the accuracy of this model or bounds its risk; the plan and its privacy are exact."


class Common(TypedDict):
    """What every bound of `dperm.theory` takes."""

    n: float
    d: float
    lipschitz: float
    relation: str
    radius: float
    epsilon: float


class AlternativeRecord(TypedDict):
    """A mechanism for a problem: what it lacks, how many releases it would make, and its bound on the risk."""

    mechanism: str
    needs: list[str]
    passes: int | None
    predicted_risk: float | None


def predicted_risks(problem: Problem, shape: Shape, target: Target, *, radius: float = 1.0) -> dict[str, float | None]:
    """Worst-case excess risk (mean scale) of every mechanism with a theorem, for a best fit of norm at most `radius`.

    They inform; they do not rank mechanisms at real n. None where the theorem does not speak.
    """
    return {name: _value(partial(risk, name, problem, shape.n, shape, target, radius)) for name in RISK_NAMES}


def risk(name: str, problem: Problem, n: float, shape: Shape, target: Target, radius: float) -> float:
    """The bound of `dperm.theory` for one mechanism at n records."""
    row = problem.row_norm * target.rows_per_person
    slope = problem.loss.bounds(problem.row_norm * radius, problem.data.y).slope
    common: Common = {
        "n": n,
        "d": shape.parameters(problem),
        "lipschitz": slope * row,
        "relation": target.relation,
        "radius": radius,
        "epsilon": target.epsilon,
    }
    delta = target.delta or None
    if name == "exponential":
        return theory.exponential_erm_risk(**common, convex=problem.loss.convex)
    if name == "gradient":
        if delta is None:
            raise theory.ConditionError("Gaussian noise needs delta > 0")
        return theory.gradient_descent_risk(**common, delta=delta)
    if name == "output":
        return theory.output_perturbation_risk(**common, delta=delta)
    curvature = problem.loss.bounds(problem.row_norm * radius, problem.data.y).curvature
    if not (math.isfinite(curvature) and math.isfinite(problem.loss.bounds(math.inf, problem.data.y).slope)):
        raise theory.ConditionError("the loss has no bounded slope and curvature")
    bounding = getattr(problem.loss, "self_bounding", None)
    options = {"smoothness": curvature * problem.row_norm**2} | ({"self_bounding": bounding} if bounding else {})
    return theory.objective_perturbation_risk(**common, delta=delta, **options)


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

        found = _crossing(at, goal, shape.n) or _value(lambda: theory.sample_size(at, goal))
        return None if found is None else int(found)

    return {name: size(name) for name in RISK_NAMES}


def epsilons(problem: Problem, shape: Shape, target: Target, goal: float, *, radius: float = 1.0) -> dict[str, float | None]:
    """Smallest ε at which each bound meets the goal with these n rows, δ kept fixed."""
    return dict(_epsilons(problem, shape, replace(target, epsilon=1.0), goal, radius))


@lru_cache(maxsize=64)  # asked for twice: for the ε of a plan, and for its page
def _epsilons(problem: Problem, shape: Shape, target: Target, goal: float, radius: float) -> tuple[tuple[str, float | None], ...]:
    def smallest(name: str) -> float | None:
        def at(epsilon: float) -> float:
            return risk(name, problem, shape.n, shape, replace(target, epsilon=epsilon), radius)

        return _value(lambda: theory.required_epsilon(at, goal))

    return tuple((name, smallest(name)) for name in RISK_NAMES)


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
    problem: Problem,
    shape: Shape,
    target: Target,
    *,
    asked_for: str,
    kinds: Sequence[str],
    radius: float = 1.0,
    planned: bool = True,
) -> list[AlternativeRecord]:
    """Every mechanism for coefficients: what it lacks for this problem, or what it would do, with its predicted risk.

    Planning the others can take seconds of calibration; `planned=False` leaves it out.
    """
    risks = predicted_risks(problem, shape, target, radius=radius)
    listed: list[AlternativeRecord] = []
    for name in _listed(problem, shape, target, asked_for, kinds):
        if name not in MECHANISMS:
            continue
        bound = risks.get(name.removeprefix("scaled-"))
        entry: AlternativeRecord = {"mechanism": name, "needs": [], "passes": None, "predicted_risk": bound}
        try:
            mechanism = build(name, problem, shape, target, asked_for=asked_for, kinds=kinds)
            entry["needs"] = list(mechanism.missing(problem, target))
            if planned and not entry["needs"]:
                entry["passes"] = sum(event.total() for event in mechanism.plan(problem, shape, target).events)
        except (ValueError, TypeError, ArithmeticError, RuntimeError) as error:
            entry["needs"] = [str(error)]
        listed.append(entry)
    return listed


def _listed(problem: Problem, shape: Shape, target: Target, asked_for: str, kinds: Sequence[str]) -> tuple[str, ...]:
    if asked_for == "embeddings":
        return EMBEDDINGS
    return ("scaled-heads", *ALTERNATIVES) if target.delta > 0 and whitened(problem, shape, target, kinds) else ALTERNATIVES


def _once(event: Event) -> Event:
    """One of the repetitions that an event counts."""
    return dataclasses.replace(event, **{"count": 1}) if hasattr(event, "count") else event


def compare_accounting(plan: Plan) -> dict[str, float | None]:
    """ε of the same plan at the target's δ by several rules: what exact composition saves. None where a rule does not apply."""

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
    single = [(_once(event), event.total() if hasattr(event, "count") else 1) for event in events]
    found["basic (sum of epsilons)"] = sum(times * compose([one], relation).epsilon(delta / count) for one, times in single)
    return {key: value if value is not None and math.isfinite(value) else None for key, value in found.items()}
