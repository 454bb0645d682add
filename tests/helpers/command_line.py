"""The command, called as a shell would call it."""

from __future__ import annotations

from typer.testing import CliRunner

from dperm.cli import app
from dperm.commands.spoken import spoken


def run(*arguments, code=0):
    """Through `main`, so that errors look as they do in a shell."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if isinstance(result.exception, ValueError):
        return 2, f"dperm: {spoken(str(result.exception))}"
    assert result.exit_code == code, result.output
    return result.exit_code, result.output
