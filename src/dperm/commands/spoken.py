"""Messages of the library in the words of the shell: what Python calls `groups=` is `--person` here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping

from typer.models import OptionInfo

# Words of Python that are called otherwise on the command line.
OTHERWISE = {"groups": "person", "sample_weight": "weight"}
# Declared in the schema, whatever the command; the schema may also say that they are private.
IN_SCHEMA = {
    "bounds": '"low" and "high" of the columns in the schema',
    "y_bounds": '"low" and "high" of the target in the schema',
    "classes": '"classes" of the target in the schema',
}
# Settings that no command has.
PYTHON = {"regularization", "radius", "fit_intercept", "loss", "threshold", "x_norm", "hypotheses", "steps", "n_nonzero_coefs"}
PYTHON |= {"offset", "device", "most_rows", "ridge", "accounting", "noise_kind", "exponentiate", "columns", "label", "quantile"}
QUANTITIES = frozenset(("epsilon", "delta", "n", "d"))  # "left is about epsilon=0.3" names a number, "pass epsilon=1" an option
ADVICE = re.compile(r"(?i)\b(e\.g\.|pass|use|with|without|leave|expected|or) $")
_WORD = re.compile(r"(?<![\w\"'`.=-])([a-z_]+)=(?![=\"])(\([^()]*\)|\[[^]]*\]|'[^']*'|[\w.-]*\w)?(?: \((--[^()]+)\))?")
_CALL = re.compile(r"\b([A-Z]\w+)\(([a-z_]+=[\w.']+)\)")  # another model with one setting

_HERE: dict[str, str] = {}  # the options of the command that runs, by the names of its parameters


def speak_of(parameters: Mapping[str, inspect.Parameter]) -> None:
    """From now on messages name the options of this command."""
    _HERE.clear()
    for name, parameter in parameters.items():
        if isinstance(parameter.default, OptionInfo):
            _HERE[name] = next(iter(parameter.default.param_decls or ()), f"--{name.replace('_', '-')}")


def spoken(text: str, options: Mapping[str, str] | None = None) -> str:
    """The text with options in the place of Python's words; what stands between backquotes is a command or code, and stays.

    >>> spoken("Pass groups= and max_weight=3.", {"person": "--person", "max_weight": "--max-weight"})
    'Pass --person and --max-weight 3.'
    >>> spoken("Use relation='add-remove', or radius=.", {"relation": "--relation"})
    'Use --relation add-remove, or radius= in Python.'
    """
    known = _HERE if options is None else options
    pieces = text.split("`")
    return "`".join(_said(piece, known) if place % 2 == 0 else piece for place, piece in enumerate(pieces))


def _said(text: str, known: Mapping[str, str]) -> str:
    def one(found: re.Match[str]) -> str:
        name, value = found[1], found[2] or ""
        if found[3]:  # the message says both
            return found[3]
        if name in QUANTITIES and not ADVICE.search(text[: found.start()]):
            return found[0]
        if name in IN_SCHEMA and value != "'private'":
            return IN_SCHEMA[name]
        option = None if name in PYTHON else known.get(OTHERWISE.get(name, name))
        if option is None:
            return f"{found[0]} in Python" if name in PYTHON or name in OTHERWISE else found[0]
        shown = "" if value in ("True", "False", "None") else value.strip("'")
        return f"{'no ' if value in ('False', 'None') else ''}{option} {shown}".rstrip()

    if "model" in known:
        text = _CALL.sub(rf"{known['model']} \1 \2", text)
    return _WORD.sub(one, text)
