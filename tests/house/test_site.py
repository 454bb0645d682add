"""The site: formulas by a bundled KaTeX, a theorem behind every estimator, nothing from another host."""

from __future__ import annotations

import html
import importlib
import importlib.util
import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import dperm
import dperm.estimators
from browser import chromium, resize
from places import ROOT


def hooks() -> Any:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "scripts" / "site_hooks.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_every_estimator_is_on_the_page_of_the_api_with_its_theorems() -> None:
    public = {name for name in dperm.__all__ if getattr(getattr(dperm, name), "__module__", "").startswith("dperm.estimators.")}
    public = {name for name in public if isinstance(getattr(dperm, name), type)}
    theorems, page = hooks().THEOREMS, (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert len(public) >= 15 and set(theorems) == public
    for name in public:
        assert re.search(rf"^::: [\w.]*\b{name}$", page, re.M), name
        kind = getattr(dperm, name)
        assert ("intervals" in theorems[name]) == getattr(kind, "has_intervals", False), name
        for theorem in theorems[name]:
            assert (ROOT / "docs" / "theorems" / f"{theorem}.md").is_file(), (name, theorem)


def test_the_bundle_has_its_licence_and_names_no_other_host() -> None:
    folder = ROOT / "docs" / "katex"
    assert "MIT License" in (folder / "LICENSE").read_text(encoding="utf-8")
    style = (folder / "katex.min.css").read_text(encoding="utf-8")
    named = set(re.findall(r"url\(([^)]+)\)", style))
    assert named and all((folder / name).is_file() for name in named)
    assert "http" not in style


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nothing to say."""


def test_formulas_are_set_without_an_error(tmp_path: Path) -> None:
    """Every displayed formula of every theorem, by the bundled KaTeX in a real browser: an error would be drawn in red."""
    formulas = {
        file.name: re.findall(r"^\$\$\n(.*?)\n\$\$$", file.read_text(encoding="utf-8"), re.M | re.S)
        for file in sorted((ROOT / "docs").rglob("*.md"))
    }
    assert sum(map(len, formulas.values())) >= 25
    served = partial(Quiet, directory=str(ROOT / "docs"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), served)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with chromium(tmp_path / "profile") as driver:
            resize(driver, 390)
            driver.get(f"http://127.0.0.1:{server.server_address[1]}/katex/LICENSE")
            script = (ROOT / "docs" / "katex" / "katex.min.js").read_text(encoding="utf-8")
            driver.execute_script(f"{script}; window.katex = window.katex || katex")
            for name, found in formulas.items():
                for text in found:
                    made = driver.execute_script("return katex.renderToString(arguments[0], {displayMode: true})", text)
                    assert "katex-error" not in made, (name, text)
    finally:
        server.shutdown()
        server.server_close()


def test_formulas_of_the_prose_are_found_and_set(tmp_path: Path) -> None:
    """Every theorem's page: nearly all of what is wrapped is TeX that KaTeX takes; the rest is shown as it was written."""
    hooks()
    formulas = importlib.import_module("site_formulas")
    wrapped = re.compile(r'data-tex="(.*?)">(.*?)</span>', re.S)
    found = {}
    for file in sorted((ROOT / "docs" / "theorems").glob("*.md")):
        if file.name != "lectures.md":
            text = formulas.set_formulas(file.read_text(encoding="utf-8"))
            found[file.name] = [html.unescape(tex) for tex, _ in wrapped.findall(text)]
    assert all(len(made) >= 15 for made in found.values()) and sum(map(len, found.values())) >= 1500
    script = (ROOT / "docs" / "katex" / "katex.min.js").read_text(encoding="utf-8")
    refused = (
        "return arguments[0].filter(t => {try {katex.renderToString(t, {strict: 'ignore'}); return false}"
        " catch (error) {return true}})"
    )
    with chromium(tmp_path / "profile") as driver:
        driver.get("data:text/html,<p>formulas")
        driver.execute_script(f"{script}; window.katex = window.katex || katex")
        bad = driver.execute_script(refused, [tex for made in found.values() for tex in made])
    assert len(bad) <= 5, bad


@pytest.mark.parametrize(
    ("plain", "tex"),
    [
        ("‖x − m₁‖² ≤ r²", r"\Vert x - m_{1}\Vert ^{2} \le r^{2}"),
        ("√(2p)·κC/μ_k", r"\sqrt{2p}\cdot \kappa C/\mu _{k}"),
        ("θ̂ = Σ_j a_jr_j²", r"\hat \theta = \sum _{j} a_{j}r_{j}^{2}"),
        ("8,192", "8{,}192"),
    ],
)
def test_a_formula_in_unicode_is_translated(plain: str, tex: str) -> None:
    hooks()
    made = importlib.import_module("site_formulas").to_tex(plain)
    assert re.sub(r"\s+", "", made) == re.sub(r"\s+", "", tex)


def test_home_shows_a_fit_and_a_picture_first() -> None:
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    first = page[: page.index("What it costs in accuracy")]
    assert 0 < first.index(".fit(") < first.index("images/report-light.png")


@pytest.mark.parametrize("name", ["katex/katex.min.js", "katex/formulas.js", "stylesheets/site.css"])
def test_what_the_site_names_is_there(name: str) -> None:
    assert name in (ROOT / "mkdocs.yml").read_text(encoding="utf-8") and (ROOT / "docs" / name).is_file()


def test_no_class_of_the_first_screen_is_one_of_the_api_page() -> None:
    """mkdocstrings calls the first of its blocks "first": a grid of that name cut every table of the API page in half."""
    rules = (ROOT / "docs" / "stylesheets" / "site.css").read_text(encoding="utf-8")
    assert ".first-screen{" in rules and 'class="first-screen"' in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert not re.search(r"\.(first|doc[\w-]*)(?![\w-])", rules)


def test_no_entry_of_the_navigation_has_the_name_of_the_site() -> None:
    """A page without a title of its own takes its heading: the home page's is the site's name, which stands above already."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "\n  - Home: index.md\n" in text and not re.search(r"^  - [\w/-]+\.md$", text, re.MULTILINE)


def test_an_entry_of_a_list_with_a_formula_keeps_its_mark(tmp_path: Path) -> None:
    """It scrolls where the formula is too long, and what scrolls cuts off a mark that lies outside its box."""
    style = (ROOT / "docs" / "stylesheets" / "site.css").read_text(encoding="utf-8")
    text = 'a <span class="formula">x</span>'
    lists = f"<ul><li>{text}</li></ul><ol><li>{text}</li></ol><ul><li><p>{text}</p></li></ul>"
    page = f'<style>{style}</style><div class="md-typeset">{lists}</div>'
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    drawn = (
        "return [...document.querySelectorAll('li')].map(li => ["
        "getComputedStyle(li).overflowX, getComputedStyle(li, '::before').content.replaceAll('\\x22', '')])"
    )
    with chromium(tmp_path / "profile") as driver:
        driver.get((tmp_path / "page.html").as_uri())
        assert driver.execute_script(drawn) == [["auto", "•"], ["auto", "counter(list-item) ."], ["visible", "none"]]
