"""The shapes of an additive model, and a picture of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from dperm.mechanisms.scaled.shape_noise import crowded
from dperm.problem.arrays import Vector
from dperm.words.spelling import closest
from dperm.words.wording import grouped, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINE, BARS = "#1f5fa8", "#b9c4d0"
TOGETHER = 8  # cells of the marginal in one bar: single ones show little but their noise
FOOT = 0.25  # of a panel's height, for the bars


@dataclass(frozen=True, eq=False)
class Shape:
    """What one numeric column adds to the margin (or to the prediction); its mean over the released marginal is 0.

    grid      middles of the 256 cells, in the column's units
    value     what a row adds that lies there; with several classes a row of 256 numbers for each
    missing   what a row adds whose cell is missing; None where the column has no missing cells by declaration
    marginal  the released, denoised share of the rows in each cell, and of missing cells at the end; the same in every cell where
              the fit paid for no histograms (`marginals_` of the model is then empty)
    classes   names of the classes, where there are several; otherwise there is one curve
    band      lower and upper end of 95 % of the noise that was added for privacy, point by point, or None where no formula covers
              the fit. That other rows would give another curve is not counted; nor is any of it after an edit of the shape.
    """

    name: str
    grid: Vector
    value: Vector
    missing: float | Vector | None
    marginal: Vector
    classes: tuple[str, ...] = ()
    band: Vector | None = None

    def __repr__(self) -> str:
        """One line: 256 numbers of each field would fill the screen."""
        low, high = float(np.min(self.value)), float(np.max(self.value))
        ends = f"{grouped(float(self.grid[0]))} … {grouped(float(self.grid[-1]))}"
        return f"Shape({printable(self.name)!r}, grid {ends}, value {grouped(low)} … {grouped(high)})"


def draw_shapes(shapes: Mapping[str, Shape], names: str | Sequence[str] | None = None, outcome: str = "") -> Figure:
    """A matplotlib figure with a panel per shape: its curve and band, and below it where the rows are by the released marginal.

    Where no histogram was paid for, there are no bars. Beyond the middle 99 % of that marginal the curve is dotted and has no
    band: few rows or none hold it there, and a panel ends a little beyond. `outcome` is what the curve adds to.
    """
    chosen = list(shapes) if names is None else [names] if isinstance(names, str) else list(names)
    unknown = [name for name in chosen if name not in shapes]
    if unknown:
        hint = closest(unknown[0], shapes)
        raise ValueError(f"Expected columns with a shape ({', '.join(shapes)}), found {unknown[0]!r}.{hint} Leave columns= out.")
    if not chosen:
        raise ValueError("Expected at least one column with a shape, found none. Only numeric columns have one.")
    from dperm.estimators.shown_figure import ShownFigure, plain_numbers  # a second of start-up that only a picture should cost

    wide = min(len(chosen), 3)
    high = math.ceil(len(chosen) / wide)
    figure = ShownFigure(figsize=(3.6 * wide, 2.6 * high), layout="constrained")
    axes = np.ravel(figure.subplots(high, wide, sharey=True))
    for place, name in enumerate(chosen):
        _panel(axes[place], shapes[name], f"adds to the {outcome}" if outcome else "adds", first=place % wide == 0)
    low, high = axes[0].get_ylim()  # shared by all panels
    if any(_told(shapes[name]) for name in chosen):
        axes[0].set_ylim(low - (high - low) * FOOT / (1 - FOOT), high)  # no curve runs through the bars
    for drawn in axes[: len(chosen)]:
        plain_numbers(drawn)
    for empty in axes[len(chosen) :]:
        empty.set_visible(False)
    return figure


def _told(shape: Shape) -> bool:
    """Whether the marginal says anything: where no histogram was paid for, all cells have the same share."""
    return bool(np.ptp(shape.marginal[: len(shape.grid)]) > 0)


def _panel(axes: Axes, shape: Shape, label: str, *, first: bool) -> None:
    width = shape.grid[1] - shape.grid[0]
    share = shape.marginal[: len(shape.grid)].reshape(-1, TOGETHER).sum(axis=1)
    behind = axes.twinx()
    if _told(shape):
        behind.bar(shape.grid.reshape(-1, TOGETHER).mean(axis=1), share, width=TOGETHER * width, color=BARS, linewidth=0)
    behind.set_ylim(0, max(float(share.max()), 1e-12) / (0.9 * FOOT))
    behind.set_yticks([])
    axes.set_zorder(behind.get_zorder() + 1)
    axes.patch.set_visible(False)
    curves, names, sure = np.atleast_2d(shape.value), shape.classes or ("",), crowded(shape.marginal)
    gaps = []
    for place, curve in enumerate(curves):
        colour = LINE if len(curves) == 1 else f"C{place % 10}"
        axes.step(shape.grid, curve, where="mid", color=colour, linewidth=0.9, alpha=0.45, linestyle=":")
        axes.step(shape.grid[sure], curve[sure], where="mid", color=colour, linewidth=1.4, label=printable(names[place]))
        if shape.missing is not None and shape.marginal[-1] > 0:  # some were found to be missing
            gap = float(np.atleast_1d(shape.missing)[place])
            place_of = shape.grid[sure][-1] + 0.05 * (shape.grid[sure][-1] - shape.grid[sure][0]) + 4 * width
            axes.plot([place_of], [gap], marker="D", markersize=4, color=colour, clip_on=False)
            gaps.append((gap, place_of - 3 * width))
    if gaps:
        axes.annotate("missing", max(gaps)[::-1], fontsize=7, ha="right", va="bottom")
    if shape.band is not None:
        low, high = shape.band[:, sure]
        axes.fill_between(shape.grid[sure], low, high, step="mid", color=LINE, alpha=0.2, linewidth=0)
    axes.axhline(0.0, color="#888888", linewidth=0.6)
    if first and shape.classes:
        for words in axes.legend(fontsize=6, frameon=False).get_texts():
            words.set_parse_math(False)
    title = fill(printable(shape.name), 42, max_lines=3)
    axes.set_title(title, fontsize=9, parse_math=False)  # a name may hold signs of mathematics
    axes.tick_params(labelsize=7)
    if first:
        axes.set_ylabel(fill(printable(label), 36), fontsize=8, parse_math=False)
    span = shape.grid[sure][-1] - shape.grid[sure][0]
    beyond = 0.08 * span + 8 * width  # room for the mark of missing cells
    left, right = shape.grid[sure][0] - beyond, shape.grid[sure][-1] + beyond
    axes.set_xlim(max(left, shape.grid[0] - 8 * width), min(right, shape.grid[-1] + 8 * width))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
        behind.spines[side].set_visible(False)
