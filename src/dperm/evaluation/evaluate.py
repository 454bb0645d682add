"""Paid evaluation: how good is a released model on private held-out rows?

Every score is post-processing of a few booked noisy sums, so it may be published. A small part of the budget finds where to clip
residuals and how to cut probabilities; the rest pays for the sums that scores are made of. Intervals cover the sampling of the
rows and the noise together, and hold where noise dominates: a score that the budget cannot show is given as not known.

    plan (public numbers) → noisy sums in order, each decided by those before it → metrics(record)

`terms` derives the sensitivities, `metrics` and `ratio` the intervals.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike

from dperm.estimators.base import PrivateEstimator
from dperm.estimators.search import PrivateGridSearch
from dperm.evaluation.apart import by_group, confusion, entropy_of, thresholds
from dperm.evaluation.first import FORMAT as FIRST
from dperm.evaluation.first import plan_first, record_first
from dperm.evaluation.held import Asked, held_rows, ready
from dperm.evaluation.metrics import NUMBERS, Context, answers, scores
from dperm.evaluation.plan import BINS, Question, arrays, decide, in_units, noise_scales, plan_evaluation, term_of
from dperm.problem.plain import plain_float, plain_whole
from dperm.release.asks import Decide, Program, Sum
from dperm.release.driver import replay
from dperm.release.ledger.book import receipt_again
from dperm.release.noise import noise_source
from dperm.release.plan import Outcome, Plan, Released, Shape, Target
from dperm.release.record import EvaluationRecord, Metrics, ModelRecord, NoiseRecord, ReceiptRecord, Score, ShapeRecord, scores_in
from dperm.walk.certificate import coefficient_hash, noise_stated, promised, target_spec
from dperm.walk.claims import Claim, differences, noise_again, plain
from dperm.walk.fitting import execute
from dperm.walk.options import Spending, check_spending, checked_level, spends, spent_target
from dperm.words.notices import scores_of_rows
from dperm.words.wording import with_interval

FORMAT, UNBOUND = "dperm-evaluation/3", "dperm-evaluation/2"


def program(plan: Plan, question: Question) -> Program:
    """Every planned sum, in order: what a stage sums follows from those before it. The scores are post-processing."""
    released: dict[str, ArrayLike] = {}
    for stage in plan.stages:
        released[stage.name] = yield Sum(stage.name, term_of(question, stage.name, decide(plan, question, released)))
    yield Decide(decide(plan, question, released))
    return np.zeros(0)


@dataclass(frozen=True, repr=False)
class Evaluation(Claim):
    """The record of an evaluation: what was released, what follows from it, and for whom it is private.

    **Guarantee of a pass** of `verify`: everything follows from the released sums; a change to any number shows.
    """

    FORMAT: ClassVar[str] = FORMAT
    PARTS: ClassVar[type] = EvaluationRecord
    OLDER: ClassVar[tuple[str, ...]] = (FIRST, UNBOUND)

    record: EvaluationRecord

    @property
    def metrics(self) -> Metrics:
        """Scores by name: value, low and high; all None where the budget cannot show it, and `why` says what it would take."""
        return self.record["metrics"]

    def _shown_rows(self) -> list[tuple[str, ...]]:
        return [
            (name, "not known", score["why"])
            if score["value"] is None
            else (name, *with_interval(score["value"], score["low"], score["high"], 4))
            for name, score in listed_scores(self.metrics)
        ]

    def disagreements(self) -> Iterator[str]:
        return iter(differences(_again(self.record), self.record))


def listed_scores(metrics: Metrics) -> list[tuple[str, Score]]:
    """Every score with its name, those of groups after those of all rows."""
    found = list(scores_in(metrics).items())
    groups = metrics.get("groups")
    if groups is not None:
        for name, scores in groups["scores"].items():
            found.append((f"rows, {groups['column']} = {name}", groups["rows"][name]))
            found += [(f"{score}, {groups['column']} = {name}", value) for score, value in scores_in(scores).items()]
    return found


def _again(record: EvaluationRecord) -> EvaluationRecord:
    """The record that follows from the stated releases, in the format that it states."""
    checked_level(record["level"])
    target = Target.declare(n=record["shape"]["n"], **record["target"])
    shape = Shape(record["shape"]["n"], record["shape"]["d"])
    noise = noise_again(record["noise"])
    # Nothing follows from the model: what is stated of it is these two alone.
    model: ModelRecord = {"estimator": record["model"]["estimator"], "sha256": record["model"]["sha256"]}
    if record["format"] == FIRST:
        plan = plan_first(record["kind"], record["bins"], shape, target)
        return record_first(plan, {**record, "model": model}, noise, receipt_again(record.get("ledger"), plan, noise["policy"]))
    question = Question.from_spec(record["question"])
    plan = plan_evaluation(question, shape, target)
    receipt = receipt_again(record.get("ledger"), plan, noise["policy"])
    outcome = replay(program(plan, question), record["released"])
    found = _record(plan, question, outcome, noise, model, record["level"], receipt)
    if record["format"] == UNBOUND:
        del found["binding"]
        found["format"] = UNBOUND
    return found


@spends
def evaluate(
    model: PrivateEstimator | PrivateGridSearch,
    X: object,
    y: object = None,
    *,
    epsilon: float,
    exposure: object = None,
    max_exposure: float | None = None,
    by: str | None = None,
    levels: Sequence[object] | None = None,
    bins: int = BINS,
    level: float = 0.95,
    **spending: Unpack[Spending],
) -> Evaluation:
    """Score a released model on private rows that its fit did not use.

    Two classes: accuracy, log-loss, AUC, calibration, thresholds; several classes: accuracy, log-loss, confusion matrix, recall
    and precision of every class, macro F1; regressions: R², root mean squared, mean absolute and mean error; counts: Poisson
    deviance and balance. Each score stands beside that of guessing without the row.
    `exposure` (an array or a column's name) is for counts, with the declared `max_exposure`. `by` names a column whose declared
    levels (of the schema, or `levels`) are scored apart.

    **Guarantee**: (ε, δ)-differential privacy for the rows of X, the composition of two to six Gaussian releases. The model
    must not have been fitted on these rows, or its guarantee and this one add up for them: use one ledger.

    Parameters
    ----------
    model : estimator
        A fitted model whose certificate covers other rows.
    X : array, sparse matrix, table or rows
        Private rows that the fit did not use. In a Spark table, or `SparkRows`, executors score them: y, groups and exposure are
        names of columns then.
    y : array, str or None, default None
        Their labels; None where X is a table and the model's schema names the target.
    epsilon : float
        Privacy budget ε of the evaluation.
    exposure : array, str or None, default None
        For counts: exposures, or the column that holds them.
    max_exposure : float or None, default None
        The largest exposure that a row may have. Needed with `exposure`.
    by : str or None, default None
        A column whose declared levels are scored apart.
    levels : sequence or None, default None
        Its levels, where no schema declares them.
    bins : int, default 20
        Bins of the score histogram from which AUC and calibration follow.
    level : float, default 0.95
        Coverage of the intervals.
    groups : array, str or None, default None
        Ids of the persons, or the column that names them.

    Examples
    --------
    >>> import dperm, numpy as np
    >>> X = np.linspace(-1, 1, 2000).reshape(-1, 1)
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = dperm.LogisticRegression(epsilon=2, bounds=(-1, 1), classes=[0, 1], random_state=0).fit(X, y)
    >>> found = evaluate(model, X, y, epsilon=1.0, random_state=0)
    >>> found.metrics["accuracy"]["value"] > 0.9, found.verify(allow_seeded=True).ok
    (True, True)
    """
    level, bins = checked_level(level), plain_whole(bins, "bins")
    check_spending(spending)
    max_exposure = None if max_exposure is None else plain_float(max_exposure, "max_exposure")
    if exposure is not None and max_exposure is None:
        raise ValueError("Expected max_exposure= with exposure=, found none. Declare the largest exposure a row may have.")
    scored = model.best_estimator_ if isinstance(model, PrivateGridSearch) else model  # a search answers as its best model does
    scores_of_rows(getattr(scored, "certificate_", None), spending["groups"])
    asked = Asked(scored, bins, max_exposure, by, levels)
    question, held = held_rows(asked, X, y, exposure, spending["groups"], spending["max_rows_per_person"])
    target, n = spent_target(spending, epsilon, held.n, held.per_person, held.unit)
    plan = plan_evaluation(question, Shape(n, scored._encoding.d), target)
    source = noise_source(spending["noise"], spending["random_state"])
    rows, book = ready(held.rows), spending["ledger"]
    outcome, receipt = execute(
        program(plan, question), plan, rows, source, ledger=book, fingerprint=held.seen, note="evaluation"
    )
    about: ModelRecord = {"estimator": type(scored).__name__, "sha256": coefficient_hash(scored._shown)}
    return Evaluation(_record(plan, question, outcome, source.spec(), about, level, receipt))


def _record(
    plan: Plan,
    question: Question,
    outcome: Outcome,
    noise: NoiseRecord,
    model: ModelRecord,
    level: float,
    receipt: ReceiptRecord | None,
) -> EvaluationRecord:
    target, released = plan.target, plain(outcome.released)
    unit = target.unit
    shape: ShapeRecord = {"n": plan.shape.n, "d": plan.shape.d}
    digest = coefficient_hash([value for stage in plan.stages for value in released[stage.name]])
    record: EvaluationRecord = {
        "format": FORMAT,
        "statement": f"({target.epsilon:g}, {target.delta:g})-differential privacy of the scores per {unit} ({target.relation})",
        "guarantee": promised(plan, unit),
        "target": target_spec(target),
        "shape": shape,
        "question": question.spec(),
        "level": level,
        "model": model,
        "stages": [plain(stage.spec()) for stage in plan.stages],
        "released": released,
        "decided": in_units(question, dict(outcome.decided)),
        "digest": digest,
        # Nothing is computed from the model's name, its hash and d, so that they are tied to the scores by a hash alone.
        "binding": hashlib.sha256(json.dumps([dict(model), shape, digest], sort_keys=True).encode()).hexdigest(),
        "metrics": metrics(plan, question, released, level),
        "noise": noise_stated(noise),
    }
    if receipt is not None:
        record["ledger"] = plain(receipt)
    return record


def metrics(plan: Plan, question: Question, released: Released, level: float) -> Metrics:
    """Every score that the releases of this plan support."""
    context = Context(plan.target.epsilon, plan.shape.n, level)
    held, scale, decided = arrays(question, released), noise_scales(plan), decide(plan, question, released)
    found: dict[str, object]
    if question.kind in NUMBERS:
        found = {**NUMBERS[question.kind](held, scale, decided, question, context)}
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
