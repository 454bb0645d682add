"""`dperm profile FILE`: look at a table privately, and have a schema filled in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dperm.commands.declaring import DELTA, MAX_ROWS, NOISE, NOMINAL_N, PERSON, RANDOM_STATE, RELATION, spent
from dperm.commands.ledgers import state_line
from dperm.commands.preparing import declared_in
from dperm.commands.shared import JSON_OPTION, ledger_with_room, notices_said, show
from dperm.tables.json_files import check_room, write_whole

if TYPE_CHECKING:
    from dperm.profiles.profile import Profile


@dataclass(frozen=True)
class Profiled:
    """What `dperm profile` is asked."""

    file: Path = typer.Argument(..., help="CSV or Parquet file with one record per row.")
    schema: Path | None = typer.Option(None, help="What is known of the columns; without it, all except their names is paid for.")
    target: str | None = typer.Option(None, help="Column that will be predicted.")
    target_type: str | None = typer.Option(None, help="classes or numeric, for a target that no schema describes.")
    epsilon: float = typer.Option(..., help="Privacy budget of the profile.")
    delta: float | None = DELTA
    relation: str = RELATION
    nominal_n: int | None = NOMINAL_N
    person: str | None = PERSON
    max_rows_per_person: int | None = MAX_ROWS
    correlations: bool = typer.Option(False, "--correlations", help="Pay also for correlations of numbers with the target.")
    level: float = typer.Option(0.95, help="Level of the error bars.")
    noise: str = NOISE
    ledger: Path | None = typer.Option(None, envvar="DPERM_LEDGER", help="Budget ledger of the data set.")
    random_state: int | None = RANDOM_STATE
    out: Path = typer.Option(Path("profile"), help="Folder for profile.json, profile.html and profile.md.")
    out_schema: Path | None = typer.Option(None, help="Write a schema here, filled in from the profile.")
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace a profile that is there already.")
    as_json: bool = JSON_OPTION


def profile(asked: Profiled) -> None:
    """Histograms, quantiles, means, levels and missing cells of every column, private and with error bars.

    Only the names of the columns are known for free (and the number of rows, except under add-remove). What the profile finds
    is paid for, so that it may be published, and so may the schema that is filled in from it.

    Example: dperm profile people.csv --target bought --epsilon 1 --out-schema people.json --out profile
    """
    from dperm.profiles.plan import plan_profile
    from dperm.profiles.profile import profile as profiled
    from dperm.profiles.profile import question_about
    from dperm.release.plan import Shape
    from dperm.tables.tables import read_table, storage_types

    declared, target, kind = declared_in(asked.schema, asked.target, "private", "private")  # what a draft leaves empty is found
    check_room(asked.out, ["profile.json"], overwrite=asked.overwrite)
    if asked.out_schema is not None:
        check_room(asked.out_schema.parent, [asked.out_schema.name], overwrite=asked.overwrite, option="--out-schema")
    spending = spent(asked)
    if asked.ledger is not None:
        names = [name for name in storage_types(asked.file) if name != asked.person]
        question, _ = question_about(names, declared, target, correlations=asked.correlations)
        d = len(question.columns)
        spending["ledger"] = ledger_with_room(
            asked.ledger, asked.file, asked.epsilon, spending, lambda n, budget: plan_profile(question, Shape(n, d), budget)
        )
    wanted = asked.target_type or ("numeric" if kind == "count" else kind)
    with notices_said():
        found = profiled(
            read_table(asked.file), epsilon=asked.epsilon, schema=declared, target=target, target_type=wanted,
            correlations=asked.correlations, level=asked.level, **spending,
        )  # fmt: skip
    told = _written(found, asked.out, asked.out_schema) | ({} if asked.ledger is None else {"ledger": state_line(asked.ledger)})
    if asked.as_json:
        show({"epsilon": asked.epsilon, "statement": found.statement, **told, **found.record["profile"]}, True)
        return
    if any(column["kind"] == "unknown" for column in found.columns.values()):  # which was released, as everything here
        told["note"] = "what does not stand out of the noise needs a larger --epsilon, or more rows"
    show({**column_lines(found), "privacy": found.statement, **told}, False)


def _written(found: Profile, out: Path, out_schema: Path | None) -> dict[str, str]:
    """The profile's record and pages in their folder, the schema in its file; and where they are."""
    from dperm.profiles.question import Question
    from dperm.report.profile_page import profile_page

    pages = {"profile.html": profile_page(found), "profile.md": profile_page(found, markdown=True)}
    write_whole(out, {"profile.json": found.to_json(), **pages})
    told = {"profile": str(out / "profile.html")}
    if not any(column.target for column in Question.from_spec(found.record["question"]).columns):
        told["target"] = "none: every column is described as a feature; a model needs --target"
    if out_schema is not None:  # after the profile is safe: a target without classes that stand out ends here, in a sentence
        write_whole(out_schema.parent, {out_schema.name: json.dumps(found.schema().spec(), indent=1, ensure_ascii=False)})
        told |= {"schema": str(out_schema), "cost": "this profile alone; a fit with its schema is paid for in addition"}
    return told


def column_lines(found: Profile) -> dict[str, str]:
    """A line per column: what it is, and its main numbers."""
    from dperm.profiles.told import in_words

    return {name: in_words(column) for name, column in found.columns.items()}
