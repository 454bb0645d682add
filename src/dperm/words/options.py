"""Options that several functions share, as one typed dict: declared once, spelt out in `help`, and checked when called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from dperm.words.spelling import closest

P = ParamSpec("P")
T = TypeVar("T")


def spelt_out(**defaults: object) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """For a function that ends in `**options: Unpack[Options]`: it gets every option, those not given at their default.

    `inspect.signature`, and so `help` and an editor, shows the options as keywords of their own. A keyword that is none of them
    is refused by name, before the function runs.

    >>> @spelt_out(delta=None)
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
        return called

    return decorated


def _signature(function: Callable[..., object], defaults: Mapping[str, object]) -> inspect.Signature:
    *own, _ = inspect.signature(function).parameters.values()
    options = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value) for name, value in defaults.items()]
    return inspect.signature(function).replace(parameters=[*own, *options])
