"""`dperm fit` and `dperm predict`."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from dperm.commands import declaring as option
from dperm.commands.declaring import check_declared_columns, check_in_memory, given, spent, taken_out, used_columns
from dperm.commands.earlier import earlier_beside, earlier_of_schema
from dperm.commands.ledgers import state_line
from dperm.commands.on_spark import ENGINE, check_engine, spark_rows
from dperm.commands.preparing import Budget, Open, check_found, check_paid, declared_in, is_open, prepared, relation_of
from dperm.commands.shared import (
    JSON_OPTION,
    check_model_first,
    notices_said,
    row_count,
    save_model,
    say,
    show,
    summary,
    verbosity,
)
from dperm.commands.spoken import spoken
from dperm.commands.wishes import Wish, model_named
from dperm.tables.json_files import check_room, write_whole
from dperm.words.progress import row_printer
from dperm.words.wording import grouped, printable

if TYPE_CHECKING:
    from dperm.estimators.base import PrivateEstimator
    from dperm.pages.subject import Earlier
    from dperm.tables.schema import Schema


@dataclass(frozen=True)
class Fit:
    """What `dperm fit` is asked."""

    source: str = typer.Argument(
        ..., metavar="FILE", help="CSV or Parquet file with one record per row; with --engine spark, a table's name or a path."
    )
    schema: Path | None = typer.Option(None, help="Public schema, JSON or TOML (draft one with `dperm schema`).")
    target: str | None = typer.Option(None, help="Column to predict; the schema's target if left out.")
    epsilon: float = typer.Option(..., help="Privacy budget.")
    delta: float | None = option.PURE_DELTA
    bounds: str | None = option.BOUNDS
    levels: str | None = option.LEVELS
    model: str | None = typer.Option(
        None, help="Estimator name, or logistic, svm, linear, ridge, huber, lasso, gam, …; by default from the target's type."
    )
    method: str = typer.Option("auto", help="Mechanism, by its name; `dperm plan` lists them.")
    relation: str | None = option.MODEL_RELATION
    nominal_n: int | None = option.NOMINAL_N
    intervals: bool = option.INTERVALS
    noise: str = option.NOISE
    class_weight: list[str] = option.CLASS_WEIGHT
    person: str | None = option.PERSON
    max_rows_per_person: int | None = option.MAX_ROWS
    weight: str | None = typer.Option(None, "--weight", help="Column with sample weights; with --max-weight.")
    max_weight: float | None = option.MAX_WEIGHT
    exposure: str | None = typer.Option(None, "--exposure", help="Column with exposures of counts; with --max-exposure.")
    max_exposure: float | None = option.MAX_EXPOSURE
    random_state: int | None = option.RANDOM_STATE
    ledger: Path | None = typer.Option(
        None, envvar="DPERM_LEDGER", help="Budget ledger to debit before the data are read (`dperm ledger create`)."
    )
    out: Path = typer.Option(Path("dperm-model"), help="Folder for model.json, certificate.json and report.html.")
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace a model that is in the folder already.")
    memory: str = typer.Option("1GB", help="Files above 256 MB are read as a stream that holds no more than this.")
    cache: Path | None = typer.Option(None, help="Folder for encoded rows (as private as the file): later passes read them.")
    engine: str | None = ENGINE
    as_json: bool = JSON_OPTION

    @property
    def apart(self) -> dict[str, str | None]:
        """Columns that are no features, by the word of `PrivateEstimator.fit`."""
        return {"sample_weight": self.weight, "exposure": self.exposure}

    def wish(self) -> Wish:
        return Wish(self.model, self.intervals, self.class_weight or [], {**given(self), "groups": self.person})

    def found(self, fit: Open, wish: Wish) -> tuple[Schema, Budget]:
        """What is not declared, found and paid for, once everything is checked that can be before."""
        from dperm.release.ledger.book import Ledger

        check_paid(self.out, self.overwrite)
        check_room(self.out, ["model.json", "certificate.json", "profile.json", "schema.json"], overwrite=self.overwrite)
        spending = spent(self)
        spending["relation"] = relation_of(self.model, self.relation)
        spending["ledger"] = None if self.ledger is None else Ledger(self.ledger, data=fit.file)
        return prepared(fit, wish, spending)

    def opened(self, schema: Schema, estimator: PrivateEstimator, *, spark: bool) -> tuple[object, dict[str, object]]:
        """(the rows, the cells beside them), opened once the ledger has room for the plan."""
        from dperm.release.ledger.book import Ledger

        file, rows = Path(self.source), spark_rows(self.source, schema) if spark else None
        if self.ledger is not None:
            book = Ledger(self.ledger, data=None if spark else file)
            counted = self.nominal_n if self.nominal_n is not None else row_count(file) if rows is None else rows.n
            book.check(estimator.plan(counted))
            estimator.set_params(ledger=book)
        if spark:
            return rows, {} if self.weight is None else {"sample_weight": self.weight}
        quiet = estimator.relation == "add-remove" or not verbosity(self.as_json)  # there the number of rows is private
        extra = [name for name in (self.person, self.weight, self.exposure) if name is not None]
        read = open_rows(file, schema, self.memory, self.cache, quiet=quiet, extra=extra)
        table, cells = taken_out(read, schema, **self.apart)
        return table, {**cells}


def fit(asked: Fit) -> None:
    """Fit a private model of TARGET and write model.json, certificate.json and report.html.

    With --bounds private and --levels private, what no schema declares is found first, for a tenth of the budget (of μ²: about
    0.29 of epsilon 1, and 0.93 is left for the fit).

    Example: dperm fit people.csv --schema people.json --target income --epsilon 1
    """
    from dperm.rows.arrow import byte_count
    from dperm.tables.tables import check_is_table

    if asked.engine is None:
        check_is_table(Path(asked.source))
    model_named(asked.model)
    byte_count(asked.memory)  # a mistake in it is said before anything is read, also where the file turns out small
    check_found(asked.schema, asked.bounds, asked.levels, asked.target)
    check_declared_columns(asked)
    declared, target, kind = declared_in(asked.schema, asked.target, asked.bounds, asked.levels)
    file, wish, budget = Path(asked.source), asked.wish(), None
    spark = check_engine(asked.engine, declared, asked.exposure, asked.cache)
    check_in_memory(not spark and streams(file, asked.cache), asked.weight, asked.exposure)
    if declared is None or is_open(declared, target, asked=kind is not None or bool(asked.bounds and asked.levels)):
        declared, budget = asked.found(Open(file, declared, target, asked.apart, asked.out, kind), wish)
        left = {"epsilon": budget.left, "delta": budget.whole.delta, "relation": budget.whole.relation}
        wish = replace(wish, given={**wish.given, **left})
    with contextlib.nullcontext() if budget is None else budget.kept(asked.out, wish, declared):
        declared = declared if target is None else declared.with_target(target)
        estimator = wish.estimator(declared).set_params(verbose=verbosity(asked.as_json))
        if budget is None:  # before anything is read or spent
            check_room(asked.out, ["model.json", "certificate.json"], overwrite=asked.overwrite)
        else:
            estimator = budget.within(estimator)
        rows, cells = asked.opened(declared, estimator, spark=spark)
    with notices_said():
        fitted = estimator.fit(rows, **cells)
    if budget is not None:
        earlier = earlier_beside(asked.out, fitted.certificate_, budget.whole.epsilon)
    else:
        earlier = None if asked.schema is None else earlier_of_schema(asked.schema, declared, fitted.certificate_, asked.out)
    report = save_model(fitted, asked.out, data=file.stem, earlier=earlier)
    lines = _fit_lines(asked, fitted, budget, earlier, bounds_found(fitted, declared, every=budget is not None))
    files = ["certificate", "model", *([] if budget is None else ["profile", "schema"])]
    show({**lines, **{name: str(asked.out / f"{name}.json") for name in files}, "report": str(report)}, asked.as_json)
    if getattr(fitted, "intervals", False) and not asked.as_json:
        say(f"\n{fitted.summary()}")


def _fit_lines(
    asked: Fit, fitted: PrivateEstimator, budget: Budget | None, earlier: Earlier | None, bounds: str
) -> dict[str, object]:
    """What is said of a fit: its budget and guarantee, the model, and what it cost with a profile before it."""
    schema = fitted._declared_schema()
    target = "" if schema is None or schema.target is None else f" of {printable(schema.target.column)}"
    lines: dict[str, object] = {"fitted": type(fitted).__name__ + target}
    lines |= ({} if budget is None else {"budget": budget.split(fitted.epsilon)}) | summary(fitted)
    if asked.relation is None and lines["relation"] != "replace-one" and not asked.as_json:
        lines["relation"] = f"{lines['relation']} (the default of {type(fitted).__name__}; see --relation)"
    if lines["noise"] == "seeded" and not asked.as_json:
        lines["noise"] = "seeded: NOT PRIVATE, for tests only (leave --random-state out)"
    lines |= _model_lines(fitted, asked.as_json)
    if bounds:
        lines["bounds"] = bounds
    if budget is not None:
        lines["in all"] = budget.statement
    elif earlier is not None:
        lines["in all"] = f"epsilon: {earlier.words}"
    if asked.ledger is not None:
        lines["ledger"] = state_line(asked.ledger)
    return lines


def _model_lines(fitted: PrivateEstimator, as_json: bool) -> dict[str, object]:
    """What is said of a fitted model beside its guarantee."""
    lines: dict[str, object] = {}
    if hasattr(fitted, "classes_"):
        # Always said, whatever the data: a misspelt class makes rows empty and must not become an error about them.
        known = ", ".join(printable(str(label)) for label in fitted.classes_.tolist())
        lines["labels"] = f"{known} (a row with any other label counts as empty)"
    if hasattr(fitted, "curves_"):
        lines["shapes"] = fitted.curves_
    if fitted.plan_.warnings:
        lines["note"] = list(fitted.plan_.warnings) if as_json else spoken("; ".join(fitted.plan_.warnings))
    if getattr(fitted, "intervals", False) and as_json:
        table = fitted.summary()
        level = {"level": table.level} if hasattr(table, "level") else {}  # without intervals, the note says why
        lines |= {"coefficients": table.rows(), **level, "target": table.note}
    return lines


def bounds_found(fitted: PrivateEstimator, schema: Schema, *, every: bool) -> str:
    """The bounds that were paid for, in the columns' own units: of every number, or of those that the fit itself found."""
    encoding = fitted._encoding
    found = []
    for column in schema.columns:
        if column.type == "numeric" and column.bounds is not None:
            place = encoding.names.index(column.name)
            found.append(f"{column.name} {grouped(encoding.low[place])} to {grouped(encoding.high[place])}")
        elif column.type == "numeric" and every:
            low, high = cast(float, column.low), cast(float, column.high)
            found.append(f"{column.name} {grouped(low)} to {grouped(high)}{' (log)' if column.log else ''}")
    if every and schema.target is not None and schema.target.low is not None and schema.target.high is not None:
        found.insert(0, f"{schema.target.column} {grouped(schema.target.low)} to {grouped(schema.target.high)} (the target)")
    more = f"; and {len(found) - MOST_BOUNDS} more" if len(found) > MOST_BOUNDS else ""
    return "; ".join(found[:MOST_BOUNDS]) + more


MOST_BOUNDS = 12  # on the screen; the schema has all
STREAM_BYTES = 256_000_000


def streams(file: Path, cache: Path | None) -> bool:
    """Whether a file is read as a stream: it is large, neither CSV nor Parquet, or rows are to be kept in a cache."""
    size = sum(part.stat().st_size for part in (file.rglob("*") if file.is_dir() else [file]) if part.is_file())
    return file.exists() and (size > STREAM_BYTES or cache is not None or file.suffix in (".arrow", ".ipc", ".feather"))


def open_rows(file: Path, schema: Schema, memory: str, cache: Path | None, *, quiet: bool, extra: list[str]) -> object:
    """A table in memory, or rows that stream."""
    if streams(file, cache):
        from dperm.rows import ArrowRows

        return ArrowRows(file, schema, memory=memory, cache=cache, progress=None if quiet else row_printer())
    from dperm.tables.tables import read_table

    return read_table(file, list(dict.fromkeys([*used_columns(schema), *extra])))


def predict(
    model: Path = typer.Argument(..., help="model.json of a fit, or the folder that the fit wrote."),
    file: Path = typer.Argument(..., help="CSV or Parquet file with the columns of the schema; for embeddings .npy."),
    out: Path | None = typer.Option(None, help="Write predictions to this CSV instead of printing them."),
    probabilities: bool = typer.Option(False, help="Also write the probability of every class."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Predict for the rows of FILE. Predictions on private rows are about those rows: keep them as private as the rows.

    Example: dperm predict dperm-model/model.json new.csv --out predictions.csv
    """
    from dperm.estimators.model_file import load_model
    from dperm.features import open_embeddings
    from dperm.tables.tables import ARRAYS, read_table

    check_model_first("predict", model, file)
    fitted = load_model(model)
    table = read_table(file) if fitted.reads_schema or file.suffix not in ARRAYS else open_embeddings(file)
    predicted = fitted.predict(table).tolist()  # numbers, or classes in the type of the schema
    chances: dict[str, list[str]] = {}
    if probabilities:
        if not hasattr(fitted, "predict_proba"):
            raise ValueError("Expected a classifier for --probabilities, found a regression. Leave it out.")
        columns = zip(fitted.classes_, fitted.predict_proba(table).T)
        chances = {f"probability of {label}": [f"{value:.6g}" for value in column] for label, column in columns}
    if as_json:
        show({"predictions": predicted, **{name: [float(text) for text in column] for name, column in chances.items()}}, True)
        return
    lines = [("prediction", *chances), *zip(map(str, predicted), *chances.values())]
    text = "".join(",".join(map(csv_cell, line)) + "\n" for line in lines)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_whole(out.parent, {out.name: text})
        show({"predictions": str(out)}, False)


FORMULA = ("=", "@", "+", "-")  # what a spreadsheet takes for the beginning of a formula


def csv_cell(value: str) -> str:
    """Quoted where needed, and never read as a formula by a spreadsheet: only a number may begin with a sign.

    >>> csv_cell("-1.5e-3"), csv_cell("-1+cmd|' /C calc'!A0"), csv_cell(" =1+1")
    ('-1.5e-3', "'-1+cmd|' /C calc'!A0", "' =1+1")
    """
    if value.lstrip()[:1] in FORMULA or value[:1] in ("\t", "\r", "\n"):
        value = value if _is_number(value) else "'" + value
    return '"' + value.replace('"', '""') + '"' if any(mark in value for mark in ',"\n\r') else value


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return "_" not in value
