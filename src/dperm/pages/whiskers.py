"""Coefficients with their intervals, on one scale: each times what its column usually moves by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dperm.inference.summary import Summary
from dperm.pages.charts import bar_table, number, signed
from dperm.pages.effects import column_and_levels, effects, spread_and_mean
from dperm.pages.subject import Subject
from dperm.pages.text import Table, cell_text, inline


class Whisker(NamedTuple):
    """A change of the outcome with its interval; `step` says what moves by how much."""

    name: str
    step: str
    estimate: float
    low: float
    high: float


def whiskers(subject: Subject, table: Summary) -> list[Whisker]:
    """Every coefficient of the table but intercepts: times a released deviation of its column, or its whole declared range where
    no spread was released; a flag or a level counts as it is. Empty for models without a coefficient per column."""
    encoding, found = subject.encoding, effects(subject)
    if encoding is None or not found:
        return []
    spread = spread_and_mean(subject)[0]
    steps = {place: effect for effect in found for place in effect.places}
    rows = []
    for place, row in enumerate(table.rows()):
        label = f"{table.classes[place * len(table.classes) // len(table.names)]}: " if table.classes else ""
        name = row["name"].removeprefix(label)
        if name not in encoding.names:  # an intercept
            continue
        j = encoding.names.index(name)
        effect, unit = steps[j], 1.0
        if effect.levels:
            step = f"instead of {column_and_levels([encoding.names[k] for k in effect.places])[1][0]}"
        else:
            step = effect.step
            if encoding.kinds[j] != "boolean":
                unit = float(encoding.width[j] * (1.0 if spread is None else spread[j]))
        rows.append(Whisker(row["name"], step, *(unit * row[key] for key in ("estimate", "low", "high"))))
    return rows


@dataclass(frozen=True)
class Whiskers:
    """Dots with lines through them, around zero, and the numbers beside each."""

    rows: Sequence[Whisker]
    caption: str

    def html(self) -> str:
        largest = max([abs(end) for row in self.rows for end in (row.low, row.high)] + [1e-300])
        lines = [
            f'<tr><th scope="row">{inline(f"{row.name} ({row.step})")}</th><td class="b">{_drawn(row, largest)}</td>'
            f'<td class="n i">{cell_text(_numbers(row))}</td></tr>'
            for row in self.rows
        ]
        return bar_table(self.caption, lines)

    def markdown(self) -> str:
        rows = [(f"{row.name} ({row.step})", _numbers(row)) for row in self.rows]
        return Table(("", "change"), rows, self.caption, frozenset({1})).markdown()


def _numbers(row: Whisker) -> str:
    return f"{signed(row.estimate)} ({number(row.low)} … {number(row.high)})"


def _drawn(row: Whisker, largest: float) -> str:
    """One interval; blue or orange where it is on one side of zero, grey where zero is in it."""
    colour = "var(--bar)" if row.low > 0 else "var(--neg)" if row.high < 0 else "var(--soft)"
    low, middle, high = (60 + 58 * value / largest for value in (row.low, row.estimate, row.high))
    ends = "".join(f'<line x1="{x:.2f}" x2="{x:.2f}" y1="3" y2="11" {_stroke(colour)}/>' for x in (low, high))
    return (
        '<svg class="bar" viewBox="0 0 120 14" preserveAspectRatio="none" aria-hidden="true">'
        f'<line x1="60" x2="60" y1="0" y2="14" {_stroke("var(--soft)", 1)}/>{ends}'
        f'<line x1="{low:.2f}" x2="{high:.2f}" y1="7" y2="7" {_stroke(colour)}/>'
        f'<rect x="{middle - 0.9:.2f}" y="3" width="1.8" height="8" fill="{colour}"/></svg>'
    )


def _stroke(colour: str, width: int = 2) -> str:
    return f'stroke="{colour}" stroke-width="{width}" vector-effect="non-scaling-stroke"'
