"""Options that several commands share, each worded once, and what those that declare something to an estimator mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import typer

from dperm.words.spelling import closest

if TYPE_CHECKING:
    import numpy as np

    from dperm.estimators.base import PrivateEstimator
    from dperm.tables.schema import Schema
    from dperm.walk.options import Spending


def chance(text: str | float) -> float:
    """A chance, of which 0 has a meaning of its own: a number too small for a float must not become it.

    >>> chance("1e-6"), chance("0.0")
    (1e-06, 0.0)
    """
    try:
        found = float(text)
    except ValueError:
        raise typer.BadParameter("that is not a valid float") from None
    if found == 0 and any(sign in "123456789" for sign in str(text).lower().partition("e")[0]):
        raise typer.BadParameter("a number so small is 0 here, and 0 asks for pure privacy. Pass 0 itself, or a larger number")
    return found


NEIGHBOURS = "replace-one (one row is another), zero-out (one row is empty) or add-remove (one row more; n is protected)"
FAILS = "At worst, the probability that the promise fails altogether; by default min(1e-6, 0.1/n)"
DELTA = typer.Option(None, parser=chance, metavar="<float>", help=FAILS + ".")
PURE_DELTA = typer.Option(None, parser=chance, metavar="<float>", help=FAILS + "; 0 asks for pure privacy.")
RELATION = typer.Option("replace-one", help=NEIGHBOURS + ".")
MODEL_RELATION = typer.Option(None, help=NEIGHBOURS + "; the model's own default if left out.")
NOMINAL_N = typer.Option(None, help="Public nominal number of rows, for add-remove.")
PERSON = typer.Option(None, "--person", help="Column that names the person; with --max-rows-per-person.")
RANDOM_STATE = typer.Option(None, help="Reproducible noise: NOT private, for tests only.")
NOISE = typer.Option("secure", help="secure, or exact: integer noise from an exact sampler (the extra named exact).")
CLASS_WEIGHT = typer.Option(None, "--class-weight", help="Weight of a class, e.g. yes=5; others weigh 1; may be repeated.")
MAX_ROWS = typer.Option(None, "--max-rows-per-person", help="How many rows of a person may count; protects persons, not rows.")
MAX_WEIGHT = typer.Option(None, "--max-weight", help="Declared largest sample weight of a row, with sample weights.")
MAX_EXPOSURE = typer.Option(None, "--max-exposure", help="Declared largest exposure of a row, with exposures (counts only).")
BOUNDS = typer.Option(None, "--bounds", help='"private": bounds that no schema declares are found and paid for.')
LEVELS = typer.Option(None, "--levels", help='"private": levels and classes that no schema declares are found and paid for.')
INTERVALS = typer.Option(False, "--intervals", help="Pay, out of the same epsilon, for intervals in the report.")

# Options that are parameters of an estimator by the same name.
GIVEN = (
    "epsilon", "delta", "method", "relation", "nominal_n", "noise", "max_rows_per_person", "max_weight", "max_exposure",
    "random_state",
)  # fmt: skip


def given(asked: object) -> dict[str, object]:
    """What a command's options say to an estimator, by the names of its parameters."""
    return {name: getattr(asked, name) for name in GIVEN if hasattr(asked, name)}


def spent(asked: object) -> Spending:
    """What a command's options say of the spending of a paid question."""
    names = ("delta", "relation", "nominal_n", "max_rows_per_person", "noise", "random_state")
    found = {name: getattr(asked, name) for name in names if hasattr(asked, name)}
    return cast("Spending", {**found, "groups": getattr(asked, "person", None)})


def made(kind: type[PrivateEstimator], **options: object) -> PrivateEstimator:
    """The estimator with the options that were given; one that it does not have is refused by its name on the command line."""
    known = kind().get_params(deep=False)
    asked = {name: value for name, value in options.items() if value is not None and (name in known or value is not False)}
    for name in asked:
        if name not in known:
            raise ValueError(
                f"Expected options that {kind.__name__} has, found --{name.replace('_', '-')}. Leave it out, or choose another "
                "--model."
            )
    found: PrivateEstimator = kind().set_params(**asked)
    return found


def loss_of(kind: type[PrivateEstimator], target: str) -> str | None:
    """The loss of a model that has several, where the declared type of the target asks for one; None leaves its own."""
    return "poisson" if kind.__name__ == "GAMRegressor" and target == "count" else None


def class_weights(words: Sequence[str] | None, classes: Sequence[object] | None) -> dict[object, float] | None:
    """{class: weight} from words like "yes=5"; classes are the declared ones, compared as they are written.

    >>> class_weights(["1=2.5"], [0, 1])
    {1: 2.5}
    """
    if not words:
        return None
    named = {str(label): label for label in classes or ()}
    known = f" with a class in {', '.join(named)}" if named else " for a target with classes"
    found = {}
    for word in words:
        label, _, number = word.rpartition("=")
        try:
            found[named[label]] = float(number)
        except (KeyError, ValueError):
            raise ValueError(
                f"Expected --class-weight CLASS=WEIGHT{known}, found {word!r}. Write e.g. --class-weight "
                f"{next(iter(named), 'yes')}=5."
            ) from None
    return found


def used_columns(schema: Schema) -> list[str]:
    """The columns that a fit reads: features and target."""
    features = [column.name for column in schema.columns if column.type != "ignored"]
    return features if schema.target is None else [*features, schema.target.column]


def taken_out(table: object, schema: Schema, **columns: str | None) -> tuple[object, dict[str, np.ndarray]]:
    """The table without the named columns, which are no features, and their cells under the words of `fit`."""
    from dperm.tables.tables import cells, column_names, without_column

    found = {}
    for word, column in columns.items():
        if column is None:
            continue
        option = f"--{word.replace('_', '-')}".replace("sample-", "")
        used = used_columns(schema)
        if column in used or column_names(table).count(column) != 1:
            what = "a declared feature or the target." if column in used else "no such column."
            hint = "" if column in used else closest(column, [name for name in column_names(table) if name not in used])
            raise ValueError(f"Expected {option} to name a column of its own, found {column!r}, {what}{hint} Correct the name.")
        found[word] = cells(table, column)
        table = without_column(table, column)
    return table, found


def check_in_memory(streamed: bool, weight: str | None, exposure: str | None) -> None:
    """Columns beside features are read from memory only; said before anything is read or spent."""
    for option, column in (("--weight", weight), ("--exposure", exposure)):
        if streamed and column is not None:
            raise ValueError(
                f"Expected a file that fits into memory for {option}, found one that is read as a stream. "
                "Pass a smaller file, or leave it out."
            )


def check_declared_columns(asked: object) -> None:
    """A column and its declared bound come together; said before the file is opened."""
    for name, bound in (("person", "max_rows_per_person"), ("weight", "max_weight"), ("exposure", "max_exposure")):
        column, limit = f"--{name}", f"--{bound.replace('_', '-')}"
        if (getattr(asked, name) is None) != (getattr(asked, bound) is None):
            found, missing = (column, limit) if getattr(asked, bound) is None else (limit, column)
            raise ValueError(f"Expected {column} and {limit} together, found {found} without {missing}. Pass both, or neither.")
