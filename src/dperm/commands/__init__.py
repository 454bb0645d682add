"""Subcommands by name. A new command is one file and one line here."""

from __future__ import annotations

from dperm.commands.auditing import audit
from dperm.commands.demo import demo
from dperm.commands.evaluating import evaluate
from dperm.commands.exploring import explore
from dperm.commands.fitting import fit, predict
from dperm.commands.ledgers import ledger
from dperm.commands.planning import plan, theory
from dperm.commands.reporting import report
from dperm.commands.schemas import schema
from dperm.commands.verifying import verify

COMMANDS = {
    "demo": demo,
    "schema": schema,
    "plan": plan,
    "fit": fit,
    "predict": predict,
    "evaluate": evaluate,
    "verify": verify,
    "report": report,
    "audit": audit,
    "theory": theory,
    "explore": explore,
    "ledger": ledger,
}
