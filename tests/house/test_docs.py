"""The documentation: every code block runs, every shown message is the real one, the site builds without a warning."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import pytest

from dperm.cli import main
from places import ROOT

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
SHARED = ROOT.parent / "shared" / "data"
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.M | re.S)
# Blocks marked py need a Spark session: `tests/rows/test_rows_spark.py` runs them.
KNOWN = {"python", "py", "sh", "console", "text", "toml", "json", "ini", "make", ""}
# Commands of the shell blocks that install or run for minutes; the rest must be `dperm`.
SLOW = ("make ", "git ", "pip ", "python ", "cd ", "dperm demo", "dperm audit", "dperm bench", "dperm explore", "docker ")


def blocks(page: Path) -> list[tuple[str, str]]:
    return FENCE.findall(page.read_text(encoding="utf-8"))


def command(line: str) -> tuple[int, str]:
    """Exit code and output of one `dperm` line, run by the command's own entry point (new processes would take minutes)."""
    words = shlex.split(line, comments=True)
    assert words[0] == "dperm", f"only dperm commands belong into sh blocks, found {line!r}"
    out = io.StringIO()
    with mock.patch.object(sys, "argv", words), redirect_stdout(out), redirect_stderr(out):
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0), out.getvalue()
    return 0, out.getvalue()


def test_every_block_has_a_language_that_the_tests_know():
    found = {language for page in PAGES for language, _ in blocks(page)}
    assert found <= KNOWN, found - KNOWN
    assert sum(language == "python" for page in PAGES for language, _ in blocks(page)) >= 25


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    """Python blocks share one namespace per page, shell and console blocks share its folder. A block that reads a shared table
    comes last on its page: what stands before it has run where there are none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATA", str(SHARED))
    names: dict = {"__name__": "page"}
    for language, text in blocks(page):
        if language == "python":
            if 'environ.get("DATA"' in text and not SHARED.is_dir():
                pytest.skip(f"the rest of {page.name} needs the shared tables beside the repository, found no {SHARED}")
            with redirect_stdout(io.StringIO()):
                exec(compile(text, f"{page.name}", "exec"), names)
        elif language == "sh" and page.name != "README.md":
            for line in text.replace("\\\n", " ").splitlines():
                if line.strip() and not line.startswith(("#", *SLOW)):
                    code, output = command(line)
                    assert code == 0, (line, output)
        elif language == "console":
            line, _, expected = text.partition("\n")
            _, output = command(line.removeprefix("$ "))
            assert expected.strip() in output, (line, output)


def test_the_shell_of_the_readme_runs_as_it_is_printed(tmp_path, monkeypatch):
    """In a folder with nothing but a table: no line may undo what the one before it made."""
    monkeypatch.chdir(tmp_path)
    hour = blocks(ROOT / "docs" / "first-hour.md")
    first_hour = next(text for language, text in hour if "people.csv" in text and language == "python")
    exec(compile(first_hour, "first-hour.md", "exec"), {"__name__": "page"})
    (tmp_path / "new.csv").write_text((tmp_path / "people.csv").read_text())
    lines = [line for language, text in blocks(ROOT / "README.md") if language == "sh" for line in text.splitlines()]
    ran = [line for line in lines if line.strip() and not line.startswith(SLOW)]
    assert len(ran) >= 7
    for line in ran:
        code, output = command(line)
        assert code == 0, (line, output)
    before = (tmp_path / "people.json").read_text()
    code, output = command("dperm schema people.csv --out people.json")
    assert code == 2 and "--overwrite" in output and (tmp_path / "people.json").read_text() == before
    assert command("dperm schema people.csv --out people.json --overwrite")[0] == 0


def test_the_coverage_table_is_that_of_the_script():
    page = (ROOT / "docs" / "intervals.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in page.splitlines() if re.match(r"\| (linear|logistic), \w+ \| [\d,]+ \|", line)]
    assert len(rows) >= 6
    for row in rows:
        assert int(row[3].replace(",", "")) >= 1000
        assert abs(float(row[4].strip(" %")) - 90) <= 3 and abs(float(row[5].strip(" %")) - 95) <= 3


def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="the documentation tools are not installed (pip install --group docs)")
    pytest.importorskip("material", reason="mkdocs-material is not installed (pip install --group docs)")
    pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed (pip install --group docs)")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, timeout=300, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "WARNING" not in done.stderr  # `--quiet` would hide them from `--strict` too
    html = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    api = re.sub(r"<[^>]+>", "", (tmp_path / "site" / "api" / "index.html").read_text(encoding="utf-8"))
    assert "ufunc" not in api and "logistic sigmoid" not in api  # a module shows what it defines, and not what it imports
    choices = "&#34;replace-one&#34;, &#34;zero-out&#34;, &#34;add-remove&#34;"
    assert choices in api and " - one" not in api  # choices are no differences
    assert "fonts.googleapis.com" not in html and "Threat model" in html
