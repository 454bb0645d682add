"""A figure that a notebook shows also where pyplot was never imported."""

from __future__ import annotations

import io

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

LONG, LARGE, HUGE = 1_000, 10_000, 1e9  # from LARGE on numbers are written out; below it years have no comma


class ShownFigure(Figure):
    """A figure of matplotlib that knows its own picture."""

    def _repr_png_(self) -> bytes:
        made = io.BytesIO()
        self.savefig(made, format="png", dpi=90)
        return made.getvalue()


def plain_numbers(axes: Axes, sides: str = "xy") -> None:
    """Large numbers of these axes written out, with commas: an offset such as 1e6 beside an axis is easily missed.

    Of numbers with four digits, such as years, there are few, so that their labels do not run into each other.
    """
    for side in sides:
        axis = axes.xaxis if side == "x" else axes.yaxis
        largest = max(map(abs, axis.get_view_interval()))
        if LONG <= largest < LARGE:
            axis.set_major_locator(MaxNLocator(5, steps=(1, 2, 5, 10)))
        elif LARGE <= largest < HUGE:
            axis.set_major_locator(MaxNLocator(4))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}".replace("-", "\N{MINUS SIGN}")))
