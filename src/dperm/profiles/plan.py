"""The stages of a profile, from public numbers; and what later stages look at, from what earlier ones released. Both are pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.privacy import Event, Gaussian, Levels, gaussian_mu
from dperm.problem.specs import number
from dperm.profiles import ranges
from dperm.profiles import terms as of
from dperm.profiles.question import Asked, Question
from dperm.profiles.rows import Vocabulary
from dperm.release.noise import gaussian_scale
from dperm.release.plan import Plan, Shape, Stage, Target
from dperm.tables.scale import OCTAVES
from dperm.terms.ranges import CELLS

# Shares of μ², before those of stages that are not asked for are given to the others. What is shown gets most of it.
SHARES = {"types": 0.04, "codes": 0.06, "levels": 0.16, "octaves": 0.05, "cells": 0.08}
SHARES |= {"counts": 0.42, "moments": 0.25, "joint": 0.3}
SHOWN = ("counts", "moments", "joint")  # not asked for where only a schema is wanted
FAILURE = 0.04  # share of δ that the threshold of private levels may fail with: within the 5 % that a ledger sets aside
STANDS_OUT = 4.0  # deviations of noise above which a count is believed
ENDS = 3.0  # deviations above which the lowest and the highest code are believed: an empty level more costs little
STRAYS = 0.02  # share of a column of codes that may be other numbers, and of a column of truth values that may be other text
MOST_CLASSES = 20  # a target of numbers with at most so many levels is taken for classes
KIND_OF_LOOK = ("unknown", "numeric", "boolean", "date", "levels")


@dataclass(frozen=True)
class Found:
    """What is known of a column so far: its kind, its levels, and where its cells are."""

    kind: str
    levels: tuple[object, ...] | None = None
    scale: of.Scale | None = None
    coded: bool = False  # its levels are whole numbers that were found among its numbers


def stages_of(question: Question) -> list[str]:
    """The stages in order; which there are follows from the question alone."""
    wanted = {"types": bool(question.unknown), "levels": bool(question.unlisted)}
    wanted["codes"] = question.codes and bool(question.unknown)
    wanted |= dict.fromkeys(("octaves", "cells", "moments"), question.may_have_numbers)
    wanted["joint"] = question.correlations
    return [name for name in SHARES if wanted.get(name, True) and (question.parts == "all" or name not in SHOWN)]


def plan_profile(question: Question, shape: Shape, target: Target) -> Plan:
    """Fixed from public numbers: stage k has the share q_k of μ², so that together they are (ε, δ)-DP."""
    if target.delta == 0:
        raise ValueError("Expected delta > 0 for a profile, whose noise is Gaussian, found 0. Pass e.g. --delta 1e-6.")
    names = stages_of(question)
    if not names:
        raise ValueError("Expected columns whose bounds, levels or types are to be found, found none. The schema is complete.")
    failure = FAILURE * target.delta if "levels" in names else 0.0
    whole = gaussian_mu(target.epsilon, (target.delta - failure) / (1 - failure)) * (1 - 1e-9)
    total = sum(SHARES[name] for name in names)
    stages = []
    for name in names:
        part = whole * math.sqrt(SHARES[name] / total)
        event: Event = Levels(part, failure) if name == "levels" else Gaussian(part)
        stages.append(Stage(name, event))
    return Plan("profile", replace(question, mixed=False).spec(), tuple(stages), target, shape)  # `mixed` plans nothing


def question_stated(plan: Plan, question: Question, released: Mapping[str, Any]) -> Question:
    """The question as a record states it: `mixed` where the older rule finds something else, so that nothing is stated in vain.
    Where a target alone reads otherwise, its levels were found all the same."""
    older = replace(question, mixed=False)
    found = decide(plan, question, released)
    with suppress(ValueError):  # levels of other columns than the older rule would find
        if decide(plan, older, released) == found:
            return older
    return question


def noise_of(plan: Plan, name: str, term: of.ColumnTerm) -> float:
    """Standard deviation of every number of a stage."""
    event = plan.stage(name).event
    sensitivity = term.sensitivity(plan.target.relation) * plan.target.rows_per_person
    return gaussian_scale(sensitivity, event.mu)  # type: ignore[attr-defined]


def term_of(name: str, question: Question, found: tuple[Found, ...], words: Vocabulary | None = None) -> of.ColumnTerm:
    """The term of a stage, given what was found before it; `words` is there in a run only."""
    if name == "types":
        return of.Looks(question.unknown)
    if name == "codes":
        columns = may_be_codes(question, found)
        return of.Codes(columns, ("numeric",) * len(columns))
    numbers = numeric(found)
    kinds = tuple(found[j].kind for j in numbers)
    if name == "octaves":
        return of.Octaves(numbers, kinds)
    if name in ("cells", "moments"):
        return (of.Cells if name == "cells" else of.Moments)(numbers, kinds, _scales(found, numbers))
    if name == "joint":
        return _joint(question, found, words)
    return of.Counts(
        tuple(range(len(found))),
        tuple(f.kind for f in found),
        tuple(f.scale for f in found),
        tuple(len(f.levels or ()) for f in found),
        tuple(_renamed(f, None if words is None else words.get(j)) for j, f in enumerate(found)),
    )


def _joint(question: Question, found: tuple[Found, ...], words: Vocabulary | None) -> of.Joint:
    """Numeric columns beside the target; none of them where the target is neither numeric nor one of two levels."""
    target = next(j for j, column in enumerate(question.columns) if column.target)
    goal = found[target]
    usable = goal.scale is not None or len(goal.levels or ()) == 2
    columns = tuple(j for j in numeric(found) if j != target) if usable else ()
    kinds = tuple(found[j].kind for j in columns)
    names = _renamed(goal, None if words is None else words.get(target))
    return of.Joint(columns, kinds, _scales(found, columns), target, goal.kind, goal.scale, names)


def _renamed(found: Found, words: list[float | str] | None) -> NDArray[np.int64] | None:
    """From places in the private vocabulary to places among the levels that were found; none where none were.

    A place in the vocabulary itself must never be counted: which word came first follows from other rows.
    """
    if words is None or found.kind == "boolean":
        return None
    place = {level if isinstance(level, str) else number(level): j for j, level in enumerate(found.levels or ())}
    return np.array([place.get(word, -1) for word in words], dtype=np.int64)


def numeric(found: Sequence[Found]) -> tuple[int, ...]:
    return tuple(j for j, column in enumerate(found) if column.kind in ("numeric", "date"))


def to_find(question: Question, found: Sequence[Found]) -> tuple[int, ...]:
    """Columns whose levels are found privately: those said to be, text, and a target that nothing is declared about."""
    asked = question.columns
    return tuple(
        j
        for j, column in enumerate(found)
        if (asked[j].kind == "levels" and asked[j].levels is None)
        or (asked[j].kind == "unknown" and ((asked[j].target and column.kind != wanted_number(asked[j])) or _is_text(column)))
    )


def wanted_number(asked: Asked) -> str | None:
    """The kind of a target that stays a number however few values it has, because a model of numbers is to be fitted."""
    return "numeric" if asked.wanted == "numeric" else None


def _is_text(column: Found) -> bool:
    return column.kind == "levels" and not column.coded


def may_be_codes(question: Question, found: Sequence[Found]) -> tuple[int, ...]:
    """Numbers that nothing is declared about, those that turned out to be codes included; a target's classes are found as
    levels."""
    return tuple(j for j in question.unknown if not question.columns[j].target and (found[j].kind == "numeric" or found[j].coded))


def kind_among(counts: NDArray[np.float64], scale: float, mixed: bool) -> str:
    """The kind of a column from how many of its cells look like what: that of the most, if they stand out.

    With `mixed`, a column of truth values has hardly any other text. The F of "F" and "M" reads as a truth value; where most rows
    have it, the column would otherwise have one value left.
    """
    best = int(np.argmax(counts[1:])) + 1
    if not counts[best] > STANDS_OUT * scale:
        return "unknown"
    kind = KIND_OF_LOOK[best]
    beside = counts[KIND_OF_LOOK.index("levels")]
    return "levels" if mixed and kind == "boolean" and beside > max(STRAYS * counts[best], STANDS_OUT * scale) else kind


def codes_among(counts: NDArray[np.float64], scale: float) -> tuple[int, ...] | None:
    """The whole numbers that a column holds, from the smallest to the largest that stands out; None where it is a number.

    It is a column of codes where hardly a number is anything else: a share of 2 %, or what noise may feign, if that is little.
    """
    whole = float(counts.sum())
    seen = np.flatnonzero(counts[:-1] > ENDS * scale)
    unsure = STANDS_OUT * scale
    if unsure > 0.1 * whole or counts[-1] > max(STRAYS * whole, unsure) or np.sum(counts[:-1] > unsure) < 2:
        return None
    return tuple(range(int(seen[0]), int(seen[-1]) + 1))


def decide(plan: Plan, question: Question, released: Mapping[str, Any]) -> tuple[Found, ...]:
    """What follows about each column from the stages released so far."""
    found = [_declared(column) for column in question.columns]

    def answer(stage: str, size: int) -> tuple[NDArray[np.float64], float]:
        """The numbers of a stage, one where it has no columns, and the standard deviation of their noise."""
        return numbers_of(released[stage], max(size, 1)), noise_of(plan, stage, term_of(stage, question, tuple(found)))

    if "types" in released:
        counts, noise = answer("types", of.LOOKS * len(question.unknown))
        for j, row in zip(question.unknown, counts.reshape(-1, of.LOOKS)):
            kind = kind_among(row, noise, question.mixed)
            found[j] = Found(kind, (0, 1) if kind == "boolean" else None)
    if "codes" in released:
        columns = may_be_codes(question, found)
        counts, noise = answer("codes", (of.CODES + 1) * len(columns))
        for j, row in zip(columns, counts.reshape(max(len(columns), 1), -1)):
            levels = codes_among(row, noise)
            found[j] = found[j] if levels is None else Found("levels", levels, coded=True)
    if "levels" in released:
        _find_levels(question, found, released)
    numbers, n = numeric(found), plan.shape.n
    if "octaves" in released:
        counts, noise = answer("octaves", 2 * OCTAVES * len(numbers))
        wide = ranges.first_scales(counts, noise, n, [question.columns[j] for j in numbers], question.wary)
        for j, scale in zip(numbers, wide):
            found[j] = replace(found[j], scale=scale)
    if "cells" in released:
        counts, noise = answer("cells", CELLS * len(numbers))
        for j, scale in zip(numbers, ranges.tighter(counts, _scales(found, numbers), noise, n, question.wary)):
            found[j] = replace(found[j], scale=scale)
    return tuple(found)


def _declared(column: Asked) -> Found:
    if column.kind == "boolean":
        return Found("boolean", (0, 1))
    return Found(column.kind, column.levels)


def _scales(found: Sequence[Found], columns: tuple[int, ...]) -> tuple[of.Scale, ...]:
    return tuple(found[j].scale or of.Scale(0.0, 1.0) for j in columns)


def numbers_of(values: object, size: int) -> NDArray[np.float64]:
    """A release as an array; one of another length or with entries that are no numbers is refused."""
    array = np.array(values, dtype=np.float64)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise ValueError(f"a release is not a list of {size} numbers")
    return array


def _find_levels(question: Question, found: list[Found], released: Mapping[str, Any]) -> None:
    """Put the released levels in their columns."""
    columns = to_find(question, found)
    if len(released["levels"]) != len(columns):
        raise ValueError(f"the release of levels is not one of {len(columns)} columns")
    looks = dict(zip(question.unknown, _looks(question, released)))
    for j, pairs in zip(columns, released["levels"]):
        levels = tuple(_checked(level) for level, _ in pairs)
        if len(set(map(str, levels))) != len(levels) or list(levels) != sorted(levels, key=str):
            raise ValueError("the levels are not listed once each in the order of their names")
        kind = found[j].kind
        if kind in ("numeric", "date") and question.columns[j].wanted is None:  # a target: classes, or a number?
            seen = math.fsum(float(count) for _, count in pairs)
            if not 2 <= len(levels) <= MOST_CLASSES or seen < 0.9 * looks[j]:
                continue
        found[j] = Found("levels", levels)


def _looks(question: Question, released: Mapping[str, ArrayLike]) -> list[float]:
    """How many cells of each undeclared column look like something."""
    if not question.unknown:
        return []
    table = numbers_of(released["types"], of.LOOKS * len(question.unknown)).reshape(-1, of.LOOKS)
    return [float(row[1:].max()) for row in table]


def _checked(level: object) -> object:
    if isinstance(level, bool) or not isinstance(level, str | int | float):
        raise ValueError("a level is neither text nor a number")
    return level
