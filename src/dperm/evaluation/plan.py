"""The stages of an evaluation, from public numbers; and what later stages do, from what earlier ones released. Both are pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from dperm.evaluation import terms as of
from dperm.privacy import Gaussian, gaussian_mu
from dperm.problem.specs import number
from dperm.release.noise import gaussian_scale
from dperm.release.plan import Plan, Shape, Stage, Target, Vector
from dperm.release.typed import mistyped_fields

QUESTIONS = ("binary", "multiclass", "regression", "counts")
USED = {
    "binary": ("classes", "probabilities", "bins", "labels", "by", "groups"),
    "multiclass": ("classes", "probabilities", "labels", "by", "groups"),
    "regression": ("low", "high", "by", "groups"),
    "counts": ("high", "max_exposure", "by", "groups"),
}
LATER: dict[str, object] = {"labels": (), "by": "", "groups": ()}  # of 0.3.0: left out of a record where they have these values
MOST_GROUPS = 200
BINS = 20
STANDS_OUT = 4.0  # deviations of noise above which a count is believed
LEAST_BEYOND = 0.005  # share of the rows beyond the size that a clip is reckoned from
TAIL = 1 / 3  # share of the rows that an exponential tail is taken to begin with
MOST_DEVIANCE = 8.0  # a row's deviance counts at most this, in units of the largest count
# Shares of μ². The sums that scores are made of get most of it; where to clip and where to cut is known well enough from little.
SHARES: dict[str, dict[str, float]] = {
    "binary": {"answers": 0.40, "grid": 0.08, "scores": 0.52},
    "multiclass": {"answers": 1.0},
    "regression": {"centre": 0.03, "residuals": 0.10, "spread": 0.10, "moments": 0.77},
    "counts": {"sizes": 0.08, "rates": 0.08, "deviances": 0.08, "moments": 0.76},
}
APART = {"answers": 0.5, "confusion": 0.5}  # of several classes whose labels are given
WHOLE = 0.6  # what the scores of all rows keep where groups are asked for
GROUPS = {"groups": 0.04}
GROUPED: dict[str, dict[str, float]] = {
    "binary": {"answers by group": 0.18, "confusion by group": 0.18},
    "multiclass": {"answers by group": 0.18, "confusion by group": 0.18},
    "regression": {"moments by group": 0.36},
    "counts": {"moments by group": 0.36},
}


@dataclass(frozen=True)
class Question:
    """What is asked of the rows, in public words: it fixes the stages and how rows become numbers.

    classes, probabilities   of a classifier: how many, and whether it predicts them
    bins                     of the predicted probability, for two classes
    low, high                range of a regression's target; `high` is the largest count for counts
    max_exposure             largest exposure of a row, for counts
    labels                   names of the classes: with them every class is scored apart, and thresholds are
    by, groups               a column and the names of its declared levels: scores of each of them apart

    What a kind does not use keeps its default, so that a record states nothing that nothing depends on.
    """

    kind: str
    classes: int = 0
    probabilities: bool = False
    bins: int = BINS
    low: float = 0.0
    high: float = 1.0
    max_exposure: float = 1.0
    labels: tuple[str, ...] = ()
    by: str = ""
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        whole = all(isinstance(v, int) and not isinstance(v, bool) for v in (self.bins, self.classes))
        if self.kind not in QUESTIONS or not whole or not 2 <= self.bins <= 200:
            raise ValueError(
                f"Expected a kind in {QUESTIONS} and 2 ≤ bins ≤ 200, found {self.kind!r} and {self.bins!r}. Pass e.g. "
                "bins=20."
            )
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"Expected a finite range of the target, found {self.low} to {self.high}.")
        if not (math.isfinite(self.max_exposure) and self.max_exposure > 0):
            raise ValueError(f"Expected max_exposure > 0, found {self.max_exposure}. Pass the largest exposure.")
        if (self.classes < 3 if self.kind == "multiclass" else self.classes != (2 if self.kind == "binary" else 0)):
            raise ValueError(f"Expected as many classes as a {self.kind} model has, found {self.classes}.")
        unused = [f for f in fields(self) if f.name not in ("kind", *USED[self.kind]) and getattr(self, f.name) != f.default]
        if unused or type(self.probabilities) is not bool:
            raise ValueError(f"Expected only {USED[self.kind]} for {self.kind}, found others.")
        if self.labels and not _names(self.labels, self.classes, self.classes):
            raise ValueError(f"Expected {self.classes} labels that differ, found others.")
        grouped = bool(self.groups) and _names(self.groups, 2, MOST_GROUPS) and isinstance(self.by, str) and bool(self.by)
        if not grouped and (self.groups or self.by):
            raise ValueError(f"Expected a column with 2 to {MOST_GROUPS} groups whose names differ, found others.")

    def spec(self) -> dict[str, object]:
        found = {name: value for name, value in asdict(self).items() if name not in LATER or value != LATER[name]}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}

    @classmethod
    def from_spec(cls, spec: Mapping[str, object]) -> Question:
        for reason in mistyped_fields(spec, cls, "question"):
            raise ValueError(reason)
        given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in spec.items()}
        return cls(**given)

    @property
    def shares(self) -> dict[str, float]:
        """The stages in order, each with its share of μ²."""
        found = APART if self.kind == "multiclass" and self.labels else SHARES[self.kind]
        if not self.groups:
            return found
        return {name: WHOLE * share for name, share in found.items()} | GROUPS | GROUPED[self.kind]

    @property
    def most_loss(self) -> float:
        """A row's log-loss counts at most this: 7 for two classes, a probability of 0.0009."""
        return 7.0 + math.log(max(self.classes, 2) / 2)

    @property
    def width(self) -> float:
        return self.high - self.low


def _names(names: tuple[str, ...], fewest: int, most: int) -> bool:
    return fewest <= len(names) <= most and len(set(names)) == len(names) and all(isinstance(name, str) for name in names)


class Decided(TypedDict, total=False):
    """What earlier stages decided: where bins are cut and sums are clipped, in parts of the range."""

    edges: Sequence[int]
    centre: float
    centres: list[float]
    clip: float
    spread: float
    size: float
    rate: float


def term_of(question: Question, name: str, decided: Decided) -> of.RowTerm:
    """The term of a stage, given what was decided before it."""
    if name.endswith(" by group"):
        centres = decided.get("centres", [0.0] * len(question.groups))  # of a regression's target: every group has its own
        inner = name.removesuffix(" by group")
        return of.Grouped(tuple(term_of(question, inner, {**decided, "centre": centre}) for centre in centres))
    if name == "groups":
        groups = len(question.groups)
        return of.Grouped((of.Centre(),) * groups) if question.kind == "regression" else of.GroupSizes(groups + 1)
    if name == "moments" and question.kind == "counts":
        return of.CountMoments(decided["size"], decided["rate"], decided["clip"])
    return TERMS[name](question, decided)


TERMS: dict[str, Callable[[Question, Decided], of.RowTerm]] = {
    "confusion": lambda question, _: of.Confusion(question.classes**2, question.classes),
    "answers": lambda question, _: of.Answers(question.classes, question.probabilities),
    "grid": lambda *_: of.ScoreGrid(),
    "scores": lambda _, decided: of.Scores(tuple(decided["edges"])),
    "centre": lambda *_: of.Centre(),
    "residuals": lambda *_: of.ResidualSizes(),
    "spread": lambda _, decided: of.TargetSizes(centre=decided["centre"]),
    "moments": lambda _, decided: of.Moments(decided["clip"], decided["centre"], decided["spread"]),
    "sizes": lambda *_: of.CountSizes(),
    "rates": lambda _, decided: of.Rates(decided["size"]),
    "deviances": lambda _, decided: of.DevianceSizes(top=MOST_DEVIANCE, rate=decided["rate"]),
}


# Sensitivities do not depend on what earlier stages released; any values serve to ask a term for its own.
_ANY: Decided = {"edges": (0, of.GRID), "centre": 0.0, "clip": 1.0, "spread": 1.0, "size": 1.0, "rate": 1.0}


def plan_evaluation(question: Question, shape: Shape, target: Target) -> Plan:
    """Fixed from public numbers: stage k has the share q_k of μ², so that together they are μ(ε, δ)-GDP."""
    if target.delta == 0:
        raise ValueError("Expected delta > 0 for an evaluation, whose noise is Gaussian, found 0. Pass e.g. --delta 1e-6.")
    whole = gaussian_mu(target.epsilon, target.delta) * (1 - 1e-12)
    stages = []
    for name, share in question.shares.items():
        mu = whole * math.sqrt(share)
        sensitivity = term_of(question, name, _ANY).sensitivity(target.relation) * target.rows_per_person
        stages.append(Stage(name, Gaussian(mu), {"scale": gaussian_scale(sensitivity, mu)}))
    return Plan("evaluation", question.spec(), tuple(stages), target, shape)


def noise_scales(plan: Plan) -> dict[str, float]:
    return {stage.name: float(stage.settings["scale"]) for stage in plan.stages}


def sizes_of(question: Question) -> dict[str, int]:
    """How many numbers each stage releases."""
    found = {"grid": of.GRID, "scores": 3 * question.bins, "centre": 2, "rates": 3}
    found["answers"] = 2 + 2 * question.probabilities + question.classes
    found |= dict.fromkeys(("residuals", "spread", "sizes", "deviances"), of.OCTAVES)
    found["moments"] = 11 if question.kind == "counts" else 9
    found["groups"] = 2 * len(question.groups) if question.kind == "regression" else len(question.groups) + 1
    found["confusion"] = question.classes**2
    return found | {f"{name} by group": size * len(question.groups) for name, size in found.items()}


def arrays(question: Question, released: Mapping[str, ArrayLike]) -> dict[str, Vector]:
    """The releases as arrays; ones of another length or with entries that are no numbers are refused."""
    found, sizes = {}, sizes_of(question)
    for name, values in released.items():
        array = np.array(values, dtype=np.float64)
        if array.shape != (sizes[name],) or not np.isfinite(array).all():
            raise ValueError(f"the release {name!r} is not a list of {sizes[name]} numbers")
        found[name] = array
    return found


def decide(plan: Plan, question: Question, released: Mapping[str, ArrayLike]) -> Decided:
    """Where bins are cut and sums are clipped, as far as the stages released so far say it. Units: parts of the range."""
    held, scale = arrays(question, released), noise_scales(plan)
    decided: Decided = {}
    if "grid" in held:
        decided["edges"] = bin_edges(held["grid"], question.bins, scale["grid"])
    if "centre" in held:
        decided["centre"] = _mean(2 * held["centre"][0], held["centre"][1], scale["centre"], (-1.0, 1.0), 0.0)
    if "groups" in held and question.kind == "regression":
        pairs = held["groups"].reshape(-1, 2)
        decided["centres"] = [_mean(2 * top, rows, scale["groups"], (-1.0, 1.0), decided["centre"]) for top, rows in pairs]
    if "residuals" in held:
        decided["clip"] = clip_of(held["residuals"], 1.0, scale["residuals"], scale["moments"])
    if "spread" in held:
        decided["spread"] = clip_of(held["spread"], 1.0, scale["spread"], scale["moments"])
    if "sizes" in held:
        decided["size"] = clip_of(held["sizes"], 1.0, scale["sizes"], scale["moments"])
    if "rates" in held:
        mean = _mean(held["rates"][0], held["rates"][1], scale["rates"], (1e-6, 1.0), 1.0)
        decided["rate"] = max(decided["size"] * mean, 1e-9)
    if "deviances" in held:
        decided["clip"] = clip_of(held["deviances"], MOST_DEVIANCE, scale["deviances"], scale["moments"])
    return decided


def in_units(question: Question, decided: Mapping[str, object]) -> dict[str, object]:
    """What was decided, in the data's units: bins as probabilities, sizes and centre like the target, the rate per exposure."""
    told: dict[str, object] = {}
    for name, value in decided.items():
        if name == "edges":
            told[name] = of.grid_edges()[np.asarray(value)].tolist()
        elif name in ("centre", "centres"):
            told[name] = (question.low + (np.asarray(value) + 1) / 2 * question.width).tolist()
        elif name == "rate":
            told[name] = number(value) * question.high / question.max_exposure
        else:
            told[name] = number(value) * question.width
    return told


def _mean(top: float, bottom: float, scale: float, bounds: tuple[float, float], otherwise: float) -> float:
    """top/bottom within the bounds; a public number where the bottom does not stand out of its noise."""
    if bottom <= STANDS_OUT * scale:
        return otherwise
    return float(min(max(top / bottom, bounds[0]), bounds[1]))


def clip_of(counts: Sequence[float] | Vector, top: float, scale: float, later: float) -> float:
    """Where to clip sizes, from their noisy histogram: at most `top`. `later` is the noise of the sums that will be clipped.

    Rows are counted from the largest bin down, until the count stays above a share f of the rows: 0.5 %, or more where noise
    demands it. The size with f of the rows beyond it is interpolated there, and from it the clip is moved out until a tail that
    falls like ⅓·exp(-size/b) would leave a share of √(1 + 100·later²/n)/(60√n) beyond: then what the clip takes away is small
    against the error by sampling and noise. `top` where nothing stands out.
    """
    seen = np.cumsum(np.asarray(counts, dtype=np.float64))
    rows = float(seen[-1])
    wanted = np.maximum(LEAST_BEYOND * rows, STANDS_OUT * scale * np.sqrt(np.arange(1, len(seen) + 1)))
    hidden = np.flatnonzero(seen <= wanted)
    if rows <= wanted[-1] or len(hidden) == 0 or wanted[hidden[-1] + 1] > 0.75 * TAIL * rows:
        return top
    first = int(hidden[-1]) + 1
    count = float(wanted[first])
    part = (count - seen[first - 1]) / (seen[first] - seen[first - 1])
    size = top * 2.0 ** (-(first + min(max(float(part), 0.0), 1.0)) / 2)
    left = min(math.hypot(1.0, 10 * later / math.sqrt(rows)) / (60 * math.sqrt(rows)), 0.75 * TAIL)
    return float(min(top, size * max(math.log(TAIL / left) / math.log(TAIL * rows / count), 1.0)))


def bin_edges(counts: Sequence[float] | Vector, bins: int, scale: float) -> list[int]:
    """Borders of bins with about equally many rows, as cells of the grid; even on the grid where noise hides the rows."""
    total = np.cumsum(np.asarray(counts, dtype=np.float64))
    cells = np.arange(1, bins)
    inner = np.rint(of.GRID * cells / bins)
    if total[-1] > STANDS_OUT * scale * math.sqrt(of.GRID):
        inner = np.searchsorted(np.maximum.accumulate(total), total[-1] * cells / bins) + 1
    edges = [0]
    for done, edge in zip(cells, inner):  # every bin has at least one cell
        edges.append(int(min(max(edge, edges[-1] + 1), of.GRID - (bins - done))))
    return [*edges, of.GRID]


def typical(counts: Sequence[float] | Vector, top: float, scale: float) -> float:
    """The median size, from a noisy histogram: the middle of the bin where half of the rows are counted; 0 if none are seen."""
    seen = np.cumsum(np.asarray(counts, dtype=np.float64))
    if seen[-1] <= STANDS_OUT * scale * math.sqrt(len(seen)):
        return 0.0
    place = int(np.argmax(seen >= seen[-1] / 2))
    return float(top * 2.0 ** (-(place + 0.5) / 2))
