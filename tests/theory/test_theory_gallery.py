"""The gallery: registry, page and files agree; drawing is reproducible; axes carry words."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from dperm import theory
from dperm.choose import risks
from dperm.cli import app
from dperm.estimators import outlook as advice
from dperm.report import gallery, gallery_curve
from places import ROOT
from theory_table import CALLS

FOLDER = ROOT / "docs" / "gallery"
QUICK = ("composition", "logistic-sensitivity", "sample-sizes", "printed-and-corrected", "separator")


def test_committed_gallery_is_the_registered_one() -> None:
    assert len(gallery.FIGURES) == 14
    assert (FOLDER / "index.md").read_text(encoding="utf-8") == gallery.index()
    assert {path.stem for path in FOLDER.glob("*.svg")} == set(gallery.FIGURES)
    for path in FOLDER.glob("*.svg"):
        assert path.stat().st_size < 150_000, path
        ElementTree.parse(path)


@pytest.mark.parametrize("name", QUICK)
def test_figures_are_drawn_and_reproducible(name: str, tmp_path: Path) -> None:
    first = gallery.draw(tmp_path / "a", [name])[0].read_bytes()
    second = gallery.draw(tmp_path / "b", [name])[0].read_bytes()
    assert first == second
    assert not (tmp_path / "a" / "index.md").exists()
    # matplotlib writes every text as a comment beside its outline: axes are labelled in words
    words = [line for line in first.decode().splitlines() if line.strip().startswith("<!--")]
    assert sum(len(line.split()) > 4 for line in words) >= 1


def test_png_and_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gallery.main([str(tmp_path), "--only", "composition", "--png"]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "composition.png")
    assert (tmp_path / "composition.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="Expected figure names among"):
        gallery.draw(tmp_path, ["moon"])


def test_every_figure_has_a_caption() -> None:
    for name, function in gallery.FIGURES.items():
        assert function.__doc__ and function.__doc__.strip().endswith("."), name


def test_matplotlib_is_imported_only_when_something_is_drawn() -> None:
    code = "import sys, dperm.theory, dperm.report.gallery; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def command(*words: str) -> dict:
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", theory.THEOREMS)
def test_every_theorem_is_drawn_by_the_command(name: str, tmp_path: Path) -> None:
    """The value, and a figure whose axes say in words what they show."""
    call = CALLS[theory.THEOREMS[name].__name__][0]
    words = [f"{key}={value}" for key, value in call.items()]
    found = command("theory", name, *words, "--plot", str(tmp_path / "curve.svg"))
    assert found["value"] == pytest.approx(float(theory.THEOREMS[name](**call)))
    drawn = (tmp_path / "curve.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(drawn)
    axis = next(key for key in gallery_curve.AXES if key in call)
    assert f"<!-- {gallery_curve.AXES[axis]} -->" in drawn
    assert f"<!-- {gallery_curve.VALUES[name]} -->" in drawn


def test_a_theorem_without_an_axis_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Expected one of n, epsilon, steps, count, alpha"):
        gallery_curve.draw_theorem("composition", theory.composition_epsilon, {"rho": 0.1, "delta": 1e-6}, tmp_path / "a.svg")


def test_plan_answers_how_many_rows_and_which_epsilon() -> None:
    """The n of the answer meets the target and n - 1 does not, by the same bound; likewise ε."""
    asked = command("plan", "--d", "20", "--n", "10000", "--epsilon", "1", "--target-risk", "0.005")
    predicted = {row["mechanism"]: row["predicted_risk"] for row in asked["alternatives"]}
    size, epsilon = asked["sample_size"]["gradient"], asked["epsilon_needed"]["gradient"]
    assert predicted["gradient"] > 0.005 and size > 10_000 and epsilon > 1

    fit = advice.declared("LogisticRegression", 10_000, 20, epsilon=1.0, delta=None, relation="replace-one")
    problem, shape, target = fit.problem, fit.shape, fit.target

    def risk(n: int, budget: float) -> float:
        return risks.risk("gradient", problem, n, shape, replace(target, epsilon=budget), 1.0)

    assert risk(size, 1.0) <= 0.005 < risk(size - 1, 1.0)
    assert risk(10_000, epsilon) <= 0.005 < risk(10_000, epsilon * (1 - 1e-4))
