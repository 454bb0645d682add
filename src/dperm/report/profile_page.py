"""profile.html and profile.md: what a paid look at a table found, column by column."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dperm.pages.charts import Bars
from dperm.pages.document import Block, Page, Section, rendered
from dperm.pages.text import Table, Text
from dperm.profiles.told import in_words, shower
from dperm.release.record import ColumnRecord, Known, Score
from dperm.words.wording import grouped, in_percent, printable

if TYPE_CHECKING:
    from dperm.profiles.profile import Profile

FOOTER = "Made by dperm from the profile. This page loads nothing from the network and runs no script."


@dataclass(frozen=True)
class Histogram:
    """Bars with error bars over a range; as Markdown, a table of bins."""

    edges: Sequence[str]
    counts: Sequence[Known]
    description: str

    def html(self) -> str:
        top, m = max([count["high"] for count in self.counts] + [1e-300]), len(self.counts)
        drawn = ""
        for place, count in enumerate(self.counts):
            x, wide = 8 + 344 * place / m, 344 / m
            y, low, high = (130 - 115 * height / top for height in (count["value"], count["low"], count["high"]))
            drawn += (
                f'<rect x="{x + 0.5:.1f}" y="{y:.1f}" width="{wide - 1:.1f}" height="{130 - y:.1f}" fill="var(--bar)"/>'
                f'<line x1="{x + wide / 2:.1f}" x2="{x + wide / 2:.1f}" y1="{low:.1f}" y2="{high:.1f}" stroke="var(--ink)"/>'
            )
        places = ((8, "start", 0), (180, "middle", m // 2), (352, "end", m))
        ticks = "".join(
            f'<text x="{x}" y="148" text-anchor="{anchor}">{html.escape(self.edges[place])}</text>' for x, anchor, place in places
        )
        label = html.escape(printable(self.description), quote=True)
        return (
            f'<figure><figcaption class="soft">{label}</figcaption><svg viewBox="0 0 360 154" role="img" aria-label="{label}" '
            f'class="plot"><line x1="8" x2="352" y1="130" y2="130" stroke="var(--line)"/>{drawn}{ticks}</svg></figure>'
        )

    def markdown(self) -> str:
        rows = [(f"{a} to {b}", _bar(count)) for a, b, count in zip(self.edges, self.edges[1:], self.counts)]
        return Table(("from, to", "rows"), rows, self.description, frozenset({1})).markdown()


def profile_page(profile: Profile, *, markdown: bool = False) -> str:
    """The page as text, from the record alone."""
    record = profile.record
    told = record["profile"]
    level = in_percent(record["level"])
    first: list[Block] = [Text(profile.statement + ".", "say")]
    if record["noise"]["policy"] == "seeded":
        first.append(Text("NOT PRIVATE: the noise of this profile was seeded.", "warn"))
    first.append(
        Text(
            f"Every number has a {level} error bar, due to the noise alone: it speaks of this table, not of a population. "
            "Means, spreads and quantiles are those of the values cut to the range that is shown."
        )
    )
    if "rows" in told:
        first.append(Text(f"Rows that count: {_bar(told['rows'])}."))
    lines = [(column["name"], in_words(column)) for column in told["columns"]]
    first.append(Table(("column", "what was found"), lines, "Columns"))
    parts = [Section("", first), *(Section(column["name"], _blocks(column)) for column in told["columns"])]
    page = Page("Profile of a table, released with differential privacy", parts, FOOTER)
    return rendered(page, markdown=markdown)


def _blocks(column: ColumnRecord) -> list[Block]:
    show = shower(column)
    blocks: list[Block] = [Text(in_words(column) + ".")]
    if "histogram" in column:
        scale = " (logarithmic scale)" if column["scale"] is not None and column["scale"]["log"] else ""
        edges = [show(edge) for edge in column["histogram"]["edges"]]
        blocks.append(Histogram(edges, column["histogram"]["counts"], f"Rows per bin of {column['name']}{scale}"))
        rows = [(f"{100 * entry['share']:.0f} % lie below", *_cells(entry, show)) for entry in column["quantiles"]]
        spread = "standard deviation" + (", in days" if column["kind"] == "date" else "")
        rows += [("mean", *_cells(column["mean"], show)), (spread, *_cells(column["spread"], grouped))]
        if "correlation" in column:
            rows.append(("correlation with the target", *_cells(column["correlation"], grouped)))
        blocks.append(Table(("", "value", "error bar"), rows, f"Numbers of {column['name']}", frozenset({1, 2})))
    elif "counts" in column:
        bars = [(str(entry["level"]), float(entry["value"]), _bar(entry)) for entry in column["counts"]]
        bars.append(("(any other)", float(column["other"]["value"]), _bar(column["other"])))
        blocks.append(Bars(bars, f"Rows per level of {column['name']}"))
    if "reads_as" in column:
        counts = [(name, _bar(count)) for name, count in column["reads_as"].items()]
        blocks.append(Table(("cells that read as", "count"), counts, "What decided the type", frozenset({1})))
    return blocks


def _cells(found: Score, show: Callable[[float], str]) -> tuple[str, str]:
    if found["value"] is None:
        return "not known", found["why"]
    return show(found["value"]), f"{show(found['low'])} … {show(found['high'])}"


def _bar(found: Known) -> str:
    return f"{found['value']:,.0f} ({found['low']:,.0f} … {found['high']:,.0f})"
