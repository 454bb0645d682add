"""What the suite audits: every estimator × relation × noise policy and every mechanism, each with a pair of bad neighbours.

The pairs are chosen for the mechanism, once and for all runs, by the size of the shift they cause in units of its noise:

* recipes of noisy sums: all rows but one are worth nothing (x = 0) and carry the other label, so that the row at the edge of the
  bounds is never fitted and its clipped gradient keeps its full length at every step;
* curves: all rows but one are spread evenly, and the label of the last flips between two that are equally wrong (`curve_cases`);
* one draw around the minimiser (objective, output, exponential): two rows, one of them 0, and the label of the other flips;
* a choice among finitely many answers: rows that put the answer on the fence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import dperm.estimators as estimators
from dperm.audit.scores import Test
from dperm.audit.transcript import Fitted, Fitting, Seen, gathered, released_numbers, released_sizes, transcript
from dperm.estimators import GAMClassifier, GAMRegressor, LogisticRegression
from dperm.estimators.base import PrivateEstimator
from dperm.estimators.search import search_plan
from dperm.mechanisms.gradient import Gradient
from dperm.mechanisms.hypotheses.classes import Thresholds
from dperm.mechanisms.registry import mechanism_from_spec
from dperm.privacy import RELATIONS
from dperm.problem.arrays import Vector
from dperm.release.plan import MECHANISMS, Outcome, Target
from dperm.rows.base import Rows
from dperm.words.spelling import closest

N = 12
EPSILON, DELTA = 6.0, 1e-2  # loose enough that some hundred fits see much of it, tight enough that an error shows
FEWER_STEPS: dict[str, dict[str, object]] = {
    "gradient": {"steps": 20, "clip": 0.25},
    "zeroth": {"steps": 20, "clip": 0.05},
    "newton": {"steps": 8, "gradient_share": 0.9},
    "scaled-heads": {"steps": 20},
    "least-squares": {"clip": 0.05},  # which every row reaches, whatever the noisy size is: the labels then move by all they may
    "output": {"ridge": 20.0},  # far above the curvature of two rows: the minimiser then moves by slope/ridge
}
# Forms that a mechanism takes by public numbers of a table, which these few rows do not have.
FORMS: dict[str, dict[str, object]] = {"scaled-heads": {"wide": True}}
# By public numbers a fit of a few rows is the line, and nothing of curves would be tried.
WITH_CURVES: dict[str, dict[str, object]] = {
    "GAMRegressor": {"kinds": ("numeric",), "curved": (0,), "careful": False},
    "GAMClassifier": {"kinds": ("numeric",), "curved": (0,), "choosier": False, "aim": "probabilities"},
}
# Where the number of rows is protected, the arithmetic of a minimiser needs a declared bound on it.
BOUNDED = {"objective": {"most_rows": 100}, "scaled-objective": {"most_rows": 100}}
ONE_DRAW = ("exponential", "objective", "output")
# By which estimators a mechanism is audited, where it is not by those of the two basic losses.
ESTIMATORS_OF = {
    "additive": ("GAMClassifier", "GAMRegressor"),
    "additive-poisson": ("GAMRegressor",),
    "heads": ("EmbeddingClassifier",),
    "least-squares": ("EmbeddingClassifier",),
    "scaled-heads": ("LogisticRegression",),
}
# Additive models with every default: class, options of its own, labels of the rest in turn, that of the row, and what it becomes.
# So many rows make the rule try curves of every loss under every relation, and pay for the recalibration. μ is 2, as elsewhere.
CURVED_N, CURVED_EPSILON, CURVED_DELTA = 3000, 8.5, 2e-4
CURVED: dict[str, tuple[type, dict[str, object], tuple[float, float], float, float]] = {
    "GAMClassifier": (GAMClassifier, {"classes": [0, 1]}, (0.0, 1.0), 1.0, 0.0),
    "GAMClassifier, hinge": (GAMClassifier, {"classes": [0, 1], "loss": "hinge"}, (0.0, 1.0), 1.0, 0.0),
    "GAMClassifier, 3 classes": (GAMClassifier, {"classes": [0, 1, 2]}, (0.0, 1.0), 1.0, 0.0),
    "GAMRegressor": (GAMRegressor, {"y_bounds": (-1, 1)}, (0.0, 0.0), 1.0, -1.0),
    "GAMRegressor, Huber": (GAMRegressor, {"y_bounds": (-1, 1), "loss": "huber"}, (0.0, 0.0), 1.0, -1.0),
    "GAMRegressor, counts": (GAMRegressor, {"y_bounds": (0, 4), "loss": "poisson"}, (2.0, 2.0), 4.0, 0.0),
}
NO_NULL_ROW = "no null row can be written: it is a missing label, and these data have no labels"


@dataclass(frozen=True)
class Case:
    """One row of the table: how to build the estimator, and two neighbours.

    `published_only` where the certificate covers the published numbers and not the noisy sums behind them (a search keeps all
    runs but one secret); `unfit` says why there is nothing to fit.
    """

    name: str
    method: str
    relation: str
    noise: str
    build: Callable[[], Fitting]
    data: tuple[object, ...]
    neighbour: tuple[object, ...]
    published_only: bool = False
    unfit: str = ""

    def observer(self) -> Observer:
        """A function from `data` or `neighbour` to everything that the certificate covers: see `transcript`."""
        rows, lengths, values = [], set(), dict[str, int]()
        for data in () if self.published_only else (self.data, self.neighbour):
            with transcript() as seen:
                values |= released_sizes(self.build().fit(*data))
            rows += [] if seen.rows is None else [seen.rows]
            lengths |= {len(value) for value in seen.sums}
        return Observer(self, (rows[0], rows[1]) if len(rows) == 2 else None, sorted(lengths), values)


@dataclass(frozen=True)
class Observer:
    """Fits a case and writes down what its certificate covers; Λ comes last, where there are noisy sums to compute it from."""

    case: Case
    pair: tuple[Rows, Rows] | None
    sizes: list[int]
    values: dict[str, int]

    def __call__(self, data: tuple[object, ...]) -> Vector:
        if self.case.published_only:
            return released_numbers(self.case.build().fit(*data))
        with transcript(self.pair, own=1 if data is self.case.neighbour else 0) as seen:
            model = self.case.build().fit(*data)
        ratio = [] if self.pair is None else [seen.ratio]
        return np.concatenate([released_numbers(model, self.values), *gathered(seen.sums, self.sizes), ratio])

    @property
    def statistic(self) -> str | Test:
        """Λ ≥ 0 says "neighbour": known before any fit, so that no fit is spent on choosing it and its threshold."""
        return "auto" if self.pair is None else LIKELIER


LIKELIER = Test("likelihood ratio", lambda outcomes: outcomes[:, -1], 0.0)


@dataclass(frozen=True)
class Builder:
    """An estimator made anew for every trial; picklable."""

    cls: type
    options: dict[str, object]

    def __call__(self) -> Fitting:
        found: Fitting = self.cls(**self.options)
        return found


@dataclass(frozen=True)
class SearchBuilder(Builder):
    """A grid search over two radii of one step, made to look like a single estimator: what it publishes is the best run."""

    def fit(self, *data: Any) -> Fitted:
        model, base = self.cls(**self.options).fit(*data), self.options["estimator"]
        assert isinstance(base, PrivateEstimator)  # see `_search_case`
        n = base.nominal_n or len(data[1])
        target = Target.declare(epsilon=model.epsilon, delta=model.delta, relation=base.relation, n=n)
        published = {"score": model.best_score_, "radius": model.best_params_["radius"]}
        planned = search_plan(target, model.runs, model.expected_runs, n, 1)
        return Seen(Outcome(model.best_estimator_.release_.w, published), planned, model.certificate_)

    def __call__(self) -> Fitting:
        return self


def estimator_cases(*, policies: tuple[str, ...] = ("secure", "exact"), names: tuple[str, ...] | None = None) -> list[Case]:
    """Every estimator with its default method, for every relation and noise policy."""
    found = []
    for name in names if names is not None else tuple(estimators.__all__):
        if name not in estimators.__all__:
            hint = closest(name, estimators.__all__)
            raise ValueError(f"Expected an estimator in {', '.join(estimators.__all__)}, found {name!r}.{hint} Pass one of them.")
        for relation in RELATIONS:
            for policy in policies:
                found.append(_case(name, getattr(estimators, name), "auto", relation, policy, DELTA))
    return found


def mechanism_cases() -> list[Case]:
    """Every registered mechanism by name, through the estimators of the two basic losses (or `ESTIMATORS_OF`), with δ > 0 and
    with δ = 0.

    Under δ = 0 only replace-one: the relation changes a scale there, and the estimators' own cases cover it. Mechanisms of many
    steps run fewer of them with a clip that every step attains, and output perturbation has a ridge of its own
    (`FEWER_STEPS`): the claim is the same for every such setting.
    """
    found = []
    for method in sorted(MECHANISMS):
        for name in ESTIMATORS_OF.get(method, ("LogisticRegression", "LinearRegression")):
            for relation in RELATIONS:
                for delta in (DELTA, 0.0) if relation == "replace-one" else (DELTA,):
                    found.append(_case(name, getattr(estimators, name), method, relation, "secure", delta))
                if method in FORMS:
                    found.append(_case(name, getattr(estimators, name), method, relation, "secure", DELTA, FORMS[method]))
    return found


def curve_cases() -> list[Case]:
    """Additive models with every default, on as many rows as curves take: the careful rule, its pull and its recalibration.

    The rest is spread evenly over the column. Where the row is replaced, labels of the rest say nothing, so that the prediction
    at the end of the column stays in the middle: there the row is as wrong with one label as with the other, and its gradient
    clipped in curve coordinates too. Where it goes away, all the rest has another class, and the row is as wrong as can be.
    """
    found = []
    for name, (cls, own, labels, label, changed) in CURVED.items():
        X = np.linspace(-1.0, 1.0, CURVED_N).reshape(-1, 1)
        for relation in RELATIONS:
            y = np.tile(labels if relation == "replace-one" else labels[:1] * 2, CURVED_N // 2)
            y[-1] = label
            options = {"epsilon": CURVED_EPSILON, "delta": CURVED_DELTA, "bounds": (-1, 1), "relation": relation, **own}
            if relation == "add-remove":
                options["nominal_n"] = CURVED_N
            pair = neighbouring(relation, X, y, (1.0, changed), 7.0 if "classes" in own else np.nan)
            found.append(Case(name, "additive curves", relation, "secure", Builder(cls, options), *pair))
    return found


def _case(
    name: str, cls: type, method: str, relation: str, policy: str, delta: float, form: dict[str, object] | None = None
) -> Case:
    fields = {field.name for field in dataclasses.fields(cls)}
    options: dict[str, object] = {"epsilon": EPSILON, "delta": delta, "bounds": (-1, 1), "relation": relation, "noise": policy}
    n = 2 if method in ONE_DRAW else N
    if name == "FiniteClassLearner" and relation != "replace-one":
        n = N + 1  # without its row the answer is on the fence
    if relation == "add-remove":
        options["nominal_n"] = n
    if "method" in fields:
        short = (form or {}) | FEWER_STEPS.get(method, {}) | (BOUNDED.get(method, {}) if relation == "add-remove" else {})
        if method == "additive":
            short = WITH_CURVES[name]
        options["method"] = mechanism_from_spec(method, short) if short else method
    if "classes" in fields:
        options["classes"] = [0, 1]
    low, high, null = 0.0, 1.0, 7.0
    counts = name == "PoissonRegressor" or method == "additive-poisson"
    if method == "additive-poisson":
        options["loss"] = "poisson"
    if "y_bounds" in fields:
        low, high, null = (0.0, 4.0, np.nan) if counts else (-1.0, 1.0, np.nan)
        options["y_bounds"] = (low, high)
    if name == "FiniteClassLearner":
        options |= {"delta": 0.0, "hypotheses": Thresholds(-1.0, 1.0, 2)}
    if name in ("MLPClassifier", "EmbeddingClassifier") and method != "least-squares":
        options["steps"] = 20
    if name == "EmbeddingClassifier":
        del options["bounds"]  # its rows have length 1 instead
    if name == "MedianEstimator":
        options["cells"] = 21  # one holds the median, twenty share the rest: the end of the column then has odds near 1
    if method in ONE_DRAW:
        options["fit_intercept"] = False
    if method == "exponential":
        options["radius"] = 1.0
        if name == "LogisticRegression":  # one estimator on each of the exact samplers; this one is the faster
            options["method"] = mechanism_from_spec(method, {"sampler": "grid", "cells": 256})
    if name == "PrivateGridSearch":
        return _search_case(cls, relation, policy)
    labels = "y_bounds" in fields or "classes" in fields
    options = {key: value for key, value in options.items() if key in fields}
    if not labels:
        data, neighbour = _columns(relation, median=name == "MedianEstimator")
    else:
        records = _records(name, method, low, high, middle=None if "y_bounds" not in fields else high if counts else 0.0)
        data, neighbour = _pair(relation, n, *records, null, fence=name == "FiniteClassLearner" and method not in ONE_DRAW)
    case = Case(name, ", ".join([method, *(form or {})]), relation, policy, Builder(cls, options), data, neighbour)
    return replace(case, unfit=NO_NULL_ROW) if not labels and relation == "zero-out" else case


def _search_case(cls: type, relation: str, policy: str) -> Case:
    step = Gradient(steps=1, step_size=4.0, clip=0.25, momentum=0.0, output="last")
    nominal = 2 if relation == "add-remove" else None
    base = LogisticRegression(
        bounds=(-1, 1), classes=[0, 1], method=step, fit_intercept=False, relation=relation, nominal_n=nominal
    )
    options = {"estimator": base, "param_grid": {"radius": [10.0, 20.0]}, "epsilon": EPSILON, "delta": DELTA}
    options |= {"runs": "geometric", "expected_runs": 1.5, "noise": policy}
    data, neighbour = _pair(relation, 2, (0.0, 0.0), (1.0, 1.0), (1.0, 0.0), 7.0)
    return Case("PrivateGridSearch", "auto", relation, policy, SearchBuilder(cls, options), data, neighbour, published_only=True)


Record = tuple[float, float]
Pair = tuple[tuple[Vector, Vector], tuple[Vector, Vector]]


def _records(name: str, method: str, low: float, high: float, middle: float | None) -> tuple[Record, Record, Record]:
    """(all rows but one, the row, what it is replaced by); `middle` is the label of the rest where labels are numbers."""
    if method in ONE_DRAW:
        return (0.0, low), (1.0, high), (1.0, low)
    if name == "FiniteClassLearner":
        return (0.0, low), (0.0, high), (0.0, low)
    if middle is not None:
        return (-1.0, middle), (1.0, high), (1.0 if method in FEWER_STEPS else -1.0, low)
    if method == "newton":
        return (1.0, low), (1.0, high), (-1.0, low)
    if method in FEWER_STEPS:
        return (0.0, low), (1.0, high), (1.0, low)
    if name == "LogisticRegression" and method in ("auto", "scaled-objective"):
        return (-1.0, low), (1.0, high), (-1.0, low)
    return (0.0, low), (1.0, high), (-1.0, high)


def _pair(relation: str, n: int, rest: Record, row: Record, changed: Record, null: float, *, fence: bool = False) -> Pair:
    """n - 1 rows alike and one that is replaced, loses its label, or goes away; on a `fence` half of the rest agrees with it."""
    X, y = np.full((n, 1), rest[0]), np.full(n, rest[1])
    if fence:
        y[: n // 2] = row[1]
    X[-1], y[-1] = row
    return neighbouring(relation, X, y, changed, null)


def neighbouring(relation: str, X: Vector, y: Vector, changed: Record, null: float) -> Pair:
    """The rows, and the same where the last is `changed`, has the label `null` in place of its own, or goes away."""
    if relation == "add-remove":
        return (X, y), (X[:-1], y[:-1])
    other, labels = X.copy(), y.copy()
    if relation == "replace-one":
        other[-1], labels[-1] = changed
    else:
        labels[-1] = null
    return (X, y), (other, labels)


def _columns(relation: str, *, median: bool) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """Values without labels: half at each end for a median, where one row decides; all at one end for a mean."""
    X = np.full((N, 1), -1.0)
    if median:
        X[: N // 2] = 1.0
    X[-1] = 1.0
    other = X.copy()
    other[-1] = -1.0
    return ((X,), (X[:-1],)) if relation == "add-remove" else ((X,), (other,))
