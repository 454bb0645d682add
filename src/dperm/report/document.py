"""A page as data: sections of paragraphs, tables, bars and curves, rendered to HTML or to Markdown from the same blocks."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from dperm.words.wording import markdown_line, markdown_text, printable

STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#4b535d;--line:#d0d7de;--bar:#0b5cad;--neg:#a4450b;--paper:#fff;--box:#f6f8fa}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#aab4bf;--line:#3d444d;--bar:#58a6ff;--neg:#ff9e64;--paper:#0d1117;
--box:#161b22}}
*{box-sizing:border-box}
body{font:16px/1.55 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:54rem;margin:1.5rem auto;
padding:0 1rem}
h1{font-size:1.6rem;line-height:1.25}
h2{font-size:1.2rem;margin-top:2.2rem;border-bottom:1px solid var(--line);padding-bottom:.2rem}
table{border-collapse:collapse;min-width:65%}td,th{text-align:left;padding:.3rem 1.2rem .3rem 0;vertical-align:top;
border-bottom:1px solid var(--line)}thead th{font-weight:600;color:var(--soft)}tbody th{font-weight:500;min-width:9.5rem}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
thead th.n{white-space:normal}tbody th.n{min-width:4rem}caption{text-align:left;color:var(--soft);padding:.2rem 0}
.say{font-size:1.12rem;background:var(--box);border-left:4px solid var(--bar);padding:.7rem 1rem;margin:1rem 0}
.soft{color:var(--soft)}.warn{border:2px solid var(--neg);padding:.5rem 1rem}
.wide+.wide{margin-top:1rem}
.wide{overflow-x:auto}.wide:focus-visible,summary:focus-visible,a:focus-visible{outline:3px solid var(--bar);outline-offset:2px}
svg text{fill:var(--ink);font-size:12px}figure{margin:1rem 0}
svg.bar{display:block;width:100%;height:14px;margin-top:.35rem}table.bars{width:100%}td.b{width:45%}svg.plot{width:100%;max-width:26rem}a{color:var(--bar)}
pre{white-space:pre-wrap;overflow-wrap:anywhere;font-size:.82rem;background:var(--box);padding:.7rem}
summary{cursor:pointer}footer{margin-top:3rem;color:var(--soft);font-size:.9rem}
.skip{position:absolute;left:-99rem}.skip:focus{position:static}
@media (max-width:34rem){body{margin:.8rem auto}h1{font-size:1.35rem}td,th{padding-right:.6rem;font-size:.93rem}
tbody th{min-width:6rem;overflow-wrap:anywhere}table{width:100%}td.b{width:26%}tbody th{min-width:5rem}}
@media print{body{max-width:none;font-size:11pt}.skip{display:none}h2{break-after:avoid}table,svg,.say{break-inside:avoid}
details::details-content{content-visibility:visible;height:auto}pre{font-size:7.5pt}}
"""


@dataclass(frozen=True)
class Text:
    """A paragraph; `kind` is "", "say" (the sentence to remember), "soft" or "warn"."""

    words: str
    kind: str = ""

    def html(self) -> str:
        mark = f' class="{self.kind}"' if self.kind else ""
        return f"<p{mark}>{_inline(self.words)}</p>"

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
            mark = ' class="n"' if j in self.numeric else ""
            return f"<{tag}{mark}{scope}>{_inline(text)}</{tag}>"

        head = "".join(cell("th", j, text, ' scope="col"') for j, text in enumerate(self.head))
        body = "".join(
            "<tr>"
            + "".join(cell("th" if j == 0 else "td", j, text, ' scope="row"' if j == 0 else "") for j, text in enumerate(row))
            + "</tr>"
            for row in self.rows
        )
        caption = f"<caption>{_inline(self.caption)}</caption>" if self.caption else ""
        top = f"<thead><tr>{head}</tr></thead>" if any(self.head) else ""
        label = html.escape(printable(self.caption or "table"), quote=True)
        inner = f"<table>{caption}{top}<tbody>{body}</tbody></table>"
        return f'<div class="wide" tabindex="0" role="region" aria-label="{label}">{inner}</div>'

    def markdown(self) -> str:
        def line(cells: Sequence[str]) -> str:
            return "| " + " | ".join(map(markdown_text, cells)) + " |"

        rule = "|" + "|".join("---:" if j in self.numeric else "---" for j in range(len(self.head))) + "|"
        lines = [line(self.head), rule, *(line(row) for row in self.rows)]
        return "\n".join([*([markdown_line(self.caption), ""] if self.caption else []), *lines])


@dataclass(frozen=True)
class Bars:
    """Named numbers as bars around zero, with a text beside each (a value or an interval)."""

    rows: Sequence[tuple[str, float, str]]
    caption: str

    def html(self) -> str:
        largest = max([abs(value) for _, value, _ in self.rows] + [1e-300])
        lines = []
        for name, value, text in self.rows:
            length = 60 * abs(value) / largest
            left, colour = (60.0, "var(--bar)") if value >= 0 else (60 - length, "var(--neg)")
            drawn = (
                '<svg class="bar" viewBox="0 0 120 14" preserveAspectRatio="none" aria-hidden="true">'
                '<line x1="60" x2="60" y1="0" y2="14" stroke="var(--line)" vector-effect="non-scaling-stroke"/>'
                f'<rect x="{left:.1f}" y="2" width="{length:.1f}" height="10" fill="{colour}"/></svg>'
            )
            cells = f'<th scope="row">{_inline(name)}</th><td class="b">{drawn}</td><td class="n">{_inline(text)}</td>'
            lines.append(f"<tr>{cells}</tr>")
        label = html.escape(self.caption, quote=True)
        return (
            f'<div class="wide" tabindex="0" role="region" aria-label="{label}">'
            f'<table class="bars"><caption>{_inline(self.caption)}</caption>'
            f"<tbody>{''.join(lines)}</tbody></table></div>"
        )

    def markdown(self) -> str:
        return Table(("", "value"), [(name, text) for name, _, text in self.rows], self.caption, frozenset({1})).markdown()


@dataclass(frozen=True)
class Curve:
    """Points in the unit square with optional vertical reach, and the diagonal: a ROC or a calibration plot."""

    points: Sequence[tuple[float, float]]
    x: str
    y: str
    description: str
    reach: Sequence[tuple[float, float]] = field(default_factory=tuple)
    joined: bool = True

    def html(self) -> str:
        def at(x: float, y: float) -> tuple[float, float]:
            return 60 + 280 * x, 310 - 280 * y

        places = [at(*point) for point in self.points]
        drawn = "".join(
            f'<line x1="{at(p[0], 0)[0]:.1f}" x2="{at(p[0], 0)[0]:.1f}" y1="{at(0, low)[1]:.1f}" y2="{at(0, high)[1]:.1f}" '
            'stroke="var(--bar)"/>'
            for p, (low, high) in zip(self.points, self.reach)
        )
        if self.joined:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            drawn += f'<polyline fill="none" stroke="var(--bar)" stroke-width="2" points="{path}"/>'
        drawn += "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="var(--bar)"/>' for x, y in places)
        ticks = "".join(
            f'<text x="{at(t, 0)[0]:.0f}" y="328" text-anchor="middle">{t:g}</text>'
            f'<text x="52" y="{at(0, t)[1] + 4:.0f}" text-anchor="end">{t:g}</text>'
            for t in (0, 0.5, 1)
        )
        label = html.escape(self.description, quote=True)
        return (
            f'<figure><figcaption class="soft">{label}</figcaption>'
            f'<svg viewBox="0 0 360 350" role="img" aria-label="{label}" class="plot">'
            '<rect x="60" y="30" width="280" height="280" fill="none" stroke="var(--line)"/>'
            '<line x1="60" y1="310" x2="340" y2="30" stroke="var(--soft)" stroke-dasharray="4 4"/>'
            f'{drawn}{ticks}<text x="200" y="346" text-anchor="middle">{html.escape(self.x)}</text>'
            f'<text x="14" y="170" text-anchor="middle" transform="rotate(-90 14 170)">{html.escape(self.y)}</text>'
            "</svg></figure>"
        )

    def markdown(self) -> str:
        rows = [(f"{x:.3f}", f"{y:.3f}") for x, y in self.points]
        return Table((self.x, self.y), rows, self.description, frozenset({0, 1})).markdown()


@dataclass(frozen=True)
class Steps:
    """A curve over equal cells, with the share of the rows in each cell as bars below it: the shape of a column."""

    name: str
    grid: Sequence[float]
    value: Sequence[float]
    share: Sequence[float]
    limits: tuple[float, float]

    def html(self) -> str:
        low, high = self.limits
        width, tallest = 300 / len(self.value), max(*self.share, 1e-12)

        def at(y: float) -> float:
            return 150 - 120 * (y - low) / (high - low)

        bars = "".join(
            f'<rect fill="var(--line)" x="{50 + width * k:.1f}" y="{150 - 30 * s / tallest:.1f}" width="{width:.2f}" '
            f'height="{30 * s / tallest:.1f}"/>'
            for k, s in enumerate(self.share)
            if s > 0.002 * tallest
        )
        path = " ".join(f"{50 + width * (k + 0.5):.1f},{at(v):.1f}" for k, v in enumerate(self.value))
        ends = f'<text x="50" y="166">{self.grid[0]:.4g}</text><text x="350" y="166" text-anchor="end">{self.grid[-1]:.4g}</text>'
        sides = "".join(f'<text x="44" y="{at(v) + 4:.0f}" text-anchor="end">{v:.2g}</text>' for v in self.limits)
        label = html.escape(f"Shape of {printable(self.name)}", quote=True)
        return (
            f'<figure><figcaption>{_inline(self.name)}</figcaption>'
            f'<svg viewBox="0 0 360 172" role="img" aria-label="{label}" class="plot">{bars}'
            f'<line x1="50" x2="350" y1="{at(0.0):.1f}" y2="{at(0.0):.1f}" stroke="var(--soft)" stroke-dasharray="4 4"/>'
            f'<polyline fill="none" stroke="var(--bar)" stroke-width="2" points="{path}"/>{ends}{sides}</svg></figure>'
        )

    def markdown(self) -> str:
        rows = [(f"{self.grid[k]:.4g}", f"{self.value[k]:.4g}") for k in range(8, len(self.grid), 16)]
        return Table(("at", "adds"), rows, self.name, frozenset({0, 1})).markdown()


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


Block = Text | Table | Bars | Curve | Steps | Code


@dataclass(frozen=True)
class Section:
    title: str
    blocks: Sequence[Block]


def to_html(title: str, sections: Sequence[Section], footer: str) -> str:
    """One self-contained page: no script, no link to another host."""
    parts = []
    for number, section in enumerate(sections):
        heading = f"<h2>{html.escape(section.title)}</h2>" if section.title else ""
        parts.append(f'<section id="s{number}">{heading}{"".join(block.html() for block in section.blocks)}</section>')
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{html.escape(printable(title))}</title><style>{STYLE}</style></head><body>"
        '<a class="skip" href="#content">Skip to the report</a>'
        f'<main id="content"><h1>{html.escape(printable(title))}</h1>{"".join(parts)}</main>'
        f"<footer>{_inline(footer)}</footer></body></html>\n"
    )


def to_markdown(title: str, sections: Sequence[Section], footer: str) -> str:
    parts = [f"# {markdown_text(title)}"]
    for section in sections:
        parts += [f"## {markdown_text(section.title)}"] if section.title else []
        parts += [block.markdown() for block in section.blocks]
    return "\n\n".join([*parts, markdown_line(footer)]) + "\n"


def _inline(text: str) -> str:
    """Escaped text in which `words` between backquotes are set as code."""
    text = printable(text)
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return html.escape(text)
    return "".join(html.escape(piece) if j % 2 == 0 else f"<code>{html.escape(piece)}</code>" for j, piece in enumerate(pieces))
