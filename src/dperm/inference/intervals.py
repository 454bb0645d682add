"""Standard errors and intervals of private coefficients: sampling and privacy noise together.

scaled-inference       what `intervals=True` fits by: one Newton step from a noisy descent with two released matrices;
                       `mechanisms/scaled/one_step.py` and `docs/theorems/intervals.md`
statistics (linear)    ŵ = A⁻¹c from released moments, A = Σzzᵀ + E, symmetric noise E of deviation s (s/√2 off the diagonal):
                       Cov ŵ ≈ A⁻¹(σ²A + (s²/2)(‖u‖²I + uuᵀ))A⁻¹,  u = (-w, 1), σ² the residual variance from the same moments
objective (logistic)   ŵ = argmin Σℓ + (λ/2)‖w‖² + ⟨b, w⟩. With H = Σφ''zzᵀ at ŵ, released for a budget of its own:
                       w̃ = ŵ + λH⁻¹ŵ (one Newton step takes the ridge's bias away, since ∇Σℓ(ŵ) = -λŵ - b), and
                       Cov w̃ ≈ H⁻¹(H + σ_b²I)H⁻¹ + λ²H⁻¹((s²/2)(‖v‖²I + vvᵀ))H⁻¹,  v = H⁻¹ŵ

For the last two H estimates both the curvature and, when the model holds, the covariance of the scores; a matrix whose
eigenvalues do not stand out of its noise is refused rather than inverted.

**Why not for the other methods.** Clipped descent has a bias without closed form; private scaling adds random units; pure output
and exponential noise have their own laws. They are refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dperm.inference.summary import Summary, reach
from dperm.mechanisms.registry import mechanism_of_plan
from dperm.mechanisms.scaled.errors import Errors
from dperm.mechanisms.scaled.inference import ScaledInference
from dperm.mechanisms.scaled.one_step import OneStep
from dperm.privacy import Event, Gaussian, compose, gaussian_mu
from dperm.problem import Problem
from dperm.problem.arrays import is_sparse
from dperm.release.asks import Program, Sum
from dperm.release.noise import gaussian_scale, noise_source
from dperm.release.plan import Plan, Shape, Stage, Target, Vector
from dperm.rows.memory import MemoryRows
from dperm.tables.encoding import Encoding
from dperm.terms.information import InformationTerm, information_term
from dperm.terms.moments import smat
from dperm.walk.fitting import execute
from dperm.words.wording import printable

if TYPE_CHECKING:
    from dperm.estimators.base import PrivateEstimator


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
    model: Any,
    X: Any,
    y: Any = None,
    *,
    epsilon: float,
    delta: float | None = None,
    ledger: Any = None,
    random_state: Any = None,
    groups: Any = None,
) -> Information:
    """Pay for the curvature matrix that intervals of an objective-perturbation fit need, from the rows of the fit.

    **Guarantee**: one Gaussian release of a matrix with sensitivity as in `InformationTerm`. Beside the fit it costs
    `total_epsilon` at the larger of the two δ, by exact composition; a second release adds to it. Exact composition
    needs budgets that do not depend on what was released before: the total holds if ε and δ of this release were fixed
    before the fit was seen. If they were chosen after looking at it, the total is what a ledger debited for both states,
    because its filters allow budgets chosen on the way. The fit's certificate stays what it was, a statement about the fit.
    """
    from dperm.tables.persons import person_weights, unit_of

    problem, record = _objective_problem(model)
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


def summary(model: Any, level: float = 0.95, *, exponentiate: bool = False) -> Summary:
    """The table for a fitted model, or a refusal that says why there is none."""
    reach(level)
    if exponentiate and not (hasattr(model, "classes_") or model._loss().name == "poisson"):
        raise ValueError(
            "Expected a logistic or a Poisson regression for exponentiate=True, whose coefficients are logarithms of ratios, "
            f"found {type(model).__name__}. Leave exponentiate= out."
        )
    mechanism = _mechanism(model)
    kept = contrasts(model)
    errors, note = ROUTES[mechanism](model, kept)
    note += "; a level's line compares it with the first level of its column" if kept.references else ""
    lift, constant = _units(model, kept)
    names = [model._encoding.names[j] for j in kept.places[kept.places < model._encoding.d]]
    names += ["intercept"] if model.fit_intercept else []
    return Summary(tuple(names), errors.mapped(lift, constant), level, note, exponentiate)


def _units(model: Any, kept: Contrasts) -> tuple[Vector, Vector]:
    """(matrix, constant) from encoded coefficients to the units of `coef_`.

    Slopes w/width, intercept c₀·w₀ - Σ w·anchor/width, both times half the range of y for a regression; a count regression adds
    the logarithm of the count in units of which it is stored.
    """
    columns = kept.places[kept.places < model._encoding.d]
    width, anchor, d = model._encoding.width[columns], model._encoding.anchor[columns], len(columns)
    half, middle = 1.0, 0.0
    if hasattr(model, "_y_low"):
        half, middle = (model._y_high - model._y_low) / 2, (model._y_high + model._y_low) / 2
    elif hasattr(model, "_unit"):
        middle = math.log(model._unit)
    lift = np.zeros((d + 1, d + int(model.fit_intercept)))
    lift[np.arange(d), np.arange(d)] = half / width
    lift[d, :d] = -half * anchor / width
    if not model.fit_intercept:
        return lift[:d], np.zeros(d)
    lift[d, d] = half
    return lift, np.r_[np.zeros(d), middle]


def margin_errors(model: Any, X: Any) -> tuple[Vector, Vector]:
    """Scores ⟨encoded x, w⟩ of new rows and their standard errors, for a fit by `scaled-inference`."""
    if _mechanism(model) != "scaled-inference":
        found = model.certificate_.mechanism
        raise ValueError(f"Expected a fit with intervals=True and method='auto' for intervals of predictions, found {found!r}.")
    encoded = model._encoded(X)
    rows = np.asarray(encoded.toarray() if is_sparse(encoded) else encoded, dtype=np.float64)
    if model.fit_intercept:
        rows = np.column_stack([rows, np.ones(len(rows))])
    errors, _, _ = _one_step(model)
    return rows @ errors.estimate, np.sqrt(np.add(*errors.variances(rows)))


def score_interval(model: object, X: object, level: float) -> tuple[Vector, Vector, Vector]:
    """Scores of new rows with the ends of their intervals."""
    check_is_fitted(model, "certificate_")
    width = reach(level)
    scores, errors = margin_errors(model, X)
    return scores, scores - width * errors, scores + width * errors


@dataclass(frozen=True)
class Contrasts:
    """The coefficients that data can tell apart: without the first level of each one-hot group, where there is an intercept.

    The columns of a group add up to the intercept's, so levels and intercept are determined only up to a shift. With z_ref =
    1 - Σ others the margins are ⟨z_kept, Mᵀw⟩: levels become differences from the first, the intercept takes up the first.
    """

    places: Any
    references: tuple[int, ...]
    map: Vector


def scaled_inference(model: PrivateEstimator) -> ScaledInference:
    """The method for the encoded columns of a model; it knows which are levels of one group, which only contrasts tell apart."""
    encoding = model._encoding
    groups = one_hot_groups(encoding) if model.fit_intercept and encoding.x_norm is None else ()
    return ScaledInference(tuple(encoding.kinds), groups)


def one_hot_groups(encoding: Encoding) -> tuple[int, ...]:
    """The one-hot group of each encoded column, -1 for none; columns that were moved or stretched do not add up to 1."""
    return tuple(
        int(group) if anchor == 0 and width == 1 else -1
        for group, anchor, width in zip(encoding.groups, encoding.anchor, encoding.width)
    )


def contrasts(model: PrivateEstimator) -> Contrasts:
    encoding, d = model._encoding, model._encoding.d
    p = d + int(model.fit_intercept)
    members: dict[int, list[int]] = {}
    for j, group in enumerate(encoding.groups):
        if group >= 0 and model.fit_intercept:
            members.setdefault(group, []).append(j)
    references = tuple(group[0] for group in members.values())
    places = np.array([j for j in range(p) if j not in references], dtype=np.int64)
    matrix = np.eye(p)[:, places]
    for first, *others in members.values():
        matrix[first, places == d] = 1.0
        matrix[first, np.isin(places, others)] = -1.0
    return Contrasts(places, references, matrix)


def _mechanism(model: object) -> str:
    certificate = getattr(model, "certificate_", None)
    if certificate is None or not hasattr(model, "plan_"):
        raise ValueError("Expected a model fresh from fit, found one without its plan. Ask for intervals where it was fitted.")
    name = certificate.mechanism
    if name in ROUTES:
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
    several = len(getattr(model, "classes_", ())) > 2
    if several or not getattr(model, "has_intervals", False):
        what = "A fit of several classes" if several else type(model).__name__
        advice = (
            f"{what} has none by any method: use LinearRegression, Ridge, HuberRegressor, QuantileRegressor, PoissonRegressor "
            "or, for two classes, LogisticRegression, with intervals=True."
        )
    raise ValueError(f"Expected a fit with intervals=True, found one by {name!r}: {why}. {advice}")


def _one_step(model: PrivateEstimator) -> tuple[Errors, OneStep, Vector]:
    """Errors of all encoded coefficients of a fit by `scaled-inference`, the step behind them, and the map to the columns."""
    plan, problem = model.plan_, Problem.from_spec(model.certificate_.record["problem"])
    mechanism = mechanism_of_plan(plan, ScaledInference)
    return mechanism.in_columns(plan, problem, model.release_.released)


def _scaled(model: Any, kept: Contrasts) -> tuple[Errors, str]:
    errors, step, lift = _one_step(model)
    return errors.mapped(kept.map.T), target_sentence(model) + _weak_directions(model, step, lift)


def target_sentence(model: PrivateEstimator) -> str:
    """What the estimates are of, in one sentence without a full stop."""
    problem, decided = Problem.from_spec(model.certificate_.record["problem"]), model.certificate_.record["decided"]
    loss = problem.loss.name
    half = (model._y_high - model._y_low) / 2 if hasattr(model, "_y_low") else 1.0
    clip = f"{half * np.asarray(decided['clip'], dtype=np.float64)[-1]:.3g}"
    weights = "rows weighted down by min(1, (R/length)²)"
    sentence = {
        "logistic": f"log-odds of the logistic model on {weights}, the ordinary ones if the model holds",
        "squared": f"least squares with residuals clipped at {clip} and {weights}: the ordinary coefficients if the mean is "
        "linear and errors are symmetric or independent of the columns",
        "huber": f"Huber regression with threshold {clip} on {weights}: the coefficients of the mean if it is linear and errors "
        "are symmetric",
        "poisson": f"Poisson regression with Pearson residuals clipped at {clip} (in units of the mean rate) and {weights}: the "
        "ordinary coefficients if the log-mean is linear and few residuals are clipped",
        "quantile": f"quantile smoothed over ±{clip} on {weights}: the coefficients of the quantile if it is linear",
    }[loss]
    if problem.regularizer.name == "ridge":
        sentence += "; the ridge's bias towards 0 is part of the target and not of the error"
    if loss != "poisson" and model.plan_.options.get("max_weight") is not None:
        sentence += "; rows count by their sample or class weights"
    if (most := model.plan_.target.rows_per_person) > 1:
        sentence += f"; sampling errors hold however alike the up to {most} rows of a person are"
    return f"{sentence}; errors include sampling and privacy noise"


def _weak_directions(model: PrivateEstimator, step: OneStep, lift: Vector) -> str:
    """Names the columns of the directions that the matrix cannot tell from flat, each in deviations of its column."""
    weak = step.unresolved().T
    if len(weak) == 0:
        return ""
    if len(weak) > max(2, len(step.eigenvalues) // 3):
        return "; the curvature does not stand out of its noise, so intervals are wide"
    names = [*map(printable, model._encoding.names), "intercept"]
    scale = np.append(np.asarray(model.certificate_.record["decided"]["scale"]), 1.0)[: len(lift)]
    told = []
    for direction in weak:
        parts = np.abs(lift @ direction / scale)
        told.append(" and ".join(names[j] for j in np.flatnonzero(parts > 0.3 * np.linalg.norm(parts))[:6]))
    return f"; the data can hardly tell apart {'; '.join(told)}: their intervals have no guarantee"


def _statistics(model: Any, kept: Contrasts) -> tuple[Errors, str]:
    from dperm.mechanisms.statistics import Moments

    moments = Moments.of(model.release_)
    chosen = np.r_[kept.places, len(moments.matrix) - 1]
    moments = replace(moments, matrix=moments.matrix[np.ix_(chosen, chosen)])
    p = len(kept.places)
    gram, cross = moments.matrix[:p, :p], moments.matrix[:p, p] / moments.target_scale
    _standing_out(gram, moments.floor)
    inverse = np.linalg.inv(gram)
    w = inverse @ cross  # without a ridge: intervals are for the least-squares target
    lifted = np.r_[-w, 1.0 / moments.target_scale]
    # Expectation of the released residual form: Σ(y - zw)² + noise with variance known; its own value is the estimate.
    u = np.r_[-moments.target_scale * w, 1.0]
    rest = float(u @ moments.matrix @ u) / moments.target_scale**2
    variance = max(rest, moments.scale / moments.target_scale**2) / max(moments.n - p, 1)
    # E(-w, 1/τ): Cov(Eu)= (s²/2)(‖u‖²I + uuᵀ); only the first p entries act on w.
    noise = moments.scale**2 / 2 * ((lifted @ lifted) * np.eye(p) + np.outer(w, w))
    sampling = np.asarray(variance * inverse)
    note = "estimates of the least-squares coefficients without a ridge; errors include sampling and privacy noise"
    return Errors(w, sampling, sampling, inverse @ noise @ inverse), note


def _objective_problem(model: PrivateEstimator) -> tuple[Problem, Mapping[str, Any]]:
    if _mechanism(model) != "objective":
        raise ValueError("Expected a fit by 'objective', found 'statistics', whose intervals need no further release.")
    record: Mapping[str, Any] = model.certificate_.record
    problem = Problem.from_spec(record["problem"])
    if problem.loss.name != "logistic":
        raise ValueError(f"Expected a logistic regression with two classes for intervals, found the loss {problem.loss.name!r}.")
    if record["mechanism"]["options"].get("max_weight", 1.0) not in (None, 1.0):
        raise ValueError("Expected a fit without sample or class weights for intervals, found weights. Fit without them.")
    return problem, record


def _objective(model: Any, kept: Contrasts) -> tuple[Errors, str]:
    _objective_problem(model)
    information = getattr(model, "information_", None) or _planned_information(model)
    if information is None:
        raise ValueError(
            "Expected a released curvature matrix for the intervals of an objective-perturbation fit, found none: the sampling "
            "part cannot be known from the coefficients alone. Fit with intervals=True (--intervals), which pays for it out of "
            "the same epsilon, or pay extra for this fit: model.release_information(X, y, epsilon=...)."
        )
    settings = model.plan_.stage("objective").settings
    p = len(kept.places)
    H, s, ridge = information.matrix[np.ix_(kept.places, kept.places)], information.scale, float(settings["ridge"])
    _standing_out(H, 2 * s * math.sqrt(p))
    inverse = np.linalg.inv(H)
    v = inverse @ model.w_[kept.places]
    w = kept.map.T @ model.w_ + ridge * v
    # Gaussian tilt: variance σ²; Gamma-norm tilt: E‖b‖²/p = (p + 1)·scale² per coordinate of all of w.
    tilt = float(settings["noise_scale"]) ** 2 * (len(model.w_) + 1 if settings["noise"] == "pure" else 1)
    of_matrix = s**2 / 2 * ((v @ v) * np.eye(p) + np.outer(v, v))
    privacy = inverse @ (tilt * np.eye(p) + ridge**2 * of_matrix) @ inverse
    note = (
        "estimates with the ridge's bias taken away; errors include sampling (if the logistic model holds) and privacy noise; "
        f"fit and curvature together cost epsilon {information.total_epsilon:.4g}{information.condition}"
    )
    return Errors(w, inverse, inverse, privacy), note


def _planned_information(model: PrivateEstimator) -> Information | None:
    """The matrix that the fit itself released, where it was planned with one."""
    values = model.release_.released.get("information")
    if values is None:
        return None
    stage, target = model.plan_.stage("information"), model.plan_.target
    matrix = smat(np.asarray(values, dtype=np.float64), len(model.w_))
    scale, seeded = float(stage.settings["scale"]), model.certificate_.noise == "seeded"
    return Information(matrix, scale, target.epsilon, target.delta, target.epsilon, model.plan_, seeded=seeded)


def _standing_out(matrix: Vector, floor: float) -> None:
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if smallest <= floor:
        raise ValueError(
            f"Expected a matrix whose eigenvalues stand out of its noise for intervals, found {smallest:.3g} below {floor:.3g}. "
            "Use more rows, fewer columns, narrower bounds or a larger epsilon."
        )


ROUTES: dict[str, Callable[[object, Contrasts], tuple[Errors, str]]] = {
    "scaled-inference": _scaled,
    "statistics": _statistics,
    "objective": _objective,
}
