"""A picture of coefficients with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING

from dperm.pages.whiskers import Whisker
from dperm.words.spelling import closest
from dperm.words.wording import in_percent, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 44  # characters of a line beside or below the axes: more would leave no room for them
COLOURS = {1: "#1f5fa8", -1: "#b3541e", 0: "#7a828c"}  # above zero, below it, both sides


def draw_coefficients(rows: Sequence[Whisker], names: str | Sequence[str] | None, outcome: str, level: float) -> Figure:
    """A matplotlib figure with a line per coefficient: estimate and interval, in the units of the outcome."""
    wanted = None if names is None else [names] if isinstance(names, str) else list(names)
    known = [row.name for row in rows]
    for word in wanted or ():
        if word not in known:
            raise ValueError(f"Expected names of coefficients, found {word!r}.{closest(word, known)} Names: {', '.join(known)}.")
    chosen = [row for row in rows if wanted is None or row.name in wanted]
    if not chosen:
        raise ValueError("Expected at least one coefficient beside the intercept, found none. Fit a column.")
    from dperm.estimators.shown_figure import ShownFigure, plain_numbers  # a second of start-up that only a picture should cost

    labels = [fill(printable(f"{row.name} ({row.step})"), WIDTH, max_lines=3) for row in chosen]
    lines = [label.count("\n") + 1 for label in labels]
    figure = ShownFigure(figsize=(6.4, 1.0 + len(chosen) * (0.18 + 0.14 * max(lines))), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(chosen):
        colour = COLOURS[(row.low > 0) - (row.high < 0)]
        axes.plot([row.low, row.high], [place, place], color=colour, linewidth=1.6)
        axes.plot([row.estimate], [place], marker="o", markersize=4.5, color=colour)
    axes.set_yticks(range(len(chosen)), labels, fontsize=8, parse_math=False)  # a name may hold signs of mathematics
    axes.invert_yaxis()
    axes.axvline(0.0, color="#888888", linewidth=0.6)
    label = fill(printable(f"change of the {outcome}, with {in_percent(level)} interval"), WIDTH)
    axes.set_xlabel(label, fontsize=8, parse_math=False)
    axes.tick_params(axis="x", labelsize=8)
    plain_numbers(axes, "x")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure
