"""Figures of a page as inline SVG and plain HTML. Colours are variables of the style sheet, so figures follow the theme."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dperm.pages.text import Table, Text, inline, region
from dperm.words.wording import printable

COLOURS = 7  # --p0 … --p6 of the style sheet


def bar(value: float, largest: float) -> str:
    """One bar around zero."""
    length = 60 * min(abs(value) / largest, 1.0)
    left, colour = (60.0, "var(--bar)") if value >= 0 else (60 - length, "var(--neg)")
    return (
        '<svg class="bar" viewBox="0 0 120 14" preserveAspectRatio="none" aria-hidden="true">'
        '<line x1="60" x2="60" y1="0" y2="14" stroke="var(--soft)" vector-effect="non-scaling-stroke"/>'
        f'<rect x="{left:.2f}" y="2" width="{length:.2f}" height="10" fill="{colour}"/></svg>'
    )


def bar_row(row: tuple[str, float, str], largest: float) -> str:
    name, value, text = row
    drawn = f'<td class="b">{bar(value, largest)}</td><td class="n">{inline(text)}</td>'
    return f'<tr><th scope="row">{inline(name)}</th>{drawn}</tr>'


def bar_table(caption: str, rows: Iterable[str]) -> str:
    head = f'<table class="bars"><caption>{inline(caption)}</caption>'
    return region(caption, f"{head}<tbody>{''.join(rows)}</tbody></table>")


@dataclass(frozen=True)
class Bars:
    """Named numbers as bars around zero, with a text beside each."""

    rows: Sequence[tuple[str, float, str]]
    caption: str
    largest: float | None = None  # what a whole half of the figure stands for; the largest of the rows by default

    def html(self) -> str:
        largest = self.largest or max([abs(value) for _, value, _ in self.rows] + [1e-300])
        return bar_table(self.caption, (bar_row(row, largest) for row in self.rows))

    def markdown(self) -> str:
        return Table(("", "value"), [(name, text) for name, _, text in self.rows], self.caption, frozenset({1})).markdown()


@dataclass(frozen=True)
class Panel:
    """The effect of one column: a line over its own units (with a band where there is one), or a bar per level."""

    name: str
    words: str
    line: Sequence[tuple[float, float]] = ()
    band: Sequence[tuple[float, float, float]] = ()  # x, low, high
    levels: Sequence[tuple[str, float, str]] = ()
    sure: tuple[int, int] | None = None  # points of the line that rows hold; the rest is drawn faint, and cut at the frame
    ends: tuple[float, float] | None = None  # of the axis; those of the line by default

    @property
    def reach(self) -> float:
        heights = [abs(y) for _, y in self.line[slice(*(self.sure or (0, None)))]] + [abs(v) for _, v, _ in self.levels]
        return max([*heights, *(abs(side) for _, low, high in self.band for side in (low, high)), 0.0])

    def html(self, reach: float) -> str:
        bars = "".join(bar_row(row, reach) for row in self.levels)
        drawn = f"<table><tbody>{bars}</tbody></table>" if self.levels else self._lines(reach)
        return f'<div class="panel"><h3>{inline(self.name)}</h3><p>{inline(self.words)}</p>{drawn}</div>'

    def _lines(self, reach: float) -> str:
        left, right = self.ends or (self.line[0][0], self.line[-1][0])
        top = f"+{number(reach)}"
        start = max(46, 12 + 7 * len(top))  # a label that is wider than its margin would lose its first digits
        width = 246 - start

        def at(x: float, y: float) -> str:
            return f"{start + width * (x - left) / (right - left):.1f},{62 - 50 * min(max(y / reach, -1.0), 1.0):.1f}"

        band = [at(x, high) for x, _, high in self.band] + [at(x, low) for x, low, _ in reversed(self.band)]
        shaded = f'<polygon points="{" ".join(band)}" fill="var(--bar)" opacity=".22"/>' if band else ""
        path = " ".join(at(x, y) for x, y in self.line)
        stroke = '<polyline fill="none" stroke="var(--bar)"'
        drawn = f'{stroke} stroke-width="2.5" points="{path}"/>'
        if self.sure is not None:
            held = " ".join(at(x, y) for x, y in self.line[slice(*self.sure)])
            drawn = f'{stroke} stroke-width="1.2" stroke-dasharray="2 3" opacity=".6" points="{path}"/>'
            drawn += f'{stroke} stroke-width="2.5" points="{held}"/>'
        label = html.escape(printable(f"{self.name}: {self.words}"), quote=True)
        return (
            f'<svg class="small" viewBox="0 0 252 136" role="img" aria-label="{label}">'
            f'<rect x="{start}" y="12" width="{width}" height="100" fill="none" stroke="var(--line)"/>'
            f'<line x1="{start}" x2="246" y1="62" y2="62" stroke="var(--soft)" stroke-dasharray="3 3"/>'
            f"{shaded}{drawn}{_ticks(start, left, right)}{_sides(start - 6, top)}</svg>"
        )


def _ticks(start: int, left: float, right: float) -> str:
    """Both ends of the horizontal axis, and its middle where there is room."""
    places = ((start, "start"), ((start + 246) / 2, "middle"), (246, "end"))
    texts = ticks_of(left, (left + right) / 2, right)
    room = 7 * (len(texts[1]) + 2 + 2 * max(len(texts[0]), len(texts[2]))) <= 246 - start
    return "".join(
        f'<text x="{place:g}" y="130" text-anchor="{anchor}">{text}</text>'
        for (place, anchor), text in zip(places, texts)
        if room or anchor != "middle"
    )


def _sides(place: int, top: str) -> str:
    """The reach of the vertical axis, upwards and downwards, and its 0."""
    return "".join(
        f'<text x="{place}" y="{y + 4}" text-anchor="end">{text}</text>'
        for y, text in ((12, top), (62, "0"), (112, f"-{top[1:]}"))
    )


@dataclass(frozen=True)
class Panels:
    """Small figures side by side, all with the same height of scale: a steeper line is a larger effect."""

    panels: Sequence[Panel]
    caption: str

    def html(self) -> str:
        reach = max(panel.reach for panel in self.panels) or 1.0  # where nothing moves the prediction
        drawn = "".join(panel.html(reach) for panel in self.panels)
        kind = "panels" if any(panel.levels for panel in self.panels) else "panels even"  # in rows, read from left to right
        return f'<p class="soft">{inline(self.caption)}</p><div class="{kind}">{drawn}</div>'

    def markdown(self) -> str:
        return Table(("", ""), [(panel.name, panel.words) for panel in self.panels], self.caption).markdown()


@dataclass(frozen=True)
class Shares:
    """Parts of a whole as one divided bar with its key."""

    rows: Sequence[tuple[str, float, str]]
    caption: str

    def html(self) -> str:
        parts = "".join(
            f'<span style="flex:{max(share, 0.0):.5f} 1 0;background:var(--p{j % COLOURS})"></span>'
            for j, (_, share, _) in enumerate(self.rows)
        )
        rows = "".join(
            f'<tr><th scope="row"><span class="dot" style="background:var(--p{j % COLOURS})"></span>{inline(name)}</th>'
            f'<td class="n">{_percent(share)}</td><td>{inline(text)}</td></tr>'
            for j, (name, share, text) in enumerate(self.rows)
        )
        split = f'<p class="soft">{inline(self.caption)}</p><div class="split" aria-hidden="true">{parts}</div>'
        return split + region(self.caption, f"<table><tbody>{rows}</tbody></table>")

    def markdown(self) -> str:
        rows = [(name, _percent(share), text) for name, share, text in self.rows]
        return Table(("stage", "share", "what it pays for"), rows, self.caption, frozenset({1})).markdown()


@dataclass(frozen=True)
class Cards:
    """What to see first: a few words, a large answer and a line about it."""

    cards: Sequence[tuple[str, str, str]]

    def html(self) -> str:
        drawn = "".join(
            f'<div class="card"><h3>{inline(name)}</h3><b>{inline(answer)}</b><p>{inline(words)}</p></div>'
            for name, answer, words in self.cards
        )
        return f'<div class="cards">{drawn}</div>'

    def markdown(self) -> str:
        lines = [Text(f"{name}: {answer}. {words}").markdown() for name, answer, words in self.cards]
        return "\n".join(f"- {line}" for line in lines)


@dataclass(frozen=True)
class Curve:
    """Points in the unit square with optional vertical reach, and the diagonal where it means something: ROC, calibration."""

    points: Sequence[tuple[float, float]]
    x: str
    y: str
    description: str
    reach: Sequence[tuple[float, float]] = field(default_factory=tuple)
    joined: bool = True
    diagonal: bool = True

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
        label = html.escape(printable(self.description), quote=True)
        guess = '<line x1="60" y1="310" x2="340" y2="30" stroke="var(--soft)" stroke-dasharray="4 4"/>' if self.diagonal else ""
        return (
            f"<figure><figcaption>{label}</figcaption>"
            f'<svg viewBox="0 0 360 350" role="img" aria-label="{label}" class="plot">'
            '<rect x="60" y="30" width="280" height="280" fill="none" stroke="var(--line)"/>'
            f'{guess}{drawn}{ticks}<text x="200" y="346" text-anchor="middle">{html.escape(self.x)}</text>'
            f'<text x="14" y="170" text-anchor="middle" transform="rotate(-90 14 170)">{html.escape(self.y)}</text>'
            "</svg></figure>"
        )

    def markdown(self) -> str:
        rows = [(f"{x:.3f}", f"{y:.3f}") for x, y in self.points]
        return Table((self.x, self.y), rows, self.description, frozenset({0, 1})).markdown()


def number(value: float) -> str:
    """A number for an axis: three digits that count, thousands with commas.

    >>> number(1234567.0), number(0.012345), number(-3.0)
    ('1,230,000', '0.0123', '-3')
    """
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if 1000 <= abs(rounded) < 1e9 else f"{rounded:g}"


def signed(value: float, digits: int = 3) -> str:
    """A change, with its sign and thousands with commas: nothing is 0.

    >>> signed(0.012345), signed(-3.0), signed(-0.0), signed(-112345.0, 2)
    ('+0.0123', '-3', '0', '-110,000')
    """
    rounded = float(f"{value:.{digits}g}")
    return ("+" if rounded > 0 else "") + number(rounded) if rounded else "0"


def ticks_of(*values: float) -> list[str]:
    """Numbers for one axis, with as many digits as tell them apart; years and other numbers below 10,000 have no comma.

    >>> ticks_of(2015.2, 2021.0, 2026.8), ticks_of(2010.2, 2019.9, 2029.8)
    (['2015', '2021', '2027'], ['2010', '2020', '2030'])
    >>> ticks_of(2050.0, 61200.0, 120000.0), ticks_of(0.0, 0.5, 1.0)
    (['2,050', '61,200', '120,000'], ['0', '0.5', '1'])
    """
    short = max(abs(value) for value in values) < 10_000
    texts = [f"{float(f'{value:.4g}'):g}" if short and abs(value) >= 1000 else number(value) for value in values]
    digits = 4
    while len(set(texts)) < len(set(values)) and digits <= 12:
        texts, digits = [f"{float(f'{value:.{digits}g}'):.12g}" for value in values], digits + 1
    return texts


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.001 else "< 0.1 %"
