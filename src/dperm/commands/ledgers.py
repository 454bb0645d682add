"""`dperm ledger`: create, show, export, verify and admit."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from dperm.commands.shared import JSON_OPTION, say, show

ledger = typer.Typer(no_args_is_help=True, help="A durable budget shared by everybody who fits models on one data set.")
FILE = typer.Argument(..., help="The ledger file.")


@ledger.command()
def create(
    file: Path = typer.Argument(..., help="New file; an existing one is never overwritten."),
    dataset: str = typer.Option(..., help="Name of the data set, for people."),
    epsilon: float = typer.Option(..., help="The whole budget."),
    delta: float = typer.Option(..., help="The whole delta; 0 for a ledger of pure fits only."),
    relation: str = typer.Option("replace-one", help="replace-one, zero-out or add-remove."),
    unit: str = typer.Option("row", help="row, or person for fits with groups."),
    rule: str = typer.Option("auto", "--filter", help="auto, gaussian (Gaussian fits only) or renyi."),
    data: Path | None = typer.Option(None, help="The data file, to fix its fingerprint now; else the first fit fixes it."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Open a budget for a data set.

    Example: dperm ledger create people.ledger --dataset people --epsilon 3 --delta 1e-6
    """
    from dperm.ledger import Ledger

    made = Ledger.create(
        file, dataset=dataset, epsilon=epsilon, delta=delta, relation=relation, unit=unit, rule=rule, data=data
    )
    show(made.account().spec(), as_json)


@ledger.command("show")
def show_command(
    file: Path = FILE,
    delta: float | None = typer.Option(None, help="State what is left at this delta."),
    as_json: bool = JSON_OPTION,
) -> None:
    """What was spent, by which fits, and what is left.

    Example: dperm ledger show people.ledger
    """
    from dperm.ledger import Ledger

    opened = Ledger.open(file)
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
    lines = account.spec()
    lines["spent"] = f"{lines.pop('spent_share'):.1%} of the budget"
    lines["left"] = f"about epsilon {lines.pop('left_epsilon'):.4g} for one more Gaussian fit"
    if not lines.pop("seeded"):
        lines["noise"] = "no fit used seeded noise"
    else:
        lines["noise"] = "some fits used SEEDED noise and are NOT private"
    show(lines, False)
    for fit in fits:
        say("  {entry:>4}  {time:.19}  {mechanism:<18} epsilon {epsilon:g}, delta {delta:g}".format(**fit))


@ledger.command()
def export(
    file: Path = FILE,
    out: Path | None = typer.Option(None, help="Write here instead of printing."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Every entry as JSON, without the fingerprint of the data.

    Example: dperm ledger export people.ledger --out people-ledger.json
    """
    from dperm.ledger import Ledger
    from dperm.model_file import write_whole

    entries = [{key: value for key, value in entry.items() if key != "secret"} for entry in Ledger.open(file).entries()]
    text = json.dumps({"format": "dperm-ledger-export/1", "entries": entries}, indent=1, allow_nan=False)
    if out is None:
        typer.echo(text)
    else:
        write_whole(out.parent, {out.name: text})
        show({"export": str(out)}, as_json)


@ledger.command()
def verify(
    file: Path = FILE,
    certificate: list[Path] = typer.Option([], help="A certificate that this ledger was debited for; repeat for more."),
    allow_seeded: bool = typer.Option(False, "--allow-seeded", help="Accept reproducible noise, which is NOT private."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Recompute the chain, every cost and every decision; exit code 1 when anything was altered, removed or cut off.

    Give the certificates of earlier fits too: only they can show that the end of the ledger was cut off with care.

    Example: dperm ledger verify people.ledger --certificate model/certificate.json
    """
    from dperm.ledger import Ledger
    from dperm.model_file import read_json

    reasons = Ledger.open(file).verify([read_json(path) for path in certificate], allow_seeded=allow_seeded)
    if as_json:
        show({"ok": not reasons, "reasons": reasons}, True)
    elif reasons:
        say(f"NOT VERIFIED: {file.name}")
        for reason in reasons:
            say(f"  - {reason}")
    else:
        say(f"verified: {file.name}")
    if reasons:
        raise typer.Exit(1)


@ledger.command()
def admit(
    file: Path = FILE,
    data: Path = typer.Argument(..., help="Another file with the same people."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Let later fits use another form of the same people's data, such as other columns or another file format.

    Example: dperm ledger admit people.ledger people.parquet
    """
    from dperm.ledger import Ledger

    Ledger.open(file).admit(data)
    show({"admitted": data.name}, as_json)
