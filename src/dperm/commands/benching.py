"""`dperm bench`: the speed benchmarks of the repository."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import typer

from dperm.commands.shared import JSON_OPTION, SETTINGS, show

PASSES_WORDS_ON = {"ignore_unknown_options": True}  # words that this command does not know go to the benchmark


def bench(
    words: list[str] = typer.Argument(None, help="Passed on to benchmarks/speed.py: --quick, --out FILE."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Measure the speed of this library against its peers: `benchmarks/speed.py` of a clone of the repository.

    Like `make bench` it writes benchmarks/results/speed.json unless --out names another file; with --json it only prints.

    Example: dperm bench --quick --out speed.json
    """
    script = benchmark()
    command = [sys.executable, str(script), *(words or [])]
    if not as_json:
        raise typer.Exit(subprocess.run(command, stdout=subprocess.DEVNULL if SETTINGS["quiet"] else None).returncode)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "speed.json"
        ended = subprocess.run([*command, *([] if "--out" in command else ["--out", str(file)])], stdout=subprocess.DEVNULL)
        if ended.returncode:
            raise typer.Exit(ended.returncode)
        written = file if "--out" not in command else Path(command[command.index("--out") + 1])
        show(json.loads(written.read_text()), True)


def benchmark() -> Path:
    """benchmarks/speed.py of the clone that this package runs from, else of the one around the working folder."""
    own, here = Path(__file__).resolve().parents[3], Path.cwd()
    for root in (own, here, *here.parents):
        script = root / "benchmarks" / "speed.py"
        if script.is_file() and (root / "src" / "dperm" / "cli.py").is_file():
            return script
    raise ValueError(
        "Expected a clone of the dperm repository, found an installed package alone: the benchmarks are in the repository's "
        "benchmarks/ folder, not in the package. Clone it, then run `dperm bench` in it."
    )
