"""A figure that a notebook shows also where pyplot was never imported."""

from __future__ import annotations

import io

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

LARGE, HUGE = 10_000, 1e9  # between them numbers are written out; below them years have no comma


class ShownFigure(Figure):
    """A figure of matplotlib that knows its own picture."""

    def _repr_png_(self) -> bytes:
        made = io.BytesIO()
        self.savefig(made, format="png", dpi=90)
        return made.getvalue()


def plain_numbers(axes: Axes, sides: str = "xy") -> None:
    """Large numbers of these axes written out, with commas: an offset such as 1e6 beside an axis is easily missed."""
    for side in sides:
        axis = axes.xaxis if side == "x" else axes.yaxis
        if LARGE <= max(map(abs, axis.get_view_interval())) < HUGE:
            axis.set_major_locator(MaxNLocator(4))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}".replace("-", "\N{MINUS SIGN}")))
