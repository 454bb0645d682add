"""The repository keeps its promises: generated tables are fresh, the README's example runs, enough tests are found."""

from __future__ import annotations

import importlib.util
import re

from places import ROOT


def test_table_of_printed_calibrations_is_what_the_code_says():
    spec = importlib.util.spec_from_file_location("printed_calibrations", ROOT / "scripts" / "printed_calibrations.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    text = script.PAGE.read_text(encoding="utf-8")
    assert script.page(text) == text
    assert text.count("**broken**") >= 8


def test_readme_python_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # it writes a report
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 2
    scope: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), scope)
    assert scope["model"].certificate_.verify().ok


def test_every_mechanism_has_its_page():
    import dperm.mechanisms as mechanisms

    pages = {page.stem for page in (ROOT / "docs" / "theorems").glob("*.md")}
    for name in mechanisms.MECHANISMS:
        assert any(name == page or name in (ROOT / "docs" / "theorems" / f"{page}.md").read_text() for page in pages), name


def test_no_machine_paths_in_the_repository():
    import subprocess

    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if files.returncode:
        return  # an unpacked source archive has no git
    word = re.compile(r"/(?:work|root|farm)/[a-z]")
    for name in files.stdout.split("\n"):
        path = ROOT / name
        if path.suffix in (".py", ".md", ".toml", ".yml", ".json") and path.is_file() and path.name != "test_repository.py":
            assert not word.search(path.read_text(encoding="utf-8")), name


def test_many_tests_are_found():
    """A collection error that silently drops a file would show here."""
    files = list((ROOT / "tests").rglob("test_*.py"))
    found = sum(len(re.findall(r"^def test_|^    def test_", file.read_text(encoding="utf-8"), re.M)) for file in files)
    assert len(files) >= 20 and found >= 250
