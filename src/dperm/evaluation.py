"""Paid evaluation: how good is a released model on private held-out rows?

Every score is post-processing of one or two booked releases, so it may be published; its interval covers both the sampling of the
rows and the noise.

Classification   counts of right and wrong answers, and (two classes) a histogram over probability bins × true class:
                 accuracy, AUC, calibration.  Δ = √2·k replacing a row (one cell loses, one gains), k otherwise.
Regression       Σ (r², r, u, u², 1) over rows, r = residual/range and u = target scaled to [-1, 1], both clipped:
                 R², root mean squared error, mean error.  Δ = √11·k replacing a row, √5·k otherwise.

k is the number of rows a person may have. Sensitivities: each row adds one vector; nulling it removes its norm (1, or at most
√(1+1+1+1+1)), replacing it moves two cells by one each, or each entry by its range (r², u² and the count by 1; r and u by 2).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dperm.certificate import ARITHMETIC, TOLERANCE, Claim, _plain, coefficient_hash, differences, target_spec
from dperm.evaluation_metrics import metrics
from dperm.mechanisms.base import Plan, Shape, Stage, Target, Vector
from dperm.noise import gaussian_scale, noise_source
from dperm.privacy import Gaussian, gaussian_mu
from dperm.release.asks import Program, Sum
from dperm.rows.base import Block
from dperm.rows.memory import MemoryRows
from dperm.walk import execute

FORMAT = "dperm-evaluation/1"
KINDS = ("binary", "multiclass", "regression")
BINS = 20


@dataclass(frozen=True)
class CountTerm:
    """Σ over rows of weight·e_{cell(row)}: a histogram of the column `column`; Δ = √2 replacing a row, 1 otherwise."""

    cells: int
    column: int

    def __call__(self, block: Block) -> Vector:
        places = np.asarray(block.X[:, self.column], dtype=np.int64)
        return np.bincount(places, weights=block.weight, minlength=self.cells).astype(np.float64)

    def sensitivity(self, relation: str) -> float:
        return math.sqrt(2.0) if relation == "replace-one" else 1.0

    @property
    def row_bound(self) -> float:
        return 1.0


@dataclass(frozen=True)
class MomentTerm:
    """Σ over rows of weight·(r², r, u, u², 1) with r, u in [-1, 1]; Δ = √11 replacing a row, √5 otherwise."""

    def __call__(self, block: Block) -> Vector:
        r, u = np.clip(block.X[:, 0], -1.0, 1.0), np.clip(block.X[:, 1], -1.0, 1.0)
        rows = np.stack([r * r, r, u, u * u, np.ones_like(r)], axis=1)
        return np.asarray((rows * block.weight[:, None] if block.weight is not None else rows).sum(axis=0))

    def sensitivity(self, relation: str) -> float:
        return math.sqrt(11.0) if relation == "replace-one" else math.sqrt(5.0)

    @property
    def row_bound(self) -> float:
        return 1.0


def kind_of(model: Any) -> str:
    if not hasattr(model, "classes_"):
        return "regression"
    return "binary" if len(model.classes_) == 2 else "multiclass"


def terms(kind: str, bins: int) -> dict[str, Any]:
    if kind == "regression":
        return {"moments": MomentTerm()}
    found: dict[str, Any] = {"answers": CountTerm(2, 0)}
    if kind == "binary":
        found["scores"] = CountTerm(2 * bins, 1)
    return found


def plan_evaluation(kind: str, shape: Shape, target: Target, *, bins: int = BINS) -> Plan:
    """Fixed from public numbers: two classes give half of μ² to the accuracy and half to the histogram."""
    if target.delta == 0:
        raise ValueError("Expected delta > 0 for an evaluation, whose noise is Gaussian, found 0. Pass e.g. --delta 1e-6.")
    if kind not in KINDS or not (isinstance(bins, int) and not isinstance(bins, bool) and 2 <= bins <= 200):
        raise ValueError(f"Expected a kind in {KINDS} and 2 ≤ bins ≤ 200, found {kind!r} and {bins!r}.")
    listed = terms(kind, bins)
    mu = gaussian_mu(target.epsilon, target.delta) / math.sqrt(len(listed)) * (1 - 1e-12)
    stages = tuple(
        Stage(name, Gaussian(mu), {"scale": gaussian_scale(term.sensitivity(target.relation) * target.rows_per_person, mu)})
        for name, term in listed.items()
    )
    return Plan("evaluation", {"kind": kind, "bins": bins}, stages, target, shape)


def program(plan: Plan) -> Program:
    """Every planned sum, in order; the scores are post-processing of the record."""
    for name, term in terms(plan.options["kind"], plan.options["bins"]).items():
        yield Sum(name, term)
    return np.zeros(0)


@dataclass(frozen=True, repr=False)
class Evaluation(Claim):
    """The record of an evaluation: what was released, what follows from it, and for whom it is private.

    **Guarantee of a pass** of `verify`: everything follows from the released counts; a change to any number shows.
    """

    FORMAT: ClassVar[str] = FORMAT

    @property
    def metrics(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.record["metrics"]
        return found

    def disagreements(self) -> Iterator[str]:
        return iter(differences(_again(self.record), self.record))


def _again(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record that follows from the stated releases."""
    target = Target.declare(n=record["shape"]["n"], **record["target"])
    shape = Shape(record["shape"]["n"], record["shape"]["d"])
    plan = plan_evaluation(record["kind"], shape, target, bins=record["bins"])
    noise = {"policy": record["noise"]["policy"]}
    if noise["policy"] == "seeded":
        noise["seed"] = record["noise"]["seed"]
    receipt, older = None, "unit" not in record["target"]
    if "ledger" in record:
        from dperm.ledger import receipt_again

        receipt = receipt_again(record["ledger"], plan, noise["policy"])
    return _record(plan, record["released"], noise, record["model"], record["range"], record["level"], receipt, older)


def evaluate(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    epsilon: float,
    delta: float | None = None,
    relation: str = "replace-one",
    nominal_n: int | None = None,
    groups: Any = None,
    max_rows_per_person: int | None = None,
    bins: int = BINS,
    level: float = 0.95,
    noise: str = "secure",
    random_state: Any = None,
    ledger: Any = None,
) -> Evaluation:
    """Score a released model on private rows that its fit did not use.

    **Guarantee**: the composition of two (regression, several classes: one) Gaussian releases, for the rows of X. The model must
    not have been fitted on these rows, or its guarantee and this one add up for them: use one ledger.

    >>> import dperm, numpy as np
    >>> X = np.linspace(-1, 1, 2000).reshape(-1, 1)
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = dperm.LogisticRegression(epsilon=2, bounds=(-1, 1), classes=[0, 1], random_state=0).fit(X, y)
    >>> found = evaluate(model, X, y, epsilon=1.0, random_state=0)
    >>> found.metrics["accuracy"]["value"] > 0.9, found.verify(allow_seeded=True).ok
    (True, True)
    """
    from dperm.estimators.persons import person_weights, unit_of

    if not 0.5 <= level < 1:
        raise ValueError(f"Expected 0.5 ≤ level < 1, found {level}. Pass e.g. 0.95.")
    kind = kind_of(model)
    cells, weight = _cells(model, kind, X, y, bins)
    weight, per_person = person_weights(groups, max_rows_per_person, weight, len(weight))
    if relation == "add-remove" and nominal_n is None:
        raise ValueError("Expected nominal_n= under relation='add-remove', found none. Pass a public round number.")
    n = nominal_n if nominal_n is not None else len(cells)
    unit = unit_of(groups)
    target = Target.declare(epsilon=epsilon, delta=delta, relation=relation, n=n, rows_per_person=per_person, unit=unit)
    plan = plan_evaluation(kind, Shape(n, model._encoding.d), target, bins=bins)
    source = noise_source(noise, random_state)
    rows = MemoryRows(cells, np.zeros(len(cells)), weight)
    outcome, receipt = execute(program(plan), plan, rows, source, ledger=ledger, fingerprint=X, note="evaluation")
    released = _plain(outcome.released)
    about = {"estimator": type(model).__name__, "sha256": coefficient_hash(model.w_)}
    span = [float(model._y_low), float(model._y_high)] if kind == "regression" and hasattr(model, "_y_low") else None
    return Evaluation(_record(plan, released, source.spec(), about, span, level, None if receipt is None else _plain(receipt)))


def _cells(model: Any, kind: str, X: Any, y: Any, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Cell numbers (or scaled residual and target) of every row, and weights: 0 where the label is missing or undeclared."""
    from dperm.cells import numbers
    from dperm.estimators.labels import classify, label_column
    from dperm.tables import cells, column_names, is_table

    schema = model._declared_schema()
    if y is None:
        if schema is None or schema.target is None or not is_table(X):
            raise ValueError("Expected y, or a table with the schema's target column, found neither. Pass the labels.")
        if schema.target.column not in column_names(X):
            raise ValueError(f"Expected the target column {schema.target.column!r} in the data, found none. Scores need it.")
        y = schema.labels(cells(X, schema.target.column))
    y = label_column(y, len(y))
    if kind == "regression":
        if not hasattr(model, "_y_low"):
            raise ValueError(f"Expected a classifier or a bounded regression, found {type(model).__name__}.")
        low, high = model._y_low, model._y_high
        truth = numbers(y)
        known = np.isfinite(truth)
        truth = np.clip(np.where(known, truth, low), low, high)
        residual = (truth - np.asarray(model.predict(X), dtype=np.float64)) / (high - low)
        return np.stack([residual, (2 * truth - low - high) / (high - low)], axis=1), known.astype(np.float64)
    labels, weight, _ = classify(y, model.classes_)
    known = np.ones(len(labels)) if weight is None else weight
    index = ((labels + 1) / 2).astype(np.int64) if kind == "binary" else labels
    right = np.asarray(model.predict(X)) == model.classes_[index]
    columns = [1.0 - right]
    if kind == "binary":
        if hasattr(model, "predict_proba"):
            chance = np.asarray(model.predict_proba(X))[:, 1]
        else:
            from scipy.special import expit

            chance = expit(np.asarray(model.decision_function(X)))
        place = np.clip((chance * bins).astype(np.int64), 0, bins - 1)
        columns.append(place + bins * index)
    return np.stack(columns, axis=1).astype(np.float64), known


def _record(
    plan: Plan,
    released: Mapping[str, Any],
    noise: Mapping[str, Any],
    model: Mapping[str, Any],
    span: Any,
    level: float,
    receipt: Mapping[str, Any] | None,
    older: bool = False,
) -> dict[str, Any]:
    target = plan.target
    composed = plan.guarantee.epsilon(target.delta)
    if composed > target.epsilon * (1 + TOLERANCE):
        raise ValueError("the plan costs more than its target")
    unit = target.unit
    return {
        "format": FORMAT,
        "statement": f"({target.epsilon:g}, {target.delta:g})-differential privacy of the scores per {unit} ({target.relation})",
        "guarantee": {
            "epsilon": target.epsilon,
            "delta": target.delta,
            "relation": target.relation,
            "unit": unit,
            "composed_epsilon": composed,
        },
        "target": target_spec(target, older),
        "shape": {"n": plan.shape.n, "d": plan.shape.d},
        "kind": plan.options["kind"],
        "bins": plan.options["bins"],
        "level": level,
        "range": span if plan.options["kind"] == "regression" else None,
        "model": dict(model),
        "stages": [_plain(stage.spec()) for stage in plan.stages],
        "released": dict(released),
        "metrics": metrics(plan, released, span, level),
        "noise": {**noise, "private": noise["policy"] != "seeded", "claim": ARITHMETIC[noise["policy"]]},
        **({} if receipt is None else {"ledger": dict(receipt)}),
    }
