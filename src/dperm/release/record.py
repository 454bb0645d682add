"""What a record states, part by part: the shapes of the JSON that certificates, evaluations and profiles are written in.

They describe a record that is whole. One that comes from a stranger need not be: `verify` computes all of it again and takes
whatever does not fit for a disagreement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NotRequired, TypedDict, TypeGuard

from numpy.typing import ArrayLike

from dperm.privacy.filters import CostRecord


class GuaranteeRecord(TypedDict):
    """What is promised; version 0.1.0 stated no unit."""

    epsilon: float
    delta: float
    relation: str
    unit: NotRequired[str]
    composed_epsilon: NotRequired[float]
    kind: NotRequired[Mapping[str, object]]
    n: NotRequired[int]


class NoiseRecord(TypedDict):
    """Where the noise came from."""

    policy: str
    seed: NotRequired[int]
    private: NotRequired[bool]
    claim: NotRequired[str]


class TargetRecord(TypedDict):
    """How much was to be spent, against which neighbour."""

    epsilon: float
    delta: float
    relation: str
    rows_per_person: int
    unit: NotRequired[str]


class ShapeRecord(TypedDict):
    """Public size of the data, and how many numbers were released."""

    n: int
    d: int
    parameters: NotRequired[int]


class MechanismRecord(TypedDict):
    """A mechanism by its name and public options."""

    name: str
    options: Mapping[str, object]


class StageRecord(TypedDict):
    """One booked step."""

    name: str
    event: Mapping[str, object]
    settings: Mapping[str, object]


class PlanRecord(TargetRecord):
    """A plan as a ledger keeps it."""

    mechanism: str
    n: int
    d: int
    events: list[Mapping[str, object]]
    assumptions: NotRequired[list[str]]


class EntryRecord(TypedDict, total=False):
    """An entry of a ledger: its making ("create"), a debit, or another form of the data ("admit")."""

    kind: str
    number: int
    time: str
    sealed: str
    format: str
    dataset: str
    epsilon: float
    delta: float
    relation: str
    unit: str
    rule: str
    plan: PlanRecord
    cost: CostRecord
    branch: str
    noise: str
    note: str
    secret: SecretRecord
    hash: str


class SecretRecord(TypedDict, total=False):
    """The part of an entry that stays in the ledger's file."""

    salt: str
    fingerprint: str | None
    nonce: str


class ReceiptRecord(TypedDict):
    """What a ledger gives for a debit: the entry, the hash before it, and the new head."""

    entry: EntryRecord
    previous: str
    head: str


class OriginalRecord(TypedDict):
    """Coefficients in the caller's units; a list of lists where there are several margins."""

    slopes: list[float] | list[list[float]]
    intercept: float | list[float]


class CoefficientsRecord(TypedDict):
    """The released coefficients, in a list or packed, with their hash."""

    encoded: list[float] | Mapping[str, object]
    sha256: str
    original: NotRequired[OriginalRecord]


class ClaimRecord(TypedDict):
    """What every record states."""

    format: str
    statement: str
    guarantee: GuaranteeRecord
    noise: NoiseRecord
    ledger: NotRequired[ReceiptRecord]


class PlannedRecord(ClaimRecord):
    """What every record of a plan and its noisy answers states beside."""

    target: TargetRecord
    shape: ShapeRecord
    stages: list[StageRecord]
    released: Mapping[str, ArrayLike]


class CertificateRecord(PlannedRecord):
    """The record of a fit."""

    problem: dict[str, object]  # read by `Problem.from_spec`
    constants: Mapping[str, object]
    mechanism: MechanismRecord
    decided: Mapping[str, object]
    assumptions: list[str]
    encoding: dict[str, object] | None  # read by `Encoding.from_spec`
    declaration: list[str]
    coefficients: CoefficientsRecord


class RunRecord(TypedDict):
    """The budget of one run, and what choosing the best of them costs."""

    mu: float
    score_share: float
    fit_epsilon: float
    selection_epsilon: float


class LawRecord(TypedDict):
    """The law of K."""

    runs: str
    expected_runs: float


class SearchRecord(ClaimRecord):
    """The record of a search."""

    law: LawRecord
    settings: int
    run: RunRecord
    best: CertificateRecord


class Known(TypedDict):
    """A paid score with its interval."""

    value: float
    low: float
    high: float


class Unknown(TypedDict):
    """A score that the budget cannot show, and what it would take."""

    value: None
    low: None
    high: None
    why: str


Score = Known | Unknown


def bar(value: float, reach: float, low: float = 0.0, high: float = math.inf) -> Known:
    """A number and its error bar, cut to where the number can be."""
    ends = (min(max(value - reach, low), high), max(min(value + reach, high), low))
    return {"value": float(min(max(value, low), high)), "low": float(ends[0]), "high": float(ends[1])}


def not_known(why: str) -> Unknown:
    return {"value": None, "low": None, "high": None, "why": why}


def mapped(score: Score, shape: Callable[[float], float]) -> Score:
    """A rising function of a score."""
    if score["value"] is None:
        return score
    return {"value": float(shape(score["value"])), "low": float(shape(score["low"])), "high": float(shape(score["high"]))}


class CalibrationRow(TypedDict):
    """A bin of predicted probabilities."""

    predicted: float
    observed: float
    low: float
    high: float


class RocRecord(TypedDict):
    """The curve through the bins' edges."""

    false_positive_rate: list[float]
    true_positive_rate: list[float]


class ConfusionRecord(TypedDict):
    """Rows of every class by what they were called."""

    labels: list[str]
    counts: list[list[float]]
    noise: float


ThresholdRecord = TypedDict(
    "ThresholdRecord", {"threshold": float, "recall": Known, "precision": Known, "called positive": Known}
)


class ThresholdsRecord(TypedDict):
    """What calling everything above a threshold positive would give."""

    labels: list[str]
    lines: list[ThresholdRecord]


class GroupsRecord(TypedDict):
    """Scores of the groups of a column."""

    column: str
    rows: dict[str, Known]
    scores: dict[str, dict[str, object]]


class Metrics(TypedDict, total=False):
    """What an evaluation found beside its scores, which stand here too, each under its name: see `scores_in`."""

    calibration: list[CalibrationRow]
    roc: RocRecord
    confusion: ConfusionRecord
    thresholds: ThresholdsRecord
    groups: GroupsRecord


def is_score(value: object) -> TypeGuard[Score]:
    return isinstance(value, Mapping) and "value" in value


def scores_in(metrics: Mapping[str, object]) -> dict[str, Score]:
    """The scores of an evaluation, or of one of its groups, by name."""
    return {name: score for name, score in metrics.items() if is_score(score)}


class ModelRecord(TypedDict):
    """The model that was scored."""

    estimator: str
    sha256: str


class EvaluationRecord(PlannedRecord):
    """The record of an evaluation; the last three are of the first format alone."""

    level: float
    model: ModelRecord
    metrics: Metrics
    question: NotRequired[dict[str, object]]
    decided: NotRequired[Mapping[str, object]]
    digest: NotRequired[str]
    binding: NotRequired[str]
    kind: NotRequired[str]
    bins: NotRequired[int]
    range: NotRequired[tuple[float, float] | None]


class ProfileRecord(PlannedRecord):
    """The record of a profile."""

    question: dict[str, object]
    schema: dict[str, object] | None
    level: float
    digest: str
    profile: FoundRecord


class ScaleRecord(TypedDict):
    """Where the numbers of a column are."""

    low: float
    high: float
    log: bool


class LevelRecord(Known):
    """A level with the number of its rows."""

    level: object


class KnownQuantile(Known):
    """The value that a share of the rows lies below."""

    share: float


class UnknownQuantile(Unknown):
    """A share whose value the budget cannot show."""

    share: float


QuantileRecord = KnownQuantile | UnknownQuantile


class HistogramRecord(TypedDict):
    """Rows per bin."""

    edges: list[float]
    counts: list[Known]


class ColumnRecord(TypedDict):
    """What was found about a column; numbers have a scale, levels have counts."""

    name: str
    kind: str
    levels: list[object] | None
    scale: ScaleRecord | None
    missing: NotRequired[Score]
    mean: NotRequired[Score]
    spread: NotRequired[Score]
    correlation: NotRequired[Score]
    quantiles: NotRequired[list[QuantileRecord]]
    histogram: NotRequired[HistogramRecord]
    counts: NotRequired[list[LevelRecord]]
    other: NotRequired[Known]
    reads_as: NotRequired[dict[str, Known]]


class FoundRecord(TypedDict):
    """What a profile found."""

    columns: list[ColumnRecord]
    rows: NotRequired[Known]
