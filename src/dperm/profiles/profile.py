"""A private first look at a table, and the verifiable record of it.

    plan (public numbers) → noisy sums in order, each decided by those before it → described(record)

Types of undeclared columns, then levels, then ranges, then what is shown: counts and moments. `terms` derives the sensitivities,
`levels` the one release that is not a sum, `numbers` the error bars.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dperm.privacy import Levels
from dperm.profiles.filled import filled_schema
from dperm.profiles.held import held_by, names_of
from dperm.profiles.levels import found_levels, noise_of
from dperm.profiles.numbers import described
from dperm.profiles.plan import decide, plan_profile, question_stated, term_of, to_find
from dperm.profiles.question import Asked, Question, asked_by_names, asked_by_schema
from dperm.profiles.rows import Vocabulary
from dperm.profiles.told import in_words
from dperm.release.asks import Program, Secret, Solve, Sum
from dperm.release.driver import replay
from dperm.release.ledger.book import receipt_again
from dperm.release.noise import noise_source
from dperm.release.plan import Outcome, Plan, Shape, Target
from dperm.release.record import ColumnRecord, NoiseRecord, ProfileRecord, ReceiptRecord
from dperm.tables.cells import Plain
from dperm.tables.column import Column
from dperm.tables.schema import Schema
from dperm.walk.certificate import noise_stated, promised, target_spec
from dperm.walk.claims import Claim, differences, noise_again, plain
from dperm.walk.fitting import execute
from dperm.walk.options import Spending, check_spending, checked_level, spends, spent_target
from dperm.words.notices import names_of_records

FORMAT = "dperm-profile/1"


def program(plan: Plan, question: Question, words: Vocabulary | None = None) -> Program:
    """Every planned stage, in order. `words` are the private vocabularies, there in a run and not in a replay."""
    released: dict[str, ArrayLike] = {}
    for stage in plan.stages:
        found = decide(plan, question, released)
        if isinstance(stage.event, Levels):
            event, columns = stage.event, to_find(question, found)

            def algorithm(secret: Secret, event: Levels = event, columns: tuple[int, ...] = columns) -> list[list[list[Plain]]]:
                return found_levels(secret, event, columns, words or {})

            released[stage.name] = yield Solve((stage.name,), algorithm, kept=stage.name, words=True)
        else:
            released[stage.name] = yield Sum(stage.name, term_of(stage.name, question, found, words))
    return np.zeros(0)


@dataclass(frozen=True, repr=False)
class Profile(Claim):
    """The record of a profile: what was released, what follows from it, and for whom it is private.

    **Guarantee of a pass** of `verify`: everything follows from the released numbers; a change to any number shows.

    Parameters
    ----------
    record : mapping
        The JSON record, as `to_json` writes it.
    """

    FORMAT: ClassVar[str] = FORMAT
    PARTS: ClassVar[type] = ProfileRecord
    SHOWN: ClassVar[tuple[str, ...]] = ("column", "what was found")

    record: ProfileRecord

    @property
    def columns(self) -> Mapping[str, ColumnRecord]:
        """What was found about each column, by name."""
        return {column["name"]: column for column in self.record["profile"]["columns"]}

    @property
    def plan(self) -> Plan:
        return _planned(self.record)

    def schema(self, *, target: bool = True) -> Schema:
        """A schema whose types, bounds and levels are those that were paid for: post-processing of the profile.

        Refused where the target's classes do not stand out of the noise; `target=False` leaves the target out.
        """
        question = Question.from_spec(self.record["question"])
        found = decide(self.plan, question, self.record["released"])
        return filled_schema(question, found, self.record["schema"], target=target)

    def _shown_rows(self) -> list[tuple[str, ...]]:
        return [(name, in_words(column)) for name, column in self.columns.items()]

    def disagreements(self) -> Iterator[str]:
        return iter(differences(_again(self.record), self.record))


def _planned(record: ProfileRecord) -> Plan:
    target = Target.declare(n=record["shape"]["n"], **record["target"])
    question = Question.from_spec(record["question"])
    return plan_profile(question, Shape(record["shape"]["n"], len(question.columns)), target)


def _again(record: ProfileRecord) -> ProfileRecord:
    """The record that follows from the stated releases."""
    plan, question = _planned(record), Question.from_spec(record["question"])
    _check_schema(question, record["schema"])
    checked_level(record["level"])
    noise = noise_again(record["noise"])
    receipt = receipt_again(record.get("ledger"), plan, noise["policy"])
    outcome = replay(program(plan, question), record["released"])
    _check_shown(plan, record["released"])
    return _record(plan, question, outcome, noise, record["level"], record["schema"], receipt)


def _check_schema(question: Question, stated: dict[str, Any] | None) -> None:
    """The question must be the one that the schema leads to; a target that it leaves open is asked for last."""
    if stated is None:
        if any(column.kind != "unknown" for column in question.columns):
            raise ValueError("the question declares columns, and the record states no schema that does")
        return
    schema = Schema.from_dict(stated)
    asked = asked_by_schema(schema)
    open_target = schema.target is None and len(question.columns) == len(asked) + 1 and question.columns[-1].target
    columns = question.columns[:-1] if open_target else question.columns
    again = {"schema": plain(schema.spec()), "columns": [plain(column.spec()) for column in asked]}
    for reason in differences(again, {"schema": stated, "columns": [plain(column.spec()) for column in columns]}):
        raise ValueError(f"the question does not follow from the schema: {reason}")


def _check_shown(plan: Plan, released: Mapping[str, Any]) -> None:
    """A level that is listed must have passed the threshold."""
    for stage in plan.stages:
        if isinstance(stage.event, Levels) and released[stage.name]:
            target, columns = plan.target, len(released[stage.name])
            _, _, threshold = noise_of(stage.event, columns, target.relation, target.rows_per_person)
            counts = [count for pairs in released[stage.name] for _, count in pairs]
            if any(type(count) not in (int, float) or not count > threshold for count in counts):
                raise ValueError("a level is listed whose count did not pass the threshold")


@spends
def profile(
    table: object,
    *,
    epsilon: float,
    schema: Schema | Mapping[str, object] | str | Path | None = None,
    target: str | None = None,
    target_type: str | None = None,
    parts: str = "all",
    correlations: bool = False,
    level: float = 0.95,
    **spending: Unpack[Spending],
) -> Profile:
    """Look at a table privately: types, levels, histograms, quantiles, means, spreads and shares missing, with error bars.

    **Guarantee**: (ε, δ)-differential privacy for the rows (or persons) of the table: the composition of Gaussian releases and,
    where levels are found, one `Levels` event.

    Parameters
    ----------
    table : table
        A pandas, polars, Arrow or Spark table with private rows.
    epsilon : float
        Privacy budget ε of the profile.
    schema : Schema, dict, path or None, default None
        What is known: a `Schema`, its JSON form or a path. Without it names of columns are public, and all else is paid for.
    target : str or None, default None
        The column that a model would predict.
    target_type : {"classes", "numeric"} or None, default None
        What a target is read as that no schema declares: numbers with few values may be either. None decides by a paid count.
    parts : {"all", "schema"}, default "all"
        "schema" pays for types, levels and ranges only.
    correlations : bool, default False
        Pay also for correlations of numeric columns with a target that is numeric or has two classes.
    level : float, default 0.95
        Coverage of the error bars.

    Examples
    --------
    >>> import dperm, pandas as pd
    >>> people = pd.DataFrame({"age": list(range(20, 70)) * 200, "smokes": ["no", "no", "no", "yes", None] * 2000})
    >>> found = profile(people, epsilon=1.0, random_state=0)
    >>> found.columns["smokes"]["kind"], 44 < found.columns["age"]["mean"]["value"] < 45, found.verify(allow_seeded=True).ok
    ('boolean', True, True)
    """
    level = checked_level(level)
    check_spending(spending)
    groups, most = spending["groups"], spending["max_rows_per_person"]
    names, known = names_of(table, groups, most)
    said = known if schema is None else schema
    if said is None:
        names_of_records(names)
    question, declared = question_about(names, said, target, parts, correlations, target_type=target_type)
    held = held_by(table, question, groups, most)
    asked, n = spent_target(spending, epsilon, held.n, held.per_person, held.unit)
    plan = plan_profile(question, Shape(n, len(question.columns)), asked)
    source = noise_source(spending["noise"], spending["random_state"])
    rows, words = held.look()
    asks = program(plan, question, words)
    outcome, receipt = execute(asks, plan, rows, source, ledger=spending["ledger"], fingerprint=held.seen, note="profile")
    return Profile(_record(plan, question, outcome, source.spec(), level, declared, receipt))


def question_about(
    names: list[str],
    schema: Schema | Mapping[str, object] | str | Path | None,
    target: str | None,
    parts: str = "all",
    correlations: bool = False,
    *,
    target_type: str | None = None,
) -> tuple[Question, dict[str, object] | None]:
    """The question, and the schema that it was asked with in its JSON form."""
    if schema is None:
        return Question(asked_by_names(names, target, target_type), parts, correlations, codes=True, wary=True, mixed=True), None
    schema = Schema.of(schema)
    extra: tuple[Asked, ...] = ()
    named = {column.name: column for column in schema.columns}
    if target is not None and schema.target is None and (target not in named or _is_open(named[target])):
        # A target that the schema does not know, or leaves open: found like everything else.
        column = named.get(target)
        kind = "unknown" if column is None or column.type == "private" else "levels" if column.private_levels else "numeric"
        extra = (Asked(target, kind, target=True, wanted=target_type if kind == "unknown" else None),)
        schema = replace(schema, columns=tuple(column for column in schema.columns if column.name != target))
    elif target is not None:
        schema = schema.with_target(target)
    schema.check(names)
    if extra:
        asked_by_names(names, target)  # refuses a target that is no column
    columns = (*asked_by_schema(schema), *extra)
    codes = any(column.kind == "unknown" and not column.target for column in columns)
    return Question(columns, parts, correlations, codes=codes, wary=True, mixed=True), schema.spec()


def _is_open(column: Column) -> bool:
    return column.to_find or column.bounds is not None


def _record(
    plan: Plan,
    question: Question,
    outcome: Outcome,
    noise: NoiseRecord,
    level: float,
    schema: Mapping[str, object] | None,
    receipt: ReceiptRecord | None,
) -> ProfileRecord:
    target, released = plan.target, plain(outcome.released)
    size = "nominal" if target.relation == "add-remove" else "public"
    record: ProfileRecord = {
        "format": FORMAT,
        "statement": f"({target.epsilon:g}, {target.delta:g})-differential privacy of the profile per {target.unit} "
        f"({target.relation}), with {size} n = {plan.shape.n}",
        "guarantee": promised(plan, target.unit),
        "target": target_spec(target),
        "shape": {"n": plan.shape.n, "d": plan.shape.d},
        "question": plain(question_stated(plan, question, released).spec()),
        "schema": None if schema is None else plain(dict(schema)),
        "level": level,
        "stages": [plain(stage.spec()) for stage in plan.stages],
        "released": released,
        "digest": hashlib.sha256(json.dumps(released, sort_keys=True).encode()).hexdigest(),
        "profile": plain(described(plan, question, released, level)),
        "noise": noise_stated(noise),
    }
    if receipt is not None:
        record["ledger"] = plain(receipt)
    return record
