"""The shapes of a plan: what will happen, decided from public numbers before any row is read."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, cast

from numpy.typing import ArrayLike

from dperm.privacy import RELATIONS, Event, Guarantee, compose
from dperm.problem import Problem
from dperm.problem.arrays import Vector as Vector  # beside a plan's other words, for those who write one; as are settings
from dperm.problem.plain import is_number, plain_fields, plain_number, plain_whole, shown
from dperm.release.record import StageRecord, TargetRecord
from dperm.release.settings import StageSettings as StageSettings
from dperm.words.display import box, budget_chips

if TYPE_CHECKING:
    from dperm.release.asks import Program

Released = Mapping[str, ArrayLike]  # noisy answers by their stage: arrays in a run, lists in a record
Settings = Mapping[str, Any]
Kind = TypeVar("Kind", bound=StageSettings)
UNITS = ("row", "person")
# A stranger's record must neither fill the memory of whoever checks it nor keep him waiting.
MOST_COLUMNS = 10**8
LEAST_EPSILON, LEAST_DELTA = 1e-100, 1e-300  # beyond them accountants underflow
MOST_SAMPLED = 1e4  # the largest epsilon that the discretised loss of a sampled release can express
MOST_RELEASES = 10**6


@dataclass(frozen=True)
class Target:
    """How much privacy to spend, against which neighbour.

    `unit` says what one neighbour differs by: a "row", or a "person" with all their rows, of which at most `rows_per_person`
    count. A person with one row is not a row: replacing a row together with its id also changes which of the *other* rows count.
    Left out (as older records do), it is a person where several rows count.

    Parameters
    ----------
    epsilon : float
        Privacy budget ε.
    delta : float
        Chance δ of the guarantee; 0 is pure privacy.
    relation : {"replace-one", "zero-out", "add-remove"}, default "replace-one"
        Which tables count as neighbours.
    rows_per_person : int, default 1
        How many rows of a person count.
    unit : {"row", "person"}
        What one neighbour differs by.

    Examples
    --------
    >>> Target.declare(epsilon=1.0, n=1000)
    Target(epsilon=1.0, delta=1e-06, relation='replace-one', rows_per_person=1, unit='row')
    """

    epsilon: float
    delta: float
    relation: str = "replace-one"
    rows_per_person: int = 1
    unit: str = ""

    def __post_init__(self) -> None:
        plain_fields(self)
        if not self.unit:
            object.__setattr__(self, "unit", "person" if self.rows_per_person > 1 else "row")

    def spec(self) -> TargetRecord:
        return cast(TargetRecord, asdict(self))

    @classmethod
    def declare(
        cls,
        *,
        epsilon: float,
        delta: float | None = None,
        relation: str = "replace-one",
        n: int,
        rows_per_person: int = 1,
        unit: str = "",
    ) -> Target:
        """Check the declaration; `delta=None` means min(1e-6, 0.1/n) from the public n."""
        epsilon = plain_number(epsilon, "epsilon") if is_number(epsilon) else epsilon
        if not (is_number(epsilon) and 0 < epsilon < math.inf):
            found = f"the text {epsilon[:40]!r}" if isinstance(epsilon, str) else shown(epsilon)
            finite = "a finite " if epsilon == math.inf else ""
            raise ValueError(f"Expected {finite}epsilon > 0, found {found}. Pass a positive privacy budget, e.g. epsilon=1.0.")
        n, rows_per_person = plain_whole(n, "n"), plain_whole(rows_per_person, "max_rows_per_person")
        if not n >= 1:
            raise ValueError(f"Expected at least one row (n ≥ 1), found {n}. Pass a table with rows, or their number to a plan.")
        if epsilon < LEAST_EPSILON:
            raise ValueError(f"Expected epsilon ≥ {LEAST_EPSILON:g}, found {epsilon:g}: all would be noise. Pass more.")
        if epsilon > 1e12:
            raise ValueError(f"Expected epsilon ≤ 1e12, found {epsilon:g}, which protects nobody. Use a non-private library.")
        if relation not in RELATIONS:
            raise ValueError(f"Expected relation in {RELATIONS}, found {relation!r}. Most users want 'replace-one'.")
        if rows_per_person < 1:
            raise ValueError(f"Expected max_rows_per_person ≥ 1, found {rows_per_person}. Pass a positive whole number.")
        if unit not in ("", *UNITS) or (unit == "row" and rows_per_person > 1):
            raise ValueError(f"Expected unit in {UNITS}, and 'person' where several rows count, found {unit!r}.")
        if delta is None:
            delta = min(1e-6, 0.1 / n)
        delta = plain_number(delta, "delta") if is_number(delta) else delta
        if not (is_number(delta) and 0 <= delta < 1):
            raise ValueError(f"Expected 0 ≤ delta < 1, found {shown(delta)}. Pass e.g. delta=1e-6, or delta=0 for pure privacy.")
        if 0 < delta < LEAST_DELTA:
            raise ValueError(
                f"Expected delta = 0 or delta ≥ {LEAST_DELTA:g}, found {delta:g}: floats cannot keep its tail. Pass delta=0 for "
                "pure privacy, or leave it out for the default."
            )
        if delta >= 1 / n:
            raise ValueError(
                f"Expected delta < 1/n = {1 / n:.3g}, found {delta}: such a delta permits publishing a whole record. "
                "Pass a smaller delta, or leave it out for the default."
            )
        return cls(float(epsilon), float(delta), relation, int(rows_per_person), unit)


@dataclass(frozen=True)
class Shape:
    """Public size of the data: n rows (nominal under add-remove) and d columns before the intercept.

    Parameters
    ----------
    n : int
        Number of rows; nominal under add-remove.
    d : int
        Number of columns before the intercept.
    """

    n: int
    d: int

    def __post_init__(self) -> None:
        plain_fields(self)
        for name, size in (("n", self.n), ("d", self.d)):
            if size != int(size):
                raise ValueError(f"Expected {name} as a whole number, found {size}. Pass the public size of the data.")
            object.__setattr__(self, name, int(size))
        if self.d > MOST_COLUMNS:
            raise ValueError(f"Expected at most {MOST_COLUMNS:,} columns, found {self.d:,}.")
        if self.d < 1:
            raise ValueError(f"Expected at least one column, found {self.d}.")

    def parameters(self, problem: Problem) -> int:
        """Number of coefficients: margins × (columns + intercept)."""
        columns = self.d if problem.feature_map is None else problem.feature_map.output_dimension
        return problem.loss.margins * (columns + (1 if problem.data.intercept else 0))


@dataclass(frozen=True)
class Stage:
    """One booked step of a plan: a fixed event, and the public numbers known before the data are read."""

    name: str
    event: Event
    settings: Mapping[str, Any] = field(default_factory=dict)

    def spec(self) -> StageRecord:
        return {"name": self.name, "event": self.event.spec(), "settings": dict(self.settings)}


@dataclass(frozen=True)
class Plan:
    """Stages in order. Their composition is the guarantee; nothing in it depends on the data.

    Parameters
    ----------
    mechanism : str
        Name of the mechanism.
    options : mapping
        Its public options.
    stages : tuple of Stage
        Booked steps in order, each with its event.
    target : Target
        How much privacy to spend, against which neighbour.
    shape : Shape
        Public size of the data.
    assumptions : tuple of str
        What the guarantee takes on trust.
    warnings : tuple of str
        What the caller should hear before agreeing.
    parameters : int or None
        How many numbers are released, where it is not one per coefficient.
    most_rows : int or None
        The largest table that the guarantee speaks of, where it was declared (add-remove).
    notes : tuple of str
        What a reader should know, where no warning is needed.
    """

    mechanism: str
    options: Mapping[str, object]
    stages: tuple[Stage, ...]
    target: Target
    shape: Shape
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    parameters: int | None = None  # how many numbers are released, where it is not one per coefficient of the problem
    most_rows: int | None = None  # the largest table that the guarantee speaks of, where it was declared (add-remove)
    notes: tuple[str, ...] = ()  # what a reader should know and nobody need be warned of

    def __post_init__(self) -> None:
        if (found := sum(stage.event.total() for stage in self.stages)) > MOST_RELEASES:
            raise ValueError(
                f"Expected at most {MOST_RELEASES:,} noisy releases in a plan, found {found:,}. Whoever checks the certificate "
                "goes through all of them: take fewer steps."
            )

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(stage.event for stage in self.stages)

    @property
    def guarantee(self) -> Guarantee:
        return compose(self.events, self.target.relation)

    def stage(self, name: str) -> Stage:
        return next(stage for stage in self.stages if stage.name == name)

    def settings(self, name: str, kind: type[Kind]) -> Kind:
        """The settings of a stage, as the class that its mechanism declares."""
        found = self.stage(name).settings
        if not isinstance(found, kind):
            raise TypeError(f"Expected {kind.__name__} as the settings of stage {name!r}, found {type(found).__name__}.")
        return found

    def explain(self) -> str:
        """The plan in lines that a person reads before agreeing to it."""
        lines = [f"mechanism  {self.mechanism}", f"target     epsilon {self.target.epsilon:g} at delta {self.target.delta:g}"]
        lines[1] += f", {self.target.relation}, n = {self.shape.n:,}, d = {self.shape.d:,}"
        names = [stage.name for stage in self.stages]
        for stage in self.stages:
            said = {"releases": released_words(stage.name, stage.settings, names)} if "releases" in stage.settings else {}
            shown = ", ".join(f"{key} = {_short(value)}" for key, value in {**stage.settings, **said}.items())
            lines.append(f"stage      {stage.name}: {_rounded(stage.event)}" + (f" ({shown})" if shown else ""))
        lines += [f"assumes    {text}" for text in self.assumptions]
        lines += [f"note       {text}" for text in (*self.warnings, *self.notes)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        target = self.target
        chips = [*budget_chips(target.epsilon, target.delta, target.relation, target.unit), f"n = {self.shape.n:,}"]
        names = [stage.name for stage in self.stages]
        rows = [(stage.name, _rounded(stage.event), released_words(stage.name, stage.settings, names)) for stage in self.stages]
        note = " ".join((*self.assumptions, *self.warnings, *self.notes))
        state = "nothing is read or spent by a plan"
        return box(f"Plan: {self.mechanism}", state, chips=chips, rows=rows, head=("stage", "event", "releases"), note=note)


def released_words(name: str, settings: Mapping[str, object], names: Sequence[str]) -> str:
    """What a stage lets out, for people. Records of version 0.3.0 say "sum of the rows" of both steps of a mean."""
    if name == "mean" and "rough mean" in names:
        return "sum of the rows, counted from that centre"
    return str(settings.get("releases", ""))


def _rounded(event: Event) -> str:
    return re.sub(r"\d+\.\d{5,}(e[-+]?\d+)?", lambda found: f"{float(found[0]):.4g}", str(event))


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Outcome:
    """What a run lets out: the coefficients, every value released on the way (a private scale, private bounds), and what
    followed from those."""

    w: Vector
    released: Released = field(default_factory=dict)
    decided: Mapping[str, object] = field(default_factory=dict)


class Mechanism(Protocol):
    """One theorem. `plan` is pure, and so is `program` between its asks: it sees neither rows nor noise."""

    name: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Field[object]]]  # its options are the fields of a frozen dataclass

    def missing(self, problem: Problem, target: Target) -> list[str]:
        """What the theorem needs and the problem does not have, each in words; empty when all is met."""
        ...

    def plan(self, problem: Problem, shape: Shape, target: Target) -> Plan: ...

    def program(self, plan: Plan, problem: Problem) -> Program:
        """What the mechanism asks of the driver, in order; returns the coefficients. `verify` replays it."""
        ...


MECHANISMS: dict[str, type] = {}


def register(cls: type) -> type:
    """Make a mechanism known by its name, for certificates and for `method=`."""
    MECHANISMS[cls.name] = cls  # type: ignore[attr-defined]
    return cls


def options_of(mechanism: Mechanism) -> dict[str, object]:
    """The public options of a mechanism (a frozen dataclass), as the certificate stores them.

    An option that came later is left out where it has the meaning that records without it have (`UNSTATED` of its class).
    """
    later = getattr(mechanism, "UNSTATED", {})
    return {name: value for name, value in asdict(mechanism).items() if name not in later or value != later[name]}


class UnmetNeeds(ValueError):
    """The problem lacks something that the mechanism's theorem needs; the message lists all of it."""

    def __init__(self, mechanism: str, needs: list[str], advice: str = "") -> None:
        listed = "; ".join(needs)
        super().__init__(f"Expected a problem that {mechanism!r} can solve, found needs unmet: {listed}.{advice}")
        self.mechanism, self.needs = mechanism, needs
