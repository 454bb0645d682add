"""The `dperm` command. Each subcommand is a small file in `dperm/commands/`; importing here stays cheap."""

from __future__ import annotations

import sys

import typer

app = typer.Typer(
    name="dperm",
    help="Differentially private regression and classification with a certificate anyone can re-check.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _register() -> None:
    from dperm.commands import COMMANDS

    for name, function in COMMANDS.items():
        if isinstance(function, typer.Typer):
            app.add_typer(function, name=name)
        else:
            app.command(name)(function)


_register()


def main() -> None:
    """Entry point: a declaration that is wrong ends with its sentence on stderr and exit code 2."""
    try:
        app()
    except ValueError as error:
        print(f"dperm: {error}", file=sys.stderr)
        raise SystemExit(2) from None
