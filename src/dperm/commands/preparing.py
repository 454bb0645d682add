"""`dperm fit` without a schema, or with private levels: a small profile first, then the fit, in one budget.

The budget is kept by the rule that ledgers use (`dperm.privacy.filters`), which is proven for fits that are chosen after seeing
what was released before: the profile is one debit, the fit, whose columns and levels follow from it, another.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from dperm.estimators.base import PrivateEstimator
    from dperm.privacy.filters import Cost, Filter
    from dperm.tables.schema import Schema
    from dperm.walk.options import Spending

BOUNDS = typer.Option(None, "--bounds", help='"private", without --schema: bounds of numbers are found and paid for.')
LEVELS = typer.Option(None, "--levels", help='"private", without --schema: levels of text and classes are found and paid for.')
SHARE = 0.1  # of μ², for types, levels and ranges


def check_found(schema: Path | None, bounds: str | None, levels: str | None, target: str | None) -> None:
    """Either a schema says what columns are, or all of it is found: said before anything is read."""
    for option, value in (("--bounds", bounds), ("--levels", levels)):
        if value not in (None, "private"):
            raise ValueError(f"Expected {option} private, found {value[:60]!r}. Declared ones go into a schema.")
    if schema is not None and (bounds or levels):
        raise ValueError(
            'Expected --schema, or --bounds private and --levels private, found both. In a schema, write "bounds": "private" or '
            '"levels": "private" into a column.'
        )
    if schema is None and not (bounds and levels and target):
        given = {"--target": target, "--bounds private": bounds, "--levels private": levels}
        missing = [option for option, value in given.items() if not value]
        raise ValueError(
            "Expected --schema, or --target with --bounds private and --levels private, found no schema and no "
            f"{' and no '.join(missing)}. Draft a schema with `dperm schema`, or have one filled in by `dperm profile`."
        )


def relation_of(model: str | None, relation: str | None) -> str:
    """The relation of both debits: the one asked for, or the named model's own default."""
    if relation is not None:
        return relation
    import dperm.estimators as estimators
    from dperm.estimators.outlook import MODEL_WORDS

    kind = None if model is None else getattr(estimators, MODEL_WORDS.get(model.lower(), model), None)
    return "replace-one" if kind is None else str(getattr(kind(), "relation", "replace-one"))


@dataclass(frozen=True)
class Prepared:
    """The schema that was found, and what is left of the budget for the fit."""

    schema: Schema
    epsilon: float
    delta: float
    relation: str
    n: int
    rule: Filter
    spent: Cost
    statement: str
    asked: float
    paid: float

    def split(self, fit: float) -> str:
        """How the budget was shared, where the fit had `fit`."""
        parts = f"{self.paid:.3g} for bounds and levels, {fit:.3g} for the fit"
        return f"asked {self.asked:g}: {parts} (they compose to {self.asked:g})"

    def within_budget(self, estimator: PrivateEstimator) -> PrivateEstimator:
        """The estimator with an ε whose plan the rule accepts after the profile; Gaussian plans get all that is left.

        Other plans have a Rényi curve that falls about as ε², so that two or three tries find how much of it there is room for.
        """
        epsilon = self.epsilon
        for _ in range(12):
            cost = self.rule.cost(estimator.set_params(epsilon=epsilon).plan(self.n).events)
            if self.rule.accepts([self.spent, cost]) is not None:
                return estimator
            rooms = zip(self.rule.limits, self.spent.curve, cost.curve)
            share = max((limit - spent) / asked if asked > 0 else 1.0 for limit, spent, asked in rooms)
            epsilon *= min(max(0.98 * math.sqrt(max(share, 0.0)), 0.1), 0.98)
        raise ValueError("Expected a method whose cost the rest of the budget covers, found none. Pass --method gradient.")


def prepared(
    file: Path,
    schema: Schema | None,
    target: str | None,
    epsilon: float,
    spending: Spending,
    out: Path,
    apart: list[str],
) -> Prepared:
    """Profile what is not declared, write profile.json and schema.json, and say what is left."""
    from dperm.privacy import gaussian_epsilon
    from dperm.privacy.filters import Filter
    from dperm.profiles.plan import FAILURE
    from dperm.profiles.profile import profile
    from dperm.tables.json_files import write_whole
    from dperm.tables.tables import read_table, without_column
    from dperm.walk.options import spent_target

    table = read_table(file)
    whole, n = spent_target(spending, epsilon, len(table), 1, "row")
    if whole.delta == 0:
        raise ValueError("Expected delta > 0 to find levels and types, found 0. Pass a schema that declares them.")
    rule = Filter.declare(whole.epsilon, whole.delta, "auto")
    failure = FAILURE * whole.delta
    share = gaussian_epsilon((whole.delta - failure) / (1 - failure), math.sqrt(SHARE) * rule.mu) * (1 - 1e-9)
    for column in apart:
        table = without_column(table, column)
    spending["delta"] = whole.delta
    found = profile(table, epsilon=share, schema=schema, target=target, parts="schema", **spending)
    filled = found.schema()
    texts = {"profile.json": found.to_json(), "schema.json": json.dumps(filled.spec(), indent=1, ensure_ascii=False)}
    write_whole(out, texts)  # kept also where the fit is refused: they are paid for
    spent = rule.cost(found.plan.events)
    left = rule.left_epsilon([spent], whole.delta) * (1 - 1e-9)
    said = f"({whole.epsilon:g}, {whole.delta:g})-differential privacy of the fit and of schema.json together"
    return Prepared(filled, left, whole.delta, whole.relation, n, rule, spent, said, whole.epsilon, share)
