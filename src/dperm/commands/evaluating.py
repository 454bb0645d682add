"""`dperm evaluate`: scores of a released model on private rows, paid for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dperm.commands.declaring import DELTA, NOMINAL_N, PERSON, RANDOM_STATE, RELATION, spent
from dperm.commands.ledgers import state_line
from dperm.commands.shared import JSON_OPTION, check_model_first, ledger_with_room, notices_said, say, show
from dperm.tables.json_files import check_room, write_whole
from dperm.words.wording import in_percent, printable, with_interval

if TYPE_CHECKING:
    from dperm.evaluation.evaluate import Evaluation
    from dperm.release.record import Metrics


@dataclass(frozen=True)
class Evaluated:
    """What `dperm evaluate` is asked."""

    model: Path = typer.Argument(..., help="model.json of a fit, or the folder that the fit wrote.")
    file: Path = typer.Argument(..., help="CSV or Parquet file with held-out rows, the target included.")
    epsilon: float = typer.Option(..., help="Privacy budget of the evaluation, for the held-out rows.")
    delta: float | None = DELTA
    relation: str = RELATION
    nominal_n: int | None = NOMINAL_N
    exposure: str | None = typer.Option(None, help="Column with the exposures, for counts.")
    max_exposure: float | None = typer.Option(None, help="Largest exposure that a row may have, declared.")
    person: str | None = PERSON
    max_rows_per_person: int | None = typer.Option(None, help="How many rows of one person count; the guarantee is per person.")
    by: str | None = typer.Option(None, help="Column whose declared levels are scored apart.")
    levels: str | None = typer.Option(None, help="Levels of --by, with commas, where the schema does not declare them.")
    bins: int = typer.Option(20, help="Probability bins of the histogram behind AUC and calibration.")
    level: float = typer.Option(0.95, help="Level of the intervals.")
    ledger: Path | None = typer.Option(None, envvar="DPERM_LEDGER", help="Budget ledger of the held-out data set.")
    random_state: int | None = RANDOM_STATE
    out: Path | None = typer.Option(None, help="Write the whole record here (evaluation.json), for `dperm verify`.")
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace an evaluation that is there already.")
    as_json: bool = JSON_OPTION


def evaluate(asked: Evaluated) -> None:
    """Scores of a released model on private rows: differentially private, paid for, and with intervals.

    Two classes get accuracy, log-loss, AUC, calibration and thresholds; several classes a confusion matrix, recall, precision and
    F1; numbers R² and errors; counts the Poisson deviance and the balance. A plain score on private rows would leak them; these
    are differentially private by themselves. Use rows that the fit did not see, or one ledger for both.

    Example: dperm evaluate model/model.json held-out.csv --epsilon 0.5
    """
    from dperm.estimators.model_file import load_model
    from dperm.evaluation.evaluate import evaluate as evaluated
    from dperm.evaluation.plan import plan_evaluation
    from dperm.evaluation.rows import question_of
    from dperm.release.plan import Shape
    from dperm.tables.tables import read_table

    check_model_first("evaluate", asked.model, asked.file)
    fitted = load_model(asked.model)
    if asked.out is not None:
        check_room(asked.out.parent, [asked.out.name], overwrite=asked.overwrite)
    spending = spent(asked)
    if asked.ledger is not None:
        question, d = question_of(fitted, bins=asked.bins, max_exposure=asked.max_exposure), fitted._encoding.d
        spending["ledger"] = ledger_with_room(
            asked.ledger, asked.file, asked.epsilon, spending, lambda n, target: plan_evaluation(question, Shape(n, d), target)
        )
    listed = None if asked.levels is None else [name.strip() for name in asked.levels.split(",")]
    with notices_said():
        found = evaluated(
            fitted, read_table(asked.file), epsilon=asked.epsilon, exposure=asked.exposure, max_exposure=asked.max_exposure,
            by=asked.by, levels=listed, bins=asked.bins, level=asked.level, **spending,
        )  # fmt: skip
    if asked.out is not None:
        write_whole(asked.out.parent, {asked.out.name: json.dumps(found.record, indent=1, allow_nan=False)})
    _tell(found, asked.epsilon, asked.level, asked.as_json, asked.ledger)


def _tell(found: Evaluation, epsilon: float, level: float, as_json: bool, ledger: Path | None) -> None:
    """The scores as lines for people, or as one JSON object."""
    if as_json:
        show({"epsilon": epsilon, "statement": found.record["statement"], "metrics": dict(found.metrics)}, True)
        return
    show(score_lines(found.metrics, level), False)
    left = [] if ledger is None else [f"  ledger:  {state_line(ledger)}"]
    for line in [*group_lines(found.metrics, level), *advice(found.metrics), f"  privacy: {found.record['statement']}", *left]:
        say(line)


# What a baseline is, by its name.
GUESSED = {"baseline accuracy": "always guessing the most common class", "baseline deviance": "guessing the mean rate"}
GUESSED |= {"baseline log-loss": "guessing the shares of the classes"}


def score_lines(metrics: Metrics, level: float) -> dict[str, str]:
    """A line per score of all rows, with its interval, and a line about the calibration."""
    from dperm.pages.scores import positive_of
    from dperm.release.record import scores_in

    lines = {}
    for name, score in scores_in(metrics).items():
        lines[name] = "not known"
        if score["value"] is not None:
            value, interval = with_interval(score["value"], score["low"], score["high"], 4)
            lines[name] = f"{value}   {in_percent(level)} interval {interval}"
        if name in GUESSED:
            lines[name] += f"   ({GUESSED[name]})"
        if name == "positive share" and (positive := positive_of(metrics)):
            lines[name] += f"   (of {printable(positive)!r})"
    bins = metrics.get("calibration", [])
    off = sorted(bins, key=lambda row: max(row["low"] - row["predicted"], row["predicted"] - row["high"]), reverse=True)
    for row in off[:1]:
        outside = not row["low"] <= row["predicted"] <= row["high"]
        words = f"observed {row['observed']:.3f} ({row['low']:.3f} … {row['high']:.3f}) for predicted {row['predicted']:.3f}"
        what = f"furthest off: {words}" if outside else "every bin's interval holds what was predicted"
        lines["calibration"] = f"{what}; --json has all {len(bins)} bins, `dperm report --evaluation` draws them"
    return lines


def group_lines(metrics: Metrics, level: float) -> list[str]:
    """The table of the report: a line per group."""
    from dperm.pages.scores import group_table

    if "groups" not in metrics:
        return []
    head, rows = group_table(metrics["groups"])
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    lines = ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in (head, *rows)]
    return ["", f"  by {head[0]}, each with its {in_percent(level)} interval:", *lines, ""]


def advice(metrics: Metrics) -> list[str]:
    """What it would take to know the first of the scores that are not known, in one line."""
    from dperm.evaluation.evaluate import listed_scores

    missing = [(name, score["why"]) for name, score in listed_scores(metrics) if score["value"] is None]
    return [f"  {name}: {why}. --json says it of every score." for name, why in missing[:1]]
