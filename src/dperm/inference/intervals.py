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
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import expit, logsumexp, softmax
from sklearn.utils.validation import check_is_fitted

from dperm.inference.information import objective_problem, planned_information, route
from dperm.inference.summary import Summary, reach
from dperm.inference.targets import CLEAR, target_sentence
from dperm.mechanisms.registry import mechanism_of_plan
from dperm.mechanisms.scaled.errors import Errors
from dperm.mechanisms.scaled.inference import ScaledInference
from dperm.mechanisms.scaled.one_step import OneStep
from dperm.mechanisms.scaled.settings import budget_of
from dperm.mechanisms.statistics import Moments
from dperm.problem import Problem
from dperm.problem.arrays import Vector, is_sparse
from dperm.tables.encoding import Encoding
from dperm.words.wording import listed, printable

if TYPE_CHECKING:
    from dperm.estimators.base import PrivateEstimator

ROWS_AT_ONCE = 2**21  # numbers of the combinations behind intervals of probabilities that are in memory together
NEAR = 3.0  # how many times as many rows, or as few, as were declared leave intervals as they should be


def summary(model: Any, level: float = 0.95, *, exponentiate: bool = False) -> Summary:
    """The table for a fitted model, or a refusal that says why there is none."""
    check_is_fitted(model, "certificate_")
    reach(level)
    level = float(level)
    if exponentiate and not (hasattr(model, "classes_") or model._loss().name == "poisson"):
        raise ValueError(
            "Expected a logistic or a Poisson regression for exponentiate=True, whose coefficients are logarithms of ratios, "
            f"found {type(model).__name__}. Leave exponentiate= out."
        )
    mechanism = route(model)
    kept = contrasts(model)
    errors, note = ROUTES[mechanism](model, kept)
    note += "; a level's line compares it with the first level of its column" if kept.references else ""
    lift, constant = _units(model, kept)
    names = [model._encoding.names[j] for j in kept.places[kept.places < model._encoding.d]]
    names += ["intercept"] if model.fit_intercept else []
    if others := compared_classes(model):
        lift, constant = np.asarray(np.kron(np.eye(len(others)), lift)), np.tile(constant, len(others))
        names = [f"{label}: {name}" for label in others for name in names]
    return Summary(tuple(names), errors.mapped(lift, constant), level, note, exponentiate, others)


def compared_classes(model: PrivateEstimator) -> tuple[str, ...]:
    """The classes that a table of several compares with the first one; none for two classes or a number."""
    labels = [str(label) for label in getattr(model, "classes_", ())]
    return tuple(labels[1:]) if len(labels) > 2 else ()


def _units(model: PrivateEstimator, kept: Contrasts) -> tuple[Vector, Vector]:
    """(matrix, constant) from encoded coefficients to the units of `coef_`.

    Slopes w/width, intercept c₀·w₀ - Σ w·anchor/width, both times half the range of y for a regression; a count regression adds
    the logarithm of the count in units of which it is stored.
    """
    columns = kept.places[kept.places < model._encoding.d]
    width, anchor, d = model._encoding.width[columns], model._encoding.anchor[columns], len(columns)
    half, middle = model._step(), 0.0
    if hasattr(model, "_y_low"):
        middle = (model._y_high + model._y_low) / 2
    elif hasattr(model, "_unit"):
        middle = math.log(model._unit)
    lift = np.zeros((d + 1, d + int(model.fit_intercept)))
    lift[np.arange(d), np.arange(d)] = half / width
    lift[d, :d] = -half * anchor / width
    if not model.fit_intercept:
        return lift[:d], np.zeros(d)
    lift[d, d] = half
    return lift, np.r_[np.zeros(d), middle]


def rows_and_errors(model: PrivateEstimator, X: object) -> tuple[Vector, Errors, np.ndarray]:
    """New rows with their intercept, encoded; the errors of all encoded coefficients of a fit by `scaled-inference`; and for
    which rows they hold: those with a level in every column of levels. Levels and intercept are known up to a shift alone: the
    score of a row with a missing or unknown level is arbitrary, and its error is not among them."""
    check_is_fitted(model, "certificate_")
    if route(model) != "scaled-inference":
        found = model.certificate_.mechanism
        raise ValueError(
            f"Expected a fit with intervals=True and method='auto' for intervals of predictions, found {found!r}. "
            "Fit one."
        )
    encoded = model._encoded(X)
    rows = np.asarray(encoded.toarray() if is_sparse(encoded) else encoded, dtype=np.float64)
    groups = np.array(mechanism_of_plan(model.plan_, ScaledInference).groups, dtype=np.int64)
    chosen = [np.isclose(rows[:, groups == group].sum(axis=1), 1.0) for group in set(groups[groups >= 0].tolist())]
    known = np.all(chosen, axis=0) if chosen else np.ones(len(rows), dtype=bool)
    if model.fit_intercept:
        rows = np.column_stack([rows, np.ones(len(rows))])
    return rows, _one_step(model)[0], known


def score_interval(model: PrivateEstimator, X: object, level: float) -> tuple[Vector, Vector, Vector]:
    """Scores ⟨encoded x, w⟩ of new rows with the ends of their intervals.

    The score is that of `predict`; the ends are centred at the estimate of the summary, before it is drawn in to predict. They
    are infinite for a row with a missing or unknown level.
    """
    width = reach(level)
    rows, errors, known = rows_and_errors(model, X)
    centre, half = rows @ errors.estimate, width * np.sqrt(np.add(*errors.variances(rows)))
    half = np.where(known, half, np.inf)
    return rows @ model.w_, centre - half, centre + half


def probability_intervals(model: PrivateEstimator, X: object, level: float) -> tuple[Vector, Vector]:
    """Probabilities of several classes as `predict_proba` has them, and low and high of each.

    The interval of a class is one of its log-odds against all others, g = η_k - log Σ_{j≠k} exp η_j, whose slope in η_j is 1 for
    j = k and -p_j/(1 - p_k) otherwise. It is 0 to 1 for a row with a missing or unknown level.
    """
    width = reach(level)
    rows, errors, known = rows_and_errors(model, X)
    K = len(errors.estimate) // rows.shape[1]
    scores = rows @ errors.estimate.reshape(K, -1).T
    ends = np.empty((*scores.shape, 2))
    for k in range(K):
        others = scores.copy()
        others[:, k] = -np.inf
        slopes = -softmax(others, axis=1)
        slopes[:, k] = 1.0
        odds = scores[:, k] - logsumexp(others, axis=1)
        for part in np.array_split(np.arange(len(rows)), 1 + slopes.size * rows.shape[1] // ROWS_AT_ONCE):
            combinations = (slopes[part, :, None] * rows[part, None, :]).reshape(len(part), -1)
            half = np.where(known[part], width * np.sqrt(np.add(*errors.variances(combinations))), np.inf)
            ends[part, k] = expit(np.column_stack([odds[part] - half, odds[part] + half]))
    return np.asarray(softmax(rows @ model.w_.T, axis=1)), ends


@dataclass(frozen=True)
class Contrasts:
    """The coefficients that data can tell apart: without the first level of each one-hot group, where there is an intercept.

    The columns of a group add up to the intercept's, so levels and intercept are determined only up to a shift. With z_ref =
    1 - Σ others the margins are ⟨z_kept, Mᵀw⟩: levels become differences from the first, the intercept takes up the first.
    """

    places: np.ndarray
    references: tuple[int, ...]
    map: Vector


def scaled_inference(model: PrivateEstimator) -> ScaledInference:
    """The method for the encoded columns of a model; it knows which are levels of one group, which only contrasts tell apart."""
    encoding = model._encoding
    groups = one_hot_groups(encoding) if model.fit_intercept and encoding.x_norm is None else ()
    return ScaledInference(tuple(encoding.kinds), groups, summed=model._persons_in_order)


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


def _one_step(model: PrivateEstimator) -> tuple[Errors, OneStep, Vector]:
    """Errors of all encoded coefficients of a fit by `scaled-inference`, the step behind them, and the map to the columns."""
    plan, problem = model.plan_, Problem.from_spec(model.certificate_.record["problem"])
    mechanism = mechanism_of_plan(plan, ScaledInference)
    return mechanism.in_columns(plan, problem, model.release_.released)


def _scaled(model: PrivateEstimator, kept: Contrasts) -> tuple[Errors, str]:
    errors, step, lift = _one_step(model)
    matrix, note = kept.map.T, target_sentence(model)
    if not np.allclose(np.ravel(model.w_), errors.estimate, rtol=1e-9, atol=0.0):
        note += "; to predict, coef_ has them drawn towards 0 by their privacy noise"
    if others := compared_classes(model):  # each class less the first one
        matrix = np.asarray(np.kron(np.column_stack([-np.ones(len(others)), np.eye(len(others))]), matrix))
    return errors.mapped(matrix), note + _weak_directions(model, step, lift) + _far_from_nominal(model)


def _weak_directions(model: PrivateEstimator, step: OneStep, lift: Vector) -> str:
    """Names the columns of the directions that the matrix cannot tell from flat, each in deviations of its column."""
    weak = step.unresolved().T
    if len(weak) == 0:
        return ""
    if len(weak) > max(2, len(step.eigenvalues) // 3):
        return "; the curvature does not stand out of its noise, so intervals are wide"
    names = [*map(printable, model._encoding.names), "intercept"]
    scale = np.asarray(model.certificate_.record["decided"]["scale"])
    scale = np.append(scale, 1.0) if model.fit_intercept else scale
    told = [f"what {names[one[0]]} does" if len(one) == 1 else f"apart {listed([names[j] for j in one[:6]])}"
            for one in hardly_told_apart(lift @ weak.T, scale)]  # fmt: skip
    told = told or ["apart many columns that go together"]  # none has much of a direction that all share
    return f"; the data can hardly tell {', nor '.join(told)}: intervals there have no guarantee"


def hardly_told_apart(directions: Vector, scale: Vector) -> list[list[int]]:
    """Columns that share weak directions (the columns of a matrix, one block of rows per margin), in groups.

    Two weak directions are any two of the plane that they span: which ones, noise decides. So columns are compared by the
    projection onto all of them. Of one direction a column belongs to its group if it has three tenths of its length.

    >>> pairs = np.array([[0.6, 0.8], [-0.6, -0.8], [0.8, -0.6], [-0.8, 0.6], [0.0, 0.0]])  # x0 - x1 and x2 - x3, turned
    >>> hardly_told_apart(pairs, np.ones(5))
    [[0, 1], [2, 3]]
    """
    span = np.linalg.qr((directions.reshape(-1, len(scale), directions.shape[1]) / scale[:, None]).reshape(directions.shape))[0]
    blocks = (span @ span.T).reshape(-1, len(scale), len(span) // len(scale), len(scale))
    shared = np.sqrt(np.sum(blocks**2, axis=(0, 2))) > 0.3**2
    label = connected_components(csr_array(shared), directed=False)[1]
    groups = [[int(j) for j in np.flatnonzero((label == one) & np.diag(shared))] for one in dict.fromkeys(label.tolist())]
    return [group for group in groups if group]


def _far_from_nominal(model: PrivateEstimator) -> str:
    """A warning where the released counts speak of far more or fewer rows than were declared, and not by their noise alone: the
    descent's steps follow from the declared number, so it may not have settled, and the errors cannot see that."""
    plan, counts = model.plan_, np.asarray(model.release_.released["radius"], dtype=np.float64)
    n, found = plan.shape.n, float(np.sum(counts))
    noise = plan.target.rows_per_person / budget_of(plan)["radius"] * math.sqrt(len(counts))
    near = n <= NEAR * (found + CLEAR * noise) and found - CLEAR * noise <= NEAR * n
    if plan.target.relation != "add-remove" or near:
        return ""
    found_and_declared = f"about {found:,.0f} rows, and {n:,} were declared"
    return f"; the released counts speak of {found_and_declared}: intervals have no guarantee, declare a nearer nominal_n"


def _statistics(model: PrivateEstimator, kept: Contrasts) -> tuple[Errors, str]:
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


def _objective(model: PrivateEstimator, kept: Contrasts) -> tuple[Errors, str]:
    objective_problem(model)
    information = getattr(model, "information_", None) or planned_information(model)
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


def _standing_out(matrix: Vector, floor: float) -> None:
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if smallest <= floor:
        raise ValueError(
            f"Expected a matrix whose eigenvalues stand out of its noise for intervals, found {smallest:.3g} below {floor:.3g}. "
            "Use more rows, fewer columns, narrower bounds or a larger epsilon."
        )


ROUTES: dict[str, Callable[[PrivateEstimator, Contrasts], tuple[Errors, str]]] = {
    "scaled-inference": _scaled,
    "statistics": _statistics,
    "objective": _objective,
}
