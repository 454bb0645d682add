"""The notebooks run from top to bottom, in a reduced form; the stored ones were run, and load nothing from the network."""

from __future__ import annotations

import ast
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from matplotlib.figure import Figure

from places import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
matplotlib.use("Agg")


def cells(file: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(file.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def run(text: str, names: dict[str, Any]) -> Any:
    """A cell as a notebook runs it: the value of its last line is shown."""
    tree = ast.parse(text)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def test_there_are_six() -> None:
    wanted = {"first-model", "choosing-epsilon", "profile-to-model", "additive-model", "people-with-many-rows", "auditing"}
    assert {file.stem for file in NOTEBOOKS} == wanted


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "notebook"}
    parameters = [cell for cell in cells(file) if "parameters" in cell["metadata"].get("tags", ())]
    assert len(parameters) == 1 and parameters[0]["source"] == cells(file)[0]["source"]
    with redirect_stdout(io.StringIO()):
        for cell in cells(file):
            shown = run("".join(cell["source"]), names)
            names |= cell["metadata"].get("reduced", {})
            if isinstance(shown, Figure):
                shown.savefig(io.BytesIO())
            elif hasattr(shown, "_repr_html_"):
                assert shown._repr_html_()
            elif hasattr(shown, "_repr_mimebundle_"):
                assert shown._repr_mimebundle_()
    plt.close("all")


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_stored_notebook_was_run_without_an_error(file: Path) -> None:
    counts = [cell["execution_count"] for cell in cells(file)]
    assert counts == list(range(1, len(counts) + 1))
    outputs = [output for cell in cells(file) for output in cell["outputs"]]
    assert outputs and not [output for output in outputs if output["output_type"] == "error"]
    text = json.dumps(outputs)
    assert "src=\\\"http" not in text and "@import" not in text and "/work/" not in text and "/home/" not in text
