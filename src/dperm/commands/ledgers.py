"""`dperm ledger`: create, show, export, verify and admit."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dperm.commands.declaring import RELATION, chance
from dperm.commands.shared import JSON_OPTION, say, show
from dperm.commands.spoken import spoken
from dperm.tables.json_files import read_json, write_whole
from dperm.words.wording import in_percent

if TYPE_CHECKING:
    from dperm.release.ledger.book import Account, Ledger
    from dperm.release.plan import Target

ledger = typer.Typer(no_args_is_help=True, help="A durable budget shared by everybody who fits models on one data set.")
VARIABLE = "DPERM_LEDGER"
FILE = typer.Argument(None, envvar=VARIABLE, help="The ledger file; the only *.ledger file of this folder if left out.")


def ledger_file(file: Path | None, command: str) -> Path:
    """The file that was named, else the one of DPERM_LEDGER, else the only ledger of this folder."""
    named = file or os.environ.get(VARIABLE)
    if named:
        return Path(named)
    here = sorted(path.name for path in Path().glob("*.ledger"))
    if len(here) == 1:
        return Path(here[0])
    found = f"found {len(here)}: {', '.join(here[:5])}" if here else "found no *.ledger file in this folder"
    raise ValueError(
        f"Expected a ledger file, {found}. Pass it, e.g. `dperm ledger {command.format(here[0] if here else 'people.ledger')}`, "
        f"or set {VARIABLE}."
    )


def _book(file: Path | None, command: str) -> Ledger:
    from dperm.release.ledger.book import Ledger

    return Ledger.open(ledger_file(file, command))


def file_of(dataset: str) -> Path:
    """NAME.ledger in this folder; a name that is no plain file name asks for a file instead.

    >>> file_of("people").name
    'people.ledger'
    """
    if not re.fullmatch(r"\w[\w .-]{0,99}", dataset):
        raise ValueError(f"Expected a file for the data set {dataset[:60]!r}, found none. Pass one before --dataset.")
    return Path(f"{dataset}.ledger")


@ledger.command()
def create(
    file: Path | None = typer.Argument(
        None, envvar=VARIABLE, help="New file, by default DATASET.ledger here; an existing one is never overwritten."
    ),
    dataset: str = typer.Option(..., help="Name of the data set, for people."),
    epsilon: float = typer.Option(..., help="The whole budget; fits compose as Gaussians: they take less than their sum."),
    delta: float = typer.Option(
        ...,
        parser=chance,
        metavar="<float>",
        help="The whole delta; 0 for a ledger of pure fits only. Finding levels privately (profiles, --levels private) needs "
        "room in it: 5 % are set aside, and one profile at the ledger's own delta takes four fifths of that.",
    ),
    relation: str = RELATION,
    unit: str = typer.Option("row", help="row, or person for fits with groups."),
    rule: str = typer.Option("auto", "--filter", help="auto, gaussian (Gaussian fits only) or renyi."),
    data: Path | None = typer.Option(None, help="The data file, to fix its fingerprint now; else the first fit fixes it."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Open a budget for a data set.

    Example: dperm ledger create --dataset people --epsilon 3 --delta 1e-6
    """
    from dperm.release.ledger.book import Ledger

    place = file or file_of(dataset)
    made = Ledger.create(
        place, dataset=dataset, epsilon=epsilon, delta=delta, relation=relation, unit=unit, rule=rule, data=data
    )
    account = made.account()
    show((account.spec() if as_json else account_lines(account)) | {"file": str(place)}, as_json)


def account_lines(account: Account) -> dict[str, str]:
    """What a ledger says now, in words."""
    kind = "Gaussian" if account.delta else "pure"
    left = f"about epsilon {account.left_epsilon:.4g} for one more {kind} fit"
    if account.left_epsilon > 0:
        left += f", or two of {account.left_twice:.4g} each"
    if account.fits == 0 and account.left_epsilon < 0.9999 * account.epsilon:
        keeps = "keeps a quarter of delta for other kinds of fits"
        why = keeps if account.rule == "auto" else "asks more of several fits than of one"
        left = f"epsilon {account.epsilon:g} for one fit that takes all; about epsilon {account.left_epsilon:.4g} for a Gaussian "
        left += f"fit that others may follow, because the filter {why}"
    adding = "epsilons add up"
    aside = "none, so only pure fits"
    if account.delta:
        adding = "fits compose as Gaussians and take less than the sum of their epsilons (seven of 1 fit into 3 at delta 1e-6)"
        aside = f"{account.left_delta:.3g} of the {account.aside_delta:.3g} that is set aside for finding levels privately"
    if account.delta and not account.aside_delta:
        aside = "none for finding levels privately: this filter takes Gaussian fits only"
    return {
        "dataset": account.dataset,
        "budget": f"epsilon {account.epsilon:g}, delta {account.delta:g}",
        "relation": account.relation,
        "unit": account.unit,
        "fits": str(account.fits),
        "spent": f"{in_percent(account.spent_share, 3)} of the budget",
        "left": left,
        "left delta": aside,
        "adding up": adding,
        "filter": account.rule,
        "noise": "some fits used SEEDED noise and are NOT private" if account.seeded else "no fit used seeded noise",
        "head": account.head,
    }


def state_line(file: Path) -> str:
    """What is spent and left, in a line for commands that spend."""
    account = _book(file, "").account()
    return f"{file}: {in_percent(account.spent_share, 2)} spent, about epsilon {account.left_epsilon:.3g} left"


def room_line(file: Path, account: Account, asked: Target) -> str:
    """That there is room for what is asked, for a command that spends nothing."""
    left = f"about epsilon {account.left_epsilon:.3g}"
    if account.left_epsilon < asked.epsilon:  # what is left is counted in Gaussian fits, and this may be another
        left = f"all of epsilon {account.epsilon:g}" if account.fits == 0 else "enough"
    return f"{file}: there is room; {left} is left and {asked.epsilon:g} is asked. Nothing was spent"


@ledger.command("show")
def show_command(
    file: Path | None = FILE,
    delta: float | None = typer.Option(None, parser=chance, metavar="<float>", help="State what is left at this delta."),
    as_json: bool = JSON_OPTION,
) -> None:
    """What was spent, by which fits, and what is left.

    Example: dperm ledger show, or dperm ledger show people.ledger
    """
    opened = _book(file, "show {}")
    account = opened.account(delta)
    fits = [
        {
            "entry": entry["number"],
            "time": entry["time"],
            "mechanism": entry["plan"]["mechanism"],
            "epsilon": entry["plan"]["epsilon"],
            "delta": entry["plan"]["delta"],
            "noise": entry["noise"],
        }
        for entry in opened.entries()
        if entry["kind"] == "debit"
    ]
    if as_json:
        show({**account.spec(), "entries": fits}, True)
        return
    show(account_lines(account), False)
    for fit in fits:
        say("  {entry:>4}  {time:.19}  {mechanism:<18} epsilon {epsilon:g}, delta {delta:g}".format_map(fit))


@ledger.command()
def export(
    file: Path | None = FILE,
    out: Path | None = typer.Option(None, help="Write here instead of printing."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Every entry as JSON, without the fingerprint of the data.

    Example: dperm ledger export people.ledger --out people-ledger.json
    """
    opened = _book(file, "export {}").entries()
    entries = [{key: value for key, value in entry.items() if key != "secret"} for entry in opened]
    text = json.dumps({"format": "dperm-ledger-export/1", "entries": entries}, indent=1, allow_nan=False)
    if out is None:
        typer.echo(text)
    else:
        write_whole(out.parent, {out.name: text})
        show({"export": str(out)}, as_json)


@ledger.command()
def verify(
    file: Path | None = FILE,
    certificate: list[Path] = typer.Option([], help="A certificate that this ledger was debited for; repeat for more."),
    allow_seeded: bool = typer.Option(False, "--allow-seeded", help="Accept reproducible noise, which is NOT private."),
    accept_assumptions: bool = typer.Option(
        False, "--accept-assumptions", help="Accept assumptions that the fits rest on and no code enforces."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Recompute the chain, every cost and every decision; exit code 1 when anything was altered, removed or cut off.

    Give the certificates of earlier fits too: only they can show that the end of the ledger was cut off with care.

    Example: dperm ledger verify people.ledger --certificate model/certificate.json
    """
    book, allowed = _book(file, "verify {}"), {"allow_seeded": allow_seeded, "accept_assumptions": accept_assumptions}
    reasons = book.verify([read_json(path) for path in certificate], **allowed)
    if as_json:
        show({"ok": not reasons, "reasons": reasons}, True)
    elif reasons:
        say(f"NOT VERIFIED: {book.path.name}")
        for reason in reasons:
            say(f"  - {spoken(reason)}")
    else:
        say(f"verified: {book.path.name}")
    if reasons:
        raise typer.Exit(1)


@ledger.command()
def admit(
    file: Path | None = typer.Argument(None, help="The ledger file; may be left out as for `dperm ledger show`."),
    data: Path | None = typer.Argument(None, help="Another file with the same people."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Let later fits use another form of the same people's data, such as other columns or another file format.

    Example: dperm ledger admit people.ledger people.parquet
    """
    if data is None:
        file, data = None, file  # one name alone is the data
    if data is None:
        raise ValueError("Expected the other file with the same people, found none. Run `dperm ledger admit people.ledger FILE`.")
    _book(file, "admit {} " + data.name).admit(data)
    show({"admitted": data.name}, as_json)
