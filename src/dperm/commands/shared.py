"""What the commands share: printing tables or JSON, and saving a fitted model whole."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, get_type_hints

import typer
from typer.models import OptionInfo

from dperm.commands.spoken import speak_of, spoken
from dperm.tables.json_files import write_whole
from dperm.words.notices import PrivacyWarning
from dperm.words.wording import printable

if TYPE_CHECKING:
    from dperm.estimators.base import PrivateEstimator
    from dperm.pages.subject import Earlier
    from dperm.release.ledger.book import Ledger
    from dperm.release.plan import Plan, Target
    from dperm.walk.options import Spending


SETTINGS: dict[str, bool] = {"quiet": False}  # set once by the common options, before any command runs
JSON_OPTION = typer.Option(False, "--json", help="Print one JSON object instead of text.")
QUIET_HELP = "Print nothing for people; --json and errors still print."
QUIET_OPTION = typer.Option(False, "--quiet", "-q", show_envvar=False, help=QUIET_HELP)


def with_quiet(command: Callable[..., None]) -> Callable[..., None]:
    """The command with --quiet among its own options, so that it works after the command's name as well as before it.

    A command has its options as parameters, or all of them as the fields of one dataclass.
    """
    hints = get_type_hints(command)
    kinds = [kind for kind in hints.values() if isinstance(kind, type) and is_dataclass(kind)]
    asked: Callable[..., object] | None = next(iter(kinds), None)
    hints = hints if asked is None else get_type_hints(asked)
    parameters = inspect.signature(command if asked is None else asked).parameters
    own = [item.replace(annotation=hints[name]) for name, item in parameters.items()]
    for item in own:
        if isinstance(item.default, OptionInfo) and not item.default.envvar:
            item.default.show_envvar = False  # each has one, by the rule that `dperm --help` states
    quiet = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=QUIET_OPTION, annotation=bool)

    @functools.wraps(command)
    def called(*, quiet: bool, **options: object) -> None:
        SETTINGS["quiet"] = SETTINGS["quiet"] or quiet
        speak_of(parameters)
        command(**options) if asked is None else command(asked(**options))

    called.__signature__ = inspect.Signature([*own, quiet])  # type: ignore[attr-defined]
    called.__annotations__ = {**hints, "quiet": bool}
    return called


def say(text: str, *, error: bool = False) -> None:
    """A line for people: nothing under --quiet."""
    if not SETTINGS["quiet"]:
        typer.echo(printable(text, keep="\n"), err=error)


@contextlib.contextmanager
def notices_said() -> Iterator[None]:
    """Warnings of the library as lines on stderr, when they are given; all others as Python shows them."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", PrivacyWarning)
        usual = warnings.showwarning

        def shown(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, PrivacyWarning):
                say(f"dperm: {spoken(str(message))}", error=True)
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.showwarning = shown
        yield


def verbosity(as_json: bool) -> int:
    """Whether a fit may show progress: never beside JSON or under --quiet."""
    return 0 if as_json or SETTINGS["quiet"] else 1


def show(values: Mapping[str, object], as_json: bool) -> None:
    """Key and value lines for people, numbers in six digits, or one JSON object for programs, with all digits."""
    if as_json:
        typer.echo(json.dumps(values, allow_nan=False))
        return
    if SETTINGS["quiet"]:
        return
    width = max(len(key) for key in values)
    for key, value in values.items():
        text = f"{value:.6g}" if isinstance(value, float) else value
        typer.echo(printable(f"  {key:<{width}}  {text}", keep="\n"))


def save_model(
    model: PrivateEstimator,
    folder: Path,
    scores: dict[str, str] | None = None,
    *,
    data: str = "",
    earlier: Earlier | None = None,
) -> Path:
    """certificate.json, model.json, report.html and report.md, all or none; the path of the report.

    `data` names the data set where the schema does not; that name and the day stay in model.json for later reports. `earlier` is
    what was paid for bounds and levels; the budget of both stays in model.json too.
    """
    from dperm.estimators.saving import model_record
    from dperm.pages.page import report_page
    from dperm.pages.subject import schema_name, today

    model.about_ = {"data": schema_name(model) or data, "date": today()}
    model.about_ |= {} if earlier is None or earlier.apart else {"budget": repr(earlier.together)}
    write_whole(
        folder,
        {
            "certificate.json": model.certificate_.to_json(),
            "model.json": json.dumps(model_record(model), indent=1, allow_nan=False),
            "report.html": report_page(model, scores or {}, earlier=earlier),
            "report.md": report_page(model, scores or {}, earlier=earlier, markdown=True),
        },
    )
    return folder / "report.html"


def summary(model: PrivateEstimator) -> dict[str, object]:
    """The lines every fit ends with."""
    return {name: getattr(model.certificate_, name) for name in ("epsilon", "delta", "relation", "unit", "mechanism", "noise")}


def ledger_with_room(
    ledger: Path, file: Path, epsilon: float, spending: Spending, planned: Callable[[int, Target], Plan]
) -> Ledger:
    """The ledger of the file. The refusal that needs no data comes before that is opened: what `planned` makes of n and the
    target must fit."""
    from dperm.release.ledger.book import Ledger
    from dperm.walk.options import spent_target

    nominal, unit = spending["nominal_n"], "row" if spending["groups"] is None else "person"
    rows = row_count(file) if nominal is None else nominal
    target, n = spent_target(spending, epsilon, rows, spending["max_rows_per_person"] or 1, unit)
    Ledger(ledger).check(planned(n, target))
    return Ledger(ledger, data=file)


def check_model_first(command: str, model: Path, file: Path) -> None:
    """A table in the place of the model: models are JSON files or folders, tables are neither as a rule."""
    if model.is_file() and model.suffix != ".json":
        exchanged = f" Write `dperm {command} {file} {model}`." if file.is_dir() or file.suffix == ".json" else ""
        raise ValueError(f"Expected MODEL first (model.json or its folder), then FILE, found {model.name} first.{exchanged}")


def row_count(file: Path) -> int:
    """Number of rows, at least 1: from the files' own metadata, or the lines of CSV files; no record is parsed."""
    from dperm.tables.files import Files

    files = Files.open(file, [])
    if files.format != "csv":
        return max(1, files.n)
    rows = 0
    for name in files.names:
        with Path(name).open("rb") as handle:
            while chunk := handle.read(1 << 20):
                rows += chunk.count(b"\n")
    return max(1, rows - len(files.names))
