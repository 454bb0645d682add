"""Words of a page as data: paragraphs, tables and code, each rendered to HTML or to Markdown."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from dperm.words.wording import markdown_line, markdown_text, printable


@dataclass(frozen=True)
class Text:
    """A paragraph; `kind` is "", "say" (the sentence to remember), "soft" or "warn"."""

    words: str
    kind: str = ""

    def html(self) -> str:
        mark = f' class="{self.kind}"' if self.kind else ""
        return f"<p{mark}>{inline(self.words)}</p>"

    def markdown(self) -> str:
        words = markdown_line(self.words)
        return f"> **{words}**" if self.kind in ("say", "warn") else words


@dataclass(frozen=True)
class Table:
    """Rows of cells; the first cell names the row. `numeric` columns are set flush right."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    numeric: frozenset[int] = frozenset()

    def html(self) -> str:
        def cell(tag: str, j: int, text: str, scope: str = "") -> str:
            kind = "n i" if "…" in text else "n"  # an interval may take two lines, a number may not
            mark = f' class="{kind}"' if j in self.numeric else ""
            return f"<{tag}{mark}{scope}>{cell_text(text)}</{tag}>"

        head = "".join(cell("th", j, text, ' scope="col"') for j, text in enumerate(self.head))
        body = "".join(
            "<tr>"
            + "".join(cell("th" if j == 0 else "td", j, text, ' scope="row"' if j == 0 else "") for j, text in enumerate(row))
            + "</tr>"
            for row in self.rows
        )
        caption = f"<caption>{inline(self.caption)}</caption>" if self.caption else ""
        top = f"<thead><tr>{head}</tr></thead>" if any(self.head) else ""
        many = ' class="many"' if len(self.head) > 5 else ""
        return region(self.caption or "table", f"<table{many}>{caption}{top}<tbody>{body}</tbody></table>")

    def markdown(self) -> str:
        def line(cells: Sequence[str]) -> str:
            return "| " + " | ".join(map(markdown_text, cells)) + " |"

        rule = "|" + "|".join("---:" if j in self.numeric else "---" for j in range(len(self.head))) + "|"
        lines = [line(self.head), rule, *(line(row) for row in self.rows)]
        return "\n".join([*([markdown_line(self.caption), ""] if self.caption else []), *lines])


@dataclass(frozen=True)
class Code:
    """Text as it is; folded where it is long."""

    text: str
    folded: str = ""

    def html(self) -> str:
        body = f"<pre>{html.escape(printable(self.text, keep=chr(10)))}</pre>"
        return f"<details><summary>{html.escape(self.folded)}</summary>{body}</details>" if self.folded else body

    def markdown(self) -> str:
        text = printable(self.text, keep="\n")
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        return f"{fence}\n{text}\n{fence}"


def region(label: str, inner: str) -> str:
    """What may be wider than the page, to be reached and scrolled by the keyboard too."""
    label = html.escape(printable(label), quote=True)
    return f'<div class="wide" tabindex="0" role="region" aria-label="{label}">{inner}</div>'


def inline(text: str) -> str:
    """Escaped text in which `words` between backquotes are set as code."""
    text = printable(text)
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return html.escape(text)
    return "".join(html.escape(piece) if j % 2 == 0 else f"<code>{html.escape(piece)}</code>" for j, piece in enumerate(pieces))


def cell_text(text: str) -> str:
    """The same for a cell of a table: both ends of an interval stay on one line."""
    return inline(text).replace(" … ", "\u00a0…\u00a0")
