"""The gallery: registry, page and files agree; drawing is reproducible; axes carry words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dperm.report import gallery

FOLDER = Path(__file__).parents[1] / "docs" / "gallery"
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
