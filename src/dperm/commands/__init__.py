"""Subcommands by name. A new command is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

from typer import Typer
from typer.core import TyperCommand

from dperm.commands.auditing import audit
from dperm.commands.benching import PASSES_WORDS_ON, bench
from dperm.commands.demo import demo
from dperm.commands.evaluating import evaluate
from dperm.commands.exploring import explore
from dperm.commands.fitting import fit, predict
from dperm.commands.ledgers import ledger
from dperm.commands.planning import PlotCommand, plan, theory
from dperm.commands.profiling import profile
from dperm.commands.records import card, registry
from dperm.commands.reporting import report
from dperm.commands.schemas import schema
from dperm.commands.verifying import verify


class Reading(TypedDict, total=False):
    
    cls: type[TyperCommand]
    context_settings: dict[str, bool]


_NAMED = (demo, schema, profile, plan, fit, predict, evaluate, verify, report, card, registry, audit, theory, explore)
COMMANDS: dict[str, Callable[..., None] | Typer] = {command.__name__: command for command in _NAMED}
COMMANDS |= {"ledger": ledger, "bench": bench}
READING: dict[str, Reading] = {"theory": {"cls": PlotCommand}, "bench": {"context_settings": PASSES_WORDS_ON}}
