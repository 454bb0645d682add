"""The command, called as a shell would call it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
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


def write_members(file: Path, rows: int, seed: int, left: Callable[[int, np.random.Generator], bool], each: int = 0) -> None:
    """A table of members, their branch and whether they left; with `each`, so many rows in turn have the name of one member."""
    draws, lines = np.random.default_rng(seed), ["member,age,branch,left" if each else "age,branch,left"]
    for number in range(rows):
        age, branch = draws.integers(18, 85), draws.choice(["north", "south"])
        name = f"m{number // each}," if each else ""
        lines.append(f"{name}{age},{branch},{'yes' if left(age, draws) else 'no'}")
    file.write_text("\n".join(lines) + "\n")
