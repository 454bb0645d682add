"""The curvature matrix that intervals of a fit by `objective` need: planned with the fit, or paid for after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dperm.privacy import Event, Gaussian, compose, gaussian_mu
from dperm.problem import Problem
from dperm.release.asks import Program, Sum
from dperm.release.noise import gaussian_scale, noise_source
from dperm.release.plan import Plan, Shape, Stage, Target, Vector
from dperm.rows.memory import MemoryRows
from dperm.tables.persons import person_weights, unit_of
from dperm.terms.moments import InformationTerm, information_term, smat
from dperm.walk.fitting import execute

if TYPE_CHECKING:
    from dperm.estimators.base import PrivateEstimator
    from dperm.release.ledger.book import LedgerPlace
    from dperm.release.record import CertificateRecord

WITH_INTERVALS = ("scaled-inference", "statistics", "objective")


@dataclass(frozen=True)
class Information:
    """A released curvature matrix, what it cost, and what fit and release cost together."""

    matrix: Vector
    scale: float
    epsilon: float
    delta: float
    total_epsilon: float
    plan: Plan
    events: tuple[Event, ...] = ()  # of this release and of earlier ones for the same fit
    seeded: bool = False

    @property
    def condition(self) -> str:
        """What the total rests on when the matrix was paid for after the fit; nothing when the fit's own plan held it."""
        if not self.events:
            return ""
        return (
            ", provided that this second budget was fixed before the fit was seen (otherwise the total is what a ledger "
            "that was debited for both states)"
        )

    @property
    def statement(self) -> str:
        """What fit and matrix cost together; the certificate speaks of the fit alone."""
        text = f"({self.total_epsilon:.4g}, {self.delta:g})-differential privacy for the fit and its curvature matrix together"
        return f"{text}{self.condition}." + (" THIS RELEASE IS NOT PRIVATE: noise was seeded." if self.seeded else "")


def release_information(
    model: PrivateEstimator,
    X: object,
    y: object = None,
    *,
    epsilon: float,
    delta: float | None = None,
    ledger: LedgerPlace = None,
    random_state: object = None,
    groups: object = None,
) -> Information:
    """Pay for the curvature matrix that intervals of an objective-perturbation fit need, from the rows of the fit.

    **Guarantee**: one Gaussian release of a matrix with sensitivity as in `InformationTerm`. Beside the fit it costs
    `total_epsilon` at the larger of the two δ, by exact composition; a second release adds to it. Exact composition
    needs budgets that do not depend on what was released before: the total holds if ε and δ of this release were fixed
    before the fit was seen. If they were chosen after looking at it, the total is what a ledger debited for both states,
    because its filters allow budgets chosen on the way. The fit's certificate stays what it was, a statement about the fit.
    """
    problem, record = objective_problem(model)
    rows, labels, groups = model._unpack(X, y, groups)
    labels, weight, _ = model._labels(labels)
    weight, per_person = person_weights(groups, model.max_rows_per_person, weight, len(labels))
    shape = Shape(record["shape"]["n"], record["shape"]["d"])
    target = Target.declare(
        epsilon=epsilon,
        delta=model.certificate_.delta or None if delta is None else delta,
        relation=model.certificate_.relation,
        n=shape.n,
        rows_per_person=per_person,
        unit=unit_of(groups),
    )
    if target.delta == 0:
        raise ValueError("Expected delta > 0 for the curvature matrix, whose noise is Gaussian, found 0. Pass delta=1e-6.")
    term = information_term(problem, model.w_)
    mu = gaussian_mu(target.epsilon, target.delta) * (1 - 1e-12)
    scale = gaussian_scale(term.sensitivity(target.relation) * per_person, mu)
    plan = Plan("information", {}, (Stage("information", Gaussian(mu), {"scale": scale}),), target, shape)
    source = noise_source(model.noise, random_state if random_state is not None else model.random_state)
    book = model.ledger if ledger is None else ledger
    held = MemoryRows(rows, labels, weight).bounded(problem.data, problem.feature_map)
    outcome, _ = execute(_information(term), plan, held, source, ledger=book, fingerprint=X, note="information")
    matrix = smat(outcome.w, shape.parameters(problem))
    earlier = getattr(model, "information_", None)
    events = (*(() if earlier is None else earlier.events), *plan.events)
    delta = max(target.delta, model.certificate_.delta)
    together = compose([*model.plan_.events, *events], target.relation).epsilon(delta)
    seeded = source.policy == "seeded" or model.certificate_.noise == "seeded" or (earlier is not None and earlier.seeded)
    return Information(matrix, scale, target.epsilon, delta, together, plan, events, seeded)


def _information(term: InformationTerm) -> Program:
    return np.asarray((yield Sum("information", term)))


def objective_problem(model: PrivateEstimator) -> tuple[Problem, CertificateRecord]:
    """The problem and the record of a logistic fit by `objective`, or a refusal."""
    if (found := route(model)) != "objective":
        raise ValueError(f"Expected a fit by 'objective', found {found!r}, whose intervals need no further release.")
    record = model.certificate_.record
    problem = Problem.from_spec(record["problem"])
    if problem.loss.name != "logistic":
        raise ValueError(f"Expected a logistic regression with two classes for intervals, found the loss {problem.loss.name!r}.")
    if record["mechanism"]["options"].get("max_weight", 1.0) not in (None, 1.0):
        raise ValueError("Expected a fit without sample or class weights for intervals, found weights. Fit without them.")
    return problem, record


def planned_information(model: PrivateEstimator) -> Information | None:
    """The matrix that the fit itself released, where it was planned with one."""
    values = model.release_.released.get("information")
    if values is None:
        return None
    stage, target = model.plan_.stage("information"), model.plan_.target
    matrix = smat(np.asarray(values, dtype=np.float64), len(model.w_))
    scale, seeded = float(stage.settings["scale"]), model.certificate_.noise == "seeded"
    return Information(matrix, scale, target.epsilon, target.delta, target.epsilon, model.plan_, seeded=seeded)


def route(model: object) -> str:
    """The mechanism of a fit that has intervals, or a refusal that says why it has none."""
    certificate = getattr(model, "certificate_", None)
    if certificate is None or not hasattr(model, "plan_"):
        raise ValueError("Expected a model fresh from fit, found one without its plan. Ask for intervals where it was fitted.")
    name = certificate.mechanism
    if name in WITH_INTERVALS:
        return str(name)
    reasons = {
        "scaled-gradient": "clipped gradients have a bias without closed form",
        "gradient": "its steps are clipped and stopped early, a bias without closed form",
        "scaled-objective": "its columns are scaled by private estimates, whose error has no closed form here",
        "newton": "its damping depends on private estimates",
        "output": "its ridge bias is of the size of its noise",
        "exponential": "its law is not Gaussian",
    }
    why = reasons.get(name, "its error has no closed form here")
    advice = "Fit with intervals=True (--intervals), which chooses the method that has them."
    if not getattr(model, "has_intervals", False):
        advice = (
            f"{type(model).__name__} has none by any method: use LinearRegression, Ridge, HuberRegressor, QuantileRegressor, "
            "PoissonRegressor or LogisticRegression, with intervals=True."
        )
    raise ValueError(f"Expected a fit with intervals=True, found one by {name!r}: {why}. {advice}")
