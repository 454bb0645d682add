"""`dperm fit` without a schema, or with private levels: a small profile first, then the fit, in one budget.

The budget is kept by the rule that ledgers use (`dperm.privacy.filters`), which is proven for fits that are chosen after seeing
what was released before: the profile is one debit, the fit, whose columns and levels follow from it, another.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from dperm.commands.declaring import taken_out
from dperm.commands.shared import notices_said
from dperm.commands.wishes import Wish, known_levels, model_named
from dperm.tables.json_files import write_whole

if TYPE_CHECKING:
    from dperm.estimators.base import PrivateEstimator
    from dperm.privacy.filters import Cost, Filter
    from dperm.profiles.profile import Profile
    from dperm.release.plan import Plan, Target
    from dperm.tables.schema import Schema
    from dperm.walk.options import Spending

SHARE = 0.1  # of μ², for types, levels and ranges


def check_found(schema: Path | None, bounds: str | None, levels: str | None, target: str | None) -> None:
    """Either a schema says what columns are, or all of it is found: said before anything is read."""
    for option, value in (("--bounds", bounds), ("--levels", levels)):
        if value not in (None, "private"):
            raise ValueError(f"Expected {option} private, found {value[:60]!r}. Declared ones go into a schema.")
    if schema is None and not (bounds and levels and target):
        given = {"--target": target, "--bounds private": bounds, "--levels private": levels}
        missing = [option for option, value in given.items() if not value]
        raise ValueError(
            "Expected --schema, or --target with --bounds private and --levels private, found no schema and no "
            f"{' and no '.join(missing)}. Draft a schema with `dperm schema`, or have one filled in by `dperm profile`."
        )


def declared_in(
    file: Path | None, target: str | None, bounds: str | None, levels: str | None
) -> tuple[Schema | None, str | None, str | None]:
    """(the schema of a file, the target, the type of a target that is still to be found and a draft speaks of).

    What a draft leaves empty is private where --bounds and --levels say so; a target's "private" says so itself.
    """
    from dperm.tables.drafts import is_empty, opened
    from dperm.tables.schema import Schema

    if file is None:
        return None, target, None
    spec = Schema.read(file)
    if not isinstance(spec, Mapping) or not isinstance(spec.get("columns"), Mapping):
        return Schema.from_dict(spec), target, None  # which says what is wrong
    named = spec.get("target")
    column = named.get("column") if isinstance(named, Mapping) else None
    if isinstance(named, Mapping) and column and target in (None, column) and is_empty(named):
        if not (bounds or levels or "private" in (named.get("classes"), named.get("bounds"))):
            return Schema.from_dict(spec), target, None  # which says what is empty
        rest = {key: value for key, value in spec.items() if key != "target"}
        kind = named.get("type") or ("classes" if named.get("classes") == "private" else None)
        return Schema.from_dict(opened(rest, bounds=bool(bounds), levels=bool(levels))), str(column), kind
    own = spec["columns"].get(target)
    if is_empty(own) and own["type"] is not None and not (bounds or levels):
        _refuse_empty(spec, str(target))
    return Schema.from_dict(opened(spec, bounds=bool(bounds), levels=bool(levels))), target, None


def _refuse_empty(spec: Mapping[str, Any], target: str) -> NoReturn:
    """A target that is empty among the columns, after what else is empty there: all of it is said at once."""
    from dperm.tables.schema import Schema

    others = ""
    try:
        Schema.from_dict({**spec, "columns": {name: entry for name, entry in spec["columns"].items() if name != target}})
    except ValueError as error:
        others = f"{error}\n"
    raise ValueError(
        f"{others}Expected what the target {target!r} can be, found it empty among the columns. Move it from \"columns\" to "
        f'"target": {{"column": "{target}", "type": "classes", "classes": [...]}} (or "numeric" with low and high), or pass '
        "--bounds private --levels private to have it found and paid for."
    )


def is_open(schema: Schema, target: str | None, *, asked: bool) -> bool:
    """Whether a profile is needed before a fit: for a type, for levels, or, if asked, for a target that no entry describes."""
    named = {column.name: column for column in schema.columns}
    known = schema.target is not None and target in (None, schema.target.column)
    unknown = target is not None and not known and (target not in named or named[target].bounds is not None)
    return any(column.to_find for column in schema.columns) or (asked and unknown)


def check_paid(out: Path, overwrite: bool) -> None:
    """What an earlier fit found before it was refused is paid for: it is used again, and not paid for twice."""
    if (out / "profile.json").exists() and (out / "schema.json").exists() and not (out / "model.json").exists() and not overwrite:
        raise ValueError(
            f"Expected a new place for the results, found schema.json of a fit that was refused in {out}. It is paid for: pass "
            f"--schema {out / 'schema.json'} in place of --bounds and --levels, or another --out. Nothing was spent now."
        )


def relation_of(model: str | None, relation: str | None) -> str:
    """The relation of both debits: the one asked for, or the named model's own default."""
    kind = model_named(model)
    return relation if relation is not None else "replace-one" if kind is None else kind().relation


@dataclass(frozen=True)
class Budget:
    """One (ε, δ) for the profile and the fit after it, and what the profile leaves of it."""

    whole: Target
    n: int
    rule: Filter
    paid: float
    spent: Cost

    @classmethod
    def declare(cls, whole: Target, n: int) -> Budget:
        """A tenth of μ² for the profile. Nothing is spent yet."""
        from dperm.privacy import gaussian_epsilon
        from dperm.privacy.filters import Filter
        from dperm.profiles.plan import FAILURE

        if whole.delta == 0:
            raise ValueError("Expected delta > 0 to find levels and types, found 0. Pass a schema that declares them.")
        rule = Filter.declare(whole.epsilon, whole.delta, "auto")
        failure = FAILURE * whole.delta
        share = gaussian_epsilon((whole.delta - failure) / (1 - failure), math.sqrt(SHARE) * rule.mu) * (1 - 1e-9)
        return cls(whole, n, rule, share, rule.cost([]))

    def after(self, profile: Plan) -> Budget:
        return replace(self, spent=self.rule.cost(profile.events))

    @property
    def left(self) -> float:
        """The ε of a Gaussian fit that takes all that is left."""
        return self.rule.left_epsilon([self.spent], self.whole.delta) * (1 - 1e-9)

    @property
    def statement(self) -> str:
        return f"({self.whole.epsilon:g}, {self.whole.delta:g})-differential privacy of the fit and of schema.json together"

    def split(self, fit: float) -> str:
        """How the budget was shared, where the fit had `fit`."""
        parts = f"{self.paid:.3g} for bounds and levels, {fit:.3g} for the fit"
        return f"asked {self.whole.epsilon:g}: {parts} (they compose to {self.whole.epsilon:g})"

    def within(self, estimator: PrivateEstimator) -> PrivateEstimator:
        """The estimator with an ε whose plan the rule accepts after the profile; Gaussian plans get all that is left.

        Other plans have a Rényi curve that falls about as ε², so that two or three tries find how much of it there is room for.
        """
        epsilon = self.left
        for _ in range(12):
            cost = self.rule.cost(estimator.set_params(epsilon=epsilon).plan(self.n).events)
            if self.rule.accepts([self.spent, cost]) is not None:
                return estimator
            rooms = zip(self.rule.limits, self.spent.curve, cost.curve)
            share = max((limit - spent) / asked if asked > 0 else 1.0 for limit, spent, asked in rooms)
            epsilon *= min(max(0.98 * math.sqrt(max(share, 0.0)), 0.1), 0.98)
        raise ValueError("Expected a method whose cost the rest of the budget covers, found none. Pass --method gradient.")

    @contextlib.contextmanager
    def kept(self, out: Path, wish: Wish, schema: Schema | None = None) -> Iterator[None]:
        """A refusal after the profile is paid says what it cost, and how to go on without paying again."""
        try:
            yield
        except ValueError as error:
            option, fit = self._advice(wish, schema)
            raise ValueError(
                f"{error}\nWhat was found is paid for (epsilon {self.paid:.3g}) and kept in {out}. Go on with --schema "
                f"{out / 'schema.json'} {option} in place of --bounds and --levels: with {fit} both stay within epsilon "
                f"{self.whole.epsilon:g}."
            ) from error

    def _advice(self, wish: Wish, schema: Schema | None) -> tuple[str, str]:
        """(the options, the fit that they are for): how much is left depends on the method, so that the fit is named.

        The fit that was asked for if the schema can have it, else without its class weights, else the one of the target's type.
        Where none can be planned, a method whose every event is Gaussian: it may take all that is left.
        """
        fits = (wish, replace(wish, class_weight=[]), wish.by_default())
        protects = {"delta": self.whole.delta, "relation": self.whole.relation}
        for declare in [] if schema is None else [partial(fit.estimator, schema, **protects) for fit in fits]:
            try:
                estimator = self.within(declare())
                epsilon = _rounded_down(float(estimator.epsilon))
                plan = estimator.set_params(epsilon=float(epsilon)).plan(self.n)
            except ValueError:
                continue
            if self.rule.accepts([self.spent, self.rule.cost(plan.events)]) is not None:
                return f"--epsilon {epsilon}", f"{type(estimator).__name__} by {plan.mechanism}"
        return f"--epsilon {_rounded_down(self.left)} --method scaled-gradient", "a fit by scaled-gradient"


@dataclass(frozen=True)
class Open:
    """What is fitted while something about its columns is still to be found."""

    file: Path
    schema: Schema | None
    target: str | None
    apart: Mapping[str, str | None]  # columns that are no features, by the word of `fit`
    out: Path
    kind: str | None = None  # the type of the target, where a draft says it

    def stand_in(self, names: list[str], wish: Wish, kind: str) -> Schema:
        """A complete schema with a target of this type: what is to be found has any value that it could have."""
        from dperm.tables.column import Column
        from dperm.tables.schema import Schema

        schema = self.schema
        if schema is None:
            apart = (self.target, *self.apart.values())
            schema = Schema(tuple(Column(name, "numeric", 0.0, 1.0) for name in names if name not in apart))
        own = next((column for column in schema.columns if column.name == self.target), None)
        schema = replace(schema, columns=tuple(known_levels(column) for column in schema.columns))
        if self.target is None or (schema.target is not None and schema.target.column == self.target):
            return schema
        if own is not None and not own.to_find and own.bounds is None:
            return schema.with_target(self.target)
        kind = "classes" if own is not None and own.private_levels else kind
        others = tuple(column for column in schema.columns if column.name != self.target)
        return replace(schema, columns=others, target=wish.target(self.target, kind))


def prepared(fit: Open, wish: Wish, spending: Spending) -> tuple[Schema, Budget]:
    """Profile what is not declared, write profile.json and schema.json, and say what is left.

    Everything that the fit could be refused for is tried first, on columns that stand in for those to be found. What can still
    be refused afterwards depends on what was found.
    """
    from dperm.profiles.held import names_of
    from dperm.profiles.plan import plan_profile
    from dperm.profiles.profile import profile, question_about
    from dperm.release.ledger.book import Ledger
    from dperm.release.plan import Shape
    from dperm.tables.tables import column_names, read_table
    from dperm.walk.options import check_nominal, spent_target

    check_nominal(spending)
    table = read_table(fit.file)
    per_person, unit = spending["max_rows_per_person"] or 1, "row" if spending["groups"] is None else "person"
    whole, n = spent_target(spending, float(cast("float", wish.given["epsilon"])), len(table), per_person, unit)
    budget, names = Budget.declare(whole, n), column_names(table)
    table, _ = taken_out(table, fit.stand_in(names, wish, "numeric"), **fit.apart)
    names, _ = names_of(table, spending["groups"], spending["max_rows_per_person"])
    question, _ = question_about(names, fit.schema, fit.target, "schema")
    share = replace(whole, epsilon=budget.paid)
    planned = plan_profile(question, Shape(n, len(question.columns)), share)
    budget, book = budget.after(planned), spending["ledger"]

    def tried(estimator: PrivateEstimator) -> None:
        estimator.set_params(epsilon=budget.left, delta=whole.delta, relation=whole.relation).plan(n)

    possible = wish.possible(lambda kind: fit.stand_in(names, wish, kind), tried, fit.kind)
    for estimator in possible.values():  # each must be affordable: a budget that is short refuses, and never decides a type
        fitted = budget.within(estimator).plan(n)
        if book is not None:
            Ledger.open(book).check(planned, fitted)
    types = list(possible)
    spending["delta"] = whole.delta
    kind = None if len(types) > 1 else "classes" if types == ["classes"] else "numeric"
    with notices_said():
        found = profile(
            table, epsilon=budget.paid, schema=fit.schema, target=fit.target, target_type=kind, parts="schema", **spending
        )
    write_whole(fit.out, {"profile.json": found.to_json()})  # kept also where the fit is refused: it is paid for
    write_whole(fit.out, {"schema.json": _text(_features(found, budget, fit.out))})
    with budget.kept(fit.out, wish):
        filled = found.schema()
        target = filled.target
        if types == ["count"] and target is not None and target.type == "numeric":
            filled = replace(filled, target=replace(target, type="count", low=0.0, high=max(target.high or 0.0, 1.0)))
        write_whole(fit.out, {"schema.json": _text(filled)})
        filled = filled if fit.target is None else filled.with_target(fit.target)
    return filled, budget


def _features(found: Profile, budget: Budget, out: Path) -> Schema:
    """The columns that a profile found, or what it cost to find none."""
    try:
        return found.schema(target=False)
    except ValueError as error:
        raise ValueError(
            f"{error}\nThe profile that looked for them is paid for (epsilon {budget.paid:.3g}) and kept in "
            f"{out / 'profile.json'}. Declare in a schema what is known without the data, or pass a larger --epsilon."
        ) from error


def _rounded_down(epsilon: float) -> str:
    """To three digits, and never up: what is advised must stay within the budget."""
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return f"{math.floor(epsilon / unit) * unit:.3g}"


def _text(schema: Schema) -> str:
    return json.dumps(schema.spec(), indent=1, ensure_ascii=False)
