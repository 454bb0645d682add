"""The `dperm` command. Each subcommand is a small file in `dperm/commands/`; importing here stays cheap.

Exit codes: 0 done; 1 a check failed (verify, ledger verify, demo); 2 a wrong request, with a sentence on stderr; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import typer

from dperm.commands.shared import QUIET_OPTION, SETTINGS, say, with_quiet
from dperm.commands.spoken import spoken
from dperm.words.spelling import closest

CONFIG = "dperm.toml"
HELP = """Differentially private regression and classification with a certificate anyone can re-check.

Defaults of any option may come from a TOML file (dperm.toml here, or the file named by DPERM_CONFIG; one table per command) or
from the environment (DPERM_FIT_EPSILON for `fit --epsilon`). The command line wins over the environment, that over the file.

Example: dperm fit people.csv --schema people.json --target income --epsilon 1

Exit codes: 0 done, 1 a check failed, 2 a wrong request.
"""

app = typer.Typer(
    name="dperm",
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "DPERM"},
)


def _version(asked: bool) -> None:
    if asked:
        from dperm.commands.versions import version_lines

        typer.echo("\n".join(version_lines()))
        raise typer.Exit


@app.callback()
def common(
    context: typer.Context,
    quiet: bool = QUIET_OPTION,
    config: Path | None = typer.Option(None, envvar="DPERM_CONFIG", help="TOML file with defaults, one table per command."),
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Version, commit and versions of the dependencies."
    ),
) -> None:
    SETTINGS["quiet"] = quiet
    file = config if config is not None else Path(CONFIG)
    if config is not None or file.is_file():
        context.default_map = _defaults(file, context)
        if config is None:
            say(f"defaults from {file}", error=True)


def _defaults(file: Path, context: typer.Context) -> dict[str, object]:
    """The file's tables, checked against the commands and their options: a typo must not be ignored in silence."""
    import tomllib

    if not file.is_file():
        raise ValueError(f"Expected a TOML file at {file}, found none. Check DPERM_CONFIG or --config.")
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"Expected TOML in {file}, found text that does not parse: {error}.") from error
    return {name: _table(name, table, context.command, file) for name, table in found.items()}


def _table(name: str, table: object, group: object, file: Path) -> dict[str, Any]:
    commands = getattr(group, "commands", {})
    if name not in commands or not isinstance(table, dict):
        raise ValueError(
            f"Expected tables named after commands ({', '.join(commands)}) in {file}, found {name!r}.{closest(name, commands)} "
            "Write options below the name of their command, e.g. [fit]."
        )
    command = commands[name]
    if inners := getattr(command, "commands", None):
        tables = {inner: _table(inner, value, command, file) for inner, value in table.items() if inner in inners}
        for key, value in table.items():
            if key not in inners:  # an option of the group's commands, for all that have it, such as the ledger's file
                able = [inner for inner, one in inners.items() if key in {item.name for item in one.params}]
                if not able or isinstance(value, dict):
                    raise ValueError(f"Expected commands of `dperm {name}` or their options in {file}, found {key!r}.")
                tables |= {inner: {key: value, **tables.get(inner, {})} for inner in able}
        return tables
    known = {option.lstrip("-").replace("-", "_"): p.name for p in command.params for option in p.opts}
    result = {}
    for key, value in table.items():
        word = key.replace("-", "_")
        if word not in known:
            raise ValueError(
                f"Expected options of `dperm {name}` in {file}, found {key!r}.{closest(word, known)} Options: "
                f"{', '.join(sorted(one for one in known if len(one) > 1))}. Correct the name."
            )
        result[known[word]] = value
    return result


def _register() -> None:
    from dperm.commands import COMMANDS, READING

    for name, function in COMMANDS.items():
        if isinstance(function, typer.Typer):
            for inner in function.registered_commands:
                inner.callback = with_quiet(inner.callback) if inner.callback else None
            app.add_typer(function, name=name)
        else:
            app.command(name, **READING.get(name, {}))(with_quiet(function))


_register()


# What people type who know other tools, and what it is called here.
OPTIONS = {"--rows": "--n", "--columns": "--d", "--features": "--d", "--groups": "--person", "--group": "--person"}
OPTIONS |= {"--sample-weight": "--weight", "--eps": "--epsilon", "--output": "--out", "--seed": "--random-state"}
WORDS = {"score": "evaluate", "test": "evaluate", "train": "fit", "check": "verify", "describe": "profile", "budget": "ledger"}


def _meant(text: str) -> str:
    """The message with what was meant, where that is known by another name."""
    word = text.partition(":")[2].split()[0].strip("'\".") if text.startswith("No such option:") else ""
    if word in OPTIONS:
        return f"No such option: {word}. Here it is {OPTIONS[word]}"
    command = text.partition("'")[2].partition("'")[0] if text.startswith("No such command") else ""
    return f"No such command {command!r}. Here it is `dperm {WORDS[command]}`" if command in WORDS else text


def _in_a_sentence(words: str) -> str:
    """The help of an option after a colon.

    >>> _in_a_sentence("Privacy budget."), _in_a_sentence("CSV file.")
    ('privacy budget.', 'CSV file.')
    """
    return words if words[1:2].isupper() else words[:1].lower() + words[1:]


def _wrong_usage(error: Any) -> None:
    """A word that the command line does not know, as a sentence; a call without any words gets the help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    text = _meant(str(error.format_message()).strip())
    param = getattr(error, "param", None)
    context: Any = getattr(error, "ctx", None)
    option = next((name for name in getattr(param, "opts", []) if name.startswith("--")), None)
    words = sys.argv[1:]
    if text.startswith("Missing option") and option:
        text = f"Expected {option}, found none. Pass {option}: {_in_a_sentence(getattr(param, 'help', '') or '')}"
    elif text.startswith("Invalid value") and option:
        pairs = zip(words, [*words[1:], ""])
        given = next((word.partition("=")[2] or after for word, after in pairs if word.split("=")[0] == option), None)
        found = "another value in the environment or the configuration file" if given is None else repr(given[:60])
        why = text.partition(": ")[2]
        number = "a number such as 1 or 0.5"
        kinds = {"valid number": number, "valid float": number, "valid integer": "a whole number such as 10000"}
        kind = next((kind for words, kind in kinds.items() if words in why), None)
        text = f"Expected {kind} for {option}, found {found}" if kind else f"Expected a value for {option}, found {found}: {why}"
    elif "unexpected extra argument" in text and getattr(context, "info_name", "") == "plan":
        text = "`dperm plan` reads no data, and takes no file. Pass --n, how many rows there are, and --schema or --d"
    place = ""
    while getattr(context, "parent", None) is not None:
        place, context = f" {context.info_name}{place}", context.parent
    print(f"dperm: {text if text.endswith('?') else text.rstrip('.') + '.'} See `dperm{place} --help`.", file=sys.stderr)


def main() -> None:
    """Entry point: a declaration that is wrong ends with its sentence on stderr and exit code 2."""
    try:
        ended = app(standalone_mode=False)  # gives an exit code back, and raises wrong usage instead of drawing a box
        raise SystemExit(ended if isinstance(ended, int) else 0)
    except ValueError as error:
        print(f"dperm: {spoken(str(error))}", file=sys.stderr)
        raise SystemExit(2) from None
    except BrokenPipeError:
        # The reader went away (`dperm … | head`); Python must not complain again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except OSError as error:
        where = error.filename or "a file"
        print(f"dperm: Expected to read or write {where}, found: {error.strerror or error}.", file=sys.stderr)
        raise SystemExit(2) from None
    except Exception as error:
        if type(error).__name__ == "Abort":
            print("dperm: interrupted", file=sys.stderr)
            raise SystemExit(130) from None
        if not hasattr(error, "format_message"):
            raise
        _wrong_usage(error)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("dperm: interrupted", file=sys.stderr)
        raise SystemExit(130) from None
