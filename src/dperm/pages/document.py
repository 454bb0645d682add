"""A page as data: a title and sections of blocks, rendered to HTML or to Markdown from the same blocks."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Protocol

from dperm.pages.text import inline
from dperm.words.wording import markdown_line, markdown_text, printable

STYLE = (files("dperm.pages") / "assets" / "report.css").read_text(encoding="utf-8")


class Block(Protocol):
    """A piece of a page, in both forms."""

    def html(self) -> str: ...
    def markdown(self) -> str: ...


@dataclass(frozen=True)
class Section:
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    """`kicker` stands small above the title, `byline` below it; a section without a title opens the page."""

    title: str
    sections: Sequence[Section]
    footer: str
    kicker: str = ""
    byline: str = ""


def rendered(page: Page, *, markdown: bool) -> str:
    return to_markdown(page) if markdown else to_html(page)


def to_html(page: Page) -> str:
    """One self-contained page: no script, no link to another host."""
    parts, links = [], []
    for number, section in enumerate(page.sections):
        heading = f"<h2>{html.escape(section.title)}</h2>" if section.title else ""
        if heading:
            links.append(f'<li><a href="#s{number}">{html.escape(section.title)}</a></li>')
        parts.append(f'<section id="s{number}">{heading}{"".join(block.html() for block in section.blocks)}</section>')
    above = f'<p class="kicker">{inline(page.kicker)}</p>' if page.kicker else ""
    below = f'<p class="byline">{inline(page.byline)}</p>' if page.byline else ""
    title = html.escape(printable(page.title))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{title}</title><style>{STYLE}</style></head><body>"
        '<a class="skip" href="#content">Skip to the report</a><div class="page">'
        f"<header>{above}<h1>{title}</h1>{below}</header>"
        f'<nav aria-label="Contents"><ol>{"".join(links)}</ol></nav>'
        f'<main id="content">{"".join(parts)}</main><footer>{inline(page.footer)}</footer></div></body></html>\n'
    )


def to_markdown(page: Page) -> str:
    parts = [f"# {markdown_text(page.title)}", *([markdown_line(page.byline)] if page.byline else [])]
    for section in page.sections:
        parts += [f"## {markdown_text(section.title)}"] if section.title else []
        parts += [block.markdown() for block in section.blocks]
    return "\n\n".join([*parts, markdown_line(page.footer)]) + "\n"
