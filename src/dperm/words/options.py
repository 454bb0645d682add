"""Options that several functions share, as one typed dict: declared once, spelt out in `help`, and checked when called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from dperm.words.spelling import closest

P = ParamSpec("P")
T = TypeVar("T")
HEADING = "\n\nParameters\n----------\n"


def spelt_out(options: type, **defaults: object) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """For a function that ends in `**options: Unpack[Options]`: it gets every option, those not given at their default.

    `inspect.signature`, and so `help` and an editor, shows the options as keywords of their own, each with what the docstring of
    `options` says of it unless the function's own says something else. A keyword that is none of them is refused by name, before
    the function runs.

    >>> @spelt_out(dict, delta=None)
    ... def look(epsilon, **options): return epsilon, options
    >>> look(1.0), str(inspect.signature(look))
    ((1.0, {'delta': None}), '(epsilon, *, delta=None)')
    >>> look(1.0, detla=0.1)
    Traceback (most recent call last):
    TypeError: Expected keywords of look, found detla=. Did you mean 'delta'?
    """

    def decorated(function: Callable[P, T]) -> Callable[P, T]:
        shown = _signature(function, defaults)

        @functools.wraps(function)
        def called(*values: P.args, **named: P.kwargs) -> T:
            for name in named:
                if name not in shown.parameters:
                    raise TypeError(f"Expected keywords of {function.__name__}, found {name}=.{closest(name, shown.parameters)}")
            return function(*values, **{**defaults, **named})  # type: ignore[arg-type]  # the defaults are options too

        called.__signature__ = shown  # type: ignore[attr-defined]
        if HEADING in inspect.cleandoc(function.__doc__ or ""):
            called.__doc__ = with_parameters(function.__doc__, shown, parameter_entries(options.__doc__))
        return called

    return decorated


def _signature(function: Callable[..., object], defaults: Mapping[str, object]) -> inspect.Signature:
    *own, _ = inspect.signature(function).parameters.values()
    options = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value) for name, value in defaults.items()]
    return inspect.signature(function).replace(parameters=[*own, *options])


def with_parameters(text: str | None, signature: inspect.Signature, entries: Mapping[str, str]) -> str:
    """A docstring whose section of parameters has all of the signature, those that it does not speak of from `entries`."""
    head, _, rest = inspect.cleandoc(text or "").partition(HEADING)
    known = {**entries, **parameter_entries(text)}
    tail = rest[rest.index("\n\n") :] if "\n\n" in rest else ""
    return head.rstrip() + HEADING + "\n".join(known[name] for name in signature.parameters if name in known) + tail


def parameter_entries(text: str | None) -> dict[str, str]:
    """Name → lines of every parameter in a numpydoc section.

    >>> parameter_entries("Sum.\\n\\nParameters\\n----------\\nx : float\\n    A number.\\n\\nExamples")
    {'x': 'x : float\\n    A number.'}
    """
    _, _, section = inspect.cleandoc(text or "").partition(HEADING)
    entries: dict[str, str] = {}
    name = ""
    for line in section.split("\n\n")[0].splitlines():
        if not line.startswith(" "):
            name, entries[line.split(" : ")[0]] = line.split(" : ")[0], line
        else:
            entries[name] += "\n" + line
    return entries
